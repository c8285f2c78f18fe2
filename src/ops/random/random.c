/* rand, randn, randint, randperm, uniform_, normal_, bernoulli, multinomial, dropout and other operators that draw random
 * numbers. Which elements are filled in which order is here; the numbers come from ops/random/fill.h (kernels:
 * src/kernels/cpu/random). See Note [Order of random numbers in strided tensors] in fill.h.
 *
 * The order is part of the behaviour: with the same seed the elements are those of PyTorch's CPU build, also in tensors
 * that are transposed or have gaps. */

#include "calls_ops_random_random.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tede/kernel.h>
#include <tede/transforms.h>
#include "dispatch/outputs.h"
#include "ops/random/fill.h"
#include "ops/reduce/reduce.h"
#include <tede/counter.h>
#include <tede/device.h>
#include "tensor/device.h"
#include "tensor/position.h"

static int fill_here(td_filling kind, const td_draw *d, td_dtype t, void *out, int64_t n)
{
    if (d->here)
        return d->here(d, t, out, n);
    switch (kind) {
    case TD_FILL_UNIFORM:        return td_fill_uniform(d->g, t, out, n, d->a, d->b);
    case TD_FILL_NORMAL:         return td_fill_normal(d->g, t, out, n, d->a, d->b);
    case TD_FILL_NORMAL_SINGLY:  return td_fill_normal_elementwise(d->g, t, out, n, d->a, d->b);
    case TD_FILL_EXPONENTIAL:    return td_fill_exponential(d->g, t, out, n, d->a);
    case TD_FILL_DROPOUT:        return td_fill_dropout(d->g, t, out, n, d->a);
    case TD_FILL_RANDOM:         return td_fill_random(d->g, t, out, n);
    case TD_FILL_RANDOM_FROM:    return td_fill_random_from(d->g, t, out, n, d->from);
    case TD_FILL_RANDOM_FROM_TO: return td_fill_random_from_to(d->g, t, out, n, d->from, d->to);
    default:                     return td_fill_bernoulli(d->g, t, out, n, d->a);       /* TD_FILL_BERNOULLI, TD_FILL_KEPT */
    }
}

/* A view of x whose dimensions go along memory, the largest stride outermost, all strides positive; `like` (of x's
 * shape) is seen the same way if it is given. */
static td_tensor *along_memory(td_tensor *x, td_tensor *like)
{
    int64_t order[TD_MAX_DIMS], sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS], offset = 0;
    td_stride_order(x->ndim, x->strides, order);
    td_tensor *of = like ? like : x;
    for (int i = 0; i < x->ndim; i++) {
        const int64_t d = order[i];
        bool back = x->strides[d] < 0;
        sizes[i] = x->sizes[d], strides[i] = back ? -of->strides[d] : of->strides[d];
        offset += back ? (x->sizes[d] - 1) * of->strides[d] : 0;
    }
    return td_view_strided(of, x->ndim, sizes, strides, offset);
}

/* One number that nobody sees, from a separate generator: what is refused for the parameters and the dtype is so on meta
 * too. The buffer has space for one element of the widest dtype, complex128. */
static int try_on_meta(td_filling kind, td_draw d, const td_tensor *self)
{
    double room[2];
    td_generator *own = d.g = td_generator_new();
    int status = own ? fill_here(kind, &d, (td_dtype)self->dtype, room, self->numel > 0) : -1;
    td_generator_release(own);
    return status;
}

static int fill_dense(td_tensor *dense, td_filling kind, const td_draw *d)
{
    if (dense->device.type == TD_CPU)
        return fill_here(kind, d, (td_dtype)dense->dtype, dense->data, dense->numel);
    if (d->g && !td_generator_counts(d->g)) {
        char name[32];
        return td_error(TD_E_RUNTIME, "Expected a '%s' device type for generator but found 'cpu'", td_device_str(dense->device, name));
    }
    return td_fill_on_device(kind, d->g, dense, NULL, d->a, d->b, d->from, d->to);
}

int td_fill_drawn(const char *op, td_tensor *self, td_filling kind, const td_draw *d)
{
    if (td_check_overlap(op, self, 0, NULL))
        return -1;
    if (self->device.type != TD_CPU && try_on_meta(kind, *d, self))
        return -1;
    if (self->device.type == TD_META)
        return 0;
    if (self->flags & (TD_FLAG_CONTIGUOUS | TD_FLAG_NON_OVERLAPPING))
        return fill_dense(self, kind, d);
    TD_AUTO td_tensor *place = along_memory(self, NULL);
    TD_AUTO td_tensor *dense = place ? td_tensor_new(place->ndim, place->sizes, (td_dtype)self->dtype, self->device) : NULL;
    return !dense || fill_dense(dense, kind, d) ? -1 : td_copy_elements(place, dense);
}

/* The new tensor, or NULL if it couldn't be filled. */
static td_tensor *filled(const char *op, td_tensor *x, td_filling kind, const td_draw *d)
{
    if (x && td_fill_drawn(op, x, kind, d)) {
        td_tensor_release(x);
        return NULL;
    }
    return x;
}

static td_tensor *make(int64_t n, const int64_t *size, td_dtype dtype, td_device device)
{
    return td_empty_memory_format(n, size, dtype, device, TD_MEMORY_FORMAT_NONE);
}

/* Of x's shape, dtype and, if it is dense, layout in memory. */
static td_tensor *like(td_tensor *x) { return td_empty_like(x, TD_DTYPE_NONE, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE); }

/* ---- filling in place */

int td_op_uniform_(td_tensor *self, double from, double to, td_generator *generator)
{
    return td_fill_drawn("uniform_", self, TD_FILL_UNIFORM, &(td_draw){.g = generator, .a = from, .b = to});
}
/* A contiguous tensor gets other numbers than all the rest (TD_FILL_NORMAL, see the Note); randn_like decides the same by the
 * layout that it takes from self. */
int td_op_normal_(td_tensor *self, double mean, double std, td_generator *generator)
{
    if (!(std >= 0))
        return td_error(TD_E_RUNTIME, "normal expects std >= 0.0, but found std %g", std);
    return td_fill_drawn("normal_", self, self->flags & TD_FLAG_CONTIGUOUS ? TD_FILL_NORMAL : TD_FILL_NORMAL_SINGLY,
                &(td_draw){.g = generator, .a = mean, .b = std});
}
int td_op_random_(td_tensor *self, td_generator *generator)
{
    return td_fill_drawn("random_", self, TD_FILL_RANDOM, &(td_draw){.g = generator});
}
/* Numbers from 0 to `to` - 1. */
int td_op_random_to_(td_tensor *self, int64_t to, td_generator *generator)
{
    return td_fill_drawn("random_", self, TD_FILL_RANDOM_FROM_TO, &(td_draw){.g = generator, .to = to});
}
int td_op_random_from_(td_tensor *self, int64_t from, const int64_t *to, td_generator *generator)
{
    return td_fill_drawn("random_", self, to ? TD_FILL_RANDOM_FROM_TO : TD_FILL_RANDOM_FROM, &(td_draw){.g = generator, .from = from, .to = to ? *to : 0});
}
int td_op_bernoulli_float_(td_tensor *self, double p, td_generator *generator)
{
    return td_fill_drawn("bernoulli_", self, TD_FILL_BERNOULLI, &(td_draw){.g = generator, .a = p});
}

/* A contiguous result by contiguous probabilities. */
static int fill_each(td_generator *g, td_tensor *out, td_tensor *p)
{
    if (out->device.type == TD_CPU)
        return td_fill_bernoulli_each(g, (td_dtype)out->dtype, out->data, out->numel, (td_dtype)p->dtype, p->data);
    if (!td_is_drawn((td_dtype)p->dtype) || td_dtype_is_complex((td_dtype)out->dtype))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"bernoulli_tensor_cpu_p_\" not implemented for '%s'",
                        td_dtype_title(td_is_drawn((td_dtype)p->dtype) ? (td_dtype)out->dtype : (td_dtype)p->dtype));
    static const td_element_range probability = {0, 1, false, false, "bernoulli", "Expected p_in >= 0 && p_in <= 1 to be true, but got false: a probability of bernoulli's "
                                                                           "(element %lld) isn't between 0 and 1"};
    return td_check_range_on_device(p, &probability) || td_fill_on_device(TD_FILL_EACH, g, out, p, 0, 0, 0, 0) ? -1 : 0;
}

/* The probabilities are brought into the order of self's memory, in which the numbers are drawn. */
int td_op_bernoulli_tensor_(td_tensor *self, td_tensor *p, td_generator *generator)
{
    if (self->numel && !td_is_drawn((td_dtype)p->dtype))
        return td_error(TD_E_NOT_IMPLEMENTED, "\"bernoulli_tensor_cpu_p_\" not implemented for '%s'", td_dtype_title((td_dtype)p->dtype));
    if (td_check_overlap("bernoulli_", self, 0, NULL))
        return -1;
    TD_AUTO td_tensor *wide = td_expand(p, self->ndim, self->sizes);
    TD_AUTO td_tensor *place = wide ? along_memory(self, NULL) : NULL;
    TD_AUTO td_tensor *view = place ? along_memory(self, wide) : NULL;
    if (!view || self->device.type == TD_META)
        return view ? 0 : -1;
    td_dtype kind = td_is_drawn((td_dtype)p->dtype) ? (td_dtype)p->dtype : TD_F32;
    TD_AUTO td_tensor *each = td_as_contiguous(view, kind);
    TD_AUTO td_tensor *dense = each ? td_tensor_new(place->ndim, place->sizes, (td_dtype)self->dtype, self->device) : NULL;
    if (!dense || fill_each(generator, dense, each))
        return -1;
    return td_copy_elements(place, dense);
}

td_tensor *td_op_bernoulli(td_tensor *self, td_generator *generator)
{
    TD_AUTO td_tensor *each = td_make_contiguous(self);
    td_tensor *out = each ? td_tensor_new(self->ndim, self->sizes, (td_dtype)self->dtype, self->device) : NULL;
    if (out && out->device.type != TD_META && fill_each(generator, out, each)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}

/* In the order of out's memory, as bernoulli_ draws; without out the result is contiguous. */
int td_op_bernoulli_out(td_tensor *self, td_generator *generator, td_tensor *out)
{
    return td_resize_output(out, self->ndim, self->sizes) ? -1 : td_op_bernoulli_tensor_(out, self, generator);
}


td_tensor *td_op_bernoulli_p(td_tensor *self, double p, td_generator *generator)
{
    td_tensor *out = td_tensor_new(self->ndim, self->sizes, (td_dtype)self->dtype, self->device);
    return filled("bernoulli", out, TD_FILL_BERNOULLI, &(td_draw){.g = generator, .a = p});
}

/* ---- new tensors */

td_tensor *td_op_rand_generator(int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype, td_device device)
{
    return filled("rand", make(n_size, size, dtype, device), TD_FILL_UNIFORM, &(td_draw){.g = generator, .a = 0, .b = 1});
}
td_tensor *td_op_rand(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device)
{
    return td_op_rand_generator(n_size, size, NULL, dtype, device);
}
td_tensor *td_op_randn_generator(int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype, td_device device)
{
    return filled("randn", make(n_size, size, dtype, device), TD_FILL_NORMAL, &(td_draw){.g = generator, .a = 0, .b = 1});
}
td_tensor *td_op_randn(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device)
{
    return td_op_randn_generator(n_size, size, NULL, dtype, device);
}
td_tensor *td_op_rand_like_generator(td_tensor *self, td_generator *generator, td_dtype dtype, td_device device,
                                     td_memory_format memory_format)
{
    return filled("rand_like", td_empty_like(self, dtype, device, memory_format), TD_FILL_UNIFORM,
                  &(td_draw){.g = generator, .a = 0, .b = 1});
}
td_tensor *td_op_rand_like(td_tensor *self, td_dtype dtype, td_device device, td_memory_format memory_format)
{
    return td_op_rand_like_generator(self, NULL, dtype, device, memory_format);
}
td_tensor *td_op_randn_like_generator(td_tensor *self, td_generator *generator, td_dtype dtype, td_device device,
                                      td_memory_format memory_format)
{
    td_tensor *x = td_empty_like(self, dtype, device, memory_format);
    return filled("randn_like", x, x && x->flags & TD_FLAG_CONTIGUOUS ? TD_FILL_NORMAL : TD_FILL_NORMAL_SINGLY,
                  &(td_draw){.g = generator, .a = 0, .b = 1});
}
td_tensor *td_op_randn_like(td_tensor *self, td_dtype dtype, td_device device, td_memory_format memory_format)
{
    return td_op_randn_like_generator(self, NULL, dtype, device, memory_format);
}

td_tensor *td_op_randint_low_generator(int64_t low, int64_t high, int64_t n_size, const int64_t *size, td_generator *generator,
                                       td_dtype dtype, td_device device)
{
    return filled("randint", make(n_size, size, dtype == TD_DTYPE_NONE ? TD_I64 : dtype, device), TD_FILL_RANDOM_FROM_TO,
                  &(td_draw){.g = generator, .from = low, .to = high});
}
td_tensor *td_op_randint_low(int64_t low, int64_t high, int64_t n_size, const int64_t *size, td_dtype dtype, td_device device)
{
    return td_op_randint_low_generator(low, high, n_size, size, NULL, dtype, device);
}
td_tensor *td_op_randint_generator(int64_t high, int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype,
                                   td_device device)
{
    return td_op_randint_low_generator(0, high, n_size, size, generator, dtype, device);
}
td_tensor *td_op_randint(int64_t high, int64_t n_size, const int64_t *size, td_dtype dtype, td_device device)
{
    return td_op_randint_low_generator(0, high, n_size, size, NULL, dtype, device);
}
td_tensor *td_op_randint_like_low_generator_dtype(td_tensor *self, int64_t low, int64_t high, td_generator *generator,
                                                  td_dtype dtype, td_device device, td_memory_format memory_format)
{
    return filled("randint_like", td_empty_like(self, dtype, device, memory_format), TD_FILL_RANDOM_FROM_TO,
                  &(td_draw){.g = generator, .from = low, .to = high});
}
td_tensor *td_op_randint_like_low_dtype(td_tensor *self, int64_t low, int64_t high, td_dtype dtype, td_device device,
                                        td_memory_format memory_format)
{
    return td_op_randint_like_low_generator_dtype(self, low, high, NULL, dtype, device, memory_format);
}
td_tensor *td_op_randint_like_generator(td_tensor *self, int64_t high, td_generator *generator, td_dtype dtype, td_device device,
                                        td_memory_format memory_format)
{
    return td_op_randint_like_low_generator_dtype(self, 0, high, generator, dtype, device, memory_format);
}
td_tensor *td_op_randint_like(td_tensor *self, int64_t high, td_dtype dtype, td_device device, td_memory_format memory_format)
{
    return td_op_randint_like_low_generator_dtype(self, 0, high, NULL, dtype, device, memory_format);
}
/* The bound is read on the host, so it must be a single number. */
td_tensor *td_op_randint_like_tensor(td_tensor *self, td_tensor *high, td_dtype dtype, td_device device,
                                     td_memory_format memory_format)
{
    td_scalar top;
    if (high->ndim || high->device.type != TD_CPU)
        return td_fail(TD_E_RUNTIME, "randint_like: high must be a scalar tensor and on CPU, not one of %d dimensions on %s", high->ndim,
                       td_device_str(high->device, (char[32]){0}));
    if (td_tensor_item(high, &top))
        return NULL;
    return td_op_randint_like_low_generator_dtype(self, 0, td_scalar_int(top), NULL, dtype, device, memory_format);
}

/* The order of random keys of 64 bits, which are different but for one case in 2^64 / n^2.  Takes over `out`. */
static td_tensor *order_keys(td_tensor *out, td_generator *generator)
{
    TD_AUTO td_tensor *to = out;
    td_generator *own = td_generator_new();     /* what is refused for the dtype */
    int64_t room[2];
    const bool refused = !own || td_fill_randperm(own, (td_dtype)out->dtype, room, 0);
    td_generator_release(own);
    TD_AUTO td_tensor *keys = refused ? NULL : filled("randperm", td_tensor_new(1, out->sizes, TD_I64, out->device), TD_FILL_RANDOM_FROM,
                                                      &(td_draw){.g = generator, .from = INT64_MIN});
    TD_AUTO td_tensor *order = td_argsort(keys, 0, false);
    return order && !td_copy_elements(to, order) ? td_tensor_retain(to) : NULL;
}

td_tensor *td_op_randperm_generator(int64_t n, td_generator *generator, td_dtype dtype, td_device device)
{
    if (n < 0)
        return td_fail(TD_E_RUNTIME, "n must be non-negative, got%" PRId64, n);
    td_tensor *out = make(1, &n, dtype == TD_DTYPE_NONE ? TD_I64 : dtype, device);
    if (out && td_is_outside(out->device))
        return order_keys(out, generator);
    if (out && out->device.type != TD_META && td_fill_randperm(generator, (td_dtype)out->dtype, out->data, n)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}
td_tensor *td_op_randperm(int64_t n, td_dtype dtype, td_device device) { return td_op_randperm_generator(n, NULL, dtype, device); }

/* ---- normal with parameters for each element */

/* NaN fails the check, too. Values on meta aren't known and pass. */
static int check_std(td_tensor *std)
{
    if (td_dtype_is_complex((td_dtype)std->dtype))
        return td_error(TD_E_RUNTIME, "normal expects standard deviation to be non-complex");
    if (std->numel == 0 || std->device.type == TD_META)
        return 0;
    if (td_is_outside(std->device)) {
        static const td_element_range deviation = {0, INFINITY, false, true, "normal", "normal expects all elements of std >= 0.0 (element %lld isn't)"};
        return td_check_range_on_device(std, &deviation);
    }
    TD_AUTO td_tensor *least = td_amin(std, 0, NULL, false);
    td_scalar value;
    if (!least || td_tensor_item(least, &value))
        return -1;
    return td_scalar_double(value) >= 0 ? 0 : td_error(TD_E_RUNTIME, "normal expects all elements of std >= 0.0");
}

/* Standard numbers (times `std`, if it is a number), then times and plus the tensors, each step rounded as PyTorch's two
 * operators round. The result has the dtype of `shape_of`. */
static td_tensor *normal(td_tensor *shape_of, td_tensor *mean, double mean_number, td_tensor *std, double std_number,
                         td_generator *generator)
{
    int64_t sizes[TD_MAX_DIMS];
    int ndim = td_broadcast_shape("normal", mean && std ? 2 : 1, (td_tensor *[]){mean ? mean : std, mean && std ? std : NULL},
                                  sizes);
    if (ndim < 0 || (std && check_std(std)))
        return NULL;
    if (!std && !(std_number >= 0))
        return td_fail(TD_E_RUNTIME, "normal expects std >= 0.0, but found std %g", std_number);
    TD_AUTO td_tensor *z = filled("normal", td_tensor_new(ndim, sizes, (td_dtype)shape_of->dtype, shape_of->device), TD_FILL_NORMAL,
                                  &(td_draw){.g = generator, .a = 0, .b = std ? 1 : std_number});
    if (z && !z->numel)         /* of any dtype, which is kept */
        return td_tensor_retain(z);
    if (!z || (std && td_mul_tensor_(z, std)) ||        /* in its dtype, whatever std's is */
        (mean ? td_add_tensor_(z, mean, td_int(1)) : td_add_scalar_(z, td_float(mean_number), td_int(1))))
        return NULL;
    return td_tensor_retain(z);
}
td_tensor *td_op_normal_tensor_float(td_tensor *mean, double std, td_generator *generator)
{
    return normal(mean, mean, 0, NULL, std, generator);
}
td_tensor *td_op_normal_float_tensor(double mean, td_tensor *std, td_generator *generator)
{
    return normal(std, NULL, mean, std, 0, generator);
}
td_tensor *td_op_normal_tensor_tensor(td_tensor *mean, td_tensor *std, td_generator *generator)
{
    return normal(mean, mean, 0, std, 0, generator);
}
td_tensor *td_op_normal_float_float(double mean, double std, int64_t n_size, const int64_t *size, td_generator *generator,
                                    td_dtype dtype, td_device device)
{
    if (!(std >= 0))
        return td_fail(TD_E_RUNTIME, "normal expects std >= 0.0, but found std %g", std);
    return filled("normal", make(n_size, size, dtype, device), TD_FILL_NORMAL, &(td_draw){.g = generator, .a = mean, .b = std});
}

/* ---- out=
 *
 * Numbers are drawn as `out` lies in memory: it gets its shape and is filled in place; the stub that calls these lets nothing be recorded. */

static int shape_out(td_tensor *out, int64_t ndim, const int64_t *sizes)
{
    const bool fits = out->ndim == ndim && !memcmp(out->sizes, sizes, sizeof *sizes * (size_t)ndim);
    return fits ? 0 : td_resize(out, ndim, sizes);
}

int td_op_rand_generator_out(int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype, td_device device, td_tensor *out)
{
    (void)dtype, (void)device;
    return shape_out(out, n_size, size) ? -1 : td_uniform_(out, 0, 1, generator);
}
int td_op_rand_out(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device, td_tensor *out)
{
    return td_op_rand_generator_out(n_size, size, NULL, dtype, device, out);
}
int td_op_normal_float_float_out(double mean, double std, int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype,
                                 td_device device, td_tensor *out)
{
    (void)dtype, (void)device;
    return shape_out(out, n_size, size) ? -1 : td_normal_(out, mean, std, generator);
}
int td_op_randn_generator_out(int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype, td_device device, td_tensor *out)
{
    return td_op_normal_float_float_out(0, 1, n_size, size, generator, dtype, device, out);
}
int td_op_randn_out(int64_t n_size, const int64_t *size, td_dtype dtype, td_device device, td_tensor *out)
{
    return td_op_randn_generator_out(n_size, size, NULL, dtype, device, out);
}
int td_op_randint_low_generator_out(int64_t low, int64_t high, int64_t n_size, const int64_t *size, td_generator *generator,
                                    td_dtype dtype, td_device device, td_tensor *out)
{
    (void)dtype, (void)device;
    return shape_out(out, n_size, size) ? -1 : td_random_from_(out, low, &high, generator);
}
int td_op_randint_low_out(int64_t low, int64_t high, int64_t n_size, const int64_t *size, td_dtype dtype, td_device device, td_tensor *out)
{
    return td_op_randint_low_generator_out(low, high, n_size, size, NULL, dtype, device, out);
}
int td_op_randint_generator_out(int64_t high, int64_t n_size, const int64_t *size, td_generator *generator, td_dtype dtype,
                                td_device device, td_tensor *out)
{
    return td_op_randint_low_generator_out(0, high, n_size, size, generator, dtype, device, out);
}
int td_op_randint_out(int64_t high, int64_t n_size, const int64_t *size, td_dtype dtype, td_device device, td_tensor *out)
{
    return td_op_randint_low_generator_out(0, high, n_size, size, NULL, dtype, device, out);
}

/* Drawn, multiplied and added to in out's dtype, beside it: one write. With a number for std, which has no shape, PyTorch
 * takes out's shape for it. */
static int normal_out(td_tensor *out, td_tensor *mean, double mean_number, td_tensor *std, double std_number, td_generator *generator)
{
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    int ndim = td_broadcast_shape("normal", mean ? 2 : 1, (td_tensor *[]){mean ? mean : std, std ? std : out}, sizes);
    if (ndim < 0 || (std && check_std(std)) || td_resize_output(out, ndim, sizes))
        return -1;
    for (int d = 0; d < ndim; d++)
        strides[d] = llabs(out->strides[d]);
    TD_AUTO td_tensor *z = td_new_empty_strided(out, ndim, sizes, ndim, strides, TD_DTYPE_NONE, TD_DEVICE_NONE);
    if (!z || td_normal_(z, 0, std ? 1 : std_number, generator) || (std && td_mul_tensor_(z, std)) ||
        (mean ? td_add_tensor_(z, mean, td_int(1)) : z->numel && td_add_scalar_(z, td_float(mean_number), td_int(1))))
        return -1;              /* no integers have any number for their mean */
    return td_copy_(out, z);
}
int td_op_normal_tensor_float_out(td_tensor *mean, double std, td_generator *generator, td_tensor *out)
{
    return normal_out(out, mean, 0, NULL, std, generator);
}
int td_op_normal_float_tensor_out(double mean, td_tensor *std, td_generator *generator, td_tensor *out)
{
    return normal_out(out, NULL, mean, std, 0, generator);
}
int td_op_normal_tensor_tensor_out(td_tensor *mean, td_tensor *std, td_generator *generator, td_tensor *out)
{
    return normal_out(out, mean, 0, std, 0, generator);
}

/* ---- samples */

int td_out_check_multinomial(td_tensor *self, int64_t num_samples, bool replacement, td_generator *generator, td_tensor *out)
{
    (void)self, (void)num_samples, (void)replacement, (void)generator;
    return out->dtype == TD_I64 ? 0 : td_error(TD_E_RUNTIME, "multinomial expects Long tensor out, got: %s",
                                               td_dtype_title((td_dtype)out->dtype));
}

/* The same on a device, by operators: the race is over a quotient's largest.  Weights are checked first, as PyTorch does it. */
static td_tensor *multinomial_there(td_tensor *self, int64_t num_samples, bool replacement, td_generator *generator)
{
    static const td_element_range weight = {0, DBL_MAX, false, false, "multinomial", "probability tensor contains either `inf`, `nan` or element < 0 (element %lld)"};
    static const td_element_range total = {0, INFINITY, true, true, "multinomial", "invalid multinomial distribution (sum of probabilities <= 0, of row %lld)"};
    TD_AUTO td_tensor *sums = td_sum_dim_intlist(self, 1, (int64_t[]){-1}, false, TD_DTYPE_NONE);
    if (!sums || td_check_range_on_device(self, &weight) || td_check_range_on_device(sums, &total))
        return NULL;
    if (replacement && num_samples > 1) {
        int64_t sizes[2] = {self->ndim == 2 ? self->sizes[0] : num_samples, num_samples};
        TD_AUTO td_tensor *weights = td_make_contiguous(self);
        TD_AUTO td_tensor *out = weights ? td_tensor_new(self->ndim, sizes, TD_I64, self->device) : NULL;
        return out && (!out->numel || !td_multinomial_on_device(generator, weights, out)) ? td_tensor_retain(out) : NULL;
    }
    TD_AUTO td_tensor *race = filled("multinomial", like(self), TD_FILL_EXPONENTIAL, &(td_draw){.g = generator, .a = 1});
    TD_AUTO td_tensor *rates = race ? td_div(self, race) : NULL;
    if (!rates || num_samples == 1)
        return rates ? td_argmax(rates, &(int64_t){-1}, true) : NULL;
    td_tensor *best[2];
    if (td_topk(best, rates, num_samples, -1, true, true))
        return NULL;
    td_tensor_release(best[0]);
    return best[1];
}

/* Indices drawn in proportion to rows of weights. Without replacement, and for a single sample, it is the exponential race:
 * those with the largest weight / Exp(1) are chosen, for which a number is drawn for each weight, in the order of a tensor
 * laid out like self. */
td_tensor *td_op_multinomial(td_tensor *self, int64_t num_samples, bool replacement, td_generator *generator)
{
    int64_t k = self->ndim ? self->sizes[self->ndim - 1] : 0;
    if (self->ndim < 1 || self->ndim > 2)
        return td_fail(TD_E_RUNTIME, "prob_dist must be 1 or 2 dim");
    if (!td_is_drawn((td_dtype)self->dtype))
        return td_fail(TD_E_RUNTIME, "multinomial only supports floating-point dtypes for input, got: %s",
                       td_dtype_title((td_dtype)self->dtype));
    if (num_samples <= 0)
        return td_fail(TD_E_RUNTIME, "cannot sample n_sample <= 0 samples");
    if (!replacement && num_samples > k)
        return td_fail(TD_E_RUNTIME, "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
    int64_t rows = self->ndim == 2 ? self->sizes[0] : 1, sizes[2] = {rows, num_samples};
    if (td_is_outside(self->device))
        return multinomial_there(self, num_samples, replacement, generator);
    TD_AUTO td_tensor *weights = td_make_contiguous(self);
    TD_AUTO td_tensor *race = like(self);       /* for the exponential numbers */
    bool by_columns = race && race->ndim == 2 && race->strides[0] < race->strides[1];
    td_tensor *out = weights && race ? td_tensor_new(self->ndim, self->ndim == 2 ? sizes : sizes + 1, TD_I64, self->device) : NULL;
    if (out && out->device.type != TD_META &&
        td_sample_multinomial(generator, (td_dtype)self->dtype, (int64_t *)out->data, rows, k, weights->data, num_samples,
                              replacement, by_columns)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}

/* On a device; dtypes that the CPU refuses are left to it. */
static td_tensor *sampled_there(td_tensor *a, td_tensor *b, td_law law, td_generator *generator, td_dtype dtype)
{
    static const td_element_range rate = {0, INFINITY, false, false, "poisson", "invalid Poisson rate, expected rate to be non-negative (element %lld isn't)"};
    if (a->dtype != TD_F32 && a->dtype != TD_F64 && law != TD_LAW_POISSON)
        return td_fail(TD_E_NOT_IMPLEMENTED, "left to the CPU: parameters of %s", td_dtype_name((td_dtype)a->dtype));
    if (law == TD_LAW_POISSON && td_check_range_on_device(a, &rate))
        return NULL;
    TD_AUTO td_tensor *out = td_tensor_new(a->ndim, a->sizes, dtype, a->device);
    return out && !td_sample_on_device(law, generator, out, a, b) ? td_tensor_retain(out) : NULL;
}

typedef int sampler(td_generator *g, td_dtype dtype, void *out, int64_t n, const void *parameter);

/* One operand, one result: both in logical order, contiguous. */
static td_tensor *sampled(const char *op, td_tensor *self, sampler *sample, td_law law, td_generator *generator)
{
    if (!td_is_drawn((td_dtype)self->dtype))
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"%s_cpu\" not implemented for '%s'", op, td_dtype_title((td_dtype)self->dtype));
    TD_AUTO td_tensor *parameter = td_make_contiguous(self);
    if (parameter && td_is_outside(self->device))
        return sampled_there(parameter, NULL, law, generator, (td_dtype)self->dtype);
    td_tensor *out = parameter ? td_tensor_new(self->ndim, self->sizes, (td_dtype)self->dtype, self->device) : NULL;
    if (out && out->device.type != TD_META && sample(generator, (td_dtype)self->dtype, out->data, out->numel, parameter->data)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}
td_tensor *td_op_poisson(td_tensor *self, td_generator *generator)
{
    return sampled("poisson", self, td_sample_poisson, TD_LAW_POISSON, generator);
}
td_tensor *td_op__standard_gamma(td_tensor *self, td_generator *generator)
{
    return sampled("gamma", self, td_sample_gamma, TD_LAW_GAMMA, generator);
}
/* As on the CPU: gammas in double over their sum, kept inside (0, 1). */
static td_tensor *dirichlet_there(td_tensor *alpha, td_generator *generator)
{
    const td_scalar least = td_float(alpha->dtype == TD_F64 ? DBL_MIN : FLT_MIN), most = td_float(alpha->dtype == TD_F64 ? 1 - 0x1p-53 : 1 - 0x1p-24);
    TD_AUTO td_tensor *gammas = sampled_there(alpha, NULL, TD_LAW_GAMMA, generator, TD_F64);
    TD_AUTO td_tensor *sums = gammas ? td_sum_dim(gammas, gammas->ndim > 0, (int64_t[]){-1}, true) : NULL, *shares = td_div(gammas, sums);
    TD_AUTO td_tensor *rounded = shares ? td_to(shares, (td_dtype)alpha->dtype) : NULL;
    return td_clamp(rounded, &least, &most);
}
td_tensor *td_op__sample_dirichlet(td_tensor *self, td_generator *generator)
{
    int64_t k = self->ndim ? self->sizes[self->ndim - 1] : 1;
    TD_AUTO td_tensor *alpha = td_make_contiguous(self);
    if (alpha && td_is_outside(self->device))
        return dirichlet_there(alpha, generator);
    td_tensor *out = alpha ? td_tensor_new(self->ndim, self->sizes, (td_dtype)self->dtype, self->device) : NULL;
    if (out && out->device.type != TD_META &&
        td_sample_dirichlet(generator, (td_dtype)self->dtype, out->data, k ? out->numel / k : 0, k, alpha->data)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}
td_tensor *td_op_binomial(td_tensor *count, td_tensor *prob, td_generator *generator)
{
    int64_t sizes[TD_MAX_DIMS];
    int ndim = td_broadcast_shape("binomial", 2, (td_tensor *[]){count, prob}, sizes);
    if (ndim < 0)
        return NULL;
    if (count->dtype != prob->dtype || !td_is_drawn((td_dtype)count->dtype))
        return td_fail(TD_E_VALUE, "binomial only supports floating-point dtypes for count, got: %s",
                       td_dtype_title((td_dtype)count->dtype));
    TD_AUTO td_tensor *wide_count = td_expand(count, ndim, sizes);
    TD_AUTO td_tensor *wide_prob = td_expand(prob, ndim, sizes);
    TD_AUTO td_tensor *n = wide_count ? td_make_contiguous(wide_count) : NULL;
    TD_AUTO td_tensor *p = wide_prob ? td_make_contiguous(wide_prob) : NULL;
    if (n && p && td_is_outside(n->device))
        return sampled_there(n, p, TD_LAW_BINOMIAL, generator, (td_dtype)n->dtype);
    td_tensor *out = n && p ? td_tensor_new(ndim, sizes, (td_dtype)count->dtype, count->device) : NULL;
    if (out && out->device.type != TD_META &&
        td_sample_binomial(generator, (td_dtype)out->dtype, out->data, out->numel, n->data, p->data)) {
        td_tensor_release(out);
        return NULL;
    }
    return out;
}

/* ---- dropout */

static int check_probability(double p)
{
    return p >= 0 && p <= 1 ? 0 : td_error(TD_E_RUNTIME, "dropout probability has to be between 0 and 1, but got %g", p);
}

/* Checked only where factors are drawn, as in PyTorch: after p = 0 and p = 1. */
static int check_channels(const td_tensor *input, bool feature)
{
    return feature && input->ndim < 2 ? td_error(TD_E_RUNTIME, "Feature dropout requires at least 2 dimensions in the input") : 0;
}

/* One factor per element, or per channel: of the first two dimensions. */
static td_tensor *noise_for(td_tensor *input, bool feature)
{
    if (!feature)
        return like(input);
    int64_t sizes[TD_MAX_DIMS];
    for (int d = 0; d < input->ndim; d++)
        sizes[d] = d < 2 ? input->sizes[d] : 1;
    return td_tensor_new(input->ndim, sizes, (td_dtype)input->dtype, input->device);
}

static td_tensor *no_factor(const td_tensor *input) { return td_full(0, NULL, td_int(0), (td_dtype)input->dtype, input->device); }
/* What is kept is divided by a number below 1. */
static int check_kept(const td_tensor *input)
{
    return td_check_cast("dropout", td_dtype_is_integral((td_dtype)input->dtype) || input->dtype == TD_BOOL ? td_default_dtype() : (td_dtype)input->dtype,
                         (td_dtype)input->dtype);
}

/* The same numbers by operators, which transforms (vmap) see and handle: they decide whether each member of a batch draws
 * its own; and which devices from outside have or leave to the CPU. Factors are then in the order of a contiguous tensor. */
static td_tensor *noise_by_operators(td_tensor *input, double p, bool feature, bool alpha)
{
    int64_t sizes[TD_MAX_DIMS];
    for (int d = 0; d < input->ndim; d++)
        sizes[d] = d < 2 || !feature ? input->sizes[d] : 1;
    TD_AUTO td_tensor *one = td_empty_memory_format(input->ndim, sizes, (td_dtype)input->dtype, input->device, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *noise = td_bernoulli_p(one, 1 - p, NULL);
    if (!noise)
        return NULL;
    return alpha ? td_tensor_retain(noise) : td_mul_number(noise, 1 / (1 - p));
}

/* Factors and, for alpha dropout, what is added; TD_NONE for input as it is. Nothing is drawn for p = 0 and p = 1, as in
 * PyTorch. Kept elements are scaled by 1 / (1 - p), so the expected value stays the same; alpha dropout (Klambauer et al.,
 * "Self-Normalizing Neural Networks", 2017) keeps mean and variance. */
static int factors(td_tensor *input, double p, bool train, bool feature, bool alpha, td_tensor **factor, td_tensor **shift)
{
    *factor = *shift = NULL;
    if (check_probability(p))
        return -1;
    if (p == 0 || !train || input->numel == 0) {
        *factor = td_tensor_retain(TD_NONE), *shift = td_tensor_retain(TD_NONE);
        return 0;
    }
    if (p == 1) {
        *factor = no_factor(input), *shift = td_tensor_retain(TD_NONE);
        return *factor ? 0 : -1;
    }
    if (check_channels(input, feature) || check_kept(input))
        return -1;
    /* A mode may make an object of a class of it, which has no elements here. */
    TD_AUTO td_tensor *room = input->flags & TD_FLAG_PYTHON ? NULL : noise_for(input, feature);
    if (!room && !(input->flags & TD_FLAG_PYTHON))
        return -1;
    const bool of_a_class = !room || room->flags & TD_FLAG_PYTHON;
    const bool by_operators = td_transform_level() || of_a_class ||
                              (td_is_outside(input->device) && (feature || alpha || !td_is_drawn((td_dtype)input->dtype) ||
                                                                !td_device_computes(input->device, (td_dtype)input->dtype)));
    TD_AUTO td_tensor *noise =
        by_operators ? noise_by_operators(input, p, feature, alpha)
                     : filled("dropout", td_tensor_retain(room), alpha ? TD_FILL_BERNOULLI : TD_FILL_DROPOUT,
                              &(td_draw){.a = alpha ? 1 - p : p});
    if (!noise)
        return -1;
    if (!alpha) {
        *factor = td_tensor_retain(noise), *shift = td_tensor_retain(TD_NONE);
        return 0;
    }
    /* The constant is selu's scale times its alpha: dropped elements become its negative saturation value. */
    const double saturation = 1.7580993408473766, a = 1 / sqrt((saturation * saturation * p + 1) * (1 - p));
    TD_AUTO td_tensor *less = td_add_number(noise, -1);
    TD_AUTO td_tensor *scaled = td_mul_number(less, saturation * a);
    *shift = td_add_number(scaled, saturation * a * p);
    *factor = td_mul_number(noise, a);
    if (*shift && *factor)
        return 0;
    td_tensor_release(*shift);
    td_tensor_release(*factor);
    return -1;
}

/* input * factor + shift. Outside of training, and where there is nothing to drop, input itself is returned: another
 * reference and no copy. */
static td_tensor *drop(td_tensor *input, double p, bool train, bool feature, bool alpha)
{
    td_tensor *f, *s;
    if (factors(input, p, train, feature, alpha, &f, &s))
        return NULL;
    TD_AUTO td_tensor *factor = f, *shift = s;
    if (factor == TD_NONE)
        return td_tensor_retain(input);
    if (shift == TD_NONE)
        return td_mul(input, factor);
    TD_AUTO td_tensor *product = td_mul(input, factor);
    return td_add(product, shift);
}

static int drop_(td_tensor *self, double p, bool train, bool feature, bool alpha)
{
    td_tensor *f, *s;
    if (factors(self, p, train, feature, alpha, &f, &s))
        return -1;
    TD_AUTO td_tensor *factor = f, *shift = s;
    if (factor == TD_NONE)
        return 0;
    return td_mul_tensor_(self, factor) || (shift != TD_NONE && td_add_tensor_(self, shift, td_int(1))) ? -1 : 0;
}

td_tensor *td_op_dropout(td_tensor *input, double p, bool train) { return drop(input, p, train, false, false); }
td_tensor *td_op_feature_dropout(td_tensor *input, double p, bool train) { return drop(input, p, train, true, false); }
td_tensor *td_op_alpha_dropout(td_tensor *input, double p, bool train) { return drop(input, p, train, false, true); }
td_tensor *td_op_feature_alpha_dropout(td_tensor *input, double p, bool train) { return drop(input, p, train, true, true); }
int td_op_dropout_(td_tensor *self, double p, bool train) { return drop_(self, p, train, false, false); }
int td_op_feature_dropout_(td_tensor *self, double p, bool train) { return drop_(self, p, train, true, false); }
int td_op_alpha_dropout_(td_tensor *self, double p, bool train) { return drop_(self, p, train, false, true); }
int td_op_feature_alpha_dropout_(td_tensor *self, double p, bool train) { return drop_(self, p, train, true, true); }

/* native_dropout's scale: 1 outside of training, and 0 instead of 1 / 0 where everything is dropped. train NULL means
 * training. */
static double scale_of(double p, const bool *train) { return train && !*train ? 1 : p == 1 ? 0 : 1 / (1 - p); }

int td_op_native_dropout(td_tensor **results, td_tensor *input, double p, const bool *train)
{
    bool drops = !train || *train;
    results[0] = results[1] = NULL;
    if (drops && input->numel && check_kept(input))
        return -1;
    if (!input->numel) {        /* as PyTorch has it, down to the dtype of the mask */
        results[0] = td_tensor_retain(input), results[1] = like(input);
        return results[1] ? 0 : -1;
    }
    TD_AUTO td_tensor *mask = td_empty_like(input, TD_BOOL, TD_DEVICE_NONE, TD_MEMORY_FORMAT_NONE);
    if (!mask || (drops ? td_fill_drawn("native_dropout", mask, TD_FILL_KEPT, &(td_draw){.a = 1 - p})
                        : td_fill_value(mask, td_bool(true))))
        return -1;
    TD_AUTO td_tensor *kept = td_mul(input, mask);
    results[0] = drops ? td_mul_number(kept, scale_of(p, train)) : td_clone(input);
    if (!results[0])
        return -1;
    results[1] = td_tensor_retain(mask);
    return 0;
}
td_tensor *td_op_native_dropout_backward(td_tensor *grad_output, td_tensor *mask, double scale)
{
    TD_AUTO td_tensor *kept = td_mul(grad_output, mask);
    return td_mul_number(kept, scale);
}
td_tensor *td_op_native_dropout_grad(td_tensor *grad, td_tensor *mask, double p, const bool *train)
{
    return td_native_dropout_backward(grad, mask, scale_of(p, train));
}
