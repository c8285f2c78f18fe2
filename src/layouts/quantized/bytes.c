/* Integers of 8 bits by their bytes: what an operator makes of one element is a table of 256, made by the operator itself of all integers there are;
 * means of what lies beside each other are sums of bytes. */
#include "calls_layouts_quantized_bytes.h"
#include "dispatch/outputs.h"
#include "layouts/quantized/bytes.h"
#include "layouts/quantized/loops.h"

#include <math.h>
#include <tede/kernel.h>

enum { BYTES = 256, MANY = 2048 };              /* elements from which a table is faster than what fills it */

static bool is_bytes(const td_tensor *x)
{
    return td_is_quantized(x) && (x->dtype == TD_QI8 || x->dtype == TD_QU8) && td_quantizer_of(x)->scheme == TD_PER_TENSOR_AFFINE && x->device.type == TD_CPU;
}
bool td_quantized_gains_by_table(const td_tensor *x) { return is_bytes(x) && x->numel >= MANY; }

td_tensor *td_quantized_every_integer(td_tensor *x)
{
    TD_AUTO td_tensor *bytes = td_tensor_new(1, (int64_t[]){BYTES}, td_integers_of(x->dtype), (td_device){TD_CPU, -1});
    for (int i = 0; bytes && i < BYTES; i++)
        ((uint8_t *)bytes->data)[i] = (uint8_t)i;
    return td_quantized_over(bytes, td_quantizer_of(x));
}

static int look_up(td_tensor *to, td_tensor *from, const uint8_t *table)
{
    const td_dtype dtypes[] = {(td_dtype)to->dtype, (td_dtype)from->dtype};
    return td_iterate(1, 1, (td_tensor *[]){to, from}, dtypes, td_affine_loops_here()->look_up, table, 1);
}

td_tensor *td_quantized_looked_up(td_tensor *x, td_tensor *table)
{
    TD_AUTO td_tensor *from = td_quantized_integers(x), *of = td_quantized_integers(table), *bytes = of ? td_make_contiguous(of) : NULL;
    TD_AUTO td_tensor *to = from && bytes ? td_empty_like(from, (td_dtype)bytes->dtype, TD_DEVICE_NONE, TD_PRESERVE_FORMAT) : NULL;
    return !to || look_up(to, from, (const uint8_t *)bytes->data) ? NULL : td_quantized_over(to, td_quantizer_of(table));
}

/* ---- the same as operators, for those that are written in Python */

td_tensor *td_op__every_integer(td_tensor *self) { return td_layout_refuse("_every_integer", self); }
td_tensor *td_quantized__every_integer(td_tensor *self)
{
    return is_bytes(self) ? td_quantized_every_integer(self) : td_fail(TD_E_RUNTIME, "_every_integer: expected integers of 8 bits, quantized per tensor");
}
td_tensor *td_op__look_up(td_tensor *self, td_tensor *table)
{
    (void)table;
    return td_layout_refuse("_look_up", self);
}
td_tensor *td_quantized__look_up(td_tensor *self, td_tensor *table)
{
    if (!is_bytes(self) || !is_bytes(table) || table->ndim != 1 || table->numel != BYTES)
        return td_fail(TD_E_RUNTIME, "_look_up: expected integers of 8 bits, quantized per tensor, and a table of %d of them", BYTES);
    return td_quantized_looked_up(self, table);
}

/* ---- joins */

/* The integers of `from` as those of `to`; with `sums` rounded once the zero point is added. */
static void fill_requantizing(const td_quantizer *from, const td_quantizer *to, int dtype, bool sums, uint8_t *table)
{
    const float scale = (float)from->scale, inverse = 1.f / (float)to->scale, zero = (float)to->zero_point;
    const float least = (float)td_quantized_least(dtype), most = (float)td_quantized_most(dtype);
    for (int i = 0; i < BYTES; i++) {
        const float q = dtype == TD_QI8 ? (float)(int8_t)i : (float)i, x = scale * (q - (float)from->zero_point) * inverse;
        const float near = sums ? rintf(x + zero) : rintf(x) + zero;
        table[i] = (uint8_t)(int)(near < least ? least : near < most ? near : most);        /* NaN goes with what is too large */
    }
}

/* x's integers, as q has them. */
static td_tensor *integers_by(td_tensor *x, const td_quantizer *q, bool sums)
{
    const td_quantizer *own = td_quantizer_of(x);
    if (td_quantizers_agree(own, q))
        return td_quantized_integers(x);
    if (x->dtype == TD_QI32) {
        TD_AUTO td_tensor *numbers = td_dequantize_self(x), *anew = numbers ? td_requantized_from(numbers, q, TD_QI32) : NULL;
        return td_quantized_integers(anew);
    }
    uint8_t table[BYTES];
    fill_requantizing(own, q, x->dtype, sums, table);
    TD_AUTO td_tensor *from = td_quantized_integers(x), *to = from ? td_empty_like(from, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_PRESERVE_FORMAT) : NULL;
    return !to || look_up(to, from, table) ? NULL : td_ref(to);
}

/* As the tensors lie: where all have their channels last, the dimensions are in that order while they are joined. */
td_tensor *td_quantized_joined(int64_t n, td_tensor *const *tensors, int64_t dim, const td_quantizer *q, bool sums)
{
    static const int64_t last[] = {0, 2, 3, 1}, first[] = {0, 3, 1, 2};
    enum { FEW = 64 };
    td_tensor *few[FEW] = {0}, **integers = n <= FEW ? few : td_mem_alloc(sizeof *integers * (size_t)n);
    int64_t done = 0;
    bool pixels = integers && dim >= -4 && dim < 4;
    for (int64_t i = 0; i < n && pixels; i++)
        pixels = tensors[i]->ndim == 4 && td_has_channels_last(tensors[i]);
    while (integers && done < n) {
        TD_AUTO td_tensor *whole = integers_by(tensors[done], q, sums);
        if (!(integers[done] = pixels ? td_permute(whole, 4, last) : td_ref(whole)))
            break;
        done++;
    }
    TD_AUTO td_tensor *joined = done < n ? NULL : td_cat(n, integers, pixels ? first[dim < 0 ? dim + 4 : dim] : dim);
    TD_AUTO td_tensor *made = joined && pixels ? td_permute(joined, 4, first) : td_ref(joined);
    for (int64_t i = 0; i < done; i++)
        td_tensor_release(integers[i]);
    if (integers && integers != few)
        td_mem_free(integers, sizeof *integers * (size_t)n);
    return td_quantized_over(made, q);
}

td_tensor *td_op__quantized_cat(int64_t n, td_tensor *const *tensors, int64_t dim, double scale, int64_t zero_point, bool sums)
{
    (void)dim, (void)scale, (void)zero_point, (void)sums;
    return n ? td_layout_refuse("_quantized_cat", tensors[0]) : td_fail(TD_E_RUNTIME, "_quantized_cat: expected a non-empty list of tensors");
}
td_tensor *td_quantized__quantized_cat(int64_t n, td_tensor *const *tensors, int64_t dim, double scale, int64_t zero_point, bool sums)
{
    for (int64_t i = 0; i < n; i++)
        if (!is_bytes(tensors[i]) || tensors[i]->dtype != tensors[0]->dtype)
            return td_fail(TD_E_RUNTIME, "Only per-tensor quantization is supported in 'cat'! (integers of 8 bits and of one dtype)");
    TD_AUTO_QUANTIZER td_quantizer *q = td_quantizer_per_tensor(scale, zero_point);
    return q ? td_quantized_joined(n, tensors, dim, q, sums) : NULL;
}

/* ---- means */

typedef struct means {
    int64_t  n;
    const uint8_t *x;
    uint8_t *y;
    int      row;
} means;

/* The nearest integer to the mean of integers, which have their zero point. */
static void some_means(void *context, int64_t first, int64_t last)
{
    const means *m = context;
    int64_t (*sum)(int64_t, const void *) = td_affine_loops_here()->sum[m->row];
    for (int64_t i = first; i < last; i++)
        m->y[i] = (uint8_t)(int)rintf((float)sum(m->n, m->x + i * m->n) / (float)m->n);
}

/* Means of the innermost of contiguous dimensions, `kept` of them are left; NULL without an error: they aren't these. */
static bool are_innermost(const td_tensor *x, int64_t n_dim, const int64_t *dim, int *kept)
{
    uint64_t set = 0;
    for (int64_t i = 0; i < n_dim; i++)
        if (dim[i] >= -x->ndim && dim[i] < x->ndim)
            set |= UINT64_C(1) << (dim[i] + (dim[i] < 0 ? x->ndim : 0));
    const int count = n_dim ? __builtin_popcountll(set) : x->ndim;
    *kept = x->ndim - count;
    bool inner = !n_dim || count == n_dim;
    for (int d = *kept; n_dim && d < x->ndim; d++)
        inner &= set >> d & 1;
    return inner;
}

td_tensor *td_quantized_mean_dims(td_tensor *self, int64_t n_dim, const int64_t *dim, bool keepdim, td_dtype dtype)
{
    int kept;
    if (!is_bytes(self) || !self->numel || !(self->flags & TD_FLAG_CONTIGUOUS) || (dtype != TD_DTYPE_NONE && dtype != (td_dtype)self->dtype) ||
        !are_innermost(self, n_dim, dim, &kept)) {
        TD_AUTO td_tensor *numbers = td_dequantize_self(self), *made = numbers ? td_mean_dims(numbers, n_dim, dim, keepdim, dtype) : NULL;
        return made && made->dtype == TD_F32 ? td_quantized_from(made, td_quantizer_of(self), (td_dtype)self->dtype) : td_ref(made);
    }
    int64_t sizes[TD_MAX_DIMS], count = 1;
    for (int d = 0; d < self->ndim; d++)
        sizes[d] = d < kept ? self->sizes[d] : 1, count *= sizes[d];
    TD_AUTO td_tensor *integers = td_quantized_integers(self);
    TD_AUTO td_tensor *to = integers ? td_tensor_new(keepdim ? self->ndim : kept, sizes, (td_dtype)integers->dtype, self->device) : NULL;
    if (!to)
        return NULL;
    means m = {self->numel / count, (const uint8_t *)integers->data, (uint8_t *)to->data, td_loops_row(integers->dtype)};
    td_parallel_for(0, count, (1 << 18) / m.n + 1, some_means, &m);
    return td_quantized_over(to, td_quantizer_of(self));
}
td_tensor *td_quantized_mean_all(td_tensor *self, td_dtype dtype) { return td_quantized_mean_dims(self, 0, NULL, false, dtype); }
