/* Saved variables: see Note [Saved variables] in node.h. */
#ifndef TD_AUTOGRAD_SAVED_H
#define TD_AUTOGRAD_SAVED_H
#include "autograd/node.h"

/* Drop what a node saved.  Afterwards td_node_saved is an error if there was anything. */
void td_node_release_saved(td_node *node);
/* x was written by the call of `node`, which also saved it as an operand (x.mul_(x)), or something that shares its
 * memory: x's new history would hold itself alive.  What is overwritten is replaced by an alias with no history. */
int  td_saved_untie(td_node *node, td_tensor *x) TD_MUST_USE;
/* The thread's stack of hooks, to be handed to another thread. */
void *td_saved_hooks_swap(void *stack);
/* What was pushed since `top` was on top is popped, if that is still there. */
void *td_saved_hooks_top(void);
void  td_saved_hooks_unwind(void *top);

/* How many characters of a node's name messages show: "Add" of "AddBackward0". */
int td_node_short_name(const char *name);

#endif
