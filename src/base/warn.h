/* Warnings that a process is given once, of what is deprecated or in beta: a program that calls such an operator in a loop
 * needs to read it no more than that.  td_set_warn_always() has each of them come every time.
 *
 *     if (TD_WARN_ONCE("torch.qr is deprecated"))
 *         return -1;
 *
 * Each use has its flag, so what is formatted into the text doesn't make it another warning. */
#ifndef TD_BASE_WARN_H
#define TD_BASE_WARN_H
#include "base/base.h"

int td_warn_once(bool *warned, const char *format, ...) TD_PRINTF(2, 3);

/* While it is set the thread warns of nothing: a call that is made again, in parts, has warned when it was made first. */
extern _Thread_local bool td_warned_before;

#define TD_WARN_ONCE(...)                       \
    (__extension__({                            \
        static bool warned_;                    \
        td_warn_once(&warned_, __VA_ARGS__);    \
    }))

#endif
