/* Writing safetensors: a header, then the tensors in its order. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <tede/safetensors.h>
#include "io/text.h"
#include "io/whole.h"

typedef struct entry {
    const char *name;
    td_tensor  *x;
    uint64_t    bytes;
    int         rank;
} entry;

/* The order of dtypes in a file: by size, so that each tensor's place suits its alignment, and among equals as the
 * format's own implementation has it. */
static const td_dtype ranks[] = {TD_U64, TD_I64, TD_F64, TD_C64, TD_F32, TD_U32, TD_I32, TD_BF16, TD_F16, TD_U16, TD_I16,
                                 TD_F8_E5M2FNUZ, TD_F8_E4M3FNUZ, TD_F8_E8M0FNU, TD_F8_E4M3FN, TD_F8_E5M2, TD_I8, TD_U8, TD_BOOL};

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->name, ((const entry *)b)->name);
}
static int compare_ranks(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    return x->rank != y->rank ? x->rank - y->rank : compare_names(a, b);
}

/* ---- the header */

static int check_text(const char *what, const char *text)
{
    const char *end = text + strlen(text), *p = text;
    for (int n; p < end; p += n)
        if (!(n = utf8_length(p, end)))
            return td_error(TD_E_VALUE, "safetensors: the %s with byte 0x%02x at %td is no valid UTF-8", what,
                            (unsigned char)*p, p - text);
    return 0;
}

static int check(entry *e, const char *name, td_tensor *x)
{
    if (!x)
        return td_error_code() != TD_OK ? -1 : td_error(TD_E_RUNTIME, "safetensors: the tensor '%.80s' is NULL", name);
    td_dtype dtype = td_tensor_dtype(x);
    char device[32];
    if (check_text("name", name) != 0)
        return -1;
    if (strcmp(name, "__metadata__") == 0)
        return td_error(TD_E_VALUE, "safetensors: '__metadata__' can't be a tensor's name");
    if (!td_safetensors_dtype_name(dtype))
        return td_error(TD_E_TYPE, "safetensors: the format has no dtype for %s ('%.80s')", td_dtype_name(dtype), name);
    if (td_tensor_device(x).type != TD_CPU)
        return td_error(TD_E_RUNTIME, "safetensors: '%.80s' is on %s; copy it with .to('cpu')", name,
                        td_device_str(td_tensor_device(x), device));
    *e = (entry){name, x, (uint64_t)td_tensor_numel(x) * td_dtype_size(dtype), 0};
    while (ranks[e->rank] != dtype)
        e->rank++;
    return 0;
}

static int TD_PRINTF(2, 3) put(block *text, const char *format, ...)
{
    char line[64];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    char *place = block_more(text, (size_t)n);
    return place ? (memcpy(place, line, (size_t)n), 0) : -1;
}

static int put_string(block *text, const char *string)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    if (put(text, "\"") != 0)
        return -1;
    for (const char *p = string; *p;) {
        size_t plain = 0;
        while ((unsigned char)p[plain] >= 0x20 && p[plain] != '"' && p[plain] != '\\')
            plain++;
        char *place = plain ? block_more(text, plain) : NULL;
        if (plain && !place)
            return -1;
        if (plain)
            memcpy(place, p, plain);
        p += plain;
        const char *found = *p ? strchr(from, *p) : NULL;
        if (*p && (found ? put(text, "\\%c", to[found - from]) : put(text, "\\u%04x", *p)) != 0)
            return -1;
        p += *p != 0;
    }
    return put(text, "\"");
}

static int put_tensor(block *text, const entry *e, uint64_t begin)
{
    const int64_t *sizes = td_tensor_sizes(e->x);
    if (put_string(text, e->name) != 0 ||
        put(text, ":{\"dtype\":\"%s\",\"shape\":[", td_safetensors_dtype_name(td_tensor_dtype(e->x))) != 0)
        return -1;
    for (int d = 0; d < td_tensor_ndim(e->x); d++)
        if (put(text, d ? ",%" PRId64 : "%" PRId64, sizes[d]) != 0)
            return -1;
    return put(text, "],\"data_offsets\":[%" PRIu64, begin) != 0 ? -1 : put(text, ",%" PRIu64 "]}", begin + e->bytes);
}

/* All that comes before the tensors' bytes. */
static int put_header(block *text, int64_t n, const entry *entries, int64_t n_metadata, const char *const *keys,
                      const char *const *values)
{
    uint64_t begin = 0, length = 0;
    char *place = block_more(text, 8);
    if (!place || put(text, "{") != 0)
        return -1;
    if (n_metadata > 0 && put(text, "\"__metadata__\":{") != 0)
        return -1;
    for (int64_t i = 0; i < n_metadata; i++)
        if (check_text("metadata", keys[i]) != 0 || check_text("metadata", values[i]) != 0 || (i && put(text, ",") != 0) ||
            put_string(text, keys[i]) != 0 || put(text, ":") != 0 || put_string(text, values[i]) != 0)
            return -1;
    if (n_metadata > 0 && put(text, n ? "}," : "}") != 0)
        return -1;
    for (int64_t i = 0; i < n; begin += entries[i++].bytes)
        if ((i && put(text, ",") != 0) || put_tensor(text, &entries[i], begin) != 0)
            return -1;
    if (put(text, "}") != 0)
        return -1;
    while (text->used % 8)
        if (put(text, " ") != 0)
            return -1;
    length = text->used - 8;
    if (length > 100000000)
        return td_error(TD_E_VALUE, "safetensors: names, shapes and metadata take %" PRIu64 " bytes, more than the 100000000 "
                        "allowed", length);
    memcpy(block_data(text), &length, 8);
    return 0;
}

/* ---- the file */

static int write_file(const char *path, const block *text, int64_t n, const entry *entries)
{
    td_whole whole;
    if (td_whole_begin(&whole, "safetensors", path) != 0)
        return -1;
    int status = td_whole_write(&whole, block_data(text), text->used);
    for (int64_t i = 0; i < n && status == 0; i++)
        status = td_whole_write_tensor(&whole, entries[i].x);
    return td_whole_end(&whole, status);
}

int td_safetensors_save(const char *path, int64_t n, const char *const *names, td_tensor *const *tensors,
                        int64_t n_metadata, const char *const *keys, const char *const *values)
{
    block rows = {0}, text = {0};
    entry *entries = block_more(&rows, (size_t)n * sizeof *entries);
    int status = entries ? 0 : -1;
    for (int64_t i = 0; i < n && status == 0; i++)
        status = check(&entries[i], names[i], tensors[i]);
    if (status == 0) {
        qsort(entries, (size_t)n, sizeof *entries, compare_names);
        for (int64_t i = 1; i < n && status == 0; i++)
            if (strcmp(entries[i - 1].name, entries[i].name) == 0)
                status = td_error(TD_E_VALUE, "safetensors: the name '%.80s' comes twice", entries[i].name);
        qsort(entries, (size_t)n, sizeof *entries, compare_ranks);
    }
    if (status == 0)
        status = td_text_check_distinct("safetensors", "metadata", n_metadata, keys);
    if (status == 0 && put_header(&text, n, entries, n_metadata, keys, values) == 0)
        status = write_file(path, &text, n, entries);
    else
        status = -1;
    block_free(&rows);
    block_free(&text);
    return status;
}
