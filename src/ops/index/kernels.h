/* The structure that all of gather, scatter, index_select, index_add, take, put and x[indices] are reduced to; the kernels are
 * src/kernels/cpu/move/index.c and, for devices with programs, src/kernels/device/pick.c.  What else the bodies read of indices and masks
 * is here, too, so that they are the same for both.
 *
 * Over the index space of a shape, an element of `far` is chosen by the coordinates (through strides, 0 for a dimension
 * that the index replaces) plus index * reach, and paired with the element of `near` at the same coordinates. index_select
 * is gather with an index that repeats along all dimensions but one; index_put is scatter with an index that is an offset
 * already. */
#ifndef TD_OPS_INDEX_KERNELS_H
#define TD_OPS_INDEX_KERNELS_H
#include "tensor/tensor.h"

/* GET reads from far into near, the others write near into far. The order matters to the kernel: it tests what <=
 * TD_PLACE_SET for those that copy without arithmetic. */
typedef enum td_place { TD_PLACE_GET, TD_PLACE_SET, TD_PLACE_ADD, TD_PLACE_MUL, TD_PLACE_MAX, TD_PLACE_MIN } td_place;

/* What a device's kernel is to hold an index to, from -range of the picking to below `size`, and what the error says (td_late_kind); no `op`: nothing, it
 * was checked. */
typedef struct td_index_rule {
    int64_t     size;
    td_code     code;
    const char *op, *text;
    int         dim;
} td_index_rule;

typedef struct td_picking {
    td_place       what;
    td_dtype       dtype;
    int            ndim;
    td_index_rule  rule;
    int64_t        sizes[TD_MAX_DIMS];
    int64_t        far[TD_MAX_DIMS], near[TD_MAX_DIMS];      /* bytes */
    int64_t        along[TD_MAX_DIMS];                       /* of the index, in elements */
    td_tensor     *of[3];                                    /* far, near, index; borrowed */
    char          *far_data, *near_data;
    int64_t        far_bytes;                                /* of the tensor there */
    const int64_t *index;
    int64_t        reach;                                    /* bytes per unit of the index */
    int64_t        range;        /* negative indices count from here; 0: there are none */
    int64_t        limit;        /* GET with an index contiguous along the last dimension: checked on the way; 0: it was */
    bool           outside;      /* set where the index is not within [0, limit); such parts are left out */
} td_picking;

/* Without dimensions of size 1, neighbours merged that go on where the other ends on all three sides; at least one is left. */
void td_picking_merge(td_picking *p);

/* Indices were checked before, or `outside` reports them, or on a device `rule`; on the CPU it cannot fail.  There only GET runs on several threads, for each element
 * of near is written once; indices may repeat, so two threads could write one element of far, and floating sums would
 * depend on who is first. */
int td_pick_run(td_picking *p);
int td_pick_on_device(td_picking *p);

/* Smallest and largest of n indices (0, -1 if n is 0). */
void td_index_range(const int64_t *index, int64_t n, int64_t *low, int64_t *high);
/* The same of a contiguous int64 tensor, wherever it is. */
int td_index_bounds(td_tensor *index, int64_t *low, int64_t *high);
int td_index_bounds_on_device(td_tensor *index, int64_t *low, int64_t *high);
/* offsets[i] += (index[i], counted from the end of `size` if it is negative) * reach; both contiguous, int64.  An index outside of dimension `dim` makes
 * an offset that nothing is picked by. */
int td_index_fold_on_device(td_tensor *offsets, td_tensor *index, int64_t size, int64_t reach, int dim);

/* The positions of a contiguous mask's true elements, in order: int64, contiguous. */
td_tensor *td_true_positions_on_device(td_tensor *mask);
/* They as coordinates in a shape, written to an int64 matrix of any strides. */
int td_coordinates_on_device(td_tensor *positions, int ndim, const int64_t *sizes, td_tensor *out);
/* unique_dim of the slices along the first dimension of a contiguous x: slices, the inverse, counts. */
int td_unique_slices_on_device(td_tensor **results, td_tensor *x, bool sort, bool inverse, bool counts);

#endif
