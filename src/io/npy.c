/* Reading .npy: magic, version, the length of a header, and the header, a dict as Python writes it:
 *
 *     {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
 *
 * Its three keys come in any order, once each, and nothing else does. Spaces may stand between all parts, the list of sizes may
 * end with a comma, and a size with the L of Python 2. */
#include <inttypes.h>
#include <tede/npy.h>
#include "io/file.h"
#include "io/text.h"
#include "io/zip.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "which bytes are swapped");

typedef struct header {
    td_dtype dtype;
    bool     swapped, fortran;
    int      ndim;
    int64_t  sizes[TD_MAX_DIMS];
} header;

typedef struct scanner { const char *begin, *p, *end; } scanner;

static int bad(const scanner *s, const char *what)
{
    return td_error(TD_E_VALUE, "npy: byte %td of the header: %s", s->p - s->begin, what);
}

static char peek(scanner *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\t'))
        s->p++;
    return s->p < s->end ? *s->p : 0;
}

static bool take(scanner *s, char c) { return peek(s) == c && c && (s->p++, true); }

static bool take_word(scanner *s, const char *word)
{
    size_t n = strlen(word);
    bool there = peek(s) && (size_t)(s->end - s->p) >= n && memcmp(s->p, word, n) == 0;
    s->p += there ? n : 0;
    return there;
}

/* A string without escapes, which none of the keys and dtypes needs. */
static int string(scanner *s, const char **text, int *length)
{
    char quote = peek(s);
    if (quote != '\'' && quote != '"')
        return bad(s, "a string expected");
    const char *close = memchr(s->p + 1, quote, (size_t)(s->end - s->p - 1));
    if (!close)
        return bad(s, "it ends inside a string");
    *text = s->p + 1, *length = (int)(close - *text < 80 ? close - *text : 80);
    s->p = close + 1;
    return 0;
}

static int descr(scanner *s, header *h)
{
    static const struct { const char *code; td_dtype dtype; } known[] = {
        {"b1", TD_BOOL}, {"u1", TD_U8}, {"i1", TD_I8}, {"i2", TD_I16}, {"u2", TD_U16}, {"i4", TD_I32}, {"u4", TD_U32}, {"i8", TD_I64},
        {"u8", TD_U64}, {"f2", TD_F16}, {"f4", TD_F32}, {"f8", TD_F64}, {"c8", TD_C64}, {"c16", TD_C128},
    };
    const char *text;
    int length;
    if (peek(s) == '[')
        return td_error(TD_E_TYPE, "npy: structured dtypes can't be read; there are tensors of numbers only");
    if (string(s, &text, &length) != 0)
        return -1;
    bool order = length && memchr("<>|=", *text, 4);
    for (size_t i = 0; order && i < sizeof known / sizeof *known; i++)
        if ((size_t)length == 1 + strlen(known[i].code) && memcmp(text + 1, known[i].code, (size_t)length - 1) == 0) {
            h->dtype = known[i].dtype, h->swapped = *text == '>' && td_dtype_size(h->dtype) > 1;
            return 0;
        }
    return td_error(TD_E_TYPE, "npy: the dtype '%.*s' can't be read; there are tensors of numbers only", length, text);
}

static int fortran_order(scanner *s, header *h)
{
    h->fortran = take_word(s, "True");
    return h->fortran || take_word(s, "False") ? 0 : bad(s, "True or False expected");
}

static int shape(scanner *s, header *h)
{
    if (!take(s, '('))
        return bad(s, "'(' expected");
    for (h->ndim = 0; !take(s, ')');) {
        int64_t n = 0;
        peek(s);
        const char *first = s->p;
        if (h->ndim == TD_MAX_DIMS)
            return bad(s, "too many dimensions");
        for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
            if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, *s->p - '0', &n))
                return bad(s, "a size beyond 2^63 - 1");
        if (s->p == first)
            return bad(s, "a size expected");
        h->sizes[h->ndim++] = n;
        take(s, 'L');
        if (!take(s, ',') && peek(s) != ')')
            return bad(s, "',' or ')' expected");
    }
    return 0;
}

static int read_header(scanner *s, header *h)
{
    static const struct { const char *key; int (*value)(scanner *, header *); } fields[] = {
        {"descr", descr}, {"fortran_order", fortran_order}, {"shape", shape},
    };
    enum { FIELDS = sizeof fields / sizeof *fields };
    int seen = 0;
    if (!take(s, '{'))
        return bad(s, "'{' expected");
    while (!take(s, '}')) {
        const char *key;
        int length, which = 0;
        if (string(s, &key, &length) != 0)
            return -1;
        while (which < FIELDS && ((size_t)length != strlen(fields[which].key) || memcmp(key, fields[which].key, (size_t)length) != 0))
            which++;
        if (which == FIELDS)
            return bad(s, "another key than 'descr', 'fortran_order' and 'shape'");
        if (seen & 1 << which)
            return bad(s, "a key comes twice");
        seen |= 1 << which;
        if (!take(s, ':'))
            return bad(s, "':' expected");
        if (fields[which].value(s, h) != 0)
            return -1;
        if (!take(s, ',') && peek(s) != '}')
            return bad(s, "',' or '}' expected");
    }
    if (peek(s))
        return bad(s, "more behind its end");
    return seen == (1 << FIELDS) - 1 ? 0 : bad(s, "'descr', 'fortran_order' and 'shape' are not all there");
}

/* ---- elements */

static void copy_swapped(char *to, const char *from, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i += size)
        for (size_t k = 0; k < size; k++)
            to[i + k] = from[i + size - 1 - k];
}

/* The bytes that a tensor of this shape takes; -1. */
static int64_t bytes_of(const header *h)
{
    int64_t bytes = (int64_t)td_dtype_size(h->dtype);
    bool empty = false, overflow = false;
    for (int d = 0; d < h->ndim; d++)
        empty |= h->sizes[d] == 0;
    for (int d = 0; d < h->ndim && !empty; d++)
        overflow |= __builtin_mul_overflow(bytes, h->sizes[d], &bytes);
    return overflow ? td_error(TD_E_VALUE, "npy: a shape of more than 2^63 bytes") : empty ? 0 : bytes;
}

static void strides_of(const header *h, int64_t *strides)
{
    int64_t step = 1;
    for (int k = 0; k < h->ndim; k++) {
        int d = h->fortran ? k : h->ndim - 1 - k;
        strides[d] = step;
        step *= h->sizes[d] > 1 ? h->sizes[d] : 1;
    }
}

/* Read all that comes before the elements; where these begin, or NULL. */
static char *elements(char *bytes, size_t size, header *h)
{
    uint32_t length = 0;
    size_t begin = size > 6 && bytes[6] == 1 ? 10 : 12;
    if (size < 6 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return td_fail(TD_E_VALUE, "npy: the magic string is not correct; expected \\x93NUMPY");
    if (size < begin)
        return td_fail(TD_E_VALUE, "npy: %zu bytes are too few for a header", size);
    if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0)
        return td_fail(TD_E_VALUE, "npy: version %d.%d is none of 1.0, 2.0 and 3.0", (unsigned char)bytes[6], (unsigned char)bytes[7]);
    memcpy(&length, bytes + 8, begin - 8);
    size_t room = size - begin;
    if (length > room)
        return td_fail(TD_E_VALUE, "npy: a header of %" PRIu32 " bytes doesn't fit into %zu; was the file cut short?", length, size);
    scanner s = {bytes + begin, bytes + begin, bytes + begin + length};
    int64_t needed = read_header(&s, h) == 0 ? bytes_of(h) : -1;
    if (needed < 0)
        return NULL;
    if ((uint64_t)needed > room - length)
        return td_fail(TD_E_VALUE, "npy: %" PRId64 " bytes of elements don't fit into %zu; was the file cut short?", needed, room - length);
    return bytes + begin + length;
}

td_tensor *td_npy_parse(void *bytes, size_t size, void (*release)(void *), void *context)
{
    const td_device cpu = {TD_CPU, -1};
    header h = {0};
    int64_t strides[TD_MAX_DIMS];
    char *data = elements(bytes, size, &h);
    if (!data)
        return NULL;
    size_t needed = (size_t)bytes_of(&h), part = td_dtype_size(td_dtype_to_real(h.dtype));
    strides_of(&h, strides);
    if (needed && !h.swapped && (uintptr_t)data % part == 0)
        return td_tensor_from_memory(data, h.ndim, h.sizes, strides, h.dtype, cpu, release, context);
    td_tensor *copy = td_tensor_new_strided(h.ndim, h.sizes, strides, h.dtype, cpu);
    if (!copy)
        return NULL;
    if (h.swapped)
        copy_swapped(td_tensor_data(copy), data, needed, part);
    else if (needed)
        memcpy(td_tensor_data(copy), data, needed);
    if (release)
        release(context);
    return copy;
}

/* The tensor in a storage, whose reference it takes over. */
static td_tensor *tensor_in(td_storage *file)
{
    td_tensor *x = file ? td_npy_parse(td_storage_data(file), td_storage_nbytes(file), td_storage_drop, file) : NULL;
    if (file && !x)
        td_storage_release(file);
    return x;
}

td_tensor *td_npy_load(const char *path)
{
    td_tensor *x = tensor_in(td_file_pages("npy", path));
    if (!x)
        td_file_blame(path);
    return x;
}

td_tensor *td_npz_get(const td_zip *z, const char *name)
{
    if (!z)
        return td_error_code() == TD_OK ? td_fail(TD_E_RUNTIME, "npz: no archive to get '%.80s' from", name) : NULL;
    block full = {0};
    size_t n = strlen(name);
    char *text = block_more(&full, n + sizeof ".npy");
    if (!text)
        return NULL;
    memcpy((char *)memcpy(text, name, n) + n, ".npy", sizeof ".npy");
    int64_t i = td_zip_find(z, text);
    block_free(&full);
    if (i < 0)
        return td_fail(TD_E_KEY, "npz: the archive has no tensor '%.80s'", name);
    td_storage *bytes = td_zip_storage(z, i);
    if (bytes && td_zip_check(z, i, td_storage_data(bytes)) != 0) {
        td_storage_release(bytes);
        return NULL;
    }
    return tensor_in(bytes);
}
