/* Factorisations that leave their factors as LAPACK does: Householder vectors, and the LDL^H of a symmetric or Hermitian
 * matrix with its pivots (Bunch and Kaufman's: D has blocks of one and two). */

#include "calls_kernels_cpu_linalg_factor.h"
#include "kernels/cpu/linalg/linalg.h"

/* R in the upper triangle of out0, Householder vectors below it, their factors in out1: what ormqr and householder_product take. */
int td_cpu_geqrf(td_tensor *self, td_tensor *out0, td_tensor *out1)
{
    td_dtype dtype = (td_dtype)self->dtype;
    td_lapack_function *geqrf = td_lapack("geqrf", NULL, dtype);
    TD_AUTO td_tensor *a = geqrf ? td_columns(self) : NULL;
    TD_AUTO td_tensor *few = space(2, dtype);
    if (!a || !few)
        return -1;
    batch b = batch_of(a);
    int m = b.columns, n = b.rows, k = m < n ? m : n, lda = at_least_one(m), info, lwork = -1;
    if (k) {
        geqrf(&m, &n, a->data, &lda, out1->data, few->data, &lwork, &info);
        lwork = (int)answer(few->data, dtype);
    }
    TD_AUTO td_tensor *work = space(lwork < 1 ? 1 : lwork, dtype);
    if (!work)
        return -1;
    for (int64_t i = 0; i < b.count && k; i++)
        geqrf(&m, &n, (char *)a->data + i * b.stride, &lda, (char *)out1->data + i * k * (int64_t)b.item, work->data, &lwork, &info);
    return from_columns(out0, a);
}

/* sytrf for symmetric matrices, hetrf for complex Hermitian ones; both of the lower triangle.  The upper one is cleared first, as the
 * result is to have zeros there. */
int td_cpu_linalg_ldl_factor_ex(td_tensor *self, bool hermitian, bool check_errors, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    td_dtype dtype = (td_dtype)self->dtype;
    bool conjugate = hermitian && td_dtype_is_complex(dtype);
    if (!self->numel) {
        memset(out2->data, 0, sizeof(int) * (size_t)out2->numel);
        return 0;
    }
    td_lapack_function *factor = td_lapack(conjugate ? "hetrf" : "sytrf", NULL, dtype);
    TD_AUTO td_tensor *lower = factor ? td_tril(self, 0) : NULL;
    TD_AUTO td_tensor *a = lower ? td_columns(lower) : NULL;
    TD_AUTO td_tensor *few = space(2, dtype);
    if (!a || !few)
        return -1;
    batch b = batch_of(a);
    int n = b.rows, lda = at_least_one(n), lwork = -1, *pivots = (int *)out1->data, *info = (int *)out2->data;
    if (n && b.count) {
        factor("L", &n, a->data, &lda, pivots, few->data, &lwork, info, (size_t)1);
        lwork = (int)answer(few->data, dtype);
    }
    TD_AUTO td_tensor *work = space(lwork < 1 ? 1 : lwork, dtype);
    if (!work)
        return -1;
    for (int64_t i = 0; i < b.count; i++) {     /* a zero block of D is reported by info; the factors are there nevertheless */
        info[i] = 0;
        if (n)
            factor("L", &n, (char *)a->data + i * b.stride, &lda, pivots + i * n, work->data, &lwork, &info[i], (size_t)1);
    }
    return td_checked(from_columns(out0, a), check_errors, TD_FACTORS_LU, "torch.linalg.ldl_factor_ex", out2);
}

/* LAPACK swaps whichever rows the pivots name, so they must be rows of the matrix; two negative ones side by side make a block of two. */
static int check_pivots(const td_tensor *pivots, int n)
{
    const char *must = NULL;
    bool second = false;
    for (int64_t i = 0; i < pivots->numel && !must; i++) {
        const int *p = (const int *)pivots->data + i;
        bool alone = *p < 0 && !second && (i % n + 1 == n || p[1] >= 0);
        must = !*p ? "satisfy |pivot| >= 1" : *p > n || *p < -n ? "satisfy |pivot| <= LD.size(-2)"
            : alone ? "be positive or come in pairs" : NULL;
        second = *p < 0 && !second;
    }
    return must ? td_error(TD_E_RUNTIME, "Pivots given to ldl_solve must all %s. Did you properly pass the result of ldl_factor?", must) : 0;
}

/* A X = B by L, D and the pivots of ldl_factor, of whose triangles the lower one is read; operands are broadcast to the result's batch. */
int td_cpu_linalg_ldl_solve(td_tensor *LD, td_tensor *pivots, td_tensor *B, bool hermitian, td_tensor *out)
{
    if (!out->numel)
        return 0;
    td_dtype dtype = (td_dtype)B->dtype;
    td_lapack_function *solve = td_lapack(hermitian && td_dtype_is_complex(dtype) ? "hetrs" : "sytrs", NULL, dtype);
    TD_AUTO td_tensor *ld_view = with_batch(LD, out, 2);
    TD_AUTO td_tensor *ld = ld_view ? td_columns(ld_view) : NULL;
    TD_AUTO td_tensor *b_view = with_batch(B, out, 2);
    TD_AUTO td_tensor *x = b_view ? td_columns(b_view) : NULL;
    TD_AUTO td_tensor *p = pivots_with_batch(pivots, out);
    if (!solve || !ld || !x || !p)
        return -1;
    batch b = batch_of(ld), c = batch_of(x);
    int info, n = b.rows, k = c.rows, lda = at_least_one(n);
    if (check_pivots(p, n))
        return -1;
    /* A batch of factors of its own size: both operands were expanded to the result's, so counts agree. */
    for (int64_t i = 0; i < b.count && n && k; i++)
        solve("L", &n, &k, (char *)ld->data + i * b.stride, &lda, (int *)p->data + i * n, (char *)x->data + i * c.stride, &lda, &info, (size_t)1);
    return from_columns(out, x);
}
