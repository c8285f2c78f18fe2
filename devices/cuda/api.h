/* What is used of CUDA's driver and of NVRTC, declared here: nothing of CUDA need be there to compile this, and its libraries are opened at
 * run time.
 *
 * Names, types and numbers are those of NVIDIA's documentation; the tests compare them with cuda.h and nvrtc.h where those are installed. A
 * function is a pointer of its own name: those of the driver are set by cuda_open(), those of NVRTC (nvrtc.c) when the first program is built. */
#ifndef TEDE_CUDA_API_H
#define TEDE_CUDA_API_H
#include <stdbool.h>
#include <stddef.h>

#define CUDA_NUMBERS(NUMBER) \
    NUMBER(CUDA_SUCCESS, 0) NUMBER(CUDA_ERROR_OUT_OF_MEMORY, 2) NUMBER(CUDA_ERROR_NO_DEVICE, 100) NUMBER(CUDA_ERROR_NOT_READY, 600) NUMBER(CU_STREAM_CAPTURE_MODE_RELAXED, 2) \
    NUMBER(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, 704) \
    NUMBER(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1) NUMBER(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 8) \
    NUMBER(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 16) NUMBER(CU_DEVICE_ATTRIBUTE_INTEGRATED, 18) \
    NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 75) NUMBER(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 76) \
    NUMBER(CU_MEMHOSTALLOC_PORTABLE, 1) NUMBER(CU_STREAM_NON_BLOCKING, 1) NUMBER(CU_EVENT_DEFAULT, 0) NUMBER(CU_EVENT_DISABLE_TIMING, 2)

#define CUDA_FUNCTIONS(F) \
    F(CUresult, cuGetErrorName, (CUresult, const char **)) \
    F(CUresult, cuInit, (unsigned)) \
    F(CUresult, cuDriverGetVersion, (int *)) \
    F(CUresult, cuDeviceGetCount, (int *)) \
    F(CUresult, cuDeviceGet, (CUdevice *, int)) \
    F(CUresult, cuDeviceGetName, (char *, int, CUdevice)) \
    F(CUresult, cuDeviceTotalMem_v2, (size_t *, CUdevice)) \
    F(CUresult, cuDeviceGetAttribute, (int *, CUdevice_attribute, CUdevice)) \
    F(CUresult, cuDeviceCanAccessPeer, (int *, CUdevice, CUdevice)) \
    F(CUresult, cuDevicePrimaryCtxRetain, (CUcontext *, CUdevice)) \
    F(CUresult, cuCtxGetCurrent, (CUcontext *)) \
    F(CUresult, cuCtxSetCurrent, (CUcontext)) \
    F(CUresult, cuCtxSynchronize, (void)) \
    F(CUresult, cuCtxEnablePeerAccess, (CUcontext, unsigned)) \
    F(CUresult, cuMemGetInfo_v2, (size_t *, size_t *)) \
    F(CUresult, cuMemAlloc_v2, (CUdeviceptr *, size_t)) \
    F(CUresult, cuMemFree_v2, (CUdeviceptr)) \
    F(CUresult, cuMemHostAlloc, (void **, size_t, unsigned)) \
    F(CUresult, cuMemFreeHost, (void *)) \
    F(CUresult, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void *, size_t, CUstream)) \
    F(CUresult, cuMemcpyDtoHAsync_v2, (void *, CUdeviceptr, size_t, CUstream)) \
    F(CUresult, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream)) \
    F(CUresult, cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream)) \
    F(CUresult, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream)) \
    F(CUresult, cuStreamCreateWithPriority, (CUstream *, unsigned, int)) \
    F(CUresult, cuStreamDestroy_v2, (CUstream)) \
    F(CUresult, cuStreamSynchronize, (CUstream)) \
    F(CUresult, cuStreamWaitEvent, (CUstream, CUevent, unsigned)) \
    F(CUresult, cuEventCreate, (CUevent *, unsigned)) \
    F(CUresult, cuEventDestroy_v2, (CUevent)) \
    F(CUresult, cuEventRecord, (CUevent, CUstream)) \
    F(CUresult, cuEventSynchronize, (CUevent)) \
    F(CUresult, cuEventQuery, (CUevent)) \
    F(CUresult, cuEventElapsedTime, (float *, CUevent, CUevent)) \
    F(CUresult, cuModuleLoadData, (CUmodule *, const void *)) \
    F(CUresult, cuModuleUnload, (CUmodule)) \
    F(CUresult, cuModuleGetFunction, (CUfunction *, CUmodule, const char *)) \
    F(CUresult, cuLaunchKernel, (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void **, void **))

/* Since CUDA 11.4; without them there are no graphs. */
#define CUDA_GRAPH_FUNCTIONS(F) \
    F(CUresult, cuStreamBeginCapture_v2, (CUstream, CUstreamCaptureMode)) \
    F(CUresult, cuStreamEndCapture, (CUstream, CUgraph *)) \
    F(CUresult, cuThreadExchangeStreamCaptureMode, (CUstreamCaptureMode *)) \
    F(CUresult, cuGraphInstantiateWithFlags, (CUgraphExec *, CUgraph, unsigned long long)) \
    F(CUresult, cuGraphLaunch, (CUgraphExec, CUstream)) \
    F(CUresult, cuGraphExecDestroy, (CUgraphExec)) \
    F(CUresult, cuGraphDestroy, (CUgraph))

#define NVRTC_FUNCTIONS(F) \
    F(const char *, nvrtcGetErrorString, (nvrtcResult)) \
    F(nvrtcResult, nvrtcGetNumSupportedArchs, (int *)) \
    F(nvrtcResult, nvrtcGetSupportedArchs, (int *)) \
    F(nvrtcResult, nvrtcCreateProgram, (nvrtcProgram *, const char *, const char *, int, const char *const *, const char *const *)) \
    F(nvrtcResult, nvrtcDestroyProgram, (nvrtcProgram *)) \
    F(nvrtcResult, nvrtcCompileProgram, (nvrtcProgram, int, const char *const *)) \
    F(nvrtcResult, nvrtcGetProgramLogSize, (nvrtcProgram, size_t *)) \
    F(nvrtcResult, nvrtcGetProgramLog, (nvrtcProgram, char *)) \
    F(nvrtcResult, nvrtcGetCUBINSize, (nvrtcProgram, size_t *)) \
    F(nvrtcResult, nvrtcGetCUBIN, (nvrtcProgram, char *)) \
    F(nvrtcResult, nvrtcGetPTXSize, (nvrtcProgram, size_t *)) \
    F(nvrtcResult, nvrtcGetPTX, (nvrtcProgram, char *))

#ifndef TEDE_CUDA_COMPARE                /* with the headers, by a test */
typedef int CUresult, CUdevice, CUdevice_attribute, CUstreamCaptureMode, nvrtcResult;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct _nvrtcProgram *nvrtcProgram;
#define CUDA_NUMBER(name, number) name = number,
enum { CUDA_NUMBERS(CUDA_NUMBER) CUDA_END };
#define CUDA_POINTER(result, name, arguments) extern result (*name) arguments;
CUDA_FUNCTIONS(CUDA_POINTER)
CUDA_GRAPH_FUNCTIONS(CUDA_POINTER)

/* Whether the driver has graphs. */
extern bool cuda_has_graphs;
/* The driver; 0, or -1 with an error that says what isn't there. */
int cuda_open(void);
/* A library of NVIDIA's by the middle of its name ("nvrtc"): of the driver's major version, else an older one, else whichever there is. NULL, with
 * an error that names it. */
void *cuda_library(const char *name);
/* Of one version; NULL, with no error. */
void *cuda_open_version(const char *name, int major);

/* Sets pointers to a library's functions; NULL, or the name of the first that it hasn't. */
typedef struct cuda_function { const char *name; void **pointer; } cuda_function;
#define CUDA_LISTED(result, name, arguments) {#name, (void **)&name},
const char *cuda_look_up(void *library, const cuda_function *functions);
/* The same: 0, or -1 with an error that names the library. */
int cuda_look_all_up(void *library, const char *of, const cuda_function *functions);
#endif
#endif
