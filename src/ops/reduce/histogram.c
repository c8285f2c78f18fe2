/* histogram and histogramdd: how many points, or how much weight, fall into the cells of a grid.
 *
 * A point is a row of the input; the grid is the edges of its bins in each dimension. Bins hold their left edge, the last
 * one both. histogram is histogramdd for points of one coordinate. Everything is summed in double, point by point, so
 * results don't depend on threads. */

#include "calls_ops_reduce_histogram.h"
#include <inttypes.h>
#include <math.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "tensor/checked.h"
#include "tensor/device.h"

enum { DIMENSIONS = TD_MAX_DIMS };

/* Halves are counted, though their range isn't looked for. */
static int check_dtype(const td_tensor *x, bool halves)
{
    return x->dtype == TD_F32 || x->dtype == TD_F64 || (halves && td_is_floating(x))
               ? 0 : td_error(TD_E_NOT_IMPLEMENTED, "\"histogramdd\" not implemented for '%s'", td_dtype_title((td_dtype)x->dtype));
}
static int check(td_tensor *x, int64_t n, td_tensor *const *edges, td_tensor *weight)
{
    td_shape_text a, b;
    if (x->ndim < 2)
        return td_error(TD_E_RUNTIME, "torch.histogramdd: input tensor should have at least 2 dimensions, but got %d", x->ndim);
    int64_t d = x->sizes[x->ndim - 1];
    if (n != d)
        return td_error(TD_E_RUNTIME, "torch.histogramdd: expected %" PRId64 " sequences of bin edges for a %" PRId64 "-dimensional histogram but got %"
                        PRId64, d, d, n);
    if (n > DIMENSIONS)
        return td_error(TD_E_RUNTIME, "torch.histogramdd: a tensor has at most %d dimensions", DIMENSIONS);
    for (int64_t i = 0; i < n; i++) {
        if (edges[i]->dtype != x->dtype)
            return td_error(TD_E_RUNTIME, "torch.histogramdd: input tensor and bins tensors should have the same dtype, but got input with dtype %s and "
                            "bins for dimension %" PRId64 " with dtype %s", td_cpp_name(x->dtype), i, td_cpp_name(edges[i]->dtype));
        if (edges[i]->ndim != 1)
            return td_error(TD_E_RUNTIME, "torch.histogramdd: bins tensor should have one dimension, but got %d dimensions in the bins tensor for "
                            "dimension %" PRId64, edges[i]->ndim, i);
        if (edges[i]->numel == 0)
            return td_error(TD_E_RUNTIME, "torch.histogramdd: bins tensor should have at least 1 element, but got 0 elements in the bins tensor for "
                            "dimension %" PRId64, i);
    }
    if (!td_is_some(weight))
        return 0;
    if (weight->dtype != x->dtype)
        return td_error(TD_E_RUNTIME, "torch.histogramdd: if weight tensor is provided, input tensor and weight tensor should have the same dtype, but got "
                        "input(%s), and weight(%s)", td_cpp_name(x->dtype), td_cpp_name(weight->dtype));
    if (weight->ndim != x->ndim - 1 || memcmp(weight->sizes, x->sizes, sizeof *x->sizes * weight->ndim))
        return td_error(TD_E_RUNTIME, "torch.histogramdd: if weight tensor is provided it should have the same shape as the input tensor excluding its "
                        "innermost dimension, but got input with shape %s and weight with shape %s", td_shape_str(x->ndim, x->sizes, a),
                        td_shape_str(weight->ndim, weight->sizes, b));
    return 0;
}

/* The bin that a value is in, -1 if in none (NaN too): bisection, so n edges needn't be evenly spaced, and those that are
 * give the same bins as if they had been passed as a tensor. There are at least two edges. */
static int64_t bin_of(const double *edges, int64_t n, double v)
{
    if (!(v >= edges[0] && v <= edges[n - 1]))
        return -1;
    int64_t low = 0, high = n;            /* edges[low] <= v < edges[high] */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (edges[middle] <= v)
            low = middle;
        else
            high = middle;
    }
    return low == n - 1 ? n - 2 : low;
}

/* On a device, by operators: each point's cell and what it counts for, added up there.  Edges rise, so a search finds what bin_of finds. */
static td_tensor *count_by_operators(td_tensor *self, int64_t n, td_tensor *const *bins, td_tensor *weight, bool density)
{
    const td_dtype wide = td_device_computes(self->device, TD_F64) ? TD_F64 : TD_F32;
    int64_t points = n ? self->numel / n : 0, cells = 1, sizes[DIMENSIONS], one[DIMENSIONS];
    TD_AUTO td_tensor *rows = td_reshape(self, 2, (int64_t[]){points, n}), *at = td_zeros(1, &points, TD_I64, self->device);
    TD_AUTO td_tensor *flat = td_is_some(weight) ? td_reshape(weight, 1, &points) : td_ones(1, &points, wide, self->device);
    TD_AUTO td_tensor *counts = flat ? td_as_contiguous(flat, wide) : NULL;
    for (int64_t i = 0; i < n; i++) {
        sizes[i] = bins[i]->numel - 1, one[i] = 1, cells *= sizes[i];
        TD_AUTO td_tensor *edges = td_make_contiguous(bins[i]), *column = td_select_int(rows, 1, i), *x = td_make_contiguous(column);
        TD_AUTO td_tensor *first = td_select_int(edges, 0, 0), *last = td_select_int(edges, 0, sizes[i]);
        TD_AUTO td_tensor *above = td_ge(x, first), *below = td_le(x, last), *inside = td_logical_and(above, below), *outside = td_logical_not(inside);
        TD_AUTO td_tensor *found = td_searchsorted_tensor(edges, x, false, true, NULL, TD_NONE);
        TD_AUTO td_tensor *within = td_clamp(found, (td_scalar[]){td_int(1)}, (td_scalar[]){td_int(sizes[i])});
        TD_AUTO td_tensor *before = td_mul_scalar(at, td_int(sizes[i])), *both = td_add(before, within), *cell = td_add_scalar(both, td_int(-1), td_int(1));
        TD_AUTO td_tensor *left = td_masked_fill_scalar(counts, outside, td_int(0));
        if (!cell || !left)
            return NULL;
        td_tensor_release(at), td_tensor_release(counts);
        at = td_tensor_retain(cell), counts = td_tensor_retain(left);
    }
    TD_AUTO td_tensor *none = td_zeros(1, &cells, wide, self->device), *sums = td_index_add(none, 0, at, counts, td_int(1));
    TD_AUTO td_tensor *hist = td_reshape(sums, (int)n, sizes), *total = density && hist ? td_sum(hist) : td_ref(TD_NONE);
    for (int64_t i = 0; i < n && density && hist; i++) {        /* of total 1: by volume */
        one[i] = sizes[i];
        TD_AUTO td_tensor *widths = td_diff(bins[i], 1, 0, TD_NONE, TD_NONE), *along = td_reshape(widths, (int)n, one), *scaled = along ? td_as_contiguous(along, wide) : NULL;
        TD_AUTO td_tensor *divided = td_div(hist, scaled);
        one[i] = 1;
        td_tensor_release(hist);
        hist = td_tensor_retain(divided);
    }
    TD_AUTO td_tensor *whole = density ? td_div(hist, total) : td_tensor_retain(hist);
    return whole ? td_as_contiguous(whole, (td_dtype)self->dtype) : NULL;
}

/* Cells are in row-major order of their bins; a point outside in any dimension counts nowhere. */
static td_tensor *count(td_tensor *self, int64_t n, td_tensor *const *bins, td_tensor *weight, bool density)
{
    if (check(self, n, bins, weight) || check_dtype(self, true))
        return NULL;
    if (self->device.type == TD_META)
        return td_fail(TD_E_NOT_IMPLEMENTED, "aten::histogram: attempted to run this operator with Meta tensors, but its results depend on "
                       "values");
    for (int64_t i = 0; i < n; i++)
        if (bins[i]->numel == 1)
            return td_fail(TD_E_RUNTIME, "torch.histogram(): bins must be > 0, but got 0 for dimension %" PRId64, i);
    if (self->device.type != TD_CPU)
        return count_by_operators(self, n, bins, weight, density);
    TD_AUTO td_tensor *x = td_as_contiguous(self, TD_F64);
    TD_AUTO td_tensor *w = td_is_some(weight) ? td_as_contiguous(weight, TD_F64) : td_ref(TD_NONE);
    TD_AUTO_LIST td_tensor_list edges = {0};
    if (!x || !w || td_tensor_list_new(&edges, n))
        return NULL;
    int64_t sizes[DIMENSIONS];
    for (int64_t i = 0; i < n; i++) {
        if (!(edges.items[i] = td_as_contiguous(bins[i], TD_F64)))
            return NULL;
        sizes[i] = bins[i]->numel - 1;
    }
    TD_AUTO td_tensor *hist = td_zeros((int)n, sizes, TD_F64, self->device);
    if (!hist)
        return NULL;
    double *to = (double *)hist->data, total = 0;
    int64_t points = n ? x->numel / n : 0;
    for (int64_t p = 0; p < points && hist->numel; p++) {
        int64_t at = 0;
        for (int64_t i = 0; i < n && at >= 0; i++) {
            int64_t bin = bin_of((const double *)edges.items[i]->data, sizes[i] + 1, ((const double *)x->data)[p * n + i]);
            at = bin < 0 ? -1 : at * sizes[i] + bin;
        }
        if (at >= 0)
            to[at] += td_is_some(w) ? ((const double *)w->data)[p] : 1;
    }
    if (density) {                       /* of total 1: by volume */
        for (int64_t k = 0; k < hist->numel; k++)
            total += to[k];
        for (int64_t k = 0; k < hist->numel; k++) {
            double volume = total;
            int64_t rest = k;
            for (int64_t i = n - 1; i >= 0; i--) {
                const double *e = (const double *)edges.items[i]->data;
                volume *= e[rest % sizes[i] + 1] - e[rest % sizes[i]];
                rest /= sizes[i];
            }
            to[k] /= volume;
        }
    }
    return td_as_contiguous(hist, (td_dtype)self->dtype);
}

/* Points on the CPU, in double, that span what self's do: of a device's the least and the largest coordinates, NaN if there is one. */
static td_tensor *spanned(td_tensor *self, int64_t n)
{
    if (self->device.type == TD_CPU)
        return td_as_contiguous(self, TD_F64);
    if (!self->numel)
        return td_tensor_new(1, (int64_t[]){0}, TD_F64, (td_device){TD_CPU, -1});
    const int64_t zero = 0;
    TD_AUTO td_tensor *rows = td_reshape(self, 2, (int64_t[]){self->numel / n, n});
    TD_AUTO td_tensor *low = td_amin(rows, 1, &zero, true), *high = td_amax(rows, 1, &zero, true);
    TD_AUTO td_tensor *both = td_cat(2, (td_tensor *[]){low, high}, 0), *here = both ? td_host_copy(both) : NULL;
    return here ? td_as_contiguous(here, TD_F64) : NULL;
}

/* Equally wide bins over a range, or over what the points span (0 to 1 if there are none). A NaN or infinity among the
 * points makes its dimension's range one that isn't finite, which is refused; an empty range is widened by a half to each
 * side. */
static int even_edges(td_tensor_list *results, const char *op, td_tensor *self, int64_t n, const int64_t *bins, int64_t n_range, const double *range)
{
    if (self->ndim < 2)
        return td_error(TD_E_RUNTIME, "torch.histogramdd: input tensor should have at least 2 dimensions");
    int64_t d = self->sizes[self->ndim - 1];
    if (n != d)
        return td_error(TD_E_RUNTIME, "histogramdd: The size of bins must be equal to the innermost dimension of the input.");
    for (int64_t i = 0; i < n; i++)
        if (bins[i] <= 0)
            return td_error(TD_E_RUNTIME, "%s(): bins must be > 0, but got %" PRId64 " for dimension %" PRId64, op, bins[i], i);
    if (n_range >= 0 && n_range != 2 * n)
        return td_error(TD_E_RUNTIME, "torch.histogramdd: for a %" PRId64 "-dimensional histogram range should have %" PRId64 " elements, but got %" PRId64,
                        n, 2 * n, n_range);
    if (n_range < 0 && self->numel && check_dtype(self, false))
        return -1;
    TD_AUTO td_tensor *x = n_range < 0 ? spanned(self, n) : td_ref(TD_NONE);
    if (!x || td_tensor_list_new(results, n))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        double low = n_range < 0 ? 0 : range[2 * i], high = n_range < 0 ? 1 : range[2 * i + 1];
        for (int64_t p = i, first = 1; n_range < 0 && p < x->numel; p += n, first = 0) {
            double v = ((const double *)x->data)[p];
            low = first || v < low || isnan(v) ? v : low, high = first || v > high || isnan(v) ? v : high;
        }
        int failed = 0;
        if (!isfinite(low) || !isfinite(high))
            failed = td_error(TD_E_RUNTIME, "torch.histogramdd: dimension %" PRId64 "'s range [%g, %g] is not finite", i, low, high);
        else if (low > high)
            failed = td_error(TD_E_RUNTIME, "torch.histogramdd: min should not exceed max, but got min %g max %g for dimension %" PRId64, low, high, i);
        if (low == high)
            low -= 0.5, high += 0.5;
        if (failed || !(results->items[i] = td_linspace(td_float(low), td_float(high), td_add_saturated(bins[i], 1), (td_dtype)self->dtype, self->device))) {
            td_tensor_list_release(results);
            return -1;
        }
    }
    return 0;
}

/* ---- points of several coordinates */

int td_op__histogramdd_bin_edges(td_tensor_list *results, td_tensor *self, int64_t n, const int64_t *bins, int64_t n_range, const double *range,
                                 td_tensor *weight, bool density)
{
    (void)weight, (void)density;
    return even_edges(results, "torch.histogramdd", self, n, bins, n_range, range);
}
td_tensor *td_op__histogramdd_from_bin_cts(td_tensor *self, int64_t n, const int64_t *bins, int64_t n_range, const double *range, td_tensor *weight,
                                           bool density)
{
    TD_AUTO_LIST td_tensor_list edges = {0};
    return even_edges(&edges, "torch.histogramdd", self, n, bins, n_range, range) ? NULL : count(self, n, edges.items, weight, density);
}
td_tensor *td_op__histogramdd_from_bin_tensors(td_tensor *self, int64_t n, td_tensor *const *bins, td_tensor *weight, bool density)
{
    return count(self, n, bins, weight, density);
}

/* ---- numbers */

/* Weights belong to the points in row-major order, as self's elements become points. */
static int one_dimension(td_tensor **results, td_tensor *points, td_tensor *edges, td_tensor *weight, bool density)
{
    TD_AUTO td_tensor *flat = td_is_some(weight) ? td_reshape(weight, 1, (int64_t[]){-1}) : td_ref(TD_NONE);
    td_tensor *hist = flat && points ? count(points, 1, &edges, flat, density) : NULL;
    if (!hist)
        return -1;
    results[0] = hist, results[1] = td_ref(edges);
    return 0;
}
int td_op_histogram_bins_tensor(td_tensor **results, td_tensor *self, td_tensor *bins, td_tensor *weight, bool density)
{
    TD_AUTO td_tensor *points = td_reshape(self, 2, (int64_t[]){self->numel, 1});
    TD_AUTO td_tensor *edges = td_clone(bins);      /* a result has separate memory and history */
    return edges ? one_dimension(results, points, edges, weight, density) : -1;
}
int td_op_histogram_bin_ct(td_tensor **results, td_tensor *self, int64_t bins, int64_t n_range, const double *range, td_tensor *weight, bool density)
{
    TD_AUTO td_tensor *points = td_reshape(self, 2, (int64_t[]){self->numel, 1});
    TD_AUTO_LIST td_tensor_list edges = {0};
    if (!points || even_edges(&edges, "torch.histogram", points, 1, &bins, n_range, range))
        return -1;
    return one_dimension(results, points, edges.items[0], weight, density);
}
