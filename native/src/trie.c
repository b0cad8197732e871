/* Computes the root of the trie over a list (Yellow Paper, 4.3 and D), in which the key of a leaf is the
 * RLP of its index. oracle/chain/proofs/merkle_trie.py does the same in Python. */
#include <string.h>

#include "native.h"

/* A smaller node is embedded in its parent; of a larger one, the parent contains only the hash. */
#define MIN_HASHED_SIZE 32
/* The nibbles of the longest key: the RLP of a size_t, with its header. */
#define MAX_NIBBLES (2 * (1 + sizeof(size_t)))
#define LEAF_FLAG 0x20
#define BRANCHES 16
/* The RLP header of a hash. */
#define HASH_HEADER (0x80 + HASH_SIZE)

typedef struct {
    uint8_t nibbles[MAX_NIBBLES];
    size_t length;
} Key;

typedef struct {
    const Leaf *leaves;
    size_t count;
    Buffer out;
    /* The nodes of the leaves that are hashed together. */
    Buffer leaf_nodes;
} Trie;

/* A leaf below a branch: its node is hashed to `hash_at` in the output. */
typedef struct {
    size_t start, size, hash_at;
} UnhashedLeaf;

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

static void write_leaf_node(Buffer *out, const Trie *trie, size_t nth, size_t depth) {
    size_t index = get_sorted_index(nth, trie->count);
    Key key = make_key(index);
    size_t start = rlp_list_open(out);
    write_path(out, &key, depth, key.length, LEAF_FLAG);
    rlp_string(out, trie->leaves[index].bytes, trie->leaves[index].size);
    rlp_list_close(out, start);
}

/* Write a leaf below a branch. Its hash is left out and the leaf is appended to `unhashed`, which must be in
 * the order of sizes; a small node is embedded. */
static void write_branch_leaf(Trie *trie, size_t nth, size_t depth, UnhashedLeaf *unhashed, size_t *count) {
    static const uint8_t EMPTY_HASH[1 + HASH_SIZE] = {HASH_HEADER};
    Buffer *nodes = &trie->leaf_nodes;
    size_t start = nodes->size;
    write_leaf_node(nodes, trie, nth, depth);
    if (nodes->failed) return;
    size_t size = nodes->size - start;
    if (size < MIN_HASHED_SIZE) {
        buffer_put(&trie->out, nodes->bytes + start, size);
        nodes->size = start;
        return;
    }
    size_t at = (*count)++;
    for (; at > 0 && unhashed[at - 1].size > size; at--) unhashed[at] = unhashed[at - 1];
    unhashed[at] = (UnhashedLeaf){start, size, trie->out.size + 1};
    buffer_put(&trie->out, EMPTY_HASH, sizeof EMPTY_HASH);
}

/* Hash leaves together, which is several times as fast as one by one if their sizes are similar. */
static void hash_leaves(Trie *trie, const UnhashedLeaf *unhashed, size_t count) {
    Message messages[BRANCHES];
    if (trie->out.failed || trie->leaf_nodes.failed) return;
    for (size_t at = 0; at < count; at++)
        messages[at] = (Message){trie->leaf_nodes.bytes + unhashed[at].start, unhashed[at].size,
                                 trie->out.bytes + unhashed[at].hash_at};
    keccak256_each(messages, count);
}

/* Write the node of at least two keys, `first` to `last`, which share their first `depth` nibbles. The recursion
 * is no deeper than a key is long. */
static void write_node(Trie *trie, size_t first, size_t last, size_t depth) {
    static const uint8_t EMPTY = 0x80;
    Buffer *out = &trie->out;
    Key key = make_key(get_sorted_index(first, trie->count));
    size_t start = rlp_list_open(out);
    Key end = make_key(get_sorted_index(last, trie->count));
    size_t fork = find_fork_depth(&key, &end, depth);
    if (fork > depth) {
        write_path(out, &key, depth, fork, 0);
        write_node(trie, first, last, fork);
        close_node(out, start, depth == 0);
        return;
    }
    UnhashedLeaf unhashed[BRANCHES];
    size_t unhashed_count = 0, nodes_size = trie->leaf_nodes.size;
    for (uint8_t nibble = 0; nibble < BRANCHES; nibble++) {
        size_t from = first;
        while (first <= last && make_key(get_sorted_index(first, trie->count)).nibbles[depth] == nibble) first++;
        if (from == first)
            buffer_put(out, &EMPTY, 1);
        else if (from == first - 1)
            write_branch_leaf(trie, from, depth + 1, unhashed, &unhashed_count);
        else
            write_node(trie, from, first - 1, depth + 1);
    }
    buffer_put(out, &EMPTY, 1);
    hash_leaves(trie, unhashed, unhashed_count);
    trie->leaf_nodes.size = nodes_size;
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
    if (count == 1) {
        write_leaf_node(&trie.out, &trie, 0, 0);
        if (!trie.out.failed) keccak256(trie.out.bytes, trie.out.size, hash);
    } else {
        write_node(&trie, 0, count - 1, 0);
        if (!trie.out.failed) memcpy(hash, trie.out.bytes + 1, HASH_SIZE);
    }
    int failed = trie.out.failed || trie.leaf_nodes.failed;
    buffer_free(&trie.out);
    buffer_free(&trie.leaf_nodes);
    return failed ? -1 : 0;
}
