/* Attention's operands, made readable for the loops: float32 or float64, features side by side.
 *
 * The operator's checks and the choice of this kernel are in src/ops/nn/attention.c.  float16 and bfloat16 operands are copied as
 * float32, since the loops read each of them many times. */
#include "calls_kernels_cpu_nn_attention.h"
#include "kernels/cpu/gemm/gemm.h"
#include "kernels/cpu/nn/attention.h"

/* Queries that are too few to be columns. */
enum { FEW = 12 };

/* x itself if the loops can read it as it is. */
static td_tensor *readable(td_tensor *x, td_dtype type)
{
    bool fits = x->dtype == type && (x->strides[3] == 1 || x->sizes[3] <= 1) && x->strides[2] >= x->sizes[3];
    return fits ? td_tensor_retain(x) : td_as_contiguous(x, type);
}

/* A result that the loops can write: itself, or a contiguous one that is copied back. */
static td_tensor *writable(td_tensor *x, td_dtype type)
{
    bool fits = x->dtype == type && (x->strides[3] == 1 || x->sizes[3] <= 1) && x->strides[2] >= x->sizes[3];
    return fits ? td_tensor_retain(x) : td_tensor_new(4, x->sizes, type, x->device);
}

static int write_back(td_tensor *x, td_tensor *written)
{
    return x == written ? 0 : td_copy_elements(x, written);
}

/* Batch, heads and rows have any strides: heads that a projection leaves side by side are read without a transposed copy. */
static td_heads heads(const td_tensor *x)
{
    return (td_heads){x->data, x->strides[0], x->strides[1], x->strides[2]};
}

static void set_mask(td_attention_job *job, const td_tensor *mask)
{
    if (mask == TD_NONE)
        return;
    int64_t *const steps[4] = {&job->mask_batch, &job->mask_head, &job->mask_row, &job->mask_key};
    for (int i = 0; i < mask->ndim; i++) {
        const int at = 4 - mask->ndim + i;
        *steps[at] = job->g.mask_varies[at] ? mask->strides[i] : 0;
    }
    job->mask = mask->data, job->masked_by_bool = mask->dtype == TD_BOOL;
}

static int finish(td_attention_job *job)
{
    return job->failed ? td_error(TD_E_MEMORY, "scaled_dot_product_attention: no memory for a tile of scores") : 0;
}

/* Blocks of queries: columns as many as products' tiles have, or fewer, about equal. */
static void tile_queries(td_attention_job *job, td_dtype type)
{
    const td_gemm_table *gemm = TD_ISA_PICK(td_gemm_table);
    const int64_t lanes = gemm->bytes / (int64_t)td_dtype_size(type), most = lanes * gemm->vectors;
    job->columns = gemm->fused && job->g.queries > FEW;
    job->query_tile = td_query_tile(job);
    if (job->columns)
        job->query_tile = td_ceil_div(td_ceil_div(job->g.queries, td_ceil_div(job->g.queries, most)), lanes) * lanes;
}

/* out0: the result; out1: the logsumexp of each query's scores, from which the backward pass computes probabilities again.  Tasks
 * are blocks of queries of one head, whose size no number of threads changes. */
int td_cpu_attention(td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask, const td_attention_geometry *g, td_tensor *out0,
                     td_tensor *out1)
{
    td_dtype type = td_compute_dtype(query);
    TD_AUTO td_tensor *q = readable(query, type), *k = readable(key, type), *v = readable(value, type);
    TD_AUTO td_tensor *m = mask == TD_NONE || mask->dtype == TD_BOOL ? td_tensor_retain(mask) : td_as_contiguous(mask,
        type);
    TD_AUTO td_tensor *out = writable(out0, type);
    if (!q || !k || !v || !m || !out)
        return -1;
    td_attention_job job = {.g = *g, .q = heads(q), .k = heads(k), .v = heads(v), .out = heads(out), .lse = out1->data};
    set_mask(&job, m);
    tile_queries(&job, type);
    int64_t tile = job.query_tile, blocks = td_ceil_div(job.g.queries, tile);
    int64_t cost = tile * (job.g.keys + 1) * (job.g.width + job.g.value_width + 8) / 8;
    if (job.g.kv_heads)
        td_parallel_for(0, job.g.batch * job.g.heads * blocks, td_grain(cost),
                        TD_ISA_PICK(td_attention_table)->forward[type == TD_F64],
                        &job);
    return finish(&job) || write_back(out0, out) ? -1 : 0;
}

/* Tasks are heads of keys and values: gradients of keys and values get a part from every block of queries, so one thread has all
 * blocks of a head, in order. */
int td_cpu_attention_backward(td_tensor *grad, td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask,
                              td_tensor *result, td_tensor *lse, const td_attention_geometry *geometry, td_tensor *out0,
                              td_tensor *out1, td_tensor *out2)
{
    td_dtype type = td_compute_dtype(query);
    TD_AUTO td_tensor *q = readable(query, type), *k = readable(key, type), *v = readable(value, type),
    *g = readable(grad, type);
    TD_AUTO td_tensor *m = mask == TD_NONE || mask->dtype == TD_BOOL ? td_tensor_retain(mask) : td_as_contiguous(mask,
        type);
    TD_AUTO td_tensor *o = readable(result, type), *l = td_operand(lse, type);
    TD_AUTO td_tensor *dq = writable(out0, type), *dk = writable(out1, type), *dv = writable(out2, type);
    if (!q || !k || !v || !g || !m || !o || !l || !dq || !dk || !dv)
        return -1;
    td_attention_job job = {.g = *geometry, .q = heads(q), .k = heads(k), .v = heads(v), .out = heads(o), .grad = heads(g),
                            .dq = heads(dq), .dk = heads(dk), .dv = heads(dv), .lse = l->data};
    set_mask(&job, m);
    tile_queries(&job, type);
    td_parallel_for(0, job.g.batch * job.g.kv_heads, 1, TD_ISA_PICK(td_attention_table)->backward[type == TD_F64], &job);
    return finish(&job) || write_back(out0, dq) || write_back(out1, dk) || write_back(out2, dv) ? -1 : 0;
}
