/* The leaves of a round. oracle/domain/roots is the same in Python; what a row has that is not
 * ordinary, for example a due kickout, is left to it. */
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
    Short messages[BATCH];
    for (size_t first = 0; first < count; first += BATCH) {
        size_t batch = count - first < BATCH ? count - first : BATCH;
        for (size_t at = 0; at < batch; at++)
            messages[at] = (Short){leaves + (first + at) * size, size, inner[at]};
        keccak256_short(messages, batch);
        for (size_t at = 0; at < batch; at++)
            messages[at] = (Short){inner[at], HASH_SIZE, hashes + (first + at) * HASH_SIZE};
        keccak256_short(messages, batch);
    }
}

PyObject *native_hash_leaves(PyObject *module, PyObject *arguments) {
    (void)module;
    Py_buffer leaves;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "y*n", &leaves, &size)) return NULL;
    PyObject *hashes = NULL;
    if (size <= 0 || size > SHORT_MOST || leaves.len % size != 0)
        PyErr_SetString(PyExc_ValueError, "leaves of another size");
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

/* Rules under which a node is compared with no other. */
typedef struct {
    uint64_t exclusion_line, best_score, new_node;
    int needs_stored_exclusion, is_zero_mean_new;
    int64_t time;
    Wide decay_table[DECAY_BITS];
} Scoring;

/* The values of a row; `pool` belongs to the row. */
typedef struct {
    const uint8_t *node, *next_node, *pool;
    size_t pool_size;
    uint64_t seat, base, pool_sum, prior, last_scored_at;
    int64_t since;
    int is_member, is_paused, is_excluded, has_prior;
} Values;

/* -1: no whole number from 0 to `most`; nothing is raised, and no Python code runs. */
static int read_number(PyObject *number, uint64_t most, uint64_t *read) {
    if (!PyLong_Check(number)) return -1;
    unsigned long long value = PyLong_AsUnsignedLongLong(number);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return -1;
    }
    *read = value;
    return value > most ? -1 : 0;
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

/* Reads a number, or 0 for None. */
static int read_optional(PyObject *number, uint64_t most, uint64_t *read, int *is_given) {
    *read = 0;
    *is_given = number != Py_None;
    return *is_given ? read_number(number, most, read) : 0;
}

/* -1: the row is left to Python. */
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
    return values->pool_size > SHORT_MOST ? -1 : 0;
}

static Wide mean_of(const Values *values, const Scoring *scoring) {
    uint64_t total = 0;
    for (size_t at = 0; at < values->pool_size; at++) total += values->pool[at];
    if (values->pool_size == 0 || (total == 0 && scoring->is_zero_mean_new))
        return values->has_prior ? values->prior : scoring->new_node;
    return (Wide)total * UNIT / ((Wide)values->pool_size * scoring->best_score);
}

/* Write the leaf of a row, except for the hash of its pool, where `abi.encode` has it.
 * -1: the lane is out of range. */
static int put_leaf(uint8_t leaf[LEAF_SIZE], const Values *values, const Scoring *scoring) {
    uint64_t reliability =
        heal_reliability(values->base, values->since, scoring->time, scoring->decay_table);
    int is_excluded = values->is_member && reliability < scoring->exclusion_line &&
                      (values->is_excluded || !scoring->needs_stored_exclusion);
    Wide lane = DO_NOT_SELECT;
    if (values->is_member && !values->is_paused && !is_excluded) {
        Wide mean = mean_of(values, scoring);
        if (mean > UINT64_MAX) return -1;
        lane = mean * reliability / UNIT / QOS_STEP + LOWEST_SCORE;
    }
    if (lane > HIGHEST_SCORE) return -1;
    int flags = (values->is_member ? MEMBER : 0) | (values->is_paused ? PAUSED : 0) |
                (is_excluded ? EXCLUDED : 0);
    memset(leaf, 0, LEAF_SIZE);
    memcpy(leaf + 12, values->node, ADDRESS_SIZE);
    memcpy(leaf + 44, values->next_node, ADDRESS_SIZE);
    put_number(leaf + 65, 5, values->last_scored_at);
    put_number(leaf + 75, 8, reliability);
    put_number(leaf + 83, 4, values->pool_sum);
    put_number(leaf + 87, 2, values->pool_size);
    put_number(leaf + 89, 4, values->seat);
    put_number(leaf + 93, 1, (uint64_t)flags);
    put_number(leaf + 94, 2, (uint64_t)lane);
    return 0;
}

/* Write the leaves of all rows that are ordinary one behind the other, and list the others. */
static Py_ssize_t put_leaves(PyObject *rows, const Scoring *scoring, uint8_t *leaves, PyObject *others) {
    Short messages[BATCH];
    size_t batch = 0;
    Py_ssize_t count = 0;
    for (Py_ssize_t at = 0; at < PyTuple_Size(rows); at++) {
        PyObject *row = PyTuple_GetItem(rows, at);
        uint8_t *leaf = leaves + LEAF_SIZE * count;
        Values values;
        if (read_row(row, &values) < 0 || put_leaf(leaf, &values, scoring) < 0) {
            if (PyList_Append(others, row) < 0) return -1;
            continue;
        }
        count++;
        messages[batch++] = (Short){values.pool, values.pool_size, leaf + LEAF_SIZE - HASH_SIZE};
        if (batch == BATCH) {
            keccak256_short(messages, batch);
            batch = 0;
        }
    }
    keccak256_short(messages, batch);
    return count;
}

static int read_scoring(PyObject *rules[5], const char *table, Py_ssize_t size, Scoring *scoring) {
    if (read_number(rules[0], UINT64_MAX, &scoring->exclusion_line) < 0 ||
        read_flag(rules[1], &scoring->needs_stored_exclusion) < 0 ||
        read_number(rules[2], UINT64_MAX, &scoring->best_score) < 0 || scoring->best_score == 0 ||
        read_number(rules[3], UINT64_MAX, &scoring->new_node) < 0 ||
        read_flag(rules[4], &scoring->is_zero_mean_new) < 0 || size != 16 * DECAY_BITS) {
        PyErr_SetString(PyExc_ValueError, "rules that do not fit");
        return -1;
    }
    read_decay_table(scoring->decay_table, (const uint8_t *)table);
    return 0;
}

PyObject *native_encode_leaves(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *given, *rule_tuple, *rules[5];
    long long time;
    const char *table;
    Py_ssize_t size;
    /* Rules in a tuple live as long as it does; those of another sequence may be made for a read. */
    if (!PyArg_ParseTuple(arguments, "O!O!Ly#", &PyList_Type, &given, &PyTuple_Type, &rule_tuple,
                          &time, &table, &size) ||
        !PyArg_ParseTuple(rule_tuple, "OOOOO", &rules[0], &rules[1], &rules[2], &rules[3], &rules[4]))
        return NULL;
    Scoring scoring = {.time = time};
    if (read_scoring(rules, table, size, &scoring) < 0) return NULL;
    /* A tuple of ours: another thread may change the list. */
    PyObject *rows = PyList_AsTuple(given), *others = PyList_New(0), *encoded = NULL;
    uint8_t *leaves = NULL;
    if (rows != NULL && others != NULL) {
        leaves = malloc((size_t)PyTuple_Size(rows) * LEAF_SIZE + 1);
        if (leaves == NULL) PyErr_NoMemory();
    }
    if (leaves != NULL) {
        Py_ssize_t count = put_leaves(rows, &scoring, leaves, others);
        if (count >= 0) encoded = Py_BuildValue("y#O", leaves, count * LEAF_SIZE, others);
    }
    free(leaves);
    Py_XDECREF(others);
    Py_XDECREF(rows);
    return encoded;
}
