/* Running sums, products, extremes and recurrences on devices: scan.ck. */
#include "calls_kernels_device_scan.h"
#include "kernels/device/kernel.h"
#define TD_HOST
#include "kernels/device/scan.ck"

TD_SOURCE(scan);

enum { SHORT = 32, EACH = 4, STATE = 32 };      /* elements of a line for a work item; of a lane; bytes of a state, at most */

/* Numbers are folded as on the CPU, but for floats in their own precision: by halves, errors grow with the logarithm. */
static td_dtype compute_of(td_dtype dtype) { return td_dtype_is_complex(dtype) || dtype == TD_F64 ? dtype : td_dtype_is_floating(dtype) ? TD_F32 : TD_I64; }

/* Lines that are short, or many and side by side, are a work item's each: neighbours read neighbouring elements, and nothing is joined.
 * Else a group takes a line, block after block.  Where lines are fewer than groups keep the device busy, a line is cut into segments and
 * the elements are read twice (Blelloch, 1990): for each segment's total, then, from the sums of the totals before it, for the results.
 *
 * `z`: factors, indices or TD_NONE. */
static int scan(int kind, td_dtype compute, td_tensor *self, td_tensor *z, int64_t dim, bool reverse, td_tensor *out)
{
    const td_device_properties *device = td_device_known(self->device);
    const int d = td_wrap_dim(dim, self->ndim ? self->ndim : 1);
    scan_values v = {.n = self->ndim ? self->sizes[d] : 1, .inner = 1, .segments = 1, .reverse = reverse};
    if (!device || d < 0)
        return -1;
    if (out->numel == 0)
        return 0;
    for (int i = d + 1; i < self->ndim; i++)
        v.inner *= self->sizes[i];
    v.lines = self->numel / v.n;
    TD_AUTO td_tensor *x = td_make_contiguous(self), *y = td_writable(out, (td_dtype)out->dtype);
    if (!x || !y)
        return -1;
    const int64_t block = (int64_t)device->lanes * EACH, blocks = (v.n + block - 1) / block, most = (int64_t)device->units * 4;
    const bool items = v.n < SHORT || (v.inner >= device->lanes && v.lines >= 8 * (int64_t)device->lanes);
    if (!items && v.lines < most && blocks > 4)
        v.segments = most / v.lines < blocks / 4 ? most / v.lines : blocks / 4;
    v.segments = v.segments < 1 ? 1 : v.segments > 1024 ? 1024 : v.segments;
    v.segment = (blocks + v.segments - 1) / v.segments * block;
    const int64_t bytes = STATE * v.lines * v.segments;
    TD_AUTO td_tensor *carries = v.segments > 1 ? td_tensor_new(1, &bytes, TD_U8, x->device) : td_tensor_retain(TD_NONE);
    if (!carries)
        return -1;
    td_launch_of launch = {
        .source = td_source_scan, .kernel = items ? "scan_items" : "scan_groups", TD_VALUES(v),
        .types = {{"A", (td_dtype)x->dtype}, {"B", (td_dtype)y->dtype}, {"C", compute}}, .numbers = {{"KIND", kind}}, .complex = kind <= SCAN_PROD || kind == SCAN_LINEAR,
        .buffers = {x, y, z, items ? NULL : carries},
        .groups = items ? td_launch_groups(x->device, v.lines) : td_launch_many(x->device, v.lines * v.segments),
    };
    if (v.segments > 1) {
        td_launch_of between = launch;
        between.kernel = "scan_carries", between.groups = td_launch_groups(x->device, v.lines);
        between.buffers[0] = carries, between.buffers[1] = NULL;
        v.only_total = true;
        if (td_launch(&launch) || td_launch(&between))
            return -1;
        v.only_total = false;
    }
    return td_launch(&launch) || td_write_back(out, y) ? -1 : 0;
}

/* In the result's dtype, where that isn't what elements are converted to as they are read. */
static int arithmetic(int kind, td_tensor *self, int64_t dim, bool reverse, td_tensor *out)
{
    const td_dtype dtype = (td_dtype)out->dtype;
    const bool whole = td_dtype_is_floating((td_dtype)self->dtype) && !td_dtype_is_floating(dtype);
    const bool complex = td_dtype_is_complex((td_dtype)self->dtype) || td_dtype_is_complex(dtype);
    TD_AUTO td_tensor *x = self->dtype == out->dtype || (compute_of(dtype) == dtype && !whole && !complex) ? td_tensor_retain(self) : td_as_contiguous(self, dtype);
    return x ? scan(kind, compute_of(dtype), x, TD_NONE, dim, reverse, out) : -1;
}
int td_on_device_cumsum(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out0)
{
    (void)dtype;
    return arithmetic(SCAN_SUM, self, dim, false, out0);
}
int td_on_device_cumsum_reverse(td_tensor *self, int64_t dim, td_tensor *out0) { return arithmetic(SCAN_SUM, self, dim, true, out0); }
int td_on_device_cumprod(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out0)
{
    (void)dtype;
    return arithmetic(SCAN_PROD, self, dim, false, out0);
}
int td_on_device_logcumsumexp(td_tensor *self, int64_t dim, td_tensor *out0) { return arithmetic(SCAN_LSE, self, dim, false, out0); }

int td_on_device_linear_scan(td_tensor *a, td_tensor *c, int64_t dim, bool reverse, td_tensor *out0)
{
    TD_AUTO td_tensor *factor = td_as_contiguous(c, (td_dtype)a->dtype);
    return factor ? scan(SCAN_LINEAR, compute_of((td_dtype)a->dtype), a, factor, dim, reverse, out0) : -1;
}

static int extremes(int kind, td_tensor *self, int64_t dim, td_tensor *out, td_tensor *at)
{
    TD_AUTO td_tensor *z = td_writable(at, TD_I64);
    return !z || scan(kind, (td_dtype)self->dtype, self, z, dim, false, out) || td_write_back(at, z) ? -1 : 0;
}
int td_on_device_cummax(td_tensor *self, int64_t dim, td_tensor *out0, td_tensor *out1) { return extremes(SCAN_MAX, self, dim, out0, out1); }
int td_on_device_cummin(td_tensor *self, int64_t dim, td_tensor *out0, td_tensor *out1) { return extremes(SCAN_MIN, self, dim, out0, out1); }
