"""Rare corners of dispatch that PyTorch's own tests visit: classes that keep their elements elsewhere, kernels that come and go."""
import pytest


@pytest.fixture
def wrapper(lib):
    class Wrapper(lib.Tensor):
        calls = []

        @staticmethod
        def __new__(cls, inner):
            made = lib.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
            made.inner = inner
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func.__name__)
            plain = [a.inner if isinstance(a, cls) else a for a in args]
            result = func(*plain, **(kwargs or {}))
            return cls(result) if isinstance(result, lib.Tensor) else result
    return Wrapper


def test_data_of_a_wrapper_is_what_its_class_makes_of_it(lib, wrapper):
    x = wrapper(lib.ones(2))
    data = x.data
    assert type(data) is wrapper and data.inner.tolist() == [1, 1] and "detach.default" in wrapper.calls
    before = x._version
    x.detach().add_(2)
    assert x._version == before + 1
    x.data.add_(2)
    assert x._version == before + 1


def test_a_wrapper_is_of_one_class(lib, wrapper):
    class Other(lib.Tensor):
        pass
    text = "subclass Other but the raw Tensor object is already associated to a python object of type Wrapper"
    for make in (lambda x: lib.Tensor._make_subclass(Other, x), lambda x: x.as_subclass(Other), Other):
        with pytest.raises(RuntimeError, match=text):
            make(wrapper(lib.ones(2)))
    with pytest.raises(TypeError, match="Other must define __torch_dispatch__"):
        lib.Tensor._make_wrapper_subclass(Other, (2, 2))


def test_a_wrapper_has_no_memory_to_point_to(lib, wrapper):
    storage = wrapper(lib.ones(2)).untyped_storage()
    assert storage.nbytes() == 8
    for attempt in (lambda: storage.data_ptr(), lambda: storage.resize_(0), lambda: storage.copy_(storage), lambda: storage.fill_(0)):
        with pytest.raises(RuntimeError, match="on an invalid python storage"):
            attempt()


def test_wrappers_come_from_workers_with_what_they_keep(lib, tmp_path):
    import subprocess
    import sys
    program = tmp_path / "two.py"
    program.write_text(f"""
import {lib.__name__} as torch
class Two(torch.Tensor):
    @staticmethod
    def __new__(cls, a, b):
        made = torch.Tensor._make_wrapper_subclass(cls, a.shape, dtype=a.dtype)
        made.a, made.b = a, b
        return made
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        parts = [func(*[getattr(x, name) if isinstance(x, cls) else x for x in args], **(kwargs or {{}})) for name in "ab"]
        return cls(*parts) if isinstance(parts[0], torch.Tensor) else parts[0]
def same(x):
    return x
if __name__ == "__main__":
    two = Two(torch.arange(3), torch.arange(3) + 5)
    for batch in torch.utils.data.DataLoader([two, two], batch_size=2, num_workers=1, collate_fn=same):
        print(type(batch[1]).__name__, batch[1].dtype == torch.int64, batch[1].a.tolist(), batch[1].b.tolist())
""")
    done = subprocess.run([sys.executable, "-W", "ignore", str(program)], capture_output=True, text=True)
    assert done.stdout == "Two True [0, 1, 2] [5, 6, 7]\n", done.stderr


def test_modes_are_asked_by_plain_methods(lib):
    from importlib import import_module
    base = import_module(f"{lib.__name__}.utils._python_dispatch").TorchDispatchMode

    class Mode(base):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))
    x = lib.ones(2)
    with pytest.raises(RuntimeError, match="classmethod is not supported, please make it a plain method"), Mode():
        x + 1


def test_classes_in_a_list_of_indices_are_asked(lib):
    class Silent(lib.Tensor):
        @classmethod
        def __torch_function__(cls, *args, **kwargs):
            return "asked"
    assert lib.rand(3)[[Silent(), Silent()]] == "asked"


def test_kernels_belong_to_the_librarys_key_and_namespace(lib):
    made = lib.library.Library("aten", "IMPL", "CPU")
    with pytest.raises(RuntimeError, match="inconsistent with the dispatch key"):
        made.impl("sum", lambda x: x.clone(), "Conjugate")
    made._destroy()
    made = lib.library.Library("dispatch_corners", "FRAGMENT")
    made.define("neg(Tensor self) -> Tensor")
    with pytest.raises(RuntimeError, match="operator name does not match namespace"):
        made.impl(lib.ops.aten.neg.default, lambda x: x.clone(), "CPU")
    made._destroy()


def test_a_kernel_that_goes_uncovers_the_one_before(lib):
    x = lib.tensor([1.0, -2.0])
    first, second = lib.library.Library("aten", "IMPL"), lib.library.Library("aten", "IMPL")
    first.impl("hardsigmoid", lambda x: lib.zeros(2), "CPU")
    second.impl("hardsigmoid", lambda x: lib.ones(2), "CPU")
    assert lib.nn.functional.hardsigmoid(x).tolist() == [1, 1]
    second._destroy()
    assert lib.nn.functional.hardsigmoid(x).tolist() == [0, 0]
    first._destroy()
    assert lib.nn.functional.hardsigmoid(x).tolist() == pytest.approx([2 / 3, 1 / 6])


def test_autocast_can_be_told_to_leave_an_operator_alone(lib):
    a, b = lib.rand(2, 3), lib.rand(3, 2)
    made = lib.library.Library("aten", "IMPL")
    made.impl("mm", lib.library.fallthrough_kernel, "AutocastCPU")
    with lib.autocast("cpu", lib.bfloat16):
        assert lib.mm(a, b).dtype == lib.float32
        assert lib.nn.functional.linear(a, b.T).dtype == lib.bfloat16
    made._destroy()
    with lib.autocast("cpu", lib.bfloat16):
        assert lib.mm(a, b).dtype == lib.bfloat16


def test_one_tensor_stands_for_a_list_that_may_have_absent_members(lib):
    aten, x, index = lib.ops.aten, lib.arange(4.).reshape(2, 2), lib.ones(2, dtype=lib.long)
    for call in (aten.index, aten.index.Tensor):
        assert call(x, index).item() == 3 and call(x, index[None]).tolist() == [[2, 3], [2, 3]]
    assert aten.index_put(x, index, lib.tensor(9.)).tolist() == [[0, 1], [2, 9]]
    assert lib.func.functionalize(aten.index)(x, index).item() == 3
    with pytest.raises(RuntimeError):
        aten.cat(x)
    with pytest.raises(TypeError):
        lib.index_put(x, index, lib.tensor(9.))
