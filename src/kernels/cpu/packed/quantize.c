/* Floats to blocks of packed weights: the inverse of formats.h, by the nearest code for scales that are chosen first.
 *
 * Scales are rounded to what the block stores before codes are picked, so that rounding a scale isn't an error of the codes, too. The
 * scale of a signed format goes by the element of the largest size, whose sign decides which end of the codes (-8 ... 7) it gets. */
#include <math.h>
#include "base/base.h"
#include "kernels/cpu/packed/formats.h"
#include "kernels/cpu/packed/packed.h"

static int nearest(float x, int least, int most)
{
    const float rounded = rintf(x);
    return rounded >= (float)most ? most : rounded > (float)least ? (int)rounded : least;      /* NaN: the least */
}
static float inverse(float x) { return x != 0 && isfinite(1 / x) ? 1 / x : 0; }

/* The scale as a half, within the half's range. */
static float put_half(uint8_t *to, float x)
{
    const td_f16 half = td_f32_to_f16(x > 65504 ? 65504 : x < -65504 ? -65504 : x);
    memcpy(to, &half, 2);
    return td_f16_to_f32(half);
}
static float put_brain(uint8_t *to, float x)
{
    const td_bf16 brain = td_f32_to_bf16(x);
    memcpy(to, &brain, 2);
    return td_bf16_to_f32(brain);
}

/* The element of the largest size, with its sign. */
static float largest(const float *x, int64_t n)
{
    float at = 0;
    for (int64_t i = 0; i < n; i++)
        at = fabsf(x[i]) > fabsf(at) ? x[i] : at;
    return at;
}
static void range(const float *x, int n, float *least, float *most)
{
    *least = *most = x[0];
    for (int i = 1; i < n; i++) {
        *least = x[i] < *least ? x[i] : *least;
        *most = x[i] > *most ? x[i] : *most;
    }
}

static void put_nibbles(uint8_t *to, const uint8_t *codes)
{
    for (int i = 0; i < 16; i++)
        to[i] = (uint8_t)(codes[i] | codes[i + 16] << 4);
}

static void row_int8(const float *x, int64_t k, uint8_t *to)
{
    const float d = fabsf(largest(x, k)) / 127, by = inverse(d);
    const int64_t padded = td_packed_padded(k);
    for (int64_t i = 0; i < padded; i++)
        to[i] = i < k ? (uint8_t)nearest(x[i] * by, -127, 127) : 0;
    memset(to + padded, 0, TD_PACKED_PAD);
    memcpy(to + padded, &d, 4);
}

/* A row of int4: scales and zeros, then the codes of 128 elements in 64 bytes, and those of the rest as in blocks of 32. */
static void row_int4(const float *x, int64_t k, int group, uint8_t *to)
{
    uint8_t *at = to + k / group * 4, codes[128];
    for (int64_t i = 0; i < k; i += 32) {
        const int64_t b = i / group;
        uint8_t *pair = to + 4 * b;
        if (i % group == 0) {
            float least, most;
            range(x + i, group, &least, &most);
            const float d = put_brain(pair, (most - least) / 15);
            put_brain(pair + 2, least + 8 * d);
        }
        const float by = inverse(brain_at(pair)), zero = brain_at(pair + 2);
        for (int e = 0; e < 32; e++)
            codes[i % 128 + e] = (uint8_t)(nearest((x[i + e] - zero) * by, -8, 7) + 8);
        if (i >= k / 128 * 128)
            put_nibbles(at + i / 2, codes + i % 128);
        for (int e = 0; e < 64 && i % 128 == 96; e++)
            at[(i - 96) / 2 + e] = (uint8_t)(codes[e] | codes[64 + e] << 4);
    }
}

static void block_q4_0(const float *x, uint8_t *to)
{
    const float by = inverse(put_half(to, largest(x, 32) / -8));
    uint8_t codes[32];
    for (int i = 0; i < 32; i++)
        codes[i] = (uint8_t)(nearest(x[i] * by, -8, 7) + 8);
    put_nibbles(to + 2, codes);
}

static void block_q8_0(const float *x, uint8_t *to)
{
    const float by = inverse(put_half(to, fabsf(largest(x, 32)) / 127));
    for (int i = 0; i < 32; i++)
        to[2 + i] = (uint8_t)nearest(x[i] * by, -127, 127);
}

/* Of each run a scale and a minimum that isn't above 0, both in six bits of the block's largest. */
static void block_q4_k(const float *x, uint8_t *to)
{
    float scales[8], minima[8], most_scale = 0, most_minimum = 0;
    for (int j = 0; j < 8; j++) {
        float least, most;
        range(x + 32 * j, 32, &least, &most);
        least = least < 0 ? least : 0;
        scales[j] = (most - least) / 15 > 0 ? (most - least) / 15 : 0;
        minima[j] = -least;
        most_scale = scales[j] > most_scale ? scales[j] : most_scale;
        most_minimum = minima[j] > most_minimum ? minima[j] : most_minimum;
    }
    const float d = put_half(to, most_scale / 63), dmin = put_half(to + 2, most_minimum / 63);
    uint8_t *s = to + 4, codes[64];
    memset(s, 0, 12);
    for (int j = 0; j < 8; j++) {
        /* Upwards, so that the largest element isn't beyond the last code. */
        const int scale = nearest(ceilf(scales[j] * inverse(d) - 0.25f), 0, 63), minimum = nearest(minima[j] * inverse(dmin), 0, 63);
        if (j < 4) {
            s[j] |= (uint8_t)scale, s[j + 4] |= (uint8_t)minimum;
        } else {
            s[j + 4] = (uint8_t)((scale & 15) | (minimum & 15) << 4);
            s[j - 4] |= (uint8_t)(scale >> 4 << 6), s[j] |= (uint8_t)(minimum >> 4 << 6);
        }
        const float by = inverse(d * (float)scale), least = dmin * (float)minimum;
        for (int i = 0; i < 32; i++)
            codes[j % 2 * 32 + i] = (uint8_t)nearest((x[32 * j + i] + least) * by, 0, 15);
        for (int i = 0; i < 32 && j % 2; i++)
            to[16 + 16 * (j - 1) + i] = (uint8_t)(codes[i] | codes[32 + i] << 4);
    }
}

static void block_q6_k(const float *x, uint8_t *to)
{
    float scales[16], most = 0;
    for (int j = 0; j < 16; j++) {
        scales[j] = largest(x + 16 * j, 16) / -32;
        most = fabsf(scales[j]) > fabsf(most) ? scales[j] : most;
    }
    const float d = put_half(to + 208, most / -128);
    memset(to, 0, 192);
    for (int j = 0; j < 16; j++) {
        const int scale = nearest(scales[j] * inverse(d), -128, 127);
        const float by = inverse(d * (float)scale);
        to[192 + j] = (uint8_t)(int8_t)scale;
        for (int i = 0; i < 16; i++) {
            const int code = nearest(x[16 * j + i] * by, -32, 31) + 32, e = 16 * j + i, half = e / 128, quarter = e % 128 / 32, l = e % 32;
            to[64 * half + 32 * (quarter & 1) + l] |= (uint8_t)((code & 15) << 4 * (quarter >> 1));
            to[128 + 32 * half + l] |= (uint8_t)(code >> 4 << 2 * quarter);
        }
    }
}

/* The exponent of the largest element less 2, that of the format's largest number (6 = 1.5 * 2^2); then the nearest number, ties to
 * an even mantissa. */
static void block_mxfp4(const float *x, uint8_t *to)
{
    const float most = fabsf(largest(x, 32));
    int exponent = -125;
    if (most > 0 && isfinite(most))
        exponent = ilogbf(most) - 2;
    exponent = exponent < -127 ? -127 : exponent;
    to[0] = (uint8_t)(exponent + 127);
    const float by = ldexpf(1, -exponent);
    uint8_t codes[32];
    for (int i = 0; i < 32; i++) {
        static const float ends[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};       /* between neighbours */
        const float size = fabsf(x[i]) * by;
        int code = 0;
        while (code < 7 && (size > ends[code] || (size == ends[code] && code % 2)))
            code++;
        codes[i] = (uint8_t)(code | (signbit(x[i]) && code ? 8 : 0));
    }
    put_nibbles(to + 1, codes);
}

typedef void put_block(const float *x, uint8_t *to);
static put_block *const blocks[TD_PACKED_FORMATS] = {
    [TD_PACKED_Q4_0] = block_q4_0, [TD_PACKED_Q8_0] = block_q8_0, [TD_PACKED_Q4_K] = block_q4_k, [TD_PACKED_Q6_K] = block_q6_k,
    [TD_PACKED_MXFP4] = block_mxfp4,
};

void td_packed_quantize(int format, const float *x, int64_t k, uint8_t *to)
{
    if (format == TD_PACKED_INT8) {
        row_int8(x, k, to);
        return;
    }
    const td_packed_format *f = td_packed_describe(format);
    if (!blocks[format]) {
        row_int4(x, k, f->block, to);
        return;
    }
    for (int64_t b = 0; b < k / f->block; b++)
        blocks[format](x + b * f->block, to + b * f->bytes);
}
