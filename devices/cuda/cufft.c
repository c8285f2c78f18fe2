/* Fourier transforms by cuFFT, where it is installed; without it the CPU computes them.
 *
 * A plan is made for a shape and kept: making one takes some hundred times as long as using it.  Plans get no memory of their own: a call's
 * workspace comes from the core's allocator, in the order of the caller's stream, so that one plan serves all streams, one call at a time. */
#include "vendor.h"

#include <stdlib.h>
#include <string.h>

typedef int cufftResult, cufftType, cufftHandle;
#define CUFFT_FUNCTIONS(F) \
    F(cufftResult, cufftGetVersion, (int *)) \
    F(cufftResult, cufftCreate, (cufftHandle *)) \
    F(cufftResult, cufftDestroy, (cufftHandle)) \
    F(cufftResult, cufftSetAutoAllocation, (cufftHandle, int)) \
    F(cufftResult, cufftMakePlanMany64, \
      (cufftHandle, int, long long *, long long *, long long, long long, long long *, long long, long long, cufftType, long long, size_t *)) \
    F(cufftResult, cufftSetWorkArea, (cufftHandle, void *)) \
    F(cufftResult, cufftSetStream, (cufftHandle, CUstream)) \
    F(cufftResult, cufftExecC2C, (cufftHandle, void *, void *, int)) \
    F(cufftResult, cufftExecZ2Z, (cufftHandle, void *, void *, int)) \
    F(cufftResult, cufftExecR2C, (cufftHandle, void *, void *)) \
    F(cufftResult, cufftExecD2Z, (cufftHandle, void *, void *)) \
    F(cufftResult, cufftExecC2R, (cufftHandle, void *, void *)) \
    F(cufftResult, cufftExecZ2D, (cufftHandle, void *, void *))
enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, OF_DOUBLES = 0x40, ALLOC_FAILED = 2, INVALID_SIZE = 8, NOT_IMPLEMENTED = 14, NOT_SUPPORTED = 16 };
#define POINTER(result, name, arguments) static result (*name) arguments;
CUFFT_FUNCTIONS(POINTER)

typedef struct shape { int index, type, dims; long long sizes[3], batch; } shape;
typedef struct plan {
    struct plan *next;
    shape        shape;
    cufftHandle  handle;
    size_t       workspace;
} plan;

enum { MOST_PLANS = 256 };
static plan           *plans;           /* what was used last in front */
static int             n_plans;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int failed(const char *what, cufftResult status)
{
    return td_error(status == ALLOC_FAILED ? TD_E_MEMORY : TD_E_RUNTIME, "cuda: %s failed with cuFFT's error %d", what, (int)status);
}
static bool declined(cufftResult status) { return status == INVALID_SIZE || status == NOT_IMPLEMENTED || status == NOT_SUPPORTED; }

/* Its versions are one less than CUDA's: 11 goes with CUDA 12. */
static const cuda_function functions[] = {CUFFT_FUNCTIONS(CUDA_LISTED){NULL}};
static cuda_vendor library = {.name = "cufft", .functions = functions, .lock = PTHREAD_MUTEX_INITIALIZER};

int64_t cuda_fft_version(void)
{
    int version = 0;
    return cuda_has(&library) && cufftGetVersion(&version) == 0 ? version : 0;
}

static void drop_last(void)
{
    plan **at = &plans;
    while ((*at)->next)
        at = &(*at)->next;
    if (cuda_enter((*at)->shape.index) == 0)
        cufftDestroy((*at)->handle);
    else
        td_error_clear();
    free(*at);
    *at = NULL;
    n_plans--;
}

/* With the lock held: 0 with *to, 1 where cuFFT has none for the shape, -1. */
static int make_plan(const shape *s, plan **to)
{
    shape copy = *s;                    /* cuFFT's parameters aren't const */
    plan *p = calloc(1, sizeof *p);
    if (!p)
        return td_error(TD_E_MEMORY, "cuda: no memory for a plan of a Fourier transform");
    p->shape = *s;
    cufftResult status = cufftCreate(&p->handle);
    const bool created = status == 0;
    status = status ? status : cufftSetAutoAllocation(p->handle, 0);
    status = status ? status
                    : cufftMakePlanMany64(p->handle, s->dims, copy.sizes, NULL, 1, 0, NULL, 1, 0, s->type, s->batch, &p->workspace);
    if (status) {
        if (created)
            cufftDestroy(p->handle);
        free(p);
        return declined(status) ? 1 : failed("the plan of a Fourier transform", status);
    }
    if (n_plans == MOST_PLANS) {
        drop_last();
        if (cuda_enter(s->index)) {
            cufftDestroy(p->handle);
            free(p);
            return -1;
        }
    }
    n_plans++;
    p->next = plans;
    plans = p;
    *to = p;
    return 0;
}

static int plan_of(const shape *s, plan **to)
{
    for (plan **at = &plans, *p; (p = *at); at = &p->next)
        if (!memcmp(&p->shape, s, sizeof *s)) {
            *at = p->next;
            p->next = plans;
            *to = plans = p;
            return 0;
        }
    return make_plan(s, to);
}

static cufftResult transform(const plan *p, const td_fft_call *c)
{
    const bool wide = c->dtype == TD_F64;
    const int direction = c->forward ? -1 : 1;
    switch (c->kind) {
    case TD_FFT_R2C: return wide ? cufftExecD2Z(p->handle, c->x, c->y) : cufftExecR2C(p->handle, c->x, c->y);
    case TD_FFT_C2R: return wide ? cufftExecZ2D(p->handle, c->x, c->y) : cufftExecC2R(p->handle, c->x, c->y);
    default: return wide ? cufftExecZ2Z(p->handle, c->x, c->y, direction) : cufftExecC2C(p->handle, c->x, c->y, direction);
    }
}

int cuda_fft(td_device device, void *stream, const td_fft_call *c)
{
    shape s;
    plan *p = NULL;
    memset(&s, 0, sizeof s);            /* compared by its bytes */
    s.index = device.index, s.dims = c->dims, s.batch = c->batch;
    s.type = (c->kind == TD_FFT_R2C ? R2C : c->kind == TD_FFT_C2R ? C2R : C2C) | (c->dtype == TD_F64 ? OF_DOUBLES : 0);
    for (int d = 0; d < c->dims; d++)
        s.sizes[d] = c->sizes[d];
    if (!cuda_has(&library) || (c->dtype != TD_F32 && c->dtype != TD_F64))
        return 1;
    if (cuda_enter(device.index))
        return -1;
    pthread_mutex_lock(&lock);
    int result = plan_of(&s, &p);
    td_storage *room = result == 0 && p->workspace ? td_storage_new(device, p->workspace) : NULL;
    if (result == 0 && p->workspace && !room)
        result = -1;
    if (result == 0) {
        cufftResult status = cufftSetStream(p->handle, stream);
        status = status || !room ? status : cufftSetWorkArea(p->handle, td_storage_data(room));
        status = status ? status : transform(p, c);
        result = status ? failed("a Fourier transform", status) : 0;
    }
    pthread_mutex_unlock(&lock);
    td_storage_release(room);
    return result;
}
