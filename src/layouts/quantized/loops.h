/* The loops between numbers and integers, for the machine's vectors: loops.c. */
#ifndef TD_LAYOUTS_QUANTIZED_LOOPS_H
#define TD_LAYOUTS_QUANTIZED_LOOPS_H
#include <tede/kernel.h>

/* What an integer stands for: (integer - zero point) * scale. */
typedef struct td_affine {
    float   scale, inverse;
    int64_t zero_point;
} td_affine;
static inline td_affine td_affine_of(double scale, int64_t zero_point)
{
    return (td_affine){(float)scale, 1.f / (float)scale, zero_point};
}

/* Operands and result of a sum or product. */
typedef struct td_affine_pair {
    td_affine a, b, to;
    double    scale;            /* of the result, unrounded */
    float     factor;           /* of a product */
    bool      relu;
} td_affine_pair;

/* Rows of loops of integers of 8 bits with a sign, 8 bits without, and 32 bits. */
enum { TD_LOOPS_I8, TD_LOOPS_U8, TD_LOOPS_I32, TD_LOOPS_ROWS };
static inline int td_loops_row(int integers) { return integers == TD_I8 ? TD_LOOPS_I8 : integers == TD_U8 ? TD_LOOPS_U8 : TD_LOOPS_I32; }

/* Zero points are at most TD_NEAR_ZERO from 0, of 32 bits TD_NEAR_ZERO_32: within what a dtype holds they always are. */
#define TD_NEAR_ZERO    (INT64_C(1) << 20)
#define TD_NEAR_ZERO_32 (INT64_C(1) << 33)
/* The dtype in which loops take zero points of channels. */
static inline td_dtype td_loops_zeros(int integers) { return integers == TD_I32 ? TD_F64 : TD_F32; }
typedef struct td_affine_loops {
    td_loop *quantize[TD_LOOPS_ROWS];               /* result, floats; td_affine: the number is rounded with its zero point */
    td_loop *requantize[TD_LOOPS_ROWS];             /* the same, rounded before, as operators do that compute with integers */
    td_loop *quantize_channels[TD_LOOPS_ROWS];      /* result, floats, inverse scales as floats, zero points: td_loops_zeros() */
    td_loop *dequantize[TD_LOOPS_ROWS];             /* result, integers; td_affine */
    td_loop *dequantize_channels[TD_LOOPS_ROWS];    /* result, integers, scales as floats, zero points: td_loops_zeros() */
    td_loop *fused[TD_LOOPS_ROWS];                  /* dequantize with one rounding, in PyTorch's order: scale * integer + (-scale * zero point) */
    td_loop *add[TD_LOOPS_ROWS], *multiply[TD_LOOPS_ROWS];      /* result, two operands; td_affine_pair */
    td_loop *look_up;                               /* result, bytes: of each the one that its table of 256 has for it */
    int64_t (*sum[2])(int64_t n, const void *x);    /* of integers of 8 bits, with a sign and without */
} td_affine_loops;
const td_affine_loops *td_affine_loops_here(void);

#endif
