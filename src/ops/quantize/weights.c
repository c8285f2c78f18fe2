/* Products with weights of few bits as torchao passes them: checks, shapes, and what is packed by other operators. */
#include "calls_ops_quantize_weights.h"
#include <inttypes.h>
#include <tede/auto.h>
#include "ops/compose.h"

static bool floating(const td_tensor *x) { return x->dtype == TD_F32 || x->dtype == TD_BF16 || x->dtype == TD_F16; }

/* PyTorch's kernels look at a matrix's second size first. */
static int is_no_vector(const td_tensor *x)
{
    return x->ndim > 1 ? 0 : x->ndim ? td_error(TD_E_INDEX, "Dimension out of range (expected to be in range of [-1, 0], but got 1)")
           : td_error(TD_E_INDEX, "Dimension specified as 1 but tensor has no dimensions");
}

int td_meta__convert_weight_to_int4pack_for_cpu(td_spec *specs, td_tensor *self, int64_t innerKTiles)
{
    (void)innerKTiles;
    if (self->ndim != 2)
        return td_error(TD_E_RUNTIME, "_convert_weight_to_int4pack_cpu : expect weight to be 2D tensor.");
    if (self->dtype != TD_I32)
        return td_error(TD_E_RUNTIME, "_convert_weight_to_int4pack_cpu : expect weight to be kInt.");
    if (self->sizes[0] % 16)
        return td_error(TD_E_RUNTIME, "_convert_weight_to_int4pack_cpu : expect N to be dividable by 16");
    if (self->sizes[1] % 2)
        return td_error(TD_E_RUNTIME, "_convert_weight_to_int4pack: expect K to be dividable by 2");
    return td_spec_set(specs, 2, (int64_t[]){self->sizes[0], self->sizes[1] / 2}, TD_U8, self->device);     /* two codes a byte */
}

int td_meta__weight_int4pack_mm_for_cpu(td_spec *specs, td_tensor *self, td_tensor *mat2, int64_t qGroupSize, td_tensor *qScaleAndZeros)
{
    const td_tensor *pairs = qScaleAndZeros;
    if (is_no_vector(self))
        return -1;
    const int64_t k = self->sizes[1];
    if (!floating(self))
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu : expect A to be either 32-bit or 16-bit float tensor.");
    if (!td_tensor_is_contiguous(self))
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu : expect A to be contiguous.");
    if (self->ndim != 2)
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu : expect A to be 2D tensor.");
    if (mat2->dtype != TD_U8)
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu : expect B to be uint8 tensor.");
    if (!td_tensor_is_contiguous(mat2))
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu : expect B to be contiguous.");
    if (is_no_vector(mat2))
        return -1;
    if (mat2->sizes[1] != k / 2 || k % 2)
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu : expect B.size(1) to be K/2, got %" PRId64, mat2->sizes[1]);
    if (mat2->ndim != 2)
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu : expect B to be 2D tensor.");
    if (qGroupSize != 32 && qGroupSize != 64 && qGroupSize != 128 && qGroupSize != 256)
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu: expect qGroupSize to be 32, 64, 128 or 256, got %" PRId64, qGroupSize);
    if (k % qGroupSize)
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu: expect K to be divisible by qGroupSize, got K:%" PRId64 ", qGroupSize:%" PRId64,
                        k, qGroupSize);
    const int64_t n = mat2->sizes[0];
    if (pairs->ndim != 3 || pairs->sizes[1] != n || pairs->sizes[2] != 2 || pairs->sizes[0] != k / qGroupSize)
        return td_error(TD_E_RUNTIME, "_weight_int4pack_mm_cpu: expect qScaleAndZeros to be 3d tensor with sizes [:, %" PRId64 ", 2] (here [%"
                        PRId64 ", %" PRId64 ", 2])", n, k / qGroupSize, n);
    if (pairs->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)self->dtype),
                        td_dtype_title((td_dtype)pairs->dtype));
    if (n % 16)
        return td_error(TD_E_RUNTIME, "Unsupported n block size: %" PRId64 " (the rows of packed weights are a multiple of 16)", n);
    return td_spec_set(specs, 2, (int64_t[]){self->sizes[0], n}, (td_dtype)self->dtype, self->device);
}

int td_meta__weight_int8pack_mm(td_spec *specs, td_tensor *self, td_tensor *mat2, td_tensor *scales)
{
    if (is_no_vector(self))
        return -1;
    if (!floating(self))
        return td_error(TD_E_RUNTIME, "_weight_int8pack_mm_cpu : expect A to be either 32-bit or 16-bit float tensor.");
    if (self->ndim != 2)
        return td_error(TD_E_RUNTIME, "_weight_int8pack_mm_cpu : expect A to be 2D tensor.");
    if (self->strides[1] != 1)
        return td_error(TD_E_RUNTIME, "_weight_int8pack_mm_cpu : A must be contiguous on the last dimension.");
    if (mat2->dtype != TD_I8)
        return td_error(TD_E_RUNTIME, "_weight_int8pack_mm_cpu : expect B to be int8 tensor.");
    if (!td_tensor_is_contiguous(mat2))
        return td_error(TD_E_RUNTIME, "_weight_int8pack_mm_cpu : expect B to be contiguous.");
    if (is_no_vector(mat2))
        return -1;
    if (mat2->ndim != 2 || mat2->sizes[1] != self->sizes[1])
        return td_error(TD_E_RUNTIME, "_weight_int8pack_mm_cpu : expect B.size(1) == %" PRId64, self->sizes[1]);
    if (scales->ndim != 1 || scales->sizes[0] != mat2->sizes[0])
        return td_error(TD_E_RUNTIME, "_weight_int8pack_mm_cpu : expect scales to be 1d tensor with size %" PRId64, mat2->sizes[0]);
    if (scales->dtype != self->dtype)
        return td_error(TD_E_RUNTIME, "expected scalar type %s but found %s", td_dtype_title((td_dtype)self->dtype),
                        td_dtype_title((td_dtype)scales->dtype));
    return td_spec_set(specs, 2, (int64_t[]){self->sizes[0], mat2->sizes[0]}, (td_dtype)self->dtype, self->device);
}

/* Bytes of codes and numbers of scales of such a matrix; -1 with an error.  A block, which has one scale, is a group of columns of a row, or the whole
 * row. */
static int64_t blocks_of(const char *op, int64_t block_size, int64_t in_features, int64_t out_features, int64_t *scales)
{
    if (in_features < 0 || out_features < 0 || in_features > INT32_MAX || out_features > INT32_MAX || in_features % 2)
        return td_error(TD_E_RUNTIME, "%s: in_features is an even number and out_features is any, got %" PRId64 " and %" PRId64, op, in_features,
                        out_features);
    if (block_size <= 0 || (block_size != in_features && (block_size % 32 || in_features % block_size)))
        return td_error(TD_E_RUNTIME, "%s: Group size should be multiple of 32, in_features [%" PRId64 "]. Provided %" PRId64, op, in_features,
                        block_size);
    *scales = out_features * (in_features / block_size);
    return out_features * (in_features / 2);
}

/* PyTorch's form where it has no library for these products: one vector of floats with the codes (each byte as a number), scales and bias one after
 * the other. */
td_tensor *td_op__dyn_quant_pack_4bit_weight(td_tensor *weights, td_tensor *scales_zeros, td_tensor *bias, int64_t block_size,
                                             int64_t in_features, int64_t out_features)
{
    const char *name = "_dyn_quant_pack_4bit_weight_cpu";
    if (weights->dtype != TD_U8)
        return td_fail(TD_E_RUNTIME, "%s : expect weight to be kByte.", name);
    int64_t scales, bytes = blocks_of(name, block_size, in_features, out_features, &scales);
    if (bytes < 0)
        return NULL;
    if (weights->numel != bytes || scales_zeros->numel != scales || (bias != TD_NONE && bias->numel != out_features))
        return td_fail(TD_E_RUNTIME, "%s: %" PRId64 " bytes of codes, %" PRId64 " scales and as many numbers of bias as rows (%" PRId64
                       ") are expected", name, bytes, scales, out_features);
    TD_AUTO td_tensor *codes = td_to(weights, TD_F32), *flat = td_reshape(codes, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *numbers = td_to(scales_zeros, TD_F32), *all = td_reshape(numbers, 1, (int64_t[]){-1});
    TD_AUTO td_tensor *added = bias == TD_NONE ? NULL : td_to(bias, TD_F32), *line = bias == TD_NONE ? NULL : td_reshape(added, 1, (int64_t[]){-1});
    return flat && all && (line || bias == TD_NONE) ? td_cat(2 + (line != NULL), (td_tensor *[]){flat, all, line}, 0) : NULL;
}

int td_meta__dyn_quant_matmul_4bit(td_spec *specs, td_tensor *inp, td_tensor *packed_weights, int64_t block_size, int64_t in_features,
                                   int64_t out_features)
{
    const char *name = "_dyn_quant_matmul_4bit_cpu";
    int64_t scales, bytes = blocks_of(name, block_size, in_features, out_features, &scales);
    if (bytes < 0)
        return -1;
    /* PyTorch has bfloat16 for scales by row alone. */
    if (inp->dtype != TD_F32 && (inp->dtype != TD_BF16 || block_size != in_features))
        return td_error(TD_E_RUNTIME, "%s : expect input to be float32 or bfloat16 tensor.", name);
    if (inp->ndim != 2 || inp->sizes[1] != in_features)
        return td_error(TD_E_RUNTIME, "%s: a matrix of %" PRId64 " columns is expected as input", name, in_features);
    if (packed_weights->dtype != TD_F32 || packed_weights->ndim != 1 ||
        (packed_weights->numel != bytes + scales && packed_weights->numel != bytes + scales + out_features))
        return td_error(TD_E_RUNTIME, "%s: packed weights of so many columns and rows are a vector of %" PRId64 " floats, and %" PRId64
                        " more with a bias", name, bytes + scales, out_features);
    return td_spec_set(specs, 2, (int64_t[]){inp->sizes[0], out_features}, (td_dtype)inp->dtype, inp->device);
}

/* ---- what only devices have */

static td_tensor *refuse(const char *name)
{
    return td_fail(TD_E_NOT_IMPLEMENTED, "Could not run 'aten::%s' with arguments from the 'CPU' backend. It is for devices that register a kernel; "
                   "on the CPU weights are packed and multiplied by _convert_weight_to_int4pack_for_cpu and _weight_int4pack_mm_for_cpu", name);
}
td_tensor *td_op__convert_weight_to_int4pack(td_tensor *self, int64_t innerKTiles)
{
    (void)self, (void)innerKTiles;
    return refuse("_convert_weight_to_int4pack");
}
td_tensor *td_op__weight_int4pack_mm(td_tensor *self, td_tensor *mat2, int64_t qGroupSize, td_tensor *qScaleAndZeros)
{
    (void)self, (void)mat2, (void)qGroupSize, (void)qScaleAndZeros;
    return refuse("_weight_int4pack_mm");
}
td_tensor *td_op__weight_int4pack_mm_with_scales_and_zeros(td_tensor *self, td_tensor *mat2, int64_t qGroupSize, td_tensor *qScale, td_tensor *qZeros)
{
    (void)self, (void)mat2, (void)qGroupSize, (void)qScale, (void)qZeros;
    return refuse("_weight_int4pack_mm_with_scales_and_zeros");
}
