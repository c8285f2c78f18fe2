/* Structured operators: where implementations are registered, and operators from outside that have a meta function.
 *
 * The generated kernel of a structured operator for strided tensors (`on_strided` in its row) is one for all devices: it calls the
 * meta function, makes the results and calls the implementation of the call's device, if there is one in td_structured.  To
 * register an implementation is to put it there and to show the kernel in the device's slot of each form's row. */
#include "dispatch/op.h"
#include "dispatch/outputs.h"
#include "device/device.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <tede/library.h>

int td_no_impl(const td_op *op, td_keyset keys)
{
    const int device = 63 - __builtin_clzll((keys & TD_KEYS_DEVICES) | 1);
    const char *name = td_device_name(device);
    return device == TD_META ? 0 : td_error(TD_E_NOT_IMPLEMENTED, "%s::%s has no implementation for device '%s'", td_op_space(op), op->info.name,
                                            name ? name : "?");
}

bool td_is_left_to_cpu(td_keyset keys)
{
    const int device = 63 - __builtin_clzll((keys & TD_KEYS_DEVICES) | 1);
    if (device <= TD_META || td_error_code() != TD_E_NOT_IMPLEMENTED || !td_has_programs((td_device){(int8_t)device, 0}))
        return false;
    td_error_clear();
    return true;
}

/* The operator's results on the CPU, copied to those that the call has made. */
static int run_on_cpu(const td_op *op, td_keyset keys, const td_value *arguments, td_tensor *const *results)
{
    td_value made[op->info.n_results];
    int status = td_cpu_fallback(op, keys, arguments, made, NULL);
    for (int i = 0; i < op->info.n_results && status == 0; i++)
        if (results[i] != TD_NONE && td_copy_elements(results[i], made[i].tensor)) {
            td_values_release(made, op->info.n_results);
            return -1;
        }
    if (status == 0)
        td_values_release(made, op->info.n_results);
    return status;
}

int td_run_other_impl(const td_impl *impl, const td_op *op, td_keyset keys, const td_value *arguments, td_tensor *const *results)
{
    if (!impl) {        /* on meta nothing runs; results that aren't there would stay unwritten */
        for (int i = 0; keys & TD_KEYSET(TD_META) && i < op->info.n_results; i++)
            if (results[i] && results[i] != TD_NONE && results[i]->device.type == TD_CPU && results[i]->numel)
                return td_error(TD_E_RUNTIME, "Expected all tensors to be on the same device, but found at least two devices, cpu and meta!");
        return td_no_impl(op, keys);
    }
    if (impl->boxed && !impl->boxed(op, arguments, results, impl->context))
        return 0;
    return td_is_left_to_cpu(keys) ? run_on_cpu(op, keys, arguments, results) : -1;
}

/* A formula's operands and numbers as the schema has them. */
int td_call_elementwise(const td_op *op, const char *choice, td_tensor *const *in, const td_scalar *params, td_tensor *out)
{
    const td_keyset keys = TD_KEYSET(out->device.type);
    const td_impl *impl = op ? td_impl_of(op->structured, keys) : NULL;
    if (!op)
        return td_error(TD_E_NOT_IMPLEMENTED, "a fused formula has no implementation for device '%s'", td_device_name(out->device.type));
    if (!impl)
        return td_no_impl(op, keys);
    td_value values[TD_MAX_OPERANDS + 8];
    for (int i = 0; i < op->info.n_arguments; i++) {
        const uint8_t kind = op->info.arguments[i].kind;
        values[i] = (td_value){.kind = kind};
        switch (kind) {
        case TD_VALUE_TENSOR: values[i].tensor = *in++; break;
        case TD_VALUE_SCALAR: values[i].scalar = *params++; break;
        case TD_VALUE_FLOAT: values[i].number = td_scalar_double(*params++); break;
        case TD_VALUE_INT:
        case TD_VALUE_BOOL: values[i].integer = params++->i; break;
        case TD_VALUE_STRING: values[i] = choice ? (td_value){.kind = kind, .string = choice} : (td_value){0}; break;
        default: values[i] = (td_value){0};
        }
    }
    return impl->boxed(op, values, &out, impl->context);
}

/* ---- operators that were defined at run time */

typedef struct defined_meta {
    td_structured  of;
    td_boxed_meta *meta;
    size_t         geometry;        /* bytes */
    void          *context;
} defined_meta;

static int fill(const td_op *base, td_keyset keys, const td_value *arguments, td_tensor *const *results)
{
    const td_impl *impl = td_impl_of(base->structured, keys);
    return impl ? impl->boxed(base, arguments, results, impl->context) : td_no_impl(base, keys);
}

/* The boxed kernel of all forms: the base's meta function describes the results, the base's implementation fills
 * them, and they are then returned, copied into self, or were out= targets (td_specs_target) all along. The arguments
 * of a form begin with those of the base (is_form), so the same array serves both. */
static int run_defined(const td_op *op, td_keyset keys, const td_value *given, td_value *results, void *context)
{
    const defined_meta *d = context;
    const td_op *base = d->of.forms[0];
    const int n = base->info.n_results, n_in = base->info.n_arguments;
    td_spec specs[n];
    td_tensor *made[n], *outs[n];
    max_align_t geometry[d->geometry / sizeof(max_align_t) + 1];
    td_value arguments[n_in + 1];
    memset(geometry, 0, sizeof geometry);
    memcpy(arguments, given, sizeof *given * (size_t)n_in);
    arguments[n_in] = (td_value){.geometry = geometry};
    for (int i = 0; i < n; i++)
        specs[i].ndim = -1;
    if (d->meta(base, arguments, specs, d->context))
        return -1;
    for (int i = 0; i < n; i++)
        if (specs[i].ndim < 0)
            return td_error(TD_E_RUNTIME, "%s::%s: its meta function described no result %d", td_op_space(base), base->info.name, i);
    if (!(op->info.flags & TD_OP_OUT)) {
        if (td_specs_new(specs, n, made))
            return -1;
        if (fill(base, keys, arguments, made))
            return td_results_drop(n, made);
        if (!(op->info.flags & TD_OP_INPLACE))
            return td_values_from_tensors(results, n, made);
        if (td_finish_inplace(op->info.name, arguments[0].tensor, made[0]))
            return -1;
        results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(arguments[0].tensor)};
        return 0;
    }
    td_spec_inputs inputs[n_in + 1];
    int count = 0;
    for (int i = 0; i < n_in; i++)
        if (arguments[i].kind == TD_VALUE_TENSOR)
            inputs[count++] = (td_spec_inputs){1, &arguments[i].tensor};
        else if (arguments[i].kind == TD_VALUE_TENSORS)
            inputs[count++] = (td_spec_inputs){arguments[i].count, arguments[i].tensors};
    for (int i = 0; i < n; i++)
        outs[i] = given[n_in + i].tensor;
    if (td_specs_target(op->info.name, specs, n, outs, count, inputs, made))
        return -1;
    if (fill(base, keys, arguments, made))
        return td_results_drop(n, made);
    if (td_specs_finish(n, outs, made))
        return -1;
    for (int i = 0; i < n; i++)
        results[i] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(outs[i])};
    return 0;
}

/* Whether `form` has the arguments of `base`, then an out= argument for each of n results. */
static bool is_form(const td_op *base, const td_op *form, int n)
{
    const td_op_info *a = &base->info, *b = &form->info;
    if (b->n_arguments != a->n_arguments + n)
        return false;
    for (int i = 0; i < b->n_arguments; i++)
        if (i < a->n_arguments ? a->arguments[i].kind != b->arguments[i].kind || a->arguments[i].optional != b->arguments[i].optional ||
                               a->arguments[i].optional_items != b->arguments[i].optional_items
                               : !b->arguments[i].is_out)
            return false;
    return true;
}

static int check_base(const td_op *op)
{
    if (op->unbox || op->info.flags & (TD_OP_INPLACE | TD_OP_OUT))
        return td_error(TD_E_VALUE, "%s::%s: only the functional form of an operator that was defined at run time gets a meta function",
                        td_op_space(op), op->info.name);
    if (op->structured)
        return td_error(TD_E_VALUE, "%s::%s has a meta function already", td_op_space(op), op->info.name);
    for (int i = 0; i < op->info.n_results; i++)
        if (op->info.results[i].kind != TD_VALUE_TENSOR)
            return td_error(TD_E_VALUE, "%s::%s: a structured operator's results are tensors", td_op_space(op), op->info.name);
    return op->info.n_results ? 0 : td_error(TD_E_VALUE, "%s::%s has no results", td_op_space(op), op->info.name);
}

/* Forms are found among what is defined so far, by name: f_ and f.out; those defined later stay as they are.
 * `structured` is set last, with release, once the form's kernel stands in its slots. */
int td_op_set_meta_geometry(const td_op *op, td_boxed_meta *meta, size_t geometry, void *context)
{
    if (td_library_check() || check_base(op))
        return -1;
    defined_meta *d = calloc(1, sizeof *d);     /* as the row, never freed */
    if (!d)
        return td_error(TD_E_MEMORY, "no memory for a meta function");
    *d = (defined_meta){.of.forms = {(td_op *)op}, .meta = meta, .geometry = geometry, .context = context};
    int n = 1;
    for (int i = 0; i < td_defined_count() && n < 3; i++) {
        td_op *form = td_defined_at(i);
        const size_t length = strlen(op->info.name);
        if (!form || form == op || form->structured || strcmp(td_op_space(form), td_op_space(op)) || strncmp(form->info.name, op->info.name, length))
            continue;
        const char *rest = form->info.name + length;
        const bool out = !*rest && form->info.flags & TD_OP_OUT && is_form(op, form, op->info.n_results);
        const bool in_place = !strcmp(rest, "_") && form->info.flags & TD_OP_INPLACE && form->info.arguments[0].is_mutable &&
                              op->info.n_results == 1 && is_form(op, form, 0);
        if (out || in_place)
            d->of.forms[n++] = form;
    }
    for (int i = 0; i < n; i++) {
        td_op *form = d->of.forms[i];
        if (td_op_set_boxed(form, TD_SLOT_META, run_defined, d))
            return -1;
        __atomic_store_n(&form->structured, &d->of, __ATOMIC_RELEASE);
    }
    return 0;
}

int td_op_set_meta(const td_op *op, td_boxed_meta *meta, void *context) { return td_op_set_meta_geometry(op, meta, 0, context); }

/* ---- registration */

/* Implementations are stacked: `under` is what comes back when this one is removed (registered as NULL). None is
 * freed, since a call on another thread may be in it; `registered` keeps them reachable. */
static int register_impl(const char *name, int device, td_impl what)
{
    if (td_library_check())
        return -1;
    td_op *op = (td_op *)td_op_find(name);
    if (!op)
        return td_error(TD_E_VALUE, "no operator is named '%s'", name);
    if (device < 0 || device >= TD_DEVICE_TYPES || device == TD_META)
        return td_error(TD_E_VALUE, "%s: device %d computes nothing", name, device);
    td_structured *of = __atomic_load_n(&op->structured, __ATOMIC_ACQUIRE);
    if (!of || of->forms[0] != op)
        return td_error(TD_E_VALUE, of ? "%s is a form of %s::%s, which implementations are registered for"
                                       : "%s is not structured: it has no meta function (td_register_boxed takes kernels for it)",
                        name, of ? td_op_space(of->forms[0]) : "", of ? of->forms[0]->info.name : "");
    if (what.typed && (!op->on_strided || op->info.flags & TD_OP_POINTWISE))
        return td_error(TD_E_VALUE, "%s takes boxed implementations (td_register_boxed_impl)", name);
    const td_impl *now = __atomic_load_n(&of->impls[device], __ATOMIC_ACQUIRE), *next = now ? now->under : NULL;
    if (what.typed || what.boxed) {
        td_impl *made = malloc(sizeof *made);
        if (!made)
            return td_error(TD_E_MEMORY, "no memory to register an implementation");
        static const td_impl *registered;
        what.under = now;
        *made = what;
        made->before = __atomic_load_n(&registered, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&registered, &made->before, made, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {}
        next = made;
    }
    __atomic_store_n(&of->impls[device], next, __ATOMIC_RELEASE);
    if (device == TD_CPU && op->on_strided)     /* whose slots have been filled from the start */
        return 0;
    for (int i = 0; of->forms[i]; i++) {
        td_op *form = of->forms[i];
        const int status = form->on_strided ? td_op_set_kernel(form, td_key_slot(TD_KEY_DENSE, device), next ? form->on_strided : NULL)
                                            : td_op_set_boxed(form, td_key_slot(TD_KEY_DENSE, device), next ? run_defined : NULL, of);
        if (status)
            return -1;
    }
    return 0;
}

int td_register_impl(const char *op, int device, td_kernel impl) { return register_impl(op, device, (td_impl){.typed = impl}); }
int td_register_boxed_impl(const char *op, int device, td_boxed_impl *impl, void *context)
{
    return register_impl(op, device, (td_impl){.boxed = impl, .context = context});
}

/* What a device with programs has from the start: the CPU for what it has no kernel for; elementwise operators, whose formulas are printed in
 * its dialect (src/kernels/device/pointwise.c); and what is written in the common dialect beside that file. */
int td_accelerate(int device)
{
    if (!td_device_of(device)->launch)
        return 0;
    if (td_register_fallback(TD_KEY_DENSE, device, td_cpu_fallback, NULL))
        return -1;
    for (int i = 0; i < td_op_count(); i++) {
        td_op *op = (td_op *)td_op_at(i);
        if (op && op->on_strided && op->info.flags & TD_OP_POINTWISE && td_op_set_kernel(op, td_key_slot(TD_KEY_DENSE, device), op->on_strided))
            return -1;
    }
    for (const td_accelerated *a = td_accelerated_ops; a->op; a++) {
        *a->row = (td_op *)td_op_find(a->op);
        if (a->structured ? td_register_impl(a->op, device, a->kernel) : td_register_kernel(a->op, TD_KEY_DENSE, device, a->kernel))
            return -1;
    }
    return 0;
}

bool td_op_has_impl(const td_op *op, int device)
{
    return op->structured && device >= 0 && device < TD_DEVICE_TYPES && __atomic_load_n(&op->structured->impls[device], __ATOMIC_ACQUIRE);
}
