/* Reads the logs of responses, and keeps those that match a filter. oracle/chain/log_filter.py is
 * the same in Python, and decides everything that is unusual. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define MAX_LOG_INDEX ((1U << LOG_INDEX_BITS) - 1)
/* A row's key must fit into 63 bits. */
#define MAX_BLOCK ((1ULL << (63 - LOG_INDEX_BITS)) - 1)
/* Timestamps from here on are milliseconds. */
#define END_OF_TIME (1ULL << 34)
#define UNKNOWN_TIME (-1)

/* --- one log --- */

static int read_topic(Cursor *cursor, Text name, void *into) {
    (void)name;
    LogText *log = into;
    return log->topic_count < MOST_TOPICS && json_string(cursor, &log->topics[log->topic_count++]);
}

/* Read a string into a field that must not have been read before. */
static int read_once(Cursor *cursor, Text *field) {
    return field->text == NULL && json_string(cursor, field);
}

static int read_log_member(Cursor *cursor, Text name, void *into) {
    LogText *log = into;
    if (text_is(name, "address")) return read_once(cursor, &log->address);
    if (text_is(name, "data")) return read_once(cursor, &log->data);
    if (text_is(name, "blockNumber")) return read_once(cursor, &log->block_number);
    if (text_is(name, "blockHash")) return read_once(cursor, &log->block_hash);
    if (text_is(name, "transactionHash")) return read_once(cursor, &log->tx_hash);
    if (text_is(name, "transactionIndex")) return read_once(cursor, &log->tx);
    if (text_is(name, "logIndex")) return read_once(cursor, &log->index);
    if (text_is(name, "blockTimestamp"))
        return !log->has_time++ &&
               (json_literal(cursor, "null") || json_string(cursor, &log->time));
    if (text_is(name, "removed"))
        return json_literal(cursor, "false") || json_literal(cursor, "null");
    if (!text_is(name, "topics")) return json_skip(cursor);
    if (log->has_topics) return 0;
    log->has_topics = 1;
    return json_members(cursor, 0, read_topic, log);
}

static int is_quantity(Text text) { return text.size >= 3 && text.size <= 66; }

/* Read a log all of whose fields have the right length. */
int log_read(Cursor *cursor, LogText *log) {
    *log = (LogText){0};
    if (!json_members(cursor, 1, read_log_member, log)) return 0;
    for (size_t at = 0; at < log->topic_count; at++)
        if (log->topics[at].size != 2 + 2 * HASH_SIZE) return 0;
    return log->has_topics && log->address.size == 42 && log->data.text != NULL &&
           log->block_hash.size == 66 && log->tx_hash.size == 66 &&
           is_quantity(log->block_number) && is_quantity(log->tx) && is_quantity(log->index);
}

/* --- which logs are wanted --- */

static int read_texts(PyObject *tuple, Text *texts, size_t count, size_t size) {
    for (size_t at = 0; at < count; at++) {
        Py_ssize_t length;
        PyObject *item = PyTuple_GetItem(tuple, (Py_ssize_t)at);
        if (item == NULL) return -1;
        const char *text = PyUnicode_AsUTF8AndSize(item, &length);
        if (text == NULL) return -1;
        if ((size_t)length != size) {
            PyErr_SetString(PyExc_ValueError, "an address or topic of another length");
            return -1;
        }
        texts[at] = (Text){text, size};
    }
    return 0;
}

/* Take a filter: tuples of addresses, of first topics, and of their pairs, the topics of the first
 * address first. -1: Python has raised. */
int wanted_open(Wanted *wanted, PyObject *filter) {
    *wanted = (Wanted){0};
    PyObject *addresses, *topics, *pairs;
    if (!PyArg_ParseTuple(filter, "O!O!O!", &PyTuple_Type, &addresses, &PyTuple_Type, &topics,
                          &PyTuple_Type, &pairs))
        return -1;
    size_t address_count = (size_t)PyTuple_Size(addresses),
           topic_count = (size_t)PyTuple_Size(topics);
    if ((size_t)PyTuple_Size(pairs) != address_count * topic_count) {
        PyErr_SetString(PyExc_ValueError, "a pair for each address and topic is needed");
        return -1;
    }
    Text *texts = calloc(address_count + topic_count + 1, sizeof(Text));
    if (texts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *wanted = (Wanted){texts, texts + address_count, address_count, topic_count, pairs};
    if (read_texts(addresses, texts, address_count, 42) < 0 ||
        read_texts(topics, texts + address_count, topic_count, 66) < 0) {
        wanted_close(wanted);
        return -1;
    }
    return 0;
}

void wanted_close(Wanted *wanted) { free(wanted->addresses); }

static size_t place_in(const Text *texts, size_t count, Text text) {
    size_t at = 0;
    while (at < count && memcmp(texts[at].text, text.text, text.size) != 0) at++;
    return at;
}

/* Find the pair of a log of `log_read`; 0: it may match in another spelling. `pair` is NO_PAIR if
 * the log does not match. */
int wanted_find(const Wanted *wanted, const LogText *log, size_t *pair) {
    *pair = NO_PAIR;
    if (!hex_is_lower(log->address)) return 0;
    if (log->topic_count == 0) return 1;
    if (!hex_is_lower(log->topics[0])) return 0;
    size_t address = place_in(wanted->addresses, wanted->address_count, log->address);
    if (address == wanted->address_count) return 1;
    size_t topic = place_in(wanted->topics, wanted->topic_count, log->topics[0]);
    if (topic < wanted->topic_count) *pair = address * wanted->topic_count + topic;
    return 1;
}

/* --- the logs that are found --- */

/* Keep a log. 0: its texts are unusual, or there is no memory. */
int found_add(Found *found, const LogText *log, size_t pair, uint64_t block, uint64_t tx,
              uint64_t index, int64_t time) {
    static const char NO_TRANSACTION[] =
        "0x0000000000000000000000000000000000000000000000000000000000000000";
    if (block > MAX_BLOCK || tx > MAX_LOG_INDEX || index > MAX_LOG_INDEX) return 0;
    if (!hex_is_lower(log->data) || log->data.size % 2 || !hex_is_lower(log->tx_hash) ||
        !hex_is_lower(log->block_hash) || text_is(log->tx_hash, NO_TRANSACTION))
        return 0;
    for (size_t at = 1; at < log->topic_count; at++)
        if (!hex_is_lower(log->topics[at])) return 0;
    if (found->count == found->room) {
        size_t room = 2 * found->room + 64;
        FoundLog *logs = room > SIZE_MAX / sizeof(FoundLog)
                             ? NULL
                             : realloc(found->logs, room * sizeof(FoundLog));
        if (logs == NULL) return 0;
        found->logs = logs;
        found->room = room;
    }
    found->logs[found->count++] = (FoundLog){*log, pair, block, tx, index, time};
    return 1;
}

void found_free(Found *found) {
    free(found->logs);
    *found = (Found){0};
}

/* --- eth_getLogs --- */

typedef struct {
    const Wanted *wanted;
    Found found;
    uint64_t first, last;
    /* The texts of the block of the log before. */
    Text number, time_text;
    uint64_t block;
    int64_t time;
} Reading;

static int read_time(Text text, int64_t *time) {
    uint64_t seconds;
    *time = UNKNOWN_TIME;
    if (text.text == NULL) return 1;
    if (!hex_to_number(text, &seconds) || seconds == 0 || seconds >= END_OF_TIME) return 0;
    *time = (int64_t)seconds;
    return 1;
}

static int read_returned_log(Cursor *cursor, Text name, void *into) {
    (void)name;
    Reading *reading = into;
    LogText log;
    size_t pair;
    uint64_t block, tx, index;
    if (!log_read(cursor, &log) || !wanted_find(reading->wanted, &log, &pair) || pair == NO_PAIR)
        return 0;
    if (!hex_to_number(log.block_number, &block) || !hex_to_number(log.tx, &tx) ||
        !hex_to_number(log.index, &index))
        return 0;
    const FoundLog *before =
        reading->found.count > 0 ? &reading->found.logs[reading->found.count - 1] : NULL;
    if (before != NULL && before->block == block) {
        if (before->index >= index || !text_equals(before->log.block_hash, log.block_hash) ||
            !text_equals(before->log.block_number, log.block_number) ||
            (before->log.time.text == NULL) != (log.time.text == NULL) ||
            !text_equals(before->log.time, log.time))
            return 0;
    } else if ((before != NULL && before->block > block) || !read_time(log.time, &reading->time)) {
        return 0;
    }
    return block >= reading->first && block <= reading->last &&
           found_add(&reading->found, &log, pair, block, tx, index, reading->time);
}

/* read_logs(response, filter, first, last, (Log, sources, logs, rows)) */
PyObject *native_read_logs(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *content;
    Py_ssize_t size;
    PyObject *filter;
    unsigned long long first, last;
    Target target;
    if (!PyArg_ParseTuple(arguments, "y#O!KK(O!O!O!O!)", &content, &size, &PyTuple_Type, &filter,
                          &first, &last, &PyType_Type, &target.log_class, &PyDict_Type,
                          &target.sources, &PyList_Type, &target.logs, &PyList_Type, &target.rows))
        return NULL;
    Wanted wanted;
    if (wanted_open(&wanted, filter) < 0) return NULL;
    Reading reading = {.wanted = &wanted, .first = first, .last = last};
    Cursor cursor = {content, content + size};
    int is_ordinary =
        json_members(&cursor, 0, read_returned_log, &reading) && json_is_done(&cursor);
    int failed = is_ordinary && found_append(&reading.found, &wanted, &target) < 0;
    found_free(&reading.found);
    wanted_close(&wanted);
    if (failed) return NULL;
    return PyBool_FromLong(is_ordinary);
}
