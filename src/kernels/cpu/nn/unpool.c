/* max_unpool, the reverse of max pooling, and fractional_max_pool (Graham, 2014), whose windows begin at random places. */
#include "calls_kernels_cpu_nn_unpool.h"
#include <inttypes.h>
#include <math.h>
#include "base/base.h"
#include "kernels/cpu/loops/operands.h"

/* Elements of the last `dims` dimensions. */
static int64_t plane_of(const td_tensor *x, int dims)
{
    int64_t n = 1;
    for (int i = 0; i < dims; i++)
        n *= x->sizes[x->ndim - 1 - i];
    return n;
}

/* ---- max_unpool */

/* Elements go to the places they were found at, the rest is 0.  One loop in order: of several with one place the last one counts. */
static int unpool(int dims, td_tensor *self, td_tensor *indices, td_tensor *out)
{
    td_dtype type = td_compute_dtype(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *at = td_as_contiguous(indices, TD_I64), *y = td_target(out, type);
    if (!x || !at || !y)
        return -1;
    int64_t n = plane_of(self, dims), total = plane_of(out, dims);
    const int64_t *place = (const int64_t *)at->data, *size = out->sizes + out->ndim - dims;
    for (int64_t i = 0; i < at->numel; i++)
        if (place[i] < 0 || place[i] >= total)
            return dims == 2 ? td_error(TD_E_RUNTIME, "Found an invalid max index: %" PRId64 " (output volumes are of size %"
                                        PRId64 "x%" PRId64 ")", place[i], size[0], size[1])
                : td_error(TD_E_RUNTIME, "Found an invalid max index: %" PRId64 " (output volumes are of size %" PRId64 "x%"
                           PRId64 "x%" PRId64 ")", place[i], size[0], size[1], size[2]);
    memset(y->data, 0, (size_t)(y->numel * td_itemsize(y)));
    for (int64_t i = 0; i < at->numel; i++)
        if (type == TD_F64)
            ((double *)y->data)[i / n * total + place[i]] = ((double *)x->data)[i];
        else
            ((float *)y->data)[i / n * total + place[i]] = ((float *)x->data)[i];
    return td_finish(out, y);
}

int td_cpu_max_unpool2d(td_tensor *self, td_tensor *indices, int64_t n_output, const int64_t *output, td_tensor *out)
{
    (void)n_output, (void)output;
    return unpool(2, self, indices, out);
}

int td_cpu_max_unpool3d(td_tensor *self, td_tensor *indices, int64_t n_output, const int64_t *output, int64_t n_stride,
                        const int64_t *stride, int64_t n_padding, const int64_t *padding, td_tensor *out)
{
    (void)n_output, (void)output, (void)n_stride, (void)stride, (void)n_padding, (void)padding;
    return unpool(3, self, indices, out);
}

/* ---- fractional_max_pool
 *
 * Along a dimension the windows begin at floor((o + u) * alpha) - floor(u * alpha), the last one at the end, where u is
 * the channel's sample and alpha spreads the windows.  The products are rounded to the tensor's dtype: which element a
 * window begins with may depend on it. */

/* Leading dimensions that aren't there have size 1. */
typedef struct fractional {
    int64_t in[3], out[3], kernel[3];
    int dims;
    td_dtype dtype;
    const void *x, *samples;
    void *y;
    int64_t *at, *begins;          /* begins: of each plane, out[0] + out[1] + out[2] places */
} fractional;

/* x as the dtype rounds it. */
static double rounded(td_dtype dtype, double x)
{
    switch (dtype) {
    case TD_F16:  return td_f16_to_f32(td_f32_to_f16((float)x));
    case TD_BF16: return td_bf16_to_f32(td_f32_to_bf16((float)x));
    case TD_F32:  return (float)x;
    default:      return x;
    }
}

/* Where the windows of a dimension begin, for a sample u in [0, 1). */
static void find_begins(const fractional *f, int d, double u, int64_t *begins)
{
    int64_t room = f->in[d] - f->kernel[d], n = f->out[d];
    double alpha = n > 1 ? rounded(f->dtype, (double)room / (double)(n - 1)) : 0;
    int64_t first = (int64_t)rounded(f->dtype, u * alpha);
    for (int64_t o = 0; o < n - 1; o++)
        begins[o] = (int64_t)rounded(f->dtype, rounded(f->dtype, (double)o + u) * alpha) - first;
    if (n > 0)
        begins[n - 1] = room;
}

/* NaN wins over everything. */
#define LARGEST(S, T)                                                                                                   \
    static void largest_##S(void *context, int64_t first, int64_t last)                                                 \
    {                                                                                                                   \
        const fractional *f = context;                                                                                  \
        const int64_t *in = f->in, *out = f->out, *kernel = f->kernel;                                                  \
        const int64_t ins = in[0] * in[1] * in[2], outs = out[0] * out[1] * out[2], each = out[0] + out[1] + out[2];    \
        for (int64_t plane = first; plane < last; plane++) {                                                            \
            const T *x = (const T *)f->x + plane * ins;                                                                 \
            T *y = (T *)f->y + plane * outs;                                                                            \
            int64_t *at = f->at + plane * outs;                                                                         \
            int64_t *begin[3] = {f->begins + plane * each, NULL, NULL};                                                 \
            begin[1] = begin[0] + out[0], begin[2] = begin[1] + out[1];                                                 \
            for (int d = 0; d < 3; d++)                                                                                 \
                if (d < 3 - f->dims)                                                                                    \
                    begin[d][0] = 0;                                                                                    \
                else         /* PyTorch's order of samples: width first of two, depth first of three */                \
                    find_begins(f, d, (double)((const T *)f->samples)[plane * f->dims + (f->dims == 2 ? 2 - d : d)],    \
                                begin[d]);                                                                              \
            for (int64_t od = 0; od < out[0]; od++)                                                                     \
                for (int64_t oh = 0; oh < out[1]; oh++)                                                                 \
                    for (int64_t ow = 0; ow < out[2]; ow++) {                                                           \
                        int64_t where = (begin[0][od] * in[1] + begin[1][oh]) * in[2] + begin[2][ow];                   \
                        T best = -(T)INFINITY;                                                                          \
                        for (int64_t d = begin[0][od]; d < begin[0][od] + kernel[0]; d++)                               \
                            for (int64_t h = begin[1][oh]; h < begin[1][oh] + kernel[1]; h++)                           \
                                for (int64_t w = begin[2][ow]; w < begin[2][ow] + kernel[2]; w++) {                     \
                                    const int64_t place = (d * in[1] + h) * in[2] + w;                                  \
                                    if (x[place] > best || isnan(x[place]))                                             \
                                        best = x[place], where = place;                                                 \
                                }                                                                                       \
                        *y++ = best, *at++ = where;                                                                     \
                    }                                                                                                   \
        }                                                                                                               \
    }
LARGEST(f32, float)
LARGEST(f64, double)

/* Sizes, then the loop; threads share the planes, and each plane has its own sample and so its own windows. */
static int pool(int dims, td_tensor *self, const int64_t *kernel, td_tensor *samples, td_tensor *out, td_tensor *indices)
{
    td_dtype type = td_compute_dtype(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *u = td_operand(samples, type), *y = td_target(out, type);
    if (!x || !u || !y)
        return -1;
    fractional f = {.dims = dims, .dtype = (td_dtype)self->dtype, .x = x->data, .samples = u->data, .y = y->data,
                    .at = (int64_t *)indices->data};
    int64_t total = 1;
    for (int i = 0; i < 3; i++) {
        int d = i - (3 - dims);
        f.in[i] = d < 0 ? 1 : self->sizes[self->ndim - dims + d], f.out[i] = d < 0 ? 1 : out->sizes[out->ndim - dims + d];
        f.kernel[i] = d < 0 ? 1 : kernel[d];
        total *= f.out[i] * f.kernel[i];
    }
    int64_t planes = self->numel / (f.in[0] * f.in[1] * f.in[2]);
    size_t bytes = (size_t)(planes * (f.out[0] + f.out[1] + f.out[2])) * sizeof(int64_t);
    if (out->numel == 0)
        return td_finish(out, y);
    if (!(f.begins = td_mem_alloc(bytes)))
        return -1;
    td_parallel_for(0, planes, td_grain(4 * total), type == TD_F64 ? largest_f64 : largest_f32, &f);
    td_mem_free(f.begins, bytes);
    return td_finish(out, y);
}

int td_cpu_fractional_max_pool2d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_output,
                                 const int64_t *output, td_tensor *random_samples, td_tensor *out0, td_tensor *out1)
{
    (void)n_kernel, (void)n_output, (void)output;
    return pool(2, self, kernel, random_samples, out0, out1);
}

int td_cpu_fractional_max_pool3d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_output,
                                 const int64_t *output, td_tensor *random_samples, td_tensor *out0, td_tensor *out1)
{
    (void)n_kernel, (void)n_output, (void)output;
    return pool(3, self, kernel, random_samples, out0, out1);
}
