/* Blocks of whole pages: see spans.c.  Every function here wants the heap's lock, which td_heap_lock takes. */
#ifndef TD_BASE_SPANS_H
#define TD_BASE_SPANS_H

#include "base/base.h"

enum { TD_PAGE = 4096 };

/* What is known of a stretch of pages.  One per page of a chunk, of which the first of a run counts; a kept mapping has
 * one in its own first bytes. */
struct td_run {
    struct td_run *next, *prev;          /* in its bin; of a slab: in its class's list */
    union {
        struct { struct td_run *newer, *older; };            /* free, in order of time, while it holds memory */
        struct { void *blocks; uint32_t used, carved; };     /* a slab: see alloc.c */
    };
    uint64_t pages;
    uint64_t touched;                    /* how many of them hold memory; of a run in use: held it when it was taken */
    uint32_t first;                      /* the index of the run's first page: kept in the last one, in all of a slab */
    uint32_t time;                       /* when it was freed */
    bool free, listed, mapping;
};

extern struct td_spans {
    uint64_t reserved;                   /* bytes mapped */
    uint64_t kept;                       /* bytes of free memory that is held */
    uint64_t most_kept;                  /* more than that goes back at once */
} td_spans;

void td_heap_lock(void);
void td_heap_unlock(void);

/* How many bytes a block of `size` bytes really takes; at most an eighth more, 0 if that overflows. */
size_t td_span_size(size_t size);
/* NULL if the system has no more; no error is recorded.  `zeroed`: whether it holds zeros. */
void *td_span_alloc(size_t size, bool *zeroed);
void  td_span_free(void *block, size_t size);
/* A run for small blocks, which td_slab_of finds from any address in it. */
struct td_run *td_slab_new(size_t size);
void           td_slab_free(struct td_run *slab);
struct td_run *td_slab_of(const void *block);
void          *td_slab_start(const struct td_run *slab);
/* Give back free memory, the longest unused first, until at most `keep` bytes are held; with `idle`, only
 * what nobody used for some seconds. */
void td_spans_release(uint64_t keep);
void td_spans_release_idle(void);

#endif
