/* Finds oneDNN and looks its functions up.
 *
 * Wheels install its library below the environment's prefix, where the loader doesn't look: $TEDE_ONEDNN names a file, and then no other is
 * tried; else come the folders of dnnl_look_in (the Python package passes those of its environment), then the loader's own. */
#include "dnnl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/base.h>

#define POINTER(result, name, arguments) result (*name) arguments;
DNNL_FUNCTIONS(POINTER)
dnnl_engine_t dnnl_engine;

enum { DNNL_SONAME = 3 };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool            opened;
static char           *folders[8];
static void          (*omp_set_num_threads)(int n);

int dnnl_look_in(const char *folder)
{
    char *kept = strdup(folder);
    int at = 0;
    pthread_mutex_lock(&lock);
    while (at < (int)(sizeof folders / sizeof *folders) && folders[at])
        at++;
    const bool room = kept && at < (int)(sizeof folders / sizeof *folders);
    if (room)
        folders[at] = kept;
    pthread_mutex_unlock(&lock);
    if (!room)
        free(kept);
    return room ? 0 : td_error(TD_E_RUNTIME, "to_mkldnn: no room for another folder to look in");
}

static void *find(char *file, size_t room)
{
    const char *named = getenv("TEDE_ONEDNN");
    void *library = NULL;
    if (named && *named) {
        snprintf(file, room, "%s", named);
        return dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    for (int i = 0; i < (int)(sizeof folders / sizeof *folders) && folders[i] && !library; i++) {
        snprintf(file, room, "%s/libdnnl.so.%d", folders[i], DNNL_SONAME);
        library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library)
        snprintf(file, room, "libdnnl.so.%d", DNNL_SONAME), library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return library;
}

static int open_library(void)
{
    char file[1024];
    void *library = find(file, sizeof file);
    if (!library)
        return td_error(TD_E_RUNTIME, "to_mkldnn: oneDNN 3 isn't installed (%s). In Python: pip install 'tede[onednn]', which takes it from the "
                        "wheel onednn-cpu-gomp; else name the file libdnnl.so.3 by TEDE_ONEDNN in the environment", dlerror());
    dnnl_version = (const dnnl_version_t *(*)(void))dlsym(library, "dnnl_version");
    const dnnl_version_t *version = dnnl_version ? dnnl_version() : NULL;
    if (!version || version->major != 3)
        return td_error(TD_E_RUNTIME, "to_mkldnn: %s is oneDNN %d.%d.%d, and only those of version 3 can be used", file, version ? version->major : 0,
                        version ? version->minor : 0, version ? version->patch : 0);
#define LOOK_UP(result, name, arguments) \
    if (!(name = (result (*) arguments)dlsym(library, #name))) \
        return td_error(TD_E_RUNTIME, "to_mkldnn: %s has no function %s: it isn't oneDNN 3", file, #name);
    DNNL_FUNCTIONS(LOOK_UP)
    if (version->cpu_runtime & DNNL_RUNTIME_SYCL)       /* its memories are SYCL's, and its CPU is a driver of OpenCL's */
        return td_error(TD_E_RUNTIME, "to_mkldnn: %s is built for SYCL, as that of the wheel onednn is, and needs a driver for the CPU: install "
                        "onednn-cpu-gomp in an environment without it", file);
    if (dnnl_engine_create(&dnnl_engine, DNNL_CPU, 0) != DNNL_SUCCESS)
        return td_error(TD_E_RUNTIME, "to_mkldnn: %s doesn't compute on this CPU", file);
    omp_set_num_threads = (void (*)(int))dlsym(library, "omp_set_num_threads");       /* finds those that it depends on, too */
    return 0;
}

int dnnl_open(void)
{
    if (__atomic_load_n(&opened, __ATOMIC_ACQUIRE))
        return 0;
    pthread_mutex_lock(&lock);
    const int status = opened ? 0 : open_library();
    if (status == 0)
        __atomic_store_n(&opened, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return status;
}

/* OpenMP keeps the number for each thread that calls. */
void dnnl_set_threads(int n)
{
    static _Thread_local int set;
    if (omp_set_num_threads && n != set)
        omp_set_num_threads(set = n);
}
