/* Embeddings on devices, as picking (ops/index/kernels.h): rows by index, and rows of gradients added up by index.  Bags: embedding.ck. */
#include "calls_kernels_device_embedding.h"
#include <inttypes.h>
#include <string.h>
#include "kernels/cpu/loops/operands.h"
#include "kernels/device/kernel.h"
#include "ops/index/kernels.h"
#include "ops/nn/embedding.h"
#define TD_HOST
#include "kernels/device/embedding.ck"

TD_SOURCE(embedding);

/* Between rows of `table`, a matrix, and the contiguous rows of `rows`, one for each contiguous index. */
static int pick_rows(const char *op, td_place what, td_tensor *table, td_tensor *rows, td_tensor *at)
{
    const int64_t size = (int64_t)td_dtype_size((td_dtype)table->dtype), width = table->sizes[1];
    td_picking p;
    memset(&p, 0, offsetof(td_picking, sizes));
    p.rule = (td_index_rule){table->sizes[0], TD_E_INDEX, op, "index out of range in self (embedding: index %lld, but there are %lld rows)", 0};
    p.what = what, p.dtype = (td_dtype)table->dtype, p.ndim = 2, p.range = p.limit = 0, p.outside = false;
    p.sizes[0] = at->numel, p.far[0] = 0, p.near[0] = width * size, p.along[0] = 1;
    p.sizes[1] = width, p.far[1] = table->strides[1] * size, p.near[1] = size, p.along[1] = 0;
    p.of[0] = table, p.of[1] = rows, p.of[2] = at, p.reach = table->strides[0] * size;
    return td_pick_run(&p);
}

int td_on_device_embedding(td_tensor *weight, td_tensor *indices, int64_t padding_idx, bool by_freq, bool sparse, td_tensor *out)
{
    (void)padding_idx, (void)by_freq, (void)sparse;
    TD_AUTO td_tensor *at = td_as_contiguous(indices, TD_I64);
    TD_AUTO td_tensor *to = at ? td_writable(out, (td_dtype)out->dtype) : NULL;
    return to && !pick_rows("embedding", TD_PLACE_GET, weight, to, at) ? td_write_back(out, to) : -1;
}

/* Halves are added up in float32.  The row of the padding is cleared in the end; by_freq divides each by how often its index came. */
int td_on_device_embedding_dense_backward(td_tensor *grad, td_tensor *indices, int64_t rows, int64_t padding_idx, bool by_freq, td_tensor *out)
{
    const td_dtype type = grad->dtype == TD_F16 || grad->dtype == TD_BF16 ? TD_F32 : (td_dtype)grad->dtype;
    TD_AUTO td_tensor *at = td_as_contiguous(indices, TD_I64);
    TD_AUTO td_tensor *g = at ? td_as_contiguous(grad, type) : NULL;
    TD_AUTO td_tensor *sums = g ? td_zeros(2, out->sizes, type, out->device) : NULL;
    if (!sums || (out->numel && at->numel && pick_rows("embedding_dense_backward", TD_PLACE_ADD, sums, g, at)))
        return -1;
    if (by_freq && out->numel) {
        TD_AUTO td_tensor *ones = td_ones(2, (int64_t[]){at->numel, 1}, type, out->device);
        TD_AUTO td_tensor *counts = ones ? td_zeros(2, (int64_t[]){rows, 1}, type, out->device) : NULL;
        if (!counts || (at->numel && pick_rows("embedding_dense_backward", TD_PLACE_ADD, counts, ones, at)) || td_clamp_min_(counts, td_int(1)) || td_div_tensor_(sums, counts))
            return -1;
    }
    if (padding_idx >= 0 && padding_idx < rows) {
        TD_AUTO td_tensor *row = td_select_int(sums, 0, padding_idx);
        if (!row || td_zero_(row))
            return -1;
    }
    return td_copy_elements(out, sums);
}

/* Offsets are checked by the CPU, as indices out of range are, to say which. */
int td_on_device__embedding_bag(td_tensor *weight, td_tensor *indices, td_tensor *offsets, bool by_freq, int64_t mode, bool sparse, td_tensor *per_sample,
                                bool last_offset, int64_t padding_idx, td_tensor *out0, td_tensor *out1, td_tensor *out2, td_tensor *out3)
{
    (void)by_freq, (void)sparse;
    const bool general = mode == 2 || padding_idx >= 0 || weight->dtype == TD_F64;
    bag_values v = {.bags = out0->sizes[0], .width = weight->sizes[1], .n = indices->numel, .ends = offsets->numel - (general && last_offset),
                    .padding = padding_idx, .scaled = per_sample != TD_NONE};
    int64_t low, high;
    TD_AUTO td_tensor *at = td_as_contiguous(indices, TD_I64), *begin = td_as_contiguous(offsets, TD_I64);
    TD_AUTO td_tensor *begin_here = begin ? td_host_copy(begin) : NULL;
    if (!at || !begin_here || td_index_bounds(at, &low, &high))
        return -1;
    if (v.n && (low < 0 || high >= weight->sizes[0])) {
        TD_AUTO td_tensor *here = td_host_copy(at);
        return here ? td_check_bag_rows((const int64_t *)here->data, v.n, weight->sizes[0], general) : -1;
    }
    if (td_check_bag_offsets((const int64_t *)begin_here->data, offsets->numel, v.n) || (last_offset && td_fill_scalar_(out1, td_int(v.bags))))
        return -1;      /* what is behind the last bag is in none */
    td_launch_of launch = {
        .source = td_source_embedding, .kernel = "embedding_bag", TD_VALUES(v), .numbers = {{"MODE", mode}},
        .types = {{"A", (td_dtype)weight->dtype}, {"U", td_compute_dtype(weight)}}, 
        .groups = td_launch_groups(weight->device, v.bags * (v.width ? v.width : 1))};
    return TD_LAUNCH_ON(launch, TD_READS(weight), TD_READS(at), TD_READS(begin), TD_READS(per_sample), TD_WRITES(out0), TD_WRITES(out1), TD_WRITES(out2),
                        TD_WRITES(out3));
}
