/* Counting: histc (how many elements fall into each of equally wide bins) and bincount (how often each whole number
 * occurs). histogram and histogramdd, with edges and weights, are histogram.c. */

#include "calls_ops_reduce_count.h"
#include "ops/index/kernels.h"
#include "tensor/checked.h"
#include "device/device.h"
#include "ops/reduce/reduce.h"
#include <math.h>
#include <string.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "dispatch/spec.h"

enum { SHORT_COUNTS = 1 << 14 };

/* On a device; NaN if one element is. */
static int own_range(td_tensor *x, double *low, double *high)
{
    td_tensor *ends[2];
    td_scalar least = {0}, most = {0};
    if (td_aminmax(ends, x, NULL, false))
        return -1;
    const int status = td_tensor_item(ends[0], &least) || td_tensor_item(ends[1], &most) ? -1 : 0;
    td_tensor_release(ends[0]), td_tensor_release(ends[1]);
    *low = td_scalar_double(least), *high = td_scalar_double(most);
    return status;
}

static bool is_complex(const td_tensor *x) { return td_dtype_is_complex((td_dtype)x->dtype); }

/* Bins are [low, high) of equal width, the last one closed. low == high means the elements' own range; if that is a point,
 * one to each side. The loops let NaN through to low and high, so that the check below refuses it, as PyTorch does; with a
 * given range NaN is in no bin. All is computed in double. */
td_tensor *td_op_histc(td_tensor *self, int64_t bins, td_scalar min, td_scalar max)
{
    if (bins <= 0)
        return td_fail(TD_E_RUNTIME, "torch.histogram(): bins must be > 0, but got %" PRId64 " for dimension 0", bins);
    if (td_scalar_double(min) > td_scalar_double(max))
        return td_fail(TD_E_RUNTIME, "torch.histc: max must be larger than min");
    if (!td_dtype_is_floating((td_dtype)self->dtype))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"histogram_cpu\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    double low = td_scalar_double(min), high = td_scalar_double(max);
    if (td_scalar_check(min, (td_dtype)self->dtype) || td_scalar_check(max, (td_dtype)self->dtype))
        return NULL;
    if (self->device.type == TD_META)
        return td_tensor_new(1, &bins, (td_dtype)self->dtype, self->device);
    const bool there = td_is_outside(self->device);
    TD_AUTO td_tensor *x = there ? td_make_contiguous(self) : td_as_contiguous(self, TD_F64);
    if (!x || (there && low == high && x->numel && own_range(x, &low, &high)))
        return NULL;
    const double *v = (const double *)x->data;
    if (low == high && x->numel && !there) {
        low = high = v[0];
        for (int64_t i = 0; i < x->numel; i++)
            low = v[i] < low || v[i] != v[i] ? v[i] : low, high = v[i] > high || v[i] != v[i] ? v[i] : high;
    }
    if (low == high)
        low -= 1, high += 1;
    if (!isfinite(low) || !isfinite(high))
        return td_fail(TD_E_RUNTIME, "torch.histc(): range of [%g, %g] is not finite", low, high);
    const double scale = isfinite(high - low) ? 1 : .5;         /* a range that a double can't hold is halved */
    const double from = low * scale, width = high * scale - from;
    if (there) {
        TD_AUTO td_tensor *found = td_count_on_device(x, bins, &(td_bins){low, high, from, width, scale});
        return td_as_contiguous(found, (td_dtype)self->dtype);
    }
    TD_AUTO td_tensor *count = td_tensor_new(1, &bins, TD_I64, self->device);
    if (!count)
        return NULL;
    int64_t *to = (int64_t *)count->data;
    memset(to, 0, sizeof(int64_t) * (size_t)bins);
    for (int64_t i = 0; i < x->numel; i++) {
        if (!(v[i] >= low && v[i] <= high))
            continue;
        int64_t at = (int64_t)((v[i] * scale - from) / width * (double)bins);
        to[at < bins ? at : bins - 1]++;
    }
    return td_as_contiguous(count, (td_dtype)self->dtype);
}

/* bincount for numbers below 2^14: counters of 16 bits take 32 KiB, which a first-level cache holds. Numbers are taken in
 * blocks: `or` over a block bounds its numbers (a negative one sets the highest bit) at one operation each; then they are
 * counted, while the next block's are fetched. The counters are added to `counts` before one could overflow, every MOST
 * numbers. One pass over memory thus finds the range and counts. False, with no error, where a number is too large; counts
 * are void then. */
static bool count_short(const int64_t *v, int64_t n, uint32_t *counts, int64_t *high)
{
    enum { BLOCK = 512, MOST = 65535 / BLOCK * BLOCK, LINE = 8 };
    uint16_t now[SHORT_COUNTS] = {0};
    uint64_t bits = 0;
    *high = -1;
    memset(counts, 0, sizeof *counts * SHORT_COUNTS);
    if (n > UINT32_MAX)
        return false;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t end = n - start < BLOCK ? n : start + BLOCK;
        uint64_t part[4] = {0};
        int64_t i = start;
        for (; i + LINE <= end; i += LINE)
#pragma GCC unroll 8
            for (int k = 0; k < LINE; k++)
                part[k % 4] |= (uint64_t)v[i + k];
        for (; i < end; i++)
            part[0] |= (uint64_t)v[i];
        bits |= part[0] | part[1] | part[2] | part[3];
        if (bits >= SHORT_COUNTS)
            return false;
        for (i = start; i + LINE <= end; i += LINE) {
            __builtin_prefetch(v + i + BLOCK);
#pragma GCC unroll 8
            for (int k = 0; k < LINE; k++)
                now[v[i + k]]++;
        }
        for (; i < end; i++)
            now[v[i]]++;
        if (end % MOST == 0 || end == n) {
            for (uint64_t k = 0; k <= bits; k += LINE)
                for (int j = 0; j < LINE; j++)
                    counts[k + j] += now[k + j];
            memset(now, 0, sizeof *now * (bits + 1));
        }
    }
    for (int64_t k = (int64_t)bits; k >= 0 && *high < 0; k--)
        *high = counts[k] ? k : -1;
    return true;
}

/* result[k] = how many elements are k, or the sum of their weights. Without weights and with many elements count_short is
 * tried first; it stops at the first block with a large number, and the range and the counts are found in two passes
 * instead. */
td_tensor *td_op_bincount(td_tensor *self, td_tensor *weights, int64_t minlength)
{
    if (td_dtype_is_floating((td_dtype)self->dtype) || is_complex(self) || self->dtype == TD_BOOL)
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"bincount_cpu\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    if (minlength < 0)
        return td_fail(TD_E_RUNTIME, "minlength should be >= 0");
    if (self->ndim > 1 || (self->ndim == 0 && self->numel))
        return td_fail(TD_E_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
    bool weighted = weights != TD_NONE;
    if (weighted && (weights->ndim != 1 || weights->numel != self->numel))
        return td_fail(TD_E_RUNTIME, "weights should be 1-d and have the same length as input");
    weighted = weighted && self->numel;         /* of nothing there are counts, as in PyTorch */
    TD_AUTO td_tensor *x = td_as_contiguous(self, TD_I64);
    TD_AUTO td_tensor *w = weighted ? td_as_contiguous(weights, TD_F64) : td_tensor_retain(TD_NONE);
    if (!x || !w)
        return NULL;
    const int64_t *v = (const int64_t *)x->data;
    int64_t size = minlength, low = 0, high;
    uint32_t few[SHORT_COUNTS];
    const bool there = td_is_outside(self->device), counted = !there && !weighted && x->numel >= SHORT_COUNTS && count_short(v, x->numel, few, &high);
    if (there ? td_index_bounds(x, &low, &high) : !counted && (td_index_range(v, x->numel, &low, &high), false))
        return NULL;
    if (low < 0)
        return td_fail(TD_E_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
    size = high >= size ? td_add_saturated(high, 1) : size;
    if (there && !weighted)
        return td_count_on_device(x, size, NULL);
    if (there) {
        TD_AUTO td_tensor *sums = td_zeros(1, &size, TD_F64, self->device);
        const bool narrow = weights->dtype == TD_F32;
        return sums && !td_index_add_(sums, 0, x, w, td_int(1)) ? td_as_contiguous(sums, narrow ? TD_F32 : TD_F64) : NULL;
    }
    TD_AUTO td_tensor *out = td_tensor_new(1, &size, weighted ? TD_F64 : TD_I64, self->device);
    if (!out)
        return NULL;
    memset(out->data, 0, 8 * (size_t)size);
    double *sums = (double *)out->data;
    int64_t *counts = (int64_t *)out->data;
    for (int64_t i = 0; weighted && i < x->numel; i++)
        sums[v[i]] += ((const double *)w->data)[i];
    for (int64_t i = 0; !weighted && !counted && i < x->numel; i++)
        counts[v[i]]++;
    for (int64_t k = 0; counted && k <= high; k++)
        counts[k] = few[k];
    return weighted && weights->dtype == TD_F32 ? td_as_contiguous(out, TD_F32) : td_tensor_retain(out);
}
