"""Distributions over intervals and over the simplex."""
import math

import tede
from tede.distributions import constraints
from tede.distributions.compound import TransformedDistribution
from tede.distributions.continuous import Normal, Uniform
from tede.distributions.distribution import ExponentialFamily
from tede.distributions.transforms import AffineTransform, PowerTransform, StickBreakingTransform
from tede.distributions.utils import (
    broadcast_all, clamp_probs, euler_constant, lazy_property, logits_to_probs, probs_to_logits)
from .._docs import completed

nan = math.nan


class _Dirichlet(tede.autograd.Function):
    """A sample, differentiable: the gradient is that of the sample along the density's flow."""

    @staticmethod
    def forward(ctx, concentration):
        x = tede._sample_dirichlet(concentration)
        ctx.save_for_backward(x, concentration)
        return x

    @staticmethod
    @tede.autograd.function.once_differentiable
    def backward(ctx, grad):
        return _Dirichlet_backward(*ctx.saved_tensors, grad)


def _Dirichlet_backward(x, concentration, grad_output):
    g = tede._dirichlet_grad(x, concentration, concentration.sum(-1, True).expand_as(concentration))
    return g * (grad_output - (x * grad_output).sum(-1, True))


@completed
class Dirichlet(ExponentialFamily):
    """Density proportional to ``prod x[i] ** (concentration[i] - 1)`` over vectors of positive numbers that sum to 1.

        concentration: (..., K), above 0; the mean is it divided by its sum.
        <validate_args>

    >>> tede.distributions.Dirichlet(tede.tensor([1.0, 3.0])).mean
    tensor([0.2500, 0.7500])
    """
    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support, has_rsample = constraints.simplex, True

    def __init__(self, concentration, validate_args=None):
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape=()):
        return _Dirichlet.apply(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value):
        self._checked(value)
        return (tede.xlogy(self.concentration - 1.0, value).sum(-1) + tede.lgamma(self.concentration.sum(-1)) -
                tede.lgamma(self.concentration).sum(-1))

    mean = property(lambda self: self.concentration / self.concentration.sum(-1, True))

    @property
    def mode(self):
        less = (self.concentration - 1).clamp(min=0.0)
        mode = less / less.sum(-1, True)
        flat = (self.concentration < 1).all(dim=-1)
        mode[flat] = tede.nn.functional.one_hot(mode[flat].argmax(dim=-1), less.shape[-1]).to(mode)
        return mode

    @property
    def variance(self):
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self):
        k, total = self.concentration.size(-1), self.concentration.sum(-1)
        return (tede.lgamma(self.concentration).sum(-1) - tede.lgamma(total) - (k - total) * tede.digamma(total) -
                ((self.concentration - 1.0) * tede.digamma(self.concentration)).sum(-1))

    @property
    def _natural_params(self):
        return (self.concentration,)

    def _log_normalizer(self, x):
        return x.lgamma().sum(-1) - tede.lgamma(x.sum(-1))


@completed
class Beta(ExponentialFamily):
    """Density proportional to ``x**(concentration1 - 1) * (1 - x)**(concentration0 - 1)`` between 0 and 1.

        concentration1, concentration0: above 0; the mean is the first divided by the sum.
        <validate_args>

    >>> tede.distributions.Beta(1.0, 3.0).mean
    tensor(0.2500)
    """
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support, has_rsample = constraints.unit_interval, True

    def __init__(self, concentration1, concentration0, validate_args=None):
        pair = tede.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(pair, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    _expands = (("_dirichlet", 0),)
    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1])
    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self._dirichlet.mode[..., 0])

    @property
    def variance(self):
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape=()):
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value):
        self._checked(value)
        return self._dirichlet.log_prob(tede.stack([value, 1.0 - value], -1))

    def entropy(self):
        return self._dirichlet.entropy()

    @property
    def _natural_params(self):
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x, y):
        return tede.lgamma(x) + tede.lgamma(y) - tede.lgamma(x + y)


def _moment(a, b, n):
    """The n-th moment of a Kumaraswamy variable."""
    arg1 = 1 + n / a
    return tede.exp(b.log() + tede.lgamma(arg1) + tede.lgamma(b) - tede.lgamma(arg1 + b))


@completed
class Kumaraswamy(TransformedDistribution):
    """``1 - cdf(x) = (1 - x**concentration1) ** concentration0`` between 0 and 1: much like `Beta`, with a closed form.

        concentration1, concentration0: above 0.
        <validate_args>

    >>> tede.distributions.Kumaraswamy(2.0, 1.0).cdf(tede.tensor(0.5))
    tensor(0.2500)
    """
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support, has_rsample = constraints.unit_interval, True

    def __init__(self, concentration1, concentration0, validate_args=None):
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(tede.full_like(self.concentration0, 0), tede.full_like(self.concentration0, 1),
                       validate_args=validate_args)
        super().__init__(base, [PowerTransform(exponent=self.concentration0.reciprocal()),
                                AffineTransform(loc=1.0, scale=-1.0),
                                PowerTransform(exponent=self.concentration1.reciprocal())], validate_args=validate_args)

    mean = property(lambda self: _moment(self.concentration1, self.concentration0, 1))

    @property
    def mode(self):
        a, b = self.concentration1, self.concentration0
        log_mode = b.reciprocal() * (-b).log1p() - (-b * a).log1p()
        log_mode[(b < 1) | (a < 1)] = nan
        return log_mode.exp()

    variance = property(lambda self: _moment(self.concentration1, self.concentration0, 2) - self.mean.pow(2))

    def entropy(self):
        t1, t0 = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = tede.digamma(self.concentration0 + 1) + euler_constant
        return t0 + t1 * harmonic - tede.log(self.concentration1) - tede.log(self.concentration0)


@completed
class LogisticNormal(TransformedDistribution):
    """Softmax, by breaking sticks, of a vector of normal variables: vectors of K + 1 positive numbers that sum to 1.

        loc, scale: (..., K), of the normal variables.
        <validate_args>

    >>> tede.distributions.LogisticNormal(tede.zeros(3), tede.ones(3)).sample().sum().round(decimals=4)
    tensor(1.)
    """
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support, has_rsample = constraints.simplex, True

    def __init__(self, loc, scale, validate_args=None):
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(LogisticNormal, _instance)
        return super().expand(batch_shape, _instance=new)

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)


@completed
class ContinuousBernoulli(ExponentialFamily):
    """Density ``C * probs**x * (1 - probs)**(1 - x)`` from 0 to 1 (Loaiza-Ganem and Cunningham, 2019, "The continuous
    Bernoulli: fixing a pervasive error in variational autoencoders").

        probs: between 0 and 1; or logits, their logit. Exactly one (ValueError).
        lims: where probs is so near to 1/2 that Taylor's series is used.
        <validate_args>

    >>> tede.distributions.ContinuousBernoulli(0.3).mean
    tensor(0.4302)
    """
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support, has_rsample, _mean_carrier_measure = constraints.unit_interval, True, 0

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        if probs is not None:
            self.probs, = broadcast_all(probs)
            if validate_args is not None and not self.arg_constraints["probs"].check(self.probs).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = clamp_probs(self.probs)
        else:
            self.logits, = broadcast_all(logits)
        self._lims = lims
        super().__init__((self.probs if probs is not None else self.logits).size(), validate_args=validate_args)

    @lazy_property
    def logits(self):
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self):
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    param_shape = property(lambda self: self.batch_shape)

    def _outside_unstable_region(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self):
        return tede.where(self._outside_unstable_region(), self.probs, self._lims[0] * tede.ones_like(self.probs))

    def _cont_bern_log_norm(self):
        p = self._cut_probs()
        low = tede.where(p <= 0.5, p, tede.zeros_like(p))
        high = tede.where(p >= 0.5, p, tede.ones_like(p))
        exact = (tede.log1p(-p) - tede.log(p)).abs().log() - tede.where(p <= 0.5, tede.log1p(-2.0 * low),
                                                                       tede.log(2.0 * high - 1.0))
        x = (self.probs - 0.5) ** 2
        return tede.where(self._outside_unstable_region(), exact, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self):
        p, x = self._cut_probs(), self.probs - 0.5
        exact = p / (2.0 * p - 1.0) + 1.0 / (tede.log1p(-p) - tede.log(p))
        return tede.where(self._outside_unstable_region(), exact, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x ** 2) * x)

    @property
    def variance(self):
        p, x = self._cut_probs(), (self.probs - 0.5) ** 2
        exact = p * (p - 1.0) / (1.0 - 2.0 * p) ** 2 + 1.0 / (tede.log1p(-p) - tede.log(p)) ** 2
        return tede.where(self._outside_unstable_region(), exact, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    stddev = property(lambda self: tede.sqrt(self.variance))

    def rsample(self, sample_shape=tede.Size()):
        return self.icdf(tede.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device))

    def log_prob(self, value):
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return (-tede.nn.functional.binary_cross_entropy_with_logits(logits, value, reduction="none") +
                self._cont_bern_log_norm())

    def cdf(self, value):
        self._checked(value)
        p = self._cut_probs()
        exact = (p ** value * (1.0 - p) ** (1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        inside = tede.where(self._outside_unstable_region(), exact, value)
        return tede.where(value <= 0.0, tede.zeros_like(value), tede.where(value >= 1.0, tede.ones_like(value), inside))

    def icdf(self, value):
        p = self._cut_probs()
        exact = (tede.log1p(-p + value * (2.0 * p - 1.0)) - tede.log1p(-p)) / (tede.log(p) - tede.log1p(-p))
        return tede.where(self._outside_unstable_region(), exact, value)

    def entropy(self):
        log0, log1 = tede.log1p(-self.probs), tede.log(self.probs)
        return self.mean * (log0 - log1) - self._cont_bern_log_norm() - log0

    @property
    def _natural_params(self):
        return (self.logits,)

    def _log_normalizer(self, x):
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = tede.where(outside, x, (self._lims[0] - 0.5) * tede.ones_like(x))
        exact = tede.expm1(cut).abs().log() - cut.abs().log()
        return tede.where(outside, exact, 0.5 * x + x ** 2 / 24.0 - x ** 4 / 2880.0)
