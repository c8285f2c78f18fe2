/* Folding elements along some dimensions: the kernels of reduce.ck and reduce_exp.ck, which say before what is folded how.
 *
 * START_ is a `state` of nothing, TAKEN() adds an element and where it is, joined() two states, FINISH() stores a result.  Work is shared in
 * units, parts of outputs.  Where an output's elements lie side by side, a team takes a unit, whose lanes take packs side by side
 * (reduce_rows); where outputs do, a group takes a tile of them, a pack for each of TEAM lanes, and its teams take elements by turns
 * (reduce_columns).  What parts have found is kept in `partial` and folded by reduce_parts.  Four packs are loaded before they are folded, and
 * folded apart, so that sums of many elements are sums of short ones. */
#ifndef TD_HOST
PACK_TYPE(A, pack_of_a);
/* state a takes raw(k, j) at at(k, j) for k < n and j < m; expressions of k_ and j_. */
#ifndef TAKE_ALL
#define TAKE_ALL(a, n, m, raw, at)                              \
    do {                                                        \
        state b_ = START_;                                      \
        UNROLL for (int k_ = 0; k_ < (n); k_++)                 \
            UNROLL for (int j_ = 0; j_ < (m); j_++)             \
                b_ = TAKEN(b_, raw, at);                        \
        a = joined(a, b_);                                      \
    } while (0)
#endif
/* Four packs at elements i + k * step of the order along `axes`. */
#define LOAD_PACKS(p, n, x, axes, i, step)                                                      \
    pack_of_a p[n];                                                                             \
    UNROLL for (int k_ = 0; k_ < (n); k_++) {                                                   \
        int64_t at_ = 0;                                                                        \
        ADD_OFFSET(at_, axes, 0, (i) + k_ * (step));                                            \
        p[k_] = GET_PACK((GLOBAL const pack_of_a *)((x) + at_));                                   \
    }
#define STORE(output, a)                                                                        \
    do {                                                                                        \
        int64_t to_ = 0, to2_ = 0;                                                              \
        ADD_OFFSET(to_, v.kept, 1, output);                                                     \
        ADD_OFFSET(to2_, v.kept, 2, output);                                                    \
        FINISH(a, AT(B, y) + to_, AT(D, z) + to2_);                                             \
    } while (0)
#define KEEP(output, part, a)                                                                   \
    do {                                                                                        \
        if (v.parts > 1)                                                                        \
            AT(state, partial)[(part) * v.kept.count + (output)] = a;                           \
        else                                                                                    \
            STORE(output, a);                                                                   \
    } while (0)

KERNEL reduce_rows(BUFFER(x), BUFFER(y), BUFFER(z), BUFFER(partial), VALUES(reduce_values, v))
{
    UNPACK(reduce_values, v)
    SHARED state room[WIDTH];
    const int64_t units = v.kept.count * v.parts, whole = v.reduced.count / PACK * PACK, step = v.parts * TEAM * PACK;
    for (int64_t first = GROUP * TEAMS; first < units; first += GROUPS * TEAMS) {
        const int64_t unit = first + OWN_TEAM, part = divided(unit, v.kept.count), output = unit - part * v.kept.count;
        state a = START_;
        if (unit < units) {
            int64_t from = 0, i = (part * TEAM + IN_TEAM) * PACK;
            ADD_OFFSET(from, v.kept, 0, output);
            GLOBAL const A *row = AT(const A, x) + from;
            for (; i + 3 * step < whole; i += 4 * step) {
                LOAD_PACKS(p, 4, row, v.reduced, i, step)
                TAKE_ALL(a, 4, PACK, p[k_].at[j_], i + k_ * step + j_);
            }
            for (; i < whole; i += step) {
                LOAD_PACKS(p, 1, row, v.reduced, i, step)
                TAKE_ALL(a, 1, PACK, p[k_].at[j_], i + j_);
            }
            for (i = whole + part * TEAM + IN_TEAM; i < v.reduced.count; i += v.parts * TEAM)       /* of one dimension */
                a = TAKEN(a, row[i], i);
        }
        TEAM_FOLD(room, a, joined);
        if (IN_TEAM == 0 && unit < units)
            KEEP(output, part, a);
    }
}

KERNEL reduce_columns(BUFFER(x), BUFFER(y), BUFFER(z), BUFFER(partial), VALUES(reduce_values, v))
{
    UNPACK(reduce_values, v)
    SHARED state room[WIDTH];
    const int64_t tiles = divided(v.kept.count / PACK + TEAM - 1, TEAM), step = v.parts * TEAMS;
    for (int64_t unit = GROUP; unit < tiles * v.parts; unit += GROUPS) {
        const int64_t part = divided(unit, tiles), output = ((unit - part * tiles) * TEAM + IN_TEAM) * PACK;
        const state nothing = START_;
        state a[PACK];
        EACH_OF_PACK(j)
            a[j] = nothing;
        if (output < v.kept.count) {
            int64_t from = 0, i = part * TEAMS + OWN_TEAM;
            ADD_OFFSET(from, v.kept, 0, output);
            GLOBAL const A *column = AT(const A, x) + from;
            for (; i + 3 * step < v.reduced.count; i += 4 * step) {
                LOAD_PACKS(p, 4, column, v.reduced, i, step)
                EACH_OF_PACK(j)
                    TAKE_ALL(a[j], 4, 1, p[k_].at[j], i + k_ * step);
            }
            for (; i < v.reduced.count; i += step) {
                LOAD_PACKS(p, 1, column, v.reduced, i, step)
                EACH_OF_PACK(j)
                    a[j] = TAKEN(a[j], p[0].at[j], i);
            }
        }
        /* Outputs of a pack are neighbours along the last dimension: their places are found once. */
        int64_t to = 0, to2 = 0;
        if (OWN_TEAM == 0 && output < v.kept.count) {
            ADD_OFFSET(to, v.kept, 1, output);
            ADD_OFFSET(to2, v.kept, 2, output);
        }
        const int64_t next = PACK > 1 ? v.kept.strides[1][v.kept.ndim - 1] : 0, next2 = PACK > 1 ? v.kept.strides[2][v.kept.ndim - 1] : 0;
        EACH_OF_PACK(j) {
            FOLD_LANES(room, a[j], joined, WIDTH, TEAM);
            if (OWN_TEAM == 0 && output < v.kept.count) {
                if (v.parts > 1)
                    AT(state, partial)[part * v.kept.count + output + j] = a[j];
                else
                    FINISH(a[j], AT(B, y) + to + j * next, AT(D, z) + to2 + j * next2);
            }
        }
    }
}

KERNEL reduce_parts(BUFFER(partial), BUFFER(y), BUFFER(z), VALUES(reduce_values, v))
{
    UNPACK(reduce_values, v)
    SHARED state room[WIDTH];
    for (int64_t first = GROUP * TEAMS; first < v.kept.count; first += GROUPS * TEAMS) {
        const int64_t output = first + OWN_TEAM;
        state a = START_;
        for (int64_t i = IN_TEAM; i < v.parts && output < v.kept.count; i += TEAM)
            a = joined(a, AT(const state, partial)[i * v.kept.count + output]);
        TEAM_FOLD(room, a, joined);
        if (IN_TEAM == 0 && output < v.kept.count)
            STORE(output, a);
    }
}
#endif
