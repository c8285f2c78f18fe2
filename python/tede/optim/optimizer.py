"""Optimizer: parameters in groups, each with options, and a state per parameter.

An optimizer only knows tensors, their gradients and its `state`; what is done with them is `step`. The state dict has
PyTorch's format, so either library reads the other's: parameters stand as numbers, counted through the groups.
"""
import copy
import functools
import warnings
from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from typing import Any

from .._recording import part, recording
from .._suggest import Constructor
from ..nn._native import T, typename
from ..nn.modules._hooks import add_hook
from ..nn.parameter import Parameter
from ..utils._foreach_utils import _get_foreach_kernels_supported_devices, _get_fused_kernels_supported_devices
from .._docs import completed

__all__ = ["Optimizer", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]


ParamsT = Iterable[T.Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, T.Tensor]]       # for annotations


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any
    from ..utils.hooks import RemovableHandle


class _Required:
    """Stands for an option without a default."""

    def __repr__(self):
        return "<required parameter>"


required = _Required()
_global_pre_hooks, _global_post_hooks = OrderedDict(), OrderedDict()
_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
          "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
          "_optimizer_load_state_dict_post_hooks")


def register_optimizer_step_pre_hook(hook):
    """Call ``hook(optimizer, args, kwargs)`` before any optimizer's step."""
    return add_hook(_global_pre_hooks, hook)


def register_optimizer_step_post_hook(hook):
    """Call ``hook(optimizer, args, kwargs)`` after any optimizer's step."""
    return add_hook(_global_post_hooks, hook)


def _use_grad_for_differentiable(func):
    """A step that is recorded exactly if its optimizer is differentiable."""
    @functools.wraps(func)
    def wrapper(self, *args, **kwargs):
        with T.set_grad_enabled(self.defaults["differentiable"]):
            return func(self, *args, **kwargs)
    return wrapper


def _default_to_fused_or_foreach(params, differentiable, use_fused=False):
    """(fused, foreach): what an optimizer chooses where its user hasn't."""
    if differentiable:
        return False, False

    def all_on(devices):
        return all(p is None or (type(p) in (T.Tensor, T.Parameter) and p.device.type in devices) for p in params)
    fused = (use_fused and all_on(_get_fused_kernels_supported_devices())
             and all(p is None or p.is_floating_point() for p in params))
    return fused, not fused and all_on(_get_foreach_kernels_supported_devices())


def _with_hooks(step):
    """`step`, with hooks around it, noting that it was called (which schedulers ask about)."""
    def wrapper(self, *args, **kwargs):
        if recording():
            with part(f"Optimizer.step#{type(self).__name__}.step"):
                return hooked(self, *args, **kwargs)
        return hooked(self, *args, **kwargs)

    def hooked(self, *args, **kwargs):
        self._opt_called = True
        if not (_global_pre_hooks or _global_post_hooks or self._optimizer_step_pre_hooks
                or self._optimizer_step_post_hooks):
            return step(self, *args, **kwargs)
        # Hooks see the optimizer among the arguments, as PyTorch hands it to them.
        args = (self, *args)
        for hook in (*_global_pre_hooks.values(), *self._optimizer_step_pre_hooks.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError(f"{step} must return None or a tuple of (new_args, new_kwargs), but got {changed}.")
                args, kwargs = changed
        result = step(*args, **kwargs)
        for hook in (*self._optimizer_step_post_hooks.values(), *_global_post_hooks.values()):
            hook(self, args, kwargs)
        return result
    wrapper.__doc__, wrapper.__name__, wrapper.__wrapped__, wrapper.hooked = step.__doc__, "step", step, True
    return wrapper


@completed
class Optimizer(Constructor):
    """Base of all optimizers: parameters in groups (`param_groups`, dicts of options), and a state for each
    (`state[p]`).

        <params>
        defaults: the options that a group has unless it says otherwise.

    A training step is `zero_grad`, a loss, its `backward`, `step`. No parameters are a ValueError, tensors that were
    computed from others (non-leaves) too, and anything but tensors and dicts a TypeError. A subclass overrides `step`.

    >>> class Plain(tede.optim.Optimizer):
    ...     def __init__(self, params, lr=0.1):
    ...         super().__init__(params, {"lr": lr})
    ...     def step(self, closure=None):
    ...         for group in self.param_groups:
    ...             for p in group["params"]:
    ...                 p.data -= group["lr"] * p.grad
    >>> w = tede.tensor([1.0], requires_grad=True)
    >>> (3 * w).sum().backward()
    >>> Plain([w]).step()
    >>> w.detach()
    tensor([0.7000])
    """

    def __init__(self, params, defaults) -> None:
        self.defaults = defaults
        self._prepare()
        if isinstance(params, T.Tensor):
            raise TypeError("params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                            f"{typename(params)}")
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _prepare(self):
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()

    @staticmethod
    def profile_hook_step(func):
        """A step function that calls hooks."""
        return _with_hooks(func)

    def _patch_step_function(self):
        """Let the class's step call hooks. Optimizers around others, which don't call our __init__, call this."""
        cls = type(self)
        if not getattr(cls.step, "hooked", False):
            cls.step = _with_hooks(cls.step)

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._prepare()
        self.defaults.setdefault("differentiable", False)

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0) + [f"Parameter Group {i}"]
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines) + "\n)"

    # Hooks -------------------------------------------------------------------------------------------------------

    def register_step_pre_hook(self, hook: "Callable[..., Any]") -> "RemovableHandle":
        """Call ``hook(optimizer, args, kwargs)`` before each step; it may return new (args, kwargs)."""
        return add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: "Callable[..., Any]") -> "RemovableHandle":
        """Call ``hook(optimizer, args, kwargs)`` after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook: "Callable[..., Any]", prepend: bool = False) -> "RemovableHandle":
        """Call ``hook(optimizer)`` before the state dict is made."""
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)

    def register_state_dict_post_hook(self, hook: "Callable[..., Any]", prepend: bool = False) -> "RemovableHandle":
        """Call ``hook(optimizer, state_dict)`` after it is made; what it returns replaces it."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)

    def register_load_state_dict_pre_hook(self, hook: "Callable[..., Any]", prepend: bool = False) -> "RemovableHandle":
        """Call ``hook(optimizer, state_dict)`` before one is loaded; what it returns is loaded instead."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)

    def register_load_state_dict_post_hook(self, hook: "Callable[..., Any]", prepend: bool = False) -> "RemovableHandle":
        """Call ``hook(optimizer)`` after a state dict was loaded."""
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)

    # Saving and loading ------------------------------------------------------------------------------------------

    def state_dict(self) -> "dict[str, Any]":
        """{"state": state by a parameter's number, "param_groups": groups with numbers for parameters}: what
        `tede.save` takes. Tensors share memory with the optimizer's.

        >>> optimizer = tede.optim.SGD(nn.Linear(3, 2).parameters(), lr=0.1)
        >>> optimizer.state_dict()["param_groups"][0]["lr"]
        0.1
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers, groups, start = {}, [], 0
        for group in self.param_groups:
            packed = {key: value for key, value in group.items() if key != "params"}
            for i, p in enumerate(group["params"], start):
                numbers.setdefault(id(p), i)
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            start += len(packed["params"])
            groups.append(packed)
        state = {numbers[id(key)] if isinstance(key, T.Tensor) else key: value for key, value in self.state.items()}
        result = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, result)
            if changed is not None:
                result = changed
        return result

    def load_state_dict(self, state_dict: "dict[str, Any]") -> None:
        """Take state and options from `state_dict`, in the order of groups and parameters; tensors are converted to
        their parameter's dtype and device. A ValueError if there are more or fewer groups, or parameters in one. Load
        the model first, then its optimizer.

        >>> first = tede.optim.Adam(nn.Linear(3, 2).parameters(), lr=0.1)
        >>> second = tede.optim.Adam(nn.Linear(3, 2).parameters())
        >>> second.load_state_dict(first.state_dict())
        >>> second.param_groups[0]["lr"]
        0.1
        """
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, state_dict)
            if changed is not None:
                state_dict = changed
        groups, saved = self.param_groups, copy.deepcopy(state_dict["param_groups"])
        if len(groups) != len(saved):
            raise ValueError("loaded state dict has a different number of parameter groups")
        if any(len(group["params"]) != len(other["params"]) for group, other in zip(groups, saved)):
            raise ValueError("loaded state dict contains a parameter group that doesn't match the size of optimizer's group")
        owner = {}
        for group, other in zip(groups, saved):
            for number, p in zip(other["params"], group["params"]):
                owner[number] = p, other
        state = defaultdict(dict)
        for key, value in state_dict["state"].items():
            if key in owner:
                p, group = owner[key]
                state[p] = _fit(value, p, group)
            else:
                state[key] = value
        for group, other in zip(groups, saved):
            other["params"] = group["params"]
            if "param_names" in group:
                other.setdefault("param_names", group["param_names"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # Use ---------------------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients (they become None), or with set_to_none=False fill them with zeros. `backward` adds to
        what is there, so without this steps follow the sum of all gradients so far.

        >>> w = tede.tensor([1.0], requires_grad=True)
        >>> w.sum().backward()
        >>> tede.optim.SGD([w]).zero_grad()
        >>> w.grad is None
        True
        """
        if recording():
            with part(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad"):
                return self._drop_gradients(set_to_none)
        return self._drop_gradients(set_to_none)

    def _drop_gradients(self, set_to_none):
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                    continue
                grad = p.grad
                if grad is not None:
                    if grad.grad_fn is not None:
                        grad.detach_()
                    else:
                        grad.requires_grad_(False)
                    grad.zero_()

    def step(self, closure: "Callable[[], Any] | None" = None) -> "Any":
        """Change the parameters once, by their gradients. A `closure` computes the loss anew, with gradients, and gives
        it, which `step` gives back.

        >>> w = tede.tensor([1.0], requires_grad=True)
        >>> w.sum().backward()
        >>> tede.optim.SGD([w], lr=0.1).step()
        >>> w.detach()
        tensor([0.9000])
        """
        raise NotImplementedError(f"{type(self).__name__}.step: an optimizer defines its own")

    def _evaluate(self, closure):
        if closure is None:
            return None
        with T.enable_grad():
            return closure()

    def add_param_group(self, param_group: "dict[str, Any]") -> None:
        """Add parameters with options of their own: a dict with "params"; options left out have the optimizer's
        defaults. A ValueError if one is in another group.

        >>> body, head = nn.Linear(3, 4), nn.Linear(4, 2)
        >>> optimizer = tede.optim.SGD(body.parameters(), lr=0.01)
        >>> optimizer.add_param_group({"params": head.parameters(), "lr": 0.1})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.01, 0.1]
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, T.Tensor):
            params = [params]
        elif isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections, but the ordering of "
                            "tensors in sets will change between runs. Please use a list instead.")
        params = list(params)
        names = [p[0] for p in params if isinstance(p, tuple)]
        params = [p[1] if isinstance(p, tuple) else p for p in params]
        param_group["params"] = params
        if names:
            if len(names) != len(params):
                raise ValueError("all optimizer params should be with/without names. Some param names are missing")
            param_group["param_names"] = names
        for p in params:
            if not isinstance(p, T.Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {typename(p)}")
            if not self.defaults.get("differentiable") and not (p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        own = set(params)
        if len(own) != len(params):
            warnings.warn("optimizer contains a parameter group with duplicate parameters; in future, this will cause an "
                          "error; see github.com/pytorch/pytorch/issues/40967 for more information", stacklevel=3)
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                kind = "with names" if "param_names" in param_group else "without names"
                raise ValueError("all optimizer param groups should be with/without names. cannot add param group "
                                 f"{kind} to the optimizer")
            if not own.isdisjoint(group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)


def _fit(value, p, group, key=None):
    """`value` of a loaded state, with its tensors as `p` needs them. The step count keeps its dtype."""
    if isinstance(value, T.Tensor):
        if key == "step":
            special = group.get("capturable") or group.get("fused")
            return value.to(dtype=T.float32, device=p.device) if special else value
        return value.to(dtype=p.dtype, device=p.device) if p.is_floating_point() else value.to(device=p.device)
    if isinstance(value, dict):
        return {k: _fit(v, p, group, k) for k, v in value.items()}
    if isinstance(value, (list, tuple, set)):
        return type(value)(_fit(v, p, group) for v in value)
    return value


def to_scalar(value):
    """A number, from a number or a one-element tensor."""
    return value.item() if isinstance(value, T.Tensor) else value


def or_learned(value, group):
    """A number, unless the step is to be differentiated with respect to `value`: then the tensor."""
    if group["differentiable"] and isinstance(value, T.Tensor) and value.requires_grad:
        return value
    return to_scalar(value)


def kept(value, group):
    """A state that the gradient needs as it is now: a copy where later steps, changing it in place, would spoil it."""
    return value.clone() if group["differentiable"] else value


def zero_dim(value):
    """A number as it is; a one-element tensor without its dimensions."""
    return value.squeeze() if isinstance(value, T.Tensor) and value.dim() != 0 else value


def check(condition, message):
    if not condition:
        raise ValueError(message)


def check_common(lr, eps=0.0, weight_decay=0.0, betas=(0.0, 0.0)):
    """Refuse options outside their range, in PyTorch's words."""
    if isinstance(lr, T.Tensor):
        check(lr.numel() == 1, "Tensor lr must be 1-element")
    check(0.0 <= lr, f"Invalid learning rate: {lr}")
    check(0.0 <= eps, f"Invalid epsilon value: {eps}")
    for i, beta in enumerate(betas[:2]):
        check(0.0 <= beta < 1.0, f"Invalid beta parameter at index {i}: {beta}")
    check(0.0 <= weight_decay, f"Invalid weight_decay value: {weight_decay}")


def check_fused(fused, foreach, differentiable):
    if fused and differentiable:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


def check_fits_fused(p):
    """Refuse, where a group asks for `fused`, a parameter that PyTorch's fused steps refuse."""
    devices = _get_fused_kernels_supported_devices()
    if "privateuseone" not in devices:
        devices.insert(6, "privateuseone")
    if not p.is_floating_point() or p.device.type not in devices:
        raise RuntimeError("`fused=True` requires all the params to be floating point Tensors of supported devices: "
                           f"{devices} but {p.dtype} and {p.device.type}")


def step_tensor(p, group, value=0.0):
    """A count as PyTorch keeps it: a float scalar tensor, beside the parameter where steps may not wait for its device, else on the CPU."""
    beside = group.get("fused") or group.get("capturable")
    return T.tensor(value, dtype=_get_scalar_dtype(group.get("fused")), device=p.device if beside else None)


def zeros_for(p):
    """The state that begins at zero, laid out as the parameter is."""
    return T.zeros_like(p, memory_format=T.preserve_format)


def decayed(grad, p, group):
    """The gradient of the loss with the group's penalty on the squared weights."""
    decay = or_learned(group["weight_decay"], group)
    if isinstance(decay, T.Tensor):
        return grad + p.clone() * decay
    return grad.add(p, alpha=decay) if decay != 0 else grad


class PerParameter(Optimizer):
    """An optimizer that looks at one parameter at a time, written in tensor operations.

    A subclass gives `_start(p, group)`, the state of a parameter met for the first time, and
    `_update(p, grad, state, group)`. Complex parameters come as pairs of real numbers.
    """

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            for name, value in self._later_options.items():
                group.setdefault(name, value)
            for p in group["params"]:
                own = self.state.get(p, {})
                if own and "step" in own and not isinstance(own["step"], T.Tensor):
                    own["step"] = step_tensor(p, group, float(own["step"]))

    _later_options = {"foreach": None, "maximize": False, "differentiable": False, "capturable": False}

    def _start(self, p, group):
        raise NotImplementedError("_start: an optimizer defines its own")

    def _update(self, p, grad, state, group):
        raise NotImplementedError("_update: an optimizer defines its own")

    def _one(self, p, grad, state, group):
        if group.get("maximize"):
            grad = -grad
        if p.is_complex():
            state = {key: T.view_as_real(value) if isinstance(value, T.Tensor) and value.is_complex() else value
                     for key, value in state.items()}
            p, grad = T.view_as_real(p), T.view_as_real(grad)
        self._update(p, grad, state, group)

    def _check_sparse(self, group):
        """Raise unless `_sparse`, the update for a gradient that is a sparse tensor, is there and can be used."""
        raise RuntimeError(f"{type(self).__name__} does not support sparse gradients")

    def step(self, closure=None):
        """Change the parameters once; gives the closure's loss."""
        differentiable = self.defaults.get("differentiable", False)
        with T.set_grad_enabled(differentiable):
            loss = self._evaluate(closure)
            for group in self.param_groups:
                for p in group["params"]:
                    grad = p.grad
                    if grad is None:
                        continue
                    state = self.state[p]
                    if grad.is_sparse:
                        self._check_sparse(group)
                    if not state:
                        state.update(self._start(p, group))
                    (self._sparse if grad.is_sparse else self._one)(p, grad, state, group)
        return loss


# ---- what optimizers of other packages take from PyTorch's module

_global_optimizer_pre_hooks, _global_optimizer_post_hooks = _global_pre_hooks, _global_post_hooks
_foreach_supported_types = [T.Tensor, Parameter]
_RequiredParameter = _Required


def _get_value(x):
    return x.item() if isinstance(x, T.Tensor) else x


def _stack_if_compiling(x):
    return x


def _to_scalar(x):
    """A tensor of one element without dimensions, and what is no tensor as it is."""
    return x.squeeze() if isinstance(x, T.Tensor) and x.dim() else x


def _view_as_real(params, *state_and_grads):
    """Complex parameters, and what belongs to them, as real ones: in the lists."""
    for i, p in enumerate(params):
        if p.is_complex():
            for values in (params, *state_and_grads):
                values[i] = T.view_as_real(values[i])


def _get_scalar_dtype(is_fused=None):
    return T.float32 if is_fused or T.get_default_dtype() != T.float64 else T.float64


def _get_capturable_supported_devices(supports_xla=True):
    return ["cuda", "xpu", "hpu", "privateuseone", *(["xla"] if supports_xla else [])]


def _device_dtype_check_for_fused(p, cuda_unsupported=False):
    devices = [name for name in _get_fused_kernels_supported_devices() if name != "cuda" or not cuda_unsupported]
    if p.device.type not in devices or not p.is_floating_point():
        raise RuntimeError(f"`fused=True` requires all the params to be floating point Tensors of supported devices: {devices} but {p.dtype} "
                           f"and {p.device.type}")


def _disable_dynamo_if_unsupported(single_tensor_fn=None):
    """A decorator that changes nothing: no function is compiled."""
    return lambda fn: fn
