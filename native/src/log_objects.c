/* Makes `Log` objects and rows of a log table from matching logs, as oracle/domain/logs.py does. */
#include <string.h>

#include "native.h"

#define WORD 32
/* The longest packed word: a form byte and a complete word. */
#define MAX_PACKED_SIZE (WORD + 1)
/* The form byte of a packed word: without its leading zeros, without its trailing zeros, or incomplete. */
#define LEADING 32
#define TRAILING 64
#define PARTIAL 96

/* Write a packed word, and return its length. */
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
    if (buffer_grow(scratch, size + words * MAX_PACKED_SIZE + 1) < 0) return PyErr_NoMemory();
    uint8_t *bytes = scratch->bytes, *packed = bytes + size, *to = packed;
    hex_to_bytes(data, bytes);
    for (size_t at = 0; at < size; at += WORD)
        to += pack_word(bytes + at, size - at < WORD ? size - at : WORD, to);
    return PyByteArray_FromStringAndSize((char *)packed, to - packed);
}

static PyObject *pack_later_topics(const LogText *log) {
    uint8_t bytes[MAX_TOPICS * HASH_SIZE];
    size_t count = log->topic_count > 0 ? log->topic_count - 1 : 0;
    for (size_t at = 0; at < count; at++) hex_to_bytes(log->topics[at + 1], bytes + at * HASH_SIZE);
    return PyByteArray_FromStringAndSize((char *)bytes, (Py_ssize_t)(count * HASH_SIZE));
}

static PyObject *make_text(Text text) {
    return PyUnicode_FromStringAndSize(text.text, (Py_ssize_t)text.size);
}

/* Set an item of a tuple, which takes over the reference. Return -1 if the item is NULL. */
static int set_item(PyObject *tuple, Py_ssize_t index, PyObject *item) {
    return item == NULL ? -1 : PyTuple_SetItem(tuple, index, item);
}

/* The slots of a `Log`, in their order. */
enum { BLOCK, BLOCK_HASH, TIME, TX, TX_HASH, INDEX, ADDRESS, TOPICS, DATA, SLOTS };
static const char *const SLOT_NAMES[SLOTS] = {"block", "block_hash", "time",   "tx",  "tx_hash",
                                         "index", "address",    "topics", "data"};
static PyObject *interned_names[SLOTS];

/* Intern the names of the slots. Return -1 on an exception. */
int logs_init(void) {
    for (int slot = 0; slot < SLOTS; slot++)
        if (interned_names[slot] == NULL && !(interned_names[slot] = PyUnicode_InternFromString(SLOT_NAMES[slot])))
            return -1;
    return 0;
}

static PyObject *make_topics(const LogText *log, PyObject *first) {
    PyObject *topics = PyTuple_New((Py_ssize_t)log->topic_count);
    if (topics == NULL) return NULL;
    for (size_t at = 0; at < log->topic_count; at++)
        if (set_item(topics, (Py_ssize_t)at,
                     at == 0 ? Py_XNewRef(first) : make_text(log->topics[at])) < 0) {
            Py_DECREF(topics);
            return NULL;
        }
    return topics;
}

/* The values that the logs of a response share. */
typedef struct {
    PyTypeObject *log_class;
    newfunc make_empty;
    /* The descriptors of the slots, and their functions that set a value. Calling a function directly saves
     * a lookup in the class for each value. */
    PyObject *slots[SLOTS];
    descrsetfunc set_slot[SLOTS];
    PyObject *no_arguments, *sources, *pairs;
    Buffer scratch;
    /* The hashes of the previous log, as text and as objects. */
    Text block_hash_text, tx_hash_text;
    PyObject *block_hash, *tx_hash, *tx_bytes;
} LogFactory;

/* Store a value, take over its reference, and release the previous value. */
static void replace(PyObject **slot, PyObject *value) {
    PyObject *previous = *slot;
    *slot = value;
    Py_XDECREF(previous);
}

/* Make the hash objects of a log, unless the previous log has the same hashes. Return -1 on an exception. */
static int cache_hashes(LogFactory *factory, const LogText *log) {
    if (factory->block_hash == NULL || !text_equals(factory->block_hash_text, log->block_hash)) {
        factory->block_hash_text = log->block_hash;
        replace(&factory->block_hash, make_text(log->block_hash));
    }
    if (factory->tx_hash == NULL || !text_equals(factory->tx_hash_text, log->tx_hash)) {
        uint8_t bytes[HASH_SIZE] = {0};
        hex_to_bytes(log->tx_hash, bytes);
        factory->tx_hash_text = log->tx_hash;
        replace(&factory->tx_hash, make_text(log->tx_hash));
        replace(&factory->tx_bytes, PyByteArray_FromStringAndSize((char *)bytes, HASH_SIZE));
    }
    return factory->block_hash == NULL || factory->tx_hash == NULL || factory->tx_bytes == NULL ? -1
                                                                                             : 0;
}

/* Find the descriptors of the slots. Return -1 on an exception. */
static int find_slots(LogFactory *factory) {
    for (int slot = 0; slot < SLOTS; slot++) {
        PyObject *descriptor = PyObject_GetAttr((PyObject *)factory->log_class, interned_names[slot]);
        if (descriptor == NULL) return -1;
        factory->slots[slot] = descriptor;
        factory->set_slot[slot] = (descrsetfunc)PyType_GetSlot(Py_TYPE(descriptor), Py_tp_descr_set);
        if (factory->set_slot[slot] == NULL) {
            PyErr_SetString(PyExc_TypeError, "the class of logs has no slots");
            return -1;
        }
    }
    return 0;
}

/* Set a slot, and release the reference to the value. */
static int set_slot(const LogFactory *factory, PyObject *log, int slot, PyObject *value) {
    if (value == NULL) return -1;
    int result = factory->set_slot[slot](factory->slots[slot], log, value);
    Py_DECREF(value);
    return result;
}

static PyObject *make_log(LogFactory *factory, const MatchingLog *match, PyObject *pair) {
    PyObject *log = factory->make_empty(factory->log_class, factory->no_arguments, NULL);
    if (log == NULL) return NULL;
    if (set_slot(factory, log, BLOCK, PyLong_FromUnsignedLongLong(match->block)) < 0 ||
        set_slot(factory, log, BLOCK_HASH, Py_NewRef(factory->block_hash)) < 0 ||
        set_slot(factory, log, TIME, PyLong_FromLongLong(match->time)) < 0 ||
        set_slot(factory, log, TX, PyLong_FromUnsignedLongLong(match->tx)) < 0 ||
        set_slot(factory, log, TX_HASH, Py_NewRef(factory->tx_hash)) < 0 ||
        set_slot(factory, log, INDEX, PyLong_FromUnsignedLongLong(match->index)) < 0 ||
        set_slot(factory, log, ADDRESS, Py_XNewRef(PyTuple_GetItem(pair, 0))) < 0 ||
        set_slot(factory, log, TOPICS, make_topics(&match->log, PyTuple_GetItem(pair, 1))) < 0 ||
        set_slot(factory, log, DATA, make_text(match->log.data)) < 0)
        Py_CLEAR(log);
    return log;
}

static PyObject *make_row(LogFactory *factory, const MatchingLog *match, PyObject *source) {
    PyObject *row = PyTuple_New(6);
    if (row == NULL) return NULL;
    if (set_item(row, 0,
                 PyLong_FromUnsignedLongLong(match->block << LOG_INDEX_BITS | match->index)) < 0 ||
        set_item(row, 1, PyLong_FromUnsignedLongLong(match->tx)) < 0 ||
        set_item(row, 2, Py_NewRef(source)) < 0 ||
        set_item(row, 3, Py_NewRef(factory->tx_bytes)) < 0 ||
        set_item(row, 4, pack_later_topics(&match->log)) < 0 ||
        set_item(row, 5, pack_data(&factory->scratch, match->log.data)) < 0)
        Py_CLEAR(row);
    return row;
}

static int append_log_and_row(LogFactory *factory, const MatchingLog *match, PyObject *logs, PyObject *rows) {
    PyObject *pair = PyTuple_GetItem(factory->pairs, (Py_ssize_t)match->pair);
    if (pair == NULL || cache_hashes(factory, &match->log) < 0) return -1;
    PyObject *source = PyObject_GetItem(factory->sources, pair);
    PyObject *log = source == NULL ? NULL : make_log(factory, match, pair);
    PyObject *row = log == NULL ? NULL : make_row(factory, match, source);
    int result =
        row != NULL && PyList_Append(logs, log) == 0 && PyList_Append(rows, row) == 0 ? 0 : -1;
    Py_XDECREF(row);
    Py_XDECREF(log);
    Py_XDECREF(source);
    return result;
}

/* Append the logs and their rows to two lists. Return -1 on an exception. */
int matches_append(const LogMatches *matches, const LogFilter *filter, const Target *target) {
    LogFactory factory = {.log_class = (PyTypeObject *)target->log_class,
                     .sources = target->sources,
                     .pairs = filter->pairs};
    factory.make_empty = (newfunc)PyType_GetSlot(factory.log_class, Py_tp_new);
    factory.no_arguments = PyTuple_New(0);
    int result = factory.no_arguments == NULL ? -1 : find_slots(&factory);
    for (size_t at = 0; at < matches->count && result == 0; at++)
        result = append_log_and_row(&factory, &matches->logs[at], target->logs, target->rows);
    for (int slot = 0; slot < SLOTS; slot++) Py_XDECREF(factory.slots[slot]);
    Py_XDECREF(factory.no_arguments);
    Py_XDECREF(factory.block_hash);
    Py_XDECREF(factory.tx_hash);
    Py_XDECREF(factory.tx_bytes);
    buffer_free(&factory.scratch);
    return result;
}
