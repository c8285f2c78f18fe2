/* What factorisations and solvers check and return, and the operators that are made of them.
 *
 * Conventions are LAPACK's: factors share one matrix, pivots count from 1 and stand for exchanges in order, each
 * matrix has a number `info` (0, or what failed), and results lie in columns (td_spec_columns). The _ex operators
 * return info; those without raise for it. The derivatives are in grad_*.c, gradients beside tangents. */

#include "calls_ops_linalg_linalg.h"
#include <inttypes.h>
#include <stdio.h>
#include <tede/kernel.h>
#include "base/warn.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/linalg/linalg.h"
#include "tensor/device.h"

/* ---- checks */

int td_check_matrix(const char *op, const td_tensor *x, const char *name)
{
    return x->ndim >= 2 ? 0 : td_error(TD_E_RUNTIME, "%s: The input tensor %s must have at least 2 dimensions.", op, name);
}
int td_check_square(const char *op, const td_tensor *x)
{
    if (td_check_matrix(op, x, "A"))
        return -1;
    int64_t rows = x->sizes[x->ndim - 2], columns = x->sizes[x->ndim - 1];
    return rows == columns ? 0 : td_error(TD_E_RUNTIME, "%s: A must be batches of square matrices, but they are %" PRId64 " by %" PRId64
                                          " matrices", op, rows, columns);
}
int td_check_linalg_dtype(const char *op, const td_tensor *x, bool halves)
{
    if (x->dtype == TD_F32 || x->dtype == TD_F64 || td_is_complex(x))
        return 0;
    if (td_is_floating(x) && halves)
        return 0;
    if (td_is_floating(x))
        return td_error(TD_E_RUNTIME, "%s: Low precision dtypes not supported. Got %s", op, td_dtype_title((td_dtype)x->dtype));
    return td_error(TD_E_RUNTIME, "%s: Expected a floating point or complex tensor as input. Got %s", op, td_dtype_title((td_dtype)x->dtype));
}
/* A bound that follows from the dtype's precision is known for these. */
int td_check_epsilon(const td_tensor *x)
{
    const bool known = x->dtype == TD_F32 || x->dtype == TD_F64 || td_is_complex(x);
    return known ? 0 : td_error(TD_E_RUNTIME, "This function doesn't handle types other than float and double");
}
static int check_square_numbers(const char *op, const td_tensor *x) { return td_check_square(op, x) || td_check_linalg_dtype(op, x, true) ? -1 : 0; }
static int check_numbers(const char *op, const td_tensor *x)
{
    return td_check_matrix(op, x, "A") || td_check_linalg_dtype(op, x, true) ? -1 : 0;
}

/* Describe a result that has x's batch and these last dimensions.
 * n is 1 or 2. For one dimension the second assignment repeats the first, so that nothing is written behind the
 * shape. x has two dimensions at least, so batch and both fit TD_MAX_DIMS. */
static int batched(td_spec *spec, const td_tensor *x, td_dtype dtype, int n, int64_t a, int64_t b)
{
    int64_t sizes[TD_MAX_DIMS];
    int lead = x->ndim - 2;
    memcpy(sizes, x->sizes, sizeof *sizes * lead);
    sizes[lead] = a;
    sizes[lead + (n == 2)] = n == 2 ? b : a;
    return td_spec_set(spec, lead + n, sizes, dtype, x->device);
}
/* The batch that A's and B's last two dimensions are left with; its ndim.
 * tail_a and tail_b are how many dimensions at the end belong to a matrix (2) or a vector (1). -1 with an error if
 * the rest can't be broadcast. */
static int join_batch(const char *op, const td_tensor *A, int tail_a, const td_tensor *B, int tail_b, int64_t *sizes)
{
    int na = A->ndim - tail_a, nb = B->ndim - tail_b, n = na > nb ? na : nb;
    td_shape_text a, b;
    if (na < 0 || nb < 0)
        return td_error(TD_E_RUNTIME, "%s: The input tensors must have at least %d and %d dimensions, but have shapes %s and %s", op,
                        tail_a, tail_b, td_shape_str(A->ndim, A->sizes, a), td_shape_str(B->ndim, B->sizes, b));
    for (int i = 0; i < n; i++) {
        int64_t x = i < n - na ? 1 : A->sizes[i - (n - na)], y = i < n - nb ? 1 : B->sizes[i - (n - nb)];
        if (x != y && x != 1 && y != 1)
            return td_error(TD_E_RUNTIME, "%s: The batch dimensions of shapes %s and %s can't be broadcast: The size of tensor a (%" PRId64 ") must "
                            "match the size of tensor b (%" PRId64 ") at non-singleton dimension %d", op, td_shape_str(A->ndim, A->sizes, a),
                            td_shape_str(B->ndim, B->sizes, b), x, y, i);
        sizes[i] = x == 1 ? y : x;
    }
    return n;
}

/* The result of A X = B, or X A = B: as B is, but for the batch, of A's and B's. */
static int like_right_side(const char *op, td_spec *spec, const td_tensor *A, const td_tensor *B, bool left)
{
    int64_t n = A->sizes[A->ndim - 1], sizes[TD_MAX_DIMS];
    if (B->sizes[B->ndim - (left ? 2 : 1)] != n)
        return td_error(TD_E_RUNTIME, "%s: Incompatible shapes of A and B for the equation %s (%" PRId64 "x%" PRId64 " and %" PRId64 "x%" PRId64 ")",
                        op, left ? "AX = B" : "XA = B", n, n, B->sizes[B->ndim - 2], B->sizes[B->ndim - 1]);
    const int lead = join_batch(op, A, 2, B, 2, sizes);
    if (lead < 0)
        return -1;
    memcpy(sizes + lead, B->sizes + B->ndim - 2, 2 * sizeof *sizes);
    return td_spec_set(spec, lead + 2, sizes, (td_dtype)B->dtype, B->device);
}

/* LAPACK's info per matrix; data dependent, so not on meta.
 * *batch is the failing matrix's position in a batch, -1 if there is just one matrix. */
static int first_failure(td_tensor *info, int64_t *batch)
{
    TD_AUTO td_tensor *here = td_on_host(info);
    TD_AUTO td_tensor *numbers = here && here->device.type == TD_CPU ? td_make_contiguous(here) : NULL;
    for (int64_t i = 0; numbers && i < numbers->numel; i++)
        if (((const int32_t *)numbers->data)[i]) {
            *batch = numbers->ndim ? i : -1;
            return ((const int32_t *)numbers->data)[i];
        }
    return 0;
}

int td_check_info(td_factorization what, const char *op, td_tensor *info)
{
    TD_AUTO td_tensor *all = td_with_values(info);
    if (all && td_has_no_elements(all))
        return td__linalg_check_errors(all, op, all->ndim == 0);
    int64_t batch = -1;
    int code = all ? first_failure(all, &batch) : 0;
    if (!code)
        return all ? 0 : -1;
    char where[64] = "";
    if (batch >= 0)
        snprintf(where, sizeof where, "(Batch element %" PRId64 "): ", batch);
    switch (what) {
    case TD_FACTORS_CHOLESKY:
        return td_error(TD_E_LINALG, "%s: %sThe factorization could not be completed because the input is not positive-definite (the leading "
                        "minor of order %d is not positive-definite).", op, where, code);
    case TD_FACTORS_LU_INVERSE:
        return td_error(TD_E_LINALG, "%s: %sThe diagonal element %d is zero, the inversion could not be completed because the input matrix is "
                        "singular.", op, where, code);
    case TD_FACTORS_LU_SOLVE:
        return td_error(TD_E_LINALG, "%s: %sThe solver failed because the input matrix is singular.", op, where);
    case TD_FACTORS_LU:
        break;
    }
    return td_error(TD_E_RUNTIME, "%s: %sU[%d,%d] is zero and using it on lu_solve would result in a division by zero. If you still want to "
                    "perform the factorization, consider calling linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)", op, where, code, code);
}

/* What was factored is known by the caller's name. */
int td_op__linalg_check_errors(td_tensor *info, const char *api_name, bool is_matrix)
{
    (void)is_matrix;
    if (info->dtype != TD_I32)
        return td_error(TD_E_RUNTIME, "%s: info must be a tensor of int32, but got %s", api_name, td_dtype_title((td_dtype)info->dtype));
    if (info->device.type == TD_META || td_tensor_is_hollow(info))
        return 0;
    return td_check_info(strstr(api_name, "inv") ? TD_FACTORS_LU_INVERSE : strstr(api_name, "cholesky") ? TD_FACTORS_CHOLESKY
                         : strstr(api_name, "solve") ? TD_FACTORS_LU_SOLVE : TD_FACTORS_LU, api_name, info);
}

/* Give the first n of the results, drop the others. */
static int keep(td_tensor **results, int n, td_tensor **all, int count)
{
    for (int i = 0; i < count; i++) {
        if (i < n)
            results[i] = all[i];
        else
            td_tensor_release(all[i]);
    }
    return 0;
}
/* The first of an _ex operator's pair, if its info (the second) is 0 throughout. Takes over both references. */
static td_tensor *checked(td_factorization what, const char *op, int failed, td_tensor **pair)
{
    if (failed)
        return NULL;
    TD_AUTO td_tensor *info = pair[1];
    TD_AUTO td_tensor *result = pair[0];
    return td_check_info(what, op, info) ? NULL : td_ref(result);
}

/* ---- Cholesky */

int td_meta_linalg_cholesky_ex(td_spec *specs, td_tensor *self, bool upper, bool check_errors)
{
    (void)upper, (void)check_errors;
    if (check_square_numbers("linalg.cholesky", self))
        return -1;
    td_spec_like(specs, self);
    td_spec_set(specs + 1, self->ndim - 2, self->sizes, TD_I32, self->device);
    return td_spec_columns(specs);
}
td_tensor *td_op_linalg_cholesky(td_tensor *self, bool upper)
{
    td_tensor *pair[2];
    return checked(TD_FACTORS_CHOLESKY, "linalg.cholesky", td_linalg_cholesky_ex(pair, self, upper, false), pair);
}
td_tensor *td_op_cholesky(td_tensor *self, bool upper)
{
    td_tensor *pair[2];
    if (TD_WARN_ONCE("torch.cholesky is deprecated in favor of torch.linalg.cholesky and will be removed in a future PyTorch release.\n"
                "L = torch.cholesky(A)\nshould be replaced with\nL = torch.linalg.cholesky(A)\nand\n"
                "U = torch.cholesky(A, upper=True)\nshould be replaced with\nU = torch.linalg.cholesky(A).mH\n"
                "This transform will produce equivalent results for all valid (symmetric positive definite) inputs."))
        return NULL;
    if (!self->numel)           /* of any shape; a copy has a history, as the factor would */
        return td_clone_format(self, TD_CONTIGUOUS_FORMAT);
    return checked(TD_FACTORS_CHOLESKY, "cholesky", td_linalg_cholesky_ex(pair, self, upper, false), pair);
}
static int check_cholesky_solve(td_tensor *self, td_tensor *input2)
{
    if (self->ndim < 2)
        return td_error(TD_E_RUNTIME, "b should have at least 2 dimensions, but has %d dimensions instead", self->ndim);
    if (input2->ndim < 2)
        return td_error(TD_E_RUNTIME, "u should have at least 2 dimensions, but has %d dimensions instead", input2->ndim);
    if (td_check_square("cholesky_solve", input2))
        return -1;
    if (self->dtype != input2->dtype || self->sizes[self->ndim - 2] != input2->sizes[input2->ndim - 1])
        return td_error(TD_E_RUNTIME, "Incompatible matrix sizes or dtypes for cholesky_solve: each A matrix is %" PRId64 " by %" PRId64
                        " but each b matrix is %" PRId64 " by %" PRId64, input2->sizes[input2->ndim - 1], input2->sizes[input2->ndim - 1],
                        self->sizes[self->ndim - 2], self->sizes[self->ndim - 1]);
    return 0;
}
int td_meta_cholesky_solve_helper(td_spec *specs, td_tensor *self, td_tensor *A, bool upper)
{
    (void)upper;
    int64_t sizes[TD_MAX_DIMS];
    if (check_cholesky_solve(self, A))
        return -1;
    int n = join_batch("cholesky_solve", self, 2, A, 2, sizes);
    if (n < 0)
        return -1;
    sizes[n] = self->sizes[self->ndim - 2], sizes[n + 1] = self->sizes[self->ndim - 1];
    td_spec_set(specs, n + 2, sizes, (td_dtype)self->dtype, self->device);
    return td_spec_columns(specs);
}
td_tensor *td_op_cholesky_solve(td_tensor *self, td_tensor *input2, bool upper)
{
    return td_cholesky_solve_helper(self, input2, upper);
}
/* X = (L L^H)^-1 B: the factor's gradient isn't confined to its triangle, as in PyTorch.
 * With A = L L^H: grad B = A^-1 g and grad A = -grad B X^H. From dA = dL L^H + L dL^H follows grad L = (grad A + grad
 * A^H) L, and for an upper factor, A = U^H U, grad U = U (grad A + grad A^H). */
int td_op_cholesky_solve_backward(td_tensor **results, td_tensor *grad, td_tensor *self, td_tensor *input2, td_tensor *result,
                                  bool upper)
{
    TD_AUTO td_tensor *of_self = td_cholesky_solve(grad, input2, upper);
    TD_AUTO td_tensor *adjoint = td_adjoint_of(result);
    TD_AUTO td_tensor *half = td_matmul(of_self, adjoint);
    TD_AUTO td_tensor *other_half = td_adjoint_of(half);
    TD_AUTO td_tensor *both = td_add(half, other_half);
    TD_AUTO td_tensor *product = upper ? td_matmul(input2, both) : td_matmul(both, input2);
    TD_AUTO td_tensor *of_factor = td_neg(product);
    results[0] = of_self ? td_sum_to_size(of_self, self->ndim, self->sizes) : NULL;
    results[1] = of_factor ? td_sum_to_size(of_factor, input2->ndim, input2->sizes) : NULL;
    return results[0] && results[1] ? 0 : td_results_drop(2, results);
}
/* A factor without an inverse has a zero on its diagonal.
 * The position is reported from 1, as LAPACK's. On meta there is nothing to check. */
static int check_pivots(td_tensor *factors)
{
    if (!factors->numel || factors->device.type == TD_META)
        return 0;
    TD_AUTO td_tensor *all = td_with_values(factors);
    TD_AUTO td_tensor *diagonal = td_diagonal(all, 0, -2, -1);
    TD_AUTO td_tensor *zero = td_logical_not(diagonal);
    if (zero && td_has_no_elements(zero)) {        /* the first place, as a factorization would give it */
        TD_AUTO td_tensor *places = td_cumsum(zero, -1, TD_I32), *none = td_eq_scalar(places, td_int(0));
        TD_AUTO td_tensor *before = td_sum_over(none, 1, (int64_t[]){-1}, false), *any = td_any_dim(zero, -1, false);
        TD_AUTO td_tensor *first = td_plus(before, td_int(1)), *info = td_mul(first, any), *narrow = td_to(info, TD_I32);
        return narrow ? td__linalg_check_errors(narrow, "cholesky_inverse", factors->ndim == 2) : -1;
    }
    TD_AUTO td_tensor *here = td_on_host(zero);
    TD_AUTO td_tensor *flat = td_reshape(here, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *own = flat ? td_make_contiguous(flat) : NULL;
    if (!own)
        return -1;
    const int64_t n = factors->sizes[factors->ndim - 1];
    for (int64_t i = 0; i < own->numel; i++)
        if (((const bool *)own->data)[i]) {
            char element[48] = "";
            if (all->ndim > 2)
                snprintf(element, sizeof element, "(Batch element %lld): ", (long long)(i / n));
            return td_error(TD_E_LINALG, "cholesky_inverse: %sThe diagonal element %lld is zero, the inversion could not be completed because "
                            "the input matrix is singular.", element, (long long)(i % n) + 1);
        }
    return 0;
}
/* (L L^H)^-1: what solving for the unit matrix gives, for all of a batch. */
td_tensor *td_op_cholesky_inverse(td_tensor *self, bool upper)
{
    if (td_check_square("cholesky_inverse", self) || check_pivots(self))
        return NULL;
    TD_AUTO td_tensor *unit = td_eye(self->sizes[self->ndim - 1], (td_dtype)self->dtype, self->device);
    TD_AUTO td_tensor *wide = td_expand(unit, self->ndim, self->sizes);
    return td_cholesky_solve(wide, self, upper);
}

/* ---- LU */

/* L and U share one m by n matrix, since L's diagonal is ones; there are min(m, n) pivots. */
int td_meta_linalg_lu_factor_ex(td_spec *specs, td_tensor *A, bool pivot, bool check_errors)
{
    (void)check_errors;
    if (td_check_matrix("torch.lu_factor", A, "A"))
        return -1;
    if (!pivot && A->numel)
        return td_error(TD_E_RUNTIME, "linalg.lu_factor: LU without pivoting is not implemented on the CPU");
    int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1];
    td_spec_like(specs, A);
    batched(specs + 1, A, TD_I32, 1, m < n ? m : n, 0);
    td_spec_set(specs + 2, A->ndim - 2, A->sizes, TD_I32, A->device);
    return td_spec_columns(specs);
}
int td_op_linalg_lu_factor(td_tensor **results, td_tensor *A, bool pivot)
{
    td_tensor *all[3];
    if (td_linalg_lu_factor_ex(all, A, pivot, false))
        return -1;
    if (td_check_info(TD_FACTORS_LU, "torch.linalg.lu_factor", all[2]))
        return td_results_drop(3, all);
    return keep(results, 2, all, 3);
}
/* A row of pivots per matrix, one for each of its rows. */
int td_check_pivots_shape(const char *op, const char *name, const td_tensor *matrices, const td_tensor *pivots)
{
    if (pivots->ndim == matrices->ndim - 1 && !memcmp(pivots->sizes, matrices->sizes, sizeof *pivots->sizes * pivots->ndim))
        return 0;
    td_shape_text text;
    return td_error(TD_E_RUNTIME, "%s: Expected %s.shape[:-1] and pivots.shape to be the same, but got pivots with shape %s instead", op, name,
                    td_shape_str(pivots->ndim, pivots->sizes, text));
}

/* Step i of the factorization exchanged rows i and pivots[i] - 1. The same exchanges on 0, 1, ... n - 1 give the
 * order: row i of L U is row order[i] of the matrix. The pivots may come from anywhere, so each is checked before it
 * is an index; there may be fewer than rows, not more. */
td_tensor *td_op_pivots_to_permutation(td_tensor *pivots, int64_t n)
{
    TD_AUTO td_tensor *swaps = td_as_contiguous(pivots, TD_I32);
    if (!swaps)
        return NULL;
    if (pivots->ndim < 1 || n < 0)
        return td_fail(TD_E_RUNTIME, "lu_unpack: LU_pivots must have at least one dimension");
    int64_t sizes[TD_MAX_DIMS], k = pivots->sizes[pivots->ndim - 1], count = 1;
    memcpy(sizes, pivots->sizes, sizeof *sizes * pivots->ndim);
    sizes[pivots->ndim - 1] = n;
    for (int d = 0; d < pivots->ndim - 1; d++)
        count *= sizes[d];
    td_tensor *out = td_tensor_new(pivots->ndim, sizes, TD_I64, pivots->device);
    for (int64_t b = 0; out && out->device.type != TD_META && b < count; b++) {
        int64_t *order = (int64_t *)out->data + b * n;
        for (int64_t i = 0; i < n; i++)
            order[i] = i;
        for (int64_t i = 0; i < k && i < n; i++) {        /* further pivots have no row to exchange, and may be anything */
            int64_t j = ((const int32_t *)swaps->data)[b * k + i] - 1, t = order[i];
            if (j < 0 || j >= n) {
                td_tensor_release(out);
                return td_fail(TD_E_RUNTIME, "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive. "
                               "Did you properly pass the result of lu_factor?");
            }
            order[i] = order[j], order[j] = t;
        }
    }
    return out;
}
/* What isn't unpacked is an empty tensor, as in PyTorch. The permutation is compared against row numbers instead of
 * written element by element: that works for a batch and on meta alike. */
int td_op_lu_unpack(td_tensor **results, td_tensor *LU, td_tensor *pivots, bool unpack_data, bool unpack_pivots)
{
    if (td_check_matrix("lu_unpack", LU, "LU_data"))
        return -1;
    if (unpack_pivots && pivots->dtype != TD_I32)
        return td_error(TD_E_RUNTIME, "lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype.");
    int64_t m = LU->sizes[LU->ndim - 2], n = LU->sizes[LU->ndim - 1], k = m < n ? m : n;
    td_tensor *none[3];
    for (int i = 0; i < 3; i++)
        none[i] = td_empty_memory_format(1, (int64_t[]){0}, (td_dtype)LU->dtype, LU->device, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *P = none[0], *L = none[1], *U = none[2];
    if (unpack_data) {
        TD_AUTO td_tensor *left = td_narrow(LU, -1, 0, k);
        TD_AUTO td_tensor *strict = td_tril(left, -1);
        TD_AUTO td_tensor *unit = td_eye_m(m, k, (td_dtype)LU->dtype, LU->device);
        TD_AUTO td_tensor *top = td_narrow(LU, -2, 0, k);
        td_tensor_release(L), td_tensor_release(U);
        L = td_add(strict, unit);
        U = td_triu(top, 0);
    }
    if (unpack_pivots) {
        /* Row order[i] of the matrix is row i of L U: P[order[i], i] = 1. */
        TD_AUTO td_tensor *order = td_pivots_to_permutation(pivots, m);
        TD_AUTO td_tensor *column = td_unsqueeze(order, -2);
        TD_AUTO td_tensor *rows = td_arange_start_step(td_int(0), td_int(m), td_int(1), TD_I64, LU->device);
        TD_AUTO td_tensor *rows_column = td_unsqueeze(rows, -1);
        TD_AUTO td_tensor *same = td_eq(rows_column, column);
        td_tensor_release(P);
        P = td_to(same, (td_dtype)LU->dtype);
    }
    if (!P || !L || !U)
        return -1;
    results[0] = td_ref(P), results[1] = td_ref(L), results[2] = td_ref(U);
    return 0;
}
int td_op_linalg_lu(td_tensor **results, td_tensor *A, bool pivot)
{
    td_tensor *all[3];
    if (td_linalg_lu_factor_ex(all, A, pivot, false))
        return -1;
    int status = td_lu_unpack(results, all[0], all[1], true, pivot);
    td_results_drop(3, all);
    return status;
}
/* A X = B, or X A = B if not left; adjoint solves with A^H, which has the same shapes. */
int td_meta_linalg_lu_solve(td_spec *specs, td_tensor *LU, td_tensor *pivots, td_tensor *B, bool left, bool adjoint)
{
    (void)adjoint;
    if (check_square_numbers("torch.linalg.lu_solve", LU) || td_check_matrix("torch.linalg.lu_solve", B, "B"))
        return -1;
    if (pivots->dtype != TD_I32)
        return td_error(TD_E_RUNTIME, "linalg.lu_solve: pivots should be a Tensor of scalar type torch.int32");
    if (LU->dtype != B->dtype)
        return td_error(TD_E_RUNTIME, "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type %s and B of type %s instead",
                        td_dtype_title((td_dtype)LU->dtype), td_dtype_title((td_dtype)B->dtype));
    if (pivots->ndim && pivots->sizes[pivots->ndim - 1] != LU->sizes[LU->ndim - 1])
        return td_error(TD_E_RUNTIME, "linalg.lu_solve: Number of pivots per batch should be same as the dimension of the matrix");
    if (td_check_pivots_shape("linalg.lu_solve", "LU", LU, pivots))
        return -1;
    return like_right_side("linalg.lu_solve", specs, LU, B, left) || (left && td_spec_columns(specs)) ? -1 : 0;
}
td_tensor *td_op_lu_solve(td_tensor *self, td_tensor *LU_data, td_tensor *LU_pivots)
{
    return TD_WARN_ONCE("torch.lu_solve is deprecated in favor of torch.linalg.lu_solve"
                   "and will be removed in a future PyTorch release.\nNote that torch.linalg.lu_solve has its arguments reversed.\n"
                   "X = torch.lu_solve(B, LU, pivots)\nshould be replaced with\nX = torch.linalg.lu_solve(LU, pivots, B)")
               ? NULL
               : td_linalg_lu_solve(LU_data, LU_pivots, self, true, false);
}

/* ---- solutions and inverses */

/* So B of shape [3, 3] is a batch of 3 vectors if A has the shape [3, 3, 3]. */
bool td_solve_takes_vector(const td_tensor *A, const td_tensor *B)
{
    return B->ndim == 1 || (A->ndim - 1 == B->ndim && !memcmp(A->sizes, B->sizes, sizeof *B->sizes * B->ndim));
}
bool td_solve_repeats(const td_tensor *A, const td_tensor *result, bool vector)
{
    const int lead = A->ndim - 2;
    return result->ndim - (vector ? 1 : 2) != lead || memcmp(A->sizes, result->sizes, sizeof *A->sizes * (size_t)lead);
}
int td_solve_info(td_tensor *A, td_tensor *info)
{
    td_tensor *all[3];
    if (td_linalg_lu_factor_ex(all, A, true, false))
        return -1;
    int status = td_copy_elements(info, all[2]);
    td_results_drop(3, all);
    return status;
}
/* A vector is solved as a matrix of one column. With A on the left the last two dimensions are left in columns, as in
 * PyTorch, also where they are a batch and its vectors. */
int td_meta_linalg_solve_ex(td_spec *specs, td_tensor *A, td_tensor *B, bool left, bool check_errors)
{
    (void)check_errors;
    if (check_square_numbers("linalg.solve", A))
        return -1;
    if (A->dtype != B->dtype)
        return td_error(TD_E_RUNTIME, "linalg.solve: Expected A and B to have the same dtype, but found A of type %s and B of type %s instead",
                        td_dtype_title((td_dtype)A->dtype), td_dtype_title((td_dtype)B->dtype));
    bool vector = td_solve_takes_vector(A, B);
    if (vector && !left)
        return td_error(TD_E_RUNTIME, "linalg.solve: Vector broadcasting of the left hand side is not supported for left=False. In this case "
                        "linalg.solve is equivalent to B / A.squeeze(-1)");
    if (!vector && td_check_matrix("linalg.solve", B, "B"))
        return -1;
    int64_t n = A->sizes[A->ndim - 1], sizes[TD_MAX_DIMS];
    int64_t rows = B->sizes[B->ndim - (vector ? 1 : 2)], columns = vector ? 1 : B->sizes[B->ndim - 1];
    if ((left ? rows : columns) != n)
        return td_error(TD_E_RUNTIME, "linalg.solve: Incompatible shapes of A and B for the equation %s (%" PRId64 "x%" PRId64 " and %" PRId64
                        "x%" PRId64 ")", left ? "AX = B" : "XA = B", n, n, rows, columns);
    int lead = join_batch("linalg.solve", A, 2, B, vector ? 1 : 2, sizes);
    if (lead < 0)
        return -1;
    td_spec_set(specs + 1, A->ndim - 2, A->sizes, TD_I32, A->device);
    sizes[lead] = rows, sizes[lead + 1] = columns;
    td_spec_set(specs, lead + (vector ? 1 : 2), sizes, (td_dtype)B->dtype, B->device);
    return left && specs->ndim >= 2 ? td_spec_columns(specs) : 0;
}
/* The name in the error has PyTorch's prefix "torch." here, while inv's and cholesky's have none. */
td_tensor *td_op_linalg_solve(td_tensor *A, td_tensor *B, bool left)
{
    td_tensor *pair[2];
    return checked(TD_FACTORS_LU_SOLVE, "torch.linalg.solve", td_linalg_solve_ex(pair, A, B, left, false), pair);
}
int td_meta_linalg_inv_ex(td_spec *specs, td_tensor *A, bool check_errors)
{
    (void)check_errors;
    if (td_check_square("linalg.inv", A) || td_check_linalg_dtype("linalg.inv", A, false))
        return -1;
    td_spec_like(specs, A);
    td_spec_set(specs + 1, A->ndim - 2, A->sizes, TD_I32, A->device);
    return td_spec_columns(specs);
}
td_tensor *td_op_linalg_inv(td_tensor *A)
{
    td_tensor *pair[2];
    return checked(TD_FACTORS_LU_INVERSE, "linalg.inv", td_linalg_inv_ex(pair, A, false), pair);
}
td_tensor *td_op_inverse(td_tensor *self) { return td_linalg_inv(self); }

int td_meta_linalg_solve_triangular(td_spec *specs, td_tensor *A, td_tensor *B, bool upper, bool left, bool unitriangular)
{
    (void)upper, (void)unitriangular;
    if (check_square_numbers("linalg.solve_triangular", A) || td_check_matrix("linalg.solve_triangular", B, "B"))
        return -1;
    if (A->dtype != B->dtype)
        return td_error(TD_E_RUNTIME, "linalg.solve_triangular: Expected A and B to have the same dtype, but found A of type %s and B of type %s "
                        "instead", td_dtype_title((td_dtype)A->dtype), td_dtype_title((td_dtype)B->dtype));
    return like_right_side("linalg.solve_triangular", specs, A, B, left) ? -1 : td_spec_columns(specs);
}
/* Deprecated, with a second result: a copy of A in columns, which LAPACK's routine would have been called with.
 * Solving with A^T exchanges the triangles, so upper flips with transpose. */
int td_op_triangular_solve(td_tensor **results, td_tensor *self, td_tensor *A, bool upper, bool transpose, bool unitriangular)
{
    if (self->ndim < 2 || A->ndim < 2)
        return td_error(TD_E_RUNTIME, "torch.triangular_solve: Expected tensors with at least 2 dimensions");
    if (TD_WARN_ONCE("torch.triangular_solve is deprecated in favor of torch.linalg.solve_triangular"
                "and will be removed in a future PyTorch release.\n"
                "torch.linalg.solve_triangular has its arguments reversed and does not return a copy of one of the inputs.\n"
                "X = torch.triangular_solve(B, A).solution\nshould be replaced with\nX = torch.linalg.solve_triangular(A, B)."))
        return -1;
    TD_AUTO td_tensor *transposed = transpose ? td_transpose_int(A, -2, -1) : td_ref(A);
    TD_AUTO td_tensor *x = td_linalg_solve_triangular(transposed, self, transpose ? !upper : upper, true, unitriangular);
    if (!x)
        return -1;
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, x->sizes, sizeof *sizes * (size_t)(x->ndim - 2));
    sizes[x->ndim - 2] = sizes[x->ndim - 1] = A->sizes[A->ndim - 1];
    TD_AUTO td_tensor *wide = td_expand(A, x->ndim, sizes);
    TD_AUTO td_tensor *rows = td_transpose_int(wide, -2, -1);
    TD_AUTO td_tensor *copy = td_clone_format(rows, TD_CONTIGUOUS_FORMAT);
    TD_AUTO td_tensor *columns = td_transpose_int(copy, -2, -1);
    if (!columns)
        return -1;
    results[0] = td_ref(x), results[1] = td_ref(columns);
    return 0;
}

/* ---- determinants: products of U's diagonal, with a sign per exchange of rows */

/* A pivot that isn't its own row is an exchange, and each exchange changes the determinant's sign. */
static td_tensor *sign_of_pivots(td_tensor *pivots, td_dtype dtype)
{
    int n = pivots->ndim - 1;
    if (pivots->device.type == TD_META)
        return td_tensor_new(n, pivots->sizes, dtype, pivots->device);
    if (pivots->device.type != TD_CPU) {
        TD_AUTO td_tensor *own = td_arange_start(td_int(1), td_int(pivots->sizes[n] + 1), TD_I32, pivots->device), *moved = own ? td_ne(pivots, own) : NULL;
        TD_AUTO td_tensor *one = td_ones(0, NULL, dtype, pivots->device), *other = one ? td_neg(one) : NULL;
        TD_AUTO td_tensor *signs = moved && other ? td_where(moved, other, one) : NULL;
        return signs ? td_prod_dim_int(signs, -1, false, TD_DTYPE_NONE) : NULL;
    }
    TD_AUTO td_tensor *swaps = td_as_contiguous(pivots, TD_I32);
    int64_t k = pivots->sizes[n], count = 1;
    for (int d = 0; d < n; d++)
        count *= pivots->sizes[d];
    TD_AUTO td_tensor *signs = td_tensor_new(n, pivots->sizes, TD_F64, pivots->device);
    if (!swaps || !signs)
        return NULL;
    for (int64_t b = 0; b < count; b++) {
        double sign = 1;
        for (int64_t i = 0; i < k; i++)
            sign = ((const int32_t *)swaps->data)[b * k + i] == i + 1 ? sign : -sign;
        ((double *)signs->data)[b] = sign;
    }
    return td_to(signs, dtype);
}
/* What is factored for a determinant: the transpose of real numbers in rows, which has the same one and lies as LAPACK wants it. Rounding, and
 * what is left of infinities, is then PyTorch's. */
static td_tensor *in_columns(td_tensor *A)
{
    return td_is_complex(A) || !td_tensor_is_contiguous(A) ? td_ref(A) : td_transpose_int(A, -2, -1);
}
/* L has ones on its diagonal, so det(A) is the sign of the exchanges times the product of U's diagonal. info isn't
 * looked at: a singular matrix has a zero on it, and 0 is the right answer. */
td_tensor *td_op_linalg_det(td_tensor *A)
{
    if (check_square_numbers("linalg.det", A))
        return NULL;
    td_tensor *all[3];
    TD_AUTO td_tensor *columns = in_columns(A);
    if (td_linalg_lu_factor_ex(all, columns, true, false))
        return NULL;
    TD_AUTO td_tensor *diagonal = td_diagonal(all[0], 0, -2, -1);
    TD_AUTO td_tensor *product = td_prod_dim_int(diagonal, -1, false, TD_DTYPE_NONE);
    TD_AUTO td_tensor *sign = sign_of_pivots(all[1], (td_dtype)A->dtype);
    td_results_drop(3, all);
    return td_mul(product, sign);
}
/* The logarithms are added: the sum stays in range where the product would overflow or vanish. A singular matrix has
 * the sign 0 and the logarithm -inf. For complex numbers the sign is the product of the elements' phases. */
int td_op_linalg_slogdet(td_tensor **results, td_tensor *A)
{
    if (td_check_square("linalg.slogdet", A) || td_check_linalg_dtype("linalg.slogdet", A, false))
        return -1;
    td_tensor *all[3];
    TD_AUTO td_tensor *columns = in_columns(A);
    if (td_linalg_lu_factor_ex(all, columns, true, false))
        return -1;
    TD_AUTO td_tensor *diagonal = td_diagonal(all[0], 0, -2, -1);
    TD_AUTO td_tensor *signs = td_sgn(diagonal);
    TD_AUTO td_tensor *product = td_prod_dim_int(signs, -1, false, TD_DTYPE_NONE);
    TD_AUTO td_tensor *pivot_sign = sign_of_pivots(all[1], (td_dtype)A->dtype);
    td_results_drop(3, all);
    TD_AUTO td_tensor *sizes = td_abs(diagonal);
    TD_AUTO td_tensor *logs = td_log(sizes);
    TD_AUTO td_tensor *sign = td_mul(product, pivot_sign);
    TD_AUTO td_tensor *sum = td_sum_over(logs, 1, (int64_t[]){-1}, false);
    if (!sign || !sum)
        return -1;
    results[0] = td_ref(sign), results[1] = td_ref(sum);
    return 0;
}
/* A negative determinant has no real logarithm: NaN. A complex one has, and its imaginary part is the phase's. */
td_tensor *td_op_logdet(td_tensor *self)
{
    td_tensor *pair[2];
    if (td_check_square("logdet", self) || td_check_linalg_dtype("logdet", self, false) || td_linalg_slogdet(pair, self))
        return NULL;
    TD_AUTO td_tensor *sign = pair[0], *size = pair[1];
    if (td_is_complex(self)) {
        TD_AUTO td_tensor *angle = td_log(sign);
        return td_add(angle, size);
    }
    TD_AUTO td_tensor *minus = td_wrapped_number(td_int(-1));
    TD_AUTO td_tensor *negative = td_eq(sign, minus);
    TD_AUTO td_tensor *nan = td_wrapped_number(td_float(__builtin_nan("")));
    return td_where(negative, nan, size);
}

/* ---- QR, singular values, eigenvalues */

typedef enum qr_parts { QR_NONE, QR_REDUCED, QR_COMPLETE, QR_R } qr_parts;

static qr_parts qr_parts_of(const char *mode)
{
    return !strcmp(mode, "reduced") ? QR_REDUCED : !strcmp(mode, "complete") ? QR_COMPLETE : !strcmp(mode, "r") ? QR_R : QR_NONE;
}
int td_check_qr_derivative(const char *mode, const td_tensor *Q, const td_tensor *R)
{
    const qr_parts parts = qr_parts_of(mode);
    if (parts == QR_R)
        return td_error(TD_E_RUNTIME, "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. Please use "
                        "linalg.qr(A, mode='reduced') if you are going to differentiate through linalg.qr.");
    if (parts == QR_COMPLETE && Q->sizes[Q->ndim - 2] > R->sizes[R->ndim - 1])
        return td_error(TD_E_RUNTIME, "The QR decomposition is not differentiable when mode='complete' and nrows > ncols.");
    return 0;
}

/* Of an m by n matrix and k = min(m, n): "reduced" has Q [m, k] and R [k, n], "complete" Q [m, m] and R [m, n], "r"
 * an empty Q and R [k, n]. */
int td_meta_linalg_qr(td_spec *specs, td_tensor *A, const char *mode)
{
    if (check_numbers("linalg.qr", A))
        return -1;
    const qr_parts parts = qr_parts_of(mode);
    if (parts == QR_NONE)
        return td_error(TD_E_RUNTIME, "qr received unrecognized mode '%s' but expected one of 'reduced' (default), 'r', or 'complete'", mode);
    const bool complete = parts == QR_COMPLETE;
    int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1], k = m < n ? m : n;
    td_spec_set(specs, 1, (int64_t[]){0}, (td_dtype)A->dtype, A->device);
    batched(specs + 1, A, (td_dtype)A->dtype, 2, complete ? m : k, n);
    if (parts != QR_R && (batched(specs, A, (td_dtype)A->dtype, 2, m, complete ? m : k) || td_spec_columns(specs)))
        return -1;
    return td_spec_columns(specs + 1);
}
int td_op_qr(td_tensor **results, td_tensor *self, bool some)
{
    if (TD_WARN_ONCE("torch.qr is deprecated in favor of torch.linalg.qr and will be removed in a future PyTorch release.\n"
                "The boolean parameter 'some' has been replaced with a string parameter 'mode'.\nQ, R = torch.qr(A, some)\n"
                "should be replaced with\nQ, R = torch.linalg.qr(A, 'reduced' if some else 'complete')"))
        return -1;
    return td_linalg_qr(results, self, some ? "reduced" : "complete");
}

/* A = U diag(S) Vh with k = min(m, n) singular values, which are real for a complex matrix, too. */
int td_meta__linalg_svd(td_spec *specs, td_tensor *A, bool full_matrices, bool compute_uv, const char *driver)
{
    if (check_numbers("linalg.svd", A))
        return -1;
    if (driver && A->numel)
        return td_error(TD_E_RUNTIME, "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend.");
    int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1], k = m < n ? m : n;
    td_dtype dtype = (td_dtype)A->dtype;
    if (compute_uv) {
        batched(specs, A, dtype, 2, m, full_matrices ? m : k);
        batched(specs + 2, A, dtype, 2, full_matrices ? n : k, n);
        if (td_spec_columns(specs) || td_spec_columns(specs + 2))
            return -1;
    } else {
        td_spec_set(specs, 1, (int64_t[]){0}, dtype, A->device);
        td_spec_set(specs + 2, 1, (int64_t[]){0}, dtype, A->device);
    }
    return batched(specs + 1, A, td_dtype_to_real(dtype), 1, k, 0);
}
int td_op_linalg_svd(td_tensor **results, td_tensor *A, bool full_matrices, const char *driver)
{
    return td__linalg_svd(results, A, full_matrices, true, driver);
}
/* left diag(values) right, without the diagonal matrix. */
td_tensor *td_op_times_vectors(td_tensor *values, td_tensor *left, td_tensor *right)
{
    TD_AUTO td_tensor *row = td_unsqueeze(values, -2);
    TD_AUTO td_tensor *scaled = td_mul(left, row);
    return td_matmul(scaled, right);
}
/* The derivative needs the vectors: they are computed where the call is recorded, only there. eigvalsh and eigvals do
 * likewise. */
td_tensor *td_op_linalg_svdvals(td_tensor *A, const char *driver)
{
    td_tensor *all[3];
    if (td__linalg_svd(all, A, false, TD_RECORDS(A), driver))
        return NULL;
    td_tensor_release(all[0]), td_tensor_release(all[2]);
    return all[1];
}
/* The older form returns V, not V^H, and instead of vectors that weren't computed square matrices of zeros. */
int td_op_svd(td_tensor **results, td_tensor *self, bool some, bool compute_uv)
{
    if (td_check_matrix("linalg.svd", self, "A"))
        return -1;
    if (!compute_uv) {
        int64_t m = self->sizes[self->ndim - 2], n = self->sizes[self->ndim - 1];
        int64_t sizes[TD_MAX_DIMS];
        memcpy(sizes, self->sizes, sizeof *sizes * self->ndim);
        TD_AUTO td_tensor *S = td_linalg_svdvals(self, NULL);
        sizes[self->ndim - 2] = sizes[self->ndim - 1] = m;
        TD_AUTO td_tensor *U = td_zeros(self->ndim, sizes, (td_dtype)self->dtype, self->device);
        sizes[self->ndim - 2] = sizes[self->ndim - 1] = n;
        TD_AUTO td_tensor *V = td_zeros(self->ndim, sizes, (td_dtype)self->dtype, self->device);
        if (!S || !U || !V)
            return -1;
        results[0] = td_ref(U), results[1] = td_ref(S), results[2] = td_ref(V);
        return 0;
    }
    if (td__linalg_svd(results, self, !some, true, NULL))
        return -1;
    td_tensor *V = td_adjoint_of(results[2]);
    td_tensor_release(results[2]);
    results[2] = V;
    return V ? 0 : (td_tensor_release(results[0]), td_tensor_release(results[1]), -1);
}

/* UPLO says which triangle is read; the other isn't, not even to check that the matrix is Hermitian. */
int td_meta__linalg_eigh(td_spec *specs, td_tensor *A, const char *UPLO, bool compute_v)
{
    if (td_check_square("linalg.eigh", A))
        return -1;
    if (strcmp(UPLO, "L") && strcmp(UPLO, "U") && strcmp(UPLO, "l") && strcmp(UPLO, "u"))
        return td_error(TD_E_RUNTIME, "Expected UPLO argument to be 'L' or 'U', but got %s", UPLO);
    batched(specs, A, td_dtype_to_real((td_dtype)A->dtype), 1, A->sizes[A->ndim - 1], 0);
    if (!compute_v)
        return td_spec_set(specs + 1, 1, (int64_t[]){0}, (td_dtype)A->dtype, A->device);
    /* LAPACK's complex routine wants 1 + 5 n + 2 n^2 numbers of work space, and counts them in an int. */
    if (td_is_complex(A) && A->device.type == TD_CPU && A->sizes[A->ndim - 1] > 32765)
        return td_error(TD_E_RUNTIME, "linalg.eigh: eigenvectors of complex matrices are computed for up to 32765 rows, not %" PRId64
                        "; eigvalsh has no such limit", A->sizes[A->ndim - 1]);
    td_spec_like(specs + 1, A);
    return td_spec_columns(specs + 1);
}
int td_op_linalg_eigh(td_tensor **results, td_tensor *self, const char *UPLO) { return td__linalg_eigh(results, self, UPLO, true); }
td_tensor *td_op_linalg_eigvalsh(td_tensor *self, const char *UPLO)
{
    td_tensor *pair[2];
    if (td__linalg_eigh(pair, self, UPLO, TD_RECORDS(self)))
        return NULL;
    td_tensor_release(pair[1]);
    return pair[0];
}
/* Complex throughout: a real matrix may have complex eigenvalues, and a dtype can't depend on the elements. */
int td_meta__linalg_eig(td_spec *specs, td_tensor *A, bool compute_v)
{
    if (check_square_numbers("linalg.eig", A))
        return -1;
    td_dtype dtype = td_dtype_to_complex((td_dtype)A->dtype);
    batched(specs, A, dtype, 1, A->sizes[A->ndim - 1], 0);
    if (!compute_v)
        return td_spec_set(specs + 1, 1, (int64_t[]){0}, dtype, A->device);
    td_spec_set(specs + 1, A->ndim, A->sizes, dtype, A->device);
    return td_spec_columns(specs + 1);
}
int td_op_linalg_eig(td_tensor **results, td_tensor *self)
{
    return check_square_numbers("linalg.eig", self) ? -1 : td__linalg_eig(results, self, true);
}
td_tensor *td_op_linalg_eigvals(td_tensor *self)
{
    td_tensor *pair[2];
    if (check_square_numbers("linalg.eigvals", self) || td__linalg_eig(pair, self, TD_RECORDS(self)))
        return NULL;
    td_tensor_release(pair[1]);
    return pair[0];
}

/* ---- least squares */

int td_meta__linalg_lstsq(td_spec *specs, td_tensor *A, td_tensor *B, double rcond, int64_t method)
{
    (void)rcond;
    if (method < TD_LSTSQ_GELS || method > TD_LSTSQ_GELSD)
        return td_error(TD_E_RUNTIME, "_linalg_lstsq: method must be 0 (gels), 1 (gelsy) or 2 (gelsd), not %lld", (long long)method);
    if (A->ndim < 2 || B->ndim < 2)
        return td_error(TD_E_RUNTIME, "torch.linalg.lstsq: input must have at least 2 dimensions.");
    if (A->dtype != B->dtype || A->ndim != B->ndim || memcmp(A->sizes, B->sizes, sizeof *A->sizes * (A->ndim - 1u)))
        return td_error(TD_E_RUNTIME, "_linalg_lstsq: A and B differ in dtype or in a dimension before the last");
    int64_t n = A->sizes[A->ndim - 1], m = A->sizes[A->ndim - 2];
    td_dtype dtype = (td_dtype)A->dtype;
    batched(specs, A, dtype, 2, n, B->sizes[B->ndim - 1]);
    td_spec_set(specs + 1, A->ndim - 2, A->sizes, TD_I64, A->device);
    batched(specs + 2, A, td_dtype_to_real(dtype), 1, m < n ? m : n, 0);
    if (td_spec_columns(specs))
        return -1;
    /* The solution is what LAPACK leaves in the first rows of a copy of B. */
    int64_t longest = m > n ? m : n, step = longest * specs->sizes[specs->ndim - 1];
    specs->strides[specs->ndim - 1] = longest > 0 ? longest : 1;
    for (int d = specs->ndim - 2; d-- > 0; step *= specs->sizes[d] > 0 ? specs->sizes[d] : 1)
        specs->strides[d] = step > 0 ? step : 1;
    return 0;
}

/* min ||A X - B|| for each column. Drivers are named after LAPACK's routines, see td_lstsq; the default is gelsy. gelss goes by
 * singular values, too: the kernel has gelsd for it, which finds the same ones faster.
 *
 * rcond defaults to eps * max(m, n), below which a pivot or singular value, relative to the largest, counts as zero.
 * As in PyTorch residuals are given only for more rows than columns, full rank and a driver other than gelsy, and
 * gels returns no rank. */
int td_op_linalg_lstsq(td_tensor **results, td_tensor *A, td_tensor *b, const double *rcond, const char *driver)
{
    if (!rcond && td_check_epsilon(A))
        return -1;
    if (check_numbers("torch.linalg.lstsq", A) || td_check_linalg_dtype("torch.linalg.lstsq", A, false))
        return -1;
    if (b->ndim < 1)
        return td_error(TD_E_RUNTIME, "torch.linalg.lstsq: other must have at least 1 dimension.");
    if (A->dtype != b->dtype)
        return td_error(TD_E_RUNTIME, "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype %s and other's "
                        "dtype %s", td_dtype_name((td_dtype)A->dtype), td_dtype_name((td_dtype)b->dtype));
    static const char *const drivers[] = {"gels", "gelsy", "gelsd", "gelss"};
    int named = driver ? 0 : TD_LSTSQ_GELSY;
    while (driver && named < 4 && strcmp(driver, drivers[named]))
        named++;
    if (named == 4)
        return td_error(TD_E_RUNTIME, "torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss)");
    bool vector = td_solve_takes_vector(A, b) && b->ndim == A->ndim - 1;
    int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1], sizes[TD_MAX_DIMS];
    TD_AUTO td_tensor *B = vector ? td_unsqueeze(b, -1) : td_ref(b);
    if (!B || B->ndim < 2 || B->sizes[B->ndim - 2] != m)
        return B ? td_error(TD_E_RUNTIME, "torch.linalg.lstsq: input.size(-2) should match other.size(-%d)", vector ? 1 : 2) : -1;
    int lead = join_batch("torch.linalg.lstsq", A, 2, B, 2, sizes);
    if (lead < 0)
        return -1;
    sizes[lead] = m, sizes[lead + 1] = n;
    TD_AUTO td_tensor *A_wide = td_expand(A, lead + 2, sizes);
    sizes[lead + 1] = B->sizes[B->ndim - 1];
    TD_AUTO td_tensor *B_wide = td_expand(B, lead + 2, sizes);
    bool narrow = A->dtype == TD_F32 || A->dtype == TD_C64;
    double eps = narrow ? 0x1p-23 : 0x1p-52;
    td_tensor *all[3];
    const bool by_values = named >= TD_LSTSQ_GELSD, gelss = named > TD_LSTSQ_GELSD;
    if (td__linalg_lstsq(all, A_wide, B_wide, rcond ? *rcond : eps * (double)(m > n ? m : n), by_values ? TD_LSTSQ_GELSD : named))
        return -1;
    TD_AUTO td_tensor *X = all[0], *rank = all[1], *values = all[2];
    if (rcond && *rcond >= 1 && gelss) {
        /* No singular value lies above the largest one. The kernel's gelsd takes such a bound for none at all. */
        TD_AUTO td_tensor *found = X, *counted = rank;
        X = td_times(found, td_int(0)), rank = td_zeros_like(counted);
        if (!X || !rank)
            return -1;
    }
    td_dtype real = td_dtype_to_real((td_dtype)A->dtype);
    TD_AUTO td_tensor *none = td_empty_memory_format(1, (int64_t[]){0}, real, A->device, TD_MEMORY_FORMAT_NONE);
    /* Without residuals an empty tensor, which is in the graph all the same; ceil, as that passes nothing on. */
    TD_AUTO td_tensor *flat = td_reshape(X, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *nothing = td_narrow(flat, 0, 0, 0);
    TD_AUTO td_tensor *sizes_of_none = td_abs(nothing);
    TD_AUTO td_tensor *residuals = td_ceil(sizes_of_none);
    td_scalar full = td_bool(m > n && named != TD_LSTSQ_GELSY && A->device.type != TD_META);
    if (td_scalar_bool(full)) {
        TD_AUTO td_tensor *wanted = td_wrapped_number(td_int(n));
        TD_AUTO td_tensor *reached = td_eq(rank, wanted);
        TD_AUTO td_tensor *all_full = td__is_all_true(reached);
        if (!all_full || td_item(&full, all_full))
            return -1;
    }
    if (td_scalar_bool(full)) {
        TD_AUTO td_tensor *product = td_matmul(A_wide, X);
        TD_AUTO td_tensor *difference = td_sub(product, B_wide);
        TD_AUTO td_tensor *size = td_abs(difference);
        TD_AUTO td_tensor *square = td_mul(size, size);
        td_tensor_release(residuals);
        residuals = td_sum_over(square, 1, (int64_t[]){-2}, false);
    }
    TD_AUTO td_tensor *solution = vector ? td_squeeze_dim(X, -1) : td_ref(X);
    TD_AUTO td_tensor *no_rank = td_empty_memory_format(1, (int64_t[]){0}, TD_I64, A->device, TD_MEMORY_FORMAT_NONE);
    if (!solution || !residuals || !no_rank || !none)
        return -1;
    results[0] = td_ref(solution), results[1] = td_ref(residuals);
    results[2] = td_ref(named == TD_LSTSQ_GELS ? no_rank : rank);
    results[3] = by_values ? td_detach(values) : td_ref(none);
    if (!results[3])
        return td_results_drop(3, results);
    return 0;
}
