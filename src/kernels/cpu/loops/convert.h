/* Conversion of contiguous runs between dtypes: what convert.c exports per instruction-set level. */
#ifndef TD_KERNELS_CPU_LOOPS_CONVERT_H
#define TD_KERNELS_CPU_LOOPS_CONVERT_H
#include <tede/base.h>
#include "kernels/cpu/isa/isa.h"
#include "ops/iterate/iterator.h"

typedef struct td_convert_table {
    td_convert_run *run[TD_C32][TD_C32];            /* [to][from]; formats and dtypes from outside are in foreign.c */
    void (*fill)(void *to, uint64_t eight, int64_t bytes);     /* these eight bytes again and again */
    /* The element of up to eight bytes that each row begins with, until the row has its bytes; row after row. */
    void (*fill_rows)(size_t size, char *to, const char *from, int64_t step, int64_t bytes, int64_t rows);
    /* Short rows, one after the other, of memory that doesn't overlap; or with each row's elements of `size` bytes in reverse, where
     * `from` is each row's last. */
    void (*copy_rows)(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t bytes, int64_t rows);
    void (*reverse_rows)(size_t size, char *to, int64_t to_step, const char *from, int64_t from_step, int64_t bytes, int64_t rows);
    void (*stream)(char *to, const char *from, int64_t bytes);
} td_convert_table;

TD_ISA_TABLES(td_convert_table, td_convert_table);

#endif
