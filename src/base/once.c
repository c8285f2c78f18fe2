/* Lazy one-time initialization, by one thread while the others wait: see once.h.
 *
 * A state is 0, TD_ONCE_DONE, or the number of the process that is making it: a child counts on from its parent, so that what
 * a thread of the parent was making is nobody's there. */
#include "base/once.h"
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  changed = PTHREAD_COND_INITIALIZER;
static uint32_t        process = TD_ONCE_DONE + 1;
static bool            forks_watched;

static void in_child(void)
{
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&changed, NULL);
    process++;
}

int td_once_slow(td_once *once, int (*make)(void))
{
    int status = 0;
    pthread_mutex_lock(&lock);
    if (!forks_watched)
        forks_watched = pthread_atfork(NULL, NULL, in_child) == 0;
    while (once->state == process)
        pthread_cond_wait(&changed, &lock);
    if (once->state != TD_ONCE_DONE) {
        __atomic_store_n(&once->state, process, __ATOMIC_RELAXED);
        pthread_mutex_unlock(&lock);
        status = make();
        pthread_mutex_lock(&lock);
        __atomic_store_n(&once->state, status == 0 ? TD_ONCE_DONE : 0, __ATOMIC_RELEASE);
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&lock);
    return status;
}
