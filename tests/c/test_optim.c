/* Optimizers from C against their formulas in double precision. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <tede/autograd.h>
#include <tede/ops.h>
#include <tede/optim.h>

static void release_optimizer(td_optimizer **o) { td_optimizer_release(*o); }
#define AUTO_OPTIMIZER __attribute__((cleanup(release_optimizer)))

static td_tensor *parameter(double value)
{
    td_tensor *x = td_zeros(0, NULL, TD_F64, CPU);
    if (!x)
        return NULL;
    *(double *)td_tensor_data(x) = value;
    if (td_set_requires_grad(x, true) == 0)
        return x;
    td_tensor_release(x);
    return NULL;
}
static double value_of(td_tensor *x) { return *(double *)td_tensor_data(x); }

/* Gradient of x^2 / 2: x itself. */
static int take_step(td_optimizer *o, td_tensor *x)
{
    TD_AUTO td_tensor *square = td_mul(x, x);
    TD_AUTO td_tensor *loss = td_mul_scalar(square, td_float(0.5));
    if (!loss || td_optimizer_zero_grad(o) != 0 || td_backward(1, &loss, NULL, false, false) != 0)
        return -1;
    return td_optimizer_step(o);
}

TD_TEST(sgd_follows_its_formula)
{
    for (int variant = 0; variant < 4; variant++) {
        TD_AUTO td_tensor *x = TRY(parameter(3));
        td_sgd_options p = td_sgd_defaults();
        p.lr = 0.1, p.weight_decay = 0.01 * variant, p.momentum = variant ? 0.9 : 0, p.nesterov = variant == 2;
        p.dampening = variant == 3 ? 0.5 : 0, p.maximize = variant == 1;
        AUTO_OPTIMIZER td_optimizer *o = TRY(td_sgd_new(1, &x, &p));
        double expected = 3, v = 0;
        for (int step = 0; step < 5; step++) {
            TRY(take_step(o, x));
            double g = (p.maximize ? -expected : expected) + p.weight_decay * expected;
            v = step ? p.momentum * v + (1 - p.dampening) * g : g;
            expected -= p.lr * (!p.momentum ? g : p.nesterov ? g + p.momentum * v : v);
            CHECK_NEAR(value_of(x), expected, 1e-12);
        }
        CHECK((td_optimizer_state(o, 0, "momentum_buffer") != NULL) == (p.momentum != 0));
        CHECK(td_optimizer_state(o, 0, "exp_avg") == NULL && td_optimizer_state(o, 1, "momentum_buffer") == NULL);
    }
}

TD_TEST(adam_and_adamw_follow_their_formulas)
{
    for (int variant = 0; variant < 4; variant++) {
        bool decoupled = variant & 1;
        TD_AUTO td_tensor *x = TRY(parameter(3));
        td_adamw_options p = td_adamw_defaults();
        p.lr = 0.1, p.weight_decay = 0.1, p.amsgrad = variant & 2;
        AUTO_OPTIMIZER td_optimizer *o = TRY((decoupled ? td_adamw_new : td_adam_new)(1, &x, &p));
        double expected = 3, m = 0, v = 0, top = 0;
        for (int step = 1; step <= 5; step++) {
            TRY(take_step(o, x));
            double g = expected + (decoupled ? 0 : p.weight_decay * expected);
            expected *= decoupled ? 1 - p.lr * p.weight_decay : 1;
            m = p.beta1 * m + (1 - p.beta1) * g, v = p.beta2 * v + (1 - p.beta2) * g * g, top = fmax(top, v);
            double size = sqrt((p.amsgrad ? top : v) / (1 - pow(p.beta2, step))) + p.eps;
            expected -= p.lr * m / (1 - pow(p.beta1, step)) / size;
            CHECK_NEAR(value_of(x), expected, 1e-12);
        }
        CHECK_EQ(*(float *)td_tensor_data(td_optimizer_state(o, 0, "step")), 5);
    }
}

TD_TEST(an_optimizer_goes_on_from_saved_state)
{
    TD_AUTO td_tensor *x = TRY(parameter(3));
    TD_AUTO td_tensor *y = TRY(parameter(3));
    AUTO_OPTIMIZER td_optimizer *a = TRY(td_adamw_new(1, &x, NULL));
    AUTO_OPTIMIZER td_optimizer *b = TRY(td_adamw_new(1, &y, NULL));
    TRY(take_step(a, x));
    *(double *)td_tensor_data(y) = value_of(x);
    static const char *const names[] = {"step", "exp_avg", "exp_avg_sq"};
    for (int i = 0; i < 3; i++)
        TRY(td_optimizer_set_state(b, 0, names[i], td_optimizer_state(a, 0, names[i])));
    TRY(td_optimizer_set_lr(a, 0.5));
    TRY(td_optimizer_set_lr(b, 0.5));
    TRY(take_step(a, x));
    TRY(take_step(b, y));
    CHECK(value_of(x) == value_of(y) && td_optimizer_lr(a) == 0.5);
    TD_AUTO td_tensor *wrong = TRY(td_zeros(1, (int64_t[]){2}, TD_F64, CPU));
    CHECK_FAILS(td_optimizer_set_state(a, 0, "exp_avg", wrong), TD_E_RUNTIME, "2 elements instead of 1");
    CHECK_FAILS(td_optimizer_set_state(a, 0, "nothing", wrong), TD_E_KEY, "'nothing'");
    CHECK_FAILS(td_optimizer_set_state(a, 1, "exp_avg", wrong), TD_E_KEY, "parameter 1 among 1");
    CHECK_FAILS(td_optimizer_set_lr(a, -1), TD_E_VALUE, "Invalid learning rate: -1");
}

TD_TEST(parameters_without_gradient_stay_as_they_are)
{
    TD_AUTO td_tensor *x = TRY(parameter(3));
    TD_AUTO td_tensor *y = TRY(parameter(4));
    AUTO_OPTIMIZER td_optimizer *o = TRY(td_adamw_new(2, (td_tensor *[]){x, y}, NULL));
    TRY(take_step(o, x));
    CHECK(value_of(y) == 4 && value_of(x) < 3 && !td_optimizer_state(o, 1, "step"));
}

TD_TEST(what_can_not_be_optimized_is_refused)
{
    TD_AUTO td_tensor *x = TRY(parameter(3));
    TD_AUTO td_tensor *y = TRY(td_mul(x, x));
    td_adamw_options p = td_adamw_defaults();
    CHECK_FAILS(td_sgd_new(0, NULL, NULL), TD_E_VALUE, "empty parameter list");
    CHECK_FAILS(td_sgd_new(1, &y, NULL), TD_E_VALUE, "can't optimize a non-leaf Tensor");
    CHECK_FAILS(td_sgd_new(2, (td_tensor *[]){x, x}, NULL), TD_E_VALUE, "0 and 1 are the same");
    CHECK_FAILS(td_sgd_new(1, (td_tensor *[]){NULL}, NULL), TD_E_TYPE, "parameter 0 is NULL");
    p.beta2 = 1;
    CHECK_FAILS(td_adamw_new(1, &x, &p), TD_E_VALUE, "Invalid beta parameter at index 1: 1");
    CHECK_FAILS(td_sgd_new(1, &x, &(td_sgd_options){.lr = NAN}), TD_E_VALUE, "Invalid learning rate: nan");
    CHECK_FAILS(td_sgd_new(1, &x, &(td_sgd_options){.lr = 1, .nesterov = true}), TD_E_VALUE, "Nesterov");
}

TD_TEST(long_gradients_are_cut_to_length)
{
    TD_AUTO td_tensor *x = TRY(parameter(3));
    TD_AUTO td_tensor *y = TRY(parameter(4));
    TD_AUTO td_tensor *z = TRY(parameter(5));
    TD_AUTO td_tensor *copy = TRY(td_zeros_like(y));
    *(double *)td_tensor_data(copy) = 4;
    TRY(td_set_grad(y, copy));
    TD_AUTO td_tensor *three = TRY(td_zeros_like(x));
    *(double *)td_tensor_data(three) = 3;
    TRY(td_set_grad(x, three));
    double norm;
    td_tensor *all[] = {x, y, z};
    TRY(td_clip_grad_norm_(3, all, 10, &norm));
    CHECK(norm == 5 && value_of(td_grad(x)) == 3);
    TRY(td_clip_grad_norm_(3, all, 1, NULL));
    CHECK_NEAR(value_of(td_grad(x)), 0.6, 1e-6);
    CHECK_NEAR(value_of(td_grad(y)), 0.8, 1e-6);
}
