/* The modes of a thread that a backward pass takes to the threads that work for it: see modes.c. */
#ifndef TD_AUTOGRAD_MODES_H
#define TD_AUTOGRAD_MODES_H
#include "tensor/masks.h"

enum { TD_MODES_BYTES = 192 };

typedef struct td_modes {
    td_thread_state masks;
    void           *saved_hooks;
    bool            strict_views;
    int             n_parts;                    /* those of td_backward_carry that were registered */
    _Alignas(16) unsigned char parts[TD_MODES_BYTES];
} td_modes;

/* The modes of this thread, copied; it stays as it is. */
void td_modes_copy(td_modes *to);
/* Run under `modes`, which are not changed; `before` gets what the thread had, for td_modes_leave. */
int  td_modes_enter(const td_modes *modes, td_modes *before) TD_MUST_USE;
void td_modes_leave(const td_modes *modes, td_modes *before);

#endif
