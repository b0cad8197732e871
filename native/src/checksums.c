/* The checksums of rows of a log table, by span of blocks. oracle/store/raw/raw_checksums.py is the
 * same in Python; rows of an unusual form are left to it. */
#include <stdio.h>

#include "native.h"

/* Three numbers of 20 digits at most, and their commas. */
#define MOST_HEAD 64
#define PARTS 4

/* Rows and what they share, and the span that is summed at the moment. */
typedef struct {
    PyObject *blocks, *sources, *sums;
    uint64_t span_blocks, span, rows;
    uint64_t number;
    PyObject *block;
    uint64_t total[PARTS];
} Summing;

/* Take the bytes of a bytes or bytearray object; 0: it is neither. */
static int bytes_of(PyObject *object, const char **bytes, size_t *size) {
    if (PyBytes_CheckExact(object)) {
        *bytes = PyBytes_AsString(object);
        *size = (size_t)PyBytes_Size(object);
    } else if (PyByteArray_CheckExact(object)) {
        *bytes = PyByteArray_AsString(object);
        *size = (size_t)PyByteArray_Size(object);
    } else {
        return 0;
    }
    return 1;
}

/* Take a whole number of 64 bits; 0: it is none. */
static int number_of(PyObject *object, uint64_t *number) {
    if (!PyLong_CheckExact(object)) return 0;
    *number = PyLong_AsUnsignedLongLong(object);
    if (!PyErr_Occurred()) return 1;
    PyErr_Clear();
    return 0;
}

/* Add a hash, a number of 256 bits, to the total. */
static void add_hash(uint64_t total[PARTS], const uint8_t hash[HASH_SIZE]) {
    uint64_t carry = 0;
    for (int part = PARTS - 1; part >= 0; part--) {
        uint64_t value = 0;
        for (int place = 0; place < 8; place++) value = value << 8 | hash[8 * part + place];
        unsigned __int128 sum = (unsigned __int128)total[part] + value + carry;
        total[part] = (uint64_t)sum;
        carry = (uint64_t)(sum >> 64);
    }
}

/* Append the sum of the span, if it has rows, and begin another. -1: Python has raised. */
static int begin_span(Summing *summing, uint64_t span) {
    uint8_t total[HASH_SIZE];
    int result = 0;
    for (int place = 0; place < HASH_SIZE; place++)
        total[place] = (uint8_t)(summing->total[place / 8] >> 8 * (7 - place % 8));
    if (summing->rows > 0) {
        PyObject *sum = Py_BuildValue("(KKy#)", (unsigned long long)summing->span,
                                      (unsigned long long)summing->rows, (const char *)total,
                                      (Py_ssize_t)HASH_SIZE);
        result = sum == NULL ? -1 : PyList_Append(summing->sums, sum);
        Py_XDECREF(sum);
    }
    summing->span = span;
    summing->rows = 0;
    for (int part = 0; part < PARTS; part++) summing->total[part] = 0;
    return result;
}

/* Find the bytes of a block; 0: there are none. */
static int block_of(Summing *summing, uint64_t number) {
    if (summing->block != NULL && summing->number == number) return 1;
    PyObject *key = PyLong_FromUnsignedLongLong(number);
    summing->block = key == NULL ? NULL : PyDict_GetItemWithError(summing->blocks, key);
    summing->number = number;
    Py_XDECREF(key);
    return summing->block != NULL;
}

/* Add one row. 0: it is unusual, or Python has raised. */
static int add_row(Summing *summing, PyObject *row) {
    uint64_t key, tx, source;
    const char *parts[5];
    size_t sizes[5];
    if (!PyTuple_CheckExact(row) || PyTuple_Size(row) != 6) return 0;
    if (!number_of(PyTuple_GetItem(row, 0), &key) || !number_of(PyTuple_GetItem(row, 1), &tx) ||
        !number_of(PyTuple_GetItem(row, 2), &source) ||
        source >= (uint64_t)PyList_Size(summing->sources) ||
        !block_of(summing, key >> LOG_INDEX_BITS))
        return 0;
    if (!bytes_of(summing->block, &parts[0], &sizes[0]) ||
        !bytes_of(PyList_GetItem(summing->sources, (Py_ssize_t)source), &parts[1], &sizes[1]))
        return 0;
    for (int at = 2; at < 5; at++)
        if (!bytes_of(PyTuple_GetItem(row, at + 1), &parts[at], &sizes[at])) return 0;
    uint64_t span = (key >> LOG_INDEX_BITS) / summing->span_blocks;
    if ((summing->rows == 0 || span != summing->span) && begin_span(summing, span) < 0) return 0;
    char head[MOST_HEAD];
    uint8_t hash[HASH_SIZE];
    Sha256 sha;
    int length = snprintf(head, sizeof head, "%llu,%llu,%zu,", (unsigned long long)key,
                          (unsigned long long)tx, sizes[3]);
    sha256_begin(&sha);
    sha256_add(&sha, head, (size_t)length);
    for (int at = 0; at < 5; at++) sha256_add(&sha, parts[at], sizes[at]);
    sha256_end(&sha, hash);
    add_hash(summing->total, hash);
    summing->rows++;
    return 1;
}

/* sum_row_hashes(rows, blocks, sources, blocks of a span) */
PyObject *native_sum_row_hashes(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *rows;
    unsigned long long span_blocks;
    Summing summing = {0};
    if (!PyArg_ParseTuple(arguments, "O!O!O!K", &PyList_Type, &rows, &PyDict_Type, &summing.blocks,
                          &PyList_Type, &summing.sources, &span_blocks))
        return NULL;
    if (span_blocks == 0) {
        PyErr_SetString(PyExc_ValueError, "a span of no blocks");
        return NULL;
    }
    summing.span_blocks = span_blocks;
    summing.sums = PyList_New(0);
    if (summing.sums == NULL) return NULL;
    int is_usual = 1;
    /* Only exact types are read, so no Python code runs that could change the rows. */
    for (Py_ssize_t at = 0; is_usual && at < PyList_Size(rows); at++)
        is_usual = add_row(&summing, PyList_GetItem(rows, at));
    if (is_usual) is_usual = begin_span(&summing, 0) == 0;
    if (is_usual) return summing.sums;
    Py_DECREF(summing.sums);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
