/* What is made at its first use is made by one thread, waited for by the others, and tried again when it failed. */
#include "../td_test.h"
#include "base/once.h"
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

enum { THREADS = 8 };
static td_once once;
static int made, value, fail;

static int make(void)
{
    made++;
    for (int i = 0; i < 100; i++)
        sched_yield();
    if (fail-- > 0)
        return td_error(TD_E_MEMORY, "not this time");
    value = 42;
    return 0;
}
static void *come(void *seen)
{
    *(int *)seen = td_once_run(&once, make) == 0 ? value : -1;
    td_error_clear();
    return NULL;
}
static void begin(int failures) { once = (td_once){0}, made = value = 0, fail = failures; }

TD_TEST(one_thread_makes_it_and_all_see_it)
{
    pthread_t threads[THREADS];
    int seen[THREADS];
    begin(0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, come, &seen[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK(seen[i] == 42);
    }
    CHECK(made == 1);
}

TD_TEST(who_comes_after_a_failure_tries_again)
{
    pthread_t threads[THREADS];
    int seen[THREADS], failed = 0;
    begin(3);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, come, &seen[i]) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        failed += seen[i] != 42;
    }
    CHECK(failed == 3 && made == 4 && td_once_run(&once, make) == 0 && made == 4);
}

static int inner(void) { return td_once_run(&once, make); }
TD_TEST(what_is_made_may_need_another)
{
    td_once outer = {0};
    begin(1);
    CHECK_FAILS(td_once_run(&outer, inner), TD_E_MEMORY, "not this time");
    CHECK(td_once_run(&outer, inner) == 0 && value == 42 && made == 2);
}

static int let_go[2];
static int wait_for_word(void)
{
    char word;
    made++;
    return read(let_go[0], &word, 1) == 1 ? 0 : -1;
}
static void *come_and_wait(void *unused)
{
    (void)unused;
    td_once_run(&once, wait_for_word);
    return NULL;
}
/* A thread of the parent that is at it isn't there in the child. */
TD_TEST(a_child_makes_what_a_thread_of_its_parent_was_making)
{
    pthread_t thread;
    int status;
    begin(0);
    CHECK(pipe(let_go) == 0 && pthread_create(&thread, NULL, come_and_wait, NULL) == 0);
    while (!__atomic_load_n(&once.state, __ATOMIC_ACQUIRE))
        sched_yield();
    pid_t child = fork();
    if (child == 0)
        _exit(td_once_run(&once, make) == 0 && value == 42 ? 7 : 1);
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CHECK(write(let_go[1], "", 1) == 1 && pthread_join(thread, NULL) == 0);
    CHECK(once.state == TD_ONCE_DONE && value == 0);
    close(let_go[0]), close(let_go[1]);
}

static const int constants[] = {1, 2};
static int computed;
static const int *second(void) { return computed++, &constants[1]; }
static const int *kept(void) { return TD_KEPT(second()); }
TD_TEST(a_constant_is_looked_for_once)
{
    const int *found = kept();
    CHECK(*found == 2 && kept() == found && computed == 1);
}

