/* Rows of gather, scatter, index_select, index_put and index_add: what index_isa.c exports per instruction-set level. */
#ifndef TD_KERNELS_CPU_MOVE_INDEX_H
#define TD_KERNELS_CPU_MOVE_INDEX_H
#include "kernels/cpu/isa/isa.h"
#include "ops/index/kernels.h"

/* A row of a td_picking: its last dimension. */
typedef struct td_index_row {
    char          *far, *near, *next_far;
    const int64_t *index, *next_index;          /* next_...: where the row after this one begins, to be fetched */
    const int64_t *places;                      /* NULL, or each element's position in bytes, which takes the place of far_step;
                                                   near and index then lie together */
    int64_t        far_step, near_step, index_step, reach, range, n;
} td_index_row;
/* A loop over one row.  None can fail: indices were checked before, or are just before the row starts (td_picking.limit). */
typedef void td_index_loop(const td_index_row *r);
/* Copies go by the size of an element alone, whatever its bits mean; `fold` combines what is there with what comes, by dtype. */
typedef struct td_index_table {
    td_index_loop *get[17], *set[17];           /* by an element's size */
    td_index_loop *get_block, *set_block;       /* rows that lie together on both sides */
    void (*range)(const int64_t *index, int64_t n, int64_t *low, int64_t *high);
    td_index_loop *fold[TD_PLACE_MIN + 1][TD_DTYPES];
} td_index_table;
TD_ISA_TABLES(td_index_table, td_index_table);

#endif
