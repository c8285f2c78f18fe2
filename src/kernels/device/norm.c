/* Layer norm, rms norm, group norm and batch norm on devices: norm.ck. */
#include "calls_kernels_device_norm.h"
#include "kernels/device/reduce.h"
#define TD_HOST
#include "kernels/device/norm.ck"

TD_SOURCE(norm);

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

static td_launch_of launch_of(const char *kernel, const norm_values *v, const td_tensor *x, td_dtype weight, td_dtype stats, td_rows rows)
{
    return (td_launch_of){.source = td_source_norm, .kernel = kernel, .values = v, .size = sizeof *v, .groups = rows.groups,
                          .numbers = {{"SPREAD", v->groups == 1 && v->inner == 1}, {"PACK", rows.pack}, {"TEAM", rows.team}, {"HELD", rows.held}},
                          .types = {{"A", (td_dtype)x->dtype}, {"W", weight}, {"S", stats}, {"R", stats}, {"C", td_compute_dtype(x)}}};
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
    const td_dtype of = dtype_of(weight, bias == TD_NONE ? input : bias);
    td_tensor *const rows[] = {input, weight, bias, out, NULL};
    v->weight = weight != TD_NONE, v->bias = bias != TD_NONE, v->eps = td_number(eps);
    return TD_LAUNCH_ON(launch_of("norm_rows", v, input, of, (td_dtype)rstd->dtype, shared(v, input, 32, rows)), TD_READS(input), TD_READS_AS(weight, of),
                        TD_READS_AS(bias, of), TD_WRITES(out), TD_WRITES(mean), TD_WRITES(rstd));
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

/* How many parts: as many as give each unit four groups, so that one computes while others wait for memory, but none so small that its
 * work items have less than four elements each, for then the fold costs more than the reading.
 *
 * Sums per channel of g and g (x - mean) rstd, the first `channels` pairs of the result; dw and db, contiguous or TD_NONE, get them, too. */
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
    td_tensor *partial = td_tensor_new(1, (int64_t[]){2 * v->channels * v->parts}, td_compute_dtype(x), x->device);
    if (!partial || v->channels == 0)
        return partial;
    td_launch_of first = launch_of(columns ? "norm_columns" : "norm_planes", v, x, weight, (td_dtype)rstd->dtype, of), last = first;
    last.kernel = "norm_sums", last.numbers[2].value = device->lanes < 32 ? device->lanes : 32;
    last.groups = td_launch_many(x->device, (v->channels + last.numbers[2].value - 1) / last.numbers[2].value);
    if (!TD_LAUNCH_ON(first, TD_READS(g), TD_READS(x), TD_READS(mean), TD_READS(rstd), TD_WRITES(partial)) &&
        !TD_LAUNCH_ON(last, TD_UPDATES(partial), TD_WRITES(dw), TD_WRITES(db)))
        return partial;
    td_tensor_release(partial);
    return NULL;
}

static int backward(norm_values *v, td_tensor *grad, td_tensor *input, td_tensor *mean, td_tensor *rstd, td_tensor *weight, td_tensor *dx, td_tensor *dw,
                    td_tensor *db)
{
    const td_dtype of = dtype_of(weight, input), stats = (td_dtype)rstd->dtype;
    TD_AUTO td_tensor *x = td_make_contiguous(input), *g = td_as_contiguous(grad, (td_dtype)input->dtype);
    TD_AUTO td_tensor *m = td_operand(mean, stats), *r = td_operand(rstd, stats);
    if (!x || !g || !m || !r)
        return -1;
    td_tensor *const rows[] = {x, g, weight, dx, NULL};
    v->weight = weight != TD_NONE;
    if (dx != TD_NONE && TD_LAUNCH_ON(launch_of("norm_rows_backward", v, x, of, stats, shared(v, x, 16, rows)), TD_READS(g), TD_READS(x),
                                      TD_READS_AS(weight, of), TD_READS(m), TD_READS(r), TD_WRITES(dx)))
        return -1;
    TD_AUTO td_tensor *sums = dw == TD_NONE && db == TD_NONE ? td_tensor_retain(TD_NONE)
                            : channel_sums(v, g, x, m, r, (td_dtype)(dw == TD_NONE ? db : dw)->dtype, dw, db);
    return sums ? 0 : -1;
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
    td_launch_of launch = launch_of("norm_statistics", v, x, (td_dtype)x->dtype, saved, of_items);
    s->mean = td_tensor_new(1, &v->channels, td_compute_dtype(x), x->device);
    s->rstd = td_tensor_new(1, &v->channels, td_compute_dtype(x), x->device);
    if (!s->mean || !s->rstd)
        return -1;
    /* Variances by the engine of reductions, whose parts are joined without cancellation; it reads x once, for mean and variance. */
    if (v->mode == NORM_TRAINING && x->numel) {
        bool mask[TD_MAX_DIMS];
        const td_fold fold = {.kind = REDUCE_VAR, .compute = td_compute_dtype(x), .out = s->rstd, .second = s->mean};
        for (int d = 0; d < x->ndim; d++)
            mask[d] = d != 1;
        if (td_fold_on_device(&fold, x, mask))
            return -1;
    }
    v->running_mean = running_mean != TD_NONE, v->running_var = running_var != TD_NONE, v->saved = saved_mean != TD_NONE;
    launch.types[3].dtype = kept;
    launch.groups = td_launch_groups(x->device, v->channels);
    const int use = v->mode == NORM_TRAINING ? TD_UPDATED : TD_READ, saves = v->mode == NORM_SAVED ? TD_READ : TD_WRITTEN;
    return TD_LAUNCH_ON(launch, TD_UPDATES(s->mean), TD_UPDATES(s->rstd), {running_mean, kept, use}, {running_var, kept, use},
                        {saved_mean, saved, saves}, {saved_rstd, saved, saves});
}

int td_on_device_native_batch_norm(td_tensor *input, td_tensor *weight, td_tensor *bias, td_tensor *running_mean, td_tensor *running_var, bool training,
                                   double momentum, double eps, td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    norm_values v = channels_of(input);
    const td_dtype of = dtype_of(weight, bias == TD_NONE ? input : bias);
    const double count = (double)v.outer * (double)v.inner;
    v.mode = training ? NORM_TRAINING : NORM_RUNNING, v.eps = td_number(eps), v.momentum = td_number(momentum);
    /* The sample's own variance normalizes; what is kept estimates that of all samples. */
    v.unbiased = td_number(count / (count - 1));
    TD_AUTO td_tensor *x = td_make_contiguous(input);
    __attribute__((cleanup(drop))) statistics s = {NULL, NULL};
    if (!x || statistics_of(&s, &v, x, running_mean, running_var, training ? out1 : TD_NONE, training ? out2 : TD_NONE))
        return -1;
    td_tensor *const packed[] = {x, out0, NULL};
    v.weight = weight != TD_NONE, v.bias = bias != TD_NONE;
    return TD_LAUNCH_ON(launch_of("norm_channels", &v, x, of, (td_dtype)s.mean->dtype, planes(&v, x, packed)), TD_READS(x), TD_READS_AS(weight, of),
                        TD_READS_AS(bias, of), TD_READS(s.mean), TD_READS(s.rstd), TD_WRITES(out0));
}

int td_on_device_native_batch_norm_backward(td_tensor *grad, td_tensor *input, td_tensor *weight, td_tensor *running_mean, td_tensor *running_var,
                                            td_tensor *save_mean, td_tensor *save_invstd, bool train, double eps, int64_t n_mask, const bool *mask,
                                            td_tensor *out0, td_tensor *out1, td_tensor *out2)
{
    (void)n_mask, (void)mask;
    norm_values v = channels_of(input);
    v.mode = train ? NORM_SAVED : NORM_RUNNING, v.eps = td_number(eps);
    TD_AUTO td_tensor *x = td_make_contiguous(input), *g = td_as_contiguous(grad, (td_dtype)input->dtype);
    __attribute__((cleanup(drop))) statistics s = {NULL, NULL};
    if (!x || !g || (train ? statistics_of(&s, &v, x, TD_NONE, TD_NONE, save_mean, save_invstd)
                           : statistics_of(&s, &v, x, running_mean, running_var, TD_NONE, TD_NONE)))
        return -1;
    v.weight = weight != TD_NONE;
    TD_AUTO td_tensor *sums = channel_sums(&v, g, x, s.mean, s.rstd, (td_dtype)(out1 != TD_NONE ? out1 : out2 != TD_NONE ? out2 : input)->dtype, out1, out2);
    td_tensor *const packed[] = {g, x, out0, NULL};
    if (!sums || out0 == TD_NONE)
        return sums ? 0 : -1;
    const td_dtype of = dtype_of(weight, input);
    return TD_LAUNCH_ON(launch_of("norm_channels_backward", &v, x, of, (td_dtype)s.mean->dtype, planes(&v, x, packed)), TD_READS(g), TD_READS(x),
                        TD_READS_AS(weight, of), TD_READS(s.mean), TD_READS(s.rstd), TD_READS(sums), TD_WRITES(out0));
}
