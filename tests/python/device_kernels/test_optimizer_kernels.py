"""optimizer.ck beside the CPU's fused steps."""
import pytest

tede = pytest.importorskip("tede")

CASES = [
    (tede.optim.SGD, {"lr": 0.1}), (tede.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    (tede.optim.SGD, {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "maximize": True}), (tede.optim.Adam, {"lr": 0.01}),
    (tede.optim.Adam, {"lr": 0.01, "amsgrad": True, "weight_decay": 0.1}), (tede.optim.AdamW, {"lr": 0.01, "betas": (0.3, 0.99)}),
    (tede.optim.Adam, {"lr": "tensor", "maximize": True}), (tede.optim.SGD, {"lr": "tensor"}),
    (tede.optim.Adagrad, {"lr": 0.1, "lr_decay": 0.5, "weight_decay": 0.1, "maximize": True}),
]


def train(kind, options, device, dtype, fused=True, steps=4):
    tede.manual_seed(0)
    params = [tede.randn(s).to(dtype).to(device).requires_grad_() for s in ((5, 3), (), (300,))]
    if options["lr"] == "tensor":
        options = dict(options, lr=tede.tensor(0.01, device=device))
    optimizer = kind(params, fused=fused, **options)
    slopes = [[tede.randn(p.shape).to(dtype) for p in params] for _ in range(steps)]
    before = tede._C._cpu_fallback_count()
    for row in slopes:
        for p, slope in zip(params, row):
            p.grad = slope.to(device)
        optimizer.step()
    return [p.detach().cpu() for p in params], tede._C._cpu_fallback_count() - before


@pytest.mark.parametrize("kind, options", CASES)
def test_fused_steps(device, kind, options):
    for dtype in (tede.float32, tede.float64):
        here, _ = train(kind, options, "cpu", dtype)
        there, taken = train(kind, options, device, dtype)
        tede.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)
        assert not taken


@pytest.mark.parametrize("kind", ["_fused_adam_", "_fused_adagrad_", "_fused_sgd_"])
def test_scaled_gradients_and_overflow(device, kind):
    def call(device, found):
        p, g, m, v = (tede.full((4,), x, device=device) for x in (1.0, 6.0, 0.5, 0.25))
        t, scale, found = tede.ones((), device=device), tede.full((), 2.0, device=device), tede.full((), found, device=device)
        numbers = {"weight_decay": 0.1, "maximize": False, "grad_scale": scale, "found_inf": found}
        if kind == "_fused_adam_":
            tede._fused_adam_([p], [g], [m], [v], [], [t], lr=0.1, beta1=0.9, beta2=0.99, eps=1e-8, amsgrad=False, **numbers)
        elif kind == "_fused_sgd_":
            tede._fused_sgd_([p], [g], [m], momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, is_first_step=False, **numbers)
        else:
            tede._fused_adagrad_([p], [g], [v], [t], lr=0.1, lr_decay=0.5, eps=1e-8, **numbers)
        return [x.cpu() for x in (p, g, m, v)]
    for found in (0.0, 1.0):
        tede.testing.assert_close(call(device, found), call("cpu", found))


@pytest.mark.parametrize("kind, options", CASES[:6])
def test_steps_of_lists(device, kind, options):
    here, _ = train(kind, options, "cpu", tede.float32, fused=False)
    there, taken = train(kind, options, device, tede.float32, fused=False)
    tede.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)
    assert not taken


@pytest.mark.parametrize("kind, options", [CASES[1], CASES[4], CASES[8]])
def test_many_parameters(device, kind, options):
    """More than a launch takes, of several dtypes and sizes; empty ones and some that aren't contiguous among them."""
    def step(device):
        tede.manual_seed(1)
        params = [tede.randn(7, 3 * i % 50).to((tede.float32, tede.float64)[i % 40 == 5]).to(device) for i in range(130)]
        params[20] = params[20].t().contiguous().t()
        for p in params:
            p.requires_grad_()
        optimizer = kind(params, fused=True, **options)
        for _ in range(2):
            for p in params:
                p.grad = tede.randn(p.shape).to(p.dtype).to(device)
            optimizer.step()
        return [p.detach().cpu() for p in params]
    tede.testing.assert_close(step(device), step("cpu"), rtol=1e-5, atol=1e-6)


def test_fused_adagrad_is_adagrad(device):
    """And counts its steps beside the parameters."""
    options = {"lr": 0.1, "lr_decay": 0.5, "weight_decay": 0.1, "maximize": True}
    plain, _ = train(tede.optim.Adagrad, options, "cpu", tede.float32, fused=False)
    fused, _ = train(tede.optim.Adagrad, options, device, tede.float32)
    tede.testing.assert_close(fused, plain, rtol=1e-5, atol=1e-6)
    p = tede.ones(3, device=device, requires_grad=True)
    optimizer = tede.optim.Adagrad([p], fused=True)
    for _ in range(3):
        p.grad = tede.ones_like(p)
        optimizer.step()
    assert optimizer.state[p]["step"].device == p.device and optimizer.state[p]["step"].item() == 3


@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_steps_from_zero_have_all_digits(device, kind):
    """1 - 0.999 in float32 is 1.3e-5 too small if 0.999 was rounded first, and so were averages of squares, which made each step too large."""
    tede.manual_seed(0)
    grads = [tede.randn(500) for _ in range(5)]

    def moved(device, dtype):
        p = tede.zeros(500, device=device, dtype=dtype, requires_grad=True)
        optimizer = getattr(tede.optim, kind)([p], lr=1e-3, weight_decay=0)
        for g in grads:
            p.grad = g.to(device).to(dtype)
            optimizer.step()
        return p.detach().cpu().double()

    exact = moved("cpu", tede.float64)
    assert ((moved(device, tede.float32) - exact).norm() / exact.norm()).item() < 1e-6
