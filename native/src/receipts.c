/* Reads the receipts of a block from the JSON of `eth_getBlockReceipts` (EIP-2718, types 0 to 4),
 * compares their root with the header, and returns the logs that match a filter. The Python code in
 * oracle/chain/proofs/receipts.py and oracle/chain/verification/ handles receipts that are not supported
 * here, and decides what to do if the root differs. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define BLOOM_SIZE 256
#define LAST_TYPE '4'
/* The longest valid quantity, in bytes. */
#define MAX_QUANTITY_SIZE 32

/* A receipt; its first log has the index `first_log` in the block. */
typedef struct {
    Text hash, index, gas, type, status, bloom;
    size_t first_log;
    int has_logs, has_contract, has_root;
} ReceiptText;

/* The header of the block, and the receipts that were read. */
typedef struct {
    uint64_t number;
    int64_t time;
    Text hash;
    Cursor hashes;
    const LogFilter *filter;
    LogText *logs;
    size_t log_count, log_capacity;
    Leaf *leaves;
    size_t count, capacity;
    Buffer encoded, statuses;
    LogMatches matches;
} Block;

/* --- writing RLP --- */

static int put_hex(Buffer *out, Text hex) {
    if (hex.size < 2 || buffer_grow(out, hex.size / 2) < 0) return 0;
    if (!hex_to_bytes(hex, out->bytes + out->size)) return 0;
    out->size += hex.size / 2 - 1;
    return 1;
}

/* Write a string of exactly `size` bytes, which must be at least two. */
static int put_fixed(Buffer *out, Text hex, size_t size) {
    if (hex.size != 2 + 2 * size) return 0;
    uint8_t header[MAX_HEADER_SIZE];
    buffer_put(out, header, rlp_write_header(header, 0x80, size));
    return put_hex(out, hex);
}

static int put_string(Buffer *out, Text hex) {
    size_t size = hex.size / 2 - 1;
    uint8_t only, header[MAX_HEADER_SIZE];
    if (hex.size < 2) return 0;
    /* A single byte below 0x80 is its own encoding and has no header. */
    if (size != 1 || !hex_to_bytes(hex, &only) || only >= 0x80)
        buffer_put(out, header, rlp_write_header(header, 0x80, size));
    return put_hex(out, hex);
}

static int put_quantity(Buffer *out, Text hex) {
    char padded[2 + 2 * MAX_QUANTITY_SIZE];
    uint8_t bytes[MAX_QUANTITY_SIZE];
    if (hex.size < 3 || hex.size > sizeof padded || hex.text[0] != '0' || hex.text[1] != 'x')
        return 0;
    memset(padded, '0', sizeof padded);
    padded[1] = 'x';
    memcpy(padded + sizeof padded - (hex.size - 2), hex.text + 2, hex.size - 2);
    if (!hex_to_bytes((Text){padded, sizeof padded}, bytes)) return 0;
    size_t first = 0;
    while (first < MAX_QUANTITY_SIZE && bytes[first] == 0) first++;
    rlp_string(out, bytes + first, MAX_QUANTITY_SIZE - first);
    return 1;
}

static int put_log(Buffer *out, const LogText *log) {
    size_t start = rlp_list_open(out);
    if (!put_fixed(out, log->address, 20)) return 0;
    size_t topics = rlp_list_open(out);
    for (size_t at = 0; at < log->topic_count; at++)
        if (!put_fixed(out, log->topics[at], HASH_SIZE)) return 0;
    rlp_list_close(out, topics);
    if (!put_string(out, log->data)) return 0;
    rlp_list_close(out, start);
    return 1;
}

/* Write a bloom. Return 0 if the bloom is zero although there are logs, so that Python must compute it. */
static int put_bloom(Buffer *out, Text hex, int has_logs) {
    if (!put_fixed(out, hex, BLOOM_SIZE) || out->failed) return 0;
    const uint8_t *bloom = out->bytes + out->size - BLOOM_SIZE;
    size_t first_set = 0;
    while (first_set < BLOOM_SIZE && bloom[first_set] == 0) first_set++;
    return first_set < BLOOM_SIZE || !has_logs;
}

static int put_receipt(Block *block, const ReceiptText *receipt) {
    Buffer *out = &block->encoded;
    uint8_t type = receipt->type.text == NULL ? 0 : (uint8_t)(receipt->type.text[2] - '0');
    uint8_t succeeded = receipt->status.text[2] == '1', outcome = succeeded ? 0x01 : 0x80;
    if (type > 0) buffer_put(out, &type, 1);
    size_t start = rlp_list_open(out);
    buffer_put(out, &outcome, 1);
    buffer_put(&block->statuses, &succeeded, 1);
    if (!put_quantity(out, receipt->gas) ||
        !put_bloom(out, receipt->bloom, block->log_count > receipt->first_log))
        return 0;
    size_t logs = rlp_list_open(out);
    for (size_t at = receipt->first_log; at < block->log_count; at++)
        if (!put_log(out, &block->logs[at])) return 0;
    rlp_list_close(out, logs);
    rlp_list_close(out, start);
    return !out->failed && !block->statuses.failed;
}

/* --- reading --- */

static int read_log(Cursor *cursor, Text name, void *into) {
    (void)name;
    Block *block = into;
    if (block->log_count == block->log_capacity) {
        size_t capacity = 2 * block->log_capacity + 64;
        LogText *logs =
            capacity > SIZE_MAX / sizeof(LogText) ? NULL : realloc(block->logs, capacity * sizeof(LogText));
        if (logs == NULL) return 0;
        block->logs = logs;
        block->log_capacity = capacity;
    }
    return log_read(cursor, &block->logs[block->log_count++]);
}

typedef struct {
    Block *block;
    ReceiptText text;
} Receipt;

static int read_once(Cursor *cursor, Text *field) {
    return field->text == NULL && json_string(cursor, field);
}

static int read_contract(Cursor *cursor) {
    Text address;
    return json_literal(cursor, "null") || (json_string(cursor, &address) && address.size == 42);
}

static int read_member(Cursor *cursor, Text name, void *into) {
    Receipt *receipt = into;
    ReceiptText *text = &receipt->text;
    if (text_is(name, "transactionHash")) return read_once(cursor, &text->hash);
    if (text_is(name, "transactionIndex")) return read_once(cursor, &text->index);
    if (text_is(name, "cumulativeGasUsed")) return read_once(cursor, &text->gas);
    if (text_is(name, "type")) return read_once(cursor, &text->type);
    if (text_is(name, "status")) return read_once(cursor, &text->status);
    if (text_is(name, "logsBloom")) return read_once(cursor, &text->bloom);
    if (text_is(name, "root")) return json_literal(cursor, "null");
    if (text_is(name, "contractAddress")) return read_contract(cursor);
    if (!text_is(name, "logs")) return json_skip(cursor);
    return !text->has_logs++ && json_members(cursor, 0, read_log, receipt->block);
}

/* Return whether a text is `0x` and one digit up to `last`. */
static int is_digit(Text text, char last) {
    return text.size == 3 && text.text[0] == '0' && text.text[1] == 'x' && text.text[2] >= '0' &&
           text.text[2] <= last;
}

/* Collect the matching logs of a receipt, with the transaction and log indexes of the execution. */
static int collect_logs(Block *block, const ReceiptText *receipt) {
    for (size_t at = receipt->first_log; at < block->log_count; at++) {
        LogText log = block->logs[at];
        size_t pair;
        uint64_t number;
        if (!filter_match(block->filter, &log, &pair)) return 0;
        if (pair == NO_PAIR) continue;
        if (!hex_to_number(log.block_number, &number) || number != block->number ||
            !text_equals(log.block_hash, block->hash))
            return 0;
        log.tx_hash = receipt->hash;
        if (!matches_add(&block->matches, &log, pair, number, block->count, at, block->time)) return 0;
    }
    return 1;
}

/* Read the next transaction hash of the block, and compare it with that of the receipt. */
static int check_transaction_hash(Block *block, Text hash) {
    Text expected;
    return (block->count == 0 || json_accept(&block->hashes, ',')) &&
           json_string(&block->hashes, &expected) && expected.size == 66 &&
           text_equals(expected, hash) && hex_is_lower(hash);
}

static int read_receipt(Cursor *cursor, Text name, void *into) {
    (void)name;
    Block *block = into;
    Receipt receipt = {.block = block, .text = {.first_log = block->log_count}};
    ReceiptText *text = &receipt.text;
    uint64_t index;
    if (!json_members(cursor, 1, read_member, &receipt) || !text->has_logs) return 0;
    if (!hex_to_number(text->index, &index) || index != block->count ||
        !check_transaction_hash(block, text->hash))
        return 0;
    if (!is_digit(text->status, '1') ||
        (text->type.text != NULL && !is_digit(text->type, LAST_TYPE)))
        return 0;
    if (block->count == block->capacity) {
        size_t capacity = 2 * block->capacity + 64;
        Leaf *leaves =
            capacity > SIZE_MAX / sizeof(Leaf) ? NULL : realloc(block->leaves, capacity * sizeof(Leaf));
        if (leaves == NULL) return 0;
        block->leaves = leaves;
        block->capacity = capacity;
    }
    size_t start = block->encoded.size;
    if (!put_receipt(block, text) || !collect_logs(block, text)) return 0;
    block->leaves[block->count++] = (Leaf){NULL, block->encoded.size - start};
    return 1;
}

/* Read all receipts and transaction hashes. Return 0 if they are not supported, or the root differs. */
static int read_block(Block *block, Cursor *cursor, Text root) {
    uint8_t hash[HASH_SIZE], expected[HASH_SIZE];
    if (!json_accept(&block->hashes, '[') || !json_members(cursor, 0, read_receipt, block) ||
        !json_is_at_end(cursor))
        return 0;
    if (!json_accept(&block->hashes, ']') || !json_is_at_end(&block->hashes)) return 0;
    if (root.size != 2 + 2 * HASH_SIZE || !hex_to_bytes(root, expected)) return 0;
    /* The leaves are stored one after another. */
    size_t offset = 0;
    for (size_t at = 0; at < block->count; offset += block->leaves[at++].size)
        block->leaves[at].bytes = block->encoded.bytes + offset;
    return compute_list_root(block->leaves, block->count, hash) == 0 &&
           memcmp(hash, expected, HASH_SIZE) == 0;
}

static void block_free(Block *block) {
    free(block->logs);
    free(block->leaves);
    buffer_free(&block->encoded);
    buffer_free(&block->statuses);
    matches_free(&block->matches);
}

/* read_receipts(receipts, hashes, filter, (number, hash, time, root), (Log, sources, logs, rows))
 */
PyObject *native_read_receipts(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *receipts, *hashes, *hash, *root;
    Py_ssize_t receipts_size, hashes_size, hash_size, root_size;
    PyObject *filter_tuple;
    unsigned long long number;
    long long time;
    Target target;
    if (!PyArg_ParseTuple(arguments, "y#y#O!(Ks#Ls#)(O!O!O!O!)", &receipts, &receipts_size, &hashes,
                          &hashes_size, &PyTuple_Type, &filter_tuple, &number, &hash, &hash_size, &time,
                          &root, &root_size, &PyType_Type, &target.log_class, &PyDict_Type,
                          &target.sources, &PyList_Type, &target.logs, &PyList_Type, &target.rows))
        return NULL;
    LogFilter filter;
    if (filter_open(&filter, filter_tuple) < 0) return NULL;
    Block block = {
        .number = number, .time = time, .hash = {hash, (size_t)hash_size}, .filter = &filter};
    block.hashes = (Cursor){hashes, hashes + hashes_size};
    Cursor cursor = {receipts, receipts + receipts_size};
    PyObject *result = NULL;
    if (!read_block(&block, &cursor, (Text){root, (size_t)root_size}))
        result = Py_NewRef(Py_None);
    else if (matches_append(&block.matches, &filter, &target) == 0)
        result = PyBytes_FromStringAndSize((char *)block.statuses.bytes,
                                           (Py_ssize_t)block.statuses.size);
    block_free(&block);
    filter_close(&filter);
    return result;
}
