/* Keys and values in memory: what a HashStore holds, and the server of TCP stores.
 *
 * Values and queues are entries of two tables, since a queue is no key as far as counting and listing go.  Nothing here locks. */
#ifndef TD_GROUP_TABLE_H
#define TD_GROUP_TABLE_H
#include <tede/store.h>

typedef struct entry {
    struct entry *next;
    uint64_t      hash;
    td_blob       key;              /* with a NUL behind it, that isn't counted */
    td_blob       value;
    td_blobs      queue;            /* items before `first` are popped */
    int64_t       first;
} entry;
typedef struct map { entry **buckets; int64_t count, room; } map;
typedef struct table { map values, queues; } table;

/* A key as it is looked up: text of a known length. */
typedef struct text { const char *data; size_t size; } text;

void    table_free(table *t);
int     table_set(table *t, text key, const void *value, size_t size);
const td_blob *table_get(const table *t, text key);         /* NULL: there is none, which is no error */
int     table_add(table *t, text key, int64_t amount, int64_t *sum);
int     table_compare_set(table *t, text key, td_blob expected, td_blob desired, td_blob *now);
bool    table_delete(table *t, text key);
int     table_append(table *t, text key, const void *value, size_t size);
bool    table_has(const table *t, text key);                /* a value, or a queue that isn't empty */
int     table_push(table *t, text key, const void *value, size_t size);
bool    table_pop(table *t, text key, td_blob *value);      /* false: there is none */
int64_t table_queue_len(const table *t, text key);
int     table_list(const table *t, td_blobs *keys);

/* The number that decimal digits say; -1 with an error if there is anything else.  Shared with stores that keep values elsewhere. */
int     number_of(td_blob value, text key, int64_t *number);
enum { DIGITS = 24 };
size_t  digits_of(int64_t number, char digits[DIGITS]);
/* Whether a key may be used, by its length: 0, or -1 with an error. */
int     check_key(const char *key, text *as_text);
int     check_value(size_t size);
#endif
