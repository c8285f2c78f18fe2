"""Methods of Tensor that are written in Python: rare ones, long ones, and those about Python itself (pickling, printing, copying)."""
from tede import _C
from tede._C import Tensor
from tede._override import PLAIN_GETTERS, overridable
from tede._parameter import Parameter
from tede._titles import TITLES, short

def method(function):
    """Hang a function on Tensor, unless an operator of that name is there. Classes and modes may take its calls over."""
    name = function.__name__
    if name in _C._methods:
        return function
    function.__qualname__ = "Tensor." + name
    hung = function if name in ("as_subclass", "new", "show", "__dir__") else overridable(function)
    setattr(Tensor, name, hung)
    return hung


class _Functions(dict):
    """The operators that are functions, by name; as attributes, the classes of nodes, which PyTorch has under this attribute."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        from tede.autograd._nodes import named
        return named(name)


_C._functions = _Functions(_C._functions)


# ---- classes made from Tensor ------------------------------------------------------------------------------------

def _as(cls, value):
    if isinstance(value, Tensor):
        return value if isinstance(value, cls) else _C._as_subclass(value, cls)
    if isinstance(value, tuple) and hasattr(value, "n_sequence_fields"):
        return type(value)(_as(cls, item) for item in value)
    if isinstance(value, (tuple, list)):
        return type(value)(_as(cls, item) for item in value) if type(value) in (tuple, list) else value
    return value


def __torch_function__(cls, func, types, args=(), kwargs=None):
    """What a call does for classes that don't say: the operator, its results as instances of the class."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with _C.DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        if cls is Tensor or getattr(func, "__self__", None) in PLAIN_GETTERS:
            return result
        return _as(cls, result)


Tensor.__torch_function__ = classmethod(__torch_function__)


@method
def _fix_weakref(self):
    """Nothing to do: an object that a weak reference brings back is the tensor's own."""


@method
def as_subclass(self, cls):
    """The same tensor as an instance of `cls`."""
    return _C._as_subclass(self, cls)


_plain_repr = Tensor.__repr__


def _wrapper_repr(x):
    """A tensor of a transform's level: what it stands for, and around it the level and the batch's dimension."""
    value, dim = _C._transform_unwrap(x, -1)
    kind, place = ("GradTrackingTensor", "") if dim < 0 else ("BatchedTensor", f" bdim={dim},")
    inside = _C._transform_below(repr, value).replace("\n", "\n    ")
    return f"{kind}(lvl={_C._wrapper_level(x)},{place} value=\n    {inside}\n)"


def _elements(x):
    """A plain tensor with the elements of one whose class keeps them elsewhere; None if they are too many to ask for."""
    flat = x.reshape(-1)
    if _C._is_hollow(flat) and x.numel() <= 1000:
        flat = _C.tensor([flat[i].item() for i in range(x.numel())], dtype=x.dtype)
    return None if _C._is_hollow(flat) or flat.numel() != x.numel() else flat.detach().reshape(x.shape)


def _contents(x):
    """What repr(x) has between its brackets, of a wrapper whose class defines no __repr__."""
    with _C.DisableTorchFunctionSubclass():
        plain = _elements(x)
    if plain is None or type(plain) is not Tensor:
        return None
    text = _plain_repr(plain)[len("tensor("):-1]
    text = text[:text.rindex("]") + 1] if plain.ndim else text.partition(",")[0]
    return text.replace("\n" + 7 * " ", "\n" + (len(type(x).__name__) + 1) * " ")


def __repr__(self, *, tensor_contents=None):
    """The tensor as text, with other contents between the brackets if they are given."""
    if _C._has_torch_function_variadic(self):
        return _C._handle_torch_function(Tensor.__repr__, (self,), self, tensor_contents=tensor_contents)
    if _C._wrapper_level(self) > 0:
        return _wrapper_repr(self)
    if tensor_contents is None and _C._is_hollow(self) and self.numel() and not self.is_meta:
        tensor_contents = _contents(self)
    text = _plain_repr(self) if tensor_contents is None else _C._repr_with(self, tensor_contents)
    if "_is_param" in self.__dict__:
        text = f"Parameter({text})"
    tangent = _C._unpack_dual(self)[1] if _C._is_forward_enabled() else None
    return text if tangent is None else f"{text[:-1]}, tangent={tangent!r})"


Tensor.__repr__ = __repr__


@method
def show(self, picture=None):
    """How the tensor lies in its storage, and who else looks at that: text in a terminal, a drawing in a notebook, `.html(path)`
    to play with. Of a sparse tensor its values are shown.

    picture: draw its elements as pixels instead, shape (H, W) or (C, H, W) with 1, 3 or 4 channels; `.png(path)` writes the file. None: if it
    looks like a small image, channels first, of bytes or of numbers from 0 to 1.

    Example::

        >>> print(tede.eye(4).show(picture=True))
        float32[4, 4], black 0, white 1
        ==
          ==
    """
    import sys
    from tede._picture import Picture, is_picture
    from tede._show import View
    if picture or (picture is None and self.layout is _C.strided and is_picture(self)):
        return Picture(self.to_dense() if self.layout is not _C.strided else self)
    part = ""
    if self.layout is not _C.strided:
        part = f"the values of a tensor of shape {list(self.shape)} and layout {str(self.layout).rpartition('.')[2]}: "
        self = next(x for _, x, values in _C._layout_parts(self) if values)
    return View(self, sys._getframe(1), part)


# ---- names of dimensions, see _names ---------------------------------------------------------------------------------

def _named(name):
    def forward(self, *args, **kwargs):
        from tede import _names
        return getattr(_names, name)(self, *args, **kwargs)
    forward.__name__ = name
    method(forward)


for _name in ("rename", "rename_", "refine_names", "align_to", "align_as"):
    _named(_name)
Tensor.names = property(lambda self: getattr(self, "_names", None) or (None,) * self.dim(), lambda self, names: self.rename_(*(names or (None,))),
                        doc="The names of the dimensions; None for one without a name.")


@method
def has_names(self):
    """Whether any dimension has a name."""
    return any(self.names)


# ---- text --------------------------------------------------------------------------------------------------------

@method
def __format__(self, spec):
    if self.dim() == 0 and not self.is_meta:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


@method
def __dir__(self):
    there = set(object.__dir__(self)) | set(_C._methods)
    return sorted(there if self.is_nested and self.layout is _C.jagged else there - _ONLY_OF_JAGGED)


def _type(self, dtype=None, non_blocking=False, **kwargs):
    """The name of the tensor's type, or the tensor as another one."""
    if dtype is None:
        layout = "quantized." * self.is_quantized if self.layout is _C.strided else "sparse." if self.is_sparse else short(self.layout) + "."
        return f"torch.{layout}{TITLES[short(self.dtype)]}Tensor"
    if isinstance(dtype, str):
        title = dtype.rpartition(".")[2].removesuffix("Tensor")
        names = [name for name, known in TITLES.items() if known == title]
        if not names:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = getattr(_C, names[0])
    elif isinstance(dtype, _Legacy):
        dtype = dtype.dtype
    elif dtype is Tensor:
        dtype = _C.get_default_dtype()
    return self.to(dtype=dtype, non_blocking=non_blocking)


_type.__name__ = "type"
method(_type)


def _check_legacy_device(own, device):
    """The old constructors take a device only where it is the one they would choose anyway."""
    if _C.device(device).type != own.type:
        raise RuntimeError(f"legacy constructor expects device type: {own.type} but device type: {_C.device(device).type} was passed")


def _alias_of(x, dtype):
    """What the old constructors make of a tensor of theirs."""
    if x.dtype != dtype:
        raise TypeError(f"expected a tensor of {dtype} (got {x.dtype}); convert it with .to()")
    return _C._functions["alias"](x)


def _is_count(x):
    """Whether it is a number of elements: an integer of Python or NumPy, but no array."""
    return isinstance(x, int) or hasattr(x, "__index__") and not hasattr(x, "__len__")


class _Legacy(type):
    """The class of FloatTensor, LongTensor, ...: constructors for one dtype, and isinstance by dtype."""
    is_cuda = is_xpu = is_sparse = False
    layout = _C.strided

    def __new__(meta, name, bases, content):
        for base in bases:
            raise TypeError(f"type 'torch.{base.__name__}' is not an acceptable base type")
        return super().__new__(meta, name, bases, content)

    def __instancecheck__(cls, x):
        return isinstance(x, Tensor) and x.dtype == cls.dtype

    def __call__(cls, *args, device=None, **others):
        if others or len(args) > 1 and not _is_count(args[0]):
            given = [*(type(x).__name__ for x in args), *(f"{name}={type(x).__name__}" for name, x in others.items())]
            raise TypeError(f"new() received an invalid combination of arguments - got ({', '.join(given)}), but expected one of:\n"
                            " * (*, torch.device device = None)\n * (torch.Storage storage)\n * (Tensor other)\n"
                            " * (tuple of ints size, *, torch.device device = None)\n * (object data, *, torch.device device = None)")
        if len(args) == 1 and isinstance(args[0], float):
            raise TypeError("new(): data must be a sequence (got float)")
        if device is not None:
            if len(args) == 1 and isinstance(args[0], Tensor):
                raise RuntimeError("Legacy tensor constructor of the form torch.Tensor(tensor, device=device) is not supported.  "
                                   "Use torch.tensor(...) or torch.as_tensor(...) instead.")
            _check_legacy_device(_C.device("cpu"), device)
        if not args:
            return _C._functions["empty"]((0,), dtype=cls.dtype)
        if len(args) == 1 and type(args[0]).__name__.endswith("Storage"):      # the storage itself, not its numbers
            return _C._functions["empty"]((0,), dtype=cls.dtype).set_(args[0])
        if len(args) == 1 and isinstance(args[0], Tensor):          # which is looked at, not copied
            return _alias_of(args[0], cls.dtype)
        if len(args) == 1 and not _is_count(args[0]) and not isinstance(args[0], _C.Size):
            return _C.tensor(args[0], dtype=cls.dtype)
        return _C._functions["empty"](*args, dtype=cls.dtype)


def legacy_type(name):
    dtype = {title: dtype for dtype, title in TITLES.items()}[name.removesuffix("Tensor")]
    return _Legacy(name, (), {"dtype": getattr(_C, dtype), "__module__": "tede", "__doc__": f"""\
Makes tensors of {dtype}, of sizes (with whatever the memory holds) or of data: an older form of `tede.empty` and `tede.tensor`. isinstance
goes by the dtype.

>>> tede.{name}([1, 0]).dtype
tede.{dtype}
"""})


# ---- copies and pickles --------------------------------------------------------------------------------------------

def _rebuild_from_type_v2(func, new_type, args, state):
    """A tensor of another class, or with attributes: checkpoints name this function."""
    from tede import _utils
    return _utils._rebuild_from_type_v2(func, new_type, args, state)


@method
def __reduce_ex__(self, protocol):
    from tede import _utils
    return _utils.reduce_ex(self, protocol, _rebuild_from_type_v2)


def _reduce_parameter(self, protocol):
    from tede import _utils
    return _utils.reduce_parameter(self, protocol)


_reduce_parameter.__name__, _reduce_parameter.__qualname__ = "__reduce_ex__", "Parameter.__reduce_ex__"
Parameter.__reduce_ex__ = _reduce_parameter


@method
def __setstate__(self, state):
    """Old pickles keep a tensor's parts as its state."""
    if not self.is_leaf:
        raise RuntimeError("__setstate__ can be only called on leaf Tensors")
    if len(state) == 4:
        self.set_(*state)
    elif len(state) == 5:
        self.data = state[0]
        self.requires_grad = state[3]
    else:
        self.requires_grad = state[0]


@method
def __deepcopy__(self, memo):
    if not self.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
                           "moment.  If you were attempting to deepcopy a module, this may be because of a torch.nn.utils."
                           "weight_norm usage, see https://github.com/pytorch/pytorch/pull/103001")
    if id(self) in memo:
        return memo[id(self)]
    from copy import deepcopy
    from copyreg import _slotnames
    from tede._utils import is_wrapper
    wrapper = is_wrapper(self)
    if wrapper or self.is_meta or self.is_conj() or self.is_neg() or self.layout is not _C.strided or self.is_nested:
        copy = (self if wrapper else self.detach()).clone()
        if type(copy) is not type(self) and not wrapper:
            copy = Tensor._make_subclass(type(self), copy)
    else:
        storage = self.untyped_storage().__deepcopy__(memo)
        if self.is_quantized:
            from tede._quantized import over_storage
            copy = over_storage(storage, self)
        else:
            copy = _C._tensor_over(storage, self.storage_offset(), tuple(self.shape), self.stride(), self.dtype)
        if type(self) is not Tensor:
            empty = self.new_empty([])
            copy = empty.set_(copy) if type(empty) is type(self) else copy
    if type(copy) is not type(self):
        kind, name = ("wrapper", "clone") if wrapper else ("non-wrapper", "new_empty")
        does = "cloning" if wrapper else "that function"
        raise RuntimeError(f"The default implementation of __deepcopy__() for {kind} subclasses only works for subclass types that implement "
                           f"{name}() and for which {does} returns another instance of the same subclass. You should either "
                           f"properly implement {name}() for your subclass or override __deepcopy__() if it is intended behavior for "
                           f"{name}() to return an instance of a different type.")
    memo[id(self)] = copy
    for slot in _slotnames(type(self)) if type(self) is not Tensor else ():     # before its methods are called, which may be overridden
        if hasattr(self, slot):
            setattr(copy, slot, deepcopy(getattr(self, slot), memo))
    if self.__dict__:
        copy.__dict__.update(deepcopy(self.__dict__, memo))
    if self.requires_grad:
        copy.requires_grad_()
    if self.grad is not None:
        copy.grad = self.grad.__deepcopy__(memo)
    return copy


@method
def __array_namespace__(self, *, api_version=None):
    """The functions of the Python array API standard."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"Unsupported array API version: {api_version}")
    from tede import array_api
    return array_api


@method
def __array_wrap__(self, array, context=None, return_scalar=False):
    if array.dtype == bool:
        array = array.astype("uint8")
    return _C.from_numpy(array.copy() if array.ndim == 0 or not array.flags.writeable else array)


# ---- element by element, in Python ---------------------------------------------------------------------------------

@method
def apply_(self, callable):
    """Replace each element by callable(element). Slow: for trying things out."""
    if self.is_nested:
        self.detach().values().apply_(callable)
        return self
    if self.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("apply_() can't be called on a Variable that requires grad. Use var.detach().apply_() instead.")
    made = [callable(v) for v in self.reshape(-1).tolist()]
    for v in made:
        if isinstance(v, str):
            raise TypeError(f"must be real number, not {type(v).__name__}")
    return self.copy_(_C.tensor(made, dtype=self.dtype).reshape(self.shape))


@method
def map_(self, tensor, callable):
    """Replace each element by callable(element, other element)."""
    if self.requires_grad or tensor.requires_grad:
        raise RuntimeError("Can't call map_() on Variable that requires grad. Use var.detach().map_() instead.")
    pairs = zip(self.reshape(-1).tolist(), tensor.expand(self.shape).reshape(-1).tolist())
    return self.copy_(_C.tensor([callable(a, b) for a, b in pairs], dtype=self.dtype).reshape(self.shape))


# ---- odds and ends ---------------------------------------------------------------------------------------------------

@method
def new(self, *args, **kwargs):
    if self.is_mkldnn:
        raise RuntimeError("new(): expected a strided or sparse tensor, but got one of the mkldnn layout")
    if self.is_quantized:
        raise RuntimeError("new(): expected a strided or sparse tensor, but got a quantized one")
    if kwargs.get("device") is not None:
        if len(args) == 1 and isinstance(args[0], Tensor):
            raise RuntimeError("Legacy tensor new of the form tensor.new(tensor, device=device) is not supported.  Use "
                               "torch.as_tensor(...) instead.")
        _check_legacy_device(self.device, kwargs["device"])
    if not args:
        return self.new_empty(kwargs.get("size", (0,)))
    if self.is_sparse and isinstance(args[0], Tensor) and len(args) > 1:
        import tede
        return tede.sparse_coo_tensor(*args, dtype=self.dtype)
    if self.is_sparse and not isinstance(args[0], (int, _C.Size)):
        if isinstance(args[0], (list, tuple)):
            raise TypeError("SparseTensor.new(sequence) only accepts sizes.  Please use torch.sparse_coo_tensor() or construct a strided tensor and "
                            "convert it to sparse via to_sparse.")
        raise TypeError(f"new() received an invalid combination of arguments - got ({', '.join(type(x).__name__ for x in args)}), but expected "
                        "indices and values of a sparse tensor, or its size")
    if len(args) == 1 and isinstance(args[0], Tensor):
        return _alias_of(args[0], self.dtype)
    if len(args) == 1 and hasattr(args[0], "untyped"):
        return self.new_empty((0,)).set_(args[0])
    if len(args) == 1 and not isinstance(args[0], (int, _C.Size)):
        return self.new_tensor(args[0])
    return self.new_empty(*args)


@method
def type_as(self, other):
    """In other's dtype and on its device."""
    return self.to(device=other.device, dtype=other.dtype)


@method
def is_set_to(self, tensor):
    """Whether both look at the same memory with the same geometry."""
    return (self.untyped_storage() == tensor.untyped_storage() and self.storage_offset() == tensor.storage_offset()
            and self.shape == tensor.shape and self.stride() == tensor.stride())


@method
def dim_order(self, *, ambiguity_check=False):
    """The dimensions, outermost in memory first. `ambiguity_check` refuses a tensor that has several such orders: True,
    or a list of memory formats of which exactly one must fit."""
    if not isinstance(ambiguity_check, bool) and not (isinstance(ambiguity_check, list) and all(
            isinstance(format, _C.memory_format) for format in ambiguity_check)):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    strides, sizes = self.stride(), self.shape
    order = tuple(sorted(range(self.dim()), key=lambda d: (-strides[d], d)))
    if ambiguity_check:
        if isinstance(ambiguity_check, list):
            unique = sum(self.is_contiguous(memory_format=format) for format in ambiguity_check) == 1
        else:
            unique = all(sizes[d] != 1 for d in order) and len(set(strides)) == len(strides)
        if not unique:
            raise RuntimeError("The tensor does not have unique dim order, or cannot map to exact one of the given memory formats.")
    return order


@method
def cuda(self, device=None, non_blocking=False, memory_format=None):
    return self.to("cuda" if device is None else device)


@method
def share_memory_(self):
    """Move the tensor to memory that other processes may map."""
    from tede.multiprocessing import reductions
    return reductions.share(self)


@method
def is_shared(self):
    """Whether other processes see the memory: see ``share_memory_``."""
    return self.untyped_storage().is_shared()


@method
def module_load(self, other, assign=False):
    """What load_state_dict does with a parameter and what was loaded for it."""
    return (other if assign else self.copy_(other)).detach()


@method
def storage_type(self):
    """The class of the tensor's typed storage."""
    from tede import _storage
    return getattr(_storage, TITLES[short(self.dtype)] + "Storage")


def _typed_storage(self):
    from tede._storage import TypedStorage
    return TypedStorage(wrap_storage=self.untyped_storage(), dtype=self.dtype, _internal=True)


method(_typed_storage)


@method
def storage(self):
    """The older, typed kind of storage."""
    from tede._storage import _warn_typed_storage_removal
    _warn_typed_storage_removal(3)      # beyond the check for overrides
    return self._typed_storage()


@method
def __reversed__(self):
    return self.flip(0) if self.dim() else self


@method
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Look at another tensor's memory, or at a storage, in place."""
    if self.layout is not _C.strided or isinstance(source, Tensor) and source.layout is not _C.strided:
        raise NotImplementedError(f"Could not run 'aten::set_' with arguments from the '{'SparseCPU' if self.is_sparse else 'SparseCsrCPU'}' "
                                  "backend: only strided tensors look at memory.")
    if source is None:
        source = self.new_empty((0,))
    elif not isinstance(source, Tensor):
        if not hasattr(source, "untyped"):
            invalid = f"\n      didn't match because some of the arguments have invalid types: (!{type(source).__name__}!)"
            raise TypeError(f"set_() received an invalid combination of arguments - got ({type(source).__name__}), but expected one of:\n"
                            f" * (){invalid}\n * (torch.Storage source){invalid}\n * (torch.Storage source, int storage_offset, tuple of "
                            f"ints size, tuple of ints stride = None)\n * (Tensor source){invalid}\n * (Tensor source, int "
                            "storage_offset, tuple of ints size, tuple of ints stride = None)\n")
        if getattr(source, "dtype", self.dtype) != self.dtype:
            names = (str(dtype).removeprefix("torch.").removeprefix("tede.") for dtype in (self.dtype, source.dtype))
            raise RuntimeError("Expected a Storage of type {} or an UntypedStorage, but got type {} for argument 1 'storage'"
                               .format(*names))
        if size is None:
            size = (source.nbytes() // self.itemsize,)
        if stride is None:
            stride, n = [], 1
            for k in reversed(tuple(size)):
                stride.insert(0, n)
                n *= max(k, 1)
        source = _C._tensor_over(source.untyped(), storage_offset, tuple(size), tuple(stride), self.dtype)
    elif size is not None:
        source = source.as_strided(size, stride, storage_offset)
    elif type(self) is not Tensor:
        from tede import ops
        made = _C._dispatched(ops.aten.set_.source_Tensor, self, source)
        if made is not NotImplemented:
            return made
    _C._replace(self, source)
    return self


def _replayed(source, view, base, what):
    """The view of `source` that is as `view` is of `base`: by its geometry, in the dtype and with the bits that it has."""
    if source.shape != base.shape or source.stride() != base.stride() or source.dtype != base.dtype:
        raise RuntimeError(f"{what}: a view is made again of a tensor of the same sizes, strides and dtype, not of {tuple(source.shape)}, "
                           f"{source.stride()}, {source.dtype}")
    sizes, strides, offset = view.shape, view.stride(), view.storage_offset()
    if view.dtype == base.dtype:
        made = source.as_strided(sizes, strides, offset + source.storage_offset() - base.storage_offset())
    elif base.is_complex() and view.dtype == base.dtype.to_real():
        real = _C._operators["view_as_real"](source)
        made = real.as_strided(sizes, strides, offset + real.storage_offset() - 2 * base.storage_offset())
    elif view.is_complex() and base.dtype == view.dtype.to_real():
        pairs = source.as_strided((*sizes, 2), (*(2 * step for step in strides), 1), 2 * offset + source.storage_offset() - base.storage_offset())
        made = _C._operators["view_as_complex"](pairs)
    else:
        made = source.view(view.dtype)
        made = made.as_strided(sizes, strides, offset)
    made = made._conj() if view.is_conj() != made.is_conj() else made
    return made._neg_view() if view.is_neg() != made.is_neg() else made


def _no_visitors(what, visitors):
    if any(visitor is not None for visitor in visitors):
        raise NotImplementedError(f"{what}: views are made again by their geometry, so there are no saved sizes or tensors to visit")


@method
def _view_func_unsafe(self, new_base, symint_visitor_fn=None, tensor_visitor_fn=None):
    """The view that this is of its base, of another base."""
    _no_visitors("_view_func_unsafe", (symint_visitor_fn, tensor_visitor_fn))
    if not self._is_view():
        raise RuntimeError("_view_func_unsafe: the tensor is no view")
    return _replayed(new_base, self, self._base, "_view_func_unsafe")


@method
def _view_func(self, new_base, symint_visitor_fn=None, tensor_visitor_fn=None):
    """As _view_func_unsafe; of a base that lies otherwise by way of a copy that lies as the old one does."""
    _no_visitors("_view_func", (symint_visitor_fn, tensor_visitor_fn))
    if not self._is_view():
        raise RuntimeError("_view_func: the tensor is no view")
    base = self._base
    if new_base.shape == base.shape and new_base.dtype == base.dtype and new_base.stride() != base.stride():
        new_base = new_base.new_empty_strided(base.shape, base.stride()).copy_(new_base)
    return _replayed(new_base, self, base, "_view_func")


@method
def _rev_view_func_unsafe(self, new_view):
    """The base that this is a view of, as a view of another tensor like this."""
    if not self._is_view():
        raise RuntimeError("_rev_view_func_unsafe: the tensor is no view")
    return _replayed(new_view, self._base, self, "_rev_view_func_unsafe")


@method
def isreal(self):
    """Where the imaginary part is zero."""
    return self.imag == 0 if self.is_complex() else _C._functions["ones_like"](self, dtype=_C.bool)


@method
def polygamma(self, n):
    """See ``tede.polygamma``."""
    return _C._functions["polygamma"](n, self)


@method
def to_sparse_coo(self):
    """The elements that aren't zero as a COO tensor."""
    return self.to_sparse()


@method
def is_distributed(self):
    """False: a tensor lies in one process. See ``distributed.tensor``."""
    return False


@method
def const_data_ptr(self):
    """``data_ptr()``, for code that only reads."""
    return self.data_ptr()


def _functional(name):
    def call(self, *args, **kwargs):
        import tede
        return getattr(tede, name)(self, *args, **kwargs)
    call.__name__ = name
    call.__doc__ = f"See tede.{name}."
    call.__qualname__ = "Tensor." + name
    setattr(Tensor, name, overridable(call))


for _name in ("norm", "unique", "unique_consecutive", "nonzero", "lu"):
    _functional(_name)
del _name


def _lacks(name, what):
    def call(self, *args, **kwargs):
        raise NotImplementedError(f"Tensor.{name}: tede has {what}")
    call.__name__ = name
    call.__doc__ = f"Raises NotImplementedError: tede has {what}."
    method(call)


for _name, _what in (
        ("ipu", "no such device"), ("mtia", "no such device"),
        ("xpu", "no such device")):
    _lacks(_name, _what)
del _name, _what


@method
def to_mkldnn(self, dtype=None):
    """The same elements in the mkldnn layout, in which oneDNN computes: pip install 'tede[onednn]'."""
    from tede._onednn import to_mkldnn
    return to_mkldnn(self, dtype)


@method
def qscheme(self):
    """How the integers of a quantized tensor stand for numbers: torch.per_tensor_affine, ..."""
    from tede._quantized import scheme_of
    return scheme_of(self)


# ---- nested tensors

@method
def offsets(self):
    """Where the components of a jagged tensor begin among its values, and where the last one ends."""
    return _C._operators["_nested_get_offsets"](self)


@method
def lengths(self):
    """The lengths of a jagged tensor's components if they leave values out, else None."""
    found = _C._operators["_nested_get_lengths"](self)
    return found if found.numel() or not self.size(0) else None


_ONLY_OF_JAGGED = set()


def _of_jagged(name, get, doc):
    """An attribute that only jagged tensors have, as those of PyTorch's class of them."""
    def read(self):
        if not self.is_nested or self.layout is not _C.jagged:
            raise AttributeError(f"'Tensor' object has no attribute {name!r}")
        return get(self)
    setattr(Tensor, name, property(read, doc=doc))
    _ONLY_OF_JAGGED.add(name)


def _seqlens(x):
    """The lengths that are known of a jagged tensor, by name, each as PyTorch keeps it, the size of an empty tensor: those that it was made with,
    and those that an operator needed."""
    known = _C._operators["_nested_known_seqlens"](x)
    return {name: _C._functions["empty"](read(x), 0) for bit, name, read in ((1, "min_seqlen", _read_min_seqlen), (2, "max_seqlen", _read_max_seqlen))
            if known & bit}


def _read_max_seqlen(x):
    """The longest component's length."""
    return int(_C._operators["_nested_get_max_seqlen"](x))


def _read_min_seqlen(x):
    """The shortest component's length."""
    return int(_C._operators["_nested_get_min_seqlen"](x))


_of_jagged("_offsets", lambda x: x.offsets(), "Where components begin, and where the last one ends.")
_of_jagged("_lengths", lambda x: x.lengths(), "Components' lengths, if they leave values out.")
_of_jagged("_ragged_idx", lambda x: _C._operators["_nested_get_ragged_idx"](x), "The dimension that components differ in.")
_of_jagged("_metadata_cache", _seqlens, _seqlens.__doc__)
_of_jagged("_max_seqlen", _read_max_seqlen, _read_max_seqlen.__doc__)
_of_jagged("_min_seqlen", _read_min_seqlen, _read_min_seqlen.__doc__)
_of_jagged("_maybe_max_seqlen", lambda x: _read_max_seqlen(x) if "max_seqlen" in _seqlens(x) else None, "The longest component's length, if known.")
_of_jagged("_maybe_min_seqlen", lambda x: _read_min_seqlen(x) if "min_seqlen" in _seqlens(x) else None, "The shortest component's length, if known.")
_of_jagged("_max_seqlen_tensor", lambda x: _seqlens(x).get("max_seqlen"), "The longest component's length, if known, as the size of an empty tensor.")
_of_jagged("_min_seqlen_tensor", lambda x: _seqlens(x).get("min_seqlen"), "The shortest component's length, if known, as the size of an empty tensor.")
_of_jagged("_get_max_seqlen", lambda x: lambda: _read_max_seqlen(x), "A function of the longest component's length.")
_of_jagged("_get_min_seqlen", lambda x: lambda: _read_min_seqlen(x), "A function of the shortest component's length.")


class _ValuesOf:
    """``_values``: the method of sparse tensors; of a jagged one its values without a history, as PyTorch's class has them."""

    def __init__(self, method):
        self._method, self.__name__, self.__qualname__ = method, method.__name__, method.__qualname__

    def __get__(self, x, cls=None):
        if x is not None and x.is_nested and x.layout is _C.jagged:
            return x.detach().values()
        return self._method.__get__(x, cls)


Tensor._values = _ValuesOf(Tensor.__dict__["_values"])


# ---- older methods

@method
def index(self, indices):
    """Elements by index tensors and masks."""
    return _C._operators["index"](self, indices)


@method
def resize(self, *sizes):
    """The same elements in another shape."""
    import warnings
    warnings.warn("non-inplace resize is deprecated", stacklevel=2)
    sizes = tuple(sizes[0]) if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes
    n = 1
    for size in sizes:
        n *= size
    if n != self.numel():
        raise RuntimeError(f"requested resize to {'x'.join(map(str, sizes))} ({n} elements in total), but the given tensor has a "
                           f"size of {'x'.join(map(str, self.shape))} ({self.numel()} elements). autograd's resize can only change "
                           f"the shape of a given tensor, while preserving the number of elements. ")
    return self.contiguous().view(sizes)


@method
def resize_as(self, tensor):
    """The same elements in another tensor's shape."""
    return self.resize(*tensor.shape)


@method
def reinforce(self, reward):
    """Raises RuntimeError: it was removed."""
    raise RuntimeError("reinforce() was removed: sample from torch.distributions and use log_prob")


@method
def map2_(self, x, y, callable):
    """Replace each element by callable(element, other element, third element)."""
    if self.requires_grad or x.requires_grad or y.requires_grad:
        raise RuntimeError("Can't call map2_() on Variable that requires grad. Use var.detach().map2_() instead.")
    triples = zip(self.reshape(-1).tolist(), x.expand(self.shape).reshape(-1).tolist(), y.expand(self.shape).reshape(-1).tolist())
    return self.copy_(_C.tensor([callable(*values) for values in triples], dtype=self.dtype).reshape(self.shape))


for _name in ("eig", "symeig", "solve", "lstsq"):
    _functional(_name)
del _name


@method
def __rdiv__(self, other):
    return self.reciprocal() * other


@method
def __div__(self, other):
    return self.__truediv__(other)


@method
def __idiv__(self, other):
    return self.__itruediv__(other)


@overridable
def result_type(tensor1, tensor2):
    """The dtype of a result of both: numbers count less than tensors, 0-dim tensors less than others.

    >>> tede.result_type(tede.tensor([1], dtype=tede.int32), 1.5)
    tede.float32
    """
    a, b = tensor1, tensor2
    if _C.get_promotion() != "pytorch":
        a, b = (x.detach().to("meta") if isinstance(x, Tensor) else x for x in (a, b))
        return _C._functions["mul"](a, b).dtype
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dim() and b.dim():
        return _C.promote_types(a.dtype, b.dtype)
    for x in (a, b):
        if not isinstance(x, Tensor) and not any(hasattr(x, name) for name in ("__index__", "__float__", "__complex__")):
            raise TypeError(f"result_type() received an invalid combination of arguments - got ({type(a).__name__}, {type(b).__name__}), "
                            "but expected tensors or numbers")

    def category(dtype):
        return 3 if dtype.is_complex else 2 if dtype.is_floating_point else 0 if dtype == _C.bool else 1

    def known(x):
        if isinstance(x, Tensor):
            return x.dtype, 2 if x.dim() else 1
        if isinstance(x, bool):
            return _C.bool, 0
        if isinstance(x, int):
            return _C.int64, 0
        if isinstance(x, float):
            return _C.get_default_dtype(), 0
        return _C.get_default_dtype().to_complex(), 0
    (p, m), (q, n) = known(a), known(b)
    if m == n:
        return _C.promote_types(p, q)
    strong, weak = (p, q) if m > n else (q, p)
    if category(weak) <= category(strong):
        return strong
    if category(weak) == 3 and category(strong) == 2:
        return strong.to_complex()
    return weak


# ---- private names that tables of PyTorch's methods list; what isn't there says so ----------------------------------

def _refuse(name):
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(f"torch.Tensor.{name}: it is an internal of PyTorch that nothing here needs")
    refuse.__name__, refuse.__qualname__ = name, f"Tensor.{name}"
    return refuse


for _name in ("_addmm_activation _autocast_to_full_precision _autocast_to_reduced_precision _dimI _dimV _is_zerotensor _lazy_clone "
              "_philox_normal_ _philox_uniform_ "
              "_sparse_mask_projection _to_dense _to_sparse _to_sparse_bsc _to_sparse_bsr _to_sparse_csc _to_sparse_csr "
              "slice_inverse").split():
    if not hasattr(Tensor, _name):
        setattr(Tensor, _name, _refuse(_name))
