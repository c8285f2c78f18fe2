/* The layout `packed`: weights of few bits.
 *
 * Such a tensor is a tensor of bytes, a row of blocks for each row of its last dimension, and the number of a format. Operators are made
 * of three on such bytes (_pack_rows, _unpack_rows, _packed_linear), which are the only ones with kernels; here are their checks. */
#include "calls_layouts_packed_packed.h"
#include <inttypes.h>
#include <stdio.h>
#include <tede/auto.h>
#include <tede/packed.h>
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "tensor/checked.h"
#include "tensor/layout.h"

typedef struct packed {
    td_tensor *blocks;              /* (rows, bytes of a row), contiguous, without a history */
    int        format;
} packed;

static const packed *packed_of(const td_tensor *x)
{
    return td_tensor_layout(x) == TD_PACKED ? td_tensor_fields(x) : NULL;
}
td_tensor *td_packed_blocks(const td_tensor *x) { return packed_of(x) ? packed_of(x)->blocks : NULL; }
int        td_packed_format_of(const td_tensor *x) { return packed_of(x) ? packed_of(x)->format : -1; }

static void destroy(void *fields)
{
    packed *p = fields;
    td_tensor_release(p->blocks);
    td_mem_free(p, sizeof *p);
}

static const char *name_of(int format) { return td_packed_describe(format)->name; }

/* Rows of the last dimension; -1 with an error. */
static int64_t rows_of(int64_t ndim, const int64_t *sizes)
{
    if (ndim < 1 || td_check_sizes(ndim, sizes))
        return td_error(TD_E_VALUE, "a packed tensor has at least one dimension");
    const int64_t rows = td_numel_checked((int)ndim - 1, sizes);
    return rows < 0 ? td_error(TD_E_VALUE, "a packed tensor: the number of elements overflows") : rows;
}

td_tensor *td_packed_from_blocks(int format, td_tensor *blocks, int64_t ndim, const int64_t *sizes, td_dtype dtype)
{
    if (!blocks)
        return NULL;
    const int64_t rows = rows_of(ndim, sizes), bytes = rows < 0 ? -1 : td_packed_row_bytes(format, sizes[ndim - 1]);
    int64_t total;
    if (bytes < 0)
        return NULL;
    if (td_has_layout(blocks) || blocks->dtype != TD_U8 || __builtin_mul_overflow(rows, bytes, &total) || blocks->numel != total)
        return td_fail(TD_E_VALUE, "%s: the blocks of %" PRId64 " rows are %" PRId64 " bytes (uint8) for each, not %" PRId64 " elements of %s",
                       name_of(format), rows, bytes, blocks->numel, td_dtype_name((td_dtype)blocks->dtype));
    if (!td_dtype_is_floating(dtype))
        return td_fail(TD_E_VALUE, "a packed tensor stands for floating point numbers, not for %s", td_dtype_name(dtype));
    TD_AUTO td_tensor *dense = td_contiguous(blocks), *flat = dense ? td_view(dense, 2, (int64_t[]){rows, bytes}) : NULL;
    packed *p = flat ? td_mem_alloc(sizeof *p) : NULL;
    if (!p)
        return NULL;
    *p = (packed){td_alias_detached(flat, false), format};
    td_tensor *x = p->blocks ? td_tensor_with_layout(TD_PACKED, p, ndim, sizes, dtype, blocks->device) : NULL;
    if (!x)
        destroy(p);
    return x;
}

/* ---- the kind */

static td_tensor *to_dense(td_tensor *x)
{
    const packed *p = packed_of(x);
    TD_AUTO td_tensor *flat = td__unpack_rows(p->blocks, name_of(p->format), x->sizes[x->ndim - 1], (td_dtype)x->dtype);
    return flat ? td_view(flat, x->ndim, x->sizes) : NULL;
}

static int parts(const td_tensor *x, td_layout_part *parts)
{
    const packed *p = packed_of(x);
    parts[0] = (td_layout_part){.name = "blocks", .tensor = p->blocks};
    parts[1] = (td_layout_part){.name = "format", .number = td_packed_describe(p->format)->code};
    parts[2] = (td_layout_part){.name = "dtype", .number = x->dtype};
    return 3;
}
static td_tensor *from_parts(int layout, int64_t ndim, const int64_t *sizes, int n, const td_layout_part *parts)
{
    (void)layout;
    const int format = n == 3 && parts[0].tensor ? td_packed_find_code(parts[1].number) : -1;
    if (format < 0 || parts[2].number < 0 || parts[2].number >= TD_DTYPES)
        return td_fail(TD_E_VALUE, "a packed tensor is made of blocks, the number of a format and that of a dtype");
    return td_packed_from_blocks(format, parts[0].tensor, ndim, sizes, (td_dtype)parts[2].number);
}

static void describe(const td_tensor *x, char *text, size_t room)
{
    snprintf(text, room, "format='%s'", name_of(td_packed_format_of(x)));
}

const td_layout_kind td_packed_kind = {
    .size = sizeof(td_layout_kind), .name = "packed", .title = "Packed", .destroy = destroy, .to_dense = to_dense, .parts = parts,
    .from_parts = from_parts, .describe = describe,
};

/* ---- operators on bytes */

static int format_of(const char *op, const char *name)
{
    const int format = td_packed_find(name);
    return format >= 0 ? format
           : td_error(TD_E_VALUE, "%s: there is no format '%.40s'; there are int8, int4_g32, int4_g64, int4_g128, q4_0, q8_0, q4_k, q6_k and mxfp4",
                      op, name);
}

int td_meta__pack_rows(td_spec *specs, td_tensor *self, const char *name)
{
    const int format = format_of("to_packed", name);
    if (format < 0)
        return -1;
    if (self->ndim != 2 || !td_dtype_is_floating((td_dtype)self->dtype))
        return td_error(TD_E_VALUE, "to_packed: a matrix of floating point numbers is expected, not %d dimensions of %s", self->ndim,
                        td_dtype_name((td_dtype)self->dtype));
    const int64_t bytes = td_packed_row_bytes(format, self->sizes[1]);
    return bytes < 0 ? -1 : td_spec_set(specs, 2, (int64_t[]){self->sizes[0], bytes}, TD_U8, self->device);
}

/* Whether `rows` are those of blocks of so many columns. */
static int check_rows(const char *op, const td_tensor *rows, int format, int64_t columns)
{
    const int64_t bytes = td_packed_row_bytes(format, columns);
    if (bytes < 0)
        return -1;
    return rows->ndim == 2 && rows->dtype == TD_U8 && rows->sizes[1] == bytes ? 0
           : td_error(TD_E_VALUE, "%s: rows of %" PRId64 " bytes (uint8) are expected for %" PRId64 " columns of %s", op, bytes, columns,
                      name_of(format));
}

int td_meta__unpack_rows(td_spec *specs, td_tensor *rows, const char *name, int64_t columns, td_dtype dtype)
{
    const int format = format_of("_unpack_rows", name);
    if (format < 0 || check_rows("_unpack_rows", rows, format, columns))
        return -1;
    if (!td_dtype_is_floating(dtype))
        return td_error(TD_E_VALUE, "_unpack_rows: a floating point dtype is expected, not %s", td_dtype_name(dtype));
    return td_spec_set(specs, 2, (int64_t[]){rows->sizes[0], columns}, dtype, rows->device);
}

int td_meta__packed_linear(td_spec *specs, td_tensor *input, td_tensor *rows, const char *name, int64_t columns, td_tensor *bias)
{
    const int format = format_of("linear", name);
    if (format < 0 || check_rows("linear", rows, format, columns))
        return -1;
    if (input->ndim < 1 || input->sizes[input->ndim - 1] != columns)
        return td_error(TD_E_RUNTIME, "linear: mat1 and mat2 shapes cannot be multiplied: the input's last dimension has %" PRId64
                        " elements, rows of the packed weight have %" PRId64, input->ndim ? input->sizes[input->ndim - 1] : 0, columns);
    if (!td_dtype_is_floating((td_dtype)input->dtype) || input->dtype == TD_F64)
        return td_error(TD_E_RUNTIME, "linear: with a packed weight the input is float32, bfloat16 or float16, not %s",
                        td_dtype_name((td_dtype)input->dtype));
    if (bias != TD_NONE && (bias->ndim != 1 || bias->sizes[0] != rows->sizes[0] || !td_dtype_is_floating((td_dtype)bias->dtype)))
        return td_error(TD_E_RUNTIME, "linear: the bias of a packed weight of %" PRId64 " rows has as many floating point numbers", rows->sizes[0]);
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, input->sizes, sizeof *sizes * (size_t)input->ndim);
    sizes[input->ndim - 1] = rows->sizes[0];
    return td_spec_set(specs, input->ndim, sizes, (td_dtype)input->dtype, input->device);
}

/* ---- operators on packed tensors */

td_tensor *td_op_to_packed(td_tensor *self, const char *name)
{
    const int format = format_of("to_packed", name);
    if (format < 0)
        return NULL;
    if (self->ndim < 1)
        return td_fail(TD_E_VALUE, "to_packed: a tensor without dimensions has no rows");
    const int64_t rows = rows_of(self->ndim, self->sizes);
    TD_AUTO td_tensor *flat = rows < 0 ? NULL : td_reshape(self, 2, (int64_t[]){rows, self->sizes[self->ndim - 1]});
    TD_AUTO td_tensor *blocks = flat ? td__pack_rows(flat, name) : NULL;
    return td_packed_from_blocks(format, blocks, self->ndim, self->sizes, (td_dtype)self->dtype);
}

td_tensor *td_op__packed_from_blocks(td_tensor *blocks, int64_t n, const int64_t *size, const char *name, td_dtype dtype)
{
    const int format = format_of("_packed_from_blocks", name);
    return format < 0 ? NULL : td_packed_from_blocks(format, blocks, n, size, dtype == TD_DTYPE_NONE ? TD_F32 : dtype);
}

td_tensor *td_packed_dequantize_self(td_tensor *self) { return to_dense(self); }

td_tensor *td_packed_linear(td_tensor *input, td_tensor *weight, td_tensor *bias)
{
    const packed *p = packed_of(weight);
    if (!p || td_has_layout(input) || (bias != TD_NONE && td_has_layout(bias)))
        return td_fail(TD_E_NOT_IMPLEMENTED, "linear: of its operands the weight may be packed, the others are strided");
    if (weight->ndim != 2)
        return td_fail(TD_E_RUNTIME, "linear: a packed weight has two dimensions, got %dD", weight->ndim);
    return td__packed_linear(input, p->blocks, name_of(p->format), weight->sizes[1], bias);
}

/* For gradients of inputs: a product along the packed rows' other dimension unpacks them. */
td_tensor *td_packed_mm(td_tensor *self, td_tensor *mat2)
{
    TD_AUTO td_tensor *a = td_layout_to_dense(self), *b = td_layout_to_dense(mat2);
    TD_AUTO td_tensor *cast = a && b && a->dtype != b->dtype ? td_has_layout(mat2) ? td_to(b, (td_dtype)a->dtype) : td_ref(b) : td_ref(b);
    return a && cast ? td_mm(a, cast) : NULL;
}

td_tensor *td_packed__to_copy(td_tensor *self, td_dtype dtype, td_device device, bool non_blocking, td_memory_format format)
{
    (void)non_blocking, (void)format;
    const packed *p = packed_of(self);
    if (device.type >= 0 && device.type != TD_CPU && device.type != TD_META)
        return td_layout_refuse("_to_copy", self);
    TD_AUTO td_tensor *blocks = td__to_copy(p->blocks, TD_DTYPE_NONE, device, false, TD_MEMORY_FORMAT_NONE);
    return td_packed_from_blocks(p->format, blocks, self->ndim, self->sizes, dtype == TD_DTYPE_NONE ? (td_dtype)self->dtype : dtype);
}

/* Another tensor over the same blocks, which is all that a view of it could be. */
td_tensor *td_packed_alias(td_tensor *self) { return td_alias_detached(self, false); }

/* Rows of a table by their numbers: the rows of blocks are picked, and unpacked alone. */
td_tensor *td_packed_embedding(td_tensor *weight, td_tensor *indices, int64_t padding_idx, bool scale_grad_by_freq, bool sparse)
{
    const packed *p = packed_of(weight);
    if (!p || weight->ndim != 2 || td_has_layout(indices))
        return td_fail(TD_E_NOT_IMPLEMENTED, "embedding: the table may be packed, with two dimensions; the indices are strided");
    TD_AUTO td_tensor *picked = td_embedding(p->blocks, indices, padding_idx, scale_grad_by_freq, sparse);
    if (!picked)
        return NULL;
    int64_t sizes[TD_MAX_DIMS];
    memcpy(sizes, picked->sizes, sizeof *sizes * (size_t)picked->ndim);
    sizes[picked->ndim - 1] = weight->sizes[1];
    TD_AUTO td_tensor *flat = td_reshape(picked, 2, (int64_t[]){indices->numel, p->blocks->sizes[1]});
    TD_AUTO td_tensor *rows = flat ? td__unpack_rows(flat, name_of(p->format), weight->sizes[1], (td_dtype)weight->dtype) : NULL;
    return rows ? td_view(rows, picked->ndim, sizes) : NULL;
}

/* A strided tensor is filled with what a packed one stands for; a packed one takes another's blocks, or packs a strided one's elements,
 * in its own format. */
int td_packed_copy_from_(td_tensor *self, td_tensor *src, bool non_blocking)
{
    const packed *p = packed_of(self), *q = packed_of(src);
    td_shape_text a, b;
    if (self == src)
        return 0;
    if ((!p && td_has_layout(self)) || (!q && td_has_layout(src)))
        return td_error(TD_E_NOT_IMPLEMENTED, "copy_: between packed and strided tensors only");
    if (!p) {
        TD_AUTO td_tensor *dense = to_dense(src);
        return dense ? td_copy_from_(self, dense, non_blocking) : -1;
    }
    if (self->ndim != src->ndim || memcmp(self->sizes, src->sizes, sizeof *self->sizes * self->ndim))
        return td_error(TD_E_RUNTIME, "copy_: a packed tensor of sizes %s can't take one of sizes %s", td_shape_str(self->ndim, self->sizes, a),
                        td_shape_str(src->ndim, src->sizes, b));
    TD_AUTO td_tensor *blocks = q && q->format == p->format ? td_clone(q->blocks) : NULL;
    TD_AUTO td_tensor *dense = blocks ? NULL : q ? to_dense(src) : td_ref(src);
    TD_AUTO td_tensor *made = blocks ? td_packed_from_blocks(p->format, blocks, self->ndim, self->sizes, (td_dtype)self->dtype)
                              : dense ? td_to_packed(dense, name_of(p->format)) : NULL;
    TD_AUTO td_tensor *cast = made && made->dtype != self->dtype ? td_to(made, (td_dtype)self->dtype) : td_ref(made);
    return cast ? td_layout_take(self, cast) : -1;
}
