/* Formulas of operators: found, read step by step, shown as text, printed as kernels. */
#include "td_test.h"
#include <tede/formula.h>

static const td_formula *formula_of(const char *name) { return td_formula_of(td_op_find(name), NULL); }

TD_TEST(a_formula_is_postfix)
{
    const td_formula *f = formula_of("aten::silu");      /* self / (1 + exp(-self)) */
    CHECK(f != NULL);
    static const td_formula_code expected[] = {TD_STEP_OPERAND, TD_STEP_NUMBER, TD_STEP_OPERAND, TD_STEP_NEGATE, TD_STEP_CALL, TD_STEP_ADD, TD_STEP_DIV};
    const uint8_t *at = td_formula_code_of(f, TD_FORMULA_DEFAULT);
    td_formula_step step;
    int n = 0;
    for (; td_formula_next(f, &at, &step); n++) {
        CHECK(n < 7);
        CHECK_EQ(step.code, expected[n]);
        CHECK(step.code != TD_STEP_NUMBER || step.number == 1);
        CHECK(step.code != TD_STEP_CALL || (step.arity == 1 && !strcmp(step.name, "exp")));
    }
    CHECK_EQ(n, 7);
    CHECK(!td_formula_next(f, &at, &step));
}

TD_TEST(a_formula_says_what_it_reads_and_gives)
{
    const td_formula *f = formula_of("aten::add.Tensor"), *compared = formula_of("aten::lt.Tensor"), *chosen = formula_of("aten::where.self");
    int length;
    CHECK_EQ(f->n_operands, 2);
    CHECK_EQ(f->n_parameters, 1);
    const char *name = td_formula_name(f, 2, &length);
    CHECK(name && length == 5 && !strncmp(name, "alpha", 5));
    CHECK(td_formula_name(f, 3, &length) == NULL && td_formula_name(f, -1, &length) == NULL);
    CHECK_EQ(f->promotion, TD_FORMULA_COMMON);
    CHECK_EQ(f->result, TD_FORMULA_SAME);
    CHECK(f->dtypes >> TD_BOOL & 1 && f->dtypes >> TD_C128 & 1);
    CHECK_EQ(formula_of("aten::exp")->promotion, TD_FORMULA_TO_FLOAT);
    CHECK(!(formula_of("aten::exp")->dtypes >> TD_I64 & 1));
    CHECK_EQ(compared->result, TD_FORMULA_TRUTH);
    CHECK_EQ(formula_of("aten::abs")->result, TD_FORMULA_REAL);
    CHECK_EQ(chosen->masks, 1);
    CHECK(formula_of("aten::nextafter")->own_halves);
}

TD_TEST(what_has_no_formula_gives_none)
{
    CHECK(td_formula_of(NULL, NULL) == NULL);
    CHECK(formula_of("aten::mm") == NULL);
    const td_op *exp = td_op_find("aten::exp"), *gelu = td_op_find("aten::gelu");
    CHECK(td_formula_gradient(exp, "self") != NULL);
    CHECK(td_formula_gradient(exp, "other") == NULL);
    CHECK(td_formula_gradient(gelu, "self") == NULL);
    CHECK(td_formula_tangent(NULL, "self") == NULL);
    CHECK(td_formula_choices(exp) == NULL);
    CHECK_STR(td_formula_choices(gelu), "none tanh");
    CHECK(td_formula_of(gelu, "tanh") != td_formula_of(gelu, "none"));
    CHECK(td_formula_of(gelu, "another") == NULL);
    CHECK_EQ(td_error_code(), TD_OK);
}

TD_TEST(a_formula_has_a_text_for_each_kind_of_dtypes)
{
    const td_formula *f = formula_of("aten::isposinf");
    char *text = TRY(td_formula_text(f, TD_FORMULA_DEFAULT));
    CHECK_STR(text, "self == INF");
    td_formula_text_free(text);
    text = TRY(td_formula_text(f, TD_FORMULA_INT));
    CHECK_STR(text, "self != self");
    td_formula_text_free(text);
    td_formula_text_free(NULL);
    CHECK_FAILS(td_formula_text(NULL, TD_FORMULA_DEFAULT), TD_E_VALUE, "no formula");
}

static td_formula_kernel exp_of_sum(td_formula_call calls[2])
{
    static const int operands[2] = {0, 1}, sum[1] = {-1};
    static const td_dtype inputs[2] = {TD_F32, TD_BF16};
    static const td_formula_output outputs[2] = {{1, TD_F32}, {0, TD_F16}};
    calls[0] = (td_formula_call){formula_of("aten::add.Tensor"), TD_F32, operands};
    calls[1] = (td_formula_call){formula_of("aten::exp"), TD_F32, sum};
    return (td_formula_kernel){.name = "exp_of_sum", .n_inputs = 2, .n_calls = 2, .n_outputs = 2, .inputs = inputs, .calls = calls, .outputs = outputs};
}

TD_TEST(joined_formulas_are_one_kernel_in_each_dialect)
{
    static const char *const heads[TD_DIALECTS] = {"void exp_of_sum(int64_t n, char *const *runs", "KERNEL exp_of_sum(BUFFER(run0), BUFFER(run1), ",
                                                   "#define KERNEL extern \"C\" __global__ void\n", "VALUES(values_of_exp_of_sum, values))\n{\n    UNPACK("};
    td_formula_call calls[2];
    td_formula_kernel kernel = exp_of_sum(calls);
    for (int d = 0; d < TD_DIALECTS; d++) {
        char *text = TRY(td_formula_print((td_dialect)d, 1, &kernel, NULL));
        bool good = strstr(text, heads[d]) && strstr(text, "td_exp_f32(x1_0)") && strstr(text, d == TD_DIALECT_C ? "td_bf16_to_f32(input1[i])" : "td_bf16_to_f32(load1[u])") && !strstr(text, "td_tanh");
        td_formula_text_free(text);
        CHECK(good);
        CHECK(td_dialect_options((td_dialect)d) != NULL);
    }
    CHECK(td_dialect_options(TD_DIALECTS) == NULL);
}

TD_TEST(a_text_of_the_callers_brings_along_what_it_calls)
{
    char *text = TRY(td_formula_print(TD_DIALECT_CUDA, 0, NULL, "__device__ double f(double x) { return td_digamma_f64(x); }\n"));
    bool good = strstr(text, "td_digamma_f64(double x)\n{") && strstr(text, "td_log_f64(double x)\n{") && !strstr(text, "td_tanh");
    const char *end = strstr(text, "return td_digamma_f64(x); }\n");
    good = good && end && !end[28];
    td_formula_text_free(text);
    CHECK(good);
    CHECK_FAILS(td_formula_print(TD_DIALECT_OPENCL, 0, NULL, "td_airy_ai_f64"), TD_E_NOT_IMPLEMENTED, "long double");
}

TD_TEST(a_kernel_that_cannot_be_is_an_error)
{
    td_formula_call calls[2];
    td_formula_kernel kernel = exp_of_sum(calls);
    const td_formula_output nowhere = {2, TD_F32};
    CHECK_FAILS(td_formula_print(TD_DIALECTS, 1, &kernel, NULL), TD_E_VALUE, "no dialect");
    kernel.outputs = &nowhere, kernel.n_outputs = 1;
    CHECK_FAILS(td_formula_print(TD_DIALECT_C, 1, &kernel, NULL), TD_E_VALUE, "isn't there");
    kernel = exp_of_sum(calls);
    calls[0].operands = (const int[]){0, -1};                    /* its own result */
    CHECK_FAILS(td_formula_print(TD_DIALECT_C, 1, &kernel, NULL), TD_E_VALUE, "isn't there");
    kernel = exp_of_sum(calls);
    calls[1].dtype = TD_I64;
    CHECK_FAILS(td_formula_print(TD_DIALECT_C, 1, &kernel, NULL), TD_E_NOT_IMPLEMENTED, "int64");
    kernel = exp_of_sum(calls);
    calls[0].formula = formula_of("aten::lt.Tensor"), calls[0].dtype = TD_C64;
    CHECK_FAILS(td_formula_print(TD_DIALECT_OPENCL, 1, &kernel, NULL), TD_E_NOT_IMPLEMENTED, "complex64");
}
