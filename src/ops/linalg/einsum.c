/* einsum: each operand gets one dimension per letter, in one order for all (first the result's letters, then those that
 * are summed), and the operands are contracted in pairs by batched products.
 *
 * Letters of a pair fall in four groups: in both and kept (the batch), in the left only, in the right only, and summed.
 * A letter is summed in the step that joins the last two operands which have it. */
#include "calls_ops_linalg_einsum.h"
#include <inttypes.h>
#include <string.h>
#include "ops/compose.h"

enum { LETTERS = 52, ELLIPSIS = 52, MOST = TD_MAX_DIMS };

typedef struct subscripts {
    int n;
    uint8_t labels[TD_MAX_DIMS + 1];     /* 0..51: A-Z a-z; ELLIPSIS */
} subscripts;

static char letter(int label)
{
    return (char)(label < 26 ? 'A' + label : 'a' + label - 26);
}

static const char *fail_dot(int operand, bool dots)
{
    if (operand < 0)
        return td_fail(TD_E_RUNTIME, "einsum(): found '.' for output %s", dots ? "but an ellipsis (...) was already found"
                                                                               : "that is not part of any ellipsis (...)");
    return td_fail(TD_E_RUNTIME, "einsum(): found '.' for operand %d %s", operand, dots ? "for which an ellipsis was already found"
                                                                                        : "that is not part of any ellipsis");
}
/* One operand's part of the equation, or, with operand -1, the result's, up to ',', '-' or the end.
 * Returns where it stopped; NULL with an error. A letter may stand for several dimensions of one operand (its
 * diagonal), an ellipsis stands once for those without a letter. */
static const char *parse(const char *start, const char *at, int operand, subscripts *s)
{
    bool dots = false;
    s->n = 0;
    for (;; at++) {
        if (*at == ' ')
            continue;
        if (*at == 0 || *at == ',' || *at == '-')
            return at;
        if (s->n >= TD_MAX_DIMS)
            return td_fail(TD_E_RUNTIME, "einsum(): more than %d subscripts for one operand", TD_MAX_DIMS);
        if (*at == '.') {
            if (dots || at[1] != '.' || at[2] != '.')
                return fail_dot(operand, dots);
            dots = true, at += 2;
            s->labels[s->n++] = ELLIPSIS;
        } else if ((*at | 32) >= 'a' && (*at | 32) <= 'z') {       /* not isalpha: a locale may have more letters */
            s->labels[s->n++] = (uint8_t)(*at <= 'Z' ? *at - 'A' : *at - 'a' + 26);
        } else {
            return td_fail(TD_E_RUNTIME, "einsum(): invalid subscript given at index %d in the equation string, subscripts must "
                           "be in [a-zA-Z]", (int)(at - start));
        }
    }
}

/* What the letters stand for, once all operands have been looked at. */
typedef struct plan {
    int dots;                   /* dimensions of the widest ellipsis */
    int n, out;                 /* dimensions in all; the first `out` of them are the result's */
    int place[LETTERS];         /* of a letter: its dimension, or -1 */
    int dots_place;
} plan;

/* The operand with one dimension per letter of the plan (of size 1 where it doesn't have the letter).
 * An ellipsis is aligned at its last dimension, as broadcasting is, so a shorter one leaves the plan's first positions
 * empty. Dimensions are taken in the operand's order; `order` says for each of the plan's which one it is, -1 for
 * none. */
static td_tensor *arrange(td_tensor *x, const subscripts *s, const plan *p, int operand)
{
    int64_t order[MOST];
    int first[LETTERS];
    memset(first, -1, sizeof first);
    for (int i = 0; i < p->n; i++)
        order[i] = -1;
    TD_AUTO td_tensor *y = td_ref(x);
    int dim = 0, covered = x->ndim - (s->n - 1);
    for (int i = 0; i < s->n; i++) {
        int label = s->labels[i];
        if (label == ELLIPSIS) {
            for (int d = 0; d < covered; d++)
                order[p->dots_place + p->dots - covered + d] = dim++;
        } else if (first[label] < 0) {
            first[label] = dim;
            order[p->place[label]] = dim++;
        } else {
            /* A repeated letter: the diagonal of its two dimensions, moved to where the first of them was. */
            int d = first[label];
            if (y->sizes[d] != y->sizes[dim])
                return td_fail(TD_E_RUNTIME,
                               "einsum(): subscript %c is repeated for operand %d but the sizes don't match, %" PRId64
                               " != %" PRId64, letter(label), operand, y->sizes[dim], y->sizes[d]);
            td_tensor *diagonal = td_diagonal(y, 0, d, dim);
            int64_t back[MOST];
            int last = y->ndim - 2;
            for (int j = 0; j <= last; j++)
                back[j] = j < d ? j : j == d ? last : j - 1;
            td_tensor *moved = td_permute(diagonal, last + 1, back);
            td_tensor_release(diagonal);
            td_tensor_release(y);
            y = moved;
            if (!y)
                return NULL;
        }
    }
    int64_t permutation[MOST], sizes[MOST];
    int n = 0;
    for (int i = 0; i < p->n; i++) {
        sizes[i] = order[i] < 0 ? 1 : y->sizes[order[i]];
        if (order[i] >= 0)
            permutation[n++] = order[i];
    }
    TD_AUTO td_tensor *permuted = td_permute(y, n, permutation);
    return td_reshape(permuted, p->n, sizes);
}

/* left and right have the same number of dimensions; those in `sum` are summed and stay with size 1.  A sum over one operand
 * alone makes integers int64, which the other must be too then: so it is in PyTorch.
 * A dimension to be summed that only one side has is summed there first, which makes the product smaller. What then
 * is left falls in the four groups, and the left side becomes [BOTH, LEFT, SUM], the right one [BOTH, SUM, RIGHT];
 * the group at the end of its order has only dimensions of size 1 there. Without a dimension to sum on both sides the
 * product is elementwise. */
static td_tensor *contract(td_tensor *left, td_tensor *right, const bool *sum)
{
    int n = left->ndim, groups[4] = {0};
    int64_t members[4][MOST], left_only[MOST], right_only[MOST];
    int n_left = 0, n_right = 0;
    bool any = false;
    for (int i = 0; i < n; i++) {
        any |= sum[i] && left->sizes[i] != 1 && right->sizes[i] != 1;
        if (sum[i] && right->sizes[i] == 1 && left->sizes[i] != 1)
            left_only[n_left++] = i;
        else if (sum[i] && left->sizes[i] == 1 && right->sizes[i] != 1)
            right_only[n_right++] = i;
    }
    TD_AUTO td_tensor *a = n_left ? td_sum_dim_intlist(left, n_left, left_only, true, TD_DTYPE_NONE) : td_ref(left);
    TD_AUTO td_tensor *b = n_right ? td_sum_dim_intlist(right, n_right, right_only, true, TD_DTYPE_NONE) : td_ref(right);
    if (!a || !b)
        return NULL;
    if (!any)
        return td_mul(a, b);
    if (a->dtype != b->dtype)
        return td_fail(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)a->dtype),
                       td_dtype_title((td_dtype)b->dtype));
    enum { BOTH, LEFT, RIGHT, SUM };
    int64_t size[4] = {1, 1, 1, 1};
    for (int i = 0; i < n; i++) {
        int g = sum[i] ? SUM : a->sizes[i] != 1 && b->sizes[i] != 1 ? BOTH : a->sizes[i] != 1 ? LEFT : b->sizes[i] != 1 ? RIGHT
            : BOTH;
        members[g][groups[g]++] = i;
        size[g] *= g == RIGHT ? b->sizes[i] : a->sizes[i];
    }
    static const int orders[2][4] = {{BOTH, LEFT, SUM, RIGHT}, {BOTH, SUM, RIGHT, LEFT}};
    int64_t permutation[2][MOST], sizes[MOST], back[MOST], place = 0;
    for (int side = 0; side < 2; side++)
        for (int g = 0, at = 0; g < 4; g++)
            for (int i = 0; i < groups[orders[side][g]]; i++)
                permutation[side][at++] = members[orders[side][g]][i];
    TD_AUTO td_tensor *ta = td_permute(a, n, permutation[0]), *tb = td_permute(b, n, permutation[1]);
    TD_AUTO td_tensor *ma = td_reshape(ta, 3, (int64_t[]){size[BOTH], size[LEFT], size[SUM]});
    TD_AUTO td_tensor *mb = td_reshape(tb, 3, (int64_t[]){size[BOTH], size[SUM], size[RIGHT]});
    TD_AUTO td_tensor *product = td_bmm(ma, mb);
    /* The product's dimensions come as BOTH LEFT SUM RIGHT; SUM's have size 1 now. */
    for (int g = 0; g < 4; g++)
        for (int i = 0; i < groups[orders[0][g]]; i++) {
            int64_t d = members[orders[0][g]][i];
            sizes[place] = orders[0][g] == SUM ? 1 : orders[0][g] == RIGHT ? b->sizes[d] : a->sizes[d];
            back[d] = place++;
        }
    TD_AUTO td_tensor *wide = td_reshape(product, n, sizes);
    return td_permute(wide, n, back);
}

/* Contract everything; `operands` (owned) shrinks to one.
 * Without a path the first two operands are contracted again and again, from left to right. A path lists pairs of
 * positions among the operands that are left, as opt_einsum writes it: both are taken out and the result goes to the
 * end. A dimension is summed once no other operand has it with a size other than 1; sizes of 1 that were never summed
 * are dropped at the end. */
static td_tensor *contract_all(int count, td_tensor **operands, int n_dims, int out, int64_t n_path,
                               const int64_t *path)
{
    int step = 0;
    const bool sums = count == 1;       /* what isn't asked for is summed, which copies; of products it has size 1 by then */
    while (count > 1) {
        int64_t i = 0, j = 1;
        if (n_path > 0) {
            i = path[step++], j = path[step++];
            if (i > j) {
                int64_t t = i;
                i = j, j = t;
            }
            if (i < 0 || i == j || j >= count)
                return td_fail(TD_E_RUNTIME, "einsum(): invalid contraction (%" PRId64 ", %" PRId64 ") in path", i, j);
        }
        bool sum[MOST] = {0};
        for (int d = out; d < n_dims; d++) {
            bool later = false;
            for (int o = 0; o < count; o++)
                later |= o != i && o != j && operands[o]->sizes[d] != 1;
            sum[d] = !later;
        }
        td_tensor *joined = contract(operands[i], operands[j], sum);
        if (!joined)
            return NULL;
        td_tensor_release(operands[i]);
        td_tensor_release(operands[j]);
        memmove(operands + j, operands + j + 1, (size_t)(count - j - 1) * sizeof *operands);
        count--;
        if (n_path > 0) {       /* a path's results go to the end */
            memmove(operands + i, operands + i + 1, (size_t)(count - i - 1) * sizeof *operands);
            operands[count - 1] = joined;
        } else {
            operands[0] = joined;
        }
        operands[count] = NULL;
    }
    int64_t rest[MOST], n = 0;
    for (int d = out; d < n_dims; d++)
        rest[n++] = d;
    return n == 0 ? td_ref(operands[0]) : sums ? td_sum_over(operands[0], n, rest, false) : td_squeeze_dims(operands[0], n, rest);
}

/* Sizes of all letters must agree (1 is broadcast). */
static int check_sizes(int count, td_tensor *const *operands, const plan *p)
{
    for (int d = 0; d < p->n; d++) {
        int64_t size = 1;
        for (int o = 0; o < count; o++) {
            int64_t own = operands[o]->sizes[d];
            if (own == 1 || own == size)
                continue;
            if (size != 1) {
                for (int l = 0; l < LETTERS; l++)
                    if (p->place[l] == d)
                        return td_error(TD_E_RUNTIME,
                                        "einsum(): subscript %c has size %" PRId64 " for operand %d which does not "
                                        "broadcast with previously seen size %" PRId64, letter(l), own, o, size);
                return td_error(TD_E_RUNTIME,
                                "einsum(): dimension of the ellipsis has size %" PRId64 " for operand %d which does "
                                "not broadcast with previously seen size %" PRId64, own, o, size);
            }
            size = own;
        }
    }
    return 0;
}

/* Places for the letters: the result's first.
 * Without "->" the result has the letters that occur just once, as numpy has it: A before a, since upper case comes
 * first here. */
static int make_plan(plan *p, int count, const subscripts *subs, const subscripts *result)
{
    int seen[LETTERS] = {0};
    for (int o = 0; o < count; o++)
        for (int i = 0; i < subs[o].n; i++)
            if (subs[o].labels[i] != ELLIPSIS)
                seen[subs[o].labels[i]]++;
    memset(p->place, -1, sizeof p->place);
    p->n = 0, p->dots_place = -1;
    if (result) {
        for (int i = 0; i < result->n; i++) {
            int label = result->labels[i];
            if (label == ELLIPSIS) {
                p->dots_place = p->n, p->n += p->dots;
                continue;
            }
            if (p->place[label] >= 0)
                return td_error(TD_E_RUNTIME, "einsum(): output subscript %c appears more than once in the output",
                                letter(label));
            if (!seen[label])
                return td_error(TD_E_RUNTIME,
                                "einsum(): output subscript %c does not appear in the equation for any input operand",
                                letter(label));
            p->place[label] = p->n++;
        }
    } else {    /* the ellipsis, then what appears once, in alphabetic order */
        p->dots_place = 0, p->n = p->dots;
        for (int l = 0; l < LETTERS; l++)
            if (seen[l] == 1)
                p->place[l] = p->n++;
    }
    p->out = p->n;
    if (p->dots_place < 0)
        p->dots_place = p->n, p->n += p->dots;
    for (int l = 0; l < LETTERS; l++)
        if (seen[l] && p->place[l] < 0)
            p->place[l] = p->n++;
    return p->n <= MOST ? 0 : td_error(TD_E_RUNTIME, "einsum(): more than %d dimensions", MOST);
}

/* Equations are checked as a whole before an operand is touched. n_path is 2 numbers for each of the n_tensors - 1
 * steps, or 0 or less without a path. */
td_tensor *td_op_einsum(const char *equation, int64_t n_tensors, td_tensor *const *tensors, int64_t n_path,
                        const int64_t *path)
{
    enum { OPERANDS = 64 };
    if (n_tensors < 1)
        return td_fail(TD_E_VALUE, "einsum(): must provide at least one operand");
    if (n_tensors > OPERANDS)
        return td_fail(TD_E_RUNTIME, "einsum(): at most %d operands are supported, got %" PRId64, OPERANDS, n_tensors);
    subscripts subs[OPERANDS], result;
    plan p = {0};
    const char *at = equation, *start = equation;
    int count = 0;
    for (;;) {
        if (count >= n_tensors)
            return td_fail(TD_E_RUNTIME, "einsum(): fewer operands were provided than specified in the equation");
        if (!(at = parse(start, at, count, &subs[count])))
            return NULL;
        count++;
        if (*at != ',')
            break;
        at++;
    }
    if (count < n_tensors)
        return td_fail(TD_E_RUNTIME, "einsum(): more operands were provided than specified in the equation");
    bool arrow = *at == '-';
    if (arrow) {
        if (at[1] != '>')
            return td_fail(TD_E_RUNTIME, "einsum(): invalid subscript given at index %d in the equation string, subscripts must be "
                           "in [a-zA-Z]", (int)(at - start));
        if (!(at = parse(start, at + 2, -1, &result)))
            return NULL;
        if (*at)
            return td_fail(TD_E_RUNTIME, "einsum(): invalid subscript given at index %d in the equation string, subscripts must be "
                           "in [a-zA-Z]", (int)(at - start));
    }
    for (int o = 0; o < count; o++) {
        bool dots = false;
        for (int i = 0; i < subs[o].n; i++)
            dots |= subs[o].labels[i] == ELLIPSIS;
        int own = subs[o].n - dots, ndim = tensors[o]->ndim;
        if (dots ? own > ndim : own != ndim)
            return td_fail(TD_E_RUNTIME, "einsum(): the number of subscripts in the equation (%d) %s the number of dimensions (%d) "
                           "for operand %d%s", own, dots ? "is more than" : "does not match", ndim, o,
                           dots ? "" : " and no ellipsis was given");
        if (dots && ndim - own > p.dots)
            p.dots = ndim - own;
    }
    if (n_path > 0 && n_path != 2 * (n_tensors - 1))
        return td_fail(TD_E_RUNTIME, "einsum(): expected contraction path given in path parameter to have size %" PRId64 " but got "
                       "%" PRId64, 2 * (n_tensors - 1), n_path);
    if (make_plan(&p, count, subs, arrow ? &result : NULL))
        return NULL;
    td_tensor *operands[OPERANDS] = {0}, *answer = NULL;
    int made = 0;
    for (; made < count; made++)
        if (!(operands[made] = arrange(tensors[made], &subs[made], &p, made)))
            break;
    if (made == count && !check_sizes(count, operands, &p))
        answer = contract_all(count, operands, p.n, p.out, n_path, path);
    for (int i = 0; i < count; i++)
        td_tensor_release(operands[i]);
    return answer;
}
