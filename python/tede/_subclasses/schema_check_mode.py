"""SchemaCheckMode: whether operators do what their schemas say, and no more: what they write, and what shares memory."""
from collections import namedtuple
from itertools import combinations

import tede
from tede import _C
from tede.utils import _pytree
from tede.utils._python_dispatch import TorchDispatchMode

Mutation = namedtuple("Mutation", ["op_name", "arg_name"])
Aliasing = namedtuple("Aliasing", ["op_name", "arg_name", "output_number"])


def _tensors(value):
    """The tensors in it; of wrappers that keep another as `elem`, that."""
    return [getattr(x, "elem", x) for x in _pytree.tree_leaves(value) if isinstance(x, tede.Tensor)]


def _share(a, b):
    """Whether tensors among a look at the memory of tensors among b."""
    return _C._overlaps([x for x in _tensors(a) if x.layout == tede.strided and not _C._is_hollow(x)],
                        [x for x in _tensors(b) if x.layout == tede.strided and not _C._is_hollow(x)])


def _state(x):
    plain = x.detach().clone() if x.layout == tede.strided and not x.is_meta else None
    return plain, x.shape, x.stride() if x.layout == tede.strided else None


def _changed(before, x):
    plain, shape, strides = before
    if shape != x.shape or (strides is not None and strides != x.stride()):
        return True
    return plain is not None and not tede.equal(*(y.resolve_conj().resolve_neg().contiguous().view(-1).view(tede.uint8) for y in (plain, x.detach())))


def _sets(alias):
    """The sets that an argument or result is in, and after the call may be in."""
    return alias.before_set | alias.after_set if alias is not None else set()


def _may_share(a, b):
    a, b = _sets(a), _sets(b)
    return bool(a & b) or ("*" in a and bool(b)) or ("*" in b and bool(a))


def _trains(name, given):
    """Whether it is a running statistic that this call may write, which schemas don't tell."""
    return name in ("running_mean", "running_var") and any(
        given[word][1] for word in ("training", "train", "use_input_stats") if word in given)


class SchemaCheckMode(TorchDispatchMode):
    """Within it each operator is held against its schema. `ops`, `mutated` and `aliasing` list what was seen."""

    def __init__(self):
        super().__init__()
        self.reset_cache()

    def reset_cache(self):
        self.ops, self.mutated, self.aliasing = [], [], []

    def display_ops(self):
        print(*self.ops, sep=",")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        self.ops.append(schema.name)
        given = {a.name: (a, kwargs[a.name] if a.name in kwargs else args[i]) for i, a in enumerate(schema.arguments)
                 if a.name in kwargs or (i < len(args) and not a.kwarg_only)}
        before = {name: [_state(x) for x in _tensors(value)] for name, (_, value) in given.items()}
        result = func(*args, **kwargs)
        results = result if isinstance(result, tuple) and len(schema.returns) != 1 else (result,)
        # operands that share memory may do what one of them may
        alike = {name: [other for other, (_, y) in given.items() if other == name or _share(x, y)] for name, (_, x) in given.items()}
        for name, (argument, value) in given.items():
            self._check_sharing(schema, name, value, results, [given[other][0] for other in alike[name]])
            if func.namespace != "aten" and not argument.is_write and any(value is out for out in results if isinstance(out, tede.Tensor)):
                raise RuntimeError(f"Non-aten operators are not allowed to directly return inputs: {schema.name} gives its argument {name}. "
                                   "Return a copy of it, or a view")
            if any(_changed(was, x) for was, x in zip(before[name], _tensors(value))):
                if not any(given[other][0].is_write for other in alike[name]) and not _trains(name, given):
                    raise RuntimeError(f"Argument {_shown(name)} is not defined as mutable but was mutated")
                self.mutated.append(Mutation(schema.name, _shown(name)))
        for (i, a), (j, b) in combinations(enumerate(results), 2):
            said = _may_share(schema.returns[i].alias_info, schema.returns[j].alias_info)
            if _share(a, b) and not said and not any(_share(a, x) and _share(b, x) for _, x in given.values()):
                raise RuntimeError(f"Outputs {i} and {j} alias unexpectedly")
        return result

    def _check_sharing(self, schema, name, value, results, alike):
        for j, out in enumerate(results):
            if _share(value, out):
                if not any(_may_share(a.alias_info, schema.returns[j].alias_info) for a in alike):
                    raise RuntimeError(f"Argument {_shown(name)} is not defined to alias output but was aliasing")
                self.aliasing.append(Aliasing(schema.name, _shown(name), f"output_{j}"))


def _shown(name):
    return "input" if name == "self" else name
