/* Singular values, eigenvalues and their vectors: gradients and tangents, made of operators that record themselves: what the `grad:` and `jvp:` of entries call.
 *
 * The formulas are those of Seeger et al., "Auto-Differentiating Linear Algebra" (2017), and of Townsend, "Differentiating the Singular
 * Value Decomposition" (2016), with adjoints for transposes.  A tangent follows from the product rule: A V = V diag(w) gives
 * V^-1 t V = diag(dw) + (a matrix times gaps between eigenvalues).  Where a result has a choice (phases of vectors, vectors of a null
 * space) the tangent keeps the same choice as the gradient.  skew(M) is M - M^H.
 *
 * g stands for the gradient of the result, gX for that of X, t for the tangent of A, t_X for that of X, which may be absent (TD_NONE)
 * and then stands for zeros. ^H is the adjoint; everything is for each matrix of a batch. */
#include "calls_ops_linalg_grad_spectrum.h"
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "ops/linalg/products.h"

static td_tensor *over_columns(td_tensor *x, td_tensor *v)
{
    LET(row) = td_unsqueeze(v, -2);
    return td_div(x, row);
}
static td_tensor *skew(td_tensor *x)
{
    LET(adjoint) = td_adjoint_of(x);
    return td_sub(x, adjoint);
}

/* x / (a_j - a_i) outside of the diagonal, 0 on it. */
static td_tensor *over_gaps(td_tensor *x, td_tensor *a)
{
    LET(row) = td_unsqueeze(a, -2);
    LET(column) = td_unsqueeze(a, -1);
    LET(difference) = td_sub(row, column);
    LET(ratio) = td_div_tensor(x, difference);
    LET(unit) = a ? td_eye(a->sizes[a->ndim - 1], TD_BOOL, a->device) : NULL;
    return td_masked_fill_scalar(ratio, unit, td_int(0));
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
        LET(opposite) = td_neg(other_phase);
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

/* SVD: With P = U^H t V: dS = diag(P); U^H dU = (P S + S P^H) / gaps of the squares, V^H dV = (S P + P^H S) / gaps;
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
    LET(left) = td_add(PS, PSH);
    LET(right) = td_add(SP, SPH);
    LET(squares) = td_mul_tensor(S, S);
    LET(u) = over_gaps(left, squares);
    LET(v) = over_gaps(right, squares);
    if (P && td_is_complex(P)) {    /* the phase, shared evenly by both */
        LET(imag) = td_imag(diagonal);
        LET(turn) = td_times(imag, td_complex(0, 0.5));
        LET(part) = td_div_tensor(turn, S);
        LET(matrix) = td_diag_embed(part, 0, -2, -1);
        LET(with) = td_add(u, matrix);
        LET(without) = td_sub(v, matrix);
        td_tensor_release(u), td_tensor_release(v);
        u = with ? td_ref(with) : NULL, v = without ? td_ref(without) : NULL;
    }
    LET(dU) = mm(U, u);
    LET(dV) = mm(V, v);
    if (m > k) {
        LET(inside) = mm(U, P);
        LET(outside) = td_sub(tV, inside);
        LET(row) = td_unsqueeze(S, -2);
        LET(scaled) = td_div_tensor(outside, row);
        LET(sum) = td_add(dU, scaled);
        td_tensor_release(dU);
        dU = sum ? td_ref(sum) : NULL;
    }
    if (n > k) {
        LET(tU) = adjoint_mm(t, U);
        LET(PH) = td_adjoint_of(P);
        LET(inside) = mm(V, PH);
        LET(outside) = td_sub(tU, inside);
        LET(row) = td_unsqueeze(S, -2);
        LET(scaled) = td_div_tensor(outside, row);
        LET(sum) = td_add(dV, scaled);
        td_tensor_release(dV);
        dV = sum ? td_ref(sum) : NULL;
    }
    LET(dU_all) = padded(dU, U_in);
    LET(dV_all) = padded(dV, Vh_in);
    LET(dVh) = td_adjoint_of(dV_all);
    return give_all(3, results, (td_tensor *[]){dU_all, dS, dVh});
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
    LET(VgV) = td_times(twice, td_float(0.5));
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
    return give_all(2, results, (td_tensor *[]){dL, dV});
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
    LET(dV) = td_sub(free, part);
    return give_all(2, results, (td_tensor *[]){dL, dV});
}
