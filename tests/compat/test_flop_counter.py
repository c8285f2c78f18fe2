"""FlopCounterMode counts what products do, by module and in all."""
import importlib

import pytest


@pytest.fixture
def count(lib):
    mode = importlib.import_module(lib.__name__ + ".utils.flop_counter").FlopCounterMode

    def count(function):
        with mode(display=False) as counter:
            function()
        return counter
    return count


def test_products(lib, count):
    a, b = lib.rand(3, 4), lib.rand(4, 5)
    assert count(lambda: a @ b).get_total_flops() == 2 * 3 * 4 * 5
    assert count(lambda: lib.rand(2, 3, 4) @ lib.rand(2, 4, 5)).get_total_flops() == 2 * 2 * 3 * 4 * 5
    assert count(lambda: a + a).get_total_flops() == 0


def test_layers_and_their_gradients(lib, nn, count):
    conv, x = nn.Conv2d(3, 6, 3, padding=1), lib.rand(2, 3, 8, 8, requires_grad=True)
    once = 2 * 2 * 6 * 64 * 3 * 9
    assert count(lambda: conv(x)).get_total_flops() == once
    assert count(lambda: conv(x).sum().backward()).get_total_flops() == 3 * once


def test_modules(lib, nn, count):
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6))
    counts = {name: sum(values.values()) for name, values in count(lambda: model(lib.rand(3, 4))).get_flop_counts().items()}
    assert counts == {"Global": 300, "Sequential": 300, "Sequential.0": 120, "Sequential.2": 180}


def test_modules_count_their_gradients(lib, nn, count):
    net, x = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), lib.rand(3, 4, requires_grad=True)
    counts = count(lambda: net(x).sum().backward()).get_flop_counts()
    sums = {module: {str(op).rpartition(".")[2]: n for op, n in of.items()} for module, of in counts.items()}
    assert sums["Global"] == sums["Sequential"] == {"addmm": 288, "mm": 576}
    assert sums["Sequential.0"] == {"addmm": 192, "mm": 384} and sums["Sequential.2"] == {"addmm": 96, "mm": 192}


def test_formulas_of_ones_own(lib):
    counter = importlib.import_module(lib.__name__ + ".utils.flop_counter")
    aten, x = lib.ops.aten, lib.ones(4, 5)
    with counter.FlopCounterMode(display=False, custom_mapping={aten.add: lambda *args, out_shape: 5}) as mode:
        x + x
    assert mode.get_total_flops() == 5 and mode.get_flop_counts()["Global"] == {aten.add: 5}

    def raw(*args, out_val):
        return out_val.numel()
    raw._get_raw = True
    with counter.FlopCounterMode(display=False, custom_mapping={aten.add: raw}) as mode:
        x + x
    assert mode.get_total_flops() == 20
    with counter.FlopCounterMode(display=False) as mode:
        x @ x.t()
    assert mode.get_flop_counts()["Global"][aten.mm] == 160 and aten.mm in counter.flop_registry
    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        counter.register_flop_formula(lambda x: x)(raw)
    with pytest.raises(RuntimeError, match="duplicate registrations for aten.mm"):
        counter.register_flop_formula(aten.mm)(raw)
    with pytest.warns(UserWarning, match="mods argument is not needed anymore"):
        counter.FlopCounterMode(lib.nn.Linear(1, 1), display=False)
