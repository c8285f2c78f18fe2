/* Storages with memory that a region's calls read or write: who writes one at once asks whether calls are to be done before.
 *
 * A mark in the storage, as for what is awaited, would not do: several threads' regions may read one storage, and the first that is done would
 * take the mark away from the others. */
#include "region/region.h"

static uint32_t slot_of(const td_noted *set, const td_storage *s)
{
    uint32_t i = (uint32_t)(((uintptr_t)s >> 4) * 0x9E3779B97F4A7C15u >> 32) & (set->room - 1);
    while (set->slots[i] && set->slots[i] != s)
        i = (i + 1) & (set->room - 1);
    return i;
}

bool td_noted_has(const td_noted *set, const td_storage *s) { return set->n && set->slots[slot_of(set, s)]; }

static int grow(td_noted *set)
{
    td_noted more = {.n = set->n, .room = set->room ? 4 * set->room : 64};
    if (!(more.slots = td_mem_alloc_zero(more.room * sizeof *more.slots)))
        return -1;
    for (uint32_t i = 0; i < set->room; i++)
        if (set->slots[i])
            more.slots[slot_of(&more, set->slots[i])] = set->slots[i];
    td_noted_free(set);
    *set = more;
    return 0;
}

int td_noted_add(td_noted *set, const td_storage *s)
{
    if (2 * set->n >= set->room && grow(set))
        return -1;
    const uint32_t i = slot_of(set, s);
    set->n += !set->slots[i];
    set->slots[i] = s;
    return 0;
}

void td_noted_clear(td_noted *set)
{
    if (set->n)
        memset(set->slots, 0, set->room * sizeof *set->slots);
    set->n = 0;
}

void td_noted_free(td_noted *set)
{
    td_mem_free(set->slots, set->room * sizeof *set->slots);
    *set = (td_noted){0};
}
