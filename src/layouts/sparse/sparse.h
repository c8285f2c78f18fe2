/* What the operators on sparse tensors share in src/layouts/sparse/. */
#ifndef TD_LAYOUTS_SPARSE_SPARSE_H
#define TD_LAYOUTS_SPARSE_SPARSE_H
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "layouts/sparse/object.h"

/* "SparseCsr": a layout as PyTorch's errors name it. */
const char *td_sparse_title(int layout);
/* An error if indices that are read are on meta, where there are none. */
static inline int td_check_indices_here(const td_tensor *indices)
{
    return indices->device.type == TD_META ? td_error(TD_E_NOT_IMPLEMENTED, "the indices of a sparse tensor on meta have no values that could be read") : 0;
}
/* x coalesced if it is COO, else x; an error if x is not coalesced */
td_tensor *td_sparse_settled(td_tensor *x);
int        td_check_coalesced(const char *op, const td_tensor *x);
/* Parts of a sparse tensor, owned; NULL of NULL. */
static inline td_tensor *td_part_indices(td_tensor *x) { return x ? td_retain_fast(td_sparse_of(x)->indices) : NULL; }
static inline td_tensor *td_part_values(td_tensor *x) { return x ? td_retain_fast(td_sparse_of(x)->values) : NULL; }
static inline int64_t td_sparse_nnz(const td_tensor *x) { return td_sparse_of(x)->indices->sizes[1]; }
/* A COO tensor with x's shape and dimensions over other parts. */
static inline td_tensor *td_coo_like(const td_tensor *x, td_tensor *indices, td_tensor *values, bool coalesced)
{
    return td_coo_new(x->ndim, x->sizes, td_sparse_of(x)->sparse_dim, indices, values, coalesced);
}
/* One without elements. */
td_tensor *td_coo_empty(int ndim, const int64_t *sizes, int sparse_dim, td_dtype dtype, td_device device);
/* x's elements in a dimension for all that have indices and the dense ones; `x` is strided.  The inverse is a view. */
td_tensor *td_sparse_rows(td_tensor *x, int sparse_dim);
/* The place of each element in the dimension of td_sparse_rows. */
td_tensor *td_coo_places(td_tensor *x);
/* The sums of the rows of `values` that go to each of n positions. */
td_tensor *td_rows_added(td_tensor *values, td_tensor *to, int64_t n);
/* The same reduced otherwise, by scatter_reduce's name for it; zero where no row goes. */
td_tensor *td_rows_reduced(td_tensor *values, td_tensor *to, int64_t n, const char *reduce);
/* The same elements in a strided tensor, in COO. */
td_tensor *td_sparse_dense(td_tensor *x);
td_tensor *td_sparse_coo(td_tensor *x);
td_tensor *td_compressed_to_coo(td_tensor *x);
/* What a conversion that has nothing to do gives: x, or an alias if a gradient is recorded, for a call's result can't be its
 * operand then. */
td_tensor *td_sparse_itself(td_tensor *x);
/* The elements that a compressed tensor specifies, in the order of its values, as a COO tensor without blocks. */
td_tensor *td_compressed_elements(td_tensor *x);
/* x, sparse or strided, in the layout of another tensor (COO as COO of as many sparse dimensions). */
td_tensor *td_sparse_like_layout(td_tensor *x, td_tensor *like);
/* x with values of another dtype. */
td_tensor *td_sparse_cast(td_tensor *x, td_dtype dtype);
/* Without elements, after a sparse model, whose dense dimensions and blocks are taken over. */
td_tensor *td_sparse_empty_after(const td_tensor *like, int layout, td_dtype dtype, td_device device);
/* No elements, of another size. */
int td_compressed_clear(td_tensor *x, int64_t n, const int64_t *size);

#endif
