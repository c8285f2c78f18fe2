/* The engine "alone": a group of one process, whose calls are copies.  It needs no library. */
#include "group/group.h"

static int one, begun;
static void *open_group(td_group_options *options)
{
    if (options->rank < 0)
        options->rank = 0, options->n_ranks = 1;
    return options->n_ranks == 1 ? &one : td_fail(TD_E_VALUE, "engine 'alone' has groups of one process, not of %d", options->n_ranks);
}
static void close_group(void *group) { (void)group; }

/* Every reduction of one is that one; an average is, too. */
static void *copy(void *group, const td_engine_call *call)
{
    (void)group;
    const td_part *from = call->from, *to = call->to;
    for (int i = 0; call->n_from && i < call->n_to; i++) {
        if (from[i].count != to[i].count)
            return td_fail(TD_E_VALUE, "%s: %lld elements can't be written to a tensor of %lld", td_collective_names[call->kind], (long long)from[i].count,
                           (long long)to[i].count);
        if (to[i].count && to[i].data != from[i].data)
            memmove(to[i].data, from[i].data, (size_t)to[i].count * td_dtype_size(call->dtype));
    }
    return &begun;
}
static int test(void *group, void *request, int *source) { return (void)group, (void)request, (void)source, 1; }
static int release(void *group, void *request) { return (void)group, (void)request, 1; }

const td_group_engine td_engine_alone = {
    .abi = TD_GROUP_ABI, .size = sizeof td_engine_alone, .name = "alone", .devices = 1 << TD_CPU, .open = open_group, .close = close_group,
    .call = {[TD_ALL_REDUCE] = copy, [TD_BROADCAST] = copy, [TD_REDUCE] = copy, [TD_ALL_GATHER] = copy, [TD_GATHER] = copy, [TD_SCATTER] = copy,
             [TD_REDUCE_SCATTER] = copy, [TD_ALL_TO_ALL] = copy, [TD_BARRIER] = copy},
    .test = test, .release = release,
};
