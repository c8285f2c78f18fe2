/* Eigenvalues of real symmetric matrices by way of tridiagonal ones: our own kernels around each other. */
#ifndef S
#include <math.h>
#include "kernels/cpu/nn.h"
#include "kernels/cpu/reflectors.h"
#include "libs/lapack.h"

#define TD_BODY "linalg_bands.c"
#include "kernels/cpu/both_reals.h"

int td_symmetric(td_dtype dtype, int64_t n, void *x, bool lower, bool vectors, void *values)
{
    return dtype == TD_F32 ? symmetric_f32(n, x, lower, vectors, values) : symmetric_f64(n, x, lower, vectors, values);
}

#else
/* The largest size, or infinity. */
static T N(largest)(int64_t n, const T *x, bool lower)
{
    T most = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = lower ? 0 : i; j < (lower ? i + 1 : n); j++) {
            const T size = x[i * n + j] < 0 ? -x[i * n + j] : x[i * n + j];
            most = size <= most ? most : size == size ? size : (T)INFINITY;
        }
    return most;
}

static int N(symmetric)(int64_t n, T *x, bool lower, bool vectors, T *values)
{
    const td_reflectors_table *reflectors = TD_ISA_PICK(td_reflectors_table);
    const td_conquer_table *conquer = TD_ISA_PICK(td_conquer_table);
    const int64_t row = (n + TD_BAND_UNIT - 1) / TD_BAND_UNIT * TD_BAND_UNIT;
    const T most = N(largest)(n, x, lower);
    if (!isfinite(most))
        return 1;
    int power = 0;
    if (most > 0 && (most < 1e-10 || most > 1e10))      /* squares must be numbers, too */
        frexp(most, &power);
    const size_t bytes = (size_t)(row * row + 2 * n + n * n) * sizeof(T);
    T *a = td_mem_alloc(bytes);
    if (!a)
        return -1;
    T *beside = a + row * row, *tau = beside + n, *rows = tau + n;
    for (int64_t i = 0; i < row; i++)
        for (int64_t j = 0; j < row; j++)
            a[i * row + j] = i >= n || j > i ? 0 : lower ? x[i * n + j] : x[j * n + i];
    for (int64_t i = 0; power && i < n * row; i++)
        a[i] = (T)ldexp(a[i], -power);
    int status = sizeof(T) == 4 ? reflectors->tridiagonal_f32(n, (void *)a, row, (void *)values, (void *)beside, (void *)tau)
                                : reflectors->tridiagonal_f64(n, (void *)a, row, (void *)values, (void *)beside, (void *)tau);
    if (!status && vectors) {
        status = sizeof(T) == 4 ? conquer->conquer_f32(n, (void *)values, (void *)beside, (void *)rows)
                                : conquer->conquer_f64(n, (void *)values, (void *)beside, (void *)rows);
        if (!status)
            status = sizeof(T) == 4 ? reflectors->turn_f32(n, (void *)a, row, (void *)tau, n, (void *)rows, n)
                                    : reflectors->turn_f64(n, (void *)a, row, (void *)tau, n, (void *)rows, n);
        if (!status)
            memcpy(x, rows, (size_t)(n * n) * sizeof(T));
    } else if (!status) {
        td_lapack_function *sterf = td_lapack("sterf", NULL, sizeof(T) == 4 ? TD_F32 : TD_F64);
        int size = (int)n, info = 1;
        if (sterf)
            sterf(&size, values, beside, &info);
        status = !sterf ? -1 : info ? 1 : 0;
    }
    for (int64_t i = 0; power && i < n; i++)
        values[i] = (T)ldexp(values[i], power);
    td_mem_free(a, bytes);
    return status;
}
#endif
