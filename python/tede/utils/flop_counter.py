"""Counting multiplications and additions: a mode that sees every operator and knows the products among them.

    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    counter.get_total_flops()
"""
import functools
import warnings
from math import prod

from tede import _C
from tede._ops import OpOverloadPacket, _overload_named
from tede.utils._python_dispatch import TorchDispatchMode

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry = {}          # an operator's packet -> formula(*arguments, out_val=...)


def _of_shapes(formula):
    """The formula, which is given shapes in the place of tensors and out_shape, for a call's own arguments."""
    def wrapped(*args, out_val=None, **kwargs):
        return formula(*map(_shapes, args), out_shape=_shapes(out_val), **{key: _shapes(value) for key, value in kwargs.items()})
    return wrapped


def register_flop_formula(targets, get_raw=False):
    """A decorator: the formula of operators, given the shapes of tensors in their place, and out_shape; with `get_raw` the tensors
    themselves, and out_val."""
    targets = targets if isinstance(targets, (list, tuple)) else [targets]

    def decorator(formula):
        for target in targets:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError("register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. torch.ops.mylib.foo), "
                                 f"got {target} which is of type {type(target)}")
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else _of_shapes(formula)
        return formula
    return decorator


def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs):
    return 2 * prod(a_shape) * b_shape[-1]


def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    return mm_flop(a_shape, b_shape)


bmm_flop, baddbmm_flop = mm_flop, addmm_flop


def conv_flop_count(x_shape, w_shape, out_shape, transposed=False):
    return 2 * prod((x_shape if transposed else out_shape)[2:]) * prod(w_shape) * x_shape[0]


# ---- `flops:` of entries: product(a, b), contraction(a) (for each element of the result, as many products as a's last dimension
# has), convolution, convolution_backward; of a call's arguments by name, shapes in place of tensors

def _product(call, a, b):
    return mm_flop(call[a], call[b])


def _contraction(call, a):
    return 2 * prod(call["out"]) * call[a][-1]


def _convolution(call):
    return conv_flop_count(call["input"], call["weight"], call["out"], call["transposed"])


def _convolution_backward(call):
    wanted = call["output_mask"]
    return (wanted[0] + wanted[1]) * conv_flop_count(call["input"], call["weight"], call["grad_output"], call["transposed"])


# By name: the function, and which arguments of the operator it reads, or how many are named in brackets.
_PATTERNS = {"product": (_product, 2), "contraction": (_contraction, 1), "convolution": (_convolution, ("input", "weight", "transposed")),
             "convolution_backward": (_convolution_backward, ("grad_output", "input", "weight", "transposed", "output_mask"))}


def _read(text):
    pattern, _, words = text.rstrip(")").partition("(")
    return pattern, [word.strip() for word in words.split(",") if word.strip()]


def check_pattern(full, text):
    """A ValueError if the text is no `flops` that fits the operator."""
    pattern, names = _read(text)
    arguments = [a.name for a in _overload_named(full)._schema.arguments]
    if pattern not in _PATTERNS:
        raise ValueError(f"flops: '{text}' is no pattern; there are {', '.join(_PATTERNS)}")
    needed = _PATTERNS[pattern][1]
    named = needed if isinstance(needed, int) else 0
    if len(names) != named:
        raise ValueError(f"flops: '{text}': {pattern} takes {('no arguments', 'an argument', 'two arguments')[named]} in brackets")
    if missing := [name for name in (names if named else needed) if name not in arguments]:
        raise ValueError(f"flops: '{text}': {full} has no argument '{missing[0]}'")


@functools.cache
def _of_text(full, text):
    """The formula that an operator's traits name."""
    check_pattern(full, text)           # of C's operators nobody else has
    pattern, names = _read(text)
    count = _PATTERNS[pattern][0]
    arguments = [a.name for a in _overload_named(full)._schema.arguments]

    def formula(*args, out_shape=None, **kwargs):
        return count({**dict(zip(arguments, args)), **kwargs, "out": out_shape}, *names)
    return _of_shapes(formula)


for _full, _text in _C._flops_of_all():
    if _full.startswith("aten::"):
        flop_registry.setdefault(_overload_named(_full)._overloadpacket, _of_text(_full, _text))


def _shapes(value):
    from tede import Tensor
    if isinstance(value, Tensor):
        return tuple(value.shape)
    if isinstance(value, (tuple, list)) and any(isinstance(x, Tensor) for x in value):
        return type(value)(map(_shapes, value)) if type(value) in (tuple, list) else tuple(map(_shapes, value))
    return value


class FlopCounterMode(TorchDispatchMode):
    """Counts within its block, in all and by the modules that run, forward or backward."""

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        super().__init__()
        self.depth, self.display, self.flop_counts = depth, display, {}
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        own = {op: formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
               for op, formula in (custom_mapping or {}).items()}
        self.flop_registry = {**flop_registry, **own}

    def get_total_flops(self):
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self):
        """{module: {operator: count}}; a module's count has those of the modules within it."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """The counts as text, a line per module and operator."""
        depth, total, lines = self.depth if depth is None else depth, self.get_total_flops() or 1, []
        for module, counts in self.flop_counts.items():
            level = module.count(".") + (module != "Global")
            if level <= depth:
                lines.append(f"{' ' * level}{module:<40}{sum(counts.values()):>16}{100 * sum(counts.values()) / total:>9.2f}%")
                lines += [f"{' ' * level} - {name!s:<37}{n:>16}{100 * n / total:>9.2f}%" for name, n in counts.items()]
        return "\n".join([f"{'Module':<40}{'FLOP':>16}{'% Total':>10}", *lines])

    def __enter__(self):
        from tede.utils.module_tracker import ModuleTracker
        self.flop_counts, self._modules = {}, ModuleTracker()
        self._modules.__enter__()
        return super().__enter__()

    def __exit__(self, *exception):
        result = super().__exit__(*exception)
        self._modules.__exit__(*exception)
        if self.display:
            print(self.get_table())
        return result

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        formula = self.flop_registry.get(packet)
        if formula is None and not func._name.startswith("aten::"):
            text = _C._op_traits(func._name)["flops"]
            formula = text and _of_text(func._name, text)
        if formula:
            count = formula(*args, **(kwargs or {}), out_val=out)
            for module in sorted(self._modules.parents, key=lambda name: (name != "Global", name)):
                counts = self.flop_counts.setdefault(module, {})
                counts[packet] = counts.get(packet, 0) + count
        return out
