/* Images read at given positions: checks, and the same made of operators that record.
 *
 * Second derivatives come from that second form: where a graph is being made, the backward pass computes the result
 * again from recording operators and differentiates those.
 *
 * grid holds coordinates in [-1, 1], x before y (before z), so coordinate d belongs to dimension dims - 1 - d of the
 * image. -1 and 1 are the centres of the outermost elements if `align`, else their outer edges. */
#include "calls_ops_nn_grid_sampler.h"
#include <inttypes.h>
#include <string.h>
#include <tede/geometry.h>
#include "ops/compose.h"
#include "ops/recorded.h"
#include "tensor/checked.h"

/* What grid_sampler checks itself; check_rank is what the operators for 4 and 5 dimensions add. */
static int check(td_tensor *input, td_tensor *grid)
{
    td_shape_text a, b;
    td_shape_str(input->ndim, input->sizes, a), td_shape_str(grid->ndim, grid->sizes, b);
    if (input->device.type != grid->device.type)
        return td_error(TD_E_RUNTIME, "grid_sampler(): expected input and grid to be on same device");
    if (input->ndim < 1 || grid->ndim < 1 || input->sizes[0] != grid->sizes[0])
        return td_error(TD_E_RUNTIME, "grid_sampler(): expected grid and input to have same batch size, but got input with "
                        "sizes %s and grid with sizes %s", a, b);
    if (grid->sizes[grid->ndim - 1] != input->ndim - 2)
        return td_error(TD_E_RUNTIME, "grid_sampler(): expected grid to have size %d in last dimension, but got grid with "
                        "sizes %s", input->ndim - 2, b);
    for (int i = 2; i < input->ndim; i++)
        if (input->sizes[i] == 0)
            return td_error(TD_E_RUNTIME, "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
                            "sizes %s with dimension %d being empty", a, i);
    return 0;
}

static int check_rank(td_tensor *input, td_tensor *grid, int rank, int64_t mode)
{
    td_shape_text a, b;
    if (input->ndim != rank || grid->ndim != rank)
        return td_error(TD_E_RUNTIME, "grid_sampler(): expected %dD input and grid with same number of dimensions, but got "
                        "input with sizes %s and grid with sizes %s", rank, td_shape_str(input->ndim, input->sizes, a),
                        td_shape_str(grid->ndim, grid->sizes, b));
    return rank == 5 && mode == TD_SAMPLE_CUBIC
        ? td_error(TD_E_RUNTIME, "grid_sampler(): bicubic interpolation only supports 4D input") : 0;
}

/* The places of a float32 are as wide as it is: images with more elements than that counts are sampled in float64. */
static int describe(td_spec *specs, td_sample_geometry *g, td_tensor *input, td_tensor *grid, int rank, int64_t mode, int64_t padding, bool align)
{
    if (check(input, grid) || check_rank(input, grid, rank, mode))
        return -1;
    if (mode < TD_SAMPLE_LINEAR || mode > TD_SAMPLE_CUBIC || padding < TD_OUTSIDE_ZEROS || padding > TD_OUTSIDE_REFLECTION)
        return td_error(TD_E_RUNTIME, "grid_sampler(): there is no interpolation mode %" PRId64 " with padding mode %" PRId64,
                        mode, padding);
    if (!td_is_floating(input))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'",
                        rank == 4 ? "grid_sampler_2d_cpu_kernel_impl" : "grid_sampler3d_cpu",
                        td_dtype_title((td_dtype)input->dtype));
    if (input->dtype != grid->dtype)
        return td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)input->dtype),
                        td_dtype_title((td_dtype)grid->dtype));
    *g = (td_sample_geometry){.dims = rank - 2, .mode = (td_sample_mode)mode, .outside = (td_sample_outside)padding, .align_corners = align,
                              .batch = input->sizes[0], .channels = input->sizes[1], .in_total = 1, .out_total = 1};
    td_spec_like(specs, input);
    for (int i = 0; i < 3; i++) {
        const int d = i - (3 - g->dims);
        g->in[i] = d < 0 ? 1 : input->sizes[2 + d];
        g->in_total = td_mul_saturated(g->in_total, g->in[i]);
        g->out_total = td_mul_saturated(g->out_total, d < 0 ? 1 : (specs->sizes[2 + d] = grid->sizes[1 + d]));
    }
    g->dtype = input->dtype == TD_F64 || g->in_total > INT32_MAX ? TD_F64 : TD_F32;
    return 0;
}

int td_meta_grid_sampler_2d(td_spec *specs, td_sample_geometry *g, td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align)
{
    return describe(specs, g, input, grid, 4, mode, padding, align);
}

int td_meta_grid_sampler_3d(td_spec *specs, td_sample_geometry *g, td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align)
{
    return describe(specs, g, input, grid, 5, mode, padding, align);
}

int td_meta_grid_sampler_backward(td_spec *specs, td_sample_geometry *g, td_tensor *grad, td_tensor *input, td_tensor *grid, int64_t mode,
                                  int64_t padding, bool align, int64_t n_mask, const bool *mask)
{
    (void)n_mask;
    td_spec made;
    if (describe(&made, g, input, grid, input->ndim == 5 ? 5 : 4, mode, padding, align) ||
        td_check_numel("grid_sampler_backward", "grad", grad, td_spec_numel(&made)))
        return -1;
    mask[0] ? td_spec_like(&specs[0], input) : td_spec_none(&specs[0]);
    return mask[1] ? td_spec_like(&specs[1], grid) : td_spec_none(&specs[1]);
}

td_tensor *td_op_grid_sampler(td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align)
{
    if (check(input, grid) || (input->ndim != 4 && check_rank(input, grid, 5, mode)))
        return NULL;
    return input->ndim == 4 ? td_grid_sampler_2d(input, grid, mode, padding, align)
        : td_grid_sampler_3d(input, grid, mode, padding, align);
}

/* ---- the recording form ------------------------------------------------------------------------------------------- */

static td_tensor *scaled(td_tensor *x, double factor, double shift)
{
    TD_AUTO td_tensor *product = td_times(x, td_float(factor));
    return td_plus(product, td_float(shift));
}

/* x thrown back at both ends: at the outermost elements' centres, or at their outer edges.
 * A zigzag with the period 2 span: the distance from the low end, less whole spans, runs forwards after an even
 * number of them and backwards after an odd one. Its slope is 1 or -1 by that. */
static td_tensor *mirrored(td_tensor *x, int64_t size, bool align)
{
    double low = align ? 0 : -0.5, span = align ? (double)size - 1 : (double)size;
    if (span == 0)
        return td_times(x, td_float(0));
    TD_AUTO td_tensor *shifted = td_plus(x, td_float(-low));
    TD_AUTO td_tensor *away = td_abs(shifted), *turns = td_times(away, td_float(1 / span));
    TD_AUTO td_tensor *times = td_floor(turns), *two = td_wrapped_number(td_float(2)), *zero = td_wrapped_number(td_int(0));
    TD_AUTO td_tensor *whole = td_times(times, td_float(span));
    TD_AUTO td_tensor *rest = td_minus(away, whole), *back = scaled(rest, -1, span);
    TD_AUTO td_tensor *parity = td_remainder_tensor(times, two);
    TD_AUTO td_tensor *even = td_eq_tensor(parity, zero);
    TD_AUTO td_tensor *inside = td_where_self(even, rest, back);
    return td_plus(inside, td_float(low));
}

/* Zeros aren't moved inside: tap() leaves out what is outside. */
static td_tensor *inside(td_tensor *x, int64_t size, int64_t padding, bool align)
{
    TD_AUTO td_tensor *y = padding == TD_OUTSIDE_REFLECTION ? mirrored(x, size, align) : td_ref(x);
    const td_scalar least = td_float(0), most = td_float((double)size - 1);
    return padding == TD_OUTSIDE_ZEROS ? (y ? td_ref(y) : NULL) : td_clamp(y, &least, &most);
}

/* The weight of cubic tap k for positions `part` behind element 1.
 * Keys' cubic convolution (1981) with a = -0.75, as a polynomial of the distance d by Horner's rule: (a + 2) d^3 - (a
 * + 3) d^2 + 1 for d up to 1, a (d^3 - 5 d^2 + 8 d - 4) up to 2. Taps 0 to 3 are at distances 1 + part, part, 1 -
 * part and 2 - part. */
static td_tensor *cubic(td_tensor *part, int k)
{
    const double a = -0.75;
    TD_AUTO td_tensor *d = scaled(part, k < 2 ? 1 : -1, k == 0 ? 1 : k == 1 ? 0 : k - 1);
    bool near = k == 1 || k == 2;
    TD_AUTO td_tensor *first = scaled(d, near ? a + 2 : a, near ? -(a + 3) : -5 * a), *second = td_mul_tensor(first, d);
    TD_AUTO td_tensor *third = near ? td_ref(second) : td_plus(second, td_float(8 * a));
    TD_AUTO td_tensor *fourth = td_mul_tensor(third, d);
    return td_plus(fourth, td_float(near ? 1 : -4 * a));
}

/* For one dimension: up to four elements, by their positions (as floating point numbers), and their weights. Owned. */
typedef struct taps { int count; td_tensor *at[4], *weight[4]; } taps;

/* Cubic taps are put inside one by one, as PyTorch does; for the other modes the position is, before it is split. */
static int find(taps *t, td_tensor *grid, int d, int64_t size, int64_t mode, int64_t padding, bool align)
{
    TD_AUTO td_tensor *place = td_select_int(grid, -1, d);
    double n = (double)size;
    TD_AUTO td_tensor *free_x = align ? scaled(place, (n - 1) / 2, (n - 1) / 2) : scaled(place, n / 2, (n - 1) / 2);
    TD_AUTO td_tensor *x = mode == TD_SAMPLE_CUBIC ? (free_x ? td_ref(free_x) : NULL) : inside(free_x, size, padding, align);
    TD_AUTO td_tensor *base = mode == TD_SAMPLE_NEAREST ? td_round(x) : td_floor(x);
    TD_AUTO td_tensor *part = td_minus(x, base);
    t->count = mode == TD_SAMPLE_NEAREST ? 1 : mode == TD_SAMPLE_LINEAR ? 2 : 4;
    for (int k = 0; k < t->count; k++) {
        TD_AUTO td_tensor *next = td_plus(base, td_float(mode == TD_SAMPLE_CUBIC ? k - 1 : k));
        t->at[k] = mode == TD_SAMPLE_CUBIC ? inside(next, size, padding, align) : next ? td_ref(next) : NULL;
        /* Of the nearest element the position takes part with a gradient of zero, a sign's, as in PyTorch. */
        TD_AUTO td_tensor *sign = mode == TD_SAMPLE_NEAREST ? td_sign(x) : td_ref(TD_NONE);
        t->weight[k] = mode == TD_SAMPLE_NEAREST ? scaled(sign, 0, 1) : mode == TD_SAMPLE_CUBIC ? cubic(part, k)
            : k ? (part ? td_ref(part) : NULL) : scaled(part, -1, 1);
        if (!t->at[k] || !t->weight[k])
            return -1;
    }
    return 0;
}

/* The elements at whole positions times the weights, one tap per dimension; zero outside.
 * Positions have no derivative and are detached; the weights carry the grid's. An index outside is clamped so that
 * gather can read something, and its weight is multiplied by false. */
static td_tensor *tap(td_tensor *flat, td_tensor *input, const taps *t, const int *k)
{
    int dims = input->ndim - 2, ndim = input->ndim;
    TD_AUTO td_tensor *index = td_wrapped_number(td_int(0)), *weight = td_wrapped_number(td_int(1));
    TD_AUTO td_tensor *zero = td_wrapped_number(td_int(0));
    for (int d = 0; d < dims; d++) {
        const td_scalar least = td_float(0), most = td_float((double)input->sizes[2 + d] - 1);
        TD_AUTO td_tensor *last = td_wrapped_number(most), *at = td_detach(t[d].at[k[d]]);
        TD_AUTO td_tensor *low = td_ge_tensor(at, zero), *high = td_le_tensor(at, last), *here = td_logical_and(low, high);
        TD_AUTO td_tensor *safe = td_clamp(at, &least, &most);
        TD_AUTO td_tensor *whole = td_to_dtype(safe, TD_I64, false, false, TD_MEMORY_FORMAT_NONE);
        TD_AUTO td_tensor *row = td_times(index, td_int(input->sizes[2 + d]));
        TD_AUTO td_tensor *present = td_mul_tensor(t[d].weight[k[d]], here);
        td_tensor *sum = td_add_tensor(row, whole, td_int(1)), *product = td_mul_tensor(weight, present);
        td_tensor_release(index), td_tensor_release(weight);
        index = sum, weight = product;
    }
    if (!index || !weight)
        return NULL;
    int64_t channels = input->sizes[1], each = index->numel / (input->sizes[0] ? input->sizes[0] : 1), sizes[TD_MAX_DIMS];
    const int64_t wide[3] = {input->sizes[0], channels, each};
    TD_AUTO td_tensor *row = td_reshape(index, 3, (int64_t[]){input->sizes[0], 1, each});
    TD_AUTO td_tensor *all = td_expand(row, 3, wide);
    TD_AUTO td_tensor *values = td_gather(flat, 2, all, false);
    for (int i = 2; i < ndim; i++)
        sizes[i] = index->sizes[i - 1];
    sizes[0] = wide[0], sizes[1] = channels;
    TD_AUTO td_tensor *shaped = td_reshape(values, ndim, sizes), *factor = td_unsqueeze(weight, 1);
    return td_mul_tensor(shaped, factor);
}

/* The sum over all combinations of taps (4 or 8 for linear, 16 for cubic, 1 for nearest), counted by k as digits of a
 * number whose last one is fastest. */
static td_tensor *recorded(td_tensor *input, td_tensor *grid, int64_t mode, int64_t padding, bool align)
{
    int dims = input->ndim - 2, k[3] = {0};
    taps t[3] = {{0}};
    int64_t elements = 1;
    bool fine = true;
    for (int d = 0; d < dims && fine; d++) {
        fine = !find(&t[d], grid, dims - 1 - d, input->sizes[2 + d], mode, padding, align);
        elements *= input->sizes[2 + d];
    }
    TD_AUTO td_tensor *flat = td_reshape(input, 3, (int64_t[]){input->sizes[0], input->sizes[1], elements});
    td_tensor *total = NULL;
    for (bool more = fine && flat; more;) {
        TD_AUTO td_tensor *one = tap(flat, input, t, k);
        td_tensor *sum = total ? td_add_tensor(total, one, td_int(1)) : one ? td_ref(one) : NULL;
        td_tensor_release(total);
        total = sum;
        more = false;
        for (int d = dims - 1; d >= 0 && !more && total; d--)       /* the next combination */
            if (++k[d] < t[d].count)
                more = true;
            else
                k[d] = 0;
    }
    for (int d = 0; d < dims; d++)
        for (int i = 0; i < t[d].count; i++)
            td_tensor_release(t[d].at[i]), td_tensor_release(t[d].weight[i]);
    return total;
}

typedef struct modes { int64_t mode, padding; bool align; } modes;

static int again(td_tensor **made, td_tensor *const *operands, const void *context)
{
    const modes *m = context;
    return (made[0] = recorded(operands[0], operands[1], m->mode, m->padding, m->align)) ? 0 : -1;
}

int td_op_grid_sampler_grad(td_tensor **results, td_tensor *grad, td_tensor *input, td_tensor *grid, int64_t mode,
                            int64_t padding, bool align, int64_t n_wants, const bool *wants)
{
    if (!TD_RECORDS(grad, input, grid))
        return td_grid_sampler_backward(results, grad, input, grid, mode, padding, align, n_wants, wants);
    return td_recorded_gradients(again, &(modes){mode, padding, align}, 1, &grad, 2, (td_tensor *[]){input, grid}, wants, results);
}

/* ---- grids ---------------------------------------------------------------------------------------------------------- */

/* Coordinates of `count` elements. Without align they are centres: the ends are half an element inside of -1 and 1. */
static td_tensor *line(td_tensor *theta, int64_t count, bool align)
{
    if (count <= 1)
        return td_zeros(1, &count, (td_dtype)theta->dtype, theta->device);
    TD_AUTO td_tensor *x = td_linspace(td_float(-1), td_float(1), count, (td_dtype)theta->dtype, theta->device);
    return align ? (x ? td_ref(x) : NULL) : td_times(x, td_float((double)(count - 1) / (double)count));
}

/* The points (x, y, 1) or (x, y, z, 1) of a regular grid, a row each, the same ones for each of size[0] maps. */
static td_tensor *regular_grid(td_tensor *like, int64_t n_size, const int64_t *size, bool align, int64_t *points)
{
    int dims = (int)n_size - 2;
    if (dims != 2 && dims != 3)
        return td_fail(TD_E_RUNTIME, "AffineGridGenerator needs 4d (spatial) or 5d (volumetric) inputs.");
    td_tensor *parts[4] = {NULL};
    bool fine = true;
    *points = 1;
    for (int d = 0; d < dims; d++)
        *points = td_mul_saturated(*points, size[2 + d]);
    for (int d = 0; d < dims; d++) {             /* the last dimension's coordinate comes first */
        int64_t shape[3] = {1, 1, 1};
        shape[d] = size[2 + d];
        TD_AUTO td_tensor *x = line(like, size[2 + d], align), *apart = td_reshape(x, dims, shape);
        parts[dims - 1 - d] = td_expand(apart, dims, size + 2);
        fine &= parts[dims - 1 - d] != NULL;
    }
    parts[dims] = td_ones(dims, size + 2, (td_dtype)like->dtype, like->device);
    TD_AUTO td_tensor *base = fine && parts[dims] ? td_stack(dims + 1, parts, -1) : NULL;
    for (int d = 0; d <= dims; d++)
        td_tensor_release(parts[d]);
    TD_AUTO td_tensor *rows = td_reshape(base, 3, (int64_t[]){1, *points, dims + 1});
    return td_expand(rows, 3, (int64_t[]){size[0], *points, dims + 1});
}

/* Each point times theta's transpose: one batched product. */
td_tensor *td_op_affine_grid_generator(td_tensor *theta, int64_t n_size, const int64_t *size, bool align)
{
    int64_t sizes[5], points;
    TD_AUTO td_tensor *each = regular_grid(theta, n_size, size, align, &points);
    TD_AUTO td_tensor *transposed = td_transpose_int(theta, 1, 2);
    TD_AUTO td_tensor *moved = td_bmm(each, transposed);
    if (!moved)
        return NULL;
    const int dims = (int)n_size - 2;
    sizes[0] = size[0], sizes[1 + dims] = dims;
    memcpy(sizes + 1, size + 2, (size_t)dims * sizeof(int64_t));
    return td_reshape(moved, dims + 2, sizes);
}
td_tensor *td_op_affine_grid_generator_backward(td_tensor *grad, int64_t n_size, const int64_t *size, bool align)
{
    int64_t points;
    TD_AUTO td_tensor *each = regular_grid(grad, n_size, size, align, &points);
    TD_AUTO td_tensor *moved = each ? td_reshape(grad, 3, (int64_t[]){size[0], points, n_size - 2}) : NULL;
    TD_AUTO td_tensor *columns = td_transpose_int(each, 1, 2);
    TD_AUTO td_tensor *shares = td_bmm(columns, moved);
    return td_transpose_int(shares, 1, 2);
}
