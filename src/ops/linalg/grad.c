/* Derivatives of factorisations and solutions, made of operators that record themselves.
 *
 * The formulas for X = A^-1 B, Cholesky, QR, SVD and eigenvectors are those of Giles, "An extended collection of matrix
 * derivative results" (2008), of Seeger et al., "Auto-Differentiating Linear Algebra" (2017), and of Townsend,
 * "Differentiating the Singular Value Decomposition" (2016), with adjoints for transposes.  ^H is the adjoint.
 *
 * Callers are the `grad:` lines of the entries. g stands for the gradient of the result, gX for that of X; everything
 * is for each matrix of a batch. skew(M) is M - M^H. */

#include "calls_ops_linalg_grad.h"
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/linalg/products.h"

static td_tensor *minus(td_tensor *x) { return td_neg(x); }
static td_tensor *over_columns(td_tensor *x, td_tensor *v)
{
    LET(row) = td_unsqueeze(v, -2);
    return td_div(x, row);
}
static td_tensor *half_of(td_tensor *x) { return td_times(x, td_float(0.5)); }
static td_tensor *skew(td_tensor *x)
{
    LET(adjoint) = td_adjoint_of(x);
    return td_sub(x, adjoint);
}
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
    return half_of(both);
}

/* ---- inverse and solutions */

/* d(A^-1) = -A^-1 dA A^-1, hence gA = -A^-H g A^-H. */
td_tensor *td_op_linalg_inv_backward(td_tensor *grad, td_tensor *inverse)
{
    LET(adjoint) = td_adjoint_of(inverse);
    LET(left) = mm(adjoint, grad);
    LET(both) = mm(left, adjoint);
    return minus(both);
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
    LET(negative) = product ? minus(product) : NULL;
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
    LET(negative) = product ? minus(product) : NULL;
    LET(triangle) = !negative ? NULL : upper ? td_triu(negative, unitriangular) : td_tril(negative, -(int64_t)unitriangular);
    LET(gA) = triangle ? td_sum_to_size(triangle, A->ndim, A->sizes) : NULL;
    LET(fitted) = td_sum_to_size(gB, n, B_shape);
    return give_pair(results, wants[0], gA, wants[1], fitted);
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
    LET(negative) = minus(product);
    LET(gA) = adjoint ? td_adjoint_of(negative) : td_ref(negative);
    LET(Pg) = adjoint_mm(P, gA);
    LET(gL_full) = mm_adjoint(Pg, U);
    LET(gU_full) = adjoint_mm(L, Pg);
    LET(gL) = td_tril(gL_full, -1);
    LET(gU) = td_triu(gU_full, 0);
    LET(sum) = td_add(gL, gU);
    return td_sum_to_size(sum, LU->ndim, LU->sizes);
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

/* ---- singular values */

/* b_j - a_i for row i and column j, which the formulas divide by, with 1 instead of 0 on the diagonal. */
static td_tensor *gaps(td_tensor *a, td_tensor *b)
{
    LET(row) = td_unsqueeze(b, -2);
    LET(column) = td_unsqueeze(a, -1);
    LET(difference) = td_sub(row, column);
    LET(unit) = td_eye(a->sizes[a->ndim - 1], TD_BOOL, a->device);
    LET(one) = td_wrapped_number(td_int(1));
    return td_where(unit, one, difference);
}

/* Whether the loss doesn't depend on this result: the gradient is all zeros, and no second derivative goes through it. */
static bool is_unused(td_tensor *grad)
{
    if (!grad || td_requires_grad(grad) || grad->device.type == TD_META || td_hides_values(grad))
        return false;
    LET(any) = td_any_all(grad);
    td_scalar yes;
    return any && !td_tensor_item(any, &yes) && !td_scalar_bool(yes);
}

/* Complex vectors are known up to a factor of size 1, so a loss must not depend on it: along it the gradient, the difference of these
 * two, is 0. What can't be read isn't checked, as in PyTorch. */
static int check_phase(const char *message, td_tensor *along, td_tensor *other)
{
    if (!along || !other || td_hides_values(along) || td_hides_values(other))
        return along && other ? 0 : -1;
    LET(a) = td_detach(along);
    LET(b) = td_detach(other);
    bool close;
    if (!a || !b || td_allclose(&close, a, b, 1e-2, 1e-2, false))
        return -1;
    return close ? 0 : td_error(TD_E_RUNTIME, "%s", message);
}
/* Of eigenvectors: the diagonal of V^H gV is real. */
#define EIGENVECTOR_PHASE(op) op "_backward: The eigenvectors in the complex case are specified up to multiplication by e^{i phi}. " \
                                 "The specified loss function depends on this quantity, so it is ill-defined."
static int check_eigenvector_phase(const char *message, td_tensor *VgV)
{
    LET(diagonal) = td_diagonal(VgV, 0, -2, -1);
    LET(imag) = td_imag(diagonal);
    LET(zero) = td_zeros_like(imag);
    return check_phase(message, imag, zero);
}

static bool same_sizes(const td_tensor *a, const td_tensor *b)
{
    return a->ndim == b->ndim && !memcmp(a->sizes, b->sizes, sizeof *a->sizes * (size_t)a->ndim);
}
/* gA = U [(skew(U^H gU) S + S skew(V^H gV)) / E + gS] V^H with E_ij = s_j^2 - s_i^2, plus what lies outside of the
 * first k vectors' space: (1 - U U^H) gU S^-1 V^H and U S^-1 gV^H (1 - V V^H).
 *
 * Equal singular values make E zero outside of the diagonal: the vectors are no function of the matrix there, and the
 * gradient is infinite or NaN, as in PyTorch. Small ones divide by S. A loss of the values alone has neither problem,
 * which is why it is dealt with first. */
td_tensor *td_op_svd_backward(td_tensor *gU_in, td_tensor *gS, td_tensor *gVh_in, td_tensor *U_in, td_tensor *S, td_tensor *Vh_in)
{
    if (U_in->ndim < 2 || Vh_in->ndim < 2)
        return td_fail(TD_E_RUNTIME, "svd_backward: the derivative needs the singular vectors, which were not computed");
    int64_t batch = S->ndim - 1;
    bool fits = batch >= 0 && U_in->ndim == batch + 2 && Vh_in->ndim == batch + 2 && same_sizes(gU_in, U_in) && same_sizes(gVh_in, Vh_in) &&
                same_sizes(gS, S) && !memcmp(U_in->sizes, S->sizes, sizeof *S->sizes * (size_t)batch) &&
                !memcmp(Vh_in->sizes, S->sizes, sizeof *S->sizes * (size_t)batch) && U_in->sizes[batch + 1] >= S->sizes[batch] &&
                Vh_in->sizes[batch] >= S->sizes[batch];
    if (!fits)
        return td_fail(TD_E_RUNTIME, "svd_backward: matrices and their singular values don't fit together");
    int64_t m = U_in->sizes[U_in->ndim - 2], n = Vh_in->sizes[Vh_in->ndim - 1], k = S->sizes[S->ndim - 1];
    /* Of square U or V only the first k vectors have a derivative. */
    LET(U) = td_narrow(U_in, -1, 0, k);
    LET(gU) = td_narrow(gU_in, -1, 0, k);
    LET(Vh) = td_narrow(Vh_in, -2, 0, k);
    LET(gVh) = td_narrow(gVh_in, -2, 0, k);
    if (is_unused(gU_in) && is_unused(gVh_in))      /* values alone: nothing is divided by gaps between them */
        return td_times_vectors(gS, U, Vh);
    LET(square) = td_mul(S, S);
    LET(E) = gaps(square, square);
    LET(UgU_all) = adjoint_mm(U, gU);
    LET(VgV_all) = mm_adjoint(Vh, gVh);
    LET(UgU) = skew(UgU_all);
    LET(VgV) = skew(VgV_all);
    /* (skew(U^H gU) S + S skew(V^H gV)) / E + diag(gS) */
    LET(a) = times_columns(UgU, S);
    LET(b) = times_rows(S, VgV);
    LET(sum) = td_add(a, b);
    LET(inner) = td_div(sum, E);
    if (td_is_complex(U)) {        /* the phases' part of the diagonal */
        LET(diagonal) = td_diagonal(UgU, 0, -2, -1);
        LET(other) = td_diagonal(VgV, 0, -2, -1);
        LET(phase) = td_imag(diagonal);
        LET(other_phase) = td_imag(other);
        LET(opposite) = minus(other_phase);
        if (check_phase("svd_backward: The singular vectors in the complex case are specified up to multiplication by e^{i phi}. The specified "
                        "loss function depends on this phase term, making it ill-defined.", phase, opposite))
            return NULL;
        LET(twice) = td_times(S, td_int(2));
        LET(part) = td_div(diagonal, twice);
        LET(matrix) = td_diag_embed(part, 0, -2, -1);
        LET(zero) = td_wrapped_number(td_int(0));
        LET(unit) = td_eye(k, TD_BOOL, S->device);
        LET(clean) = td_where(unit, zero, inner);
        LET(with) = td_add(clean, matrix);
        td_tensor_release(inner);
        inner = td_ref(with);
    }
    LET(gS_matrix) = td_diag_embed(gS, 0, -2, -1);
    LET(core) = td_add(inner, gS_matrix);
    LET(left) = mm(U, core);
    LET(gA) = mm(left, Vh);
    if (m > k) {          /* what of gU lies outside of U's columns */
        LET(projected) = mm(U, UgU_all);
        LET(outside) = td_sub(gU, projected);
        LET(scaled) = over_columns(outside, S);
        LET(part) = mm(scaled, Vh);
        LET(more) = td_add(gA, part);
        td_tensor_release(gA);
        gA = td_ref(more);
    }
    if (n > k) {
        LET(adjoint) = td_adjoint_of(VgV_all);
        LET(projected) = mm(adjoint, Vh);
        LET(outside) = td_sub(gVh, projected);
        LET(scaled) = over_columns(U, S);
        LET(part) = mm(scaled, outside);
        LET(more) = td_add(gA, part);
        td_tensor_release(gA);
        gA = td_ref(more);
    }
    return td_ref(gA);
}

/* ---- eigenvalues */

/* gA = V (diag(gL) + (V^H gV) / E) V^H with E_ij = l_j - l_i; equal eigenvalues with a gradient of their vectors have
 * none, as in svd_backward. */
td_tensor *td_op_eigh_backward(td_tensor *gL, td_tensor *gV, td_tensor *L, td_tensor *V)
{
    if (V->ndim < 2)
        return td_fail(TD_E_RUNTIME, "eigh_backward: the derivative needs the eigenvectors, which were not computed");
    if (is_unused(gV)) {
        LET(adjoint) = td_adjoint_of(V);
        return td_times_vectors(gL, V, adjoint);
    }
    LET(E) = gaps(L, L);
    LET(product) = adjoint_mm(V, gV);
    if (td_is_complex(V) && check_eigenvector_phase(EIGENVECTOR_PHASE("linalg_eigh"), product))
        return NULL;
    LET(twice) = skew(product);         /* so that the gradient is symmetric, as the matrix is */
    LET(VgV) = half_of(twice);
    LET(scaled) = td_div(VgV, E);
    LET(unit) = td_eye(L->sizes[L->ndim - 1], TD_BOOL, L->device);
    LET(wide) = td_unsqueeze(gL, -1);
    LET(core) = td_where(unit, wide, scaled);
    LET(left) = mm(V, core);
    return mm_adjoint(left, V);
}

/* gA = V^-H (diag(gL) + (V^H gV - V^H V diag(Re(V^H gV))) / conj(E)) V^H. The second term of the numerator is there
 * because columns of V have length 1: a gradient along a column changes nothing. A real matrix has eigenvalues in
 * conjugate pairs; it gets the real part. */
td_tensor *td_op_eig_backward(td_tensor *gL, td_tensor *gV, td_tensor *L, td_tensor *V, td_dtype dtype)
{
    if (V->ndim < 2)
        return td_fail(TD_E_RUNTIME, "eig_backward: the derivative needs the eigenvectors, which were not computed");
    LET(VgV) = adjoint_mm(V, gV);
    if (!is_unused(gV) && check_eigenvector_phase(EIGENVECTOR_PHASE("linalg_eig"), VgV))
        return NULL;
    LET(VV) = adjoint_mm(V, V);
    LET(diagonal) = td_diagonal(VgV, 0, -2, -1);
    LET(real) = td_real(diagonal);
    LET(product) = times_columns(VV, real);
    LET(difference) = td_sub(VgV, product);
    LET(conjugate) = td_conj(L);
    LET(E) = gaps(conjugate, conjugate);
    LET(scaled) = td_div(difference, E);
    LET(unit) = td_eye(L->sizes[L->ndim - 1], TD_BOOL, L->device);
    LET(wide) = td_unsqueeze(gL, -1);
    LET(core) = td_where(unit, wide, scaled);
    LET(VH) = td_adjoint_of(V);
    LET(right) = mm(core, VH);
    LET(gA) = td_linalg_solve(VH, right, true);
    return td_dtype_is_complex(dtype) ? td_ref(gA) : td_real(gA);
}

/* ---- pseudo-inverse (Golub and Pereyra, 1973) and least squares by it */

/* Both branches are the same formula, with products grouped so that K, and what is made of it, is the smaller square:
 * m by m for a wide matrix, n by n for a tall one. */
td_tensor *td_op_pinv_backward(td_tensor *grad, td_tensor *pinv, td_tensor *A)
{
    if (td_check_matrix("pinv_backward", A, "A"))
        return NULL;
    int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1];
    LET(gH) = td_adjoint_of(grad);
    LET(pinvH) = td_adjoint_of(pinv);
    if (m <= n) {
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
    LET(K) = mm(pinv, gH);
    LET(pHK) = mm(pinvH, K);
    LET(Kp) = mm(K, pinv);
    LET(KpH) = td_adjoint_of(Kp);
    LET(AK) = mm(A, K);
    LET(rest) = td_sub(gH, AK);
    LET(ppH) = mm(pinv, pinvH);
    LET(second) = mm(rest, ppH);
    LET(pHKp) = mm(pHK, pinv);
    LET(last) = mm(pHKp, A);
    LET(a) = td_sub(second, KpH);
    LET(b) = td_add(a, pHK);
    return td_sub(b, last);
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
