/* Products of matrices of which one or both are sparse.
 *
 * All are one loop over the rows of a left matrix that are compressed (src/kernels/cpu/sparse.c): COO is sorted and its rows counted
 * first; a sparse matrix on the right of a strided one is the transposed product. */
#include "calls_ops_sparse_mm.h"
#include "ops/sparse.h"
#include <inttypes.h>
#include "tensor/layout.h"

int td_meta__csr_product(td_spec *specs, td_tensor *crow, td_tensor *col, td_tensor *values, td_tensor *dense)
{
    if (crow->ndim != 1 || crow->numel < 1 || col->ndim != 1 || values->ndim != 1 || col->numel != values->numel || dense->ndim != 2)
        return td_error(TD_E_RUNTIME, "_csr_product: crow, col and values must be vectors, dense a matrix");
    return td_spec_set(specs, 2, (int64_t[]){crow->numel - 1, dense->sizes[1]}, (td_dtype)dense->dtype, dense->device);
}

/* Where each of n rows begins in a sorted list of them. */
static td_tensor *begins(td_tensor *rows, int64_t n)
{
    TD_AUTO td_tensor *all = td_arange(td_int(n + 1), TD_I64, TD_DEVICE_NONE);
    return td_searchsorted_tensor(rows, all, false, false, NULL, TD_NONE);
}

static int check_product(td_tensor *a, td_tensor *b)
{
    if (a->ndim != 2 || b->ndim != 2)
        return td_error(TD_E_RUNTIME, "addmm: 2D tensors expected, got %dD and %dD tensors", a->ndim, b->ndim);
    if ((td_is_coo(a) && td_sparse_of(a)->dense_dim) || (td_is_coo(b) && td_sparse_of(b)->dense_dim))
        return td_error(TD_E_RUNTIME, "addmm: scalar values expected, got %dD values",
                        1 + (td_is_coo(a) && td_sparse_of(a)->dense_dim ? td_sparse_of(a) : td_sparse_of(b))->dense_dim);
    if (a->sizes[1] != b->sizes[0])
        return td_is_sparse(b) ? td_error(TD_E_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%" PRId64 "x%" PRId64 " and %" PRId64 "x%"
                                          PRId64 ")", a->sizes[0], a->sizes[1], b->sizes[0], b->sizes[1])
               : td_error(TD_E_RUNTIME, "addmm: Argument #3 (dense): Expected dim 0 size %" PRId64 ", got %" PRId64, a->sizes[1], b->sizes[0]);
    if (a->dtype != b->dtype)
        return td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)a->dtype),
                        td_dtype_title((td_dtype)b->dtype));
    return 0;
}

/* A sparse matrix times a strided one. */
static td_tensor *times_dense(td_tensor *a, td_tensor *b)
{
    TD_AUTO td_tensor *coo = td_sparse_coo(a), *x = td_sparse_settled(coo);
    if (!x)
        return NULL;
    const td_sparse *s = td_sparse_of(x);
    TD_AUTO td_tensor *row = td_select_int(s->indices, 0, 0), *col = td_select_int(s->indices, 0, 1);
    TD_AUTO td_tensor *crow = begins(row, x->sizes[0]);
    return td__csr_product(crow, col, s->values, b);
}

/* Of two sparse ones, of COO: every element of a with all elements of b's row that it meets. */
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

td_tensor *td_sparse_mm(td_tensor *self, td_tensor *mat2)
{
    if (check_product(self, mat2))
        return NULL;
    if (!td_is_sparse(mat2))
        return times_dense(self, mat2);
    if (!td_is_sparse(self)) {
        TD_AUTO td_tensor *right = td_sparse_coo(mat2), *a = right ? td_transpose(right, 0, 1) : NULL, *b = td_transpose(self, 0, 1);
        TD_AUTO td_tensor *product = a && b ? times_dense(a, b) : NULL;
        TD_AUTO td_tensor *turned = product ? td_transpose(product, 0, 1) : NULL;
        return td_contiguous(turned);
    }
    if (td_is_coo(self) != td_is_coo(mat2))
        return td_fail(TD_E_RUNTIME, "addmm: computation on CPU is not implemented for %s + %s @ %s", td_is_coo(self) ? "Sparse" : "SparseCsr",
                       td_is_coo(self) ? "Sparse" : "SparseCsr", td_is_coo(mat2) ? "Sparse" : "SparseCsr");
    TD_AUTO td_tensor *a = td_sparse_coo(self), *b = td_sparse_coo(mat2), *product = a && b ? times_sparse(a, b) : NULL;
    return td_sparse_like_layout(product, self);
}

td_tensor *td_sparse_mv(td_tensor *self, td_tensor *vec)
{
    if (self->ndim != 2 || vec->ndim != 1)
        return td_fail(TD_E_RUNTIME, "mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: %d Tensor Dim: %d", self->ndim, vec->ndim);
    if (self->sizes[1] != vec->sizes[0])
        return td_fail(TD_E_RUNTIME, "mv: expected self.size(-1) == vec.size(-1)");
    if (td_is_sparse(vec))
        return td_sparse_refuse("mv", vec);
    TD_AUTO td_tensor *column = td_unsqueeze(vec, 1), *product = td_sparse_mm(self, column);
    return product ? td_view(product, 1, (int64_t[]){product->sizes[0]}) : NULL;
}

/* The sum of a product, scaled, with a strided or sparse tensor, scaled. */
td_tensor *td_sparse_addmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha)
{
    static const char *const titles[] = {"Strided", "Sparse", "SparseCsr", "SparseCsc", "SparseBsr", "SparseBsc"};
    const char *one = titles[td_tensor_layout(mat1)], *two = titles[td_tensor_layout(mat2)], *third = titles[td_tensor_layout(self)];
    bool compressed = (self->keys | mat1->keys | mat2->keys) & TD_KEYSET(TD_KEY_COMPRESSED);
    if (!compressed && td_is_sparse(self))
        return td_fail(TD_E_RUNTIME, "addmm_sparse_dense: expected strided result tensor, got tensor with layout %s", third);
    if (!compressed && (!td_is_coo(mat1) || td_is_coo(mat2)))
        return td_fail(TD_E_RUNTIME, "addmm_sparse_dense: expected either 'mat1' to have sparse layout and 'mat2' to have strided layout, got "
                       "'mat1' with layout %s and 'mat2' with layout %s", one, two);
    if (compressed && td_is_sparse(self) && !(td_is_sparse(mat1) && td_is_sparse(mat2)))
        return td_fail(TD_E_RUNTIME, "addmm: computation on CPU is not implemented for %s + %s @ %s", third, one, two);
    TD_AUTO td_tensor *product = td_sparse_mm(mat1, mat2), *scaled = td_times(product, alpha);
    if (!scaled)
        return NULL;
    if (!td_is_sparse(self)) {
        td_shape_text want, have;
        TD_AUTO td_tensor *wide = td_expand(self, 2, scaled->sizes);
        TD_AUTO td_tensor *dense = td_sparse_dense(scaled);
        if (wide && wide->dtype != dense->dtype)
            return td_fail(TD_E_RUNTIME, "expected scalar type %s but found %s (self has shape %s, the product %s)",
                           td_dtype_title((td_dtype)dense->dtype), td_dtype_title((td_dtype)wide->dtype),
                           td_shape_str(self->ndim, self->sizes, have), td_shape_str(2, scaled->sizes, want));
        if (!td_scalar_bool(beta))
            return td_ref(wide ? dense : NULL);
        TD_AUTO td_tensor *own = td_times(wide, beta);
        return td_add(own, dense);
    }
    TD_AUTO td_tensor *own = td_times(self, beta);
    return td_add(own, scaled);
}
