"""Module: the base class of layers and models, with parameters, buffers, submodules and hooks.

A module keeps its parameters, buffers and children in three dicts, out of the instance's `__dict__`:
assigning an attribute sorts it into the right one, reading an attribute that isn't there looks through them. All the
rest (moving to a dtype, listing parameters, saving) iterates over these dicts. Saving and loading are in `_state.py`, what runs
before and behind a call in `_hooks.py`.
"""
import sys
import warnings
from collections import OrderedDict

from ... import __future__ as _future
from ..._suggest import Constructor
from .. import parameter as _parameter
from .._native import C, T, is_tensor, typename
from . import _hooks
from ._hooks import (BackwardGates, RemovableHandle, _WrappedHook, add_hook, register_module_backward_hook,  # noqa: F401
                     register_module_buffer_registration_hook, register_module_forward_hook,
                     register_module_forward_pre_hook, register_module_full_backward_hook,
                     register_module_full_backward_pre_hook, register_module_module_registration_hook,
                     register_module_parameter_registration_hook)
from ._state import _EXTRA_STATE as _EXTRA_STATE_KEY_SUFFIX  # noqa: F401
from ._state import StateMixin, _IncompatibleKeys  # noqa: F401

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Self
    from tede._parameter import Parameter

__all__ = ["register_module_forward_pre_hook", "register_module_forward_hook", "register_module_full_backward_pre_hook",
           "register_module_backward_hook", "register_module_full_backward_hook", "register_module_buffer_registration_hook",
           "register_module_module_registration_hook", "register_module_parameter_registration_hook", "Module"]

Buffer, Tensor = _parameter.Buffer, T.Tensor
if not TYPE_CHECKING:
    Parameter = _parameter.Parameter
_global_forward_pre, _global_forward = _hooks.global_forward_pre, _hooks.global_forward
_global_backward_pre, _global_backward = _hooks.global_backward_pre, _hooks.global_backward
_global_forward_pre_hooks, _global_forward_hooks = _global_forward_pre, _global_forward         # PyTorch's names
_global_backward_pre_hooks, _global_backward_hooks = _global_backward_pre, _global_backward
_global_forward_hooks_always_called = _hooks.global_forward_always_called
_global_forward_hooks_with_kwargs = _hooks.global_forward_with_kwargs
_global_buffer_registration_hooks = _hooks.global_buffer_registration
_global_module_registration_hooks = _hooks.global_module_registration
_global_parameter_registration_hooks = _hooks.global_parameter_registration


class _ThisModule(type(_hooks)):
    """Puts what a program assigns to one of the dicts of global hooks into the dict, which others hold."""

    def __setattr__(self, name, value):
        if name.startswith("_global_") and isinstance(value, dict) and isinstance(self.__dict__.get(name), dict):
            value, kept = dict(value), self.__dict__[name]
            kept.clear()
            kept.update(value)
        else:
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _ThisModule
C._set_module_hooks(_global_backward, _global_backward_pre, _global_forward, _global_forward_pre)

# The attributes with which every module starts; a module from an old pickle gets those that it lacks.
_DICTS = ("_backward_pre_hooks", "_backward_hooks", "_forward_hooks", "_forward_hooks_with_kwargs",
          "_forward_hooks_always_called", "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs", "_state_dict_hooks",
          "_state_dict_pre_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks")


def _addindent(text, spaces):
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * spaces + line if line.strip() else "" for line in rest)])


def _forward_unimplemented(self, *input):
    """What the module computes; each class writes it. Call the module, not this: the call runs the hooks, too."""
    raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')


class _CallSignature:
    """What inspect says of an instance: its call takes anything. Of the class it says what `__init__` takes."""

    def __get__(self, module, owner):
        if module is None:
            raise AttributeError("__signature__")
        import inspect
        return inspect.signature(lambda *args, **kwargs: None)


def _of_one_kind(a, b):
    """Whether `a.data = b` is possible: both have memory, or none, and lay it out alike."""
    return a.layout == b.layout and a.is_meta == b.is_meta


def _holds_tensors(x):
    """Whether x is a wrapper of other tensors, which `.data` doesn't exchange."""
    return hasattr(type(x), "__tensor_flatten__")


class Module(Constructor, StateMixin, C._ModuleBase):        # the Python base first: its layout is that of any mixin
    """Base of everything that has parameters: subclass it, assign layers and parameters to attributes, write `forward`.

    ``super().__init__()`` comes first. What is assigned is found by its kind: a `Parameter` is trained, a `Module`
    becomes a child whose parameters count as this one's, a `Buffer` is saved and moved but not trained; other values
    are plain attributes. ``module(x)`` calls `forward` and the hooks around it.

    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Linear(3, 4)
    ...         self.scale = nn.Parameter(tede.ones(1))
    ...     def forward(self, x):
    ...         return self.scale * self.hidden(x).relu()
    >>> net = Net()
    >>> net(tede.randn(5, 3)).shape
    tede.Size([5, 4])
    >>> [name for name, _ in net.named_parameters()]
    ['scale', 'hidden.weight', 'hidden.bias']
    >>> net
    Net(
      (hidden): Linear(in_features=3, out_features=4, bias=True)
    )

    Reading attributes, assigning plain ones and calls without hooks are in the C base, python/csrc/nnmodule.c.
    """

    if TYPE_CHECKING:       # the base, in C, knows of no types
        training: bool

        def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
        def __getattr__(self, name: str) -> Any: ...

    dump_patches = False
    call_super_init = False
    _version = 1

    def __init__(self, *args: "Any", **kwargs: "Any") -> None:
        if not self.call_super_init:
            if kwargs:
                raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                                f"'{next(iter(kwargs))}'")
            if args:
                raise TypeError(f"{type(self).__name__}.__init__() takes 1 positional argument but {len(args) + 1} "
                                "were given")
        state = self.__dict__
        state["training"] = True
        state["_parameters"] = {}
        state["_buffers"] = {}
        state["_non_persistent_buffers_set"] = set()
        for name in _DICTS:
            state[name] = OrderedDict()
            if name == "_backward_hooks":
                state["_is_full_backward_hook"] = None
        state["_modules"] = {}
        if self.call_super_init:
            super().__init__(*args, **kwargs)

    forward = _forward_unimplemented

    # Calling -----------------------------------------------------------------------------------------------------

    __signature__ = _CallSignature()

    def _call_with_hooks(self, args, kwargs):
        ran, result = set(), None
        full, plain = self._get_backward_hooks()
        try:
            before = [*_global_backward_pre.values(), *self._backward_pre_hooks.values()]
            args, kwargs = self._run_forward_pre_hooks(args, kwargs)
            gates = BackwardGates(self, full, before) if full or before else None
            if gates is not None:
                args = gates.enter(args)
            result = self.forward(*args, **kwargs)
            for number, hook, with_kwargs, always in self._all_forward_hooks():
                if always:
                    ran.add(number)
                changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                if changed is not None:
                    result = changed
            if gates is not None:
                if not isinstance(result, (T.Tensor, tuple)):
                    warnings.warn("For backward hooks to be called, module output should be a Tensor or a tuple of "
                                  f"Tensors but received {type(result)}", stacklevel=2)
                result = gates.leave(result)
            if plain:
                self._attach_plain_backward_hooks(plain, args, result)
            return result
        except Exception:
            for number, hook, with_kwargs, always in self._all_forward_hooks():
                if not always or number in ran:
                    continue
                try:
                    changed = hook(self, args, kwargs, result) if with_kwargs else hook(self, args, result)
                    if changed is not None:
                        result = changed
                except Exception as error:
                    where = "global module" if number in _global_forward else "module"
                    warnings.warn(f"{where} forward hook with ``always_call=True`` raised an exception that was "
                                  f"silenced as another error was raised in forward: {error}", stacklevel=2)
            raise

    def _run_forward_pre_hooks(self, args, kwargs):
        for number, hook in (*_global_forward_pre.items(), *self._forward_pre_hooks.items()):
            if number in self._forward_pre_hooks_with_kwargs:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not (isinstance(changed, tuple) and len(changed) == 2):
                    raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs), "
                                       f"but got {changed}.")
                args, kwargs = changed
            else:
                changed = hook(self, args)
                if changed is not None:
                    args = changed if isinstance(changed, tuple) else (changed,)
        return args, kwargs

    def _all_forward_hooks(self):
        for number, hook in list(_global_forward.items()):
            yield (number, hook, number in _hooks.global_forward_with_kwargs,
                   number in _hooks.global_forward_always_called)
        for number, hook in list(self._forward_hooks.items()):
            yield (number, hook, number in self._forward_hooks_with_kwargs,
                   number in self._forward_hooks_always_called)

    def _get_backward_hooks(self):
        full, plain, own = [], [], self._backward_hooks
        (full if _hooks.global_backward_is_full() else plain).extend(_global_backward.values())
        (full if self._is_full_backward_hook else plain).extend(own.values())
        return full, plain

    def _attach_plain_backward_hooks(self, hooks, args, result):
        given = result
        while not isinstance(result, T.Tensor):
            if isinstance(result, dict):
                result = next(value for value in result.values() if isinstance(value, T.Tensor))
            else:
                result = result[0]
        node = result.grad_fn
        if node is None:
            return
        for hook in hooks:
            node.register_hook(_WrappedHook(hook, self))
        lost = _what_plain_hooks_miss(node, args, given)
        if lost:
            warnings.warn(f"{lost} Please use register_full_backward_hook to get the documented behavior.", FutureWarning,
                          stacklevel=3)

    # Attributes --------------------------------------------------------------------------------------------------

    def _assign(self, name, value):
        """`__setattr__` of a parameter, module or tensor, or over one of these."""
        state = self.__dict__
        parameters = state.get("_parameters")
        if isinstance(value, Parameter):
            if parameters is None:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            self._forget(name, "_buffers", "_modules")
            self.register_parameter(name, value)
        elif parameters is not None and name in parameters:
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as parameter '{name}' "
                                "(torch.nn.Parameter or None expected)")
            self.register_parameter(name, value)
        elif isinstance(value, Module):
            if parameters is None:
                raise AttributeError("cannot assign module before Module.__init__() call")
            self._forget(name, "_parameters", "_buffers")
            self._set_child(name, value)
        elif parameters is not None and name in state["_modules"]:
            if value is not None:
                raise TypeError(f"cannot assign '{typename(value)}' as child module '{name}' "
                                "(torch.nn.Module or None expected)")
            self._set_child(name, value)
        elif parameters is not None and name in state["_buffers"] or isinstance(value, _parameter.Buffer):
            if value is not None and not is_tensor(value):
                raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' "
                                "(torch.nn.Buffer, torch.Tensor or None expected)")
            if isinstance(value, _parameter.Buffer):
                persistent = value.persistent
            else:
                persistent = name not in self._non_persistent_buffers_set
            if persistent:              # the default, which a subclass's register_buffer may not take
                self.register_buffer(name, value)
            else:
                self.register_buffer(name, value, False)
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name):
        if name in self._parameters:
            del self._parameters[name]
        elif name in self._buffers:
            del self._buffers[name]
            self._non_persistent_buffers_set.discard(name)
        elif name in self._modules:
            del self._modules[name]
        else:
            object.__delattr__(self, name)

    def _forget(self, name, *members):
        state = self.__dict__
        state.pop(name, None)
        for dictionary in members:
            state[dictionary].pop(name, None)
        state["_non_persistent_buffers_set"].discard(name)

    def _set_child(self, name, module):
        for hook in _hooks.global_module_registration.values():
            changed = hook(self, name, module)
            if changed is not None:
                module = changed
        self._modules[name] = module

    def __dir__(self):
        keys = [*dir(type(self)), *self.__dict__, *self._parameters, *self._modules, *self._buffers]
        return sorted(key for key in keys if not key[0].isdigit())      # "0" is no attribute that one could write

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in _DICTS:
            self.__dict__.setdefault(name, OrderedDict())
        self.__dict__.setdefault("_non_persistent_buffers_set", set())
        self.__dict__.setdefault("_is_full_backward_hook", None)

    # Registering -------------------------------------------------------------------------------------------------

    def _check_name(self, kind, name, members):
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {typename(name)}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."' + (f", got: {name}" if kind == "module" else ""))
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if hasattr(self, name) and name not in members:
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name: str, tensor: T.Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that belongs to the module's state and is no parameter, such as a running mean. Assigning an
        `nn.Buffer` does the same.

            name: the attribute's; KeyError if it is taken, empty, or has a dot.
            tensor: None reserves the name.
            persistent: whether it is in `state_dict`.

        >>> layer = nn.Module()
        >>> layer.register_buffer("mean", tede.zeros(3))
        >>> layer.mean
        tensor([0., 0., 0.])
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("buffer", name, self._buffers)
        if tensor is not None and not is_tensor(tensor):
            raise TypeError(f"cannot assign '{typename(tensor)}' object to buffer '{name}' "
                            "(torch Tensor or None required)")
        for hook in _hooks.global_buffer_registration.values():
            changed = hook(self, name, tensor)
            if changed is not None:
                tensor = changed
        self._buffers[name] = tensor
        if persistent:
            self._non_persistent_buffers_set.discard(name)
        else:
            self._non_persistent_buffers_set.add(name)

    def register_parameter(self, name: str, param: "Parameter | None") -> None:
        """Add a parameter under `name`, as assigning it to an attribute does; None reserves the name. A TypeError if it
        is a plain tensor, a ValueError if it was computed from others.

        >>> layer = nn.Module()
        >>> layer.register_parameter("bias", nn.Parameter(tede.zeros(3)))
        >>> [name for name, _ in layer.named_parameters()]
        ['bias']
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameter before Module.__init__() call")
        self._check_name("parameter", name, self._parameters)
        if param is None:
            self._parameters[name] = None
            return
        if not isinstance(param, Parameter):
            raise TypeError(f"cannot assign '{typename(param)}' object to parameter '{name}' "
                            "(torch.nn.Parameter or None required)")
        if param.grad_fn is not None:
            raise ValueError(f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be created "
                             f"explicitly. To express '{name}' as a function of another Tensor, compute the value in "
                             "the forward() method.")
        for hook in _hooks.global_parameter_registration.values():
            changed = hook(self, name, param)
            if changed is not None:
                param = changed
        self._parameters[name] = param

    def add_module(self, name: str, module: "Module | None") -> None:
        """Add a child under `name`, as assigning it to an attribute does."""
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        self._check_name("module", name, self._modules)
        self._set_child(name, module)

    def register_module(self, name: str, module: "Module | None") -> None:
        """`add_module` by another name."""
        self.add_module(name, module)

    def register_forward_pre_hook(self, hook: "Callable[..., Any]", *, prepend: bool = False,
                                  with_kwargs: bool = False) -> "RemovableHandle":
        """Call ``hook(module, args)`` before forward.

            prepend: before the hooks that are there.
            with_kwargs: call ``hook(module, args, kwargs)``; what it returns is then (args, kwargs).

        What it returns, unless None, replaces the arguments. The handle's `remove()` takes the hook out.

        >>> layer = nn.Linear(3, 2)
        >>> handle = layer.register_forward_pre_hook(lambda module, args: print("input", tuple(args[0].shape)))
        >>> _ = layer(tede.randn(5, 3))
        input (5, 3)
        >>> handle.remove()
        """
        return add_hook(self._forward_pre_hooks, hook, (self._forward_pre_hooks_with_kwargs, with_kwargs),
                        prepend=prepend)

    def register_forward_hook(self, hook: "Callable[..., Any]", *, prepend: bool = False, with_kwargs: bool = False,
                              always_call: bool = False) -> "RemovableHandle":
        """Call ``hook(module, args, output)`` after forward.

            prepend: before the hooks that are there.
            with_kwargs: call ``hook(module, args, kwargs, output)``.
            always_call: also when forward fails.

        What it returns, unless None, replaces the output. The handle's `remove()` takes the hook out.

        >>> seen = []
        >>> layer = nn.Linear(3, 2)
        >>> with layer.register_forward_hook(lambda module, args, output: seen.append(output.shape)):
        ...     _ = layer(tede.randn(5, 3))
        >>> seen
        [tede.Size([5, 2])]
        """
        return add_hook(self._forward_hooks, hook, (self._forward_hooks_with_kwargs, with_kwargs),
                        (self._forward_hooks_always_called, always_call), prepend=prepend)

    def register_full_backward_pre_hook(self, hook: "Callable[[Module, Any], Any]", prepend: bool = False) -> "RemovableHandle":
        """Call ``hook(module, grad_output)`` before gradients enter the module; `grad_output` is a tuple, a gradient
        for each output. What it returns, unless None, replaces them. The handle's `remove()` takes the hook out.

        >>> layer = nn.Linear(3, 2)
        >>> handle = layer.register_full_backward_pre_hook(lambda module, grads: print(grads[0].shape))
        >>> layer(tede.randn(5, 3)).sum().backward()
        tede.Size([5, 2])
        """
        return add_hook(self._backward_pre_hooks, hook, prepend=prepend)

    def register_full_backward_hook(self, hook: "Callable[[Module, Any, Any], Any]", prepend: bool = False) -> "RemovableHandle":
        """Call ``hook(module, grad_input, grad_output)`` when the gradients of the inputs are there; both are tuples,
        None where there is no gradient.

        What it returns, unless None, replaces `grad_input`. The handle's `remove()` takes the hook out. Inputs and
        outputs must not be changed in place while there is such a hook.

        >>> layer = nn.Linear(3, 2)
        >>> handle = layer.register_full_backward_hook(lambda module, inputs, outputs: print(inputs[0].shape))
        >>> layer(tede.randn(5, 3, requires_grad=True)).sum().backward()
        tede.Size([5, 3])
        """
        self._choose_backward_kind(True)
        return add_hook(self._backward_hooks, hook, prepend=prepend)

    def register_backward_hook(self, hook: "Callable[[Module, Any, Any], Any]") -> "RemovableHandle":
        """The older kind, which sees the last operation only; prefer `register_full_backward_hook`."""
        self._choose_backward_kind(False)
        return add_hook(self._backward_hooks, hook)

    def _choose_backward_kind(self, full):
        if self._is_full_backward_hook is (not full):
            raise RuntimeError("Cannot use both regular backward hooks and full backward hooks on a "
                               "single Module. Please use only one of them.")
        self.__dict__["_is_full_backward_hook"] = full

    # Traversal ---------------------------------------------------------------------------------------------------

    def children(self) -> "Iterator[Module]":
        """The modules right below this one, each once.

        >>> [type(child).__name__ for child in nn.Sequential(nn.Linear(3, 2), nn.ReLU()).children()]
        ['Linear', 'ReLU']
        """
        for _, module in self.named_children():
            yield module

    def named_children(self) -> "Iterator[tuple[str, Module]]":
        """(name, module) of the modules right below this one, each once.

        >>> [name for name, _ in nn.Sequential(nn.Linear(3, 2), nn.ReLU()).named_children()]
        ['0', '1']
        """
        seen = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self, remove_duplicate: bool = True) -> "Iterator[Module]":
        """This module and all below it, each once.

        >>> len(list(nn.Sequential(nn.Linear(3, 2), nn.Sequential(nn.ReLU())).modules()))
        4
        """
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_modules(self, memo: "set[Module] | None" = None, prefix: str = "",
                      remove_duplicate: bool = True) -> "Iterator[tuple[str, Module]]":
        """(dotted name, module) of this module, whose name is `prefix`, and all below it.

            memo: modules that are left out.
            remove_duplicate: whether one that is there twice comes once.

        >>> [name for name, _ in nn.Sequential(nn.Linear(3, 2), nn.Sequential(nn.ReLU())).named_modules()]
        ['', '0', '1', '1.0']
        """
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def _named_members(self, get_members_fn, prefix="", recurse=True, remove_duplicate=True):
        seen = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def parameters(self, recurse: bool = True) -> "Iterator[Parameter]":
        """The parameters of this module and, if `recurse`, of all below it, each once: what an optimizer takes.

        >>> sum(p.numel() for p in nn.Linear(3, 2).parameters())
        8
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_parameters(self, prefix: str = "", recurse: bool = True,
                         remove_duplicate: bool = True) -> "Iterator[tuple[str, Parameter]]":
        """(dotted name, parameter), as `parameters`.

        >>> dict(nn.Sequential(nn.Linear(3, 2)).named_parameters()).keys()
        dict_keys(['0.weight', '0.bias'])
        """
        yield from self._named_members(lambda module: module._parameters.items(), prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> "Iterator[T.Tensor]":
        """The buffers of this module and, if `recurse`, of all below it, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def named_buffers(self, prefix: str = "", recurse: bool = True,
                      remove_duplicate: bool = True) -> "Iterator[tuple[str, T.Tensor]]":
        """(dotted name, buffer), as `buffers`.

        >>> [name for name, _ in nn.BatchNorm1d(3).named_buffers()]
        ['running_mean', 'running_var', 'num_batches_tracked']
        """
        yield from self._named_members(lambda module: module._buffers.items(), prefix, recurse, remove_duplicate)

    def get_submodule(self, target: str) -> "Module":
        """The module at the dotted path `target` below this one; this one for an empty path. AttributeError if there is
        none.

        >>> nn.Sequential(nn.Linear(3, 2), nn.Sequential(nn.ReLU())).get_submodule("1.0")
        ReLU()
        """
        module = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: "Module", strict: bool = False) -> None:
        """Put `module` at the dotted path `target`; if `strict`, something must be there already (AttributeError).

        >>> model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
        >>> model.set_submodule("1", nn.Tanh())
        >>> model[1]
        Tanh()
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, Module):
            raise ValueError(f"`module` is not an nn.Module, found {type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        if hasattr(parent, name) and not isinstance(getattr(parent, name), Module):
            raise AttributeError(f"`{name}` is not an nn.Module")
        setattr(parent, name, module)

    def get_parameter(self, target: str) -> "Parameter":
        """The parameter at the dotted path `target`."""
        parent, name = self._find_member(target)
        value = getattr(parent, name)
        if not isinstance(value, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")
        return value

    def get_buffer(self, target: str) -> T.Tensor:
        """The buffer at the dotted path `target`."""
        parent, name = self._find_member(target)
        if name not in parent._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return getattr(parent, name)

    def _find_member(self, target):
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if not hasattr(parent, name):
            raise AttributeError(f"{parent._get_name()} has no attribute `{name}`")
        return parent, name

    # Changing all tensors ----------------------------------------------------------------------------------------

    def apply(self, fn: "Callable[[Module], None]") -> "Self":
        """Call `fn` on every module below, then on this one, and give this one: how a model is initialised.

        >>> def start(module):
        ...     if isinstance(module, nn.Linear):
        ...         nn.init.zeros_(module.weight)
        >>> model = nn.Sequential(nn.Linear(2, 2), nn.ReLU()).apply(start)
        >>> model[0].weight.abs().sum().item()
        0.0
        """
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def _apply(self, fn, recurse=True):
        """Replace each tensor by `fn` of it. Parameters and their gradients stay the same objects."""
        if recurse:
            for module in self.children():
                module._apply(fn)
        overwrite, swap = _future.get_overwrite_module_params_on_conversion(), _future.get_swap_module_params_on_conversion()
        from ...utils import swap_tensors
        for name, parameter in self._parameters.items():
            if parameter is None:
                continue
            grad = parameter.grad
            with T.no_grad():
                changed = fn(parameter)
                if swap or _holds_tensors(changed):
                    parameter.grad = None
                    swap_tensors(parameter, Parameter(changed, parameter.requires_grad))
                elif overwrite or not _of_one_kind(parameter, changed):
                    parameter = self._parameters[name] = Parameter(changed, parameter.requires_grad)
                else:
                    parameter.data = changed
                if grad is None:
                    continue
                changed = fn(grad)
                if swap or _holds_tensors(changed):
                    if changed is not grad:
                        swap_tensors(grad, changed.requires_grad_(grad.requires_grad))
                elif not overwrite and _of_one_kind(grad, changed):
                    grad.data = changed
                else:
                    grad = changed.requires_grad_(grad.requires_grad)
                parameter.grad = grad
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def _replicate_for_data_parallel(self):
        """A shallow copy without parameters: what `nn.parallel` gives to each device."""
        replica = self.__new__(type(self))
        replica.__dict__.update(self.__dict__)
        replica.__dict__.update(_parameters={}, _buffers=self._buffers.copy(), _modules=self._modules.copy(), _is_replica=True)
        return replica

    def _floating(self, dtype):
        return self._apply(lambda t: t.to(dtype) if t.is_floating_point() else t)

    def float(self) -> "Self":
        """Convert floating-point parameters and buffers to float32, in place."""
        return self._floating(T.float32)

    def double(self) -> "Self":
        """Convert floating-point parameters and buffers to float64, in place."""
        return self._floating(T.float64)

    def half(self) -> "Self":
        """Convert floating-point parameters and buffers to float16, in place."""
        return self._floating(T.float16)

    def bfloat16(self) -> "Self":
        """Convert floating-point parameters and buffers to bfloat16, in place."""
        return self._floating(T.bfloat16)

    def type(self, dst_type: T.dtype | str) -> "Self":
        """Convert all parameters and buffers to `dst_type`, in place."""
        return self._apply(lambda t: t.type(dst_type))

    def cpu(self) -> "Self":
        """Move all parameters and buffers to the CPU."""
        return self._apply(lambda t: t.cpu())

    def cuda(self, device: "T.device | int | None" = None) -> "Self":
        """Move all parameters and buffers to a CUDA device."""
        return self._apply(lambda t: t.cuda(device))

    def xpu(self, device: "T.device | int | None" = None) -> "Self":
        """Move all parameters and buffers to an XPU device."""
        return self._apply(lambda t: t.xpu(device))

    def mtia(self, device: "T.device | int | None" = None) -> "Self":
        """Move all parameters and buffers to an MTIA device."""
        return self._apply(lambda t: t.mtia(device))

    def ipu(self, device: "T.device | int | None" = None) -> "Self":
        """Move all parameters and buffers to an IPU device."""
        return self._apply(lambda t: t.ipu(device))

    def to(self, *args: "Any", **kwargs: "Any") -> "Self":
        """Move and convert all parameters and buffers in place: ``to(device)``, ``to(dtype)``, ``to(device, dtype)``,
        ``to(tensor)``, each with non_blocking and memory_format (for weights of four or five dimensions). Gives the
        module.

        A dtype applies to floating point and complex tensors; integers keep theirs. Parameters stay the same objects,
        so an optimizer keeps them; where that can't be (from "meta", say) the error says so.

        >>> nn.Linear(3, 2).to(tede.float64).weight.dtype
        tede.float64
        """
        device, dtype, non_blocking, memory_format = _parse_to(*args, **kwargs)
        if dtype is not None:
            if not (dtype.is_floating_point or dtype.is_complex):
                raise TypeError("nn.Module.to only accepts floating point or complex dtypes, but got desired "
                                f"dtype={dtype}")
            if dtype.is_complex:
                warnings.warn("Complex modules are a new feature under active development whose design may change, "
                              "and some modules might not work as expected when using complex tensors as parameters "
                              "or buffers.", stacklevel=2)
        options = {"memory_format": memory_format} if memory_format is not None else {}

        def convert(t):
            kind = dtype if t.is_floating_point() or t.is_complex() else None
            more = options if options and t.dim() in (4, 5) else {}
            if device is None:
                return t.to(t.dtype if kind is None else kind, non_blocking, **more)
            try:
                return t.to(device, kind, non_blocking, **more)
            except NotImplementedError as error:
                if str(error) != "Cannot copy out of meta tensor; no data!":
                    raise
                raise NotImplementedError(f"{error} Please use torch.nn.Module.to_empty() instead of torch.nn.Module.to() "
                                          "when moving module from meta to a different device.") from None

        return self._apply(convert)

    def to_empty(self, *, device: "T.device | str | int | None", recurse: bool = True) -> "Self":
        """Move to `device` without copying: the values are whatever the memory holds. For models made on "meta".

        >>> nn.Linear(3, 2, device="meta").to_empty(device="cpu").weight.shape
        tede.Size([2, 3])
        """
        return self._apply(lambda t: T.empty_like(t, device=device), recurse=recurse)

    def share_memory(self) -> "Self":
        """Move all tensors to memory that other processes can share."""
        return self._apply(lambda t: t.share_memory_())

    def train(self, mode: bool = True) -> "Self":
        """Set training mode here and below, and give the module: what dropout and batch normalisation look at. It has
        nothing to do with gradients, see `no_grad` for these.

            mode: False is evaluation.

        >>> model = nn.Sequential(nn.Dropout())
        >>> model.train(False)[0].training
        False
        """
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> "Self":
        """``train(False)``: dropout off, batch normalisation by its running statistics.

        >>> nn.Sequential(nn.Dropout()).eval()[0].training
        False
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> "Self":
        """Say for all parameters whether gradients are to be computed for them; gives the module.

        >>> frozen = nn.Linear(3, 2).requires_grad_(False)
        >>> frozen.weight.requires_grad
        False
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all parameters' gradients (they become None), or with set_to_none=False fill them with zeros.

        >>> layer = nn.Linear(3, 2)
        >>> layer(tede.ones(3)).sum().backward()
        >>> layer.zero_grad()
        >>> layer.weight.grad is None
        True
        """
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                grad.zero_()

    def compile(self, *args: "Any", **kwargs: "Any") -> None:
        """Compile this module in place: later calls of it run as `tede.compile` says, with the same arguments as that."""
        vars(self)["forward"] = T.compile(self.forward, *args, **kwargs)

    # Printing ----------------------------------------------------------------------------------------------------

    def _get_name(self):
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed: a subclass's own."""
        return ""

    def __repr__(self):
        extra = self.extra_repr()
        extra = extra.split("\n") if extra else []
        children = [f"({name}): {_addindent(repr(module), 2)}" for name, module in self._modules.items()]
        if len(extra) <= 1 and not children:
            return f"{self._get_name()}({''.join(extra)})"
        return "\n  ".join([f"{self._get_name()}(", *extra, *children]) + "\n)"


def _what_plain_hooks_miss(node, args, result):
    """Of a hook on the node of a module's first result: the gradients that it won't see, in PyTorch's words, or None."""
    def tensors(values):
        return isinstance(values, T.Tensor) or isinstance(values, tuple) and all(isinstance(value, T.Tensor) for value in values)
    where = "deprecated and will be removed in future versions. This hook will be missing some"
    if not tensors(result):
        return ("Using non-full backward hooks on a Module that does not return a single Tensor or a tuple of Tensors is "
                f"{where.replace('some', 'some of the')} grad_output.")
    if not tensors(args):
        return ("Using non-full backward hooks on a Module that does not take as input a single Tensor or a tuple of Tensors is "
                f"{where.replace('some', 'some of the')} grad_input.")
    nodes = {value.grad_fn for value in (result if isinstance(result, tuple) else (result,))} - {None}
    if node not in nodes:
        return f"Using a non-full backward hook when outputs are nested in python data structure is {where} grad_output."
    if len(nodes) > 1:
        return f"Using a non-full backward hook when outputs are generated by different autograd Nodes is {where} grad_output."
    sources = {value.grad_fn for value in args} - {None}
    below = {edge[0] for edge in node.next_functions if edge[0] is not None and edge[0].name() != "AccumulateGrad"}
    if below - sources:
        return f"Using a non-full backward hook when the forward contains multiple autograd Nodes is {where} grad_input."
    return None


def _parse_to(*args, device=None, dtype=None, non_blocking=False, copy=False, memory_format=None, tensor=None):
    """(device, dtype, non_blocking, memory_format) of a call of `to`, in any of its three forms."""
    given, args = args, list(args)
    if args and isinstance(args[0], T.Tensor):
        tensor = args.pop(0)
    elif args and isinstance(args[0], T.dtype):
        dtype = args.pop(0)
    elif args:
        device = args.pop(0)
        if args:
            dtype = args.pop(0)
    if tensor is not None:
        device, dtype = tensor.device, tensor.dtype
    if args:
        non_blocking = args.pop(0)
    if args:
        copy = args.pop(0)
    if args or not isinstance(non_blocking, bool) or not (dtype is None or isinstance(dtype, T.dtype)) or not (
            device is None or isinstance(device, (str, int, T.device))):
        T.empty(0).to(*given)                   # says what is wrong
        raise TypeError("to() received an invalid combination of arguments")
    if copy:
        raise RuntimeError(".to() does not accept copy argument")
    return None if device is None else T.device(device), dtype, non_blocking, memory_format
