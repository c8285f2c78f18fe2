/* max_unpool, the reverse of max pooling, and fractional_max_pool (Graham, 2014), whose windows begin at random positions. */
#include "calls_kernels_cpu_nn_unpool.h"
#include <inttypes.h>
#include <math.h>
#include "base/base.h"
#include "kernels/cpu/loops/operands.h"

/* ---- max_unpool */

/* Elements go to the positions they were found at, the rest is 0.  One loop in order: of several with one position the last one counts. */
int td_cpu_max_unpool(td_tensor *self, td_tensor *indices, const td_pool_geometry *g, td_tensor *out)
{
    if (!out->numel)            /* where elements would go is not looked at */
        return 0;
    td_dtype type = td_compute_dtype(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *at = td_as_contiguous(indices, TD_I64), *y = td_target(out, type);
    if (!x || !at || !y)
        return -1;
    const int64_t *place = (const int64_t *)at->data, *size = g->out, n = g->in_total, total = g->out_total;
    for (int64_t i = 0; i < at->numel; i++)
        if (place[i] < 0 || place[i] >= total)
            return g->dims == 2 ? td_error(TD_E_RUNTIME, "Found an invalid max index: %" PRId64 " (output volumes are of size %"
                                           PRId64 "x%" PRId64 ")", place[i], size[1], size[2])
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

/* ---- fractional_max_pool
 *
 * Along a dimension the windows begin at floor((o + u) * alpha) - floor(u * alpha), the last one at the end, where u is
 * the channel's sample and alpha spreads the windows.  The products are rounded to the tensor's dtype: which element a
 * window begins with may depend on it. */

typedef struct fractional {
    td_pool_geometry g;
    td_dtype dtype;
    const void *x, *samples;
    void *y;
    int64_t *at, *begins;          /* begins: of each plane, out[0] + out[1] + out[2] positions */
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
    int64_t room = f->g.in[d] - f->g.kernel[d], n = f->g.out[d];
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
        const int64_t *in = f->g.in, *out = f->g.out, *kernel = f->g.kernel, each = out[0] + out[1] + out[2];           \
        const int64_t ins = f->g.in_total, outs = f->g.out_total, dims = f->g.dims;                                     \
        for (int64_t plane = first; plane < last; plane++) {                                                            \
            const T *x = (const T *)f->x + plane * ins;                                                                 \
            T *y = (T *)f->y + plane * outs;                                                                            \
            int64_t *at = f->at + plane * outs;                                                                         \
            int64_t *begin[3] = {f->begins + plane * each, NULL, NULL};                                                 \
            begin[1] = begin[0] + out[0], begin[2] = begin[1] + out[1];                                                 \
            for (int d = 0; d < 3; d++)                                                                                 \
                if (d < 3 - dims)                                                                                       \
                    begin[d][0] = 0;                                                                                    \
                else         /* PyTorch's order of samples: width first of two, depth first of three */                \
                    find_begins(f, d, (double)((const T *)f->samples)[plane * dims + (dims == 2 ? 2 - d : d)],          \
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

/* Threads share the planes, and each plane has its own sample and so its own windows. */
int td_cpu_fractional_max_pool(td_tensor *self, td_tensor *samples, const td_pool_geometry *g, td_tensor *out, td_tensor *indices)
{
    td_dtype type = td_compute_dtype(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *u = td_operand(samples, type), *y = td_target(out, type);
    if (!x || !u || !y)
        return -1;
    fractional f = {*g, (td_dtype)self->dtype, x->data, u->data, y->data, (int64_t *)indices->data, NULL};
    const size_t bytes = (size_t)(g->planes * (g->out[0] + g->out[1] + g->out[2])) * sizeof(int64_t);
    if (out->numel == 0)
        return td_finish(out, y);
    if (!(f.begins = td_mem_alloc(bytes)))
        return -1;
    const int64_t steps = g->out_total * g->kernel[0] * g->kernel[1] * g->kernel[2];
    td_parallel_for(0, g->planes, td_grain(4 * steps), type == TD_F64 ? largest_f64 : largest_f32, &f);
    td_mem_free(f.begins, bytes);
    return td_finish(out, y);
}
