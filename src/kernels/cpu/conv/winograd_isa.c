/* The transformations around the products of winograd.c: sums and differences, for all tiles of a row at once, LANES by
 * LANES: what is behind the last ones is read and written, too.  Matrices of F(2 x 2, 3 x 3), of which none is stored:
 *
 *     B' = 1  0 -1  0     G =  1    0    0     A' = 1  1  1  0
 *          0  1  1  0         1/2  1/2  1/2         0  1 -1 -1
 *          0 -1  1  0         1/2 -1/2  1/2
 *          0  1  0 -1          0    0    1
 *
 * Loads and stores bound the loops: input() writes 16 numbers per tile for 32 additions. */
#include "kernels/cpu/conv/winograd.h"

enum { LANES = TD_WINOGRAD_LANES };

/* Without signs, bits of floats are ordered as integers, infinity above all numbers and NaN above infinity: no comparison is
 * unordered, so the loop is a maximum. */
static uint32_t magnitude(const float *x, int64_t n)
{
    const uint32_t *bits = (const uint32_t *)(const void *)x;
    uint32_t most = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < n; i++) {
        const uint32_t size = bits[i] & 0x7fffffff;
        most = size > most ? size : most;
    }
    return most;
}

static void split(const float *x, int64_t n, float *even, float *odd)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        even[i] = x[2 * i], odd[i] = x[2 * i + 1];
}

/* B' d B, a tile's columns being even, odd, the next even, the next odd. */
static void input(const float *lines, int64_t row, int64_t n, float *to, int64_t plane)
{
    const float *e0 = lines, *e1 = e0 + row, *e2 = e1 + row, *e3 = e2 + row;
    const float *o0 = e0 + n + 1, *o1 = o0 + row, *o2 = o1 + row, *o3 = o2 + row;
#define COLUMN(j, value)                                                                            \
    _Pragma("omp simd")                                                                             \
    for (int64_t i = q; i < q + LANES; i++) {                                                       \
        const float d0 = value(e0, o0), d1 = value(e1, o1), d2 = value(e2, o2), d3 = value(e3, o3); \
        to[(j) * plane + i] = d0 - d2, to[(4 + (j)) * plane + i] = d1 + d2;                         \
        to[(8 + (j)) * plane + i] = d2 - d1, to[(12 + (j)) * plane + i] = d1 - d3;                  \
    }
#define FIRST(e, o)  (e[i] - e[i + 1])
#define SECOND(e, o) (o[i] + e[i + 1])
#define THIRD(e, o)  (e[i + 1] - o[i])
#define FOURTH(e, o) (o[i] - o[i + 1])
    for (int64_t q = 0; q < n; q += LANES) {
        COLUMN(0, FIRST)
        COLUMN(1, SECOND)
        COLUMN(2, THIRD)
        COLUMN(3, FOURTH)
    }
}

/* A y A' */
static void gradient(const float *lines, int64_t row, int64_t n, float *to, int64_t plane)
{
    const float *e0 = lines, *o0 = lines + n, *e1 = lines + row, *o1 = e1 + n;
#define COLUMN_OF(j, value)                                     \
    _Pragma("omp simd")                                         \
    for (int64_t i = q; i < q + LANES; i++) {                   \
        const float a = value(e0, o0), b = value(e1, o1);       \
        to[(j) * plane + i] = a, to[(4 + (j)) * plane + i] = a + b; \
        to[(8 + (j)) * plane + i] = a - b, to[(12 + (j)) * plane + i] = -b; \
    }
#define EVEN(e, o)       (e[i])
#define SUM(e, o)        (e[i] + o[i])
#define DIFFERENCE(e, o) (e[i] - o[i])
#define MINUS_ODD(e, o)  (-o[i])
    for (int64_t q = 0; q < n; q += LANES) {
        COLUMN_OF(0, EVEN)
        COLUMN_OF(1, SUM)
        COLUMN_OF(2, DIFFERENCE)
        COLUMN_OF(3, MINUS_ODD)
    }
}

/* A' m A */
static void output(const float *from, int64_t plane, int64_t n, float start, float *first, float *second)
{
    for (int64_t q = 0; q < n; q += LANES, from += LANES, first += 2 * LANES, second += 2 * LANES)
#pragma omp simd
        for (int64_t i = 0; i < LANES; i++) {
            float above[4], below[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; j++) {
                const float *m = from + j * plane + i;
                const float m1 = m[4 * plane], m2 = m[8 * plane];
                above[j] = m[0] + m1 + m2, below[j] = m1 - m2 - m[12 * plane];
            }
            first[2 * i] = start + (above[0] + above[1] + above[2]);
            first[2 * i + 1] = start + (above[1] - above[2] - above[3]);
            second[2 * i] = start + (below[0] + below[1] + below[2]);
            second[2 * i + 1] = start + (below[1] - below[2] - below[3]);
        }
}

static void kernel(const float *g, int64_t n, float *to, int64_t plane)
{
    float t[9][LANES] = {0}, m[16][LANES];
    for (int64_t at = 0; at < n; at += LANES) {
        const int count = n - at < LANES ? (int)(n - at) : LANES;
        for (int i = 0; i < count; i++)
            for (int x = 0; x < 9; x++)
                t[x][i] = g[9 * (at + i) + x];
#pragma omp simd
        for (int i = 0; i < LANES; i++) {
            float s[4][3];
#pragma GCC unroll 3
            for (int x = 0; x < 3; x++) {
                const float above = t[x][i], middle = t[3 + x][i], below = t[6 + x][i];
                s[0][x] = above, s[3][x] = below;
                s[1][x] = (above + below + middle) / 2, s[2][x] = (above + below - middle) / 2;
            }
#pragma GCC unroll 4
            for (int y = 0; y < 4; y++) {
                const float sum = s[y][0] + s[y][2];
                m[4 * y][i] = s[y][0], m[4 * y + 3][i] = s[y][2];
                m[4 * y + 1][i] = (sum + s[y][1]) / 2, m[4 * y + 2][i] = (sum - s[y][1]) / 2;
            }
        }
        for (int j = 0; j < 16; j++)
            memcpy(to + j * plane + at, m[j], (size_t)count * sizeof(float));
    }
}

extern const td_winograd_table TD_ISA_NAME(td_winograd_table);
const td_winograd_table TD_ISA_NAME(td_winograd_table) = {
    .magnitude = magnitude, .kernel = kernel, .split = split, .input = input, .gradient = gradient, .output = output,
};
