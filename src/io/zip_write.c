/* Writing zip archives, front to back: entries as they are, each one's bytes at a multiple of the alignment, and the directory.
 *
 * An extra field of the local head takes up the room before an entry's bytes. PyTorch's is named "FB" and holds Zs. */
#include <stdlib.h>
#include <tede/zip.h>
#include "io/crc.h"
#include "io/text.h"
#include "io/zip.h"

enum { MOST_ALIGNMENT = 1 << 14 };

struct td_zip_writer {
    td_storage *self;
    td_zip_write_function *write;
    void       *context;
    uint64_t    at;                 /* bytes written so far */
    uint64_t    count;
    size_t      alignment;
    block       directory, folder;  /* the heads of the directory; what names begin with */
    crc_table   table;
};

/* ---- fields */

static char *put16(char *p, uint64_t n) { uint16_t v = (uint16_t)n; return (char *)memcpy(p, &v, 2) + 2; }
static char *put32(char *p, uint64_t n) { uint32_t v = (uint32_t)n; return (char *)memcpy(p, &v, 4) + 4; }
static char *put64(char *p, uint64_t n) { return (char *)memcpy(p, &n, 8) + 8; }
static uint64_t least(uint64_t n, uint64_t most) { return n < most ? n : most; }

static int put(td_zip_writer *w, const void *bytes, size_t n)
{
    if (n && w->write(w->context, bytes, n) != 0)
        return -1;
    w->at += n;
    return 0;
}

/* What both heads of an entry have in common: from the version to the length of the name. */
static char *put_common(char *p, bool large, uint32_t sum, uint64_t size, size_t name)
{
    enum { VERSION64 = 45, UTF8 = 1 << 11 };
    uint64_t shown = least(size, FULL);
    p = put16(put16(put16(p, large ? VERSION64 : 0), UTF8), STORED);
    p = put32(put32(p, 0), sum);                /* no time, so that the same contents make the same file */
    return put16(put32(put32(p, shown), shown), name);
}

/* ---- entries */

td_zip_writer *td_zip_writer_new(td_zip_write_function *write, void *context, const char *folder, int alignment)
{
    if (alignment < 1 || alignment > MOST_ALIGNMENT || (alignment & (alignment - 1)))
        return td_fail(TD_E_VALUE, "zip: an alignment of %d is no power of two from 1 to %d", alignment, MOST_ALIGNMENT);
    td_zip_writer *w = block_struct(sizeof *w, offsetof(td_zip_writer, self));
    if (!w)
        return NULL;
    w->write = write, w->context = context, w->alignment = (size_t)alignment;
    crc_start(&w->table);
    size_t n = strlen(folder);
    char *copy = block_more(&w->folder, n + 1);
    if (!copy) {
        td_zip_writer_release(w);
        return NULL;
    }
    memcpy(copy, folder, n);
    copy[n] = '/';
    w->folder.used = n ? n + 1 : 0;
    return w;
}

void td_zip_writer_release(td_zip_writer *w)
{
    if (!w)
        return;
    block_free(&w->directory);
    block_free(&w->folder);
    td_storage_release(w->self);
}

static char *put_name(const td_zip_writer *w, char *p, const char *name)
{
    size_t n = strlen(name);
    memcpy(p, block_data(&w->folder), w->folder.used);
    memcpy(p + w->folder.used, name, n);
    return p + w->folder.used + n;
}

static int put_local(td_zip_writer *w, const char *name, size_t length, uint32_t sum, uint64_t size)
{
    block space = {0};
    bool large = size >= FULL;
    size_t wide = large ? 20 : 0, end = LOCAL_SIZE + length + wide + 4;
    size_t padding = (size_t)-(w->at + end) & (w->alignment - 1);
    char *head = block_more(&space, end + padding), *p = head;
    if (!head)
        return -1;
    p = put_common(put32(p, LOCAL_SIGNATURE), large, sum, size, length);
    p = put_name(w, put16(p, wide + 4 + padding), name);
    if (large)
        p = put64(put64(put16(put16(p, ZIP64), 16), size), size);
    p = put16((char *)memcpy(p, "FB", 2) + 2, padding);
    memset(p, 'Z', padding);
    int status = put(w, head, end + padding);
    block_free(&space);
    return status;
}

static int put_central(td_zip_writer *w, const char *name, size_t length, uint32_t sum, uint64_t size, uint64_t start)
{
    uint64_t numbers[] = {size, size, start};
    size_t wide = 0;
    for (int k = 0; k < 3; k++)
        wide += numbers[k] >= FULL ? 8 : 0;
    char *p = block_more(&w->directory, CENTRAL_SIZE + length + (wide ? 4 + wide : 0));
    if (!p)
        return -1;
    p = put_common(put16(put32(p, CENTRAL_SIGNATURE), 45), wide, sum, size, length);
    p = put16(p, wide ? 4 + wide : 0);
    memset(p, 0, 10);                           /* comment, disk, attributes */
    p = put_name(w, put32(p + 10, least(start, FULL)), name);
    if (wide)
        p = put16(put16(p, ZIP64), wide);
    for (int k = 0; k < 3; k++)
        if (numbers[k] >= FULL)
            p = put64(p, numbers[k]);
    w->count++;
    return 0;
}

int td_zip_writer_add(td_zip_writer *w, const char *name, const void *bytes, size_t n, bool check_sum)
{
    static const unsigned char zeros[4096];
    size_t length = w->folder.used + strlen(name);
    uint64_t start = w->at;
    uint32_t sum = 0;
    if (length > UINT16_MAX)
        return td_error(TD_E_VALUE, "zip: a name of %zu bytes is longer than the %d allowed", length, UINT16_MAX);
    for (size_t at = 0; check_sum && at < n; at += bytes ? n : least(n - at, sizeof zeros))
        sum = crc_add(&w->table, sum, bytes ? bytes : zeros, bytes ? n : least(n - at, sizeof zeros));
    if (put_local(w, name, length, sum, n) != 0)
        return -1;
    for (size_t at = 0, piece; at < n; at += piece)
        if (put(w, bytes ? bytes : zeros, piece = bytes ? n : least(n - at, sizeof zeros)) != 0)
            return -1;
    return put_central(w, name, length, sum, n, start);
}

int td_zip_writer_finish(td_zip_writer *w)
{
    uint64_t begin = w->at, length = w->directory.used, end = begin + length;
    char tail[END64_SIZE + LOCATOR_SIZE + END_SIZE], *p = tail;
    if (w->count >= 0xffff || length >= FULL || begin >= FULL) {
        p = put64(put32(p, END64_SIGNATURE), END64_SIZE - 12);
        p = put64(put64(put16(put16(p, 45), 45), 0), w->count);
        p = put64(put64(put64(p, w->count), length), begin);
        p = put32(put64(put32(put32(p, LOCATOR_SIGNATURE), 0), end), 1);
    }
    p = put32(put32(p, END_SIGNATURE), 0);
    p = put16(put16(p, least(w->count, 0xffff)), least(w->count, 0xffff));
    p = put16(put32(put32(p, least(length, FULL)), least(begin, FULL)), 0);
    return put(w, block_data(&w->directory), length) != 0 ? -1 : put(w, tail, (size_t)(p - tail));
}
