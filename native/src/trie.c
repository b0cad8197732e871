/* Computes the root of the trie over a list (Yellow Paper, 4.3 and D), in which the key of a leaf is the
 * RLP of its index. oracle/chain/proofs/merkle_trie.py does the same in Python. */
#include <string.h>

#include "native.h"

/* A smaller node is embedded in its parent; of a larger one, the parent contains only the hash. */
#define MIN_HASHED_SIZE 32
/* The nibbles of the longest key: the RLP of a size_t, with its header. */
#define MAX_NIBBLES (2 * (1 + sizeof(size_t)))
#define LEAF_FLAG 0x20

typedef struct {
    uint8_t nibbles[MAX_NIBBLES];
    size_t length;
} Key;

typedef struct {
    const Leaf *leaves;
    size_t count;
    Buffer out;
} Trie;

/* Return the index with the nth smallest key. The keys of the indexes 1 to 127 are these numbers, the key
 * of index 0 is 0x80, and the keys of all other indexes are larger. */
static size_t get_sorted_index(size_t nth, size_t count) {
    size_t low = count - 1 < 127 ? count - 1 : 127;
    if (nth < low) return nth + 1;
    return nth == low ? 0 : nth;
}

static Key make_key(size_t index) {
    uint8_t bytes[1 + sizeof(size_t)];
    size_t size = 1;
    if (index == 0) {
        bytes[0] = 0x80;
    } else if (index < 0x80) {
        bytes[0] = (uint8_t)index;
    } else {
        size_t length = 0;
        for (size_t value = index; value > 0; value >>= 8) length++;
        bytes[0] = (uint8_t)(0x80 + length);
        for (; size <= length; size++) bytes[size] = (uint8_t)(index >> 8 * (length - size));
    }
    Key key = {.length = 2 * size};
    for (size_t at = 0; at < size; at++) {
        key.nibbles[2 * at] = bytes[at] >> 4;
        key.nibbles[2 * at + 1] = bytes[at] & 15;
    }
    return key;
}

/* Write a path in the hex-prefix encoding (Yellow Paper, C). */
static void write_path(Buffer *out, const Key *key, size_t from, size_t to, uint8_t kind) {
    uint8_t path[MAX_NIBBLES / 2 + 1];
    size_t size = 0;
    if ((to - from) % 2)
        path[size++] = (uint8_t)((kind | 0x10) + key->nibbles[from++]);
    else
        path[size++] = kind;
    for (; from < to; from += 2)
        path[size++] = (uint8_t)(key->nibbles[from] << 4 | key->nibbles[from + 1]);
    rlp_string(out, path, size);
}

/* Close the node that begins at `start`, and replace it by its hash unless its parent embeds it. */
static void close_node(Buffer *out, size_t start, int is_root) {
    rlp_list_close(out, start);
    if (out->failed || (!is_root && out->size - start < MIN_HASHED_SIZE)) return;
    uint8_t hash[HASH_SIZE];
    keccak256(out->bytes + start, out->size - start, hash);
    out->size = start;
    rlp_string(out, hash, HASH_SIZE);
}

static size_t find_fork_depth(const Key *first, const Key *second, size_t from) {
    size_t min_length = first->length < second->length ? first->length : second->length;
    while (from < min_length && first->nibbles[from] == second->nibbles[from]) from++;
    return from;
}

/* Write the node of the keys `first` to `last`, which share their first `depth` nibbles. The recursion
 * is no deeper than a key is long. */
static void write_node(Trie *trie, size_t first, size_t last, size_t depth) {
    static const uint8_t EMPTY = 0x80;
    Buffer *out = &trie->out;
    Key key = make_key(get_sorted_index(first, trie->count));
    size_t start = rlp_list_open(out);
    if (first == last) {
        const Leaf *leaf = &trie->leaves[get_sorted_index(first, trie->count)];
        write_path(out, &key, depth, key.length, LEAF_FLAG);
        rlp_string(out, leaf->bytes, leaf->size);
        close_node(out, start, depth == 0);
        return;
    }
    Key end = make_key(get_sorted_index(last, trie->count));
    size_t fork = find_fork_depth(&key, &end, depth);
    if (fork > depth) {
        write_path(out, &key, depth, fork, 0);
        write_node(trie, first, last, fork);
        close_node(out, start, depth == 0);
        return;
    }
    for (uint8_t nibble = 0; nibble < 16; nibble++) {
        size_t from = first;
        while (first <= last && make_key(get_sorted_index(first, trie->count)).nibbles[depth] == nibble) first++;
        if (from == first)
            buffer_put(out, &EMPTY, 1);
        else
            write_node(trie, from, first - 1, depth + 1);
    }
    buffer_put(out, &EMPTY, 1);
    close_node(out, start, depth == 0);
}

/* Compute the root of the trie. Return -1 if there is no memory. */
int compute_list_root(const Leaf *leaves, size_t count, uint8_t hash[HASH_SIZE]) {
    static const uint8_t EMPTY = 0x80;
    if (count == 0) {
        keccak256(&EMPTY, 1, hash);
        return 0;
    }
    Trie trie = {.leaves = leaves, .count = count};
    write_node(&trie, 0, count - 1, 0);
    int failed = trie.out.failed;
    if (!failed) memcpy(hash, trie.out.bytes + 1, HASH_SIZE);
    buffer_free(&trie.out);
    return failed ? -1 : 0;
}
