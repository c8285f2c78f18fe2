/* Eigenvalues of real symmetric matrices through tridiagonal ones, singular values through bidiagonal ones: what comes
 * before and after our own kernels (reflectors_isa.c, conquer_isa.c).
 *
 * Before: finite numbers are made sure of, since iterations wouldn't end with NaN, and scaled, since squares are added up.
 * After: eigenvectors of the narrow matrix are multiplied with the reflections, values are scaled back. */
#ifndef S
#include <float.h>
#include <math.h>
#include "kernels/cpu/loops/operands.h"
#include "kernels/cpu/linalg/reflectors.h"
#include "libs/lapack.h"

#define TD_BODY "kernels/cpu/linalg/bands.c"
#include "kernels/cpu/isa/both_reals.h"

int td_symmetric(td_dtype dtype, int64_t n, void *x, bool lower, bool vectors, void *values)
{
    return dtype == TD_F32 ? symmetric_f32(n, x, lower, vectors, values) : symmetric_f64(n, x, lower, vectors, values);
}

int td_singular(td_dtype dtype, int64_t m, int64_t n, const void *x, bool full, void *values, void *u, void *vt)
{
    return dtype == TD_F32 ? singular_f32(m, n, x, full, values, u, vt) : singular_f64(m, n, x, full, values, u, vt);
}

#else
#define LIMIT (sizeof(T) == 4 ? (T)FLT_MAX : (T)DBL_MAX)

/* Whether n numbers are finite; *largest becomes the largest size among them and itself. */
static bool N(measured)(int64_t n, const T *a, T *largest)
{
    T most = *largest;
    bool numbers = true;
#pragma omp simd reduction(max : most) reduction(& : numbers)
    for (int64_t i = 0; i < n; i++) {
        const T size = a[i] < 0 ? -a[i] : a[i];
        most = size > most ? size : most;
        numbers &= size <= LIMIT;
    }
    *largest = most;
    return numbers;
}

/* Squares must be numbers, too: the power of two that was taken from n numbers, of which the largest is given.  Powers of two change
 * no digit, and most matrices (from 1e-10 to 1e10) are left alone. */
static int N(rescale)(T largest, int64_t n, T *a)
{
    int power = 0;
    if (largest == 0 || (largest > 1e-10 && largest < 1e10))
        return 0;
    (void)frexp(largest, &power);
    for (int64_t i = 0; i < n; i++)
        a[i] = (T)ldexp(a[i], -power);
    return power;
}

/* x: n x n numbers in rows, which the eigenvectors replace, as rows.  It works on a copy, whose rows are padded with zeros to whole
 * vectors; infinite numbers are found before x is written, so that LAPACK can have it then.  Without vectors, LAPACK's sterf
 * finds the values of the tridiagonal matrix. */
static int N(symmetric)(int64_t n, T *x, bool lower, bool vectors, T *values)
{
    const td_reflectors_table *reflectors = TD_ISA_PICK(td_reflectors_table);
    const td_conquer_table *conquer = TD_ISA_PICK(td_conquer_table);
    const int64_t row = (n + TD_BAND_UNIT - 1) / TD_BAND_UNIT * TD_BAND_UNIT;
    const size_t bytes = (size_t)(row * row + 2 * n) * sizeof(T);
    T *a = td_mem_alloc(bytes);
    if (!a)
        return -1;
    T *beside = a + row * row, *tau = beside + n, most = 0;
    bool numbers = true;
    memset(a, 0, (size_t)(row * row) * sizeof(T));
    for (int64_t i = 0; i < n; i++) {
        T *to = a + i * row;
        if (lower)
            memcpy(to, x + i * n, (size_t)(i + 1) * sizeof(T));
        else
            for (int64_t j = 0; j <= i; j++)
                to[j] = x[j * n + i];
        numbers &= N(measured)(i + 1, to, &most);
    }
    if (!numbers) {
        td_mem_free(a, bytes);
        return 1;
    }
    const int power = N(rescale)(most, n * row, a);
    int status = sizeof(T) == 4 ? reflectors->tridiagonal_f32(n, (void *)a, row, (void *)values, (void *)beside, (void *)tau)
                                : reflectors->tridiagonal_f64(n, (void *)a, row, (void *)values, (void *)beside, (void *)tau);
    if (!status && vectors) {
        status = sizeof(T) == 4 ? conquer->conquer_f32(n, (void *)values, (void *)beside, (void *)x)
                                : conquer->conquer_f64(n, (void *)values, (void *)beside, (void *)x);
        if (!status)
            status = sizeof(T) == 4 ? reflectors->apply_f32(n, n, (void *)a, row, (void *)tau, false, false, n, (void *)x, n)
                                    : reflectors->apply_f64(n, n, (void *)a, row, (void *)tau, false, false, n, (void *)x, n);
        status = status > 0 ? 2 : status;
    } else if (!status) {
        td_lapack_function *sterf = td_lapack("sterf", NULL, sizeof(T) == 4 ? TD_F32 : TD_F64);
        int size = (int)n, info = 1;
        if (sterf)
            sterf(&size, values, beside, &info);
        status = !sterf ? -1 : info ? 2 : 0;
    }
    for (int64_t i = 0; power && i < n; i++)
        values[i] = (T)ldexp(values[i], power);
    td_mem_free(a, bytes);
    return status;
}

/* Vectors of the bidiagonal matrix, `few` in rows, become those of the whole, `length` numbers long: so many of them as there
 * are rows, or with `columns` columns, of x.  What they lack is taken from the unit matrix: reflections make of it the vectors
 * that complete a full basis. */
static void N(lengthen)(int64_t few, int64_t length, int64_t count, const T *from, bool columns, T *x)
{
    const int64_t row = columns ? count : length;
    memset(x, 0, (size_t)(length * count) * sizeof(T));
    for (int64_t i = 0; i < few; i++)
        memcpy(x + i * row, from + i * few, (size_t)few * sizeof(T));
    for (int64_t i = few; i < count; i++)
        x[i * row + i] = 1;
}

/* With m < n it is the transpose that is made bidiagonal, so that there are at least as many rows as columns; the bidiagonal matrix
 * of x itself is then a lower one, and the two sides' reflections change places.  LAPACK's bdsdc (divide and conquer) has its
 * vectors; the reflections then lengthen and multiply them. */
static int N(singular)(int64_t m, int64_t n, const T *x, bool full, T *values, T *u, T *vt)
{
    const td_reflectors_table *reflectors = TD_ISA_PICK(td_reflectors_table);
    const bool wide = m < n;
    const int64_t tall = wide ? n : m, few = wide ? m : n, unit = TD_BAND_UNIT;
    const int64_t row = (few + unit - 1) / unit * unit, long_row = (tall + unit - 1) / unit * unit;
    td_lapack_function *bdsdc = td_lapack("bdsdc", NULL, sizeof(T) == 4 ? TD_F32 : TD_F64);
    const size_t bytes = (size_t)(long_row * row + few * (row + long_row) + 5 * few * few + 12 * few) * sizeof(T) +
                         (size_t)(8 * few) * sizeof(int);
    T *a = bdsdc ? td_mem_alloc(bytes) : NULL;
    if (!a)
        return -1;
    T *left = a + long_row * row, *right = left + few * long_row, *beside = right + few * row, *tau_left = beside + few;
    T *tau_right = tau_left + few, *small_u = tau_right + few, *small_vt = small_u + few * few, *work = small_vt + few * few;
    int *integers = (int *)(work + 3 * few * few + 8 * few);
    T most = 0;
    bool numbers = true;
    memset(a, 0, (size_t)(long_row * row) * sizeof(T));
    for (int64_t i = 0; i < tall; i++) {
        T *to = a + i * row;
        for (int64_t j = 0; j < few; j++)
            to[j] = wide ? x[i * few + j] : x[j * tall + i];
        numbers &= N(measured)(few, to, &most);
    }
    if (!numbers) {
        td_mem_free(a, bytes);
        return 1;
    }
    const int power = N(rescale)(most, tall * row, a);
    int status = sizeof(T) == 4 ? reflectors->bidiagonal_f32(tall, few, (void *)a, row, (void *)values, (void *)beside,
                                                             (void *)tau_left, (void *)tau_right, (void *)left, long_row, (void *)right)
                                : reflectors->bidiagonal_f64(tall, few, (void *)a, row, (void *)values, (void *)beside,
                                                             (void *)tau_left, (void *)tau_right, (void *)left, long_row, (void *)right);
    if (!status) {
        int size = (int)few, info = 0;
        bdsdc(wide ? "L" : "U", u ? "I" : "N", &size, values, beside, small_u, &size, small_vt, &size, NULL, NULL, work, integers,
              &info, (size_t)1, (size_t)1);
        status = info ? 2 : 0;
    }
    if (!status && u) {
        const int64_t count_u = full ? m : few, count_vt = full ? n : few;
        N(lengthen)(few, m, count_u, small_u, false, u);
        N(lengthen)(few, n, count_vt, small_vt, true, vt);
        const T *of_u = wide ? right : left, *of_vt = wide ? left : right;
        const T *tau_u = wide ? tau_right : tau_left, *tau_vt = wide ? tau_left : tau_right;
        const int64_t row_u = wide ? row : long_row, row_vt = wide ? long_row : row;
        status = sizeof(T) == 4
                     ? reflectors->apply_f32(few, m, (void *)of_u, row_u, (void *)tau_u, true, false, count_u, (void *)u, m) ||
                       reflectors->apply_f32(few, n, (void *)of_vt, row_vt, (void *)tau_vt, true, true, count_vt, (void *)vt, count_vt)
                     : reflectors->apply_f64(few, m, (void *)of_u, row_u, (void *)tau_u, true, false, count_u, (void *)u, m) ||
                       reflectors->apply_f64(few, n, (void *)of_vt, row_vt, (void *)tau_vt, true, true, count_vt, (void *)vt, count_vt);
        status = status ? -1 : 0;
    }
    for (int64_t i = 0; power && i < few; i++)
        values[i] = (T)ldexp(values[i], power);
    td_mem_free(a, bytes);
    return status;
}
#undef LIMIT
#endif
