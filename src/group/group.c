/* Engines by name, groups, and the beginning of calls.  What becomes of a call is in work.c. */
#include "group/group.h"
#include "base/names.h"

#include <dlfcn.h>
#include <stdio.h>
#include <tede/auto.h>
#include <tede/device.h>
#include <tede/foreign.h>
#include <tede/kernel.h>
#include <tede/library.h>
#include <tede/layout.h>
#include <unistd.h>

enum { MOST_ENGINES = 16, STACK_PARTS = 32 };
#define DEFAULT_TIMEOUT 1800.0

static pthread_mutex_t        lock = PTHREAD_MUTEX_INITIALIZER;
static const td_group_engine *engines[MOST_ENGINES] = {&td_engine_alone};
static bool                   any_failed;

const char *const td_collective_names[TD_COLLECTIVES] = {"all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter",
                                                         "all_to_all", "send", "recv", "barrier"};

/* ---- engines */

static const td_group_engine *find(const char *name)
{
    for (int i = 0; i < MOST_ENGINES; i++) {
        const td_group_engine *engine = __atomic_load_n(&engines[i], __ATOMIC_ACQUIRE);
        if (engine && !strcmp(engine->name, name))
            return engine;
    }
    return NULL;
}

int td_group_register(const td_group_engine *engine)
{
    if (td_library_check())
        return -1;
    if (!engine)
        return td_error(TD_E_VALUE, "td_group_register: no table");
    if (engine->abi != TD_GROUP_ABI)
        return td_error(TD_E_RUNTIME, "td_group_register: the table was built for version %u of the interface of groups, this library has version %d",
                        (unsigned)engine->abi, TD_GROUP_ABI);
    if (engine->size < sizeof *engine)
        return td_error(TD_E_RUNTIME, "td_group_register: the table has %u bytes, which is too short", (unsigned)engine->size);
    if (!td_is_short_name(engine->name))
        return td_error(TD_E_RUNTIME, "td_group_register: an engine's name has 1 to 15 letters, digits and underscores, no digit first");
    if (!engine->open || !engine->close || !engine->test || !engine->release)
        return td_error(TD_E_RUNTIME, "td_group_register: engine '%s' lacks one of open, close, test and release", engine->name);
    pthread_mutex_lock(&lock);
    int at = 0;
    while (at < MOST_ENGINES && engines[at])
        at++;
    const bool taken = find(engine->name);
    if (!taken && at < MOST_ENGINES)
        __atomic_store_n(&engines[at], engine, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return taken ? td_error(TD_E_RUNTIME, "there is an engine '%s' of groups already", engine->name)
                 : at < MOST_ENGINES ? 0 : td_error(TD_E_RUNTIME, "no room for engine '%s' of groups: there are too many", engine->name);
}

/* NULL, with an error only if there is such a library and it can't be loaded. */
static const td_group_engine *load(const char *name)
{
    char path[4096];
    Dl_info own;
    const td_group_engine *engine = find(name);
    if (engine || !td_is_short_name(name))
        return engine;
    const char *slash = dladdr(&lock, &own) && own.dli_fname ? strrchr(own.dli_fname, '/') : NULL;
    if (!slash || snprintf(path, sizeof path, "%.*s/tede/%s.so", (int)(slash - own.dli_fname), own.dli_fname, name) >= (int)sizeof path ||
        access(path, F_OK) != 0 || td_library_load(path))
        return NULL;
    return find(name);
}

bool td_group_engine_there(const char *name)
{
    const bool there = name && load(name);
    if (!there)
        td_error_clear();
    return there;
}

void td_group_end(bool failed)
{
    failed |= td_work_end();
    for (int i = 0; i < MOST_ENGINES; i++)
        if (engines[i] && engines[i]->end)
            engines[i]->end(failed || __atomic_load_n(&any_failed, __ATOMIC_RELAXED));
}

/* ---- groups */

static void group_free(td_group *group)
{
    if (group->handle)
        group->engine->close(group->handle);
    if (group->failed)
        td_mem_free(group->failed, strlen(group->failed) + 1);
    if (group->name)
        td_mem_free(group->name, strlen(group->name) + 1);
    td_mem_free(group, sizeof *group);
}

td_group *td_group_new(const char *name, const td_group_options *given)
{
    if (!name || !given)
        return td_fail(TD_E_VALUE, "td_group_new: no engine's name, or no options");
    td_error_clear();
    const td_group_engine *engine = load(name);
    if (!engine)
        return td_error_code() != TD_OK ? NULL : td_fail(TD_E_VALUE, "there is no engine '%s' of groups: no library has registered it, and no file %s.so is "
                                                         "beside tede's library, in the folder tede/", name, name);
    td_group_options options = {0};
    memcpy(&options, given, given->size < sizeof options ? given->size : sizeof options);
    options.name = options.name ? options.name : "world";
    if (options.rank >= 0 && options.rank >= options.n_ranks)
        return td_fail(TD_E_VALUE, "td_group_new: rank %d isn't one of %d", options.rank, options.n_ranks);
    td_group *group = td_mem_alloc_zero(sizeof *group);
    if (!group || !(group->name = td_mem_alloc(strlen(options.name) + 1))) {
        td_mem_free(group, sizeof *group);
        return NULL;
    }
    strcpy(group->name, options.name);
    group->engine = engine;
    group->refcount = 1;
    group->timeout = options.timeout > 0 ? options.timeout : DEFAULT_TIMEOUT;
    options.timeout = group->timeout;
    group->handle = engine->open(&options);
    if (!group->handle) {
        group_free(group);
        return NULL;
    }
    group->rank = options.rank, group->size = options.n_ranks;
    group->crowded = engine->crowded && engine->crowded();
    return group;
}

td_group *td_group_retain(td_group *group)
{
    if (group)
        __atomic_add_fetch(&group->refcount, 1, __ATOMIC_RELAXED);
    return group;
}
void td_group_release(td_group *group)
{
    if (group && __atomic_sub_fetch(&group->refcount, 1, __ATOMIC_ACQ_REL) == 0)
        group_free(group);
}
int         td_group_rank(const td_group *group) { return group->rank; }
int         td_group_size(const td_group *group) { return group->size; }
const char *td_group_name(const td_group *group) { return group->name; }
double      td_group_timeout(const td_group *group) { return group->timeout; }
void        td_group_set_timeout(td_group *group, double seconds) { group->timeout = seconds > 0 ? seconds : DEFAULT_TIMEOUT; }

void td_group_set_failed(td_group *group, const char *why)
{
    char *text = td_mem_alloc(strlen(why) + 1), *none = NULL;
    __atomic_store_n(&any_failed, true, __ATOMIC_RELAXED);
    if (text)
        strcpy(text, why);
    if (text && !__atomic_compare_exchange_n(&group->failed, &none, text, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        td_mem_free(text, strlen(text) + 1);
}
void td_group_abort(td_group *group) { td_group_set_failed(group, "it was aborted"); }

/* ---- calls */

/* How many operands a rank passes and gets. */
static int check_counts(const td_group *group, const td_group_call *call)
{
    const int n = group->size, at_root = call->root == group->rank;
    static const struct { int8_t from, to; } counts[TD_COLLECTIVES] = {     /* 2: one for each rank; 4 and 8: 1 and n, at the root only */
        [TD_ALL_REDUCE] = {1, 1}, [TD_BROADCAST] = {0, 1}, [TD_REDUCE] = {1, 4}, [TD_ALL_GATHER] = {1, 2}, [TD_GATHER] = {1, 8},
        [TD_SCATTER] = {8, 1}, [TD_REDUCE_SCATTER] = {2, 1}, [TD_ALL_TO_ALL] = {2, 2}, [TD_SEND] = {1, 0}, [TD_RECV] = {0, 1}, [TD_BARRIER] = {0, 0}};
    const int8_t kinds[2] = {counts[call->kind].from, counts[call->kind].to};
    const int given[2] = {call->n_from, call->n_to};
    for (int i = 0; i < 2; i++) {
        const int wanted = kinds[i] == 2 ? n : kinds[i] == 4 ? at_root : kinds[i] == 8 ? at_root * n : kinds[i];
        if (given[i] != wanted)
            return td_error(TD_E_VALUE, "%s: %d tensors were expected to %s, not %d, on rank %d of %d", td_collective_names[call->kind], wanted,
                            i ? "be written" : "be read", given[i], group->rank, n);
    }
    return 0;
}

static int check_call(const td_group *group, const td_group_call *call)
{
    const char *name = td_collective_names[call->kind];
    const bool has_root = call->kind == TD_BROADCAST || call->kind == TD_REDUCE || call->kind == TD_GATHER || call->kind == TD_SCATTER ||
                          call->kind == TD_SEND || (call->kind == TD_RECV && call->root != -1);
    if (!group->engine->call[call->kind])
        return td_error(TD_E_NOT_IMPLEMENTED, "%s: engine '%s' of groups has no such call", name, group->engine->name);
    if (has_root && (call->root < 0 || call->root >= group->size))
        return td_error(TD_E_VALUE, "%s: there is no rank %d in a group of %d", name, call->root, group->size);
    if (call->reduction < 0 || call->reduction >= TD_REDUCTIONS)
        return td_error(TD_E_VALUE, "%s: there is no reduction %d", name, (int)call->reduction);
    const char *failed = __atomic_load_n(&group->failed, __ATOMIC_ACQUIRE);
    if (failed)
        return td_error(TD_E_RUNTIME, "%s: group '%s' has failed before: %s", name, group->name, failed);
    return check_counts(group, call);
}

/* Operand i of a work, whose tensor it is, with its elements side by side. */
static int take(td_work *work, const td_group_call *call, int i)
{
    const bool is_from = i < call->n_from;
    td_tensor *x = is_from ? call->from[i] : call->to[i - call->n_from], *first = call->n_from ? call->from[0] : call->to[0];
    const char *name = td_collective_names[call->kind];
    if (!x)
        return -1;
    const td_device device = td_tensor_device(x), other = td_tensor_device(first);
    if (td_tensor_layout(x) != TD_STRIDED)
        return td_error(TD_E_VALUE, "%s: tensors must be dense, this one is of layout %s", name, td_layout_name(td_tensor_layout(x)));
    if (td_tensor_dtype(x) != td_tensor_dtype(first) || device.type != other.type || device.index != other.index)
        return td_error(TD_E_TYPE, "%s: tensors must be of one dtype and on one device, not %s and %s", name, td_dtype_name(td_tensor_dtype(first)),
                        td_dtype_name(td_tensor_dtype(x)));
    if (!(work->group->engine->devices >> device.type & 1)) {
        char text[32];
        return td_error(TD_E_RUNTIME, "%s: engine '%s' of groups doesn't move tensors on %s", name, work->group->engine->name,
                        td_device_str(device, text));
    }
    td_operand *operand = &work->operands[i];
    operand->x = td_tensor_retain(x);
    if (td_tensor_is_contiguous(x))
        return 0;
    operand->copy = td_tensor_new(td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_dtype(x), device);
    if (!operand->copy)
        return -1;
    return is_from || call->kind == TD_BROADCAST ? td_copy_elements(operand->copy, x) : 0;
}

static void drop_work(td_work *work)
{
    work->state = TD_WORK_FAILED;
    td_work_release(work);
}

/* Whatever the size of the group: one process alone wouldn't notice. NCCL's averages of integers are integers, which it divides itself. */
static int check_reduction(const td_group_call *call, const td_tensor *x)
{
    static const char *const bitwise[TD_REDUCTIONS] = {[TD_REDUCE_BAND] = "BAND", [TD_REDUCE_BOR] = "BOR", [TD_REDUCE_BXOR] = "BXOR"};
    const td_dtype dtype = td_tensor_dtype(x);
    const bool reduces = call->kind == TD_ALL_REDUCE || call->kind == TD_REDUCE || call->kind == TD_REDUCE_SCATTER;
    const bool whole = td_dtype_is_integral(dtype) || dtype == TD_BOOL;
    if (reduces && bitwise[call->reduction] && !whole)
        return td_error(TD_E_RUNTIME, "%s: Cannot use ReduceOp.%s with non-integral dtype %s", td_collective_names[call->kind], bitwise[call->reduction],
                        td_dtype_name(dtype));
    if (reduces && call->reduction == TD_REDUCE_AVG && whole && td_tensor_device(x).type == TD_CPU)
        return td_error(TD_E_RUNTIME, "%s: an average is a quotient, and result type Float can't be cast to the desired output type %s",
                        td_collective_names[call->kind], td_dtype_title(dtype));
    return 0;
}

td_work *td_group_start(td_group *group, const td_group_call *given)
{
    td_group_call call = {0};
    if (!group || !given)
        return NULL;
    memcpy(&call, given, given->size < sizeof call ? given->size : sizeof call);
    if (call.kind < 0 || call.kind >= TD_COLLECTIVES)
        return td_fail(TD_E_VALUE, "td_group_start: there is no call %d", (int)call.kind);
    if (check_call(group, &call))
        return NULL;
    const int n = call.n_from + call.n_to;
    td_work *work = td_mem_alloc_zero(sizeof *work + sizeof(td_operand) * (size_t)n);
    if (!work)
        return NULL;
    work->group = td_group_retain(group);
    pthread_mutex_init(&work->lock, NULL);
    work->refcount = 1, work->kind = call.kind, work->root = call.root, work->source = -1, work->gone = -1;
    work->n_from = call.n_from, work->n_operands = n;
    work->began = td_nanoseconds();
    work->deadline = work->began + (int64_t)((call.timeout > 0 ? call.timeout : group->timeout) * 1e9);
    for (int i = 0; i < n; i++)
        if (take(work, &call, i)) {
            drop_work(work);
            return NULL;
        }
    if (n && check_reduction(&call, work->operands[0].x)) {
        drop_work(work);
        return NULL;
    }
    td_part space[STACK_PARTS], *parts = n <= STACK_PARTS ? space : td_mem_alloc(sizeof *parts * (size_t)n);
    bool there = parts != NULL;
    for (int i = 0; there && i < n; i++) {
        td_tensor *x = work->operands[i].copy ? work->operands[i].copy : work->operands[i].x;
        parts[i] = (td_part){td_tensor_data(x), td_tensor_numel(x)};
        there = parts[i].data || !parts[i].count;           /* what is late is computed now, which may fail */
        if (there && i >= call.n_from)
            td_tensor_count_write(work->operands[i].x);
    }
    td_tensor *first = n ? work->operands[0].x : NULL;
    const td_device device = first ? td_tensor_device(first) : (td_device){TD_CPU, -1};
    td_stream *stream = device.type == TD_CPU ? NULL : td_stream_current(device);
    td_engine_call passed = {.size = sizeof passed, .kind = call.kind, .dtype = first ? td_tensor_dtype(first) : TD_U8, .device = device,
                             .stream = stream ? td_stream_handle(stream) : NULL, .n_from = call.n_from, .n_to = call.n_to,
                             .from = parts, .to = parts ? parts + call.n_from : NULL, .reduction = call.reduction, .factor = call.factor, .root = call.root, .tag = call.tag};
    if (there && (stream || device.type == TD_CPU))
        work->request = group->engine->call[call.kind](group->handle, &passed);
    if (parts && parts != space)
        td_mem_free(parts, sizeof *parts * (size_t)n);
    if (!work->request || (call.later && td_work_later(work))) {
        drop_work(work);
        return NULL;
    }
    return work;
}

/* ---- the common calls */

static int finish(td_work *work)
{
    const int status = work ? td_work_wait(work, 0, NULL, NULL) : -1;
    td_work_release(work);
    return status;
}
#define CALL(...) finish(td_group_start(group, &(td_group_call){.size = sizeof(td_group_call), __VA_ARGS__}))

int td_group_all_reduce(td_group *group, td_tensor *x, td_reduction reduction)
{
    return CALL(.kind = TD_ALL_REDUCE, .n_from = 1, .from = &x, .n_to = 1, .to = &x, .reduction = reduction);
}
int td_group_broadcast(td_group *group, td_tensor *x, int root) { return CALL(.kind = TD_BROADCAST, .n_to = 1, .to = &x, .root = root); }
int td_group_all_gather(td_group *group, td_tensor *const *to, td_tensor *x)
{
    return CALL(.kind = TD_ALL_GATHER, .n_from = 1, .from = &x, .n_to = group ? group->size : 0, .to = to);
}
int td_group_reduce_scatter(td_group *group, td_tensor *to, td_tensor *const *from, td_reduction reduction)
{
    return CALL(.kind = TD_REDUCE_SCATTER, .n_from = group ? group->size : 0, .from = from, .n_to = 1, .to = &to, .reduction = reduction);
}
int td_group_send(td_group *group, td_tensor *x, int to) { return CALL(.kind = TD_SEND, .n_from = 1, .from = &x, .root = to); }
int td_group_recv(td_group *group, td_tensor *x, int from) { return CALL(.kind = TD_RECV, .n_to = 1, .to = &x, .root = from); }
int td_group_barrier(td_group *group) { return CALL(.kind = TD_BARRIER, .n_from = 0); }
