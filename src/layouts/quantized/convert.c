/* Quantized tensors made, and read: between numbers and integers.
 *
 * An integer is the nearest one to number * (1 / scale), in float32, ties to even, plus the zero point, kept within the dtype. */
#include "calls_layouts_quantized_convert.h"
#include "dispatch/outputs.h"
#include "layouts/quantized/loops.h"
#include "layouts/quantized/object.h"
#include "ops/compose.h"
#include "ops/quantize/range.h"

#include <inttypes.h>
#include <math.h>
#include <tede/kernel.h>

/* The comparison also catches NaN, which goes with what is too large. */
#define QUANTIZE(x, inverse, zero, least, most) ({                                                     \
    float shifted_ = (x) * (inverse);                                                                   \
    int64_t near_ = shifted_ < 2147483520.f ? shifted_ > -2147483648.f ? (int64_t)rintf(shifted_) : INT32_MIN : INT32_MAX; \
    int64_t at_ = near_ + (zero);                                                                       \
    at_ < (least) ? (least) : at_ > (most) ? (most) : at_; })

/* T: the integers; ptrs: result, numbers, and per channel scales and zero points. */
#define LOOPS(name, T, least, most)                                                                     \
    static void quantize_##name(int64_t n, char *const *ptrs, const void *params)                       \
    {                                                                                                   \
        const td_affine *a = params;                                                                    \
        for (int64_t i = 0; i < n; i++)                                                                 \
            ((T *)ptrs[0])[i] = (T)QUANTIZE(((const float *)ptrs[1])[i], a->inverse, a->zero_point, (int64_t)(least), (int64_t)(most)); \
    }                                                                                                   \
    static void quantize_channels_##name(int64_t n, char *const *ptrs, const void *params)              \
    {                                                                                                   \
        (void)params;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                               \
            const float inverse = 1.f / ((const float *)ptrs[2])[i];                                    \
            ((T *)ptrs[0])[i] = (T)QUANTIZE(((const float *)ptrs[1])[i], inverse, ((const int64_t *)ptrs[3])[i], (int64_t)(least), (int64_t)(most)); \
        }                                                                                               \
    }                                                                                                   \
    static void quantize_float_zeros_##name(int64_t n, char *const *ptrs, const void *params)           \
    {                                                                                                   \
        (void)params;                                                                                   \
        for (int64_t i = 0; i < n; i++) {                                                               \
            const float scale = ((const float *)ptrs[2])[i], inverse = scale == 0 ? 1.f : 1.f / scale;  \
            const int64_t at = lrintf(((const float *)ptrs[1])[i] * inverse + ((const float *)ptrs[3])[i]); \
            ((T *)ptrs[0])[i] = (T)(at < (least) ? (least) : at > (most) ? (most) : at);                \
        }                                                                                               \
    }                                                                                                   \
    static void dequantize_##name(int64_t n, char *const *ptrs, const void *params)                     \
    {                                                                                                   \
        const td_affine *a = params;                                                                    \
        for (int64_t i = 0; i < n; i++)                                                                 \
            ((float *)ptrs[0])[i] = a->scale * (float)(((const T *)ptrs[1])[i] - a->zero_point);        \
    }                                                                                                   \
    static void dequantize_channels_##name(int64_t n, char *const *ptrs, const void *params)            \
    {                                                                                                   \
        (void)params;                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                 \
            ((float *)ptrs[0])[i] = ((const float *)ptrs[2])[i] * (float)(((const T *)ptrs[1])[i] - ((const int64_t *)ptrs[3])[i]); \
    }                                                                                                   \
    static void dequantize_float_zeros_##name(int64_t n, char *const *ptrs, const void *params)         \
    {                                                                                                   \
        (void)params;                                                                                   \
        for (int64_t i = 0; i < n; i++)                                                                 \
            ((float *)ptrs[0])[i] = ((const float *)ptrs[2])[i] * ((float)((const T *)ptrs[1])[i] - ((const float *)ptrs[3])[i]); \
    }
LOOPS(i8, int8_t, -128, 127)
LOOPS(u8, uint8_t, 0, 255)
LOOPS(i32, int32_t, INT32_MIN, INT32_MAX)

static td_loop *const quantizing[][TD_LOOPS_ROWS] = {
    {quantize_i8, quantize_u8, quantize_i32}, {quantize_channels_i8, quantize_channels_u8, quantize_channels_i32},
    {quantize_float_zeros_i8, quantize_float_zeros_u8, quantize_float_zeros_i32}};
static td_loop *const dequantizing[][TD_LOOPS_ROWS] = {
    {dequantize_i8, dequantize_u8, dequantize_i32}, {dequantize_channels_i8, dequantize_channels_u8, dequantize_channels_i32},
    {dequantize_float_zeros_i8, dequantize_float_zeros_u8, dequantize_float_zeros_i32}};

/* Whether loops.c has loops for its zero points. */
static bool is_near(const td_quantizer *q, int integers)
{
    const int64_t limit = integers == TD_I32 ? TD_NEAR_ZERO_32 : TD_NEAR_ZERO, n = q->scheme == TD_PER_TENSOR_AFFINE ? 1 : q->scales->numel;
    const int64_t *zeros = q->scheme == TD_PER_TENSOR_AFFINE ? &q->zero_point : (const int64_t *)q->zero_points->data;
    bool near = q->scheme != TD_PER_CHANNEL_FLOAT;
    for (int64_t i = 0; i < n && near; i++)
        near = zeros[i] >= -limit && zeros[i] <= limit;
    return near;
}

/* Of an operand of shape (channels,) along x's axis. */
static td_tensor *along(const td_tensor *x, int axis, td_tensor *channels)
{
    int64_t sizes[TD_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        sizes[d] = d == axis ? x->sizes[axis] : 1;
    TD_AUTO td_tensor *row = td_view(channels, x->ndim, sizes);
    return row ? td_expand(row, x->ndim, x->sizes) : NULL;
}

/* `again`: numbers that were integers. */
static int convert(td_tensor *to, td_tensor *from, const td_quantizer *q, bool quantizes, bool again)
{
    const int integers = quantizes ? to->dtype : from->dtype, row = td_loops_row(integers);
    const td_affine_loops *here = td_affine_loops_here();
    const bool near = is_near(q, integers);
    td_loop *far = (quantizes ? quantizing : dequantizing)[q->scheme][row];
    if (q->scheme == TD_PER_TENSOR_AFFINE) {
        const td_affine a = td_affine_of(q->scale, q->zero_point);
        return td_iterate(1, 1, (td_tensor *[]){to, from}, (td_dtype[]){(td_dtype)to->dtype, (td_dtype)from->dtype},
                          near ? (!quantizes ? here->dequantize : again ? here->requantize : here->quantize)[row] : far, &a, 2);
    }
    if (q->axis < 0 || q->axis >= from->ndim)
        return td_error(TD_E_RUNTIME, "Channel axis out of range in per channel affine dequantization. Got:%d Expected: [0, %d)", q->axis, from->ndim);
    TD_AUTO td_tensor *floats = td_to(q->scales, TD_F32), *by = floats && near && quantizes ? td_reciprocal(floats) : td_ref(floats);
    TD_AUTO td_tensor *points = near ? td_to(q->zero_points, td_loops_zeros(integers)) : td_ref(q->zero_points);
    TD_AUTO td_tensor *scales = by ? along(from, q->axis, by) : NULL, *zeros = points ? along(from, q->axis, points) : NULL;
    if (!scales || !zeros)
        return -1;
    return td_iterate(1, 3, (td_tensor *[]){to, from, scales, zeros},
                      (td_dtype[]){(td_dtype)to->dtype, (td_dtype)from->dtype, TD_F32, (td_dtype)points->dtype},
                      near ? (quantizes ? here->quantize_channels : here->dequantize_channels)[row] : far, NULL, 3);
}

int64_t td_quantized_number(const td_quantizer *q, int dtype, double value)
{
    return QUANTIZE((float)value, 1.f / (float)q->scale, q->zero_point, td_quantized_least(dtype), td_quantized_most(dtype));
}

static td_tensor *from_numbers(td_tensor *x, const td_quantizer *q, td_dtype dtype, bool again)
{
    TD_AUTO td_tensor *integers = x && q ? td_empty_like(x, td_integers_of(dtype), TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE) : NULL;
    if (!integers || convert(integers, x, q, true, again))
        return NULL;
    return td_quantized_each(dtype) > 1 ? td_quantized_packed(integers, q, dtype) : td_quantized_over(integers, q);
}

td_tensor *td_quantized_from(td_tensor *x, const td_quantizer *q, td_dtype dtype) { return from_numbers(x, q, dtype, false); }
td_tensor *td_requantized_from(td_tensor *x, const td_quantizer *q, td_dtype dtype) { return from_numbers(x, q, dtype, true); }

/* The integers, an element each: x's memory, or of a few bits new memory. */
static td_tensor *each_of(td_tensor *x) { return td_quantized_each(x->dtype) > 1 ? td_quantized_unpacked(x) : td_quantized_integers(x); }

/* ---- operators */

static int check_floats(const td_tensor *x, td_dtype dtype)
{
    if (td_integers_of(dtype) == TD_DTYPE_NONE)
        return td_error(TD_E_RUNTIME, "ScalarType %s is not supported in new_qtensor.", td_dtype_title(dtype));
    return x->dtype == TD_F32 ? 0 : td_error(TD_E_RUNTIME, "Quantize only works on Float Tensor, got %s", td_dtype_title((td_dtype)x->dtype));
}
/* Of a few bits a zero point may be any number, as in PyTorch. */
static int check_zero_point(const char *of, int64_t zero_point, td_dtype dtype)
{
    if (td_quantized_each(dtype) > 1)
        return 0;
    if (zero_point > td_quantized_most(dtype))
        return td_error(TD_E_RUNTIME, "%s zero_point %" PRId64 " is above upper bound.", of, zero_point);
    return zero_point >= td_quantized_least(dtype) ? 0 : td_error(TD_E_RUNTIME, "%s zero_point %" PRId64 " is below lower bound.", of, zero_point);
}

static td_tensor *per_tensor(td_tensor *self, double scale, int64_t zero_point, td_dtype dtype, bool again)
{
    if (check_floats(self, dtype) || check_zero_point("quantize_tensor_per_tensor_affine", zero_point, dtype))
        return NULL;
    TD_AUTO_QUANTIZER td_quantizer *q = td_quantizer_per_tensor(scale, zero_point);
    return from_numbers(self, q, dtype, again);
}
td_tensor *td_op_quantize_per_tensor(td_tensor *self, double scale, int64_t zero_point, td_dtype dtype)
{
    return per_tensor(self, scale, zero_point, dtype, false);
}
td_tensor *td_op__quantize_again(td_tensor *self, double scale, int64_t zero_point, td_dtype dtype)
{
    return per_tensor(self, scale, zero_point, dtype, true);
}

/* The one number of a tensor. */
static int number_of(td_tensor *x, td_scalar *number) { return td_tensor_item(x, number); }
static double as_double(td_scalar x) { return x.kind == TD_SCALAR_FLOAT ? x.d : (double)x.i; }
static int64_t as_int(td_scalar x) { return x.kind == TD_SCALAR_FLOAT ? (int64_t)x.d : x.i; }

td_tensor *td_op_quantize_per_tensor_tensor_qparams(td_tensor *self, td_tensor *scale, td_tensor *zero_point, td_dtype dtype)
{
    td_scalar step, zero;
    return number_of(scale, &step) || number_of(zero_point, &zero) ? NULL : td_op_quantize_per_tensor(self, as_double(step), as_int(zero), dtype);
}

int td_op_quantize_per_tensor_tensors(td_tensor_list *results, int64_t tensors_count, td_tensor *const *tensors, td_tensor *scales, td_tensor *zero_points, td_dtype dtype)
{
    if (td_tensor_list_new(results, tensors_count))
        return -1;
    for (int64_t i = 0; i < tensors_count; i++) {
        TD_AUTO td_tensor *scale = td_select_int(scales, 0, i), *zero = td_select_int(zero_points, 0, i);
        if (!scale || !zero || !(results->items[i] = td_op_quantize_per_tensor_tensor_qparams(tensors[i], scale, zero, dtype)))
            return td_tensor_list_release(results), -1;
    }
    return 0;
}

td_tensor *td_op_quantize_per_tensor_dynamic(td_tensor *self, td_dtype dtype, bool reduce_range)
{
    if (dtype != TD_QI8 && dtype != TD_QU8)
        return td_fail(TD_E_RUNTIME, "dtype %s not supported", td_dtype_title(dtype));
    if (check_floats(self, dtype))
        return NULL;
    float least = 0, most = 0;
    if (self->numel) {
        TD_AUTO td_tensor *low = td_amin(self, 0, NULL, false), *high = td_amax(self, 0, NULL, false);
        td_scalar from, to;         /* read so that a tensor without elements, on meta or while a program is recorded, is an error */
        if (!low || !high || td_tensor_item(low, &from) || td_tensor_item(high, &to))
            return NULL;
        least = (float)from.d, most = (float)to.d;
    } else {
        return td_fail(TD_E_RUNTIME, "x_contig.numel() > 0 is expected: a tensor without elements has no range");
    }
    int64_t q_least = td_quantized_least(dtype), q_most = td_quantized_most(dtype), zero_point;
    if (reduce_range)
        q_least /= 2, q_most /= 2;
    double scale;
    td_choose_qparams(least, most, q_least, q_most, &scale, &zero_point);
    return td_op_quantize_per_tensor(self, scale, zero_point, dtype);
}

td_tensor *td_op_quantize_per_channel(td_tensor *self, td_tensor *scales, td_tensor *zero_points, int64_t axis, td_dtype dtype)
{
    if (check_floats(self, dtype))
        return NULL;
    if (axis < 0 || axis >= self->ndim)
        return td_fail(TD_E_RUNTIME, "Channel axis out of range in per channel affine quantization. Got: %" PRId64 "Expected: [0, %d)", axis, self->ndim);
    if (scales->ndim != 1 || zero_points->ndim != 1 || scales->numel != zero_points->numel)
        return td_fail(TD_E_RUNTIME, "scale and zero-point need to have the same dimensions.");
    if (scales->numel != self->sizes[axis])
        return td_fail(TD_E_RUNTIME, "length of scales must equal to channel, expected %" PRId64 " got, %" PRId64, self->sizes[axis], scales->numel);
    TD_AUTO_QUANTIZER td_quantizer *q = td_quantizer_per_channel(scales, zero_points, (int)axis);
    if (q && q->scheme == TD_PER_CHANNEL_AFFINE && td_quantized_each(dtype) > 1)
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"quantize_tensor_per_channel_affine\" not implemented for '%s'; it takes zero points that are floats",
                       td_dtype_title(dtype));
    for (int64_t i = 0; q && q->scheme == TD_PER_CHANNEL_AFFINE && i < scales->numel; i++)
        if (check_zero_point("quantize_tensor_per_channel_affine", ((const int64_t *)q->zero_points->data)[i], dtype))
            return NULL;
    return td_quantized_from(self, q, dtype);
}

/* What isn't quantized is converted. */
td_tensor *td_op_dequantize_self(td_tensor *self) { return td_to(self, TD_F32); }
td_tensor *td_quantized_dequantize_self(td_tensor *self)
{
    TD_AUTO td_tensor *integers = each_of(self);
    TD_AUTO td_tensor *numbers = integers ? td_empty_like(integers, TD_F32, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE) : NULL;
    return !numbers || convert(numbers, integers, td_quantizer_of(self), false, false) ? NULL : td_ref(numbers);
}
td_tensor *td_op__quantized_over(td_tensor *self, td_tensor *like) { return td_layout_refuse("_quantized_over", like == TD_NONE ? self : like); }
td_tensor *td_quantized__quantized_over(td_tensor *self, td_tensor *like)
{
    if (td_is_quantized(self) || !td_is_quantized(like) || self->dtype != (int)td_integers_of(like->dtype))
        return td_fail(TD_E_RUNTIME, "_quantized_over: expected integers and a tensor that is quantized to such ones");
    return td_quantized_over(self, td_quantizer_of(like));
}
td_tensor *td_op__dequantize_fused(td_tensor *self) { return td_layout_refuse("_dequantize_fused", self); }
td_tensor *td_quantized__dequantize_fused(td_tensor *self)
{
    TD_AUTO td_tensor *integers = each_of(self);
    TD_AUTO td_tensor *numbers = integers ? td_empty_like(integers, TD_F32, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE) : NULL;
    if (td_check_per_tensor(self) || !numbers)
        return NULL;
    const td_affine a = td_affine_of(td_quantizer_of(self)->scale, td_quantizer_of(self)->zero_point);
    return td_iterate(1, 1, (td_tensor *[]){numbers, integers}, (td_dtype[]){TD_F32, (td_dtype)integers->dtype},
                      td_affine_loops_here()->fused[td_loops_row(integers->dtype)], &a, 2) ? NULL : td_ref(numbers);
}

/* ---- sums and products, of which only the integers are in memory */

static td_tensor *combined(const char *name, td_tensor *self, td_tensor *other, td_affine_pair p, td_loop *const *loops)
{
    if (!td_is_quantized(self) || !td_is_quantized(other) || other->dtype != self->dtype)
        return td_fail(TD_E_RUNTIME, "%s: Expected operands of one dtype: %s, %s", name, td_dtype_title((td_dtype)self->dtype),
                       td_dtype_title((td_dtype)other->dtype));
    if (td_check_per_tensor(self) || td_check_per_tensor(other))
        return NULL;
    p.a = td_affine_of(td_quantizer_of(self)->scale, td_quantizer_of(self)->zero_point);
    p.b = td_affine_of(td_quantizer_of(other)->scale, td_quantizer_of(other)->zero_point);
    p.factor = p.a.scale * p.b.scale * p.to.inverse;
    TD_AUTO td_tensor *a = each_of(self), *b = each_of(other);
    int64_t sizes[TD_MAX_DIMS];
    const int ndim = a && b ? td_broadcast_shape(name, 2, (td_tensor *[]){a, b}, sizes) : -1;
    if (ndim < 0)
        return NULL;
    const td_dtype dtype = (td_dtype)a->dtype;
    const bool alike = ndim == a->ndim && !memcmp(sizes, a->sizes, sizeof *sizes * (size_t)ndim);
    TD_AUTO td_tensor *to = alike && td_has_channels_last(a) ? td_empty_like(a, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_PRESERVE_FORMAT)
                            : td_tensor_new(ndim, sizes, dtype, a->device);
    if (!to || td_iterate(1, 2, (td_tensor *[]){to, a, b}, (td_dtype[]){dtype, dtype, dtype}, loops[td_loops_row(dtype)], &p, 3))
        return NULL;
    TD_AUTO_QUANTIZER td_quantizer *q = td_quantizer_per_tensor(p.scale, p.to.zero_point);
    return td_quantized_each(self->dtype) > 1 ? td_quantized_packed(to, q, (td_dtype)self->dtype) : td_quantized_over(to, q);
}

td_tensor *td_op__quantized_add(td_tensor *self, td_tensor *other, double scale, int64_t zero_point, bool relu)
{
    (void)other, (void)scale, (void)zero_point, (void)relu;
    return td_layout_refuse("_quantized_add", self);
}
td_tensor *td_quantized__quantized_add(td_tensor *self, td_tensor *other, double scale, int64_t zero_point, bool relu)
{
    return td_is_quantized(self) && check_zero_point("quantize_tensor_per_tensor_affine", zero_point, (td_dtype)self->dtype) ? NULL
           : combined("add", self, other, (td_affine_pair){.to = td_affine_of(scale, zero_point), .scale = scale, .relu = relu}, td_affine_loops_here()->add);
}
td_tensor *td_op__quantized_mul(td_tensor *self, td_tensor *other, double scale, int64_t zero_point, bool relu)
{
    (void)other, (void)scale, (void)zero_point, (void)relu;
    return td_layout_refuse("_quantized_mul", self);
}
td_tensor *td_quantized__quantized_mul(td_tensor *self, td_tensor *other, double scale, int64_t zero_point, bool relu)
{
    return combined("mul", self, other, (td_affine_pair){.to = td_affine_of(scale, zero_point), .scale = scale, .relu = relu}, td_affine_loops_here()->multiply);
}

int td_op_dequantize_tensors(td_tensor_list *results, int64_t tensors_count, td_tensor *const *tensors)
{
    if (td_tensor_list_new(results, tensors_count))
        return -1;
    for (int64_t i = 0; i < tensors_count; i++)
        if (!(results->items[i] = td_dequantize_self(tensors[i])))
            return td_tensor_list_release(results), -1;
    return 0;
}

/* Of a few bits the bytes, in one dimension. */
td_tensor *td_quantized_int_repr(td_tensor *self)
{
    TD_AUTO td_tensor *integers = td_quantized_each(self->dtype) > 1 ? td_quantized_bytes(self) : td_quantized_integers(self);
    return integers ? td_clone(integers) : NULL;
}

/* ---- what the quantizer is; of other tensors there is none */
static int none(const char *op, const td_tensor *x)
{
    td_layout_refuse(op, x);
    return -1;
}
int td_op_q_scale(double *results, td_tensor *self) { return (void)results, none("q_scale", self); }
int td_op_q_zero_point(int64_t *results, td_tensor *self) { return (void)results, none("q_zero_point", self); }
int td_op_q_per_channel_axis(int64_t *results, td_tensor *self) { return (void)results, none("q_per_channel_axis", self); }
int td_op__qscheme(int64_t *results, td_tensor *self) { return (void)results, none("qscheme", self); }
td_tensor *td_op_q_per_channel_scales(td_tensor *self) { return td_layout_refuse("q_per_channel_scales", self); }
td_tensor *td_op_q_per_channel_zero_points(td_tensor *self) { return td_layout_refuse("q_per_channel_zero_points", self); }
td_tensor *td_op_int_repr(td_tensor *self) { return td_layout_refuse("int_repr", self); }

static int check_per_channel(const td_tensor *x)
{
    return td_quantizer_of(x)->scheme != TD_PER_TENSOR_AFFINE ? 0
           : td_error(TD_E_RUNTIME, "Expected quantizer->qscheme() == kPerChannelAffine || quantizer->qscheme() == kPerChannelAffineFloatQParams "
                      "to be true, but got false.  (Could this error message be improved?  If so, please report an enhancement request to PyTorch.)");
}
int td_quantized_q_scale(double *results, td_tensor *self)
{
    *results = td_quantizer_of(self)->scale;
    return td_check_per_tensor(self);
}
int td_quantized_q_zero_point(int64_t *results, td_tensor *self)
{
    *results = td_quantizer_of(self)->zero_point;
    return td_check_per_tensor(self);
}
int td_quantized_q_per_channel_axis(int64_t *results, td_tensor *self)
{
    *results = td_quantizer_of(self)->axis;
    return check_per_channel(self);
}
int td_quantized__qscheme(int64_t *results, td_tensor *self)
{
    *results = td_quantizer_of(self)->scheme;
    return 0;
}
/* Copies: a quantizer doesn't change. */
td_tensor *td_quantized_q_per_channel_scales(td_tensor *self)
{
    return check_per_channel(self) ? NULL : td_clone(td_quantizer_of(self)->scales);
}
td_tensor *td_quantized_q_per_channel_zero_points(td_tensor *self)
{
    return check_per_channel(self) ? NULL : td_clone(td_quantizer_of(self)->zero_points);
}

/* ---- of integers, and without values */

static td_tensor *copied(td_tensor *integers, const td_quantizer *q)
{
    if (td_quantized_of(integers->dtype) == TD_DTYPE_NONE)
        return td_fail(TD_E_RUNTIME, "a quantized tensor is made of int8, uint8 or int32, not %s", td_dtype_title((td_dtype)integers->dtype));
    TD_AUTO td_tensor *copy = td_clone(integers);
    return td_quantized_over(copy, q);
}
td_tensor *td_op__make_per_tensor_quantized_tensor(td_tensor *self, double scale, int64_t zero_point)
{
    TD_AUTO_QUANTIZER td_quantizer *q = td_quantizer_per_tensor(scale, zero_point);
    return q ? copied(self, q) : NULL;
}
td_tensor *td_op__make_per_channel_quantized_tensor(td_tensor *self, td_tensor *scale, td_tensor *zero_point, int64_t axis)
{
    if (scale->ndim != 1 || zero_point->ndim != 1 || scale->numel != zero_point->numel || axis < 0 || axis >= self->ndim || scale->numel != self->sizes[axis])
        return td_fail(TD_E_RUNTIME, "scale and zero-point need to have the same dimensions, and as many elements as axis %" PRId64 " has", axis);
    TD_AUTO_QUANTIZER td_quantizer *q = td_quantizer_per_channel(scale, zero_point, (int)axis);
    return q ? copied(self, q) : NULL;
}

static td_tensor *empty(int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device, td_memory_format format, const td_quantizer *q)
{
    if (dtype == TD_DTYPE_NONE || td_integers_of(dtype) == TD_DTYPE_NONE)
        return td_fail(TD_E_RUNTIME, "Creation of quantized tensor requires quantized dtype like torch.quint8");
    if (td_quantized_each(dtype) > 1)
        return td_quantized_empty_packed((int)ndim, sizes, dtype, device, q);
    TD_AUTO td_tensor *integers = td_empty_memory_format(ndim, sizes, td_integers_of(dtype), device, format);
    return td_quantized_over(integers, q);
}
td_tensor *td_op__empty_affine_quantized(int64_t size_count, const int64_t *size, td_dtype dtype, td_device device, double scale, int64_t zero_point,
                                         td_memory_format memory_format)
{
    TD_AUTO_QUANTIZER td_quantizer *q = td_quantizer_per_tensor(scale, zero_point);
    return q ? empty(size_count, size, dtype, device, memory_format, q) : NULL;
}
td_tensor *td_op__empty_per_channel_affine_quantized(int64_t size_count, const int64_t *size, td_tensor *scales, td_tensor *zero_points, int64_t axis,
                                                     td_dtype dtype, td_device device, td_memory_format memory_format)
{
    if (axis < 0 || axis >= size_count || scales->ndim != 1 || scales->numel != size[axis] || zero_points->numel != scales->numel)
        return td_fail(TD_E_RUNTIME, "scales and zero points need as many elements as axis %" PRId64 " has", axis);
    TD_AUTO_QUANTIZER td_quantizer *q = td_quantizer_per_channel(scales, zero_points, (int)axis);
    return q ? empty(size_count, size, dtype, device, memory_format, q) : NULL;
}
td_tensor *td_op_empty_quantized(int64_t size_count, const int64_t *size, td_tensor *qtensor, td_dtype dtype, td_device device, td_memory_format memory_format)
{
    (void)size_count, (void)size, (void)dtype, (void)device, (void)memory_format;
    return td_layout_refuse("empty_quantized", qtensor);
}
td_tensor *td_quantized_empty_quantized(int64_t size_count, const int64_t *size, td_tensor *qtensor, td_dtype dtype, td_device device, td_memory_format memory_format)
{
    return empty(size_count, size, dtype == TD_DTYPE_NONE ? (td_dtype)qtensor->dtype : dtype, device, memory_format, td_quantizer_of(qtensor));
}
