/* Encodes the leaves of a round. oracle/domain/roots does the same in Python, and handles the rows that
 * are not supported here, for example those with a due kickout. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define ADDRESS_SIZE 20
#define LEAF_SIZE 128
#define QOS_STEP 100000000000000ULL
#define DO_NOT_SELECT 1
#define HIGHEST_SCORE 10002

enum { MEMBER = 1, PAUSED = 2, EXCLUDED = 4 };

static void hash_twice(const uint8_t *leaves, size_t size, size_t count, uint8_t *hashes) {
    uint8_t inner[BATCH][HASH_SIZE];
    Message messages[BATCH];
    for (size_t first = 0; first < count; first += BATCH) {
        size_t batch = count - first < BATCH ? count - first : BATCH;
        for (size_t at = 0; at < batch; at++)
            messages[at] = (Message){leaves + (first + at) * size, size, inner[at]};
        keccak256_each(messages, batch);
        for (size_t at = 0; at < batch; at++)
            messages[at] = (Message){inner[at], HASH_SIZE, hashes + (first + at) * HASH_SIZE};
        keccak256_each(messages, batch);
    }
}

PyObject *native_hash_leaves(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer leaves;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "y*n", &leaves, &size)) return NULL;
    PyObject *hashes = NULL;
    if (size <= 0 || size > MAX_SHORT_SIZE || leaves.len % size != 0)
        PyErr_SetString(PyExc_ValueError, "the leaves have the wrong size");
    else
        hashes = PyBytes_FromStringAndSize(NULL, leaves.len / size * HASH_SIZE);
    if (hashes != NULL) {
        uint8_t *to = (uint8_t *)PyBytes_AsString(hashes);
        Py_BEGIN_ALLOW_THREADS
        hash_twice(leaves.buf, (size_t)size, (size_t)(leaves.len / size), to);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&leaves);
    return hashes;
}

/* The columns of a row, in order. */
enum {
    SEAT, NODE, NEXT_NODE, IS_MEMBER, IS_PAUSED, IS_EXCLUDED, BASE, SINCE, POOL, POOL_SUM, PRIOR,
    LAST_SCORED_AT, DUE_TIME, COLUMNS
};

/* The scoring rules that matter for scores which do not depend on other nodes. */
typedef struct {
    uint64_t exclusion_line, best_score, new_node;
    int needs_stored_exclusion, is_zero_mean_new;
    int64_t time;
    Wide decay_table[DECAY_BITS];
} Scoring;

/* The values of a row; `pool` points to memory of the row. */
typedef struct {
    const uint8_t *node, *next_node, *pool;
    size_t pool_size;
    uint64_t seat, base, pool_sum, prior, last_scored_at;
    int64_t since;
    int is_member, is_paused, is_excluded, has_prior;
} Values;

/* Read an integer from 0 to `max`. Return -1 for anything else; no exception is set, and no Python code
 * runs. */
static int read_number(PyObject *number, uint64_t max, uint64_t *read) {
    if (!PyLong_Check(number)) return -1;
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return -1;
    }
    *read = value;
    return value > max ? -1 : 0;
}

static int read_flag(PyObject *flag, int *read) {
    uint64_t number;
    if (read_number(flag, 1, &number) < 0) return -1;
    *read = (int)number;
    return 0;
}

static int read_time(PyObject *time, int64_t *read) {
    if (!PyLong_Check(time)) return -1;
    *read = PyLong_AsLongLong(time);
    if (!PyErr_Occurred()) return 0;
    PyErr_Clear();
    return -1;
}

static int read_bytes(PyObject *content, const uint8_t **read, size_t *size) {
    if (!PyBytes_Check(content)) return -1;
    *read = (const uint8_t *)PyBytes_AsString(content);
    *size = (size_t)PyBytes_Size(content);
    return 0;
}

static int read_address(PyObject *address, const uint8_t **read) {
    size_t size;
    return read_bytes(address, read, &size) < 0 || size != ADDRESS_SIZE ? -1 : 0;
}

/* Read a number, or 0 for None. */
static int read_optional(PyObject *number, uint64_t max, uint64_t *read, int *is_present) {
    *read = 0;
    *is_present = number != Py_None;
    return *is_present ? read_number(number, max, read) : 0;
}

/* Read the columns of a row. Return -1 if the row is not supported. */
static int read_row(PyObject *row, Values *values) {
    PyObject *columns[COLUMNS];
    int has_score;
    if (!PyTuple_Check(row) || PyTuple_Size(row) != COLUMNS) return -1;
    for (int at = 0; at < COLUMNS; at++) columns[at] = PyTuple_GetItem(row, at);
    if (columns[DUE_TIME] != Py_None) return -1;
    if (read_number(columns[SEAT], UINT32_MAX, &values->seat) < 0 ||
        read_address(columns[NODE], &values->node) < 0 ||
        read_address(columns[NEXT_NODE], &values->next_node) < 0 ||
        read_flag(columns[IS_MEMBER], &values->is_member) < 0 ||
        read_flag(columns[IS_PAUSED], &values->is_paused) < 0 ||
        read_flag(columns[IS_EXCLUDED], &values->is_excluded) < 0 ||
        read_number(columns[BASE], UNIT, &values->base) < 0 ||
        read_time(columns[SINCE], &values->since) < 0 ||
        read_bytes(columns[POOL], &values->pool, &values->pool_size) < 0 ||
        read_number(columns[POOL_SUM], UINT32_MAX, &values->pool_sum) < 0 ||
        read_optional(columns[PRIOR], UINT64_MAX, &values->prior, &values->has_prior) < 0 ||
        read_optional(columns[LAST_SCORED_AT], (1ULL << 40) - 1, &values->last_scored_at, &has_score) < 0)
        return -1;
    return values->pool_size > MAX_SHORT_SIZE ? -1 : 0;
}

static Wide compute_mean(const Values *values, const Scoring *scoring) {
    uint64_t total = 0;
    for (size_t at = 0; at < values->pool_size; at++) total += values->pool[at];
    if (values->pool_size == 0 || (total == 0 && scoring->is_zero_mean_new))
        return values->has_prior ? values->prior : scoring->new_node;
    return (Wide)total * UNIT / ((Wide)values->pool_size * scoring->best_score);
}

/* Write the leaf of a row in the layout of `abi.encode`, except for the hash of its pool. Return -1
 * if the lane is out of range. */
static int write_leaf(uint8_t leaf[LEAF_SIZE], const Values *values, const Scoring *scoring) {
    uint64_t reliability =
        heal_reliability(values->base, values->since, scoring->time, scoring->decay_table);
    int is_excluded = values->is_member && reliability < scoring->exclusion_line &&
                      (values->is_excluded || !scoring->needs_stored_exclusion);
    Wide lane = DO_NOT_SELECT;
    if (values->is_member && !values->is_paused && !is_excluded) {
        Wide mean = compute_mean(values, scoring);
        if (mean > UINT64_MAX) return -1;
        lane = mean * reliability / UNIT / QOS_STEP + LOWEST_SCORE;
    }
    if (lane > HIGHEST_SCORE) return -1;
    int flags = (values->is_member ? MEMBER : 0) | (values->is_paused ? PAUSED : 0) |
                (is_excluded ? EXCLUDED : 0);
    memset(leaf, 0, LEAF_SIZE);
    memcpy(leaf + 12, values->node, ADDRESS_SIZE);
    memcpy(leaf + 44, values->next_node, ADDRESS_SIZE);
    write_number(leaf + 65, 5, values->last_scored_at);
    write_number(leaf + 75, 8, reliability);
    write_number(leaf + 83, 4, values->pool_sum);
    write_number(leaf + 87, 2, values->pool_size);
    write_number(leaf + 89, 4, values->seat);
    write_number(leaf + 93, 1, (uint64_t)flags);
    write_number(leaf + 94, 2, (uint64_t)lane);
    return 0;
}

/* Write the leaves of all supported rows, one after another, and list the other rows. */
static Py_ssize_t write_leaves(PyObject *rows, const Scoring *scoring, uint8_t *leaves, PyObject *unsupported) {
    Message messages[BATCH];
    size_t batch = 0;
    Py_ssize_t count = 0;
    for (Py_ssize_t at = 0; at < PyTuple_Size(rows); at++) {
        PyObject *row = PyTuple_GetItem(rows, at);
        uint8_t *leaf = leaves + LEAF_SIZE * count;
        Values values;
        if (read_row(row, &values) < 0 || write_leaf(leaf, &values, scoring) < 0) {
            if (PyList_Append(unsupported, row) < 0) return -1;
            continue;
        }
        count++;
        messages[batch++] = (Message){values.pool, values.pool_size, leaf + LEAF_SIZE - HASH_SIZE};
        if (batch == BATCH) {
            keccak256_each(messages, batch);
            batch = 0;
        }
    }
    keccak256_each(messages, batch);
    return count;
}

static int read_scoring(PyObject *rules[5], const char *table, Py_ssize_t size, Scoring *scoring) {
    if (read_number(rules[0], UINT64_MAX, &scoring->exclusion_line) < 0 ||
        read_flag(rules[1], &scoring->needs_stored_exclusion) < 0 ||
        read_number(rules[2], UINT64_MAX, &scoring->best_score) < 0 || scoring->best_score == 0 ||
        read_number(rules[3], UINT64_MAX, &scoring->new_node) < 0 ||
        read_flag(rules[4], &scoring->is_zero_mean_new) < 0 || size != 16 * DECAY_BITS) {
        PyErr_SetString(PyExc_ValueError, "the rules are out of range");
        return -1;
    }
    read_decay_table(scoring->decay_table, (const uint8_t *)table);
    return 0;
}

PyObject *native_encode_leaves(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *row_list, *rule_tuple, *rules[5];
    long long time;
    const char *table;
    Py_ssize_t size;
    /* Requires a tuple, which keeps its rules alive; another sequence might create them for each read. */
    if (!PyArg_ParseTuple(arguments, "O!O!Ly#", &PyList_Type, &row_list, &PyTuple_Type, &rule_tuple,
                          &time, &table, &size) ||
        !PyArg_ParseTuple(rule_tuple, "OOOOO", &rules[0], &rules[1], &rules[2], &rules[3], &rules[4]))
        return NULL;
    Scoring scoring = {.time = time};
    if (read_scoring(rules, table, size, &scoring) < 0) return NULL;
    /* The rows are copied, because another thread may change the list. */
    PyObject *rows = PyList_AsTuple(row_list), *unsupported = PyList_New(0), *encoded = NULL;
    uint8_t *leaves = NULL;
    if (rows != NULL && unsupported != NULL) {
        leaves = malloc((size_t)PyTuple_Size(rows) * LEAF_SIZE + 1);
        if (leaves == NULL) PyErr_NoMemory();
    }
    if (leaves != NULL) {
        Py_ssize_t count = write_leaves(rows, &scoring, leaves, unsupported);
        if (count >= 0) encoded = Py_BuildValue("y#O", leaves, count * LEAF_SIZE, unsupported);
    }
    free(leaves);
    Py_XDECREF(unsupported);
    Py_XDECREF(rows);
    return encoded;
}
