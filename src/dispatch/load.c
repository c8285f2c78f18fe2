/* Loading plug-in libraries (dlopen): devices, layouts, dtypes and operators.  A device's table is checked before anything of it is
 * called, and published when it is whole.  A library that fails after code of it has run stays mapped, since what it did can't be known. */
#include "tensor/late.h"
#include "calls_dispatch_load.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/library.h>
#include <unistd.h>
#include "base/names.h"
#include "dispatch/op.h"
#include "device/device.h"
#include "tensor/device.h"

static void free_table(td_device_library **table) { free(*table); }
#define AUTO_FREE __attribute__((cleanup(free_table)))
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const char *td_version(void) { return TD_VERSION; }

/* Note [One libtede]
 * What a library registers goes to the libtede that it is linked with. By the SONAME that is the one which is loaded already; if
 * it was linked with one of another SONAME, or contains one, the process has two, and everything registered would be lost in
 * silence. dlsym() of a library finds what its own dependencies define. Files are compared, not addresses of functions, since
 * a program without position-independent code may have a separate address for each. A library that was loaded by others, as an
 * imported extension is by Python, is met by td_library_check() in the second core. */
static int check_core(void *library, const char *path)
{
    Dl_info ours, theirs;
    void *found = dlsym(library, "td_error_message");
    if (!found || !dladdr(found, &theirs) || !dladdr(&lock, &ours) || theirs.dli_fbase == ours.dli_fbase)
        return 0;
    return td_error(TD_E_RUNTIME, "%s is linked with another libtede, %s, than the one in use, %s, which gets nothing of what it registers; "
                    "build it against that one (for Python: python -m tede.config --cflags --libs)", path, theirs.dli_fname,
                    ours.dli_fname);
}

int td_library_load(const char *path)
{
    if (!path || !*path)
        return td_error(TD_E_VALUE, "td_library_load: no path");
    td_error_clear();
    void *library = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return td_error(TD_E_IO, "the library can't be loaded: %s", dlerror());
    return check_core(library, path) || td_error_code() != TD_OK ? -1 : 0;
}

/* `from`: what messages call it. Nothing but the table's fields is read here, and the version comes first, since
 * other fields may mean something else in another one. */
static int check_table(const td_device_library *table, const char *from)
{
    if (table->abi != TD_DEVICE_ABI)
        return td_error(TD_E_RUNTIME, "%s was built for version %u of the device interface, this library has version %d", from,
                        (unsigned)table->abi, TD_DEVICE_ABI);
    if (table->size < offsetof(td_device_library, properties))
        return td_error(TD_E_RUNTIME, "%s: its table has %u bytes, which is too short", from, (unsigned)table->size);
    const char *name = table->name;
    if (!td_is_short_name(name))
        return td_error(TD_E_RUNTIME, "%s: a device's name has 1 to 15 letters, digits and underscores, no digit first", from);
    const char *missing = !table->count ? "count" : !table->alloc ? "alloc" : !table->free ? "free" : !table->copy ? "copy" : NULL;
    if (missing)
        return td_error(TD_E_RUNTIME, "%s: device '%s' has no function '%s'", from, name, missing);
    return 0;
}

/* Fields of the table that are all filled in or all empty. */
#define FUNCTION(name) {#name, offsetof(td_device_library, name)}
typedef struct function { const char *name; size_t at; } function;
static const function page_locked[] = {FUNCTION(host_alloc), FUNCTION(host_free), {0}},
    streams[] = {FUNCTION(stream_new), FUNCTION(stream_free), FUNCTION(stream_synchronize), FUNCTION(transfer), FUNCTION(fill), FUNCTION(event_new),
                 FUNCTION(event_free), FUNCTION(event_record), FUNCTION(event_wait), FUNCTION(event_synchronize), FUNCTION(event_query),
                 FUNCTION(event_time), {0}},
    programs[] = {FUNCTION(build), FUNCTION(kernel), FUNCTION(launch), FUNCTION(program_free), {0}},
    graphs[] = {FUNCTION(graph_begin), FUNCTION(graph_end), FUNCTION(graph_launch), FUNCTION(graph_free), {0}};

static bool has(const td_device_library *table, const function *f) { return *(td_kernel const *)((const char *)table + f->at); }

static int check_group(const td_device_library *table, const char *from, const function *group)
{
    const function *there = NULL, *missing = NULL;
    for (const function *f = group; f->name; f++)
        *(has(table, f) ? &there : &missing) = f;
    return !there || !missing ? 0 : td_error(TD_E_RUNTIME, "%s: device '%s' has '%s', to which '%s' belongs, too", from, table->name, there->name,
                                             missing->name);
}

/* A copy of all fields that this library knows, since the device's own may end earlier; NULL with an error. */
static td_device_library *whole_table(const td_device_library *table, const char *from)
{
    td_device_library *whole = calloc(1, sizeof *whole);
    if (!whole)
        return td_fail(TD_E_MEMORY, "no memory for a device's table");
    memcpy(whole, table, table->size < sizeof *whole ? table->size : sizeof *whole);
    int status = check_group(whole, from, page_locked) || check_group(whole, from, streams) || check_group(whole, from, programs) ||
                 check_group(whole, from, graphs);
    if (!status && whole->build && (!whole->stream_new || !whole->properties))
        status = td_error(TD_E_RUNTIME, "%s: device '%s' has programs, to which streams and 'properties' belong", from, whole->name);
    if (!status && whole->graph_begin && !whole->stream_new)
        status = td_error(TD_E_RUNTIME, "%s: device '%s' has graphs, to which streams belong", from, whole->name);
    if (!status)
        return whole;
    free(whole);
    return NULL;
}

/* The number of a name that PyTorch knows, or the first that nobody has; -1 with an error. */
static int find_type(const char *name)
{
    int type = td_device_find(name);
    if (type == TD_CPU || type == TD_META || (type >= 0 && td_device_of(type)))
        return td_error(TD_E_RUNTIME, "there is a device '%s' already", name);
    for (int t = TD_HPU + 1; type < 0 && t < TD_LATE; t++)
        if (!td_device_of(t))
            type = t;
    return type >= 0 ? type : td_error(TD_E_RUNTIME, "no room for device '%s': there are too many", name);
}

/* With the lock held.  *started: whether code of the device may be registered. */
static int take_in(const td_device_library *given, const char *from, bool *started)
{
    if (check_table(given, from))
        return -1;
    int type = find_type(given->name);
    AUTO_FREE td_device_library *whole = type < 0 ? NULL : whole_table(given, from);
    const td_device_library *table = whole;
    if (!table)
        return -1;
    td_error_clear();
    int count = table->count();
    if (count < 1 || count > INT8_MAX)
        return td_error_code() != TD_OK ? -1 : td_error(TD_E_RUNTIME, "%s: device '%s' says that there are %d of it; 1 to %d are "
                                                        "possible", from, table->name, count, INT8_MAX);
    if (td_device_prepare(type, count, table->launch != NULL))
        return -1;
    const char *before = td_device_name(type);
    __atomic_store_n(&td_devices[type], table, __ATOMIC_RELEASE);
    td_device_set_name(type, table->name);
    __atomic_store_n(&td_any_device, true, __ATOMIC_RELEASE);
    *started = true;
    if (td_accelerate(type) == 0 && td_sparse_fallback_register(type) == 0 && (!table->start || table->start(type) == 0)) {
        whole = NULL;
        return type;
    }
    if (td_error_code() == TD_OK)
        td_error(TD_E_RUNTIME, "%s: device '%s' could not be started, for no reason given", from, table->name);
    td_forget_device(type);
    td_device_set_name(type, before);
    __atomic_store_n(&td_devices[type], NULL, __ATOMIC_RELEASE);
    return -1;
}

static void (*notified)(int type);
void td_device_notify(void (*loaded)(int type)) { __atomic_store_n(&notified, loaded, __ATOMIC_RELEASE); }

/* Without the lock, for what is called may load another. */
static int announce(int type)
{
    void (*loaded)(int) = type < 0 ? NULL : __atomic_load_n(&notified, __ATOMIC_ACQUIRE);
    if (loaded)
        loaded(type);
    return type;
}

int td_device_register(const td_device_library *table)
{
    bool started = false;
    if (td_library_check())
        return -1;
    if (!table)
        return td_error(TD_E_VALUE, "td_device_register: no table");
    pthread_mutex_lock(&lock);
    int type = take_in(table, "td_device_register", &started);
    pthread_mutex_unlock(&lock);
    return announce(type);
}

/* ---- libraries by name */

static bool is_name(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == strlen(text);
}

/* The file of a device's name that is there; false if there is none. */
static bool find_library(const char *name, char *path, size_t size)
{
    const char *folders = getenv("TEDE_DEVICE_PATH");
    for (const char *end; folders && *folders; folders = *end ? end + 1 : end) {
        end = strchrnul(folders, ':');
        if (end > folders && snprintf(path, size, "%.*s/%s.so", (int)(end - folders), folders, name) < (int)size && access(path, F_OK) == 0)
            return true;
    }
    Dl_info own;
    const char *slash = dladdr(&lock, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    return slash && snprintf(path, size, "%.*s/tede/%s.so", (int)(slash - own.dli_fname), own.dli_fname, name) < (int)size && access(path, F_OK) == 0;
}

/* With the lock held. */
static int load_file(const char *path)
{
    bool started = false;
    int type = -1;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const td_device_library *table = library ? dlsym(library, TD_DEVICE_SYMBOL) : NULL;
    if (!library)
        td_error(TD_E_IO, "the device library can't be loaded: %s", dlerror());
    else if (check_core(library, path))
        started = true;             /* by its constructors, elsewhere */
    else if (!table)
        td_error(TD_E_RUNTIME, "%s is no device library: it has no symbol '%s'", path, TD_DEVICE_SYMBOL);
    else
        type = take_in(table, path, &started);
    if (library && type < 0 && !started)
        dlclose(library);
    return type;
}

/* The type, which may have been loaded meanwhile; -1; -2, with no error recorded, where nothing has the name. */
static int load_name(const char *name)
{
    char path[4096];
    pthread_mutex_lock(&lock);
    int type = td_device_find(name);
    const bool there = type > TD_META && td_device_of(type);
    if (!there)
        type = find_library(name, path, sizeof path) ? load_file(path) : -2;
    pthread_mutex_unlock(&lock);
    return there ? type : announce(type);
}

int td_device_load_type(int type)
{
    const char *name = td_device_name(type);
    int loaded = name ? load_name(name) : -2;
    return loaded == type ? 0 : loaded == -2 ? 1 : loaded < 0 ? -1 : td_error(TD_E_RUNTIME, "the library of device '%s' has device '%s' in it", name,
                                                                              td_device_name(loaded));
}

int td_device_load(const char *path)
{
    if (!path || !*path)
        return td_error(TD_E_VALUE, "td_device_load: no path");
    if (is_name(path)) {
        int type = load_name(path);
        return type != -2 ? type : td_error(TD_E_VALUE, "there is no device '%s': no file %s.so in a folder of TEDE_DEVICE_PATH or beside tede's library, "
                                            "in the folder tede/", path, path);
    }
    pthread_mutex_lock(&lock);
    int type = load_file(path);
    pthread_mutex_unlock(&lock);
    return announce(type);
}
