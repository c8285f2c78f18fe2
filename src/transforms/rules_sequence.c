/* Batching rules of linspace and logspace whose ends are tensors: the ends differ between members, so the numbers are
 * computed from their positions by operators, as src/ops/create/sequence.c does it by a loop.  See Note [Batching rules]. */
#include "calls_transforms_rules_sequence.h"
#include "transforms/batch.h"

/* An end as [B, 1] or a number, in the dtype that is counted in; ends of integers are truncated first. */
static td_tensor *end_of(td_batch *b, const td_value *given, td_dtype kind, td_dtype counted, const char *which)
{
    if (given->kind != TD_VALUE_TENSOR) {
        TD_AUTO td_tensor *number = td_wrapped_number(given->scalar);
        TD_AUTO td_tensor *whole = td_dtype_is_integral(kind) ? td_to(number, kind) : td_tensor_retain(number);
        return td_to(whole, counted);
    }
    if (given->tensor->ndim)
        return td_fail(TD_E_RUNTIME, "%s only supports 0-dimensional start and end tensors, but got %s with %d dimension(s).",
                       b->op->info.name, which, given->tensor->ndim);
    TD_AUTO td_tensor *values = td_front(b, given->tensor);
    TD_AUTO td_tensor *whole = td_dtype_is_integral(kind) ? td_to(values, kind) : td_tensor_retain(values);
    TD_AUTO td_tensor *wide = td_to(whole, counted);
    TD_AUTO td_tensor *apart = wide && wide->ndim ? td_unsqueeze(wide, 1) : td_tensor_retain(wide);
    return td_detach(apart);
}

static bool is_complex(const td_value *v)
{
    return v->kind == TD_VALUE_TENSOR ? td_dtype_is_complex((td_dtype)v->tensor->dtype) : v->scalar.kind == TD_SCALAR_COMPLEX;
}

/* With a base the numbers are exponents of it. */
int td_rule_spaced(td_batch *b)
{
    const td_value *from = td_given(b, "start"), *to = td_given(b, "end"), *dtype = td_given(b, "dtype");
    int64_t steps = td_given(b, "steps")->integer;
    bool exponents = td_argument_index(b->op, "base") >= 0;
    bool complex = is_complex(from) || is_complex(to);
    td_dtype kind = dtype->kind != TD_VALUE_NONE ? (td_dtype)dtype->integer : td_default_dtype();
    if (dtype->kind == TD_VALUE_NONE && complex)
        kind = td_dtype_to_complex(kind);
    if (steps < 0)
        return td_error(TD_E_RUNTIME, "number of steps must be non-negative");
    td_dtype counted = complex || td_dtype_is_complex(kind) ? TD_C128 : TD_F64;
    TD_AUTO td_tensor *start = end_of(b, from, kind, counted, "start"), *end = end_of(b, to, kind, counted, "end");
    TD_AUTO td_tensor *numbers = td_arange(td_int(steps), TD_F64, TD_DEVICE_NONE);
    TD_AUTO td_tensor *range = td_sub(end, start), *step = td_div_scalar(range, td_float(steps > 1 ? (double)(steps - 1) : 1));
    TD_AUTO td_tensor *rest = td_rsub_scalar(numbers, td_float((double)(steps - 1)), td_int(1));
    TD_AUTO td_tensor *up = td_mul(step, numbers), *down = td_mul(step, rest);
    TD_AUTO td_tensor *low = td_add(start, up), *high = td_sub(end, down);
    TD_AUTO td_tensor *early = td_lt_scalar(numbers, td_int(steps > 1 ? steps / 2 : 1));      /* both ends are exact */
    TD_AUTO td_tensor *spaced = td_where(early, low, high);
    TD_AUTO td_tensor *made = exponents ? td_pow_scalar(td_float(td_given(b, "base")->number), spaced) : td_tensor_retain(spaced);
    return td_batch_give(b, 0, td_to(made, kind), 0);
}
