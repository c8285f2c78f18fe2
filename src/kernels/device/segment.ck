/* segment_reduce and its gradient: stretches along the middle of [outer][n][inner], whose bounds are checked before.  A work item takes one.
 *
 * A: elements; U: computed in.  HOW: td_segment_reduction. */
#include "kernels/device/group.ck"

enum { SEGMENT_MAX, SEGMENT_MEAN, SEGMENT_MIN, SEGMENT_SUM, SEGMENT_PROD };
/* first, empty: bits of what is reduced from and of what nothing gives. */
typedef struct segment_values { int64_t count, segments, n, inner, first, empty; } segment_values;

#ifndef TD_HOST
#define EXTREME (HOW == SEGMENT_MAX || HOW == SEGMENT_MIN)
/* Where the elements of segment `at` are: from `begin` to below `end`, each v.inner apart. */
#define FIND_SEGMENT(at)                                                                                        \
    const int64_t one_ = divided(at, v.inner), outer_ = divided(one_, v.segments);                              \
    GLOBAL const int64_t *bound_ = AT(const int64_t, bounds) + one_ + outer_;                                   \
    const int64_t start_ = outer_ * v.n * v.inner + (at) - one_ * v.inner;                                      \
    const int64_t begin = start_ + bound_[0] * v.inner, end = start_ + bound_[1] * v.inner
#define EACH(k) (int64_t k = begin; k < end; k += v.inner)
#define READ(x, k) ((U)A_LOAD(AT(const A, x)[k]))

KERNEL segment_reduce(BUFFER(x), BUFFER(bounds), BUFFER(y), VALUES(segment_values, v))
{
    UNPACK(segment_values, v)
    for (int64_t at = ITEM; at < v.count; at += ITEMS) {
        FIND_SEGMENT(at);
        U r = NUMBER(v.first);
        for EACH(k) {
            const U own = READ(x, k);
            if (EXTREME)
                r = own != own || (HOW == SEGMENT_MAX ? own > r : own < r) ? own : r;
            else
                r = HOW == SEGMENT_PROD ? r * own : r + own;
        }
        AT(A, y)[at] = A_STORE(begin == end ? NUMBER(v.empty) : HOW == SEGMENT_MEAN ? r / (U)divided(end - begin, v.inner) : r);
    }
}

/* x's gradient; what is in no segment stays as it is. */
KERNEL segment_slopes(BUFFER(g), BUFFER(y), BUFFER(x), BUFFER(bounds), BUFFER(out), VALUES(segment_values, v))
{
    UNPACK(segment_values, v)
    for (int64_t at = ITEM; at < v.count; at += ITEMS) {
        FIND_SEGMENT(at);
        const U result = READ(y, at);
        U slope = READ(g, at), ties = 0;
        for EACH(k)
            ties += EXTREME && (READ(x, k) != READ(x, k) || READ(x, k) == result) ? 1 : 0;
        slope = ties > 1 ? slope / ties : HOW == SEGMENT_MEAN ? slope / (U)divided(end - begin, v.inner) : slope;
        for EACH(k) {
            const U own = READ(x, k);
            U by = EXTREME && own == own && own != result ? 0 : slope;
            if (HOW == SEGMENT_PROD && (own == 0 || own != own)) {          /* the product of the others */
                by *= NUMBER(v.first);
                for EACH(j)
                    by *= j == k ? 1 : READ(x, j);
            } else if (HOW == SEGMENT_PROD) {
                by = by * result / own;
            }
            AT(A, out)[k] = A_STORE(by);
        }
    }
}
#endif
