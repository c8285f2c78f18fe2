/* cuSOLVER: factorizations of matrices in columns by textbook algorithms in double precision; eigenvalues and singular values by Jacobi's rotations.
 *
 * What may hold anything afterwards is spoilt: the workspace, the triangle that isn't read, what is overwritten by no result. */
#include "fake.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WRONG = 3, NUMBERS = 50 };
typedef struct handle { CUcontext context; CUstream stream; } *handle;
/* A call, of `kind`: c potrf, l getrf, s getrs, q geqrf, o orgqr, e syevd, v gesvd. */
typedef struct job { char kind, jobs; int type, m, n, k, numbers, upper, vectors; char *a, *b, *values, *vt, *work; int *pivots, *info; } job;

int cusolverDnCreate(handle *h)
{
    ENTER(true);
    *h = malloc(sizeof **h);
    **h = (struct handle){.context = fake_current};
    return 0;
}
int cusolverDnDestroy(handle h) { return free(h), 0; }
int cusolverDnSetStream(handle h, CUstream s) { ENTER(true); return h->stream = s, fake_stream_of(s) ? 0 : WRONG; }

static double *load(const job *j, const char *at, size_t n)
{
    double *x = malloc((n ? n : 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = fake_load(j->type, at, (long long)i);
    return x;
}
static void store(const job *j, char *at, const double *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fake_store(j->type, at, (long long)i, x[i]);
}
#define A(r, c) a[(size_t)(c) * (size_t)m + (size_t)(r)]

static int cholesky(double *a, int m, int upper)
{
    int info = 0;
    for (int c = 0; c < m && !info; c++)
        for (int r = c; r < m && !info; r++) {
            double sum = upper ? A(c, r) : A(r, c);
            for (int k = 0; k < c; k++)
                sum -= upper ? A(k, r) * A(k, c) : A(r, k) * A(c, k);
            if (r == c && !(sum > 0))
                info = c + 1;
            else if (upper)
                A(c, r) = r == c ? sqrt(sum) : sum / A(c, c);
            else
                A(r, c) = r == c ? sqrt(sum) : sum / A(c, c);
        }
    for (int c = 0; c < m; c++)
        for (int r = 0; r < m; r++)
            if (upper ? r > c : r < c)
                A(r, c) = 99;
    return info;
}

static int lu(double *a, int m, int n, int *pivots)
{
    int info = 0;
    for (int k = 0; k < (m < n ? m : n); k++) {
        int best = k;
        for (int r = k + 1; r < m; r++)
            best = fabs(A(r, k)) > fabs(A(best, k)) ? r : best;
        pivots[k] = best + 1;
        for (int c = 0; c < n; c++) {
            const double x = A(k, c);
            A(k, c) = A(best, c), A(best, c) = x;
        }
        if (A(k, k) == 0 && !info)
            info = k + 1;
        for (int r = k + 1; r < m && A(k, k) != 0; r++) {
            A(r, k) /= A(k, k);
            for (int c = k + 1; c < n; c++)
                A(r, c) -= A(r, k) * A(k, c);
        }
    }
    return info;
}

static void solve(const double *a, int m, const int *pivots, double *b)
{
    for (int r = 0; r < m; r++) {
        const double x = b[r];
        b[r] = b[pivots[r] - 1], b[pivots[r] - 1] = x;
    }
    for (int r = 0; r < m; r++)
        for (int c = 0; c < r; c++)
            b[r] -= A(r, c) * b[c];
    for (int r = m - 1; r >= 0; b[r] /= A(r, r), r--)
        for (int c = r + 1; c < m; c++)
            b[r] -= A(r, c) * b[c];
}

/* I - tau v v', v's first number is 1, the others are below the diagonal. */
static void reflect(const double *v, double tau, double *x, int n)
{
    double sum = x[0];
    for (int i = 1; i < n; i++)
        sum += v[i] * x[i];
    for (int i = 0; i < n; i++)
        x[i] -= tau * sum * (i ? v[i] : 1);
}
static void qr(double *a, int m, int n, double *tau)
{
    for (int k = 0; k < (m < n ? m : n); k++) {
        double length = 0;
        for (int r = k; r < m; r++)
            length += A(r, k) * A(r, k);
        length = sqrt(length);
        const double first = A(k, k), beta = first > 0 ? -length : length;
        tau[k] = k == m - 1 || length == 0 ? 0 : (beta - first) / beta;
        for (int r = k + 1; r < m && tau[k] != 0; r++)
            A(r, k) /= first - beta;
        for (int c = k + 1; c < n; c++)
            reflect(&A(k, k), tau[k], &A(k, c), m - k);
        A(k, k) = tau[k] != 0 ? beta : first;
    }
}
static void make_q(double *a, int m, int columns, int reflectors, const double *tau)
{
    double *q = calloc((size_t)m * (size_t)columns, sizeof *q);
    for (int c = 0; c < columns; c++) {
        q[(size_t)c * (size_t)m + (size_t)c] = 1;
        for (int k = reflectors - 1; k >= 0; k--)
            reflect(&A(k, k), tau[k], q + (size_t)c * (size_t)m + k, m - k);
    }
    memcpy(a, q, (size_t)m * (size_t)columns * sizeof *a);
    free(q);
}

/* Rotates columns p and q of x. */
static void rotate(double *x, int m, int p, int q, double c, double s)
{
    for (int r = 0; r < m; r++) {
        double *a = x + (size_t)p * (size_t)m + r, *b = x + (size_t)q * (size_t)m + r, old = *a;
        *a = c * old - s * *b, *b = s * old + c * *b;
    }
}
/* One-sided: rotates columns of a (m x n) until they are orthogonal, and v with them. */
static void orthogonalize(double *a, int m, int n, double *v)
{
    for (int sweep = 0; sweep < 60; sweep++)
        for (int p = 0; p < n; p++)
            for (int q = p + 1; q < n; q++) {
                double pp = 0, qq = 0, pq = 0;
                for (int r = 0; r < m; r++)
                    pp += A(r, p) * A(r, p), qq += A(r, q) * A(r, q), pq += A(r, p) * A(r, q);
                if (fabs(pq) < 1e-300)
                    continue;
                const double zeta = (qq - pp) / (2 * pq), t = (zeta >= 0 ? 1 : -1) / (fabs(zeta) + sqrt(1 + zeta * zeta)), c = 1 / sqrt(1 + t * t);
                rotate(a, m, p, q, c, c * t);
                rotate(v, n, p, q, c, c * t);
            }
}
static double *unit(int n)
{
    double *v = calloc((size_t)n * (size_t)n, sizeof *v);
    for (int i = 0; i < n; i++)
        v[(size_t)i * (size_t)(n + 1)] = 1;
    return v;
}
/* A symmetric matrix is made positive by a shift: then its columns' lengths are its eigenvalues, and the rotations its vectors. */
static void eigen(double *a, int m, double *values)
{
    double shift = 0, *v = unit(m), *x = malloc((size_t)m * (size_t)m * sizeof *x);
    for (int i = 0; i < m * m; i++)
        shift += fabs(a[i]);
    for (int i = 0; i < m; i++)
        A(i, i) += shift + 1;
    orthogonalize(a, m, m, v);
    int *order = malloc((size_t)m * sizeof *order);
    for (int c = 0; c < m; c++) {
        double sum = 0;
        for (int r = 0; r < m; r++)
            sum += A(r, c) * A(r, c);
        int at = c;
        for (; at > 0 && values[at - 1] > sqrt(sum) - shift - 1; at--)
            values[at] = values[at - 1], order[at] = order[at - 1];
        values[at] = sqrt(sum) - shift - 1, order[at] = c;
    }
    for (int c = 0; c < m; c++)
        memcpy(x + (size_t)c * (size_t)m, v + (size_t)order[c] * (size_t)m, (size_t)m * sizeof *x);
    memcpy(a, x, (size_t)m * (size_t)m * sizeof *a);
    free(order), free(v), free(x);
}
/* u: m x columns. */
static void singular(double *a, int m, int n, double *values, double *u, int columns, double *vt)
{
    double *v = unit(n);
    int *order = malloc((size_t)n * sizeof *order), filled = 0;
    orthogonalize(a, m, n, v);
    for (int c = 0; c < n; c++) {
        double sum = 0;
        for (int r = 0; r < m; r++)
            sum += A(r, c) * A(r, c);
        int at = c;
        for (; at > 0 && values[at - 1] < sqrt(sum); at--)
            values[at] = values[at - 1], order[at] = order[at - 1];
        values[at] = sqrt(sum), order[at] = c;
    }
    for (int c = 0; c < n; c++)
        for (int r = 0; r < n; r++)
            vt[(size_t)r * (size_t)n + (size_t)c] = v[(size_t)order[c] * (size_t)n + (size_t)r];
    /* What is missing to `columns`: unit vectors without their parts along those before. */
    for (int c = 0, next = 0; c < columns; c++, filled++) {
        double *to = u + (size_t)c * (size_t)m, length = c < n ? values[c] : 0;
        for (int r = 0; r < m && length > 1e-12; r++)
            to[r] = A(r, order[c]) / length;
        while (length <= 1e-12) {
            memset(to, 0, (size_t)m * sizeof *to);
            to[next++] = 1;
            for (int pass = 0; pass < 2; pass++)
                for (int k = 0; k < filled; k++) {
                    double dot = 0;
                    for (int r = 0; r < m; r++)
                        dot += to[r] * u[(size_t)k * (size_t)m + (size_t)r];
                    for (int r = 0; r < m; r++)
                        to[r] -= dot * u[(size_t)k * (size_t)m + (size_t)r];
                }
            length = 0;
            for (int r = 0; r < m; r++)
                length += to[r] * to[r];
            length = length < 1e-6 ? 0 : sqrt(length);
            for (int r = 0; r < m && length > 0; r++)
                to[r] /= length;
        }
    }
    free(order), free(v);
}

/* As LAPACK reports numbers that are none: rotations never end there. */
static bool converged(const double *values, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

static void run(void *context)
{
    job *j = context;
    const int m = j->m, n = j->n;
    const size_t all = (size_t)m * (size_t)n;
    double *a = load(j, j->a, j->kind == 'o' ? (size_t)m * (size_t)j->k : all), *values = calloc((size_t)(m > n ? m : n) + 1, sizeof *values);
    int info = 0;
    switch (j->kind) {
    case 'c': info = cholesky(a, m, j->upper), store(j, j->a, a, all); break;
    case 'l': info = lu(a, m, n, j->pivots), store(j, j->a, a, all); break;
    case 's':
        for (int c = 0; c < j->k; c++) {
            const size_t at = (size_t)c * (size_t)m * (j->type ? 8 : 4);
            double *b = load(j, j->b + at, (size_t)m);
            solve(a, m, j->pivots, b);
            store(j, j->b + at, b, (size_t)m);
            free(b);
        }
        break;
    case 'q': qr(a, m, n, values), store(j, j->a, a, all), store(j, j->values, values, (size_t)(m < n ? m : n)); break;
    case 'o': {
        double *tau = load(j, j->values, (size_t)n);
        make_q(a, m, j->k, n, tau);
        store(j, j->a, a, (size_t)m * (size_t)j->k);
        free(tau);
        break;
    }
    case 'e':
        for (int c = 0; c < m; c++)                     /* the other triangle isn't read */
            for (int r = c + 1; r < m; r++)
                *(j->upper ? &A(r, c) : &A(c, r)) = j->upper ? A(c, r) : A(r, c);
        eigen(a, m, values);
        info = converged(values, m) ? 0 : 1;
        for (size_t i = 0; i < all && !j->vectors; i++)
            a[i] = 99;
        store(j, j->a, a, all), store(j, j->values, values, (size_t)m);
        break;
    case 'v': {
        const int columns = j->jobs == 'A' ? m : n;
        double *u = calloc((size_t)m * (size_t)m, sizeof *u), *vt = calloc((size_t)n * (size_t)n, sizeof *vt);
        singular(a, m, n, values, u, columns, vt);
        info = converged(values, n) ? 0 : 1;
        store(j, j->values, values, (size_t)n);
        if (j->jobs != 'N')
            store(j, j->b, u, (size_t)m * (size_t)columns), store(j, j->vt, vt, (size_t)n * (size_t)n);
        for (size_t i = 0; i < all; i++)
            a[i] = 99;
        store(j, j->a, a, all);
        free(u), free(vt);
        break;
    }
    }
    *j->info = info;
    if (j->work)
        memset(j->work, 0xEE, NUMBERS * (j->type ? 8 : 4));
    free(a), free(values), free(j);
}

/* Addresses of so many numbers (or ints) that must be the device's. */
static int ask(handle h, job j)
{
    CUstream s = h->context == fake_current ? fake_stream_of(h->stream) : NULL;
    const size_t item = j.type ? 8 : 4, m = (size_t)j.m, n = (size_t)j.n, k = (size_t)j.k, least = m < n ? m : n, u = j.jobs == 'A' ? m : n;
    const bool vectors = j.kind == 'v' && j.jobs != 'N';
    struct { const void *at; size_t bytes; } places[] = {
        {j.a, item * m * (j.kind == 'o' ? k : n)}, {j.info, 4}, {j.work, j.work ? item * NUMBERS : 0}, {j.pivots, j.pivots ? 4 * least : 0},
        {j.b, j.kind == 's' ? item * m * k : vectors ? item * m * u : 0}, {j.vt, vectors ? item * n * n : 0}, {j.values, j.values ? item * least : 0}};
    if (!s || j.m < 1 || j.n < 1 || (j.work && j.numbers < NUMBERS) || (j.kind == 'v' && j.m < j.n))
        return WRONG;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].bytes && !fake_place((CUdeviceptr)(uintptr_t)places[i].at, places[i].bytes, fake_current->device))
            return WRONG;
    job *copy = malloc(sizeof *copy);
    *copy = j;
    operation *o = fake_ask(s, OTHER);
    o->work = run, o->context = copy;
    fake_counts[FACTORS]++;
    return 0;
}

#define PLACE(p) ((char *)(uintptr_t)(p))
#define FUNCTIONS(S, T, TYPE)                                                                                                                                  \
    int cusolverDn##S##potrf_bufferSize(handle h, int upper, int n, T *a, int lda, int *size) { ENTER(true); return (void)h, (void)upper, (void)a, *size = NUMBERS, n == lda ? 0 : WRONG; } \
    int cusolverDn##S##getrf_bufferSize(handle h, int m, int n, T *a, int lda, int *size) { ENTER(true); return (void)h, (void)n, (void)a, *size = NUMBERS, m == lda ? 0 : WRONG; } \
    int cusolverDn##S##geqrf_bufferSize(handle h, int m, int n, T *a, int lda, int *size) { ENTER(true); return (void)h, (void)n, (void)a, *size = NUMBERS - 9, m == lda ? 0 : WRONG; } \
    int cusolverDn##S##orgqr_bufferSize(handle h, int m, int n, int k, const T *a, int lda, const T *tau, int *size) { ENTER(true); return (void)h, (void)a, (void)tau, *size = NUMBERS, m == lda && k <= n ? 0 : WRONG; } \
    int cusolverDn##S##syevd_bufferSize(handle h, int v, int upper, int n, const T *a, int lda, const T *w, int *size) { ENTER(true); return (void)h, (void)v, (void)upper, (void)a, (void)w, *size = NUMBERS, n == lda ? 0 : WRONG; } \
    int cusolverDn##S##gesvd_bufferSize(handle h, int m, int n, int *size) { ENTER(true); return (void)h, *size = NUMBERS, m >= n ? 0 : WRONG; }                 \
    int cusolverDn##S##potrf(handle h, int upper, int n, T *a, int lda, T *work, int size, int *info)                                                          \
    { ENTER(true); return n != lda ? WRONG : ask(h, (job){.kind = 'c', .type = TYPE, .m = n, .n = n, .a = PLACE(a), .upper = upper, .work = PLACE(work), .numbers = size, .info = info}); } \
    int cusolverDn##S##getrf(handle h, int m, int n, T *a, int lda, T *work, int *pivots, int *info)                                                           \
    { ENTER(true); return m != lda ? WRONG : ask(h, (job){.kind = 'l', .type = TYPE, .m = m, .n = n, .a = PLACE(a), .work = PLACE(work), .numbers = NUMBERS, .pivots = pivots, .info = info}); } \
    int cusolverDn##S##getrs(handle h, int transposed, int n, int k, const T *a, int lda, const int *pivots, T *b, int ldb, int *info)                         \
    { ENTER(true); return transposed || n != lda || n != ldb ? WRONG                                                                                           \
        : ask(h, (job){.kind = 's', .type = TYPE, .m = n, .n = n, .k = k, .a = PLACE(a), .b = PLACE(b), .pivots = (int *)(uintptr_t)pivots, .info = info}); }  \
    int cusolverDn##S##geqrf(handle h, int m, int n, T *a, int lda, T *tau, T *work, int size, int *info)                                                      \
    { ENTER(true); return m != lda ? WRONG : ask(h, (job){.kind = 'q', .type = TYPE, .m = m, .n = n, .a = PLACE(a), .values = PLACE(tau), .work = PLACE(work), .numbers = size + 9, .info = info}); } \
    int cusolverDn##S##orgqr(handle h, int m, int n, int k, T *a, int lda, const T *tau, T *work, int size, int *info)                                         \
    { ENTER(true); return m != lda || n > m ? WRONG                                                                                                            \
        : ask(h, (job){.kind = 'o', .type = TYPE, .m = m, .n = k, .k = n, .a = PLACE(a), .values = PLACE(tau), .work = PLACE(work), .numbers = size, .info = info}); } \
    int cusolverDn##S##syevd(handle h, int vectors, int upper, int n, T *a, int lda, T *w, T *work, int size, int *info)                                       \
    { ENTER(true); return n != lda ? WRONG : ask(h, (job){.kind = 'e', .type = TYPE, .m = n, .n = n, .a = PLACE(a), .values = PLACE(w), .upper = upper, .vectors = vectors, \
                                                          .work = PLACE(work), .numbers = size, .info = info}); }                                              \
    int cusolverDn##S##gesvd(handle h, signed char jobu, signed char jobvt, int m, int n, T *a, int lda, T *s, T *u, int ldu, T *vt, int ldvt, T *work, int size, T *rest, int *info) \
    { ENTER(true); return (void)rest, m != lda || m != ldu || n != ldvt || jobu != jobvt ? WRONG                                                               \
        : ask(h, (job){.kind = 'v', .jobs = (char)jobu, .type = TYPE, .m = m, .n = n, .a = PLACE(a), .values = PLACE(s), .b = PLACE(u), .vt = PLACE(vt),       \
                       .work = PLACE(work), .numbers = size, .info = info}); }
FUNCTIONS(S, float, 0)
FUNCTIONS(D, double, 1)
