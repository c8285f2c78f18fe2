/* Layer norm, rms norm, group norm and batch norm on devices: norm.ck. */
#include "calls_kernels_device_norm.h"
#include "kernels/device/reduce.h"
#define TD_HOST
#include "kernels/device/norm.ck"

TD_SOURCE(norm);

static td_dtype compute_of(const td_tensor *x) { return x->dtype == TD_F64 ? TD_F64 : TD_F32; }

/* An operand in the dtype that kernels read it in; TD_NONE passes. */
static td_tensor *operand(td_tensor *x, td_dtype dtype) { return x == TD_NONE ? td_tensor_retain(x) : td_as_contiguous(x, dtype); }
static td_tensor *target(td_tensor *x) { return x == TD_NONE ? td_tensor_retain(x) : td_writable(x, (td_dtype)x->dtype); }
static int finish(td_tensor *x, td_tensor *written) { return x == TD_NONE ? 0 : td_write_back(x, written); }
static td_dtype dtype_of(const td_tensor *x, const td_tensor *otherwise) { return (td_dtype)(x == TD_NONE ? otherwise : x)->dtype; }

static int64_t product(int64_t n, const int64_t *sizes)
{
    int64_t p = 1;
    for (int64_t i = 0; i < n; i++)
        p *= sizes[i];
    return p;
}

/* ---- rows */

/* Of layer norm: a sample is a row whose elements are channels. */
static norm_values rows_of(const td_tensor *x, int64_t n)
{
    const int64_t rows = n ? x->numel / n : 0;
    return (norm_values){.outer = rows, .channels = n, .inner = 1, .rows = rows, .n = n, .groups = 1, .stat_step = 1, .stat_channels = n};
}
static norm_values groups_of(int64_t samples, int64_t channels, int64_t inner, int64_t groups)
{
    return (norm_values){.outer = samples, .channels = channels, .inner = inner, .rows = samples * groups, .n = groups ? channels / groups * inner : 0,
                         .groups = groups, .stat_step = groups, .stat_channels = groups ? channels / groups : 1, .mean = true};
}

static td_launch_of launch_of(const norm_values *v, const td_tensor *x, td_dtype weight, td_dtype stats, td_rows rows)
{
    return (td_launch_of){.source = td_source_norm, .values = v, .size = sizeof *v, .groups = rows.groups,
                          .numbers = {{"SPREAD", v->groups == 1 && v->inner == 1}, {"PACK", rows.pack}, {"TEAM", rows.team}, {"HELD", rows.held}},
                          .types = {{"A", (td_dtype)x->dtype}, {"W", weight}, {"S", stats}, {"R", stats}, {"C", compute_of(x)}}};
}
static const td_rows of_items = {1, 1, 1, 0};

/* Of rows; a pack has one weight, or one for each element. */
static td_rows shared(const norm_values *v, td_tensor *x, int most, td_tensor *const *tensors)
{
    const int pack = td_launch_pack(v->inner, tensors);
    return td_launch_rows(x->device, v->rows, v->n, most, (v->groups == 1 && v->inner == 1) || pack > 1 ? tensors : NULL);
}
/* Of planes, a pack for each item. */
static td_rows planes(const norm_values *v, td_tensor *x, td_tensor *const *tensors)
{
    const int pack = td_launch_pack(v->inner, tensors);
    return (td_rows){pack, 1, 1, td_launch_groups(x->device, x->numel / pack)};
}

static int forward(norm_values *v, td_tensor *input, td_tensor *weight, td_tensor *bias, double eps, td_tensor *out, td_tensor *mean, td_tensor *rstd)
{
    const td_dtype of = dtype_of(weight, bias == TD_NONE ? input : bias), stats = (td_dtype)rstd->dtype;
    TD_AUTO td_tensor *x = td_make_contiguous(input), *w = operand(weight, of), *b = operand(bias, of);
    TD_AUTO td_tensor *y = target(out), *m = target(mean), *r = target(rstd);
    if (!x || !w || !b || !y || !m || !r)
        return -1;
    td_tensor *const buffers[] = {x, w, b, y, m, r}, *const rows[] = {x, w, b, y, NULL};
    v->weight = w != TD_NONE, v->bias = b != TD_NONE, v->eps = td_number(eps);
    td_launch_of launch = launch_of(v, x, of, stats, shared(v, x, 32, rows));
    launch.kernel = "norm_rows";
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || finish(out, y) || finish(mean, m) || finish(rstd, r) ? -1 : 0;
}

int td_on_device_native_layer_norm(td_tensor *input, int64_t n_shape, const int64_t *shape, td_tensor *weight, td_tensor *bias, double eps,
                                   td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    norm_values v = rows_of(input, product(n_shape, shape));
    v.mean = true;
    return forward(&v, input, weight, bias, eps, out0, out1, out2);
}
int td_on_device__fused_rms_norm(td_tensor *input, int64_t n_shape, const int64_t *shape, td_tensor *weight, const double *eps, td_tensor *out0,
                                 td_tensor *out1)
{
    norm_values v = rows_of(input, product(n_shape, shape));
    return forward(&v, input, weight, TD_NONE, eps ? *eps : input->dtype == TD_F64 ? 0x1p-52 : 0x1p-23, out0, TD_NONE, out1);
}
int td_on_device_native_group_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, int64_t N_, int64_t C, int64_t HxW, int64_t group, double eps,
                                   td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    norm_values v = groups_of(N_, C, HxW, group);
    return forward(&v, input, weight, bias, eps, out0, out1, out2);
}

/* Sums per channel of g and g (x - mean) rstd, the first `channels` pairs of the result; dw and db, contiguous or TD_NONE, get them, too. */
static td_tensor *channel_sums(norm_values *v, td_tensor *g, td_tensor *x, td_tensor *mean, td_tensor *rstd, td_dtype weight, td_tensor *dw,
                               td_tensor *db)
{
    const td_device_properties *device = td_device_known(x->device);
    if (!device)
        return NULL;
    const bool columns = v->inner == 1;
    td_tensor *const rows[] = {g, x, NULL};
    td_rows of = {td_launch_pack(columns ? v->channels : v->inner, rows), 1, 1, 0};
    const int64_t n = v->outer * v->inner, packs = v->channels / of.pack, groups = (int64_t)device->units * 4;
    if (columns)
        of.team = (int)td_power_from(packs < 32 ? packs : 32);
    of.team = of.team < device->lanes ? of.team : device->lanes;
    const int64_t units = columns ? (packs + of.team - 1) / of.team : v->channels, each = 4 * (columns ? device->lanes / of.team : device->lanes * of.pack);
    v->parts = units && units < groups ? groups / units : 1;
    v->parts = v->parts < n / each ? v->parts : n / each;
    v->parts = v->parts > 1 ? v->parts : 1;
    of.groups = td_launch_many(x->device, units * v->parts);
    v->dw = dw != TD_NONE, v->db = db != TD_NONE;
    td_tensor *partial = td_tensor_new(1, (int64_t[]){2 * v->channels * v->parts}, compute_of(x), x->device);
    if (!partial || v->channels == 0)
        return partial;
    td_launch_of launch = launch_of(v, x, weight, (td_dtype)rstd->dtype, of);
    launch.kernel = columns ? "norm_columns" : "norm_planes";
    td_tensor *const first[] = {g, x, mean, rstd, partial};
    memcpy(launch.buffers, first, sizeof first);
    td_launch_of last = launch;
    last.kernel = "norm_sums", last.numbers[2].value = device->lanes < 32 ? device->lanes : 32;
    last.groups = td_launch_many(x->device, (v->channels + last.numbers[2].value - 1) / last.numbers[2].value);
    last.buffers[0] = partial, last.buffers[1] = dw, last.buffers[2] = db, last.buffers[3] = NULL;
    if (!td_launch(&launch) && !td_launch(&last))
        return partial;
    td_tensor_release(partial);
    return NULL;
}

static int backward(norm_values *v, td_tensor *grad, td_tensor *input, td_tensor *mean, td_tensor *rstd, td_tensor *weight, td_tensor *dx, td_tensor *dw,
                    td_tensor *db)
{
    const td_dtype of = dtype_of(weight, input), stats = (td_dtype)rstd->dtype;
    TD_AUTO td_tensor *x = td_make_contiguous(input), *g = operand(grad, (td_dtype)input->dtype), *w = operand(weight, of);
    TD_AUTO td_tensor *m = operand(mean, stats), *r = operand(rstd, stats), *to = target(dx), *to_w = target(dw), *to_b = target(db);
    if (!x || !g || !w || !m || !r || !to || !to_w || !to_b)
        return -1;
    v->weight = w != TD_NONE;
    if (dx != TD_NONE) {
        td_tensor *const buffers[] = {g, x, w, m, r, to}, *const rows[] = {x, g, w, to, NULL};
        td_launch_of launch = launch_of(v, x, of, stats, shared(v, x, 16, rows));
        launch.kernel = "norm_rows_backward";
        memcpy(launch.buffers, buffers, sizeof buffers);
        if (td_launch(&launch))
            return -1;
    }
    if (dw != TD_NONE || db != TD_NONE) {
        TD_AUTO td_tensor *sums = channel_sums(v, g, x, m, r, (td_dtype)(dw == TD_NONE ? db : dw)->dtype, to_w, to_b);
        if (!sums)
            return -1;
    }
    return finish(dx, to) || finish(dw, to_w) || finish(db, to_b) ? -1 : 0;
}

int td_on_device_native_layer_norm_backward(td_tensor *grad, td_tensor *input, int64_t n_shape, const int64_t *shape, td_tensor *mean, td_tensor *rstd,
                                            td_tensor *weight, td_tensor *bias, int64_t n_mask, const bool *mask, td_tensor *out0, td_tensor *out1,
                                            td_tensor *out2)
{
    (void)bias, (void)n_mask, (void)mask;
    norm_values v = rows_of(input, product(n_shape, shape));
    v.mean = true;
    return backward(&v, grad, input, mean, rstd, weight, out0, out1, out2);
}
int td_on_device__fused_rms_norm_backward(td_tensor *grad, td_tensor *input, int64_t n_shape, const int64_t *shape, td_tensor *rstd, td_tensor *weight,
                                          int64_t n_mask, const bool *mask, td_tensor *out0, td_tensor *out1)
{
    (void)n_mask, (void)mask;
    norm_values v = rows_of(input, product(n_shape, shape));
    return backward(&v, grad, input, TD_NONE, rstd, weight, out0, out1, TD_NONE);
}
int td_on_device_native_group_norm_backward(td_tensor *grad, td_tensor *input, td_tensor *mean, td_tensor *rstd, td_tensor *weight, int64_t N_, int64_t C,
                                            int64_t HxW, int64_t group, int64_t n_mask, const bool *mask, td_tensor *out0, td_tensor *out1,
                                            td_tensor *out2)
{
    (void)n_mask, (void)mask;
    norm_values v = groups_of(N_, C, HxW, group);
    return backward(&v, grad, input, mean, rstd, weight, out0, out1, out2);
}

/* ---- channels */

static norm_values channels_of(const td_tensor *x)
{
    return (norm_values){.outer = x->sizes[0], .channels = x->sizes[1], .inner = product(x->ndim - 2, x->sizes + 2), .stat_channels = 1, .mean = true};
}

/* The statistics of channels in the dtype that is computed in: mean, then rstd. */
typedef struct statistics { td_tensor *mean, *rstd; } statistics;
static void drop(statistics *s) { td_tensor_release(s->mean), td_tensor_release(s->rstd); }

static int statistics_of(statistics *s, norm_values *v, td_tensor *x, td_tensor *running_mean, td_tensor *running_var, td_tensor *saved_mean,
                         td_tensor *saved_rstd)
{
    const td_dtype saved = dtype_of(saved_mean, x), kept = dtype_of(running_mean, running_var == TD_NONE ? x : running_var);
    td_launch_of launch = launch_of(v, x, (td_dtype)x->dtype, saved, of_items);
    TD_AUTO td_tensor *m = target(running_mean), *r = running_var == TD_NONE ? td_tensor_retain(TD_NONE) : td_writable(running_var, kept);
    s->mean = td_tensor_new(1, &v->channels, compute_of(x), x->device);
    s->rstd = td_tensor_new(1, &v->channels, compute_of(x), x->device);
    if (!s->mean || !s->rstd || !m || !r)
        return -1;
    if (v->mode == NORM_TRAINING && x->numel) {
        bool mask[TD_MAX_DIMS];
        const td_fold fold = {.kind = REDUCE_VAR, .compute = compute_of(x), .out = s->rstd, .second = s->mean};
        for (int d = 0; d < x->ndim; d++)
            mask[d] = d != 1;
        if (td_fold_on_device(&fold, x, mask))
            return -1;
    }
    v->running_mean = m != TD_NONE, v->running_var = r != TD_NONE, v->saved = saved_mean != TD_NONE;
    launch.types[3].dtype = kept;
    launch.kernel = "norm_statistics", launch.groups = td_launch_groups(x->device, v->channels);
    td_tensor *const buffers[] = {s->mean, s->rstd, m, r, saved_mean, saved_rstd};
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || (v->mode == NORM_TRAINING && (finish(running_mean, m) || finish(running_var, r))) ? -1 : 0;
}

int td_on_device_native_batch_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *running_mean, td_tensor *running_var, bool training,
                                   double momentum, double eps, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    norm_values v = channels_of(input);
    const td_dtype of = dtype_of(weight, bias == TD_NONE ? input : bias);
    const double count = (double)v.outer * (double)v.inner;
    v.mode = training ? NORM_TRAINING : NORM_RUNNING, v.eps = td_number(eps), v.momentum = td_number(momentum);
    v.unbiased = td_number(count / (count - 1));
    TD_AUTO td_tensor *x = td_make_contiguous(input), *w = operand(weight, of), *b = operand(bias, of), *y = target(out0);
    TD_AUTO td_tensor *m = training ? target(out1) : td_tensor_retain(TD_NONE), *r = training ? target(out2) : td_tensor_retain(TD_NONE);
    __attribute__((cleanup(drop))) statistics s = {NULL, NULL};
    if (!x || !w || !b || !y || !m || !r || statistics_of(&s, &v, x, running_mean, running_var, m, r))
        return -1;
    v.weight = w != TD_NONE, v.bias = b != TD_NONE;
    td_tensor *const buffers[] = {x, w, b, s.mean, s.rstd, y}, *const packed[] = {x, y, NULL};
    td_launch_of launch = launch_of(&v, x, of, (td_dtype)s.mean->dtype, planes(&v, x, packed));
    launch.kernel = "norm_channels";
    memcpy(launch.buffers, buffers, sizeof buffers);
    return td_launch(&launch) || finish(out0, y) || (training && (finish(out1, m) || finish(out2, r))) ? -1 : 0;
}

int td_on_device_native_batch_norm_backward(td_tensor *grad, td_tensor *input, td_tensor *weight, td_tensor *running_mean, td_tensor *running_var,
                                            td_tensor *save_mean, td_tensor *save_invstd, bool train, double eps, int64_t n_mask, const bool *mask,
                                            td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    (void)n_mask, (void)mask;
    norm_values v = channels_of(input);
    const td_dtype of = dtype_of(weight, input);
    v.mode = train ? NORM_SAVED : NORM_RUNNING, v.eps = td_number(eps);
    TD_AUTO td_tensor *x = td_make_contiguous(input), *g = operand(grad, (td_dtype)input->dtype), *w = operand(weight, of), *dx = target(out0);
    TD_AUTO td_tensor *dw = target(out1), *db = target(out2);
    TD_AUTO td_tensor *m = td_make_contiguous(train ? save_mean : running_mean), *r = td_make_contiguous(train ? save_invstd : running_var);
    __attribute__((cleanup(drop))) statistics s = {NULL, NULL};
    if (!x || !g || !w || !dx || !dw || !db || !m || !r)
        return -1;
    if (train ? statistics_of(&s, &v, x, TD_NONE, TD_NONE, m, r) : statistics_of(&s, &v, x, m, r, TD_NONE, TD_NONE))
        return -1;
    v.weight = w != TD_NONE;
    TD_AUTO td_tensor *sums = channel_sums(&v, g, x, s.mean, s.rstd, (td_dtype)(out1 != TD_NONE ? out1 : out2 != TD_NONE ? out2 : input)->dtype, dw, db);
    if (!sums)
        return -1;
    if (out0 != TD_NONE) {
        td_tensor *const buffers[] = {g, x, w, s.mean, s.rstd, sums, dx}, *const packed[] = {g, x, dx, NULL};
        td_launch_of launch = launch_of(&v, x, of, (td_dtype)s.mean->dtype, planes(&v, x, packed));
        launch.kernel = "norm_channels_backward";
        memcpy(launch.buffers, buffers, sizeof buffers);
        if (td_launch(&launch))
            return -1;
    }
    return finish(out0, dx) || finish(out1, dw) || finish(out2, db) ? -1 : 0;
}
