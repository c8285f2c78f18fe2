/* What is known of devices from outside while calls run: the tables by type, the current indices, the generators, copies of bytes.
 *
 * Loading, which knows of operators too, is in src/dispatch/load.c.  A table is shown once it is whole and never taken
 * away, so reading it needs no lock. */
#include "device/device.h"
#include "device/follow.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/counter.h>

bool td_any_device;
const td_device_library *td_devices[TD_DEVICE_TYPES];
static td_generator    **generators[TD_DEVICE_TYPES];
static _Thread_local int8_t current[TD_DEVICE_TYPES];

int td_device_find(const char *name)
{
    for (int type = 0; type < TD_DEVICE_TYPES; type++) {
        const char *own = td_device_name(type);
        if (own && name && !strcmp(own, name))
            return type;
    }
    return -1;
}

int td_device_count(int type)
{
    const td_device_library *device = td_device_of(type);
    return type == TD_CPU ? 1 : device ? device->count() : 0;
}

int td_device_current(int type) { return type > TD_META && type < TD_DEVICE_TYPES ? current[type] : 0; }

/* A device whose library isn't loaded: the first use loads it. Programs look for PyTorch's words. */
static int load_now(td_device device)
{
    char name[32], why[512] = "";
    int status = td_device_load_type(device.type);
    if (status == 0)
        return 0;
    if (status < 0 && device.type != TD_CUDA)
        return -1;
    if (status < 0)
        snprintf(why, sizeof why, " (%s)", td_error_message());
    switch (device.type) {
    case TD_CUDA:
        return td_error(TD_E_ASSERTION, "Torch not compiled with CUDA enabled%s. The same program runs on the CPU: choose the device by "
                        "'cuda' if torch.cuda.is_available() else 'cpu'", why);
    case TD_XPU: return td_error(TD_E_ASSERTION, "Torch not compiled with XPU enabled");
    case TD_MPS: return td_error(TD_E_RUNTIME, "PyTorch is not linked with support for mps devices");
    default: return td_error(TD_E_RUNTIME, "no memory of device %s: its library isn't loaded", td_device_str(device, name));
    }
}

int td_device_resolve(td_device *device)
{
    if (device->type <= TD_META)
        return 0;
    if (!td_device_of(device->type) && load_now(*device))
        return -1;
    if (device->index < 0)
        device->index = current[device->type];
    int count = td_device_count(device->type);
    if (device->index < count)
        return 0;
    char name[32];
    return td_error(TD_E_RUNTIME, "%s: invalid device ordinal: there %s %d, numbered from 0", td_device_str(*device, name),
                    count == 1 ? "is" : "are", count);
}

int td_device_set_current(td_device device)
{
    if (td_device_resolve(&device))
        return -1;
    if (device.type > TD_META)
        current[device.type] = device.index;
    return 0;
}

td_generator *td_device_generator_new(td_device device) { return td_has_programs(device) ? td_generator_new_counter() : td_generator_new(); }

static int make_generators(int type, int count, bool has_programs)
{
    td_generator **made = calloc((size_t)count, sizeof *made);
    bool good = made != NULL;
    for (int i = 0; i < count && good; i++)
        good = (made[i] = has_programs ? td_generator_new_counter() : td_generator_new()) != NULL;
    if (!good) {
        for (int i = 0; made && i < count; i++)
            td_generator_release(made[i]);
        free(made);
        return td_error(TD_E_MEMORY, "no memory for a device's generators");
    }
    for (int i = 0; i < count; i++)
        td_generator_seed_random(made[i]);
    __atomic_store_n(&generators[type], made, __ATOMIC_RELEASE);
    return 0;
}

td_generator *td_device_generator(td_device device)
{
    if (device.type <= TD_META || td_device_resolve(&device))
        return td_default_generator();
    return __atomic_load_n(&generators[device.type], __ATOMIC_ACQUIRE)[device.index];
}

int td_device_prepare(int type, int count, bool has_programs)
{
    return make_generators(type, count, has_programs) || td_streams_prepare(type, count) || td_device_memory_prepare(type, count) ? -1 : 0;
}

/* Where a library fails and records no error, one is recorded here. */
int td_device_copy_bytes(td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes, bool later)
{
    td_device device = to_device.type > TD_META ? to_device : from_device;
    const td_device_library *library = td_device_of(device.type);
    const bool itself = to == from && to_device.type == from_device.type && to_device.index == from_device.index;
    if (nbytes == 0 || itself)          /* which OpenCL refuses */
        return 0;
    if (!library)
        return td_error(TD_E_RUNTIME, "a copy between devices of which neither is loaded");
    /* What comes to the CPU raises what kernels have noted (late.c). */
    const bool waits = to_device.type <= TD_META && !later;
    int status;
    if (library->transfer) {
        td_stream *stream = td_stream_current(device);
        const bool both = to_device.type == from_device.type;
        /* What the other index is still to do to either end comes first, and what it does next comes after. */
        td_stream *other = both && to_device.index != from_device.index ? td_stream_current(from_device) : stream;
        bool reading = false;
        status = !stream || !other || td_stream_wait(stream, other) || (waits && td_late_begin(stream, &reading)) ||
                 (both && other == stream ? td_stream_ask(stream, &(td_request){TD_ASK_COPY, to, from, (int64_t)nbytes, 0, 0, NULL})
                                          : td_stream_settle(stream) || library->transfer(device, td_stream_raw(stream), to_device, to, from_device, from, nbytes,
                                                                                          later || both)) ||
                 td_stream_wait(other, stream) ? -1 : 0;
        status = stream ? td_late_end(stream, waits, reading, status) : status;
    } else {
        td_stream *stream = waits ? td_stream_first(device) : NULL;
        bool reading = false;
        status = (stream && td_late_begin(stream, &reading)) || library->copy(to_device, to, from_device, from, nbytes) ? -1 : 0;
        status = stream ? td_late_end(stream, waits, reading, status) : status;
    }
    if (status != 0 && td_error_code() == TD_OK)
        td_error(TD_E_RUNTIME, "%s: a copy of %lld bytes failed, for no reason given", library->name, (long long)nbytes);
    return status;
}

int td_device_fill_bytes(td_device device, void *to, uint8_t byte, size_t nbytes)
{
    const td_device_library *library = td_device_of(device.type);
    if (!library || !library->fill)
        return 1;
    td_stream *stream = td_stream_current(device);
    const int status = stream ? td_stream_ask(stream, &(td_request){TD_ASK_FILL, to, NULL, (int64_t)nbytes, 0, byte, NULL}) : -1;
    if (status != 0 && td_error_code() == TD_OK)
        td_error(TD_E_RUNTIME, "%s: %lld bytes can't be filled, for no reason given", library->name, (long long)nbytes);
    return status ? -1 : 0;
}
