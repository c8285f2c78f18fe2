/* Runs every pointwise (elementwise) operator: type promotion, broadcasting, the output's memory format, in-place and out=.
 *
 * Three paths, fastest first.  Operands of one dtype and shape, contiguous, on the CPU: one allocation, one call of
 * the loop.  Anything else on the CPU: promotion, broadcasting, an output in the operands' order of dimensions, and the
 * iterator.  On meta: all of that but the iterator. */
#include "base/warn.h"
#include "ops/index/index.h"
#include "ops/iterate/strides.h"
#include "ops/pointwise/pointwise.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/names.h"
#include "base/watch.h"
#include "dispatch/op.h"
#include "dispatch/spec.h"
#include "ops/iterate/iterator.h"
#include "tensor/device.h"
#include "tensor/checked.h"
#include "tensor/recorded.h"

/* In which column a dtype is computed: see Note [Compute dtypes]. */
static const int8_t column_of[TD_DTYPES] = {
    [TD_BOOL] = TD_LOOP_BOOL, [TD_U8] = TD_LOOP_I32, [TD_I8] = TD_LOOP_I32, [TD_I16] = TD_LOOP_I32, [TD_U16] = TD_LOOP_I32,
    [TD_I32] = TD_LOOP_I32, [TD_I64] = TD_LOOP_I64, [TD_U32] = TD_LOOP_I64, [TD_U64] = TD_LOOP_U64,
    [TD_F16] = TD_LOOP_F32, [TD_BF16] = TD_LOOP_F32, [TD_F32] = TD_LOOP_F32, [TD_F64] = TD_LOOP_F64,
    [TD_C64] = TD_LOOP_C64, [TD_C128] = TD_LOOP_C128, [TD_C32] = TD_LOOP_C64,
    [TD_F8_E4M3FN ... TD_F8_E8M0FNU] = TD_LOOP_F32, [TD_DTYPE_A ... TD_DTYPE_D] = TD_LOOP_F32,
};
static const int8_t dtype_of_column[TD_LOOPS] = {
    [TD_LOOP_F32] = TD_F32, [TD_LOOP_F64] = TD_F64, [TD_LOOP_C64] = TD_C64, [TD_LOOP_C128] = TD_C128,
    [TD_LOOP_I32] = TD_I32, [TD_LOOP_I64] = TD_I64, [TD_LOOP_U64] = TD_U64, [TD_LOOP_BOOL] = TD_I32,
    [TD_LOOP_BF16] = TD_BF16, [TD_LOOP_F16] = TD_F16, [TD_LOOP_U8] = TD_U8, [TD_LOOP_I8] = TD_I8, [TD_LOOP_I16] = TD_I16, [TD_LOOP_B8] = TD_BOOL,
};
/* In which one it would be computed without any conversion. */
static const int8_t own_column_of[TD_DTYPES] = {
    [TD_BOOL] = TD_LOOP_B8, [TD_U8] = TD_LOOP_U8, [TD_I8] = TD_LOOP_I8, [TD_I16] = TD_LOOP_I16, [TD_U16] = TD_LOOP_I32,
    [TD_I32] = TD_LOOP_I32, [TD_I64] = TD_LOOP_I64, [TD_U32] = TD_LOOP_I64, [TD_U64] = TD_LOOP_U64,
    [TD_F16] = TD_LOOP_F16, [TD_BF16] = TD_LOOP_BF16, [TD_F32] = TD_LOOP_F32, [TD_F64] = TD_LOOP_F64,
    [TD_C64] = TD_LOOP_C64, [TD_C128] = TD_LOOP_C128, [TD_C32] = TD_LOOP_C64,
    [TD_F8_E4M3FN ... TD_F8_E8M0FNU] = TD_LOOP_F32, [TD_DTYPE_A ... TD_DTYPE_D] = TD_LOOP_F32,
};

/* The first time, or while events are watched.  td_isa_now stays unset during watching, so that each loop comes through here and is
 * reported; else it keeps the instruction set, and loop_of is two loads. */
static td_loop *__attribute__((noinline)) ask_for_loop(const td_pointwise *op, int column)
{
    td_isa isa = td_cpu_isa();
    td_loop *loop = op->rows[isa]->loops[column];
    if (!__atomic_load_n(&td_watched_threads, __ATOMIC_RELAXED) && !__atomic_load_n(&td_region_threads, __ATOMIC_RELAXED))
        __atomic_store_n(&td_isa_now, isa, __ATOMIC_RELAXED);
    TD_EMIT(.kind = TD_EVENT_LOOP, .name = op->name, .pointer = (const void *)(uintptr_t)loop, .numbers = {isa, column});
    return loop;
}

static inline td_loop *loop_of(const td_pointwise *op, int column)
{
    int isa = __atomic_load_n(&td_isa_now, __ATOMIC_RELAXED);
    return TD_LIKELY(isa != TD_ISAS) ? op->rows[isa]->loops[column] : ask_for_loop(op, column);
}

/* Of the fast path, which computes at once: NULL if an operand is awaited, or the call worth to be recorded. All loops are looked up each time
 * while there are regions. */
static td_loop *__attribute__((noinline)) ask_without_late(const td_pointwise *op, int column, td_tensor *const *in)
{
    const bool late = td_in_region();
    for (int i = 0; i < op->n_in; i++)
        if (late ? td_is_worth_recording(in[i]) : td_is_awaited(in[i]))
            return NULL;
    return ask_for_loop(op, column);
}

static inline td_loop *fast_loop_of(const td_pointwise *op, int column, td_tensor *const *in)
{
    int isa = __atomic_load_n(&td_isa_now, __ATOMIC_RELAXED);
    return TD_LIKELY(isa != TD_ISAS) ? op->rows[isa]->loops[column] : ask_without_late(op, column, in);
}

/* What the result is stored in: comparisons give bool, abs and its like the real dtype of complex operands. */
static td_dtype out_dtype(const td_pointwise *op, td_dtype common)
{
    return op->out == TD_OUT_BOOL ? TD_BOOL : op->out == TD_OUT_REAL ? td_dtype_to_real(common) : common;
}


/* Whether a whole number is one of the dtype's.  64-bit dtypes are decided before a shift by their width could happen. */
static bool integer_holds(td_dtype dtype, td_scalar value)
{
    if (td_is_foreign_dtype(dtype))             /* their own conversion says what becomes of a number */
        return true;
    if (value.kind == TD_SCALAR_UINT)           /* above int64's */
        return dtype == TD_U64;
    int bits = 8 * td_itemsizes[dtype];
    if (!td_dtype_is_signed(dtype))
        return value.i >= 0 && (bits == 64 || value.i >> bits == 0);
    return bits == 64 || (value.i >= -(INT64_C(1) << (bits - 1)) && value.i < INT64_C(1) << (bits - 1));
}

/* A number or a tensor without dimensions doesn't raise the width of an integer result, and may not fit it.  It wraps around,
 * as in PyTorch, but not silently. */
static int warn_unfit(const td_pointwise *op, td_tensor *const *in, td_dtype common)
{
    for (int i = 0; i < op->n_in; i++) {
        td_scalar value;
        if (in[i]->ndim || in[i]->dtype == (int8_t)common || op->masks >> i & 1 || in[i]->device.type != TD_CPU)
            continue;
        if (td_tensor_item(in[i], &value) || value.kind == TD_SCALAR_FLOAT || value.kind == TD_SCALAR_COMPLEX || integer_holds(common, value))
            continue;
        bool above = value.kind == TD_SCALAR_UINT;
        if (td_warn(above ? "%s: %" PRIu64 " doesn't fit %s and wraps around; convert the other operand with .to() for a wider result"
                          : "%s: %" PRId64 " doesn't fit %s and wraps around; convert the other operand with .to() for a wider result",
                    op->name, value.i, td_dtype_name(common)))
            return -1;
    }
    return 0;
}

/* Numbers among the operands that the result's dtype can't hold.  In halves they become infinite, as in PyTorch. */
static int check_numbers(const td_pointwise *op, td_tensor *const *in, td_dtype common)
{
    for (int i = 0; op->numbers >> i && common != TD_F16 && common != TD_BF16; i++) {
        td_scalar value;
        if (op->numbers >> i & 1 && in[i]->flags & TD_FLAG_WRAPPED_NUMBER && in[i]->device.type == TD_CPU &&
            (td_tensor_item(in[i], &value) || td_scalar_check(value, common)))
            return -1;
    }
    return 0;
}

#define TD_LOOK_FOR_ZERO(T)                                                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                                          \
        found |= ((const T *)x)[i] == 0
/* Without an early return, so that the loop vectorizes: a zero is the exception.  Integers only, for which 0 is bytes of 0. */
static bool any_zero(const void *x, int64_t n, int itemsize)
{
    int found = 0;
    switch (itemsize) {
    case 1: TD_LOOK_FOR_ZERO(uint8_t); break;
    case 2: TD_LOOK_FOR_ZERO(uint16_t); break;
    case 4: TD_LOOK_FOR_ZERO(uint32_t); break;
    default: TD_LOOK_FOR_ZERO(uint64_t);
    }
    return found != 0;
}

/* Integers aren't divided by zero; a wide number may become one in the result's dtype. */
static int check_divisor(td_tensor *divisor, td_dtype common)
{
    td_tensor *flat = td_as_contiguous(divisor, divisor->ndim ? (td_dtype)divisor->dtype : common);
    bool refused = flat && any_zero(flat->data, flat->numel, td_itemsizes[flat->dtype]);
    td_tensor_release(flat);
    return !flat ? -1 : refused ? td_error(TD_E_RUNTIME, "ZeroDivisionError") : 0;
}

/* A condition is bool; where() still takes PyTorch's old masks of bytes. */
static int check_condition(const td_pointwise *op, const td_tensor *x)
{
    if (x->dtype == TD_BOOL)
        return 0;
    if (!op->old_masks)
        return td_error(TD_E_RUNTIME, "masked_fill_ only supports boolean masks, but got mask with dtype %s",
                        td_cpp_name(x->dtype));
    if (x->dtype == TD_U8)
        return TD_WARN_ONCE("where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
                       "version of PyTorch. Use a boolean condition instead.");
    return td_error(TD_E_RUNTIME, "where expected condition to be a boolean tensor, but got a tensor with dtype %s",
                    td_dtype_title((td_dtype)x->dtype));
}

/* The dtype that the operands are promoted to; conditions stay out of it. */
static td_dtype common_dtype(const td_pointwise *op, td_tensor *const *in)
{
    td_tensor *promoted[TD_MAX_OPERANDS];
    int n = 0;
    for (int i = 0; i < op->n_in; i++)
        if (!(op->masks >> i & 1))
            promoted[n++] = in[i];
        else if (check_condition(op, in[i]))
            return TD_DTYPE_NONE;
    td_dtype common = op->promote == TD_PROMOTE_FIRST || n == 1 ? (td_dtype)promoted[0]->dtype : td_result_type(n, promoted);
    if (op->promote == TD_PROMOTE_FLOAT && common != TD_DTYPE_NONE && !td_is_foreign_dtype(common) &&
        !td_dtype_is_floating(common) && !td_dtype_is_complex(common))
        common = td_default_dtype();
    if (op->promote == TD_PROMOTE_NUMBER && common == TD_BOOL)
        common = TD_I64;
    if (common == TD_DTYPE_NONE || (op->numbers && check_numbers(op, in, common)))
        return TD_DTYPE_NONE;
    bool integer = common != TD_BOOL && !td_dtype_is_floating(common) && !td_dtype_is_complex(common);
    return integer && n > 1 && warn_unfit(op, in, common) ? TD_DTYPE_NONE : common;
}

/* Numbers like nearly all are, which need no closer look. */
static inline bool is_small(const td_scalar *number, td_dtype dtype)
{
    return dtype == TD_BOOL ? number->kind == TD_SCALAR_INT && number->i >> 1 == 0
           : number->kind == TD_SCALAR_INT ? (uint64_t)number->i + 127 < 255
           : number->kind == TD_SCALAR_FLOAT && fabs(number->d) < 128 && !td_dtype_is_integral(dtype);
}

static inline bool all_small(const td_pointwise *op, const td_scalar *params, td_dtype dtype)
{
    for (int mask = op->fits | op->alpha; mask; mask >>= 1, params++)
        if (mask & 1 && !is_small(params, dtype))
            return false;
    return true;
}

/* Numbers that the result's dtype can't hold would be cut off silently. */
static int check_fits(const td_pointwise *op, td_dtype common, const td_scalar *params)
{
    for (int i = 0; op->fits >> i; i++)
        if (op->fits >> i & 1 && (op->computed >> i & 1 ? td_scalar_check_computed : td_scalar_check)(params[i], common))
            return -1;
    return 0;
}

/* So would alpha= of another kind than the result's. */
static int check_alpha(const td_pointwise *op, td_dtype common, const td_scalar *params)
{
    if (!op->alpha || is_small(params, common))
        return 0;
    if (params[0].kind == TD_SCALAR_COMPLEX && td_dtype_is_floating(common))
        return td_error(TD_E_RUNTIME, "For non-complex input tensors, argument alpha must not be a complex number.");
    return td_check_factor("alpha", params[0], common);
}

/* Loops of bool compute with integers, to which a number that isn't 0 is to be 1. */
static const td_scalar *as_bools(const td_pointwise *op, const td_scalar *params, td_scalar *bools)
{
    const int mask = op->fits | op->alpha;
    int n = 0;
    for (; mask >> n; n++) {
        const td_scalar x = params[n];
        const bool is = x.kind == TD_SCALAR_INT || x.kind == TD_SCALAR_UINT || x.kind == TD_SCALAR_BOOL ? x.i != 0
                        : x.d != 0 || (x.kind == TD_SCALAR_COMPLEX && x.imag != 0);
        bools[n] = mask >> n & 1 ? td_int(is) : x;
    }
    return n ? bools : params;
}

/* alpha= has the precision of halves itself, although the loops compute in float32. */
static inline bool is_half(td_dtype dtype) { return dtype == TD_F16 || dtype == TD_BF16; }
static td_scalar as_half(td_scalar x, td_dtype dtype)
{
    if (x.kind == TD_SCALAR_FLOAT)
        x.d = dtype == TD_F16 ? td_f16_to_f32(td_f32_to_f16((float)x.d)) : td_bf16_to_f32(td_f32_to_bf16((float)x.d));
    return x;
}

/* The loop for the common dtype, after all checks that depend on it; NULL with PyTorch's error.  Foreign dtypes are computed in
 * float32, so what float32 has they have. */
static td_loop *find_loop(const td_pointwise *op, td_dtype common, const td_scalar *params)
{
    bool has = op->dtypes >> (td_is_foreign_dtype(common) ? TD_F32 : common) & 1;
    td_loop *loop = has ? loop_of(op, column_of[common]) : NULL;
    if (!loop)
        td_fail(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op->name, td_dtype_title(common));
    return loop && check_fits(op, common, params) ? NULL : loop;
}

/* Tensors without dimensions on the CPU go with those of any device, as in PyTorch: they stand for numbers. */
static int check_devices(const td_pointwise *op, td_tensor *const *in)
{
    const td_tensor *outside = NULL, *decides = NULL;
    for (int i = 0; i < op->n_in; i++) {
        bool number = in[i]->device.type == TD_CPU && !in[i]->ndim;
        decides = decides || number ? decides : in[i];
        const td_tensor *first = decides;
        bool apart = !number && in[i]->device.type != first->device.type;
        if (!apart && in[i]->device.type > TD_META) {
            outside = outside ? outside : in[i];
            apart = in[i]->device.type == outside->device.type && in[i]->device.index != outside->device.index;
            first = outside;
        }
        if (apart) {
            char a[32], b[32];
            return td_error(TD_E_RUNTIME, "%s: Expected all tensors to be on the same device, but found at least two devices, %s and "
                            "%s!", op->name, td_device_str(first->device, a), td_device_str(in[i]->device, b));
        }
    }
    return 0;
}

static td_device result_device(const td_pointwise *op, td_tensor *const *in)
{
    for (int i = 0; i < op->n_in; i++)
        if (in[i]->device.type != TD_CPU)
            return in[i]->device;
    return in[0]->device;
}

static bool same_shapes(int n, td_tensor *const *in)
{
    for (int i = 1; i < n; i++)
        if (in[i]->ndim != in[0]->ndim || memcmp(in[i]->sizes, in[0]->sizes, sizeof *in[0]->sizes * (size_t)in[0]->ndim))
            return false;
    return true;
}

/* Strides of dimensions of one element say nothing, so they are not compared. */
static bool all_channels_last(int n, td_tensor *const *in)
{
    int64_t strides[TD_MAX_DIMS];
    if (in[0]->ndim != 4)
        return false;
    td_channels_last_strides(4, in[0]->sizes, strides);
    for (int i = 0; i < n; i++)
        for (int d = 0; d < 4; d++)
            if (in[i]->sizes[d] != 1 && in[i]->strides[d] != strides[d])
                return false;
    return true;
}

/* All have the first one's strides, and those leave no gaps: a result of these strides is as dense as its operands. */
static bool same_dense_strides(int n, td_tensor *const *in)
{
    int64_t dense[TD_MAX_DIMS];
    for (int i = 0; i < n; i++)
        if (memcmp(in[i]->strides, in[0]->strides, sizeof *dense * (size_t)in[0]->ndim))
            return false;
    return td_dense_order_strides(in[0], dense) && !memcmp(dense, in[0]->strides, sizeof *dense * (size_t)in[0]->ndim);
}

/* The output takes the operands' order of dimensions, by the rules of PyTorch's iterator. Operands of one shape that all are contiguous,
 * channels last, or dense with the same strides hand that on. Otherwise dimensions are sorted by the operands' strides: the first
 * operand whose strides differ decides, one that is broadcast along a dimension is passed over. */
bool td_strides_in_order(int n, td_tensor *const *in, int ndim, const int64_t *sizes, int64_t *strides)
{
    bool contiguous = true, plain = true;
    for (int i = 0; i < n && contiguous; i++) {
        contiguous = in[i]->flags & TD_FLAG_CONTIGUOUS;
        plain = plain && in[i]->numel && td_has_plain_strides(in[i]);
    }
    if (contiguous && plain)
        return false;
    if (same_shapes(n, in)) {
        if (contiguous)
            return false;
        if (all_channels_last(n, in))
            return td_channels_last_strides(4, sizes, strides), true;
        if (same_dense_strides(n, in))
            return memcpy(strides, in[0]->strides, sizeof *strides * (size_t)ndim), true;
    }
    /* An insertion sort that, like TensorIterator::reorder_dimensions, goes on past ties (verdict 0) and swaps with what lies behind
     * them.  No stable sort gives PyTorch's strides in those corners, so the steps are the same. */
    int order[TD_MAX_DIMS];      /* innermost first */
    for (int d = 0; d < ndim; d++)
        order[d] = ndim - 1 - d;
    for (int i = 1; i < ndim; i++) {
        int moving = i;
        for (int j = i - 1; j >= 0; j--) {
            int a = order[j], b = order[moving], verdict = 0;     /* > 0: a is outside b, swap */
            for (int k = 0; k < n && !verdict; k++) {
                int shift = ndim - in[k]->ndim;
                int64_t sa = a < shift || (in[k]->sizes[a - shift] == 1 && sizes[a] != 1) ? 0 : llabs(in[k]->strides[a - shift]);
                int64_t sb = b < shift || (in[k]->sizes[b - shift] == 1 && sizes[b] != 1) ? 0 : llabs(in[k]->strides[b - shift]);
                if (!sa || !sb)
                    continue;
                verdict = sa < sb ? -1 : sa > sb ? 1 : sizes[a] > sizes[b];
            }
            if (verdict > 0) {
                int t = order[j];
                order[j] = order[moving], order[moving] = t;
                moving = j;
            } else if (verdict < 0) {
                break;
            }
        }
    }
    int64_t step = 1;
    for (int i = 0; i < ndim; i++) {
        strides[order[i]] = step;
        step = td_mul_saturated(step, sizes[order[i]]);
    }
    for (int i = 0; i < ndim; i++)
        if (order[i] != ndim - 1 - i)
            return true;
    return false;
}

/* PyTorch's iterator converts an operand of another dtype before it looks at strides; an expanded one, or one with gaps, is dense by then. */
static bool strides_of_result(const td_pointwise *op, td_dtype common, td_tensor *const *in, int ndim, const int64_t *sizes, int64_t *strides)
{
    td_tensor converted[TD_MAX_OPERANDS], *seen[TD_MAX_OPERANDS];
    int64_t dense[TD_MAX_OPERANDS][TD_MAX_DIMS];
    int n = 0;
    for (int i = 0; i < op->n_in; i++) {
        seen[i] = in[i];
        if (in[i]->dtype == (int8_t)common || op->masks >> i & 1 || in[i]->ndim < 2 || in[i]->flags & TD_FLAG_NON_OVERLAPPING)
            continue;
        converted[n] = *in[i];
        const bool contiguous = !td_strides_like(in[i], dense[n]);
        if (contiguous)
            td_contiguous_strides(in[i]->ndim, in[i]->sizes, dense[n]);
        converted[n].strides = dense[n];
        converted[n].flags = (uint16_t)((in[i]->flags & ~TD_FLAG_CONTIGUOUS) | (contiguous ? TD_FLAG_CONTIGUOUS : 0));
        seen[i] = &converted[n++];
    }
    return td_strides_in_order(op->n_in, seen, ndim, sizes, strides);
}

/* On the CPU, `out` having its final shape.  The loop of the dtype itself (halves, small integers) is taken if there is one and
 * nothing must be converted for it; else elements are widened to float32, int32 or int64 in the iterator's blocks and rounded when
 * they are stored. */
static int run_loop(const td_pointwise *op, td_loop *loop, td_dtype common, td_tensor *const *in, td_tensor *out,
                    const td_scalar *params)
{
    if (op->divisor && td_dtype_is_integral(common) && out->numel && check_divisor(in[op->divisor], common))
        return -1;
    td_tensor *operands[TD_MAX_OPERANDS] = {out};
    td_dtype   compute[TD_MAX_OPERANDS];
    td_loop   *own = own_column_of[common] >= TD_LOOP_BF16 ? loop_of(op, own_column_of[common]) : NULL;
    for (int i = 0; i < op->n_in && own && !op->own_halves && is_half(common); i++)     /* a number is not rounded first */
        own = op->masks >> i & 1 || in[i]->dtype == (int8_t)common ? own : NULL;
    if (own && out->dtype == (int8_t)out_dtype(op, common))
        loop = own;
    else
        own = NULL;
    td_dtype   inner = own ? common : dtype_of_column[column_of[common]];
    compute[0] = op->out == TD_OUT_BOOL ? TD_BOOL : op->out == TD_OUT_REAL ? td_dtype_to_real(inner) : inner;
    td_tensor *wrapped[TD_MAX_OPERANDS] = {NULL};
    td_scalar bools[8];
    if (common == TD_BOOL)
        params = as_bools(op, params, bools);
    else if (op->alpha && is_half(common))
        *bools = as_half(*params, common), params = bools;
    const bool wider = inner != common && td_dtype_is_integral(common);
    int status = 0;
    for (int i = 0; i < op->n_in; i++) {
        const bool is_mask = op->masks >> i & 1;
        if (wider && !is_mask && in[i]->ndim == 0 && in[i]->dtype != (int8_t)common)   /* which may not fit, and would in the loop */
            status |= (wrapped[i] = td_as_contiguous(in[i], common)) ? 0 : -1;
        operands[i + 1] = wrapped[i] ? wrapped[i] : in[i];
        compute[i + 1] = is_mask ? TD_BOOL : inner;
    }
    td_loop *const *singles = inner == TD_F32 && !own && op->n_in == 2 ? op->rows[td_cpu_isa()]->loops + TD_LOOP_F32_FIRST : NULL;
    for (int i = 0; i < op->n_in; i++)      /* an element that the loop may overwrite before it is read again */
        if (in[i] != out && in[i]->storage == out->storage)
            singles = NULL;
    status = status ? status : td_iterate_singles(1, op->n_in, operands, compute, loop, singles, params, op->cost);
    for (int i = 0; i < op->n_in && wider; i++)
        td_tensor_release(wrapped[i]);
    return status;
}

/* On the CPU for a device that can't. */
typedef struct host_loop { const td_pointwise *op; td_loop *loop; td_dtype common; const td_scalar *params; } host_loop;
static int run_host_loop(void *context, td_tensor *const *in, td_tensor *out)
{
    const host_loop *h = context;
    return run_loop(h->op, h->loop, h->common, in, out, h->params);
}

static int run_on_device(const td_pointwise *op, td_loop *loop, td_dtype common, td_tensor *const *in, td_tensor *out, const td_scalar *params)
{
    if (out->device.type == TD_META)
        return 0;
    if (!td_has_programs(out->device) || (op->op && td_op_has_impl(op->op, out->device.type)))
        return td_call_elementwise(op->op, op->choice, in, params, out);
    td_scalar bools[8];
    const td_scalar *numbers = params;
    if (common == TD_BOOL)
        numbers = as_bools(op, params, bools);
    else if (op->alpha && is_half(common))
        *bools = as_half(*params, common), numbers = bools;
    const int status = td_pointwise_on_device(op, common, in, numbers, out);
    return status != TD_DECLINED ? status
         : td_compute_on_host(op->op, "its formula can't be printed for the device in these dtypes", op->n_in, in, out, run_host_loop,
                              &(host_loop){op, loop, common, params});
}

/* Whether a call within a region is done late: where nothing about the elements is an error. `out`: NULL for a new one. */
static bool records(const td_pointwise *op, td_dtype common, td_tensor *const *in, const td_tensor *out)
{
    return td_is_recorded(out, op->n_in, in) && !td_is_foreign_dtype(common) && !(op->divisor && td_dtype_is_integral(common));
}

/* Fill the result, which has the shape of the operands' broadcast and what dtype follows from theirs. */
static int compute_as_given(const td_pointwise *op, td_loop *loop, td_dtype common, td_tensor *const *in, td_tensor *out, const td_scalar *params)
{
    if (TD_UNLIKELY(td_in_region())) {
        if (td_may_wait(out->storage) && records(op, common, in, out))
            return td_regions.pointwise(op, common, in, params, out);
        if (td_settle_to_write(out))
            return -1;
    }
    for (int i = 0; i < op->n_in; i++)          /* also of another thread's region */
        if (td_settle(in[i]))
            return -1;
    return TD_UNLIKELY(out->device.type != TD_CPU) ? run_on_device(op, loop, common, in, out, params) : run_loop(op, loop, common, in, out, params);
}

/* Of halves on the CPU a number is rounded to them first, though the loops compute in float32: PyTorch's kernels read a tensor of the number.
 * The few that read the number itself are declared by their entries. */
static bool is_wider_number(const td_pointwise *op, td_dtype common, td_tensor *const *in, int i)
{
    return in[i]->ndim == 0 && in[i]->dtype != (int8_t)common && in[i]->device.type == TD_CPU && !((op->masks | op->full_numbers) >> i & 1);
}
static int compute(const td_pointwise *op, td_loop *loop, td_dtype common, td_tensor *const *in, td_tensor *out, const td_scalar *params)
{
    bool wider = false;
    if (TD_UNLIKELY(is_half(common)) && out->device.type == TD_CPU)
        for (int i = 0; i < op->n_in && out->ndim > 0; i++)
            wider |= is_wider_number(op, common, in, i);
    if (TD_LIKELY(!wider))
        return compute_as_given(op, loop, common, in, out, params);
    td_tensor *rounded[TD_MAX_OPERANDS];
    int status = 0;
    for (int i = 0; i < op->n_in; i++)
        status |= (rounded[i] = is_wider_number(op, common, in, i) ? td_as_contiguous(in[i], common) : td_tensor_retain(in[i])) ? 0 : -1;
    status = status ? status : compute_as_given(op, loop, common, rounded, out, params);
    for (int i = 0; i < op->n_in; i++)
        td_tensor_release(rounded[i]);
    return status;
}

int td_pointwise_compute(const td_pointwise *op, td_dtype common, td_tensor *const *in, const td_scalar *params, td_tensor *out)
{
    td_loop *loop = loop_of(op, column_of[common]);
    return loop ? run_loop(op, loop, common, in, out, params)
                : td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", op->name, td_dtype_title(common));
}

/* The fast path's checks are a few loads and comparisons, since the loop over a small tensor takes no longer than they do.  Tensors
 * of 32768 elements and more are left to the iterator, which may use several threads. */
td_tensor *td_pointwise_run(const td_pointwise *op, td_tensor *const *in, const td_scalar *params)
{
    td_tensor *first = in[0];
    td_dtype dtype = first->dtype;
    /* The fast path: nothing to promote, broadcast or convert. */
    int column = own_column_of[dtype];
    bool fast = first->keys << 40 >> 40 == TD_KEYS_CPU && first->flags & TD_FLAG_CONTIGUOUS && !(first->flags & TD_FLAG_WRAPPED_NUMBER) && !op->masks &&
                all_small(op, params, dtype) && !(op->alpha && params->kind == TD_SCALAR_FLOAT && is_half(dtype)) &&
                dtype_of_column[column] == dtype && op->out != TD_OUT_REAL && first->numel < 32768;
    for (int i = 1; i < op->n_in && fast; i++) {
        const td_tensor *x = in[i];
        fast = x->dtype == dtype && x->flags & TD_FLAG_CONTIGUOUS && x->ndim == first->ndim && x->device.type == TD_CPU;
        for (int d = 0; d < first->ndim && fast; d++)
            fast = x->sizes[d] == first->sizes[d];
    }
    if (TD_LIKELY(fast) && (op->dtypes >> dtype & 1)) {
        td_loop *loop = fast_loop_of(op, column, in);
        if (TD_UNLIKELY(!loop))
            goto slow;
        if (TD_UNLIKELY(op->divisor) && td_dtype_is_integral(dtype) && check_divisor(in[op->divisor], dtype))
            return NULL;
        td_tensor *out = td_tensor_new(first->ndim, first->sizes, out_dtype(op, dtype), first->device);
        if (TD_UNLIKELY(!out))
            return NULL;
        char *runs[TD_MAX_OPERANDS];    /* to clear it costs more than a loop over one element */
        runs[0] = out->data;
        for (int i = 0; i < op->n_in; i++)
            runs[i + 1] = in[i]->data;
        loop(first->numel, runs, params);
        return out;
    }
slow:;
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    td_dtype common = common_dtype(op, in);
    int ndim = common == TD_DTYPE_NONE ? -1 : td_broadcast_shape(op->name, op->n_in, in, sizes);
    if (ndim < 0 || check_alpha(op, common, params) || check_devices(op, in))
        return NULL;
    td_loop *loop = find_loop(op, common, params);
    if (!loop)
        return NULL;
    td_device device = result_device(op, in);
    const bool ordered = !(op->contiguous >> common & 1) && strides_of_result(op, common, in, ndim, sizes, strides);
    td_tensor *out = records(op, common, in, NULL) ? td_regions.make(ndim, sizes, ordered ? strides : NULL, out_dtype(op, common))
                   : ordered ? td_tensor_new_strided(ndim, sizes, strides, out_dtype(op, common), device)
                             : td_tensor_new(ndim, sizes, out_dtype(op, common), device);
    if (out && compute(op, loop, common, in, out, params)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}

static int store(const td_pointwise *op, td_tensor *const *in, const td_scalar *params, td_tensor *out, bool inplace);

/* In place on an expanded tensor, whose elements stand at several positions each: one position after the other, so that each sees what
 * the one before wrote. */
static int store_in_turn(const td_pointwise *op, td_tensor *const *in, const td_scalar *params, td_tensor *out)
{
    int64_t sizes[TD_MAX_DIMS];
    int d = 0, ndim = td_broadcast_shape(op->name, op->n_in, in, sizes);
    if (ndim != out->ndim || memcmp(sizes, out->sizes, sizeof *sizes * (size_t)ndim))
        return td_check_overlap(op->name, out, 0, NULL);
    /* The first dimension that is expanded, which the caller has found; a part may be expanded in another one, and is stored so itself. */
    while (sizes[d] == 1 || out->strides[d])
        d++;
    const int64_t size = sizes[d];
    sizes[d] = 1;
    for (int64_t k = 0, status = 0; k < size; k++) {
        td_tensor *parts[TD_MAX_OPERANDS] = {NULL};
        for (int i = 0; i < op->n_in; i++) {
            int own = d - (ndim - in[i]->ndim);
            const bool along = own >= 0 && in[i]->sizes[own] > 1;
            int64_t rest[TD_MAX_DIMS];
            memcpy(rest, in[i]->sizes, sizeof *rest * (size_t)in[i]->ndim);
            if (along)
                rest[own] = 1;
            parts[i] = i && in[i] == out ? td_tensor_retain(parts[0])
                     : td_view_strided(in[i], in[i]->ndim, rest, in[i]->strides, along ? k * in[i]->strides[own] : 0);
            status |= parts[i] ? 0 : -1;
        }
        status = status ? status : store(op, parts, params, parts[0], true);
        for (int i = 0; i < op->n_in; i++)
            td_tensor_release(parts[i]);
        if (status)
            return -1;
    }
    return 0;
}

/* In-place and out= operators.  Shapes, then dtypes and devices are checked before an out= gets another shape: the order in which PyTorch's
 * iterator reports them.  An out= that is one of the operands counts as in place: the operand is still to be read. */
static int store(const td_pointwise *op, td_tensor *const *in, const td_scalar *params, td_tensor *out, bool inplace)
{
    int64_t sizes[TD_MAX_DIMS];
    td_dtype common = common_dtype(op, in);
    int ndim = common == TD_DTYPE_NONE ? -1 : td_broadcast_shape(op->name, op->n_in, in, sizes);
    if (ndim < 0)
        return -1;
    bool read = inplace;
    for (int i = 0; i < op->n_in; i++)
        read |= in[i] == out;        /* an operand that is read can't get another shape */
    if (read && (ndim != out->ndim || memcmp(sizes, out->sizes, sizeof *sizes * ndim))) {
        td_shape_text have, want;
        return td_error(TD_E_RUNTIME, "%s: output with shape %s doesn't match the broadcast shape %s", op->name,
                        td_shape_str(out->ndim, out->sizes, have), td_shape_str(ndim, sizes, want));
    }
    if (check_alpha(op, common, params) || check_devices(op, in))
        return -1;
    const td_device device = result_device(op, in);
    if (!inplace && op->exact && (op->out != TD_OUT_REAL || out_dtype(op, common) == common) &&
        td_check_exact(op->exact, out_dtype(op, common), (td_dtype)out->dtype))
        return -1;
    if ((!inplace || device.type == TD_META) && td_check_out_device(device, out->device))      /* a number on meta can't be read in place, either */
        return -1;
    if (td_check_cast(op->name, out_dtype(op, common), out->dtype))
        return -1;
    const bool in_turn = read && op->in_turn && out->numel && td_is_expanded(out);
    if (read && !in_turn && td_check_overlap(op->name, out, op->n_in, in))      /* before it is known whether there is a loop, as in PyTorch */
        return -1;
    td_loop *loop = find_loop(op, common, params);
    if (!loop)
        return -1;
    if (!read) {
        if (td_check_overlap(op->name, out, 0, NULL))       /* before it may get another shape */
            return -1;
        int64_t strides[TD_MAX_DIMS];
        const bool keeps = out->ndim == ndim && !memcmp(sizes, out->sizes, sizeof *sizes * (size_t)ndim);
        const bool ordered = !keeps && !op->contiguous_out && !(op->contiguous >> common & 1) &&
                             strides_of_result(op, common, in, ndim, sizes, strides);
        if (td_resize_output(out, ndim, sizes) || (ordered && td_tensor_set_geometry(out, ndim, sizes, strides)))
            return -1;
    }
    if (in_turn)
        return td_check_steps(op->name, out->numel) ? -1 : store_in_turn(op, in, params, out);
    if (!read && td_check_overlap(op->name, out, op->n_in, in))
        return -1;
    td_dtype inner = dtype_of_column[column_of[common]];
    if (inner == common || out->dtype == (int8_t)out_dtype(op, common) || out->device.type == TD_META)
        return compute(op, loop, common, in, out, params);
    /* A wider out= shows the result as it is in the dtype that the operands have, rounded. */
    td_tensor *rounded = td_tensor_new(ndim, sizes, out_dtype(op, common), out->device);
    int status = !rounded || compute(op, loop, common, in, rounded, params) ? -1
               : td_is_recorded(out, 2, (td_tensor *[]){out, rounded}) && rounded->numel ? td_regions.copy(out, rounded) : td_copy_elements(out, rounded);
    td_tensor_release(rounded);
    return status;
}

int td_pointwise_inplace(const td_pointwise *op, td_tensor *const *in, const td_scalar *params)
{
    if (op->in_turn && *op->in_turn && td_is_expanded(in[0]) && td_warn_expanded(op->in_turn, "tensor[mask] = scalar"))
        return -1;
    if (op->out == TD_OUT_REAL && td_dtype_is_complex((td_dtype)in[0]->dtype))      /* "abs_cpu" */
        return td_error(TD_E_RUNTIME, "In-place %.*s is not supported for complex tensors.", (int)strcspn(op->name, "_"), op->name);
    return store(op, in, params, in[0], true);
}

int td_pointwise_out(const td_pointwise *op, td_tensor *const *in, const td_scalar *params, td_tensor *out)
{
    return store(op, in, params, out, false);
}
