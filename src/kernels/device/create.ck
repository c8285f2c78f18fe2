/* Sequences (arange, linspace) and triangles of matrices.
 *
 * A: elements.  WIDE: reals are computed in double.  Whole numbers are counted in int64, reals from their position, as on the CPU. */
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
#if HALF
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
#endif
#endif
