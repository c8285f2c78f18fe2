"""Distributions over whole numbers and categories."""
import math

import tede
from tede.distributions import constraints
from tede.distributions.distribution import Distribution, ExponentialFamily
from tede.distributions.positive import Gamma
from tede.distributions.utils import broadcast_all, lazy_property, logits_to_probs, probs_to_logits
from .._docs import completed

nan = math.nan


def _bce(logits, value):
    return tede.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none")


def _one_of(probs, logits):
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")


class _Odds:
    """probs or logits of one event: the one that was given, and the other from it."""

    def _take(self, probs, logits, *others):
        """Keeps the one that is given, of a shape with `others`, which are returned."""
        _one_of(probs, logits)
        self._by_probs = probs is not None
        *others, given = broadcast_all(*others, probs if self._by_probs else logits)
        setattr(self, "probs" if self._by_probs else "logits", given)
        return others

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self):
        return self.__dict__["probs"] if self._by_probs else self.__dict__["logits"]

    @property
    def param_shape(self):
        return self._param.size()

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)


@completed
class Bernoulli(_Odds, ExponentialFamily):
    """1 with probability `probs`, else 0.

        probs: from 0 to 1; or logits, ``log(probs / (1 - probs))``. Exactly one (ValueError).
        <validate_args>

    >>> coin = tede.distributions.Bernoulli(0.3)
    >>> coin.log_prob(tede.tensor(1.0)), coin.variance
    (tensor(-1.2040), tensor(0.2100))
    """
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support, has_enumerate_support, _mean_carrier_measure = constraints.boolean, True, 0

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    mean = property(lambda self: self.probs)

    @property
    def mode(self):
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = nan
        return mode

    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape=tede.Size()):
        with tede.no_grad():
            return tede.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._checked(value)
        return -_bce(*broadcast_all(self.logits, value))

    def entropy(self):
        return _bce(self.logits, self.probs)

    def enumerate_support(self, expand=True):
        return self._enumerated(tede.arange(2, dtype=self._param.dtype, device=self._param.device), expand)

    @property
    def _natural_params(self):
        return (tede.logit(self.probs),)

    def _log_normalizer(self, x):
        return tede.log1p(tede.exp(x))


@completed
class Geometric(_Odds, Distribution):
    """How many failures come before the first success: probability ``(1 - probs)**k * probs`` of k = 0, 1, ...

        probs: of a success, above 0, at most 1; or logits. Exactly one (ValueError).
        <validate_args>

    >>> tede.distributions.Geometric(0.25).mean
    tensor(3.)
    """
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)
        if self._validate_args and self._by_probs and not (self.probs > 0).all():
            invalid = self.probs.data[~(self.probs > 0)]
            raise ValueError(f"Expected parameter probs ({type(self.probs).__name__} of shape {tuple(self.probs.shape)}) of "
                             f"distribution {self!r} to be positive but found invalid values:\n{invalid}")

    mean = property(lambda self: 1.0 / self.probs - 1.0)
    mode = property(lambda self: tede.zeros_like(self.probs))
    variance = property(lambda self: (1.0 / self.probs - 1.0) / self.probs)

    def sample(self, sample_shape=tede.Size()):
        shape = self._extended_shape(sample_shape)
        with tede.no_grad():
            u = self.probs.new_empty(shape).uniform_(tede.finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value):
        self._checked(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone(memory_format=tede.contiguous_format)
        probs[(probs == 1) & (value == 0)] = 0
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self):
        return _bce(self.logits, self.probs) / self.probs


@completed
class Binomial(_Odds, Distribution):
    """How many of `total_count` trials succeed.

        total_count: a number, or one for each element.
        probs: of a success, from 0 to 1; or logits. Exactly one (ValueError).
        <validate_args>

    >>> tede.distributions.Binomial(10, 0.3).mean
    tensor(3.)
    """
    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}
    has_enumerate_support = True

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.total_count, = self._take(probs, logits, total_count)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self.total_count)

    mean = property(lambda self: self.total_count * self.probs)
    mode = property(lambda self: ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count))
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))

    def sample(self, sample_shape=tede.Size()):
        shape = self._extended_shape(sample_shape)
        with tede.no_grad():
            return tede.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value):
        self._checked(value)
        n = self.total_count
        # log (n choose k) + k * logits - n * log(1 + exp(logits)), the last without overflow
        # (the slope at 0 is the mean of both sides', which clamp(min=0) doesn't say)
        normalize = n * (self.logits + self.logits.abs()) / 2 + n * tede.log1p(tede.exp(-self.logits.abs())) - tede.lgamma(n + 1)
        return value * self.logits - tede.lgamma(value + 1) - tede.lgamma(n - value + 1) - normalize

    def entropy(self):
        n = int(self.total_count.max())
        if not self.total_count.min() == n:
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(tede.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand=True):
        n = int(self.total_count.max())
        if not self.total_count.min() == n:
            raise NotImplementedError("Inhomogeneous total count not supported by `enumerate_support`.")
        return self._enumerated(tede.arange(1 + n, dtype=self._param.dtype, device=self._param.device), expand)


@completed
class NegativeBinomial(_Odds, Distribution):
    """How many successes come before the `total_count`-th failure; mean ``total_count * exp(logits)``.

        total_count: from 0, not only whole numbers.
        probs: of a success, from 0, below 1; or logits. Exactly one (ValueError).
        <validate_args>

    >>> tede.distributions.NegativeBinomial(5.0, 0.5).mean
    tensor(5.)
    """
    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
                       "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        self.total_count, = self._take(probs, logits, total_count)
        self.total_count = self.total_count.type_as(self._param)
        super().__init__(self._param.size(), validate_args=validate_args)

    mean = property(lambda self: self.total_count * tede.exp(self.logits))

    @property
    def mode(self):
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    variance = property(lambda self: self.mean / tede.sigmoid(-self.logits))

    @lazy_property
    def _gamma(self):
        return Gamma(concentration=self.total_count, rate=tede.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape=tede.Size()):
        with tede.no_grad():
            return tede.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value):
        self._checked(value)
        log_unnormalized = (self.total_count * tede.nn.functional.logsigmoid(-self.logits) +
                            value * tede.nn.functional.logsigmoid(self.logits))
        normalize = -tede.lgamma(self.total_count + value) + tede.lgamma(1.0 + value) + tede.lgamma(self.total_count)
        normalize = normalize.masked_fill(self.total_count + value == 0.0, 0.0)
        return log_unnormalized - normalize


@completed
class Poisson(ExponentialFamily):
    """Probability ``rate**k * exp(-rate) / k!`` of k = 0, 1, ...; mean and variance are the rate.

        rate: from 0.
        <validate_args>

    >>> tede.distributions.Poisson(4.0).log_prob(tede.tensor(3.0))
    tensor(-1.6329)
    """
    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    mean = property(lambda self: self.rate)
    mode = property(lambda self: self.rate.floor())
    variance = property(lambda self: self.rate)

    def sample(self, sample_shape=tede.Size()):
        with tede.no_grad():
            return tede.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._checked(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self):
        return (tede.log(self.rate),)

    def _log_normalizer(self, x):
        return tede.exp(x)


@completed
class Categorical(Distribution):
    """Number i of 0 to K - 1 with probability ``probs[i] / sum(probs)``.

        probs: (..., K), from 0; or logits, any numbers, of which softmax is taken. Exactly one (ValueError).
        <validate_args>

    Samples are int64, of the batch's shape.

    >>> choice = tede.distributions.Categorical(tede.tensor([1.0, 3.0]))
    >>> choice.log_prob(tede.tensor(1)).exp()
    tensor(0.7500)
    """
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True

    def __init__(self, probs=None, logits=None, validate_args=None):
        _one_of(probs, logits)
        self._by_probs = probs is not None
        given, name = (probs, "probs") if self._by_probs else (logits, "logits")
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if self._by_probs:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.size()[-1]
        super().__init__(given.size()[:-1] if given.dim() > 1 else tede.Size(), validate_args=validate_args)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self):
        return logits_to_probs(self.logits)

    @property
    def _param(self):
        return self.__dict__["probs"] if self._by_probs else self.__dict__["logits"]

    def _new(self, *args, **kwargs):
        return self._param.new(*args, **kwargs)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self):
        return constraints.integer_interval(0, self._num_events - 1)

    param_shape = property(lambda self: self._param.size())
    mode = property(lambda self: self.probs.argmax(dim=-1))

    @property
    def mean(self):
        return tede.full(self._extended_shape(), nan, dtype=self.probs.dtype, device=self.probs.device)

    variance = mean

    def sample(self, sample_shape=tede.Size()):
        sample_shape = tede.Size(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = tede.multinomial(rows, sample_shape.numel(), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value):
        self._checked(value)
        value, log_pmf = tede.broadcast_tensors(value.long().unsqueeze(-1), self.logits)
        return log_pmf.gather(-1, value[..., :1]).squeeze(-1)

    def entropy(self):
        logits = self.logits.clamp(min=tede.finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand=True):
        return self._enumerated(tede.arange(self._num_events, dtype=tede.int64, device=self._param.device), expand)


@completed
class OneHotCategorical(Distribution):
    """`Categorical` whose samples are vectors of K numbers: 1 at the one that was chosen, else 0.

        probs: (..., K), from 0; or logits. Exactly one (ValueError).
        <validate_args>

    >>> tede.distributions.OneHotCategorical(tede.tensor([0.0, 1.0])).sample()
    tensor([0., 1.])
    """
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support, has_enumerate_support = constraints.one_hot, True
    _expands = (("_categorical", 0),)

    def __init__(self, probs=None, logits=None, validate_args=None):
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    _param = property(lambda self: self._categorical._param)
    param_shape = property(lambda self: self._categorical.param_shape)
    mean = property(lambda self: self._categorical.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self):
        return tede.nn.functional.one_hot(self.probs.argmax(dim=-1), self.probs.shape[-1]).to(self.probs)

    def sample(self, sample_shape=tede.Size()):
        drawn = self._categorical.sample(tede.Size(sample_shape))
        return tede.nn.functional.one_hot(drawn, self._categorical._num_events).to(self._categorical.probs)

    def log_prob(self, value):
        self._checked(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self):
        return self._categorical.entropy()

    def enumerate_support(self, expand=True):
        n = self.event_shape[0]
        values = tede.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n,) + (1,) * len(self.batch_shape) + (n,))
        return values.expand((n,) + self.batch_shape + (n,)) if expand else values


@completed
class OneHotCategoricalStraightThrough(OneHotCategorical):
    """`OneHotCategorical` with `rsample`: the sample's gradient is that of the probabilities (Bengio et al., 2013,
    "Estimating or Propagating Gradients Through Stochastic Neurons for Conditional Computation").

        probs: (..., K), from 0; or logits. Exactly one (ValueError).
        <validate_args>

    >>> tede.distributions.OneHotCategoricalStraightThrough(tede.tensor([0.0, 1.0])).rsample()
    tensor([0., 1.])
    """
    has_rsample = True

    def rsample(self, sample_shape=tede.Size()):
        samples = self.sample(sample_shape)
        return samples + (self._categorical.probs - self._categorical.probs.detach())


@completed
class Multinomial(Distribution):
    """How often each of K categories comes up in `total_count` draws.

        total_count: an int, the same for all.
        probs: (..., K), from 0; or logits. Exactly one (ValueError).
        <validate_args>

    >>> tede.distributions.Multinomial(10, tede.tensor([1.0, 4.0])).mean
    tensor([2., 8.])
    """
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    total_count = 1
    _expands = (("_categorical", 0),)

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count, self._categorical = total_count, Categorical(probs=probs, logits=logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @lazy_property
    def _binomial(self):
        return Binomial(total_count=self.total_count, probs=self.probs)

    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))
    logits = property(lambda self: self._categorical.logits)
    probs = property(lambda self: self._categorical.probs)
    param_shape = property(lambda self: self._categorical.param_shape)

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self):
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape=tede.Size()):
        sample_shape = tede.Size(sample_shape)
        drawn = self._categorical.sample(tede.Size((self.total_count,)) + sample_shape)
        drawn = drawn.permute(*range(1, drawn.dim()), 0)            # the draws last
        counts = self._categorical.probs.new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, drawn, tede.ones_like(drawn, dtype=counts.dtype))
        return counts

    def entropy(self):
        n = tede.tensor(self.total_count)
        entropy = n * self._categorical.entropy() - tede.lgamma(n + 1)
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = tede.exp(self._binomial.log_prob(support))
        return entropy + (weights * tede.lgamma(support + 1)).sum([0, -1])

    def log_prob(self, value):
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.clone(memory_format=tede.contiguous_format)
        logits[(value == 0) & (logits == -math.inf)] = 0
        return tede.lgamma(value.sum(-1) + 1) - tede.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)


