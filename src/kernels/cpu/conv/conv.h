/* Convolution (conv1d, conv2d, conv3d and their transposed forms): what its files share.
 *
 *     conv.c          operators; which of the methods below a shape takes
 *     columns.c       patches as columns of a matrix (im2col) and back
 *     panels.c        floats without columns in memory; panels.h and pack.h are its bodies per type
 *     products.c      shapes that are matrix products as they lie, or of many images at once
 *     spread.c        gradients of the input as correlations
 *     inside.c        channels side by side (channels last): 1 x 1 and depthwise kernels
 *     winograd.c      3 x 3 kernels by fewer multiplications */
#ifndef TD_KERNELS_CPU_CONV_CONV_H
#define TD_KERNELS_CPU_CONV_CONV_H
#include <tede/geometry.h>
#include "kernels/cpu/loops/operands.h"

/* One correlation y = w * x, or what is derived from it. */
typedef struct td_conv {
    td_dtype dtype;             /* of the computation: float32, float64, complex, int64 */
    int64_t size;               /* bytes of an element */
    td_conv_geometry g;         /* its `k` are the rows of the columns */
    int64_t tile;               /* positions whose columns are made at a time */
    char *x, *w, *y, *bias;
    char *partial;              /* of weigh: [groups][chunks][cout][k] */
    int64_t chunks, per_chunk;
    bool winograd;              /* how weigh does it */
    int failed;
} td_conv;

static inline char *td_conv_x(const td_conv *c, int64_t n, int64_t g) { return c->x + (n * c->g.groups + g) * c->g.cin * c->g.in_total * c->size; }
static inline char *td_conv_y(const td_conv *c, int64_t n, int64_t g) { return c->y + (n * c->g.groups + g) * c->g.cout * c->g.out_total * c->size; }
static inline char *td_conv_w(const td_conv *c, int64_t g) { return c->w + g * c->g.cout * c->g.k * c->size; }

static inline td_dtype td_conv_dtype(const td_tensor *x)
{
    td_dtype d = (td_dtype)x->dtype;
    return d == TD_F16 || d == TD_BF16 ? TD_F32 : td_dtype_is_floating(d) || td_dtype_is_complex(d) ? d : TD_I64;
}

/* Columns of positions [from, to) of an image and group: k rows, `ld` numbers apart; and the inverse: columns are added to where they
 * came from. */
void td_conv_gather(const td_conv *c, const char *x, int64_t from, int64_t to, void *columns, int64_t ld);
void td_conv_scatter(const td_conv *c, char *x, int64_t from, int64_t to, const void *columns, int64_t ld);
/* The bias of group g's channels, if there is one, added to n numbers of each; channels are `step` numbers apart. */
void td_conv_add_bias(const td_conv *c, int64_t g, int64_t channels, char *to, int64_t step, int64_t n);

/* y = w * x by the method that suits its shape; 0, or -1 with an error recorded. */
int td_conv_run_correlate(td_conv *c);

/* What is a matrix product as it lies (products.c): a kernel that meets the whole image, in one position; one row of one channel
 * in large steps.  The same status. */
bool td_conv_is_whole(const td_conv *c);
bool td_conv_is_product(const td_conv *c);      /* either */
int td_conv_product(td_conv *c);
int td_conv_spread_whole(td_conv *c);
int td_conv_weigh_product(td_conv *c);
/* Columns of many images side by side: best for small images with `weights` weights or more. */
bool td_conv_has_columns(const td_conv *c, int64_t weights);
int td_conv_columns(td_conv *c);
int td_conv_spread_columns(td_conv *c);
int td_conv_weigh_columns(td_conv *c);

/* x as correlations of y, one for each remainder of the steps (spread.c).  Not where steps meet a dilation. */
bool td_conv_has_phases(const td_conv *c);
int td_conv_spread(td_conv *c);

/* Correlation and the weights' gradient in float32 or float64 (panels.c).  Sets c->failed without memory. */
void td_conv_correlate(td_conv *c);
/* Correlation in bfloat16, with a bias of floats; false without memory.  Only where td_gemm_has_pairs. */
bool td_conv_pairs(td_conv *c);
void td_conv_depthwise(td_conv *c);     /* one channel and one kernel per group */
void td_conv_weigh(td_conv *c, int64_t from, int64_t to, int64_t group, void *sum);

/* Operands with channels side by side (inside.c). Whether a tensor's lie so; the tensor with channels as its last dimension; 1 x 1 kernels'
 * positions as images of one pixel. */
bool td_conv_channels_inside(const td_tensor *x);
td_tensor *td_conv_channels_behind(td_tensor *x);
td_conv_geometry td_conv_of_pixels(const td_conv_geometry *g);
/* Depthwise kernels that are best computed so, and the three passes; 0, or -1 with an error recorded.  `y` is the result's gradient, dense,
 * with channels as its last dimension. */
bool td_conv_is_inside(const td_tensor *input, const td_conv_geometry *g);
int td_conv_inside(td_tensor *input, td_tensor *weight, td_tensor *bias, const td_conv_geometry *g, td_tensor *out);
int td_conv_inside_spread(td_tensor *y, td_tensor *weight, const td_conv_geometry *g, td_tensor *out);
int td_conv_inside_weigh(td_tensor *y, td_tensor *input, const td_conv_geometry *g, td_tensor *out);

/* Vectors of channels in two blocks of memory, met in three nested loops. */
typedef struct td_box {
    int64_t count[3];
    const void *first, *second;
    int64_t step_first[3], step_second[3];      /* in numbers */
} td_box;

/* One kernel of one channel, moved over a packed copy in steps of 1. */
typedef struct td_slide {
    int64_t kernel[3];          /* its rows lie below each other, `plane` apart in depth */
    int64_t line, plane, apart; /* steps of the packed copy: to the next row, depth, kernel column */
    int64_t width;              /* of the result */
} td_slide;

typedef struct td_conv_table {
    /* up to four rows of the result, each number start + the sum of the kernel's products; x is read up to four vectors further than
     * `width`, and y written up to `writable` */
    void (*slide_f32)(const td_slide *s, const float *x, const float *w, float start, int64_t rows, float *y,
                      int64_t writable);
    void (*slide_f64)(const td_slide *s, const double *x, const double *w, double start, int64_t rows, double *y,
                      int64_t writable);
    /* y[i] = start + the sum of w[t] x[offsets[t] + i] over t < k for i < n; x is read up to four vectors further than n,
     * and y written up to `writable` */
    void (*taps_f32)(const float *x, const int64_t *offsets, const float *w, int64_t k, float start, int64_t n,
                     int64_t writable, float *y);
    void (*taps_f64)(const double *x, const int64_t *offsets, const double *w, int64_t k, double start, int64_t n,
                     int64_t writable, double *y);
    /* y[c] = start[c] (0 without) + the sum of products of the box's vectors, c < n */
    void (*box_f32)(const td_box *b, const float *start, int64_t n, float *y);
    void (*box_f64)(const td_box *b, const double *start, int64_t n, double *y);
    /* rows of n numbers, each of one value */
    void (*fill_f32)(const float *values, int64_t rows, int64_t n, float *to, int64_t step);
    void (*fill_f64)(const double *values, int64_t rows, int64_t n, double *to, int64_t step);
    /* rows of `width` numbers, one behind the other: those in [low, high) copied from rows `step` apart, zeros
     * elsewhere; whole vectors are read, and written behind the last row */
    void (*rows_f32)(const float *from, int64_t step, int64_t rows, int64_t low, int64_t high, int64_t width,
                     float *to);
    void (*rows_f64)(const double *from, int64_t step, int64_t rows, int64_t low, int64_t high, int64_t width,
                     double *to);
    void (*rows_b16)(const uint16_t *from, int64_t step, int64_t rows, int64_t low, int64_t high, int64_t width, uint16_t *to);
    /* the same of every second number: twice as many are read */
    void (*rows_of_evens_f32)(const float *from, int64_t step, int64_t rows, int64_t low, int64_t high, int64_t width, float *to);
    void (*rows_of_evens_f64)(const double *from, int64_t step, int64_t rows, int64_t low, int64_t high, int64_t width, double *to);
    void (*rows_of_evens_b16)(const uint16_t *from, int64_t step, int64_t rows, int64_t low, int64_t high, int64_t width, uint16_t *to);
    /* to[i] = from[i * step] */
    void (*every_f32)(const float *from, int64_t step, int64_t n, float *to);
    void (*every_f64)(const double *from, int64_t step, int64_t n, double *to);
    void (*every_b16)(const uint16_t *from, int64_t step, int64_t n, uint16_t *to);
    /* the sum of n numbers, added to 16 sums of parts */
    void (*sum_f32)(const float *x, int64_t n, double *sums);
    void (*sum_f64)(const double *x, int64_t n, double *sums);
    /* sums[t] += the sum of y[i] x[offsets[t] + i] over i < n, for t < k */
    void (*dots_f32)(const float *y, const float *x, const int64_t *offsets, int64_t k, int64_t n, double *sums);
    void (*dots_f64)(const double *y, const double *x, const int64_t *offsets, int64_t k, int64_t n, double *sums);
    /* to = panels of the rows x + offsets[0], x + offsets[1], ... `depth` of them, as td_gemm_table's packed() reads
     * them; x is read up to a panel further than `width` */
    void (*panels_f32)(const float *x, const int64_t *offsets, int64_t depth, int64_t width, float *to);
    void (*panels_f64)(const double *x, const int64_t *offsets, int64_t depth, int64_t width, double *to);
    /* the same of `rows` rows of bfloat16, for td_gemm_pairs_table: two make one of the `depth` rows; NULL but for v4 */
    void (*panels_pairs)(const uint16_t *x, const int64_t *offsets, int64_t rows, int64_t depth, int64_t width, float *to);
} td_conv_table;

TD_ISA_TABLES(td_conv_table, td_conv_table);

#endif
