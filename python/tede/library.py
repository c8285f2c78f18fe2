"""torch.library: custom operators, defined by a schema, with kernels, a gradient and a shape rule in Python.

custom_op makes one from a function with annotations.  Library is the lower-level interface: define() a schema in a namespace, impl()
a kernel for a dispatch key."""
import contextlib
import inspect
import logging
import weakref

import tede
from tede import _C, _registry, _tags
from tede._ops import _overload_named, forget
from tede._overloads import defined
from tede._registry import fallthrough_kernel, key_of
from tede._sym import is_symbolic

__all__ = ["Library", "impl", "define", "fallthrough_kernel", "impl_abstract", "register_autocast", "register_fake",
           "register_torch_dispatch", "register_vmap", "set_traits", "get_ctx", "get_kernel", "custom_op", "triton_op", "wrap_triton",
           "infer_schema", "register_autograd", "register_kernel", "opcheck", "CustomOpDef"]

_RESERVED = {"prim"}
_log = logging.getLogger("torch._library.custom_ops")


def _full(name, namespace=None):
    name = name if "::" in name or namespace is None else f"{namespace}::{name}"
    return name.removesuffix(".default")


def _name_of(op):
    if isinstance(op, str):
        if "::" not in op:
            raise ValueError(f"expected an operator's name with its namespace, not {op!r}")
        return op.removesuffix(".default")
    if isinstance(op, CustomOpDef):
        return op._qualname
    return op.name() if hasattr(op, "name") else op._qualified_op_name


# ---- the class Library -----------------------------------------------------------------------------------------------

class _Registrations:
    """What a library registered: gone when this goes."""

    def __init__(self, *registered):
        weakref.finalize(self, _destroy, *registered).atexit = False


class Library:
    """A set of definitions and kernels in one namespace; they go when it goes.

    kind: "DEF" makes the namespace, "FRAGMENT" adds to one, "IMPL" only gives kernels.
    """

    _defined = set()

    def __init__(self, ns, kind, dispatch_key=""):
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns in _RESERVED and kind in ("DEF", "FRAGMENT"):
            raise ValueError(f"{ns} is a reserved namespace. Please try creating a library with another name.")
        if kind == "DEF":
            if ns in Library._defined:
                raise RuntimeError(f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your "
                                   "definitions in a single TORCH_LIBRARY block. If you were trying to specify implementations, "
                                   "consider using TORCH_LIBRARY_IMPL (which can be duplicated).")
            Library._defined.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._op_defs, self._op_impls = set(), set()
        self._alive, self._registered = [True], []          # a kernel as often as it was given
        self.m = _Registrations(ns, kind, self._op_defs, self._registered, self._alive)

    def __repr__(self):
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema, alias_analysis="", *, tags=()):
        """A new operator, "name.overload(arguments) -> results"; gives its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        if self.kind == "IMPL":
            raise RuntimeError(f"""def("{schema.partition('(')[0].strip()}"): Cannot define an operator inside of a TORCH_LIBRARY_IMPL """
                               "block.  All def()s should be placed in the (unique) TORCH_LIBRARY block for their namespace.")
        schema = schema.strip()
        _C._define(f"{self.ns}::{schema}")
        for key, fn in _registry.early.pop(f"{self.ns}::{schema.partition('(')[0].strip()}", ()):
            _registry.register(f"{self.ns}::{schema.partition('(')[0].strip()}", key, fn)
        defined[0] += 1
        name = schema.partition("(")[0].strip()
        self._op_defs.add(f"{self.ns}::{name}")
        _registry.made_by_libraries.add(f"{self.ns}::{name}")
        if tags:
            _tags.declare(f"{self.ns}::{name}", tags)
        for key, function in _registry.waiting.pop(_full(name, self.ns), ()):
            _registry.register(_full(name, self.ns), key, function)
        return name

    def impl(self, op_name, fn, dispatch_key="", *, with_keyset=False, allow_override=False):
        """A kernel for an operator and a key; with no key for all devices. The operator may be defined later."""
        if not isinstance(op_name, str) and not hasattr(op_name, "_schema"):
            raise RuntimeError("impl should be passed either a name or an OpOverload object as the first argument, got "
                               f"{type(op_name)}")
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        key = dispatch_key or self.dispatch_key
        if self.dispatch_key and key != self.dispatch_key:
            raise RuntimeError(f"""impl("{op_name}", ...): Explicitly provided dispatch key ({key}) is inconsistent with the dispatch key of """
                               f"the enclosing TORCH_LIBRARY_IMPL block ({self.dispatch_key}).  Please declare a separate TORCH_LIBRARY_IMPL "
                               "block for this dispatch key and move your impl() there.")
        full = _full(op_name if isinstance(op_name, str) else _name_of(op_name), self.ns)
        if full.partition("::")[0] != self.ns:
            raise RuntimeError(f"""impl("{full}", ...): Explicitly provided namespace ({full.partition('::')[0]}) in operator name does not match """
                               f"namespace of enclosing TORCH_LIBRARY block ({self.ns}).  Move this definition to the TORCH_LIBRARY block "
                               "corresponding to this namespace (and consider deleting the namespace from your schema string.)")
        if with_keyset:
            inner = fn

            def fn(*args, **kwargs):
                return inner(None, *args, **kwargs)
        _registry.register_soon(full, key, fn)
        self._op_impls.add((full, key))
        self._registered.append((full, key))

    def fallback(self, fn, dispatch_key="", *, with_keyset=False):
        """A kernel fn(op, *args, **kwargs) for all operators that have none for a key."""
        key = dispatch_key or self.dispatch_key
        if self.ns != "_":
            raise RuntimeError(f"""Fallback can only be registered using library fragment on the global namespace "_" but it is {self.ns}""")
        number, device = key_of(key)
        if number < 0:
            raise RuntimeError("a fallback needs a dispatch key")
        _C._register_boxed(None, number, device, None if fn is fallthrough_kernel else fn)
        self._op_impls.add((None, key))
        self._registered.append((None, key))

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        full = _full(op_name, self.ns)
        if not allow_override:
            _refuse_fake(full)
        _registry.register_soon(full, "Meta", _with_context(fn))
        _fakes[full] = fn
        self._op_impls.add((full, "Meta"))
        self._registered.append((full, "Meta"))

    def _register_torch_dispatch_rule(self, op_name, torch_dispatch_class, fn):
        register_torch_dispatch(_full(op_name, self.ns), torch_dispatch_class, fn, lib=self)

    def _destroy(self):
        _destroy(self.ns, self.kind, self._op_defs, self._registered, self._alive)


def _destroy(ns, kind, defined, implemented, alive):
    if not alive[0]:
        return
    alive[0] = False
    for full, key in implemented:
        if getattr(key, "name", key) in _registry.NEVER:
            _registry.kernels.pop((full, key), None)
            continue
        number, device = key_of(key)
        with contextlib.suppress(ValueError):
            _C._register_boxed(full, number, device, None)
        _registry.kernels.pop((full, key), None)
        if key == "Meta":
            _fakes.pop(full, None)
    for full in defined:
        for overload in [o for o in _C._torch_dispatch_rules if o.name() == full]:
            del _C._torch_dispatch_rules[overload]
        if _C._undefine(full):
            forget(full)
        _registry.made_by_libraries.discard(full)
        for key in [k for k in _registry.kernels if k[0] == full]:
            del _registry.kernels[key]
    if kind == "DEF":
        Library._defined.discard(ns)


_kept = {}                      # libraries of definitions that are made by name


def _library(ns):
    if ns not in _kept:
        _kept[ns] = Library(ns, "FRAGMENT")
    return _kept[ns]


@contextlib.contextmanager
def _scoped_library(*args, **kwargs):
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


def define(qualname, schema, alias_analysis="", *, lib=None, tags=()):
    """define("ns::name", "(Tensor x) -> Tensor"); or, with a Library first, a decorator (an older form)."""
    if isinstance(qualname, Library):
        library, text = qualname, schema

        def wrap(f):
            name = library.define(text, alias_analysis, tags=tags)
            library.impl(name, f)
            return f
        return wrap
    if not isinstance(qualname, str):
        raise ValueError(f"define(qualname, schema): expected qualname to be instance of str, got {type(qualname)}")
    namespace, sep, name = qualname.partition("::")
    if not sep:
        raise ValueError(f"Expected `qualname` to be of the form \"namespace::name\", but got {qualname}. The qualname passed to the "
                         "torch.library APIs must consist of a namespace and a name, e.g. aten::sin")
    if not schema.startswith("("):
        raise ValueError(f"define(qualname, schema, ...): expected schema to look like e.g. \"(Tensor x) -> Tensor\" but got "
                         f"\"{schema}\"")
    (lib or _library(namespace)).define(name + schema, "", tags=tags)


_TYPES = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta", "default": "CompositeExplicitAutograd", "opencl": "OpenCL"}


def _key_of_type(name):
    """A dispatch key, or a device that was loaded, whose name is its key."""
    if name not in _registry.KEYS and name not in _registry.DEVICES:
        tede.device(name)
    return name


def _key_for(device):
    return "CompositeExplicitAutograd" if device is None else _TYPES.get(device) or _key_of_type(device)


def impl(qualname, types, func=None, *, lib=None):
    """impl("ns::name", "cpu", func), or a decorator: a kernel for device types. With a Library first, for its key."""
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func or ""

        def wrap(f):
            library.impl(name, f, key)
            return f
        return wrap
    full = _full(qualname)
    keys = [_TYPES.get(t) or _key_of_type(t) for t in ((types,) if isinstance(types, str) else types)]

    def register(f):
        library = lib or _library(full.partition("::")[0])
        for key in keys:
            library.impl(full, f, key)
        return f
    return register if func is None else register(func)


def register_kernel(op, device_types, func=None, /, *, lib=None):
    """A kernel for device types (None: all of them)."""
    custom = op if isinstance(op, CustomOpDef) else _custom.get(_name_of(op))
    if custom is not None:
        return custom.register_kernel(device_types, func)
    device_types = ("default",) if device_types is None else device_types
    return impl(_name_of(op), device_types, func, lib=lib)


# ---- shapes without values -------------------------------------------------------------------------------------------

_fakes = {}
_context = []


class FakeImplCtx:
    """What a fake kernel may ask for: sizes that depend on data, which tensors on meta alone have none of."""

    def new_dynamic_size(self, *, min=0, max=None):
        """A size that data decides, within these bounds: a tede.SymInt under a FakeTensorMode with a ShapeEnv."""
        if is_symbolic(min) or is_symbolic(max):
            raise ValueError(f"new_dynamic_size(min={min}, max={max}): the bounds must be known ints, not SymInts")
        if min < 0:
            raise ValueError(f"new_dynamic_size(min={min}, max={max}): min must be greater than or equal to 0, since sizes aren't negative")
        if _registry.data_sizes:
            return _registry.data_sizes[-1](min, max)
        raise NotImplementedError("new_dynamic_size(): an operator with a data-dependent shape: there are no such sizes under meta tensors")

    new_unbacked_symint = create_unbacked_symint = new_dynamic_size


def get_ctx():
    """The context of the fake kernel that is running."""
    return _context[-1] if _context else None


def _with_context(fn):
    def run(*args, **kwargs):
        _context.append(FakeImplCtx())
        try:
            return fn(*args, **kwargs)
        finally:
            _context.pop()
    return run


def _refuse_fake(full):
    """What is made of other operators is so on meta and fake tensors, too."""
    if (full, "CompositeImplicitAutograd") in _registry.kernels:
        raise RuntimeError(f"We should not register a meta kernel to the operator {full}: it has a CompositeImplicitAutograd kernel, and the "
                           "operators that this is made of have meta kernels")


def register_fake(op, func=None, /, *, lib=None, _stacklevel=1, allow_override=False):
    """The kernel for meta tensors: gives results of the right shape and dtype, without values."""
    custom = op if isinstance(op, CustomOpDef) else _custom.get(_name_of(op))
    if custom is not None:
        return custom.register_fake if func is None else custom.register_fake(func)
    full = _name_of(op)

    def register(f):
        (lib or _library(full.partition("::")[0]))._register_fake(full, f, allow_override=allow_override)
        return f
    return register if func is None else register(func)


def impl_abstract(qualname, func=None, *, lib=None, _stacklevel=1):
    """The old name of register_fake."""
    return register_fake(qualname, func, lib=lib)


# ---- gradients -------------------------------------------------------------------------------------------------------

class _Info:
    def __init__(self, backward, setup_context):
        self.backward, self.setup_context = backward, setup_context


def _takes_keywords(setup):
    return "keyword_only_inputs" in inspect.signature(setup).parameters


def _below_kernel(overload, info=None):
    """A kernel for the Autograd key that records nothing: of operators that write their operands, too."""
    def below(*args, **kwargs):
        before = _C._set_below_autograd(True)
        try:
            return overload(*args, **kwargs)
        finally:
            _C._set_below_autograd(before)
    return below


def _autograd_kernel(overload, info):
    """A kernel for the Autograd key: the operator as one node, whose backward is info's."""
    below = _below_kernel(overload)

    class Generated(tede.autograd.Function):
        @staticmethod
        def forward(ctx, keywords, structure, *flat):
            args = _unflatten(structure, flat)
            result = below(*args, **keywords)
            filled = list(args) + [a.default_value for a in overload._schema.arguments[len(args):] if not a.kwarg_only]
            ctx._structure, ctx._several = structure, isinstance(result, list)
            if info.setup_context is not None:
                extra = {}
                if _takes_keywords(info.setup_context):
                    extra["keyword_only_inputs"] = {a.name: keywords.get(a.name, a.default_value) for a in overload._schema.arguments
                                                    if a.kwarg_only}
                info.setup_context(ctx=ctx, inputs=tuple(filled), output=tuple(result) if isinstance(result, list) else result,
                                   **extra)
            return tuple(result) if isinstance(result, list) else result

        @staticmethod
        def backward(ctx, *grads):
            if info.backward is None:
                raise RuntimeError(f"Trying to backward through {overload} but no autograd formula was registered. Please use "
                                   "register_autograd to add one.")
            given = info.backward(ctx, list(grads)) if ctx._several else info.backward(ctx, *grads)
            given = given if isinstance(given, tuple) else (given,)
            flat = []
            for part, g in zip(ctx._structure, given):
                if part is None:
                    flat.append(g)
                else:
                    g = [None] * part if g is None else list(g)
                    if len(g) != part:
                        raise ValueError(f"{overload}: a list of {part} gradients is needed, not of {len(g)}")
                    flat += g
            if len(given) > len(ctx._structure) and any(g is not None for g in given[len(ctx._structure):]):
                raise RuntimeError(f"{overload}: more gradients than arguments")
            flat += [None] * (sum(1 if p is None else p for p in ctx._structure) - len(flat))
            return (None, None, *flat)
    Generated.__name__ = Generated.__qualname__ = f"GeneratedBackwardFor_{overload.namespace}_{overload._opname}_" \
                                                  f"{overload._overloadname}"

    def kernel(*args, **kwargs):
        flat = [x for a in args for x in (a if isinstance(a, (list, tuple)) else (a,))]
        if not (tede.is_grad_enabled() and any(isinstance(x, tede.Tensor) and x.requires_grad for x in flat)):
            return below(*args, **kwargs)
        structure = tuple(len(a) if isinstance(a, (list, tuple)) and any(isinstance(x, tede.Tensor) for x in a) else None
                          for a in args)
        flat = [x for a, n in zip(args, structure) for x in (a if n is not None else (a,))]
        return Generated.apply(kwargs, structure, *flat)
    return kernel


def _unflatten(structure, flat):
    flat = iter(flat)
    return tuple(next(flat) if n is None else [next(flat) for _ in range(n)] for n in structure)


def _check_functional(overload):
    schema = overload._schema
    if schema.is_mutable or any(r.alias_info is not None for r in schema.returns):
        raise RuntimeError(f"Cannot register autograd formula for non-functional operator {overload} with schema {schema}. Please "
                           "create a functional operator and register an autograd formula for that.")


def _check_positional_tensors(overload, what):
    if any(a.kwarg_only and "Tensor" in str(a.type) for a in overload._schema.arguments):
        raise NotImplementedError(f"{what} with kwarg-only Tensor args: {overload} has schema {overload._schema}. Please make them not "
                                  "kwarg-only.")


def register_autograd(op, backward, /, *, setup_context=None, lib=None):
    """backward(ctx, *grads) gives the gradients of the operator; setup_context(ctx, inputs, output) saves for it."""
    custom = op if isinstance(op, CustomOpDef) else _custom.get(_name_of(op))
    if custom is not None:
        custom.register_autograd(backward, setup_context=setup_context)
        return
    full = _name_of(op)
    overload = _overload_named(full)
    _check_functional(overload)
    _check_positional_tensors(overload, "register_autograd")
    library = lib or _library(full.partition("::")[0])
    library.impl(full, _autograd_kernel(overload, _Info(backward, setup_context)), "Autograd", allow_override=True)


def _checked_name(op, what):
    if not isinstance(op, (str, CustomOpDef)) and not hasattr(op, "_schema"):
        raise ValueError(f"{what}({op}): got unexpected type for op: {type(op)}")
    return _name_of(op)


def register_vmap(op, func=None, /, *, lib=None):
    """func(info, in_dims, *args, **kwargs) gives the results for a whole batch, and the dimension of the batch in each."""
    full = _checked_name(op, "register_vmap")
    _check_positional_tensors(_overload_named(full), "register_vmap")

    def register(f):
        def rule(*args, **kwargs):
            from tede.func._function import apply_rule
            return apply_rule(f, args, kwargs)
        _C._register_batching(full, rule)
        return f
    return register if func is None else register(func)


def set_traits(op, *, batch=None, autocast=None, tags=None, names=None, flops=None, shown=None, spelled=None, decompose=None, undo=None,
               splits=None, promotes=None, linear=None, knows_bits=None):
    """Behaviour of an operator of the program's own, in the words that entries of tede's operators use (docs/extending.md): `batch`, the
    pattern at vmap levels ("pointwise", "dims(absent_is_all)", ...); `autocast`: "lower_precision", "fp32" or "promote"; `tags`, as in
    `Library.define`; `names`, what becomes of names of dimensions ("reduced", "kept", ...); `flops`, how it is counted ("product(a, b)");
    `shown`, the operator that __torch_dispatch__ sees where an argument was left out or is a number ("dim=total.all"); `spelled`, another
    name of an argument in Python ("src=other"); `decompose`, the rule whose calls it sees ("matmul", ...) or "never"; `undo`, of a view,
    its operand with `src` written through it ("select_scatter(self, src, dim, index)"), for functionalize; `splits`, how a
    call on DTensors is split among processes ("x: *_ -> *", as in ops/*.yaml). `promotes=True`: its operands
    are brought to one dtype by the rules of promotion("array_api"); `linear=True`: in forward mode its tangent is what it gives of its operands'
    tangents; `knows_bits=True`: its kernels read operands that are only marked as conjugated or negated, which others get computed. What is
    None stays as it is."""
    from tede._decompositions import RULES
    from tede._names import RULES as NAMES
    full = _checked_name(op, "set_traits")
    for trait, word, known in ("decompose", decompose, ("never", *RULES)), ("names", names, NAMES):
        if word not in (None, *known):
            raise ValueError(f"{trait}: '{word}' is no rule; there are {', '.join(known)}")
    if flops is not None:
        from tede.utils.flop_counter import check_pattern
        check_pattern(full, flops)
    if undo is not None:
        from tede._subclasses.functional_tensor import check_undo
        check_undo(full, undo)
    if splits is not None:
        from tede.distributed.tensor._splits import SPLITS
        SPLITS[full] = splits
    if tags is not None:
        _tags.declare(full, tags)
    _C._set_op_traits(full, batch=batch, autocast=autocast, names=names, flops=flops, shown=shown, spelled=spelled, decompose=decompose, undo=undo,
                      promotes=promotes, linear=linear, knows_bits=knows_bits)


def register_autocast(op, device_type, cast_inputs, /, *, lib=None):
    """Cast floating point operands to a dtype where autocast is on."""
    full = _name_of(op)
    overload = _overload_named(full)

    def cast(x):
        if isinstance(x, (list, tuple)):
            return type(x)(map(cast, x))
        return x.to(cast_inputs) if isinstance(x, tede.Tensor) and x.is_floating_point() else x

    def kernel(*args, **kwargs):
        with tede.autocast(device_type, enabled=False):
            return overload(*map(cast, args), **{k: cast(v) for k, v in kwargs.items()})
    (lib or _library(full.partition("::")[0])).impl(full, kernel, "Autocast", allow_override=True)


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """func(cls or mode, op, types, args, kwargs) is called in place of the class's __torch_dispatch__ for this operator."""
    overload = _overload_named(_checked_name(op, "register_torch_dispatch"))

    def register(f):
        _C._torch_dispatch_rules.setdefault(overload, {})[torch_dispatch_class] = f
        return f
    return register if func is None else register(func)


def get_kernel(op, dispatch_key):
    """The Python kernel of an operator for a key."""
    full, key = _name_of(op), getattr(dispatch_key, "name", dispatch_key)
    if _registry.kernels.get((full, key)) is None:
        raise RuntimeError(f"No kernel registered for operator {full} and dispatch key {key}")
    return _registry.kernels[full, key]


# ---- schemas from annotations ----------------------------------------------------------------------------------------

def _annotations():
    from collections.abc import Sequence
    import numbers
    from typing import List, Optional, Sequence as OldSequence, Union
    base = {tede.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", tede.dtype: "ScalarType",
            tede.device: "Device"}
    number = (int | float | bool, Union[int, float, bool], numbers.Number)
    found = dict(base)
    for kind in number:
        found[kind] = "Scalar"
    for kind, text in list(found.items()):
        if kind in (str, tede.dtype, tede.device):
            continue
        for make in (list, List, Sequence, OldSequence):
            found[make[kind]] = text + "[]"
            if kind is tede.Tensor:
                found[make[Optional[kind]]] = "Tensor?[]"
    for kind, text in list(found.items()):
        found[Optional[kind]] = text + "?"
    return found


def tuple_to_list(tuple_type):
    """The annotation of a list of what a tuple's annotation says: tuple[int, str] gives list[Union[int, str]]."""
    import typing
    members = typing.get_args(tuple_type)
    if tuple_type in (tuple, typing.Tuple) or not members:
        return list
    if len(members) == 1 or (len(members) == 2 and members[1] is Ellipsis):
        return list[members[0]]
    return list[typing.Union[members]]


def infer_schema(prototype_function, /, *, mutates_args, op_name=None):
    """The schema that a function's annotations say."""
    if isinstance(mutates_args, str) and mutates_args != "unknown":
        raise ValueError("mutates_args must either be a sequence of the names of the arguments that are mutated or the string "
                         "'unknown'. ")
    known = _annotations()
    signature = inspect.signature(prototype_function, eval_str=True)
    what = f"infer_schema(func): {{}} Got func with signature {signature})"
    parts, only = [], False

    def error(text):
        raise ValueError(what.format(text))
    for i, (name, p) in enumerate(signature.parameters.items()):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            error("We do not support positional-only args, varargs, or varkwargs.")
        if p.kind is p.KEYWORD_ONLY and not only:
            only = True
            parts.append("*")
        if p.annotation is p.empty:
            error(f"Parameter {name} must have a type annotation.")
        text = known.get(p.annotation)
        if text is None:
            if getattr(p.annotation, "__origin__", None) is tuple:
                error(f"Parameter {name} has unsupported type {p.annotation}. We do not support Tuple inputs in schema. As a workaround, "
                      "please try to use List instead.")
            error(f"Parameter {name} has unsupported type {p.annotation}. The valid types are: {known.keys()}.")
        if mutates_args == "unknown" or name in mutates_args:
            if not text.startswith("Tensor"):
                if mutates_args != "unknown":
                    error(f"Parameter {name} is in mutable_args but only Tensors or collections of Tensors can be mutated")
            else:
                text = f"Tensor(a{i}!)" + text[len("Tensor"):]
        if p.default is p.empty:
            parts.append(f"{text} {name}")
            continue
        default = p.default
        if isinstance(default, str):
            default = f'"{default}"'
        elif isinstance(default, tede.dtype):
            default = str(default).rpartition(".")[2]
        elif isinstance(default, tede.device):
            default = f'"{default}"'
        elif not (default is None or isinstance(default, (int, float, bool))):
            error(f"Parameter {name} has an unsupported default value type {type(default)}. Please file an issue on GitHub so we can "
                  "prioritize this.")
        parts.append(f"{text} {name}={default}")
    if mutates_args != "unknown":
        missing = [name for name in mutates_args if name not in signature.parameters]
        if missing:
            error(f"{set(missing)} in mutates_args were not found in the custom op's signature. mutates_args should contain the names of "
                  "all args that the custom op mutates, or just the string 'unknown' if you don't know.")
    result = signature.return_annotation
    if result is signature.empty:
        error("No return type annotation was provided. Please add one.")
    return f"{op_name or ''}({', '.join(parts)}) -> {_result(result, known, error)}"


def _result(annotation, known, error):
    from typing import get_args, get_origin
    if annotation is None:
        return "()"
    kinds = {tede.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool"}
    text = kinds.get(annotation) or (known.get(annotation) if known.get(annotation) in ("Tensor[]", "Scalar") else None)
    if text is None and get_origin(annotation) is tuple:
        inner = [kinds.get(a) or (known.get(a) if known.get(a) in ("Tensor[]", "Scalar") else None) for a in get_args(annotation)]
        if all(inner):
            text = f"({', '.join(inner)})"
    if text is None:
        error(f"Return has unsupported type {annotation}. The valid types are: Tensor, List[Tensor], int, float, bool, Scalar, and "
              "tuples of them.")
    return text


# ---- custom_op -------------------------------------------------------------------------------------------------------

_custom = {}                    # full name -> CustomOpDef


class CustomOpDef:
    """An operator made from a function; calling it calls the operator."""

    def __init__(self, namespace, name, schema, fn, tags=None):
        self._namespace, self._name, self._schema, self._init_fn = namespace, name, schema, fn
        self._qualname = f"{namespace}::{name}"
        self._backends, self._disabled = {}, set()
        self._fake = None
        self._info = _Info(None, None)
        previous = _custom.pop(self._qualname, None)
        if previous is not None:
            previous._lib._destroy()
        self._lib = Library(namespace, "FRAGMENT")
        self._lib.define(name + schema, tags=(*(tags or ()), tede.Tag.pt2_compliant_tag))
        self._opoverload = _overload_named(self._qualname)
        try:
            _check_positional_tensors(self._opoverload, "torch.library.custom_op")
        except NotImplementedError:
            self._lib._destroy()
            raise
        arguments = self._opoverload._schema.arguments
        self._on_device = not any("Tensor" in str(a.type) for a in arguments)      # one without tensors: its argument says where
        self._lib._register_fake(self._qualname, self._run_fake)
        make = _below_kernel if self._opoverload._schema.is_mutable else _autograd_kernel
        self._lib.impl(self._qualname, make(self._opoverload, self._info), "Autograd")
        _custom[self._qualname] = self
        self.__name__ = name
        self.__doc__ = fn.__doc__

    @property
    def __signature__(self):
        return inspect.signature(self._init_fn)

    def _run_fake(self, *args, **kwargs):
        if self._fake is None:
            if not self._opoverload._schema.returns:
                return None
            raise RuntimeError(f"There was no fake impl registered for {self}. This is necessary for torch.compile/export/fx tracing "
                               f"to work. Please use `{self._init_fn.__name__}.register_fake` to add an fake impl.")
        return self._fake(*args, **kwargs)

    def __repr__(self):
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args, **kwargs):
        return self._opoverload(*args, **kwargs)

    def _by_device(self, *args, **kwargs):
        """The kernel of an operator without tensors: that of the device that its argument names."""
        names = [a.name for a in self._opoverload._schema.arguments]
        at = names.index("device")
        kind = tede.device(args[at] if at < len(args) else kwargs["device"]).type
        if kind not in self._backends:
            raise RuntimeError(f"{self._name} does not have a kernel registered for {kind}. Please use register_kernel to do so.")
        return (self._init_fn if kind in self._disabled else self._backends[kind])(*args, **kwargs)

    def register_kernel(self, device_types, fn=None, /):
        types = [device_types] if device_types is None or isinstance(device_types, str) else list(device_types)
        if self._on_device and types != [None]:
            device = [a for a in self._opoverload._schema.arguments if a.name == "device" and str(a.type) == "Device"]
            if not device:
                raise ValueError("Functions without tensor inputs are required to have a `device: torch.device` argument")

        def register(f):
            if self._on_device and types != [None]:
                self._backends.update(dict.fromkeys(types, f))
                self._lib.impl(self._qualname, self._by_device, "CompositeExplicitAutograd", allow_override=True)
                return f
            for t in types:
                self._backends[t] = f
                key = _key_for(t)

                def backend(*args, __f=f, __t=t, **kwargs):
                    chosen = self._init_fn if __t in self._disabled else __f
                    result = chosen(*args, **kwargs)
                    self._check_aliases(args, kwargs, result)
                    return result
                self._lib.impl(self._qualname, backend, key, allow_override=True)
            return f
        return register if fn is None else register(fn)

    def _check_aliases(self, args, kwargs, result):
        """A result must not share memory with an argument."""
        def memory(x):
            return x.untyped_storage().data_ptr()
        tensors = [x for a in (*args, *kwargs.values()) for x in (a if isinstance(a, (list, tuple)) else (a,))
                   if isinstance(x, tede.Tensor) and x.numel()]
        seen = {memory(x) for x in tensors}
        for x in result if isinstance(result, (tuple, list)) else (result,):
            if isinstance(x, tede.Tensor) and x.numel() and memory(x) in seen:
                raise RuntimeError(f"{self._qualname} (with implementation in {self._init_fn.__module__}): The output of this custom "
                                   "operator (1) must not also be an input to this custom operator and (2) may not alias any inputs "
                                   "to this custom operator or other returns. The most common way to trigger this error is if we "
                                   "have y = custom_op(x) and y and x are the same Tensor. Please instead return a clone of the "
                                   "offending output tensor(s) (e.g. return x.clone()) or refactor the custom operator to not "
                                   "return y.")
            if isinstance(x, tede.Tensor) and x.numel():
                seen.add(memory(x))

    def register_fake(self, fn, /):
        self._fake = fn
        _fakes[self._qualname] = fn
        return fn

    def register_autograd(self, backward, /, *, setup_context=None):
        _check_functional(self._opoverload)
        self._info.backward, self._info.setup_context = backward, setup_context

    def register_torch_dispatch(self, torch_dispatch_class, fn=None, /):
        return register_torch_dispatch(self, torch_dispatch_class, fn)

    def register_vmap(self, func=None):
        return register_vmap(self, func)

    def register_autocast(self, device_type, cast_inputs):
        register_autocast(self, device_type, cast_inputs, lib=self._lib)

    @contextlib.contextmanager
    def set_kernel_enabled(self, device_type, enabled=True):
        """Switch a device's kernel off: the function of the definition runs instead."""
        was = device_type in self._disabled
        if device_type not in self._backends:
            _log.warning("Attempted to change the kernel of %s for %s, but no kernel was registered for this device type.", self._qualname,
                         device_type)
        elif was is not enabled:
            _log.warning("Attempted to %s the kernel of %s for %s that is already %s.", "enable" if enabled else "disable", self._qualname,
                         device_type, "enabled" if enabled else "disabled")
        (self._disabled.discard if enabled else self._disabled.add)(device_type)
        try:
            yield
        finally:
            (self._disabled.add if was else self._disabled.discard)(device_type)


def custom_op(name, fn=None, /, *, mutates_args, device_types=None, schema=None, tags=None):
    """An operator "namespace::name" from a function with annotations, or a decorator that makes one."""
    def make(fn):
        text = infer_schema(fn, mutates_args=mutates_args) if schema is None else schema
        namespace, sep, opname = name.partition("::")
        if not sep:
            raise ValueError(f"Expected `qualname` to be of the form \"namespace::name\", but got {name}. The qualname passed to the "
                             "torch.library APIs must consist of a namespace and a name, e.g. aten::sin")
        op = CustomOpDef(namespace, opname, text, fn, tags)
        if schema is not None:
            declared = {a.name for a in op._opoverload._schema.arguments if a.is_write}
            if declared != set(mutates_args):
                op._lib._destroy()
                raise ValueError(f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}. The "
                                 f"schema suggests that the op mutates {declared}which is different from "
                                 "what was provided to us in `mutates_args`. Please make these consistent.")
        op.register_kernel(device_types)(fn)
        return op
    return make if fn is None else make(fn)


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    return custom_op(name, fn, mutates_args=mutates_args, schema=schema)


def wrap_triton(kernel, /):
    raise NotImplementedError("library.wrap_triton: there is no Triton here")


# ---- opcheck -----------------------------------------------------------------------------------------------------------

class OpCheckError(Exception):
    """What opcheck found."""


_UTILS = ("test_schema", "test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")


def _tensors(x):
    return [t for a in x for t in (a if isinstance(a, (list, tuple)) else (a,)) if isinstance(t, tede.Tensor)]


def _copied(args, move=lambda x: x.detach().clone().requires_grad_(x.requires_grad)):
    def one(x):
        if isinstance(x, (list, tuple)):
            return type(x)(map(one, x))
        return move(x) if isinstance(x, tede.Tensor) else x
    return tuple(map(one, args))


def _test_schema(op, args, kwargs):
    from tede._subclasses.schema_check_mode import SchemaCheckMode
    args, kwargs = _copied(args), dict(zip(kwargs, _copied(kwargs.values())))
    with SchemaCheckMode():
        op(*args, **kwargs)


def _test_autograd_registration(op, args, kwargs):
    given = _tensors((*args, *kwargs.values()))
    if not any(x.requires_grad for x in given) or op.namespace == "aten":
        return
    if any(_registry.has_kernel(op.name(), key) for key in ("Autograd", "AutogradCPU", "CompositeImplicitAutograd", "")):
        return
    kernel = next((found for key in ("CPU", "CompositeExplicitAutograd") if (found := _registry.kernels.get((op.name(), key)))), op)
    result = kernel(*args, **kwargs)        # the operator itself would run below autograd
    made = [x for x in _tensors(result if isinstance(result, (tuple, list)) else (result,)) if not any(x is y for y in given)]
    if any(x.requires_grad for x in made):
        raise RuntimeError(f"{op}: a result has requires_grad=True, but the operator does not have an autograd kernel defined at an autograd "
                           "key (Autograd). An autograd.Function belongs to that key; what is made of other operators, to "
                           "CompositeImplicitAutograd")


def _test_faketensor(op, args, kwargs):
    real = op(*_copied(args), **dict(zip(kwargs, _copied(kwargs.values()))))
    if tede.Tag.dynamic_output_shape in op.tags and op.namespace == "aten":
        return              # there is no fake result to compare with
    picked = []

    def pick(least, most):
        picked.append(least)
        return least

    def to_meta(x):
        return x.detach().to("meta")
    _registry.data_sizes.append(pick)
    try:
        fake = op(*_copied(args, to_meta), **dict(zip(kwargs, _copied(kwargs.values(), to_meta))))
    except (RuntimeError, NotImplementedError) as error:
        raise RuntimeError(str(error)) from error
    finally:
        _registry.data_sizes.remove(pick)
    many = (lambda x: x if isinstance(x, (tuple, list)) else (x,))
    for a, b in zip(_tensors(many(real)), _tensors(many(fake))):
        fits = a.ndim == b.ndim and all(n == m or m in picked for n, m in zip(a.shape, b.shape))
        if not fits or a.dtype != b.dtype:
            raise RuntimeError(f"Shapes {tuple(a.shape)} and {tuple(b.shape)} are not equal, or dtypes {a.dtype} and {b.dtype}: what the "
                               "operator gives, and what its fake kernel says")


def _test_aot(op, args, kwargs):
    """Results share no memory with operands by the schema, and gradients come out, with the operands' shapes."""
    if op.namespace != "aten" and any(r.alias_info is not None for r in op._schema.returns):
        raise RuntimeError(f"Found a custom (non-ATen) operator whose output has alias annotations: {op._schema}. We only support functionalizing "
                           "operators whose outputs do not have alias annotations: a result that is an operand need not be returned, and one that "
                           "looks at an operand's memory should be a copy")
    args, kwargs = _copied(args), dict(zip(kwargs, _copied(kwargs.values())))
    wanted = [x for x in _tensors((*args, *kwargs.values())) if x.requires_grad]
    result = op(*args, **kwargs)
    live = [x for x in _tensors(result if isinstance(result, (tuple, list)) else (result,)) if x.requires_grad]
    if wanted and live:
        for g, x in zip(tede.autograd.grad(live, wanted, [tede.ones_like(y) for y in live], allow_unused=True), wanted):
            if g is not None and g.shape != x.shape:
                raise RuntimeError("a gradient of shape "
                                   f"{tuple(g.shape)} for an operand of shape {tuple(x.shape)}")


def opcheck(op, args, kwargs=None, *, test_utils=_UTILS, raise_exception=True, atol=None, rtol=None):
    """Whether a definition holds: its schema says what is written and shared, its gradient and fake kernel fit."""
    kwargs = kwargs or {}
    if isinstance(op, CustomOpDef):
        op = op._opoverload
    elif hasattr(op, "overloads"):
        op = getattr(op, op.overloads()[0])
    elif not hasattr(op, "_schema"):
        raise ValueError(f"opcheck(op, ...): expected op to be instance of torch._ops.OpOverload, e.g. torch.ops.aten.sin.default, got {type(op)}")
    tests = dict(zip(_UTILS, (_test_schema, _test_autograd_registration, _test_faketensor, _test_aot)))
    test_utils = (test_utils,) if isinstance(test_utils, str) else test_utils
    if not set(test_utils) <= set(tests):
        raise ValueError(f"opcheck(op, ...): expected test_utils to be subset of {_UTILS}, got {test_utils}")
    found = {}
    for name in test_utils:
        try:
            tests[name](op, args, kwargs)
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(f"opcheck(op, ...): {name} failed with {error} (scroll up for stack trace)") from error
            found[name] = error
    return found
