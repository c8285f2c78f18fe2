"""Distributions, the transforms between their spaces, and divergences.

`sample` draws what PyTorch draws from the same seed, wherever both go by the same random numbers.
"""
from tede.distributions import constraints, transforms  # noqa: F401
from tede.distributions.bounded import Beta, ContinuousBernoulli, Dirichlet, Kumaraswamy, LogisticNormal
from tede.distributions.compound import Independent, TransformedDistribution
from tede.distributions.constraint_registry import biject_to, transform_to
from tede.distributions.continuous import Cauchy, GeneralizedPareto, Gumbel, Laplace, Normal, Uniform, VonMises
from tede.distributions.discrete import (
    Bernoulli, Binomial, Categorical, Geometric, Multinomial, NegativeBinomial, OneHotCategorical,
    OneHotCategoricalStraightThrough, Poisson)
from tede.distributions.distribution import Distribution, ExponentialFamily
from tede.distributions.kl import kl_divergence, register_kl
from tede.distributions.mixed import MixtureSameFamily, StudentT
from tede.distributions.multivariate import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart
from tede.distributions.positive import (
    Chi2, Exponential, FisherSnedecor, Gamma, HalfCauchy, HalfNormal, InverseGamma, LogNormal, Pareto, Weibull)
from tede.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from tede.distributions.transforms import *  # noqa: F403

__all__ = ["Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
           "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric",
           "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace",
           "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial",
           "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
           "Pareto", "Poisson", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "TransformedDistribution",
           "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "kl_divergence", "register_kl", "transform_to"]
__all__ += transforms.__all__


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    """distributions.normal and the like: the file that has what PyTorch keeps in a file of that name."""
    from importlib import import_module
    from tede._compat import MODULES
    if "distributions." + name in MODULES:
        return import_module("tede." + MODULES["distributions." + name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
