/* Operators under a watcher, or being recorded (record.c): a fallback on the Tracing key, which stands above autograd and
 * below the transforms.
 *
 * The thread includes the key while it is watched, so calls that operators make of each other are events, too,
 * between an operator's beginning and its end. */

#include "base/once.h"
#include "base/watch.h"
#include "dispatch/op.h"
#include "trace/record.h"

/* What is registered for a slot: the kernel, or the function behind one that boxes its arguments, as of a plug-in; NULL if nothing is. */
static const void *kernel_of(const td_op *op, int slot)
{
    td_kernel kernel = __atomic_load_n(&op->kernels[slot], __ATOMIC_RELAXED);
    td_boxed_entry **boxed = kernel == op->from_boxed ? __atomic_load_n(&op->boxed, __ATOMIC_ACQUIRE) : NULL;
    const td_boxed_entry *entry = boxed ? __atomic_load_n(&boxed[slot], __ATOMIC_ACQUIRE) : NULL;
    return entry && entry->kernel ? (const void *)(uintptr_t)entry->kernel : (const void *)(uintptr_t)kernel;
}

static int watched_call(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    if (td_recording_now)
        return td_recorded_call(op, keys, arguments, results);
    td_keyset below = keys & ~TD_KEYSET(TD_KEY_TRACING);
    const int device = __builtin_ctzll((below & TD_KEYS_DEVICES) | TD_KEYSET(TD_DEVICE_TYPES - 1));
    const void *kernel = kernel_of(op, td_key_slot(TD_KEY_DENSE, device));
    TD_EMIT(.kind = TD_EVENT_CALL, .op = op, .name = op->info.name, .keys = below,
            .pointer = kernel ? kernel : (const void *)(uintptr_t)op->composite, .n = op->info.n_arguments, .values = arguments);
    int status = td_op_call_keys(op, below, arguments, results);
    TD_EMIT(.kind = TD_EVENT_RETURN, .op = op, .name = op->info.name, .keys = below,
            .n = status == 0 ? op->info.n_results : 0, .values = results);
    return status;
}

static int register_fallback(void) { return td_register_fallback(TD_KEY_TRACING, TD_CPU, watched_call, NULL); }

int td_tracing_start(void)
{
    static td_once once;
    return td_once_run(&once, register_fallback);
}

int td_watch(td_watcher *watcher, void *context)
{
    if (td_tracing_start() != 0)
        return -1;
    if (watcher && td_recording_now)
        return td_error(TD_E_RUNTIME, "this thread's calls are recorded already");
    if (!watcher == !td_watch_now.watcher)
        return watcher ? td_error(TD_E_RUNTIME, "this thread is watched already") : 0;
    td_watch_now = (td_watch_state){watcher, context};
    __atomic_add_fetch(&td_watched_threads, watcher ? 1 : -1, __ATOMIC_RELAXED);
    if (watcher)
        td_masks_now.include |= TD_KEYSET(TD_KEY_TRACING), __atomic_store_n(&td_isa_now, TD_ISAS, __ATOMIC_RELAXED);
    else
        td_masks_now.include &= ~TD_KEYSET(TD_KEY_TRACING);
    td_watch_memory(watcher != NULL);
    return 0;
}
