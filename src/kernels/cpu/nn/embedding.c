/* Embeddings: rows copied by index, and gradients added up by index.
 *
 * In the backward pass threads share the result's rows, so every element is added up in the order of the indices by one
 * thread.
 *
 * Shapes and dtypes were checked in src/ops/nn/embedding.c; that indices are in range is checked here, before anything is written. */
#include "calls_kernels_cpu_nn_embedding.h"
#include <inttypes.h>
#include <math.h>
#include "base/base.h"
#include "kernels/cpu/loops/operands.h"
#include "ops/nn/embedding.h"

/* Every index before any row is read or written. */
static int check_rows(const int64_t *at, int64_t n, int64_t rows)
{
    for (int64_t i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= rows)
            return td_error(TD_E_INDEX, "index out of range in self (embedding: index %" PRId64 ", but there are %" PRId64 " rows)", at[i],
                            rows);
    return 0;
}

/* Rows that are copied: out[i] = rows[at[i]], `bytes` each. */
typedef struct picking {
    const char *rows;
    char *out;
    const int64_t *at;
    size_t bytes;
} picking;

/* Rows are copied as they are: memory and its latency bound this. */
static void pick(void *context, int64_t from, int64_t to)
{
    const picking *p = context;
    for (int64_t i = from; i < to; i++)
        memcpy(p->out + (size_t)i * p->bytes, p->rows + (size_t)p->at[i] * p->bytes, p->bytes);
}

int td_cpu_embedding(td_tensor *weight, td_tensor *indices, int64_t padding_idx, bool by_freq, bool sparse,
                     td_tensor *out)
{
    (void)padding_idx, (void)by_freq, (void)sparse;
    TD_AUTO td_tensor *w = td_make_contiguous(weight), *t = td_as_contiguous(indices, TD_I64);
    if (!w || !t || check_rows((const int64_t *)t->data, t->numel, weight->sizes[0]))
        return -1;
    picking p = {w->data, out->data, (const int64_t *)t->data, (size_t)(weight->sizes[1] * td_itemsize(weight))};
    td_parallel_for(0, t->numel, td_grain((int64_t)p.bytes / 4), pick, &p);
    return 0;
}

/* A task of the backward pass: a block of the result's rows, zeroed and added to while it is in the cache. */
enum { BLOCK_BYTES = 256 << 10, BLOCKS_TO_SHARE = 16, AHEAD = 4 };

/* order and begin are NULL where one block holds all rows. */
typedef struct adding {
    td_dtype type;
    const char *grad;
    char *out;
    const int64_t *at, *counts;
    int64_t n, rows, width, padding;
    int64_t block;                      /* rows of a block */
    int64_t *order, *begin;             /* the indices' positions, block by block, and where each block's begin */
} adding;

#define ADD_ROW(T)                                                                      \
    static void add_row_##T(T *restrict y, const T *restrict g, T scale, int64_t n)     \
    {                                                                                   \
        for (int64_t j = 0; j < n; j++)                                                 \
            y[j] += g[j] * scale;                                                       \
    }
ADD_ROW(float)
ADD_ROW(double)

/* Blocks [first, last): the gradients whose rows are in a block come from anywhere, so some are fetched ahead; what they are added
 * to is in the cache. */
static void add_blocks(void *context, int64_t from, int64_t to)
{
    const adding *a = context;
    int64_t size = a->width * td_itemsizes[a->type];
    for (int64_t b = from; b < to; b++) {
        int64_t first = b * a->block, rows = a->rows - first < a->block ? a->rows - first : a->block;
        memset(a->out + first * size, 0, (size_t)(rows * size));
        int64_t end = a->order ? a->begin[b + 1] : a->n;
        for (int64_t k = a->order ? a->begin[b] : 0; k < end; k++) {
            int64_t i = a->order ? a->order[k] : k, row = a->at[i];
            if (a->order && k + AHEAD < end)
                for (int64_t line = 0; line < size; line += 64)
                    __builtin_prefetch(a->grad + a->order[k + AHEAD] * size + line);
            if (row == a->padding)
                continue;
            double scale = a->counts ? 1.0 / (double)a->counts[row] : 1;
            if (a->type == TD_F64)
                add_row_double((double *)(a->out + row * size), (const double *)(a->grad + i * size), scale, a->width);
            else
                add_row_float((float *)(a->out + row * size), (const float *)(a->grad + i * size), (float)scale, a->width);
        }
    }
}

/* Deal the indices out to the blocks of their rows, in each block in the order in which they came: a counting sort.  Counts of block b
 * are kept two entries further on, so that begin[b + 1] is where b begins while it is dealt to, and where it ends afterwards. */
static void order_indices(adding *a, int64_t blocks)
{
    memset(a->begin, 0, (size_t)(blocks + 2) * sizeof *a->begin);
    for (int64_t i = 0; i < a->n; i++)
        a->begin[a->at[i] / a->block + 2]++;
    for (int64_t b = 2; b <= blocks; b++)
        a->begin[b] += a->begin[b - 1];
    for (int64_t i = 0; i < a->n; i++)
        a->order[a->begin[a->at[i] / a->block + 1]++] = i;
}

/* Blocks of 256 KB, which the second cache holds; fewer rows where threads would have none.  Blocks don't change the order within a
 * row, so the number of threads changes no bits. */
static int add_rows(adding *a)
{
    int64_t share = a->rows / BLOCKS_TO_SHARE + 1, size = a->width * td_itemsizes[a->type];
    a->block = BLOCK_BYTES / (size > 0 ? size : 1) + 1;
    if (td_num_threads() > 1 && share < a->block)
        a->block = share;
    int64_t blocks = td_ceil_div(a->rows, a->block);
    size_t bytes = (size_t)(a->n + blocks + 2) * sizeof *a->order;
    if (blocks > 1) {
        if (!(a->order = td_mem_alloc(bytes)))
            return -1;
        a->begin = a->order + a->n;
        order_indices(a, blocks);
    }
    td_parallel_for(0, blocks, td_grain((a->rows + a->n) * a->width / (blocks > 0 ? blocks : 1)), add_blocks, a);
    td_mem_free(a->order, bytes);
    return 0;
}

/* by_freq: the gradient of a row is divided by how many times its index occurs. */
int td_cpu_embedding_dense_backward(td_tensor *grad, td_tensor *indices, int64_t rows, int64_t padding_idx,
                                    bool by_freq, td_tensor *out)
{
    td_dtype type = td_compute_dtype(grad);
    TD_AUTO td_tensor *g = td_operand(grad, type), *t = td_as_contiguous(indices, TD_I64), *y = td_target(out, type);
    if (!g || !t || !y || check_rows((const int64_t *)t->data, t->numel, rows))
        return -1;
    int64_t *counts = NULL;
    size_t bytes = (size_t)rows * sizeof *counts;
    if (by_freq) {
        if (!(counts = td_mem_alloc_zero(bytes)))
            return -1;
        for (int64_t i = 0; i < t->numel; i++)
            counts[((const int64_t *)t->data)[i]]++;
    }
    adding a = {.type = type, .grad = g->data, .out = y->data, .at = (const int64_t *)t->data, .counts = counts,
                .n = t->numel, .rows = rows, .width = out->sizes[1], .padding = padding_idx};
    int failed = add_rows(&a);
    td_mem_free(counts, bytes);
    return failed ? -1 : td_finish(out, y);
}

/* x[i] of float32 or float64. */
static double element(td_dtype type, const void *x, int64_t i)
{
    return type == TD_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
}

/* A sum as it is stored: a mean is what that gives divided, as in PyTorch, so that halves are rounded twice. */
static double as_stored(td_dtype dtype, double x)
{
    return dtype == TD_F16 ? td_f16_to_f32(td_f32_to_f16((float)x)) : dtype == TD_BF16 ? td_bf16_to_f32(td_f32_to_bf16((float)x)) : x;
}

int td_check_bag_rows(const int64_t *at, int64_t n, int64_t rows, bool general)
{
    for (int64_t i = 0; i < n; i++)
        if (at[i] < 0 || at[i] >= rows)
            return general ? td_error(TD_E_RUNTIME, "embedding_bag: Expected idx >= 0 && idx < num_embeddings but found idx to be %"
                                      PRId64, at[i])
                           : td_error(TD_E_RUNTIME, "Index %" PRId64 " of input takes value %" PRId64 " which is not in the valid range "
                                      "[0, %" PRId64 ")", i, at[i], rows);
    return 0;
}

int td_check_bag_offsets(const int64_t *begin, int64_t count, int64_t n)
{
    if (count && begin[0] != 0)
        return td_error(TD_E_RUNTIME, "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
                        "However, got %" PRId64, begin[0]);
    for (int64_t b = 0; b < count; b++) {
        if (begin[b] > n)
            return td_error(TD_E_RUNTIME, "offsets[-1] can not be greater than input's length %" PRId64 " but got offsets[-1] of %" PRId64, n,
                            begin[b]);
        if (b && begin[b] < begin[b - 1])
            return td_error(TD_E_RUNTIME, "embedding_bag: offsets must not decrease, got %" PRId64 " after %" PRId64,
                            begin[b], begin[b - 1]);
    }
    return 0;
}

/* mode: 0 sum, 1 mean, 2 max.  out1: each index's bag; out2: how many indices of a bag counted (padding doesn't); out3: of max, the
 * row that each number of the result is from, else those counts again.  Bags are added up one after the other in double precision. */
int td_cpu__embedding_bag(td_tensor *weight, td_tensor *indices, td_tensor *offsets, bool by_freq, int64_t mode,
                          bool sparse,
                          td_tensor *per_sample, bool last_offset, int64_t padding_idx, td_tensor *out0,
                          td_tensor *out1,
                          td_tensor *out2, td_tensor *out3)
{
    (void)by_freq, (void)sparse;
    td_dtype type = td_compute_dtype(weight);
    TD_AUTO td_tensor *w = td_operand(weight, type), *t = td_as_contiguous(indices, TD_I64),
    *o = td_as_contiguous(offsets, TD_I64);
    TD_AUTO td_tensor *s = td_operand(per_sample, type), *y = td_target(out0, type);
    /* PyTorch has two paths here, which differ in their words and in what the last bag is if the last offset isn't the end. */
    bool general = mode == 2 || padding_idx >= 0 || weight->dtype == TD_F64;
    if (!w || !t || !o || !s || !y || td_check_bag_rows((const int64_t *)t->data, t->numel, weight->sizes[0], general))
        return -1;
    int64_t bags = out0->sizes[0], n = indices->numel, width = weight->sizes[1];
    const int64_t *at = (const int64_t *)t->data, *begin = (const int64_t *)o->data;
    if (td_check_bag_offsets(begin, offsets->numel, n))
        return -1;
    int64_t *bag_of = (int64_t *)out1->data, *size = (int64_t *)out2->data, *from = (int64_t *)out3->data;
    double *sum = td_mem_alloc((size_t)width * sizeof *sum);
    if (!sum)
        return -1;
    for (int64_t b = 0; b < bags; b++) {
        int64_t end = b + 1 < offsets->numel - (general && last_offset) ? begin[b + 1] : n, used = 0;
        memset(sum, 0, (size_t)width * sizeof *sum);
        for (int64_t j = 0; j < width && mode == 2; j++)
            from[b * width + j] = -1;
        for (int64_t i = begin[b]; i < end; i++) {
            bag_of[i] = b;
            if (at[i] == padding_idx)
                continue;
            double scale = s == TD_NONE ? 1 : element(type, s->data, i);
            for (int64_t j = 0; j < width; j++) {
                double x = element(type, w->data, at[i] * width + j);
                if (mode != 2)
                    sum[j] += scale * x;
                else if (!used || x > sum[j])
                    sum[j] = x, from[b * width + j] = at[i];
            }
            used++;
        }
        size[b] = used;
        if (mode != 2)
            from[b] = used;
        for (int64_t j = 0; j < width; j++) {
            double value = mode == 1 && used ? as_stored((td_dtype)weight->dtype, sum[j]) / (double)used : sum[j];
            if (type == TD_F64)
                ((double *)y->data)[b * width + j] = value;
            else
                ((float *)y->data)[b * width + j] = (float)value;
        }
    }
    for (int64_t i = (!general || !bags) && last_offset && offsets->numel ? begin[offsets->numel - 1] : n; i < n; i++)
        bag_of[i] = bags;           /* behind the last bag: in none */
    for (int64_t i = 0; i < n && !offsets->numel; i++)
        bag_of[i] = -1;
    td_mem_free(sum, (size_t)width * sizeof *sum);
    return td_finish(out0, y);
}
