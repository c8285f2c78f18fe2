/* Operators that are defined at run time, by a schema in text.
 *
 * Such a row has boxed kernels only.  Rows are never freed: a caller may hold one, and a program defines few.  They are
 * found in a table of lists that only grow at their heads, so that finding takes no lock. */
#include "dispatch/op.h"

#include <pthread.h>
#include <tede/library.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct defined {
    td_op           op;
    struct defined *next;           /* in its bucket */
    bool            removed;
} defined;

enum { BUCKETS = 512 };
static defined        *buckets[BUCKETS];
static defined       **rows;
static int             n_rows, room;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* FNV-1a, of space and name without the overload, so that all overloads are in one list. */
static unsigned hash(const char *space, size_t length, const char *name)
{
    unsigned h = 2166136261u;
    for (size_t i = 0; i < length; i++)
        h = (h ^ (unsigned char)space[i]) * 16777619u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    return h % BUCKETS;
}

/* No lock: acquire pairs with the release in td_op_define, so a row that is seen is complete; its `next` never
 * changes, and a removed one stays in its list, marked. */
td_op *td_defined_find(const char *space, size_t length, const char *name, const char *overload)
{
    defined *d = __atomic_load_n(&buckets[hash(space, length, name)], __ATOMIC_ACQUIRE);
    for (; d; d = d->next) {
        const td_op_info *info = &d->op.info;
        const char *own = info->space ? info->space : "aten";
        if (!__atomic_load_n(&d->removed, __ATOMIC_RELAXED) && strlen(own) == length && !strncmp(own, space, length) &&
            !strcmp(info->name, name) && !strcmp(info->overload, overload))
            return &d->op;
    }
    return NULL;
}

int td_defined_count(void) { return __atomic_load_n(&n_rows, __ATOMIC_ACQUIRE); }

td_op *td_defined_at(int i)
{
    pthread_mutex_lock(&lock);
    td_op *op = i >= 0 && i < n_rows ? &rows[i]->op : NULL;
    pthread_mutex_unlock(&lock);
    return op;
}

/* ---- reading a schema.  All that a row points to lives in blocks that are freed only if reading fails. */

typedef struct reader {
    const char *at, *whole;
    void      **blocks;             /* chained by their first member */
} reader;

/* Zeroed; 16 bytes in front link the block and keep what follows aligned. */
static void *keep(reader *r, size_t bytes)
{
    void **block = calloc(1, bytes + 16);
    if (!block)
        return td_fail(TD_E_MEMORY, "no memory for an operator's description");
    block[0] = r->blocks;
    r->blocks = block;
    return (char *)block + 16;
}
static char *keep_text(reader *r, const char *start, size_t length)
{
    char *text = keep(r, length + 1);
    if (text)
        memcpy(text, start, length);
    return text;
}
static int fail(reader *r, const char *what)
{
    return td_error(TD_E_RUNTIME, "schema '%s': %s was expected at '%s'", r->whole, what, r->at);
}
static void spaces(reader *r) { r->at += strspn(r->at, " \t\n"); }
static bool take(reader *r, const char *token)
{
    spaces(r);
    size_t n = strlen(token);
    if (strncmp(r->at, token, n))
        return false;
    r->at += n;
    return true;
}
static size_t word(const char *at)
{
    size_t n = 0;
    while ((at[n] >= 'a' && at[n] <= 'z') || (at[n] >= 'A' && at[n] <= 'Z') || (at[n] >= '0' && at[n] <= '9') || at[n] == '_')
        n++;
    return n;
}
static char *take_word(reader *r)
{
    spaces(r);
    size_t n = word(r->at);
    if (!n)
        return fail(r, "a name"), NULL;
    char *text = keep_text(r, r->at, n);
    r->at += n;
    return text;
}

static int unknown_type(reader *r, size_t length)
{
    static const struct { const char *name, *instead; } foreign[] = {
        {"int64_t", "`SymInt` or `int`"}, {"int32_t", "`SymInt` or `int`"}, {"double", "`float`"}, {"String", "`str`"},
    };
    if (!length)
        return fail(r, "a type");
    for (int i = 0; i < TD_COUNT(foreign); i++)
        if (strlen(foreign[i].name) == length && !strncmp(foreign[i].name, r->at, length))
            return td_error(TD_E_RUNTIME, "schema '%s': `%s` is not a supported type specifier. Use %s instead.", r->whole,
                            foreign[i].name, foreign[i].instead);
    return td_error(TD_E_RUNTIME, "schema '%s': unknown type specifier '%.*s'; there are Tensor, int, float, bool, Scalar, str, "
                    "ScalarType, Device, ..., and lists of them", r->whole, (int)length, r->at);
}

/* A type and its marks, in any order and number: (a!) and (a) name an alias, ! a write, ? an optional (of what stands
 * before it: Tensor?[] is a list of optionals, Tensor[]? an optional list), [n] a list. */
static int take_type(reader *r, td_arg *a)
{
    static const struct { const char *name; uint8_t kind, list; } types[] = {
        {"Tensor", TD_VALUE_TENSOR, TD_VALUE_TENSORS}, {"int", TD_VALUE_INT, TD_VALUE_INTS},
        {"SymInt", TD_VALUE_INT, TD_VALUE_INTS}, {"float", TD_VALUE_FLOAT, TD_VALUE_FLOATS},
        {"bool", TD_VALUE_BOOL, TD_VALUE_BOOLS}, {"Scalar", TD_VALUE_SCALAR, TD_VALUE_SCALARS}, {"str", TD_VALUE_STRING, 0},
        {"ScalarType", TD_VALUE_DTYPE, 0}, {"Device", TD_VALUE_DEVICE, 0}, {"Layout", TD_VALUE_LAYOUT, 0},
        {"MemoryFormat", TD_VALUE_MEMORY_FORMAT, 0}, {"Generator", TD_VALUE_GENERATOR, 0}, {"SymBool", TD_VALUE_BOOL, 0},
    };
    spaces(r);
    size_t n = word(r->at);
    int found = -1;
    for (int i = 0; i < TD_COUNT(types); i++)
        if (strlen(types[i].name) == n && !strncmp(types[i].name, r->at, n))
            found = i;
    if (found < 0)
        return unknown_type(r, n);
    r->at += n;
    a->kind = types[found].kind;
    for (;;) {
        if (*r->at == '(') {
            size_t close = strcspn(r->at, ")");
            a->is_mutable |= memchr(r->at, '!', close) != NULL;
            a->alias = word(r->at + 1) ? r->at[1] : 0;
            r->at += close + (r->at[close] == ')');
        } else if (*r->at == '!') {        /* written to, and an alias of nothing else */
            a->is_mutable = true;
            r->at++;
        } else if (*r->at == '?') {
            a->optional = true;
            r->at++;
        } else if (*r->at == '[') {
            if (!types[found].list)
                return fail(r, "a type that lists can be made of");
            a->kind = types[found].list;
            a->optional_items = a->optional;
            a->optional = false;
            a->list_size = (int8_t)strtol(r->at + 1, (char **)&r->at, 10);
            if (!take(r, "]"))
                return fail(r, "']'");
        } else
            return 0;
    }
}

/* Read both ways: whole for integers, which a double would round beyond 2^53, and a float where more text belongs to
 * it. */
static int take_scalar(reader *r, td_scalar *value)
{
    char *whole_end, *end;
    long long whole = strtoll(r->at, &whole_end, 10);
    double number = strtod(r->at, &end);
    if (end == r->at)
        return fail(r, "a default value");
    *value = end > whole_end ? td_float(number) : td_int(whole);
    r->at = end;
    return 0;
}
static int take_number(reader *r, td_arg *a, td_value *v)
{
    td_scalar value;
    if (take_scalar(r, &value))
        return -1;
    if (a->kind == TD_VALUE_INT || a->kind == TD_VALUE_DTYPE)
        v->integer = td_scalar_int(value);
    else if (a->kind == TD_VALUE_FLOAT)
        v->number = td_scalar_double(value);
    else
        v->scalar = value;
    v->kind = a->kind;
    return 0;
}

/* Items are read as scalars, and kept as what the type wants. */
static int take_list(reader *r, td_arg *a, td_value *v)
{
    td_scalar items[64];
    int n = 0;
    while (!take(r, "]")) {
        if (n == 64)
            return fail(r, "a shorter list");
        bool yes = take(r, "True"), no = !yes && take(r, "False");
        if (yes || no)
            items[n] = td_bool(yes);
        else if (take_scalar(r, &items[n]))
            return -1;
        if (a->kind == TD_VALUE_INTS && items[n].kind == TD_SCALAR_FLOAT)
            return fail(r, "an integer");
        if (a->kind == TD_VALUE_TENSORS)
            return fail(r, "an empty list");
        n++;
        take(r, ",");
    }
    void *list = keep(r, (size_t)n * sizeof *items);      /* no item is larger */
    if (!list)
        return -1;
    for (int i = 0; i < n; i++)
        if (a->kind == TD_VALUE_INTS)
            ((int64_t *)list)[i] = td_scalar_int(items[i]);
        else if (a->kind == TD_VALUE_FLOATS)
            ((double *)list)[i] = td_scalar_double(items[i]);
        else if (a->kind == TD_VALUE_BOOLS)
            ((bool *)list)[i] = td_scalar_bool(items[i]);
        else
            ((td_scalar *)list)[i] = items[i];
    v->kind = a->kind, v->count = n, v->ints = list;
    return 0;
}

/* A number in the place of a list of n: int[2] padding=0. */
static int take_repeated(reader *r, td_arg *a, td_value *v)
{
    const bool yes = take(r, "True"), no = !yes && take(r, "False");
    td_scalar item = td_bool(yes);
    void *list = keep(r, (size_t)a->list_size * sizeof item);
    if (!list || (!yes && !no && take_scalar(r, &item)))
        return -1;
    if (a->kind == TD_VALUE_INTS && item.kind == TD_SCALAR_FLOAT)
        return fail(r, "an integer");
    for (int i = 0; i < a->list_size; i++)
        if (a->kind == TD_VALUE_INTS)
            ((int64_t *)list)[i] = td_scalar_int(item);
        else if (a->kind == TD_VALUE_FLOATS)
            ((double *)list)[i] = td_scalar_double(item);
        else
            ((bool *)list)[i] = td_scalar_bool(item);
    *v = (td_value){.kind = a->kind, .count = a->list_size, .ints = list};
    return 0;
}

/* "float32", or the "float" that PyTorch also calls it. */
static int take_dtype(reader *r, td_value *v)
{
    static const struct { const char *name; td_dtype dtype; } aliases[] = {
        {"half", TD_F16}, {"float", TD_F32}, {"double", TD_F64}, {"short", TD_I16}, {"int", TD_I32}, {"long", TD_I64},
        {"cfloat", TD_C64}, {"cdouble", TD_C128},
    };
    size_t n = word(r->at);
    int found = -1;
    for (int i = 0; i < TD_DTYPES; i++)
        if (strlen(td_dtype_name(i)) == n && !strncmp(td_dtype_name(i), r->at, n))
            found = i;
    for (int i = 0; i < TD_COUNT(aliases); i++)
        if (strlen(aliases[i].name) == n && !strncmp(aliases[i].name, r->at, n))
            found = (int)aliases[i].dtype;
    if (found < 0)
        return fail(r, "a dtype");
    r->at += n;
    *v = (td_value){.kind = TD_VALUE_DTYPE, .integer = found};
    return 0;
}

/* None of a tensor is TD_NONE, an absent tensor; of anything else it is a value without a kind. */
static int take_default(reader *r, td_arg *a)
{
    td_value *v = &a->default_value;
    a->has_default = true;
    spaces(r);
    if (take(r, "None")) {
        *v = a->kind == TD_VALUE_TENSOR ? (td_value){.kind = TD_VALUE_TENSOR, .tensor = TD_NONE} : (td_value){0};
        return 0;
    }
    if (take(r, "["))
        return take_list(r, a, v);
    if (a->list_size && (a->kind == TD_VALUE_INTS || a->kind == TD_VALUE_FLOATS || a->kind == TD_VALUE_BOOLS))
        return take_repeated(r, a, v);
    bool yes = take(r, "True"), no = !yes && take(r, "False");
    if (yes || no) {
        *v = (td_value){.kind = a->kind, .integer = yes};
        if (a->kind == TD_VALUE_SCALAR)
            v->scalar = td_bool(yes);
        return 0;
    }
    if (*r->at == '"' || *r->at == '\'') {
        const char *start = r->at + 1, *end = strchr(start, *r->at);
        if (!end)
            return fail(r, "the end of the text");
        v->kind = a->kind == TD_VALUE_DEVICE ? TD_VALUE_DEVICE : TD_VALUE_STRING;
        v->string = keep_text(r, start, (size_t)(end - start));
        r->at = end + 1;
        if (v->string && a->kind == TD_VALUE_DEVICE)
            return td_device_parse(&v->device, v->string);
        return v->string ? 0 : -1;
    }
    if (a->kind == TD_VALUE_DTYPE && word(r->at) && !(*r->at >= '0' && *r->at <= '9'))
        return take_dtype(r, v);
    static const char *const formats[] = {"contiguous_format", "preserve_format", "channels_last_3d", "channels_last"};
    static const int codes[] = {TD_CONTIGUOUS_FORMAT, TD_PRESERVE_FORMAT, TD_CHANNELS_LAST_3D, TD_CHANNELS_LAST};
    for (int i = 0; i < TD_COUNT(formats) && a->kind == TD_VALUE_MEMORY_FORMAT; i++)
        if (take(r, formats[i])) {
            *v = (td_value){.kind = a->kind, .integer = codes[i]};
            return 0;
        }
    return take_number(r, a, v);
}

enum { MOST_ARGUMENTS = 40, MOST_RESULTS = 8 };

/* out= arguments are those that are written, stand after the * and are named out...; any other that is written makes
 * the operator an in-place one. */
static int take_arguments(reader *r, td_op_info *info)
{
    td_arg *list = keep(r, MOST_ARGUMENTS * sizeof *list);
    bool keyword_only = false;
    if (!list || !take(r, "("))
        return list ? fail(r, "'('") : -1;
    while (!take(r, ")")) {
        if (take(r, "*")) {
            keyword_only = true;
            take(r, ",");
            continue;
        }
        if (info->n_arguments == MOST_ARGUMENTS)
            return fail(r, "an end of the arguments");
        td_arg *a = &list[info->n_arguments++];
        a->keyword_only = keyword_only;
        if (take_type(r, a) || !(a->name = take_word(r)) || (take(r, "=") && take_default(r, a)))
            return -1;
        a->is_out = keyword_only && a->is_mutable && !strncmp(a->name, "out", 3);
        if (a->is_mutable)
            info->flags |= a->is_out ? TD_OP_OUT : TD_OP_INPLACE;
        spaces(r);
        if (!take(r, ",") && *r->at != ')')
            return fail(r, "',' or ')'");
    }
    info->arguments = list;
    return 0;
}

/* One result, several in parentheses, with or without names, or None; nothing may follow. */
static int take_results(reader *r, td_op_info *info)
{
    td_arg *list = keep(r, MOST_RESULTS * sizeof *list);
    if (!list || !take(r, "->"))
        return list ? fail(r, "'->'") : -1;
    bool several = take(r, "(");
    if (!several && take(r, "None")) {
        spaces(r);
        info->results = list;
        return *r->at ? fail(r, "the end") : 0;
    }
    while (!several || !take(r, ")")) {
        if (info->n_results == MOST_RESULTS)
            return fail(r, "at most 8 results");
        td_arg *a = &list[info->n_results++];
        if (take_type(r, a))
            return -1;
        spaces(r);
        if (word(r->at) && !(a->name = take_word(r)))
            return -1;
        if (!several)
            break;
        take(r, ",");
    }
    spaces(r);
    info->results = list;
    return *r->at ? fail(r, "the end") : 0;
}

/* "space::name.overload(...) -> ..." */
static int read(reader *r, td_op_info *info)
{
    char *space = take_word(r);
    if (!space || !take(r, "::"))
        return space ? fail(r, "'::'") : -1;
    const char *start = r->at;
    info->space = strcmp(space, "aten") ? space : NULL;
    if (!(info->name = take_word(r)))
        return -1;
    info->overload = *r->at == '.' ? (r->at++, take_word(r)) : "";
    if (!info->overload || take_arguments(r, info) || take_results(r, info))
        return -1;
    if (!(info->schema = keep_text(r, start, strlen(start))))
        return -1;
    info->doc = "";
    static const td_op_traits none = {.size = sizeof none};
    info->traits = &none;
    return 0;
}

static void boxed_only(void) {}     /* stands in a row's slots for "there is a boxed kernel"; never called */

/* The schema is read before the lock is taken. Under it come the check for the name and the publication, so that two
 * threads can't define one operator: the list's head first, then the array and the count, each with release. On an
 * error the row has been seen by nobody and goes with its blocks. */
const td_op *td_op_define(const char *schema)
{
    reader r = {.at = schema, .whole = schema};
    if (td_library_check())
        return NULL;
    defined *d = calloc(1, sizeof *d);
    if (!d)
        return td_fail(TD_E_MEMORY, "no memory for an operator's description");
    td_op_info *info = &d->op.info;
    int status = read(&r, info);
    if (status == 0) {
        d->op.from_boxed = boxed_only;
        const char *space = info->space ? info->space : "aten";
        unsigned at = hash(space, strlen(space), info->name);
        pthread_mutex_lock(&lock);
        if (td_op_find_parts(space, strlen(space), info->name, info->overload))
            status = td_error(TD_E_RUNTIME, "Tried to register an operator (%s) with the same name and overload name multiple times. "
                              "Each overload's schema should only be registered with a single call to def().", schema);
        if (status == 0 && n_rows == room) {
            defined **more = realloc(rows, (size_t)(room * 2 + 16) * sizeof *rows);
            status = more ? (rows = more, room = room * 2 + 16, 0) : td_error(TD_E_MEMORY, "no memory for another operator");
        }
        if (status == 0) {
            d->next = buckets[at];
            __atomic_store_n(&buckets[at], d, __ATOMIC_RELEASE);
            rows[n_rows] = d;
            __atomic_store_n(&n_rows, n_rows + 1, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&lock);
    }
    if (status == 0)
        return &d->op;
    while (r.blocks) {
        void **next = *r.blocks;
        free(r.blocks);
        r.blocks = next;
    }
    free(d);
    return NULL;
}

/* Hidden, not freed: see the top. */
int td_op_remove(const td_op *op)
{
    int status = -1;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_rows && status; i++)
        if (&rows[i]->op == op) {
            __atomic_store_n(&rows[i]->removed, true, __ATOMIC_RELAXED);
            memmove(rows + i, rows + i + 1, (size_t)(n_rows - i - 1) * sizeof *rows);
            __atomic_store_n(&n_rows, n_rows - 1, __ATOMIC_RELEASE);
            status = 0;
        }
    pthread_mutex_unlock(&lock);
    return status ? td_error(TD_E_VALUE, "only operators that were defined at run time can be removed") : 0;
}
