/* Batching rules: how an operator runs on a whole batch at once.
 *
 * Note [Batching rules]
 * At a vmap level a call has operands of which some hide a dimension.  A rule runs below the level, on what they wrap;
 * it says how the operator's arguments change when there is one dimension more, and where that is in the results.
 * A rule belongs to an operator's row, not to its name: the entry's `batch:` says which, and where it says none
 * codegen/batching.py decides it by the kind and the schema.  Formulas broadcast; for operators that have one tensor and
 * name their dimensions the schema says what to shift (generic.c); composites go through their parts.  What is left, and
 * what was defined at run time without a rule, runs once per member, with a warning, and is counted (loop.c). */
#ifndef TD_TRANSFORMS_BATCH_H
#define TD_TRANSFORMS_BATCH_H
#include <tede/auto.h>
#include "transforms/level.h"

typedef struct td_batch {
    const td_op    *op;
    td_level       *level;
    int64_t         size;
    const td_value *arguments;    /* as called: wrappers among them */
    td_value       *results;
    uint32_t        modes;        /* of the rule: dispatch/batching.h */
    const char     *form;         /* the operator that the rule calls, or the operands that the entry names */
    td_frame        frame;        /* a copy of the arguments for the rule to change */
} td_batch;

/* Whether x hides a dimension at this level; its physical tensor (borrowed) and where it is (-1: nowhere). */
static inline bool td_is_batched(const td_batch *b, const td_tensor *x)
{
    td_wrapped *w = x && x != TD_NONE ? td_wrapped_at(x, b->level) : NULL;
    return w && w->dim >= 0;
}
td_tensor *td_physical(const td_batch *b, td_tensor *x, int *dim);
/* New references: with the batch first, if it has one; and with one in any case, expanded. */
td_tensor *td_front(const td_batch *b, td_tensor *x);
td_tensor *td_expanded(const td_batch *b, td_tensor *x);
/* [B, ...] -> [B, 1, ..., ...] with `rank` dimensions besides the batch. */
td_tensor *td_padded(td_tensor *x, int rank);
/* [B, N, ...] <-> [B * N, ...] */
td_tensor *td_folded(td_tensor *x);
td_tensor *td_unfolded(td_tensor *x, int64_t size);

/* An argument by name, which the schema has: as called, and in the copy that is changed. */
const td_value *td_given(const td_batch *b, const char *name);
td_value       *td_changed(td_batch *b, const char *name);
/* A tensor among the arguments (borrowed); TD_NONE where it is absent, or the schema has none of the name. */
td_tensor      *td_operand(const td_batch *b, const char *name);
/* The i-th of the operands that the entry names for the rule (codegen/batching.py), and its name. */
const char *td_form_name(const td_batch *b, int i);
td_tensor  *td_form_operand(const td_batch *b, int i);
/* td_batch_set and td_batch_set_ints by name. */
int td_batch_put(td_batch *b, const char *name, td_tensor *x) TD_MUST_USE;
int td_batch_put_ints(td_batch *b, const char *name, int64_t n, const int64_t *items) TD_MUST_USE;
/* Put `x` (owned by the frame from here on; NULL: -1) in the place of a tensor argument. */
int td_batch_set(td_batch *b, int argument, td_tensor *x) TD_MUST_USE;
int td_batch_set_ints(td_batch *b, int argument, int64_t n, const int64_t *items) TD_MUST_USE;
/* Call with the changed arguments; tensors among the results (those made, not those written) are wrapped with the batch
 * at `dim`. */
int td_batch_call(td_batch *b, const td_op *op, int dim) TD_MUST_USE;
/* The same for a rule that goes on with the one result: not wrapped, owned; NULL with an error. */
td_tensor *td_batch_made(td_batch *b);
/* Give `value` (taken over; NULL: -1) as result i, its batch at `dim`; -1: as it is, such as the operand that was written. */
int td_batch_give(td_batch *b, int i, td_tensor *value, int dim) TD_MUST_USE;
bool td_any_batched(const td_batch *b);

td_batch_rule td_rule_pointwise, td_rule_dims, td_rule_leading, td_rule_inplace, td_rule_loop, td_rule_random;
/* The call with tensors of the members' shapes and without elements: -1 for what a member would be refused for. */
int td_batch_check(const td_batch *b) TD_MUST_USE;
/* The rules of these names with other modes than the row's; `quiet`: without a warning. */
int td_batch_leading(td_batch *b, uint32_t modes) TD_MUST_USE;
int td_batch_loop(td_batch *b, bool quiet) TD_MUST_USE;

#endif
