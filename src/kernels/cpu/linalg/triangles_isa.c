/* Triangular systems with any number of right sides.
 *
 * As many columns as a vector has lanes are a panel: a number of the matrix meets one of its rows by one instruction, and the sums of
 * some rows stay in registers until all earlier rows have been taken from them.  So few right sides cost what reading the
 * matrix costs, and small systems little more than their arithmetic.  Many right sides of large matrices go by halves, almost all
 * of whose arithmetic is in products (td_gemm_strided).
 *
 * An upper triangle is a lower one from its last row and column on, so panels know lower ones only.  Complex panels keep real and
 * imaginary parts apart. */
#ifndef S
#include <math.h>
#include <tede/kernel.h>
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/linalg/triangles.h"
#include "kernels/cpu/loops/operands.h"
#include "kernels/cpu/isa/vectors.h"
#include "ops/iterate/iterator.h"

enum { WHOLE = 64 };    /* rows from which on halves pay, if there are some panels */

#define TD_BODY "kernels/cpu/linalg/triangles_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_triangles_table TD_ISA_NAME(td_triangles_table);
const td_triangles_table TD_ISA_NAME(td_triangles_table) = {
    .f32 = solve_real_f32, .f64 = solve_real_f64, .c64 = solve_complex_f32, .c128 = solve_complex_f64,
};

#else
#define LANES ((int64_t)(VBYTES / sizeof(T)))
#define V N(vec)

/* ---- panels: x has a vector per row, or two for complex numbers; rows are 1 apart, or -1 */

INLINE void N(some_rows)(const int64_t count, int64_t i, const T *a, int64_t row, int64_t column, bool unit, V *x, int64_t step)
{
    V sum[8];
    const T *at = a + i * row;
#pragma GCC unroll 8
    for (int64_t j = 0; j < count; j++)
        sum[j] = x[(i + j) * step];
    for (int64_t r = 0; r < i; r++) {
        const V xr = x[r * step];
#pragma GCC unroll 8
        for (int64_t j = 0; j < count; j++)
            sum[j] -= at[j * row + r * column] * xr;
    }
#pragma GCC unroll 8
    for (int64_t j = 0; j < count; j++) {
        const T *from = at + j * row + i * column;
#pragma GCC unroll 8
        for (int64_t r = 0; r < j; r++)
            sum[j] -= from[r * column] * sum[r];
        if (!unit)
            sum[j] /= from[j * column];
        x[(i + j) * step] = sum[j];
    }
}
static void N(panel)(int64_t n, const T *a, int64_t row, int64_t column, bool unit, V *x, int64_t step)
{
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        N(some_rows)(8, i, a, row, column, unit, x, step);
    for (; i + 2 <= n; i += 2)
        N(some_rows)(2, i, a, row, column, unit, x, step);
    if (i < n)
        N(some_rows)(1, i, a, row, column, unit, x, step);
}

typedef struct N(parts) { V re, im; } N(parts);

/* x - a b */
INLINE N(parts) N(less)(N(parts) x, const T *a, N(parts) b)
{
    x.re -= a[0] * b.re, x.im -= a[0] * b.im;
    x.re += a[1] * b.im, x.im -= a[1] * b.re;
    return x;
}
/* x / d, without squares of d's parts, which need not be representable (Smith, 1962) */
INLINE N(parts) N(quotient)(N(parts) x, const T *d)
{
    const bool swap = fabs((double)d[0]) < fabs((double)d[1]);
    const T large = swap ? d[1] : d[0], small = swap ? d[0] : d[1], ratio = small / large, whole = large + small * ratio;
    if (swap)
        return (N(parts)){(x.re * ratio + x.im) / whole, (x.im * ratio - x.re) / whole};
    return (N(parts)){(x.re + x.im * ratio) / whole, (x.im - x.re * ratio) / whole};
}
INLINE void N(some_complex)(const int64_t count, int64_t i, const T *a, int64_t row, int64_t column, bool unit, N(parts) *x, int64_t step)
{
    N(parts) sum[4];
    const T *at = a + 2 * i * row;
#pragma GCC unroll 4
    for (int64_t j = 0; j < count; j++)
        sum[j] = x[(i + j) * step];
    for (int64_t r = 0; r < i; r++) {
        const N(parts) xr = x[r * step];
#pragma GCC unroll 4
        for (int64_t j = 0; j < count; j++)
            sum[j] = N(less)(sum[j], at + 2 * (j * row + r * column), xr);
    }
#pragma GCC unroll 4
    for (int64_t j = 0; j < count; j++) {
        const T *from = at + 2 * (j * row + i * column);
#pragma GCC unroll 4
        for (int64_t r = 0; r < j; r++)
            sum[j] = N(less)(sum[j], from + 2 * r * column, sum[r]);
        if (!unit)
            sum[j] = N(quotient)(sum[j], from + 2 * j * column);
        x[(i + j) * step] = sum[j];
    }
}
static void N(complex_panel)(int64_t n, const T *a, int64_t row, int64_t column, bool unit, N(parts) *x, int64_t step)
{
    int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        N(some_complex)(4, i, a, row, column, unit, x, step);
    for (; i < n; i++)
        N(some_complex)(1, i, a, row, column, unit, x, step);
}

/* ---- columns to panels and back */

/* `count` columns of n numbers, or of n complex ones; lanes past them are 0. */
static void N(pack)(bool complex, int64_t n, int64_t count, const T *x, int64_t row_x, int64_t column_x, T *to)
{
    const int64_t step = complex ? 2 : 1;
    if (!complex && column_x == 1 && count == LANES) {
        for (int64_t i = 0; i < n; i++)
            *(V *)(to + i * LANES) = *(const V *)(x + i * row_x);
        return;
    }
    if (count < LANES)
        memset(to, 0, (size_t)(n * LANES * step) * sizeof(T));
    if (!complex && row_x == 1) {
        td_transpose_block(sizeof(T), (char *)to, VBYTES, (const char *)x, column_x * (int64_t)sizeof(T), count, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < count; j++)
            for (int64_t part = 0; part < step; part++)
                to[(i * step + part) * LANES + j] = x[step * (i * row_x + j * column_x) + part];
}
static void N(unpack)(bool complex, int64_t n, int64_t count, const T *from, T *x, int64_t row_x, int64_t column_x)
{
    const int64_t step = complex ? 2 : 1;
    if (!complex && column_x == 1 && count == LANES) {
        for (int64_t i = 0; i < n; i++)
            *(V *)(x + i * row_x) = *(const V *)(from + i * LANES);
        return;
    }
    if (!complex && row_x == 1) {
        td_transpose_block(sizeof(T), (char *)x, column_x * (int64_t)sizeof(T), (const char *)from, VBYTES, n, count);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < count; j++)
            for (int64_t part = 0; part < step; part++)
                x[step * (i * row_x + j * column_x) + part] = from[(i * step + part) * LANES + j];
}

/* Panel by panel in `work`, which has room for n rows of one. */
static void N(whole)(bool complex, int64_t n, int64_t k, td_triangle t, T *x, int64_t row_x, int64_t column_x, T *work)
{
    const int64_t step = complex ? 2 : 1;
    const T *a = t.data;
    if (t.upper)
        a += step * (n - 1) * (t.row + t.column), t.row = -t.row, t.column = -t.column;
    const int64_t first = t.upper ? n - 1 : 0, way = t.upper ? -1 : 1;
    for (int64_t c = 0; c < k; c += LANES) {
        const int64_t count = k - c < LANES ? k - c : LANES;
        T *at = x + step * c * column_x;
        N(pack)(complex, n, count, at, row_x, column_x, work);
        if (complex)
            N(complex_panel)(n, a, t.row, t.column, t.unit, (N(parts) *)work + first, way);
        else
            N(panel)(n, a, t.row, t.column, t.unit, (V *)work + first, way);
        N(unpack)(complex, n, count, work, at, row_x, column_x);
    }
}

/* The half that depends on nothing; what it takes from the other one, by a product; the other one. */
static int N(halves)(bool complex, int64_t n, int64_t k, td_triangle t, T *x, int64_t row_x, int64_t column_x, T *work)
{
    if (n <= WHOLE || k <= 2 * LANES) {
        N(whole)(complex, n, k, t, x, row_x, column_x, work);
        return 0;
    }
    const td_dtype dtype = sizeof(T) == 4 ? (complex ? TD_C64 : TD_F32) : complex ? TD_C128 : TD_F64;
    const int64_t step = complex ? 2 : 1, half = (n / 2 + WHOLE - 1) / WHOLE * WHOLE, rest = n - half;
    const T *a = t.data;
    const td_triangle top = t, low = {a + step * half * (t.row + t.column), t.row, t.column, t.upper, t.unit};
    T *const x_low = x + step * half * row_x;
    T *const done = t.upper ? x_low : x, *const next = t.upper ? x : x_low;
    const int64_t n_done = t.upper ? rest : half, n_next = t.upper ? half : rest;
    const T *beside = a + step * half * (t.upper ? t.column : t.row);
    if (N(halves)(complex, n_done, k, t.upper ? low : top, done, row_x, column_x, work))
        return -1;
    /* x's rows or its columns lie in one piece: then the transposes are multiplied. */
    const int status = column_x == 1
        ? td_gemm_strided(dtype, n_next, k, n_done, td_int(-1), (td_matrix){beside, t.row, t.column}, (td_matrix){done, row_x, 1},
                          td_int(1), next, row_x)
        : td_gemm_strided(dtype, k, n_next, n_done, td_int(-1), (td_matrix){done, column_x, 1}, (td_matrix){beside, t.column, t.row},
                          td_int(1), next, column_x);
    return status || N(halves)(complex, n_next, k, t.upper ? top : low, next, row_x, column_x, work) ? -1 : 0;
}

/* Room for one panel: on the stack for small matrices. */
static int N(solve)(bool complex, int64_t n, int64_t k, td_triangle t, T *x, int64_t row_x, int64_t column_x)
{
    V few[WHOLE * 2];
    const int64_t rows = k <= 2 * LANES || n < WHOLE ? n : WHOLE;
    const size_t bytes = (size_t)(rows * LANES * (complex ? 2 : 1)) * sizeof(T);
    T *work = bytes <= sizeof few ? (T *)few : td_mem_alloc(bytes);
    if (!work)
        return -1;
    const int status = n && k ? N(halves)(complex, n, k, t, x, row_x, column_x, work) : 0;
    if (work != (T *)few)
        td_mem_free(work, bytes);
    return status;
}
static int N(solve_real)(int64_t n, int64_t k, td_triangle t, void *x, int64_t row_x, int64_t column_x)
{
    return N(solve)(false, n, k, t, x, row_x, column_x);
}
static int N(solve_complex)(int64_t n, int64_t k, td_triangle t, void *x, int64_t row_x, int64_t column_x)
{
    return N(solve)(true, n, k, t, x, row_x, column_x);
}
#undef V
#undef LANES
#endif
