"""Gradient clipping: clip_grad_norm_, clip_grad_value_ and their parts."""
import warnings

from .._native import T

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_"]


def _gradients(parameters):
    if isinstance(parameters, T.Tensor):
        parameters = [parameters]
    return [p.grad for p in parameters if p.grad is not None]


def get_total_norm(tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach=None) -> T.Tensor:
    """The norm of all `tensors` as if they were one vector, a tensor of one element.

        norm_type: which p-norm; infinity is the largest absolute value.
        error_if_nonfinite: a RuntimeError where the norm is infinite or NaN.
        foreach: kept for PyTorch's signature.

    >>> nn.utils.get_total_norm([tede.tensor([3.0]), tede.tensor([4.0])])
    tensor(5.)
    """
    tensors = [tensors] if isinstance(tensors, T.Tensor) else list(tensors)
    norm_type = float(norm_type)
    if not tensors:
        return T.tensor(0.0)
    norm = T.linalg.vector_norm
    device = tensors[0].device
    total = norm(T.stack([norm(t, norm_type).to(device) for t in tensors]), norm_type)
    if error_if_nonfinite and T.logical_or(total.isnan(), total.isinf()):
        raise RuntimeError(f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it "
                           "cannot be clipped. To disable this error and scale the gradients by the non-finite norm "
                           "anyway, set `error_if_nonfinite=False`")
    return total


def clip_grads_with_norm_(parameters, max_norm: float | None, total_norm, foreach=None) -> None:
    """Scale all gradients by ``max_norm / total_norm``, unless that would make them longer.

        parameters: an iterable of tensors, or one.
        total_norm: what `get_total_norm` of the gradients gives.

    >>> w = tede.zeros(2, requires_grad=True)
    >>> w.grad = tede.tensor([3.0, 4.0])
    >>> nn.utils.clip_grads_with_norm_([w], 1.0, tede.tensor(5.0))
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    grads = _gradients(parameters)
    if not grads:
        return
    factor = T.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    with T.no_grad():
        for grad in grads:
            grad.mul_(factor.to(grad.device))


def clip_grad_norm_(parameters, max_norm: float | None, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                    foreach=None) -> T.Tensor:
    """Scale all gradients, taken together as one vector, to a norm of at most `max_norm`; gives the norm before.
    Between `backward` and the optimizer's step.

        parameters: an iterable of tensors, or one; those without a gradient don't count.
        norm_type: which p-norm; infinity is the largest absolute value.
        error_if_nonfinite: a RuntimeError where the norm is infinite or NaN.
        foreach: kept for PyTorch's signature.

    >>> w = tede.zeros(2, requires_grad=True)
    >>> w.grad = tede.tensor([3.0, 4.0])
    >>> nn.utils.clip_grad_norm_([w], max_norm=1.0)
    tensor(5.)
    >>> w.grad
    tensor([0.6000, 0.8000])
    """
    if isinstance(parameters, T.Tensor):
        parameters = [parameters]
    else:
        generator = type(parameters).__name__ == "generator"
        parameters = list(parameters)
        if generator and not parameters:
            warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", stacklevel=3)
    with T.no_grad():
        total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(parameters, max_norm: float | None, norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach=None) -> T.Tensor:
    """`clip_grad_norm_` by its old name."""
    warnings.warn("`torch.nn.utils.clip_grad_norm` is now deprecated in favor of `torch.nn.utils.clip_grad_norm_`.",
                  FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


def clip_grad_value_(parameters, clip_value: float, foreach=None) -> None:
    """Hold each gradient's elements between ``-clip_value`` and ``clip_value``, in place.

        parameters: an iterable of tensors, or one.

    >>> w = tede.zeros(2, requires_grad=True)
    >>> w.grad = tede.tensor([3.0, -0.5])
    >>> nn.utils.clip_grad_value_([w], 1.0)
    >>> w.grad
    tensor([ 1.0000, -0.5000])
    """
    clip_value = float(clip_value)
    with T.no_grad():
        for grad in _gradients(parameters):
            grad.clamp_(min=-clip_value, max=clip_value)
