/* tede/weak.h: weak references to storages.
 *
 * A weak reference doesn't keep a storage alive and says whether it is gone.  Two of them to one storage are the same
 * pointer, which equals that of no other storage as long as it is held. */
#ifndef TEDE_WEAK_H
#define TEDE_WEAK_H
#include <tede/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_weak_storage td_weak_storage;

/* NULL without memory. */
TD_API td_weak_storage *td_weak_storage_new(td_storage *s);
/* Accepts NULL. */
TD_API void             td_weak_storage_release(td_weak_storage *w);
TD_API bool             td_weak_storage_expired(const td_weak_storage *w);

#ifdef __cplusplus
}
#endif
#endif
