/* Running folds along the middle of [lines / inner][n][inner]: sums, products, extremes, logsumexp, linear recurrences.
 *
 * What is folded is a `state` with an associative joined(), which is not commutative.  A group of work items takes a line, or a segment of one where
 * lines are few: EACH elements a lane, lanes' totals scanned, then the group's total carried to the next block.  What segments add up to is found
 * by the same loop, which stores nothing then, and scan_carries makes of it where each begins.  Lines that lie side by side, or are short,
 * are a work item's.
 *
 * A: of the operand and the factor; B: of the result; C: computed in.  KIND: what is folded. */
#include "kernels/device/group.ck"

#define SCAN_SUM    0
#define SCAN_PROD   1
#define SCAN_MAX    2
#define SCAN_MIN    3
#define SCAN_LSE    4
#define SCAN_LINEAR 5       /* y[i] = a[i] + c[i] y[i - 1] */

typedef struct scan_values { int64_t lines, n, inner, segments, segment, reverse, only_total; } scan_values;

#ifndef TD_HOST
#define EACH 4

#if KIND == SCAN_MAX || KIND == SCAN_MIN
/* Of equal ones the last, and a NaN stays unless another one comes. */
typedef struct state { C_C value; int64_t at; } state;
#define START_ {0, -1}
#if KIND == SCAN_MAX
#define TAKES(b, a) ((b) >= (a) || (b) != (b))
#else
#define TAKES(b, a) ((b) <= (a) || (b) != (b))
#endif
static state joined(state a, state b)
{
    return a.at < 0 || (b.at >= 0 && TAKES(b.value, a.value)) ? b : a;
}
#elif KIND == SCAN_LINEAR
typedef struct state { C_C factor, value; } state;
#define START_ {{1}, {0}}
static state joined(state a, state b)
{
    state c;
    c.value = C_ADD(b.value, C_MUL(a.value, b.factor));
    c.factor = C_MUL(a.factor, b.factor);
    return c;
}
#else
typedef C_C state;
#if KIND == SCAN_SUM
#define START_ {0}
static state joined(state a, state b) { return C_ADD(a, b); }
#elif KIND == SCAN_PROD
#define START_ {1}
static state joined(state a, state b) { return C_MUL(a, b); }
#else
#define START_ {C_LOWEST}
/* The larger one out front; an infinity is the result as it is. */
static state joined(state a, state b)
{
    const C_C high = b > a || b != b ? b : a, low = b > a || b != b ? a : b;
    return high != high || low != low ? high + low : high - high != 0 ? high : high + C_log1p(C_exp(low - high));
}
#endif
#endif

/* Element i of a line that begins at `start`; of a reversed one counted from its end. */
#define PLACE(start, i) ((start) + (v.reverse ? v.n - 1 - (i) : (i)) * v.inner)
#define START_OF(line) (divided(line, v.inner) * v.n * v.inner + (line) - divided(line, v.inner) * v.inner)
#if KIND == SCAN_MAX || KIND == SCAN_MIN
#define READ(s, place, i) ((s).value = (C_C)A_LOAD(AT(const A, x)[place]), (s).at = (i))
#define WRITE(place, s) (AT(B, y)[place] = B_STORE((s).value), AT(int64_t, z)[place] = (s).at)
#elif KIND == SCAN_LINEAR
#define READ(s, place, i) ((s).value = C_OF(A_LOAD(AT(const A, x)[place])), (s).factor = C_OF(A_LOAD(AT(const A, z)[place])))
#define WRITE(place, s) (AT(B, y)[place] = B_STORE((s).value))
#else
#define READ(s, place, i) ((s) = C_OF(A_LOAD(AT(const A, x)[place])))
#define WRITE(place, s) (AT(B, y)[place] = B_STORE(s))
#endif

/* z: indices that are written, or factors that are read. */
KERNEL scan_groups(BUFFER(x), BUFFER(y), BUFFER(z), BUFFER(carries), VALUES(scan_values, v))
{
    UNPACK(scan_values, v)
    SHARED state room[WIDTH];
    for (int64_t unit = GROUP; unit < v.lines * v.segments; unit += GROUPS) {
        const int64_t line = divided(unit, v.segments), first = (unit - line * v.segments) * v.segment, start = START_OF(line);
        const int64_t end = first + v.segment < v.n ? first + v.segment : v.n;
        state carry = START_;
        if (v.segments > 1 && !v.only_total)
            carry = AT(const state, carries)[unit];
        for (int64_t base = first; base < end; base += LANES * EACH) {
            state own[EACH], total = START_, none = START_;
            for (int k = 0; k < EACH; k++) {
                const int64_t i = base + LANE * EACH + k;
                state s = none;
                if (i < end)
                    READ(s, PLACE(start, i), i);
                total = joined(total, s);
                own[k] = total;
            }
            GROUP_SCAN(state, room, total, joined);
            const state before = LANE ? joined(carry, room[LANE ? LANE - 1 : 0]) : carry;
            for (int k = 0; k < EACH && !v.only_total; k++) {
                const int64_t i = base + LANE * EACH + k;
                const state s = joined(before, own[k]);
                if (i < end)
                    WRITE(PLACE(start, i), s);
            }
            carry = joined(carry, room[LANES - 1]);
            BARRIER;
        }
        if (v.only_total && LANE == 0)
            AT(state, carries)[unit] = carry;
    }
}

/* Totals of a line's segments become what was folded before each. */
KERNEL scan_carries(BUFFER(carries), VALUES(scan_values, v))
{
    UNPACK(scan_values, v)
    for (int64_t line = ITEM; line < v.lines; line += ITEMS) {
        GLOBAL state *at = AT(state, carries) + line * v.segments;
        state sum = START_;
        for (int64_t i = 0; i < v.segments; i++) {
            const state own = at[i];
            at[i] = sum;
            sum = joined(sum, own);
        }
    }
}

KERNEL scan_items(BUFFER(x), BUFFER(y), BUFFER(z), VALUES(scan_values, v))
{
    UNPACK(scan_values, v)
    for (int64_t line = ITEM; line < v.lines; line += ITEMS) {
        const int64_t start = START_OF(line);
        state sum = START_;
        for (int64_t i = 0; i < v.n; i++) {
            state s;
            READ(s, PLACE(start, i), i);
            sum = joined(sum, s);
            WRITE(PLACE(start, i), sum);
        }
    }
}
#endif
