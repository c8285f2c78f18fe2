/* The layouts that come with the library, in the order of their keys. */
#include "tensor/layout.h"

extern const td_layout_kind td_coo_kind, td_compressed_kinds[4], td_jagged_kind, td_nested_kind, td_quantized_kind, td_packed_kind;

const td_layout_kind *const td_builtin_layouts[] = {
    &td_coo_kind, &td_compressed_kinds[0], &td_compressed_kinds[1], &td_compressed_kinds[2], &td_compressed_kinds[3],
    &td_jagged_kind, &td_nested_kind, &td_quantized_kind, &td_packed_kind,
};
const int td_builtin_layout_count = TD_COUNT(td_builtin_layouts);
