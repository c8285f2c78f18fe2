"""Metadata that a class is queried for instead of the tensor: dispatch_sizes_strides_policy, dispatch_device, dispatch_layout."""
import pytest


def queried(lib, answers, log=None, hollow=True, **policy):
    """An object of 2 x 3 whose class answers by the names of the queries."""
    class Queried(lib.Tensor):
        __torch_function__ = lib._C._disabled_torch_function_impl

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if log is not None:
                log.append((str(func), *args[1:]))
            return answers.get(str(func), answers.get("else"))

    if hollow:
        return lib.Tensor._make_wrapper_subclass(Queried, (2, 3), **policy)
    return lib.Tensor._make_subclass(Queried, lib.zeros(2, 3), False, **policy)


ANSWERS = {"aten.sym_size.default": (4, 5, 6), "aten.dim.default": 3, "aten.sym_numel.default": 120, "aten.numel.default": 120,
           "aten.sym_stride.default": (50, 10, 1), "aten.is_contiguous.default": False, "aten.is_contiguous.memory_format": True,
           "aten.sym_storage_offset.default": 7}


@pytest.mark.parametrize("hollow", [True, False])
def test_strides_alone(lib, hollow):
    x = queried(lib, ANSWERS, hollow=hollow, dispatch_sizes_strides_policy="strides")
    assert (x.shape, x.size(0), x.dim(), x.numel(), x.storage_offset(), len(x)) == ((2, 3), 2, 2, 6, 0, 2)
    assert (x.stride(), x.stride(0), x.stride(-1)) == ((50, 10, 1), 50, 1)
    assert not x.is_contiguous() and x.is_contiguous(memory_format=lib.channels_last)


@pytest.mark.parametrize("hollow", [True, False])
def test_sizes_and_strides(lib, hollow):
    x = queried(lib, ANSWERS, hollow=hollow, dispatch_sizes_strides_policy="sizes")
    assert type(x.shape) is lib.Size and x.shape == (4, 5, 6) and x.size() == (4, 5, 6)
    assert (x.size(1), x.size(-1), x.dim(), x.ndim, x.numel(), x.nelement(), x.storage_offset(), len(x), x.nbytes) == \
        (5, 6, 3, 3, 120, 120, 7, 4, 480)
    assert x.stride() == (50, 10, 1) and not x.is_contiguous()
    with pytest.raises(IndexError, match=r"range of \[-3, 2\], but got 3"):
        x.size(3)


def test_what_is_asked(lib):
    log = []
    x = queried(lib, ANSWERS, log, dispatch_sizes_strides_policy="sizes")
    for ask, operators in ((lambda: x.size(0), ["aten.dim.default", "aten.sym_size.default"]), (lambda: x.shape, ["aten.sym_size.default"]),
                           (lambda: x.numel(), ["aten.sym_numel.default"]), (lambda: x.nbytes, ["aten.numel.default"]),
                           (lambda: x.is_contiguous(memory_format=lib.contiguous_format), ["aten.is_contiguous.default"]),
                           (lambda: x.data_ptr(), ["aten.numel.default"])):
        log.clear()
        ask()
        assert [name for name, *_ in log] == operators
    log.clear()
    x.is_contiguous(memory_format=lib.channels_last)
    assert log == [("aten.is_contiguous.memory_format", lib.channels_last)]


def test_none_means_as_it_was_made(lib):
    x = queried(lib, {}, dispatch_sizes_strides_policy="sizes")
    assert (x.shape, x.stride(), x.numel(), x.storage_offset(), x.is_contiguous()) == ((2, 3), (3, 1), 6, 0, True)
    with pytest.raises(RuntimeError, match="dim returned invalid type NoneType, expected int"):
        x.dim()


def test_device_and_layout(lib):
    x = queried(lib, {"prim.device.default": lib.device("meta"), "prim.layout.default": lib.sparse_csr}, dispatch_device=True,
              dispatch_layout=True)
    assert x.device == lib.device("meta") and x.is_meta and not x.is_cpu and x.layout == lib.sparse_csr and x.is_sparse_csr
    x = queried(lib, {}, dispatch_layout=True)
    with pytest.raises(RuntimeError, match="layout returned invalid type NoneType, expected Layout"):
        x.layout


def test_nobody_answers(lib):
    x = queried(lib, {"else": NotImplemented}, dispatch_sizes_strides_policy="sizes", dispatch_device=True)
    for ask, name in ((x.size, "aten.sym_size"), (x.stride, "aten.sym_stride"), (x.is_contiguous, "aten.is_contiguous"),
                      (lambda: x.device, "prim.device")):
        with pytest.raises(TypeError, match=f"Multiple dispatch failed for 'torch.ops.{name}'"):
            ask()
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch._ops.aten.sin.default'"):
        lib.ops.aten.sin.default(x)


def test_wrong_policies(lib):
    with pytest.raises(ValueError, match="Unknown sizes_strides_policy: size"):
        queried(lib, {}, dispatch_sizes_strides_policy="size")


def test_metadata_queries_are_operators(lib):
    aten, x = lib.ops.aten, lib.zeros(2, 3, 4, 5).transpose(0, 1)
    assert aten.size(x) == aten.sym_size.default(x) == [3, 2, 4, 5] and aten.sym_size.int(x, -1) == aten.size(x, 3) == 5
    assert aten.stride(x) == list(x.stride()) and aten.sym_stride.int(x, 0) == x.stride(0)
    assert aten.dim(x) == 4 and aten.numel(x) == aten.sym_numel.default(x) == 120 and aten.sym_storage_offset(x) == 0
    assert not aten.is_contiguous(x) and not aten.is_contiguous.memory_format(x, lib.channels_last)
    assert aten.is_non_overlapping_and_dense(x) and not aten.is_non_overlapping_and_dense(x[:, :, ::2])
    assert not aten.is_strides_like_format(x, lib.channels_last)
    assert lib.ops.prim.device.default(x) == lib.device("cpu")
    assert sorted(aten.sym_size.overloads()) == ["default", "int"]
    assert str(aten.sym_size.int._schema) == "aten::sym_size.int(Tensor self, int dim) -> SymInt"
    assert str(aten.size.default) == "aten.size.default" and aten.size.default is aten.size.default
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor' for argument 'self'"):
        aten.size.default(3)
    with pytest.raises(AttributeError, match="has no overload name 'none'"):
        aten.size.none


def test_metadata_queries_go_to_torch_function(lib):
    seen = []

    class Watching(lib.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})
    x = lib.zeros(2).as_subclass(Watching)
    seen.clear()
    assert lib.ops.aten.size.default(x) == [2]
    assert seen[0] is lib.ops.aten.size.default


def test_a_handler_that_gives_none(lib):
    class Nothing(lib.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return None

    for wanted in (False, True):
        x = lib.zeros(2, 2, requires_grad=wanted).as_subclass(Nothing)
        assert x + 2 is None and x.sin() is None and x.view(4) is None and lib.cat([x, x]) is None
    assert (lib.zeros(2) + 1).tolist() == [1, 1]


def test_a_wrapper_without_repr_shows_what_its_class_gives(lib):
    class Wrapper(lib.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return func(*[a.inner if isinstance(a, Wrapper) else a for a in args], **(kwargs or {}))

    def wrap(inner):
        x = lib.Tensor._make_wrapper_subclass(Wrapper, inner.shape, dtype=inner.dtype)
        x.inner = inner
        return x
    assert repr(wrap(lib.arange(6.).reshape(2, 3))) == "Wrapper([[0., 1., 2.],\n         [3., 4., 5.]])"
    assert repr(wrap(lib.tensor(3.5))) == "Wrapper(3.5000)"
    assert repr(wrap(lib.zeros(0, 2))) == "Wrapper([], size=(0, 2))"


def test_a_query_within_no_dispatch_finds_what_was_made(lib):
    from importlib import import_module
    no_dispatch = import_module(f"{lib.__name__}.utils._mode_utils").no_dispatch
    calls = []

    class Queried(lib.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if "stride" in func._opname or func._opname.startswith("is_"):
                calls.append((str(func), *args[1:]))
                return None
            with no_dispatch():
                return func(*args, **(kwargs or {}))
    x = lib.Tensor._make_subclass(Queried, lib.randn(2, 2), True, dispatch_sizes_strides_policy="strides")
    aten = lib.ops.aten
    assert not aten.is_strides_like_format.default(x, lib.channels_last) and aten.is_non_overlapping_and_dense.default(x)
    assert calls == [("aten.is_strides_like_format.default", lib.channels_last), ("aten.is_non_overlapping_and_dense.default",)]


def test_type_as_goes_to_the_device_that_a_class_says(lib):
    x = queried(lib, {"prim.device.default": lib.device("meta")}, dispatch_device=True, dtype=lib.float64)
    y = lib.ones(1).type_as(x)
    assert (y.device.type, y.dtype) == ("meta", lib.float64)


@pytest.mark.parametrize("hollow", [True, False])
def test_contiguous_goes_by_what_the_class_says(lib, hollow):
    log = []
    x = queried(lib, {"aten.is_contiguous.default": True}, log, hollow, dispatch_sizes_strides_policy="strides")
    assert x.contiguous() is x and log == [("aten.is_contiguous.default",)]
    copy, log = lib.zeros(3), []
    x = queried(lib, {"aten.is_contiguous.default": False, "aten.clone.default": copy}, log, hollow, dispatch_sizes_strides_policy="strides")
    assert x.contiguous() is copy and log[0] == ("aten.is_contiguous.default",)
    x = queried(lib, {"aten.is_contiguous.default": NotImplemented}, hollow=hollow, dispatch_sizes_strides_policy="strides")
    with pytest.raises(TypeError, match="Multiple dispatch failed for 'torch.ops.aten.is_contiguous'"):
        x.contiguous()


@pytest.mark.parametrize("name, overloads", [
    ("aten.size", ["default", "int"]), ("aten.sym_size", ["default", "int"]), ("aten.stride", ["default", "int"]), ("aten.sym_stride", ["default", "int"]),
    ("aten.is_contiguous", ["default", "memory_format"]), ("aten.numel", ["default"]), ("aten.sym_numel", ["default"]), ("aten.dim", ["default"]),
    ("aten.storage_offset", ["default"]), ("aten.sym_storage_offset", ["default"]), ("aten.sym_is_contiguous", ["default"]),
    ("aten.set_", ["source_Tensor"]), ("prim.device", ["default"])])
def test_queries_have_tags(lib, name, overloads):
    space, name = name.split(".")
    packet = getattr(getattr(lib.ops, space), name)
    core = name in ("sym_numel", "sym_storage_offset", "sym_is_contiguous")
    for overload in overloads:
        own = {"core"} if core or name.startswith("sym_") and overload == "int" else {"inplace", "inplace_view"} if name == "set_" else set()
        assert {tag.name for tag in getattr(packet, overload).tags} == {*own, "pt2_compliant_tag"}
