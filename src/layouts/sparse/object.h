/* Sparse tensors: a shape, and tensors of the indices and values of the elements that are there.
 *
 * Of layout COO, `indices` has a column per element, (sparse_dim, nnz), and `values` is (nnz, the dense dimensions...).  An
 * index may come several times, unless the tensor is coalesced: then indices are unique and in lexicographic order.
 *
 * The compressed layouts are one family: of a matrix (behind batch dimensions, before dense ones) the rows (CSR, BSR) or the columns
 * (CSC, BSC) are compressed: `indices` says where each of them begins among the values, `plain` what the index in the other
 * dimension is.  In a blocked one, BSR and BSC, every value is a block.
 *
 * The parts are tensors without a history; a kernel makes its results of them by the operators for strided tensors.  Aliases
 * share the record, which never changes: what changes in place gets another one (td_layout_take), unseen by its aliases, as in PyTorch. */
#ifndef TD_LAYOUTS_SPARSE_OBJECT_H
#define TD_LAYOUTS_SPARSE_OBJECT_H
#include "tensor/layout.h"

typedef struct td_sparse {
    int        layout;
    bool       coalesced;
    int        sparse_dim, dense_dim;       /* of compressed ones sparse_dim is 2; what is left are batch dimensions */
    td_tensor *indices, *plain, *values;    /* plain: NULL in COO */
} td_sparse;

#define TD_KEYS_SPARSE (TD_KEYSET(TD_KEY_SPARSE) | TD_KEYSET(TD_KEY_COMPRESSED))

static inline bool td_is_sparse(const td_tensor *x) { return (x->keys & TD_KEYS_SPARSE) != 0; }
static inline bool td_is_coo(const td_tensor *x) { return (x->keys & TD_KEYSET(TD_KEY_SPARSE)) != 0; }
static inline const td_sparse *td_sparse_of(const td_tensor *x) { return ((td_layout_record *)x->extra)->own; }
/* Whether the compressed dimension is that of rows, and whether values are blocks. */
static inline bool td_rows_compressed(int layout) { return layout == TD_SPARSE_CSR || layout == TD_SPARSE_BSR; }
static inline bool td_is_blocked(int layout) { return layout == TD_SPARSE_BSR || layout == TD_SPARSE_BSC; }

/* New tensors over parts, of which they hold aliases; nothing is checked.  NULL if a part is. */
td_tensor *td_coo_new(int ndim, const int64_t *sizes, int sparse_dim, td_tensor *indices, td_tensor *values, bool coalesced);
td_tensor *td_compressed_new(int layout, int ndim, const int64_t *sizes, int dense_dim, td_tensor *indices, td_tensor *plain,
                             td_tensor *values);
/* A tensor like x with other values, one for each of x's. */
td_tensor *td_sparse_with_values(td_tensor *x, td_tensor *values);

#endif
