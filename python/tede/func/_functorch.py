"""What the package ``functorch`` gave before its functions came to ``torch.func``: programs that import it find them here.

make_functional takes a module apart into a function and its parameters; functional_call does the same without the object."""
import copy
import functools
import warnings

import tede.func as func
from tede.nn import Module

_GUIDE = ("see the PyTorch 2.0 release notes and/or the `torch.func` migration guide for more details "
          "https://pytorch.org/docs/main/func.migrating.html")


def _warn(api, instead):
    warnings.warn("We've integrated functorch into PyTorch. As the final step of the integration, "
                  f"`functorch.{api}` is deprecated as of PyTorch 2.0 and will be deleted in a future version of PyTorch >= 2.3. "
                  f"Please use `{instead}` instead; {_GUIDE}", FutureWarning, stacklevel=3)


def _older(name, instead):
    function = getattr(func, name)

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        _warn(name, instead)
        return function(*args, **kwargs)
    return wrapped


vmap = _older("vmap", "torch.vmap")
grad, grad_and_value, vjp, jvp, jacrev, jacfwd, hessian, functionalize = (
    _older(name, f"torch.func.{name}") for name in "grad grad_and_value vjp jvp jacrev jacfwd hessian functionalize".split())


class FunctionalModuleWithBuffers(Module):
    """A module as a function of its parameters, its buffers and its arguments."""

    def __init__(self, model, parameters, buffers):
        super().__init__()
        self.stateless_model = model
        self.param_names, self.buffer_names = tuple(parameters), tuple(buffers)

    def forward(self, params, buffers, *args, **kwargs):
        state = {**dict(zip(self.param_names, params)), **dict(zip(self.buffer_names, buffers))}
        return func.functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """The same of a module without buffers."""

    def forward(self, params, *args, **kwargs):
        return super().forward(params, (), *args, **kwargs)


def _apart(cls, model, disable_autograd_tracking):
    apart = copy.deepcopy(model)
    parameters, buffers = dict(apart.named_parameters()), dict(apart.named_buffers())
    for p in apart.parameters():            # what holds values is what is given to the function
        p.data = p.data.to("meta")
    for p in (given := dict(copy.deepcopy(model).named_parameters())).values():
        if disable_autograd_tracking:
            p.requires_grad_(False)
    held = tuple(x.clone() for x in buffers.values())
    return cls(apart, parameters, buffers), tuple(given.values()), held


def make_functional(model, disable_autograd_tracking=False):
    """(function, parameters): function(parameters, *args) is what model(*args) is."""
    _warn("make_functional", "torch.func.functional_call")
    if any(True for _ in model.buffers()):
        raise RuntimeError("make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.")
    return _apart(FunctionalModule, model, disable_autograd_tracking)[:2]


def make_functional_with_buffers(model, disable_autograd_tracking=False):
    """(function, parameters, buffers): function(parameters, buffers, *args) is what model(*args) is."""
    _warn("make_functional_with_buffers", "torch.func.functional_call")
    return _apart(FunctionalModuleWithBuffers, model, disable_autograd_tracking)


def combine_state_for_ensemble(models):
    """(function, parameters, buffers) of several modules of a kind, stacked in front."""
    _warn("combine_state_for_ensemble", "torch.func.stack_module_state")
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    params, buffers = func.stack_module_state(models)
    return _apart(FunctionalModuleWithBuffers, models[0], False)[0], tuple(params.values()), tuple(buffers.values())


def _initialised(model_class, shape, device, with_buffers):
    def build(*args, **kwargs):
        if len(shape) >= 2:
            raise ValueError("NYI: ensemble_shape with more than 1 element")
        if shape and shape[0] <= 0:
            raise ValueError(f"num_models {shape[0]} should be > 0")
        models = [model_class(*args, **kwargs).to(device) for _ in range(shape[0] if shape else 1)]
        if not with_buffers and any(True for _ in models[0].buffers()):
            raise RuntimeError("make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead.")
        function, params, buffers = _apart(FunctionalModuleWithBuffers, models[0], False)
        if shape:
            stacked, buffers = (tuple(d.values()) for d in func.stack_module_state(models))
            params = tuple(p.detach().requires_grad_(q.requires_grad) for p, q in zip(stacked, params))
        names = function.param_names, function.buffer_names
        if with_buffers:
            return params, buffers, lambda weights, buffers, data: function(weights, buffers, *data), *names
        return params, lambda weights, data: function(weights, (), *data), names[0]
    return build


def functional_init(model_class, ensemble_shape=(), device="cpu"):
    """For a class of modules, what builds one, or several stacked in front, from the class's arguments: it gives (parameters,
    function, names), and function(parameters, (x, ...)) is what the module gives of x, ..."""
    return _initialised(model_class, ensemble_shape, device, False)


def functional_init_with_buffers(model_class, ensemble_shape=(), device="cpu"):
    """The same with buffers: (parameters, buffers, function, parameters' names, buffers' names)."""
    return _initialised(model_class, ensemble_shape, device, True)
