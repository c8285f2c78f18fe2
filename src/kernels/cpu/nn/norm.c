/* Normalization: operands made contiguous, rows and channels shared out to threads.
 *
 * Sums over rows (the gradients of weight and bias) are made per chunk of rows and added up in order; the chunks depend on
 * the shape only.
 *
 * Shapes and dtypes were checked in src/ops/nn/norm.c.  A gradient that nobody wants is TD_NONE. */
#include "calls_kernels_cpu_nn_norm.h"
#include <math.h>
#include "base/base.h"
#include "kernels/cpu/loops/half_rows.h"
#include "kernels/cpu/nn/norm.h"

static const td_norm_table *kernels(void)
{
    return TD_ISA_PICK(td_norm_table);
}

static int64_t product(int64_t n, const int64_t *sizes)
{
    int64_t p = 1;
    for (int64_t i = 0; i < n; i++)
        p *= sizes[i];
    return p;
}

/* Rows of halves that became floats are normalized where they are. */
static void rows_of_floats(const void *job, float *block, int64_t from, int64_t to)
{
    td_rows_job own = *(const td_rows_job *)job;
    own.x = own.y = block;
    kernels()->rows[0](&own, from, to);
}

/* layer_norm and rms_norm over the last dimensions, of n elements together.  Halves go through float32 some rows at a time; mean
 * and rstd are kept for the backward pass in the type that is computed in. */
static int forward(td_tensor *input, int64_t n, td_tensor *weight, td_tensor *bias, double eps, bool rms,
                   td_tensor *out,
                   td_tensor *mean, td_tensor *rstd)
{
    td_dtype type = td_compute_dtype(input);
    const bool halves = td_takes_half_rows(input, out, n);
    const td_dtype held = halves ? (td_dtype)input->dtype : type;
    TD_AUTO td_tensor *x = td_operand(input, held), *y = td_target(out, held);
    TD_AUTO td_tensor *w = td_operand(weight, type), *b = td_operand(bias, type);
    TD_AUTO td_tensor *m = td_target(mean, type), *r = td_target(rstd, type);
    if (!x || !w || !b || !y || !m || !r)
        return -1;
    td_rows_job job = {.rows = rstd->numel, .n = n, .rms = rms, .eps = eps, .x = x->data, .weight = td_data_or_null(w),
                       .bias = td_data_or_null(b), .mean = td_data_or_null(m), .rstd = r->data, .y = y->data};
    if (halves && td_run_half_rows(x, y, n, 4, rows_of_floats, &job))
        return -1;
    if (!halves)
        td_parallel_for(0, job.rows, td_grain(4 * n), kernels()->rows[type == TD_F64], &job);
    return td_finish(out, y) || td_finish(mean, m) || td_finish(rstd, r) ? -1 : 0;
}

int td_cpu_native_layer_norm(td_tensor *input, int64_t n_shape, const int64_t *shape, td_tensor *weight,
                             td_tensor *bias,
                             double eps, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    return forward(input, product(n_shape, shape), weight, bias, eps, false, out0, out1, out2);
}

int td_cpu__fused_rms_norm(td_tensor *input, int64_t n_shape, const int64_t *shape, td_tensor *weight,
                           const double *eps,
                           td_tensor *out0, td_tensor *out1)
{
    double least = eps ? *eps : input->dtype == TD_F64 ? 0x1p-52 : 0x1p-23;
    return forward(input, product(n_shape, shape), weight, TD_NONE, least, true, out0, TD_NONE, out1);
}

/* sums[chunks][n] (doubles, `step` apart) added up into a tensor. */
static int store_sums(td_tensor *out, const double *sums, int64_t chunks, int64_t step, int64_t n)
{
    if (out == TD_NONE)
        return 0;
    TD_AUTO td_tensor *to = td_target(out, TD_F64);
    if (!to)
        return -1;
    double *y = (double *)to->data;
    memset(y, 0, (size_t)n * sizeof *y);
    for (int64_t c = 0; c < chunks; c++)
        for (int64_t i = 0; i < n; i++)
            y[i] += sums[c * step + i];
    return td_finish(out, to);
}

/* Gradients of input, weight and bias in one pass over the rows.  Tasks are at most 16 chunks of at least 16 rows: each has 2 n
 * sums, and more of them would take longer to add up. */
static int rows_backward(td_tensor *grad, td_tensor *input, int64_t n, td_tensor *mean, td_tensor *rstd,
                         td_tensor *weight,
                         bool rms, td_tensor *dx, td_tensor *dw, td_tensor *db)
{
    td_dtype type = td_compute_dtype(input);
    TD_AUTO td_tensor *g = td_operand(grad, type), *x = td_operand(input, type), *w = td_operand(weight, type);
    TD_AUTO td_tensor *m = td_operand(mean, type), *r = td_operand(rstd, type), *y = td_target(dx, type);
    if (!g || !x || !w || !m || !r || !y)
        return -1;
    int64_t rows = rstd->numel, chunk = td_ceil_div(rows, 16);
    chunk = chunk < 16 ? 16 : chunk;
    int64_t chunks = td_ceil_div(rows, chunk);
    bool sums = dw != TD_NONE || db != TD_NONE;
    td_rows_job job = {.rows = rows, .n = n, .chunk = chunk, .rms = rms, .x = x->data, .grad = g->data,
                       .weight = td_data_or_null(w), .mean = td_data_or_null(m), .rstd = r->data,
                       .y = td_data_or_null(y)};
    size_t bytes = sums ? (size_t)(chunks * 2 * n) * sizeof(double) : 0;
    if (sums && !(job.sums = td_mem_alloc(bytes)))
        return -1;
    td_parallel_for(0, chunks, td_grain(10 * n * chunk), kernels()->rows_backward[type == TD_F64], &job);
    int status = td_finish(dx, y);
    if (!status && sums)
        status = store_sums(dw, job.sums, chunks, 2 * n, n) || store_sums(db, job.sums + n, chunks, 2 * n, n) ? -1 : 0;
    td_mem_free(job.sums, bytes);
    return status;
}

int td_cpu_native_layer_norm_backward(td_tensor *grad, td_tensor *input, int64_t n_shape, const int64_t *shape,
                                      td_tensor *mean,
                                      td_tensor *rstd, td_tensor *weight, td_tensor *bias, int64_t n_mask,
                                      const bool *mask,
                                      td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    (void)bias, (void)n_mask, (void)mask;
    return rows_backward(grad, input, product(n_shape, shape), mean, rstd, weight, false, out0, out1, out2);
}

int td_cpu__fused_rms_norm_backward(td_tensor *grad, td_tensor *input, int64_t n_shape, const int64_t *shape,
                                    td_tensor *rstd,
                                    td_tensor *weight, int64_t n_mask, const bool *mask, td_tensor *out0,
                                    td_tensor *out1)
{
    (void)n_mask, (void)mask;
    return rows_backward(grad, input, product(n_shape, shape), TD_NONE, rstd, weight, true, out0, out1, TD_NONE);
}

/* ---- batch norm ---------------------------------------------------------------------------------------------------- */

/* x as [outer][channels][inner]. */
static td_channels_job channels_of(const td_tensor *x)
{
    td_channels_job job = {.outer = x->sizes[0], .channels = x->sizes[1], .inner = 1};
    for (int i = 2; i < x->ndim; i++)
        job.inner *= x->sizes[i];
    return job;
}

/* running = (1 - momentum) running + momentum value */
static int update(td_tensor *running, const double *values, double factor, double momentum, int64_t n)
{
    if (running == TD_NONE)
        return 0;
    TD_AUTO td_tensor *old = td_as_contiguous(running, TD_F64);
    if (!old)
        return -1;
    TD_AUTO td_tensor *to = td_tensor_new(1, (int64_t[]){n}, TD_F64, running->device);
    if (!to)
        return -1;
    for (int64_t i = 0; i < n; i++)
        ((double *)to->data)[i] = momentum * values[i] * factor + (1 - momentum) * ((double *)old->data)[i];
    return td_copy_elements(running, to);
}

/* The doubles of a small tensor into `to`. */
static int read_doubles(td_tensor *x, double *to)
{
    TD_AUTO td_tensor *dense = td_as_contiguous(x, TD_F64);
    if (!dense)
        return -1;
    memcpy(to, dense->data, (size_t)x->numel * sizeof *to);
    return 0;
}

static int write_doubles(td_tensor *out, const double *from)
{
    return store_sums(out, from, 1, 0, out == TD_NONE ? 0 : out->numel);
}

/* A sample of halves that became floats is a row here. */
static void apply_to_floats(const void *job, float *block, int64_t from, int64_t to)
{
    td_channels_job own = *(const td_channels_job *)job;
    own.x = own.y = block;
    kernels()->batch_apply[0](&own, from, to);
}

/* Training: threads share the channels for the statistics, then the samples for the result.  rstd holds variances until eps is
 * added.  The running variance is the unbiased one, count / (count - 1) times what normalizes. */
int td_cpu_native_batch_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *running_mean,
                             td_tensor *running_var, bool training, double momentum, double eps, td_tensor *out0,
                             td_tensor *out1, td_tensor *out2)
{
    td_dtype type = td_compute_dtype(input);
    td_channels_job job = channels_of(input);
    int64_t n = job.channels, work = 4 * job.outer * job.inner;
    const bool halves = !training && td_takes_half_rows(input, out0, n * job.inner);
    const td_dtype held = halves ? (td_dtype)input->dtype : type;
    TD_AUTO td_tensor *x = td_operand(input, held), *y = td_target(out0, held);
    TD_AUTO td_tensor *w = td_operand(weight, type), *b = td_operand(bias, type);
    if (!x || !w || !b || !y)
        return -1;
    size_t bytes = (size_t)(2 * n) * sizeof(double);
    if (!(job.mean = td_mem_alloc(bytes)))
        return -1;
    job.rstd = job.mean + n;
    job.x = x->data, job.y = y->data, job.weight = td_data_or_null(w), job.bias = td_data_or_null(b);
    int status = 0;
    double count = (double)job.outer * (double)job.inner;
    if (training && count == 0) {      /* nothing was seen: the running statistics stay */
        memset(job.mean, 0, bytes);
    } else if (training) {
        td_parallel_for(0, n, td_grain(work), kernels()->batch_stats[type == TD_F64], &job);
        status = update(running_mean, job.mean, 1, momentum, n) ||
            update(running_var, job.rstd, count / (count - 1), momentum, n) ? -1 : 0;
    } else {
        status = read_doubles(running_mean, job.mean) || read_doubles(running_var, job.rstd) ? -1 : 0;
    }
    for (int64_t i = 0; i < n; i++)
        job.rstd[i] = 1 / sqrt(job.rstd[i] + eps);
    if (!status && halves) {
        status = td_run_half_rows(x, y, n * job.inner, 2, apply_to_floats, &job);
    } else if (!status) {
        td_parallel_for(0, job.outer, td_grain(2 * n * job.inner), kernels()->batch_apply[type == TD_F64], &job);
        status = td_finish(out0, y);
    }
    if (!status && training)
        status = write_doubles(out1, job.mean) || write_doubles(out2, job.rstd) ? -1 : 0;
    td_mem_free(job.mean, bytes);
    return status;
}

/* Sums per channel first, of g and of g (x - mean), each by one thread; then dx sample by sample.  sum_gx times rstd is the
 * gradient of the weight. */
int td_cpu_native_batch_norm_backward(td_tensor *grad, td_tensor *input, td_tensor *weight, td_tensor *running_mean,
                                      td_tensor *running_var, td_tensor *save_mean, td_tensor *save_invstd, bool train,
                                      double eps, int64_t n_mask, const bool *mask, td_tensor *out0, td_tensor *out1,
                                      td_tensor *out2)
{
    (void)n_mask, (void)mask;
    td_dtype type = td_compute_dtype(input);
    TD_AUTO td_tensor *x = td_operand(input, type), *w = td_operand(weight, type), *g = td_operand(grad, type);
    TD_AUTO td_tensor *y = td_target(out0, type);
    if (!x || !w || !g || !y)
        return -1;
    td_channels_job job = channels_of(input);
    int64_t n = job.channels;
    size_t bytes = (size_t)(4 * n) * sizeof(double);
    if (!(job.mean = td_mem_alloc(bytes)))
        return -1;
    job.rstd = job.mean + n, job.sum_g = job.mean + 2 * n, job.sum_gx = job.mean + 3 * n;
    job.x = x->data, job.y = td_data_or_null(y), job.grad = g->data, job.weight = td_data_or_null(w),
    job.training = train;
    int status = train ? read_doubles(save_mean, job.mean) || read_doubles(save_invstd, job.rstd)
                       : read_doubles(running_mean, job.mean) || read_doubles(running_var, job.rstd);
    for (int64_t i = 0; i < n && !train; i++)
        job.rstd[i] = 1 / sqrt(job.rstd[i] + eps);
    if (!status) {
        td_parallel_for(0, n, td_grain(4 * job.outer * job.inner), kernels()->batch_sums[type == TD_F64], &job);
        if (job.y)
            td_parallel_for(0, job.outer, td_grain(3 * n * job.inner), kernels()->batch_backward[type == TD_F64], &job);
        for (int64_t i = 0; i < n; i++)
            job.sum_gx[i] *= job.rstd[i];
        status = td_finish(out0, y) || write_doubles(out1, job.sum_gx) || write_doubles(out2, job.sum_g);
    }
    td_mem_free(job.mean, bytes);
    return status ? -1 : 0;
}

/* ---- group norm ---------------------------------------------------------------------------------------------------- */

/* A group of a sample is a row, whose number gives its channels. */
static void groups_of_floats(const void *job, float *block, int64_t from, int64_t to)
{
    td_channels_job own = *(const td_channels_job *)job;
    own.x = own.y = block;
    kernels()->group[0](&own, from, to);
}

/* Tasks are (sample, group) pairs, which lie together in memory. */
int td_cpu_native_group_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t N_, int64_t C, int64_t HxW,
                             int64_t group, double eps, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    td_dtype type = td_compute_dtype(input);
    const int64_t width = group ? C / group * HxW : 0;
    const bool halves = td_takes_half_rows(input, out0, width);
    const td_dtype held = halves ? (td_dtype)input->dtype : type;
    TD_AUTO td_tensor *x = td_operand(input, held), *y = td_target(out0, held);
    TD_AUTO td_tensor *w = td_operand(weight, type), *b = td_operand(bias, type);
    TD_AUTO td_tensor *m = td_target(out1, TD_F64), *r = td_target(out2, TD_F64);
    if (!x || !w || !b || !y || !m || !r)
        return -1;
    td_channels_job job = {.outer = N_, .channels = C, .inner = HxW, .group = C / group, .eps = eps, .x = x->data,
                           .y = y->data,
                           .weight = td_data_or_null(w), .bias = td_data_or_null(b), .mean = (double *)m->data,
                           .rstd = (double *)r->data};
    if (halves && td_run_half_rows(x, y, width, 4, groups_of_floats, &job))
        return -1;
    if (!C) {       /* groups of nothing */
        memset(job.mean, 0, (size_t)m->numel * sizeof(double));
        memset(job.rstd, 0, (size_t)r->numel * sizeof(double));
    } else if (!halves)
        td_parallel_for(0, N_ * group, td_grain(4 * job.group * HxW), kernels()->group[type == TD_F64], &job);
    return td_finish(out0, y) || td_finish(out1, m) || td_finish(out2, r) ? -1 : 0;
}

/* Sums of g and g x for each sample and channel give all three gradients: dx from those of a group; dw and db by adding up the
 * samples, here and in order: dw = sum of (sum_gx - mean sum_g) rstd. */
int td_cpu_native_group_norm_backward(td_tensor *grad, td_tensor *input, td_tensor *mean, td_tensor *rstd,
                                      td_tensor *weight,
                                      int64_t N_, int64_t C, int64_t HxW, int64_t group, int64_t n_mask,
                                      const bool *mask,
                                      td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    (void)n_mask, (void)mask;
    td_dtype type = td_compute_dtype(input);
    TD_AUTO td_tensor *x = td_operand(input, type), *w = td_operand(weight, type), *g = td_operand(grad, type);
    TD_AUTO td_tensor *y = td_target(out0, type), *m = td_operand(mean, TD_F64), *r = td_operand(rstd, TD_F64);
    if (!x || !w || !g || !y || !m || !r)
        return -1;
    td_channels_job job = {.outer = N_, .channels = C, .inner = HxW, .group = C / group, .x = x->data, .grad = g->data,
                           .y = td_data_or_null(y), .weight = td_data_or_null(w), .mean = (double *)m->data,
                           .rstd = (double *)r->data};
    size_t bytes = (size_t)(2 * N_ * C + 2 * C) * sizeof(double);
    if (!(job.sum_g = td_mem_alloc_zero(bytes)))
        return -1;
    job.sum_gx = job.sum_g + N_ * C;
    double *dw = job.sum_g + 2 * N_ * C, *db = dw + C;
    td_parallel_for(0, N_ * C, td_grain(3 * HxW), kernels()->group_sums[type == TD_F64], &job);
    if (job.y && C)
        td_parallel_for(0, N_ * group, td_grain(3 * job.group * HxW), kernels()->group_backward[type == TD_F64], &job);
    for (int64_t i = 0; i < N_; i++)
        for (int64_t c = 0; c < C; c++) {
            int64_t at = i * group + c / job.group;
            dw[c] += (job.sum_gx[i * C + c] - job.mean[at] * job.sum_g[i * C + c]) * job.rstd[at];
            db[c] += job.sum_g[i * C + c];
        }
    int status = td_finish(out0, y) || write_doubles(out1, dw) || write_doubles(out2, db) ? -1 : 0;
    td_mem_free(job.sum_g, bytes);
    return status;
}
