/* Distances of rows, a block of x2's rows at a time: it is transposed first, so that one number of a row of x1 meets the
 * same number of all of them side by side, and sums, 128 bytes of them, stay in registers over a row.  Each distance is added up along
 * the row in order, on one thread. */
#ifndef S
#include <math.h>
#include "base/base.h"
#include "kernels/cpu/reduce/distance.h"

#define N(name) TD_ISA_PASTE(name, S)
#define TD_BODY "kernels/cpu/reduce/distance_isa.c"
#include "kernels/cpu/isa/both_reals.h"

extern const td_distance_table TD_ISA_NAME(td_distance_table);
const td_distance_table TD_ISA_NAME(td_distance_table) = {.tasks = {tasks_f32, tasks_f64}};

#else

enum { N(LANES) = 128 / sizeof(T) };

/* A row of x1 against so many rows of x2, transposed: from[k][lane]. */
static inline __attribute__((always_inline)) void N(lanes)(const td_distance kind, const T *x, const T *from, int64_t width, T *to)
{
    T sums[N(LANES)] = {0};
    for (int64_t k = 0; k < width; k++, from += TD_DISTANCE_ROWS) {
        const T a = x[k];
#pragma omp simd
        for (int l = 0; l < N(LANES); l++) {
            const T d = a - from[l], size = d < 0 ? -d : d;
            if (kind == TD_DISTANCE_EUCLIDEAN)
                sums[l] += d * d;
            else if (kind == TD_DISTANCE_ABSOLUTE)
                sums[l] += size;
            else
                sums[l] = ((size > sums[l]) | (size != size)) ? size : sums[l];     /* NaN stays */
        }
    }
#pragma omp simd
    for (int l = 0; l < N(LANES); l++)
        to[l] = kind == TD_DISTANCE_EUCLIDEAN ? (T)(sizeof(T) == 4 ? (T)__builtin_sqrtf((float)sums[l]) : (T)__builtin_sqrt(sums[l])) : sums[l];
}

/* `kind` is a constant at every call, so that the loop over k has no choice left in it. */
static inline __attribute__((always_inline)) void N(block)(const td_distance kind, const td_distance_job *job, const T *x1,
                                                           const T *transposed, int64_t rows, int64_t columns, T *y)
{
    T out[TD_DISTANCE_ROWS];
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j += N(LANES))
            N(lanes)(kind, x1 + i * job->width, transposed + j, job->width, out + j);
        memcpy(y + i * job->columns, out, (size_t)columns * sizeof(T));
    }
}

/* Tasks [first, last).  A block of x2 is width x 64 numbers, transposed once and read by up to 64 rows of x1.  Columns behind the
 * last one are computed from what the buffer holds and not copied out. */
static void N(tasks)(void *context, int64_t first, int64_t last)
{
    td_distance_job *job = context;
    const size_t bytes = (size_t)(job->width * TD_DISTANCE_ROWS) * sizeof(T);
    T *transposed = td_mem_alloc(bytes);
    if (!transposed) {
        __atomic_store_n(&job->failed, 1, __ATOMIC_RELAXED);
        return;
    }
    memset(transposed, 0, bytes);
    for (int64_t task = first; task < last; task++) {
        const int64_t b = task / (job->down * job->across), at = task % (job->down * job->across);
        const int64_t i = at % job->down * TD_DISTANCE_ROWS, j = at / job->down * TD_DISTANCE_ROWS;
        const int64_t rows = job->rows - i < TD_DISTANCE_ROWS ? job->rows - i : TD_DISTANCE_ROWS;
        const int64_t columns = job->columns - j < TD_DISTANCE_ROWS ? job->columns - j : TD_DISTANCE_ROWS;
        const T *x1 = (const T *)job->x1 + (b * job->rows + i) * job->width;
        const T *x2 = (const T *)job->x2 + (b * job->columns + j) * job->width;
        T *y = (T *)job->y + (b * job->rows + i) * job->columns + j;
        td_transpose_block(sizeof(T), (char *)transposed, TD_DISTANCE_ROWS * sizeof(T), (const char *)x2,
                           job->width * (int64_t)sizeof(T), columns, job->width);
        if (job->kind == TD_DISTANCE_EUCLIDEAN)
            N(block)(TD_DISTANCE_EUCLIDEAN, job, x1, transposed, rows, columns, y);
        else if (job->kind == TD_DISTANCE_ABSOLUTE)
            N(block)(TD_DISTANCE_ABSOLUTE, job, x1, transposed, rows, columns, y);
        else
            N(block)(TD_DISTANCE_LARGEST, job, x1, transposed, rows, columns, y);
    }
    td_mem_free(transposed, bytes);
}
#endif
