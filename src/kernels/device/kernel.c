/* Launching kernels of the common dialect: see kernel.h. */
#include "kernels/device/kernel.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What tells built kernels apart; bytes between the fields are zero. */
typedef struct kernel_key {
    const char *source, *kernel;
    int8_t      dtypes[8];
    int64_t     numbers[TD_LAUNCH_NUMBERS];
    int64_t     lanes;
} kernel_key;

typedef struct text_of { const td_launch_of *launch; int n_types, n_numbers, lanes; } text_of;

/* The text without its other kernels, which would take most of a compiler's time; owned.  A kernel begins at a line with KERNEL, has its name in
 * front of its first buffer, and ends at a line with a brace. */
static char *text_for(const char *source, const char *kernel)
{
    const size_t length = strlen(kernel);
    char *text = malloc(strlen(source) + 1), *to = text;
    if (!text)
        return td_fail(TD_E_MEMORY, "no memory for a kernel's text");
    for (const char *at = source; *at;) {
        const char *begin = strstr(at, "\nKERNEL "), *arguments = begin ? strstr(begin, "(BUFFER(") : NULL;
        const char *end = arguments ? strstr(arguments, "\n}\n") : NULL, *next = end ? end + 2 : at + strlen(at);
        const bool wanted = !end || (arguments[-1 - (ptrdiff_t)length] == ' ' && !strncmp(arguments - length, kernel, length));
        const size_t n = (size_t)((wanted ? next : begin) - at);
        memcpy(to, at, n);
        to += n, at = next;
    }
    *to = 0;
    return text;
}

static char *print_source(td_device device, const void *context)
{
    const text_of *of = context;
    const td_device_properties *properties = td_device_known(device);
    td_source_number numbers[TD_LAUNCH_NUMBERS + 1];
    memcpy(numbers, of->launch->numbers, sizeof of->launch->numbers);
    numbers[of->n_numbers] = (td_source_number){"WIDTH", of->lanes};
    char *text = properties ? text_for(of->launch->source, of->launch->kernel) : NULL;
    char *source = text ? td_source_print((td_dialect)properties->dialect, of->n_types, of->launch->types, of->n_numbers + 1, numbers, text) : NULL;
    free(text);
    return source;
}

int td_leave_to_cpu(const char *why) { return td_error(TD_E_NOT_IMPLEMENTED, "left to the CPU: %s", why); }

index_limits td_index_limits(int64_t low, int64_t high, td_code code, const char *op, const char *text, int dim)
{
    return (index_limits){low, high, td_late_kind(code, op, text, dim)};
}

number td_number(double x)
{
    number n = {.single = (float)x};
    memcpy(&n.bits, &x, sizeof n.bits);
    return n;
}

/* Insertion by the first tensor's strides, for dimensions are few; then neighbours are merged where the outer one's step is the inner one's whole
 * length in every tensor: each dimension that is left costs a division per element (ADD_OFFSET in group.ck). */
int td_merge_dimensions(int ndim, const int64_t *sizes, int n, int64_t (*strides)[TD_MAX_DIMS], int64_t *to_sizes,
                        int64_t (*to_strides)[TD_MAX_DIMS])
{
    int order[TD_MAX_DIMS], used = 0, left = 0;
    for (int d = 0; d < ndim; d++) {
        int at = used;
        if (sizes[d] == 1)
            continue;
        for (; at > 0 && llabs(strides[0][order[at - 1]]) < llabs(strides[0][d]); at--)
            order[at] = order[at - 1];
        order[at] = d;
        used++;
    }
    for (int i = 0; i < used; i++) {
        const int d = order[i];
        bool one = left > 0;
        for (int t = 0; t < n && one; t++)
            one = to_strides[t][left - 1] == strides[t][d] * sizes[d];
        left += !one;
        to_sizes[left - 1] = one ? to_sizes[left - 1] * sizes[d] : sizes[d];
        for (int t = 0; t < n; t++)
            to_strides[t][left - 1] = strides[t][d];
    }
    return left;
}

bool td_axes_of(axes *to, int ndim, const int64_t *sizes, int n, int64_t (*strides)[TD_MAX_DIMS])
{
    const int most = (int)(sizeof to->sizes / sizeof *to->sizes);
    int64_t merged[TD_MAX_DIMS], steps[3][TD_MAX_DIMS];
    *to = (axes){.ndim = td_merge_dimensions(ndim, sizes, n, strides, merged, steps), .count = 1};
    for (int d = 0; d < to->ndim && to->ndim <= most; d++) {
        to->sizes[d] = merged[d];
        for (int t = 0; t < n; t++)
            to->strides[t][d] = steps[t][d];
    }
    for (int d = 0; d < ndim; d++)
        to->count *= sizes[d];
    return to->ndim <= most;
}

int td_launch_lanes(td_device device)
{
    const td_device_properties *properties = td_device_known(device);
    return properties ? properties->lanes : -1;
}

/* At most 64 groups for each unit: enough for a unit to hide the latency of memory by switching between them, few enough that starting a
 * group isn't what takes the time.  Beyond, work items take several elements. */
int64_t td_launch_groups(td_device device, int64_t n)
{
    const td_device_properties *properties = td_device_known(device);
    if (!properties)
        return 1;
    const int64_t groups = (n + properties->lanes - 1) / properties->lanes, most = (int64_t)properties->units * 64;
    return groups < most ? groups : most;
}

/* Groups that do a whole row or tile each may differ in how long they take, so there are more of them to balance. */
int64_t td_launch_many(td_device device, int64_t n)
{
    const td_device_properties *properties = td_device_known(device);
    const int64_t most = properties ? (int64_t)properties->units * 256 : 1;
    return n < most ? n : most;
}

td_tensor *td_laid_out(td_tensor *x, bool well, const int64_t *strides)
{
    td_tensor *copy = well ? td_tensor_retain(x)
                    : strides ? td_tensor_new_strided(x->ndim, x->sizes, strides, (td_dtype)x->dtype, x->device)
                              : td_tensor_new(x->ndim, x->sizes, (td_dtype)x->dtype, x->device);
    if (copy && !well && td_copy_elements(copy, x)) {
        td_tensor_release(copy);
        return NULL;
    }
    return copy;
}

int td_launch_pack(int64_t n, td_tensor *const *x)
{
    const int pack = 16 / (int)td_dtype_size((td_dtype)x[0]->dtype);
    for (; *x; x++)
        if ((*x)->flags & TD_FLAG_CONTIGUOUS && (uintptr_t)(*x)->data % 16)
            return 1;
    return pack > 1 && n % pack == 0 ? pack : 1;
}

td_rows td_launch_rows(td_device device, int64_t rows, int64_t n, int most, td_tensor *const *x)
{
    const int lanes = td_launch_lanes(device);
    td_rows of = {.pack = x ? td_launch_pack(n, x) : 1, .team = 1};
    if (lanes < 1)
        return of;
    const int64_t packs = n / of.pack, held = most / of.pack;
    /* Few sizes, so that there are few kernels to compile. */
    while (of.team < lanes && (of.team < 32 ? of.team < packs : of.team * held < packs)) {
        const int next = of.team == 1 ? 8 : of.team == 8 ? 32 : lanes;
        of.team = next < lanes ? next : lanes;
    }
    const int64_t each = (packs + of.team - 1) / of.team;
    of.held = each <= held ? (int)td_power_from(each) : 0;
    of.groups = td_launch_many(device, (rows * of.team + lanes - 1) / lanes);
    return of;
}

/* The key is compared by its bytes, source and kernel by their addresses: both are literals, and a lookup reads no text.  dtypes are checked
 * before the number of groups, so that an empty tensor of a dtype without kernels goes the same path as others. */
int td_launch(const td_launch_of *launch)
{
    const td_device device = launch->buffers[0]->device;
    const td_device_properties *properties = td_device_known(device);
    text_of of = {.launch = launch};
    kernel_key key;
    td_kernel_argument arguments[TD_LAUNCH_BUFFERS + 3];
    int n = 0;
    if (!properties)
        return -1;
    of.lanes = launch->lanes ? launch->lanes : properties->lanes;
    memset(&key, 0, sizeof key);
    key.source = launch->source, key.kernel = launch->kernel, key.lanes = of.lanes;
    for (; of.n_types < TD_LAUNCH_TYPES && launch->types[of.n_types].name; of.n_types++) {
        const td_dtype dtype = launch->types[of.n_types].dtype;
        if (!td_device_computes(device, launch->complex ? td_dtype_to_real(dtype) : dtype))
            return td_leave_to_cpu(td_dtype_name(dtype));
        key.dtypes[of.n_types] = (int8_t)dtype;
    }
    for (; of.n_numbers < TD_LAUNCH_NUMBERS && launch->numbers[of.n_numbers].name; of.n_numbers++)
        key.numbers[of.n_numbers] = launch->numbers[of.n_numbers].value;
    if (!launch->groups)
        return 0;
    void *kernel = td_device_kernel(device, &key, sizeof key, launch->kernel, print_source, &of);
    if (!kernel)
        return -1;
    const void *some = NULL;
    for (; n < TD_LAUNCH_BUFFERS && launch->buffers[n]; n++)
        some = some ? some : launch->buffers[n]->data;
    for (int i = 0; i < n; i++)
        arguments[i] = (td_kernel_argument){launch->buffers[i]->data ? launch->buffers[i]->data : some, 0};
    if (launch->state)
        arguments[n++] = (td_kernel_argument){launch->state, 0};
    td_stream *stream = launch->late ? td_stream_current(device) : NULL;
    void *record = stream ? td_late_record(stream) : NULL;
    if (launch->late && !record)
        return -1;
    if (record)
        arguments[n++] = (td_kernel_argument){record, 0};
    arguments[n++] = (td_kernel_argument){launch->values, launch->size};
    const int status = td_device_launch_lanes(device, kernel, launch->groups, of.lanes, n, arguments);
    if (record && status == 0)
        td_late_arm(stream);
    return status;
}

int td_launch_on(td_launch_of launch, int n, const td_operand_of *operands)
{
    int status = 0;
    for (int i = 0; i < n && !status; i++) {
        td_tensor *x = operands[i].x;
        const td_dtype dtype = !x || operands[i].dtype != TD_DTYPE_NONE ? operands[i].dtype : (td_dtype)x->dtype;
        launch.buffers[i] = !x ? NULL : operands[i].use == TD_WRITTEN && launch.groups ? td_target(x, dtype) : td_operand(x, dtype);
        status = launch.buffers[i] ? 0 : -1;
    }
    status = status || td_launch(&launch) ? -1 : 0;
    for (int i = 0; i < n; i++) {
        if (!status && operands[i].use != TD_READ)
            status = td_finish(operands[i].x, launch.buffers[i]);
        td_tensor_release(launch.buffers[i]);
    }
    return status;
}
