/* Sparse tensors as objects: made, aliased, given other parts.  What is done with them is in src/ops/sparse*.c. */
#include "tensor/sparse.h"

#include "dispatch/masks.h"
#include "tensor/head.h"
#include "tensor/layout.h"

static void destroy(void *extra)
{
    td_sparse *s = extra;
    td_tensor_release(s->indices);
    td_tensor_release(s->plain);
    td_tensor_release(s->values);
    td_mem_free(s, sizeof *s);
}

static td_tensor *over(const td_sparse *like, int ndim, const int64_t *sizes, td_tensor *indices, td_tensor *plain,
                       td_tensor *values);

static td_tensor *alias(td_tensor *x, bool own_version)
{
    const td_sparse *s = td_sparse_of(x);
    td_tensor *other = over(s, x->ndim, x->sizes, s->indices, s->plain, s->values);
    if (other && !own_version && x->own_version && !(other->flags & TD_FLAG_INFERENCE)) {
        td_version_release(other->own_version);
        __atomic_fetch_add(&x->own_version[1], 1, __ATOMIC_RELAXED);
        other->own_version = x->own_version;
    }
    return other;
}

static const td_extra_table table = {destroy, alias, td_layout_no_view, td_layout_not_readable};

static td_tensor *part(td_tensor *x)
{
    return x->autograd || x->wrapper || x->keys >= TD_KEYSET(TD_KEY_AROUND) ? td_alias_detached(x, false) : td_tensor_retain(x);
}

/* A head over aliases of the parts, with the other fields of `like`. */
static td_tensor *over(const td_sparse *like, int ndim, const int64_t *sizes, td_tensor *indices, td_tensor *plain,
                       td_tensor *values)
{
    bool inference = td_masks_now.inference;
    td_keyset keys = TD_KEYSET(td_layout_key(like->layout)) | TD_KEYSET(values->device.type);
    td_sparse *s = td_mem_alloc(sizeof *s);
    if (!s)
        return NULL;
    *s = *like;
    s->table = &table;
    s->indices = part(indices);
    s->plain = plain ? part(plain) : NULL;
    s->values = part(values);
    uint32_t *version = td_version_new(0);
    td_tensor *x = NULL;
    if (s->indices && s->values && (s->plain || !plain) && version)
        x = td_head_new(ndim, values->dtype, values->device, keys | (inference ? TD_KEYSET(TD_KEY_AUTOGRAD) : 0),
                        inference ? TD_FLAG_INFERENCE : 0);
    if (!x) {
        if (version)
            td_version_release(version);
        destroy(s);
        return NULL;
    }
    x->own_version = version;
    x->extra = s;
    x->numel = td_numel_checked(ndim, sizes);       /* fits: the callers have checked the sizes */
    for (int d = 0; d < ndim; d++) {
        x->sizes[d] = sizes[d];
        x->strides[d] = 0;
    }
    return x;
}

td_tensor *td_coo_new(int ndim, const int64_t *sizes, int sparse_dim, td_tensor *indices, td_tensor *values, bool coalesced)
{
    td_sparse like = {.layout = TD_SPARSE_COO, .sparse_dim = sparse_dim, .dense_dim = ndim - sparse_dim, .coalesced = coalesced};
    return indices && values && td_check_sizes(ndim, sizes) == 0 ? over(&like, ndim, sizes, indices, NULL, values) : NULL;
}

td_tensor *td_compressed_new(int layout, int ndim, const int64_t *sizes, int dense_dim, td_tensor *indices, td_tensor *plain,
                             td_tensor *values)
{
    td_sparse like = {.layout = layout, .sparse_dim = 2, .dense_dim = dense_dim, .coalesced = true};
    return indices && plain && values && td_check_sizes(ndim, sizes) == 0 ? over(&like, ndim, sizes, indices, plain, values) : NULL;
}

td_tensor *td_sparse_with_values(td_tensor *x, td_tensor *values)
{
    const td_sparse *s = x ? td_sparse_of(x) : NULL;
    return s && values ? over(s, x->ndim, x->sizes, s->indices, s->plain, values) : NULL;
}

int td_sparse_take(td_tensor *x, const td_tensor *from)
{
    int64_t none[TD_MAX_DIMS] = {0};
    td_sparse *to = td_sparse_of(x), *of = td_sparse_of(from);
    if (x->ndim != from->ndim || memcmp(x->sizes, from->sizes, sizeof *x->sizes * x->ndim)) {
        if (td_tensor_set_geometry(x, from->ndim, from->sizes, none))
            return -1;
        x->numel = from->numel;
    }
    x->flags &= ~(unsigned)(TD_FLAG_CONTIGUOUS | TD_FLAG_NON_OVERLAPPING);
    td_sparse old = *to;
    *to = *of;
    td_tensor_retain(to->indices), td_tensor_retain(to->plain), td_tensor_retain(to->values);
    td_tensor_release(old.indices), td_tensor_release(old.plain), td_tensor_release(old.values);
    return 0;
}
