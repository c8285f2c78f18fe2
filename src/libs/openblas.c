/* Finding OpenBLAS, and making it use the processor.
 *
 * Looked for in this order: the file that TEDE_OPENBLAS names, the package scipy-openblas32 beside ours in the
 * same site-packages (its symbols begin with "scipy_"), the system's library.  TEDE_OPENBLAS= (empty) means none.
 *
 * Note [Core types]
 * OpenBLAS chooses its kernels when it is loaded, and never again.  It takes some AVX-512 machines for Haswell, which
 * halves its speed, so OPENBLAS_CORETYPE is set around the opening wherever the processor has the level but not the
 * later extensions by which OpenBLAS knows newer cores.  A value that the user has set stays. */
#include "base/base.h"
#include "base/once.h"
#include "base/simd.h"
#include "libs/openblas.h"

#include <limits.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static td_openblas table;
static const td_openblas *found;        /* NULL once it was looked for: there is none */
static void *handle;
static const char *prefix = "";
static char path[4096];

static bool wants_core_type(void)
{
#ifdef TD_FOR_V4
    return td_cpu_isa() == TD_V4 && !td_cpu_multiplies_bf16() && !getenv("OPENBLAS_CORETYPE");
#else
    return false;
#endif
}

static void *open_file(const char *file)
{
    void *opened = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (opened && strlen(file) < sizeof path)
        memcpy(path, file, strlen(file) + 1);
    return opened;
}

static void *open_any(void)
{
    const char *named = getenv("TEDE_OPENBLAS");
    if (named)
        return *named ? open_file(named) : NULL;
    Dl_info self;
    char own[PATH_MAX];
    if (dladdr((void *)&table, &self) && self.dli_fname && realpath(self.dli_fname, own)) {
        /* The library lies in site-packages/tede, perhaps in a folder below it. */
        size_t length = strlen(own);
        for (int up = 0; up < 3; up++) {
            while (length > 0 && own[length - 1] != '/')
                length--;
            if (length == 0 || length > sizeof path - 64)
                break;
            char file[4200];
            snprintf(file, sizeof file, "%.*sscipy_openblas32/lib/libscipy_openblas.so", (int)length, own);
            length--;
            void *opened = open_file(file);
            if (opened)
                return opened;
        }
    }
    void *opened = open_file("libopenblas.so.0");
    return opened ? opened : open_file("libopenblas.so");
}

static void *symbol(const char *name)
{
    char full[128];
    snprintf(full, sizeof full, "%s%s", prefix, name);
    return dlsym(handle, full);
}

static int open_library(void)
{
    bool core = wants_core_type(), one = !getenv("OPENBLAS_NUM_THREADS");
    if (core)
        setenv("OPENBLAS_CORETYPE", "SkylakeX", 1);
    if (one)
        setenv("OPENBLAS_NUM_THREADS", "1", 1);
    handle = open_any();
    if (core)
        unsetenv("OPENBLAS_CORETYPE");
    if (one)
        unsetenv("OPENBLAS_NUM_THREADS");
    if (!handle)
        return 0;
    prefix = dlsym(handle, "scipy_cblas_sgemm") ? "scipy_" : "";
    *(void **)&table.sgemm = symbol("cblas_sgemm");
    *(void **)&table.dgemm = symbol("cblas_dgemm");
    *(void **)&table.cgemm = symbol("cblas_cgemm");
    *(void **)&table.zgemm = symbol("cblas_zgemm");
    if (!table.sgemm || !table.dgemm || !table.cgemm || !table.zgemm)
        return 0;
    void (*set_threads)(int) = NULL;
    *(void **)&set_threads = symbol("openblas_set_num_threads");
    if (set_threads)
        set_threads(1);
    char *(*core_name)(void) = NULL;
    *(void **)&core_name = symbol("openblas_get_corename");
    table.core = core_name ? core_name() : "";
    table.path = path;
    found = &table;
    return 0;
}

const td_openblas *td_openblas_get(void)
{
    static td_once once;
    td_once_run(&once, open_library);
    return found;
}

void *td_openblas_symbol(const char *name)
{
    return td_openblas_get() ? symbol(name) : NULL;
}
