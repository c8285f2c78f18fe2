/* Error messages for shape mismatches: shapes drawn one under the other behind an error's message, with marks under what is meant. */
#include "tensor/tensor.h"
#include <inttypes.h>
#include <stdio.h>

enum { MOST_DIMS = 12, WIDEST = 19 };

static int digits(int64_t n) { return snprintf(NULL, 0, "%" PRId64, n); }

const char *td_draw_shapes(td_drawn_text text, bool aligned, int n, const td_drawn *shapes)
{
    int ndim = 0, names = 0, used = 0, width[MOST_DIMS] = {0};
    text[0] = 0;
    for (int k = 0; k < n; k++) {
        int length = (int)strlen(shapes[k].name);
        ndim = shapes[k].ndim > ndim ? shapes[k].ndim : ndim;
        names = length > names ? length : names;
    }
    if (ndim > MOST_DIMS)
        return text;
    for (int k = 0; k < n && aligned; k++)
        for (int d = 0; d < shapes[k].ndim; d++) {
            int to = ndim - shapes[k].ndim + d, w = digits(shapes[k].sizes[d]);
            width[to] = w > width[to] ? w : width[to];
        }
    for (int k = 0; k < n; k++) {
        const td_drawn *shape = &shapes[k];
        int column = 4 + names + 2 + 1, mark = column, skipped = aligned ? ndim - shape->ndim : 0;
        if (used + column + (ndim + 1) * (WIDEST + 2) * 2 > TD_DRAWN)
            return text[0] = 0, text;   /* a part of a drawing would mislead */
        used += sprintf(text + used, "\n    %-*s  [", names, shape->name);
        for (int d = -skipped; d < shape->ndim; d++) {
            int w = aligned ? width[d + skipped] : digits(shape->sizes[d]);
            if (d == shape->at)
                mark = column + w - 1;
            column += w + 2;
            if (d < 0)
                used += sprintf(text + used, "%*s", w + 2, "");
            else
                used += sprintf(text + used, "%*" PRId64 "%s", w, shape->sizes[d], d + 1 < shape->ndim ? ", " : "");
        }
        used += sprintf(text + used, shape->at < 0 ? "]" : "]\n%*s^", mark, "");
    }
    return text;
}
