/* Optimizers for C programs (SGD, Adam and others) over lists of parameters: the state of a step, and the call of the fused kernel.
 *
 * One struct serves all kinds: a kind says which states a parameter has, under PyTorch's names, and how one
 * parameter is stepped.  States are made at a parameter's first gradient. */
#include "calls_optim_optim.h"
#include <inttypes.h>
#include <math.h>
#include <tede/autograd.h>
#include <tede/optim.h>
#include "base/base.h"

enum { MOST = 4 };
enum { MOMENTUM };
enum { STEP, MEAN, SQUARE, LARGEST };

typedef struct slot {
    td_tensor *parameter, *state[MOST];
} slot;

typedef struct kind {
    const char *names[MOST];
    int (*step)(td_optimizer *o, slot *s, td_tensor *grad);
} kind;

struct td_optimizer {
    const kind *kind;
    union {
        td_sgd_options  sgd;
        td_adam_options adam;
    };
    double *lr;             /* in the options */
    int64_t n;
    slot    slots[];
};

/* ---- one parameter's step */

static int step_sgd(td_optimizer *o, slot *s, td_tensor *grad)
{
    const td_sgd_options *p = &o->sgd;
    bool first = p->momentum != 0 && !s->state[MOMENTUM];
    if (first && !(s->state[MOMENTUM] = td_zeros_like(grad)))
        return -1;
    int status = td__fused_sgd_(1, &s->parameter, 1, &grad, p->momentum != 0, &s->state[MOMENTUM], p->weight_decay,
                                p->momentum, p->lr, p->dampening, p->nesterov, p->maximize, first, TD_NONE, TD_NONE);
    if (status != 0 && first) {         /* or the next try would not be the first */
        td_tensor_release(s->state[MOMENTUM]);
        s->state[MOMENTUM] = NULL;
    }
    return status;
}

static int adam(td_optimizer *o, slot *s, td_tensor *grad, __typeof__(td__fused_adam_) *fused)
{
    const td_adam_options *p = &o->adam;
    for (int i = MEAN; i <= (p->amsgrad ? LARGEST : SQUARE); i++)
        if (!s->state[i] && !(s->state[i] = td_zeros_like(s->parameter)))
            return -1;
    if (!s->state[STEP] && !(s->state[STEP] = td_zeros(0, NULL, TD_F32, (td_device){TD_CPU, -1})))
        return -1;
    float *count = td_tensor_data(s->state[STEP]);
    if (!count)
        return -1;
    *count += 1;
    int status = fused(1, &s->parameter, 1, &grad, 1, &s->state[MEAN], 1, &s->state[SQUARE], p->amsgrad,
                       &s->state[LARGEST], 1, &s->state[STEP], p->lr, p->beta1, p->beta2, p->weight_decay, p->eps,
                       p->amsgrad, p->maximize, TD_NONE, TD_NONE);
    *count -= status != 0;
    return status;
}
static int step_adam(td_optimizer *o, slot *s, td_tensor *grad) { return adam(o, s, grad, td__fused_adam_); }
static int step_adamw(td_optimizer *o, slot *s, td_tensor *grad) { return adam(o, s, grad, td__fused_adamw_); }

static const kind sgd_kind = {{"momentum_buffer"}, step_sgd};
static const kind adam_kind = {{"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, step_adam};
static const kind adamw_kind = {{"step", "exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, step_adamw};

/* ---- making */

static size_t bytes_for(int64_t n) { return sizeof(td_optimizer) + (size_t)n * sizeof(slot); }

static td_optimizer *new(const kind *kind, int64_t n, td_tensor *const *parameters)
{
    if (n <= 0)
        return td_fail(TD_E_VALUE, "optimizer got an empty parameter list");
    for (int64_t i = 0; i < n; i++) {
        if (!parameters[i])
            return td_error_code() == TD_OK ? td_fail(TD_E_TYPE, "optimizer: parameter %" PRId64 " is NULL", i) : NULL;
        if (!td_is_leaf(parameters[i]))
            return td_fail(TD_E_VALUE, "can't optimize a non-leaf Tensor (parameter %" PRId64 ")", i);
        for (int64_t j = 0; j < i; j++)
            if (parameters[i] == parameters[j])
                return td_fail(TD_E_VALUE, "optimizer: parameters %" PRId64 " and %" PRId64 " are the same", j, i);
    }
    td_optimizer *o = td_mem_alloc_zero(bytes_for(n));
    if (!o)
        return NULL;
    o->kind = kind, o->n = n;
    for (int64_t i = 0; i < n; i++)
        o->slots[i].parameter = td_tensor_retain(parameters[i]);
    return o;
}

static int check(bool good, const char *what, double value)
{
    return good ? 0 : td_error(TD_E_VALUE, "Invalid %s: %g", what, value);
}

td_optimizer *td_sgd_new(int64_t n, td_tensor *const *parameters, const td_sgd_options *options)
{
    td_sgd_options p = options ? *options : td_sgd_defaults();
    if (check(p.lr >= 0, "learning rate", p.lr) || check(p.momentum >= 0, "momentum value", p.momentum) ||
        check(p.weight_decay >= 0, "weight_decay value", p.weight_decay))
        return NULL;
    if (p.nesterov && (p.momentum == 0 || p.dampening != 0))
        return td_fail(TD_E_VALUE, "Nesterov momentum requires a momentum and zero dampening");
    td_optimizer *o = new(&sgd_kind, n, parameters);
    if (o)
        o->sgd = p, o->lr = &o->sgd.lr;
    return o;
}

static td_optimizer *adam_new(const kind *kind, int64_t n, td_tensor *const *parameters, td_adam_options p)
{
    if (check(p.lr >= 0, "learning rate", p.lr) || check(p.eps >= 0, "epsilon value", p.eps) ||
        check(p.beta1 >= 0 && p.beta1 < 1, "beta parameter at index 0", p.beta1) ||
        check(p.beta2 >= 0 && p.beta2 < 1, "beta parameter at index 1", p.beta2) ||
        check(p.weight_decay >= 0, "weight_decay value", p.weight_decay))
        return NULL;
    td_optimizer *o = new(kind, n, parameters);
    if (o)
        o->adam = p, o->lr = &o->adam.lr;
    return o;
}
td_optimizer *td_adam_new(int64_t n, td_tensor *const *parameters, const td_adam_options *options)
{
    return adam_new(&adam_kind, n, parameters, options ? *options : td_adam_defaults());
}
td_optimizer *td_adamw_new(int64_t n, td_tensor *const *parameters, const td_adamw_options *options)
{
    return adam_new(&adamw_kind, n, parameters, options ? *options : td_adamw_defaults());
}

void td_optimizer_release(td_optimizer *o)
{
    if (!o)
        return;
    for (int64_t i = 0; i < o->n; i++) {
        td_tensor_release(o->slots[i].parameter);
        for (int k = 0; k < MOST; k++)
            td_tensor_release(o->slots[i].state[k]);
    }
    td_mem_free(o, bytes_for(o->n));
}

/* ---- use */

int td_optimizer_step(td_optimizer *o)
{
    bool before = td_set_grad_enabled(false);
    int status = 0;
    for (int64_t i = 0; i < o->n && status == 0; i++) {
        td_tensor *grad = td_grad(o->slots[i].parameter);
        if (grad)
            status = o->kind->step(o, &o->slots[i], grad);
    }
    td_set_grad_enabled(before);
    return status;
}

int td_optimizer_zero_grad(td_optimizer *o)
{
    for (int64_t i = 0; i < o->n; i++)
        if (td_grad(o->slots[i].parameter) && td_set_grad(o->slots[i].parameter, NULL) != 0)
            return -1;
    return 0;
}

double td_optimizer_lr(const td_optimizer *o) { return *o->lr; }
int td_optimizer_set_lr(td_optimizer *o, double lr)
{
    if (check(lr >= 0, "learning rate", lr))
        return -1;
    *o->lr = lr;
    return 0;
}

static int find(const td_optimizer *o, int64_t i, const char *name)
{
    for (int k = 0; k < MOST && i >= 0 && i < o->n; k++)
        if (o->kind->names[k] && strcmp(o->kind->names[k], name) == 0)
            return k;
    return -1;
}
td_tensor *td_optimizer_state(const td_optimizer *o, int64_t i, const char *name)
{
    int k = find(o, i, name);
    return k < 0 ? NULL : o->slots[i].state[k];
}

int td_optimizer_set_state(td_optimizer *o, int64_t i, const char *name, td_tensor *value)
{
    int k = find(o, i, name);
    if (!value)
        return td_error_code() == TD_OK ? td_error(TD_E_TYPE, "optimizer: the state '%s' is NULL", name) : -1;
    if (k < 0)
        return td_error(TD_E_KEY, "optimizer: no state '%s' of parameter %" PRId64 " among %" PRId64, name, i, o->n);
    bool is_step = strcmp(name, "step") == 0;
    td_tensor *parameter = o->slots[i].parameter;
    if (td_tensor_numel(value) != (is_step ? 1 : td_tensor_numel(parameter)))
        return td_error(TD_E_RUNTIME, "optimizer: the state '%s' of parameter %" PRId64 " has %" PRId64
                        " elements instead of %" PRId64, name, i, td_tensor_numel(value),
                        is_step ? 1 : td_tensor_numel(parameter));
    td_tensor *copy = is_step ? td_zeros(0, NULL, TD_F32, (td_device){TD_CPU, -1}) : td_zeros_like(parameter);
    td_tensor *shaped = copy ? td_reshape(value, td_tensor_ndim(copy), td_tensor_sizes(copy)) : NULL;
    bool before = td_set_grad_enabled(false);
    int status = shaped ? td_copy_(copy, shaped) : -1;
    td_set_grad_enabled(before);
    td_tensor_release(shaped);
    td_tensor_release(status == 0 ? o->slots[i].state[k] : copy);
    if (status == 0)
        o->slots[i].state[k] = copy;
    return status;
}

static int norm_of(td_tensor *x, double *norm)
{
    td_tensor *result = td_linalg_vector_norm(x, td_int(2), -1, NULL, false, TD_DTYPE_NONE);
    td_scalar value;
    int status = result ? td_tensor_item(result, &value) : -1;
    *norm = status == 0 ? td_scalar_double(value) : 0;
    td_tensor_release(result);
    return status;
}

int td_clip_grad_norm_(int64_t n, td_tensor *const *parameters, double max_norm, double *norm)
{
    bool before = td_set_grad_enabled(false);
    double squares = 0, one;
    int status = 0;
    for (int64_t i = 0; i < n && status == 0; i++)
        if (td_grad(parameters[i]) && (status = norm_of(td_grad(parameters[i]), &one)) == 0)
            squares += one * one;
    double total = sqrt(squares), factor = max_norm / (total + 1e-6);     /* the 1e-6 as in PyTorch */
    for (int64_t i = 0; i < n && status == 0 && !(factor >= 1); i++)
        if (td_grad(parameters[i]))
            status = td_mul_scalar_(td_grad(parameters[i]), td_float(factor));
    td_set_grad_enabled(before);
    if (norm)
        *norm = total;
    return status;
}
