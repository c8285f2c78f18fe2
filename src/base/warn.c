/* Warnings: a line on stderr, unless a binding takes them over. */
#include <tede/modes.h>
#include "base/base.h"
#include "base/warn.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

static int print_warning(const char *message, void *context)
{
    (void)context;
    fprintf(stderr, "tede: warning: %s\n", message);
    return 0;
}

/* A handler and its context are exchanged together, under the lock, since any thread may warn at any time. */
static pthread_mutex_t      lock = PTHREAD_MUTEX_INITIALIZER;
static td_warning_handler *handler = print_warning;
static void               *handler_context;

void td_set_warning_handler(td_warning_handler *new_handler, void *context)
{
    pthread_mutex_lock(&lock);
    handler = new_handler ? new_handler : print_warning;
    handler_context = context;
    pthread_mutex_unlock(&lock);
}

_Thread_local bool td_warned_before;

static int warn(const char *format, va_list arguments)
{
    if (td_warned_before)
        return 0;
    char message[1024];
    vsnprintf(message, sizeof message, format, arguments);
    pthread_mutex_lock(&lock);
    td_warning_handler *handle = handler;
    void *context = handler_context;
    pthread_mutex_unlock(&lock);
    return handle(message, context);
}

int td_warn(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int result = warn(format, arguments);
    va_end(arguments);
    return result;
}

static bool always;

void td_set_warn_always(bool on) { __atomic_store_n(&always, on, __ATOMIC_RELAXED); }
bool td_warn_always(void) { return __atomic_load_n(&always, __ATOMIC_RELAXED); }

int td_warn_once(bool *warned, const char *format, ...)
{
    if (__atomic_exchange_n(warned, true, __ATOMIC_RELAXED) && !td_warn_always())
        return 0;
    va_list arguments;
    va_start(arguments, format);
    int result = warn(format, arguments);
    va_end(arguments);
    return result;
}
