/* Keys and values in memory: hash tables with chains, which double when they are full. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/base.h"
#include "group/table.h"

/* ---- blobs */

td_blob td_blob_new(const void *data, size_t size)
{
    td_blob blob = {td_mem_alloc(size + 1), size};
    if (!blob.data)
        return (td_blob){NULL, 0};
    if (data)
        memcpy(blob.data, data, size);
    ((char *)blob.data)[size] = 0;
    return blob;
}

void td_blob_free(td_blob *blob)
{
    if (blob->data)
        td_mem_free(blob->data, blob->size + 1);
    *blob = (td_blob){NULL, 0};
}

int td_blobs_add(td_blobs *list, td_blob blob)
{
    if (!blob.data)
        return -1;
    if (list->count == list->room) {
        int64_t room = list->room ? 2 * list->room : 4;
        td_blob *items = td_mem_realloc(list->items, (size_t)list->room * sizeof *items, (size_t)room * sizeof *items);
        if (!items)
            return td_blob_free(&blob), -1;
        list->items = items, list->room = room;
    }
    list->items[list->count++] = blob;
    return 0;
}

void td_blobs_free(td_blobs *list)
{
    for (int64_t i = 0; i < list->count; i++)
        td_blob_free(&list->items[i]);
    td_mem_free(list->items, (size_t)list->room * sizeof *list->items);
    *list = (td_blobs){0};
}

/* ---- maps */

static uint64_t hash_of(text key)
{
    uint64_t hash = 14695981039346656037u;          /* FNV-1a */
    for (size_t i = 0; i < key.size; i++)
        hash = (hash ^ (unsigned char)key.data[i]) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* Where the pointer to the key's entry is, or would be. */
static entry **place_of(const map *m, text key, uint64_t hash)
{
    entry **at = &m->buckets[hash & (uint64_t)(m->room - 1)];
    while (*at && ((*at)->hash != hash || (*at)->key.size != key.size || memcmp((*at)->key.data, key.data, key.size) != 0))
        at = &(*at)->next;
    return at;
}

static entry *find(const map *m, text key) { return m->room ? *place_of(m, key, hash_of(key)) : NULL; }

static int grow(map *m)
{
    map more = {.room = m->room ? 2 * m->room : 16, .count = m->count};
    if (!(more.buckets = td_mem_alloc_zero((size_t)more.room * sizeof *more.buckets)))
        return -1;
    for (int64_t i = 0; i < m->room; i++)
        for (entry *next, *e = m->buckets[i]; e; e = next) {
            entry **to = &more.buckets[e->hash & (uint64_t)(more.room - 1)];
            next = e->next, e->next = *to, *to = e;
        }
    td_mem_free(m->buckets, (size_t)m->room * sizeof *m->buckets);
    *m = more;
    return 0;
}

/* The key's entry, made if there is none; NULL on error. */
static entry *find_or_add(map *m, text key)
{
    entry *e = find(m, key);
    if (e || (m->count >= m->room && grow(m) != 0) || !(e = td_mem_alloc_zero(sizeof *e)))
        return e;
    e->hash = hash_of(key), e->key = td_blob_new(key.data, key.size);
    if (!e->key.data)
        return td_mem_free(e, sizeof *e), NULL;
    *place_of(m, key, e->hash) = e;
    m->count++;
    return e;
}

static void free_entry(entry *e)
{
    /* What was popped has no data any more, which freeing a blob allows. */
    td_blob_free(&e->key), td_blob_free(&e->value), td_blobs_free(&e->queue);
    td_mem_free(e, sizeof *e);
}

static bool remove_key(map *m, text key)
{
    entry **at = m->room ? place_of(m, key, hash_of(key)) : NULL, *e = at ? *at : NULL;
    if (!e)
        return false;
    *at = e->next;
    free_entry(e);
    m->count--;
    return true;
}

static void free_map(map *m)
{
    for (int64_t i = 0; i < m->room; i++)
        for (entry *next, *e = m->buckets[i]; e; e = next)
            next = e->next, free_entry(e);
    td_mem_free(m->buckets, (size_t)m->room * sizeof *m->buckets);
    *m = (map){0};
}

void table_free(table *t) { free_map(&t->values), free_map(&t->queues); }

/* ---- values */

/* Makes `value`, which it takes over, the key's. */
static int put(table *t, text key, td_blob value)
{
    entry *e = value.data ? find_or_add(&t->values, key) : NULL;
    if (!e)
        return td_blob_free(&value), -1;
    td_blob_free(&e->value);
    e->value = value;
    return 0;
}

int table_set(table *t, text key, const void *value, size_t size) { return put(t, key, td_blob_new(value, size)); }

const td_blob *table_get(const table *t, text key)
{
    const entry *e = find(&t->values, key);
    return e ? &e->value : NULL;
}

int number_of(td_blob value, text key, int64_t *number)
{
    char digits[DIGITS] = {0}, *end = digits;
    errno = 0;
    if (value.size > 0 && value.size < sizeof digits) {
        memcpy(digits, value.data, value.size);
        *number = strtoll(digits, &end, 10);
    }
    if (end == digits || end != digits + value.size || errno)
        return td_error(TD_E_VALUE, "add: the value of key '%.*s' is no integer of 64 bits", (int)key.size, key.data);
    return 0;
}
size_t digits_of(int64_t number, char digits[DIGITS]) { return (size_t)snprintf(digits, DIGITS, "%" PRId64, number); }

int table_add(table *t, text key, int64_t amount, int64_t *sum)
{
    int64_t before = 0;
    const td_blob *value = table_get(t, key);
    if (value && number_of(*value, key, &before) != 0)
        return -1;
    char digits[DIGITS];
    *sum = (int64_t)((uint64_t)before + (uint64_t)amount);
    return table_set(t, key, digits, digits_of(*sum, digits));
}

int table_compare_set(table *t, text key, td_blob expected, td_blob desired, td_blob *now)
{
    const td_blob *value = table_get(t, key);
    bool same = value ? value->size == expected.size && memcmp(value->data, expected.data, expected.size) == 0 : expected.size == 0;
    const td_blob *is = same ? &desired : value ? value : &expected;
    *now = td_blob_new(is->data, is->size);
    if (!now->data)
        return -1;
    if (!same || table_set(t, key, desired.data, desired.size) == 0)
        return 0;
    td_blob_free(now);
    return -1;
}

bool table_delete(table *t, text key) { return remove_key(&t->values, key); }

int table_append(table *t, text key, const void *value, size_t size)
{
    const td_blob *old = table_get(t, key);
    td_blob whole = td_blob_new(NULL, size + (old ? old->size : 0));
    if (!whole.data)
        return -1;
    if (old)
        memcpy(whole.data, old->data, old->size);
    memcpy((char *)whole.data + whole.size - size, value, size);
    return put(t, key, whole);
}

bool table_has(const table *t, text key) { return find(&t->values, key) || find(&t->queues, key); }

/* ---- queues: one that becomes empty is removed */

int table_push(table *t, text key, const void *value, size_t size)
{
    td_blob item = td_blob_new(value, size);
    entry *e = item.data ? find_or_add(&t->queues, key) : NULL;
    if (!e)
        return td_blob_free(&item), -1;
    if (e->first > 64 && e->first > e->queue.count / 2) {       /* so that a queue that is never empty doesn't grow for good */
        e->queue.count -= e->first;
        memmove(e->queue.items, e->queue.items + e->first, (size_t)e->queue.count * sizeof item);
        e->first = 0;
    }
    int status = td_blobs_add(&e->queue, item);
    if (status != 0 && e->queue.count == e->first)
        remove_key(&t->queues, key);
    return status;
}

bool table_pop(table *t, text key, td_blob *value)
{
    entry *e = find(&t->queues, key);
    if (!e)
        return false;
    *value = e->queue.items[e->first];
    e->queue.items[e->first++] = (td_blob){NULL, 0};
    if (e->first == e->queue.count)
        remove_key(&t->queues, key);
    return true;
}

int64_t table_queue_len(const table *t, text key)
{
    const entry *e = find(&t->queues, key);
    return e ? e->queue.count - e->first : 0;
}

int table_list(const table *t, td_blobs *keys)
{
    for (int64_t i = 0; i < t->values.room; i++)
        for (const entry *e = t->values.buckets[i]; e; e = e->next)
            if (td_blobs_add(keys, td_blob_new(e->key.data, e->key.size)) != 0)
                return -1;
    return 0;
}

/* ---- limits */

int check_key(const char *key, text *as_text)
{
    *as_text = (text){key, strnlen(key, TD_STORE_MOST_KEY + 1)};
    if (as_text->size > TD_STORE_MOST_KEY)
        return td_error(TD_E_VALUE, "a store's key has at most %d bytes, not those of '%.40s...'", TD_STORE_MOST_KEY, key);
    return 0;
}

int check_value(size_t size)
{
    if (size > TD_STORE_MOST_VALUE)
        return td_error(TD_E_VALUE, "a store's value has at most %d bytes, not %zu", TD_STORE_MOST_VALUE, size);
    return 0;
}
