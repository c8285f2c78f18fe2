/* Layouts from outside, as the layers see them: see <tede/layout.h>. */
#ifndef TD_TENSOR_LAYOUT_H
#define TD_TENSOR_LAYOUT_H
#include <tede/layout.h>
#include "tensor/tensor.h"

/* For messages: the name of the layout whose key is TD_KEY_DENSE + number. */
const char *td_layout_title(int number);
/* An owned strided tensor with x's elements; NULL with an error if x's layout can't say. */
td_tensor  *td_layout_to_dense(td_tensor *x);

#endif
