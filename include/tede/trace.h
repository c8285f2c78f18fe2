/* tede/trace.h: watching what a thread's calls do.
 *
 * A watcher is a function that is notified of what the calls of one thread do: operators, the loops that
 * they choose, how the iterator traverses its operands, memory allocated and freed, copies that nobody asked for, calls of libraries,
 * nodes of a backward pass.  tede.explain() and the profiler are watchers.
 *
 * Without a watcher nothing of this costs anything: operators are watched through a dispatch key, memory by disabling
 * the thread's fast path to the allocator, loops by forgetting which instruction set was found; the rest is one test
 * of a thread-local where a call is already slow. */
#ifndef TEDE_TRACE_H
#define TEDE_TRACE_H
#include <tede/dispatch.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_event_kind {
    TD_EVENT_CALL,        /* an operator begins: op, keys, n values (its arguments); pointer: the device's kernel, or NULL */
    TD_EVENT_RETURN,      /* it ends: op, n values (its results; none after a failure) */
    TD_EVENT_LOOP,        /* a pointwise loop was chosen: name, pointer (the function), numbers: instruction set, column */
    TD_EVENT_ITERATE,     /* the iterator runs: n sizes that are left after merging (fastest first), strides in bytes by
                             operand (numbers[0] operands); numbers[1]: dimensions before */
    TD_EVENT_PARALLEL,    /* a loop was cut: numbers: length, grain, threads that may take part (1: not cut) */
    TD_EVENT_ALLOCATE,    /* numbers[0] bytes, as the allocator counts them; pointer: the block; name: of the device, or NULL */
    TD_EVENT_FREE,        /* the same */
    TD_EVENT_COPY,        /* a kernel needed a contiguous operand or another dtype: tensor, name: why, numbers[0] bytes */
    TD_EVENT_LIBRARY,     /* name of the foreign function, numbers: its sizes */
    TD_EVENT_NODE,        /* backward: a node begins; name, pointer: the node; numbers[0]: its place in the order, -1: a leaf */
    TD_EVENT_NODE_END,    /* it ends; numbers[0]: saved tensors that it released */
    TD_EVENT_SAVE,        /* a tensor is saved for backward: tensor, name: of the node */
    TD_EVENT_FALLBACK,    /* a device's call is computed on the CPU: op, name: why, numbers: the device's type, bytes that were copied to the CPU */
} td_event_kind;

typedef struct td_trace_event {
    td_event_kind    kind;
    int64_t          time;             /* nanoseconds of the monotonic clock */
    const char      *name;
    const td_op     *op;
    td_keyset        keys;
    const void      *pointer;
    const td_tensor *tensor;
    int              n;
    const td_value  *values;
    const int64_t   *sizes, *strides;  /* strides: numbers[0] rows of TD_TRACE_DIMS */
    int64_t          numbers[4];
} td_trace_event;
enum { TD_TRACE_DIMS = 64 };

/* All that an event points to is borrowed and valid during the call.  What a watcher does itself is no event. */
typedef void td_watcher(const td_trace_event *event, void *context);

/* Notify `watcher` of this thread's calls from now on; NULL ends that.  0, or -1 if there is one already. */
TD_API int td_watch(td_watcher *watcher, void *context) TD_MUST_USE;

/* ---- recording calls, to run them again --------------------------------------------------------------------------
 *
 * A recording holds the calls that a thread makes, by schema, at the level at which the program makes them: what
 * operators make of each other isn't in it, and it is made above autograd, so that what is played again has gradients as
 * calls have.  Tensors that are neither inputs nor results of what was recorded are held as constants.  Decisions that the
 * program took between the calls (branches, numbers read by td_tensor_item) are as they were. */
typedef struct td_recording td_recording;
/* Record this thread's calls from now on; inputs are what a replay replaces.  NULL with an error if it is watched or
 * recorded already. */
TD_API td_recording *td_record_begin(int n_inputs, td_tensor *const *inputs);
/* Stop, and say what a replay returns.  -1 if the recording was of another thread, had failed (out of
 * memory) or an output is no tensor that it has seen; it can only be released then. */
TD_API int  td_record_end(td_recording *r, int n_outputs, td_tensor *const *outputs) TD_MUST_USE;
/* Also ends it, if that wasn't done.  NULL is fine. */
TD_API void td_recording_release(td_recording *r);

/* Make the calls again: as many inputs as there were, owned results for as many outputs. */
TD_API int td_recording_play(const td_recording *r, td_tensor *const *inputs, td_tensor **outputs) TD_MUST_USE;
TD_API int td_recording_inputs(const td_recording *r);
TD_API int td_recording_outputs(const td_recording *r);
TD_API int td_recording_calls(const td_recording *r);
TD_API const td_op *td_recording_call(const td_recording *r, int i);
/* The graph as text, a line per call; td_string_free the result. */
TD_API char *td_recording_str(const td_recording *r);

/* Strict views: while it is on, what would copy where a view was to be expected, or copy an operand on the way to a
 * kernel, fails instead (TD_E_RUNTIME) and says what doesn't fit.  For this thread; returns what it was. */
TD_API bool td_set_strict_views(bool on);

#ifdef __cplusplus
}
#endif
#endif
