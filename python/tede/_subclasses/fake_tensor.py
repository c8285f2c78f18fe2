"""FakeTensor: a tensor without values that says it is on a device, and FakeTensorMode, within which all new tensors are such.

A fake tensor is one on the device "meta" whose class answers the query for its device (csrc/metadata.c). Operators run as they do for meta
tensors; results are on the operands' device, or where a device= says. With a ShapeEnv sizes are symbolic (tede._subclasses.symbolic); without
one what depends on values raises.

Note [Constants]. A tensor of one number that the program writes down keeps its value beside the fake one (`constant`), and so does what is
computed from such: a program may read it back. The real tensors alias one another as the fake ones do. A write of something else, and a view that
is too large to be a constant, through which could be written, end that for all tensors of the storage."""
import contextlib
import weakref
from dataclasses import dataclass

import tede
from tede import _registry
from tede._compat import fill as _fill
from tede._ops import _overload_named, all_schemas
from tede._metadata import MetadataQuery
from tede._subclasses.meta_utils import MetaConverter
from tede._utils import reduce_strided
from tede.func import config
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


class MetadataMismatchError(RuntimeError):
    """A fake result doesn't say what the real one is."""


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


def _foreign(x):
    """Whether a tensor is of a class that has to say itself what it does with fake ones."""
    return isinstance(x, tede.Tensor) and not isinstance(x, FakeTensor) and type(x) not in (tede.Tensor, tede.nn.Parameter)


class FakeTensor(tede.Tensor):
    """A tensor without values; FakeTensorMode makes them."""

    @staticmethod
    def __new__(cls, fake_mode, elem, device, constant=None):
        device = _indexed(tede.device(device))
        if not elem.is_meta:
            raise AssertionError(f"a fake tensor is made of one on 'meta', not on '{elem.device}'")
        if device == _META and not fake_mode.allow_meta:
            raise AssertionError("torch._functorch.config.fake_tensor_allow_meta is off: a fake tensor can't be on 'meta'")
        env = fake_mode.shape_env
        self = tede.Tensor._make_subclass(cls, elem, elem.requires_grad, "symbols" if env is not None else None, dispatch_device=True)
        self.fake_device, self.fake_mode, self.constant = device, fake_mode, constant
        if env is not None:
            fake_mode.sizes.follow(self)
        return self

    def _symbols(self, numbers):
        return self.fake_mode.sizes.shown(numbers)

    @staticmethod
    def from_tensor(t, fake_mode):
        return fake_mode.from_tensor(t)

    def __repr__(self, *, tensor_contents=None):
        text = super().__repr__(tensor_contents="...")
        if self.fake_mode.sizes is not None:
            numbers = self.fake_mode.sizes.geometry(self)[0]
            text = text.replace(f"size={numbers}", f"size={self.fake_mode.sizes.shown(numbers)}")
        if self.fake_device.type == "cpu":
            return text.replace("device='meta', ", "").replace(", device='meta'", "")
        return text.replace("device='meta'", f"device='{self.fake_device}'")

    def tolist(self):
        """Numbers one by one, as item() has them: of a constant, or made up by the ShapeEnv."""
        return [x.tolist() for x in self.unbind()] if self.dim() else self.item()

    def __reduce_ex__(self, protocol):
        if not tede.serialization.skip_data.materializes:
            return super().__reduce_ex__(protocol)
        with no_dispatch(), tede._C.DisableTorchFunctionSubclass():         # as the tensor that it stands for
            storage = self.untyped_storage()
            storage._fake_device = self.fake_device
            return reduce_strided(self)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is tede.ops.prim.device.default:
            return args[0].fake_device
        leaves = _pytree.arg_tree_leaves(*args, **(kwargs or {}))
        if any(_foreign(x) for x in leaves):
            return NotImplemented
        mode = next(x for x in leaves if isinstance(x, FakeTensor)).fake_mode
        with mode:
            return func(*args, **(kwargs or {}))


class FakeTensorConverter:
    """Fake tensors of real ones: the same of the same tensor as long as it lives, and in one storage where the real ones are."""

    def __init__(self):
        self._fakes = tede.utils.weak.WeakIdKeyDictionary()         # real tensor -> weak reference to its fake one
        self.constant_storage_mapping = {}          # number of a constant's storage -> weak references to fake tensors
        self.meta_converter = MetaConverter()

    @property
    def tensor_memo(self):
        """Real tensor -> weak reference to its fake one, as far as both live."""
        for real in [real for real, ref in self._fakes.items() if ref() is None]:
            del self._fakes[real]
        return self._fakes

    def _elem(self, t):
        """A tensor on meta that lies as `t` does."""
        if type(t) in (tede.Tensor, tede.nn.Parameter) and t.layout == tede.strided:
            return self.meta_converter.over(t)
        if t.layout != tede.strided:
            return t.detach().to("meta")
        return tede.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta")

    def from_real_tensor(self, fake_mode, t, make_constant=False, *, symbolic=None, **options):
        """The fake tensor of a real one; with its value if `make_constant`. `symbolic` are the sizes, strides and offset that it is to have."""
        ref = self._fakes.get(t)
        fake = ref() if ref is not None else None
        if fake is not None and not make_constant:
            return fake
        with no_dispatch(), tede.no_grad():
            elem = self._elem(t) if symbolic is None else fake_mode.sizes.meta(*symbolic, t.dtype)
        fake = FakeTensor(fake_mode, elem, t.device, t if make_constant else None).requires_grad_(t.requires_grad)
        if isinstance(t, tede.nn.Parameter):
            fake._is_param = True
        if make_constant:
            self.constant_storage_mapping.setdefault(t.untyped_storage()._cdata, []).append(weakref.ref(fake))
        else:
            self._fakes[t] = weakref.ref(fake)
            if t.is_leaf and t.grad is not None:
                fake.grad = self.from_real_tensor(fake_mode, t.grad)
        return fake

    def from_meta_and_device(self, fake_mode, t, device):
        """A tensor on meta as a fake one on a device."""
        ref = self._fakes.get(t)
        fake = ref() if ref is not None else None
        if fake is None:
            fake = FakeTensor(fake_mode, t, device)
            self._fakes[t] = weakref.ref(fake)
        return fake

    def invalidate_constant_aliases(self, constant):
        """No tensor in this constant's storage has a known value any more."""
        for ref in self.constant_storage_mapping.pop(constant.untyped_storage()._cdata, ()):
            fake = ref()
            if fake is not None:
                fake.constant = None


class _Data(TorchFunctionMode):
    """Tensors of numbers, which no operator makes, are fake as well."""

    def __init__(self, mode):
        super().__init__()
        self.mode = mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        before, self.mode._around = self.mode._around, _Call.of(args, kwargs)
        try:
            if func is tede.Tensor.new_tensor and isinstance(args[0], FakeTensor):
                result = _new_tensor(*args, **(kwargs or {}))
            elif func is tede.Tensor.to and isinstance((*args[1:2], (kwargs or {}).get("other"))[0], FakeTensor):
                result = _to_like(*args, **(kwargs or {}))
            elif self.mode.shape_env is not None:
                result = self.mode.sizes.call(func, args, kwargs or {})
            else:
                result = func(*args, **(kwargs or {}))
        finally:
            self.mode._around = before
        if func not in (tede.tensor, tede.as_tensor, tede.asarray) or isinstance(result, FakeTensor) or _foreign(result):
            return result
        fake = self.mode.fake_tensor_converter.from_real_tensor(self.mode, result).requires_grad_(result.requires_grad)
        for note in self.mode.noting:
            note(fake, result)
        return fake


def _new_tensor(like, data, *, dtype=None, device=None, requires_grad=False, **options):
    """new_tensor of a fake tensor, whose own device has no memory."""
    made = tede.tensor(data, dtype=dtype or like.dtype, **options).to(device or like.device)
    return made.requires_grad_(requires_grad)


def _to_like(x, other, *options, **named):
    """x.to(other) of a fake tensor, whose own device has no memory."""
    return x.to(other.fake_device, other.dtype, *options, **named)


class _Call:
    """A function that Python called: where what it makes besides its operands is, and its operands."""

    def __init__(self, device, tensors):
        self.device, self.tensors = device, tensors

    @classmethod
    def of(cls, args, kwargs):
        """None without fake tensors among the arguments."""
        tensors = [x for x in _pytree.arg_tree_leaves(*args, **(kwargs or {})) if isinstance(x, tede.Tensor)]
        fakes = [x for x in tensors if isinstance(x, FakeTensor)]
        return cls(max(fakes, key=lambda x: x.ndim > 0).fake_device, tensors) if fakes else None


def _may_be_constant(x):
    return x.numel() <= 1 and x.layout == tede.strided and not x.is_meta and not isinstance(x, FakeTensor)


class FakeCopyMode(TorchFunctionMode):
    """Within it copies of tensors (copy.deepcopy, clone) are fake tensors of `fake_mode`."""

    def __init__(self, fake_mode):
        super().__init__()
        self.fake_mode = fake_mode

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is tede.Tensor.clone:
            return func(self.fake_mode.from_tensor(args[0], static_shapes=True), **(kwargs or {}))
        if func is tede.Tensor.__deepcopy__:
            tensor, memo = args
            if id(tensor) not in memo:
                memo[id(tensor)] = self.fake_mode.from_tensor(tensor, static_shapes=True)
            return memo[id(tensor)]
        return func(*args, **(kwargs or {}))


class FakeTensorMode(TorchDispatchMode):
    """Within it new tensors are fake, and operators on fake tensors give fake tensors.

    allow_non_fake_inputs: real operands are taken for fake ones, instead of refused."""

    def __init__(self, *, allow_fallback_kernels=True, allow_non_fake_inputs=False, shape_env=None, static_shapes=None):
        super().__init__()
        self.allow_meta = config.fake_tensor_allow_meta is not False
        self.allow_fallback_kernels, self.allow_non_fake_inputs = allow_fallback_kernels, allow_non_fake_inputs
        self.shape_env, self.static_shapes = shape_env, shape_env is None if static_shapes is None else static_shapes
        self.sizes = None
        if shape_env is not None:
            from tede._subclasses.symbolic import Sizes         # which needs sympy
            self.sizes = Sizes(shape_env, FakeTensor)
        self.fake_tensor_converter, self._data = FakeTensorConverter(), []
        self._around = None             # the _Call that is running
        self.noting = []                # functions of a fake tensor and the real one of a program's numbers

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
        static = self.static_shapes if static_shapes is None else static_shapes
        if self.shape_env is None or static or tensor.layout != tede.strided or tensor in self.fake_tensor_converter.tensor_memo:
            return self.fake_tensor_converter.from_real_tensor(self, tensor)
        made, numbers = self.sizes.of_input(tensor, source, symbolic_context)
        fake = self.fake_tensor_converter.from_real_tensor(self, tensor, symbolic=numbers)
        fake._made_with = made
        return fake

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is tede.ops.prim.device.default:
            return args[0].fake_device if isinstance(args[0], FakeTensor) else None
        if isinstance(func, MetadataQuery):         # as the tensor was made
            return None
        leaves = [x for x in _pytree.arg_tree_leaves(*args, **kwargs) if isinstance(x, tede.Tensor)]
        if func in (tede.ops.aten.lift_fresh.default, tede.ops.aten.lift_fresh_copy.default) and type(leaves[0]) is tede.Tensor:
            return self._of_numbers(leaves[0])
        if any(_foreign(x) for x in leaves):
            return NotImplemented
        args, kwargs = self._all_fake(func, leaves, args, self.placed(func, kwargs))
        leaves = [x for x in _pytree.arg_tree_leaves(*args, **kwargs) if isinstance(x, tede.Tensor)]
        known = self._constants(func, leaves, args, kwargs)
        if tede.Tag.data_dependent_output in func.tags:
            if known is not None and not isinstance(known, tede.Tensor):
                return known
            if self.shape_env is not None and func is tede.ops.aten._local_scalar_dense.default and self.shape_env.allow_scalar_outputs:
                found = self.sizes.item(args[0])
                if found is not None:
                    return found
            raise DataDependentOutputException(func)
        if tede.Tag.dynamic_output_shape in func.tags and self._has_dynamic_shape(func, args, kwargs):
            changed = self.sizes.without_masks(func, args, kwargs) if self.shape_env is not None else None
            if changed is None:
                raise DynamicOutputShapeException(func)
            if isinstance(changed, tede.Tensor):
                return changed
            args, kwargs = changed
        device = self._device_of(func, leaves, kwargs)
        if kwargs.get("device") is not None or (not leaves and any(a.name == "device" for a in func._schema.arguments)):
            kwargs["device"] = _META
        with no_dispatch(), self._data_sizes(func):
            try:
                result = func(*args, **kwargs) if self.shape_env is None else self.sizes.run(func, args, kwargs)
            except NotImplementedError as error:
                if func.namespace in ("aten", "prims"):
                    raise
                raise UnsupportedOperatorException(func) from error
        result = _pytree.tree_map_only(tede.Tensor, lambda x: x if isinstance(x, FakeTensor) else
                                       FakeTensor(self, x if x.is_meta else x.to(_META), device), result)
        self._note_constants(leaves, result, known)
        return result

    @contextlib.contextmanager
    def _data_sizes(self, func):
        """Within it the operator's fake kernel may ask for sizes that data decides."""
        if func.namespace in ("aten", "prims"):
            yield
            return

        def make(least, most):
            if self.shape_env is None or not self.shape_env.allow_dynamic_output_shape_ops:
                raise DynamicOutputShapeException(func)
            return self.sizes.data_size(least, most)
        _registry.data_sizes.append(make)
        try:
            yield
        finally:
            _registry.data_sizes.remove(make)

    def _of_file(self, x):
        """The fake tensor of one that is read from a file, or from a pickle."""
        return self.fake_tensor_converter.from_real_tensor(self, x)

    def _of_numbers(self, x):
        """The fake tensor of a new one that a program made of its numbers; it knows its value if that is one number."""
        constant = _may_be_constant(x)
        with no_dispatch():
            kept = x.clone() if constant else x
        return self.fake_tensor_converter.from_real_tensor(self, kept, make_constant=constant)

    def _constants(self, func, leaves, args, kwargs):
        """What the operator gives for the operands' values, None if they aren't known. See Note [Constants]."""
        written = func._schema.is_mutable
        takes = any(str(a.type) in ("Tensor", "Optional[Tensor]", "List[Tensor]") for a in func._schema.arguments)
        if (takes and all(x.constant is not None for x in leaves) and tede.Tag.nondeterministic_seeded not in func.tags
                and tede.Tag.inplace_view not in func.tags and kwargs.get("device") in (None, tede.device("cpu"))):
            with no_dispatch():
                values = _pytree.tree_map_only(FakeTensor, lambda x: x.constant, (tuple(args), kwargs))
                known = func(*values[0], **values[1])
            if all(_may_be_constant(x) for x in _pytree.tree_leaves(known) if isinstance(x, tede.Tensor)):
                return known
        for x in leaves if written or func.is_view else ():
            if x.constant is not None:
                self.fake_tensor_converter.invalidate_constant_aliases(x.constant)
        return None

    def _note_constants(self, leaves, result, known):
        for fake, value in zip(_pytree.tree_leaves(result), _pytree.tree_leaves(known)) if known is not None else ():
            if isinstance(fake, FakeTensor) and not any(fake is x for x in leaves):
                fake.constant = value
                self.fake_tensor_converter.constant_storage_mapping.setdefault(value.untyped_storage()._cdata, []).append(weakref.ref(fake))

    @staticmethod
    def _has_dynamic_shape(func, args, kwargs):
        """Whether the result's shape depends on values here: of an operator that takes a list of indices, if one is a mask; of one that may be
        given its result's size, if it isn't."""
        if kwargs.get("output_size") is not None:
            return False
        lists = [values for values, a in zip(args, func._schema.arguments) if str(a.type) == "List[Optional[Tensor]]"]
        return not lists or any(x is not None and x.dtype in (tede.bool, tede.uint8) for values in lists for x in values)

    def _all_fake(self, func, leaves, args, kwargs):
        """The arguments, with fake tensors in the place of real ones."""
        if any(isinstance(x, FakeTensor) and x.fake_mode is not self for x in leaves):
            raise AssertionError("Mixing fake modes NYI")
        if all(isinstance(x, FakeTensor) for x in leaves):
            return args, kwargs
        if not self.allow_non_fake_inputs and not all(isinstance(x, FakeTensor) or x.is_meta for x in leaves):
            raise AssertionError("Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with "
                                 f"'allow_non_fake_inputs'. Found in {func}")
        return _pytree.tree_map_only(tede.Tensor, self._fake, (tuple(args), kwargs))

    def _fake(self, x):
        """As from_tensor; what the core made on meta for the call that is running is where the call's operands are."""
        around = self._around
        if isinstance(x, FakeTensor) or not x.is_meta or around is None or any(x is operand for operand in around.tensors):
            return self.from_tensor(x)
        return self.fake_tensor_converter.from_meta_and_device(self, x, around.device)

    def placed(self, func, kwargs):
        """The keyword arguments of a call, with the device where its result is to be: what an operator that is made of others makes besides is
        where the operands are, which the core takes for tensors on "meta"."""
        if self._around is None or kwargs.get("device") != _META or not _is_tensor_constructor(func):
            return kwargs
        return dict(kwargs, device=self._around.device)

    @staticmethod
    def _device_of(func, leaves, kwargs):
        """Where results are: where the call says, else where the operands are; numbers on the CPU go everywhere, integers there with what is on meta."""
        if kwargs.get("device") is not None:
            return tede.device(kwargs["device"])
        found = None
        for x in leaves:
            number = x.ndim == 0 and x.device.type == "cpu"
            if found is None or (found[1] and not number):
                found = x.device, number
            elif x.device != found[0] and not number and (found[0] != _META or x.device.type != "cpu" or x.is_floating_point() or x.is_complex()):
                raise FakeTensorDeviceMismatchError("Expected all tensors to be on the same device, but found at least two devices, "
                                                    f"{found[0]} and {x.device}!")
        return found[0] if found else tede.device("cpu")


def _takes_tensors(schema):
    return any("Tensor" in str(a.type) for a in schema.arguments)


def _is_tensor_constructor(func):
    """Whether an operator makes a tensor of none."""
    schema = func._schema
    return not _takes_tensors(schema) and len(schema.returns) == 1 and str(schema.returns[0].type) == "Tensor"


def _of_aten(choose):
    """The operators whose schemas are so."""
    return [_overload_named(schema.name + ("." + schema.overload_name if schema.overload_name else ""))
            for schema in all_schemas() if schema.name.startswith("aten::") and choose(schema)]


_TABLES = {"_like_tensor_constructors": lambda schema: schema.name.endswith("_like"),
           "_device_not_kwarg_ops": lambda schema: _takes_tensors(schema) and any(
               "Device" in str(a.type) and not a.kwarg_only for a in schema.arguments)}
_find = _fill(globals())


def __getattr__(name):
    if name not in _TABLES:
        return _find(name)
    globals()[name] = frozenset(_of_aten(_TABLES[name]))
    return globals()[name]
