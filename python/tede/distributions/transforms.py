"""Maps between regions, with the logarithm of their Jacobian: what distributions are transformed by."""
import functools
import math
import operator
from numbers import Number

import tede
from tede.distributions import constraints
from tede.distributions.utils import broadcast_all, lazy_property, sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
           "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
           "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
           "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform",
           "identity_transform"]


def _softplus(x):
    return tede.nn.functional.softplus(x)


class Transform:
    """``y = t(x)``, ``x = t.inv(y)``, with the logarithm of the derivative: what distributions are transformed by.

        cache_size: 1 remembers the last pair, so that inverting it is free and exact.

    A subclass has `domain`, `codomain`, `bijective`, perhaps `sign`, and writes `_call`, `_inverse` and
    `log_abs_det_jacobian`. `_arguments` names what it is made of: copies with another cache, and comparisons, go by it.

    >>> exp = tede.distributions.ExpTransform()
    >>> y = exp(tede.tensor(1.0))
    >>> exp.inv(y), exp.log_abs_det_jacobian(tede.tensor(1.0), y)
    (tensor(1.), tensor(1.))
    """
    bijective = False
    _arguments = ()

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        super().__init__()              # a transform may be a Module, too
        self._cache_size, self._inv, self._cached_x_y = cache_size, None, (None, None)

    def __getstate__(self):
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self):
        """How many dimensions an event has, where that is the same before and after (ValueError)."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self):
        """The inverse transform."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self):
        """1 where it grows, -1 where it falls."""
        raise NotImplementedError

    def with_cache(self, cache_size=1):
        """The same transform with another `cache_size`."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is not Transform.__init__ and not self._arguments:
            raise NotImplementedError(f"{type(self)}.with_cache is not implemented")
        return type(self)(*(getattr(self, name) for name in self._arguments), cache_size=cache_size)

    def __eq__(self, other):
        if type(self) is not type(other) or type(self)._arguments is Transform._arguments and (
                type(self).__init__ is not Transform.__init__):
            return self is other
        return all(_same(getattr(self, name), getattr(other, name)) for name in self._arguments)

    __hash__ = object.__hash__

    def __call__(self, x):
        if self._cache_size == 0:
            return self._call(x)
        if x is not self._cached_x_y[0]:
            self._cached_x_y = x, self._call(x)
        return self._cached_x_y[1]

    def _inv_call(self, y):
        if self._cache_size == 0:
            return self._inverse(y)
        if y is not self._cached_x_y[1]:
            self._cached_x_y = self._inverse(y), y
        return self._cached_x_y[0]

    def _call(self, x):
        raise NotImplementedError

    def _inverse(self, y):
        raise NotImplementedError

    def log_abs_det_jacobian(self, x, y):
        """``log |dy/dx|`` at x, whose image is y; for events of several dimensions the determinant's."""
        raise NotImplementedError

    def __repr__(self):
        return type(self).__name__ + "()"

    def forward_shape(self, shape):
        """The shape of y for x of `shape`."""
        return shape

    def inverse_shape(self, shape):
        """The shape of x for y of `shape`."""
        return shape


def _same(a, b):
    if isinstance(a, tede.Tensor) or isinstance(b, tede.Tensor):
        return bool(tede.as_tensor(a == b).all())
    return a == b


class _InverseTransform(Transform):
    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self._inv.domain

    @property
    def bijective(self):
        return self._inv.bijective

    @property
    def sign(self):
        return self._inv.sign

    @property
    def inv(self):
        return self._inv

    def with_cache(self, cache_size=1):
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x):
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)


def _widened(constraint, event_dim):
    extra = event_dim - constraint.event_dim
    return constraints.independent(constraint, extra) if extra > 0 else constraint


class ComposeTransform(Transform):
    """Several transforms, the first of the list done first.

        parts: the list.

    >>> twice = tede.distributions.ComposeTransform([tede.distributions.ExpTransform(), tede.distributions.ExpTransform()])
    >>> twice(tede.tensor(0.0))
    tensor(2.7183)
    """

    def __init__(self, parts, cache_size=0):
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """The constraint that x meets."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            event_dim = max(event_dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _widened(self.parts[0].domain, event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """The constraint that y meets."""
        if not self.parts:
            return constraints.real
        event_dim = self.parts[0].domain.event_dim
        for part in self.parts:
            event_dim = max(event_dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _widened(self.parts[-1].codomain, event_dim)

    @lazy_property
    def bijective(self):
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self):
        return functools.reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self):
        if self._inv is None:
            self._inv = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv._inv = self
        return self._inv

    def with_cache(self, cache_size=1):
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return tede.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        total, event_dim = None, self.domain.event_dim
        for part, a, b in zip(self.parts, points, points[1:]):
            term = sum_rightmost(part.log_abs_det_jacobian(a, b), event_dim - part.domain.event_dim)
            total = term if total is None else total + term
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self):
        return type(self).__name__ + "(\n    " + ",\n    ".join(map(repr, self.parts)) + "\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Another transform with its last `reinterpreted_batch_ndims` batch dimensions as part of events: its derivative is
    summed over them.

    >>> exp = tede.distributions.IndependentTransform(tede.distributions.ExpTransform(), 1)
    >>> x = tede.tensor([1.0, 2.0])
    >>> exp.log_abs_det_jacobian(x, exp(x))
    tensor(3.)
    """
    _arguments = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """The constraint that x meets."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """The constraint that y meets."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self):
        return self.base_transform.bijective

    @property
    def sign(self):
        return self.base_transform.sign

    def _call(self, x):
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y):
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)


def _reshaped(shape, before, after):
    if len(shape) < len(before):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(before)
    if shape[cut:] != before:
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {before}")
    return shape[:cut] + after


class ReshapeTransform(Transform):
    """Events in another shape.

        in_shape, out_shape: of as many elements (ValueError).

    >>> tede.distributions.ReshapeTransform((4,), (2, 2))(tede.zeros(3, 4)).shape
    tede.Size([3, 2, 2])
    """
    bijective = True
    _arguments = ("in_shape", "out_shape")

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = tede.Size(in_shape), tede.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self):
        """The constraint that x meets."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self):
        """The constraint that y meets."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x):
        return x.reshape(x.shape[:x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[:y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[:x.dim() - len(self.in_shape)])

    def forward_shape(self, shape):
        return _reshaped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape):
        return _reshaped(shape, self.out_shape, self.in_shape)


class ExpTransform(Transform):
    """``exp(x)``: from all numbers to positive ones.

    >>> tede.distributions.ExpTransform()(tede.tensor(0.0))
    tensor(1.)
    """
    domain, codomain, bijective, sign = constraints.real, constraints.positive, True, +1

    def _call(self, x):
        return x.exp()

    def _inverse(self, y):
        return y.log()

    def log_abs_det_jacobian(self, x, y):
        return x


class PowerTransform(Transform):
    """``x ** exponent`` of positive numbers.

    >>> tede.distributions.PowerTransform(tede.tensor(2.0))(tede.tensor(3.0))
    tensor(9.)
    """
    domain, codomain, bijective = constraints.positive, constraints.positive, True
    _arguments = ("exponent",)

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.exponent, = broadcast_all(exponent)

    @lazy_property
    def sign(self):
        return self.exponent.sign()

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape):
        return tede.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


def _clipped_sigmoid(x):
    info = tede.finfo(x.dtype)
    return tede.sigmoid(x).clamp(min=info.tiny, max=1.0 - info.eps)


class SigmoidTransform(Transform):
    """``1 / (1 + exp(-x))``: from all numbers to those between 0 and 1.

    >>> tede.distributions.SigmoidTransform()(tede.tensor(0.0))
    tensor(0.5000)
    """
    domain, codomain, bijective, sign = constraints.real, constraints.unit_interval, True, +1

    def _call(self, x):
        return _clipped_sigmoid(x)

    def _inverse(self, y):
        info = tede.finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x, y):
        return -_softplus(-x) - _softplus(x)


class SoftplusTransform(Transform):
    """``log(1 + exp(x))``: from all numbers to positive ones.

    >>> tede.distributions.SoftplusTransform()(tede.tensor(0.0))
    tensor(0.6931)
    """
    domain, codomain, bijective, sign = constraints.real, constraints.positive, True, +1

    def _call(self, x):
        return _softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -_softplus(-x)


class TanhTransform(Transform):
    """``tanh(x)``: from all numbers to those between -1 and 1. The derivative is exact where y has rounded to 1.

    >>> tede.distributions.TanhTransform()(tede.tensor(0.0))
    tensor(0.)
    """
    domain, codomain, bijective, sign = constraints.real, constraints.interval(-1.0, 1.0), True, +1

    def _call(self, x):
        return x.tanh()

    def _inverse(self, y):
        return tede.atanh(y)

    def log_abs_det_jacobian(self, x, y):
        return 2.0 * (math.log(2.0) - x - _softplus(-2.0 * x))


class AbsTransform(Transform):
    """``|x|``. Not bijective: the inverse gives the positive number.

    >>> tede.distributions.AbsTransform()(tede.tensor(-2.0))
    tensor(2.)
    """
    domain, codomain = constraints.real, constraints.positive

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y


class AffineTransform(Transform):
    """``loc + scale * x``.

        loc, scale: numbers or tensors.
        event_dim: how many dimensions an event has.

    >>> tede.distributions.AffineTransform(1.0, 2.0)(tede.tensor(3.0))
    tensor(7.)
    """
    bijective = True
    _arguments = ("loc", "scale", "event_dim")

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self):
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        """The constraint that x meets."""
        return _widened(constraints.real, self.event_dim)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        """The constraint that y meets."""
        return _widened(constraints.real, self.event_dim)

    @property
    def sign(self):
        if isinstance(self.scale, Number):
            return (self.scale > 0) - (self.scale < 0)
        return self.scale.sign()

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        shape = x.shape
        if isinstance(self.scale, Number):
            result = tede.full_like(x, math.log(abs(self.scale)))
        else:
            result = self.scale.abs().log()
        if self.event_dim:
            result = result.view(result.size()[:-self.event_dim] + (-1,)).sum(-1)
            shape = shape[:-self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape):
        return tede.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


def _padded(x, left, right):
    return tede.nn.functional.pad(x, [left, right], value=1)


class CorrCholeskyTransform(Transform):
    """From vectors of ``D * (D - 1) / 2`` numbers to Cholesky factors of D x D correlation matrices, row by row: tanh,
    then what is left of the row's length.

    >>> tede.distributions.CorrCholeskyTransform()(tede.zeros(3))
    tensor([[1., 0., 0.],
            [0., 1., 0.],
            [0., 0., 1.]])
    """
    domain, codomain, bijective = constraints.real_vector, constraints.corr_cholesky, True

    def _call(self, x):
        eps = tede.finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left_over = (1 - r ** 2).sqrt().cumprod(-1)
        r = r + tede.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * _padded(left_over[..., :-1], 1, 0)

    def _inverse(self, y):
        left_over = _padded((1 - (y * y).cumsum(-1))[..., :-1], 1, 0)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left_over, diag=-1).sqrt()
        return (t.log1p() - t.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x, y, intermediates=None):
        left_over = tril_matrix_to_vec(1 - (y * y).cumsum(-1), diag=-2)
        return 0.5 * left_over.log().sum(-1) - 2 * (x + _softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return shape[:-1] + (d, d)

    def inverse_shape(self, shape):
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class _OfVectors(Transform):
    _grows = 0

    def _with_last(self, shape, change):
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape[:-1] + (shape[-1] + change,) if change else shape

    def forward_shape(self, shape):
        return self._with_last(shape, self._grows)

    def inverse_shape(self, shape):
        return self._with_last(shape, -self._grows)


class SoftmaxTransform(_OfVectors):
    """``softmax(x)`` over the last dimension. Not bijective: the inverse is the logarithm.

    >>> tede.distributions.SoftmaxTransform()(tede.zeros(2))
    tensor([0.5000, 0.5000])
    """
    domain, codomain = constraints.real_vector, constraints.simplex

    def _call(self, x):
        p = (x - x.max(-1, True)[0]).exp()
        return p / p.sum(-1, True)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(_OfVectors):
    """From vectors of K numbers to vectors of K + 1 positive ones that sum to 1: each takes its sigmoid's part of what
    is left. Bijective.

    >>> tede.distributions.StickBreakingTransform()(tede.zeros(2))
    tensor([0.3333, 0.3333, 0.3333])
    """
    domain, codomain, bijective, _grows = constraints.real_vector, constraints.simplex, True, 1

    def _offset(self, x):
        return x.shape[-1] + 1 - x.new_ones(x.shape[-1]).cumsum(-1)

    def _call(self, x):
        z = _clipped_sigmoid(x - self._offset(x).log())
        return _padded(z, 0, 1) * _padded((1 - z).cumprod(-1), 1, 0)

    def _inverse(self, y):
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=tede.finfo(y.dtype).tiny)
        return head.log() - left.log() + self._offset(head).log()

    def log_abs_det_jacobian(self, x, y):
        x = x - self._offset(x).log()
        return (-x + tede.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)


class LowerCholeskyTransform(Transform):
    """From matrices to lower triangular ones with a positive diagonal, which is the exponential.

    >>> tede.distributions.LowerCholeskyTransform()(tede.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """From matrices to positive definite ones: `LowerCholeskyTransform` times its transpose.

    >>> tede.distributions.PositiveDefiniteTransform()(tede.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(tede.linalg.cholesky(y))


class _Several(Transform):
    """One transform for each part along a dimension."""

    def __init__(self, tseq, dim, cache_size):
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        super().__init__(cache_size=cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) if cache_size else t for t in tseq], dim

    def _check(self, x, length):
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {x.dim()} dimensions")
        if x.size(self.dim) != length:
            raise AssertionError(f"x.size({self.dim}) = {x.size(self.dim)} must equal length {length}")

    @property
    def bijective(self):
        return all(t.bijective for t in self.transforms)

    def _call(self, x):
        return self._join([t(part) for t, part in zip(self.transforms, self._parts(x))])

    def _inverse(self, y):
        return self._join([t.inv(part) for t, part in zip(self.transforms, self._parts(y))])


class CatTransform(_Several):
    """Transforms of parts of a dimension, which are joined.

        tseq: a list of transforms.
        dim: the dimension.
        lengths: of the parts; else 1 each.

    >>> parts = tede.distributions.CatTransform([tede.distributions.ExpTransform(), tede.distributions.AbsTransform()])
    >>> parts(tede.tensor([0.0, -2.0]))
    tensor([1., 2.])
    """
    _arguments = ("transforms", "dim", "lengths")

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(tseq, dim, cache_size)
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.transforms)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @lazy_property
    def event_dim(self):
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self):
        """The sum of the lengths."""
        return sum(self.lengths)

    def _parts(self, x):
        self._check(x, self.length)
        return x.split(self.lengths, self.dim)

    def _join(self, parts):
        return tede.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        terms = []
        for t, a, b in zip(self.transforms, self._parts(x), self._parts(y)):
            terms.append(sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim))
        dim = (self.dim - x.dim() if self.dim >= 0 else self.dim) + self.event_dim
        return tede.cat(terms, dim=dim) if dim < 0 else sum(terms)

    @constraints.dependent_property
    def domain(self):
        """The constraint that x meets."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self):
        """The constraint that y meets."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_Several):
    """Transforms of the slices along a dimension.

        tseq: a list of transforms, one a slice.
        dim: the dimension.

    >>> parts = tede.distributions.StackTransform([tede.distributions.ExpTransform(), tede.distributions.AbsTransform()])
    >>> parts(tede.tensor([0.0, -2.0]))
    tensor([1., 2.])
    """
    _arguments = ("transforms", "dim")

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, cache_size)

    def _parts(self, x):
        self._check(x, len(self.transforms))
        return x.unbind(self.dim)

    def _join(self, parts):
        return tede.stack(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x, y):
        return self._join([t.log_abs_det_jacobian(a, b) for t, a, b in zip(self.transforms, self._parts(x), self._parts(y))])

    @constraints.dependent_property
    def domain(self):
        """The constraint that x meets."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self):
        """The constraint that y meets."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """``cdf(x)`` of a distribution: to numbers between 0 and 1.

        distribution: of numbers, with `cdf`, `icdf` and `log_prob`.

    >>> tede.distributions.CumulativeDistributionTransform(tede.distributions.Normal(0.0, 1.0))(tede.tensor(0.0))
    tensor(0.5000)
    """
    bijective, codomain, sign = True, constraints.unit_interval, +1
    _arguments = ("distribution",)

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self):
        """The constraint that x meets."""
        return self.distribution.support

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)
