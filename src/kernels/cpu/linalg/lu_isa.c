/* LU factors with partial pivoting, solving with them, and Cholesky factors, for matrices in rows.
 *
 * After Toledo (1997): the left half of the columns is factored first, the right half follows by one triangular solution
 * and one product, and its lower part is factored in turn, so almost all arithmetic is in products.  In rows, changing
 * places is copying, and what is left for the innermost blocks, WIDTH columns, adds multiples of rows to rows.  Cholesky's
 * factor goes by halves in the same way; what is below the diagonal isn't read.
 *
 * (Toledo, Locality of Reference in LU Decomposition with Partial Pivoting.)  Halves are multiples of WIDTH, so that all
 * innermost blocks but the last are full.  Threads share the products (td_gemm_strided), whose results don't depend on them. */
#ifndef S
#include <math.h>
#include <tede/kernel.h>
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/linalg/lu.h"
#include "kernels/cpu/loops/operands.h"
#include "kernels/cpu/isa/vectors.h"
#include "ops/iterate/iterator.h"

enum { WIDTH = 16 };

typedef int32_t int_f32;
typedef int64_t int_f64;
typedef int32_t vec_int_f32 __attribute__((vector_size(VBYTES), aligned(4), may_alias));
typedef int64_t vec_int_f64 __attribute__((vector_size(VBYTES), aligned(8), may_alias));

#define TD_BODY "kernels/cpu/linalg/lu_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_lu_table TD_ISA_NAME(td_lu_table);
const td_lu_table TD_ISA_NAME(td_lu_table) = {
    .factor_f32 = factor_f32, .factor_f64 = factor_f64, .solve_f32 = solve_f32, .solve_f64 = solve_f64,
    .cholesky_f32 = cholesky_f32, .cholesky_f64 = cholesky_f64, .many_f32 = many_f32, .many_f64 = many_f64,
    .complex_f32 = factor_complex_f32, .complex_f64 = factor_complex_f64,
};

#else
#define DTYPE (sizeof(T) == 4 ? TD_F32 : TD_F64)

/* c -= a b, for m x n numbers of c. */
static int N(subtract)(int64_t m, int64_t n, int64_t k, const T *a, int64_t row_a, const T *b, int64_t row_b, T *c, int64_t row)
{
    return td_gemm_strided(DTYPE, m, n, k, td_float(-1), (td_matrix){a, row_a, 1}, (td_matrix){b, row_b, 1}, td_float(1), c,
                           row);
}

/* to -= factor * from */
static inline void N(less)(int64_t n, T factor, const T *from, T *to)
{
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        to[j] -= factor * from[j];
}

static inline T N(size)(T x) { return sizeof(T) == 4 ? fabsf((float)x) : (T)fabs((double)x); }

/* Rows i and pivots[i] - 1 change places, for i from 0 on: in this order, since later exchanges move what earlier ones have moved. */
static void N(exchange)(int64_t n, int64_t count, const int *pivots, T *a, int64_t row)
{
    for (int64_t i = 0; i < count; i++) {
        T *one = a + i * row, *other = a + (pivots[i] - 1) * row;
        if (one != other)
#pragma omp simd
            for (int64_t j = 0; j < n; j++) {
                T x = one[j];
                one[j] = other[j], other[j] = x;
            }
    }
}

/* At most WIDTH columns, one after the other, in a copy that lies close together and is filled up with zeros: there a row is a
 * vector.  While one column is taken from the others, the next one is copied to `column`: in a separate loop the largest number is
 * found without one comparison's waiting for the other. */
static int N(narrow)(int64_t m, int64_t n, T *a, int64_t row, int *pivots, int *info)
{
    const size_t bytes = (size_t)(m * (WIDTH + 1)) * sizeof(T);
    T *block = td_mem_alloc(bytes);
    if (!block)
        return -1;
    T *column = block + m * WIDTH;
    for (int64_t i = 0; i < m; i++) {
        T *to = block + i * WIDTH;
        if (n == WIDTH)
            memcpy(to, a + i * row, WIDTH * sizeof(T));
        else
            for (int64_t j = 0; j < WIDTH; j++)
                to[j] = j < n ? a[i * row + j] : 0;
        column[i] = to[0];
    }
    for (int64_t j = 0; j < n && j < m; j++) {
        T top[WIDTH], *at = block + j * WIDTH, most = 0;
        int64_t largest = j;
#pragma omp simd reduction(max : most)
        for (int64_t i = j; i < m; i++)
            most = N(size)(column[i]) > most ? N(size)(column[i]) : most;
        while (most > 0 && N(size)(column[largest]) != most)
            largest++;
        const int pivot = (int)(largest - j) + 1;
        N(exchange)(WIDTH, 1, &pivot, at, WIDTH);
        column[largest] = column[j];
        pivots[j] = (int)largest + 1;
        for (int64_t i = 0; i < WIDTH; i++)
            top[i] = i > j ? at[i] : 0;
        const T first = at[j];
        const int64_t next = (j + 1) % WIDTH;
        if (first == 0) {   /* the largest of them: there is nothing to take */
            *info = *info ? *info : (int)j + 1;
            for (int64_t i = j + 1; i < m; i++)
                column[i] = block[i * WIDTH + next];
            continue;
        }
#pragma omp simd
        for (int64_t i = j + 1; i < m; i++)
            column[i] /= first;
        for (int64_t i = j + 1; i < m; i++) {
            T *to = block + i * WIDTH;
            N(less)(WIDTH, column[i], top, to);
            to[j] = column[i];
            column[i] = to[next];
        }
    }
    for (int64_t i = 0; i < m; i++)
        memcpy(a + i * row, block + i * WIDTH, n == WIDTH ? WIDTH * sizeof(T) : (size_t)n * sizeof(T));
    td_mem_free(block, bytes);
    return 0;
}

/* b = l^-1 b, l k x k with ones on its diagonal. */
static int N(forward)(int64_t k, int64_t n, const T *l, int64_t row_l, T *b, int64_t row)
{
    if (k <= WIDTH) {
        for (int64_t i = 1; i < k; i++)
            for (int64_t r = 0; r < i; r++)
                N(less)(n, l[i * row_l + r], b + r * row, b + i * row);
        return 0;
    }
    const int64_t half = (k / 2 + WIDTH - 1) / WIDTH * WIDTH;
    return N(forward)(half, n, l, row_l, b, row) ||
           N(subtract)(k - half, n, half, l + half * row_l, row_l, b, row, b + half * row, row) ||
           N(forward)(k - half, n, l + half * row_l + half, row_l, b + half * row, row) ? -1 : 0;
}

/* b = u^-1 b */
static int N(back)(int64_t k, int64_t n, const T *u, int64_t row_u, T *b, int64_t row)
{
    if (k <= WIDTH) {
        for (int64_t i = k - 1; i >= 0; i--) {
            for (int64_t r = i + 1; r < k; r++)
                N(less)(n, u[i * row_u + r], b + r * row, b + i * row);
            for (int64_t j = 0; j < n; j++)
                b[i * row + j] /= u[i * row_u + i];
        }
        return 0;
    }
    const int64_t half = (k / 2 + WIDTH - 1) / WIDTH * WIDTH;
    return N(back)(k - half, n, u + half * row_u + half, row_u, b + half * row, row) ||
           N(subtract)(half, n, k - half, u + half, row_u, b + half * row, row, b, row) ||
           N(back)(half, n, u, row_u, b, row) ? -1 : 0;
}

/* [l11; l21] from the left half; u12 = l11^-1 a12; a22 - l21 u12 is factored in turn, and its exchanges are made in l21, too.  With
 * m < half all rows are done by the left half, and nothing is below. */
static int N(factor)(int64_t m, int64_t n, T *a, int64_t row, int *pivots, int *info)
{
    *info = 0;
    if (n <= WIDTH)
        return m && n ? N(narrow)(m, n, a, row, pivots, info) : 0;
    const int64_t half = (n / 2 + WIDTH - 1) / WIDTH * WIDTH, done = m < half ? m : half;
    const int64_t more = m - done < n - half ? m - done : n - half;
    T *right = a + half, *low = a + done * row;
    int second = 0;
    if (N(factor)(m, half, a, row, pivots, info))
        return -1;
    N(exchange)(n - half, done, pivots, right, row);
    if (N(forward)(done, n - half, a, row, right, row) ||
        N(subtract)(m - done, n - half, done, low, row, right, row, low + half, row) ||
        N(factor)(m - done, n - half, low + half, row, pivots + done, &second))
        return -1;
    N(exchange)(half, more, pivots + done, low, row);
    for (int64_t i = 0; i < more; i++)
        pivots[done + i] += (int)done;
    if (!*info && second)
        *info = second + (int)done;
    return 0;
}

/* x = u^-1 l^-1 p x */
static int N(solve)(int64_t n, int64_t k, const T *a, int64_t row, const int *pivots, T *x, int64_t row_x)
{
    N(exchange)(k, n, pivots, x, row_x);
    return N(forward)(n, k, a, row, x, row_x) || N(back)(n, k, a, row, x, row_x) ? -1 : 0;
}

/* 1 / (re + i im) without squares that need not be representable. */
static inline void N(reciprocal)(T re, T im, T *to)
{
    const bool swap = N(size)(re) < N(size)(im);
    const T ratio = swap ? re / im : im / re, whole = swap ? im + re * ratio : re + im * ratio;
    to[0] = (swap ? ratio : 1) / whole, to[1] = -(swap ? 1 : ratio) / whole;
}

/* Column after column; the pivot is the number whose parts' sizes have the largest sum, as BLAS's icamax has it. */
static int N(factor_complex)(int64_t n, T *a, int *pivots)
{
    int info = 0;
    for (int64_t j = 0; j < n; j++) {
        T *const column = a + 2 * j * n;
        int64_t largest = j;
        T most = N(size)(column[2 * j]) + N(size)(column[2 * j + 1]);
        for (int64_t i = j + 1; i < n; i++) {
            const T size = N(size)(column[2 * i]) + N(size)(column[2 * i + 1]);
            if (size > most)
                most = size, largest = i;
        }
        pivots[j] = (int)largest + 1;
        if (most == 0) {
            info = info ? info : (int)j + 1;
            continue;
        }
        for (int64_t c = 0; c < n && largest != j; c++) {
            T *one = a + 2 * (c * n + j), *other = a + 2 * (c * n + largest);
            const T re = one[0], im = one[1];
            one[0] = other[0], one[1] = other[1], other[0] = re, other[1] = im;
        }
        T inverse[2];
        N(reciprocal)(column[2 * j], column[2 * j + 1], inverse);
        for (int64_t i = j + 1; i < n; i++) {
            const T re = column[2 * i], im = column[2 * i + 1];
            column[2 * i] = re * inverse[0] - im * inverse[1], column[2 * i + 1] = re * inverse[1] + im * inverse[0];
        }
        for (int64_t c = j + 1; c < n; c++) {
            T *const to = a + 2 * c * n;
            const T re = to[2 * j], im = to[2 * j + 1];
#pragma omp simd
            for (int64_t i = j + 1; i < n; i++) {
                to[2 * i] -= column[2 * i] * re - column[2 * i + 1] * im;
                to[2 * i + 1] -= column[2 * i] * im + column[2 * i + 1] * re;
            }
        }
    }
    return info;
}

/* ---- a = u' u */

/* b = u'^-1 b */
static int N(under)(int64_t k, int64_t n, const T *u, int64_t row_u, T *b, int64_t row)
{
    if (k <= WIDTH) {
        for (int64_t i = 0; i < k; i++) {
            for (int64_t r = 0; r < i; r++)
                N(less)(n, u[r * row_u + i], b + r * row, b + i * row);
            for (int64_t j = 0; j < n; j++)
                b[i * row + j] /= u[i * row_u + i];
        }
        return 0;
    }
    const int64_t half = (k / 2 + WIDTH - 1) / WIDTH * WIDTH;
    return N(under)(half, n, u, row_u, b, row) ||
           td_gemm_strided(DTYPE, k - half, n, half, td_float(-1), (td_matrix){u + half, 1, row_u}, (td_matrix){b, row, 1},
                           td_float(1), b + half * row, row) ||
           N(under)(k - half, n, u + half * row_u + half, row_u, b + half * row, row) ? -1 : 0;
}

/* c -= u' u for k rows of u, in c's upper triangle and some of what is below it. */
static int N(less_square)(int64_t n, int64_t k, const T *u, T *c, int64_t row)
{
    const int64_t half = n <= 4 * WIDTH ? n : (n / 2 + WIDTH - 1) / WIDTH * WIDTH;
    if (half < n)
        return N(less_square)(half, k, u, c, row) ||
               td_gemm_strided(DTYPE, half, n - half, k, td_float(-1), (td_matrix){u, 1, row}, (td_matrix){u + half, row, 1},
                               td_float(1), c + half, row) ||
               N(less_square)(n - half, k, u + half, c + half * row + half, row) ? -1 : 0;
    return td_gemm_strided(DTYPE, n, n, k, td_float(-1), (td_matrix){u, 1, row}, (td_matrix){u, row, 1}, td_float(1), c, row);
}

/* u11, then u12 = u11'^-1 a12, then the factor of a22 - u12' u12.  A pivot that isn't positive (or NaN) ends it, with what has been
 * found before in place. */
static int N(cholesky)(int64_t n, T *a, int64_t row, int *info)
{
    *info = 0;
    if (n <= 2 * WIDTH) {
        for (int64_t i = 0; i < n; i++) {
            T *from = a + i * row;
            if (!(from[i] > 0)) {
                *info = (int)i + 1;
                return 0;
            }
            const T root = (T)sqrt((double)from[i]), inverse = 1 / root;
            from[i] = root;
            for (int64_t j = i + 1; j < n; j++)
                from[j] *= inverse;
            for (int64_t r = i + 1; r < n; r++)
                N(less)(n - r, from[r], from + r, a + r * row + r);
        }
        return 0;
    }
    const int64_t half = (n / 2 + WIDTH - 1) / WIDTH * WIDTH;
    T *right = a + half, *rest = right + half * row;
    if (N(cholesky)(half, a, row, info))
        return -1;
    if (*info)
        return 0;
    if (N(under)(half, n - half, a, row, right, row) || N(less_square)(n - half, half, right, rest, row) ||
        N(cholesky)(n - half, rest, row, info))
        return -1;
    *info += *info ? (int)half : 0;
    return 0;
}

#include "kernels/cpu/linalg/lu_many.h"
#undef DTYPE
#endif
