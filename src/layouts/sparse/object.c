/* The sparse layouts as they are registered: what they are made of, and how that is shown, converted and made dense. */
#include "calls_layouts_sparse_object.h"
#include "layouts/sparse/sparse.h"

#include <inttypes.h>
#include <stdio.h>

static void destroy(void *fields)
{
    td_sparse *s = fields;
    td_tensor_release(s->indices);
    td_tensor_release(s->plain);
    td_tensor_release(s->values);
    td_mem_free(s, sizeof *s);
}

/* Parts are tensors without a history, a wrapper or keys of modes: what has any of these is stored as a detached
 * alias. */
static td_tensor *part(td_tensor *x)
{
    return x->autograd || x->wrapper || x->keys >= TD_KEYSET(TD_KEY_AROUND) ? td_alias_detached(x, false) : td_tensor_retain(x);
}

/* A tensor over aliases of the parts, with the other fields of `like`. The record is owned by the tensor from here
 * on; on an error it is destroyed with the references taken so far. */
static td_tensor *over(const td_sparse *like, int ndim, const int64_t *sizes, td_tensor *indices, td_tensor *plain,
                       td_tensor *values)
{
    td_sparse *s = td_mem_alloc(sizeof *s);
    if (!s)
        return NULL;
    *s = *like;
    s->indices = part(indices);
    s->plain = plain ? part(plain) : NULL;
    s->values = part(values);
    td_tensor *x = s->indices && s->values && (s->plain || !plain)
                       ? td_tensor_with_layout(s->layout, s, ndim, sizes, (td_dtype)values->dtype, values->device) : NULL;
    if (!x)
        destroy(s);
    return x;
}

/* NULL parts are results of calls that failed: the error is theirs. */
td_tensor *td_coo_new(int ndim, const int64_t *sizes, int sparse_dim, td_tensor *indices, td_tensor *values, bool coalesced)
{
    td_sparse like = {.layout = TD_SPARSE_COO, .sparse_dim = sparse_dim, .dense_dim = ndim - sparse_dim, .coalesced = coalesced};
    return indices && values && td_check_sizes(ndim, sizes) == 0 ? over(&like, ndim, sizes, indices, NULL, values) : NULL;
}

/* Always coalesced: a row's indices are distinct, or the pattern is not valid. */
td_tensor *td_compressed_new(int layout, int ndim, const int64_t *sizes, int dense_dim, td_tensor *indices, td_tensor *plain,
                             td_tensor *values)
{
    td_sparse like = {.layout = layout, .sparse_dim = 2, .dense_dim = dense_dim, .coalesced = true};
    return indices && plain && values && td_check_sizes(ndim, sizes) == 0 ? over(&like, ndim, sizes, indices, plain, values) : NULL;
}

td_tensor *td_sparse_with_values(td_tensor *x, td_tensor *values)
{
    const td_sparse *s = x && values ? td_sparse_of(x) : NULL;
    return s ? over(s, x->ndim, x->sizes, s->indices, s->plain, values) : NULL;
}

const char *td_sparse_title(int layout)
{
    static const char *const titles[] = {"Strided", "Sparse", "SparseCsr", "SparseCsc", "SparseBsr", "SparseBsc"};
    return (unsigned)layout < TD_COUNT(titles) ? titles[layout] : td_layout_name(layout);
}

/* ---- the kinds */

static int coo_parts(const td_tensor *x, td_layout_part *parts)
{
    const td_sparse *s = td_sparse_of(x);
    parts[0] = (td_layout_part){.name = "indices", .tensor = s->indices};
    parts[1] = (td_layout_part){.name = "values", .tensor = s->values, .values = true};
    parts[2] = (td_layout_part){.name = "is_coalesced", .number = s->coalesced};
    return 3;
}
static td_tensor *coo_from_parts(int layout, int64_t ndim, const int64_t *sizes, int n, const td_layout_part *parts)
{
    (void)layout;
    if (n != 3 || !parts[0].tensor || !parts[1].tensor || parts[0].tensor->ndim != 2)
        return td_fail(TD_E_VALUE, "a COO tensor is made of indices, values and whether it is coalesced");
    return td_coo_new((int)ndim, sizes, (int)parts[0].tensor->sizes[0], parts[0].tensor, parts[1].tensor, parts[2].number != 0);
}

static int compressed_parts(const td_tensor *x, td_layout_part *parts)
{
    const td_sparse *s = td_sparse_of(x);
    const bool rows = td_rows_compressed(s->layout);
    parts[0] = (td_layout_part){.name = rows ? "crow_indices" : "ccol_indices", .tensor = s->indices};
    parts[1] = (td_layout_part){.name = rows ? "col_indices" : "row_indices", .tensor = s->plain};
    parts[2] = (td_layout_part){.name = "values", .tensor = s->values, .values = true};
    return 3;
}
static td_tensor *compressed_from_parts(int layout, int64_t ndim, const int64_t *sizes, int n, const td_layout_part *parts)
{
    if (n != 3 || !parts[0].tensor || !parts[1].tensor || !parts[2].tensor)
        return td_fail(TD_E_VALUE, "a compressed tensor is made of compressed indices, plain indices and values");
    const int dense = parts[2].tensor->ndim - parts[1].tensor->ndim - (td_is_blocked(layout) ? 2 : 0);
    return td_compressed_new(layout, (int)ndim, sizes, dense, parts[0].tensor, parts[1].tensor, parts[2].tensor);
}

static void describe(const td_tensor *x, char *text, size_t room)
{
    const td_sparse *s = td_sparse_of(x);
    const td_tensor *places = s->plain ? s->plain : s->indices;
    snprintf(text, room, "nnz=%" PRId64, places->sizes[places->ndim - 1]);
}

/* Without elements; the last `dense` dimensions are dense, `blocks` has the size of a block, if there is one. */
static td_tensor *empty(int layout, int64_t ndim, const int64_t *sizes, int64_t dense, const int64_t *blocks, td_dtype dtype, td_device device)
{
    return layout == TD_SPARSE_COO ? td__sparse_coo_tensor_with_dims(ndim - dense, dense, ndim, sizes, dtype, device)
           : td__sparse_compressed_tensor_with_dims(0, dense, ndim, sizes, blocks ? 2 : 0, blocks, TD_I64, dtype, (td_layout)layout, device);
}

td_tensor *td_sparse_empty_after(const td_tensor *like, int layout, td_dtype dtype, td_device device)
{
    const td_sparse *s = td_sparse_of(like);
    const bool blocked = td_is_blocked(s->layout) && td_is_blocked(layout);
    return empty(layout, like->ndim, like->sizes, s->dense_dim, blocked ? s->values->sizes + like->ndim - 1 - s->dense_dim : NULL, dtype, device);
}

/* What empty and zeros refuse in a compressed layout. */
static td_tensor *zeros(int layout, const td_op *op, td_tensor *like, int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device)
{
    td_shape_text text;
    const bool uninitialized = td_op_describe(op)->flags & TD_OP_UNINITIALIZED;
    if (like && td_is_sparse(like)) {
        if (!td_is_coo(like) && uninitialized)         /* it has another compressed tensor's pattern */
            return td_fail(TD_E_RUNTIME, "empty_like with different sparse layout is not supported (self is %s but you requested %s)",
                           td_sparse_title(td_tensor_layout(like)), td_sparse_title(layout));
        return td_sparse_empty_after(like, layout, dtype, device);
    }
    if (td_is_blocked(layout))
        return td_fail(TD_E_RUNTIME, "empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got %s",
                       td_sparse_title(layout));
    if (layout != TD_SPARSE_COO && ndim < 2)
        return td_fail(TD_E_RUNTIME, "torch.%s: Only batched sparse compressed (non-block) tensors are supported, but got size %s",
                       uninitialized ? "empty" : "zeros", td_shape_str((int)ndim, sizes, text));
    return empty(layout, ndim, sizes, 0, NULL, dtype, device);
}
static td_tensor *from_dense(int layout, td_tensor *x) { return td_to_sparse(x, (td_layout)layout, -1, NULL, NULL); }

static td_tensor *settled(td_tensor *x, const char *inplace)
{
    return inplace ? td_check_coalesced(inplace, x) ? NULL : td_tensor_retain(x) : td_sparse_settled(x);
}

const td_layout_kind td_coo_kind = {
    .size = sizeof(td_layout_kind), .name = "sparse_coo", .title = "Sparse", .flags = TD_LAYOUT_ZEROS | TD_LAYOUT_SIZE_BELOW,
    .destroy = destroy, .to_dense = td_sparse_dense, .from_dense = from_dense, .parts = coo_parts, .from_parts = coo_from_parts,
    .zeros = zeros, .settled = settled, .describe = describe,
};
#define COMPRESSED(first, layout_name, shown_name) \
    {.size = sizeof(td_layout_kind), .name = layout_name, .title = "SparseCsr", .family = first, .flags = TD_LAYOUT_ZEROS, \
     .destroy = destroy, .to_dense = td_sparse_dense, .from_dense = from_dense, .parts = compressed_parts, \
     .from_parts = compressed_from_parts, .zeros = zeros, .describe = describe, .without_strides = "Sparse " shown_name}
const td_layout_kind td_compressed_kinds[] = {
    COMPRESSED(NULL, "sparse_csr", "CSR"), COMPRESSED("sparse_csr", "sparse_csc", "CSC"), COMPRESSED("sparse_csr", "sparse_bsr", "BSR"),
    COMPRESSED("sparse_csr", "sparse_bsc", "BSC"),
};
