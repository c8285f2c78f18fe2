/* Devices from outside, as the layers see them: see <tede/device.h>. */
#ifndef TD_DEVICE_DEVICE_H
#define TD_DEVICE_DEVICE_H
#include <pthread.h>
#include <tede/device.h>
#include "base/base.h"

/* Whether any device has been loaded. */
extern bool td_any_device;
/* By type; NULL where nothing is loaded.  Whole tables, however much of one the library had. */
extern const td_device_library *td_devices[TD_DEVICE_TYPES];
static inline const td_device_library *td_device_of(int type)
{
    return (unsigned)type < TD_DEVICE_TYPES ? __atomic_load_n(&td_devices[type], __ATOMIC_ACQUIRE) : NULL;
}
static inline bool td_is_outside(td_device device) { return device.type > TD_META; }
/* Whether the core's kernels for accelerators run on it. */
static inline bool td_has_programs(td_device device)
{
    const td_device_library *library = td_is_outside(device) ? td_device_of(device.type) : NULL;
    return library && library->launch;
}

/* Load the library that comes with tede for a type: 0; 1 where there is none, no error recorded; -1.  In src/dispatch/load.c, which knows of
 * operators, too. */
int td_device_load_type(int type);

/* Give a device that is being loaded what each of its indices has: a generator, a first stream, a pool of memory. */
int td_device_prepare(int type, int count, bool has_programs);
int td_streams_prepare(int type, int count);
int td_device_memory_prepare(int type, int count);

/* ---- waits of the core's own, which raise nothing that kernels have noted: as td_stream_synchronize, td_event_record and td_event_synchronize */
int td_stream_drain(td_stream *stream);
int td_event_mark(td_event *event, td_stream *stream);
int td_event_drain(td_event *event);

/* ---- graphs: src/device/graph.c */

/* The graph that a stream records; NULL. */
td_graph *td_stream_graph(const td_stream *stream);
void      td_stream_set_graph(td_stream *stream, td_graph *graph);
/* A number of this recording. */
uint64_t  td_graph_serial(const td_graph *graph);
/* The stream that the recording began on, whose record of errors all of its streams use; and that a kernel may note one. */
td_stream *td_graph_stream(const td_graph *graph);
void       td_graph_notes(td_graph *graph);
/* For a random kernel: seed and offset, which advances by n; while the device's current stream records a graph they are relative to the two words, seed and
 * offset / 4, at *state, which each launch sets; else *state is NULL. */
int td_graph_reserve(td_device device, td_generator *g, uint64_t n, uint64_t *seed, uint64_t *offset, void **state);

/* ---- memory of devices, and page-locked memory of the CPU: src/device/memory.c, src/device/pinned.c */

/* A block for the current stream; NULL with an error. */
void *td_device_block_new(td_device device, size_t nbytes);
void  td_device_block_free(td_device device, void *block, size_t nbytes);
/* A stream of the device begins (1) or ends (-1) to record: until then events aren't asked. */
void  td_device_memory_recording(td_device device, int change);
/* What a graphs' pool has is everybody's from now on; all that used it has happened. */
void  td_device_memory_disown(td_device device, uint64_t pool);
/* The live block that starts at this address is used on the stream, too. */
int   td_device_block_used_on(void *block, td_stream *stream);

void *td_pinned_new(td_device device, size_t nbytes);
void  td_pinned_free(void *block);
int   td_pinned_used_on(void *block, td_stream *stream);

/* ---- copies of bytes, ordered on the current stream of the device that takes part; between two indices, of the target.
 * `later`: memory on the CPU is page-locked and stays until the stream has passed. */
int td_device_copy_bytes(td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes, bool later);

/* Bytes of the device's memory, on its current stream: 0; 1 where the device can't; -1. */
int td_device_fill_bytes(td_device device, void *to, uint8_t byte, size_t nbytes);

/* ---- errors that kernels find: src/device/late.c */

/* A stream's record: 64-bit words of the device's memory.  `TAKEN`, of which 32 bits count, is 0 while nothing is noted. */
enum { TD_LATE_TAKEN, TD_LATE_KIND, TD_LATE_INDEX, TD_LATE_SIZE, TD_LATE_WORDS };
typedef struct td_late {
    pthread_mutex_t lock;
    void           *record;
    int64_t        *seen;           /* the CPU's copy */
    td_stream      *also;           /* what it waits for next: a stream whose record kernels of a graph use that was launched here */
    bool            armed;          /* a kernel that may note something was launched since it was read */
} td_late;
td_late *td_stream_late(td_stream *stream);

/* A number for what is said of an index, from 1 on: `text` is a literal that prints the index and the size as %lld, in this order; NULL: that the index is
 * out of bounds for dimension `dim`.  `op`, a literal too, is the operator's name. */
int   td_late_kind(td_code code, const char *op, const char *text, int dim);
/* The address of the record that a kernel gets; NULL with an error. */
void *td_late_record(td_stream *stream);
/* After the launch of a kernel that has the record. */
void  td_late_arm(td_stream *stream);
/* A graph that was recorded on `recorder`, with such kernels, was launched on the stream. */
void  td_late_follow(td_stream *stream, td_stream *recorder);
/* Around whatever waits for the stream: 0 or -1.  The end raises what has been noted, unless the wait had another error, `status`;
 * `waited`: all that the stream was asked for is done. */
int   td_late_begin(td_stream *stream, bool *reading);
int   td_late_end(td_stream *stream, bool waited, bool reading, int status);
/* The record as it is when the stream comes here, for an event, if a kernel may have noted something.  *seen is the event's, NULL at first. */
int   td_late_snapshot(td_stream *stream, int64_t **seen);
void  td_late_forget(td_device device, int64_t *seen);

/* ---- programs: src/device/program.c */

/* A kernel that is built when it is first launched.  Kernels of a device are told apart by `key`; `source` prints the text with
 * the kernel `name` in it (td_formula_print).  NULL with an error.  What is returned stays for ever. */
typedef char *td_kernel_source(td_device device, const void *context);
void *td_device_kernel(td_device device, const void *key, size_t key_size, const char *name, td_kernel_source *source, const void *context);
/* How many work items a group of the device's has. */
int   td_device_lanes(td_device device);
/* The device's library is queried once. */
const td_device_properties *td_device_known(td_device device);
/* Whether the device has kernels for a dtype: doubles are optional in OpenCL, complex numbers have no type in OpenCL C and CUDA C. */
bool td_device_computes(td_device device, td_dtype dtype);
/* So many groups on the current stream, of td_device_lanes work items or of `lanes`. */
int   td_device_launch(td_device device, void *kernel, int64_t groups, int n_arguments, const td_kernel_argument *arguments);
int   td_device_launch_lanes(td_device device, void *kernel, int64_t groups, int lanes, int n_arguments, const td_kernel_argument *arguments);
/* A product by the vendor's library on the current stream: 0; 1 where there is none that takes it, and the caller launches a kernel; -1. */
int   td_device_product(td_device device, const td_product *product);
int   td_device_fused_product(td_device device, const td_fused_product *product);
int   td_device_convolution(td_device device, const td_convolution_call *convolution);
int   td_device_attention(td_device device, const td_attention_call *attention);
int   td_device_fft(td_device device, const td_fft_call *fft);
int   td_device_factor(td_device device, const td_factor_call *factor);

#endif
