"""What programs do with a device beyond operators: training with running statistics, index tensors of the CPU, autocast, files, DLPack, copies of
modules; and explain. On the toy of examples/c, most of whose operators are computed by the CPU."""
import copy
import io
import json
import pickle

import pytest
import tede
from test_devices import toy  # noqa: F401  (a fixture)


def both(make, steps):
    """The parameters, buffers and gradients after `steps(module, device)`, here and on the toy."""
    states = []
    for device in ("cpu", "toy:1"):
        tede.manual_seed(3)
        module = make().to(device)
        steps(module, device)
        state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
        assert all(x.device == tede.device(device) for x in state.values())
        states.append({name: x.detach().cpu() for name, x in state.items()} | {f"{name}.grad": x.grad.cpu() for name, x in module.named_parameters()
                                                                              if x.grad is not None})
    return states


def assert_same(states, **tolerance):
    here, there = states
    assert here.keys() == there.keys()
    for name in here:
        tede.testing.assert_close(there[name], here[name], **tolerance, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("make", [
    lambda: tede.nn.BatchNorm1d(4), lambda: tede.nn.BatchNorm1d(4, momentum=None), lambda: tede.nn.BatchNorm1d(4, affine=False),
    lambda: tede.nn.InstanceNorm1d(4, track_running_stats=True, affine=True),
], ids=["batch", "cumulative", "plain", "instance"])
def test_running_statistics_are_written_there(toy, make):       # noqa: F811
    def steps(module, device):
        for shape in ((5, 4, 3), (2, 4, 6)):
            x = (tede.arange(float(shape[0] * 4 * shape[2])).reshape(shape) % 7).to(device).requires_grad_()
            (module(x) ** 3).sum().backward()
    states = both(make, steps)
    assert states[0]["running_mean"].abs().min() > 0.1
    assert_same(states)


def test_an_operator_that_writes_says_so(toy):          # noqa: F811
    mean, var = tede.zeros(3, device="toy"), tede.ones(3, device="toy")
    tede.native_batch_norm(tede.randn(6, 3, device="toy") + 5, None, None, mean, var, True, 0.5, 1e-5)
    assert mean.min() > 1 and mean.device.type == "toy"
    frozen = mean.clone()
    tede.native_batch_norm(tede.randn(6, 3, device="toy"), None, None, mean, var, False, 0.5, 1e-5)
    assert mean.tolist() == frozen.tolist()


@pytest.mark.parametrize("drop", [tede.nn.functional.dropout, tede.nn.functional.alpha_dropout, tede.nn.functional.feature_alpha_dropout,
                                  tede.nn.functional.dropout2d], ids=lambda f: f.__name__)
def test_dropout_has_gradients_there(toy, drop):        # noqa: F811
    tede.manual_seed(1)
    x = tede.ones(4, 5, 3, 3, device="toy:1", requires_grad=True)
    y = drop(x, 0.5, training=True)
    y.sum().backward()
    kept = y != y.min()
    assert 0 < kept.sum() < y.numel() and x.grad.device == tede.device("toy:1")
    assert (x.grad[kept] > 0).all() and (x.grad[~kept] == 0).all()
    z = tede.ones(50, device="toy:1")
    tede.nn.functional.dropout(z, 0.5, inplace=True)
    assert set(z.tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("make", [
    lambda p: tede.optim.Adam(p, fused=True), lambda p: tede.optim.AdamW(p, fused=True, amsgrad=True), lambda p: tede.optim.SGD(p, lr=.1, momentum=.9, fused=True),
    lambda p: tede.optim.Adagrad(p, fused=True), lambda p: tede.optim.Adam(p, foreach=True), lambda p: tede.optim.RMSprop(p, foreach=True),
    lambda p: tede.optim.Adam(p, lr=tede.tensor(0.01), capturable=True, foreach=True), lambda p: tede.optim.LBFGS(p, max_iter=3),
    lambda p: tede.optim.Adagrad(p, lr=tede.tensor(0.01), fused=True), lambda p: tede.optim.Adagrad(p, lr=tede.tensor(0.01)),
    lambda p: tede.optim.NAdam(p, capturable=True), lambda p: tede.optim.Adamax(p, capturable=True), lambda p: tede.optim.ASGD(p),
])
def test_optimizers_step_there(toy, make):              # noqa: F811
    def steps(module, device):
        x, y = tede.linspace(-1, 1, 12).reshape(4, 3).to(device), tede.ones(4, 2, device=device)
        optimizer = make(module.parameters())

        def loss():
            optimizer.zero_grad()
            value = tede.nn.functional.mse_loss(module(x), y)
            value.backward()
            return value
        for _ in range(3):
            optimizer.step(loss)
        beside = optimizer.defaults.get("fused") or optimizer.defaults.get("capturable") or isinstance(optimizer, tede.optim.ASGD)
        for state in optimizer.state.values():
            assert all(state[name].device == tede.device(device if beside else "cpu") for name in ("step", "mu_product", "eta", "mu") if name in state)
        again = make(module.parameters())
        again.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        again.step(loss)
    assert_same(both(lambda: tede.nn.Linear(3, 2), steps), rtol=1e-4, atol=1e-5)


INDEXINGS = [
    lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x[i, i], lambda x, i: x[i > 0], lambda x, i: x[[0, 1], [1, 2]], lambda x, i: x[..., [0, 2]],
    lambda x, i: x[None, i], lambda x, i: x[i.unsqueeze(1), i], lambda x, i: x.index_put((i,), x.new_ones(()) * 7),
    lambda x, i: x.index_put((i, i), tede.tensor(3.)), lambda x, i: x.index_put((i,), x[:2], accumulate=True),
]


@pytest.mark.parametrize("number", range(len(INDEXINGS)))
def test_indices_may_be_on_the_cpu(toy, number):        # noqa: F811
    call, i = INDEXINGS[number], tede.tensor([2, 0])
    x = tede.arange(9.).reshape(3, 3).requires_grad_()
    z = x.detach().to("toy:1").requires_grad_()
    if number == 3:
        i = tede.tensor([2, 0, 1])
    here, there = call(x, i), call(z, i)
    assert there.device == tede.device("toy:1")
    tede.testing.assert_close(there.cpu(), here)
    (here * 3).sum().backward()
    (there * 3).sum().backward()
    assert z.grad.tolist() == x.grad.tolist()
    there = call(z.detach(), i.to("toy:1"))
    tede.testing.assert_close(there.cpu(), here.detach())


def test_writes_by_indices_of_the_cpu(toy):             # noqa: F811
    x = tede.zeros(3, 3, device="toy")
    x[tede.tensor([0, 2])] = 5
    x[[1], [1]] = tede.tensor(2.)
    x[tede.tensor([False, True, False])] -= 1
    assert x.tolist() == [[5, 5, 5], [-1, 1, -1], [5, 5, 5]]
    i = tede.tensor([0], device="toy")
    for refused, match in ((lambda: tede.ones(3)[i], r"indices should be either on cpu or on the same device as the indexed tensor \(cpu\)"),
                           (lambda: x.to("toy:1")[i], r"indices should be either on cpu or on the same device as the indexed tensor \(toy:1\)"),
                           (lambda: x.gather(0, tede.tensor([[0]])), "Expected all tensors to be on the same device.* two devices, toy:0 and cpu!"),
                           (lambda: x + tede.ones(3), "Expected all tensors to be on the same device"),
                           (lambda: tede.cat([x, tede.ones(1, 3)]), "Expected all tensors to be on the same device"),
                           (lambda: x @ tede.ones(3, 3), "Expected all tensors to be on the same device"),
                           (lambda: tede.nn.functional.embedding(tede.tensor([0]), x), "Expected all tensors to be on the same device"),
                           (lambda: tede.add(x, x, out=tede.empty(3, 3)), "Expected (all tensors to be on the same device|out tensor)"),
                           (lambda: x.index_add(0, tede.tensor([0]), x[:1]), "Expected all tensors to be on the same device")):
        with pytest.raises(RuntimeError, match=match):
            refused()


def test_what_depends_on_values_reads_them_there(toy):  # noqa: F811
    singular = tede.ones(2, 2, device="toy")
    for call in (tede.linalg.inv, tede.linalg.cholesky, lambda x: tede.linalg.solve(x, x), lambda x: tede.linalg.inv(x.expand(3, 2, 2).double())):
        with pytest.raises(tede.linalg.LinAlgError):
            call(singular - 1)
    with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
        singular.masked_fill(singular > 0, tede.tensor(1j, device="toy"))
    for call in (lambda x: tede.linalg.norm(x, -2), tede.linalg.det, lambda x: tede.linalg.matrix_norm(x, "nuc")):
        grads = []
        for device in ("cpu", "toy"):
            x = tede.zeros(3, 3, device=device, requires_grad=True)
            call(x).sum().backward()
            grads.append(x.grad.tolist())
        assert grads[0] == grads[1]


@pytest.mark.parametrize("r, replaced", [(1, False), (2, False), (2, True), (3, False)])
def test_combinations_of_elements_there(toy, r, replaced):         # noqa: F811
    x = tede.tensor([1., 2., 3., 4.], device="toy").requires_grad_()
    rows = tede.combinations(x, r, replaced)
    rows.sum().backward()
    here = tede.combinations(x.detach().cpu(), r, replaced)
    assert rows.device.type == "toy" and rows.tolist() == here.tolist() and x.grad.tolist() == [here.eq(v).sum().item() for v in range(1, 5)]


def test_a_factor_without_an_inverse_is_found_there(toy):          # noqa: F811
    factor = tede.tensor([[2., 0.], [1., 3.]], device="toy")
    assert tede.allclose(tede.cholesky_inverse(factor).cpu(), tede.cholesky_inverse(factor.cpu()))
    factor[1, 1] = 0
    with pytest.raises(RuntimeError, match="singular"):
        tede.cholesky_inverse(factor)


def test_copies_of_what_is_lazily_conjugated(toy):      # noqa: F811
    x = tede.tensor([1 + 2j, 3 - 4j])
    for source in (x.conj().to("toy"), x.to("toy").conj()):
        for made in (source, source.clone(), source.resolve_conj(), source.cpu(), source.to("toy:1"), source.contiguous(), tede.tensor(source.tolist())):
            assert made.tolist() == [1 - 2j, 3 + 4j]
    y = tede.zeros(2, dtype=tede.complex64, device="toy")
    y.conj().copy_(x)
    assert y.tolist() == [1 - 2j, 3 + 4j]
    y.imag.copy_(x.conj().imag)
    assert y.tolist() == [1 - 2j, 3 + 4j] and x.conj().imag.to("toy").tolist() == [-2, 4] == x.to("toy").conj().imag.clone().tolist()
    r = tede.randn(31)
    tede.testing.assert_close(tede.fft.ifft(r.to("toy")).clone().cpu(), tede.fft.ifft(r))


def test_autocast_casts_operands_of_its_device(toy):    # noqa: F811
    x, here = tede.ones(3, 3, device="toy", requires_grad=True), tede.ones(3, 3)
    with tede.autocast("toy", dtype=tede.bfloat16):
        assert tede.is_autocast_enabled("toy") and tede.get_autocast_dtype("toy") is tede.bfloat16 and not tede.is_autocast_enabled("cpu")
        y = x @ x
        assert y.dtype is tede.bfloat16 and (here @ here).dtype is tede.float32 and (x.double() @ x.double()).dtype is tede.float64
        with tede.autocast("cpu", dtype=tede.float16):
            assert (here @ here).dtype is tede.float16 and (x @ x).dtype is tede.bfloat16
        assert (here @ here).dtype is tede.float32
        with tede.autocast("toy", enabled=False):
            assert (x @ x).dtype is tede.float32
        assert tede.nn.functional.mse_loss(y, y).dtype is tede.float32
    assert not tede.is_autocast_enabled("toy") and (x @ x).dtype is tede.float32
    y.sum().backward()
    assert x.grad.dtype is tede.float32
    with tede.toy.amp.autocast():
        assert (x @ x).dtype is tede.float16
    with pytest.warns(UserWarning, match="In TOY autocast, but the target dtype is not supported"), tede.autocast("toy", dtype=tede.int32):
        assert (x @ x).dtype is tede.float32
    assert tede.amp.is_autocast_available("toy") and tede.toy.get_amp_supported_dtype()


def test_autocast_has_another_list_on_devices(toy):     # noqa: F811
    """PyTorch's for CUDA, not that for the CPU."""
    F = tede.nn.functional
    here = tede.rand(2, 3, 8, 8).bfloat16()
    there = here.to("toy")
    weight = tede.ones(3, 3, 3, 3, device="toy")
    with tede.autocast("toy", dtype=tede.bfloat16), tede.autocast("cpu", dtype=tede.bfloat16):
        for call in (tede.exp, lambda x: tede.softmax(x, 1), lambda x: x.pow(2), lambda x: x.sum(), lambda x: tede.cumsum(x, 0)):
            assert (call(here).dtype, call(there).dtype) == (tede.bfloat16, tede.float32)
        for call in (lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"), lambda x: F.adaptive_avg_pool3d(x, 2)):
            assert (call(here).dtype, call(there).dtype) == (tede.float32, tede.bfloat16)
        assert tede.addcmul(there, there, there.float()).dtype is tede.float32
        assert tede.addcmul(there, there, there).dtype is tede.bfloat16
        assert F.conv2d(there.float(), weight, padding="same").dtype is tede.bfloat16       # made of conv2d
        for x in (there, there.double()):
            with pytest.raises(RuntimeError, match="binary_cross_entropy is unsafe to autocast"):
                F.binary_cross_entropy(x, x)
        assert F.binary_cross_entropy(here, here).dtype is tede.float32
        assert F.binary_cross_entropy_with_logits(there, there).dtype is tede.float32


def test_scaled_gradients(toy):                         # noqa: F811
    layer = tede.nn.Linear(2, 1).to("toy")
    optimizer, scaler = tede.optim.SGD(layer.parameters(), lr=0.1), tede.amp.GradScaler("toy", init_scale=4.)
    before = layer.weight.detach().clone()
    for factor in (float("inf"), 1.):
        optimizer.zero_grad()
        with tede.autocast("toy"):
            loss = layer(tede.ones(2, 2, device="toy")).sum() * factor
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if factor > 1:
            assert tede.equal(before, layer.weight) and scaler.get_scale() == 2
    assert (before - layer.weight).flatten().tolist() == pytest.approx([0.2, 0.2], abs=1e-6)


def test_files(toy, tmp_path):                          # noqa: F811
    from tede import safetensors
    x = tede.arange(6.).reshape(2, 3).to("toy:1")
    safetensors.save_file({"x": x.t()}, tmp_path / "x.safetensors")
    for device in ("toy:1", "toy", "cpu", tede.device("toy:1")):
        loaded = safetensors.load_file(tmp_path / "x.safetensors", device=device)["x"]
        assert loaded.device.type == tede.device(device).type and loaded.tolist() == x.t().tolist()
    tede.save({"x": x, "view": x[1:], "p": tede.nn.Parameter(x)}, tmp_path / "x.pt")
    for where, device in ((None, "toy:1"), ("cpu", "cpu"), ("toy:0", "toy:0"), ({"toy:1": "toy:0"}, "toy:0"), (tede.device("toy:0"), "toy:0"),
                          (lambda storage, place: storage, "cpu"), (lambda storage, place: storage.to(device="toy:0") if place == "toy:1" else None, "toy:0")):
        loaded = tede.load(tmp_path / "x.pt", map_location=where)
        assert all(y.device == tede.device(device) for y in loaded.values()), (where, loaded)
        assert loaded["x"].tolist() == x.tolist() and loaded["view"].untyped_storage().data_ptr() == loaded["x"].untyped_storage().data_ptr()
    legacy = io.BytesIO()
    tede.save(x, legacy, _use_new_zipfile_serialization=False)
    legacy.seek(0)
    assert tede.load(legacy).device == tede.device("toy:1")
    assert tede.load(tmp_path / "x.pt", mmap=True, map_location="toy")["x"].tolist() == x.tolist()


def test_copies_of_objects(toy):                        # noqa: F811
    x = tede.arange(4., device="toy:1")
    holder = {"x": x, "view": x[1:]}
    made = copy.deepcopy(holder)
    assert made["x"].device == x.device and made["x"].tolist() == x.tolist()
    made["x"][1] = 9
    assert made["view"][0].item() == 9 and x[1].item() == 1
    made = pickle.loads(pickle.dumps(holder))
    assert [(y.device, y.tolist()) for y in made.values()] == [(x.device, [0, 1, 2, 3]), (x.device, [1, 2, 3])]
    layer = copy.deepcopy(tede.nn.Linear(2, 2).to("toy"))
    assert layer.weight.is_toy and layer.toy(1).weight.device.index == 1 and layer.to("cpu").weight.device.type == "cpu"
    storage = x.untyped_storage()
    assert storage.device == x.device and storage.clone().device == x.device and storage.cpu().tolist() == x.cpu().untyped_storage().tolist()
    assert tede.UntypedStorage(4, device="toy").nbytes() == 4 and not storage.is_pinned()
    assert copy.copy(x).data_ptr() == x.data_ptr() and tede.zeros_like(x).device == x.device and x.new_tensor([1.]).device == x.device
    for made in (tede.tensor([1., 2.], device="toy:1"), tede.as_tensor([1.], device="toy:1"), tede.asarray([1.], device="toy:1"),
                 tede.full((2,), 3., device="toy:1"), tede.eye(2, device="toy:1"), tede.linspace(0, 1, 3, device="toy:1"), tede.randperm(4, device="toy:1"),
                 tede.empty_strided((2,), (3,), device="toy:1"), tede.nn.Linear(2, 2, device="toy:1").weight, tede.tril_indices(3, 3, device="toy:1")):
        assert made.device == tede.device("toy:1")
    with tede.device("toy:1"):
        assert tede.ones(2).device == x.device and tede.nn.LSTM(2, 2).weight_hh_l0.device == x.device


def test_dlpack_names_the_device(toy):                  # noqa: F811
    x = tede.arange(6., device="toy:1").reshape(2, 3)
    assert x.__dlpack_device__() == (12, 1)
    y = tede.from_dlpack(x)
    assert y.device == x.device and y.data_ptr() == x.data_ptr() and y.tolist() == x.tolist()
    assert tede.from_dlpack(tede.utils.dlpack.to_dlpack(x)).device == x.device
    side = tede.toy.Stream("toy:1")
    with side:
        z = x * 2
        capsule = z.__dlpack__(stream=tede.toy.default_stream(1).native_handle, max_version=(1, 0))
    assert tede.from_dlpack(capsule).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert tede.from_dlpack(x, device="cpu").tolist() == x.tolist() and tede.from_dlpack(x, copy=True).data_ptr() != x.data_ptr()
    with pytest.raises(ValueError, match="without a copy"):
        tede.from_dlpack(x, device="cpu", copy=False)
    with pytest.raises(RuntimeError, match="Cannot pack tensors on meta"):
        tede.ones(2, device="meta").__dlpack_device__()


def test_saved_tensors_on_the_cpu(toy):                 # noqa: F811
    x = tede.arange(1., 4., device="toy", requires_grad=True)
    with tede.autograd.graph.save_on_cpu(pin_memory=True):
        y = (x * x).exp()
    y.sum().backward()
    z = x.detach().cpu().requires_grad_()
    (z * z).exp().sum().backward()
    tede.testing.assert_close(x.grad.cpu(), z.grad)


def test_explain_says_where_calls_run(toy):             # noqa: F811
    x = tede.ones(2, 3, device="toy:1")
    file = io.StringIO()
    with tede.explain(file=file):
        x.exp()
        x + x
    text = file.getvalue()
    assert "exp(float32[2, 3] toy:1) -> float32[2, 3] toy:1" in text and "add.Tensor(float32[2, 3] toy:1, float32[2, 3] toy:1, 1)" in text
    assert "kernel   pointwise" in text and "keys     Dense toy" in text        # what the toy has registered, by its name in the toy's file
    assert "hidden copy of float32[2, 3] toy:1, 24 B: the CPU reads it" in text
    assert text.count("fell back to the CPU: the device has no kernel for it; 24 B copied there") == 1


def test_a_profile_has_the_time_of_streams(toy, tmp_path):      # noqa: F811
    x = tede.ones(8, device="toy:1")
    with tede.profiler.profile() as told:
        y = x + x
        with tede.toy.Stream("toy:1") as side:
            y * y
        tede.ones(3) + 1
    events = [e for e in told.events() if e.device != "cpu"]
    assert [(e.name, e.device, e.stream) for e in events if e.name in ("aten::add", "aten::mul")] == [
        ("aten::add", "toy:1", 0), ("aten::mul", "toy:1", side.stream_id)]
    assert all(e.device_time_total >= 0 and e.device_start > 0 for e in events)
    table = told.key_averages().table(sort_by="device_time_total")
    assert "Self TOY" in table and "Self TOY time total" in table
    told.export_chrome_trace(tmp_path / "trace.json")
    kernels = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e.get("cat") == "kernel"]
    assert {(k["pid"], k["tid"]) for k in kernels} == {("toy:1", "stream 0"), ("toy:1", f"stream {side.stream_id}")}
    with tede.profiler.profile(activities=[tede.profiler.ProfilerActivity.CPU]) as told:
        x + x
    assert all(e.device == "cpu" for e in told.events()) and "TOY" not in told.key_averages().table()
