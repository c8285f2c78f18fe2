/* Operators on quantized tensors that no pattern covers: copies, joins, averages. */
#include "calls_layouts_quantized_kernels.h"
#include "layouts/quantized/bytes.h"
#include "ops/compose.h"

#include <math.h>
#include <tede/kernel.h>

/* ---- copies */

static td_tensor *like(td_tensor *self, td_dtype dtype, td_device device, td_memory_format format)
{
    if (dtype != TD_DTYPE_NONE && dtype != (td_dtype)self->dtype)
        return td_integers_of(dtype) == TD_DTYPE_NONE ? td_fail(TD_E_RUNTIME, "Creation of quantized tensor requires quantized dtype like torch.quint8")
               : td_fail(TD_E_RUNTIME, "Expected self.scalar_type() == src.scalar_type() to be true, but got false.  (Could this error message "
                         "be improved?  If so, please report an enhancement request to PyTorch.)");
    if (td_quantized_each(self->dtype) > 1)
        return td_quantized_empty_packed(self->ndim, self->sizes, (td_dtype)self->dtype, device.type < 0 ? self->device : device, td_quantizer_of(self));
    TD_AUTO td_tensor *integers = td_quantized_integers(self);
    TD_AUTO td_tensor *empty = integers ? td_empty_like(integers, TD_DTYPE_NONE, device, format) : NULL;
    return td_quantized_over(empty, td_quantizer_of(self));
}
/* What is copied to copy all elements: the integers, or the bytes that several share. */
static td_tensor *memory_of(td_tensor *x) { return x && td_quantized_each(x->dtype) > 1 ? td_quantized_bytes(x) : td_quantized_integers(x); }

static td_tensor *copy_of(td_tensor *self, td_dtype dtype, td_device device, td_memory_format format)
{
    TD_AUTO td_tensor *copy = like(self, dtype, device, format), *to = memory_of(copy), *from = memory_of(self);
    return !to || !from || td_copy_(to, from) ? NULL : td_ref(copy);
}

td_tensor *td_quantized_empty_like(td_tensor *self, td_dtype dtype, td_device device, td_memory_format format) { return like(self, dtype, device, format); }
td_tensor *td_quantized_clone_format(td_tensor *self, td_memory_format format) { return copy_of(self, TD_DTYPE_NONE, TD_DEVICE_NONE, format); }
td_tensor *td_quantized__to_copy(td_tensor *self, td_dtype dtype, td_device device, bool non_blocking, td_memory_format format)
{
    (void)non_blocking;
    return copy_of(self, dtype, device, format);
}

/* Integers are copied as they are, and the quantizer with them; numbers are quantized as self is. */
int td_quantized_copy_from_(td_tensor *self, td_tensor *src, bool non_blocking)
{
    if (!td_is_quantized(self))
        return td_error(TD_E_RUNTIME, "Copying from quantized Tensor to non-quantized Tensor is not allowed, please use dequantize to get a "
                        "float Tensor from a quantized Tensor");
    TD_AUTO td_tensor *to = memory_of(self);
    if (td_is_quantized(src)) {
        if (src->dtype != self->dtype)
            return td_error(TD_E_RUNTIME, "Quantized Copy only works with kQInt8, kQUInt8 and kQInt32 as target dtype, and between equal ones: "
                            "got %s and %s", td_dtype_title((td_dtype)self->dtype), td_dtype_title((td_dtype)src->dtype));
        if (td_quantized_each(self->dtype) > 1 && (self->ndim != src->ndim || memcmp(self->sizes, src->sizes, sizeof *self->sizes * (size_t)self->ndim)))
            return td_error(TD_E_RUNTIME, "copy_: elements that share a byte are copied between tensors of one shape");
        TD_AUTO td_tensor *from = memory_of(src);
        if (!to || !from || td_copy_from_(to, from, non_blocking))
            return -1;
        td_quantized_take(self, td_quantizer_of(src));
        return 0;
    }
    if (src->dtype != TD_F32)
        return td_error(TD_E_RUNTIME, "Quantized copy only works with kFloat as source Tensor");
    TD_AUTO td_tensor *shaped = src->ndim == self->ndim && td_quantized_each(self->dtype) == 1 ? td_ref(src) : td_expand(src, self->ndim, self->sizes);
    TD_AUTO td_tensor *quantized = td_quantized_from(shaped, td_quantizer_of(self), (td_dtype)self->dtype), *from = memory_of(quantized);
    return !to || !from ? -1 : td_copy_from_(to, from, non_blocking);
}

/* Of channels, each has the integer that is the number by its scale. */
int td_quantized_fill_scalar_(td_tensor *self, td_scalar value)
{
    const td_quantizer *q = td_quantizer_of(self);
    const double number = value.kind == TD_SCALAR_FLOAT ? value.d : (double)value.i;
    if (q->scheme != TD_PER_TENSOR_AFFINE && td_quantized_each(self->dtype) == 1) {
        TD_AUTO td_tensor *one = td_full(0, NULL, td_float(number), TD_F32, self->device), *numbers = one ? td_expand(one, self->ndim, self->sizes) : NULL;
        return numbers ? td_quantized_copy_from_(self, numbers, false) : -1;
    }
    TD_AUTO td_tensor *integers = td_quantized_integers(self);
    return integers ? td_fill_scalar_(integers, td_int(td_quantized_number(q, self->dtype, number))) : -1;
}

int td_quantized_resize(td_tensor *self, int64_t n_size, const int64_t *size, td_memory_format format)
{
    if (td_quantizer_of(self)->scheme != TD_PER_TENSOR_AFFINE)
        return td_error(TD_E_RUNTIME, "Can only resize quantized tensors with per-tensor schemes!");
    TD_AUTO td_tensor *integers = td_quantized_integers(self);
    if (!integers || td_resize_(integers, n_size, size, format) || td_tensor_set_geometry(self, integers->ndim, integers->sizes, integers->strides))
        return -1;
    self->data = integers->data;
    return 0;
}

int td_quantized_equal(bool *results, td_tensor *self, td_tensor *other)
{
    *results = false;
    if (!td_is_quantized(self) || !td_is_quantized(other) || self->dtype != other->dtype)
        return 0;
    if (!td_quantizers_agree(td_quantizer_of(self), td_quantizer_of(other)))
        return 0;
    const bool shared = td_quantized_each(self->dtype) > 1;           /* bits behind the last element are anything */
    TD_AUTO td_tensor *a = shared ? td_quantized_unpacked(self) : td_quantized_integers(self);
    TD_AUTO td_tensor *b = shared ? td_quantized_unpacked(other) : td_quantized_integers(other);
    return a && b ? td_equal(results, a, b) : -1;
}

/* ---- elementwise */

td_tensor *td_quantized_relu(td_tensor *self)
{
    if (td_check_per_tensor(self))
        return NULL;
    TD_AUTO td_tensor *integers = td_quantized_integers(self);
    TD_AUTO td_tensor *made = integers ? td_clamp_min(integers, td_int(td_quantizer_of(self)->zero_point)) : NULL;
    return td_quantized_over(made, td_quantizer_of(self));
}

/* All quantized as the first one is. */
td_tensor *td_quantized_cat(int64_t n, td_tensor *const *tensors, int64_t dim)
{
    td_tensor *first = n ? tensors[0] : NULL;
    for (int64_t i = 0; i < n; i++)
        if (!td_is_quantized(tensors[i]) || tensors[i]->dtype != first->dtype || td_quantizer_of(tensors[i])->scheme != TD_PER_TENSOR_AFFINE)
            return td_fail(TD_E_RUNTIME, "Only per-tensor quantization is supported in 'cat'!");
    return first ? td_quantized_joined(n, tensors, dim, td_quantizer_of(first), false) : NULL;
}

/* ---- averages: sums of integers, over how many they are */

/* An average of the integers without their zero point, moved back and rounded. */
static td_tensor *averaged(td_tensor *self, td_tensor *means)
{
    TD_AUTO td_tensor *moved = means ? td_plus(means, td_int(td_quantizer_of(self)->zero_point)) : NULL;
    TD_AUTO td_tensor *near = moved ? td_round(moved) : NULL;
    TD_AUTO td_tensor *kept = near ? td_clamp(near, &(td_scalar){.kind = TD_SCALAR_INT, .i = td_quantized_least(self->dtype)},
                                               &(td_scalar){.kind = TD_SCALAR_INT, .i = td_quantized_most(self->dtype)}) : NULL;
    TD_AUTO td_tensor *integers = kept ? td_to(kept, td_integers_of(self->dtype)) : NULL;
    return td_quantized_over(integers, td_quantizer_of(self));
}
/* The integers without their zero point, as float64. */
static td_tensor *centered(td_tensor *self)
{
    if (td_check_per_tensor(self))
        return NULL;
    TD_AUTO td_tensor *integers = td_quantized_integers(self);
    TD_AUTO td_tensor *numbers = integers ? td_to(integers, TD_F64) : NULL;
    return numbers ? td_plus(numbers, td_int(-td_quantizer_of(self)->zero_point)) : NULL;
}

/* ---- pooling of images: bytes with channels last, if they are bytes */

/* The operator on a tensor without memory, which checks the arguments and has the result's sizes and strides. */
static td_tensor *without_memory(td_tensor *self)
{
    return td_empty_strided(self->ndim, self->sizes, self->ndim, self->strides, TD_F32, (td_device){TD_META, -1});
}
static bool is_of_images(const td_tensor *self)
{
    return (self->dtype == TD_QI8 || self->dtype == TD_QU8) && (self->ndim == 3 || self->ndim == 4) && self->device.type == TD_CPU;
}

/* As `shape` is, which is of the operator's result. */
static td_tensor *pooled(td_tensor *self, td_tensor *shape, int64_t n_window, const int64_t *window, bool maximum, bool include_pad, int64_t divisor)
{
    const bool single = self->ndim == 3;
    TD_AUTO td_tensor *integers = shape ? td_quantized_integers(self) : NULL;
    TD_AUTO td_tensor *batch = single ? td_unsqueeze(integers, 0) : td_ref(integers), *pixels = td_permute(batch, 4, (int64_t[]){0, 2, 3, 1});
    if (!pixels)
        return NULL;
    TD_AUTO td_tensor *made = td__bytes_pool(pixels, 2, shape->sizes + shape->ndim - 2, n_window, window, maximum, include_pad, divisor,
                                             td_quantizer_of(self)->zero_point);
    TD_AUTO td_tensor *images = td_permute(made, 4, (int64_t[]){0, 3, 1, 2}), *all = single ? td_squeeze_dim(images, 0) : td_ref(images);
    TD_AUTO td_tensor *lies = shape->flags & TD_FLAG_CONTIGUOUS && all ? td_make_contiguous(all) : td_ref(all);
    return td_quantized_over(lies, td_quantizer_of(self));
}

/* One number for two dimensions or one each. */
static void fill_two(int64_t *to, int64_t n, const int64_t *numbers) { to[0] = numbers[0], to[1] = numbers[n == 1 ? 0 : 1]; }

/* Those of a window, whose step is its size where none is given. */
static void fill_window(int64_t *to, int64_t n_kernel, const int64_t *kernel, int64_t n_stride, const int64_t *stride, int64_t n_padding, const int64_t *padding)
{
    fill_two(to, n_kernel, kernel);
    fill_two(to + 2, n_stride ? n_stride : n_kernel, n_stride ? stride : kernel);
    fill_two(to + 4, n_padding, padding);
}

td_tensor *td_quantized_max_pool2d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride, const int64_t *stride, int64_t n_padding,
                                   const int64_t *padding, int64_t n_dilation, const int64_t *dilation, bool ceil_mode)
{
    if (td_check_per_tensor(self))
        return NULL;
    if (!is_of_images(self)) {
        TD_AUTO td_tensor *integers = td_quantized_integers(self);
        TD_AUTO td_tensor *made = integers ? td_max_pool2d(integers, n_kernel, kernel, n_stride, stride, n_padding, padding, n_dilation, dilation, ceil_mode) : NULL;
        return td_quantized_over(made, td_quantizer_of(self));
    }
    TD_AUTO td_tensor *meta = without_memory(self);
    TD_AUTO td_tensor *shape = meta ? td_max_pool2d(meta, n_kernel, kernel, n_stride, stride, n_padding, padding, n_dilation, dilation, ceil_mode) : NULL;
    if (!shape)
        return NULL;
    int64_t window[8];
    fill_window(window, n_kernel, kernel, n_stride, stride, n_padding, padding);
    fill_two(window + 6, n_dilation, dilation);
    return pooled(self, shape, 8, window, true, false, 0);
}

td_tensor *td_quantized_avg_pool2d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride, const int64_t *stride, int64_t n_padding,
                                   const int64_t *padding, bool ceil_mode, bool count_include_pad, const int64_t *divisor)
{
    if (td_check_per_tensor(self))
        return NULL;
    if (!is_of_images(self) || (divisor && *divisor < 0)) {
        TD_AUTO td_tensor *numbers = centered(self);
        TD_AUTO td_tensor *means = numbers ? td_avg_pool2d(numbers, n_kernel, kernel, n_stride, stride, n_padding, padding, ceil_mode, count_include_pad, divisor) : NULL;
        return averaged(self, means);
    }
    TD_AUTO td_tensor *meta = without_memory(self);
    TD_AUTO td_tensor *shape = meta ? td_avg_pool2d(meta, n_kernel, kernel, n_stride, stride, n_padding, padding, ceil_mode, count_include_pad, divisor) : NULL;
    if (!shape)
        return NULL;
    int64_t window[8] = {[6] = 1, [7] = 1};
    fill_window(window, n_kernel, kernel, n_stride, stride, n_padding, padding);
    return pooled(self, shape, 8, window, false, count_include_pad, divisor ? *divisor : 0);
}
td_tensor *td_quantized_avg_pool3d(td_tensor *self, int64_t n_kernel, const int64_t *kernel, int64_t n_stride, const int64_t *stride, int64_t n_padding,
                                   const int64_t *padding, bool ceil_mode, bool count_include_pad, const int64_t *divisor)
{
    TD_AUTO td_tensor *numbers = centered(self);
    TD_AUTO td_tensor *means = numbers ? td_avg_pool3d(numbers, n_kernel, kernel, n_stride, stride, n_padding, padding, ceil_mode, count_include_pad, divisor) : NULL;
    return averaged(self, means);
}
td_tensor *td_quantized_adaptive_avg_pool2d(td_tensor *self, int64_t n, const int64_t *size)
{
    if (td_check_per_tensor(self))
        return NULL;
    if (is_of_images(self)) {
        TD_AUTO td_tensor *meta = without_memory(self), *shape = meta ? td_adaptive_avg_pool2d(meta, n, size) : NULL;
        return pooled(self, shape, 0, NULL, false, false, 0);
    }
    TD_AUTO td_tensor *numbers = centered(self), *means = numbers ? td__adaptive_avg_pool2d(numbers, n, size) : NULL;
    return averaged(self, means);
}

td_tensor *td_quantized_adaptive_avg_pool3d(td_tensor *self, int64_t n, const int64_t *size)
{
    TD_AUTO td_tensor *numbers = centered(self), *means = numbers ? td_adaptive_avg_pool3d(numbers, n, size) : NULL;
    return averaged(self, means);
}

/* ---- products on the bytes */

td_tensor *td_quantized__bytes_product(td_tensor *x, td_tensor *panels, int64_t columns, td_tensor *less, td_tensor *more, td_tensor *by, int64_t n_window,
                                       const int64_t *window, bool apart, int64_t fill, int64_t least, double scale, int64_t zero_point, td_dtype dtype)
{
    if (!td_is_quantized(x) || td_check_per_tensor(x))
        return td_fail(TD_E_RUNTIME, "_bytes_product: x alone is quantized, per tensor");
    TD_AUTO td_tensor *integers = td_quantized_integers(x);
    TD_AUTO td_tensor *made = integers ? td__bytes_product(integers, panels, columns, less, more, by, n_window, window, apart, fill, least, scale, zero_point, dtype) : NULL;
    if (!made || dtype == TD_F32)
        return td_ref(made);
    TD_AUTO_QUANTIZER td_quantizer *q = td_quantizer_per_tensor(scale, zero_point);
    return q ? td_quantized_over(made, q) : NULL;
}
