"""Pooling: the largest value, the mean or a norm of each window."""
from .._native import N, T
from ._common import ntuple


def _stride(stride):
    return () if stride is None else stride     # natively, "as the kernel" is spelt as an empty list


def max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                            return_indices=False):
    """The largest value of each window, and where it was."""
    return N.max_pool1d_with_indices(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest value of each window along the last dimension."""
    function = N.max_pool1d_with_indices if return_indices else N.max_pool1d
    return function(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def max_pool2d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                            return_indices=False):
    """The largest value of each window, and where it was."""
    return N.max_pool2d_with_indices(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest value of each window over the last two dimensions."""
    function = N.max_pool2d_with_indices if return_indices else N.max_pool2d
    return function(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def max_pool3d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False,
                            return_indices=False):
    """The largest value of each window, and where it was."""
    return N.max_pool3d_with_indices(input, kernel_size, _stride(stride), padding, dilation, ceil_mode)


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest value of each window over the last three dimensions."""
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


def max_unpool1d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put pooled values back where `indices` of `max_pool1d` say; zeros elsewhere."""
    size, _, _ = _unpool_arguments(input, kernel_size, stride, padding, output_size, 1)
    return N.max_unpool2d(input.unsqueeze(-1), indices.unsqueeze(-1), [*size, 1]).squeeze(-1)


def max_unpool2d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put pooled values back where `indices` of `max_pool2d` say; zeros elsewhere."""
    size, _, _ = _unpool_arguments(input, kernel_size, stride, padding, output_size, 2)
    return N.max_unpool2d(input, indices, size)


def max_unpool3d(input, indices, kernel_size, stride=None, padding=0, output_size=None):
    """Put pooled values back where `indices` of `max_pool3d` say; zeros elsewhere."""
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


def lp_pool1d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """``(sum x**p) ** (1/p)`` of each window, p being `norm_type`."""
    return _lp_pool(1, max_pool1d, N.avg_pool1d, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """``(sum x**p) ** (1/p)`` of each window, p being `norm_type`."""
    return _lp_pool(2, max_pool2d, N.avg_pool2d, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(input, norm_type, kernel_size, stride=None, ceil_mode=False):
    """``(sum x**p) ** (1/p)`` of each window, p being `norm_type`."""
    return _lp_pool(3, max_pool3d, N.avg_pool3d, input, norm_type, kernel_size, stride, ceil_mode)


def _adaptive_size(output_size, shape):
    """`output_size` with None replaced by the input's own size."""
    if not hasattr(output_size, "__iter__"):
        return output_size
    if len(shape) <= len(output_size):
        raise ValueError(f"Input dimension should be at least {len(output_size) + 1}")
    own = shape[len(shape) - len(output_size):]
    return [given if given is not None else size for given, size in zip(output_size, own)]


def adaptive_avg_pool2d(input, output_size):
    """Means over windows of such sizes that the output has `output_size`."""
    return N.adaptive_avg_pool2d(input, _adaptive_size(output_size, input.size()))


def adaptive_avg_pool3d(input, output_size):
    """Means over windows of such sizes that the output has `output_size`."""
    return N.adaptive_avg_pool3d(input, _adaptive_size(output_size, input.size()))


def adaptive_max_pool1d_with_indices(input, output_size, return_indices=False):
    """The largest values of windows of such sizes that the output has `output_size`, and where they were."""
    return N.adaptive_max_pool1d(input, output_size)


def adaptive_max_pool2d_with_indices(input, output_size, return_indices=False):
    """The largest values of windows of such sizes that the output has `output_size`, and where they were."""
    return N.adaptive_max_pool2d(input, _adaptive_size(output_size, input.size()))


def adaptive_max_pool3d_with_indices(input, output_size, return_indices=False):
    """The largest values of windows of such sizes that the output has `output_size`, and where they were."""
    return N.adaptive_max_pool3d(input, _adaptive_size(output_size, input.size()))


def adaptive_max_pool1d(input, output_size, return_indices=False):
    """The largest values of windows of such sizes that the output has `output_size`."""
    pooled = adaptive_max_pool1d_with_indices(input, output_size)
    return pooled if return_indices else pooled[0]


def adaptive_max_pool2d(input, output_size, return_indices=False):
    """The largest values of windows of such sizes that the output has `output_size`."""
    pooled = adaptive_max_pool2d_with_indices(input, output_size)
    return pooled if return_indices else pooled[0]


def adaptive_max_pool3d(input, output_size, return_indices=False):
    """The largest values of windows of such sizes that the output has `output_size`."""
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


def fractional_max_pool2d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                                       _random_samples=None):
    """Fractional max pooling: maxima of windows at random positions (Graham, 2014), and their indices."""
    return _fractional(2, N.fractional_max_pool2d, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool2d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """Fractional max pooling: maxima of windows at random positions (Graham, 2014)."""
    pooled = fractional_max_pool2d_with_indices(input, kernel_size, output_size, output_ratio, False, _random_samples)
    return pooled if return_indices else pooled[0]


def fractional_max_pool3d_with_indices(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                                       _random_samples=None):
    """Fractional max pooling: maxima of windows at random positions (Graham, 2014), and their indices."""
    return _fractional(3, N.fractional_max_pool3d, input, kernel_size, output_size, output_ratio, _random_samples)


def fractional_max_pool3d(input, kernel_size, output_size=None, output_ratio=None, return_indices=False,
                          _random_samples=None):
    """Fractional max pooling: maxima of windows at random positions (Graham, 2014)."""
    pooled = fractional_max_pool3d_with_indices(input, kernel_size, output_size, output_ratio, False, _random_samples)
    return pooled if return_indices else pooled[0]
