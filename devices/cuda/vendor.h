/* What the files share that call NVIDIA's libraries: a handle of each library for each stream, since a library's memory of its own is used in the order
 * of one stream.  A handle is one thread's at a time. */
#ifndef TEDE_CUDA_VENDOR_H
#define TEDE_CUDA_VENDOR_H
#include "cuda.h"

#include <pthread.h>

typedef struct cuda_handle {
    struct cuda_handle *next;
    int                 index;
    CUstream            stream;
    void               *of;         /* the library's */
    pthread_mutex_t     lock;
} cuda_handle;
typedef struct cuda_handles {
    cuda_handle    *first;          /* new ones are put in front, and none is taken out */
    pthread_mutex_t lock;
    int          (**create)(void **of), (**set_stream)(void *of, CUstream stream), (**destroy)(void *of);      /* the library's, once looked up */
    int           (*failed)(const char *what, int status);  /* -1 with an error */
    const char     *what;           /* a handle, in that error */
} cuda_handles;

/* Locked; NULL with an error.  The index's context is current. */
cuda_handle *cuda_take_handle(cuda_handles *handles, int index, CUstream stream);
void         cuda_put_handle(cuda_handle *handle);

#endif
