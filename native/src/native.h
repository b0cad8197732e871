/* What the parts of oracle_native share. Bytes and numbers only: Python stays in module.c,
 * receipts.c, roots.c and weights.c, at the edges of what is called. */
#ifndef ORACLE_NATIVE_H
#define ORACLE_NATIVE_H

#define PY_SSIZE_T_CLEAN
/* One build serves every Python from 3.11 on. */
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>

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

/* receipts.c, roots.c, weights.c: as Python calls them */
int receipts_begin(void);
PyObject *native_compute_receipts_root(PyObject *module, PyObject *receipts);
PyObject *native_encode_leaves(PyObject *module, PyObject *arguments);
PyObject *native_hash_leaves(PyObject *module, PyObject *arguments);
PyObject *native_hash_changed_parents(PyObject *module, PyObject *arguments);
PyObject *native_compute_stake_scores(PyObject *module, PyObject *arguments);
PyObject *native_compute_weights(PyObject *module, PyObject *arguments);
PyObject *native_sum_weights(PyObject *module, PyObject *weights);
PyObject *native_find_weighted_index(PyObject *module, PyObject *arguments);

#endif
