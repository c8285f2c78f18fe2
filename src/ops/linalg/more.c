/* Linear algebra made of other operators: powers, products of vectors, norms, ranks, pseudo-inverses.
 *
 * None has a kernel, and most have no derivative formula: what they are made of records itself. The
 * _atol_rtol_float forms make tensors of their numbers and go on as the tensor forms do; those with rcond or tol are
 * older and have an absolute or a relative bound, with 0 for the other. */

#include "calls_ops_linalg_more.h"
#include <inttypes.h>
#include <math.h>
#include <tede/kernel.h>
#include "base/warn.h"
#include "dispatch/outputs.h"
#include "ops/index/index.h"
#include "ops/linalg/linalg.h"

#define LET(x) TD_AUTO td_tensor *x

/* ---- powers and products */

/* By repeated squaring (Knuth, The Art of Computer Programming 2, section 4.6.3), from the lowest bit: log2 n squares
 * and a product for each further bit that is set. Three is (A A) A, PyTorch's order, so that it rounds alike. The
 * absolute value is taken in unsigned arithmetic, where INT64_MIN has one. */
td_tensor *td_op_linalg_matrix_power(td_tensor *self, int64_t n)
{
    if (td_check_square("linalg.matrix_power", self))
        return NULL;
    if (n == 0) {
        LET(unit) = td_eye(self->sizes[self->ndim - 1], (td_dtype)self->dtype, self->device);
        td_tensor *power = td_clone_format(self, TD_CONTIGUOUS_FORMAT);    /* of self's graph, with a gradient of 0 */
        if (!power || !unit || td_copy_from_(power, unit, false)) {
            td_tensor_release(power);
            return NULL;
        }
        return power;
    }
    LET(base) = n < 0 ? td_linalg_inv(self) : td_ref(self);
    uint64_t left = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    if (left == 1)
        return n < 0 ? td_ref(base) : td_clone_format(base, TD_CONTIGUOUS_FORMAT);
    if (left == 3) {
        LET(square) = td_matmul(base, base);
        return td_matmul(square, base);
    }
    LET(result) = NULL;
    LET(power) = td_ref(base);
    for (; left && power; left >>= 1) {
        if (left & 1) {
            td_tensor *next = result ? td_matmul(result, power) : td_ref(power);
            td_tensor_release(result);
            result = next;
        }
        if (left > 1) {
            td_tensor *next = td_matmul(power, power);
            td_tensor_release(power);
            power = next;
        }
    }
    return power ? td_ref(result) : NULL;
}
/* The last product goes to out= as it is, so its dtype must be the result's; 0, 1 and even chains of squares end with a copy. */
int td_out_check_linalg_matrix_power(td_tensor *self, int64_t n, td_tensor *out)
{
    const uint64_t times = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    const bool copied = n == 0 || n == 1 || (times > 2 && (times & (times - 1)) == 0);
    return copied ? 0 : td_check_exact(TD_EXACT_OUT, (td_dtype)self->dtype, (td_dtype)out->dtype);
}
int td_out_check_matrix_power(td_tensor *self, int64_t n, td_tensor *out) { return td_out_check_linalg_matrix_power(self, n, out); }
td_tensor *td_op_matrix_power(td_tensor *self, int64_t n) { return td_linalg_matrix_power(self, n); }
td_tensor *td_op_linalg_matmul(td_tensor *self, td_tensor *other) { return td_matmul(self, other); }

/* sum of conj(x) * y along dim. */
td_tensor *td_op_linalg_vecdot(td_tensor *x, td_tensor *y, int64_t dim)
{
    if (!td_is_floating(x) && !td_is_complex(x))
        return td_fail(TD_E_RUNTIME, "linalg.vecdot: Expected a floating point or complex tensor as input. Got %s",
                       td_dtype_title((td_dtype)x->dtype));
    if (x->dtype != y->dtype)
        return td_fail(TD_E_RUNTIME, "linalg.vecdot: Expected x and y to have the same dtype, but found x of type %s and y of type %s instead",
                       td_dtype_title((td_dtype)x->dtype), td_dtype_title((td_dtype)y->dtype));
    LET(conjugate) = td_conj(x);
    LET(product) = td_mul(conjugate, y);
    return td_sum_over(product, 1, &dim, false);
}

/* An out= that is an operand would be computed as well, and is refused because PyTorch refuses it. */
int td_out_check_linalg_cross(td_tensor *self, td_tensor *other, int64_t dim, td_tensor *out)
{
    (void)dim;
    return td_check_apart(out, self) || td_check_apart(out, other) ? -1 : 0;
}
int td_out_check_cross(td_tensor *self, td_tensor *other, const int64_t *dim, td_tensor *out)
{
    (void)dim;
    return td_out_check_linalg_cross(self, other, 0, out);
}

/* With the elements rolled by one and by two: a = (a1, a2, a0) and (a2, a0, a1), so a x b is the one of a times the
 * other of b, less the exchange. Both operands are broadcast, except along dim. */
td_tensor *td_op_linalg_cross(td_tensor *self, td_tensor *other, int64_t dim)
{
    if (self->ndim != other->ndim)
        return td_fail(TD_E_RUNTIME, "linalg.cross: inputs must have the same number of dimensions.");
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return NULL;
    if (self->dtype != other->dtype)
        return td_fail(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)self->dtype),
                       td_dtype_title((td_dtype)other->dtype));
    if (!self->ndim || self->sizes[d] != 3 || other->sizes[d] != 3)
        return td_fail(TD_E_RUNTIME, "linalg.cross: inputs dimension %" PRId64 " must have length 3. Got %" PRId64 " and %" PRId64, dim,
                       self->ndim ? self->sizes[d] : 1, other->ndim ? other->sizes[d] : 1);
    LET(a1) = td_roll(self, 1, (int64_t[]){-1}, 1, (int64_t[]){d});
    LET(a2) = td_roll(self, 1, (int64_t[]){-2}, 1, (int64_t[]){d});
    LET(b1) = td_roll(other, 1, (int64_t[]){-1}, 1, (int64_t[]){d});
    LET(b2) = td_roll(other, 1, (int64_t[]){-2}, 1, (int64_t[]){d});
    LET(first) = td_mul(a1, b2);
    LET(second) = td_mul(a2, b1);
    return td_sub(first, second);
}
/* The older form takes the first dimension of size 3. */
td_tensor *td_op_cross(td_tensor *self, td_tensor *other, const int64_t *dim)
{
    if (dim)
        return td_linalg_cross(self, other, *dim);
    if (TD_WARN_ONCE("Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or simply use "
                "torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross in a future release."))
        return NULL;
    for (int d = 0; d < self->ndim; d++)
        if (self->sizes[d] == 3)
            return td_linalg_cross(self, other, d);
    return td_fail(TD_E_RUNTIME, "no dimension of size 3 in input");
}

/* The four terms of exp's Taylor series from x^(4 block) / (4 block)! on, over x^(4 block): with x, its square and its cube. */
static td_tensor *exp_block(td_tensor *unit, td_tensor *const *powers, int block)
{
    double factor = 1;
    for (int k = 2; k <= 4 * block; k++)
        factor /= k;
    td_tensor *sum = td_times(unit, td_float(factor));
    for (int k = 1; k < 4 && sum; k++) {
        factor /= 4 * block + k;
        td_tensor *more = td_add_tensor(sum, powers[k - 1], td_float(factor));
        td_tensor_release(sum);
        sum = more;
    }
    return sum;
}

/* exp(A) = exp(A / 2^s)^(2^s); the inner one by a Taylor polynomial.
 * Scaling and squaring (Moler and Van Loan, "Nineteen Dubious Ways to Compute the Exponential of a Matrix", 1978).
 * Degree 12 for a norm of at most 1.46 in single precision, 16 for 0.78 in double, in powers of the fourth power (Paterson and
 * Stockmeyer, 1973): five or six products, and no power above the fourth, whose numbers would be denormal.
 * The norm is the largest absolute column sum of all matrices of the batch, which share the number of halvings; a
 * power of two scales exactly. Columns with NaN or infinities don't count, which
 * spread through their matrix' products. Under meta nothing is read: the shape doesn't depend on it. */
td_tensor *td_op_linalg_matrix_exp(td_tensor *self)
{
    if (td_check_square("linalg.matrix_exp", self))
        return NULL;
    if (self->dtype == TD_F16 || self->dtype == TD_BF16) {
        LET(wide) = td_to(self, TD_F32);
        LET(power) = td_linalg_matrix_exp(wide);
        return td_to(power, (td_dtype)self->dtype);
    }
    if (td_check_linalg_dtype("linalg.matrix_exp", self, false))
        return NULL;
    int64_t n = self->sizes[self->ndim - 1];
    if (!self->numel)
        return td_clone(self);
    if (n == 1)
        return td_exp(self);
    double size = 0;            /* nothing to look at on meta */
    if (self->device.type != TD_META) {
        LET(still) = td_detach(self);
        LET(sizes) = td_abs(still);
        LET(columns) = td_sum_over(sizes, 1, (int64_t[]){-2}, false);
        const double none = 0;
        LET(finite) = td_nan_to_num(columns, &none, &none, &none);
        LET(largest) = td_max_all(finite);
        td_scalar norm;
        if (!largest || td_item(&norm, largest))
            return NULL;
        size = td_scalar_double(norm);
    }
    const bool single = self->dtype == TD_F32 || self->dtype == TD_C64;
    const double most = single ? 1.46 : 0.78;
    const int blocks = single ? 3 : 4;
    int halvings = size > most ? (int)ceil(log2(size / most)) : 0;
    LET(x) = td_times(self, td_float(ldexp(1, -halvings)));
    LET(unit) = td_eye(n, (td_dtype)self->dtype, self->device);
    LET(square) = td_matmul(x, x);
    LET(cube) = td_matmul(square, x);
    LET(fourth) = td_matmul(square, square);
    td_tensor *const powers[] = {x, square, cube};
    double last = 1;
    for (int k = 2; k <= 4 * blocks; k++)
        last /= k;
    td_tensor *sum = fourth ? td_times(fourth, td_float(last)) : NULL;
    for (int block = blocks - 1; block >= 0 && sum; block--) {
        LET(rest) = block == blocks - 1 ? td_ref(sum) : td_matmul(sum, fourth);
        LET(terms) = exp_block(unit, powers, block);
        td_tensor_release(sum);
        sum = td_add(terms, rest);
    }
    for (; halvings > 0 && sum; halvings--) {
        td_tensor *twice = td_matmul(sum, sum);
        td_tensor_release(sum);
        sum = twice;
    }
    return sum;
}

/* exp of [[A, D], [0, A]] is [[exp A, the derivative along D], [0, exp A]].
 * Mathias' theorem on block triangular matrices (Higham, Functions of Matrices, theorem 3.6); the block is twice as
 * large, so it costs about eight products of the plain size for each of exp's. The adjoint of the derivative at A is
 * the derivative at A^H, which is what a gradient needs. */
td_tensor *td_op_matrix_exp_differential(td_tensor *self, td_tensor *direction, bool adjoint)
{
    if (td_check_square("matrix_exp_differential", self))
        return NULL;
    int64_t n = self->sizes[self->ndim - 1];
    LET(transposed) = adjoint ? td_transpose_int(self, -2, -1) : td_ref(self);
    LET(a) = adjoint ? td_conj(transposed) : td_ref(transposed);
    LET(zero) = td_zeros_like(a);
    td_tensor *const upper[] = {a, direction}, *const lower[] = {zero, a};
    LET(top) = zero ? td_cat(2, upper, -1) : NULL;
    LET(bottom) = top ? td_cat(2, lower, -1) : NULL;
    td_tensor *const both[] = {top, bottom};
    LET(block) = bottom ? td_cat(2, both, -2) : NULL;
    LET(power) = td_linalg_matrix_exp(block);
    LET(rows) = td_narrow(power, -2, 0, n);
    return td_narrow(rows, -1, n, n);
}

/* (1 - t_0 v_0 v_0^H) (1 - t_1 v_1 v_1^H) ... applied to the first columns of a unit matrix, the last one first.
 * LAPACK's orgqr. v_i has zeros above element i and a 1 there, neither of which is stored, so what input has on and
 * above its diagonal isn't read. The reflections are products of a column and a row: no m by m matrix is made, and a
 * batch goes through at once. */
td_tensor *td_op_linalg_householder_product(td_tensor *input, td_tensor *tau)
{
    if (td_check_matrix("torch.linalg.householder_product", input, "input"))
        return NULL;
    if (tau->dtype != input->dtype)
        return td_fail(TD_E_RUNTIME, "torch.linalg.householder_product: tau dtype %s does not match input dtype %s",
                       td_dtype_title((td_dtype)tau->dtype), td_dtype_title((td_dtype)input->dtype));
    if (input->ndim - tau->ndim != 1)
        return td_fail(TD_E_RUNTIME, "torch.linalg.householder_product: Expected tau to have one dimension less than input, but got tau.ndim equal to %d "
                       "and input.ndim is equal to %d", tau->ndim, input->ndim);
    td_shape_text have;
    if (memcmp(input->sizes, tau->sizes, sizeof *input->sizes * (input->ndim - 2)))
        return td_fail(TD_E_RUNTIME, "torch.linalg.householder_product: Expected batch dimensions of tau to be equal to input.shape[:-2], but got %s",
                       td_shape_str(tau->ndim - 1, tau->sizes, have));
    int64_t m = input->sizes[input->ndim - 2], n = input->sizes[input->ndim - 1], k = tau->sizes[tau->ndim - 1];
    if (m < n)
        return td_fail(TD_E_RUNTIME, "torch.linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]");
    if (n < k)
        return td_fail(TD_E_RUNTIME, "torch.linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]");
    LET(strict) = td_tril(input, -1);
    LET(unit) = td_eye_m(m, n, (td_dtype)input->dtype, input->device);
    LET(vectors) = td_add(strict, unit);
    LET(result) = td_expand(unit, input->ndim, input->sizes);
    for (int64_t i = k - 1; i >= 0 && result; i--) {
        LET(v) = td_narrow(vectors, -1, i, 1);
        LET(t) = td_narrow(tau, -1, i, 1);
        LET(wide) = td_unsqueeze(t, -1);
        LET(adjoint) = td_adjoint_of(v);
        LET(row) = td_matmul(adjoint, result);
        LET(outer) = td_mul(v, row);
        LET(scaled) = td_mul(outer, wide);
        td_tensor *next = td_sub(result, scaled);
        td_tensor_release(result);
        result = next;
    }
    LET(transposed) = td_transpose_int(result, -2, -1);      /* in columns, as LAPACK's */
    LET(columns) = td_clone_format(transposed, TD_CONTIGUOUS_FORMAT);
    return td_transpose_int(columns, -2, -1);
}

/* ---- norms */

/* Wraps both dimensions of a matrix norm to *a (rows) and *b (columns), which must differ. */
static int two_dims(const td_tensor *self, int64_t n_dim, const int64_t *dim, int *a, int *b)
{
    if (td_check_matrix("linalg.matrix_norm", self, "A"))
        return -1;
    if (n_dim != 2)
        return td_error(TD_E_RUNTIME, "linalg.matrix_norm: dim must be a 2-tuple");
    *a = td_wrap_dim(dim[0], self->ndim);
    *b = *a < 0 ? -1 : td_wrap_dim(dim[1], self->ndim);
    if (*b < 0)
        return -1;
    return *a == *b ? td_error(TD_E_RUNTIME, "linalg.matrix_norm: dims must be different. Got (%" PRId64 ", %" PRId64 ")", dim[0], dim[1]) : 0;
}
static td_tensor *singular_values(td_tensor *x, int a, int b)
{
    LET(moved) = td_movedim_intlist(x, 2, (int64_t[]){a, b}, 2, (int64_t[]){-2, -1});
    return td_linalg_svdvals(moved, NULL);
}
/* A norm that was taken over the last two dimensions has size 1 where those came from; the smaller number is put back
 * first, so that the other still means the same position. */
static td_tensor *keep_dims(td_tensor *reduced, int a, int b, bool keepdim)
{
    if (!keepdim)
        return td_ref(reduced);
    LET(one) = td_unsqueeze(reduced, a < b ? a : b);
    return td_unsqueeze(one, a < b ? b : a);
}
static td_tensor *in_dtype(td_tensor *self, td_dtype dtype)
{
    if (dtype != TD_DTYPE_NONE && td_is_complex(self) && !td_dtype_is_complex(dtype))
        return td_fail(TD_E_RUNTIME, "linalg.matrix_norm: dtype should be complex for complex inputs, but got %s", td_dtype_title(dtype));
    if (dtype != TD_DTYPE_NONE && !td_is_complex(self) && td_dtype_is_complex(dtype))
        return td_fail(TD_E_RUNTIME, "linalg.matrix_norm: dtype should be real for real inputs, but got %s", td_dtype_title(dtype));
    if (dtype != TD_DTYPE_NONE && td_promote_types((td_dtype)self->dtype, dtype) != dtype)
        return td_fail(TD_E_RUNTIME, "linalg.matrix_norm: the dtype of the input (%s) should be convertible without narrowing to the specified "
                       "dtype (%s)", td_dtype_title((td_dtype)self->dtype), td_dtype_title(dtype));
    if (dtype != TD_DTYPE_NONE)
        return td_to(self, dtype);
    return td_ref(self);
}

/* 2 and -2: the largest and smallest singular value. 1 and -1: the largest and smallest absolute column sum; inf and
 * -inf: row sum. Sums go over one dimension, `over`, and then the largest is along `rest`, whose number drops by one
 * if the other was before it and is gone. */
td_tensor *td_op_linalg_matrix_norm(td_tensor *self, td_scalar ord, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype)
{
    int a, b;
    if (ord.kind == TD_SCALAR_COMPLEX)
        return td_fail(TD_E_RUNTIME, "linalg.matrix_norm: Expected a non-complex scalar as the order of norm.");
    double p = td_scalar_double(ord), size = fabs(p);
    LET(x) = in_dtype(self, dtype);
    if (!x || two_dims(self, n_dim, dim, &a, &b) || td_check_linalg_dtype("linalg.matrix_norm", self, size != 2))
        return NULL;
    if (size != 1 && size != 2 && !isinf(size))
        return td_fail(TD_E_RUNTIME, "linalg.matrix_norm: Order %g not supported.", p);
    if (size == 2) {
        LET(values) = singular_values(x, a, b);
        int64_t last = -1;
        bool none = values && p > 0 && !values->sizes[values->ndim - 1];    /* the largest of nothing that is 0 at least */
        LET(norm) = none ? td_sum_over(values, 1, &last, false)
                  : p > 0 ? td_amax(values, 1, &last, false) : td_amin(values, 1, &last, false);
        return keep_dims(norm, a, b, keepdim);
    }
    int64_t over = isinf(size) ? b : a, rest = isinf(size) ? a : b;
    LET(sums) = td_linalg_vector_norm(x, td_int(1), 1, &over, keepdim, TD_DTYPE_NONE);
    if (!keepdim && rest > over)
        rest--;
    if (sums && p > 0 && !sums->sizes[rest])        /* the largest of no sums that are 0 at least */
        return td_sum_over(sums, 1, &rest, keepdim);
    return p > 0 ? td_amax(sums, 1, &rest, keepdim) : td_amin(sums, 1, &rest, keepdim);
}

/* "fro" is the root of the squares' sum, so a vector norm over both dimensions; "nuc" the sum of the singular values. */
td_tensor *td_op_linalg_matrix_norm_str_ord(td_tensor *self, const char *ord, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype)
{
    int a, b;
    if (strcmp(ord, "fro") && strcmp(ord, "nuc"))
        return td_fail(TD_E_RUNTIME, "linalg.matrix_norm: Order %s not supported.", ord);
    if (two_dims(self, n_dim, dim, &a, &b) || td_check_linalg_dtype("linalg.matrix_norm", self, !strcmp(ord, "fro")))
        return NULL;
    if (!strcmp(ord, "fro"))
        return td_linalg_vector_norm(self, td_int(2), 2, (int64_t[]){a, b}, keepdim, dtype);
    LET(x) = in_dtype(self, dtype);
    LET(values) = singular_values(x, a, b);
    LET(sum) = td_sum_over(values, 1, (int64_t[]){-1}, false);
    return keep_dims(sum, a, b, keepdim);
}

/* n_dim below 0 stands for dim not given. A vector norm unless there is an order and there are two dimensions:
 * without ord a matrix has its elements' 2-norm, which is "fro", not the largest singular value. */
td_tensor *td_op_linalg_norm(td_tensor *self, const td_scalar *ord, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype)
{
    if (n_dim > 2 || n_dim == 0) {
        td_shape_text text;
        return td_fail(TD_E_RUNTIME, "linalg.norm: If dim is specified, it must be of length 1 or 2. Got %s",
                       td_shape_str((int)n_dim, dim, text));
    }
    if (n_dim < 0 && ord && self->ndim != 1 && self->ndim != 2)
        return td_fail(TD_E_RUNTIME, "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got %dD.", self->ndim);
    if (ord && (n_dim == 2 || (n_dim < 0 && self->ndim == 2))) {
        static const int64_t both[] = {0, 1};
        return td_linalg_matrix_norm(self, *ord, 2, n_dim == 2 ? dim : both, keepdim, dtype);
    }
    return td_linalg_vector_norm(self, ord ? *ord : td_int(2), n_dim, dim, keepdim, dtype);
}
td_tensor *td_op_linalg_norm_ord_str(td_tensor *self, const char *ord, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype)
{
    static const int64_t both[] = {0, 1};
    if (n_dim < 0 && self->ndim != 2)
        return td_fail(TD_E_RUNTIME, "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got %dD.", self->ndim);
    return td_linalg_matrix_norm_str_ord(self, ord, n_dim < 0 ? 2 : n_dim, n_dim < 0 ? both : dim, keepdim, dtype);
}

/* Which matrices have no inverse, and *inverse of the others. */
static td_tensor *infinite_where_singular(td_tensor *self, td_tensor **inverse)
{
    td_tensor *pair[2];
    if (td_linalg_inv_ex(pair, self, false))
        return NULL;
    LET(info) = pair[1];
    *inverse = pair[0];
    return td_to(info, TD_BOOL);
}
static td_tensor *finish_cond(td_tensor *norm, td_tensor *inverse_norm, td_tensor *singular)
{
    LET(product) = td_mul(norm, inverse_norm);
    LET(infinity) = td_wrapped_number(td_float(INFINITY));
    return td_where(singular, infinity, product);
}
/* norm(A) norm(A^-1), which for 2 is the ratio of the outermost singular values (so it takes rectangles as well), for
 * -2 its reciprocal. A singular matrix has the number infinity. p may be absent only in the first case. */
td_tensor *td_op_linalg_cond(td_tensor *self, const td_scalar *p)
{
    static const int64_t last[] = {-2, -1};
    if (td_check_matrix("linalg.cond", self, "A"))
        return NULL;
    const double size = p ? fabs(td_scalar_double(*p)) : 2;
    if (size != 1 && size != 2 && size != INFINITY)
        return td_fail(TD_E_RUNTIME, "linalg.cond got an invalid norm type: %g", td_scalar_double(*p));
    if (!self->numel)
        return td_zeros(self->ndim - 2, self->sizes, td_dtype_to_real((td_dtype)self->dtype), self->device);
    double order = p ? td_scalar_double(*p) : 2;
    if (fabs(order) == 2) {
        LET(values) = td_linalg_svdvals(self, NULL);
        if (!values)
            return NULL;
        LET(high) = td_select_int(values, -1, 0);
        LET(low) = td_select_int(values, -1, -1);
        return order > 0 ? td_div(high, low) : td_div(low, high);
    }
    if (td_check_square("linalg.cond", self))
        return NULL;
    LET(inverse) = NULL;
    LET(singular) = infinite_where_singular(self, &inverse);
    LET(norm) = td_linalg_matrix_norm(self, *p, 2, last, false, TD_DTYPE_NONE);
    LET(other) = singular ? td_linalg_matrix_norm(inverse, *p, 2, last, false, TD_DTYPE_NONE) : NULL;
    return finish_cond(norm, other, singular);
}
td_tensor *td_op_linalg_cond_p_str(td_tensor *self, const char *p)
{
    static const int64_t last[] = {-2, -1};
    if (td_check_square("linalg.cond", self) || td_check_linalg_dtype("linalg.cond", self, true))
        return NULL;
    if (strcmp(p, "fro") && strcmp(p, "nuc"))
        return td_fail(TD_E_RUNTIME, "linalg.cond got an invalid norm type: %s", p);
    LET(inverse) = NULL;
    LET(singular) = infinite_where_singular(self, &inverse);
    LET(norm) = td_linalg_matrix_norm_str_ord(self, p, 2, last, false, TD_DTYPE_NONE);
    LET(other) = singular ? td_linalg_matrix_norm_str_ord(inverse, p, 2, last, false, TD_DTYPE_NONE) : NULL;
    return finish_cond(norm, other, singular);
}

/* ---- ranks and pseudo-inverses: singular values above max(atol, rtol * the largest) */

static td_tensor *number_tensor(const double *value, td_tensor *like)
{
    return value ? td_full(0, NULL, td_float(*value), TD_F64, like->device) : td_ref(TD_NONE);
}
static int check_bounds(const char *op, td_tensor *atol, td_tensor *rtol)
{
    td_tensor *bounds[] = {atol, rtol};
    for (int i = 0; i < 2; i++)
        if (bounds[i] != TD_NONE && td_is_complex(bounds[i]))
            return td_error(TD_E_RUNTIME, "%s: %s tensor of complex type is not supported. Got %s", op, i ? "rtol" : "atol",
                            td_dtype_title((td_dtype)bounds[i]->dtype));
    return 0;
}
/* The usual relative bound is eps max(m, n), as numpy's and PyTorch's. Computed in float64, where float32 bounds
 * would round the given ones. */
static td_tensor *bound(td_tensor *A, td_tensor *atol, td_tensor *rtol, td_tensor *largest)
{
    int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1];
    double eps = A->dtype == TD_F32 || A->dtype == TD_C64 ? 0x1p-23 : 0x1p-52;
    LET(zero) = td_full(0, NULL, td_float(0), TD_F64, A->device);
    LET(usual) = td_full(0, NULL, td_float(eps * (double)(m > n ? m : n)), TD_F64, A->device);
    LET(absolute) = td_ref(atol == TD_NONE ? zero : atol);
    LET(relative) = NULL;
    if (rtol != TD_NONE) {
        relative = td_ref(rtol);
    } else if (atol == TD_NONE) {
        relative = td_ref(usual);
    } else {       /* given only an absolute bound, the relative one is 0 where that is positive */
        LET(positive) = td_gt(absolute, zero);
        relative = td_where(positive, zero, usual);
    }
    LET(scaled) = td_mul(relative, largest);
    return td_maximum(absolute, scaled);
}
/* A Hermitian matrix's singular values are its eigenvalues' absolute values, and cheaper. */
static td_tensor *spectrum(td_tensor *A, bool hermitian)
{
    if (!hermitian)
        return td_linalg_svdvals(A, NULL);
    LET(values) = td_linalg_eigvalsh(A, "L");
    return td_abs(values);
}
td_tensor *td_op_linalg_matrix_rank_atol_rtol_tensor(td_tensor *A, td_tensor *atol, td_tensor *rtol, bool hermitian)
{
    if (td_check_matrix("torch.linalg.matrix_rank", A, "input") || (rtol == TD_NONE && td_check_epsilon(A)) ||
        check_bounds("torch.linalg.matrix_rank", atol, rtol))
        return NULL;
    if (!A->sizes[A->ndim - 1] || !A->sizes[A->ndim - 2])
        return td_zeros(A->ndim - 2, A->sizes, TD_I64, A->device);
    int64_t last = -1;
    LET(values) = spectrum(A, hermitian);
    LET(largest) = td_amax(values, 1, &last, false);
    LET(limit) = bound(A, atol, rtol, largest);
    LET(wide) = td_unsqueeze(limit, -1);
    LET(above) = td_gt(values, wide);
    return td_sum_dim_intlist(above, 1, &last, false, TD_I64);
}
td_tensor *td_op_linalg_matrix_rank_atol_rtol_float(td_tensor *self, const double *atol, const double *rtol, bool hermitian)
{
    if (td_check_matrix("torch.linalg.matrix_rank", self, "input") || (!rtol && td_check_epsilon(self)))
        return NULL;
    const double none = 0, *relative = !rtol && atol && *atol > 0 ? &none : rtol;        /* beside an absolute bound no other is needed */
    LET(a) = number_tensor(atol, self);
    LET(r) = number_tensor(relative, self);
    return td_linalg_matrix_rank_atol_rtol_tensor(self, a, r, hermitian);
}
/* tol is an absolute bound in this form; the relative one is 0. */
td_tensor *td_op_linalg_matrix_rank(td_tensor *self, double tol, bool hermitian)
{
    return td_linalg_matrix_rank_atol_rtol_float(self, &tol, &(double){0}, hermitian);
}
td_tensor *td_op_linalg_matrix_rank_tol_tensor(td_tensor *self, td_tensor *tol, bool hermitian)
{
    LET(zero) = number_tensor(&(double){0}, self);
    return td_linalg_matrix_rank_atol_rtol_tensor(self, tol, zero, hermitian);
}

/* A = U diag(s) V^H has the pseudo-inverse V diag(1/s) U^H, with 0 for the reciprocals of values below the bound; the
 * infinite ones among them aren't selected. A Hermitian matrix uses eigenvectors on both sides, and its eigenvalues'
 * signs stay in the reciprocals. An empty matrix gives zeros of the transposed shape. */
td_tensor *td_op_linalg_pinv_atol_rtol_tensor(td_tensor *A, td_tensor *atol, td_tensor *rtol, bool hermitian)
{
    td_shape_text shape;
    if (A->ndim < 2 || td_check_linalg_dtype("linalg.pinv", A, false))
        return td_fail(TD_E_RUNTIME, "linalg.pinv(%s{%s}): expected a tensor with 2 or more dimensions of float, double, cfloat or cdouble types",
                       td_dtype_title((td_dtype)A->dtype), td_shape_str(A->ndim, A->sizes, shape));
    if (check_bounds("torch.linalg.pinv", atol, rtol))
        return NULL;
    int64_t last = -1, sizes[TD_MAX_DIMS];
    if (!A->numel) {
        memcpy(sizes, A->sizes, sizeof *sizes * A->ndim);
        sizes[A->ndim - 2] = A->sizes[A->ndim - 1], sizes[A->ndim - 1] = A->sizes[A->ndim - 2];
        return td_zeros(A->ndim, sizes, (td_dtype)A->dtype, A->device);
    }
    td_tensor *parts[3];
    if (hermitian ? td_check_square("torch.linalg.pinv", A) || td_linalg_eigh(parts, A, "L") : td__linalg_svd(parts, A, false, true, NULL))
        return NULL;
    LET(values) = td_ref(parts[hermitian ? 0 : 1]);
    LET(left) = td_ref(parts[hermitian ? 1 : 0]);
    LET(right) = hermitian ? td_adjoint_of(parts[1]) : td_ref(parts[2]);
    td_results_drop(hermitian ? 2 : 3, parts);
    LET(sizes_of) = td_abs(values);
    LET(largest) = td_amax(sizes_of, 1, &last, true);
    TD_AUTO td_tensor *a = atol == TD_NONE || !atol->ndim ? td_ref(atol) : td_unsqueeze(atol, -1);
    TD_AUTO td_tensor *r = rtol == TD_NONE || !rtol->ndim ? td_ref(rtol) : td_unsqueeze(rtol, -1);
    LET(limit) = a && r ? bound(A, a, r, largest) : NULL;
    LET(above) = td_gt(sizes_of, limit);
    LET(inverses) = td_reciprocal(values);
    LET(zero) = td_wrapped_number(td_int(0));
    LET(kept) = td_where(above, inverses, zero);
    LET(column) = td_unsqueeze(kept, -2);
    LET(rightH) = td_adjoint_of(right);
    LET(scaled) = td_mul(rightH, column);
    LET(leftH) = td_adjoint_of(left);
    return td_matmul(scaled, leftH);
}
td_tensor *td_op_linalg_pinv_atol_rtol_float(td_tensor *self, const double *atol, const double *rtol, bool hermitian)
{
    LET(a) = number_tensor(atol, self);
    LET(r) = number_tensor(rtol, self);
    return td_linalg_pinv_atol_rtol_tensor(self, a, r, hermitian);
}
td_tensor *td_op_linalg_pinv(td_tensor *self, double rcond, bool hermitian)
{
    return td_linalg_pinv_atol_rtol_float(self, &(double){0}, &rcond, hermitian);
}
td_tensor *td_op_linalg_pinv_rcond_tensor(td_tensor *self, td_tensor *rcond, bool hermitian)
{
    if (td_is_complex(rcond))
        return td_fail(TD_E_RUNTIME, "torch.linalg.pinv: rcond tensor of complex type is not supported. Got %s",
                       td_dtype_title((td_dtype)rcond->dtype));
    LET(zero) = number_tensor(&(double){0}, self);
    return td_linalg_pinv_atol_rtol_tensor(self, zero, rcond, hermitian);
}
td_tensor *td_op_pinverse(td_tensor *self, double rcond) { return td_linalg_pinv(self, rcond, false); }

/* ---- tensors as matrices between groups of dimensions */

/* The inverse of the matrix whose rows are the first ind dimensions and whose columns are the others; in the result
 * the two groups have changed places. */
td_tensor *td_op_linalg_tensorinv(td_tensor *self, int64_t ind)
{
    if (ind <= 0)
        return td_fail(TD_E_RUNTIME, "Expected a strictly positive integer for 'ind'");
    if (ind > self->ndim)
        return td_fail(TD_E_RUNTIME, "tensorinv: 'ind' is %" PRId64 ", but there are only %d dimensions", ind, self->ndim);
    int64_t rows = 1, columns = 1, shape[TD_MAX_DIMS];
    for (int d = 0; d < self->ndim; d++)
        *(d < ind ? &rows : &columns) *= self->sizes[d];
    if (rows != columns)
        return td_fail(TD_E_RUNTIME, "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got %" PRId64
                       " != %" PRId64, columns, rows);
    int cut = (int)(ind < self->ndim ? ind : self->ndim);
    for (int d = 0; d < self->ndim; d++)
        shape[d] = d < self->ndim - cut ? self->sizes[cut + d] : self->sizes[d - (self->ndim - cut)];
    LET(matrix) = td_reshape(self, 2, (int64_t[]){rows, columns});
    LET(inverse) = td_linalg_inv(matrix);
    return td_reshape(inverse, self->ndim, shape);
}
/* tensordot(self, x, x.ndim) = other, solved as a matrix with other's elements as rows. dims are moved to the end
 * first. */
td_tensor *td_op_linalg_tensorsolve(td_tensor *self, td_tensor *other, int64_t n_dims, const int64_t *dims)
{
    LET(moved) = NULL;
    if (n_dims > 0) {
        int64_t to[TD_MAX_DIMS];
        if (n_dims > self->ndim)
            return td_fail(TD_E_RUNTIME, "linalg.tensorsolve: %" PRId64 " dims of a tensor of %d dimensions", n_dims, self->ndim);
        for (int i = 0; i < n_dims; i++)
            to[i] = i - n_dims;
        moved = td_movedim_intlist(self, n_dims, dims, n_dims, to);
    } else {
        moved = td_ref(self);
    }
    if (!moved)
        return NULL;
    int lead = other->ndim, n = moved->ndim - lead;
    int64_t unknowns = 1;
    for (int d = lead; d < moved->ndim; d++)
        unknowns *= moved->sizes[d];
    if (n < 0 || unknowns != other->numel)
        return td_fail(TD_E_RUNTIME, "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), but "
                       "got %" PRId64 " != %" PRId64, unknowns, other->numel);
    LET(matrix) = td_reshape(moved, 2, (int64_t[]){unknowns, unknowns});
    LET(flat) = td_reshape(other, 1, (int64_t[]){-1});
    LET(solution) = td_linalg_solve(matrix, flat, true);
    return td_reshape(solution, n, moved->sizes + lead);
}
