/* A scanner of JSON text; see json.c. */
#ifndef TD_IO_JSON_H
#define TD_IO_JSON_H
#include <tede/base.h>

typedef struct td_json {
    const char *begin, *p, *end;
    char       *text;               /* where the next string goes */
} td_json;

/* Record an error at the place that the scanner has reached; -1. */
int  td_json_bad(const td_json *s, const char *format, ...) TD_PRINTF(2, 3);
/* The next character that is no space; 0 at the end. */
char td_json_peek(td_json *s);
int  td_json_expect(td_json *s, char c);
/* Between the members of an object or array: 1 if there is another, 0 at the closing bracket, -1. */
int  td_json_another(td_json *s, char close, bool first);
/* A string: what it stands for, in UTF-8, stays in the text block.  NUL characters are errors. */
int  td_json_string(td_json *s, const char **value);
/* A whole number from 0 to 2^63 - 1, which is all that shapes and places can be. */
int  td_json_number(td_json *s, int64_t *value);
/* Any value, for fields that later versions of a format may bring. */
int  td_json_skip(td_json *s);

#endif
