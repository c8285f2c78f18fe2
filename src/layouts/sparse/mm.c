/* Products of matrices of which one or both are sparse.
 *
 * All are one loop over the rows of a left matrix that are compressed (src/layouts/sparse/loops.c): COO is sorted and its rows counted
 * first; a sparse matrix on the right of a strided one is the transposed product. */
#include "calls_layouts_sparse_mm.h"
#include "layouts/sparse/sparse.h"
#include <inttypes.h>
#include "tensor/layout.h"

int td_meta__csr_product(td_spec *specs, td_tensor *crow, td_tensor *col, td_tensor *values, td_tensor *dense)
{
    if (crow->ndim != 1 || crow->numel < 1 || col->ndim != 1 || values->ndim != 1 || col->numel != values->numel ||
        dense->ndim != 2)
        return td_error(TD_E_RUNTIME, "_csr_product: crow, col and values must be vectors, dense a matrix");
    return td_spec_set(specs, 2, (int64_t[]){crow->numel - 1, dense->sizes[1]}, (td_dtype)dense->dtype, dense->device);
}

/* Where each of n rows begins in a sorted list of them, and where the last one ends: n + 1 binary searches, O(n log
 * nnz). These are CSR's compressed indices. */
static td_tensor *begins(td_tensor *rows, int64_t n)
{
    TD_AUTO td_tensor *all = td_arange(td_int(n + 1), TD_I64, TD_DEVICE_NONE);
    return td_searchsorted_tensor(rows, all, false, false, NULL, TD_NONE);
}

/* Matrices with scalar values, of sizes that fit and one dtype: the loops rely on it. */
static int check_product(td_tensor *a, td_tensor *b)
{
    if (a->ndim != 2 || b->ndim != 2)
        return td_error(TD_E_RUNTIME, "addmm: 2D tensors expected, got %dD and %dD tensors", a->ndim, b->ndim);
    if ((td_is_coo(a) && td_sparse_of(a)->dense_dim) || (td_is_coo(b) && td_sparse_of(b)->dense_dim))
        return td_error(TD_E_RUNTIME, "addmm: scalar values expected, got %dD values",
                        1 + (td_is_coo(a) && td_sparse_of(a)->dense_dim ? td_sparse_of(a) : td_sparse_of(b))->dense_dim);
    if (a->sizes[1] != b->sizes[0])
        return td_is_sparse(b)
                   ? td_error(TD_E_RUNTIME,
                              "mat1 and mat2 shapes cannot be multiplied (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64
                              ")",
                              a->sizes[0], a->sizes[1], b->sizes[0], b->sizes[1])
                   : td_error(TD_E_RUNTIME, "addmm: Argument #3 (dense): Expected dim 0 size %" PRId64 ", got %" PRId64,
                              a->sizes[1], b->sizes[0]);
    if (a->dtype != b->dtype)
        return td_error(TD_E_RUNTIME,
                        td_is_sparse(a) && td_is_sparse(b) ? "mat1 dtype %s does not match mat2 dtype %s"
                                                           : "expected scalar type %s but found %s",
                        td_dtype_title((td_dtype)a->dtype), td_dtype_title((td_dtype)b->dtype));
    return 0;
}

/* A sparse matrix times a strided one. A CSR matrix is what the loop takes; any other is coalesced COO first, whose
 * columns are in the order of rows, so that its second row of indices and its values are CSR's. td_coo_places is
 * called for its check that all indices are within the shape. */
static td_tensor *times_dense(td_tensor *a, td_tensor *b)
{
    if (td_tensor_layout(a) == TD_SPARSE_CSR && td_sparse_of(a)->dense_dim == 0)
        return td__csr_product(td_sparse_of(a)->indices, td_sparse_of(a)->plain, td_sparse_of(a)->values, b);
    TD_AUTO td_tensor *coo = td_sparse_coo(a), *x = td_sparse_settled(coo), *checked = td_coo_places(x);
    if (!checked)
        return NULL;
    const td_sparse *s = td_sparse_of(x);
    TD_AUTO td_tensor *row = td_select_int(s->indices, 0, 0), *col = td_select_int(s->indices, 0, 1);
    TD_AUTO td_tensor *crow = begins(row, x->sizes[0]);
    return td__csr_product(crow, col, s->values, b);
}

/* Of two sparse ones, of COO: every element (i, k) of a with all elements (k, j) of b's row k. This is the row-wise
 * product of F. G. Gustavson (1978, "Two Fast Algorithms for Sparse Matrices"), spelled with whole-tensor operators:
 * `many` counts the partners of each element of a, repeat_interleave names the left factor of each product, and a
 * running number, shifted to where the left factor's row of b begins, the right one. The products are a COO matrix
 * with repeated indices, which coalescing adds up. Memory is one entry per product, so O(flops), and not per element
 * of the result. */
static td_tensor *times_sparse(td_tensor *a, td_tensor *b)
{
    TD_AUTO td_tensor *x = td_sparse_settled(a), *y = td_sparse_settled(b);
    if (!x || !y)
        return NULL;
    const td_sparse *s = td_sparse_of(x), *t = td_sparse_of(y);
    TD_AUTO td_tensor *row = td_select_int(s->indices, 0, 0), *inner = td_select_int(s->indices, 0, 1);
    TD_AUTO td_tensor *meets = td_select_int(t->indices, 0, 0), *column = td_select_int(t->indices, 0, 1);
    TD_AUTO td_tensor *starts = begins(meets, y->sizes[0]), *checked = td_coo_places(x);
    TD_AUTO td_tensor *next = td_plus(inner, td_int(1)), *from = checked ? td_index_select(starts, 0, inner) : NULL;
    TD_AUTO td_tensor *until = td_index_select(starts, 0, next), *many = td_minus(until, from);
    TD_AUTO td_tensor *left = td_repeat_interleave_tensor(many, NULL);        /* the element of x in each product */
    if (!left)
        return NULL;
    TD_AUTO td_tensor *ends = td_cumsum(many, 0, TD_DTYPE_NONE), *first = td_minus(ends, many), *shift = td_minus(from, first);
    TD_AUTO td_tensor *count = td_arange(td_int(left->numel), TD_I64, TD_DEVICE_NONE), *move = td_index_select(shift, 0, left);
    TD_AUTO td_tensor *right = td_add(count, move);
    TD_AUTO td_tensor *rows = td_index_select(row, 0, left), *columns = td_index_select(column, 0, right);
    TD_AUTO td_tensor *p = td_index_select(s->values, 0, left), *q = td_index_select(t->values, 0, right), *values = td_mul(p, q);
    TD_AUTO td_tensor *indices = rows && columns ? td_stack(2, (td_tensor *[]){rows, columns}, 0) : NULL;
    TD_AUTO td_tensor *sum = td_coo_new(2, (int64_t[]){x->sizes[0], y->sizes[1]}, 2, indices, values, false);
    return td_sparse_settled(sum);
}

/* strided @ sparse is the transposed product, (B^T A^T)^T: the transposes are views, or exchange rows of indices, and
 * only the result is copied to be contiguous. */
td_tensor *td_sparse_mm(td_tensor *self, td_tensor *mat2)
{
    if (check_product(self, mat2))
        return NULL;
    if (!td_is_sparse(mat2))
        return times_dense(self, mat2);
    if (!td_is_sparse(self)) {
        TD_AUTO td_tensor *right = td_sparse_coo(mat2), *a = right ? td_transpose(right, 0, 1) : NULL,
                          *b = td_transpose(self, 0, 1);
        TD_AUTO td_tensor *product = a && b ? times_dense(a, b) : NULL;
        TD_AUTO td_tensor *transposed = product ? td_transpose(product, 0, 1) : NULL;
        return td_contiguous(transposed);
    }
    if (td_is_coo(self) != td_is_coo(mat2))
        return td_fail(TD_E_RUNTIME, "addmm: computation on CPU is not implemented for %s + %s @ %s",
                       td_is_coo(self) ? "Sparse" : "SparseCsr", td_is_coo(self) ? "Sparse" : "SparseCsr",
                       td_is_coo(mat2) ? "Sparse" : "SparseCsr");
    TD_AUTO td_tensor *a = td_sparse_coo(self), *b = td_sparse_coo(mat2), *product = a && b ? times_sparse(a, b) : NULL;
    return td_sparse_like_layout(product, self);
}

td_tensor *td_sparse_mv(td_tensor *self, td_tensor *vec)
{
    if (self->ndim != 2 || vec->ndim != 1)
        return td_fail(TD_E_RUNTIME, "mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: %d Tensor Dim: %d",
                       self->ndim, vec->ndim);
    if (self->sizes[1] != vec->sizes[0])
        return td_fail(TD_E_RUNTIME, "mv: expected self.size(-1) == vec.size(-1)");
    if (td_is_sparse(vec))
        return td_layout_refuse("mv", vec);
    TD_AUTO td_tensor *column = td_unsqueeze(vec, 1), *product = td_sparse_mm(self, column);
    return product ? td_view(product, 1, (int64_t[]){product->sizes[0]}) : NULL;
}

/* With beta 0 self is not read: its nan and inf don't reach the result, as in BLAS. */
td_tensor *td_sparse_addmv(td_tensor *self, td_tensor *mat, td_tensor *vec, td_scalar beta, td_scalar alpha)
{
    if (td_is_sparse(self) || !td_is_sparse(mat))
        return td_layout_refuse("addmv", td_is_sparse(self) ? self : vec);
    TD_AUTO td_tensor *product = td_sparse_mv(mat, vec), *scaled = product ? td_times(product, alpha) : NULL;
    TD_AUTO td_tensor *wide = scaled ? td_expand(self, 1, scaled->sizes) : NULL;
    if (!wide)
        return NULL;
    if (wide->dtype != scaled->dtype)
        return td_fail(TD_E_RUNTIME, "addmv: expected scalar type %s but found %s", td_dtype_title((td_dtype)scaled->dtype),
                       td_dtype_title((td_dtype)wide->dtype));
    if (!td_scalar_bool(beta))
        return td_ref(scaled);
    TD_AUTO td_tensor *own = td_times(wide, beta);
    return td_add(own, scaled);
}

/* The sum of a product, scaled, with a strided or sparse tensor, scaled. */
td_tensor *td_sparse_addmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha)
{
    const char *one = td_sparse_title(td_tensor_layout(mat1)), *two = td_sparse_title(td_tensor_layout(mat2)),
               *third = td_sparse_title(td_tensor_layout(self));
    bool compressed = (self->keys | mat1->keys | mat2->keys) & TD_KEYSET(TD_KEY_COMPRESSED);
    if (!compressed && td_is_sparse(self))
        return td_fail(TD_E_RUNTIME, "addmm_sparse_dense: expected strided result tensor, got tensor with layout %s", third);
    if (!compressed && (!td_is_coo(mat1) || td_is_coo(mat2)))
        return td_fail(
            TD_E_RUNTIME,
            "addmm_sparse_dense: expected either 'mat1' to have sparse layout and 'mat2' to have strided layout, got "
            "'mat1' with layout %s and 'mat2' with layout %s",
            one, two);
    if (compressed && td_is_sparse(self) && !(td_is_sparse(mat1) && td_is_sparse(mat2)))
        return td_fail(TD_E_RUNTIME, "addmm: computation on CPU is not implemented for %s + %s @ %s", third, one, two);
    TD_AUTO td_tensor *product = td_sparse_mm(mat1, mat2), *scaled = td_times(product, alpha);
    if (!scaled)
        return NULL;
    if (!td_is_sparse(self)) {
        td_shape_text want, have;
        TD_AUTO td_tensor *wide = td_expand(self, 2, scaled->sizes);
        TD_AUTO td_tensor *dense = td_sparse_dense(scaled);
        if (!wide || !dense)
            return NULL;
        if (wide->dtype != dense->dtype)
            return td_fail(TD_E_RUNTIME, "expected scalar type %s but found %s (self has shape %s, the product %s)",
                           td_dtype_title((td_dtype)dense->dtype), td_dtype_title((td_dtype)wide->dtype),
                           td_shape_str(self->ndim, self->sizes, have), td_shape_str(2, scaled->sizes, want));
        if (!td_scalar_bool(beta))
            return td_ref(dense);
        TD_AUTO td_tensor *own = td_times(wide, beta);
        return td_add(own, dense);
    }
    TD_AUTO td_tensor *own = td_scalar_bool(beta) ? td_times(self, beta) : td_zeros_like(self);
    return td_add(own, scaled);
}

/* ---- batches and vectors */

/* A product per matrix of the batch: picking one from COO passes over all elements, O(batch * nnz), which small
 * batches can afford. */
td_tensor *td_sparse_bmm(td_tensor *self, td_tensor *mat2)
{
    if (self->ndim != 3 || mat2->ndim != 3)
        return td_fail(TD_E_RUNTIME, "bmm_sparse: Tensor 'self' and 'mat2' must have 3 dimensions, got %d and %d",
                       self->ndim, mat2->ndim);
    if (self->sizes[0] != mat2->sizes[0] || self->sizes[2] != mat2->sizes[1])
        return td_fail(TD_E_RUNTIME, "bmm_sparse: 'self' and 'mat2' must agree in their batch sizes and inner sizes");
    if (td_is_sparse(mat2) && !td_is_sparse(self)) {
        TD_AUTO td_tensor *a = td_transpose(mat2, 1, 2), *b = td_transpose(self, 1, 2),
                          *product = a && b ? td_sparse_bmm(a, b) : NULL;
        return product ? td_transpose(product, 1, 2) : NULL;
    }
    if (td_is_sparse(mat2))
        return td_layout_refuse("bmm", mat2);
    TD_AUTO td_tensor *x = td_sparse_coo(self);
    TD_AUTO td_tensor *out =
        x ? td_zeros(3, (int64_t[]){self->sizes[0], self->sizes[1], mat2->sizes[2]}, (td_dtype)mat2->dtype, mat2->device)
          : NULL;
    for (int64_t b = 0; out && b < self->sizes[0]; b++) {
        TD_AUTO td_tensor *left = td_select_int(x, 0, b), *right = td_select_int(mat2, 0, b), *place = td_select_int(out, 0, b);
        TD_AUTO td_tensor *product = left && right ? td_sparse_mm(left, right) : NULL;
        if (!product || !place || td_copy_elements(place, product))
            return NULL;
    }
    return td_ref(out);
}

/* By ranks, each case brought to a product of matrices; what has no such form is refused. */
td_tensor *td_sparse_matmul(td_tensor *self, td_tensor *other)
{
    const int a = self->ndim, b = other->ndim;
    if (a == 2 && b == 2)
        return td_sparse_mm(self, other);
    if (a == 2 && b == 1 && td_is_sparse(self))
        return td_sparse_mv(self, other);
    if (a == 3 && b == 3)
        return td_sparse_bmm(self, other);
    if (a == 1 && b == 2 && td_is_sparse(self)) {
        TD_AUTO td_tensor *row = td_unsqueeze(self, 0), *product = row ? td_sparse_mm(row, other) : NULL;
        return product ? td_select_int(product, 0, 0) : NULL;
    }
    if (b == 2 && a >= 1 && a != 2 && !td_is_sparse(self)) {      /* rows of all matrices, or a vector, times a sparse matrix */
        int64_t sizes[TD_MAX_DIMS], rows = 1;
        memcpy(sizes, self->sizes, sizeof *sizes * (size_t)a);
        for (int d = 0; d < a - 1; d++)
            rows *= sizes[d];
        TD_AUTO td_tensor *flat = td_reshape(self, 2, (int64_t[]){rows, sizes[a - 1]}),
                          *product = flat ? td_sparse_mm(flat, other) : NULL;
        sizes[a - 1] = other->sizes[1];
        return td_reshape(product, a, sizes);
    }
    return td_fail(
        TD_E_RUNTIME,
        "matmul: of sparse tensors there are products of matrices, batches of them, and vectors, but not of tensors "
        "with %d and %d dimensions",
        a, b);
}

td_tensor *td_sparse_linear(td_tensor *input, td_tensor *weight, td_tensor *bias)
{
    TD_AUTO td_tensor *transposed = td_t(weight), *product = td_matmul(input, transposed);
    return bias == TD_NONE ? td_ref(product) : td_add(product, bias);
}

/* ---- torch.sparse's: products whose gradient for a sparse operand has that operand's elements */

/* sparse @ strided is _sparse_addmm without an addend, whose gradient for the sparse factor is sampled
 * (mm_mat1_sparse_backward) and never a whole matrix. */
td_tensor *td_op__sparse_mm(td_tensor *sparse, td_tensor *dense)
{
    if (td_is_sparse(sparse) && td_is_sparse(dense))
        return td_is_coo(sparse) && td_is_coo(dense) ? td__sparse_sparse_matmul(sparse, dense) : td_mm(sparse, dense);
    if (sparse->ndim != 2 || dense->ndim != 2)
        return td_fail(TD_E_RUNTIME, "mm: Expected dim 2, got %d and %d", sparse->ndim, dense->ndim);
    if (!td_is_sparse(sparse)) {
        if (!td_is_sparse(dense))
            return td_mm(sparse, dense);
        TD_AUTO td_tensor *a = td_t(dense), *b = td_t(sparse), *product = td__sparse_mm(a, b);
        return td_t(product);
    }
    TD_AUTO td_tensor *none = td_zeros(2, (int64_t[]){sparse->sizes[0], dense->sizes[1]}, (td_dtype)dense->dtype, dense->device);
    return td__sparse_addmm(none, sparse, dense, td_int(0), td_int(1));
}

td_tensor *td_op__sparse_addmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha)
{
    return td_addmm(self, mat1, mat2, beta, alpha);
}

/* (left @ right) at the elements of a sparse matrix (SDDMM): for element (i, j) the dot product of row i of left and
 * column j of right, nnz of them, and never the whole product. The rows and columns are gathered, O(nnz * inner)
 * memory. Elements of blocks are listed one by one and reshaped back to the pattern's values. */
static td_tensor *sampled(td_tensor *pattern, td_tensor *left, td_tensor *right)
{
    TD_AUTO td_tensor *elements = td_is_coo(pattern) ? td_ref(pattern) : td_compressed_elements(pattern),
                      *checked = td_coo_places(elements);
    if (!checked)
        return NULL;
    const td_sparse *s = td_sparse_of(elements);
    TD_AUTO td_tensor *row = td_select_int(s->indices, 0, 0), *column = td_select_int(s->indices, 0, 1);
    TD_AUTO td_tensor *rows = td_index_select(left, 0, row), *columns = td_index_select(right, 1, column), *transposed = td_t(columns);
    TD_AUTO td_tensor *products = td_mul(rows, transposed), *values = td_sum_over(products, 1, (int64_t[]){1}, false);
    return values ? td_view(values, td_sparse_of(pattern)->values->ndim, td_sparse_of(pattern)->values->sizes) : NULL;
}

/* d(A B)/dA = alpha * grad B^H, taken at A's elements only: the others are fixed at zero and have no gradient. */
td_tensor *td_op_mm_mat1_sparse_backward(td_tensor *grad, td_tensor *mat1, td_tensor *mat2, td_scalar alpha)
{
    if (!td_is_sparse(mat1) || td_is_sparse(mat2))
        return td_layout_refuse("_sparse_addmm", td_is_sparse(mat1) ? mat2 : mat1);
    TD_AUTO td_tensor *x = td_sparse_settled(mat1), *right = td_adjoint_of(mat2), *dense = td_sparse_dense(grad);
    TD_AUTO td_tensor *values = x && right && dense ? sampled(x, dense, right) : NULL, *scaled = td_times(values, alpha);
    return td_sparse_with_values(x, scaled);
}

td_tensor *td_op__sparse_sparse_matmul(td_tensor *self, td_tensor *other) { return td_mm(self, other); }

/* For the left factor grad B^H, for the right one A^H grad, both sparse, each cut to the factor's own pattern. */
td_tensor *td_op_sparse_sparse_matmul_backward(td_tensor *grad, td_tensor *a, td_tensor *b, bool left)
{
    TD_AUTO td_tensor *g = td_sparse_coo(grad), *transposed = td_t(left ? b : a), *adjoint = td_conj_physical(transposed);
    TD_AUTO td_tensor *product = g && adjoint ? td_mm(left ? g : adjoint, left ? adjoint : g) : NULL,
                      *mask = td_sparse_settled(left ? a : b);
    return product && mask ? td_sparse_mask(product, mask) : NULL;
}

td_tensor *td_op_sparse_sampled_addmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha)
{
    if (td_tensor_layout(self) != TD_SPARSE_CSR)
        return td_fail(TD_E_RUNTIME, "sparse_sampled_addmm: Expected self to have sparse csr layout, but got %s",
                       td_layout_name(td_tensor_layout(self)));
    if (td_is_sparse(mat1) || td_is_sparse(mat2))
        return td_fail(TD_E_RUNTIME, "sparse_sampled_addmm: Expected mat1 and mat2 to have strided layout");
    if (self->ndim != 2 || mat1->ndim != 2 || mat2->ndim != 2 || mat1->sizes[1] != mat2->sizes[0] ||
        self->sizes[0] != mat1->sizes[0] || self->sizes[1] != mat2->sizes[1])
        return td_fail(TD_E_RUNTIME, "sparse_sampled_addmm: mat1 and mat2 must be matrices whose product has self's shape");
    if (self->dtype != mat1->dtype || self->dtype != mat2->dtype)
        return td_fail(TD_E_RUNTIME, "sparse_sampled_addmm: Expected mat1 and mat2 to have the same dtype as self");
    TD_AUTO td_tensor *products = sampled(self, mat1, mat2), *scaled = td_times(products, alpha);
    TD_AUTO td_tensor *own = td_scalar_bool(beta) ? td_times(td_sparse_of(self)->values, beta) : NULL;
    TD_AUTO td_tensor *values = td_scalar_bool(beta) ? td_add(own, scaled) : td_ref(scaled);
    return td_sparse_with_values(self, values);
}

/* Rows of the product reduced otherwise: made of operators that have gradients, by the differentiable values. */
td_tensor *td_op__sparse_mm_reduce(td_tensor *sparse, td_tensor *dense, const char *reduce)
{
    static const char *const names[] = {"sum", "mean", "amax", "amin"};
    bool known = false;
    for (size_t i = 0; i < TD_COUNT(names); i++)
        known |= !strcmp(reduce, names[i]);
    if (!known)
        return td_fail(TD_E_RUNTIME, "sparse.mm: reduce must be one of sum, mean, amax and amin, got '%s'", reduce);
    if (td_tensor_layout(sparse) != TD_SPARSE_CSR)
        return td_fail(TD_E_RUNTIME, "sparse.mm: expected a CSR tensor for reduce='%s'", reduce);
    if (!strcmp(reduce, "sum"))
        return td__sparse_mm(sparse, dense);
    TD_AUTO td_tensor *elements = td_compressed_elements(sparse), *checked = td_coo_places(elements);
    if (!checked)
        return NULL;
    TD_AUTO td_tensor *row = td_select_int(td_sparse_of(elements)->indices, 0, 0),
                      *column = td_select_int(td_sparse_of(elements)->indices, 0, 1);
    TD_AUTO td_tensor *values = td_values(sparse), *factor = td_unsqueeze(values, 1), *rows = td_index_select(dense, 0, column);
    TD_AUTO td_tensor *products = td_mul(factor, rows);
    return td_rows_reduced(products, row, sparse->sizes[0], reduce);
}

int td_op__sparse_mm_reduce_impl(td_tensor **results, td_tensor *self, td_tensor *other, const char *reduce)
{
    if (!strcmp(reduce, "amax") || !strcmp(reduce, "amin"))
        return td_error(TD_E_NOT_IMPLEMENTED, "_sparse_mm_reduce_impl: the places of extrema aren't kept; sparse.mm gives the extrema");
    results[0] = td__sparse_mm_reduce(self, other, reduce);
    results[1] = results[0] ? td_empty(1, (int64_t[]){0}, TD_I64) : NULL;
    return results[1] ? 0 : (td_tensor_release(results[0]), -1);
}

/* ---- sparse results of a sparse and a strided factor: the rows that the sparse one has */

/* The rows of the product (values), and which they are. */
static int product_rows(td_tensor *mat1, td_tensor *mat2, td_tensor **rows, td_tensor **values)
{
    if (!td_is_coo(mat1) || td_is_sparse(mat2))
        return td_layout_refuse("hspmm", td_is_coo(mat1) ? mat2 : mat1), -1;
    if (check_product(mat1, mat2))
        return -1;
    TD_AUTO td_tensor *product = times_dense(mat1, mat2), *row = td_select_int(td_sparse_of(mat1)->indices, 0, 0);
    td_tensor *found[3];
    if (!product || !row || td__unique2(found, row, true, false, false))
        return -1;
    td_tensor_release(found[1]), td_tensor_release(found[2]);
    *rows = found[0];
    *values = td_index_select(product, 0, found[0]);
    return *values ? 0 : -1;
}

/* A hybrid tensor: one sparse dimension, that of the rows that mat1 has elements in, with dense rows of the product.
 * The rows come sorted and unique from unique(), so it is coalesced. */
td_tensor *td_op_hspmm(td_tensor *mat1, td_tensor *mat2)
{
    TD_AUTO td_tensor *rows = NULL, *values = NULL;
    if (product_rows(mat1, mat2, &rows, &values))
        return NULL;
    TD_AUTO td_tensor *indices = td_unsqueeze(rows, 0);
    return td_coo_new(2, (int64_t[]){mat1->sizes[0], mat2->sizes[1]}, 1, indices, values, true);
}

/* beta * self + alpha * mat1 @ mat2 as one list of elements: self's, and then every element of those rows of the
 * product that mat1 has elements in. Nothing is added up, so it is not marked coalesced. */
td_tensor *td_op_sspaddmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha)
{
    TD_AUTO td_tensor *rows = NULL, *values = NULL;
    if (!td_is_coo(self))
        return td_layout_refuse("sspaddmm", self);
    if (product_rows(mat1, mat2, &rows, &values))
        return NULL;
    if (self->ndim != 2 || self->sizes[0] != mat1->sizes[0] || self->sizes[1] != mat2->sizes[1])
        return td_fail(TD_E_RUNTIME, "sspaddmm: Argument #1: Expected the shape of the product, [%" PRId64 ", %" PRId64 "]",
                       mat1->sizes[0], mat2->sizes[1]);
    const int64_t width = mat2->sizes[1], n = values->numel;
    TD_AUTO td_tensor *row = td_repeat_interleave_self_int(rows, width, NULL, NULL),
                      *columns = td_arange(td_int(width), TD_I64, TD_DEVICE_NONE);
    TD_AUTO td_tensor *column = td_repeat(columns, 1, (int64_t[]){rows->numel});
    TD_AUTO td_tensor *indices = row && column ? td_stack(2, (td_tensor *[]){row, column}, 0) : NULL;
    TD_AUTO td_tensor *line = td_view(values, 1, &n), *scaled = td_times(line, alpha);
    TD_AUTO td_tensor *own = td_times(td_sparse_of(self)->values, beta);
    TD_AUTO td_tensor *all = indices ? td_cat(2, (td_tensor *[]){td_sparse_of(self)->indices, indices}, 1) : NULL;
    TD_AUTO td_tensor *every = own && scaled ? td_cat(2, (td_tensor *[]){own, scaled}, 0) : NULL;
    return td_coo_new(2, self->sizes, 2, all, every, false);
}

td_tensor *td_op_smm(td_tensor *self, td_tensor *mat2)
{
    if (self->ndim != 2 || mat2->ndim != 2)
        return td_fail(TD_E_RUNTIME, "smm: matrices expected, got %dD and %dD tensors", self->ndim, mat2->ndim);
    TD_AUTO td_tensor *none = td_coo_empty(2, (int64_t[]){self->sizes[0], mat2->sizes[1]}, 2, (td_dtype)self->dtype, self->device);
    return td_sspaddmm(none, self, mat2, td_int(0), td_int(1));
}
