/* Losses of class numbers: cross entropy over rows of logits, nll_loss, margins between classes.
 *
 * A sample's loss and weight are a pair; pairs are folded in two steps, by as many groups of work items as keep the device busy and by one.
 * A target that is no class makes its sample's loss and gradient NaN, and is an error that the loss's kernel notes (NOTE_INDEX in group.ck).
 *
 * A: of the logits, their gradient and the result; W: of weights; T: of a row's logsumexp; G: of the gradient; C: computed in. */
#include "kernels/device/group.ck"

typedef struct loss_values {
    int64_t outer, classes, inner, rows;            /* [outer][classes][inner]; rows: outer * inner */
    int64_t ignore, reduction, each, weight, pairs, square, ends;
    number  smoothing, margin;
    index_limits limits;                            /* of targets */
} loss_values;

#define LOSS_NONE 0
#define LOSS_MEAN 1
#define LOSS_SUM  2
/* `ends`: whether the sum of weights is stored, and as 0. */
#define LOSS_TOTAL    1
#define LOSS_NO_TOTAL 2

#ifndef TD_HOST
#define WEIGHT(c) (v.weight ? (C_C)W_LOAD(AT(const W, weight)[c]) : (C_C)1)
#define NAN_OF_C (((C_C)0) / ((C_C)0))
#define IS_CLASS(t) ((t) >= 0 && (t) < v.classes)
typedef struct pair { C_C loss, weight; } pair;
static pair both(pair a, pair b)
{
    a.loss += b.loss;
    a.weight += b.weight;
    return a;
}

/* ---- sums over samples */

/* Folded by a tree in each group, then over groups by one: the order doesn't depend on which group is done first, as that of atomic additions
 * would, so a training run can be repeated digit by digit. */
KERNEL loss_parts(BUFFER(pairs), BUFFER(parts), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    SHARED pair room[WIDTH];
    pair sum = {0, 0};
    for (int64_t i = ITEM; i < v.pairs; i += ITEMS)
        sum = both(sum, AT(const pair, pairs)[i]);
    GROUP_FOLD(pair, room, sum, both);
    if (LANE == 0)
        AT(pair, parts)[GROUP] = sum;
}

/* One group; `each`: the losses of samples are the result, only the sum of weights is wanted. */
KERNEL loss_end(BUFFER(pairs), BUFFER(y), BUFFER(total), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    SHARED pair room[WIDTH];
    pair sum = {0, 0};
    for (int64_t i = LANE; i < v.pairs; i += LANES)
        sum = both(sum, AT(const pair, pairs)[i]);
    GROUP_FOLD(pair, room, sum, both);
    if (ITEM == 0) {
        if (!v.each)
            AT(A, y)[0] = A_STORE(v.reduction == LOSS_MEAN ? sum.loss / sum.weight : sum.loss);
        if (v.ends)
            AT(T, total)[0] = T_STORE(v.ends == LOSS_NO_TOTAL ? (C_C)0 : sum.weight);
    }
}

/* ---- cross entropy: log-softmax and the loss of a row at once */

/* The largest logit and the sum of exponentials below it in one pass (Milakov and Gimelshein, 2018): where a larger one comes, the sum so
 * far is brought to its scale.  (x - x) + 1 is the exponential of 0, but NaN of an infinite logit, as infinity less itself is. */
typedef struct line { C_C most, sum; } line;
static line seen(line a, C_C x)
{
    if (x <= a.most || x != x) {
        a.sum += a.most == C_LOWEST && x == x ? (C_C)0 : C_exp(x - a.most);
    } else {
        a.sum = a.sum * C_exp(a.most - x) + ((x - x) + 1);
        a.most = x;
    }
    return a;
}
/* Equal maxima are compared, not subtracted: of two lanes without logits the difference of two infinities would be NaN. */
static line joined(line a, line b)
{
    line c;
    c.most = a.most > b.most ? a.most : b.most;
    c.sum = (a.most == c.most ? a.sum : a.sum * C_exp(a.most - c.most)) + (b.most == c.most ? b.sum : b.sum * C_exp(b.most - c.most));
    return c;
}

/* A group takes a row, whose logits are read once (twice with smoothing, the second time from the cache).  Log probabilities are never
 * stored: the gradient makes them again of logits and logsumexp, one number for a row in the place of as many as there are classes. */
KERNEL loss_rows(BUFFER(x), BUFFER(target), BUFFER(weight), BUFFER(pairs), BUFFER(lse), BUFFER(y), BUFFER(late), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    SHARED line lines[WIDTH];
    SHARED pair room[WIDTH];
    const C_C smooth = C_NUMBER(v.smoothing), spread = smooth / (C_C)v.classes;
    for (int64_t row = GROUP; row < v.rows; row += GROUPS) {
        GLOBAL const A *from = AT(const A, x) + row * v.classes;
        const int64_t t = AT(const int64_t, target)[row];
        line a = {C_LOWEST, 0};
        for (int64_t c = LANE; c < v.classes; c += LANES)
            a = seen(a, (C_C)A_LOAD(from[c]));
        GROUP_FOLD(line, lines, a, joined);
        const C_C log_sum = C_log(a.sum);
        pair all = {0, 0};                      /* what smoothing spreads: over all classes */
        if (smooth > 0) {
            for (int64_t c = LANE; c < v.classes; c += LANES)
                all.loss += WEIGHT(c) * (log_sum - ((C_C)A_LOAD(from[c]) - a.most));
            GROUP_FOLD(pair, room, all, both);
        }
        if (LANE == 0) {
            pair own = {0, 0};
            if (t != v.ignore && IS_CLASS(t)) {
                own.weight = WEIGHT(t);
                own.loss = (1 - smooth) * own.weight * (log_sum - ((C_C)A_LOAD(from[t]) - a.most)) + spread * all.loss;
            } else if (t != v.ignore) {
                own.loss = NAN_OF_C;
                NOTE_INDEX(late, t, v.limits);
            }
            AT(pair, pairs)[row] = own;
            AT(T, lse)[row] = T_STORE(a.most + log_sum);
            if (v.each)
                AT(A, y)[row] = A_STORE(own.loss);
        }
    }
}

/* dx[c] = g (sum of the row's weights p[c] - weight of c). */
KERNEL loss_rows_backward(BUFFER(grad), BUFFER(x), BUFFER(target), BUFFER(weight), BUFFER(lse), BUFFER(total), BUFFER(dx), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    SHARED C_C room[WIDTH];
    const C_C smooth = C_NUMBER(v.smoothing), spread = smooth / (C_C)v.classes;
    const C_C scale = v.reduction == LOSS_MEAN ? 1 / (C_C)T_LOAD(AT(const T, total)[0]) : (C_C)1;
    C_C sum = 0;
    if (smooth > 0) {
        for (int64_t c = LANE; c < v.classes; c += LANES)
            sum += WEIGHT(c);
        GROUP_FOLD(C_C, room, sum, PLUS);
    }
    for (int64_t row = GROUP; row < v.rows; row += GROUPS) {
        GLOBAL const A *from = AT(const A, x) + row * v.classes;
        GLOBAL A *to = AT(A, dx) + row * v.classes;
        const int64_t t = AT(const int64_t, target)[row];
        const C_C g = (C_C)G_LOAD(AT(const G, grad)[v.each ? row : 0]) * scale, l = (C_C)T_LOAD(AT(const T, lse)[row]);
        const C_C own = IS_CLASS(t) ? (1 - smooth) * WEIGHT(t) : NAN_OF_C, whole = g * (own + spread * sum);
        for (int64_t c = LANE; c < v.classes; c += LANES) {
            const C_C slope = whole * C_exp((C_C)A_LOAD(from[c]) - l) - g * (smooth > 0 ? spread * WEIGHT(c) : (C_C)0) - (c == t ? g * own : (C_C)0);
            to[c] = A_STORE(t == v.ignore ? (C_C)0 : slope);
        }
    }
}

KERNEL loss_targets(BUFFER(target), BUFFER(weight), BUFFER(y), BUFFER(late), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    const C_C smooth = C_NUMBER(v.smoothing), spread = smooth / (C_C)v.classes;
    for (int64_t i = ITEM; i < v.rows * v.classes; i += ITEMS) {
        const int64_t row = divided(i, v.classes), c = i - row * v.classes, t = AT(const int64_t, target)[row];
        const C_C own = t == v.ignore ? (C_C)0 : IS_CLASS(t) ? WEIGHT(c) * (spread + (c == t ? 1 - smooth : (C_C)0)) : NAN_OF_C;
        AT(A, y)[i] = A_STORE(own);
        if (c == 0 && t != v.ignore && !IS_CLASS(t))
            NOTE_INDEX(late, t, v.limits);
    }
}

/* ---- nll_loss */

/* A work item takes a sample: it reads one element of all the classes', so there is nothing for a group to share.  Neighbouring samples of
 * a plane lie together where there are inner dimensions; else each read is a line of memory for one number, and the kernel is bound by that. */
KERNEL loss_nll(BUFFER(x), BUFFER(target), BUFFER(weight), BUFFER(pairs), BUFFER(y), BUFFER(late), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    for (int64_t row = ITEM; row < v.rows; row += ITEMS) {
        const int64_t t = AT(const int64_t, target)[row], o = divided(row, v.inner), i = row - o * v.inner;
        pair own = {0, 0};
        if (t != v.ignore && IS_CLASS(t)) {
            own.weight = WEIGHT(t);
            own.loss = -own.weight * (C_C)A_LOAD(AT(const A, x)[(o * v.classes + t) * v.inner + i]);
        } else if (t != v.ignore) {
            own.loss = NAN_OF_C;
            NOTE_INDEX(late, t, v.limits);
        }
        AT(pair, pairs)[row] = own;
        if (v.each)
            AT(A, y)[row] = A_STORE(own.loss);
    }
}

KERNEL loss_nll_backward(BUFFER(grad), BUFFER(target), BUFFER(weight), BUFFER(total), BUFFER(dx), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    const C_C scale = v.reduction == LOSS_MEAN ? 1 / (C_C)T_LOAD(AT(const T, total)[0]) : (C_C)1;
    for (int64_t at = ITEM; at < v.rows * v.classes; at += ITEMS) {
        const int64_t plane = divided(at, v.inner), i = at - plane * v.inner, o = divided(plane, v.classes), c = plane - o * v.classes;
        const int64_t row = o * v.inner + i, t = AT(const int64_t, target)[row];
        C_C slope = 0;
        if (t == c && t != v.ignore)
            slope = -(C_C)G_LOAD(AT(const G, grad)[v.each ? row : 0]) * scale * WEIGHT(c);
        else if (t != v.ignore && !IS_CLASS(t))
            slope = NAN_OF_C;
        AT(A, dx)[at] = A_STORE(slope);
    }
}

/* ---- margins: a sample is a group's */

KERNEL loss_margin(BUFFER(x), BUFFER(target), BUFFER(weight), BUFFER(pairs), BUFFER(y), BUFFER(late), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    SHARED C_C room[WIDTH];
    for (int64_t row = GROUP; row < v.rows; row += GROUPS) {
        GLOBAL const A *from = AT(const A, x) + row * v.classes;
        const int64_t t = AT(const int64_t, target)[row];
        C_C sum = 0;
        if (IS_CLASS(t)) {
            for (int64_t c = LANE; c < v.classes; c += LANES) {
                const C_C z = C_NUMBER(v.margin) - (C_C)A_LOAD(from[t]) + (C_C)A_LOAD(from[c]);
                if (c != t && z > 0)
                    sum += (v.square ? z * z : z) * WEIGHT(t);
            }
        }
        GROUP_FOLD(C_C, room, sum, PLUS);
        if (LANE == 0) {
            pair own = {IS_CLASS(t) ? sum / (C_C)v.classes : NAN_OF_C, 1};
            if (!IS_CLASS(t))
                NOTE_INDEX(late, t, v.limits);
            AT(pair, pairs)[row] = own;
            if (v.each)
                AT(A, y)[row] = A_STORE(own.loss);
        }
    }
}

/* Each class that is within the margin pulls the target's logit by what it is pushed: the target's slope is minus the sum of the others,
 * known after the fold. */
KERNEL loss_margin_backward(BUFFER(grad), BUFFER(x), BUFFER(target), BUFFER(weight), BUFFER(dx), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    SHARED C_C room[WIDTH];
    const C_C share = 1 / (C_C)(v.reduction == LOSS_MEAN ? v.rows * v.classes : v.classes);
    for (int64_t row = GROUP; row < v.rows; row += GROUPS) {
        GLOBAL const A *from = AT(const A, x) + row * v.classes;
        GLOBAL A *to = AT(A, dx) + row * v.classes;
        const int64_t t = AT(const int64_t, target)[row];
        const C_C g = IS_CLASS(t) ? (C_C)G_LOAD(AT(const G, grad)[v.each ? row : 0]) * share * WEIGHT(t) : NAN_OF_C;
        C_C own = 0;
        for (int64_t c = LANE; c < v.classes; c += LANES) {
            const C_C z = IS_CLASS(t) ? C_NUMBER(v.margin) - (C_C)A_LOAD(from[t]) + (C_C)A_LOAD(from[c]) : (C_C)1;
            const C_C slope = c == t || !(z > 0) ? (C_C)0 : v.square ? 2 * z * g : g;
            own -= slope;
            if (c != t)
                to[c] = A_STORE(slope);
        }
        GROUP_FOLD(C_C, room, own, PLUS);
        if (LANE == 0 && IS_CLASS(t))
            to[t] = A_STORE(own);
    }
}

/* Labels of a sample end at the first negative one; `is` marks them. */
#define COUNT_LABELS(n)                                                                 \
    int64_t n = v.classes;                                                              \
    for (int64_t k_ = LANE; k_ < v.classes; k_ += LANES)                                \
        if (labels[k_] < 0 && k_ < n)                                                   \
            n = k_;                                                                     \
    GROUP_FOLD(int64_t, counts, n, LOWER)

KERNEL loss_labels(BUFFER(x), BUFFER(target), BUFFER(is), BUFFER(pairs), BUFFER(y), BUFFER(late), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    SHARED C_C room[WIDTH];
    SHARED int64_t counts[WIDTH];
    for (int64_t row = GROUP; row < v.rows; row += GROUPS) {
        GLOBAL const A *from = AT(const A, x) + row * v.classes;
        GLOBAL A *mark = AT(A, is) + row * v.classes;
        GLOBAL const int64_t *labels = AT(const int64_t, target) + row * v.classes;
        COUNT_LABELS(n);
        for (int64_t c = LANE; c < v.classes; c += LANES)
            mark[c] = A_STORE(0);
        BARRIER;
        C_C sum = 0;
        for (int64_t k = LANE; k < v.classes; k += LANES)
            if (labels[k] < -1 || labels[k] >= v.classes) {
                sum = NAN_OF_C;
                NOTE_INDEX(late, labels[k], v.limits);
            } else if (k < n) {
                mark[labels[k]] = A_STORE(1);
            }
        BARRIER;
        for (int64_t c = LANE; c < v.classes; c += LANES)
            if (A_LOAD(mark[c]) == 0)
                for (int64_t k = 0; k < n; k++)
                    if (IS_CLASS(labels[k])) {
                        const C_C z = 1 - (C_C)A_LOAD(from[labels[k]]) + (C_C)A_LOAD(from[c]);
                        sum += z > 0 ? z : (C_C)0;
                    }
        GROUP_FOLD(C_C, room, sum, PLUS);
        if (LANE == 0) {
            pair own = {sum / (C_C)v.classes, 1};
            AT(pair, pairs)[row] = own;
            if (v.each)
                AT(A, y)[row] = A_STORE(own.loss);
        }
    }
}

/* The same pairs of class and label twice, once summed for the class and once for the label: were each pair visited once, several work
 * items would add to one element, which takes atomic operations that not every device has, and gives other digits in each run. */
KERNEL loss_labels_backward(BUFFER(grad), BUFFER(x), BUFFER(target), BUFFER(is), BUFFER(dx), VALUES(loss_values, v))
{
    UNPACK(loss_values, v)
    SHARED C_C room[WIDTH];
    SHARED int64_t counts[WIDTH];
    const C_C share = 1 / (C_C)(v.reduction == LOSS_MEAN ? v.rows * v.classes : v.classes);
    for (int64_t row = GROUP; row < v.rows; row += GROUPS) {
        GLOBAL const A *from = AT(const A, x) + row * v.classes, *mark = AT(const A, is) + row * v.classes;
        GLOBAL A *to = AT(A, dx) + row * v.classes;
        GLOBAL const int64_t *labels = AT(const int64_t, target) + row * v.classes;
        const C_C g = (C_C)G_LOAD(AT(const G, grad)[v.each ? row : 0]) * share;
        COUNT_LABELS(n);
        for (int64_t c = LANE; c < v.classes; c += LANES) {
            C_C own = 0;
            if (A_LOAD(mark[c]) == 0)
                for (int64_t k = 0; k < n; k++)
                    own += IS_CLASS(labels[k]) && 1 - (C_C)A_LOAD(from[labels[k]]) + (C_C)A_LOAD(from[c]) > 0 ? 1 : 0;
            to[c] = A_STORE(own * g);
        }
        for (int64_t k = 0; k < n; k++) {
            const int64_t label = labels[k];
            C_C own = 0;
            for (int64_t c = LANE; c < v.classes && IS_CLASS(label); c += LANES)
                if (A_LOAD(mark[c]) == 0)
                    own += 1 - (C_C)A_LOAD(from[label]) + (C_C)A_LOAD(from[c]) > 0 ? 1 : 0;
            GROUP_FOLD(C_C, room, own, PLUS);
            if (LANE == 0 && IS_CLASS(label))
                to[label] = A_STORE((C_C)A_LOAD(to[label]) - own * g);
        }
    }
}
#endif
