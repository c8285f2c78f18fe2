/* NVIDIA's libraries and their handles: see vendor.h. */
#include "vendor.h"

#include <stdlib.h>

static int open_once(cuda_vendor *v)
{
    if (v->state > 0)
        return 0;
    if (v->before && !cuda_library(v->before))
        td_error_clear();
    void *library = v->major ? cuda_open_version(v->name, v->major) : cuda_library(v->name);
    if (!library || cuda_look_all_up(library, v->name, v->functions))
        return -1;
    __atomic_store_n(&v->state, 1, __ATOMIC_RELEASE);
    return 0;
}

int cuda_need(cuda_vendor *v)
{
    if (__atomic_load_n(&v->state, __ATOMIC_ACQUIRE) > 0)
        return 0;
    pthread_mutex_lock(&v->lock);
    const int status = open_once(v);
    pthread_mutex_unlock(&v->lock);
    return status;
}

bool cuda_has(cuda_vendor *v)
{
    int state = __atomic_load_n(&v->state, __ATOMIC_ACQUIRE);
    if (state == 0 && (state = cuda_need(v) ? -1 : 1) < 0) {
        td_error_clear();
        __atomic_store_n(&v->state, state, __ATOMIC_RELEASE);
    }
    return state > 0;
}

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

static cuda_handle *take(cuda_handles *handles, int index, CUstream stream)
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

int cuda_begin(cuda_handles *handles, int index, CUstream stream, cuda_handle **handle)
{
    if (!cuda_has(handles->library))
        return 1;
    *handle = cuda_enter(index) ? NULL : take(handles, index, stream);
    return *handle ? 0 : -1;
}

void cuda_put_handle(cuda_handle *handle) { pthread_mutex_unlock(&handle->lock); }

unsigned cuda_bucket(const void *key, size_t bytes, unsigned buckets)
{
    unsigned hash = 2166136261u;
    for (size_t i = 0; i < bytes / sizeof(int); i++)
        hash = (hash ^ ((const unsigned *)key)[i]) * 16777619u;
    return (hash ^ hash >> 15) % buckets;
}
