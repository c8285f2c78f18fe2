/* DLPack: both kinds of capsule contents, from one description of a tensor. */
#include <tede/dlpack.h>
#include <tede/kernel.h>
#include "tensor/late.h"
#include "tensor/tensor.h"
#include <inttypes.h>

_Static_assert(sizeof(td_dl_tensor) == 48, "not DLPack's layout");
_Static_assert(offsetof(td_dl_versioned, tensor) == 32, "not DLPack's layout");

/* ---- out */

/* What we hand out: the contents of the capsule, the tensor that they describe, its shape. */
typedef struct exported {
    union {
        td_dl_managed   managed;
        td_dl_versioned versioned;
    };
    td_tensor *owner;
    size_t     bytes;
    int64_t    shape[];
} exported;

static const uint8_t codes[TD_DTYPES] = {
    [TD_BOOL] = TD_DL_BOOL, [TD_U8] = TD_DL_UINT, [TD_I8] = TD_DL_INT, [TD_I16] = TD_DL_INT, [TD_I32] = TD_DL_INT,
    [TD_I64] = TD_DL_INT, [TD_U16] = TD_DL_UINT, [TD_U32] = TD_DL_UINT, [TD_U64] = TD_DL_UINT, [TD_F16] = TD_DL_FLOAT,
    [TD_BF16] = TD_DL_BFLOAT, [TD_F32] = TD_DL_FLOAT, [TD_F64] = TD_DL_FLOAT, [TD_C64] = TD_DL_COMPLEX,
    [TD_C128] = TD_DL_COMPLEX, [TD_C32] = TD_DL_COMPLEX, [TD_F8_E4M3FN] = TD_DL_FLOAT8_E4M3FN, [TD_F8_E5M2] = TD_DL_FLOAT8_E5M2,
    [TD_F8_E4M3FNUZ] = TD_DL_FLOAT8_E4M3FNUZ, [TD_F8_E5M2FNUZ] = TD_DL_FLOAT8_E5M2FNUZ, [TD_F8_E8M0FNU] = TD_DL_FLOAT8_E8M0FNU,
    [TD_F4_E2M1FN_X2] = TD_DL_FLOAT4_E2M1FN,
};
static bool has_code(int dtype) { return dtype <= TD_F4_E2M1FN_X2; }
static uint16_t lanes_of(int dtype) { return dtype == TD_F4_E2M1FN_X2 ? 2 : 1; }


int td_dlpack_device(td_device device, int32_t *type, int32_t *id)
{
    *id = device.index > 0 ? device.index : 0;
    switch (device.type) {
    case TD_CPU: *type = TD_DL_CPU; return 0;
    case TD_CUDA: *type = TD_DL_CUDA; return 0;
    case TD_OPENCL: *type = TD_DL_OPENCL; return 0;
    case TD_META: return td_error(TD_E_RUNTIME, "Cannot pack tensors on meta");
    default: *type = TD_DL_EXTENSION; return 0;
    }
}

static exported *export_tensor(td_tensor *x, td_dl_copy copy, bool *copied)
{
    int32_t type, id;
    if (!x || td_dlpack_device(x->device, &type, &id) != 0)
        return NULL;
    if (!x->storage)
        return td_fail(TD_E_RUNTIME, "Can't export tensors with layout other than strided");
    if (!has_code(x->dtype))
        return td_fail(TD_E_RUNTIME, "Can't export tensors of dtype %s: DLPack has no name for it", td_dtype_name(x->dtype));
    if (x->flags & TD_FLAG_CONJ)
        return td_fail(TD_E_RUNTIME, "Can't export tensors with the conjugate bit set");
    if (x->flags & TD_FLAG_NEG)
        return td_fail(TD_E_RUNTIME, "Can't export tensors with the negative bit set");
    bool negative = false;
    for (int d = 0; d < x->ndim; d++)
        negative |= x->strides[d] < 0 && x->sizes[d] > 1;
    if (negative && copy == TD_DL_COPY_NEVER)
        return td_fail(TD_E_RUNTIME, "Can't export tensors with negative strides without a copy");
    *copied = negative || copy == TD_DL_COPY_ALWAYS;
    td_tensor *owner = *copied ? td_tensor_new(x->ndim, x->sizes, x->dtype, x->device) : td_tensor_retain(x);
    if (!owner || (*copied && td_copy_elements(owner, x) != 0) || td_settle(owner) || td_settle_all()) {
        td_tensor_release(owner);
        return NULL;
    }
    owner->storage->flags |= TD_STORAGE_FIXED;          /* the address gets out */
    size_t bytes = sizeof(exported) + 2 * (size_t)x->ndim * sizeof(int64_t);
    exported *e = td_mem_alloc(bytes);
    if (!e) {
        td_tensor_release(owner);
        return NULL;
    }
    e->owner = owner;
    e->bytes = bytes;
    for (int d = 0; d < x->ndim; d++) {
        e->shape[d] = owner->sizes[d];
        e->shape[x->ndim + d] = owner->sizes[d] < 2 ? 1 : owner->strides[d];
    }
    return e;
}

static void describe(const exported *e, td_dl_tensor *t)
{
    td_tensor *x = e->owner;
    *t = (td_dl_tensor){.data = x->numel ? x->data : NULL, .ndim = x->ndim, .code = codes[x->dtype],
                        .bits = (uint8_t)(8 * td_itemsize(x) / lanes_of(x->dtype)), .lanes = lanes_of(x->dtype), .shape = (int64_t *)e->shape,
                        .strides = (int64_t *)e->shape + x->ndim};
    (void)!td_dlpack_device(x->device, &t->device_type, &t->device_id);
}

static void drop(exported *e)
{
    td_tensor_release(e->owner);
    td_mem_free(e, e->bytes);
}
static void drop_managed(td_dl_managed *self) { drop((exported *)self); }
static void drop_versioned(td_dl_versioned *self) { drop((exported *)self); }

td_dl_managed *td_dlpack_export(td_tensor *x, td_dl_copy copy)
{
    bool copied;
    exported *e = export_tensor(x, copy, &copied);
    if (!e)
        return NULL;
    describe(e, &e->managed.tensor);
    e->managed.manager = e;
    e->managed.deleter = drop_managed;
    return &e->managed;
}

td_dl_versioned *td_dlpack_export_versioned(td_tensor *x, td_dl_copy copy)
{
    bool copied;
    exported *e = export_tensor(x, copy, &copied);
    if (!e)
        return NULL;
    describe(e, &e->versioned.tensor);
    e->versioned.major = 1;
    e->versioned.minor = 0;
    e->versioned.manager = e;
    e->versioned.deleter = drop_versioned;
    e->versioned.flags = (copied ? TD_DL_IS_COPIED : 0) | (td_readonly(x) ? TD_DL_READ_ONLY : 0);
    return &e->versioned;
}

/* ---- in */

static td_dtype dtype_of(const td_dl_tensor *t)
{
    for (int dtype = 0; has_code(dtype); dtype++)
        if (codes[dtype] == t->code && t->lanes == lanes_of(dtype) && td_itemsizes[dtype] * 8 == t->bits * t->lanes)
            return dtype;
    td_error(TD_E_RUNTIME, "Unsupported DLPack element type: code %d, %d bits, %d lanes", t->code, t->bits, t->lanes);
    return TD_DTYPE_NONE;
}

/* `own`: the tensor that this library has exported so, or NULL. */
static td_tensor *import(const td_dl_tensor *t, const exported *own, void (*release)(void *), void *context)
{
    td_device device = {TD_CPU, -1};
    td_dtype dtype = dtype_of(t);
    if (dtype == TD_DTYPE_NONE)
        return NULL;
    if (own)
        device = own->owner->device;
    else if (t->device_type == TD_DL_CUDA || t->device_type == TD_DL_OPENCL)
        device = (td_device){t->device_type == TD_DL_CUDA ? TD_CUDA : TD_OPENCL, (int8_t)t->device_id};
    else if (t->device_type != TD_DL_CPU && t->device_type != TD_DL_CUDA_HOST)
        return td_fail(TD_E_RUNTIME, "Unsupported device_type: %" PRId32, t->device_type);
    char *data = t->data ? (char *)t->data + t->byte_offset : NULL;
    return td_tensor_from_memory(data, t->ndim, t->shape, t->strides, dtype, device, release, context);
}

static void release_managed(void *context)
{
    td_dl_managed *managed = context;
    if (managed->deleter)
        managed->deleter(managed);
}
static void release_versioned(void *context)
{
    td_dl_versioned *managed = context;
    if (managed->deleter)
        managed->deleter(managed);
}

td_tensor *td_dlpack_import(td_dl_managed *managed)
{
    return import(&managed->tensor, managed->deleter == drop_managed ? managed->manager : NULL, release_managed, managed);
}

td_tensor *td_dlpack_import_versioned(td_dl_versioned *managed)
{
    if (managed->major != 1)
        return td_fail(TD_E_RUNTIME, "Unsupported DLPack version %" PRIu32 ".%" PRIu32 ": this library speaks 1.x",
                       managed->major, managed->minor);
    td_tensor *x = import(&managed->tensor, managed->deleter == drop_versioned ? managed->manager : NULL, release_versioned, managed);
    if (x && managed->flags & TD_DL_READ_ONLY)
        x->storage->flags |= TD_STORAGE_READONLY;
    return x;
}
