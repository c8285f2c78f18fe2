/* Bags of rows reduced to one: a work item for each column of a bag.
 *
 * A: elements; U: of sums.  MODE: 0 sum, 1 mean, 2 maximum. */
#include "kernels/device/group.ck"

/* ends: offsets that there are bags from or up to; beyond, a bag ends with the indices. */
typedef struct bag_values { int64_t bags, width, n, ends, padding, scaled; } bag_values;

#ifndef TD_HOST
KERNEL embedding_bag(BUFFER(weight), BUFFER(indices), BUFFER(offsets), BUFFER(scales), BUFFER(out), BUFFER(bag_of), BUFFER(sizes), BUFFER(from),
                     VALUES(bag_values, v))
{
    UNPACK(bag_values, v)
    const int64_t columns = v.width ? v.width : 1;          /* bags have sizes without any */
    for (int64_t item = ITEM; item < v.bags * columns; item += ITEMS) {
        const int64_t b = divided(item, columns), j = item - b * columns;
        const int64_t end = b + 1 < v.ends ? AT(const int64_t, offsets)[b + 1] : v.n;
        int64_t used = 0, best = -1;
        U sum = 0;
        for (int64_t i = AT(const int64_t, offsets)[b]; i < end; i++) {
            const int64_t at = AT(const int64_t, indices)[i];
            if (j == 0)
                AT(int64_t, bag_of)[i] = b;
            if (at == v.padding)
                continue;
            if (v.width) {
                const U x = (U)A_LOAD(AT(const A, weight)[at * v.width + j]);
#if MODE == 2
                if (!used || x > sum)
                    sum = x, best = at;
#else
                sum += v.scaled ? x * (U)A_LOAD(AT(const A, scales)[i]) : x;
#endif
            }
            used++;
        }
#if MODE == 1
        sum = used ? (U)A_LOAD(A_STORE((A_C)sum)) / (U)used : sum;
#endif
        if (v.width) {
            AT(A, out)[item] = A_STORE((A_C)sum);
#if MODE == 2
            AT(int64_t, from)[item] = best;
#endif
        }
        if (j == 0) {
            AT(int64_t, sizes)[b] = used;
#if MODE != 2
            AT(int64_t, from)[b] = used;
#endif
        }
    }
}
#endif
