"""torch._custom_ops: operators that are declared, implemented and differentiated in steps, each by the operator's name.

The older form of tede.library.custom_op. What it does otherwise: a gradient is a dict by the arguments' names, made of what
one function picks to be saved, and there is none until both functions are given."""
from collections import namedtuple

import tede
from tede import _registry, library
from tede._custom_op import global_registry
from tede.library import get_ctx, impl_abstract  # noqa: F401  part of it
from tede.utils import _pytree as tree

_gradients = {}         # full name -> _Gradient
_unimplemented = {}     # full name -> the kernel of an operator that is only declared


class _Gradient:
    save = backward = differentiable = library = None

    def _destroy(self):
        """The operator goes; used by what makes many of one name, as tests do."""
        if self.library is not None:
            self.library._destroy()
        for registry in (_gradients, global_registry, _unimplemented):
            registry.pop(self.overload.name(), None)


def _destroy(qualname):
    global_registry[qualname]._destroy()


def _split(qualname):
    namespace, _, name = qualname.partition("::")
    if not name or "::" in name:
        raise ValueError(f"Expected `qualname` to be of the form \"namespace::name\", but got {qualname}. The qualname passed to the "
                         "torch.library API must consist of a namespace and a name, e.g. aten::sin")
    if "." in name:
        raise ValueError(f"The torch.custom_ops APIs do not handle overloads, i.e. operator names with '.' in them. Please name your "
                         f"operator something like {qualname.partition('.')[0]}. Got: {qualname}")
    return namespace, name


def _define(qualname, schema):
    namespace, name = _split(qualname)
    if namespace in library._RESERVED:
        raise ValueError(f"custom_op('{qualname}', ...): {namespace} is a reserved namespace; please choose another one")
    own = library.Library(namespace, "FRAGMENT")
    own.define(name + schema)
    declared = library._overload_named(qualname)._schema
    if declared.is_mutable or not declared.returns or any(r.alias_info is not None for r in declared.returns):
        own._destroy()
        raise ValueError("custom_op only supports functional operators (ops that do not mutate any inputs, do not return views of the "
                         f"inputs, and has at least one return). Got the following non-functional schema: {declared}")
    _unimplemented[qualname] = _refusing(qualname)
    own.impl(name, _unimplemented[qualname], "CompositeExplicitAutograd")
    gradient = _differentiate(qualname, own)
    gradient.library, global_registry[qualname] = own, gradient


def _refusing(qualname):
    """The kernel of an operator without one: it says what is missing for the call's operands."""
    def refuse(*args, **kwargs):
        devices = {x.device.type for x in tree.tree_leaves((args, kwargs)) if isinstance(x, tede.Tensor)}
        if not devices:
            says = "there were no Tensor inputs and no implementation for all devices (CompositeExplicitAutograd)"
        elif "meta" in devices:
            says = "there was no fake impl or Meta kernel registered for this operator"
        else:
            says = f"there was no {min(devices)} impl registered for this operator"
        raise NotImplementedError(f"{qualname}: {says}; torch._custom_ops.impl and impl_abstract give one")
    return refuse


def custom_op(qualname, func_or_schema=None):
    """Declare "namespace::name" by a schema, "(Tensor x) -> Tensor", or by a function with annotations that isn't run."""
    if isinstance(func_or_schema, str):
        if "->" not in func_or_schema:
            raise AssertionError(f"Invalid function schema: {qualname.partition('::')[2]}{func_or_schema}")
        return _define(qualname, func_or_schema)

    def declare(function):
        name = _split(qualname)[1]
        if function.__name__ != name:
            raise ValueError(f"custom_op(qualname='{qualname}', ...): expected `func` to have name '{name}' but got "
                             f"'{function.__name__}'. Please either change the name of `func` or the qualname that is passed to "
                             "`custom_op`")
        _define(qualname, library.infer_schema(function, mutates_args=()))
        return function
    return declare if func_or_schema is None else declare(func_or_schema)


def impl(qualname, *, device_types=("cpu", "cuda"), func=None):
    """What computes the operator, for devices of some types."""
    kinds = (device_types,) if isinstance(device_types, str) else device_types
    for kind in kinds:
        if kind not in ("cpu", "cuda"):
            raise ValueError(f"CustomOp.impl(device_types=[{kind}, ...]): we only support device_type in {{'cpu', 'cuda'}}.")
    for kind in kinds:
        for key in (kind.upper(), "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            if _registry.kernels.get((qualname, key)) not in (None, _unimplemented.get(qualname)):
                raise RuntimeError(f"impl(...): the operator {qualname} already has an implementation for device type {kind}, registered "
                                   f"for the dispatch key {key} by torch.library or TORCH_LIBRARY")

    def register(function):
        library.impl(qualname, device_types, function)
        return function
    return register if func is None else register(func)


# ---- gradients

def impl_save_for_backward(qualname, *, func=None):
    """function(inputs, output): what the gradient needs of them, tensors and others in any containers."""
    def register(function):
        _differentiate(qualname).save = function
        return function
    return register if func is None else register(func)


def impl_backward(qualname, output_differentiability=None, *, func=None):
    """function(ctx, saved, *grads): a dict with the gradient of each argument that is or holds tensors."""
    def register(function):
        gradient = _differentiate(qualname)
        gradient.differentiable = _checked_differentiability(qualname, output_differentiability)
        gradient.backward = function
        return function
    return register if func is None else register(func)


def _checked_differentiability(qualname, given):
    returns = library._overload_named(qualname)._schema.returns
    if given is None:
        if any(str(r.type) == "List[Tensor]" for r in returns):
            raise RuntimeError(f"{qualname} returns a list of tensors: please say by output_differentiability which of its results "
                               "have gradients")
        return [str(r.type) == "Tensor" for r in returns]
    if not isinstance(given, list) or not all(isinstance(x, bool) for x in given) or len(given) != len(returns):
        raise RuntimeError(f"{qualname}: expected output_differentiability to be a list of {len(returns)} bools, got {given}")
    return given


def _differentiate(qualname, own=None):
    """The operator's gradient; at the first time its Autograd kernel is registered."""
    gradient = _gradients.get(qualname)
    overload = library._overload_named(qualname)
    if gradient is not None and gradient.overload is overload:
        return gradient
    schema = overload._schema
    for wrong, says in ((not schema.returns, "has no returns"), (schema.is_mutable, "is non-functional: it writes to an operand"),
                        (any(r.alias_info is not None for r in schema.returns), "is an operator that returns views")):
        if wrong:
            raise RuntimeError(f"Cannot register a gradient for {qualname}: it {says}")
    for key in ("Autograd", "AutogradCPU", "AutogradCUDA", "CompositeImplicitAutograd"):
        if (qualname, key) in _registry.kernels:
            raise RuntimeError(f"Cannot register a gradient for {qualname}: it has a kernel for {key}")
    gradient = _Gradient()
    gradient.overload, gradient.inputs = overload, namedtuple(f"{schema.name.partition('::')[2]}_args", [a.name for a in schema.arguments])
    gradient.expected = {a.name for a in schema.arguments if "Tensor" in str(a.type)}
    (own or library._library(qualname.partition("::")[0])).impl(qualname, _kernel(gradient), "Autograd")
    _gradients[qualname] = gradient
    return gradient


def _kernel(gradient):
    overload = gradient.overload
    below = library._below_kernel(overload)

    class CustomOp(tede.autograd.Function):
        @staticmethod
        def forward(ctx, structure, made, *flat):
            args = tree.tree_unflatten(flat, structure)
            output = below(*args)
            ctx.inputs = gradient.inputs(*args, *[a.default_value for a in overload._schema.arguments[len(args):]])
            kept, ctx.kept = tree.tree_flatten(gradient.save(ctx.inputs, output))
            ctx.others = [None if isinstance(x, tede.Tensor) else (x,) for x in kept]
            ctx.save_for_backward(*[x for x in kept if isinstance(x, tede.Tensor)])
            ctx.inputs = tree.tree_map(type, ctx.inputs)
            parts = output if isinstance(output, tuple) else (output,)
            for i, (part, wanted) in enumerate(zip(parts, gradient.differentiable)):
                if wanted and not all(isinstance(x, tede.Tensor) for x in tree.tree_leaves(part)):
                    raise RuntimeError(f"{overload}: output_differentiability says that result {i} has a gradient, but it is not a Tensor: "
                                       f"it is {type(part)}")
            ctx.mark_non_differentiable(*[x for part, wanted in zip(parts, gradient.differentiable) if not wanted
                                          for x in tree.tree_leaves(part) if isinstance(x, tede.Tensor)])
            results, ctx.structure = tree.tree_flatten(output)
            made[:] = [ctx.structure]
            return tuple(results)

        @staticmethod
        def backward(ctx, *grads):
            tensors = iter(ctx.saved_tensors)
            saved = tree.tree_unflatten([next(tensors) if other is None else other[0] for other in ctx.others], ctx.kept)
            grads = tree.tree_unflatten(list(grads), ctx.structure)
            found = gradient.backward(object(), saved, *(grads if isinstance(grads, tuple) else (grads,)))
            return (None, None, *_flat_gradients(gradient, ctx.inputs, found))

    def kernel(*args):
        if not (tede.is_grad_enabled() and any(isinstance(x, tede.Tensor) and x.requires_grad for x in tree.tree_leaves(args))):
            return below(*args)
        if gradient.save is None and gradient.backward is None:
            raise RuntimeError("Autograd has not been implemented for operator")
        missing = "save_for_backward" if gradient.save is None else "backward" if gradient.backward is None else None
        if missing:
            raise RuntimeError(f"We found a part of the gradient of {overload} but were unable to find a '{missing}' registration. "
                               "Please provide both, via `impl_backward` and `impl_save_for_backward`.")
        flat, structure = tree.tree_flatten(args)
        made = []
        results = CustomOp.apply(structure, made, *flat)
        return tree.tree_unflatten(list(results), made[0])
    return kernel


def _flat_gradients(gradient, types, found):
    """The dict's gradients in the order of the flattened arguments, each checked."""
    def fail(says):
        raise RuntimeError(f"In the backward function defined for {gradient.overload} using the CustomOp API, {says}")
    if not isinstance(found, dict):
        fail(f"expected the output of the backward function to be a dict but got {type(found)}")
    if found.keys() != gradient.expected:
        fail(f"expected the returned grad_input dict to have keys {gradient.expected} but got {found.keys()}. The backward function must "
             "return a gradient (can be None) for each arg to the CustomOp that may be a Tensor or Sequence[Tensor]. Args declared to be "
             "non-Tensor-like types should not appear in the grad_input dict")
    flat = []
    for name, kinds in types._asdict().items():
        g = found.get(name)
        if isinstance(kinds, (list, tuple)) and name in found:
            if not isinstance(g, (list, tuple)):
                fail(f"for input '{name}' expected the grad_input dict to hold a list of gradients but got object of type {type(g)}.")
            if len(g) != len(kinds):
                fail(f"for input '{name}' expected the grad_input dict to hold a list of {len(kinds)} gradients but got {len(g)}")
            if not all(x is None or isinstance(x, tede.Tensor) for x in g):
                fail(f"for input '{name}' expected the grad_input dict to hold a list of None or Tensor gradients but got "
                     f"{[type(x) for x in g]}")
            flat += g
        elif g is not None and not isinstance(g, tede.Tensor):
            fail(f"got object of type {type(g)} as the gradient for input '{name}', but expected the gradient to be either None or a "
                 "Tensor")
        elif g is not None and not issubclass(kinds, tede.Tensor):
            fail(f"got a Tensor as the gradient for input '{name}' but expected None as the gradient because input '{name}' was not a "
                 f"Tensor (it was type {kinds}).")
        else:
            flat += [g] if not isinstance(kinds, (list, tuple)) else [None] * len(kinds)
    return flat
