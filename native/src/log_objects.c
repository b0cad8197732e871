/* Logs that were found, as `Log` objects and as rows of a log table, as oracle/domain/logs.py makes
 * them. */
#include <string.h>

#include "native.h"

#define WORD 32
/* A word, and the byte that gives its form. */
#define MOST_PACKED (WORD + 1)
/* Form bytes of packed words: without leading zeros, without trailing zeros, no whole word. */
#define LEADING 32
#define TRAILING 64
#define PARTIAL 96

/* Write a packed word; return how long it is. */
static size_t pack_word(const uint8_t *word, size_t size, uint8_t *to) {
    size_t leading = 0, trailing = 0;
    if (size < WORD) {
        to[0] = (uint8_t)(PARTIAL + size - 1);
        memcpy(to + 1, word, size);
        return 1 + size;
    }
    while (leading < WORD && word[leading] == 0) leading++;
    while (trailing < WORD && word[WORD - 1 - trailing] == 0) trailing++;
    if (leading > 0 && leading >= trailing) {
        to[0] = (uint8_t)(LEADING + WORD - leading);
        memcpy(to + 1, word + leading, WORD - leading);
        return 1 + WORD - leading;
    }
    to[0] = (uint8_t)(TRAILING + WORD - trailing - 1);
    memcpy(to + 1, word, WORD - trailing);
    return 1 + WORD - trailing;
}

static PyObject *pack_data(Buffer *scratch, Text data) {
    size_t size = data.size / 2 - 1, words = (size + WORD - 1) / WORD;
    scratch->size = 0;
    if (buffer_grow(scratch, size + words * MOST_PACKED + 1) < 0) return PyErr_NoMemory();
    uint8_t *bytes = scratch->bytes, *packed = bytes + size, *to = packed;
    hex_to_bytes(data, bytes);
    for (size_t at = 0; at < size; at += WORD)
        to += pack_word(bytes + at, size - at < WORD ? size - at : WORD, to);
    return PyByteArray_FromStringAndSize((char *)packed, to - packed);
}

static PyObject *later_topics(const LogText *log) {
    uint8_t bytes[MOST_TOPICS * HASH_SIZE];
    size_t count = log->topic_count > 0 ? log->topic_count - 1 : 0;
    for (size_t at = 0; at < count; at++) hex_to_bytes(log->topics[at + 1], bytes + at * HASH_SIZE);
    return PyByteArray_FromStringAndSize((char *)bytes, (Py_ssize_t)(count * HASH_SIZE));
}

static PyObject *text_object(Text text) {
    return PyUnicode_FromStringAndSize(text.text, (Py_ssize_t)text.size);
}

/* Put an item, whose reference is taken over, into a tuple; -1: there is none. */
static int put_item(PyObject *tuple, Py_ssize_t place, PyObject *item) {
    return item == NULL ? -1 : PyTuple_SetItem(tuple, place, item);
}

/* The slots of a `Log`, in their order. */
enum { BLOCK, BLOCK_HASH, TIME, TX, TX_HASH, INDEX, ADDRESS, TOPICS, DATA, SLOTS };
static const char *const SPELT[SLOTS] = {"block", "block_hash", "time",   "tx",  "tx_hash",
                                         "index", "address",    "topics", "data"};
static PyObject *names[SLOTS];

/* -1: Python has raised. */
int logs_begin(void) {
    for (int slot = 0; slot < SLOTS; slot++)
        if (names[slot] == NULL && !(names[slot] = PyUnicode_InternFromString(SPELT[slot])))
            return -1;
    return 0;
}

/* Set a slot to a value whose reference is taken over. */
static int set_slot(PyObject *log, int slot, PyObject *value) {
    if (value == NULL) return -1;
    int result = PyObject_SetAttr(log, names[slot], value);
    Py_DECREF(value);
    return result;
}

static PyObject *topics_object(const LogText *log, PyObject *first) {
    PyObject *topics = PyTuple_New((Py_ssize_t)log->topic_count);
    if (topics == NULL) return NULL;
    for (size_t at = 0; at < log->topic_count; at++)
        if (put_item(topics, (Py_ssize_t)at,
                     at == 0 ? Py_XNewRef(first) : text_object(log->topics[at])) < 0) {
            Py_DECREF(topics);
            return NULL;
        }
    return topics;
}

/* What the logs of one response share. */
typedef struct {
    PyTypeObject *log_class;
    newfunc make_empty;
    PyObject *no_arguments, *sources, *pairs;
    Buffer scratch;
    /* Of the log before: its texts, and what was made of them. */
    Text block_hash_text, tx_hash_text;
    PyObject *block_hash, *tx_hash, *tx_bytes;
} Making;

/* Put a value, whose reference is taken over, in place of another. */
static void replace(PyObject **place, PyObject *value) {
    PyObject *before = *place;
    *place = value;
    Py_XDECREF(before);
}

/* Make the objects that follow logs share with this one. -1: Python has raised. */
static int share_hashes(Making *making, const LogText *log) {
    if (making->block_hash == NULL || !text_equals(making->block_hash_text, log->block_hash)) {
        making->block_hash_text = log->block_hash;
        replace(&making->block_hash, text_object(log->block_hash));
    }
    if (making->tx_hash == NULL || !text_equals(making->tx_hash_text, log->tx_hash)) {
        uint8_t bytes[HASH_SIZE] = {0};
        hex_to_bytes(log->tx_hash, bytes);
        making->tx_hash_text = log->tx_hash;
        replace(&making->tx_hash, text_object(log->tx_hash));
        replace(&making->tx_bytes, PyByteArray_FromStringAndSize((char *)bytes, HASH_SIZE));
    }
    return making->block_hash == NULL || making->tx_hash == NULL || making->tx_bytes == NULL ? -1
                                                                                             : 0;
}

static PyObject *make_log(Making *making, const FoundLog *found, PyObject *pair) {
    PyObject *log = making->make_empty(making->log_class, making->no_arguments, NULL);
    if (log == NULL) return NULL;
    if (set_slot(log, BLOCK, PyLong_FromUnsignedLongLong(found->block)) < 0 ||
        set_slot(log, BLOCK_HASH, Py_NewRef(making->block_hash)) < 0 ||
        set_slot(log, TIME, PyLong_FromLongLong(found->time)) < 0 ||
        set_slot(log, TX, PyLong_FromUnsignedLongLong(found->tx)) < 0 ||
        set_slot(log, TX_HASH, Py_NewRef(making->tx_hash)) < 0 ||
        set_slot(log, INDEX, PyLong_FromUnsignedLongLong(found->index)) < 0 ||
        set_slot(log, ADDRESS, Py_XNewRef(PyTuple_GetItem(pair, 0))) < 0 ||
        set_slot(log, TOPICS, topics_object(&found->log, PyTuple_GetItem(pair, 1))) < 0 ||
        set_slot(log, DATA, text_object(found->log.data)) < 0)
        Py_CLEAR(log);
    return log;
}

static PyObject *make_row(Making *making, const FoundLog *found, PyObject *source) {
    PyObject *row = PyTuple_New(6);
    if (row == NULL) return NULL;
    if (put_item(row, 0,
                 PyLong_FromUnsignedLongLong(found->block << LOG_INDEX_BITS | found->index)) < 0 ||
        put_item(row, 1, PyLong_FromUnsignedLongLong(found->tx)) < 0 ||
        put_item(row, 2, Py_NewRef(source)) < 0 ||
        put_item(row, 3, Py_NewRef(making->tx_bytes)) < 0 ||
        put_item(row, 4, later_topics(&found->log)) < 0 ||
        put_item(row, 5, pack_data(&making->scratch, found->log.data)) < 0)
        Py_CLEAR(row);
    return row;
}

static int make_both(Making *making, const FoundLog *found, PyObject *logs, PyObject *rows) {
    PyObject *pair = PyTuple_GetItem(making->pairs, (Py_ssize_t)found->pair);
    if (pair == NULL || share_hashes(making, &found->log) < 0) return -1;
    PyObject *source = PyObject_GetItem(making->sources, pair);
    PyObject *log = source == NULL ? NULL : make_log(making, found, pair);
    PyObject *row = log == NULL ? NULL : make_row(making, found, source);
    int result =
        row != NULL && PyList_Append(logs, log) == 0 && PyList_Append(rows, row) == 0 ? 0 : -1;
    Py_XDECREF(row);
    Py_XDECREF(log);
    Py_XDECREF(source);
    return result;
}

/* Append the logs and their rows to two lists. -1: Python has raised. */
int found_append(const Found *found, const Wanted *wanted, const Target *target) {
    Making making = {.log_class = (PyTypeObject *)target->log_class,
                     .sources = target->sources,
                     .pairs = wanted->pairs};
    making.make_empty = (newfunc)PyType_GetSlot(making.log_class, Py_tp_new);
    making.no_arguments = PyTuple_New(0);
    int result = making.no_arguments == NULL ? -1 : 0;
    for (size_t at = 0; at < found->count && result == 0; at++)
        result = make_both(&making, &found->logs[at], target->logs, target->rows);
    Py_XDECREF(making.no_arguments);
    Py_XDECREF(making.block_hash);
    Py_XDECREF(making.tx_hash);
    Py_XDECREF(making.tx_bytes);
    buffer_free(&making.scratch);
    return result;
}
