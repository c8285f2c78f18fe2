/* Sequences (arange, linspace) and triangles of matrices.
 *
 * A: elements.  WIDE: reals are computed in double.  ROUNDED: products are rounded before they are added.  Whole numbers are counted in int64, reals from their position, as on the CPU. */
#include "kernels/device/group.ck"

typedef struct sequence_values { int64_t n, whole, start, step, end; } sequence_values;
/* `lanes`: words of an element. */
typedef struct triangle_values { int64_t n, rows, cols, lanes, diagonal; } triangle_values;

#ifndef TD_HOST
#ifdef WIDE
/* SPACED: 0 arange; 1 linspace, whose second half is counted from the end, with the roundings of its dtype. */
KERNEL sequence(BUFFER(out), VALUES(sequence_values, v))
{
    UNPACK(sequence_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
#if SPACED
        const int late = i >= v.n / 2 && v.n > 1;
        const U from = late ? NUMBER(v.end) : NUMBER(v.start), step = v.n == 1 ? 0 : late ? -NUMBER(v.step) : NUMBER(v.step);
        const U k = (U)(late ? v.n - 1 - i : i);
#if ROUNDED
        const U by = A_LOAD(A_STORE(step * A_LOAD(A_STORE(k))));
        AT(A, out)[i] = A_STORE(from + by);
#elif WIDE
        AT(A, out)[i] = A_STORE((A_C)fma(step, k, from));
#else
        AT(A, out)[i] = A_STORE((A_C)fmaf(step, k, from));
#endif
#else
        AT(A, out)[i] = v.whole ? A_STORE((A_C)(v.start + i * v.step)) : A_STORE((A_C)(NUMBER(v.start) + NUMBER(v.step) * (U)i));
#endif
    }
}
#else
/* UPPER: what is kept begins at the diagonal, else it ends there. */
KERNEL triangle(BUFFER(from), BUFFER(to), VALUES(triangle_values, v))
{
    UNPACK(triangle_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const int64_t at = i / v.lanes, col = at % v.cols, row = at / v.cols % v.rows;
#if UPPER
        AT(A, to)[i] = col >= row + v.diagonal ? AT(const A, from)[i] : 0;
#else
        AT(A, to)[i] = col <= row + v.diagonal ? AT(const A, from)[i] : 0;
#endif
    }
}

/* The sum of j from 0 up to x - 1, each cut off at 0 and at cols: modulo 2^64, in which differences are right. */
static int64_t left_of(int64_t x, int64_t cols)
{
    const int64_t n = x < 0 ? 0 : x < cols ? x : cols;
    return (int64_t)((uint64_t)(n % 2 ? n : n - 1) * (uint64_t)(n % 2 ? (n - 1) / 2 : n / 2) + (x > cols ? (uint64_t)(x - cols) * (uint64_t)cols : 0));
}
/* How many elements are kept of the rows before r. */
static int64_t kept_before(triangle_values v, int64_t r)
{
    const int64_t first = v.diagonal + !UPPER, left = (int64_t)((uint64_t)left_of(r + first, v.cols) - (uint64_t)left_of(first, v.cols));
    return UPPER ? (int64_t)((uint64_t)r * (uint64_t)v.cols - (uint64_t)left) : left;
}
/* An element's row by bisection. */
KERNEL triangle_indices(BUFFER(out), VALUES(triangle_values, v))
{
    UNPACK(triangle_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        int64_t row = 0, end = v.rows;
        while (end - row > 1) {
            const int64_t middle = row + (end - row) / 2;
            if (kept_before(v, middle) <= i)
                row = middle;
            else
                end = middle;
        }
        const int64_t edge = row + v.diagonal, first = UPPER && edge > 0 ? edge : 0;
        AT(A, out)[i] = (A)row, AT(A, out)[v.n + i] = (A)(first + i - kept_before(v, row));
    }
}
#endif
#endif
