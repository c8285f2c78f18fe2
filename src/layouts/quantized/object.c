/* Quantizers, and tensors with one: views, printing. */
#include "calls_layouts_quantized_object.h"
#include "layouts/quantized/object.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <tede/kernel.h>
#include "tensor/head.h"
#include "tensor/position.h"

/* ---- dtypes */

typedef struct numbers {
    td_dtype quantized, integers;
    int      each;
    int64_t  least, most;
} numbers;

/* The first of those with the same integers is the one that td_quantized_of finds. */
static const numbers kinds[] = {
    {TD_QI8, TD_I8, 1, -128, 127}, {TD_QU8, TD_U8, 1, 0, 255}, {TD_QI32, TD_I32, 1, INT32_MIN, INT32_MAX},
    {TD_QU4X2, TD_U8, 2, 0, 15}, {TD_QU2X4, TD_U8, 4, 0, 3},
};

static const numbers *kind_of(int dtype)
{
    for (size_t i = 0; i < TD_COUNT(kinds); i++)
        if ((int)kinds[i].quantized == dtype)
            return &kinds[i];
    return NULL;
}

td_dtype td_integers_of(int dtype) { return kind_of(dtype) ? kind_of(dtype)->integers : TD_DTYPE_NONE; }
td_dtype td_quantized_of(int dtype)
{
    for (size_t i = 0; i < TD_COUNT(kinds); i++)
        if ((int)kinds[i].integers == dtype)
            return kinds[i].quantized;
    return TD_DTYPE_NONE;
}
int64_t td_quantized_least(int dtype) { return kind_of(dtype)->least; }
int64_t td_quantized_most(int dtype) { return kind_of(dtype)->most; }
int td_quantized_each(int dtype) { return kind_of(dtype)->each; }

/* ---- quantizers */

static void destroy(void *extra)
{
    td_quantizer *q = extra;
    if (!td_drop_count(&q->refcount))
        return;
    td_tensor_release(q->scales);
    td_tensor_release(q->zero_points);
    td_mem_free(q, sizeof *q);
}
void td_quantizer_release(td_quantizer *q)
{
    if (q)
        destroy(q);
}

static td_tensor *attach(td_tensor *x, const td_quantizer *q)
{
    if (!x)
        return NULL;
    x->keys = (x->keys & ~TD_KEYSET(TD_KEY_DTYPE)) | TD_KEYSET(TD_KEY_QUANTIZED);
    x->extra = td_quantizer_retain(q);
    return x;
}

static td_tensor *alias(td_tensor *x, bool own_version) { return attach(td_plain_alias(x, (td_dtype)x->dtype, own_version), td_quantizer_of(x)); }

/* Views are autograd's, for what is written into them later.  There are no gradients here, and composites would be taken apart before their
 * patterns are found. */
static td_tensor *attach_view(td_tensor *x, const td_quantizer *q)
{
    if (x && !(x->flags & TD_FLAG_INFERENCE))
        x->keys &= ~TD_KEYSET(TD_KEY_AUTOGRAD);
    return attach(x, q);
}

/* Where x's element at an offset is. */
static void place_of(const td_tensor *x, int64_t offset, int64_t *place)
{
    int64_t order[TD_MAX_DIMS];
    td_stride_order(x->ndim, x->strides, order);
    for (int i = 0; i < x->ndim; i++) {
        const int64_t d = order[i];
        place[d] = x->sizes[d] > 1 && x->strides[d] ? offset / x->strides[d] : 0;
        offset -= place[d] * x->strides[d];
    }
}

/* The axis of a view, and the first channel that is there; -1: it is left out, and one channel is there alone; -2: the view's dimensions aren't
 * some of x's, in their order, each a part of it. */
static int axis_of_view(const td_tensor *x, int axis, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset, int64_t *first)
{
    int64_t place[TD_MAX_DIMS];
    int found = -1, before = 0, after = ndim;       /* dimensions of size 1 between these may be the axis */
    place_of(x, offset, place);
    *first = place[axis];
    for (int d = 0, at = 0; d < ndim; d++, at++) {
        if (sizes[d] == 1) {
            at--;
            continue;
        }
        while (at < x->ndim && (x->sizes[at] == 1 || x->strides[at] != strides[d]))
            at++;
        if (at >= x->ndim || place[at] + sizes[d] > x->sizes[at])
            return -2;
        if (at == axis)
            found = d;
        else if (at < axis)
            before = d + 1;
        else if (after == ndim)
            after = d;
    }
    for (int d = before; d < after && found < 0; d++)
        if (sizes[d] == 1 && (x->sizes[axis] == 1 || strides[d] == x->strides[axis]) && (d + 1 == after || x->sizes[axis] > 1 || sizes[d + 1] != 1))
            found = d;
    return found;
}

/* Per channel a view keeps the axis, or has one channel alone, which is a tensor quantized as a whole. */
static td_quantizer *of_view(const td_tensor *x, int ndim, const int64_t *sizes, const int64_t *strides, int64_t offset)
{
    const td_quantizer *q = td_quantizer_of(x);
    if (q->scheme == TD_PER_TENSOR_AFFINE)
        return td_quantizer_retain(q);
    if (ndim == x->ndim && !memcmp(sizes, x->sizes, sizeof *sizes * (size_t)ndim) && !memcmp(strides, x->strides, sizeof *sizes * (size_t)ndim))
        return td_quantizer_retain(q);
    int64_t first = 0;
    const int axis = offset < 0 ? -2 : axis_of_view(x, q->axis, ndim, sizes, strides, offset, &first);
    if (axis == -1 && q->scheme == TD_PER_CHANNEL_AFFINE && first < q->scales->numel)
        return td_quantizer_per_tensor(((const double *)q->scales->data)[first], ((const int64_t *)q->zero_points->data)[first]);
    if (axis < 0)
        return td_fail(TD_E_RUNTIME, "Setting strides is possible only on uniformly quantized tensor");
    if (first == 0 && sizes[axis] == q->scales->numel && axis == q->axis)
        return td_quantizer_retain(q);
    TD_AUTO td_tensor *scales = td_narrow(q->scales, 0, first, sizes[axis]), *zero_points = td_narrow(q->zero_points, 0, first, sizes[axis]);
    return td_quantizer_per_channel(scales, zero_points, axis);
}

/* See Note [Integers of a few bits]. */
static td_tensor *view_of_packed(td_tensor *x, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides, int64_t byte_offset)
{
    int64_t expected[TD_MAX_DIMS], numel = td_contiguous_strides(ndim, sizes, expected);
    bool whole = numel == x->numel && !byte_offset && dtype == (td_dtype)x->dtype;
    for (int d = 0; d < ndim && numel; d++)
        whole &= sizes[d] == 1 || strides[d] == expected[d];
    if (!whole)
        return td_fail(TD_E_RUNTIME, "%s: elements that share a byte have no other views than of all of them in their order; "
                       "dequantize() or int_repr() makes a tensor that has", td_dtype_title((td_dtype)x->dtype));
    TD_AUTO_QUANTIZER td_quantizer *q = of_view(x, ndim, sizes, strides, 0);
    return q ? attach_view(td_plain_view(x, dtype, ndim, sizes, expected, 0), q) : NULL;
}

static td_tensor *view(td_tensor *x, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides, int64_t byte_offset)
{
    if (td_quantized_each(x->dtype) > 1)
        return view_of_packed(x, dtype, ndim, sizes, strides, byte_offset);
    if (td_integers_of(dtype) == TD_DTYPE_NONE) {
        td_tensor *bytes = td_plain_view(x, dtype, ndim, sizes, strides, byte_offset);
        if (bytes)
            bytes->keys &= ~TD_KEYSET(TD_KEY_QUANTIZED);
        return bytes;
    }
    TD_AUTO_QUANTIZER td_quantizer *q = of_view(x, ndim, sizes, strides, byte_offset / td_itemsize(x));
    return q ? attach_view(td_plain_view(x, dtype, ndim, sizes, strides, byte_offset), q) : NULL;
}

static int item(const td_tensor *x, td_scalar *value)
{
    TD_AUTO td_tensor *number = td_dequantize_self((td_tensor *)x);
    return number ? td_tensor_item(number, value) : -1;
}

static const td_extra_table table = {destroy, alias, view, NULL, NULL, item};

td_quantizer *td_quantizer_per_tensor(double scale, int64_t zero_point)
{
    td_quantizer *q = td_mem_alloc(sizeof *q);
    if (q)
        *q = (td_quantizer){.table = &table, .refcount = 1, .scale = scale, .zero_point = zero_point};
    return q;
}

/* A tensor without a history, contiguous and of a dtype, that nobody else writes. */
static td_tensor *kept(td_tensor *x, td_dtype dtype)
{
    TD_AUTO td_tensor *plain = x ? td_alias_detached(x, false) : NULL;
    TD_AUTO td_tensor *cast = plain ? td_as_contiguous(plain, dtype) : NULL;
    return cast ? td_clone(cast) : NULL;
}

td_quantizer *td_quantizer_per_channel(td_tensor *scales, td_tensor *zero_points, int axis)
{
    if ((scales && scales->device.type == TD_META) || (zero_points && zero_points->device.type == TD_META))
        return td_fail(TD_E_NOT_IMPLEMENTED, "scales and zero points of channels must have elements: they are on meta");
    td_quantizer *q = td_mem_alloc(sizeof *q);
    if (!q)
        return NULL;
    const bool floats = zero_points && td_is_floating(zero_points);
    *q = (td_quantizer){.table = &table, .refcount = 1, .axis = axis, .scheme = floats ? TD_PER_CHANNEL_FLOAT : TD_PER_CHANNEL_AFFINE};
    q->scales = kept(scales, floats ? TD_F32 : TD_F64);
    q->zero_points = kept(zero_points, floats ? TD_F32 : TD_I64);
    if (q->scales && q->zero_points)
        return q;
    destroy(q);
    return NULL;
}

static bool same_numbers(td_tensor *a, td_tensor *b)
{
    return a->dtype == b->dtype && a->numel == b->numel && !memcmp(a->data, b->data, (size_t)(a->numel * td_itemsize(a)));
}
bool td_quantizers_agree(const td_quantizer *a, const td_quantizer *b)
{
    if (a == b || a->scheme != b->scheme || a->scheme == TD_PER_TENSOR_AFFINE)
        return a == b || (a->scheme == b->scheme && a->scale == b->scale && a->zero_point == b->zero_point);
    return a->axis == b->axis && same_numbers(a->scales, b->scales) && same_numbers(a->zero_points, b->zero_points);
}

/* ---- tensors */

td_tensor *td_quantized_integers(td_tensor *x)
{
    if (!x)
        return NULL;
    if (td_quantized_each(x->dtype) > 1)
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"integers\" not implemented for '%s'", td_dtype_title((td_dtype)x->dtype));
    td_tensor *integers = td_plain_alias(x, td_integers_of(x->dtype), false);
    if (integers)
        integers->keys &= ~TD_KEYSET(TD_KEY_QUANTIZED);
    return integers;
}

td_tensor *td_quantized_over(td_tensor *integers, const td_quantizer *q)
{
    return integers && q ? attach(td_plain_alias(integers, td_quantized_of(integers->dtype), false), q) : NULL;
}

/* ---- elements that share a byte */

static int64_t bytes_for(int64_t elements, int each) { return elements / each + (elements % each != 0); }

td_tensor *td_quantized_empty_packed(int ndim, const int64_t *sizes, td_dtype dtype, td_device device, const td_quantizer *q)
{
    int64_t rows[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    if (td_check_sizes(ndim, sizes))
        return NULL;
    if (device.type > TD_CPU)
        return td_fail(TD_E_NOT_IMPLEMENTED, "quantized tensors of %s are on the CPU alone", td_dtype_title(dtype));
    for (int d = 0; d < ndim; d++)
        rows[d] = d == ndim - 1 ? bytes_for(sizes[d], td_quantized_each(dtype)) : sizes[d];
    TD_AUTO td_tensor *bytes = td_empty_memory_format(ndim, rows, TD_U8, device, TD_MEMORY_FORMAT_NONE);
    td_contiguous_strides(ndim, sizes, strides);
    return bytes && q ? attach(td_plain_alias_as(bytes, dtype, ndim, sizes, strides), q) : NULL;
}

td_tensor *td_quantized_bytes(td_tensor *x)
{
    if (!x)
        return NULL;
    const int64_t n = bytes_for(x->numel, td_quantized_each(x->dtype)), step = 1;
    if (!x->storage || (int64_t)x->storage->nbytes < n || x->data != x->storage->data)
        return td_fail(TD_E_RUNTIME, "a tensor of %s needs a storage of %" PRId64 " bytes", td_dtype_title((td_dtype)x->dtype), n);
    td_tensor *bytes = td_plain_alias_as(x, TD_U8, 1, &n, &step);
    if (bytes)
        bytes->keys &= ~TD_KEYSET(TD_KEY_QUANTIZED);
    return bytes;
}

td_tensor *td_quantized_unpacked(td_tensor *x)
{
    TD_AUTO td_tensor *bytes = td_quantized_bytes(x), *integers = bytes ? td_empty_memory_format(x->ndim, x->sizes, TD_U8, x->device, TD_MEMORY_FORMAT_NONE) : NULL;
    if (!integers)
        return NULL;
    const int each = td_quantized_each(x->dtype), bits = 8 / each, mask = (1 << bits) - 1;
    const uint8_t *from = (const uint8_t *)bytes->data;
    uint8_t *to = (uint8_t *)integers->data;
    for (int64_t i = 0; i < x->numel; i++)
        to[i] = (uint8_t)(from[i / each] >> (i % each * bits) & mask);
    return td_ref(integers);
}

td_tensor *td_quantized_packed(td_tensor *integers, const td_quantizer *q, td_dtype dtype)
{
    TD_AUTO td_tensor *line = integers ? td_contiguous(integers) : NULL;
    TD_AUTO td_tensor *made = line ? td_quantized_empty_packed(line->ndim, line->sizes, dtype, line->device, q) : NULL;
    if (!made)
        return NULL;
    const int each = td_quantized_each(dtype), bits = 8 / each, most = (int)td_quantized_most(dtype);
    const uint8_t *from = (const uint8_t *)line->data;
    uint8_t *to = (uint8_t *)made->data;
    memset(to, 0, made->storage->nbytes);
    for (int64_t i = 0; i < line->numel; i++)
        to[i / each] |= (uint8_t)((from[i] < most ? from[i] : most) << (i % each * bits));
    return td_ref(made);
}

void td_quantized_take(td_tensor *x, const td_quantizer *q)
{
    td_quantizer *old = x->extra;
    x->extra = td_quantizer_retain(q);
    destroy(old);
}

int td_check_per_tensor(const td_tensor *x)
{
    return td_quantizer_of(x)->scheme == TD_PER_TENSOR_AFFINE ? 0
           : td_error(TD_E_RUNTIME, "Expected quantizer->qscheme() == kPerTensorAffine to be true, but got false.  (Could this error "
                      "message be improved?  If so, please report an enhancement request to PyTorch.)");
}

/* ---- the kind */

/* As Python shows a float: the fewest digits that give the number back. */
static void shortest(double x, char *text, size_t room)
{
    int digits = 1;
    do
        snprintf(text, room, "%.*e", digits - 1, x);
    while (strtod(text, NULL) != x && digits++ < 17);
    const char *e = strchr(text, 'e');
    const int exponent = e ? atoi(e + 1) : 0;
    if (e && exponent >= -4 && exponent < 16)
        snprintf(text, room, "%.*f", digits - 1 - exponent > 1 ? digits - 1 - exponent : 1, x);
}

static char *suffixes(const td_tensor *x, const char *prefix)
{
    const td_quantizer *q = td_quantizer_of(x);
    char *text = NULL, number[40];
    if (q->scheme == TD_PER_TENSOR_AFFINE) {
        shortest(q->scale, number, sizeof number);
        if (asprintf(&text, "\fquantization_scheme=%sper_tensor_affine\fscale=%s\fzero_point=%" PRId64, prefix, number, q->zero_point) < 0)
            text = NULL;
        return text ? text : td_fail(TD_E_MEMORY, "no memory to print a tensor");
    }
    char *scales = td_tensor_str(q->scales), *zero_points = td_tensor_str(q->zero_points);
    if (scales && zero_points && asprintf(&text, "\fquantization_scheme=%s%s\fscale=%s\fzero_point=%s\faxis=%d", prefix,
                                          q->scheme == TD_PER_CHANNEL_FLOAT ? "per_channel_affine_float_qparams" : "per_channel_affine", scales,
                                          zero_points, q->axis) < 0)
        text = NULL;
    td_string_free(scales);
    td_string_free(zero_points);
    return text ? text : td_fail(TD_E_MEMORY, "no memory to print a tensor");
}

extern const td_layout_kind td_quantized_kind;


const td_layout_kind td_quantized_kind = {
    .size = sizeof(td_layout_kind), .name = "_quantized", .title = "Quantized", .flags = TD_LAYOUT_STRIDES,
    .to_dense = td_dequantize_self, .call = td_quantized_call, .suffixes = suffixes,
};
