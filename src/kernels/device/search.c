/* searchsorted, bucketize and isin on devices: search.ck.  The operators' bodies check, as on the CPU, and call the functions here for what
 * isn't there (ops/index/sort_kernels.h). */
#include "calls_kernels_device_search.h"
#include "kernels/device/kernel.h"
#include "ops/index/sort_kernels.h"
#define TD_HOST
#include "kernels/device/search.ck"

TD_SOURCE(search);

/* A binary search for each value.  The sequence is read at random; that its upper levels stay in caches is why no other structure is built.
 * Operands of two dtypes are compared in one that holds both, as on the CPU. */
td_tensor *td_places_on_device(td_tensor *sequence, td_tensor *values, td_tensor *sorter, bool right, td_dtype dtype)
{
    const td_dtype common = sequence->dtype == values->dtype ? (td_dtype)sequence->dtype : td_dtype_is_floating((td_dtype)sequence->dtype) ? TD_F64 : TD_I64;
    search_values v = {.count = values->numel, .n = sequence->ndim ? sequence->sizes[sequence->ndim - 1] : 1, .right = right, .sorter = sorter != TD_NONE};
    v.limits = td_index_limits(0, v.n, TD_E_RUNTIME, "searchsorted", "torch.searchsorted(): sorter index out of range", 0);
    v.per = sequence->ndim > 1 ? values->ndim ? values->sizes[values->ndim - 1] : 1 : values->numel;
    if (sequence->device.type != values->device.type || (sequence->dtype != values->dtype && (sequence->dtype == TD_U64 || values->dtype == TD_U64)) ||
        !td_device_computes(values->device, common) || !td_device_computes(values->device, (td_dtype)values->dtype))
        return td_fail(TD_E_NOT_IMPLEMENTED, "left to the CPU: %s among %s", td_dtype_name((td_dtype)values->dtype), td_dtype_name((td_dtype)sequence->dtype));
    TD_AUTO td_tensor *s = td_as_contiguous(sequence, common), *x = td_as_contiguous(values, common);
    TD_AUTO td_tensor *order = sorter == TD_NONE ? td_tensor_retain(TD_NONE) : td_make_contiguous(sorter);
    TD_AUTO td_tensor *out = td_tensor_new(values->ndim, values->sizes, dtype, values->device);
    if (!s || !x || !order || !out || v.count == 0)
        return s && x && order ? td_tensor_retain(out) : NULL;
    td_launch_of launch = {.source = td_source_search, .kernel = "search_places", TD_VALUES(v), .types = {{"A", common}, {"B", dtype}},
                           .buffers = {x, x, order, out}, .late = true, .groups = td_launch_groups(x->device, v.count)};
    launch.buffers[0] = s->numel ? s : x;
    return td_launch(&launch) ? NULL : td_tensor_retain(out);
}

/* A bisection in the known ones, which the caller has sorted: a table of hashes would need atomics while it is filled. */
td_tensor *td_members_on_device(td_tensor *known, td_tensor *values, bool invert)
{
    search_values v = {.count = values->numel, .n = known->numel, .per = 1, .invert = invert};
    if (known->device.type != values->device.type)
        return td_fail(TD_E_RUNTIME, "isin: Expected all tensors to be on the same device, but found at least two devices");
    TD_AUTO td_tensor *out = td_tensor_new(values->ndim, values->sizes, TD_BOOL, values->device);
    if (!out || v.count == 0)
        return td_tensor_retain(out);
    td_launch_of launch = {.source = td_source_search, .kernel = "search_members", TD_VALUES(v),
                           .types = {{"A", (td_dtype)values->dtype}, {"B", TD_BOOL}}, .buffers = {v.n ? known : values, values, out},
                           .groups = td_launch_groups(values->device, v.count)};
    return td_launch(&launch) ? NULL : td_tensor_retain(out);
}

td_tensor *td_on_device_searchsorted_tensor(td_tensor *sorted_sequence, td_tensor *self, bool out_int32, bool right, const char *side, td_tensor *sorter)
{
    return td_op_searchsorted_tensor(sorted_sequence, self, out_int32, right, side, sorter);
}
td_tensor *td_on_device_searchsorted_scalar(td_tensor *sorted_sequence, td_scalar self, bool out_int32, bool right, const char *side, td_tensor *sorter)
{
    return td_op_searchsorted_scalar(sorted_sequence, self, out_int32, right, side, sorter);
}
td_tensor *td_on_device_bucketize_tensor(td_tensor *self, td_tensor *boundaries, bool out_int32, bool right)
{
    return td_op_bucketize_tensor(self, boundaries, out_int32, right);
}
td_tensor *td_on_device_bucketize_scalar(td_scalar self, td_tensor *boundaries, bool out_int32, bool right)
{
    return td_op_bucketize_scalar(self, boundaries, out_int32, right);
}
td_tensor *td_on_device_isin_tensor_tensor(td_tensor *elements, td_tensor *test_elements, bool assume_unique, bool invert)
{
    return td_op_isin_tensor_tensor(elements, test_elements, assume_unique, invert);
}
td_tensor *td_on_device_isin_tensor_scalar(td_tensor *elements, td_scalar test_element, bool assume_unique, bool invert)
{
    return td_op_isin_tensor_scalar(elements, test_element, assume_unique, invert);
}
td_tensor *td_on_device_isin_scalar_tensor(td_scalar element, td_tensor *test_elements, bool assume_unique, bool invert)
{
    return td_op_isin_scalar_tensor(element, test_elements, assume_unique, invert);
}
