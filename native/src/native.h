/* Declarations that the files of oracle_native share. Only module.c, checksums.c, logs.c, log_objects.c,
 * receipts.c, roots.c, trees.c and weights.c use the Python API; the others work on bytes and numbers. */
#ifndef ORACLE_NATIVE_H
#define ORACLE_NATIVE_H

#define PY_SSIZE_T_CLEAN
/* One build serves every Python from 3.11 on. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define HASH_SIZE 32

/* A growing buffer; once memory has run out, `failed` is set and writes do nothing. */
typedef struct {
    uint8_t *bytes;
    size_t size, capacity;
    int failed;
} Buffer;

/* One item of the list over which a trie is built. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
} Leaf;

/* json.c */
/* A string in the response, without its quotes; `text` is NULL if it is absent. */
typedef struct {
    const char *text;
    size_t size;
} Text;
/* The position of a reader. */
typedef struct {
    const char *at, *end;
} Cursor;
/* Read the value of a member, or an element (without a name). Return 0 if it is not supported. */
typedef int (*ReadMember)(Cursor *cursor, Text name, void *into);

/* The function is inline, so that the size of a literal is a constant. */
static inline int text_is(Text text, const char *expected) {
    size_t size = strlen(expected);
    return text.size == size && memcmp(text.text, expected, size) == 0;
}

int json_accept(Cursor *cursor, char character);
int json_is_at_end(Cursor *cursor);
int json_string(Cursor *cursor, Text *text);
int json_literal(Cursor *cursor, const char *literal);
int json_skip(Cursor *cursor);
int json_members(Cursor *cursor, int is_object, ReadMember read, void *into);
int text_equals(Text text, Text other);
int hex_is_lower(Text hex);
int hex_to_bytes(Text hex, uint8_t *restrict to);
int hex_to_number(Text hex, uint64_t *number);

/* logs.c */
#define MAX_TOPICS 4
/* The fields of a log as they are in the endpoint's response. */
typedef struct {
    Text address, topics[MAX_TOPICS], data, block_number, block_hash, tx_hash, tx, index, time;
    size_t topic_count;
    int has_topics, has_time;
} LogText;
/* Addresses and first topics, and the pairs of both as Python objects. */
typedef struct {
    Text *addresses, *topics;
    size_t address_count, topic_count;
    PyObject *pairs;
} LogFilter;
#define NO_PAIR SIZE_MAX
/* A log that matches a filter, and its position on the chain. */
typedef struct {
    LogText log;
    size_t pair;
    uint64_t block, tx, index;
    int64_t time;
} MatchingLog;
typedef struct {
    MatchingLog *logs;
    size_t count, capacity;
} LogMatches;

int log_read(Cursor *cursor, LogText *log);
int filter_open(LogFilter *filter, PyObject *arguments);
void filter_close(LogFilter *filter);
int filter_match(const LogFilter *filter, const LogText *log, size_t *pair);
int matches_add(LogMatches *matches, const LogText *log, size_t pair, uint64_t block, uint64_t tx,
              uint64_t index, int64_t time);
void matches_free(LogMatches *matches);

/* log_objects.c */
/* The lowest bits of a row's key hold the log's index in the block; the others hold the block. */
#define LOG_INDEX_BITS 24
/* The class of logs, the indexes of sources, and the lists to which logs and rows are appended. */
typedef struct {
    PyObject *log_class, *sources, *logs, *rows;
} Target;

int logs_init(void);
int matches_append(const LogMatches *matches, const LogFilter *filter, const Target *target);

/* keccak.c */
/* The longest message that is hashed as one block. */
#define MAX_SHORT_SIZE 135
/* A message of any size, and the buffer for its hash. */
typedef struct {
    const uint8_t *content;
    size_t size;
    uint8_t *hash;
} Message;

void keccak256(const uint8_t *content, size_t size, uint8_t hash[HASH_SIZE]);
/* The buffers of the hashes must not overlap the messages. */
void keccak256_each(const Message *messages, size_t count);

/* sha256.c */
#define SHA_BLOCK 64
typedef struct {
    uint32_t state[8];
    uint64_t size;
    uint8_t block[SHA_BLOCK];
} Sha256;

void sha256_begin(Sha256 *sha);
void sha256_add(Sha256 *sha, const void *content, size_t size);
void sha256_end(Sha256 *sha, uint8_t hash[HASH_SIZE]);

/* rlp.c */
/* The longest header of a list or a string: one byte, and a size of up to eight bytes. */
#define MAX_HEADER_SIZE 9
int buffer_grow(Buffer *buffer, size_t more);
void buffer_put(Buffer *buffer, const uint8_t *bytes, size_t size);
void buffer_free(Buffer *buffer);
size_t rlp_write_header(uint8_t *to, uint8_t kind, size_t size);
void rlp_string(Buffer *buffer, const uint8_t *bytes, size_t size);
size_t rlp_list_open(Buffer *buffer);
void rlp_list_close(Buffer *buffer, size_t opened);

/* roots.c, trees.c */
/* The number of messages that are hashed together. */
#define BATCH 64
/* The lowest lane of a node that may be selected. */
#define LOWEST_SCORE 2

/* Write a number in big-endian byte order. */
static inline void write_number(uint8_t *to, size_t size, uint64_t number) {
    for (size_t at = 0; at < size; at++) to[at] = (uint8_t)(number >> 8 * (size - 1 - at));
}

/* trie.c */
int compute_list_root(const Leaf *leaves, size_t count, uint8_t hash[HASH_SIZE]);

/* weights.c */
typedef unsigned __int128 Wide;
/* The number 1 in the fixed-point format of scores. */
#define UNIT 1000000000000000000ULL
/* exp(-2^k / tau) in units of 2^-128, for k = 0 to 20; after 2^21 seconds everything has decayed. */
#define DECAY_BITS 21
void read_decay_table(Wide table[DECAY_BITS], const uint8_t *bytes);
uint64_t heal_reliability(uint64_t base, int64_t since, int64_t time, const Wide table[DECAY_BITS]);

/* checksums.c, logs.c, receipts.c, roots.c, trees.c, weights.c: the functions for Python */
PyObject *native_sum_row_hashes(PyObject *module, PyObject *arguments);
PyObject *native_read_logs(PyObject *module, PyObject *arguments);
PyObject *native_read_receipts(PyObject *module, PyObject *arguments);
PyObject *native_encode_leaves(PyObject *module, PyObject *arguments);
PyObject *native_hash_leaves(PyObject *module, PyObject *arguments);
PyObject *native_hash_changed_parents(PyObject *module, PyObject *arguments);
PyObject *native_set_leaves(PyObject *module, PyObject *arguments);
PyObject *native_set_lanes(PyObject *module, PyObject *arguments);
PyObject *native_encode_lane_words(PyObject *module, PyObject *arguments);
PyObject *native_compute_stake_scores(PyObject *module, PyObject *arguments);
PyObject *native_compute_weights(PyObject *module, PyObject *arguments);
PyObject *native_sum_weights(PyObject *module, PyObject *weights);
PyObject *native_find_weighted_index(PyObject *module, PyObject *arguments);

#endif
