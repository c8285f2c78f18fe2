/* Devices from outside, as the layers see them: see <tede/device.h>. */
#ifndef TD_TENSOR_DEVICE_H
#define TD_TENSOR_DEVICE_H
#include <tede/device.h>
#include "tensor/tensor.h"

/* Whether any device has been loaded. */
extern bool td_any_device;
/* By type; NULL where nothing is loaded. */
extern const td_device_library *td_devices[TD_DEVICE_TYPES];
static inline const td_device_library *td_device_of(int type)
{
    return (unsigned)type < TD_DEVICE_TYPES ? __atomic_load_n(&td_devices[type], __ATOMIC_ACQUIRE) : NULL;
}
static inline bool td_is_outside(td_device device) { return device.type > TD_META; }

/* Give a generator per index to a device that has been loaded. */
int td_device_make_generators(int type, int count);

/* td_copy_elements where one end or both aren't on the CPU: src/kernels/cpu/move/transfer.c. */
int        td_copy_across(td_tensor *dst, td_tensor *src);
/* A tensor on the CPU with x's elements and strides, in new memory. */
td_tensor *td_host_copy(td_tensor *x);
/* A tensor on `device` with the elements of x, which is on the CPU, in x's order of dimensions. */
td_tensor *td_device_copy(td_tensor *x, td_device device);

#endif
