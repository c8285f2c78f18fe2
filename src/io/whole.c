/* Writing files.
 *
 * Note [A file is there whole or not at all]
 * The bytes go to a new file in the folder of the old one; it is flushed to the disk and only then renamed over it,
 * which file systems do in one step; at last the folder is flushed, so that the new name survives a crash too. An error
 * on the way removes the new file and leaves the old one as it was. A process that is killed leaves a file with
 * ".partial" in its name behind. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <tede/kernel.h>
#include "io/whole.h"

static int failed(const td_whole *w, const char *doing)
{
    return td_error(TD_E_IO, "%s: can't %s '%s': %s", w->who, doing, w->path, strerror(errno));
}

int td_whole_write(td_whole *w, const void *bytes, uint64_t n)
{
    const uint64_t most = 1 << 30;      /* systems write less than 2 GB at a time */
    for (const char *p = bytes; n;) {
        ssize_t written = write(w->descriptor, p, n < most ? n : most);
        if (written < 0 && errno != EINTR)
            return failed(w, "write");
        if (written > 0)
            p += written, n -= (uint64_t)written;
    }
    return 0;
}

int td_whole_write_tensor(td_whole *w, td_tensor *x)
{
    td_tensor *dense = td_make_contiguous(x);
    int status = dense ? td_whole_write(w, td_tensor_data(dense), (uint64_t)td_tensor_numel(x) * td_dtype_size(td_tensor_dtype(x))) : -1;
    td_tensor_release(dense);
    return status;
}

/* A new file beside the target, its name into `partial`.  It gets the rights of the old file, if there is one. */
static int create(td_whole *w)
{
    struct stat old;
    bool replaces = stat(w->target, &old) == 0;
    if (replaces && !S_ISREG(old.st_mode))
        return td_error(TD_E_IO, "%s: '%s' is no regular file", w->who, w->target);
    w->descriptor = -1;
    for (int i = 0; i < 1000 && w->descriptor < 0; i++) {
        if (snprintf(w->partial, PATH_MAX, "%s.%d-%d.partial", w->target, (int)getpid(), i) >= PATH_MAX)
            return errno = ENAMETOOLONG, failed(w, "write");
        w->descriptor = open(w->partial, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->descriptor < 0 && errno != EEXIST)
            break;
    }
    if (w->descriptor < 0)
        return failed(w, "write");
    if (replaces && fchmod(w->descriptor, old.st_mode & 0777) != 0)
        errno = 0;                      /* some file systems know no rights */
    return 0;
}

int td_whole_begin(td_whole *w, const char *who, const char *path)
{
    w->who = who, w->path = path;
    if (!realpath(path, w->target)) {   /* what a symbolic link names is replaced, not the link */
        if (errno != ENOENT)
            return failed(w, "write");
        if (snprintf(w->target, sizeof w->target, "%s", path) >= (int)sizeof w->target)
            return errno = ENAMETOOLONG, failed(w, "write");
    }
    return create(w);
}

static void flush_folder(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash)
        slash[slash == path] = 0;
    int folder = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder);                  /* the file is complete either way; not every file system can do this */
        close(folder);
    }
}

int td_whole_end(td_whole *w, int status)
{
    if (status == 0 && fsync(w->descriptor) != 0)
        status = failed(w, "write");
    if (close(w->descriptor) != 0 && status == 0)
        status = failed(w, "write");
    if (status == 0 && rename(w->partial, w->target) != 0)
        status = failed(w, "replace");
    if (status != 0)
        unlink(w->partial);
    else
        flush_folder(w->target);
    return status;
}
