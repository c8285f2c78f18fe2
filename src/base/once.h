/* Lazy one-time initialization: tables, registrations, keys of threads, answers of the processor.
 *
 *     static td_once once;
 *     if (td_once_run(&once, make) != 0)
 *         return -1;
 *
 * make() is run by the first thread that comes; others wait for it, and see all it wrote.  It returns 0, or -1 with the error
 * recorded: then nothing is remembered, and the next caller tries again, so that an allocation that fails today isn't missed
 * for the life of the process.  What it has done before it failed must bear being done again.  It may need other tables (no
 * lock is held while it runs), but not its own.  A fork while another thread makes something leaves it to be made by the child.
 *
 * What is a constant and only has to be found, a table by instruction-set level say, needs none of this: TD_KEPT. */
#ifndef TD_BASE_ONCE_H
#define TD_BASE_ONCE_H
#include "base/base.h"

enum { TD_ONCE_DONE = 1 };
typedef struct td_once { uint32_t state; } td_once;     /* zero at first */

int td_once_slow(td_once *once, int (*make)(void));

static inline int td_once_run(td_once *once, int (*make)(void))
{
    return TD_LIKELY(__atomic_load_n(&once->state, __ATOMIC_ACQUIRE) == TD_ONCE_DONE) ? 0 : td_once_slow(once, make);
}

/* The value of an expression that gives a pointer to constant data, the same one in each thread and at any time; kept by each
 * use in a separate static variable. */
#define TD_KEPT(expression)                                                              \
    (__extension__({                                                                     \
        static __typeof__(expression) kept_;                                             \
        __typeof__(expression) now_ = __atomic_load_n(&kept_, __ATOMIC_RELAXED);         \
        if (TD_UNLIKELY(!now_)) {                                                        \
            now_ = (expression);                                                         \
            __atomic_store_n(&kept_, now_, __ATOMIC_RELAXED);                            \
        }                                                                                \
        now_;                                                                            \
    }))

#endif
