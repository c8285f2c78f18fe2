/* PrefixStore: another store, with a prefix before each key. */
#include "base/base.h"
#include "group/store.h"
#include "group/table.h"

typedef struct prefixed {
    td_store *under;
    td_blob   prefix;           /* with its "/" */
} prefixed;

/* prefix/key; without data on error. */
static td_blob full(const prefixed *p, const char *key)
{
    size_t size = strlen(key);
    td_blob name = td_blob_new(NULL, p->prefix.size + size);
    if (name.data) {
        memcpy(name.data, p->prefix.data, p->prefix.size);
        memcpy((char *)name.data + p->prefix.size, key, size);
    }
    return name;
}

/* Names of n keys, and pointers to them for calls: in `names` until it is freed. */
static const char **full_names(const prefixed *p, int64_t n, const char *const *keys, td_blobs *names)
{
    const char **list = td_mem_alloc((size_t)n * sizeof *list);
    int64_t i = 0;
    for (; list && i < n; i++) {
        if (td_blobs_add(names, full(p, keys[i])) != 0)
            break;
        list[i] = names->items[i].data;
    }
    if (list && i == n)
        return list;
    td_mem_free(list, (size_t)n * sizeof *list);
    td_blobs_free(names);
    return NULL;
}

#define WITH_KEY(result, failed, call)                          \
    do {                                                        \
        const prefixed *p = self;                               \
        td_blob name = full(p, key);                            \
        __typeof__(failed) result = name.data ? (call) : failed;\
        td_blob_free(&name);                                    \
        return result;                                          \
    } while (0)
#define WITH_KEYS(call)                                         \
    do {                                                        \
        const prefixed *p = self;                               \
        td_blobs names = {0};                                   \
        const char **list = full_names(p, n, keys, &names);     \
        int status = list ? (call) : -1;                        \
        if (list)                                               \
            td_mem_free(list, (size_t)n * sizeof *list);        \
        td_blobs_free(&names);                                  \
        return status;                                          \
    } while (0)

static int given(td_blob value, td_blob *to)
{
    *to = value;
    return value.data ? 0 : -1;
}

static int set(void *self, const char *key, const void *value, size_t size)
{
    WITH_KEY(status, -1, td_store_set(p->under, name.data, value, size));
}
/* The timeout is that of the store below, which uses it. */
static int get(void *self, const char *key, int64_t timeout, td_blob *value)
{
    (void)timeout;
    WITH_KEY(status, -1, given(td_store_get(p->under, name.data), value));
}
static int add(void *self, const char *key, int64_t amount, int64_t *sum)
{
    WITH_KEY(status, -1, td_store_add(p->under, name.data, amount, sum));
}
static int compare_set(void *self, const char *key, td_blob expected, td_blob desired, td_blob *now)
{
    WITH_KEY(status, -1, given(td_store_compare_set(p->under, name.data, expected, desired), now));
}
static int delete_key(void *self, const char *key) { WITH_KEY(status, -1, td_store_delete_key(p->under, name.data)); }
static int append(void *self, const char *key, const void *value, size_t size)
{
    WITH_KEY(status, -1, td_store_append(p->under, name.data, value, size));
}
static int queue_push(void *self, const char *key, const void *value, size_t size)
{
    WITH_KEY(status, -1, td_store_queue_push(p->under, name.data, value, size));
}
static int queue_pop(void *self, const char *key, bool block, int64_t timeout, td_blob *value)
{
    (void)timeout;
    WITH_KEY(status, -1, given(td_store_queue_pop(p->under, name.data, block), value));
}
static int64_t queue_len(void *self, const char *key)
{
    WITH_KEY(length, (int64_t)-1, td_store_queue_len(p->under, name.data));
}
static int wait_for(void *self, int64_t n, const char *const *keys, int64_t timeout)
{
    WITH_KEYS(td_store_wait(p->under, n, list, timeout));
}
static int check(void *self, int64_t n, const char *const *keys) { WITH_KEYS(td_store_check(p->under, n, list)); }
static int multi_get(void *self, int64_t n, const char *const *keys, int64_t timeout, td_blobs *values)
{
    (void)timeout;
    WITH_KEYS(td_store_multi_get(p->under, n, list, values));
}
static int multi_set(void *self, int64_t n, const char *const *keys, const td_blob *values)
{
    WITH_KEYS(td_store_multi_set(p->under, n, list, values));
}

static int64_t num_keys(void *self) { return td_store_num_keys(((prefixed *)self)->under); }
static bool has_extended_api(void *self) { return td_store_has_extended_api(((prefixed *)self)->under); }
static int64_t timeout_of(void *self) { return td_store_timeout(((prefixed *)self)->under); }
static void set_timeout(void *self, int64_t timeout) { td_store_set_timeout(((prefixed *)self)->under, timeout); }

/* Those below that have the prefix, without it. */
static int list_keys(void *self, td_blobs *keys)
{
    const prefixed *p = self;
    td_blobs all = {0};
    int status = td_store_list_keys(p->under, &all);
    for (int64_t i = 0; i < all.count && status == 0; i++) {
        const td_blob *key = &all.items[i];
        if (key->size >= p->prefix.size && memcmp(key->data, p->prefix.data, p->prefix.size) == 0)
            status = td_blobs_add(keys, td_blob_new((char *)key->data + p->prefix.size, key->size - p->prefix.size));
    }
    td_blobs_free(&all);
    return status;
}

static void release(void *self)
{
    prefixed *p = self;
    td_store_release(p->under);
    td_blob_free(&p->prefix);
    td_mem_free(p, sizeof *p);
}

static td_store *another(void *self)
{
    const prefixed *p = self;
    td_store *under = td_store_clone(p->under);
    td_blob prefix = td_blob_new(p->prefix.data, p->prefix.size ? p->prefix.size - 1 : 0);
    td_store *s = under && prefix.data ? td_store_prefix(prefix.data, under) : NULL;
    td_blob_free(&prefix);
    td_store_release(under);
    return s;
}

static const td_store_kind kind = {
    .name = "PrefixStore", .set = set, .get = get, .add = add, .wait = wait_for, .check = check, .compare_set = compare_set,
    .delete_key = delete_key, .num_keys = num_keys, .release = release, .append = append, .multi_get = multi_get, .multi_set = multi_set,
    .queue_push = queue_push, .queue_pop = queue_pop, .queue_len = queue_len, .list_keys = list_keys,
    .has_extended_api = has_extended_api, .clone = another, .timeout = timeout_of, .set_timeout = set_timeout,
};

td_store *td_store_prefix(const char *prefix, td_store *under)
{
    text t;
    if (!under || check_key(prefix, &t) != 0)
        return NULL;
    prefixed *p = td_mem_alloc_zero(sizeof *p);
    if (!p)
        return NULL;
    p->prefix = td_blob_new(NULL, t.size + 1);
    if (p->prefix.data) {
        memcpy(p->prefix.data, prefix, t.size);
        ((char *)p->prefix.data)[t.size] = '/';
    }
    p->under = td_store_retain(under);
    td_store *s = p->prefix.data ? td_store_new(&kind, p) : NULL;
    if (!s)
        release(p);
    return s;
}
