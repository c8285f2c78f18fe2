/* Opens CUDA's driver and NVIDIA's libraries, and looks their functions up.
 *
 * Looked for in this order: folders that TEDE_CUDA_PATH names (with `:` between them); what pip has installed, in the folder nvidia beside the package
 * tede or in a folder of Python's sys.path; where the system's loader looks; CUDA_HOME, else /usr/local/cuda. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE             /* dladdr */
#endif
#include "api.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/device.h>

#define POINTER(result, name, arguments) result (*name) arguments;
CUDA_FUNCTIONS(POINTER)
CUDA_GRAPH_FUNCTIONS(POINTER)
static const cuda_function of_driver[] = {CUDA_FUNCTIONS(CUDA_LISTED){NULL}}, of_graphs[] = {CUDA_GRAPH_FUNCTIONS(CUDA_LISTED){NULL}};

const char *cuda_look_up(void *library, const cuda_function *f)
{
    while (f->name && (*f->pointer = dlsym(library, f->name)))
        f++;
    return f->name;
}
int cuda_look_all_up(void *library, const char *of, const cuda_function *functions)
{
    const char *missing = cuda_look_up(library, functions);
    return missing ? td_error(TD_E_RUNTIME, "cuda: %s has no function %s: it is too old", of, missing) : 0;
}

static void *open_file(const char *folder, int length, const char *file)
{
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%.*s/%s", length, folder, file) < (int)sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* In nvidia/<package>/lib of a folder of Python's packages: there pip puts NVIDIA's. */
static void *open_package(const char *folder, int length, const char *file)
{
    char pattern[PATH_MAX + 300];
    void *library = NULL;
    glob_t found = {0};
    snprintf(pattern, sizeof pattern, "%.*s/nvidia/*/lib/%s", length, folder, file);
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !library; i++)
            library = dlopen(found.gl_pathv[i], RTLD_NOW | RTLD_LOCAL);
    globfree(&found);
    return library;
}

/* By one of these functions, in the first that has it of some folders with `:` between them. */
static void *open_among(const char *folders, const char *file, void *(*open)(const char *, int, const char *))
{
    void *library = NULL;
    for (const char *end; !library && folders && *folders; folders = *end ? end + 1 : end) {
        end = folders + strcspn(folders, ":");
        library = end > folders ? open(folders, (int)(end - folders), file) : NULL;
    }
    return library;
}
static void *open_named(const char *file) { return open_among(getenv("TEDE_CUDA_PATH"), file, open_file); }

/* Of the folder that the package tede lies in: this file is in tede/lib/tede. */
static void *open_beside(const char *file)
{
    Dl_info self;
    char own[PATH_MAX];
    if (!dladdr((void *)&cuInit, &self) || !self.dli_fname || !realpath(self.dli_fname, own))
        return NULL;
    for (int up = 0; up < 4; up++) {
        char *slash = strrchr(own, '/');
        if (!slash)
            return NULL;
        *slash = 0;
    }
    return open_package(own, (int)strlen(own), file);
}

bool cuda_has_graphs;

int cuda_open(void)
{
    void *library = open_named("libcuda.so.1");
    library = library ? library : dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    cuda_has_graphs = library && !cuda_look_up(library, of_graphs);
    return library ? cuda_look_all_up(library, "the NVIDIA driver's libcuda.so.1", of_driver)
                   : td_error(TD_E_RUNTIME, "cuda: there is no NVIDIA driver (%s)", dlerror());
}

void *cuda_open_version(const char *name, int major)
{
    char file[64];
    const char *home = getenv("CUDA_HOME");
    char folder[PATH_MAX];
    const int length = snprintf(folder, sizeof folder, "%s/lib64", home && *home ? home : "/usr/local/cuda");
    /* NVRTC's 11 is the only one whose name has a minor version. */
    snprintf(file, sizeof file, major == 11 && !strcmp(name, "nvrtc") ? "lib%s.so.%d.2" : "lib%s.so.%d", name, major);
    void *library = open_named(file);
    library = library ? library : open_beside(file);
    library = library ? library : open_among(td_search_path(), file, open_package);
    library = library ? library : dlopen(file, RTLD_NOW | RTLD_LOCAL);
    return library ? library : open_file(folder, length, file);
}

void *cuda_library(const char *name)
{
    enum { OLDEST = 11, NEWEST = 19 };
    int version = 0;
    void *library = NULL;
    if (cuDriverGetVersion(&version) != CUDA_SUCCESS)
        version = 0;
    const int major = version / 1000 < NEWEST ? version / 1000 : NEWEST;
    for (int i = major; i >= OLDEST && !library; i--)
        library = cuda_open_version(name, i);
    for (int i = major < OLDEST ? OLDEST : major + 1; i <= NEWEST && !library; i++)
        library = cuda_open_version(name, i);
    return library ? library
         : td_fail(TD_E_RUNTIME, "cuda: NVIDIA's library lib%s.so.%d isn't found in a folder of TEDE_CUDA_PATH, in site-packages/nvidia, or by the loader; "
                   "pip install 'tede[cuda]' brings it", name, major);
}
