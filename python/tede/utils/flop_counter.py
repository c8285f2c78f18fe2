"""Counting multiplications and additions: a mode that sees every operator and knows the products among them.

    with FlopCounterMode(display=False) as counter:
        model(x).sum().backward()
    counter.get_total_flops()
"""
from math import prod

from tede.utils._python_dispatch import TorchDispatchMode

__all__ = ["FlopCounterMode", "register_flop_formula"]

flop_registry = {}          # an operator's name -> formula(*shapes and arguments, out_shape=...)


def _name(operator):
    return str(getattr(operator, "overloadpacket", operator)).replace("torch.ops.", "").replace("::", ".")


def register_flop_formula(targets, get_raw=False):
    """A decorator: the formula of operators, given the shapes of tensors in their place, and out_shape."""
    def decorator(formula):
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            flop_registry[target if isinstance(target, str) else _name(target)] = formula
        return formula
    return decorator


@register_flop_formula("aten.mm")
def mm_flop(a_shape, b_shape, *args, out_shape=None, **kwargs):
    return 2 * prod(a_shape) * b_shape[1]


@register_flop_formula("aten.addmm")
def addmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    return mm_flop(a_shape, b_shape)


@register_flop_formula("aten.bmm")
def bmm_flop(a_shape, b_shape, out_shape=None, **kwargs):
    return 2 * prod(a_shape) * b_shape[2]


@register_flop_formula("aten.baddbmm")
def baddbmm_flop(self_shape, a_shape, b_shape, out_shape=None, **kwargs):
    return bmm_flop(a_shape, b_shape)


def _conv(x_shape, w_shape, out_shape, transposed):
    return 2 * prod((x_shape if transposed else out_shape)[2:]) * prod(w_shape) * x_shape[0]


@register_flop_formula("aten.convolution")
def conv_flop(x_shape, w_shape, bias, stride, padding, dilation, transposed, *args, out_shape=None, **kwargs):
    return _conv(x_shape, w_shape, out_shape, transposed)


@register_flop_formula("aten.convolution_backward")
def conv_backward_flop(grad_shape, x_shape, w_shape, bias, stride, padding, dilation, transposed, output_padding, groups,
                       output_mask, out_shape=None):
    return (output_mask[0] + output_mask[1]) * _conv(x_shape, w_shape, grad_shape, transposed)


def _attention(query, key, value):
    batch, heads, length, width = query
    return 2 * batch * heads * length * key[-2] * (width + value[-1])


@register_flop_formula(["aten.scaled_dot_product_attention", "aten._scaled_dot_product_flash_attention_for_cpu",
                        "aten._scaled_dot_product_attention_math_for_cpu"])
def sdpa_flop(query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs):
    return _attention(query_shape, key_shape, value_shape)


@register_flop_formula(["aten._scaled_dot_product_flash_attention_for_cpu_backward"])
def sdpa_backward_flop(grad_shape, query_shape, key_shape, value_shape, *args, out_shape=None, **kwargs):
    return _attention(query_shape, key_shape, value_shape) * 5 // 2


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
        self.flop_registry = {**flop_registry, **{_name(op) if not isinstance(op, str) else op: formula
                                                  for op, formula in (custom_mapping or {}).items()}}

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
                lines += [f"{' ' * level} - {name:<37}{n:>16}{100 * n / total:>9.2f}%" for name, n in counts.items()]
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
        formula = self.flop_registry.get(_name(func))
        if formula is not None:
            count = formula(*map(_shapes, args), **{key: _shapes(value) for key, value in (kwargs or {}).items()},
                            out_shape=_shapes(out))
            for module in sorted(self._modules.parents, key=lambda name: (name != "Global", name)):
                counts = self.flop_counts.setdefault(module, {})
                counts[_name(func)] = counts.get(_name(func), 0) + count
        return out
