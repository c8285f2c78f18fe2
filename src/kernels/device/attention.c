/* Attention on devices: attention.ck, and attention_tiles.ck where matrix units take the dtype. */
#include "calls_kernels_device_attention.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/attention.ck"

#include <limits.h>
#include <string.h>

TD_SOURCE(attention);
TD_SOURCE(attention_tiles);

/* By tiles, forward a group of 8 warps has the registers for 128 rows, backward one of 4 for 64.
 *
 * Registers bound the tiles: a warp holds 16 rows of queries and of sums, all of their width, and backward the slopes of both operands,
 * twice as much; more rows for a group would spill them, fewer would read keys and values more often. */
enum { MOST_LANES = 256, FORWARD_LANES = 256, BACKWARD_LANES = 128, CHUNK = 8, CHUNK_BYTES = 16 };

static head_strides strides_of(const td_tensor *x)
{
    return x == TD_NONE ? (head_strides){0} : (head_strides){x->strides[0], x->strides[1], x->strides[2], x->strides[3]};
}

static attention_values values_of(const td_attention_geometry *g, td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask, td_tensor *out)
{
    attention_values v = {.batch = g->batch, .heads = g->heads, .kv_heads = g->kv_heads, .queries = g->queries, .keys = g->keys, .width = g->width,
                          .value_width = g->value_width, .q = strides_of(query), .k = strides_of(key), .v = strides_of(value), .out = strides_of(out),
                          .causal = g->causal};
    for (int i = 0; mask != TD_NONE && i < mask->ndim; i++) {
        const int at = 4 - mask->ndim + i;
        v.mask[at] = g->mask_varies[at] ? mask->strides[i] : 0;
    }
    if (query->dtype == TD_F64)
        memcpy(&v.scale, &g->scale, sizeof g->scale);
    else
        memcpy(&v.scale, &(float){(float)g->scale}, sizeof(float));
    return v;
}

/* Whether attention_tiles.ck takes the call: queries, keys, values and gradients of results are in rows of whole chunks, or will be (in_chunks). */
static bool by_tiles(const td_attention_geometry *geometry, const attention_values *v, td_tensor *query)
{
    const td_device_properties *properties = td_device_known(query->device);
    return properties && properties->dialect == TD_DIALECT_CUDA && properties->major >= 8 &&
           (query->dtype == TD_F16 || query->dtype == TD_BF16) && v->width % CHUNK == 0 && v->value_width % CHUNK == 0 && v->width <= 128 &&
           v->value_width <= 128 && v->queries < INT_MAX - 128 && v->keys < INT_MAX - 128 && geometry->scale > 0;
}

/* The tensor itself where rows start at multiples of a chunk, else a copy. */
static td_tensor *in_chunks(td_tensor *x)
{
    bool takes = x->strides[3] == 1 && (uintptr_t)x->data % CHUNK_BYTES == 0;
    for (int d = 0; d < 3; d++)
        takes &= x->strides[d] % CHUNK == 0;
    return td_laid_out(x, takes, NULL);
}

/* Results are stored two elements at a time. */
static bool in_pairs(const td_tensor *x)
{
    return x->strides[3] == 1 && (uintptr_t)x->data % 4 == 0 && x->strides[0] % 2 == 0 && x->strides[1] % 2 == 0 && x->strides[2] % 2 == 0;
}

static int launch(td_launch_of of, const attention_values *v, td_tensor *mask, td_tensor *const buffers[9])
{
    const td_dtype dtype = (td_dtype)buffers[0]->dtype;
    of.values = v, of.size = sizeof *v;
    of.types[0] = (td_source_type){"A", dtype}, of.types[1] = (td_source_type){"M", (td_dtype)(mask == TD_NONE ? dtype : mask->dtype)};
    of.numbers[0] = (td_source_number){"MASK", mask == TD_NONE ? 0 : mask->dtype == TD_BOOL ? 1 : 2};
    of.numbers[1] = (td_source_number){"WIDE", dtype == TD_F64};
    memcpy(of.buffers, buffers, 9 * sizeof *buffers);
    return td_launch(&of);
}

/* With a group for each block of n queries or keys of n_heads heads, or, without heads, n work items. */
static int run_tiles(const char *kernel, const attention_values *v, td_tensor *mask, int64_t n_heads, int64_t n, int lanes, td_tensor *const buffers[9])
{
    const int64_t depth = v->width > 64 || v->value_width > 64 ? 128 : 64, rows = lanes / 2;
    const td_launch_of of = {
        .source = td_source_attention_tiles, .kernel = kernel, .lanes = lanes,
        .numbers = {[2] = {"D", depth}, {"COLUMNS", depth == 64 ? 64 : 32}, {"BRAIN", buffers[0]->dtype == TD_BF16},
                    {"BLOCKS", lanes == FORWARD_LANES && depth == 128 ? 1 : 2}},
        .groups = n_heads ? v->batch * n_heads * ((n + rows - 1) / rows) : td_launch_groups(buffers[0]->device, 8 * n),
    };
    return launch(of, v, mask, buffers);
}

static int run(const char *kernel, const attention_values *v, td_tensor *mask, int64_t n_heads, int64_t n, td_tensor *const buffers[9])
{
    const td_device device = buffers[0]->device;
    const int lanes = td_launch_lanes(device);
    const int64_t tile = buffers[0]->dtype == TD_F64 ? 16 : 32, wide = td_power_from(v->width > v->value_width ? v->width : v->value_width);
    int64_t slice = tile;                   /* powers of two, so that slices divide a tile */
    if (lanes < 0)
        return -1;
    if (wide > 256)
        return td_leave_to_cpu("heads wider than 256");
    /* Keys and values pass through the group's memory by slices of rows, each of which takes at most the room of two tiles of scores. */
    const int64_t depth = wide < 32 ? 32 : wide;
    while (slice * depth > 2 * tile * tile)
        slice /= 2;
    const td_launch_of of = {.source = td_source_attention, .kernel = kernel, .lanes = lanes < MOST_LANES ? lanes : MOST_LANES,
                             .numbers = {[2] = {"ROWS", tile}, {"D", depth}, {"SLICE", slice}},
                             .groups = n_heads ? td_launch_many(device, v->batch * n_heads * ((n + tile - 1) / tile)) : td_launch_groups(device, n)};
    return launch(of, v, mask, buffers);
}

/* By a vendor's library, with tensors in rows of whole chunks; 1 where there is none that takes the call. */
static td_attention_operand operand_of(const td_tensor *x)
{
    return (td_attention_operand){x->data, {x->strides[0], x->strides[1], x->strides[2], x->strides[3]}};
}
static bool library_may(const td_attention_geometry *g, td_tensor *query, td_tensor *mask)
{
    return td_device_of(query->device.type)->attention && mask == TD_NONE && !g->causal && (query->dtype == TD_F16 || query->dtype == TD_BF16) &&
           g->batch && g->heads && g->queries && g->keys && g->width && g->value_width && !(td_library_flags() & TD_CONVOLUTION_OFF);
}
static td_attention_call call_of(const td_attention_geometry *g, td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *out, td_tensor *lse)
{
    return (td_attention_call){.size = sizeof(td_attention_call), .dtype = (td_dtype)query->dtype, .flags = td_library_flags(), .batch = g->batch, .heads = g->heads,
                               .kv_heads = g->kv_heads, .queries = g->queries, .keys = g->keys, .width = g->width, .value_width = g->value_width, .scale = g->scale,
                               .q = operand_of(query), .k = operand_of(key), .v = operand_of(value), .out = operand_of(out), .lse = (float *)lse->data};
}

int td_on_device_attention(td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask, const td_attention_geometry *geometry, td_tensor *out0,
                           td_tensor *out1)
{
    attention_values v = values_of(geometry, query, key, value, mask, out0);
    if (!geometry->kv_heads)
        return 0;
    const bool may = library_may(geometry, query, mask) && out1->flags & TD_FLAG_CONTIGUOUS, tiles = by_tiles(geometry, &v, query) && in_pairs(out0);
    if (!may && !tiles)
        return run("attention_forward", &v, mask, v.heads, v.queries, (td_tensor *[9]){query, key, value, mask, out0, out1});
    TD_AUTO td_tensor *q = in_chunks(query), *k = in_chunks(key), *x = in_chunks(value);
    if (!q || !k || !x)
        return -1;
    const td_attention_call call = call_of(geometry, q, k, x, out0, out1);
    const int status = may ? td_device_attention(query->device, &call) : 1;
    if (status <= 0)
        return status;
    if (!tiles)
        return run("attention_forward", &v, mask, v.heads, v.queries, (td_tensor *[9]){query, key, value, mask, out0, out1});
    v.q = strides_of(q), v.k = strides_of(k), v.v = strides_of(x);
    return run_tiles("attention_forward", &v, mask, v.heads, v.queries, FORWARD_LANES, (td_tensor *[9]){q, k, x, mask, out0, out1});
}

int td_on_device_attention_backward(td_tensor *grad, td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask, td_tensor *result,
                                    td_tensor *lse, const td_attention_geometry *geometry, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    attention_values v = values_of(geometry, query, key, value, mask, result);
    if (!geometry->kv_heads)
        return 0;
    v.grad = strides_of(grad), v.dq = strides_of(out0), v.dk = strides_of(out1), v.dv = strides_of(out2);
    const int64_t rows = v.batch * v.heads * v.queries;
    TD_AUTO td_tensor *l = td_make_contiguous(lse), *delta = td_tensor_new(1, &rows, (td_dtype)lse->dtype, query->device);
    if (!l || !delta)
        return -1;
    const bool may = library_may(geometry, query, mask), tiles = by_tiles(geometry, &v, query) && in_pairs(out0) && in_pairs(out1) && in_pairs(out2);
    if (may || tiles) {
        TD_AUTO td_tensor *q = in_chunks(query), *k = in_chunks(key), *x = in_chunks(value), *g = in_chunks(grad), *r = in_chunks(result);
        if (!q || !k || !x || !g || !r)
            return -1;
        td_attention_call call = call_of(geometry, q, k, x, r, l);
        call.backward = true, call.grad = operand_of(g), call.dq = operand_of(out0), call.dk = operand_of(out1), call.dv = operand_of(out2);
        const int status = may ? td_device_attention(query->device, &call) : 1;
        if (status <= 0)
            return status;
        if (tiles) {
            v.q = strides_of(q), v.k = strides_of(k), v.v = strides_of(x), v.grad = strides_of(g), v.out = strides_of(r);
            return run_tiles("attention_delta", &v, mask, 0, rows, BACKWARD_LANES, (td_tensor *[9]){g, r, delta}) ||
                   run_tiles("attention_queries", &v, mask, v.heads, v.queries, BACKWARD_LANES, (td_tensor *[9]){q, k, x, mask, g, l, delta, out0}) ||
                   run_tiles("attention_keys", &v, mask, v.kv_heads, v.keys, BACKWARD_LANES, (td_tensor *[9]){q, k, x, mask, g, l, delta, out1, out2}) ? -1 : 0;
        }
    }
    return run("attention_delta", &v, mask, 0, rows, (td_tensor *[9]){grad, result, delta}) ||
           run("attention_queries", &v, mask, v.heads, v.queries, (td_tensor *[9]){query, key, value, mask, grad, l, delta, out0}) ||
           run("attention_keys", &v, mask, v.kv_heads, v.keys, (td_tensor *[9]){query, key, value, mask, grad, l, delta, out1, out2}) ? -1 : 0;
}
