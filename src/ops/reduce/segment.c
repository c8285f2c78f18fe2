/* segment_reduce: reductions (sum, mean, max, min, prod) of consecutive stretches along one dimension, whose lengths or
 * bounds a tensor gives; and its gradient.
 *
 * The data is seen as [outer, n, inner]; each row of lengths or offsets serves one of the outer blocks. All is computed in
 * double and rounded once at the end. */

#include "calls_ops_reduce_segment.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/reduce/segment.h"
#include "tensor/checked.h"
#include "tensor/device.h"

/* The names stand in the order of td_segment_reduction. */
static int find_reduction(td_segment_reduction *how, const char *reduce)
{
    static const char *const names[] = {"max", "mean", "min", "sum", "prod"};
    for (int k = 0; k < 5; k++)
        if (!strcmp(names[k], reduce)) {
            *how = (td_segment_reduction)k;
            return 0;
        }
    return td_error(TD_E_RUNTIME, "unsupported reduction given! %s", reduce);
}

/* What an empty segment gives: `initial`, or the operation's neutral element; but NaN for a mean without `initial`. */
static double start_of(td_segment_reduction how, const td_scalar *initial)
{
    if (initial)
        return td_scalar_double(*initial);
    return how == TD_SEGMENTS_MAX ? -INFINITY : how == TD_SEGMENTS_MIN ? INFINITY : how == TD_SEGMENTS_PROD ? 1 : 0;
}

/* Fill in a plan, whose bounds the caller releases, also after a failure. Bounds are checked to rise and to lie within the
 * data, lengths summed without overflow, so the loops read nothing outside; `unsafe` only waives that lengths add up to the
 * whole dimension. On meta there are no bounds to look at, and p->bounds stays NULL; on devices they are looked at here. */
static int make_plan(td_segments *p, td_tensor *data, const char *reduce, td_tensor *lengths, td_tensor *offsets, int64_t axis, bool unsafe,
                     const td_scalar *initial)
{
    p->bounds = NULL;
    if (find_reduction(&p->how, reduce))
        return -1;
    p->first = start_of(p->how, initial), p->given = initial != NULL;
    int a = td_wrap_dim(axis, data->ndim);
    if (a < 0)
        return -1;
    bool by_offsets = td_is_some(offsets);
    td_tensor *given = by_offsets ? offsets : lengths;
    const char *name = by_offsets ? "offsets" : "lengths";
    if (!td_is_some(given))
        return td_error(TD_E_RUNTIME, "segment_reduce(): Either lengths or offsets must be defined.");
    if (a != given->ndim - 1)
        return td_error(TD_E_RUNTIME, "segment_reduce(): Expected axis to be the last dimension of %s but got %d.", name, a);
    if (td_is_floating(given) || td_is_complex(given) || given->dtype == TD_BOOL)
        return td_error(TD_E_RUNTIME, "segment_reduce(): %s must be integers", name);
    p->axis = a, p->n = data->sizes[a], p->outer = p->inner = 1;
    for (int d = 0; d < data->ndim; d++) {
        if (d < a)
            p->outer *= data->sizes[d];
        else if (d > a)
            p->inner *= data->sizes[d];
        if (d < a && given->sizes[d] != data->sizes[d])
            return td_error(TD_E_RUNTIME, "segment_reduce(): Expected all dimensions of data before axis to match those of %s", name);
    }
    p->segments = given->sizes[a] - by_offsets;
    if (p->segments < 0)
        return td_error(TD_E_RUNTIME, "segment_reduce(): offsets must have at least one element along axis");
    if (data->device.type == TD_META)
        return 0;
    if (given->device.type == TD_META)
        return td_error(TD_E_NOT_IMPLEMENTED, "Cannot copy out of meta tensor; no data!");
    TD_AUTO td_tensor *there = td_as_contiguous(given, TD_I64), *numbers = td_on_host(there);
    TD_AUTO td_tensor *bounds = td_tensor_new(2, (int64_t[]){p->outer, p->segments + 1}, TD_I64, (td_device){TD_CPU, -1});
    if (!numbers || !bounds)
        return -1;
    const int64_t *from = (const int64_t *)numbers->data;
    int64_t *to = (int64_t *)bounds->data;
    for (int64_t o = 0; o < p->outer; o++, from += given->sizes[a], to += p->segments + 1) {
        to[0] = by_offsets ? from[0] : 0;
        for (int64_t s = 0; s < p->segments; s++) {
            if (!by_offsets && from[s] < 0)
                return td_error(TD_E_RUNTIME, "lengths contains negative value!");
            to[s + 1] = by_offsets ? from[s + 1] : td_add_saturated(to[s], from[s]);
        }
        if (!by_offsets && !unsafe && to[p->segments] != p->n)
            return td_error(TD_E_RUNTIME, "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1) when !unsafe.");
        for (int64_t s = 0; s <= p->segments; s++)
            if (to[s] < (s ? to[s - 1] : 0) || to[s] > p->n)
                return td_error(TD_E_RUNTIME, "segment_reduce(): %s reach beyond the data", name);
    }
    p->bounds = td_to_device(bounds, data->device, TD_I64, false, false, TD_MEMORY_FORMAT_NONE);
    return p->bounds ? 0 : -1;
}

/* A NaN in a segment is its maximum and minimum, as in max() and min(). */
td_tensor *td_op_segment_reduce(td_tensor *data, const char *reduce, td_tensor *lengths, td_tensor *indices, td_tensor *offsets, int64_t axis, bool unsafe,
                                const td_scalar *initial)
{
    if (td_is_some(indices))
        return td_fail(TD_E_RUNTIME, "segment_reduce(): indices based reduction is not supported yet.");
    if (!td_is_floating(data))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"_segment_reduce_cpu\" not implemented for '%s'", td_dtype_title((td_dtype)data->dtype));
    td_segments p;
    int failed = make_plan(&p, data, reduce, lengths, offsets, axis, unsafe, initial);
    TD_AUTO td_tensor *bounds = p.bounds;
    if (failed)
        return NULL;
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, data->sizes, sizeof *sizes * data->ndim);
    sizes[p.axis] = p.segments;
    if (data->device.type == TD_META)
        return td_tensor_new(data->ndim, sizes, (td_dtype)data->dtype, data->device);
    if (td_is_outside(data->device)) {
        TD_AUTO td_tensor *there = td_tensor_new(data->ndim, sizes, (td_dtype)data->dtype, data->device);
        return there && !td_segment_reduce_on_device(&p, data, there) ? td_tensor_retain(there) : NULL;
    }
    TD_AUTO td_tensor *x = td_as_contiguous(data, TD_F64);
    TD_AUTO td_tensor *out = td_tensor_new(data->ndim, sizes, TD_F64, data->device);
    if (!x || !out)
        return NULL;
    const double *from = (const double *)x->data;
    double *to = (double *)out->data;
    for (int64_t o = 0; o < p.outer; o++)
        for (int64_t s = 0; s < p.segments; s++) {
            const int64_t *b = (const int64_t *)bounds->data + o * (p.segments + 1) + s;
            int64_t length = b[1] - b[0];
            for (int64_t i = 0; i < p.inner; i++) {
                double r = p.first;
                for (int64_t k = b[0]; k < b[1]; k++) {
                    double v = from[(o * p.n + k) * p.inner + i];
                    switch (p.how) {
                    case TD_SEGMENTS_MAX: r = isnan(v) ? v : v > r ? v : r; break;
                    case TD_SEGMENTS_MIN: r = isnan(v) ? v : v < r ? v : r; break;
                    case TD_SEGMENTS_PROD: r *= v; break;
                    default: r += v;
                    }
                }
                if (p.how == TD_SEGMENTS_MEAN)
                    r = length ? r / (double)length : initial ? r : NAN;
                to[(o * p.segments + s) * p.inner + i] = r;
            }
        }
    return td_as_contiguous(out, (td_dtype)data->dtype);
}

/* max, min: the gradient is shared equally among elements that equal the result. sum: the gradient; mean: divided by the
 * segment's length. prod: gradient * result / element, but the product of the others, computed anew, where the element is 0
 * or NaN, for the quotient is not a number there. Elements in no segment keep 0. */
td_tensor *td_op__segment_reduce_backward(td_tensor *grad, td_tensor *output, td_tensor *data, const char *reduce, td_tensor *lengths, td_tensor *offsets,
                                          int64_t axis, const td_scalar *initial)
{
    td_segments p;
    int failed = make_plan(&p, data, reduce, lengths, offsets, axis, true, initial);
    TD_AUTO td_tensor *bounds = p.bounds;
    if (failed)
        return NULL;
    for (int d = 0; d < data->ndim; d++) {
        int64_t size = d == p.axis ? p.segments : data->sizes[d];
        if (grad->ndim != data->ndim || output->ndim != data->ndim || grad->sizes[d] != size || output->sizes[d] != size)
            return td_fail(TD_E_RUNTIME, "_segment_reduce_backward: grad and output must have the shape of the result");
    }
    if (data->device.type == TD_META)
        return td_tensor_new(data->ndim, data->sizes, (td_dtype)data->dtype, data->device);
    if (td_is_outside(data->device)) {
        TD_AUTO td_tensor *there = td_zeros(data->ndim, data->sizes, (td_dtype)data->dtype, data->device);
        return there && !td_segment_slopes_on_device(&p, grad, output, data, there) ? td_tensor_retain(there) : NULL;
    }
    TD_AUTO td_tensor *g = td_as_contiguous(grad, TD_F64);
    TD_AUTO td_tensor *y = td_as_contiguous(output, TD_F64);
    TD_AUTO td_tensor *x = td_as_contiguous(data, TD_F64);
    TD_AUTO td_tensor *out = td_zeros(data->ndim, data->sizes, TD_F64, data->device);
    if (!g || !y || !x || !out)
        return NULL;
    const double *from = (const double *)x->data;
    double *to = (double *)out->data;
    for (int64_t o = 0; o < p.outer; o++)
        for (int64_t s = 0; s < p.segments; s++) {
            const int64_t *b = (const int64_t *)bounds->data + o * (p.segments + 1) + s;
            for (int64_t i = 0; i < p.inner; i++) {
                int64_t at = (o * p.segments + s) * p.inner + i, ties = 0;
                double gradient = ((const double *)g->data)[at], result = ((const double *)y->data)[at];
                for (int64_t k = b[0]; k < b[1]; k++) {
                    int64_t place = (o * p.n + k) * p.inner + i;
                    double v = from[place];
                    if (p.how == TD_SEGMENTS_MAX || p.how == TD_SEGMENTS_MIN) {
                        bool chosen = isnan(v) || v == result;
                        to[place] = chosen ? gradient : 0;
                        ties += chosen;
                    } else if (p.how == TD_SEGMENTS_PROD && (v == 0 || isnan(v))) {      /* the product of the others */
                        double others = p.first;
                        for (int64_t j = b[0]; j < b[1]; j++)
                            others *= j == k ? 1 : from[(o * p.n + j) * p.inner + i];
                        to[place] = gradient * others;
                    } else {
                        to[place] = p.how == TD_SEGMENTS_PROD ? gradient * result / v : p.how == TD_SEGMENTS_MEAN ? gradient / (double)(b[1] - b[0]) : gradient;
                    }
                }
                for (int64_t k = b[0]; k < b[1] && ties > 1; k++)
                    to[(o * p.n + k) * p.inner + i] /= (double)ties;
            }
        }
    return td_as_contiguous(out, (td_dtype)data->dtype);
}
