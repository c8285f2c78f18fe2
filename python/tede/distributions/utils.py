"""Shapes and numbers that all distributions need."""
from numbers import Number

import tede
from tede._C import Tensor

__all__ = ["broadcast_all", "logits_to_probs", "clamp_probs", "probs_to_logits", "lazy_property", "tril_matrix_to_vec",
           "vec_to_tril_matrix"]

euler_constant = 0.57721566490153286060


def broadcast_all(*values):
    """The values as tensors of one shape; numbers take the dtype and device of the tensors."""
    like = [isinstance(v, Tensor) or hasattr(type(v), "__torch_function__") for v in values]
    if not all(tensor or isinstance(v, Number) for v, tensor in zip(values, like)):
        raise ValueError("Input arguments must all be instances of Number, torch.Tensor or objects implementing "
                         "__torch_function__.")
    if not all(like):
        first = next((v for v in values if isinstance(v, Tensor)), None)
        options = {"dtype": tede.get_default_dtype()} if first is None else {"dtype": first.dtype, "device": first.device}
        values = [v if tensor else tede.tensor(v, **options) for v, tensor in zip(values, like)]
    return tede.broadcast_tensors(*values)


def sum_rightmost(value, dim):
    """The sum over the last `dim` dimensions."""
    return value if dim == 0 else value.reshape(value.shape[:value.dim() - dim] + (-1,)).sum(-1)


def logits_to_probs(logits, is_binary=False):
    return tede.sigmoid(logits) if is_binary else tede.softmax(logits, dim=-1)


def clamp_probs(probs):
    """Probabilities, kept away from 0 and 1 by the dtype's epsilon."""
    eps = tede.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs, is_binary=False):
    clamped = clamp_probs(probs)
    return tede.log(clamped) - tede.log1p(-clamped) if is_binary else tede.log(clamped)


class lazy_property:
    """An attribute computed when it is first read, with gradients recorded."""

    def __init__(self, wrapped):
        self.wrapped, self.__doc__ = wrapped, wrapped.__doc__

    def __get__(self, instance, owner=None):
        if instance is None:
            return _LazyOfClass(self.wrapped)
        with tede.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


class _LazyOfClass(lazy_property, property):
    def __init__(self, wrapped):
        property.__init__(self, wrapped)


def tril_matrix_to_vec(mat, diag=0):
    """The entries of lower triangles, as vectors."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    order = tede.arange(n, device=mat.device)
    return mat[..., order < order.view(-1, 1) + (diag + 1)]


def vec_to_tril_matrix(vec, diag=0):
    """Lower triangles from vectors of their entries."""
    length = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > tede.finfo(vec.dtype).eps:
        raise ValueError(f"The size of last dimension is {length} which cannot be expressed as the lower triangular part of a "
                         "square D x D matrix.")
    n = round(n)
    mat = vec.new_zeros(vec.shape[:-1] + (n, n))
    order = tede.arange(n, device=vec.device)
    mat[..., order < order.view(-1, 1) + (diag + 1)] = vec
    return mat


def standard_normal(shape, dtype, device):
    return tede.normal(tede.zeros(shape, dtype=dtype, device=device), tede.ones(shape, dtype=dtype, device=device))


_sum_rightmost, _standard_normal = sum_rightmost, standard_normal
