"""functional_call and stack_module_state: modules as functions of their parameters."""
from tede._C import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable  # noqa: F401
    from typing import Any  # noqa: F401


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights: bool = True,
                    strict: bool = False) -> "Any":
    """Call `module` with given tensors in place of its parameters and buffers, which stay as they are.

        parameter_and_buffer_dicts: {dotted name: tensor}, or a tuple of such dicts.
        args, kwargs: of the call; a single argument needs no tuple.
        tie_weights: a tensor that has several names is replaced under all of them.
        strict: the names must be exactly those of the module (RuntimeError).

    >>> layer = nn.Linear(2, 1)
    >>> tede.func.functional_call(layer, {"weight": tede.ones(1, 2), "bias": tede.zeros(1)}, tede.tensor([1.0, 2.0]))
    tensor([3.])
    """
    from tede.nn.utils import stateless
    if isinstance(parameter_and_buffer_dicts, dict):
        tensors = parameter_and_buffer_dicts
    elif isinstance(parameter_and_buffer_dicts, (list, tuple)):
        if not all(isinstance(d, dict) for d in parameter_and_buffer_dicts):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        keys = [k for d in parameter_and_buffer_dicts for k in d]
        repeated = sorted({k for k in keys if keys.count(k) > 1})
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        tensors = {k: v for d in parameter_and_buffer_dicts for k, v in d.items()}
    else:
        raise ValueError("Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
                         f"{type(parameter_and_buffer_dicts)}")
    return stateless._functional_call(module, tensors, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models) -> "tuple[dict[str, Any], dict[str, Any]]":
    """(parameters, buffers) of modules of one kind, each stacked along a new first dimension: for an ensemble under
    `vmap`. RuntimeError if their classes or modes differ.

    >>> models = [nn.Linear(2, 1) for _ in range(3)]
    >>> parameters, buffers = tede.func.stack_module_state(models)
    >>> parameters["weight"].shape
    tede.Size([3, 1, 2])
    """
    import tede
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or not any(m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if not all(type(m) is type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(name, tensors):
        if not all(t.requires_grad == tensors[0].requires_grad for t in tensors):
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
        if tensors[0].requires_grad and all(isinstance(t, Tensor) and t.is_leaf for t in tensors):
            return tede.stack([t.detach() for t in tensors]).requires_grad_()
        return tede.stack(tensors)
    all_params = [dict(m.named_parameters()) for m in models]
    all_buffers = [dict(m.named_buffers()) for m in models]
    params = {k: stacked(k, [p[k] for p in all_params]) for k in all_params[0]}
    buffers = {k: stacked(k, [b[k] for b in all_buffers]) for k in all_buffers[0]}
    return params, buffers


def replace_all_batch_norm_modules_(root) -> "Any":
    """Let each batch norm below `root` forget its running statistics, which `vmap` can't update, in place; gives root.

    >>> tede.func.replace_all_batch_norm_modules_(nn.BatchNorm1d(3)).running_mean is None
    True
    """
    from tede.nn.modules.batchnorm import _BatchNorm
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
