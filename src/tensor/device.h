/* Tensors of devices from outside. */
#ifndef TD_TENSOR_DEVICE_H
#define TD_TENSOR_DEVICE_H
#include "device/device.h"
#include "tensor/tensor.h"

/* Count a call that the CPU does for a device, and emit the event; `why` ends "it has ...". */
void td_cpu_fallback_note(const td_op *op, td_device device, const char *why, int64_t bytes);

/* td_copy_elements where one end or both aren't on the CPU: src/kernels/cpu/move/transfer.c. */
int        td_copy_across(td_tensor *dst, td_tensor *src);
/* The same while the CPU goes on, from or to page-locked memory; 1, with nothing done, where that can't be or the
 * elements don't lie alike. */
int        td_copy_late(td_tensor *dst, td_tensor *src);
/* A tensor on the CPU with x's elements and strides, in new memory. */
td_tensor *td_host_copy(td_tensor *x);
/* A tensor on `device` with the elements of x, which is on the CPU, in x's order of dimensions. */
td_tensor *td_device_copy(td_tensor *x, td_device device);

#endif
