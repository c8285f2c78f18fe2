/* FileStore: a log of records in a file, which its users append to under a lock and read what they haven't read.
 *
 * A record is a key and a value, each a length of 64 bits and bytes; the last one of a key counts.  A key begins with "/" for a value and
 * with "-" for a deletion; the keys "refcount/" and "cleanup/" count users, so that the last one can remove the file.  This is PyTorch's
 * format, so its processes may be users, too.  Nothing tells a reader of a change: it looks every few milliseconds.
 *
 * What is in the file isn't trusted: a length that leaves the limits is an error, a record that isn't whole yet is left for later. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/base.h"
#include "group/store.h"
#include "group/table.h"
#include "group/wait.h"

typedef struct file {
    char           *path;
    size_t          path_size;
    int64_t         world_size;
    off_t           at;             /* up to where it is read */
    table           data;
    pthread_mutex_t lock;
} file;

static const char COUNT[] = "refcount/", CLEANUP[] = "cleanup/";
static text text_of(const char *key) { return (text){key, strlen(key)}; }

static int failed(const file *f, const char *what)
{
    return td_error(TD_E_DIST_STORE, "FileStore: can't %s '%s': %s", what, f->path, strerror(errno));
}

/* The file, open and locked by `how`; -1.  Waits for the lock until the deadline. */
static int open_locked(const file *f, int how, int64_t deadline)
{
    int fd;
    while ((fd = open(f->path, how == LOCK_EX ? O_RDWR | O_CREAT | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0644)) < 0 && errno == EINTR)
        ;
    if (fd < 0)
        return how == LOCK_SH && errno == ENOENT ? -2 : failed(f, "open");
    while (flock(fd, how | LOCK_NB) != 0) {
        int64_t now = clock_ms();
        if ((errno != EWOULDBLOCK && errno != EINTR) || now >= deadline) {
            failed(f, "lock");
        } else if (descriptor_wait(-1, 0, now + 2) >= 0) {
            continue;
        }
        close(fd);
        return -1;
    }
    return fd;
}

/* 1: read; 0: the file ends before; -1. */
static int read_whole(const file *f, int fd, void *to, size_t size, off_t at)
{
    for (char *p = to; size;) {
        ssize_t n = pread(fd, p, size, at);
        if (n < 0 && errno != EINTR)
            return failed(f, "read");
        if (n == 0)
            return 0;
        if (n > 0)
            p += n, size -= (size_t)n, at += n;
    }
    return 1;
}

/* One of the two parts of a record, as read_whole; *at goes behind it. */
static int read_part(const file *f, int fd, off_t *at, size_t most, td_blob *part)
{
    uint64_t size;
    int status = read_whole(f, fd, &size, sizeof size, *at);
    if (status != 1)
        return status;
    if (size > most)
        return td_error(TD_E_DIST_STORE, "FileStore: '%s' has a record of %llu bytes at %lld: it is no store's, or damaged", f->path,
                        (unsigned long long)size, (long long)*at);
    *part = td_blob_new(NULL, (size_t)size);
    if (!part->data)
        return -1;
    status = read_whole(f, fd, part->data, (size_t)size, *at + (off_t)sizeof size);
    if (status == 1)
        *at += (off_t)(sizeof size + size);
    return status;
}

static int take(file *f, const td_blob *key, const td_blob *value)
{
    text t = {key->data, key->size};
    if (t.size && t.data[0] == '-') {
        td_blob name = td_blob_new(t.data, t.size);
        if (!name.data)
            return -1;
        ((char *)name.data)[0] = '/';
        table_delete(&f->data, (text){name.data, name.size});
        td_blob_free(&name);
        return 0;
    }
    return table_set(&f->data, t, value->data, value->size);
}

/* Reads what others have written.  A file that is shorter than what was read is another one. */
static int catch_up(file *f, int fd)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return failed(f, "look at");
    if (about.st_size < f->at)
        table_free(&f->data), f->at = 0;
    for (int status = 1; status == 1 && f->at < about.st_size;) {
        td_blob key = {NULL, 0}, value = {NULL, 0};
        off_t at = f->at;
        status = read_part(f, fd, &at, TD_STORE_MOST_KEY + 1, &key);
        if (status == 1)
            status = read_part(f, fd, &at, TD_STORE_MOST_VALUE, &value);
        if (status == 1)
            status = take(f, &key, &value) == 0 ? 1 : -1;
        td_blob_free(&key), td_blob_free(&value);
        if (status < 0)
            return -1;
        if (status == 1)
            f->at = at;
    }
    return 0;
}

/* Appends a record behind all that is whole, so that what a process that died has left is written over. */
static int put(file *f, int fd, text key, const void *value, size_t size)
{
    uint64_t sizes[2] = {key.size, size};
    td_blob record = td_blob_new(NULL, sizeof sizes + key.size + size);
    if (!record.data)
        return -1;
    char *p = record.data;
    memcpy(p, &sizes[0], 8), memcpy(p + 8, key.data, key.size);
    memcpy(p + 8 + key.size, &sizes[1], 8), memcpy(p + 16 + key.size, size ? value : "", size);
    int status = ftruncate(fd, f->at) == 0 ? 0 : failed(f, "write to");
    for (size_t done = 0; done < record.size && status == 0;) {
        ssize_t n = pwrite(fd, p + done, record.size - done, f->at + (off_t)done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            status = failed(f, "write to");
    }
    td_blob_free(&record);
    return status;
}

/* ---- operations: each opens the file, and holds its lock meanwhile */

typedef struct opened { file *f; int fd, status; } opened;

static opened begin(void *self, int how)
{
    file *f = self;
    pthread_mutex_lock(&f->lock);
    int fd = open_locked(f, how, deadline_after(TD_STORE_TIMEOUT_MS));
    int status = fd >= 0 ? catch_up(f, fd) : fd == -2 ? 0 : -1;     /* -2: nobody has written yet */
    return (opened){f, fd, status};
}
static int end(opened *o, int status)
{
    if (o->fd >= 0)
        close(o->fd);
    pthread_mutex_unlock(&o->f->lock);
    return o->status == 0 ? status : -1;
}

/* A key with the sign that the file's records have; without data on error. */
static td_blob signed_key(char sign, const char *key)
{
    size_t size = strlen(key);
    td_blob name = td_blob_new(NULL, size + 1);
    if (name.data) {
        memcpy((char *)name.data + 1, key, size);
        *(char *)name.data = sign;
    }
    return name;
}
static text as_text(td_blob name) { return (text){name.data, name.size}; }

static int set(void *self, const char *key, const void *value, size_t size)
{
    td_blob name = signed_key('/', key);
    if (!name.data)
        return -1;
    opened o = begin(self, LOCK_EX);
    int status = end(&o, o.status == 0 ? put(o.f, o.fd, as_text(name), value, size) : -1);
    td_blob_free(&name);
    return status;
}

static int add_to(void *self, text key, int64_t amount, int64_t *sum)
{
    opened o = begin(self, LOCK_EX);
    int64_t before = 0;
    const td_blob *value = o.status == 0 ? table_get(&o.f->data, key) : NULL;
    int status = value ? number_of(*value, key, &before) : o.status;
    if (status == 0) {
        char digits[DIGITS];
        *sum = (int64_t)((uint64_t)before + (uint64_t)amount);
        status = put(o.f, o.fd, key, digits, digits_of(*sum, digits));
    }
    return end(&o, status);
}
static int add(void *self, const char *key, int64_t amount, int64_t *sum)
{
    td_blob name = signed_key('/', key);
    int status = name.data ? add_to(self, as_text(name), amount, sum) : -1;
    td_blob_free(&name);
    return status;
}

static int check(void *self, int64_t n, const char *const *keys)
{
    opened o = begin(self, LOCK_SH);
    int there = o.status == 0;
    for (int64_t i = 0; i < n && there == 1; i++) {
        td_blob name = signed_key('/', keys[i]);
        there = name.data ? table_get(&o.f->data, as_text(name)) != NULL : -1;
        td_blob_free(&name);
    }
    return end(&o, there);
}

static int wait_for(void *self, int64_t n, const char *const *keys, int64_t timeout)
{
    int64_t deadline = deadline_after(timeout);
    for (int64_t pause = 1;; pause = pause < 10 ? pause + 1 : pause) {
        int there = check(self, n, keys);
        int64_t now = clock_ms();
        if (there)
            return there > 0 ? 0 : -1;
        if (now >= deadline)
            return store_timed_out(n, keys, "", timeout);
        if (descriptor_wait(-1, 0, now + pause < deadline ? now + pause : deadline) < 0)
            return -1;
    }
}

static int get(void *self, const char *key, int64_t timeout, td_blob *value)
{
    td_blob name = signed_key('/', key);
    int status = name.data ? 0 : -1;
    for (bool done = false; status == 0 && !done;) {
        status = wait_for(self, 1, &key, timeout);
        if (status == 0) {
            opened o = begin(self, LOCK_SH);
            const td_blob *found = o.status == 0 ? table_get(&o.f->data, as_text(name)) : NULL;
            if (found)
                *value = td_blob_new(found->data, found->size), done = value->data != NULL, status = done ? 0 : -1;
            status = end(&o, status);
        }
    }
    td_blob_free(&name);
    return status;
}

static int compare_set(void *self, const char *key, td_blob expected, td_blob desired, td_blob *now)
{
    td_blob name = signed_key('/', key);
    if (!name.data)
        return -1;
    opened o = begin(self, LOCK_EX);
    const td_blob *value = o.status == 0 ? table_get(&o.f->data, as_text(name)) : NULL;
    bool same = value ? value->size == expected.size && memcmp(value->data, expected.data, expected.size) == 0 : expected.size == 0;
    int status = o.status == 0 && same ? put(o.f, o.fd, as_text(name), desired.data, desired.size) : o.status;
    const td_blob *is = same ? &desired : value ? value : &expected;
    if (status == 0 && !(*now = td_blob_new(is->data, is->size)).data)
        status = -1;
    status = end(&o, status);
    td_blob_free(&name);
    return status;
}

static int delete_key(void *self, const char *key)
{
    td_blob name = signed_key('/', key);
    if (!name.data)
        return -1;
    opened o = begin(self, LOCK_EX);
    int status = o.status == 0 ? table_get(&o.f->data, as_text(name)) != NULL : -1;
    *(char *)name.data = '-';
    if (status == 1 && put(o.f, o.fd, as_text(name), "", 0) != 0)
        status = -1;
    status = end(&o, status);
    td_blob_free(&name);
    return status;
}

/* With the count of users, which is a key in PyTorch's, too. */
static int64_t num_keys(void *self)
{
    opened o = begin(self, LOCK_SH);
    return end(&o, (int)o.f->data.values.count);
}

static int list_keys(void *self, td_blobs *keys)
{
    opened o = begin(self, LOCK_SH);
    td_blobs all = {0};
    int status = o.status == 0 ? table_list(&o.f->data, &all) : -1;
    for (int64_t i = 0; i < all.count && status == 0; i++) {
        const td_blob *key = &all.items[i];
        if (key->size && *(char *)key->data == '/')
            status = td_blobs_add(keys, td_blob_new((char *)key->data + 1, key->size - 1));
    }
    td_blobs_free(&all);
    return end(&o, status);
}

static void drop(file *f)
{
    table_free(&f->data);
    pthread_mutex_destroy(&f->lock);
    td_mem_free(f->path, f->path_size);
    td_mem_free(f, sizeof *f);
}

/* The last user removes the file if as many have come and gone as there were to be. */
static void release(void *self)
{
    file *f = self;
    int64_t users, gone;
    void *pending = td_error_detach();          /* what fails here isn't anybody's */
    if (add_to(f, text_of(CLEANUP), 1, &gone) == 0 && add_to(f, text_of(COUNT), -1, &users) == 0 && users == 0 && f->world_size >= 0 &&
        gone >= f->world_size)
        unlink(f->path);
    td_error_clear();
    if (pending)
        td_error_attach(pending);
    drop(f);
}

static td_store *another(void *self)
{
    const file *f = self;
    return td_store_file(f->path, f->world_size);
}

static const td_store_kind kind = {
    .name = "FileStore", .set = set, .get = get, .add = add, .wait = wait_for, .check = check, .compare_set = compare_set,
    .delete_key = delete_key, .num_keys = num_keys, .release = release, .list_keys = list_keys, .clone = another,
};

td_store *td_store_file(const char *path, int64_t world_size)
{
    file *f = td_mem_alloc_zero(sizeof *f);
    if (!f)
        return NULL;
    pthread_mutex_init(&f->lock, NULL);
    f->path_size = strlen(path) + 1, f->path = td_mem_alloc(f->path_size), f->world_size = world_size;
    int64_t users;
    if (f->path)
        memcpy(f->path, path, f->path_size);
    if (!f->path || add_to(f, text_of(COUNT), 1, &users) != 0)
        return drop(f), NULL;
    td_store *s = td_store_new(&kind, f);
    if (!s)
        release(f);
    return s;
}
