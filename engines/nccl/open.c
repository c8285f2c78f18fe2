/* Opens NCCL where the CUDA device looks for NVIDIA's libraries (devices/cuda/api.c). */
#include "nccl.h"

#include <pthread.h>
#include <tede/base.h>

#include "../../devices/cuda/api.h"

#define POINTER(result, name, arguments) result (*name) arguments;
NCCL_FUNCTIONS(POINTER)
static const cuda_function of_nccl[] = {NCCL_FUNCTIONS(CUDA_LISTED){NULL, NULL}};

int nccl_open(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool            opened;
    int status = 0;
    pthread_mutex_lock(&lock);
    if (!opened) {
        void *library = cuda_open_version("nccl", 2);
        const char *missing = library ? cuda_look_up(library, of_nccl) : NULL;
        if (!library)
            status = td_error(TD_E_RUNTIME, "nccl: libnccl.so.2 isn't found in a folder of TEDE_CUDA_PATH, in site-packages/nvidia, or by the loader; "
                              "pip install 'tede[nccl]' brings it");
        else if (missing)
            status = td_error(TD_E_RUNTIME, "nccl: libnccl.so.2 has no function %s: it is too old", missing);
        opened = status == 0;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

int nccl_failed(const char *what, ncclResult_t status)
{
    return td_error(TD_E_RUNTIME, "nccl: %s failed: %s (%d)", what, ncclGetErrorString(status), status);
}
