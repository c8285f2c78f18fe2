/* Errors: one record per thread, made at the thread's first error.
 *
 * The record has a fixed buffer, so reporting that memory ran out needs none.  Should even the record's own
 * few KB be missing, only the code TD_E_MEMORY survives, with a constant message: `lost` below.  What stays in
 * thread-local storage is a pointer and a flag, because a library that is opened late gets little of the kind of
 * thread-local storage that is cheap to reach. */
#include "base/base.h"
#include "base/once.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { TEXT = 2048 };

struct record {
    td_code code;
    void *foreign;
    void (*drop)(void *);
    char text[TEXT];
};

static TD_TLS struct record *mine;
static TD_TLS bool lost;

static pthread_key_t at_thread_end;
static td_once once;

/* Drop the foreign object, if any.  The record is emptied first: `drop` may run code that fails itself. */
static void clear(struct record *r)
{
    void *foreign = r->foreign;
    void (*drop)(void *) = r->drop;
    r->code = TD_OK;
    r->foreign = NULL;
    r->drop = NULL;
    r->text[0] = 0;
    if (foreign && drop)
        drop(foreign);
}

static void end_of_thread(void *record)
{
    clear(record);
    mine = NULL;
    free(record);
}

static int make_key(void) { return pthread_key_create(&at_thread_end, end_of_thread) == 0 ? 0 : -1; }

static struct record *record_of_thread(void)
{
    if (TD_LIKELY(mine != NULL))
        return mine;
    struct record *r = calloc(1, sizeof *r);
    if (r && td_once_run(&once, make_key) == 0)
        pthread_setspecific(at_thread_end, r);
    mine = r;
    return r;
}

/* The message is formatted aside: its arguments may quote the one that it replaces. */
static void put(td_code code, const char *format, va_list arguments)
{
    int saved = errno;
    struct record *r = record_of_thread();
    lost = r == NULL;
    if (r) {
        char text[TEXT];
        int length = vsnprintf(text, sizeof text, format, arguments);
        if (length < 0)
            snprintf(text, sizeof text, "%s", format);
        else if (length >= TEXT)
            memcpy(text + TEXT - 4, "...", 4);
        clear(r);
        r->code = code;
        memcpy(r->text, text, strlen(text) + 1);
    }
    errno = saved;
}

void *td_fail(td_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put(code, format, arguments);
    va_end(arguments);
    return NULL;
}

int td_error(td_code code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    put(code, format, arguments);
    va_end(arguments);
    return -1;
}

td_code td_error_code(void)
{
    return lost ? TD_E_MEMORY : mine ? mine->code : TD_OK;
}

const char *td_error_message(void)
{
    return lost ? "out of memory" : mine ? mine->text : "";
}

void td_error_clear(void)
{
    lost = false;
    if (mine)
        clear(mine);
}

void *td_error_detach(void)
{
    struct record *r = lost ? NULL : mine;
    lost = false;
    if (!r)
        return NULL;
    if (td_once_run(&once, make_key) == 0)
        pthread_setspecific(at_thread_end, NULL);
    mine = NULL;
    return r;
}

int td_error_attach(void *record)
{
    struct record *before = mine;
    lost = record == NULL;
    if (lost)
        return -1;
    if (td_once_run(&once, make_key) == 0)
        pthread_setspecific(at_thread_end, record);
    mine = record;
    if (before) {
        clear(before);
        free(before);
    }
    return -1;
}

int td_error_foreign(void *object, void (*drop)(void *), const char *message)
{
    td_error(TD_E_FOREIGN, "%s", message ? message : "");
    if (mine) {
        mine->foreign = object;
        mine->drop = drop;
    } else if (drop && object) {
        drop(object);
    }
    return -1;
}

void *td_error_take_foreign(void)
{
    if (!mine || !mine->foreign)
        return NULL;
    void *object = mine->foreign;
    mine->foreign = NULL;
    clear(mine);
    return object;
}
