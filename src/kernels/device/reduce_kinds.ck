/* What reductions there are.  One is a KIND, with the dtypes A: the operand's, C: computed in, B: of the result, D: of the second one; what
 * becomes of what was folded is said at run time. */
#include "kernels/device/group.ck"

/* What is folded. */
#define REDUCE_SUM     0
#define REDUCE_NANSUM  1
#define REDUCE_ABSSUM  2
#define REDUCE_SQUARES 3
#define REDUCE_COUNT   4        /* elements that aren't 0 */
#define REDUCE_PROD    5
#define REDUCE_MAX     6
#define REDUCE_MIN     7
#define REDUCE_MINMAX  8
#define REDUCE_ARGMAX  9        /* value and index */
#define REDUCE_ARGMIN  10
#define REDUCE_VAR     11       /* and mean */
#define REDUCE_LSE     12       /* reduce_exp.ck: maximum, sum of exponentials below it */
#define REDUCE_POWERS  13
#define REDUCE_ABSMAX  14
#define REDUCE_ABSMIN  15

/* What becomes of it. */
#define AFTER_NOTHING 0
#define AFTER_MEAN    1
#define AFTER_ROOT    2
#define AFTER_ANY     3
#define AFTER_ALL     4

typedef struct reduce_values {
    axes    kept, reduced;          /* tensors: x, y, z */
    int64_t parts, after;
    int64_t first, second;          /* whether there are such results */
    number  p;                      /* an exponent, a correction */
} reduce_values;
