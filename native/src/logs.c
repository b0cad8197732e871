/* Reads the logs of responses, and keeps those that match a filter. oracle/chain/log_filter.py does the
 * same in Python, and handles the responses that are not supported here. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define MAX_LOG_INDEX ((1U << LOG_INDEX_BITS) - 1)
/* A row's key must fit into 63 bits. */
#define MAX_BLOCK ((1ULL << (63 - LOG_INDEX_BITS)) - 1)
/* From this value on, timestamps are in milliseconds. */
#define MILLISECONDS_FROM (1ULL << 34)
#define UNKNOWN_TIME (-1)

/* --- reading a log --- */

static int read_topic(Cursor *cursor, Text name, void *into) {
    (void)name;
    LogText *log = into;
    return log->topic_count < MAX_TOPICS && json_string(cursor, &log->topics[log->topic_count++]);
}

/* Read a string into a field. Return 0 if the field has been read before. */
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

/* Read a log. Return 0 if the log is not supported, or a field has the wrong length. */
int log_read(Cursor *cursor, LogText *log) {
    *log = (LogText){0};
    if (!json_members(cursor, 1, read_log_member, log)) return 0;
    for (size_t at = 0; at < log->topic_count; at++)
        if (log->topics[at].size != 2 + 2 * HASH_SIZE) return 0;
    return log->has_topics && log->address.size == 42 && log->data.text != NULL &&
           log->block_hash.size == 66 && log->tx_hash.size == 66 &&
           is_quantity(log->block_number) && is_quantity(log->tx) && is_quantity(log->index);
}

/* --- the filter --- */

static int read_texts(PyObject *tuple, Text *texts, size_t count, size_t size) {
    for (size_t at = 0; at < count; at++) {
        Py_ssize_t length;
        PyObject *item = PyTuple_GetItem(tuple, (Py_ssize_t)at);
        if (item == NULL) return -1;
        const char *text = PyUnicode_AsUTF8AndSize(item, &length);
        if (text == NULL) return -1;
        if ((size_t)length != size) {
            PyErr_SetString(PyExc_ValueError, "an address or topic has the wrong length");
            return -1;
        }
        texts[at] = (Text){text, size};
    }
    return 0;
}

/* Open a filter: tuples of addresses, of first topics, and of their pairs, beginning with the pairs of
 * the first address. Return -1 on an exception. */
int filter_open(LogFilter *filter, PyObject *arguments) {
    *filter = (LogFilter){0};
    PyObject *addresses, *topics, *pairs;
    if (!PyArg_ParseTuple(arguments, "O!O!O!", &PyTuple_Type, &addresses, &PyTuple_Type, &topics,
                          &PyTuple_Type, &pairs))
        return -1;
    size_t address_count = (size_t)PyTuple_Size(addresses),
           topic_count = (size_t)PyTuple_Size(topics);
    if ((size_t)PyTuple_Size(pairs) != address_count * topic_count) {
        PyErr_SetString(PyExc_ValueError, "expected a pair for each address and topic");
        return -1;
    }
    Text *texts = calloc(address_count + topic_count + 1, sizeof(Text));
    if (texts == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    *filter = (LogFilter){texts, texts + address_count, address_count, topic_count, pairs};
    if (read_texts(addresses, texts, address_count, 42) < 0 ||
        read_texts(topics, texts + address_count, topic_count, 66) < 0) {
        filter_close(filter);
        return -1;
    }
    return 0;
}

void filter_close(LogFilter *filter) { free(filter->addresses); }

static size_t find_text_index(const Text *texts, size_t count, Text text) {
    size_t at = 0;
    while (at < count && memcmp(texts[at].text, text.text, text.size) != 0) at++;
    return at;
}

/* Find the pair of a log; `pair` is NO_PAIR if the log does not match. Return 0 if its hex digits are not
 * in lower case, so that Python must compare them. */
int filter_match(const LogFilter *filter, const LogText *log, size_t *pair) {
    *pair = NO_PAIR;
    if (!hex_is_lower(log->address)) return 0;
    if (log->topic_count == 0) return 1;
    if (!hex_is_lower(log->topics[0])) return 0;
    size_t address = find_text_index(filter->addresses, filter->address_count, log->address);
    if (address == filter->address_count) return 1;
    size_t topic = find_text_index(filter->topics, filter->topic_count, log->topics[0]);
    if (topic < filter->topic_count) *pair = address * filter->topic_count + topic;
    return 1;
}

/* --- the matching logs --- */

/* Append a log. Return 0 if its values are not supported, or there is no memory. */
int matches_add(LogMatches *matches, const LogText *log, size_t pair, uint64_t block, uint64_t tx,
              uint64_t index, int64_t time) {
    static const char NO_TRANSACTION[] =
        "0x0000000000000000000000000000000000000000000000000000000000000000";
    if (block > MAX_BLOCK || tx > MAX_LOG_INDEX || index > MAX_LOG_INDEX) return 0;
    if (!hex_is_lower(log->data) || log->data.size % 2 || !hex_is_lower(log->tx_hash) ||
        !hex_is_lower(log->block_hash) || text_is(log->tx_hash, NO_TRANSACTION))
        return 0;
    for (size_t at = 1; at < log->topic_count; at++)
        if (!hex_is_lower(log->topics[at])) return 0;
    if (matches->count == matches->capacity) {
        size_t capacity = 2 * matches->capacity + 64;
        MatchingLog *logs = capacity > SIZE_MAX / sizeof(MatchingLog)
                             ? NULL
                             : realloc(matches->logs, capacity * sizeof(MatchingLog));
        if (logs == NULL) return 0;
        matches->logs = logs;
        matches->capacity = capacity;
    }
    matches->logs[matches->count++] = (MatchingLog){*log, pair, block, tx, index, time};
    return 1;
}

void matches_free(LogMatches *matches) {
    free(matches->logs);
    *matches = (LogMatches){0};
}

/* --- eth_getLogs --- */

typedef struct {
    const LogFilter *filter;
    LogMatches matches;
    uint64_t first, last;
    /* The block of the previous log. */
    Text number, time_text;
    uint64_t block;
    int64_t time;
} LogReader;

static int read_time(Text text, int64_t *time) {
    uint64_t seconds;
    *time = UNKNOWN_TIME;
    if (text.text == NULL) return 1;
    if (!hex_to_number(text, &seconds) || seconds == 0 || seconds >= MILLISECONDS_FROM) return 0;
    *time = (int64_t)seconds;
    return 1;
}

static int read_log_of_response(Cursor *cursor, Text name, void *into) {
    (void)name;
    LogReader *reader = into;
    LogText log;
    size_t pair;
    uint64_t block, tx, index;
    if (!log_read(cursor, &log) || !filter_match(reader->filter, &log, &pair) || pair == NO_PAIR)
        return 0;
    if (!hex_to_number(log.block_number, &block) || !hex_to_number(log.tx, &tx) ||
        !hex_to_number(log.index, &index))
        return 0;
    const MatchingLog *previous =
        reader->matches.count > 0 ? &reader->matches.logs[reader->matches.count - 1] : NULL;
    if (previous != NULL && previous->block == block) {
        if (previous->index >= index || !text_equals(previous->log.block_hash, log.block_hash) ||
            !text_equals(previous->log.block_number, log.block_number) ||
            (previous->log.time.text == NULL) != (log.time.text == NULL) ||
            !text_equals(previous->log.time, log.time))
            return 0;
    } else if ((previous != NULL && previous->block > block) || !read_time(log.time, &reader->time)) {
        return 0;
    }
    return block >= reader->first && block <= reader->last &&
           matches_add(&reader->matches, &log, pair, block, tx, index, reader->time);
}

/* read_logs(response, filter, first, last, (Log, sources, logs, rows)) */
PyObject *native_read_logs(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *content;
    Py_ssize_t size;
    PyObject *filter_tuple;
    unsigned long long first, last;
    Target target;
    if (!PyArg_ParseTuple(arguments, "y#O!KK(O!O!O!O!)", &content, &size, &PyTuple_Type, &filter_tuple,
                          &first, &last, &PyType_Type, &target.log_class, &PyDict_Type,
                          &target.sources, &PyList_Type, &target.logs, &PyList_Type, &target.rows))
        return NULL;
    LogFilter filter;
    if (filter_open(&filter, filter_tuple) < 0) return NULL;
    LogReader reader = {.filter = &filter, .first = first, .last = last};
    Cursor cursor = {content, content + size};
    int is_supported =
        json_members(&cursor, 0, read_log_of_response, &reader) && json_is_at_end(&cursor);
    int failed = is_supported && matches_append(&reader.matches, &filter, &target) < 0;
    matches_free(&reader.matches);
    filter_close(&filter);
    if (failed) return NULL;
    return PyBool_FromLong(is_supported);
}
