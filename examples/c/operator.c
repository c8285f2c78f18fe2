/* An operator from outside, with its gradient, and a counter of all calls.
 *
 *     make operator && ./operator          or make softclip.so, and in Python tede.ops.load_library("./softclip.so")
 *
 * toy::softclip(x, limit) = limit * tanh(x / limit) is defined by a schema, as are tede's own operators; its kernel is a
 * loop that the iterator runs over any shape, strides and dtype; its gradient is one node. The counter is a kernel for
 * all operators, on a key that runs around theirs: it counts and goes on with what lies below. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tede/auto.h>
#include <tede/autograd_nodes.h>
#include <tede/dispatch.h>
#include <tede/kernel.h>
#include <tede/tede.h>

/* ---- the operator ------------------------------------------------------------------------------------------------ */

static void loop(int64_t n, char *const *ptrs, const void *params)
{
    double limit = *(const double *)params, *out = (double *)ptrs[0];
    const double *x = (const double *)ptrs[1];
    for (int64_t i = 0; i < n; i++)
        out[i] = limit * tanh(x[i] / limit);
}

/* Arguments come as in the schema; results are owned references. The compute dtype is float64, whatever x's is. */
static int kernel(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    td_tensor *out = td_tensor_new(td_tensor_ndim(x), td_tensor_sizes(x), td_tensor_dtype(x), td_tensor_device(x));
    if (!out)
        return -1;
    if (td_iterate(1, 1, (td_tensor *[]){out, x}, (td_dtype[]){TD_F64, TD_F64}, loop, &arguments[1].number, 20) != 0) {
        td_tensor_release(out);
        return -1;
    }
    results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = out};
    return 0;
}

/* d softclip / dx = 1 - (y / limit)^2: the result and the limit are kept. */
static int setup(void *context, td_node *node, const td_value *arguments, const td_value *results, void **state)
{
    (void)context;
    double *limit = malloc(sizeof *limit);
    if (!limit)
        return td_error(TD_E_MEMORY, "toy::softclip: no memory");
    *limit = arguments[1].number;
    *state = limit;
    td_tensor *y = results[0].tensor;
    return td_custom_save(node, 1, &y, 1, &y);
}
static int backward(void *context, void *state, td_node *node, int n_grads, td_tensor *const *grads, int n_results,
                    td_tensor **results)
{
    (void)context, (void)n_grads, (void)n_results;
    TD_AUTO td_tensor *y = td_node_saved_tensor(node, 0);
    TD_AUTO td_tensor *part = td_div_scalar(y, td_float(*(double *)state));
    TD_AUTO td_tensor *square = td_mul(part, part);
    TD_AUTO td_tensor *slope = td_rsub_scalar(square, td_float(1), td_int(1));
    results[0] = td_mul(grads[0], slope);
    return results[0] ? 0 : -1;
}
static const td_op_gradient gradient = {setup, backward, free};

static const td_op *define(void)
{
    const td_op *op = td_op_define("toy::softclip(Tensor x, float limit=1) -> Tensor");
    return op && td_register_default("toy::softclip", kernel, NULL) == 0 &&
           td_register_gradient("toy::softclip", &gradient, NULL) == 0 ? op : NULL;
}

#ifdef SOFTCLIP_LIBRARY
/* An error that it leaves is load_library's. */
__attribute__((constructor)) static void loaded(void) { define(); }
#else
static const td_device cpu = {TD_CPU, -1};

static void check(bool good)
{
    if (good)
        return;
    fprintf(stderr, "operator: %s\n", td_error_message());
    exit(1);
}

static td_tensor *softclip(const td_op *op, td_tensor *x, double limit)
{
    td_value arguments[] = {{.kind = TD_VALUE_TENSOR, .tensor = x}, {.kind = TD_VALUE_FLOAT, .number = limit}}, result;
    return td_op_call(op, arguments, &result) == 0 ? result.tensor : NULL;
}

/* ---- the counter --------------------------------------------------------------------------------------------------- */

static int count_call(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *counter)
{
    ++*(int *)counter;
    return td_op_call_keys(op, keys & ~TD_KEYSET(TD_KEY_PROFILER), arguments, results);
}

int main(void)
{
    const td_op *op = define();
    check(op);

    /* A transposed operand, to show that strides are the iterator's business. */
    TD_AUTO td_tensor *line = td_linspace(td_float(-3), td_float(3), 6, TD_F64, cpu);
    TD_AUTO td_tensor *table = td_reshape(line, 2, (int64_t[]){2, 3});
    TD_AUTO td_tensor *x = td_clone(table);
    check(x && td_set_requires_grad(x, true) == 0);
    TD_AUTO td_tensor *columns = td_transpose_int(x, 0, 1);
    TD_AUTO td_tensor *y = softclip(op, columns, 2);
    TD_AUTO td_tensor *sum = td_sum(y);
    check(sum && td_backward(1, &sum, NULL, false, false) == 0);

    double worst = 0;
    const double *at = td_tensor_data(x), *slope = td_tensor_data(td_grad(x));
    for (int i = 0; i < 6; i++) {
        double t = tanh(at[i] / 2), off = fabs(slope[i] - (1 - t * t));
        worst = off > worst ? off : worst;
    }
    printf("gradient within %.0e of the formula\n", worst < 1e-15 ? 1e-15 : worst);

    int counter = 0;
    check(td_register_fallback(TD_KEY_PROFILER, TD_CPU, count_call, &counter) == 0);
    td_masks masks = td_thread_masks(), watched = masks;
    watched.include |= TD_KEYSET(TD_KEY_PROFILER);
    td_set_thread_masks(watched);
    TD_AUTO td_tensor *a = td_neg(x);
    TD_AUTO td_tensor *b = softclip(op, a, 1);
    td_set_thread_masks(masks);
    TD_AUTO td_tensor *c = td_neg(x);
    check(b && c && td_register_fallback(TD_KEY_PROFILER, TD_CPU, NULL, NULL) == 0);
    printf("%d calls counted\n", counter);
    check(td_op_remove(op) == 0);
    printf("%s\n", td_op_find("toy::softclip") ? "still there" : "taken away");
    return 0;
}
#endif
