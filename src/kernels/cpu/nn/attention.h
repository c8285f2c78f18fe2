/* Fused attention on [batch][heads][length][features] of any strides but the last, which is 1. */
#ifndef TD_KERNELS_CPU_NN_ATTENTION_H
#define TD_KERNELS_CPU_NN_ATTENTION_H
#include <tede/geometry.h>
#include "kernels/cpu/loops/operands.h"

/* Tiles of scores.  With queries in rows, 128 x 240 floats are 120 KB, for the second cache; with keys in rows, 96 rows of at most
 * 192 bytes are 18 KB, for the first. */
enum { TD_QUERY_TILE = 128, TD_CAUSAL_TILE = 48, TD_KEY_TILE = 240, TD_KEY_ROWS = 96 };

typedef struct td_heads {
    void *data;
    int64_t batch, head, row;       /* steps in elements */
} td_heads;

typedef struct td_attention_job {
    td_attention_geometry g;
    td_heads q, k, v, out, grad, dq, dk, dv;
    void *lse;                      /* [batch][heads][queries]: log of the sum of exponentials; infinite for masked rows */
    const void *mask;               /* NULL, a boolean mask (true takes part) or numbers that are added */
    bool masked_by_bool;
    int64_t mask_batch, mask_head, mask_row, mask_key;
    int64_t query_tile;
    bool columns;                   /* queries are columns of the scores */
    int failed;                     /* a thread found no memory */
} td_attention_job;

/* Queries of a tile.  Under a causal mask a tile of few queries ends near the diagonal, and less is computed in vain. */
static inline int64_t td_query_tile(const td_attention_job *job) { return job->g.causal ? TD_CAUSAL_TILE : TD_QUERY_TILE; }

typedef struct td_attention_table {
    td_loop_body *forward[2];       /* over batch x heads x blocks of queries */
    td_loop_body *backward[2];      /* over batch x kv_heads */
} td_attention_table;

TD_ISA_TABLES(td_attention_table, td_attention_table);

#endif
