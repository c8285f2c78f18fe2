/* mm, bmm, mv, dot, matmul, linear and the addmm family on devices: by the vendor's library where it has one, else by product.ck.
 *
 * Operands are read as they lie; `out` is contiguous. */
#include "calls_kernels_device_matmul.h"
#include "base/scalar.h"
#include "kernels/device/product.h"
#include "ops/linalg/matmul.h"

static bool is_zero(td_scalar x) { return td_scalar_equals(x, td_int(0)); }
static bool is_one(td_scalar x) { return td_scalar_equals(x, td_int(1)); }

/* The first operand's last two dimensions are m x k, the second's k x n; a vector is given as a matrix with a stride of 0. */
static void strides_of(product_values *v, int64_t a_row, int64_t a_column, int64_t b_row, int64_t b_column)
{
    v->a_row = a_row, v->a_column = a_column, v->b_row = b_row, v->b_column = b_column;
    v->c_row = v->n, v->c_column = 1, v->c_batch = v->m * v->n;
}

/* out = alpha a b + beta added, `added` broadcast to out.  A factor of 0 leaves the product out, infinities in it too, for float32 and float64
 * (src/kernels/cpu/gemm/matmul.c). */
static int run(product_values *v, td_scalar alpha, td_scalar beta, td_tensor *a, td_tensor *b, td_tensor *added, td_tensor *out)
{
    const td_dtype dtype = (td_dtype)out->dtype;
    if (!td_device_computes(out->device, td_dtype_to_real(dtype)))
        return td_leave_to_cpu(td_dtype_name(dtype));
    if (is_zero(beta))
        added = TD_NONE;
    if (td_dtype_is_complex(dtype) && !(is_one(alpha) && (added == TD_NONE || is_one(beta)))) {     /* the kernels' factors are real */
        TD_AUTO td_tensor *more = added == TD_NONE ? td_tensor_retain(added) : td_mul_scalar(added, beta);
        const int status = !more || run(v, td_int(1), td_int(0), a, b, TD_NONE, out) || td_mul_scalar_(out, alpha);
        return status || (more != TD_NONE && td_add_tensor_(out, more, td_int(1))) ? -1 : 0;
    }
    if (is_zero(alpha) && (dtype == TD_F32 || dtype == TD_F64))
        v->k = 0;
    int status = added != TD_NONE && is_one(beta) ? td_product_fused(v, td_scalar_double(alpha), a, b, out, added, TD_EPILOGUE_NONE) : 1;
    status = status > 0 ? td_product_by_library(v, td_scalar_double(alpha), td_scalar_double(beta), a, b, out, added) : status;
    if (status <= 0)
        return status;
    v->alpha = td_product_number(alpha, dtype), v->beta = td_product_number(beta, dtype);
    v->has_bias = added != TD_NONE;
    /* Added while the sums are still in registers: a second kernel would read and write all of out once more. */
    TD_AUTO td_tensor *rows = NULL;
    if (v->has_bias) {
        /* As [batch][m][n] lie in out, which may have fewer or more dimensions. */
        int64_t strides[3];
        TD_AUTO td_tensor *whole = td_expand(added, out->ndim, out->sizes);
        if (!whole)
            return -1;
        if (td_view_strides(whole, 3, (int64_t[]){v->batch, v->m, v->n}, strides)) {
            v->bias_batch = strides[0], v->bias_row = strides[1], v->bias_column = strides[2];
        } else {
            if (!(rows = td_make_contiguous(whole)))
                return -1;
            added = rows;
            v->bias_batch = v->m * v->n, v->bias_row = v->n, v->bias_column = 1;
        }
    }
    return td_product_launch(TD_PRODUCT_PLAIN, v, a, b, out, added);
}

static int matrices(td_tensor *a, td_tensor *b, td_scalar alpha, td_scalar beta, td_tensor *added, td_tensor *out)
{
    product_values v = td_product_of((td_dtype)out->dtype, a->sizes[0], b->sizes[1], a->sizes[1]);
    strides_of(&v, a->strides[0], a->strides[1], b->strides[0], b->strides[1]);
    return run(&v, alpha, beta, a, b, added, out);
}
static int batches(td_tensor *a, td_tensor *b, td_scalar alpha, td_scalar beta, td_tensor *added, td_tensor *out)
{
    const int last = PRODUCT_DIMS - 1;
    product_values v = td_product_of((td_dtype)out->dtype, a->sizes[1], b->sizes[2], a->sizes[2]);
    v.batch = v.sizes[last] = a->sizes[0], v.a_batch[last] = a->strides[0], v.b_batch[last] = b->strides[0];
    strides_of(&v, a->strides[1], a->strides[2], b->strides[1], b->strides[2]);
    return run(&v, alpha, beta, a, b, added, out);
}
static int vector(td_tensor *a, td_tensor *x, td_scalar alpha, td_scalar beta, td_tensor *added, td_tensor *out)
{
    product_values v = td_product_of((td_dtype)out->dtype, a->sizes[0], 1, a->sizes[1]);
    strides_of(&v, a->strides[0], a->strides[1], x->strides[0], 1);
    return run(&v, alpha, beta, a, x, added, out);
}

int td_on_device_mm(td_tensor *self, td_tensor *mat2, td_tensor *out0) { return matrices(self, mat2, td_int(1), td_int(0), TD_NONE, out0); }
int td_on_device_bmm(td_tensor *self, td_tensor *mat2, td_tensor *out0) { return batches(self, mat2, td_int(1), td_int(0), TD_NONE, out0); }
int td_on_device_mv(td_tensor *self, td_tensor *vec, td_tensor *out0) { return vector(self, vec, td_int(1), td_int(0), TD_NONE, out0); }
int td_on_device_dot(td_tensor *self, td_tensor *tensor, td_tensor *out0)
{
    product_values v = td_product_of((td_dtype)out0->dtype, 1, 1, self->numel);
    strides_of(&v, 0, self->strides[0], tensor->strides[0], 1);
    return run(&v, td_int(1), td_int(0), self, tensor, TD_NONE, out0);
}
int td_on_device_addmm(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha, td_tensor *out0)
{
    return matrices(mat1, mat2, alpha, beta, self, out0);
}
td_tensor *td_on_device__addmm_fused(td_tensor *self, td_tensor *mat1, td_tensor *mat2, bool use_gelu)
{
    TD_AUTO td_tensor *out = td_tensor_new(2, (int64_t[]){mat1->sizes[0], mat2->sizes[1]}, (td_dtype)mat1->dtype, mat1->device);
    if (!out)
        return NULL;
    product_values v = td_product_of((td_dtype)mat1->dtype, mat1->sizes[0], mat2->sizes[1], mat1->sizes[1]);
    strides_of(&v, mat1->strides[0], mat1->strides[1], mat2->strides[0], mat2->strides[1]);
    const int status = td_product_fused(&v, 1, mat1, mat2, out, self, use_gelu ? TD_EPILOGUE_GELU_TANH : TD_EPILOGUE_RELU);
    return status < 0 ? NULL : status == 0 ? td_tensor_retain(out) : td_op__addmm_fused(self, mat1, mat2, use_gelu);
}
int td_on_device_addmv(td_tensor *self, td_tensor *mat, td_tensor *vec, td_scalar beta, td_scalar alpha, td_tensor *out0)
{
    return vector(mat, vec, alpha, beta, self, out0);
}
int td_on_device_baddbmm(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta, td_scalar alpha, td_tensor *out0)
{
    return batches(batch1, batch2, alpha, beta, self, out0);
}

/* Operands of any number of dimensions: batches that both operands broadcast over are one dimension where memory allows it, as then a
 * vendor's library can take the call (its batches are evenly apart), and no operand is expanded in memory.
 *
 * Leading dimensions in a tensor's strides, broadcast to `n` of them. */
static void batch_strides(const td_tensor *x, int n, const int64_t *sizes, int64_t *strides)
{
    const int own = x->ndim > 2 ? x->ndim - 2 : 0;
    for (int i = 0; i < n; i++) {
        const int at = i - (n - own);
        strides[i] = at < 0 || (x->sizes[at] == 1 && sizes[i] != 1) ? 0 : x->strides[at];
    }
}

/* The batch, merged where both operands' members are evenly apart; false if more dimensions are left than the kernel has. */
static bool merge_batch(product_values *v, const td_tensor *a, const td_tensor *b)
{
    int64_t sizes[TD_MAX_DIMS], of_a[TD_MAX_DIMS], of_b[TD_MAX_DIMS];
    const int n = td_matmul_batch(a, b, sizes);
    int at = PRODUCT_DIMS;
    batch_strides(a, n, sizes, of_a);
    batch_strides(b, n, sizes, of_b);
    for (int i = n - 1; i >= 0; i--) {
        v->batch *= sizes[i];
        if (sizes[i] == 1)
            continue;
        if (at < PRODUCT_DIMS && of_a[i] == v->a_batch[at] * v->sizes[at] && of_b[i] == v->b_batch[at] * v->sizes[at]) {
            v->sizes[at] *= sizes[i];
            continue;
        }
        if (--at < 0)
            return false;
        v->sizes[at] = sizes[i], v->a_batch[at] = of_a[i], v->b_batch[at] = of_b[i];
    }
    return true;
}

/* With all of its batch, in memory. */
static td_tensor *broadcast(td_tensor *x, int n, const int64_t *batch)
{
    int64_t sizes[TD_MAX_DIMS + 2];
    const int own = x->ndim > 1 ? 2 : 1;
    for (int i = 0; i < n; i++)
        sizes[i] = batch[i];
    for (int i = 0; i < own; i++)
        sizes[n + i] = x->sizes[x->ndim - own + i];
    TD_AUTO td_tensor *whole = td_expand(x, n + own, sizes);
    return whole ? td_make_contiguous(whole) : NULL;
}

/* As src/kernels/cpu/gemm/matmul.c: one matrix on the right of a batch is multiplied by all rows of the batch at once. */
int td_on_device_matmul(td_tensor *self, td_tensor *other, td_tensor *out0)
{
    const td_dtype dtype = (td_dtype)out0->dtype;
    const int64_t m = self->ndim > 1 ? self->sizes[self->ndim - 2] : 1, k = self->sizes[self->ndim - 1];
    const int64_t n = other->ndim > 1 ? other->sizes[other->ndim - 1] : 1;
    const int64_t b_row = other->strides[other->ndim > 1 ? other->ndim - 2 : 0], b_column = other->ndim > 1 ? other->strides[other->ndim - 1] : 1;
    TD_AUTO td_tensor *a = td_tensor_retain(self), *b = td_tensor_retain(other);
    if (out0->numel == 0)
        return 0;
    if (other->ndim <= 2 && self->ndim > 2) {
        int64_t strides[2];
        product_values v = td_product_of(dtype, out0->numel / n, n, k);
        if (!td_view_strides(self, 2, (int64_t[]){v.m, k}, strides)) {
            td_tensor_release(a);
            if (!(a = td_make_contiguous(self)))
                return -1;
            strides[0] = k, strides[1] = 1;
        }
        strides_of(&v, strides[0], strides[1], b_row, b_column);
        return run(&v, td_int(1), td_int(0), a, b, TD_NONE, out0);
    }
    product_values v = td_product_of(dtype, m, n, k);
    if (!merge_batch(&v, self, other)) {
        int64_t sizes[TD_MAX_DIMS];
        const int batch = td_matmul_batch(self, other, sizes);
        TD_AUTO td_tensor *left = broadcast(self, batch, sizes), *right = broadcast(other, batch, sizes);
        return left && right ? td_on_device_matmul(left, right, out0) : -1;
    }
    strides_of(&v, self->ndim > 1 ? self->strides[self->ndim - 2] : k, self->strides[self->ndim - 1], b_row, b_column);
    return run(&v, td_int(1), td_int(0), a, b, TD_NONE, out0);
}

/* x W' + b with W as [n][k], whose transpose is read by exchanging strides. */
int td_on_device_linear(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *out0)
{
    const int64_t k = input->sizes[input->ndim - 1], n = weight->ndim == 2 ? weight->sizes[0] : 1;
    int64_t rows = 1, strides[2];
    for (int i = 0; i < input->ndim - 1; i++)
        rows *= input->sizes[i];
    TD_AUTO td_tensor *x = td_tensor_retain(input);
    if (!td_view_strides(input, 2, (int64_t[]){rows, k}, strides)) {
        td_tensor_release(x);
        if (!(x = td_make_contiguous(input)))
            return -1;
        strides[0] = k, strides[1] = 1;
    }
    product_values v = td_product_of((td_dtype)input->dtype, rows, n, k);
    strides_of(&v, strides[0], strides[1], weight->strides[weight->ndim - 1], weight->ndim == 2 ? weight->strides[0] : 1);
    TD_AUTO td_tensor *same = bias == TD_NONE ? td_tensor_retain(bias) : td_as_contiguous(bias, (td_dtype)input->dtype);
    return same ? run(&v, td_int(1), td_int(1), x, weight, same, out0) : -1;
}
