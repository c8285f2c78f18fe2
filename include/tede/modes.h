/* tede/modes.h: how the process computes, where there is a choice. */
#ifndef TEDE_MODES_H
#define TEDE_MODES_H
#include <tede/base.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Batch invariance: while somebody asks for it, what products, reductions, norms and attention give for one row, image or
 * sequence doesn't depend, to the last bit, on how many others are in the batch or where it stands among them.  Without,
 * the fastest kernel for the batch at hand is taken, whose sums may be rounded in another order.  It holds for the whole
 * process and is counted: each begin needs an end. */
TD_API void td_batch_invariant_begin(void);
TD_API void td_batch_invariant_end(void);
TD_API bool td_batch_invariant(void);

/* Whether memory that `empty`, its relatives and `resize_` don't initialise is filled, for the process: floats with NaN, integers
 * with their largest value, so that a program that reads it gives the same result each time. */
TD_API void td_set_fill_uninitialized(bool fill);
TD_API bool td_fill_uninitialized(void);

/* Whether warnings that come once per process, of what is deprecated or in beta, come each time. */
TD_API void td_set_warn_always(bool always);
TD_API bool td_warn_always(void);

#ifdef __cplusplus
}
#endif
#endif
