/* Warnings: a line on stderr, unless a binding takes them over. */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>

static int print_warning(const char *message, void *context)
{
    (void)context;
    fprintf(stderr, "tede: warning: %s\n", message);
    return 0;
}

static td_warning_handler *handler = print_warning;
static void               *handler_context;

void td_set_warning_handler(td_warning_handler *new_handler, void *context)
{
    handler = new_handler ? new_handler : print_warning;
    handler_context = context;
}

int td_warn(const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return handler(message, handler_context);
}
