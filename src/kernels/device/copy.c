/* Copies to another order of dimensions on devices: copy.ck. */
#include "kernels/device/kernel.h"
#include "kernels/device/sweep.h"
#define TD_HOST
#include "kernels/device/copy.ck"

TD_SOURCE(copy);

/* Rows shorter than these leave tiles too empty. */
enum { LEAST = 16 };

/* The dimension along which is read, or -1. */
static int read_along(const td_sweep *s)
{
    const int last = s->ndim - 1;
    if (last < 1 || s->strides[0][last] != 1 || s->sizes[last] < LEAST)
        return -1;
    for (int d = 0; d < last; d++)
        if (s->strides[1][d] == 1 && s->sizes[d] >= LEAST)
            return d;
    return -1;
}

int td_copy_by_tiles(td_tensor *dst, td_tensor *src)
{
    const int64_t size = (int64_t)td_dtype_size((td_dtype)dst->dtype);
    td_sweep s;
    tiles_values v = {.planes = 1};
    if (dst->dtype != src->dtype || size > 8 || dst->numel < LEAST * LEAST)
        return TD_DECLINED;
    td_sweep_of(&s, 2, (td_tensor *[]){dst, src});
    const int along = read_along(&s), last = s.ndim - 1;
    if (along < 0 || s.pack > 1 || s.ndim - 2 > (int)(sizeof v.sizes / sizeof *v.sizes))
        return TD_DECLINED;
    v.down = s.sizes[along], v.to = s.strides[0][along];
    v.across = s.sizes[last], v.from = s.strides[1][last];
    for (int d = 0; d < last; d++) {
        if (d == along)
            continue;
        v.sizes[v.ndim] = s.sizes[d];
        v.to_strides[v.ndim] = s.strides[0][d];
        v.from_strides[v.ndim++] = s.strides[1][d];
        v.planes *= s.sizes[d];
    }
    const int64_t edge = size <= 2 ? 64 : 32, tiles = (v.down + edge - 1) / edge * ((v.across + edge - 1) / edge);
    return td_launch(&(td_launch_of){
        .source = td_source_copy, .kernel = "transpose_tiles", TD_VALUES(v), .groups = td_launch_many(dst->device, tiles * v.planes), .buffers = {dst, src},
        .types = {{"A", td_raw_dtype(size)}}, .numbers = {{"EDGE", edge}, {"PAD", size < 4 ? 4 / size : 1}},
    });
}
