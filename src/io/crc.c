/* CRC-32 by tables: see crc.h. */
#include <string.h>
#include "io/crc.h"

enum { WORD = 8, WORDS = 4, BLOCK = WORD * WORDS };
_Static_assert(BLOCK == sizeof((crc_table *)0)->sums / sizeof((crc_table *)0)->sums[0], "a table for each byte of a block");

void crc_start(crc_table *t)
{
    uint32_t (*sums)[256] = t->sums;
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t sum = b;
        for (int bit = 0; bit < 8; bit++)
            sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
        sums[0][b] = sum;
    }
    for (int k = 1; k < BLOCK; k++)
        for (int b = 0; b < 256; b++)
            sums[k][b] = sums[k - 1][b] >> 8 ^ sums[0][sums[k - 1][b] & 0xff];
}

/* What a word adds whose last byte is as many from the end as `sums` begins at. */
static inline uint32_t sum_of(const uint32_t sums[WORD][256], uint64_t word)
{
    uint32_t sum = 0;
#pragma GCC unroll 8
    for (int k = 0; k < WORD; k++)
        sum ^= sums[WORD - 1 - k][word >> 8 * k & 0xff];
    return sum;
}
static inline uint64_t word_at(const unsigned char *p) { uint64_t word; return memcpy(&word, p, WORD), word; }

uint32_t crc_add(const crc_table *t, uint32_t sum, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    uint32_t parts[WORDS] = {sum = ~sum};
    for (; n >= 2 * BLOCK; p += BLOCK, n -= BLOCK)
#pragma GCC unroll 4
        for (int i = 0; i < WORDS; i++)
            parts[i] = sum_of(t->sums + BLOCK - WORD, parts[i] ^ word_at(p + WORD * i));
    if (n >= BLOCK) {
        sum = 0;
        for (int i = 0; i < WORDS; i++, p += WORD)
            sum = sum_of(t->sums, sum ^ parts[i] ^ word_at(p));
        n -= BLOCK;
    }
    while (n--)
        sum = sum >> 8 ^ t->sums[0][(sum ^ *p++) & 0xff];
    return ~sum;
}
