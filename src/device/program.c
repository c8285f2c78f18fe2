/* Programs of devices: source text, built when a kernel of it is first launched and kept: in the process by a key, and on disk
 * by the text, the device and its driver, since building takes a hundred times as long as loading.
 *
 * The files lie in $TEDE_KERNEL_CACHE, else $XDG_CACHE_HOME/tede/kernels, else ~/.cache/tede/kernels; an empty TEDE_KERNEL_CACHE keeps
 * none.  A file is written beside its place and moved there, so that whoever reads sees all of it or nothing; it holds a checksum, and one
 * that doesn't fit is built anew. */
#include "base/cache.h"
#include "device/device.h"
#include "device/follow.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tede/formula.h>
#include <unistd.h>

typedef struct built {
    struct built *next;
    uint64_t      hash;
    td_device     device;
    void         *kernel;
    size_t        key_size;
    char          key[];
} built;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static built         **table;
static size_t          table_size, n_built;
static td_device_properties *known[TD_DEVICE_TYPES][INT8_MAX];

/* FNV-1a. */
/* ---- what a device is */

int td_device_properties_of(td_device device, td_device_properties *properties)
{
    if (td_device_resolve(&device))
        return -1;
    const td_device_library *library = td_device_of(device.type);
    if (!library)
        return td_error(TD_E_VALUE, "%s is no device from outside", td_device_name(device.type));
    *properties = (td_device_properties){.size = sizeof *properties};
    if (library->properties && library->properties(device.index, properties))
        return -1;
    if (!*properties->name)
        snprintf(properties->name, sizeof properties->name, "%s", library->name);
    size_t unused, total;
    if (!properties->memory && library->memory_info) {
        if (library->memory_info(device.index, &unused, &total))
            return -1;
        properties->memory = total;
    }
    properties->units = properties->units < 1 ? 1 : properties->units;
    properties->lanes = properties->lanes < 1 ? 1 : properties->lanes;
    return 0;
}

const td_device_properties *td_device_known(td_device device)
{
    td_device_properties *have = __atomic_load_n(&known[device.type][device.index], __ATOMIC_ACQUIRE);
    if (have)
        return have;
    td_device_properties *made = malloc(sizeof *made);
    if (!made || td_device_properties_of(device, made)) {
        if (!made)
            td_error(TD_E_MEMORY, "no memory for a device's properties");
        free(made);
        return NULL;
    }
    if (!__atomic_compare_exchange_n(&known[device.type][device.index], &have, made, false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
        free(made);
        return have;
    }
    return made;
}

int td_device_lanes(td_device device)
{
    const td_device_properties *properties = td_device_known(device);
    return properties ? properties->lanes : -1;
}

bool td_device_computes(td_device device, td_dtype dtype)
{
    const td_device_properties *properties = td_has_programs(device) ? td_device_known(device) : NULL;
    return properties && dtype < TD_C32 && !td_dtype_is_complex(dtype) && (properties->doubles || dtype != TD_F64);
}

/* ---- on disk */

typedef struct file_head { uint64_t magic, size, checksum; } file_head;
#define FILE_MAGIC 0x3162696e65646574u          /* "tedenib1" */

static bool read_file(const char *path, td_binary *binary)
{
    FILE *file = fopen(path, "rb");
    file_head head;
    struct stat info;
    bool good = file && fread(&head, sizeof head, 1, file) == 1 && head.magic == FILE_MAGIC && !fstat(fileno(file), &info) &&
                head.size == (uint64_t)info.st_size - sizeof head && (binary->data = malloc(head.size ? head.size : 1));
    if (good) {
        binary->size = head.size;
        good = fread(binary->data, 1, head.size, file) == head.size && td_hash_bytes(head.magic, binary->data, head.size) == head.checksum;
    }
    if (file)
        fclose(file);
    if (!good) {
        free(binary->data);
        *binary = (td_binary){0};
    }
    return good;
}

static void write_file(const char *path, const td_binary *binary)
{
    char beside[1100];
    static unsigned count;
    snprintf(beside, sizeof beside, "%s.%ld.%u", path, (long)getpid(), __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED));
    FILE *file = fopen(beside, "wb");
    file_head head = {FILE_MAGIC, binary->size, td_hash_bytes(FILE_MAGIC, binary->data, binary->size)};
    bool good = file && fwrite(&head, sizeof head, 1, file) == 1 && fwrite(binary->data, 1, binary->size, file) == binary->size;
    good = file && fclose(file) == 0 && good;
    if (!good || rename(beside, path))
        unlink(beside);
}

/* ---- building */

static void *build(td_device device, const char *text)
{
    const td_device_library *library = td_device_of(device.type);
    const td_device_properties *properties = td_device_known(device);
    if (!properties)
        return NULL;
    const char *options = td_dialect_options((td_dialect)properties->dialect);
    char path[1024] = "";
    const bool on_disk = td_cache_folder(path, sizeof path - TD_CACHE_NAME, "kernels");
    td_cache_name(path + strlen(path), 5, (const char *[]){library->name, properties->name, properties->driver, options, text});
    td_binary binary = {0};
    void *program = NULL;
    if (on_disk && read_file(path, &binary)) {
        program = library->build(device, text, options, &binary);
        free(binary.data);
        binary = (td_binary){0};
        if (!program)
            td_error_clear();
    }
    if (!program && (program = library->build(device, text, options, &binary)) && on_disk && binary.data)
        write_file(path, &binary);
    free(binary.data);
    if (!program && td_error_code() == TD_OK)
        td_error(TD_E_RUNTIME, "%s: a program can't be built, for no reason given", library->name);
    return program;
}

static int grow_table(void)
{
    size_t size = table_size ? 2 * table_size : 256;
    built **bigger = calloc(size, sizeof *bigger);
    if (!bigger)
        return td_error(TD_E_MEMORY, "no memory for the table of kernels");
    for (size_t i = 0; i < table_size; i++)
        for (built *b = table[i], *next; b; b = next) {
            next = b->next;
            b->next = bigger[b->hash & (size - 1)];
            bigger[b->hash & (size - 1)] = b;
        }
    free(table);
    table = bigger;
    table_size = size;
    return 0;
}

/* With the lock held, so that a kernel is built once; calls for kernels that are there wait for it. */
static const built *make(td_device device, uint64_t hash, const void *key, size_t key_size, const char *name, td_kernel_source *source, const void *context)
{
    const td_device_library *library = td_device_of(device.type);
    if (n_built >= table_size && grow_table())
        return NULL;
    built *b = malloc(sizeof *b + key_size);
    if (!b)
        return td_error(TD_E_MEMORY, "no memory for a kernel's record"), NULL;
    char *text = source(device, context);
    void *program = text ? build(device, text) : NULL;
    *b = (built){.hash = hash, .device = device, .key_size = key_size, .kernel = program ? library->kernel(device, program, name) : NULL};
    memcpy(b->key, key, key_size);
    td_formula_text_free(text);
    if (!b->kernel) {
        if (program) {
            library->program_free(device, program);
            if (td_error_code() == TD_OK)
                td_error(TD_E_RUNTIME, "%s: a program has no kernel '%s'", library->name, name);
        }
        free(b);
        return NULL;
    }
    b->next = table[hash & (table_size - 1)];
    table[hash & (table_size - 1)] = b;
    n_built++;
    return b;
}

static bool is_of(const built *b, td_device device, uint64_t hash, const void *key, size_t key_size)
{
    return b->hash == hash && b->key_size == key_size && b->device.type == device.type && b->device.index == device.index &&
           !memcmp(b->key, key, key_size);
}

/* What was launched last is found without the lock: records stay for ever, and all but their place in the table is as it was made. */
enum { LAST = 256 };
static const built *last[LAST];

void *td_device_kernel(td_device device, const void *key, size_t key_size, const char *name, td_kernel_source *source, const void *context)
{
    const uint64_t hash = td_hash_words((uint64_t)device.type << 8 | (uint8_t)device.index, key, key_size);
    const built **place = &last[hash % LAST], *b = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (b && is_of(b, device, hash, key, key_size))
        return b->kernel;
    pthread_mutex_lock(&lock);
    for (b = table_size ? table[hash & (table_size - 1)] : NULL; b && !is_of(b, device, hash, key, key_size);)
        b = b->next;
    if (!b)
        b = make(device, hash, key, key_size, name, source, context);
    pthread_mutex_unlock(&lock);
    if (!b)
        return NULL;
    __atomic_store_n(place, b, __ATOMIC_RELEASE);
    return b->kernel;
}

int td_device_launch(td_device device, void *kernel, int64_t groups, int n_arguments, const td_kernel_argument *arguments)
{
    const int lanes = td_device_lanes(device);
    return lanes < 0 ? -1 : td_device_launch_lanes(device, kernel, groups, lanes, n_arguments, arguments);
}

int td_device_launch_lanes(td_device device, void *kernel, int64_t groups, int lanes, int n_arguments, const td_kernel_argument *arguments)
{
    const td_device_library *library = td_device_of(device.type);
    td_stream *stream = td_stream_current(device);
    if (!stream)
        return -1;
    const int status = td_stream_ask(stream, &(td_request){TD_ASK_LAUNCH, kernel, NULL, groups, lanes, n_arguments, arguments});
    return status && td_error_code() == TD_OK ? td_error(TD_E_RUNTIME, "%s: a kernel can't be launched, for no reason given", library->name) : status;
}

static int64_t library_calls, library_declined;
int64_t td_library_calls(void) { return __atomic_load_n(&library_calls, __ATOMIC_RELAXED); }
int64_t td_library_declined(void) { return __atomic_load_n(&library_declined, __ATOMIC_RELAXED); }

/* A function that a table may lack, and that may decline. */
#define BY_LIBRARY(name, argument, ask)                                                                                                            \
    int td_device_##name(td_device device, const argument *of)                                                                                \
    {                                                                                                                                         \
        const td_device_library *library = td_device_of(device.type);                                                                         \
        td_stream *stream = library->name ? td_stream_current(device) : NULL;                                                                 \
        const int status = !library->name ? 1 : stream ? td_stream_ask(stream, &(td_request){.kind = ask, .of = of}) : -1;                   \
        if (status >= 0)                                                                                                                      \
            __atomic_fetch_add(status ? &library_declined : &library_calls, 1, __ATOMIC_RELAXED);                                             \
        return status < 0 && td_error_code() == TD_OK ? td_error(TD_E_RUNTIME, "%s: a " #name " failed, for no reason given", td_device_name(device.type))  \
                                                      : status;                                                                               \
    }
BY_LIBRARY(product, td_product, TD_ASK_PRODUCT)
BY_LIBRARY(fused_product, td_fused_product, TD_ASK_FUSED_PRODUCT)
BY_LIBRARY(convolution, td_convolution_call, TD_ASK_CONVOLUTION)
BY_LIBRARY(attention, td_attention_call, TD_ASK_ATTENTION)
BY_LIBRARY(fft, td_fft_call, TD_ASK_FFT)
BY_LIBRARY(factor, td_factor_call, TD_ASK_FACTOR)

static uint32_t library_flags = TD_LIBRARY_DEFAULT;
uint32_t td_library_flags(void) { return __atomic_load_n(&library_flags, __ATOMIC_RELAXED); }
void td_set_library_flags(uint32_t flags) { __atomic_store_n(&library_flags, flags, __ATOMIC_RELAXED); }

/* An earlier one stays, since it may be in use. */
static const char *search_path = "";
const char *td_search_path(void) { return __atomic_load_n(&search_path, __ATOMIC_ACQUIRE); }
int td_set_search_path(const char *folders)
{
    char *copy = strcmp(folders, td_search_path()) == 0 ? NULL : strdup(folders);
    if (copy)
        __atomic_store_n(&search_path, copy, __ATOMIC_RELEASE);
    return copy || strcmp(folders, td_search_path()) == 0 ? 0 : td_error(TD_E_MEMORY, "no memory for a search path");
}

int64_t td_device_library_version(int type, const char *name)
{
    const td_device_library *library = td_device_of(type);
    return library && library->library_version ? library->library_version(name) : 0;
}
