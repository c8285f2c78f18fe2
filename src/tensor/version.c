/* Version counters that are not in their storage: see Note [Version counters]. */
#include "tensor/tensor.h"
#include <pthread.h>

typedef struct moved {
    struct moved     *next;
    const td_storage *storage;
    uint32_t         *version;          /* counted for the storage */
} moved;

static moved          *list;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

uint32_t *td_version_new(uint32_t count)
{
    uint32_t *version = td_mem_alloc(3 * sizeof *version);
    if (version)
        version[0] = count, version[1] = 1, version[2] = 0;
    return version;
}

void td_version_release(uint32_t *version)
{
    if (__atomic_sub_fetch(&version[1], 1, __ATOMIC_ACQ_REL) == 0)
        td_mem_free(version, 3 * sizeof *version);
}

uint32_t td_version_name(const td_tensor *x)
{
    static uint32_t last;
    const bool in_storage = !x->own_version && !(x->storage->flags & TD_STORAGE_COUNTED_APART);
    uint32_t *place = in_storage ? &x->storage->version_name : td_version_of(x) + 2;
    uint32_t name = __atomic_load_n(place, __ATOMIC_RELAXED);
    while (!name) {
        uint32_t next = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(place, &name, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            name = next;
    }
    return name;
}

uint32_t *td_version_apart(const td_storage *s)
{
    uint32_t *version = NULL;
    pthread_mutex_lock(&lock);
    for (moved *m = list; m && !version; m = m->next)
        version = m->storage == s ? m->version : NULL;
    pthread_mutex_unlock(&lock);
    return version;
}

int td_version_move(td_tensor *x)
{
    if (x->own_version || x->flags & TD_FLAG_INFERENCE)
        return 0;
    td_storage *s = x->storage;
    if (s && s->flags & TD_STORAGE_COUNTED_APART) {
        x->own_version = td_version_apart(s);
        __atomic_fetch_add(&x->own_version[1], 1, __ATOMIC_RELAXED);
        return 0;
    }
    bool shared = s && __atomic_load_n(&s->refcount, __ATOMIC_ACQUIRE) > 1;
    uint32_t *version = td_version_new(s ? __atomic_load_n(&s->version, __ATOMIC_RELAXED) : 0);
    moved *m = version && shared ? td_mem_alloc(sizeof *m) : NULL;
    if (!version || (shared && !m)) {
        if (version)
            td_version_release(version);
        return -1;
    }
    version[1] = shared ? 2 : 1;
    version[2] = s ? td_version_name(x) : 0;
    x->own_version = version;
    if (!shared)
        return 0;
    *m = (moved){NULL, s, version};
    pthread_mutex_lock(&lock);
    m->next = list;
    list = m;
    pthread_mutex_unlock(&lock);
    s->flags |= TD_STORAGE_COUNTED_APART;
    return 0;
}

void td_version_forget(const td_storage *s)
{
    moved *found = NULL;
    pthread_mutex_lock(&lock);
    for (moved **at = &list; *at && !found; at = found ? at : &(*at)->next)
        if ((*at)->storage == s) {
            found = *at;
            *at = found->next;
        }
    pthread_mutex_unlock(&lock);
    if (found)
        td_version_release(found->version);
    td_mem_free(found, sizeof *found);
}
