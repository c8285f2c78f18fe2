/* Nested tensors as they are registered: what they are made of, and how that is shown, converted and made dense. */
#include "calls_layouts_nested_object.h"
#include "layouts/nested/nested.h"
#include "tensor/device.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

/* ---- structures
 *
 * Who makes a tensor of the same offsets means the same structure, so those that live are found by where their offsets and lengths lie in memory, which
 * nobody else can have as long as they live. */
static td_ragged      *living;
static int64_t         made;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

td_ragged *td_ragged_retain(td_ragged *r)
{
    __atomic_fetch_add(&r->refcount, 1, __ATOMIC_RELAXED);
    return r;
}

static void ragged_free(td_ragged *r)
{
    td_tensor_release(r->offsets);
    td_tensor_release(r->lengths);
    td_mem_free(r->starts, sizeof *r->starts * 2 * (size_t)(r->n + 1));
    td_mem_free(r, sizeof *r);
}

/* The last reference is dropped under the lock: nobody finds a structure that is about to go. */
void td_ragged_release(td_ragged *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&lock);
    const bool last = __atomic_sub_fetch(&r->refcount, 1, __ATOMIC_ACQ_REL) == 0;
    if (last && r->link) {
        *r->link = r->next;
        if (r->next)
            r->next->link = r->link;
    }
    pthread_mutex_unlock(&lock);
    if (last)
        ragged_free(r);
}

static bool same_memory(const td_tensor *a, const td_tensor *b)
{
    return !a || !b ? a == b : a->device.type == TD_META || b->device.type == TD_META ? a->storage == b->storage && a->data == b->data :
                               a->data == b->data && a->numel == b->numel && a->dtype == b->dtype && a->device.type == b->device.type &&
                               a->device.index == b->device.index && (a->numel == 0 || a->strides[0] == b->strides[0]);
}

static td_ragged *found(td_tensor *offsets, td_tensor *lengths)
{
    pthread_mutex_lock(&lock);
    td_ragged *r = living;
    while (r && !(same_memory(r->offsets, offsets) && same_memory(r->lengths, lengths)))
        r = r->next;
    if (r)
        td_ragged_retain(r);
    pthread_mutex_unlock(&lock);
    return r;
}

static td_tensor *part(td_tensor *x)
{
    return x->autograd || x->wrapper || x->keys >= TD_KEYSET(TD_KEY_AROUND) ? td_alias_detached(x, false) : td_tensor_retain(x);
}

/* The numbers of a vector, on the host. */
static td_tensor *on_host(td_tensor *x)
{
    if (x->device.type == TD_META)
        return td_fail(TD_E_NOT_IMPLEMENTED, "nested tensors on meta have no offsets that could be read");
    TD_AUTO td_tensor *here = x->device.type == TD_CPU ? td_ref(x) : td_host_copy(x);
    return here ? td_as_contiguous(here, TD_I64) : NULL;
}

/* Takes over the parts' references. */
static td_ragged *ragged_new(td_tensor *offsets, td_tensor *lengths, int64_t n)
{
    td_ragged *r = td_mem_alloc(sizeof *r);
    if (r)
        *r = (td_ragged){.refcount = 1, .offsets = offsets, .lengths = lengths, .n = n, .starts = td_mem_alloc(sizeof *r->starts * 2 * (size_t)(n + 1))};
    if (!r || !r->starts) {
        td_tensor_release(offsets);
        td_tensor_release(lengths);
        td_mem_free(r, sizeof *r);
        return NULL;
    }
    r->counts = r->starts + n + 1;
    return r;
}

static td_ragged *settled(td_ragged *r)
{
    for (int64_t i = 0; i < r->n; i++) {
        r->longest = i == 0 || r->counts[i] > r->longest ? r->counts[i] : r->longest;
        r->shortest = i == 0 || r->counts[i] < r->shortest ? r->counts[i] : r->shortest;
    }
    pthread_mutex_lock(&lock);
    r->size = td_symbol(++made, 1);
    r->next = living, r->link = &living;
    if (living)
        living->link = &r->next;
    living = r;
    pthread_mutex_unlock(&lock);
    return r;
}

td_ragged *td_ragged_of(td_tensor *offsets, td_tensor *lengths)
{
    td_ragged *r = found(offsets, lengths);
    if (r)
        return r;
    const td_tensor *const all[] = {offsets, lengths};
    for (int i = 0; i < 2 && all[i]; i++)
        if (all[i]->ndim != 1 || td_dtype_is_floating((td_dtype)all[i]->dtype) || all[i]->dtype == TD_BOOL)
            return td_fail(TD_E_RUNTIME, "nested tensors: %s are a vector of integers", i ? "lengths" : "offsets");
    const int64_t n = lengths ? lengths->numel : offsets->numel - 1;
    if (n < 0 || offsets->numel < n)
        return td_fail(TD_E_RUNTIME, "nested tensors: there are %" PRId64 " offsets, and %" PRId64 " lengths", offsets->numel, n);
    TD_AUTO td_tensor *starts = on_host(offsets), *counts = lengths ? on_host(lengths) : td_ref(TD_NONE);
    if (!starts || !counts)
        return NULL;
    td_tensor *const own_offsets = part(offsets), *const own_lengths = lengths ? part(lengths) : NULL;
    r = own_offsets && (own_lengths || !lengths) ? ragged_new(own_offsets, own_lengths, n) : NULL;
    if (!r)
        return NULL;
    const int64_t *from = (const int64_t *)starts->data, *of = lengths ? (const int64_t *)counts->data : NULL;
    for (int64_t i = 0; i < n; i++) {
        r->starts[i] = from[i];
        r->counts[i] = of ? of[i] : from[i + 1] - from[i];
        if (from[i] < 0 || r->counts[i] < 0) {
            td_fail(TD_E_RUNTIME, "nested tensors: component %" PRId64 " begins at %" PRId64 " and has a length of %" PRId64, i, from[i], r->counts[i]);
            ragged_free(r);
            return NULL;
        }
    }
    return settled(r);
}

td_ragged *td_ragged_of_counts(int64_t n, const int64_t *counts, td_device device)
{
    TD_AUTO td_tensor *offsets = td_empty(1, (int64_t[]){n + 1}, TD_I64);
    if (!offsets)
        return NULL;
    int64_t *at = (int64_t *)offsets->data, sum = 0;
    for (int64_t i = 0; i <= n; sum += i < n ? counts[i] : 0, i++)
        at[i] = sum;
    td_tensor *there = device.type <= TD_CPU ? td_ref(offsets) : td__to_copy(offsets, TD_DTYPE_NONE, device, false, TD_MEMORY_FORMAT_NONE);
    td_ragged *r = there ? ragged_new(there, NULL, n) : NULL;
    if (!r)
        return NULL;
    memcpy(r->starts, at, sizeof *at * (size_t)n);
    if (n)
        memcpy(r->counts, counts, sizeof *counts * (size_t)n);
    return settled(r);
}

/* That whose symbol a size is; NULL with an error if no tensor of it lives. */
static td_ragged *of_symbol(int64_t size)
{
    pthread_mutex_lock(&lock);
    td_ragged *r = living;
    while (r && r->size != size)
        r = r->next;
    if (r)
        td_ragged_retain(r);
    pthread_mutex_unlock(&lock);
    return r ? r : td_fail(TD_E_RUNTIME, "nested tensors: no tensor lives whose ragged dimension that size is");
}

td_tensor *td_op__jagged_zeros(int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    int64_t inner[TD_MAX_DIMS], rows = 0;
    int dim = 0;
    for (int d = 1; d < n && d < TD_MAX_DIMS && !dim; d++)
        dim = td_size_is_symbol(size[d]) ? d : 0;
    td_ragged *r = dim && n < TD_MAX_DIMS ? of_symbol(size[dim]) : td_fail(TD_E_RUNTIME, "_jagged_zeros: no size is that of a ragged dimension");
    if (!r)
        return NULL;
    for (int64_t i = 0; i < r->n; i++)
        rows = r->starts[i] + r->counts[i] > rows ? r->starts[i] + r->counts[i] : rows;
    for (int d = 1; d < n; d++)
        inner[d - 1] = d == dim ? rows : size[d];
    TD_AUTO td_tensor *values = td_zeros(n - 1, inner, dtype, device);
    td_tensor *x = td_jagged_new(values, r, dim);
    td_ragged_release(r);
    return x;
}

/* ---- tensors */

static void destroy(void *fields)
{
    td_nested *n = fields;
    td_ragged_release(n->ragged);
    td_tensor_release(n->values);
    td_tensor_release(n->sizes);
    td_mem_free(n, sizeof *n);
}

static int64_t numel(const void *fields)
{
    const td_nested *n = fields;
    int64_t rows = 0, packed = n->ragged ? n->values->sizes[n->dim - 1] : 0;
    if (!n->ragged || !n->ragged->lengths || !packed)
        return n->values->numel;
    for (int64_t i = 0; i < n->ragged->n; i++)
        rows += n->ragged->counts[i];
    return n->values->numel / packed * rows;
}

static int strided_layout(void)
{
    static int number;
    if (!number)
        number = td_layout_find("nested");
    return number;
}

td_tensor *td_jagged_new(td_tensor *values, td_ragged *ragged, int dim)
{
    int64_t sizes[TD_MAX_DIMS];
    if (!values || !ragged)
        return NULL;
    if (dim < 1 || dim > values->ndim || values->ndim >= TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "nested tensors: the ragged dimension of values with %d dimensions can't be %d", values->ndim, dim);
    sizes[0] = ragged->n;
    for (int d = 1; d <= values->ndim; d++)
        sizes[d] = d == dim ? ragged->size : values->sizes[d - 1];
    td_nested *n = td_mem_alloc(sizeof *n);
    if (!n)
        return NULL;
    *n = (td_nested){.ragged = td_ragged_retain(ragged), .dim = dim, .values = part(values), .size = ragged->size};
    td_tensor *x = n->values ? td_tensor_with_layout(TD_JAGGED, n, values->ndim + 1, sizes, (td_dtype)values->dtype, values->device) : NULL;
    if (!x) {
        destroy(n);
        return NULL;
    }
    enum { MOST = 1 << 20 };
    memcpy(x->strides + 1, values->strides, sizeof *x->strides * values->ndim);
    const int64_t step = x->strides[dim];           /* between components: as many of these as the component has rows */
    x->strides[0] = step > 0 && step < MOST ? td_symbol(td_symbol_id(ragged->size), step) : 0;
    return x;
}

/* Where all components have one size it is that; elsewhere symbol 0. */
td_tensor *td_nested_new(td_tensor *buffer, td_tensor *sizes)
{
    int64_t outer[TD_MAX_DIMS + 1];
    if (!buffer || !sizes)
        return NULL;
    if (buffer->ndim != 1 || sizes->ndim != 2 || sizes->dtype != TD_I64 || !(sizes->flags & TD_FLAG_CONTIGUOUS) || sizes->device.type != TD_CPU ||
        sizes->sizes[1] >= TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "nested tensors: a buffer has one dimension, and sizes are a contiguous matrix of int64 on the CPU");
    const int64_t count = sizes->sizes[0];
    const int ndim = (int)sizes->sizes[1];
    const int64_t *rows = (const int64_t *)sizes->data;
    int64_t total = 0;
    outer[0] = count;
    for (int d = 0; d < ndim; d++)
        outer[d + 1] = count ? rows[d] : 0;
    for (int64_t i = 0; i < count; i++) {
        const int64_t size = td_check_sizes(ndim, rows + i * ndim) ? -1 : td_numel_checked(ndim, rows + i * ndim);
        if (size < 0 || __builtin_add_overflow(total, size, &total))
            return NULL;
        for (int d = 0; d < ndim; d++)
            if (rows[i * ndim + d] != outer[d + 1])
                outer[d + 1] = td_symbol(0, 1);
    }
    if (total != buffer->numel)
        return td_fail(TD_E_RUNTIME, "nested tensors: the components have %" PRId64 " elements, the buffer has %" PRId64, total, buffer->numel);
    td_nested *n = td_mem_alloc(sizeof *n);
    if (!n)
        return NULL;
    *n = (td_nested){.values = part(buffer), .sizes = part(sizes)};
    td_tensor *x = n->values && n->sizes ? td_tensor_with_layout(strided_layout(), n, ndim + 1, outer, (td_dtype)buffer->dtype,
                                                                  buffer->device) : NULL;
    if (!x)
        destroy(n);
    return x;
}

/* ---- what the operators that lead to values and back do */

td_tensor *td_op__nested_values(td_tensor *self, td_tensor *like)
{
    (void)like;
    return td_is_nested(self) ? td_alias_detached(td_nested_of(self)->values, false) : td_layout_refuse("_nested_values", self);
}

td_tensor *td_op__nested_with(td_tensor *values, td_tensor *like, int64_t ragged_idx)
{
    if (!td_is_nested(like) || td_has_layout(values))
        return td_layout_refuse("_nested_with", td_is_nested(like) ? values : like);
    const td_nested *n = td_nested_of(like);
    if (!n->ragged) {
        TD_AUTO td_tensor *flat = values->ndim == 1 && values->flags & TD_FLAG_CONTIGUOUS ? td_ref(values) : td_reshape(values, 1, (int64_t[]){-1});
        return td_nested_new(flat, n->sizes);
    }
    const int dim = ragged_idx < 0 ? n->dim : (int)ragged_idx;
    if (dim > values->ndim || values->sizes[dim - 1] != n->values->sizes[n->dim - 1])
        return td_fail(TD_E_RUNTIME, "_nested_with: the values have another number of rows than those of the structure");
    return td_jagged_new(values, n->ragged, dim);
}

td_tensor *td_op__nested_of_jagged(td_tensor *values, td_tensor *offsets, td_tensor *lengths, int64_t ragged_idx, const int64_t *min_seqlen,
                                   const int64_t *max_seqlen)
{
    td_ragged *r = td_ragged_of(offsets, td_is_some(lengths) ? lengths : NULL);
    if (!r)
        return NULL;
    r->shown_shortest |= min_seqlen != NULL;
    r->shown_longest |= max_seqlen != NULL;
    td_tensor *x = td_jagged_new(values, r, (int)ragged_idx);
    td_ragged_release(r);
    return x;
}

td_tensor *td_op__nested_of_sizes(td_tensor *buffer, td_tensor *sizes) { return td_nested_new(buffer, sizes); }

/* ---- the kinds */

static int jagged_parts(const td_tensor *x, td_layout_part *parts)
{
    const td_nested *n = td_nested_of(x);
    int count = 0;
    parts[count++] = (td_layout_part){.name = "values", .tensor = n->values, .values = true};
    parts[count++] = (td_layout_part){.name = "offsets", .tensor = n->ragged->offsets};
    parts[count++] = (td_layout_part){.name = "ragged_idx", .number = n->dim};
    if (n->ragged->lengths)
        parts[count++] = (td_layout_part){.name = "lengths", .tensor = n->ragged->lengths};
    return count;
}

static td_tensor *jagged_from_parts(int layout, int64_t ndim, const int64_t *sizes, int n, const td_layout_part *parts)
{
    (void)layout, (void)ndim, (void)sizes;
    if (n < 3 || n > 4 || !parts[0].tensor || !parts[1].tensor || (n == 4 && !parts[3].tensor))
        return td_fail(TD_E_VALUE, "a jagged tensor is made of values, offsets, the ragged dimension and perhaps lengths");
    td_ragged *r = td_ragged_of(parts[1].tensor, n == 4 ? parts[3].tensor : NULL);
    td_tensor *x = r ? td_jagged_new(parts[0].tensor, r, (int)parts[2].number) : NULL;
    td_ragged_release(r);
    return x;
}

static int strided_parts(const td_tensor *x, td_layout_part *parts)
{
    const td_nested *n = td_nested_of(x);
    parts[0] = (td_layout_part){.name = "values", .tensor = n->values, .values = true};
    parts[1] = (td_layout_part){.name = "sizes", .tensor = n->sizes};
    return 2;
}

static td_tensor *strided_from_parts(int layout, int64_t ndim, const int64_t *sizes, int n, const td_layout_part *parts)
{
    (void)layout, (void)ndim, (void)sizes;
    return n == 2 && parts[0].tensor && parts[1].tensor ? td_nested_new(parts[0].tensor, parts[1].tensor)
                                                        : td_fail(TD_E_VALUE, "a nested tensor is made of a buffer and sizes");
}

static bool contiguous(const void *fields)
{
    const td_nested *n = fields;
    return !n->ragged || (!n->ragged->lengths && n->dim == 1 && n->values->flags & TD_FLAG_CONTIGUOUS);
}

/* "NestedTensor(size=(2, j1, 4), offsets=tensor([0, 3, 8]), contiguous=True)" */
static int print_jagged(td_tensor *x, const char *suffix, void (*put)(void *to, const char *text), void *to)
{
    td_shape_text sizes;
    char *offsets = td_tensor_str(td_nested_of(x)->ragged->offsets), *shape = (char *)td_shape_str(x->ndim, x->sizes, sizes);
    if (!offsets)
        return -1;
    shape[0] = '(', shape[strlen(shape) - 1] = ')';
    const char *const texts[] = {"NestedTensor(size=", shape, ", offsets=", offsets, *suffix ? ", " : "", suffix, ", contiguous=",
                                 contiguous(td_nested_of(x)) ? "True)" : "False)"};
    for (size_t i = 0; i < TD_COUNT(texts); i++)
        put(to, texts[i]);
    td_string_free(offsets);
    return 0;
}

/* The components, a line each, or several, each of which is indented. */
static int print_strided(td_tensor *x, const char *suffix, void (*put)(void *to, const char *text), void *to)
{
    td_tensor_list list = {0};
    TD_AUTO td_tensor *plain = td_alias_detached(x, false);
    if (!plain || td_nested_components(&list, plain))
        return -1;
    int status = 0;
    put(to, "nested_tensor([\n");
    for (int64_t i = 0; i < list.count && status == 0; i++) {
        if (*suffix)
            status = td_set_requires_grad(list.items[i], true);
        char *text = status == 0 ? td_tensor_str(list.items[i]) : NULL;
        status = text ? 0 : -1;
        for (char *line = text, *end; line; line = end ? end + 1 : NULL) {
            end = strchr(line, '\n');
            if (end)
                *end = 0;
            put(to, *line ? "  " : ""), put(to, line), put(to, end ? "\n" : "");
        }
        td_string_free(text);
        put(to, i + 1 < list.count ? ",\n" : "");
    }
    td_tensor_list_release(&list);
    put(to, "\n]"), put(to, *suffix ? ", " : ""), put(to, suffix), put(to, ")");
    return status;
}

static td_tensor *to_dense(td_tensor *x) { return td_to_padded_tensor(x, 0., 0, NULL); }

const td_layout_kind td_jagged_kind = {
    .size = sizeof(td_layout_kind), .name = "jagged", .title = "NestedTensor", .flags = TD_LAYOUT_BY_PARTS, .destroy = destroy, .to_dense = to_dense,
    .parts = jagged_parts, .from_parts = jagged_from_parts, .numel = numel, .contiguous = contiguous,
    .print = print_jagged,
};
const td_layout_kind td_nested_kind = {
    .size = sizeof(td_layout_kind), .name = "nested", .title = "NestedTensor", .family = "jagged", .flags = TD_LAYOUT_BY_PARTS | TD_LAYOUT_SHOWN_STRIDED,
    .destroy = destroy, .to_dense = to_dense, .parts = strided_parts, .from_parts = strided_from_parts, .numel = numel, .contiguous = contiguous,
    .print = print_strided,
};
