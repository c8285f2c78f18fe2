/* Copies with conversion, between any two strided tensors.
 *
 * Contiguous to contiguous is a memcpy or one conversion loop, past the caches when the result is larger than they are.
 * Where target and source have different fastest dimensions (a transpose), tiles pass through a small
 * buffer, so that every cache line that is fetched is used whole.  The rest goes row by row. */
#include "calls_kernels_cpu_move_copy.h"
#include "base/watch.h"
#include "kernels/cpu/loops/convert.h"
#include "kernels/cpu/loops/foreign.h"
#include "ops/iterate/iterator.h"
#include "tensor/late.h"
#include "tensor/device.h"
#include <inttypes.h>
#include <tede/auto.h>

enum {
    AHEAD_BYTES = 2 << 20,      /* of both sides: more than the second cache holds */
    CHUNK = 1 << 16,            /* bytes that a thread takes at a time, at least */
    STEP = 256,                 /* elements that are converted at a time between strided runs */
    ACROSS = 32,                /* elements of a tile in the source's fastest dimension */
    ALONG_BYTES = 512,          /* of a tile in the target's */
    ALONG = 128,                /* elements there, at most */
    BRIEF_BYTES = 512,          /* of a row, or fewer: what beginning and ending it takes is most of the time */
};

/* ---- runs */

static const td_convert_table *runs(void) { return TD_ISA_PICK(td_convert_table); }

td_convert_run *td_converter(td_dtype to, td_dtype from)
{
    return TD_LIKELY(!td_is_keyed_dtype(to) && !td_is_keyed_dtype(from)) ? runs()->run[to][from] : td_foreign_converter(to, from);
}

void td_copy_streaming(char *to, const char *from, int64_t bytes) { runs()->stream(to, from, bytes); }

void td_fill_eight(char *to, uint64_t eight, int64_t bytes) { runs()->fill(to, eight, bytes); }

void td_fill_rows(size_t size, char *to, int64_t n, const char *from, int64_t step, int64_t rows)
{
    typedef uint64_t wide __attribute__((vector_size(16), aligned(1), may_alias));
    const int64_t bytes = n * (int64_t)size;
    if (size <= 8) {
        runs()->fill_rows(size, to, from, step, bytes, rows);
        return;
    }
    for (int64_t r = 0; r < rows; r++, from += step, to += bytes)
        for (int64_t i = 0; i < bytes; i += 16)
            *(wide *)(to + i) = *(const wide *)from;
}

/* n elements of any two dtypes between strided runs.  The loops take contiguous memory, so strided sides pass through blocks of
 * STEP elements: 8 KB for both, which stay in the first cache. */
void td_convert(td_dtype to, void *dst, int64_t dst_stride, td_dtype from, const void *src, int64_t src_stride, int64_t n)
{
    int64_t to_size = td_itemsizes[to], from_size = td_itemsizes[from];
    if (to == from) {
        td_copy_run((size_t)to_size, dst, dst_stride, src, src_stride, n);
        return;
    }
    td_convert_run *run = td_converter(to, from);
    if (dst_stride == to_size && src_stride == from_size) {
        run(dst, src, n);
        return;
    }
    _Alignas(64) char in[STEP * 16], out[STEP * 16];
    char *d = dst;
    const char *s = src;
    for (int64_t i = 0; i < n; i += STEP) {
        int64_t m = n - i < STEP ? n - i : STEP;
        const char *native = s + i * src_stride;
        char *place = d + i * dst_stride;
        if (src_stride != from_size) {
            td_copy_run((size_t)from_size, in, from_size, native, src_stride, m);
            native = in;
        }
        run(dst_stride == to_size ? place : out, native, m);
        if (dst_stride != to_size)
            td_copy_run((size_t)to_size, place, dst_stride, out, to_size, m);
    }
}

/* ---- contiguous to contiguous */

typedef struct flat {
    char           *to;
    const char     *from;
    int64_t         to_size, from_size;
    td_convert_run *convert;        /* NULL: the same dtype */
    bool            ahead, stream;
} flat;

/* Elements [begin, end).  A conversion past the caches goes through a block of 4 KB, from which whole lines are stored. */
static void flat_body(void *context, int64_t begin, int64_t end)
{
    const flat *w = context;
    char *to = w->to + begin * w->to_size;
    const char *from = w->from + begin * w->from_size;
    if (!w->convert && w->ahead) {
        td_copy_ahead(to, from, (end - begin) * w->to_size);
    } else if (!w->convert) {
        memcpy(to, from, (size_t)((end - begin) * w->to_size));
    } else if (!w->stream) {
        w->convert(to, from, end - begin);
    } else {
        _Alignas(64) char block[STEP * 16];
        for (; begin < end; begin += STEP, to += STEP * w->to_size, from += STEP * w->from_size) {
            int64_t m = end - begin < STEP ? end - begin : STEP;
            w->convert(block, from, m);
            td_copy_streaming(to, block, m * w->to_size);
        }
    }
    if (w->stream)
        td_end_streaming();
}

/* Bound by memory: what is smaller than 256 KB on both sides together stays on this thread. */
static void copy_flat(td_tensor *dst, const td_tensor *src)
{
    flat w = {.to = dst->data, .from = src->data, .to_size = td_itemsize(dst), .from_size = td_itemsize(src)};
    if (dst->dtype != src->dtype)
        w.convert = td_converter(dst->dtype, src->dtype);
    int64_t n = dst->numel, bytes = n * (w.to_size + w.from_size);
    w.stream = w.convert && bytes > TD_STREAM_BYTES;
    w.ahead = bytes > AHEAD_BYTES;
    if (bytes < 4 * CHUNK)
        flat_body(&w, 0, n);
    else
        td_for_elements(n, bytes, CHUNK / w.to_size, flat_body, &w);
}

/* ---- rows and tiles.  A plan of two operands: the target is number 0. */

/* Everything that a loop of rows or tiles reads; which fields count depends on the loop. */
typedef struct job {
    td_plan         plan;
    td_dtype        to, from;
    td_convert_run *convert;
    int64_t         pieces, piece;          /* of a row */
    int             across;                 /* the source's fastest dimension, for tiles */
    int64_t         along, along_tiles, across_tiles;
    bool            stream;
    int8_t          brief;                  /* 1: short rows of the same dtype lie together on both sides; -1: the source's in reverse */
} job;

/* Where row `row` begins on both sides, by its coordinates along all dimensions but the first and `skip`, which tiles iterate over
 * themselves. */
static void locate(const td_plan *plan, int64_t row, int skip, char **to, char **from)
{
    *to = plan->data[0];
    *from = plan->data[1];
    for (int d = 1; d < plan->ndim; d++) {
        if (d == skip)
            continue;
        int64_t outer = td_quotient(row, plan->sizes[d]), at = row - outer * plan->sizes[d];
        row = outer;
        *to += at * plan->strides[0][d];
        *from += at * plan->strides[1][d];
    }
}

/* Pieces of rows [begin, end).  Coordinates are divided out where the range or the second dimension begins; in between pointers
 * advance by its stride. */
static void rows_body(void *context, int64_t begin, int64_t end)
{
    const job *w = context;
    const td_plan *plan = &w->plan;
    int64_t d0 = plan->strides[0][0], s0 = plan->strides[1][0];
    int64_t d1 = plan->ndim > 1 ? plan->strides[0][1] : 0, s1 = plan->ndim > 1 ? plan->strides[1][1] : 0;
    int64_t wide = plan->ndim > 1 ? plan->sizes[1] : 1;
    char *to = NULL, *from = NULL;
    for (int64_t u = begin; u < end; u++) {
        int64_t row = td_quotient(u, w->pieces), column = (u - row * w->pieces) * w->piece;
        if (u == begin || (column == 0 && row == td_quotient(row, wide) * wide))
            locate(plan, row, 0, &to, &from);
        int64_t n = plan->sizes[0] - column < w->piece ? plan->sizes[0] - column : w->piece;
        td_convert(w->to, to + column * d0, d0, w->from, from + column * s0, s0, n);
        if (column + n == plan->sizes[0]) {
            to += d1;
            from += s1;
        }
    }
}

/* One tile: `along` elements of the target's fastest dimension by `across` of the source's. */
static void copy_tile(const job *w, char *to, const char *from, int64_t along, int64_t across)
{
    _Alignas(64) char tile[ACROSS * ALONG_BYTES];
    const td_plan *plan = &w->plan;
    int64_t rows = plan->strides[0][w->across], to_size = td_itemsizes[w->to], from_size = td_itemsizes[w->from];
    (w->stream ? td_transpose_ahead : td_transpose_block)((size_t)from_size, tile, ALONG_BYTES, from, plan->strides[1][0], along, across);
    for (int64_t i = 0; i < across; i++) {
        const char *row = tile + i * ALONG_BYTES;
        if (w->convert)
            w->convert(to + i * rows, row, along);
        else if (w->stream)
            td_copy_streaming(to + i * rows, row, along * to_size);
        else
            memcpy(to + i * rows, row, (size_t)(along * to_size));
    }
}

/* Tiles [begin, end): the next one mostly continues the source's rows. */
static void tiles_body(void *context, int64_t begin, int64_t end)
{
    const job *w = context;
    const td_plan *plan = &w->plan;
    int64_t from_size = td_itemsizes[w->from], to_size = td_itemsizes[w->to];
    for (int64_t u = begin; u < end; u++) {
        char *to, *from;
        int64_t i, j, plane = td_tile_at(u, w->across_tiles, w->along_tiles, &i, &j);
        i *= ACROSS, j *= w->along;
        locate(plan, plane, w->across, &to, &from);
        int64_t across = plan->sizes[w->across] - i < ACROSS ? plan->sizes[w->across] - i : ACROSS;
        int64_t along = plan->sizes[0] - j < w->along ? plan->sizes[0] - j : w->along;
        copy_tile(w, to + j * to_size + i * plan->strides[0][w->across], from + j * plan->strides[1][0] + i * from_size,
                  along, across);
    }
    if (w->stream)
        td_end_streaming();
}

/* Rows [begin, end) that are brief: as many at a time as the second dimension has. */
static void brief_rows(void *context, int64_t begin, int64_t end)
{
    const job *w = context;
    const td_plan *plan = &w->plan;
    const int64_t size = td_itemsizes[w->to], bytes = plan->sizes[0] * size, wide = plan->sizes[1];
    const int64_t to_step = plan->strides[0][1], from_step = plan->strides[1][1];
    for (int64_t n; begin < end; begin += n) {
        const int64_t left = (td_quotient(begin, wide) + 1) * wide - begin;
        char *to, *from;
        n = end - begin < left ? end - begin : left;
        locate(plan, begin, 0, &to, &from);
        if (w->brief > 0)
            runs()->copy_rows(to, to_step, from, from_step, bytes, n);
        else
            runs()->reverse_rows((size_t)size, to, to_step, from, from_step, bytes, n);
    }
}

/* Whether rows are short and contiguous in the target: 1 if in the source as well, -1 if the source is one reversed (flip), else 0. */
static int brief(const td_plan *plan, int64_t size, bool same)
{
    if (!same || plan->ndim < 2 || plan->sizes[0] * size > BRIEF_BYTES || plan->strides[0][0] != size)
        return 0;
    return plan->strides[1][0] == size ? 1 : plan->strides[1][0] == -size && size <= 8 ? -1 : 0;
}

/* Called directly where the work is too little for threads. */
static void run(job *w, int64_t units, int64_t elements_of_unit, td_loop_body *body)
{
    if (w->plan.numel < CHUNK / 4)
        body(w, 0, units);
    else
        td_parallel_for(0, units, elements_of_unit < CHUNK / 4 ? CHUNK / 4 / elements_of_unit : 1, body, w);
}

/* Very short rows: pieces of the second dimension, element by element of the row, each piece a strided run that stays in
 * the first cache. */
static void slim_body(void *context, int64_t begin, int64_t end)
{
    const job *w = context;
    const td_plan *plan = &w->plan;
    for (int64_t u = begin; u < end; u++) {
        char *to, *from;
        int64_t group = td_quotient(u, w->pieces), first = (u - group * w->pieces) * w->piece;
        int64_t row = group * plan->sizes[1] + first;
        int64_t n = plan->sizes[1] - first < w->piece ? plan->sizes[1] - first : w->piece;
        locate(plan, row, 0, &to, &from);
        for (int64_t i = 0; i < plan->sizes[0]; i++)
            td_convert(w->to, to + i * plan->strides[0][0], plan->strides[0][1], w->from,
                       from + i * plan->strides[1][0], plan->strides[1][1], n);
    }
}

/* Tasks are pieces of 512 positions of the second dimension. */
static void copy_slim(job *w)
{
    const td_plan *plan = &w->plan;
    w->piece = 512;
    w->pieces = (plan->sizes[1] + w->piece - 1) / w->piece;
    int64_t groups = td_quotient(plan->numel, plan->sizes[0] * plan->sizes[1]);
    run(w, groups * w->pieces, plan->sizes[0] * (plan->sizes[1] < w->piece ? plan->sizes[1] : w->piece), slim_body);
}

/* In this order: short contiguous rows; transposes, whose tiles of 32 rows and up to 512 bytes (16 KB) stay in the first cache;
 * very short rows that are not contiguous; any rows. */
static void copy_planned(td_tensor *dst, td_tensor *src)
{
    job w;      /* not cleared: a plan has room for many dimensions */
    td_plan *plan = &w.plan;
    w.to = dst->dtype, w.from = src->dtype;
    w.convert = NULL;
    w.across = 0;
    w.stream = false;
    td_plan_make(plan, dst->ndim, dst->sizes, 2, (td_tensor *[]){dst, src});
    if (w.to != w.from)
        w.convert = td_converter(w.to, w.from);
    int64_t to_size = td_itemsizes[w.to], from_size = td_itemsizes[w.from];
    int64_t rows = td_quotient(plan->numel, plan->sizes[0]);
    w.brief = (int8_t)brief(plan, to_size, w.to == w.from && dst->storage != src->storage);
    if (w.brief && plan->sizes[1] > 1) {
        run(&w, rows, plan->sizes[0], brief_rows);
        return;
    }
    if (plan->strides[0][0] == to_size && plan->strides[1][0] != from_size && plan->strides[1][0] != 0 &&
        plan->sizes[0] >= 4) {
        for (int d = 1; d < plan->ndim && !w.across; d++)
            if (plan->strides[1][d] == from_size && plan->sizes[d] >= 4)
                w.across = d;
    }
    if (w.across) {
        w.stream = plan->numel * (to_size + from_size) > TD_STREAM_BYTES;
        w.along = ALONG_BYTES / from_size < ALONG ? ALONG_BYTES / from_size : ALONG;
        w.along_tiles = (plan->sizes[0] + w.along - 1) / w.along;
        w.across_tiles = (plan->sizes[w.across] + ACROSS - 1) / ACROSS;
        int64_t tiles = td_quotient(rows, plan->sizes[w.across]) * w.along_tiles * w.across_tiles;
        int64_t elements = (w.along < plan->sizes[0] ? w.along : plan->sizes[0]) *
                           (ACROSS < plan->sizes[w.across] ? ACROSS : plan->sizes[w.across]);
        run(&w, tiles, elements, tiles_body);
        return;
    }
    /* Very short rows: the longer dimension goes inside, if there is one. */
    if (plan->ndim > 1 && plan->sizes[0] < 16 && plan->sizes[1] > plan->sizes[0])
        return copy_slim(&w);
    w.piece = plan->sizes[0] < CHUNK ? plan->sizes[0] : CHUNK / 2;
    w.pieces = td_quotient(plan->sizes[0] + w.piece - 1, w.piece);
    run(&w, rows * w.pieces, w.piece, rows_body);
}

/* ---- what kernel.h promises */

static const td_keyset of_bits = TD_KEYSET(TD_KEY_CONJUGATE) | TD_KEYSET(TD_KEY_NEGATIVE);

/* Where conjugates or negatives are left to compute: the memory is copied, and if the two don't mean the same by it, what
 * arrived is conjugated or negated in place. */
static int copy_bits(td_tensor *dst, td_tensor *src)
{
    unsigned bits = TD_FLAG_CONJ | TD_FLAG_NEG, differ = (dst->flags ^ src->flags) & bits;
    /* With a version counter apart: the caller counts its write to dst, so the second pass over it must not. */
    TD_AUTO td_tensor *to = td_alias_detached(dst, true), *from = td_alias_detached(src, false);
    if (!to || !from)
        return -1;
    to->flags &= (uint16_t)~bits, to->keys &= ~of_bits;
    from->flags &= (uint16_t)~bits, from->keys &= ~of_bits;
    bool complex = td_dtype_is_complex((td_dtype)dst->dtype) && td_dtype_is_complex((td_dtype)src->dtype);
    if (td_copy_elements(to, from) || (differ & TD_FLAG_CONJ && complex && td__conj_physical_out(to, to)))
        return -1;
    return differ & TD_FLAG_NEG && (dst->dtype != TD_BOOL || src->dtype == TD_BOOL) ? td_neg_(to) : 0;
}

/* The memory of x, with a last dimension for the bytes of an element. */
static td_tensor *bytes_of(td_tensor *x)
{
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS], item = td_itemsize(x);
    if (x->ndim == TD_MAX_DIMS)
        return td_fail(TD_E_RUNTIME, "an unaligned tensor may have %d dimensions", TD_MAX_DIMS - 1);
    for (int d = 0; d < x->ndim; d++)
        sizes[d] = x->sizes[d], strides[d] = x->strides[d] * item;
    sizes[x->ndim] = item, strides[x->ndim] = 1;
    td_tensor *bytes = td_alias_as(x, TD_U8, x->ndim + 1, sizes, strides);
    if (bytes) {
        bytes->flags &= (uint16_t)~(TD_FLAG_CONJ | TD_FLAG_NEG);
        bytes->keys &= ~(of_bits | TD_KEYSET(TD_KEY_UNALIGNED));
    }
    return bytes;
}
static int copy_bytes(td_tensor *to, td_tensor *from)
{
    TD_AUTO td_tensor *a = bytes_of(to), *b = bytes_of(from);
    return td_copy_elements(a, b);
}

/* Aligned memory for x's elements, which mean what they mean there. */
static td_tensor *aligned_like(td_tensor *x)
{
    td_tensor *y = td_tensor_new(x->ndim, x->sizes, (td_dtype)x->dtype, x->device);
    if (y) {
        y->flags |= x->flags & (TD_FLAG_CONJ | TD_FLAG_NEG);
        y->keys |= x->keys & of_bits;
    }
    return y;
}

/* See Note [Unaligned elements] in src/ops/iterate/lazy.c. */
static int copy_unaligned(td_tensor *dst, td_tensor *src)
{
    const bool reads = src->keys & TD_KEYSET(TD_KEY_UNALIGNED), writes = dst->keys & TD_KEYSET(TD_KEY_UNALIGNED);
    TD_AUTO td_tensor *from = reads ? aligned_like(src) : td_tensor_retain(src), *to = writes ? aligned_like(dst) : td_tensor_retain(dst);
    if (!from || !to || (reads && copy_bytes(from, src)) || td_copy_elements(to, from))
        return -1;
    return writes ? copy_bytes(dst, to) : 0;
}

/* copy_ without autograd: src is converted and broadcast.  The common case comes first: contiguous tensors of equal sizes need no
 * plan. Nothing is written where -1 is returned for sizes, layouts or devices. */
int td_copy_elements(td_tensor *dst, td_tensor *src)
{
    if (!dst || !src || td_settle(src) || td_settle_to_write(dst))
        return -1;
    if (TD_UNLIKELY((dst->keys | src->keys) & (TD_KEYSET(TD_KEY_UNALIGNED) | TD_KEYSET(TD_KEY_DTYPE) | TD_KEYS_LAYOUTS))) {
        if (dst->dtype != src->dtype && !(td_converts(dst->dtype) && td_converts(src->dtype)))
            return td_error(TD_E_NOT_IMPLEMENTED, "\"copy_\" not implemented for '%s'",
                            td_dtype_title((td_dtype)(td_converts(dst->dtype) ? src->dtype : dst->dtype)));
        if ((dst->keys | src->keys) & TD_KEYSET(TD_KEY_UNALIGNED) && dst->device.type == TD_CPU && src->device.type == TD_CPU)
            return copy_unaligned(dst, src);
    }
    if (TD_UNLIKELY((dst->flags | src->flags) & (TD_FLAG_CONJ | TD_FLAG_NEG)) && dst->device.type == src->device.type &&
        (dst->device.type == TD_CPU || dst->device.index == src->device.index))
        return copy_bits(dst, src);
    if (dst->numel == src->numel && dst->flags & src->flags & TD_FLAG_CONTIGUOUS && dst->device.type == TD_CPU &&
        src->device.type == TD_CPU && dst->ndim >= src->ndim) {
        bool same = true;
        int lead = dst->ndim - src->ndim;
        for (int d = 0; d < src->ndim; d++)
            same &= dst->sizes[d + lead] == src->sizes[d];
        if (same) {
            if (dst->numel > 0 && (dst->data != src->data || dst->dtype != src->dtype))
                copy_flat(dst, src);
            return 0;
        }
    }
    int64_t sizes[TD_MAX_DIMS];
    int ndim = td_broadcast_shape("copy_", 2, (td_tensor *[]){dst, src}, sizes);
    if (ndim < 0)
        return -1;
    if (ndim != dst->ndim || memcmp(sizes, dst->sizes, (size_t)ndim * sizeof *sizes) != 0) {
        td_shape_text own, wanted;
        return td_error(TD_E_RUNTIME, "copy_: output with shape %s doesn't match the broadcast shape %s",
                        td_shape_str(dst->ndim, dst->sizes, own), td_shape_str(ndim, sizes, wanted));
    }
    if (dst->device.type == TD_META)
        return 0;
    if (src->device.type == TD_META)
        return td_error(TD_E_NOT_IMPLEMENTED, "Cannot copy out of meta tensor; no data!");
    if (td_is_outside(dst->device) || td_is_outside(src->device))
        return dst->numel ? td_copy_across(dst, src) : 0;
    char to[32], from[32];
    if (!dst->storage || !src->storage)
        return td_error(TD_E_NOT_IMPLEMENTED, "td_copy_elements: copies strided tensors, not other layouts, from %s to %s",
                        td_device_str(src->device, from), td_device_str(dst->device, to));
    if (dst->numel > 0)
        copy_planned(dst, src);
    return 0;
}

td_tensor *td_as_contiguous(td_tensor *x, td_dtype dtype)
{
    if (!x)
        return NULL;
    if (x->flags & TD_FLAG_CONTIGUOUS && !(x->keys & (of_bits | TD_KEYSET(TD_KEY_UNALIGNED))) && x->dtype == (int8_t)dtype)
        return td_settle(x) ? NULL : td_tensor_retain(x);        /* whoever wants elements side by side reads them */
    if (TD_UNLIKELY(td_strict_views)) {
        td_shape_text sizes, strides;
        return td_fail(TD_E_RUNTIME, "a kernel would copy its operand of shape %s, strides %s and dtype %s to a contiguous one of %s, "
                       "which strict_views forbids; use .contiguous() or .to() where the copy is meant",
                       td_shape_str(x->ndim, x->sizes, sizes), td_shape_str(x->ndim, x->strides, strides),
                       td_dtype_name((td_dtype)x->dtype), td_dtype_name(dtype));
    }
    td_tensor *result = td_tensor_new(x->ndim, x->sizes, dtype, x->device);
    if (result && td_copy_elements(result, x) != 0) {
        td_tensor_release(result);
        return NULL;
    }
    if (result)
        TD_EMIT(.kind = TD_EVENT_COPY, .tensor = x, .name = x->dtype == (int8_t)dtype ? "contiguous" : "dtype",
                .numbers = {result->numel * td_itemsize(result)});
    return result;
}

td_tensor *td_make_contiguous(td_tensor *x) { return x ? td_as_contiguous(x, x->dtype) : NULL; }

td_tensor *td_writable(td_tensor *x, td_dtype dtype) { return td_as_contiguous(x, dtype); }

int td_write_back(td_tensor *x, td_tensor *written)
{
    return !x || !written ? -1 : x == written ? 0 : td_copy_elements(x, written);
}
