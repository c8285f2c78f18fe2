"""parameters_to_vector and vector_to_parameters: all parameters as one vector, and back."""
from .._native import T, typename


def _check_param_device(parameter, device):
    here = parameter.get_device() if parameter.is_cuda else -1
    if device is not None and here != device:
        raise TypeError("Found two parameters on different devices, this is currently not supported.")
    return here


def parameters_to_vector(parameters) -> T.Tensor:
    """The parameters one behind the other, flattened, as one vector. A TypeError if they are on several devices.

    >>> nn.utils.parameters_to_vector(nn.Linear(3, 2).parameters()).shape
    tede.Size([8])
    """
    device, rows = None, []
    for parameter in parameters:
        device = _check_param_device(parameter, device)
        rows.append(parameter.view(-1))
    return T.cat(rows)


def vector_to_parameters(vec, parameters) -> None:
    """Set each parameter's data to its part of `vec`, a view of it. A TypeError if vec is no tensor.

    >>> layer = nn.Linear(2, 1)
    >>> nn.utils.vector_to_parameters(tede.tensor([1.0, 2, 3]), layer.parameters())
    >>> layer.bias.item()
    3.0
    """
    if not isinstance(vec, T.Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {typename(vec)}")
    device, start = None, 0
    for parameter in parameters:
        device = _check_param_device(parameter, device)
        count = parameter.numel()
        parameter.data = vec[start:start + count].view_as(parameter).data
        start += count
