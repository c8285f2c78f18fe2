/* frexp on devices: frexp.ck. */
#include "calls_kernels_device_frexp.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/frexp.ck"

TD_SOURCE(frexp);

int td_on_device_frexp_tensor(td_tensor *self, td_tensor *out0, td_tensor *out1)
{
    const bool wide = self->dtype == TD_F64;
    const frexp_values v = {self->numel};
    const td_launch_of launch = {.source = td_source_frexp, .kernel = "mantissas", TD_VALUES(v), .groups = td_launch_groups(self->device, v.n),
                                 .types = {{"A", (td_dtype)self->dtype}, {"U", wide ? TD_F64 : TD_F32}}, .numbers = {{"WIDE", wide}}};
    return TD_LAUNCH_ON(launch, TD_READS(self), TD_WRITES(out0), TD_WRITES(out1));
}
