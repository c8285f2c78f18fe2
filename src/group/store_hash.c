/* HashStore: a table under a lock; whoever changes it wakes all who wait. */
#include <pthread.h>
#include "base/base.h"
#include "group/store.h"
#include "group/table.h"
#include "group/wait.h"

typedef struct hash {
    table           data;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
} hash;

static text key_of(const char *key) { return (text){key, strlen(key)}; }
static hash *lock(void *self)
{
    pthread_mutex_lock(&((hash *)self)->lock);
    return self;
}
static int unlock(hash *h, int status)
{
    pthread_mutex_unlock(&h->lock);
    return status;
}
static int change(hash *h, int status)
{
    pthread_cond_broadcast(&h->changed);
    return unlock(h, status);
}

static int set(void *self, const char *key, const void *value, size_t size)
{
    hash *h = lock(self);
    return change(h, table_set(&h->data, key_of(key), value, size));
}

static bool all_there(const hash *h, int64_t n, const char *const *keys)
{
    for (int64_t i = 0; i < n; i++)
        if (!table_has(&h->data, key_of(keys[i])))
            return false;
    return true;
}

/* With the lock held, which it gives up while it waits. */
static int await(hash *h, int64_t n, const char *const *keys, int64_t timeout)
{
    int64_t deadline = deadline_after(timeout);
    while (!all_there(h, n, keys)) {
        int status = condition_wait(&h->changed, &h->lock, deadline);
        if (status <= 0)
            return status < 0 ? -1 : store_timed_out(n, keys, "", timeout);
    }
    return 0;
}

static int wait_for(void *self, int64_t n, const char *const *keys, int64_t timeout)
{
    hash *h = lock(self);
    return unlock(h, await(h, n, keys, timeout));
}

static int copy_of(const td_blob *value, td_blob *copy)
{
    *copy = td_blob_new(value->data, value->size);
    return copy->data ? 0 : -1;
}

static int get(void *self, const char *key, int64_t timeout, td_blob *value)
{
    hash *h = lock(self);
    const td_blob *found;
    int status = 0;
    while (status == 0 && !(found = table_get(&h->data, key_of(key)))) {
        if (table_has(&h->data, key_of(key)))
            return unlock(h, td_error(TD_E_DIST_STORE, "get: '%s' is a queue", key));
        status = await(h, 1, &key, timeout);
    }
    return unlock(h, status == 0 ? copy_of(found, value) : -1);
}

static int add(void *self, const char *key, int64_t amount, int64_t *sum)
{
    hash *h = lock(self);
    return change(h, table_add(&h->data, key_of(key), amount, sum));
}

static int check(void *self, int64_t n, const char *const *keys)
{
    hash *h = lock(self);
    return unlock(h, all_there(h, n, keys));
}

static int compare_set(void *self, const char *key, td_blob expected, td_blob desired, td_blob *now)
{
    hash *h = lock(self);
    return change(h, table_compare_set(&h->data, key_of(key), expected, desired, now));
}

static int delete_key(void *self, const char *key)
{
    hash *h = lock(self);
    return unlock(h, table_delete(&h->data, key_of(key)));
}

static int64_t num_keys(void *self)
{
    hash *h = lock(self);
    return unlock(h, (int)h->data.values.count);
}

static int append(void *self, const char *key, const void *value, size_t size)
{
    hash *h = lock(self);
    return change(h, table_append(&h->data, key_of(key), value, size));
}

/* All at one moment, and so is multi_set. */
static int multi_get(void *self, int64_t n, const char *const *keys, int64_t timeout, td_blobs *values)
{
    hash *h = lock(self);
    int status = await(h, n, keys, timeout);
    for (int64_t i = 0; i < n && status == 0; i++) {
        const td_blob *found = table_get(&h->data, key_of(keys[i]));
        status = found ? td_blobs_add(values, td_blob_new(found->data, found->size)) :
                         td_error(TD_E_DIST_STORE, "multi_get: '%s' is a queue", keys[i]);
    }
    return unlock(h, status);
}

static int multi_set(void *self, int64_t n, const char *const *keys, const td_blob *values)
{
    hash *h = lock(self);
    int status = 0;
    for (int64_t i = 0; i < n && status == 0; i++)
        status = table_set(&h->data, key_of(keys[i]), values[i].data, values[i].size);
    return change(h, status);
}

static int queue_push(void *self, const char *key, const void *value, size_t size)
{
    hash *h = lock(self);
    return change(h, table_push(&h->data, key_of(key), value, size));
}

static int queue_pop(void *self, const char *key, bool block, int64_t timeout, td_blob *value)
{
    hash *h = lock(self);
    int64_t deadline = deadline_after(timeout);
    while (!table_pop(&h->data, key_of(key), value)) {
        int status = block ? condition_wait(&h->changed, &h->lock, deadline) : td_error(TD_E_DIST_QUEUE, "queue is empty");
        if (status <= 0)
            return unlock(h, status < 0 ? -1 : store_timed_out(1, &key, "", timeout));
    }
    return unlock(h, 0);
}

static int64_t queue_len(void *self, const char *key)
{
    hash *h = lock(self);
    return unlock(h, (int)table_queue_len(&h->data, key_of(key)));
}

static int list_keys(void *self, td_blobs *keys)
{
    hash *h = lock(self);
    return unlock(h, table_list(&h->data, keys));
}

static void release(void *self)
{
    hash *h = self;
    table_free(&h->data);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    td_mem_free(h, sizeof *h);
}

static const td_store_kind kind = {
    .name = "HashStore", .set = set, .get = get, .add = add, .wait = wait_for, .check = check, .compare_set = compare_set,
    .delete_key = delete_key, .num_keys = num_keys, .release = release, .append = append, .multi_get = multi_get, .multi_set = multi_set,
    .queue_push = queue_push, .queue_pop = queue_pop, .queue_len = queue_len, .list_keys = list_keys,
};

td_store *td_store_hash(void)
{
    hash *h = td_mem_alloc_zero(sizeof *h);
    if (!h)
        return NULL;
    if (condition_init(&h->changed) != 0)
        return td_mem_free(h, sizeof *h), NULL;
    pthread_mutex_init(&h->lock, NULL);
    td_store *s = td_store_new(&kind, h);
    if (!s)
        release(h);
    return s;
}
