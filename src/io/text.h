/* What reading and writing of text headers share: UTF-8, and memory that grows.
 *
 * This layer sees the public API only, and the library's allocator is reached publicly through a storage: so a growing
 * array here is a storage, and limits, statistics and tests that let allocations fail hold for it too. */
#ifndef TD_IO_TEXT_H
#define TD_IO_TEXT_H
#include <string.h>
#include <tede/tensor.h>

typedef struct block {
    td_storage *storage;
    size_t      used;       /* bytes */
} block;

static inline void *block_data(const block *b) { return b->storage ? td_storage_data(b->storage) : NULL; }
static inline void  block_free(block *b) { td_storage_release(b->storage); }

/* Room for `size` more bytes, counted as used.  What was there may move.  NULL on error. */
static inline void *block_more(block *b, size_t size)
{
    size_t needed = b->used + size, room = b->storage ? td_storage_nbytes(b->storage) : 0;
    if (!b->storage) {
        if (!(b->storage = td_storage_new((td_device){TD_CPU, -1}, needed)))
            return NULL;
    } else if (needed > room && td_storage_resize(b->storage, needed > 2 * room ? needed : 2 * room) != 0) {
        return NULL;
    }
    void *more = (char *)td_storage_data(b->storage) + b->used;
    b->used = needed;
    return more;
}

/* A block for one struct, zeroed, that holds the reference to itself in *owner, which must be a field of it. */
static inline void *block_struct(size_t size, size_t owner)
{
    td_storage *storage = td_storage_new((td_device){TD_CPU, -1}, size);
    char *data = storage ? memset(td_storage_data(storage), 0, size) : NULL;
    if (data)
        memcpy(data + owner, &storage, sizeof storage);
    return data;
}

/* 0 if no two of the texts are the same, else -1 with an error that names the file's kind and what they are. */
int td_text_check_distinct(const char *who, const char *what, int64_t n, const char *const *texts);

/* The length (1 to 4) of the character at p in valid UTF-8; 0 if there is none before `end`.  Longer forms than
 * needed, surrogates and what lies beyond U+10FFFF aren't valid. */
static inline int utf8_length(const char *p, const char *end)
{
    const unsigned char *c = (const unsigned char *)p;
    if (p >= end)
        return 0;
    if (c[0] < 0x80)
        return 1;
    int n = c[0] >= 0xc2 && c[0] <= 0xdf ? 2 : (c[0] & 0xf0) == 0xe0 ? 3 : c[0] >= 0xf0 && c[0] <= 0xf4 ? 4 : 0;
    if (n == 0 || end - p < n)
        return 0;
    for (int i = 1; i < n; i++)
        if ((c[i] & 0xc0) != 0x80)
            return 0;
    bool odd = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
               (c[0] == 0xf4 && c[1] > 0x8f);
    return odd ? 0 : n;
}

#endif
