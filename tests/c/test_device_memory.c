/* What the core makes of a device with streams: memory that is kept in their order, counted and limited; streams, events and page-locked
 * memory.  The device here is the CPU; its streams do nothing until an event of theirs is waited for. */
#include "td_test.h"
#include "tensor_helpers.h"

#include <tede/device.h>
#include <tede/ops.h>

enum { MIB = 1 << 20 };
static int    segments, frees, host_blocks, waits;      /* pieces that the device has handed out; how often something was done */
static bool   late;                                     /* events stay in the future until somebody waits */
static size_t available = (size_t)1 << 32;

static int count(void) { return 2; }
static void *take(td_device d, size_t n)
{
    void *p = n <= available ? malloc(n) : NULL;
    if (!p)
        return td_fail(TD_E_MEMORY, "late:%d has no %zu bytes", d.index, n);
    segments++;
    return p;
}
static void drop(td_device d, void *p, size_t n)
{
    (void)d, (void)n;
    segments--, frees++;
    free(p);
}
static int transfer(td_device d, void *stream, td_device to_device, void *to, td_device from_device, const void *from, size_t n, bool later)
{
    (void)d, (void)stream, (void)to_device, (void)from_device, (void)later;
    memcpy(to, from, n);
    return 0;
}
static int copy(td_device to_device, void *to, td_device from_device, const void *from, size_t n)
{
    return transfer(to_device, NULL, to_device, to, from_device, from, n, false);
}
static int fill(td_device d, void *stream, void *to, uint8_t byte, size_t n)
{
    (void)d, (void)stream;
    memset(to, byte, n);
    return 0;
}
static int memory_info(int index, size_t *unused, size_t *total)
{
    (void)index;
    *unused = available, *total = (size_t)1 << 32;
    return 0;
}
static void *host_alloc(size_t n)
{
    void *p = malloc(n);
    host_blocks += p != NULL;
    return p;
}
static void host_free(void *p, size_t n)
{
    (void)n;
    host_blocks--;
    free(p);
}
static void *stream_new(td_device d, int priority)
{
    static int streams[16];
    static int used;
    (void)d, (void)priority;
    return used < 16 ? &streams[used++] : td_fail(TD_E_RUNTIME, "late: there are 16 streams");
}
static void stream_free(td_device d, void *s) { (void)d, (void)s; }
static int stream_synchronize(td_device d, void *s)
{
    (void)d, (void)s;
    waits++;
    return 0;
}
static void *event_new(td_device d, bool timed)
{
    (void)d, (void)timed;
    return calloc(1, sizeof(bool));
}
static void event_free(td_device d, void *e)
{
    (void)d;
    free(e);
}
static int event_record(td_device d, void *e, void *s)
{
    (void)d, (void)s;
    *(bool *)e = !late;
    return 0;
}
static int event_wait(td_device d, void *e, void *s) { return (void)d, (void)e, (void)s, 0; }
static int event_synchronize(td_device d, void *e)
{
    (void)d;
    *(bool *)e = true;
    return 0;
}
static int event_query(td_device d, void *e) { return (void)d, *(bool *)e || !late; }
static int event_time(td_device d, void *from, void *to, double *milliseconds) { return (void)d, (void)from, (void)to, *milliseconds = 1, 0; }

static const td_device_library table = {
    .abi = TD_DEVICE_ABI, .size = sizeof table, .name = "late", .count = count, .alloc = take, .free = drop, .copy = copy, .memory_info = memory_info,
    .host_alloc = host_alloc, .host_free = host_free, .stream_new = stream_new, .stream_free = stream_free, .stream_synchronize = stream_synchronize,
    .transfer = transfer, .fill = fill, .event_new = event_new, .event_free = event_free, .event_record = event_record, .event_wait = event_wait,
    .event_synchronize = event_synchronize, .event_query = event_query, .event_time = event_time,
};

static td_device device(void)
{
    static int type = -1;
    if (type < 0)
        type = td_device_register(&table);
    return (td_device){(int8_t)type, 0};
}
static td_device_memory stats(void)
{
    td_device_memory s = {0};
    if (td_device_memory_stats(device(), &s))
        s.limit = (uint64_t)-1;
    return s;
}
static void close_storage(td_storage **s) { td_storage_release(*s); }
#define BLOCK __attribute__((cleanup(close_storage))) td_storage *

/* Before each test: nothing is kept from the one before. */
static bool fresh(void)
{
    late = false;
    available = (size_t)1 << 32;
    return device().type >= 0 && td_device_empty_cache(device()) == 0 && td_device_memory_reset_peak(device()) == 0;
}

TD_TEST(a_freed_block_is_the_next_one_of_its_stream)
{
    CHECK(fresh());
    td_storage *x = td_storage_new(device(), 1000);
    if (!x)
        return;
    void *at = td_storage_data(x);
    CHECK(stats().allocated == 1024 && stats().reserved == 2 * MIB && stats().blocks == 1);
    td_storage_release(x);
    CHECK(stats().allocated == 0 && stats().reserved == 2 * MIB);
    CHECK(stats().peak_blocks == 1 && stats().total_reserved >= 2 * MIB && stats().total_reserved - stats().total_returned == stats().reserved);
    CHECK(stats().allocations - stats().frees == stats().blocks && stats().device_allocations - stats().device_frees == stats().segments);
    BLOCK again = td_storage_new(device(), 700);
    CHECK(td_test_failing || (again && td_storage_data(again) == at && stats().allocated == 1024));
}

TD_TEST(blocks_are_cut_from_segments_and_joined_again)
{
    CHECK(fresh());
    const int before = segments;
    {
        BLOCK a = td_storage_new(device(), MIB / 2);
        BLOCK b = td_storage_new(device(), MIB / 2);
        BLOCK c = td_storage_new(device(), MIB / 2);
        if (!a || !b || !c)
            return;
        CHECK(segments == before + 1 && stats().blocks == 3);
    }
    {
        BLOCK whole = td_storage_new(device(), MIB);
        CHECK(td_test_failing || (whole && segments == before + 1));
    }
    CHECK(td_device_empty_cache(device()) == 0 && segments == before && stats().reserved == 0);
}

TD_TEST(a_block_that_another_stream_uses_waits_for_it)
{
    CHECK(fresh());
    td_stream *other = td_stream_new(device(), 0);
    TD_AUTO td_tensor *x = td_tensor_new(1, (int64_t[]){300}, TD_F32, device());
    if (!other || !x)
        return td_stream_release(other);
    void *at = td_tensor_data(x);
    int status = td_stream_uses(other, x);
    late = true;
    td_tensor_release(x);
    x = td_tensor_new(1, (int64_t[]){300}, TD_F32, device());
    const bool waited = x && status == 0 && td_tensor_data(x) != at;
    late = false;
    TD_AUTO td_tensor *y = td_tensor_new(1, (int64_t[]){300}, TD_F32, device());
    td_stream_release(other);
    CHECK(td_device_empty_cache(device()) == 0);        /* what waits holds an event */
    CHECK(td_test_failing || (waited && y && td_tensor_data(y) == at));
}

TD_TEST(streams_have_memory_of_their_own_and_are_used_again)
{
    CHECK(fresh());
    td_stream *other = td_stream_new(device(), 0), *first = td_stream_first(device());
    td_storage *x = td_storage_new(device(), 1000);
    if (!other || !x) {
        td_storage_release(x);
        return td_stream_release(other);
    }
    void *at = td_storage_data(x);
    td_storage_release(x);
    int status = td_stream_set_current(other);
    BLOCK y = td_storage_new(device(), 1000);
    CHECK(td_test_failing || (!status && y && td_storage_data(y) != at && td_stream_current(device()) == other && td_stream_id(other) > 0));
    CHECK(td_stream_set_current(first) == 0 && td_stream_current(device()) == first && td_stream_id(first) == 0);
    td_stream_release(other);
    td_stream *again = td_stream_new(device(), 0);
    CHECK(again == other);
    td_stream_release(again);
    td_stream *next = td_stream_next(first);
    CHECK(next && td_stream_id(next) == 1);             /* they are listed in the order in which they were made */
    while (next && next != other)
        next = td_stream_next(next);
    CHECK(next == other);
}

TD_TEST(memory_that_is_short_is_taken_from_the_cache_then_refused)
{
    CHECK(fresh());
    td_storage *x = td_storage_new(device(), 30 * MIB);
    if (!x)
        return;
    CHECK(td_device_set_memory_limit(device(), 40 * MIB) == 0);
    CHECK_FAILS(td_storage_new(device(), 20 * MIB), TD_E_MEMORY, "late:0 out of memory. Tried to allocate 20.00 MiB", "40.00 MiB allowed");
    td_storage_release(x);
    const uint64_t retries = stats().retries;
    {
        BLOCK y = td_storage_new(device(), 32 * MIB);       /* for which the first one goes back to the device */
        CHECK(td_test_failing || (y && stats().retries == retries + 1 && stats().reserved == 32 * MIB && stats().failures));
    }
    CHECK(td_device_set_memory_limit(device(), 0) == 0 && td_device_empty_cache(device()) == 0);
    available = 5 * MIB;
    BLOCK small = td_storage_new(device(), 4 * MIB);        /* a segment would have 20 MiB */
    CHECK(td_test_failing || (small && stats().reserved == 4 * MIB));
    size_t unused, total;
    CHECK(td_device_memory_info(device(), &unused, &total) == 0 && unused == 5 * MIB);
}

TD_TEST(events_happen_in_their_stream)
{
    CHECK(fresh());
    td_event *a = td_event_new(device(), true), *b = td_event_new(device(), true);
    if (a && b) {
        double ms = 0;
        td_stream *stream = td_stream_first(device());
        CHECK(td_event_query(a) == 1 && td_event_synchronize(a) == 0);
        CHECK_FAILS(td_event_time(a, b, &ms), TD_E_VALUE, "must be recorded");
        late = true;
        CHECK(td_event_record(a, stream) == 0 && td_event_query(a) == 0);
        CHECK(td_event_wait(a, stream) == 0 && td_event_synchronize(a) == 0 && td_event_query(a) == 1);
        late = false;
        CHECK(td_event_record(b, stream) == 0 && td_event_time(a, b, &ms) == 0 && ms == 1);
        td_stream *elsewhere = td_stream_first((td_device){device().type, 1});
        CHECK_FAILS(td_event_record(a, elsewhere), TD_E_RUNTIME, "does not match");
        td_event *c = td_event_new(device(), false);    /* belongs to the index that it is first recorded on */
        CHECK(!c || (td_event_record(c, elsewhere) == 0 && td_event_query(c) == 1));
        if (c)
            CHECK_FAILS(td_event_record(c, stream), TD_E_RUNTIME, "does not match");
        td_event_release(c);
    }
    td_event_release(a);
    td_event_release(b);
    CHECK_FAILS(td_stream_first((td_device){TD_CPU, -1}), TD_E_VALUE, "not to cpu");
}

TD_TEST(page_locked_memory_is_kept)
{
    CHECK(fresh());
    td_storage *x = td_storage_pinned(device(), 5000);
    if (!x)
        return;
    void *at = td_storage_data(x);
    CHECK(td_storage_is_pinned(x) && td_storage_device(x).type == TD_CPU && host_blocks == 1);
    td_storage_release(x);
    BLOCK y = td_storage_pinned(device(), 8000);
    CHECK(td_test_failing || (y && td_storage_data(y) == at && host_blocks == 1));
    BLOCK none = td_storage_new((td_device){TD_CPU, -1}, 100);
    CHECK(td_test_failing || !td_storage_is_pinned(none));
}

TD_TEST(a_table_may_end_early_but_has_whole_groups)
{
    td_device_library short_table = table;
    short_table.name = "short", short_table.size = offsetof(td_device_library, properties);
    int type = td_device_register(&short_table);
    if (type >= 0) {        /* nothing behind that is seen: memory comes from the device itself */
        int before = segments;
        BLOCK x = td_storage_new((td_device){(int8_t)type, 0}, 100);
        CHECK(td_test_failing || (x && segments == before + 1));
    }
    td_device_library wrong = table;
    wrong.name = "wrong", wrong.event_time = NULL;
    CHECK_FAILS(td_device_register(&wrong) < 0 ? NULL : &wrong, TD_E_RUNTIME, "'event_time'");
    wrong = table, wrong.name = "wrong", wrong.size = 16;
    CHECK_FAILS(td_device_register(&wrong) < 0 ? NULL : &wrong, TD_E_RUNTIME, "too short");
}
