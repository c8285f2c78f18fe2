/* Inside the iterator: the plan of a traversal of several strided operands, which copying and reductions share.
 *
 * A plan is what remains of the operands' shapes when dimensions of size 1 are gone, the rest is sorted by stride
 * (fastest first), flipped so that the first operand steps upwards, and merged where possible (what PyTorch calls
 * TensorIterator's coalescing).  Strides count bytes. */
#ifndef TD_OPS_ITERATE_ITERATOR_H
#define TD_OPS_ITERATE_ITERATOR_H
#include <tede/kernel.h>
#include "tensor/tensor.h"

typedef struct td_plan {
    int     count;                                      /* operands */
    int     ndim;                                       /* at least 1 */
    int64_t numel;
    int64_t sizes[TD_MAX_DIMS];                         /* fastest first */
    int64_t strides[TD_MAX_OPERANDS][TD_MAX_DIMS];      /* bytes; 0 where broadcast */
    char   *data[TD_MAX_OPERANDS];
} td_plan;

/* Operands must broadcast to `sizes`.  Those of meta tensors have no memory; the caller sees to it. */
void td_plan_make(td_plan *plan, int ndim, const int64_t *sizes, int count, td_tensor *const *operands);

/* A contiguous run of n elements converted; the two must not overlap. */
typedef void td_convert_run(void *to, const void *from, int64_t n);
td_convert_run *td_converter(td_dtype to, td_dtype from);

/* td_iterate, for two inputs; singles[0] and singles[1], where they aren't NULL, are loops that read one element of the first
 * (second) for a whole run. */
int td_iterate_singles(int n_out, int n_in, td_tensor *const *operands, const td_dtype *compute, td_loop *loop,
                       td_loop *const *singles, const void *params, int cost);

/* Copy n elements of `size` bytes (1, 2, 4, 8 or 16) between strided runs, strides in bytes. */
void td_copy_run(size_t size, char *to, int64_t to_stride, const char *from, int64_t from_stride, int64_t n);

/* The first element of each of `rows` rows, `step` bytes apart, n times, row after row.  Up to 15 bytes behind the last
 * one are overwritten. */
void td_fill_rows(size_t size, char *to, int64_t n, const char *from, int64_t step, int64_t rows);

/* `bytes` filled with these eight, which are one element of 8, 4, 2 or 1 bytes again and again. */
void td_fill_eight(char *to, uint64_t eight, int64_t bytes);

/* to[c][r] = from[r][c] for rows of `columns` contiguous elements that lie from_row bytes apart; to_row for `to`'s. */
void td_transpose_block(size_t size, char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows, int64_t columns);
/* The same of rows that come from far and go on behind `columns`: the next ones are fetched, some rows at a time. */
void td_transpose_ahead(size_t size, char *to, int64_t to_row, const char *from, int64_t from_row, int64_t rows, int64_t columns);

/* Copy what the second cache doesn't hold: in one instruction where the processor is good at that (measured on Zen 5: 16 MB
 * in 350 us, memcpy 490), else both sides are fetched, also what will be written (on Cascade Lake 8 MB at 10 GB/s, memcpy 6.3).
 * Shorter ones are better off with memcpy. */
void td_copy_ahead(char *to, const char *from, int64_t bytes);
/* Copy past the caches, where the processor can; td_end_streaming before other threads may look.  For results of what reads and
 * writes more than TD_STREAM_BYTES, about what the last cache holds: each line of them would be read before it is written. */
enum { TD_STREAM_BYTES = 24 << 20 };
void td_copy_streaming(char *to, const char *from, int64_t bytes);
void td_end_streaming(void);

/* td_parallel_for over n independent elements, which together take so many bytes.  On one thread every other loop over more than a
 * core's own cache goes from the end to the beginning, since the end is what the cache still holds of the loop before. */
void td_for_elements(int64_t n, int64_t bytes, int64_t grain, td_loop_body *body, void *context);

/* a / b for a >= 0, b > 0.  Division of 64-bit numbers takes longer than small operators altogether. */
static inline int64_t td_quotient(int64_t a, int64_t b)
{
    return ((a | b) >> 32) == 0 ? (int64_t)((uint32_t)a / (uint32_t)b) : a / b;
}

/* Where tile t of a matrix of across x along tiles is; which matrix, if there are several.  Tiles across follow each other,
 * in bands: threads that begin apart stay out of each other's rows. */
static inline int64_t td_tile_at(int64_t t, int64_t across, int64_t along, int64_t *at_across, int64_t *at_along)
{
    int64_t matrix = td_quotient(t, across * along), width = across / 8 + 1;
    t -= matrix * across * along;
    int64_t first = td_quotient(t, width * along) * width;
    width = across - first < width ? across - first : width;
    *at_along = td_quotient(t -= first * along, width);
    *at_across = first + t - *at_along * width;
    return matrix;
}

/* Elements times cost: a loop of twice TD_THREAD_WORK is worth a second thread, which takes TD_CHUNK_WORK at a time. */
enum { TD_THREAD_WORK = 32768, TD_CHUNK_WORK = 4096 };

#endif
