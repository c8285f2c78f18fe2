/* Products and attention of nested tensors: by the values where one product serves all components, else one per component. */
#include "calls_layouts_nested_product.h"
#include "layouts/nested/nested.h"

#include <inttypes.h>

static td_tensor *refuse(const td_tensor *a, const td_tensor *b)
{
    td_shape_text one, two;
    return td_fail(TD_E_RUNTIME, "matmul(): not supported between inputs of shapes %s and %s", td_shape_str(a->ndim, a->sizes, one),
                   td_shape_str(b->ndim, b->sizes, two));
}

static td_tensor *member(td_tensor *x, int64_t i) { return td_is_nested(x) ? td_nested_component(x, i) : td_select_int(x, 0, i); }

/* One product per component, in a list. */
static int products(td_tensor_list *list, td_tensor *a, td_tensor *b, int64_t count, bool shared)
{
    if (td_tensor_list_new(list, count))
        return -1;
    for (int64_t i = 0; i < count; i++) {
        TD_AUTO td_tensor *x = shared && !td_is_nested(a) ? td_ref(a) : member(a, i), *y = shared && !td_is_nested(b) ? td_ref(b) : member(b, i);
        if (!(list->items[i] = td_matmul(x, y))) {
            td_tensor_list_release(list);
            return -1;
        }
    }
    return 0;
}

static td_tensor *jagged(td_tensor *a, td_tensor *b)
{
    td_tensor *like = td_is_nested(a) ? a : b, *other = like == a ? b : a;
    const int dim = td_nested_of(like)->dim, ndim = like->ndim;
    const bool both = td_is_nested(a) && td_is_nested(b), inner = like == a ? dim < ndim - 1 : dim == ndim - 1 || dim < ndim - 2;
    TD_AUTO td_tensor *x = td_is_nested(a) ? td_nested_unpacked(a) : td_ref(a), *y = td_is_nested(b) ? td_nested_unpacked(b) : td_ref(b);
    td_tensor_list list = {0};
    td_tensor *made = NULL;
    if (!both && other->ndim == 2 && ndim > 2 && inner) {       /* a matrix for all */
        TD_AUTO td_tensor *product = td_matmul(x, y);
        return td_nested_packed(product, like, dim);
    }
    if (both && ndim > 3 && b->ndim == ndim && dim < ndim - 2 && a->sizes[dim] == b->sizes[dim]) {      /* the ragged dimension is one of the batch's */
        TD_AUTO td_tensor *product = td_matmul(x, y);
        return td_nested_packed(product, a, dim);
    }
    if (!both && other->ndim == ndim && ndim > 2 && other->sizes[0] == like->sizes[0] && inner) {       /* a matrix for each */
        if (products(&list, a, b, td_nested_count(like), false))
            return NULL;
        made = td_nested_joined(&list, like, dim);
    } else if (both && a->ndim == b->ndim && dim == ndim - 1 && td_nested_of(b)->dim == ndim - 2 && a->sizes[dim] == b->sizes[ndim - 2]) {
        if (products(&list, a, b, td_nested_count(like), false))        /* the ragged dimension is summed over */
            return NULL;
        made = td_stack(list.count, list.items, 0);
    } else {
        return refuse(a, b);
    }
    td_tensor_list_release(&list);
    return made;
}

td_tensor *td_nested_matmul(td_tensor *self, td_tensor *other)
{
    if ((td_is_nested(self) && td_is_jagged(self)) || (td_is_nested(other) && td_is_jagged(other)))
        return td_is_nested(self) && td_is_nested(other) && td_is_jagged(self) != td_is_jagged(other) ? refuse(self, other) : jagged(self, other);
    const bool both = td_is_nested(self) && td_is_nested(other);
    td_tensor *like = td_is_nested(self) ? self : other, *strided = both ? NULL : like == self ? other : self;
    if (!both && strided->ndim != 2 && (strided->ndim != like->ndim || strided->sizes[0] != like->sizes[0]))
        return td_fail(TD_E_RUNTIME, "Expected both to be nested, but got a %s self and %s other", like == self ? "nested" : "non-nested",
                       like == self ? "non-nested" : "nested");
    if (like->ndim < 3 || (both && other->ndim != self->ndim))
        return td_fail(TD_E_RUNTIME, "matmul: For nested tensors, only inputs with >= 3 dims are currently supported. number of input dims: %d", like->ndim);
    if (both && td_nested_count(self) != td_nested_count(other))
        return td_fail(TD_E_RUNTIME, "matmul: Expected size for the 1st dimension of 2nd input tensor to be: %" PRId64 " but got: %" PRId64 ".",
                       td_nested_count(self), td_nested_count(other));
    td_tensor_list list = {0};
    if (products(&list, self, other, td_nested_count(like), !both && strided->ndim == 2))
        return NULL;
    td_tensor *made = td_nested_of_list(list.count, list.items);
    td_tensor_list_release(&list);
    return made;
}

td_tensor *td_nested_bmm(td_tensor *self, td_tensor *mat2)
{
    const bool is_jagged = (td_is_nested(self) && td_is_jagged(self)) || (td_is_nested(mat2) && td_is_jagged(mat2));
    if (self->ndim != 3)
        return td_fail(is_jagged ? TD_E_VALUE : TD_E_RUNTIME, is_jagged ? "bmm(): input must be 3D" : "batch1 must be a 3D tensor");
    if (mat2->ndim != 3)
        return td_fail(is_jagged ? TD_E_VALUE : TD_E_RUNTIME, is_jagged ? "bmm(): mat2 must be 3D" : "batch2 must be a 3D tensor");
    if (!is_jagged && self->sizes[0] != mat2->sizes[0])
        return td_fail(TD_E_RUNTIME, "Expected size for the 1st dimension of batch2 tensor to be: %" PRId64 " but got: %" PRId64 ".", self->sizes[0],
                       mat2->sizes[0]);
    return td_nested_matmul(self, mat2);
}

/* ---- attention, component by component: nothing is padded, and no query sees another component's keys */

static td_tensor *rows_first(td_tensor *x, int dim)
{
    return dim == 0 ? td_ref(x) : td_movedim_int(x, dim, 0);
}

td_tensor *td_nested_scaled_dot_product_attention(td_tensor *query, td_tensor *key, td_tensor *value, td_tensor *mask, double dropout, bool causal,
                                                  const double *scale, bool enable_gqa)
{
    if (!td_is_nested(query) || !td_is_nested(key) || !td_is_nested(value))
        return td_fail(TD_E_RUNTIME, "scaled_dot_product_attention: Expected query, key, and value to all be nested or all be strided");
    if (query->ndim != 4 || key->ndim != 4 || value->ndim != 4)
        return td_fail(TD_E_VALUE, "Expected query, key, and value to all be 4 dimensional, but got Query dim: %d, Key dim: %d and Value dim: %d instead.",
                       query->ndim, key->ndim, value->ndim);
    if (td_is_some(mask))
        return td_fail(TD_E_VALUE, "Masks are not yet supported!");
    const int64_t count = td_nested_count(query);
    if (td_nested_count(key) != count || td_nested_count(value) != count)
        return td_fail(TD_E_VALUE, "scaled_dot_product_attention: queries, keys and values of batches of %" PRId64 ", %" PRId64 " and %" PRId64, count,
                       td_nested_count(key), td_nested_count(value));
    const bool is_jagged = td_is_jagged(query);
    const int dim = td_nested_of(query)->dim, at = is_jagged ? td_inner_dim(dim) : 0;
    if (is_jagged && dim == query->ndim - 1)
        return td_fail(TD_E_RUNTIME, "scaled_dot_product_attention(): not supported for NestedTensor on ragged dim");
    td_tensor_list q = {0}, k = {0}, v = {0}, out = {0};
    td_tensor *made = NULL;
    int status = td_nested_components(&q, query) || td_nested_components(&k, key) || td_nested_components(&v, value) || td_tensor_list_new(&out, count);
    for (int64_t i = 0; i < count && status == 0; i++) {
        TD_AUTO td_tensor *one = td_scaled_dot_product_attention(q.items[i], k.items[i], v.items[i], TD_NONE, dropout, causal, scale, enable_gqa);
        status = one && (out.items[i] = is_jagged ? rows_first(one, at) : td_ref(one)) ? 0 : -1;
    }
    if (status == 0 && !is_jagged) {
        made = td_nested_of_list(count, out.items);
    } else if (status == 0 && count) {      /* in memory the rows come first, so that the heads of a row can be joined by a view */
        TD_AUTO td_tensor *packed = td_cat(count, out.items, 0), *values = at == 0 ? td_ref(packed) : td_movedim_int(packed, 0, at);
        if (!td_nested_of(query)->ragged->lengths) {
            made = td_nested_packed(values, query, dim);
        } else {
            td_ragged *r = values ? td_ragged_of_counts(count, td_nested_of(query)->ragged->counts, query->device) : NULL;
            made = r ? td__nested_of_jagged(values, r->offsets, TD_NONE, dim, NULL, NULL) : NULL;
            td_ragged_release(r);
        }
    } else if (status == 0) {
        made = td_clone(query);
    }
    td_tensor_list_release(&q), td_tensor_list_release(&k), td_tensor_list_release(&v), td_tensor_list_release(&out);
    return made;
}
