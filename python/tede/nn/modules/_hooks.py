"""Hooks: functions that run at fixed moments of a module's life.

A hook sits in an ordered dict under a number; the handle that registering gives out removes it again, and holds the
dict weakly so that it keeps no module alive. Hooks on gradients need two gates in the autograd graph, one around the
inputs and one around the outputs of the call; see `BackwardGates`.
"""
import warnings
import weakref
from collections import OrderedDict

from ...utils.hooks import RemovableHandle  # noqa: F401
from .._native import T


class _WrappedHook:
    """A hook that gets its module as the first argument, without keeping it alive."""

    def __init__(self, hook, module=None):
        self.hook, self.with_module = hook, module is not None
        self.__doc__, self.__name__ = hook.__doc__, getattr(hook, "__name__", type(hook).__name__)
        if module is not None:
            self.module = weakref.ref(module)

    def __call__(self, *args, **kwargs):
        if not self.with_module:
            return self.hook(*args, **kwargs)
        module = self.module()
        if module is None:
            raise RuntimeError("You are trying to call the hook of a dead Module!")
        return self.hook(module, *args, **kwargs)

    def __getstate__(self):
        state = {"hook": self.hook, "with_module": self.with_module}
        if self.with_module:
            state["module"] = self.module()
        return state

    def __setstate__(self, state):
        self.hook, self.with_module = state["hook"], state["with_module"]
        if self.with_module:
            if state["module"] is None:
                raise RuntimeError("You are trying to revive the hook of a dead Module!")
            self.module = weakref.ref(state["module"])


# Hooks of all modules at once. Their dicts are looked at on each call of a module, so they are plain globals.
global_buffer_registration = OrderedDict()
global_module_registration = OrderedDict()
global_parameter_registration = OrderedDict()
global_backward_pre = OrderedDict()
global_backward = OrderedDict()
global_forward_pre = OrderedDict()
global_forward = OrderedDict()
global_forward_always_called = OrderedDict()
global_forward_with_kwargs = OrderedDict()
_global_backward_is_full = None


def add_hook(hooks, hook, *flags, prepend=False):
    """Put `hook` into `hooks`; `flags` are (dict, wanted) pairs that remember what is special about it."""
    handle = RemovableHandle(hooks, extra_dict=[flag for flag, _ in flags])
    hooks[handle.id] = hook
    for flag, wanted in flags:
        if wanted:
            flag[handle.id] = True
    if prepend:
        hooks.move_to_end(handle.id, last=False)
    return handle


def register_module_buffer_registration_hook(hook):
    """Call ``hook(module, name, buffer)`` whenever any module registers a buffer; it may return another buffer."""
    return add_hook(global_buffer_registration, hook)


def register_module_module_registration_hook(hook):
    """Call ``hook(module, name, submodule)`` whenever any module registers a child; it may return another one."""
    return add_hook(global_module_registration, hook)


def register_module_parameter_registration_hook(hook):
    """Call ``hook(module, name, parameter)`` whenever any module registers a parameter; it may return another one."""
    return add_hook(global_parameter_registration, hook)


def register_module_forward_pre_hook(hook):
    """Call ``hook(module, args)`` before any module's forward; what it returns replaces the arguments."""
    return add_hook(global_forward_pre, hook)


def register_module_forward_hook(hook, *, with_kwargs=False, always_call=False):
    """Call ``hook(module, args, output)`` after any module's forward; what it returns replaces the output."""
    return add_hook(global_forward, hook, (global_forward_always_called, always_call),
                    (global_forward_with_kwargs, with_kwargs))


def register_module_backward_hook(hook):
    """The older kind of gradient hook, for all modules; prefer `register_module_full_backward_hook`."""
    return _register_global_backward(hook, full=False)


def register_module_full_backward_hook(hook):
    """Call ``hook(module, grad_input, grad_output)`` when gradients have passed any module."""
    return _register_global_backward(hook, full=True)


def register_module_full_backward_pre_hook(hook):
    """Call ``hook(module, grad_output)`` before gradients enter any module."""
    return add_hook(global_backward_pre, hook)


def _register_global_backward(hook, full):
    global _global_backward_is_full
    if _global_backward_is_full is (not full):
        raise RuntimeError("Cannot use both regular backward hooks and full backward hooks as a "
                           "global Module hook. Please use only one of them.")
    _global_backward_is_full = full
    return add_hook(global_backward, hook)


def global_backward_is_full():
    return _global_backward_is_full


class BackwardGates:
    """Two points of the autograd graph, before and behind a module, at which its gradient hooks run.

    Tensors pass a gate unchanged (as views). In the backward pass the gate behind the module sees the gradients of
    its outputs first: it runs the pre-hooks and keeps what they make of them. When the gradients of the inputs reach
    the gate before the module, the hooks run with both. Where no input needs a gradient there is no first gate, and
    the hooks run at once, with None for every input.
    """

    def __init__(self, module, hooks, pre_hooks):
        self.module, self.hooks, self.pre_hooks = module, hooks, pre_hooks
        self.grad_outputs = None
        self.inputs = self.outputs = None       # positions of the tensors that pass a gate; None: there is no gate
        self.input_count = self.output_count = -1

    def enter(self, args):
        self.input_count = len(args)
        passed, self.inputs = self._pass(args, self._leave_backward, True)
        return passed

    def leave(self, result):
        row = result if isinstance(result, tuple) else (result,)
        self.output_count = len(row)
        passed, self.outputs = self._pass(row, self._enter_backward, False)
        return passed if isinstance(result, tuple) else passed[0]

    @staticmethod
    def _pass(row, on_backward, zeros):
        places = [i for i, value in enumerate(row) if isinstance(value, T.Tensor)]
        if not (T.is_grad_enabled() and any(row[i].requires_grad for i in places)):
            return row, None
        passed = _gate().apply(on_backward, zeros, *(row[i] for i in places))
        values = list(row)
        for i, value in zip(places, passed):
            values[i] = value
        return (tuple(values) if type(row) is tuple else type(row)(*values)), places

    @staticmethod
    def _spread(places, values, count):
        row = [None] * count
        for place, value in zip(places, values):
            row[place] = value
        return tuple(row)

    def _enter_backward(self, grads):
        """Gradients arrive at the module's outputs."""
        self.grad_outputs = self._spread(self.outputs, grads, self.output_count)
        for hook in self.pre_hooks:
            changed = hook(self.module, self.grad_outputs)
            if changed is None:
                continue
            if isinstance(changed, T.Tensor):
                changed = (changed,)
            if len(changed) != len(self.grad_outputs):
                raise RuntimeError("Backward pre hook returned an invalid number of grad_output, "
                                   f"got {len(changed)}, but expected {len(self.grad_outputs)}")
            self.grad_outputs = changed
        grad_outputs = self.grad_outputs
        if self.inputs is None:
            warnings.warn("Full backward hook is firing when gradients are computed with respect to module outputs "
                          "since no inputs require gradients. See "
                          "https://docs.pytorch.org/docs/main/generated/torch.nn.Module.html"
                          "#torch.nn.Module.register_full_backward_hook for more details.", stacklevel=5)
            nothing = (None,) * self.input_count
            for hook in self.hooks:
                result = hook(self.module, nothing, grad_outputs)
                if result is not None and not (isinstance(result, tuple) and all(g is None for g in result)):
                    raise RuntimeError("Backward hook for Modules where no input requires gradient should always "
                                       "return None or None for all gradients.")
            self.grad_outputs = None
        return tuple(grad_outputs[i] for i in self.outputs)

    def _leave_backward(self, grads):
        """Gradients leave by the module's inputs. They may have come past its outputs: then no hook runs."""
        if self.grad_outputs is None:
            return grads
        row = self._spread(self.inputs, grads, self.input_count)
        for hook in self.hooks:
            changed = hook(self.module, row, self.grad_outputs)
            if changed is None:
                continue
            if isinstance(changed, T.Tensor):
                changed = (changed,)
            if len(changed) != len(row):
                raise RuntimeError("Backward hook returned an invalid number of grad_input, "
                                   f"got {len(changed)}, but expected {len(row)}")
            row = changed
        self.grad_outputs = None
        return tuple(row[i] for i in self.inputs)


_Gate = None


def _gate():
    """The autograd function of a gate, made on first use: importing `nn` shouldn't load `autograd`."""
    global _Gate
    if _Gate is None:
        class BackwardHookFunction(T.autograd.Function):
            @staticmethod
            def forward(ctx, on_backward, zeros, *tensors):
                ctx.on_backward = on_backward
                ctx.set_materialize_grads(zeros)        # for inputs; an output that wasn't used has None
                ctx.mark_non_differentiable(*(t for t in tensors if not t.requires_grad))
                ctx.needed = [t.requires_grad for t in tensors]
                return tuple(t if not t.requires_grad else t.view_as(t) for t in tensors)

            @staticmethod
            def backward(ctx, *grads):
                grads = ctx.on_backward(grads)
                return (None, None, *(g if needed else None for g, needed in zip(grads, ctx.needed)))
        _Gate = BackwardHookFunction
    return _Gate
