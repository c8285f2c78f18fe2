"""Writing to a read-only tensor is an error that says why; reading it, and changing what it shows, is not."""
import io
import pickle
import warnings

import pytest

import tede

WRITES = {
    "add_": lambda x: x.add_(1), "+=": lambda x: x.__iadd__(1), "x[0]": lambda x: x.__setitem__(0, 1.0),
    "x[mask]": lambda x: x.__setitem__(x > 2, 1.0), "x[index]": lambda x: x.__setitem__(tede.tensor([0]), tede.ones(1)),
    "copy_": lambda x: x.copy_(tede.ones(4)), "zero_": lambda x: x.zero_(), "out=": lambda x: tede.exp(tede.ones(4), out=x),
    "uniform_": lambda x: x.uniform_(), "sort": lambda x: tede.sort(tede.ones(4), out=(x, tede.empty(4, dtype=tede.int64))),
    "through a view": lambda x: x[1:].mul_(2), "through detach": lambda x: x.detach().mul_(2),
    "through data": lambda x: x.data.fill_(1), "through a list": lambda x: tede._foreach_add_([tede.ones(2), x], 1.0),
    "boxed": lambda x: tede.ops.aten.add_.Tensor(x, x), "scatter_": lambda x: x.scatter_(0, tede.tensor([1]), 5.0),
    "optimizer": lambda x: tede.optim.SGD([_with_gradient(x)], lr=0.1).step(),
}


def _with_gradient(x):
    x.requires_grad_().grad = tede.ones(4)
    return x


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("watched", [False, True])
def test_a_write_is_an_error_and_changes_nothing(write, watched):
    x = tede.arange(4.)
    view = x.read_only()
    with pytest.raises(RuntimeError, match=r"is read-only: it, or what it is a view of, was made by read_only\(\); write to a copy"):
        if watched:
            with tede.explain(show=False):
                write(view)
        else:
            write(view)
    assert x.tolist() == [0, 1, 2, 3] and x._version == 0


def test_reading_is_as_always():
    x = tede.arange(4., requires_grad=True)
    view = x.read_only()
    assert view.is_read_only() and not x.is_read_only() and view.data_ptr() == x.data_ptr()
    (view * view).sum().backward()
    assert x.grad.tolist() == [0, 2, 4, 6]
    assert view.clone().add_(1).tolist() == [1, 2, 3, 4] and not view.clone().is_read_only()
    shown = x.detach().read_only()
    assert shown.unsqueeze_(0).shape == (1, 4) and shown.squeeze_().t_().shape == (4,)
    assert not pickle.loads(pickle.dumps(shown)).is_read_only()
    with tede.no_grad():
        x.add_(1)                       # the owner may
    assert view.tolist() == [1, 2, 3, 4]


def test_memory_that_is_lent_to_be_read():
    np = pytest.importorskip("numpy")
    array = np.arange(3.)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lent = [tede.from_numpy(array), tede.from_dlpack(array), tede.frombuffer(array.tobytes(), dtype=tede.float64)]
    for x in lent:
        assert x.is_read_only() and x[1:].is_read_only() and x.detach().is_read_only()
        with pytest.raises(RuntimeError, match=r"add_: self is read-only: its memory was lent to be read.*self\.clone\(\)"):
            x += 1
    assert array.tolist() == [0, 1, 2]
    assert not lent[0].numpy().flags.writeable and not tede.ones(2).read_only().numpy().flags.writeable


def test_a_file_that_is_mapped_to_be_read(tmp_path):
    from tede.safetensors import load_file, safe_open, save_file
    save_file({"x": tede.arange(3.)}, tmp_path / "x")
    assert not load_file(tmp_path / "x")["x"].is_read_only()
    x = load_file(tmp_path / "x", read_only=True)["x"]
    with pytest.raises(RuntimeError, match="read-only"):
        x.zero_()
    with safe_open(tmp_path / "x", read_only=True) as file:
        assert file.get_tensor("x").is_read_only() and file.get_slice("x")[1:].is_read_only()
    buffer = io.BytesIO()
    tede.save(x, buffer)
    buffer.seek(0)
    assert not tede.load(buffer).is_read_only()
