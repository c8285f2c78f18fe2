/* Sparse tensors on meta: a call runs on tensors of the CPU that stand in for them, and its results go to meta.
 *
 * Which shape, dtype, layout and parts come out, and what is refused, is then what the operator's kernel makes of them, with no second
 * description of it.  A stand-in has as many elements as its tensor, all zero; a strided one is one zero, expanded, unless it is
 * written to.  What depends on values (a number that is read, how many indices differ) isn't known: results have the elements
 * that zeros give, and operators that return values are refused. */
#include "calls_layouts_sparse_meta.h"
#include "dispatch/frame.h"
#include "dispatch/op.h"
#include "layouts/sparse/sparse.h"

static bool on_meta(const td_tensor *x) { return x && x != TD_NONE && x->device.type == TD_META; }

/* `x`'s part on meta, as a tensor on the CPU. */
static td_tensor *zeros_of(const td_tensor *part, bool written)
{
    if (written)
        return td_zeros(part->ndim, part->sizes, (td_dtype)part->dtype, (td_device){TD_CPU, -1});
    TD_AUTO td_tensor *zero = td_zeros(0, NULL, (td_dtype)part->dtype, (td_device){TD_CPU, -1});
    return td_expand(zero, part->ndim, part->sizes);
}

/* Compressed indices that are valid: all elements are in the last row (or column). */
static td_tensor *compressed_of(const td_tensor *indices, int64_t nnz)
{
    TD_AUTO td_tensor *all = zeros_of(indices, true);
    TD_AUTO td_tensor *last = all ? td_narrow(all, -1, indices->sizes[indices->ndim - 1] - 1, 1) : NULL;
    return last && td_fill_value(last, td_int(nnz)) == 0 ? td_ref(all) : NULL;
}

static td_tensor *stand_in(const td_tensor *x, bool written)
{
    if (!td_is_sparse(x))
        return zeros_of(x, written);
    const td_sparse *s = td_sparse_of(x);
    TD_AUTO td_tensor *values = zeros_of(s->values, false);
    if (s->layout == TD_SPARSE_COO) {
        TD_AUTO td_tensor *indices = zeros_of(s->indices, false);
        return td_coo_new(x->ndim, x->sizes, s->sparse_dim, indices, values, s->coalesced);
    }
    TD_AUTO td_tensor *plain = zeros_of(s->plain, false);
    TD_AUTO td_tensor *indices = compressed_of(s->indices, s->plain->sizes[s->plain->ndim - 1]);
    return td_compressed_new(s->layout, x->ndim, x->sizes, s->dense_dim, indices, plain, values);
}

static td_tensor *strided_to_meta(const td_tensor *x)
{
    return x ? td_empty_strided(x->ndim, x->sizes, x->ndim, x->strides, (td_dtype)x->dtype, (td_device){TD_META, -1}) : NULL;
}
static td_tensor *to_meta(const td_tensor *x)
{
    if (!td_is_sparse(x))
        return strided_to_meta(x);
    const td_sparse *s = td_sparse_of(x);
    TD_AUTO td_tensor *indices = strided_to_meta(s->indices), *values = strided_to_meta(s->values);
    TD_AUTO td_tensor *plain = s->plain ? strided_to_meta(s->plain) : td_ref(TD_NONE);
    return s->plain ? td_compressed_new(s->layout, x->ndim, x->sizes, s->dense_dim, indices, plain, values)
                    : td_coo_new(x->ndim, x->sizes, s->sparse_dim, indices, values, s->coalesced);
}

/* A call's operands beside those that stand in for them. */
typedef struct operands { td_tensor *there[TD_MOST_ARGUMENTS], *here[TD_MOST_ARGUMENTS]; int n; } operands;

static td_tensor *substitute(td_frame *f, operands *all, td_tensor *x, bool written)
{
    if (!on_meta(x))
        return x;
    for (int i = 0; i < all->n; i++)
        if (all->there[i] == x)
            return all->here[i];
    td_tensor *here = td_frame_keep(f, stand_in(x, written));
    if (here && all->n < TD_MOST_ARGUMENTS)
        all->there[all->n] = x, all->here[all->n++] = here;
    return here;
}

/* What was written to has the shape, or the parts, that its stand-in has by now. */
static int write_back(const operands *all, const td_op *op, const td_value *arguments)
{
    for (int k = 0; k < op->info.n_arguments; k++)
        for (int i = 0; i < all->n && arguments[k].kind == TD_VALUE_TENSOR && op->info.arguments[k].is_mutable; i++) {
            td_tensor *x = arguments[k].tensor;
            if (x != all->there[i])
                continue;
            if (!td_is_sparse(x)) {
                if (td_resize(x, all->here[i]->ndim, all->here[i]->sizes))
                    return -1;
                continue;
            }
            TD_AUTO td_tensor *made = to_meta(all->here[i]);
            if (!made || td_layout_take(x, made))
                return -1;
        }
    return 0;
}

static td_tensor *result_of(const operands *all, td_tensor *here)
{
    if (!here || here == TD_NONE || on_meta(here))
        return here;
    td_tensor *there = NULL;
    for (int i = 0; i < all->n && !there; i++)
        if (all->here[i] == here)
            there = td_ref(all->there[i]);
    there = there ? there : to_meta(here);
    td_tensor_release(here);
    return there;
}

static int without_values(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_frame f;
    operands all = {.n = 0};
    if (op->info.n_arguments > TD_MOST_ARGUMENTS)
        return td_error(TD_E_RUNTIME, "%s: too many arguments for sparse tensors on meta", op->info.name);
    if (op->info.flags & TD_OP_DATA_DEPENDENT)
        return td_error(TD_E_NOT_IMPLEMENTED, "%s: what it gives depends on values, which tensors on meta have none of", op->info.name);
    if (td_frame_begin(&f, op, arguments))
        return -1;
    int status = 0;
    for (int i = 0; i < f.count && status == 0; i++) {
        td_value *v = &f.values[i];
        const bool written = op->info.arguments[i].is_mutable;
        if (v->kind == TD_VALUE_DEVICE && v->device.type == TD_META)
            v->device = (td_device){TD_CPU, -1};
        if (v->kind == TD_VALUE_TENSOR)
            status = (v->tensor = substitute(&f, &all, v->tensor, written)) || !arguments[i].tensor ? 0 : -1;
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count && status == 0; k++)
            status = (f.lists[i][k] = substitute(&f, &all, v->tensors[k], written)) || !arguments[i].tensors[k] ? 0 : -1;
    }
    if (status == 0 && (status = td_op_call_keys(op, (keys & ~TD_KEYS_DEVICES) | TD_KEYSET(TD_CPU), f.values, results)) == 0) {
        status = write_back(&all, op, arguments);
        for (int r = 0; r < op->info.n_results && status == 0; r++) {
            td_value *v = &results[r];
            if (v->kind == TD_VALUE_TENSOR)
                status = (v->tensor = result_of(&all, v->tensor)) ? 0 : -1;
            for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count && status == 0; k++)
                status = (((td_tensor **)v->tensors)[k] = result_of(&all, v->tensors[k])) ? 0 : -1;
        }
        if (status != 0)
            td_values_release(results, op->info.n_results);
    }
    td_frame_end(&f);
    return status;
}

__attribute__((constructor)) static void expect_meta(void)
{
    if (td_register_fallback(TD_KEY_SPARSE, TD_META, without_values, NULL) || td_register_fallback(TD_KEY_COMPRESSED, TD_META, without_values, NULL))
        td_error_clear();
}
