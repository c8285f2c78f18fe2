/* What the results of a reduction are, where its entry says so: `reduces: sum`, `reduces: [extreme, extreme_at]`. */
#ifndef TD_OPS_REDUCE_REDUCED_H
#define TD_OPS_REDUCE_REDUCED_H
#include <tede/spec.h>

typedef enum td_reduced {
    TD_REDUCED_SUM,             /* of the dtype that is given; else int64 of integers and bools */
    TD_REDUCED_COUNT,           /* int64 */
    TD_REDUCED_BOOL,            /* bool, uint8 of uint8; an empty list of dimensions reduces none */
    TD_REDUCED_FLOAT,           /* the default dtype of integers and bools */
    TD_REDUCED_EXTREME,         /* one of the elements: there must be one, and an order */
    TD_REDUCED_EXTREME_AT,      /* its index */
} td_reduced;

/* The meta function of all of them: describes n results.  n_dim below 0: no dimensions are given.  `op` is for errors. */
int td_meta_reduced(td_spec *specs, const char *op, int n, const td_reduced *rules, td_tensor *self, int64_t n_dim, const int64_t *dim,
                    bool keepdim, td_dtype dtype);
/* What `out_check` looks at, before anything else is: whether an out= may hold such a result. */
int td_out_check_reduced(const char *op, td_reduced rule, const td_tensor *self, const td_tensor *out);

#endif
