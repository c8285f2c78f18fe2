/* Process-wide switches of tede/modes.h: batch-invariant results, filling of uninitialized memory. */
#include <tede/modes.h>

static int batch_invariant;
static bool fill_uninitialized;

void td_batch_invariant_begin(void) { __atomic_add_fetch(&batch_invariant, 1, __ATOMIC_RELAXED); }
void td_batch_invariant_end(void) { __atomic_sub_fetch(&batch_invariant, 1, __ATOMIC_RELAXED); }
bool td_batch_invariant(void) { return __atomic_load_n(&batch_invariant, __ATOMIC_RELAXED) > 0; }

void td_set_fill_uninitialized(bool fill) { __atomic_store_n(&fill_uninitialized, fill, __ATOMIC_RELAXED); }
bool td_fill_uninitialized(void) { return __atomic_load_n(&fill_uninitialized, __ATOMIC_RELAXED); }
