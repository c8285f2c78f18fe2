/* cumsum, cumprod, cummax, cummin, logcumsumexp and linear recurrences: an operand is brought into the shape (outer, length, inner) and
 * the type that is computed in. */

#include "calls_kernels_cpu_reduce_scan.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/base.h"
#include "kernels/cpu/reduce/scan.h"
#include "ops/index/sort_kernels.h"

/* Of the processor's level. */
#define SCAN(op) (*TD_ISA_PICK(td_scan_##op))
TD_ISA_TABLES(td_scan, td_scan_cumsum);
TD_ISA_TABLES(td_scan, td_scan_cumprod);
TD_ISA_TABLES(td_scan, td_scan_linear);
TD_ISA_TABLES(td_scan, td_scan_cummax);
TD_ISA_TABLES(td_scan, td_scan_cummin);
TD_ISA_TABLES(td_scan, td_scan_logcumsumexp);

/* x in the result's dtype, then in the dtype that is computed in; the result goes back the same way. */
static int scan(td_scan b, td_tensor *self, td_tensor *c, int64_t dim, bool reverse, td_tensor *out, td_tensor *at)
{
    if (out->numel == 0)
        return 0;
    td_dtype kind = (td_dtype)out->dtype;
    td_dtype compute = td_dtype_is_complex(kind) ? TD_C128 : kind == TD_F64 ? TD_F64 : td_dtype_is_floating(kind) ? TD_F32
                                                                                                                 : TD_I64;
    TD_AUTO td_tensor *own = self->dtype == (int8_t)kind || compute == kind ? td_tensor_retain(self)
                                                                            : td_as_contiguous(self, kind);
    TD_AUTO td_tensor *x = own ? td_as_contiguous(own, compute) : NULL;
    TD_AUTO td_tensor *y = compute == kind ? td_tensor_retain(out)
                                           : td_tensor_new(out->ndim, out->sizes, compute, out->device);
    TD_AUTO td_tensor *factor = c ? td_as_contiguous(c, compute) : td_tensor_retain(TD_NONE);
    int d = td_wrap_dim(dim, self->ndim);
    if (!x || !y || !factor || d < 0)
        return -1;
    td_scan_job w = {.x = x->data, .out = y->data, .c = c ? factor->data : NULL, .at = at ? (int64_t *)at->data : NULL,
                  .length = self->ndim ? self->sizes[d] : 1, .inner = 1, .sign = reverse ? -1 : 1};
    for (int k = d + 1; k < self->ndim; k++)
        w.inner *= self->sizes[k];
    w.tiles = (w.inner + TD_SCAN_TILE - 1) / TD_SCAN_TILE;
    int64_t outer = out->numel / (w.length * w.inner), work = w.length * (w.inner < TD_SCAN_TILE ? w.inner : TD_SCAN_TILE);
    td_loop_body *body = compute == TD_F32 ? b.f32 : compute == TD_F64 ? b.f64 : compute == TD_I64 ? b.i64 : b.c128;
    td_parallel_for(0, outer * w.tiles, 32768 / work + 1, body, &w);
    return y == out ? 0 : td_copy_elements(out, y);
}

/* Items are independent, and each goes along its length in order on one thread, so threads change no bits. */
int td_cpu_cumsum(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out0)
{
    (void)dtype;
    return scan(SCAN(cumsum), self, NULL, dim, false, out0, NULL);
}
/* From the end, without two flips: what the gradient of cumsum is. */
int td_cpu_cumsum_reverse(td_tensor *self, int64_t dim, td_tensor *out0)
{
    return scan(SCAN(cumsum), self, NULL, dim, true, out0, NULL);
}
int td_cpu_cumprod(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out0)
{
    (void)dtype;
    return scan(SCAN(cumprod), self, NULL, dim, false, out0, NULL);
}
/* y[r] = a[r] + c[r] y[r - 1]; from the end if `reverse`. */
int td_cpu_linear_scan(td_tensor *a, td_tensor *c, int64_t dim, bool reverse, td_tensor *out0)
{
    return scan(SCAN(linear), a, c, dim, reverse, out0, NULL);
}
/* uint64 is compared as int64 of the same order. */
static int extremes(td_scan b, td_tensor *self, int64_t dim, td_tensor *out, td_tensor *at)
{
    if (td_dtype_is_complex((td_dtype)self->dtype)) {       /* one number or none */
        if (at->numel)
            *(int64_t *)at->data = 0;
        return td_copy_elements(out, self);
    }
    if (self->dtype != TD_U64)
        return scan(b, self, NULL, dim, false, out, at);
    TD_AUTO td_tensor *x = td_ordered_int64(self);
    TD_AUTO td_tensor *y = x ? td_tensor_new(out->ndim, out->sizes, TD_I64, out->device) : NULL;
    if (!y || scan(b, x, NULL, dim, false, y, at))
        return -1;
    for (int64_t i = 0; i < y->numel; i++)
        ((uint64_t *)out->data)[i] = ((const uint64_t *)y->data)[i] ^ UINT64_C(1) << 63;
    return 0;
}

int td_cpu_cummax(td_tensor *self, int64_t dim, td_tensor *out0, td_tensor *out1)
{
    return extremes(SCAN(cummax), self, dim, out0, out1);
}
int td_cpu_cummin(td_tensor *self, int64_t dim, td_tensor *out0, td_tensor *out1)
{
    return extremes(SCAN(cummin), self, dim, out0, out1);
}
int td_cpu_logcumsumexp(td_tensor *self, int64_t dim, td_tensor *out0)
{
    return scan(SCAN(logcumsumexp), self, NULL, dim, false, out0, NULL);
}
