/* Folding elements along some dimensions: the kernels of reduce.ck and reduce_exp.ck, which say before what is folded how.
 *
 * START_ is a `state` of nothing, taken() adds an element and where it is, joined() two states, finished() stores a result.  Work is shared in
 * units: an output, or one of its `parts` where outputs are few.  A unit is a group's, whose lanes take elements side by side, or a work
 * item's, where outputs lie side by side or have few elements.  What parts have found is kept in `partial` and folded by reduce_parts.
 * A unit goes with four states, so that loads don't wait for the arithmetic before. */
#ifndef TD_HOST
#define FOLD_UNIT(a, output, first, step)                                                       \
    state a = START_, b_ = START_, c_ = START_, d_ = START_;                                    \
    {                                                                                           \
        int64_t from_ = 0, i_ = (first);                                                        \
        const int64_t step_ = (step);                                                           \
        ADD_OFFSET(from_, v.kept, 0, output);                                                   \
        GLOBAL const A *x_ = AT(const A, x) + from_;                                            \
        if (v.reduced.ndim <= 1) {                                                              \
            const int64_t stride_ = v.reduced.strides[0][0];                                    \
            for (; i_ + 3 * step_ < v.reduced.count; i_ += 4 * step_) {                         \
                a = TAKEN(a, x_[i_ * stride_], i_);                                             \
                b_ = TAKEN(b_, x_[(i_ + step_) * stride_], i_ + step_);                         \
                c_ = TAKEN(c_, x_[(i_ + 2 * step_) * stride_], i_ + 2 * step_);                 \
                d_ = TAKEN(d_, x_[(i_ + 3 * step_) * stride_], i_ + 3 * step_);                 \
            }                                                                                   \
        }                                                                                       \
        for (; i_ < v.reduced.count; i_ += step_) {                                             \
            int64_t at_ = 0;                                                                    \
            ADD_OFFSET(at_, v.reduced, 0, i_);                                                  \
            a = TAKEN(a, x_[at_], i_);                                                          \
        }                                                                                       \
        a = joined(joined(a, b_), joined(c_, d_));                                              \
    }
#define STORE(output, a)                                                                        \
    do {                                                                                        \
        int64_t to_ = 0, to2_ = 0;                                                              \
        ADD_OFFSET(to_, v.kept, 1, output);                                                     \
        ADD_OFFSET(to2_, v.kept, 2, output);                                                    \
        FINISH(a, AT(B, y) + to_, AT(D, z) + to2_);                                             \
    } while (0)

KERNEL reduce_groups(BUFFER(x), BUFFER(y), BUFFER(z), BUFFER(partial), VALUES(reduce_values, v))
{
    UNPACK(reduce_values, v)
    SHARED state room[WIDTH];
    for (int64_t unit = GROUP; unit < v.kept.count * v.parts; unit += GROUPS) {
        const int64_t output = divided(unit, v.parts), part = unit - output * v.parts;
        FOLD_UNIT(a, output, part * LANES + LANE, v.parts * LANES);
        GROUP_FOLD(state, room, a, joined);
        if (LANE == 0 && v.parts > 1)
            AT(state, partial)[unit] = a;
        else if (LANE == 0)
            STORE(output, a);
    }
}

KERNEL reduce_items(BUFFER(x), BUFFER(y), BUFFER(z), BUFFER(partial), VALUES(reduce_values, v))
{
    UNPACK(reduce_values, v)
    for (int64_t unit = ITEM; unit < v.kept.count * v.parts; unit += ITEMS) {
        const int64_t part = divided(unit, v.kept.count), output = unit - part * v.kept.count;
        FOLD_UNIT(a, output, part, v.parts);
        if (v.parts > 1)
            AT(state, partial)[output * v.parts + part] = a;
        else
            STORE(output, a);
    }
}

KERNEL reduce_parts(BUFFER(partial), BUFFER(y), BUFFER(z), VALUES(reduce_values, v))
{
    UNPACK(reduce_values, v)
    SHARED state room[WIDTH];
    for (int64_t output = GROUP; output < v.kept.count; output += GROUPS) {
        state a = START_;
        for (int64_t i = LANE; i < v.parts; i += LANES)
            a = joined(a, AT(const state, partial)[output * v.parts + i]);
        GROUP_FOLD(state, room, a, joined);
        if (LANE == 0)
            STORE(output, a);
    }
}
#endif
