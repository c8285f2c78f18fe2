/* A device as a library: "toy:0" and "toy:1", whose memory nobody can read but the device itself.
 *
 *     make toy_device.so, and in Python:  tede.load_device("./toy_device.so");  tede.ones(3, device="toy:1")
 *
 * Each index has a queue and a thread that works it off, so kernels run later than they are called. Memory has no access
 * rights but while something on a queue uses it. Six operators have kernels of their own, for float32 without strides;
 * the CPU does the rest. Counters of copies and kernels are exported for whoever wants to see that. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tede/device.h>
#include <tede/kernel.h>
#include <unistd.h>

enum { INDICES = 2, OPERANDS = 3 };

TD_API int64_t toy_copies[INDICES], toy_kernels[INDICES], toy_live_bytes[INDICES];
static int toy_type;

/* ---- memory: blocks of whole pages, closed while nobody uses them */

typedef struct block {
    struct block *next;
    char         *start;
    size_t        bytes;
    int           users;
} block;
static block *blocks;
static pthread_mutex_t blocks_lock = PTHREAD_MUTEX_INITIALIZER;

static block *find(const void *at)
{
    block *b = blocks;
    while (b && !((const char *)at >= b->start && (const char *)at < b->start + b->bytes))
        b = b->next;
    return b;
}

static void use(const void *at, int change)
{
    pthread_mutex_lock(&blocks_lock);
    block *b = find(at);
    if (b) {
        b->users += change;
        if (b->users == (change > 0))
            mprotect(b->start, b->bytes, change > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
    }
    pthread_mutex_unlock(&blocks_lock);
}

/* ---- queues */

typedef struct task {
    struct task *next;
    void       (*run)(struct task *t);
    char        *ptrs[OPERANDS];        /* opened around the run; NULL where there is none */
    const void  *from;                  /* of a copy from the CPU, or */
    void        *to;                    /*  to it */
    int64_t      n, rows, inner;
    float        alpha;
} task;

typedef struct queue {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    pthread_t       thread;
    task           *first, **last;
    int             busy;               /* tasks that aren't done */
} queue;
static queue queues[INDICES];

static void *work(void *argument)
{
    queue *q = argument;
    for (;;) {
        pthread_mutex_lock(&q->lock);
        while (!q->first)
            pthread_cond_wait(&q->changed, &q->lock);
        task *t = q->first;
        q->first = t->next;
        if (!q->first)
            q->last = &q->first;
        pthread_mutex_unlock(&q->lock);

        for (int i = 0; i < OPERANDS; i++)
            use(t->ptrs[i], 1);
        t->run(t);
        for (int i = 0; i < OPERANDS; i++)
            use(t->ptrs[i], -1);
        free(t);

        pthread_mutex_lock(&q->lock);
        q->busy--;
        pthread_cond_broadcast(&q->changed);
        pthread_mutex_unlock(&q->lock);
    }
    return NULL;
}

static int submit(int index, task what)
{
    queue *q = &queues[index];
    task *t = malloc(sizeof *t);
    if (!t)
        return td_error(TD_E_MEMORY, "toy: no memory to queue a call");
    *t = what;
    t->next = NULL;
    pthread_mutex_lock(&q->lock);
    *q->last = t;
    q->last = &t->next;
    q->busy++;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    return 0;
}

static int synchronize(int index)
{
    queue *q = &queues[index];
    pthread_mutex_lock(&q->lock);
    while (q->busy)
        pthread_cond_wait(&q->changed, &q->lock);
    pthread_mutex_unlock(&q->lock);
    return 0;
}

/* ---- what the table offers */

static int count(void) { return INDICES; }

static void *take(td_device device, size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (nbytes + page - 1) / page * page;
    block *b = malloc(sizeof *b);
    void *start = b && bytes >= nbytes ? mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (!b || start == MAP_FAILED) {
        free(b);
        return td_fail(TD_E_MEMORY, "toy:%d is out of memory: %zu bytes were asked for", device.index, nbytes);
    }
    pthread_mutex_lock(&blocks_lock);
    *b = (block){blocks, start, bytes, 0};
    blocks = b;
    toy_live_bytes[device.index] += (int64_t)nbytes;
    pthread_mutex_unlock(&blocks_lock);
    return start;
}

static void unmap(task *t)
{
    block *found = NULL;
    pthread_mutex_lock(&blocks_lock);
    for (block **b = &blocks; *b && !found; b = found ? b : &(*b)->next)
        if ((*b)->start == t->to) {
            found = *b;
            *b = found->next;
        }
    pthread_mutex_unlock(&blocks_lock);
    if (found)
        munmap(found->start, found->bytes);
    free(found);
}

/* In the queue's order: what was asked for before may still use it. */
static void free_memory(td_device device, void *memory, size_t nbytes)
{
    pthread_mutex_lock(&blocks_lock);
    toy_live_bytes[device.index] -= (int64_t)nbytes;
    pthread_mutex_unlock(&blocks_lock);
    submit(device.index, (task){.run = unmap, .to = memory});
}

static void run_copy(task *t)
{
    memcpy(t->to ? t->to : t->ptrs[0], t->from ? t->from : t->ptrs[1], (size_t)t->n);
}

static int copy(td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes)
{
    const bool to_toy = to_device.type == toy_type, from_toy = from_device.type == toy_type;
    int index = to_toy ? to_device.index : from_device.index;
    if (to_toy && from_toy && to_device.index != from_device.index && synchronize(from_device.index))
        return -1;
    __atomic_fetch_add(&toy_copies[index], 1, __ATOMIC_RELAXED);
    task t = {.run = run_copy, .n = (int64_t)nbytes};
    if (to_toy)
        t.ptrs[0] = to;
    else
        t.to = to;
    if (from_toy)
        t.ptrs[1] = (char *)from;
    else
        t.from = from;
    /* Within one index nobody needs to wait; from one index to the other the source must not go away too early. */
    bool waits = !to_toy || !from_toy || to_device.index != from_device.index;
    return submit(index, t) || (waits && synchronize(index)) ? -1 : 0;
}

/* ---- kernels */

static void run_add(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1], *b = (float *)t->ptrs[2];
    for (int64_t i = 0; i < t->n; i++)
        out[i] = a[i] + t->alpha * b[i];
}
static void run_mul(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1], *b = (float *)t->ptrs[2];
    for (int64_t i = 0; i < t->n; i++)
        out[i] = a[i] * b[i];
}
static void run_neg(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1];
    for (int64_t i = 0; i < t->n; i++)
        out[i] = -a[i];
}
static void run_relu(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1];
    for (int64_t i = 0; i < t->n; i++)
        out[i] = a[i] > 0 ? a[i] : 0;
}
static void run_sum(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1];
    double sum = 0;
    for (int64_t i = 0; i < t->n; i++)
        sum += a[i];
    *out = (float)sum;
}
static void run_mm(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1], *b = (float *)t->ptrs[2];
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < t->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < t->inner; k++)
                sum += a[i * t->inner + k] * b[k * t->n + j];
            out[i * t->n + j] = sum;
        }
}

static bool simple(const td_tensor *x)
{
    return td_tensor_device(x).type == toy_type && td_tensor_dtype(x) == TD_F32 && td_tensor_is_contiguous(x) && td_tensor_numel(x) > 0;
}
static bool alike(const td_tensor *a, const td_tensor *b)
{
    int n = td_tensor_ndim(a);
    return td_tensor_ndim(b) == n && !memcmp(td_tensor_sizes(a), td_tensor_sizes(b), (size_t)n * sizeof(int64_t));
}

static int launch(td_value *result, int64_t ndim, const int64_t *sizes, td_tensor *const *operands, int n, task t)
{
    td_device device = td_tensor_device(operands[0]);
    td_tensor *out = td_output(result, ndim, sizes, TD_F32, device);
    if (!out)
        return -1;
    t.ptrs[0] = td_tensor_data(out);
    for (int i = 0; i < n; i++)
        t.ptrs[i + 1] = td_tensor_data(operands[i]);
    __atomic_fetch_add(&toy_kernels[device.index], 1, __ATOMIC_RELAXED);
    if (submit(device.index, t) == 0)
        return 0;
    td_values_release(result, 1);
    return -1;
}

/* `context` says what to run; what isn't as simple as these loops is left to the CPU. */
static int pointwise(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    td_tensor *x[2] = {arguments[0].tensor, NULL};
    int n = td_op_describe(op)->n_arguments > 1 ? 2 : 1;
    if (n == 2)
        x[1] = arguments[1].tensor;
    if (td_check_same_device(op, arguments))
        return -1;
    if (!simple(x[0]) || (n == 2 && (!simple(x[1]) || !alike(x[0], x[1]))))
        return td_cpu_fallback(op, keys, arguments, results, NULL);
    task t = {.run = *(void (**)(task *))context, .n = td_tensor_numel(x[0]), .alpha = 1};
    if (td_op_describe(op)->n_arguments > 2)
        t.alpha = (float)td_scalar_double(arguments[2].scalar);
    return launch(results, td_tensor_ndim(x[0]), td_tensor_sizes(x[0]), x, n, t);
}

static int sum(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_tensor *x = arguments[0].tensor;
    if (!simple(x) || arguments[1].kind != TD_VALUE_NONE)
        return td_cpu_fallback(op, keys, arguments, results, NULL);
    return launch(results, 0, NULL, &x, 1, (task){.run = run_sum, .n = td_tensor_numel(x)});
}

static int mm(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_tensor *x[2] = {arguments[0].tensor, arguments[1].tensor};
    if (td_check_same_device(op, arguments))
        return -1;
    if (td_tensor_ndim(x[0]) != 2 || td_tensor_ndim(x[1]) != 2)          /* the CPU knows batches, and what to say */
        return td_cpu_fallback(op, keys, arguments, results, NULL);
    int64_t rows = td_tensor_sizes(x[0])[0], inner = td_tensor_sizes(x[0])[1], columns = td_tensor_sizes(x[1])[1];
    if (!simple(x[0]) || !simple(x[1]) || td_tensor_sizes(x[1])[0] != inner)
        return td_cpu_fallback(op, keys, arguments, results, NULL);
    return launch(results, 2, (int64_t[]){rows, columns}, x, 2, (task){.run = run_mm, .n = columns, .rows = rows, .inner = inner});
}

static int start(int type)
{
    static void (*add)(task *) = run_add, (*mul)(task *) = run_mul, (*neg)(task *) = run_neg, (*relu)(task *) = run_relu;
    toy_type = type;
    for (int i = 0; i < INDICES; i++) {
        queue *q = &queues[i];
        pthread_mutex_init(&q->lock, NULL);
        pthread_cond_init(&q->changed, NULL);
        q->last = &q->first;
        if (pthread_create(&q->thread, NULL, work, q))
            return td_error(TD_E_RUNTIME, "toy: no thread for queue %d", i);
    }
    return td_register_fallback(TD_KEY_DENSE, type, td_cpu_fallback, NULL) ||
           td_register_boxed("aten::add.Tensor", TD_KEY_DENSE, type, pointwise, &add) ||
           td_register_boxed("aten::mul.Tensor", TD_KEY_DENSE, type, pointwise, &mul) ||
           td_register_boxed("aten::neg", TD_KEY_DENSE, type, pointwise, &neg) ||
           td_register_boxed("aten::relu", TD_KEY_DENSE, type, pointwise, &relu) ||
           td_register_boxed("aten::sum", TD_KEY_DENSE, type, sum, NULL) ||
           td_register_boxed("aten::mm", TD_KEY_DENSE, type, mm, NULL) ||
           td_register_boxed("aten::matmul", TD_KEY_DENSE, type, mm, NULL) ? -1 : 0;
}

TD_EXPORT_DEVICE = {
    .abi = TD_DEVICE_ABI, .size = sizeof(td_device_library), .name = "toy", .count = count, .start = start, .alloc = take,
    .free = free_memory, .copy = copy, .synchronize = synchronize,
};
