/* What is used of OpenCL 1.2, declared here: nothing of OpenCL need be there to compile this, and its loader is opened at run time.
 *
 * Names, types and numbers are those of the specification; the tests compare them with CL/cl.h where that is installed.  A function is
 * a pointer of its own name, set by opencl_open(). */
#ifndef TEDE_OPENCL_API_H
#define TEDE_OPENCL_API_H
#include <stddef.h>
#include <stdint.h>

typedef int32_t  cl_int;
typedef uint32_t cl_uint, cl_bool;
typedef int64_t  cl_long;
typedef uint64_t cl_ulong, cl_bitfield;
typedef cl_bitfield cl_device_type, cl_mem_flags, cl_command_queue_properties, cl_device_fp_config;
typedef cl_uint cl_device_info, cl_event_info, cl_profiling_info, cl_program_info, cl_program_build_info, cl_kernel_work_group_info;
typedef intptr_t cl_context_properties, cl_device_partition_property;
typedef struct _cl_platform_id *cl_platform_id;
typedef struct _cl_device_id *cl_device_id;
typedef struct _cl_context *cl_context;
typedef struct _cl_command_queue *cl_command_queue;
typedef struct _cl_mem *cl_mem;
typedef struct _cl_program *cl_program;
typedef struct _cl_kernel *cl_kernel;
typedef struct _cl_event *cl_event;

#define OPENCL_NUMBERS(NUMBER) \
    NUMBER(CL_SUCCESS, 0) NUMBER(CL_DEVICE_NOT_FOUND, -1) NUMBER(CL_MEM_OBJECT_ALLOCATION_FAILURE, -4) NUMBER(CL_OUT_OF_RESOURCES, -5) \
    NUMBER(CL_OUT_OF_HOST_MEMORY, -6) NUMBER(CL_INVALID_VALUE, -30) NUMBER(CL_INVALID_COMMAND_QUEUE, -36) NUMBER(CL_INVALID_MEM_OBJECT, -38) \
    NUMBER(CL_INVALID_KERNEL_NAME, -46) NUMBER(CL_INVALID_ARG_INDEX, -49) NUMBER(CL_INVALID_ARG_SIZE, -51) NUMBER(CL_INVALID_KERNEL_ARGS, -52) \
    NUMBER(CL_INVALID_WORK_GROUP_SIZE, -54) NUMBER(CL_INVALID_BUFFER_SIZE, -61) \
    NUMBER(CL_FALSE, 0) NUMBER(CL_TRUE, 1) NUMBER(CL_COMPLETE, 0) NUMBER(CL_DEVICE_TYPE_ALL, 0xFFFFFFFF) NUMBER(CL_MEM_READ_WRITE, 1) \
    NUMBER(CL_QUEUE_PROFILING_ENABLE, 2) NUMBER(CL_DEVICE_MAX_COMPUTE_UNITS, 0x1002) NUMBER(CL_DEVICE_MAX_WORK_GROUP_SIZE, 0x1004) \
    NUMBER(CL_DEVICE_GLOBAL_MEM_SIZE, 0x101F) NUMBER(CL_DEVICE_LOCAL_MEM_SIZE, 0x1023) NUMBER(CL_DEVICE_NAME, 0x102B) \
    NUMBER(CL_DRIVER_VERSION, 0x102D) NUMBER(CL_DEVICE_DOUBLE_FP_CONFIG, 0x1032) NUMBER(CL_DEVICE_HOST_UNIFIED_MEMORY, 0x1035) \
    NUMBER(CL_DEVICE_PARTITION_EQUALLY, 0x1086) NUMBER(CL_PROGRAM_BINARY_SIZES, 0x1165) NUMBER(CL_PROGRAM_BINARIES, 0x1166) \
    NUMBER(CL_PROGRAM_BUILD_LOG, 0x1183) NUMBER(CL_KERNEL_WORK_GROUP_SIZE, 0x11B0) NUMBER(CL_KERNEL_LOCAL_MEM_SIZE, 0x11B2) \
    NUMBER(CL_EVENT_COMMAND_EXECUTION_STATUS, 0x11D3) NUMBER(CL_EVENT_CONTEXT, 0x11D4) NUMBER(CL_PROFILING_COMMAND_END, 0x1283)

#define OPENCL_FUNCTIONS(F) \
    F(cl_int, clGetPlatformIDs, (cl_uint, cl_platform_id *, cl_uint *)) \
    F(cl_int, clGetDeviceIDs, (cl_platform_id, cl_device_type, cl_uint, cl_device_id *, cl_uint *)) \
    F(cl_int, clGetDeviceInfo, (cl_device_id, cl_device_info, size_t, void *, size_t *)) \
    F(cl_int, clCreateSubDevices, (cl_device_id, const cl_device_partition_property *, cl_uint, cl_device_id *, cl_uint *)) \
    F(cl_context, clCreateContext, (const cl_context_properties *, cl_uint, const cl_device_id *, \
                                    void (*)(const char *, const void *, size_t, void *), void *, cl_int *)) \
    F(cl_int, clReleaseContext, (cl_context)) \
    F(cl_command_queue, clCreateCommandQueue, (cl_context, cl_device_id, cl_command_queue_properties, cl_int *)) \
    F(cl_int, clReleaseCommandQueue, (cl_command_queue)) \
    F(cl_int, clFlush, (cl_command_queue)) \
    F(cl_int, clFinish, (cl_command_queue)) \
    F(cl_mem, clCreateBuffer, (cl_context, cl_mem_flags, size_t, void *, cl_int *)) \
    F(cl_int, clReleaseMemObject, (cl_mem)) \
    F(cl_int, clEnqueueReadBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, void *, cl_uint, const cl_event *, cl_event *)) \
    F(cl_int, clEnqueueWriteBuffer, (cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void *, cl_uint, const cl_event *, cl_event *)) \
    F(cl_int, clEnqueueCopyBuffer, (cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *)) \
    F(cl_int, clEnqueueFillBuffer, (cl_command_queue, cl_mem, const void *, size_t, size_t, size_t, cl_uint, const cl_event *, cl_event *)) \
    F(cl_int, clEnqueueMarkerWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *)) \
    F(cl_int, clEnqueueBarrierWithWaitList, (cl_command_queue, cl_uint, const cl_event *, cl_event *)) \
    F(cl_int, clEnqueueNDRangeKernel, (cl_command_queue, cl_kernel, cl_uint, const size_t *, const size_t *, const size_t *, cl_uint, \
                                       const cl_event *, cl_event *)) \
    F(cl_int, clWaitForEvents, (cl_uint, const cl_event *)) \
    F(cl_int, clReleaseEvent, (cl_event)) \
    F(cl_int, clGetEventInfo, (cl_event, cl_event_info, size_t, void *, size_t *)) \
    F(cl_int, clGetEventProfilingInfo, (cl_event, cl_profiling_info, size_t, void *, size_t *)) \
    F(cl_program, clCreateProgramWithSource, (cl_context, cl_uint, const char **, const size_t *, cl_int *)) \
    F(cl_program, clCreateProgramWithBinary, (cl_context, cl_uint, const cl_device_id *, const size_t *, const unsigned char **, cl_int *, \
                                              cl_int *)) \
    F(cl_int, clBuildProgram, (cl_program, cl_uint, const cl_device_id *, const char *, void (*)(cl_program, void *), void *)) \
    F(cl_int, clReleaseProgram, (cl_program)) \
    F(cl_int, clGetProgramInfo, (cl_program, cl_program_info, size_t, void *, size_t *)) \
    F(cl_int, clGetProgramBuildInfo, (cl_program, cl_device_id, cl_program_build_info, size_t, void *, size_t *)) \
    F(cl_kernel, clCreateKernel, (cl_program, const char *, cl_int *)) \
    F(cl_int, clReleaseKernel, (cl_kernel)) \
    F(cl_int, clSetKernelArg, (cl_kernel, cl_uint, size_t, const void *)) \
    F(cl_int, clGetKernelWorkGroupInfo, (cl_kernel, cl_device_id, cl_kernel_work_group_info, size_t, void *, size_t *))

#ifndef TEDE_OPENCL_COMPARE              /* with the header, by a test */
#define OPENCL_NUMBER(name, number) name = number,
enum { OPENCL_NUMBERS(OPENCL_NUMBER) OPENCL_END };
#define OPENCL_POINTER(result, name, arguments) extern result (*name) arguments;
OPENCL_FUNCTIONS(OPENCL_POINTER)

/* 0, or -1 with an error that says what isn't there. */
int opencl_open(void);
/* "CL_INVALID_VALUE", or "an unknown error". */
const char *opencl_error(cl_int status);
#endif
#endif
