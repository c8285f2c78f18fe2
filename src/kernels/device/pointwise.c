/* Elementwise operators and copies on devices with programs: kernels printed from formulas.
 *
 * A call is a loop over elements, whatever its shapes: dimensions are brought into the output's order and merged where all
 * operands allow it, so that most calls have none left (all runs contiguous) or one to three.  Which kernel that takes depends on
 * the formula, on dtypes, on how many dimensions are left and on which operands are numbers on the CPU, which are passed by value; strides and
 * sizes are arguments.  Kernels are printed and built when they are first met (src/device/program.c). */
#include "ops/pointwise/pointwise.h"

#include <stdlib.h>
#include <string.h>
#include <tede/formula.h>
#include "tensor/device.h"

enum { RUNS = TD_MAX_OPERANDS, NUMBERS = 8 };

/* What tells kernels apart; bytes between the fields are zero. */
typedef struct kernel_key {
    const td_formula *formula;          /* NULL: a copy */
    int8_t            common, out, n_in, ndim;
    int8_t            in[RUNS];
    uint32_t          numbers;
} kernel_key;

/* A call: the output is run 0. */
typedef struct call {
    kernel_key key;
    td_tensor *runs[RUNS + 1];
    int64_t    n, sizes[TD_MAX_DIMS], strides[RUNS + 1][TD_MAX_DIMS];   /* in elements, what is left after merging; of runs only */
} call;

static bool dialect_holds(td_dtype dtype, const td_device_properties *device)
{
    return dtype < TD_DTYPE_A && !td_dtype_is_complex(dtype) && (device->doubles || dtype != TD_F64);
}

/* Strides of a run along the output's dimensions, 0 where it is broadcast. */
static void stretch(const td_tensor *x, const td_tensor *out, int64_t *strides)
{
    const int lead = out->ndim - x->ndim;
    for (int d = 0; d < out->ndim; d++)
        strides[d] = d < lead || (x->sizes[d - lead] == 1 && out->sizes[d] != 1) ? 0 : x->strides[d - lead];
}

/* Outermost first by the output's strides, dimensions of one element dropped, neighbours merged that are one in all runs. */
static void merge_dimensions(call *c, int n_runs)
{
    const td_tensor *out = c->runs[0];
    int64_t strides[RUNS + 1][TD_MAX_DIMS];
    int order[TD_MAX_DIMS], ndim = 0, left = 0;
    for (int r = 0; r < n_runs; r++)
        stretch(c->runs[r], out, strides[r]);
    for (int d = 0; d < out->ndim; d++) {
        int at = ndim;
        if (out->sizes[d] == 1)
            continue;
        for (; at > 0 && llabs(strides[0][order[at - 1]]) < llabs(strides[0][d]); at--)
            order[at] = order[at - 1];
        order[at] = d;
        ndim++;
    }
    for (int i = 0; i < ndim; i++) {
        const int d = order[i];
        bool one = left > 0;
        for (int r = 0; r < n_runs && one; r++)
            one = c->strides[r][left - 1] == strides[r][d] * out->sizes[d];
        left += !one;
        c->sizes[left - 1] = one ? c->sizes[left - 1] * out->sizes[d] : out->sizes[d];
        for (int r = 0; r < n_runs; r++)
            c->strides[r][left - 1] = strides[r][d];
    }
    bool contiguous = left <= 1;
    for (int r = 0; r < n_runs && left == 1; r++)
        contiguous &= c->strides[r][0] == 1;
    c->key.ndim = (int8_t)(contiguous ? 0 : left);
}

static char *print_source(td_device device, const void *context)
{
    const kernel_key *key = context;
    const td_device_properties *properties = td_device_known(device);
    const int operands[RUNS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    td_dtype inputs[RUNS];
    for (int i = 0; i < key->n_in; i++)
        inputs[i] = (td_dtype)key->in[i];
    const td_formula_call of = {key->formula, (td_dtype)key->common, operands};
    const td_formula_output output = {key->formula ? 0 : -1, (td_dtype)key->out};
    const td_formula_kernel kernel = {.name = "elementwise", .n_inputs = key->n_in, .n_calls = key->formula != NULL, .n_outputs = 1, .inputs = inputs,
                                      .calls = &of, .outputs = &output, .ndim = key->ndim, .numbers = key->numbers};
    return properties ? td_formula_print((td_dialect)properties->dialect, 1, &kernel, NULL) : NULL;
}

/* ---- the struct that is passed by value: members in order, each at a multiple of its size */

typedef struct packed { char bytes[8 * (2 + TD_MAX_DIMS * (RUNS + 2) + RUNS + NUMBERS)]; size_t size; } packed;

static void put(packed *p, const void *value, size_t size)
{
    p->size = (p->size + size - 1) / size * size;
    memcpy(p->bytes + p->size, value, size);
    p->size += size;
}

/* A number in the type that its dtype is computed in. */
static void put_number(packed *p, td_scalar x, td_dtype dtype)
{
    const bool integer = x.kind == TD_SCALAR_BOOL || x.kind == TD_SCALAR_INT || x.kind == TD_SCALAR_UINT;
    if (dtype == TD_F64) {
        put(p, &(double){td_scalar_double(x)}, sizeof(double));
    } else if (td_dtype_is_floating(dtype)) {
        put(p, &(float){(float)td_scalar_double(x)}, sizeof(float));
    } else {
        const int64_t wide = integer ? x.i : (int64_t)x.d;
        if (dtype == TD_I64 || dtype == TD_U32 || dtype == TD_U64)
            put(p, &wide, sizeof wide);
        else
            put(p, &(int32_t){(int32_t)wide}, sizeof(int32_t));
    }
}

/* TD_DECLINED, too, where the dialect has no such function. */
static int run(call *c, int n_params, const td_scalar *params)
{
    const td_tensor *out = c->runs[0];
    const td_device device = out->device;
    const td_device_properties *properties = td_device_known(device);
    td_kernel_argument arguments[RUNS + 2];
    packed values = {.size = 0};
    int n_runs = 1, n_arguments = 0;
    if (!properties || n_params > NUMBERS)
        return properties ? TD_DECLINED : -1;
    bool holds = dialect_holds((td_dtype)c->key.out, properties) && dialect_holds((td_dtype)c->key.common, properties);
    for (int i = 0; i < c->key.n_in; i++)
        holds &= dialect_holds((td_dtype)c->key.in[i], properties);
    if (!holds)
        return TD_DECLINED;
    td_tensor *numbers[RUNS];
    for (int i = 0; i < c->key.n_in; i++) {       /* those that are runs come first among c->runs */
        td_tensor *x = c->runs[1 + i];
        if (c->key.numbers >> i & 1)
            numbers[i] = x;
        else
            c->runs[n_runs++] = x;
    }
    c->n = out->numel;
    if (c->n == 0)
        return 0;
    merge_dimensions(c, n_runs);
    void *kernel = td_device_kernel(device, &c->key, sizeof c->key, "elementwise", print_source, &c->key);
    if (!kernel) {
        if (td_error_code() != TD_E_NOT_IMPLEMENTED)
            return -1;
        td_error_clear();
        return TD_DECLINED;
    }
    put(&values, &c->n, sizeof c->n);
    for (int d = 0; d < c->key.ndim; d++)
        put(&values, &c->sizes[d], sizeof *c->sizes);
    for (int r = 0; r < n_runs; r++) {
        arguments[n_arguments++] = (td_kernel_argument){c->runs[r]->data, 0};
        for (int d = 0; d < c->key.ndim; d++)
            put(&values, &c->strides[r][d], sizeof **c->strides);
    }
    for (int i = 0; i < c->key.n_in; i++) {
        td_scalar x;
        if (!(c->key.numbers >> i & 1))
            continue;
        if (td_tensor_item(numbers[i], &x))
            return -1;
        put_number(&values, x, (td_dtype)c->key.in[i]);
    }
    for (int i = 0; i < n_params; i++)
        put_number(&values, params[i], (td_dtype)c->key.common);
    values.size = (values.size + 7) / 8 * 8;
    arguments[n_arguments++] = (td_kernel_argument){values.bytes, values.size};
    int64_t groups = (c->n + properties->lanes - 1) / properties->lanes, most = (int64_t)properties->units * 64;
    return td_device_launch(device, kernel, groups < most ? groups : most, n_arguments, arguments);
}

static bool is_plain(const td_tensor *x) { return x->storage && !(x->flags & (TD_FLAG_CONJ | TD_FLAG_NEG)); }

int td_pointwise_on_device(const td_pointwise *op, td_dtype common, td_tensor *const *in, const td_scalar *params, td_tensor *out)
{
    const td_formula *formula = op->op ? td_formula_of(op->op, op->choice) : NULL;
    call c;
    memset(&c.key, 0, sizeof c.key);
    c.key.formula = formula;
    c.key.common = (int8_t)common;
    c.key.out = out->dtype;
    c.key.n_in = (int8_t)op->n_in;
    c.runs[0] = out;
    if (!formula || !is_plain(out))
        return TD_DECLINED;
    for (int i = 0; i < op->n_in; i++) {
        const bool number = in[i]->device.type == TD_CPU;
        if (!is_plain(in[i]) || (number && in[i]->ndim))
            return TD_DECLINED;
        c.key.in[i] = in[i]->dtype;
        c.key.numbers |= (uint32_t)number << i;
        c.runs[1 + i] = in[i];
    }
    return run(&c, formula->n_parameters, params);
}

int td_copy_on_device(td_tensor *dst, td_tensor *src)
{
    call c;
    if (!td_has_programs(dst->device) || !is_plain(dst) || !is_plain(src))
        return TD_DECLINED;
    memset(&c.key, 0, sizeof c.key);
    c.key.common = c.key.in[0] = src->dtype;
    c.key.out = dst->dtype;
    c.key.n_in = 1;
    c.runs[0] = dst, c.runs[1] = src;
    return run(&c, 0, NULL);
}
