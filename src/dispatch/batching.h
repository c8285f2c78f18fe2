/* What an operator's row says of batches: the rule by which a call runs on a whole batch at a vmap level, and the rule's
 * modes.  `batch:` of the entry; codegen/batching.py writes it into the row.  The rules are in src/transforms. */
#ifndef TD_DISPATCH_BATCHING_H
#define TD_DISPATCH_BATCHING_H
#include <stdint.h>

struct td_batch;                    /* transforms/batch.h */
typedef int td_batch_rule(struct td_batch *b);

/* Modes of rules, TD_<RULE>_<MODE>: what `batch: rule(mode)` of an entry stands for. */
enum {
    /* dims */
    TD_DIMS_ABSENT_IS_ALL = 1,      /* without dimensions, or with an empty list, all of them are meant */
    TD_DIMS_KEEPS_0D = 2,           /* an operand without dimensions stays so; otherwise it gets one while the operator runs */
    TD_DIMS_OF_RESULT = 4,          /* dimensions are counted in the result, which has one more */
    TD_DIMS_ALL_OPERANDS = 8,       /* the other operands are of the first one's shape */
    /* leading */
    TD_LEADING_EXPAND = 1,          /* operands without a batch are expanded to one, ranks made equal */
    TD_LEADING_OWN_RANKS = 2,       /* ... but for the ranks */
    TD_LEADING_CHECKED = 4,         /* what a member is refused for could pass with the batch in front, so that is looked at first */
    /* pointwise */
    TD_POINTWISE_OWN_DTYPES = 1,    /* operands keep their dtypes: the result has the first one's */
    /* random */
    TD_RANDOM_ROWS = 1,             /* matrices have numbers of their own for each row: members are more of those */
    /* along */
    TD_ALONG_LIKE_INDEX = 1,        /* the result has the index's shape, not the operand's */
    /* index_write */
    TD_INDEX_WRITE_ADD = 1, TD_INDEX_WRITE_COPY = 2, TD_INDEX_WRITE_FILL = 4, TD_INDEX_WRITE_REDUCE = 8,
    /* product: ranks of the operands */
    TD_PRODUCT_MATRICES = 1, TD_PRODUCT_BATCHES = 2, TD_PRODUCT_MATRIX_VECTOR = 4, TD_PRODUCT_VECTORS = 8,
    /* convolution_gradient */
    TD_CONVOLUTION_GRADIENT_OF_INPUT = 1, TD_CONVOLUTION_GRADIENT_OF_WEIGHT = 2,
    /* shape_inplace */
    TD_SHAPE_INPLACE_OF_RESULT = 1, TD_SHAPE_INPLACE_DROPS = 2,
    /* parts */
    TD_PARTS_EXPAND_SELF = 1,       /* self is copied and written to: a copy per member */
};

typedef struct td_batching {
    td_batch_rule *rule;            /* NULL: a composite, whose parts have rules */
    uint32_t       modes;
    const char    *form;            /* flat: the full name of the form with a dimension; product and others: names of operands, each with its 0 */
} td_batching;

#endif
