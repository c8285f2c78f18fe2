/* Detection of a second copy of libtede in the process.
 *
 * See Note [One libtede] in src/dispatch/load.c, which looks at libraries that are loaded through this one.  What others load, as
 * Python does an extension that is imported, it never sees; but the second core in a process can find the first one while it is loaded
 * itself.  It says so at once and takes no registrations. */
#include "base/base.h"
#include <tede/library.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>

enum { MOST = 1024 };
/* What is loaded: file, and the addresses that it lies at.  dladdr knows them, too, but compares with each of a library's symbols. */
typedef struct object { const char *name; uintptr_t begin, end; } object;
typedef struct objects { int n; object list[MOST]; } objects;

static char first[4096], own[4096];         /* files: of the core that was there before, "" if none was, and of this one */

static int gather(struct dl_phdr_info *info, size_t size, void *context)
{
    objects *all = context;
    object found = {info->dlpi_name, UINTPTR_MAX, 0};
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD) {
            const uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, end = begin + info->dlpi_phdr[i].p_memsz;
            found.begin = begin < found.begin ? begin : found.begin;
            found.end = end > found.end ? end : found.end;
        }
    if (all->n < MOST)
        all->list[all->n++] = found;
    return 0;
}

static const object *object_of(const objects *all, const void *address)
{
    for (int i = 0; i < all->n; i++)
        if ((uintptr_t)address >= all->list[i].begin && (uintptr_t)address < all->list[i].end)
            return &all->list[i];
    return NULL;
}

/* Before any other constructor of this library, and of those that depend on it, registers something. */
__attribute__((constructor(101))) static void look_for_another(void)
{
    static objects all;
    dl_iterate_phdr(gather, &all);
    const object *ours = object_of(&all, first);
    if (!ours)
        return;
    snprintf(own, sizeof own, "%s", ours->name);
    for (int i = 0; i < all.n && !*first; i++) {
        const char *name = all.list[i].name;
        void *handle = dlopen(name && *name ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);
        const void *symbol = handle ? dlsym(handle, "td_error_message") : NULL;
        const object *theirs = symbol ? object_of(&all, symbol) : NULL;
        if (theirs && theirs != ours)
            snprintf(first, sizeof first, "%s", theirs->name);
        if (handle)
            dlclose(handle);
    }
    if (*first)
        fprintf(stderr, "tede: warning: %s is a second libtede in this process, which has %s; it takes no registrations\n", own, first);
}

int td_library_check(void)
{
    return TD_LIKELY(!*first) ? 0
         : td_error(TD_E_RUNTIME, "%s is a second libtede in this process, which has %s; neither sees what is registered with the other: build "
                    "all against one of them (for Python: python -m tede.config --cflags --libs)", own, first);
}
