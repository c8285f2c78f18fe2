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
} td_region_stats;

/* Regions nest: what is in an inner one belongs to the outermost. -1 with an error. */
TD_API int  td_region_begin(void) TD_MUST_USE;
/* Compute what is late. -1 with the error of what computes it; the region has ended in either case. */
TD_API int  td_region_end(void) TD_MUST_USE;
TD_API bool td_region_on(void);
/* How many bytes of all tensors a part of joined calls takes, and the least that is worth joining; 0: what suits the processor's
 * caches. For measurements and tests. */
TD_API void td_region_set_slab(size_t bytes, size_t least);
/* Of the process, since it began. */
TD_API td_region_stats td_region_counts(void);

#ifdef __cplusplus
}
#endif
#endif
