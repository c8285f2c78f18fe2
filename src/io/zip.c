/* Reading zip archives.
 *
 * The directory at the end of an archive says where its entries begin; there each has a second, local head, of which only the length
 * matters.  The directory is read whole when the archive is opened, and nothing is changed afterwards, so threads may share an archive.
 *
 * An entry may use the bytes from its local head to the next entry's, or to the directory.  So a place that is in bounds overlaps
 * no other: entries can't share packed bytes, by which a small archive unpacks to a huge one. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>
#include <tede/zip.h>
#include "io/crc.h"
#include "io/file.h"
#include "io/text.h"
#include "io/zip.h"
#ifdef TD_ZLIB
#include <zlib.h>
#endif

typedef struct entry {
    const char *name;
    uint64_t    start, end;         /* of its local head; of what it may use */
    uint64_t    packed, size;
    uint32_t    sum;
    uint16_t    name_length, method;
    bool        encrypted;
} entry;

struct td_zip {
    td_storage *self, *bytes;       /* the block that this is in; the archive, where it is mapped or in memory */
    int         descriptor;         /* of a file, else -1 */
    const char *memory;             /* of what is in memory, else NULL */
    td_zip_read_function *read;     /* of what comes from elsewhere, else NULL */
    void      (*release)(void *);
    void       *context;
    uint64_t    size;
    block       directory, entries, by_name;
    int64_t     count;
};

static int failed(const char *why) { return td_error(TD_E_RUNTIME, "zip: %s", why); }
static int corrupted(void) { return failed("invalid header or archive is corrupted"); }

static entry *entry_at(const td_zip *z, int64_t i) { return (entry *)block_data(&z->entries) + i; }

static uint16_t u16(const char *p) { uint16_t n; return memcpy(&n, p, 2), n; }
static uint32_t u32(const char *p) { uint32_t n; return memcpy(&n, p, 4), n; }
static uint64_t u64(const char *p) { uint64_t n; return memcpy(&n, p, 8), n; }

/* ---- bytes of the archive */

static int read_file(int descriptor, uint64_t offset, char *to, size_t n)
{
    const size_t most = 1 << 30;        /* systems read less than 2 GB at a time */
    while (n) {
        ssize_t got = pread(descriptor, to, n < most ? n : most, (off_t)offset);
        if (got < 0 && errno != EINTR)
            return td_error(TD_E_IO, "zip: can't read: %s", strerror(errno));
        if (got == 0)
            return failed("the file has become shorter");
        if (got > 0)
            to += got, offset += (uint64_t)got, n -= (size_t)got;
    }
    return 0;
}

static int read_at(const td_zip *z, uint64_t offset, void *to, size_t n)
{
    if (offset > z->size || n > z->size - offset)
        return corrupted();
    if (z->descriptor >= 0)
        return read_file(z->descriptor, offset, to, n);
    if (z->read)
        return z->read(z->context, offset, to, n);
    if (n)
        memcpy(to, z->memory + offset, n);
    return 0;
}

/* ---- the directory */

typedef struct directory { uint64_t begin, length, count; } directory;

/* Where the end record says that the directory lies; it must lie before that record. */
static int find_directory(const td_zip *z, directory *d)
{
    enum { MOST_COMMENT = 0xffff };
    if (z->size < END_SIZE)
        return failed("not a ZIP archive");
    char locator[LOCATOR_SIZE], end64[END64_SIZE];
    block space = {0};
    size_t n = z->size < END_SIZE + MOST_COMMENT ? (size_t)z->size : END_SIZE + MOST_COMMENT;
    char *tail = block_more(&space, n);
    int status = tail ? read_at(z, z->size - n, tail, n) : -1;
    ptrdiff_t at = (ptrdiff_t)n - END_SIZE;
    while (status == 0 && at >= 0 && u32(tail + at) != END_SIGNATURE)
        at--;
    if (status == 0 && at < 0)
        status = failed("failed finding central directory");
    if (status == 0)
        *d = (directory){u32(tail + at + 16), u32(tail + at + 12), u16(tail + at + 10)};
    block_free(&space);
    if (status != 0)
        return -1;
    uint64_t limit = z->size - n + (uint64_t)at;
    if (limit >= LOCATOR_SIZE) {
        if (read_at(z, limit - LOCATOR_SIZE, locator, LOCATOR_SIZE) != 0)
            return -1;
        if (u32(locator) == LOCATOR_SIGNATURE) {
            limit -= LOCATOR_SIZE;
            if (read_at(z, u64(locator + 8), end64, END64_SIZE) != 0)
                return -1;
            if (u32(end64) != END64_SIGNATURE)
                return failed("failed finding central directory");
            *d = (directory){u64(end64 + 48), u64(end64 + 40), u64(end64 + 32)};
        }
    }
    if (d->begin > limit || d->length > limit - d->begin || d->count > d->length / CENTRAL_SIZE)
        return corrupted();
    return 0;
}

/* Numbers that are FULL stand in the extra field ZIP64, in this order. */
static int widen(const char *extra, size_t length, uint64_t *const numbers[3])
{
    size_t at = 0, end = 0;
    while (at + 4 <= length && u16(extra + at) != ZIP64)
        at += 4 + u16(extra + at + 2);
    if (at + 4 <= length)
        end = at + 4 + u16(extra + at + 2), at += 4;
    for (int k = 0; k < 3; k++) {
        if (*numbers[k] != FULL)
            continue;
        if (end > length || at + 8 > end)
            return corrupted();
        *numbers[k] = u64(extra + at), at += 8;
    }
    return 0;
}

/* Read the entry whose head is at p, before `end`; what follows it, or NULL. */
static char *read_entry(const directory *d, char *p, const char *end, entry *e)
{
    if (end - p < CENTRAL_SIZE || u32(p) != CENTRAL_SIGNATURE)
        return corrupted(), NULL;
    size_t n = u16(p + 28), extra = u16(p + 30), comment = u16(p + 32);
    char *name = p + CENTRAL_SIZE;
    if ((size_t)(end - name) < n + extra + comment)
        return corrupted(), NULL;
    *e = (entry){.start = u32(p + 42), .packed = u32(p + 20), .size = u32(p + 24), .sum = u32(p + 16), .name_length = (uint16_t)n,
                 .method = u16(p + 10), .encrypted = u16(p + 8) & 1};
    if (widen(name + n, extra, (uint64_t *[3]){&e->size, &e->packed, &e->start}) != 0)
        return NULL;
    bool fits = e->start <= d->begin && LOCAL_SIZE + n <= d->begin - e->start && e->packed <= d->begin - e->start - LOCAL_SIZE - n;
    /* Deflate makes at most 1032 bytes of one. */
    bool unpacks = e->method == STORED ? e->size == e->packed : e->size / 1032 <= e->packed;
    if (!fits || !unpacks || memchr(name, 0, n))
        return corrupted(), NULL;
    e->name = memmove(name - 1, name, n);       /* room for the NUL: the head has been read */
    name[n - 1] = 0;
    return name + n + extra + comment;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp((*(entry *const *)a)->name, (*(entry *const *)b)->name);
}
static int compare_starts(const void *a, const void *b)
{
    const entry *x = *(entry *const *)a, *y = *(entry *const *)b;
    return x->start < y->start ? -1 : x->start > y->start;
}

static int arrange(td_zip *z, const directory *d)
{
    entry **order = block_more(&z->by_name, (size_t)z->count * sizeof *order);
    if (!order)
        return -1;
    for (int64_t i = 0; i < z->count; i++)
        order[i] = entry_at(z, i);
    qsort(order, (size_t)z->count, sizeof *order, compare_starts);
    for (int64_t i = 0; i < z->count; i++) {
        order[i]->end = i + 1 < z->count ? order[i + 1]->start : d->begin;
        if (order[i]->end - order[i]->start < LOCAL_SIZE + order[i]->name_length + order[i]->packed)
            return td_error(TD_E_RUNTIME, "zip: the entries '%.80s' and '%.80s' overlap", order[i]->name, order[i + 1]->name);
    }
    qsort(order, (size_t)z->count, sizeof *order, compare_names);
    for (int64_t i = 1; i < z->count; i++)
        if (strcmp(order[i - 1]->name, order[i]->name) == 0)
            return td_error(TD_E_RUNTIME, "zip: the name '%.80s' comes twice", order[i]->name);
    return 0;
}

static int read_directory(td_zip *z)
{
    directory d = {0};
    char *p;
    if (find_directory(z, &d) != 0 || !(p = block_more(&z->directory, (size_t)d.length)) || read_at(z, d.begin, p, (size_t)d.length) != 0)
        return -1;
    entry *entries = block_more(&z->entries, (size_t)d.count * sizeof *entries);
    const char *end = p + d.length;
    for (z->count = 0; entries && z->count < (int64_t)d.count; z->count++)
        if (!(p = read_entry(&d, p, end, &entries[z->count])))
            return -1;
    return entries ? arrange(z, &d) : -1;
}

/* ---- opening */

static td_zip *new_zip(uint64_t size)
{
    td_zip *z = block_struct(sizeof *z, offsetof(td_zip, self));
    if (z)
        z->descriptor = -1, z->size = size;
    return z;
}

void td_zip_release(td_zip *z)
{
    if (!z)
        return;
    block *const blocks[] = {&z->directory, &z->entries, &z->by_name};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        block_free(blocks[i]);
    if (z->descriptor >= 0)
        close(z->descriptor);
    if (z->release)
        z->release(z->context);
    td_storage_release(z->bytes);
    td_storage_release(z->self);
}

td_zip *td_zip_open(const char *path)
{
    uint64_t size;
    int descriptor = td_file_open("zip", path, &size);
    td_zip *z = descriptor >= 0 ? new_zip(size) : NULL;
    if (z)
        z->descriptor = descriptor;
    else if (descriptor >= 0)
        close(descriptor);
    if (z && (!(z->bytes = td_file_map("zip", path, descriptor, size)) || read_directory(z) != 0)) {
        td_zip_release(z);
        return NULL;
    }
    return z;
}

td_zip *td_zip_parse(void *bytes, size_t size, void (*release)(void *), void *context)
{
    td_zip *z = new_zip(size);
    if (!z)
        return NULL;
    z->memory = bytes;
    if (read_directory(z) == 0)
        z->bytes = td_storage_from_memory(bytes, size, (td_device){TD_CPU, -1}, release, context);
    if (!z->bytes) {
        td_zip_release(z);
        return NULL;
    }
    return z;
}

td_zip *td_zip_over(uint64_t size, td_zip_read_function *read, void (*release)(void *), void *context)
{
    td_zip *z = new_zip(size);
    if (!z)
        return NULL;
    z->read = read, z->context = context;
    if (read_directory(z) != 0) {
        td_zip_release(z);
        return NULL;
    }
    z->release = release;
    return z;
}

int td_zip_enter(td_zip *z)
{
    if (z->count == 0)
        return failed("archive does not contain any files");
    const char *first = entry_at(z, 0)->name, *slash = strchr(first, '/');
    if (!slash)
        return td_error(TD_E_RUNTIME, "file in archive is not in a subdirectory: %.200s", first);
    size_t n = (size_t)(slash - first) + 1;
    for (int64_t i = 0; i < z->count; i++)
        if (strncmp(entry_at(z, i)->name, first, n) != 0)
            return td_error(TD_E_RUNTIME, "file in archive is not in a subdirectory %.*s: %.200s", (int)(n < 200 ? n : 200), first, entry_at(z, i)->name);
    for (int64_t i = 0; i < z->count; i++)
        entry_at(z, i)->name += n;
    return 0;
}

/* ---- what is in it */

int64_t     td_zip_count(const td_zip *z) { return z->count; }
const char *td_zip_name(const td_zip *z, int64_t i) { return entry_at(z, i)->name; }
uint64_t    td_zip_size(const td_zip *z, int64_t i) { return entry_at(z, i)->size; }
bool        td_zip_is_packed(const td_zip *z, int64_t i) { return entry_at(z, i)->method != STORED; }

int64_t td_zip_find(const td_zip *z, const char *name)
{
    entry wanted = {.name = name}, *key = &wanted;
    entry **found = z->count ? bsearch(&key, block_data(&z->by_name), (size_t)z->count, sizeof key, compare_names) : NULL;
    return found ? *found - entry_at(z, 0) : -1;
}

int64_t td_zip_offset(const td_zip *z, int64_t i)
{
    const entry *e = entry_at(z, i);
    char head[LOCAL_SIZE];
    if (read_at(z, e->start, head, sizeof head) != 0)
        return -1;
    uint64_t begin = e->start + LOCAL_SIZE + u16(head + 26) + u16(head + 28);
    if (u32(head) != LOCAL_SIGNATURE || begin > e->end || e->packed > e->end - begin)
        return corrupted();
    return (int64_t)begin;
}

/* ---- entries' bytes */

#ifdef TD_ZLIB
enum { BEFORE = 16 };

/* zlib's memory is the library's, too: each block lies in a storage, whose address stands before it. */
static void *take(void *unused, unsigned n, unsigned size)
{
    (void)unused;
    td_storage *storage = td_storage_new((td_device){TD_CPU, -1}, BEFORE + (size_t)n * size);
    return storage ? (char *)memcpy(td_storage_data(storage), &storage, sizeof storage) + BEFORE : NULL;
}
static void give(void *unused, void *p)
{
    (void)unused;
    td_storage *storage;
    memcpy(&storage, (char *)p - BEFORE, sizeof storage);
    td_storage_release(storage);
}

static int unpack(const td_zip *z, const entry *e, uint64_t at, void *to, size_t n)
{
    enum { PIECE = 1 << 16, MOST = 1 << 30 };
    z_stream s = {.zalloc = take, .zfree = give};
    block space = {0};
    unsigned char *piece = block_more(&space, PIECE), beyond;
    if (!piece || inflateInit2(&s, -MAX_WBITS) != Z_OK)
        return block_free(&space), -1;
    int status = Z_OK;
    size_t done = 0;
    uint64_t left = e->packed;
    /* After the last byte of an entry its stream must end: one byte more has a place to go to, and is an error. */
    while (status == Z_OK && (done < n || (done == n && n == e->size))) {
        if (s.avail_in == 0 && left) {
            s.next_in = piece, s.avail_in = left < PIECE ? (unsigned)left : PIECE;
            if (read_at(z, at, piece, s.avail_in) != 0) {
                status = Z_ERRNO;
                break;
            }
            at += s.avail_in, left -= s.avail_in;
        }
        unsigned room = done == n ? 1 : n - done < MOST ? (unsigned)(n - done) : MOST;
        s.next_out = done == n ? &beyond : (unsigned char *)to + done, s.avail_out = room;
        status = inflate(&s, Z_NO_FLUSH);
        done += room - s.avail_out;
    }
    if (status == Z_DATA_ERROR)
        td_error(TD_E_RUNTIME, "zip: %.80s: %s", e->name, s.msg ? s.msg : "invalid data");
    else if (status != Z_ERRNO && status != Z_MEM_ERROR && (done != n || (n == e->size && status != Z_STREAM_END)))
        td_error(TD_E_RUNTIME, "zip: %.80s: decompressed to another size than declared", e->name), status = Z_DATA_ERROR;
    inflateEnd(&s);
    block_free(&space);
    return status == Z_OK || status == Z_STREAM_END ? 0 : -1;
}
#else
static int unpack(const td_zip *z, const entry *e, uint64_t at, void *to, size_t n)
{
    (void)z, (void)at, (void)to, (void)n;
    return td_error(TD_E_NOT_IMPLEMENTED, "zip: %.80s is compressed, and this library was built without zlib", e->name);
}
#endif

int td_zip_read(const td_zip *z, int64_t i, void *to, size_t n)
{
    const entry *e = entry_at(z, i);
    if (n > e->size)
        return td_error(TD_E_RUNTIME, "zip: %.80s has %" PRIu64 " bytes, but %zu are needed", e->name, e->size, n);
    if (e->encrypted)
        return td_error(TD_E_RUNTIME, "zip: %.80s is encrypted", e->name);
    if (e->method != STORED && e->method != DEFLATED)
        return td_error(TD_E_RUNTIME, "zip: compression method %d of %.80s is not supported", e->method, e->name);
    int64_t at = td_zip_offset(z, i);
    if (at < 0)
        return -1;
    return e->method == STORED ? read_at(z, (uint64_t)at, to, n) : unpack(z, e, (uint64_t)at, to, n);
}

td_storage *td_zip_storage(const td_zip *z, int64_t i)
{
    const entry *e = entry_at(z, i);
    if (z->bytes && e->method == STORED && !e->encrypted && e->size) {
        int64_t at = td_zip_offset(z, i);
        return at < 0 ? NULL : td_storage_part(z->bytes, (char *)td_storage_data(z->bytes) + at, (size_t)e->size);
    }
    td_storage *copy = td_storage_new((td_device){TD_CPU, -1}, (size_t)e->size);
    if (copy && td_zip_read(z, i, td_storage_data(copy), (size_t)e->size) != 0) {
        td_storage_release(copy);
        return NULL;
    }
    return copy;
}

int td_zip_check(const td_zip *z, int64_t i, const void *bytes)
{
    const entry *e = entry_at(z, i);
    block space = {0};
    crc_table *table = block_more(&space, sizeof *table);
    if (!table)
        return -1;
    crc_start(table);
    bool same = crc_add(table, 0, bytes, (size_t)e->size) == e->sum;
    block_free(&space);
    return same ? 0 : td_error(TD_E_RUNTIME, "zip: %.80s is damaged: its bytes have another check sum than the directory says", e->name);
}
