/* Eigenvalues of real symmetric matrices by way of tridiagonal ones: our own kernels around each other. */
#ifndef S
#include <float.h>
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
#define LIMIT (sizeof(T) == 4 ? (T)FLT_MAX : (T)DBL_MAX)

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
#pragma omp simd reduction(max : most) reduction(& : numbers)
        for (int64_t j = 0; j <= i; j++) {
            const T size = to[j] < 0 ? -to[j] : to[j];
            most = size > most ? size : most;
            numbers &= size <= LIMIT;
        }
    }
    int power = 0;
    if (numbers && most > 0 && (most < 1e-10 || most > 1e10)) {     /* squares must be numbers, too */
        frexp(most, &power);
        for (int64_t i = 0; i < n * row; i++)
            a[i] = (T)ldexp(a[i], -power);
    }
    if (!numbers) {
        td_mem_free(a, bytes);
        return 1;
    }
    int status = sizeof(T) == 4 ? reflectors->tridiagonal_f32(n, (void *)a, row, (void *)values, (void *)beside, (void *)tau)
                                : reflectors->tridiagonal_f64(n, (void *)a, row, (void *)values, (void *)beside, (void *)tau);
    if (!status && vectors) {
        status = sizeof(T) == 4 ? conquer->conquer_f32(n, (void *)values, (void *)beside, (void *)x)
                                : conquer->conquer_f64(n, (void *)values, (void *)beside, (void *)x);
        if (!status)
            status = sizeof(T) == 4 ? reflectors->turn_f32(n, (void *)a, row, (void *)tau, n, (void *)x, n)
                                    : reflectors->turn_f64(n, (void *)a, row, (void *)tau, n, (void *)x, n);
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
#undef LIMIT
#endif
