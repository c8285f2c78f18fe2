/* Layouts from outside, as the layers see them: see <tede/layout.h>. */
#ifndef TD_TENSOR_LAYOUT_H
#define TD_TENSOR_LAYOUT_H
#include <tede/layout.h>
#include "tensor/tensor.h"

/* For messages: the name of the layout whose key is TD_KEY_DENSE + number. */
const char *td_layout_title(int number);
/* An owned strided tensor with x's elements; NULL with an error if x's layout can't say. */
td_tensor  *td_layout_to_dense(td_tensor *x);
/* Members of td_extra_table for layouts that have neither strided views nor strided memory: they say so. */
td_tensor  *td_layout_no_view(td_tensor *x, td_dtype dtype, int ndim, const int64_t *sizes, const int64_t *strides, int64_t at);
int         td_layout_not_readable(const td_tensor *x);

#endif
