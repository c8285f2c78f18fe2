/* Tangents of factorizations and solutions: what the `jvp:` of their entries calls.
 *
 * Each follows from the product rule in the factorization's own equation; the sources are those of grad.c.  With t the
 * tangent of A: A = LL^H gives L^-1 t L^-H = L^-1 dL + its adjoint, A V = V diag(w) gives V^-1 t V = diag(dw) + (a matrix times
 * gaps between eigenvalues), and so on.
 *
 * A tangent t has the shape of its operand and may be absent (TD_NONE), which stands for zeros. Where a result has a
 * choice (phases of vectors, vectors of a null space) the tangent keeps the same choice as the backward formula. */
#include "calls_ops_linalg_tangent.h"
#include "dispatch/outputs.h"
#include "ops/linalg/products.h"

static td_tensor *minus(td_tensor *a, td_tensor *b) { return td_sub_tensor(a, b, td_int(1)); }
static td_tensor *plus(td_tensor *a, td_tensor *b) { return td_add_tensor(a, b, td_int(1)); }
/* References to all n values, or to none if one of them is NULL. */
static int give(int n, td_tensor **results, td_tensor *const *values)
{
    for (int i = 0; i < n; i++)
        if (!values[i])
            return -1;
    for (int i = 0; i < n; i++)
        results[i] = td_ref(values[i]);
    return 0;
}
/* x / (a_j - a_i) outside of the diagonal, 0 on it. */
static td_tensor *over_gaps(td_tensor *x, td_tensor *a)
{
    LET(row) = td_unsqueeze(a, -2);
    LET(column) = td_unsqueeze(a, -1);
    LET(difference) = minus(row, column);
    LET(ratio) = td_div_tensor(x, difference);
    LET(unit) = a ? td_eye(a->sizes[a->ndim - 1], TD_BOOL, a->device) : NULL;
    return td_masked_fill_scalar(ratio, unit, td_int(0));
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
    LET(twice) = plus(triangle, strict);
    LET(phi) = td_times(twice, td_float(0.5));
    LET(tangent) = mm(lower, phi);
    return upper ? td_adjoint_of(tangent) : tangent ? td_ref(tangent) : NULL;
}

/* ---- solutions */

/* t_B - t_A X (or t_B - X t_A): what A is solved with. */
static td_tensor *right_side(td_tensor *t_A, td_tensor *t_B, td_tensor *X, bool left)
{
    if (t_A == TD_NONE)
        return t_B ? td_ref(t_B) : NULL;
    LET(product) = left ? mm(t_A, X) : mm(X, t_A);
    return t_B == TD_NONE ? td_neg(product) : minus(t_B, product);
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
        if (!(t_A = plus(half, other)))
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
    if (!td_is_complex(A))
        return give(2, results, (td_tensor *[]){TD_NONE, trace});
    LET(real) = td_real(trace);
    LET(imag) = td_imag(trace);
    LET(rotation) = td_times(imag, td_complex(0, 1));
    LET(rotated) = td_mul_tensor(sign, rotation);
    return give(2, results, (td_tensor *[]){rotated, real});
}

/* ---- LU.  Square: with N = L^-1 P^T t U^-1, dL = L tril(N, -1) and dU = triu(N) U. */
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
    LET(square) = plus(dL, dU);
    if (m > n) {            /* rows below: L2 = A2 U^-1 */
        LET(rest) = td_narrow(L, -2, k, m - k);
        LET(t_rest) = td_narrow(permuted, -2, k, m - k);
        LET(product) = mm(rest, dU);
        LET(side) = minus(t_rest, product);
        LET(below) = td_linalg_solve_triangular(U1, side, true, false, false);
        return square && below ? td_cat(2, (td_tensor *[]){square, below}, -2) : NULL;
    }
    if (n > m) {            /* columns to the right: U2 = L^-1 A2 */
        LET(rest) = td_narrow(U, -1, k, n - k);
        LET(t_rest) = td_narrow(permuted, -1, k, n - k);
        LET(product) = mm(dL, rest);
        LET(side) = minus(t_rest, product);
        LET(right) = td_linalg_solve_triangular(L1, side, false, true, true);
        return square && right ? td_cat(2, (td_tensor *[]){square, right}, -1) : NULL;
    }
    return square ? td_ref(square) : NULL;
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
        LET(sum) = plus(a, b);
        LET(whole) = mm(P, sum);
        td_tensor_release(t_A);
        if (!(t_A = adjoint ? td_adjoint_of(whole) : whole ? td_ref(whole) : NULL))
            return NULL;
    }
    LET(side) = right_side(t_A, t_B, X, left);
    return td_linalg_lu_solve(LU, pivots, side, left, adjoint);
}

/* ---- QR.  With M = Q^H t R^-1, Q^H dQ is skew with M's strict lower triangle, and dR = Q^H t - Q^H dQ R.
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
    LET(skew) = minus(strict, adjoint);
    if (td_is_complex(Q)) {         /* R's diagonal is real: the imaginary part of M's belongs to Q */
        LET(diagonal) = td_diagonal(M, 0, -2, -1);
        LET(imag) = td_imag(diagonal);
        LET(turn) = td_times(imag, td_complex(0, 1));
        LET(matrix) = td_diag_embed(turn, 0, -2, -1);
        LET(sum) = plus(skew, matrix);
        td_tensor_release(skew);
        skew = sum ? td_ref(sum) : NULL;
    }
    LET(less) = minus(M, skew);
    LET(inside) = mm(Q, less);
    LET(dQ) = minus(C, inside);
    LET(turn) = mm(skew, R);
    LET(dR) = minus(QHt, turn);
    return give(2, results, (td_tensor *[]){dQ, dR});
}

/* ---- SVD.  With P = U^H t V: dS = diag(P); U^H dU = (P S + S P^H) / gaps of the squares, V^H dV = (S P + P^H S) / gaps;
 * then what lies outside of U's and V's columns. */
/* Of square U or V only the first vectors have a derivative; the others' is taken as 0, as their gradients are. */
static td_tensor *padded(td_tensor *x, td_tensor *whole)
{
    int64_t more = x ? whole->sizes[whole->ndim - 1] - x->sizes[x->ndim - 1] : 0;
    return more <= 0 || whole->sizes[whole->ndim - 1] != whole->sizes[whole->ndim - 2]
        ? (x ? td_ref(x) : NULL) : td_constant_pad_nd(x, 2, (int64_t[]){0, more}, td_int(0));
}

/* U^H dU and V^H dV are skew; of the complex diagonal only the sum of both is determined (their phases may move
 * together), and each takes half. */
int td_op_svd_tangent(td_tensor **results, td_tensor *t, td_tensor *U_in, td_tensor *S, td_tensor *Vh_in)
{
    if (U_in->ndim < 2 || Vh_in->ndim < 2 || S->ndim < 1)
        return td_error(TD_E_RUNTIME, "svd: the derivative needs the singular vectors, which were not computed");
    int64_t m = U_in->sizes[U_in->ndim - 2], n = Vh_in->sizes[Vh_in->ndim - 1], k = S->sizes[S->ndim - 1];
    LET(U) = td_narrow(U_in, -1, 0, k);
    LET(Vh) = td_narrow(Vh_in, -2, 0, k);
    LET(V) = td_adjoint_of(Vh);
    LET(tV) = mm(t, V);
    LET(P) = adjoint_mm(U, tV);
    LET(diagonal) = td_diagonal(P, 0, -2, -1);
    LET(dS) = td_real(diagonal);
    LET(PS) = times_columns(P, S);
    LET(SP) = times_rows(S, P);
    LET(PSH) = td_adjoint_of(PS);
    LET(SPH) = td_adjoint_of(SP);
    LET(left) = plus(PS, PSH);
    LET(right) = plus(SP, SPH);
    LET(squares) = td_mul_tensor(S, S);
    LET(u) = over_gaps(left, squares);
    LET(v) = over_gaps(right, squares);
    if (P && td_is_complex(P)) {    /* the phase, shared evenly by both */
        LET(imag) = td_imag(diagonal);
        LET(turn) = td_times(imag, td_complex(0, 0.5));
        LET(part) = td_div_tensor(turn, S);
        LET(matrix) = td_diag_embed(part, 0, -2, -1);
        LET(with) = plus(u, matrix);
        LET(without) = minus(v, matrix);
        td_tensor_release(u), td_tensor_release(v);
        u = with ? td_ref(with) : NULL, v = without ? td_ref(without) : NULL;
    }
    LET(dU) = mm(U, u);
    LET(dV) = mm(V, v);
    if (m > k) {
        LET(inside) = mm(U, P);
        LET(outside) = minus(tV, inside);
        LET(row) = td_unsqueeze(S, -2);
        LET(scaled) = td_div_tensor(outside, row);
        LET(sum) = plus(dU, scaled);
        td_tensor_release(dU);
        dU = sum ? td_ref(sum) : NULL;
    }
    if (n > k) {
        LET(tU) = adjoint_mm(t, U);
        LET(PH) = td_adjoint_of(P);
        LET(inside) = mm(V, PH);
        LET(outside) = minus(tU, inside);
        LET(row) = td_unsqueeze(S, -2);
        LET(scaled) = td_div_tensor(outside, row);
        LET(sum) = plus(dV, scaled);
        td_tensor_release(dV);
        dV = sum ? td_ref(sum) : NULL;
    }
    LET(dU_all) = padded(dU, U_in);
    LET(dV_all) = padded(dV, Vh_in);
    LET(dVh) = td_adjoint_of(dV_all);
    return give(3, results, (td_tensor *[]){dU_all, dS, dVh});
}

/* ---- eigenvalues */

/* From V^H dA V = diag(dl) + (V^H dV) (l_j - l_i): the diagonal of V^H t V, and the rest over the gaps. V^H dV is
 * skew, and its diagonal is taken as 0: no phase moves. */
int td_op_eigh_tangent(td_tensor **results, td_tensor *t, td_tensor *L, td_tensor *V)
{
    if (V->ndim < 2)
        return td_error(TD_E_RUNTIME, "eigh: the derivative needs the eigenvectors, which were not computed");
    LET(tV) = mm(t, V);
    LET(P) = adjoint_mm(V, tV);
    LET(diagonal) = td_diagonal(P, 0, -2, -1);
    LET(dL) = td_is_complex(V) ? td_real(diagonal) : td_ref(diagonal);
    LET(turn) = over_gaps(P, L);
    LET(dV) = mm(V, turn);
    return give(2, results, (td_tensor *[]){dL, dV});
}

/* Columns keep their length: what dV has along V goes away.
 * The same with V^-1 in the place of V^H, as V isn't unitary. */
int td_op_eig_tangent(td_tensor **results, td_tensor *t, td_tensor *L, td_tensor *V)
{
    if (V->ndim < 2)
        return td_error(TD_E_RUNTIME, "eig: the derivative needs the eigenvectors, which were not computed");
    LET(wide) = td_is_complex(t) ? td_ref(t) : td_to_dtype(t, (td_dtype)V->dtype, false, false, TD_MEMORY_FORMAT_NONE);
    LET(tV) = mm(wide, V);
    td_tensor *pair[2];
    if (!tV || td_linalg_solve_ex(pair, V, tV, true, false))
        return -1;
    LET(P) = pair[0];
    td_tensor_release(pair[1]);
    LET(dL) = td_diagonal(P, 0, -2, -1);
    LET(turn) = over_gaps(P, L);
    LET(free) = mm(V, turn);
    LET(conjugate) = td_conj(V);
    LET(products) = td_mul_tensor(conjugate, free);
    LET(along) = td_sum_dim_intlist(products, 1, (int64_t[]){-2}, true, TD_DTYPE_NONE);
    LET(real) = td_real(along);
    LET(part) = td_mul_tensor(V, real);
    LET(dV) = minus(free, part);
    return give(2, results, (td_tensor *[]){dL, dV});
}

/* ---- pseudo-inverse (Golub and Pereyra, 1973): -p t p + p p^H t^H (1 - A p) + (1 - p A) t^H p^H p */
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
    LET(columns) = minus(a, aAp);
    LET(rows) = minus(b, pAb);
    LET(both) = plus(columns, rows);
    return minus(both, ptp);
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
