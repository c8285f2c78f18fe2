/* Tensors of devices from outside. */
#ifndef TD_TENSOR_DEVICE_H
#define TD_TENSOR_DEVICE_H
#include "device/device.h"
#include "tensor/late.h"
#include "tensor/tensor.h"

/* Computes on the CPU for a device: f on copies of what lies there; what is written to out's copy goes to `out`.  It is counted as a
 * fallback of op (which may be NULL), and explained by `why`: src/dispatch/fallback.c. */
typedef int td_host_function(void *context, td_tensor *const *in, td_tensor *out);
int td_compute_on_host(const td_op *op, const char *why, int n, td_tensor *const *in, td_tensor *out, td_host_function *f, void *context);

/* td_copy_elements where one end or both aren't on the CPU: src/kernels/cpu/move/transfer.c. */
int        td_copy_across(td_tensor *dst, td_tensor *src);
/* The same while the CPU goes on, from or to page-locked memory; 1, with nothing done, where that can't be or the
 * elements don't lie alike. */
int        td_copy_late(td_tensor *dst, td_tensor *src);
/* A tensor on the CPU with x's elements and strides, in new memory. */
td_tensor *td_host_copy(td_tensor *x);
/* The same of what lies on a device from outside; else x itself, with another reference, with elements to be read.  NULL for NULL. */
static inline td_tensor *td_on_host(td_tensor *x)
{
    return !x || td_settle(x) ? NULL : td_is_outside(x->device) ? td_host_copy(x) : td_tensor_retain(x);
}
/* A tensor on `device` with the elements of x, which is on the CPU, in x's order of dimensions. */
td_tensor *td_device_copy(td_tensor *x, td_device device);

/* x with its parts copied to a device, or to the CPU: a strided tensor, or of a layout that lists its parts. */
td_tensor *td_layout_on(td_tensor *x, td_device device);
/* For a device that is loaded. */
int td_sparse_fallback_register(int type);

#endif
