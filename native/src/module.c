/* oracle_native: the slowest loops of selection, proofs and roots, in C. The package is optional: for each
 * function there is Python code with identical results, and oracle/domain/native.py loads the package if
 * it is installed. */
#include "native.h"

/* Increase VERSION with every change of a parameter or result: oracle/domain/native.py requires the same
 * version. */
#define VERSION 5

static PyObject *native_keccak(PyObject *module, PyObject *content) {
    (void)module;
    Py_buffer view;
    uint8_t hash[HASH_SIZE];
    if (PyObject_GetBuffer(content, &view, PyBUF_SIMPLE) < 0) return NULL;
    keccak256(view.buf, (size_t)view.len, hash);
    PyBuffer_Release(&view);
    return PyBytes_FromStringAndSize((char *)hash, HASH_SIZE);
}

static PyMethodDef functions[] = {
    {"keccak", native_keccak, METH_O, "Return the Keccak-256 hash of bytes."},
    {"read_logs", native_read_logs, METH_VARARGS,
     "Append the logs of a response and their rows; False: the response needs the Python code."},
    {"read_receipts", native_read_receipts, METH_VARARGS,
     "Append the logs of proven receipts and their rows; None: another root, or receipts that need the Python code."},
    {"sum_row_hashes", native_sum_row_hashes, METH_VARARGS,
     "Return the checksums of rows of logs, by span of blocks; None: rows that need the Python code."},
    {"encode_leaves", native_encode_leaves, METH_VARARGS,
     "Return the encoded leaves of rows, and the rows that need the Python code."},
    {"hash_leaves", native_hash_leaves, METH_VARARGS, "Return the double hashes of leaves, which all have the same size."},
    {"hash_changed_parents", native_hash_changed_parents, METH_VARARGS,
     "Recompute all nodes above the flagged leaves of a tree, and clear the flags."},
    {"set_leaves", native_set_leaves, METH_VARARGS,
     "Write and flag the leaves of a tree that differ, and return the positions of their indexes."},
    {"set_lanes", native_set_lanes, METH_VARARGS,
     "Write lanes, and return the changes of the sums of a round, and the words that differ."},
    {"encode_lane_words", native_encode_lane_words, METH_VARARGS,
     "Return the encoded leaves of words of lanes."},
    {"compute_stake_scores", native_compute_stake_scores, METH_VARARGS,
     "Write sqrt(stake / largest) of each stake; False: a stake is out of range."},
    {"compute_weights", native_compute_weights, METH_VARARGS, "Write the weights of the requested candidates."},
    {"sum_weights", native_sum_weights, METH_O, "Return the sum of a column of weights."},
    {"find_weighted_index", native_find_weighted_index, METH_VARARGS, "Return the first index at which the running sum of the weights exceeds x."},
    {NULL, NULL, 0, NULL},
};

static int init_module(PyObject *module) {
    if (logs_init() < 0) return -1;
    return PyModule_AddIntConstant(module, "VERSION", VERSION);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, init_module}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "oracle_native",
    .m_doc = "Optional native code of qos-oracle.",
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit_oracle_native(void) { return PyModuleDef_Init(&definition); }
