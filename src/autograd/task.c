/* The graph task of one backward pass: finding its nodes, counting their dependencies, and the heap of those that are ready.
 *
 * What a pass knows of a node is an entry in one growing array, which is also the queue of the search.  From the node
 * to its entry leads a field of the node: the pass claims it for as long as it runs.  A node that another pass (on
 * another thread, or an outer one) has claimed is found in a hash table instead.  So the common case costs one
 * comparison, and no pass disturbs another. */
#include "autograd/engine.h"

enum { MOST_ENTRIES = INT32_MAX - 1 };

void td_task_init(td_task *task)
{
    memset(task, 0, offsetof(td_task, inline_entries));
    task->entries = task->inline_entries;
    task->slots = task->inline_slots;
    task->heap = task->inline_heap;
    task->results = task->inline_results;
    task->entry_room = task->slot_room = task->ready_room = TD_TASK_INLINE;
    task->most_edges = TD_COUNT(task->inline_results);
}

void td_task_free(td_task *task)
{
    for (uint32_t i = 0; i < task->n_entries; i++) {
        td_node *node = task->entries[i].node;
        if (__atomic_load_n(&node->task, __ATOMIC_RELAXED) == task)
            __atomic_store_n(&node->task, NULL, __ATOMIC_RELEASE);
    }
    for (uint32_t i = 0; i < task->n_slots; i++)
        td_tensor_release(task->slots[i]);
    if (task->entries != task->inline_entries)
        td_mem_free(task->entries, (size_t)task->entry_room * sizeof *task->entries);
    if (task->slots != task->inline_slots)
        td_mem_free(task->slots, (size_t)task->slot_room * sizeof *task->slots);
    if (task->heap != task->inline_heap)
        td_mem_free(task->heap, (size_t)task->ready_room * sizeof *task->heap);
    if (task->results != task->inline_results)
        td_mem_free(task->results, (size_t)task->most_edges * sizeof *task->results);
    td_mem_free(task->table, (size_t)task->table_size * sizeof *task->table);
}

/* Room for `more` beyond `n`; *items is the inline array or a block. */
static int grow(void *items, void *inline_items, uint32_t n, uint32_t more, uint32_t *room, size_t size)
{
    void *old, *block;
    uint64_t wanted = (uint64_t)n + more, bigger = (uint64_t)*room * 2;
    if (TD_LIKELY(wanted <= *room))
        return 0;
    if (bigger < wanted)
        bigger = wanted;
    if (bigger > UINT32_MAX)
        return td_error(TD_E_MEMORY, "backward: a graph of more than %d nodes", MOST_ENTRIES);
    memcpy(&old, items, sizeof old);
    if (old == inline_items) {
        block = td_mem_alloc(bigger * size);
        if (block)
            memcpy(block, old, n * size);
    } else
        block = td_mem_realloc(old, *room * size, bigger * size);
    if (!block)
        return -1;
    memcpy(items, &block, sizeof block);
    *room = (uint32_t)bigger;
    return 0;
}

/* ---- nodes that somebody else has claimed: open addressing, half full at most */

static uint32_t hash(const td_node *node, uint32_t size)
{
    return (uint32_t)(((uintptr_t)node >> 4) * 0x9e3779b97f4a7c15u >> 32) & (size - 1);
}

static uint32_t table_find(const td_task *task, const td_node *node)
{
    if (!task->table_size)
        return UINT32_MAX;
    for (uint32_t at = hash(node, task->table_size); task->table[at]; at = (at + 1) & (task->table_size - 1))
        if (task->entries[task->table[at] - 1].node == node)
            return task->table[at] - 1;
    return UINT32_MAX;
}

static int table_add(td_task *task, uint32_t entry)
{
    if (2 * (task->n_table + 1) > task->table_size) {
        uint32_t size = task->table_size ? 2 * task->table_size : 64, *table = td_mem_alloc_zero(size * sizeof *table);
        if (!table)
            return -1;
        for (uint32_t i = 0; i < task->table_size; i++) {
            if (!task->table[i])
                continue;
            uint32_t at = hash(task->entries[task->table[i] - 1].node, size);
            while (table[at])
                at = (at + 1) & (size - 1);
            table[at] = task->table[i];
        }
        td_mem_free(task->table, (size_t)task->table_size * sizeof *table);
        task->table = table;
        task->table_size = size;
    }
    uint32_t at = hash(task->entries[entry].node, task->table_size);
    while (task->table[at])
        at = (at + 1) & (task->table_size - 1);
    task->table[at] = entry + 1;
    task->n_table++;
    return 0;
}

/* Relaxed order does: only this pass writes its own address there, on this thread or before it handed the task on,
 * and any other value sends the search to the table. */
uint32_t td_task_find(const td_task *task, const td_node *node)
{
    if (TD_LIKELY(__atomic_load_n(&node->task, __ATOMIC_RELAXED) == task))
        return node->entry;
    return table_find(task, node);
}

/* All room is made before the node is claimed, and the entry counts only at the end: after an error td_task_free
 * finds nothing half done. */
uint32_t td_task_add(td_task *task, td_node *node)
{
    uint32_t entry = td_task_find(task, node);
    if (entry != UINT32_MAX)
        return entry;
    entry = task->n_entries;
    if (grow(&task->entries, task->inline_entries, entry, 1, &task->entry_room, sizeof *task->entries) != 0 ||
        grow(&task->slots, task->inline_slots, task->n_slots, (uint32_t)node->n_inputs, &task->slot_room,
             sizeof *task->slots) != 0)
        return UINT32_MAX;
    if (node->n_edges > task->most_edges) {
        td_tensor **results = td_mem_alloc((size_t)node->n_edges * sizeof *results);
        if (!results)
            return UINT32_MAX;
        if (task->results != task->inline_results)
            td_mem_free(task->results, (size_t)task->most_edges * sizeof *results);
        task->results = results;
        task->most_edges = node->n_edges;
    }
    task->entries[entry] = (td_entry){node, task->n_slots, 0, -1, false};
    void *nobody = NULL;
    if (__atomic_compare_exchange_n(&node->task, &nobody, task, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
        node->entry = entry;
    else if (table_add(task, entry) != 0)
        return UINT32_MAX;
    for (int i = 0; i < node->n_inputs; i++)
        task->slots[task->n_slots++] = NULL;
    task->n_entries = entry + 1;
    return entry;
}

/* Breadth first: the array of entries grows behind `i`. Each edge into a node counts as one gradient to wait for, and
 * each node's edges are passed once, so the time is that of the edges. */
int td_task_discover(td_task *task)
{
    for (uint32_t i = 0; i < task->n_entries; i++) {
        td_node *node = task->entries[i].node;
        for (int e = 0; e < node->n_edges; e++) {
            if (!node->edges[e].node)
                continue;
            uint32_t to = td_task_add(task, node->edges[e].node);
            if (TD_UNLIKELY(to == UINT32_MAX))
                return -1;
            task->entries[to].dependencies++;
        }
    }
    return 0;
}

/* The search of a pass that is never run. */
int td_graph_leaves(int n, td_tensor *const *outputs, int (*found)(void *context, td_tensor *leaf), void *context)
{
    td_task task;
    int status = 0;
    td_task_init(&task);
    for (int i = 0; i < n && status == 0; i++) {
        td_edge edge = {0};
        if (!outputs[i])
            status = -1;
        if (!outputs[i] || outputs[i] == TD_NONE || !td_requires_grad(outputs[i]))
            continue;
        status = td_gradient_edge(outputs[i], &edge);
        if (status == 0 && edge.node && td_task_add(&task, edge.node) == UINT32_MAX)
            status = -1;
        td_node_release(edge.node);                 /* the output holds it */
    }
    if (status == 0)
        status = td_task_discover(&task);
    for (uint32_t i = 0; i < task.n_entries && status == 0; i++) {
        td_tensor *leaf = td_node_variable(task.entries[i].node);
        status = leaf ? found(context, leaf) : 0;
    }
    td_task_free(&task);
    return status;
}

/* A topological order, in which every node comes before those it leads to (A. B. Kahn, 1962, "Topological sorting of
 * large networks"); then from the back, a node is needed if one that it leads to is needed or captured. No recursion,
 * for graphs may be chains of a million nodes. */
int td_task_restrict(td_task *task)
{
    uint32_t n = task->n_entries, done = 0, queued = 0;
    size_t bytes = n * (sizeof(uint32_t) + sizeof(int32_t));
    uint32_t *order = td_mem_alloc(bytes);
    if (!order)
        return -1;
    int32_t *waiting = (int32_t *)(order + n);
    for (uint32_t i = 0; i < n; i++) {
        waiting[i] = task->entries[i].dependencies;
        if (!waiting[i])
            order[queued++] = i;
    }
    for (; done < queued; done++) {
        td_node *node = task->entries[order[done]].node;
        for (int e = 0; e < node->n_edges; e++) {
            if (!node->edges[e].node)
                continue;
            uint32_t to = td_task_find(task, node->edges[e].node);
            if (--waiting[to] == 0)
                order[queued++] = to;
        }
    }
    while (done-- > 0) {
        td_entry *entry = &task->entries[order[done]];
        for (int e = 0; e < entry->node->n_edges && !entry->needed; e++) {
            if (entry->node->edges[e].node) {
                const td_entry *to = &task->entries[td_task_find(task, entry->node->edges[e].node)];
                entry->needed = to->needed || to->capture >= 0;
            }
        }
    }
    td_mem_free(order, bytes);
    return 0;
}

/* ---- the heap: the latest node first, since those that it leads to were made before it */

/* A binary heap in an array; the item is held aside while its parents move down. */
int td_task_push(td_task *task, uint32_t entry)
{
    if (grow(&task->heap, task->inline_heap, task->n_ready, 1, &task->ready_room, sizeof *task->heap) != 0)
        return -1;
    td_ready item = {task->entries[entry].node->sequence, entry};
    uint32_t at = task->n_ready++;
    while (at > 0 && task->heap[(at - 1) / 2].sequence < item.sequence) {
        task->heap[at] = task->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    task->heap[at] = item;
    return 0;
}

uint32_t td_task_pop(td_task *task)
{
    uint32_t top = task->heap[0].entry, at = 0, child;
    td_ready last = task->heap[--task->n_ready];
    while ((child = 2 * at + 1) < task->n_ready) {
        if (child + 1 < task->n_ready && task->heap[child + 1].sequence > task->heap[child].sequence)
            child++;
        if (task->heap[child].sequence <= last.sequence)
            break;
        task->heap[at] = task->heap[child];
        at = child;
    }
    task->heap[at] = last;
    return top;
}
