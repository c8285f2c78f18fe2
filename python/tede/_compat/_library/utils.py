"""Predicates about operators and their schemas."""
import tede
from tede._schema import FunctionSchema, parse_schema


def parse_namespace(qualname):
    """("namespace", "name") of "namespace::name"."""
    parts = qualname.split("::")
    if len(parts) != 2:
        raise ValueError(f"Expected `qualname` to be of the form \"namespace::name\", but got {qualname}. The qualname passed to the "
                         "torch.library APIs must consist of a namespace and a name, e.g. aten::sin")
    return parts[0], parts[1]


def lookup_op(qualname):
    """The overload of "namespace::name", or of "namespace::name.overload"."""
    namespace, name = parse_namespace(qualname)
    name, _, overload = name.partition(".")
    return getattr(getattr(getattr(tede.ops, namespace), name), overload or "default")


def is_builtin(op):
    """Whether an overload is the library's own."""
    return op.namespace in ("aten", "prim", "prims")


def is_tensor_like_type(kind):
    return str(kind) in ("Tensor", "Optional[Tensor]")


def is_tensorlist_like_type(kind):
    return str(kind) in ("List[Tensor]", "List[Optional[Tensor]]", "Optional[List[Tensor]]", "Optional[List[Optional[Tensor]]]")


def is_functional_schema(schema, *, allow_valid_view=False):
    """Whether the operator writes nothing and gives no views, and gives something."""
    schema = schema if isinstance(schema, FunctionSchema) else parse_schema(str(schema))
    views = any(r.alias_info is not None for r in schema.returns)
    if views and allow_valid_view and not schema.is_mutable:
        return len(schema.returns) == 1 and sum(a.alias_info is not None for a in schema.arguments) == 1
    return bool(schema.returns) and not schema.is_mutable and not views


def mutates_and_returns_first_arg(op):
    """Whether it is as add_: writes its first argument and no other, and gives that."""
    schema = op._schema
    if len(schema.returns) != 1 or not schema.arguments:
        return False
    first, result = schema.arguments[0], schema.returns[0]
    return (first.is_write and not any(a.alias_info is not None for a in schema.arguments[1:]) and result.is_write
            and result.alias_info.before_set == first.alias_info.before_set)


def has_kwarg_only_args(schema):
    return any(a.kwarg_only for a in schema.arguments)


def has_kwarg_only_tensors(schema):
    return any(a.kwarg_only and (is_tensor_like_type(a.type) or is_tensorlist_like_type(a.type)) for a in schema.arguments)


def has_tensor_arg(schema):
    return any(is_tensor_like_type(a.type) or is_tensorlist_like_type(a.type) for a in schema.arguments)


def zip_schema(schema, args, kwargs):
    """Pairs of the schema's arguments and what a call gives for them; arguments left to their defaults are left out."""
    for i, argument in enumerate(schema.arguments):
        if argument.name in kwargs:
            yield argument, kwargs[argument.name]
        elif i < len(args) and not argument.kwarg_only:
            yield argument, args[i]


def fill_defaults(schema, args, kwargs):
    """The call's arguments with the schema's defaults where it gives none."""
    positional, keywords = list(args), dict(kwargs)
    for i, argument in enumerate(schema.arguments):
        if argument.kwarg_only:
            keywords.setdefault(argument.name, argument.default_value)
        elif i >= len(positional) and argument.name not in keywords:
            positional.append(argument.default_value)
    return tuple(positional), keywords


def iter_tensors(args, kwargs, allowed_nesting=1):
    """The tensors among arguments, and in lists of them."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, tede.Tensor):
            yield value
        elif allowed_nesting and isinstance(value, (tuple, list)):
            yield from iter_tensors(tuple(value), {}, allowed_nesting - 1)


def is_inplace(op):
    return mutates_and_returns_first_arg(op)


def is_out(op):
    """Whether it writes into keyword arguments that it returns."""
    return any(a.kwarg_only and a.is_write for a in op._schema.arguments)
