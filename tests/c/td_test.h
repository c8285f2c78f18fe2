/* The C tests' harness: include it, write TD_TESTs, link; there is a main() in here.
 *
 * TD_TEST(name) { ... } is a test; its name is a sentence that is true when it passes.  A check that fails is reported
 * and leaves the test, so what a test holds must be dropped by itself (TD_AUTO) or be dropped before.  After each test
 * no block may be alive that wasn't before; what the library makes once and keeps is told from a leak by
 * running the test again.
 *
 * `program [-v] [words...]` runs the tests whose names contain one of the words; `--fail-allocations` instead
 * runs each test again and again with its n-th allocation failing, once and lastingly.  The error must then
 * reach the test and nothing may leak.  In that mode
 *  - TRY(x) leaves the test if x is NULL (or -1, for an int) because of it, and gives x otherwise;
 *  - a CHECK that fails while TD_E_MEMORY is pending leaves the test without complaint;
 *  - CHECK_FAILS is content with TD_E_MEMORY.
 * Outside of it, TRY is a check that x isn't NULL (or -1). */
#ifndef TD_TEST_H
#define TD_TEST_H

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tede/base.h>
#include <tede/memory.h>

struct td_test {
    const char *name;
    void (*body)(void);
    struct td_test *next;
};

/* One set of these per program, however many files of tests it is linked from. */
__attribute__((weak)) struct td_test *td_test_first, **td_test_end;
__attribute__((weak)) int td_test_complaints;          /* about the test that runs */
__attribute__((weak)) bool td_test_failing;            /* --fail-allocations */
__attribute__((weak)) const char *td_test_program;

#define TD_TEST(test)                                                              \
    static void test_##test(void);                                                 \
    __attribute__((constructor)) static void add_##test(void)                      \
    {                                                                              \
        static struct td_test self = {#test, test_##test, NULL};                   \
        *(td_test_end ? td_test_end : &td_test_first) = &self;                     \
        td_test_end = &self.next;                                                  \
    }                                                                              \
    static void test_##test(void)

__attribute__((unused, format(printf, 3, 4)))
static void td_test_complain(const char *file, int line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s:%d: ", file, line);
    vfprintf(stderr, format, arguments);
    if (td_error_code() != TD_OK)
        fprintf(stderr, " [pending error %d: %s]", td_error_code(), td_error_message());
    fputc('\n', stderr);
    va_end(arguments);
    td_test_complaints++;
}

/* Whether a failure here is the one that we asked for. */
__attribute__((unused)) static bool td_test_excused(void)
{
    return td_test_failing && td_error_code() == TD_E_MEMORY;
}

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            if (!td_test_excused())                                                \
                td_test_complain(__FILE__, __LINE__, "not so: %s", #condition);    \
            return;                                                                \
        }                                                                          \
    } while (0)

/* Integers, pointers: what can be shown as an int64. */
#define CHECK_EQ(value, expected)                                                  \
    do {                                                                           \
        int64_t value_ = (int64_t)(value), expected_ = (int64_t)(expected);        \
        if (value_ != expected_) {                                                 \
            if (!td_test_excused())                                                \
                td_test_complain(__FILE__, __LINE__, "%s is %" PRId64 ", not %" PRId64, #value, value_,        \
                                 expected_);                                       \
            return;                                                                \
        }                                                                          \
    } while (0)

/* |value - expected| <= tolerance; NaN is near NaN. */
#define CHECK_NEAR(value, expected, tolerance)                                     \
    do {                                                                           \
        double value_ = (value), expected_ = (expected);                           \
        if (!(fabs(value_ - expected_) <= (tolerance)) && value_ != expected_ &&   \
            !(value_ != value_ && expected_ != expected_)) {                       \
            if (!td_test_excused())                                                \
                td_test_complain(__FILE__, __LINE__, "%s is %.17g, not %.17g", #value, value_, expected_); \
            return;                                                                \
        }                                                                          \
    } while (0)

#define CHECK_STR(value, expected)                                                 \
    do {                                                                           \
        const char *value_ = (value), *expected_ = (expected);                     \
        if (!value_ || strcmp(value_, expected_) != 0) {                           \
            if (!td_test_excused())                                                \
                td_test_complain(__FILE__, __LINE__, "%s is '%s', not '%s'", #value, value_ ? value_ : "NULL", expected_); \
            return;                                                                \
        }                                                                          \
    } while (0)

__attribute__((unused))
static bool td_test_failed_with(const char *file, int line, const char *text, int64_t result, td_code code,
                                const char *const *parts)
{
    if (td_test_excused())
        return false;
    if (td_error_code() == TD_OK) {
        td_test_complain(file, line, "%s doesn't fail", text);
        return false;
    }
    if (result != 0 && result != -1)
        td_test_complain(file, line, "%s fails but gives %" PRId64, text, result);
    if (td_error_code() != code)
        td_test_complain(file, line, "%s fails with code %d, not %d", text, td_error_code(), code);
    for (; *parts; parts++)
        if (!strstr(td_error_message(), *parts))
            td_test_complain(file, line, "%s fails without saying '%s'", text, *parts);
    td_error_clear();
    return true;
}

/* `expression` (a pointer or an int) fails with this code, and its message contains each of the strings. */
#define CHECK_FAILS(expression, code, ...)                                         \
    do {                                                                           \
        td_error_clear();                                                          \
        __auto_type result_ = (expression);                                        \
        const char *const parts_[] = {__VA_ARGS__ __VA_OPT__(,) NULL};             \
        if (!td_test_failed_with(__FILE__, __LINE__, #expression, (int64_t)result_, code, parts_)) \
            return;                                                                \
    } while (0)

#define TRY(expression)                                                            \
    ({                                                                             \
        __auto_type result_ = (expression);                                        \
        if (_Generic(result_, int: (int64_t)result_ == -1, default: (int64_t)result_ == 0)) { \
            if (!td_test_excused())                                                \
                td_test_complain(__FILE__, __LINE__, "%s fails", #expression);     \
            return;                                                                \
        }                                                                          \
        result_;                                                                   \
    })

static uint64_t td_test_alive(void)
{
    struct td_memory_stats stats;
    td_memory_stats(&stats);
    return stats.live_blocks;
}

/* How many blocks a run of the test leaves behind. */
static int64_t td_test_run(struct td_test *test)
{
    uint64_t before = td_test_alive();
    td_error_clear();
    test->body();
    td_error_clear();
    return (int64_t)(td_test_alive() - before);
}

static bool td_test_passes(struct td_test *test)
{
    td_test_complaints = 0;
    int64_t left = td_test_run(test);
    if (left && !td_test_complaints)
        left = td_test_run(test);
    if (left && !td_test_complaints)
        td_test_complain(test->name, 0, "%" PRId64 " blocks are still alive", left);
    return td_test_complaints == 0;
}

static bool td_test_survives(struct td_test *test)
{
    struct td_memory_stats before, after;
    td_test_complaints = 0;
    td_test_failing = true;     /* already here: tests that do less when it is set would else be counted too high */
    td_test_run(test);
    td_memory_stats(&before);
    td_test_run(test);
    td_memory_stats(&after);
    uint64_t allocations = after.allocations - before.allocations;
    for (uint64_t n = 1; n <= allocations && !td_test_complaints; n += n < 200 ? 1 : n / 8)
        for (int lastingly = 0; lastingly < 2 && !td_test_complaints; lastingly++) {
            uint64_t alive = td_test_alive();
            td_error_clear();
            td_memory_fail_at(n, lastingly);
            test->body();
            td_memory_fail_at(0, false);
            td_error_clear();
            if (td_test_alive() != alive)
                td_test_complain(test->name, 0, "%" PRId64 " blocks leak", (int64_t)(td_test_alive() - alive));
            if (td_test_complaints)
                fprintf(stderr, "%s: with allocation %" PRIu64 " of %" PRIu64 " failing %s\n", test->name, n, allocations,
                        lastingly ? "lastingly" : "once");
        }
    td_test_failing = false;
    return td_test_complaints == 0;
}

__attribute__((weak)) int main(int count, char **arguments)
{
    bool verbose = false, failing = false;
    int words = 0, passed = 0, failed = 0;
    td_test_program = arguments[0];
    for (int i = 1; i < count; i++)
        if (strcmp(arguments[i], "-v") == 0)
            verbose = true;
        else if (strcmp(arguments[i], "--fail-allocations") == 0)
            failing = true;
        else
            words++;
    for (struct td_test *test = td_test_first; test; test = test->next) {
        bool chosen = words == 0;
        for (int i = 1; i < count; i++)
            chosen = chosen || (arguments[i][0] != '-' && strstr(test->name, arguments[i]));
        if (!chosen)
            continue;
        if (verbose)
            fprintf(stderr, "%s\n", test->name);
        bool passes = failing ? td_test_survives(test) : td_test_passes(test);
        if (!passes)
            fprintf(stderr, "FAILED: %s\n", test->name);
        *(passes ? &passed : &failed) += 1;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return failed != 0;
}

#endif
