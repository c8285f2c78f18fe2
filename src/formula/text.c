/* A string builder, and strings that are returned to callers: these have their size in front, since blocks are freed with it. */
#include "formula/text.h"

#include <stdio.h>
#include <string.h>
#include <tede/formula.h>
#include "base/base.h"

void td_text_put(td_text *t, const char *text, size_t length)
{
    if (t->failed)
        return;
    if (t->used + length > t->room) {
        size_t room = 2 * t->room + length + 256;
        char *data = td_mem_realloc(t->data, t->room, room);
        if (!data) {
            t->failed = 1;
            return;
        }
        t->data = data;
        t->room = room;
    }
    if (length)         /* else there may be no data */
        memcpy(t->data + t->used, text, length);
    t->used += length;
}

void td_text_add(td_text *t, const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (n < 0 || (size_t)n >= sizeof line)
        t->failed = 1;
    else
        td_text_put(t, line, (size_t)n);
}

void td_text_drop(td_text *t)
{
    td_mem_free(t->data, t->room);
    *t = (td_text){0};
}

char *td_text_end(td_text *t)
{
    size_t size = sizeof size + t->used + 1;
    char *block = t->failed ? NULL : td_mem_alloc(size);
    if (block) {
        memcpy(block, &size, sizeof size);
        memcpy(block + sizeof size, t->data, t->used);
        block[size - 1] = 0;
    }
    td_text_drop(t);
    return block ? block + sizeof size : (td_error(TD_E_MEMORY, "no memory for a formula's text"), NULL);
}

void td_formula_text_free(char *text)
{
    size_t size;
    if (!text)
        return;
    memcpy(&size, text - sizeof size, sizeof size);
    td_mem_free(text - sizeof size, size);
}
