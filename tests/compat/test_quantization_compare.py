"""Models beside their quantized forms (torch.ao.ns._numeric_suite), and what is done about the differences, as PyTorch does it."""
import copy
import functools

import pytest
import tede
from tede.ao import quantization as Q
from tede.ao.nn import quantized as nnq
from tede.ao.ns import _numeric_suite as ns
from tede.ao.quantization import _correct_bias, _equalize

torch = pytest.importorskip("torch")
from quantized_pairs import here, numbers  # noqa: E402
import torch.ao.ns._numeric_suite as their_ns  # noqa: E402
from torch.ao import quantization as TQ  # noqa: E402
from torch.ao.quantization import _equalize as their_equalize  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@functools.cache
def classes(lib, q):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.conv, self.relu = lib.nn.Conv2d(2, 3, 2), lib.nn.ReLU()
            self.plus = lib.ao.nn.quantized.FloatFunctional()
            self.linear = lib.nn.Linear(4, 5)

        def forward(self, x):
            x = self.relu(self.conv(self.quant(x)))
            x = self.plus.add_relu(x, x)
            return self.dequant(self.linear(x))

    class Recurrent(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.qconfig = q.default_dynamic_qconfig
            self.lstm = lib.nn.LSTM(2, 3)

        def forward(self, x):
            return self.lstm(x)
    return Model, Recurrent


def models(which, quantize):
    """(float, quantized) of tede and of PyTorch, of the same weights."""
    pair = []
    for lib, q in ((torch, TQ), (tede, Q)):
        model = classes(lib, q)[which]().eval()
        if pair:
            model.load_state_dict({name: here(x) for name, x in pair[0][0].state_dict().items()})
        pair.append((model, quantize(lib, q, model)))
    return reversed(pair)


def static(lib, q, model):
    model = copy.deepcopy(model)
    q.fuse_modules(model, [["conv", "relu"]], inplace=True)
    model.qconfig = q.default_qconfig
    prepared = q.prepare(model)
    x = numbers(2, 2, 4, 5)
    prepared(x if lib is torch else here(x))
    return q.convert(prepared)


def dynamic(lib, q, model):
    return q.quantize_dynamic(model, {lib.nn.LSTM}, dtype=lib.qint8)


def plain(x):
    x = x[0] if isinstance(x, (tuple, list)) else x
    return torch.tensor((x.dequantize() if x.is_quantized else x).tolist())


def same_dicts(mine, theirs):
    assert list(mine) == list(theirs)
    for key, found in theirs.items():
        assert mine[key].keys() == found.keys() == {"float", "quantized"}
        for kind in found:
            a, b = mine[key][kind], found[kind]
            if isinstance(b, list):
                assert len(a) == len(b) == 1
                a, b = a[0], b[0]
            assert torch.allclose(plain(a), plain(b), atol=1e-5)


@pytest.mark.parametrize("which, quantize", [(0, static), (1, dynamic)], ids=["static", "dynamic"])
def test_weights_beside_each_other(which, quantize):
    (mine, q_mine), (theirs, q_theirs) = models(which, quantize)
    expected = their_ns.compare_weights(theirs.state_dict(), q_theirs.state_dict())
    assert expected
    same_dicts(ns.compare_weights(mine.state_dict(), q_mine.state_dict()), expected)


@pytest.mark.parametrize("which, quantize, shape", [(0, static, (1, 2, 4, 5)), (1, dynamic, (4, 1, 2))], ids=["static", "dynamic"])
def test_results_beside_each_other(which, quantize, shape):
    (mine, q_mine), (theirs, q_theirs) = models(which, quantize)
    x = numbers(*shape, seed=3)
    expected = their_ns.compare_model_outputs(theirs, q_theirs, x)
    assert expected
    same_dicts(ns.compare_model_outputs(mine, q_mine, here(x)), expected)


@pytest.mark.parametrize("which, quantize, shape", [(0, static, (1, 2, 4, 5)), (1, dynamic, (1, 1, 2))], ids=["static", "dynamic"])
def test_float_layers_beside_quantized_ones(which, quantize, shape):
    (mine, q_mine), (theirs, q_theirs) = models(which, quantize)
    x, found = numbers(*shape, seed=3), []
    for lib, suite, model, q_model, data in ((tede, ns, mine, q_mine, here(x)), (torch, their_ns, theirs, q_theirs, x)):
        kinds = {lib.nn.Linear, lib.nn.LSTM, lib.ao.nn.quantized.FloatFunctional}
        found.append(suite.compare_model_stub(model, q_model, kinds, data))
        assert any(isinstance(module, suite.Shadow) for module in q_model.modules())
    same_dicts(*found)


def test_shadows_of_results_of_several_elements_keep_all():
    logger = ns.ShadowLogger()
    logger(tede.ones(2, 3), (tede.zeros(2, 3), None))
    assert logger.stats["float"][0].shape == logger.stats["quantized"][0].shape == (2, 3)
    with pytest.raises(NotImplementedError, match="define forward"):
        ns.Logger()(tede.ones(1))


@pytest.mark.parametrize("layers", [lambda nn: [nn.Conv2d(2, 3, 2), nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)],
                                    lambda nn: [nn.Linear(2, 3), nn.Linear(3, 4, bias=False), nn.Linear(4, 2)]], ids=["conv", "linear"])
def test_layers_are_equalized(layers):
    theirs = torch.nn.Sequential(*layers(torch.nn))
    mine = tede.nn.Sequential(*layers(tede.nn))
    mine.load_state_dict({name: here(x) for name, x in theirs.state_dict().items()})
    x = numbers(3, 2, 4, 4) if isinstance(theirs[0], torch.nn.Conv2d) else numbers(3, 2)
    before = mine(here(x))
    mine = _equalize.equalize(mine, [["0", "1", "2"]], 1e-6, inplace=False)
    their_equalize.equalize(theirs, [["0", "1", "2"]], 1e-6)
    for name, weight in theirs.state_dict().items():
        assert torch.allclose(torch.tensor(mine.state_dict()[name].tolist()), weight, atol=1e-4)
    for first, second in zip(mine, mine[1:]):
        assert tede.allclose(_equalize.channel_range(first.weight, 0), _equalize.channel_range(second.weight, 1), atol=1e-4)
    assert tede.allclose(mine(here(x)), before, atol=1e-4)


def test_what_cannot_be_equalized():
    with pytest.raises(ValueError, match="module type not supported"):
        _equalize.cross_layer_equalization(tede.nn.ReLU(), tede.nn.Linear(2, 2))
    with pytest.raises(TypeError, match="Number of output channels of first arg do not match"):
        _equalize.cross_layer_equalization(tede.nn.Linear(2, 3), tede.nn.Linear(2, 3))
    with pytest.raises(ValueError, match="must have the same set of names"):
        _equalize.converged({"a": tede.nn.Linear(2, 2)}, {})
    with pytest.raises(ValueError, match="at least two modules"):
        _equalize.expand_groups_in_paired_modules_list([["a"]])
    with pytest.raises(ValueError, match="not in the model"):
        _equalize.get_name_by_module(tede.nn.Linear(2, 2), tede.nn.ReLU())


@pytest.mark.parametrize("layer, shape", [(lambda: tede.nn.Conv2d(2, 3, 2), (4, 2, 6, 6)), (lambda: tede.nn.Linear(3, 4), (9, 3)),
                                          (lambda: tede.nn.Linear(3, 4), (5, 2, 3))], ids=["conv", "linear", "linear of batches"])
def test_biases_are_corrected(layer, shape):
    tede.manual_seed(0)
    model = Q.QuantWrapper(tede.nn.Sequential(layer())).eval()
    model.qconfig = Q.default_qconfig
    data = [(tede.randn(shape), None) for _ in range(8)]
    prepared = Q.prepare(model)
    for x, _ in data:
        prepared(x)
    quantized = Q.convert(prepared)
    inner = quantized.module[0]
    inner.set_weight_bias(inner.weight(), inner.bias() * 3 + 1)
    _correct_bias.bias_correction(model, quantized, data)
    assert isinstance(quantized.module[0], ns.Shadow)
    assert type(inner) in (nnq.Conv2d, nnq.Linear)
    assert (inner.bias() - model.module[0].bias).abs().max() < 0.1        # it was off by 1 and more


def test_arguments_of_layers_are_recorded():
    class Inner(tede.nn.Module):
        def forward(self, x, factor=2., more=None):
            return x * factor

    class Outer(tede.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x, more=[x])
    model, x = Outer(), tede.ones(2)
    found = Q.utils.get_fqn_to_example_inputs(model, (x,))
    assert found.keys() == {"", "inner"}
    assert found[""][0] is x and len(found[""]) == 1
    assert found["inner"][0] is x and found["inner"][1] == 2. and found["inner"][2][0] is x
    assert not model.inner._forward_pre_hooks


@pytest.mark.parametrize("kind, scheme", [("MovingAverageMinMaxObserver", "per_tensor_symmetric"),
                                          ("MovingAveragePerChannelMinMaxObserver", "per_channel_symmetric")])
def test_weights_stay_in_an_observers_range(kind, scheme):
    from tede.ao.nn.quantized.modules.utils import _quantize_weight
    weight = tede.tensor([[-1000., 1000.]])
    observer = getattr(Q, kind)(averaging_constant=1., dtype=tede.qint8, quant_min=-10, quant_max=10, qscheme=getattr(tede, scheme))
    observer(weight)
    quantized = _quantize_weight(weight * 1.2, observer)
    assert quantized.int_repr().tolist() == [[-10, 10]] and quantized.qscheme() is getattr(tede, scheme.replace("symmetric", "affine"))


def test_an_empty_table_of_classes_is_one():
    model = tede.nn.Sequential(tede.nn.LSTM(2, 2))
    model.qconfig = Q.default_qconfig
    assert type(Q.prepare(model, prepare_custom_config_dict={})[0]) is tede.nn.LSTM
    assert type(Q.prepare(model)[0]) is tede.ao.nn.quantizable.LSTM


def test_quantized_tensors_that_differ_are_compared():
    a, b = (tede.quantize_per_tensor(tede.tensor([1., 2., x]), 0.1, 3, tede.quint8) for x in (3., 3.1))
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 3"):
        tede.testing.assert_close(a, b)
    tede.testing.assert_close(a, b, atol=0.2, rtol=0)
