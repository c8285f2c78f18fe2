"""Distributions made of others: transformed, with batch dimensions as dimensions of the event."""
import tede
from tede.distributions import constraints
from tede.distributions.distribution import Distribution
from tede.distributions.transforms import ComposeTransform, Transform
from tede.distributions.utils import sum_rightmost
from .._docs import completed


@completed
class Independent(Distribution):
    """Another distribution's last batch dimensions as part of its events: `log_prob` sums over them.

        base_distribution: the other one.
        reinterpreted_batch_ndims: how many dimensions (ValueError if there are fewer).
        <validate_args>

    >>> vectors = tede.distributions.Independent(tede.distributions.Normal(tede.zeros(3), 1.0), 1)
    >>> vectors.batch_shape, vectors.event_shape, vectors.log_prob(tede.zeros(3))
    (tede.Size([]), tede.Size([3]), tensor(-2.7568))
    """
    arg_constraints = {}

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError("Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual "
                             f"{reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}")
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(Independent, _instance)
        batch_shape = tede.Size(batch_shape)
        new.base_dist = self.base_dist.expand(batch_shape + self.event_shape[:self.reinterpreted_batch_ndims])
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self):
        """Whether gradients pass through samples: as the base's."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self):
        """Whether all values can be listed."""
        return not self.reinterpreted_batch_ndims and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self):
        n = self.reinterpreted_batch_ndims
        return constraints.independent(self.base_dist.support, n) if n else self.base_dist.support

    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    def sample(self, sample_shape=tede.Size()):
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape=tede.Size()):
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"


@completed
class TransformedDistribution(Distribution):
    """``transform(X)`` for X of a base distribution; log_prob subtracts the logarithm of the transform's derivative.

        base_distribution: X's.
        transforms: one, or a list, the first done first. `cdf` and `icdf` need monotonous ones.
        <validate_args>

    >>> from tede.distributions import transforms
    >>> base = tede.distributions.Uniform(0.0, 1.0)
    >>> logistic = tede.distributions.TransformedDistribution(base, [transforms.SigmoidTransform().inv])
    >>> logistic.log_prob(tede.tensor(0.0))
    tensor(-1.3863)
    """
    arg_constraints = {}

    def __init__(self, base_distribution, transforms, validate_args=None):
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list) and all(isinstance(t, Transform) for t in transforms):
            self.transforms = transforms
        elif isinstance(transforms, list):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        base_shape, event_dim = base_distribution.batch_shape + base_distribution.event_shape, len(base_distribution.event_shape)
        whole = ComposeTransform(self.transforms)
        if len(base_shape) < whole.domain.event_dim:
            raise ValueError(f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got "
                             f"{base_shape}.")
        forward = whole.forward_shape(base_shape)
        wanted = whole.inverse_shape(forward)
        if base_shape != wanted:
            base_distribution = base_distribution.expand(wanted[:len(wanted) - event_dim])
        n = whole.domain.event_dim - event_dim
        if n > 0:
            base_distribution = Independent(base_distribution, n)
        self.base_dist = base_distribution
        events = max(whole.codomain.event_dim, event_dim + whole.codomain.event_dim - whole.domain.event_dim)
        cut = len(forward) - events
        super().__init__(forward[:cut], forward[cut:], validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(self._declaring(), _instance)
        batch_shape = tede.Size(batch_shape)
        whole = ComposeTransform(self.transforms)
        inner = whole.inverse_shape(batch_shape + self.event_shape)
        self._expand_into(new, batch_shape)
        new.transforms = self.transforms
        new.base_dist = self.base_dist.expand(inner[:len(inner) - len(self.base_dist.event_shape)])
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self):
        """Whether gradients pass through samples: as the base's."""
        return self.base_dist.has_rsample

    @constraints.dependent_property(is_discrete=False)
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        support, events = self.transforms[-1].codomain, len(self.event_shape)
        return constraints.independent(support, events - support.event_dim) if events > support.event_dim else support

    def sample(self, sample_shape=tede.Size()):
        with tede.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape=tede.Size()):
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value):
        self._checked(value)
        total, y, event_dim = 0.0, value, len(self.event_shape)
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), event_dim - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape))

    def _monotonize(self, value):
        """value, or 1 - value where the transforms are decreasing."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value):
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize(self.base_dist.cdf(value))

    def icdf(self, value):
        return self._forward(self.base_dist.icdf(self._monotonize(value)))
