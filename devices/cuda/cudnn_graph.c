/* Convolutions and attention by cuDNN's graphs: one operation each, for which cuDNN says which engines it has.
 *
 * What is found for a call's form (a plan) is kept, as in cudnn.c; a form that it has no plan for is kept as well, and is left to cudnn.c, or to the core.
 * A plan belongs to the handle that it was made with, so to one stream. */
#include "cudnn_graph.h"
#include "cudnn_handles.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <tede/auto.h>

#define POINTER(result, name, arguments) static result (*name) arguments;
CUDNN_GRAPH_FUNCTIONS(POINTER)
static const cuda_function functions[] = {CUDNN_GRAPH_FUNCTIONS(CUDA_LISTED){NULL}};
static cuda_vendor library = {.name = "cudnn", .before = "cublasLt", .major = 9, .functions = functions, .lock = PTHREAD_MUTEX_INITIALIZER};

enum { TENSORS = 10, DIMS = 5, CONFIGURATIONS = 16, NOTES = 32, MADE = 40, BUCKETS = 1024, BYTES = 16, ATTEND = TD_CONVOLUTION_GRAD_WEIGHT + 1, ATTEND_BACKWARD };

/* An operation and its tensors, whose numbers are their places from 1 on. */
typedef struct form {
    void   *handle;
    int64_t sizes[TENSORS][DIMS], strides[TENSORS][DIMS], space[4][3];      /* space: padding, the same, stride, dilation */
    int     kind, flags, type, n, dims, types[TENSORS], value;              /* value: the place of a tensor that is a number of the CPU's, or -1 */
} form;
typedef struct plan { struct plan *next; form form; cudnnBackendDescriptor_t of; size_t workspace; } plan;      /* of: NULL where there is none */
static plan *plans[BUCKETS];
static pthread_mutex_t plans_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- descriptors: all that a plan is made of; but for it they are dropped in the end */

typedef struct maker { cudnnStatus_t status; int n; cudnnBackendDescriptor_t made[MADE]; } maker;

static cudnnBackendDescriptor_t begin(maker *m, int type)
{
    cudnnBackendDescriptor_t made = NULL;
    if (m->status == 0 && (m->status = cudnnBackendCreateDescriptor(type, &made)) == 0)
        m->made[m->n++] = made;
    return made;
}
static void set(maker *m, cudnnBackendDescriptor_t d, int name, int type, int64_t n, const void *values)
{
    m->status = m->status ? m->status : cudnnBackendSetAttribute(d, name, type, n, values);
}
static void set_number(maker *m, cudnnBackendDescriptor_t d, int name, int64_t value) { set(m, d, name, CUDNN_TYPE_INT64, 1, &value); }
static void set_choice(maker *m, cudnnBackendDescriptor_t d, int name, int type, int value) { set(m, d, name, type, 1, &value); }
static void set_descriptor(maker *m, cudnnBackendDescriptor_t d, int name, cudnnBackendDescriptor_t value)
{
    set(m, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}
static cudnnBackendDescriptor_t end(maker *m, cudnnBackendDescriptor_t d)
{
    m->status = m->status ? m->status : cudnnBackendFinalize(d);
    return d;
}
static void drop(maker *m, cudnnBackendDescriptor_t kept)
{
    for (int i = m->n - 1; i >= 0; i--)
        if (m->made[i] != kept)
            cudnnBackendDestroyDescriptor(m->made[i]);
}

static cudnnBackendDescriptor_t tensor(maker *m, const form *f, int at)
{
    cudnnBackendDescriptor_t d = begin(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const bool by_value = at == f->value;
    set_choice(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, f->types[at]);
    set(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, f->dims, f->sizes[at]);
    set(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, f->dims, f->strides[at]);
    set_number(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, at + 1);
    set_number(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, by_value ? 4 : BYTES);
    if (by_value)
        set(m, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    return end(m, d);
}

static cudnnBackendDescriptor_t convolution(maker *m, const form *f)
{
    cudnnBackendDescriptor_t d = begin(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    static const int names[] = {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES,
                                CUDNN_ATTR_CONVOLUTION_DILATIONS};
    set_choice(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, f->type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT);
    set_choice(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, CUDNN_CROSS_CORRELATION);
    set_number(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, f->dims - 2);
    for (int i = 0; i < 4; i++)
        set(m, d, names[i], CUDNN_TYPE_INT64, f->dims - 2, f->space[i]);
    return end(m, d);
}

/* Which attribute of an operation each tensor is; behind those of a convolution its descriptor and its factors. */
static const struct { int type, names[TENSORS], convolution, alpha, beta; } operations[] = {
    [TD_CONVOLUTION_FORWARD] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                {CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
                                CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
    [TD_CONVOLUTION_GRAD_INPUT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                   {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
                                   CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
    [TD_CONVOLUTION_GRAD_WEIGHT] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                                    {CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
                                    CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
    [ATTEND] = {CUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR,
                {CUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_ODESC,
                 CUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, CUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC}, 0, 0, 0},
    [ATTEND_BACKWARD] = {CUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR,
                         {CUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_KDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_VDESC,
                          CUDNN_ATTR_OPERATION_SDPA_BWD_ODESC, CUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC,
                          CUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, CUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC,
                          CUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC}, 0, 0, 0},
};

static cudnnBackendDescriptor_t graph(maker *m, const form *f)
{
    cudnnBackendDescriptor_t tensors[TENSORS], of = NULL;
    for (int i = 0; i < f->n; i++)
        tensors[i] = tensor(m, f, i);
    if (f->kind < ATTEND)
        of = convolution(m, f);
    cudnnBackendDescriptor_t operation = begin(m, operations[f->kind].type);
    for (int i = 0; i < f->n; i++)
        set_descriptor(m, operation, operations[f->kind].names[i], tensors[i]);
    if (of) {
        const bool wide = f->type == CUDNN_DATA_DOUBLE;
        const int type = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
        set_descriptor(m, operation, operations[f->kind].convolution, of);
        const double wide_factors[] = {1, 0};
        const float factors[] = {1, 0};
        set(m, operation, operations[f->kind].alpha, type, 1, wide ? (const void *)wide_factors : factors);
        set(m, operation, operations[f->kind].beta, type, 1, wide ? (const void *)(wide_factors + 1) : factors + 1);
    }
    end(m, operation);
    cudnnBackendDescriptor_t d = begin(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(m, d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &f->handle);
    set_descriptor(m, d, CUDNN_ATTR_OPERATIONGRAPH_OPS, operation);
    return end(m, d);
}

/* ---- plans */

/* Whether an engine does what programs allow: sums are float32 at least, operands are rounded where TF32 is allowed. */
static bool allowed(const form *f, cudnnBackendDescriptor_t configuration)
{
    maker m = {0};
    int notes[NOTES];
    int64_t n = 0, n_engines = 0;
    cudnnBackendDescriptor_t engine = begin(&m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    m.status = m.status ? m.status : cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n_engines, &engine);
    m.status = m.status ? m.status : cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &n, notes);
    bool is = m.status == 0;
    for (int64_t i = 0; i < n && is; i++)
        is = !(notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION ||
               (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC && f->flags & (TD_CONVOLUTION_DETERMINISTIC | TD_LIBRARY_DETERMINISTIC)) ||
               (f->type == CUDNN_DATA_FLOAT && (notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
                                                (notes[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && !(f->flags & TD_CONVOLUTION_TF32)))));
    drop(&m, NULL);
    return is;
}

/* The first of a mode's engines that is allowed and of which there is a plan. */
static cudnnBackendDescriptor_t choose(const form *f, cudnnBackendDescriptor_t graph, int mode, size_t *workspace)
{
    maker m = {0};
    cudnnBackendDescriptor_t heuristics = begin(&m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), configurations[CONFIGURATIONS], plan = NULL;
    int64_t n = 0, one = 0, bytes = 0;
    set_descriptor(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set_choice(&m, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, mode);
    end(&m, heuristics);
    for (int i = 0; i < CONFIGURATIONS; i++)
        configurations[i] = begin(&m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    m.status = m.status ? m.status : cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CONFIGURATIONS, &n, configurations);
    const cudnnStatus_t status = m.status;
    for (int64_t i = 0; i < n && i < CONFIGURATIONS && !plan && status == 0; i++) {
        if (!allowed(f, configurations[i]))
            continue;
        m.status = 0;
        plan = begin(&m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        set(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &f->handle);
        set_descriptor(&m, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configurations[i]);
        end(&m, plan);
        m.status = m.status ? m.status : cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one, &bytes);
        if (m.status)
            plan = NULL;
    }
    drop(&m, plan);
    *workspace = (size_t)bytes;
    return plan;
}

static plan *plan_of(const form *f)
{
    plan **bucket = &plans[cuda_bucket(f, sizeof *f, BUCKETS)], *p = *bucket;
    while (p && memcmp(&p->form, f, sizeof *f))
        p = p->next;
    if (p)
        return p;
    if (!(p = calloc(1, sizeof *p)))
        return td_fail(TD_E_MEMORY, "cuda: no memory for a plan of cuDNN");
    maker m = {0};
    cudnnBackendDescriptor_t of = graph(&m, f);
    if (m.status && !cuda_dnn_declined(m.status)) {
        cuda_dnn_failed("a graph of cuDNN", m.status);
        drop(&m, NULL);
        free(p);
        return NULL;
    }
    p->form = *f;
    p->of = m.status ? NULL : choose(f, of, CUDNN_HEUR_MODE_A, &p->workspace);
    p->of = m.status || p->of ? p->of : choose(f, of, CUDNN_HEUR_MODE_FALLBACK, &p->workspace);
    drop(&m, NULL);
    p->next = *bucket;
    return *bucket = p;
}

static cudnnStatus_t execute(void *handle, const plan *p, void *const *data, void *room)
{
    static const int64_t numbers[TENSORS] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    maker m = {0};
    cudnnBackendDescriptor_t pack = begin(&m, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&m, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, p->form.n, numbers);
    set(&m, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, p->form.n, data);
    set(&m, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &room);
    end(&m, pack);
    m.status = m.status ? m.status : cudnnBackendExecute(handle, p->of, pack);
    drop(&m, NULL);
    return m.status;
}

static int run(td_device device, cuda_handle *h, form *f, void *const *data, const char *what)
{
    f->handle = h->of;
    pthread_mutex_lock(&plans_lock);
    const plan *p = plan_of(f);
    pthread_mutex_unlock(&plans_lock);
    if (!p || !p->of)
        return p ? 1 : -1;
    td_storage *room = p->workspace ? td_storage_new(device, p->workspace) : NULL;
    if (p->workspace && !room) {
        td_error_clear();
        return 1;
    }
    const cudnnStatus_t status = execute(h->of, p, data, room ? td_storage_data(room) : NULL);
    td_storage_release(room);
    return status == 0 ? 0 : cuda_dnn_declined(status) ? 1 : cuda_dnn_failed(what, status);
}

/* ---- calls */

static void put_convolved(form *f, int at, const int *sizes, bool last)
{
    int64_t n = last ? sizes[1] : 1;
    f->strides[at][1] = 1;
    for (int d = f->dims - 1; d >= 0; d--) {
        f->sizes[at][d] = sizes[d];
        if (!last || d != 1)
            f->strides[at][d] = n, n *= sizes[d];
    }
    f->types[at] = f->type;
}

int cuda_graph_convolution(td_device device, cuda_handle *h, const cuda_dnn_shape *s, const td_convolution_call *c)
{
    form f;
    if (!cuda_has(&library) || s->flags & TD_CONVOLUTION_MEASURE)
        return 1;
    memset(&f, 0, sizeof f);
    f.kind = s->kind, f.flags = s->flags, f.type = s->type, f.n = 3, f.dims = s->n, f.value = -1;
    put_convolved(&f, 0, s->x, s->last), put_convolved(&f, 1, s->w, s->last), put_convolved(&f, 2, s->y, s->last);
    for (int d = 0; d < s->n - 2; d++)
        f.space[0][d] = f.space[1][d] = s->padding[d], f.space[2][d] = s->stride[d], f.space[3][d] = s->dilation[d];
    return run(device, h, &f, (void *[]){c->x, c->w, c->y}, "a convolution");
}

static bool put_attended(form *f, int at, int64_t batch, int64_t heads, int64_t rows, int64_t width, const td_attention_operand *x)
{
    memcpy(f->sizes[at], (int64_t[]){batch, heads, rows, width}, 4 * sizeof(int64_t));
    memcpy(f->strides[at], x->strides, 4 * sizeof(int64_t));
    f->types[at] = f->type;
    bool fit = (uintptr_t)x->data % BYTES == 0 && x->strides[3] == 1;
    for (int d = 0; d < 3; d++)                     /* a stride along one element means nothing to the core, but something to cuDNN */
        fit = fit && (f->sizes[at][d] == 1 || x->strides[d] * 2 % BYTES == 0), f->strides[at][d] = f->sizes[at][d] == 1 ? batch * heads * rows * width : f->strides[at][d];
    return fit;
}

int cuda_attention(td_device device, void *stream, const td_attention_call *c)
{
    form f;
    float scale = (float)c->scale;
    if (!(c->dtype == TD_F16 || c->dtype == TD_BF16) || c->flags & TD_CONVOLUTION_OFF)
        return 1;
    memset(&f, 0, sizeof f);
    f.kind = c->backward ? ATTEND_BACKWARD : ATTEND, f.flags = (int)(c->flags & TD_LIBRARY_DETERMINISTIC);
    f.type = c->dtype == TD_F16 ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16, f.n = c->backward ? 10 : 6, f.dims = 4, f.value = 5;
    const td_attention_operand lse = {c->lse, {c->heads * c->queries, c->queries, 1, 1}}, factor = {&scale, {1, 1, 1, 1}};
    bool fit = put_attended(&f, 0, c->batch, c->heads, c->queries, c->width, &c->q) && put_attended(&f, 1, c->batch, c->kv_heads, c->keys, c->width, &c->k) &&
               put_attended(&f, 2, c->batch, c->kv_heads, c->keys, c->value_width, &c->v) &&
               put_attended(&f, 3, c->batch, c->heads, c->queries, c->value_width, &c->out) && (uintptr_t)c->lse % BYTES == 0;
    put_attended(&f, 4, c->batch, c->heads, c->queries, 1, &lse), put_attended(&f, 5, 1, 1, 1, 1, &factor);
    f.types[4] = f.types[5] = CUDNN_DATA_FLOAT;
    if (c->backward)
        fit = fit && put_attended(&f, 6, c->batch, c->heads, c->queries, c->value_width, &c->grad) &&
              put_attended(&f, 7, c->batch, c->heads, c->queries, c->width, &c->dq) && put_attended(&f, 8, c->batch, c->kv_heads, c->keys, c->width, &c->dk) &&
              put_attended(&f, 9, c->batch, c->kv_heads, c->keys, c->value_width, &c->dv);
    if (!fit || !cuda_has(&library))
        return 1;
    cuda_handle *h;
    const int begun = cuda_begin(&cuda_dnn_handles, device.index, stream, &h);
    if (begun)
        return begun;
    const int status = run(device, h, &f, (void *[]){c->q.data, c->k.data, c->v.data, c->out.data, c->lse, &scale, c->grad.data, c->dq.data, c->dk.data, c->dv.data},
                           "attention");
    cuda_put_handle(h);
    return status;
}
