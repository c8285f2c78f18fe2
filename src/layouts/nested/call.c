/* Calls on nested tensors.
 *
 * Note [Nested calls]
 * A call comes here before autograd has it (TD_KEY_PARTS): it is made one, or several, on the values or on the components, which are strided tensors, and
 * what those give is made nested again.  The two operators that lead to values and back record, and whatever is called between them; so no gradient
 * knows of nested tensors, and an operator on them needs no derivative.
 *
 * What is called is said by the operator's entry, `layouts: {nested: ...}`:
 *
 *   values      the operator on all elements: nothing depends on where they are
 *   rows        ... on what lies behind the ragged dimension; other operands are passed as they are
 *   dims        ... in dimensions that are numbered; along the ragged one, once per component
 *   reduced     ... which go, or become 1
 *   kernel      a function here, td_nested_X
 *   same below  no part of this: the operator's own body, or td_nested_X, behind autograd
 *
 * What is elementwise is `values` without an entry, and a composite runs its body.  An in-place operator is the functional one, whose result is copied;
 * without one it runs on the values, and has no gradient. */
#include "calls_layouts_nested_call.h"
#include "dispatch/frame.h"
#include "dispatch/op.h"
#include "layouts/nested/nested.h"

#include <inttypes.h>

td_tensor *td_nested_unpacked(td_tensor *x)
{
    if (!x)
        return NULL;
    if (!TD_RECORDS(x))
        return td__nested_values(x, x);
    TD_AUTO td_tensor *shell = td_alias_detached(x, true);
    return td__nested_values(x, shell);
}

td_tensor *td_nested_packed(td_tensor *values, td_tensor *like, int dim)
{
    if (!values)
        return NULL;
    if (!td_requires_grad(like))
        return td__nested_with(values, like, dim);
    TD_AUTO td_tensor *shell = td_alias_detached(like, true);
    return td__nested_with(values, shell, dim);
}

/* ---- components
 *
 * All at once by one split: its gradient is one concatenation, where that of a view for each would be as large as the whole. */

/* Where values are left out between components: these are parts of the split, too, unless components share values. */
static int between_gaps(td_tensor_list *list, td_tensor *values, const td_ragged *r, int dim)
{
    const int64_t count = r->n;
    const size_t room = sizeof(int64_t) * (size_t)(2 * count + 1);
    int64_t *sizes = td_mem_alloc(room), at = 0;
    bool ordered = sizes != NULL;
    for (int64_t i = 0; i < count && ordered; i++) {
        ordered = r->starts[i] >= at;
        sizes[2 * i] = r->starts[i] - at, sizes[2 * i + 1] = r->counts[i];
        at = r->starts[i] + r->counts[i];
    }
    if (sizes)
        sizes[2 * count] = values->sizes[dim] - at;
    td_tensor_list all = {0};
    int status = !sizes ? -1 : td_tensor_list_new(list, count);
    ordered &= status == 0 && at <= values->sizes[dim];
    for (int64_t i = 0; i < count && status == 0; i++)
        if (r->starts[i] + r->counts[i] > values->sizes[dim])
            status = td_error(TD_E_RUNTIME, "unbind(): nested tensor offsets and lengths do not match ragged_idx dimension: component %" PRId64
                              " ends at %" PRId64 ", of %" PRId64, i, r->starts[i] + r->counts[i], values->sizes[dim]);
    if (ordered && status == 0)
        status = td_split_with_sizes(&all, values, 2 * count + 1, sizes, dim);
    td_mem_free(sizes, room);
    for (int64_t i = 0; i < count && status == 0; i++)
        status = (list->items[i] = ordered ? td_ref(all.items[2 * i + 1]) : td_narrow(values, dim, r->starts[i], r->counts[i])) ? 0 : -1;
    td_tensor_list_release(&all);
    if (status)
        td_tensor_list_release(list);
    return status;
}

int td_nested_components(td_tensor_list *list, td_tensor *x)
{
    const td_nested *n = td_nested_of(x);
    const int64_t count = td_nested_count(x);
    TD_AUTO td_tensor *values = td_nested_unpacked(x);
    if (!values)
        return -1;
    if (n->ragged) {
        const td_ragged *r = n->ragged;
        const int dim = td_inner_dim(n->dim);
        if (!r->lengths && count && r->starts[0] == 0 && r->starts[count - 1] + r->counts[count - 1] == values->sizes[dim])
            return td_split_with_sizes(list, values, count, r->counts, dim);
        return between_gaps(list, values, r, dim);
    }
    const int ndim = (int)n->sizes->sizes[1];
    const size_t room = sizeof(int64_t) * (size_t)(count + 1);
    int64_t *lengths = td_mem_alloc(room);
    for (int64_t i = 0; lengths && i < count; i++)
        lengths[i] = td_numel_checked(ndim, td_nested_sizes(x, i));
    td_tensor_list lines = {0};
    int status = lengths && td_split_with_sizes(&lines, values, count, lengths, 0) == 0 ? td_tensor_list_new(list, count) : -1;
    td_mem_free(lengths, room);
    for (int64_t i = 0; i < count && status == 0; i++)
        status = (list->items[i] = td_view(lines.items[i], ndim, td_nested_sizes(x, i))) ? 0 : -1;
    if (status)
        td_tensor_list_release(list);
    td_tensor_list_release(&lines);
    return status;
}

td_tensor *td_nested_component(td_tensor *x, int64_t i)
{
    const td_nested *n = td_nested_of(x);
    TD_AUTO td_tensor *values = td_nested_unpacked(x);
    if (n->ragged)
        return td_narrow(values, td_inner_dim(n->dim), n->ragged->starts[i], n->ragged->counts[i]);
    const int ndim = (int)n->sizes->sizes[1];
    int64_t at = 0;
    for (int64_t k = 0; k < i; k++)
        at += td_numel_checked(ndim, td_nested_sizes(x, k));
    TD_AUTO td_tensor *line = td_narrow(values, 0, at, td_numel_checked(ndim, td_nested_sizes(x, i)));
    return td_view(line, ndim, td_nested_sizes(x, i));
}

td_tensor *td_nested_joined(const td_tensor_list *list, td_tensor *like, int dim)
{
    const td_nested *n = td_nested_of(like);
    if (!n->ragged)
        return td_nested_of_list(list->count, list->items);
    if (!list->count)
        return td_nested_packed(n->values, like, n->dim);
    const td_ragged *r = n->ragged;
    TD_AUTO td_tensor *values = td_cat(list->count, list->items, td_inner_dim(dim));
    if (!values)
        return NULL;
    bool same = !r->lengths && values->sizes[td_inner_dim(dim)] == n->values->sizes[td_inner_dim(n->dim)];
    for (int64_t i = 0; i < list->count && same; i++)
        same = list->items[i]->sizes[td_inner_dim(dim)] == r->counts[i];
    if (same)
        return td_nested_packed(values, like, dim);
    const size_t room = sizeof(int64_t) * (size_t)list->count;
    int64_t *counts = td_mem_alloc(room);
    for (int64_t i = 0; counts && i < list->count; i++)
        counts[i] = list->items[i]->sizes[td_inner_dim(dim)];
    td_ragged *packed = counts ? td_ragged_of_counts(list->count, counts, like->device) : NULL;
    td_mem_free(counts, room);
    td_tensor *x = packed ? td__nested_of_jagged(values, packed->offsets, TD_NONE, dim, NULL, NULL) : NULL;
    td_ragged_release(packed);
    return x;
}

int td_nested_each(td_tensor_list *list, td_tensor *x, td_each *each, void *context)
{
    td_tensor_list all = {0};
    if (td_nested_components(&all, x))
        return -1;
    int status = td_tensor_list_new(list, all.count);
    for (int64_t i = 0; i < all.count && status == 0; i++)
        status = (list->items[i] = each(all.items[i], context)) ? 0 : -1;
    if (status)
        td_tensor_list_release(list);
    td_tensor_list_release(&all);
    return status;
}

void *td_nested_refuse(const td_op *op, const td_tensor *x)
{
    const char *dot = *op->info.overload ? "." : "", *overload = op->info.overload;
    if (td_is_jagged(x))
        return td_fail(TD_E_NOT_IMPLEMENTED, "%s.%s.%s", td_op_space(op), op->info.name, *overload ? overload : "default");
    return td_fail(TD_E_NOT_IMPLEMENTED, "Could not run '%s::%s%s%s' with arguments from the 'NestedTensorCPU' backend.", td_op_space(op), op->info.name,
                   dot, overload);
}

/* ---- a call's operands */

static bool is_tensor(const td_tensor *x) { return x && x != TD_NONE; }

static td_tensor **member(td_frame *f, int i, int k)
{
    td_value *v = &f->values[i];
    return v->kind == TD_VALUE_TENSOR ? k == 0 ? &v->tensor : NULL : v->kind == TD_VALUE_TENSORS && k < v->count ? &f->lists[i][k] : NULL;
}

/* The first nested operand; NULL if only an out= is nested. */
static td_tensor *model(td_frame *f)
{
    td_tensor **x;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; (x = member(f, i, k)); k++)
            if (is_tensor(*x) && td_is_nested(*x))
                return *x;
    return NULL;
}

static td_tensor *mismatch(const td_op *op, const td_tensor *a, const td_tensor *b)
{
    td_shape_text one, two;
    const bool both = td_is_nested(a) && td_is_nested(b);
    char *x = (char *)td_shape_str(a->ndim, a->sizes, one), *y = (char *)td_shape_str(b->ndim, b->sizes, two);
    if (both)
        x[0] = y[0] = '(', x[strlen(x) - 1] = y[strlen(y) - 1] = ')';
    return td_fail(TD_E_RUNTIME, "cannot call binary pointwise function %s.%s with inputs of shapes %s%s%s and %s%s%s", op->info.name,
                   *op->info.overload ? op->info.overload : "default", both ? "" : "torch.Size(", x, both ? "" : ")", both ? "" : "torch.Size(", y,
                   both ? "" : ")");
}

/* The component that each row of the values belongs to. */
static td_tensor *owners(const td_tensor *x)
{
    const td_nested *n = td_nested_of(x);
    const int64_t rows = n->values->sizes[td_inner_dim(n->dim)];
    TD_AUTO td_tensor *list = td_zeros(1, &rows, TD_I64, TD_DEVICE_NONE);
    if (!list)
        return NULL;
    int64_t *to = (int64_t *)list->data;
    for (int64_t i = 0; i < n->ragged->n; i++)
        for (int64_t k = 0; k < n->ragged->counts[i] && n->ragged->starts[i] + k < rows; k++)
            to[n->ragged->starts[i] + k] = i;
    return x->device.type == TD_CPU ? td_ref(list) : td__to_copy(list, TD_DTYPE_NONE, x->device, false, TD_MEMORY_FORMAT_NONE);
}

/* A strided operand of an elementwise call as it broadcasts against the values of `like`. */
static td_tensor *against_values(const td_op *op, td_tensor *x, td_tensor *like)
{
    const td_nested *n = td_nested_of(like);
    const int missing = like->ndim - x->ndim, at = n->dim - missing;        /* where the ragged dimension would be */
    if (missing < 0)
        return td_fail(TD_E_NOT_IMPLEMENTED, "NYI: broadcasting NT with T with larger dim");
    const int64_t rows = at >= 0 ? x->sizes[at] : 1, batch = missing == 0 ? x->sizes[0] : 1;
    if (batch == 1 && rows == 1)
        return missing == 0 ? td_squeeze_dim(x, 0) : td_ref(x);
    if (missing != 0 || batch != like->sizes[0] || (rows != 1 && rows != n->ragged->longest))
        return mismatch(op, like, x);
    if (rows != 1) {        /* one that is padded: the rows that there are */
        td_tensor_list list = {0};
        if (td_tensor_list_new(&list, batch))
            return NULL;
        td_tensor *packed = NULL;
        bool made = true;
        for (int64_t i = 0; i < batch && made; i++) {
            TD_AUTO td_tensor *one = td_select_int(x, 0, i);
            made = (list.items[i] = td_narrow(one, td_inner_dim(n->dim), 0, n->ragged->counts[i])) != NULL;
        }
        if (made && !n->ragged->lengths)
            packed = td_cat(batch, list.items, td_inner_dim(n->dim));
        else if (made)
            mismatch(op, like, x);
        td_tensor_list_release(&list);
        return packed;
    }
    TD_AUTO td_tensor *flat = td_squeeze_dim(x, at), *which = owners(like), *spread = td_index_select(flat, 0, which);
    return n->dim == 1 ? td_ref(spread) : td_movedim_int(spread, 0, td_inner_dim(n->dim));
}

static bool same_structure(const td_tensor *a, const td_tensor *b)
{
    const td_nested *x = td_nested_of(a), *y = td_nested_of(b);
    if (x->ragged || y->ragged)
        return x->ragged == y->ragged && x->dim == y->dim && a->ndim == b->ndim;
    return x->sizes->sizes[0] == y->sizes->sizes[0] && x->sizes->sizes[1] == y->sizes->sizes[1] &&
           (!x->sizes->numel || !memcmp(x->sizes->data, y->sizes->data, sizeof(int64_t) * (size_t)x->sizes->numel));
}

/* ---- the dimensions that a call names */

typedef struct dims {
    bool    any, batch, ragged;         /* whether one is named; whether the batch's and the ragged one are */
    int     n, below;                   /* how many; how many of them come before the ragged one */
    int64_t inner[2][TD_MAX_DIMS];      /* of the values or components, by argument */
} dims;

/* Replaces the frame's dimensions by those of the values; -1 with an error. */
static int inner_dims(td_frame *f, const td_op *op, const td_tensor *like, dims *d)
{
    const td_nested *n = td_nested_of(like);
    int arguments = 0;
    *d = (dims){0};
    for (int i = 0; i < f->count; i++) {
        td_value *v = &f->values[i];
        if (!td_names_dims(&op->info.arguments[i]) || (v->kind != TD_VALUE_INT && v->kind != TD_VALUE_INTS))
            continue;
        if (arguments == 2 || (v->kind == TD_VALUE_INTS && v->count > TD_MAX_DIMS))
            return td_error(TD_E_RUNTIME, "%s: too many dimensions", op->info.name);
        int64_t *inner = d->inner[arguments++], kept = 0;
        for (int k = 0; k < (v->kind == TD_VALUE_INT ? 1 : v->count); k++) {
            const int dim = td_wrap_dim(v->kind == TD_VALUE_INT ? v->integer : v->ints[k], like->ndim);
            if (dim < 0)
                return -1;
            d->any = true, d->n++;
            d->batch |= dim == 0;
            d->ragged |= n->ragged && dim == n->dim;
            d->below += n->ragged && dim > 0 && dim < n->dim;
            if (dim > 0)
                inner[kept++] = td_inner_dim(dim);
        }
        if (v->kind == TD_VALUE_INT)
            v->integer = inner[0];
        else
            v->ints = inner, v->count = (int32_t)kept;
    }
    return 0;
}

static bool flag(td_frame *f, const td_op *op, const char *name)
{
    const int i = td_argument_index(op, name);
    return i >= 0 && f->values[i].kind == TD_VALUE_BOOL && f->values[i].integer;
}

/* ---- results */

typedef td_tensor *wrap_result(td_tensor *x, void *context);

/* Replaces each tensor among the results, which are released on an error. */
static int map_results(const td_op *op, td_value *results, wrap_result *wrap, void *context)
{
    int status = 0;
    for (int r = 0; r < op->info.n_results; r++) {
        td_tensor *const *first = results[r].kind == TD_VALUE_TENSORS ? results[r].tensors : &results[r].tensor;
        const int64_t count = results[r].kind == TD_VALUE_TENSORS ? results[r].count : results[r].kind == TD_VALUE_TENSOR;
        for (int64_t i = 0; i < count && status == 0; i++) {
            td_tensor **place = (td_tensor **)first + i, *x = *place;
            td_tensor *wrapped = is_tensor(x) ? wrap(x, context) : td_ref(x);
            if (!wrapped) {
                status = -1;
                break;
            }
            *place = wrapped;
            td_tensor_release(x);
        }
    }
    if (status)
        td_values_release(results, op->info.n_results);
    return status;
}

typedef struct packing { td_tensor *like; int dim; } packing;
static td_tensor *pack(td_tensor *x, void *context) { return td_nested_packed(x, ((packing *)context)->like, ((packing *)context)->dim); }
static td_tensor *add_batch(td_tensor *x, void *context) { return (void)context, td_unsqueeze(x, 0); }

/* ---- once per component */

typedef enum joining { JOIN_COMPONENTS, STACK } joining;

/* Operands of which each component's call gets its part; the parts of all, made at once. */
typedef struct operand { int argument, member; td_tensor_list parts; } operand;
typedef struct operands { int n, room; operand *all; } operands;

static void operands_release(operands *o)
{
    for (int i = 0; i < o->n; i++)
        td_tensor_list_release(&o->all[i].parts);
    td_mem_free(o->all, sizeof *o->all * (size_t)o->room);
}

static int parts_of_operand(td_tensor_list *parts, td_tensor *x, int64_t count)
{
    if (td_is_nested(x))
        return td_nested_components(parts, x);
    if (x->sizes[0] != 1)
        return td_unbind_int(parts, x, 0);
    TD_AUTO td_tensor *one = td_squeeze_dim(x, 0);
    if (!one || td_tensor_list_new(parts, count))
        return -1;
    for (int64_t i = 0; i < count; i++)
        parts->items[i] = td_tensor_retain(one);
    return 0;
}

/* Nested operands, and, if the operator broadcasts, those that have a row for each component. */
static int operands_of(operands *o, td_frame *f, const td_tensor *like, bool broadcasts)
{
    td_tensor **x;
    int room = 0, status = 0;
    for (int i = 0; i < f->count; i++)
        room += td_tensors_in(&f->values[i]);
    *o = (operands){.room = room, .all = td_mem_alloc(sizeof *o->all * (size_t)room)};
    if (!o->all)
        return -1;
    for (int i = 0; i < f->count && status == 0; i++)
        for (int k = 0; (x = member(f, i, k)) && status == 0; k++)
            if (is_tensor(*x) && (td_is_nested(*x) || (broadcasts && (*x)->ndim >= like->ndim))) {
                o->all[o->n] = (operand){.argument = i, .member = k};
                status = parts_of_operand(&o->all[o->n++].parts, *x, td_nested_count(like));
            }
    if (status)
        operands_release(o);
    return status;
}

static int join_results(const td_op *op, td_value *all, int64_t count, td_tensor *like, int dim, joining how, td_value *results)
{
    const int n = op->info.n_results;
    int status = 0;
    for (int r = 0; r < n; r++)
        results[r] = (td_value){0};
    for (int r = 0; r < n && status == 0; r++) {
        const bool is_list = all[r].kind == TD_VALUE_TENSORS;
        const int64_t items = is_list ? all[r].count : 1;
        td_tensor_list made = {0}, parts = {0};
        if (td_tensor_list_new(&made, items) || td_tensor_list_new(&parts, count)) {
            td_tensor_list_release(&made);
            status = -1;
            break;
        }
        for (int64_t k = 0; k < items && status == 0; k++) {
            for (int64_t i = 0; i < count && status == 0; i++) {
                const td_value *v = &all[i * n + r];
                td_tensor *x = is_list ? k < v->count ? v->tensors[k] : NULL : v->tensor;
                td_tensor_release(parts.items[i]);
                parts.items[i] = x ? td_tensor_retain(x) : td_fail(TD_E_RUNTIME, "%s: the components give different numbers of tensors", op->info.name);
                status = x ? 0 : -1;
            }
            if (status == 0)
                made.items[k] = how == STACK ? td_stack(count, parts.items, 0) : td_nested_joined(&parts, like, dim);
            status = made.items[k] ? 0 : -1;
        }
        td_tensor_list_release(&parts);
        if (status == 0 && is_list) {
            results[r] = (td_value){.kind = TD_VALUE_TENSORS, .count = (int32_t)items, .tensors = made.items};
        } else {
            if (status == 0)
                results[r] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(made.items[0])};
            td_tensor_list_release(&made);
        }
    }
    if (status)
        td_values_release(results, n);
    return status;
}

/* The call once per component, whose dimensions the frame has already; the results are joined. */
static int per_component(const td_op *op, td_frame *f, td_tensor *like, bool broadcasts, int dim, joining how, td_value *results)
{
    const int64_t count = td_nested_count(like);
    const int n = op->info.n_results;
    td_value *all = count ? td_mem_alloc(sizeof *all * (size_t)(count * n)) : NULL;
    operands parts = {0};
    int64_t done = 0;
    if (!all)
        return count ? -1 : td_error(TD_E_RUNTIME, "%s(): a nested tensor without components", op->info.name);
    int status = operands_of(&parts, f, like, broadcasts);
    const bool held = status == 0;
    for (; done < count && status == 0; done++) {
        td_frame one;
        if (td_frame_begin(&one, op, f->values)) {
            status = -1;
            break;
        }
        int64_t own[TD_MAX_DIMS];
        for (int i = 0; i < one.count && td_is_jagged(like); i++) {         /* sizes that name the ragged one: the component's */
            td_value *v = &one.values[i];
            if (v->kind != TD_VALUE_INTS || v->count > TD_MAX_DIMS)
                continue;
            bool named = false;
            for (int d = 0; d < v->count; d++) {
                const bool symbol = td_size_is_symbol(v->ints[d]);
                own[d] = symbol ? td_nested_of(like)->ragged->counts[done] : v->ints[d];
                named |= symbol;
            }
            v->ints = named ? own : v->ints;
        }
        for (int i = 0; i < parts.n; i++)
            *member(&one, parts.all[i].argument, parts.all[i].member) = parts.all[i].parts.items[done];
        status = td_op_call(op, one.values, all + done * n);
        td_frame_end(&one);
        if (status)
            break;
    }
    if (status == 0)
        status = join_results(op, all, count, like, dim, how, results);
    for (int64_t i = 0; i < done; i++)
        td_values_release(all + i * n, n);
    td_mem_free(all, sizeof *all * (size_t)(count * n));
    if (held)
        operands_release(&parts);
    return status;
}

/* ---- patterns */

/* The frame's operands as those of a call on the values. */
static int to_values(const td_op *op, td_frame *f, td_tensor *like, bool broadcasts)
{
    td_tensor **x;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; (x = member(f, i, k)); k++) {
            if (!is_tensor(*x))
                continue;
            if (td_is_nested(*x)) {
                if (!same_structure(*x, like))
                    return mismatch(op, like, *x), -1;
                *x = td_frame_keep(f, td_nested_unpacked(*x));
            } else if (broadcasts && td_is_jagged(like)) {
                *x = td_frame_keep(f, against_values(op, *x, like));
            }
            if (!*x)
                return -1;
        }
    return 0;
}

/* Whether a call can go to the buffers of tensors of the strided layout: they have one structure, and what is strided is a number. */
static bool on_buffers(td_frame *f, const td_tensor *like)
{
    td_tensor **x;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; (x = member(f, i, k)); k++)
            if (is_tensor(*x) && (td_is_nested(*x) ? !same_structure(*x, like) : (*x)->ndim > 0))
                return false;
    return true;
}

static int strided_operands(const td_op *op, td_frame *f, const td_tensor *like)
{
    td_tensor **x;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; (x = member(f, i, k)); k++) {
            if (!is_tensor(*x))
                continue;
            if (td_is_nested(*x) && td_is_jagged(*x) != td_is_jagged(like))
                return td_error(TD_E_RUNTIME, "%s: a jagged tensor and a nested tensor of the strided layout don't go together", op->info.name);
            if (td_is_nested(*x) && td_nested_count(*x) != td_nested_count(like))
                return td_error(TD_E_RUNTIME, "%s does not support broadcasting when given a NestedTensor: batches of %" PRId64 " and %" PRId64, op->info.name,
                                td_nested_count(like), td_nested_count(*x));
            if (!td_is_nested(*x) && (*x)->ndim > like->ndim)
                return td_error(TD_E_RUNTIME, "%s: Expected both self and other to be nested, but got a nested self and non-nested other", op->info.name);
            if (!td_is_nested(*x) && (*x)->ndim == like->ndim && (*x)->sizes[0] != 1 && (*x)->sizes[0] != td_nested_count(like))
                return td_error(TD_E_RUNTIME, "%s: Expected both self and other to be nested, but got a nested self and non-nested other", op->info.name);
        }
    return 0;
}

/* Whether `like` is the only nested operand. */
static bool only_nested(td_frame *f, const td_tensor *like)
{
    td_tensor **x;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; (x = member(f, i, k)); k++)
            if (is_tensor(*x) && *x != like && td_is_nested(*x))
                return false;
    return true;
}

/* What an operator gives for each element of the strided layout, be it a vector (embedding). */
static td_tensor *extend(td_tensor *x, void *context)
{
    td_tensor *like = context;
    const td_tensor *of = td_nested_of(like)->sizes;
    if (x->ndim == 1)
        return td_nested_packed(x, like, 0);
    const int64_t ndim = of->sizes[1], more = x->ndim - 1;
    TD_AUTO td_tensor *sizes = td_empty(2, (int64_t[]){of->sizes[0], ndim + more}, TD_I64), *flat = td_reshape(x, 1, (int64_t[]){x->numel});
    if (!sizes || !flat)
        return NULL;
    for (int64_t i = 0; i < of->sizes[0]; i++) {
        int64_t *to = (int64_t *)sizes->data + i * (ndim + more);
        memcpy(to, td_nested_sizes(like, i), sizeof *to * (size_t)ndim);
        memcpy(to + ndim, x->sizes + 1, sizeof *to * (size_t)more);
    }
    return td__nested_of_sizes(flat, sizes);
}

static int on_values(const td_op *op, td_frame *f, td_tensor *like, td_value *results)
{
    packing as = {like, td_nested_of(like)->dim};
    td_symbol_text text;
    for (int i = 0; i < f->count && op->info.flags & TD_OP_POINTWISE; i++)
        if (f->values[i].kind == TD_VALUE_SCALAR && f->values[i].scalar.kind == TD_SCALAR_INT && td_size_is_symbol(f->values[i].scalar.i))
            return td_error(TD_E_RUNTIME, "NestedTensor %s: invalid argument %s", op->info.name, td_symbol_str(f->values[i].scalar.i, text));
    if (!td_is_jagged(like) && !(op->info.flags & TD_OP_POINTWISE) && only_nested(f, like)) {
        if (to_values(op, f, like, false) || td_op_call(op, f->values, results))
            return -1;
        return map_results(op, results, extend, like);
    }
    if (!td_is_jagged(like) && !on_buffers(f, like))
        return strided_operands(op, f, like) ? -1 : per_component(op, f, like, true, 0, JOIN_COMPONENTS, results);
    if (to_values(op, f, like, op->info.flags & TD_OP_POINTWISE) || td_op_call(op, f->values, results))
        return -1;
    return map_results(op, results, pack, &as);
}

/* How many dimensions at the end all components of the strided layout have in common, but the first. */
static int common_dims(const td_tensor *x)
{
    const int ndim = x->ndim - 1;
    int n = 0;
    while (n < ndim - 1 && !td_size_is_symbol(x->sizes[x->ndim - 1 - n]))
        n++;
    return n;
}

typedef struct regrouping { const td_tensor *like; int common; } regrouping;

/* Rows as a nested tensor with as many in each component as `like` has. */
static td_tensor *regroup(td_tensor *x, void *context)
{
    const regrouping *g = context;
    const td_tensor *of = td_nested_of(g->like)->sizes;
    const int64_t ndim = of->sizes[1];
    if (x->ndim != g->common + 1)
        return td_fail(TD_E_RUNTIME, "nested tensors: rows have become ones of %d dimensions", x->ndim - 1);
    TD_AUTO td_tensor *sizes = td_empty(2, of->sizes, TD_I64), *flat = td_reshape(x, 1, (int64_t[]){x->numel});
    if (!sizes || !flat)
        return NULL;
    for (int64_t i = 0; i < of->sizes[0]; i++) {
        int64_t *to = (int64_t *)sizes->data + i * ndim;
        memcpy(to, td_nested_sizes(g->like, i), sizeof *to * (size_t)(ndim - g->common));
        memcpy(to + ndim - g->common, x->sizes + 1, sizeof *to * (size_t)g->common);
    }
    return td__nested_of_sizes(flat, sizes);
}

/* Whether a call that depends on `common` dimensions at the end can go to the rows of all components at once. */
static bool rows_in_common(td_frame *f, const td_tensor *like, int common)
{
    td_tensor **x;
    bool all = common > 0 && like->numel > 0;
    for (int i = 0; i < f->count && all; i++) {
        all = f->values[i].kind != TD_VALUE_INTS || f->values[i].count <= common;
        for (int k = 0; (x = member(f, i, k)) && all; k++)
            all = !is_tensor(*x) || *x == like || !td_is_nested(*x);
    }
    return all;
}

static int on_strided_rows(const td_op *op, td_frame *f, td_tensor *like, td_value *results)
{
    regrouping g = {like, common_dims(like)};
    td_tensor **x;
    for (int i = 0; i < f->count && like->numel; i++)
        if (f->values[i].kind == TD_VALUE_INTS && f->values[i].count > g.common)
            return td_error(TD_E_RUNTIME, "%s: normalized_shape extends into irregular dimensions for the nested tensor", op->info.name);
    if (!rows_in_common(f, like, g.common))
        return strided_operands(op, f, like) ? -1 : per_component(op, f, like, false, 0, JOIN_COMPONENTS, results);
    int64_t sizes[TD_MAX_DIMS] = {-1};
    memcpy(sizes + 1, like->sizes + like->ndim - g.common, sizeof *sizes * (size_t)g.common);
    TD_AUTO td_tensor *flat = td_nested_unpacked(like), *rows = td_view(flat, g.common + 1, sizes);
    if (!rows)
        return -1;
    for (int i = 0; i < f->count; i++)
        for (int k = 0; (x = member(f, i, k)); k++)
            *x = *x == like ? rows : *x;
    return td_op_call(op, f->values, results) ? -1 : map_results(op, results, regroup, &g);
}

/* Whether sizes at the end of a jagged tensor, which a call names, reach its ragged dimension: then each component is called with its own. */
static int names_ragged(const td_op *op, td_frame *f, const td_tensor *like)
{
    const td_nested *n = td_nested_of(like);
    for (int i = 0; i < f->count; i++) {
        if (f->values[i].kind != TD_VALUE_INTS || f->values[i].count < like->ndim - n->dim)
            continue;
        if (like->ndim <= 2)
            return td_error(TD_E_RUNTIME, "%s(): not supported for NestedTensor objects with 2 or fewer dimensions", op->info.name);
        if (f->values[i].count >= like->ndim)
            return td_error(TD_E_RUNTIME, "%s(): not supported when normalizing over the batch dimension for NestedTensor", op->info.name);
        if (n->ragged->lengths)
            return td_error(TD_E_RUNTIME, "%s(): not supported where lengths is not None if operating on the ragged dimension for NestedTensor", op->info.name);
        return 1;
    }
    return 0;
}

static int on_rows(const td_op *op, td_frame *f, td_tensor *like, td_value *results)
{
    packing as = {like, td_nested_of(like)->dim};
    if (!td_is_jagged(like))
        return on_strided_rows(op, f, like, results);
    const int ragged = names_ragged(op, f, like);
    if (ragged)
        return ragged < 0 ? -1 : per_component(op, f, like, false, as.dim, JOIN_COMPONENTS, results);
    if (as.dim == like->ndim - 1 && as.dim > 1)
        return td_error(TD_E_RUNTIME, "%s(): not supported for NestedTensor on ragged dim", op->info.name);
    if (to_values(op, f, like, false) || td_op_call(op, f->values, results))
        return -1;
    return map_results(op, results, pack, &as);
}

static int refuse_dim(const td_op *op, const char *what) { return td_error(TD_E_RUNTIME, "%s(): %s", op->info.name, what); }

static int along_dims(const td_op *op, td_frame *f, td_tensor *like, td_value *results)
{
    dims d;
    packing as = {like, td_nested_of(like)->dim};
    if (inner_dims(f, op, like, &d))
        return -1;
    if (d.batch && !td_is_jagged(like))
        return td_error(TD_E_RUNTIME, "Cannot apply %s across nested dimension 0", op->info.name + (*op->info.name == '_'));
    if (d.batch)
        return refuse_dim(op, "not supported for NestedTensor on dim=0 (not supported when reducing across the batch dimension for NestedTensor)");
    if (!td_is_jagged(like) || d.ragged)
        return strided_operands(op, f, like) ? -1 : per_component(op, f, like, false, as.dim, JOIN_COMPONENTS, results);
    if (to_values(op, f, like, false) || td_op_call(op, f->values, results))
        return -1;
    return map_results(op, results, pack, &as);
}

static int reduced(const td_op *op, td_frame *f, td_tensor *like, td_value *results)
{
    dims d;
    if (inner_dims(f, op, like, &d))
        return -1;
    const bool keepdim = flag(f, op, "keepdim");
    packing as = {like, td_nested_of(like)->dim - (keepdim ? 0 : d.below)};
    const bool jagged = td_is_jagged(like);
    td_tensor **x = member(f, 0, 0);
    if (!d.any || (jagged && d.batch && d.ragged)) {
        if (jagged && td_nested_of(like)->ragged->lengths) {        /* without the rows that belong to no component */
            td_tensor_list list = {0};
            if (td_nested_components(&list, like))
                return -1;
            td_tensor *joined = td_cat(list.count, list.items, td_inner_dim(td_nested_of(like)->dim));
            td_tensor_list_release(&list);
            if (!(*x = td_frame_keep(f, joined)))
                return -1;
        }
        if (to_values(op, f, like, false) || td_op_call(op, f->values, results))
            return -1;
        return keepdim && d.any ? map_results(op, results, add_batch, NULL) : 0;
    }
    if (!jagged) {
        if (d.batch)
            return refuse_dim(op, "NestedTensor can only be reduced across the last dimensions, not dimension 0");
        return per_component(op, f, like, false, 0, JOIN_COMPONENTS, results);
    }
    if (d.batch)
        return refuse_dim(op, "reducing along the batch dimension but not the ragged dimension is not supported for nested tensors");
    if (d.ragged && d.n > 1)
        return refuse_dim(op, "reducing along a ragged and non-batch dimension is not supported for nested tensors");
    if (d.ragged)
        return per_component(op, f, like, false, as.dim, STACK, results);
    if (to_values(op, f, like, false) || td_op_call(op, f->values, results))
        return -1;
    return map_results(op, results, pack, &as);
}

/* ---- in place */

/* Arguments as the functional form orders them: polygamma(n, self) is polygamma_(self, n).  False if it has others. */
static bool reordered(const td_op *op, const td_op *functional, const td_value *arguments, td_value *to)
{
    for (int k = 0; k < functional->info.n_arguments; k++) {
        const int i = td_argument_index(op, functional->info.arguments[k].name);
        if (i < 0)
            return false;
        to[k] = arguments[i];
    }
    return functional->info.n_arguments == op->info.n_arguments && functional->info.n_results == 1;
}

static int in_place(const td_op *op, td_keyset below, const td_value *arguments, td_value *results)
{
    /* Of lists, or with a number in front: made of the in-place operators on one tensor. */
    if (arguments[0].kind != TD_VALUE_TENSOR && op->composite)
        return td_op_call_composite(op, below, arguments, results);
    td_frame f;
    if (arguments[0].kind != TD_VALUE_TENSOR) {
        if (td_frame_begin(&f, op, arguments) == 0)
            td_nested_refuse(op, model(&f)), td_frame_end(&f);
        return -1;
    }
    td_tensor *self = arguments[0].tensor;
    const td_op *functional = op->functional ? td_op_find(op->functional) : NULL;
    td_value ordered[TD_MOST_ARGUMENTS];
    if (!functional || !reordered(op, functional, arguments, ordered)) {
        if (!td_is_nested(self) || op->info.flags & TD_OP_INPLACE_VIEW)     /* of the values it would say nothing of the parts */
            return td_nested_refuse(op, self), -1;
        if (TD_RECORDS(self))
            return td_error(TD_E_NOT_IMPLEMENTED, "%s: a nested tensor that requires a gradient isn't changed in place by it", op->info.name);
        if (td_frame_begin(&f, op, arguments))
            return -1;
        td_value own = {0};
        int status = to_values(op, &f, self, false) || td_op_call(op, f.values, &own) ? -1 : 0;
        td_frame_end(&f);
        td_values_release(&own, 1);
        if (status)
            return -1;
    } else {
        td_value made = {0};
        if (td_frame_begin(&f, functional, ordered))
            return -1;
        if (TD_RECORDS(self)) {     /* what is saved of it must not be written over */
            td_tensor *copy = td_frame_keep(&f, td_clone(self));
            for (int i = 0; i < f.count; i++)
                if (f.values[i].kind == TD_VALUE_TENSOR && f.values[i].tensor == self)
                    f.values[i].tensor = copy;
            if (!copy)
                return td_frame_end(&f), -1;
        }
        const int status = td_op_call(functional, f.values, &made);
        td_frame_end(&f);
        if (status)
            return -1;
        TD_AUTO td_tensor *result = made.tensor;
        if (td_copy_from_(self, result, false))
            return -1;
    }
    if (op->info.n_results)
        results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(self)};
    return 0;
}

/* ---- the fallback */

static const td_layout_kernel *rule_of(const td_op *op, int key)
{
    for (const td_layout_kernel *of = op->of_layouts; of && of->key; of++)
        if (of->key == key)
            return of;
    return NULL;
}

static int by_pattern(const td_op *op, int pattern, const td_value *arguments, td_value *results)
{
    td_frame f;
    if (td_frame_begin(&f, op, arguments))
        return -1;
    td_tensor *like = model(&f);
    int status = !like                        ? td_error(TD_E_RUNTIME, "%s: none of the operands is nested", op->info.name)
                 : pattern == TD_LAYOUT_VALUES ? on_values(op, &f, like, results)
                 : pattern == TD_LAYOUT_ROWS   ? on_rows(op, &f, like, results)
                 : pattern == TD_LAYOUT_DIMS   ? along_dims(op, &f, like, results)
                                               : reduced(op, &f, like, results);
    td_frame_end(&f);
    return status;
}

static int call(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    const td_keyset below = keys & (TD_KEYSET(TD_KEY_PARTS) - 1);
    if (op->info.n_arguments > TD_MOST_ARGUMENTS)
        return td_error(TD_E_RUNTIME, "%s: too many arguments for nested tensors", op->info.name);
    if (rule_of(op, TD_KEY_NESTED) || op->info.flags & TD_OP_DETACHES)
        return td_op_call_keys(op, below, arguments, results);
    if (op->info.flags & TD_OP_INPLACE)
        return in_place(op, below, arguments, results);
    const td_layout_kernel *rule = rule_of(op, TD_KEY_PARTS);
    if (rule && rule->pattern == TD_LAYOUT_KERNEL)
        return op->unbox(rule->kernel, below, arguments, results);
    if (rule || op->info.flags & TD_OP_POINTWISE)
        return by_pattern(op, rule ? rule->pattern : TD_LAYOUT_VALUES, arguments, results);
    if (op->info.flags & TD_OP_COMPOSITE && op->composite)
        return td_op_call_composite(op, below, arguments, results);
    td_frame f;
    if (td_frame_begin(&f, op, arguments) == 0) {
        const td_tensor *x = model(&f);
        if (x)
            td_nested_refuse(op, x);
        else
            td_error(TD_E_NOT_IMPLEMENTED, "%s: a nested tensor can't be its out=", op->info.name);
        td_frame_end(&f);
    }
    return -1;
}

__attribute__((constructor)) static void expect_calls(void)
{
    if (td_register_fallback(TD_KEY_PARTS, TD_CPU, call, NULL))
        td_error_clear();
}
