/* Computes Keccak-256 as in Ethereum, with a rate of 136 bytes, and with the padding of the original
 * submission instead of SHA-3's. */
#include <string.h>

#include "native.h"

#define RATE 136
#define ROUNDS 24

static const uint64_t ROUND_CONSTANTS[ROUNDS] = {
    0x0000000000000001ULL, 0x0000000000008082ULL, 0x800000000000808aULL, 0x8000000080008000ULL,
    0x000000000000808bULL, 0x0000000080000001ULL, 0x8000000080008081ULL, 0x8000000000008009ULL,
    0x000000000000008aULL, 0x0000000000000088ULL, 0x0000000080008009ULL, 0x000000008000000aULL,
    0x000000008000808bULL, 0x800000000000008bULL, 0x8000000000008089ULL, 0x8000000000008003ULL,
    0x8000000000008002ULL, 0x8000000000000080ULL, 0x000000000000800aULL, 0x800000008000000aULL,
    0x8000000080008081ULL, 0x8000000000008080ULL, 0x0000000080000001ULL, 0x8000000080008008ULL,
};

/* Lane x of row y is state[x + 5 * y]; rho and pi move lane `from`, rotated, to lane `to`. */
#define MOVE(to, from, by) permuted[to] = ROTATED(state[from] ^ theta[(from) % 5], by)
#define ROTATED(lane, by) ((by) == 0 ? (lane) : (lane) << (by) | (lane) >> ((64 - (by)) & 63))

/* Permute one state or several states; a lane is a number of one state, or a vector of several states. */
#define PERMUTE(Lane)                                                                             \
    for (int round = 0; round < ROUNDS; round++) {                                                \
        Lane columns[5], theta[5], permuted[25];                                                     \
        for (int x = 0; x < 5; x++)                                                               \
            columns[x] =                                                                          \
                state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20];          \
        for (int x = 0; x < 5; x++)                                                               \
            theta[x] = columns[(x + 4) % 5] ^ ROTATED(columns[(x + 1) % 5], 1);                   \
        MOVE(0, 0, 0), MOVE(10, 1, 1), MOVE(20, 2, 62), MOVE(5, 3, 28), MOVE(15, 4, 27);          \
        MOVE(16, 5, 36), MOVE(1, 6, 44), MOVE(11, 7, 6), MOVE(21, 8, 55), MOVE(6, 9, 20);         \
        MOVE(7, 10, 3), MOVE(17, 11, 10), MOVE(2, 12, 43), MOVE(12, 13, 25), MOVE(22, 14, 39);    \
        MOVE(23, 15, 41), MOVE(8, 16, 45), MOVE(18, 17, 15), MOVE(3, 18, 21), MOVE(13, 19, 8);    \
        MOVE(14, 20, 18), MOVE(24, 21, 2), MOVE(9, 22, 61), MOVE(19, 23, 56), MOVE(4, 24, 14);    \
        for (int y = 0; y < 25; y += 5)                                                           \
            for (int x = 0; x < 5; x++)                                                           \
                state[y + x] = permuted[y + x] ^ (~permuted[y + (x + 1) % 5] & permuted[y + (x + 2) % 5]); \
        state[0] ^= ROUND_CONSTANTS[round];                                                       \
    }

static void permute(uint64_t state[25]) { PERMUTE(uint64_t) }

static void absorb(uint64_t state[25], const uint8_t block[RATE]) {
    for (int lane = 0; lane < RATE / 8; lane++) {
        uint64_t word = 0;
        for (int at = 7; at >= 0; at--) word = word << 8 | block[8 * lane + at];
        state[lane] ^= word;
    }
    permute(state);
}

void keccak256(const uint8_t *content, size_t size, uint8_t hash[HASH_SIZE]) {
    uint64_t state[25] = {0};
    for (; size >= RATE; content += RATE, size -= RATE) absorb(state, content);
    uint8_t last[RATE] = {0};
    if (size > 0) memcpy(last, content, size);
    last[size] = 0x01;
    last[RATE - 1] |= 0x80;
    absorb(state, last);
    for (int at = 0; at < HASH_SIZE; at++)
        hash[at] = (uint8_t)(state[at / 8] >> 8 * (at % 8));
}

static void hash_one_by_one(const Message *messages, size_t count) {
    for (size_t at = 0; at < count; at++)
        keccak256(messages[at].content, messages[at].size, messages[at].hash);
}

#if defined(__x86_64__) && defined(__GNUC__)
/* The processor permutes four states in vector registers as fast as a single state. */
#define PARALLEL_STATES 4
typedef uint64_t Lanes __attribute__((vector_size(8 * PARALLEL_STATES)));

/* Write block `number` of a message; the last block is padded. */
static void write_block(uint8_t block[RATE], const Message *message, size_t number) {
    const uint8_t *content = message->content + number * RATE;
    size_t size = message->size - number * RATE;
    if (size >= RATE) {
        memcpy(block, content, RATE);
        return;
    }
    memset(block, 0, RATE);
    if (size > 0) memcpy(block, content, size);
    block[size] = 0x01;
    block[RATE - 1] |= 0x80;
}

/* The lanes of a block and of a hash are little-endian, like this processor. The state of a message that is
 * shorter than the others is permuted further, but no longer used. */
__attribute__((target("avx2"))) static void hash_four(const Message messages[PARALLEL_STATES]) {
    Lanes state[25] = {{0}};
    int unfinished = PARALLEL_STATES;
    for (size_t number = 0; unfinished > 0; number++) {
        for (int at = 0; at < PARALLEL_STATES; at++) {
            if (number > messages[at].size / RATE) continue;
            uint8_t block[RATE];
            write_block(block, &messages[at], number);
            for (int lane = 0; lane < RATE / 8; lane++) {
                uint64_t word;
                memcpy(&word, block + 8 * lane, 8);
                state[lane][at] ^= word;
            }
        }
        PERMUTE(Lanes)
        for (int at = 0; at < PARALLEL_STATES; at++) {
            if (number != messages[at].size / RATE) continue;
            unfinished--;
            for (int lane = 0; lane < HASH_SIZE / 8; lane++) {
                uint64_t word = state[lane][at];
                memcpy(messages[at].hash + 8 * lane, &word, 8);
            }
        }
    }
}

/* Hash four messages at a time; a single last message, and all of them without AVX2, one by one. */
void keccak256_each(const Message *messages, size_t count) {
    if (__builtin_cpu_supports("avx2")) {
        for (; count >= PARALLEL_STATES; messages += PARALLEL_STATES, count -= PARALLEL_STATES)
            hash_four(messages);
        if (count > 1) {
            /* The last message is repeated, and its hash is written again. */
            Message last[PARALLEL_STATES];
            for (size_t at = 0; at < PARALLEL_STATES; at++)
                last[at] = messages[at < count ? at : count - 1];
            hash_four(last);
            return;
        }
    }
    hash_one_by_one(messages, count);
}
#else
void keccak256_each(const Message *messages, size_t count) { hash_one_by_one(messages, count); }
#endif
