/* tede/tensor.h: tensors, and the storages beneath them.
 *
 * A tensor is a view of a storage: sizes and signed strides (counted in elements) from a first element.  Many
 * tensors may look at the same storage.  Operators, in ops.h, make tensors from tensors; here is what a tensor is.
 *
 * Who owns: a function that makes a tensor gives you a reference, which td_tensor_release drops.  Everything
 * else lends.  Reference counts are atomic; tensors may be handed between threads. */
#ifndef TEDE_TENSOR_H
#define TEDE_TENSOR_H
#include <tede/base.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_tensor  td_tensor;
typedef struct td_storage td_storage;

/* An absent optional tensor (NULL always means that something failed before). */
TD_API extern td_tensor *const TD_NONE;

#define TD_MAX_DIMS 64

/* ---- references.  Both accept NULL and TD_NONE. */
TD_API td_tensor *td_tensor_retain(td_tensor *x);
TD_API void       td_tensor_release(td_tensor *x);

/* ---- what a tensor is.  None of these can fail; pointers are borrowed. */
TD_API int            td_tensor_ndim(const td_tensor *x);
TD_API const int64_t *td_tensor_sizes(const td_tensor *x);
TD_API const int64_t *td_tensor_strides(const td_tensor *x);     /* in elements; may be negative or 0 */
TD_API int64_t        td_tensor_numel(const td_tensor *x);
TD_API td_dtype       td_tensor_dtype(const td_tensor *x);
TD_API td_device      td_tensor_device(const td_tensor *x);
TD_API td_storage    *td_tensor_storage(const td_tensor *x);     /* NULL if the layout has none */
TD_API int64_t        td_tensor_offset(const td_tensor *x);      /* of the first logical element, in elements */
TD_API void          *td_tensor_data(const td_tensor *x);        /* the first logical element; NULL on meta */
TD_API bool           td_tensor_is_contiguous(const td_tensor *x);
TD_API uint32_t       td_tensor_version(const td_tensor *x);     /* counts writes to all that share its memory */
TD_API td_tensor     *td_tensor_base(const td_tensor *x);        /* what it is a view of, or NULL */

/* ---- making tensors without an operator.  New references; NULL on error.  TD_DEVICE_NONE: the CPU. */
/* Uninitialised, contiguous. */
TD_API td_tensor *td_tensor_new(int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device);
TD_API td_tensor *td_tensor_new_strided(int64_t ndim, const int64_t *sizes, const int64_t *strides, td_dtype dtype,
                                        td_device device);
/* A 0-dim tensor on the CPU that holds `value`, with the dtype that Python's numbers have in PyTorch
 * (int64, bool, the default float dtype, its complex counterpart). */
TD_API td_tensor *td_tensor_from_scalar(td_scalar value);
/* For operands: the same, but marked, so that in promotion it weighs no more than a Python number; floats are kept in
 * float64, complex numbers in complex128. */
TD_API td_tensor *td_wrapped_number(td_scalar value);
/* Over memory that you own.  When nothing looks at it any more, release(context) is called (if not NULL).
 * Strides may be NULL for contiguous; negative ones reach below `data`. */
TD_API td_tensor *td_tensor_from_memory(void *data, int64_t ndim, const int64_t *sizes, const int64_t *strides,
                                        td_dtype dtype, td_device device, void (*release)(void *context),
                                        void *context);
/* A tensor over an existing storage, with a new version counter (no view relation). */
TD_API td_tensor *td_tensor_over(td_storage *storage, int64_t offset, int64_t ndim, const int64_t *sizes,
                                 const int64_t *strides, td_dtype dtype);

/* ---- storages */
/* Uninitialised storage of `nbytes` on a device.  The caller owns the result. */
TD_API td_storage *td_storage_new(td_device device, size_t nbytes);
TD_API td_storage *td_storage_from_memory(void *data, size_t nbytes, td_device device, void (*release)(void *),
                                          void *context);
TD_API td_storage *td_storage_retain(td_storage *s);
TD_API void        td_storage_release(td_storage *s);
TD_API void       *td_storage_data(const td_storage *s);
TD_API size_t      td_storage_nbytes(const td_storage *s);
TD_API td_device   td_storage_device(const td_storage *s);
/* Grow or shrink, keeping the bytes that fit.  An error for memory that the library doesn't own. */
TD_API int         td_storage_resize(td_storage *s, size_t nbytes) TD_MUST_USE;
TD_API int64_t     td_storage_use_count(const td_storage *s);

/* ---- reading one element; printing */
/* The value of a tensor with one element. */
TD_API int td_tensor_item(td_tensor *x, td_scalar *value) TD_MUST_USE;
/* As PyTorch prints it; td_string_free the result. */
TD_API char *td_tensor_str(td_tensor *x);
TD_API void  td_string_free(char *text);

#ifdef __cplusplus
}
#endif
#endif
