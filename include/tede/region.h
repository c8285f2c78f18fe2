/* tede/region.h: regions, in which calls are recorded and done late.
 *
 * Between td_region_begin and td_region_end the thread's operators check their arguments and describe their results as ever, but
 * elements are computed when somebody needs them: a value is read, a storage's address is asked for, or the region ends. What nobody
 * needs isn't computed, and what was recorded may be done together. */
#ifndef TEDE_REGION_H
#define TEDE_REGION_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_region_stats {
    uint64_t regions;               /* that have ended, nested ones not counted */
    uint64_t recorded_calls;
    uint64_t dropped_calls;         /* of which nobody needed a result */
    uint64_t fused_calls;           /* that were done in one pass together with others */
    uint64_t early_flushes;         /* before the region's end, since a value was needed */
    uint64_t plans;                 /* groups of calls, told apart by what they compute and not by sizes, that a compiler may make a loop of */
    uint64_t compiled_plans;        /* of which there is a compiled loop */
    uint64_t discarded_plans;       /* that can't be compiled, or whose loop gave other results */
    uint64_t cache_hits;            /* whose loop was on disk */
    uint64_t compiled_groups;       /* groups that such loops have done */
} td_region_stats;

/* How a region's groups are computed. Tier 1: by the loops that are there, with the results that calls one by one have. Tier 2: by loops that a C compiler
 * makes, as soon as there are any. 0: tier 1, and for what comes again the quicker one. `compiler`: the program's name; NULL: what
 * TEDE_COMPILER names, else cc. Where that is there and names nothing, 0 is tier 1. */
typedef struct td_region_options {
    size_t      size;               /* sizeof(td_region_options) where it was compiled: it may grow at the end */
    int         tier;
    const char *compiler;
} td_region_options;

/* A plan: how often it ran, and how often as a compiled loop; its state ("cold", "building", "built", "compiled", "discarded"), the file of its source, or
 * "", and why it is discarded. Texts are borrowed and stay. */
typedef struct td_region_plan { const char *state, *source, *why; uint64_t runs, compiled_runs; } td_region_plan;

/* Regions nest: what is in an inner one belongs to the outermost. -1 with an error. */
TD_API int  td_region_begin(void) TD_MUST_USE;
TD_API int  td_region_begin_with(const td_region_options *options) TD_MUST_USE;
/* Compute what is late. -1 with the error of what computes it; the region has ended in either case. */
TD_API int  td_region_end(void) TD_MUST_USE;
TD_API bool td_region_on(void);
/* Threads of a program that are in a region only while they hold a lock of the program's own, as Python's do, can use what another thread's region
 * has yet to compute: whoever holds the lock may compute it. Without a lock such a use is an error. The functions stay. */
typedef struct td_region_lock {
    void *(*take)(void);                    /* if the thread hasn't it; the result is for give_back */
    void  (*give_back)(void *taken);
    void *(*let_go)(void);                  /* by who has it, to wait for a thread that may need it; the result is for take_again */
    void  (*take_again)(void *let_go);
} td_region_lock;
TD_API void td_region_set_lock(const td_region_lock *lock);
/* Compute what other threads' regions have recorded; by who holds the lock. An error belongs to the region, whose thread gets it when it next needs
 * a value, or at the end. */
TD_API void td_region_settle_others(void);
/* Whether this thread's last region did all its groups as it will do them again: none was new, being compiled, or measured. */
TD_API bool td_region_settled(void);
/* How many bytes of all tensors a part of joined calls takes, and the least that is worth joining; 0: what suits the processor's
 * caches. For measurements and tests. */
TD_API void td_region_set_slab(size_t bytes, size_t least);
/* Of the process, since it began. */
TD_API td_region_stats td_region_counts(void);
/* Plan i of the process; false if there are fewer. */
TD_API bool td_region_plan_at(int i, td_region_plan *plan);

#ifdef __cplusplus
}
#endif
#endif
