/* Operators on boxes: which of them to keep (nms, qnms), and how much rotated ones overlap (box_iou_rotated). */
#include "torchvision.h"

/* ---- nms: boxes by descending score, without those that overlap one that is kept by more than the threshold */

/* The places of the boxes that are kept, in order; how many. `drop` holds a zero for each box. */
#define KEEP(T)                                                                                                    \
    static int64_t keep_##T(int64_t n, const T *box, const int64_t *order, double threshold, char *drop, int64_t *kept) \
    {                                                                                                              \
        int64_t count = 0;                                                                                         \
        for (int64_t i = 0; i < n; i++) {                                                                          \
            if (drop[order[i]])                                                                                    \
                continue;                                                                                          \
            const T *a = box + 4 * order[i], area = (a[2] - a[0]) * (a[3] - a[1]);                                 \
            kept[count++] = order[i];                                                                              \
            for (int64_t k = i + 1; k < n; k++) {                                                                  \
                const T *b = box + 4 * order[k];                                                                   \
                const T left = a[0] < b[0] ? b[0] : a[0], right = b[2] < a[2] ? b[2] : a[2];                       \
                const T top = a[1] < b[1] ? b[1] : a[1], bottom = b[3] < a[3] ? b[3] : a[3];                       \
                const T width = right - left > 0 ? right - left : 0, height = bottom - top > 0 ? bottom - top : 0; \
                const T both = width * height, other = (b[2] - b[0]) * (b[3] - b[1]);                              \
                drop[order[k]] |= both / (area + other - both) > threshold;                                        \
            }                                                                                                      \
        }                                                                                                          \
        return count;                                                                                              \
    }
KEEP(float)
KEEP(double)

static int check_boxes(const td_op *op, td_tensor *boxes, td_tensor *scores)
{
    if (td_tensor_ndim(boxes) != 2)
        return td_error(TD_E_RUNTIME, "%s: boxes should be a 2d tensor, got %dD", operator_title(op), td_tensor_ndim(boxes));
    if (size_of(boxes, 1) != 4)
        return td_error(TD_E_RUNTIME, "%s: boxes should have 4 elements in dimension 1, got %" PRId64, operator_title(op), size_of(boxes, 1));
    if (td_tensor_ndim(scores) != 1)
        return td_error(TD_E_RUNTIME, "%s: scores should be a 1d tensor, got %dD", operator_title(op), td_tensor_ndim(scores));
    if (size_of(boxes, 0) != size_of(scores, 0))
        return td_error(TD_E_RUNTIME, "%s: boxes and scores should have same number of elements in dimension 0, got %" PRId64 " and %" PRId64,
                        operator_title(op), size_of(boxes, 0), size_of(scores, 0));
    return 0;
}

/* `context` is set for qnms, whose boxes are the integers of quantized ones. */
static int nms(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys;
    td_tensor *boxes = arguments[0].tensor, *scores = arguments[1].tensor;
    const td_dtype dtype = context ? TD_F64 : computed(td_tensor_dtype(boxes));
    const bool integer = TD_DTYPE_BIT(td_tensor_dtype(boxes)) & TD_INTEGERS;
    if (check_boxes(op, boxes, scores) || tv_same_dtype(op, arguments, 0, 1) || (!(context && integer) && tv_floats(op, boxes)))
        return -1;
    const int64_t n = size_of(boxes, 0);
    TD_AUTO td_tensor *order = td_argsort_stable(scores, /*stable=*/true, 0, /*descending=*/true);
    TD_AUTO td_tensor *places = order ? td_make_contiguous(order) : NULL, *plain = td_as_contiguous(boxes, dtype);
    TD_AUTO td_tensor *drop = td_zeros(1, &n, TD_U8, td_tensor_device(boxes)), *kept = td_zeros(1, &n, TD_I64, td_tensor_device(boxes));
    if (!places || !plain || !drop || !kept)
        return -1;
    int64_t count = 0;
#define RUN(T) count = keep_##T(n, td_tensor_data(plain), td_tensor_data(places), arguments[2].number, td_tensor_data(drop), td_tensor_data(kept))
    BY_COMPUTED(dtype, RUN);
#undef RUN
    td_tensor *out = td_output(results, 1, &count, TD_I64, td_tensor_device(boxes));
    if (!out)
        return -1;
    if (count)
        memcpy(td_tensor_data(out), td_tensor_data(kept), sizeof(int64_t) * (size_t)count);
    return 0;
}

/* ---- box_iou_rotated: of boxes (x, y, width, height, degrees), turned counterclockwise, y pointing down; in float32 whatever theirs is */

typedef struct point { double x, y; } point;

static void corners(const double *box, double x, double y, point *corner)
{
    const double angle = box[4] * (3.14159265358979323846 / 180), c = cos(angle) / 2, s = sin(angle) / 2;
    const point along = {c * box[2], -s * box[2]}, across = {s * box[3], c * box[3]};
    x = box[0] - x, y = box[1] - y;
    corner[0] = (point){x - along.x - across.x, y - along.y - across.y};
    corner[1] = (point){x + along.x - across.x, y + along.y - across.y};
    corner[2] = (point){x + along.x + across.x, y + along.y + across.y};
    corner[3] = (point){x - along.x + across.x, y - along.y + across.y};
}

/* What of a polygon lies to the left of the line from a to b, or on it; its number of corners, of which each one outside adds at most one:
 * four of them are at most 19 after four cuts, whatever is rounded. */
static int clip(int n, const point *from, point a, point b, point *to)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        const point p = from[i], q = from[(i + 1) % n];
        const double side = (b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x), next = (b.x - a.x) * (q.y - a.y) - (b.y - a.y) * (q.x - a.x);
        if (side >= 0)
            to[count++] = p;
        if ((side > 0 && next < 0) || (side < 0 && next > 0)) {
            const double t = side / (side - next);
            to[count++] = (point){p.x + t * (q.x - p.x), p.y + t * (q.y - p.y)};
        }
    }
    return count;
}

/* Coordinates are counted from the middle between the boxes, so that distant ones lose no digits. */
static double overlap(const double *a, const double *b)
{
    const double areas[] = {a[2] * a[3], b[2] * b[3]}, x = (a[0] + b[0]) / 2, y = (a[1] + b[1]) / 2;
    if (areas[0] < 1e-14 || areas[1] < 1e-14)
        return 0;
    point other[4], polygon[2][19];
    corners(a, x, y, polygon[0]);
    corners(b, x, y, other);
    int n = 4;
    for (int i = 0; i < 4; i++)
        n = clip(n, polygon[i % 2], other[i], other[(i + 1) % 4], polygon[1 - i % 2]);
    double twice = 0;
    for (int i = 0; i < n; i++) {
        const point p = polygon[0][i], q = polygon[0][(i + 1) % n];
        twice += p.x * q.y - p.y * q.x;
    }
    return fabs(twice) / 2 / (areas[0] + areas[1] - fabs(twice) / 2);
}

static META(meta_rotated)
{
    (void)context;
    td_tensor *a = arguments[0].tensor, *b = arguments[1].tensor;
    if (td_check_sizes_of(op, 0, a, 2, (int64_t[]){TD_ANY, 5}) || td_check_sizes_of(op, 1, b, 2, (int64_t[]){TD_ANY, 5}) ||
        tv_same_dtype(op, arguments, 0, 1) || tv_floats(op, a))
        return -1;
    return td_spec_set(specs, 2, (int64_t[]){size_of(a, 0), size_of(b, 0)}, TD_F32, td_tensor_device(a));
}

typedef struct pairs { const double *a, *b; double *to; int64_t n; } pairs;
static void rows(void *context, int64_t begin, int64_t end)
{
    const pairs *p = context;
    for (int64_t i = begin; i < end; i++)
        for (int64_t k = 0; k < p->n; k++)
            p->to[i * p->n + k] = overlap(p->a + 5 * i, p->b + 5 * k);
}
static IMPL(rotated)
{
    (void)op, (void)context;
    TD_AUTO td_tensor *a = td_as_contiguous(arguments[0].tensor, TD_F64), *b = td_as_contiguous(arguments[1].tensor, TD_F64);
    TD_AUTO td_tensor *to = td_writable(results[0], TD_F64);
    if (!a || !b || !to)
        return -1;
    pairs p = {td_tensor_data(a), td_tensor_data(b), td_tensor_data(to), size_of(b, 0)};
    td_parallel_for(0, size_of(a, 0), 1 + 256 / (p.n + 1), rows, &p);
    return td_write_back(results[0], to);
}

int tv_define_boxes(void)
{
    static const operator_entry entries[] = {{"torchvision::box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor", meta_rotated, rotated, NULL}};
    static bool quantized = true;
    if (!td_op_define("torchvision::nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor") ||
        !td_op_define("torchvision::qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor") ||
        td_register_boxed("torchvision::nms", TD_KEY_DENSE, TD_CPU, nms, NULL) ||
        td_register_boxed("torchvision::qnms", TD_KEY_DENSE, TD_CPU, nms, &quantized))
        return -1;
    return operators_define(1, entries);
}
