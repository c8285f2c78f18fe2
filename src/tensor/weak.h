/* Weak references to storages: see weak.c. */
#ifndef TD_TENSOR_WEAK_H
#define TD_TENSOR_WEAK_H
#include <tede/weak.h>

enum { TD_STORAGE_WEAKLY_HELD = 32 };           /* the next of tensor.h's TD_STORAGE_* */

/* The storage is about to go. */
void td_weak_storage_forget(const td_storage *s);
#endif
