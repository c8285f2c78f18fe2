/* The patterns of entries for quantized tensors, `layouts: {quantized: WORD}`:
 *   integers    the operator itself on the integers, in the same memory; numbers among its arguments are quantized first;
 *   moved       the same on bytes without a sign, for operators that put elements elsewhere and take no other integers; of 32 bits as numbers;
 *   numbers     the same on a copy of the integers as float32 (qint32: float64), for operators that don't take integers;
 *   computed    the operator on what the integers stand for; floating results are quantized as the first operand is;
 *   fused       the same, but the product with the scale isn't rounded before the zero point is taken off, as in PyTorch's loops;
 *   unit        as computed, for results between 0 and 1, which are quantized so that this is the range;
 *   symmetric   as fused, for results between -1 and 1.
 * Pointwise operators on one tensor are computed for the 256 integers of 8 bits alone, if there are more elements than some (bytes.c).
 *
 * Integers have the order of what they stand for only if all have one scale and zero point, so the first two are for
 * tensors that are quantized per tensor, and alike if there are several. */
#include "calls_layouts_quantized_calls.h"
#include "dispatch/frame.h"
#include "dispatch/op.h"
#include "dispatch/outputs.h"
#include "layouts/quantized/bytes.h"

typedef enum pattern { INTEGERS, MOVED, NUMBERS, COMPUTED, FUSED, UNIT, SYMMETRIC } pattern;

/* What a number among the arguments is as an integer. */
static int enter_number(td_scalar *number, const td_tensor *first)
{
    const double value = number->kind == TD_SCALAR_FLOAT ? number->d : (double)number->i;
    *number = td_int(td_quantized_number(td_quantizer_of(first), first->dtype, value));
    return 0;
}

static td_tensor *enter(td_tensor *x, const td_tensor *first, pattern p, bool written)
{
    if (!td_is_quantized(x)) {
        if (p > NUMBERS || x->dtype != TD_F32 || written)
            return td_ref(x);
        TD_AUTO td_tensor *quantized = td_requantized_from(x, td_quantizer_of(first), (td_dtype)first->dtype);
        return td_quantized_integers(quantized);
    }
    if (p > NUMBERS)
        return p == COMPUTED || p == UNIT || td_quantizer_of(x)->scheme != TD_PER_TENSOR_AFFINE ? td_dequantize_self(x) : td__dequantize_fused(x);
    if (td_check_per_tensor(x))
        return NULL;
    if (!written && !td_quantizers_agree(td_quantizer_of(x), td_quantizer_of(first)))
        return td_fail(TD_E_NOT_IMPLEMENTED, "operands that are quantized with different scales or zero points");
    TD_AUTO td_tensor *integers = td_quantized_integers(x);
    return p == INTEGERS || !integers ? td_ref(integers) : p == MOVED ? td_view_dtype(integers, TD_U8) : td_to(integers, x->dtype == TD_QI32 ? TD_F64 : TD_F32);
}

/* A result, owned: quantized like the operand if it holds elements of it. */
static td_tensor *leave(td_tensor *x, const td_tensor *first, pattern p)
{
    if (!x || x == TD_NONE)
        return x;
    TD_AUTO td_tensor *made = x;
    const td_dtype inside = p == INTEGERS ? td_integers_of(first->dtype) : p == MOVED ? TD_U8 : first->dtype == TD_QI32 && p == NUMBERS ? TD_F64 : TD_F32;
    if ((td_dtype)made->dtype != inside)
        return td_ref(made);
    if (p == INTEGERS)
        return td_quantized_over(made, td_quantizer_of(first));
    if (p == MOVED) {
        TD_AUTO td_tensor *integers = td_view_dtype(made, td_integers_of(first->dtype));
        return td_quantized_over(integers, td_quantizer_of(first));
    }
    if (p == NUMBERS) {
        TD_AUTO td_tensor *integers = td_to(made, td_integers_of(first->dtype));
        return td_quantized_over(integers, td_quantizer_of(first));
    }
    if (p == COMPUTED || p == FUSED)
        return td_requantized_from(made, td_quantizer_of(first), (td_dtype)first->dtype);
    const int64_t least = td_quantized_least(first->dtype), range = td_quantized_most(first->dtype) - least + 1;
    TD_AUTO_QUANTIZER td_quantizer *q = p == UNIT ? td_quantizer_per_tensor(1. / (double)range, first->dtype == TD_QI32 ? 0 : least)
                                                  : td_quantizer_per_tensor(2. / (double)range, least ? 0 : range / 2);
    return td_requantized_from(made, q, (td_dtype)first->dtype);
}

/* Forms in place and with out= of a pattern that makes new tensors store what the functional form makes. */
static int store(const td_op *op, td_tensor *to, td_value *results)
{
    td_tensor *made = results[0].tensor;
    results[0] = (td_value){.kind = TD_VALUE_NONE};
    if (op->info.flags & TD_OP_INPLACE ? td_finish_inplace(op->info.name, to, made) : td_finish_out(op->info.name, to, made))
        return -1;
    if (op->info.n_results)
        results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_ref(to)};
    return 0;
}

static const td_op *functional_of(const td_op *op)
{
    for (const td_layout_kernel *of = op->of_layouts; of && of->key; of++)
        if (of->key == TD_KEY_QUANTIZED && of->makes)
            return of->makes;
    return NULL;
}

/* Whether all that an operator reads of tensors is one element of `first` at a time. */
static bool is_of_elements(const td_op *op, const td_value *arguments, const td_tensor *first)
{
    int tensors = 0;
    bool stores = false;
    for (int i = 0; i < op->info.n_arguments; i++) {
        for (int k = 0; k < td_tensors_in(&arguments[i]); k++)
            tensors += td_tensor_in(&arguments[i], k) != TD_NONE;
        stores |= op->info.arguments[i].is_mutable;
    }
    return op->info.flags & TD_OP_POINTWISE && tensors == 1 && !stores && op->info.n_results == 1 && td_quantized_gains_by_table(first);
}

static int call_by_table(const td_op *op, const char *word, const td_value *arguments, td_tensor *first, td_value *results)
{
    TD_AUTO td_tensor *every = td_quantized_every_integer(first);
    td_frame frame;
    if (!every || td_frame_begin(&frame, op, arguments))
        return -1;
    for (int i = 0; i < frame.count; i++)
        if (frame.values[i].kind == TD_VALUE_TENSOR && frame.values[i].tensor == first)
            frame.values[i].tensor = every;
    int status = td_quantized_call(op, word, frame.values, results);
    td_frame_end(&frame);
    if (status)
        return -1;
    TD_AUTO td_tensor *table = results[0].tensor;
    results[0].tensor = td_quantized_looked_up(first, table);
    return results[0].tensor ? 0 : -1;
}

int td_quantized_call(const td_op *op, const char *word, const td_value *arguments, td_value *results)
{
    static const char *const words[] = {"integers", "moved", "numbers", "computed", "fused", "unit", "symmetric"};
    pattern p = INTEGERS;
    while (p < SYMMETRIC && strcmp(words[p], word))
        p++;
    const td_op *makes = functional_of(op);
    if (makes && makes != op) {
        td_tensor *to = arguments[op->info.flags & TD_OP_INPLACE ? 0 : op->info.n_arguments - 1].tensor;
        return td_quantized_call(makes, word, arguments, results) ? -1 : store(op, to, results);
    }
    td_tensor *first = NULL;
    for (int i = 0; i < op->info.n_arguments; i++)
        for (int k = 0; k < td_tensors_in(&arguments[i]) && !first; k++)
            if (td_tensor_in(&arguments[i], k) != TD_NONE && td_is_quantized(td_tensor_in(&arguments[i], k)))
                first = td_tensor_in(&arguments[i], k);
    if (!first)
        return td_error(TD_E_RUNTIME, "%s: no operand is quantized", op->info.name);
    if (p == MOVED && first->dtype == TD_QI32)
        p = NUMBERS;
    if (p != INTEGERS && is_of_elements(op, arguments, first))
        return call_by_table(op, word, arguments, first, results);
    td_frame frame;
    if (td_frame_begin(&frame, op, arguments))
        return -1;
    int status = p <= NUMBERS ? td_check_per_tensor(first) : 0;
    const char *unless = p == INTEGERS && op->info.traits ? op->info.traits->moved_unless : NULL;
    const int refused = unless ? td_argument_index(op, unless) : -1;
    if (!status && refused >= 0 && arguments[refused].integer)
        status = td_error(TD_E_RUNTIME, "%s for quantized tensors is currently only supported for %s=False", op->info.name, unless);
    td_tensor *written = NULL;
    for (int i = 0; i < frame.count && !status; i++) {
        td_value *v = &frame.values[i];
        for (int k = 0; k < td_tensors_in(v) && !status; k++) {
            td_tensor *x = td_tensor_in(v, k);
            if (x == TD_NONE)
                continue;
            if (op->info.arguments[i].is_mutable)
                written = x;
            td_tensor *inside = td_frame_keep(&frame, enter(x, first, p, op->info.arguments[i].is_mutable));
            status = inside ? 0 : -1;
            *(v->kind == TD_VALUE_TENSOR ? &v->tensor : &frame.lists[i][k]) = inside;
        }
        if (p <= NUMBERS && v->kind == TD_VALUE_SCALAR && !status)
            status = enter_number(&v->scalar, first);
    }
    if (status || td_op_call(op, frame.values, results)) {
        td_frame_end(&frame);
        return -1;
    }
    for (int r = 0; r < op->info.n_results && !status; r++)
        for (int k = 0; k < td_tensors_in(&results[r]) && !status; k++) {
            td_tensor **place = td_place_of(&results[r], k);
            if (written) {
                td_tensor_release(*place);
                *place = td_ref(written);
            } else {
                *place = leave(*place, first, p);
            }
            status = *place ? 0 : -1;
        }
    if (status)
        td_values_release(results, op->info.n_results);
    td_frame_end(&frame);
    return status;
}
