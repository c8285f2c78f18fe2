/* Products of quantized operands on their bytes: checks and shapes. */
#include "calls_ops_quantize_bytes.h"
#include <inttypes.h>
#include <tede/auto.h>
#include "ops/compose.h"

enum { PANEL = 64, STEP = 64 };     /* TD_BYTES_PANEL, TD_BYTES_STEP of kernels/cpu/packed/bytes.h */

/* Bytes of the panels of a matrix of `columns` rows that are `taps` runs each; -1: too many.  Runs are padded to
 * whole steps and columns to whole panels, so that products have no remainders: kernels/cpu/packed/bytes.h. */
static int64_t panel_bytes(int64_t columns, int64_t taps, int64_t run)
{
    const int64_t steps = run / STEP + (run % STEP != 0), panels = columns / PANEL + (columns % PANEL != 0);
    int64_t bytes;
    return __builtin_mul_overflow(steps * STEP, taps, &bytes) || __builtin_mul_overflow(bytes, panels * PANEL, &bytes) ? -1 : bytes;
}

/* Of windows of channels apart: for each 64 channels whole quads of taps, see TD_BYTES_QUAD. */
static int64_t apart_bytes(int64_t channels, int64_t taps)
{
    int64_t bytes;
    return __builtin_mul_overflow(channels / PANEL * PANEL + (channels % PANEL ? PANEL : 0), taps / 4 * 4 + (taps % 4 ? 4 : 0), &bytes) ? -1 : bytes;
}

int td_meta__bytes_pack(td_spec *specs, td_tensor *weight, int64_t run)
{
    if (weight->ndim != 2 || weight->dtype != TD_I8)
        return td_error(TD_E_RUNTIME, "_bytes_pack: a matrix of int8 is expected, not %s with %d dimensions", td_dtype_name((td_dtype)weight->dtype),
                        weight->ndim);
    if (run < 0 || (run && weight->sizes[1] % run))
        return td_error(TD_E_RUNTIME, "_bytes_pack: rows of %" PRId64 " are not runs of %" PRId64, weight->sizes[1], run);
    const int64_t bytes = run ? panel_bytes(weight->sizes[0], weight->sizes[1] / run, run) : apart_bytes(weight->sizes[0], weight->sizes[1]);
    return bytes < 0 ? td_error(TD_E_RUNTIME, "_bytes_pack: the matrix is too large") : td_spec_set(specs, 1, &bytes, TD_I8, weight->device);
}

static int check_column(const char *name, const td_tensor *x, int64_t columns, td_dtype dtype)
{
    if (x->ndim == 1 && x->sizes[0] == columns && (td_dtype)x->dtype == dtype)
        return 0;
    return td_error(TD_E_RUNTIME, "_bytes_product: %s has %" PRId64 " elements of %s, one for each column, not %s of %s", name, columns,
                    td_dtype_name(dtype), x->ndim == 1 ? "another number" : "a matrix", td_dtype_name((td_dtype)x->dtype));
}

int td_meta__bytes_product(td_spec *specs, td_tensor *x, td_tensor *panels, int64_t columns, td_tensor *less, td_tensor *more, td_tensor *by,
                           int64_t n_window, const int64_t *window, bool apart, int64_t fill, int64_t least, double scale, int64_t zero_point, td_dtype dtype)
{
    (void)scale;
    if (x->ndim < 1 || x->dtype != TD_U8 || panels->ndim != 1 || panels->dtype != TD_I8)
        return td_error(TD_E_RUNTIME, "_bytes_product: x is of uint8 and panels are _bytes_pack's, not %s and %s", td_dtype_name((td_dtype)x->dtype),
                        td_dtype_name((td_dtype)panels->dtype));
    if (dtype != TD_U8 && dtype != TD_F32)
        return td_error(TD_E_RUNTIME, "_bytes_product: results are uint8 or float32, not %s", td_dtype_name(dtype));
    if (apart && (!n_window || columns != x->sizes[x->ndim - 1]))
        return td_error(TD_E_RUNTIME, "_bytes_product: windows of channels apart are of an image and give as many columns, not %" PRId64, columns);
    if (n_window && (n_window != 9 || x->ndim != 4))
        return td_error(TD_E_RUNTIME, "_bytes_product: windows of an image (batch, height, width, channels) are 9 numbers");
    const int64_t blocks = n_window ? window[8] : 1;
    if (blocks < 1 || (blocks > 1 && (apart || x->sizes[3] % blocks || columns % blocks || columns / blocks % PANEL || columns == 0)))
        return td_error(TD_E_RUNTIME, "_bytes_product: %" PRId64 " blocks of channels each meet whole panels of columns, not %" PRId64 " and %" PRId64,
                        blocks, x->sizes[x->ndim - 1], columns);
    if (fill < 0 || fill > 255 || least < 0 || least > 255 || zero_point < 0 || zero_point > 255 || columns < 0)
        return td_error(TD_E_RUNTIME, "_bytes_product: fill, least and the zero point are bytes, and there are no %" PRId64 " columns", columns);
    if (check_column("less", less, columns, TD_I32) || check_column("more", more, columns, TD_F32) || check_column("by", by, columns, TD_F32))
        return -1;
    int64_t sizes[TD_MAX_DIMS], taps = 1, run = x->sizes[x->ndim - 1] / blocks;
    memcpy(sizes, x->sizes, sizeof *sizes * (size_t)x->ndim);
    sizes[x->ndim - 1] = columns;
    for (int i = 0; i < 2 && n_window; i++) {
        const int64_t kernel = window[i], stride = window[2 + i], padding = window[4 + i], dilation = window[6 + i];
        if (kernel < 1 || kernel > INT16_MAX || stride < 1 || padding < 0 || padding > INT16_MAX || dilation < 1 || dilation > INT16_MAX)
            return td_error(TD_E_RUNTIME, "_bytes_product: no window has the kernel %" PRId64 ", stride %" PRId64 ", padding %" PRId64
                            " and dilation %" PRId64, kernel, stride, padding, dilation);
        const int64_t room = x->sizes[1 + i] + 2 * padding - dilation * (kernel - 1) - 1;
        if (room < 0)
            return td_error(TD_E_RUNTIME, "_bytes_product: Calculated padded input size per channel is smaller than the kernel");
        sizes[1 + i] = room / stride + 1;
        /* Along a row of the image neighbours lie side by side, so a kernel's row without gaps is one longer run instead of several taps. */
        const bool beside = i && dilation == 1 && !apart && blocks == 1;
        if (__builtin_mul_overflow(beside ? run : taps, kernel, beside ? &run : &taps))
            return td_error(TD_E_RUNTIME, "_bytes_product: a window is too large");
    }
    if (panels->numel != (apart ? apart_bytes(columns, taps) : panel_bytes(columns, taps, run)))
        return td_error(TD_E_RUNTIME, "_bytes_product: panels of %" PRId64 " columns and %" PRId64 " runs of %" PRId64 " are expected", columns, taps, run);
    return td_spec_set(specs, x->ndim, sizes, dtype, x->device);
}

int td_meta__bytes_pool(td_spec *specs, td_tensor *x, int64_t n_size, const int64_t *size, int64_t n_window, const int64_t *window, bool maximum,
                        bool include_pad, int64_t divisor, int64_t zero_point)
{
    (void)maximum, (void)include_pad, (void)zero_point;
    if (x->ndim != 4 || (x->dtype != TD_U8 && x->dtype != TD_I8))
        return td_error(TD_E_RUNTIME, "_bytes_pool: x are images of uint8 or int8 (batch, height, width, channels), not %s of %d dimensions",
                        td_dtype_name((td_dtype)x->dtype), x->ndim);
    if (n_size != 2 || size[0] < 0 || size[1] < 0 || divisor < 0 || (n_window && n_window != 8))
        return td_error(TD_E_RUNTIME, "_bytes_pool: size has two numbers and window eight or none, and no divisor is below 0");
    for (int i = 0; i < 2; i++) {
        const int64_t in = x->sizes[1 + i], out = size[i];
        if (!n_window) {
            if (out && !in)
                return td_error(TD_E_RUNTIME, "_bytes_pool: an image without pixels has no windows");
            continue;
        }
        const int64_t kernel = window[i], stride = window[2 + i], padding = window[4 + i], dilation = window[6 + i];
        if (kernel < 1 || stride < 1 || padding < 0 || dilation < 1 || padding > (kernel - 1) * dilation || kernel > INT32_MAX || stride > INT32_MAX ||
            padding > INT32_MAX || dilation > INT32_MAX)
            return td_error(TD_E_RUNTIME, "_bytes_pool: windows of size %" PRId64 ", stride %" PRId64 ", padding %" PRId64 " and dilation %" PRId64, kernel,
                            stride, padding, dilation);
        if (out && (out - 1 > INT32_MAX || (out - 1) * stride >= in + padding))
            return td_error(TD_E_RUNTIME, "_bytes_pool: %" PRId64 " windows reach beyond %" PRId64 " pixels", out, in);
    }
    return td_spec_set(specs, 4, (int64_t[]){x->sizes[0], size[0], size[1], x->sizes[3]}, (td_dtype)x->dtype, x->device);
}
