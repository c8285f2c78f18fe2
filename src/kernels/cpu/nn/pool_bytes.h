/* What pool_bytes_isa.c exports per instruction-set level: pooling of quantized images whose channels come last. */
#ifndef TD_KERNELS_CPU_NN_POOL_BYTES_H
#define TD_KERNELS_CPU_NN_POOL_BYTES_H
#include <tede/geometry.h>
#include "kernels/cpu/isa/isa.h"

/* Bytes with a sign are read and written with their highest bit flipped, which makes them bytes without, 128 more each. */
typedef struct td_pool_bytes {
    td_pool_geometry g;             /* images as planes of two dimensions */
    int64_t          channels;
    const uint8_t   *x;
    uint8_t         *y;
    uint8_t          flip;
    int32_t          zero;          /* the zero point, of bytes without a sign */
} td_pool_bytes;

/* One line of the result: `line` counts the lines of all images. */
typedef void td_pool_bytes_line(const td_pool_bytes *p, int64_t line);

typedef struct td_pool_bytes_table {
    td_pool_bytes_line *maximum, *average;
} td_pool_bytes_table;
TD_ISA_TABLES(td_pool_bytes_table, td_pool_bytes_table);

#endif
