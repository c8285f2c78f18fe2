"""Which dimensions vary: `dynamic_shapes` of torch.export.export and torch.onnx.export."""
import tede
from tede.export._recording import argument_names


class _Hint:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"Dim.{self.name}"


class Dim:
    """A dimension that varies: Dim("batch", min=1, max=64). Dimensions with one name have one size."""

    AUTO, DYNAMIC, STATIC = _Hint("AUTO"), _Hint("DYNAMIC"), _Hint("STATIC")

    def __init__(self, name, *, min=None, max=None):
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"Dim names must be valid identifiers, got {name!r}")
        low = 0 if min is None else min
        if max is not None and max < low:
            raise AssertionError(f"Cannot create Dim with inconsistent min={min}, max={max}")
        self.__name__, self.min, self.max = name, low, max

    def __repr__(self):
        return self.__name__


def dims(*names, min=None, max=None):
    """Several of them."""
    return tuple(Dim(name, min=min, max=max) for name in names)


def varying_dims(module, args, kwargs, dynamic_shapes):
    """({leaf's number: {dimension: name}}, {name: Dim}) of a call's arguments."""
    flat, ranges, number = {}, {}, [0, 0]

    def named(hint):
        if isinstance(hint, Dim):
            ranges[hint.__name__] = hint
            return hint.__name__
        if isinstance(hint, str):
            return hint
        if hint is Dim.AUTO or hint is Dim.DYNAMIC:
            number[1] += 1
            return f"s{number[1] - 1}"
        if hint is None or hint is Dim.STATIC or isinstance(hint, int):
            return None
        raise TypeError(f"dynamic_shapes: a dimension is a Dim, a name, Dim.DYNAMIC or None, not {hint!r}")

    def visit(value, spec, path):
        if not isinstance(value, (tuple, list, dict)):
            i = number[0]
            number[0] += 1
            if spec is None:
                return
            if not isinstance(value, tede.Tensor):
                raise ValueError(f"dynamic_shapes{path}: the argument isn't a tensor")
            items = spec.items() if isinstance(spec, dict) else enumerate(spec)
            found = {}
            for dim, hint in items:
                if not -value.ndim <= dim < value.ndim:
                    raise ValueError(f"dynamic_shapes{path}: dimension {dim} of a tensor of {value.ndim} dimensions")
                if (name := named(hint)) is not None:
                    found[dim % value.ndim] = name
            flat[i] = found
            return
        members = value.items() if isinstance(value, dict) else enumerate(value)
        for key, member in members:
            inner = None if spec is None else spec.get(key) if isinstance(spec, dict) else spec[key]
            visit(member, inner, f"{path}[{key!r}]")

    if dynamic_shapes is None:
        return {}, {}
    if isinstance(dynamic_shapes, dict):
        arguments = dict(zip(argument_names(module, args, kwargs), (*args, *kwargs.values())))
        unknown = set(dynamic_shapes) - set(arguments)
        if unknown:
            raise ValueError(f"dynamic_shapes: the module has no arguments {sorted(unknown)}; they are {list(arguments)}")
        for name, value in arguments.items():
            visit(value, dynamic_shapes.get(name), f"[{name!r}]")
    else:
        values = [*args, *kwargs.values()]
        if len(dynamic_shapes) != len(values):
            raise ValueError(f"dynamic_shapes has {len(dynamic_shapes)} members for {len(values)} arguments")
        for i, (value, spec) in enumerate(zip(values, dynamic_shapes)):
            visit(value, spec, f"[{i}]")
    return flat, ranges
