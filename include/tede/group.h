/* tede/group.h: processes that compute together.
 *
 * A group is some processes, its ranks 0 to size - 1, that call the same collectives in the same order.  What moves the numbers is an engine: a
 * table of functions under a name, which a library registers when it is loaded (td_library_load); mpi.so, which comes with tede, is loaded by
 * its first use.  The core checks operands, keeps them while they are in use, waits, and gives up where waiting has no sense:
 *
 *     td_group *all = td_group_new("mpi", &(td_group_options){.size = sizeof(td_group_options), .rank = -1});
 *     if (all && td_group_all_reduce(all, x, TD_REDUCE_SUM)) ...
 *
 * A call is work that goes on by itself.  A thread of the core's moves it while the program computes, and sleeps when there is none; who waits
 * moves it himself.  Waiting ends with an error when the time is over, when the caller's own check says so, and when a rank's process has ended. */
#ifndef TEDE_GROUP_H
#define TEDE_GROUP_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef enum td_reduction {
    TD_REDUCE_SUM, TD_REDUCE_AVG, TD_REDUCE_PRODUCT, TD_REDUCE_MIN, TD_REDUCE_MAX, TD_REDUCE_BAND, TD_REDUCE_BOR, TD_REDUCE_BXOR,
    TD_REDUCE_PREMUL_SUM,               /* the sum of what ranks have, each multiplied by `factor` */
    TD_REDUCTIONS
} td_reduction;

/* What a rank passes (`from`) and what is written (`to`), for a group of n.  With one `to`, it may be the memory of `from`. */
typedef enum td_collective {
    TD_ALL_REDUCE,                      /* 1 from, 1 to */
    TD_BROADCAST,                       /* 1 to, which the root has filled */
    TD_REDUCE,                          /* 1 from; at the root 1 to */
    TD_ALL_GATHER,                      /* 1 from, n to */
    TD_GATHER,                          /* 1 from; at the root n to */
    TD_SCATTER,                         /* at the root n from; 1 to */
    TD_REDUCE_SCATTER,                  /* n from, 1 to */
    TD_ALL_TO_ALL,                      /* n from, n to */
    TD_SEND,                            /* 1 from; `root` is the rank that receives */
    TD_RECV,                            /* 1 to; `root` is the rank that sends, or -1 for any */
    TD_BARRIER,                         /* nothing */
    TD_COLLECTIVES
} td_collective;

/* ---- engines */

#define TD_GROUP_ABI 1

/* Neighbouring elements; `data` is an address of the call's device and may be NULL where count is 0. */
typedef struct td_part {
    void   *data;
    int64_t count;
} td_part;
typedef struct td_engine_call {
    uint32_t       size;                /* sizeof(td_engine_call): it may grow at the end */
    td_collective  kind;
    td_dtype       dtype;
    td_device      device;
    void          *stream;              /* the device's own; NULL on the CPU */
    int            n_from, n_to;
    const td_part *from, *to;           /* lent for the call; the memory they name stays until the request is done */
    td_reduction   reduction;
    double         factor;
    int            root, tag;
} td_engine_call;

typedef struct td_group_options {
    uint32_t    size;                   /* sizeof(td_group_options): it may grow at the end */
    const char *name;                   /* the same on all ranks, another one for each group; NULL: "world" */
    int         rank, n_ranks;          /* of this group; rank -1: as the launcher says */
    const int  *ranks;                  /* the members' numbers among all processes; NULL: all of them, in order */
    int         world_rank, world_size; /* of all processes; read if `address` isn't NULL */
    const char *address;                /* "host:port", where processes find each other; NULL: as the launcher says */
    double      timeout;                /* seconds that work may take; 0: 30 minutes */
} td_group_options;

/* Functions that fail record an error (td_error).  All may be called by any thread, also two at once. */
typedef struct td_group_engine {
    uint32_t    abi;                    /* TD_GROUP_ABI */
    uint32_t    size;                   /* sizeof(td_group_engine): what the table that you were built with has */
    const char *name;                   /* letters, digits and underscores, at most 15: "mpi" */
    uint32_t    devices;                /* a bit for each td_device_type whose memory it moves */

    /* A group: the members call it together, others don't.  Sets rank and n_ranks of the options.  It may block; NULL with an error. */
    void *(*open)(td_group_options *options);
    void  (*close)(void *group);
    /* Begin a call: a request; NULL with an error.  A function that isn't there is refused by name. */
    void *(*call[TD_COLLECTIVES])(void *group, const td_engine_call *call);
    /* Whether it is done: 1, after which it is released; 0; -1 with an error.  `source`: of a receive, the rank that has sent.  Also moves other
     * requests on, as far as that goes without waiting. */
    int   (*test)(void *group, void *request, int *source);
    /* A request that isn't done, or has failed: what can be taken back is (1, and its memory is free again), else 0. */
    int   (*release)(void *group, void *request);
    /* A member whose process has ended, the given one or (-1) any; -1: none is known of.  May be NULL. */
    int   (*gone)(void *group, int rank);
    /* Whether more ranks are on this machine than it has cores, so that who waits should yield.  May be NULL. */
    bool  (*crowded)(void);
    /* At the program's end; `failed`: some group has, so nobody can be waited for.  May be NULL. */
    void  (*end)(bool failed);
    /* Begin what `call` has put off: who made the calls asks for one of them, or has asked for none for a second.  0, or -1 with an error.  May be
     * NULL. */
    int   (*flush)(void *group);
} td_group_engine;

/* The table must stay.  A constructor of a plug-in calls it; an error stays recorded there, where td_library_load finds it. */
TD_API int td_group_register(const td_group_engine *engine);
/* Whether an engine of the name is there, loaded from the folder tede/ beside this library if need be.  No error is recorded. */
TD_API bool td_group_engine_there(const char *name);
/* Ends all engines: what a program does last.  It waits for the others where a launcher demands it, unless this process has `failed`. */
TD_API void td_group_end(bool failed);

/* ---- groups */

typedef struct td_group td_group;
/* Waits for the other members.  NULL with an error. */
TD_API td_group   *td_group_new(const char *engine, const td_group_options *options);
TD_API td_group   *td_group_retain(td_group *group);
TD_API void        td_group_release(td_group *group);               /* NULL is fine; work that isn't done holds its group */
TD_API int         td_group_rank(const td_group *group);
TD_API int         td_group_size(const td_group *group);
TD_API const char *td_group_name(const td_group *group);            /* borrowed */
TD_API double      td_group_timeout(const td_group *group);
TD_API void        td_group_set_timeout(td_group *group, double seconds);
/* All of its work fails from now on, on this rank; others see it by their timeouts, or when this process ends. */
TD_API void        td_group_abort(td_group *group);

/* ---- work */

typedef struct td_work td_work;
typedef struct td_group_call {
    uint32_t          size;             /* sizeof(td_group_call): it may grow at the end */
    td_collective     kind;
    int               n_from, n_to;
    td_tensor *const *from, *const *to; /* borrowed; of one dtype, on one device */
    td_reduction      reduction;
    double            factor;
    int               root, tag;
    double            timeout;          /* seconds; 0: the group's */
    bool              later;            /* it is moved on while nobody waits; else only who waits moves it */
} td_group_call;
/* Begin a call.  Operands whose elements aren't neighbours are copied, and results are copied back when it is done.  NULL with an error. */
TD_API td_work *td_group_start(td_group *group, const td_group_call *call);
TD_API td_work *td_work_retain(td_work *work);
TD_API void     td_work_release(td_work *work);                     /* the work goes on; NULL is fine */
/* 1: it is done, 0: not yet, -1 with its error. */
TD_API int      td_work_test(td_work *work);
/* Wait, at most `seconds` (0: up to its own deadline): 0, or -1 with an error.  `check` (may be NULL) is called every few milliseconds and ends the
 * waiting by anything but 0, with the error that it has recorded; the work goes on then. */
TD_API int      td_work_wait(td_work *work, double seconds, int (*check)(void *context), void *context) TD_MUST_USE;
/* Of a receive that is done, the rank that has sent; -1. */
TD_API int      td_work_source(const td_work *work);
/* Call done(context) once, when the work is done or has failed, by the thread that sees it; at once if it is already. 0, or -1 with an error. */
TD_API int      td_work_then(td_work *work, void (*done)(void *context), void *context) TD_MUST_USE;

/* ---- the common calls, waited for.  0, or -1 with an error. */
TD_API int td_group_all_reduce(td_group *group, td_tensor *x, td_reduction reduction) TD_MUST_USE;      /* in place */
TD_API int td_group_broadcast(td_group *group, td_tensor *x, int root) TD_MUST_USE;
TD_API int td_group_all_gather(td_group *group, td_tensor *const *to, td_tensor *x) TD_MUST_USE;
TD_API int td_group_reduce_scatter(td_group *group, td_tensor *to, td_tensor *const *from, td_reduction reduction) TD_MUST_USE;
TD_API int td_group_send(td_group *group, td_tensor *x, int to) TD_MUST_USE;
TD_API int td_group_recv(td_group *group, td_tensor *x, int from) TD_MUST_USE;
TD_API int td_group_barrier(td_group *group) TD_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
