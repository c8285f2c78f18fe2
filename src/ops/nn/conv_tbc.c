/* conv_tbc: convolution over time, which is the first dimension. */
#include "calls_ops_nn_conv_tbc.h"
#include <inttypes.h>
#include "ops/compose.h"
#include "tensor/checked.h"

/* [time, batch, channels] with a weight [width, in, out]: conv1d on permuted views, and its result permuted back.
 * out[0] may be 0; the check is for what is below. */
td_tensor *td_op_conv_tbc(td_tensor *self, td_tensor *weight, td_tensor *bias, int64_t pad)
{
    td_shape_text text;
    if (self->ndim != 3)
        return td_fail(TD_E_RUNTIME, "Input must have 3 dims: time, batch, in_channel");
    if (weight->ndim != 3)
        return td_fail(TD_E_RUNTIME, "Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.");
    if (bias->ndim != 1)
        return td_fail(TD_E_RUNTIME, "Bias must be 1-D");
    if (self->sizes[2] != weight->sizes[1])
        return td_fail(TD_E_RUNTIME, "Input dim 2 (input channels) is not == dim 1 in the weight tensor");
    if (weight->sizes[2] != bias->sizes[0])
        return td_fail(TD_E_RUNTIME, "Bias size must equal dim 2 in the weight tensor (output channels).");
    int64_t out[3] = {td_add_saturated(td_window_room(self->sizes[0], pad, weight->sizes[0]), 1), self->sizes[1], weight->sizes[2]};
    if (out[0] < 0)
        return td_fail(TD_E_RUNTIME, "Trying to create tensor with negative dimension %" PRId64 ": %s", out[0],
                       td_shape_str(3, out, text));
    TD_AUTO td_tensor *x = td_permute(self, 3, (int64_t[]){1, 2, 0}), *w = td_permute(weight, 3, (int64_t[]){2, 1, 0});
    TD_AUTO td_tensor *wide = td_to(bias, (td_dtype)self->dtype);         /* which is copied into the result first */
    TD_AUTO td_tensor *y = td_conv1d(x, w, wide, 1, (int64_t[]){1}, 1, &pad, 1, (int64_t[]){1}, 1);
    TD_AUTO td_tensor *permuted = td_permute(y, 3, (int64_t[]){2, 0, 1});
    return td_clone_format(permuted, TD_CONTIGUOUS_FORMAT);      /* with strides of its own, also where one dimension is all */
}
