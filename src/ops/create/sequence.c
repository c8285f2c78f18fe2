/* Tensors made of a rule: unit matrices (eye), evenly spaced numbers (linspace, logspace, range), polar, window functions.
 *
 * Numbers are computed in double from their position, so nothing accumulates, and rounded once.  The second half of an
 * even spacing counts back from the end, so both ends are exact. */

#include "calls_ops_create_sequence.h"
#include <math.h>
#include <tede/kernel.h>
#include "dispatch/outputs.h"
#include "dispatch/spec.h"
#include "ops/compose.h"
#include "ops/create/create.h"

/* What a factory function makes if nothing is named. */
static td_dtype or_default(td_dtype dtype) { return dtype == TD_DTYPE_NONE ? td_default_dtype() : dtype; }
static td_device or_cpu(td_device device) { return device.type < 0 ? (td_device){TD_CPU, -1} : device; }

td_tensor *td_op_eye_m(int64_t n, int64_t m, td_dtype dtype, td_device device)
{
    if (n < 0 || m < 0)
        return td_fail(TD_E_RUNTIME, "%c must be greater or equal to 0, got %lld", n < 0 ? 'n' : 'm', (long long)(n < 0 ? n : m));
    TD_AUTO td_tensor *out = td_zeros(2, (int64_t[]){n, m}, or_default(dtype), or_cpu(device));
    TD_AUTO td_tensor *diagonal = td_diagonal(out, 0, 0, 1);
    return diagonal && !td_fill_scalar_(diagonal, td_int(1)) ? td_ref(out) : NULL;
}
td_tensor *td_op_eye(int64_t n, td_dtype dtype, td_device device) { return td_eye_m(n, n, dtype, device); }

/* ---- even spacing */

/* linspace or the exponents of logspace.  `kind` is the result's dtype, whose arithmetic linspace follows; the imaginary
 * parts have separate spacings. */
typedef struct spacing { double start, end, imag_start, imag_end; int64_t steps; bool exponents, whole; td_dtype kind; } spacing;

static float half(td_dtype kind, float x) { return kind == TD_F16 ? td_f16_to_f32(td_f32_to_f16(x)) : td_bf16_to_f32(td_f32_to_bf16(x)); }

/* The dtype's own arithmetic, rounded where PyTorch rounds: programs make grids so and divide by the differences, so a last bit
 * here is more than one there. `i` steps from `from`. */
static double stepped(const spacing *s, double from, double step, double i)
{
    if (s->exponents)
        return from + step * i;
    switch (s->kind) {
    case TD_F32: return fmaf((float)step, (float)i, (float)from);
    case TD_F16: case TD_BF16: return half(s->kind, (float)from + half(s->kind, (float)step * half(s->kind, (float)i)));
    default: return fma(step, i, from);
    }
}
static void round_ends(const spacing *s, double *start, double *end)
{
    if (s->kind == TD_F32)
        *start = (float)*start, *end = (float)*end;
    else if (!s->exponents && (s->kind == TD_F16 || s->kind == TD_BF16))
        *start = half(s->kind, (float)*start), *end = half(s->kind, (float)*end);
}
/* Between rounded ends: PyTorch's step is (end - start) / (steps - 1) in the dtype. */
static double step_of(const spacing *s, double start, double end)
{
    const double parts = (double)(s->steps - 1);
    if (!s->exponents && s->kind == TD_F32)
        return ((float)end - (float)start) / (float)parts;
    if (!s->exponents && (s->kind == TD_F16 || s->kind == TD_BF16))
        return half(s->kind, half(s->kind, (float)(end - start)) / half(s->kind, (float)parts));
    return (end - start) / parts;
}
/* Element i.  PyTorch's kernel counts from the nearer end, as here: from `start` in the first half, backwards from `end` in the second. */
static double spaced(const spacing *s, double start, double end, int64_t i)
{
    const double parts = (double)(s->steps - 1);
    round_ends(s, &start, &end);
    const double step = step_of(s, start, end);
    return i < s->steps / 2 || s->steps == 1 ? stepped(s, start, s->steps == 1 ? 0 : step, (double)i)
                                             : stepped(s, end, -step, parts - (double)i);
}

/* On a device: each part by itself. */
static td_tensor *pairs_there(td_tensor *out, td_scalar start, td_scalar end, const double *base)
{
    const td_dtype real = td_dtype_to_real((td_dtype)out->dtype);
    TD_AUTO td_tensor *re = td_linspace(td_float(td_scalar_double(start)), td_float(td_scalar_double(end)), out->numel, real, out->device);
    TD_AUTO td_tensor *im = td_linspace(td_float(start.kind == TD_SCALAR_COMPLEX ? start.imag : 0), td_float(end.kind == TD_SCALAR_COMPLEX ? end.imag : 0),
                                        out->numel, real, out->device);
    TD_AUTO td_tensor *values = re && im ? td_complex_op(re, im) : NULL;
    TD_AUTO td_tensor *powers = !values ? NULL : base ? td_pow_scalar(td_complex(*base, 0), values) : td_ref(values);
    return powers && !td_copy_elements(out, powers) ? td_ref(out) : NULL;
}

/* All dtypes are computed as doubles (complex ones as pairs of them) and converted once at the end: no float32 or half that
 * stepped() has rounded changes by that.  `base` is NULL for linspace.  A complex power's base is complex, too, so that a negative one
 * has a logarithm. */
static td_tensor *make_spaced(const char *op, td_scalar start, td_scalar end, int64_t steps, const double *base, td_dtype dtype,
                              td_device device)
{
    bool complex = start.kind == TD_SCALAR_COMPLEX || end.kind == TD_SCALAR_COMPLEX;
    td_dtype kind = dtype != TD_DTYPE_NONE ? dtype : complex ? td_dtype_to_complex(td_default_dtype()) : td_default_dtype();
    if (steps < 0)
        return td_fail(TD_E_RUNTIME, "number of steps must be non-negative");
    if (kind == TD_BOOL)
        return td_fail(TD_E_NOT_IMPLEMENTED, "\"%.8s_cpu\" not implemented for 'Bool'", op + sizeof "torch." - 1);
    if (complex && !td_dtype_is_complex(kind))
        return td_fail(TD_E_RUNTIME, "%s: inferred dtype ComplexFloat can't be safely cast to passed dtype %s", op, td_dtype_title(kind));
    if (!base && steps > 0 && (td_scalar_check(start, kind) || (steps > 1 && td_scalar_check(end, kind))))
        return NULL;
    TD_AUTO td_tensor *out = td_tensor_new(1, &steps, kind, or_cpu(device));
    if (!out || out->device.type == TD_META)
        return td_ref(out);
    bool parts = td_dtype_is_complex(kind);
    const bool there = out->device.type != TD_CPU;
    if (there && parts)
        return pairs_there(out, start, end, base);
    TD_AUTO td_tensor *values = there ? td_ref(TD_NONE) : td_tensor_new(1, &steps, parts ? TD_C128 : TD_F64, out->device);
    if (!values)
        return NULL;
    spacing s = {td_scalar_double(start), td_scalar_double(end), start.kind == TD_SCALAR_COMPLEX ? start.imag : 0,
                 end.kind == TD_SCALAR_COMPLEX ? end.imag : 0, steps, base != NULL, td_dtype_is_integral(kind), kind};
    /* Of integer dtypes the spacing is that of their own ends: */
    if (s.whole)    /* ends are truncated first */
        s.start = (double)td_scalar_int(start), s.end = (double)td_scalar_int(end);
    if (kind == TD_U8)      /* and wrap around */
        s.start = (uint8_t)td_scalar_int(start), s.end = (uint8_t)td_scalar_int(end);
    if (there) {
        round_ends(&s, &s.start, &s.end);
        TD_AUTO td_tensor *x = base ? td_tensor_new(1, &steps, TD_F64, out->device) : td_ref(out);
        if (!x || td_linspace_on_device(x, s.start, s.end, step_of(&s, s.start, s.end), base))
            return NULL;
        TD_AUTO td_tensor *powers = base ? td_pow_scalar(td_float(*base), x) : td_ref(x);
        return !base || (powers && !td_copy_elements(out, powers)) ? td_ref(out) : NULL;
    }
    double *to = (double *)values->data;
    for (int64_t i = 0; i < steps; i++) {
        double real = spaced(&s, s.start, s.end, i);
        if (!parts) {
            to[i] = base ? pow(*base, real) : real;
            continue;
        }
        to[2 * i] = real;
        to[2 * i + 1] = spaced(&s, s.imag_start, s.imag_end, i);
    }
    if (base && parts) {
        TD_AUTO td_tensor *powers = td_pow_scalar(td_complex(*base, 0), values);
        return powers && !td_copy_elements(out, powers) ? td_ref(out) : NULL;
    }
    return td_copy_elements(out, values) ? NULL : td_ref(out);
}
td_tensor *td_op_linspace(td_scalar start, td_scalar end, int64_t steps, td_dtype dtype, td_device device)
{
    return make_spaced("torch.linspace()", start, end, steps, NULL, dtype, device);
}
td_tensor *td_op_logspace(td_scalar start, td_scalar end, int64_t steps, double base, td_dtype dtype, td_device device)
{
    return make_spaced("torch.logspace()", start, end, steps, &base, dtype, device);
}

/* The number in a tensor without dimensions; without a value (0) where the result has none either, on meta. */
static int number_in(const char *op, const char *which, td_tensor *x, td_device result, td_scalar *value)
{
    if (x->ndim)
        return td_error(TD_E_RUNTIME, "%s only supports 0-dimensional start and end tensors, but got %s with %d dimension(s).", op, which, x->ndim);
    *value = td_float(0);
    return x->device.type == TD_META && result.type == TD_META ? 0 : td_tensor_item(x, value);
}
td_tensor *td_op_linspace_tensor_tensor(td_tensor *start, td_tensor *end, int64_t steps, td_dtype dtype, td_device device)
{
    td_scalar a, b;
    if (number_in("linspace", "start", start, device, &a) || number_in("linspace", "end", end, device, &b))
        return NULL;
    return td_linspace(a, b, steps, dtype, device);
}
td_tensor *td_op_linspace_tensor_scalar(td_tensor *start, td_scalar end, int64_t steps, td_dtype dtype, td_device device)
{
    td_scalar a;
    return number_in("linspace", "start", start, device, &a) ? NULL : td_linspace(a, end, steps, dtype, device);
}
td_tensor *td_op_linspace_scalar_tensor(td_scalar start, td_tensor *end, int64_t steps, td_dtype dtype, td_device device)
{
    td_scalar b;
    return number_in("linspace", "end", end, device, &b) ? NULL : td_linspace(start, b, steps, dtype, device);
}
td_tensor *td_op_logspace_tensor_tensor(td_tensor *start, td_tensor *end, int64_t steps, double base, td_dtype dtype, td_device device)
{
    td_scalar a, b;
    if (number_in("logspace", "start", start, device, &a) || number_in("logspace", "end", end, device, &b))
        return NULL;
    return td_logspace(a, b, steps, base, dtype, device);
}
td_tensor *td_op_logspace_tensor_scalar(td_tensor *start, td_scalar end, int64_t steps, double base, td_dtype dtype, td_device device)
{
    td_scalar a;
    return number_in("logspace", "start", start, device, &a) ? NULL : td_logspace(a, end, steps, base, dtype, device);
}
td_tensor *td_op_logspace_scalar_tensor(td_scalar start, td_tensor *end, int64_t steps, double base, td_dtype dtype, td_device device)
{
    td_scalar b;
    return number_in("logspace", "end", end, device, &b) ? NULL : td_logspace(start, b, steps, base, dtype, device);
}

/* torch.range includes `end`; it is arange to half a step beyond the last number (a whole step for integers), which no rounding error
 * of the division reaches. */
td_tensor *td_op_range_step(td_scalar start, td_scalar end, td_scalar step, td_dtype dtype, td_device device)
{
    double first = td_scalar_double(start), last = td_scalar_double(end), by = td_scalar_double(step);
    td_dtype kind = or_default(dtype);
    if (start.kind == TD_SCALAR_COMPLEX || end.kind == TD_SCALAR_COMPLEX || step.kind == TD_SCALAR_COMPLEX)
        return td_fail(TD_E_RUNTIME, "value cannot be converted to type double without overflow");
    if (by == 0)
        return td_fail(TD_E_RUNTIME, "step must be nonzero");
    if (!isfinite(first) || !isfinite(last))
        return td_fail(TD_E_RUNTIME, "unsupported range: %g -> %g", first, last);
    if (by > 0 ? first > last : first < last)
        return td_fail(TD_E_RUNTIME, "upper bound and lower bound inconsistent with step sign");
    if (td_warn("torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with Python's range "
                "builtin. Instead, use torch.arange, which produces values in [start, end)."))
        return NULL;
    if (td_dtype_is_integral(kind)) {       /* they become integers first */
        first = trunc(first), last = trunc(last), by = trunc(by);
        if (by == 0)
            return td_fail(TD_E_RUNTIME, "step must be nonzero");
        start = td_float(first), step = td_float(by);
    }
    double count = floor((last - first) / by) + 1;
    return td_arange_start_step(start, td_float(first + by * (td_dtype_is_integral(kind) ? count : count - 0.5)), step,
                                kind, device);
}
td_tensor *td_op_range(td_scalar start, td_scalar end, td_dtype dtype, td_device device)
{
    return td_range_step(start, end, td_int(1), dtype, device);
}

td_tensor *td_op_scalar_tensor(td_scalar s, td_dtype dtype, td_device device)
{
    return td_full(0, NULL, s, or_default(dtype), device);
}

/* abs (cos(angle) + i sin(angle)). */
td_tensor *td_op_polar(td_tensor *abs, td_tensor *angle)
{
    if (!td_is_floating(abs) || !td_is_floating(angle))
        return td_fail(TD_E_RUNTIME, "Expected both inputs to be Half, Float or Double tensors but got %s and %s",
                       td_dtype_title((td_dtype)abs->dtype), td_dtype_title((td_dtype)angle->dtype));
    if (abs->dtype != angle->dtype)
        return td_fail(TD_E_RUNTIME, "Expected object of scalar type %s but got scalar type %s for second argument",
                       td_dtype_title((td_dtype)abs->dtype), td_dtype_title((td_dtype)angle->dtype));
    TD_AUTO td_tensor *c = td_cos(angle);
    TD_AUTO td_tensor *s = td_sin(angle);
    TD_AUTO td_tensor *real = td_mul(abs, c);
    TD_AUTO td_tensor *imag = td_mul(abs, s);
    return td_complex_op(real, imag);
}

/* ---- windows: a function of the position in [0, 1] of the period */

typedef double window(double position, const double *parameters);
/* I0(x) = sum over k of (x^2 / 4)^k / k!^2.  All terms are positive, so nothing cancels. */
static double bessel_i0(double x)
{
    double sum = 1, term = 1, quarter = x * x / 4;
    for (int k = 1; k < 500 && term > 1e-18 * sum; k++)
        sum += term *= quarter / ((double)k * k);
    return sum;
}
static double cosine(double t, const double *p) { return p[0] - p[1] * cos(2 * M_PI * t); }
static double blackman(double t, const double *p) { (void)p; return 0.08 * cos(4 * M_PI * t) - 0.5 * cos(2 * M_PI * t) + 0.42; }
static double bartlett(double t, const double *p) { (void)p; return t <= 0.5 ? 2 * t : 2 - 2 * t; }
/* Kaiser 1974: I0(beta sqrt(1 - x^2)) / I0(beta), for x from -1 to 1; rounding may put 1 - x^2 below 0 at the ends. */
static double kaiser(double t, const double *p)
{
    double x = 2 * t - 1, inside = 1 - x * x;
    return bessel_i0(p[0] * sqrt(inside > 0 ? inside : 0)) / bessel_i0(p[0]);
}

/* `f` at n positions.  A periodic window has a period of n, as the discrete Fourier transform wants it; a symmetric one ends where it
 * began.  One of a single element is 1, where position and period are both 0. */
static td_tensor *make_window(const char *op, int64_t n, bool periodic, window *f, const double *parameters, td_dtype dtype, td_device device)
{
    td_dtype kind = or_default(dtype);
    if (!td_dtype_is_floating(kind) && !(td_dtype_is_complex(kind) && n >= 0 && n <= 1))
        return td_fail(TD_E_RUNTIME, "%s expects floating point dtypes, got: %s", op, td_dtype_name(kind));
    if (n < 0)
        return td_fail(TD_E_RUNTIME, "%s requires non-negative window_length, got window_length=%lld", op, (long long)n);
    TD_AUTO td_tensor *out = td_tensor_new(1, &n, kind, or_cpu(device));
    if (!out || out->device.type == TD_META)
        return td_ref(out);
    TD_AUTO td_tensor *values = td_tensor_new(1, &n, TD_F64, out->device);
    if (!values)
        return NULL;
    double *to = (double *)values->data, period = (double)(periodic ? n : n - 1);
    for (int64_t i = 0; i < n; i++)
        to[i] = n == 1 ? 1 : f((double)i / period, parameters);
    return td_copy_elements(out, values) ? NULL : td_ref(out);
}
/* Both overloads of a window; the numbers are those of `f` by default.  Without `periodic` PyTorch's windows are periodic. */
#define WINDOW(name, f, ...) \
    td_tensor *td_op_##name##_window_periodic(int64_t n, bool periodic, td_dtype dtype, td_device device) \
    { \
        return make_window(#name "_window", n, periodic, f, (const double[]){__VA_ARGS__}, dtype, device); \
    } \
    td_tensor *td_op_##name##_window(int64_t n, td_dtype dtype, td_device device) \
    { \
        return td_op_##name##_window_periodic(n, true, dtype, device); \
    }
WINDOW(hann, cosine, 0.5, 0.5)
WINDOW(hamming, cosine, 0.54, 0.46)
WINDOW(blackman, blackman, 0)
WINDOW(bartlett, bartlett, 0)
WINDOW(kaiser, kaiser, 12)
td_tensor *td_op_hamming_window_periodic_alpha(int64_t n, bool periodic, double alpha, td_dtype dtype, td_device device)
{
    return make_window("hamming_window", n, periodic, cosine, (const double[]){alpha, 0.46}, dtype, device);
}
td_tensor *td_op_hamming_window_periodic_alpha_beta(int64_t n, bool periodic, double alpha, double beta, td_dtype dtype, td_device device)
{
    return make_window("hamming_window", n, periodic, cosine, (const double[]){alpha, beta}, dtype, device);
}
td_tensor *td_op_kaiser_window_beta(int64_t n, bool periodic, double beta, td_dtype dtype, td_device device)
{
    return make_window("kaiser_window", n, periodic, kaiser, (const double[]){beta}, dtype, device);
}
