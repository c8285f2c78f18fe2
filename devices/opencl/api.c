/* Opens OpenCL's loader, which finds the installed OpenCL platforms, and looks its functions up. */
#include "api.h"

#include <dlfcn.h>
#include <tede/base.h>

#define POINTER(result, name, arguments) result (*name) arguments;
OPENCL_FUNCTIONS(POINTER)

int opencl_open(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libOpenCL.so", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return td_error(TD_E_RUNTIME, "opencl: there is no OpenCL loader (%s); on Debian it is in ocl-icd-libopencl1", dlerror());
#define LOOK_UP(result, name, arguments) \
    if (!(name = (result (*) arguments)dlsym(library, #name))) \
        return td_error(TD_E_RUNTIME, "opencl: the OpenCL loader has no function %s: is it older than OpenCL 1.2?", #name);
    OPENCL_FUNCTIONS(LOOK_UP)
    return 0;
}

const char *opencl_error(cl_int status)
{
    static const struct { cl_int number; const char *name; } names[] = {
#define NAME(name, number) {number, #name},
        OPENCL_NUMBERS(NAME)
    };
    for (size_t i = 0; i < sizeof names / sizeof *names && status < 0; i++)
        if (names[i].number == status)
            return names[i].name;
    return "an unknown error";
}
