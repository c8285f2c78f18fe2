"""What distributions have in common: shapes, checks of parameters and samples, expansion, text.

A subclass names its parameters in `arg_constraints`; those of its attributes that are tensors of the batch's shape (with
the dimensions of one event behind it, as many as the constraint says) are expanded by expand().
"""
import warnings

import tede
from tede.distributions import constraints
from tede.distributions.utils import lazy_property
from .._docs import completed

__all__ = ["Distribution"]


@completed
class Distribution:
    """Base of all distributions: over events of `event_shape`, with `batch_shape` of them side by side that don't
    depend on each other.

        batch_shape, event_shape: what a subclass's parameters say.
        <validate_args>

    `sample()` has the shape ``sample_shape + batch_shape + event_shape``, `log_prob(value)` that without event_shape. A
    subclass names its parameters in `arg_constraints`, the values that are possible in `support`, and writes `rsample`
    or `sample`, and `log_prob`.

    >>> normal = tede.distributions.Normal(tede.zeros(3), 1.0)
    >>> normal.batch_shape, normal.event_shape, normal.sample((5,)).shape
    (tede.Size([3]), tede.Size([]), tede.Size([5, 3]))
    >>> normal.log_prob(tede.zeros(3))
    tensor([-0.9189, -0.9189, -0.9189])
    """
    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _expands = ()               # other distributions and tensors that expand with the parameters: (name, event dims)

    def __init_subclass__(cls, **kwargs):
        """Properties say what those of the same name above them say, or which parameter they are."""
        super().__init_subclass__(**kwargs)
        for name, value in vars(cls).items():
            if type(value) is property and value.__doc__ is None:
                value.__doc__ = next((vars(base)[name].__doc__ for base in cls.__mro__[1:] if name in vars(base)), "A parameter.")

    @staticmethod
    def set_default_validate_args(value):
        """Whether the classes check parameters and values where `validate_args` isn't given."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(self, batch_shape=tede.Size(), event_shape=tede.Size(), validate_args=None):
        self._batch_shape, self._event_shape = tede.Size(batch_shape), tede.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()              # another base class may have an __init__, too

    def _check_parameters(self):
        try:
            known = self.arg_constraints
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                          "the distribution with `validate_args=False` to turn off validation.", stacklevel=4)
            return
        for name, constraint in known.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue
            value = getattr(self, name)
            if not constraint.check(value).all():
                raise ValueError(f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                                 f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n"
                                 f"{value}")

    def expand(self, batch_shape, _instance=None):
        """The distribution with its batch expanded to `batch_shape`, without copies.

        >>> tede.distributions.Normal(0.0, 1.0).expand((2, 3)).sample().shape
        tede.Size([2, 3])
        """
        new = self._get_checked_instance(self._declaring(), _instance)
        batch_shape = tede.Size(batch_shape)
        self._expand_into(new, batch_shape)
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _expand_into(self, new, batch_shape):
        extra = {name: self._tail(constraint) for name, constraint in self.arg_constraints.items()}
        extra.update(self._expands)
        for name, value in self.__dict__.items():
            if name in ("_batch_shape", "_event_shape", "_validate_args"):
                continue
            if name in extra and isinstance(value, tede.Tensor):
                tail = value.shape[value.dim() - extra[name]:] if extra[name] else ()
                new.__dict__[name] = value.expand(batch_shape + tede.Size(tail))
            elif name in extra and isinstance(value, Distribution):
                new.__dict__[name] = value.expand(batch_shape + tede.Size(value.batch_shape[len(self.batch_shape):]))
            elif not isinstance(getattr(type(self), name, None), lazy_property):
                new.__dict__[name] = value

    @staticmethod
    def _tail(constraint):
        try:
            return constraint.event_dim
        except NotImplementedError:
            return 0

    def _declaring(self):
        """The library's class that this one's __init__ is expected to be of."""
        for cls in type(self).__mro__:
            if cls.__module__.startswith(("tede.distributions", "torch.distributions")) and "__init__" in cls.__dict__:
                return cls
        return type(self)

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method "
                                      "must also define a custom .expand() method.")
        return self.__new__(type(self)) if _instance is None else _instance

    @property
    def batch_shape(self):
        """The shape of the parameters side by side: each element is a distribution by itself."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of one event: () for numbers."""
        return self._event_shape

    @property
    def arg_constraints(self):
        """{parameter: the constraint that it meets}."""
        raise NotImplementedError

    @property
    def support(self):
        """The constraint that values meet."""
        raise NotImplementedError

    @property
    def mean(self):
        """The expected value, of ``batch_shape + event_shape``."""
        raise NotImplementedError

    @property
    def mode(self):
        """The likeliest value; NotImplementedError where a class has none."""
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        """The expected square of the distance from the mean."""
        raise NotImplementedError

    @property
    def stddev(self):
        """The root of the variance."""
        return self.variance.sqrt()

    def sample(self, sample_shape=tede.Size()):
        """Samples, without gradients, of the shape ``sample_shape + batch_shape + event_shape``.

        >>> tede.distributions.Normal(0.0, 1.0).sample((2,)).shape
        tede.Size([2])
        """
        with tede.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=tede.Size()):
        """Samples through which gradients reach the parameters; NotImplementedError unless `has_rsample`.

        >>> loc = tede.zeros(2, requires_grad=True)
        >>> tede.distributions.Normal(loc, 1.0).rsample().sum().backward()
        >>> loc.grad
        tensor([1., 1.])
        """
        raise NotImplementedError

    def sample_n(self, n):
        """`n` samples; it warns: use ``sample((n,))``."""
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(tede.Size((n,)))

    def log_prob(self, value):
        """The logarithm of the density, or of the probability, of `value`: of value's shape without event_shape. A
        ValueError if value is outside of the support and arguments are checked.

        >>> tede.distributions.Uniform(0.0, 2.0).log_prob(tede.tensor(1.0))
        tensor(-0.6931)
        """
        raise NotImplementedError

    def cdf(self, value):
        """The probability of values up to `value`.

        >>> tede.distributions.Normal(0.0, 1.0).cdf(tede.tensor(0.0))
        tensor(0.5000)
        """
        raise NotImplementedError

    def icdf(self, value):
        """The value up to which the probability is `value`: the inverse of `cdf`.

        >>> tede.distributions.Normal(0.0, 1.0).icdf(tede.tensor(0.5))
        tensor(0.)
        """
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All values of a discrete distribution, along a new first dimension; expanded to the batch's shape if
        `expand`. NotImplementedError unless `has_enumerate_support`.

        >>> tede.distributions.Categorical(tede.ones(3)).enumerate_support()
        tensor([0, 1, 2])
        """
        raise NotImplementedError

    def entropy(self):
        """``-E[log_prob(x)]`` of each element of the batch, in nats.

        >>> tede.distributions.Categorical(tede.ones(4)).entropy()
        tensor(1.3863)
        """
        raise NotImplementedError

    def perplexity(self):
        """``exp(entropy())``: of how many equally likely values there seem to be.

        >>> tede.distributions.Categorical(tede.ones(4)).perplexity()
        tensor(4.)
        """
        return tede.exp(self.entropy())

    def _extended_shape(self, sample_shape=tede.Size()):
        return tede.Size(sample_shape) + self._batch_shape + self._event_shape

    def _enumerated(self, values, expand):
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    def _checked(self, value):
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value):
        if not isinstance(value, tede.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        start = value.dim() - len(self._event_shape)
        if value.size()[max(start, 0):] != self._event_shape:
            raise ValueError(f"The right-most size of value must match event_shape: {value.size()} vs {self._event_shape}.")
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.size()), reversed(expected)):
            if i != 1 and j != 1 and i != j:
                raise ValueError(f"Value is not broadcastable with batch_shape+event_shape: {value.size()} vs {expected}.")
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                          "distribution with `validate_args=False` to turn off validation.", stacklevel=4)
            return
        if not support.check(value).all():
            raise ValueError(f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                             f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}")

    def __repr__(self):
        shown = []
        for name in self.arg_constraints:
            if name in self.__dict__:
                value = self.__dict__[name]
                shown.append(f"{name}: {value if value.numel() == 1 else value.size()}")
        return type(self).__name__ + "(" + ", ".join(shown) + ")"


class ExponentialFamily(Distribution):
    """Distributions with densities ``exp(t(x) . natural parameters - log normalizer + k(x))``: entropy and divergence
    between two of one class follow from derivatives of the normalizer (Nielsen and Nock, 2010, "Entropies and
    cross-entropies of exponential families").

    A subclass writes `_natural_params`, `_log_normalizer` and `_mean_carrier_measure`.

    >>> isinstance(tede.distributions.Normal(0.0, 1.0), tede.distributions.ExponentialFamily)
    True
    """

    @property
    def _natural_params(self):
        raise NotImplementedError

    def _log_normalizer(self, *natural_params):
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self):
        raise NotImplementedError

    def entropy(self):
        result = -self._mean_carrier_measure
        parameters = [p.detach().requires_grad_() for p in self._natural_params]
        log_normalizer = self._log_normalizer(*parameters)
        gradients = tede.autograd.grad(log_normalizer.sum(), parameters, create_graph=True)
        result = result + log_normalizer
        for p, g in zip(parameters, gradients):
            result = result - (p * g).reshape(self._batch_shape + (-1,)).sum(-1)
        return result
