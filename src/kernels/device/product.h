/* Launching product.ck: for products of tensors (matmul.c), convolutions (conv.c) and recurrent layers (rnn.c). */
#ifndef TD_KERNELS_DEVICE_PRODUCT_H
#define TD_KERNELS_DEVICE_PRODUCT_H
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/product.ck"
#undef TD_HOST

typedef enum td_product_kind { TD_PRODUCT_PLAIN, TD_PRODUCT_GATHER, TD_PRODUCT_WEIGH } td_product_kind;

/* With alpha 1, no bias and one member in the batch; strides are still 0. */
product_values td_product_of(td_dtype dtype, int64_t m, int64_t n, int64_t k);
/* A number as the kernels take it. */
int64_t td_product_number(td_scalar x, td_dtype dtype);

/* c = alpha a b + beta bias; bias: TD_NONE or, with has_bias, a tensor.  How the work is cut is filled in here. */
int td_product_launch(td_product_kind kind, product_values *v, td_tensor *a, td_tensor *b, td_tensor *c, td_tensor *bias);
/* The same by the vendor's library: 0; 1 where there is none that takes it; -1.  `added`: broadcast to c, times beta; TD_NONE. */
int td_product_by_library(const product_values *v, double alpha, double beta, td_tensor *a, td_tensor *b, td_tensor *c, td_tensor *added);
/* c = epilogue(alpha a b + bias), where the bias is TD_NONE or one row for all of c's, in one call of the library: as td_product_by_library. */
int td_product_fused(const product_values *v, double alpha, td_tensor *a, td_tensor *b, td_tensor *c, td_tensor *bias, td_epilogue epilogue);

#endif
