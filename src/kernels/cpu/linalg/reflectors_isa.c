/* Symmetric matrices made tridiagonal, others bidiagonal, by Householder reflections; and their application to vectors.
 *
 * After Dongarra, Sorensen and Hammarling (1989): a panel of PANEL reflections is found from the last rows on, each needing
 * one product of the untouched rest with a vector; then all of them change the rest in one product of matrices.  Only the
 * lower triangle counts, but squares of UNIT numbers along the diagonal are kept whole, so that the product with a vector
 * meets whole vectors only: a number below them serves for its row and for its column.  Reflections from both sides need two
 * products with a vector each.
 *
 * Half of the arithmetic is in these products with vectors, each of which reads the whole rest: the speed of memory, or of
 * the cache that holds it, bounds them.  The other half is in products of matrices, which threads share. */
#ifndef S
#include <math.h>
#include <tede/kernel.h>
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/loops/operands.h"
#include "kernels/cpu/linalg/reflectors.h"
#include "kernels/cpu/isa/vectors.h"

enum { UNIT = TD_BAND_UNIT, PANEL = 32, BLOCK = 64, TOGETHER = 48 };

static int64_t up(int64_t n)
{
    return (n + UNIT - 1) / UNIT * UNIT;
}

#define TD_BODY "kernels/cpu/linalg/reflectors_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_reflectors_table TD_ISA_NAME(td_reflectors_table);
const td_reflectors_table TD_ISA_NAME(td_reflectors_table) = {
    .tridiagonal_f32 = tridiagonal_f32, .tridiagonal_f64 = tridiagonal_f64,
    .bidiagonal_f32 = bidiagonal_f32, .bidiagonal_f64 = bidiagonal_f64, .apply_f32 = apply_f32, .apply_f64 = apply_f64,
};

#else
#define DTYPE (sizeof(T) == 4 ? TD_F32 : TD_F64)
#define LANES ((int)(VBYTES / sizeof(T)))
#define V N(vec)
#define ADD N(add_product)

static inline T N(total)(V x)
{
    T sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += x[i];
    return sum;
}

/* The lengths of all vectors are multiples of UNIT from here on: what is behind their ends is 0 in one of two factors. */

/* to[r] = the product of row r with x */
static void N(dots)(int64_t rows, int64_t n, const T *a, int64_t row, const T *x, T *to)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        const T *from = a + r * row;
        for (int64_t j = 0; j < n; j += LANES) {
            const V xj = *(const V *)(x + j);
            ADD(&s0, *(const V *)(from + j), xj), ADD(&s1, *(const V *)(from + row + j), xj);
            ADD(&s2, *(const V *)(from + 2 * row + j), xj), ADD(&s3, *(const V *)(from + 3 * row + j), xj);
        }
        N(totals)(s0, s1, s2, s3, to + r);
    }
    for (; r < rows; r++) {
        V sum = {0};
        for (int64_t j = 0; j < n; j += LANES)
            ADD(&sum, *(const V *)(a + r * row + j), *(const V *)(x + j));
        to[r] = N(total)(sum);
    }
}

/* y -= the sum of factor[r] times row r */
static void N(less_rows)(int64_t rows, int64_t n, const T *a, int64_t row, const T *factor, T *y)
{
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) {
        const T *from = a + r * row;
        const V none = {0}, f0 = none - factor[r], f1 = none - factor[r + 1], f2 = none - factor[r + 2];
        const V f3 = none - factor[r + 3];
        for (int64_t j = 0; j < n; j += LANES) {
            V one = *(const V *)(y + j), two = *(const V *)(from + 2 * row + j) * f2;
            ADD(&one, *(const V *)(from + j), f0);
            ADD(&two, *(const V *)(from + 3 * row + j), f3);
            ADD(&one, *(const V *)(from + row + j), f1);
            *(V *)(y + j) = one + two;
        }
    }
    for (; r < rows; r++)
        for (int64_t j = 0; j < n; j += LANES)
            *(V *)(y + j) -= *(const V *)(a + r * row + j) * factor[r];
}

/* y = a x for the lower triangle of a, read once: four rows at a time, each number is added to its row's sum (s0 ... s3) and, times
 * its row's x, to its column's y.  Squares along the diagonal are whole, so they serve rows only. */
static void N(symmetric)(int64_t n, const T *a, int64_t row, const T *x, T *y)
{
    for (int64_t i = 0; i < n; i += 4) {
        const int64_t whole = i / UNIT * UNIT;
        const T *from = a + i * row;
        V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        const V none = {0}, x0 = none + x[i], x1 = none + x[i + 1], x2 = none + x[i + 2], x3 = none + x[i + 3];
        for (int64_t j = 0; j < whole; j += LANES) {
            const V a0 = *(const V *)(from + j), a1 = *(const V *)(from + row + j);
            const V a2 = *(const V *)(from + 2 * row + j), a3 = *(const V *)(from + 3 * row + j);
            const V xj = *(const V *)(x + j);
            V one = *(const V *)(y + j), two = a2 * x2;
            ADD(&s0, a0, xj), ADD(&s1, a1, xj), ADD(&s2, a2, xj), ADD(&s3, a3, xj);
            ADD(&one, a0, x0), ADD(&two, a3, x3), ADD(&one, a1, x1);
            *(V *)(y + j) = one + two;
        }
        for (int64_t j = whole; j < whole + UNIT; j += LANES) {
            const V xj = *(const V *)(x + j);
            ADD(&s0, *(const V *)(from + j), xj), ADD(&s1, *(const V *)(from + row + j), xj);
            ADD(&s2, *(const V *)(from + 2 * row + j), xj), ADD(&s3, *(const V *)(from + 3 * row + j), xj);
        }
        N(totals)(s0, s1, s2, s3, y + i);
    }
}

/* x, n numbers, becomes v, whose number `one` is 1, so that (1 - factor v v') x is *beta there and 0 elsewhere. */
static T N(reflection)(int64_t n, int64_t one, T *x, T *beta)
{
    double sum = 0;
    const double alpha = x[one];
    x[one] = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n; j++)
        sum += (double)x[j] * x[j];
    *beta = (T)alpha;
    T factor = 0;
    if (sum > (sizeof(T) == 4 ? 1e-60 : 1e-280)) {  /* less is nothing beside the largest numbers; squares wouldn't be exact */
        const double norm = alpha < 0 ? sqrt(alpha * alpha + sum) : -sqrt(alpha * alpha + sum);
        const T scale = (T)(1 / (alpha - norm));
        for (int64_t j = 0; j < n; j++)
            x[j] *= scale;
        *beta = (T)norm;
        factor = (T)((norm - alpha) / norm);
    }
    x[one] = 1;
    return factor;
}

/* The reflections of rows begin to end - 1: their vectors replace the rows, `w` gets a row for each, so that a - v' w - w' v
 * is what they make of a. */
static void N(panel)(int64_t begin, int64_t end, T *a, int64_t row, T *d, T *e, T *tau, T *w)
{
    T first[PANEL], second[PANEL];
    for (int64_t i = end - 1; i >= begin && i > 0; i--) {
        T *v = a + i * row, *to = w + (i - begin) * row;
        const int64_t done = end - 1 - i, width = up(i);
        const T *vs = v + row, *ws = to + row;
        for (int64_t r = 0; r < done; r++)
            first[r] = vs[r * row + i], second[r] = ws[r * row + i];
        N(less_rows)(done, up(i + 1), ws, row, first, v);
        N(less_rows)(done, up(i + 1), vs, row, second, v);
        d[i] = v[i];
        memset(v + i, 0, (size_t)(row - i) * sizeof(T));
        tau[i] = N(reflection)(i, i - 1, v, &e[i - 1]);
        memset(to, 0, (size_t)row * sizeof(T));
        if (tau[i] == 0)
            continue;
        N(symmetric)(width, a, row, v, to);
        memset(to + i, 0, (size_t)(row - i) * sizeof(T));
        N(dots)(done, width, ws, row, v, first);
        N(dots)(done, width, vs, row, v, second);
        N(less_rows)(done, width, vs, row, first, to);
        N(less_rows)(done, width, ws, row, second, to);
        memset(to + i, 0, (size_t)(row - i) * sizeof(T));
        T along;
        N(dots)(1, width, to, row, v, &along);
        const T half = -tau[i] * tau[i] * along / 2;
        for (int64_t j = 0; j < width; j++)
            to[j] = tau[i] * to[j] + half * v[j];
    }
    if (begin == 0) {
        d[0] = a[0];
        for (int64_t r = 1; r < end; r++)
            d[0] -= 2 * a[r * row] * w[r * row];
    }
}

/* Panels of PANEL rows from the last on.  Each changes what is above it: a -= v' w + w' v is one product of 2 * count rows, (v, w)
 * with (w, v), for blocks of BLOCK rows, each as far as its diagonal square only. */
static int N(tridiagonal)(int64_t n, T *a, int64_t row, T *d, T *e, T *tau)
{
    const size_t bytes = (size_t)(3 * PANEL * row) * sizeof(T);
    T *work = td_mem_alloc(bytes);
    int status = work ? 0 : -1;
    for (int64_t i = 0; i < n; i++)     /* the squares along the diagonal */
        for (int64_t j = i + 1; j < row && j < (i / BLOCK + 1) * BLOCK; j++)
            a[i * row + j] = j < n ? a[j * row + i] : 0;
    for (int64_t end = n, begin; !status && end > 0; end = begin) {
        begin = (end - 1) / PANEL * PANEL;
        const int64_t count = end - begin;
        T *const middle = work + count * row;       /* v, w, v */
        N(panel)(begin, end, a, row, d, e, tau, middle);
        memcpy(work, a + begin * row, (size_t)(count * row) * sizeof(T));
        memcpy(work + 2 * count * row, work, (size_t)(count * row) * sizeof(T));
        for (int64_t i = 0, to; i < begin && !status; i = to) {
            to = i + BLOCK < begin ? i + BLOCK : begin;
            status = td_gemm_strided(DTYPE, to - i, to, 2 * count, td_float(-1), (td_matrix){work + i, 1, row},
                                     (td_matrix){middle, row, 1}, td_float(1), a + i * row, row);
        }
    }
    tau[0] = 0;
    td_mem_free(work, bytes);
    return status;
}

/* y -= the sum of number[r] times row r and more[r] times the other row r */
INLINE void N(less_two)(int64_t rows, int64_t n, const T *a, const T *number, const T *b, const T *more, int64_t row, T *y)
{
    N(less_rows)(rows, n, a, row, number, y);
    N(less_rows)(rows, n, b, row, more, y);
}

/* PANEL reflections from the left and from the right, from row and column `begin` on.  `left` and x are rows of m numbers (up
 * to a step of long_row), `right` and y of n (up to row): a - left' y - x' right is what they make of a. */
static void N(two_sided)(int64_t m, int64_t n, int64_t begin, int64_t end, T *a, int64_t row, int64_t long_row, T *d, T *e,
                         T *tau_left, T *tau_right, T *left, T *right, T *x, T *y)
{
    T first[PANEL], second[PANEL];
    for (int64_t i = begin; i < end; i++) {
        const int64_t done = i - begin, from = i / UNIT * UNIT, wide = up(n) - from, tall = up(m) - from;
        T *u = left + done * long_row, *v = right + done * row, *to_x = x + done * long_row, *to_y = y + done * row;
        /* Column i as it is now. */
        memset(u, 0, (size_t)long_row * sizeof(T)), memset(to_x, 0, (size_t)long_row * sizeof(T));
        memset(to_y, 0, (size_t)row * sizeof(T));
        for (int64_t r = i; r < m; r++)
            u[r] = a[r * row + i];
        for (int64_t p = 0; p < done; p++)
            first[p] = y[p * row + i], second[p] = right[p * row + i];
        N(less_two)(done, tall, left + from, first, x + from, second, long_row, u + from);
        memset(u + from, 0, (size_t)(i - from) * sizeof(T));
        tau_left[i] = N(reflection)(m - i, 0, u + i, &d[i]);
        /* y = a' u */
        const T *rows = a + from * row + from;
        for (int64_t r = i; r < m; r++)
            u[r] = -u[r];
        N(less_rows)(m - from, wide, rows, row, u + from, to_y + from);
        for (int64_t r = i; r < m; r++)
            u[r] = -u[r];
        N(dots)(done, tall, left + from, long_row, u + from, first);
        N(dots)(done, tall, x + from, long_row, u + from, second);
        N(less_two)(done, wide, y + from, first, right + from, second, row, to_y + from);
        for (int64_t j = from; j < row; j++)
            to_y[j] = j > i && j < n ? tau_left[i] * to_y[j] : 0;
        /* Row i as it is now. */
        memcpy(v, a + i * row, (size_t)row * sizeof(T));
        for (int64_t p = 0; p <= done; p++)
            first[p] = left[p * long_row + i], second[p] = p < done ? x[p * long_row + i] : 0;
        N(less_rows)(done + 1, wide, y + from, row, first, v + from);
        N(less_rows)(done, wide, right + from, row, second, v + from);
        memset(v, 0, (size_t)(i + 1) * sizeof(T));
        if (i + 1 >= n) {
            tau_right[i] = 0;
            continue;
        }
        tau_right[i] = N(reflection)(n - i - 1, 0, v + i + 1, &e[i]);
        /* x = a v */
        N(dots)(m - from, wide, rows, row, v + from, to_x + from);
        memset(to_x + from, 0, (size_t)(i + 1 - from) * sizeof(T));
        N(dots)(done + 1, wide, y + from, row, v + from, first);
        N(dots)(done, wide, right + from, row, v + from, second);
        N(less_rows)(done + 1, tall, left + from, long_row, first, to_x + from);
        N(less_rows)(done, tall, x + from, long_row, second, to_x + from);
        for (int64_t r = from; r < long_row; r++)
            to_x[r] = r > i && r < m ? tau_right[i] * to_x[r] : 0;
    }
}

/* Panels of PANEL reflections from both sides, from the first row and column on; the rest of a follows in one product per panel. */
static int N(bidiagonal)(int64_t m, int64_t n, T *a, int64_t row, T *d, T *e, T *tau_left, T *tau_right, T *left,
                         int64_t long_row, T *right)
{
    const size_t bytes = (size_t)(2 * PANEL * (row + long_row)) * sizeof(T);
    T *work = td_mem_alloc(bytes);
    int status = work ? 0 : -1;
    /* left, x and y, right lie behind each other, so that one product has both. */
    T *tall = work, *wide = work + 2 * PANEL * long_row;
    for (int64_t begin = 0, end; !status && begin < n; begin = end) {
        end = begin + PANEL < n ? begin + PANEL : n;
        const int64_t count = end - begin;
        T *x = tall + count * long_row, *to_right = wide + count * row;
        N(two_sided)(m, n, begin, end, a, row, long_row, d, e, tau_left, tau_right, tall, to_right, x, wide);
        memcpy(left + begin * long_row, tall, (size_t)(count * long_row) * sizeof(T));
        memcpy(right + begin * row, to_right, (size_t)(count * row) * sizeof(T));
        if (end < n)
            status = td_gemm_strided(DTYPE, m - end, n - end, 2 * count, td_float(-1), (td_matrix){tall + end, 1, long_row},
                                     (td_matrix){wide + end, row, 1}, td_float(1), a + end * row + end, row);
    }
    td_mem_free(work, bytes);
    return status;
}

/* TOGETHER reflections at a time are 1 - v' s v with a triangle s (Schreiber and Van Loan, 1989), found row by row from the products
 * of the vectors with each other.  So all arithmetic on x is in products of matrices, three per block. */
static int N(apply)(int64_t n, int64_t length, const T *a, int64_t row, const T *tau, bool backwards, bool columns,
                   int64_t count, T *x, int64_t row_x)
{
    const size_t bytes = (size_t)(2 * TOGETHER * (count + TOGETHER)) * sizeof(T);
    T *c = td_mem_alloc(bytes);
    int status = 0;
    if (!c)
        return -1;
    T *cs = c + TOGETHER * count, *s = cs + TOGETHER * count, *gram = s + TOGETHER * TOGETHER;
    const int64_t blocks = (n + TOGETHER - 1) / TOGETHER;
    for (int64_t block = 0; block < blocks && !status; block++) {
        const int64_t from = (backwards ? blocks - 1 - block : block) * TOGETHER, to = from + TOGETHER < n ? from + TOGETHER : n;
        const int64_t some = to - from, begin = backwards ? from : 0, width = backwards ? length - from : to - 1;
        const T *v = a + from * row + begin;
        const td_matrix rows = {v, row, 1}, transposed = {v, 1, row};
        T *at = x + begin * (columns ? row_x : 1);
        if (width <= 0)
            continue;
        status = td_gemm_strided(DTYPE, some, some, width, td_int(1), rows, transposed, td_int(0), gram, TOGETHER);
        memset(s, 0, TOGETHER * TOGETHER * sizeof(T));
        for (int64_t i = 0; i < some; i++) {
            const int64_t r = backwards ? some - 1 - i : i;
            for (int64_t earlier = 0; earlier < i; earlier++) {
                const int64_t p = backwards ? some - 1 - earlier : earlier;
                const T factor = -tau[from + r] * gram[r * TOGETHER + p];
                for (int64_t j = 0; j < TOGETHER; j++)
                    s[r * TOGETHER + j] += factor * s[p * TOGETHER + j];
            }
            s[r * TOGETHER + r] = tau[from + r];
        }
        if (status)
            break;
        if (columns)
            status = td_gemm_strided(DTYPE, some, count, width, td_int(1), rows, (td_matrix){at, row_x, 1}, td_int(0), c, count) ||
                     td_gemm_strided(DTYPE, some, count, some, td_int(1), (td_matrix){s, TOGETHER, 1}, (td_matrix){c, count, 1},
                                     td_int(0), cs, count) ||
                     td_gemm_strided(DTYPE, width, count, some, td_float(-1), transposed, (td_matrix){cs, count, 1}, td_float(1),
                                     at, row_x) ? -1 : 0;
        else
            status = td_gemm_strided(DTYPE, count, some, width, td_int(1), (td_matrix){at, row_x, 1}, transposed, td_int(0), c, TOGETHER) ||
                     td_gemm_strided(DTYPE, count, some, some, td_int(1), (td_matrix){c, TOGETHER, 1}, (td_matrix){s, 1, TOGETHER},
                                     td_int(0), cs, TOGETHER) ||
                     td_gemm_strided(DTYPE, count, width, some, td_float(-1), (td_matrix){cs, TOGETHER, 1}, rows, td_float(1),
                                     at, row_x) ? -1 : 0;
    }
    td_mem_free(c, bytes);
    return status;
}
#undef V
#undef ADD
#undef LANES
#undef DTYPE
#endif
