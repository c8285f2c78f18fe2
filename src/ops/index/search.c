/* Binary search: where values stand in a sorted sequence (searchsorted, bucketize), and whether they are among given ones
 * (isin), which are sorted for that.
 *
 * All dtypes are searched as double or int64, two instances of one loop: the conversions from narrower dtypes are exact and
 * keep the order, and td_ordered_int64 does it for uint64. Values are independent of each other, so threads share them and
 * results don't depend on how many there are. */

#include "calls_ops_index_search.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <tede/auto.h>
#include <tede/kernel.h>
#include "base/warn.h"
#include "ops/index/sort_kernels.h"
#include "tensor/tensor.h"

static bool is_complex(const td_tensor *x) { return td_dtype_is_complex((td_dtype)x->dtype); }

static td_dtype search_dtype(td_dtype dtype) { return td_dtype_is_floating(dtype) ? TD_F64 : TD_I64; }

/* For each of `count` values x, the first position whose element isn't before x (or, to the right, is after x), as bisection
 * finds it, also where there are NaN, which nothing is before. No branch depends on an element, for nothing foresees one:
 * conditions become masks of all bits or none, and a search that is finished (open = 0) reads position 0 and stays. n is
 * halved until it is 0, which are as many steps as the longest search takes. What bounds this is the latency of the loads;
 * TOGETHER searches run side by side, so that none waits for another's element. */
enum { TOGETHER = 16 };
#define SEARCH(T)                                                                                                     \
    static inline __attribute__((always_inline)) void bisect_##T(const T *sorted, const int64_t *sorter, int64_t n, const T *x, \
                                                                 int count, const bool right, int64_t *low)           \
    {                                                                                                                 \
        int64_t high[TOGETHER];                                                                                       \
        for (int i = 0; i < count; i++)                                                                               \
            low[i] = 0, high[i] = n;                                                                                  \
        for (int64_t rest = n; rest > 0; rest /= 2)                                                                   \
            for (int i = 0; i < count; i++) {                                                                         \
                const int64_t open = -(int64_t)(low[i] < high[i]), middle = (low[i] + high[i]) >> 1 & open;           \
                const T at = sorted[sorter ? sorter[middle] : middle];                                                \
                const int64_t before = -(int64_t)(right ? !(at > x[i]) : !(at >= x[i]));                              \
                low[i] += (middle + 1 - low[i]) & open & before;                                                      \
                high[i] += (middle - high[i]) & open & ~before;                                                       \
            }                                                                                                         \
    }                                                                                                                 \
    static void search_##T(const T *sorted, const int64_t *sorter, int64_t n, const T *x, int count, bool right, int64_t *to) \
    {                                                                                                                 \
        if (sorter)                                                                                                   \
            bisect_##T(sorted, sorter, n, x, count, right, to);                                                       \
        else if (right)                                                                                               \
            bisect_##T(sorted, NULL, n, x, count, true, to);                                                          \
        else                                                                                                          \
            bisect_##T(sorted, NULL, n, x, count, false, to);                                                         \
    }
SEARCH(double)
SEARCH(int64_t)

typedef struct lookup {
    td_dtype kind;
    const void *sorted, *values;
    const int64_t *sorter;
    int64_t n, per;         /* elements of a sorted row, values that it is searched for */
    bool right;
    int64_t *to;
} lookup;

/* Values [from, to), in runs of at most TOGETHER that lie in one row. A sequence of one dimension serves all values: then
 * `per` is their number, and the row is always 0. */
static void look_up(void *context, int64_t from, int64_t to)
{
    const lookup *w = context;
    for (int64_t i = from, m; i < to; i += m) {
        const int64_t row = i / w->per * w->n, left = w->per - i % w->per;
        m = to - i < left ? to - i : left;
        m = m < TOGETHER ? m : TOGETHER;
        const int64_t *order = w->sorter ? w->sorter + row : NULL;
        if (w->kind == TD_F64)
            search_double((const double *)w->sorted + row, order, w->n, (const double *)w->values + i, (int)m, w->right, w->to + i);
        else
            search_int64_t((const int64_t *)w->sorted + row, order, w->n, (const int64_t *)w->values + i, (int)m, w->right, w->to + i);
    }
}

/* The sorter's elements are checked here, before the loop reads through them. The search yields int64; out_int32 converts
 * it at the end. */
static td_tensor *searched(td_tensor *sequence, td_tensor *values, td_tensor *sorter, bool right, bool out_int32)
{
    td_dtype kind = search_dtype((td_dtype)sequence->dtype);
    if (sorter != TD_NONE && sorter->dtype != TD_I64)
        return td_fail(TD_E_RUNTIME, "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype %s",
                       td_dtype_title((td_dtype)sorter->dtype));
    if (values->device.type == TD_META)
        return td_tensor_new(values->ndim, values->sizes, out_int32 ? TD_I32 : TD_I64, values->device);
    if (values->device.type != TD_CPU)
        return td_places_on_device(sequence, values, sorter, right, out_int32 ? TD_I32 : TD_I64);
    TD_AUTO td_tensor *s = kind == TD_I64 ? td_ordered_int64(sequence) : td_as_contiguous(sequence, kind);
    TD_AUTO td_tensor *v = kind == TD_I64 ? td_ordered_int64(values) : td_as_contiguous(values, kind);
    TD_AUTO td_tensor *order = sorter == TD_NONE ? td_tensor_retain(TD_NONE) : td_as_contiguous(sorter, TD_I64);
    TD_AUTO td_tensor *out = s && v && order ? td_tensor_new(values->ndim, values->sizes, TD_I64, values->device) : NULL;
    if (!out)
        return NULL;
    int64_t n = s->ndim ? s->sizes[s->ndim - 1] : 1, per = s->ndim > 1 ? (v->ndim ? v->sizes[v->ndim - 1] : 1) : v->numel;
    if (order != TD_NONE)
        for (int64_t i = 0; i < order->numel; i++)
            if (((const int64_t *)order->data)[i] < 0 || ((const int64_t *)order->data)[i] >= n)
                return td_fail(TD_E_RUNTIME, "torch.searchsorted(): sorter index out of range");
    lookup work = {kind, s->data, v->data, order == TD_NONE ? NULL : (const int64_t *)order->data, n, s->ndim > 1 ? per : v->numel, right,
                   (int64_t *)out->data};
    td_parallel_for(0, v->numel, 1024, look_up, &work);
    return out_int32 ? td_as_contiguous(out, TD_I32) : td_tensor_retain(out);
}

static int warn_of_copy(const char *what, const td_tensor *x)
{
    if (x->flags & TD_FLAG_CONTIGUOUS)
        return 0;
    return TD_WARN_ONCE("torch.searchsorted(): %s tensor is non-contiguous, this will lower the performance due to extra data copy when "
                   "converting non-contiguous tensor to contiguous, please use contiguous %s tensor if possible. This message will "
                   "only appear once per program.", what, what);
}

/* result[..., i] = where self[..., i] would be inserted into sorted_sequence[...] to keep it sorted: before equal elements,
 * or behind them (right). That the sequence is sorted isn't checked, as in PyTorch. A sorter holds the indices that would
 * sort it. */
td_tensor *td_op_searchsorted_tensor(td_tensor *sorted_sequence, td_tensor *self, bool out_int32, bool right, const char *side,
                                     td_tensor *sorter)
{
    td_tensor *seq = sorted_sequence;
    if (side && strcmp(side, "left") && strcmp(side, "right"))
        return td_fail(TD_E_RUNTIME, "torch.searchsorted(): side can only be 'left' or 'right' but got %s", side);
    if (side && right && !strcmp(side, "left"))
        return td_fail(TD_E_RUNTIME, "torch.searchsorted(): side and right can't be set to opposites, got side of left while "
                       "right was True");
    if (seq->dtype != self->dtype) {
        /* Values between the boundaries' own numbers (1.5 among integers) must not be rounded to one of them. */
        td_dtype both = td_result_type(2, (td_tensor *const[]){seq, self});
        if (both == TD_DTYPE_NONE)
            return NULL;
        TD_AUTO td_tensor *s = td_to(seq, both), *v = td_to(self, both);
        return s && v ? td_op_searchsorted_tensor(s, v, out_int32, right, side, sorter) : NULL;
    }
    if (self->ndim == 0 && seq->ndim != 1)
        return td_fail(TD_E_RUNTIME, "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is "
                       "1, but we got boundaries tensor dim(%d) and input value's dim(0) numel(1)", seq->ndim);
    if (seq->ndim == 0)
        return td_fail(TD_E_RUNTIME, "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension");
    bool fits = seq->ndim == 1 || seq->ndim == self->ndim;
    for (int d = 0; fits && seq->ndim > 1 && d + 1 < seq->ndim; d++)
        fits = seq->sizes[d] == self->sizes[d];
    td_shape_text a, b;
    if (!fits)
        return td_fail(TD_E_RUNTIME, "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
                       "boundaries tensor and input value tensor must match, but we got boundaries tensor %s and input value "
                       "tensor %s", td_shape_str(seq->ndim, seq->sizes, a), td_shape_str(self->ndim, self->sizes, b));
    if (sorter != TD_NONE && (sorter->ndim != seq->ndim || memcmp(sorter->sizes, seq->sizes, sizeof(int64_t) * seq->ndim)))
        return td_fail(TD_E_RUNTIME, "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
                       "%s and got sorter tensor %s", td_shape_str(seq->ndim, seq->sizes, a),
                       td_shape_str(sorter->ndim, sorter->sizes, b));
    if (self->numel && (seq->dtype == TD_BOOL || is_complex(seq)))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"searchsorted_out_cpu\" not implemented for '%s'", td_dtype_title((td_dtype)seq->dtype));
    if (warn_of_copy("input value", self) || warn_of_copy("boundary", seq) || (sorter != TD_NONE && warn_of_copy("sorter", sorter)))
        return NULL;
    return searched(seq, self, sorter, right || (side && !strcmp(side, "right")), out_int32);
}

/* A number where x is. */
static td_tensor *beside(const td_tensor *x, td_tensor *number)
{
    if (!number || x->device.type == TD_CPU)
        return td_tensor_retain(number);
    TD_AUTO td_tensor *there = td_tensor_new(0, NULL, (td_dtype)number->dtype, x->device);
    return !there || (x->device.type != TD_META && td_copy_elements(there, number)) ? NULL : td_tensor_retain(there);
}
td_tensor *td_op_searchsorted_scalar(td_tensor *sorted_sequence, td_scalar self, bool out_int32, bool right, const char *side,
                                     td_tensor *sorter)
{
    TD_AUTO td_tensor *made = td_wrapped_number(self), *number = beside(sorted_sequence, made);
    return number ? td_op_searchsorted_tensor(sorted_sequence, number, out_int32, right, side, sorter) : NULL;
}
td_tensor *td_op_bucketize_tensor(td_tensor *self, td_tensor *boundaries, bool out_int32, bool right)
{
    if (boundaries->ndim != 1)
        return td_fail(TD_E_RUNTIME, "boundaries tensor must be 1 dimension, but got dim(%d)", boundaries->ndim);
    return td_op_searchsorted_tensor(boundaries, self, out_int32, right, NULL, TD_NONE);
}
td_tensor *td_op_bucketize_scalar(td_scalar self, td_tensor *boundaries, bool out_int32, bool right)
{
    TD_AUTO td_tensor *made = td_wrapped_number(self), *number = beside(boundaries, made);
    return number ? td_op_bucketize_tensor(number, boundaries, out_int32, right) : NULL;
}

/* ---- membership */

typedef struct membership { td_dtype kind; const void *known, *values; int64_t n; bool invert; uint8_t *to; } membership;

/* An element is known if the first position that isn't before it holds an equal one. -0 equals 0; NaN equals nothing, and
 * those at the end of `known` are left out of n. */
#define MEMBERS(T)                                                                                        \
    {                                                                                                     \
        const T *known = w->known, *x = (const T *)w->values + i;                                         \
        search_##T(known, NULL, w->n, x, m, false, places);                                               \
        for (int k = 0; k < m; k++)                                                                       \
            w->to[i + k] = (places[k] < w->n && known[places[k]] == x[k]) != w->invert;                   \
    }
static void are_members(void *context, int64_t from, int64_t to)
{
    const membership *w = context;
    int64_t places[TOGETHER];
    for (int64_t i = from; i < to; i += TOGETHER) {
        const int m = to - i < TOGETHER ? (int)(to - i) : TOGETHER;
        if (w->kind == TD_F64)
            MEMBERS(double)
        else
            MEMBERS(int64_t)
    }
}

/* O((n + m) log m) for n elements and m known ones. assume_unique would permit PyTorch another algorithm and changes no
 * result. */
td_tensor *td_op_isin_tensor_tensor(td_tensor *elements, td_tensor *test_elements, bool assume_unique, bool invert)
{
    (void)assume_unique;
    td_dtype common = td_promote_types((td_dtype)elements->dtype, (td_dtype)test_elements->dtype);
    if (common == TD_DTYPE_NONE)
        return NULL;
    if (td_dtype_is_complex(common))
        return td_fail(TD_E_RUNTIME, "isin: complex numbers aren't supported");
    if (elements->device.type != test_elements->device.type && (elements->device.type == TD_META || test_elements->device.type == TD_META))
        return td_fail(TD_E_RUNTIME, "isin: Expected all tensors to be on the same device, but found at least two devices, cpu and meta!");
    const bool far = elements->device.type != TD_CPU;
    td_dtype kind = far ? common : search_dtype(common);        /* a device compares as what they are */
    if (elements->device.type == TD_META)
        return td_tensor_new(elements->ndim, elements->sizes, TD_BOOL, elements->device);
    TD_AUTO td_tensor *x = td_as_contiguous(elements, kind), *known = NULL;
    TD_AUTO td_tensor *flat = td_reshape(test_elements, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *test = flat ? td_as_contiguous(flat, kind) : NULL;
    td_tensor *pair[2];
    td_tensor *out = td_tensor_new(elements->ndim, elements->sizes, TD_BOOL, elements->device);
    if (!x || !test || !out || td_sort_dim(pair, test, 0, false)) {
        td_tensor_release(out);
        return NULL;
    }
    known = pair[0];
    td_tensor_release(pair[1]);
    if (far) {
        td_tensor_release(out);
        return td_members_on_device(known, x, invert);
    }
    int64_t n = known->numel;
    while (kind == TD_F64 && n > 0 && isnan(((const double *)known->data)[n - 1]))      /* equal to nothing, and last */
        n--;
    membership work = {kind, known->data, x->data, n, invert, (uint8_t *)out->data};
    td_parallel_for(0, x->numel, 1024, are_members, &work);
    return out;
}
/* A number as it is in x's dtype if that is a float: to float64's elements it isn't what it is in float32. */
static td_tensor *promoted(td_tensor *x, td_scalar value)
{
    if (value.kind == TD_SCALAR_BOOL)
        return td_fail(TD_E_RUNTIME, "Unsupported input type encountered for isin(): Bool");
    if (value.kind != TD_SCALAR_FLOAT && x->dtype != TD_U64)
        return td_tensor_from_scalar(value);
    TD_AUTO td_tensor *wrapped = td_wrapped_number(value);
    td_dtype dtype = wrapped ? td_result_type(2, (td_tensor *[]){x, wrapped}) : TD_DTYPE_NONE;
    return dtype == TD_DTYPE_NONE ? NULL : td_as_contiguous(wrapped, dtype);
}
/* Unsigned numbers and a whole one of any sign meet in int64, which holds them all but uint64's upper half. */
static td_tensor *beside_whole(td_tensor *x, td_scalar value)
{
    bool meets = (x->dtype == TD_U16 || x->dtype == TD_U32 || (x->dtype == TD_U64 && value.i < 0)) && value.kind == TD_SCALAR_INT;
    if (!meets || x->dtype != TD_U64)
        return meets ? td_to(x, TD_I64) : td_tensor_retain(x);
    TD_AUTO td_tensor *low = td_clamp_max(x, td_int(INT64_MAX));       /* nothing here is below 0 either */
    return td_to(low, TD_I64);
}
td_tensor *td_op_isin_tensor_scalar(td_tensor *elements, td_scalar test_element, bool assume_unique, bool invert)
{
    TD_AUTO td_tensor *x = beside_whole(elements, test_element), *made = x ? promoted(x, test_element) : NULL;
    TD_AUTO td_tensor *number = made ? beside(x, made) : NULL;
    return number ? td_op_isin_tensor_tensor(x, number, assume_unique, invert) : NULL;
}
td_tensor *td_op_isin_scalar_tensor(td_scalar element, td_tensor *test_elements, bool assume_unique, bool invert)
{
    TD_AUTO td_tensor *x = beside_whole(test_elements, element), *made = x ? promoted(x, element) : NULL;
    TD_AUTO td_tensor *number = made ? beside(x, made) : NULL;
    return number ? td_op_isin_tensor_tensor(number, x, assume_unique, invert) : NULL;
}
