/* The receipts root of a block from its receipts as endpoints write them, in hex
 * (EIP-2718, types 0 to 4). oracle/chain/proofs/receipts.py is the same in Python, and the
 * only place where unusual spellings are judged: what is not written in the ordinary way here is
 * no error, the answer is None. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define BLOOM_SIZE 256
#define MOST_TOPICS 4
#define LAST_TYPE 4
/* A quantity of more bytes than this is none. */
#define MOST_QUANTITY 32

/* How reading went: ordinary, not written in the ordinary way, or Python has raised. */
typedef enum { ORDINARY, UNUSUAL, RAISED } Read;

/* Text of a str; it belongs to the str. */
typedef struct {
    const char *text;
    size_t size;
} Text;

/* What a digit of either case is worth, and 1 more: 0 is no digit. */
static const uint8_t WORTH[256] = {
    ['0'] = 1,  ['1'] = 2,  ['2'] = 3,  ['3'] = 4,  ['4'] = 5,  ['5'] = 6,  ['6'] = 7,  ['7'] = 8,
    ['8'] = 9,  ['9'] = 10, ['a'] = 11, ['b'] = 12, ['c'] = 13, ['d'] = 14, ['e'] = 15, ['f'] = 16,
    ['A'] = 11, ['B'] = 12, ['C'] = 13, ['D'] = 14, ['E'] = 15, ['F'] = 16,
};

/* More than 15: no digit. */
static inline unsigned nibble_of(char digit) { return WORTH[(uint8_t)digit] - 1U; }

/* Take the digits behind the 0x. */
static Read hex_of(PyObject *said, Text *hex) {
    if (!PyUnicode_Check(said)) return UNUSUAL;
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(said, &size);
    if (text == NULL) {
        /* A lone surrogate: no hex. */
        PyErr_Clear();
        return UNUSUAL;
    }
    if (size < 2 || text[0] != '0' || text[1] != 'x') return UNUSUAL;
    *hex = (Text){text + 2, (size_t)size - 2};
    return ORDINARY;
}

static Read put_hex(Buffer *out, Text hex) {
    if (hex.size % 2) return UNUSUAL;
    if (buffer_grow(out, hex.size / 2) < 0) return ORDINARY;
    uint8_t *to = out->bytes + out->size;
    unsigned strange = 0;
    for (size_t at = 0; at < hex.size; at += 2) {
        unsigned high = nibble_of(hex.text[at]), low = nibble_of(hex.text[at + 1]);
        strange |= high | low;
        *to++ = (uint8_t)(high << 4 | low);
    }
    out->size += hex.size / 2;
    return strange > 15 ? UNUSUAL : ORDINARY;
}

/* Write a string of just so many bytes, two at least. */
static Read put_fixed(Buffer *out, PyObject *said, size_t size) {
    Text hex;
    Read read = hex_of(said, &hex);
    if (read != ORDINARY) return read;
    if (hex.size != 2 * size) return UNUSUAL;
    uint8_t head[HEAD_ROOM];
    buffer_put(out, head, rlp_head(head, 0x80, size));
    return put_hex(out, hex);
}

static Read put_string(Buffer *out, PyObject *said) {
    Text hex;
    Read read = hex_of(said, &hex);
    if (read != ORDINARY) return read;
    size_t size = hex.size / 2;
    /* A byte below 0x80 is its own encoding. */
    if (size != 1 || nibble_of(hex.text[0]) >= 8) {
        uint8_t head[HEAD_ROOM];
        buffer_put(out, head, rlp_head(head, 0x80, size));
    }
    return put_hex(out, hex);
}

static Read put_quantity(Buffer *out, PyObject *said) {
    Text hex;
    Read read = hex_of(said, &hex);
    if (read != ORDINARY) return read;
    if (hex.size == 0 || hex.size > 2 * MOST_QUANTITY) return UNUSUAL;
    uint8_t bytes[MOST_QUANTITY] = {0};
    for (size_t at = 0; at < hex.size; at++) {
        unsigned nibble = nibble_of(hex.text[at]);
        if (nibble > 15) return UNUSUAL;
        size_t place = hex.size - 1 - at;
        bytes[MOST_QUANTITY - 1 - place / 2] |= (uint8_t)(nibble << 4 * (place % 2));
    }
    size_t first = 0;
    while (first < MOST_QUANTITY && bytes[first] == 0) first++;
    rlp_string(out, bytes + first, MOST_QUANTITY - first);
    return ORDINARY;
}

/* `0x` and one digit up to `most`. */
static Read digit_of(PyObject *said, unsigned most, unsigned *digit) {
    Text hex;
    Read read = hex_of(said, &hex);
    if (read != ORDINARY) return read;
    *digit = hex.size == 1 ? nibble_of(hex.text[0]) : most + 1;
    return *digit > most ? UNUSUAL : ORDINARY;
}

/* What is read of ProvenReceipt and LogResponse. */
typedef enum { ROOT, TYPE, STATUS, GAS, BLOOM, LOGS, ADDRESS, TOPICS, DATA, FIELDS } Field;

static const char *const SPELT[FIELDS] = {
    "root", "type",    "status", "cumulative_gas_used", "logs_bloom",
    "logs", "address", "topics", "data",
};
/* The same as str, made once and kept. */
static PyObject *names[FIELDS];

/* -1: Python has raised. */
int receipts_begin(void) {
    for (int field = 0; field < FIELDS; field++)
        if (names[field] == NULL && !(names[field] = PyUnicode_InternFromString(SPELT[field])))
            return -1;
    return 0;
}

/* What is done with an attribute of a Python object. */
typedef Read (*Taken)(void *into, PyObject *value);

static Read with(PyObject *of, Field field, Taken taken, void *into) {
    PyObject *value = PyObject_GetAttr(of, names[field]);
    if (value == NULL) return RAISED;
    Read read = taken(into, value);
    Py_DECREF(value);
    return read;
}

static Read take_address(void *out, PyObject *said) { return put_fixed(out, said, 20); }
static Read take_bloom(void *out, PyObject *said) { return put_fixed(out, said, BLOOM_SIZE); }
static Read take_quantity(void *out, PyObject *said) { return put_quantity(out, said); }
static Read take_data(void *out, PyObject *said) { return put_string(out, said); }
static Read take_type(void *type, PyObject *said) { return digit_of(said, LAST_TYPE, type); }
static Read take_none(void *nothing, PyObject *said) {
    (void)nothing;
    return said == Py_None ? ORDINARY : UNUSUAL;
}

static Read take_status(void *out, PyObject *said) {
    static const uint8_t OUTCOMES[] = {0x80, 0x01};
    unsigned status;
    Read read = digit_of(said, 1, &status);
    if (read == ORDINARY) buffer_put(out, &OUTCOMES[status], 1);
    return read;
}

static Read take_topics(void *into, PyObject *topics) {
    Buffer *out = into;
    if (!PyTuple_Check(topics) || PyTuple_Size(topics) > MOST_TOPICS) return UNUSUAL;
    size_t opened = rlp_list_open(out);
    for (Py_ssize_t at = 0; at < PyTuple_Size(topics); at++) {
        Read read = put_fixed(out, PyTuple_GetItem(topics, at), HASH_SIZE);
        if (read != ORDINARY) return read;
    }
    rlp_list_close(out, opened);
    return ORDINARY;
}

static Read put_log(Buffer *out, PyObject *log) {
    size_t opened = rlp_list_open(out);
    Read read = with(log, ADDRESS, take_address, out);
    if (read == ORDINARY) read = with(log, TOPICS, take_topics, out);
    if (read == ORDINARY) read = with(log, DATA, take_data, out);
    if (read == ORDINARY) rlp_list_close(out, opened);
    return read;
}

static Read take_logs(void *into, PyObject *logs) {
    Buffer *out = into;
    if (!PyList_Check(logs)) return UNUSUAL;
    /* A zero bloom beside logs was not filled in: Python makes one. */
    size_t bloom = out->size - BLOOM_SIZE, lit = 0;
    if (out->failed) return ORDINARY;
    while (lit < BLOOM_SIZE && out->bytes[bloom + lit] == 0) lit++;
    if (lit == BLOOM_SIZE && PyList_Size(logs) > 0) return UNUSUAL;
    size_t opened = rlp_list_open(out);
    for (Py_ssize_t at = 0; at < PyList_Size(logs); at++) {
        /* A reference of our own: reading an attribute may run Python code, which may empty the
         * list. */
        PyObject *log = Py_XNewRef(PyList_GetItem(logs, at));
        if (log == NULL) return RAISED;
        Read read = put_log(out, log);
        Py_DECREF(log);
        if (read != ORDINARY) return read;
    }
    rlp_list_close(out, opened);
    return ORDINARY;
}

static Read put_receipt(Buffer *out, PyObject *receipt) {
    unsigned type = 0;
    Read read = with(receipt, ROOT, take_none, NULL);
    if (read == ORDINARY) read = with(receipt, TYPE, take_type, &type);
    if (read != ORDINARY) return read;
    uint8_t kind = (uint8_t)type;
    if (kind > 0) buffer_put(out, &kind, 1);
    size_t opened = rlp_list_open(out);
    read = with(receipt, STATUS, take_status, out);
    if (read == ORDINARY) read = with(receipt, GAS, take_quantity, out);
    if (read == ORDINARY) read = with(receipt, BLOOM, take_bloom, out);
    if (read == ORDINARY) read = with(receipt, LOGS, take_logs, out);
    if (read == ORDINARY) rlp_list_close(out, opened);
    return read;
}

/* Write the receipts one behind the other, and where each begins; `leaves` point nowhere yet. */
static Read put_receipts(Buffer *out, PyObject *receipts, Leaf *leaves, size_t count) {
    for (size_t at = 0; at < count; at++) {
        PyObject *receipt = Py_XNewRef(PyList_GetItem(receipts, (Py_ssize_t)at));
        if (receipt == NULL) return RAISED;
        size_t before = out->size;
        Read read = put_receipt(out, receipt);
        Py_DECREF(receipt);
        if (read != ORDINARY) return read;
        leaves[at] = (Leaf){NULL, out->size - before};
    }
    return ORDINARY;
}

static PyObject *root_of(const Buffer *written, Leaf *leaves, size_t count) {
    uint8_t hash[HASH_SIZE];
    size_t begun = 0;
    for (size_t at = 0; at < count; begun += leaves[at++].size)
        leaves[at].bytes = written->bytes + begun;
    /* With the interpreter's lock: a block takes a fraction of what handing it over may. */
    if (list_root(leaves, count, hash) < 0) return PyErr_NoMemory();
    return PyBytes_FromStringAndSize((char *)hash, HASH_SIZE);
}

PyObject *native_compute_receipts_root(PyObject *module, PyObject *receipts) {
    (void)module;
    if (!PyList_Check(receipts)) Py_RETURN_NONE;
    size_t count = (size_t)PyList_Size(receipts);
    Leaf *leaves = calloc(count + 1, sizeof(Leaf));
    if (leaves == NULL) return PyErr_NoMemory();
    Buffer written = {0};
    Read read = put_receipts(&written, receipts, leaves, count);
    PyObject *root = NULL;
    if (read == ORDINARY)
        root = written.failed ? PyErr_NoMemory() : root_of(&written, leaves, count);
    else if (read == UNUSUAL)
        root = Py_NewRef(Py_None);
    buffer_free(&written);
    free(leaves);
    return root;
}
