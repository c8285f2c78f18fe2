/* Factorisations and solutions of linear systems: Cholesky, LU, QR, singular values, eigenvalues, least squares.
 *
 * Triangular systems (triangles_isa.c) are solved by kernels of our own, and real matrices have them for Cholesky and LU (lu_isa.c),
 * for QR (qr_isa.c) and, from TD_OWN_BANDS rows on, for symmetric eigenvalues and for singular values of matrices that are
 * nearly square (bands.c).  Small systems go many at a time (lu_many.h).  The rest is LAPACK's, one matrix of the batch after the other.
 *
 * LAPACK keeps matrices in columns, and so are the results here, as PyTorch's are: their specs say so (td_spec_columns).
 * What is in rows is to LAPACK its transpose, of which the algebra sometimes makes use: solutions from the right. */

#include "calls_kernels_cpu_linalg_linalg.h"
#include <tede/auto.h>
#include <math.h>
#include <tede/kernel.h>
#include "kernels/cpu/linalg/linalg.h"
#include "kernels/cpu/linalg/lu.h"
#include "kernels/cpu/linalg/qr.h"
#include "kernels/cpu/linalg/reflectors.h"
#include "kernels/cpu/linalg/triangles.h"
#include "ops/iterate/iterator.h"
#include "ops/linalg/linalg.h"

/* Zeros in the triangle that isn't the factor's. */
static void clear_triangle(char *a, int n, size_t item, bool upper)
{
    for (int c = 0; c < n; c++) {
        if (upper)
            memset(a + ((size_t)c * n + c + 1) * item, 0, (size_t)(n - c - 1) * item);
        else
            memset(a + ((size_t)c * n) * item, 0, (size_t)c * item);
    }
}

/* ---- triangular systems (triangles_isa.c) */

/* Where matrix i of x is, whatever the strides of its batch. */
static char *matrix_at(const td_tensor *x, int64_t i)
{
    int64_t offset = 0;
    for (int d = x->ndim - 3; d >= 0; d--) {
        offset += i % x->sizes[d] * x->strides[d];
        i /= x->sizes[d];
    }
    return (char *)x->data + offset * (int64_t)td_dtype_size((td_dtype)x->dtype);
}

/* a x = x for triangles of a, or their transposes; rows of x change places before or, `after`, last of all, in reverse order, where
 * there are pivots.  `right`: x's transposes are meant.  A task is `chunk` columns of a matrix. */
typedef struct triangles {
    const td_tensor *a, *x;
    td_triangle shape[2];               /* one after the other; no data, but how they lie */
    int n_shapes;
    const int *pivots, *info;           /* or NULL; a matrix whose info isn't 0 is left alone */
    bool after, right;
    int64_t n, k, chunk, chunks;
    int failed;
} triangles;

/* Rows i and pivots[i] - 1 of x, from the first i on or from the last one, for `k` columns. */
static void exchange_rows(const triangles *t, const int *pivots, char *x, int64_t row, int64_t column, int64_t k)
{
    const size_t item = td_dtype_size((td_dtype)t->x->dtype);
    for (int64_t step = 0; step < t->n; step++) {
        const int64_t i = t->after ? t->n - 1 - step : step, other = pivots[i] - 1;
        for (int64_t j = 0; j < k && other != i; j++) {
            char *a = x + (i * row + j * column) * (int64_t)item, *b = x + (other * row + j * column) * (int64_t)item, kept[16];
            memcpy(kept, a, item), memcpy(a, b, item), memcpy(b, kept, item);
        }
    }
}

static void some_triangles(void *context, int64_t from, int64_t to)
{
    triangles *t = context;
    const td_tensor *x = t->x;
    const td_dtype dtype = (td_dtype)x->dtype;
    td_triangle_solver *solve = td_triangle_solver_of(dtype);
    const int64_t down = x->strides[x->ndim - 2], along = x->strides[x->ndim - 1];
    const int64_t row = t->right ? along : down, column = t->right ? down : along;
    for (int64_t task = from; task < to; task++) {
        const int64_t i = task / t->chunks, first = task % t->chunks * t->chunk, k = t->k - first < t->chunk ? t->k - first : t->chunk;
        char *at = matrix_at(x, i) + first * column * (int64_t)td_dtype_size(dtype);
        const int *pivots = t->pivots ? t->pivots + i * t->n : NULL;
        if (t->info && t->info[i])
            continue;
        if (pivots && !t->after)
            exchange_rows(t, pivots, at, row, column, k);
        for (int s = 0; s < t->n_shapes; s++) {
            td_triangle shape = t->shape[s];
            shape.data = matrix_at(t->a, i);
            if (solve(t->n, k, shape, at, row, column))
                __atomic_store_n(&t->failed, 1, __ATOMIC_RELAXED);
        }
        if (pivots && t->after)
            exchange_rows(t, pivots, at, row, column, k);
    }
}

/* Of the formats that our kernels have. */
static int check_numbers(const char *op, td_dtype dtype)
{
    if (dtype == TD_F32 || dtype == TD_F64 || dtype == TD_C64 || dtype == TD_C128)
        return 0;
    return td_error(TD_E_RUNTIME, "\"%s\" not implemented for '%s'", op, td_dtype_title(dtype));
}

/* Columns are shared out where there are many, which doesn't change a number. */
static int run_triangles(triangles *t)
{
    if (check_numbers("triangular_solve_cpu", (td_dtype)t->x->dtype))
        return -1;
    const batch b = batch_of(t->x);
    enum { FEW = 64 };
    t->n = t->right ? b.columns : b.rows, t->k = t->right ? b.rows : b.columns;
    if (!t->x->numel)
        return 0;
    const int threads = td_num_threads();
    t->chunk = b.count >= threads || t->k < 2 * FEW || t->n < FEW ? t->k : (t->k / threads + FEW - 1) / FEW * FEW;
    t->chunks = (t->k + t->chunk - 1) / t->chunk;
    td_parallel_for(0, b.count * t->chunks, TD_THREAD_WORK / (t->n * t->n * t->chunk) + 1, some_triangles, t);
    return t->failed ? -1 : 0;
}

/* a's triangle, or its transpose, as it lies. */
static td_triangle triangle_of(const td_tensor *a, bool upper, bool unit, bool transposed)
{
    const int64_t down = a->strides[a->ndim - 2], along = a->strides[a->ndim - 1];
    return transposed ? (td_triangle){NULL, along, down, !upper, unit} : (td_triangle){NULL, down, along, upper, unit};
}

/* ---- Cholesky */

/* Where pivot number k isn't positive a factorization ends: that pivot is what it has come to, and what lies beyond it in the triangle
 * is put back as it was, since every algorithm overwrites them differently. a: in columns; before: the matrices as they were, so too. */
static void put_back(char *a, const char *before, int n, int k, size_t item, bool upper)
{
    for (int c = k - 1; c < n; c++) {
        const int first = upper ? k - 1 : c + (c == k - 1), end = !upper ? n : c == k - 1 ? first : c + 1;
        const size_t at = ((size_t)c * (size_t)n + (size_t)first) * item;
        memcpy(a + at, before + at, (size_t)(end - first) * item);
    }
}

/* Real matrices: rows of an upper factor are columns of a lower one. */
static int cholesky(td_tensor *self, bool upper, td_tensor *out, int *info)
{
    const td_lu_table *lu = TD_ISA_PICK(td_lu_table);
    TD_AUTO td_tensor *x = upper ? td_rows(self) : td_tensor_retain(out);
    if (!x || (!upper && td_copy_elements(out, self)))
        return -1;
    const batch b = batch_of(x);
    TD_AUTO td_tensor *before = NULL;
    for (int64_t i = 0; i < b.count; i++) {
        char *a = (char *)x->data + i * b.stride;
        if (x->dtype == TD_F32 ? lu->cholesky_f32(b.rows, (float *)a, b.rows, info + i)
                               : lu->cholesky_f64(b.rows, (double *)a, b.rows, info + i))
            return -1;
        if (info[i] > 0 && !before && !(before = upper ? td_rows(self) : td_columns(self)))
            return -1;
        if (info[i] > 0)
            put_back(a, (char *)before->data + i * b.stride, b.rows, info[i], b.item, false);
        clear_triangle(a, b.rows, b.item, false);
    }
    return upper ? td_copy_elements(out, x) : 0;
}

/* The triangle that isn't read is cleared in the result.  info is the number (from 1 on) of the first pivot that isn't positive; with
 * check_errors that is an error, else the caller looks at info. */
int td_cpu_linalg_cholesky_ex(td_tensor *self, bool upper, bool check_errors, td_tensor *out0, td_tensor *out1)
{
    const char *op = "linalg.cholesky_ex";
    int *info = (int *)out1->data;
    if (!td_dtype_is_complex((td_dtype)self->dtype))
        return td_checked(cholesky(self, upper, out0, info), check_errors, TD_FACTORS_CHOLESKY, op, out1);
    batch b = batch_of(out0);
    td_lapack_function *potrf = td_lapack("potrf", NULL, (td_dtype)self->dtype);
    if (!potrf || td_copy_elements(out0, self))
        return -1;
    int lda = at_least_one(b.rows);
    TD_AUTO td_tensor *before = NULL;
    for (int64_t i = 0; i < b.count; i++) {
        char *a = (char *)out0->data + i * b.stride;
        potrf(upper ? "U" : "L", &b.rows, a, &lda, &info[i], (size_t)1);
        if (info[i] > 0 && !before && !(before = td_columns(self)))
            return -1;
        if (info[i] > 0)
            put_back(a, (char *)before->data + i * b.stride, b.rows, info[i], b.item, upper);
        clear_triangle(a, b.rows, b.item, upper);
    }
    return td_checked(0, check_errors, TD_FACTORS_CHOLESKY, op, out1);
}

/* Two triangles, the second one the adjoint of the first, or the first one of the second. */
int td_cpu_cholesky_solve_helper(td_tensor *B, td_tensor *L, bool upper, td_tensor *out)
{
    TD_AUTO td_tensor *a = with_batch(L, out, 2);
    TD_AUTO td_tensor *conjugate = a && td_dtype_is_complex((td_dtype)L->dtype) ? td_conj_physical(L) : td_tensor_retain(L);
    TD_AUTO td_tensor *adjoint = conjugate ? with_batch(conjugate, out, 2) : NULL;
    TD_AUTO td_tensor *b = with_batch(B, out, 2);
    if (!a || !adjoint || !b || td_copy_elements(out, b))
        return -1;
    for (int pass = 0; pass < 2; pass++) {
        td_tensor *factor = upper == (pass == 0) ? adjoint : a;
        triangles t = {.a = factor, .x = out, .shape = {triangle_of(factor, upper, false, factor == adjoint)}, .n_shapes = 1};
        if (run_triangles(&t))
            return -1;
    }
    return 0;
}

/* ---- LU: real matrices by our own kernels, in rows (lu_isa.c); complex ones by LAPACK, in columns */

/* m x n numbers in rows, factored where they are. */
static int factor(td_dtype dtype, int64_t m, int64_t n, void *a, int *pivots, int *info)
{
    const td_lu_table *lu = TD_ISA_PICK(td_lu_table);
    return dtype == TD_F32 ? lu->factor_f32(m, n, a, n, pivots, info) : lu->factor_f64(m, n, a, n, pivots, info);
}

/* Small matrices, side by side in vectors (lu_many.h): each thread has whole ones.  k columns of x meet each, or none. */
typedef struct small { td_dtype dtype; int64_t n, k; char *a, *x; int *pivots, *info; } small;

/* pivots and info advance with the matrices; without columns (k = 0) the matrices are only factored. */
static void some_small(void *context, int64_t from, int64_t to)
{
    const small *s = context;
    const td_lu_table *lu = TD_ISA_PICK(td_lu_table);
    const int64_t size = td_itemsizes[s->dtype];
    void *a = s->a + from * s->n * s->n * size, *x = s->k ? s->x + from * s->n * s->k * size : NULL;
    int *pivots = s->pivots ? s->pivots + from * s->n : NULL;
    if (s->dtype == TD_F32)
        lu->many_f32(to - from, s->n, s->k, a, x, pivots, s->info + from);
    else
        lu->many_f64(to - from, s->n, s->k, a, x, pivots, s->info + from);
}

/* False, and nothing done, where matrices are too large for `many` or complex. */
static bool run_small(small s, int64_t count)
{
    if (s.n < 1 || s.n > TD_LU_SMALL || s.k > TD_LU_COLUMNS || td_dtype_is_complex(s.dtype))
        return false;
    td_parallel_for(0, count, TD_THREAD_WORK / (s.n * s.n * (s.n + s.k)) + 1, some_small, &s);
    return true;
}

/* Factored in rows and then copied to the result's columns: our kernels exchange rows, which lie in one piece so. */
static int factor_rows(td_tensor *A, td_tensor *out, td_tensor *pivots, td_tensor *infos)
{
    TD_AUTO td_tensor *lu = td_rows(A);     /* the result lies in columns */
    if (!lu)
        return -1;
    batch b = batch_of(lu);
    const int least = b.rows < b.columns ? b.rows : b.columns;
    const bool done = b.rows == b.columns && run_small((small){(td_dtype)A->dtype, b.rows, 0, lu->data, NULL, (int *)pivots->data,
                                                               (int *)infos->data}, b.count);
    for (int64_t i = 0; i < b.count && !done; i++)
        if (factor((td_dtype)A->dtype, b.rows, b.columns, (char *)lu->data + i * b.stride, (int *)pivots->data + i * least,
                   (int *)infos->data + i))
            return -1;
    return td_copy_elements(out, lu);
}

/* Complex matrices in columns: small ones by our own kernel, shared out among threads, others by getrf. */
typedef struct complex_factors { td_dtype dtype; int64_t n; char *a; int *pivots, *info; } complex_factors;

static void some_complex(void *context, int64_t from, int64_t to)
{
    const complex_factors *f = context;
    const td_lu_table *lu = TD_ISA_PICK(td_lu_table);
    for (int64_t i = from; i < to; i++) {
        char *a = f->a + i * f->n * f->n * (int64_t)td_dtype_size(f->dtype);
        f->info[i] = f->dtype == TD_C64 ? lu->complex_f32(f->n, (float *)a, f->pivots + i * f->n) : lu->complex_f64(f->n, (double *)a, f->pivots + i * f->n);
    }
}
static int factor_complex(td_tensor *columns, int *pivots, int *info)
{
    const batch b = batch_of(columns);
    const int m = b.columns, n = b.rows, lda = at_least_one(m), least = m < n ? m : n;
    complex_factors f = {(td_dtype)columns->dtype, n, columns->data, pivots, info};
    if (m == n && n <= TD_LU_COMPLEX) {
        td_parallel_for(0, b.count, TD_THREAD_WORK / (4 * (int64_t)n * n * n + 64) + 1, some_complex, &f);
        return 0;
    }
    td_lapack_function *getrf = td_lapack("getrf", NULL, (td_dtype)columns->dtype);
    for (int64_t i = 0; i < b.count && getrf; i++) {
        info[i] = 0;
        if (least)
            getrf(&m, &n, (char *)columns->data + i * b.stride, &lda, pivots + i * least, &info[i]);
    }
    return getrf ? 0 : -1;
}

/* Pivots count rows from 1 on, as LAPACK's; a zero on U's diagonal is reported by info and the factorization goes on. */
int td_cpu_linalg_lu_factor_ex(td_tensor *A, bool pivot, bool check_errors, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    (void)pivot;
    const char *op = "torch.linalg.lu_factor_ex";
    if (!td_dtype_is_complex((td_dtype)A->dtype))
        return td_checked(factor_rows(A, out0, out1, out2), check_errors, TD_FACTORS_LU, op, out2);
    TD_AUTO td_tensor *a = td_columns(A);
    if (!a || factor_complex(a, (int *)out1->data, (int *)out2->data))
        return -1;
    return td_checked(from_columns(out0, a), check_errors, TD_FACTORS_LU, op, out2);
}

/* LAPACK swaps whichever rows the pivots name. */
static int check_pivots(const td_tensor *pivots, int n)
{
    for (int64_t i = 0; i < pivots->numel; i++) {
        int p = ((const int *)pivots->data)[i];
        if (p < 1 || p > n)
            return td_error(TD_E_RUNTIME, "Pivots given to lu_solve must all be %s. Did you properly pass the result of lu_factor?",
                            p < 1 ? "greater or equal to 1" : "smaller or equal to LU.size(-2)");
    }
    return 0;
}

/* left: A X = B; else X A = B, solved as its transpose.  `adjoint`: with A^H for A.  Pivots come from the user, so they are checked
 * before rows are exchanged by them. */
int td_cpu_linalg_lu_solve(td_tensor *LU, td_tensor *pivots, td_tensor *B, bool left, bool adjoint, td_tensor *out)
{
    if (!out->numel)
        return 0;
    /* From the right X A = B is A^T X^T = B^T, X A^H = B is conj(A) X^T = B^T. */
    TD_AUTO td_tensor *lu = adjoint && td_dtype_is_complex((td_dtype)LU->dtype) ? td_conj_physical(LU) : td_tensor_retain(LU);
    TD_AUTO td_tensor *a = lu ? with_batch(lu, out, 2) : NULL;
    TD_AUTO td_tensor *b = with_batch(B, out, 2);
    TD_AUTO td_tensor *p = pivots_with_batch(pivots, out);
    if (!a || !b || !p || check_pivots(p, (int)LU->sizes[LU->ndim - 1]) || td_copy_elements(out, b))
        return -1;
    const bool transposed = left == adjoint;
    const td_triangle low = triangle_of(a, false, true, transposed), up = triangle_of(a, true, false, transposed);
    triangles t = {.a = a, .x = out, .shape = {transposed ? up : low, transposed ? low : up}, .n_shapes = 2,
                   .pivots = (const int *)p->data, .after = transposed, .right = !left};
    return run_triangles(&t);
}

/* a x = b for one matrix in rows and k columns of b, which x replaces.  For a singular a, *info is set and b stays; that is an error
 * only to callers that check. */
static int solve(td_dtype dtype, int64_t n, int64_t k, void *a, int *pivots, void *x, int *info)
{
    const td_lu_table *lu = TD_ISA_PICK(td_lu_table);
    if (factor(dtype, n, n, a, pivots, info) || *info)
        return *info ? 0 : -1;
    return dtype == TD_F32 ? lu->solve_f32(n, k, a, n, pivots, x, k) : lu->solve_f64(n, k, a, n, pivots, x, k);
}

/* Complex matrices in columns, as getrf takes them, or their transposes; x lies likewise. */
static int solve_complex(td_tensor *a, td_tensor *x, int *info)
{
    const batch p = batch_of(a);
    const int n = p.rows;
    TD_AUTO td_tensor *pivots = space(p.count * n, TD_I32);
    if (!pivots || factor_complex(a, (int *)pivots->data, info))
        return -1;
    triangles t = {.a = a, .x = x, .shape = {{NULL, 1, n, false, true}, {NULL, 1, n, true, false}}, .n_shapes = 2,
                   .pivots = (const int *)pivots->data, .info = info, .right = true};
    return run_triangles(&t);
}

/* Our kernels read rows and LAPACK reads columns, and from the right the transposes are wanted: `left == own` is when operands are
 * copied in rows.  Both overwrite A by its factors and B by X, so both operands are copies. */
int td_cpu_linalg_solve_ex(td_tensor *A, td_tensor *B, bool left, bool check_errors, td_tensor *out0, td_tensor *out1)
{
    bool vector = td_solve_takes_vector(A, B);
    const td_dtype dtype = (td_dtype)A->dtype;
    const bool own = !td_dtype_is_complex(dtype);
    TD_AUTO td_tensor *b_matrix = vector ? td_unsqueeze(B, -1) : td_tensor_retain(B);
    TD_AUTO td_tensor *result = vector ? td_unsqueeze(out0, -1) : td_tensor_retain(out0);
    if (!b_matrix || !result)
        return -1;
    TD_AUTO td_tensor *a_view = with_batch(A, result, 2);
    TD_AUTO td_tensor *b_view = with_batch(b_matrix, result, 2);
    /* X A = B is the transpose of A' X' = B'. */
    TD_AUTO td_tensor *a = !a_view ? NULL : left == own ? td_rows(a_view) : td_columns(a_view);
    TD_AUTO td_tensor *x = !b_view ? NULL : left == own ? td_rows(b_view) : td_columns(b_view);
    if (!a || !x)
        return -1;
    batch p = batch_of(a), q = batch_of(x);
    const bool repeats = td_solve_repeats(A, out0, vector);
    TD_AUTO td_tensor *pivots = space(at_least_one(p.rows), TD_I32), *infos = repeats ? space(p.count, TD_I32) : td_tensor_retain(out1);
    if (!pivots || !infos)
        return -1;
    int n = p.rows, k = q.columns, *info = (int *)infos->data;
    if (!own && solve_complex(a, x, info))
        return -1;
    const bool done = !own || run_small((small){dtype, n, k, a->data, x->data, NULL, info}, p.count);
    for (int64_t i = 0; i < p.count && !done; i++) {
        info[i] = 0;
        if (n && solve(dtype, n, k, (char *)a->data + i * p.stride, (int *)pivots->data, (char *)x->data + i * q.stride, info + i))
            return -1;
    }
    int status = (left != own ? from_columns(result, x) : td_copy_elements(result, x)) || (repeats && td_solve_info(A, out1)) ? -1 : 0;
    return td_checked(status, check_errors, TD_FACTORS_LU_SOLVE, "torch.linalg.solve_ex", out1);
}

/* The solution for the identity's columns, as PyTorch does it: zeros keep their sign so. */
int td_cpu_linalg_inv_ex(td_tensor *A, bool check_errors, td_tensor *out0, td_tensor *out1)
{
    TD_AUTO td_tensor *unit = td_eye(A->sizes[A->ndim - 1], (td_dtype)A->dtype, A->device);
    TD_AUTO td_tensor *b = td_expand(unit, A->ndim, A->sizes);
    return b ? td_checked(td_cpu_linalg_solve_ex(A, b, true, false, out0, out1), check_errors, TD_FACTORS_LU_INVERSE, "linalg.inv_ex", out1) : -1;
}

/* In the result's own memory, which holds B first; X A = B is A^T X^T = B^T. */
int td_cpu_linalg_solve_triangular(td_tensor *self, td_tensor *B, bool upper, bool left, bool unitriangular, td_tensor *out)
{
    TD_AUTO td_tensor *a = with_batch(self, out, 2);
    TD_AUTO td_tensor *b = with_batch(B, out, 2);
    if (!a || !b || td_copy_elements(out, b))
        return -1;
    triangles t = {.a = a, .x = out, .shape = {triangle_of(a, upper, unitriangular, !left)}, .n_shapes = 1, .right = !left};
    return run_triangles(&t);
}

/* ---- QR */

/* Real matrices by our own kernel (qr_isa.c), whole ones shared out among threads. */
typedef struct factored { td_dtype dtype; int64_t m, n, rows, columns; const char *a; char *q, *r; int failed; } factored;

static void some_qr(void *context, int64_t from, int64_t to)
{
    factored *f = context;
    const td_qr_table *table = TD_ISA_PICK(td_qr_table);
    const int64_t item = (int64_t)td_dtype_size(f->dtype);
    for (int64_t i = from; i < to; i++) {
        const char *a = f->a + i * f->m * f->n * item;
        char *r = f->r + i * f->rows * f->n * item, *q = f->q + i * f->m * f->columns * item;
        if (f->dtype == TD_F32 ? table->f32(f->m, f->n, (const float *)a, f->rows, (float *)r, f->columns, (float *)q)
                               : table->f64(f->m, f->n, (const double *)a, f->rows, (double *)r, f->columns, (double *)q))
            __atomic_store_n(&f->failed, 1, __ATOMIC_RELAXED);
    }
}
static int real_qr(td_tensor *A, bool vectors, td_tensor *q, td_tensor *r)
{
    TD_AUTO td_tensor *a = td_columns(A);
    if (!a)
        return -1;
    const batch b = batch_of(a);
    factored f = {.dtype = (td_dtype)A->dtype, .m = b.columns, .n = b.rows, .rows = r->sizes[r->ndim - 2],
                  .columns = vectors ? q->sizes[q->ndim - 1] : 0, .a = a->data, .q = q->data, .r = r->data};
    td_parallel_for(0, b.count, TD_THREAD_WORK / ((f.m + 1) * (f.n + 1) * (f.n + 1)) + 1, some_qr, &f);
    return f.failed ? -1 : 0;
}

/* Householder vectors by geqrf, of which orgqr makes Q: with mode 'complete' m columns, with 'reduced' min(m, n), with 'r' none.
 * R is what geqrf leaves in the upper triangle.  Without columns (k = 0) Q is the unit matrix. */
int td_cpu_linalg_qr(td_tensor *A, const char *mode, td_tensor *out0, td_tensor *out1)
{
    td_dtype dtype = (td_dtype)A->dtype;
    if (check_numbers("geqrf_cpu", dtype))
        return -1;
    if (!td_dtype_is_complex(dtype))
        return real_qr(A, *mode != 'r' || mode[1], out0, out1);
    td_lapack_function *geqrf = td_lapack("geqrf", NULL, dtype), *orgqr = geqrf ? td_lapack("orgqr", "ungqr", dtype) : NULL;
    TD_AUTO td_tensor *a = orgqr ? td_columns(A) : NULL;
    if (!a)
        return -1;
    batch b = batch_of(a);
    int m = b.columns, n = b.rows, k = m < n ? m : n, lda = at_least_one(m), info, ask = -1, lwork;
    int columns = *mode == 'c' ? m : k;                        /* of Q */
    TD_AUTO td_tensor *tau = space(at_least_one(k), dtype);
    TD_AUTO td_tensor *few = space(2, dtype);
    TD_AUTO td_tensor *q = space((int64_t)m * at_least_one(columns > n ? columns : n), dtype);
    if (!tau || !few || !q)
        return -1;
    geqrf(&m, &n, a->data, &lda, tau->data, few->data, &ask, &info);
    lwork = (int)answer(few->data, dtype);
    if (*mode != 'r' || mode[1]) {
        orgqr(&m, &columns, &k, q->data, &lda, tau->data, few->data, &ask, &info);
        int more = (int)answer(few->data, dtype);
        lwork = more > lwork ? more : lwork;
    }
    TD_AUTO td_tensor *work = space(lwork, dtype);
    TD_AUTO td_tensor *r_all = space(out1->numel, dtype);
    if (!work || !r_all)
        return -1;
    int r_rows = (int)out1->sizes[out1->ndim - 2];
    for (int64_t i = 0; i < b.count; i++) {
        char *x = (char *)a->data + i * b.stride;
        if (k)
            geqrf(&m, &n, x, &lda, tau->data, work->data, &lwork, &info);
        char *r = (char *)out1->data + i * (int64_t)r_rows * n * (int64_t)b.item;
        for (int column = 0; column < n; column++) {
            int filled = column + 1 < r_rows ? column + 1 : r_rows;
            char *to = r + (int64_t)column * r_rows * (int64_t)b.item;
            memcpy(to, x + (int64_t)column * m * (int64_t)b.item, (size_t)filled * b.item);
            memset(to + (size_t)filled * b.item, 0, (size_t)(r_rows - filled) * b.item);
        }
        if (!out0->numel)
            continue;
        memset(q->data, 0, (size_t)m * (size_t)columns * b.item);
        memcpy(q->data, x, (size_t)m * (size_t)(columns < n ? columns : n) * b.item);
        if (k) {
            orgqr(&m, &columns, &k, q->data, &lda, tau->data, work->data, &lwork, &info);
        } else {
            for (int d = 0; d < m; d++) {
                const double one = 1;
                td_convert(dtype, (char *)q->data + ((int64_t)d * m + d) * (int64_t)b.item, 0, TD_F64, &one, 0, 1);
            }
        }
        size_t bytes = (size_t)m * (size_t)columns * b.item;
        memcpy((char *)out0->data + (size_t)i * bytes, q->data, bytes);
    }
    return 0;
}

/* ---- singular values and eigenvalues */

#define NOT_FINITE "linalg.svd: The algorithm failed to converge because the input matrix contained non-finite values."
/* LAPACK's bdsdc has no end once it meets a NaN, which infinite numbers become when they are scaled. */
enum { FINITE, INFINITE, WITH_NAN };
static int finite_of(td_dtype real, const void *x, int64_t n)
{
    int found = FINITE;
    for (int64_t i = 0; i < n && found != WITH_NAN; i++) {
        const double value = real == TD_F64 ? ((const double *)x)[i] : (double)((const float *)x)[i];
        found = isnan(value) ? WITH_NAN : isinf(value) ? INFINITE : found;
    }
    return found;
}
/* n reals become NaN. */
static void fill_nan(td_dtype real, void *x, int64_t n)
{
    const double nan = NAN;
    td_convert(real, x, (int64_t)td_dtype_size(real), TD_F64, &nan, 0, n);
}

/* Pass 0 queries the work space with the first matrix, pass 1 computes them all.  `own`: 1: LAPACK's gesdd; 0: td_singular() has done
 * it; 2: it didn't converge or, in pass 0, needs no work space here.  Tall and wide matrices stay LAPACK's, which begins with
 * QR there.  U and V^H are columns in out0 and out2. */
int td_cpu__linalg_svd(td_tensor *A, bool full_matrices, bool compute_uv, const char *driver, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    (void)driver;
    td_dtype dtype = (td_dtype)A->dtype, real = td_dtype_to_real(dtype);
    td_lapack_function *gesdd = A->numel ? td_lapack("gesdd", NULL, dtype) : NULL;
    TD_AUTO td_tensor *a = gesdd || !A->numel ? td_columns(A) : NULL;
    if (!a)
        return -1;
    batch b = batch_of(a);
    int m = b.columns, n = b.rows, k = !A->numel ? 0 : m < n ? m : n, lda = at_least_one(m), info = 0, ask = -1;
    const char *job = !compute_uv ? "N" : full_matrices ? "A" : "S";
    int ldvt = at_least_one(full_matrices ? n : k);
    int most = m > n ? m : n;
    bool complex = td_dtype_is_complex(dtype);
    TD_AUTO td_tensor *few = space(2, dtype);
    TD_AUTO td_tensor *integers = space(8 * (int64_t)at_least_one(k), TD_I32);
    TD_AUTO td_tensor *reals = space(at_least_one(k) * (int64_t)(5 * k + 7 + 2 * most + 2 * k + 1), complex ? real : TD_F32);
    if (!few || !integers || !reals)
        return -1;
    size_t real_size = td_dtype_size(real);
    for (int pass = 0, lwork = 0; pass < 2; pass++) {
        TD_AUTO td_tensor *work = pass ? space(lwork, dtype) : td_tensor_retain(few);
        if (!work)
            return -1;
        for (int64_t i = 0; i < (pass ? b.count : 1); i++) {
            char *x = pass ? (char *)a->data + i * b.stride : (char *)a->data;
            char *s = (char *)out1->data + i * k * (int64_t)real_size;
            char *u = (char *)out0->data + (compute_uv ? i * (int64_t)m * (full_matrices ? m : k) * (int64_t)b.item : 0);
            char *vt = (char *)out2->data + (compute_uv ? i * (int64_t)n * (full_matrices ? n : k) * (int64_t)b.item : 0);
            int *size = pass ? &lwork : &ask;
            if (!k)
                continue;
            const bool square = k >= TD_OWN_BANDS && most <= 2 * k;     /* else LAPACK's QR comes first */
            const int own = complex || !square ? 1 : !pass ? 2 : td_singular(dtype, m, n, x, full_matrices, s, compute_uv ? u : NULL, vt);
            if (own < 0)
                return -1;
            const int64_t reals_of = complex ? 2 : 1;
            const int finite = own == 1 && pass ? finite_of(real, x, reals_of * m * n) : FINITE;
            enum { CONQUERED = 25 };        /* larger ones bdsdc divides and conquers, and finds the NaN there */
            if (finite == WITH_NAN || (finite == INFINITE && compute_uv && k > CONQUERED))
                return td_error(TD_E_LINALG, NOT_FINITE);
            if (finite == INFINITE) {
                fill_nan(real, s, k);
                if (compute_uv) {
                    fill_nan(real, u, reals_of * m * (full_matrices ? m : k));
                    fill_nan(real, vt, reals_of * n * (full_matrices ? n : k));
                }
                continue;
            }
            info = pass && own == 2;
            if (own != 1)
                memset(few->data, 0, pass ? 0 : b.item);
            else if (complex)
                gesdd(job, &m, &n, x, &lda, s, u, &lda, vt, &ldvt, work->data, size, reals->data, (int *)integers->data, &info, (size_t)1);
            else
                gesdd(job, &m, &n, x, &lda, s, u, &lda, vt, &ldvt, work->data, size, (int *)integers->data, &info, (size_t)1);
            if (info == -4)
                return td_error(TD_E_LINALG, NOT_FINITE);
            if (info)
                return td_error(TD_E_LINALG, "linalg.svd: The algorithm failed to converge because the input matrix is ill-conditioned or has "
                                "too many repeated singular values (error code: %d).", info);
        }
        if (!k)         /* of any dtype */
            break;
        lwork = (int)answer(few->data, dtype);
    }
    for (int side = 0; side < 2 && !k && compute_uv && full_matrices; side++) {       /* no singular values: U and V are unit matrices */
        td_tensor *out = side ? out2 : out0;
        batch c = batch_of(out);
        const double one = 1;
        memset(out->data, 0, (size_t)out->numel * c.item);
        for (int64_t i = 0; i < c.count; i++)
            for (int d = 0; d < c.rows; d++)
                td_convert(dtype, (char *)out->data + i * c.stride + (int64_t)d * (c.rows + 1) * (int64_t)c.item, 0, TD_F64, &one, 0, 1);
    }
    return 0;
}

static int conjugate_in_place(td_tensor *x)
{
    TD_AUTO td_tensor *conjugate = td_conj_physical(x);
    return conjugate ? td_copy_elements(x, conjugate) : -1;
}

/* A in rows is its transpose in columns: for symmetric matrices the same with the triangles exchanged, so UPLO = 'L' is LAPACK's "U".
 * For Hermitian ones the transpose is the conjugate: it has the same eigenvalues, and eigenvectors whose conjugates are
 * those wanted.  The minimal work space and 64 n more, for blocks. */
int td_cpu__linalg_eigh(td_tensor *A, const char *UPLO, bool compute_v, td_tensor *out0, td_tensor *out1)
{
    td_dtype dtype = (td_dtype)A->dtype;
    bool complex = td_dtype_is_complex(dtype), lower = *UPLO == 'L' || *UPLO == 'l';
    if (!A->numel)
        return 0;
    td_lapack_function *evd = td_lapack("syevd", "heevd", dtype);
    TD_AUTO td_tensor *a = evd ? td_rows(A) : NULL;
    if (!a)
        return -1;
    batch b = batch_of(a);
    int n = b.rows, lda = at_least_one(n), info = 0;
    int64_t n64 = at_least_one(n);
    int64_t want = complex ? 2 * n64 + n64 * n64 + 64 * n64 : 1 + 6 * n64 + 2 * n64 * n64 + 64 * n64;
    int64_t reals_want = compute_v ? 1 + 5 * n64 + 2 * n64 * n64 : n64;       /* complex ones with vectors fit, or are refused before */
    int lwork = want > 2000000000 ? 2000000000 : (int)want, liwork = 3 + 5 * lda, lrwork = complex ? (int)reals_want : 1;
    TD_AUTO td_tensor *work = space(lwork, dtype);
    TD_AUTO td_tensor *integers = space(liwork, TD_I32);
    TD_AUTO td_tensor *reals = space(lrwork, td_dtype_to_real(dtype));
    if (!work || !integers || !reals)
        return -1;
    size_t real_size = td_dtype_size(td_dtype_to_real(dtype));
    for (int64_t i = 0; i < b.count && n; i++) {
        char *x = (char *)a->data + i * b.stride, *w = (char *)out0->data + i * n * (int64_t)real_size;
        const char *job = compute_v ? "V" : "N", *half = lower ? "U" : "L";
        const int own = complex || n < TD_OWN_BANDS ? 1 : td_symmetric(dtype, n, x, lower, compute_v, w);
        if (own < 0)
            return -1;
        info = own == 2;
        if (own != 1)
            ;
        else if (complex)
            evd(job, half, &n, x, &lda, w, work->data, &lwork, reals->data, &lrwork, (int *)integers->data, &liwork, &info, (size_t)1, (size_t)1);
        else
            evd(job, half, &n, x, &lda, w, work->data, &lwork, (int *)integers->data, &liwork, &info, (size_t)1, (size_t)1);
        if (info)
            return td_error(TD_E_LINALG, "linalg.eigh: The algorithm failed to converge because the input matrix is ill-conditioned or has "
                            "too many repeated eigenvalues (error code: %d).", info);
    }
    if (!compute_v)
        return 0;
    return from_columns(out1, a) || (complex && conjugate_in_place(out1)) ? -1 : 0;
}

static bool all_finite(const td_tensor *columns, batch b, td_dtype real)
{
    for (int64_t i = 0; i < b.count; i++) {
        const char *x = (const char *)columns->data + i * b.stride;
        for (int64_t k = 0, n = (int64_t)b.rows * b.rows * (td_dtype_is_complex((td_dtype)columns->dtype) ? 2 : 1); k < n; k++)
            if (!(real == TD_F32 ? isfinite(((const float *)x)[k]) : isfinite(((const double *)x)[k])))
                return false;
    }
    return true;
}

/* Real matrices have conjugate pairs of eigenvectors, which LAPACK returns as real and imaginary part in two columns: those of the
 * value with the positive imaginary part, which comes first.  Results are complex whatever the matrix is. */
int td_cpu__linalg_eig(td_tensor *A, bool compute_v, td_tensor *out0, td_tensor *out1)
{
    td_dtype dtype = (td_dtype)A->dtype;
    bool complex = td_dtype_is_complex(dtype);
    td_lapack_function *geev = td_lapack("geev", NULL, dtype);
    TD_AUTO td_tensor *a = geev ? td_columns(A) : NULL;
    if (!a)
        return -1;
    batch b = batch_of(a);
    int n = b.rows, lda = at_least_one(n), info = 0, lwork = 34 * lda + 64;
    TD_AUTO td_tensor *work = space(lwork, dtype);
    TD_AUTO td_tensor *reals = space(2 * (int64_t)lda, td_dtype_to_real(dtype));
    TD_AUTO td_tensor *wr = space(2 * (int64_t)lda, dtype);
    TD_AUTO td_tensor *v = space((int64_t)lda * lda, dtype);
    if (!work || !reals || !wr || !v)
        return -1;
    /* LAPACK's iteration need not end well with NaN or infinities in the matrix. */
    if (!all_finite(a, b, td_dtype_to_real(dtype)))
        return td_error(TD_E_RUNTIME, "torch.linalg.eig: input tensor should not contain infs or NaNs.");
    const char *job = compute_v ? "V" : "N";
    td_dtype result = (td_dtype)out0->dtype;
    for (int64_t i = 0; i < b.count && n; i++) {
        char *x = (char *)a->data + i * b.stride, *wi = (char *)wr->data + (size_t)n * b.item;
        if (complex)
            geev("N", job, &n, x, &lda, wr->data, v->data, &lda, v->data, &lda, work->data, &lwork, reals->data, &info, (size_t)1, (size_t)1);
        else
            geev("N", job, &n, x, &lda, wr->data, wi, v->data, &lda, v->data, &lda, work->data, &lwork, &info, (size_t)1, (size_t)1);
        if (info)
            return td_error(TD_E_LINALG, "linalg.eig: The algorithm failed to converge because the input matrix is ill-conditioned or has too "
                            "many repeated eigenvalues (error code: %d).", info);
#define READ(pointer, at) (dtype == TD_F32 ? (double)((const float *)(pointer))[at] : ((const double *)(pointer))[at])
#define WRITE(tensor, at, re, im) \
        do { \
            if (result == TD_C64) \
                ((float *)(tensor)->data)[2 * (at)] = (float)(re), ((float *)(tensor)->data)[2 * (at) + 1] = (float)(im); \
            else \
                ((double *)(tensor)->data)[2 * (at)] = (re), ((double *)(tensor)->data)[2 * (at) + 1] = (im); \
        } while (0)
        if (complex)
            memcpy((char *)out0->data + i * n * (int64_t)b.item, wr->data, (size_t)n * b.item);
        else
            for (int k = 0; k < n; k++)
                WRITE(out0, i * n + k, READ(wr->data, k), READ(wi, k));
        if (!compute_v)
            continue;
        for (int k = 0; k < n; k++) {
            double imag = complex ? 0 : READ(wi, k);
            for (int row = 0; row < n; row++) {
                int64_t to = (i * n + k) * n + row;
                if (complex) {
                    memcpy((char *)out1->data + to * (int64_t)b.item, (char *)v->data + ((int64_t)k * n + row) * (int64_t)b.item, b.item);
                } else if (imag > 0) {
                    WRITE(out1, to, READ(v->data, (int64_t)k * n + row), READ(v->data, (int64_t)(k + 1) * n + row));
                } else if (imag < 0) {
                    WRITE(out1, to, READ(v->data, (int64_t)(k - 1) * n + row), -READ(v->data, (int64_t)k * n + row));
                } else {
                    WRITE(out1, to, READ(v->data, (int64_t)k * n + row), 0.0);
                }
            }
        }
    }
    return 0;
}

/* ---- least squares: by singular values, or faster, by QR with pivots, neither of which needs a full rank; or by QR alone */

/* gels of one matrix.  A number that isn't finite has no norm to scale by, so that the result is NaN without its help. */
static int solve_full_rank(td_lapack_function *gels, int64_t element, td_dtype dtype, char *a, int m, int n, int k, char *x, int most, void *work, int *size)
{
    const int64_t parts = td_dtype_is_complex(dtype) ? 2 : 1;
    const td_dtype real = td_dtype_to_real(dtype);
    int info = 0, lda = at_least_one(m);
    if (*size >= 0 && finite_of(real, a, (int64_t)m * n * parts) != FINITE) {
        for (int64_t i = 0; i < (int64_t)most * k * parts; i++)
            if (real == TD_F32)
                ((float *)x)[i] = NAN;
            else
                ((double *)x)[i] = NAN;
        return 0;
    }
    gels("N", &m, &n, &k, a, &lda, x, &most, work, size, &info, (size_t)1);
    return !info ? 0 : td_error(TD_E_LINALG, "torch.linalg.lstsq: (Batch element %lld): The least squares solution could not be computed because "
                                "the input matrix does not have full rank (error code: %d).", (long long)element, info);
}

/* gelsd goes by singular values, which are out2, gelsy by QR with pivots, gels by QR.  LAPACK's x has max(m, n) rows per column: B goes
 * in with m of them, X comes out with n. */
int td_cpu__linalg_lstsq(td_tensor *A, td_tensor *B, double rcond, int64_t method, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    static const char *const routines[] = {[TD_LSTSQ_GELS] = "gels", [TD_LSTSQ_GELSY] = "gelsy", [TD_LSTSQ_GELSD] = "gelsd"};
    const bool values = method == TD_LSTSQ_GELSD, full = method == TD_LSTSQ_GELS;
    td_dtype dtype = (td_dtype)A->dtype;
    td_lapack_function *solve = td_lapack(routines[method], NULL, dtype);
    TD_AUTO td_tensor *a = solve ? td_columns(A) : NULL;
    if (!a)
        return -1;
    batch b = batch_of(a);
    bool complex = td_dtype_is_complex(dtype);
    int m = b.columns, n = b.rows, k = (int)B->sizes[B->ndim - 1], given = at_least_one(k), least = m < n ? m : n, most = at_least_one(m > n ? m : n);
    int info = 0, ask = -1, lda = at_least_one(m);
    TD_AUTO td_tensor *b_rows = td_columns(B);
    TD_AUTO td_tensor *x = space((int64_t)most * at_least_one(k), dtype);
    TD_AUTO td_tensor *few = space(2, dtype);
    TD_AUTO td_tensor *integers = space(64 * (int64_t)most + 64, TD_I32);
    TD_AUTO td_tensor *reals = space(complex ? 10 * (int64_t)most + 50 * most + 8 * (int64_t)most * 32 + 3 * 26 * (int64_t)at_least_one(k) + 26 * 26 +
                                               (int64_t)most * (1 + k) + 2 * (int64_t)k : 1, td_dtype_to_real(dtype));
    if (!b_rows || !x || !few || !integers || !reals)
        return -1;
    float rc = (float)rcond;
    const void *limit = dtype == TD_F32 || dtype == TD_C64 ? (const void *)&rc : (const void *)&rcond;
    size_t real_size = td_dtype_size(td_dtype_to_real(dtype));
    int64_t *rank = (int64_t *)out1->data;
    for (int pass = 0, lwork = 0; pass < 2; pass++) {
        TD_AUTO td_tensor *work = pass ? space(lwork, dtype) : td_tensor_retain(few);
        if (!work)
            return -1;
        for (int64_t i = 0; i < (pass ? b.count : 1); i++) {
            int r = 0, *size = pass ? &lwork : &ask;
            if (pass) {
                memset(x->data, 0, (size_t)most * (size_t)at_least_one(k) * b.item);
                for (int column = 0; column < k; column++)
                    memcpy((char *)x->data + (size_t)column * (size_t)most * b.item,
                           (char *)b_rows->data + ((size_t)i * (size_t)k + (size_t)column) * (size_t)m * b.item, (size_t)m * b.item);
            }
            char *s = (char *)out2->data + i * least * (int64_t)real_size, *from = (char *)a->data + i * b.stride;
            int *const places = (int *)integers->data;     /* gelsy: where a column went; 0: it may go anywhere */
            if (pass && !values) {
                memset(places, 0, (size_t)n * sizeof *places);
                memset(s, 0, (size_t)least * real_size);
            }
            if (pass && values && finite_of(td_dtype_to_real(dtype), from, (int64_t)m * n * (complex ? 2 : 1)) != FINITE)
                return td_error(TD_E_LINALG, "torch.linalg.lstsq: (Batch element %lld): The least squares problem could not be solved because the "
                                "input matrix contained non-finite values.", (long long)i);
            if (least && full && solve_full_rank(solve, i, dtype, from, m, n, given, x->data, most, work->data, size))
                return -1;
            if (least && full)
                r = least;
            else if (least && !values && complex)
                solve(&m, &n, &given, from, &lda, x->data, &most, places, limit, &r, work->data, size, reals->data, &info);
            else if (least && !values)
                solve(&m, &n, &given, from, &lda, x->data, &most, places, limit, &r, work->data, size, &info);
            else if (least && complex)
                solve(&m, &n, &given, from, &lda, x->data, &most, s, limit, &r, work->data, size, reals->data, places, &info);
            else if (least)
                solve(&m, &n, &given, from, &lda, x->data, &most, s, limit, &r, work->data, size, places, &info);
            if (info)
                return td_error(TD_E_RUNTIME, "torch.linalg.lstsq: (Batch element %lld): The least squares problem could not be solved because the "
                                "input matrix does not have full rank (error code: %d).", (long long)i, info);
            if (!pass)
                continue;
            rank[i] = r;
            for (int column = 0; column < k; column++)
                memcpy((char *)out0->data + (i * k + column) * most * (int64_t)b.item,
                       (char *)x->data + (int64_t)column * most * (int64_t)b.item, (size_t)n * b.item);
        }
        lwork = least ? (int)answer(few->data, dtype) : 1;
    }
    return 0;
}
