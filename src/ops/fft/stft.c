/* stft and istft, short-time Fourier transforms: windows that slide along a signal, each transformed; and the inverse, by
 * adding the windows up where they overlap (the least-squares inversion of Griffin and Lim, "Signal estimation from
 * modified short-time Fourier transform", 1984). Both are made of differentiable operators and have no gradient formulas. */

#include "calls_ops_fft_stft.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <tede/kernel.h>
#include "base/warn.h"
#include "dispatch/outputs.h"
#include "ops/compose.h"
#include "tensor/checked.h"

#define LET(x) TD_AUTO td_tensor *x

/* ---- the call, as PyTorch's messages repeat it */

typedef char call_text[768];

/* An optional number in Python's words; the buffer is the caller's. */
static const char *number_or_none(const void *value, int64_t number, char *buffer, size_t size)
{
    if (!value)
        return "None";
    snprintf(buffer, size, "%" PRId64, number);
    return buffer;
}
/* A message begins with the call as its user might have written it: `opening`, the dtype, `kind`, the shape, the numbers; in PyTorch
 * stft's and istft's print the tensor differently. Long shapes are cut off at the buffer's end. */
static void describe(call_text text, const char *opening, const char *kind, td_tensor *self, int64_t n_fft, int64_t hop, int64_t width,
                     td_tensor *window, const char *more)
{
    td_shape_text shape;
    char with[300] = "None";
    if (td_is_some(window)) {
        td_shape_str(window->ndim, window->sizes, shape);
        snprintf(with, sizeof with, "torch.%sTensor{%s}", td_dtype_title((td_dtype)window->dtype), shape);
    }
    td_shape_str(self->ndim, self->sizes, shape);
    const char *title = td_dtype_title((td_dtype)self->dtype);
    snprintf(text, sizeof(call_text), "%s%s%s%s, n_fft=%" PRId64 ", hop_length=%" PRId64 ", win_length=%" PRId64 ", window=%s, %s)", opening, title,
             kind, shape, n_fft, hop, width, with, more);
}

/* The window in the middle of n_fft zeros; ones where none is given. The caller has checked that it isn't longer. */
static td_tensor *full_window(td_tensor *window, int64_t width, int64_t n_fft, td_dtype dtype, td_device device)
{
    LET(given) = td_is_some(window) ? td_ref(window) : td_ones(1, &width, dtype, device);
    int64_t left = (n_fft - width) / 2;
    return width == n_fft ? td_ref(given) : td_constant_pad_nd(given, 2, (int64_t[]){left, n_fft - width - left}, td_int(0));
}

/* [batch, n] -> [batch, frequencies, frames]. Frames are an unfolded view of the signal, n_fft long and hop apart, times
 * the window and transformed; center pads the signal by n_fft / 2 on both sides, so that frame t is centered at t * hop.
 * Padding wants three dimensions, hence the detour by reshape. */
td_tensor *td_op_stft_center(td_tensor *self, int64_t n_fft, const int64_t *hop_length, const int64_t *win_length, td_tensor *window, bool center,
                             const char *pad_mode, bool normalized, const bool *onesided, const bool *return_complex, const bool *align_to_window)
{
    bool is_complex = td_is_complex(self), windowed = td_is_some(window), complex_fft = is_complex || (windowed && td_is_complex(window));
    bool as_complex = return_complex ? *return_complex : complex_fft;
    int64_t hop = hop_length ? *hop_length : n_fft / 4, width = win_length ? *win_length : n_fft;
    if (center && align_to_window)
        return td_fail(TD_E_RUNTIME, "stft align_to_window should only be set when center = false");
    if (!windowed && TD_WARN_ONCE("A window was not provided. A rectangular window will be applied,which is known to cause spectral leakage. Other windows "
                             "such as torch.hann_window or torch.hamming_window are recommended to reduce spectral leakage.To suppress this warning "
                             "and use a rectangular window, explicitly set `window=torch.ones(n_fft, device=<device>)`."))
        return NULL;
    if (!return_complex && !complex_fft)
        return td_fail(TD_E_RUNTIME, "stft requires the return_complex parameter be given for real inputs, and will further require that "
                       "return_complex=True in a future PyTorch release.");
    if (!as_complex && TD_WARN_ONCE("stft with return_complex=False is deprecated. In a future pytorch release, stft will return complex tensors "
                               "for all inputs, and return_complex=False will raise an error.\nNote: you can still call torch.view_as_real "
                               "on the complex output to recover the old return format."))
        return NULL;
    LET(signal) = td_ref(self);
    if (center) {
        int64_t sizes[3] = {1, 1, 1}, pad = n_fft / 2;
        for (int d = 0; d < self->ndim && self->ndim <= 3; d++)
            sizes[3 - self->ndim + d] = self->sizes[d];
        LET(wide) = self->ndim <= 3 ? td_reshape(self, 3, sizes) : td_ref(self);
        LET(padded) = td_pad_mode(wide, 2, (int64_t[]){pad, pad}, pad_mode, NULL);
        if (!padded)
            return NULL;
        td_tensor_release(signal);
        signal = td_reshape(padded, self->ndim <= 3 ? self->ndim : padded->ndim, padded->sizes + (self->ndim <= 3 ? 3 - self->ndim : 0));
        if (!signal)
            return NULL;
    }
    char flags[160], one[24], some[24], aligned[24];
    snprintf(flags, sizeof flags, "normalized=%d, onesided=%s, return_complex=%s, align_to_window=%s", normalized,
             number_or_none(onesided, onesided && *onesided, one, sizeof one),
             number_or_none(return_complex, return_complex && *return_complex, some, sizeof some),
             number_or_none(align_to_window, align_to_window && *align_to_window, aligned, sizeof aligned));
    call_text call;
    describe(call, "stft(torch.", "Tensor", signal, n_fft, hop, width, window, flags);
    if (!td_is_floating(signal) && !is_complex)
        return td_fail(TD_E_RUNTIME, "%s : expected a tensor of floating point or complex values", call);
    if (signal->ndim < 1 || signal->ndim > 2)
        return td_fail(TD_E_RUNTIME, "%s : expected a 1D or 2D tensor", call);
    bool single = signal->ndim == 1;
    LET(batch) = single ? td_unsqueeze(signal, 0) : td_ref(signal);
    if (!batch)
        return NULL;
    int64_t length = batch->sizes[1];
    if (n_fft <= 0 || n_fft > length)
        return td_fail(TD_E_RUNTIME, "%s : expected 0 < n_fft < %" PRId64 ", but got n_fft=%" PRId64, call, length, n_fft);
    if (hop <= 0)
        return td_fail(TD_E_RUNTIME, "%s : expected hop_length > 0, but got hop_length=%" PRId64, call, hop);
    if (width <= 0 || width > n_fft)
        return td_fail(TD_E_RUNTIME, "%s : expected 0 < win_length <= n_fft, but got win_length=%" PRId64, call, width);
    td_shape_text shape;
    if (windowed && (window->ndim != 1 || window->sizes[0] != width))
        return td_fail(TD_E_RUNTIME, "%s : expected a 1D window tensor of size equal to win_length=%" PRId64 ", but got window with size %s", call, width,
                       td_shape_str(window->ndim, window->sizes, shape));
    bool half = onesided ? *onesided : !complex_fft;
    if (half && complex_fft)
        return td_fail(TD_E_RUNTIME, "Cannot have onesided output if window or input is complex");
    LET(frames) = td_unfold(batch, 1, n_fft, hop);
    LET(whole) = windowed || width < n_fft ? full_window(window, width, n_fft, td_dtype_to_real((td_dtype)self->dtype), self->device) : td_ref(TD_NONE);
    LET(weighted) = td_is_some(whole) ? td_mul(frames, whole) : whole ? td_ref(frames) : NULL;
    const char *norm = normalized ? "ortho" : NULL;
    LET(spectra) = half ? td_fft_rfft(weighted, NULL, -1, norm) : td_fft_fft(weighted, NULL, -1, norm);
    LET(transposed) = td_transpose_int(spectra, 1, 2);
    LET(result) = single ? td_squeeze_dim(transposed, 0) : td_ref(transposed);
    return as_complex ? td_ref(result) : td_view_as_real(result);
}

/* [batch, frequencies, frames] -> [batch, n]: y = sum of window * frame / sum of window^2, both sums over overlapping
 * frames (unfold's gradient adds them up). Where the sum of squares vanishes nothing is known about y, which is an error.
 * With center the first n_fft / 2 elements are the padding and are left out. A real result needs only half of the
 * frequencies. */
td_tensor *td_op_istft(td_tensor *self, int64_t n_fft, const int64_t *hop_length, const int64_t *win_length, td_tensor *window, bool center,
                       bool normalized, const bool *onesided, const int64_t *length, bool return_complex)
{
    bool windowed = td_is_some(window);
    int64_t hop = hop_length ? *hop_length : n_fft / 4, width = win_length ? *win_length : n_fft;
    if (!windowed && TD_WARN_ONCE("A window was not provided. A rectangular window will be applied. Please provide the same window used by stft to make the "
                             "inversion lossless. To suppress this warning and use a rectangular window, explicitly set "
                             "`window=torch.ones(n_fft, device=<device>)`."))
        return NULL;
    if (!td_is_complex(self))
        return td_fail(TD_E_RUNTIME, "istft requires a complex-valued input tensor matching the output from stft with return_complex=True.");
    char flags[160], one[24], some[24];
    snprintf(flags, sizeof flags, "center=%d, normalized=%d, onesided=%s, length=%s, return_complex=%d", center, normalized,
             number_or_none(onesided, onesided && *onesided, one, sizeof one), number_or_none(length, length ? *length : 0, some, sizeof some),
             return_complex);
    call_text call;
    describe(call, "istft(CPU", "Type", self, n_fft, hop, width, window, flags);
    if (!self->numel)
        return td_fail(TD_E_RUNTIME, "%s : input tensor cannot be empty.", call);
    if (self->ndim != 2 && self->ndim != 3)
        return td_fail(TD_E_RUNTIME, "%s : expected a tensor with 3 or 4 dimensions, but got %d", call, self->ndim + 1);
    int64_t rows = self->sizes[self->ndim - 2], n_frames = self->sizes[self->ndim - 1];
    bool half = onesided ? *onesided : rows != n_fft;
    if (half && rows != n_fft / 2 + 1)
        return td_fail(TD_E_RUNTIME, "%s : expected the frequency dimension (3rd to the last) of the input tensor to match n_fft / 2 + 1 when "
                       "onesided=True, but got %" PRId64, call, rows);
    if (!half && rows != n_fft)
        return td_fail(TD_E_RUNTIME, "%s : expected the frequency dimension (3rd to the last) of the input tensor to match n_fft when "
                       "onesided=False, but got %" PRId64, call, rows);
    if (hop <= 0 || hop > width)
        return td_fail(TD_E_RUNTIME, "%s : expected 0 < hop_length <= win_length", call);
    if (width <= 0 || width > n_fft)
        return td_fail(TD_E_RUNTIME, "%s : expected 0 < win_length <= n_fft", call);
    if (windowed && (window->ndim != 1 || window->sizes[0] != width))
        return td_fail(TD_E_RUNTIME, "%s : Invalid window shape. window has to be 1D and length of `win_length`", call);
    if (half && return_complex)
        return td_fail(TD_E_RUNTIME, "Cannot have onesided output if window or input is complex");
    if (windowed && td_is_complex(window) && !return_complex)
        return td_fail(TD_E_RUNTIME, "Complex windows are incompatible with return_complex=False");
    td_dtype real = td_dtype_to_real((td_dtype)self->dtype);
    LET(whole) = full_window(window, width, n_fft, real, self->device);
    LET(batch) = self->ndim == 2 ? td_unsqueeze(self, 0) : td_ref(self);
    LET(spectra) = td_transpose_int(batch, 1, 2);
    const char *norm = normalized ? "ortho" : NULL;
    /* A spectrum that is given whole but stands for a real signal is cut to the half, from which irfft works. */
    LET(needed) = return_complex || half ? td_ref(spectra) : td_narrow(spectra, -1, 0, n_fft / 2 + 1);
    LET(frames) = return_complex ? td_fft_ifft(needed, NULL, -1, norm) : td_fft_irfft(needed, &n_fft, -1, norm);
    LET(weighted) = td_mul(frames, whole);
    if (!weighted)
        return NULL;
    /* The frames span `total` elements, of which [start, end) are wanted; a `length` beyond the span is filled up with
     * zeros at the end. */
    int64_t total = td_add_saturated(n_fft, td_mul_saturated(hop, n_frames - 1)), start = center ? n_fft / 2 : 0;
    int64_t end = length ? td_add_saturated(start, *length) : center ? total - n_fft / 2 : total, stop = end < total ? end : total;
    LET(sum) = td_unfold_backward(weighted, 2, (int64_t[]){weighted->sizes[0], total}, 1, n_fft, hop);
    LET(squares) = td_square(whole);
    LET(spread) = td_expand(squares, 3, (int64_t[]){1, n_frames, n_fft});
    LET(envelope) = td_unfold_backward(spread, 2, (int64_t[]){1, total}, 1, n_fft, hop);
    LET(y) = td_slice_tensor(sum, 1, &start, &stop, 1);
    LET(divisor) = td_slice_tensor(envelope, 1, &start, &stop, 1);
    LET(size) = td_abs(divisor);
    if (!size)
        return NULL;
    if (size->numel && size->device.type != TD_META) {
        LET(least) = td_min_all(size);
        td_scalar value;
        if (!least || td_item(&value, least))
            return NULL;
        if (td_scalar_double(value) <= 1e-11)
            return td_fail(TD_E_RUNTIME, "%s window overlap add min: %g", call, td_scalar_double(value));
    }
    LET(result) = td_div(y, divisor);
    LET(flat) = self->ndim == 2 ? td_squeeze_dim(result, 0) : td_ref(result);
    if (end <= total)
        return td_ref(flat);
    if (TD_WARN_ONCE("The length of signal is shorter than the length parameter. Result is being padded with zeros in the tail. Please check your center and "
                "hop_length settings."))
        return NULL;
    return td_constant_pad_nd(flat, 2, (int64_t[]){0, end - total}, td_int(0));
}
