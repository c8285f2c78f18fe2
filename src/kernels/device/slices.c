/* Unique slices on devices: slices.ck. */
#include "calls_kernels_device_slices.h"
#include "kernels/device/kernel.h"
#include "ops/index/kernels.h"
#define TD_HOST
#include "kernels/device/slices.ck"

TD_SOURCE(slices);

/* The order, and where in it something new starts; then it is a matter of selecting and counting. */
int td_unique_slices_on_device(td_tensor **results, td_tensor *x, bool sort, bool inverse, bool counts)
{
    slice_values v = {.n = x->sizes[0], .run = 1};
    const int64_t none = 0;
    if (!v.n) {
        TD_AUTO td_tensor *same = td_clone(x), *empty = td_tensor_new(1, &none, TD_I64, x->device), *other = td_tensor_new(1, &none, TD_I64, x->device);
        if (!same || !empty || !other)
            return -1;
        results[0] = td_tensor_retain(same), results[1] = td_tensor_retain(empty), results[2] = td_tensor_retain(other);
        return 0;
    }
    v.block = x->numel / v.n;
    TD_AUTO td_tensor *starts = td_tensor_new(1, &v.n, TD_BOOL, x->device), *end = td_full(1, (int64_t[]){1}, td_int(v.n), TD_I64, x->device);
    td_tensor *order = td_arange(td_int(v.n), TD_I64, x->device), *spare = sort ? td_tensor_new(1, &v.n, TD_I64, x->device) : td_tensor_retain(TD_NONE);
    td_launch_of launch = {.source = td_source_slices, .kernel = "slice_merge", TD_VALUES(v), .types = {{"A", (td_dtype)x->dtype}},
                           .groups = td_launch_groups(x->device, v.n)};
    int status = starts && end && order && spare ? 0 : -1;
    for (; sort && v.run < v.n && !status; v.run *= 2) {
        launch.buffers[0] = x, launch.buffers[1] = order, launch.buffers[2] = spare;
        status = td_launch(&launch);
        spare = order, order = launch.buffers[2];
    }
    launch.kernel = "slice_starts", launch.buffers[0] = x, launch.buffers[1] = order, launch.buffers[2] = starts;
    status = status || td_launch(&launch) ? -1 : 0;
    TD_AUTO td_tensor *own = order, *other = spare, *positions = status ? NULL : td_true_positions_on_device(starts);
    TD_AUTO td_tensor *firsts = positions ? td_index_select(own, 0, positions) : NULL, *found = firsts ? td_index_select(x, 0, firsts) : NULL;
    TD_AUTO td_tensor *ranks = inverse && found ? td_cumsum(starts, 0, TD_I64) : td_tensor_retain(TD_NONE);
    TD_AUTO td_tensor *to = found ? td_tensor_new(1, inverse ? &v.n : &none, TD_I64, x->device) : NULL;
    TD_AUTO td_tensor *how_many = !found ? NULL : counts ? td_diff(positions, 1, 0, TD_NONE, end) : td_tensor_new(1, &none, TD_I64, x->device);
    if (!to || !ranks || !how_many || (inverse && (td_sub_scalar_(ranks, td_int(1), td_int(1)) || td_scatter_src_(to, 0, own, ranks))))
        return -1;
    results[0] = td_tensor_retain(found), results[1] = td_tensor_retain(to), results[2] = td_tensor_retain(how_many);
    return 0;
}
