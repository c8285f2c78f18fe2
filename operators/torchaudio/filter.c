/* Loops along time that no operator on tensors has, since each step needs the one before: _lfilter_core_loop, _overdrive_core_loop.
 *
 * Both write into tensors that they are passed. torchaudio's lfilter has its gradient in Python, of calls of the same loop. */
#include "torchaudio.h"

typedef struct filter {
    const void *windows, *coefficients;
    void       *output;
    int64_t     samples, order, channels;
} filter;

/* out[i + order - 1] = windows[i] - sum_k coefficients[k] out[i + k], for (batch, channel) pairs [begin, end). The last coefficient is that
 * of the place that is written, which holds zero before. */
#define FILTER(T)                                                                                                  \
    static void filter_##T(void *context, int64_t begin, int64_t end)                                              \
    {                                                                                                              \
        const filter *f = context;                                                                                 \
        for (int64_t row = begin; row < end; row++) {                                                              \
            const T *window = (const T *)f->windows + row * f->samples;                                            \
            const T *a = (const T *)f->coefficients + row % f->channels * f->order;                                \
            T *out = (T *)f->output + row * (f->samples + f->order - 1);                                           \
            for (int64_t i = 0; i < f->samples; i++) {                                                             \
                T sum = window[i];                                                                                 \
                for (int64_t k = 0; k < f->order; k++)                                                             \
                    sum -= a[k] * out[i + k];                                                                      \
                out[i + f->order - 1] = sum;                                                                       \
            }                                                                                                      \
        }                                                                                                          \
    }
FILTER(float)
FILTER(double)

static int check_filter(const td_op *op, const td_value *arguments)
{
    td_tensor *windows = arguments[0].tensor, *a = arguments[1].tensor, *padded = arguments[2].tensor;
    if (td_check_ndim(op, 0, windows, 3) || td_check_ndim(op, 1, a, 2) || td_check_argument(op, 1, size_of(a, 1) > 0, "have coefficients") ||
        td_check_sizes_of(op, 1, a, 2, (int64_t[]){size_of(windows, 1), TD_ANY}) ||
        td_check_sizes_of(op, 2, padded, 3, (int64_t[]){size_of(windows, 0), size_of(windows, 1), size_of(windows, 2) + size_of(a, 1) - 1}))
        return -1;
    const td_dtype dtype = td_tensor_dtype(windows);
    for (int i = 0; i < 3; i++)
        if (td_check_dtype_of(op, i, arguments[i].tensor, i ? TD_DTYPE_BIT(dtype) : TD_FLOATS))
            return -1;
    return 0;
}

static td_value lent(td_tensor *x) { return (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_tensor_retain(x)}; }

static int filter_on_meta(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    if (check_filter(op, arguments))
        return -1;
    results[0] = lent(arguments[2].tensor);
    return 0;
}

static int lfilter(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    if (check_filter(op, arguments))
        return -1;
    td_tensor *padded = arguments[2].tensor;
    const td_dtype dtype = computed(td_tensor_dtype(padded));
    TD_AUTO td_tensor *windows = td_as_contiguous(arguments[0].tensor, dtype), *a = td_as_contiguous(arguments[1].tensor, dtype);
    TD_AUTO td_tensor *out = td_writable(padded, dtype);
    if (!windows || !a || !out)
        return -1;
    filter f = {td_tensor_data(windows), td_tensor_data(a), td_tensor_data(out), size_of(windows, 2), size_of(a, 1), size_of(windows, 1)};
#define RUN(T) td_parallel_for(0, size_of(windows, 0) * f.channels, 1 + 4096 / (f.samples * f.order + 1), filter_##T, &f)
    BY_COMPUTED(dtype, RUN);
#undef RUN
    return td_write_back(padded, out) ? -1 : filter_on_meta(op, keys, arguments, results, context);
}

/* ---- overdrive: what is left of a constant leaks away, by 0.5 % per sample */

typedef struct drive {
    const void *wave, *bent;
    void       *last_in, *last_out, *output;
    int64_t     samples;
} drive;

#define DRIVE(T)                                                                                                   \
    static void drive_##T(void *context, int64_t begin, int64_t end)                                               \
    {                                                                                                              \
        const drive *d = context;                                                                                  \
        for (int64_t row = begin; row < end; row++) {                                                              \
            const T *wave = (const T *)d->wave + row * d->samples, *bent = (const T *)d->bent + row * d->samples;  \
            T *to = (T *)d->output + row * d->samples, in = ((T *)d->last_in)[row], out = ((T *)d->last_out)[row]; \
            for (int64_t i = 0; i < d->samples; i++) {                                                             \
                out = bent[i] - in + (T)0.995 * out;                                                               \
                in = bent[i];                                                                                      \
                to[i] = wave[i] * (T)0.5 + out * (T)0.75;                                                          \
            }                                                                                                      \
            ((T *)d->last_in)[row] = in, ((T *)d->last_out)[row] = out;                                            \
        }                                                                                                          \
    }
DRIVE(float)
DRIVE(double)

static int check_drive(const td_op *op, const td_value *arguments)
{
    td_tensor *wave = arguments[0].tensor;
    if (td_check_ndim(op, 0, wave, 2) || td_check_dtype_of(op, 0, wave, TD_FLOATS))
        return -1;
    for (int i = 1; i < 5; i++)
        if (td_check_sizes_of(op, i, arguments[i].tensor, i == 2 || i == 3 ? 1 : 2, td_tensor_sizes(wave)) ||
            td_check_dtype_of(op, i, arguments[i].tensor, TD_DTYPE_BIT(td_tensor_dtype(wave))))
            return -1;
    return 0;
}

static int drive_on_meta(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    if (check_drive(op, arguments))
        return -1;
    for (int i = 0; i < 3; i++)
        results[i] = lent(arguments[2 + i].tensor);
    return 0;
}

static int overdrive(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    if (check_drive(op, arguments))
        return -1;
    const td_dtype dtype = computed(td_tensor_dtype(arguments[0].tensor));
    TD_AUTO td_tensor *wave = td_as_contiguous(arguments[0].tensor, dtype), *bent = td_as_contiguous(arguments[1].tensor, dtype);
    TD_AUTO td_tensor *in = td_writable(arguments[2].tensor, dtype), *out = td_writable(arguments[3].tensor, dtype);
    TD_AUTO td_tensor *to = td_writable(arguments[4].tensor, dtype);
    if (!wave || !bent || !in || !out || !to)
        return -1;
    drive d = {td_tensor_data(wave), td_tensor_data(bent), td_tensor_data(in), td_tensor_data(out), td_tensor_data(to), size_of(wave, 1)};
#define RUN(T) td_parallel_for(0, size_of(wave, 0), 1 + 4096 / (d.samples + 1), drive_##T, &d)
    BY_COMPUTED(dtype, RUN);
#undef RUN
    if (td_write_back(arguments[2].tensor, in) || td_write_back(arguments[3].tensor, out) || td_write_back(arguments[4].tensor, to))
        return -1;
    return drive_on_meta(op, keys, arguments, results, context);
}

static int both(const char *name, td_boxed_kernel *kernel, td_boxed_kernel *on_meta)
{
    return td_register_boxed(name, TD_KEY_DENSE, TD_CPU, kernel, NULL) || td_register_boxed(name, TD_KEY_DENSE, TD_META, on_meta, NULL) ||
           td_register_no_gradient(name) ? -1 : 0;
}

int ta_define_filters(void)
{
    if (!td_op_define("torchaudio::_lfilter_core_loop(Tensor input_signal_windows, Tensor a_coeff_flipped, Tensor(a!) padded_output_waveform) -> "
                      "Tensor(a!)") ||
        !td_op_define("torchaudio::_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor(a!) last_in, Tensor(b!) last_out, "
                      "Tensor(c!) output_waveform) -> (Tensor(a!), Tensor(b!), Tensor(c!))"))
        return -1;
    return both("torchaudio::_lfilter_core_loop", lfilter, filter_on_meta) || both("torchaudio::_overdrive_core_loop", overdrive, drive_on_meta) ? -1 : 0;
}
