/* Work: what a call becomes, from its beginning until somebody knows how it ended.
 *
 * An engine only says whether a request is done, and moves requests on when it is asked.  So somebody must ask.  Who waits does it himself, which
 * is fastest: nothing has to be woken.  For work that goes on while the program computes there is a thread; it sleeps while there is none, and asks
 * less often while somebody waits, since that moves all requests.
 *
 * A wait tests at once and again for some microseconds, then sleeps between two tests, at first as shortly as the kernel can.  Where more ranks are on
 * the machine than it has cores, testing again only keeps the others from answering, so it sleeps from the start.  It doesn't yield: who yields comes
 * after all others that want the core, where one that has slept comes before them. */
#include "group/group.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <tede/kernel.h>
#include <time.h>

#define US 1000LL
#define MS 1000000LL
enum { ASK_GONE = 5 };                  /* milliseconds between two looks at whether a rank's process has ended, and at the caller's check */
#define SPINS     (50 * US)             /* how long a wait asks without a pause, */
#define NAPS      (2 * MS)              /* and how long it sleeps as shortly as it can */
#define NAP       (1 * US)
#define LONG_NAP  (20 * US)             /* where ranks share cores: who wakes too often uses up his share of one, and waits for a slice of others */
#define GRACE     (250 * MS)            /* what a rank has sent before its end arrives within it */
#define PUT_OFF   (1000 * MS)           /* how long what an engine has put off waits for the program to make the next call or to ask */

static void sleep_for(int64_t nanoseconds) { nanosleep(&(struct timespec){nanoseconds / 1000000000, nanoseconds % 1000000000}, NULL); }

/* ---- the end of work */

static void drop_operands(td_work *work)
{
    for (int i = 0; i < work->n_operands; i++) {
        td_tensor_release(work->operands[i].copy);
        td_tensor_release(work->operands[i].x);
        work->operands[i] = (td_operand){0};
    }
}

static int copy_back(td_work *work)
{
    for (int i = work->n_from; i < work->n_operands; i++)
        if (work->operands[i].copy && td_copy_elements(work->operands[i].x, work->operands[i].copy))
            return -1;
    return 0;
}

/* The pending error becomes the work's. With its lock. */
static void keep_error(td_work *work)
{
    const char *text = td_error_message();
    work->code = td_error_code() == TD_OK ? TD_E_RUNTIME : td_error_code();
    if ((work->message = malloc(strlen(text) + 1)))
        strcpy(work->message, text);
    td_error_clear();
}

/* With its lock; an error is pending. What can't be taken back may still be written: its operands stay for good. A group of which ranks have begun
 * a call that others haven't is out of step from then on. */
static void fail(td_work *work)
{
    keep_error(work);
    const bool back = work->request && work->group->engine->release(work->group->handle, work->request);
    work->request = NULL;
    if (back)
        drop_operands(work);
    if (!back || (work->kind != TD_SEND && work->kind != TD_RECV))
        td_group_set_failed(work->group, work->message ? work->message : "out of memory");
    __atomic_store_n(&work->state, TD_WORK_FAILED, __ATOMIC_RELEASE);
}

/* Takes the callbacks that are due, in the order in which they were added. With the lock. */
static td_done *take_callbacks(td_work *work)
{
    td_done *in_order = NULL, *next;
    for (td_done *c = work->callbacks; c; c = next)
        next = c->next, c->next = in_order, in_order = c;
    work->callbacks = NULL;
    return in_order;
}
static void call_back(td_done *callbacks)
{
    for (td_done *next, *c = callbacks; c; c = next) {
        next = c->next;
        c->done(c->context);
        free(c);
    }
}

static const char *peer(const td_work *work, char *text, size_t room)
{
    const bool one = work->kind == TD_SEND || work->kind == TD_RECV;
    if (one && work->root >= 0)
        snprintf(text, room, " %s rank %d", work->kind == TD_SEND ? "to" : "from", work->root);
    else
        *text = 0;
    return text;
}

/* Whether waiting still has sense; if not, -1 with an error. With the lock. */
static int look(td_work *work, int64_t now)
{
    char with[32];
    const td_group *group = work->group;
    const char *name = td_collective_names[work->kind];
    const char *failed = __atomic_load_n(&group->failed, __ATOMIC_ACQUIRE);
    if (failed)
        return td_error(TD_E_RUNTIME, "%s: group '%s' has failed: %s", name, group->name, failed);
    if (now >= work->deadline)
        return td_error(TD_E_RUNTIME, "group '%s', rank %d of %d: Timed out waiting %lldms for %s operation to complete%s", group->name, group->rank,
                        group->size, (long long)((work->deadline - work->began) / MS), name, peer(work, with, sizeof with));
    if (now - work->asked < ASK_GONE * MS || !group->engine->gone)
        return 0;
    work->asked = now;
    if (!work->gone_since) {
        work->gone = group->engine->gone(group->handle, work->kind == TD_SEND || work->kind == TD_RECV ? work->root : -1);
        work->gone_since = work->gone >= 0 ? now : 0;
    } else if (now - work->gone_since > GRACE) {
        return td_error(TD_E_RUNTIME, "Connection closed by peer: rank %d of group '%s' has ended, and %s on rank %d can't be done without it", work->gone,
                        group->name, name, group->rank);
    }
    return 0;
}

/* 1, 0 or -1 (no error is recorded: see raise). `looking`: also whether waiting has sense; `flushing`: what was put off begins. */
static int ask(td_work *work, bool looking, bool flushing)
{
    int state = __atomic_load_n(&work->state, __ATOMIC_ACQUIRE);
    if (state != TD_WORK_PENDING)
        return state == TD_WORK_DONE ? 1 : -1;
    td_done *due = NULL;
    pthread_mutex_lock(&work->lock);
    if (work->state == TD_WORK_PENDING) {
        const td_group_engine *engine = work->group->engine;
        const bool flushed = !flushing || !engine->flush || engine->flush(work->group->handle) == 0;
        const int done = flushed ? engine->test(work->group->handle, work->request, &work->source) : -1;
        if (done > 0) {
            work->request = NULL;
            if (copy_back(work))
                fail(work);
            else
                __atomic_store_n(&work->state, TD_WORK_DONE, __ATOMIC_RELEASE);
            drop_operands(work);
        } else if (done < 0 || (looking && look(work, td_nanoseconds()))) {
            fail(work);
        }
        if (work->state != TD_WORK_PENDING)
            due = take_callbacks(work);
    }
    state = work->state;
    pthread_mutex_unlock(&work->lock);
    call_back(due);
    return state == TD_WORK_PENDING ? 0 : state == TD_WORK_DONE ? 1 : -1;
}

static int raise(td_work *work) { return td_error(work->code, "%s", work->message ? work->message : "out of memory"); }

int td_work_test(td_work *work)
{
    const int done = work ? ask(work, true, true) : -1;
    return work && done < 0 ? raise(work) : done;
}

td_work *td_work_retain(td_work *work)
{
    if (work)
        __atomic_add_fetch(&work->refcount, 1, __ATOMIC_RELAXED);
    return work;
}
/* Work that is dropped while it goes on is held by the thread, which it is handed to here if it hasn't been before. */
void td_work_release(td_work *work)
{
    if (!work || __atomic_sub_fetch(&work->refcount, 1, __ATOMIC_ACQ_REL))
        return;
    if (__atomic_load_n(&work->state, __ATOMIC_ACQUIRE) == TD_WORK_PENDING) {
        __atomic_store_n(&work->refcount, 1, __ATOMIC_RELEASE);
        if (td_work_later(work) == 0)
            td_work_release(work);
        return;                 /* without a thread it is lost, and its operands stay */
    }
    drop_operands(work);
    pthread_mutex_destroy(&work->lock);
    free(work->message);
    td_group_release(work->group);
    td_mem_free(work, sizeof *work + sizeof(td_operand) * (size_t)work->n_operands);
}
int td_work_source(const td_work *work) { return work->source; }

int td_work_then(td_work *work, void (*done)(void *context), void *context)
{
    td_done *made = malloc(sizeof *made);
    if (!made)
        return td_error(TD_E_MEMORY, "no memory for a callback");
    *made = (td_done){done, context, NULL};
    pthread_mutex_lock(&work->lock);
    const bool pending = work->state == TD_WORK_PENDING;
    if (pending)
        made->next = work->callbacks, work->callbacks = made;
    pthread_mutex_unlock(&work->lock);
    if (!pending)
        call_back(made);
    return 0;
}

/* ---- waiting */

static int waiting;                     /* threads that do */

int td_work_wait(td_work *work, double seconds, int (*check)(void *context), void *context)
{
    if (!work)
        return -1;
    int done = ask(work, false, true);
    if (done)
        return done > 0 ? 0 : raise(work);
    const int64_t start = td_nanoseconds(), end = seconds > 0 ? start + (int64_t)(seconds * 1e9) : INT64_MAX;
    const int64_t spins = work->group->crowded ? 0 : SPINS;
    int64_t checked = start, pause = 20 * US;
    int stopped = 0, slack = 0;             /* by how much the kernel may prolong a thread's sleep; 0: not asked yet */
    __atomic_add_fetch(&waiting, 1, __ATOMIC_RELAXED);
    while (!(done = ask(work, false, true))) {
        const int64_t now = td_nanoseconds(), waited = now - start;
        if (waited < spins)
            continue;
        if ((done = ask(work, true, true)))
            break;
        if (now >= end) {
            stopped = td_error(TD_E_RUNTIME, "Wait timeout: %s isn't done after %lldms (group '%s', rank %d of %d)", td_collective_names[work->kind],
                               (long long)(seconds * 1e3), work->group->name, work->group->rank, work->group->size);
            break;
        }
        if (check && now - checked > ASK_GONE * MS) {
            checked = now;
            if ((stopped = check(context)))
                break;
        }
        if (!slack && (slack = prctl(PR_GET_TIMERSLACK)) > 0)
            prctl(PR_SET_TIMERSLACK, NAP);
        if (waited < NAPS)
            sleep_for(work->group->crowded ? LONG_NAP : NAP);
        else
            sleep_for(pause), pause = pause < 200 * US ? pause + pause / 8 : pause;
    }
    if (slack > 0)
        prctl(PR_SET_TIMERSLACK, slack);
    __atomic_sub_fetch(&waiting, 1, __ATOMIC_RELAXED);
    return stopped ? -1 : done > 0 ? 0 : raise(work);
}

/* ---- the thread */

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  news = PTHREAD_COND_INITIALIZER;
static td_work        *pending;
static pthread_t       thread;
static bool            running, stopping;

/* Asks all of the list once. Whether one of them was done, or had been moved, which takes longer than asking in vain. `ending`: nobody makes more calls.
 *
 * The thread may come between two calls of the program's, so it doesn't begin what was put off to go together with the next one. */
static bool ask_all(bool ending)
{
    bool moved = false;
    pthread_mutex_lock(&list_lock);
    td_work *all = pending, *left = NULL, **end = &left;
    pending = NULL;
    pthread_mutex_unlock(&list_lock);
    for (td_work *next, *work = all; work; work = next) {
        next = work->next;
        work->next = NULL;
        const int64_t before = td_nanoseconds();
        if (ask(work, true, ending || before - work->began > PUT_OFF)) {
            td_work_release(work);
            moved = true;
        } else {
            *end = work, end = &work->next;
            moved |= td_nanoseconds() - before > 5 * US;
        }
    }
    pthread_mutex_lock(&list_lock);
    *end = pending, pending = left;
    pthread_mutex_unlock(&list_lock);
    return moved;
}

static void *move_on(void *unused)
{
    int idle = 0;
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&list_lock);
        while (!pending && !stopping)
            pthread_cond_wait(&news, &list_lock), idle = 0;
        const bool stop = stopping;
        pthread_mutex_unlock(&list_lock);
        if (stop)
            return NULL;
        idle = ask_all(false) ? 0 : idle + 1;
        const bool others = __atomic_load_n(&waiting, __ATOMIC_RELAXED);
        if (idle)
            sleep_for(others || idle > 2000 ? MS : 50 * US);
    }
}

int td_work_later(td_work *work)
{
    pthread_mutex_lock(&list_lock);
    if (!running && !stopping)
        running = pthread_create(&thread, NULL, move_on, NULL) == 0;
    if (running) {
        td_work_retain(work);
        work->next = pending;
        pending = work;
        pthread_cond_signal(&news);
    }
    pthread_mutex_unlock(&list_lock);
    return running ? 0 : td_error(TD_E_RUNTIME, "%s: no thread could be started to move it on", td_collective_names[work->kind]);
}

/* What is done but hasn't been asked since isn't left. */
bool td_work_end(void)
{
    pthread_mutex_lock(&list_lock);
    const bool was = running;
    stopping = true;
    pthread_cond_signal(&news);
    pthread_mutex_unlock(&list_lock);
    if (was)
        pthread_join(thread, NULL);
    running = stopping = false;
    ask_all(true);
    return pending != NULL;
}
