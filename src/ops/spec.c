/* Results made after a td_spec, and the targets of out= forms. */
#include "ops/spec.h"

#include <tede/kernel.h>

td_tensor *td_spec_new(const td_spec *spec)
{
    if (spec->absent)
        return td_tensor_retain(TD_NONE);
    return spec->strided ? td_tensor_new_strided(spec->ndim, spec->sizes, spec->strides, spec->dtype, spec->device)
                         : td_tensor_new(spec->ndim, spec->sizes, spec->dtype, spec->device);
}

int td_specs_new(const td_spec *specs, int n, td_tensor **results)
{
    for (int i = 0; i < n; i++)
        if (!(results[i] = td_spec_new(&specs[i]))) {
            while (i--)
                td_tensor_release(results[i]);
            return -1;
        }
    return 0;
}

int td_check_cast(const char *op, td_dtype from, td_dtype to)
{
    int rank_from = td_dtype_is_complex(from) ? 3 : td_dtype_is_floating(from) ? 2 : from == TD_BOOL ? 0 : 1;
    int rank_to = td_dtype_is_complex(to) ? 3 : td_dtype_is_floating(to) ? 2 : to == TD_BOOL ? 0 : 1;
    if (rank_from <= rank_to)
        return 0;
    (void)op;
    return td_error(TD_E_RUNTIME, "result type %s can't be cast to the desired output type %s", td_dtype_title(from),
                    td_dtype_title(to));
}

int td_resize(td_tensor *x, int ndim, const int64_t *sizes)
{
    int64_t strides[TD_MAX_DIMS], numel = td_contiguous_strides(ndim, sizes, strides), bytes;
    int64_t offset = td_tensor_offset(x), item = (int64_t)td_dtype_size(x->dtype);
    if (numel < 0 || __builtin_mul_overflow(numel + offset, item, &bytes))
        return td_error(TD_E_RUNTIME, "resize_: the number of bytes overflows");
    if ((size_t)bytes > x->storage->nbytes) {
        if (td_storage_resize(x->storage, (size_t)bytes))
            return -1;
        x->data = (char *)x->storage->data + offset * item;
    }
    return td_tensor_set_geometry(x, ndim, sizes, strides);
}

int td_resize_output(td_tensor *out, int ndim, const int64_t *sizes)
{
    if (out->ndim == ndim && !memcmp(out->sizes, sizes, sizeof(int64_t) * ndim))
        return 0;
    td_shape_text have, want;
    if (out->numel && td_warn("An output with one or more elements was resized since it had shape %s, which does not match "
                              "the required output shape %s. This behavior is deprecated, and in a future PyTorch release "
                              "outputs will not be resized unless they have zero elements.",
                              td_shape_str(out->ndim, out->sizes, have), td_shape_str(ndim, sizes, want)))
        return -1;
    return td_resize(out, ndim, sizes);
}

static bool same_memory(const td_tensor *a, const td_tensor *b) { return a->storage && a->storage == b->storage; }

int td_specs_target(const char *op, const td_spec *specs, int n, td_tensor *const *outs, int n_in,
                    td_tensor *const *inputs, td_tensor **targets)
{
    int made = 0;
    for (; made < n; made++) {
        const td_spec *spec = &specs[made];
        td_tensor *out = outs[made];
        if (spec->absent) {
            targets[made] = td_tensor_retain(TD_NONE);
            continue;
        }
        if (out->device.type != spec->device.type) {
            char a[32], b[32];
            td_error(TD_E_RUNTIME, "Expected out tensor to have device %s, but got %s instead", td_device_str(spec->device, a),
                     td_device_str(out->device, b));
            goto fail;
        }
        if (td_check_cast(op, spec->dtype, out->dtype) || td_resize_output(out, spec->ndim, spec->sizes) ||
            td_check_overlap(op, out, 0, NULL))
            goto fail;
        bool direct = out->dtype == spec->dtype && out->flags & TD_FLAG_CONTIGUOUS && !spec->strided;
        for (int i = 0; i < n_in && direct; i++)
            direct = !inputs[i] || inputs[i] == TD_NONE || !same_memory(out, inputs[i]);
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
        if (targets[i] != outs[i] && targets[i] != TD_NONE && status == 0 && outs[i]->device.type != TD_META)
            status = td_copy_elements(outs[i], targets[i]);
        td_tensor_release(targets[i]);
    }
    return status;
}
