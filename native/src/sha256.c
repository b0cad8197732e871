/* Computes SHA-256 (FIPS 180-4), with the instructions that many processors have for it. */
#include <string.h>

#include "native.h"

static const uint32_t ROUND_CONSTANTS[64] __attribute__((aligned(16))) = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotated(uint32_t word, int by) { return word >> by | word << (32 - by); }

static void compress(uint32_t state[8], const uint8_t *block) {
    uint32_t words[64], v[8];
    for (int at = 0; at < 16; at++)
        words[at] = (uint32_t)block[4 * at] << 24 | (uint32_t)block[4 * at + 1] << 16 |
                    (uint32_t)block[4 * at + 2] << 8 | block[4 * at + 3];
    for (int at = 16; at < 64; at++) {
        uint32_t recent = words[at - 15], older = words[at - 2];
        words[at] = words[at - 16] + (rotated(recent, 7) ^ rotated(recent, 18) ^ recent >> 3) +
                    words[at - 7] + (rotated(older, 17) ^ rotated(older, 19) ^ older >> 10);
    }
    memcpy(v, state, sizeof v);
    for (int at = 0; at < 64; at++) {
        uint32_t first = v[7] + (rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25)) +
                         ((v[4] & v[5]) ^ (~v[4] & v[6])) + ROUND_CONSTANTS[at] + words[at];
        uint32_t second = (rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22)) +
                          ((v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += first;
        v[0] = first + second;
    }
    for (int at = 0; at < 8; at++) state[at] += v[at];
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>

#define SHA_BIT (1U << 29)

static int has_sha(void) {
    static int cached = -1;
    if (cached < 0) {
        unsigned a, b, c, d;
        cached = __builtin_cpu_supports("sse4.1") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
                (b & SHA_BIT) != 0;
    }
    return cached;
}

/* Intel's instructions use the state in the order ABEF and CDGH. */
__attribute__((target("sha,sse4.1"))) static void compress_fast(uint32_t state[8],
                                                                const uint8_t *block) {
    const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
    __m128i dcba = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xb1);
    __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1b);
    __m128i abef = _mm_alignr_epi8(dcba, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, dcba, 0xf0);
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i words[4];
    for (int group = 0; group < 16; group++) {
        __m128i *next = &words[group % 4];
        if (group < 4) {
            *next = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(block + 16 * group)), swap);
        } else {
            __m128i third = words[(group + 2) % 4], last = words[(group + 3) % 4];
            __m128i sum = _mm_sha256msg1_epu32(*next, words[(group + 1) % 4]);
            sum = _mm_add_epi32(sum, _mm_alignr_epi8(last, third, 4));
            *next = _mm_sha256msg2_epu32(sum, last);
        }
        __m128i round =
            _mm_add_epi32(*next, _mm_load_si128((const __m128i *)(ROUND_CONSTANTS + 4 * group)));
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, round);
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(round, 0x0e));
    }
    abef = _mm_shuffle_epi32(_mm_add_epi32(abef, abef_before), 0x1b);
    cdgh = _mm_shuffle_epi32(_mm_add_epi32(cdgh, cdgh_before), 0xb1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(abef, cdgh, 0xf0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(cdgh, abef, 8));
}

static void compress_any(uint32_t state[8], const uint8_t *block) {
    if (has_sha())
        compress_fast(state, block);
    else
        compress(state, block);
}
#else
static void compress_any(uint32_t state[8], const uint8_t *block) { compress(state, block); }
#endif

void sha256_begin(Sha256 *sha) {
    static const uint32_t INITIAL[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, INITIAL, sizeof INITIAL);
    sha->size = 0;
}

void sha256_add(Sha256 *sha, const void *content, size_t size) {
    const uint8_t *bytes = content;
    while (size > 0) {
        size_t filled = (size_t)(sha->size % SHA_BLOCK),
               part = SHA_BLOCK - filled < size ? SHA_BLOCK - filled : size;
        memcpy(sha->block + filled, bytes, part);
        sha->size += part;
        bytes += part;
        size -= part;
        if (filled + part == SHA_BLOCK) compress_any(sha->state, sha->block);
    }
}

void sha256_end(Sha256 *sha, uint8_t hash[HASH_SIZE]) {
    uint64_t bits = 8 * sha->size;
    size_t filled = (size_t)(sha->size % SHA_BLOCK);
    sha->block[filled++] = 0x80;
    if (filled > SHA_BLOCK - 8) {
        memset(sha->block + filled, 0, SHA_BLOCK - filled);
        compress_any(sha->state, sha->block);
        filled = 0;
    }
    memset(sha->block + filled, 0, SHA_BLOCK - 8 - filled);
    for (int at = 0; at < 8; at++)
        sha->block[SHA_BLOCK - 8 + at] = (uint8_t)(bits >> 8 * (7 - at));
    compress_any(sha->state, sha->block);
    for (int at = 0; at < HASH_SIZE; at++)
        hash[at] = (uint8_t)(sha->state[at / 4] >> 8 * (3 - at % 4));
}
