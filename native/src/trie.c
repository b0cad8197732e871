/* The root of the trie over a list (Yellow Paper, 4.3 and D): a leaf's key is the RLP of its
 * place. oracle/chain/proofs/merkle_trie.py is the same in Python. */
#include <string.h>

#include "native.h"

/* A node of fewer bytes stands in its parent; all others are named there by their hash. */
#define NAMED 32
/* Nibbles of the longest key: a size_t after its head. */
#define MOST_NIBBLES (2 * (1 + sizeof(size_t)))
#define ENDS_IN_A_LEAF 0x20

typedef struct {
    uint8_t nibbles[MOST_NIBBLES];
    size_t length;
} Key;

typedef struct {
    const Leaf *leaves;
    size_t count;
    Buffer out;
} Trie;

/* The place whose key is the nth: 1 to 127 are their own key, 0 has 0x80, all others follow. */
static size_t place_of(size_t nth, size_t count) {
    size_t low = count - 1 < 127 ? count - 1 : 127;
    if (nth < low) return nth + 1;
    return nth == low ? 0 : nth;
}

static Key key_of(size_t place) {
    uint8_t bytes[1 + sizeof(size_t)];
    size_t size = 1;
    if (place == 0) {
        bytes[0] = 0x80;
    } else if (place < 0x80) {
        bytes[0] = (uint8_t)place;
    } else {
        size_t length = 0;
        for (size_t left = place; left > 0; left >>= 8) length++;
        bytes[0] = (uint8_t)(0x80 + length);
        for (; size <= length; size++) bytes[size] = (uint8_t)(place >> 8 * (length - size));
    }
    Key key = {.length = 2 * size};
    for (size_t at = 0; at < size; at++) {
        key.nibbles[2 * at] = bytes[at] >> 4;
        key.nibbles[2 * at + 1] = bytes[at] & 15;
    }
    return key;
}

/* Write a path by hex prefix (Yellow Paper, C). */
static void put_path(Buffer *out, const Key *key, size_t from, size_t to, uint8_t kind) {
    uint8_t path[MOST_NIBBLES / 2 + 1];
    size_t size = 0;
    if ((to - from) % 2)
        path[size++] = (uint8_t)((kind | 0x10) + key->nibbles[from++]);
    else
        path[size++] = kind;
    for (; from < to; from += 2)
        path[size++] = (uint8_t)(key->nibbles[from] << 4 | key->nibbles[from + 1]);
    rlp_string(out, path, size);
}

/* Put in place of a node, which was opened there, what its parent holds of it. */
static void close_node(Buffer *out, size_t opened, int is_root) {
    rlp_list_close(out, opened);
    if (out->failed || (!is_root && out->size - opened < NAMED)) return;
    uint8_t hash[HASH_SIZE];
    keccak256(out->bytes + opened, out->size - opened, hash);
    out->size = opened;
    rlp_string(out, hash, HASH_SIZE);
}

static size_t shared_until(const Key *one, const Key *other, size_t from) {
    size_t least = one->length < other->length ? one->length : other->length;
    while (from < least && one->nibbles[from] == other->nibbles[from]) from++;
    return from;
}

/* Write the node of the keys `first` to `last`, of which `depth` nibbles are walked. It goes no
 * deeper than a key is long. */
static void put_node(Trie *trie, size_t first, size_t last, size_t depth) {
    static const uint8_t EMPTY = 0x80;
    Buffer *out = &trie->out;
    Key key = key_of(place_of(first, trie->count));
    size_t opened = rlp_list_open(out);
    if (first == last) {
        const Leaf *leaf = &trie->leaves[place_of(first, trie->count)];
        put_path(out, &key, depth, key.length, ENDS_IN_A_LEAF);
        rlp_string(out, leaf->bytes, leaf->size);
        close_node(out, opened, depth == 0);
        return;
    }
    Key end = key_of(place_of(last, trie->count));
    size_t fork = shared_until(&key, &end, depth);
    if (fork > depth) {
        put_path(out, &key, depth, fork, 0);
        put_node(trie, first, last, fork);
        close_node(out, opened, depth == 0);
        return;
    }
    for (uint8_t nibble = 0; nibble < 16; nibble++) {
        size_t from = first;
        while (first <= last && key_of(place_of(first, trie->count)).nibbles[depth] == nibble) first++;
        if (from == first)
            buffer_put(out, &EMPTY, 1);
        else
            put_node(trie, from, first - 1, depth + 1);
    }
    buffer_put(out, &EMPTY, 1);
    close_node(out, opened, depth == 0);
}

/* -1: no memory. */
int list_root(const Leaf *leaves, size_t count, uint8_t hash[HASH_SIZE]) {
    static const uint8_t EMPTY = 0x80;
    if (count == 0) {
        keccak256(&EMPTY, 1, hash);
        return 0;
    }
    Trie trie = {.leaves = leaves, .count = count};
    put_node(&trie, 0, count - 1, 0);
    int failed = trie.out.failed;
    if (!failed) memcpy(hash, trie.out.bytes + 1, HASH_SIZE);
    buffer_free(&trie.out);
    return failed ? -1 : 0;
}
