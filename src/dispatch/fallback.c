/* The CPU fallback of devices from outside: see <tede/device.h>; a tensor that isn't strided is copied by its parts.
 *
 * A tensor that is passed as several arguments is fetched once, so what is out and in at the same time stays so.
 * A result that is one of the copies is the argument itself (out=, in-place); any other goes to the device that
 * the call is on: what its device argument says, or where its first operand there lives. */
#include "calls_dispatch_fallback.h"
#include <tede/auto.h>
#include <tede/kernel.h>
#include <tede/layout.h>
#include "base/random.h"
#include "base/watch.h"
#include "dispatch/frame.h"
#include "dispatch/op.h"
#include "dispatch/spec.h"
#include "tensor/device.h"

static int64_t taken;

static void note(const td_op *op, td_device device, const char *why, int64_t bytes)
{
    __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
    TD_EMIT(.kind = TD_EVENT_FALLBACK, .op = op, .name = why, .numbers = {device.type, bytes});
}

int64_t td_cpu_fallback_count(void) { return __atomic_load_n(&taken, __ATOMIC_RELAXED); }

typedef struct pair { td_tensor *there, *here; bool written; } pair;

/* A call that is marshalled to the CPU.  Blocks of the lists and the pairs are one allocation. */
typedef struct marshalled_call {
    td_device   device;
    pair       *pairs;
    int         n_pairs;
    td_value   *values;
    td_tensor **members;
    size_t      bytes;          /* of that allocation */
    int64_t     copied;         /* bytes to the CPU */
} marshalled_call;

static bool is_there(const td_tensor *x) { return x && x != TD_NONE && td_is_outside(x->device); }

td_tensor *td_layout_on(td_tensor *x, td_device device)
{
    td_layout_part parts[TD_LAYOUT_PARTS];
    if (td_tensor_layout(x) == TD_STRIDED)
        return device.type == TD_CPU ? td_host_copy(x) : td_device_copy(x, device);
    const int n = td_layout_parts(x, parts);
    td_tensor *made[TD_LAYOUT_PARTS] = {NULL};
    bool good = n >= 0;
    for (int i = 0; i < n && good; i++)
        if (parts[i].tensor)
            good = (parts[i].tensor = made[i] = td_layout_on(parts[i].tensor, device)) != NULL;
    td_tensor *there = good ? td_layout_from_parts(x, n, parts) : NULL;
    for (int i = 0; i < n; i++)
        td_tensor_release(made[i]);
    return there;
}

static int64_t bytes_of(const td_tensor *x)
{
    td_layout_part parts[TD_LAYOUT_PARTS];
    int64_t bytes = 0;
    if (td_tensor_layout(x) == TD_STRIDED)
        return x->numel * (int64_t)td_itemsize(x);
    for (int i = 0, n = td_layout_parts(x, parts); i < n; i++)
        bytes += parts[i].tensor ? bytes_of(parts[i].tensor) : 0;
    return bytes;
}

/* Its copy on the CPU: borrowed from the marshalled call. */
static td_tensor *fetch(marshalled_call *t, td_tensor *x, bool written)
{
    if (!is_there(x))
        return x;
    for (int i = 0; i < t->n_pairs; i++)
        if (t->pairs[i].there == x) {
            t->pairs[i].written |= written;
            return t->pairs[i].here;
        }
    td_tensor *here = td_layout_on(x, (td_device){TD_CPU, -1});
    if (!here)
        return NULL;
    t->copied += bytes_of(here);
    t->pairs[t->n_pairs++] = (pair){x, here, written};
    return here;
}

/* One block holds pairs, values and list members. There is room for a pair per tensor of the call, so fetch()
 * never runs out. */
static int prepare(marshalled_call *t, const td_op *op, const td_value *arguments)
{
    const td_op_info *info = &op->info;
    size_t n = (size_t)info->n_arguments, tensors = 0;
    for (size_t i = 0; i < n; i++)
        tensors += (size_t)td_tensors_in(&arguments[i]);
    t->bytes = tensors * sizeof(pair) + n * sizeof(td_value) + tensors * sizeof(td_tensor *) + 1;
    t->pairs = td_mem_alloc(t->bytes);
    if (!t->pairs)
        return -1;
    t->values = (td_value *)(t->pairs + tensors);
    t->members = (td_tensor **)(t->values + n);
    t->device = TD_DEVICE_NONE;
    td_tensor **members = t->members;
    for (size_t i = 0; i < n; i++) {
        const td_value *v = &arguments[i];
        const bool written = info->arguments[i].is_mutable || info->arguments[i].is_updated;
        t->values[i] = *v;
        for (int k = 0; k < td_tensors_in(v); k++) {
            td_tensor *x = td_tensor_in(v, k);
            if (is_there(x) && t->device.type < 0)
                t->device = x->device;
            td_tensor *here = fetch(t, x, written);
            if (!here && x)
                return -1;
            if (v->kind == TD_VALUE_TENSOR)
                t->values[i].tensor = here;
            else
                members[k] = here;
        }
        if (v->kind == TD_VALUE_TENSORS) {
            t->values[i].tensors = members;
            members += v->count;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (arguments[i].kind == TD_VALUE_DEVICE && td_is_outside(arguments[i].device)) {
            t->device = arguments[i].device;
            t->values[i].device = (td_device){TD_CPU, -1};
        } else if (arguments[i].kind == TD_VALUE_DEVICE && arguments[i].device.type == TD_CPU) {
            t->device = arguments[i].device;
        }
    if (td_device_resolve(&t->device))
        return -1;
    return 0;
}

/* The device's tensor for one that the call gave: owned; takes over `here`. */
static td_tensor *send_back(marshalled_call *t, td_tensor *here)
{
    if (!here || here == TD_NONE || here->device.type != TD_CPU || t->device.type == TD_CPU)
        return here;
    td_tensor *there = NULL;
    for (int i = 0; i < t->n_pairs; i++)
        if (t->pairs[i].here == here)
            there = td_tensor_retain(t->pairs[i].there);
    if (!there)
        there = td_layout_on(here, t->device);
    td_tensor_release(here);
    return there;
}

/* What an operator wrote to a copy, at its new shape if it was resized. Copies that were only read are dropped. */
static int write_back(marshalled_call *t)
{
    for (int i = 0; i < t->n_pairs; i++) {
        pair *p = &t->pairs[i];
        if (!p->written)
            continue;
        if (td_tensor_layout(p->there) != TD_STRIDED) {
            TD_AUTO td_tensor *made = td_layout_on(p->here, p->there->device);
            if (!made || td_layout_take(p->there, made))
                return -1;
            continue;
        }
        const bool moved = p->here->ndim != p->there->ndim ||
                           memcmp(p->here->sizes, p->there->sizes, sizeof(int64_t) * p->here->ndim);
        if ((moved && td_resize(p->there, p->here->ndim, p->here->sizes)) || td_copy_elements(p->there, p->here))
            return -1;
    }
    return 0;
}

static int send_results(marshalled_call *t, const td_op *op, td_value *results)
{
    int status = 0;
    for (int r = 0; r < op->info.n_results; r++) {
        td_value *v = &results[r];
        if (v->kind == TD_VALUE_TENSOR && status == 0) {
            v->tensor = send_back(t, v->tensor);
            status = v->tensor ? 0 : -1;
        }
        for (int k = 0; v->kind == TD_VALUE_TENSORS && k < v->count && status == 0; k++) {
            td_tensor **member = (td_tensor **)&v->tensors[k];
            *member = send_back(t, *member);
            status = *member ? 0 : -1;
        }
    }
    if (status != 0)
        td_values_release(results, op->info.n_results);
    return status;
}

/* Pairs without `bytes` are their caller's. */
static void finish(marshalled_call *t)
{
    for (int i = 0; i < t->n_pairs; i++)
        td_tensor_release(t->pairs[i].here);
    if (t->bytes)
        td_mem_free(t->pairs, t->bytes);
}

int td_cpu_fallback(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    marshalled_call t = {0};
    if (td_check_same_device(op, arguments))
        return -1;
    int status = prepare(&t, op, arguments);
    if (status == 0) {
        note(op, t.device, td_op_has_kernel(op, TD_KEY_DENSE, t.device.type) ? "the device's kernel doesn't take these operands"
                                                                             : "the device has no kernel for it", t.copied);
        td_generator *before = td_default_stand_in(td_device_generator(t.device));
        status = td_op_call_keys(op, (keys & ~TD_KEYS_DEVICES) | TD_KEYSET(TD_CPU), t.values, results);
        td_default_stand_in(before);
        if (status == 0 && write_back(&t) != 0) {
            td_values_release(results, op->info.n_results);
            status = -1;
        }
        if (status == 0)
            status = send_results(&t, op, results);
    }
    finish(&t);
    return status;
}

/* Operators of sparse tensors read indices: the CPU does them, but for those that read nothing and show the parts as they lie. */
static int sparse_fallback(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    return op->info.flags & TD_OP_ANY_DEVICE ? td_op_call_keys(op, (keys & ~TD_KEYS_DEVICES) | TD_KEYSET(TD_CPU), arguments, results)
                                             : td_cpu_fallback(op, keys, arguments, results, context);
}
int td_sparse_fallback_register(int type)
{
    return td_register_fallback(TD_KEY_SPARSE, type, sparse_fallback, NULL) || td_register_fallback(TD_KEY_COMPRESSED, type, sparse_fallback, NULL) ? -1 : 0;
}

int td_compute_on_host(const td_op *op, const char *why, int n, td_tensor *const *in, td_tensor *out, td_host_function *f, void *context)
{
    pair pairs[n + 1];
    td_tensor *here[n + 1];
    marshalled_call t = {.device = out->device, .pairs = pairs};
    int status = (here[n] = fetch(&t, out, true)) ? 0 : -1;
    for (int i = 0; i < n && status == 0; i++)
        status = (here[i] = fetch(&t, in[i], false)) ? 0 : -1;
    if (status == 0) {
        note(op, out->device, why, t.copied);
        status = f(context, here, here[n]) || write_back(&t) ? -1 : 0;
    }
    finish(&t);
    return status;
}
