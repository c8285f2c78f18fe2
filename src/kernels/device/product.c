/* How products are cut for devices: product.ck. */
#include "kernels/device/product.h"

#include <stdlib.h>
#include <string.h>

TD_SOURCE(product);

/* A tile of TILE x TILE sums reads 2 TILE SLICE elements for TILE^2 SLICE products, so larger tiles need less memory bandwidth, but give a matrix
 * fewer groups.  PART: products along k that make a further group worth its joining; PARTS: at most.  A sum in
 * float32 of more is in parts as well, where these have ROOM elements in all.  FEW rows of c leave a tile mostly empty. */
enum { SLICE = 16, SMALL_TILE = 64, LARGE_TILE = 128, PART = 128, PARTS = 64, ROOM = 1 << 20, FEW = 8 };

int64_t td_product_number(td_scalar x, td_dtype dtype)
{
    int64_t bits = 0;
    if (dtype == TD_F64) {
        memcpy(&bits, &(double){td_scalar_double(x)}, sizeof(double));
    } else if (td_dtype_is_floating(dtype)) {
        memcpy(&bits, &(float){(float)td_scalar_double(x)}, sizeof(float));
    } else {
        bits = x.kind == TD_SCALAR_FLOAT || x.kind == TD_SCALAR_COMPLEX ? (int64_t)x.d : x.i;
    }
    return bits;
}

product_values td_product_of(td_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    product_values v = {.m = m, .n = n, .k = k, .batch = 1, .alpha = td_product_number(td_int(1), dtype)};
    for (int d = 0; d < PRODUCT_DIMS; d++)
        v.sizes[d] = 1;
    return v;
}

/* The dtype of sums. */
static td_dtype computed(td_dtype dtype)
{
    return td_dtype_is_complex(dtype) || dtype == TD_F64 || dtype == TD_I64 || dtype == TD_U64 ? dtype : dtype == TD_U32 ? TD_I64 : td_dtype_is_floating(dtype) ? TD_F32 : TD_I32;
}

/* One column (n = 1) stands where the kernel for rows expects it. */
static void make_column(product_values *v)
{
    const product_values w = *v;
    v->m = w.n, v->n = 1;
    v->a_row = w.b_column, v->a_column = w.b_row, v->b_row = w.a_column, v->b_column = 0;
    v->c_row = w.c_column, v->c_column = 0, v->bias_row = w.bias_column, v->bias_column = 0;
    memcpy(v->a_batch, w.b_batch, sizeof v->a_batch);
    memcpy(v->b_batch, w.a_batch, sizeof v->b_batch);
}

/* Parts that keep a sum exact: the error of one sum after the other grows with their number.  Gradients of weights are sums over a whole batch. */
static int64_t parts_of(const product_values *v, td_dtype dtype)
{
    const int64_t parts = (v->k + PART - 1) / PART, elements = v->batch * v->m * v->n;
    return computed(dtype) == TD_F32 && elements * (parts < PARTS ? parts : PARTS) <= ROOM ? parts : 1;
}

/* Two groups for each unit: a unit with one would wait at each barrier.  The parts' sums are joined by product_join in their order, not by
 * atomic additions, so that a product gives the same digits each time; PART keeps what joining costs below a share of the products.
 *
 * k is cut where c alone has too few pieces of work, and into `least` parts. */
static void cut(product_values *v, int64_t pieces, int64_t wanted, int64_t least)
{
    v->splits = wanted / (pieces ? pieces : 1);
    v->splits = v->splits > v->k / PART ? v->k / PART : v->splits;
    v->splits = v->splits > least ? v->splits : least;
    v->splits = v->splits < 1 ? 1 : v->splits > PARTS ? PARTS : v->splits;
    v->depth = ((v->k + v->splits - 1) / v->splits + SLICE - 1) / SLICE * SLICE;
    v->splits = v->depth ? (v->k + v->depth - 1) / v->depth : 1;
}

int td_product_launch(td_product_kind kind, product_values *v, td_tensor *a, td_tensor *b, td_tensor *c, td_tensor *bias)
{
    const td_device device = c->device;
    const td_dtype dtype = (td_dtype)c->dtype;
    const td_device_properties *properties = td_device_known(device);
    const int lanes = td_launch_lanes(device);
    if (!properties || lanes < 0)
        return -1;
    if (!(v->m && v->n && v->batch))
        return 0;
    if (kind == TD_PRODUCT_PLAIN && v->m == 1 && v->n > 1) {
        make_column(v);
        td_tensor *left = a;
        a = b, b = left;
    }
    if (kind != TD_PRODUCT_PLAIN && v->batch > 1 && v->m <= FEW) {         /* depthwise convolution: bound by memory, not by products */
        td_launch_of launch = {
            .source = td_source_product, .kernel = kind == TD_PRODUCT_WEIGH ? "product_sums" : "product_elements", TD_VALUES(*v), .types = {{"A", dtype}},
            .numbers = {{"TILE_M", SMALL_TILE}, {"TILE_N", SMALL_TILE}, {"TILE_K", SLICE}, {"WIDE", dtype == TD_F64}, {"GATHER", 1},
                        {"WEIGH", kind == TD_PRODUCT_WEIGH}},
            .complex = true, .buffers = {a, b, c, bias}, .groups = (kind == TD_PRODUCT_WEIGH ? td_launch_many : td_launch_groups)(device, v->batch * v->m * v->n),
        };
        return td_launch(&launch);
    }
    const bool rows = kind == TD_PRODUCT_PLAIN && v->n == 1;
    const int64_t wanted = 2 * (int64_t)properties->units;
    int64_t tile = SMALL_TILE, pieces;
    /* In which direction an operand's memory runs: work items that fetch a tile are laid along it, so that reads are of whole lines. */
    v->a_down = llabs(v->a_row) < llabs(v->a_column);
    v->b_down = kind == TD_PRODUCT_WEIGH || llabs(v->b_row) < llabs(v->b_column);
    if (rows) {     /* a product with a vector reads each element of the matrix once: neighbours in memory go to neighbouring work items */
        int deep = 1;
        while (deep < lanes && (v->a_down ? deep < lanes / 32 : deep * 4 < v->k))
            deep *= 2;
        v->rows = lanes / deep;
        pieces = (v->m + v->rows - 1) / v->rows * v->batch;
    } else {        /* large tiles where they still give each unit several groups */
        for (; tile < LARGE_TILE && !td_dtype_is_complex(dtype) && (v->m / LARGE_TILE) * (v->n / LARGE_TILE) * v->batch >= 2 * wanted; tile = LARGE_TILE) {}
        pieces = (v->m + tile - 1) / tile * ((v->n + tile - 1) / tile) * v->batch;
    }
    cut(v, pieces, rows ? 4 * wanted : wanted, rows ? 1 : parts_of(v, dtype));
    TD_AUTO td_tensor *parts = v->splits > 1 ? td_tensor_new(1, (int64_t[]){v->splits * v->batch * v->m * v->n}, computed(dtype), device) : td_tensor_retain(TD_NONE);
    if (!parts)
        return -1;
    td_launch_of launch = {
        .source = td_source_product, .kernel = rows ? "product_rows" : "product_tiles", TD_VALUES(*v), .types = {{"A", dtype}},
        .numbers = {{"TILE_M", tile}, {"TILE_N", tile}, {"TILE_K", tile == LARGE_TILE ? SLICE / 2 : SLICE}, {"WIDE", dtype == TD_F64},
                    {"GATHER", kind != TD_PRODUCT_PLAIN}, {"WEIGH", kind == TD_PRODUCT_WEIGH}},
        .complex = true, .buffers = {a, b, c, bias, parts}, .groups = td_launch_many(device, pieces * v->splits),
    };
    if (td_launch(&launch))
        return -1;
    if (v->splits == 1)
        return 0;
    launch.kernel = "product_join";
    launch.groups = td_launch_groups(device, v->batch * v->m * v->n);
    memcpy(launch.buffers, (td_tensor *[TD_LAUNCH_BUFFERS]){c, bias, parts}, sizeof launch.buffers);
    return td_launch(&launch);
}

/* As libraries take it; false if they don't. */
static bool call_of(const product_values *v, double alpha, double beta, td_tensor *a, td_tensor *b, td_tensor *c, td_product *p)
{
    const int last = PRODUCT_DIMS - 1;
    *p = (td_product){
        .size = sizeof *p, .dtype = (td_dtype)c->dtype, .batch = v->batch, .m = v->m, .n = v->n, .k = v->k,
        .a = {a->data, v->a_batch[last], v->a_row, v->a_column}, .b = {b->data, v->b_batch[last], v->b_row, v->b_column},
        .c = {c->data, v->c_batch, v->c_row, v->c_column}, .alpha = alpha, .beta = beta, .flags = td_library_flags(),
    };
    return td_dtype_is_floating(p->dtype) && v->m && v->n && v->k && v->batch && v->sizes[last] == v->batch;
}

int td_product_fused(const product_values *v, double alpha, td_tensor *a, td_tensor *b, td_tensor *c, td_tensor *bias, td_epilogue epilogue)
{
    td_fused_product f = {.size = sizeof f, .epilogue = epilogue, .bias = bias == TD_NONE ? NULL : bias->data};
    const bool row = bias == TD_NONE || (bias->dtype == c->dtype && bias->numel == v->n &&
                                         (v->n == 1 || (bias->sizes[bias->ndim - 1] == v->n && bias->strides[bias->ndim - 1] == 1)));
    return td_device_of(c->device.type)->fused_product && row && call_of(v, alpha, 0, a, b, c, &f.product) ? td_device_fused_product(c->device, &f) : 1;
}

int td_product_by_library(const product_values *v, double alpha, double beta, td_tensor *a, td_tensor *b, td_tensor *c, td_tensor *added)
{
    td_product product;
    if (!td_device_of(c->device.type)->product || !call_of(v, alpha, added == TD_NONE ? 0 : beta, a, b, c, &product))
        return 1;
    if (added != TD_NONE && added != c && td_copy_elements(c, added))
        return -1;
    return td_device_product(c->device, &product);
}
