/* For the kinds of stores of this library: what a store is. */
#ifndef TD_GROUP_STORE_H
#define TD_GROUP_STORE_H
#include <tede/store.h>

const td_store_kind *store_kind(const td_store *s);     /* NULL of NULL */
void *store_self(const td_store *s);
/* Records that a wait for these keys took too long; keys are shown behind `prefix`.  -1. */
int store_timed_out(int64_t n, const char *const *keys, const char *prefix, int64_t timeout);

#endif
