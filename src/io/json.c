/* A scanner of JSON text, for headers of known shape.
 *
 * Whoever reads a header knows what must come next and asks for it; there is no tree of values, and nothing recurses. Text
 * that is wrong is an error that says at which byte.  Strings are decoded into the caller's block; as large as the text
 * suffices, since an escape is longer than what it stands for and the two quotes leave room for the NUL. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "io/json.h"
#include "io/text.h"

enum { MOST_DEPTH = 64 };

int td_json_bad(const td_json *s, const char *format, ...)
{
    char what[200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return td_error(TD_E_VALUE, "safetensors: byte %td of the header: %s", s->p - s->begin, what);
}

char td_json_peek(td_json *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
    return s->p < s->end ? *s->p : 0;
}
int td_json_expect(td_json *s, char c)
{
    if (td_json_peek(s) != c)
        return td_json_bad(s, s->p < s->end ? "'%c' expected" : "it ends where '%c' should follow", c);
    s->p++;
    return 0;
}

int td_json_another(td_json *s, char close, bool first)
{
    char c = td_json_peek(s);
    if (c == close) {
        s->p++;
        return 0;
    }
    if (first)
        return 1;
    if (c != ',')
        return td_json_bad(s, s->p < s->end ? "',' or '%c' expected" : "it ends where ',' or '%c' should follow", close);
    s->p++;
    return 1;
}

static int hex4(td_json *s, uint32_t *value)
{
    *value = 0;
    for (int i = 0; i < 4; i++, s->p++) {
        char c = s->p < s->end ? *s->p : 0;
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        if (digit < 0)
            return td_json_bad(s, "four hexadecimal digits expected behind \\u");
        *value = *value << 4 | (uint32_t)digit;
    }
    return 0;
}

static int escape(td_json *s)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char c = s->p < s->end ? *s->p++ : 0;
    const char *found = c ? strchr(from, c) : NULL;
    if (found) {
        *s->text++ = to[found - from];
        return 0;
    }
    uint32_t u, low;
    if (c != 'u')
        return s->p--, td_json_bad(s, "no such escape");
    if (hex4(s, &u) != 0)
        return -1;
    if (u >= 0xd800 && u < 0xdc00) {
        if (s->end - s->p < 2 || s->p[0] != '\\' || s->p[1] != 'u')
            return td_json_bad(s, "half of a surrogate pair");
        s->p += 2;
        if (hex4(s, &low) != 0)
            return -1;
        if (low < 0xdc00 || low > 0xdfff)
            return td_json_bad(s, "half of a surrogate pair");
        u = 0x10000 + ((u - 0xd800) << 10) + (low - 0xdc00);
    } else if (u >= 0xdc00 && u < 0xe000) {
        return td_json_bad(s, "half of a surrogate pair");
    }
    if (u == 0)
        return td_json_bad(s, "a NUL character in a string");
    if (u < 0x80) {
        *s->text++ = (char)u;
        return 0;
    }
    int more = u < 0x800 ? 1 : u < 0x10000 ? 2 : 3;
    *s->text++ = (char)((int[]){0xc0, 0xe0, 0xf0}[more - 1] | (int)(u >> 6 * more));
    while (more--)
        *s->text++ = (char)(0x80 | (u >> 6 * more & 0x3f));
    return 0;
}

int td_json_string(td_json *s, const char **value)
{
    if (td_json_expect(s, '"') != 0)
        return -1;
    *value = s->text;
    while (s->p < s->end && *s->p != '"') {
        int n = utf8_length(s->p, s->end);
        if (n == 0)
            return td_json_bad(s, "invalid UTF-8");
        if ((unsigned char)*s->p < 0x20)
            return td_json_bad(s, "a control character in a string");
        if (*s->p == '\\') {
            s->p++;
            if (escape(s) != 0)
                return -1;
        } else {
            memcpy(s->text, s->p, (size_t)n);
            s->text += n, s->p += n;
        }
    }
    if (s->p == s->end)
        return td_json_bad(s, "it ends inside a string");
    s->p++;
    *s->text++ = 0;
    return 0;
}

int td_json_number(td_json *s, int64_t *value)
{
    td_json_peek(s);
    const char *first = s->p;
    *value = 0;
    for (; s->p < s->end && *s->p >= '0' && *s->p <= '9'; s->p++)
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *s->p - '0', value))
            return td_json_bad(s, "a number beyond 2^63 - 1");
    bool odd = s->p < s->end && (*s->p == '.' || (*s->p | 32) == 'e');
    if (s->p == first || odd || (*first == '0' && s->p - first > 1))
        return s->p = first, td_json_bad(s, "a whole number from 0 on expected");
    return 0;
}

int td_json_skip(td_json *s)
{
    uint64_t objects = 0;           /* bit d: the d-th open bracket is a brace */
    int depth = 0;
    const char *ignored;
    char *kept = s->text;
    do {
        char c = td_json_peek(s);
        if (c == '{' || c == '[') {
            if (depth == MOST_DEPTH)
                return td_json_bad(s, "nested more than %d deep", MOST_DEPTH);
            objects = objects << 1 | (c == '{');
            depth++, s->p++;
            if (td_json_peek(s) != (c == '{' ? '}' : ']')) {
                if (c == '{' && (td_json_string(s, &ignored) != 0 || td_json_expect(s, ':') != 0))
                    return -1;
                continue;
            }
        } else if (c == '"') {
            if (td_json_string(s, &ignored) != 0)
                return -1;
        } else {
            const char *first = s->p;
            while (s->p < s->end && (strchr("+-.", *s->p) ? *s->p != 0 : (*s->p >= '0' && *s->p <= '9') ||
                                                           ((*s->p | 32) >= 'a' && (*s->p | 32) <= 'z')))
                s->p++;
            if (s->p == first)
                return td_json_bad(s, "a value expected");
        }
        int more = 0;
        while (depth && (more = td_json_another(s, objects & 1 ? '}' : ']', false)) == 0)
            objects >>= 1, depth--;
        if (more < 0 || (more && (objects & 1) && (td_json_string(s, &ignored) != 0 || td_json_expect(s, ':') != 0)))
            return -1;
    } while (depth);
    s->text = kept;
    return 0;
}
