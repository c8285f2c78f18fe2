/* Fourier transforms of tensors: one dimension after the other.  Plans are shared through a small cache. */

#include "calls_kernels_cpu_fft.h"
#include <math.h>
#include <pthread.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "kernels/cpu/fft.h"

/* ---- plans */

static void drop_plan(td_fft_plan *p)
{
    if (!p || __atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL))
        return;
    size_t item = p->wide ? 16 : 8;
    td_mem_free(p->roots, (size_t)p->n * item);
    td_mem_free(p->chirp, (size_t)p->n * item);
    if (p->inner)
        td_mem_free(p->filter, (size_t)p->inner->n * item);
    drop_plan(p->inner);
    td_mem_free(p, sizeof *p);
}

static void store(void *at, int64_t k, double angle, double scale, bool wide)
{
    double re = scale * cos(angle), im = scale * sin(angle);
    if (wide)
        ((double *)at)[2 * k] = re, ((double *)at)[2 * k + 1] = im;
    else
        ((float *)at)[2 * k] = (float)re, ((float *)at)[2 * k + 1] = (float)im;
}

static td_fft_plan *make_plan(int64_t n, bool wide)
{
    td_fft_plan *p = td_mem_alloc(sizeof *p);
    size_t item = wide ? 16 : 8;
    if (!p)
        return NULL;
    *p = (td_fft_plan){.n = n, .wide = wide, .references = 1, .bytes = sizeof *p};
    int64_t rest = n;
    for (int r = 4; r <= TD_FFT_RADIX && rest > 1; r = r == 4 ? 2 : r == 2 ? 3 : r + 2)
        while (rest % r == 0) {
            p->factors[p->n_factors++] = r;
            rest /= r;
        }
    if (rest == 1) {
        if (!(p->roots = td_mem_alloc((size_t)n * item)))
            goto fail;
        for (int64_t k = 0; k < n; k++)
            store(p->roots, k, -2 * M_PI * (double)k / (double)n, 1, wide);
        p->bytes += (size_t)n * item;
        return p;
    }
    int64_t m = 1;
    while (m < 2 * n - 1)
        m *= 2;
    p->inner = make_plan(m, wide);
    p->chirp = td_mem_alloc((size_t)n * item);
    if (!p->inner || !p->chirp || !(p->filter = td_mem_alloc((size_t)m * item)))
        goto fail;
    memset(p->filter, 0, (size_t)m * item);
    for (int64_t k = 0; k < n; k++) {
        double angle = M_PI * (double)((uint64_t)((unsigned __int128)k * (unsigned __int128)k % (unsigned __int128)(2 * n))) / (double)n;
        store(p->chirp, k, -angle, 1, wide);
        store(p->filter, k, angle, 1 / (double)m, wide);
        if (k)
            store(p->filter, m - k, angle, 1 / (double)m, wide);
    }
    /* The filter's own transform: a job of one line over it. */
    td_fft_job job = {.plan = p->inner, .from = p->filter, .to = p->filter, .inner = 1, .n_from = m, .n_to = m, .forward = true, .scale = 1,
                      .scratch = m};
    TD_ISA_PICK(td_fft_table)->lines[wide](&job, 0, 1);
    if (job.failed)
        goto fail;
    p->bytes += p->inner->bytes + (size_t)(n + m) * item;
    return p;
fail:
    drop_plan(p);
    return NULL;
}

/* The last few plans, together at most a megabyte. */
enum { KEPT = 8, KEPT_BYTES = 1 << 20 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static td_fft_plan *kept[KEPT];

static td_fft_plan *find_plan(int64_t n, bool wide)
{
    td_fft_plan *found = NULL, *dropped[KEPT + 1] = {NULL};
    pthread_mutex_lock(&lock);
    for (int i = 0; i < KEPT && kept[i] && !found; i++)
        if (kept[i]->n == n && kept[i]->wide == wide)
            __atomic_add_fetch(&(found = kept[i])->references, 1, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&lock);
    if (found || !(found = make_plan(n, wide)) || found->bytes > KEPT_BYTES / 2)
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

static int run(td_tensor *from, td_fft_end from_end, td_tensor *to, td_fft_end to_end, int dim, int64_t n, bool forward, double scale)
{
    if (!to->numel)
        return 0;
    bool wide = to->dtype == TD_F64 || to->dtype == TD_C128;
    td_fft_plan *plan = find_plan(n, wide);
    if (!plan)
        return -1;
    td_fft_job job = {.plan = plan, .from = from->data, .to = to->data, .inner = 1, .n_from = from->sizes[dim], .n_to = to->sizes[dim],
                      .from_end = from_end, .to_end = to_end, .forward = forward, .scale = scale,
                      .scratch = plan->inner ? plan->inner->n : n};
    for (int d = dim + 1; d < to->ndim; d++)
        job.inner *= to->sizes[d];
    int64_t lines = to->numel / to->sizes[dim], grain = 1 + 16384 / (8 * n);
    td_parallel_for(0, lines, grain, TD_ISA_PICK(td_fft_table)->lines[wide], &job);
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
typedef struct turned { td_tensor *x, *to; int64_t dims[TD_MAX_DIMS]; } turned;

static int turn(turned *t, td_tensor *self, int64_t n_dim, const int64_t *dim, td_tensor *out)
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
static int turned_drop(turned *t, int status)
{
    td_tensor_release(t->x);
    td_tensor_release(t->to);
    return status;
}

int td_cpu__fft_c2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool forward, td_tensor *out)
{
    if (!n_dim)
        return td_copy_elements(out, self);
    turned t = {0};
    int status = turn(&t, self, n_dim, dim, out);
    double scale = scale_of(self, n_dim, dim, 0, normalization);
    for (int64_t i = n_dim - 1; i >= 0 && status == 0; i--)
        status = run(i == n_dim - 1 ? t.x : t.to, TD_FFT_COMPLEX, t.to, TD_FFT_COMPLEX, (int)t.dims[i], t.to->sizes[t.dims[i]], forward,
                     i ? 1 : scale);
    return turned_drop(&t, status);
}
int td_cpu__fft_r2c(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, bool onesided, td_tensor *out)
{
    (void)onesided;
    turned t = {0};
    int status = turn(&t, self, n_dim, dim, out);
    double scale = scale_of(self, n_dim, dim, 0, normalization);
    for (int64_t i = n_dim - 1; i >= 0 && status == 0; i--) {
        bool first = i == n_dim - 1;
        status = run(first ? t.x : t.to, first ? TD_FFT_REAL : TD_FFT_COMPLEX, t.to, TD_FFT_COMPLEX, (int)t.dims[i], t.x->sizes[t.dims[i]],
                     true, i ? 1 : scale);
    }
    return turned_drop(&t, status);
}
int td_cpu__fft_c2r(td_tensor *self, int64_t n_dim, const int64_t *dim, int64_t normalization, int64_t last_dim_size, td_tensor *out)
{
    turned t = {0};
    int status = turn(&t, self, n_dim, dim, out);
    TD_AUTO td_tensor *work = status ? NULL : n_dim > 1 ? td_tensor_new(t.x->ndim, t.x->sizes, (td_dtype)t.x->dtype, t.x->device)
                            : td_tensor_retain(t.x);
    status = work ? 0 : -1;
    double scale = scale_of(self, n_dim, dim, last_dim_size, normalization);
    for (int64_t i = 0; i < n_dim - 1 && status == 0; i++)
        status = run(i ? work : t.x, TD_FFT_COMPLEX, work, TD_FFT_COMPLEX, (int)t.dims[i], work->sizes[t.dims[i]], false, 1);
    if (status == 0)
        status = run(work, TD_FFT_HALF, t.to, TD_FFT_REAL, (int)t.dims[n_dim - 1], last_dim_size, false, scale);
    return turned_drop(&t, status);
}
