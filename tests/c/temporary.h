/* Files of a test, in a folder that the process makes where temporary files go and removes when it ends. */
#ifndef TD_TEMPORARY_H
#define TD_TEMPORARY_H
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[256];
/* The path of a file by this name; valid until the next call. */
static const char *path_of(const char *name)
{
    static char path[512];
    if (!*folder) {
        const char *wanted = getenv("TMPDIR"), *unique = "XXXXXX";      /* which mkdtemp replaces */
        snprintf(folder, sizeof folder, "%s/tede-test-%s", wanted ? wanted : P_tmpdir, unique);
        if (!mkdtemp(folder))
            abort();
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
__attribute__((destructor)) static void remove_folder(void)
{
    if (*folder)
        rmdir(folder);
}

__attribute__((unused)) static void remove_file(const char **path) { unlink(*path); }
#define AUTO_PATH __attribute__((cleanup(remove_file)))

#endif
