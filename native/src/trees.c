/* Updates the Merkle trees of a round, and the lanes of its nodes. oracle/domain/roots does the same in
 * Python. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define PAIR_SIZE (2 * HASH_SIZE)
#define WORD_LEAF_SIZE 64
#define LANES_PER_WORD 16
#define NEVER_REPORTED 0

/* Pairs of hashes, in ascending order, that are waiting to be hashed. */
typedef struct {
    uint8_t pairs[BATCH][PAIR_SIZE];
    Message messages[BATCH];
    size_t count;
} Pairs;

static void flush_pairs(Pairs *pairs) {
    keccak256_each(pairs->messages, pairs->count);
    pairs->count = 0;
}

static void add_pair(Pairs *pairs, const uint8_t *children, uint8_t *parent) {
    const uint8_t *left = children, *right = children + HASH_SIZE;
    int is_ascending = memcmp(left, right, HASH_SIZE) <= 0;
    uint8_t *pair = pairs->pairs[pairs->count];
    memcpy(pair, is_ascending ? left : right, HASH_SIZE);
    memcpy(pair + HASH_SIZE, is_ascending ? right : left, HASH_SIZE);
    pairs->messages[pairs->count++] = (Message){pair, PAIR_SIZE, parent};
    if (pairs->count == BATCH) flush_pairs(pairs);
}

/* Hash all nodes above changed leaves, and clear the flags. The flags of each level overwrite those of the
 * level below, which have been read by then, because a parent never has a higher index than its child. */
static void hash_changed_nodes(uint8_t *tree, uint8_t *changed, size_t width) {
    Pairs pairs = {.count = 0};
    for (size_t level = width / 2; level > 0; level /= 2) {
        for (size_t at = 0; at < level; at++) {
            changed[at] = changed[2 * at] | changed[2 * at + 1];
            if (changed[at])
                add_pair(&pairs, tree + PAIR_SIZE * (level + at), tree + HASH_SIZE * (level + at));
        }
        flush_pairs(&pairs);
    }
    memset(changed, 0, width);
}

PyObject *native_hash_changed_parents(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer tree, changed;
    if (!PyArg_ParseTuple(arguments, "w*w*", &tree, &changed)) return NULL;
    size_t width = (size_t)changed.len;
    PyObject *result = NULL;
    if (width == 0 || (width & (width - 1)) != 0 || tree.len / PAIR_SIZE != changed.len ||
        tree.len % PAIR_SIZE != 0) {
        PyErr_SetString(PyExc_ValueError, "expected a flag for each of 2^n leaves, and 64 bytes of tree for each");
    } else {
        Py_BEGIN_ALLOW_THREADS
        hash_changed_nodes(tree.buf, changed.buf, width);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&changed);
    PyBuffer_Release(&tree);
    return result;
}

/* Get the buffer of an array of numbers. Return -1 if their size is wrong, or they are not aligned. */
static int get_numbers(PyObject *from, size_t size, int flags, Py_buffer *view) {
    if (PyObject_GetBuffer(from, view, flags) < 0) return -1;
    int is_aligned = view->len == 0 || (uintptr_t)view->buf % size == 0;
    if (view->itemsize == (Py_ssize_t)size && is_aligned) return 0;
    PyBuffer_Release(view);
    PyErr_SetString(PyExc_ValueError, "the numbers have the wrong size");
    return -1;
}

static PyObject *build_number_list(const uint32_t *numbers, size_t count) {
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t at = 0; list != NULL && at < count; at++) {
        PyObject *number = PyLong_FromUnsignedLong(numbers[at]);
        if (number == NULL || PyList_SetItem(list, (Py_ssize_t)at, number) < 0) Py_CLEAR(list);
    }
    return list;
}

/* Write a hash at each index, flag the leaves that differ, and list their positions in `indexes`.
 * Each index is read only once, because the buffers may overlap. Return -1 if there is no such leaf. */
static Py_ssize_t replace_leaves(const Py_buffer *tree, uint8_t *changed, const Py_buffer *indexes,
                                 const uint8_t *hashes, uint32_t *differing) {
    size_t width = (size_t)tree->len / PAIR_SIZE;
    uint8_t *leaves = (uint8_t *)tree->buf + HASH_SIZE * width;
    Py_ssize_t found = 0;
    for (Py_ssize_t at = 0; at < indexes->len / indexes->itemsize; at++) {
        size_t index = ((const uint32_t *)indexes->buf)[at];
        if (index >= width) return -1;
        uint8_t *leaf = leaves + HASH_SIZE * index;
        const uint8_t *hash = hashes + HASH_SIZE * at;
        if (memcmp(leaf, hash, HASH_SIZE) == 0) continue;
        memmove(leaf, hash, HASH_SIZE);
        changed[index] = 1;
        differing[found++] = (uint32_t)at;
    }
    return found;
}

static PyObject *set_leaves(const Py_buffer *tree, const Py_buffer *changed,
                            const Py_buffer *indexes, const Py_buffer *hashes) {
    Py_ssize_t count = indexes->len / indexes->itemsize;
    if (tree->len / PAIR_SIZE != changed->len || tree->len % PAIR_SIZE != 0 ||
        hashes->len / HASH_SIZE != count || hashes->len % HASH_SIZE != 0 || count > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "expected 64 bytes of tree for each flag, and a hash for each index");
        return NULL;
    }
    uint32_t *differing = malloc(sizeof *differing * (size_t)count + 1);
    if (differing == NULL) return PyErr_NoMemory();
    Py_ssize_t found = replace_leaves(tree, changed->buf, indexes, hashes->buf, differing);
    PyObject *list = NULL;
    if (found < 0)
        PyErr_SetString(PyExc_IndexError, "an index is out of range");
    else
        list = build_number_list(differing, (size_t)found);
    free(differing);
    return list;
}

PyObject *native_set_leaves(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer tree, changed, indexes, hashes;
    PyObject *column, *differing = NULL;
    if (!PyArg_ParseTuple(arguments, "w*w*Oy*", &tree, &changed, &column, &hashes)) return NULL;
    if (get_numbers(column, sizeof(uint32_t), PyBUF_CONTIG_RO, &indexes) == 0) {
        differing = set_leaves(&tree, &changed, &indexes, &hashes);
        PyBuffer_Release(&indexes);
    }
    PyBuffer_Release(&hashes);
    PyBuffer_Release(&changed);
    PyBuffer_Release(&tree);
    return differing;
}

/* The changes of the sums of a round. */
typedef struct {
    long long leaf_count, open_count, weight;
} Sums;

/* Write a lane at each seat, add up the changes, and list the words that change.
 * Each seat is read only once, because the buffers may overlap. Return -1 if there is no such seat. */
static Py_ssize_t replace_lanes(const Py_buffer *lanes, const Py_buffer *seats,
                                const uint16_t *new_lanes, uint32_t *words, Sums *sums) {
    size_t lane_count = (size_t)(lanes->len / lanes->itemsize);
    Py_ssize_t found = 0;
    for (Py_ssize_t at = 0; at < seats->len / seats->itemsize; at++) {
        size_t seat = ((const uint32_t *)seats->buf)[at];
        if (seat >= lane_count) return -1;
        uint16_t *lane = (uint16_t *)lanes->buf + seat;
        int old = *lane, new = new_lanes[at];
        if (new == old) continue;
        *lane = (uint16_t)new;
        sums->leaf_count += old == NEVER_REPORTED;
        sums->open_count += (new >= LOWEST_SCORE) - (old >= LOWEST_SCORE);
        /* A lane is the weight plus 1; the weight of a node that may not be selected is 0. */
        sums->weight += (new > 1 ? new : 1) - (old > 1 ? old : 1);
        words[found++] = (uint32_t)(seat / LANES_PER_WORD);
    }
    return found;
}

static PyObject *set_lanes(const Py_buffer *lanes, const Py_buffer *seats, const Py_buffer *new_lanes) {
    Py_ssize_t count = seats->len / seats->itemsize;
    if (new_lanes->len / new_lanes->itemsize != count) {
        PyErr_SetString(PyExc_ValueError, "expected a lane for each seat");
        return NULL;
    }
    uint32_t *words = malloc(sizeof *words * (size_t)count + 1);
    if (words == NULL) return PyErr_NoMemory();
    Sums sums = {0};
    Py_ssize_t found = replace_lanes(lanes, seats, new_lanes->buf, words, &sums);
    PyObject *list = NULL;
    if (found < 0)
        PyErr_SetString(PyExc_IndexError, "a seat is out of range");
    else
        list = build_number_list(words, (size_t)found);
    free(words);
    if (list == NULL) return NULL;
    return Py_BuildValue("LLLN", sums.leaf_count, sums.open_count, sums.weight, list);
}

PyObject *native_set_lanes(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *columns[3], *sums = NULL;
    Py_buffer lanes, seats, new_lanes;
    if (!PyArg_ParseTuple(arguments, "OOO", &columns[0], &columns[1], &columns[2])) return NULL;
    if (get_numbers(columns[0], sizeof(uint16_t), PyBUF_CONTIG, &lanes) < 0) return NULL;
    if (get_numbers(columns[1], sizeof(uint32_t), PyBUF_CONTIG_RO, &seats) == 0) {
        if (get_numbers(columns[2], sizeof(uint16_t), PyBUF_CONTIG_RO, &new_lanes) == 0) {
            sums = set_lanes(&lanes, &seats, &new_lanes);
            PyBuffer_Release(&new_lanes);
        }
        PyBuffer_Release(&seats);
    }
    PyBuffer_Release(&lanes);
    return sums;
}

/* Write the index of a word and its lanes in the layout of `abi.encode`; the first lane is in the lowest
 * bits. */
static void write_word(uint8_t leaf[WORD_LEAF_SIZE], size_t index, const uint16_t *lanes, size_t count) {
    memset(leaf, 0, WORD_LEAF_SIZE);
    write_number(leaf + HASH_SIZE - 8, 8, index);
    for (size_t at = 0; at < count && at < LANES_PER_WORD; at++)
        write_number(leaf + WORD_LEAF_SIZE - 2 * (at + 1), 2, lanes[at]);
}

static PyObject *encode_words(const Py_buffer *indexes, const Py_buffer *lanes) {
    size_t lane_count = (size_t)(lanes->len / lanes->itemsize);
    Py_ssize_t count = indexes->len / indexes->itemsize;
    PyObject *leaves = PyBytes_FromStringAndSize(NULL, count * WORD_LEAF_SIZE);
    if (leaves == NULL) return NULL;
    uint8_t *to = (uint8_t *)PyBytes_AsString(leaves);
    for (Py_ssize_t at = 0; at < count; at++) {
        size_t index = ((const uint32_t *)indexes->buf)[at], first = LANES_PER_WORD * index;
        if (first >= lane_count) {
            Py_DECREF(leaves);
            PyErr_SetString(PyExc_IndexError, "a word is out of range");
            return NULL;
        }
        write_word(to + WORD_LEAF_SIZE * at, index, (const uint16_t *)lanes->buf + first, lane_count - first);
    }
    return leaves;
}

PyObject *native_encode_lane_words(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *index_column, *lane_column, *leaves = NULL;
    Py_buffer indexes, lanes;
    if (!PyArg_ParseTuple(arguments, "OO", &index_column, &lane_column)) return NULL;
    if (get_numbers(index_column, sizeof(uint32_t), PyBUF_CONTIG_RO, &indexes) < 0) return NULL;
    if (get_numbers(lane_column, sizeof(uint16_t), PyBUF_CONTIG_RO, &lanes) == 0) {
        leaves = encode_words(&indexes, &lanes);
        PyBuffer_Release(&lanes);
    }
    PyBuffer_Release(&indexes);
    return leaves;
}
