/* Operators with operands of formats: complex32, float8 and the others that the library stores and mostly doesn't compute with.
 *
 * Tensors of these dtypes carry TD_KEY_DTYPE, which leads here, so no kernel has to know them or to refuse them.  An operator's
 * entry says what it does with them (`formats:`):
 *   moved       its kernels only move elements (unless a bool argument is true): it is called with integers of the same size, over the
 *               same memory;
 *   known       its kernels take them;
 *   widened     it is called with copies in complex64 or float32, and what it makes or writes in that dtype is rounded to the format.
 * Elementwise operators whose entry lists a format among its `dtypes:` convert it in their loops; views, copies and composites
 * need nothing.  Everything else is refused by the dtype's name. */
#include "calls_dispatch_formats.h"
#include "dispatch/frame.h"
#include "dispatch/op.h"
#include "dispatch/spec.h"
#include <tede/auto.h>
#include <tede/kernel.h>

static const td_keyset of_bits = TD_KEYSET(TD_KEY_CONJUGATE) | TD_KEYSET(TD_KEY_NEGATIVE);

static td_dtype integer_of(td_dtype dtype)
{
    const size_t size = td_dtype_size(dtype);
    return size == 1 ? TD_U8 : size == 2 ? TD_I16 : TD_I32;
}

/* The first dtype among the operands that has the key; TD_DTYPE_NONE with an error if there is another one that it isn't promoted with
 * and the operator's body doesn't take by itself. */
static td_dtype format_of(const td_op *op, const td_value *arguments)
{
    td_dtype found = TD_DTYPE_NONE;
    for (int i = 0; i < op->info.n_arguments; i++)
        for (int k = 0; k < td_tensors_in(&arguments[i]); k++) {
            const td_tensor *x = td_tensor_in(&arguments[i], k);
            if (x == TD_NONE || !td_is_keyed_dtype(x->dtype))
                continue;
            if (found == TD_DTYPE_NONE)
                found = (td_dtype)x->dtype;
            else if (!(op->info.traits->known >> found & op->info.traits->known >> x->dtype & 1) &&
                     td_promote_types(found, (td_dtype)x->dtype) == TD_DTYPE_NONE)
                return TD_DTYPE_NONE;
        }
    return found;
}

/* Where the condition is, or the mask, among the arguments: the first bool that isn't in a list. */
static int place_of_condition(const td_op *op, const td_value *arguments)
{
    int i = 0;
    while (i < op->info.n_arguments && !(arguments[i].kind == TD_VALUE_TENSOR && arguments[i].tensor != TD_NONE && arguments[i].tensor->dtype == TD_BOOL))
        i++;
    return i;
}

/* Operands of other dtypes that are promoted with the format are brought to the result's dtype. */
static td_dtype promoted(const td_op *op, const td_value *arguments, td_dtype format)
{
    enum { ROOM = 256 };
    td_tensor *operands[ROOM];
    int n = 0, condition = place_of_condition(op, arguments);
    if (!(op->info.flags & (TD_OP_POINTWISE | TD_OP_PROMOTES)) || op->info.flags & TD_OP_INPLACE)
        return format;
    for (int i = 0; i < op->info.n_arguments; i++)
        for (int k = 0; k < td_tensors_in(&arguments[i]) && n < ROOM; k++) {
            td_tensor *x = td_tensor_in(&arguments[i], k);
            if (x != TD_NONE && !op->info.arguments[i].is_out && i != condition)
                operands[n++] = x;
        }
    return n ? td_result_type(n, operands) : format;
}

static bool is_moved(const td_op *op, const td_value *arguments, td_dtype format)
{
    const td_op_traits *traits = op->info.traits;
    if (!(traits->moved >> format & 1))
        return false;
    const int i = traits->moved_unless ? td_argument_index(op, traits->moved_unless) : -1;
    return i < 0 || !(arguments[i].kind == TD_VALUE_BOOL && arguments[i].integer);
}

/* One call on its way: which tensors stand for which. */
typedef struct call {
    td_frame  frame;
    td_dtype  format, inner;        /* what stands for the format */
    bool      moves;
    int       n;
    struct { td_tensor *given, *inside; bool written; } *pairs;
} call;

static td_tensor *over_same_memory(td_tensor *x, td_dtype dtype)
{
    TD_AUTO td_tensor *plain = x->keys & of_bits ? td_as_contiguous(x, (td_dtype)x->dtype) : td_tensor_retain(x);
    return plain ? td_alias_as(plain, dtype, plain->ndim, plain->sizes, plain->strides) : NULL;
}

/* A number as an element of the format, and that as an integer. */
static int number_of_bits(td_dtype format, td_scalar *number)
{
    TD_AUTO td_tensor *one = td_tensor_new(0, NULL, format, (td_device){TD_CPU, -1});
    if (!one || td_fill_scalar_(one, *number))
        return -1;
    TD_AUTO td_tensor *bits = over_same_memory(one, integer_of(format));
    return bits ? td_tensor_item(bits, number) : -1;
}

static td_tensor *inside_of(call *c, td_tensor *x, bool promotes, bool written)
{
    for (int i = 0; i < c->n; i++)
        if (c->pairs[i].given == x) {
            c->pairs[i].written |= written;
            return c->pairs[i].inside;
        }
    td_tensor *y = NULL;
    if ((td_dtype)x->dtype != c->format && promotes && !written) {
        TD_AUTO td_tensor *same = td_as_contiguous(x, c->format);
        y = !same ? NULL : c->moves ? over_same_memory(same, c->inner) : td_as_contiguous(same, c->inner);
    } else if (written && !c->moves && (td_dtype)x->dtype == td_dtype_to_real(c->format)) {
        y = td_as_contiguous(x, td_dtype_to_real(c->inner));       /* out= of a modulus */
    } else if ((td_dtype)x->dtype != c->format) {
        return x;
    } else {
        y = c->moves ? over_same_memory(x, c->inner) : td_as_contiguous(x, c->inner);
    }
    if (!td_frame_keep(&c->frame, y))
        return NULL;
    c->pairs[c->n].given = x, c->pairs[c->n].inside = y, c->pairs[c->n++].written = written;
    return y;
}

static int enter(call *c, const td_op *op, bool promotes)
{
    const int condition = place_of_condition(op, c->frame.values);
    for (int i = 0; i < c->frame.count; i++) {
        td_value *v = &c->frame.values[i];
        const td_arg *a = &op->info.arguments[i];
        for (int k = 0; k < td_tensors_in(v); k++) {
            td_tensor *x = td_tensor_in(v, k);
            td_tensor *y = x == TD_NONE ? x : inside_of(c, x, promotes && i != condition, a->is_mutable || a->is_updated);
            if (!y)
                return -1;
            *(v->kind == TD_VALUE_TENSOR ? &v->tensor : &c->frame.lists[i][k]) = y;
        }
        if (c->moves && v->kind == TD_VALUE_SCALAR && number_of_bits(c->format, &v->scalar))
            return -1;
    }
    return 0;
}

/* What was written is in the given tensor's memory already where it was moved, but out= may have another shape, and other memory. */
static int write_back(call *c)
{
    for (int i = 0; i < c->n; i++) {
        td_tensor *given = c->pairs[i].given, *inside = c->pairs[i].inside;
        if (!c->pairs[i].written)
            continue;
        const bool resized = given->ndim != inside->ndim || memcmp(given->sizes, inside->sizes, sizeof *given->sizes * (size_t)given->ndim);
        if (c->moves && (given->data != inside->data || resized)) {
            given->data = inside->data;
            if (td_tensor_set_geometry(given, inside->ndim, inside->sizes, inside->strides))
                return -1;
        } else if (!c->moves && ((resized && td_resize(given, inside->ndim, inside->sizes)) || td_copy_elements(given, inside))) {
            return -1;
        }
    }
    return 0;
}

/* A result in the format: takes over `x`. */
static td_tensor *leave(call *c, td_tensor *x)
{
    for (int i = 0; i < c->n; i++)
        if (c->pairs[i].inside == x) {
            td_tensor_release(x);
            return td_tensor_retain(c->pairs[i].given);
        }
    if (!x || x == TD_NONE)
        return x;
    const td_dtype to = (td_dtype)x->dtype == c->inner ? c->format
                        : !c->moves && (td_dtype)x->dtype == td_dtype_to_real(c->inner) ? td_dtype_to_real(c->format) : (td_dtype)x->dtype;
    if (to == (td_dtype)x->dtype)
        return x;
    td_tensor *y = c->moves ? td_alias_as(x, to, x->ndim, x->sizes, x->strides) : td__to_copy(x, to, TD_DEVICE_NONE, false, TD_MEMORY_FORMAT_NONE);
    td_tensor_release(x);
    return y;
}

static int leave_all(call *c, const td_op *op, td_value *results)
{
    int status = write_back(c);
    for (int r = 0; r < op->info.n_results && !status; r++)
        for (int k = 0; k < td_tensors_in(&results[r]) && !status; k++) {
            td_tensor **place = td_place_of(&results[r], k);
            status = (*place = leave(c, *place)) ? 0 : -1;
        }
    if (status)
        td_values_release(results, op->info.n_results);
    return status;
}

static int refuse(const td_op *op, td_dtype dtype)
{
    if (td_is_foreign_dtype(dtype))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for a dtype from outside; convert it first, with .to()", op->info.name);
    return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'; convert it first, with .to()", op->info.name, td_dtype_title(dtype));
}

int td_call_with_formats(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results)
{
    const td_op_traits *traits = op->info.traits;
    const td_keyset below = keys & ~TD_KEYSET(TD_KEY_DTYPE);
    const td_dtype format = format_of(op, arguments), result = format < 0 ? format : promoted(op, arguments, format);
    if (result == TD_DTYPE_NONE)
        return -1;
    call c = {.format = format, .moves = is_moved(op, arguments, format)};
    if (result != format)               /* complex32 and what is wider: the others' dtype for all */
        c.moves = false, c.inner = result;
    else if (c.moves)
        c.inner = integer_of(format);
    else if (traits->widened >> format & 1)
        c.inner = format == TD_C32 ? TD_C64 : TD_F32;
    else if (op->info.flags & TD_OP_POINTWISE && !td_converts(format))     /* whatever it is promoted to */
        return refuse(op, format);
    else
        return op->info.flags & TD_OPS_OF_ANY_DTYPE || traits->known >> format & 1 ? td_op_call_keys(op, below, arguments, results) : refuse(op, format);
    int tensors = 0;
    for (int i = 0; i < op->info.n_arguments; i++)
        tensors += td_tensors_in(&arguments[i]);
    const size_t bytes = sizeof *c.pairs * (size_t)(tensors + 1);
    if (!(c.pairs = td_mem_alloc(bytes)))
        return -1;
    int status = td_frame_begin(&c.frame, op, arguments);
    if (!status) {
        const bool promotes = op->info.flags & (TD_OP_POINTWISE | TD_OP_PROMOTES);
        status = enter(&c, op, promotes && c.moves) || td_op_call_keys(op, below, c.frame.values, results) ? -1 : 0;
        if (!status && result != format)
            c.format = c.inner;         /* results stay what they are; what is written is converted */
        status = status ? status : leave_all(&c, op, results);
        td_frame_end(&c.frame);
    }
    td_mem_free(c.pairs, bytes);
    return status;
}
