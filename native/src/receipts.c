/* The receipts of a block from the JSON of `eth_getBlockReceipts` (EIP-2718, types 0 to 4): their
 * root is computed and compared, and the wanted logs are taken from them. The Python code in
 * oracle/chain/proofs/receipts.py and oracle/chain/verification/ decides everything that is
 * unusual, and what follows from another root. */
#include <stdlib.h>
#include <string.h>

#include "native.h"

#define BLOOM_SIZE 256
#define LAST_TYPE '4'
/* A quantity of more bytes than this is none. */
#define MOST_QUANTITY 32

/* One receipt; its logs are `first_log` to the last ones of the block. */
typedef struct {
    Text hash, index, gas, type, status, bloom;
    size_t first_log;
    int has_logs, has_contract, has_root;
} ReceiptText;

/* The header of the block, and what was read of its receipts. */
typedef struct {
    uint64_t number;
    int64_t time;
    Text hash;
    Cursor hashes;
    const Wanted *wanted;
    LogText *logs;
    size_t log_count, log_room;
    Leaf *leaves;
    size_t count, room;
    Buffer written, statuses;
    Found found;
} Block;

/* --- RLP of hex --- */

static int put_hex(Buffer *out, Text hex) {
    if (hex.size < 2 || buffer_grow(out, hex.size / 2) < 0) return 0;
    if (!hex_to_bytes(hex, out->bytes + out->size)) return 0;
    out->size += hex.size / 2 - 1;
    return 1;
}

/* Write a string of just so many bytes, two at least. */
static int put_fixed(Buffer *out, Text hex, size_t size) {
    if (hex.size != 2 + 2 * size) return 0;
    uint8_t head[HEAD_ROOM];
    buffer_put(out, head, rlp_head(head, 0x80, size));
    return put_hex(out, hex);
}

static int put_string(Buffer *out, Text hex) {
    size_t size = hex.size / 2 - 1;
    uint8_t only, head[HEAD_ROOM];
    if (hex.size < 2) return 0;
    /* A byte below 0x80 is its own encoding. */
    if (size != 1 || !hex_to_bytes(hex, &only) || only >= 0x80)
        buffer_put(out, head, rlp_head(head, 0x80, size));
    return put_hex(out, hex);
}

static int put_quantity(Buffer *out, Text hex) {
    char padded[2 + 2 * MOST_QUANTITY];
    uint8_t bytes[MOST_QUANTITY];
    if (hex.size < 3 || hex.size > sizeof padded || hex.text[0] != '0' || hex.text[1] != 'x')
        return 0;
    memset(padded, '0', sizeof padded);
    padded[1] = 'x';
    memcpy(padded + sizeof padded - (hex.size - 2), hex.text + 2, hex.size - 2);
    if (!hex_to_bytes((Text){padded, sizeof padded}, bytes)) return 0;
    size_t first = 0;
    while (first < MOST_QUANTITY && bytes[first] == 0) first++;
    rlp_string(out, bytes + first, MOST_QUANTITY - first);
    return 1;
}

static int put_log(Buffer *out, const LogText *log) {
    size_t opened = rlp_list_open(out);
    if (!put_fixed(out, log->address, 20)) return 0;
    size_t topics = rlp_list_open(out);
    for (size_t at = 0; at < log->topic_count; at++)
        if (!put_fixed(out, log->topics[at], HASH_SIZE)) return 0;
    rlp_list_close(out, topics);
    if (!put_string(out, log->data)) return 0;
    rlp_list_close(out, opened);
    return 1;
}

/* A zero bloom beside logs was not filled in: Python makes one. */
static int put_bloom(Buffer *out, Text hex, int has_logs) {
    if (!put_fixed(out, hex, BLOOM_SIZE) || out->failed) return 0;
    const uint8_t *bloom = out->bytes + out->size - BLOOM_SIZE;
    size_t lit = 0;
    while (lit < BLOOM_SIZE && bloom[lit] == 0) lit++;
    return lit < BLOOM_SIZE || !has_logs;
}

static int put_receipt(Block *block, const ReceiptText *receipt) {
    Buffer *out = &block->written;
    uint8_t type = receipt->type.text == NULL ? 0 : (uint8_t)(receipt->type.text[2] - '0');
    uint8_t succeeded = receipt->status.text[2] == '1', outcome = succeeded ? 0x01 : 0x80;
    if (type > 0) buffer_put(out, &type, 1);
    size_t opened = rlp_list_open(out);
    buffer_put(out, &outcome, 1);
    buffer_put(&block->statuses, &succeeded, 1);
    if (!put_quantity(out, receipt->gas) ||
        !put_bloom(out, receipt->bloom, block->log_count > receipt->first_log))
        return 0;
    size_t logs = rlp_list_open(out);
    for (size_t at = receipt->first_log; at < block->log_count; at++)
        if (!put_log(out, &block->logs[at])) return 0;
    rlp_list_close(out, logs);
    rlp_list_close(out, opened);
    return !out->failed && !block->statuses.failed;
}

/* --- reading --- */

static int read_log(Cursor *cursor, Text name, void *into) {
    (void)name;
    Block *block = into;
    if (block->log_count == block->log_room) {
        size_t room = 2 * block->log_room + 64;
        LogText *logs =
            room > SIZE_MAX / sizeof(LogText) ? NULL : realloc(block->logs, room * sizeof(LogText));
        if (logs == NULL) return 0;
        block->logs = logs;
        block->log_room = room;
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

/* `0x` and one digit up to `last`. */
static int is_digit(Text text, char last) {
    return text.size == 3 && text.text[0] == '0' && text.text[1] == 'x' && text.text[2] >= '0' &&
           text.text[2] <= last;
}

/* Take the logs of a receipt that are wanted; their positions are those of the execution. */
static int take_logs(Block *block, const ReceiptText *receipt) {
    for (size_t at = receipt->first_log; at < block->log_count; at++) {
        LogText log = block->logs[at];
        size_t pair;
        uint64_t number;
        if (!wanted_find(block->wanted, &log, &pair)) return 0;
        if (pair == NO_PAIR) continue;
        if (!hex_to_number(log.block_number, &number) || number != block->number ||
            !text_equals(log.block_hash, block->hash))
            return 0;
        log.tx_hash = receipt->hash;
        if (!found_add(&block->found, &log, pair, number, block->count, at, block->time)) return 0;
    }
    return 1;
}

/* Read the next of the block's transaction hashes; it must be that of the receipt. */
static int take_hash(Block *block, Text hash) {
    Text expected;
    return (block->count == 0 || json_take(&block->hashes, ',')) &&
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
        !take_hash(block, text->hash))
        return 0;
    if (!is_digit(text->status, '1') ||
        (text->type.text != NULL && !is_digit(text->type, LAST_TYPE)))
        return 0;
    if (block->count == block->room) {
        size_t room = 2 * block->room + 64;
        Leaf *leaves =
            room > SIZE_MAX / sizeof(Leaf) ? NULL : realloc(block->leaves, room * sizeof(Leaf));
        if (leaves == NULL) return 0;
        block->leaves = leaves;
        block->room = room;
    }
    size_t before = block->written.size;
    if (!put_receipt(block, text) || !take_logs(block, text)) return 0;
    block->leaves[block->count++] = (Leaf){NULL, block->written.size - before};
    return 1;
}

/* Read all receipts and all transaction hashes, and compare the root. */
static int read_block(Block *block, Cursor *cursor, Text root) {
    uint8_t hash[HASH_SIZE], expected[HASH_SIZE];
    if (!json_take(&block->hashes, '[') || !json_members(cursor, 0, read_receipt, block) ||
        !json_is_done(cursor))
        return 0;
    if (!json_take(&block->hashes, ']') || !json_is_done(&block->hashes)) return 0;
    if (root.size != 2 + 2 * HASH_SIZE || !hex_to_bytes(root, expected)) return 0;
    /* The leaves are one behind the other. */
    size_t begun = 0;
    for (size_t at = 0; at < block->count; begun += block->leaves[at++].size)
        block->leaves[at].bytes = block->written.bytes + begun;
    return list_root(block->leaves, block->count, hash) == 0 &&
           memcmp(hash, expected, HASH_SIZE) == 0;
}

static void block_free(Block *block) {
    free(block->logs);
    free(block->leaves);
    buffer_free(&block->written);
    buffer_free(&block->statuses);
    found_free(&block->found);
}

/* read_receipts(receipts, hashes, filter, (number, hash, time, root), (Log, sources, logs, rows))
 */
PyObject *native_read_receipts(PyObject *module, PyObject *arguments) {
    (void)module;
    const char *receipts, *hashes, *hash, *root;
    Py_ssize_t receipts_size, hashes_size, hash_size, root_size;
    PyObject *filter;
    unsigned long long number;
    long long time;
    Target target;
    if (!PyArg_ParseTuple(arguments, "y#y#O!(Ks#Ls#)(O!O!O!O!)", &receipts, &receipts_size, &hashes,
                          &hashes_size, &PyTuple_Type, &filter, &number, &hash, &hash_size, &time,
                          &root, &root_size, &PyType_Type, &target.log_class, &PyDict_Type,
                          &target.sources, &PyList_Type, &target.logs, &PyList_Type, &target.rows))
        return NULL;
    Wanted wanted;
    if (wanted_open(&wanted, filter) < 0) return NULL;
    Block block = {
        .number = number, .time = time, .hash = {hash, (size_t)hash_size}, .wanted = &wanted};
    block.hashes = (Cursor){hashes, hashes + hashes_size};
    Cursor cursor = {receipts, receipts + receipts_size};
    PyObject *result = NULL;
    if (!read_block(&block, &cursor, (Text){root, (size_t)root_size}))
        result = Py_NewRef(Py_None);
    else if (found_append(&block.found, &wanted, &target) == 0)
        result = PyBytes_FromStringAndSize((char *)block.statuses.bytes,
                                           (Py_ssize_t)block.statuses.size);
    block_free(&block);
    wanted_close(&wanted);
    return result;
}
