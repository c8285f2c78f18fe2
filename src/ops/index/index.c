/* gather, scatter, scatter_add, scatter_reduce, take, put, take_along_dim and the index_ family (index_select, index_add,
 * index_copy, index_fill, index_reduce): checks, then one call of td_pick_run, whose kernel is
 * src/kernels/cpu/move/index.c.
 *
 * The in-place form does the work; the functional one works on a copy. Every index is checked before the first element is
 * written, so a refused call leaves self as it was; but where the result is new, there a part at a time, which reads the
 * index once. Operands that share memory with self are copied first or refused (td_apart, td_check_apart). */

#include "calls_ops_index_index.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tede/kernel.h>
#include "base/names.h"
#include "base/warn.h"
#include "dispatch/outputs.h"
#include "ops/index/index.h"
#include "ops/reduce/reduce.h"
#include "tensor/checked.h"
#include "tensor/recorded.h"

td_tensor *td_index_of(const char *op, td_tensor *index)
{
    if (index->dtype != TD_I64 && index->dtype != TD_I32 && index->numel)
        return td_fail(TD_E_RUNTIME, "%s(): Expected dtype int32/int64 for index but got %s", op,
                       td_dtype_title((td_dtype)index->dtype));
    return td_as_contiguous(index, TD_I64);
}

/* The same for loops that follow its strides: an expanded index stays as small as it is. */
static td_tensor *strided_index(const char *op, td_tensor *index)
{
    return index->dtype == TD_I64 ? td_tensor_retain(index) : td_index_of(op, index);
}

/* Whether dimension `outer` goes on where `inner` ends, on all three sides: then they are one. */
static bool mergeable(const td_picking *p, int outer, int inner)
{
    int64_t n = p->sizes[inner];
    return p->far[outer] == p->far[inner] * n && p->near[outer] == p->near[inner] * n && p->along[outer] == p->along[inner] * n;
}

static void take_dim(td_picking *p, int to, int from)
{
    p->sizes[to] = p->sizes[from], p->far[to] = p->far[from], p->near[to] = p->near[from], p->along[to] = p->along[from];
}

void td_picking_merge(td_picking *p)
{
    int kept = 0;
    for (int d = 0; d < p->ndim; d++)
        if (p->sizes[d] != 1)
            take_dim(p, kept++, d);
    int last = 0;
    for (int d = 1; d < kept; d++) {
        if (mergeable(p, last, d)) {
            int64_t n = p->sizes[last];
            take_dim(p, last, d);
            p->sizes[last] *= n;
        } else {
            take_dim(p, ++last, d);
        }
    }
    p->ndim = last + 1;
    if (kept == 0)
        p->sizes[0] = 1, p->far[0] = p->near[0] = p->along[0] = 0;
}

/* Smallest and largest, without visiting elements again that strides of 0 repeat. */
static int index_bounds(const td_tensor *index, int64_t *low, int64_t *high)
{
    int64_t sizes[TD_MAX_DIMS];
    for (int d = 0; d < index->ndim; d++)
        sizes[d] = index->strides[d] == 0 ? 1 : index->sizes[d];
    TD_AUTO td_tensor *once = td_view_strided((td_tensor *)index, index->ndim, sizes, index->strides, 0);
    TD_AUTO td_tensor *flat = once ? td_make_contiguous(once) : NULL;
    if (!flat)
        return -1;
    return td_index_bounds(flat, low, high);
}

int td_index_check(const td_tensor *index, const td_tensor *far, const td_index_rule *rule)
{
    if (index->device.type == TD_META || index->numel == 0 || (index->device.type != TD_CPU && far->numel && rule->size > 0))
        return 0;
    int64_t low, high;
    if (index_bounds(index, &low, &high))
        return -1;
    if (low >= 0 && high < rule->size)
        return 0;
    if (rule->text)
        return td_error(rule->code, "%s", rule->text);
    return td_error(rule->code, "index %" PRId64 " is out of bounds for dimension %d with size %" PRId64, low < 0 ? low : high, rule->dim, rule->size);
}

/* Compares the ranges of bytes from the lowest element to the highest, which may lie before `data` where strides are
 * negative. Two interleaved tensors (even and odd columns) are said to meet; td_check_apart therefore uses it for dense
 * ones only. */
bool td_share_elements(const td_tensor *a, const td_tensor *b)
{
    int64_t low, high, other_low, other_high;
    if (!a->storage || a->storage != b->storage || a->numel == 0 || b->numel == 0 ||
        !td_bounds(a->ndim, a->sizes, a->strides, &low, &high) ||
        !td_bounds(b->ndim, b->sizes, b->strides, &other_low, &other_high))
        return false;
    const char *from = a->data + low * td_itemsize(a), *to = a->data + (high + 1) * td_itemsize(a);
    const char *other_from = b->data + other_low * td_itemsize(b), *other_to = b->data + (other_high + 1) * td_itemsize(b);
    return from < other_to && other_from < to;
}

int td_check_apart(const td_tensor *out, const td_tensor *input)
{
    return out == input || (td_is_dense(out) && td_is_dense(input) && td_share_elements(out, input))
        ? td_error(TD_E_RUNTIME, "unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                   "single memory location. Please clone() the tensor before performing the operation.") : 0;
}

/* The out= form computes a new tensor and copies it (td_finish_out), so shared memory would do no harm; it is refused
 * because PyTorch refuses it. */
int td_index_out(td_tensor *out, const td_tensor *self, const td_tensor *index, const char *message)
{
    if (td_check_overlap("out", out, 0, NULL))
        return -1;
    if (td_check_apart(out, self) || td_check_apart(out, index))
        return -1;
    return out->dtype == self->dtype ? 0 : td_error(TD_E_RUNTIME, "%s", message);
}

/* The copy that a functional form worked on, or NULL (and no copy left) where its in-place form failed. */
static td_tensor *finish_functional(td_tensor *copy, int status)
{
    if (copy && status) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}

/* ---- look-ups */

int td_lookup_begin(td_lookup *l, td_tensor *self, int64_t n, td_tensor *const *indices)
{
    for (int64_t i = 0; i < n; i++)
        if (indices[i] != TD_NONE && td_settle(indices[i]))
            return -1;
    l->late = td_is_recorded(NULL, 1, &self);
    if (!l->late && td_settle(self))
        return -1;
    l->exclude = td_pause_region();
    return 0;
}

void td_lookup_end(const td_lookup *l) { td_masks_now.exclude = l->exclude; }

td_tensor *td_lookup_result(const td_lookup *l, td_tensor *self, int ndim, const int64_t *sizes, const int64_t *strides)
{
    bool empty = false;
    for (int d = 0; d < ndim; d++)
        empty |= !sizes[d];
    if (l->late && !empty)
        return td_regions.make(ndim, sizes, strides, (td_dtype)self->dtype);
    return strides ? td_tensor_new_strided(ndim, sizes, strides, (td_dtype)self->dtype, self->device)
                   : td_tensor_new(ndim, sizes, (td_dtype)self->dtype, self->device);
}

static int picked(const void *context, td_tensor *const *tensors)
{
    td_picking p = *(const td_picking *)context;
    memcpy(p.of, tensors, sizeof p.of);
    p.far_data = tensors[0]->data, p.near_data = tensors[1]->data, p.index = (const int64_t *)tensors[2]->data;
    return td_pick_run(&p);
}

int td_lookup_run(const td_lookup *l, td_picking *p)
{
    return l->late ? td_regions.work(&(td_late_work){picked, p, sizeof *p, 3, 1u << 1}, p->of) : td_pick_run(p);
}

/* ---- gather and scatter */

/* What all picks have in common; the arrays by dimension are left as they are. */
static void begin_pick(td_picking *p, td_place what, td_tensor *far, td_tensor *near, td_tensor *index)
{
    memset(p, 0, offsetof(td_picking, sizes));
    p->what = what, p->dtype = (td_dtype)far->dtype, p->range = p->limit = 0, p->outside = false;
    p->of[0] = far, p->of[1] = near, p->of[2] = index, p->far_data = far->data, p->near_data = near->data, p->index = (const int64_t *)index->data;
    p->far_bytes = td_mul_saturated(far->numel, td_itemsize(far));
}

/* gather's and scatter's loop: over the index's shape, which may be a corner of near's, and of far's except along `dim`,
 * where far's coordinate comes from the index (stride 0, reach instead). A near of 0 dimensions is one value for all. */
static void along_dim(td_picking *p, td_place what, td_tensor *far, td_tensor *near, td_tensor *index, int dim)
{
    td_geometry f = td_geometry_of(far), i = td_geometry_of(index);
    int64_t item = td_itemsize(far);
    begin_pick(p, what, far, near, index);
    p->ndim = i.ndim, p->reach = f.strides[dim] * item;
    for (int d = 0; d < i.ndim; d++) {
        p->sizes[d] = i.sizes[d], p->along[d] = i.strides[d];
        p->far[d] = d == dim ? 0 : f.strides[d] * item;
        p->near[d] = d < near->ndim ? near->strides[d] * item : 0;
    }
}

/* The index may be smaller than self and src in every dimension, as in PyTorch, but larger than self only along dim. 0-dim
 * tensors count as vectors of one. The number of steps is checked too: an expanded index costs no memory and could ask for
 * more of them than any loop finishes. */
static int check_ranks(const char *op, const td_tensor *self, const td_tensor *index, const td_tensor *src, int dim)
{
    if (td_check_steps(op, index->numel))
        return -1;
    td_geometry s = td_geometry_of(self), i = td_geometry_of(index), g = td_geometry_of(src ? src : index);
    td_shape_text a, b, c;
    if (i.ndim != s.ndim)
        return td_error(TD_E_RUNTIME, "%s: Index tensor must have the same number of dimensions as %s tensor", op,
                        src ? "self" : "input");
    if (g.ndim != i.ndim)
        return td_error(TD_E_RUNTIME, "%s: Index tensor must have the same number of dimensions as src tensor", op);
    for (int d = 0; d < i.ndim; d++) {
        if (d != dim && i.sizes[d] > s.sizes[d] && !src)
            return td_error(TD_E_RUNTIME, "Size does not match at dimension %d expected index %s to be no larger than self %s "
                            "apart from dimension %d", d, td_shape_str(index->ndim, index->sizes, a),
                            td_shape_str(self->ndim, self->sizes, b), dim);
        if ((d != dim && i.sizes[d] > s.sizes[d]) || (src && i.sizes[d] > g.sizes[d]))
            return td_error(TD_E_RUNTIME, "Expected index %s to be no larger than self %s apart from dimension %d and to be no "
                            "larger size than src %s", td_shape_str(index->ndim, index->sizes, a),
                            td_shape_str(self->ndim, self->sizes, b), dim, td_shape_str(src->ndim, src->sizes, c));
    }
    return 0;
}

/* result[i][j][k] = self[index[i][j][k]][j][k] for dim 0. A contiguous index is checked by the kernel part by part, while
 * it is in the cache (limit); others, and those into an empty dimension, are checked before. If the kernel met an index
 * outside, the check runs again for the message's sake and the unfinished result is dropped. sparse_grad concerns only the
 * gradient, see the entry in ops/index.yaml. */
static td_tensor *gather(const td_lookup *l, td_tensor *self, int64_t dim, td_tensor *index)
{
    int d = td_wrap_dim(dim, self->ndim);
    TD_AUTO td_tensor *at = d < 0 ? NULL : strided_index("gather", index);
    if (!at)
        return NULL;
    if (index->numel && check_ranks("gather", self, at, NULL, d))
        return NULL;
    const int64_t size = self->ndim ? self->sizes[d] : 1;
    const td_index_rule rule = {size, TD_E_RUNTIME, "gather", NULL, d};
    const bool later = td_tensor_is_contiguous(at) && size > 0 && self->device.type == TD_CPU && !l->late;
    if (!later && td_index_check(at, self, &rule))
        return NULL;
    TD_AUTO td_tensor *out = td_lookup_result(l, self, index->ndim, index->sizes, NULL);
    if (!out || out->numel == 0 || out->device.type == TD_META)
        return td_tensor_retain(out);
    td_picking p;
    along_dim(&p, TD_PLACE_GET, self, out, at, d);
    p.limit = later ? size : 0, p.rule = rule;
    if (td_lookup_run(l, &p))
        return NULL;
    return p.outside && td_index_check(at, self, &rule) ? NULL : td_tensor_retain(out);
}

td_tensor *td_op_gather(td_tensor *self, int64_t dim, td_tensor *index, bool sparse_grad)
{
    (void)sparse_grad;
    td_lookup l;
    if (td_lookup_begin(&l, self, 1, &index))
        return NULL;
    td_tensor *out = gather(&l, self, dim, index);
    td_lookup_end(&l);
    return out;
}

/* What `place` adds or multiplies into self is kept in float32 and rounded once, where self holds halves; a copy goes there and
 * back.  index_put, put and index_add in the middle of a shape round after each element, as in PyTorch. */
static bool is_half(const td_tensor *x) { return x->dtype == TD_F16 || x->dtype == TD_BF16; }

/* src may be a 0-dim value, which is placed everywhere. */
static int scatter(const char *op, td_place what, td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src, bool value)
{
    int d = td_wrap_dim(dim, self->ndim);
    TD_AUTO td_tensor *at = d < 0 ? NULL : strided_index(op, index);
    if (!at || td_check_overlap(op, self, 0, NULL) || td_check_apart(self, index) || td_check_apart(self, src))
        return -1;
    if (src->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "%s(): Expected self.dtype to be equal to src.dtype", op);
    if (index->numel == 0)
        return 0;
    if (check_ranks(op, self, at, value ? NULL : src, d))
        return -1;
    const td_index_rule rule = {self->ndim ? self->sizes[d] : 1, TD_E_RUNTIME, op, NULL, d};
    if (td_index_check(at, self, &rule))
        return -1;
    if (self->device.type == TD_META)
        return 0;
    TD_AUTO td_tensor *near = td_apart(src, self);
    TD_AUTO td_tensor *safe = td_apart(at, self);
    if (!near || !safe)
        return -1;
    td_picking p;
    if (is_half(self) && (what == TD_PLACE_ADD || what == TD_PLACE_MUL)) {
        TD_AUTO td_tensor *sums = td_as_contiguous(self, TD_F32), *parts = td_to(near, TD_F32);
        if (!sums || !parts)
            return -1;
        along_dim(&p, what, sums, parts, safe, d);
        p.rule = rule;
        return td_pick_run(&p) ? -1 : td_copy_elements(self, sums);
    }
    along_dim(&p, what, self, near, safe, d);
    p.rule = rule;
    return td_pick_run(&p);
}

/* A number as it is in self's dtype: one of its own would round what float64 can hold. */
static td_tensor *number_for(const td_tensor *self, td_scalar value)
{
    /* A copy of it to a device would wait. */
    TD_AUTO td_tensor *number = td_tensor_new(0, NULL, (td_dtype)self->dtype, td_is_outside(self->device) ? self->device : (td_device){TD_CPU, -1});
    return number && td_fill_value(number, value) == 0 ? td_tensor_retain(number) : NULL;
}

/* A number goes through the same kernel as a 0-dim src. */
static int scatter_number(const char *op, td_place what, td_tensor *self, int64_t dim, td_tensor *index, td_scalar value)
{
    TD_AUTO td_tensor *number = number_for(self, index->numel ? value : td_int(0));      /* where it goes nowhere, it needn't fit */
    return number ? scatter(op, what, self, dim, index, number, true) : -1;
}

static int place_of(const char *op, const char *reduce, td_place *what)
{
    if (!strcmp(reduce, "add"))
        *what = TD_PLACE_ADD;
    else if (!strcmp(reduce, "multiply"))
        *what = TD_PLACE_MUL;
    else
        return td_error(TD_E_RUNTIME, "%s: reduce argument must be either add or multiply, not %s", op, reduce);
    return 0;
}

int td_op_scatter_src_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src)
{
    return scatter("scatter", TD_PLACE_SET, self, dim, index, src, false);
}
int td_op_scatter_value_(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value)
{
    return scatter_number("scatter", TD_PLACE_SET, self, dim, index, value);
}
int td_op_scatter_reduce_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src, const char *reduce)
{
    td_place what = TD_PLACE_ADD;
    if (TD_WARN_ONCE("The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch release. "
                "Use torch.scatter_reduce instead for more reduction options."))
        return -1;
    return place_of("scatter", reduce, &what) ? -1 : scatter("scatter", what, self, dim, index, src, false);
}
int td_op_scatter_value_reduce_(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value, const char *reduce)
{
    td_place what = TD_PLACE_ADD;
    return place_of("scatter", reduce, &what) ? -1 : scatter_number("scatter", what, self, dim, index, value);
}
int td_op_scatter_add_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src)
{
    return scatter("scatter_add", TD_PLACE_ADD, self, dim, index, src, false);
}

td_tensor *td_op_scatter_src(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src)
{
    td_tensor *out = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return finish_functional(out, out ? td_op_scatter_src_(out, dim, index, src) : 0);
}
td_tensor *td_op_scatter_value(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value)
{
    td_tensor *out = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return finish_functional(out, out ? td_op_scatter_value_(out, dim, index, value) : 0);
}
td_tensor *td_op_scatter_reduce(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src, const char *reduce)
{
    td_tensor *out = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return finish_functional(out, out ? td_op_scatter_reduce_(out, dim, index, src, reduce) : 0);
}
td_tensor *td_op_scatter_value_reduce(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value, const char *reduce)
{
    td_tensor *out = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return finish_functional(out, out ? td_op_scatter_value_reduce_(out, dim, index, value, reduce) : 0);
}
td_tensor *td_op_scatter_add(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src)
{
    td_tensor *out = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return finish_functional(out, out ? td_op_scatter_add_(out, dim, index, src) : 0);
}

/* ---- reductions into positions: scatter_reduce and index_reduce share what happens around the placing */

typedef struct place_at { const char *op; int64_t dim; td_tensor *index; } place_at;
typedef int place_into(void *context, td_place what, td_tensor *self, td_tensor *src);

static int place_number(place_into *place, void *context, td_place what, td_tensor *self, td_tensor *src, double number)
{
    TD_AUTO td_tensor *values = td_full_like(src, td_float(number), (td_dtype)self->dtype, TD_DEVICE_NONE,
                                             TD_MEMORY_FORMAT_NONE);
    return values ? place(context, what, self, values) : -1;
}

/* sum, prod, amax and amin are one pass of the placing. mean is a sum divided by counts, which are placed the same way, in
 * self's dtype as PyTorch does it (so counts of narrow integers wrap around as there), but in float32 for halves, which count
 * no further than 256 or 2048, and in int64 for complex numbers, since maximum has no complex form. Integers are divided with
 * floor. */
static int reduce_into(const char *op, td_tensor *self, td_tensor *src, const char *reduce, bool include_self,
                       place_into *place, void *context)
{
    bool mean = !strcmp(reduce, "mean"), whole = td_dtype_is_integral((td_dtype)self->dtype);
    td_place what = !strcmp(reduce, "sum") || mean ? TD_PLACE_ADD : !strcmp(reduce, "prod") ? TD_PLACE_MUL
                  : !strcmp(reduce, "amax") ? TD_PLACE_MAX : !strcmp(reduce, "amin") ? TD_PLACE_MIN : TD_PLACE_GET;
    if (what == TD_PLACE_GET)
        return td_error(TD_E_RUNTIME, "%s: reduce argument must be either sum, prod, mean, amax or amin, got %s.", op, reduce);
    bool is_complex = td_dtype_is_complex((td_dtype)self->dtype), extreme = what == TD_PLACE_MAX || what == TD_PLACE_MIN;
    if (((place_at *)context)->index->numel && ((extreme && is_complex) || (mean && self->dtype == TD_BOOL)))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"scatter_gather_tensor_cpu_reduce_%s\" not implemented for '%s'", reduce,
                        td_dtype_title((td_dtype)self->dtype));
    if (!include_self) {
        /* Written positions forget self first. They start from the neutral element, 0 or 1; an extreme's depends on the dtype,
         * so its positions start from one of the elements that go there, which the second pass then meets again without
         * effect. */
        if (extreme ? place(context, TD_PLACE_SET, self, src)
                    : place_number(place, context, TD_PLACE_SET, self, src, what == TD_PLACE_MUL))
            return -1;
    }
    if (place(context, what, self, src))
        return -1;
    if (!mean)
        return 0;
    TD_AUTO td_tensor *counts = td_full_like(self, td_int(include_self), is_complex ? TD_I64 : is_half(self) ? TD_F32 : (td_dtype)self->dtype,
                                             TD_DEVICE_NONE, TD_CONTIGUOUS_FORMAT);
    if (!counts || place_number(place, context, TD_PLACE_ADD, counts, src, 1))
        return -1;
    TD_AUTO td_tensor *one = td_wrapped_number(td_int(1));
    TD_AUTO td_tensor *some = td_maximum(counts, one);
    TD_AUTO td_tensor *below = is_half(self) ? td_to(some, (td_dtype)self->dtype) : td_tensor_retain(some);
    TD_AUTO td_tensor *quotient = whole ? td_floor_divide(self, below) : td_div(self, below);
    return quotient ? td_copy_elements(self, quotient) : -1;
}

static int place_scattered(void *context, td_place what, td_tensor *self, td_tensor *src)
{
    const place_at *p = context;
    return scatter(p->op, what, self, p->dim, p->index, src, false);
}

int td_op_scatter_reduce_two_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src, const char *reduce,
                              bool include_self)
{
    place_at at = {"scatter_reduce", dim, index};
    return reduce_into("scatter_reduce", self, src, reduce, include_self, place_scattered, &at);
}
td_tensor *td_op_scatter_reduce_two(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src, const char *reduce,
                                    bool include_self)
{
    td_tensor *out = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return finish_functional(out, out ? td_op_scatter_reduce_two_(out, dim, index, src, reduce, include_self) : 0);
}

/* ---- the index_ family: one index per position of a dimension */

static td_tensor *vector_index(const char *op, td_tensor *index)
{
    if (index->dtype != TD_I64 && index->dtype != TD_I32)
        return td_fail(TD_E_RUNTIME, "%s(): Expected dtype int32/int64 for index but got: %s", op, td_dtype_title((td_dtype)index->dtype));
    if (index->ndim > 1)
        return td_fail(TD_E_INDEX, "%s(): Index is supposed to be a vector, but got dim: %d", op, index->ndim);
    return td_index_of(op, index);
}

/* The index_ family's loop: over far's shape with `n` positions along dim, where far's coordinate comes from the index. The
 * index has stride 1 along dim and 0 along all others, so it is never expanded in memory. `value`: near is one element for
 * all. */
static void along_vector(td_picking *p, td_place what, td_tensor *far, td_tensor *near, td_tensor *index,
                         int dim, bool value)
{
    td_geometry f = td_geometry_of(far);
    int64_t item = td_itemsize(far);
    begin_pick(p, what, far, near, index);
    p->ndim = f.ndim, p->reach = f.strides[dim] * item;
    for (int d = 0; d < f.ndim; d++) {
        p->sizes[d] = d == dim ? index->numel : f.sizes[d];
        p->along[d] = d == dim;
        p->far[d] = d == dim ? 0 : f.strides[d] * item;
        p->near[d] = value || d >= near->ndim ? 0 : near->strides[d] * item;
    }
}

static td_tensor *index_select(const td_lookup *l, td_tensor *self, int64_t dim, td_tensor *index)
{
    int d = td_wrap_dim(dim, self->ndim);
    TD_AUTO td_tensor *at = d < 0 ? NULL : vector_index("index_select", index);
    if (!at)
        return NULL;
    if (self->ndim == 0 && at->numel != 1)
        return td_fail(TD_E_RUNTIME, "index_select(): Index to scalar can have only 1 value, got %" PRId64 " value(s)", at->numel);
    if (at->numel && self->ndim && !self->sizes[d])
        return td_fail(TD_E_RUNTIME, "index_select(): self indexing axis dim should be positive");
    const td_index_rule rule = {self->ndim ? self->sizes[d] : 1, self->numel ? TD_E_INDEX : TD_E_RUNTIME, "index_select",
                                self->numel ? "index out of range in self" : "INDICES element is out of DATA bounds", d};
    if (td_index_check(at, self, &rule))
        return NULL;
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, self->sizes, sizeof(int64_t) * self->ndim);
    if (self->ndim)
        sizes[d] = at->numel;
    td_tensor *out = td_lookup_result(l, self, self->ndim, sizes, NULL);
    if (!out || out->numel == 0 || out->device.type == TD_META)
        return out;
    td_picking p;
    along_vector(&p, TD_PLACE_GET, self, out, at, d, false);
    p.rule = rule;
    if (td_lookup_run(l, &p)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}

td_tensor *td_op_index_select(td_tensor *self, int64_t dim, td_tensor *index)
{
    td_lookup l;
    if (td_lookup_begin(&l, self, 1, &index))
        return NULL;
    td_tensor *out = index_select(&l, self, dim, index);
    td_lookup_end(&l);
    return out;
}

bool td_is_expanded(const td_tensor *x)
{
    for (int d = 0; d < x->ndim; d++)
        if (x->sizes[d] > 1 && x->strides[d] == 0)
            return true;
    return false;
}

int td_warn_expanded(const char *op, const char *form)
{
    return td_warn("Use of %s on expanded tensors is deprecated. Please clone() the tensor before performing this operation. This "
                   "also applies to advanced indexing e.g. %s", op, form);
}

/* What differs between the index_* operators.  PyTorch's index_add_ has a separate kernel for several dimensions, which raises
 * RuntimeError and checks no index where self has no elements; along the first or last dimension it adds up as scatter_add does. */
typedef enum along {
    ALONG_PLAIN = 0,
    ALONG_ONE_VALUE = 1,        /* src is one element */
    ALONG_ROWS = 2,             /* several dimensions' own kernel */
    ALONG_WIDE = 4,             /* with ALONG_ROWS: halves are added up in float32 */
} along;

/* self[..., index[i], ...] = or += ... src[..., i, ...] along one dimension. */
static int put_along(const char *op, td_place what, td_tensor *self, int64_t dim, td_tensor *index, td_tensor *src, along how)
{
    const bool value = how & ALONG_ONE_VALUE, rows = how & ALONG_ROWS, wide = rows && how & ALONG_WIDE;
    int d = td_wrap_dim(dim, self->ndim);
    if (value && index->ndim > 1)
        return td_error(TD_E_RUNTIME, "Index has to be a vector/scalar");
    TD_AUTO td_tensor *at = d < 0 ? NULL : vector_index(op, index);
    if (!at || (value && td_is_expanded(self) ? td_warn_expanded(op, "tensor[mask] = scalar")
                                              : td_check_overlap(op, self, 0, NULL)))
        return -1;
    if (td_check_apart(self, index) || td_check_apart(self, src))
        return -1;
    if (src->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "%s(): self (%s) and source (%s) must have the same scalar type", op,
                        td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)src->dtype));
    if (!value) {
        td_geometry s = td_geometry_of(self), g = td_geometry_of(src);
        td_shape_text a, b;
        if (g.ndim != s.ndim || (src->ndim != self->ndim && what != TD_PLACE_SET))
            return td_error(TD_E_RUNTIME, "%s(): source tensor shape must match self tensor shape, excluding the specified "
                            "dimension. Got self.shape = %s source.shape = %s", op, td_shape_str(self->ndim, self->sizes, a),
                            td_shape_str(src->ndim, src->sizes, b));
        if (g.sizes[d] != at->numel)
            return td_error(what == TD_PLACE_SET ? TD_E_INDEX : TD_E_RUNTIME, "%s(): Number of indices (%" PRId64 ") should be equal "
                            "to source.size(dim): (%" PRId64 "), for dim: %d", op, at->numel, g.sizes[d], d);
        for (int k = 0; k < s.ndim; k++)
            if (k != d && s.sizes[k] != g.sizes[k])
                return td_error(TD_E_RUNTIME, "%s(): source tensor shape must match self tensor shape, excluding the specified "
                                "dimension. Got self.shape = %s source.shape = %s", op,
                                td_shape_str(self->ndim, self->sizes, a), td_shape_str(src->ndim, src->sizes, b));
    }
    /* Elements are reduced by a kernel that looks at each index, whatever there is along the other dimensions. */
    bool others = true;         /* elements along the other dimensions */
    for (int k = 0; k < self->ndim; k++)
        others &= k == d || self->sizes[k];
    const bool reads = self->numel || (!rows && (what != TD_PLACE_SET || (others && self->sizes[d] == 0)));
    const td_index_rule rule = {self->ndim ? self->sizes[d] : 1, rows ? TD_E_RUNTIME : TD_E_INDEX, op,
                                rows || what == TD_PLACE_SET ? NULL : "index out of range in self", d};
    if (reads && td_index_check(at, self, &rule))
        return -1;
    if (self->numel == 0 || at->numel == 0 || self->device.type == TD_META)
        return 0;
    TD_AUTO td_tensor *near = td_apart(src, self);
    TD_AUTO td_tensor *safe = td_apart(at, self);
    if (!near || !safe)
        return -1;
    td_picking p;
    if (wide && is_half(self) && (d == 0 || d == self->ndim - 1) && index->dtype == TD_I64) {
        TD_AUTO td_tensor *sums = td_as_contiguous(self, TD_F32), *parts = td_to(near, TD_F32);
        if (!sums || !parts)
            return -1;
        along_vector(&p, what, sums, parts, safe, d, value);
        p.rule = rule;
        return td_pick_run(&p) ? -1 : td_copy_elements(self, sums);
    }
    along_vector(&p, what, self, near, safe, d, value);
    p.rule = rule;
    return td_pick_run(&p);
}

/* Negative indices count from the end where PyTorch lets them: in index_fill. */
static td_tensor *counted_from_end(td_tensor *index, int64_t size)
{
    TD_AUTO td_tensor *n = td_wrapped_number(td_int(size));
    TD_AUTO td_tensor *zero = td_wrapped_number(td_int(0));
    TD_AUTO td_tensor *below = td_lt(index, zero);
    TD_AUTO td_tensor *from_end = td_add(index, n);
    return td_where(below, from_end, index);
}

/* self[index[i]] += alpha * source[i]. The product is formed first, in source's dtype, and rounded there; for bool a
 * product is `and`. A float alpha is truncated for integers. */
int td_op_index_add_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source, td_scalar alpha)
{
    bool one = alpha.kind != TD_SCALAR_COMPLEX && td_scalar_double(alpha) == 1;
    if (alpha.kind == TD_SCALAR_FLOAT && td_dtype_is_integral((td_dtype)self->dtype))
        alpha = td_int(td_scalar_int(alpha));
    if (td_check_apart(self, source))
        return -1;
    TD_AUTO td_tensor *factor = td_wrapped_number(alpha);
    TD_AUTO td_tensor *scaled = one ? td_tensor_retain(source)
                              : source->dtype == TD_BOOL ? td_logical_and(source, factor) : td_mul(source, factor);
    along how = self->ndim <= 1 ? ALONG_PLAIN : one ? ALONG_ROWS | ALONG_WIDE : ALONG_ROWS;
    return scaled ? put_along("index_add_", TD_PLACE_ADD, self, dim, index, scaled, how) : -1;
}
td_tensor *td_op_index_add(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source, td_scalar alpha)
{
    td_tensor *out = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return finish_functional(out, out ? td_op_index_add_(out, dim, index, source, alpha) : 0);
}
int td_op_index_copy_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source)
{
    if (index->dtype != TD_I64)
        return td_error(TD_E_RUNTIME, "index_copy_(): Expected a long tensor for index, but got %s", td_dtype_title((td_dtype)index->dtype));
    return put_along("index_copy_", TD_PLACE_SET, self, dim, index, source, ALONG_PLAIN);
}
td_tensor *td_op_index_copy(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source)
{
    td_tensor *out = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return finish_functional(out, out ? td_op_index_copy_(out, dim, index, source) : 0);
}
int td_op_index_fill_int_tensor_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *value)
{
    if (value->ndim)
        return td_error(TD_E_RUNTIME, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with %d dimension(s).",
                        value->ndim);
    int d = td_wrap_dim(dim, self->ndim);
    TD_AUTO td_tensor *own = d < 0 ? NULL : td_as_contiguous(value, (td_dtype)self->dtype);
    TD_AUTO td_tensor *cast = own ? td_apart(own, self) : NULL;         /* self may be the value, too */
    if (cast && index->dtype != TD_I64)
        return td_error(TD_E_INDEX, "index_fill_(): Expected dtype int64 for index.");
    if (cast && td_check_apart(self, index))
        return -1;
    TD_AUTO td_tensor *at = cast ? counted_from_end(index, self->ndim ? self->sizes[d] : 1) : NULL;
    return at ? put_along("index_fill_", TD_PLACE_SET, self, dim, at, cast, ALONG_ONE_VALUE) : -1;
}
int td_op_index_fill_int_scalar_(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value)
{
    if (value.kind == TD_SCALAR_COMPLEX && !td_dtype_is_complex((td_dtype)self->dtype))
        return td_error(TD_E_RUNTIME, "index_fill_(): Converting complex Scalar to non-complex type is not supported");
    TD_AUTO td_tensor *number = number_for(self, value);
    return number ? td_op_index_fill_int_tensor_(self, dim, index, number) : -1;
}
td_tensor *td_op_index_fill_int_scalar(td_tensor *self, int64_t dim, td_tensor *index, td_scalar value)
{
    td_tensor *out = td_clone(self);
    return finish_functional(out, out ? td_op_index_fill_int_scalar_(out, dim, index, value) : 0);
}
td_tensor *td_op_index_fill_int_tensor(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *value)
{
    td_tensor *out = td_clone(self);
    return finish_functional(out, out ? td_op_index_fill_int_tensor_(out, dim, index, value) : 0);
}

static int place_indexed(void *context, td_place what, td_tensor *self, td_tensor *src)
{
    const place_at *p = context;
    return put_along(p->op, what, self, p->dim, p->index, src, ALONG_PLAIN);
}
int td_op_index_reduce_(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source, const char *reduce,
                        bool include_self)
{
    if (!strcmp(reduce, "sum"))
        return td_error(TD_E_RUNTIME, "index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got sum.");
    /* PyTorch has a kernel for elements, and reduces slices by operators that take more dtypes. */
    if (self->ndim < 2 && (self->dtype == TD_BOOL || td_dtype_is_complex((td_dtype)self->dtype)))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"index_func_\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    const bool extreme = !strcmp(reduce, "amax") || !strcmp(reduce, "amin");
    if (index->numel && extreme && td_dtype_is_complex((td_dtype)self->dtype))          /* of no elements, too */
        return td_refuse(self, reduce[2] == 'a' ? "maximum_cpu" : "minimum_cpu");
    if (TD_WARN_ONCE("index_reduce() is in beta and the API may change at any time."))
        return -1;
    place_at at = {"index_reduce", dim, index};
    return reduce_into("index_reduce", self, source, reduce, include_self, place_indexed, &at);
}
td_tensor *td_op_index_reduce(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *source, const char *reduce,
                              bool include_self)
{
    td_tensor *out = td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return finish_functional(out, out ? td_op_index_reduce_(out, dim, index, source, reduce, include_self) : 0);
}

/* ---- take and put: indices of the elements in order */

#define OUT_OF_RANGE "out of range: tried to access index %lld on a tensor of %lld elements."

/* Positions in row-major order, -numel ... numel - 1. They stay as they are: the kernel adds `range` to negative ones. An
 * empty index is fine for an empty self. */
static td_tensor *flat_index(const char *op, td_tensor *self, td_tensor *index)
{
    if (index->dtype != TD_I64)
        return td_fail(TD_E_RUNTIME, "%s(): Expected a long tensor for index, but got %s", op,
                       td_dtype_title((td_dtype)index->dtype));
    if (self->numel == 0 && index->numel)
        return td_fail(TD_E_INDEX, "%s(): tried to take from an empty tensor", op);
    td_tensor *at = td_as_contiguous(index, TD_I64);
    int64_t low, high;
    if (!at || at->device.type != TD_CPU)       /* flat_pick has the rule for a device's kernel */
        return at;
    if (td_index_bounds(at, &low, &high)) {
        td_tensor_release(at);
        return NULL;
    }
    if (at->numel && (low < -self->numel || high >= self->numel)) {
        td_tensor_release(at);
        return td_fail(TD_E_INDEX, OUT_OF_RANGE, (long long)(high >= self->numel ? high : low), (long long)self->numel);
    }
    return at;
}

/* take's and put's loop: one dimension, in which the index counts contiguous elements of far, from either end (range). */
static void flat_pick(td_picking *p, td_place what, td_tensor *far, td_tensor *near, td_tensor *index)
{
    begin_pick(p, what, far, near, index);
    p->ndim = 1, p->reach = td_itemsize(far), p->range = far->numel;
    p->rule = (td_index_rule){far->numel, TD_E_INDEX, what == TD_PLACE_GET ? "take" : "put_", OUT_OF_RANGE, 0};
    p->sizes[0] = index->numel, p->far[0] = 0, p->near[0] = td_itemsize(far), p->along[0] = 1;
}

td_tensor *td_op_take(td_tensor *self, td_tensor *index)
{
    TD_AUTO td_tensor *at = flat_index("take", self, index);
    TD_AUTO td_tensor *x = at ? td_make_contiguous(self) : NULL;
    td_tensor *out = x ? td_tensor_new(index->ndim, index->sizes, (td_dtype)self->dtype, self->device) : NULL;
    if (!out || out->numel == 0 || out->device.type == TD_META)
        return out;
    td_picking p;
    flat_pick(&p, TD_PLACE_GET, x, out, at);
    if (td_pick_run(&p)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}

/* self must be contiguous for positions to be offsets; where it isn't, a copy is written and copied back as a whole. */
int td_op_put_(td_tensor *self, td_tensor *index, td_tensor *source, bool accumulate)
{
    if (source->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "put_(): self and source expected to have the same dtype, but got self.dtype = %s and "
                        "source.dtype = %s", td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)source->dtype));
    if (source->numel != index->numel)
        return td_error(TD_E_INDEX, "put_(): Expected source and index to have the same number of elements, but got "
                        "source.numel() = %" PRId64 ", index.numel() = %" PRId64, source->numel, index->numel);
    TD_AUTO td_tensor *at = flat_index("put_", self, index);
    if (!at || td_check_overlap("put_", self, 0, NULL) || td_check_apart(self, index) || td_check_apart(self, source))
        return -1;
    if (at->numel == 0 || self->device.type == TD_META)
        return 0;
    TD_AUTO td_tensor *own = td_apart(source, self);
    TD_AUTO td_tensor *safe = td_apart(at, self);
    TD_AUTO td_tensor *near = own ? td_make_contiguous(own) : NULL;
    TD_AUTO td_tensor *x = near && safe ? td_writable(self, (td_dtype)self->dtype) : NULL;
    if (!x)
        return -1;
    td_picking p;
    flat_pick(&p, accumulate ? TD_PLACE_ADD : TD_PLACE_SET, x, near, safe);
    return td_pick_run(&p) ? -1 : td_write_back(self, x);
}
td_tensor *td_op_put(td_tensor *self, td_tensor *index, td_tensor *source, bool accumulate)
{
    td_tensor *out = td_clone(self);
    return finish_functional(out, out ? td_op_put_(out, index, source, accumulate) : 0);
}

/* gather with self and indices broadcast against each other in all dimensions but dim. Without dim, both are flattened. */
td_tensor *td_op_take_along_dim(td_tensor *self, td_tensor *indices, const int64_t *dim)
{
    if (!dim) {
        TD_AUTO td_tensor *x = td_view(self, 1, (int64_t[]){-1});
        TD_AUTO td_tensor *flat = td_view(indices, 1, (int64_t[]){-1});
        return td_gather(x, 0, flat, false);
    }
    if (indices->dtype != TD_I64)
        return td_fail(TD_E_RUNTIME, "torch.take_along_dim(): dtype of indices should be Long but got %s",
                       td_dtype_title((td_dtype)indices->dtype));
    if (self->ndim != indices->ndim)
        return td_fail(TD_E_RUNTIME, "torch.take_along_dim(): input and indices should have the same number of dimensions, but "
                       "got %d dimensions for input, and %d dimensions for indices", self->ndim, indices->ndim);
    int d = td_wrap_dim(*dim, self->ndim);
    if (d < 0)
        return NULL;
    if (self->ndim == 0)
        return td_fail(TD_E_INDEX, "Dimension specified as %d but tensor has no dimensions", d);
    int64_t mine[TD_MAX_DIMS], theirs[TD_MAX_DIMS];
    td_shape_text a, b;
    for (int k = 0; k < self->ndim; k++) {
        int64_t s = self->sizes[k], i = indices->sizes[k], both = s == 1 ? i : s;
        if (k != d && s != i && s != 1 && i != 1)
            return td_fail(TD_E_RUNTIME, "take_along_dim: the shapes %s and %s don't broadcast at dimension %d",
                           td_shape_str(self->ndim, self->sizes, a), td_shape_str(indices->ndim, indices->sizes, b), k);
        mine[k] = k == d ? s : both, theirs[k] = k == d ? i : both;
    }
    TD_AUTO td_tensor *x = td_expand(self, self->ndim, mine);
    TD_AUTO td_tensor *wide = td_expand(indices, self->ndim, theirs);
    TD_AUTO td_tensor *size = td_wrapped_number(td_int(self->ndim ? self->sizes[d] : 1));
    TD_AUTO td_tensor *at = td_remainder(wide, size);       /* along a dimension, indices go round */
    return td_gather(x, d, at, false);
}

/* src[i] went to self[index[i]], so its gradient is gathered from there; elements of src beyond the index's shape weren't
 * used and get zeros, which are appended dimension by dimension. */
td_tensor *td_op_scatter_src_backward(td_tensor *grad, int64_t dim, td_tensor *index, int64_t n_shape, const int64_t *shape)
{
    td_tensor *part = td_gather(grad, dim, index, false);
    for (int d = 0; d < n_shape && part && d < part->ndim; d++) {
        if (part->sizes[d] == shape[d])
            continue;
        int64_t sizes[TD_MAX_DIMS];
        memcpy(sizes, part->sizes, sizeof(int64_t) * part->ndim);
        sizes[d] = shape[d] - part->sizes[d];
        TD_AUTO td_tensor *zeros = td_new_zeros(part, part->ndim, sizes, TD_DTYPE_NONE, TD_DEVICE_NONE);
        td_tensor *whole = zeros ? td_cat(2, (td_tensor *[]){part, zeros}, d) : NULL;
        td_tensor_release(part);
        part = whole;
    }
    if (!part || part->ndim == n_shape)
        return part;
    td_tensor *shaped = td_reshape(part, n_shape, shape);
    td_tensor_release(part);
    return shaped;
}

/* ---- written to given tensors */

int td_op_gather_out(td_tensor *self, int64_t dim, td_tensor *index, bool sparse_grad, td_tensor *out)
{
    char message[128];
    snprintf(message, sizeof message, "Expected out tensor to have dtype %s, but got %s instead",
             td_cpp_name(self->dtype), td_cpp_name(out->dtype));
    return td_index_out(out, self, index, message) ? -1
         : td_finish_out("gather", out, td_op_gather(self, dim, index, sparse_grad));
}
int td_op_index_select_out(td_tensor *self, int64_t dim, td_tensor *index, td_tensor *out)
{
    return td_index_out(out, self, index, "index_select(): self and result must have the same scalar type") ? -1
         : td_finish_out("index_select", out, td_op_index_select(self, dim, index));
}
int td_op_take_out(td_tensor *self, td_tensor *index, td_tensor *out)
{
    char message[128];
    snprintf(message, sizeof message, "take(): self and out expected to have the same dtype, but got self.dtype = %s and "
             "out.dtype = %s", td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)out->dtype));
    return td_index_out(out, self, index, message) ? -1 : td_finish_out("take", out, td_op_take(self, index));
}
