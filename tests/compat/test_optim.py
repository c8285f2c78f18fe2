"""Optimizers and schedules: the same steps as PyTorch's, the same state, the same refusals."""
import copy
import math
import pickle
import warnings

import numpy
import pytest

OPTIMIZERS = [
    ("SGD", {"lr": 0.02}), ("SGD", {"lr": 0.02, "momentum": 0.9}),
    ("SGD", {"lr": 0.02, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    ("SGD", {"lr": 1e-3, "momentum": 0.9, "dampening": 0.5, "maximize": True}),
    ("Adam", {}), ("Adam", {"lr": 0.1, "weight_decay": 0.1, "amsgrad": True}),
    ("Adam", {"maximize": True, "betas": (0.5, 0.9)}),
    ("AdamW", {"lr": 0.1}), ("AdamW", {"weight_decay": 0.5, "amsgrad": True}),
    ("Adam", {"decoupled_weight_decay": True, "weight_decay": 0.1}),
    ("Adagrad", {"lr": 0.1}), ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("RMSprop", {}), ("RMSprop", {"momentum": 0.9, "centered": True, "weight_decay": 0.1}),
    ("Adadelta", {}), ("Adadelta", {"weight_decay": 0.1, "maximize": True}), ("Adamax", {}),
    ("Adamax", {"weight_decay": 0.1}),
    ("NAdam", {}), ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}), ("RAdam", {}),
    ("RAdam", {"lr": 0.1, "weight_decay": 0.1}), ("ASGD", {}), ("ASGD", {"t0": 2, "weight_decay": 0.1}), ("Rprop", {}),
    ("Rprop", {"etas": (0.3, 1.5), "step_sizes": (1e-3, 0.1)}),
    ("Adafactor", {}), ("Adafactor", {"weight_decay": 0.1, "d": 1.5, "maximize": True}),
    ("LBFGS", {"max_iter": 4}), ("LBFGS", {"max_iter": 6, "line_search_fn": "strong_wolfe", "history_size": 3}),
]
IDS = [f"{name}-{i}" for i, (name, _) in enumerate(OPTIMIZERS)]


def numbers(seed, *shape):
    return numpy.random.default_rng(seed).standard_normal(shape).astype("float32").tolist()


def problem(lib, dtype="float32"):
    """Parameters and a closure that leaves their gradients: a curved valley with a few bends."""
    a, b, goal = (lib.tensor(x, dtype=getattr(lib, dtype)) for x in (numbers(1, 3, 4), numbers(2, 4), numbers(3, 3, 4)))
    a, b = lib.nn.Parameter(a), lib.nn.Parameter(b)

    def loss():
        for p in (a, b):
            p.grad = None
        value = ((a * b - goal) ** 2).sum() + (b ** 4).sum() * 0.1
        value.backward()
        return value
    return [a, b], loss


def array(tensor):
    return numpy.array(tensor.detach().tolist())


def train(lib, name, options, steps=7):
    # Searches along lines magnify the last bits of a sum, in which the libraries differ.
    parameters, loss = problem(lib, "float64" if name == "LBFGS" else "float32")
    optimizer = getattr(lib.optim, name)(parameters, **options)
    losses = [float(optimizer.step(loss)) for _ in range(steps)]
    return parameters, optimizer, losses


@pytest.mark.parametrize("name,options", OPTIMIZERS, ids=IDS)
def test_steps_are_pytorchs(both, name, options):
    (mine, optimizer, losses), (wanted, reference, wanted_losses) = [train(lib, name, options) for lib in both]
    numpy.testing.assert_allclose(losses, wanted_losses, rtol=1e-4)
    for a, b in zip(mine, wanted):
        numpy.testing.assert_allclose(array(a), array(b), rtol=2e-4, atol=1e-5)
    assert repr(optimizer) == repr(reference)
    a, b = optimizer.state_dict(), reference.state_dict()
    assert a["param_groups"] == b["param_groups"] and list(a["state"]) == list(b["state"])
    for number in a["state"] if name != "LBFGS" else ():        # whose memory of differences is all rounding
        x, y = a["state"][number], b["state"][number]
        assert set(x) == set(y)
        for key, value in x.items():
            if isinstance(value, both[0].Tensor) and isinstance(y[key], both[1].Tensor):
                assert str(value.dtype).split(".")[1] == str(y[key].dtype).split(".")[1]
                numpy.testing.assert_allclose(array(value), array(y[key]), rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name,options", OPTIMIZERS, ids=IDS)
def test_a_restored_optimizer_goes_on_the_same(lib, name, options):
    parameters, optimizer, _ = train(lib, name, options, steps=3)
    twins, loss = problem(lib, str(parameters[0].dtype).split(".")[1])
    with lib.no_grad():
        for twin, p in zip(twins, parameters):
            twin.copy_(p)
    other = getattr(lib.optim, name)(twins, **options)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    _, first_loss = problem(lib)

    def own_loss(ps):
        goal = lib.tensor(numbers(3, 3, 4))

        def closure():
            for p in ps:
                p.grad = None
            value = ((ps[0] * ps[1] - goal) ** 2).sum() + (ps[1] ** 4).sum() * 0.1
            value.backward()
            return value
        return closure

    for _ in range(3):
        assert float(optimizer.step(own_loss(parameters))) == float(other.step(own_loss(twins)))
    again = pickle.loads(pickle.dumps(optimizer))
    assert repr(again) == repr(optimizer) and len(again.state) == len(optimizer.state)


def test_orthogonal_steps_are_pytorchs(both):
    def go(lib, **options):
        p = lib.nn.Parameter(lib.tensor(numbers(1, 6, 4)))
        optimizer = lib.optim.Muon([p], lr=0.1, **options)
        for seed in range(3):
            p.grad = lib.tensor(numbers(seed, 6, 4))
            optimizer.step()
        return array(p)
    for options in ({}, {"nesterov": False, "adjust_lr_fn": "match_rms_adamw"}):
        numpy.testing.assert_allclose(go(both[0], **options), go(both[1], **options), rtol=0.02, atol=0.02)


def test_double_precision_and_mixed_dtypes(both):
    def go(lib, name):
        p = [lib.nn.Parameter(lib.tensor(numbers(i, 3), dtype=d)) for i, d in enumerate((lib.float64, lib.float32))]
        optimizer = getattr(lib.optim, name)(p, lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            sum((x.double() ** 2).sum() for x in p).backward()
            optimizer.step()
        return [array(x) for x in p]
    for name in ("SGD", "Adam", "AdamW"):
        for a, b in zip(go(both[0], name), go(both[1], name)):
            numpy.testing.assert_allclose(a, b, rtol=1e-5)


def test_parameters_without_gradients_stay(lib):
    a, b = (lib.nn.Parameter(lib.ones(2)) for _ in range(2))
    for name in ("SGD", "Adam", "AdamW", "RMSprop"):
        optimizer = getattr(lib.optim, name)([a, b], lr=0.1)
        a.grad = lib.ones(2)
        optimizer.step()
        assert (b == 1).all() and b not in optimizer.state


def test_momentum_of_a_parameter_that_joins_late(both):
    def go(lib):
        a, b = (lib.nn.Parameter(lib.ones(2)) for _ in range(2))
        optimizer = lib.optim.SGD([a, b], lr=0.1, momentum=0.9, dampening=0.5)
        for i in range(4):
            a.grad = lib.ones(2)
            b.grad = lib.ones(2) if i > 1 else None
            optimizer.step()
        return array(a).tolist() + array(b).tolist()
    assert go(both[0]) == pytest.approx(go(both[1]), rel=1e-6)


def test_groups_have_options_of_their_own(lib):
    a, b, c = (lib.nn.Parameter(lib.ones(1)) for _ in range(3))
    optimizer = lib.optim.SGD([{"params": [a], "lr": 1.0}, {"params": b}], lr=0.1)
    optimizer.add_param_group({"params": [c], "lr": 0.0})
    for p in (a, b, c):
        p.grad = lib.ones(1)
    optimizer.step()
    assert [p.item() for p in (a, b, c)] == pytest.approx([0.0, 0.9, 1.0])
    assert optimizer.state_dict()["param_groups"][2]["params"] == [2]
    optimizer.zero_grad(set_to_none=False)
    assert a.grad.item() == 0
    optimizer.zero_grad()
    assert a.grad is None


def test_named_parameters_keep_their_names(lib):
    m = lib.nn.Linear(2, 2)
    optimizer = lib.optim.Adam(m.named_parameters())
    assert optimizer.param_groups[0]["param_names"] == ["weight", "bias"]
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["weight", "bias"]


def test_step_hooks(lib):
    p = lib.nn.Parameter(lib.ones(1))
    optimizer, calls = lib.optim.SGD([p], lr=0.1), []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append(("pre", o is optimizer)))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append(("post", o is optimizer)))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.step()
    handle.remove()
    optimizer.step()
    assert calls == [("pre", True), ("post", True), ("pre", True)] and optimizer.state_dict()["more"] == 1


def test_a_tensor_as_learning_rate(lib):
    p = lib.nn.Parameter(lib.ones(1))
    optimizer = lib.optim.SGD([p], lr=lib.tensor(0.5))
    schedule = lib.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    p.grad = lib.ones(1)
    optimizer.step()
    schedule.step()
    assert p.item() == 0.5 and optimizer.param_groups[0]["lr"].item() == 0.25


ERRORS = {
    "empty": lambda lib, p: lib.optim.SGD([]), "tensor": lambda lib, p: lib.optim.SGD(p),
    "rate": lambda lib, p: lib.optim.SGD([p], lr=-1.0), "momentum": lambda lib, p: lib.optim.SGD([p], momentum=-1.0),
    "nesterov": lambda lib, p: lib.optim.SGD([p], nesterov=True), "eps": lambda lib, p: lib.optim.Adam([p], eps=-1.0),
    "beta": lambda lib, p: lib.optim.Adam([p], betas=(0.9, 1.0)),
    "decay": lambda lib, p: lib.optim.AdamW([p], weight_decay=-1),
    "kind": lambda lib, p: lib.optim.SGD([3]), "leaf": lambda lib, p: lib.optim.SGD([p * 2]),
    "set": lambda lib, p: lib.optim.SGD([{"params": {p}}]),
    "group": lambda lib, p: lib.optim.SGD([p]).add_param_group(3),
    "twice": lambda lib, p: lib.optim.SGD([{"params": p}, {"params": p}]),
    "names": lambda lib, p: lib.optim.SGD([("a", p), lib.nn.Parameter(lib.ones(1))]),
    "groups": lambda lib, p: lib.optim.SGD([p]).load_state_dict({"state": {}, "param_groups": []}),
    "sizes": lambda lib, p: lib.optim.SGD([p]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
    "lbfgs groups": lambda lib, p: lib.optim.LBFGS([{"params": p}, {"params": lib.nn.Parameter(lib.ones(1))}]),
    "rho": lambda lib, p: lib.optim.Adadelta([p], rho=2.0), "etas": lambda lib, p: lib.optim.Rprop([p], etas=(2, 3)),
    "not an optimizer": lambda lib, p: lib.optim.lr_scheduler.StepLR(3, 1),
    "resume": lambda lib, p: lib.optim.lr_scheduler.StepLR(lib.optim.SGD([p]), 1, last_epoch=3),
    "lambdas": lambda lib, p: lib.optim.lr_scheduler.LambdaLR(lib.optim.SGD([p]), [abs, abs]),
    "factor": lambda lib, p: lib.optim.lr_scheduler.ConstantLR(lib.optim.SGD([p]), 2.0),
    "start": lambda lib, p: lib.optim.lr_scheduler.LinearLR(lib.optim.SGD([p]), 0.0),
    "period": lambda lib, p: lib.optim.lr_scheduler.CosineAnnealingWarmRestarts(lib.optim.SGD([p]), 0),
    "steps": lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.SGD([p]), 0.1),
    "cycle momentum": lambda lib, p: lib.optim.lr_scheduler.OneCycleLR(lib.optim.Adagrad([p]), 0.1, 10),
    "mode": lambda lib, p: lib.optim.lr_scheduler.ReduceLROnPlateau(lib.optim.SGD([p]), "best"),
    "sequence": lambda lib, p: lib.optim.lr_scheduler.SequentialLR(lib.optim.SGD([p]), [], []),
}


@pytest.mark.parametrize("what", ERRORS)
def test_errors_read_as_pytorchs(both, what):
    caught = []
    for lib in both:
        with pytest.raises(Exception) as info:
            ERRORS[what](lib, lib.nn.Parameter(lib.ones(2)))
        text = str(info.value)
        caught.append((info.type, text.replace("tede.", "torch.")))
    assert caught[0] == caught[1]


# Schedules ------------------------------------------------------------------------------------------------------

SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9 ** epoch),
    "LambdaLR, one per group": lambda s, o: s.LambdaLR(o, [lambda epoch: 0.9 ** epoch, lambda epoch: 1 / (epoch + 1)]),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 0.95),
    "StepLR": lambda s, o: s.StepLR(o, 4, 0.5), "MultiStepLR": lambda s, o: s.MultiStepLR(o, [3, 3, 8], 0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.3, 4), "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 0.9, 6),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9), "PolynomialLR": lambda s, o: s.PolynomialLR(o, 9, 2.0),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 6, 0.01),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, 0.01),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 4, 3, "triangular2"),
    "CyclicLR, exponential": lambda s, o: s.CyclicLR(o, [0.01, 0.02], 0.2, 4, mode="exp_range", gamma=0.9),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, 0.5, 20), "OneCycleLR, three phases": lambda s, o: s.OneCycleLR(
        o, [0.5, 0.1], epochs=4, steps_per_epoch=5, three_phase=True, anneal_strategy="linear"),
    "SequentialLR": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 4), s.CosineAnnealingLR(o, 8)], [5]),
    "SequentialLR of three": lambda s, o: s.SequentialLR(
        o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9), s.StepLR(o, 2)], [3, 9]),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)]),
}


def follow(lib, make, steps=17, optimizer="SGD"):
    """The rates and momenta of each step, and those of a second run that was restored halfway."""
    def start():
        p, q = lib.nn.Parameter(lib.ones(1)), lib.nn.Parameter(lib.ones(1))
        options = {"momentum": 0.9} if optimizer == "SGD" else {}
        o = getattr(lib.optim, optimizer)([{"params": p, "lr": 0.3}, {"params": q}], lr=0.1, **options)
        return o, make(lib.optim.lr_scheduler, o)

    def run(o, schedule, count):
        rows = []
        for _ in range(count):
            rows.append([g["lr"] for g in o.param_groups]
                        + [g["betas"][0] if "betas" in g else g["momentum"] for g in o.param_groups])
            o.step()
            schedule.step()
        return rows + [schedule.get_last_lr()]

    o, schedule = start()
    whole = run(o, schedule, steps)
    o, schedule = start()
    run(o, schedule, steps // 2)
    restored, again = start()
    restored.load_state_dict(o.state_dict())
    again.load_state_dict(copy.deepcopy(schedule.state_dict()))
    return whole, run(restored, again, steps - steps // 2)


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_pytorchs_to_the_last_bit(both, name, optimizer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine, wanted = [follow(lib, SCHEDULES[name], optimizer=optimizer) for lib in both]
    assert mine == wanted
    assert mine[1] == mine[0][17 // 2:]


@pytest.mark.parametrize("options", [{}, {"mode": "max", "threshold_mode": "abs"},
                                     {"patience": 0, "cooldown": 2, "min_lr": 0.02}])
def test_a_plateau_lowers_the_rate(both, options):
    def go(lib):
        optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=0.1)
        schedule = lib.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **{"patience": 2, "factor": 0.5, **options})
        rows = []
        for i in range(20):
            schedule.step(math.cos(i) if i < 8 else 1.0)
            rows.append((optimizer.param_groups[0]["lr"], schedule.num_bad_epochs, schedule.best))
        return rows, schedule.state_dict()
    assert go(both[0]) == go(both[1])


def test_a_schedule_before_the_optimizer_is_warned_of(lib):
    optimizer = lib.optim.SGD([lib.nn.Parameter(lib.ones(1))], lr=0.1)
    schedule = lib.optim.lr_scheduler.StepLR(optimizer, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()


def test_averaged_models(lib):
    from importlib import import_module
    swa = import_module(lib.__name__ + ".optim.swa_utils")
    model = lib.nn.Sequential(lib.nn.Linear(1, 1, bias=False), lib.nn.BatchNorm1d(1))
    equal, ema = swa.AveragedModel(model), swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.75))
    for value in (1.0, 2.0, 6.0):
        with lib.no_grad():
            model[0].weight.fill_(value)
            model[1].running_mean.fill_(value)
        equal.update_parameters(model)
        ema.update_parameters(model)
    assert equal.module[0].weight.item() == pytest.approx(3.0) and equal.n_averaged == 3
    assert ema.module[0].weight.item() == pytest.approx(0.75 * 1.25 + 0.25 * 6)
    assert equal.module[1].running_mean.item() == 6
    swa.update_bn([lib.tensor([[1.0], [3.0]]), [lib.tensor([[5.0], [7.0]]), None]], equal)
    assert equal.module[1].running_mean.item() == pytest.approx(3 * 4.0) and equal.module[1].momentum == 0.1
    with pytest.raises(AssertionError, match="Only one of avg_fn and multi_avg_fn"):
        swa.AveragedModel(model, avg_fn=swa.get_swa_avg_fn(), multi_avg_fn=swa.get_swa_multi_avg_fn())


def test_swa_rates(lib):
    from importlib import import_module
    swa = import_module(lib.__name__ + ".optim.swa_utils")
    optimizer = lib.optim.SGD([lib.ones(1, requires_grad=True)], lr=1.0)
    schedule, seen = swa.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear"), []
    for _ in range(4):
        optimizer.step()
        schedule.step()
        seen.append(optimizer.param_groups[0]["lr"])
    assert seen == pytest.approx([0.75, 0.5, 0.5, 0.5])


def test_sparse_adam_refuses_what_is_dense(lib):
    p = lib.ones(2, requires_grad=True)
    optimizer = lib.optim.SparseAdam([p])
    p.sum().backward()
    with pytest.raises(RuntimeError, match="SparseAdam does not support dense gradients, please consider Adam instead"):
        optimizer.step()


@pytest.mark.parametrize("name", ["SGD", "Adam", "RAdam"])
def test_gradients_of_the_rate(lib, name):
    def loss(rate, p):
        optimizer = getattr(lib.optim, name)([p], lr=rate, differentiable=True)
        for _ in range(2):
            p.grad = lib.tensor([0.5, -1.0], dtype=lib.float64)
            optimizer.step()
        return (p * p).sum()

    rate = lib.tensor(0.1, dtype=lib.float64, requires_grad=True)
    start = lib.tensor([1.0, 2.0], dtype=lib.float64, requires_grad=True)
    gradient, = lib.autograd.grad(loss(rate, start.clone()), [rate])
    h = 1e-4
    difference = (loss(0.1 + h, start.clone()) - loss(0.1 - h, start.clone())).item() / (2 * h)
    assert gradient.item() == pytest.approx(difference, rel=1e-4)


def test_all_optimizers_are_in_the_modules_dict(lib):
    import importlib
    optim = importlib.import_module(lib.__name__ + ".optim")
    there = {name for name, value in vars(optim).items() if isinstance(value, type) and issubclass(value, optim.Optimizer)}
    assert {"Adam", "SGD", "LBFGS", "Rprop", "Muon"} <= there and optim.__dict__["AdamW"] is optim.AdamW


@pytest.mark.parametrize("name", ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta", "NAdam", "Adamax"))
def test_steps_of_parameters_without_memory(lib, name):
    p = lib.nn.Parameter(lib.ones(3, device="meta"))
    p.grad = lib.ones_like(p)
    make = getattr(lib.optim, name)
    optimizer = make([p], lr=0.1)
    optimizer.step()
    optimizer.step()
    assert p.is_meta and p.shape == (3,)
    if "fused" in optimizer.defaults:
        with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be floating point Tensors"):
            make([p], lr=0.1, fused=True).step()
