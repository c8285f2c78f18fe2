/* softmax and log_softmax over the middle of [outer][n][inner], and their gradients.
 *
 * A group takes a line of n elements: what its lanes have seen of maximum and sum is folded, then each writes what it has read.  Lines
 * whose elements are far apart (inner > 1) and many are taken by one work item each, so that neighbours read neighbours.  Both read a line
 * twice from memory: the sum is corrected as the maximum grows (Milakov and Gimelshein, 2018).
 *
 * A: the operand's dtype, backward the gradient's; R: of the result that backward reads; B: what is written, and computed in.  LOG: the
 * logarithm. */
#include "kernels/device/group.ck"

typedef struct softmax_values { int64_t lines, n, inner; } softmax_values;

#ifndef TD_HOST
/* The maximum so far, and the sum of exponentials below it. */
typedef struct line { B_C most, sum; } line;

static line seen(line a, B_C x)
{
    if (x <= a.most || x != x) {
        a.sum += a.most == B_LOWEST && x == x ? (B_C)0 : B_exp(x - a.most);
    } else {
        a.sum = a.sum * B_exp(a.most - x) + ((x - x) + 1);      /* infinity makes no number of it, as on the CPU */
        a.most = x;
    }
    return a;
}
static line joined(line a, line b)
{
    line c;
    c.most = a.most > b.most ? a.most : b.most;
    c.sum = (a.most == c.most ? a.sum : a.sum * B_exp(a.most - c.most)) + (b.most == c.most ? b.sum : b.sum * B_exp(b.most - c.most));
    return c;
}
static B_C result(line a, B_C log_sum, B_C x)
{
#if LOG
    return x - a.most - log_sum;
#else
    return B_exp(x - a.most) / a.sum;
#endif
}
#if LOG
#define LOG_OF(x) B_log(x)
#else
#define LOG_OF(x) 0
#endif

KERNEL softmax_groups(BUFFER(x), BUFFER(y), VALUES(softmax_values, v))
{
    UNPACK(softmax_values, v)
    SHARED line room[WIDTH];
    for (int64_t at = GROUP; at < v.lines; at += GROUPS) {
        const int64_t start = at / v.inner * v.n * v.inner + at % v.inner;
        GLOBAL const A *from = AT(const A, x) + start;
        GLOBAL B *to = AT(B, y) + start;
        line a = {B_LOWEST, 0};
        for (int64_t i = LANE; i < v.n; i += LANES)
            a = seen(a, A_LOAD(from[i * v.inner]));
        GROUP_FOLD(line, room, a, joined);
        const B_C log_sum = LOG_OF(a.sum);
        for (int64_t i = LANE; i < v.n; i += LANES)
            to[i * v.inner] = B_STORE(result(a, log_sum, A_LOAD(from[i * v.inner])));
    }
}

KERNEL softmax_items(BUFFER(x), BUFFER(y), VALUES(softmax_values, v))
{
    UNPACK(softmax_values, v)
    for (int64_t at = ITEM; at < v.lines; at += ITEMS) {
        const int64_t start = at / v.inner * v.n * v.inner + at % v.inner;
        GLOBAL const A *from = AT(const A, x) + start;
        GLOBAL B *to = AT(B, y) + start;
        line a = {B_LOWEST, 0};
        for (int64_t i = 0; i < v.n; i++)
            a = seen(a, A_LOAD(from[i * v.inner]));
        const B_C log_sum = LOG_OF(a.sum);
        for (int64_t i = 0; i < v.n; i++)
            to[i * v.inner] = B_STORE(result(a, log_sum, A_LOAD(from[i * v.inner])));
    }
}

/* The gradient is y (g - sum(g y)), of the logarithm g - exp(y) sum(g). */
#if LOG
#define SUMMAND(g, y) (g)
#define GRADIENT(g, y, sum) ((g) - B_exp(y) * (sum))
#else
#define SUMMAND(g, y) ((g) * (y))
#define GRADIENT(g, y, sum) ((y) * ((g) - (sum)))
#endif
#define PLUS(a, b) ((a) + (b))

KERNEL softmax_gradient_groups(BUFFER(grad), BUFFER(y), BUFFER(out), VALUES(softmax_values, v))
{
    UNPACK(softmax_values, v)
    SHARED B_C room[WIDTH];
    for (int64_t at = GROUP; at < v.lines; at += GROUPS) {
        const int64_t start = at / v.inner * v.n * v.inner + at % v.inner;
        GLOBAL const A *g = AT(const A, grad) + start;
        GLOBAL const R *r = AT(const R, y) + start;
        GLOBAL B *to = AT(B, out) + start;
        B_C sum = 0;
        for (int64_t i = LANE; i < v.n; i += LANES)
            sum += SUMMAND((B_C)A_LOAD(g[i * v.inner]), (B_C)R_LOAD(r[i * v.inner]));
        GROUP_FOLD(B_C, room, sum, PLUS);
        for (int64_t i = LANE; i < v.n; i += LANES)
            to[i * v.inner] = B_STORE(GRADIENT((B_C)A_LOAD(g[i * v.inner]), (B_C)R_LOAD(r[i * v.inner]), sum));
    }
}

KERNEL softmax_gradient_items(BUFFER(grad), BUFFER(y), BUFFER(out), VALUES(softmax_values, v))
{
    UNPACK(softmax_values, v)
    for (int64_t at = ITEM; at < v.lines; at += ITEMS) {
        const int64_t start = at / v.inner * v.n * v.inner + at % v.inner;
        GLOBAL const A *g = AT(const A, grad) + start;
        GLOBAL const R *r = AT(const R, y) + start;
        GLOBAL B *to = AT(B, out) + start;
        B_C sum = 0;
        for (int64_t i = 0; i < v.n; i++)
            sum += SUMMAND((B_C)A_LOAD(g[i * v.inner]), (B_C)R_LOAD(r[i * v.inner]));
        for (int64_t i = 0; i < v.n; i++)
            to[i * v.inner] = B_STORE(GRADIENT((B_C)A_LOAD(g[i * v.inner]), (B_C)R_LOAD(r[i * v.inner]), sum));
    }
}
#endif
