/* Products of tensors (mm, bmm, mv, dot, matmul, linear and the addmm family), brought to the terms of gemm.h: matrices at steps
 * of any sign, batches a fixed step apart.  `out` is contiguous: its rows are as far apart as they are long. */
#include "calls_kernels_cpu_gemm_matmul.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include "kernels/cpu/gemm/gemm.h"
#include "ops/linalg/matmul.h"

/* The last two dimensions as they lie: a transposed or sliced operand is not copied here. */
static td_matrix matrix(const td_tensor *x)
{
    return (td_matrix){x->data, x->strides[x->ndim - 2], x->strides[x->ndim - 1]};
}

int td_cpu_mm(td_tensor *self, td_tensor *mat2, td_tensor *out)
{
    return td_gemm_strided((td_dtype)self->dtype, self->sizes[0], mat2->sizes[1], self->sizes[1], td_int(1),
                           matrix(self),
                           matrix(mat2), td_int(0), out->data, mat2->sizes[1]);
}

int td_cpu_bmm(td_tensor *self, td_tensor *mat2, td_tensor *out)
{
    int64_t m = self->sizes[1], n = mat2->sizes[2];
    return td_gemm_batched((td_dtype)self->dtype, self->sizes[0], m, n, self->sizes[2], td_int(1), matrix(self),
                           self->strides[0], matrix(mat2), mat2->strides[0], td_int(0), out->data, n, m * n);
}

int td_cpu_mv(td_tensor *self, td_tensor *vec, td_tensor *out)
{
    return td_gemm_strided((td_dtype)self->dtype, self->sizes[0], 1, self->sizes[1], td_int(1), matrix(self),
                           (td_matrix){vec->data, vec->strides[0], 1}, td_int(0), out->data, 1);
}

/* A row times a column: m = n = 1, both vectors with their own step. */
int td_cpu_dot(td_tensor *self, td_tensor *other, td_tensor *out)
{
    return td_gemm_strided((td_dtype)self->dtype, 1, 1, self->numel, td_int(1), (td_matrix){self->data, 1,
        self->strides[0]},
                           (td_matrix){other->data, other->strides[0], 1}, td_int(0), out->data, 1);
}

/* Whether beta lets the old contents count; if so they are put into out. */
static int begin(td_scalar beta, td_tensor *self, td_tensor *out)
{
    bool zero = beta.kind == TD_SCALAR_COMPLEX ? beta.d == 0 && beta.imag == 0 : td_scalar_double(beta) == 0;
    return zero ? 0 : td_copy_elements(out, self);
}

/* How far the product's inner dimension reaches. A factor of 0 leaves the product out, infinities and NaN in it too, which is BLAS's
 * rule; halves and integers have no BLAS, and are multiplied. */
static int64_t depth(const td_tensor *x, td_scalar alpha, int64_t k)
{
    bool zero = alpha.kind == TD_SCALAR_COMPLEX ? alpha.d == 0 && alpha.imag == 0 : td_scalar_double(alpha) == 0;
    bool wide = x->dtype == TD_F32 || x->dtype == TD_F64 || td_dtype_is_complex((td_dtype)x->dtype);
    return zero && wide ? 0 : k;
}

int td_cpu_addmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha, td_tensor *out)
{
    if (begin(beta, self, out))
        return -1;
    return td_gemm_strided((td_dtype)mat1->dtype, mat1->sizes[0], mat2->sizes[1], depth(mat1, alpha, mat1->sizes[1]), alpha, matrix(mat1),
                           matrix(mat2), beta, out->data, mat2->sizes[1]);
}

int td_cpu_addmv(td_tensor *self, td_tensor *mat, td_tensor *vec, td_scalar beta, td_scalar alpha, td_tensor *out)
{
    if (begin(beta, self, out))
        return -1;
    return td_gemm_strided((td_dtype)mat->dtype, mat->sizes[0], 1, depth(mat, alpha, mat->sizes[1]), alpha, matrix(mat),
                           (td_matrix){vec->data, vec->strides[0], 1}, beta, out->data, 1);
}

int td_cpu_baddbmm(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta, td_scalar alpha,
                   td_tensor *out)
{
    if (begin(beta, self, out))
        return -1;
    int64_t m = batch1->sizes[1], n = batch2->sizes[2];
    return td_gemm_batched((td_dtype)batch1->dtype, batch1->sizes[0], m, n, depth(batch1, alpha, batch1->sizes[2]), alpha,
                           matrix(batch1), batch1->strides[0], matrix(batch2), batch2->strides[0], beta, out->data, n, m * n);
}

/* Steps through the leading dimensions, as broadcast to `n` of them. */
static void batch_strides(const td_tensor *x, int n, const int64_t *sizes, int64_t *strides)
{
    int own = x->ndim > 2 ? x->ndim - 2 : 0;
    for (int i = 0; i < n; i++) {
        int at = i - (n - own);
        strides[i] = at < 0 || (x->sizes[at] == 1 && sizes[i] != 1) ? 0 : x->strides[at];
    }
}

/* Vectors are matrices of one row (left) or column (right).  Where the right operand has no batch, the left one's batch is more
 * rows of a single product: b is packed once and read once for all of them. */
int td_cpu_matmul(td_tensor *self, td_tensor *other, td_tensor *out)
{
    int64_t sizes[TD_MAX_DIMS], sa[TD_MAX_DIMS], sb[TD_MAX_DIMS];
    int64_t m = self->ndim > 1 ? self->sizes[self->ndim - 2] : 1, k = self->sizes[self->ndim - 1];
    int64_t n = other->ndim > 1 ? other->sizes[other->ndim - 1] : 1;
    td_matrix a = {self->data, self->ndim > 1 ? self->strides[self->ndim - 2] : k, self->strides[self->ndim - 1]};
    td_matrix b = {other->data, other->strides[other->ndim > 1 ? other->ndim - 2 : 0],
                   other->ndim > 1 ? other->strides[other->ndim - 1] : 1};
    td_dtype dtype = (td_dtype)self->dtype;
    TD_AUTO td_tensor *dense = NULL;
    if (other->ndim <= 2 && self->ndim > 2) {
        /* One matrix on the right: the batch's rows make one long matrix. */
        int64_t rows = k ? self->numel / k : out->numel / (n ? n : 1), flat[2] = {rows, k}, strides[2];
        if (!td_view_strides(self, 2, flat, strides)) {
            if (!(dense = td_make_contiguous(self)))
                return -1;
            strides[0] = k, strides[1] = 1;
            a.data = dense->data;
        }
        a.row = strides[0], a.column = strides[1];
        return td_gemm_strided(dtype, rows, n, k, td_int(1), a, b, td_int(0), out->data, n);
    }
    int batch = td_matmul_batch(self, other, sizes);
    batch_strides(self, batch, sizes, sa);
    batch_strides(other, batch, sizes, sb);
    /* Merge what is evenly spaced in both; the innermost group is one batched call.  A broadcast dimension has step 0, which
     * merges with a neighbour of step 0 in the same operand. */
    int dims = 0;
    for (int i = 0; i < batch; i++) {
        if (dims && sa[dims - 1] == sa[i] * sizes[i] && sb[dims - 1] == sb[i] * sizes[i]) {
            sizes[dims - 1] *= sizes[i];
        } else {
            sizes[dims] = sizes[i];
            dims++;
        }
        sa[dims - 1] = sa[i], sb[dims - 1] = sb[i];
    }
    int64_t inner = dims ? sizes[dims - 1] : 1, outer = 1;
    for (int i = 0; i < dims - 1; i++)
        outer *= sizes[i];
    int64_t itemsize = td_itemsize(out);
    for (int64_t o = 0; o < outer; o++) {
        int64_t rest = o, at = 0, bt = 0;
        for (int i = dims - 2; i >= 0; i--) {
            at += rest % sizes[i] * sa[i], bt += rest % sizes[i] * sb[i];
            rest /= sizes[i];
        }
        td_matrix x = {(const char *)a.data + at * itemsize, a.row, a.column};
        td_matrix y = {(const char *)b.data + bt * itemsize, b.row, b.column};
        if (td_gemm_batched(dtype, inner, m, n, k, td_int(1), x, dims ? sa[dims - 1] : 0, y, dims ? sb[dims - 1] : 0,
                            td_int(0),
                            out->data + o * inner * m * n * itemsize, n, m * n))
            return -1;
    }
    return 0;
}

/* x W^T + b with W as [n][k]: its transpose is read by exchanging steps.  Where the bias has n numbers it is added by the product
 * itself, while a tile is in registers or in the first cache; halves get theirs in float32, before the one rounding.  Any other
 * bias is broadcast to the result first and the product is added to it. */
int td_cpu_linear(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *out)
{
    int64_t k = input->sizes[input->ndim - 1], n = weight->ndim == 2 ? weight->sizes[0] : 1, strides[2] = {k, 1};
    int64_t rows = 1;
    for (int i = 0; i < input->ndim - 1; i++)
        rows *= input->sizes[i];
    TD_AUTO td_tensor *dense = NULL;
    const void *data = input->data;
    if (!td_view_strides(input, 2, (int64_t[]){rows, k}, strides)) {
        if (!(dense = td_make_contiguous(input)))
            return -1;
        data = dense->data, strides[0] = k, strides[1] = 1;
    }
    td_matrix a = {data, strides[0], strides[1]};
    td_matrix b = {weight->data, weight->strides[weight->ndim - 1], weight->ndim == 2 ? weight->strides[0] : 1};
    td_dtype dtype = (td_dtype)input->dtype;
    if (bias == TD_NONE)
        return td_gemm_strided(dtype, rows, n, k, td_int(1), a, b, td_int(0), out->data, n);
    if (!td_dtype_is_floating(dtype) || bias->ndim > 1 || bias->numel != n) {
        if (td_copy_elements(out, bias))
            return -1;
        return td_gemm_strided(dtype, rows, n, k, td_int(1), a, b, td_int(1), out->data, n);
    }
    TD_AUTO td_tensor *numbers = td_as_contiguous(bias, dtype == TD_F64 ? TD_F64 : TD_F32);
    if (!numbers)
        return -1;
    return td_gemm_bias(dtype, rows, n, k, a, b, numbers->data, out->data, n);
}
