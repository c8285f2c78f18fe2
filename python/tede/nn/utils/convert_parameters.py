"""parameters_to_vector and vector_to_parameters: all parameters as one vector, and back."""
from .._native import T, typename


def _check_param_device(parameter, device):
    here = parameter.get_device() if parameter.is_cuda else -1
    if device is not None and here != device:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return here


def parameters_to_vector(parameters):
    """The parameters one behind the other, flattened."""
    device, rows = None, []
    for parameter in parameters:
        device = _check_param_device(parameter, device)
        rows.append(parameter.view(-1))
    return T.cat(rows)


def vector_to_parameters(vec, parameters):
    """Set each parameter's data to its part of `vec` (a view of it)."""
    if not isinstance(vec, T.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    device, start = None, 0
    for parameter in parameters:
        device = _check_param_device(parameter, device)
        count = parameter.numel()
        parameter.data = vec[start:start + count].view_as(parameter).data
        start += count
