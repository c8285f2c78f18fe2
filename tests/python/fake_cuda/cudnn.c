/* cuDNN: the calls that convolve, on descriptors that are checked as cuDNN does.
 *
 * Of each shape it says three ways: 5, which fails; 0, which isn't deterministic and needs memory, and spoils what it is given of that; and 1. Measured,
 * 1 is the faster.  It has none for a dilation of 7, and takes a stride of 9 for a mistake. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

enum { BAD_PARAM = 2000, NOT_SUPPORTED = 3000, ROOM = 1000, SPACE = 3 };
typedef struct handle { CUcontext context; CUstream stream; } *handle;
typedef struct tensor { int type, n, format, sizes[5], strides[5]; } tensor;        /* or a filter, which has a format */
typedef struct descriptor { int n, padding[SPACE], stride[SPACE], dilation[SPACE], compute, groups, math; } descriptor;
typedef struct way { int algorithm, status; float time; size_t memory; int deterministic, math, reserved[3]; } way;
enum { OF_X, OF_Y, OF_W, FORWARD = 0, BACKWARD_DATA, BACKWARD_FILTER };

size_t cudnnGetVersion(void) { return 99999; }
const char *cudnnGetErrorString(int status) { return status == 1001 ? "CUDNN_STATUS_NOT_INITIALIZED" : "CUDNN_STATUS"; }
void cudnnGetLastErrorString(char *text, size_t size) { strncpy(text, "more of it", size); }
int cudnnCreate(handle *h)
{
    ENTER(true);
    *h = malloc(sizeof **h);
    **h = (struct handle){.context = fake_current};
    return 0;
}
int cudnnDestroy(handle h) { return free(h), 0; }
int cudnnSetStream(handle h, CUstream s) { ENTER(true); return h->stream = s, fake_stream_of(s) ? 0 : BAD_PARAM; }

#define NEW(T, name) int name(T **made) { ENTER(false); return *made = calloc(1, sizeof **made), fake_counts[DESCRIPTORS]++, 0; }
#define END(T, name) int name(T *made) { return free(made), fake_counts[DESCRIPTORS]--, 0; }
NEW(tensor, cudnnCreateTensorDescriptor)
NEW(tensor, cudnnCreateFilterDescriptor)
NEW(descriptor, cudnnCreateConvolutionDescriptor)
END(tensor, cudnnDestroyTensorDescriptor)
END(tensor, cudnnDestroyFilterDescriptor)
END(descriptor, cudnnDestroyConvolutionDescriptor)
int cudnnSetTensorNdDescriptor(tensor *t, int type, int n, const int *sizes, const int *strides)
{
    ENTER(false);
    if (n < 4 || n > 5)
        return BAD_PARAM;
    t->type = type, t->n = n;
    memcpy(t->sizes, sizes, (size_t)n * sizeof *sizes), memcpy(t->strides, strides, (size_t)n * sizeof *sizes);
    for (int d = 0; d < n; d++)
        if (sizes[d] < 1 || strides[d] < 1)
            return BAD_PARAM;
    return 0;
}
int cudnnSetFilterNdDescriptor(tensor *t, int type, int format, int n, const int *sizes)
{
    int strides[5], rest = 1;
    for (int d = n - 1; d >= 0 && n <= 5; d--)
        if (format != 1 || d != 1)
            strides[d] = rest * (format == 1 ? sizes[1] : 1), rest *= sizes[d];
    if (format == 1)
        strides[1] = 1;
    t->format = format;
    return format < 0 || format > 1 ? BAD_PARAM : cudnnSetTensorNdDescriptor(t, type, n, sizes, strides);
}
int cudnnSetConvolutionNdDescriptor(descriptor *c, int n, const int *padding, const int *stride, const int *dilation, int mode, int compute)
{
    ENTER(false);
    c->n = n, c->compute = compute, c->groups = 1;
    for (int d = 0; d < n && d < SPACE; d++)
        c->padding[d] = padding[d], c->stride[d] = stride[d], c->dilation[d] = dilation[d];
    return n < 2 || n > SPACE || mode != 1 || stride[n - 1] == 9 ? BAD_PARAM : 0;
}
int cudnnSetConvolutionGroupCount(descriptor *c, int groups) { return c->groups = groups, groups > 0 ? 0 : BAD_PARAM; }
int cudnnSetConvolutionMathType(descriptor *c, int math) { return c->math = math, math >= 0 && math <= 3 ? 0 : BAD_PARAM; }

/* Sizes that fit each other, one dtype, and a dtype of sums that is wide enough. */
static bool fit(const tensor *x, const tensor *y, const tensor *w, const descriptor *c)
{
    bool good = x->n == y->n && x->n == w->n && c->n == x->n - 2 && x->type == y->type && x->type == w->type && c->compute == (x->type == 1) &&
                x->sizes[0] == y->sizes[0] && x->sizes[1] == w->sizes[1] * c->groups && y->sizes[1] == w->sizes[0] && y->sizes[1] % c->groups == 0;
    for (int d = 0; d < c->n && good; d++)
        good = (x->sizes[d + 2] + 2 * c->padding[d] - (w->sizes[d + 2] - 1) * c->dilation[d] - 1) / c->stride[d] + 1 == y->sizes[d + 2];
    return good;
}
static int ways_of(const tensor *x, const tensor *y, const tensor *w, const descriptor *c, int wanted, int *n, way *ways)
{
    const way all[] = {{5, NOT_SUPPORTED, -1, 0, 1, c->math, {0}}, {0, 0, -1, ROOM, 0, c->math, {0}}, {1, 0, -1, 0, 1, c->math, {0}}};
    *n = 0;
    if (!fit(x, y, w, c))
        return BAD_PARAM;
    if (c->dilation[c->n - 1] == 7)
        return NOT_SUPPORTED;
    for (; *n < 3 && *n < wanted; ++*n)
        ways[*n] = all[*n];
    fake_counts[PLANS]++;
    return 0;
}
int cudnnGetConvolutionForwardAlgorithm_v7(handle h, tensor *x, tensor *w, descriptor *c, tensor *y, int wanted, int *n, way *ways)
{
    ENTER(true);
    return h->context != fake_current ? BAD_PARAM : ways_of(x, y, w, c, wanted, n, ways);
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(handle h, tensor *w, tensor *y, descriptor *c, tensor *x, int wanted, int *n, way *ways)
{
    ENTER(true);
    return h->context != fake_current ? BAD_PARAM : ways_of(x, y, w, c, wanted, n, ways);
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle h, tensor *x, tensor *y, descriptor *c, tensor *w, int wanted, int *n, way *ways)
{
    ENTER(true);
    return h->context != fake_current ? BAD_PARAM : ways_of(x, y, w, c, wanted, n, ways);
}

static int workspace(int algorithm, size_t *bytes) { return *bytes = algorithm == 0 ? ROOM : 0, algorithm < 2 ? 0 : NOT_SUPPORTED; }
int cudnnGetConvolutionForwardWorkspaceSize(handle h, tensor *x, tensor *w, descriptor *c, tensor *y, int algorithm, size_t *bytes)
{
    return (void)h, fit(x, y, w, c) ? workspace(algorithm, bytes) : BAD_PARAM;
}
int cudnnGetConvolutionBackwardDataWorkspaceSize(handle h, tensor *w, tensor *y, descriptor *c, tensor *x, int algorithm, size_t *bytes)
{
    return (void)h, fit(x, y, w, c) ? workspace(algorithm, bytes) : BAD_PARAM;
}
int cudnnGetConvolutionBackwardFilterWorkspaceSize(handle h, tensor *x, tensor *y, descriptor *c, tensor *w, int algorithm, size_t *bytes)
{
    return (void)h, fit(x, y, w, c) ? workspace(algorithm, bytes) : BAD_PARAM;
}

static char *of_device(const tensor *t, const void *p)
{
    long long last = 0, width = t->type == 0 ? 4 : t->type == 1 ? 8 : 2;
    for (int d = 0; d < t->n; d++)
        last += (long long)t->strides[d] * (t->sizes[d] - 1);
    return fake_place((CUdeviceptr)(uintptr_t)p, (size_t)((last + 1) * width), fake_current->device);
}
static int convolve(handle h, int kind, const void *alpha, const tensor *x, const void *xp, const tensor *y, const void *yp, const tensor *w, const void *wp,
                    const descriptor *c, int algorithm, void *room, size_t bytes, const void *beta)
{
    CUstream s = h->context == fake_current ? fake_stream_of(h->stream) : NULL;
    const bool wide = x->type == 1, scaled = wide ? *(const double *)alpha == 1 && *(const double *)beta == 0 : *(const float *)alpha == 1 && *(const float *)beta == 0;
    size_t wanted;
    if (!s || !scaled || !fit(x, y, w, c) || workspace(algorithm, &wanted) || bytes < wanted || !of_device(x, xp) || !of_device(y, yp) || !of_device(w, wp) ||
        (wanted && !fake_place((CUdeviceptr)(uintptr_t)room, bytes, fake_current->device)))
        return 5000;
    convolution *call = calloc(1, sizeof *call);
    const tensor *of[] = {x, y, w};
    const int skip = SPACE - c->n;
    *call = (convolution){.type = x->type, .kind = kind, .groups = c->groups, .data = {(char *)(uintptr_t)xp, (char *)(uintptr_t)yp, (char *)(uintptr_t)wp},
                          .room = wanted ? room : NULL, .bytes = wanted};
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 5; d++) {
            const int at = d < 2 ? d : d - skip;
            call->sizes[i][d] = d >= 2 && at < 2 ? 1 : of[i]->sizes[at], call->strides[i][d] = d >= 2 && at < 2 ? 0 : of[i]->strides[at];
        }
    for (int d = 0; d < SPACE; d++)
        call->padding[d] = d < skip ? 0 : c->padding[d - skip], call->stride[d] = d < skip ? 1 : c->stride[d - skip], call->dilation[d] = d < skip ? 1 : c->dilation[d - skip];
    fake_ask(s, CONVOLUTION)->convolution = call;
    fake_counts[CONVOLUTIONS]++, fake_counts[ALGORITHM] = algorithm, fake_counts[CONVOLUTION_MATH] = c->math;
    return 0;
}
int cudnnConvolutionForward(handle h, const void *alpha, tensor *x, const void *xp, tensor *w, const void *wp, descriptor *c, int algorithm, void *room,
                            size_t bytes, const void *beta, tensor *y, void *yp)
{
    ENTER(true);
    return convolve(h, FORWARD, alpha, x, xp, y, yp, w, wp, c, algorithm, room, bytes, beta);
}
int cudnnConvolutionBackwardData(handle h, const void *alpha, tensor *w, const void *wp, tensor *y, const void *yp, descriptor *c, int algorithm, void *room,
                                 size_t bytes, const void *beta, tensor *x, void *xp)
{
    ENTER(true);
    return convolve(h, BACKWARD_DATA, alpha, x, xp, y, yp, w, wp, c, algorithm, room, bytes, beta);
}
int cudnnConvolutionBackwardFilter(handle h, const void *alpha, tensor *x, const void *xp, tensor *y, const void *yp, descriptor *c, int algorithm, void *room,
                                   size_t bytes, const void *beta, tensor *w, void *wp)
{
    ENTER(true);
    return convolve(h, BACKWARD_FILTER, alpha, x, xp, y, yp, w, wp, c, algorithm, room, bytes, beta);
}

static int measure(int status, const tensor *x, const tensor *y, const tensor *w, const descriptor *c, size_t bytes, int *n, way *ways)
{
    way all[3];
    if (status || (status = ways_of(x, y, w, c, 3, n, all)) || bytes < ROOM)
        return status ? status : BAD_PARAM;
    ways[0] = all[2], ways[1] = all[1], ways[2] = all[0], ways[0].time = 1, ways[1].time = 2;
    fake_counts[PLANS]--, fake_counts[MEASURED]++;
    return 0;
}
int cudnnFindConvolutionForwardAlgorithmEx(handle h, tensor *x, const void *xp, tensor *w, const void *wp, descriptor *c, tensor *y, void *yp, int wanted, int *n,
                                           way *ways, void *room, size_t bytes)
{
    ENTER(true);
    const float one = 1, zero = 0;
    return (void)wanted, measure(convolve(h, FORWARD, &one, x, xp, y, yp, w, wp, c, 0, room, bytes, &zero), x, y, w, c, bytes, n, ways);
}
int cudnnFindConvolutionBackwardDataAlgorithmEx(handle h, tensor *w, const void *wp, tensor *y, const void *yp, descriptor *c, tensor *x, void *xp, int wanted,
                                                int *n, way *ways, void *room, size_t bytes)
{
    ENTER(true);
    const float one = 1, zero = 0;
    return (void)wanted, measure(convolve(h, BACKWARD_DATA, &one, x, xp, y, yp, w, wp, c, 0, room, bytes, &zero), x, y, w, c, bytes, n, ways);
}
int cudnnFindConvolutionBackwardFilterAlgorithmEx(handle h, tensor *x, const void *xp, tensor *y, const void *yp, descriptor *c, tensor *w, void *wp, int wanted,
                                                  int *n, way *ways, void *room, size_t bytes)
{
    ENTER(true);
    const float one = 1, zero = 0;
    return (void)wanted, measure(convolve(h, BACKWARD_FILTER, &one, x, xp, y, yp, w, wp, c, 0, room, bytes, &zero), x, y, w, c, bytes, n, ways);
}

/* ---- when it is run */

static long long place(const convolution *c, int operand, int a, int b, const int *at)
{
    const int *s = c->strides[operand];
    return (long long)a * s[0] + (long long)b * s[1] + (long long)at[0] * s[2] + (long long)at[1] * s[3] + (long long)at[2] * s[4];
}
static bool step(const int *sizes, int *at)
{
    for (int d = SPACE - 1; d >= 0; d--) {
        if (++at[d] < sizes[d])
            return true;
        at[d] = 0;
    }
    return false;
}

void fake_convolve(const convolution *c)
{
    static const int computed[] = {OF_Y, OF_X, OF_W};
    const int result = computed[c->kind], groups = c->groups, in = c->sizes[OF_W][1], out = c->sizes[OF_W][0] / groups;
    long long n = 1;
    for (int d = 0; d < 5; d++)
        n *= c->sizes[result][d];
    double *sums = calloc((size_t)n, sizeof *sums);
    for (int image = 0; image < c->sizes[OF_X][0]; image++)
        for (int co = 0; co < out * groups; co++)
            for (int ci = 0; ci < in; ci++) {
                int position[SPACE] = {0};
                do {
                    int tap[SPACE] = {0};
                    do {
                        int at[SPACE];
                        bool inside = true;
                        for (int d = 0; d < SPACE; d++) {
                            at[d] = position[d] * c->stride[d] - c->padding[d] + tap[d] * c->dilation[d];
                            inside = inside && at[d] >= 0 && at[d] < c->sizes[OF_X][d + 2];
                        }
                        if (!inside)
                            continue;
                        const long long of[] = {place(c, OF_X, image, co / out * in + ci, at), place(c, OF_Y, image, co, position), place(c, OF_W, co, ci, tap)};
                        double product = 1;
                        for (int i = 0; i < 3; i++)
                            product *= i == result ? 1 : fake_load(c->type, c->data[i], of[i]);
                        sums[of[result]] += product;
                    } while (step(&c->sizes[OF_W][2], tap));
                } while (step(&c->sizes[OF_Y][2], position));
            }
    for (long long i = 0; i < n; i++)
        fake_store(c->type, c->data[result], i, sums[i]);
    free(sums);
    if (c->room)
        memset(c->room, 0xEE, c->bytes);
}
