/* Products: what their results look like, and those that are made of others.
 *
 * mm, bmm, matmul, mv, dot, addmm, addmv and baddbmm have kernels; a td_meta_ function here checks their operands and
 * describes their results. outer, inner, kron, tensordot, bilinear, multi_dot, chain_matmul, addr and addbmm are made
 * of those. Errors keep PyTorch's words, and name PyTorch's kernels where it does so for a dtype that a kernel lacks. */
#include "calls_ops_linalg_matmul.h"
#include <tede/autograd.h>
#include <inttypes.h>
#include "autograd/record.h"
#include "autograd/tangent.h"
#include "base/names.h"
#include "base/scalar.h"
#include "dispatch/outputs.h"
#include "dispatch/spec.h"
#include "ops/compose.h"
#include "ops/linalg/matmul.h"
#include "tensor/checked.h"

static int same_dtype(const td_tensor *a, const td_tensor *b)
{
    return a->dtype == b->dtype ? 0 : td_error(TD_E_RUNTIME,
                                               "expected m1 and m2 to have the same dtype, but got: %s != %s",
                                               td_cpp_name(a->dtype), td_cpp_name(b->dtype));
}

/* Products of bools are those alone in which nothing is multiplied. */
static int no_bool(const char *kernel, const td_tensor *x, const td_tensor *y)
{
    return x->dtype == TD_BOOL && x->numel && y->numel ? td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for 'Bool'", kernel) : 0;
}

/* Nor are bools multiplied by beta, which is a number. */
static int no_bool_times(td_scalar beta, const td_spec *spec, const td_tensor *self)
{
    return self->dtype == TD_BOOL && td_spec_numel(spec) && td_scalar_double(beta) != 0
               ? td_error(TD_E_RUNTIME, "result type Long can't be cast to the desired output type Bool") : 0;
}

/* self must broadcast to the sizes, in the words of expand.
 * Shapes are aligned at their last dimensions, as in all broadcasting: self may have fewer dimensions than the
 * result, never more. */
static int check_expands(const td_tensor *self, int ndim, const int64_t *sizes)
{
    td_shape_text to, from;
    for (int i = 0; i < self->ndim; i++) {
        int at = ndim - self->ndim + i;
        if (at < 0)
            return td_error(TD_E_RUNTIME, "expand: the number of sizes provided (%d) must be greater or equal to the number of "
                            "dimensions in the tensor (%d)", ndim, self->ndim);
        if (self->sizes[i] != 1 && self->sizes[i] != sizes[at])
            return td_error(TD_E_RUNTIME, "The expanded size of the tensor (%" PRId64 ") must match the existing size (%" PRId64
                            ") at non-singleton dimension %d.  Target sizes: %s.  Tensor sizes: %s", sizes[at],
                            self->sizes[i], at, td_shape_str(ndim, sizes, to), td_shape_str(self->ndim, self->sizes,
                                from));
    }
    return 0;
}

/* Sizes as PyTorch counts them: the left operand's leading dimensions are rows of one matrix, m by k; the right one
 * is k2 by n. The drawing of the shapes points at the dimensions that differ. */
static int not_multiplied(int64_t m, int64_t k, int64_t k2, int64_t n, const td_drawn *shapes)
{
    td_drawn_text drawn;
    return td_error(TD_E_RUNTIME, "mat1 and mat2 shapes cannot be multiplied (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64 ")%s",
                    m, k, k2, n, td_draw_shapes(drawn, false, 2, shapes));
}

int td_meta_mm(td_spec *specs, td_tensor *self, td_tensor *mat2)
{
    if (self->ndim != 2)
        return td_error(TD_E_RUNTIME, "self must be a matrix");
    if (mat2->ndim != 2)
        return td_error(TD_E_RUNTIME, "mat2 must be a matrix");
    if (self->sizes[1] != mat2->sizes[0])
        return not_multiplied(self->sizes[0], self->sizes[1], mat2->sizes[0], mat2->sizes[1],
                              (td_drawn[]){{"mat1", 2, self->sizes, 1}, {"mat2", 2, mat2->sizes, 0}});
    if (same_dtype(self, mat2) || no_bool("addmm_impl_cpu_", self, mat2))
        return -1;
    return td_spec_set(specs, 2, (int64_t[]){self->sizes[0], mat2->sizes[1]}, (td_dtype)self->dtype, self->device);
}

int td_meta_bmm(td_spec *specs, td_tensor *self, td_tensor *mat2)
{
    if (self->ndim != 3)
        return td_error(TD_E_RUNTIME, "batch1 must be a 3D tensor");
    if (mat2->ndim != 3)
        return td_error(TD_E_RUNTIME, "batch2 must be a 3D tensor");
    if (self->sizes[0] != mat2->sizes[0] || self->sizes[2] != mat2->sizes[1])
        return td_error(TD_E_RUNTIME, "Expected size for first two dimensions of batch2 tensor to be: [%" PRId64 ", %" PRId64
                        "] but got: [%" PRId64 ", %" PRId64 "].", self->sizes[0], self->sizes[2], mat2->sizes[0],
                        mat2->sizes[1]);
    if (self->dtype != mat2->dtype)
        return td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)self->dtype),
                        td_dtype_title((td_dtype)mat2->dtype));
    if (no_bool("bmm", self, mat2))
        return -1;
    return td_spec_set(specs, 3, (int64_t[]){self->sizes[0], self->sizes[1], mat2->sizes[2]}, (td_dtype)self->dtype,
                       self->device);
}

/* PyTorch computes mv as addmv with a result that has no elements yet, so its errors speak of three operands: the
 * first vector named here is the missing one. */
int td_meta_mv(td_spec *specs, td_tensor *self, td_tensor *vec)
{
    if (self->ndim != 2 || vec->ndim != 1)
        return td_error(TD_E_RUNTIME, "vector + matrix @ vector expected, got 1, %d, %d", self->ndim, vec->ndim);
    if (self->sizes[1] != vec->sizes[0])
        return td_error(TD_E_RUNTIME, "size mismatch, got input (%" PRId64 "), mat (%" PRId64 "x%" PRId64 "), vec (%" PRId64 ")",
                        self->sizes[0], self->sizes[0], self->sizes[1], vec->sizes[0]);
    if (self->dtype != vec->dtype)
        return td_error(TD_E_RUNTIME, "addmv input tensors must have the same dtype, but got %s, %s, and %s",
                        td_dtype_title((td_dtype)vec->dtype), td_dtype_title((td_dtype)self->dtype),
                        td_dtype_title((td_dtype)vec->dtype));
    if (no_bool("addmv_impl_cpu", self, vec))
        return -1;
    return td_spec_set(specs, 1, self->sizes, (td_dtype)self->dtype, self->device);
}

int td_meta_dot(td_spec *specs, td_tensor *self, td_tensor *other)
{
    if (self->ndim != 1 || other->ndim != 1)
        return td_error(TD_E_RUNTIME, "1D tensors expected, but got %dD and %dD tensors", self->ndim, other->ndim);
    if (self->dtype != other->dtype)
        return td_error(TD_E_RUNTIME, "dot : expected both vectors to have same dtype, but found %s and %s",
                        td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)other->dtype));
    if (self->numel != other->numel)
        return td_error(TD_E_RUNTIME, "inconsistent tensor size, expected tensor [%" PRId64 "] and src [%" PRId64 "] to have the "
                        "same number of elements, but got %" PRId64 " and %" PRId64 " elements respectively",
                        self->numel,
                        other->numel, self->numel, other->numel);
    if (self->dtype == TD_BOOL)
        return td_error(TD_E_NOT_IMPLEMENTED, "\"dot\" not implemented for 'Bool'");
    if (td_check_steps("dot", self->numel))
        return -1;
    return td_spec_set(specs, 0, NULL, (td_dtype)self->dtype, self->device);
}

/* An out= tensor isn't converted to, unlike elsewhere: PyTorch's dot takes one of its operands' dtype only. */
int td_out_check_dot(td_tensor *self, td_tensor *tensor, td_tensor *out)
{
    (void)tensor;
    return out->dtype == self->dtype ? 0 : td_error(TD_E_RUNTIME, "result dtype %s does not match input dtype %s",
                                                    td_dtype_title((td_dtype)out->dtype), td_dtype_title((td_dtype)self->dtype));
}

/* sum of conj(self) * other. */
td_tensor *td_op_vdot(td_tensor *self, td_tensor *other)
{
    TD_AUTO td_tensor *conjugate = td_conj(self);
    return td_dot(conjugate, other);
}

/* Of both operands the last two dimensions are left out; what is before them is broadcast. sizes has room for the
 * longer of the two. */
int td_matmul_batch(const td_tensor *a, const td_tensor *b, int64_t *sizes)
{
    int na = a->ndim > 2 ? a->ndim - 2 : 0, nb = b->ndim > 2 ? b->ndim - 2 : 0, n = na > nb ? na : nb;
    for (int i = 0; i < n; i++) {
        int64_t x = i < n - na ? 1 : a->sizes[i - (n - na)], y = i < n - nb ? 1 : b->sizes[i - (n - nb)];
        if (x != y && x != 1 && y != 1)
            return td_error(TD_E_RUNTIME, "The size of tensor a (%" PRId64 ") must match the size of tensor b (%" PRId64
                            ") at non-singleton dimension %d", x, y, i);
        sizes[i] = x == 1 ? y : x;
    }
    return n;
}

/* By ranks: two vectors are dot's, a matrix and a vector mv's. Else a vector stands for a matrix of one row (on the
 * left) or one column (on the right), and the result lacks that dimension. The batch takes at most TD_MAX_DIMS - 2
 * sizes, so that m and n fit behind it. */
int td_meta_matmul(td_spec *specs, td_tensor *self, td_tensor *other)
{
    if (self->ndim == 0 || other->ndim == 0)
        return td_error(TD_E_RUNTIME, "both arguments to matmul need to be at least 1D, but they are %dD and %dD",
                        self->ndim,
                        other->ndim);
    if (self->ndim == 1 && other->ndim == 1)
        return td_meta_dot(specs, self, other);
    if (self->ndim == 2 && other->ndim == 1)
        return td_meta_mv(specs, self, other);
    if (same_dtype(self, other) || no_bool("addmm_impl_cpu_", self, other))
        return -1;
    int64_t sizes[TD_MAX_DIMS + 2], m = self->ndim > 1 ? self->sizes[self->ndim - 2] : 1,
    k = self->sizes[self->ndim - 1];
    int64_t n = other->ndim > 1 ? other->sizes[other->ndim - 1] : 1,
    k2 = other->sizes[other->ndim > 1 ? other->ndim - 2 : 0];
    if (k != k2) {
        if (self->ndim > 2 && other->ndim > 2)
            return td_error(TD_E_RUNTIME, "Expected size for first two dimensions of batch2 tensor to be: [%" PRId64 ", %" PRId64
                            "] but got: [%" PRId64 ", %" PRId64 "].", self->sizes[0], k, self->sizes[0], k2);
        return not_multiplied(k ? self->numel / k : m, k, k2, n,
                              (td_drawn[]){{"input", self->ndim, self->sizes, self->ndim - 1},
                                           {"other", other->ndim, other->sizes, other->ndim > 1 ? other->ndim - 2 : 0}});
    }
    int batch = td_matmul_batch(self, other, sizes);
    if (batch < 0)
        return -1;
    if (self->ndim > 1)
        sizes[batch++] = m;
    if (other->ndim > 1)
        sizes[batch++] = n;
    return td_spec_set(specs, batch, sizes, (td_dtype)self->dtype, self->device);
}

/* The gradient of one operand: `left` @ `right`, summed over dimensions that were broadcast. */
static td_tensor *fitted_product(td_tensor *left, td_tensor *right, td_tensor *like)
{
    TD_AUTO td_tensor *product = td_matmul(left, right);
    return td_sum_to_size(product, like ? like->ndim : 0, like ? like->sizes : NULL);
}

/* For a matrix on the right of a batch the sum over the batch is part of the product.
 * With the rows x_i of all members below one another, sum_i x_i^H g_i is X^H G: one product with a long inner
 * dimension, where a batched product would first hold a whole matrix for each member and then add them up. */
static td_tensor *folded_product(td_tensor *self, td_tensor *grad)
{
    int64_t k = self->sizes[self->ndim - 1], n = grad->sizes[grad->ndim - 1];
    int64_t rows = 1;
    for (int i = 0; i < self->ndim - 1; i++)
        rows *= self->sizes[i];
    TD_AUTO td_tensor *x = td_reshape(self, 2, (int64_t[]){rows, k});
    TD_AUTO td_tensor *g = td_reshape(grad, 2, (int64_t[]){rows, n});
    TD_AUTO td_tensor *adjoint = td_adjoint_of(x);
    return td_mm(adjoint, g);
}

/* For y = a b: grad a = g b^H and grad b = a^H g, each summed over the batch dimensions that were broadcast. Vectors
 * get the dimension that they lack before, and lose it afterwards; mask says which of the two are wanted. */
int td_op_matmul_backward(td_tensor **results, td_tensor *grad, td_tensor *self, td_tensor *other, int64_t n_mask,
                          const bool *mask)
{
    (void)n_mask;
    bool row = self->ndim == 1, column = other->ndim == 1;
    TD_AUTO td_tensor *a = row ? td_unsqueeze(self, 0) : td_ref(self);
    TD_AUTO td_tensor *b = column ? td_unsqueeze(other, 1) : td_ref(other);
    TD_AUTO td_tensor *with_column = column ? td_unsqueeze(grad, -1) : td_ref(grad);
    TD_AUTO td_tensor *g = row ? td_unsqueeze(with_column, -2) : td_ref(with_column);
    TD_AUTO td_tensor *grad_a = NULL, *grad_b = NULL;
    if (mask[0]) {
        TD_AUTO td_tensor *adjoint = td_adjoint_of(b);
        grad_a = fitted_product(g, adjoint, a);
    }
    if (mask[1]) {
        TD_AUTO td_tensor *adjoint = td_adjoint_of(a);
        grad_b = b && b->ndim == 2 && a && a->ndim > 2 && g ? folded_product(a, g) : fitted_product(adjoint, g, b);
    }
    results[0] = !mask[0] ? td_ref(TD_NONE) : row ? td_reshape(grad_a, 1, self->sizes) : td_ref(grad_a);
    results[1] = !mask[1] ? td_ref(TD_NONE) : column ? td_reshape(grad_b, 1, other->sizes) : td_ref(grad_b);
    if (results[0] && results[1])
        return 0;
    td_tensor_release(results[0]);
    td_tensor_release(results[1]);
    return -1;
}

int td_meta_addmm(td_spec *specs, td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha)
{
    (void)alpha;
    if (mat1->ndim != 2)
        return td_error(TD_E_RUNTIME, "mat1 must be a matrix, got %d-D tensor", mat1->ndim);
    if (mat2->ndim != 2)
        return td_error(TD_E_RUNTIME, "mat2 must be a matrix, got %d-D tensor", mat2->ndim);
    if (td_meta_mm(specs, mat1, mat2))
        return -1;
    if (self->dtype != mat2->dtype)
        return td_error(TD_E_RUNTIME, "self and mat2 must have the same dtype, but got %s and %s",
                        td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)mat2->dtype));
    return no_bool_times(beta, specs, self) ? -1 : check_expands(self, 2, specs->sizes);
}

/* self may be a vector of the result's length or one number; other shapes that would broadcast to it don't exist
 * below two dimensions. */
int td_meta_addmv(td_spec *specs, td_tensor *self, td_tensor *mat, td_tensor *vec, td_scalar beta, td_scalar alpha)
{
    (void)beta, (void)alpha;
    if (mat->ndim != 2 || vec->ndim != 1 || self->ndim > 1)
        return td_error(TD_E_RUNTIME, "vector + matrix @ vector expected, got %d, %d, %d", self->ndim, mat->ndim,
                        vec->ndim);
    if (mat->sizes[1] != vec->sizes[0] || (self->numel != mat->sizes[0] && self->numel != 1))
        return td_error(TD_E_RUNTIME, "size mismatch, got input (%" PRId64 "), mat (%" PRId64 "x%" PRId64 "), vec (%" PRId64 ")",
                        self->numel, mat->sizes[0], mat->sizes[1], vec->sizes[0]);
    if (self->dtype != mat->dtype || vec->dtype != mat->dtype)
        return td_error(TD_E_RUNTIME, "addmv input tensors must have the same dtype, but got %s, %s, and %s",
                        td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)mat->dtype),
                        td_dtype_title((td_dtype)vec->dtype));
    return td_meta_mv(specs, mat, vec);
}

int td_meta_baddbmm(td_spec *specs, td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta,
                    td_scalar alpha)
{
    (void)alpha;
    if (td_meta_bmm(specs, batch1, batch2))
        return -1;
    if (self->dtype != batch1->dtype)
        return td_error(TD_E_RUNTIME, "Input dtypes must be the same, got: input %s, batch1: %s, batch2: %s",
                        td_cpp_name(self->dtype),
                        td_cpp_name(batch1->dtype), td_cpp_name(batch2->dtype));
    return no_bool_times(beta, specs, self) ? -1 : check_expands(self, 3, specs->sizes);
}

/* Factors alpha and beta are 1 nearly always, and cost nothing then. A complex 1 is multiplied by all the same: the
 * result is complex. */
td_tensor *td_op_scale(td_tensor *self, td_scalar factor)
{
    if (factor.kind != TD_SCALAR_COMPLEX && td_scalar_double(factor) == 1)
        return td_ref(self);
    return td_times(self, factor);
}

td_tensor *td_op_addbmm(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta, td_scalar alpha)
{
    if (batch1->ndim != 3)
        return td_fail(TD_E_RUNTIME, "batch1 must be a 3D tensor");
    if (batch2->ndim != 3)
        return td_fail(TD_E_RUNTIME, "batch2 must be a 3D tensor");
    if (batch1->sizes[0] != batch2->sizes[0])
        return td_fail(TD_E_RUNTIME, "batch1 and batch2 must have same number of batches, got %" PRId64 " and %" PRId64,
                       batch1->sizes[0], batch2->sizes[0]);
    if (batch1->sizes[2] != batch2->sizes[1])
        return td_fail(TD_E_RUNTIME, "Incompatible matrix sizes for bmm (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64 ")",
                       batch1->sizes[1], batch1->sizes[2], batch2->sizes[1], batch2->sizes[2]);
    /* The sum over the batch lengthens the inner dimension. */
    int64_t b = batch1->sizes[0], m = batch1->sizes[1], k = batch1->sizes[2], n = batch2->sizes[2];
    TD_AUTO td_tensor *permuted = td_permute(batch1, 3, (int64_t[]){1, 0, 2});
    TD_AUTO td_tensor *left = td_reshape(permuted, 2, (int64_t[]){m, b * k});
    TD_AUTO td_tensor *right = td_reshape(batch2, 2, (int64_t[]){b * k, n});
    return td_addmm(self, left, right, beta, alpha);
}

/* A self that was broadcast gets the result's shape, as in PyTorch; so the sum can't be written over it while it is
 * being read. */
int td_op_addbmm_(td_tensor *self, td_tensor *batch1, td_tensor *batch2, td_scalar beta, td_scalar alpha)
{
    TD_AUTO td_tensor *original = td_original(self);
    TD_AUTO td_tensor *sum = td_addbmm(original, batch1, batch2, beta, alpha);
    if (!sum)
        return -1;
    bool same = sum->ndim == self->ndim && !memcmp(sum->sizes, self->sizes, sizeof *sum->sizes * sum->ndim);
    if (!same && td_resize_(self, sum->ndim, sum->sizes, TD_MEMORY_FORMAT_NONE))
        return -1;
    return td_record_inplace("addbmm_", self, td_ref(sum));
}

/* beta self + alpha vec1 vec2^T. A beta of 0 means that self isn't read, so its NaN and infinities don't reach the
 * result. Among bools a factor counts only as zero or not, and the sum is a logical or. */
td_tensor *td_op_addr(td_tensor *self, td_tensor *vec1, td_tensor *vec2, td_scalar beta, td_scalar alpha)
{
    if (vec1->ndim != 1)
        return td_fail(TD_E_RUNTIME, "addr: Expected 1-D argument vec1, but got %d-D", vec1->ndim);
    if (vec2->ndim != 1)
        return td_fail(TD_E_RUNTIME, "addr: Expected 1-D argument vec2, but got %d-D", vec2->ndim);
    if (check_expands(self, 2, (int64_t[]){vec1->sizes[0], vec2->sizes[0]}))
        return NULL;
    /* A number counts as the matrix that it is expanded to. */
    TD_AUTO td_tensor *matrix = self->ndim ? td_ref(self) : td_unsqueeze(self, 0);
    td_dtype result = matrix ? td_result_type(3, (td_tensor *[]){matrix, vec1, vec2}) : TD_DTYPE_NONE;
    if (result == TD_DTYPE_NONE || td_check_factor("alpha", alpha, result) || td_check_factor("beta", beta, result))
        return NULL;
    if (result == TD_BOOL)
        alpha = td_int(alpha.i != 0), beta = td_int(beta.i != 0);
    /* Factors are of the result's dtype: 2.5 times integers would be float32 beside halves. */
    TD_AUTO td_tensor *first = td_to(vec1, result), *second = td_to(vec2, result), *summand = td_to(matrix, result);
    TD_AUTO td_tensor *product = td_outer(first, second);
    TD_AUTO td_tensor *scaled = td_scale(product, alpha);
    bool zero = beta.kind == TD_SCALAR_BOOL ? !beta.i : beta.kind != TD_SCALAR_COMPLEX && td_scalar_double(beta) == 0;
    if (zero) {     /* self isn't read, but its dtype counts */
        if (!scaled || !td_requires_grad(self) || !td_grad_enabled())
            return scaled ? td_to(scaled, result) : NULL;
        TD_AUTO td_tensor *nothing = td_fill_scalar(summand, td_int(0));      /* its gradient is zero, but it has one */
        return td_add_tensor(scaled, nothing, td_int(1));
    }
    TD_AUTO td_tensor *base = td_scale(summand, beta);
    TD_AUTO td_tensor *sum = td_add_tensor(base, scaled, td_int(1));
    bool boolean = self->dtype == TD_BOOL && vec1->dtype == TD_BOOL && vec2->dtype == TD_BOOL;
    return boolean ? td_to(sum, TD_BOOL) : td_ref(sum);
}

td_tensor *td_op_outer(td_tensor *self, td_tensor *vec2)
{
    if (self->ndim != 1)
        return td_fail(TD_E_RUNTIME, "outer: Expected 1-D argument self, but got %d-D", self->ndim);
    if (vec2->ndim != 1)
        return td_fail(TD_E_RUNTIME, "outer: Expected 1-D argument vec2, but got %d-D", vec2->ndim);
    TD_AUTO td_tensor *column = td_unsqueeze(self, 1);
    return td_mul_tensor(column, vec2);
}

td_tensor *td_op_ger(td_tensor *self, td_tensor *vec2)
{
    return td_op_outer(self, vec2);
}

/* Numbers multiply; else the last dimensions are contracted. */
/* A number among the operands makes it a product, which converts, and gives out no history. */
int td_out_check_inner(td_tensor *self, td_tensor *other, td_tensor *out)
{
    static const char words[] = "tensordot: Expected the output tensor to have dtype {want}, but got an output tensor with dtype {got}";
    if (self->ndim == 0 || other->ndim == 0)
        return td_grad_enabled() && (td_requires_grad(self) || td_requires_grad(other) || td_requires_grad(out)) ? td_fail_out_grad("mul") : 0;
    const td_dtype want = td_promote_types((td_dtype)self->dtype, (td_dtype)other->dtype);
    return want == TD_DTYPE_NONE ? -1 : td_check_exact(words, want, (td_dtype)out->dtype);
}

td_tensor *td_op_inner(td_tensor *self, td_tensor *other)
{
    td_shape_text a, b;
    if (self->ndim == 0 || other->ndim == 0)
        return td_mul_tensor(self, other);
    if (self->sizes[self->ndim - 1] != other->sizes[other->ndim - 1])
        return td_fail(TD_E_RUNTIME, "inner() the last dimension must match on both input tensors but got shapes %s and %s",
                       td_shape_str(self->ndim, self->sizes, a), td_shape_str(other->ndim, other->sizes, b));
    int64_t last_a[] = {self->ndim - 1}, last_b[] = {other->ndim - 1};
    return td_tensordot(self, other, 1, last_a, 1, last_b);
}

/* Bytes, the first operand's with or without a sign, multiplied and summed as int32. */
int td_meta__int_mm(td_spec *specs, td_tensor *self, td_tensor *mat2)
{
    const char *name = "int_mm_out_cpu";
    if (self->ndim != 2 || mat2->ndim != 2)
        return td_error(TD_E_RUNTIME, "%s: Expected %s to be of dimension 2 but got %d", name, self->ndim != 2 ? "self" : "mat2",
                        self->ndim != 2 ? self->ndim : mat2->ndim);
    if (self->sizes[1] != mat2->sizes[0])
        return td_error(TD_E_RUNTIME, "%s: self.size(1) needs to match mat2.size(0) but got %" PRId64 " and %" PRId64, name, self->sizes[1],
                        mat2->sizes[0]);
    if (self->dtype != TD_I8 && self->dtype != TD_U8)
        return td_error(TD_E_RUNTIME, "%s: Expected self dtype to be int8 or uint8 but got %s", name, td_cpp_name(self->dtype));
    if (mat2->dtype != TD_I8)
        return td_error(TD_E_RUNTIME, "%s: Expected mat2 dtype to be of type int8 but got %s", name, td_cpp_name(mat2->dtype));
    return td_spec_set(specs, 2, (int64_t[]){self->sizes[0], mat2->sizes[1]}, TD_I32, self->device);
}

/* The cheapest parenthesization of a matrix chain, by the usual table over ranges of factors.
 * split[i * n + j] is the k at which factors i to j are divided into i to k and k + 1 to j. */
static td_tensor *chain(const uint8_t *split, int n, td_tensor *const *factors, int i, int j)
{
    if (i == j)
        return td_ref(factors[i]);
    int k = split[i * n + j];
    TD_AUTO td_tensor *left = chain(split, n, factors, i, k), *right = chain(split, n, factors, k + 1, j);
    return td_mm(left, right);
}

/* Matrix chain multiplication (Cormen et al., Introduction to Algorithms, "Dynamic programming"): cost[i * n + j] is
 * the least number of multiplications for the factors i to j, found from shorter ranges in n^3 / 6 steps. Costs are
 * doubles because products of three sizes can exceed an int64; a rounded cost can only choose the second best order.
 * With at most 64 factors a split fits a byte and the tables (36 KiB) the stack. */
static td_tensor *multiply_chain(int n, td_tensor *const *factors)
{
    enum { MOST = 64 };
    double cost[MOST * MOST];
    uint8_t split[MOST * MOST];
    if (n > MOST)
        return td_fail(TD_E_RUNTIME, "multi_dot(): at most %d matrices are supported, got %d", MOST, n);
    for (int i = 0; i < n; i++)
        cost[i * n + i] = 0;
    for (int length = 1; length < n; length++)
        for (int i = 0; i + length < n; i++) {
            int j = i + length;
            cost[i * n + j] = -1;
            for (int k = i; k < j; k++) {
                double c = cost[i * n + k] + cost[(k + 1) * n + j] +
                    (double)factors[i]->sizes[0] * (double)factors[k]->sizes[1] * (double)factors[j]->sizes[1];
                if (cost[i * n + j] < 0 || c < cost[i * n + j])
                    cost[i * n + j] = c, split[i * n + j] = (uint8_t)k;
            }
        }
    return chain(split, n, factors, 0, n - 1);
}

/* A row is added to a product on a device, and nobody differentiates. */
static bool is_fusible(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha)
{
    bool plain = true;
    for (int i = 0; i < 3; i++) {
        td_tensor *x = (td_tensor *[]){self, mat1, mat2}[i];
        plain = plain && x->dtype == mat1->dtype && x->device.type == mat1->device.type && !td_hides_values(x) && !td_tangent(x) &&
                !(td_grad_enabled() && td_requires_grad(x));
    }
    return plain && mat1->device.type != TD_CPU && mat1->device.type != TD_META && self->ndim == 1 && mat1->ndim == 2 && mat2->ndim == 2 &&
           mat1->sizes[1] == mat2->sizes[0] && self->sizes[0] == mat2->sizes[1] && td_scalar_equals(beta, td_int(1)) && td_scalar_equals(alpha, td_int(1));
}

td_tensor *td_op__addmm_activation(td_tensor *self, td_tensor *mat1, td_tensor *mat2, td_scalar beta, td_scalar alpha, bool use_gelu)
{
    const bool cuda = mat1->device.type == TD_CUDA;
    if (is_fusible(self, mat1, mat2, beta, alpha) && (cuda || !use_gelu))
        return td__addmm_fused(self, mat1, mat2, use_gelu);
    TD_AUTO td_tensor *sum = td_addmm(self, mat1, mat2, beta, alpha);
    return use_gelu ? td_gelu(sum, cuda ? "tanh" : "none") : td_relu(sum);
}
td_tensor *td_op__addmm_fused(td_tensor *self, td_tensor *mat1, td_tensor *mat2, bool use_gelu)
{
    TD_AUTO td_tensor *sum = td_addmm(self, mat1, mat2, td_int(1), td_int(1));
    return use_gelu ? td_gelu(sum, "tanh") : td_relu(sum);
}

td_tensor *td_op_chain_matmul(int64_t n_matrices, td_tensor *const *matrices)
{
    if (n_matrices == 0)
        return td_fail(TD_E_RUNTIME, "chain_matmul(): Expected one or more matrices");
    for (int64_t i = 0; i < n_matrices; i++)
        if (matrices[i]->ndim != 2)
            return td_fail(TD_E_RUNTIME, "Tensor dimension is %d, expected 2 instead.", matrices[i]->ndim);
    if (n_matrices == 1)
        return td_clone(matrices[0]);
    return multiply_chain((int)n_matrices, matrices);
}

/* A vector in front counts as a row, one at the end as a column; those dimensions are taken away again. Only these
 * two may be vectors. */
td_tensor *td_op_linalg_multi_dot(int64_t n, td_tensor *const *tensors)
{
    if (n < 2)
        return td_fail(TD_E_RUNTIME, "multi_dot(): expected at least 2 tensors but got %" PRId64, n);
    for (int64_t i = 0; i < n; i++) {
        bool end = i == 0 || i == n - 1;
        if (tensors[i]->ndim != 2 && !(end && tensors[i]->ndim == 1))
            return td_fail(TD_E_RUNTIME, end ? "multi_dot(): the %s tensor must be 1D or 2D but got %dD" :
                           "multi_dot(): tensor %s must be 2D but got %dD",
                           i == 0 ? "first" : end ? "last" : "in between",
                           tensors[i]->ndim);
        if (tensors[i]->dtype != tensors[0]->dtype)
            return td_fail(TD_E_RUNTIME, "multi_dot(): all tensors must have be the same dtype but tensor 0 is %s and tensor "
                           "%" PRId64 " %s", td_dtype_title((td_dtype)tensors[0]->dtype), i,
                           td_dtype_title((td_dtype)tensors[i]->dtype));
    }
    TD_AUTO td_tensor *first = tensors[0]->ndim == 1 ? td_unsqueeze(tensors[0], 0) : td_ref(tensors[0]);
    TD_AUTO td_tensor *last = tensors[n - 1]->ndim == 1 ? td_unsqueeze(tensors[n - 1], 1) : td_ref(tensors[n - 1]);
    if (!first || !last || n > 64)
        return n > 64 ? td_fail(TD_E_RUNTIME, "multi_dot(): at most 64 tensors are supported, got %" PRId64, n) : NULL;
    td_tensor *factors[64];
    for (int64_t i = 0; i < n; i++)
        factors[i] = i == 0 ? first : i == n - 1 ? last : tensors[i];
    for (int64_t i = 1; i < n; i++)
        if (factors[i - 1]->sizes[1] != factors[i]->sizes[0])
            return td_fail(TD_E_RUNTIME, "multi_dot(): tensors %" PRId64 " and %" PRId64 " with shapes [%" PRId64 ", %" PRId64
                           "] and [%" PRId64 ", %" PRId64 "] cannot be multiplied", i - 1, i, factors[i - 1]->sizes[0],
                           factors[i - 1]->sizes[1], factors[i]->sizes[0], factors[i]->sizes[1]);
    TD_AUTO td_tensor *product = multiply_chain((int)n, factors);
    bool row = tensors[0]->ndim == 1, column = tensors[n - 1]->ndim == 1;
    TD_AUTO td_tensor *without = column ? td_squeeze_dim(product, 1) : td_ref(product);
    return row ? td_squeeze_dim(without, 0) : td_ref(without);
}

/* input [..., in] times the transpose of weight [out, in], plus bias; a weight of one dimension has a single output,
 * whose dimension the result lacks. */
int td_meta_linear(td_spec *specs, td_tensor *input, td_tensor *weight, td_tensor *bias)
{
    if (input->ndim == 0 || weight->ndim == 0)
        return td_error(TD_E_RUNTIME, "both arguments to linear need to be at least 1D, but they are %dD and %dD",
                        input->ndim,
                        weight->ndim);
    if (weight->ndim > 2)
        return td_error(TD_E_RUNTIME, "linear: weight must have one or two dimensions, got %dD", weight->ndim);
    int64_t k = input->sizes[input->ndim - 1], in = weight->sizes[weight->ndim - 1], sizes[TD_MAX_DIMS];
    if (k != in) {
        int64_t rows = k ? input->numel / k : 0;
        return not_multiplied(rows, k, in, weight->ndim == 2 ? weight->sizes[0] : 1,
                              (td_drawn[]){{"input", input->ndim, input->sizes, input->ndim - 1},
                                           {"weight", weight->ndim, weight->sizes, weight->ndim - 1}});
    }
    if (input->dtype != weight->dtype)
        return bias == TD_NONE ? same_dtype(input, weight)
                               : td_error(TD_E_RUNTIME, "mat1 and mat2 must have the same dtype, but got %s and %s",
                                          td_dtype_title((td_dtype)input->dtype), td_dtype_title((td_dtype)weight->dtype));
    if (no_bool("addmm_impl_cpu_", input, weight))
        return -1;
    int ndim = 0;
    for (; ndim < input->ndim - 1; ndim++)
        sizes[ndim] = input->sizes[ndim];
    if (weight->ndim == 2)
        sizes[ndim++] = weight->sizes[0];
    if (bias != TD_NONE) {
        /* PyTorch adds a bias to what is no matrix in memory by add_, which converts. */
        const bool added = input->ndim != 2 && (!td_tensor_is_contiguous(input) || (input->ndim != 3 && bias->ndim != 1));
        if (bias->dtype != input->dtype && added && td_check_cast("linear", td_promote_types((td_dtype)bias->dtype, (td_dtype)input->dtype),
                                                                  (td_dtype)input->dtype))
            return -1;
        if (bias->dtype != input->dtype && !added)
            return td_error(TD_E_RUNTIME, "self and mat2 must have the same dtype, but got %s and %s",
                            td_dtype_title((td_dtype)bias->dtype), td_dtype_title((td_dtype)weight->dtype));
        if (check_expands(bias, ndim, sizes))
            return -1;
    }
    return td_spec_set(specs, ndim, sizes, (td_dtype)input->dtype, input->device);
}

/* For y = x W^T + b, over all rows: grad x = g conj(W), grad W = g^T conj(x), grad b = sum of g over the rows. All
 * leading dimensions of the input are joined to rows, so each is one product of matrices. */
int td_op_linear_backward(td_tensor **results, td_tensor *self, td_tensor *grad, td_tensor *weight, int64_t n_mask,
                          const bool *mask)
{
    (void)n_mask;
    results[0] = results[1] = results[2] = NULL;
    if (self->ndim < 1 || weight->ndim < 1)
        return td_error(TD_E_RUNTIME, "linear_backward: a number has no features");
    int64_t in = self->sizes[self->ndim - 1], out = weight->ndim == 2 ? weight->sizes[0] : 1, rows = 1;
    for (int i = 0; i < self->ndim - 1; i++)
        rows *= self->sizes[i];
    TD_AUTO td_tensor *g = td_reshape(grad, 2, (int64_t[]){rows, out});
    TD_AUTO td_tensor *w = weight->ndim == 2 ? td_ref(weight) : td_unsqueeze(weight, 0);
    if (mask[0]) {
        TD_AUTO td_tensor *conjugate = td_conj(w);
        TD_AUTO td_tensor *flat = td_mm(g, conjugate);
        results[0] = td_reshape(flat, self->ndim, self->sizes);
    } else {
        results[0] = td_ref(TD_NONE);
    }
    if (mask[1]) {
        TD_AUTO td_tensor *x = td_reshape(self, 2, (int64_t[]){rows, in});
        TD_AUTO td_tensor *conjugate = td_conj(x);
        TD_AUTO td_tensor *transposed = td_transpose_int(g, 0, 1);
        TD_AUTO td_tensor *product = td_mm(transposed, conjugate);
        results[1] = td_reshape(product, weight->ndim, weight->sizes);
    } else {
        results[1] = td_ref(TD_NONE);
    }
    if (mask[2])
        results[2] = weight->ndim == 2 ? td_sum_over(g, 1, (int64_t[]){0}, false) : td_sum_over(g, 2, (int64_t[]){0,
            1}, false);
    else
        results[2] = td_ref(TD_NONE);
    if (results[0] && results[1] && results[2])
        return 0;
    for (int i = 0; i < 3; i++)
        td_tensor_release(results[i]);
    return -1;
}

/* linear_backward sums a bias's gradient to a vector. A bias of more dimensions was added position by position, so
 * its gradient is grad. */
int td_op_linear_gradients(td_tensor **results, td_tensor *self, td_tensor *grad, td_tensor *weight, int64_t bias_ndim, int64_t n_mask,
                           const bool *mask)
{
    const bool whole = bias_ndim > 1 && mask[2];
    if (td_linear_backward(results, self, grad, weight, n_mask, (const bool[]){mask[0], mask[1], mask[2] && !whole}) != 0)
        return -1;
    if (whole) {
        td_tensor_release(results[2]);
        results[2] = td_ref(grad);
    }
    return 0;
}

/* y[r, o] = sum over i and j of input1[r, i] weight[o, i, j] input2[r, j].
 *
 * First the sum over i, as one product of matrices [rows, in1] x [in1, out * in2], then the one over j elementwise:
 * nothing larger than rows * out * in2 is ever held. */
td_tensor *td_op_bilinear(td_tensor *input1, td_tensor *input2, td_tensor *weight, td_tensor *bias)
{
    if (input1->ndim != input2->ndim)
        return td_fail(TD_E_RUNTIME, "bilinear(): input dimensions do not match: got %d and %d", input1->ndim,
                       input2->ndim);
    for (int i = 0; i < input1->ndim - 1; i++)
        if (input1->sizes[i] != input2->sizes[i])
            return td_fail(TD_E_RUNTIME, "bilinear(): input batch dimensions do not match at dim %d: got %" PRId64 " and %" PRId64,
                           i, input1->sizes[i], input2->sizes[i]);
    if (weight->ndim != 3 || input1->ndim < 1)
        return td_fail(TD_E_RUNTIME, "bilinear(): weight must have three dimensions, got %d", weight->ndim);
    int64_t in1 = input1->sizes[input1->ndim - 1], in2 = input2->sizes[input2->ndim - 1], out = weight->sizes[0];
    if (in1 != weight->sizes[1])
        return td_fail(TD_E_RUNTIME, "bilinear(): input1 size does not match weight size: got %" PRId64 " but expected %" PRId64,
                       in1, weight->sizes[1]);
    if (in2 != weight->sizes[2])
        return td_fail(TD_E_RUNTIME, "bilinear(): input2 size does not match weight size: got %" PRId64 " but expected %" PRId64,
                       in2, weight->sizes[2]);
    if (bias != TD_NONE && (!bias->ndim || bias->sizes[0] != out))
        return td_fail(TD_E_RUNTIME, "bilinear(): bias size does not match weight size: got %" PRId64 " but expected %" PRId64,
                       bias->ndim ? bias->sizes[0] : 1, out);
    if (input1->dtype != input2->dtype || input1->dtype != weight->dtype || (bias != TD_NONE && bias->dtype != weight->dtype))
        return td_fail(TD_E_RUNTIME, "bilinear(): All tensors must have the same dtype, got input1: %s, input2: %s, weight: %s, bias: %s",
                       td_cpp_name(input1->dtype), td_cpp_name(input2->dtype), td_cpp_name(weight->dtype),
                       bias != TD_NONE ? td_cpp_name(bias->dtype) : "undefined");
    int64_t rows = 1, sizes[TD_MAX_DIMS];
    for (int i = 0; i < input1->ndim - 1; i++)
        rows *= sizes[i] = input1->sizes[i];
    sizes[input1->ndim - 1] = out;
    TD_AUTO td_tensor *x = td_reshape(input1, 2, (int64_t[]){in1 ? rows : -1, in1});       /* how many rows of nothing, nobody knows */
    TD_AUTO td_tensor *y = td_reshape(input2, 3, (int64_t[]){rows, 1, in2});
    TD_AUTO td_tensor *permuted = td_permute(weight, 3, (int64_t[]){1, 0, 2});
    TD_AUTO td_tensor *flat = td_reshape(permuted, 2, (int64_t[]){in1, out * in2});
    TD_AUTO td_tensor *half = td_mm(x, flat);
    TD_AUTO td_tensor *parts = td_reshape(half, 3, (int64_t[]){rows, out, in2});
    TD_AUTO td_tensor *products = td_mul_tensor(parts, y);
    TD_AUTO td_tensor *sums = products ? td_sum_dim_intlist(products, 1, (int64_t[]){2}, false, (td_dtype)products->dtype) : NULL;
    TD_AUTO td_tensor *shaped = td_reshape(sums, input1->ndim, sizes);
    return bias == TD_NONE ? td_ref(shaped) : td_add_tensor(shaped, bias, td_int(1));
}

/* Dimension i of the result joins self's (slow) and other's (fast). Each is reshaped to twice as many dimensions, in
 * which the other has size 1, so that one broadcast product makes all pairs; a last reshape joins them. */
td_tensor *td_op_kron(td_tensor *self, td_tensor *other)
{
    int ndim = self->ndim > other->ndim ? self->ndim : other->ndim;
    if (2 * ndim > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "kron: at most %d dimensions are supported, got %d", TD_MAX_DIMS / 2, ndim);
    int64_t a[TD_MAX_DIMS], b[TD_MAX_DIMS], sizes[TD_MAX_DIMS];
    for (int i = 0; i < ndim; i++) {
        int ia = i - (ndim - self->ndim), ib = i - (ndim - other->ndim);
        int64_t x = ia < 0 ? 1 : self->sizes[ia], y = ib < 0 ? 1 : other->sizes[ib];
        a[2 * i] = x, a[2 * i + 1] = 1, b[2 * i] = 1, b[2 * i + 1] = y;
        if (td_mul_checked(x, y, &sizes[i]))
            return NULL;
    }
    TD_AUTO td_tensor *left = td_reshape(self, 2 * ndim, a), *right = td_reshape(other, 2 * ndim, b);
    TD_AUTO td_tensor *product = td_mul_tensor(left, right);
    int64_t strides[TD_MAX_DIMS];
    /* Nobody else holds the product: the result is no view of it. */
    return product && td_view_strides(product, ndim, sizes, strides) ? td__unsafe_view(product, ndim, sizes) : td_reshape(product, ndim, sizes);
}

/* One product of matrices: self with its contracted dimensions last, [m, k], and other with them first, [k, n]. What
 * is left of both is the result's shape, which may have up to twice TD_MAX_DIMS dimensions before that is checked. */
td_tensor *td_op_tensordot(td_tensor *self, td_tensor *other, int64_t n_a, const int64_t *dims_a, int64_t n_b,
                           const int64_t *dims_b)
{
    if (n_a != n_b)
        return td_fail(TD_E_RUNTIME, "both dimension lists should have same length");
    if (self->dtype != other->dtype)
        return td_fail(TD_E_RUNTIME, "tensordot: both inputs should have same dtype, but got %s and %s",
                       td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)other->dtype));
    bool in_a[TD_MAX_DIMS] = {0}, in_b[TD_MAX_DIMS] = {0};
    int order_a[TD_MAX_DIMS], order_b[TD_MAX_DIMS];
    TD_AUTO td_tensor *a = td_ref(self), *b = td_ref(other);
    for (int64_t i = 0; i < n_a; i++) {
        if (!self->ndim || !other->ndim)
            return td_fail(TD_E_INDEX, "Dimension specified as %" PRId64 " but tensor has no dimensions", self->ndim ? dims_b[i] : dims_a[i]);
        int da = td_wrap_dim(dims_a[i], self->ndim), db = td_wrap_dim(dims_b[i], other->ndim);
        if (da < 0 || db < 0)
            return NULL;
        if (in_a[da] || in_b[db])
            return td_fail(TD_E_RUNTIME, "dim %d appears multiple times in the list of dims", in_a[da] ? da : db);
        in_a[da] = in_b[db] = true, order_a[i] = da, order_b[i] = db;
        int64_t x = self->sizes[da], y = other->sizes[db];
        if (x == y)
            continue;
        /* A dimension of length 1 stands for as many as the other has: that one is summed. */
        td_tensor **longer = x == 1 ? &b : &a;
        if (x != 1 && y != 1)
            return td_fail(TD_E_RUNTIME, "contracted dimensions need to match, but first has size %" PRId64 " in dim %" PRId64
                           " and second has size %" PRId64 " in dim %" PRId64, x, dims_a[i], y, dims_b[i]);
        td_tensor *summed = td_sum_dim_intlist(*longer, 1, (int64_t[]){x == 1 ? db : da}, true, (td_dtype)(*longer)->dtype);
        td_tensor_release(*longer);
        *longer = summed;
        if (!summed)
            return NULL;
    }
    int64_t p[TD_MAX_DIMS], q[TD_MAX_DIMS], sizes[TD_MAX_DIMS * 2], m = 1, n = 1, k = 1;
    int np = 0, nq = 0, ndim = 0;
    for (int i = 0; i < a->ndim; i++)
        if (!in_a[i])
            p[np++] = i, sizes[ndim++] = a->sizes[i], m *= a->sizes[i];
    for (int i = 0; i < n_a; i++)
        p[np++] = order_a[i], q[nq++] = order_b[i], k *= a->sizes[order_a[i]];
    for (int i = 0; i < b->ndim; i++)
        if (!in_b[i])
            q[nq++] = i, sizes[ndim++] = b->sizes[i], n *= b->sizes[i];
    if (ndim > TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "tensordot: the result would have %d dimensions", ndim);
    TD_AUTO td_tensor *permuted_a = td_permute(a, np, p), *permuted_b = td_permute(b, nq, q);
    TD_AUTO td_tensor *left = td_reshape(permuted_a, 2, (int64_t[]){m, k}), *right = td_reshape(permuted_b, 2,
        (int64_t[]){k, n});
    TD_AUTO td_tensor *product = td_mm(left, right);
    return td_reshape(product, ndim, sizes);
}
