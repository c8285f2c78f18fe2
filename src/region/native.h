/* Groups of calls as one loop, printed, compiled and loaded: see native.c. */
#ifndef TD_REGION_NATIVE_H
#define TD_REGION_NATIVE_H
#include "formula/formula.h"
#include "region/plan.h"

/* What a row's elements become one number by. */
typedef enum td_row_rule { TD_ROW_NONE, TD_ROW_SUM, TD_ROW_MEAN, TD_ROW_MAX, TD_ROW_MIN } td_row_rule;
typedef enum td_native_kind { TD_NATIVE_LOAD, TD_NATIVE_NUMBER, TD_NATIVE_FORMULA, TD_NATIVE_CONVERT, TD_NATIVE_REDUCE } td_native_kind;

/* A value, which later steps name by its number. */
typedef struct td_native_step {
    const td_formula *formula;
    uint8_t kind, rule, dtype, common;  /* dtype: as what it is rounded; common: what a formula computes in */
    bool    full;                       /* differs along a row; else it is one for the row */
    uint8_t n, cost;
    int16_t run, first_param;           /* a load's; a formula's or a number's among the loop's */
    int16_t of[TD_MAX_OPERANDS];
} td_native_step;

typedef enum td_native_spacing { TD_NATIVE_ONE, TD_NATIVE_NEIGHBOURS, TD_NATIVE_APART } td_native_spacing;
/* Memory that is gone through: a tensor, or several that have the same elements. */
typedef struct td_native_run {
    char      *data;
    td_tensor *x;
    int16_t    storage, number;         /* number: among the pointers that the loop is passed; -1: it is passed none */
    int16_t    value, load;             /* the step whose value it has at the end; the one that reads it; or -1 */
    bool       stored, full;
    uint8_t    spacing;
    int64_t    strides[TD_MAX_DIMS];    /* bytes, of the loop's dimensions */
} td_native_run;

enum { TD_NATIVE_STEPS = 192, TD_NATIVE_PARAMS = 128, TD_NATIVE_STAGES = 12 };
typedef struct td_native_loop {
    int            n_steps, n_runs, n_numbered, n_params;
    bool           reduces;
    int            ndim;                /* the last dimension is a row's, the one before counts rows */
    int64_t        sizes[TD_MAX_DIMS];
    td_native_step steps[TD_NATIVE_STEPS];
    td_native_run  runs[TD_GROUP_TENSORS];
    td_scalar      params[TD_NATIVE_PARAMS];
} td_native_loop;

/* What a compiled loop is: `steps` are each run's bytes from row to row, and then each run's elements along a row. */
typedef void td_native_function(int64_t rows, int64_t width, char *const *runs, const int64_t *steps, const td_scalar *params, char *scratch);

/* The group as a loop; false if it is none that is printed. */
bool  td_native_describe(td_native_loop *loop, const td_group *g, const td_region *r);
/* Its source, for td_formula_text_free; `saved`: how many elements of 8 bytes, for each of a row, it wants as scratch. */
char *td_native_print(const td_native_loop *loop, int *saved);

/* A loop that is being built or is there. */
typedef enum td_native_state { TD_NATIVE_COLD, TD_NATIVE_QUEUED, TD_NATIVE_BUILT, TD_NATIVE_GOOD, TD_NATIVE_BAD } td_native_state;
typedef struct td_native_plan td_native_plan;
/* In the background: the plan's source becomes a function, or a reason why not. */
void td_native_build_later(td_native_plan *p);

struct td_native_plan {
    td_native_plan     *next, *queued;
    uint64_t            hash;
    size_t              key_size;
    char               *key, *source, *compiler;    /* compiler: NULL for the one that is found */
    int                 state, saved;
    int                 number;
    bool                cached;
    td_native_function *function;
    char                path[512], why[256];
    int64_t             runs, native_runs;
    int                 measured[2];                /* how often, and the least nanoseconds per element, by tier 1 and 2 */
    double              best[2];
};

/* The file of a source that was compiled: whether it is there; its folder is made, and nobody else can write it. */
bool td_native_cache_folder(char *folder, size_t size);
void td_native_cache_trim(const char *folder, int64_t budget);

typedef enum td_native_outcome { TD_NATIVE_FAILED = -1, TD_NATIVE_DONE, TD_NATIVE_DECLINED } td_native_outcome;
/* The plans' part of what a process has counted. */
void td_native_count(td_region_stats *stats);
/* `tier1` does the group by slabs, as the caller does what is declined. */
td_native_outcome td_native_run_group(td_group *g, td_region *r, int (*tier1)(td_group *g, td_region *r));

#endif
