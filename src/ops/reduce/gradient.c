/* torch.gradient: derivatives estimated from samples, by second-order central differences inside and one-sided ones at both
 * ends; numpy.gradient's formulas. It has nothing to do with autograd, and is differentiable itself, for it is made of
 * operators that are.
 *
 * The samples may be equally spaced, by a number for each dimension, or lie at given coordinates. Every entry of the family
 * is the same loop over dimensions. */

#include "calls_ops_reduce_gradient.h"
#include <inttypes.h>
#include <tede/kernel.h>
#include "base/scalar.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"

#define LET(x) TD_AUTO td_tensor *x

static td_tensor *range(td_tensor *x, int64_t dim, int64_t from, int64_t to)
{
    return td_slice_tensor(x, dim, &from, &to, 1);
}
/* p a + q b + r c, of tensors or with factors that are tensors along one dimension. */
static td_tensor *combine(td_tensor *p, td_tensor *a, td_tensor *q, td_tensor *b, td_tensor *r, td_tensor *c)
{
    LET(pa) = td_mul(p, a);
    LET(qb) = td_mul(q, b);
    LET(sum) = td_add(pa, qb);
    LET(rc) = td_mul(r, c);
    return td_add(sum, rc);
}
/* Of first order: (x[at + 1] - x[at]) / step, a slice of size 1 along dim. */
static td_tensor *one_sided(td_tensor *x, int64_t dim, int64_t at, td_scalar step)
{
    LET(low) = td_narrow(x, dim, at, 1);
    LET(high) = td_narrow(x, dim, at + 1, 1);
    LET(difference) = td_sub(high, low);
    LET(number) = td_wrapped_number(step);
    return td_div(difference, number);
}
/* Of second order: the slope at an end of the parabola through the three samples there, (-3/2 f0 + 2 f1 - 1/2 f2) / step;
 * at the last end the same with the samples and the sign reversed. */
static td_tensor *parabola(td_tensor *x, int64_t dim, int64_t at, td_scalar step, bool last)
{
    double sign = last ? 1 : -1;
    LET(near) = td_narrow(x, dim, at + (last ? 2 : 0), 1);
    LET(middle) = td_narrow(x, dim, at + 1, 1);
    LET(far) = td_narrow(x, dim, at + (last ? 0 : 2), 1);
    LET(a) = td_wrapped_number(td_float(1.5 * sign));
    LET(b) = td_wrapped_number(td_float(-2 * sign));
    LET(c) = td_wrapped_number(td_float(0.5 * sign));
    LET(sum) = combine(a, near, b, middle, c, far);
    LET(number) = td_wrapped_number(step);
    return td_div(sum, number);
}
/* Inside, (x[i + 1] - x[i - 1]) / (2 step), in which the terms of second order cancel out. There are at least edge_order +
 * 1 samples, which gradient() checks, so the ends exist. */
static td_tensor *even_steps(td_tensor *x, int64_t dim, td_scalar step, int64_t edge_order)
{
    int64_t n = x->sizes[dim];
    LET(after) = range(x, dim, 2, n);
    LET(before) = range(x, dim, 0, n - 2);
    LET(difference) = td_sub(after, before);
    LET(width) = td_wrapped_number(td_scalar_mul(step, td_int(2)));
    LET(inner) = td_div(difference, width);
    LET(first) = edge_order == 1 ? one_sided(x, dim, 0, step) : parabola(x, dim, 0, step, false);
    LET(last) = edge_order == 1 ? one_sided(x, dim, n - 2, step) : parabola(x, dim, n - 3, step, true);
    return first && inner && last ? td_cat(3, (td_tensor *[]){first, inner, last}, dim) : NULL;
}

/* The slope at the first (-1), middle (0) or last (1) of three neighbours a, b, c that lie d1 and d2 apart, by the
 * derivative of the parabola (Lagrange's polynomial) through them. In the middle: -d2 / (d1 (d1 + d2)) a + (d2 - d1) / (d1
 * d2) b + d1 / (d2 (d1 + d2)) c. `from` and `count` choose the triples; d1 and d2 broadcast over the other dimensions. */
static td_tensor *three_points(td_tensor *x, int64_t dim, int64_t from, int64_t count, td_tensor *d1, td_tensor *d2, int where)
{
    LET(a) = td_narrow(x, dim, from, count);
    LET(b) = td_narrow(x, dim, from + 1, count);
    LET(c) = td_narrow(x, dim, from + 2, count);
    LET(both) = td_add(d1, d2);
    LET(d1_both) = td_mul(d1, both);
    LET(d2_both) = td_mul(d2, both);
    LET(product) = td_mul(d1, d2);
    LET(doubled) = where < 0 ? td_add(d1, both) : where > 0 ? td_add(d2, both) : td_ref(d2);
    LET(p) = where > 0 ? td_div(d2, d1_both) : td_div(doubled, d1_both);
    LET(minus) = td_neg(p);
    LET(middle) = where == 0 ? td_sub(d2, d1) : td_ref(both);
    LET(q) = td_div(middle, product);
    LET(minus_q) = td_neg(q);
    LET(r) = where > 0 ? td_div(doubled, d2_both) : td_div(d1, d2_both);
    LET(minus_r) = td_neg(r);
    return combine(where > 0 ? p : minus, a, where > 0 ? minus_q : q, b, where < 0 ? minus_r : r, c);
}
/* The coordinates become a tensor with size 1 in all dimensions but dim, and their differences the steps. They need not be as many as
 * the samples: what doesn't broadcast is refused where it meets them, as in PyTorch. */
static td_tensor *at_coordinates(td_tensor *x, int64_t dim, td_tensor *coordinates, int64_t edge_order)
{
    int64_t n = x->sizes[dim], shape[TD_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        shape[d] = d == dim ? -1 : 1;
    LET(c) = td_reshape(coordinates, x->ndim, shape);
    if (!c)
        return NULL;
    int64_t m = c->sizes[dim];
    LET(high) = range(c, dim, 1, m);
    LET(low) = range(c, dim, 0, m - 1);
    LET(steps) = td_sub(high, low);
    LET(d1) = range(steps, dim, 0, m - 2);
    LET(d2) = range(steps, dim, 1, m - 1);
    LET(inner) = three_points(x, dim, 0, n - 2, d1, d2, 0);
    LET(first) = NULL;
    LET(last) = NULL;
    if (edge_order == 1) {
        LET(begin) = td_narrow(steps, dim, 0, 1);
        LET(end) = td_narrow(steps, dim, m - 2, 1);
        LET(rise) = one_sided(x, dim, 0, td_int(1));
        LET(last_rise) = one_sided(x, dim, n - 2, td_int(1));
        first = td_div(rise, begin);
        last = td_div(last_rise, end);
    } else {
        LET(a1) = td_narrow(steps, dim, 0, 1);
        LET(a2) = td_narrow(steps, dim, 1, 1);
        first = three_points(x, dim, 0, 1, a1, a2, -1);
        LET(b1) = td_narrow(steps, dim, m - 3, 1);
        LET(b2) = td_narrow(steps, dim, m - 2, 1);
        last = three_points(x, dim, n - 3, 1, b1, b2, 1);
    }
    return first && inner && last ? td_cat(3, (td_tensor *[]){first, inner, last}, dim) : NULL;
}

/* What the entries come down to: `numbers` or `coordinates`, one for all dimensions or one for each; n_dim = -1 for all
 * dimensions of self. */
static int gradient(td_tensor_list *results, td_tensor *self, int64_t n_numbers, const td_scalar *numbers, int64_t n_coordinates,
                    td_tensor *const *coordinates, int64_t n_dim, const int64_t *dim, int64_t edge_order)
{
    int64_t n = n_dim < 0 ? self->ndim : n_dim, given = n_coordinates >= 0 ? n_coordinates : n_numbers;
    bool one_for_all = n_coordinates < 0 && n_numbers == -1;
    if (!one_for_all && given != n)
        return n_dim < 0 ? td_error(TD_E_RUNTIME, "torch.gradient expected spacing to be unspecified, a scalar, or a list of length equal to 'self.dim() = "
                                    "%d', since dim argument was not given, but got a list of length %" PRId64, self->ndim, given)
                         : td_error(TD_E_RUNTIME, "torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have "
                                    "the same length, but got a spacing argument of length %" PRId64 " and a dim argument of length %" PRId64 ".", given, n);
    if (self->dtype == TD_U8)
        return td_error(TD_E_RUNTIME, "torch.gradient does not support uint8 input.");
    for (int64_t i = 0; i < n_coordinates; i++)
        if (coordinates[i]->ndim != 1)
            return td_error(TD_E_RUNTIME, "torch.gradient expected each element of spacing to have one dimension, but got an element with %d dimensions!",
                            coordinates[i]->ndim);
    if (edge_order != 1 && edge_order != 2)
        return td_error(TD_E_RUNTIME, "torch.gradient only supports edge_order=1 and edge_order=2.");
    uint64_t seen = 0;
    for (int64_t i = 0; i < n; i++) {
        int d = td_wrap_dim(n_dim < 0 ? i : dim[i], self->ndim);
        if (d < 0)
            return -1;
        if (seen >> d & 1)
            return td_error(TD_E_RUNTIME, "dim %d appears multiple times in the list of dims", d);
        seen |= UINT64_C(1) << d;
        if (self->ndim && self->sizes[d] < edge_order + 1)
            return td_error(TD_E_RUNTIME, "torch.gradient expected each dimension size to be at least edge_order+1");
    }
    if (td_tensor_list_new(results, n))
        return -1;
    for (int64_t i = 0; i < n; i++) {
        int d = td_wrap_dim(n_dim < 0 ? i : dim[i], self->ndim);
        td_tensor *result = n_coordinates >= 0 ? at_coordinates(self, d, coordinates[i], edge_order)
                                               : even_steps(self, d, one_for_all ? *numbers : numbers[i], edge_order);
        if (!(results->items[i] = result)) {
            td_tensor_list_release(results);
            return -1;
        }
    }
    return 0;
}

int td_op_gradient_scalarint(td_tensor_list *results, td_tensor *self, const td_scalar *spacing, const int64_t *dim, int64_t edge_order)
{
    td_scalar one = td_int(1);
    return gradient(results, self, -1, spacing ? spacing : &one, -1, NULL, dim ? 1 : -1, dim, edge_order);
}
int td_op_gradient_scalararray(td_tensor_list *results, td_tensor *self, td_scalar spacing, int64_t n_dim, const int64_t *dim, int64_t edge_order)
{
    return gradient(results, self, -1, &spacing, -1, NULL, n_dim, dim, edge_order);
}
int td_op_gradient_array(td_tensor_list *results, td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t edge_order)
{
    td_scalar one = td_int(1);
    return gradient(results, self, -1, &one, -1, NULL, n_dim, dim, edge_order);
}
int td_op_gradient_scalarrayint(td_tensor_list *results, td_tensor *self, int64_t n, const td_scalar *spacing, const int64_t *dim, int64_t edge_order)
{
    return gradient(results, self, n, spacing, -1, NULL, dim ? 1 : -1, dim, edge_order);
}
int td_op_gradient_scalarrayarray(td_tensor_list *results, td_tensor *self, int64_t n, const td_scalar *spacing, int64_t n_dim, const int64_t *dim,
                                  int64_t edge_order)
{
    return gradient(results, self, n, spacing, -1, NULL, n_dim, dim, edge_order);
}
int td_op_gradient_tensorarrayint(td_tensor_list *results, td_tensor *self, int64_t n, td_tensor *const *spacing, const int64_t *dim, int64_t edge_order)
{
    return gradient(results, self, -1, NULL, n, spacing, dim ? 1 : -1, dim, edge_order);
}
int td_op_gradient_tensorarray(td_tensor_list *results, td_tensor *self, int64_t n, td_tensor *const *spacing, int64_t n_dim, const int64_t *dim,
                               int64_t edge_order)
{
    return gradient(results, self, -1, NULL, n, spacing, n_dim, dim, edge_order);
}
