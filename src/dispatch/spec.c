/* Results made after a td_spec, and the targets of out= forms. */
#include "dispatch/spec.h"
#include "tensor/position.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <tede/kernel.h>
#include <tede/layout.h>
#include <tede/auto.h>
#include <tede/modes.h>
#include "base/names.h"
#include "device/device.h"
#include "dispatch/outputs.h"

int td_spec_like(td_spec *spec, const td_tensor *x)
{
    return td_spec_set(spec, x->ndim, x->sizes, (td_dtype)x->dtype, x->device);
}

td_tensor *td_spec_new(const td_spec *spec)
{
    if (spec->absent)
        return td_tensor_retain(TD_NONE);
    if (TD_UNLIKELY(td_in_region()) && spec->device.type <= TD_CPU && !td_is_keyed_dtype(spec->dtype))
        return td_regions.make(spec->ndim, spec->sizes, spec->strided ? spec->strides : NULL, spec->dtype);
    return spec->strided ? td_tensor_new_strided(spec->ndim, spec->sizes, spec->strides, spec->dtype, spec->device)
                         : td_tensor_new(spec->ndim, spec->sizes, spec->dtype, spec->device);
}

int td_check_numel(const char *op, const char *name, const td_tensor *x, int64_t numel)
{
    td_shape_text text;
    if (x == TD_NONE)
        return td_error(TD_E_RUNTIME, "%s: %s is needed", op, name);
    return x->numel == numel ? 0 : td_error(TD_E_RUNTIME, "%s: %s must have %" PRId64 " elements, but its shape is %s", op, name, numel,
                                            td_shape_str(x->ndim, x->sizes, text));
}

/* Column-major matrices, as LAPACK returns them, behind contiguous batch dimensions. */
int td_spec_columns(td_spec *spec)
{
    if (td_contiguous_strides(spec->ndim, spec->sizes, spec->strides) < 0)
        return td_error(TD_E_RUNTIME, "the number of elements overflows");
    int64_t rows = spec->sizes[spec->ndim - 2];
    spec->strides[spec->ndim - 2] = 1;
    spec->strides[spec->ndim - 1] = rows > 0 ? rows : 1;
    spec->strided = true;
    return 0;
}

_Thread_local td_tensor *const *td_results_given;

int td_specs_new(const td_spec *specs, int n, td_tensor **results)
{
    if (TD_UNLIKELY(td_results_given != NULL)) {
        for (int i = 0; i < n; i++)
            results[i] = td_tensor_retain(td_results_given[i]);
        td_results_given = NULL;
        return 0;
    }
    for (int i = 0; i < n; i++)
        if (!(results[i] = td_spec_new(&specs[i]))) {
            while (i--)
                td_tensor_release(results[i]);
            return -1;
        }
    return 0;
}

/* The dtype as messages about a number's conversion name it: integers by C's typedefs. */
static const char *name_of_target(td_dtype dtype)
{
    switch (dtype) {
    case TD_U8: return "uint8_t";
    case TD_I8: return "int8_t";
    case TD_I16: return "int16_t";
    case TD_I64: return "int64_t";
    case TD_U16: return "uint16_t";
    case TD_U32: return "uint32_t";
    case TD_U64: return "uint64_t";
    default: return td_cpp_name(dtype);
    }
}

/* Whether a number converts without overflow, by PyTorch's rules (c10::overflows): infinities and nan fit every
 * floating dtype; to an unsigned one of fewer than 8 bytes negative integers may wrap, down to 1 - 2^bits; a complex
 * number fits a real dtype only without an imaginary part. 2^bits is exact as a double, so d < high is exact, too. */
static bool holds(td_scalar value, td_dtype dtype)
{
    static const double highest[TD_DTYPES] = {
        [TD_F16] = 65504, [TD_BF16] = 0x1.fep127, [TD_F32] = FLT_MAX, [TD_F64] = DBL_MAX, [TD_C64] = FLT_MAX, [TD_C128] = DBL_MAX,
        [TD_C32] = 65504, [TD_F8_E4M3FN] = 448, [TD_F8_E5M2] = 57344, [TD_F8_E4M3FNUZ] = 240, [TD_F8_E5M2FNUZ] = 57344,
        [TD_F8_E8M0FNU] = 0x1p127,
    };
    if (dtype == TD_BOOL)
        return true;
    double d = td_scalar_double(value);
    if (!td_dtype_is_integral(dtype)) {
        bool is_complex = value.kind == TD_SCALAR_COMPLEX;
        if (is_complex && !td_dtype_is_complex(dtype) && value.imag != 0)
            return false;
        return !(isfinite(d) && fabs(d) > highest[dtype]) &&
               !(is_complex && isfinite(value.imag) && fabs(value.imag) > highest[dtype]);
    }
    bool is_signed = td_dtype_is_signed(dtype);
    double high = ldexp(1, 8 * (int)td_dtype_size(dtype) - is_signed);
    if (value.kind == TD_SCALAR_FLOAT || value.kind == TD_SCALAR_COMPLEX)
        return d >= (is_signed ? -high : 0) && d < high && (value.kind == TD_SCALAR_FLOAT || value.imag == 0);
    if (td_dtype_size(dtype) == 8)
        return value.kind != TD_SCALAR_UINT || !is_signed;
    return value.kind != TD_SCALAR_UINT && d >= (is_signed ? -high : 1 - high) && d < high;
}

int td_scalar_check(td_scalar value, td_dtype dtype)
{
    return holds(value, dtype) ? 0 : td_error(TD_E_RUNTIME, "value cannot be converted to type %s without overflow",
                                              name_of_target(dtype));
}

/* The same of an operator that takes its numbers as the dtype that halves are computed in. */
int td_scalar_check_computed(td_scalar value, td_dtype dtype)
{
    return td_scalar_check(value, dtype == TD_F16 || dtype == TD_BF16 ? TD_F32 : dtype);
}

int td_check_factor(const char *name, td_scalar factor, td_dtype result)
{
    if (factor.kind == TD_SCALAR_BOOL && result != TD_BOOL)
        return td_error(TD_E_RUNTIME, "Boolean %s only supported for Boolean results.", name);
    if ((factor.kind == TD_SCALAR_FLOAT || factor.kind == TD_SCALAR_COMPLEX) && (result == TD_BOOL || td_dtype_is_integral(result)))
        return td_error(TD_E_RUNTIME, "For integral input tensors, argument %s must not be a floating point number.", name);
    return td_scalar_check(factor, result);
}

/* Bool, integers, floating point, complex: a result may be stored in a dtype of its own rank or a higher one. */
static int rank(td_dtype dtype)
{
    return td_dtype_is_complex(dtype) ? 3 : td_dtype_is_floating(dtype) || td_is_foreign_dtype(dtype) ? 2 : dtype == TD_BOOL ? 0 : 1;
}

int td_check_cast(const char *op, td_dtype from, td_dtype to)
{
    if (from != to && !(td_converts(from) && td_converts(to)))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"copy_\" not implemented for '%s'", td_dtype_title(td_converts(to) ? from : to));
    int rank_from = rank(from), rank_to = rank(to);
    if (rank_from <= rank_to)
        return 0;
    (void)op;
    return td_error(TD_E_RUNTIME, "result type %s can't be cast to the desired output type %s", td_dtype_title(from),
                    td_dtype_title(to));
}

int td_check_devices(const td_op *op, int n, int strict, const td_spec_inputs *operands, bool numbers_anywhere);
int td_check_devices(const td_op *op, int n, int strict, const td_spec_inputs *operands, bool numbers_anywhere)
{
    bool cpu = false, meta = false, outside = false;
    for (int i = 0; i < n; i++)
        for (int64_t k = 0; k < operands[i].count; k++) {
            const td_tensor *x = operands[i].tensors[k];
            if (x == TD_NONE)
                continue;
            cpu |= i < strict && x->device.type == TD_CPU && (x->ndim > 0 || !numbers_anywhere);
            meta |= i < strict && x->device.type == TD_META;
            outside |= td_is_outside(x->device);
        }
    return cpu && meta ? td_error(TD_E_RUNTIME, "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!")
         : outside ? td_check_one_device(op, n, operands) : 0;
}

/* An operand must have self's dtype, unless it is a number: PyTorch's error.  Generated code declares it where it is called. */
int td_check_same_dtype(const char *name, const td_tensor *self, const td_tensor *operand);
int td_check_same_dtype(const char *name, const td_tensor *self, const td_tensor *operand)
{
    if (operand->dtype == self->dtype || operand->flags & TD_FLAG_WRAPPED_NUMBER)
        return 0;
    return td_error(TD_E_RUNTIME, "expected dtype %s for `%s` but got dtype %s", td_cpp_name(self->dtype), name,
                    td_cpp_name(operand->dtype));
}

/* Fill what a storage has beyond its first `before` bytes. */
static int fill_from(const td_tensor *x, size_t before)
{
    int64_t size = (int64_t)td_itemsize(x), first = (int64_t)before / size, n = (int64_t)x->storage->nbytes / size - first;
    TD_AUTO td_tensor *tail = td_tensor_over(x->storage, first, 1, &n, &(int64_t){1}, (td_dtype)x->dtype);
    return tail ? td_fill_new_memory(tail) : -1;
}

/* The storage only grows; a tensor that begins inside it (place) keeps its first element there. `before` bytes were
 * initialized, and only what is new is filled in deterministic mode. */
int td_resize(td_tensor *x, int ndim, const int64_t *sizes)
{
    if (!x->storage)
        return td_error(TD_E_NOT_IMPLEMENTED, "resize_: a tensor of layout %s has no storage to resize", td_layout_name(td_tensor_layout(x)));
    if (td_settle_all())
        return -1;
    int64_t strides[TD_MAX_DIMS], numel = td_contiguous_strides(ndim, sizes, strides), bytes;
    int64_t place = td_storage_position(x->storage, x->data);
    if (numel < 0 || __builtin_mul_overflow(numel, td_itemsize(x), &bytes) || __builtin_add_overflow(bytes, place, &bytes))
        return td_fail_overflow(ndim, sizes, NULL), -1;
    size_t before = x->storage->nbytes;
    if ((size_t)bytes > before && td_storage_resize(x->storage, (size_t)bytes))
        return -1;
    x->data = (char *)x->storage->data + place;
    if ((size_t)bytes > before && td_fill_uninitialized() && fill_from(x, before))
        return -1;
    return td_tensor_set_geometry(x, ndim, sizes, strides);
}

int td_resize_output(td_tensor *out, int ndim, const int64_t *sizes)
{
    if (out->ndim == ndim && !memcmp(out->sizes, sizes, sizeof(int64_t) * ndim))
        return 0;
    td_shape_text have, want;
    if (out->numel && td_warn("An output with one or more elements was resized since it had shape %s, which does not match "
                              "the required output shape %s. This behavior is deprecated, and in a future PyTorch release "
                              "outputs will not be resized unless they have zero elements. You can explicitly reuse an out tensor t by "
                              "resizing it, inplace, to zero elements with t.resize_(0).",
                              td_shape_str(out->ndim, out->sizes, have), td_shape_str(ndim, sizes, want)))
        return -1;
    return td_resize(out, ndim, sizes);
}

int td_check_exact(const char *words, td_dtype want, td_dtype got)
{
    const bool castable = *words == *TD_CASTABLE;
    if (want == got || (castable && rank(want) <= rank(got)))
        return 0;
    words += castable;
    const struct { const char *key, *value; } names[] = {
        {"{want}", td_dtype_title(want)}, {"{got}", td_dtype_title(got)}, {"{want_c}", td_cpp_name(want)}, {"{got_c}", td_cpp_name(got)},
    };
    char text[256];
    size_t n = 0;
    while (*words && n + 1 < sizeof text) {
        size_t k = 0;
        while (k < 4 && strncmp(words, names[k].key, strlen(names[k].key)))
            k++;
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s", k < 4 ? 40 : 1, k < 4 ? names[k].value : words);
        words += k < 4 ? strlen(names[k].key) : 1;
    }
    return td_error(TD_E_RUNTIME, "%s", text);
}

int td_specs_exact(const char *words, const td_spec *specs, int n, td_tensor *const *outs)
{
    for (int i = 0; i < n; i++)
        if (!specs[i].absent && td_check_exact(words, specs[i].dtype, (td_dtype)outs[i]->dtype))
            return -1;
    return 0;
}

int td_check_out_device(td_device from, td_device to)
{
    char a[32], b[32];
    return from.type == to.type && from.index == to.index ? 0
         : td_error(TD_E_RUNTIME, "Attempting to copy from device %s to device %s, but cross-device copies are not allowed!",
                    td_device_str(from, a), td_device_str(to, b));
}

int td_resize_strided(td_tensor *out, int ndim, const int64_t *sizes, const int64_t *strides)
{
    if (out->ndim == ndim && !memcmp(out->sizes, sizes, sizeof *sizes * (size_t)ndim))
        return 0;
    return td_resize_output(out, ndim, sizes) || (strides && td_tensor_set_geometry(out, ndim, sizes, strides)) ? -1 : 0;
}

bool td_specs_differ(const td_spec *specs, int n, td_tensor *const *outs)
{
    for (int i = 0; i < n; i++)
        if (!specs[i].absent && (outs[i]->ndim != specs[i].ndim || memcmp(outs[i]->sizes, specs[i].sizes, sizeof *specs[i].sizes * (size_t)specs[i].ndim)))
            return true;
    return false;
}

/* Whether writing to the i-th of outs, or giving it another shape, could change an input or an out before it. */
static bool is_shared(int i, td_tensor *const *outs, int n_in, const td_spec_inputs *inputs)
{
    const td_storage *storage = outs[i]->storage;
    for (int k = 0; k < i; k++)
        if (outs[k]->storage == storage)
            return true;
    for (int k = 0; k < n_in; k++)
        for (int64_t j = 0; j < inputs[k].count; j++) {
            const td_tensor *x = inputs[k].tensors[j];
            if (x && x != TD_NONE && x->storage == storage)
                return true;
        }
    return false;
}

/* A kernel writes to `out` itself only where no operand or earlier out shares its storage, and dtype and strides are
 * what the kernel makes; else to a new tensor, which td_specs_finish copies. A shared out is resized only then, after
 * the inputs have been read. */
int td_specs_target(const char *op, const td_spec *specs, int n, td_tensor *const *outs, int n_in,
                    const td_spec_inputs *inputs, td_tensor **targets)
{
    int made = 0;
    for (; made < n; made++) {
        const td_spec *spec = &specs[made];
        td_tensor *out = outs[made];
        if (spec->absent) {
            targets[made] = td_tensor_retain(TD_NONE);
            continue;
        }
        if (td_check_out_device(spec->device, out->device))
            goto fail;
        bool shared = is_shared(made, outs, n_in, inputs);
        if (td_check_cast(op, spec->dtype, out->dtype) || td_check_overlap(op, out, 0, NULL) ||
            (!shared && td_resize_strided(out, spec->ndim, spec->sizes, spec->strided ? spec->strides : NULL)))
            goto fail;
        bool direct = !shared && out->dtype == spec->dtype &&
                      (spec->strided ? !memcmp(out->strides, spec->strides, sizeof *spec->strides * (size_t)spec->ndim)
                                     : out->flags & TD_FLAG_CONTIGUOUS);
        targets[made] = direct ? td_tensor_retain(out) : td_spec_new(spec);
        if (!targets[made])
            goto fail;
    }
    return 0;
fail:
    while (made--)
        td_tensor_release(targets[made]);
    return -1;
}

int td_specs_finish(int n, td_tensor *const *outs, td_tensor **targets)
{
    int status = 0;
    for (int i = 0; i < n; i++) {
        td_tensor *out = outs[i], *target = targets[i];
        if (target != out && target != TD_NONE && status == 0) {
            status = td_resize_strided(out, target->ndim, target->sizes, target->strides);
            if (status == 0 && out->device.type != TD_META)
                status = td_copy_elements(out, target);
        }
        td_tensor_release(target);
    }
    return status;
}
