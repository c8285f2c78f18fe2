"""Pooling: the largest value, the mean or a norm of each window."""
from .._native import N, T
from ..._docs import text_of_rank
from ._common import ntuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar
    _F = TypeVar("_F", bound=Callable[..., Any])

_WINDOW = """
    kernel_size: of the window: {one_of}; so are stride and padding.
    stride: how far it moves; None is the kernel's size.
"""
_MAX = _WINDOW + """\
    padding: what is added at both ends, minus infinity, at most half the kernel.
    dilation: the distance between the window's elements.
    ceil_mode: whether a window that the data fills in part counts.
    return_indices: give (values, indices) instead.

{shape} -> {out}, where each size becomes ``(size + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, rounded up
with ceil_mode.
"""
_ADAPTIVE = """
Window i of n begins at ``floor(i * size / n)`` and ends before ``ceil((i + 1) * size / n)``.

    output_size: of {space}: {one_of}; None leaves a dimension as it is.
"""
_FRACTIONAL = """
    kernel_size: of the window: {one_of}.
    output_size: how many windows: {one_of}.
    output_ratio: instead: their number as a part of the input's size.
    return_indices: give (values, indices) instead.

ValueError without either. {shape} -> {out}; each call draws positions anew.
"""
_TEXTS = {
    "max": "The largest value of each window, which moves over {last}.\n" + _MAX + """
>>> F.max_pool{rank}d(tede.ones(5, 3{n8}), 2).shape
tede.Size([5, 3{n4}])
""",
    "max_indices": "(values, indices): the largest value of each window, which moves over {last}, and where it was.\n" + _MAX + """
>>> values, indices = F.max_pool{rank}d_with_indices(tede.ones(5, 3{n8}), 2)
>>> indices.shape
tede.Size([5, 3{n4}])
""",
    "unpool": """Pooled values put back where `indices` of `max_pool{rank}d` say, among zeros.
""" + _WINDOW + """\
    padding: that of the pool.
    output_size: tells sizes apart that were pooled to the same.

{shape} -> {out}, where each size becomes ``(size - 1) * stride - 2 * padding + kernel_size``.

>>> values, indices = F.max_pool{rank}d(tede.ones(1, 1{n4}), 2, return_indices=True)
>>> F.max_unpool{rank}d(values, indices, 2).shape
tede.Size([1, 1{n4}])
""",
    "lp": """``(sum of x**p) ** (1 / p)`` of each window, which moves over {last}; p is norm_type.

    norm_type: even, or the input positive, for there are no absolute values; infinity is the maximum of these.
    kernel_size: of the window: {one_of}; so is stride.
    stride: how far it moves; None is the kernel's size.
    ceil_mode: whether a window that the data fills in part counts.

{shape} -> {out}, where each size becomes ``(size - kernel_size) // stride + 1``, rounded up with ceil_mode.

>>> F.lp_pool{rank}d(tede.ones(5, 3{n8}), 2, 2).shape
tede.Size([5, 3{n4}])
""",
    "adaptive_avg": "The mean of each of as many windows as the output has elements.\n" + _ADAPTIVE + """
>>> F.adaptive_avg_pool{rank}d(tede.ones(5, 3{n7}), 4).shape
tede.Size([5, 3{n4}])
""",
    "adaptive_max": "The largest value of each of as many windows as the output has elements.\n" + _ADAPTIVE + """\
    return_indices: give (values, indices) instead.

>>> F.adaptive_max_pool{rank}d(tede.ones(5, 3{n7}), 4).shape
tede.Size([5, 3{n4}])
""",
    "adaptive_max_indices": "(values, indices): the largest value of each of as many windows as the output has elements.\n" + _ADAPTIVE + """
>>> values, indices = F.adaptive_max_pool{rank}d_with_indices(tede.ones(5, 3{n7}), 4)
>>> indices.shape
tede.Size([5, 3{n4}])
""",
    "fractional": """The largest value of each of some windows at random positions that cover {last} (Graham, 2014, "Fractional Max-Pooling").
""" + _FRACTIONAL + """
>>> F.fractional_max_pool{rank}d(tede.ones(5, 3{n8}), 2, output_size=4).shape
tede.Size([5, 3{n4}])
""",
    "fractional_indices": """(values, indices) of `fractional_max_pool{rank}d`.
""" + _FRACTIONAL + """
>>> values, indices = F.fractional_max_pool{rank}d_with_indices(tede.ones(5, 3{n8}), 2, output_size=4)
>>> indices.shape
tede.Size([5, 3{n4}])
""",
}


def _described(rank: int, text: str) -> "Callable[[_F], _F]":
    def put(function: "_F") -> "_F":
        function.__doc__ = text_of_rank(_TEXTS[text], rank)
        return function
    return put


def _stride(stride):
    return () if stride is None else stride     # natively, "as the kernel" is spelt as an empty list


@_described(1, "max_indices")
def max_pool1d_with_indices(input: T.Tensor, kernel_size: int | tuple[int, ...],
                            stride: int | tuple[int, ...] | None = None, padding: int | tuple[int, ...] = 0,
                            dilation: int | tuple[int, ...] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> tuple[T.Tensor, T.Tensor]:
    return N.max_pool1d_with_indices(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


@_described(1, "max")
def max_pool1d(input: T.Tensor, kernel_size: int | tuple[int, ...], stride: int | tuple[int, ...] | None = None,
               padding: int | tuple[int, ...] = 0, dilation: int | tuple[int, ...] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> T.Tensor:
    function = N.max_pool1d_with_indices if return_indices else N.max_pool1d
    return function(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


@_described(2, "max_indices")
def max_pool2d_with_indices(input: T.Tensor, kernel_size: int | tuple[int, ...],
                            stride: int | tuple[int, ...] | None = None, padding: int | tuple[int, ...] = 0,
                            dilation: int | tuple[int, ...] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> tuple[T.Tensor, T.Tensor]:
    return N.max_pool2d_with_indices(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


@_described(2, "max")
def max_pool2d(input: T.Tensor, kernel_size: int | tuple[int, ...], stride: int | tuple[int, ...] | None = None,
               padding: int | tuple[int, ...] = 0, dilation: int | tuple[int, ...] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> T.Tensor:
    function = N.max_pool2d_with_indices if return_indices else N.max_pool2d
    return function(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


@_described(3, "max_indices")
def max_pool3d_with_indices(input: T.Tensor, kernel_size: int | tuple[int, ...],
                            stride: int | tuple[int, ...] | None = None, padding: int | tuple[int, ...] = 0,
                            dilation: int | tuple[int, ...] = 1, ceil_mode: bool = False,
                            return_indices: bool = False) -> tuple[T.Tensor, T.Tensor]:
    return N.max_pool3d_with_indices(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


@_described(3, "max")
def max_pool3d(input: T.Tensor, kernel_size: int | tuple[int, ...], stride: int | tuple[int, ...] | None = None,
               padding: int | tuple[int, ...] = 0, dilation: int | tuple[int, ...] = 1, ceil_mode: bool = False,
               return_indices: bool = False) -> T.Tensor:
    function = N.max_pool3d_with_indices if return_indices else N.max_pool3d
    return function(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def _unpool_output_size(input, kernel_size, stride, padding, output_size):
    n = len(kernel_size)
    sizes = [(input.size(d - n) - 1) * stride[d] + kernel_size[d] - 2 * padding[d] for d in range(n)]
    if output_size is not None:
        if len(output_size) == n + 2:
            output_size = output_size[2:]
        if len(output_size) != n:
            raise ValueError(f"output_size should be a sequence containing {n} or {n + 2} elements, but it has a length "
                             f"of '{len(output_size)}'")
        for d in range(n):
            low, high = sizes[d] - stride[d], sizes[d] + stride[d]
            if not low < output_size[d] < high:
                raise ValueError(f'invalid output_size "{output_size}" (dim {d} must be between {low} and {high})')
        sizes = list(output_size)
    for d in range(n):
        if sizes[d] < 0:
            raise ValueError("max_unpooling: output_size must contain non-negative spatial dimensions, but got "
                             f"output_size[{d}]={sizes[d]}")
    return sizes


def _unpool_arguments(input, kernel_size, stride, padding, output_size, n):
    kernel_size, padding = ntuple(kernel_size, n), ntuple(padding, n)
    stride = kernel_size if stride is None else ntuple(stride, n)
    return _unpool_output_size(input, kernel_size, stride, padding, output_size), stride, padding


@_described(1, "unpool")
def max_unpool1d(input: T.Tensor, indices: T.Tensor, kernel_size: int | tuple[int, ...],
                 stride: int | tuple[int, ...] | None = None, padding: int | tuple[int, ...] = 0,
                 output_size: int | tuple[int | None, ...] | None = None) -> T.Tensor:
    size, _, _ = _unpool_arguments(input, kernel_size, stride, padding, output_size, 1)
    return N.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


@_described(2, "unpool")
def max_unpool2d(input: T.Tensor, indices: T.Tensor, kernel_size: int | tuple[int, ...],
                 stride: int | tuple[int, ...] | None = None, padding: int | tuple[int, ...] = 0,
                 output_size: int | tuple[int | None, ...] | None = None) -> T.Tensor:
    size, _, _ = _unpool_arguments(input, kernel_size, stride, padding, output_size, 2)
    return N.max_unpool2d(input, indices, size)


@_described(3, "unpool")
def max_unpool3d(input: T.Tensor, indices: T.Tensor, kernel_size: int | tuple[int, ...],
                 stride: int | tuple[int, ...] | None = None, padding: int | tuple[int, ...] = 0,
                 output_size: int | tuple[int | None, ...] | None = None) -> T.Tensor:
    size, stride, padding = _unpool_arguments(input, kernel_size, stride, padding, output_size, 3)
    return N.max_unpool3d(input, indices, size, stride, padding)


def _lp_pool(n, max_pool, avg_pool, input, norm_type, kernel_size, stride, ceil_mode):
    if norm_type == float("inf"):
        return max_pool(input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    if norm_type == -float("inf"):
        return -max_pool(-input.abs(), kernel_size, stride, 0, 1, ceil_mode)
    window = 1
    for size in ntuple(kernel_size, n):
        window *= size
    mean = avg_pool(input.pow(norm_type), kernel_size, _stride(stride), 0, ceil_mode)
    # The power of a negative mean would be NaN; the sign goes out front, and a negative sum becomes zero or less.
    return (T.sign(mean) * N.relu(T.abs(mean))).mul(window).pow(1.0 / norm_type)


@_described(1, "lp")
def lp_pool1d(input: T.Tensor, norm_type: float, kernel_size: int | tuple[int, ...],
              stride: int | tuple[int, ...] | None = None, ceil_mode: bool = False) -> T.Tensor:
    return _lp_pool(1, max_pool1d, N.avg_pool1d, input, norm_type, kernel_size, stride, ceil_mode)


@_described(2, "lp")
def lp_pool2d(input: T.Tensor, norm_type: float, kernel_size: int | tuple[int, ...],
              stride: int | tuple[int, ...] | None = None, ceil_mode: bool = False) -> T.Tensor:
    return _lp_pool(2, max_pool2d, N.avg_pool2d, input, norm_type, kernel_size, stride, ceil_mode)


@_described(3, "lp")
def lp_pool3d(input: T.Tensor, norm_type: float, kernel_size: int | tuple[int, ...],
              stride: int | tuple[int, ...] | None = None, ceil_mode: bool = False) -> T.Tensor:
    return _lp_pool(3, max_pool3d, N.avg_pool3d, input, norm_type, kernel_size, stride, ceil_mode)


def _adaptive_size(output_size, shape):
    """`output_size` with None replaced by the input's own size."""
    if not hasattr(output_size, "__iter__"):
        return output_size
    if len(shape) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    own = shape[len(shape) - len(output_size):]
    return [given if given is not None else size for given, size in zip(output_size, own)]


@_described(2, "adaptive_avg")
def adaptive_avg_pool2d(input: T.Tensor, output_size: int | tuple[int | None, ...]) -> T.Tensor:
    return N.adaptive_avg_pool2d(input, _adaptive_size(output_size, input.size()))


@_described(3, "adaptive_avg")
def adaptive_avg_pool3d(input: T.Tensor, output_size: int | tuple[int | None, ...]) -> T.Tensor:
    return N.adaptive_avg_pool3d(input, _adaptive_size(output_size, input.size()))


@_described(1, "adaptive_max_indices")
def adaptive_max_pool1d_with_indices(input: T.Tensor, output_size: int | tuple[int | None, ...],
                                     return_indices: bool = False) -> tuple[T.Tensor, T.Tensor]:
    return N.adaptive_max_pool1d(input, output_size)


@_described(2, "adaptive_max_indices")
def adaptive_max_pool2d_with_indices(input: T.Tensor, output_size: int | tuple[int | None, ...],
                                     return_indices: bool = False) -> tuple[T.Tensor, T.Tensor]:
    return N.adaptive_max_pool2d(input, _adaptive_size(output_size, input.size()))


@_described(3, "adaptive_max_indices")
def adaptive_max_pool3d_with_indices(input: T.Tensor, output_size: int | tuple[int | None, ...],
                                     return_indices: bool = False) -> tuple[T.Tensor, T.Tensor]:
    return N.adaptive_max_pool3d(input, _adaptive_size(output_size, input.size()))


@_described(1, "adaptive_max")
def adaptive_max_pool1d(input: T.Tensor, output_size: int | tuple[int | None, ...],
                        return_indices: bool = False) -> T.Tensor:
    pooled = adaptive_max_pool1d_with_indices(input, output_size)
    return pooled if return_indices else pooled[0]


@_described(2, "adaptive_max")
def adaptive_max_pool2d(input: T.Tensor, output_size: int | tuple[int | None, ...],
                        return_indices: bool = False) -> T.Tensor:
    pooled = adaptive_max_pool2d_with_indices(input, output_size)
    return pooled if return_indices else pooled[0]


@_described(3, "adaptive_max")
def adaptive_max_pool3d(input: T.Tensor, output_size: int | tuple[int | None, ...],
                        return_indices: bool = False) -> T.Tensor:
    pooled = adaptive_max_pool3d_with_indices(input, output_size)
    return pooled if return_indices else pooled[0]


def _fractional(n, native, input, kernel_size, output_size, output_ratio, samples):
    name = f"fractional_max_pool{n}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name} requires specifying either an output_size or an output_ratio")
    if output_size is None:
        ratio = ntuple(output_ratio, n)
        if len(ratio) > n:
            raise ValueError(f"{name} requires output_ratio to either be a single Int or tuple of Ints.")
        output_size = [int(input.size(d - n) * ratio[d]) for d in range(n)]
    if samples is None:
        batch = 1 if input.dim() == n + 1 else input.size(0)
        samples = T.rand(batch, input.size(-n - 1), n, dtype=input.dtype, device=input.device)
    return native(input, kernel_size, output_size, samples)


@_described(2, "fractional_indices")
def fractional_max_pool2d_with_indices(input: T.Tensor, kernel_size: int | tuple[int, ...],
                                       output_size: int | tuple[int | None, ...] | None = None,
                                       output_ratio: float | tuple[float, ...] | None = None,
                                       return_indices: bool = False,
                                       _random_samples: T.Tensor | None = None) -> tuple[T.Tensor, T.Tensor]:
    return _fractional(2, N.fractional_max_pool2d, input, kernel_size, output_size, output_ratio, _random_samples)


@_described(2, "fractional")
def fractional_max_pool2d(input: T.Tensor, kernel_size: int | tuple[int, ...],
                          output_size: int | tuple[int | None, ...] | None = None,
                          output_ratio: float | tuple[float, ...] | None = None, return_indices: bool = False,
                          _random_samples: T.Tensor | None = None) -> T.Tensor:
    pooled = fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, False, _random_samples)
    return pooled if return_indices else pooled[0]


@_described(3, "fractional_indices")
def fractional_max_pool3d_with_indices(input: T.Tensor, kernel_size: int | tuple[int, ...],
                                       output_size: int | tuple[int | None, ...] | None = None,
                                       output_ratio: float | tuple[float, ...] | None = None,
                                       return_indices: bool = False,
                                       _random_samples: T.Tensor | None = None) -> tuple[T.Tensor, T.Tensor]:
    return _fractional(3, N.fractional_max_pool3d, input, kernel_size, output_size, output_ratio, _random_samples)


@_described(3, "fractional")
def fractional_max_pool3d(input: T.Tensor, kernel_size: int | tuple[int, ...],
                          output_size: int | tuple[int | None, ...] | None = None,
                          output_ratio: float | tuple[float, ...] | None = None, return_indices: bool = False,
                          _random_samples: T.Tensor | None = None) -> T.Tensor:
    pooled = fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, False, _random_samples)
    return pooled if return_indices else pooled[0]
