"""FakeTensor: a tensor without values that says it is on a device, and FakeTensorMode, within which all new tensors are such.

A fake tensor is one on the device "meta" whose class is asked for its device (csrc/metadata.c). Operators run as they do for meta
tensors; results are on the operands' device, or where a device= says. There are no symbolic sizes: what depends on values raises."""
from dataclasses import dataclass

import tede
from tede._compat import fill as _fill
from tede.overrides import TorchFunctionMode
from tede.utils import _pytree
from tede.utils._python_dispatch import TorchDispatchMode, no_dispatch

_META = tede.device("meta")


@dataclass
class UnsupportedFakeTensorException(RuntimeError):
    reason: str


@dataclass
class DynamicOutputShapeException(RuntimeError):
    func: object


@dataclass
class DataDependentOutputException(RuntimeError):
    func: object


@dataclass
class UnsupportedOperatorException(RuntimeError):
    func: object


class FakeTensorDeviceMismatchError(RuntimeError):
    """Operands on devices that don't go together."""


def is_fake(x):
    """Whether a tensor is fake."""
    return isinstance(x, FakeTensor)


def maybe_get_fake_mode(x):
    """The mode of a fake tensor, or None."""
    return x.fake_mode if is_fake(x) else None


def _indexed(device):
    return tede.device(device.type, 0) if device.index is None and device.type not in ("cpu", "meta") else device


class FakeTensor(tede.Tensor):
    """A tensor without values; FakeTensorMode makes them."""

    @staticmethod
    def __new__(cls, fake_mode, elem, device):
        device = _indexed(tede.device(device))
        if not elem.is_meta:
            raise AssertionError(f"a fake tensor is made of one on 'meta', not on '{elem.device}'")
        self = tede.Tensor._make_subclass(cls, elem, elem.requires_grad, dispatch_device=True)
        self.fake_device, self.fake_mode = device, fake_mode
        return self

    @staticmethod
    def from_tensor(t, fake_mode):
        return fake_mode.from_tensor(t)

    def __repr__(self, *, tensor_contents=None):
        text = super().__repr__(tensor_contents="...")
        if self.fake_device.type == "cpu":
            return text.replace("device='meta', ", "").replace(", device='meta'", "")
        return text.replace("device='meta'", f"device='{self.fake_device}'")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is tede.ops.prim.device.default:
            return args[0].fake_device
        mode = next(x for x in _pytree.arg_tree_leaves(*args, **(kwargs or {})) if isinstance(x, FakeTensor)).fake_mode
        with mode:
            return func(*args, **(kwargs or {}))


class _Data(TorchFunctionMode):
    """Tensors of numbers, which no operator makes, are fake as well."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return self.mode.from_tensor(result) if func in (tede.tensor, tede.as_tensor, tede.asarray) else result


class FakeTensorMode(TorchDispatchMode):
    """Within it new tensors are fake, and operators on fake tensors give fake tensors.

    allow_non_fake_inputs: real operands are taken for fake ones, instead of refused."""

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None):
        super().__init__()
        if shape_env is not None or static_shapes is False:
            raise NotImplementedError("FakeTensorMode: there are no symbolic sizes here, so shape_env can't be followed")
        self.allow_fallback_kernels, self.allow_non_fake_inputs = allow_fallback_kernels, allow_non_fake_inputs
        self.shape_env, self.static_shapes = None, True
        self._known, self._data = tede.utils.weak.WeakIdKeyDictionary(), []

    @classmethod
    def is_infra_mode(cls):
        return True

    def __deepcopy__(self, memo):
        return self

    def __enter__(self):
        self._data.append(_Data(self).__enter__())
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self._data.pop().__exit__(*exception)

    def from_tensor(self, tensor, *, static_shapes=None, source=None, symbolic_context=None, trace=True):
        """The fake tensor of a real one: the same each time."""
        if isinstance(tensor, FakeTensor):
            if tensor.fake_mode is not self:
                raise AssertionError("Mixing fake modes NYI")
            return tensor
        fake = self._known.get(tensor)
        if fake is None:
            with no_dispatch(), tede.no_grad():
                elem = tede.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
            fake = FakeTensor(self, elem, tensor.device).requires_grad_(tensor.requires_grad)
            if isinstance(tensor, tede.nn.Parameter):
                fake._is_param = True
            self._known[tensor] = fake
        return fake

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is tede.ops.prim.device.default:
            return args[0].fake_device if isinstance(args[0], FakeTensor) else None
        if func.namespace == "prim" or func._overloadpacket.__name__ in ("sym_size", "sym_stride", "is_contiguous", "dim"):
            return None
        leaves = [x for x in _pytree.arg_tree_leaves(*args, **kwargs) if isinstance(x, tede.Tensor)]
        args, kwargs = self._all_fake(func, leaves, args, kwargs)
        if tede.Tag.data_dependent_output in func.tags:
            raise DataDependentOutputException(func)
        if tede.Tag.dynamic_output_shape in func.tags and self._has_dynamic_shape(func, args):
            raise DynamicOutputShapeException(func)
        device = self._device_of(func, leaves, kwargs)
        if kwargs.get("device") is not None or (not leaves and any(a.name == "device" for a in func._schema.arguments)):
            kwargs["device"] = _META
        with no_dispatch():
            result = func(*args, **kwargs)
        return _pytree.tree_map_only(tede.Tensor, lambda x: x if isinstance(x, FakeTensor) else
                                    FakeTensor(self, x if x.is_meta else x.to(_META), device), result)

    @staticmethod
    def _has_dynamic_shape(func, args):
        """Whether the result's shape depends on values here: of an operator that takes a list of indices, if one is a mask."""
        lists = [values for values, a in zip(args, func._schema.arguments) if str(a.type) == "List[Optional[Tensor]]"]
        return not lists or any(x is not None and x.dtype in (tede.bool, tede.uint8) for values in lists for x in values)

    def _all_fake(self, func, leaves, args, kwargs):
        """The arguments, with fake tensors in the place of real ones."""
        if all(isinstance(x, FakeTensor) for x in leaves):
            return args, kwargs
        if not self.allow_non_fake_inputs and not all(isinstance(x, FakeTensor) or x.is_meta for x in leaves):
            raise AssertionError("Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                                 f"'allow_non_fake_inputs'. Found in {func}")
        return _pytree.tree_map_only(tede.Tensor, self.from_tensor, (tuple(args), kwargs))

    @staticmethod
    def _device_of(func, leaves, kwargs):
        """Where results are: where the call says, else where the operands are; numbers on the CPU go everywhere."""
        if kwargs.get("device") is not None:
            return tede.device(kwargs["device"])
        found = None
        for x in leaves:
            number = x.ndim == 0 and x.device.type == "cpu"
            if found is None or (found[1] and not number):
                found = x.device, number
            elif x.device != found[0] and not number:
                raise FakeTensorDeviceMismatchError("Expected all tensors to be on the same device, but found at least two devices, "
                                                    f"{found[0]} and {x.device}!")
        return found[0] if found else tede.device("cpu")


_fill(globals())
