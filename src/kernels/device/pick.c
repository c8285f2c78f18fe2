/* Indexing on devices: pick.ck.  Indices are checked by the kernels that use them (src/device/late.c), so that no call waits for the device; what
 * decides a result's shape is read at the call. */
#include "calls_kernels_device_pick.h"
#include "kernels/device/kernel.h"
#include "ops/index/kernels.h"
#define TD_HOST
#include "kernels/device/pick.ck"

TD_SOURCE(pick);

/* What is only moved is moved in packs of up to 16 bytes, as far as what lies side by side in both and where it begins are multiples of them. */
static int64_t widest(const td_picking *p, const pick_values *v, int64_t size)
{
    const int last = p->ndim - 1;
    const bool lines = p->far[last] == size && p->near[last] == size && p->along[last] == 0;
    int64_t of = (int64_t)((uintptr_t)p->of[0]->data | (uintptr_t)p->of[1]->data) | (size * (lines ? p->sizes[last] : 1)) | p->reach;
    for (int d = 0; d < last + !lines; d++)
        of |= v->far[d] | v->near[d];
    int64_t wide = 16;
    while (of % wide)
        wide /= 2;
    return lines || wide < size ? wide : size;
}

/* Products of complex numbers. */
static int multiply(const td_picking *p, td_launch_of launch, int64_t n)
{
    td_tensor *pair[2];
    TD_AUTO td_tensor *places = td_tensor_new(2, (int64_t[]){2, n}, TD_I64, p->of[0]->device), *to = places ? td_select_int(places, 0, 0) : NULL;
    launch.kernel = "pick_places", launch.complex = true, launch.buffers[3] = places;
    if (!to || td_launch(&launch) || td_sort_stable(pair, to, &(bool){true}, 0, false))
        return -1;
    TD_AUTO td_tensor *sorted = pair[0], *order = pair[1];
    launch.kernel = "pick_runs", launch.late = false, launch.buffers[2] = sorted, launch.buffers[3] = order, launch.buffers[4] = places;
    return td_launch(&launch);
}

int td_pick_on_device(td_picking *p)
{
    td_picking_merge(p);
    const int64_t size = (int64_t)td_dtype_size(p->dtype);
    const bool moved = p->what <= TD_PLACE_SET, parts = p->what == TD_PLACE_ADD && td_dtype_is_complex(p->dtype);
    const td_index_rule *r = &p->rule;
    pick_values v = {.n = 1, .ndim = p->ndim, .reach = p->reach, .range = p->range, .limits = {NOWHERE + 1, INT64_MAX, 0}};
    if (r->op)
        v.limits = td_index_limits(-p->range, r->size, r->code, r->op, r->text, r->dim);
    if (p->ndim + (size == 16 || parts) > PICK_DIMS)
        return td_leave_to_cpu("an index over more than 8 dimensions");
    for (int d = 0; d < p->ndim; d++) {
        v.sizes[d] = p->sizes[d], v.far[d] = p->far[d], v.near[d] = p->near[d], v.along[d] = p->along[d];
        v.n *= p->sizes[d];
    }
    /* Elements that are only moved needn't have a type: the kernel is compiled once for each width, not for each dtype. */
    const int64_t wide = moved && v.n ? widest(p, &v, size) : parts ? size / 2 : size;
    if (wide > size) {
        v.sizes[v.ndim - 1] /= wide / size, v.far[v.ndim - 1] = v.near[v.ndim - 1] = wide, v.n /= wide / size;
    } else if (wide < size) {           /* halves of an element of 16 bytes side by side, or the parts of a complex sum */
        v.sizes[v.ndim] = size / wide, v.far[v.ndim] = v.near[v.ndim] = wide, v.along[v.ndim++] = 0;
        v.n *= size / wide;
    }
    td_launch_of launch = {
        .source = td_source_pick, .kernel = "pick", TD_VALUES(v), .groups = td_launch_groups(p->of[0]->device, moved ? (v.n + 3) / 4 : v.n),
        .types = {{"A", moved ? td_raw_dtype(wide) : parts ? td_dtype_to_real(p->dtype) : p->dtype}}, .numbers = {{"WHAT", p->what}, {"SIZE", wide}, {"PACK", wide == 16 ? 2 : 1}},
        .buffers = {p->of[0], p->of[1], p->of[2]}, .late = true,
    };
    return p->what == TD_PLACE_MUL && td_dtype_is_complex(p->dtype) ? multiply(p, launch, v.n) : td_launch(&launch);
}

/* The numbers of a contiguous int64 tensor on a device; owned, on the CPU. */
static td_tensor *fetched(td_tensor *x) { return x ? td_host_copy(x) : NULL; }

/* The least and the greatest index, for callers whose result's shape or choice of a path depends on them.  Up to 64 groups fold what they see;
 * the pairs are few enough to come to the host in one copy, which has to wait in any case, so no second kernel folds them. */
int td_index_bounds_on_device(td_tensor *index, int64_t *low, int64_t *high)
{
    *low = 0, *high = -1;
    if (!index->numel)
        return 0;
    int64_t groups = td_launch_groups(index->device, index->numel), n;
    groups = groups < 64 ? groups : 64, n = 2 * groups;
    index_values v = {.n = index->numel};
    TD_AUTO td_tensor *bounds = td_tensor_new(1, &n, TD_I64, index->device);
    if (!bounds || td_launch(&(td_launch_of){.source = td_source_pick, .kernel = "index_bounds", TD_VALUES(v), .groups = groups,
                                             .buffers = {index, bounds}}))
        return -1;
    TD_AUTO td_tensor *here = fetched(bounds);
    if (!here)
        return -1;
    const int64_t *at = (const int64_t *)here->data;
    *low = at[0], *high = at[1];
    for (int64_t i = 2; i < n; i += 2) {
        *low = at[i] < *low ? at[i] : *low;
        *high = at[i + 1] > *high ? at[i + 1] : *high;
    }
    return 0;
}

int td_index_fold_on_device(td_tensor *offsets, td_tensor *index, int64_t size, int64_t reach, int dim)
{
    index_values v = {offsets->numel, size, reach, td_index_limits(-size, size, TD_E_INDEX, "index", NULL, dim)};
    return td_launch(&(td_launch_of){.source = td_source_pick, .kernel = "index_fold", TD_VALUES(v), .buffers = {offsets, index}, .late = true,
                                     .groups = td_launch_groups(offsets->device, offsets->numel)});
}

/* Counted by parts on the device, added up here, since the result's size must be known here, too. */
td_tensor *td_true_positions_on_device(td_tensor *mask)
{
    enum { LEAST = 1024, MOST = 512 };
    mask_values v = {.n = mask->numel, .parts = (mask->numel + LEAST - 1) / LEAST};
    v.parts = v.parts < MOST ? v.parts : MOST;
    v.each = v.parts ? (v.n + v.parts - 1) / v.parts : 0;
    int64_t count = 0;
    td_launch_of launch = {.source = td_source_pick, .kernel = "count_true", TD_VALUES(v), .groups = td_launch_many(mask->device, v.parts)};
    TD_AUTO td_tensor *counts = td_tensor_new(1, &v.parts, TD_I64, mask->device);
    launch.buffers[0] = mask, launch.buffers[1] = counts;
    TD_AUTO td_tensor *starts = counts && !td_launch(&launch) ? fetched(counts) : NULL;
    if (!starts)
        return NULL;
    for (int64_t part = 0; part < v.parts; part++) {
        const int64_t here = ((int64_t *)starts->data)[part];
        ((int64_t *)starts->data)[part] = count;
        count += here;
    }
    TD_AUTO td_tensor *out = td_tensor_new(1, &count, TD_I64, mask->device);
    if (!out || !count)
        return td_tensor_retain(out);
    launch.kernel = "true_positions", launch.buffers[1] = counts, launch.buffers[2] = out;
    return td_copy_elements(counts, starts) || td_launch(&launch) ? NULL : td_tensor_retain(out);
}

int td_coordinates_on_device(td_tensor *positions, int ndim, const int64_t *sizes, td_tensor *out)
{
    coordinate_values v = {.n = positions->numel, .ndim = ndim};
    if (ndim > PICK_DIMS)
        return td_leave_to_cpu("coordinates of more than 8 dimensions");
    if (!ndim)
        return 0;
    v.step = out->strides[0], v.across = out->strides[1];
    for (int d = 0; d < ndim; d++)
        v.sizes[d] = sizes[d];
    return td_launch(&(td_launch_of){.source = td_source_pick, .kernel = "coordinates", TD_VALUES(v), .buffers = {positions, out},
                                     .groups = td_launch_groups(out->device, v.n)});
}
