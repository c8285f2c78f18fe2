/* Memory-mapped files.  They are mapped whole and privately: nothing is read before it is used, tensors over the pages may be
 * written, and what is written stays in this process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "io/file.h"
#include "io/text.h"

typedef struct mapping { td_storage *self; void *address; size_t size; } mapping;

static void unmap(void *context)
{
    mapping *m = context;
    munmap(m->address, m->size);
    td_storage_release(m->self);
}

void td_storage_drop(void *storage) { td_storage_release(storage); }

td_storage *td_storage_part(td_storage *whole, void *data, size_t size)
{
    td_storage *part = td_storage_from_memory(data, size, (td_device){TD_CPU, -1}, td_storage_drop, whole);
    if (part)
        td_storage_retain(whole);
    return part;
}

int td_file_open(const char *who, const char *path, uint64_t *size)
{
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);      /* so that a pipe is an error, no wait */
    struct stat about;
    if (descriptor < 0 || fstat(descriptor, &about) != 0) {
        int code = errno;
        if (descriptor >= 0)
            close(descriptor);
        return td_error(TD_E_IO, "%s: can't open '%s': %s", who, path, strerror(code));
    }
    if (!S_ISREG(about.st_mode)) {
        close(descriptor);
        return td_error(TD_E_IO, "%s: '%s' is no regular file", who, path);
    }
    *size = (uint64_t)about.st_size;
    return descriptor;
}

td_storage *td_file_map(const char *who, const char *path, int descriptor, uint64_t size)
{
    const td_device cpu = {TD_CPU, -1};
    if (size == 0)
        return td_storage_new(cpu, 0);
    mapping *m = block_struct(sizeof *m, offsetof(mapping, self));
    if (!m)
        return NULL;
    m->size = (size_t)size;
    m->address = mmap(NULL, m->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, descriptor, 0);
    if (m->address == MAP_FAILED) {
        td_error(TD_E_IO, "%s: can't map '%s': %s", who, path, strerror(errno));
        td_storage_release(m->self);
        return NULL;
    }
    td_storage *pages = td_storage_from_memory(m->address, m->size, cpu, unmap, m);
    if (!pages)
        unmap(m);
    return pages;
}

td_storage *td_file_pages(const char *who, const char *path)
{
    uint64_t size;
    int descriptor = td_file_open(who, path, &size);
    if (descriptor < 0)
        return NULL;
    td_storage *pages = td_file_map(who, path, descriptor, size);
    close(descriptor);
    return pages;
}

void td_file_blame(const char *path)
{
    td_code code = td_error_code();
    if (code != TD_E_VALUE && code != TD_E_RUNTIME)
        return;
    char what[400];
    snprintf(what, sizeof what, "%s", td_error_message());
    td_error(code, "%s (in '%s')", what, path);
}
