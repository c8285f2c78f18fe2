/* Bisection: where values stand in sorted rows, and whether they are among given ones. */
#include "kernels/device/group.ck"

/* n: elements of a row, which is for `per` values; limits: of the sorter. */
typedef struct search_values { int64_t count, n, per, right, invert, sorter; index_limits limits; } search_values;

#ifndef TD_HOST
/* The first element that isn't before x, to the right that is after it; NaN, which nothing is before, as on the CPU. */
KERNEL search_places(BUFFER(sorted), BUFFER(values), BUFFER(sorter), BUFFER(out), BUFFER(late), VALUES(search_values, v))
{
    UNPACK(search_values, v)
    for (int64_t i = ITEM; i < v.count; i += ITEMS) {
        const A_C x = A_LOAD(AT(const A, values)[i]);
        const int64_t row = divided(i, v.per) * v.n;
        int64_t low = 0, high = v.n;
        while (low < high) {
            const int64_t middle = (low + high) / 2, own = v.sorter ? AT(const int64_t, sorter)[row + middle] : middle;
            if (!IS_WITHIN(own, v.limits)) {
                NOTE_INDEX(late, own, v.limits);
                break;
            }
            const A_C at = A_LOAD(AT(const A, sorted)[row + own]);
            if (v.right ? !(at > x) : !(at >= x))
                low = middle + 1;
            else
                high = middle;
        }
        AT(B, out)[i] = (B)low;
    }
}

/* Of `known` in order, NaN last, which equal nothing. */
KERNEL search_members(BUFFER(known), BUFFER(values), BUFFER(out), VALUES(search_values, v))
{
    UNPACK(search_values, v)
    for (int64_t i = ITEM; i < v.count; i += ITEMS) {
        const A_C x = A_LOAD(AT(const A, values)[i]);
        int64_t low = 0, high = v.n;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            if (A_LOAD(AT(const A, known)[middle]) < x)
                low = middle + 1;
            else
                high = middle;
        }
        const int found = low < v.n && A_LOAD(AT(const A, known)[low < v.n ? low : 0]) == x;
        AT(B, out)[i] = (B)(found != (int)v.invert);
    }
}
#endif
