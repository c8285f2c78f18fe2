"""Distributions over positive numbers."""
import math

import tede
from tede.distributions import constraints
from tede.distributions.compound import TransformedDistribution
from tede.distributions.continuous import Cauchy, Normal
from tede.distributions.distribution import Distribution, ExponentialFamily
from tede.distributions.transforms import AbsTransform, AffineTransform, ExpTransform, PowerTransform
from tede.distributions.utils import broadcast_all, euler_constant
from .._docs import completed

inf, nan = math.inf, math.nan


@completed
class Exponential(ExponentialFamily):
    """Density ``rate * exp(-rate * x)`` from 0 on; mean ``1 / rate``.

        rate: above 0.
        <validate_args>

    >>> tede.distributions.Exponential(2.0).log_prob(tede.tensor(1.0))
    tensor(-1.3069)
    """
    arg_constraints = {"rate": constraints.positive}
    support, has_rsample, _mean_carrier_measure = constraints.nonnegative, True, 0

    def __init__(self, rate, validate_args=None):
        self.rate, = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    mean = property(lambda self: self.rate.reciprocal())
    mode = property(lambda self: tede.zeros_like(self.rate))
    stddev = property(lambda self: self.rate.reciprocal())
    variance = property(lambda self: self.rate.pow(-2))

    def rsample(self, sample_shape=tede.Size()):
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value):
        self._checked(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value):
        self._checked(value)
        return 1 - tede.exp(-self.rate * value)

    def icdf(self, value):
        return -tede.log1p(-value) / self.rate

    def entropy(self):
        return 1.0 - tede.log(self.rate)

    @property
    def _natural_params(self):
        return (-self.rate,)

    def _log_normalizer(self, x):
        return -tede.log(-x)


@completed
class Gamma(ExponentialFamily):
    """Density ``rate**concentration * x**(concentration - 1) * exp(-rate * x) / gamma(concentration)``; mean
    ``concentration / rate``.

        concentration: the shape, above 0.
        rate: one over the scale, above 0.
        <validate_args>

    >>> tede.distributions.Gamma(2.0, 1.0).log_prob(tede.tensor(1.0))
    tensor(-1.)
    """
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support, has_rsample, _mean_carrier_measure = constraints.nonnegative, True, 0

    def __init__(self, concentration, rate, validate_args=None):
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    mean = property(lambda self: self.concentration / self.rate)
    mode = property(lambda self: ((self.concentration - 1) / self.rate).clamp(min=0))
    variance = property(lambda self: self.concentration / self.rate.pow(2))

    def rsample(self, sample_shape=tede.Size()):
        shape = self._extended_shape(sample_shape)
        value = tede._standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=tede.finfo(value.dtype).tiny)
        return value

    def log_prob(self, value):
        value = tede.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._checked(value)
        return (tede.xlogy(self.concentration, self.rate) + tede.xlogy(self.concentration - 1, value) - self.rate * value -
                tede.lgamma(self.concentration))

    def entropy(self):
        return (self.concentration - tede.log(self.rate) + tede.lgamma(self.concentration) +
                (1.0 - self.concentration) * tede.digamma(self.concentration))

    @property
    def _natural_params(self):
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x, y):
        return tede.lgamma(x + 1) + (x + 1) * tede.log(-y.reciprocal())

    def cdf(self, value):
        self._checked(value)
        return tede.special.gammainc(self.concentration, self.rate * value)


@completed
class Chi2(Gamma):
    """The sum of `df` squares of standard normal variables: ``Gamma(df / 2, 1 / 2)``.

        df: degrees of freedom, above 0.
        <validate_args>

    >>> tede.distributions.Chi2(3.0).mean
    tensor(3.)
    """
    arg_constraints = {"df": constraints.positive}
    _expands = (("concentration", 0), ("rate", 0))

    def __init__(self, df, validate_args=None):
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self):
        """Degrees of freedom."""
        return self.concentration * 2


@completed
class InverseGamma(TransformedDistribution):
    """``1 / X`` for X of ``Gamma(concentration, rate)``; mean ``rate / (concentration - 1)``, infinite up to
    concentration 1.

        concentration, rate: above 0.
        <validate_args>

    >>> tede.distributions.InverseGamma(3.0, 1.0).mean
    tensor(0.5000)
    """
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support, has_rsample = constraints.positive, True

    def __init__(self, concentration, rate, validate_args=None):
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(exponent=-base.rate.new_ones(())), validate_args=validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)

    @property
    def mean(self):
        result = self.rate / (self.concentration - 1)
        return tede.where(self.concentration > 1, result, inf)

    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def variance(self):
        result = self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2))
        return tede.where(self.concentration > 2, result, inf)

    def entropy(self):
        return (self.concentration + self.rate.log() + self.concentration.lgamma() -
                (1 + self.concentration) * self.concentration.digamma())


@completed
class FisherSnedecor(Distribution):
    """The quotient of two chi-square variables, each divided by its degrees of freedom; mean ``df2 / (df2 - 2)``.

        df1, df2: degrees of freedom, above 0.
        <validate_args>

    >>> tede.distributions.FisherSnedecor(2.0, 4.0).mean
    tensor(2.)
    """
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support, has_rsample = constraints.positive, True
    _expands = (("_gamma1", 0), ("_gamma2", 0))

    def __init__(self, df1, df2, validate_args=None):
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1, self._gamma2 = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    @property
    def mean(self):
        df2 = self.df2.clone()
        df2[df2 <= 2] = nan
        return df2 / (df2 - 2)

    @property
    def mode(self):
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        mode[self.df1 <= 2] = nan
        return mode

    @property
    def variance(self):
        df2 = self.df2.clone()
        df2[df2 <= 4] = nan
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape=tede.Size()):
        shape, tiny = self._extended_shape(sample_shape), tede.finfo(self.df2.dtype).tiny
        x1 = self._gamma1.rsample(sample_shape).view(shape)
        x2 = self._gamma2.rsample(sample_shape).view(shape)
        return (x1 / x2.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value):
        self._checked(value)
        ct1, ct2, ct3 = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        t1 = (ct1 + ct2).lgamma() - ct1.lgamma() - ct2.lgamma()
        return t1 + ct1 * ct3.log() + (ct1 - 1) * tede.log(value) - (ct1 + ct2) * tede.log1p(ct3 * value)


@completed
class LogNormal(TransformedDistribution):
    """``exp(X)`` for a normal X; mean ``exp(loc + scale**2 / 2)``.

        loc, scale: of the normal distribution.
        <validate_args>

    >>> tede.distributions.LogNormal(0.0, 1.0).log_prob(tede.tensor(1.0))
    tensor(-0.9189)
    """
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support, has_rsample = constraints.positive, True

    def __init__(self, loc, scale, validate_args=None):
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale.pow(2) / 2).exp())
    mode = property(lambda self: (self.loc - self.scale.square()).exp())

    @property
    def variance(self):
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self):
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """|X| for a symmetric X around 0."""
    arg_constraints = {"scale": constraints.positive}
    support, has_rsample = constraints.nonnegative, True

    scale = property(lambda self: self.base_dist.scale)
    mode = property(lambda self: tede.zeros_like(self.scale))

    def log_prob(self, value):
        self._checked(value)
        return self._of_positive(value)

    def _of_positive(self, value):
        result = self.base_dist.log_prob(value) + math.log(2)
        return tede.where(value >= 0, result, -inf)

    def cdf(self, value):
        self._checked(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


@completed
class HalfNormal(_Half):
    """``|X|`` for a normal X of mean 0; mean ``scale * sqrt(2 / pi)``.

        scale: the standard deviation of X.
        <validate_args>

    >>> tede.distributions.HalfNormal(1.0).mean
    tensor(0.7979)
    """

    def __init__(self, scale, validate_args=None):
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale.pow(2) * (1 - 2 / math.pi))


@completed
class HalfCauchy(_Half):
    """``|X|`` for X of a Cauchy distribution around 0.

        scale: of that.
        <validate_args>

    >>> tede.distributions.HalfCauchy(1.0).cdf(tede.tensor(1.0))
    tensor(0.5000)
    """

    def __init__(self, scale, validate_args=None):
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    mean = property(lambda self: tede.full(self._extended_shape(), inf, dtype=self.scale.dtype, device=self.scale.device))
    variance = property(lambda self: self.base_dist.variance)

    def _of_positive(self, value):
        value = tede.as_tensor(value, dtype=self.base_dist.scale.dtype, device=self.base_dist.scale.device)
        return super()._of_positive(value)


@completed
class Pareto(TransformedDistribution):
    """Density ``alpha * scale**alpha / x**(alpha + 1)`` from `scale` on; mean ``alpha * scale / (alpha - 1)``, infinite
    up to alpha 1.

        scale: the least value, above 0.
        alpha: the shape, above 0.
        <validate_args>

    >>> tede.distributions.Pareto(1.0, 3.0).mean
    tensor(1.5000)
    """
    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha, validate_args=validate_args),
                         [ExpTransform(), AffineTransform(loc=0, scale=self.scale)], validate_args=validate_args)

    @property
    def mean(self):
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    mode = property(lambda self: self.scale)

    @property
    def variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.greater_than_eq(self.scale)

    def entropy(self):
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


@completed
class Weibull(TransformedDistribution):
    """``1 - cdf(x) = exp(-(x / scale)**concentration)``: times until something fails, at a rate that grows for
    concentrations above 1.

        scale, concentration: above 0.
        <validate_args>

    >>> tede.distributions.Weibull(1.0, 2.0).cdf(tede.tensor(1.0))
    tensor(0.6321)
    """
    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    _expands = (("concentration_reciprocal", 0),)

    def __init__(self, scale, concentration, validate_args=None):
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        super().__init__(Exponential(tede.ones_like(self.scale), validate_args=validate_args),
                         [PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)],
                         validate_args=validate_args)

    mean = property(lambda self: self.scale * tede.exp(tede.lgamma(1 + self.concentration_reciprocal)))

    @property
    def mode(self):
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal()

    @property
    def variance(self):
        return self.scale.pow(2) * (tede.exp(tede.lgamma(1 + 2 * self.concentration_reciprocal)) -
                                    tede.exp(2 * tede.lgamma(1 + self.concentration_reciprocal)))

    def entropy(self):
        return euler_constant * (1 - self.concentration_reciprocal) + tede.log(self.scale * self.concentration_reciprocal) + 1
