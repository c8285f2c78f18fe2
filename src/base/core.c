/* One core in a process.
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
typedef struct objects { int n; const char *names[MOST]; } objects;

static char first[4096], own[4096];         /* files: of the core that was there before, "" if none was, and of this one */

static int gather(struct dl_phdr_info *object, size_t size, void *context)
{
    objects *all = context;
    (void)size;
    if (all->n < MOST)
        all->names[all->n++] = object->dlpi_name;
    return 0;
}

/* Before any other constructor of this library, and of those that depend on it, registers something. */
__attribute__((constructor(101))) static void look_for_another(void)
{
    static objects all;
    Dl_info ours, theirs;
    if (!dladdr(first, &ours))
        return;
    snprintf(own, sizeof own, "%s", ours.dli_fname);
    dl_iterate_phdr(gather, &all);
    for (int i = 0; i < all.n && !*first; i++) {
        const char *name = all.names[i];
        void *object = dlopen(name && *name ? name : NULL, RTLD_LAZY | RTLD_NOLOAD);
        void *symbol = object ? dlsym(object, "td_error_message") : NULL;
        if (symbol && dladdr(symbol, &theirs) && theirs.dli_fbase != ours.dli_fbase)
            snprintf(first, sizeof first, "%s", theirs.dli_fname);
        if (object)
            dlclose(object);
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
