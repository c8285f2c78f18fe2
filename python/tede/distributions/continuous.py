"""Distributions over all real numbers, and the uniform one, from which others are made."""
import math

import tede
from tede.distributions import constraints
from tede.distributions.compound import TransformedDistribution
from tede.distributions.distribution import Distribution, ExponentialFamily
from tede.distributions.transforms import AffineTransform, ExpTransform
from tede.distributions.utils import broadcast_all, euler_constant, lazy_property, standard_normal
from .._docs import completed

inf, nan = math.inf, math.nan


class _LocScale:
    """loc and scale, broadcast."""
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)


@completed
class Normal(_LocScale, ExponentialFamily):
    """The normal distribution: density ``exp(-((x - loc) / scale)**2 / 2) / (scale * sqrt(2 * pi))``.

        loc: the mean.
        scale: the standard deviation, above 0.
        <validate_args>

    Parameters are numbers or tensors, and broadcast.

    >>> normal = tede.distributions.Normal(0.0, 2.0)
    >>> normal.log_prob(tede.tensor(1.0)), normal.variance
    (tensor(-1.7371), tensor(4.))
    """
    _mean_carrier_measure = 0

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def sample(self, sample_shape=tede.Size()):
        shape = self._extended_shape(sample_shape)
        with tede.no_grad():
            return tede.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape=tede.Size()):
        eps = standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + eps * self.scale

    def log_prob(self, value):
        self._checked(value)
        return -((value - self.loc) ** 2) / (2 * self.scale ** 2) - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value):
        self._checked(value)
        return 0.5 * (1 + tede.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value):
        return self.loc + self.scale * tede.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self):
        return 0.5 + 0.5 * math.log(2 * math.pi) + tede.log(self.scale)

    @property
    def _natural_params(self):
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x, y):
        return -0.25 * x.pow(2) / y + 0.5 * tede.log(-math.pi / y)


@completed
class Laplace(_LocScale, Distribution):
    """Density ``exp(-|x - loc| / scale) / (2 * scale)``; variance ``2 * scale**2``.

        loc: the mean.
        scale: above 0.
        <validate_args>

    >>> tede.distributions.Laplace(0.0, 1.0).log_prob(tede.tensor(1.0))
    tensor(-1.6931)
    """
    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: 2 * self.scale.pow(2))
    stddev = property(lambda self: math.sqrt(2) * self.scale)

    def rsample(self, sample_shape=tede.Size()):
        shape = self._extended_shape(sample_shape)
        u = self.loc.new_empty(shape).uniform_(tede.finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * tede.log1p(-u.abs())

    def log_prob(self, value):
        self._checked(value)
        return -tede.log(2 * self.scale) - (value - self.loc).abs() / self.scale

    def cdf(self, value):
        self._checked(value)
        return 0.5 - 0.5 * (value - self.loc).sign() * tede.expm1(-(value - self.loc).abs() / self.scale)

    def icdf(self, value):
        term = value - 0.5
        return self.loc - self.scale * term.sign() * tede.log1p(-2 * term.abs())

    def entropy(self):
        return 1 + tede.log(2 * self.scale)


@completed
class Cauchy(_LocScale, Distribution):
    """Density ``1 / (pi * scale * (1 + ((x - loc) / scale)**2))``: the quotient of two normal variables. The mean is
    NaN, the variance infinite.

        loc: the mode and median.
        scale: half the width at half the height, above 0.
        <validate_args>

    >>> tede.distributions.Cauchy(0.0, 1.0).cdf(tede.tensor(1.0))
    tensor(0.7500)
    """
    mean = property(lambda self: tede.full_like(self.loc, nan))
    mode = property(lambda self: self.loc)
    variance = property(lambda self: tede.full_like(self.loc, inf))

    def rsample(self, sample_shape=tede.Size()):
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value):
        self._checked(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value):
        self._checked(value)
        return tede.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value):
        return tede.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self):
        return math.log(4 * math.pi) + self.scale.log()


@completed
class Uniform(Distribution):
    """All numbers of [low, high) alike: density ``1 / (high - low)``.

        low, high: the bounds, in order.
        <validate_args>

    >>> uniform = tede.distributions.Uniform(0.0, tede.tensor([1.0, 4.0]))
    >>> uniform.mean, uniform.log_prob(tede.tensor(0.5))
    (tensor([0.5000, 2.0000]), tensor([ 0.0000, -1.3863]))
    """
    arg_constraints = {"low": constraints.dependent(is_discrete=False, event_dim=0),
                       "high": constraints.dependent(is_discrete=False, event_dim=0)}
    has_rsample = True

    def __init__(self, low, high, validate_args=None):
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)
        if self._validate_args and not tede.lt(self.low, self.high).all():
            raise ValueError("Uniform is not defined when low>= high")

    mean = property(lambda self: (self.high + self.low) / 2)
    mode = property(lambda self: nan * self.high)
    stddev = property(lambda self: (self.high - self.low) / 12 ** 0.5)
    variance = property(lambda self: (self.high - self.low).pow(2) / 12)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape=tede.Size()):
        shape = self._extended_shape(sample_shape)
        return self.low + tede.rand(shape, dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)

    def log_prob(self, value):
        self._checked(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return tede.log(inside) - tede.log(self.high - self.low)

    def cdf(self, value):
        self._checked(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value):
        return value * (self.high - self.low) + self.low

    def entropy(self):
        return tede.log(self.high - self.low)


@completed
class Gumbel(TransformedDistribution):
    """The distribution of the largest of many: of ``loc - scale * log(-log(u))`` for uniform u; mean ``loc + 0.5772 *
    scale``.

        loc: the mode.
        scale: above 0.
        <validate_args>

    >>> tede.distributions.Gumbel(0.0, 1.0).log_prob(tede.tensor(0.0))
    tensor(-1.)
    """
    arg_constraints = _LocScale.arg_constraints
    support = constraints.real

    def __init__(self, loc, scale, validate_args=None):
        self.loc, self.scale = broadcast_all(loc, scale)
        info = tede.finfo(self.loc.dtype)
        base = Uniform(tede.full_like(self.loc, info.tiny), tede.full_like(self.loc, 1 - info.eps),
                       validate_args=validate_args)
        parts = [ExpTransform().inv, AffineTransform(loc=0, scale=-tede.ones_like(self.scale)), ExpTransform().inv,
                 AffineTransform(loc=loc, scale=-self.scale)]
        super().__init__(base, parts, validate_args=validate_args)

    def log_prob(self, value):
        self._checked(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    mean = property(lambda self: self.loc + self.scale * euler_constant)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: (math.pi / math.sqrt(6)) * self.scale)
    variance = property(lambda self: self.stddev.pow(2))

    def entropy(self):
        return self.scale.log() + (1 + euler_constant)


@completed
class GeneralizedPareto(Distribution):
    """What exceeds a high threshold: ``1 - cdf(x) = (1 + concentration * (x - loc) / scale) ** (-1 / concentration)``.
    For concentration 0 it is exponential, below bounded, above heavy-tailed.

        loc: the least value.
        scale: above 0.
        concentration: any number.
        <validate_args>

    >>> tede.distributions.GeneralizedPareto(0.0, 1.0, 0.5).cdf(tede.tensor(2.0))
    tensor(0.7500)
    """
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc, scale, concentration, validate_args=None):
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    def _split(self):
        """Where concentration counts as zero, and it with 1 there."""
        zero = tede.isclose(self.concentration, tede.zeros_like(self.concentration))
        return zero, tede.where(zero, tede.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape=tede.Size()):
        return self.icdf(tede.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value):
        self._checked(value)
        z = (value - self.loc) / self.scale
        zero, c = self._split()
        y = 1 / c + tede.ones_like(z)
        return -self.scale.log() - tede.where(zero, z, tede.where(y == 0, y, y * tede.log1p(c * z)))

    def log_survival_function(self, value):
        """``log(1 - cdf(value))``."""
        self._checked(value)
        z = (value - self.loc) / self.scale
        zero, c = self._split()
        return tede.where(zero, -z, -tede.log1p(c * z) / c)

    def log_cdf(self, value):
        """``log(cdf(value))``."""
        return tede.log1p(-tede.exp(self.log_survival_function(value)))

    def cdf(self, value):
        return tede.exp(self.log_cdf(value))

    def icdf(self, value):
        zero, c = self._split()
        logu = tede.log1p(-value)
        return tede.where(zero, self.loc - self.scale * logu, self.loc + self.scale / c * tede.expm1(-c * logu))

    @property
    def mean(self):
        valid = self.concentration < 1
        c = tede.where(valid, self.concentration, 0.5)
        return tede.where(valid, self.loc + self.scale / (1 - c), nan)

    @property
    def variance(self):
        valid = self.concentration < 0.5
        c = tede.where(valid, self.concentration, 0.25)
        return tede.where(valid, self.scale ** 2 / ((1 - c) ** 2 * (1 - 2 * c)), nan)

    mode = property(lambda self: self.loc)

    def entropy(self):
        return (tede.log(self.scale) + self.concentration + 1).broadcast_to(self._batch_shape)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self):
        upper = tede.where(self.concentration < 0, self.loc - self.scale / self.concentration, inf)
        return constraints.interval(self.loc, upper)


# The Bessel functions I0 and I1, logarithm: Abramowitz and Stegun 9.8.1 to 9.8.4.
_SMALL = ((1.0, 3.5156229, 3.0899424, 1.2067492, 0.2659732, 0.360768e-1, 0.45813e-2),
          (0.5, 0.87890594, 0.51498869, 0.15084934, 0.2658733e-1, 0.301532e-2, 0.32411e-3))
_LARGE = ((0.39894228, 0.1328592e-1, 0.225319e-2, -0.157565e-2, 0.916281e-2, -0.2057706e-1, 0.2635537e-1, -0.1647633e-1,
           0.392377e-2),
          (0.39894228, -0.3988024e-1, -0.362018e-2, 0.163801e-2, -0.1031555e-1, 0.2282967e-1, -0.2895312e-1, 0.1787654e-1,
           -0.420059e-2))


def _polynomial(y, coefficients):
    result = coefficients[-1]
    for c in reversed(coefficients[:-1]):
        result = c + y * result
    return result


def _log_bessel(x, order):
    small = _polynomial((x / 3.75) ** 2, _SMALL[order])
    small = (x.abs() * small if order else small).log()
    return tede.where(x < 3.75, small, x - 0.5 * x.log() + _polynomial(3.75 / x, _LARGE[order]).log())


@completed
class VonMises(Distribution):
    """The normal distribution's cousin on the circle: density ``exp(concentration * cos(x - loc)) / (2 * pi *
    I0(concentration))``. Samples by rejection (Best and Fisher, 1979, "Efficient Simulation of the von Mises
    Distribution"), from -pi to pi.

        loc: the mean angle.
        concentration: above 0; about one over the variance.
        <validate_args>

    >>> tede.distributions.VonMises(0.0, 1.0).log_prob(tede.tensor(0.0))
    tensor(-1.0738)
    """
    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real

    def __init__(self, loc, concentration, validate_args=None):
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value):
        self._checked(value)
        return (self.concentration * tede.cos(value - self.loc) - math.log(2 * math.pi) - _log_bessel(self.concentration, 0))

    @lazy_property
    def _proposal_r(self):
        kappa = self.concentration.to(tede.float64)
        tau = 1 + (1 + 4 * kappa ** 2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
        return tede.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho ** 2) / (2 * rho))

    def sample(self, sample_shape=tede.Size()):
        with tede.no_grad():
            shape, loc, kappa = self._extended_shape(sample_shape), self.loc.double(), self.concentration.double()
            r = self._proposal_r
            x = tede.zeros(shape, dtype=tede.float64, device=loc.device)
            done = tede.zeros(shape, dtype=tede.bool, device=loc.device)
            while not done.all():
                u1, u2, u3 = tede.rand((3,) + shape, dtype=tede.float64, device=loc.device).unbind()
                z = tede.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = (c * (2 - c) - u2 > 0) | ((c / u2).log() + 1 - c >= 0)
                x = tede.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        """The circular variance."""
        return 1 - (_log_bessel(self.concentration, 1) - _log_bessel(self.concentration, 0)).exp()
