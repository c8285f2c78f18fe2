/* tede/device.h: devices from outside.
 *
 * A device is a table of functions under a name: how memory is allocated and freed, how bytes travel, how many there are.
 * With these alone every operator works on it, through the CPU: operands are copied there, results are copied back
 * (td_cpu_fallback, which the device registers for itself if it wants that).  What is worth it gets native kernels,
 * by td_register_kernel and td_register_boxed for (TD_KEY_DENSE, type).
 *
 * A loadable library exports the table as a symbol:
 *
 *     TD_EXPORT_DEVICE = {
 *         .abi = TD_DEVICE_ABI, .size = sizeof(td_device_library), .name = "toy", .count = count, .start = start,
 *         .alloc = alloc, .free = give_back, .copy = copy, .synchronize = synchronize,
 *     };
 *
 * td_device_load opens it; from then on "toy:1" names a device.  A library stays loaded until the process ends.  A
 * pointer to a device's memory is only ever handed to the device's own functions.
 *
 * A device may run its kernels later, in the order of the calls, as long as nobody can tell: copy waits when one end is
 * the CPU, free must not take memory away from what is still to run, synchronize waits for all of it.  An error of
 * a kernel that has run late is reported by the next call that waits. */
#ifndef TEDE_DEVICE_H
#define TEDE_DEVICE_H
#include <tede/dispatch.h>
#include <tede/random.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TD_DEVICE_ABI 1
#define TD_DEVICE_SYMBOL "tede_device"
#ifdef __cplusplus
#define TD_EXPORT_DEVICE extern "C" TD_API const td_device_library tede_device
#else
#define TD_EXPORT_DEVICE TD_API const td_device_library tede_device
#endif

/* Functions that fail record an error (td_error, td_fail).  `device` always has an index below count().  Any thread may
 * call any of them, also two at once. */
typedef struct td_device_library {
    uint32_t    abi;                     /* TD_DEVICE_ABI */
    uint32_t    size;                    /* sizeof(td_device_library): what the table that you were built with has */
    const char *name;                    /* letters, digits and underscores, at most 15: "toy" */
    int       (*count)(void);            /* how many there are, 1 to 127 */
    /* Called once, with the number that stands for the device in td_device.type and in registrations; 0 or -1.  NULL:
     * nothing to do. */
    int       (*start)(int type);
    /* `nbytes` (not 0) of memory, aligned for any element; NULL with an error. */
    void     *(*alloc)(td_device device, size_t nbytes);
    void      (*free)(td_device device, void *block, size_t nbytes);
    /* Copy bytes between this device and the CPU, in either direction, or within it, from one index to another too.  When it
     * returns the CPU's memory may be used again. 0 or -1. */
    int       (*copy)(td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes);
    /* Wait for all that was asked of one index; 0, or -1 with what went wrong meanwhile.  NULL: nothing is ever late. */
    int       (*synchronize)(int index);
} td_device_library;

/* Load a device from a shared library; its type, or -1 with an error that says what is wrong with it. */
TD_API int td_device_load(const char *path);
/* The same of a table in this program; it must stay. */
TD_API int td_device_register(const td_device_library *library);

/* The type of a device by name: 0 for "cpu", ...; -1 if nobody has that name, no error recorded. */
TD_API int td_device_find(const char *name);
/* How many of a type there are: 1 for the CPU, 0 for what isn't loaded. */
TD_API int td_device_count(int type);
/* The index that stands for "no index" on this thread, 0 at first. */
TD_API int td_device_current(int type);
TD_API int td_device_set_current(td_device device) TD_MUST_USE;
/* Give the device an index if it has none; -1 with an error if there is no such device. */
TD_API int td_device_resolve(td_device *device) TD_MUST_USE;
/* Wait for all that was asked of it (index -1: the current one).  Devices that are never late have nothing to wait for. */
TD_API int td_device_synchronize(td_device device) TD_MUST_USE;
/* The generator that random operators take on a device when none is given; for the CPU td_default_generator().  Borrowed. */
TD_API td_generator *td_device_generator(td_device device);

/* A boxed fallback for a device: copies operands to the CPU, calls the operator there, copies back what it wrote and what it
 * gives.  Register it with td_register_fallback(TD_KEY_DENSE, type, td_cpu_fallback, NULL).  Views, allocations and
 * operators that are made of others don't come here: they work on any device. */
TD_API int td_cpu_fallback(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context) TD_MUST_USE;
/* How many calls it has taken, since the process began. */
TD_API int64_t td_cpu_fallback_count(void);

#ifdef __cplusplus
}
#endif
#endif
