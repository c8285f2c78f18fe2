/* Factorizations of matrices on devices, and solutions: by the vendor's library (td_factor_call in <tede/device.h>); where there is none, and of
 * complex numbers, by our own kernels (factor.ck), but for eigenvalues and singular values of large matrices, which the CPU computes.
 *
 * Both have matrices in columns.  What they overwrite is a copy in that order, from which results are copied to where they lie. */
#include "calls_kernels_device_linalg.h"
#include <string.h>
#include "kernels/device/factor.h"
#include "ops/linalg/linalg.h"

static int left_to_cpu(void) { return td_leave_to_cpu("a factorization that no library takes"); }
static bool takes(const td_tensor *x) { return td_factors(x) && td_device_computes(x->device, td_dtype_to_real((td_dtype)x->dtype)); }
/* What libraries have. */
static bool library_takes(const td_tensor *x) { return td_device_of(x->device.type)->factor && (x->dtype == TD_F32 || x->dtype == TD_F64) && x->numel; }

static td_dtype real_of(const td_tensor *x) { return td_dtype_is_complex((td_dtype)x->dtype) ? td_dtype_to_real((td_dtype)x->dtype) : (td_dtype)x->dtype; }

/* A copy with the matrices in columns, which is one of their transposes in rows. */
static td_tensor *rows(td_tensor *x)
{
    TD_AUTO td_tensor *resolved = td_resolve_conj(x);
    return resolved ? td_clone_format(resolved, TD_CONTIGUOUS_FORMAT) : NULL;
}
static td_tensor *columns(td_tensor *x)
{
    TD_AUTO td_tensor *transposed = td_transpose_int(x, -2, -1);
    return transposed ? rows(transposed) : NULL;
}
static int from_columns(td_tensor *out, td_tensor *x)
{
    TD_AUTO td_tensor *transposed = td_transpose_int(x, -2, -1);
    return transposed ? td_copy_elements(out, transposed) : -1;
}

/* Of matrices like x's in columns. */
static td_factor_call call_of(td_factor_kind kind, const td_tensor *x, td_tensor *info)
{
    td_factor_call c = {.size = sizeof c, .dtype = (td_dtype)x->dtype, .kind = kind, .batch = 1, .m = x->sizes[x->ndim - 2], .n = x->sizes[x->ndim - 1],
                        .info = (int32_t *)info->data};
    for (int d = 0; d < x->ndim - 2; d++)
        c.batch *= x->sizes[d];
    return c;
}
static int run(const td_tensor *x, const td_factor_call *c, const td_factor_tensors *of)
{
    const bool empty = c->kind == TD_FACTOR_SOLVE && !c->k;        /* libraries get nothing that is empty */
    const int status = library_takes(x) && !empty ? td_device_factor(x->device, c) : 1;
    return status > 0 ? td_factor_by_kernels(c, of) : status;
}
/* An int for each matrix of x. */
static td_tensor *infos_of(const td_tensor *x) { return td_tensor_new(x->ndim - 2, x->sizes, TD_I32, x->device); }

/* The first that isn't 0 of those on the device, which are waited for. */
static int first_failure(td_tensor *info, int *code)
{
    TD_AUTO td_tensor *here = td_host_copy(info);
    *code = 0;
    for (int64_t i = 0; here && i < here->numel && !*code; i++)
        *code = ((const int *)here->data)[i];
    return here ? 0 : -1;
}

int td_on_device_linalg_cholesky_ex(td_tensor *self, bool upper, bool check_errors, td_tensor *out0, td_tensor *out1)
{
    if (!takes(self))
        return left_to_cpu();
    if (!self->numel)
        return td_zero_(out1);
    TD_AUTO td_tensor *a = columns(self), *info = td_target(out1, TD_I32);
    if (!a || !info)
        return -1;
    td_factor_call c = call_of(TD_FACTOR_CHOLESKY, self, info);
    c.a = a->data, c.upper = upper;
    if (run(self, &c, &(td_factor_tensors){.a = a, .info = info}) || td_finish(out1, info))
        return -1;
    TD_AUTO td_tensor *whole = td_transpose_int(a, -2, -1);
    TD_AUTO td_tensor *factor = !whole ? NULL : upper ? td_triu(whole, 0) : td_tril(whole, 0);
    return !factor || td_copy_elements(out0, factor) || (check_errors && td_check_info(TD_FACTORS_CHOLESKY, "linalg.cholesky_ex", out1)) ? -1 : 0;
}

int td_on_device_linalg_lu_factor_ex(td_tensor *A, bool pivot, bool check_errors, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    if (!takes(A) || !pivot)
        return left_to_cpu();
    if (!A->numel)
        return td_zero_(out2);
    TD_AUTO td_tensor *a = columns(A), *pivots = td_target(out1, TD_I32), *info = td_target(out2, TD_I32);
    if (!a || !pivots || !info)
        return -1;
    td_factor_call c = call_of(TD_FACTOR_LU, A, info);
    c.a = a->data, c.pivots = (int32_t *)pivots->data;
    return run(A, &c, &(td_factor_tensors){.a = a, .pivots = pivots, .info = info}) || from_columns(out0, a) || td_finish(out1, pivots) || td_finish(out2, info) ||
           (check_errors && td_check_info(TD_FACTORS_LU, "torch.linalg.lu_factor_ex", out2)) ? -1 : 0;
}

/* With the batch of `like`. */
static td_tensor *batched_as(td_tensor *x, const td_tensor *like)
{
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, like->sizes, sizeof *sizes * (size_t)(like->ndim - 2));
    sizes[like->ndim - 2] = x->sizes[x->ndim - 2], sizes[like->ndim - 1] = x->sizes[x->ndim - 1];
    return td_expand(x, like->ndim, sizes);
}

/* X A = B is A' X' = B': of both the rows are the transposes' columns. */
static int solve(td_tensor *A, td_tensor *B, bool left, td_tensor *out0, td_tensor *out1)
{
    const bool vector = td_solve_takes_vector(A, B);
    if (!takes(A) || !takes(B))
        return left_to_cpu();
    if (!A->numel)
        return td_zero_(out1);
    TD_AUTO td_tensor *matrix = vector ? td_unsqueeze(B, -1) : td_tensor_retain(B), *result = vector ? td_unsqueeze(out0, -1) : td_tensor_retain(out0);
    TD_AUTO td_tensor *wide = result ? batched_as(A, result) : NULL, *right = matrix && result ? batched_as(matrix, result) : NULL;
    TD_AUTO td_tensor *a = !wide ? NULL : left ? columns(wide) : rows(wide), *x = !right ? NULL : left ? columns(right) : rows(right);
    const bool repeats = td_solve_repeats(A, out0, vector);
    TD_AUTO td_tensor *info = repeats ? infos_of(wide) : td_target(out1, TD_I32);
    if (!a || !x || !info)
        return -1;
    td_factor_call c = call_of(TD_FACTOR_SOLVE, wide, info);
    c.a = a->data, c.b = x->data, c.k = x->sizes[x->ndim - 2];
    return (wide->numel && run(A, &c, &(td_factor_tensors){.a = a, .b = x, .info = info})) || (repeats ? td_solve_info(A, out1) : td_finish(out1, info)) ||
           (left ? from_columns(result, x) : td_copy_elements(result, x)) ? -1 : 0;
}

int td_on_device_linalg_solve_ex(td_tensor *A, td_tensor *B, bool left, bool check_errors, td_tensor *out0, td_tensor *out1)
{
    return solve(A, B, left, out0, out1) || (check_errors && td_check_info(TD_FACTORS_LU_SOLVE, "torch.linalg.solve_ex", out1)) ? -1 : 0;
}

int td_on_device_linalg_inv_ex(td_tensor *A, bool check_errors, td_tensor *out0, td_tensor *out1)
{
    if (!takes(A))
        return left_to_cpu();
    TD_AUTO td_tensor *unit = td_eye(A->sizes[A->ndim - 1], (td_dtype)A->dtype, A->device);
    TD_AUTO td_tensor *b = unit ? td_expand(unit, A->ndim, A->sizes) : NULL;
    return !b || solve(A, b, true, out0, out1) || (check_errors && td_check_info(TD_FACTORS_LU_INVERSE, "linalg.inv_ex", out1)) ? -1 : 0;
}

/* X A = B is A' X' = B', whose columns are rows. */
int td_on_device_linalg_solve_triangular(td_tensor *self, td_tensor *B, bool upper, bool left, bool unitriangular, td_tensor *out0)
{
    if (!takes(self) || !takes(B))
        return left_to_cpu();
    if (!out0->numel)
        return 0;
    TD_AUTO td_tensor *wide = batched_as(self, out0), *right = batched_as(B, out0);
    TD_AUTO td_tensor *a = !wide ? NULL : rows(wide), *x = !right ? NULL : left ? columns(right) : rows(right);
    return !a || !x || td_solve_triangles(&(td_triangle){.matrices = a, .upper = !upper, .unit = unitriangular, .transposed = left}, x) ||
           (left ? from_columns(out0, x) : td_copy_elements(out0, x)) ? -1 : 0;
}

/* A' X = B by U', then L', then the exchanges from the last to the first; from the right it is the transpose that isn't the adjoint. */
int td_on_device_linalg_lu_solve(td_tensor *LU, td_tensor *pivots, td_tensor *B, bool left, bool adjoint, td_tensor *out0)
{
    if (!takes(LU) || !takes(B))
        return left_to_cpu();
    if (!out0->numel)
        return 0;
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, out0->sizes, sizeof *sizes * (size_t)(out0->ndim - 2));
    sizes[out0->ndim - 2] = pivots->sizes[pivots->ndim - 1];
    TD_AUTO td_tensor *wide = batched_as(LU, out0), *right = batched_as(B, out0), *pivots_of = td_expand(pivots, out0->ndim - 1, sizes);
    TD_AUTO td_tensor *a = wide ? columns(wide) : NULL, *x = !right ? NULL : left ? columns(right) : rows(right);
    TD_AUTO td_tensor *p = pivots_of ? td_as_contiguous(pivots_of, TD_I32) : NULL;
    if (!a || !x || !p)
        return -1;
    const bool transposed = left == adjoint;
    const td_triangle lower = {.matrices = a, .unit = true, .transposed = transposed, .conjugate = adjoint};
    const td_triangle upper = {.matrices = a, .upper = true, .transposed = transposed, .conjugate = adjoint};
    if (transposed ? td_solve_triangles(&upper, x) || td_solve_triangles(&lower, x) || td_exchange_rows(p, x, true)
                   : td_exchange_rows(p, x, false) || td_solve_triangles(&lower, x) || td_solve_triangles(&upper, x))
        return -1;
    return left ? from_columns(out0, x) : td_copy_elements(out0, x);
}

td_tensor *td_on_device_pivots_to_permutation(td_tensor *pivots, int64_t n)
{
    int64_t sizes[TD_MAX_DIMS];
    if (pivots->ndim < 1 || n < 0)
        return td_fail(TD_E_RUNTIME, "lu_unpack: LU_pivots must have at least one dimension");
    memcpy(sizes, pivots->sizes, sizeof *sizes * (size_t)pivots->ndim);
    sizes[pivots->ndim - 1] = n;
    TD_AUTO td_tensor *p = td_as_contiguous(pivots, TD_I32), *order = td_arange(td_int(n), TD_I64, pivots->device);
    TD_AUTO td_tensor *wide = order ? td_expand(order, pivots->ndim, sizes) : NULL, *rows = wide ? td_clone_format(wide, TD_CONTIGUOUS_FORMAT) : NULL;
    TD_AUTO td_tensor *sides = rows && p ? td_unsqueeze(rows, -2) : NULL;
    return sides && !td_exchange_rows(p, sides, false) ? td_tensor_retain(rows) : NULL;
}

/* With A = L L' or U' U. */
int td_on_device_cholesky_solve_helper(td_tensor *self, td_tensor *A, bool upper, td_tensor *out0)
{
    if (!takes(self) || !takes(A))
        return left_to_cpu();
    TD_AUTO td_tensor *wide = out0->numel ? batched_as(A, out0) : NULL, *right = out0->numel ? batched_as(self, out0) : NULL;
    TD_AUTO td_tensor *a = wide ? columns(wide) : NULL, *x = right ? columns(right) : NULL;
    if (!out0->numel || !a || !x)
        return out0->numel ? -1 : 0;
    td_triangle t = {.matrices = a, .upper = upper, .transposed = upper, .conjugate = upper};
    if (td_solve_triangles(&t, x))
        return -1;
    t.transposed = t.conjugate = !upper;
    return td_solve_triangles(&t, x) || from_columns(out0, x) ? -1 : 0;
}

int td_on_device_geqrf(td_tensor *self, td_tensor *out0, td_tensor *out1)
{
    if (!takes(self))
        return left_to_cpu();
    if (!self->numel)
        return 0;
    TD_AUTO td_tensor *a = columns(self), *taus = td_target(out1, (td_dtype)self->dtype), *info = infos_of(self);
    if (!a || !taus || !info)
        return -1;
    const td_factor_call c = call_of(TD_FACTOR_QR, self, info);
    return td_reflections_by_kernels(&c, a, taus, TD_NONE, info) || td_finish(out1, taus) || from_columns(out0, a) ? -1 : 0;
}

static int fill_with_unit(td_tensor *out)
{
    TD_AUTO td_tensor *unit = td_eye(out->sizes[out->ndim - 1], (td_dtype)out->dtype, out->device);
    return unit ? td_copy_elements(out, unit) : -1;
}

/* R is what the factorization leaves in the upper triangle. */
int td_on_device_linalg_qr(td_tensor *A, const char *mode, td_tensor *out0, td_tensor *out1)
{
    if (!takes(A))
        return left_to_cpu();
    if (!A->numel)
        return out0->numel ? fill_with_unit(out0) : 0;
    const int64_t q_columns = out0->numel ? out0->sizes[out0->ndim - 1] : 0;
    (void)mode;
    TD_AUTO td_tensor *a = columns(A), *info = infos_of(A);
    TD_AUTO td_tensor *across = out0->numel ? td_transpose_int(out0, -2, -1) : td_tensor_retain(TD_NONE);
    TD_AUTO td_tensor *q = !across || across == TD_NONE ? td_tensor_retain(across) : td_tensor_new(across->ndim, across->sizes, (td_dtype)A->dtype, A->device);
    if (!a || !info || !q)
        return -1;
    td_factor_call c = call_of(TD_FACTOR_QR, A, info);
    c.a = a->data, c.b = q == TD_NONE ? NULL : q->data, c.k = q_columns;
    if (run(A, &c, &(td_factor_tensors){.a = a, .b = q, .info = info}) || (q_columns && from_columns(out0, q)))
        return -1;
    TD_AUTO td_tensor *whole = td_transpose_int(a, -2, -1);
    TD_AUTO td_tensor *part = whole ? td_narrow(whole, -2, 0, out1->sizes[out1->ndim - 2]) : NULL;
    TD_AUTO td_tensor *r = part ? td_triu(part, 0) : NULL;
    return r ? td_copy_elements(out1, r) : -1;
}

int td_on_device__linalg_eigh(td_tensor *A, const char *UPLO, bool compute_v, td_tensor *out0, td_tensor *out1)
{
    if (!takes(A))
        return left_to_cpu();
    if (!A->numel)
        return 0;
    int code;
    TD_AUTO td_tensor *a = columns(A), *info = infos_of(A), *values = td_target(out0, real_of(A));
    if (!a || !info || !values)
        return -1;
    td_factor_call c = call_of(TD_FACTOR_EIGH, A, info);
    c.a = a->data, c.values = values->data, c.upper = *UPLO == 'U' || *UPLO == 'u', c.vectors = compute_v;
    if (run(A, &c, &(td_factor_tensors){.a = a, .info = info, .values = values}) || td_finish(out0, values) ||
        (compute_v && from_columns(out1, a)) || first_failure(info, &code))
        return -1;
    return code ? td_error(TD_E_LINALG, "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
                           "eigenvalues (error code: %d).", code) : 0;
}

/* R^-1 Q' B of a tall matrix, Q R'^-1 B of a wide one, whose adjoint is Q R. */
static int solve_full_rank(td_tensor *A, td_tensor *B, td_tensor *out)
{
    const bool tall = A->sizes[A->ndim - 2] >= A->sizes[A->ndim - 1];
    td_tensor *pair[2];
    td_scalar all;
    TD_AUTO td_tensor *adjoint = td_adjoint(A);
    if (!adjoint || td_linalg_qr(pair, tall ? A : adjoint, "reduced"))
        return -1;
    TD_AUTO td_tensor *q = pair[0], *r = pair[1], *across = td_adjoint(tall ? q : r), *diagonal = td_diagonal(r, 0, -2, -1);
    TD_AUTO td_tensor *zero = td_wrapped_number(td_int(0)), *are = diagonal && zero ? td_ne(diagonal, zero) : NULL, *full = are ? td_all_all(are) : NULL;
    if (!across || !full || td_tensor_item(full, &all))
        return -1;
    if (!td_scalar_bool(all))
        return left_to_cpu();                   /* which says where R is singular */
    TD_AUTO td_tensor *first = tall ? td_matmul(across, B) : td_linalg_solve_triangular(across, B, false, true, false);
    TD_AUTO td_tensor *x = !first ? NULL : tall ? td_linalg_solve_triangular(r, first, true, true, false) : td_matmul(q, first);
    return x ? td_copy_elements(out, x) : -1;
}

static td_tensor *above(td_tensor *values, double rcond)
{
    TD_AUTO td_tensor *largest = td_narrow(values, -1, 0, 1), *limit = td_wrapped_number(td_float(rcond)), *bound = largest && limit ? td_mul(largest, limit) : NULL;
    return bound ? td_gt(values, bound) : NULL;
}

/* gelsd and gelsy alike by singular values, of which those count that are above rcond times the largest; as in LAPACK a bound of gelsd's that no value, or
 * each, is above is the precision instead.  Where gelsy would leave out more than what is 0 but for rounding its answer is another, of QR with pivots.  gels
 * by QR. */
int td_on_device__linalg_lstsq(td_tensor *A, td_tensor *B, double rcond, int64_t method, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    const bool values = method == TD_LSTSQ_GELSD;
    const int64_t m = A->sizes[A->ndim - 2], n = A->sizes[A->ndim - 1];
    const double precision = real_of(A) == TD_F32 ? 0x1p-23 : 0x1p-52;
    td_scalar finite, same = td_bool(true);
    if (!takes(A) || !takes(B))
        return left_to_cpu();
    if (!A->numel)
        return td_zero_(out0) || td_zero_(out1) || td_zero_(out2) ? -1 : 0;
    TD_AUTO td_tensor *are = td_isfinite(A), *all = are ? td_all_all(are) : NULL;
    if (!all || td_tensor_item(all, &finite))
        return -1;
    if (!td_scalar_bool(finite))
        return left_to_cpu();
    if (method == TD_LSTSQ_GELS)
        return solve_full_rank(A, B, out0) || td_fill_scalar_(out1, td_int(m < n ? m : n)) || td_zero_(out2) ? -1 : 0;
    if (values && (rcond <= 0 || rcond >= 1))
        rcond = precision / 2;
    td_tensor *of[3];
    if (td_linalg_svd(of, A, false, NULL))
        return -1;
    TD_AUTO td_tensor *u = of[0], *s = of[1], *vh = of[2], *counted = above(s, rcond), *rank = counted ? td_sum_dim(counted, 1, (int64_t[]){-1}, false) : NULL;
    if (rank && !values) {
        TD_AUTO td_tensor *nonzero = above(s, precision * (double)(m > n ? m : n)), *alike = nonzero ? td_eq(counted, nonzero) : NULL, *each = alike ? td_all_all(alike) : NULL;
        if (!each || td_tensor_item(each, &same))
            return -1;
    }
    if (!td_scalar_bool(same))
        return left_to_cpu();
    TD_AUTO td_tensor *inverse = rank ? td_reciprocal(s) : NULL, *zero = td_wrapped_number(td_int(0)), *by = inverse && zero ? td_where(counted, inverse, zero) : NULL;
    TD_AUTO td_tensor *column = by ? td_unsqueeze(by, -1) : NULL, *uh = td_adjoint(u), *v = td_adjoint(vh);
    TD_AUTO td_tensor *shares = column && uh ? td_matmul(uh, B) : NULL, *scaled = shares ? td_mul(shares, column) : NULL;
    TD_AUTO td_tensor *x = scaled && v ? td_matmul(v, scaled) : NULL;
    return !x || td_copy_elements(out0, x) || td_copy_elements(out1, rank) || (values ? td_copy_elements(out2, s) : td_zero_(out2)) ? -1 : 0;
}

/* Wide matrices by their transposes, whose U is V. */
int td_on_device__linalg_svd(td_tensor *A, bool full_matrices, bool compute_uv, const char *driver, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    if (!takes(A) || driver)
        return left_to_cpu();
    if (!A->numel)
        return (out0->numel && fill_with_unit(out0)) || (out2->numel && fill_with_unit(out2)) ? -1 : 0;
    int code;
    const bool tall = A->sizes[A->ndim - 2] >= A->sizes[A->ndim - 1];
    TD_AUTO td_tensor *other = td_transpose_int(A, -2, -1);
    td_tensor *x = tall ? A : other;
    TD_AUTO td_tensor *a = x ? columns(x) : NULL, *info = infos_of(A), *values = td_target(out1, real_of(A)), *u = NULL, *vt = NULL;
    if (!a || !info || !values)
        return -1;
    td_factor_call c = call_of(TD_FACTOR_SVD, x, info);
    c.a = a->data, c.values = values->data, c.vectors = compute_uv, c.full = full_matrices;
    if (compute_uv) {
        /* In columns: U in rows is its transpose, and so is V'. */
        int64_t sizes[TD_MAX_DIMS];
        memcpy(sizes, A->sizes, sizeof *sizes * (size_t)A->ndim);
        sizes[A->ndim - 2] = full_matrices ? c.m : c.n, sizes[A->ndim - 1] = c.m;
        u = td_tensor_new(A->ndim, sizes, (td_dtype)A->dtype, A->device);
        sizes[A->ndim - 2] = sizes[A->ndim - 1] = c.n;
        vt = u ? td_tensor_new(A->ndim, sizes, (td_dtype)A->dtype, A->device) : NULL;
        if (!vt)
            return -1;
        c.b = u->data, c.vt = vt->data;
    }
    if (run(A, &c, &(td_factor_tensors){.a = a, .b = u, .info = info, .values = values, .vt = vt}) || td_finish(out1, values) ||
        first_failure(info, &code))
        return -1;
    if (code)
        return td_error(TD_E_LINALG, "linalg.svd: The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular "
                        "values (error code: %d).", code);
    if (!compute_uv)
        return 0;
    return tall ? from_columns(out0, u) || from_columns(out2, vt) ? -1 : 0 : td_copy_elements(out0, vt) || td_copy_elements(out2, u) ? -1 : 0;
}
