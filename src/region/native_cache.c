/* The folder of compiled loops: $TEDE_KERNEL_CACHE, else $XDG_CACHE_HOME/tede/loops, else ~/.cache/tede/loops; an empty TEDE_KERNEL_CACHE keeps
 * none. What lies there is loaded into the process, so the folder must be this user's, and nobody else may write to it.
 *
 * Processes share it without locks: a file gets its name when it is whole, and one that goes while another process has loaded it stays with that process.
 * Files that were used longest ago go first. */
#include "region/native.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/cache.h"

bool td_native_cache_folder(char *folder, size_t size)
{
    struct stat info;
    if (!td_cache_folder(folder, size, "loops"))
        return false;
    const size_t length = strlen(folder);
    folder[length - 1] = 0;
    const bool own = !lstat(folder, &info) && S_ISDIR(info.st_mode) && info.st_uid == geteuid() && !(info.st_mode & (S_IWGRP | S_IWOTH));
    folder[length - 1] = '/';
    return own;
}

enum { NAME = 64 };
typedef struct kept { char name[NAME]; struct timespec used; int64_t size; } kept;

static int by_age(const void *a, const void *b)
{
    const kept *x = a, *y = b;
    if (x->used.tv_sec != y->used.tv_sec)
        return x->used.tv_sec < y->used.tv_sec ? -1 : 1;
    return x->used.tv_nsec < y->used.tv_nsec ? -1 : x->used.tv_nsec > y->used.tv_nsec;
}

/* A loop's source or object, or what a compiler that was ended has left: 32 digits and what follows. */
static bool is_ours(const char *name) { return strspn(name, "0123456789abcdef") == 32 && name[32] == '.' && strlen(name) < NAME; }

void td_native_cache_trim(const char *folder, int64_t budget)
{
    enum { MOST = 8192 };
    kept *files = malloc(MOST * sizeof *files);
    if (!files)
        return;
    DIR *dir = opendir(folder);
    int n = 0;
    int64_t all = 0;
    struct stat info;
    for (const struct dirent *entry; dir && n < MOST && (entry = readdir(dir));)
        if (is_ours(entry->d_name) && !fstatat(dirfd(dir), entry->d_name, &info, AT_SYMLINK_NOFOLLOW)) {
            strcpy(files[n].name, entry->d_name);
            files[n].used = info.st_mtim, files[n].size = info.st_size;
            all += files[n++].size;
        }
    if (n)
        qsort(files, (size_t)n, sizeof *files, by_age);
    for (int i = 0; i < n && all > budget; i++)
        if (!unlinkat(dirfd(dir), files[i].name, 0))
            all -= files[i].size;
    if (dir)
        closedir(dir);
    free(files);
}
