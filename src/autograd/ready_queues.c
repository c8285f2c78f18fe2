/* Per-device ready queues: worker threads for backward passes over several devices.
 *
 * Each index of an accelerator has one worker thread, made when it is first needed, and every thread that runs a pass or
 * serves a device has a ready queue: a heap of ready nodes, the latest first.  A node goes to the ready queue of its device's worker, one
 * of the CPU to the ready queue of the thread that began the pass.  So the devices' queues are fed side by side, and the order on each
 * is the one that a single thread would have chosen.
 *
 * A worker's node may begin a pass itself, whose nodes may need another worker that is waiting likewise.  Therefore who
 * waits for a pass serves its own ready queue meanwhile, whichever pass the nodes are of.
 *
 * One lock guards the ready queues and the counts of what passes have on their way; it is held for a few instructions at a time.
 * Each pass has a lock for gradients and dependencies of nodes that wait.  No foreign code runs under either, but
 * for additions of gradients under the latter. */
#include "calls_autograd_ready_queues.h"
#include "autograd/ready_queues.h"

#include <pthread.h>
#include <time.h>
#include "autograd/modes.h"
#include "base/once.h"
#include "device/chosen.h"
#include "tensor/device.h"

typedef struct item { uint64_t sequence; int64_t pass; td_task *task; uint32_t entry; } item;

typedef struct ready_queue {
    pthread_cond_t woken;
    item          *heap;
    uint32_t       n, room;
    td_device      device;
} ready_queue;

struct td_device_pass {
    pthread_mutex_t lock;           /* of what waits */
    ready_queue    *owner;
    int64_t         outstanding;    /* ready or running */
    td_modes        modes;
    td_chosen       streams;        /* of the thread that began the pass: what it was asked for before comes first, what it is asked for later after */
    bool            failed;
    void           *error;          /* of td_error_detach */
};

static pthread_mutex_t queues_lock = PTHREAD_MUTEX_INITIALIZER;
static ready_queue *workers[TD_DEVICE_TYPES][INT8_MAX + 1];
static TD_TLS ready_queue *own_queue;

/* ---- which ready queue */

static td_device device_of(const td_node *node)
{
    for (int i = 0; i < node->n_inputs; i++)
        if (node->inputs[i].defined)
            return node->inputs[i].device;
    return (td_device){TD_CPU, -1};
}

bool td_ready_wanted(const td_task *task)
{
    if (td_masks_now.include & TD_KEYSET(TD_KEY_TRACING))   /* who is watched or recorded is notified in the order of one thread */
        return false;
    for (uint32_t i = 0; i < task->n_entries; i++)
        if (td_is_outside(device_of(task->entries[i].node)))
            return true;
    return false;
}

/* ---- heaps: of two passes the one that began later comes first, since an older one may wait for it */

static bool before(const item *a, const item *b)
{
    return a->pass != b->pass ? a->pass > b->pass : a->sequence > b->sequence;
}

static int put(ready_queue *l, item what)
{
    if (l->n == l->room) {
        uint32_t room = l->room ? 2 * l->room : 64;
        item *more = td_mem_realloc(l->heap, l->room * sizeof *more, room * sizeof *more);
        if (!more)
            return -1;
        l->heap = more, l->room = room;
    }
    uint32_t at = l->n++;
    while (at > 0 && before(&what, &l->heap[(at - 1) / 2])) {
        l->heap[at] = l->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    l->heap[at] = what;
    pthread_cond_signal(&l->woken);
    return 0;
}

static item take(ready_queue *l)
{
    item top = l->heap[0], last = l->heap[--l->n];
    uint32_t at = 0, child;
    while ((child = 2 * at + 1) < l->n) {
        if (child + 1 < l->n && before(&l->heap[child + 1], &l->heap[child]))
            child++;
        if (!before(&l->heap[child], &last))
            break;
        l->heap[at] = l->heap[child];
        at = child;
    }
    if (l->n)
        l->heap[at] = last;
    return top;
}

/* ---- running */

/* The first error is the pass's; it travels to the thread that began it. */
static void note_failure(struct td_device_pass *devices)
{
    pthread_mutex_lock(&queues_lock);
    bool first = !devices->failed;
    __atomic_store_n(&devices->failed, true, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&queues_lock);
    if (first)
        devices->error = td_error_detach();
    else
        td_error_clear();
}

static void execute(item what)
{
    td_task *task = what.task, *outer = td_task_now;
    struct td_device_pass *devices = task->devices;
    td_node *running = td_node_now;
    td_modes modes;
    td_tensor *few[16], **results = few;
    size_t bytes = (size_t)task->most_edges * sizeof *results;
    if (bytes > sizeof few)
        results = td_mem_alloc(bytes);
    if (!results || td_modes_enter(&devices->modes, &modes) != 0) {
        note_failure(devices);
    } else {
        const td_chosen streams = td_streams_chosen();
        td_streams_choose(&devices->streams);
        td_task_now = task;
        if (td_task_run_node(task, what.entry, results) != 0)
            note_failure(devices);
        td_streams_choose(&streams);
        td_task_now = outer;
        td_node_now = running;
        td_modes_leave(&devices->modes, &modes);
    }
    if (results && results != few)
        td_mem_free(results, bytes);
}

/* Run what comes into a ready queue, until the pass has nothing on its way any more; for ever without one. */
static void serve(ready_queue *l, td_task *until, int (*interrupted)(int64_t *due))
{
    int64_t due = 0;
    pthread_mutex_lock(&queues_lock);
    while (!until || until->devices->outstanding > 0) {
        if (!l->n) {
            struct timespec soon;
            clock_gettime(CLOCK_REALTIME, &soon);
            soon.tv_nsec += 100000000;
            soon.tv_sec += soon.tv_nsec / 1000000000, soon.tv_nsec %= 1000000000;
            if (until)
                pthread_cond_timedwait(&l->woken, &queues_lock, &soon);
            else
                pthread_cond_wait(&l->woken, &queues_lock);
        } else {
            item next = take(l);
            struct td_device_pass *devices = next.task->devices;
            pthread_mutex_unlock(&queues_lock);
            if (!__atomic_load_n(&devices->failed, __ATOMIC_ACQUIRE))
                execute(next);
            pthread_mutex_lock(&queues_lock);
            if (--devices->outstanding == 0 && devices->owner != l)
                pthread_cond_signal(&devices->owner->woken);
        }
        if (until && interrupted) {
            pthread_mutex_unlock(&queues_lock);
            if (!__atomic_load_n(&until->devices->failed, __ATOMIC_ACQUIRE) && interrupted(&due) != 0)
                note_failure(until->devices);
            pthread_mutex_lock(&queues_lock);
        }
    }
    pthread_mutex_unlock(&queues_lock);
}

static void *work(void *argument)
{
    own_queue = argument;
    if (td_device_set_current(own_queue->device) != 0)
        td_error_clear();
    serve(own_queue, NULL, NULL);
    return NULL;
}

/* A forked child has no workers; what it inherits of them is of no use. */
static void forget_workers(void)
{
    memset(workers, 0, sizeof workers);
    own_queue = NULL;
    pthread_mutex_init(&queues_lock, NULL);
}
static int watch_forks(void) { return pthread_atfork(NULL, NULL, forget_workers) == 0 ? 0 : -1; }

/* The worker of a device, with the lock held; NULL if there can't be one, and the pass's own thread does its work. */
static ready_queue *worker_of(td_device device)
{
    static td_once once;
    ready_queue **place = &workers[device.type][device.index < 0 ? 0 : device.index];
    if (*place)
        return *place;
    pthread_t thread;
    ready_queue *l = td_once_run(&once, watch_forks) == 0 ? td_mem_alloc_zero(sizeof *l) : NULL;
    if (!l) {
        td_error_clear();
        return NULL;
    }
    l->device = device;
    pthread_cond_init(&l->woken, NULL);
    if (pthread_create(&thread, NULL, work, l) != 0) {
        td_mem_free(l, sizeof *l);
        return NULL;
    }
    pthread_detach(thread);
    return *place = l;
}

int td_ready_push(td_task *task, uint32_t entry)
{
    const td_node *node = task->entries[entry].node;
    td_device device = device_of(node);
    pthread_mutex_lock(&queues_lock);
    ready_queue *to = td_is_outside(device) ? worker_of(device) : NULL;
    task->devices->outstanding++;
    int status = put(to ? to : task->devices->owner, (item){node->sequence, task->id, task, entry});
    if (status != 0)
        task->devices->outstanding--;
    pthread_mutex_unlock(&queues_lock);
    return status;
}

void td_pass_lock(td_task *task) { pthread_mutex_lock(&task->devices->lock); }
void td_pass_unlock(td_task *task) { pthread_mutex_unlock(&task->devices->lock); }

int td_ready_run(td_task *task, const uint32_t *first, uint32_t n_first, int (*interrupted)(int64_t *due))
{
    ready_queue here = {.device = {TD_CPU, -1}};
    struct td_device_pass devices = {.owner = own_queue ? own_queue : &here, .streams = td_streams_chosen()};
    td_modes_copy(&devices.modes);
    pthread_mutex_init(&devices.lock, NULL);
    pthread_cond_init(&here.woken, NULL);
    ready_queue *before = own_queue;
    own_queue = devices.owner;
    task->devices = &devices;
    bool pushed = true;
    for (uint32_t i = 0; i < n_first && pushed; i++)
        pushed = td_ready_push(task, first[i]) == 0;
    if (!pushed)
        note_failure(&devices);
    serve(devices.owner, task, interrupted);
    own_queue = before;
    task->devices = NULL;
    pthread_cond_destroy(&here.woken);
    pthread_mutex_destroy(&devices.lock);
    td_mem_free(here.heap, here.room * sizeof *here.heap);
    return devices.failed ? td_error_attach(devices.error) : 0;
}
