/* Cholesky, LU and QR: gradients and tangents, made of operators that record themselves: what the `grad:` and `jvp:` of entries call.
 *
 * The formulas are those of Giles, "An extended collection of matrix derivative results" (2008) and of Seeger
 * et al., "Auto-Differentiating Linear Algebra" (2017), with adjoints for transposes.  A tangent follows from the product rule in the
 * factorization's own equation: A = LL^H gives L^-1 t L^-H = L^-1 dL + its adjoint.
 *
 * g stands for the gradient of the result, gX for that of X, t for the tangent of A, t_X for that of X, which may be absent (TD_NONE)
 * and then stands for zeros. ^H is the adjoint; everything is for each matrix of a batch. */
#include "calls_ops_linalg_grad_factor.h"
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/linalg/products.h"

/* ---- Cholesky: with M = tril(L^H gL) and M' its strict part, gA = L^-H (M + M'^H) L^-1 / 2
 * An upper factor is the adjoint of the lower one, and its gradient is, too. */
td_tensor *td_op_cholesky_backward(td_tensor *grad, td_tensor *L, bool upper)
{
    LET(lower) = upper ? td_adjoint_of(L) : td_ref(L);
    LET(g) = upper ? td_adjoint_of(grad) : td_ref(grad);
    LET(product) = adjoint_mm(lower, g);
    LET(triangle) = td_tril(product, 0);
    LET(strict) = td_tril(product, -1);
    LET(other) = td_adjoint_of(strict);
    LET(sum) = td_add(triangle, other);
    LET(adjoint) = td_adjoint_of(lower);
    LET(left) = td_linalg_solve_triangular(adjoint, sum, true, true, false);
    LET(both) = td_linalg_solve_triangular(lower, left, false, false, false);
    return td_times(both, td_float(0.5));
}

/* L^-1 t L^-H = L^-1 dL + (L^-1 dL)^H, whose first term is lower triangular. So it is the sum's lower triangle with
 * half of the diagonal, and dL is L times that. */
td_tensor *td_op_cholesky_tangent(td_tensor *t, td_tensor *L, bool upper)
{
    LET(lower) = upper ? td_adjoint_of(L) : td_ref(L);
    LET(adjoint) = td_adjoint_of(lower);
    LET(left) = td_linalg_solve_triangular(lower, t, false, true, false);
    LET(both) = td_linalg_solve_triangular(adjoint, left, true, false, false);
    LET(triangle) = td_tril(both, 0);
    LET(strict) = td_tril(both, -1);
    LET(twice) = td_add(triangle, strict);
    LET(phi) = td_times(twice, td_float(0.5));
    LET(tangent) = mm(lower, phi);
    return upper ? td_adjoint_of(tangent) : tangent ? td_ref(tangent) : NULL;
}

/* ---- LU.  A = P L U.  Square: gA = P L^-H [tril(L^H gL, -1) + triu(gU U^H)] U^-H; wide and tall ones by their
 * leading square block and the rest. */
td_tensor *td_op_lu_factor_backward(td_tensor *grad, td_tensor *LU, td_tensor *pivots)
{
    if (td_check_matrix("lu_factor_backward", LU, "LU"))
        return NULL;
    int64_t m = LU->sizes[LU->ndim - 2], n = LU->sizes[LU->ndim - 1], k = m < n ? m : n;
    LET(unit) = td_eye(k, (td_dtype)LU->dtype, LU->device);
    LET(square) = m > n ? td_narrow(LU, -2, 0, k) : td_narrow(LU, -1, 0, k);
    LET(strict) = td_tril(square, -1);
    LET(L) = td_add(strict, unit);
    LET(U) = td_triu(square, 0);
    LET(g) = m > n ? td_narrow(grad, -2, 0, k) : td_narrow(grad, -1, 0, k);
    LET(gL) = td_tril(g, -1);
    LET(gU) = td_triu(g, 0);
    LET(L_part) = adjoint_mm(L, gL);
    LET(U_part) = mm_adjoint(gU, U);
    LET(rest) = NULL;
    LET(g_rest) = NULL;
    if (m > n) {          /* rows below: L2 = A2 U^-1 */
        rest = td_narrow(LU, -2, k, m - k), g_rest = td_narrow(grad, -2, k, m - k);
        LET(product) = adjoint_mm(rest, g_rest);
        LET(less) = td_sub(U_part, product);
        td_tensor_release(U_part);
        U_part = td_ref(less);
    } else if (n > m) {   /* columns to the right: U2 = L^-1 A2 */
        rest = td_narrow(LU, -1, k, n - k), g_rest = td_narrow(grad, -1, k, n - k);
        LET(product) = mm_adjoint(g_rest, rest);
        LET(less) = td_sub(L_part, product);
        td_tensor_release(L_part);
        L_part = td_ref(less);
    }
    LET(lower) = td_tril(L_part, -1);
    LET(upper) = td_triu(U_part, 0);
    LET(phi) = td_add(lower, upper);
    LET(LH) = td_adjoint_of(L);
    LET(UH) = td_adjoint_of(U);
    LET(first) = td_linalg_solve_triangular(LH, phi, true, true, true);
    LET(block) = td_linalg_solve_triangular(UH, first, false, false, false);
    LET(whole) = td_ref(block);
    if (m > n) {
        LET(below) = td_linalg_solve_triangular(UH, g_rest, false, false, false);
        td_tensor_release(whole);
        whole = block && below ? td_cat(2, (td_tensor *[]){block, below}, -2) : NULL;
    } else if (n > m) {
        LET(right) = td_linalg_solve_triangular(LH, g_rest, true, true, true);
        td_tensor_release(whole);
        whole = block && right ? td_cat(2, (td_tensor *[]){block, right}, -1) : NULL;
    }
    /* undo the exchanges: row i of P^T A is row order[i] of A */
    LET(P) = NULL;
    {
        td_tensor *parts[3];
        if (td_lu_unpack(parts, LU, pivots, false, true))
            return NULL;
        P = parts[0];
        td_tensor_release(parts[1]), td_tensor_release(parts[2]);
    }
    return mm(P, whole);
}

/* LU: Square: with N = L^-1 P^T t U^-1, dL = L tril(N, -1) and dU = triu(N) U. */
td_tensor *td_op_lu_factor_tangent(td_tensor *t, td_tensor *LU, td_tensor *pivots)
{
    td_tensor *parts[3];
    if (td_lu_unpack(parts, LU, pivots, true, true))
        return NULL;
    LET(P) = parts[0];
    LET(L) = parts[1];
    LET(U) = parts[2];
    int64_t m = LU->sizes[LU->ndim - 2], n = LU->sizes[LU->ndim - 1], k = m < n ? m : n;
    LET(permuted) = adjoint_mm(P, t);
    LET(block) = m > n ? td_narrow(permuted, -2, 0, k) : n > m ? td_narrow(permuted, -1, 0, k) : permuted ? td_ref(permuted) : NULL;
    LET(L1) = m > n ? td_narrow(L, -2, 0, k) : td_ref(L);
    LET(U1) = n > m ? td_narrow(U, -1, 0, k) : td_ref(U);
    LET(first) = td_linalg_solve_triangular(L1, block, false, true, true);
    LET(N) = td_linalg_solve_triangular(U1, first, true, false, false);
    LET(strict) = td_tril(N, -1);
    LET(upper) = td_triu(N, 0);
    LET(dL) = mm(L1, strict);
    LET(dU) = mm(upper, U1);
    LET(square) = td_add(dL, dU);
    if (m > n) {            /* rows below: L2 = A2 U^-1 */
        LET(rest) = td_narrow(L, -2, k, m - k);
        LET(t_rest) = td_narrow(permuted, -2, k, m - k);
        LET(product) = mm(rest, dU);
        LET(side) = td_sub(t_rest, product);
        LET(below) = td_linalg_solve_triangular(U1, side, true, false, false);
        return square && below ? td_cat(2, (td_tensor *[]){square, below}, -2) : NULL;
    }
    if (n > m) {            /* columns to the right: U2 = L^-1 A2 */
        LET(rest) = td_narrow(U, -1, k, n - k);
        LET(t_rest) = td_narrow(permuted, -1, k, n - k);
        LET(product) = mm(dL, rest);
        LET(side) = td_sub(t_rest, product);
        LET(right) = td_linalg_solve_triangular(L1, side, false, true, true);
        return square && right ? td_cat(2, (td_tensor *[]){square, right}, -1) : NULL;
    }
    return square ? td_ref(square) : NULL;
}

/* ---- QR.  M = R gR^H - gQ^H Q; gA = (gQ + Q copyltu(M)) R^-H for at least as many rows as columns.  A wide matrix is
 * [X Y] = Q [U V]: V's gradient goes to Q and Y, and X is square.
 * copyltu(M) has M's upper triangle, and below the diagonal its adjoint. */
static td_tensor *tall_qr(td_tensor *gQ, td_tensor *gR, td_tensor *Q, td_tensor *R)
{
    LET(first) = mm_adjoint(gR, R);
    LET(second) = adjoint_mm(Q, gQ);
    LET(M) = td_sub(first, second);
    LET(upper) = td_triu(M, 0);
    LET(strict) = td_triu(M, 1);
    LET(adjoint) = td_adjoint_of(strict);
    LET(symmetric) = td_add(upper, adjoint);
    if (td_is_complex(Q)) {          /* the diagonal's real part only */
        LET(diagonal) = td_diagonal(symmetric, 0, -2, -1);
        LET(imag) = td_imag(diagonal);
        LET(part) = td_times(imag, td_complex(0, 1));
        LET(matrix) = td_diag_embed(part, 0, -2, -1);
        LET(less) = td_sub(symmetric, matrix);
        td_tensor_release(symmetric);
        symmetric = td_ref(less);
    }
    LET(product) = mm(Q, symmetric);
    LET(sum) = td_add(gQ, product);
    LET(RH) = td_adjoint_of(R);
    return td_linalg_solve_triangular(RH, sum, false, false, false);
}
td_tensor *td_op_linalg_qr_backward(td_tensor *gQ, td_tensor *gR, td_tensor *Q, td_tensor *R, const char *mode)
{
    if (td_check_qr_derivative(mode, Q, R))
        return NULL;
    int64_t m = Q->sizes[Q->ndim - 2], n = R->sizes[R->ndim - 1];
    if (m >= n)
        return tall_qr(gQ, gR, Q, R);
    LET(U) = td_narrow(R, -1, 0, m);
    LET(V) = td_narrow(R, -1, m, n - m);
    LET(gU) = td_narrow(gR, -1, 0, m);
    LET(gV) = td_narrow(gR, -1, m, n - m);
    LET(Y) = mm(Q, V);
    LET(more) = mm_adjoint(Y, gV);
    LET(gQ_all) = td_add(gQ, more);
    LET(gX) = tall_qr(gQ_all, gU, Q, U);
    LET(gY) = mm(Q, gV);
    return gX && gY ? td_cat(2, (td_tensor *[]){gX, gY}, -1) : NULL;
}

/* QR: With M = Q^H t R^-1, Q^H dQ is skew with M's strict lower triangle, and dR = Q^H t - Q^H dQ R.
 * For a wide matrix Q and R's first m columns are the factors of its first m columns, and the rest of R is Q^H times
 * the rest. */
int td_op_qr_tangent(td_tensor **results, td_tensor *t, td_tensor *Q, td_tensor *R, const char *mode)
{
    if (td_check_qr_derivative(mode, Q, R))
        return -1;
    int64_t m = Q->sizes[Q->ndim - 2], n = R->sizes[R->ndim - 1];
    LET(square) = n > m ? td_narrow(R, -1, 0, m) : td_ref(R);
    LET(part) = n > m ? td_narrow(t, -1, 0, m) : td_ref(t);
    LET(QHt) = adjoint_mm(Q, t);
    LET(C) = td_linalg_solve_triangular(square, part, true, false, false);
    LET(M) = adjoint_mm(Q, C);
    LET(strict) = td_tril(M, -1);
    LET(adjoint) = td_adjoint_of(strict);
    LET(skew) = td_sub(strict, adjoint);
    if (td_is_complex(Q)) {         /* R's diagonal is real: the imaginary part of M's belongs to Q */
        LET(diagonal) = td_diagonal(M, 0, -2, -1);
        LET(imag) = td_imag(diagonal);
        LET(turn) = td_times(imag, td_complex(0, 1));
        LET(matrix) = td_diag_embed(turn, 0, -2, -1);
        LET(sum) = td_add(skew, matrix);
        td_tensor_release(skew);
        skew = sum ? td_ref(sum) : NULL;
    }
    LET(less) = td_sub(M, skew);
    LET(inside) = mm(Q, less);
    LET(dQ) = td_sub(C, inside);
    LET(turn) = mm(skew, R);
    LET(dR) = td_sub(QHt, turn);
    return give_all(2, results, (td_tensor *[]){dQ, dR});
}
