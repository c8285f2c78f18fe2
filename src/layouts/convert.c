/* Between strided tensors and those of any other layout, by what its kind says. */
#include "calls_layouts_convert.h"
#include <tede/auto.h>
#include "ops/compose.h"
#include "tensor/layout.h"

td_tensor *td_op_to_dense(td_tensor *self, td_dtype dtype, const bool *masked)
{
    if (td_tensor_shown_layout(self) == TD_STRIDED)
        return dtype == TD_DTYPE_NONE ? td_ref(self) : td_to(self, dtype);
    return td__to_dense(self, dtype, masked);
}

/* The cast comes first: it converts only the elements that are there. */
td_tensor *td_op__to_dense(td_tensor *self, td_dtype dtype, const bool *masked)
{
    (void)masked;
    TD_AUTO td_tensor *cast = dtype == TD_DTYPE_NONE ? td_ref(self) : td_to(self, dtype);
    return cast ? td_layout_to_dense(cast) : NULL;
}

/* The elements of the gradient that the layout has room for. */
td_tensor *td_op_to_dense_backward(td_tensor *grad, td_tensor *input, const bool *masked)
{
    (void)masked;
    if (td_tensor_layout(grad) == td_tensor_layout(input))
        return td_ref(grad);
    TD_AUTO td_tensor *dense = td_layout_to_dense(grad);
    return td_has_layout(input) ? td_layout_from_dense(td_tensor_layout(input), dense) : td_ref(dense);
}

td_tensor *td_op_to_sparse_backward(td_tensor *grad, td_tensor *self) { return td_op_to_dense_backward(grad, self, NULL); }
