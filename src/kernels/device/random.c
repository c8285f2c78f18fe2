/* Random numbers on devices: random.ck.
 *
 * Note [Streams of devices]
 * The generator of a device with programs is a seed and an offset, from which a call takes as many counters as it needs: the seed is Philox's
 * key, the counter's upper half the number of a thread, its lower half the offset / 4 and on.  The layout is that of PyTorch's CUDA kernels for
 * distributions: blocks of 256 threads, one for each element as long as there are no more than a GPU of 132 multiprocessors with 2048
 * threads runs at a time (an H100); element i is then the first number of thread i.  Of more elements a thread has several, so many threads
 * apart.  The number of threads is part of the stream, not of how it is computed, so all devices draw the same; PyTorch's depends on the GPU.
 * What an element takes an unknown number of (poisson, gamma, binomial) comes from counters of a round of the call and threads 2^40 apart.
 * What is drawn otherwise than there: these; bernoulli with probabilities for each element (the same layout as all others), randperm, multinomial with
 * replacement, and dropout of halves, of which a thread has eight neighbours there, with numbers that the next call may use again. */
#include "calls_kernels_device_random.h"
#include <float.h>
#include <math.h>
#include "base/random.h"
#include "kernels/device/kernel.h"
#include "ops/random/fill.h"
#define TD_HOST
#include "kernels/device/random.ck"

TD_SOURCE(random);

enum { BLOCK = 256, MOST_BLOCKS = 132 * (2048 / BLOCK) };

int td_fill_on_device(td_filling kind, td_generator *g, td_tensor *out, td_tensor *each, double a, double b, int64_t from, int64_t to)
{
    const td_dtype dtype = (td_dtype)out->dtype, of_each = each ? (td_dtype)each->dtype : TD_F32;
    kind = kind == TD_FILL_NORMAL_SINGLY ? TD_FILL_NORMAL : kind;
    const bool wide = kind == TD_FILL_EACH ? of_each == TD_F64 : dtype == TD_F64 && kind < TD_FILL_RANDOM;
    random_values v = {.n = out->numel, .from = from};
    bool longs = false;
    if (!out->numel)
        return 0;
    if (td_dtype_is_complex(dtype)) {       /* as pairs of real numbers; half the variance for each part */
        TD_AUTO td_tensor *parts = td_view_as_real(out);
        return parts ? td_fill_on_device(kind, g, parts, each, a, kind == TD_FILL_NORMAL ? b / sqrt(2) : b, from, to) : -1;
    }
    if (!td_device_computes(out->device, dtype) || !td_device_computes(out->device, of_each))
        return td_leave_to_cpu(td_dtype_name(dtype));
    switch (kind) {
    case TD_FILL_DROPOUT: b = 1 / (1 - a), a = 1 - a; break;
    case TD_FILL_BERNOULLI: case TD_FILL_KEPT: b = 1; break;
    case TD_FILL_GEOMETRIC: a = log1p(-a); break;
    case TD_FILL_RANDOM: v.from = 0, v.range = (int64_t)((uint64_t)td_random_largest(dtype) + 1), longs = dtype == TD_I64 || dtype == TD_F64; break;
    case TD_FILL_RANDOM_FROM: v.range = (int64_t)((uint64_t)td_random_largest(dtype) - (uint64_t)from + 1); longs = (uint64_t)v.range - 1 >= UINT64_C(1) << 28; break;
    case TD_FILL_RANDOM_FROM_TO: v.range = (int64_t)((uint64_t)to - (uint64_t)from); longs = (uint64_t)v.range - 1 >= UINT64_C(1) << 28; break;
    default: break;
    }
    const int64_t number = wide || longs ? 2 : 4, blocks = (v.n + BLOCK - 1) / BLOCK;
    v.threads = BLOCK * (blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
    const int64_t rounds = (v.n - 1) / (v.threads * number) + 1;
    v.a = td_number_bits(a, wide), v.b = td_number_bits(b, wide), v.units = rounds > 1 ? v.threads * rounds : v.threads < v.n ? v.threads : v.n;
    uint64_t seed, offset;
    void *state;
    if (td_graph_reserve(out->device, g ? g : td_device_generator(out->device), 4 * (uint64_t)rounds, &seed, &offset, &state))
        return -1;
    v.seed = (int64_t)seed, v.round = (int64_t)(offset / 4);
    const bool packs = kind == TD_FILL_DROPOUT || kind == TD_FILL_KEPT;
    const int64_t pack = !packs || v.n % 2 ? 1 : v.n % 4 || number == 2 ? 2 : 4;
    const int code = kind >= TD_FILL_RANDOM && kind != TD_FILL_EACH ? TD_FILL_RANDOM : packs ? TD_FILL_BERNOULLI : (int)kind;
    td_launch_of launch = {
        .source = td_source_random, .kernel = "fill_random", TD_VALUES(v), .groups = td_launch_groups(out->device, v.units),
        .types = {{"A", dtype}, {"P", of_each}, {"U", wide ? TD_F64 : TD_F32}},
        .numbers = {{"KIND", code == TD_FILL_RANDOM ? 8 : code == TD_FILL_EACH ? 9 : code}, {"WIDE", wide}, {"LONG", longs}, {"PACK", pack},
                    {"RECORDED", state != NULL}},
        .buffers = {out, each ? each : TD_NONE}, .state = state,
    };
    return td_launch(&launch);
}

int td_check_range_on_device(td_tensor *x, const td_element_range *r)
{
    const bool wide = x->dtype == TD_F64;
    const double to = !wide && r->to == DBL_MAX ? FLT_MAX : r->to;
    const range_values v = {x->numel, r->above, td_number_bits(r->from, wide), td_number_bits(to, wide), td_index_limits(0, 0, TD_E_RUNTIME, r->op, r->text, 0)};
    td_launch_of launch = {.source = td_source_random, .kernel = "check_range", TD_VALUES(v), .groups = td_launch_groups(x->device, v.n), .late = true,
                           .types = {{"P", (td_dtype)x->dtype}, {"U", wide ? TD_F64 : TD_F32}}, .numbers = {{"WIDE", wide}}};
    td_stream *stream = td_stream_current(x->device);
    return TD_LAUNCH_ON(launch, TD_READS(x)) || (r->at_once && !td_stream_graph(stream) && td_stream_synchronize(stream)) ? -1 : 0;
}

int td_multinomial_on_device(td_generator *g, td_tensor *weights, td_tensor *out)
{
    const bool wide = weights->dtype == TD_F64;
    uint64_t seed, offset;
    void *state;
    if (td_graph_reserve(out->device, g ? g : td_device_generator(out->device), 4, &seed, &offset, &state))
        return -1;
    sample_values v = {(int64_t)seed, (int64_t)(offset / 4), out->numel, weights->sizes[weights->ndim - 1], out->sizes[out->ndim - 1]};
    return td_launch(&(td_launch_of){
        .source = td_source_random, .kernel = "multinomial", TD_VALUES(v), .groups = td_launch_groups(out->device, v.n), .buffers = {out, weights}, .state = state,
        .types = {{"P", (td_dtype)weights->dtype}, {"U", wide ? TD_F64 : TD_F32}}, .numbers = {{"WIDE", wide}, {"RECORDED", state != NULL}},
    });
}

int td_sample_on_device(td_law law, td_generator *g, td_tensor *out, td_tensor *a, td_tensor *b)
{
    const bool wide = law != TD_LAW_GAMMA || out->dtype == TD_F64;
    random_values v = {.n = out->numel, .b = td_number_bits(wide ? DBL_MIN : FLT_MIN, wide)};
    uint64_t seed, offset;
    void *state;
    if (!td_device_computes(out->device, wide ? TD_F64 : TD_F32))
        return td_leave_to_cpu("numbers that are computed in double");
    if (!v.n)
        return 0;
    if (td_graph_reserve(out->device, g ? g : td_device_generator(out->device), 4, &seed, &offset, &state))
        return -1;
    v.seed = (int64_t)seed, v.round = (int64_t)(offset / 4);
    return td_launch(&(td_launch_of){
        .source = td_source_random, .kernel = "sample", TD_VALUES(v), .groups = td_launch_groups(out->device, v.n), .buffers = {out, a, b ? b : a}, .state = state,
        .types = {{"A", (td_dtype)out->dtype}, {"P", (td_dtype)a->dtype}, {"U", wide ? TD_F64 : TD_F32}}, .numbers = {{"LAW", law}, {"WIDE", wide}, {"RECORDED", state != NULL}},
    });
}
