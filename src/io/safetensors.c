/* Reading safetensors.
 *
 * The header is JSON of one shape only: an object of objects of known fields, and one object of strings.  So there is
 * no tree of values: the scanner of json.c traverses the text once, fills flat tables, and nothing recurses.
 *
 * The rules beyond JSON's are the reference implementation's: the header begins with '{' and has at most 100 MB; no name
 * comes twice; the tensors' bytes lie one behind the other without overlap or gap, to the end of the file.  A file
 * that was cut short is therefore found when it is opened. */
#include <inttypes.h>
#include <stdlib.h>
#include <tede/safetensors.h>
#include "io/file.h"
#include "io/json.h"
#include "io/text.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's numbers are little-endian");

enum { MOST_HEADER = 100000000 };

typedef struct row {
    const char *name, *code;
    td_dtype    dtype;              /* TD_DTYPE_NONE: the format's, but not ours */
    int         ndim;
    int64_t     first;              /* of its sizes in `sizes` */
    uint64_t    begin, end;
} row;
typedef struct pair { const char *key, *value; } pair;

struct td_safetensors {
    td_storage *self, *file;        /* the block that this is in; the file's bytes */
    block       rows, sizes, pairs, by_name, text;
    int64_t     count, pair_count;
    char       *data;               /* where the tensors' bytes begin */
    uint64_t    data_size;
};

static const char *const codes[TD_DTYPES] = {
    [TD_BOOL] = "BOOL", [TD_U8] = "U8", [TD_I8] = "I8", [TD_I16] = "I16", [TD_U16] = "U16", [TD_I32] = "I32",
    [TD_U32] = "U32", [TD_I64] = "I64", [TD_U64] = "U64", [TD_F16] = "F16", [TD_BF16] = "BF16", [TD_F32] = "F32",
    [TD_F64] = "F64", [TD_C64] = "C64", [TD_F8_E4M3FN] = "F8_E4M3", [TD_F8_E5M2] = "F8_E5M2", [TD_F8_E4M3FNUZ] = "F8_E4M3FNUZ",
    [TD_F8_E5M2FNUZ] = "F8_E5M2FNUZ", [TD_F8_E8M0FNU] = "F8_E8M0",
};
static const char *const foreign_codes[] = {
    "F4", "F6_E2M3", "F6_E3M2",
};

const char *td_safetensors_dtype_name(td_dtype dtype)
{
    return (unsigned)dtype < TD_DTYPES ? codes[dtype] : NULL;
}

/* ---- the header */

static int shape(td_json *s, td_safetensors *f, row *r)
{
    int more;
    r->ndim = 0;
    r->first = (int64_t)(f->sizes.used / sizeof(int64_t));
    if (td_json_expect(s, '[') != 0)
        return -1;
    while ((more = td_json_another(s, ']', r->ndim == 0)) > 0) {
        if (r->ndim == TD_MAX_DIMS)
            return td_json_bad(s, "more than %d dimensions", TD_MAX_DIMS);
        int64_t *size = block_more(&f->sizes, sizeof *size);
        if (!size || td_json_number(s, size) != 0)
            return -1;
        r->ndim++;
    }
    return more;
}

static int dtype(td_json *s, row *r)
{
    if (td_json_string(s, &r->code) != 0)
        return -1;
    for (int d = 0; d < TD_DTYPES; d++)
        if (codes[d] && strcmp(codes[d], r->code) == 0)
            return r->dtype = (td_dtype)d, 0;
    r->dtype = TD_DTYPE_NONE;
    for (size_t i = 0; i < sizeof foreign_codes / sizeof *foreign_codes; i++)
        if (strcmp(foreign_codes[i], r->code) == 0)
            return 0;
    return td_json_bad(s, "'%.40s' is no dtype", r->code);
}

/* Whether a tensor of that many bytes fits its shape; dtypes that aren't ours are taken at their word. */
static int check_size(td_json *s, td_safetensors *f, const row *r)
{
    const int64_t *sizes = (const int64_t *)block_data(&f->sizes) + r->first;
    int64_t bytes = r->dtype < 0 ? 0 : (int64_t)td_dtype_size(r->dtype);
    bool empty = false, overflow = false;
    for (int d = 0; d < r->ndim; d++)
        empty |= sizes[d] == 0;
    for (int d = 0; d < r->ndim && !empty; d++)
        overflow |= __builtin_mul_overflow(bytes, sizes[d], &bytes);
    if (overflow)
        return td_json_bad(s, "'%.80s' has a shape of more than 2^63 bytes", r->name);
    if (r->begin > r->end || r->end > f->data_size)
        return td_json_bad(s, "'%.80s' is said to lie in bytes %" PRIu64 " to %" PRIu64 " of %" PRIu64 "%s", r->name, r->begin, r->end,
                   f->data_size, r->begin <= r->end ? "; was the file cut short?" : "");
    if (r->dtype >= 0 && r->end - r->begin != (uint64_t)(empty ? 0 : bytes))
        return td_json_bad(s, "'%.80s' has a shape of %" PRId64 " bytes, but a place of %" PRIu64, r->name, empty ? 0 : bytes,
                   r->end - r->begin);
    return 0;
}

static int tensor(td_json *s, td_safetensors *f, const char *name)
{
    enum { DTYPE = 1, SHAPE = 2, PLACE = 4 };
    row r = {.name = name};
    int seen = 0, more;
    if (td_json_expect(s, '{') != 0)
        return -1;
    for (bool first = true; (more = td_json_another(s, '}', first)) > 0; first = false) {
        const char *field;
        char *kept = s->text;
        if (td_json_string(s, &field) != 0 || td_json_expect(s, ':') != 0)
            return -1;
        int which = strcmp(field, "dtype") == 0 ? DTYPE : strcmp(field, "shape") == 0 ? SHAPE :
                    strcmp(field, "data_offsets") == 0 ? PLACE : 0;
        if (seen & which)
            return td_json_bad(s, "'%s' of '%.80s' comes twice", field, name);
        seen |= which;
        s->text = kept;
        int64_t begin, end;
        int status = which == DTYPE ? dtype(s, &r) : which == SHAPE ? shape(s, f, &r) : which == 0 ? td_json_skip(s) :
                     td_json_expect(s, '[') != 0 || td_json_number(s, &begin) != 0 || td_json_expect(s, ',') != 0 || td_json_number(s, &end) != 0 ||
                     td_json_expect(s, ']') != 0 ? -1 : 0;
        if (status != 0)
            return -1;
        if (which == PLACE)
            r.begin = (uint64_t)begin, r.end = (uint64_t)end;
    }
    if (more < 0)
        return -1;
    if (seen != (DTYPE | SHAPE | PLACE))
        return td_json_bad(s, "'%.80s' has no %s", name, !(seen & DTYPE) ? "dtype" : !(seen & SHAPE) ? "shape" : "data_offsets");
    row *place = check_size(s, f, &r) == 0 ? block_more(&f->rows, sizeof *place) : NULL;
    if (!place)
        return -1;
    *place = r;
    f->count++;
    return 0;
}

static int metadata(td_json *s, td_safetensors *f)
{
    int more;
    if (td_json_expect(s, '{') != 0)
        return -1;
    for (bool first = true; (more = td_json_another(s, '}', first)) > 0; first = false) {
        pair p, *place;
        if (td_json_string(s, &p.key) != 0 || td_json_expect(s, ':') != 0 || td_json_string(s, &p.value) != 0 ||
            !(place = block_more(&f->pairs, sizeof *place)))
            return -1;
        *place = p;
        f->pair_count++;
    }
    return more;
}

static int header(td_json *s, td_safetensors *f)
{
    int more;
    bool had_metadata = false;
    if (s->p == s->end || *s->p != '{')
        return td_json_bad(s, "'{' expected");
    s->p++;
    for (bool first = true; (more = td_json_another(s, '}', first)) > 0; first = false) {
        const char *name;
        if (td_json_string(s, &name) != 0 || td_json_expect(s, ':') != 0)
            return -1;
        bool is_metadata = strcmp(name, "__metadata__") == 0;
        if (is_metadata && had_metadata)
            return td_json_bad(s, "'__metadata__' comes twice");
        had_metadata |= is_metadata;
        if ((is_metadata ? metadata(s, f) : tensor(s, f, name)) != 0)
            return -1;
    }
    if (more == 0 && (td_json_peek(s), s->p != s->end))
        return td_json_bad(s, "more behind its end");
    return more;
}

/* ---- the tables */

static int compare_places(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->end != y->end ? (x->end < y->end ? -1 : 1) : strcmp(x->name, y->name);
}
static int compare_names(const void *a, const void *b)
{
    return strcmp((*(row *const *)a)->name, (*(row *const *)b)->name);
}
static int compare_keys(const void *a, const void *b) { return strcmp(((const pair *)a)->key, ((const pair *)b)->key); }

static row  *row_at(const td_safetensors *f, int64_t i) { return (row *)block_data(&f->rows) + i; }
static pair *pair_at(const td_safetensors *f, int64_t i) { return (pair *)block_data(&f->pairs) + i; }

static int arrange(td_safetensors *f)
{
    uint64_t reached = 0;
    if (f->count) {
        qsort(block_data(&f->rows), (size_t)f->count, sizeof(row), compare_places);
        row **names = block_more(&f->by_name, (size_t)f->count * sizeof *names);
        if (!names)
            return -1;
        for (int64_t i = 0; i < f->count; i++)
            names[i] = row_at(f, i);
        qsort(names, (size_t)f->count, sizeof *names, compare_names);
        for (int64_t i = 1; i < f->count; i++)
            if (strcmp(names[i - 1]->name, names[i]->name) == 0)
                return td_error(TD_E_VALUE, "safetensors: the name '%.80s' comes twice", names[i]->name);
    }
    for (int64_t i = 0; i < f->count; i++) {
        row *r = row_at(f, i);
        if (r->begin != reached)
            return td_error(TD_E_VALUE, r->begin < reached ?
                            "safetensors: '%.80s' overlaps another tensor: it begins at byte %" PRIu64 ", before %" PRIu64 :
                            "safetensors: a gap before '%.80s', which begins at byte %" PRIu64 ", not at %" PRIu64,
                            r->name, r->begin, reached);
        reached = r->end;
    }
    if (reached != f->data_size)
        return td_error(TD_E_VALUE, "safetensors: the tensors end at byte %" PRIu64 ", but the file goes on to %" PRIu64,
                        reached, f->data_size);
    if (f->pair_count)
        qsort(block_data(&f->pairs), (size_t)f->pair_count, sizeof(pair), compare_keys);
    for (int64_t i = 1; i < f->pair_count; i++)
        if (strcmp(pair_at(f, i - 1)->key, pair_at(f, i)->key) == 0)
            return td_error(TD_E_VALUE, "safetensors: the metadata '%.80s' comes twice", pair_at(f, i)->key);
    return 0;
}

static int parse(td_safetensors *f, char *bytes, size_t size)
{
    uint64_t length;
    if (size < 8)
        return td_error(TD_E_VALUE, "safetensors: %zu bytes are too few for a header", size);
    memcpy(&length, bytes, 8);
    if (length > size - 8)
        return td_error(TD_E_VALUE, "safetensors: a header of %" PRIu64 " bytes doesn't fit into a file of %zu; was it cut "
                        "short, or is it another kind of file?", length, size);
    if (length > MOST_HEADER)
        return td_error(TD_E_VALUE, "safetensors: a header of %" PRIu64 " bytes, more than the %d allowed", length,
                        MOST_HEADER);
    f->data = bytes + 8 + length;
    f->data_size = size - 8 - length;
    char *text = block_more(&f->text, (size_t)length + 1);
    td_json s = {.begin = bytes + 8, .p = bytes + 8, .end = bytes + 8 + length, .text = text};
    return text && header(&s, f) == 0 ? arrange(f) : -1;
}

/* ---- opening */

td_safetensors *td_safetensors_parse(void *bytes, size_t size, void (*release)(void *), void *context)
{
    td_safetensors *f = block_struct(sizeof *f, offsetof(td_safetensors, self));
    if (!f)
        return NULL;
    if (parse(f, bytes, size) == 0)
        f->file = td_storage_from_memory(bytes, size, (td_device){TD_CPU, -1}, release, context);
    if (!f->file) {
        td_safetensors_release(f);
        return NULL;
    }
    return f;
}

td_safetensors *td_safetensors_open(const char *path)
{
    td_storage *pages = td_file_pages("safetensors", path);
    td_safetensors *f = pages ? td_safetensors_parse(td_storage_data(pages), td_storage_nbytes(pages), td_storage_drop, pages) : NULL;
    if (pages && !f) {
        td_storage_release(pages);
        td_file_blame(path);
    }
    return f;
}

void td_safetensors_release(td_safetensors *f)
{
    if (!f)
        return;
    block *const blocks[] = {&f->rows, &f->sizes, &f->pairs, &f->by_name, &f->text};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        block_free(blocks[i]);
    td_storage_release(f->file);
    td_storage_release(f->self);
}

/* ---- what is in it */

int64_t        td_safetensors_count(const td_safetensors *f) { return f->count; }
const char    *td_safetensors_name(const td_safetensors *f, int64_t i) { return row_at(f, i)->name; }
const char    *td_safetensors_dtype(const td_safetensors *f, int64_t i) { return row_at(f, i)->code; }
int            td_safetensors_ndim(const td_safetensors *f, int64_t i) { return row_at(f, i)->ndim; }
const int64_t *td_safetensors_sizes(const td_safetensors *f, int64_t i)
{
    return (const int64_t *)block_data(&f->sizes) + row_at(f, i)->first;
}
int64_t     td_safetensors_metadata_count(const td_safetensors *f) { return f->pair_count; }
const char *td_safetensors_metadata_key(const td_safetensors *f, int64_t i) { return pair_at(f, i)->key; }
const char *td_safetensors_metadata_value(const td_safetensors *f, int64_t i) { return pair_at(f, i)->value; }

const char *td_safetensors_metadata(const td_safetensors *f, const char *key)
{
    pair wanted = {.key = key};
    size_t n = (size_t)f->pair_count;
    pair *found = n ? bsearch(&wanted, pair_at(f, 0), n, sizeof wanted, compare_keys) : NULL;
    return found ? found->value : NULL;
}

int64_t td_safetensors_find(const td_safetensors *f, const char *name)
{
    row wanted = {.name = name}, *key = &wanted;
    row **found = f->count ? bsearch(&key, block_data(&f->by_name), (size_t)f->count, sizeof key, compare_names) : NULL;
    return found ? *found - row_at(f, 0) : -1;
}

/* ---- tensors */

td_tensor *td_safetensors_at(td_safetensors *f, int64_t i)
{
    const td_device cpu = {TD_CPU, -1};
    if (i < 0 || i >= f->count)
        return td_fail(TD_E_INDEX, "safetensors: there is no tensor %" PRId64 " among %" PRId64, i, f->count);
    const row *r = row_at(f, i);
    if (r->dtype == TD_DTYPE_NONE)
        return td_fail(TD_E_NOT_IMPLEMENTED, "safetensors: '%.80s' has dtype %s, which is not there yet", r->name,
                       r->code);
    const int64_t *sizes = td_safetensors_sizes(f, i);
    char *data = f->data + r->begin;
    size_t alignment = td_dtype_size(td_dtype_to_real(r->dtype));
    if (r->begin == r->end || (uintptr_t)data % alignment != 0) {
        td_tensor *copy = td_tensor_new(r->ndim, sizes, r->dtype, cpu);
        if (copy && r->begin != r->end)
            memcpy(td_tensor_data(copy), data, r->end - r->begin);
        return copy;
    }
    td_tensor *x = td_tensor_from_memory(data, r->ndim, sizes, NULL, r->dtype, cpu, td_storage_drop, f->file);
    if (x)
        td_storage_retain(f->file);
    return x;
}

td_tensor *td_safetensors_get(td_safetensors *f, const char *name)
{
    if (!f)
        return td_error_code() == TD_OK ? td_fail(TD_E_RUNTIME, "safetensors: no file to get '%.80s' from", name) : NULL;
    int64_t i = td_safetensors_find(f, name);
    if (i < 0)
        return td_fail(TD_E_KEY, "safetensors: the file has no tensor '%.80s'", name);
    return td_safetensors_at(f, i);
}
