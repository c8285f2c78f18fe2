/* Regions: calls that are recorded and computed late, <tede/region.h>. */
#include <tede/auto.h>
#include <tede/ops.h>
#include <tede/region.h>
#include "td_test.h"
#include <pthread.h>

enum { N = 40000 };

static td_tensor *numbers(void)
{
    td_tensor *x = td_tensor_new(1, (int64_t[]){N}, TD_F32, TD_DEVICE_NONE);
    for (int64_t i = 0; x && i < N; i++)
        ((float *)td_tensor_data(x))[i] = (float)i / N;
    return x;
}

/* (x x + x) exp(x), whose parts nobody keeps. */
static td_tensor *chain(td_tensor *x)
{
    TD_AUTO td_tensor *square = td_mul(x, x);
    TD_AUTO td_tensor *sum = td_add(square, x);
    TD_AUTO td_tensor *e = td_exp(x);
    return td_mul(sum, e);
}

static bool same(td_tensor *a, td_tensor *b)
{
    const float *p = td_tensor_data(a), *q = td_tensor_data(b);
    return p && q && !memcmp(p, q, N * sizeof *p);
}

TD_TEST(a_region_gives_what_calls_give_one_after_the_other)
{
    TD_AUTO td_tensor *x = TRY(numbers());
    TD_AUTO td_tensor *now = TRY(chain(x));
    const td_region_stats before = td_region_counts();
    TRY(td_region_begin());
    TD_AUTO td_tensor *late = chain(x);
    const int status = td_region_end();
    TRY(late);
    TRY(status);
    const td_region_stats after = td_region_counts();
    CHECK(same(late, now));
    CHECK(after.recorded_calls == before.recorded_calls + 4 && after.fused_calls == before.fused_calls + 4);
    CHECK(!td_region_on());
}

TD_TEST(an_address_is_one_of_elements_that_are_there)
{
    TD_AUTO td_tensor *x = TRY(numbers());
    TD_AUTO td_tensor *now = TRY(chain(x));
    TRY(td_region_begin());
    TD_AUTO td_tensor *late = chain(x);
    const bool right = late && same(late, now);
    const int status = td_region_end();
    TRY(late);
    TRY(status);
    CHECK(right);
}

TD_TEST(a_region_that_nobody_began_does_not_end)
{
    CHECK_FAILS(td_region_end(), TD_E_RUNTIME);
}

/* ---- another thread; a program without a lock is refused, one with a lock (here: nobody else runs) gets the elements. */

typedef struct reading { td_tensor *x; float found; bool failed; } reading;
static void *read_it(void *argument)
{
    reading *r = argument;
    const float *data = td_tensor_data(r->x);
    r->failed = !data;
    r->found = data ? data[N / 2] : 0;
    return NULL;
}
static reading read_elsewhere(td_tensor *x)
{
    reading r = {.x = x, .failed = true};
    pthread_t thread;
    if (x && !pthread_create(&thread, NULL, read_it, &r))
        pthread_join(thread, NULL);
    return r;
}

static int taken, let_go;
static void *take(void) { return taken++, &taken; }
static void give_back(void *was) { taken -= was == &taken; }
static void *let(void) { return &let_go; }
static void take_again(void *was) { let_go += was == &let_go; }

TD_TEST(another_thread_reads_what_is_late_only_with_a_lock)
{
    TD_AUTO td_tensor *x = TRY(numbers());
    TD_AUTO td_tensor *now = TRY(chain(x));
    TRY(td_region_begin());
    TD_AUTO td_tensor *late = chain(x);
    const reading without = read_elsewhere(late);
    td_region_set_lock(&(td_region_lock){take, give_back, let, take_again});
    const reading with = read_elsewhere(late);
    td_region_set_lock(&(td_region_lock){0});
    const int status = td_region_end();
    TRY(late);
    TRY(status);
    CHECK(without.failed && !with.failed && !taken && with.found == ((float *)td_tensor_data(now))[N / 2] && same(late, now));
}
