"""Layers made of layers, nn.LSTM and nn.MultiheadAttention, through prepare and convert: beside PyTorch's."""
import io

import pytest
import tede

torch = pytest.importorskip("torch")

pytest.importorskip("torch.ao.nn.quantizable")
pytestmark = pytest.mark.filterwarnings("ignore")


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def here(x):
    return tede.tensor(x.detach().numpy())


def twins(name, *sizes, **options):
    """A layer here and there, with the same weights."""
    torch.manual_seed(3)
    theirs, mine = getattr(torch.nn, name)(*sizes, **options).eval(), getattr(tede.nn, name)(*sizes, **options).eval()
    for parameter in theirs.parameters():       # biases begin as zeros
        parameter.data = torch.randn_like(parameter) / 3
    mine.load_state_dict({name: here(x) for name, x in theirs.state_dict().items()})
    return (tede, mine), (torch, theirs)


def wrapped(lib, layer, count, train=False):
    """The layer between quantized operands, with a qconfig."""
    q = lib.ao.quantization

    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.stubs, self.layer = lib.nn.ModuleList(q.QuantStub() for _ in range(count)), layer

        def forward(self, *operands):
            return self.layer(*(stub(x) for stub, x in zip(self.stubs, operands)))
    model = Model().train(train)
    model.qconfig = (q.get_default_qat_qconfig if train else q.get_default_qconfig)("x86")
    return model


def flat(made):
    return [x for part in made for x in flat(part)] if isinstance(made, (tuple, list)) else [made]


def quantized(layers, operands, train=False):
    """(what the float layer gives, what the quantized one gives, that layer) for both."""
    made = []
    for lib, layer in layers:
        x = [here(x) if lib is tede else x for x in operands]
        model, q = wrapped(lib, layer, len(x), train), lib.ao.quantization
        before = flat(model(*x))
        prepared = (q.prepare_qat if train else q.prepare)(model)
        prepared(*x)
        converted = q.convert(prepared.eval())
        made.append((before, flat(converted(*x)), converted))
    return made


def distance(mine, theirs):
    return max((torch.tensor(a.int_repr().tolist()) - b.int_repr().int()).abs().max().item() for a, b in zip(mine, theirs))


def decibels(before, after):
    before, after = (torch.tensor(x[0].dequantize().tolist() if x[0].is_quantized else x[0].tolist()) for x in (before, after))
    return (20 * torch.log10(before.norm() / (before - after).norm())).item()


LSTMS = [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True, "bias": False}, {"num_layers": 3}]


@pytest.mark.parametrize("options", LSTMS, ids=str)
def test_lstm(options):
    (before, mine, model), (_, theirs, their_model) = quantized(twins("LSTM", 6, 8, **options), [numbers(5, 3, 6)])
    assert distance(mine, theirs) <= 1 and decibels(before, mine) > 20
    assert type(model.layer) is tede.ao.nn.quantized.LSTM and set(model.state_dict()) == set(their_model.state_dict())
    file = io.BytesIO()
    torch.save(their_model.state_dict(), file)
    file.seek(0)
    model.load_state_dict(tede.load(file, weights_only=False))


def test_lstm_with_a_state():
    operands = [numbers(5, 3, 6), numbers(2, 3, 8), numbers(2, 3, 8)]
    made = []
    for lib, layer in twins("LSTM", 6, 8, 2):
        q, x = lib.ao.quantization, [here(x) if lib is tede else x for x in operands]
        layer.qconfig = q.get_default_qconfig("x86")
        observed = lib.ao.nn.quantizable.LSTM.from_float(layer)
        observed(x[0], (x[1], x[2]))
        x = [lib.quantize_per_tensor(part, .03, 120, lib.quint8) for part in x]
        made.append(flat(lib.ao.nn.quantized.LSTM.from_observed(observed)(x[0], (x[1], x[2]))))
    assert distance(*made) <= 1


@pytest.mark.parametrize("split", [False, True])
def test_cells_and_layers_in_floats_are_those_of_nn(split):
    quantizable = tede.ao.nn.quantizable
    for options in LSTMS:
        (_, layer), _ = twins("LSTM", 6, 8, **options)
        layer.qconfig = tede.ao.quantization.default_qconfig
        observed, x = quantizable.LSTM.from_float(layer, split_gates=split), here(numbers(5, 3, 6))
        for a, b in zip(flat(observed(x)), flat(layer(x))):
            assert (a - b).abs().max() < 1e-6
    cell = tede.nn.LSTMCell(6, 8)
    cell.qconfig = tede.ao.quantization.default_qconfig
    made, x = quantizable.LSTMCell.from_float(cell, split_gates=split), here(numbers(3, 6))
    for a, b in zip(made(x), cell(x)):
        assert (a - b).abs().max() < 1e-6
    plain = quantizable.LSTM(6, 8, 2, bidirectional=True)       # never prepared
    assert plain(here(numbers(5, 3, 6)))[0].shape == (5, 3, 16)


def test_lstm_that_is_trained():
    (before, mine, model), (_, theirs, _) = quantized(twins("LSTM", 6, 8), [numbers(5, 3, 6)], train=True)
    assert type(model.layer) is tede.ao.nn.quantized.LSTM and distance(mine, theirs) <= 1


ATTENTION = [{}, {"kdim": 5, "vdim": 7}, {"bias": False}, {"add_zero_attn": True}, {"add_bias_kv": True}, {"batch_first": True}]


@pytest.mark.parametrize("options", ATTENTION, ids=str)
def test_attention(options):
    operands = [numbers(5, 3, 8), numbers(4, 3, options.get("kdim", 8), seed=1), numbers(4, 3, options.get("vdim", 8), seed=2)]
    if "batch_first" in options:
        operands = [x.transpose(0, 1).contiguous() for x in operands]
    (before, mine, model), (_, theirs, their_model) = quantized(twins("MultiheadAttention", 8, 2, **options), operands)
    assert decibels(before, mine) > 20
    if "batch_first" not in options:            # where PyTorch mixes up the heads
        assert distance(mine, theirs) <= (3 if "add_bias_kv" in options else 1)
    assert type(model.layer) is tede.ao.nn.quantized.MultiheadAttention and set(model.state_dict()) == set(their_model.state_dict())
    layer = model.layer.dequantize()
    assert type(layer) is tede.nn.MultiheadAttention
    assert (layer(*map(here, operands))[0] - before[0]).abs().max() < .05


def test_attention_with_masks():
    operands = [numbers(4, 2, 8), numbers(5, 2, 8, seed=1), numbers(5, 2, 8, seed=2)]
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
    for mask in (torch.ones(4, 5).triu(1).bool(), numbers(4, 5, seed=5), torch.ones(4, 4, 5).triu(1).bool()):
        made = []
        for lib, layer in twins("MultiheadAttention", 8, 2):
            to = here if lib is tede else lambda x: x
            layer.qconfig = lib.ao.quantization.default_qconfig
            observed = lib.ao.nn.quantizable.MultiheadAttention.from_float(layer)
            for average in (True, False):
                made.append([torch.tensor(x.tolist()) for x in observed(*map(to, operands), to(padding), attn_mask=to(mask), average_attn_weights=average)])
        for mine, theirs in zip(made[:2], made[2:]):
            for a, b in zip(mine, theirs):
                assert torch.allclose(a, b, atol=1e-6)


def test_what_is_refused():
    quantizable, quantized = tede.ao.nn.quantizable, tede.ao.nn.quantized
    for kind in (quantized.LSTM, quantized.MultiheadAttention):
        with pytest.raises(NotImplementedError, match="non-observed"):
            kind.from_float(None)
    for kind, layer in ((quantizable.LSTM, tede.nn.LSTM(2, 2)), (quantizable.MultiheadAttention, tede.nn.MultiheadAttention(2, 1))):
        with pytest.raises(AssertionError, match="qconfig"):
            kind.from_float(layer)
        with pytest.raises(NotImplementedError):
            kind.from_observed(layer)
    with pytest.raises(ValueError, match="range"):
        quantizable.LSTM(2, 2, dropout=2)
    x = tede.ones(2, 1, 2)
    with pytest.raises(AssertionError, match="causal"):
        quantizable.MultiheadAttention(2, 1)(x, x, x, is_causal=True)
    with pytest.raises(RuntimeError, match="2D attn_mask"):
        quantizable.MultiheadAttention(2, 1)(x, x, x, attn_mask=tede.ones(3, 3))
