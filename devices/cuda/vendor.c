/* Handles of NVIDIA's libraries: see vendor.h. */
#include "vendor.h"

#include <stdlib.h>

static cuda_handle *find(cuda_handles *handles, int index, CUstream stream)
{
    cuda_handle *h = __atomic_load_n(&handles->first, __ATOMIC_ACQUIRE);
    while (h && (h->index != index || h->stream != stream))
        h = h->next;
    return h;
}

static cuda_handle *make(cuda_handles *handles, int index, CUstream stream)
{
    cuda_handle *made = malloc(sizeof *made);
    if (!made)
        return td_fail(TD_E_MEMORY, "cuda: no memory for a handle");
    *made = (cuda_handle){.next = handles->first, .index = index, .stream = stream};
    int status = (*handles->create)(&made->of);
    if (status == 0 && (status = (*handles->set_stream)(made->of, stream)))
        (*handles->destroy)(made->of);
    if (status) {
        handles->failed(handles->what, status);
        free(made);
        return NULL;
    }
    pthread_mutex_init(&made->lock, NULL);
    __atomic_store_n(&handles->first, made, __ATOMIC_RELEASE);
    return made;
}

cuda_handle *cuda_take_handle(cuda_handles *handles, int index, CUstream stream)
{
    cuda_handle *h = find(handles, index, stream);
    if (!h) {
        pthread_mutex_lock(&handles->lock);
        h = find(handles, index, stream);
        h = h ? h : make(handles, index, stream);
        pthread_mutex_unlock(&handles->lock);
    }
    if (h)
        pthread_mutex_lock(&h->lock);
    return h;
}

void cuda_put_handle(cuda_handle *handle) { pthread_mutex_unlock(&handle->lock); }
