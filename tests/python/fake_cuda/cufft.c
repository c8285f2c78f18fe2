/* cuFFT: transforms by their definition, in any plan's order; what a workspace or the operand of C2R holds is spoilt, as cuFFT may do.
 *
 * A dimension of 77 is one that there is no plan for. */
#include "fake.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { R2C = 0x2a, C2R = 0x2c, C2C = 0x29, OF_DOUBLES = 0x40, INVALID_PLAN = 1, INVALID_VALUE_OF_FFT = 4, INVALID_SIZE = 8, NO_WORKSPACE = 13, ROOM = 300, MOST = 4096 };
typedef double complex number;
typedef struct plan { bool live, own; int type, rank; long long n[3], batch; CUcontext context; CUstream stream; char *room; } plan;
typedef struct transform { int type, rank, direction; long long n[3], batch; char *x, *y, *room; } transform;
static plan plans[MOST];
static int  n_plans;

static plan *plan_at(int handle) { return handle >= 0 && handle < n_plans && plans[handle].live ? &plans[handle] : NULL; }

int cufftGetVersion(int *version) { return *version = 11999, 0; }
int cufftCreate(int *handle)
{
    ENTER(true);
    if (n_plans == MOST)
        return 2;
    *handle = n_plans++;
    plans[*handle] = (plan){.live = true, .own = true, .context = fake_current};
    fake_counts[TRANSFORM_PLANS]++;
    return 0;
}
int cufftDestroy(int handle)
{
    ENTER(true);
    plan *p = plan_at(handle);
    return p ? fake_counts[TRANSFORM_PLANS]--, p->live = false, 0 : INVALID_PLAN;
}
int cufftSetAutoAllocation(int handle, int own) { ENTER(true); return plan_at(handle) ? plan_at(handle)->own = own, 0 : INVALID_PLAN; }
int cufftSetStream(int handle, CUstream s) { ENTER(true); return !plan_at(handle) ? INVALID_PLAN : (plan_at(handle)->stream = s, fake_stream_of(s) ? 0 : INVALID_VALUE_OF_FFT); }
int cufftSetWorkArea(int handle, void *room) { ENTER(true); return plan_at(handle) ? plan_at(handle)->room = room, 0 : INVALID_PLAN; }
int cufftMakePlanMany64(int handle, int rank, long long *n, long long *in_embed, long long in_stride, long long in_distance, long long *out_embed,
                        long long out_stride, long long out_distance, int type, long long batch, size_t *bytes)
{
    ENTER(true);
    plan *p = plan_at(handle);
    const int kind = type & ~OF_DOUBLES;
    (void)in_stride, (void)in_distance, (void)out_stride, (void)out_distance;
    if (!p)
        return INVALID_PLAN;
    if (rank < 1 || rank > 3 || batch < 1 || in_embed || out_embed || p->own || (kind != R2C && kind != C2R && kind != C2C))
        return INVALID_VALUE_OF_FFT;
    p->type = type, p->rank = rank, p->batch = batch, *bytes = rank > 1 ? ROOM : 0;
    for (int d = 0; d < rank; d++) {
        if (n[d] < 1 || n[d] == 77)
            return INVALID_SIZE;
        p->n[d] = n[d];
    }
    return 0;
}

/* ---- the work */

static number load(const transform *t, const char *at, long long i, bool real)
{
    const int type = t->type & OF_DOUBLES ? 1 : 0;
    return real ? fake_load(type, at, i) : fake_load(type, at, 2 * i) + I * fake_load(type, at, 2 * i + 1);
}
static void store(const transform *t, char *at, long long i, bool real, number x)
{
    const int type = t->type & OF_DOUBLES ? 1 : 0;
    if (real) {
        fake_store(type, at, i, creal(x));
    } else {
        fake_store(type, at, 2 * i, creal(x));
        fake_store(type, at, 2 * i + 1, cimag(x));
    }
}

/* One dimension of `all` numbers in place: a line begins at each index whose coordinate there is 0. */
static void lines(number *x, long long all, long long n, long long step, int direction)
{
    number *line = malloc(sizeof *line * (size_t)n);
    for (long long start = 0; start < all; start++) {
        if (start / step % n)
            continue;
        for (long long k = 0; k < n; k++) {
            line[k] = 0;
            for (long long j = 0; j < n; j++)
                line[k] += x[start + j * step] * cexp(direction * I * 2 * M_PI * (double)(j * k % n) / (double)n);
        }
        for (long long k = 0; k < n; k++)
            x[start + k * step] = line[k];
    }
    free(line);
}

static void run(void *work)
{
    transform *t = work;
    const int kind = t->type & ~OF_DOUBLES;
    const long long last = t->n[t->rank - 1], half = last / 2 + 1, size = t->type & OF_DOUBLES ? 8 : 4;
    long long all = 1, given = kind == C2R ? half : last, made = kind == R2C ? half : last;
    for (int d = 0; d < t->rank; d++)
        all *= t->n[d];
    const long long rows = all / last;
    number *x = malloc(sizeof *x * (size_t)all);
    for (long long b = 0; b < t->batch; b++) {
        for (long long i = 0; i < all; i++)
            x[i] = i % last < given ? load(t, t->x, b * rows * given + i / last * given + i % last, kind == R2C) : 0;
        long long step = kind == C2R ? last : 1;
        for (int d = t->rank - 1 - (kind == C2R); d >= 0; step *= t->n[d], d--)
            lines(x, all, t->n[d], step, t->direction);
        for (long long i = 0; kind == C2R && i < all; i++)              /* the other half of a line is the conjugate of this one */
            if (i % last >= half)
                x[i] = conj(x[i - i % last + last - i % last]);
            else if (i % last == 0 || 2 * (i % last) == last)
                x[i] = creal(x[i]);
        if (kind == C2R)
            lines(x, all, last, 1, 1);
        for (long long i = 0; i < all; i++)
            if (i % last < made)
                store(t, t->y, b * rows * made + i / last * made + i % last, kind == C2R, x[i]);
    }
    if (kind == C2R)
        memset(t->x, 0xEE, (size_t)(t->batch * rows * half * 2 * size));
    if (t->room)
        memset(t->room, 0xEE, ROOM);
    free(x);
    free(t);
}

static int execute(int handle, int type, void *x, void *y, int direction)
{
    ENTER(true);
    plan *p = plan_at(handle);
    CUstream s = p ? fake_stream_of(p->stream) : NULL;
    if (!p || p->type != type || p->context != fake_current || !s)
        return INVALID_PLAN;
    if (p->rank > 1 && !fake_place((CUdeviceptr)(uintptr_t)p->room, ROOM, fake_current->device))
        return NO_WORKSPACE;
    const int kind = type & ~OF_DOUBLES;
    const long long last = p->n[p->rank - 1], half = last / 2 + 1, size = type & OF_DOUBLES ? 8 : 4;
    long long rows = p->batch;
    for (int d = 0; d < p->rank - 1; d++)
        rows *= p->n[d];
    const long long in = rows * size * (kind == R2C ? last : 2 * (kind == C2R ? half : last)), out = rows * size * (kind == C2R ? last : 2 * (kind == R2C ? half : last));
    if (!fake_place((CUdeviceptr)(uintptr_t)x, (size_t)in, fake_current->device) || !fake_place((CUdeviceptr)(uintptr_t)y, (size_t)out, fake_current->device))
        return INVALID_VALUE_OF_FFT;
    transform *t = malloc(sizeof *t);
    *t = (transform){.type = type, .rank = p->rank, .direction = direction, .batch = p->batch, .x = x, .y = y, .room = p->rank > 1 ? p->room : NULL};
    memcpy(t->n, p->n, sizeof t->n);
    operation *o = fake_ask(s, OTHER);
    o->work = run, o->context = t;
    fake_counts[TRANSFORMS]++;
    p->room = NULL;                     /* each call brings one */
    return 0;
}
int cufftExecC2C(int p, void *x, void *y, int direction) { return execute(p, C2C, x, y, direction); }
int cufftExecZ2Z(int p, void *x, void *y, int direction) { return execute(p, C2C | OF_DOUBLES, x, y, direction); }
int cufftExecR2C(int p, void *x, void *y) { return execute(p, R2C, x, y, -1); }
int cufftExecD2Z(int p, void *x, void *y) { return execute(p, R2C | OF_DOUBLES, x, y, -1); }
int cufftExecC2R(int p, void *x, void *y) { return execute(p, C2R, x, y, 1); }
int cufftExecZ2D(int p, void *x, void *y) { return execute(p, C2R | OF_DOUBLES, x, y, 1); }
