/* What is known of devices from outside while calls run: the tables by type, the current indices, the generators.
 *
 * Loading, which knows of operators too, is in src/dispatch/load.c.  A table is shown once it is whole and never taken
 * away, so reading it needs no lock. */
#include "tensor/device.h"

#include <stdlib.h>

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

/* A device whose library isn't loaded. Programs look for PyTorch's words. */
static int not_loaded(td_device device)
{
    char name[32];
    switch (device.type) {
    case TD_CUDA: return td_error(TD_E_ASSERTION, "Torch not compiled with CUDA enabled");
    case TD_XPU: return td_error(TD_E_ASSERTION, "Torch not compiled with XPU enabled");
    case TD_MPS: return td_error(TD_E_RUNTIME, "PyTorch is not linked with support for mps devices");
    default: return td_error(TD_E_RUNTIME, "no memory of device %s: its library isn't loaded", td_device_str(device, name));
    }
}

int td_device_resolve(td_device *device)
{
    if (device->type <= TD_META)
        return 0;
    if (!td_device_of(device->type))
        return not_loaded(*device);
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

int td_device_synchronize(td_device device)
{
    if (td_device_resolve(&device))
        return -1;
    const td_device_library *library = td_device_of(device.type);
    return library && library->synchronize ? library->synchronize(device.index) : 0;
}

int td_device_make_generators(int type, int count)
{
    td_generator **made = calloc((size_t)count, sizeof *made);
    bool good = made != NULL;
    for (int i = 0; i < count && good; i++)
        good = (made[i] = td_generator_new()) != NULL;
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
