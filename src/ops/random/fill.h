/* Fills of contiguous arrays with random numbers, bit for bit those of PyTorch 2.13's CPU build on AVX2.
 *
 * Each takes a generator (NULL: the default one), a dtype and space for n elements; they hold the generator's lock
 * throughout.  -1 with an error for a parameter, a dtype or an element that PyTorch refuses; nothing has been drawn
 * or written then.
 *
 * Note [Order of random numbers in strided tensors].  Fills from one set of parameters (uniform, random, exponential,
 * geometric, cauchy, log_normal, bernoulli, dropout's factors) go along memory: dimensions sorted by stride, the
 * largest outermost, whatever order the tensor has them in.  A tensor without gaps is therefore filled in place as
 * if it were flat, transposed or not; for one with gaps, fill n contiguous elements and copy them out in that order.
 *   - normal_ goes the same way, with td_fill_normal_elementwise, unless the tensor is contiguous: then td_fill_normal,
 *     which gives other numbers from 16 elements on.
 *   - bernoulli_ with a tensor of probabilities: memory order of the output, probabilities expanded to its shape.
 *   - poisson, gamma, binomial, dirichlet, multinomial: operands in logical order, results contiguous; but multinomial without
 *     replacement, which is a race of exponential numbers in a tensor laid out like the weights.
 *   - normal with tensors for mean or std: td_fill_normal with 0 and 1 (0 and std), then times std, plus mean, as
 *     separate operators with their own roundings.
 *   - Dropout makes its factors in a tensor laid out like the input (empty_like), so they follow its memory.
 * Reversed strides, which PyTorch hasn't, count by magnitude and run forward in memory. */
#ifndef TD_KERNELS_RANDOM_FILL_H
#define TD_KERNELS_RANDOM_FILL_H

#include "tensor/tensor.h"

/* Whether fractions can be drawn in a dtype: floats, but no formats and none from outside. */
static inline bool td_is_drawn(td_dtype dtype) { return td_dtype_is_floating(dtype) && !td_is_keyed_dtype(dtype); }

/* ---- what random_() makes */

/* How many bits the significand of a floating dtype has. */
static inline int td_random_digits(td_dtype dtype) { return dtype == TD_F16 ? 11 : dtype == TD_BF16 ? 8 : dtype == TD_F32 ? 24 : 53; }

/* The largest number, from 0: an integer dtype's own; of a floating one the last up to which it has all integers. */
static inline int64_t td_random_largest(td_dtype dtype)
{
    switch (dtype) {
    case TD_BOOL: return 1;
    case TD_U8:   return UINT8_MAX;
    case TD_I8:   return INT8_MAX;
    case TD_I16:  return INT16_MAX;
    case TD_U16:  return UINT16_MAX;
    case TD_I32:  return INT32_MAX;
    case TD_U32:  return UINT32_MAX;
    default:      return td_dtype_is_floating(dtype) ? INT64_C(1) << td_random_digits(dtype) : INT64_MAX;
    }
}

/* What is filled with, by the number that devices know it by; the order of the first ones is known to kernels/device/random.ck. */
typedef enum td_filling {
    TD_FILL_UNIFORM, TD_FILL_NORMAL, TD_FILL_LOG_NORMAL, TD_FILL_CAUCHY, TD_FILL_EXPONENTIAL, TD_FILL_GEOMETRIC, TD_FILL_BERNOULLI,
    TD_FILL_KEPT, TD_FILL_DROPOUT,              /* dropout's masks, of bool and as factors */
    TD_FILL_RANDOM, TD_FILL_RANDOM_FROM, TD_FILL_RANDOM_FROM_TO,
    TD_FILL_EACH,           /* bernoulli with a probability for each element */
    TD_FILL_NORMAL_SINGLY,  /* normal_ where the CPU has td_fill_normal_elementwise */
    TD_FILL_ON_CPU,         /* what devices don't have */
} td_filling;

/* A fill's parameters; unused ones stay 0.  g is NULL for the default generator. */
typedef struct td_draw td_draw;
struct td_draw {
    td_generator *g;
    double        a, b;
    int64_t       from, to;
    int         (*here)(const td_draw *d, td_dtype dtype, void *out, int64_t n);    /* of an entry with `fills`: what is called on the CPU */
};
/* The elements of `self`, in the order of the Note above: a tensor without gaps is filled in place, in the order of memory; one with gaps
 * through a contiguous one, whose elements are copied out in that order.  Entries with `fills: geometric` are calls of this, with
 * td_fill_geometric(g, dtype, out, n, the operator's numbers). */
TD_MUST_USE int td_fill_drawn(const char *op, td_tensor *self, td_filling kind, const td_draw *d);

/* ---- on devices with programs: src/kernels/device/random.c */

/* Elements of a dense tensor in the order of memory; the numbers mean what they mean below and were checked.  `each` is NULL but for TD_FILL_EACH.
 * TD_E_NOT_IMPLEMENTED for a dtype that the device doesn't compute in. */
TD_MUST_USE int td_fill_on_device(td_filling kind, td_generator *g, td_tensor *out, td_tensor *each, double a, double b, int64_t from, int64_t to);
/* What elements must be: numbers from `from` to `to` (DBL_MAX: what is finite), and not `from` itself if `above`.  The text prints the first element that isn't as
 * %lld; it and the operator's name are literals. */
typedef struct td_element_range { double from, to; bool above, at_once; const char *op, *text; } td_element_range;
/* Raised by what waits for the stream (src/device/late.c); if `at_once`, and unless the stream's work is recorded as a graph, that is this call. */
TD_MUST_USE int td_check_range_on_device(td_tensor *x, const td_element_range *r);
/* Indices with replacement, contiguous: rows of samples by rows of weights. */
TD_MUST_USE int td_multinomial_on_device(td_generator *g, td_tensor *weights, td_tensor *out);

/* Numbers with parameters for each element: a rate; a shape; a count and a probability.  All contiguous. */
typedef enum td_law { TD_LAW_POISSON, TD_LAW_GAMMA, TD_LAW_BINOMIAL } td_law;
TD_MUST_USE int td_sample_on_device(td_law law, td_generator *g, td_tensor *out, td_tensor *a, td_tensor *b);

/* [from, to), floating and complex dtypes. */
TD_MUST_USE int td_fill_uniform(td_generator *g, td_dtype dtype, void *out, int64_t n, double from, double to);

/* Contiguous tensors, floating and complex dtypes.  From 16 elements on in groups of 16, else as below. */
TD_MUST_USE int td_fill_normal(td_generator *g, td_dtype dtype, void *out, int64_t n, double mean, double std);
/* What other tensors get: in double precision, in pairs, the second one of the last pair kept in the generator. */
TD_MUST_USE int td_fill_normal_elementwise(td_generator *g, td_dtype dtype, void *out, int64_t n, double mean,
                                           double std);

/* 1 with probability p, else 0. */
TD_MUST_USE int td_fill_bernoulli(td_generator *g, td_dtype dtype, void *out, int64_t n, double p);
/* The same with a probability for each element; p has a floating dtype. */
TD_MUST_USE int td_fill_bernoulli_each(td_generator *g, td_dtype dtype, void *out, int64_t n, td_dtype p_dtype,
                                       const void *p);
/* Dropout's factors: 1 / (1 - p) with probability 1 - p, else 0, rounded as bernoulli_(1 - p).div_(1 - p) is.
 * PyTorch's dropout draws nothing when p is 0 or 1; that is the caller's to do. */
TD_MUST_USE int td_fill_dropout(td_generator *g, td_dtype dtype, void *out, int64_t n, double p);

/* random_(): all of an integer dtype's values from 0 up, [0, 2^digits] for floating ones. */
TD_MUST_USE int td_fill_random(td_generator *g, td_dtype dtype, void *out, int64_t n);
/* random_(from, to), randint. */
TD_MUST_USE int td_fill_random_from_to(td_generator *g, td_dtype dtype, void *out, int64_t n, int64_t from,
                                       int64_t to);
/* random_(from, None): up to the dtype's largest value; from INT64_MIN, all 64 bits. */
TD_MUST_USE int td_fill_random_from(td_generator *g, td_dtype dtype, void *out, int64_t n, int64_t from);
/* A random order of 0 ... n-1. */
TD_MUST_USE int td_fill_randperm(td_generator *g, td_dtype dtype, void *out, int64_t n);

/* ---- samples with a parameter for each element; arrays of `dtype`, floating */

TD_MUST_USE int td_sample_poisson(td_generator *g, td_dtype dtype, void *out, int64_t n, const void *rate);
TD_MUST_USE int td_sample_gamma(td_generator *g, td_dtype dtype, void *out, int64_t n, const void *alpha);
TD_MUST_USE int td_sample_binomial(td_generator *g, td_dtype dtype, void *out, int64_t n, const void *count,
                                   const void *probability);
/* A slope from [lower, upper) for each element of x that is not positive, 1 for the others. */
TD_MUST_USE int td_sample_rrelu(td_generator *g, td_dtype dtype, void *out, int64_t n, const void *x, double lower,
                                double upper);
/* `rows` samples from the simplex of `k` corners. */
TD_MUST_USE int td_sample_dirichlet(td_generator *g, td_dtype dtype, void *out, int64_t rows, int64_t k,
                                    const void *alpha);
/* For each of `rows` rows of `k` weights, `samples` indices drawn in proportion to them. Without replacement there is a number
 * for each weight; by_columns, they are drawn for a column after the other. */
TD_MUST_USE int td_sample_multinomial(td_generator *g, td_dtype dtype, int64_t *out, int64_t rows, int64_t k,
                                      const void *weights, int64_t samples, bool replacement,
                                      bool by_columns);

#endif
