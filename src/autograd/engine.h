/* The backward pass from inside: see engine.c. */
#ifndef TD_AUTOGRAD_ENGINE_H
#define TD_AUTOGRAD_ENGINE_H
#include "autograd/hooks.h"
#include "autograd/node.h"

/* What a pass knows of a node. */
typedef struct td_entry {
    td_node *node;
    uint32_t first;             /* of its gradients in `slots` */
    int32_t  dependencies;      /* edges to it that are still to be followed */
    int32_t  capture;           /* the first of its captures, or -1 */
    bool     needed;            /* of a pass with inputs: to be run */
} td_entry;

typedef struct td_capture {
    int32_t next;               /* of the same node, or -1 */
    int32_t slot;
    int32_t result;
} td_capture;

typedef struct td_ready { uint64_t sequence; uint32_t entry; } td_ready;
typedef struct td_at_end { int (*fn)(void *); void *context; td_drop *drop; } td_at_end;

enum { TD_TASK_INLINE = 32 };

typedef struct td_task {
    struct td_task *outer;      /* the pass in which this one was started */
    int64_t     id;
    struct td_device_pass *devices;     /* of a pass over several devices; else NULL */
    bool        keep, create_graph, restricted;
    td_entry   *entries;
    uint32_t    n_entries, entry_room;
    td_tensor **slots;          /* owned gradients that wait for their node */
    uint32_t    n_slots, slot_room;
    td_ready   *heap;
    uint32_t    n_ready, ready_room;
    uint32_t   *table;          /* of nodes that another pass had claimed: entry numbers + 1, by address */
    uint32_t    table_size, n_table;
    td_tensor **results;        /* room for what a node gives */
    int32_t     most_edges;
    td_node   **root_nodes;     /* counted: they hold the graph while the pass runs */
    td_capture *captures;
    td_tensor **captured;
    td_at_end  *at_end;
    int32_t     n_at_end;
    td_entry    inline_entries[TD_TASK_INLINE];
    td_tensor  *inline_slots[TD_TASK_INLINE];
    td_ready    inline_heap[TD_TASK_INLINE];
    td_tensor  *inline_results[8];
} td_task;

extern TD_TLS td_task *td_task_now;
extern TD_TLS td_node *td_node_now;     /* the node that this thread runs */

/* Run a ready node, with room for as many results as any node of the pass has edges. */
int       td_task_run_node(td_task *task, uint32_t entry, td_tensor **results) TD_MUST_USE;

/* ---- task.c: the nodes of a pass */
void      td_task_init(td_task *task);
void      td_task_free(td_task *task);
/* The entry of a node, or UINT32_MAX. */
uint32_t  td_task_find(const td_task *task, const td_node *node);
/* The same, made if there is none; UINT32_MAX with an error. */
uint32_t  td_task_add(td_task *task, td_node *node);
/* Add all that can be reached from what is there, and count dependencies. */
int       td_task_discover(td_task *task) TD_MUST_USE;
/* Mark as needed what leads to a capture or to a node that is marked already. */
int       td_task_restrict(td_task *task) TD_MUST_USE;
int       td_task_push(td_task *task, uint32_t entry) TD_MUST_USE;
uint32_t  td_task_pop(td_task *task);

/* Drop a reference to an accumulator; true if it was the last. */
bool td_accumulator_drop(td_node *node);
/* Add *grad to the leaf (it may be taken over and become NULL); the hooks of the leaf, before and after that. */
int  td_accumulate(td_node *node, td_tensor **grad, bool create_graph) TD_MUST_USE;
/* For hooks behind a gradient that was taken over: an alias of what the leaf has of it. */
int  td_accumulator_adopted(td_node *node, td_tensor **shown) TD_MUST_USE;
int  td_accumulator_run_hooks(td_node *node, bool after, td_tensor **grad);

#endif
