/* Pooling of boxes: roi_align, ps_roi_align, roi_pool, ps_roi_pool, qroi_align, and their backward passes.
 *
 * A box, (image, left, top, right, bottom), is cut into rows x columns bins. `align` averages samples of a regular grid in each bin, each
 * interpolated between four elements; the others round bins to whole elements, and give the largest (roi_pool) or the average. `ps_`
 * ("position-sensitive") pools each bin from a channel of its own. A sample is a product of one along y and one along x, so both axes are
 * worked out once per box, and serve all channels. Samples outside of the plane count as zeros: they aren't kept, however large the box is.
 *
 * rois is [K, 5]; what is pooled is [N, C, H, W]; the result is [K, C, rows, columns], or of C / (rows * columns) channels. */
#include "torchvision.h"
#include <float.h>
#include <tgmath.h>

typedef struct pooling {
    const void *rois, *planes, *grad;
    void       *out;
    int32_t    *places;                         /* roi_pool: where the largest are; ps_: the channels */
    int64_t     boxes, channels, height, width; /* of `planes`, which backward passes write */
    int64_t     rows, columns, pooled;          /* bins, and the channels of the result */
    double      scale, shift;                   /* of a box's coordinates */
    int64_t     sampling;                       /* samples in a bin along an axis; 0: about one per element */
    bool        at_least_one, at_least_one_sample, by_position, failed;
} pooling;

/* Of samples at start + (i + 1/2) step, the range in which are all that lie in [-1, length], whatever float rounds: a box that reaches far
 * beyond the plane costs no more than one that covers it. */
static void reached(double start, double step, int64_t count, int64_t length, int64_t *begin, int64_t *end)
{
    const double a = step != 0 ? (-1 - start) / step : 0, b = step != 0 ? ((double)length - start) / step : (double)count;
    const double slack = 2 + (step != 0 ? 1e-6 * fabs(start / step) : 0), low = (a < b ? a : b) - slack, high = (a < b ? b : a) + slack;
    *begin = low > 0 ? low < (double)count ? (int64_t)low : count : 0;
    *end = high < (double)count ? high > 0 ? (int64_t)high : 0 : count;
}

#define T float
#define NAME(x) x##_f32
#define LEAST -FLT_MAX
#include "pools_loops.h"
#define T double
#define NAME(x) x##_f64
#define LEAST -DBL_MAX
#include "pools_loops.h"

/* ---- the operators, which have arguments of the same names */

typedef struct loops { td_loop_body *f32, *f64; } loops;
typedef struct kind {
    loops       forward, backward;
    bool        samples, by_position;
    const char *places;         /* of the backward pass: what the forward pass noted */
} kind;
static const kind roi_align = {{align_f32, align_f64}, {align_back_f32, align_back_f64}, true, false, NULL},
                  ps_roi_align = {{align_f32, align_f64}, {align_back_f32, align_back_f64}, true, true, "channel_mapping"},
                  roi_pool = {{pool_f32, pool_f64}, {pool_back_f32, pool_back_f64}, false, false, "argmax"},
                  ps_roi_pool = {{pool_f32, pool_f64}, {pool_back_f32, pool_back_f64}, false, true, "channel_mapping"};

/* The argument of this name, 0 or NULL where there is none. */
static td_value named(const td_op *op, const td_value *arguments, const char *name)
{
    const int i = td_argument_named(td_op_describe(op), name);
    return i < 0 ? (td_value){0} : arguments[i];
}
static int64_t integer(const td_op *op, const td_value *arguments, const char *name) { return named(op, arguments, name).integer; }
static double number(const td_op *op, const td_value *arguments, const char *name) { return named(op, arguments, name).number; }
static td_tensor *tensor(const td_op *op, const td_value *arguments, const char *name) { return named(op, arguments, name).tensor; }

enum { MOST_SAMPLES = 65536 };      /* in a bin, along an axis: they are kept */

/* Everything but memory. */
static int describe(const td_op *op, const td_value *arguments, const kind *k, const td_tensor *planes, pooling *p)
{
    const td_tensor *rois = tensor(op, arguments, "rois");
    if (td_tensor_ndim(rois) != 2 || size_of(rois, 1) != 5)
        return td_error(TD_E_RUNTIME, "%s: rois must have shape as Tensor[K, 5]", operator_title(op));
    *p = (pooling){.boxes = size_of(rois, 0), .scale = number(op, arguments, "spatial_scale"), .by_position = k->by_position};
    p->rows = integer(op, arguments, "pooled_height"), p->columns = integer(op, arguments, "pooled_width");
    p->sampling = integer(op, arguments, "sampling_ratio");
    const bool aligned = k->by_position || integer(op, arguments, "aligned");
    p->shift = k->samples && aligned ? .5 : 0, p->at_least_one = !aligned, p->at_least_one_sample = !k->by_position;
    if (planes) {
        if (td_tensor_ndim(planes) != 4)
            return td_error(TD_E_RUNTIME, "%s: input must have shape as Tensor[N, C, H, W], but has %d dimensions", operator_title(op),
                            td_tensor_ndim(planes));
        p->channels = size_of(planes, 1), p->height = size_of(planes, 2), p->width = size_of(planes, 3);
    } else {
        p->channels = integer(op, arguments, "channels"), p->height = integer(op, arguments, "height"), p->width = integer(op, arguments, "width");
        if (p->channels < 0 || p->height < 0 || p->width < 0)
            return td_error(TD_E_RUNTIME, "%s: channels, height and width must not be negative, but are %" PRId64 ", %" PRId64 " and %" PRId64,
                            operator_title(op), p->channels, p->height, p->width);
    }
    if (p->rows < 1 || p->columns < 1 || p->rows > INT32_MAX || p->columns > INT32_MAX)
        return td_error(TD_E_RUNTIME, "%s: pooled_height and pooled_width must be positive, not %" PRId64 " and %" PRId64, operator_title(op), p->rows,
                        p->columns);
    if (p->sampling > MOST_SAMPLES)
        return td_error(TD_E_RUNTIME, "%s: sampling_ratio must be at most %d, not %" PRId64, operator_title(op), MOST_SAMPLES, p->sampling);
    if (p->height > INT32_MAX || p->width > INT32_MAX || p->height * p->width > INT32_MAX)
        return td_error(TD_E_RUNTIME, "%s: planes of %" PRId64 " x %" PRId64 " elements are too large", operator_title(op), p->height, p->width);
    p->pooled = k->by_position ? p->channels / (p->rows * p->columns) : p->channels;
    if (k->by_position && p->channels % (p->rows * p->columns))
        return td_error(TD_E_RUNTIME, "%s: input channels must be a multiple of pooling height * pooling width (%" PRId64 " of %" PRId64 " x %" PRId64 ")",
                        operator_title(op), p->channels, p->rows, p->columns);
    const td_op_info *info = td_op_describe(op);
    return tv_same_dtype(op, arguments, td_argument_named(info, planes ? "input" : "grad"), td_argument_named(info, "rois"));
}

/* Each box is of an image that is there. `rois` is contiguous, of the computed dtype. */
static int check_images(const td_op *op, td_tensor *rois, int64_t images)
{
    for (int64_t i = 0; i < size_of(rois, 0); i++) {
        const double image = td_tensor_dtype(rois) == TD_F64 ? ((double *)td_tensor_data(rois))[5 * i] : (double)((float *)td_tensor_data(rois))[5 * i];
        if (!(image >= 0 && image < (double)images))
            return td_error(TD_E_INDEX, "%s: rois[%" PRId64 "] is a box of image %g, but there are %" PRId64, operator_title(op), i, image, images);
    }
    return 0;
}

static META(meta_pool)
{
    pooling p;
    const kind *k = context;
    td_tensor *x = tensor(op, arguments, "input");
    if (describe(op, arguments, k, x, &p) || tv_floats(op, x))
        return -1;
    const int64_t sizes[] = {p.boxes, p.pooled, p.rows, p.columns};
    const bool places = td_op_describe(op)->n_results > 1;
    return td_spec_set(specs, 4, sizes, td_tensor_dtype(x), td_tensor_device(x)) ||
           (places && td_spec_set(specs + 1, 4, sizes, TD_I32, td_tensor_device(x))) ? -1 : 0;
}

static int run(const td_op *op, const loops *l, td_dtype dtype, int64_t n, int64_t grain, pooling *p)
{
    td_parallel_for(0, n, grain, dtype == TD_F64 ? l->f64 : l->f32, p);
    return p->failed ? td_error(TD_E_MEMORY, "%s: no memory for the samples of a box", operator_title(op)) : 0;
}

static IMPL(pool)
{
    pooling p;
    const kind *k = context;
    td_tensor *input = tensor(op, arguments, "input");
    const td_dtype dtype = computed(td_tensor_dtype(input));
    const bool places = td_op_describe(op)->n_results > 1;
    TD_AUTO td_tensor *planes = td_as_contiguous(input, dtype), *rois = td_as_contiguous(tensor(op, arguments, "rois"), dtype);
    TD_AUTO td_tensor *out = td_writable(results[0], dtype), *noted = places ? td_writable(results[1], TD_I32) : TD_NONE;
    if (!planes || !rois || !out || !noted || describe(op, arguments, k, planes, &p) || check_images(op, rois, size_of(planes, 0)))
        return -1;
    if (!td_tensor_numel(out))
        return 0;
    p.planes = td_tensor_data(planes), p.rois = td_tensor_data(rois), p.out = td_tensor_data(out);
    p.places = places ? td_tensor_data(noted) : NULL;
    return run(op, &k->forward, dtype, p.boxes, 1, &p) || td_write_back(results[0], out) || (places && td_write_back(results[1], noted)) ? -1 : 0;
}

static META(meta_back)
{
    pooling p;
    td_tensor *grad = tensor(op, arguments, "grad");
    if (describe(op, arguments, context, NULL, &p) || tv_floats(op, grad) ||
        td_check_sizes_of(op, td_argument_named(td_op_describe(op), "grad"), grad, 4, (int64_t[]){p.boxes, p.pooled, p.rows, p.columns}))
        return -1;
    const int64_t sizes[] = {integer(op, arguments, "batch_size"), p.channels, p.height, p.width};
    return td_spec_set(specs, 4, sizes, td_tensor_dtype(grad), td_tensor_device(grad));
}

static IMPL(back)
{
    pooling p;
    const kind *k = context;
    td_tensor *given = tensor(op, arguments, "grad"), *places = k->places ? tensor(op, arguments, k->places) : NULL;
    const td_dtype dtype = computed(td_tensor_dtype(given));
    TD_AUTO td_tensor *grad = td_as_contiguous(given, dtype), *rois = td_as_contiguous(tensor(op, arguments, "rois"), dtype);
    TD_AUTO td_tensor *noted = places ? td_as_contiguous(places, TD_I32) : TD_NONE;
    TD_AUTO td_tensor *out = td_writable(results[0], dtype);
    if (!grad || !rois || !noted || !out || describe(op, arguments, k, NULL, &p) || check_images(op, rois, size_of(out, 0)))
        return -1;
    if (places && td_tensor_numel(noted) != td_tensor_numel(grad))
        return td_error(TD_E_RUNTIME, "%s: %s must have grad's shape", operator_title(op), k->places);
    if (td_tensor_numel(out))
        memset(td_tensor_data(out), 0, (size_t)td_tensor_numel(out) * td_dtype_size(dtype));
    p.planes = td_tensor_data(out), p.rois = td_tensor_data(rois), p.grad = td_tensor_data(grad);
    p.places = places ? td_tensor_data(noted) : NULL;
    if (td_tensor_numel(out) && td_tensor_numel(grad) && run(op, &k->backward, dtype, p.channels, 1, &p))
        return -1;
    return td_write_back(results[0], out);
}

/* ---- qroi_align: on the integers of quantized tensors; of the result, which has the input's scale and zero point */

static META(meta_quantized)
{
    (void)context;
    pooling p;
    td_tensor *x = tensor(op, arguments, "input");
    if (!(TD_DTYPE_BIT(td_tensor_dtype(x)) & TD_INTEGERS))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", operator_title(op), td_dtype_title(td_tensor_dtype(x)));
    if (describe(op, arguments, &roi_align, x, &p))
        return -1;
    return td_spec_set(specs, 4, (int64_t[]){p.boxes, p.pooled, p.rows, p.columns}, td_tensor_dtype(x), td_tensor_device(x));
}

static IMPL(quantized)
{
    (void)context;
    pooling p;
    const double zero = (double)integer(op, arguments, "input_zero_point");
    TD_AUTO td_tensor *planes = td_sub_scalar(tensor(op, arguments, "input"), td_float(zero), td_int(1));
    TD_AUTO td_tensor *x = planes ? td_as_contiguous(planes, TD_F32) : NULL, *integers = td_as_contiguous(tensor(op, arguments, "rois"), TD_F32);
    TD_AUTO td_tensor *from_zero = integers ? td_sub_scalar(integers, td_float((double)integer(op, arguments, "rois_zero_point")), td_int(1)) : NULL;
    TD_AUTO td_tensor *rois = from_zero ? td_mul_scalar(from_zero, td_float(number(op, arguments, "rois_scale"))) : NULL;
    TD_AUTO td_tensor *out = rois ? td_zeros(4, td_tensor_sizes(results[0]), TD_F32, td_tensor_device(rois)) : NULL;
    if (!x || !out || describe(op, arguments, &roi_align, x, &p) || check_images(op, rois, size_of(x, 0)))
        return -1;
    p.planes = td_tensor_data(x), p.rois = td_tensor_data(rois), p.out = td_tensor_data(out);
    if (td_tensor_numel(out) && run(op, &roi_align.forward, TD_F32, p.boxes, 1, &p))
        return -1;
    TD_AUTO td_tensor *whole = td_round(out);
    TD_AUTO td_tensor *shifted = td_add_scalar(whole, td_float(zero), td_int(1));
    const td_dtype dtype = td_tensor_dtype(results[0]);
    const double least = dtype == TD_U8 ? 0 : dtype == TD_I8 ? -128 : INT32_MIN, most = dtype == TD_U8 ? 255 : dtype == TD_I8 ? 127 : INT32_MAX;
    TD_AUTO td_tensor *bounded = td_clamp(shifted, (td_scalar[]){td_float(least)}, (td_scalar[]){td_float(most)});
    return bounded ? td_copy_elements(results[0], bounded) : -1;
}

#define SIZES "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
#define BINS  "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
int tv_define_pools(void)
{
    static const operator_entry entries[] = {
        {"torchvision::roi_align(Tensor input, Tensor rois, " BINS ", int sampling_ratio, bool aligned) -> Tensor", meta_pool, pool, &roi_align},
        {"torchvision::_roi_align_backward(Tensor grad, Tensor rois, " BINS ", " SIZES ", int sampling_ratio, bool aligned) -> Tensor", meta_back,
         back, &roi_align},
        {"torchvision::ps_roi_align(Tensor input, Tensor rois, " BINS ", int sampling_ratio) -> (Tensor, Tensor)", meta_pool, pool, &ps_roi_align},
        {"torchvision::_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, " BINS ", int sampling_ratio, " SIZES ") -> Tensor",
         meta_back, back, &ps_roi_align},
        {"torchvision::roi_pool(Tensor input, Tensor rois, " BINS ") -> (Tensor, Tensor)", meta_pool, pool, &roi_pool},
        {"torchvision::_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, " BINS ", " SIZES ") -> Tensor", meta_back, back, &roi_pool},
        {"torchvision::ps_roi_pool(Tensor input, Tensor rois, " BINS ") -> (Tensor, Tensor)", meta_pool, pool, &ps_roi_pool},
        {"torchvision::_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, " BINS ", " SIZES ") -> Tensor", meta_back, back,
         &ps_roi_pool},
        {"torchvision::qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, " BINS
         ", int sampling_ratio, bool aligned) -> Tensor", meta_quantized, quantized, NULL},
    };
    return operators_define(sizeof entries / sizeof *entries, entries) || tv_gradient("roi_align") || tv_gradient("ps_roi_align") ||
           tv_gradient("roi_pool") || tv_gradient("ps_roi_pool") ? -1 : 0;
}
