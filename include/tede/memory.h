/* tede/memory.h: where the library's memory goes, limits to it, and failing on purpose.
 *
 * Freed blocks are kept for reuse, because fresh pages are dear: at most max(64 MB, what `peak` is above
 * `allocated`), and for some idle seconds.  TEDE_NO_CACHE=1 in the environment sends every block to the C library, for tools that watch blocks.
 * Blocks are rounded up to a size class (by at most an eighth beyond 1 KB, to 16 or 64 bytes below); all figures count
 * rounded sizes. */
#ifndef TEDE_MEMORY_H
#define TEDE_MEMORY_H
#include <tede/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct td_memory_stats {
    uint64_t allocated;      /* bytes in live blocks */
    uint64_t peak;           /* the most that `allocated` was, since the start or td_memory_reset_peak; blocks of at
                              * most 32 KB enter it when their thread's cache is refilled or emptied */
    uint64_t reserved;       /* bytes mapped from the operating system */
    uint64_t kept;           /* bytes of free blocks that are kept for reuse, without the threads' small caches */
    uint64_t live_blocks;
    uint64_t allocations;    /* blocks handed out since the start */
    uint64_t failures;       /* requests that failed since the start, on purpose or not */
    uint64_t limit;          /* 0: none */
};

/* Exact for what happened before the call; what other threads do meanwhile may or may not be in it. */
TD_API void td_memory_stats(struct td_memory_stats *stats);
TD_API void td_memory_reset_peak(void);
/* Give free blocks back to the operating system: all kept ones and the calling thread's small ones. */
TD_API void td_empty_cache(void);

/* The most bytes that may be live; a request beyond it fails with TD_E_MEMORY.  0: no limit.  At first what the
 * environment's TEDE_MEMORY_LIMIT says: bytes, or a number with K, M or G.  Small blocks are held against it as their
 * caches are refilled. */
TD_API uint64_t td_memory_limit(void);
TD_API void     td_set_memory_limit(uint64_t bytes);

/* Tests: let the n-th allocation from now fail (1 is the next one), whichever thread asks for it; once, or with
 * `lastingly` all after it too.  0 ends it. */
TD_API void td_memory_fail_at(uint64_t n, bool lastingly);

#ifdef __cplusplus
}
#endif
#endif
