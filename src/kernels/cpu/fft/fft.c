/* Fourier transforms of tensors (fft, ifft, rfft, irfft in any number of dimensions): one dimension after the other.
 *
 * Lines of the last of the given dimensions may be real, with half as many complex numbers: from real to complex it goes first,
 * back from complex to real last.  The factor of the normalization is applied once, in the last pass.
 *
 * Plans (powers of the root of unity, chirps) cost more than a short transform does, so the last few are kept in a small cache. */

#include "calls_kernels_cpu_fft_fft.h"
#include <math.h>
#include <pthread.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "kernels/cpu/fft/fft.h"

/* ---- plans */

static int64_t n_blocks(const td_fft_plan *p) { return (p->rows->n + TD_FFT_BLOCK - 1) / TD_FFT_BLOCK; }

/* The cache and everyone who computes with a plan have a reference each, so a plan that leaves the cache lives until its last
 * transform has ended. */
static void drop_plan(td_fft_plan *p)
{
    if (!p || __atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL))
        return;
    size_t item = p->wide ? 16 : 8;
    td_mem_free(p->roots, (size_t)p->n * item);
    td_mem_free(p->chirp, (size_t)p->n * item);
    if (p->inner)
        td_mem_free(p->filter, (size_t)p->inner->n * item);
    if (p->fine)
        td_mem_free(p->fine, (size_t)(p->columns->n * TD_FFT_BLOCK) * item);
    if (p->coarse)
        td_mem_free(p->coarse, (size_t)(p->columns->n * n_blocks(p)) * item);
    td_mem_free(p->half_roots, p->half ? (size_t)p->half->n * item : 0);
    drop_plan(p->half);
    drop_plan(p->inner);
    drop_plan(p->columns);
    drop_plan(p->rows);
    td_mem_free(p, sizeof *p);
}

/* scale * exp(-2 pi i k / n), 0 <= k < n, to element `at` of real and imaginary parts: within a quarter turn, where it is most exact. */
static void store(void *re, void *im, int64_t at, int64_t k, int64_t n, double scale, bool wide)
{
    int64_t quarter = 4 * k / n;
    double angle = 2 * M_PI * ((double)(4 * k - quarter * n) / (4 * (double)n)), c = scale * cos(angle), s = scale * -sin(angle);
    for (; quarter; quarter--) {        /* times -i */
        double t = c;
        c = s, s = -t;
    }
    if (wide)
        ((double *)re)[at] = c, ((double *)im)[at] = s;
    else
        ((float *)re)[at] = (float)c, ((float *)im)[at] = (float)s;
}
static void store_number(void *to, int64_t at, int64_t k, int64_t n, double scale, bool wide)
{
    store(to, (char *)to + (wide ? 8 : 4), 2 * at, k, n, scale, wide);
}
static void store_conjugate(void *to, int64_t at, int64_t k, int64_t n, double scale, bool wide)
{
    store_number(to, at, k ? n - k : 0, n, scale, wide);
}

static td_fft_plan *make_plan(int64_t n, bool wide, bool split);

/* n1 * n2 with n1 as near to the root of n as it gets.  Number k of column j meets the root to the power of k j, the product of a fine
 * and a coarse factor: n1 (TD_FFT_BLOCK + n2 / TD_FFT_BLOCK) of them stay in the cache where n wouldn't.  An n whose factors are
 * too unequal stays in one piece. */
static int add_columns(td_fft_plan *p)
{
    int64_t n = p->n, n1 = 1;
    size_t item = p->wide ? 16 : 8;
    for (int64_t d = 2; d * d <= n; d++)
        n1 = n % d ? n1 : d;
    if (n1 < TD_FFT_BLOCK)
        return 0;
    if (!(p->columns = make_plan(n1, p->wide, false)) || !(p->rows = make_plan(n / n1, p->wide, false)) ||
        !(p->fine = td_mem_alloc((size_t)(n1 * TD_FFT_BLOCK) * item)) || !(p->coarse = td_mem_alloc((size_t)(n1 * n_blocks(p)) * item)))
        return -1;
    for (int64_t k = 0; k < n1; k++) {
        char *re = (char *)p->fine + (size_t)(k * TD_FFT_BLOCK) * item, *im = re + TD_FFT_BLOCK * item / 2;
        for (int64_t j = 0; j < TD_FFT_BLOCK; j++)
            store(re, im, j, k * j % n, n, 1, p->wide);
        for (int64_t b = 0; b < n_blocks(p); b++)
            store_number(p->coarse, k * n_blocks(p) + b, k * b * TD_FFT_BLOCK % n, n, 1, p->wide);
    }
    p->bytes += (size_t)(n1 * (TD_FFT_BLOCK + n_blocks(p))) * item + p->columns->bytes + p->rows->bytes;
    return 0;
}

/* The shortest of 2^k times 1, 3, 5, 9 or 15 from m on. */
static int64_t smooth(int64_t m)
{
    int64_t best = INT64_MAX;
    for (const char *odd = "\1\3\5\11\17"; *odd; odd++) {
        int64_t length = *odd;
        while (length < m)
            length *= 2;
        best = length < best ? length : best;
    }
    return best;
}

static void run_tasks(td_fft_job *job);

/* Real lines of an even number of elements are lines of half as many complex ones. */
static td_fft_plan *make_real_plan(int64_t n, bool wide)
{
    td_fft_plan *p = td_mem_alloc(sizeof *p);
    const size_t bytes = (size_t)(n / 2) * (wide ? 16 : 8);
    if (!p)
        return NULL;
    *p = (td_fft_plan){.n = n, .wide = wide, .real = true, .references = 1, .half = make_plan(n / 2, wide, true)};
    if (!p->half || !(p->half_roots = td_mem_alloc(bytes))) {
        drop_plan(p);
        return NULL;
    }
    for (int64_t k = 0; k < n / 2; k++)
        store_number(p->half_roots, k, k, n, 1, wide);
    p->bytes = sizeof *p + bytes + p->half->bytes;
    return p;
}

static td_fft_plan *make_plan(int64_t n, bool wide, bool split)
{
    td_fft_plan *p = td_mem_alloc(sizeof *p);
    size_t item = wide ? 16 : 8;
    if (!p)
        return NULL;
    *p = (td_fft_plan){.n = n, .wide = wide, .references = 1, .bytes = sizeof *p};
    int64_t rest = n;
    for (; rest % 32 == 0 || (rest % 8 == 0 && rest % 16); rest /= 8)       /* fours are left, not twos */
        p->factors[p->n_factors++] = 8;
    for (int r = 4; r <= TD_FFT_RADIX && rest > 1; r = r == 4 ? 2 : r == 2 ? 3 : r + 2)
        while (rest % r == 0) {
            p->factors[p->n_factors++] = r;
            rest /= r;
        }
    if (rest == 1) {
        if (split && n >= TD_FFT_SPLIT && add_columns(p))
            goto fail;
        if (p->columns && n > TD_FFT_SIDE)
            return p;
        if (!(p->roots = td_mem_alloc((size_t)n * item)))
            goto fail;
        for (int64_t k = 0; k < n; k++)
            store_number(p->roots, k, k, n, 1, wide);
        p->bytes += (size_t)n * item;
        return p;
    }
    int64_t m = smooth(2 * n - 1);
    p->inner = make_plan(m, wide, true);
    p->chirp = td_mem_alloc((size_t)n * item);
    if (!p->inner || !p->chirp || !(p->filter = td_mem_alloc((size_t)m * item)))
        goto fail;
    memset(p->filter, 0, (size_t)m * item);
    for (int64_t k = 0; k < n; k++) {
        int64_t square = (int64_t)((unsigned __int128)k * (unsigned __int128)k % (unsigned __int128)(2 * n));
        store_number(p->chirp, k, square, 2 * n, 1, wide);
        store_conjugate(p->filter, k, square, 2 * n, 1 / (double)m, wide);
        if (k)
            store_conjugate(p->filter, m - k, square, 2 * n, 1 / (double)m, wide);
    }
    /* The filter's own transform: a job of one line over it. */
    td_fft_job job = {.plan = p->inner, .from = p->filter, .to = p->filter, .inner = 1, .n_from = m, .n_to = m, .lines = 1, .forward = true,
                      .scale = 1};
    run_tasks(&job);
    if (job.failed)
        goto fail;
    p->bytes += p->inner->bytes + (size_t)(n + m) * item;
    return p;
fail:
    drop_plan(p);
    return NULL;
}

/* Side by side, alone, or by columns and rows: as the shape says, so that results don't depend on the threads.  Fewer than three lines
 * would leave most lanes of a vector empty; lines that can be cut fill vectors themselves, so they need eight to go side by
 * side.  A task has some 2^16 / 8 numbers at least. */
static void run_tasks(td_fft_job *job)
{
    const td_fft_plan *plan = job->plan, *some = plan->half ? plan->half : plan, *whole = some->inner ? some->inner : some;
    const int64_t columns = whole->columns ? whole->columns->n : 0;
    /* A contiguous line whose columns and rows fill vectors stays in the first cache alone; one with a chirp has passes of its own. */
    const bool full = columns && !some->inner && job->inner == 1 && columns % TD_FFT_BLOCK == 0 && whole->rows->n % TD_FFT_BLOCK == 0;
    job->scratch = (whole->n > plan->n ? whole->n : plan->n) + columns;
    job->split_scratch = columns ? whole->rows->n : 0;
    job->side = whole->n <= TD_FFT_SIDE && !full && job->lines >= (columns ? 8 : 3);
    int64_t tasks = job->side ? (job->lines + TD_FFT_BLOCK - 1) / TD_FFT_BLOCK : job->lines;
    int64_t size = 8 * plan->n * (job->side ? TD_FFT_BLOCK : 1);
    td_parallel_for(0, tasks, 1 + 65536 / size, TD_ISA_PICK(td_fft_table)->tasks[plan->wide], job);
}

/* The last few plans, together at most four megabytes. */
enum { KEPT = 8, KEPT_BYTES = 4 << 20 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static td_fft_plan *kept[KEPT];

/* A reference to a plan of that length; NULL without memory.  Plans are made outside of the lock: two threads may make the same one,
 * and both are right.  One that is larger than the cache isn't kept. */
static td_fft_plan *find_plan(int64_t n, bool wide, bool real)
{
    td_fft_plan *found = NULL, *dropped[KEPT + 1] = {NULL};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && kept[i] && !found; i++)
        if (kept[i]->n == n && kept[i]->wide == wide && kept[i]->real == real)
            __atomic_add_fetch(&(found = kept[i])->references, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    if (found || !(found = real ? make_real_plan(n, wide) : make_plan(n, wide, true)) || found->bytes > KEPT_BYTES)
        return found;
    pthread_mutex_lock(&lock);
    size_t total = found->bytes;
    int last = 0, n_dropped = 0;
    for (int i = 0; i < KEPT && kept[i]; i++) {
        total += kept[i]->bytes;
        if (total > KEPT_BYTES || i == KEPT - 1)
            dropped[n_dropped++] = kept[i], kept[i] = NULL;
        else
            last = i + 1;
    }
    memmove(kept + 1, kept, sizeof *kept * (size_t)last);
    kept[0] = found;
    __atomic_add_fetch(&found->references, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < n_dropped; i++)
        drop_plan(dropped[i]);
    return found;
}

/* ---- one dimension of contiguous tensors */

/* Lines along `dim` of contiguous tensors, whose other sizes are the same; `from` may be `to`: a task reads its lines before it writes. */
static int run(td_tensor *from, td_fft_end from_end, td_tensor *to, td_fft_end to_end, int dim, int64_t n, bool forward, double scale)
{
    if (!to->numel)
        return 0;
    bool wide = to->dtype == TD_F64 || to->dtype == TD_C128;
    const bool real = from_end == TD_FFT_REAL || to_end == TD_FFT_REAL;
    td_fft_plan *plan = find_plan(n, wide, real && n % 2 == 0);
    if (!plan)
        return -1;
    td_fft_job job = {.plan = plan, .from = from->data, .to = to->data, .inner = 1, .n_from = from->sizes[dim], .n_to = to->sizes[dim],
                      .from_end = from_end, .to_end = to_end, .forward = forward, .scale = scale, .lines = to->numel / to->sizes[dim]};
    for (int d = dim + 1; d < to->ndim; d++)
        job.inner *= to->sizes[d];
    run_tasks(&job);
    drop_plan(plan);
    return job.failed ? td_error(TD_E_MEMORY, "fft: no memory for %lld numbers", (long long)job.scratch) : 0;
}

/* normalization: 0 none, 1 by the root of the number of elements, 2 by it. */
static double scale_of(const td_tensor *x, int64_t n_dim, const int64_t *dim, int64_t last, int64_t normalization)
{
    double n = 1;
    for (int i = 0; i < n_dim; i++)
        n *= (double)(i == n_dim - 1 && last ? last : x->sizes[td_wrap_dim(dim[i], x->ndim)]);
    return normalization == 0 ? 1 : normalization == 1 ? 1 / sqrt(n) : 1 / n;
}

/* Operands and results with their dimensions in the order in which the result's lie in memory, so that it is contiguous: the
 * meta functions choose it.  `dims` are the transformed ones in that order. */
typedef struct ordered { td_tensor *x, *to; int64_t dims[TD_MAX_DIMS]; } ordered;

static int order_as_result(ordered *t, td_tensor *self, int64_t n_dim, const int64_t *dim, td_tensor *out)
{
    int64_t order[TD_MAX_DIMS], place[TD_MAX_DIMS];
    int n = out->ndim;
    for (int i = 0; i < n; i++) {
        int j = i;
        for (; j > 0 && out->strides[order[j - 1]] < out->strides[i]; j--)
            order[j] = order[j - 1];
        order[j] = i;
    }
    for (int i = 0; i < n; i++)
        place[order[i]] = i;
    for (int64_t i = 0; i < n_dim; i++)
        t->dims[i] = place[td_wrap_dim(dim[i], n)];
    TD_AUTO td_tensor *view = td_permute(self, n, order);
    t->x = view ? td_make_contiguous(view) : NULL;
    t->to = t->x ? td_permute(out, n, order) : NULL;
    return t->to ? 0 : -1;
}
/* Releases both and passes the status on. */
static int ordered_drop(ordered *t, int status)
{
    td_tensor_release(t->x);
    td_tensor_release(t->to);
    return status;
}

/* The first pass reads the operand and writes the result, the others work on the result in place; the last one scales. */
int td_cpu__fft_c2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool forward, td_tensor *out)
{
    if (!n_dim)
        return td_copy_elements(out, self);
    ordered t = {0};
    int status = order_as_result(&t, self, n_dim, dim, out);
    double scale = scale_of(self, n_dim, dim, 0, normalization);
    for (int64_t i = n_dim - 1; i >= 0 && status == 0; i--)
        status = run(i == n_dim - 1 ? t.x : t.to, TD_FFT_COMPLEX, t.to, TD_FFT_COMPLEX, (int)t.dims[i], t.to->sizes[t.dims[i]], forward,
                     i ? 1 : scale);
    return ordered_drop(&t, status);
}
int td_cpu__fft_r2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool onesided, td_tensor *out)
{
    (void)onesided;
    ordered t = {0};
    int status = order_as_result(&t, self, n_dim, dim, out);
    double scale = scale_of(self, n_dim, dim, 0, normalization);
    for (int64_t i = n_dim - 1; i >= 0 && status == 0; i--) {
        bool first = i == n_dim - 1;
        status = run(first ? t.x : t.to, first ? TD_FFT_REAL : TD_FFT_COMPLEX, t.to, TD_FFT_COMPLEX, (int)t.dims[i], t.x->sizes[t.dims[i]],
                     true, i ? 1 : scale);
    }
    return ordered_drop(&t, status);
}
/* All dimensions but the last go backward in a copy of the operand, which mustn't change; the last pass has lines whose second half
 * is the conjugate of the first, and scales. */
int td_cpu__fft_c2r(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, int64_t last_dim_size, td_tensor *out)
{
    ordered t = {0};
    int status = order_as_result(&t, self, n_dim, dim, out);
    TD_AUTO td_tensor *work = status ? NULL : n_dim > 1 ? td_tensor_new(t.x->ndim, t.x->sizes, (td_dtype)t.x->dtype, t.x->device)
                            : td_tensor_retain(t.x);
    status = work ? 0 : -1;
    double scale = scale_of(self, n_dim, dim, last_dim_size, normalization);
    for (int64_t i = 0; i < n_dim - 1 && status == 0; i++)
        status = run(i ? work : t.x, TD_FFT_COMPLEX, work, TD_FFT_COMPLEX, (int)t.dims[i], work->sizes[t.dims[i]], false, 1);
    if (status == 0)
        status = run(work, TD_FFT_HALF, t.to, TD_FFT_REAL, (int)t.dims[n_dim - 1], last_dim_size, false, scale);
    return ordered_drop(&t, status);
}
