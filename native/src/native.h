/* What the parts of oracle_native share. Bytes and numbers only: Python stays in module.c,
 * receipts.c and weights.c, at the edges of what is called. */
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
void keccak256(const uint8_t *content, size_t size, uint8_t hash[HASH_SIZE]);

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

/* receipts.c, weights.c: as Python calls them */
int receipts_begin(void);
PyObject *native_compute_receipts_root(PyObject *module, PyObject *receipts);
PyObject *native_compute_stake_scores(PyObject *module, PyObject *arguments);
PyObject *native_compute_weights(PyObject *module, PyObject *arguments);
PyObject *native_sum_weights(PyObject *module, PyObject *weights);
PyObject *native_find_weighted_index(PyObject *module, PyObject *arguments);

#endif
