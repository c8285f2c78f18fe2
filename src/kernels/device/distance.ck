/* Distances of rows: of two batches of matrices (cdist), of all pairs of one matrix's rows (pdist), and the latter's gradient.
 *
 * A work item has a distance, or an element of the gradient.  KIND: the norm; PAIRS: whether pairs i < j of one matrix are meant, in the order (0, 1),
 * (0, 2), ... */
#include "kernels/device/group.ck"

#define DISTANCE_COUNT    0         /* of elements that differ */
#define DISTANCE_ABSOLUTE 1
#define DISTANCE_SQUARES  2
#define DISTANCE_LARGEST  3
#define DISTANCE_POWERS   4

typedef struct distance_values { int64_t batch, rows, columns, width; number p, less, inverse; } distance_values;     /* p, p - 1, 1 / p */

#ifndef TD_HOST
#define PAIR(i, j, n) ((i) * (n) - (i) * ((i) + 1) / 2 + (j) - (i) - 1)
#define SIZE_OF(d) ((d) < 0 ? -(d) : (d))
#if BACKWARD
/* Of |d| in the norm r, times its gradient; 0 where it has none. */
static A_C slope(A_C d, A_C grad, A_C r, A_C less)
{
    const A_C along = d > 0 ? grad : d < 0 ? -grad : 0;
#if KIND == DISTANCE_COUNT
    return 0;
#elif KIND == DISTANCE_ABSOLUTE
    return along;
#elif KIND == DISTANCE_LARGEST
    return SIZE_OF(d) == r ? along : 0;
#elif KIND == DISTANCE_SQUARES
    return r == 0 ? 0 : grad * d / r;
#else
    return r == 0 || (d == 0 && less < 1) ? 0 : A_pow(SIZE_OF(d), less) * along / A_pow(r, less);
#endif
}
KERNEL distance_slopes(BUFFER(grad), BUFFER(x), BUFFER(r), BUFFER(y), VALUES(distance_values, v))
{
    UNPACK(distance_values, v)
    for (int64_t at = ITEM; at < v.rows * v.width; at += ITEMS) {
        const int64_t i = at / v.width, k = at - i * v.width;
        const A_C own = A_LOAD(AT(const A, x)[at]);
        A_C sum = 0;
        for (int64_t j = 0; j < v.rows; j++)
            if (i != j) {
                const int64_t pair = i < j ? PAIR(i, j, v.rows) : PAIR(j, i, v.rows);
                sum += slope(own - A_LOAD(AT(const A, x)[j * v.width + k]), A_LOAD(AT(const A, grad)[pair]), A_LOAD(AT(const A, r)[pair]), A_NUMBER(v.less));
            }
        AT(A, y)[at] = A_STORE(sum);
    }
}
#else
KERNEL distances(BUFFER(a), BUFFER(b), BUFFER(y), VALUES(distance_values, v))
{
    UNPACK(distance_values, v)
    for (int64_t at = ITEM; at < v.batch * v.rows * v.columns; at += ITEMS) {
        const int64_t above = divided(at, v.columns), j = at - above * v.columns, batch = divided(above, v.rows), i = above - batch * v.rows;
        if (PAIRS && j <= i)
            continue;
        GLOBAL const A *left = AT(const A, a) + above * v.width, *right = AT(const A, b) + (batch * v.columns + j) * v.width;
        A_C sum = 0;
        for (int64_t k = 0; k < v.width; k++) {
            const A_C d = A_LOAD(left[k]) - A_LOAD(right[k]), size = SIZE_OF(d);
#if KIND == DISTANCE_COUNT
            sum += d != 0;
#elif KIND == DISTANCE_ABSOLUTE
            sum += size;
#elif KIND == DISTANCE_SQUARES
            sum += d * d;
#elif KIND == DISTANCE_LARGEST
            sum = size > sum || size != size ? size : sum;
#else
            sum += A_pow(size, A_NUMBER(v.p));
#endif
        }
#if KIND == DISTANCE_SQUARES
        sum = A_sqrt(sum);
#elif KIND == DISTANCE_POWERS
        sum = A_pow(sum, A_NUMBER(v.inverse));
#endif
        AT(A, y)[PAIRS ? PAIR(i, j, v.rows) : at] = A_STORE(sum);
    }
}
#endif
#endif
