/* Reading GGUF.
 *
 * A file is traversed once, when it is opened: the scanner never goes beyond its end, every length is compared with what is left
 * before it is used, and flat tables are filled. Only arrays of arrays recurse, to a small depth. Names are copied, for they need a NUL
 * behind them; values stay where they lie, and are checked again when the elements of an array are taken, so that a file that somebody
 * changes meanwhile does no harm either.
 *
 * The rules beyond the format's: no key and no name comes twice, texts of names are UTF-8, tensors don't overlap (gaps are harmless). */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <tede/packed.h>
#include "io/file.h"
#include "io/gguf.h"
#include "io/text.h"

enum { DEEPEST = 8, LEAST_PAIR = 13, LEAST_TENSOR = 24 };       /* arrays in arrays; bytes of the shortest pair and tensor */

typedef struct row {
    const char      *name;
    size_t           text;              /* where the name is in `text`, which moves while it grows */
    const gguf_type *type;
    int              ndim;
    int64_t          first;             /* of its sizes in `sizes` */
    uint64_t         begin, bytes;      /* among the tensors' bytes */
} row;
typedef struct pair {
    const char   *key;
    size_t        text;
    td_gguf_value value;
} pair;

struct td_gguf {
    td_storage *self, *file;            /* the block that this is in; the file's bytes */
    block       rows, sizes, pairs, by_name, by_key, text;
    int64_t     count, pair_count;
    uint8_t    *data;                   /* where the tensors' bytes begin */
    uint64_t    data_size, alignment;
};

static row  *row_at(const td_gguf *f, int64_t i) { return (row *)block_data(&f->rows) + i; }
static pair *pair_at(const td_gguf *f, int64_t i) { return (pair *)block_data(&f->pairs) + i; }

/* ---- bytes, one after the other */

typedef struct scanner { const uint8_t *begin, *p, *end; } scanner;

static uint64_t left(const scanner *s) { return (uint64_t)(s->end - s->p); }

static int TD_PRINTF(2, 3) bad(const scanner *s, const char *format, ...)
{
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return td_error(TD_E_VALUE, "gguf: byte %td: %s", s->p - s->begin, what);
}

/* n bytes, behind which the scanner is then. */
static const uint8_t *take(scanner *s, uint64_t n, const char *what)
{
    if (n > left(s))
        return bad(s, "%s of %" PRIu64 " bytes where the file has %" PRIu64 " left; was it cut short?", what, n, left(s)), NULL;
    const uint8_t *taken = s->p;
    s->p += n;
    return taken;
}
static int take_32(scanner *s, const char *what, uint32_t *to)
{
    const uint8_t *p = take(s, 4, what);
    return p ? (memcpy(to, p, 4), 0) : -1;
}
static int take_64(scanner *s, const char *what, uint64_t *to)
{
    const uint8_t *p = take(s, 8, what);
    return p ? (memcpy(to, p, 8), 0) : -1;
}

/* A key or a tensor's name, copied into `text`; *place is where. */
static int take_name(scanner *s, td_gguf *f, const char *what, size_t *place)
{
    uint64_t length;
    const scanner before = *s;
    if (take_64(s, "a length", &length) != 0)
        return -1;
    if (length > GGUF_LONGEST)
        return bad(&before, "%s of %" PRIu64 " bytes; they have %d at most", what, length, GGUF_LONGEST);
    const char *p = (const char *)take(s, length, what), *end = p ? p + length : NULL;
    char *copy = p ? block_more(&f->text, (size_t)length + 1) : NULL;
    if (!copy)
        return -1;
    for (int n; p < end; p += n)
        if (*p == 0 || !(n = utf8_length(p, end)))
            return bad(&before, "%s that is no valid UTF-8, or has a NUL in it", what);
    memcpy(copy, end - length, (size_t)length);
    copy[length] = 0;
    *place = f->text.used - (size_t)length - 1;
    return 0;
}

/* ---- values */

size_t td_gguf_kind_size(unsigned kind)
{
    static const uint8_t sizes[TD_GGUF_KINDS] = {
        [TD_GGUF_U8] = 1, [TD_GGUF_I8] = 1, [TD_GGUF_U16] = 2, [TD_GGUF_I16] = 2, [TD_GGUF_U32] = 4, [TD_GGUF_I32] = 4, [TD_GGUF_F32] = 4,
        [TD_GGUF_BOOL] = 1, [TD_GGUF_U64] = 8, [TD_GGUF_I64] = 8, [TD_GGUF_F64] = 8,
    };
    return kind < TD_GGUF_KINDS ? sizes[kind] : 0;
}

static int take_kind(scanner *s, td_gguf_kind *to)
{
    uint32_t kind;
    const scanner before = *s;
    if (take_32(s, "a kind", &kind) != 0)
        return -1;
    if (kind >= TD_GGUF_KINDS)
        return bad(&before, "%" PRIu32 " is no kind of value; there are 0 to %d", kind, TD_GGUF_KINDS - 1);
    *to = (td_gguf_kind)kind;
    return 0;
}

static int check_bools(const scanner *s, const uint8_t *p, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        if (p[i] > 1)
            return bad(&(scanner){s->begin, p + i, s->end}, "a bool of value %d; it is 0 or 1", p[i]);
    return 0;
}

static int take_value(scanner *s, td_gguf_value *v, int depth);

static int take_elements(scanner *s, const td_gguf_value *v, int depth)
{
    const size_t size = td_gguf_kind_size(v->element), least = size ? size : v->element == TD_GGUF_STRING ? 8 : 12;
    if (v->count > left(s) / least)
        return bad(s, "an array of %" PRIu64 " elements where the file has %" PRIu64 " bytes left; was it cut short?", v->count, left(s));
    if (size) {
        const uint8_t *p = take(s, v->count * size, "an array");
        return !p ? -1 : v->element == TD_GGUF_BOOL ? check_bools(s, p, v->count) : 0;
    }
    for (uint64_t i = 0; i < v->count; i++) {
        td_gguf_value element = {.kind = v->element};
        if (take_value(s, &element, depth + 1) != 0)
            return -1;
    }
    return 0;
}

/* A value of v's kind. */
static int take_value(scanner *s, td_gguf_value *v, int depth)
{
    const size_t size = td_gguf_kind_size(v->kind);
    uint64_t length = size;
    if (v->kind == TD_GGUF_ARRAY) {
        if (depth >= DEEPEST)
            return bad(s, "arrays nested more than %d deep", DEEPEST);
        if (take_kind(s, &v->element) != 0 || take_64(s, "a count", &v->count) != 0)
            return -1;
        v->data = s->p;
        if (take_elements(s, v, depth) != 0)
            return -1;
        v->size = (size_t)(s->p - (const uint8_t *)v->data);
        return 0;
    }
    if (!size && take_64(s, "a length", &length) != 0)
        return -1;
    if (!(v->data = take(s, length, size ? "a value" : "a string")))
        return -1;
    v->size = (size_t)length;
    return v->kind == TD_GGUF_BOOL ? check_bools(s, v->data, 1) : 0;
}

bool td_gguf_next(const td_gguf_value *array, size_t *at, td_gguf_value *element)
{
    if (!array || array->kind != TD_GGUF_ARRAY || *at >= array->size)
        return false;
    const uint8_t *data = array->data;
    scanner s = {data, data + *at, data + array->size};
    *element = (td_gguf_value){.kind = array->element};
    if (take_value(&s, element, 0) != 0)
        return td_error_clear(), false;         /* it was right when the file was opened */
    *at = (size_t)(s.p - data);
    return true;
}

int td_gguf_check_value(const td_gguf_value *v)
{
    const uint8_t *data = v->data;
    scanner s = {data, data, data + v->size};
    if ((unsigned)v->kind >= TD_GGUF_KINDS || (v->kind == TD_GGUF_ARRAY && (unsigned)v->element >= TD_GGUF_KINDS))
        return td_error(TD_E_VALUE, "gguf: %u is no kind of value", v->kind == TD_GGUF_ARRAY ? v->element : v->kind);
    if (v->kind == TD_GGUF_STRING)
        return 0;
    if (v->kind == TD_GGUF_ARRAY) {
        if (take_elements(&s, v, 0) != 0)
            return -1;
        return s.p == s.end ? 0 : bad(&s, "more behind the %" PRIu64 " elements of an array", v->count);
    }
    if (v->size != td_gguf_kind_size(v->kind))
        return td_error(TD_E_VALUE, "gguf: a value of %zu bytes whose kind has %zu", v->size, td_gguf_kind_size(v->kind));
    return v->kind == TD_GGUF_BOOL ? check_bools(&s, data, 1) : 0;
}

int td_gguf_number(const td_gguf_value *v, td_scalar *number)
{
    union { uint8_t u8; int8_t i8; uint16_t u16; int16_t i16; uint32_t u32; int32_t i32; float f32; uint64_t u64; int64_t i64; double f64; } x;
    const size_t size = v ? td_gguf_kind_size(v->kind) : 0;
    if (!size)
        return td_error(TD_E_TYPE, "gguf: a number is expected, not %s", !v ? "nothing" : v->kind == TD_GGUF_STRING ? "a string" : "an array");
    memcpy(&x, v->data, size);
    *number = v->kind == TD_GGUF_U8 ? td_int(x.u8) : v->kind == TD_GGUF_I8 ? td_int(x.i8) : v->kind == TD_GGUF_U16 ? td_int(x.u16) :
              v->kind == TD_GGUF_I16 ? td_int(x.i16) : v->kind == TD_GGUF_U32 ? td_int(x.u32) : v->kind == TD_GGUF_I32 ? td_int(x.i32) :
              v->kind == TD_GGUF_F32 ? td_float(x.f32) : v->kind == TD_GGUF_BOOL ? td_bool(x.u8) : v->kind == TD_GGUF_F64 ? td_float(x.f64) :
              td_int(x.i64);
    if (v->kind == TD_GGUF_U64 && x.u64 > INT64_MAX)
        number->kind = TD_SCALAR_UINT, number->u = x.u64;
    return 0;
}

/* ---- the header */

static int take_pair(scanner *s, td_gguf *f)
{
    pair p = {0};
    if (take_name(s, f, "a key", &p.text) != 0 || take_kind(s, &p.value.kind) != 0)
        return -1;
    const scanner before = *s;
    if (take_value(s, &p.value, 0) != 0)
        return -1;
    if (strcmp((char *)block_data(&f->text) + p.text, "general.alignment") == 0) {
        uint32_t alignment = 0;
        if (p.value.kind == TD_GGUF_U32)
            memcpy(&alignment, p.value.data, 4);
        if (alignment == 0 || (alignment & (alignment - 1)) != 0)
            return bad(&before, "general.alignment is %" PRIu32 "; a power of two as uint32 is expected", alignment);
        f->alignment = alignment;
    }
    pair *place = block_more(&f->pairs, sizeof p);
    return place ? (*place = p, f->pair_count++, 0) : -1;
}

/* Sizes, which the file has with the innermost first. */
static int take_sizes(scanner *s, td_gguf *f, row *r)
{
    uint32_t ndim;
    const scanner before = *s;
    if (take_32(s, "a number of dimensions", &ndim) != 0)
        return -1;
    if (ndim > TD_MAX_DIMS)
        return bad(&before, "%" PRIu32 " dimensions; there can be %d", ndim, TD_MAX_DIMS);
    r->ndim = (int)ndim;
    r->first = (int64_t)(f->sizes.used / sizeof(int64_t));
    int64_t *sizes = ndim ? block_more(&f->sizes, ndim * sizeof *sizes) : NULL;
    if (ndim && !sizes)
        return -1;
    for (uint32_t d = 0; d < ndim; d++) {
        uint64_t size;
        if (take_64(s, "a size", &size) != 0)
            return -1;
        if (size > INT64_MAX)
            return bad(&before, "a size of %" PRIu64, size);
        sizes[ndim - 1 - d] = (int64_t)size;
    }
    return 0;
}

/* The bytes of a tensor; -1 with an error. */
static int measure(const scanner *at, td_gguf *f, row *r)
{
    const int64_t *sizes = (const int64_t *)block_data(&f->sizes) + r->first, columns = r->ndim ? sizes[r->ndim - 1] : 1;
    int64_t bytes = columns / r->type->block;
    bool empty = false, overflow = false;
    if (columns % r->type->block)
        return bad(at, "%s: rows of %" PRId64 " elements aren't whole blocks of %d", r->type->name, columns, r->type->block);
    for (int d = 0; d < r->ndim; d++)
        empty |= sizes[d] == 0;
    overflow |= __builtin_mul_overflow(bytes, r->type->bytes, &bytes);
    for (int d = 0; d < r->ndim - 1 && !empty; d++)
        overflow |= __builtin_mul_overflow(bytes, sizes[d], &bytes);
    /* Elements are counted too: types of few bits have more of them than bytes. */
    int64_t elements = 1;
    for (int d = 0; d < r->ndim && !empty; d++)
        overflow |= __builtin_mul_overflow(elements, sizes[d], &elements);
    if (overflow)
        return bad(at, "a tensor of more than 2^63 bytes or elements");
    r->bytes = empty ? 0 : (uint64_t)bytes;
    return 0;
}

static int take_tensor(scanner *s, td_gguf *f)
{
    row r = {0};
    uint32_t number;
    const scanner before = *s;
    if (take_name(s, f, "a tensor's name", &r.text) != 0 || take_sizes(s, f, &r) != 0)
        return -1;
    const scanner at_type = *s;
    if (take_32(s, "a type", &number) != 0)
        return -1;
    if (!(r.type = td_gguf_type_of_number(number)))
        return bad(&at_type, "%" PRIu32 " is the number of no type of tensors that is known here", number);
    if (measure(&before, f, &r) != 0)
        return -1;
    const scanner at_offset = *s;
    if (take_64(s, "an offset", &r.begin) != 0)
        return -1;
    if (r.begin % f->alignment)
        return bad(&at_offset, "an offset of %" PRIu64 ", no multiple of the alignment, %" PRIu64, r.begin, f->alignment);
    row *place = block_more(&f->rows, sizeof r);
    return place ? (*place = r, f->count++, 0) : -1;
}

static int header(scanner *s, td_gguf *f)
{
    const uint8_t *magic = take(s, 4, "a magic number");
    uint32_t version;
    uint64_t tensors, pairs;
    if (!magic)
        return -1;
    if (memcmp(magic, GGUF_MAGIC, 4) != 0)
        return td_error(TD_E_VALUE, "gguf: the file doesn't begin with 'GGUF'; is it another kind of file?");
    scanner before = *s;
    if (take_32(s, "a version", &version) != 0)
        return -1;
    if ((version & 0xffff) == 0 && version != 0)
        return bad(&before, "the file is in big-endian order, which isn't read here");
    if (version != 2 && version != 3)
        return bad(&before, "version %" PRIu32 "; 2 and 3 are read here", version);
    before = *s;
    if (take_64(s, "a number of tensors", &tensors) != 0 || take_64(s, "a number of pairs", &pairs) != 0)
        return -1;
    if (pairs > left(s) / LEAST_PAIR || tensors > left(s) / LEAST_TENSOR)
        return bad(&before, "%" PRIu64 " tensors and %" PRIu64 " pairs don't fit into a file that has %" PRIu64 " bytes left; was it cut "
                   "short?", tensors, pairs, left(s));
    for (uint64_t i = 0; i < pairs; i++)
        if (take_pair(s, f) != 0)
            return -1;
    for (uint64_t i = 0; i < tensors; i++)
        if (take_tensor(s, f) != 0)
            return -1;
    return 0;
}

/* ---- the tables */

static int compare_places(const void *a, const void *b)
{
    const row *x = *(row *const *)a, *y = *(row *const *)b;
    return x->begin != y->begin ? (x->begin < y->begin ? -1 : 1) : x->bytes != y->bytes ? (x->bytes < y->bytes ? -1 : 1) : 0;
}
static int compare_names(const void *a, const void *b) { return strcmp((*(row *const *)a)->name, (*(row *const *)b)->name); }
static int compare_keys(const void *a, const void *b) { return strcmp((*(pair *const *)a)->key, (*(pair *const *)b)->key); }

static int check_places(const td_gguf *f, row **sorted)
{
    uint64_t reached = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const row *r = sorted[i];
        if (r->begin > f->data_size || r->bytes > f->data_size - r->begin)
            return td_error(TD_E_VALUE, "gguf: '%.80s' of %" PRIu64 " bytes begins at byte %" PRIu64 " of the tensors, which have %" PRIu64
                            "; was the file cut short?", r->name, r->bytes, r->begin, f->data_size);
        if (r->bytes && r->begin < reached)
            return td_error(TD_E_VALUE, "gguf: '%.80s' overlaps another tensor: it begins at byte %" PRIu64 " of the tensors, before %" PRIu64,
                            r->name, r->begin, reached);
        reached = r->bytes ? r->begin + r->bytes : reached;
    }
    return 0;
}

static int arrange(td_gguf *f)
{
    const char *text = block_data(&f->text);
    row **names = f->count ? block_more(&f->by_name, (size_t)f->count * sizeof *names) : NULL;
    pair **keys = f->pair_count ? block_more(&f->by_key, (size_t)f->pair_count * sizeof *keys) : NULL;
    if ((f->count && !names) || (f->pair_count && !keys))
        return -1;
    for (int64_t i = 0; i < f->count; i++) {
        names[i] = row_at(f, i);
        names[i]->name = text + names[i]->text;
    }
    for (int64_t i = 0; i < f->pair_count; i++) {
        keys[i] = pair_at(f, i);
        keys[i]->key = text + keys[i]->text;
    }
    if (names)
        qsort(names, (size_t)f->count, sizeof *names, compare_places);
    if (check_places(f, names) != 0)
        return -1;
    if (names)
        qsort(names, (size_t)f->count, sizeof *names, compare_names);
    if (keys)
        qsort(keys, (size_t)f->pair_count, sizeof *keys, compare_keys);
    for (int64_t i = 1; i < f->count; i++)
        if (strcmp(names[i - 1]->name, names[i]->name) == 0)
            return td_error(TD_E_VALUE, "gguf: the name '%.80s' comes twice", names[i]->name);
    for (int64_t i = 1; i < f->pair_count; i++)
        if (strcmp(keys[i - 1]->key, keys[i]->key) == 0)
            return td_error(TD_E_VALUE, "gguf: the key '%.80s' comes twice", keys[i]->key);
    return 0;
}

static int parse(td_gguf *f, uint8_t *bytes, size_t size)
{
    scanner s = {bytes, bytes, bytes + size};
    f->alignment = GGUF_ALIGNMENT;
    if (header(&s, f) != 0)
        return -1;
    const uint64_t end = (uint64_t)(s.p - s.begin), padding = (f->alignment - end % f->alignment) % f->alignment;
    f->data_size = padding < left(&s) ? left(&s) - padding : 0;
    f->data = bytes + (f->data_size ? end + padding : end);
    return arrange(f);
}

/* ---- opening */

td_gguf *td_gguf_parse(void *bytes, size_t size, void (*release)(void *), void *context)
{
    td_gguf *f = block_struct(sizeof *f, offsetof(td_gguf, self));
    if (!f)
        return NULL;
    if (parse(f, bytes, size) == 0)
        f->file = td_storage_from_memory(bytes, size, (td_device){TD_CPU, -1}, release, context);
    if (!f->file) {
        td_gguf_release(f);
        return NULL;
    }
    return f;
}

td_gguf *td_gguf_open(const char *path)
{
    td_storage *pages = td_file_pages("gguf", path);
    td_gguf *f = pages ? td_gguf_parse(td_storage_data(pages), td_storage_nbytes(pages), td_storage_drop, pages) : NULL;
    if (pages && !f) {
        td_storage_release(pages);
        td_file_blame(path);
    }
    return f;
}

void td_gguf_release(td_gguf *f)
{
    if (!f)
        return;
    block *const blocks[] = {&f->rows, &f->sizes, &f->pairs, &f->by_name, &f->by_key, &f->text};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        block_free(blocks[i]);
    td_storage_release(f->file);
    td_storage_release(f->self);
}

/* ---- what is in it */

int64_t        td_gguf_count(const td_gguf *f) { return f->count; }
const char    *td_gguf_name(const td_gguf *f, int64_t i) { return row_at(f, i)->name; }
const char    *td_gguf_type(const td_gguf *f, int64_t i) { return row_at(f, i)->type->name; }
int            td_gguf_ndim(const td_gguf *f, int64_t i) { return row_at(f, i)->ndim; }
const int64_t *td_gguf_sizes(const td_gguf *f, int64_t i) { return (const int64_t *)block_data(&f->sizes) + row_at(f, i)->first; }

int64_t              td_gguf_metadata_count(const td_gguf *f) { return f->pair_count; }
const char          *td_gguf_metadata_key(const td_gguf *f, int64_t i) { return pair_at(f, i)->key; }
const td_gguf_value *td_gguf_metadata_value(const td_gguf *f, int64_t i) { return &pair_at(f, i)->value; }

const td_gguf_value *td_gguf_metadata(const td_gguf *f, const char *key)
{
    pair wanted = {.key = key}, *at = &wanted;
    pair **found = f->pair_count ? bsearch(&at, block_data(&f->by_key), (size_t)f->pair_count, sizeof at, compare_keys) : NULL;
    return found ? &(*found)->value : NULL;
}

int64_t td_gguf_find(const td_gguf *f, const char *name)
{
    row wanted = {.name = name}, *at = &wanted;
    row **found = f->count ? bsearch(&at, block_data(&f->by_name), (size_t)f->count, sizeof at, compare_names) : NULL;
    return found ? *found - row_at(f, 0) : -1;
}

/* ---- tensors */

static const td_device cpu = {TD_CPU, -1};

/* Over the file where the place suits `alignment`, else a copy. */
static td_tensor *over(td_gguf *f, const row *r, int ndim, const int64_t *sizes, td_dtype dtype)
{
    uint8_t *data = r->bytes ? f->data + r->begin : f->data;
    if (r->bytes == 0 || (uintptr_t)data % td_dtype_size(dtype) != 0) {
        td_tensor *copy = td_tensor_new(ndim, sizes, dtype, cpu);
        if (copy && r->bytes)
            memcpy(td_tensor_data(copy), data, r->bytes);
        return copy;
    }
    td_tensor *x = td_tensor_from_memory(data, ndim, sizes, NULL, dtype, cpu, td_storage_drop, f->file);
    if (x)
        td_storage_retain(f->file);
    return x;
}

static const row *checked(const td_gguf *f, int64_t i)
{
    return i >= 0 && i < f->count ? row_at(f, i) : td_fail(TD_E_INDEX, "gguf: there is no tensor %" PRId64 " among %" PRId64, i, f->count);
}

td_tensor *td_gguf_blocks(td_gguf *f, int64_t i)
{
    const row *r = checked(f, i);
    if (!r)
        return NULL;
    int64_t sizes[TD_MAX_DIMS] = {0};
    const int ndim = r->ndim ? r->ndim : 1, last = ndim - 1;
    memcpy(sizes, td_gguf_sizes(f, i), sizeof *sizes * (size_t)r->ndim);
    sizes[last] = (r->ndim ? sizes[last] : 1) / r->type->block * r->type->bytes;
    return over(f, r, ndim, sizes, TD_U8);
}

typedef struct unpacking { const gguf_type *type; const uint8_t *from; float *to; } unpacking;
static void unpack_some(void *context, int64_t from, int64_t to)
{
    const unpacking *u = context;
    for (int64_t i = from; i < to; i++)
        u->type->unpack(u->from + i * u->type->bytes, u->to + i * u->type->block);
}

td_tensor *td_gguf_at(td_gguf *f, int64_t i)
{
    const row *r = checked(f, i);
    if (!r)
        return NULL;
    const int64_t *sizes = td_gguf_sizes(f, i);
    if (r->type->dtype != TD_DTYPE_NONE)
        return over(f, r, r->ndim, sizes, r->type->dtype);
    const int format = td_packed_find_code(r->type->number);
    if (format >= 0) {
        td_tensor *blocks = td_gguf_blocks(f, i), *x = td_packed_from_blocks(format, blocks, r->ndim, sizes, TD_F32);
        td_tensor_release(blocks);
        return x;
    }
    if (!r->type->unpack)
        return td_fail(TD_E_NOT_IMPLEMENTED, "gguf: '%.80s' is of type %s, whose blocks can't be unpacked here", r->name, r->type->name);
    td_tensor *x = td_tensor_new(r->ndim, sizes, TD_F32, cpu);
    if (x && r->bytes) {
        unpacking u = {r->type, f->data + r->begin, td_tensor_data(x)};
        td_parallel_for(0, (int64_t)(r->bytes / (uint64_t)r->type->bytes), 256, unpack_some, &u);
    }
    return x;
}

td_tensor *td_gguf_get(td_gguf *f, const char *name)
{
    if (!f)
        return td_error_code() == TD_OK ? td_fail(TD_E_RUNTIME, "gguf: no file to get '%.80s' from", name) : NULL;
    int64_t i = td_gguf_find(f, name);
    return i < 0 ? td_fail(TD_E_KEY, "gguf: the file has no tensor '%.80s'", name) : td_gguf_at(f, i);
}
