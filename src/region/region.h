/* What a region has recorded: see region.c. */
#ifndef TD_REGION_REGION_H
#define TD_REGION_REGION_H
#include <tede/region.h>
#include "dispatch/op.h"
#include "ops/pointwise/pointwise.h"
#include "tensor/late.h"

/* Of a formula, of elements as they are (converted and broadcast), of a structured operator in its functional form, or what a kernel has left. */
typedef enum td_late_kind { TD_LATE_FORMULA, TD_LATE_COPY, TD_LATE_STRUCTURED, TD_LATE_WORK } td_late_kind;

/* How many leading dimensions of its operands a structured operator leaves alone, from `rows:` and `batch: dims` of the entries
 * (codegen/batching.py): those before the least that the argument names, or all but as many as the argument, a shape, has. */
typedef struct td_rows {
    const char *op;
    int         argument;
    bool        names_dims;
    td_impl     impl;                   /* the operator's implementation in a region, whose context this is */
} td_rows;
extern td_rows td_rows_of_ops[];        /* ended by NULL */

/* A head over a late storage, which it holds. */
typedef struct td_late_head {
    td_tensor           *x;
    struct td_late_head *next;
} td_late_head;

/* What a late storage's `context` is until it has memory. */
typedef struct td_late_storage {
    td_storage   *s;
    struct td_region *region;
    struct td_late_storage *next;       /* of those with the same last use */
    td_late_head *heads;
    bool          held, needed;         /* from outside of the region; by that or by a call that isn't dropped */
    int64_t       last_use;             /* of those calls: the last that reads or writes it */
} td_late_storage;

/* A call. Operands and results are held; a result may be an operand, which is written in place. */
typedef struct td_late_call {
    const td_pointwise *pointwise;
    const td_op        *op;
    const td_rows      *rows;           /* of an operator that has them; or NULL */
    td_dtype            common;         /* of a formula: what its operands are promoted to */
    td_late_kind        kind;
    uint16_t            n_in, n_out;
    bool                dropped;
    td_late_storage    *ends;           /* storages that nobody needs behind it, once the dead calls are known */
    td_tensor         **in, **out;      /* out lies behind in; of an operator: its results, and then arguments that it updates */
    union {
        td_scalar *params;              /* of a formula */
        td_value  *values;              /* of an operator: its arguments, with `in` for its tensors, in order */
        td_late_work *work;             /* its tensors are `in` */
    };
} td_late_call;

typedef struct td_arena { struct td_arena_block *block; size_t used; } td_arena;

/* A set of storages, by their address: a table with open addressing, whose room is a power of 2. */
typedef struct td_noted { const td_storage **slots; uint32_t n, room; } td_noted;

typedef struct td_region {
    td_late_call *calls;
    int64_t       n_calls, room;
    td_late_storage **storages;         /* all that were late since the last flush */
    int64_t       n_storages, storage_room;
    td_arena      arena;
    td_noted      noted;                /* storages with memory that the calls read or write */
    int           depth;
    int64_t       n_fused;              /* calls that the flush has done together with others */
    bool          flushing, unsettled;  /* unsettled: a group's plan was new, being compiled or measured */
    int           tier;
    char         *compiler;             /* its name, or NULL */
    void         *error;                /* of calls that another thread has done; NULL */
    struct td_region *next, *prev;      /* all regions */
} td_region;

/* Memory until the flush ends. */
void *td_arena_new(td_arena *a, size_t bytes);
/* Whether the elements that the operator would refuse (`late:` of its entry) can be looked at now, and none of them is refused. */
bool  td_late_checks(const td_op *op, const td_value *arguments);
bool  td_noted_has(const td_noted *set, const td_storage *s);
int   td_noted_add(td_noted *set, const td_storage *s);
void  td_noted_clear(td_noted *set);
void  td_noted_free(td_noted *set);
/* Give the storage memory, and move the tensors over it there. */
int   td_late_fill_in(td_storage *s);
/* Make a call on these tensors: in c->in's order, then c->out's. */
int   td_late_call_run(const td_late_call *c, td_tensor **tensors);
int   td_region_run(td_region *r);

#endif
