/* What the files share that call NVIDIA's libraries: a handle of each library for each stream, since a library's memory of its own is used in the order
 * of one stream.  A handle is one thread's at a time. */
#ifndef TEDE_CUDA_VENDOR_H
#define TEDE_CUDA_VENDOR_H
#include "cuda.h"

#include <pthread.h>

/* A library, which is opened when it is first needed. */
typedef struct cuda_vendor {
    const char          *name, *before;     /* "cudnn"; what it looks for itself, opened before it, or NULL */
    int                  major;             /* the one version whose functions are declared; 0: any */
    const cuda_function *functions;
    pthread_mutex_t      lock;
    int                  state;             /* 0 until it is opened; then 1, or -1 where it isn't installed or lacks a function */
} cuda_vendor;
/* Whether it is there, which is found out once. */
bool cuda_has(cuda_vendor *library);
/* Opens it, should it not be open: 0, or -1 with an error that says what is missing (but for a library of one version). */
int  cuda_need(cuda_vendor *library);

typedef struct cuda_handle {
    struct cuda_handle *next;
    int                 index;
    CUstream            stream;
    void               *of;         /* the library's */
    pthread_mutex_t     lock;
} cuda_handle;
typedef struct cuda_handles {
    cuda_vendor    *library;
    cuda_handle    *first;          /* new ones are put in front, and none is taken out */
    pthread_mutex_t lock;
    int          (**create)(void **of), (**set_stream)(void *of, CUstream stream), (**destroy)(void *of);      /* the library's, once looked up */
    int           (*failed)(const char *what, int status);  /* -1 with an error */
    const char     *what;           /* a handle, in that error */
} cuda_handles;

/* Makes the index's context current and locks the stream's handle; 1 without an error where there is no library. */
int  cuda_begin(cuda_handles *handles, int index, CUstream stream, cuda_handle **handle);
void cuda_put_handle(cuda_handle *handle);

/* Of what a plan is kept for, whole ints without gaps: which of `buckets` lists it is in (FNV-1a of ints). */
unsigned cuda_bucket(const void *key, size_t bytes, unsigned buckets);

#endif
