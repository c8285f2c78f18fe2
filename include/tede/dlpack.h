/* tede/dlpack.h: handing tensors to other libraries and taking theirs, without a copy.
 *
 * The structures are those of the DLPack exchange format, version 1 (its layout is fixed by its specification), under
 * names of our own, so that this header and DLPack's can be included together; cast between the two. */
#ifndef TEDE_DLPACK_H
#define TEDE_DLPACK_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

enum {
    TD_DL_INT = 0, TD_DL_UINT = 1, TD_DL_FLOAT = 2, TD_DL_BFLOAT = 4, TD_DL_COMPLEX = 5, TD_DL_BOOL = 6, TD_DL_FLOAT8_E4M3FN = 10,
    TD_DL_FLOAT8_E4M3FNUZ = 11, TD_DL_FLOAT8_E5M2 = 12, TD_DL_FLOAT8_E5M2FNUZ = 13, TD_DL_FLOAT8_E8M0FNU = 14,
    TD_DL_FLOAT4_E2M1FN = 17,       /* of four bits, two lanes */
};
enum { TD_DL_CPU = 1, TD_DL_CUDA = 2, TD_DL_CUDA_HOST = 3, TD_DL_OPENCL = 4, TD_DL_EXTENSION = 12 };
enum { TD_DL_READ_ONLY = 1, TD_DL_IS_COPIED = 2 };      /* flags */

typedef struct td_dl_tensor {
    void    *data;
    int32_t  device_type, device_id;
    int32_t  ndim;
    uint8_t  code, bits;            /* of the elements */
    uint16_t lanes;
    int64_t *shape;
    int64_t *strides;               /* in elements; NULL: contiguous */
    uint64_t byte_offset;
} td_dl_tensor;

typedef struct td_dl_managed {      /* in capsules named "dltensor" */
    td_dl_tensor tensor;
    void        *manager;
    void       (*deleter)(struct td_dl_managed *self);
} td_dl_managed;

typedef struct td_dl_versioned {    /* in capsules named "dltensor_versioned" */
    uint32_t     major, minor;
    void        *manager;
    void       (*deleter)(struct td_dl_versioned *self);
    uint64_t     flags;
    td_dl_tensor tensor;
} td_dl_versioned;

typedef enum td_dl_copy { TD_DL_COPY_NEVER, TD_DL_COPY_IF_NEEDED, TD_DL_COPY_ALWAYS } td_dl_copy;

/* A view of x's memory that keeps it alive until its deleter is called; NULL on error.  Tensors with negative strides are
 * copied, because many consumers can't read them: an error with TD_DL_COPY_NEVER. */
TD_API td_dl_managed   *td_dlpack_export(td_tensor *x, td_dl_copy copy);
TD_API td_dl_versioned *td_dlpack_export_versioned(td_tensor *x, td_dl_copy copy);
/* A tensor over foreign memory, strides of any sign.  Takes over `managed`, whose deleter runs when the memory is not
 * looked at any more; after an error (NULL) it stays the caller's. */
TD_API td_tensor *td_dlpack_import(td_dl_managed *managed);
TD_API td_tensor *td_dlpack_import_versioned(td_dl_versioned *managed);
/* What a device is called in DLPack: for __dlpack_device__.  Devices that DLPack has no number for are extensions; which one that is can only be
 * known of tensors that this library has exported. */
TD_API int td_dlpack_device(td_device device, int32_t *type, int32_t *id) TD_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
