/* See Note [Late tensors] in late.h. */
#include "tensor/recorded.h"
#include "base/once.h"

#include <sys/mman.h>

td_late_functions td_regions;
int td_region_threads;
uint64_t td_region_least = 8192;

bool td_operands_wait(const td_tensor *out, int n, td_tensor *const *operands)
{
    bool worth = out && td_is_noted(out);
    for (int i = 0; i < n; i++) {
        if (!operands[i] || operands[i] == TD_NONE)
            continue;
        if (!td_may_wait_for(operands[i]))
            return false;
        worth |= td_is_worth_recording(operands[i]);
    }
    return worth;
}

int td_leave_region(td_left_region *l)
{
    *l = (td_left_region){0};
    if (TD_LIKELY(!td_in_region()))
        return 0;
    if (td_regions.settle(NULL))
        return -1;
    *l = (td_left_region){.left = true, .exclude = td_pause_region(), .lock = td_regions.let_go ? td_regions.let_go() : NULL};
    return 0;
}

void td_return_to_region(const td_left_region *l)
{
    if (TD_LIKELY(!l->left))
        return;
    if (td_regions.take_again)
        td_regions.take_again(l->lock);
    td_masks_now.exclude = l->exclude;
}

/* Addresses are given out in turn, so that two late storages don't seem to overlap. */
static struct { char *begin; size_t size, next; } range;
static td_once range_once;

static int reserve(void)
{
    for (size_t size = (size_t)1 << 40; size >= (size_t)1 << 32; size >>= 2) {
        void *begin = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (begin != MAP_FAILED) {
            range.begin = begin, range.size = size;
            return 0;
        }
    }
    return td_error(TD_E_MEMORY, "no range of addresses can be reserved");
}

void *td_late_address(size_t nbytes)
{
    const size_t taken = (nbytes + 127) & ~(size_t)63;
    if (td_once_run(&range_once, reserve) || taken > range.size)
        return NULL;
    size_t at = __atomic_fetch_add(&range.next, taken, __ATOMIC_RELAXED) % range.size;
    return range.begin + (at + taken > range.size ? 0 : at);
}
