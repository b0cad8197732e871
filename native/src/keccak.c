/* Keccak-256 as Ethereum has it: rate 136, the first padding of the competition. */
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

/* Lane x of row y is state[x + 5 * y]; rho and pi bring lane `from`, rotated, to lane `to`. */
#define MOVE(to, from, by) moved[to] = ROTATED(state[from] ^ mixed[(from) % 5], by)
#define ROTATED(lane, by) ((by) == 0 ? (lane) : (lane) << (by) | (lane) >> ((64 - (by)) & 63))

/* The permutation over lanes of any type: one state, or several side by side. */
#define PERMUTE(Lane)                                                                             \
    for (int round = 0; round < ROUNDS; round++) {                                                \
        Lane columns[5], mixed[5], moved[25];                                                     \
        for (int x = 0; x < 5; x++)                                                               \
            columns[x] =                                                                          \
                state[x] ^ state[x + 5] ^ state[x + 10] ^ state[x + 15] ^ state[x + 20];          \
        for (int x = 0; x < 5; x++)                                                               \
            mixed[x] = columns[(x + 4) % 5] ^ ROTATED(columns[(x + 1) % 5], 1);                   \
        MOVE(0, 0, 0), MOVE(10, 1, 1), MOVE(20, 2, 62), MOVE(5, 3, 28), MOVE(15, 4, 27);          \
        MOVE(16, 5, 36), MOVE(1, 6, 44), MOVE(11, 7, 6), MOVE(21, 8, 55), MOVE(6, 9, 20);         \
        MOVE(7, 10, 3), MOVE(17, 11, 10), MOVE(2, 12, 43), MOVE(12, 13, 25), MOVE(22, 14, 39);    \
        MOVE(23, 15, 41), MOVE(8, 16, 45), MOVE(18, 17, 15), MOVE(3, 18, 21), MOVE(13, 19, 8);    \
        MOVE(14, 20, 18), MOVE(24, 21, 2), MOVE(9, 22, 61), MOVE(19, 23, 56), MOVE(4, 24, 14);    \
        for (int y = 0; y < 25; y += 5)                                                           \
            for (int x = 0; x < 5; x++)                                                           \
                state[y + x] = moved[y + x] ^ (~moved[y + (x + 1) % 5] & moved[y + (x + 2) % 5]); \
        state[0] ^= ROUND_CONSTANTS[round];                                                       \
    }

static void permute(uint64_t state[25]) { PERMUTE(uint64_t) }

static void absorb(uint64_t state[25], const uint8_t block[RATE]) {
    for (int lane = 0; lane < RATE / 8; lane++) {
        uint64_t read = 0;
        for (int place = 7; place >= 0; place--) read = read << 8 | block[8 * lane + place];
        state[lane] ^= read;
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
    for (int place = 0; place < HASH_SIZE; place++)
        hash[place] = (uint8_t)(state[place / 8] >> 8 * (place % 8));
}

static void hash_one_by_one(const Short *messages, size_t count) {
    for (size_t at = 0; at < count; at++)
        keccak256(messages[at].content, messages[at].size, messages[at].hash);
}

#if defined(__x86_64__) && defined(__GNUC__)
/* Four states side by side: a processor with wide registers permutes them as fast as one. */
#define SIDE_BY_SIDE 4
typedef uint64_t Lanes __attribute__((vector_size(8 * SIDE_BY_SIDE)));

/* Write the only block of a short message, padded. */
static void put_block(uint8_t block[RATE], const Short *message) {
    memset(block, 0, RATE);
    memcpy(block, message->content, message->size);
    block[message->size] = 0x01;
    block[RATE - 1] |= 0x80;
}

/* Bytes of a hash and of a block are little-endian, as this processor is. */
__attribute__((target("avx2"))) static void hash_four(const Short messages[SIDE_BY_SIDE]) {
    Lanes state[25] = {{0}};
    for (int at = 0; at < SIDE_BY_SIDE; at++) {
        uint8_t block[RATE];
        put_block(block, &messages[at]);
        for (int lane = 0; lane < RATE / 8; lane++) {
            uint64_t read;
            memcpy(&read, block + 8 * lane, 8);
            state[lane][at] = read;
        }
    }
    PERMUTE(Lanes)
    for (int at = 0; at < SIDE_BY_SIDE; at++)
        for (int lane = 0; lane < HASH_SIZE / 8; lane++) {
            uint64_t written = state[lane][at];
            memcpy(messages[at].hash + 8 * lane, &written, 8);
        }
}

/* The messages that are left over, and all of them without AVX2, are hashed one by one. */
void keccak256_short(const Short *messages, size_t count) {
    if (__builtin_cpu_supports("avx2"))
        for (; count >= SIDE_BY_SIDE; messages += SIDE_BY_SIDE, count -= SIDE_BY_SIDE)
            hash_four(messages);
    hash_one_by_one(messages, count);
}
#else
void keccak256_short(const Short *messages, size_t count) { hash_one_by_one(messages, count); }
#endif
