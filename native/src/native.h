/* What the parts of oracle_native share. Bytes and numbers only: Python stays in module.c,
 * checksums.c, logs.c, log_objects.c, receipts.c, roots.c, trees.c and weights.c, at the edges of
 * what is called. */
#ifndef ORACLE_NATIVE_H
#define ORACLE_NATIVE_H

#define PY_SSIZE_T_CLEAN
/* One build serves every Python from 3.11 on. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define HASH_SIZE 32

/* Bytes that grow; `failed` once memory ran out, and nothing is written from then on. */
typedef struct {
    uint8_t *bytes;
    size_t size, room;
    int failed;
} Buffer;

/* One entry of a list whose root is wanted. */
typedef struct {
    const uint8_t *bytes;
    size_t size;
} Leaf;

/* json.c */
/* Text between quotes, which belongs to the response; `text` is NULL where there is none. */
typedef struct {
    const char *text;
    size_t size;
} Text;
/* Where reading has come to. */
typedef struct {
    const char *at, *end;
} Cursor;
/* Read the value of a member (or an element, without a name); 0: it is unusual. */
typedef int (*ReadMember)(Cursor *cursor, Text name, void *into);

/* Inline, so that the size of a literal is a constant. */
static inline int text_is(Text text, const char *expected) {
    size_t size = strlen(expected);
    return text.size == size && memcmp(text.text, expected, size) == 0;
}

int json_take(Cursor *cursor, char mark);
int json_is_done(Cursor *cursor);
int json_string(Cursor *cursor, Text *text);
int json_literal(Cursor *cursor, const char *literal);
int json_skip(Cursor *cursor);
int json_members(Cursor *cursor, int is_object, ReadMember read, void *into);
int text_equals(Text text, Text other);
int hex_is_lower(Text hex);
int hex_to_bytes(Text hex, uint8_t *to);
int hex_to_number(Text hex, uint64_t *number);

/* logs.c */
#define MOST_TOPICS 4
/* A log as its endpoint writes it. */
typedef struct {
    Text address, topics[MOST_TOPICS], data, block_number, block_hash, tx_hash, tx, index, time;
    size_t topic_count;
    int has_topics, has_time;
} LogText;
/* A filter: addresses and first topics, and the pairs of both as Python objects. */
typedef struct {
    Text *addresses, *topics;
    size_t address_count, topic_count;
    PyObject *pairs;
} Wanted;
#define NO_PAIR SIZE_MAX
/* A log that matches a filter, and its place on the chain. */
typedef struct {
    LogText log;
    size_t pair;
    uint64_t block, tx, index;
    int64_t time;
} FoundLog;
typedef struct {
    FoundLog *logs;
    size_t count, room;
} Found;

int log_read(Cursor *cursor, LogText *log);
int wanted_open(Wanted *wanted, PyObject *filter);
void wanted_close(Wanted *wanted);
int wanted_find(const Wanted *wanted, const LogText *log, size_t *pair);
int found_add(Found *found, const LogText *log, size_t pair, uint64_t block, uint64_t tx,
              uint64_t index, int64_t time);
void found_free(Found *found);

/* log_objects.c */
/* The lowest bits of a row's key hold the log's index in the block; the others hold the block. */
#define LOG_INDEX_BITS 24
/* Where logs and rows are appended: a class, the numbers of sources, two lists. */
typedef struct {
    PyObject *log_class, *sources, *logs, *rows;
} Target;

int logs_begin(void);
int found_append(const Found *found, const Wanted *wanted, const Target *target);

/* keccak.c */
/* The longest message that is hashed as one block. */
#define SHORT_MOST 135
/* A message of at most so many bytes, and where its hash is written. */
typedef struct {
    const uint8_t *content;
    size_t size;
    uint8_t *hash;
} Short;

void keccak256(const uint8_t *content, size_t size, uint8_t hash[HASH_SIZE]);
/* No hash of them is part of another message. */
void keccak256_short(const Short *messages, size_t count);

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
/* The most bytes that stand before a list or a string: one, and its size in up to eight. */
#define HEAD_ROOM 9
int buffer_grow(Buffer *buffer, size_t more);
void buffer_put(Buffer *buffer, const uint8_t *bytes, size_t size);
void buffer_free(Buffer *buffer);
size_t rlp_head(uint8_t *to, uint8_t kind, size_t size);
void rlp_string(Buffer *buffer, const uint8_t *bytes, size_t size);
size_t rlp_list_open(Buffer *buffer);
void rlp_list_close(Buffer *buffer, size_t opened);

/* roots.c, trees.c */
/* Messages that are hashed together. */
#define BATCH 64
/* The lowest lane of a node that may be selected. */
#define LOWEST_SCORE 2

/* The highest byte of a number comes first. */
static inline void put_number(uint8_t *to, size_t size, uint64_t number) {
    for (size_t at = 0; at < size; at++) to[at] = (uint8_t)(number >> 8 * (size - 1 - at));
}

/* trie.c */
int list_root(const Leaf *leaves, size_t count, uint8_t hash[HASH_SIZE]);

/* weights.c */
typedef unsigned __int128 Wide;
/* The 1 of scores. */
#define UNIT 1000000000000000000ULL
/* exp(-2^k / tau) in units of 2^-128, for k = 0 to 20; all that is older has decayed. */
#define DECAY_BITS 21
void read_decay_table(Wide table[DECAY_BITS], const uint8_t *bytes);
uint64_t heal_reliability(uint64_t base, int64_t since, int64_t time, const Wide table[DECAY_BITS]);

/* checksums.c, logs.c, receipts.c, roots.c, trees.c, weights.c: as Python calls them */
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
