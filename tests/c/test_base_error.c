/* Errors: what is recorded, and when it goes away. */
#include "td_test.h"

#include <pthread.h>

TD_TEST(a_new_thread_has_no_error)
{
    CHECK_EQ(td_error_code(), TD_OK);
    CHECK_STR(td_error_message(), "");
}

TD_TEST(a_failure_leaves_code_and_message_until_it_is_cleared)
{
    CHECK(td_fail(TD_E_VALUE, "size %d of '%s'", 3, "x") == NULL);
    CHECK_EQ(td_error_code(), TD_E_VALUE);
    CHECK_STR(td_error_message(), "size 3 of 'x'");
    CHECK_EQ(td_error(TD_E_TYPE, "other"), -1);
    CHECK_EQ(td_error_code(), TD_E_TYPE);
    CHECK_STR(td_error_message(), "other");
    td_error_clear();
    CHECK_EQ(td_error_code(), TD_OK);
    CHECK_STR(td_error_message(), "");
}

TD_TEST(a_message_may_quote_the_one_it_replaces)
{
    td_error(TD_E_INDEX, "inner");
    td_error(TD_E_INDEX, "outer: %s", td_error_message());
    CHECK_STR(td_error_message(), "outer: inner");
}

TD_TEST(a_long_message_is_cut_and_shows_it)
{
    char text[5000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    td_error(TD_E_RUNTIME, "%s", text);
    size_t length = strlen(td_error_message());
    CHECK(length >= 1000 && length < 5000);
    CHECK_STR(td_error_message() + length - 4, "x...");
    td_error(TD_E_RUNTIME, "short");
    CHECK_STR(td_error_message(), "short");
}

static void *fail_elsewhere(void *unused)
{
    (void)unused;
    return td_error_code() == TD_OK ? td_fail(TD_E_KEY, "theirs") : "an error came along";
}

TD_TEST(errors_belong_to_threads)
{
    td_error(TD_E_IO, "ours");
    pthread_t thread;
    void *complaint;
    CHECK_EQ(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, &complaint);
    CHECK(complaint == NULL);
    CHECK_EQ(td_error_code(), TD_E_IO);
    CHECK_STR(td_error_message(), "ours");
}

static int dropped;

static void drop(void *object)
{
    dropped += *(int *)object;
}

static void drop_and_fail(void *object)
{
    drop(object);
    td_error(TD_E_RUNTIME, "while dropping");
}

TD_TEST(a_foreign_object_travels_once_and_is_dropped_otherwise)
{
    int object = 1;
    dropped = 0;
    CHECK_EQ(td_error_foreign(&object, drop, "ValueError: no"), -1);
    CHECK_EQ(td_error_code(), TD_E_FOREIGN);
    CHECK_STR(td_error_message(), "ValueError: no");
    CHECK(td_error_take_foreign() == &object);
    CHECK_EQ(dropped, 0);
    CHECK_EQ(td_error_code(), TD_OK);
    CHECK(td_error_take_foreign() == NULL);

    td_error_foreign(&object, drop, "cleared");
    td_error_clear();
    CHECK_EQ(dropped, 1);
    td_error_foreign(&object, drop, "replaced");
    td_error(TD_E_VALUE, "by this");
    CHECK_EQ(dropped, 2);
    CHECK(td_error_take_foreign() == NULL);
    CHECK_STR(td_error_message(), "by this");
    td_error_foreign(&object, drop_and_fail, NULL);
    td_error(TD_E_VALUE, "stays");
    CHECK_EQ(dropped, 3);
    CHECK_STR(td_error_message(), "stays");
}

static void *leave_with_foreign(void *object)
{
    td_error_foreign(object, drop, "left pending");
    return NULL;
}

TD_TEST(a_thread_that_ends_drops_what_its_error_carries)
{
    int object = 1;
    pthread_t thread;
    dropped = 0;
    CHECK_EQ(pthread_create(&thread, NULL, leave_with_foreign, &object), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(dropped, 1);
}
