/* What attention.ck and attention_tiles.ck are launched with: strides are in elements. */
#ifndef TD_ATTENTION_VALUES_CK
#define TD_ATTENTION_VALUES_CK
typedef struct head_strides { int64_t batch, head, row, column; } head_strides;
typedef struct attention_values {
    int64_t batch, heads, kv_heads, queries, keys, width, value_width, mask[4], scale;
    head_strides q, k, v, out, grad, dq, dk, dv;
    int64_t causal;
} attention_values;
#endif
