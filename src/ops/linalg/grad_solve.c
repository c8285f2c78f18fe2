/* Inverses, solutions, determinants and least squares: gradients and tangents, made of operators that record themselves: what the `grad:` and `jvp:` of entries call.
 *
 * The formulas are those of Giles, "An extended collection of matrix derivative results" (2008).  A tangent follows
 * from the product rule: A X = B gives A dX = t_B - t X.
 *
 * g stands for the gradient of the result, gX for that of X, t for the tangent of A, t_X for that of X, which may be absent (TD_NONE)
 * and then stands for zeros. ^H is the adjoint; everything is for each matrix of a batch. */
#include "calls_ops_linalg_grad_solve.h"
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/linalg/products.h"

/* Two results of which only the wanted ones were computed; the others are absent. A wanted NULL is an error that is
 * recorded already. */
static int give_pair(td_tensor **results, bool want_a, td_tensor *a, bool want_b, td_tensor *b)
{
    if ((want_a && !a) || (want_b && !b))
        return -1;
    results[0] = td_ref(want_a ? a : TD_NONE);
    results[1] = td_ref(want_b ? b : TD_NONE);
    return 0;
}

/* ---- inverse and solutions */

/* d(A^-1) = -A^-1 dA A^-1, hence gA = -A^-H g A^-H. */
td_tensor *td_op_linalg_inv_backward(td_tensor *grad, td_tensor *inverse)
{
    LET(adjoint) = td_adjoint_of(inverse);
    LET(left) = mm(adjoint, grad);
    LET(both) = mm(left, adjoint);
    return td_neg(both);
}

/* A X = B: gB = A^-H g and gA = -gB X^H; for X A = B it is gA = -X^H gB. `vector` is td_solve_takes_vector's rule,
 * from B's shape alone. Both gradients are summed over batch dimensions that were broadcast. */
int td_op_linalg_solve_backward(td_tensor **results, td_tensor *grad, td_tensor *X, td_tensor *A, int64_t n, const int64_t *B_shape, bool left,
                                int64_t n_wants, const bool *wants)
{
    (void)n_wants;
    bool vector = n == 1 || (A->ndim - 1 == n && !memcmp(A->sizes, B_shape, sizeof *B_shape * n));
    LET(g) = vector ? td_unsqueeze(grad, -1) : td_ref(grad);
    LET(x) = vector ? td_unsqueeze(X, -1) : td_ref(X);
    LET(adjoint) = td_adjoint_of(A);
    LET(gB) = td_linalg_solve(adjoint, g, left);
    LET(product) = !wants[0] ? NULL : left ? mm_adjoint(gB, x) : adjoint_mm(x, gB);
    LET(negative) = product ? td_neg(product) : NULL;
    LET(gA) = negative ? td_sum_to_size(negative, A->ndim, A->sizes) : NULL;
    LET(flat) = vector ? td_squeeze_dim(gB, -1) : td_ref(gB);
    LET(fitted) = td_sum_to_size(flat, n, B_shape);
    return give_pair(results, wants[0], gA, wants[1], fitted);
}

/* As for solve, where gA has only the triangle that was read: without the diagonal if that was taken for ones. The
 * adjoint of an upper triangle is a lower one. */
int td_op_solve_triangular_backward(td_tensor **results, td_tensor *grad, td_tensor *X, td_tensor *A, int64_t n, const int64_t *B_shape,
                                    bool upper, bool left, bool unitriangular, int64_t n_wants, const bool *wants)
{
    (void)n_wants;
    LET(adjoint) = td_adjoint_of(A);
    LET(gB) = td_linalg_solve_triangular(adjoint, grad, !upper, left, unitriangular);
    LET(product) = !wants[0] ? NULL : left ? mm_adjoint(gB, X) : adjoint_mm(X, gB);
    LET(negative) = product ? td_neg(product) : NULL;
    LET(triangle) = !negative ? NULL : upper ? td_triu(negative, unitriangular) : td_tril(negative, -(int64_t)unitriangular);
    LET(gA) = triangle ? td_sum_to_size(triangle, A->ndim, A->sizes) : NULL;
    LET(fitted) = td_sum_to_size(gB, n, B_shape);
    return give_pair(results, wants[0], gA, wants[1], fitted);
}

/* t_B - t_A X (or t_B - X t_A): what A is solved with. */
static td_tensor *right_side(td_tensor *t_A, td_tensor *t_B, td_tensor *X, bool left)
{
    if (t_A == TD_NONE)
        return t_B ? td_ref(t_B) : NULL;
    LET(product) = left ? mm(t_A, X) : mm(X, t_A);
    return t_B == TD_NONE ? td_neg(product) : td_sub(t_B, product);
}

/* A X = B: dX = A^-1 (t_B - t_A X). */
td_tensor *td_op_solve_tangent(td_tensor *t_A, td_tensor *t_B, td_tensor *A, td_tensor *X, bool left, bool vector)
{
    LET(x) = vector ? td_unsqueeze(X, -1) : td_ref(X);
    LET(b) = vector && t_B != TD_NONE ? td_unsqueeze(t_B, -1) : td_ref(t_B);
    LET(side) = right_side(t_A, b, x, left);
    td_tensor *pair[2];
    if (!side || td_linalg_solve_ex(pair, A, side, left, false))
        return NULL;
    LET(tangent) = pair[0];
    td_tensor_release(pair[1]);
    return vector ? td_squeeze_dim(tangent, -1) : td_ref(tangent);
}

/* Of t_A only what solve_triangular reads counts. */
td_tensor *td_op_solve_triangular_tangent(td_tensor *t_A, td_tensor *t_B, td_tensor *A, td_tensor *X, bool upper, bool left,
                                          bool unitriangular)
{
    LET(triangle) = t_A == TD_NONE ? td_ref(TD_NONE) : upper ? td_triu(t_A, unitriangular) : td_tril(t_A, -(int64_t)unitriangular);
    LET(side) = triangle ? right_side(triangle, t_B, X, left) : NULL;
    return td_linalg_solve_triangular(A, side, upper, left, unitriangular);
}

/* A = L L^H: t_A = t_L L^H + L t_L^H, or t_U^H U + U^H t_U; then as for solve. */
td_tensor *td_op_cholesky_solve_tangent(td_tensor *t_self, td_tensor *t_factor, td_tensor *factor, td_tensor *X, bool upper)
{
    LET(t_A) = td_ref(TD_NONE);
    if (t_factor != TD_NONE) {      /* of half of the product rule's sum the other half is the adjoint */
        LET(half) = upper ? adjoint_mm(factor, t_factor) : mm_adjoint(t_factor, factor);
        LET(other) = td_adjoint_of(half);
        td_tensor_release(t_A);
        if (!(t_A = td_add(half, other)))
            return NULL;
    }
    LET(side) = right_side(t_A, t_self, X, true);
    return side == TD_NONE ? td_ref(side) : td_cholesky_solve(side, factor, upper);
}

/* -A^-1 t A^-1 */
td_tensor *td_op_inv_tangent(td_tensor *t, td_tensor *inverse)
{
    LET(left) = mm(inverse, t);
    LET(both) = mm(left, inverse);
    return td_neg(both);
}

/* By the factors: the gradient of A = P L U, split into those of L and U.
 * grad of P L U is split by dA = P dL U + P L dU: gL = tril(P^H gA U^H, -1) and gU = triu(L^H P^H gA), which share
 * LU's matrix. grad B isn't computed here. */
td_tensor *td_op_lu_solve_backward(td_tensor *grad, td_tensor *X, td_tensor *LU, td_tensor *pivots, bool left, bool adjoint)
{
    td_tensor *parts[3];
    if (td_lu_unpack(parts, LU, pivots, true, true))
        return NULL;
    LET(P) = parts[0];
    LET(L) = parts[1];
    LET(U) = parts[2];
    LET(gB) = td_linalg_lu_solve(LU, pivots, grad, left, !adjoint);
    /* gradient of the matrix that is solved with, then of A if that is its adjoint */
    LET(product) = left ? mm_adjoint(gB, X) : adjoint_mm(X, gB);
    LET(negative) = td_neg(product);
    LET(gA) = adjoint ? td_adjoint_of(negative) : td_ref(negative);
    LET(Pg) = adjoint_mm(P, gA);
    LET(gL_full) = mm_adjoint(Pg, U);
    LET(gU_full) = adjoint_mm(L, Pg);
    LET(gL) = td_tril(gL_full, -1);
    LET(gU) = td_triu(gU_full, 0);
    LET(sum) = td_add(gL, gU);
    return td_sum_to_size(sum, LU->ndim, LU->sizes);
}

/* dA = P (dL U + L dU), where L's tangent has no diagonal. The pivots are integers and stay. */
td_tensor *td_op_lu_solve_tangent(td_tensor *t_LU, td_tensor *t_B, td_tensor *LU, td_tensor *pivots, td_tensor *X, bool left, bool adjoint)
{
    LET(t_A) = td_ref(TD_NONE);
    if (t_LU != TD_NONE) {      /* A = P L U */
        td_tensor *parts[3];
        if (td_lu_unpack(parts, LU, pivots, true, true))
            return NULL;
        LET(P) = parts[0];
        LET(L) = parts[1];
        LET(U) = parts[2];
        LET(dL) = td_tril(t_LU, -1);
        LET(dU) = td_triu(t_LU, 0);
        LET(a) = mm(dL, U);
        LET(b) = mm(L, dU);
        LET(sum) = td_add(a, b);
        LET(whole) = mm(P, sum);
        td_tensor_release(t_A);
        if (!(t_A = adjoint ? td_adjoint_of(whole) : whole ? td_ref(whole) : NULL))
            return NULL;
    }
    LET(side) = right_side(t_A, t_B, X, left);
    return td_linalg_lu_solve(LU, pivots, side, left, adjoint);
}

/* ---- determinants */

/* scale A^-H, with a factor for each matrix. */
static td_tensor *over_adjoint(td_tensor *scale, td_tensor *A)
{
    LET(wide) = td_unsqueeze(scale, -1);
    LET(wider) = td_unsqueeze(wide, -1);
    LET(unit) = td_eye(A->sizes[A->ndim - 1], (td_dtype)A->dtype, A->device);
    LET(scaled) = td_mul(wider, unit);
    LET(adjoint) = td_adjoint_of(A);
    td_tensor *pair[2];
    if (!adjoint || !scaled || td_linalg_solve_ex(pair, adjoint, scaled, true, false))
        return NULL;
    td_tensor_release(pair[1]);
    return pair[0];
}

/* g conj(det) A^-H.  A singular matrix has no inverse but has a gradient: the adjugate, from singular vectors,
 * U diag(product of the other values) V^H times the determinants of U and V.
 * Jacobi's formula, d det(A) = det(A) tr(A^-1 dA). One singular matrix sends the whole batch through the singular
 * values, and so does a determinant that can't be read (vmap): that path is right for all values, but costs an SVD.
 * det's zeros are exact where a pivot is 0; a matrix that is singular up to rounding is solved with. */
td_tensor *td_op_linalg_det_backward(td_tensor *grad, td_tensor *det, td_tensor *A)
{
    if (td_check_matrix("linalg_det_backward", A, "A"))
        return NULL;
    bool singular = det->device.type != TD_META && td_hides_values(det);
    if (det->device.type != TD_META && det->numel && !singular) {
        LET(zero) = td_wrapped_number(td_int(0));
        LET(still) = td_detach(det);
        LET(is_zero) = td_eq(still, zero);
        LET(any) = td_any_all(is_zero);
        td_scalar yes;
        if (!any || td_tensor_item(any, &yes))
            return NULL;
        singular = td_scalar_bool(yes);
    }
    if (A->sizes[A->ndim - 1] <= 1) {       /* det(A) is A itself, or 1 */
        LET(wide) = td_unsqueeze(grad, -1);
        LET(wider) = td_unsqueeze(wide, -1);
        return A->numel ? td_expand(wider, A->ndim, A->sizes) : td_zeros(A->ndim, A->sizes, (td_dtype)A->dtype, A->device);
    }
    LET(conjugate) = td_conj(det);
    if (!singular) {
        LET(scale) = td_mul(grad, conjugate);
        return over_adjoint(scale, A);
    }
    td_tensor *parts[3];
    if (td_linalg_svd(parts, A, false, NULL))
        return NULL;
    LET(U) = parts[0];
    LET(S) = parts[1];
    LET(Vh) = parts[2];
    int64_t n = S->sizes[S->ndim - 1];
    LET(column) = td_unsqueeze(S, -2);
    LET(unit) = td_eye(n, TD_BOOL, A->device);
    LET(one) = td_wrapped_number(td_int(1));
    LET(others) = td_where(unit, one, column);                /* row i: all singular values but the i-th */
    LET(products) = td_prod_dim_int(others, -1, false, TD_DTYPE_NONE);
    LET(u) = td_linalg_det(U);
    LET(v) = td_linalg_det(Vh);
    LET(uv) = td_mul(u, v);
    LET(turn) = td_conj(uv);
    LET(scale) = td_mul(grad, turn);
    LET(wide) = td_unsqueeze(scale, -1);
    LET(values) = td_mul(wide, products);
    LET(left) = times_columns(U, values);
    return mm(left, Vh);
}

/* d log|det A| = Re tr(A^-1 dA), and for complex A d sign = i sign Im tr(A^-1 dA). So gA = (g_log + i Im(conj(sign)
 * g_sign)) A^-H; for real A the sign is constant wherever it has a derivative. */
td_tensor *td_op_slogdet_backward(td_tensor *grad_sign, td_tensor *grad_log, td_tensor *sign, td_tensor *A)
{
    LET(scale) = td_ref(grad_log);
    if (td_is_complex(A)) {
        LET(conjugate) = td_conj(sign);
        LET(product) = td_mul(conjugate, grad_sign);
        LET(imag) = td_imag(product);
        LET(turn) = td_times(imag, td_complex(0, 1));
        td_tensor_release(scale);
        scale = td_add(grad_log, turn);
    }
    return over_adjoint(scale, A);
}

/* Jacobi's formula: the sum of cofactors times t. The gradient for 1 is the conjugate cofactors, for singular
 * matrices, too. */
td_tensor *td_op_det_tangent(td_tensor *t, td_tensor *det, td_tensor *A)
{
    LET(one) = td_ones_like(det);
    LET(back) = td_linalg_det_backward(one, det, A);
    LET(cofactors) = back && td_is_complex(back) ? td_conj(back) : back ? td_ref(back) : NULL;
    LET(product) = td_mul_tensor(cofactors, t);
    return td_sum_dim_intlist(product, 2, (int64_t[]){-2, -1}, false, TD_DTYPE_NONE);
}

/* With the trace of A^-1 t: its real part is the logarithm's tangent, sign times i times its imaginary part the
 * sign's, which a real A doesn't have. */
int td_op_slogdet_tangent(td_tensor **results, td_tensor *t, td_tensor *A, td_tensor *sign)
{
    td_tensor *pair[2];
    if (td_linalg_solve_ex(pair, A, t, true, false))
        return -1;
    LET(ratio) = pair[0];
    td_tensor_release(pair[1]);
    LET(diagonal) = td_diagonal(ratio, 0, -2, -1);
    LET(trace) = td_sum_dim_intlist(diagonal, 1, (int64_t[]){-1}, false, TD_DTYPE_NONE);
    if (!td_is_complex(A)) {        /* the sign is constant */
        LET(still) = td_zeros_like(sign);
        return give_all(2, results, (td_tensor *[]){still, trace});
    }
    LET(real) = td_real(trace);
    LET(imag) = td_imag(trace);
    LET(rotation) = td_times(imag, td_complex(0, 1));
    LET(rotated) = td_mul_tensor(sign, rotation);
    return give_all(2, results, (td_tensor *[]){rotated, real});
}

/* ---- pseudo-inverse (Golub and Pereyra, 1973) and least squares by it */

/* Products are grouped for a wide matrix, so that K and what is made of it are the smaller square. A tall one is the adjoint of a wide
 * one, and so are its pseudo-inverse and all gradients. */
td_tensor *td_op_pinv_backward(td_tensor *grad, td_tensor *pinv, td_tensor *A)
{
    if (td_check_matrix("pinv_backward", A, "A"))
        return NULL;
    LET(gH) = td_adjoint_of(grad);
    LET(pinvH) = td_adjoint_of(pinv);
    if (A->sizes[A->ndim - 2] > A->sizes[A->ndim - 1]) {
        LET(AH) = td_adjoint_of(A);
        LET(gAH) = gH && pinvH ? td_op_pinv_backward(gH, pinvH, AH) : NULL;
        LET(lazy) = td_adjoint_of(gAH);
        return td_clone_format(lazy, TD_CONTIGUOUS_FORMAT);
    }
    LET(K) = mm(gH, pinv);
    LET(KpH) = mm(K, pinvH);
    LET(pK) = mm(pinv, K);
    LET(pKH) = td_adjoint_of(pK);
    LET(Ap) = mm(A, pinv);
    LET(ApKpH) = mm(Ap, KpH);
    LET(KA) = mm(K, A);
    LET(rest) = td_sub(gH, KA);
    LET(pHp) = mm(pinvH, pinv);
    LET(last) = mm(pHp, rest);
    LET(a) = td_sub(KpH, pKH);
    LET(b) = td_sub(a, ApKpH);
    return td_add(b, last);
}

/* X = pinv(A) B, so gB = pinv(A)^H g, and g B^H is the gradient of pinv(A). It holds for a full rank, where lstsq's
 * solution is this one whatever the driver. */
int td_op_lstsq_backward(td_tensor **results, td_tensor *grad, td_tensor *A, td_tensor *B)
{
    LET(pinv) = td_linalg_pinv_atol_rtol_float(A, NULL, NULL, false);
    LET(gB) = adjoint_mm(pinv, grad);
    LET(gp) = mm_adjoint(grad, B);
    LET(gA) = pinv && gp ? td_pinv_backward(gp, pinv, A) : NULL;
    return give_pair(results, true, gA, true, gB);
}

/* Pseudo-inverse (Golub and Pereyra, 1973): -p t p + p p^H t^H (1 - A p) + (1 - p A) t^H p^H p */
td_tensor *td_op_pinv_tangent(td_tensor *t, td_tensor *pinv, td_tensor *A)
{
    LET(tH) = td_adjoint_of(t);
    LET(pH) = td_adjoint_of(pinv);
    LET(pt) = mm(pinv, t);
    LET(ptp) = mm(pt, pinv);
    LET(ppH) = mm(pinv, pH);
    LET(a) = mm(ppH, tH);
    LET(aA) = mm(a, A);
    LET(aAp) = mm(aA, pinv);
    LET(pHp) = mm(pH, pinv);
    LET(b) = mm(tH, pHp);
    LET(Ab) = mm(A, b);
    LET(pAb) = mm(pinv, Ab);
    LET(columns) = td_sub(a, aAp);
    LET(rows) = td_sub(b, pAb);
    LET(both) = td_add(columns, rows);
    return td_sub(both, ptp);
}

/* The product rule of pinv(A) B. */
td_tensor *td_op_lstsq_tangent(td_tensor *t_A, td_tensor *t_B, td_tensor *A, td_tensor *B)
{
    LET(pinv) = td_linalg_pinv_atol_rtol_float(A, NULL, NULL, false);
    LET(direct) = t_B == TD_NONE ? td_ref(TD_NONE) : mm(pinv, t_B);
    if (!direct || !pinv || t_A == TD_NONE)
        return direct && pinv ? td_ref(direct) : NULL;
    LET(dp) = td_op_pinv_tangent(t_A, pinv, A);
    LET(by_A) = mm(dp, B);
    return td_sum_of(direct, by_A);
}
