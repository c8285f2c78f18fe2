/* Eight threads that do what threads can do to each other, for ThreadSanitizer: `make tsan`.
 *
 *     stress [seconds] [device library] [plant]
 *
 * Each thread takes turns: forward and backward passes over leaves that all share, operators that use the pool, defining
 * and removing operators, registering kernels and fallbacks while others call them, loading a device and computing on it,
 * passes over several devices, the allocator's limit and counters, the process's settings (anomaly mode, warnings, printing,
 * the default dtype), hooks and gradients kept on nodes that all share. Before that all make the same things for the first time
 * at once, those that are made at their first use. With `plant`, two threads add to a plain int: the run
 * must report that race, or the sanitizer isn't looking. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/autocast.h>
#include <tede/auto.h>
#include <tede/autograd_nodes.h>
#include <tede/device.h>
#include <tede/memory.h>
#include <tede/print.h>
#include <tede/tede.h>
#include <tede/transforms.h>
#include <time.h>

enum { THREADS = 8 };
static const td_device cpu = {TD_CPU, -1};
static td_tensor *weight, *bias;            /* the leaves */
static td_tensor *shared;                   /* made of them, by a node that hooks are put on */
static const char *device_library;
static int toy = -1, planted, plant;
static time_t until;
static int64_t rounds, failures;

static void expect(bool good, const char *what)
{
    if (good)
        return;
    __atomic_fetch_add(&failures, 1, __ATOMIC_RELAXED);
    fprintf(stderr, "%s: %s\n", what, td_error_message());
    td_error_clear();
}

static void backward(int seed)
{
    TD_AUTO td_tensor *x = td_full(2, (int64_t[]){64, 32}, td_float(seed % 7 * 0.1), TD_F32, cpu);
    TD_AUTO td_tensor *y = td_matmul(x, weight);
    TD_AUTO td_tensor *z = td_add(y, bias);
    TD_AUTO td_tensor *a = td_tanh(z);
    TD_AUTO td_tensor *view = td_narrow(a, 0, 0, 32);
    TD_AUTO td_tensor *loss = td_sum(view);
    td_tensor *grads[2] = {NULL, NULL}, *leaves[] = {weight, bias};
    if (seed % 3)
        expect(loss && td_backward(1, &loss, NULL, false, false) == 0, "backward");
    else
        expect(loss && td_autograd_grad(1, &loss, NULL, 2, leaves, grads, false, seed % 2, false) == 0, "grad");
    td_tensor_release(grads[0]), td_tensor_release(grads[1]);
}

static void pool(int seed)
{
    TD_AUTO td_tensor *big = td_full(1, (int64_t[]){300000 + seed}, td_float(1), TD_F32, cpu);
    TD_AUTO td_tensor *e = td_exp(big);
    TD_AUTO td_tensor *sorted = td_cumsum(e, 0, TD_DTYPE_NONE);
    TD_AUTO td_tensor *sum = td_sum(sorted);
    td_scalar value;
    expect(sum && td_tensor_item(sum, &value) == 0, "pool");
}

static int identity(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_clone(arguments[0].tensor)};
    return results[0].tensor ? 0 : -1;
}
static int pass_on(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    return td_op_call_keys(op, keys & ~TD_KEYSET(TD_KEY_PROFILER), arguments, results);
}

static void dispatcher(int thread, int seed)
{
    char schema[96], name[64];
    snprintf(name, sizeof name, "stress%d::op%d", thread, seed % 50);
    snprintf(schema, sizeof schema, "%s(Tensor x, int[2] k=[1, 2], float f=0.5) -> Tensor", name);
    const td_op *op = td_op_define(schema);
    expect(op && td_register_default(name, identity, NULL) == 0, "define");
    td_value arguments[3] = {{.kind = TD_VALUE_TENSOR, .tensor = weight}, td_op_describe(op)->arguments[1].default_value,
                             td_op_describe(op)->arguments[2].default_value}, result;
    expect(op && td_op_find(name) == op && td_op_call(op, arguments, &result) == 0, "call");
    td_values_release(&result, 1);
    expect(td_op_remove(op) == 0, "remove");
    expect(td_op_count() > 1000 && td_op_at(seed % 1000), "table");

    /* A fallback on a key that everybody's calls pass, put up and taken away while they do. */
    expect(td_register_fallback(TD_KEY_PROFILER, TD_CPU, seed % 2 ? pass_on : NULL, NULL) == 0, "fallback");
    expect(td_register_boxed("aten::digamma", TD_KEY_DENSE, TD_CPU, seed % 2 ? identity : NULL, NULL) == 0, "boxed");
    td_masks masks = td_thread_masks(), with = masks;
    with.include |= TD_KEYSET(TD_KEY_PROFILER);
    td_set_thread_masks(with);
    TD_AUTO td_tensor *digamma = td_digamma(bias);
    expect(digamma != NULL, "call while registering");
    td_set_thread_masks(masks);
}

static void devices(int seed)
{
    if (!device_library)
        return;
    int type = td_device_load(device_library);
    if (type >= 0)
        __atomic_store_n(&toy, type, __ATOMIC_RELEASE);
    td_error_clear();
    type = td_device_find("toy");
    td_device d = {(int8_t)type, (int8_t)(seed & 1)}, other = {(int8_t)type, (int8_t)(~seed & 1)};
    if (__atomic_load_n(&toy, __ATOMIC_ACQUIRE) < 0)
        return;
    TD_AUTO td_tensor *x = td_to_device(weight, d, TD_F32, false, false, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *y = td_mul(x, x);
    TD_AUTO td_tensor *z = td_exp(y);
    TD_AUTO td_tensor *there = td_to_device(z, other, TD_F32, false, false, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *loss = td_sum(there);
    expect(loss && td_backward(1, &loss, NULL, false, false) == 0, "backward over devices");
}

static void allocator(int seed)
{
    struct td_memory_stats stats;
    td_memory_stats(&stats);
    if (seed % 16 == 0)
        td_empty_cache();
    td_storage *s = td_storage_new(cpu, (size_t)(seed % 13 + 1) << (seed % 19));
    expect(s != NULL, "storage");
    td_storage_release(s);
}

/* ---- what the process has one of */

static void *record(td_node *node) { return node ? NULL : malloc(1); }
static void  report(td_node *node, void *made, bool is_parent) { (void)node, (void)made, (void)is_parent; }
static void  line(void *made, char text[200]) { (void)made, text[0] = 0; }
static const td_anomaly_hooks anomaly_hooks = {record, report, free, line};
static int   ignored(const char *message, void *context) { return (void)message, (void)context, 0; }

static void settings(int seed)
{
    td_print_options options;
    td_print_get_options(&options);
    options.precision = seed % 8;
    expect(td_print_set_options(&options) == 0, "print options");
    td_print_set_dtype_prefix(seed % 2 ? "torch." : "tede.");
    char *text = td_tensor_str(bias);
    expect(text != NULL, "text");
    td_string_free(text);
    td_set_warning_handler(ignored, &planted);
    expect(td_warn("seed %d", seed) == 0, "warning");
    td_set_anomaly(seed % 3 == 0, seed % 2, seed % 3 ? NULL : &anomaly_hooks);
    expect(td_set_default_dtype(seed % 2 ? TD_F32 : TD_F64) == 0, "default dtype");
}

static int seen(void *context, td_tensor *grad, td_tensor **replacement) { return (void)context, (void)grad, (void)replacement, 0; }
static void hooks(int seed)
{
    td_hook *hook = td_tensor_add_hook(shared, seen, NULL, NULL);
    expect(hook != NULL, "hook");
    TD_AUTO td_tensor *loss = td_sum(shared);
    td_tensor *grad = NULL;
    expect(loss && td_autograd_grad(1, &loss, NULL, 1, &bias, &grad, true, false, false) == 0, "grad through hooks");
    td_tensor_release(grad);
    td_node *node = NULL;
    int output;
    expect(td_history(shared, &node, &output) == 0 && td_node_set_metadata(node, malloc(1), free) == 0, "metadata");
    if (seed % 2)
        expect(td_retain_grad(shared) == 0, "retain_grad");
    td_hook_remove(hook);
    td_hook_release(hook);
}

/* Tables, registrations and generators that the first who needs them makes. */
static pthread_barrier_t all_here;
static void first_uses(void)
{
    td_autocast before;
    TD_AUTO td_tensor *x = td_rand(2, (int64_t[]){8, 8}, TD_F32, cpu);
    pthread_barrier_wait(&all_here);
    TD_AUTO td_tensor *sum = td_sum(x);
    TD_AUTO td_tensor *apart = td_cdist(x, x, 1, NULL);
    expect(td_autocast_begin(&before, TD_BF16, true) == 0, "autocast");
    td_autocast_end(before);
    TD_AUTO td_tensor *y = td_softmax_int(x, 1, TD_DTYPE_NONE);
    TD_AUTO td_tensor *product = td_matmul(y, apart);
    TD_AUTO td_tensor *half = td_to(product, TD_BF16);
    expect(sum && half, "first uses");
    expect(td_transform_enter(TD_TRANSFORM_VMAP, 8, TD_RANDOM_ERROR) > 0, "a level");
    td_transform_leave();
}

static void *work(void *argument)
{
    int thread = (int)(intptr_t)argument;
    first_uses();
    for (int i = 0; time(NULL) < until; i++) {
        switch ((i + thread) % 7) {
        case 0: backward(i); break;
        case 1: pool(i); break;
        case 2: dispatcher(thread, i); break;
        case 3: devices(i); break;
        case 4: settings(i); break;
        case 5: hooks(i); break;
        default: allocator(i); break;
        }
        if (plant)
            planted++;
        __atomic_fetch_add(&rounds, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    until = time(NULL) + (argc > 1 ? atoi(argv[1]) : 10);
    device_library = argc > 2 && strcmp(argv[2], "-") ? argv[2] : NULL;
    plant = argc > 3;
    td_set_num_threads(4);
    weight = td_ones(2, (int64_t[]){32, 16}, TD_F32, cpu);
    bias = td_ones(1, (int64_t[]){16}, TD_F32, cpu);
    if (!weight || !bias || td_set_requires_grad(weight, true) || td_set_requires_grad(bias, true))
        return 2;
    if (!(shared = td_tanh(bias)))
        return 2;
    pthread_t threads[THREADS];
    pthread_barrier_init(&all_here, NULL, THREADS);
    for (intptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i))
            return 2;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%lld rounds, %lld failures\n", (long long)rounds, (long long)failures);
    return failures != 0;
}
