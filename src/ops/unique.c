/* What occurs, where and how often: unique, searchsorted, isin, histc, bincount. */

#include "calls_ops_unique.h"
#include "ops/index_kernels.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tede/kernel.h>
#include "ops/sort_kernels.h"
#include "ops/reduce.h"

enum { SHORT_COUNTS = 1 << 14 };

static bool is_complex(const td_tensor *x) { return td_dtype_is_complex((td_dtype)x->dtype); }
static td_tensor *new_i64(int ndim, const int64_t *sizes, td_device device)
{
    return td_tensor_new(ndim, sizes, TD_I64, device);
}

/* ---- unique elements: equal neighbours after sorting, or as they stand */

/* Which elements of n are not equal to the one before; NaN differ from each other. */
#define STARTS(T, expression)                               \
    for (int64_t i = 1; i < n; i++) {                       \
        const T a = ((const T *)data)[i - 1], b = ((const T *)data)[i]; \
        starts[i] = (expression);                           \
    }                                                       \
    break
static void find_starts(td_dtype dtype, const void *data, int64_t n, bool *starts)
{
    if (n)
        starts[0] = true;
    switch (dtype) {
    case TD_F64:  STARTS(double, a != b);
    case TD_F32:  STARTS(float, a != b);
    case TD_F16:  STARTS(td_f16, td_f16_to_f32(a) != td_f16_to_f32(b));
    case TD_BF16: STARTS(td_bf16, td_bf16_to_f32(a) != td_bf16_to_f32(b));
    default:
        switch (td_itemsizes[dtype]) {
        case 8: STARTS(int64_t, a != b);
        case 4: STARTS(int32_t, a != b);
        case 2: STARTS(int16_t, a != b);
        case 1: STARTS(int8_t, a != b);
        }
    }
}

/* From the end, so that of each group the first element stays; without a branch, for starts follow no pattern. */
#define PACK(T)                                             \
    for (int64_t i = n - 1; i >= 0; i--) {                  \
        ((T *)to)[groups - 1] = ((const T *)from)[i];       \
        groups -= starts[i];                                \
    }                                                       \
    break
static void pack_starts(int64_t item, const void *from, int64_t n, const bool *starts, int64_t groups, void *to)
{
    switch (item) {
    case 8: PACK(int64_t);
    case 4: PACK(int32_t);
    case 2: PACK(int16_t);
    case 1: PACK(int8_t);
    }
}

/* Three results from an order (NULL: as they stand) and where in it something new starts.  Single elements lie in that
 * order already (arranged). */
static int collect(td_tensor **results, td_tensor *items, int64_t n, const int64_t *order, const bool *starts,
                   bool arranged, int64_t block, int ndim, const int64_t *shape, td_tensor *inverse_like, bool inverse, bool counts)
{
    int64_t groups = 0, sizes[TD_MAX_DIMS];
    for (int64_t i = 0; i < n; i++)
        groups += starts[i];
    memcpy(sizes, shape, sizeof(int64_t) * ndim);
    sizes[0] = groups;
    int64_t zero = 0, item = td_itemsize(items) * block;
    results[0] = td_tensor_new(ndim, sizes, (td_dtype)items->dtype, items->device);
    results[1] = !inverse ? new_i64(1, &zero, items->device)
               : inverse_like ? new_i64(inverse_like->ndim, inverse_like->sizes, items->device) : new_i64(1, &n, items->device);
    results[2] = new_i64(1, counts ? &groups : &zero, items->device);
    if (!results[0] || !results[1] || !results[2]) {
        for (int k = 0; k < 3; k++)
            td_tensor_release(results[k]);
        return -1;
    }
    int64_t *to = (int64_t *)results[1]->data, *count = (int64_t *)results[2]->data, group = -1;
    if (counts)
        memset(count, 0, sizeof(int64_t) * (size_t)groups);
    if (arranged)
        pack_starts(item, items->data, n, starts, groups, results[0]->data);
    for (int64_t i = 0; i < n && (!arranged || inverse || counts); i++) {
        int64_t from = order ? order[i] : i;
        group += starts[i];
        if (starts[i] && !arranged)
            memcpy(results[0]->data + group * item, items->data + from * item, (size_t)item);
        if (inverse)
            to[from] = group;
        if (counts)
            count[group]++;
    }
    return 0;
}

/* Whole numbers that lie close together need no sorting: a table says for each that could be how often it is. */
static int unique_of_table(td_tensor **results, td_tensor *self, const int64_t *x, int64_t n, int64_t low, int64_t high,
                           bool inverse, bool counts)
{
    const int64_t span = high - low + 1;
    const size_t bytes = (size_t)span * sizeof(int64_t);
    int64_t *times = td_mem_alloc(bytes), groups = 0, zero = 0;
    if (!times)
        return -1;
    memset(times, 0, bytes);
    for (int64_t i = 0; i < n; i++)
        times[x[i] - low]++;
    for (int64_t k = 0; k < span; k++)
        groups += times[k] != 0;
    results[0] = td_tensor_new(1, &groups, (td_dtype)self->dtype, self->device);
    results[1] = inverse ? new_i64(self->ndim, self->sizes, self->device) : new_i64(1, &zero, self->device);
    results[2] = new_i64(1, counts ? &groups : &zero, self->device);
    int status = results[0] && results[1] && results[2] ? 0 : -1;
    for (int64_t k = 0, group = 0; k < span && !status; k++) {
        if (!times[k])
            continue;
        int64_t value = low + k;
        td_convert((td_dtype)self->dtype, results[0]->data + group * td_itemsize(self), td_itemsize(self), TD_I64, &value, 8, 1);
        if (counts)
            ((int64_t *)results[2]->data)[group] = times[k];
        times[k] = group++;     /* from here on: which it is */
    }
    for (int64_t i = 0; inverse && i < n && !status; i++)
        ((int64_t *)results[1]->data)[i] = times[x[i] - low];
    td_mem_free(times, bytes);
    for (int k = 0; k < 3 && status; k++)
        td_tensor_release(results[k]);
    return status;
}

static int unique_flat(td_tensor **results, td_tensor *self, bool sort, bool inverse, bool counts)
{
    if (is_complex(self))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"unique\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    TD_AUTO td_tensor *items = td_make_contiguous(self);
    int64_t low = 0, high = INT64_MAX;
    if (sort && items && items->dtype == TD_I64 && items->numel) {
        td_index_range((const int64_t *)items->data, items->numel, &low, &high);
        if ((uint64_t)high - (uint64_t)low < (uint64_t)items->numel)
            return unique_of_table(results, self, (const int64_t *)items->data, items->numel, low, high, inverse, counts);
    }
    TD_AUTO td_tensor *x = sort && items ? td_tensor_new(1, &items->numel, (td_dtype)items->dtype, items->device)
                                         : td_tensor_retain(items);
    if (!x)
        return -1;
    int64_t n = x->numel;
    size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *order = td_mem_alloc(bytes);
    bool *starts = order ? td_mem_alloc((size_t)n) : NULL;
    int status = -1;
    td_sorter s;
    if (!starts)
        goto done;
    if (sort) {
        if (td_sorter_make(&s, (td_dtype)x->dtype, n, false))
            goto done;
        td_sorter_sort(&s, items->data, x->data, order);
        td_sorter_free(&s);
    }
    find_starts((td_dtype)x->dtype, x->data, n, starts);
    status = collect(results, x, n, sort ? order : NULL, starts, true, 1, 1, &n, self, inverse, counts);
done:
    td_mem_free(starts, (size_t)n);
    td_mem_free(order, bytes);
    return status;
}

int td_op__unique2(td_tensor **results, td_tensor *self, bool sorted, bool return_inverse, bool return_counts)
{
    (void)sorted;
    return unique_flat(results, self, true, return_inverse, return_counts);
}
int td_op__unique(td_tensor **results, td_tensor *self, bool sorted, bool return_inverse)
{
    (void)sorted;
    td_tensor *three[3];
    if (unique_flat(three, self, true, return_inverse, false))
        return -1;
    td_tensor_release(three[2]);
    results[0] = three[0], results[1] = three[1];
    return 0;
}

/* ---- unique slices */

typedef struct slices { const char *data; int64_t block, item; td_dtype dtype; } slices;

static int compare_slices(const void *a, const void *b, void *context)
{
    const slices *s = context;
    int64_t i = *(const int64_t *)a, j = *(const int64_t *)b;
    const char *p = s->data + i * s->block * s->item, *q = s->data + j * s->block * s->item;
    for (int64_t k = 0; k < s->block; k++, p += s->item, q += s->item) {
        if (s->dtype == TD_I64 || s->dtype == TD_F64) {
            double u = s->dtype == TD_F64 ? *(const double *)p : 0, v = s->dtype == TD_F64 ? *(const double *)q : 0;
            int64_t x = s->dtype == TD_I64 ? *(const int64_t *)p : 0, y = s->dtype == TD_I64 ? *(const int64_t *)q : 0;
            if (u < v || x < y)
                return -1;
            if (u > v || x > y)
                return 1;
        }
    }
    return 0;
}

static int unique_slices(td_tensor **results, td_tensor *self, int64_t dim, bool sort, bool inverse, bool counts)
{
    int d = td_wrap_dim(dim, self->ndim);
    if (d < 0)
        return -1;
    if (self->ndim == 0 || is_complex(self))
        return unique_flat(results, self, sort, inverse, counts);
    int64_t to_front[TD_MAX_DIMS], back[TD_MAX_DIMS];
    for (int k = 0; k < self->ndim; k++)
        to_front[k] = k == 0 ? d : k <= d ? k - 1 : k, back[to_front[k]] = k;
    TD_AUTO td_tensor *front = td_permute(self, self->ndim, to_front);
    TD_AUTO td_tensor *x = front ? td_make_contiguous(front) : NULL;
    TD_AUTO td_tensor *keys = x ? td_as_contiguous(x, td_dtype_is_floating((td_dtype)x->dtype) ? TD_F64 : TD_I64) : NULL;
    if (!keys)
        return -1;
    int64_t n = x->sizes[0], block = n ? x->numel / n : 0;
    int empty = 0;
    for (int d = 0; d < x->ndim; d++)
        empty += x->sizes[d] == 0;
    if (empty > 1)
        return td_error(TD_E_RUNTIME, "Number of zero sized dimensions is more than one, so unique cannot be applied ");
    if (n && block == 0)
        return td_error(TD_E_RUNTIME, "There are 0 sized dimensions, and they aren't selected, so unique cannot be applied");
    slices s = {keys->data, block, 8, (td_dtype)keys->dtype};
    size_t bytes = (size_t)n * sizeof(int64_t);
    int64_t *order = td_mem_alloc(bytes);
    bool *starts = order ? td_mem_alloc((size_t)n) : NULL;
    int status = -1;
    if (starts) {
        for (int64_t i = 0; i < n; i++)
            order[i] = i;
        if (sort)
            qsort_r(order, (size_t)n, sizeof *order, compare_slices, &s);
        for (int64_t i = 0; i < n; i++)
            starts[i] = i == 0 || compare_slices(&order[i], &order[i - 1], &s) != 0;
        td_tensor *three[3];
        status = collect(three, x, n, order, starts, false, block, x->ndim, x->sizes, NULL, inverse, counts);
        if (status == 0) {
            TD_AUTO td_tensor *found = three[0];
            results[0] = td_permute(found, self->ndim, back);
            results[1] = three[1], results[2] = three[2];
            if (!results[0]) {
                td_tensor_release(results[1]);
                td_tensor_release(results[2]);
                status = -1;
            }
        }
    }
    td_mem_free(starts, (size_t)n);
    td_mem_free(order, bytes);
    return status;
}

int td_op_unique_dim(td_tensor **results, td_tensor *self, int64_t dim, bool sorted, bool return_inverse, bool return_counts)
{
    (void)sorted;
    return unique_slices(results, self, dim, true, return_inverse, return_counts);
}
int td_op_unique_dim_consecutive(td_tensor **results, td_tensor *self, int64_t dim, bool return_inverse, bool return_counts)
{
    return unique_slices(results, self, dim, false, return_inverse, return_counts);
}
int td_op_unique_consecutive(td_tensor **results, td_tensor *self, bool return_inverse, bool return_counts, const int64_t *dim)
{
    return dim ? unique_slices(results, self, *dim, false, return_inverse, return_counts)
               : unique_flat(results, self, false, return_inverse, return_counts);
}

/* ---- searching */

static td_dtype search_dtype(td_dtype dtype) { return td_dtype_is_floating(dtype) ? TD_F64 : TD_I64; }

/* The first places whose elements aren't before the x (or, to the right, are after them), as bisection finds them, also where
 * there are NaN, which nothing is before.  No branch depends on an element, for nothing foresees one; TOGETHER numbers look at
 * once, so that none waits for another's element. */
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

static td_tensor *searched(td_tensor *sequence, td_tensor *values, td_tensor *sorter, bool right, bool out_int32)
{
    td_dtype kind = search_dtype((td_dtype)sequence->dtype);
    if (values->device.type == TD_META)
        return td_tensor_new(values->ndim, values->sizes, out_int32 ? TD_I32 : TD_I64, values->device);
    TD_AUTO td_tensor *s = kind == TD_I64 ? td_ordered_int64(sequence) : td_as_contiguous(sequence, kind);
    TD_AUTO td_tensor *v = kind == TD_I64 ? td_ordered_int64(values) : td_as_contiguous(values, kind);
    TD_AUTO td_tensor *order = sorter == TD_NONE ? td_tensor_retain(TD_NONE) : td_as_contiguous(sorter, TD_I64);
    TD_AUTO td_tensor *out = s && v && order ? new_i64(values->ndim, values->sizes, values->device) : NULL;
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
    if (is_complex(seq))
        return td_fail(TD_E_RUNTIME, "torch.searchsorted(): complex numbers have no order");
    if (seq->ndim == 0)
        return td_fail(TD_E_RUNTIME, "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is "
                       "1, but we got boundaries tensor dim(0) and input value's dim(%d) numel(%" PRId64 ")", self->ndim, self->numel);
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
    return searched(seq, self, sorter, right || (side && !strcmp(side, "right")), out_int32);
}

/* A number, on meta if x is. */
static td_tensor *beside(const td_tensor *x, td_tensor *number)
{
    return number && x->device.type == TD_META ? td_tensor_new(0, NULL, (td_dtype)number->dtype, x->device) : td_tensor_retain(number);
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

td_tensor *td_op_isin_tensor_tensor(td_tensor *elements, td_tensor *test_elements, bool assume_unique, bool invert)
{
    (void)assume_unique;
    td_dtype common = td_promote_types((td_dtype)elements->dtype, (td_dtype)test_elements->dtype);
    if (common == TD_DTYPE_NONE)
        return NULL;
    if (td_dtype_is_complex(common))
        return td_fail(TD_E_RUNTIME, "isin: complex numbers aren't supported");
    td_dtype kind = search_dtype(common);
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
    int64_t n = known->numel;
    while (kind == TD_F64 && n > 0 && isnan(((const double *)known->data)[n - 1]))      /* equal to nothing, and last */
        n--;
    membership work = {kind, known->data, x->data, n, invert, (uint8_t *)out->data};
    td_parallel_for(0, x->numel, 1024, are_members, &work);
    return out;
}
td_tensor *td_op_isin_tensor_scalar(td_tensor *elements, td_scalar test_element, bool assume_unique, bool invert)
{
    TD_AUTO td_tensor *made = td_tensor_from_scalar(test_element), *number = beside(elements, made);
    return number ? td_op_isin_tensor_tensor(elements, number, assume_unique, invert) : NULL;
}
td_tensor *td_op_isin_scalar_tensor(td_scalar element, td_tensor *test_elements, bool assume_unique, bool invert)
{
    TD_AUTO td_tensor *made = td_tensor_from_scalar(element), *number = beside(test_elements, made);
    return number ? td_op_isin_tensor_tensor(number, test_elements, assume_unique, invert) : NULL;
}

/* ---- counting */

td_tensor *td_op_histc(td_tensor *self, int64_t bins, td_scalar min, td_scalar max)
{
    if (bins <= 0)
        return td_fail(TD_E_RUNTIME, "bins must be > 0");
    if (is_complex(self) || self->dtype == TD_BOOL)
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"histogram_cpu\" not implemented for '%s'", td_dtype_title((td_dtype)self->dtype));
    double low = td_scalar_double(min), high = td_scalar_double(max);
    if (self->device.type == TD_META)
        return td_tensor_new(1, &bins, (td_dtype)self->dtype, self->device);
    if (low > high)
        return td_fail(TD_E_RUNTIME, "torch.histc(): max must be larger than min");
    TD_AUTO td_tensor *x = td_as_contiguous(self, TD_F64);
    TD_AUTO td_tensor *count = new_i64(1, &bins, self->device);
    if (!x || !count)
        return NULL;
    const double *v = (const double *)x->data;
    if (low == high && x->numel) {
        low = high = v[0];
        for (int64_t i = 0; i < x->numel; i++)
            low = v[i] < low ? v[i] : low, high = v[i] > high ? v[i] : high;
    }
    if (low == high)
        low -= 1, high += 1;
    if (!isfinite(low) || !isfinite(high))
        return td_fail(TD_E_RUNTIME, "torch.histc(): range of [%g, %g] is not finite", low, high);
    int64_t *to = (int64_t *)count->data;
    memset(to, 0, sizeof(int64_t) * (size_t)bins);
    for (int64_t i = 0; i < x->numel; i++) {
        if (!(v[i] >= low && v[i] <= high))
            continue;
        int64_t at = (int64_t)((v[i] - low) / (high - low) * (double)bins);
        to[at < bins ? at : bins - 1]++;
    }
    return td_as_contiguous(count, (td_dtype)self->dtype);
}

/* Counts of up to 2^14 different numbers have room in the first cache if they are short, 16 bits for as many as these can
 * count; and while they do, one walk over the numbers is enough to find their range and to count them.  A block's numbers
 * are fetched while those of the one before are counted.  False, with nothing said, where that isn't so. */
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
    TD_AUTO td_tensor *x = td_as_contiguous(self, TD_I64);
    TD_AUTO td_tensor *w = weighted ? td_as_contiguous(weights, TD_F64) : td_tensor_retain(TD_NONE);
    if (!x || !w)
        return NULL;
    const int64_t *v = (const int64_t *)x->data;
    int64_t size = minlength, low = 0, high;
    uint32_t few[SHORT_COUNTS];
    const bool counted = !weighted && x->numel >= SHORT_COUNTS && count_short(v, x->numel, few, &high);
    if (!counted)
        td_index_range(v, x->numel, &low, &high);
    if (low < 0)
        return td_fail(TD_E_RUNTIME, "bincount only supports 1-d non-negative integral inputs.");
    size = high >= size ? high + 1 : size;
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
