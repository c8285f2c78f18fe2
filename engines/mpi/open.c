/* Finds MPI and looks its functions up.
 *
 * $TEDE_MPI names a file, and then no other is tried.  Else come the folders lib/ of Python's environments, where the wheel mpich puts it: they are two
 * above the packages' folders, which td_search_path() has, and five above this file in a package, which is how a C program finds it.  Then come the
 * loader's own. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/device.h>
#include "mpi.h"

#define POINTER(name, arguments) int (*name) arguments;
MPI_FUNCTIONS(POINTER)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool            opened;

static void *find(char *file, size_t room)
{
    static const char name[] = "libmpi_abi.so.1";
    const char *named = getenv("TEDE_MPI");
    void *library = NULL;
    if (named && *named) {
        snprintf(file, room, "%s", named);
        return dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    for (const char *end, *folder = td_search_path(); *folder && !library; folder = *end ? end + 1 : end) {
        end = strchr(folder, ':') ? strchr(folder, ':') : folder + strlen(folder);
        if (snprintf(file, room, "%.*s/../../%s", (int)(end - folder), folder, name) < (int)room)
            library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    Dl_info self;
    const char *slash = !library && dladdr(&opened, &self) && self.dli_fname ? strrchr(self.dli_fname, '/') : NULL;
    if (slash && snprintf(file, room, "%.*s/../../../../../%s", (int)(slash - self.dli_fname), self.dli_fname, name) < (int)room)
        library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        snprintf(file, room, "%s", name), library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static int open_library(void)
{
    char file[4096];
    void *library = find(file, sizeof file);
    if (!library)
        return td_error(TD_E_RUNTIME, "MPI isn't installed (%s). In Python: pip install 'tede[mpi]', which takes it from the wheel mpich; else name an MPI "
                        "that has the standard ABI, a file libmpi_abi.so.1, by TEDE_MPI in the environment", dlerror());
#define LOOK_UP(name, arguments) \
    if (!(name = (int (*) arguments)dlsym(library, #name))) \
        return td_error(TD_E_RUNTIME, "%s has no function %s: it isn't an MPI with the standard ABI", file, #name);
    MPI_FUNCTIONS(LOOK_UP)
    return 0;
}

int mpi_open(void)
{
    pthread_mutex_lock(&lock);
    if (!opened)
        opened = open_library() == 0;
    pthread_mutex_unlock(&lock);
    return opened ? 0 : -1;
}

int mpi_check(int code, const char *what)
{
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    int length = 0;
    if (code == MPI_SUCCESS)
        return 0;
    MPI_Error_string(code, text, &length);
    return td_error(TD_E_RUNTIME, "%s: MPI says: %s", what, text);
}
