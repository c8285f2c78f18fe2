/* What happens to operands that kernels can't read as they lie: whose conjugate or negative is not computed yet, or whose elements
 * are unaligned.  It is the fallback on the keys Conjugate, Negative and Unaligned.
 *
 * Views pass the bits on, and what is composed of other operators leaves it to those.  Copies know the bits themselves
 * (td_copy_elements).  All other operators get copies with the values computed; what they write goes to such a copy and
 * from there, by copy_, through the bits to where it belongs.  Without such operands none of this code runs.
 *
 * Note [Unaligned elements]
 * Memory from outside, or seen as another dtype, may begin where C doesn't let an element of the dtype be read.  Such a tensor
 * carries the key Unaligned (td_tensor_update_flags), so that kernels never see one; td_copy_elements copies its bytes, and what
 * reads single elements without an operator (td_tensor_item, tolist) does it by memcpy. */
#include "calls_ops_iterate_lazy.h"
#include "base/once.h"
#include "ops/iterate/lazy.h"

#include <string.h>
#include <tede/auto.h>
#include "base/watch.h"
#include "dispatch/outputs.h"

static bool has_bits(const td_tensor *x) { return x->flags & (TD_FLAG_CONJ | TD_FLAG_NEG); }

/* Operators that see to the bits themselves, or change nothing but geometry. */
static bool knows_bits(const td_op *op)
{
    return op->info.flags & (TD_OP_VIEW | TD_OP_COMPOSITE | TD_OP_INPLACE_VIEW | TD_OP_KNOWS_BITS);
}

/* What an operand was replaced by. */
typedef struct stand_in { td_tensor *original, *copy; bool written; } stand_in;
typedef struct frame {
    const td_op  *op;
    td_value     *values;
    stand_in     *stand_ins;
    td_tensor   **items;            /* of lists, one after the other */
    int64_t       n_values, n_stand_ins, n_items;
} frame;

/* Also of a frame that frame_begin could not finish: the copies made until then are counted in n_stand_ins. */
static void frame_end(frame *f)
{
    for (int64_t i = 0; f->stand_ins && i < f->n_stand_ins; i++)
        td_tensor_release(f->stand_ins[i].copy);
    td_mem_free(f->values, sizeof *f->values * (size_t)f->n_values);
    td_mem_free(f->stand_ins, sizeof *f->stand_ins * (size_t)(f->n_values + f->n_items));
    td_mem_free(f->items, sizeof *f->items * (size_t)f->n_items);
}

/* Where *place holds a lazy tensor, a copy with the bits resolved takes its place; the frame owns the copy.  An operand that occurs
 * twice gets two copies. */
static int replace(frame *f, td_tensor **place, bool written)
{
    if (*place == TD_NONE || !((*place)->keys & TD_KEYS_LAZY))
        return 0;
    if (TD_UNLIKELY(td_strict_views) && has_bits(*place)) {
        td_shape_text sizes;
        return td_error(TD_E_RUNTIME, "%s would copy its operand of shape %s, which is only marked as %s, which strict_views forbids; "
                        "use .resolve_conj().resolve_neg() where the copy is meant", f->op->info.name,
                        td_shape_str((*place)->ndim, (*place)->sizes, sizes), (*place)->flags & TD_FLAG_CONJ ? "conjugated" : "negated");
    }
    td_tensor *copy = td_clone(*place);
    if (!copy)
        return -1;
    f->stand_ins[f->n_stand_ins++] = (stand_in){*place, copy, written};
    *place = copy;
    return 0;
}

/* The arguments are the caller's, so the frame copies the array and the lists in it before anything is replaced.  Room for the
 * stand-ins is made once, for as many as there are arguments and items. */
static int frame_begin(frame *f, const td_op *op, const td_value *arguments)
{
    *f = (frame){.op = op, .n_values = op->info.n_arguments};
    for (int64_t i = 0; i < f->n_values; i++)
        f->n_items += arguments[i].kind == TD_VALUE_TENSORS ? arguments[i].count : 0;
    f->values = td_mem_alloc(sizeof *f->values * (size_t)f->n_values);
    f->stand_ins = td_mem_alloc(sizeof *f->stand_ins * (size_t)(f->n_values + f->n_items));
    f->items = f->n_items ? td_mem_alloc(sizeof *f->items * (size_t)f->n_items) : NULL;
    if (!f->values || !f->stand_ins || (f->n_items && !f->items))
        return -1;
    td_tensor **items = f->items;
    for (int64_t i = 0; i < f->n_values; i++) {
        td_value *v = &f->values[i];
        *v = arguments[i];
        bool written = op->info.arguments[i].is_mutable;
        if (v->kind == TD_VALUE_TENSOR && replace(f, &v->tensor, written))
            return -1;
        if (v->kind != TD_VALUE_TENSORS || !v->count)
            continue;
        memcpy(items, v->tensors, sizeof *items * (size_t)v->count);
        v->tensors = items;
        for (int k = 0; k < v->count; k++)
            if (replace(f, &items[k], written))
                return -1;
        items += v->count;
    }
    return 0;
}

/* What was written to stand-ins goes to the originals, which are the results, too. */
static int write_back(const frame *f, const td_op *op, td_value *results)
{
    for (int64_t i = 0; i < f->n_stand_ins; i++) {
        const stand_in *s = &f->stand_ins[i];
        if (!s->written)
            continue;
        if (td_resize_output(s->original, s->copy->ndim, s->copy->sizes) || td_copy_from_(s->original, s->copy, false))
            return -1;
        for (int r = 0; r < op->info.n_results; r++)
            if (results[r].kind == TD_VALUE_TENSOR && results[r].tensor == s->copy) {
                td_tensor_release(s->copy);
                results[r].tensor = td_tensor_retain(s->original);
            }
    }
    return 0;
}

/* The fallback itself.  The lazy keys are masked for the call below, which would arrive here again otherwise. */
static int resolve(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_keyset below = keys & ~TD_KEYS_LAZY;
    if (knows_bits(op))
        return td_op_call_keys(op, below, arguments, results);
    frame f;
    int status = frame_begin(&f, op, arguments);
    if (status == 0)
        status = td_op_call_keys(op, below, f.values, results);
    if (status == 0 && (status = write_back(&f, op, results)) != 0)
        td_values_release(results, op->info.n_results);
    frame_end(&f);
    return status;
}

static int register_bits(void)
{
    return td_register_fallback(TD_KEY_CONJUGATE, TD_CPU, resolve, NULL) == 0 &&
           td_register_fallback(TD_KEY_NEGATIVE, TD_CPU, resolve, NULL) == 0 ? 0 : -1;
}
/* Unaligned memory may come at any time, and from where operators aren't known. */
__attribute__((constructor)) static void expect_unaligned(void)
{
    if (td_register_fallback(TD_KEY_UNALIGNED, TD_CPU, resolve, NULL))
        td_error_clear();
}
int td_lazy_ready(void)
{
    static td_once once;
    return td_once_run(&once, register_bits);
}
