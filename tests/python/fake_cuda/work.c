/* The state of the fake driver: memory, and queues of work that run late. */
#define _GNU_SOURCE
#include "fake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

pthread_mutex_t fake_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
struct CUctx_st fake_contexts[DEVICES] = {{.device = 0}, {.device = 1}};
CUstream fake_streams;
block *fake_blocks, *fake_pinned;
size_t fake_limit = (size_t)1 << 32;
_Thread_local CUcontext fake_current;
long fake_counts[COUNTS];
static struct { char function[64]; int after, code; } failure;

/* ---- for the tests */

long fake_cuda_count(const char *name)
{
    static const char *const names[] = {"memory", "host", "streams", "events", "modules", "launches", "products", "compiled", "handles", "math", "compute",
                                        "convolutions", "plans", "measured", "descriptors", "algorithm", "convolution math", "transforms", "transform plans", "factors", "collectives", "communicators", "graphs", "graph launches", "graph kernels", "epilogues", "algorithms", "graph convolutions", "attentions"};
    for (int i = 0; i < COUNTS; i++)
        if (!strcmp(names[i], name))
            return fake_counts[i];
    return -1;
}
/* The call of a function after `after` more of them returns `code`. */
void fake_cuda_fail(const char *function, int after, int code)
{
    snprintf(failure.function, sizeof failure.function, "%s", function);
    failure.after = after;
    failure.code = code;
}
void fake_cuda_limit(size_t bytes) { fake_limit = bytes; }
/* The next kernel of a device ends in an illegal access, after which its context is of no more use. */
void fake_cuda_doom(int device) { fake_contexts[device].doomed = true; }
/* How many operations wait to be run. */
long fake_cuda_late(void)
{
    long n = 0;
    pthread_mutex_lock(&fake_lock);
    for (CUstream s = fake_streams; s; s = s->next)
        for (operation *o = s->head; o; o = o->next)
            n++;
    pthread_mutex_unlock(&fake_lock);
    return n;
}

void fake_unlock(int *unused) { (void)unused, pthread_mutex_unlock(&fake_lock); }
/* What each function begins with. */
int fake_check(const char *function, bool context)
{
    if (!strcmp(failure.function, function) && failure.after-- <= 0) {
        *failure.function = 0;
        return failure.code;
    }
    return !fake_streams && strcmp(function, "cuInit") ? NOT_INITIALIZED : !context ? SUCCESS : !fake_current ? INVALID_CONTEXT : fake_current->dead ? ILLEGAL_ADDRESS : SUCCESS;
}
/* ---- memory */

block *fake_block_of(block *list, const void *at, size_t bytes)
{
    for (block *b = list; b; b = b->next)
        if ((const char *)at >= b->start && (const char *)at + bytes <= b->start + b->bytes)
            return b;
    return NULL;
}
static void open_all(int prot)
{
    for (block *b = fake_blocks; b; b = b->next)
        mprotect(b->start, b->mapped, prot);
}

CUresult fake_take(block **list, char **start, size_t bytes, int which)
{
    size_t used = 0, mapped = (bytes + PAGE - 1) / PAGE * PAGE;
    for (block *b = *list; b; b = b->next)
        used += b->device == (fake_current ? fake_current->device : 0) ? b->bytes : 0;
    if (!bytes)
        return INVALID_VALUE;
    if (used + bytes > fake_limit)
        return OUT_OF_MEMORY;
    char *all = mmap(NULL, mapped + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    block *b = malloc(sizeof *b);
    if (all == MAP_FAILED || !b)
        return free(b), OUT_OF_MEMORY;
    *b = (block){*list, all + PAGE, bytes, mapped, fake_current->device};
    mprotect(b->start, mapped, PROT_READ | PROT_WRITE);
    memset(b->start, 0xCB, bytes);
    if (list == &fake_blocks)
        mprotect(b->start, mapped, PROT_NONE);
    *list = b;
    *start = b->start;
    fake_counts[which]++;
    return SUCCESS;
}
CUresult fake_drop(block **list, const void *start, int which)
{
    for (block **at = list; *at; at = &(*at)->next)
        if ((*at)->start == start) {
            block *b = *at;
            *at = b->next;
            munmap(b->start - PAGE, b->mapped + 2 * PAGE);
            free(b);
            fake_counts[which]--;
            return SUCCESS;
        }
    return INVALID_VALUE;
}

char *fake_place(CUdeviceptr p, size_t bytes, int device)
{
    block *b = fake_block_of(fake_blocks, (void *)(uintptr_t)p, bytes);
    return b && (device < 0 || b->device == device) ? (char *)(uintptr_t)p : NULL;
}
/* ---- running what was asked for */

double fake_load(int type, const char *p, long long i)
{
    uint32_t bits;
    float x;
    _Float16 h;
    switch (type) {
    case 0: return (double)((const float *)p)[i];
    case 1: return ((const double *)p)[i];
    case 2: return memcpy(&h, p + 2 * i, 2), (double)h;
    default: return bits = (uint32_t)((const uint16_t *)p)[i] << 16, memcpy(&x, &bits, 4), (double)x;
    }
}
void fake_store(int type, char *p, long long i, double x)
{
    float f = (float)x;
    uint32_t bits;
    _Float16 h = (_Float16)f;
    switch (type) {
    case 0: ((float *)p)[i] = f; break;
    case 1: ((double *)p)[i] = x; break;
    case 2: memcpy(p + 2 * i, &h, 2); break;
    default: memcpy(&bits, &f, 4), ((uint16_t *)p)[i] = (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
    }
}
static void multiply(const operation *o)
{
    for (int g = 0; g < o->product.batch; g++)
        for (int i = 0; i < o->product.m; i++)
            for (int j = 0; j < o->product.n; j++) {
                double sum = 0;
                for (int l = 0; l < o->product.k; l++)
                    sum += fake_load(o->product.type, o->product.a, g * o->product.sa + (o->product.ta ? l + (long long)i * o->product.lda : i + (long long)l * o->product.lda)) *
                           fake_load(o->product.type, o->product.b, g * o->product.sb + (o->product.tb ? j + (long long)l * o->product.ldb : l + (long long)j * o->product.ldb));
                const long long at = g * o->product.sc + i + (long long)j * o->product.ldc;
                const double before = o->product.beta == 0 ? 0 : o->product.beta * fake_load(o->product.type, o->product.c, at);
                double x = o->product.alpha * sum + before + (o->product.bias ? fake_load(o->product.type, o->product.bias, i) : 0);
                if (o->product.epilogue == 2)
                    x = x < 0 ? 0 : x;                                  /* NaN stays */
                else if (o->product.epilogue == 32)
                    x = 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
                fake_store(o->product.type, o->product.c, at, x);
            }
    if (o->product.room)
        memset(o->product.room, 0xEE, o->product.bytes);
}

void fake_drop_event(CUevent event)
{
    if (!event->uses && !event->live)
        free(event);
}
void fake_run_one(CUstream s);

/* ---- the threads of a block */

static struct { ucontext_t main, lanes[MOST_LANES]; bool done[MOST_LANES]; unsigned lane; const operation *o; } work;
static char *stacks;

static void barrier(void) { swapcontext(&work.lanes[work.lane], &work.main); }
static void run_lane(void)
{
    work.o->function->call((void **)work.o->values);
    work.done[work.lane] = true;
}
/* False if not all came to the same barriers. */
static bool run_block(const operation *o, unsigned group)
{
    if (!stacks)
        stacks = mmap(NULL, (size_t)MOST_LANES * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *o->function->barrier = barrier;
    work.o = o;
    for (unsigned lane = 0; lane < o->lanes; lane++) {
        work.done[lane] = false;
        getcontext(&work.lanes[lane]);
        work.lanes[lane].uc_stack.ss_sp = stacks + (size_t)lane * STACK;
        work.lanes[lane].uc_stack.ss_size = STACK;
        work.lanes[lane].uc_link = &work.main;
        makecontext(&work.lanes[lane], run_lane, 0);
    }
    for (unsigned round = 0;; round++) {
        unsigned n_done = 0;
        for (unsigned i = 0; i < o->lanes; i++) {
            work.lane = round % 2 ? o->lanes - 1 - i : i;
            o->function->set(group, o->groups, work.lane, o->lanes);
            swapcontext(&work.main, &work.lanes[work.lane]);
            n_done += work.done[work.lane];
        }
        if (n_done == o->lanes)
            return true;
        if (n_done) {
            fprintf(stderr, "fake CUDA: %u of %u threads came to a barrier\n", o->lanes - n_done, o->lanes);
            return false;
        }
    }
}

static void run_kernel(CUcontext context, const operation *o)
{
    const CUfunction f = o->function;
    bool good = !context->doomed;
    for (int i = 0; f->kinds[i] && good; i++)
        if (f->kinds[i] == 'p') {
            const block *b = fake_block_of(fake_blocks, *(char **)o->values[i], 0);
            good = b && b->device == context->device;
        }
    if (!good) {
        context->dead = true;
        return;
    }
    open_all(PROT_READ | PROT_WRITE);
    for (unsigned g = 0; g < o->groups && good; g++)
        good = run_block(o, g);
    context->dead = !good;
    open_all(PROT_NONE);
}
void fake_run_one(CUstream s)
{
    operation *o = s->head;
    if (!o)
        return;
    if (o->kind == EXCHANGE && !s->context->dead) {
        open_all(PROT_READ | PROT_WRITE);
        const bool over = o->step(o->context);
        open_all(PROT_NONE);
        if (!over) {                    /* others may do something meanwhile, and end it */
            pthread_mutex_unlock(&fake_lock);
            usleep(200);
            pthread_mutex_lock(&fake_lock);
            return;
        }
    }
    if (!(s->head = o->next))
        s->tail = &s->head;
    const char *from = o->snapshot ? o->snapshot : o->from;
    if (!s->context->dead)
        switch (o->kind) {
        case COPY: open_all(PROT_READ | PROT_WRITE), memmove(o->to, from, o->bytes), open_all(PROT_NONE); break;
        case FILL: open_all(PROT_READ | PROT_WRITE), memset(o->to, o->byte, o->bytes), open_all(PROT_NONE); break;
        case LAUNCH: run_kernel(s->context, o); break;
        case PRODUCT: open_all(PROT_READ | PROT_WRITE), multiply(o), open_all(PROT_NONE); break;
        case CONVOLUTION: open_all(PROT_READ | PROT_WRITE), fake_convolve(o->convolution), open_all(PROT_NONE); break;
        case CALL: case OTHER: open_all(PROT_READ | PROT_WRITE), o->work(o->context), open_all(PROT_NONE); break;
        case WAIT:
            while (o->event->done < o->serial)
                fake_run_one(o->event->stream);
            break;
        case RECORD: case EXCHANGE: break;
        }
    if (o->kind == RECORD) {
        o->event->done = o->serial;
        clock_gettime(CLOCK_MONOTONIC, &o->event->when);
    }
    if (o->event) {
        o->event->uses--;
        fake_drop_event(o->event);
    }
    fake_free_operation(o);
}
void fake_free_operation(operation *o)
{
    for (int i = 0; i < MOST_ARGUMENTS; i++)
        free(o->values[i]);
    free(o->snapshot), free(o->convolution);
    if (o->kind == CALL)
        free(o->context);
    free(o);
}
void fake_run_all(CUstream s)
{
    while (s->head)
        fake_run_one(s);
}
void fake_run_context(CUcontext context)
{
    for (CUstream s = fake_streams; s; s = s->next)
        if (!context || s->context == context)
            fake_run_all(s);
}

/* The stream that a handle stands for, if it may be used in this context. */
CUstream fake_stream_of(CUstream s)
{
    if (!s)
        return fake_current->first;
    for (CUstream other = fake_streams; other; other = other->next)
        if (other == s)
            return s->live && s->context == fake_current ? s : NULL;
    return NULL;
}
operation *fake_ask(CUstream s, int kind)
{
    operation *o = calloc(1, sizeof *o);
    o->kind = kind;
    operation ***tail = s->capture ? &s->capture->tail : &s->tail;
    **tail = o;
    *tail = &o->next;
    s->joined = false;
    if (s->capture && (kind == OTHER || kind == EXCHANGE))      /* of these the fake makes no copies */
        s->capture->invalid = true;
    return o;
}
CUstream fake_add_stream(CUcontext context, CUstream s)
{
    *s = (struct CUstream_st){.next = fake_streams, .context = context, .live = true};
    s->tail = &s->head;
    return fake_streams = s;
}

