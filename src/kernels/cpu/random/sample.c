/* Samples that take a parameter for each element: poisson, gamma, binomial, dirichlet, multinomial.
 *
 * Rejection methods: how many words an element takes depends on the words.  To keep PyTorch's stream every accept
 * must be decided as there, so the precision of each intermediate matters: it computes partly in the tensor's dtype,
 * partly in double.  Here all is computed in double and `in_dtype` rounds what PyTorch rounds (the result of one
 * operation on float32 or narrower values, rounded to double first, is the same number). */
#include "calls_kernels_cpu_random_sample.h"
#include "kernels/cpu/random/levels.h"
#include "kernels/cpu/random/select.h"
#include "ops/random/fill.h"

#include <float.h>
#include <math.h>

static double load(td_dtype dtype, const void *p, int64_t i)
{
    switch (dtype) {
    case TD_F16:  return td_f16_to_f32(((const td_f16 *)p)[i]);
    case TD_BF16: return td_bf16_to_f32(((const td_bf16 *)p)[i]);
    case TD_F32:  return ((const float *)p)[i];
    default:      return ((const double *)p)[i];
    }
}
static void store(td_dtype dtype, void *out, int64_t i, double x) { td_random_store_f64(dtype, out, i, &x, 1); }

/* x rounded as the dtype rounds it. */
static double in_dtype(td_dtype dtype, double x)
{
    switch (dtype) {
    case TD_F16:  return td_f16_to_f32(td_f32_to_f16((float)x));
    case TD_BF16: return td_bf16_to_f32(td_f32_to_bf16((float)x));
    case TD_F32:  return (float)x;
    default:      return x;
    }
}
static double uniform(td_generator *g) { return td_random_unit64(td_random64(g)); }

/* ---- poisson */

/* Knuth's products for small rates, whose cost grows with the rate; rejection, whose cost doesn't, from 10 on. */
static int64_t poisson(td_generator *g, double rate)
{
    if (rate == 0)
        return 0;
    if (rate < 10) {      /* multiply uniform numbers until the product falls below exp(-rate) */
        double floor_ = exp(-rate), product = 1;
        for (int64_t k = 0;; k++)
            if ((product *= uniform(g)) <= floor_)
                return k;
    }
    /* Hoermann's transformed rejection, PTRS (1993) */
    double root = sqrt(rate), log_rate = log(rate);
    double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
    double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_accept = 0.9277 - 3.6224 / (b - 2);
    for (;;) {
        double u = uniform(g) - 0.5, v = uniform(g), us = 0.5 - fabs(u);
        double floored = floor((2 * a / us + b) * u + rate + 0.43);
        int64_t k = floored >= -0x1p63 && floored < 0x1p63 ? (int64_t)floored : INT64_MIN;
        if (us >= 0.07 && v <= v_accept)
            return k;
        if (k < 0 || (us < 0.013 && v > us))
            continue;
        double bound = -rate + (double)k * log_rate - lgamma((double)k + 1);
        if (log(v) + log(inverse_alpha) - log(a / (us * us) + b) <= bound)
            return k;
    }
}

/* All rates are checked before the first number is drawn. */
int td_sample_poisson(td_generator *g, td_dtype dtype, void *out, int64_t n, const void *rate)
{
    if (!td_is_drawn(dtype))
        return td_random_no_kernel("poisson_cpu", dtype);
    for (int64_t i = 0; i < n; i++)
        if (!(load(dtype, rate, i) >= 0))
            return td_error(TD_E_RUNTIME, "invalid Poisson rate, expected rate to be non-negative (got %g at element "
                            "%lld)", load(dtype, rate, i), (long long)i);
    g = td_random_lock(g);
    for (int64_t i = 0; i < n; i++) {
        int64_t k = poisson(g, load(dtype, rate, i));
        td_random_store_i64(dtype, out, i, &k, 1);
    }
    td_random_unlock(g);
    return 0;
}

/* ---- slopes of rrelu */

/* A uniform slope for what isn't positive, 1 for the rest, which draws nothing. */
int td_sample_rrelu(td_generator *g, td_dtype dtype, void *out, int64_t n, const void *x, double lower, double upper)
{
    if (dtype != TD_F32 && dtype != TD_F64 && dtype != TD_BF16)
        return td_random_no_kernel("rrelu_with_noise_out_cpu", dtype);
    if (dtype != TD_F64)        /* the bounds are of the dtype computed in */
        lower = (float)lower, upper = (float)upper;
    g = td_random_lock(g);
    for (int64_t i = 0; i < n; i++)
        store(dtype, out, i, load(dtype, x, i) <= 0 ? uniform(g) * (upper - lower) + lower : 1);
    td_random_unlock(g);
    return 0;
}

/* ---- gamma: Marsaglia and Tsang (2000) */

/* d (1 + c x)^3 with a normal x, accepted by a cheap bound that mostly decides (the squeeze) or else by logarithms. */
static double gamma_sample(td_generator *g, td_dtype dtype, double alpha)
{
    double scale = 1;
    if (alpha < 1) {      /* a sample for alpha + 1, times a power of a uniform number */
        if (alpha == 0)
            return 0;
        scale = pow(1 - uniform(g), in_dtype(dtype, 1 / alpha));
        alpha = in_dtype(dtype, alpha + 1);
    }
    double d = dtype == TD_F64 ? alpha - (1.0f / 3.0f) : (double)((float)alpha - 1.0f / 3.0f);
    double c = 1 / sqrt(9 * d);
    for (;;) {
        double x, y;
        do {
            x = td_random_normal(g, 0, 1);
            y = 1 + c * x;
        } while (y <= 0);
        double v = y * y * y, u = 1 - uniform(g), xx = x * x;
        if (u < 1 - 0.0331f * xx * xx || log(u) < 0.5 * xx + d * (1 - v + log(v)))
            return in_dtype(dtype, scale * d * v);
    }
}
/* Samples that underflow become the smallest normal number: a gamma sample is above 0. */
static double smallest(td_dtype dtype) { return dtype == TD_F64 ? DBL_MIN : (double)FLT_MIN; }

/* Elements draw one after the other: how much one takes decides where the next begins. */
int td_sample_gamma(td_generator *g, td_dtype dtype, void *out, int64_t n, const void *alpha)
{
    if (dtype != TD_F32 && dtype != TD_F64)
        return td_random_no_kernel("gamma_cpu", dtype);
    g = td_random_lock(g);
    for (int64_t i = 0; i < n; i++)
        store(dtype, out, i, fmax(smallest(dtype), gamma_sample(g, dtype, load(dtype, alpha, i))));
    td_random_unlock(g);
    return 0;
}

/* The order in which PyTorch's AVX2 build adds a row: four vectors of four side by side, in blocks so that errors
 * stay small, what is left over by single vectors, then the last lanes one by one. */
static double row_sum(const double *x, int64_t n)
{
    enum { LANES = 4, ROWS = 4, LEVELS = 4 };
    int64_t lanes = n < LANES ? 1 : LANES, vectors = n / lanes, steps = vectors / ROWS, i = 0;
    int64_t log = steps > 1 ? 64 - __builtin_clzll((uint64_t)steps - 1) : 0;
    int64_t power = log / LEVELS > 4 ? log / LEVELS : 4, step = INT64_C(1) << power;
    double sums[LEVELS][ROWS * LANES] = {{0}}, total = 0;
    int64_t width = ROWS * lanes;
    while (i < steps) {
        int64_t end = i + step <= steps ? i + step : steps;
        bool whole = i + step <= steps;
        for (; i < end; i++)
            for (int64_t j = 0; j < width; j++)
                sums[0][j] += x[i * width + j];
        for (int level = 1; whole && level < LEVELS; level++) {
            for (int64_t j = 0; j < width; j++)
                sums[level][j] += sums[level - 1][j], sums[level - 1][j] = 0;
            if (i & (step - 1) << (level * power))
                break;
        }
    }
    for (int level = 1; level < LEVELS; level++)
        for (int64_t j = 0; j < width; j++)
            sums[0][j] += sums[level][j];
    for (i = steps * ROWS; i < vectors; i++)
        for (int64_t j = 0; j < lanes; j++)
            sums[0][j] += x[i * lanes + j];
    for (int64_t row = 1; row < ROWS; row++)
        for (int64_t j = 0; j < lanes; j++)
            sums[0][j] += sums[0][row * lanes + j];
    for (i = vectors * lanes; i < n; i++)
        total += x[i];
    for (int64_t j = 0; j < lanes; j++)
        total += sums[0][j];
    return total;
}

/* Gamma samples over their sum.  They are kept inside (0, 1), whose ends rounding could reach. */
int td_sample_dirichlet(td_generator *g, td_dtype dtype, void *out, int64_t rows, int64_t k, const void *alpha)
{
    if (dtype != TD_F32 && dtype != TD_F64)
        return td_random_no_kernel("dirichlet", dtype);
    size_t size = (size_t)k * sizeof(double);
    double *row = td_mem_alloc(size), last = dtype == TD_F64 ? 1 - 0x1p-53 : 1 - 0x1p-24;
    if (!row)
        return -1;
    g = td_random_lock(g);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < k; i++)
            row[i] = fmax(DBL_MIN, gamma_sample(g, TD_F64, load(dtype, alpha, r * k + i)));
        double sum = row_sum(row, k);
        for (int64_t i = 0; i < k; i++)
            store(dtype, out, r * k + i, fmin(last, fmax(smallest(dtype), in_dtype(dtype, row[i] / sum))));
    }
    td_random_unlock(g);
    td_mem_free(row, size);
    return 0;
}

/* ---- binomial */

/* The remainder of Stirling's series for log k!. */
static double stirling_rest(double k)
{
    static const double small[] = {0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
                                   0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
                                   0.00925546218271273, 0.00833056343336287};
    if (k < TD_COUNT(small))
        return small[(int)k];
    double square = (k + 1) * (k + 1);
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1);
}

#define IN(x) in_dtype(dtype, x)

/* Count geometric gaps until they exceed `count`: for small means. */
static double binomial_by_gaps(td_generator *g, td_dtype dtype, double count, double p)
{
    double log_q = dtype == TD_F64 ? log1p(-p) : IN(log1pf((float)-p)), sum = 0, successes = 0;
    for (;;) {
        sum += ceil(log(uniform(g)) / log_q);
        if (!(sum <= count))
            return successes;
        successes = IN(successes + 1);
    }
}

/* Hoermann's transformed rejection, BTRS (1993): for means of 10 and more. */
static double binomial_by_rejection(td_generator *g, td_dtype dtype, double count, double p)
{
    double q = IN(1 - p), mean = IN(count * p);
    double deviation = IN(sqrt(IN(mean * q)));
    double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
    double c = mean + 0.5, v_accept = 0.92 - 4.2 / b, odds = IN(p / q);
    double alpha = (2.83 + 5.1 / b) * deviation, mode = IN(floor(IN(IN(count + 1) * p)));
    for (;;) {
        double u = uniform(g) - 0.5, v = uniform(g), us = 0.5 - fabs(u);
        double k = IN(floor((2 * a / us + b) * u + c));
        if (k < 0 || k > count)
            continue;
        if (us >= 0.07 && v <= v_accept)
            return k;
        v = log(v * alpha / (a / (us * us) + b));
        double bound = (mode + 0.5) * log((mode + 1) / (odds * (count - mode + 1)))
                     + IN(count + 1) * log((count - mode + 1) / IN(IN(count - k) + 1))
                     + (k + 0.5) * log(odds * IN(IN(count - k) + 1) / IN(k + 1))
                     + stirling_rest(mode) + stirling_rest(count - mode)
                     - stirling_rest(k) - stirling_rest(IN(count - k));
        if (v <= bound)
            return k;
    }
}

/* Successes up to p = 1/2; beyond it failures are counted.  A p that is NaN compares with nothing and comes out as it is. */
static double binomial(td_generator *g, td_dtype dtype, double count, double p)
{
    if (count <= 0 || p <= 0)
        return 0;
    if (p >= 1)
        return count;
    if (!(p <= 0.5)) {
        if (!(p > 0.5))
            return NAN;
        return IN(count - binomial(g, dtype, count, IN(1 - p)));
    }
    return IN(count * p) >= 10 ? binomial_by_rejection(g, dtype, count, p) : binomial_by_gaps(g, dtype, count, p);
}

int td_sample_binomial(td_generator *g, td_dtype dtype, void *out, int64_t n, const void *count,
                       const void *probability)
{
    if (dtype != TD_F32 && dtype != TD_F64)
        return td_random_no_kernel("binomial_cpu", dtype);
    g = td_random_lock(g);
    for (int64_t i = 0; i < n; i++)
        store(dtype, out, i, binomial(g, dtype, load(dtype, count, i), load(dtype, probability, i)));
    td_random_unlock(g);
    return 0;
}

/* ---- multinomial */

/* A weight may be neither negative nor NaN nor infinite, and a row of them not all 0; wordings are those of the two cases in
 * PyTorch. */
static int check_weights(td_dtype dtype, const void *weights, int64_t rows, int64_t k, bool replacement)
{
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t i = 0; i < k; i++) {
            double w = load(dtype, weights, r * k + i);
            if (!(w >= 0 && w < INFINITY) && !replacement)
                return td_error(TD_E_RUNTIME, "probability tensor contains either `inf`, `nan` or element < 0 "
                                "(multinomial: %g at row %lld, category %lld)", w, (long long)r, (long long)i);
            if (!(w >= 0))
                return td_error(TD_E_RUNTIME, "invalid multinomial distribution (encountering probability entry < 0: "
                                "%g at row %lld, category %lld)", w, (long long)r, (long long)i);
            if (!(w < INFINITY))
                return td_error(TD_E_RUNTIME, "invalid multinomial distribution (encountering probability entry = "
                                "infinity or NaN at row %lld, category %lld)", (long long)r, (long long)i);
            sum += w;
        }
        if (!(sum > 0))
            return td_error(TD_E_RUNTIME, "invalid multinomial distribution (sum of probabilities <= 0 in row %lld)",
                            (long long)r);
    }
    return 0;
}

/* The first of k rising sums that is not below x; k if there is none. */
static int64_t search(const double *sums, int64_t k, double x)
{
    int64_t left = 0, right = k;
    while (left < right) {
        int64_t middle = left + (right - left) / 2;
        if (sums[middle] < x)
            left = middle + 1;
        else
            right = middle;
    }
    return left;
}

static int64_t bits_of(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Running sums, scaled so that the last is one, and a search among them.  Sums are float32 for narrower dtypes.
 *
 * Where a search goes next can't be guessed, and a wrong guess costs more than a step: several searches go on side by side, all
 * in as many steps, without branches: numbers from 0 up compare as their bits do, and the difference's sign is a mask.  What
 * they find is the same as long as the sums rise. */
static void draw_by_sums(td_generator *g, td_dtype dtype, int64_t *out, const void *weights, int64_t k,
                         int64_t samples, double *sums)
{
    enum { TOGETHER = 8 };
    bool wide = dtype == TD_F64, rising = true;
    double sum = 0;
    for (int64_t i = 0; i < k; i++) {
        sum = sum + load(dtype, weights, i);
        sums[i] = sum = wide ? sum : (double)(float)sum;
    }
    for (int64_t i = 0; i < k; i++)
        sums[i] = wide ? sums[i] / sum : (double)(float)(sums[i] / sum);
    sums[k - 1] = 1;
    for (int64_t i = 1; i < k; i++)
        rising &= sums[i - 1] <= sums[i];
    int64_t j = 0;
    for (; rising && j + TOGETHER <= samples; j += TOGETHER) {
        int64_t x[TOGETHER], at[TOGETHER] = {0};
        for (int t = 0; t < TOGETHER; t++)
            x[t] = bits_of(uniform(g));
        for (int64_t left = k; left > 1; left -= left / 2)
#pragma GCC unroll 8
            for (int t = 0; t < TOGETHER; t++)
                at[t] += left / 2 & (bits_of(sums[at[t] + left / 2 - 1]) - x[t]) >> 63;
        for (int t = 0; t < TOGETHER; t++)
            out[j + t] = at[t] + (bits_of(sums[at[t]]) < x[t]);
    }
    for (; j < samples; j++)
        out[j] = search(sums, k, uniform(g));
}

/* weight / exponential: the largest scores are a sample without replacement, in the order of drawing. */
static int draw_by_race(td_generator *g, td_dtype dtype, int64_t *out, int64_t rows, int64_t k, const void *weights,
                        int64_t samples, bool by_columns)
{
    int64_t along = by_columns ? rows : 1, across = by_columns ? 1 : k;
    size_t size = (size_t)rows * (size_t)k * td_dtype_size(dtype), list_size = (size_t)k * sizeof(td_scored);
    void *times = td_mem_alloc(size);
    td_scored *list = times ? td_mem_alloc(list_size) : NULL;
    if (!list || td_fill_exponential(g, dtype, times, rows * k, 1)) {
        td_mem_free(list, list_size);
        td_mem_free(times, size);
        return -1;
    }
    for (int64_t r = 0; r < rows; r++) {
        int64_t best = 0;
        for (int64_t i = 0; i < k; i++) {
            list[i].score = IN(load(dtype, weights, r * k + i) / load(dtype, times, r * across + i * along));
            list[i].index = i;
            bool nan = list[i].score != list[i].score, best_nan = list[best].score != list[best].score;
            best = (list[i].score > list[best].score && !best_nan) || (nan && !best_nan) ? i : best;
        }
        if (samples == 1) {      /* the first of the largest, or of the NaNs */
            out[r] = best;
            continue;
        }
        td_select_largest(list, k, samples);
        for (int64_t j = 0; j < samples; j++)
            out[r * samples + j] = list[j].index;
    }
    td_mem_free(list, list_size);
    td_mem_free(times, size);
    return 0;
}

/* by_columns: how the race draws its exponential numbers, since they follow the memory of the weights. */
int td_sample_multinomial(td_generator *g, td_dtype dtype, int64_t *out, int64_t rows, int64_t k, const void *weights,
                          int64_t samples, bool replacement, bool by_columns)
{
    if (!td_is_drawn(dtype))
        return td_error(TD_E_RUNTIME, "multinomial only supports floating-point dtypes for input, got: %s",
                        td_dtype_title(dtype));
    if (samples <= 0)
        return td_error(TD_E_RUNTIME, "cannot sample n_sample <= 0 samples (got %lld)", (long long)samples);
    if (!replacement && samples > k)
        return td_error(TD_E_RUNTIME, "cannot sample n_sample > prob_dist.size(-1) samples without replacement (%lld "
                        "of %lld)", (long long)samples, (long long)k);
    if (k > 1 << 24)
        return td_error(TD_E_RUNTIME, "number of categories cannot exceed 2^24 (got %lld)", (long long)k);
    if (check_weights(dtype, weights, rows, k, replacement && samples != 1))
        return -1;
    if (!replacement || samples == 1)
        return draw_by_race(g, dtype, out, rows, k, weights, samples, by_columns);
    size_t size = (size_t)k * sizeof(double);
    double *sums = td_mem_alloc(size);
    if (!sums)
        return -1;
    g = td_random_lock(g);
    for (int64_t r = 0; r < rows; r++)
        draw_by_sums(g, dtype, out + r * samples, (const char *)weights + (size_t)(r * k) * td_dtype_size(dtype), k,
                     samples, sums);
    td_random_unlock(g);
    td_mem_free(sums, size);
    return 0;
}
