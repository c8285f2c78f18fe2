/* The modes of a thread that a backward pass takes to the threads that work for it.
 *
 * Formulas and hooks must run as if the thread that began the pass ran them: under its masks, its transform levels, its
 * saved-tensor hooks, its Python modes.  Layers that autograd doesn't know register their part (td_backward_carry): a function
 * that exchanges the thread's state with a block.
 *
 * The thread that began a pass waits for its end, so what its modes point to stays; only what a hook may take apart meanwhile
 * has to be counted (`retain`, `release`). */
#include <tede/autograd_nodes.h>
#include <pthread.h>
#include "autograd/modes.h"
#include "autograd/saved.h"
#include "base/watch.h"

enum { MOST_PARTS = 8, ALIGNMENT = 16 };

static td_carried_state parts[MOST_PARTS];
static int offsets[MOST_PARTS + 1];
static int n_parts;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

int td_backward_carry(const td_carried_state *part)
{
    int status = 0;
    pthread_mutex_lock(&lock);
    int n = n_parts, end = offsets[n] + (int)((part->size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    if (n == MOST_PARTS || part->size > TD_MODES_BYTES || end > TD_MODES_BYTES) {
        status = td_error(TD_E_RUNTIME, "td_backward_carry: no room for %zu bytes of another state", part->size);
    } else {
        parts[n] = *part;
        offsets[n + 1] = end;
        __atomic_store_n(&n_parts, n + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    return status;
}

static void swap_parts(td_modes *modes)
{
    for (int i = 0; i < modes->n_parts; i++)
        parts[i].swap(modes->parts + offsets[i]);
}

static void release_parts(td_modes *modes, int n)
{
    for (int i = 0; i < n; i++)
        if (parts[i].release)
            parts[i].release(modes->parts + offsets[i]);
}

void td_modes_copy(td_modes *to)
{
    td_modes copy;
    *to = (td_modes){.masks = td_masks_now, .saved_hooks = td_saved_hooks_top(), .strict_views = td_strict_views,
                     .n_parts = __atomic_load_n(&n_parts, __ATOMIC_ACQUIRE)};
    swap_parts(to);
    copy = *to;
    swap_parts(&copy);
}

int td_modes_enter(const td_modes *modes, td_modes *before)
{
    *before = *modes;
    for (int i = 0; i < before->n_parts; i++)
        if (parts[i].retain && parts[i].retain(before->parts + offsets[i]) != 0) {
            release_parts(before, i);
            return -1;
        }
    swap_parts(before);
    before->masks = td_masks_now;
    before->saved_hooks = td_saved_hooks_swap(modes->saved_hooks);
    before->strict_views = td_strict_views;
    td_masks_now = modes->masks;
    td_strict_views = modes->strict_views;
    return 0;
}

void td_modes_leave(const td_modes *modes, td_modes *before)
{
    td_saved_hooks_unwind(modes->saved_hooks);          /* those that hooks have pushed and left there */
    td_saved_hooks_swap(before->saved_hooks);
    td_strict_views = before->strict_views;
    td_masks_now = before->masks;
    swap_parts(before);
    release_parts(before, before->n_parts);
}
