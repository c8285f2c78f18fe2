/* cuDNN's graphs, of a convolution or an attention, each attribute of which is checked as cuDNN does: its type, how many values, what it belongs to.
 *
 * Of a convolution it has three engines: one of which there is no plan, one that isn't deterministic, uses tensor cores and needs memory, which it
 * spoils, and one that is plain; none for a dilation of 7, and a stride of 9 is a mistake.  Of attention there is one, for halves in widths that 8
 * divides, up to 128, but for 13 queries.  FAKE_CUDNN_GRAPH=0: none at all; FAKE_CUDNN_GRAPH=9.10: attention isn't known. */
#include "fake.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BAD_PARAM = 2000, NOT_SUPPORTED = 3000, FAILED = 5000, ROOM = 1000, MOST = 16, ENGINES = 3 };
enum { CONVOLUTION_OF = 1, ENGINE = 2, CONFIGURATION = 3, HEURISTICS = 4, PLAN = 5, FORWARD_OF = 10, FILTER_OF = 11, DATA_OF = 12, GRAPH = 15, PACK = 16, TENSOR = 17,
       ATTEND = 41, ATTEND_BACKWARD = 43, OF_HANDLE = 0, OF_DTYPE = 1, OF_BOOLEAN = 2, OF_INT64 = 3, OF_FLOAT = 4, OF_DOUBLE = 5, OF_POINTER = 6, OF_MODE = 7,
       OF_HEURISTIC = 8, OF_NOTE = 11, OF_DESCRIPTOR = 15 };
typedef struct handle { CUcontext context; CUstream stream; } *handle;                 /* as in cudnn.c */
typedef struct attribute { int name, type; int64_t n; char bytes[MOST * 8]; } attribute;
/* What a plan remembers of its graph, whose descriptors may be gone: operands in the order of the operation's attributes, and which numbers they have. */
enum { OPERANDS = 10 };
typedef struct made {
    int     type, n, dims, engine, types[OPERANDS];
    int64_t numbers[OPERANDS], alignments[OPERANDS], sizes[OPERANDS][5], strides[OPERANDS][5], padding[3], stride[3], dilation[3];
    bool    by_value[OPERANDS];
    handle  handle;
} made;
typedef struct descriptor { int type, n, engine; bool final; const struct descriptor *graph; made made; attribute attributes[24]; } descriptor;

static bool attends(int type) { return type == ATTEND || type == ATTEND_BACKWARD; }
static const attribute *get(const descriptor *d, int name)
{
    for (int i = 0; d && i < d->n; i++)
        if (d->attributes[i].name == name)
            return &d->attributes[i];
    return NULL;
}
static int64_t number(const descriptor *d, int name, int i) { const attribute *a = get(d, name); return a && i < a->n ? ((const int64_t *)(const void *)a->bytes)[i] : 0; }
static int choice(const descriptor *d, int name) { const attribute *a = get(d, name); return a ? *(const int *)(const void *)a->bytes : -1; }
static void *pointer(const descriptor *d, int name, int i) { const attribute *a = get(d, name); return a && i < a->n ? ((void *const *)(const void *)a->bytes)[i] : NULL; }
static const descriptor *part(const descriptor *d, int name) { return pointer(d, name, 0); }

int cudnnBackendCreateDescriptor(int type, descriptor **made)
{
    ENTER(false);
    const char *graphs = getenv("FAKE_CUDNN_GRAPH");
    if (attends(type) && graphs && !strcmp(graphs, "9.10"))
        return NOT_SUPPORTED;
    *made = calloc(1, sizeof **made);
    (*made)->type = type;
    fake_counts[DESCRIPTORS]++;
    return 0;
}
int cudnnBackendDestroyDescriptor(descriptor *d)
{
    fake_counts[DESCRIPTORS]--;
    free(d);
    return 0;
}
static size_t width_of(int type) { return type == OF_DTYPE || type == OF_MODE || type == OF_HEURISTIC || type == OF_FLOAT || type == OF_NOTE ? 4 : type == OF_BOOLEAN ? 1 : 8; }
/* Of which kinds of descriptors an attribute is, by its number, and its type. */
static bool belongs(int of, int name, int type)
{
    switch (of) {
    case CONVOLUTION_OF: return name == 100 ? type == OF_DTYPE : name == 101 ? type == OF_MODE : name >= 102 && name <= 106 && type == OF_INT64;
    case HEURISTICS: return name == 200 ? type == OF_HEURISTIC : name == 201 && type == OF_DESCRIPTOR;
    case PLAN: return name == 400 ? type == OF_HANDLE : name == 401 && type == OF_DESCRIPTOR;
    case FORWARD_OF: case DATA_OF: case FILTER_OF: {
        const int first = of == FORWARD_OF ? 700 : of == DATA_OF ? 706 : 712;
        return name == first || name == first + 1 ? type == OF_FLOAT || type == OF_DOUBLE : name >= first + 2 && name <= first + 5 && type == OF_DESCRIPTOR;
    }
    case GRAPH: return name == 800 ? type == OF_HANDLE : name == 801 && type == OF_DESCRIPTOR;
    case TENSOR: return name == 901 ? type == OF_DTYPE : name == 908 ? type == OF_BOOLEAN : (name == 900 || name == 902 || name == 903 || name == 906) && type == OF_INT64;
    case PACK: return name == 1000 ? type == OF_INT64 : (name == 1001 || name == 1003) && type == OF_POINTER;
    case ATTEND: return name >= 2800 && name <= 2805 && type == OF_DESCRIPTOR;
    case ATTEND_BACKWARD: return ((name >= 2851 && name <= 2856) || (name >= 2859 && name <= 2862)) && type == OF_DESCRIPTOR;
    default: return false;
    }
}
int cudnnBackendSetAttribute(descriptor *d, int name, int type, int64_t n, const void *values)
{
    ENTER(false);
    if (d->final || n < 1 || n > MOST || d->n == 24 || get(d, name) || !belongs(d->type, name, type))
        return BAD_PARAM;
    attribute *a = &d->attributes[d->n++];
    *a = (attribute){.name = name, .type = type, .n = n};
    memcpy(a->bytes, values, (size_t)n * width_of(type));
    for (int64_t i = 0; type == OF_DESCRIPTOR && i < n; i++)
        if (!((descriptor *const *)values)[i]->final)
            return BAD_PARAM;
    return 0;
}

/* ---- what is final is whole, and its parts fit */

static bool has(const descriptor *d, int first, int last)
{
    for (int name = first; name <= last; name++)
        if (!get(d, name))
            return false;
    return true;
}
/* The dimension of an operand of an operation, by its attribute. */
static int64_t size(const descriptor *op, int name, int d) { return number(part(op, name), 902, d); }
static int dims(const descriptor *op, int name) { const attribute *a = get(part(op, name), 902); return a ? (int)a->n : 0; }
static int type_of(const descriptor *op, int name) { return choice(part(op, name), 901); }

static void places_of(int type, int *x, int *w, int *y, int *of)
{
    *x = type == FORWARD_OF ? 704 : type == DATA_OF ? 710 : 716, *w = type == FORWARD_OF ? 703 : type == DATA_OF ? 709 : 715;
    *y = type == FORWARD_OF ? 705 : type == DATA_OF ? 711 : 717, *of = type == FORWARD_OF ? 702 : type == DATA_OF ? 708 : 714;
}
static bool convolves(const descriptor *op)
{
    int x, w, y, of;
    places_of(op->type, &x, &w, &y, &of);
    const descriptor *c = part(op, of);
    const int n = dims(op, x), first = op->type == FORWARD_OF ? 700 : op->type == DATA_OF ? 706 : 712;
    if (!has(op, first, first + 5) || n < 4 || n > 5 || dims(op, w) != n || dims(op, y) != n || number(c, 106, 0) != n - 2 || choice(c, 101) != 1)
        return false;
    const int type = type_of(op, x);
    const attribute *alpha = get(op, first), *beta = get(op, first + 1);
    const bool wide = type == 1;
    bool good = type_of(op, w) == type && type_of(op, y) == type && choice(c, 100) == wide && alpha->type == (wide ? OF_DOUBLE : OF_FLOAT) && beta->type == alpha->type &&
                (wide ? *(const double *)(const void *)alpha->bytes == 1 && *(const double *)(const void *)beta->bytes == 0
                      : *(const float *)(const void *)alpha->bytes == 1 && *(const float *)(const void *)beta->bytes == 0) &&
                size(op, x, 0) == size(op, y, 0) && size(op, y, 1) == size(op, w, 0) && size(op, x, 1) % size(op, w, 1) == 0 &&
                size(op, y, 1) % (size(op, x, 1) / size(op, w, 1)) == 0;
    for (int d = 0; d < n - 2 && good; d++)
        good = number(c, 103, d) != 9 && number(c, 104, d) == number(c, 105, d) &&
               (size(op, x, d + 2) + 2 * number(c, 105, d) - (size(op, w, d + 2) - 1) * number(c, 102, d) - 1) / number(c, 103, d) + 1 == size(op, y, d + 2);
    return good;
}
static const int of_forward[6] = {2800, 2801, 2802, 2803, 2804, 2805}, of_backward[10] = {2851, 2852, 2853, 2854, 2855, 2856, 2862, 2859, 2860, 2861};
static bool attends_to(const descriptor *op)
{
    const int *names = op->type == ATTEND ? of_forward : of_backward, n = op->type == ATTEND ? 6 : 10;
    static const char like[] = {0, 1, 2, 3, 4, 5, 3, 0, 1, 2};
    for (int i = 0; i < n; i++)
        if (dims(op, names[i]) != 4 || type_of(op, names[i]) != (i == 4 || i == 5 ? 0 : type_of(op, names[0])))
            return false;
    const int64_t *q = (const void *)get(part(op, names[0]), 902)->bytes, *k = (const void *)get(part(op, names[1]), 902)->bytes,
                  *v = (const void *)get(part(op, names[2]), 902)->bytes;
    const int64_t wanted[6][4] = {{q[0], q[1], q[2], q[3]}, {q[0], k[1], k[2], q[3]}, {q[0], k[1], k[2], v[3]}, {q[0], q[1], q[2], v[3]}, {q[0], q[1], q[2], 1}, {1, 1, 1, 1}};
    for (int i = 0; i < n; i++)
        if (memcmp(get(part(op, names[i]), 902)->bytes, wanted[(int)like[i]], sizeof wanted[0]))
            return false;
    return q[1] % k[1] == 0 && get(part(op, names[5]), 908);
}
static void remember(descriptor *plan, const descriptor *configuration)
{
    const descriptor *op = part(configuration->graph, 801);
    made *m = &plan->made;
    int x, w, y, of = 0, places[3];
    const int *names = op->type == ATTEND ? of_forward : op->type == ATTEND_BACKWARD ? of_backward : places;
    *m = (made){.type = op->type, .n = op->type == ATTEND ? 6 : op->type == ATTEND_BACKWARD ? 10 : 3, .engine = configuration->engine,
                .handle = pointer(plan, 400, 0)};
    if (!attends(op->type)) {
        places_of(op->type, &x, &w, &y, &of);
        places[0] = x, places[1] = y, places[2] = w;
        for (int d = 0; d < 3; d++)
            m->padding[d] = number(part(op, of), 105, d), m->stride[d] = number(part(op, of), 103, d), m->dilation[d] = number(part(op, of), 102, d);
    }
    m->dims = dims(op, names[0]);
    for (int i = 0; i < m->n; i++) {
        const descriptor *t = part(op, names[i]);
        m->types[i] = choice(t, 901), m->numbers[i] = number(t, 906, 0), m->alignments[i] = number(t, 900, 0), m->by_value[i] = get(t, 908);
        for (int d = 0; d < m->dims; d++)
            m->sizes[i][d] = number(t, 902, d), m->strides[i][d] = number(t, 903, d);
    }
}
int cudnnBackendFinalize(descriptor *d)
{
    ENTER(false);
    bool good = !d->final;
    switch (d->type) {
    case CONVOLUTION_OF: good = good && has(d, 100, 106); break;
    case TENSOR:
        good = good && has(d, 900, 903) && get(d, 906) && get(d, 902)->n == get(d, 903)->n;
        for (int i = 0; good && i < get(d, 902)->n; i++)
            good = number(d, 902, i) > 0 && number(d, 903, i) > 0;
        break;
    case FORWARD_OF: case DATA_OF: case FILTER_OF: good = good && convolves(d); break;
    case ATTEND: case ATTEND_BACKWARD: good = good && attends_to(d); break;
    case GRAPH: good = good && has(d, 800, 801); break;
    case HEURISTICS: good = good && has(d, 200, 201); break;
    case PACK: good = good && has(d, 1000, 1001) && get(d, 1003) && get(d, 1000)->n == get(d, 1001)->n; break;
    case PLAN:
        good = good && has(d, 400, 401);
        if (good && part(d, 401)->engine == 0)
            return NOT_SUPPORTED;
        if (good)
            remember(d, part(d, 401));
        fake_counts[PLANS] += good;
        break;
    default: good = false;
    }
    d->final = good;
    return good ? 0 : BAD_PARAM;
}

static int engines_of(const descriptor *graph, int *engines)
{
    const char *graphs = getenv("FAKE_CUDNN_GRAPH");
    const descriptor *op = part(graph, 801);
    int x, w, y, of;
    if (graphs && !strcmp(graphs, "0"))
        return 0;
    if (attends(op->type)) {
        const int first = op->type == ATTEND ? 2800 : 2851, type = type_of(op, first);
        engines[0] = 2;
        return (type == 2 || type == 9) && size(op, first, 3) % 8 == 0 && size(op, first + 2, 3) % 8 == 0 && size(op, first, 3) <= 128 && size(op, first + 2, 3) <= 128 &&
               size(op, first, 2) != 13;
    }
    places_of(op->type, &x, &w, &y, &of);
    for (int i = 0; i < ENGINES; i++)
        engines[i] = i;
    return number(part(op, of), 102, dims(op, x) - 3) == 7 ? 0 : ENGINES;
}
int cudnnBackendGetAttribute(descriptor *d, int name, int type, int64_t wanted, int64_t *n, void *values)
{
    ENTER(false);
    int engines[ENGINES];
    if (d->type == HEURISTICS && name == 202 && type == OF_DESCRIPTOR && d->final) {
        const int found = engines_of(part(d, 201), engines);
        for (int i = 0; i < found && i < wanted; i++) {
            descriptor *c = ((descriptor *const *)values)[i];
            if (c->type != CONFIGURATION)
                return BAD_PARAM;
            c->engine = engines[i], c->final = true, c->graph = part(d, 201);
        }
        *n = found;
        return found ? 0 : NOT_SUPPORTED;
    }
    if (d->type == CONFIGURATION && name == 300 && type == OF_DESCRIPTOR && d->final && (*(descriptor **)values)->type == ENGINE)
        return (*(descriptor **)values)->engine = d->engine, (*(descriptor **)values)->final = true, *n = 1, 0;
    if (d->type == ENGINE && name == 1303 && type == OF_NOTE && d->final && wanted >= 2) {
        if (d->engine == 1)
            ((int *)values)[0] = 0, ((int *)values)[1] = 4;                 /* tensor cores, not deterministic */
        return *n = d->engine == 1 ? 2 : 0, 0;
    }
    if (d->type == PLAN && name == 402 && type == OF_INT64 && d->final)
        return *(int64_t *)values = d->made.engine == 1 || attends(d->made.type) ? ROOM : 0, *n = 1, 0;
    return BAD_PARAM;
}

/* ---- the work */

/* Operands as cuDNN's attributes have them, in sixteen bits each; the fourth and fifth are results forward. */
typedef struct attention { made of; char *data[OPERANDS], *room; double scale; } attention;
static long long at(const attention *a, int operand, int64_t b, int64_t h, int64_t i, int64_t j)
{
    const int64_t *s = a->of.strides[operand];
    return b * s[0] + h * s[1] + i * s[2] + j * s[3];
}
static double read(const attention *a, int operand, int64_t b, int64_t h, int64_t i, int64_t j)
{
    return fake_load(a->of.types[operand], a->data[operand], at(a, operand, b, h, i, j));
}
static void write(const attention *a, int operand, int64_t b, int64_t h, int64_t i, int64_t j, double x)
{
    fake_store(a->of.types[operand], a->data[operand], at(a, operand, b, h, i, j), x);
}
static double dot(const attention *a, int one, int64_t h, int64_t i, int other, int64_t g, int64_t j, int64_t b, int64_t width)
{
    double sum = 0;
    for (int64_t d = 0; d < width; d++)
        sum += read(a, one, b, h, i, d) * read(a, other, b, g, j, d);
    return sum;
}
static void attend(void *context)
{
    const attention *a = context;
    enum { Q, K, V, O, STATS, SCALE, GRAD, DQ, DK, DV };
    const int64_t batch = a->of.sizes[Q][0], heads = a->of.sizes[Q][1], queries = a->of.sizes[Q][2], width = a->of.sizes[Q][3], shared = heads / a->of.sizes[K][1],
                  keys = a->of.sizes[K][2], wide = a->of.sizes[V][3];
    const bool backward = a->of.type == ATTEND_BACKWARD;
    double *p = malloc((size_t)(heads * queries * keys) * sizeof *p), *slope = malloc((size_t)(heads * queries * keys) * sizeof *slope);
    for (int64_t b = 0; b < batch; b++) {
        for (int64_t h = 0; h < heads; h++)
            for (int64_t i = 0; i < queries; i++) {
                double *row = p + (h * queries + i) * keys, top = -INFINITY, sum = 0;
                for (int64_t j = 0; j < keys; j++)
                    row[j] = a->scale * dot(a, Q, h, i, K, h / shared, j, b, width), top = fmax(top, row[j]);
                for (int64_t j = 0; j < keys; j++)
                    sum += exp(row[j] - top);
                const double stats = backward ? read(a, STATS, b, h, i, 0) : top + log(sum), delta = backward ? dot(a, GRAD, h, i, O, h, i, b, wide) : 0;
                for (int64_t j = 0; j < keys; j++) {
                    row[j] = exp(row[j] - stats);
                    slope[(h * queries + i) * keys + j] = backward ? row[j] * (dot(a, GRAD, h, i, V, h / shared, j, b, wide) - delta) * a->scale : 0;
                }
                if (!backward)
                    write(a, STATS, b, h, i, 0, stats);
                for (int64_t d = 0; d < (backward ? width : wide); d++) {
                    double x = 0;
                    for (int64_t j = 0; j < keys; j++)
                        x += backward ? slope[(h * queries + i) * keys + j] * read(a, K, b, h / shared, j, d) : row[j] * read(a, V, b, h / shared, j, d);
                    write(a, backward ? DQ : O, b, h, i, d, x);
                }
            }
        for (int64_t g = 0; g < heads / shared && backward; g++)
            for (int64_t j = 0; j < keys; j++)
                for (int64_t d = 0; d < width || d < wide; d++) {
                    double dk = 0, dv = 0;
                    for (int64_t h = g * shared; h < (g + 1) * shared; h++)
                        for (int64_t i = 0; i < queries; i++) {
                            dk += d < width ? slope[(h * queries + i) * keys + j] * read(a, Q, b, h, i, d) : 0;
                            dv += d < wide ? p[(h * queries + i) * keys + j] * read(a, GRAD, b, h, i, d) : 0;
                        }
                    if (d < width)
                        write(a, DK, b, g, j, d, dk);
                    if (d < wide)
                        write(a, DV, b, g, j, d, dv);
                }
    }
    free(p), free(slope);
    memset(a->room, 0xEE, ROOM);
}

static int convolve(CUstream s, const made *m, char **data, void *room)
{
    convolution *call = calloc(1, sizeof *call);
    const int skip = 5 - m->dims;
    *call = (convolution){.type = m->types[0], .kind = m->type == FORWARD_OF ? 0 : m->type == DATA_OF ? 1 : 2, .groups = (int)(m->sizes[0][1] / m->sizes[2][1]),
                          .data = {data[0], data[1], data[2]}, .room = room, .bytes = room ? ROOM : 0};
    for (int i = 0; i < 3; i++)
        for (int d = 0; d < 5; d++) {
            const int from = d < 2 ? d : d - skip;
            const bool none = d >= 2 && from < 2;
            call->sizes[i][d] = none ? 1 : (int)m->sizes[i][from], call->strides[i][d] = none ? 0 : (int)m->strides[i][from];
        }
    for (int d = 0; d < 3; d++)
        call->padding[d] = d < skip ? 0 : (int)m->padding[d - skip], call->stride[d] = d < skip ? 1 : (int)m->stride[d - skip],
        call->dilation[d] = d < skip ? 1 : (int)m->dilation[d - skip];
    fake_ask(s, CONVOLUTION)->convolution = call;
    fake_counts[CONVOLUTIONS]++, fake_counts[GRAPH_CONVOLUTIONS]++, fake_counts[ALGORITHM] = m->engine;
    return 0;
}

int cudnnBackendExecute(handle h, descriptor *plan, descriptor *pack)
{
    ENTER(true);
    const made *m = &plan->made;
    CUstream s = h->context == fake_current ? fake_stream_of(h->stream) : NULL;
    char *data[OPERANDS] = {NULL};
    void *room = m->engine == 1 || attends(m->type) ? pointer(pack, 1003, 0) : NULL;
    if (!s || !plan->final || !pack->final || pack->type != PACK || m->handle != h || get(pack, 1000)->n != m->n ||
        ((m->engine == 1 || attends(m->type)) && !fake_place((CUdeviceptr)(uintptr_t)room, ROOM, fake_current->device)))
        return FAILED;
    for (int i = 0; i < m->n; i++) {
        long long last = 0, width = m->types[i] == 0 ? 4 : m->types[i] == 1 ? 8 : 2;
        for (int j = 0; j < m->n; j++)
            if (number(pack, 1000, j) == m->numbers[i])
                data[i] = pointer(pack, 1001, j);
        for (int d = 0; d < m->dims; d++)
            last += m->strides[i][d] * (m->sizes[i][d] - 1);
        if ((uintptr_t)data[i] % (uintptr_t)m->alignments[i] ||
            (!m->by_value[i] && !fake_place((CUdeviceptr)(uintptr_t)data[i], (size_t)((last + 1) * width), fake_current->device)))
            return FAILED;
    }
    if (!attends(m->type))
        return convolve(s, m, data, room);
    attention *a = calloc(1, sizeof *a);
    *a = (attention){.of = *m, .room = room, .scale = (double)*(const float *)(const void *)data[5]};
    memcpy(a->data, data, sizeof data);
    operation *o = fake_ask(s, CALL);
    o->work = attend, o->context = a, o->bytes = sizeof *a;
    fake_counts[ATTENTIONS]++;
    return 0;
}
