/* What stands around kernels, and what comes from outside, through the public API: vmap and forward mode, recordings,
 * operators, devices, layouts and dtypes; each also with allocations that fail. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <pthread.h>
#include <tede/autograd_nodes.h>
#include <tede/device.h>
#include <tede/foreign.h>
#include <tede/layout.h>
#include <tede/ops.h>
#include <tede/promotion.h>
#include <tede/trace.h>
#include <tede/transforms.h>

#define AUTO TD_AUTO td_tensor *

static td_tensor *line(int64_t n) { return td_arange(td_int(n), TD_F64, CPU); }
static td_tensor *table(int64_t rows, int64_t columns)
{
    AUTO flat = line(rows * columns);
    return flat ? td_reshape(flat, 2, (int64_t[]){rows, columns}) : NULL;
}
static double number(td_tensor *x)
{
    td_scalar value = td_float(NAN);
    AUTO sum = x ? td_sum(x) : NULL;
    return sum && td_tensor_item(sum, &value) == 0 ? td_scalar_double(value) : NAN;
}

/* ---- transforms */

/* f over a batch of rows at a vmap level; an owned tensor of the results. */
static td_tensor *mapped(td_tensor *x, td_tensor *(*f)(td_tensor *))
{
    if (td_transform_enter(TD_TRANSFORM_VMAP, td_tensor_sizes(x)[0], TD_RANDOM_ERROR) < 0)
        return NULL;
    td_tensor *wrapped = td_transform_wrap(x, 0), *made = wrapped ? f(wrapped) : NULL, *out = NULL;
    int dim = -1;
    if (made) {
        out = td_transform_unwrap(made, 0, &dim);
        if (out && dim > 0) {
            td_tensor *moved = td_movedim_int(out, dim, 0);
            td_tensor_release(out);
            out = moved;
        }
    }
    td_tensor_release(made), td_tensor_release(wrapped);
    td_transform_leave();
    return out;
}

static td_tensor *pointwise(td_tensor *x)
{
    AUTO e = td_exp(x);
    AUTO t = td_mul(e, x);
    return td_add(t, e);
}
static td_tensor *reduced(td_tensor *x)
{
    AUTO s = td_cumsum(x, 0, TD_DTYPE_NONE);
    return td_sum_dim_intlist(s, 1, (int64_t[]){0}, false, TD_DTYPE_NONE);
}
static td_tensor *product(td_tensor *x)
{
    AUTO column = td_unsqueeze(x, 1);
    AUTO row = td_unsqueeze(x, 0);
    AUTO outer = td_matmul(column, row);
    AUTO transposed = td_transpose_int(outer, 0, 1);
    return td_matmul(transposed, x);
}
static td_tensor *by_chance(td_tensor *x)
{
    AUTO zeros = td_zeros_like(x);
    return zeros ? td_bernoulli(zeros, NULL) : NULL;
}

TD_TEST(a_function_of_a_row_is_mapped_over_rows)
{
    AUTO x = TRY(table(3, 4));
    AUTO scaled = TRY(td_div_scalar(x, td_float(12)));
    static td_tensor *(*const functions[])(td_tensor *) = {pointwise, reduced, product};
    for (int k = 0; k < TD_COUNT(functions); k++) {
        AUTO all = TRY(mapped(scaled, functions[k]));
        CHECK_EQ(td_tensor_sizes(all)[0], 3);
        for (int row = 0; row < 3; row++) {
            AUTO one = TRY(td_select_int(scaled, 0, row));
            AUTO expected = TRY(functions[k](one));
            AUTO got = TRY(td_select_int(all, 0, row));
            AUTO off = TRY(td_sub(got, expected));
            AUTO size = TRY(td_abs(off));
            CHECK(number(size) < 1e-9);
        }
    }
    CHECK_FAILS(mapped(scaled, by_chance), TD_E_RUNTIME, "random");
    CHECK_EQ(td_transform_level(), 0);
}

TD_TEST(tangents_follow_formulas_and_levels)
{
    AUTO x = TRY(line(4));
    AUTO direction = TRY(td_ones_like(x));
    AUTO dual = TRY(td_make_dual(x, direction));
    AUTO y = TRY(pointwise(dual));
    CHECK(td_tangent(y) != NULL);
    AUTO e = TRY(td_exp(x));                        /* d (x + 1) e^x = (x + 2) e^x */
    AUTO slope = TRY(td_mul(e, x));
    AUTO twice = TRY(td_mul_scalar(e, td_int(2)));
    AUTO expected = TRY(td_add(slope, twice));
    AUTO off = TRY(td_sub(td_tangent(y), expected));
    CHECK_NEAR(number(off), 0, 1e-9);
    AUTO matrix = TRY(td_reshape(dual, 2, (int64_t[]){2, 2}));
    AUTO squared = TRY(td_matmul(matrix, matrix));
    AUTO sorted = TRY(td_cumsum(squared, 1, TD_DTYPE_NONE));
    CHECK(td_tangent(sorted) != NULL);
    AUTO primal = TRY(td_primal(dual));
    CHECK(td_tangent(primal) == NULL);
    td_end_dual_level();
}

/* ---- recordings */

static td_tensor *work(td_tensor *x, td_tensor *constant)
{
    AUTO y = td_matmul(x, constant);
    AUTO parts = td_sum_dim_intlist(y, 1, (int64_t[]){-1}, true, TD_DTYPE_NONE);
    if (!parts || td_relu_(y) != 0)
        return NULL;
    return td_add(y, parts);
}

TD_TEST(a_recording_is_played_on_other_tensors)
{
    AUTO x = TRY(table(2, 2));
    AUTO constant = TRY(table(2, 3));
    AUTO other = TRY(table(4, 2));
    td_recording *r = TRY(td_record_begin(1, &x));
    AUTO y = work(x, constant);
    int status = y ? td_record_end(r, 1, &y) : -1;
    td_tensor *played = NULL;
    char *text = status == 0 ? td_recording_str(r) : NULL;
    if (text)
        status = td_recording_play(r, &other, &played);
    bool named = text && strstr(text, "= aten::matmul(%0, ") && strstr(text, "aten::relu_(") && strstr(text, "[-1], True)");
    int calls = status == 0 ? td_recording_calls(r) : 0;
    td_string_free(text);
    td_recording_release(r);
    AUTO result = played;
    CHECK(status == 0 && text);
    CHECK(named);
    CHECK_EQ(calls, 4);
    AUTO expected = TRY(work(other, constant));
    CHECK_NEAR(number(result), number(expected), 1e-9);
}

TD_TEST(a_recording_that_is_dropped_leaves_the_thread_alone)
{
    AUTO x = TRY(line(2));
    td_recording *r = TRY(td_record_begin(1, &x));
    td_recording *second = td_record_begin(1, &x);
    td_code code = td_error_code();
    td_error_clear();
    AUTO y = td_neg(x);
    td_recording_release(r);
    CHECK(!second && (code == TD_E_RUNTIME || td_test_failing));
    TRY(y);
    CHECK(td_is_plain(x));
    CHECK_FAILS(td_record_end(NULL, 0, NULL), TD_E_RUNTIME, "isn't recording");
}

/* ---- operators */

static int twice(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor;
    if (td_check_ndim(op, 0, x, 2) || td_check_sizes_of(op, 0, x, 2, (int64_t[]){TD_ANY, 3}) ||
        td_check_dtype_of(op, 0, x, TD_FLOATS) || td_check_argument(op, 1, arguments[1].number > 0, "be above zero, got %g", arguments[1].number))
        return -1;
    td_tensor *out = td_output(results, 2, td_tensor_sizes(x), td_tensor_dtype(x), td_tensor_device(x));
    if (!out)
        return -1;
    td_accessor to = td_access(out), from = td_access(x);
#define RUN(T)                                                                                        \
    for (int64_t i = 0; i < to.sizes[0]; i++)                                                          \
        for (int64_t j = 0; j < to.sizes[1]; j++)                                                      \
            *TD_AT(T, to, i, j) = (T)(*TD_AT(T, from, i, j) * arguments[1].number)
    if (td_tensor_dtype(x) == TD_F16) {
        td_values_release(results, 1);
        return td_error(TD_E_NOT_IMPLEMENTED, "halves");
    }
    TD_SWITCH_FLOATS("test::times", td_tensor_dtype(x), RUN)
    return 0;
}
static td_tensor *times(const td_op *op, td_tensor *x, double factor)
{
    td_value arguments[4] = {{.kind = TD_VALUE_TENSOR, .tensor = x}, {.kind = TD_VALUE_FLOAT, .number = factor}}, result;
    return td_op_call(op, arguments, &result) == 0 ? result.tensor : NULL;
}

TD_TEST(checks_name_the_argument_and_its_position)
{
    const td_op *op = TRY(td_op_define("test::times(Tensor matrix, float factor=2.5, int[2] k=[1, 2], str s=\"a\") -> Tensor"));
    int registered = td_register_default("test::times", twice, NULL);
    AUTO x = table(3, 3);
    AUTO transposed = x ? td_transpose_int(x, 0, 1) : NULL;
    AUTO y = transposed ? times(op, transposed, 2) : NULL;
    AUTO flat = line(3);
    AUTO wrong = table(3, 2);
    AUTO whole = x ? td_to(x, TD_I64) : NULL;
    char message[5][160] = {{0}};
    bool given = x && y && flat && wrong && whole, failed = true;
    for (int i = 0; i < 5 && given; i++) {
        failed &= i == 0 ? !times(op, flat, 1) : i == 1 ? !times(op, wrong, 1) : i == 2 ? !times(op, whole, 1)
                : i == 3 ? !times(op, x, -1) : !td_op_define("test::times(Tensor x) -> Tensor");
        snprintf(message[i], sizeof message[i], "%s", td_error_message());
        if (td_error_code() != TD_E_MEMORY)
            td_error_clear();
    }
    CHECK_EQ(td_op_remove(op), 0);
    CHECK_EQ(registered, 0);
    CHECK(given && failed);
    CHECK_NEAR(number(y), 72, 1e-9);
    CHECK(strstr(message[0], "test::times(): argument 'matrix' (position 1) must have 2 dimensions, but has 1"));
    CHECK(strstr(message[1], "argument 'matrix' (position 1) must have sizes [-1, 3] (-1: any), but has [3, 2]"));
    CHECK(strstr(message[2], "must have one of the dtypes float16, bfloat16, float32, float64, but has int64"));
    CHECK(strstr(message[3], "argument 'factor' (position 2) must be above zero, got -1"));
    CHECK(strstr(message[4], "multiple times"));
}

TD_TEST(schemas_that_cant_be_read_are_refused)
{
    static const char *const bad[] = {"", "x", "a::", "a::f", "a::f(", "a::f(Tensor", "a::f(Tensor x", "a::f(Tensor x)", "a::f(Tensor x) ->",
        "a::f(Tensr x) -> Tensor", "a::f(Tensor x=) -> Tensor", "a::f(int x=[) -> Tensor", "a::f(str s='a) -> Tensor", "a::f(Tensor[ x) -> Tensor",
        "a::f(Tensor x) -> (Tensor", "a::f(Tensor x) -> Tensor y z", "a::f(Tensor x,, Tensor y) -> Tensor", "a::f(int[] k=[1, b]) -> Tensor"};
    for (int i = 0; i < TD_COUNT(bad); i++)
        CHECK_FAILS(td_op_define(bad[i]), TD_E_RUNTIME, "schema '");
}

TD_TEST(names_have_any_length)
{
    static char schema[400] = "test::";
    memset(schema + 6, 'n', 300);
    strcpy(schema + 306, "(Tensor x) -> Tensor");
    const td_op *op = TRY(td_op_define(schema));
    char name[400];
    snprintf(name, sizeof name, "%.305s", schema);
    const td_op *other = td_op_find(name);
    td_error_clear();
    snprintf(name, sizeof name, "%.306s", schema);
    const td_op *found = td_op_find(name);
    CHECK(td_op_remove(op) == 0);       /* first, since a check that is excused leaves the test */
    CHECK(found == op && !other);
}

TD_TEST(lists_of_integers_are_exact)
{
    const td_op *op = TRY(td_op_define("test::lists(Tensor x, int[] k=[9007199254740993, -1, True], bool[] b=[1, False], float[] f=[1, 2.5]) -> Tensor"));
    if (!op)
        return;
    const td_op_info *info = td_op_describe(op);
    const td_value *k = &info->arguments[1].default_value, *b = &info->arguments[2].default_value, *f = &info->arguments[3].default_value;
    CHECK(k->count == 3 && k->ints[0] == INT64_C(9007199254740993) && k->ints[1] == -1 && k->ints[2] == 1);
    CHECK(b->count == 2 && b->bools[0] && !b->bools[1]);
    CHECK(f->count == 2 && f->numbers[0] == 1 && f->numbers[1] == 2.5);
    CHECK(td_op_remove(op) == 0);
    CHECK_FAILS(td_op_define("test::lists(Tensor x, int[] k=[1.5]) -> Tensor"), TD_E_RUNTIME, "an integer was expected");
    CHECK_FAILS(td_op_define("test::lists(Tensor x, Tensor[] k=[1]) -> Tensor"), TD_E_RUNTIME, "an empty list was expected");
}

/* ---- traits */

static int calls;
static int negative(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    calls++;
    results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_neg(arguments[0].tensor)};
    return results[0].tensor ? 0 : -1;
}
static td_tensor *relu_of_test(td_tensor *x)
{
    td_value argument = {.kind = TD_VALUE_TENSOR, .tensor = x}, result;
    return td_op_call(td_op_find("test::relu"), &argument, &result) == 0 ? result.tensor : NULL;
}

TD_TEST(an_operator_has_the_traits_that_it_is_given_and_none_of_atens)
{
    const td_op *op = TRY(td_op_define("test::relu(Tensor(a) x) -> Tensor(a)"));
    int registered = td_register_default("test::relu", negative, NULL);
    const td_op_info *info = td_op_describe(op);
    bool none = !info->traits->batch && !info->traits->tags && !info->traits->autocast;
    AUTO x = table(3, 2);
    calls = 0;
    AUTO one_by_one = x ? mapped(x, relu_of_test) : NULL;
    int before = calls;
    td_op_traits traits = {.size = sizeof traits, .batch = "pointwise", .tags = "pointwise"};
    int set = td_op_set_traits(op, &traits);
    calls = 0;
    AUTO at_once = x ? mapped(x, relu_of_test) : NULL;
    bool shown = !strcmp(info->traits->batch ? info->traits->batch : "", "pointwise") && info->arguments[0].alias == 'a' && info->results[0].alias == 'a';
    traits.batch = "pointwise(sideways)";
    bool refused = true;
    if (one_by_one && at_once && set == 0) {        /* else an error is pending, which this one would hide */
        refused = td_op_set_traits(op, &traits) == -1 && strstr(td_error_message(), "'sideways' is no mode of pointwise");
        td_error_clear();
        traits.batch = NULL;
        for (int i = 0; i < 2; i++) {
            traits.shown = i ? NULL : "y=relu", traits.spelled = i ? "=x" : NULL;
            refused &= td_op_set_traits(op, &traits) == -1 && strstr(td_error_message(), "is not an argument of relu");
            td_error_clear();
        }
        traits.shown = "x=relu.y", traits.spelled = "x=self";
        set = td_op_set_traits(op, &traits);
        shown &= set == 0 && !strcmp(info->traits->batch, "pointwise") && !strcmp(info->traits->spelled, "x=self");
    }
    CHECK_EQ(td_op_remove(op), 0);
    CHECK(registered == 0 && set == 0 && none && shown && refused);
    CHECK_NEAR(number(one_by_one), -15, 1e-9);
    CHECK_NEAR(number(at_once), -15, 1e-9);
    CHECK_EQ(before, 3);
    CHECK_EQ(calls, 1);
}

/* What it is passed: the bits of a and the dtypes; the result is the sum of both, in float32. */
static bool conjugated;
static td_dtype passed[2];
static int seen(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    calls++;
    td_tensor *a = arguments[0].tensor, *b = arguments[1].tensor;
    conjugated = td_tensor_is_conj(a);
    passed[0] = td_tensor_dtype(a), passed[1] = td_tensor_dtype(b);
    results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = td_add(a, b)};
    return results[0].tensor ? 0 : -1;
}
static td_tensor *seen_of(td_tensor *a, td_tensor *b)
{
    td_value arguments[] = {{.kind = TD_VALUE_TENSOR, .tensor = a}, {.kind = TD_VALUE_TENSOR, .tensor = b}}, result;
    return a && b && td_op_call(td_op_find("test::seen"), arguments, &result) == 0 ? result.tensor : NULL;
}

TD_TEST(flags_of_an_entry_are_traits_of_an_operator_from_outside)
{
    const td_op *op = TRY(td_op_define("test::seen(Tensor a, Tensor b) -> Tensor"));
    int registered = td_register_default("test::seen", seen, NULL);
    td_op_traits traits = {.size = sizeof traits, .flags = TD_OP_PROMOTES | TD_OP_LINEAR | TD_OP_KNOWS_BITS};
    AUTO x = td_ones(1, (int64_t[]){2}, TD_C64, TD_DEVICE_NONE);
    AUTO lazy = x ? td_conj(x) : NULL;
    AUTO wide = td_ones(1, (int64_t[]){2}, TD_C128, TD_DEVICE_NONE);
    AUTO computed = seen_of(lazy, wide);
    bool plain = !conjugated && passed[0] == TD_C64 && passed[1] == TD_C128;
    int set = registered == 0 ? td_op_set_traits(op, &traits) : -1;
    bool shown = (td_op_describe(op)->flags & TD_OP_TRAITS) == TD_OP_TRAITS;
    AUTO marked = seen_of(lazy, wide);
    bool marks = conjugated;
    int rules = td_set_promotion(TD_PROMOTION_ARRAY_API);
    AUTO promoted = seen_of(x, wide);
    int rules_back = td_set_promotion(TD_PROMOTION_PYTORCH);
    bool same = passed[0] == TD_C128 && passed[1] == TD_C128;
    bool refused = true;
    if (computed && marked && promoted && set == 0) {       /* else an error is pending, which this one would hide */
        traits.flags = TD_OP_VIEW;
        refused = td_op_set_traits(op, &traits) == -1 && strstr(td_error_message(), "follow from the schema of seen");
        td_error_clear();
    }
    CHECK_EQ(td_op_remove(op), 0);
    CHECK(computed && marked && promoted && plain && shown && marks && same && refused && set == 0 && rules == 0 && rules_back == 0);
}

/* ---- a device in this program: its memory is the C library's */

static int live, copies;
static int count(void) { return 2; }
static void *take(td_device d, size_t n)
{
    (void)d;
    __atomic_fetch_add(&live, 1, __ATOMIC_RELAXED);
    return malloc(n);
}
static void give(td_device d, void *p, size_t n)
{
    (void)d, (void)n;
    __atomic_fetch_sub(&live, 1, __ATOMIC_RELAXED);
    free(p);
}
static int copy(td_device to_device, void *to, td_device from_device, const void *from, size_t n)
{
    (void)to_device, (void)from_device;
    __atomic_fetch_add(&copies, 1, __ATOMIC_RELAXED);
    memcpy(to, from, n);
    return 0;
}
static int start(int type) { return td_register_fallback(TD_KEY_DENSE, type, td_cpu_fallback, NULL); }
static const td_device_library plain = {
    .abi = TD_DEVICE_ABI, .size = sizeof plain, .name = "plain", .count = count, .start = start, .alloc = take, .free = give, .copy = copy,
};

static int plain_type(void)
{
    int type = td_device_find("plain");
    return type >= 0 ? type : td_device_register(&plain);
}
static td_tensor *moved(td_tensor *x, td_device device)
{
    return td_to_device(x, device, td_tensor_dtype(x), false, false, TD_MEMORY_FORMAT_NONE);
}

TD_TEST(operators_run_on_a_device_by_the_cpu)
{
    int type = TRY(plain_type());
    const td_device there = {(int8_t)type, 1};
    {
        AUTO x = TRY(table(3, 4));
        AUTO y = TRY(moved(x, there));
        CHECK_EQ(td_tensor_device(y).index, 1);
        AUTO transposed = TRY(td_transpose_int(y, 0, 1));
        AUTO part = TRY(td_narrow(transposed, 0, 1, 2));
        AUTO e = TRY(td_exp(part));
        AUTO scaled = TRY(td_mul(e, e));
        AUTO both = TRY(td_cat(2, (td_tensor *[]){part, scaled}, 0));
        CHECK(td_mul_scalar_(part, td_int(1)) == 0);
        AUTO back = TRY(moved(both, CPU));
        CHECK_EQ(td_tensor_sizes(back)[0], 4);
        AUTO sum = TRY(td_sum(y));
        td_scalar value;
        CHECK_EQ(td_tensor_item(sum, &value), 0);
        CHECK_NEAR(value.d, 66, 1e-9);
        AUTO other = TRY(moved(x, (td_device){(int8_t)type, 0}));
        CHECK_FAILS(td_add(other, y), TD_E_RUNTIME, "plain:0 and plain:1");
        CHECK_FAILS(moved(x, (td_device){(int8_t)type, 2}), TD_E_RUNTIME, "there are 2");
    }
    CHECK_EQ(__atomic_load_n(&live, __ATOMIC_RELAXED), 0);
}

TD_TEST(a_backward_pass_over_devices_gives_the_cpus_gradients)
{
    int type = TRY(plain_type());
    AUTO x = TRY(line(4));
    CHECK_EQ(td_set_requires_grad(x, true), 0);
    {
        AUTO a = TRY(moved(x, (td_device){(int8_t)type, 0}));
        AUTO b = TRY(moved(x, (td_device){(int8_t)type, 1}));
        AUTO aa = TRY(td_mul(a, a));
        AUTO bb = TRY(td_exp(b));
        AUTO back = TRY(moved(bb, (td_device){(int8_t)type, 0}));
        AUTO loss = TRY(td_mul(aa, back));
        AUTO sum = TRY(td_sum(loss));
        CHECK_EQ(td_backward(1, &sum, NULL, false, false), 0);
    }
    AUTO e = TRY(td_exp(x));                        /* d x^2 e^x = (x^2 + 2x) e^x */
    AUTO detached = TRY(td_detach(e));
    AUTO more = TRY(td_add_scalar(x, td_int(2), td_int(1)));
    AUTO factor = TRY(td_mul(more, x));
    AUTO expected = TRY(td_mul(factor, detached));
    CHECK(td_grad(x) != NULL);
    CHECK_NEAR(number(td_grad(x)), number(expected), 1e-9);
    CHECK_EQ(td_set_grad(x, NULL), 0);
}

/* ---- layouts and dtypes */

static void drop_fields(void *fields) { td_tensor_release(fields); }
static td_tensor *dense(td_tensor *x) { return td_diag_embed(td_tensor_fields(x), 0, -2, -1); }
static const td_layout_kind kind = {.size = sizeof kind, .name = "test_diagonal", .destroy = drop_fields, .to_dense = dense};

static int no_parts(const td_tensor *x, td_layout_part *parts) { return (void)x, (void)parts, 0; }

TD_TEST(a_layout_has_its_fields_and_refuses_what_it_has_no_kernel_for)
{
    static int layout;
    if (!layout)
        layout = TRY(td_layout_register(&kind));
    AUTO diagonal = TRY(line(3));
    td_tensor *made = td_tensor_with_layout(layout, td_tensor_retain(diagonal), 2, (int64_t[]){3, 3}, TD_F64, CPU);
    if (!made)
        td_tensor_release(diagonal);
    AUTO x = TRY(made);
    CHECK_EQ(td_tensor_layout(x), layout);
    CHECK(td_tensor_fields(x) == diagonal && td_tensor_storage(x) == NULL);
    char *text = TRY(td_tensor_str(x));
    bool shown = strstr(text, "test_diagonal") && strstr(text, "[0., 0., 2.]");
    td_string_free(text);
    CHECK(shown);
    AUTO alias = TRY(td_detach(x));
    CHECK(td_tensor_fields(alias) == diagonal);
    CHECK_FAILS(td_exp(x), TD_E_NOT_IMPLEMENTED, "test_diagonal");
    CHECK_FAILS(td_transpose_int(x, 0, 1), TD_E_NOT_IMPLEMENTED);
    CHECK_FAILS(td_layout_register(&kind), TD_E_VALUE, "already");
}

static int doubled(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)op, (void)keys, (void)context;
    td_tensor *x = arguments[0].tensor, *fields = td_mul_scalar(td_tensor_fields(x), td_int(2));
    td_tensor *made = fields ? td_tensor_with_layout(td_tensor_layout(x), fields, 2, td_tensor_sizes(x), TD_F64, CPU) : NULL;
    if (!made)
        return td_tensor_release(fields), -1;
    results[0] = (td_value){.kind = TD_VALUE_TENSOR, .tensor = made};
    return 0;
}

TD_TEST(one_kernel_of_a_layout_serves_all_forms_of_an_operator)
{
    const int layout = td_layout_find("test_diagonal") < 0 ? TRY(td_layout_register(&kind)) : td_layout_find("test_diagonal");
    const td_key key = td_layout_key(layout);
    CHECK_FAILS(td_layout_register_forms("aten::nobody", key, TD_CPU, doubled, NULL), TD_E_VALUE, "aten::nobody");
    CHECK_FAILS(td_layout_register_forms("aten::add_.Tensor", key, TD_CPU, doubled, NULL), TD_E_VALUE, "makes no new tensor");
    CHECK_FAILS(td_layout_register_forms("aten::max.dim", key, TD_CPU, doubled, NULL), TD_E_VALUE, "makes no new tensor");
    CHECK_EQ(td_layout_register_forms("aten::cumsum", key, TD_CPU, doubled, NULL), 0);
    AUTO diagonal = TRY(line(3));
    td_tensor *over = td_tensor_with_layout(layout, td_tensor_retain(diagonal), 2, (int64_t[]){3, 3}, TD_F64, CPU);
    if (!over)
        td_tensor_release(diagonal);
    AUTO x = TRY(over);
    AUTO out = TRY(td_zeros(2, (int64_t[]){3, 3}, TD_F64, CPU));
    AUTO made = TRY(td_cumsum(x, 0, TD_DTYPE_NONE));
    CHECK_EQ(td_cumsum_(x, 0, TD_DTYPE_NONE), 0);
    CHECK_EQ(td_cumsum_out(made, 0, TD_DTYPE_NONE, out), 0);
    CHECK_EQ(((double *)td_tensor_data(td_tensor_fields(x)))[2], 4);
    CHECK_EQ(((double *)td_tensor_data(out))[8], 8);
    CHECK_EQ(td_layout_register_forms("aten::cumsum", key, TD_CPU, NULL, NULL), 0);
    CHECK_FAILS(td_cumsum(x, 0, TD_DTYPE_NONE), TD_E_NOT_IMPLEMENTED, "aten::cumsum");
    CHECK_FAILS(td_cumsum_(x, 0, TD_DTYPE_NONE), TD_E_NOT_IMPLEMENTED, "aten::cumsum_");
}

/* Five keys are for layouts from outside, of which this program has taken two; what shares a key takes none. */
TD_TEST(layouts_are_refused_by_what_is_wrong_with_them)
{
    static const td_layout_kind sized = {.name = "test_old"}, half = {.size = sizeof half, .name = "test_half", .parts = no_parts},
                                sparse = {.size = sizeof sparse, .name = "sparse_csr"},
                                orphan = {.size = sizeof orphan, .name = "test_orphan", .family = "test_nobody"};
    CHECK_FAILS(td_layout_register(&sized), TD_E_VALUE, "size");
    CHECK_FAILS(td_layout_register(&half), TD_E_VALUE, "go together");
    CHECK_FAILS(td_layout_register(&sparse), TD_E_VALUE, "already");
    CHECK_FAILS(td_layout_register(&orphan), TD_E_VALUE, "test_nobody");
    static td_layout_kind many[9];
    static char           names[9][16];
    static int            first;
    int                   made = 0;
    for (int i = 0; i < 9 && !first; i++) {
        snprintf(names[i], sizeof names[i], "test_many%d", i);
        many[i] = (td_layout_kind){.size = sizeof *many, .name = names[i]};
        if (td_layout_register(&many[i]) >= 0)
            made++;
        else
            CHECK_FAILS(td_layout_register(&many[i]), TD_E_RUNTIME, "no room");
    }
    CHECK(first || made >= 3);
    first = 1;
    static const td_layout_kind shares = {.size = sizeof shares, .name = "test_shares", .family = "test_many0"};
    static int layout;
    if (!layout)
        layout = TRY(td_layout_register(&shares));
    CHECK_EQ(td_layout_key(layout), td_layout_key(td_layout_find("test_many0")));
    CHECK_EQ(td_layout_find("test_nobody"), -1);
}

static void load(float *to, const void *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)((const int8_t *)from)[i] / 4;
}
static void store(void *to, const float *from, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        ((int8_t *)to)[i] = (int8_t)lrintf(from[i] * 4);
}
static const td_dtype_kind quarters = {"quarters", "Quarters", 1, load, store};

TD_TEST(a_dtype_is_computed_on_in_float32)
{
    static td_dtype dtype;
    if (!dtype)
        dtype = td_dtype_register(&quarters);
    CHECK(dtype >= TD_DTYPE_A);
    AUTO x = TRY(line(5));
    AUTO q = TRY(td_to(x, dtype));
    AUTO half = TRY(td_mul_scalar(q, td_float(0.5)));
    CHECK_EQ(td_tensor_dtype(half), dtype);
    AUTO wide = TRY(td_add(half, x));
    CHECK_EQ(td_tensor_dtype(wide), TD_F64);
    CHECK_NEAR(number(wide), 15, 1e-9);
    CHECK_EQ(td_promote_types(dtype, TD_I64), dtype);
    CHECK_EQ(td_promote_types(TD_F16, dtype), TD_F16);
    CHECK_FAILS(td_matmul(q, q), TD_E_NOT_IMPLEMENTED, "dtype from outside");
    CHECK_FAILS((int)td_dtype_register(&quarters), TD_E_VALUE, "already");
}
