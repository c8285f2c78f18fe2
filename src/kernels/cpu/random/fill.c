/* Continuous distributions and bernoulli: uniform_, normal_, log_normal_, cauchy_, exponential_, geometric_, bernoulli_, dropout.
 *
 * A fill holds the lock of its generator throughout and takes its stream in order on one thread, so results can't depend on how
 * many there are.
 *
 * Words are drawn in blocks (src/base/random.c) and made numbers by loops that vectorise.  Where PyTorch
 * computes an element in double precision whatever the dtype, a block of doubles is made and then converted.
 *
 * Note [The normal distribution in groups of 16].  Box-Muller on 16 uniform numbers: the first eight give radii, the
 * last eight angles; the cosines become the first eight results, the sines the last eight.  Where 16 doesn't divide
 * n, the last 16 elements, some of them done already, are made again from 16 new numbers.  In single precision
 * logarithm, sine and cosine are the polynomials of S. Moshier's Cephes library (logf.c, sinf.c), fused wherever the
 * compiler of PyTorch's AVX2 build fuses; their last bits are part of the stream. */
#include "calls_kernels_cpu_random_fill.h"
#include "ops/random/fill.h"
#include "kernels/cpu/random/levels.h"

#include <float.h>
#include <math.h>

#define F16_MAX  65504.0
#define BF16_MAX 3.3895313892515355e38

int td_random_no_kernel(const char *kernel, td_dtype dtype)
{
    return td_error(TD_E_NOT_IMPLEMENTED, "\"%s\" not implemented for '%s'", kernel, td_dtype_title(dtype));
}

/* Complex numbers are filled as pairs of real ones. */
static td_dtype as_real(td_dtype dtype, int64_t *n)
{
    if (!td_dtype_is_complex(dtype))
        return dtype;
    *n *= 2;
    return td_dtype_to_real(dtype);
}

/* ---- conversions */

TD_BODY void to_f16(td_f16 *out, const float *values, int64_t n, bool fused)
{
    (void)fused;
    #pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = td_f32_to_f16(values[i]);
}
TD_BODY void to_bf16(td_bf16 *out, const float *values, int64_t n, bool fused)
{
    (void)fused;
    #pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = td_f32_to_bf16(values[i]);
}
TD_LEVELS(to_f16, (td_f16 *out, const float *values, int64_t n), out, values, n)
TD_LEVELS(to_bf16, (td_bf16 *out, const float *values, int64_t n), out, values, n)

bool td_random_store_f32(td_dtype dtype, void *out, int64_t at, const float *values, int64_t n)
{
    switch (dtype) {
    case TD_F16:
        TD_LEVEL(to_f16, (td_f16 *)out + at, values, n);
        return true;
    case TD_BF16:
        TD_LEVEL(to_bf16, (td_bf16 *)out + at, values, n);
        return true;
    case TD_F32:
        memcpy((float *)out + at, values, (size_t)n * sizeof *values);
        return true;
    default:
        return false;
    }
}

/* What x86-64's conversion instructions give, for all inputs: the smallest integer where the value doesn't fit. */
static int64_t to_int64(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }
static int32_t to_int32(double x) { return x > -0x1p31 - 1 && x < 0x1p31 ? (int32_t)x : INT32_MIN; }

/* A loop for one dtype, which returns: no case below reaches the next one. */
#define STORE(type, expression)                     \
    do {                                            \
        type *to = (type *)out + at;                \
        _Pragma("omp simd")                         \
        for (int64_t i = 0; i < n; i++)             \
            to[i] = (type)(expression);             \
        return true;                                \
    } while (0)

bool td_random_store_f64(td_dtype dtype, void *out, int64_t at, const double *values, int64_t n)
{
    switch (dtype) {
    case TD_U8:   STORE(uint8_t, to_int32(values[i]));
    case TD_I8:   STORE(int8_t, to_int32(values[i]));
    case TD_I16:  STORE(int16_t, to_int32(values[i]));
    case TD_I32:  STORE(int32_t, to_int32(values[i]));
    case TD_I64:  STORE(int64_t, to_int64(values[i]));
    case TD_F16:  STORE(td_f16, td_f32_to_f16((float)values[i]));
    case TD_BF16: STORE(td_bf16, td_f32_to_bf16((float)values[i]));
    case TD_F32:  STORE(float, values[i]);
    case TD_F64:  STORE(double, values[i]);
    default:      return false;
    }
}

bool td_random_store_i64(td_dtype dtype, void *out, int64_t at, const int64_t *values, int64_t n)
{
    switch (dtype) {
    case TD_BOOL: STORE(uint8_t, values[i] != 0);
    case TD_U8:   STORE(uint8_t, values[i]);
    case TD_I8:   STORE(int8_t, values[i]);
    case TD_I16:  STORE(int16_t, values[i]);
    case TD_U16:  STORE(uint16_t, values[i]);
    case TD_I32:  STORE(int32_t, values[i]);
    case TD_U32:  STORE(uint32_t, values[i]);
    case TD_I64:  STORE(int64_t, values[i]);
    case TD_U64:  STORE(uint64_t, values[i]);
    case TD_F16:  STORE(td_f16, td_f32_to_f16((float)values[i]));
    case TD_BF16: STORE(td_bf16, td_f32_to_bf16((float)values[i]));
    case TD_F32:  STORE(float, values[i]);
    case TD_F64:  STORE(double, values[i]);
    default:      return false;
    }
}

/* ---- uniform */

/* The upper end is excluded, but rounding may reach it; PyTorch then gives the lower one. */
TD_BODY void uniform32(float *out, const uint32_t *words, int64_t n, float from, float to, bool fused)
{
    float width = to - from;
    if (!fused && from == 0) {      /* adding zero rounds nothing, so no need to imitate the instruction */
        #pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            float x = td_random_unit32(words[i]) * width;
            out[i] = x == to ? from : x;
        }
        return;
    }
    #pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float x = td_fma32(td_random_unit32(words[i]), width, from, fused);
        out[i] = x == to ? from : x;
    }
}
TD_LEVELS(uniform32, (float *out, const uint32_t *words, int64_t n, float from, float to), out, words, n, from, to)

/* A pair lies in memory with its higher word first.  Its 53 lower bits as a double, without an instruction for
 * 64-bit integers: both parts are put under a fixed exponent, which is then subtracted. */
TD_BODY uint64_t low53(uint64_t pair) { return (pair & 0x1fffff) << 32 | pair >> 32; }
TD_BODY double unit64(uint64_t pair)
{
    uint64_t high_bits = UINT64_C(0x4530000000000000) | (pair & 0x1fffff);
    uint64_t low_bits = UINT64_C(0x4330000000000000) | pair >> 32;
    double high, low;
    memcpy(&high, &high_bits, 8);
    memcpy(&low, &low_bits, 8);
    return ((high - (0x1p84 + 0x1p52)) + low) * 0x1p-53;
}
TD_BODY void units64(double *out, const uint64_t *pairs, int64_t n, bool fused)
{
    (void)fused;
    #pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = unit64(pairs[i]);
}
TD_LEVELS(units64, (double *out, const uint64_t *pairs, int64_t n), out, pairs, n)

/* n uniform doubles in [0, 1), two words each. */
static void draw_units64(td_generator *g, double *out, int64_t n)
{
    uint64_t pairs[TD_RANDOM_BLOCK / 2];
    for (int64_t i = 0; i < n; i += TD_RANDOM_BLOCK / 2) {
        int64_t m = n - i < TD_RANDOM_BLOCK / 2 ? n - i : TD_RANDOM_BLOCK / 2;
        td_random_words(g, (uint32_t *)pairs, 2 * m);
        TD_LEVEL(units64, out + i, pairs, m);
    }
}

/* PyTorch's refusals.  What gets beyond the first has a floating dtype, and an entry in `limits`. */
static int check_uniform(td_dtype dtype, double from, double to)
{
    static const struct { const char *name; double max; } limits[] = {
        {"c10::Half", F16_MAX}, {"c10::BFloat16", BF16_MAX}, {"float", FLT_MAX}, {"double", DBL_MAX}};
    if (!td_is_drawn(dtype))
        return td_random_no_kernel("check_uniform_bounds", dtype);
    double max = limits[dtype - TD_F16].max;
    if (!(from >= -max && from <= max))
        return td_error(TD_E_RUNTIME, "from is out of bounds for %s: uniform_ got from=%g", limits[dtype - TD_F16].name,
                        from);
    if (!(to >= -max && to <= max))
        return td_error(TD_E_RUNTIME, "to is out of bounds for %s: uniform_ got to=%g", limits[dtype - TD_F16].name,
                        to);
    if (!(from <= to))
        return td_error(TD_E_RUNTIME, "uniform_ expects to return a [from, to) range, but found from=%g > to=%g",
                        from, to);
    if (!(to - from <= max))
        return td_error(TD_E_RUNTIME, "uniform_ expects to-from <= std::numeric_limits<%s>::max(), but found to=%g and "
                        "from=%g which result in to-from to exceed the limit", td_dtype_title(dtype), to, from);
    return 0;
}

/* from + u (to - from) with one rounding.  A result that is rounded to `to`, which is excluded, becomes `from`; for half types once
 * more after they are rounded, by their bits. */
int td_fill_uniform(td_generator *g, td_dtype dtype, void *out, int64_t n, double from, double to)
{
    dtype = as_real(dtype, &n);
    if (check_uniform(dtype, from, to))
        return -1;
    g = td_random_lock(g);
    if (dtype == TD_F64) {
        double *x = out, width = to - from;
        draw_units64(g, x, n);
        if (from != 0 || width != 1)
            for (int64_t i = 0; i < n; i++) {
                double value = fma(x[i], width, from);
                x[i] = value == to ? from : value;
            }
    } else {
        uint32_t words[TD_RANDOM_BLOCK];
        float values[TD_RANDOM_BLOCK];
        for (int64_t i = 0; i < n; i += TD_RANDOM_BLOCK) {
            int64_t m = n - i < TD_RANDOM_BLOCK ? n - i : TD_RANDOM_BLOCK;
            td_random_words(g, words, m);
            if (dtype == TD_F32) {
                TD_LEVEL(uniform32, (float *)out + i, words, m, (float)from, (float)to);
                continue;
            }
            /* Drawn in float32, which excludes `to`, then rounded, which may reach it again. */
            TD_LEVEL(uniform32, values, words, m, (float)from, (float)to);
            td_random_store_f32(dtype, out, i, values, m);
        }
        if (dtype != TD_F32) {
            uint16_t *x = out, first, last;
            float ends[2] = {(float)from, (float)to};
            td_random_store_f32(dtype, &first, 0, &ends[0], 1);
            td_random_store_f32(dtype, &last, 0, &ends[1], 1);
            /* equal as numbers: zero has two signs */
            bool zero = !(last & 0x7fff);
            #pragma omp simd
            for (int64_t i = 0; i < n; i++)
                x[i] = x[i] == last || (zero && !(x[i] & 0x7fff)) ? first : x[i];
        }
    }
    td_random_unlock(g);
    return 0;
}

/* ---- normal */

/* ln x for x in (0, 1], normal. */
TD_BODY float cephes_log(float x, bool fused)
{
    uint32_t bits = td_f32_bits(x);
    float e = (float)((int32_t)(bits >> 23) - 127) + 1.0f;
    float m = td_bits_f32((bits & 0x007fffff) | 0x3f000000);
    bool low = m < 0.707106781186547524f;
    float t = (m - 1.0f) + (low ? m : 0.0f), z = t * t;
    e -= low ? 1.0f : 0.0f;
    float y = td_fma32(7.0376836292e-2f, t, -1.1514610310e-1f, fused);
    y = td_fma32(y, t, 1.1676998740e-1f, fused);
    y = td_fma32(y, t, -1.2420140846e-1f, fused);
    y = td_fma32(y, t, 1.4249322787e-1f, fused);
    y = td_fma32(y, t, -1.6668057665e-1f, fused);
    y = td_fma32(y, t, 2.0000714765e-1f, fused);
    y = td_fma32(y, t, -2.4999993993e-1f, fused);
    y = td_fma32(y, t, 3.3333331174e-1f, fused);
    y = td_fma32(y * t, z, e * -2.12194440e-4f, fused);
    y = td_fma32(-z, 0.5f, y, fused);
    return td_fma32(e, 0.693359375f, t + y, fused);
}

/* sin x and cos x for x in [0, 2 pi]. */
TD_BODY void cephes_sincos(float x, float *sine, float *cosine, bool fused)
{
    int32_t octant = ((int32_t)(x * 1.27323954473516f) + 1) & ~1;
    float y = (float)octant;
    x = td_fma32(y, -0.78515625f, x, fused);
    x = td_fma32(y, -2.4187564849853515625e-4f, x, fused);
    x = td_fma32(y, -3.77489497744594108e-8f, x, fused);
    float z = x * x;
    float c = td_fma32(2.443315711809948e-5f, z, -1.388731625493765e-3f, fused);
    c = td_fma32(c, z, 4.166664568298827e-2f, fused);
    c = td_fma32(c * z, z, -(z * 0.5f), fused) + 1.0f;
    float s = td_fma32(-1.9515295891e-4f, z, 8.3321608736e-3f, fused);
    s = td_fma32(s, z, -1.6666654611e-1f, fused);
    s = td_fma32(s * z, x, x, fused);
    bool straight = !(octant & 2);
    uint32_t sine_sign = (uint32_t)(octant & 4) << 29, cosine_sign = (uint32_t)(~(octant - 2) & 4) << 29;
    *sine = td_bits_f32(td_f32_bits(straight ? s : c) ^ sine_sign);
    *cosine = td_bits_f32(td_f32_bits(straight ? c : s) ^ cosine_sign);
}

/* See Note [The normal distribution in groups of 16]. */
TD_BODY void normal32(float *out, const uint32_t *words, int64_t groups, float mean, float std, bool fused)
{
    for (; groups > 0; groups--, out += 16, words += 16) {
        #pragma omp simd
        for (int j = 0; j < 8; j++) {
            float u1 = 1.0f - td_random_unit32(words[j]), u2 = td_random_unit32(words[j + 8]), sine, cosine;
            float radius = __builtin_sqrtf(-2.0f * cephes_log(u1, fused));
            cephes_sincos(6.283185307179586f * u2, &sine, &cosine, fused);
            out[j] = td_fma32(radius * cosine, std, mean, fused);
            out[j + 8] = td_fma32(radius * sine, std, mean, fused);
        }
    }
}
TD_LEVELS(normal32, (float *out, const uint32_t *words, int64_t groups, float mean, float std), out, words, groups,
          mean, std)

/* The same in double precision by the C library, in place: uniform numbers become normal ones. */
static void normal64(double *x, int64_t groups, double mean, double std)
{
    for (; groups > 0; groups--, x += 16)
        for (int j = 0; j < 8; j++) {
            double radius = sqrt(-2.0 * log(1.0 - x[j])), angle = 6.283185307179586 * x[j + 8];
            x[j] = fma(radius * cos(angle), std, mean);
            x[j + 8] = fma(radius * sin(angle), std, mean);
        }
}

/* At least 16 elements; see Note [The normal distribution in groups of 16]. */
static void fill_normal_groups(td_generator *g, td_dtype dtype, void *out, int64_t n, double mean, double std)
{
    if (dtype == TD_F64) {
        double *x = out;
        draw_units64(g, x, n);
        normal64(x, n / 16, mean, std);
        if (n % 16) {
            draw_units64(g, x + n - 16, 16);
            normal64(x + n - 16, 1, mean, std);
        }
        return;
    }
    uint32_t words[TD_RANDOM_BLOCK];
    float values[TD_RANDOM_BLOCK];
    int64_t whole = n - n % 16;
    for (int64_t i = 0; i < whole; i += TD_RANDOM_BLOCK) {
        int64_t m = whole - i < TD_RANDOM_BLOCK ? whole - i : TD_RANDOM_BLOCK;
        td_random_words(g, words, m);
        if (dtype == TD_F32) {
            TD_LEVEL(normal32, (float *)out + i, words, m / 16, (float)mean, (float)std);
            continue;
        }
        TD_LEVEL(normal32, values, words, m / 16, (float)mean, (float)std);
        td_random_store_f32(dtype, out, i, values, m);
    }
    if (n % 16) {
        if (dtype == TD_F32)      /* drawn, and then drawn again; the half types skip this */
            td_random_words(g, words, n % 16);
        td_random_words(g, words, 16);
        TD_LEVEL(normal32, values, words, 1, (float)mean, (float)std);
        td_random_store_f32(dtype, out, n - 16, values, 16);
    }
}

/* groups: by that note where there are 16; else in pairs, the second of which waits in the generator for the next call. */
static int fill_normal(td_generator *g, td_dtype dtype, void *out, int64_t n, double mean, double std, bool groups)
{
    if (!(std >= 0))
        return td_error(TD_E_RUNTIME, "normal expects std >= 0.0, but found std %g", std);
    if (n == 0)
        return 0;
    if (td_dtype_is_complex(dtype)) {
        dtype = as_real(dtype, &n);
        std /= sqrt(2);      /* half the variance for each part */
    }
    if (!td_is_drawn(dtype))
        return td_random_no_kernel("normal_kernel_cpu", dtype);
    g = td_random_lock(g);
    if (groups && n >= 16) {
        fill_normal_groups(g, dtype, out, n, mean, std);
    } else {
        for (int64_t i = 0; i < n; i++) {
            double x = td_random_normal(g, mean, std);
            td_random_store_f64(dtype, out, i, &x, 1);
        }
    }
    td_random_unlock(g);
    return 0;
}

int td_fill_normal(td_generator *g, td_dtype dtype, void *out, int64_t n, double mean, double std)
{
    return fill_normal(g, dtype, out, n, mean, std, true);
}
int td_fill_normal_elementwise(td_generator *g, td_dtype dtype, void *out, int64_t n, double mean, double std)
{
    return fill_normal(g, dtype, out, n, mean, std, false);
}

int td_fill_log_normal(td_generator *g, td_dtype dtype, void *out, int64_t n, double mean, double std)
{
    if (!(std > 0))
        return td_error(TD_E_RUNTIME, "log_normal_ expects std > 0.0, but found std=%g", std);
    if (n == 0)
        return 0;
    if (!td_is_drawn(dtype))
        return td_random_no_kernel("log_normal_cpu", dtype);
    g = td_random_lock(g);
    for (int64_t i = 0; i < n; i++) {
        double x = exp(td_random_normal(g, mean, std));
        td_random_store_f64(dtype, out, i, &x, 1);
    }
    td_random_unlock(g);
    return 0;
}

/* ---- from one uniform double each */

typedef void transform(double *x, int64_t n, double a, double b);

/* Blocks of 4 KB, made, transformed and converted while they are in the first cache. */
static void fill_transformed(td_generator *g, td_dtype dtype, void *out, int64_t n, transform *f, double a, double b)
{
    double x[TD_RANDOM_BLOCK / 2];
    g = td_random_lock(g);
    for (int64_t i = 0; i < n; i += TD_COUNT(x)) {
        int64_t m = n - i < TD_COUNT(x) ? n - i : TD_COUNT(x);
        draw_units64(g, x, m);
        f(x, m, a, b);
        td_random_store_f64(dtype, out, i, x, m);
    }
    td_random_unlock(g);
}

/* Inverses of distribution functions, at u in [0, 1): median + sigma tan(pi (u - 1/2)). */
static void cauchy(double *x, int64_t n, double median, double sigma)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = fma(sigma, tan(M_PI * (x[i] - 0.5)), median);
}
/* -log(1 - u) / lambda with scale = -1 / lambda; 1 - u is never 0. */
static void exponential(double *x, int64_t n, double scale, double unused)
{
    (void)unused;
    for (int64_t i = 0; i < n; i++)
        x[i] = scale * log1p(-x[i]);
}
/* Trials up to the first success: log(u) / log(1 - p), rounded up. */
static void geometric(double *x, int64_t n, double log_q, double unused)
{
    (void)unused;
    for (int64_t i = 0; i < n; i++)
        x[i] = ceil(log(x[i]) / log_q);
}

int td_fill_cauchy(td_generator *g, td_dtype dtype, void *out, int64_t n, double median, double sigma)
{
    if (!(sigma > 0))
        return td_error(TD_E_RUNTIME, "cauchy_ expects sigma > 0.0, but found sigma=%g", sigma);
    if (!td_is_drawn(dtype))
        return td_error(TD_E_RUNTIME, "Cauchy distribution is a continuous probability distribution. dtype must be a "
                        "floating point but you specified %s", td_random_type_name(dtype));
    fill_transformed(g, dtype, out, n, cauchy, median, sigma);
    return 0;
}

int td_fill_exponential(td_generator *g, td_dtype dtype, void *out, int64_t n, double lambda)
{
    if (!(lambda > 0))
        return td_error(TD_E_RUNTIME, "exponential_ expects lambda > 0.0, but found lambda=%g", lambda);
    if (n == 0)
        return 0;
    if (!td_is_drawn(dtype))
        return td_error(TD_E_RUNTIME, "Exponential distribution is a continuous probability distribution. dtype must "
                        "be a floating point but you specified %s", td_dtype_title(dtype));
    fill_transformed(g, dtype, out, n, exponential, -1.0 / lambda, 0);
    return 0;
}

/* The store of no elements writes nothing; it fails where the dtype is none of those that can be stored. */
int td_fill_geometric(td_generator *g, td_dtype dtype, void *out, int64_t n, double p)
{
    if (!(p > 0 && p < 1))
        return td_error(TD_E_RUNTIME, "geometric_ expects p to be in (0, 1), but got p=%g", p);
    if (n == 0)
        return 0;
    if (!td_random_store_f64(dtype, out, 0, &p, 0))
        return td_random_no_kernel("geometric_cpu", dtype);
    fill_transformed(g, dtype, out, n, geometric, log1p(-p), 0);
    return 0;
}

/* ---- bernoulli */

/* x * 2^-53 < p without leaving the integers: x < p * 2^53, whose right side is exact and may be rounded up. */
TD_BODY void below64(uint8_t *flags, const uint64_t *pairs, int64_t n, int64_t limit, bool fused)
{
    (void)fused;
    #pragma omp simd
    for (int64_t i = 0; i < n; i++)
        flags[i] = (int64_t)low53(pairs[i]) < limit;
}
TD_LEVELS(below64, (uint8_t *flags, const uint64_t *pairs, int64_t n, int64_t limit), flags, pairs, n, limit)

/* Flags as 0 and `one`, the bits of some number of the dtype. */
#define SPREAD(word)                                                                          \
    TD_BODY void spread_##word(word *out, const uint8_t *flags, int64_t n, word one, bool fused) \
    {                                                                                         \
        (void)fused;                                                                          \
        _Pragma("omp simd")                                                                   \
        for (int64_t i = 0; i < n; i++)                                                       \
            out[i] = (word)(-(word)flags[i] & one);                                           \
    }                                                                                         \
    TD_LEVELS(spread_##word, (word *out, const uint8_t *flags, int64_t n, word one), out, flags, n, one)
SPREAD(uint8_t)
SPREAD(uint16_t)
SPREAD(uint32_t)
SPREAD(uint64_t)

/* Flags as numbers of any dtype. */
static void spread(td_dtype dtype, void *out, int64_t at, const uint8_t *flags, int64_t n, uint64_t one)
{
    switch (td_dtype_size(dtype)) {
    case 1: TD_LEVEL(spread_uint8_t, (uint8_t *)out + at, flags, n, (uint8_t)one); break;
    case 2: TD_LEVEL(spread_uint16_t, (uint16_t *)out + at, flags, n, (uint16_t)one); break;
    case 4: TD_LEVEL(spread_uint32_t, (uint32_t *)out + at, flags, n, (uint32_t)one); break;
    default: TD_LEVEL(spread_uint64_t, (uint64_t *)out + at, flags, n, one); break;
    }
}

/* The dtypes of bernoulli: bool, signed integers and uint8, floating ones. */
static bool takes_bernoulli(td_dtype dtype)
{
    return dtype <= TD_I64 || td_is_drawn(dtype);
}

/* The bits of `value` as a number of `dtype`. */
static uint64_t bits_of(td_dtype dtype, double value)
{
    uint64_t bits = 0;
    int64_t whole = (int64_t)value;
    if (td_is_drawn(dtype))
        td_random_store_f64(dtype, &bits, 0, &value, 1);
    else
        td_random_store_i64(dtype, &bits, 0, &whole, 1);
    return bits;
}

/* `one` with probability p, else 0. */
static void fill_two_values(td_generator *g, td_dtype dtype, void *out, int64_t n, double p, double one)
{
    uint64_t pairs[TD_RANDOM_BLOCK / 2], bits = bits_of(dtype, one);
    uint8_t flags[TD_RANDOM_BLOCK / 2];
    int64_t limit = (int64_t)ceil(p * 0x1p53);
    g = td_random_lock(g);
    for (int64_t i = 0; i < n; i += TD_COUNT(flags)) {
        int64_t m = n - i < TD_COUNT(flags) ? n - i : TD_COUNT(flags);
        td_random_words(g, (uint32_t *)pairs, 2 * m);
        TD_LEVEL(below64, flags, pairs, m, limit);
        spread(dtype, out, i, flags, m, bits);
    }
    td_random_unlock(g);
}

int td_fill_bernoulli(td_generator *g, td_dtype dtype, void *out, int64_t n, double p)
{
    if (!(p >= 0 && p <= 1))
        return td_error(TD_E_RUNTIME, "bernoulli_ expects p to be in [0, 1], but got p=%g", p);
    if (n == 0)
        return 0;
    if (!takes_bernoulli(dtype))
        return td_random_no_kernel("bernoulli_scalar_cpu_", dtype);
    fill_two_values(g, dtype, out, n, p, 1);
    return 0;
}

/* 1 / (1 - p) or 0: the factors of dropout.  With p == 1 the first is infinite, but no element gets it. */
int td_fill_dropout(td_generator *g, td_dtype dtype, void *out, int64_t n, double p)
{
    if (!(p >= 0 && p <= 1))
        return td_error(TD_E_RUNTIME, "dropout probability has to be between 0 and 1, but got %g", p);
    if (!td_is_drawn(dtype))
        return td_random_no_kernel("dropout", dtype);
    double keep = 1 - p;
    /* In single precision for float32 and the half types. */
    fill_two_values(g, dtype, out, n, keep, dtype == TD_F64 ? 1 / keep : (double)(1.0f / (float)keep));
    return 0;
}

enum { EACH_BLOCK = TD_RANDOM_BLOCK / 2 };

/* Probabilities of a narrower dtype than float64, from the ith on. */
static const float *floats_of(td_dtype dtype, const void *p, int64_t i, int64_t n, float *room)
{
    if (dtype == TD_F32)
        return (const float *)p + i;
    for (int64_t j = 0; j < n; j++)
        room[j] = dtype == TD_F16 ? td_f16_to_f32(((const td_f16 *)p)[i + j]) : td_bf16_to_f32(((const td_bf16 *)p)[i + j]);
    return room;
}

/* The first of n that isn't a probability, or n. */
#define OUTSIDE(name, T)                                                \
    static int64_t name(const T *p, int64_t n)                          \
    {                                                                   \
        int out = 0;                                                    \
        _Pragma("omp simd reduction(|:out)")                            \
        for (int64_t j = 0; j < n; j++)                                 \
            out |= !((p[j] >= 0) & (p[j] <= 1));                        \
        for (int64_t i = 0; i < n && out; i++)                          \
            if (!(p[i] >= 0 && p[i] <= 1))                              \
                return i;                                               \
        return n;                                                       \
    }
OUTSIDE(outside_f32, float)
OUTSIDE(outside_f64, double)

static int check_probabilities(td_dtype dtype, const void *p, int64_t n)
{
    float room[EACH_BLOCK];
    for (int64_t i = 0; i < n; i += EACH_BLOCK) {
        const int64_t m = n - i < EACH_BLOCK ? n - i : EACH_BLOCK;
        const double *wide = dtype == TD_F64 ? (const double *)p + i : NULL;
        const float *narrow = wide ? NULL : floats_of(dtype, p, i, m, room);
        const int64_t at = wide ? outside_f64(wide, m) : outside_f32(narrow, m);
        if (at < m)
            return td_error(TD_E_RUNTIME, "Expected p_in >= 0 && p_in <= 1 to be true, but got false: bernoulli_ got "
                            "p=%g at element %lld", wide ? wide[at] : (double)narrow[at], (long long)(i + at));
    }
    return 0;
}

TD_BODY void below_each(const uint32_t *words, const float *p, int64_t n, uint8_t *flags, bool fused)
{
    (void)fused;
#pragma omp simd
    for (int64_t j = 0; j < n; j++)
        flags[j] = td_random_unit32(words[j]) < p[j];
}
TD_LEVELS(below_each, (const uint32_t *words, const float *p, int64_t n, uint8_t *flags), words, p, n, flags)

/* All probabilities are checked before a word is drawn.  A float64 one takes two words, others one. */
int td_fill_bernoulli_each(td_generator *g, td_dtype dtype, void *out, int64_t n, td_dtype p_dtype, const void *p)
{
    if (n == 0)
        return 0;
    if (!takes_bernoulli(dtype))
        return td_random_no_kernel("bernoulli_tensor_cpu_self_", dtype);
    if (!td_is_drawn(p_dtype))
        return td_random_no_kernel("bernoulli_tensor_cpu_p_", p_dtype);
    const double *p64 = p;
    if (check_probabilities(p_dtype, p, n))
        return -1;
    float room[EACH_BLOCK];
    uint64_t pairs[EACH_BLOCK], one = bits_of(dtype, 1);
    uint8_t flags[EACH_BLOCK];
    g = td_random_lock(g);
    for (int64_t i = 0; i < n; i += TD_COUNT(flags)) {
        int64_t m = n - i < TD_COUNT(flags) ? n - i : TD_COUNT(flags);
        uint32_t *words = (uint32_t *)pairs;
        td_random_words(g, words, p_dtype == TD_F64 ? 2 * m : m);
        if (p_dtype == TD_F64)
            for (int64_t j = 0; j < m; j++)
                flags[j] = unit64(pairs[j]) < p64[i + j];
        else
            TD_LEVEL(below_each, words, floats_of(p_dtype, p, i, m, room), m, flags);
        spread(dtype, out, i, flags, m, one);
    }
    td_random_unlock(g);
    return 0;
}
