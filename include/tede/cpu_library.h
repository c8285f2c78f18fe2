/* tede/cpu_library.h: a library that multiplies and convolves for the CPU.
 *
 * A plug-in may know a library that is faster than the core's kernels, for processors with matrix units, say. The core asks it for products and
 * convolutions of bfloat16, which it may leave to the core one by one; not while results mustn't depend on the batch (<tede/modes.h>). */
#ifndef TEDE_CPU_LIBRARY_H
#define TEDE_CPU_LIBRARY_H
#include <tede/device.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Each function returns 0; 1 to leave the call to the core, then it has written nothing; or -1 with an error. `bias`, or NULL: float32 numbers that are
 * added before results are rounded, one for each column of a product, or each channel that a convolution computes.  Any thread may call. */
typedef struct td_cpu_library {
    size_t size;                        /* sizeof(td_cpu_library) where it was compiled: it may grow at the end */
    int  (*product)(const td_product *call, const float *bias);
    int  (*convolution)(const td_convolution_call *call, const float *bias);
} td_cpu_library;

/* `library` must stay; NULL: none, as at first.  Calls that run go on. */
TD_API int                   td_set_cpu_library(const td_cpu_library *library) TD_MUST_USE;
TD_API const td_cpu_library *td_cpu_library_in_use(void);

#ifdef __cplusplus
}
#endif
#endif
