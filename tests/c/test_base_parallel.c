/* td_parallel_for, and the processor. */
#include "td_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

struct cover {
    int64_t begin, end, grain;
    atomic_uchar *seen;
    atomic_int wrong;
};

static void cover_body(void *context, int64_t from, int64_t to)
{
    struct cover *c = context;
    if (from < c->begin || to > c->end || from >= to)
        c->wrong++;
    if ((from - c->begin) % c->grain || (to != c->end && (to - from) % c->grain))
        c->wrong++;
    for (int64_t i = from; i < to; i++)
        c->seen[i - c->begin]++;
}

/* How many indices are missed or met twice, or ranges badly cut. */
static int uncovered(int64_t begin, int64_t end, int64_t grain)
{
    int64_t count = end > begin ? end - begin : 0;
    struct cover c = {begin, end, grain, calloc((size_t)count + 1, 1), 0};
    td_parallel_for(begin, end, grain, cover_body, &c);
    int wrong = c.wrong;
    for (int64_t i = 0; i < count; i++)
        wrong += c.seen[i] != 1;
    wrong += c.seen[count] != 0;
    free(c.seen);
    return wrong;
}

TD_TEST(every_index_is_met_exactly_once)
{
    int before = td_num_threads();
    for (int threads = 1; threads <= 5; threads++) {
        TRY(td_set_num_threads(threads));
        CHECK_EQ(td_num_threads(), threads);
        for (int64_t grain = 1; grain < 100; grain += 1 + grain / 2)
            for (int64_t count = -1; count < 700; count += 1 + count / 3)
                CHECK_EQ(uncovered(-13, -13 + count, grain), 0);
        CHECK_EQ(uncovered(0, 300000, 1000), 0);
    }
    TRY(td_set_num_threads(before));
}

static void count_body(void *context, int64_t from, int64_t to)
{
    atomic_fetch_add((atomic_llong *)context, to - from);
}

TD_TEST(extreme_ranges_are_cut_without_overflow)
{
    atomic_llong sum = 0;
    td_parallel_for(INT64_MIN, INT64_MAX, INT64_C(1) << 56, count_body, &sum);
    CHECK_EQ((uint64_t)sum, UINT64_MAX);
    sum = 0;
    td_parallel_for(INT64_MIN, INT64_MAX, INT64_MAX, count_body, &sum);
    CHECK_EQ((uint64_t)sum, UINT64_MAX);
    sum = 0;
    td_parallel_for(0, 100, -5, count_body, &sum);
    CHECK_EQ(sum, 100);
    td_parallel_for(5, INT64_MIN, 1, count_body, &sum);
    CHECK_EQ(sum, 100);
}

static void nested_body(void *context, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        td_parallel_for(0, 100, 1, count_body, context);
}

TD_TEST(nested_loops_run_in_place)
{
    atomic_llong sum = 0;
    td_parallel_for(0, 200, 1, nested_body, &sum);
    CHECK_EQ(sum, 200 * 100);
    CHECK(!td_in_parallel());
}

static void *loop_many(void *context)
{
    for (int i = 0; i < 3000; i++)
        td_parallel_for(0, 64, 1, count_body, context);
    return NULL;
}

TD_TEST(many_threads_may_loop_at_once)
{
    atomic_llong sum = 0;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, loop_many, &sum), 0);
    loop_many(&sum);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(sum, INT64_C(5) * 3000 * 64);
}

static void set_threads_body(void *context, int64_t from, int64_t to)
{
    count_body(context, from, to);
    if (td_set_num_threads(1 + (int)(from % 4)) != 0)
        atomic_fetch_add((atomic_llong *)context, 1000000);
}

TD_TEST(the_number_of_threads_may_change_while_a_loop_runs)
{
    int before = td_num_threads();
    for (int i = 0; i < 100; i++) {
        atomic_llong sum = 0;
        TRY(td_set_num_threads(3));
        td_parallel_for(0, 100, 1, set_threads_body, &sum);
        CHECK_EQ(sum, 100);
    }
    TRY(td_set_num_threads(before));
}

TD_TEST(fewer_than_one_thread_is_an_error)
{
    int before = td_num_threads();
    CHECK(before >= 1);
    CHECK_FAILS(td_set_num_threads(0), TD_E_RUNTIME, "set_num_threads expects a positive integer");
    CHECK_FAILS(td_set_num_threads(-3), TD_E_RUNTIME, "-3");
    CHECK_EQ(td_num_threads(), before);
}

TD_TEST(a_forked_child_loops_with_workers_of_its_own)
{
    if (getenv("TEDE_EMULATED"))    /* qemu-user 7.2 ends a child whose parent had threads */
        return;
    int before = td_num_threads();
    TRY(td_set_num_threads(3));
    atomic_llong sum = 0;
    td_parallel_for(0, 1000, 1, count_body, &sum);
    for (int i = 0; i < 5; i++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(60);
            sum = 0;
            for (int j = 0; j < 20; j++)
                td_parallel_for(0, 1000, 1, count_body, &sum);
            _exit(sum == 20 * 1000 ? 0 : 1);
        }
        int status;
        td_parallel_for(0, 1000, 1, count_body, &sum);
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    TRY(td_set_num_threads(before));
}

TD_TEST(instruction_set_levels_have_names)
{
    CHECK_STR(td_isa_name(-1), "unknown");
    CHECK_STR(td_isa_name(77), "unknown");
    CHECK(td_cpu_isa() >= 0 && strcmp(td_isa_name(td_cpu_isa()), "unknown") != 0);
    const char *forced = getenv("TEDE_CPU");
    if (forced && strcmp(forced, td_isa_name(0)) == 0)
        CHECK_EQ(td_cpu_isa(), 0);
#if defined(__aarch64__)
    CHECK_STR(td_isa_name(0), "neon");
    CHECK_STR(td_isa_name(1), "sve");
#elif defined(__x86_64__)
    CHECK_STR(td_isa_name(0), "v2");
    CHECK_STR(td_isa_name(1), "v3");
    CHECK_STR(td_isa_name(2), "v4");
    CHECK(td_cpu_isa() < 1 || __builtin_cpu_supports("avx2"));
    CHECK(td_cpu_isa() < 2 || __builtin_cpu_supports("avx512vl"));
    if (!forced)
        CHECK(td_cpu_isa() == 2 || !__builtin_cpu_supports("avx512vl"));
#endif
}

static void fill_body(void *context, int64_t from, int64_t to)
{
    double *out = context;
    for (int64_t i = from; i < to; i++)
        out[i] = sin((double)i);
}

TD_TEST(results_are_the_same_bits_with_any_number_of_threads)
{
    enum { N = 20000 };
    static double one[N], many[N];
    int before = td_num_threads();
    TRY(td_set_num_threads(1));
    td_parallel_for(0, N, 64, fill_body, one);
    TRY(td_set_num_threads(4));
    td_parallel_for(0, N, 64, fill_body, many);
    TRY(td_set_num_threads(before));
    CHECK(memcmp(one, many, sizeof one) == 0);
}
