"""Distributions that mix others: components by a Categorical, normals by a chi-square."""
import math

import tede
from tede.distributions import constraints
from tede.distributions.discrete import Categorical
from tede.distributions.distribution import Distribution
from tede.distributions.positive import Chi2
from tede.distributions.utils import broadcast_all, standard_normal
from .._docs import completed

inf, nan = math.inf, math.nan


@completed
class MixtureSameFamily(Distribution):
    """One of several components, chosen by a `Categorical`: density ``sum over k of probs[k] * density[k](x)``.

        mixture_distribution: the Categorical, of batch_shape B over K.
        component_distribution: of batch_shape B + (K,).
        <validate_args>

    >>> weights = tede.distributions.Categorical(tede.ones(2))
    >>> mixture = tede.distributions.MixtureSameFamily(weights, tede.distributions.Normal(tede.tensor([-1.0, 1.0]), 1.0))
    >>> mixture.mean, mixture.variance
    (tensor(0.), tensor(2.))
    """
    arg_constraints = {}

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        mixture, components = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        if any(a != 1 and b != 1 and a != b for a, b in zip(reversed(mixture), reversed(components))):
            raise ValueError(f"`mixture_distribution.batch_shape` ({mixture}) is not compatible with "
                             f"`component_distribution.batch_shape`({components})")
        km, kc = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if km != kc:
            raise ValueError(f"`mixture_distribution component` ({km}) does not equal "
                             f"`component_distribution.batch_shape[-1]` ({kc})")
        self._num_component, self._event_ndims = km, len(component_distribution.event_shape)
        super().__init__(components, component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = tede.Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self):
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def _pad(self, x):
        return x.unsqueeze(-1 - self._event_ndims)

    def _weights(self):
        probs = self.mixture_distribution.probs
        mixture = len(self.mixture_distribution.batch_shape)
        missing = 0 if mixture == 1 else len(self.batch_shape) - mixture
        return probs.reshape(probs.shape[:-1] + (1,) * missing + probs.shape[-1:] + (1,) * self._event_ndims)

    @property
    def mean(self):
        return (self._weights() * self.component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self):
        weights, dim, components = self._weights(), -1 - self._event_ndims, self.component_distribution
        within = (weights * components.variance).sum(dim)
        return within + (weights * (components.mean - self._pad(self.mean)).pow(2.0)).sum(dim)

    def cdf(self, x):
        return (self.component_distribution.cdf(self._pad(x)) * self.mixture_distribution.probs).sum(-1)

    def log_prob(self, x):
        self._checked(x)
        weights = tede.log_softmax(self.mixture_distribution.logits, dim=-1)
        return tede.logsumexp(self.component_distribution.log_prob(self._pad(x)) + weights, dim=-1)

    def sample(self, sample_shape=tede.Size()):
        with tede.no_grad():
            dim, events = len(sample_shape) + len(self.batch_shape), self.event_shape
            chosen = self.mixture_distribution.sample(sample_shape)
            samples = self.component_distribution.sample(sample_shape)
            chosen = chosen.reshape(chosen.shape + (1,) * (len(events) + 1)).repeat((1,) * (chosen.dim() + 1) + tuple(events))
            return samples.gather(dim, chosen).squeeze(dim)

    def __repr__(self):
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"


@completed
class StudentT(Distribution):
    """``loc + scale * Z / sqrt(V / df)`` for a standard normal Z and a chi-square V: normal with heavier tails.

        df: degrees of freedom, above 0; the mean is there above 1, the variance ``scale**2 * df / (df - 2)`` above 2.
        loc, scale: place and width.
        <validate_args>

    >>> tede.distributions.StudentT(4.0).variance
    tensor(2.)
    """
    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support, has_rsample = constraints.real, True
    _expands = (("_chi2", 0),)

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self):
        m = self.loc.clone()
        m[self.df <= 1] = nan
        return m

    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        m, wide = self.df.clone(), self.df > 2
        m[wide] = self.scale[wide].pow(2) * self.df[wide] / (self.df[wide] - 2)
        m[(self.df <= 2) & (self.df > 1)] = inf
        m[self.df <= 1] = nan
        return m

    def rsample(self, sample_shape=tede.Size()):
        x = standard_normal(self._extended_shape(sample_shape), dtype=self.df.dtype, device=self.df.device)
        y = x * tede.rsqrt(self._chi2.rsample(sample_shape) / self.df)
        return self.loc + self.scale * y

    def log_prob(self, value):
        self._checked(value)
        y = (value - self.loc) / self.scale
        z = (self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + tede.lgamma(0.5 * self.df) -
             tede.lgamma(0.5 * (self.df + 1.0)))
        return -0.5 * (self.df + 1.0) * tede.log1p(y ** 2.0 / self.df) - z

    def entropy(self):
        log_beta = tede.lgamma(0.5 * self.df) + math.lgamma(0.5) - tede.lgamma(0.5 * (self.df + 1))
        return (self.scale.log() + 0.5 * (self.df + 1) * (tede.digamma(0.5 * (self.df + 1)) - tede.digamma(0.5 * self.df)) +
                0.5 * self.df.log() + log_beta)
