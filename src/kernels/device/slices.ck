/* Slices in lexicographic order, for unique elements along a dimension: rows of `block` elements, by their numbers.
 *
 * A merge where each row bisects the other run has as many work items as rows, and no two of them write one position.  NaN is above all numbers and
 * two are ordered as they come, so that rows with NaN equal none, as on the CPU. */
#include "kernels/device/group.ck"

typedef struct slice_values { int64_t n, block, run; } slice_values;

#ifndef TD_HOST
/* Below 0, 0, above 0. */
static int compared(GLOBAL const A *x, int64_t block, int64_t i, int64_t j)
{
    for (int64_t k = 0; k < block; k++) {
        const A_C a = A_LOAD(x[i * block + k]), b = A_LOAD(x[j * block + k]);
        if (a != a && b != b)
            return i < j ? -1 : 1;
        if (a != b)
            return b != b || a < b ? -1 : 1;
    }
    return 0;
}

/* Runs of `run` rows become runs of twice as many. */
KERNEL slice_merge(BUFFER(x), BUFFER(order), BUFFER(to), VALUES(slice_values, v))
{
    UNPACK(slice_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const int64_t row = AT(const int64_t, order)[i], own = i / v.run, other = (own ^ 1) * v.run, first = (own & ~(int64_t)1) * v.run;
        int64_t low = 0, high = other >= v.n ? 0 : v.n - other < v.run ? v.n - other : v.run;
        while (low < high) {
            const int64_t middle = (low + high) / 2;
            const int sign = compared(AT(const A, x), v.block, AT(const int64_t, order)[other + middle], row);
            if (own & 1 ? sign <= 0 : sign < 0)
                low = middle + 1;
            else
                high = middle;
        }
        AT(int64_t, to)[first + (i - own * v.run) + low] = row;
    }
}

/* Rows that differ from the one before. */
KERNEL slice_starts(BUFFER(x), BUFFER(order), BUFFER(starts), VALUES(slice_values, v))
{
    UNPACK(slice_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS)
        AT(uint8_t, starts)[i] = i == 0 || compared(AT(const A, x), v.block, AT(const int64_t, order)[i - 1], AT(const int64_t, order)[i]) != 0;
}
#endif
