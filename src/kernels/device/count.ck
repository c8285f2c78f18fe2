/* How many elements have each number, or lie in each of equally wide bins (RANGE).  Counters are in several copies, of which a group uses one, so
 * that fewer work items meet at one.
 *
 * A: elements; U: double, in which bins are found. */
#include "kernels/device/group.ck"

/* The range and what its width is computed from, as bits: see td_bins. */
typedef struct count_values { int64_t n, bins, copies, low, high, from, width, scale; } count_values;

#ifndef TD_HOST
KERNEL count(BUFFER(x), BUFFER(counts), VALUES(count_values, v))
{
    UNPACK(count_values, v)
    GLOBAL uint32_t *to = AT(uint32_t, counts) + GROUP % v.copies * v.bins;
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
#if RANGE
        const U x = (U)A_LOAD(AT(const A, x)[i]);
        if (x >= NUMBER(v.low) && x <= NUMBER(v.high)) {
            const int64_t at = (int64_t)((x * NUMBER(v.scale) - NUMBER(v.from)) / NUMBER(v.width) * (U)v.bins);
            ATOMIC_COUNT(to + (at < v.bins ? at : v.bins - 1));
        }
#else
        ATOMIC_COUNT(to + AT(const A, x)[i]);
#endif
    }
}
#endif
