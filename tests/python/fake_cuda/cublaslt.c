/* cuBLASLt: products with epilogues, on descriptors that are checked as cuBLASLt does.
 *
 * It has no algorithm for k = 7, none for halves at addresses or with leading dimensions that are odd numbers of them, and none that a
 * preference's workspace doesn't hold: sums of more than 16 products need some, and spoil it. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

enum { OK, INVALID = 7, UNSUPPORTED = 15, ROOM = 1000, FAKE_ALGORITHM = 0xA160 };
typedef struct handle { CUcontext context; } *handle;
typedef struct product { int compute, scale, ops[2]; uint32_t epilogue; char *bias; } product;
typedef struct layout { int type, batch; uint64_t rows, columns; int64_t leading, stride; } layout;
typedef struct preference { size_t workspace; uint32_t schemes, alignments[4]; } preference;
typedef struct algorithm { uint64_t mark, m, n, k, type, epilogue, workspace, alignments; } algorithm;     /* a byte for each matrix's, its logarithm */
typedef struct found { algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; } found;

int cublasLtCreate(handle *h)
{
    ENTER(true);
    *h = malloc(sizeof **h);
    **h = (struct handle){fake_current};
    fake_counts[HANDLES]++;
    return OK;
}
int cublasLtDestroy(handle h) { return free(h), fake_counts[HANDLES]--, OK; }

#define NEW(T, name) int name(T **made) { ENTER(false); return *made = calloc(1, sizeof **made), fake_counts[DESCRIPTORS]++, OK; }
#define END(T, name) int name(T *made) { return free(made), fake_counts[DESCRIPTORS]--, OK; }
static int put(void *to, size_t size, const void *from, size_t given) { return size != given ? INVALID : (memcpy(to, from, size), OK); }

int cublasLtMatmulDescCreate(product **p, int compute, int scale)
{
    ENTER(false);
    const bool known = compute == 70 ? scale == 1 : (compute == 68 || compute == 77) && scale == 0;
    if (!known)
        return INVALID;
    *p = calloc(1, sizeof **p);
    **p = (product){.compute = compute, .scale = scale, .epilogue = 1};
    fake_counts[DESCRIPTORS]++;
    return OK;
}
END(product, cublasLtMatmulDescDestroy)
int cublasLtMatmulDescSetAttribute(product *p, int which, const void *from, size_t size)
{
    ENTER(false);
    return which == 3 || which == 4 ? put(&p->ops[which - 3], 4, from, size) : which == 7 ? put(&p->epilogue, 4, from, size)
         : which == 8 ? put(&p->bias, sizeof p->bias, from, size) : INVALID;
}

int cublasLtMatrixLayoutCreate(layout **l, int type, uint64_t rows, uint64_t columns, int64_t leading)
{
    ENTER(false);
    if ((type < 0 || type > 2) && type != 14)
        return INVALID;
    *l = calloc(1, sizeof **l);
    **l = (layout){type, 1, rows, columns, leading, 0};
    fake_counts[DESCRIPTORS]++;
    return OK;
}
END(layout, cublasLtMatrixLayoutDestroy)
int cublasLtMatrixLayoutSetAttribute(layout *l, int which, const void *from, size_t size)
{
    ENTER(false);
    return which == 5 ? put(&l->batch, 4, from, size) : which == 6 ? put(&l->stride, 8, from, size) : INVALID;
}

NEW(preference, cublasLtMatmulPreferenceCreate)
END(preference, cublasLtMatmulPreferenceDestroy)
int cublasLtMatmulPreferenceSetAttribute(preference *p, int which, const void *from, size_t size)
{
    ENTER(false);
    return which == 1 ? put(&p->workspace, sizeof p->workspace, from, size) : which == 3 ? put(&p->schemes, 4, from, size)
         : which >= 5 && which <= 8 ? put(&p->alignments[which - 5], 4, from, size) : INVALID;
}

static int width_of(int type) { return type == 0 ? 4 : type == 1 ? 8 : 2; }
static uint64_t log_of(uint64_t x) { uint64_t n = 0; while (x > 1) x /= 2, n++; return n; }

/* Matrices of one dtype that fit each other and the dtype of sums, and an epilogue that has what it needs. */
static bool fit(const product *p, const layout *a, const layout *b, const layout *c, const layout *d, uint64_t *k)
{
    const bool ta = p->ops[0], tb = p->ops[1];
    *k = ta ? a->rows : a->columns;
    const layout *all[] = {a, b, c, d};
    bool good = (tb ? b->columns : b->rows) == *k && (ta ? a->columns : a->rows) == d->rows && (tb ? b->rows : b->columns) == d->columns &&
                c->rows == d->rows && c->columns == d->columns && c->leading == d->leading && (p->compute == 70) == (d->type == 1) &&
                (p->compute != 77 || d->type == 0) && p->ops[0] >= 0 && p->ops[0] < 2 && p->ops[1] >= 0 && p->ops[1] < 2;
    for (int i = 0; i < 4; i++)
        good = good && all[i]->type == d->type && all[i]->leading >= (int64_t)all[i]->rows && all[i]->batch == d->batch && all[i]->batch > 0 && all[i]->rows &&
               all[i]->columns;
    const uint32_t e = p->epilogue;
    return good && (e == 1 || e == 2 || e == 4 || e == 6 || e == 32 || e == 36) && !(e & 4 && !p->bias);
}

int cublasLtMatmulAlgoGetHeuristic(handle h, product *p, layout *a, layout *b, layout *c, layout *d, preference *wish, int wanted, found *results, int *n)
{
    ENTER(true);
    uint64_t k;
    *n = 0;
    if (h->context != fake_current || wanted < 1 || !fit(p, a, b, c, d, &k) || !(wish->schemes & 2))
        return INVALID;
    const layout *all[] = {a, b, c, d};
    bool has = k != 7;
    uint64_t alignments = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t width = (uint32_t)width_of(d->type), least = width == 2 ? 4 : width;
        if (wish->alignments[i] < width)
            return INVALID;
        has = has && wish->alignments[i] >= least && (all[i]->leading * width) % least == 0;
        alignments |= log_of(least) << 8 * i;
    }
    const size_t workspace = k > 16 ? ROOM : 0;
    if (!has || workspace > wish->workspace)
        return UNSUPPORTED;
    fake_counts[ALGORITHMS]++;
    *n = 1;
    *results = (found){{FAKE_ALGORITHM, d->rows, d->columns, k, (uint64_t)d->type, p->epilogue, workspace, alignments}, workspace, OK, 1, {0}};
    return OK;
}

/* Of the memory that a matrix lies in. */
static char *of_device(const layout *l, const void *p)
{
    const int64_t last = l->leading * ((int64_t)l->columns - 1) + (int64_t)l->rows + l->stride * (l->batch - 1);
    return fake_place((CUdeviceptr)(uintptr_t)p, (size_t)(last * width_of(l->type)), fake_current->device);
}
int cublasLtMatmul(handle h, product *p, const void *alpha, const void *a, layout *la, const void *b, layout *lb, const void *beta, const void *c, layout *lc,
                   void *d, layout *ld, const algorithm *way, void *room, size_t bytes, CUstream stream)
{
    ENTER(true);
    CUstream s = h->context == fake_current ? fake_stream_of(stream) : NULL;
    const void *all[] = {a, b, c, d};
    uint64_t k;
    bool good = s && fit(p, la, lb, lc, ld, &k) && way->mark == FAKE_ALGORITHM && way->m == ld->rows && way->n == ld->columns && way->k == k &&
                way->type == (uint64_t)ld->type && way->epilogue == p->epilogue && bytes >= way->workspace && c == d && of_device(la, a) && of_device(lb, b) &&
                of_device(ld, d);
    for (int i = 0; i < 4 && good; i++)
        good = (uintptr_t)all[i] % ((uintptr_t)1 << (way->alignments >> 8 * i & 0xFF)) == 0;
    if (!good || (way->workspace && !fake_place((CUdeviceptr)(uintptr_t)room, bytes, fake_current->device)) ||
        (p->epilogue & 4 && !fake_place((CUdeviceptr)(uintptr_t)p->bias, ld->rows * (size_t)width_of(ld->type), fake_current->device)))
        return INVALID;
    operation *o = fake_ask(s, PRODUCT);
    o->product.ta = p->ops[0], o->product.tb = p->ops[1], o->product.type = ld->type;
    o->product.lda = (int)la->leading, o->product.ldb = (int)lb->leading, o->product.ldc = (int)ld->leading;
    o->product.m = (int)ld->rows, o->product.n = (int)ld->columns, o->product.k = (int)k, o->product.batch = ld->batch;
    o->product.sa = la->stride, o->product.sb = lb->stride, o->product.sc = ld->stride;
    o->product.alpha = p->scale == 1 ? *(const double *)alpha : (double)*(const float *)alpha;
    o->product.beta = p->scale == 1 ? *(const double *)beta : (double)*(const float *)beta;
    o->product.a = (char *)(uintptr_t)a, o->product.b = (char *)(uintptr_t)b, o->product.c = d;
    o->product.bias = p->epilogue & 4 ? p->bias : NULL, o->product.epilogue = (int)(p->epilogue & ~5u);
    o->product.room = way->workspace ? room : NULL, o->product.bytes = way->workspace;
    fake_counts[EPILOGUES]++, fake_counts[COMPUTE] = p->compute;
    return OK;
}
