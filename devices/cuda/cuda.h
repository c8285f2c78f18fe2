/* What the files of this folder share. */
#ifndef TEDE_CUDA_CUDA_H
#define TEDE_CUDA_CUDA_H
#include "api.h"

#include <tede/device.h>
#include <tede/formula.h>

/* Makes an index's context the thread's, without which the driver does nothing; 0 or -1. */
int cuda_enter(int index);
int cuda_failed(const char *what, CUresult status);
#define CUDA_TRY(what, call) do { CUresult status_ = (call); if (status_ != CUDA_SUCCESS) return cuda_failed(what, status_); } while (0)
/* A call in the index's context: 0, or -1 with an error. */
#define CUDA_CALL(index, what, call) (cuda_enter(index) ? -1 : cuda_done(what, call))
/* The same of a call that frees, whose error nobody can do anything about. */
#define CUDA_FREE(index, call) (cuda_enter(index) ? td_error_clear() : (void)(call))
static inline int cuda_done(const char *what, CUresult status) { return status == CUDA_SUCCESS ? 0 : cuda_failed(what, status); }
/* The number of its kind of machine code: 90 for compute capability 9.0. */
int cuda_architecture(int index);

void *cuda_build(td_device device, const char *source, const char *options, td_binary *binary);
int   cuda_graph_begin(td_device device, void *stream, td_graph_mode mode);
void *cuda_graph_end(td_device device, void *stream);
int   cuda_graph_launch(td_device device, void *stream, void *graph);
void  cuda_graph_free(td_device device, void *graph);
/* status = call, a call that may be made while a stream records, though the driver refuses it: begin returns what end is passed. */
int   cuda_unrecorded_begin(void);
void  cuda_unrecorded_end(int before);
#define CUDA_UNRECORDED(status, call) do { const int before_ = cuda_unrecorded_begin(); status = (call); cuda_unrecorded_end(before_); } while (0)
int   cuda_product(td_device device, void *stream, const td_product *product);
int   cuda_fused_product(td_device device, void *stream, const td_fused_product *product);
int   cuda_convolution(td_device device, void *stream, const td_convolution_call *convolution);
int   cuda_attention(td_device device, void *stream, const td_attention_call *attention);
int   cuda_fft(td_device device, void *stream, const td_fft_call *fft);
int64_t cuda_fft_version(void);
int   cuda_factor(td_device device, void *stream, const td_factor_call *factor);
int64_t cuda_library_version(const char *name);

#endif
