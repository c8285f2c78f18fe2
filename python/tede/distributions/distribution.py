"""What distributions have in common: shapes, checks of parameters and samples, expansion, text.

A subclass names its parameters in `arg_constraints`; those of its attributes that are tensors of the batch's shape (with
the dimensions of one event behind it, as many as the constraint says) are expanded by expand().
"""
import warnings

import tede
from tede.distributions import constraints
from tede.distributions.utils import lazy_property

__all__ = ["Distribution"]


class Distribution:
    """A distribution over events of `event_shape`, `batch_shape` of them side by side."""
    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _expands = ()               # other distributions and tensors that expand with the parameters: (name, event dims)

    @staticmethod
    def set_default_validate_args(value):
        """Whether parameters and samples are checked."""
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
        """The distribution with its batch expanded to a shape, without copies."""
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
        return self._batch_shape

    @property
    def event_shape(self):
        return self._event_shape

    @property
    def arg_constraints(self):
        raise NotImplementedError

    @property
    def support(self):
        raise NotImplementedError

    @property
    def mean(self):
        raise NotImplementedError

    @property
    def mode(self):
        raise NotImplementedError(f"{self.__class__} does not implement mode")

    @property
    def variance(self):
        raise NotImplementedError

    @property
    def stddev(self):
        return self.variance.sqrt()

    def sample(self, sample_shape=tede.Size()):
        """Samples, without gradients."""
        with tede.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=tede.Size()):
        """Samples through which gradients reach the parameters."""
        raise NotImplementedError

    def sample_n(self, n):
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(tede.Size((n,)))

    def log_prob(self, value):
        raise NotImplementedError

    def cdf(self, value):
        raise NotImplementedError

    def icdf(self, value):
        raise NotImplementedError

    def enumerate_support(self, expand=True):
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def entropy(self):
        raise NotImplementedError

    def perplexity(self):
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
    """Densities exp(t(x) * natural parameters - log normalizer): entropy and divergence follow from derivatives."""

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
