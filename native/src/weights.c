/* Computes selection weights and the weighted draw over columns of candidates, exactly as
 * oracle/systems/crynux/candidate_columns.py does, with integers in units of 10^-18 that are rounded down
 * at every line. */
#include <math.h>
#include <string.h>

#include "native.h"

/* A Python buffer that must be released. */
typedef struct {
    Py_buffer view;
    int is_acquired;
} Column;

static int acquire_column(PyObject *from, Column *column, int flags) {
    if (PyObject_GetBuffer(from, &column->view, flags) < 0) return -1;
    column->is_acquired = 1;
    return 0;
}

static void release_columns(Column *columns, size_t count) {
    for (size_t at = 0; at < count; at++)
        if (columns[at].is_acquired) PyBuffer_Release(&columns[at].view);
}

static inline uint64_t low(Wide number) { return (uint64_t)number; }
static inline uint64_t high(Wide number) { return (uint64_t)(number >> 64); }

/* Return the upper half of a product of 256 bits. */
static Wide high_product(Wide first, Wide second) {
    Wide lows = (Wide)low(first) * low(second);
    Wide left = (Wide)high(first) * low(second) + high(lows);
    Wide right = (Wide)low(first) * high(second) + low(left);
    return (Wide)high(first) * high(second) + high(left) + high(right);
}

/* Return whether nothing has decayed; otherwise write the remaining factor to `left`. */
static int is_undecayed(int64_t seconds, const Wide table[DECAY_BITS], Wide *left) {
    if (seconds <= 0) return 1;
    *left = 0;
    if (seconds >> DECAY_BITS) return 0;
    int begun = 0;
    for (int bit = 0; bit < DECAY_BITS; bit++) {
        if (!(seconds >> bit & 1)) continue;
        *left = begun ? high_product(*left, table[bit]) : table[bit];
        begun = 1;
    }
    return 0;
}

/* Return the reliability H, which is `base` after a recovery of `seconds`. */
static uint64_t heal(uint64_t base, int64_t seconds, const Wide table[DECAY_BITS]) {
    Wide left;
    if (base >= UNIT || is_undecayed(seconds, table, &left)) return base;
    /* gap * (2^128 - left) >> 128, where left is 0 or the factor has 128 bits. */
    uint64_t gap = UNIT - base;
    return base + (left == 0 ? gap : low(high_product(gap, -left)));
}

/* Return the seconds between two times, limited to the range of 64 bits. */
static int64_t seconds_between(int64_t since, int64_t time) {
    int64_t seconds;
    if (__builtin_sub_overflow(time, since, &seconds)) return since < 0 ? INT64_MAX : INT64_MIN;
    return seconds;
}

uint64_t heal_reliability(uint64_t base, int64_t since, int64_t time, const Wide table[DECAY_BITS]) {
    return heal(base, seconds_between(since, time), table);
}

/* boost * score * qos // (score + qos) // UNIT; no step has more than 128 bits, since
 * boost * score // (score + qos) is no more than boost. */
static uint64_t combine_scores(uint64_t boost, uint64_t score, uint64_t qos) {
    uint64_t total = score + qos;
    if (total == 0) return 0;
    Wide product = (Wide)boost * score;
    Wide whole = product / total, remainder = product % total;
    return low((whole * qos + remainder * qos / total) / UNIT);
}

typedef struct {
    const uint64_t *bases, *long_terms, *exclusion_lines, *boosts, *scores;
    const int64_t *sinces;
    const uint8_t *requested;
    uint64_t *weights;
    uint8_t *is_candidate;
    int64_t time;
    uint64_t min_weight;
    Wide table[DECAY_BITS];
} WeightInputs;

static void compute_weight(const WeightInputs *inputs, size_t at) {
    uint64_t reliability =
        heal_reliability(inputs->bases[at], inputs->sinces[at], inputs->time, inputs->table);
    if (reliability < inputs->exclusion_lines[at]) {
        inputs->weights[at] = inputs->is_candidate[at] = 0;
        return;
    }
    uint64_t qos = low((Wide)inputs->long_terms[at] * reliability / UNIT);
    uint64_t weight = combine_scores(inputs->boosts[at], inputs->scores[at], qos);
    inputs->weights[at] = weight > inputs->min_weight ? weight : inputs->min_weight;
    inputs->is_candidate[at] = 1;
}

static void compute_requested_weights(const WeightInputs *inputs, size_t count) {
    const uint8_t *end = inputs->requested + count;
    for (const uint8_t *next = inputs->requested; next < end; next++) {
        next = memchr(next, 1, (size_t)(end - next));
        if (next == NULL) return;
        compute_weight(inputs, (size_t)(next - inputs->requested));
    }
}

void read_decay_table(Wide table[DECAY_BITS], const uint8_t *bytes) {
    for (int bit = 0; bit < DECAY_BITS; bit++) {
        table[bit] = 0;
        for (int at = 15; at >= 0; at--) table[bit] = table[bit] << 8 | bytes[16 * bit + at];
    }
}

/* The columns of compute_weights in order; the last two are written. */
enum { BASES, SINCES, LONG_TERMS, EXCLUSION_LINES, BOOSTS, SCORES, REQUESTED, WEIGHTS, IS_CANDIDATE, COLUMNS };

/* The entry size of each column, in bytes. */
static const Py_ssize_t ENTRY_SIZES[COLUMNS] = {8, 8, 8, 8, 8, 8, 1, 8, 1};

static int acquire_columns(PyObject *column_tuple, Column columns[COLUMNS]) {
    if (!PyTuple_Check(column_tuple) || PyTuple_Size(column_tuple) != COLUMNS) {
        PyErr_SetString(PyExc_ValueError, "compute_weights takes nine columns");
        return -1;
    }
    for (int at = 0; at < COLUMNS; at++) {
        int flags = at < WEIGHTS ? PyBUF_SIMPLE : PyBUF_WRITABLE;
        if (acquire_column(PyTuple_GetItem(column_tuple, at), &columns[at], flags) < 0) return -1;
    }
    Py_ssize_t count = columns[REQUESTED].view.len;
    for (int at = 0; at < COLUMNS; at++)
        if (columns[at].view.len != count * ENTRY_SIZES[at]) {
            PyErr_SetString(PyExc_ValueError, "the columns have different lengths");
            return -1;
        }
    return 0;
}

static WeightInputs make_weight_inputs(const Column columns[COLUMNS]) {
    return (WeightInputs){
        .bases = columns[BASES].view.buf,
        .sinces = columns[SINCES].view.buf,
        .long_terms = columns[LONG_TERMS].view.buf,
        .exclusion_lines = columns[EXCLUSION_LINES].view.buf,
        .boosts = columns[BOOSTS].view.buf,
        .scores = columns[SCORES].view.buf,
        .requested = columns[REQUESTED].view.buf,
        .weights = columns[WEIGHTS].view.buf,
        .is_candidate = columns[IS_CANDIDATE].view.buf,
    };
}

PyObject *native_compute_weights(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *column_tuple;
    long long time;
    unsigned long long min_weight;
    const char *table;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "OLy#K", &column_tuple, &time, &table, &size, &min_weight)) return NULL;
    if (size != 16 * DECAY_BITS)
        return PyErr_Format(PyExc_ValueError, "the decay table has %zd bytes", size);
    Column columns[COLUMNS] = {0};
    PyObject *result = NULL;
    if (acquire_columns(column_tuple, columns) == 0) {
        WeightInputs inputs = make_weight_inputs(columns);
        inputs.time = time;
        inputs.min_weight = min_weight;
        read_decay_table(inputs.table, (const uint8_t *)table);
        compute_requested_weights(&inputs, (size_t)columns[REQUESTED].view.len);
        result = Py_NewRef(Py_None);
    }
    release_columns(columns, COLUMNS);
    return result;
}

/* Return stake * UNIT / largest and write the remainder. Because stake <= largest, the quotient is UNIT
 * at most. This is one step of long division in digits of 2^64 (Knuth, algorithm D). */
static uint64_t divide_by_largest(Wide stake, Wide largest, Wide *remainder) {
    int shift = 0;
    for (Wide top = largest; !(high(top) >> 63); top <<= 1) shift++;
    Wide divisor = largest << shift;
    /* The shifted product has three digits, of which the upper two are less than the divisor. */
    Wide lows = (Wide)low(stake) * UNIT, highs = (Wide)high(stake) * UNIT + high(lows);
    uint64_t digits[3] = {low(lows), low(highs), high(highs)};
    for (int left = shift; left > 0;) {
        int by = left > 63 ? 63 : left;
        digits[2] = digits[2] << by | digits[1] >> (64 - by);
        digits[1] = digits[1] << by | digits[0] >> (64 - by);
        digits[0] <<= by;
        left -= by;
    }
    Wide upper = (Wide)digits[2] << 64 | digits[1];
    uint64_t guess = digits[2] >= high(divisor) ? UINT64_MAX : low(upper / high(divisor));
    Wide taken = (Wide)guess * low(divisor), over = (Wide)guess * high(divisor) + high(taken);
    /* The guess is too large by at most 2. */
    while (over > upper || (over == upper && low(taken) > digits[0])) {
        guess--;
        Wide borrowed = low(taken) < low(divisor);
        taken = (Wide)(uint64_t)(low(taken) - low(divisor));
        over -= (Wide)high(divisor) + borrowed;
    }
    Wide borrowed = digits[0] < low(taken);
    Wide left = (upper - over - borrowed) << 64 | (uint64_t)(digits[0] - low(taken));
    *remainder = left >> shift;
    return guess;
}

/* Return the square root of a number below 2^120, rounded down. */
static uint64_t integer_sqrt(Wide number) {
    if (number == 0) return 0;
    uint64_t root = (uint64_t)sqrt((double)number);
    if (root == 0) root = 1;
    root = (root + low(number / root)) / 2;
    while ((Wide)root * root > number) root--;
    while ((Wide)(root + 1) * (root + 1) <= number) root++;
    return root;
}

/* Return the stake score S = sqrt(stake / largest). */
static uint64_t compute_stake_score(Wide stake, Wide largest) {
    Wide remainder, nothing;
    Wide whole = divide_by_largest(stake, largest, &remainder);
    return integer_sqrt(whole * UNIT + divide_by_largest(remainder, largest, &nothing));
}

/* Read an unsigned integer of up to 128 bits. Return -1 for anything else, without an exception. */
static int read_wide(PyObject *number, PyObject *shift, Wide *wide) {
    PyObject *upper = PyNumber_Rshift(number, shift);
    unsigned long long highs = upper == NULL ? 0 : PyLong_AsUnsignedLongLong(upper);
    Py_XDECREF(upper);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return -1;
    }
    *wide = (Wide)highs << 64 | PyLong_AsUnsignedLongLongMask(number);
    return 0;
}

/* Write the score of each stake. Return 1 if a stake is out of range. `stakes` is a copy, because a stake
 * of a user-defined class runs Python code, which may change the original list. */
static int write_scores(PyObject *stakes, PyObject *shift, Wide largest, uint64_t *scores) {
    Wide before = 0;
    uint64_t score = 0;
    for (Py_ssize_t at = 0; at < PyTuple_Size(stakes); at++) {
        Wide stake;
        if (read_wide(PyTuple_GetItem(stakes, at), shift, &stake) < 0 || stake > largest) return 1;
        /* Neighbouring stakes are often equal, so the last score is reused. */
        if (stake != before) score = compute_stake_score(stake, largest);
        before = stake;
        scores[at] = score;
    }
    return 0;
}

PyObject *native_compute_stake_scores(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *stakes, *largest, *scores;
    if (!PyArg_ParseTuple(arguments, "O!O!O", &PyList_Type, &stakes, &PyLong_Type, &largest, &scores))
        return NULL;
    Column column = {0};
    if (acquire_column(scores, &column, PyBUF_WRITABLE) < 0) return NULL;
    PyObject *shift = PyLong_FromLong(64), *stakes_copy = PyList_AsTuple(stakes), *result = NULL;
    Wide max_stake;
    if (shift == NULL || stakes_copy == NULL) {
        result = NULL;
    } else if (column.view.len != 8 * PyTuple_Size(stakes_copy)) {
        PyErr_SetString(PyExc_ValueError, "expected as many scores as stakes");
    } else {
        int is_out_of_range = read_wide(largest, shift, &max_stake) < 0 || max_stake == 0;
        is_out_of_range = is_out_of_range || write_scores(stakes_copy, shift, max_stake, column.view.buf);
        result = PyBool_FromLong(!is_out_of_range);
    }
    Py_XDECREF(stakes_copy);
    Py_XDECREF(shift);
    release_columns(&column, 1);
    return result;
}

static PyObject *make_long(Wide number) {
    PyObject *shift = PyLong_FromLong(64), *upper = PyLong_FromUnsignedLongLong(high(number));
    PyObject *lower = PyLong_FromUnsignedLongLong(low(number)), *result = NULL;
    if (shift != NULL && upper != NULL && lower != NULL) {
        PyObject *shifted = PyNumber_Lshift(upper, shift);
        if (shifted != NULL) result = PyNumber_Add(shifted, lower);
        Py_XDECREF(shifted);
    }
    Py_XDECREF(shift);
    Py_XDECREF(upper);
    Py_XDECREF(lower);
    return result;
}

PyObject *native_sum_weights(PyObject *module, PyObject *weights) {
    (void)module;
    Column column = {0};
    if (acquire_column(weights, &column, PyBUF_SIMPLE) < 0) return NULL;
    const uint64_t *weights_read = column.view.buf;
    Wide total = 0;
    for (Py_ssize_t at = 0; at < column.view.len / 8; at++) total += weights_read[at];
    release_columns(&column, 1);
    return make_long(total);
}

/* Return the first index at which the running sum of the weights exceeds x. */
PyObject *native_find_weighted_index(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *weights, *x, *shift = PyLong_FromLong(64);
    Wide left;
    if (shift == NULL) return NULL;
    int is_read = PyArg_ParseTuple(arguments, "OO!", &weights, &PyLong_Type, &x);
    int is_wide = is_read && read_wide(x, shift, &left) == 0;
    Py_DECREF(shift);
    if (!is_read) return NULL;
    Column column = {0};
    if (acquire_column(weights, &column, PyBUF_SIMPLE) < 0) return NULL;
    const uint64_t *weights_read = column.view.buf;
    Py_ssize_t at = 0, count = is_wide ? column.view.len / 8 : 0;
    while (at < count && weights_read[at] <= left) left -= weights_read[at++];
    release_columns(&column, 1);
    if (at == count) return PyErr_Format(PyExc_ValueError, "x is not below the sum of the weights");
    return PyLong_FromSsize_t(at);
}
