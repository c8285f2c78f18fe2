/* QR by Householder's reflections, in blocks of BLOCK columns.
 *
 * Columns lie in rows of `work`, whose lengths are multiples of UNIT, filled up with zeros, so loops have whole vectors only.  Within a
 * block each reflection changes the columns after it, four at a time; all of a block's together are 1 - v' t v with a
 * triangle t (Schreiber and Van Loan, 1989), and change the columns behind the block in three products.  Q is made from the last
 * block on, since that needs no columns before it. */
#ifndef S
#include <math.h>
#include <tede/kernel.h>
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/loops/operands.h"
#include "kernels/cpu/linalg/qr.h"
#include "kernels/cpu/isa/vectors.h"

enum { UNIT = 16, BLOCK = 32 };

#define TD_BODY "kernels/cpu/linalg/qr_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_qr_table TD_ISA_NAME(td_qr_table);
const td_qr_table TD_ISA_NAME(td_qr_table) = {.f32 = qr_f32, .f64 = qr_f64};

#else
#define DTYPE (sizeof(T) == 4 ? TD_F32 : TD_F64)
#define LANES ((int64_t)(VBYTES / sizeof(T)))
#define V N(vec)
#define ADD N(add_product)

/* x[c] -= tau (v x[c]) v for `count` rows x[c]; n is a multiple of LANES. */
static void N(reflect)(int64_t n, const T *v, T tau, int64_t count, T *x, int64_t row)
{
    const V none = {0};
    T sums[4];
    int64_t c = 0;
    for (; c + 4 <= count; c += 4, x += 4 * row) {
        V s0 = none, s1 = none, s2 = none, s3 = none;
        for (int64_t j = 0; j < n; j += LANES) {
            const V vj = *(const V *)(v + j);
            ADD(&s0, *(const V *)(x + j), vj), ADD(&s1, *(const V *)(x + row + j), vj);
            ADD(&s2, *(const V *)(x + 2 * row + j), vj), ADD(&s3, *(const V *)(x + 3 * row + j), vj);
        }
        N(totals)(s0, s1, s2, s3, sums);
        s0 = none - tau * sums[0], s1 = none - tau * sums[1], s2 = none - tau * sums[2], s3 = none - tau * sums[3];
        for (int64_t j = 0; j < n; j += LANES) {
            const V vj = *(const V *)(v + j);
            ADD((V *)(x + j), s0, vj), ADD((V *)(x + row + j), s1, vj);
            ADD((V *)(x + 2 * row + j), s2, vj), ADD((V *)(x + 3 * row + j), s3, vj);
        }
    }
    for (; c < count; c++, x += row) {
        V s = none;
        for (int64_t j = 0; j < n; j += LANES)
            ADD(&s, *(const V *)(x + j), *(const V *)(v + j));
        N(totals)(s, none, none, none, sums);
        s = none - tau * sums[0];
        for (int64_t j = 0; j < n; j += LANES)
            ADD((V *)(x + j), s, *(const V *)(v + j));
    }
}

/* The squares of x[1] on, each divided by `most` before. */
static double N(squares)(int64_t n, const T *x, double most)
{
    double sum = 0;
    if (most == 1) {
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 1; j < n; j++)
            sum += (double)x[j] * (double)x[j];
        return sum;
    }
    for (int64_t j = 1; j < n; j++)
        sum += (double)x[j] / most * ((double)x[j] / most);
    return sum;
}
/* x, n numbers, becomes v with v[0] = 1, so that (1 - tau v v') x is *beta and zeros.  Squares are of doubles; those of doubles
 * themselves are scaled where they would overflow or vanish. */
static T N(make_reflection)(int64_t n, T *x, T *beta)
{
    double sum = N(squares)(n, x, 1), most = 1;
    const bool fits = (sum > 1e-280 && sum < 1e280 && fabs((double)x[0]) < 1e140) || isnan(sum);
    if (sizeof(T) == 8 && !fits) {
        most = 0;
        for (int64_t j = 0; j < n; j++)
            most = fabs((double)x[j]) > most ? fabs((double)x[j]) : most;
        most = most == 0 ? 1 : most;
        sum = N(squares)(n, x, most);
    }
    const double alpha = (double)x[0] / most, norm = -copysign(sqrt(alpha * alpha + sum), alpha), scale = 1 / (alpha - norm);
    *beta = x[0];
    x[0] = 1;
    if (sum == 0)
        return 0;
    if (most != 1)
        for (int64_t j = 1; j < n; j++)
            x[j] = (T)((double)x[j] / most);
#pragma omp simd
    for (int64_t j = 1; j < n; j++)
        x[j] = (T)((double)x[j] * scale);
    *beta = (T)(norm * most);
    return (T)((norm - alpha) / norm);
}

/* t for `some` reflections: 1 - v' t v is their product. */
static int N(triangle)(int64_t some, int64_t length, const T *v, int64_t row, const T *tau, T *t)
{
    T gram[BLOCK * BLOCK];
    if (td_gemm_strided(DTYPE, some, some, length, td_int(1), (td_matrix){v, row, 1}, (td_matrix){v, 1, row}, td_int(0), gram, BLOCK))
        return -1;
    memset(t, 0, sizeof(T) * BLOCK * BLOCK);
    for (int64_t j = 0; j < some; j++) {
        for (int64_t i = 0; i < j; i++) {
            T sum = 0;
            for (int64_t r = i; r < j; r++)
                sum += t[i * BLOCK + r] * gram[r * BLOCK + j];
            t[i * BLOCK + j] = -tau[j] * sum;
        }
        t[j * BLOCK + j] = tau[j];
    }
    return 0;
}
/* Rows x become x - x v' t v, or with t's transpose; `space` has room for 2 count BLOCK numbers. */
static int N(change)(int64_t some, int64_t length, const T *v, int64_t row_v, const T *t, bool transposed, int64_t count, T *x, int64_t row,
                     T *space)
{
    T *more = space + count * BLOCK;
    return td_gemm_strided(DTYPE, count, some, length, td_int(1), (td_matrix){x, row, 1}, (td_matrix){v, 1, row_v}, td_int(0), space, BLOCK) ||
           td_gemm_strided(DTYPE, count, some, some, td_int(1), (td_matrix){space, BLOCK, 1},
                           transposed ? (td_matrix){t, 1, BLOCK} : (td_matrix){t, BLOCK, 1}, td_int(0), more, BLOCK) ||
           td_gemm_strided(DTYPE, count, length, some, td_int(-1), (td_matrix){more, BLOCK, 1}, (td_matrix){v, row_v, 1}, td_int(1), x, row)
        ? -1 : 0;
}

static int N(qr)(int64_t m, int64_t n, const T *a, int64_t rows, T *r, int64_t columns, T *q)
{
    const int64_t least = m < n ? m : n, row = (m + UNIT - 1) / UNIT * UNIT, blocks = (least + BLOCK - 1) / BLOCK;
    const int64_t most = n > columns ? n : columns;
    const size_t bytes = (size_t)((n + columns) * row + least + blocks * BLOCK * BLOCK + 2 * most * BLOCK + UNIT) * sizeof(T);
    T *work = td_mem_alloc(bytes);
    if (!work)
        return -1;
    T *to = work + n * row, *tau = to + columns * row, *t = tau + least, *space = t + blocks * BLOCK * BLOCK;
    int status = 0;
    for (int64_t c = 0; c < n; c++) {
        memcpy(work + c * row, a + c * m, (size_t)m * sizeof(T));
        memset(work + c * row + m, 0, (size_t)(row - m) * sizeof(T));
    }
    for (int64_t from = 0; from < least && !status; from += BLOCK) {
        const int64_t end = from + BLOCK < least ? from + BLOCK : least, begin = from / UNIT * UNIT;
        for (int64_t c = from; c < end; c++) {
            T *v = work + c * row, beta;
            tau[c] = N(make_reflection)(m - c, v + c, &beta);
            memcpy(r + c * rows, v, (size_t)c * sizeof(T));
            r[c * rows + c] = beta;
            memset(r + c * rows + c + 1, 0, (size_t)(rows - c - 1) * sizeof(T));
            memset(v, 0, (size_t)c * sizeof(T));
            if (tau[c] != 0)
                N(reflect)(row - c / UNIT * UNIT, v + c / UNIT * UNIT, tau[c], (end == least && n - c <= 2 * BLOCK ? n : end) - c - 1,
                           v + row + c / UNIT * UNIT, row);
        }
        const T *v = work + from * row + begin;
        const bool few = end == least && n - from <= 2 * BLOCK;     /* done above */
        if (few && columns <= BLOCK)
            continue;
        status = N(triangle)(end - from, row - begin, v, row, tau + from, t + from * BLOCK);
        if (!status && end < n && !few)
            status = N(change)(end - from, row - begin, v, row, t + from * BLOCK, false, n - end, work + end * row + begin, row, space);
    }
    for (int64_t c = least; c < n; c++)
        memcpy(r + c * rows, work + c * row, (size_t)rows * sizeof(T));
    memset(to, 0, (size_t)(columns * row) * sizeof(T));
    for (int64_t c = 0; c < columns; c++)
        to[c * row + c] = 1;
    for (int64_t block = blocks - 1; block >= 0 && columns && !status; block--) {
        const int64_t from = block * BLOCK, end = from + BLOCK < least ? from + BLOCK : least, begin = from / UNIT * UNIT;
        if (columns > BLOCK) {
            status = N(change)(end - from, row - begin, work + from * row + begin, row, t + from * BLOCK, true, columns - from,
                               to + from * row + begin, row, space);
            continue;
        }
        for (int64_t c = end - 1; c >= from; c--) {
            const int64_t at = c / UNIT * UNIT;
            N(reflect)(row - at, work + c * row + at, tau[c], columns - c, to + c * row + at, row);
        }
    }
    for (int64_t c = 0; c < columns; c++)
        memcpy(q + c * m, to + c * row, (size_t)m * sizeof(T));
    td_mem_free(work, bytes);
    return status;
}
#undef ADD
#undef V
#undef LANES
#undef DTYPE
#endif
