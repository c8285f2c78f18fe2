/* Sequences and triangles on devices: create.ck. */
#include "calls_kernels_device_create.h"
#include "kernels/device/kernel.h"
#include "ops/create/create.h"
#define TD_HOST
#include "kernels/device/create.ck"

TD_SOURCE(create);

static int sequence(td_tensor *out, bool spaced, bool exponents, bool whole, int64_t start, int64_t step, double from, double by, double to)
{
    const td_dtype dtype = (td_dtype)out->dtype;
    const td_device_properties *properties = td_device_known(out->device);
    /* arange is computed in double and rounded to float; a device without doubles counts in float. */
    const bool half = dtype == TD_F16 || dtype == TD_BF16;
    const bool wide = properties && properties->doubles && (!spaced || !(half || dtype == TD_F32));
    if (spaced && !wide && !half && dtype != TD_F32)
        return td_leave_to_cpu("even spacing in double");
    sequence_values v = {out->numel, whole, whole ? start : td_number_bits(from, wide), whole ? step : td_number_bits(by, wide), td_number_bits(to, wide)};
    return td_launch(&(td_launch_of){
        .source = td_source_create, .kernel = "sequence", TD_VALUES(v), .groups = td_launch_groups(out->device, v.n), .buffers = {out},
        .types = {{"A", dtype}, {"U", wide ? TD_F64 : TD_F32}}, .numbers = {{"WIDE", wide}, {"SPACED", spaced}, {"ROUNDED", half || exponents}},
    });
}

int td_arange_on_device(td_tensor *out, bool whole, int64_t start, int64_t step, double from, double by)
{
    return sequence(out, false, false, whole, start, step, from, by, 0);
}
int td_linspace_on_device(td_tensor *out, double from, double to, double by, bool exponents)
{
    return sequence(out, true, exponents, false, 0, 0, from, by, to);
}

int td_triangle_on_device(td_tensor *from, td_tensor *to, int64_t diagonal, bool upper)
{
    const int64_t size = (int64_t)td_dtype_size((td_dtype)to->dtype), lanes = size == 16 ? 2 : 1;
    triangle_values v = {to->numel * lanes, to->sizes[to->ndim - 2], to->sizes[to->ndim - 1], lanes, diagonal};
    return td_launch(&(td_launch_of){
        .source = td_source_create, .kernel = "triangle", TD_VALUES(v), .groups = td_launch_groups(to->device, v.n), .buffers = {from, to},
        .types = {{"A", td_raw_dtype(size)}}, .numbers = {{"UPPER", upper}},
    });
}
int td_triangle_indices_on_device(td_tensor *out, int64_t rows, int64_t cols, int64_t diagonal, bool upper)
{
    triangle_values v = {out->sizes[1], rows, cols, 1, diagonal};
    return td_launch(&(td_launch_of){
        .source = td_source_create, .kernel = "triangle_indices", TD_VALUES(v), .groups = td_launch_groups(out->device, v.n), .buffers = {out},
        .types = {{"A", (td_dtype)out->dtype}}, .numbers = {{"UPPER", upper}},
    });
}
