"""Steps that are differentiated: with respect to the parameter, its gradient, the optimizer's state and its rates."""
import pytest

MOMENTS = ("exp_avg", "exp_avg_sq")
STEPS = [
    ("SGD", {"lr": 0.9}, ("momentum_buffer",)),
    ("SGD", {"lr": 0.9, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}, ("momentum_buffer",)),
    ("Adam", {"lr": 0.9}, MOMENTS),
    ("Adam", {"lr": 0.9, "amsgrad": True, "weight_decay": 0.1}, (*MOMENTS, "max_exp_avg_sq")),
    ("AdamW", {"lr": 0.9, "amsgrad": True, "maximize": True}, (*MOMENTS, "max_exp_avg_sq")),
    ("Adamax", {"lr": 0.9, "weight_decay": 0.1}, ("exp_avg", "exp_inf")),
    ("NAdam", {"lr": 0.9, "weight_decay": 0.1}, (*MOMENTS, "mu_product")),
    ("NAdam", {"lr": 0.9, "weight_decay": 0.1, "decoupled_weight_decay": True}, (*MOMENTS, "mu_product")),
    ("RAdam", {"lr": 0.9, "weight_decay": 0.1, "decoupled_weight_decay": True}, MOMENTS),
    ("RMSprop", {"lr": 0.01}, ("square_avg",)),
    ("RMSprop", {"lr": 0.01, "momentum": 0.9, "centered": True, "weight_decay": 0.1},
     ("square_avg", "momentum_buffer", "grad_avg")),
    ("Adadelta", {"weight_decay": 0.1}, ("square_avg", "acc_delta")),
    ("Adagrad", {"lr_decay": 0.1}, ("sum",)), ("ASGD", {"lambd": 0.1}, ("ax",)), ("Rprop", {}, ("prev", "step_size")),
]
PLAIN = {"SGD": (), "ASGD": ("step", "eta", "mu")}


def numbers(lib, n=10, least=0.0):
    return (lib.rand(n, dtype=lib.float64) + least).requires_grad_()


@pytest.mark.parametrize("name, options, learned", STEPS, ids=[f"{s[0]}-{i}" for i, s in enumerate(STEPS)])
def test_gradients_through_steps(lib, name, options, learned):
    lib.manual_seed(0)
    plain = {"step": 10.0, "eta": 0.9, "mu": 1.0}
    state = {key: lib.tensor(plain[key], dtype=lib.float64) for key in PLAIN.get(name, ("step",))}
    for key in learned:
        state[key] = (lib.ones((), dtype=lib.float64, requires_grad=True) if key == "mu_product"
                      else numbers(lib, least=1.0 if "sq" in key else 0.0))

    def trajectory(p, grad, *values):
        p = p.clone()
        optimizer = getattr(lib.optim, name)([p], differentiable=True, **options)
        optimizer.state[p].update((key, value.clone()) for key, value in zip(state, values))
        # From the second step on several of PyTorch's overwrite what the first has kept.
        for i in range(1 if lib.__name__ == "torch" else 3):
            p.grad = grad * (1 - i) + p * 0.5 * i
            optimizer.step()
        return (p, *(value for value in optimizer.state[p].values() if value.requires_grad))

    assert lib.autograd.gradcheck(trajectory, (numbers(lib), numbers(lib), *state.values()))


@pytest.mark.parametrize("name, names", [
    ("SGD", ("lr",)), ("SGD", ("weight_decay",)), ("SGD", ("lr", "weight_decay")),
    ("Adam", ("lr",)), ("Adam", ("weight_decay",)), ("Adam", ("beta1", "beta2", "lr")),
    ("Adam", ("lr", "weight_decay", "beta1", "beta2")),
    ("AdamW", ("lr",)), ("AdamW", ("weight_decay",)), ("AdamW", ("lr", "weight_decay", "beta1", "beta2"))])
def test_gradients_of_what_is_chosen(lib, name, names):
    lib.manual_seed(0)
    start = numbers(lib)
    moments = {} if name == "SGD" else {key: numbers(lib, least=0.5) for key in MOMENTS}

    def loss(p, *values):
        options, p = dict(zip(names, values[len(moments):])), p.clone()
        if "beta1" in options:
            options["betas"] = options.pop("beta1"), options.pop("beta2")
        optimizer = getattr(lib.optim, name)([p], differentiable=True, **options)
        if moments:
            optimizer.state[p].update({"step": lib.tensor(10.0, dtype=lib.float64),
                                       **{key: value.clone() for key, value in zip(moments, values)}})
        for _ in range(2):
            p.grad, = lib.autograd.grad(((p.sum() - 2.0) ** 2), p, create_graph=True)
            p.grad = p.grad.clone()         # not expanded: PyTorch adds the decay to it in place
            optimizer.step()
        return (p.sum() - 2.0) ** 2

    chosen = {"lr": 0.01, "weight_decay": 0.9, "beta1": 0.9, "beta2": 0.99}
    values = [lib.tensor(chosen[key], dtype=lib.float64, requires_grad=True) for key in names]
    assert lib.autograd.gradcheck(loss, (start, *moments.values(), *values), atol=1e-4)
