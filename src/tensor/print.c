/* Tensors as text, letter for letter as PyTorch shows them.
 *
 * One format serves a whole tensor: a pass over the elements that will be shown finds out whether they are all whole
 * numbers, whether their range asks for scientific notation, and how wide the widest is.  Only finite numbers other than
 * zero take part in that.  Complex tensors have a format for each part. */
#include <tede/foreign.h>
#include <tede/print.h>
#include "tensor/device.h"
#include "tensor/late.h"
#include "tensor/layout.h"
#include "tensor/tensor.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The process's options, and as they were when this thread began to print: another one may set them meanwhile. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static td_print_options process_options = {.precision = 4, .threshold = 1000, .edgeitems = 3, .linewidth = 80, .sci_mode = -1};
static char process_prefix[32] = "torch.";
static _Thread_local td_print_options options;
static _Thread_local char dtype_prefix[sizeof process_prefix];
static td_print_suffix *suffix_hook;

enum { NUMBER_ROOM = 512 };     /* the longest double in %f with a precision of up to 150 */

void td_print_get_options(td_print_options *o)
{
    pthread_mutex_lock(&lock);
    *o = process_options;
    pthread_mutex_unlock(&lock);
}

int td_print_set_options(const td_print_options *o)
{
    if (o->precision < 0 || o->precision > 150)
        return td_error(TD_E_VALUE, "set_printoptions: precision must be 0 to 150, got %d", o->precision);
    if (o->edgeitems < 0)
        return td_error(TD_E_VALUE, "set_printoptions: edgeitems must not be negative, got %d", o->edgeitems);
    pthread_mutex_lock(&lock);
    process_options = *o;
    pthread_mutex_unlock(&lock);
    return 0;
}

int td_print_profile(td_print_options *o, const char *name)
{
    bool narrow = strcmp(name, "short") == 0, full = strcmp(name, "full") == 0;
    if (!narrow && !full && strcmp(name, "default") != 0)
        return td_error(TD_E_VALUE, "set_printoptions: profile must be 'default', 'short' or 'full', got '%s'", name);
    o->precision = narrow ? 2 : 4;
    o->threshold = full ? INFINITY : 1000;
    o->edgeitems = narrow ? 2 : 3;
    o->linewidth = 80;
    return 0;
}

void td_print_set_suffix(td_print_suffix *suffix) { __atomic_store_n(&suffix_hook, suffix, __ATOMIC_RELEASE); }
void td_print_set_dtype_prefix(const char *prefix)
{
    pthread_mutex_lock(&lock);
    snprintf(process_prefix, sizeof process_prefix, "%s", prefix);
    pthread_mutex_unlock(&lock);
}

static void begin(void)
{
    pthread_mutex_lock(&lock);
    options = process_options;
    memcpy(dtype_prefix, process_prefix, sizeof dtype_prefix);
    pthread_mutex_unlock(&lock);
}

/* ---- a growing string.  The block begins with its own size, for td_string_free. */

enum { STRING_HEAD = 16 };

typedef struct string {
    char  *block;       /* NULL after a failure */
    size_t length, room;
} string;

static void put(string *s, const char *text, size_t length)
{
    if (!s->block)
        return;
    if (s->length + length + 1 > s->room) {
        size_t room = 2 * (s->length + length) + 64;
        char *block = td_mem_realloc(s->block, s->room + STRING_HEAD, room + STRING_HEAD);
        if (!block) {
            td_mem_free(s->block, s->room + STRING_HEAD);
            s->block = NULL;
            return;
        }
        s->block = block;
        s->room = room;
    }
    memcpy(s->block + STRING_HEAD + s->length, text, length);
    s->length += length;
}

static void put_text(string *s, const char *text) { put(s, text, strlen(text)); }

static void pad(string *s, char c, int64_t n)
{
    for (; n > 0; n--)
        put(s, &c, 1);
}

static char *finish(string *s)
{
    put(s, "", 1);
    if (!s->block)
        return NULL;
    memcpy(s->block, &s->room, sizeof s->room);
    return s->block + STRING_HEAD;
}

static string new_string(void)
{
    string s = {.room = 240};
    s.block = td_mem_alloc(s.room + STRING_HEAD);
    return s;
}

char *td_string_copy(const char *text)
{
    string s = new_string();
    put_text(&s, text);
    return finish(&s);
}

void td_string_free(char *text)
{
    if (!text)
        return;
    size_t room;
    memcpy(&room, text - STRING_HEAD, sizeof room);
    td_mem_free(text - STRING_HEAD, room + STRING_HEAD);
}

/* ---- elements */

typedef struct format {
    bool floating, whole, scientific;
    int  width;
} format;

/* The element at p, which may be unaligned: see Note [Unaligned elements] in src/ops/iterate/lazy.c. */
#define READ(T, p) ({ T element; memcpy(&element, p, sizeof element); element; })

/* A part of an element: real numbers and both parts of complex ones as double, others as integers. */
static double part(const td_tensor *x, const char *p, bool imag)
{
    double sign = (x->flags & TD_FLAG_NEG ? -1 : 1) * (imag && x->flags & TD_FLAG_CONJ ? -1 : 1);
    switch (x->dtype) {
    case TD_F16: return sign * td_f16_to_f32(READ(td_f16, p));
    case TD_BF16: return sign * td_bf16_to_f32(READ(td_bf16, p));
    case TD_F32: return sign * READ(float, p);
    case TD_F64: return sign * READ(double, p);
    case TD_C64: return sign * READ(float, p + imag * sizeof(float));
    case TD_F4_E2M1FN_X2: return READ(uint8_t, p);       /* both, as a whole number */
    case TD_C32: return sign * td_f16_to_f32(READ(td_f16, p + imag * sizeof(td_f16)));
    case TD_F8_E4M3FN: case TD_F8_E5M2: case TD_F8_E4M3FNUZ: case TD_F8_E5M2FNUZ: case TD_F8_E8M0FNU:
    case TD_DTYPE_A: case TD_DTYPE_B: case TD_DTYPE_C: case TD_DTYPE_D: {
        float number;
        td_dtype_loader(x->dtype)(&number, p, 1);
        return sign * number;
    }
    default: return sign * READ(double, p + imag * sizeof(double));
    }
}

static int integer_text(const td_tensor *x, const char *p, char *text)
{
    uint64_t negated;
    if (TD_UNLIKELY(x->flags & TD_FLAG_NEG) && x->dtype != TD_BOOL) {
        memcpy(&negated, p, (size_t)td_itemsize(x));
        td_negate_integer(&negated, td_itemsize(x));
        p = (const char *)&negated;
    }
    switch (x->dtype) {
    case TD_BOOL: return sprintf(text, "%s", *p ? "True" : "False");
    case TD_U8: return sprintf(text, "%d", READ(uint8_t, p));
    case TD_I8: return sprintf(text, "%d", READ(int8_t, p));
    case TD_I16: return sprintf(text, "%d", READ(int16_t, p));
    case TD_U16: return sprintf(text, "%d", READ(uint16_t, p));
    case TD_I32: return sprintf(text, "%" PRId32, READ(int32_t, p));
    case TD_U32: return sprintf(text, "%" PRIu32, READ(uint32_t, p));
    case TD_I64: return sprintf(text, "%" PRId64, READ(int64_t, p));
    default: return sprintf(text, "%" PRIu64, READ(uint64_t, p));
    }
}

static int number_text(const format *f, double value, char *text)
{
    if (value != value)
        return sprintf(text, "nan");
    if (isinf(value))
        return sprintf(text, value < 0 ? "-inf" : "inf");
    if (f->scientific)
        return snprintf(text, NUMBER_ROOM, "%.*e", options.precision, value);
    if (f->whole)
        return snprintf(text, NUMBER_ROOM, "%.0f.", value);
    return snprintf(text, NUMBER_ROOM, "%.*f", options.precision, value);
}

/* Call `see` for each element that will be shown. */
typedef void visitor(const td_tensor *x, const char *p, void *context);

static void visit(const td_tensor *x, int d, const char *p, bool summarize, visitor *see, void *context)
{
    if (d == x->ndim) {
        see(x, p, context);
        return;
    }
    int64_t size = x->sizes[d], edge = options.edgeitems, step = x->strides[d] * td_itemsize(x);
    for (int64_t i = 0; i < size; i++) {
        if (summarize && size > 2 * edge && i == edge)
            i = size - edge;
        if (i < size)
            visit(x, d + 1, p + i * step, summarize, see, context);
    }
}

typedef struct survey {
    bool   imag, any, whole;
    double min, max;
    format *format;
} survey;

static void see_range(const td_tensor *x, const char *p, void *context)
{
    survey *s = context;
    double value = part(x, p, s->imag), size = fabs(value);
    if (!isfinite(value) || value == 0)
        return;
    s->min = !s->any || size < s->min ? size : s->min;
    s->max = !s->any || size > s->max ? size : s->max;
    s->whole &= value == ceil(value);
    s->any = true;
}

static void see_width(const td_tensor *x, const char *p, void *context)
{
    const survey *s = context;
    char text[NUMBER_ROOM];
    int width;
    if (s->format->floating) {
        double value = part(x, p, s->imag);
        if (!isfinite(value) || value == 0)
            return;
        width = number_text(s->format, value, text);
    } else {
        width = integer_text(x, p, text);
    }
    if (width > s->format->width)
        s->format->width = width;
}

static format find_format(const td_tensor *x, bool summarize, bool imag)
{
    bool floating = td_dtype_is_floating(x->dtype) || td_dtype_is_complex(x->dtype) || td_is_foreign_dtype(x->dtype);
    format f = {.floating = floating, .whole = true, .width = 1};
    survey s = {.imag = imag, .whole = true, .format = &f};
    if (f.floating) {
        visit(x, 0, x->data, summarize, see_range, &s);
        if (!s.any)
            return f;
        f.whole = s.whole;
        f.scientific = options.sci_mode >= 0 ? options.sci_mode > 0 : s.max / s.min > 1000 || s.max > 1e8 || s.min < 1e-4;
    }
    visit(x, 0, x->data, summarize, see_width, &s);
    return f;
}

/* ---- the elements in their brackets */

typedef struct layout {
    const td_tensor *x;
    bool             summarize;
    format           real, imag;
} layout;

static void put_element(string *s, const layout *l, const char *p)
{
    char text[NUMBER_ROOM];
    const td_tensor *x = l->x;
    int length = l->real.floating ? number_text(&l->real, part(x, p, false), text) : integer_text(x, p, text);
    pad(s, ' ', l->real.width - length);
    put(s, text, (size_t)length);
    if (!td_dtype_is_complex(x->dtype))
        return;
    /* the imaginary part is padded, but its padding in front is taken away again */
    length = number_text(&l->imag, part(x, p, true), text);
    if (text[0] != '-')
        put_text(s, "+");
    put(s, text, (size_t)length);
    put_text(s, "j");
}

static void put_vector(string *s, const layout *l, const char *p, int64_t indent)
{
    const td_tensor *x = l->x;
    int64_t size = x->sizes[x->ndim - 1], step = x->strides[x->ndim - 1] * td_itemsize(x), edge = options.edgeitems;
    int64_t element = l->real.width + 2 + (td_dtype_is_complex(x->dtype) ? l->imag.width + 1 : 0);
    int64_t per_line = (options.linewidth - indent) / element;
    bool cut = l->summarize && size > 2 * edge;
    per_line = per_line < 1 ? 1 : per_line;
    put_text(s, "[");
    int64_t count = cut ? 2 * edge + 1 : size;
    for (int64_t i = 0; i < count && s->block; i++) {
        if (i > 0 && i % per_line == 0) {
            put_text(s, ",\n");
            pad(s, ' ', indent + 1);
        } else if (i > 0) {
            put_text(s, ", ");
        }
        if (cut && i == edge)
            put_text(s, edge ? " ..." : "...");
        else
            put_element(s, l, p + (cut && i > edge ? size - count + i : i) * step);
    }
    put_text(s, "]");
}

static void put_slices(string *s, const layout *l, int d, const char *p, int64_t indent)
{
    const td_tensor *x = l->x;
    int left = x->ndim - d;
    if (left == 0) {
        put_element(s, l, p);
        return;
    }
    if (left == 1) {
        put_vector(s, l, p, indent);
        return;
    }
    int64_t size = x->sizes[d], step = x->strides[d] * td_itemsize(x), edge = options.edgeitems;
    bool cut = l->summarize && size > 2 * edge;
    int64_t count = cut ? 2 * edge + 1 : size;
    put_text(s, "[");
    for (int64_t i = 0; i < count && s->block; i++) {
        if (i > 0) {
            put_text(s, ",");
            pad(s, '\n', left - 1);
            pad(s, ' ', indent + 1);
        }
        if (cut && i == edge)
            put_text(s, "...");
        else
            put_slices(s, l, d + 1, p + (cut && i > edge ? size - count + i : i) * step, indent + 1);
    }
    put_text(s, "]");
}

/* ---- what follows the elements */

typedef struct tail {
    string *s;
    int64_t indent, line;       /* length of the line so far, counted as PyTorch counts it */
} tail;

static void put_suffix(tail *t, const char *text)
{
    int64_t length = (int64_t)strlen(text);
    if (t->line + length + 2 > options.linewidth) {
        put_text(t->s, ",\n");
        pad(t->s, ' ', t->indent);
        t->line = t->indent + length;
    } else {
        put_text(t->s, ", ");
        t->line += length + 2;
    }
    put_text(t->s, text);
}

enum { SIZE_ROOM = 8 + TD_MAX_DIMS * 22 };

static const char *size_text(const td_tensor *x, char *text)
{
    int at = sprintf(text, "size=(");
    for (int d = 0; d < x->ndim; d++)
        at += sprintf(text + at, "%s%" PRId64, d ? ", " : "", x->sizes[d]);
    strcpy(text + at, x->ndim == 1 ? ",)" : ")");
    return text;
}

static void put_size(tail *t, const td_tensor *x)
{
    char text[SIZE_ROOM];
    put_suffix(t, size_text(x, text));
}

static void put_dtype(tail *t, const td_tensor *x)
{
    char text[96];
    snprintf(text, sizeof text, "dtype=%s%s", dtype_prefix, td_dtype_name(x->dtype));
    put_suffix(t, text);
}

/* ---- the elements */

static void put_elements(string *s, const td_tensor *x, int64_t indent)
{
    layout l = {.x = x, .summarize = (double)x->numel > options.threshold};
    l.real = find_format(x, l.summarize, false);
    if (td_dtype_is_complex(x->dtype))
        l.imag = find_format(x, l.summarize, true);
    put_slices(s, &l, 0, x->data, indent);
}

/* A part of a tensor of another layout than strided: "indices=tensor([[0, 1]])". */
static void put_part(string *s, const char *name, const td_tensor *x, int64_t indent)
{
    char text[SIZE_ROOM];
    put_text(s, name);
    put_text(s, "=tensor(");
    if (x->device.type == TD_META || x->numel == 0) {
        put_text(s, x->device.type == TD_META ? "..., " : "[], ");
        put_text(s, size_text(x, text));
    } else {
        put_elements(s, x, indent + (int64_t)strlen(name) + 8);
    }
    put_text(s, ")");
}

/* Those that are tensors, a line each; on another device by a copy.  0, or -1 with an error. */
static int put_parts(string *s, const td_layout_part *parts, int n, int64_t indent)
{
    bool first = true;
    for (int i = 0; i < n; i++) {
        const td_tensor *part = parts[i].tensor;
        if (!part)
            continue;
        td_tensor *shown = td_is_outside(part->device) && part->numel ? td_host_copy((td_tensor *)part) : td_tensor_retain((td_tensor *)part);
        if (!shown)
            return -1;
        if (!first)
            put_text(s, ",\n"), pad(s, ' ', indent);
        put_part(s, parts[i].name, shown, indent);
        td_tensor_release(shown);
        first = false;
    }
    return 0;
}

/* What is said of x's history; the buffer. */
static const char *history(td_tensor *x, char *text, size_t size)
{
    td_print_suffix *suffix = __atomic_load_n(&suffix_hook, __ATOMIC_ACQUIRE);
    text[0] = 0;
    if (suffix)
        suffix(x, text, size);
    else if (x->flags & TD_FLAG_REQUIRES_GRAD)
        strcpy(text, "requires_grad=True");
    return text;
}

static void put_to(void *to, const char *text) { put_text(to, text); }

static char *by_kind(const td_layout_kind *kind, td_tensor *x)
{
    char text[256];
    string s = new_string();
    if (kind->print(x, history(x, text, sizeof text), put_to, &s)) {
        td_string_free(finish(&s));
        return NULL;
    }
    return finish(&s);
}

/* x, or what is shown for it: a copy where its elements are elsewhere, or laid out otherwise. `*suffixes` becomes what a layout with strides says
 * behind the elements, to be freed. NULL with an error. */
static td_tensor *readable(td_tensor *x, bool as_it_is, const td_layout_kind *with_strides, char **suffixes)
{
    if (with_strides) {
        begin();                /* the prefix of names */
        if (with_strides->suffixes && !(*suffixes = with_strides->suffixes(x, dtype_prefix)))
            return NULL;
    }
    td_tensor *shown = with_strides             ? with_strides->to_dense(x)
                       : as_it_is || x->storage ? td_tensor_retain(x)
                                                : td_layout_to_dense(x);
    if (shown && shown->storage && td_is_outside(shown->device) && x->numel) {
        td_tensor *there = shown;
        shown = td_host_copy(there);
        td_tensor_release(there);
    }
    return shown;
}

/* Whether a literal with these elements would have x's dtype. */
static bool dtype_follows(const td_tensor *x)
{
    const td_dtype standard = td_default_dtype(), complex_standard = standard == TD_F64 ? TD_C128 : TD_C64;
    return x->dtype == (int8_t)standard || x->dtype == (int8_t)complex_standard || x->dtype == TD_I64 || x->dtype == TD_BOOL;
}

/* What stands behind the elements: device, size, dtype, what the layout adds, history. `parts`: they were shown in place of elements. */
static void put_suffixes(tail *t, td_tensor *x, const td_layout_kind *kind, bool parts, char *suffixes, bool meta)
{
    char name[32], text[256] = "", device[48] = "";
    if (x->device.type != TD_CPU)
        snprintf(device, sizeof device, "device='%s'", td_device_str(x->device, name));
    const bool below = parts && kind->flags & TD_LAYOUT_SIZE_BELOW;
    if (below) {                /* a line of their own, whatever comes first */
        const char *first = *device ? device : size_text(x, (char[SIZE_ROOM]){0});
        put_text(t->s, ",\n"), pad(t->s, ' ', t->indent);
        put_text(t->s, first);
        t->line = t->indent + (int64_t)strlen(first);
    } else if (*device) {
        put_suffix(t, device);
    }
    if (parts) {
        if (!below || *device)
            put_size(t, x);
        if (kind->describe && !meta) {
            kind->describe(x, text, sizeof text);
            put_suffix(t, text);
        }
        if (!dtype_follows(x))
            put_dtype(t, x);
    } else if (suffixes) {
        put_size(t, x);
        put_dtype(t, x);
        for (char *at = suffixes, *next; *at; at = next) {
            next = at + 1 + strcspn(at + 1, "\f");
            const char more = *next;
            *next = 0;
            put_suffix(t, at + 1);
            *next = more;
        }
    } else if (meta || x->numel == 0) {
        if (meta || x->ndim != 1)
            put_size(t, x);
        if (x->dtype != (int8_t)td_default_dtype())
            put_dtype(t, x);
    } else {
        if (options.edgeitems == 0)
            put_size(t, x);
        if (!dtype_follows(x))
            put_dtype(t, x);
    }
    if (td_tensor_layout(x) != TD_STRIDED) {
        snprintf(text, sizeof text, "layout=%s%s", dtype_prefix, td_layout_name(td_tensor_layout(x)));
        put_suffix(t, text);
    }
    if (*history(x, text, sizeof text))
        put_suffix(t, text);
}

static char *str_as(td_tensor *x, const char *prefix, const char *contents)
{
    const bool meta = x->device.type == TD_META || (x->numel && td_tensor_is_hollow(x) && !contents);      /* no elements to be shown */
    const td_layout_kind *kind = td_layout_describe(td_tensor_layout(x));
    if (kind && kind->print && !contents)
        return by_kind(kind, x);
    td_layout_part parts[TD_LAYOUT_PARTS];
    const int n_parts = kind && kind->parts ? kind->parts(x, parts) : 0;
    if (n_parts < 0)
        return NULL;
    char *suffixes = NULL;
    td_tensor *shown = contents ? td_tensor_retain(x) : readable(x, meta || !x->numel || n_parts, td_layout_with_strides(x), &suffixes);
    if (shown && shown->storage && shown->numel && !contents && !meta && !td_converts(shown->dtype) && shown->dtype != TD_F4_E2M1FN_X2) {
        td_tensor_release(shown);
        shown = td_fail(TD_E_NOT_IMPLEMENTED, "\"_local_scalar_dense_cpu\" not implemented for '%s'", td_dtype_title((td_dtype)x->dtype));
    }
    if (!shown) {
        free(suffixes);
        return NULL;
    }
    begin();
    string s = new_string();
    const int64_t indent = (int64_t)strlen(prefix) + 1;
    int status = 0;
    put_text(&s, prefix);
    put_text(&s, "(");
    if (contents)
        put_text(&s, contents);
    else if (n_parts)
        status = put_parts(&s, parts, n_parts, indent);
    else if (meta)
        put_text(&s, "...");
    else if (x->numel == 0)
        put_text(&s, "[]");
    else
        put_elements(&s, shown, indent);
    tail t = {.s = &s, .indent = indent, .line = 2};
    for (size_t i = s.length; s.block && i > 0 && s.block[STRING_HEAD + i - 1] != '\n'; i--)
        t.line++;
    if (!status)
        put_suffixes(&t, x, kind, n_parts, suffixes, meta);
    put_text(&s, ")");
    td_tensor_release(shown);
    free(suffixes);
    char *text = finish(&s);
    if (status)
        td_string_free(text);
    return status ? NULL : text;
}

char *td_tensor_str_as(td_tensor *x, const char *prefix, const char *contents)
{
    if (!x || td_settle_all())
        return NULL;
    const td_keyset exclude = td_pause_region();
    char *text = td_settle(x) ? NULL : str_as(x, prefix, contents);         /* also of another thread's region */
    td_masks_now.exclude = exclude;
    return text;
}
char *td_tensor_str(td_tensor *x) { return td_tensor_str_as(x, "tensor", NULL); }
