/* Computes the checksums of rows of a log table for each span of blocks.
 * oracle/store/raw/raw_checksums.py does the same in Python, and handles the rows that are not supported
 * here. */
#include <stdio.h>

#include "native.h"

/* The prefix consists of three numbers of up to 20 digits, and their commas. */
#define MAX_PREFIX_SIZE 64
#define PARTS 4

/* The inputs, the finished sums, and the span that is being summed. */
typedef struct {
    PyObject *blocks, *sources, *sums;
    uint64_t span_blocks, span, rows;
    uint64_t number;
    PyObject *block;
    uint64_t total[PARTS];
} ChecksumState;

/* Get the content of a bytes or bytearray object. Return 0 for any other object. */
static int get_bytes(PyObject *object, const char **bytes, size_t *size) {
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

/* Get an unsigned integer of 64 bits. Return 0 for any other object. */
static int get_number(PyObject *object, uint64_t *number) {
    if (!PyLong_CheckExact(object)) return 0;
    *number = PyLong_AsUnsignedLongLong(object);
    if (!PyErr_Occurred()) return 1;
    PyErr_Clear();
    return 0;
}

/* Add a hash to the total, as a number of 256 bits. */
static void add_hash(uint64_t total[PARTS], const uint8_t hash[HASH_SIZE]) {
    uint64_t carry = 0;
    for (int part = PARTS - 1; part >= 0; part--) {
        uint64_t value = 0;
        for (int at = 0; at < 8; at++) value = value << 8 | hash[8 * part + at];
        unsigned __int128 sum = (unsigned __int128)total[part] + value + carry;
        total[part] = (uint64_t)sum;
        carry = (uint64_t)(sum >> 64);
    }
}

/* Append the sum of the current span, if it has rows, and begin a new span. Return -1 on an exception. */
static int begin_span(ChecksumState *state, uint64_t span) {
    uint8_t total[HASH_SIZE];
    int result = 0;
    for (int at = 0; at < HASH_SIZE; at++)
        total[at] = (uint8_t)(state->total[at / 8] >> 8 * (7 - at % 8));
    if (state->rows > 0) {
        PyObject *sum = Py_BuildValue("(KKy#)", (unsigned long long)state->span,
                                      (unsigned long long)state->rows, (const char *)total,
                                      (Py_ssize_t)HASH_SIZE);
        result = sum == NULL ? -1 : PyList_Append(state->sums, sum);
        Py_XDECREF(sum);
    }
    state->span = span;
    state->rows = 0;
    for (int part = 0; part < PARTS; part++) state->total[part] = 0;
    return result;
}

/* Find the bytes of a block. Return 0 if they are missing. */
static int find_block(ChecksumState *state, uint64_t number) {
    if (state->block != NULL && state->number == number) return 1;
    PyObject *key = PyLong_FromUnsignedLongLong(number);
    state->block = key == NULL ? NULL : PyDict_GetItemWithError(state->blocks, key);
    state->number = number;
    Py_XDECREF(key);
    return state->block != NULL;
}

/* Add one row. Return 0 if the row is not supported, or an exception is set. */
static int add_row(ChecksumState *state, PyObject *row) {
    uint64_t key, tx, source;
    const char *parts[5];
    size_t sizes[5];
    if (!PyTuple_CheckExact(row) || PyTuple_Size(row) != 6) return 0;
    if (!get_number(PyTuple_GetItem(row, 0), &key) || !get_number(PyTuple_GetItem(row, 1), &tx) ||
        !get_number(PyTuple_GetItem(row, 2), &source) ||
        source >= (uint64_t)PyList_Size(state->sources) ||
        !find_block(state, key >> LOG_INDEX_BITS))
        return 0;
    if (!get_bytes(state->block, &parts[0], &sizes[0]) ||
        !get_bytes(PyList_GetItem(state->sources, (Py_ssize_t)source), &parts[1], &sizes[1]))
        return 0;
    for (int at = 2; at < 5; at++)
        if (!get_bytes(PyTuple_GetItem(row, at + 1), &parts[at], &sizes[at])) return 0;
    uint64_t span = (key >> LOG_INDEX_BITS) / state->span_blocks;
    if ((state->rows == 0 || span != state->span) && begin_span(state, span) < 0) return 0;
    char head[MAX_PREFIX_SIZE];
    uint8_t hash[HASH_SIZE];
    Sha256 sha;
    int length = snprintf(head, sizeof head, "%llu,%llu,%zu,", (unsigned long long)key,
                          (unsigned long long)tx, sizes[3]);
    sha256_begin(&sha);
    sha256_add(&sha, head, (size_t)length);
    for (int at = 0; at < 5; at++) sha256_add(&sha, parts[at], sizes[at]);
    sha256_end(&sha, hash);
    add_hash(state->total, hash);
    state->rows++;
    return 1;
}

/* sum_row_hashes(rows, blocks, sources, blocks of a span) */
PyObject *native_sum_row_hashes(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *rows;
    unsigned long long span_blocks;
    ChecksumState state = {0};
    if (!PyArg_ParseTuple(arguments, "O!O!O!K", &PyList_Type, &rows, &PyDict_Type, &state.blocks,
                          &PyList_Type, &state.sources, &span_blocks))
        return NULL;
    if (span_blocks == 0) {
        PyErr_SetString(PyExc_ValueError, "the span has no blocks");
        return NULL;
    }
    state.span_blocks = span_blocks;
    state.sums = PyList_New(0);
    if (state.sums == NULL) return NULL;
    int is_supported = 1;
    /* Only exact types are read, so no Python code runs that could change the rows. */
    for (Py_ssize_t at = 0; is_supported && at < PyList_Size(rows); at++)
        is_supported = add_row(&state, PyList_GetItem(rows, at));
    if (is_supported) is_supported = begin_span(&state, 0) == 0;
    if (is_supported) return state.sums;
    Py_DECREF(state.sums);
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}
