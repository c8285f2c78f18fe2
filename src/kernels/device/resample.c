/* Interpolation and padding with elements of the tensor itself on devices: resample.ck. */
#include "calls_kernels_device_resample.h"
#include "base/base.h"
#include "kernels/cpu/nn/upsample.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/resample.ck"
#include "tensor/checked.h"

TD_SOURCE(resample);

/* An axis as the kernel reads it: what each position's list has, by a counting sort if these are the positions that are read (`back`).  `start`: one
 * word more than there are positions, the first of which is 0; while the others are where the next element of a list goes, they
 * become where it ends. */
static void list_axis(const td_resize_axis *a, bool back, bool whole, bool wide, int64_t *start, int64_t *pairs)
{
    const int64_t n = back ? a->in : a->out, entries = a->out * a->taps;
    memset(start, 0, (size_t)(n + 2) * sizeof *start);
    for (int64_t i = 0; i < entries; i++)
        start[(back ? a->at[i] : i / a->taps) + 2]++;
    for (int64_t i = 2; i <= n + 1; i++)
        start[i] += start[i - 1];
    for (int64_t i = 0; i < entries; i++) {
        const int64_t o = i / a->taps, to = start[(back ? a->at[i] : o) + 1]++;
        pairs[2 * to] = back ? o : a->at[i];
        pairs[2 * to + 1] = whole ? (int64_t)a->weight[i] : td_number_bits(a->weight[i], wide);
    }
}

/* The lists of all axes, in page-locked memory, from which they are copied while the CPU goes on.  Owned, on the device. */
static td_tensor *make_lists(const td_resize_geometry *g, td_device device, bool back, bool coarse, bool whole, resample_values *v)
{
    td_resize_axis axes[3];
    int64_t entries = 0, words = 0;
    for (int d = 0; d < 3; d++) {
        axes[d] = (td_resize_axis){.in = g->in[d], .out = g->out[d], .taps = td_resize_taps(g, d)};
        const int64_t here = td_mul_saturated(g->out[d], axes[d].taps);
        v->starts[d] = words, v->pairs[d] = td_add_saturated(words, (back ? g->in[d] : g->out[d]) + 2);
        entries = td_add_saturated(entries, here), words = td_add_saturated(v->pairs[d], td_mul_saturated(2, here));
    }
    const size_t bytes = td_array_bytes(entries, sizeof(int64_t) + sizeof(double));
    TD_AUTO td_tensor *there = td_tensor_new(1, &words, TD_I64, device);
    td_storage *storage = there ? td_storage_pinned(device, td_array_bytes(words, sizeof(int64_t))) : NULL;
    TD_AUTO td_tensor *here = storage ? td_tensor_over(storage, 0, 1, &words, NULL, TD_I64) : NULL;
    td_storage_release(storage);
    int64_t *at = here ? td_mem_alloc(bytes) : NULL;
    if (!at)
        return NULL;
    double *weight = (double *)(at + entries);
    int64_t *list = (int64_t *)here->data, *free_at = at;
    for (int d = 0; d < 3; d++) {
        axes[d].at = free_at, axes[d].weight = weight;
        v->bits += td_resize_fill(&axes[d], g, d, coarse, whole);
        list_axis(&axes[d], back, whole, g->dtype == TD_F64, list + v->starts[d], list + v->pairs[d]);
        free_at += axes[d].out * axes[d].taps, weight += axes[d].out * axes[d].taps;
    }
    td_mem_free(at, bytes);
    const int later = td_copy_late(there, here);
    return later < 0 || (later && td_copy_elements(there, here)) ? NULL : td_tensor_retain(there);
}

static int resize(td_tensor *from, const td_resize_geometry *g, td_tensor *to, bool back)
{
    const bool innermost = td_channels_innermost(from), last = innermost && td_channels_innermost(to);
    const bool whole = from->dtype == TD_U8 && g->mode >= TD_RESIZE_LINEAR, wide = !whole && g->dtype == TD_F64;
    const td_dtype dtype = (td_dtype)from->dtype;
    resample_values v = {.n = to->numel, .width = last ? to->sizes[1] : 1};
    if (!td_device_computes(from->device, dtype))
        return td_leave_to_cpu(td_dtype_name(dtype));
    if (!v.n)
        return 0;
    for (int d = 0; d < 3; d++)
        v.in[d] = back ? g->out[d] : g->in[d], v.out[d] = back ? g->in[d] : g->out[d];
    TD_AUTO td_tensor *x = last ? td_tensor_retain(from) : td_make_contiguous(from), *y = last ? td_tensor_retain(to) : td_writable(to, dtype);
    TD_AUTO td_tensor *lists = x && y ? make_lists(g, from->device, back, back || innermost, whole, &v) : NULL;
    td_launch_of launch = {.types = {{"A", dtype}, {"W", whole ? TD_I64 : g->dtype}}, .numbers = {{"PADDING", 0}, {"WHOLE", whole}, {"WIDE", wide}},
                           .source = td_source_resample, .kernel = "resample", TD_VALUES(v), .groups = td_launch_groups(to->device, v.n),
                           .buffers = {x, lists, y}};
    return !lists || td_launch(&launch) || td_write_back(to, y) ? -1 : 0;
}
int td_on_device_resample(td_tensor *self, const td_resize_geometry *geometry, td_tensor *out0) { return resize(self, geometry, out0, false); }
int td_on_device_resample_backward(td_tensor *grad, const td_resize_geometry *geometry, td_tensor *out0) { return resize(grad, geometry, out0, true); }

/* Elements are only moved, those of 16 bytes as two words; gradients are added, of complex numbers as two numbers. */
static int pad(td_tensor *from, const td_pad_geometry *g, td_tensor *to, bool back)
{
    const td_dtype dtype = (td_dtype)to->dtype, real = td_dtype_to_real(dtype), sums = real == TD_F64 ? TD_F64 : TD_F32;
    const int64_t size = (int64_t)td_dtype_size(dtype), width = back ? 1 + td_dtype_is_complex(dtype) : size == 16 ? 2 : 1;
    resample_values v = {.n = to->numel * width, .width = width};
    for (int d = 0; d < 3; d++) {
        v.in[d] = back ? g->out[d] : g->in[d], v.out[d] = back ? g->in[d] : g->out[d];
        v.before[d] = g->before[d], v.behind[d] = g->behind[d];
    }
    td_launch_of launch = {.source = td_source_resample, .kernel = "resample", TD_VALUES(v), .groups = td_launch_groups(to->device, v.n),
                           .types = {{"A", back ? real : td_raw_dtype(size)}, {"W", back ? sums : TD_I64}},
                           .numbers = {{"PADDING", 1}, {"WHOLE", 0}, {"BACK", back}, {"MODE", g->mode}}};
    return TD_LAUNCH_ON(launch, TD_READS(from), TD_READS(TD_NONE), TD_WRITES(to));
}
int td_on_device_pad_edges(td_tensor *self, const td_pad_geometry *geometry, td_tensor *out0) { return pad(self, geometry, out0, false); }
int td_on_device_pad_edges_backward(td_tensor *grad, td_tensor *self, const td_pad_geometry *geometry, td_tensor *out0)
{
    (void)self;
    return pad(grad, geometry, out0, true);
}
