/* The operator registry, by name, and the slow path of dispatch.
 *
 * Rows live in the generated chunks; here they are joined into a list and a hash table by registered name, once. */
#include "base/once.h"
#include "dispatch/op.h"
#include "dispatch/outputs.h"
#include "dispatch/writes.h"
#include "tensor/device.h"
#include "tensor/layout.h"

#include <pthread.h>
#include <tede/library.h>
#include <stdio.h>
#include <stdlib.h>

_Thread_local td_thread_state td_masks_now __attribute__((tls_model("initial-exec")));

static struct {
    td_op  **rows;            /* in table order */
    int      count, capacity;
    td_op  **buckets;
    unsigned n_buckets;
    td_boxed_entry *fallbacks[TD_SLOTS];
} table;
static td_once         table_once;
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;

/* FNV-1a of "name.overload"; the table is open addressing with linear probing, half full at most. */
static unsigned hash_name(const char *name, const char *overload)
{
    unsigned h = 2166136261u;
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 16777619u;
    h = (h ^ '.') * 16777619u;
    for (; *overload; overload++)
        h = (h ^ (unsigned char)*overload) * 16777619u;
    return h;
}

/* The table is made of the process's own memory, not of the library's seam: it is never freed, and making it must
 * not fail half way. */
static int build_table(void)
{
    int count = 0;
    for (int c = 0; c < td_op_chunk_count; c++)
        count += *td_op_chunks[c].count;
    unsigned n_buckets = 64;
    while (n_buckets < 2u * (unsigned)count)
        n_buckets *= 2;
    td_op **rows = malloc((size_t)count * sizeof *rows), **buckets = calloc(n_buckets, sizeof *buckets);
    if (!rows || !buckets) {
        free(rows), free(buckets);
        return td_error(TD_E_MEMORY, "no memory for the table of operators");
    }
    for (int c = 0; c < td_op_chunk_count; c++)
        for (int i = 0; i < *td_op_chunks[c].count; i++) {
            td_op *op = td_op_chunks[c].rows[i];
            rows[table.count++] = op;
            unsigned b = hash_name(op->info.name, op->info.overload) & (n_buckets - 1);
            while (buckets[b])
                b = (b + 1) & (n_buckets - 1);
            buckets[b] = op;
        }
    table.rows = rows, table.buckets = buckets, table.n_buckets = n_buckets;
    return 0;
}

int td_op_count(void)
{
    return (td_once_run(&table_once, build_table) == 0 ? table.count : 0) + td_defined_count();
}

const td_op *td_op_at(int index)
{
    if (index < 0 || index >= td_op_count())
        return NULL;
    return index < table.count ? table.rows[index] : td_defined_at(index - table.count);
}

const td_op *td_op_find_parts(const char *space, size_t space_length, const char *name, const char *overload)
{
    if (!td_op_count() || !table.buckets)
        return NULL;
    if (space_length != 4 || strncmp(space, "aten", 4))
        return td_defined_find(space, space_length, name, overload);
    for (unsigned b = hash_name(name, overload);; b++) {
        const td_op *op = table.buckets[b & (table.n_buckets - 1)];
        if (!op)
            return td_defined_find("aten", 4, name, overload);
        if (!strcmp(op->info.name, name) && !strcmp(op->info.overload, overload))
            return op;
    }
}

/* "space::name.overload"; without a space it is aten's. Built-in rows are looked up first, then those defined at run
 * time. */
const td_op *td_op_find(const char *name)
{
    const char *colon = strstr(name, "::");
    const char *space = colon ? name : "aten";
    size_t space_length = colon ? (size_t)(colon - name) : 4;
    name = colon ? colon + 2 : name;
    const char *dot = strchr(name, '.');
    char short_name[96];
    size_t length = dot ? (size_t)(dot - name) : strlen(name);
    const char *overload = dot ? dot + 1 : "";
    bool fits = length < sizeof short_name;
    char *plain = fits ? short_name : td_mem_alloc(length + 1);
    if (!plain)
        return NULL;
    memcpy(plain, name, length), plain[length] = 0;
    const td_op *found = td_op_find_parts(space, space_length, plain, overload);
    if (!fits)
        td_mem_free(plain, length + 1);
    return found;
}

int td_argument_named(const td_op_info *info, const char *name)
{
    for (int i = 0; i < info->n_arguments; i++)
        if (!strcmp(info->arguments[i].name, name))
            return i;
    return -1;
}

const td_op_info *td_op_describe(const td_op *op) { return &op->info; }

/* ---- masks */

td_masks td_thread_masks(void) { return (td_masks){td_masks_now.include, td_masks_now.exclude}; }
void td_set_thread_masks(td_masks masks)
{
    td_masks_now.include = masks.include;
    td_masks_now.exclude = masks.exclude;
}
td_keyset td_tensor_keys(const td_tensor *x) { return x->keys; }
bool td_is_plain(const td_tensor *x) { return td_mask(x->keys) < TD_KEYSET(TD_KEY_AROUND); }

/* ---- picking */

static const char *slot_title(int slot, char *buffer, size_t size)
{
    static const char *const around[] = {"Python", "Unwrap", "Unaligned", "Negative", "Conjugate", "Autograd", "ForwardAD", "Parts", "Profiler",
                                         "Tracing", "Autocast", "Functionalize", "Transforms", "Promotion"};
    static const char *const devices[] = {"CPU", "Meta", "CUDA", "OpenCL"};
    if (slot < 16) {
        snprintf(buffer, size, "%s", slot < TD_COUNT(around) ? around[slot] : "?");
    } else {
        int device = (slot - 16) % TD_DEVICE_TYPES, layout = (slot - 16) / TD_DEVICE_TYPES;
        const char *own = td_device_name(device);
        snprintf(buffer, size, "%s%s", td_layout_title(layout), device < TD_COUNT(devices) ? devices[device] : own ? own : "PrivateUse");
    }
    return buffer;
}

const char *td_backend_title(td_keyset keys, char *buffer, size_t size)
{
    return slot_title(td_top_slot(keys & (TD_KEYSET(TD_KEY_DTYPE) - 1)), buffer, size);
}

static bool has_boxed(const td_op *op, int slot)
{
    td_boxed_entry **boxed = __atomic_load_n(&op->boxed, __ATOMIC_ACQUIRE);
    const td_boxed_entry *entry = boxed ? __atomic_load_n(&boxed[slot], __ATOMIC_ACQUIRE) : NULL;
    return entry && entry->kernel;
}
bool td_op_has_default(const td_op *op) { return has_boxed(op, TD_SLOTS); }
static bool has_fallback(int slot)
{
    const td_boxed_entry *entry = __atomic_load_n(&table.fallbacks[slot], __ATOMIC_ACQUIRE);
    return entry && entry->kernel;
}

/* The unboxed kernel of a slot of td_key_slot's. */
static td_kernel own_kernel(const td_op *op, int slot)
{
    if (slot < TD_ROW_SLOTS - 1)
        return __atomic_load_n(&op->kernels[slot], __ATOMIC_ACQUIRE);
    td_kernel *layouts = __atomic_load_n(&op->layouts, __ATOMIC_ACQUIRE);
    td_kernel kernel = layouts ? __atomic_load_n(&layouts[slot], __ATOMIC_ACQUIRE) : NULL;
    for (const td_layout_kernel *of = kernel ? NULL : op->of_layouts; of && of->key; of++)
        if (of->pattern == TD_LAYOUT_KERNEL_ANYWHERE ? slot - (slot - 16) % TD_DEVICE_TYPES == td_key_slot(of->key, 0)
            : of->pattern == TD_LAYOUT_KERNEL && (of->key == TD_KEY_DENSE ? slot < td_key_slot(TD_KEY_DTYPE, 0) : slot == td_key_slot(of->key, TD_CPU)))
            return of->kernel;
    return kernel;
}

static bool layout_records(td_keyset keys)
{
    const td_keyset layouts = keys & TD_KEYS_LAYOUTS;
    const td_layout_kind *kind = layouts ? td_layout_of_key(63 - __builtin_clzll(layouts)) : NULL;
    return kind && kind->flags & TD_LAYOUT_RECORDS;
}

/* Whether the device-neutral body makes of late operands what the CPU's kernel makes of others, by calls. */
static bool is_same_late(const td_op *op)
{
    const uint32_t flags = op->info.flags;
    return flags & (TD_OP_VIEW | TD_OP_FACTORY) || (flags & TD_OP_ANY_DEVICE && !(flags & TD_OP_DATA_DEPENDENT)) ||
           (!(flags & TD_OP_INPLACE_VIEW) && (!op->kernels[TD_SLOT_CPU] || op->kernels[TD_SLOT_CPU] == op->composite));
}

td_kernel td_pick_slow(const td_op *op, td_keyset *keys)
{
    for (;;) {
        int slot = td_top_slot(*keys);
        /* Of another layout on meta: kernels and bodies read the parts, which have no elements there. */
        if (slot >= TD_ROW_SLOTS - 1 && (slot - 16) % TD_DEVICE_TYPES == TD_META && has_fallback(slot) && !(op->info.flags & TD_OP_DETACHES))
            return op->from_boxed;
        td_kernel kernel = own_kernel(op, slot);
        if (kernel)
            return kernel;
        if (has_boxed(op, slot))
            return op->from_boxed;
        if (*keys < TD_KEYSET(TD_KEY_AROUND) && *keys & TD_KEYSET(TD_KEY_DTYPE)) {
            /* What needs no specific loop for a format or a dtype from outside goes on without that key. */
            const td_op_traits *traits = op->info.traits;
            if (has_fallback(slot) || traits->moved | traits->widened || op->info.flags & TD_OP_POINTWISE ||
                !(op->info.flags & TD_OPS_OF_ANY_DTYPE))
                return op->from_boxed;
            *keys &= ~TD_KEYSET(TD_KEY_DTYPE);
            continue;
        }
        if (td_layout_pattern_of(op, slot))
            return op->from_boxed;
        /* The short cut that a layout's registration took away (td_op_set_boxed): the parts record, and have tangents. */
        if ((slot == TD_SLOT_AUTOGRAD || slot == TD_SLOT_FORWARD) && op->composite && op->info.flags & TD_OP_COMPOSITE &&
            !__atomic_load_n(&op->kernels[TD_SLOT_AUTOGRAD], __ATOMIC_ACQUIRE) && !layout_records(*keys))
            return op->composite;
        /* On a device from outside, a body that only calls others, or only looks at sizes and strides, is better than a
         * fallback for everything.  In a layout only calls mean the same. */
        const td_layout_kind *kind = slot < TD_ROW_SLOTS - 1 ? NULL : td_layout_of_key(TD_KEY_DENSE + (slot - 16) / TD_DEVICE_TYPES);
        const bool strided = slot < TD_ROW_SLOTS - 1 || (kind && kind->flags & TD_LAYOUT_STRIDES);
        const bool outside = slot >= 16 && slot != TD_SLOT_CPU && slot != TD_SLOT_META;
        const uint32_t neutral = TD_OP_COMPOSITE | (strided ? TD_OP_VIEW | TD_OP_INPLACE_VIEW : 0) | (kind ? 0 : TD_OP_ANY_DEVICE);
        /* Of the views, detach alone means the same in any layout: the layout's own alias. */
        if (!strided && op->composite && op->info.flags & TD_OP_DETACHES)
            return op->composite;
        if (outside && op->composite && op->info.flags & neutral && (strided || !(op->info.flags & TD_OP_VIEW)) &&
            (slot != TD_SLOT_LATE || is_same_late(op)))
            return op->composite;
        if (has_fallback(slot))
            return op->from_boxed;
        if (slot >= 16) {
            if (op->composite && !outside && !(slot == TD_SLOT_META && op->info.flags & TD_OP_DATA_DEPENDENT))
                return op->composite;
            if (has_boxed(op, TD_SLOTS))
                return op->from_boxed;
            td_device device = {(int8_t)((slot - 16) % TD_DEVICE_TYPES), -1};
            if (device.type > TD_META && !td_device_of(device.type)) {        /* its first use loads it; a layout may be on the CPU */
                if (td_device_resolve(&device))
                    return NULL;
                continue;
            }
            char where[32];
            const char *space = op->info.space ? op->info.space : "aten";
            if (slot == TD_SLOT_META && op->info.flags & TD_OP_DATA_DEPENDENT)
                td_fail(TD_E_NOT_IMPLEMENTED, "aten::%s: attempted to run this operator with Meta tensors, but its result's "
                        "shape depends on data; there was no meta kernel registered", op->info.name);
            else if (slot == TD_SLOT_META && op->info.space)
                td_fail(TD_E_NOT_IMPLEMENTED, "%s.%s.%s: attempted to run this operator with Meta tensors, but there was no fake impl or "
                        "Meta kernel registered. Give it one by torch.library.register_fake.", space, op->info.name,
                        *op->info.overload ? op->info.overload : "default");
            else
                td_fail(TD_E_NOT_IMPLEMENTED, "Could not run '%s::%s%s%s' with arguments from the '%s' backend.",
                        space, op->info.name, *op->info.overload ? "." : "", op->info.overload, slot_title(slot, where, sizeof where));
            return NULL;
        }
        *keys &= ~TD_KEYSET(slot + TD_KEY_AROUND);   /* nothing to say: the next key */
    }
}

void *td_null_argument(const char *op, const char *argument)
{
    if (td_error_code() == TD_OK)
        td_fail(TD_E_RUNTIME, "%s: Expected a proper Tensor but got None (or an undefined Tensor, NULL in C) for argument '%s'", op, argument);
    return NULL;
}

/* ---- boxed calls */

/* The tensors of an argument that the operator writes; n: how many. */
static td_tensor *const *written_tensors(const td_op *op, int index, const td_value *v, int64_t *n)
{
    const bool list = v->kind == TD_VALUE_TENSORS;
    *n = !op->info.arguments[index].is_mutable ? 0 : list ? v->count : v->kind == TD_VALUE_TENSOR;
    return list ? v->tensors : &v->tensor;
}

/* Whether an out= form's kernel on the Autograd key comes next: it refuses operands that need a gradient before anything else, and
 * what it calls then checks what is written. */
static bool checks_later(const td_op *op, td_keyset keys)
{
    td_kernel records = op->kernels[TD_SLOT_AUTOGRAD];
    return op->info.flags & TD_OP_OUT && keys & TD_KEYSET(TD_KEY_AUTOGRAD) && records && records != op->composite;
}

static int check_writable(const td_op *op, const td_value *arguments)
{
    const bool reshapes = op->info.flags & TD_OP_INPLACE_VIEW;         /* which what is read-only may be */
    const bool parts_check = op->info.flags & TD_OP_COUNTS_WRITES;      /* it may write nothing */
    if (reshapes && parts_check)
        return 0;
    for (int i = 0; i < op->info.n_arguments; i++) {
        int64_t n;
        td_tensor *const *written = written_tensors(op, i, &arguments[i], &n);
        for (int64_t k = 0; k < n; k++) {
            if (!reshapes && td_readonly(written[k]))
                return td_fail_readonly(op->info.name, op->info.arguments[i].name, written[k]);
            if (!parts_check && td_check_sealed(written[k]))
                return -1;
        }
    }
    return 0;
}

int td_op_call_keys(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results)
{
    td_kernel kernel = td_pick(op, &keys);
    if (!kernel)
        return -1;
    const bool writes = op->info.flags & (TD_OP_INPLACE | TD_OP_OUT);
    if (writes && TD_LIKELY(!checks_later(op, keys)) && check_writable(op, arguments))
        return -1;
    const bool counts = writes && !(op->info.flags & TD_OP_COUNTS_WRITES) && td_is_backend(keys);
    enum { MARKS = 32 };        /* arguments behind those are counted whatever the body did */
    td_write_mark before[MARKS];
    int64_t n;
    for (int i = 0; counts && i < op->info.n_arguments && i < MARKS; i++) {
        td_tensor *const *written = written_tensors(op, i, &arguments[i], &n);
        before[i] = td_before_write(n, written);
    }
    /* A boxed kernel is passed the arguments as they are: C's functions take no layout and no pin_memory, which would be lost. */
    const bool boxed = !op->unbox || kernel == op->from_boxed;
    if (boxed ? td_call_boxed(op, keys, arguments, results) : op->unbox(kernel, keys, arguments, results))
        return -1;
    for (int i = 0; counts && i < op->info.n_arguments; i++) {
        td_tensor *const *written = written_tensors(op, i, &arguments[i], &n);
        td_wrote_since(i < MARKS ? before[i] : td_before_write(n, written), n, written, op->info.name);
    }
    return 0;
}

int td_op_call_composite(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results)
{
    if (!op->composite || !op->unbox)
        return td_error(TD_E_NOT_IMPLEMENTED, "%s is not made of other operators", op->info.name);
    return op->unbox(op->composite, keys, arguments, results);
}

int td_op_call(const td_op *op, const td_value *arguments, td_value *results)
{
    td_keyset keys = 0;
    for (int i = 0; i < op->info.n_arguments; i++) {
        const td_value *v = &arguments[i];
        const td_arg *a = &op->info.arguments[i];
        if (v->kind == TD_VALUE_TENSOR) {
            if (TD_UNLIKELY(!v->tensor))
                return td_null_argument(op->info.name, a->name), -1;
            keys |= v->tensor->keys;
        } else if (v->kind == TD_VALUE_TENSORS) {
            keys |= td_keys_of_list(v->count, v->tensors);
        } else if (v->kind == TD_VALUE_DEVICE && op->info.flags & TD_OP_FACTORY) {
            keys |= td_device_keys(v->device);
        } else if (v->kind == TD_VALUE_BOOLS && a->list_size && v->count != a->list_size) {
            /* which results are wanted: kernels index it */
            return td_error(TD_E_RUNTIME, "%s: %s: Tried to convert a List with %d elements to a fixed-size array of size %d", op->info.name,
                            a->name, v->count, a->list_size);
        }
    }
    return td_op_call_keys(op, td_mask(keys), arguments, results);
}

int td_call_boxed(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results)
{
    int slot = td_top_slot(keys);
    td_boxed_entry **boxed = __atomic_load_n(&op->boxed, __ATOMIC_ACQUIRE);
    const td_boxed_entry *entry = boxed ? __atomic_load_n(&boxed[slot], __ATOMIC_ACQUIRE) : NULL;
    const td_layout_kernel *pattern = !entry || !entry->kernel ? td_layout_pattern_of(op, slot) : NULL;
    if (pattern)
        return td_call_by_pattern(op, pattern, arguments, results);
    if (!entry || !entry->kernel)
        entry = __atomic_load_n(&table.fallbacks[slot], __ATOMIC_ACQUIRE);
    if ((!entry || !entry->kernel) && keys < TD_KEYSET(TD_KEY_AROUND) && keys & TD_KEYSET(TD_KEY_DTYPE))
        return td_call_with_formats(op, keys, arguments, results);
    if ((!entry || !entry->kernel) && boxed)
        entry = __atomic_load_n(&boxed[TD_SLOTS], __ATOMIC_ACQUIRE);
    if (!entry || !entry->kernel) {
        /* Taken away since the call picked it: what is there now? */
        td_kernel kernel = op->unbox ? td_pick(op, &keys) : NULL;
        if (kernel && kernel != op->from_boxed)
            return op->unbox(kernel, keys, arguments, results);
        return td_error(TD_E_RUNTIME, "%s: the boxed kernel was taken away during the call", op->info.name);
    }
    return entry->kernel(op, keys, arguments, results, entry->context);
}

void td_values_release(td_value *values, int count)
{
    for (int i = 0; i < count; i++) {
        if (values[i].kind == TD_VALUE_TENSOR) {
            td_tensor_release(values[i].tensor);
        } else if (values[i].kind == TD_VALUE_TENSORS) {
            td_tensor_list list = {values[i].count, (td_tensor **)values[i].tensors};
            td_tensor_list_release(&list);
        }
        values[i] = (td_value){0};
    }
}

/* ---- registration */

static int find_slot(const char *name, td_key key, int device, td_op **op, int *slot)
{
    if (key < TD_KEY_DENSE || key >= TD_KEYS || device < 0 || device >= TD_DEVICE_TYPES)
        return td_error(TD_E_VALUE, "no slot for key %d and device %d", (int)key, device);
    *slot = td_key_slot(key, device);
    if (name && !(*op = (td_op *)td_op_find(name)))
        return td_error(TD_E_VALUE, "no operator is named '%s'", name);
    return 0;
}

/* The address of a slot's unboxed kernel, made if need be.  The table is the process's own memory: rows are never freed. */
static td_kernel *place_of(td_op *op, int slot)
{
    if (slot < TD_ROW_SLOTS - 1)
        return &op->kernels[slot];
    if (!op->layouts) {
        td_kernel *layouts = calloc(TD_SLOTS, sizeof *layouts);
        if (!layouts)
            return td_fail(TD_E_MEMORY, "no memory to register a kernel for '%s'", op->info.name);
        __atomic_store_n(&op->layouts, layouts, __ATOMIC_RELEASE);
    }
    return &op->layouts[slot];
}

int td_op_set_kernel(td_op *op, int slot, td_kernel kernel)
{
    pthread_mutex_lock(&table_lock);
    td_kernel *place = place_of(op, slot);
    if (place)
        __atomic_store_n(place, kernel, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&table_lock);
    return place ? 0 : -1;
}

int td_register_kernel(const char *name, td_key key, int device, td_kernel kernel)
{
    td_op *op = NULL;
    int slot = 0;
    if (td_library_check() || find_slot(name, key, device, &op, &slot))
        return -1;
    if (kernel && !op->unbox)
        return td_error(TD_E_VALUE, "'%s' was defined by its schema: it takes boxed kernels only", name);
    return td_op_set_kernel(op, slot, kernel);
}

/* Publishes a new record in a list of records; see Note [Registering while others call]. */
static int show(td_boxed_entry **place, td_boxed_kernel *kernel, void *context, td_kernel below)
{
    if (!*place && !kernel)
        return 0;
    td_boxed_entry *entry = malloc(sizeof *entry);
    if (!entry)
        return td_error(TD_E_MEMORY, "no memory to register a kernel");
    const td_boxed_entry *now = *place;
    *entry = (td_boxed_entry){kernel, context, kernel ? below : NULL, now && now->kernel ? now : NULL, *place};
    __atomic_store_n(place, entry, __ATOMIC_RELEASE);
    return 0;
}

int td_op_set_boxed(td_op *op, int slot, td_boxed_kernel *kernel, void *context)
{
    int status = -1;
    pthread_mutex_lock(&table_lock);
    td_kernel *place = slot < TD_SLOTS ? place_of(op, slot) : NULL;
    if (!op->boxed) {
        td_boxed_entry **boxed = calloc(TD_SLOTS + 1, sizeof *boxed);
        if (boxed)
            __atomic_store_n(&op->boxed, boxed, __ATOMIC_RELEASE);
        else
            td_error(TD_E_MEMORY, "no memory to register a kernel for '%s'", op->info.name);
    }
    if (op->boxed && (place || slot == TD_SLOTS)) {
        /* Taken away again, it uncovers the boxed one that was there before it, or the kernel before the first of these. */
        const td_boxed_entry *now = op->boxed[slot], *under = kernel || !now || !now->kernel ? NULL : now->under;
        bool covers = now && now->kernel;
        td_kernel below = covers ? now->below : place ? *place : NULL;
        if (under) {
            kernel = under->kernel;
            context = under->context;
        }
        status = show(&op->boxed[slot], kernel, context, below);
        if (under && status == 0)
            op->boxed[slot]->under = under->under;
        if (status == 0 && place && (kernel || covers))
            __atomic_store_n(place, kernel ? op->from_boxed : below, __ATOMIC_RELEASE);
        /* The body of an operator that is made of others stands at Autograd as a short cut: there the layout is looked at from now on. */
        const bool of_layout = slot >= td_key_slot(TD_KEY_DENSE + 1, 0) && slot < TD_SLOTS;
        for (int around = TD_SLOT_AUTOGRAD; of_layout && op->composite && around <= TD_SLOT_FORWARD; around++)
            if (op->kernels[around] == op->composite && layout_records(TD_KEYSET(TD_KEY_DENSE + (slot - 16) / TD_DEVICE_TYPES)))
                __atomic_store_n(&op->kernels[around], NULL, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&table_lock);
    return status;
}

int td_register_boxed(const char *name, td_key key, int device, td_boxed_kernel *kernel, void *context)
{
    td_op *op = NULL;
    int slot = 0;
    return td_library_check() || find_slot(name, key, device, &op, &slot) ? -1 : td_op_set_boxed(op, slot, kernel, context);
}

int td_register_default(const char *name, td_boxed_kernel *kernel, void *context)
{
    if (td_library_check())
        return -1;
    td_op *op = (td_op *)td_op_find(name);
    return op ? td_op_set_boxed(op, TD_SLOTS, kernel, context) : td_error(TD_E_VALUE, "no operator is named '%s'", name);
}

bool td_op_has_kernel(const td_op *op, td_key key, int device)
{
    td_op *unused;
    int slot = 0;
    if (find_slot(NULL, key, device, &unused, &slot)) {
        td_error_clear();
        return false;
    }
    return own_kernel(op, slot) != NULL;
}

int td_register_fallback(td_key key, int device, td_boxed_kernel *kernel, void *context)
{
    int slot = 0;
    if (find_slot(NULL, key, device, NULL, &slot))
        return -1;
    pthread_mutex_lock(&table_lock);
    int status = show(&table.fallbacks[slot], kernel, context, NULL);
    pthread_mutex_unlock(&table_lock);
    return status;
}

/* What a device has registered, if its start fails half way. */
void td_forget_device(int device)
{
    for (int i = 0; i < td_op_count(); i++) {
        td_op *op = (td_op *)td_op_at(i);
        if (op && op->structured)
            __atomic_store_n(&op->structured->impls[device], NULL, __ATOMIC_RELEASE);
        for (int layout = TD_KEY_DENSE; op && layout < TD_KEY_AROUND; layout++) {
            int slot = td_key_slot(layout, device);
            if (has_boxed(op, slot) && td_op_set_boxed(op, slot, NULL, NULL))
                td_error_clear();
            pthread_mutex_lock(&table_lock);
            if (slot < TD_ROW_SLOTS - 1 || op->layouts)
                __atomic_store_n(place_of(op, slot), NULL, __ATOMIC_RELEASE);
            pthread_mutex_unlock(&table_lock);
        }
    }
    for (int layout = TD_KEY_DENSE; layout < TD_KEY_AROUND; layout++)
        if (td_register_fallback(layout, device, NULL, NULL))
            td_error_clear();
}
