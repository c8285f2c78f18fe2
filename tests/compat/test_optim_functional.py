"""Optimizers as functions over lists make the step that their classes make."""
import pytest

LISTS = {
    "adadelta": ("square_avg", "acc_delta", "step"), "adagrad": ("sum", "step"), "adam": ("exp_avg", "exp_avg_sq", None, "step"),
    "adamw": ("exp_avg", "exp_avg_sq", None, "step"), "adamax": ("exp_avg", "exp_inf", "step"), "asgd": ("ax", "mu", "eta", "step"),
    "nadam": ("exp_avg", "exp_avg_sq", "mu_product", "step"), "radam": ("exp_avg", "exp_avg_sq", "step"),
    "rmsprop": ("square_avg", None, None, "step"), "rprop": ("prev", "step_size", "step"), "sgd": ("momentum_buffer",),
}
CLASSES = {"adadelta": "Adadelta", "adagrad": "Adagrad", "adam": "Adam", "adamw": "AdamW", "adamax": "Adamax", "asgd": "ASGD",
           "nadam": "NAdam", "radam": "RAdam", "rmsprop": "RMSprop", "rprop": "Rprop", "sgd": "SGD"}
BY_NAME = {"betas": ("beta1", "beta2"), "etas": ("etaminus", "etaplus"), "step_sizes": ("step_size_min", "step_size_max")}
UNNAMED = ("params", "foreach", "capturable", "differentiable", "fused", "initial_accumulator_value", "decoupled_weight_decay")


def function(lib, name, file=None):
    return getattr(__import__(f"{lib.__name__}.optim.{file or name}", fromlist=["_"]), name)


@pytest.mark.parametrize("name", LISTS)
def test_a_function_steps_as_its_class(lib, name):
    lib.manual_seed(1)
    p = lib.nn.Parameter(lib.randn(5))
    optimizer = getattr(lib.optim, CLASSES[name])([p], lr=0.1, **({"momentum": 0.9} if name == "sgd" else {}))
    for _ in range(2):
        p.grad = lib.randn(5)
        optimizer.step()
    state, group = optimizer.state[p], optimizer.param_groups[0]
    copy = p.detach().clone()
    lists = [[] if key is None else [state[key].clone()] for key in LISTS[name]]
    options = {}
    for key, value in group.items():
        if key in BY_NAME:
            options.update(zip(BY_NAME[key], value))
        elif key not in UNNAMED and (name, key) != ("rprop", "lr"):
            options[key] = value
    p.grad = lib.randn(5)
    function(lib, name, "_functional")([copy], [p.grad], *lists, **options)
    optimizer.step()
    lib.testing.assert_close(copy, p.detach(), rtol=1e-6, atol=1e-6)


def test_files_of_optimizers_have_the_function(lib):
    for name in CLASSES:
        assert callable(function(lib, name))


def test_sgd_keeps_a_momentum_buffer_that_it_made(lib):
    p, buffers = lib.ones(2), [None]
    function(lib, "sgd")([p], [lib.ones(2)], buffers, weight_decay=0.0, momentum=0.9, lr=0.5, dampening=0.0, nesterov=False,
                      maximize=False)
    assert p.tolist() == [0.5, 0.5] and buffers[0].tolist() == [1, 1]


def test_steps_are_tensors(lib):
    with pytest.raises(RuntimeError, match="state_steps"):
        function(lib, "adadelta")([lib.ones(1)], [lib.ones(1)], [lib.ones(1)], [lib.ones(1)], [1], lr=1.0, rho=0.9, eps=1e-6,
                                    weight_decay=0, maximize=False)
