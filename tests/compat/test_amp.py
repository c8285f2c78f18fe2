"""autocast's lists of operators on the CPU, its modes, and GradScaler."""
import pathlib
import pickle
import re
import warnings

import pytest

LOWER, WIDE, SAME = "lower", "float32", "same"
CASES = {
    "matmul": (lambda t, a, b: a @ b, LOWER), "linear": (lambda t, a, b: t.nn.functional.linear(a, b), LOWER),
    "bmm": (lambda t, a, b: t.bmm(a[None], b[None]), LOWER), "addmm": (lambda t, a, b: t.addmm(a, a, b), LOWER),
    "baddbmm": (lambda t, a, b: t.baddbmm(a[None], a[None], b[None]), LOWER), "addbmm": (lambda t, a, b: t.addbmm(a, a[None], b[None]), LOWER),
    "conv1d": (lambda t, a, b: t.nn.functional.conv1d(a[None], t.rand(2, 4, 3)), LOWER),
    "conv_transpose1d": (lambda t, a, b: t.nn.functional.conv_transpose1d(a[None], t.rand(4, 2, 3)), LOWER),
    "einsum": (lambda t, a, b: t.einsum("ij,jk", a, b), LOWER), "prelu": (lambda t, a, b: t.nn.functional.prelu(a, t.ones(1)), LOWER),
    "chain_matmul": (lambda t, a, b: t.chain_matmul(a, b), LOWER), "multi_dot": (lambda t, a, b: t.linalg.multi_dot([a, b, a]), LOWER),
    "attention": (lambda t, a, b: t.nn.functional.scaled_dot_product_attention(a[None], b[None], a[None]), LOWER),
    "exp": (lambda t, a, b: a.exp(), SAME), "softmax": (lambda t, a, b: a.softmax(0), SAME), "sum": (lambda t, a, b: a.sum(), SAME),
    "double": (lambda t, a, b: a.double() @ b.double(), SAME), "layer_norm": (lambda t, a, b: t.nn.functional.layer_norm(a, [4]), SAME),
    "mse_loss": (lambda t, a, b: t.nn.functional.mse_loss(a.bfloat16(), b.bfloat16()), WIDE),
    "prod": (lambda t, a, b: a.bfloat16().prod(), WIDE), "trace": (lambda t, a, b: a.bfloat16().trace(), WIDE),
    "cat": (lambda t, a, b: t.cat([a, b.bfloat16()]), WIDE),
}


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", CASES)
def test_what_autocast_computes_in(lib, name, dtype):
    f, what = CASES[name]
    a, b = lib.rand(4, 4), lib.rand(4, 4)
    plain = f(lib, a, b).dtype
    expected = {LOWER: getattr(lib, dtype), WIDE: lib.float32, SAME: plain}[what]
    with lib.autocast("cpu", dtype=getattr(lib, dtype)):
        assert f(lib, a, b).dtype == expected
        with lib.autocast("cpu", enabled=False):
            assert f(lib, a, b).dtype == plain


def test_gradients_under_autocast_have_their_leaves_dtype(lib):
    layer = lib.nn.Linear(4, 2)
    with lib.autocast("cpu"):
        out = layer(lib.ones(3, 4))
        assert out.dtype == lib.bfloat16
    out.sum().backward()
    assert layer.weight.grad.dtype == lib.float32 and layer.weight.grad.tolist() == [[3] * 4] * 2


def test_modes_and_their_errors(lib):
    assert not lib.is_autocast_enabled("cpu") and lib.get_autocast_dtype("cpu") == lib.bfloat16
    assert lib.amp.is_autocast_available("cpu")
    for call in (lambda: lib.autocast("nope"), lambda: lib.amp.is_autocast_available("nope")):
        with pytest.raises(RuntimeError, match="Expected one of cpu, cuda"):
            call()
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        lib.autocast(lib.device("cpu"))

    @lib.amp.custom_fwd(device_type="cpu", cast_inputs=lib.float32)
    def forward(ctx, x):
        return x.dtype, lib.is_autocast_enabled("cpu")
    with lib.autocast("cpu"):
        assert forward(type("C", (), {})(), lib.ones(1, dtype=lib.bfloat16)) == (lib.float32, False)


def test_a_grad_scaler(lib):
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    p = lib.nn.Parameter(lib.ones(2))
    optimizer = lib.optim.SGD([p], lr=1.0)
    scaler.scale((p * 2).sum()).backward()
    assert p.grad.tolist() == [8, 8]
    scaler.unscale_(optimizer)
    assert p.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="has already been called on this optimizer since the last update"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called since the last update"):
        scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [-1, -1] and scaler.get_scale() == 4 and scaler.state_dict()["_growth_tracker"] == 1
    p.grad = lib.full((2,), float("inf"))
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [-1, -1] and scaler.get_scale() == 2
    assert [x.item() for x in scaler.scale([lib.ones(()), lib.ones(())])] == [2, 2]
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_a_weight_is_cast_once_until_the_outermost_end(lib):
    w, x = lib.ones(3, 3, requires_grad=True), lib.ones(3, 3)

    def casts(**how):
        with lib.autocast("cpu", **how):
            a, b = x @ w, x @ w
        return [y.grad_fn.next_functions[1][0] for y in (a, b)]
    first, second = casts()
    assert first is second and first.name() == "ToCopyBackward0"
    first, second = casts(cache_enabled=False)
    assert first is not second
    with lib.autocast("cpu"):
        a = x @ w
        with lib.autocast("cpu", enabled=False):
            assert (x @ w).dtype == lib.float32
        with lib.autocast("cpu"):
            b = x @ w
        assert a.grad_fn.next_functions[1][0] is b.grad_fn.next_functions[1][0]
        lib.clear_autocast_cache()
        assert a.grad_fn.next_functions[1][0] is not (x @ w).grad_fn.next_functions[1][0]
    (a + b).sum().backward()
    assert w.grad.dtype == lib.float32 and w.grad.unique().tolist() == [6]


@pytest.mark.parametrize("name, expected", [("GRU", "float32"), ("LSTM", "bfloat16"), ("RNN", "bfloat16"), ("GRUCell", "float32"),
                                            ("RNNCell", "bfloat16")])
def test_recurrent_layers_under_autocast(lib, name, expected):
    layer = getattr(lib.nn, name)(4, 4)
    try:
        with lib.autocast("cpu"):
            out = layer(lib.rand(2, 4) if "Cell" in name else lib.rand(2, 3, 4))
    except RuntimeError as error:
        if "could not create a primitive descriptor" not in str(error):
            raise
        pytest.skip("PyTorch's oneDNN has no LSTM of bfloat16 for processors without AVX-512")
    assert (out[0] if isinstance(out, tuple) else out).dtype == getattr(lib, expected)


def test_transforms_under_autocast(lib):
    w, x = lib.rand(3, 3), lib.rand(2, 3)
    with lib.autocast("cpu"):
        assert lib.func.vmap(lambda v: v @ w)(x).dtype == lib.bfloat16
        assert lib.func.grad(lambda v: (x @ v).float().sum())(w).dtype == lib.float32


def test_a_scaler_keeps_tensors_that_subclasses_look_at(lib):
    scaler = lib.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
    p = lib.nn.Parameter(lib.ones(2))
    optimizer = lib.optim.SGD([p], lr=1.0)
    assert scaler._scale is None
    for message, call in (("_scale is None", lambda: scaler.step(optimizer)), ("_scale is None", scaler.update)):
        with pytest.raises(AssertionError, match=message):
            call()
    scales = []
    for slope in (1.0, 1.0, float("inf"), float("nan"), 1.0):
        optimizer.zero_grad()
        scaler.scale((p * slope).sum()).backward()
        found = scaler._check_inf_per_device(optimizer)
        assert bool(next(iter(found.values()))) == (slope != 1)
        scaler.step(optimizer)
        scaler.update()
        scales.append((scaler._scale.item(), scaler._growth_tracker.item()))
    assert scales == [(4, 1), (8, 0), (4, 0), (2, 0), (2, 1)] and p.tolist() == [-2, -2]
    again = pickle.loads(pickle.dumps(scaler))
    assert again.get_scale() == 2 and again.state_dict() == scaler.state_dict()
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        optimizer.zero_grad()
        scaler.step(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled at the beginning"):
        pickle.dumps(scaler)


def test_a_step_that_looks_at_the_scale_itself(lib):
    class Own(lib.optim.SGD):
        _step_supports_amp_scaling = True

        def step(self, closure=None):
            return self.grad_scale.item(), self.found_inf.item()
    p = lib.nn.Parameter(lib.ones(2))
    optimizer, scaler = Own([p], lr=1.0), lib.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(p.sum()).backward()
    assert scaler.step(optimizer) == (4, 0) and p.grad.tolist() == [4, 4] and not hasattr(optimizer, "grad_scale")


def test_gradients_are_unscaled_in_place(lib):
    grads, found = [lib.ones(2) * 4, lib.tensor([1.0, float("inf")])], lib.zeros(1)
    lib._amp_foreach_non_finite_check_and_unscale_(grads, found, lib.tensor(0.5))
    assert grads[0].tolist() == [2, 2] and found.item() == 1
    scale, count = lib.tensor([4.0]), lib.tensor([1], dtype=lib.int32)
    assert lib._amp_update_scale_(scale, count, lib.zeros(1), 2.0, 0.5, 2).item() == 8 and count.item() == 0


# What PyTorch runs below these, or by other names, isn't there.
BELOW = {"_convolution", "_convolution.deprecated", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell", "_scaled_dot_product_flash_attention"}


def test_the_list_for_devices_is_that_for_cuda():
    tede, torch = pytest.importorskip("tede"), pytest.importorskip("torch")
    header = pathlib.Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
    lines = re.sub(r"\\\s*\n", " ", header.read_text())
    expected = {"norm.Scalar": "fp32", "norm.ScalarOpt_dim": "fp32", "binary_cross_entropy": "unsafe"}
    for macro, policy in (("LOWER_PRECISION_FP", "lower_precision"), ("FP32", "fp32"), ("FP32_SET_OPT_DTYPE", "fp32"), ("PROMOTE", "promote")):
        names = re.findall(r"_\(([\w, ]+)\)", re.search(rf"AT_FORALL_{macro}\(_\)(.*)", lines)[1])
        expected |= {".".join(re.split(r",\s*", name)): policy for name in names}
    assert len(expected) > 100
    for name in expected.keys() - BELOW:
        policy = tede._C._op_traits(f"aten::{name}")["autocast"]
        assert (policy or "").rpartition("devices: ")[2] == expected[name], name


@pytest.mark.parametrize("kind, given", [("RNN", "bfloat16"), ("LSTM", "bfloat16"), ("GRU", "float32")])
def test_recurrent_layers_take_inputs_of_another_dtype(lib, kind, given):
    layer = getattr(lib.nn, kind)(4, 3).to(lib.bfloat16)
    with pytest.raises(ValueError, match="does not match weight dtype"):
        layer(lib.rand(2, 1, 4))
    with lib.amp.autocast("cpu"):
        assert layer(lib.rand(2, 1, 4))[0].dtype is getattr(lib, given)


@pytest.mark.parametrize("kind", ["GRUCell", "LSTMCell", "RNNCell"])
@pytest.mark.parametrize("of_state", ["float32", "bfloat16"])
def test_a_cells_state_keeps_its_dtype(lib, kind, of_state):
    """... or that of the products, where it is the wider one."""
    cell, state = getattr(lib.nn, kind)(3, 4), lib.rand(2, 4).to(getattr(lib, of_state))
    with lib.autocast("cpu"):
        results = cell(lib.rand(2, 3), (state, state.clone()) if kind == "LSTMCell" else state)
    for result in results if kind == "LSTMCell" else [results]:
        assert result.dtype == (lib.bfloat16 if kind == "RNNCell" else state.dtype)
        result.float().sum().backward(retain_graph=True)
    assert cell.weight_hh.grad.dtype == lib.float32


def test_autocast_of_devices_that_are_not_there_is_off(lib):
    for kind, name in {'xla': 'bfloat16', 'ipu': 'float16', 'mtia': 'float16', 'maia': 'bfloat16', 'xpu': 'float16', 'hpu': 'bfloat16'}.items():
        assert lib.is_autocast_enabled(kind) is False and lib.get_autocast_dtype(kind) == getattr(lib, name)
    with warnings.catch_warnings(action='ignore'):       # deprecated
        assert lib.is_autocast_xla_enabled() is False and lib.get_autocast_xla_dtype() == lib.bfloat16
    with pytest.raises(RuntimeError, match='unsupported scalarType'):
        lib.get_autocast_dtype('meta')
    with pytest.raises(RuntimeError, match='Expected one of cpu, cuda'):
        lib.is_autocast_enabled('foo')
