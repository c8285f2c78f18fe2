"""FakeTensorMode: shapes, dtypes and devices without values."""
import copy
import importlib

import pytest


def fakes(lib):
    return importlib.import_module(lib.__name__ + "._subclasses.fake_tensor")


def test_operators_give_fakes(lib):
    F = fakes(lib)
    with F.FakeTensorMode() as mode:
        x = lib.ones(2, 3)
        y = x @ lib.randn(3, 4)
        assert type(y) is F.FakeTensor and F.is_fake(y) and y.fake_mode is mode
        assert (y.shape, y.dtype, y.stride(), y.device) == ((2, 4), lib.float32, (4, 1), lib.device("cpu"))
        assert y.is_cpu and not y.is_meta and x.add_(1) is x and x.t().stride() == (1, 3)
        assert lib.cat([x, x]).shape == (4, 3) and lib.where(x > 0, x, 0.).shape == (2, 3) and lib.tensor([1, 2]).sum().shape == ()
        x[0] = 1
    assert type(lib.ones(1)) is lib.Tensor


def test_devices(lib):
    F = fakes(lib)
    with F.FakeTensorMode():
        z = lib.empty(4, device="cuda")
        assert z.device == lib.device("cuda", 0) and z.is_cuda and (z * 2 + 1).sum().device == z.device
        assert z.cpu().device == z.to("cpu").device == lib.device("cpu") and z.new_zeros(2).device == z.device
        assert (z + lib.ones(())).device == z.device
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu"):
            z + lib.ones(4)


def test_networks_train(lib):
    F = fakes(lib)
    with F.FakeTensorMode():
        net = lib.nn.Sequential(lib.nn.Linear(3, 8), lib.nn.ReLU(), lib.nn.LayerNorm(8), lib.nn.Dropout(0.5), lib.nn.Linear(8, 2))
        optimizer = lib.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        lib.nn.functional.cross_entropy(net(lib.randn(5, 3)), lib.tensor([0, 1, 0, 1, 0])).backward()
        optimizer.step()
        grad = net[0].weight.grad
        assert F.is_fake(grad) and grad.shape == (8, 3) and grad.device == lib.device("cpu")
        assert copy.deepcopy(net)[0].weight.shape == (8, 3)
        assert lib.nn.LSTM(3, 4)(lib.randn(5, 2, 3))[0].shape == (5, 2, 4)
        assert lib.func.vmap(lambda a: a.sum())(lib.randn(4, 2)).shape == (4,)


def test_what_depends_on_values(lib):
    F = fakes(lib)
    with F.FakeTensorMode():
        x = lib.ones(2, 2)
        for run in (lambda: x.sum().item(), lambda: bool(x[0, 0] > 0), lambda: float(x[0, 0])):
            with pytest.raises(F.DataDependentOutputException):
                run()
        for run in (lambda: x.nonzero(), lambda: x[x > 0], lambda: lib.unique(x)):
            with pytest.raises(F.DynamicOutputShapeException):
                run()


def test_fakes_of_real_tensors(lib):
    F = fakes(lib)
    mode = F.FakeTensorMode()
    real = lib.ones(3, 2).t()
    a = mode.from_tensor(real)
    assert a.shape == (2, 3) and a.stride() == (1, 2) and mode.from_tensor(real) is a and (a + 1).shape == (2, 3)
    assert repr(a) == "FakeTensor(..., size=(2, 3))"
    p = mode.from_tensor(lib.nn.Parameter(lib.ones(2)))
    assert isinstance(p, lib.nn.Parameter) and p.requires_grad and F.is_fake(p)
    with pytest.raises(AssertionError, match="Please convert all Tensors to FakeTensors first"):
        a + lib.ones(2, 3)
    layer = lib.nn.Conv2d(3, 4, 3)
    with F.FakeTensorMode(allow_non_fake_inputs=True):
        made = layer(lib.randn(1, 3, 8, 8))
    assert F.is_fake(made) and made.shape == (1, 4, 6, 6)


def test_the_active_mode_is_the_innermost_one(lib):
    import importlib
    guards, F = importlib.import_module(lib.__name__ + "._guards"), fakes(lib)
    assert guards.active_fake_mode() is None and guards.detect_fake_mode([lib.ones(2)]) is None
    with F.FakeTensorMode() as outer:
        assert guards.active_fake_mode() is outer and guards.detect_fake_mode() is outer
        x = lib.ones(2)
    assert guards.active_fake_mode() is None and guards.detect_fake_mode({"x": [x]}) is outer
    with F.FakeTensorMode(), pytest.raises(AssertionError, match="doesn't match mode"):
        guards.detect_fake_mode(x)


def test_results_of_numbers_are_fake(lib):
    F = fakes(lib)
    with F.FakeTensorMode():
        x = lib.div(3, 2)
        assert F.is_fake(x) and x.shape == () and x.device == lib.device("cpu")
        assert F.is_fake(lib.zeros(2, dtype=lib.int32) * 2.0)


def test_how_fakes_are_shown(lib):
    with fakes(lib).FakeTensorMode():
        assert repr(lib.empty(2, 2)) == "FakeTensor(..., size=(2, 2))"
        assert repr(lib.empty(2, 2, device="meta")) == "FakeTensor(..., device='meta', size=(2, 2))"


def test_numbers_that_a_program_writes_down_are_known(lib):
    F = fakes(lib)
    with F.FakeTensorMode():
        x = lib.tensor(4.0)
        assert F.is_fake(x) and x.item() == 4 and (x + 1).item() == 5 and lib.div(9, 4, rounding_mode="trunc").item() == 2
        y = x.add_(1)
        assert x.item() == y.item() == 5 and y is x
        with pytest.raises(F.DataDependentOutputException):
            lib.tensor([1., 2.]).sum().item()           # of several nothing is kept
        with pytest.raises(F.DataDependentOutputException):
            (x + lib.rand(())).item()
        x, = lib.tensor([4.0]),
        view = x[:]
        assert view.constant.data_ptr() == x.constant.data_ptr()
        view.fill_(3)
        assert x.item() == 3
        view.add_(lib.rand(1))
        assert x.constant is None and view.constant is None
        with pytest.raises(F.DataDependentOutputException):
            x.item()
        x = lib.tensor([1])
        x.expand(4)[0] = 2          # too large to be kept, and x is written
        assert x.constant is None
        x = lib.tensor([1])
        x.resize_(2)
        assert x.constant is None and x.shape == (2,)


def test_fakes_alias_as_the_real_tensors_do(lib):
    F = fakes(lib)
    mode = F.FakeTensorMode()
    x = lib.rand(2, 3)
    y, grown = x[1], lib.nn.Parameter(lib.rand(3))
    grown.grad = lib.rand(3)
    a, b = mode.from_tensor(x), mode.from_tensor(y)
    assert a.untyped_storage()._cdata == b.untyped_storage()._cdata and b.storage_offset() == 3 and b.stride() == (1,)
    fake = mode.from_tensor(grown)
    assert isinstance(fake, lib.nn.Parameter) and F.is_fake(fake.grad) and fake.grad.shape == (3,)
    converter = F.FakeTensorConverter()
    first = converter.from_real_tensor(mode, x)
    assert converter.from_real_tensor(mode, x) is first and len(converter.tensor_memo) == 1
    del x, first
    assert len(converter.tensor_memo) == 0


def test_a_module_is_copied_with_fakes(lib):
    F = fakes(lib)
    mode = F.FakeTensorMode()
    model = lib.nn.BatchNorm1d(3)
    model.again = model.running_mean
    with F.FakeCopyMode(mode):
        copied = copy.deepcopy(model)
    assert all(F.is_fake(t) for t in (*copied.parameters(), *copied.buffers())) and not F.is_fake(model.weight)
    assert isinstance(copied.weight, lib.nn.Parameter) and copied.weight.requires_grad and copied.again is copied.running_mean


def test_modes_are_not_mixed(lib):
    F = fakes(lib)
    with F.FakeTensorMode():
        a = lib.rand(2)
        with F.FakeTensorMode():
            with pytest.raises(AssertionError, match="Mixing fake modes"):
                a + lib.rand(2)


def test_an_operator_without_a_fake_kernel(lib):
    F = fakes(lib)
    library = lib.library.Library("fake_kernels", "DEF")
    try:
        library.define("cosine(Tensor self) -> Tensor")
        library.impl("cosine", lambda self: self.cos(), "CPU")
        with F.FakeTensorMode() as mode:
            with pytest.raises(F.UnsupportedOperatorException, match="fake_kernels.cosine.default"):
                lib.ops.fake_kernels.cosine(lib.rand(2))
        del mode
    finally:
        library._destroy()


def test_tensors_on_meta_are_to_one_another_as_the_real_ones(lib):
    utils = importlib.import_module(lib.__name__ + "._subclasses.meta_utils")

    def same(a, b):
        assert a == b
    x = lib.randn(4, 6, requires_grad=True)
    y = x * 2
    holder = lib.zeros(8)
    leaf = holder.view(2, 4)
    leaf.requires_grad = True
    x.grad = lib.ones(4, 6)
    for t in (x, y, y[1:, ::2], x[0], leaf, leaf.view(2, 2, 2), lib.randn(2, 3, 4, 5).to(memory_format=lib.channels_last), lib.empty_strided((2, 2), (4, 2)),
              lib.view_as_real(lib.randn(3, dtype=lib.complex64)), lib.view_as_complex(lib.randn(3, 2)), lib.randn(3, dtype=lib.complex64).conj(),
              lib.randn(3, dtype=lib.complex64).imag, lib.randn(4).view(lib.int32), lib.zeros(0, 3), lib.tensor(1.)):
        m = utils.MetaConverter()(t)
        assert m.is_meta
        utils.assert_metadata_eq(same, m, t)
    convert = utils.MetaConverter()
    a, b = convert(y[:]), convert(y[1])
    assert a is not b and a._is_view() and a._base is b._base and convert(y) is a._base and convert.successful()
    version = b._version
    with lib.no_grad():
        a.add_(1)
    assert b._version > version
    lib.autograd.grad(convert(y).sum(), convert(y))
    assert convert(7) == 7 and convert.miss == 0

    class Mine(lib.Tensor):
        pass
    if lib.__name__ == "tede":          # PyTorch converts more classes
        assert convert(lib.ones(2).as_subclass(Mine)) is NotImplemented and not convert.successful()


def test_metadata_is_compared(lib):
    common = importlib.import_module(lib.__name__ + "._prims_common")
    a, b = lib.zeros(2, 3), lib.zeros(3, 2).t()
    common.compare_tensor_meta(a, b)
    for other, says in ((b, "Stride mismatch"), (a.double(), "Dtypes"), (a[0], "Shapes"), (a.to("meta"), "Devices"), (lib.zeros(7)[1:].view(2, 3), "offset")):
        with pytest.raises(RuntimeError, match=says):
            common.compare_tensor_meta(a, other, check_strides=True)
    assert common.check_all_strides(a, b, only_cuda=False) == (False, 0) and common.check_all_strides(a, b)[0]
    assert common.check_significant_strides(lib.zeros(1, 3), lib.zeros(1, 3).as_strided((1, 3), (9, 1)), only_cuda=False)[0]
    assert common.dtype_to_type(lib.half) is float and common.type_to_dtype(complex) == lib.complex64
    assert common.suggest_memory_format(lib.zeros(2, 3, 4, 5).to(memory_format=lib.channels_last)) == lib.channels_last


def test_aliases_of_results(lib):
    F, utils = fakes(lib), importlib.import_module(lib.__name__ + "._subclasses.fake_utils")
    a, b = lib.ones(2, 2), lib.ones(2)
    assert utils.outputs_alias_inputs([a[0]], (b, {"x": a})) and not utils.outputs_alias_inputs(a + 1, [a, b])
    assert utils.outputs_are_inputs((a,), [b, a]) and not utils.outputs_are_inputs(a[0], [a])
    assert utils.output_alias_each_other([a[0], a[1]]) and not utils.output_alias_each_other([a, b])
    mode = F.FakeTensorMode()
    fake = mode.from_tensor(a)
    utils._check_alias_info("op", a[0], [a], fake[0], [fake])
    with pytest.raises(RuntimeError, match="mismatch in outputs_alias_inputs check"):
        utils._check_alias_info("op", a[0], [a], fake.clone(), [fake])
    if lib.__name__ == "tede":
        assert utils.try_convert_fake_to_real([fake, b])[0] is a and utils.try_convert_fake_to_real([fake, b])[1] is b


def test_what_operators_make_besides_is_where_their_operands_are(lib):
    F = fakes(lib)
    F_nn = lib.nn.functional
    with F.FakeTensorMode():
        x = lib.rand(2, 3, 4)
        for made in (F_nn.feature_alpha_dropout(x, 0.3, True), lib.linalg.vander(x), lib.quantile(x, 0.5), lib.linalg.matrix_power(lib.rand(2, 2), 0)):
            assert made.device == lib.device("cpu")
        assert lib.ones(2, device="meta").is_meta and lib.empty_like(x, device="meta").is_meta


def test_graphs_of_fake_tensors_run_on_real_ones(lib):
    make_fx = importlib.import_module(lib.__name__ + ".fx.experimental.proxy_tensor").make_fx
    x, tau = lib.rand(3, 3), lib.rand(3)
    for function, operands in [(lib.linalg.vander, (x,)), (lambda x: lib.linalg.matrix_power(x, 0), (x,)), (lambda x: lib.quantile(x, 0.5), (x,)),
                               (lib.ormqr, (x, tau, x)), (lib.matmul, (lib.rand(2, 5, 0), lib.rand(0, 5))),
                               (lib.matmul, (lib.rand(2, 2, 5, 0), lib.rand(0, 5)))]:
        lib.testing.assert_close(make_fx(function, tracing_mode="fake")(*operands)(*operands), function(*operands))


def test_meta_may_be_refused(lib, monkeypatch):
    F = fakes(lib)
    if lib.__name__ == "torch":
        pytest.skip("the option had another place before, and has another name now")
    monkeypatch.setattr(importlib.import_module(lib.__name__ + "._functorch.config"), "fake_tensor_allow_meta", False)
    with F.FakeTensorMode(), pytest.raises(AssertionError):
        lib.rand(4, device="meta")


def test_the_mode_of_what_is_traced(lib):
    guards, F = importlib.import_module(lib.__name__ + "._guards"), fakes(lib)
    mode = F.FakeTensorMode()
    assert guards.TracingContext.try_get() is None
    with guards.tracing(guards.TracingContext(mode)) as context:
        assert guards.TracingContext.get() is context and guards.detect_fake_mode() is mode
        with guards.tracing(None):
            assert guards.TracingContext.try_get() is None
    assert guards.detect_fake_mode() is None


def test_tables_of_operators(lib):
    F = fakes(lib)
    aten = lib.ops.aten
    assert F._is_tensor_constructor(aten.empty.memory_format) and not F._is_tensor_constructor(aten.zeros_like.default)
    assert aten.zeros_like.default in F._like_tensor_constructors and aten.zeros.default not in F._like_tensor_constructors
    assert aten.to.device in F._device_not_kwarg_ops and aten.zeros.default not in F._device_not_kwarg_ops


def test_autocast_goes_by_the_device_that_fakes_say(lib):
    F = fakes(lib)
    x, w = lib.rand(2, 3), lib.rand(4, 3)
    mode = F.FakeTensorMode()
    with lib.amp.autocast("cpu", dtype=lib.bfloat16):
        for function in (lambda x, w: x @ w.t(), lib.nn.functional.linear, lambda x, w: lib.inner(x, w), lambda x, w: (x @ w.t()).softmax(-1)):
            want = function(x, w).dtype
            with mode:
                assert function(mode.from_tensor(x), mode.from_tensor(w)).dtype == want
        with mode:
            assert (lib.rand(2, 2, device="meta") @ lib.rand(2, 2, device="meta")).dtype == lib.float32
            assert (lib.rand(2, 2, device="cuda") @ lib.rand(2, 2, device="cuda")).dtype == lib.float32


@pytest.mark.parametrize("made", ["lib.Tensor([1, 2])", "lib.Tensor(2, 3)", "lib.FloatTensor([1.0])", "lib.ones(2).new([1, 2])",
                                  "lib.ones(2).new_tensor([1, 2], dtype=lib.int64)", "lib.from_numpy(numpy.ones((2, 2)))"])
def test_numbers_become_fake_tensors_by_whatever_constructor(lib, made):
    numpy = pytest.importorskip("numpy")
    fake = importlib.import_module(f"{lib.__name__}._subclasses.fake_tensor")
    names = {"lib": lib, "numpy": numpy}
    with fake.FakeTensorMode():
        x = eval(made, names)
    real = eval(made, names)
    assert isinstance(x, fake.FakeTensor) and (x.shape, x.dtype, x.device) == (real.shape, real.dtype, real.device)


@pytest.mark.parametrize("made, operator", [("lib.Tensor([1, 2])", "lift_fresh_copy"), ("lib.Tensor(2)", "empty"), ("x.new([1.0, 2.0])", "lift_fresh_copy")])
def test_a_graph_has_the_operator_that_makes_a_constant(lib, made, operator):
    make_fx = importlib.import_module(f"{lib.__name__}.fx.experimental.proxy_tensor").make_fx
    graph = make_fx(lambda x: x + eval(made, {"lib": lib, "x": x}))(lib.ones(2))
    assert operator in {node.target._opname for node in graph.graph.nodes if node.op == "call_function"}


def test_what_a_file_has_is_fake_within_the_mode(lib):
    import io
    import pickle
    fake = importlib.import_module(f"{lib.__name__}._subclasses.fake_tensor")
    file, x, real = io.BytesIO(), lib.nn.Parameter(lib.ones(2, 3)), lib.tensor([0])
    lib.save({"x": x, "y": x.detach()[1]}, file)
    with fake.FakeTensorMode():
        file.seek(0)
        read = lib.load(file)
        x, y = read["x"], read["y"]
        assert isinstance(x, fake.FakeTensor) and isinstance(y, fake.FakeTensor)
        assert (x.shape, x.device.type, x.requires_grad, y.shape, y.storage_offset()) == ((2, 3), "cpu", True, (3,), 3)
        assert isinstance(pickle.loads(pickle.dumps(real)), fake.FakeTensor)


def test_a_list_of_a_fake_tensors_numbers(lib):
    shapes = importlib.import_module(f"{lib.__name__}.fx.experimental.symbolic_shapes")
    fake = importlib.import_module(f"{lib.__name__}._subclasses.fake_tensor")
    with fake.FakeTensorMode(shape_env=shapes.ShapeEnv()):
        numbers = lib.rand(3).tolist()
    assert len(numbers) == 3 and all(isinstance(n, lib.SymFloat) for n in numbers)
    with fake.FakeTensorMode(), pytest.raises(Exception) as found:
        lib.rand(2).tolist()
    assert type(found.value).__name__ == "DataDependentOutputException"


def test_the_gradient_of_adaptive_means_lies_as_its_operand(lib):
    for dims, format in ((2, lib.channels_last), (3, lib.channels_last_3d)):
        grad, x = lib.rand(2, 3, *[4] * dims), lib.rand(2, 3, *[6] * dims).to(memory_format=format).requires_grad_()
        pool = getattr(lib.nn.functional, f"adaptive_avg_pool{dims}d")
        backward = getattr(lib.ops.aten, f"_adaptive_avg_pool{dims}d_backward")
        pool(x, 4).backward(grad)
        assert lib.allclose(backward(grad, x.detach()), x.grad)


def test_indices_of_bags_go_with_a_weight_on_meta(lib):
    def bags():
        embedding = lib.nn.EmbeddingBag(10, 3, mode="sum", device="meta")
        return embedding(lib.tensor([1, 2, 4, 5, 4, 3, 2, 9]), lib.tensor([0, 4]))
    assert bags().shape == (2, 3) and bags().device.type == "meta"
    with fakes(lib).FakeTensorMode():
        made = bags()
        assert made.shape == (2, 3) and made.device.type == "meta"
