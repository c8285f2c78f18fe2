/* Inside the groups: what group.c and work.c share. */
#ifndef TD_GROUP_GROUP_H
#define TD_GROUP_GROUP_H
#include <pthread.h>
#include <tede/group.h>
#include "base/base.h"

struct td_group {
    const td_group_engine *engine;
    void   *handle;                     /* the engine's */
    char   *name;
    int     rank, size;
    double  timeout;
    int64_t refcount;
    bool    crowded;
    char   *failed;                     /* why, once it has; set once and kept, so that it can be read without a lock */
};

/* What is at hand of an operand while its work goes on. `copy`: neighbouring elements, where those of x aren't. */
typedef struct td_operand {
    td_tensor *x, *copy;
} td_operand;

typedef enum td_work_state { TD_WORK_PENDING, TD_WORK_DONE, TD_WORK_FAILED } td_work_state;
typedef struct td_done { void (*done)(void *context); void *context; struct td_done *next; } td_done;
struct td_work {
    td_group       *group;
    void           *request;            /* NULL as soon as it isn't pending any more */
    pthread_mutex_t lock;               /* of all that changes but the counts and the state */
    int64_t         refcount;
    int             state;              /* td_work_state */
    td_collective   kind;
    int             root, source;
    int64_t         began, deadline, gone_since, asked;         /* nanoseconds; 0: not */
    int             gone;               /* the rank */
    td_code         code;               /* of the failure */
    char           *message;
    td_done        *callbacks;
    td_work        *next;               /* of those that are moved on while nobody waits */
    int             n_from, n_operands;
    td_operand      operands[];
};

extern const td_group_engine td_engine_alone;
extern const char *const td_collective_names[TD_COLLECTIVES];
/* It fails from now on; what is said is kept the first time. */
void td_group_set_failed(td_group *group, const char *why);

/* Let the thread move the work on. */
int  td_work_later(td_work *work);
/* Ends the thread; whether work was left. */
bool td_work_end(void);
#endif
