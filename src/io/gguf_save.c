/* Writing GGUF: a header, pairs, descriptions of tensors, and from the next multiple of the alignment on the tensors, each filled up
 * with zeros to such a multiple. Tensors are in the caller's order. */
#include <inttypes.h>
#include <tede/packed.h>
#include "io/gguf.h"
#include "io/text.h"
#include "io/whole.h"

enum { MOST_DIMS = 4, LONGEST_NAME = 63 };      /* what readers of such files have room for */

typedef struct entry {
    const char      *name;
    td_tensor       *x;                 /* borrowed: the elements, or the blocks */
    const gguf_type *type;
    int              ndim;
    int64_t          sizes[MOST_DIMS];
    uint64_t         bytes;
} entry;

/* ---- what is to be written */

static int check_text(const char *what, const char *text, size_t longest)
{
    const char *end = text + strlen(text), *p = text;
    if ((size_t)(end - p) > longest)
        return td_error(TD_E_VALUE, "gguf: the %s '%.80s' has %td bytes; the format has %zu at most", what, text, end - p, longest);
    for (int n; p < end; p += n)
        if (!(n = utf8_length(p, end)))
            return td_error(TD_E_VALUE, "gguf: the %s with byte 0x%02x at %td is no valid UTF-8", what, (unsigned char)*p, p - text);
    return 0;
}

static int check_type(entry *e, const char *type)
{
    const td_dtype dtype = td_tensor_dtype(e->x);
    const int format = td_packed_format_of(e->x);
    if (type) {
        if (!(e->type = td_gguf_type_of_name(type)))
            return td_error(TD_E_VALUE, "gguf: '%.40s' is no type of tensors ('%.80s')", type, e->name);
        int64_t *row = e->ndim ? &e->sizes[e->ndim - 1] : NULL;
        if (format >= 0 || dtype != TD_U8 || !row || *row % e->type->bytes || __builtin_mul_overflow(*row / e->type->bytes, e->type->block, row))
            return td_error(TD_E_TYPE, "gguf: blocks of type %s are uint8, in rows of a multiple of %d ('%.80s')", type, e->type->bytes, e->name);
        return 0;
    }
    if (format >= 0) {
        const td_packed_format *packed = td_packed_describe(format);
        if (packed->code > 255 || !(e->type = td_gguf_type_of_number((uint32_t)packed->code)))
            return td_error(TD_E_TYPE, "gguf: the format has no type for blocks of %s ('%.80s'); q8_0 and q4_0 are near", packed->name, e->name);
        e->x = td_packed_blocks(e->x);
        return 0;
    }
    if (!(e->type = td_gguf_type_of_dtype(dtype)))
        return td_error(TD_E_TYPE, "gguf: the format has no type for %s ('%.80s')", td_dtype_name(dtype), e->name);
    return 0;
}

static int check(entry *e, const char *name, td_tensor *x, const char *type)
{
    char device[32];
    *e = (entry){.name = name, .x = x};
    if (!x)
        return td_error_code() != TD_OK ? -1 : td_error(TD_E_RUNTIME, "gguf: the tensor '%.80s' is NULL", name);
    if (check_text("name", name, LONGEST_NAME) != 0)
        return -1;
    if (td_tensor_device(x).type != TD_CPU)
        return td_error(TD_E_RUNTIME, "gguf: '%.80s' is on %s; copy it with .to('cpu')", name, td_device_str(td_tensor_device(x), device));
    if ((e->ndim = td_tensor_ndim(x)) > MOST_DIMS)
        return td_error(TD_E_VALUE, "gguf: '%.80s' has %d dimensions; the format has %d at most", name, e->ndim, MOST_DIMS);
    for (int d = 0; d < e->ndim; d++)
        e->sizes[d] = td_tensor_sizes(x)[d];
    if (check_type(e, type) != 0)
        return -1;
    e->bytes = (uint64_t)td_tensor_numel(e->x) * td_dtype_size(td_tensor_dtype(e->x));
    return 0;
}

/* ---- the header */

static int put(block *text, const void *bytes, size_t n)
{
    char *place = n ? block_more(text, n) : NULL;
    if (place)
        memcpy(place, bytes, n);
    return n && !place ? -1 : 0;
}
static int put_32(block *text, uint32_t x) { return put(text, &x, 4); }
static int put_64(block *text, uint64_t x) { return put(text, &x, 8); }
static int put_string(block *text, const void *bytes, size_t n) { return put_64(text, n) != 0 ? -1 : put(text, bytes, n); }

static int put_pair(block *text, const char *key, const td_gguf_value *v)
{
    if (check_text("key", key, GGUF_LONGEST) != 0 || td_gguf_check_value(v) != 0 || put_string(text, key, strlen(key)) != 0 ||
        put_32(text, v->kind) != 0)
        return -1;
    if (v->kind == TD_GGUF_STRING)
        return put_string(text, v->data, v->size);
    if (v->kind == TD_GGUF_ARRAY && (put_32(text, v->element) != 0 || put_64(text, v->count) != 0))
        return -1;
    return put(text, v->data, v->size);
}

static int put_tensor(block *text, const entry *e, uint64_t begin)
{
    if (put_string(text, e->name, strlen(e->name)) != 0 || put_32(text, (uint32_t)e->ndim) != 0)
        return -1;
    for (int d = e->ndim - 1; d >= 0; d--)
        if (put_64(text, (uint64_t)e->sizes[d]) != 0)
            return -1;
    return put_32(text, (uint32_t)e->type->number) != 0 ? -1 : put_64(text, begin);
}

static uint64_t padding(uint64_t n, uint64_t alignment) { return (alignment - n % alignment) % alignment; }

static int put_header(block *text, int64_t n, const entry *entries, int64_t n_metadata, const char *const *keys, const td_gguf_value *values,
                      uint64_t alignment)
{
    uint64_t begin = 0;
    if (put(text, GGUF_MAGIC, 4) != 0 || put_32(text, 3) != 0 || put_64(text, (uint64_t)n) != 0 || put_64(text, (uint64_t)n_metadata) != 0)
        return -1;
    for (int64_t i = 0; i < n_metadata; i++)
        if (put_pair(text, keys[i], &values[i]) != 0)
            return -1;
    for (int64_t i = 0; i < n; i++) {
        if (put_tensor(text, &entries[i], begin) != 0)
            return -1;
        begin += entries[i].bytes + padding(entries[i].bytes, alignment);
    }
    return 0;
}

/* ---- the file */

static int write_zeros(td_whole *w, uint64_t n)
{
    static const char zeros[4096];
    int status = 0;
    for (uint64_t part; n && status == 0; n -= part) {
        part = n < sizeof zeros ? n : sizeof zeros;
        status = td_whole_write(w, zeros, part);
    }
    return status;
}

static int write_file(const char *path, const block *text, int64_t n, const entry *entries, uint64_t alignment)
{
    td_whole whole;
    if (td_whole_begin(&whole, "gguf", path) != 0)
        return -1;
    int status = td_whole_write(&whole, block_data(text), text->used);
    if (status == 0)
        status = write_zeros(&whole, padding(text->used, alignment));
    for (int64_t i = 0; i < n && status == 0; i++) {
        status = td_whole_write_tensor(&whole, entries[i].x);
        if (status == 0)
            status = write_zeros(&whole, padding(entries[i].bytes, alignment));
    }
    return td_whole_end(&whole, status);
}

static int find_alignment(int64_t n, const char *const *keys, const td_gguf_value *values, uint64_t *alignment)
{
    *alignment = GGUF_ALIGNMENT;
    for (int64_t i = 0; i < n; i++) {
        uint32_t said = 0;
        if (strcmp(keys[i], "general.alignment") != 0)
            continue;
        if (values[i].kind == TD_GGUF_U32 && values[i].size == 4)
            memcpy(&said, values[i].data, 4);
        if (said == 0 || (said & (said - 1)) != 0)
            return td_error(TD_E_VALUE, "gguf: general.alignment is %" PRIu32 "; a power of two as uint32 is expected", said);
        *alignment = said;
    }
    return 0;
}

int td_gguf_save_typed(const char *path, int64_t n, const char *const *names, td_tensor *const *tensors, const char *const *types,
                       int64_t n_metadata, const char *const *keys, const td_gguf_value *values)
{
    block rows = {0}, text = {0};
    uint64_t alignment;
    entry *entries = n ? block_more(&rows, (size_t)n * sizeof *entries) : NULL;
    int status = n && !entries ? -1 : find_alignment(n_metadata, keys, values, &alignment);
    for (int64_t i = 0; i < n && status == 0; i++)
        status = check(&entries[i], names[i], tensors[i], types ? types[i] : NULL);
    if (status == 0)
        status = td_text_check_distinct("gguf", "name", n, names);
    if (status == 0)
        status = td_text_check_distinct("gguf", "key", n_metadata, keys);
    if (status == 0)
        status = put_header(&text, n, entries, n_metadata, keys, values, alignment);
    if (status == 0)
        status = write_file(path, &text, n, entries, alignment);
    block_free(&rows);
    block_free(&text);
    return status;
}

int td_gguf_save(const char *path, int64_t n, const char *const *names, td_tensor *const *tensors, int64_t n_metadata, const char *const *keys,
                 const td_gguf_value *values)
{
    return td_gguf_save_typed(path, n, names, tensors, NULL, n_metadata, keys, values);
}
