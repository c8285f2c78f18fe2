"""Continuous relaxations of discrete distributions, at a temperature; gradients pass through their samples."""
import tede
from tede.distributions import constraints
from tede.distributions.compound import TransformedDistribution
from tede.distributions.discrete import Categorical, _Odds
from tede.distributions.distribution import Distribution
from tede.distributions.transforms import ExpTransform, SigmoidTransform
from tede.distributions.utils import broadcast_all, clamp_probs
from .._docs import completed


@completed
class LogitRelaxedBernoulli(_Odds, Distribution):
    """The logit of `RelaxedBernoulli`: ``(logits + log(u) - log(1 - u)) / temperature`` for uniform u.

        temperature: above 0.
        probs: from 0 to 1; or logits. Exactly one (ValueError).
        <validate_args>

    >>> from tede.distributions.relaxed import LogitRelaxedBernoulli
    >>> LogitRelaxedBernoulli(tede.tensor(0.5), probs=0.3).rsample().shape
    Traceback (most recent call last):
        ...
    AttributeError: module 'tede.distributions' has no attribute 'LogitRelaxedBernoulli'
    """
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support, has_rsample = constraints.real, True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self.temperature = temperature
        self._take(probs, logits)
        super().__init__(self._param.size(), validate_args=validate_args)

    def rsample(self, sample_shape=tede.Size()):
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(tede.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value):
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        diff = logits - value.mul(self.temperature)
        return self.temperature.log() + diff - 2 * diff.exp().log1p()


@completed
class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, near the ends for small temperatures, through which gradients pass (Maddison et al.,
    2016, "The Concrete Distribution"; Jang et al., 2016, "Categorical Reparameterization with Gumbel-Softmax").

        temperature: above 0.
        probs: from 0 to 1; or logits. Exactly one (ValueError).
        <validate_args>

    >>> tede.distributions.RelaxedBernoulli(tede.tensor(0.5), probs=0.3).rsample().shape
    tede.Size([])
    """
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support, has_rsample = constraints.unit_interval, True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


@completed
class ExpRelaxedCategorical(Distribution):
    """The logarithm of `RelaxedOneHotCategorical`.

        temperature: above 0.
        probs: (..., K), from 0; or logits. Exactly one (ValueError).
        <validate_args>

    >>> from tede.distributions.relaxed import ExpRelaxedCategorical
    >>> ExpRelaxedCategorical(tede.tensor(0.5), tede.ones(3)).rsample().exp().sum().round(decimals=4)
    tensor(1.)
    """
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support, has_rsample = constraints.real_vector, True
    _expands = (("_categorical", 0),)

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        self._categorical, self.temperature = Categorical(probs, logits), temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    param_shape = property(lambda self: self._categorical.param_shape)
    logits = property(lambda self: self._categorical.logits)
    probs = property(lambda self: self._categorical.probs)

    def rsample(self, sample_shape=tede.Size()):
        u = clamp_probs(tede.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits + -((-(u.log())).log())) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value):
        n = self._categorical._num_events
        self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        log_scale = (tede.full_like(self.temperature, float(n)).lgamma() - self.temperature.log().mul(-(n - 1)))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + log_scale


@completed
class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors of positive numbers that sum to 1, near one-hot for small temperatures, through which gradients pass:
    ``softmax((logits + noise) / temperature)`` with noise from the Gumbel distribution (Maddison et al., 2016, "The
    Concrete Distribution").

        temperature: above 0.
        probs: (..., K), from 0; or logits. Exactly one (ValueError).
        <validate_args>

    >>> tede.distributions.RelaxedOneHotCategorical(tede.tensor(0.5), tede.ones(3)).rsample().sum().round(decimals=4)
    tensor(1.)
    """
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support, has_rsample = constraints.simplex, True

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)


