/* Copies of boxed arguments: see frame.h. */
#include "dispatch/frame.h"
#include <string.h>
#include "dispatch/op.h"

bool td_names_dims(const td_arg *a)
{
    static const char *const names[] = {"dim", "dims", "dim0", "dim1", "dim2", "dimension", "axis", "axis0", "axis1",
                                        "start_dim", "end_dim"};
    if (a->kind != TD_VALUE_INT && a->kind != TD_VALUE_INTS)
        return false;
    for (size_t i = 0; i < TD_COUNT(names); i++)
        if (!strcmp(a->name, names[i]))
            return true;
    return false;
}

/* Arguments are borrowed and copied flat; lists are copied, too, so that a rule may replace members without touching
 * the caller's. td_frame_end follows in any case but an error here, which has ended it already. */
int td_frame_begin(td_frame *f, const td_op *op, const td_value *arguments)
{
    f->count = op->info.n_arguments;
    f->owned = NULL;
    f->n_owned = f->room = 0;
    for (int i = 0; i < f->count; i++) {
        f->values[i] = arguments[i];
        f->lists[i] = NULL;
    }
    for (int i = 0; i < f->count; i++) {
        if (arguments[i].kind != TD_VALUE_TENSORS || !arguments[i].count)
            continue;
        const size_t size = sizeof *f->lists[i] * (size_t)arguments[i].count;
        f->lists[i] = td_mem_alloc(size);
        if (!f->lists[i]) {
            td_frame_end(f);
            return -1;
        }
        memcpy(f->lists[i], arguments[i].tensors, size);
        f->values[i].tensors = f->lists[i];
    }
    return 0;
}

/* Takes over x, also on an error; lends it until td_frame_end. */
td_tensor *td_frame_keep(td_frame *f, td_tensor *x)
{
    if (!x)
        return NULL;
    if (f->n_owned == f->room) {
        int room = f->room ? 2 * f->room : 8;
        td_tensor **more = td_mem_alloc(sizeof *more * (size_t)room);
        if (!more) {
            td_tensor_release(x);
            return NULL;
        }
        if (f->n_owned)
            memcpy(more, f->owned, sizeof *more * (size_t)f->n_owned);
        if (f->owned)
            td_mem_free(f->owned, sizeof *more * (size_t)f->room);
        f->owned = more, f->room = room;
    }
    return f->owned[f->n_owned++] = x;
}

void td_frame_end(td_frame *f)
{
    for (int i = 0; i < f->n_owned; i++)
        td_tensor_release(f->owned[i]);
    if (f->owned)
        td_mem_free(f->owned, sizeof *f->owned * (size_t)f->room);
    for (int i = 0; i < f->count; i++)
        if (f->lists[i])
            td_mem_free(f->lists[i], sizeof(td_tensor *) * (size_t)f->values[i].count);
}
