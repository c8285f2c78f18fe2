/* Weak references to storages: a record that outlives its storage and says whether that is gone. What a storage keeps for a binding until
 * it goes (td_storage_keep) is in its record, too.
 *
 * There is one record per storage, found in a table by the storage's address; a flag on the storage makes its end
 * look here.  So storages that nobody refers to weakly pay nothing, and two references to one storage are the same
 * pointer, which never equals that of a later storage at the same address. */
#include "tensor/tensor.h"
#include "tensor/weak.h"
#include <pthread.h>
#include <tede/foreign.h>

struct td_weak_storage {
    td_weak_storage  *next;             /* in its bucket */
    const td_storage *storage;          /* NULL once it is gone */
    int64_t           refcount;         /* under the lock */
    void             *kept;             /* while there is one, it counts as a reference */
    void            (*drop)(void *kept);
};

enum { BUCKETS = 256 };
static td_weak_storage *buckets[BUCKETS];
static pthread_mutex_t  lock = PTHREAD_MUTEX_INITIALIZER;

static td_weak_storage **bucket(const td_storage *s)
{
    return &buckets[((uintptr_t)s >> 6) * 0x9E3779B97F4A7C15u >> 56];
}

/* The link to a storage's record, or to the end of its bucket. */
static td_weak_storage **find(const td_storage *s)
{
    td_weak_storage **at = bucket(s);
    while (*at && (*at)->storage != s)
        at = &(*at)->next;
    return at;
}

td_weak_storage *td_weak_storage_new(td_storage *s)
{
    td_weak_storage *fresh = td_mem_alloc(sizeof *fresh);
    if (!fresh)
        return NULL;
    pthread_mutex_lock(&lock);
    td_weak_storage **at = find(s), *found = *at;
    if (found) {
        found->refcount++;
    } else {
        *fresh = (td_weak_storage){.storage = s, .refcount = 1};
        *at = fresh;
        s->flags |= TD_STORAGE_WEAKLY_HELD;
    }
    pthread_mutex_unlock(&lock);
    if (found)
        td_mem_free(fresh, sizeof *fresh);
    return found ? found : fresh;
}

void td_weak_storage_release(td_weak_storage *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&lock);
    bool last = --w->refcount == 0;
    if (last && w->storage)             /* the storage keeps its flag, and finds nothing here when it goes */
        *find(w->storage) = w->next;
    pthread_mutex_unlock(&lock);
    if (last)
        td_mem_free(w, sizeof *w);
}

bool td_weak_storage_expired(const td_weak_storage *w)
{
    pthread_mutex_lock(&lock);
    bool expired = !w->storage;
    pthread_mutex_unlock(&lock);
    return expired;
}

int td_storage_keep(td_storage *s, void *kept, void (*drop)(void *))
{
    td_weak_storage *w = td_weak_storage_new(s);
    if (!w)
        return -1;
    pthread_mutex_lock(&lock);
    w->refcount += (kept != NULL) - (w->kept != NULL);
    w->kept = kept;
    w->drop = drop;
    pthread_mutex_unlock(&lock);
    td_weak_storage_release(w);
    return 0;
}

void td_weak_storage_forget(const td_storage *s)
{
    pthread_mutex_lock(&lock);
    td_weak_storage **at = find(s), *found = *at;
    void *kept = NULL;
    void (*drop)(void *) = NULL;
    if (found) {
        *at = found->next;
        found->storage = NULL;
        kept = found->kept;
        drop = found->drop;
        found->kept = NULL;
    }
    pthread_mutex_unlock(&lock);
    if (kept) {
        drop(kept);
        td_weak_storage_release(found);
    }
}
