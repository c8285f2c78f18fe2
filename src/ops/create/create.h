/* What bodies that make tensors call where these are on a device with programs: src/kernels/device/create.c.  Results are contiguous.
 * TD_E_NOT_IMPLEMENTED for what the device doesn't compute in. */
#ifndef TD_OPS_CREATE_CREATE_H
#define TD_OPS_CREATE_CREATE_H
#include "tensor/tensor.h"

/* Whole numbers start + i * step, or reals from + i * by. */
int td_arange_on_device(td_tensor *out, bool whole, int64_t start, int64_t step, double from, double by);
/* Steps of `by`, counted from the nearer end; of exponents in double, products are rounded before they are added. */
int td_linspace_on_device(td_tensor *out, double from, double to, double by, bool exponents);
/* `from` with zeros beyond a diagonal, which is within [-rows, cols]; both contiguous, `to` may be `from`. */
int td_triangle_on_device(td_tensor *from, td_tensor *to, int64_t diagonal, bool upper);
/* Rows and columns of what is kept, in the rows of `out`. */
int td_triangle_indices_on_device(td_tensor *out, int64_t rows, int64_t cols, int64_t diagonal, bool upper);

#endif
