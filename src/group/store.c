/* Stores as such: who owns them, and what is made of other operations where a kind doesn't have one of its own. */
#include <stdio.h>
#include "base/base.h"
#include "group/store.h"
#include "group/table.h"

struct td_store {
    const td_store_kind *kind;
    void                *self;
    int64_t              count, own_timeout;
};

td_store *td_store_new(const td_store_kind *kind, void *self)
{
    td_store *s = td_mem_alloc(sizeof *s);
    if (s)
        *s = (td_store){kind, self, 1, TD_STORE_TIMEOUT_MS};
    return s;
}

td_store *td_store_retain(td_store *s)
{
    if (s)
        __atomic_add_fetch(&s->count, 1, __ATOMIC_RELAXED);
    return s;
}

void td_store_release(td_store *s)
{
    if (!s || __atomic_sub_fetch(&s->count, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    if (s->kind->release)
        s->kind->release(s->self);
    td_mem_free(s, sizeof *s);
}

const td_store_kind *store_kind(const td_store *s) { return s ? s->kind : NULL; }
void *store_self(const td_store *s) { return s->self; }

int store_timed_out(int64_t n, const char *const *keys, const char *prefix, int64_t timeout)
{
    char names[600];
    size_t used = 0;
    names[0] = 0;
    for (int64_t i = 0; i < n && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s%s", i ? ", " : "", prefix, keys[i]);
    return td_error(TD_E_DIST_STORE, "wait timeout after %lldms, keys: %s%s", (long long)timeout, names, used < sizeof names ? "" : "...");
}

td_store *td_store_clone(td_store *s)
{
    if (!s)
        return NULL;
    td_store *clone = s->kind->clone ? s->kind->clone(s->self) : td_store_retain(s);
    if (clone && clone != s)
        td_store_set_timeout(clone, td_store_timeout(s));
    return clone;
}

int64_t td_store_timeout(const td_store *s)
{
    return !s ? 0 : s->kind->timeout ? s->kind->timeout(s->self) : __atomic_load_n(&s->own_timeout, __ATOMIC_RELAXED);
}
void td_store_set_timeout(td_store *s, int64_t timeout)
{
    if (s && s->kind->set_timeout)
        s->kind->set_timeout(s->self, timeout);
    else if (s)
        __atomic_store_n(&s->own_timeout, timeout, __ATOMIC_RELAXED);
}

/* ---- what each kind has: limits are checked here, once for all */

static int check_keys(int64_t n, const char *const *keys)
{
    text t;
    if (n > TD_STORE_MOST_KEYS)
        return td_error(TD_E_VALUE, "at most %d keys at once, not %lld", TD_STORE_MOST_KEYS, (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (check_key(keys[i], &t) != 0)
            return -1;
    return 0;
}

static bool usable(const td_store *s, const char *key, size_t size)
{
    text t;
    return s && check_key(key, &t) == 0 && check_value(size) == 0;
}

int td_store_set(td_store *s, const char *key, const void *value, size_t size)
{
    return usable(s, key, size) ? s->kind->set(s->self, key, value, size) : -1;
}

td_blob td_store_get(td_store *s, const char *key)
{
    td_blob value = {NULL, 0};
    if (usable(s, key, 0) && s->kind->get(s->self, key, td_store_timeout(s), &value) != 0)
        td_blob_free(&value);
    return value;
}

int td_store_add(td_store *s, const char *key, int64_t amount, int64_t *sum)
{
    return usable(s, key, 0) ? s->kind->add(s->self, key, amount, sum) : -1;
}

int td_store_wait(td_store *s, int64_t n, const char *const *keys, int64_t timeout)
{
    if (!s || check_keys(n, keys) != 0)
        return -1;
    return n == 0 ? 0 : s->kind->wait(s->self, n, keys, timeout < 0 ? td_store_timeout(s) : timeout);
}

int td_store_check(td_store *s, int64_t n, const char *const *keys)
{
    return s && check_keys(n, keys) == 0 ? s->kind->check(s->self, n, keys) : -1;
}

td_blob td_store_compare_set(td_store *s, const char *key, td_blob expected, td_blob desired)
{
    td_blob now = {NULL, 0};
    if (usable(s, key, expected.size) && check_value(desired.size) == 0 &&
        s->kind->compare_set(s->self, key, expected, desired, &now) != 0)
        td_blob_free(&now);
    return now;
}

int td_store_delete_key(td_store *s, const char *key) { return usable(s, key, 0) ? s->kind->delete_key(s->self, key) : -1; }
int64_t td_store_num_keys(td_store *s) { return s ? s->kind->num_keys(s->self) : -1; }

/* ---- what a kind may leave to the others */

bool td_store_has_extended_api(td_store *s)
{
    return s && (s->kind->has_extended_api ? s->kind->has_extended_api(s->self) : s->kind->append && s->kind->multi_get && s->kind->multi_set);
}

/* Appending by exchanging the value for a longer one, until nobody has changed it in between. */
static int append_by_exchange(td_store *s, const char *key, const void *value, size_t size)
{
    td_blob expected = td_blob_new("", 0), desired = {NULL, 0}, now = {NULL, 0};
    bool done = false;
    while (expected.data && !done) {
        desired = td_blob_new(NULL, expected.size + size);
        if (!desired.data)
            break;
        if (expected.size)
            memcpy(desired.data, expected.data, expected.size);
        if (size)
            memcpy((char *)desired.data + expected.size, value, size);
        now = td_store_compare_set(s, key, expected, desired);
        done = now.data && now.size == desired.size && memcmp(now.data, desired.data, now.size) == 0;
        td_blob_free(&desired), td_blob_free(&expected);
        expected = now;
    }
    td_blob_free(&expected);
    return done ? 0 : -1;
}

int td_store_append(td_store *s, const char *key, const void *value, size_t size)
{
    if (!usable(s, key, size))
        return -1;
    int status = s->kind->append ? s->kind->append(s->self, key, value, size) : TD_STORE_OTHERWISE;
    return status == TD_STORE_OTHERWISE ? append_by_exchange(s, key, value, size) : status;
}

int td_store_multi_get(td_store *s, int64_t n, const char *const *keys, td_blobs *values)
{
    *values = (td_blobs){0};
    if (!s || check_keys(n, keys) != 0)
        return -1;
    int status = s->kind->multi_get ? s->kind->multi_get(s->self, n, keys, td_store_timeout(s), values) : TD_STORE_OTHERWISE;
    if (status == TD_STORE_OTHERWISE) {
        status = 0;
        for (int64_t i = 0; i < n && status == 0; i++)
            status = td_blobs_add(values, td_store_get(s, keys[i]));
    }
    if (status != 0)
        td_blobs_free(values);
    return status;
}

int td_store_multi_set(td_store *s, int64_t n, const char *const *keys, const td_blob *values)
{
    if (!s || check_keys(n, keys) != 0)
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (check_value(values[i].size) != 0)
            return -1;
    int status = s->kind->multi_set ? s->kind->multi_set(s->self, n, keys, values) : TD_STORE_OTHERWISE;
    if (status != TD_STORE_OTHERWISE)
        return status;
    status = 0;
    for (int64_t i = 0; i < n && status == 0; i++)
        status = td_store_set(s, keys[i], values[i].data, values[i].size);
    return status;
}

static int no_queues(void) { return td_error(TD_E_NOT_IMPLEMENTED, "queue support is not implemented."); }

int td_store_queue_push(td_store *s, const char *key, const void *value, size_t size)
{
    if (!usable(s, key, size))
        return -1;
    int status = s->kind->queue_push ? s->kind->queue_push(s->self, key, value, size) : TD_STORE_OTHERWISE;
    return status == TD_STORE_OTHERWISE ? no_queues() : status;
}

td_blob td_store_queue_pop(td_store *s, const char *key, bool block)
{
    td_blob value = {NULL, 0};
    if (!usable(s, key, 0))
        return value;
    int status = s->kind->queue_pop ? s->kind->queue_pop(s->self, key, block, td_store_timeout(s), &value) : TD_STORE_OTHERWISE;
    if (status == TD_STORE_OTHERWISE)
        no_queues();
    if (status != 0)
        td_blob_free(&value);
    return value;
}

int64_t td_store_queue_len(td_store *s, const char *key)
{
    if (!usable(s, key, 0))
        return -1;
    int64_t length = s->kind->queue_len ? s->kind->queue_len(s->self, key) : TD_STORE_OTHERWISE;
    return length == TD_STORE_OTHERWISE ? no_queues() : length;
}

int td_store_list_keys(td_store *s, td_blobs *keys)
{
    *keys = (td_blobs){0};
    int status = !s ? -1 : s->kind->list_keys ? s->kind->list_keys(s->self, keys) : TD_STORE_OTHERWISE;
    if (status == TD_STORE_OTHERWISE)
        status = td_error(TD_E_NOT_IMPLEMENTED, "listKeys support is not implemented.");
    if (status != 0)
        td_blobs_free(keys);
    return status;
}

/* The last one to be counted tells the others. */
int td_store_barrier(td_store *s, const char *key, int64_t world_size, int64_t timeout)
{
    text t;
    if (!s || check_key(key, &t) != 0)
        return -1;
    if (world_size < 1)
        return td_error(TD_E_VALUE, "barrier: world_size must be at least 1, not %lld", (long long)world_size);
    td_blob members = td_blob_new(NULL, t.size + sizeof "/num_members"), last = td_blob_new(NULL, t.size + sizeof "/last_member");
    int64_t sum;
    int status = -1;
    if (members.data && last.data) {
        memcpy(stpcpy(members.data, key), "/num_members", sizeof "/num_members");
        memcpy(stpcpy(last.data, key), "/last_member", sizeof "/last_member");
        status = td_store_add(s, members.data, 1, &sum);
        if (status == 0 && sum == world_size)
            status = td_store_set(s, last.data, "1", 1);
        const char *const key_of_last = last.data;
        status = status == 0 ? td_store_wait(s, 1, &key_of_last, timeout) : -1;
    }
    td_blob_free(&members), td_blob_free(&last);
    return status;
}
