/* The types of GGUF's tensors, and what is in the blocks of those that are unpacked when they are read.
 *
 * Blocks that packed weights are made of (Q8_0, Q4_0, Q4_K, Q6_K, MXFP4) are the kernels' matter (src/kernels/cpu/packed/formats.h). The
 * others here are defined by the structs of ggml's ggml-common.h of the same names: d and m are scales and offsets in half precision,
 * q the codes; elements of a block of 32 lie in the low nibbles of its bytes, those of the second half in the high ones. Results are
 * rounded where ggml rounds them, so they are the same to the last bit. */
#include <string.h>
#include "io/gguf.h"

static float half(const uint8_t *p)
{
    const uint32_t x = (uint32_t)(p[0] | p[1] << 8), sign = (x & 0x8000) << 16, exponent = x >> 10 & 31, fraction = x & 1023;
    uint32_t bits;
    float value;
    if (exponent == 0)                  /* a multiple of 2^-24, subnormal */
        return (sign ? -0x1p-24f : 0x1p-24f) * (float)fraction;
    bits = sign | (exponent == 31 ? 0x7f800000 : (exponent + 112) << 23) | fraction << 13;
    memcpy(&value, &bits, 4);
    return value;
}

static uint32_t word(const uint8_t *p) { return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24; }

/* ---- blocks of 32 */

static int nibble(const uint8_t *q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }

static void unpack_q4_1(const uint8_t *p, float *to)
{
    const float d = half(p), m = half(p + 2);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)nibble(p + 4, i) + m;
}

/* A fifth bit for each element. */
static void unpack_q5_0(const uint8_t *p, float *to)
{
    const float d = half(p);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)((nibble(p + 6, i) | (int)(word(p + 2) >> i & 1) << 4) - 16);
}
static void unpack_q5_1(const uint8_t *p, float *to)
{
    const float d = half(p), m = half(p + 2);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)(nibble(p + 8, i) | (int)(word(p + 4) >> i & 1) << 4) + m;
}

static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void unpack_iq4_nl(const uint8_t *p, float *to)
{
    const float d = half(p);
    for (int i = 0; i < 32; i++)
        to[i] = d * (float)levels[nibble(p + 2, i)];
}

/* ---- blocks of 256 */

static void unpack_iq4_xs(const uint8_t *p, float *to)
{
    const float d = half(p);
    const int high = p[2] | p[3] << 8;
    for (int g = 0; g < 8; g++) {
        const float scale = d * (float)(((p[4 + g / 2] >> 4 * (g % 2) & 15) | (high >> 2 * g & 3) << 4) - 32);
        for (int i = 0; i < 32; i++)
            to[32 * g + i] = scale * (float)levels[nibble(p + 8 + 16 * g, i)];
    }
}

/* Two bits of each element: 128 elements in 32 bytes, 32 of them in each pair of bits. */
static int pair_of_bits(const uint8_t *q, int e) { return q[e / 128 * 32 + e % 32] >> 2 * (e % 128 / 32) & 3; }

static void unpack_q2_k(const uint8_t *p, float *to)
{
    const float d = half(p + 80), m = half(p + 82);
    for (int e = 0; e < 256; e++) {
        const int scale = p[e / 16];
        to[e] = d * (float)(scale & 15) * (float)pair_of_bits(p + 16, e) - m * (float)(scale >> 4);
    }
}

/* The third bit is in 32 bytes of its own, missing where 4 is to be subtracted; a scale has four bits in one place, two in another. */
static void unpack_q3_k(const uint8_t *p, float *to)
{
    const float d = half(p + 108);
    const uint8_t *scales = p + 96;
    for (int e = 0; e < 256; e++) {
        const int run = e / 16, low = run < 8 ? scales[run] & 15 : scales[run - 8] >> 4, high = scales[8 + run % 4] >> 2 * (run / 4) & 3;
        const int code = pair_of_bits(p + 32, e) - (p[e % 32] >> e / 32 & 1 ? 0 : 4);
        to[e] = d * (float)((low | high << 4) - 32) * (float)code;
    }
}

/* Scales and offsets of six bits as in Q4_K; a fifth bit of each element. */
static void unpack_q5_k(const uint8_t *p, float *to)
{
    const float d = half(p), m = half(p + 2);
    const uint8_t *s = p + 4, *high = p + 16, *q = p + 48;
    for (int g = 0; g < 8; g++) {
        const int scale = g < 4 ? s[g] & 63 : (s[g + 4] & 15) | s[g - 4] >> 6 << 4;
        const int offset = g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | s[g] >> 6 << 4;
        const float by = d * (float)scale, less = m * (float)offset;
        for (int i = 0; i < 32; i++) {
            const int code = (q[g / 2 * 32 + i] >> 4 * (g % 2) & 15) | (high[i] >> g & 1) << 4;
            to[32 * g + i] = by * (float)code - less;
        }
    }
}

/* ---- the table */

#define BLOCKS(name, number, block, bytes, unpack) {name, number, block, bytes, TD_DTYPE_NONE, unpack}
static const gguf_type types[] = {
    {"F32", 0, 1, 4, TD_F32, NULL}, {"F16", 1, 1, 2, TD_F16, NULL}, {"I8", 24, 1, 1, TD_I8, NULL}, {"I16", 25, 1, 2, TD_I16, NULL},
    {"I32", 26, 1, 4, TD_I32, NULL}, {"I64", 27, 1, 8, TD_I64, NULL}, {"F64", 28, 1, 8, TD_F64, NULL}, {"BF16", 30, 1, 2, TD_BF16, NULL},
    BLOCKS("Q4_0", 2, 32, 18, NULL), BLOCKS("Q4_1", 3, 32, 20, unpack_q4_1), BLOCKS("Q5_0", 6, 32, 22, unpack_q5_0),
    BLOCKS("Q5_1", 7, 32, 24, unpack_q5_1), BLOCKS("Q8_0", 8, 32, 34, NULL), BLOCKS("Q8_1", 9, 32, 40, NULL),
    BLOCKS("Q2_K", 10, 256, 84, unpack_q2_k), BLOCKS("Q3_K", 11, 256, 110, unpack_q3_k), BLOCKS("Q4_K", 12, 256, 144, NULL),
    BLOCKS("Q5_K", 13, 256, 176, unpack_q5_k), BLOCKS("Q6_K", 14, 256, 210, NULL), BLOCKS("Q8_K", 15, 256, 292, NULL),
    BLOCKS("IQ2_XXS", 16, 256, 66, NULL), BLOCKS("IQ2_XS", 17, 256, 74, NULL), BLOCKS("IQ3_XXS", 18, 256, 98, NULL),
    BLOCKS("IQ1_S", 19, 256, 50, NULL), BLOCKS("IQ4_NL", 20, 32, 18, unpack_iq4_nl), BLOCKS("IQ3_S", 21, 256, 110, NULL),
    BLOCKS("IQ2_S", 22, 256, 82, NULL), BLOCKS("IQ4_XS", 23, 256, 136, unpack_iq4_xs), BLOCKS("IQ1_M", 29, 256, 56, NULL),
    BLOCKS("TQ1_0", 34, 256, 54, NULL), BLOCKS("TQ2_0", 35, 256, 66, NULL), BLOCKS("MXFP4", 39, 32, 17, NULL),
    BLOCKS("NVFP4", 40, 64, 36, NULL), BLOCKS("Q1_0", 41, 128, 18, NULL),
};

#define EACH_TYPE(t) (const gguf_type *t = types; t < types + sizeof types / sizeof *types; t++)

const gguf_type *td_gguf_type_of_number(uint32_t number)
{
    for EACH_TYPE(t)
        if ((uint32_t)t->number == number)
            return t;
    return NULL;
}
const gguf_type *td_gguf_type_of_name(const char *name)
{
    for EACH_TYPE(t)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}
const gguf_type *td_gguf_type_of_dtype(td_dtype dtype)
{
    for EACH_TYPE(t)
        if (t->dtype == dtype && dtype != TD_DTYPE_NONE)
            return t;
    return NULL;
}
