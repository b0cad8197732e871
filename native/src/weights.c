/* Selection weights and the weighted draw over columns of candidates, exactly as
 * oracle/systems/crynux/candidate_columns.py computes them: whole numbers in units of 10^-18,
 * rounded down at every line. */
#include <math.h>
#include <string.h>

#include "native.h"

/* A column that Python lends us. */
typedef struct {
    Py_buffer view;
    int is_held;
} Column;

static int take_column(PyObject *from, Column *column, int flags) {
    if (PyObject_GetBuffer(from, &column->view, flags) < 0) return -1;
    column->is_held = 1;
    return 0;
}

static void give_back(Column *columns, size_t count) {
    for (size_t at = 0; at < count; at++)
        if (columns[at].is_held) PyBuffer_Release(&columns[at].view);
}

static inline uint64_t low(Wide number) { return (uint64_t)number; }
static inline uint64_t high(Wide number) { return (uint64_t)(number >> 64); }

/* The upper half of a product of 256 bits. */
static Wide high_product(Wide one, Wide other) {
    Wide lows = (Wide)low(one) * low(other);
    Wide left = (Wide)high(one) * low(other) + high(lows);
    Wide right = (Wide)low(one) * high(other) + low(left);
    return (Wide)high(one) * high(other) + high(left) + high(right);
}

/* Tell whether nothing has decayed; else what is left is in `left`. */
static int is_whole(int64_t seconds, const Wide table[DECAY_BITS], Wide *left) {
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

/* H: `base`, healed for so many seconds. */
static uint64_t healed(uint64_t base, int64_t seconds, const Wide table[DECAY_BITS]) {
    Wide left;
    if (base >= UNIT || is_whole(seconds, table, &left)) return base;
    /* gap * (2^128 - left) >> 128, where left is 0 or the factor has 128 bits. */
    uint64_t gap = UNIT - base;
    return base + (left == 0 ? gap : low(high_product(gap, -left)));
}

/* The seconds from one time to another; what has no 64 bits is as long as 64 bits can say. */
static int64_t seconds_between(int64_t since, int64_t time) {
    int64_t seconds;
    if (__builtin_sub_overflow(time, since, &seconds)) return since < 0 ? INT64_MAX : INT64_MIN;
    return seconds;
}

uint64_t heal_reliability(uint64_t base, int64_t since, int64_t time, const Wide table[DECAY_BITS]) {
    return healed(base, seconds_between(since, time), table);
}

/* boost * score * qos // (score + qos) // UNIT; no step has more than 128 bits, since
 * boost * score // (score + qos) is no more than boost. */
static uint64_t combined(uint64_t boost, uint64_t score, uint64_t qos) {
    uint64_t both = score + qos;
    if (both == 0) return 0;
    Wide product = (Wide)boost * score;
    Wide whole = product / both, rest = product % both;
    return low((whole * qos + rest * qos / both) / UNIT);
}

typedef struct {
    const uint64_t *bases, *long_terms, *barred, *boosts, *scores;
    const int64_t *sinces;
    const uint8_t *asked;
    uint64_t *weights;
    uint8_t *offered;
    int64_t time;
    uint64_t least;
    Wide table[DECAY_BITS];
} Weighing;

static void weigh_one(const Weighing *all, size_t at) {
    uint64_t reliability =
        heal_reliability(all->bases[at], all->sinces[at], all->time, all->table);
    if (reliability < all->barred[at]) {
        all->weights[at] = all->offered[at] = 0;
        return;
    }
    uint64_t qos = low((Wide)all->long_terms[at] * reliability / UNIT);
    uint64_t weight = combined(all->boosts[at], all->scores[at], qos);
    all->weights[at] = weight > all->least ? weight : all->least;
    all->offered[at] = 1;
}

static void weigh_asked(const Weighing *all, size_t count) {
    const uint8_t *end = all->asked + count;
    for (const uint8_t *next = all->asked; next < end; next++) {
        next = memchr(next, 1, (size_t)(end - next));
        if (next == NULL) return;
        weigh_one(all, (size_t)(next - all->asked));
    }
}

void read_decay_table(Wide table[DECAY_BITS], const uint8_t *bytes) {
    for (int bit = 0; bit < DECAY_BITS; bit++) {
        table[bit] = 0;
        for (int at = 15; at >= 0; at--) table[bit] = table[bit] << 8 | bytes[16 * bit + at];
    }
}

/* The columns of `weigh` in order; the last two are written. */
enum { BASES, SINCES, LONG_TERMS, BARRED, BOOSTS, SCORES, ASKED, WEIGHTS, OFFERED, COLUMNS };

/* The size of an entry of each. */
static const Py_ssize_t ENTRY[COLUMNS] = {8, 8, 8, 8, 8, 8, 1, 8, 1};

static int take_columns(PyObject *given, Column columns[COLUMNS]) {
    if (!PyTuple_Check(given) || PyTuple_Size(given) != COLUMNS) {
        PyErr_SetString(PyExc_ValueError, "weigh takes nine columns");
        return -1;
    }
    for (int at = 0; at < COLUMNS; at++) {
        int flags = at < WEIGHTS ? PyBUF_SIMPLE : PyBUF_WRITABLE;
        if (take_column(PyTuple_GetItem(given, at), &columns[at], flags) < 0) return -1;
    }
    Py_ssize_t count = columns[ASKED].view.len;
    for (int at = 0; at < COLUMNS; at++)
        if (columns[at].view.len != count * ENTRY[at]) {
            PyErr_SetString(PyExc_ValueError, "columns of different lengths");
            return -1;
        }
    return 0;
}

static Weighing weighing_of(const Column columns[COLUMNS]) {
    return (Weighing){
        .bases = columns[BASES].view.buf,
        .sinces = columns[SINCES].view.buf,
        .long_terms = columns[LONG_TERMS].view.buf,
        .barred = columns[BARRED].view.buf,
        .boosts = columns[BOOSTS].view.buf,
        .scores = columns[SCORES].view.buf,
        .asked = columns[ASKED].view.buf,
        .weights = columns[WEIGHTS].view.buf,
        .offered = columns[OFFERED].view.buf,
    };
}

PyObject *native_compute_weights(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *given;
    long long time;
    unsigned long long least;
    const char *table;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(arguments, "OLy#K", &given, &time, &table, &size, &least)) return NULL;
    if (size != 16 * DECAY_BITS)
        return PyErr_Format(PyExc_ValueError, "a decay table of %zd bytes", size);
    Column columns[COLUMNS] = {0};
    PyObject *done = NULL;
    if (take_columns(given, columns) == 0) {
        Weighing all = weighing_of(columns);
        all.time = time;
        all.least = least;
        read_decay_table(all.table, (const uint8_t *)table);
        weigh_asked(&all, (size_t)columns[ASKED].view.len);
        done = Py_NewRef(Py_None);
    }
    give_back(columns, COLUMNS);
    return done;
}

/* stake * UNIT / largest with its rest, where stake <= largest: the quotient is UNIT at most.
 * One step of long division in digits of 2^64 (Knuth, algorithm D). */
static uint64_t part_of(Wide stake, Wide largest, Wide *rest) {
    int shift = 0;
    for (Wide top = largest; !(high(top) >> 63); top <<= 1) shift++;
    Wide divisor = largest << shift;
    /* The product, shifted, in three digits; its upper two are less than the divisor. */
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
    /* At most twice too large. */
    while (over > upper || (over == upper && low(taken) > digits[0])) {
        guess--;
        Wide borrowed = low(taken) < low(divisor);
        taken = (Wide)(uint64_t)(low(taken) - low(divisor));
        over -= (Wide)high(divisor) + borrowed;
    }
    Wide borrowed = digits[0] < low(taken);
    Wide left = (upper - over - borrowed) << 64 | (uint64_t)(digits[0] - low(taken));
    *rest = left >> shift;
    return guess;
}

/* The root of a number below 2^120, rounded down. */
static uint64_t root_of(Wide number) {
    if (number == 0) return 0;
    uint64_t root = (uint64_t)sqrt((double)number);
    if (root == 0) root = 1;
    root = (root + low(number / root)) / 2;
    while ((Wide)root * root > number) root--;
    while ((Wide)(root + 1) * (root + 1) <= number) root++;
    return root;
}

/* S = sqrt(stake / largest). */
static uint64_t stake_score(Wide stake, Wide largest) {
    Wide rest, nothing;
    Wide whole = part_of(stake, largest, &rest);
    return root_of(whole * UNIT + part_of(rest, largest, &nothing));
}

/* -1: it is no number of 0 to 128 bits; nothing is raised. */
static int wide_of(PyObject *number, PyObject *shift, Wide *wide) {
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

/* 0: all are written; 1: one is no stake that fits. `stakes` is a tuple of ours: a stake of a class
 * of its own runs Python code, which may change the list that it came in. */
static int put_scores(PyObject *stakes, PyObject *shift, Wide largest, uint64_t *scores) {
    Wide before = 0;
    uint64_t score = 0;
    for (Py_ssize_t at = 0; at < PyTuple_Size(stakes); at++) {
        Wide stake;
        if (wide_of(PyTuple_GetItem(stakes, at), shift, &stake) < 0 || stake > largest) return 1;
        /* Stakes of one size stand side by side more often than not. */
        if (stake != before) score = stake_score(stake, largest);
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
    if (take_column(scores, &column, PyBUF_WRITABLE) < 0) return NULL;
    PyObject *shift = PyLong_FromLong(64), *held = PyList_AsTuple(stakes), *done = NULL;
    Wide most;
    if (shift == NULL || held == NULL) {
        done = NULL;
    } else if (column.view.len != 8 * PyTuple_Size(held)) {
        PyErr_SetString(PyExc_ValueError, "as many scores as stakes");
    } else {
        int unfit = wide_of(largest, shift, &most) < 0 || most == 0;
        unfit = unfit || put_scores(held, shift, most, column.view.buf);
        done = PyBool_FromLong(!unfit);
    }
    Py_XDECREF(held);
    Py_XDECREF(shift);
    give_back(&column, 1);
    return done;
}

static PyObject *long_of(Wide number) {
    PyObject *shift = PyLong_FromLong(64), *upper = PyLong_FromUnsignedLongLong(high(number));
    PyObject *lower = PyLong_FromUnsignedLongLong(low(number)), *made = NULL;
    if (shift != NULL && upper != NULL && lower != NULL) {
        PyObject *shifted = PyNumber_Lshift(upper, shift);
        if (shifted != NULL) made = PyNumber_Add(shifted, lower);
        Py_XDECREF(shifted);
    }
    Py_XDECREF(shift);
    Py_XDECREF(upper);
    Py_XDECREF(lower);
    return made;
}

PyObject *native_sum_weights(PyObject *module, PyObject *weights) {
    (void)module;
    Column column = {0};
    if (take_column(weights, &column, PyBUF_SIMPLE) < 0) return NULL;
    const uint64_t *each = column.view.buf;
    Wide total = 0;
    for (Py_ssize_t at = 0; at < column.view.len / 8; at++) total += each[at];
    give_back(&column, 1);
    return long_of(total);
}

/* The first place with which the sum of the weights exceeds x. */
PyObject *native_find_weighted_index(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *weights, *x, *shift = PyLong_FromLong(64);
    Wide left;
    if (shift == NULL) return NULL;
    int is_read = PyArg_ParseTuple(arguments, "OO!", &weights, &PyLong_Type, &x);
    int is_wide = is_read && wide_of(x, shift, &left) == 0;
    Py_DECREF(shift);
    if (!is_read) return NULL;
    Column column = {0};
    if (take_column(weights, &column, PyBUF_SIMPLE) < 0) return NULL;
    const uint64_t *each = column.view.buf;
    Py_ssize_t at = 0, count = is_wide ? column.view.len / 8 : 0;
    while (at < count && each[at] <= left) left -= each[at++];
    give_back(&column, 1);
    if (at == count) return PyErr_Format(PyExc_ValueError, "no weight at that place");
    return PyLong_FromSsize_t(at);
}
