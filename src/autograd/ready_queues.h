/* Backward passes over several devices: see ready_queues.c. */
#ifndef TD_AUTOGRAD_READY_QUEUES_H
#define TD_AUTOGRAD_READY_QUEUES_H
#include "autograd/engine.h"

/* Whether a node of the pass belongs to an accelerator. */
bool td_ready_wanted(const td_task *task);
/* Run the pass, whose dependencies are counted: with these entries, which wait for nothing.  0, or -1 with the first
 * error, once nothing of the pass runs any more.  `interrupted` is called now and then. */
int  td_ready_run(td_task *task, const uint32_t *first, uint32_t n_first, int (*interrupted)(int64_t *due)) TD_MUST_USE;
/* In run_node: hand a ready entry to whoever runs its device's nodes. */
int  td_ready_push(td_task *task, uint32_t entry) TD_MUST_USE;
/* Around what changes gradients and dependencies of nodes that aren't ready yet. */
void td_pass_lock(td_task *task);
void td_pass_unlock(td_task *task);

#endif
