/* Conjugates and negatives that are not computed yet (PyTorch's lazy conj and neg bits): see lazy.c. */
#ifndef TD_OPS_ITERATE_LAZY_H
#define TD_OPS_ITERATE_LAZY_H

/* Before the first tensor with a bit: the keys' fallback is there from now on.  0 or -1. */
int td_lazy_ready(void);

#endif
