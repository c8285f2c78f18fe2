/* Structured kernels from outside: a device implements operators without a word about shapes, dtypes, forms or checks, and an operator
 * that is defined at run time has a meta function (<tede/spec.h>). */
#include "td_test.h"
#include "tensor_helpers.h"

#include <tede/device.h>
#include <tede/ops.h>
#include <tede/spec.h>

#define AUTO TD_AUTO td_tensor *

/* ---- a device whose memory is the C library's; no fallback: what isn't implemented below doesn't run */

static int count(void) { return 1; }
static void *take(td_device d, size_t n)
{
    void *p = malloc(n);
    return p ? p : td_fail(TD_E_MEMORY, "slab:%d is out of memory", d.index);
}
static void drop(td_device d, void *p, size_t n)
{
    (void)d, (void)n;
    free(p);
}
static int copy(td_device to_device, void *to, td_device from_device, const void *from, size_t n)
{
    (void)to_device, (void)from_device;
    memcpy(to, from, n);
    return 0;
}
static const td_device_library library = {
    .abi = TD_DEVICE_ABI, .size = sizeof library, .name = "slab", .count = count, .alloc = take, .free = drop, .copy = copy,
};
static int calls;            /* of implementations */

/* ---- elements as doubles, by their number in a shape that they broadcast to */

static double *place(const td_tensor *x) { return (double *)td_tensor_data(x); }
static void *element(const td_tensor *x, const td_tensor *like, int64_t i)
{
    const int64_t *sizes = td_tensor_sizes(like), *own = td_tensor_sizes(x), *strides = td_tensor_strides(x);
    int64_t at = 0;
    for (int d = td_tensor_ndim(like) - 1, e = td_tensor_ndim(x) - 1; d >= 0; d--, e--) {
        if (e >= 0 && own[e] > 1)
            at += i % sizes[d] * strides[e];
        i /= sizes[d];
    }
    return (char *)place(x) + at * (int64_t)td_dtype_size(td_tensor_dtype(x));
}
static double get(const td_tensor *x, const td_tensor *like, int64_t i)
{
    double value;
    td_convert(TD_F64, &value, 8, td_tensor_dtype(x), element(x, like, i), 0, 1);
    return value;
}
static void put(td_tensor *x, int64_t i, double value) { td_convert(td_tensor_dtype(x), element(x, x, i), 8, TD_F64, &value, 8, 1); }

static int64_t size_of(const td_tensor *x, int d) { return td_tensor_sizes(x)[d]; }

/* ---- implementations */

#define IMPL(name) static int name(const td_op *op, const td_value *a, td_tensor *const *r, void *context)
#define BEGIN (void)op, (void)a, (void)context, calls++;
#define ELEMENTWISE(name, expression)                                                                                             \
    IMPL(name)                                                                                                                    \
    {                                                                                                                             \
        BEGIN for (int64_t i = 0; i < td_tensor_numel(r[0]); i++)                                                                 \
            put(r[0], i, expression);                                                                                             \
        return 0;                                                                                                                 \
    }
#define X  get(a[0].tensor, r[0], i)
#define Y  get(a[1].tensor, r[0], i)
#define Z  get(a[2].tensor, r[0], i)
#define ON_X(OP) \
    OP(exp, exp(X)) OP(log, log(X)) OP(sqrt, sqrt(X)) OP(sin, sin(X)) OP(cos, cos(X)) OP(tanh, tanh(X)) OP(neg, -X) OP(abs, fabs(X)) \
    OP(floor, floor(X)) OP(ceil, ceil(X)) OP(reciprocal, 1 / X) OP(sigmoid, 1 / (1 + exp(-X))) OP(exp2, exp2(X)) OP(log2, log2(X)) \
    OP(log1p, log1p(X)) OP(rsqrt, 1 / sqrt(X)) OP(erf, erf(X)) OP(expm1, expm1(X)) OP(sign, (X > 0) - (X < 0)) OP(atan, atan(X)) \
    OP(asinh, asinh(X)) OP(isnan, isnan(X) != 0)
#define ON_X_AND_Y(OP) \
    OP(maximum, fmax(X, Y)) OP(minimum, fmin(X, Y)) OP(atan2, atan2(X, Y)) OP(hypot, hypot(X, Y)) OP(logical_and, X && Y)
#define DEFINE(name, expression) ELEMENTWISE(slab_##name, expression)
ON_X(DEFINE)
ON_X_AND_Y(DEFINE)
DEFINE(copysign, copysign(X, Y))
DEFINE(mul, fma(X, Y, 0))
DEFINE(div, X / Y)
DEFINE(eq, X == Y)
DEFINE(lt, X < Y)
DEFINE(ge, X >= Y)
DEFINE(pow, pow(X, Y))
DEFINE(fmod, fmod(X, Y))
DEFINE(add, X + td_scalar_double(a[2].scalar) * Y)
DEFINE(sub, X - td_scalar_double(a[2].scalar) * Y)
DEFINE(where, X != 0 ? Y : Z)
DEFINE(lerp, X + Z * (Y - X))
DEFINE(gelu, *a[1].string == 't' ? X / 2 * (1 + tanh(0.7978845608028654 * (X + 0.044715 * X * X * X))) : X / 2 * (1 + erf(X / sqrt(2))))

/* A dimension of x's: its size, how many elements lie inside of one step, and how many steps outside. */
typedef struct { int64_t size, inner, outer; } along;
static along split(const td_tensor *x, int64_t dim)
{
    along s = {1, 1, 1};
    const int ndim = td_tensor_ndim(x);
    dim += dim < 0 ? ndim : 0;
    for (int d = 0; d < ndim; d++)
        *(d == dim ? &s.size : d > dim ? &s.inner : &s.outer) *= size_of(x, d);
    return s;
}
#define FOLD(name, dim, start, step, store)                                                                                       \
    IMPL(slab_##name)                                                                                                             \
    {                                                                                                                             \
        BEGIN const td_tensor *x = a[0].tensor;                                                                                   \
        const along s = split(x, dim);                                                                                            \
        for (int64_t o = 0; o < s.outer * s.inner; o++) {                                                                         \
            double t = start;                                                                                                     \
            int64_t best = 0;                                                                                                     \
            (void)best;                                                                                                           \
            for (int64_t k = 0; k < s.size; k++) {                                                                                \
                const int64_t i = (o / s.inner * s.size + k) * s.inner + o % s.inner;                                             \
                const double v = get(x, x, i);                                                                                    \
                step;                                                                                                             \
            }                                                                                                                     \
            store;                                                                                                                \
        }                                                                                                                         \
        return 0;                                                                                                                 \
    }
FOLD(sum, a[1].ints[0], 0, t += v, put(r[0], o, t))
FOLD(mean, a[1].ints[0], 0, t += v, put(r[0], o, t / (double)s.size))
FOLD(amax, a[1].ints[0], -INFINITY, t = fmax(t, v), put(r[0], o, t))
FOLD(amin, a[1].ints[0], INFINITY, t = fmin(t, v), put(r[0], o, t))
FOLD(prod, a[1].integer, 1, t *= v, put(r[0], o, t))
FOLD(argmax, a[1].integer, -INFINITY, (void)(v > t ? (t = v, best = k) : 0), put(r[0], o, (double)best))
FOLD(cumsum, a[1].integer, 0, put(r[0], i, t += v), )
FOLD(cumprod, a[1].integer, 1, put(r[0], i, t *= v), )
FOLD(cummax, a[1].integer, -INFINITY, (void)(v >= t ? (t = v, best = k) : 0); put(r[0], i, t); put(r[1], i, (double)best), )

/* One that takes the operator's C arguments. */
static int slab_mm(td_tensor *a, td_tensor *b, td_tensor *out)
{
    calls++;
    const int64_t n = size_of(a, 0), depth = size_of(a, 1), m = size_of(b, 1);
    for (int64_t i = 0; i < n * m; i++) {
        double sum = 0;
        for (int64_t k = 0; k < depth; k++)
            sum += get(a, a, i / m * depth + k) * get(b, b, k * m + i % m);
        put(out, i, sum);
    }
    return 0;
}

/* Those of layers get what follows from the numbers, checked: neither looks at a kernel size or a stride. */
static double *plane_of(const td_tensor *x, const int64_t *sizes, int64_t plane) { return place(x) + plane * sizes[0] * sizes[1] * sizes[2]; }
#define EACH_WINDOW(...)                                                                              \
    for (int64_t p = 0; p < g->planes; p++)                                                           \
        for (int64_t o = 0; o < g->out_total; o++) {                                                  \
            int64_t from[2], to[2];                                                                   \
            td_pool_window(g, 1, o / g->out[2], &from[0], &to[0]);                                    \
            td_pool_window(g, 2, o % g->out[2], &from[1], &to[1]);                                    \
            __VA_ARGS__                                                                               \
        }
#define EACH_ELEMENT(...)                                                                             \
    for (int64_t h = from[0]; h < to[0]; h += g->dilation[1])                                         \
        for (int64_t w = from[1]; w < to[1]; w += g->dilation[2]) {                                   \
            const int64_t at = h * g->in[2] + w;                                                      \
            __VA_ARGS__                                                                               \
        }
static int slab_max_pool(td_tensor *self, const td_pool_geometry *g, td_tensor *values, td_tensor *indices)
{
    calls++;
    EACH_WINDOW(
        const double *x = plane_of(self, g->in, p);
        double best = -INFINITY;
        EACH_ELEMENT(if (x[at] > best) best = x[at], put(indices, p * g->out_total + o, (double)at);)
        plane_of(values, g->out, p)[o] = best;)
    return 0;
}
static int slab_max_pool_backward(td_tensor *grad, td_tensor *self, td_tensor *indices, const td_pool_geometry *g, td_tensor *out)
{
    (void)self, calls++;
    memset(place(out), 0, (size_t)td_tensor_numel(out) * sizeof(double));
    for (int64_t i = 0; i < g->planes * g->out_total; i++)
        plane_of(out, g->in, i / g->out_total)[(int64_t)get(indices, indices, i)] += get(grad, grad, i);
    return 0;
}
/* Convolution, resizing, sampling, attention and recurrent layers: what they were called with, without a loop. */
static td_conv_geometry conv;
static td_resize_geometry resize;
static td_sample_geometry sample;
static td_attention_geometry heads;
static td_rnn_geometry layer;
static int slab_convolution(td_tensor *x, td_tensor *w, td_tensor *b, const td_conv_geometry *g, td_tensor *y)
{
    (void)x, (void)w, (void)b, (void)y;
    return conv = *g, 0;
}
static int slab_convolution_backward(td_tensor *dy, td_tensor *x, td_tensor *w, const td_conv_geometry *g, td_tensor *dx, td_tensor *dw, td_tensor *db)
{
    (void)dy, (void)x, (void)w, (void)dx, (void)dw, (void)db;
    return conv = *g, 0;
}
static int slab_resample(td_tensor *x, const td_resize_geometry *g, td_tensor *y)
{
    (void)x, (void)y;
    return resize = *g, 0;
}
static int slab_grid_sampler(td_tensor *x, td_tensor *grid, const td_sample_geometry *g, td_tensor *y)
{
    (void)x, (void)grid, (void)y;
    return sample = *g, 0;
}
static int slab_grid_sampler_backward(td_tensor *dy, td_tensor *x, td_tensor *grid, const td_sample_geometry *g, td_tensor *dx, td_tensor *dgrid)
{
    (void)dy, (void)x, (void)grid, (void)dx, (void)dgrid;
    return sample = *g, 0;
}
static int slab_attention(td_tensor *q, td_tensor *k, td_tensor *v, td_tensor *mask, const td_attention_geometry *g, td_tensor *y, td_tensor *lse)
{
    (void)q, (void)k, (void)v, (void)mask, (void)y, (void)lse;
    return heads = *g, 0;
}
static int slab_rnn_layer(td_tensor *gates, td_tensor *h, td_tensor *c, td_tensor *w, td_tensor *b, const td_rnn_geometry *g, td_tensor *y,
                          td_tensor *cells, td_tensor *saved)
{
    (void)gates, (void)h, (void)c, (void)w, (void)b, (void)y, (void)cells, (void)saved;
    return layer = *g, 0;
}
IMPL(slab_avg_pool)
{
    BEGIN const td_pool_geometry *g = a[td_op_describe(op)->n_arguments].geometry;
    EACH_WINDOW(
        double sum = 0;
        EACH_ELEMENT(sum += plane_of(a[0].tensor, g->in, p)[at];)
        plane_of(r[0], g->out, p)[o] = sum / (double)g->divisor;)
    return 0;
}

typedef struct { const char *name; td_boxed_impl *impl; } entry;
#define ENTRY(name, expression) {"aten::" #name, slab_##name},
static const entry elementwise[] = {
    ON_X(ENTRY)
    ON_X_AND_Y(ENTRY)
    {"aten::copysign.Tensor", slab_copysign}, {"aten::mul.Tensor", slab_mul}, {"aten::div.Tensor", slab_div},
    {"aten::eq.Tensor", slab_eq}, {"aten::lt.Tensor", slab_lt}, {"aten::ge.Tensor", slab_ge}, {"aten::pow.Tensor_Tensor", slab_pow},
    {"aten::fmod.Tensor", slab_fmod}, {"aten::add.Tensor", slab_add}, {"aten::sub.Tensor", slab_sub}, {"aten::where.self", slab_where},
    {"aten::lerp.Tensor", slab_lerp}, {"aten::gelu", slab_gelu},
};
static const entry along_dim[] = {
    {"aten::sum.dim_IntList", slab_sum}, {"aten::mean.dim", slab_mean}, {"aten::amax", slab_amax}, {"aten::amin", slab_amin},
    {"aten::prod.dim_int", slab_prod}, {"aten::argmax", slab_argmax}, {"aten::cumsum", slab_cumsum}, {"aten::cumprod", slab_cumprod},
    {"aten::cummax", slab_cummax},
};

/* The form of an operator that is in place, or with out=; NULL if it has none. */
static const td_op *form_of(const td_op *op, uint32_t flag)
{
    const td_op_info *base = td_op_describe(op);
    const int more = flag == TD_OP_OUT ? base->n_results : 0;
    const size_t length = strlen(base->name);
    for (int i = 0; i < td_op_count(); i++) {
        const td_op_info *info = td_op_describe(td_op_at(i));
        bool fits = info->flags & flag && !info->space && !strncmp(info->name, base->name, length) &&
                    !strcmp(info->name + length, more ? "" : "_") && info->n_arguments == base->n_arguments + more;
        for (int k = 0; fits && k < base->n_arguments; k++)
            fits = info->arguments[k].kind == base->arguments[k].kind;
        if (fits)
            return td_op_at(i);
    }
    return NULL;
}

static int ready(void)
{
    static bool done;
    const int found = td_device_find("slab"), type = found >= 0 ? found : td_device_register(&library);
    if (type < 0 || done)
        return type;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < (k ? TD_COUNT(along_dim) : TD_COUNT(elementwise)); i++) {
            const entry *e = k ? &along_dim[i] : &elementwise[i];
            if (!td_op_has_impl(td_op_find(e->name), type) && td_register_boxed_impl(e->name, type, e->impl, NULL))
                return -1;
        }
    if (td_register_impl("aten::mm", type, (td_kernel)slab_mm) ||
        td_register_impl("aten::max_pool2d_with_indices", type, (td_kernel)slab_max_pool) ||
        td_register_impl("aten::adaptive_max_pool2d", type, (td_kernel)slab_max_pool) ||
        td_register_impl("aten::max_pool_backward", type, (td_kernel)slab_max_pool_backward) ||
        td_register_impl("aten::convolution", type, (td_kernel)slab_convolution) ||
        td_register_impl("aten::convolution_backward", type, (td_kernel)slab_convolution_backward) ||
        td_register_impl("aten::resample", type, (td_kernel)slab_resample) ||
        td_register_impl("aten::resample_backward", type, (td_kernel)slab_resample) ||
        td_register_impl("aten::grid_sampler_2d", type, (td_kernel)slab_grid_sampler) ||
        td_register_impl("aten::grid_sampler_backward", type, (td_kernel)slab_grid_sampler_backward) ||
        td_register_impl("aten::attention", type, (td_kernel)slab_attention) ||
        td_register_impl("aten::rnn_layer", type, (td_kernel)slab_rnn_layer) ||
        td_register_boxed_impl("aten::avg_pool2d", type, slab_avg_pool, NULL))
        return -1;
    done = true;
    return type;
}

static td_tensor *moved(td_tensor *x, int type)
{
    return td_to_device(x, (td_device){(int8_t)type, -1}, td_tensor_dtype(x), false, false, TD_MEMORY_FORMAT_NONE);
}

/* x is on any device, y on the CPU. */
static bool same(td_tensor *x, td_tensor *y)
{
    AUTO here = moved(x, TD_CPU);
    if (!here || td_tensor_dtype(x) != td_tensor_dtype(y) || td_tensor_ndim(x) != td_tensor_ndim(y) || td_tensor_numel(x) != td_tensor_numel(y))
        return false;
    for (int64_t i = 0; i < td_tensor_numel(y); i++) {
        const double p = get(here, here, i), q = get(y, y, i);
        if (!(p == q || (isnan(p) && isnan(q)) || fabs(p - q) <= 1e-5 * (1 + fabs(q))))
            return false;
    }
    return true;
}

/* Values for a schema's arguments: x is transposed, y broadcasts. */
enum { MOST = 8 };
static int arguments_of(const td_op *op, td_tensor *x, td_tensor *y, td_tensor *condition, td_value *values)
{
    static const int64_t dims[] = {1};
    const td_op_info *info = td_op_describe(op);
    int tensors = 0;
    for (int i = 0; i < info->n_arguments; i++) {
        const td_arg *a = &info->arguments[i];
        values[i] = a->default_value;
        if (a->is_out)
            break;
        if (a->kind == TD_VALUE_TENSOR)
            values[i] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = condition ? (td_tensor *[]){condition, x, y}[tensors] : tensors ? y : x}, tensors++;
        else if (!strcmp(a->name, "dim"))
            values[i] = a->kind == TD_VALUE_INTS ? (td_value){.kind = TD_VALUE_INTS, .count = 1, .ints = dims}
                                                 : (td_value){.kind = TD_VALUE_INT, .integer = 1};
        else if (a->kind == TD_VALUE_SCALAR)
            values[i] = (td_value){.kind = TD_VALUE_SCALAR, .scalar = td_float(0.5)};
        else if (a->kind == TD_VALUE_STRING)
            values[i] = (td_value){.kind = TD_VALUE_STRING, .string = "tanh"};
    }
    return info->n_arguments;
}

/* All forms of an operator on the device give what the functional one gives on the CPU. */
static bool forms_agree(const entry *e, int type, td_dtype dtype)
{
    const bool where = e->impl == slab_where;
    AUTO base = td_tensor_new(2, (int64_t[]){3, 4}, dtype, CPU);
    AUTO y = td_tensor_new(1, (int64_t[]){3}, dtype, CPU);
    AUTO mask = td_tensor_new(2, (int64_t[]){4, 3}, TD_BOOL, CPU);
    AUTO x = base ? td_transpose(base, 0, 1) : NULL;
    if (!x || !y || !mask)
        return false;
    for (int64_t i = 0; i < 12; i++)
        put(base, i, 0.25 + draw(40) / 8.0), put(mask, i, draw(2));
    for (int64_t i = 0; i < 3; i++)
        put(y, i, 0.5 + draw(8));
    AUTO there_x = moved(x, type);
    AUTO there_y = moved(y, type);
    AUTO there_mask = moved(mask, type);
    AUTO meta_x = moved(x, TD_META);
    AUTO meta_y = moved(y, TD_META);
    AUTO meta_mask = moved(mask, TD_META);
    const td_op *op = td_op_find(e->name), *in_place = form_of(op, TD_OP_INPLACE), *with_out = form_of(op, TD_OP_OUT);
    td_value a[MOST], want[2] = {{0}}, got[2] = {{0}};
    arguments_of(op, x, y, where ? mask : NULL, a);
    if (!there_x || !there_y || !there_mask || !meta_x || !meta_y || !meta_mask || td_op_call(op, a, want))
        return false;
    const int n = td_op_describe(op)->n_results;
    bool good = true;
    arguments_of(op, there_x, there_y, where ? there_mask : NULL, a);
    int before = calls;
    good &= td_op_call(op, a, got) == 0 && calls == before + 1;
    for (int i = 0; i < n && good; i++)
        good &= same(got[i].tensor, want[i].tensor);
    if (good && with_out && n == 1) {       /* into a wrong shape, then of twice the size, then the results' own */
        td_tensor *outs[] = {td_tensor_new(1, (int64_t[]){0}, td_tensor_dtype(want[0].tensor), (td_device){(int8_t)type, -1}),
                             td_tensor_retain(got[0].tensor)};
        for (int k = 0; k < 2; k++) {
            int last = arguments_of(with_out, there_x, there_y, where ? there_mask : NULL, a);
            td_value out[1] = {{0}};
            a[last - 1] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = outs[k]};
            before = calls;
            good &= outs[k] && td_op_call(with_out, a, out) == 0 && calls == before + 1 && same(outs[k], want[0].tensor);
            td_values_release(out, 1);
            td_tensor_release(outs[k]);
        }
    }
    if (good && in_place && n == 1 && !where && td_tensor_dtype(want[0].tensor) == dtype) {
        arguments_of(in_place, there_x, there_y, NULL, a);
        td_value out[1] = {{0}};
        good &= td_op_call(in_place, a, out) == 0 && same(there_x, want[0].tensor);
        td_values_release(out, 1);
    }
    td_values_release(got, n);
    arguments_of(op, meta_x, meta_y, where ? meta_mask : NULL, a);
    before = calls;
    good = good && td_op_call(op, a, got) == 0 && calls == before;
    for (int i = 0; i < n && good; i++)
        good &= td_tensor_numel(got[i].tensor) == td_tensor_numel(want[i].tensor) && td_tensor_dtype(got[i].tensor) == td_tensor_dtype(want[i].tensor);
    td_values_release(got, n);
    td_values_release(want, n);
    if (!good && td_error_code() != TD_E_MEMORY)
        fprintf(stderr, "%s\n", e->name);
    return good;
}

TD_TEST(one_implementation_gives_all_forms_of_an_elementwise_operator)
{
    const int type = TRY(ready());
    for (int i = 0; i < TD_COUNT(elementwise); i++)
        CHECK(forms_agree(&elementwise[i], type, i % 2 ? TD_F32 : TD_F64));
}

TD_TEST(one_implementation_gives_all_forms_of_a_reduction_and_of_a_scan)
{
    const int type = TRY(ready());
    for (int i = 0; i < TD_COUNT(along_dim); i++)
        CHECK(forms_agree(&along_dim[i], type, i % 2 ? TD_F64 : TD_F32));
}

TD_TEST(an_implementation_may_take_the_operators_c_arguments)
{
    const int type = TRY(ready());
    AUTO a = TRY(td_tensor_new(2, (int64_t[]){3, 4}, TD_F32, CPU));
    AUTO b = TRY(td_tensor_new(2, (int64_t[]){4, 2}, TD_F32, CPU));
    fill_random(a), fill_random(b);
    AUTO there_a = TRY(moved(a, type));
    AUTO there_b = TRY(moved(b, type));
    AUTO want = TRY(td_mm(a, b));
    AUTO got = TRY(td_mm(there_a, there_b));
    CHECK(same(got, want));
    AUTO out = TRY(td_tensor_new(1, (int64_t[]){0}, TD_F32, (td_device){(int8_t)type, -1}));
    CHECK_EQ(TRY(td_mm_out(there_a, there_b, out)), 0);
    CHECK(same(out, want));
    CHECK_FAILS(td_mm(there_a, there_a), TD_E_RUNTIME, "cannot be multiplied (3x4 and 3x4)");
}

TD_TEST(an_implementation_of_a_layer_gets_its_geometry)
{
    const int type = TRY(ready());
    const int64_t three = 3, two = 2, one = 1, seven = 7;
    AUTO x = TRY(td_tensor_new(4, (int64_t[]){2, 3, 9, 8}, TD_F64, CPU));
    fill_random(x);
    AUTO there = TRY(moved(x, type));
    td_tensor *got[2], *want[2];
    for (int k = 0; k < 2; k++) {
        const int before = calls;
        TRY(k ? td_adaptive_max_pool2d(want, x, 2, (int64_t[]){4, 3})
              : td_max_pool2d_with_indices(want, x, 1, &three, 0, NULL, 1, &one, 1, &two, true));
        AUTO values = want[0];
        AUTO indices = want[1];
        TRY(k ? td_adaptive_max_pool2d(got, there, 2, (int64_t[]){4, 3})
              : td_max_pool2d_with_indices(got, there, 1, &three, 0, NULL, 1, &one, 1, &two, true));
        AUTO own_values = got[0];
        AUTO own_indices = got[1];
        CHECK(calls == before + 1 && same(own_values, values) && same(own_indices, indices));
        AUTO slopes = TRY(td_max_pool_backward(values, x, indices, 2));
        AUTO own_slopes = TRY(td_max_pool_backward(own_values, there, own_indices, 2));
        CHECK(calls == before + 2 && same(own_slopes, slopes));
    }
    AUTO mean = TRY(td_avg_pool2d(x, 1, &three, 1, &two, 1, &one, false, true, &seven));
    AUTO own_mean = TRY(td_avg_pool2d(there, 1, &three, 1, &two, 1, &one, false, true, &seven));
    CHECK(same(own_mean, mean));
    CHECK_FAILS(td_avg_pool2d(there, 1, &three, 1, &two, 1, &two, false, true, &seven), TD_E_RUNTIME, "pad should be at most half");
}

static bool is(const int64_t *x, int64_t a, int64_t b, int64_t c) { return x[0] == a && x[1] == b && x[2] == c; }

TD_TEST(a_convolution_and_its_gradients_have_one_geometry)
{
    const td_device there = {(int8_t)TRY(ready()), -1};
    const int64_t one = 1, two = 2;
    AUTO x = TRY(td_tensor_new(4, (int64_t[]){2, 4, 9, 8}, TD_F32, there));
    AUTO w = TRY(td_tensor_new(4, (int64_t[]){4, 2, 3, 2}, TD_F32, there));
    for (int k = 0; k < 2; k++) {
        AUTO y = TRY(k ? td_conv_transpose2d_input(x, w, TD_NONE, 1, &two, 2, (int64_t[]){1, 0}, 1, &one, 2, 1, &one)
                       : td_conv2d(x, w, TD_NONE, 1, &two, 2, (int64_t[]){1, 0}, 1, &one, 2));
        const td_conv_geometry forward = conv;
        CHECK(forward.transposed == k && forward.batch == 2 && forward.groups == 2 && forward.cin == 2 && forward.cout == 2 && forward.k == 12);
        CHECK(is(forward.in, 1, k ? 18 : 9, k ? 17 : 8) && is(forward.out, 1, k ? 9 : 5, k ? 8 : 4) && is(forward.padding, 0, 1, 0));
        td_tensor *gradients[3];
        memset(&conv, 0, sizeof conv);
        TRY(td_convolution_backward(gradients, y, x, w, -1, NULL, 2, (int64_t[]){2, 2}, 2, (int64_t[]){1, 0}, 2, (int64_t[]){1, 1}, k, 2,
                                    (int64_t[]){k, k}, 2, 3, (bool[]){true, true, true}));
        for (int i = 0; i < 3; i++)
            td_tensor_release(gradients[i]);
        CHECK(conv.k == forward.k && conv.in_total == forward.in_total && is(conv.out, 1, forward.out[1], forward.out[2]));
    }
}

TD_TEST(sizes_beyond_an_int32_are_in_the_geometry)
{
    const td_device there = {(int8_t)TRY(ready()), -1};
    const int64_t many = INT64_C(1) << 32;
    AUTO dot = TRY(td_tensor_new(4, (int64_t[]){1, 1, 1, 1}, TD_F32, there));
    AUTO x = TRY(td_expand(dot, 4, (int64_t[]){1, 1, 2, many}));
    AUTO grid = TRY(td_tensor_new(4, (int64_t[]){1, 3, 1, 2}, TD_F32, there));
    AUTO y = TRY(td_grid_sampler(x, grid, 0, 0, false));
    CHECK(sample.dtype == TD_F64 && sample.in_total == 2 * many && sample.out_total == 3);
    td_tensor *gradients[2];
    memset(&sample, 0, sizeof sample);
    TRY(td_grid_sampler_backward(gradients, y, x, grid, 0, 0, false, 2, (bool[]){false, true}));
    td_tensor_release(gradients[0]), td_tensor_release(gradients[1]);
    CHECK(sample.dtype == TD_F64 && is(sample.in, 1, 2, many));
    AUTO z = TRY(td_upsample_bilinear2d(x, 2, (int64_t[]){1, 4}, false, NULL, NULL));
    CHECK(is(resize.in, 1, 2, many) && is(resize.out, 1, 1, 4) && resize.scale[1] == 2 && resize.scale[2] == (double)(many / 4));
    const double least = 1e-300;
    CHECK_FAILS(td_upsample_bilinear2d(x, 2, (int64_t[]){1, 4}, false, NULL, &least), TD_E_RUNTIME, "out of range");
}

TD_TEST(attention_and_recurrent_layers_have_geometries)
{
    const td_device there = {(int8_t)TRY(ready()), -1};
    AUTO q = TRY(td_tensor_new(4, (int64_t[]){2, 6, 5, 8}, TD_F32, there));
    AUTO k = TRY(td_tensor_new(4, (int64_t[]){2, 3, 7, 8}, TD_F32, there));
    AUTO v = TRY(td_tensor_new(4, (int64_t[]){2, 3, 7, 4}, TD_F32, there));
    AUTO mask = TRY(td_tensor_new(3, (int64_t[]){6, 1, 7}, TD_F32, there));
    const double scale = 0.5;
    AUTO y = TRY(td_scaled_dot_product_attention(q, k, v, mask, 0, false, &scale, true));
    CHECK(heads.batch == 2 && heads.heads == 6 && heads.kv_heads == 3 && heads.queries == 5 && heads.keys == 7 && heads.width == 8);
    CHECK(heads.value_width == 4 && heads.scale == 0.5 && !heads.causal);
    CHECK(!heads.mask_varies[0] && heads.mask_varies[1] && !heads.mask_varies[2] && heads.mask_varies[3]);
    AUTO gates = TRY(td_tensor_new(3, (int64_t[]){5, 2, 12}, TD_F32, there));
    AUTO h = TRY(td_tensor_new(2, (int64_t[]){2, 4}, TD_F32, there));
    AUTO w = TRY(td_tensor_new(2, (int64_t[]){12, 4}, TD_F32, there));
    td_tensor *results[3];
    TRY(td_rnn_layer(results, gates, h, TD_NONE, w, TD_NONE, TD_RNN_GRU, true));
    for (int i = 0; i < 3; i++)
        td_tensor_release(results[i]);
    CHECK(layer.mode == TD_RNN_GRU && layer.gates == 3 && layer.reverse && layer.steps == 5 && layer.rows == 2 && layer.width == 4);
    CHECK_FAILS(td_rnn_layer(results, gates, h, TD_NONE, w, TD_NONE, TD_RNN_LSTM, true), TD_E_RUNTIME, "don't fit together");
}

TD_TEST(the_checks_are_those_that_the_cpu_has)
{
    const int type = TRY(ready());
    const td_device there = {(int8_t)type, -1};
    AUTO x = TRY(td_tensor_new(2, (int64_t[]){4, 3}, TD_F32, there));
    AUTO y = TRY(td_tensor_new(1, (int64_t[]){5}, TD_F32, there));
    AUTO whole = TRY(td_tensor_new(2, (int64_t[]){4, 3}, TD_I64, there));
    CHECK_FAILS(td_maximum(x, y), TD_E_RUNTIME, "must match");
    CHECK_FAILS(td_exp_out(x, whole), TD_E_RUNTIME, "can't be cast");
    CHECK_FAILS(td_cumsum(x, 2, TD_DTYPE_NONE), TD_E_INDEX, "Dimension out of range");
    AUTO row = TRY(td_tensor_new(2, (int64_t[]){1, 3}, TD_F32, there));
    CHECK_FAILS(td_add_tensor_(row, x, td_int(1)), TD_E_RUNTIME, "doesn't match the broadcast shape");
    CHECK_FAILS(td_logcumsumexp(x, 0), TD_E_NOT_IMPLEMENTED, "");       /* without an implementation */
}

TD_TEST(what_is_registered_later_covers_until_it_is_taken_away)
{
    AUTO x = TRY(td_ones(1, (int64_t[]){3}, TD_F64, CPU));
    TRY(td_register_boxed_impl("aten::cumprod", TD_CPU, slab_cumsum, NULL));
    td_tensor *sums = td_cumprod(x, 0, TD_DTYPE_NONE);
    CHECK_EQ(td_register_boxed_impl("aten::cumprod", TD_CPU, NULL, NULL), 0);
    AUTO kept = TRY(sums);
    AUTO products = TRY(td_cumprod(x, 0, TD_DTYPE_NONE));
    CHECK(get(kept, kept, 2) == 3 && get(products, products, 2) == 1);
    CHECK_FAILS(td_register_boxed_impl("aten::cumsum_", TD_CPU, slab_cumsum, NULL), TD_E_VALUE, "form of aten::cumsum");
    CHECK_FAILS(td_register_boxed_impl("aten::reshape", TD_CPU, slab_cumsum, NULL), TD_E_VALUE, "not structured");
    CHECK_FAILS(td_register_boxed_impl("aten::no_such", TD_CPU, slab_cumsum, NULL), TD_E_VALUE, "no operator");
    CHECK_FAILS(td_register_boxed_impl("aten::exp", TD_META, slab_exp, NULL), TD_E_VALUE, "computes nothing");
    CHECK_FAILS(td_register_impl("aten::exp", TD_CPU, (td_kernel)slab_mm), TD_E_VALUE, "boxed");
}

/* ---- an operator from outside */

static int repeated(const td_op *op, const td_value *a, td_spec *specs, void *context)
{
    (void)op, (void)context;
    const td_tensor *x = a[0].tensor;
    if (td_tensor_ndim(x) != 1)
        return td_error(TD_E_RUNTIME, "slab::twice takes vectors");
    int64_t *const times = a[2].geometry;
    const int64_t before = *times;
    *times = 2;
    return before ? -1 : td_spec_set(specs, 1, (int64_t[]){*times * td_tensor_numel(x)}, td_tensor_dtype(x), td_tensor_device(x));
}
IMPL(twice)
{
    BEGIN for (int64_t i = 0; i < td_tensor_numel(r[0]); i++)
        put(r[0], i, get(a[0].tensor, a[0].tensor, i / *(const int64_t *)a[2].geometry) * a[1].number);
    return 0;
}

TD_TEST(an_operator_from_outside_is_structured_once_it_has_a_meta_function)
{
    const int type = TRY(ready());
    const td_op *op = td_op_find("slab::twice");
    if (!op) {
        op = TRY(td_op_define("slab::twice(Tensor x, float factor=1) -> Tensor"));
        TRY(td_op_define("slab::twice_(Tensor(a!) x, float factor=1) -> Tensor(a!)"));
        TRY(td_op_define("slab::twice.out(Tensor x, float factor=1, *, Tensor(a!) out) -> Tensor(a!)"));
    }
    if (!td_op_has_impl(op, type)) {
        TRY(td_op_set_meta_geometry(op, repeated, sizeof(int64_t), NULL));
        TRY(td_register_boxed_impl("slab::twice", TD_CPU, twice, NULL));
        TRY(td_register_boxed_impl("slab::twice", type, twice, NULL));
    }
    AUTO x = TRY(td_ones(1, (int64_t[]){3}, TD_F32, CPU));
    for (int k = 0; k < 3; k++) {
        AUTO there = TRY(moved(x, (int[]){TD_CPU, type, TD_META}[k]));
        td_value a[3] = {{.kind = TD_VALUE_TENSOR, .tensor = there}, {.kind = TD_VALUE_FLOAT, .number = 3}}, r[1];
        TRY(td_op_call(op, a, r));
        AUTO result = r[0].tensor;
        CHECK_EQ(td_tensor_numel(result), 6);
        AUTO out = TRY(td_tensor_new(1, (int64_t[]){0}, TD_F32, td_tensor_device(there)));
        a[2] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = out};
        TRY(td_op_call(td_op_find("slab::twice.out"), a, r));
        td_values_release(r, 1);
        CHECK_EQ(td_tensor_numel(out), 6);
        CHECK_FAILS(td_op_call(td_op_find("slab::twice_"), a, r), TD_E_RUNTIME, "doesn't match the broadcast shape");
        a[0].tensor = result;
        AUTO square = TRY(td_reshape(result, 2, (int64_t[]){2, 3}));
        a[0].tensor = square;
        CHECK_FAILS(td_op_call(op, a, r), TD_E_RUNTIME, "takes vectors");
        if (k == 2)
            continue;
        AUTO here = TRY(moved(out, TD_CPU));
        CHECK(get(here, here, 5) == 3);
    }
    CHECK_FAILS(td_op_set_meta(op, repeated, NULL), TD_E_VALUE, "has a meta function already");
    CHECK_FAILS(td_op_set_meta(td_op_find("aten::exp"), repeated, NULL), TD_E_VALUE, "defined at run time");
}
