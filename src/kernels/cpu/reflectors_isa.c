/* Symmetric matrices made tridiagonal, and turning vectors back.
 *
 * After Dongarra, Sorensen and Hammarling (1989): a panel of PANEL reflections is found from the last rows on, each needing
 * one product of the untouched rest with a vector; then all of them change the rest in one product of matrices.  Only the
 * lower triangle counts, but squares of UNIT numbers along the diagonal are kept whole, so that the product with a vector
 * meets whole vectors only: a number below them serves for its row and for its column. */
#ifndef S
#include <math.h>
#include <tede/kernel.h>
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/nn.h"
#include "kernels/cpu/reflectors.h"
#include "kernels/cpu/vectors.h"

enum { UNIT = TD_BAND_UNIT, PANEL = 32, BLOCK = 64, TURNED = 48 };

static int64_t up(int64_t n)
{
    return (n + UNIT - 1) / UNIT * UNIT;
}

#define TD_BODY "reflectors_isa.c"
#include "kernels/cpu/both_reals.h"

extern const td_reflectors_table TD_ISA_NAME(td_reflectors_table);
const td_reflectors_table TD_ISA_NAME(td_reflectors_table) = {
    .tridiagonal_f32 = tridiagonal_f32, .tridiagonal_f64 = tridiagonal_f64, .turn_f32 = turn_f32, .turn_f64 = turn_f64,
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

/* The sums of four vectors' numbers, all at once. */
INLINE void N(totals)(V a, V b, V c, V d, T *to)
{
    const V ab = N(zip_low)(a, b) + N(zip_high)(a, b), cd = N(zip_low)(c, d) + N(zip_high)(c, d);
    if (LANES == 2) {
        to[0] = ab[0], to[1] = ab[1], to[2] = cd[0], to[3] = cd[1];
        return;
    }
    const V acbd = N(zip_low)(ab, cd) + N(zip_high)(ab, cd);
    T sums[4] = {0};
    for (int i = 0; i < LANES; i += 4)
        for (int j = 0; j < 4; j++)
            sums[j] += acbd[i + j];
    to[0] = sums[0], to[1] = sums[2], to[2] = sums[1], to[3] = sums[3];
}

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

/* y = a x for the lower triangle of a */
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

/* x, n >= 1 numbers, becomes v, whose last number is 1, so that (1 - factor v v') x is (0, ..., 0, *beta). */
static T N(reflection)(int64_t n, T *x, T *beta)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < n - 1; j++)
        sum += (double)x[j] * x[j];
    const double alpha = x[n - 1];
    x[n - 1] = 1;
    *beta = (T)alpha;
    if (sum < (sizeof(T) == 4 ? 1e-60 : 1e-280))    /* nothing, beside the largest numbers; squares wouldn't be exact */
        return 0;
    const double norm = alpha < 0 ? sqrt(alpha * alpha + sum) : -sqrt(alpha * alpha + sum);
    const T scale = (T)(1 / (alpha - norm));
    for (int64_t j = 0; j < n - 1; j++)
        x[j] *= scale;
    *beta = (T)norm;
    return (T)((norm - alpha) / norm);
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
        tau[i] = N(reflection)(i, v, &e[i - 1]);
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

/* TURNED reflections at a time are 1 - v' s v with a lower triangle s (Schreiber and Van Loan, 1989). */
static int N(turn)(int64_t n, const T *a, int64_t row, const T *tau, int64_t count, T *x, int64_t row_x)
{
    const size_t bytes = (size_t)(TURNED * row + 2 * TURNED * count + 2 * TURNED * TURNED) * sizeof(T);
    T *v = td_mem_alloc(bytes);
    int status = 0;
    if (!v)
        return -1;
    T *c = v + TURNED * row, *cs = c + TURNED * count, *s = cs + TURNED * count, *gram = s + TURNED * TURNED;
    for (int64_t from = 1, to; from < n && !status; from = to) {
        to = from + TURNED < n ? from + TURNED : n;
        const int64_t some = to - from, width = to - 1;
        for (int64_t r = 0; r < some; r++) {
            memcpy(v + r * row, a + (from + r) * row, (size_t)(from + r) * sizeof(T));
            memset(v + r * row + from + r, 0, (size_t)(row - from - r) * sizeof(T));
        }
        const td_matrix rows = {v, row, 1}, columns = {v, 1, row};
        status = td_gemm_strided(DTYPE, some, some, width, td_int(1), rows, columns, td_int(0), gram, TURNED);
        memset(s, 0, TURNED * TURNED * sizeof(T));
        for (int64_t r = 0; r < some; r++) {
            for (int64_t p = 0; p < r; p++) {
                const T factor = -tau[from + r] * gram[r * TURNED + p];
                for (int64_t j = 0; j < TURNED; j++)
                    s[r * TURNED + j] += factor * s[p * TURNED + j];
            }
            s[r * TURNED + r] = tau[from + r];
        }
        if (status ||
            td_gemm_strided(DTYPE, count, some, width, td_int(1), (td_matrix){x, row_x, 1}, columns, td_int(0), c, TURNED) ||
            td_gemm_strided(DTYPE, count, some, some, td_int(1), (td_matrix){c, TURNED, 1}, (td_matrix){s, 1, TURNED},
                            td_int(0), cs, TURNED) ||
            td_gemm_strided(DTYPE, count, width, some, td_float(-1), (td_matrix){cs, TURNED, 1}, rows, td_float(1), x, row_x))
            status = -1;
    }
    td_mem_free(v, bytes);
    return status;
}
#undef V
#undef ADD
#undef LANES
#undef DTYPE
#endif
