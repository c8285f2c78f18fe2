/* Integers of 8 bits by their bytes: bytes.c. */
#ifndef TD_LAYOUTS_QUANTIZED_BYTES_H
#define TD_LAYOUTS_QUANTIZED_BYTES_H
#include "layouts/quantized/object.h"

/* Whether x's elements are so many, of 8 bits and of one scale, that what an operator makes of each is better looked up. */
bool       td_quantized_gains_by_table(const td_tensor *x);
/* All integers of x's dtype in the order of their bytes, quantized as x is; and x's elements by what an operator has made of these. */
td_tensor *td_quantized_every_integer(td_tensor *x);
td_tensor *td_quantized_looked_up(td_tensor *x, td_tensor *table);
/* Tensors of one dtype joined, quantized by q: rounded before its zero point is added or, of 8 bits with `sums`, after that. */
td_tensor *td_quantized_joined(int64_t n, td_tensor *const *tensors, int64_t dim, const td_quantizer *q, bool sums);
#endif
