"""torch.ao.quantization beside PyTorch's: the same ranges, the same layers, equal integers, and state dicts that go both ways."""
import io
import warnings

import pytest
import tede
from tede.ao import quantization as Q

torch = pytest.importorskip("torch")
from torch.ao import quantization as TQ  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
BOTH = [(tede, Q), (torch, TQ)]


def numbers(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def here(x):
    return tede.tensor(x.detach().numpy())


def plain(x):
    return torch.tensor((x.int_repr() if x.is_quantized else x).tolist(), dtype=torch.double)


def same(mine, theirs, tolerance=1e-6):
    if isinstance(theirs, (tuple, list)):
        for a, b in zip(mine, theirs, strict=True):
            same(a, b, tolerance)
        return
    mine, theirs = plain(mine), plain(theirs)
    assert mine.shape == theirs.shape
    assert torch.allclose(mine, theirs, rtol=tolerance, atol=tolerance)


def text(x):
    return repr(x).replace("tede", "torch")


def moved(value, writer, reader):
    file = io.BytesIO()
    writer.save(value, file)
    file.seek(0)
    return reader.load(file, weights_only=False)


def take(mine, theirs):
    """The state of PyTorch's module."""
    mine.load_state_dict(moved(theirs.state_dict(), torch, tede))


IMAGES = [numbers(2, 6, 5, 5, seed=seed) * (seed + 1) for seed in range(4)]


def observer(name, options):
    def of(lib, q):
        return getattr(q, name)(**{key: getattr(lib, value) if isinstance(value, str) else value for key, value in options.items()})
    return of(tede, Q), of(torch, TQ)


def ranges(name, kinds, dtypes, axes=(None,)):
    return [(name, {"qscheme": kind, "dtype": dtype, **({} if axis is None else {"ch_axis": axis})})
            for kind in kinds for dtype in dtypes for axis in axes]


PER_TENSOR, PER_CHANNEL = ("per_tensor_affine", "per_tensor_symmetric"), ("per_channel_affine", "per_channel_symmetric", "per_channel_affine_float_qparams")
OBSERVERS = [
    *ranges("MinMaxObserver", PER_TENSOR, ("quint8", "qint8", "qint32")), *ranges("MovingAverageMinMaxObserver", PER_TENSOR, ("quint8", "qint8")),
    *ranges("HistogramObserver", PER_TENSOR, ("quint8", "qint8")), *ranges("PerChannelMinMaxObserver", PER_CHANNEL, ("quint8", "qint8"), (0, 1)),
    *ranges("MovingAveragePerChannelMinMaxObserver", PER_CHANNEL, ("qint8",), (0, 1)),
    ("MinMaxObserver", {"quant_min": 0, "quant_max": 127}), ("HistogramObserver", {"reduce_range": True}),
    ("FixedQParamsObserver", {"scale": .1, "zero_point": 3})]


@pytest.mark.parametrize("name, options", OBSERVERS)
def test_observers_find_the_same_range(name, options):
    mine, theirs = observer(name, options)
    for x in IMAGES:
        mine(here(x))
        theirs(x)
    same(mine.calculate_qparams(), theirs.calculate_qparams())
    assert list(mine.state_dict()) == list(theirs.state_dict())
    if name != "HistogramObserver":
        assert text(mine) == repr(theirs)
    loaded, _ = observer(name, options)
    take(loaded, theirs)
    same(loaded.calculate_qparams(), theirs.calculate_qparams())


FAKE = """default_fake_quant default_weight_fake_quant default_per_channel_weight_fake_quant default_fused_act_fake_quant
    default_fused_per_channel_wt_fake_quant default_fused_wt_fake_quant default_fixed_qparams_range_0to1_fake_quant
    default_embedding_fake_quant default_dynamic_fake_quant default_histogram_fake_quant""".split()


@pytest.mark.parametrize("name", FAKE)
def test_fake_quantization_rounds_alike(name):
    mine, theirs = getattr(Q, name)(), getattr(TQ, name)()
    for x in IMAGES:
        a, b = here(x).requires_grad_(), x.clone().requires_grad_()
        made, expected = mine(a), theirs(b)
        same(made, expected, 1e-5)
        made.sum().backward()
        expected.sum().backward()
        same(a.grad, b.grad)
    same((mine.scale, mine.zero_point), (theirs.scale, theirs.zero_point))
    assert list(mine.state_dict()) == list(theirs.state_dict()) and text(mine)[:60] == repr(theirs)[:60]
    loaded = getattr(Q, name)()
    take(loaded, theirs)
    same(loaded.scale, theirs.scale)


def test_qconfigs_are_made_of_the_same():
    for name in dir(TQ):
        if isinstance(getattr(TQ, name), TQ.QConfig):
            assert text(getattr(Q, name)) == repr(getattr(TQ, name)), name
    assert not [name for name in TQ.__all__ if not hasattr(Q, name)]
    for backend in ("x86", "fbgemm", "qnnpack", "onednn"):
        assert text(Q.get_default_qconfig(backend)) == repr(TQ.get_default_qconfig(backend))
        for version in (0, 1):
            assert text(Q.get_default_qat_qconfig(backend, version)) == repr(TQ.get_default_qat_qconfig(backend, version))
        for kind in ("ConvTranspose2d", "LayerNorm", "PReLU", "Sigmoid", "Tanh"):
            for make in ("get_default_qconfig_mapping", "get_default_qat_qconfig_mapping"):
                mine, theirs = getattr(Q, make)(backend), getattr(TQ, make)(backend)
                assert text(mine.object_type_qconfigs[getattr(tede.nn, kind)]) == repr(theirs.object_type_qconfigs[getattr(torch.nn, kind)])


def network(lib, q):
    nn = lib.nn

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.quant, self.dequant = q.QuantStub(), q.DeQuantStub()
            self.conv, self.bn, self.relu = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
            self.conv2, self.relu2, self.sum = nn.Conv2d(8, 8, 3, groups=2), nn.ReLU(), lib.ao.nn.quantized.FloatFunctional()
            self.hardswish, self.pool, self.fc, self.norm = nn.Hardswish(), nn.AdaptiveAvgPool2d(2), nn.Linear(32, 10), nn.LayerNorm(10)
            self.sigmoid, self.fc2, self.relu3 = nn.Sigmoid(), nn.Linear(10, 4), nn.ReLU()

        def forward(self, x):
            x = self.relu(self.bn(self.conv(self.quant(x))))
            y = self.relu2(self.conv2(x))
            y = self.pool(self.hardswish(self.sum.add(y, y)))
            y = self.sigmoid(self.norm(self.fc(y.reshape(y.shape[0], -1))))
            return self.dequant(self.relu3(self.fc2(y)))
    return Network()


GROUPS = [["conv", "bn", "relu"], ["conv2", "relu2"], ["fc2", "relu3"]]


@pytest.mark.parametrize("backend", ["x86", "qnnpack"])
def test_a_model_is_prepared_and_converted(backend):
    images = [numbers(4, 3, 8, 8, seed=seed) for seed in range(3)]
    mine, theirs = network(tede, Q).eval(), network(torch, TQ).eval()
    take(mine, theirs)
    mine, theirs = Q.fuse_modules(mine, GROUPS), TQ.fuse_modules(theirs, GROUPS)
    same(mine(here(images[0])), theirs(images[0]), 1e-5)
    mine.qconfig, theirs.qconfig = Q.get_default_qconfig(backend), TQ.get_default_qconfig(backend)
    mine, theirs = Q.prepare(mine), TQ.prepare(theirs)
    for x in images:
        same(mine(here(x)), theirs(x), 1e-5)
    take(mine, theirs)              # ranges to the bit
    mine, theirs = Q.convert(mine), TQ.convert(theirs)
    assert text(mine) == repr(theirs) and list(mine.state_dict()) == list(theirs.state_dict())
    same(mine(here(images[0])), theirs(images[0]))
    again = Q.fuse_modules(network(tede, Q).eval(), GROUPS)
    again.qconfig = Q.get_default_qconfig(backend)
    again = Q.convert(Q.prepare(again))
    take(again, theirs)
    same(again(here(images[1])), theirs(images[1]))
    back = TQ.fuse_modules(network(torch, TQ).eval(), GROUPS)
    back.qconfig = TQ.get_default_qconfig(backend)
    back = TQ.convert(TQ.prepare(back))
    back.load_state_dict(moved(mine.state_dict(), tede, torch))
    assert torch.equal(back(images[2]), theirs(images[2]))


def test_a_model_is_trained_with_quantization():
    images = [numbers(4, 3, 8, 8, seed=seed) for seed in range(3)]
    mine, theirs = network(tede, Q).train(), network(torch, TQ).train()
    take(mine, theirs)
    mine, theirs = Q.fuse_modules_qat(mine, GROUPS), TQ.fuse_modules_qat(theirs, GROUPS)
    mine.qconfig, theirs.qconfig = Q.get_default_qat_qconfig("x86"), TQ.get_default_qat_qconfig("x86")
    mine, theirs = Q.prepare_qat(mine), TQ.prepare_qat(theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    take(mine, theirs)
    steps = [(mine, tede.optim.SGD(mine.parameters(), .01), here), (theirs, torch.optim.SGD(theirs.parameters(), .01), lambda x: x)]
    for x in images:
        losses = []
        for model, optimizer, of in steps:
            optimizer.zero_grad()
            loss = model(of(x)).pow(2).sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=2e-2)      # a number on the border of two integers goes either way
    take(mine, theirs)
    mine.apply(tede.ao.nn.intrinsic.qat.freeze_bn_stats)
    theirs.apply(torch.ao.nn.intrinsic.qat.freeze_bn_stats)
    mine, theirs = Q.convert(mine.eval()), TQ.convert(theirs.eval())
    assert text(mine) == repr(theirs)
    same(mine(here(images[0])), theirs(images[0]))


def recurrent(lib, kind, options):
    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = getattr(lib.nn, kind)(6, 5, **options)
            self.linear = lib.nn.Linear(10 if options.get("bidirectional") else 5, 3)

        def forward(self, x):
            y, hidden = self.layer(x)
            return self.linear(y), hidden
    return Model()


@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"batch_first": True}], ids=str)
@pytest.mark.parametrize("dtype", ["qint8", "float16"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_have_quantized_weights(kind, dtype, options):
    mine, theirs = recurrent(tede, kind, options), recurrent(torch, kind, options)
    take(mine, theirs)
    mine, theirs = Q.quantize_dynamic(mine, dtype=getattr(tede, dtype)), TQ.quantize_dynamic(theirs, dtype=getattr(torch, dtype))
    assert text(mine).replace("Model", "") == repr(theirs).replace("Model", "")
    x = numbers(7, 3, 6)
    expected, hidden = theirs(x)
    same(mine(here(x)), (expected, hidden), 1e-5)
    loaded = Q.quantize_dynamic(recurrent(tede, kind, options), dtype=getattr(tede, dtype))
    take(loaded, theirs)
    same(loaded(here(x))[0], expected, 1e-5)
    back = TQ.quantize_dynamic(recurrent(torch, kind, options), dtype=getattr(torch, dtype))
    back.load_state_dict(moved(mine.state_dict(), tede, torch))
    assert torch.equal(back(x)[0], expected)
    packed = torch.nn.utils.rnn.pack_sequence([numbers(n, 6, seed=n) for n in (5, 3, 2)])
    made = mine.layer(tede.nn.utils.rnn.PackedSequence(here(packed.data), here(packed.batch_sizes)))
    expected = theirs.layer(packed)
    same((made[0].data, made[1]), (expected[0].data, expected[1]), 1e-5)


@pytest.mark.parametrize("dtype", ["qint8", "float16"])
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell", "RNNCell"])
def test_cells_have_quantized_weights(kind, dtype):
    mine, theirs = tede.nn.Sequential(getattr(tede.nn, kind)(6, 5)), torch.nn.Sequential(getattr(torch.nn, kind)(6, 5))
    take(mine, theirs)
    mine, theirs = Q.quantize_dynamic(mine, dtype=getattr(tede, dtype)), TQ.quantize_dynamic(theirs, dtype=getattr(torch, dtype))
    x = numbers(3, 6)
    same(mine(here(x)), theirs(x), 1e-5)
    take(mine, theirs)
    same(mine(here(x)), theirs(x), 1e-5)
    assert text(mine) == repr(theirs)


@pytest.mark.parametrize("kind, options", [("Embedding", {}), ("EmbeddingBag", {"mode": "sum"})])
def test_embeddings_have_rows_of_bytes(kind, options):
    mine, theirs = (lib.nn.Sequential(getattr(lib.nn, kind)(10, 8, **options)) for lib in (tede, torch))
    take(mine, theirs)
    mine, theirs = Q.quantize_dynamic(mine, dtype=tede.quint8), TQ.quantize_dynamic(theirs, dtype=torch.quint8)
    at = torch.tensor([[1, 2, 3], [3, 4, 9]])
    same(mine(here(at)), theirs(at))
    take(mine, theirs)
    same(mine(here(at)), theirs(at))
    assert text(mine) == repr(theirs)


LAYERS = {
    "GroupNorm": (lambda nn: nn.GroupNorm(3, 6), (2, 6, 4, 4)), "InstanceNorm2d": (lambda nn: nn.InstanceNorm2d(6, affine=True), (2, 6, 4, 4)),
    "InstanceNorm1d": (lambda nn: nn.InstanceNorm1d(6), (2, 6, 9)), "BatchNorm2d": (lambda nn: nn.BatchNorm2d(6), (2, 6, 4, 4)),
    "BatchNorm3d": (lambda nn: nn.BatchNorm3d(6), (2, 6, 4, 4, 3)), "ELU": (lambda nn: nn.ELU(.7), (4, 5)),
    "LeakyReLU": (lambda nn: nn.LeakyReLU(.2), (4, 5)), "ReLU6": (lambda nn: nn.ReLU6(), (4, 5)), "Dropout": (lambda nn: nn.Dropout(.5), (4, 5)),
    "ConvTranspose2d": (lambda nn: nn.ConvTranspose2d(6, 4, 3, stride=2, output_padding=1), (2, 6, 4, 4)),
    "Conv3d": (lambda nn: nn.Conv3d(6, 4, 3), (2, 6, 4, 4, 4)),
    "Conv1d, mirrored": (lambda nn: nn.Conv1d(6, 4, 3, padding=2, padding_mode="reflect"), (2, 6, 9)),
    "Linear without bias": (lambda nn: nn.Linear(5, 3, bias=False), (4, 5))}


@pytest.mark.parametrize("make, shape", LAYERS.values(), ids=LAYERS)
def test_each_layer_gives_the_same_integers(make, shape):
    mine, theirs = (lib.nn.Sequential(q.QuantStub(), make(lib.nn)).eval() for lib, q in BOTH)
    take(mine, theirs)
    mine.qconfig, theirs.qconfig = Q.default_qconfig, TQ.default_qconfig
    mine, theirs = Q.prepare(mine), TQ.prepare(theirs)
    for seed in range(3):
        x = numbers(*shape, seed=seed)
        mine(here(x))
        theirs(x)
    take(mine, theirs)
    mine, theirs = Q.convert(mine), TQ.convert(theirs)
    assert text(mine) == repr(theirs)
    x = numbers(*shape, seed=9)
    same(mine(here(x)), theirs(x))
    take(mine, theirs)
    same(mine(here(x)), theirs(x))


def test_a_transposed_convolution_in_one_dimension():
    """PyTorch 2.13 gives something else for one group, and for a PReLU whose result has another scale: what floats give is what is wanted."""
    x, w, bias = here(numbers(2, 6, 9)), here(numbers(6, 4, 3, seed=1) * .3), here(numbers(4, seed=2))
    q, k = tede.quantize_per_tensor(x, .03, 60, tede.quint8), tede.quantize_per_tensor(w, .01, 0, tede.qint8)
    layer = tede.ao.nn.quantized.ConvTranspose1d(6, 4, 3, stride=2, padding=1)
    layer.set_weight_bias(k, bias)
    layer.scale, layer.zero_point = .05, 64
    expected = tede.nn.functional.conv_transpose1d(q.dequantize(), k.dequantize(), bias, stride=2, padding=1)
    assert (layer(q).dequantize() - expected.clamp(-64 * .05, 191 * .05)).abs().max() <= .0251
    slope = tede.quantize_per_tensor(tede.tensor([.25]), .002, 0, tede.quint8)
    made = tede.ops.quantized.prelu(q, slope, .02, 90)
    assert (made.dequantize() - tede.nn.functional.prelu(q.dequantize(), slope.dequantize()).clamp(-1.8, 3.3)).abs().max() <= .0101


def test_older_names_are_the_same_classes():
    import tede.nn.quantized.modules.linear as older
    import tede.quantization as both
    assert older.Linear is tede.ao.nn.quantized.Linear is tede.nn.quantized.Linear
    assert both.prepare is Q.prepare and both.observer is Q.observer and both.Int8WeightOnlyConfig
    assert tede.nn.intrinsic.qat.ConvBn2d is tede.ao.nn.intrinsic.qat.ConvBn2d


def test_what_is_wrong_is_said():
    for lib, q in BOTH:
        with pytest.raises(ValueError, match="pass observer class instead"):
            q.QConfig(activation=q.MinMaxObserver(), weight=q.default_weight_observer)
        with pytest.raises(AssertionError, match="only works on models in training mode"):
            q.prepare_qat(lib.nn.Linear(2, 2).eval())
        with pytest.raises(NotImplementedError, match="qscheme only support"):
            q.MinMaxObserver(qscheme=lib.per_channel_affine)
        with pytest.raises(AssertionError, match="not supported"):
            q.get_default_qconfig("nothing")
        with pytest.raises(ValueError, match="Don't know how to quantize"):
            q.quantize_dynamic(lib.nn.Linear(2, 2), dtype=lib.float64)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            scale, zero = q.MinMaxObserver().calculate_qparams()
        assert any("must run observer" in str(w.message) for w in caught) and scale.item() == 1 and zero.item() == 0
    with pytest.raises(NotImplementedError, match="layer by layer"):
        tede.ao.quantization.quantize_fx.prepare_fx(None)


def test_a_range_that_is_not_whole_goes_before_rounding():
    x, scales, zeros = numbers(4, 5), torch.rand(4) * .1 + .02, torch.rand(4) * 20
    same(tede.fake_quantize_per_channel_affine(here(x), here(scales), here(zeros), 0, 0, 255),
         torch.fake_quantize_per_channel_affine(x, scales, zeros, 0, 0, 255))


def test_layers_with_a_norm_start_freeze_and_give_their_parameters_back(lib):
    """One class begins them all: their entries, whether the norm is frozen by what is passed, and what from_float keeps."""
    qat, qconfig = lib.ao.nn.intrinsic.qat, lib.ao.quantization.get_default_qat_qconfig("fbgemm")
    for make in (lambda **more: qat.LinearBn1d(3, 4, **more), lambda **more: qat.ConvBn2d(2, 3, 3, **more),
                 lambda **more: qat.ConvBnReLU1d(2, 3, 3, bias=True, **more)):
        with pytest.raises(AssertionError, match="qconfig must be provided"):
            make()
        free, frozen = make(qconfig=qconfig), make(qconfig=qconfig, freeze_bn=True)
        assert [name for name, _ in free.named_children()] == ["bn", "weight_fake_quant"]
        assert (free.freeze_bn, free.eval().bn.training, free.train().bn.training) == (False, False, True)
        assert frozen.update_bn_stats() is frozen and not frozen.freeze_bn and frozen.bn.training
        frozen.freeze_bn_stats()
        assert frozen.freeze_bn and not frozen.train().bn.training
    float_one = lib.ao.nn.intrinsic.LinearBn1d(lib.nn.Linear(3, 4), lib.nn.BatchNorm1d(4))
    float_one.qconfig = qconfig
    made = qat.LinearBn1d.from_float(float_one)
    assert made.weight is float_one[0].weight and made.bn.running_var is float_one[1].running_var
    assert made.to_float().weight.shape == (4, 3)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name, shape", [("ConvBn2d", (3, 2, 5, 5)), ("ConvBnReLU2d", (3, 2, 5, 5)), ("ConvBn1d", (3, 2, 9))])
def test_norms_with_factors_of_zero(name, shape, training, bias):
    """Trained without a division by them, where that was asked for."""
    found, state = [], None
    for lib, q in BOTH:
        layer = getattr(lib.ao.nn.intrinsic.qat, name)(2, 3, 2, bias=bias, qconfig=q.get_default_qat_qconfig("fbgemm"))
        layer._enable_slow_path_for_better_numerical_stability = True
        layer.train(training).apply(q.disable_fake_quant)           # a last bit more or less would be a step
        with lib.no_grad():
            layer.bn.weight[1] = 0
        if found:
            layer.load_state_dict(state)
        state = moved(layer.state_dict(), tede, torch) if lib is tede else None
        x = (here(numbers(*shape)) if lib is tede else numbers(*shape)).requires_grad_()
        y = [layer(x), layer(x)]
        y[1].sum().backward()
        found.append((layer, [*y, x.grad, layer.weight.grad, layer.bn.weight.grad, layer.bn.running_mean, layer.bn.running_var]))
    for mine, theirs in zip(found[0][1], found[1][1], strict=True):
        assert mine.isfinite().all()
        same(mine.detach(), theirs.detach(), 1e-4)


def test_qconfigs_placed_on_a_module_are_the_same():
    for lib, q in BOTH:
        model = lib.nn.Sequential(lib.nn.EmbeddingBag(4, 3))
        model[0].qconfig = q.default_embedding_qat_qconfig
        assert q.qconfig.qconfig_equals(q.prepare_qat(model)[0].qconfig, q.default_embedding_qat_qconfig)


def test_what_embeddings_for_training_refuse():
    for lib, q in BOTH:
        layers = lib.ao.nn.qat
        for name, title in (("Embedding", "Embedding"), ("EmbeddingBag", "Embedding Bag")):
            kind, layer = getattr(layers, name), getattr(lib.nn, name)(4, 3)
            with pytest.raises(AssertionError, match="qconfig must be provided"):
                kind(4, 3, qconfig=None)
            with pytest.raises(AssertionError, match=f"{title} weights requires a qscheme"):
                kind(4, 3, qconfig=q.default_qconfig)
            with pytest.raises(AssertionError, match="must have qconfig defined"):
                kind.from_float(layer)
            layer.qconfig = None
            with pytest.raises(AssertionError, match="must have a valid qconfig"):
                kind.from_float(layer)
            layer.qconfig = q.default_qconfig
            with pytest.raises(AssertionError, match=f"{title} weights requires a qscheme"):
                kind.from_float(layer)


def test_a_synchronised_norm_keeps_its_qconfig():
    model = tede.nn.Sequential(tede.nn.BatchNorm2d(1), tede.nn.BatchNorm2d(1))
    model[1].qconfig = Q.default_qconfig
    model = tede.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert model[1].qconfig is Q.default_qconfig and not hasattr(model[0], "qconfig")
