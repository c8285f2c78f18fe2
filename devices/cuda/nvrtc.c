/* Programs: source text to machine code by NVRTC, and to a module of the driver's.
 *
 * NVRTC compiles for the device's own kind of machine code (a cubin).  A device that is newer than NVRTC gets PTX, which the
 * driver translates. */
#include "vendor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTIONS = 16 };
#define POINTER(result, name, arguments) static result (*name) arguments;
NVRTC_FUNCTIONS(POINTER)
static const cuda_function functions[] = {NVRTC_FUNCTIONS(CUDA_LISTED){NULL}};
static cuda_vendor library = {.name = "nvrtc", .functions = functions, .lock = PTHREAD_MUTEX_INITIALIZER};

static int nvrtc_failed(const char *what, nvrtcResult status)
{
    return td_error(TD_E_RUNTIME, "cuda: %s failed: %s (%d)", what, nvrtcGetErrorString(status), (int)status);
}
#define NVRTC_TRY(what, call) do { nvrtcResult status_ = (call); if (status_ != 0) return nvrtc_failed(what, status_); } while (0)

/* "--gpu-architecture=sm_90", or compute_89 for PTX that a newer device understands. */
static int architecture_option(int wanted, char *option, size_t size, bool *ptx)
{
    int n = 0, known[128], best = 0;
    NVRTC_TRY("asking NVRTC what it compiles for", nvrtcGetNumSupportedArchs(&n));
    if (n > (int)(sizeof known / sizeof *known))
        n = 0;
    if (n > 0)
        NVRTC_TRY("asking NVRTC what it compiles for", nvrtcGetSupportedArchs(known));
    for (int i = 0; i < n; i++)
        if (known[i] <= wanted && known[i] > best)
            best = known[i];
    if (best == 0)
        return td_error(TD_E_RUNTIME, "cuda: this NVRTC doesn't compile for compute capability %d.%d any more", wanted / 10, wanted % 10);
    *ptx = best != wanted;
    snprintf(option, size, "--gpu-architecture=%s_%d", *ptx ? "compute" : "sm", best);
    return 0;
}

static int compile(nvrtcProgram program, const char *architecture, const char *options)
{
    char words[512];
    const char *list[OPTIONS] = {architecture};
    int n = 1;
    snprintf(words, sizeof words, "%s", options ? options : "");
    for (char *rest = words, *word; n < OPTIONS && (word = strtok_r(rest, " ", &rest));)
        list[n++] = word;
    nvrtcResult status = nvrtcCompileProgram(program, n, list);
    if (status == 0)
        return 0;
    size_t size = 0;
    char *log = nvrtcGetProgramLogSize(program, &size) == 0 && size ? calloc(size + 1, 1) : NULL;
    if (!log || nvrtcGetProgramLog(program, log) != 0)
        nvrtc_failed("compiling a program", status);
    else
        td_error(TD_E_RUNTIME, "cuda: a program doesn't compile (%s): %.1500s", nvrtcGetErrorString(status), log);
    free(log);
    return -1;
}

static int read_code(nvrtcProgram program, bool ptx, td_binary *binary)
{
    NVRTC_TRY("reading a program", ptx ? nvrtcGetPTXSize(program, &binary->size) : nvrtcGetCUBINSize(program, &binary->size));
    if (!(binary->data = malloc(binary->size + 1)))
        return td_error(TD_E_MEMORY, "cuda: no memory for a program of %zu bytes", binary->size);
    ((char *)binary->data)[binary->size] = 0;
    nvrtcResult status = ptx ? nvrtcGetPTX(program, binary->data) : nvrtcGetCUBIN(program, binary->data);
    if (status == 0)
        return 0;
    free(binary->data);
    *binary = (td_binary){0};
    return nvrtc_failed("reading a program", status);
}

static int translate(td_device device, const char *source, const char *options, td_binary *binary)
{
    nvrtcProgram program = NULL;
    char architecture[64];
    bool ptx = false;
    if (cuda_need(&library) || architecture_option(cuda_architecture(device.index), architecture, sizeof architecture, &ptx))
        return -1;
    NVRTC_TRY("making a program", nvrtcCreateProgram(&program, source, "tede.cu", 0, NULL, NULL));
    int status = compile(program, architecture, options) || read_code(program, ptx, binary) ? -1 : 0;
    nvrtcDestroyProgram(&program);
    return status;
}

void *cuda_build(td_device device, const char *source, const char *options, td_binary *binary)
{
    const bool again = binary->data != NULL;
    CUmodule module = NULL;
    if (cuda_enter(device.index) || (!again && translate(device, source, options, binary)))
        return NULL;
    CUresult status;
    CUDA_UNRECORDED(status, cuModuleLoadData(&module, binary->data));
    if (status != CUDA_SUCCESS && !again)
        cuda_failed("loading a program", status);
    return module;
}
