/* A call's boxed arguments, copied so that some can be replaced before it goes on: what fallbacks and the levels of transforms do. */
#ifndef TD_DISPATCH_FRAME_H
#define TD_DISPATCH_FRAME_H
#include <tede/dispatch.h>

/* The tensors of an argument or result, be it one or a list; and where the k-th of a result stands. */
static inline td_tensor **td_place_of(td_value *v, int k) { return v->kind == TD_VALUE_TENSOR ? &v->tensor : (td_tensor **)&v->tensors[k]; }
static inline int        td_tensors_in(const td_value *v) { return v->kind == TD_VALUE_TENSOR ? 1 : v->kind == TD_VALUE_TENSORS ? (int)v->count : 0; }
static inline td_tensor *td_tensor_in(const td_value *v, int k) { return v->kind == TD_VALUE_TENSOR ? v->tensor : v->tensors[k]; }
/* Whether an argument counts dimensions of the first operand.  The schema's names are the contract, in operators defined at run time, too. */
bool                     td_names_dims(const td_arg *a);

/* With room for members of lists; tensors are borrowed unless noted in `owned`. */
enum { TD_MOST_ARGUMENTS = 32 };
typedef struct td_frame {
    td_value     values[TD_MOST_ARGUMENTS];
    td_tensor  **lists[TD_MOST_ARGUMENTS];
    td_tensor  **owned;
    int          n_owned, room;
    int          count;
} td_frame;
int        td_frame_begin(td_frame *f, const td_op *op, const td_value *arguments);
/* Keep a reference until the frame's end; returns it, or NULL after dropping it when memory is short. */
td_tensor *td_frame_keep(td_frame *f, td_tensor *x);
void       td_frame_end(td_frame *f);
#endif
