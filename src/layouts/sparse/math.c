/* Arithmetic with sparse tensors: sums, products and quotients by element.
 *
 * A sum of COO tensors is both lists of elements, one after the other; a product has the elements of one, times what the other has
 * there.  Compressed tensors are converted to COO, and back. */
#include "calls_layouts_sparse_math.h"
#include "base/scalar.h"
#include "layouts/sparse/sparse.h"
#include <inttypes.h>
#include "tensor/layout.h"

static bool same_shape(const td_tensor *a, const td_tensor *b)
{
    return a->ndim == b->ndim && !memcmp(a->sizes, b->sizes, sizeof *a->sizes * a->ndim);
}

/* A number, also as a tensor without dimensions. */
static bool is_number(const td_tensor *x) { return !td_is_sparse(x) && x->ndim == 0; }

static td_dtype common_dtype(td_tensor *a, td_tensor *b)
{
    return td_result_type(2, (td_tensor *[]){a, b});
}

/* ---- sums */

/* to += alpha * x, for a strided `to` and a COO x of its shape: index_add into a view with one dimension for all
 * sparse ones. Repeated indices add up, so x needn't be coalesced. Bools have no index_add, and are or-ed. */
static int add_into_dense(td_tensor *to, td_tensor *x, td_scalar alpha)
{
    const td_sparse *s = td_sparse_of(x);
    TD_AUTO td_tensor *places = td_coo_places(x), *rows = td_sparse_rows(to, s->sparse_dim);
    TD_AUTO td_tensor *values = td_to(s->values, (td_dtype)to->dtype);
    if (!rows || !values || !places)
        return -1;
    if (to->dtype == TD_BOOL) {
        TD_AUTO td_tensor *dense = td_sparse_dense(x);
        return td_logical_or_(to, dense);
    }
    if (td_index_add_(rows, 0, places, values, alpha))
        return -1;
    return rows->storage == to->storage ? 0 : td_copy_elements(to, rows);     /* there was no such view */
}

static int check_dense_sum(td_tensor *self, td_tensor *other)
{
    td_shape_text a, b;
    return same_shape(self, other) ? 0 :
        td_error(TD_E_RUNTIME, "add: expected 'self' and 'other' to have same size, but self has size %s while other has size %s "
                 "(FYI: dense-sparse addition does not currently support broadcasting)",
                 td_shape_str(self->ndim, self->sizes, a), td_shape_str(other->ndim, other->sizes, b));
}

/* The merge of two sorted lists, O(n + m) and without keys, so that no product of sizes can overflow: to which
 * element of the sum each one goes, a's and then b's, and one of those that go to each. Lists in order give a sum in
 * order; of others equal indices needn't meet, and the sum is not marked coalesced. */
static int merge(const td_tensor *a, const td_tensor *b, td_tensor **to, td_tensor **first)
{
    const int64_t n = a->sizes[1], m = b->sizes[1], dims = a->sizes[0];
    const int64_t *p = (const int64_t *)a->data, *q = (const int64_t *)b->data;
    int64_t i = 0, j = 0, count = 0;
    TD_AUTO td_tensor *places = td_empty(1, (int64_t[]){n + m}, TD_I64), *ones = td_empty(1, (int64_t[]){n + m}, TD_I64);
    if (!places || !ones)
        return -1;
    for (; i < n || j < m; count++) {
        int order = i >= n ? 1 : j >= m ? -1 : 0;
        for (int64_t d = 0; d < dims && !order && i < n && j < m; d++)
            order = p[d * n + i] < q[d * m + j] ? -1 : p[d * n + i] > q[d * m + j];
        ((int64_t *)ones->data)[count] = order <= 0 ? i : n + j;
        if (order <= 0)
            ((int64_t *)places->data)[i++] = count;
        if (order >= 0)
            ((int64_t *)places->data)[n + j++] = count;
    }
    *first = td_narrow(ones, 0, 0, count);
    *to = td_ref(places);
    return *first ? 0 : -1;
}

/* Both lists of values one after the other, and for each the element of the merged list that it is added to. Values
 * that aren't contiguous are only listed, as in PyTorch: the gradient of a lookup's sum, a number expanded, stays one. */
static td_tensor *add_coo(td_tensor *self, td_tensor *other, td_scalar alpha)
{
    const td_sparse *a = td_sparse_of(self), *b = td_sparse_of(other);
    td_shape_text p, q;
    if (!same_shape(self, other))
        return td_fail(TD_E_RUNTIME, "add: expected sizes of 'self' and 'other' to match, but %s != %s",
                       td_shape_str(self->ndim, self->sizes, p), td_shape_str(other->ndim, other->sizes, q));
    if (a->sparse_dim != b->sparse_dim)
        return td_fail(TD_E_RUNTIME,
                       "add: expected 'self' and 'other' to have same number of sparse dimensions, but self has %d while "
                       "other has %d",
                       a->sparse_dim, b->sparse_dim);
    td_dtype dtype = common_dtype(self, other);
    TD_AUTO td_tensor *left = td_to(a->values, dtype), *cast = td_to(b->values, dtype);
    TD_AUTO td_tensor *right = td_times(cast, alpha);
    TD_AUTO td_tensor *own = td_make_contiguous(a->indices), *more = td_make_contiguous(b->indices), *to = NULL, *first = NULL;
    TD_AUTO td_tensor *terms = left && right ? td_cat(2, (td_tensor *[]){left, right}, 0) : NULL;
    TD_AUTO td_tensor *all = own && more ? td_cat(2, (td_tensor *[]){own, more}, 1) : NULL;
    if (!terms || !all)
        return NULL;
    if (!td_tensor_is_contiguous(a->values) || !td_tensor_is_contiguous(b->values))
        return td_coo_like(self, all, terms, false);
    if (merge(own, more, &to, &first))
        return NULL;
    TD_AUTO td_tensor *indices = td_index_select(all, 1, first);
    TD_AUTO td_tensor *values = td_rows_added(terms, to, first->numel);
    return td_coo_like(self, indices, values, a->coalesced && b->coalesced);
}

/* strided + sparse is strided: a copy, into which the elements are added. The other order exists only for compressed
 * tensors, as in PyTorch, where alpha is the sparse operand's factor in either order. */
td_tensor *td_sparse_add_tensor(td_tensor *self, td_tensor *other, td_scalar alpha)
{
    if (!td_is_sparse(self) || !td_is_sparse(other)) {
        if (td_is_coo(self))
            return td_fail(TD_E_RUNTIME, "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
        if (td_is_sparse(self))                 /* compressed ones may stand left, too */
            return td_sparse_add_tensor(other, self, alpha);
        TD_AUTO td_tensor *coo = td_sparse_coo(other);
        if (!coo || check_dense_sum(self, other))
            return NULL;
        TD_AUTO td_tensor *sum = td__to_copy(self, common_dtype(self, other), TD_DEVICE_NONE, false, TD_CONTIGUOUS_FORMAT);
        return sum && add_into_dense(sum, coo, alpha) == 0 ? td_ref(sum) : NULL;
    }
    td_shape_text p, q;
    if (!(td_is_coo(self) && td_is_coo(other)) && !same_shape(self, other))
        return td_fail(TD_E_RUNTIME, "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape %s and tensor "
                       "`other` with shape %s", td_shape_str(self->ndim, self->sizes, p), td_shape_str(other->ndim, other->sizes, q));
    TD_AUTO td_tensor *a = td_sparse_coo(self), *b = td_sparse_coo(other);
    TD_AUTO td_tensor *sum = a && b ? add_coo(a, b, alpha) : NULL;
    return td_sparse_like_layout(sum, td_is_coo(self) ? other : self);
}

/* strided += sparse touches only the elements that are there; anything else is made first and then stored. */
int td_sparse_add_tensor_into(td_tensor *out, td_tensor *self, td_tensor *other, td_scalar alpha)
{
    if (out != self || td_is_sparse(self) || !td_is_coo(other))
        return td_finish_out("add", out, td_sparse_add_tensor(self, other, alpha));
    if (check_dense_sum(self, other) || td_check_cast("add", common_dtype(self, other), (td_dtype)self->dtype))
        return -1;
    return add_into_dense(self, other, alpha);
}

/* A compressed self, of which addition takes the strided operand first. */
static td_tensor *less_strided(td_tensor *self, td_tensor *other, td_scalar alpha)
{
    TD_AUTO td_tensor *negated = td_times(other, td_scalar_neg(alpha));
    return negated ? td_sparse_add_tensor(negated, self, td_int(1)) : NULL;
}
static bool takes_strided(const td_tensor *self, const td_tensor *other) { return td_is_sparse(self) && !td_is_coo(self) && !td_is_sparse(other); }

td_tensor *td_sparse_sub_tensor(td_tensor *self, td_tensor *other, td_scalar alpha)
{
    if (takes_strided(self, other))
        return less_strided(self, other, alpha);
    return td_sparse_add_tensor(self, other, td_scalar_neg(alpha));
}
int td_sparse_sub_tensor_into(td_tensor *out, td_tensor *self, td_tensor *other, td_scalar alpha)
{
    if (takes_strided(self, other))
        return td_finish_out("sub", out, less_strided(self, other, alpha));
    return td_sparse_add_tensor_into(out, self, other, td_scalar_neg(alpha));
}

/* ---- products */

/* The COO tensor x, times the elements that the strided y has at its indices. Sparse dimensions in which y has size 1
 * broadcast: x's indices there are multiplied by 0 to look up y's only one. Where y is larger, x is broadcast first. */
static td_tensor *mul_dense(td_tensor *x, td_tensor *y)
{
    int64_t sizes[TD_MAX_DIMS], shape[TD_MAX_DIMS];
    int ndim = td_broadcast_shape("mul", 2, (td_tensor *[]){x, y}, shape), lead = x->ndim - y->ndim;
    if (ndim < 0)
        return NULL;
    if (ndim != x->ndim || memcmp(shape, x->sizes, sizeof *shape * x->ndim)) {
        TD_AUTO td_tensor *wide = td__sparse_broadcast_to(x, ndim, shape);
        return wide ? mul_dense(wide, y) : NULL;
    }
    const td_sparse *s = td_sparse_of(x);
    for (int d = 0; d < x->ndim; d++)
        sizes[d] = d < lead ? 1 : y->sizes[d - lead];
    TD_AUTO td_tensor *seen = td_reshape(y, x->ndim, sizes), *rows = td_sparse_rows(seen, s->sparse_dim);
    TD_AUTO td_tensor *many = td_empty(2, (int64_t[]){s->sparse_dim, 1}, TD_I64);
    if (!many || !rows)
        return NULL;
    for (int d = 0; d < s->sparse_dim; d++)
        ((int64_t *)many->data)[d] = sizes[d] == x->sizes[d];
    TD_AUTO td_tensor *indices = td_mul(s->indices, many), *places = td__coo_keys(indices, s->sparse_dim, sizes);
    TD_AUTO td_tensor *there = td_index_select(rows, 0, places), *values = td_mul(s->values, there);
    return td_sparse_with_values(x, values);
}

/* The elements of two lists that have the same key; the second list is sorted, and often the first one is, too.
 * Galloping (exponential) search, J. L. Bentley and A. C. Yao (1976): steps double while they fall short, so lists of
 * very different lengths cost O(n log(m / n)), equal ones O(n + m). A key below its predecessor starts over. */
static int meet(const td_tensor *a, const td_tensor *b, td_tensor **mine, td_tensor **yours)
{
    const int64_t *p = (const int64_t *)a->data, *q = (const int64_t *)b->data, n = a->numel, m = b->numel;
    TD_AUTO td_tensor *first = td_empty(1, &n, TD_I64), *second = td_empty(1, &n, TD_I64);
    int64_t count = 0, at = 0;
    if (!first || !second)
        return -1;
    for (int64_t i = 0; i < n; i++) {
        if (i && p[i] < p[i - 1])
            at = 0;
        while (at < m && q[at] < p[i]) {        /* ever larger steps while they fall short, then small ones again */
            int64_t step = 1;
            while (at + step < m && q[at + step] < p[i])
                at += step, step *= 2;
            at++;
        }
        if (at < m && q[at] == p[i]) {
            ((int64_t *)first->data)[count] = i;
            ((int64_t *)second->data)[count++] = at;
        }
    }
    *mine = td_narrow(first, 0, 0, count);
    *yours = td_narrow(second, 0, 0, count);
    return *mine && *yours ? 0 : -1;
}

/* The intersection of two patterns. Only the list that is searched must be coalesced: if just one is, that one is
 * searched. */
static td_tensor *mul_coo(td_tensor *self, td_tensor *other)
{
    const td_sparse *a = td_sparse_of(self), *b = td_sparse_of(other);
    if (self->ndim != other->ndim || a->sparse_dim != b->sparse_dim ||
        memcmp(self->sizes, other->sizes, sizeof *self->sizes * (size_t)a->sparse_dim))
        return td_fail(TD_E_RUNTIME,
                       "sparse_binary_op_intersection_cpu(): expects sparse inputs with equal dimensionality, number of "
                       "sparse dimensions, and shape of sparse dimensions");
    int64_t shape[TD_MAX_DIMS];         /* dense dimensions broadcast, as those of the values do */
    if (td_broadcast_shape("mul", 2, (td_tensor *[]){self, other}, shape) < 0)
        return NULL;
    /* One may have an index several times: it keeps them all. */
    bool swap = a->coalesced && !b->coalesced;
    td_tensor *of = swap ? other : self;
    TD_AUTO td_tensor *in = td_sparse_settled(swap ? self : other);
    TD_AUTO td_tensor *keys = td_coo_places(of), *own = td_coo_places(in), *mine = NULL, *yours = NULL;
    if (!keys || !own || meet(keys, own, &mine, &yours))
        return NULL;
    TD_AUTO td_tensor *indices = td_index_select(td_sparse_of(of)->indices, 1, mine);
    TD_AUTO td_tensor *left = td_index_select(td_sparse_of(of)->values, 0, mine);
    TD_AUTO td_tensor *right = td_index_select(td_sparse_of(in)->values, 0, yours), *products = td_mul(left, right);
    return td_coo_new(self->ndim, shape, a->sparse_dim, indices, products, td_sparse_of(of)->coalesced);
}

/* Of compressed tensors only matrices by rows have products, in PyTorch's words for the others. */
static int check_product_layout(const td_tensor *self, const td_tensor *other)
{
    if (td_is_coo(self))
        return 0;
    const int layout = td_tensor_layout(self);
    if (td_is_blocked(layout))
        return td_error(TD_E_RUNTIME, "empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got %s",
                        td_sparse_title(layout));
    if (layout != TD_SPARSE_CSR)
        return td_error(TD_E_RUNTIME, "Expected result Tensor to be of format CSR");
    if (td_is_sparse(other) && self->ndim > 2 + td_sparse_of(self)->dense_dim)
        return td_error(TD_E_RUNTIME, "coo_to_sparse_csr: conversion from Sparse to SparseCsr for input tensors with sparse_dim()!=2 is not "
                        "supported");
    return 0;
}

td_tensor *td_sparse_mul_tensor(td_tensor *self, td_tensor *other)
{
    if (!td_is_sparse(self) || (self->ndim == 0 && other->ndim > 0 && td_is_sparse(other)))
        return td_sparse_mul_tensor(other, self);
    if (td_is_sparse(other) && other->ndim == 0 && self->ndim > 0) {
        TD_AUTO td_tensor *number = td_sparse_dense(other);
        return number ? td_sparse_mul_tensor(self, number) : NULL;
    }
    if (is_number(other)) {
        TD_AUTO td_tensor *values = td_mul(td_sparse_of(self)->values, other);
        return td_sparse_with_values(self, values);
    }
    if (check_product_layout(self, other))
        return NULL;
    TD_AUTO td_tensor *a = td_sparse_coo(self), *b = td_is_sparse(other) ? td_sparse_coo(other) : td_ref(other);
    TD_AUTO td_tensor *product = !a || !b ? NULL : td_is_sparse(b) ? mul_coo(a, b) : mul_dense(a, b);
    return td_sparse_like_layout(product, self);
}

/* A COO tensor gets new values, so that those it was made of keep theirs, as in PyTorch; a compressed one's are written to. */
int td_sparse_mul_tensor_into(td_tensor *out, td_tensor *self, td_tensor *other)
{
    if (out == self && !td_is_sparse(self)) {
        TD_AUTO td_tensor *dense = td_sparse_dense(other);
        return td_mul_tensor_(self, dense);
    }
    if (out == self && !td_is_coo(self) && is_number(other) && !td_check_cast("mul", common_dtype(self, other), (td_dtype)self->dtype))
        return td_mul_tensor_(td_sparse_of(self)->values, other);
    return td_finish_out("mul", out, td_sparse_mul_tensor(self, other));
}

/* ---- gradients of functions that keep zeros but whose derivative doesn't: at the elements of their operand */

/* 1: equal indices, 0: others, -1: an error. */
static int same_numbers(td_tensor *a, td_tensor *b)
{
    if (!same_shape(a, b))
        return 0;
    TD_AUTO td_tensor *p = td_as_contiguous(a, TD_I64), *q = td_as_contiguous(b, TD_I64);
    return !p || !q ? -1 : !memcmp(p->data, q->data, sizeof(int64_t) * (size_t)p->numel);
}

/* The gradient's values at the elements of the settled x: its own if it lists the same ones, else looked up. */
static td_tensor *values_at(const char *op, td_tensor *grad, td_tensor *x)
{
    if (!td_is_sparse(x))
        return td_layout_refuse(op, grad);
    if (td_is_sparse(grad) && same_shape(grad, x) && td_tensor_layout(grad) == td_tensor_layout(x)) {
        const td_sparse *g = td_sparse_of(grad), *own = td_sparse_of(x);
        int same = same_numbers(g->indices, own->indices);
        if (same > 0 && own->plain)
            same = same_numbers(g->plain, own->plain);
        if (same)
            return same < 0 ? NULL : td_part_values(grad);
    }
    TD_AUTO td_tensor *dense = td_is_sparse(grad) ? td_sparse_dense(grad) : td_ref(grad), *masked = dense ? td_sparse_mask(dense, x) : NULL;
    return td_part_values(masked);
}

td_tensor *td_sparse_threshold_backward(td_tensor *grad, td_tensor *self, td_scalar threshold)
{
    TD_AUTO td_tensor *x = td_sparse_settled(self), *slopes = x ? values_at("threshold_backward", grad, x) : NULL;
    TD_AUTO td_tensor *at = slopes ? td_part_values(x) : NULL, *values = slopes ? td_threshold_backward(slopes, at, threshold) : NULL;
    return td_sparse_with_values(x, values);
}

td_tensor *td_sparse_log1p_backward(td_tensor *grad, td_tensor *self)
{
    TD_AUTO td_tensor *x = td_sparse_settled(self), *slopes = x ? values_at("log1p_backward", grad, x) : NULL;
    TD_AUTO td_tensor *at = slopes ? td_part_values(x) : NULL, *values = slopes ? td_log1p_backward(slopes, at) : NULL;
    return td_sparse_with_values(x, values);
}

/* ---- quotients */

static int check_divisor(td_tensor *other)
{
    td_shape_text text;
    if (is_number(other))
        return 0;
    return td_error(TD_E_RUNTIME, "Sparse division requires a scalar or zero-dim dense tensor divisor (got shape %s for divisor)",
                    td_shape_str(other->ndim, other->sizes, text));
}

/* Division distributes over the sum of repeated indices, so the pattern is kept as it is. */
td_tensor *td_sparse_div_tensor(td_tensor *self, td_tensor *other)
{
    if (check_divisor(other))
        return NULL;
    TD_AUTO td_tensor *values = td_div_tensor(td_sparse_of(self)->values, other);
    return td_sparse_with_values(self, values);
}

/* Rounding: of what equal indices add up to. */
td_tensor *td_sparse_div_tensor_mode(td_tensor *self, td_tensor *other, const char *mode)
{
    if (check_divisor(other))
        return NULL;
    TD_AUTO td_tensor *x = mode ? td_sparse_settled(self) : td_ref(self);
    TD_AUTO td_tensor *values = x ? td_div_tensor_mode(td_sparse_of(x)->values, other, mode) : NULL;
    return td_sparse_with_values(x, values);
}
td_tensor *td_sparse_floor_divide(td_tensor *self, td_tensor *other) { return td_sparse_div_tensor_mode(self, other, "floor"); }

/* The power of a sum, not the sum of powers: repeated indices are added up first. */
td_tensor *td_sparse_pow_tensor_scalar(td_tensor *self, td_scalar exponent)
{
    if (!td_scalar_bool(exponent))
        return td_fail(TD_E_RUNTIME, "pow: cannot raise to zeroth power on sparse tensor; it would make the result tensor dense");
    TD_AUTO td_tensor *x = td_sparse_settled(self), *values = x ? td_pow_tensor_scalar(td_sparse_of(x)->values, exponent) : NULL;
    return td_sparse_with_values(x, values);
}
