/* A string builder: what printers write to. */
#ifndef TD_FORMULA_TEXT_H
#define TD_FORMULA_TEXT_H
#include <stdarg.h>
#include <stddef.h>

/* Starts as zeros.  Without memory it stays as it is and `failed` is set, so that writers needn't check each line. */
typedef struct td_text {
    char  *data;
    size_t used, room;
    int    failed;
} td_text;

void td_text_put(td_text *t, const char *text, size_t length);
void td_text_add(td_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text as a string for td_formula_text_free, or NULL with an error; `t` is empty again. */
char *td_text_end(td_text *t);
void  td_text_drop(td_text *t);

#endif
