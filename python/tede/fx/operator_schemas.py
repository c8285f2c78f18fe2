"""Signatures of operators, taken from their schemas: to bind calls, to normalize them, to see which of them write."""
import enum
import inspect
import numbers
import typing
from collections import namedtuple

import tede
from tede.fx._compatibility import compatibility

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "get_signature_for_torch_op", "create_type_hint", "type_matches",
           "normalize_function", "normalize_module"]
ArgsKwargsPair = namedtuple("ArgsKwargsPair", ("args", "kwargs"))
_TYPES = {"Tensor": tede.Tensor, "Device": tede.device, "Layout": int, "ScalarType": int, "MemoryFormat": int, "number": numbers.Number,
          "Scalar": numbers.Number, "Dimname": str, "str": str, "int": int, "float": float, "bool": bool, "complex": complex,
          "Generator": tede.Generator, "SymInt": int, "Any": typing.Any, "NoneType": type(None)}


def _python_type(text):
    """The type that a schema's name of one stands for."""
    text = text.strip()
    if text.endswith("?"):
        return typing.Optional[_python_type(text[:-1])]
    if text.endswith("]"):
        return typing.List[_python_type(text[:text.rindex("[")])]
    if text.startswith("List["):
        return typing.List[_python_type(text[len("List["):-1])]
    if text.startswith("Optional["):
        return typing.Optional[_python_type(text[len("Optional["):-1])]
    return _TYPES.get(text, typing.Any)


def _signature(schema):
    parameters = []
    for argument in schema.arguments:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        name = "input" if argument.name == "self" else "from_" if argument.name == "from" else argument.name
        if argument.name == "from":             # a keyword: it can come by position only, as can what is before it
            kind = inspect.Parameter.POSITIONAL_ONLY
            parameters = [p.replace(kind=kind) for p in parameters]
        parameters.append(inspect.Parameter(name, kind, default=default, annotation=_python_type(str(argument.type))))
    results = [_python_type(str(result.type)) for result in schema.returns]
    annotation = None if not results else results[0] if len(results) == 1 else typing.Tuple[tuple(results)]
    return inspect.Signature(parameters, return_annotation=annotation)


def _schemas(op):
    """The schemas of a function's overloads; None if it isn't an operator."""
    if hasattr(op, "_schema"):
        return [op._schema]
    if hasattr(op, "overloads"):
        return [getattr(op, name)._schema for name in op.overloads() if not name.startswith("deprecated")]
    if type(op) not in (type(tede.add), type(tede.Tensor.add)):
        return None
    packet = getattr(tede.ops.aten, op.__name__, None)
    return None if packet is None else _schemas(packet)


@compatibility(is_backward_compatible=False)
def get_signature_for_torch_op(op, return_schemas=False):
    """A list of inspect.Signature, one for each overload; None for what isn't an operator. With `return_schemas` both lists."""
    schemas = _schemas(op)
    signatures = None if schemas is None else [_signature(schema) for schema in schemas]
    return (signatures, schemas) if return_schemas else signatures


@compatibility(is_backward_compatible=False)
def check_for_mutable_operation(target, args, kwargs):
    """An error if a call writes to an operand, by its schema."""
    signatures, schemas = get_signature_for_torch_op(target, return_schemas=True)
    if not signatures:
        return
    fitting = []
    for signature, schema in zip(signatures, schemas):
        try:
            signature.bind(*args, **kwargs)
            fitting.append(schema)
        except TypeError:
            continue
    if len(fitting) == 1 and fitting[0].is_mutable:        # several can't be told apart without the types
        raise RuntimeError(f"Tried to trace mutable operation {fitting[0]}. FX only supports functional code, so operations that "
                           "mutate operands in-place (e.g. via `out` arguments) are not supported")


@compatibility(is_backward_compatible=False)
def create_type_hint(x):
    """The type of a list's or tuple's elements: List[int] for [int, int]."""
    if not isinstance(x, (list, tuple)):
        return x
    kind = typing.List if isinstance(x, list) else typing.Tuple
    if not x:
        return kind[typing.Any] if kind is typing.List else typing.Tuple[typing.Any, ...]
    base = x[0]
    for item in x:
        if isinstance(item, type) and isinstance(base, type) and issubclass(base, item):
            base = item
        elif not (item is base or isinstance(item, type) and isinstance(base, type) and issubclass(item, base)):
            return kind[typing.Any] if kind is typing.List else typing.Tuple[typing.Any, ...]
    return typing.List[base] if kind is typing.List else typing.Tuple[base, ...]


@compatibility(is_backward_compatible=False)
def type_matches(signature_type, argument_type):
    """Whether an argument of a type may be passed where a signature says another."""
    origin = typing.get_origin(signature_type)
    if signature_type is typing.Any or signature_type == argument_type:
        return True
    if origin is typing.Union:
        return any(type_matches(inner, argument_type) for inner in typing.get_args(signature_type))
    if signature_type == typing.List[int] and argument_type is int:
        return True
    if origin is list:
        inner = typing.get_args(signature_type)[0]
        if argument_type is inner:
            return True
        theirs = typing.get_args(argument_type)
        return typing.get_origin(argument_type) in (list, tuple) and all(t is ... or type_matches(inner, t) for t in theirs)
    if signature_type is numbers.Number and argument_type in (int, float):
        return True
    if signature_type is int and argument_type is tede.dtype:
        return True
    if signature_type is float and argument_type is int:
        return True
    return isinstance(signature_type, type) and isinstance(argument_type, type) and issubclass(argument_type, signature_type)


def _bound(signature, args, kwargs, only_kwargs):
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    values, positional = {}, []
    for name, value in bound.arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            positional += value
        elif parameter.kind is parameter.VAR_KEYWORD:
            values.update(value)
        elif parameter.kind is parameter.KEYWORD_ONLY or only_kwargs and parameter.kind is not parameter.POSITIONAL_ONLY:
            values[name] = value
        else:
            positional.append(value)
    return ArgsKwargsPair(tuple(positional), values)


class _Ambiguous(enum.Enum):
    MANY = 0


def _choose(signatures, args, kwargs, arg_types, kwarg_types):
    fitting = []
    for signature in signatures:
        try:
            signature.bind(*args, **kwargs)
            fitting.append(signature)
        except TypeError:
            continue
    if len(fitting) > 1 and (arg_types is not None or kwarg_types is not None):
        typed = []
        for signature in fitting:
            bound = signature.bind(*(arg_types or ()), **(kwarg_types or {}))
            if all(type_matches(signature.parameters[name].annotation, kind) for name, kind in bound.arguments.items()):
                typed.append(signature)
        fitting = typed[:1]
    return fitting[0] if len(fitting) == 1 else _Ambiguous.MANY if fitting else None


@compatibility(is_backward_compatible=False)
def normalize_function(target, args, kwargs=None, arg_types=None, kwarg_types=None, normalize_to_only_use_kwargs=False):
    """A call's arguments under the names of the parameters, with all defaults; None where that can't be said."""
    kwargs = kwargs or {}
    signatures = get_signature_for_torch_op(target)
    if signatures is None:
        if not callable(target):
            return None
        try:
            return _bound(inspect.signature(inspect.unwrap(target)), args, kwargs, normalize_to_only_use_kwargs)
        except (TypeError, ValueError):
            return None
    chosen = _choose(signatures, args, kwargs, arg_types, kwarg_types)
    if chosen is _Ambiguous.MANY:
        given = f"{arg_types}, {kwarg_types}" if arg_types is not None or kwarg_types is not None else None
        if given is None:
            shown = "\n".join(map(str, signatures))
            raise RuntimeError(f"Tried to normalize arguments to {tede.typename(target)} but the schema match was ambiguous! Please "
                               f"provide argument types to the normalize_arguments() call. Available schemas:\n{shown}")
    return _bound(chosen, args, kwargs, normalize_to_only_use_kwargs) if isinstance(chosen, inspect.Signature) else None


@compatibility(is_backward_compatible=False)
def normalize_module(root, target, args, kwargs=None, normalize_to_only_use_kwargs=False):
    """The same for a call of a module of the library; None for others."""
    try:
        module = root.get_submodule(target)
    except AttributeError as error:
        raise RuntimeError(f"Tried to normalize node with target {target} but root did not have that target!") from error
    if getattr(tede.nn, type(module).__name__, None) is not type(module):
        return None
    return _bound(inspect.signature(module.forward), args, kwargs or {}, normalize_to_only_use_kwargs)
