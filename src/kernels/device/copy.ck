/* A copy to another order of dimensions.
 *
 * Where the innermost dimension of what is read isn't that of what is written, one of both would be met with gaps.  So tiles of EDGE x EDGE elements
 * go through SHARED memory: they are read along the one dimension and written along the other.  A: words of an element's size.  PAD elements between
 * rows keep a column's in different banks. */
#include "kernels/device/group.ck"

/* `down` elements along which is read, `across` along which is written; `to` and `from`: the stride of the other one in each.  `outer`: what is
 * left, of which `planes` is the count. */
typedef struct tiles_values { int64_t down, across, to, from, planes, ndim, sizes[6], to_strides[6], from_strides[6]; } tiles_values;

#ifndef TD_HOST
KERNEL transpose_tiles(BUFFER(out), BUFFER(in), VALUES(tiles_values, v))
{
    UNPACK(tiles_values, v)
    SHARED A tile[EDGE * (EDGE + PAD)];
    const int64_t wide = (v.across + EDGE - 1) / EDGE, tiles = wide * ((v.down + EDGE - 1) / EDGE);
    for (int64_t which = GROUP; which < tiles * v.planes; which += GROUPS) {
        int64_t rest = which / tiles, to = 0, from = 0;
        const int64_t place = which - rest * tiles, row = place / wide * EDGE, column = place % wide * EDGE;
        for (int d = (int)v.ndim - 1; d >= 0; d--) {
            const int64_t over = rest / v.sizes[d], at = rest - over * v.sizes[d];
            to += at * v.to_strides[d];
            from += at * v.from_strides[d];
            rest = over;
        }
        GLOBAL const A *x = AT(const A, in) + from + row + column * v.from;
        GLOBAL A *y = AT(A, out) + to + column + row * v.to;
        const int down = v.down - row < EDGE ? (int)(v.down - row) : EDGE, across = v.across - column < EDGE ? (int)(v.across - column) : EDGE;
        UNROLL
        for (int k = 0; k < EDGE * EDGE; k += WIDTH) {
            const int i = (k + LANE) % EDGE, j = (k + LANE) / EDGE;
            if (i < down && j < across)
                tile[j * (EDGE + PAD) + i] = x[i + j * v.from];
        }
        BARRIER;
        UNROLL
        for (int k = 0; k < EDGE * EDGE; k += WIDTH) {
            const int i = (k + LANE) / EDGE, j = (k + LANE) % EDGE;
            if (i < down && j < across)
                y[j + i * v.to] = tile[j * (EDGE + PAD) + i];
        }
        BARRIER;
    }
}
#endif
