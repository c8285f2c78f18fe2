"""Distributions over vectors and matrices."""
import math
import warnings

import tede
from tede.distributions import constraints
from tede.distributions.bounded import Beta
from tede.distributions.distribution import Distribution, ExponentialFamily
from tede.distributions.positive import Chi2
from tede.distributions.utils import broadcast_all, lazy_property, standard_normal
from .._docs import completed

_LOG_2PI = math.log(2 * math.pi)


def _mv(matrices, vectors):
    return tede.matmul(matrices, vectors.unsqueeze(-1)).squeeze(-1)


def _log_diagonal(factor):
    """Half the logarithm of the determinant of factor @ factor.T, for triangular factors."""
    return factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def _mahalanobis(factor, x):
    """|factor ** -1 @ x| ** 2 for a triangular factor."""
    shape = tede.broadcast_shapes(factor.shape[:-2], x.shape[:-1])
    n = x.shape[-1]
    solved = tede.linalg.solve_triangular(factor.expand(shape + (n, n)), x.expand(shape + (n,)).unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def _precision_to_scale_tril(precision):
    flipped = tede.linalg.cholesky(tede.flip(precision, (-2, -1)))
    inverse = tede.transpose(tede.flip(flipped, (-2, -1)), -2, -1)
    return tede.linalg.solve_triangular(inverse, tede.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device),
                                        upper=False)


class _Covariance:
    """A covariance by itself, by its inverse or by its Cholesky factor; the others are computed when they are read."""

    def _take(self, covariance_matrix, precision_matrix, scale_tril, batch_shape):
        for name, given in (("covariance_matrix", covariance_matrix), ("precision_matrix", precision_matrix),
                            ("scale_tril", scale_tril)):
            if given is not None:
                setattr(self, name, given.expand(batch_shape + (-1, -1)))

    def _factor(self, covariance_matrix, precision_matrix, scale_tril):
        if scale_tril is not None:
            return scale_tril
        if covariance_matrix is not None:
            return tede.linalg.cholesky(covariance_matrix)
        return _precision_to_scale_tril(precision_matrix)

    def _wide(self, x):
        n = self._event_shape[-1]
        return x.expand(self._batch_shape + (n, n))

    @lazy_property
    def scale_tril(self):
        return self._wide(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self):
        return self._wide(tede.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self):
        return self._wide(tede.cholesky_inverse(self._unbroadcasted_scale_tril))


@completed
class MultivariateNormal(_Covariance, Distribution):
    """Normal vectors: density ``exp(-(x - loc)^T S^-1 (x - loc) / 2) / sqrt(det(2 * pi * S))`` for a covariance S.

        loc: (..., D), the mean.
        covariance_matrix, precision_matrix, scale_tril: S, its inverse, or its Cholesky factor, (..., D, D). Exactly
            one (ValueError); the last needs no decomposition.
        <validate_args>

    >>> normal = tede.distributions.MultivariateNormal(tede.zeros(2), tede.eye(2))
    >>> normal.log_prob(tede.zeros(2)), normal.sample((3,)).shape
    (tensor(-1.8379), tede.Size([3, 2]))
    """
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support, has_rsample = constraints.real_vector, True

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = [(name, x) for name, x in (("covariance_matrix", covariance_matrix), ("scale_tril", scale_tril),
                                           ("precision_matrix", precision_matrix)) if x is not None]
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        name, matrix = given[0]
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{what} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = tede.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        self._take(covariance_matrix, precision_matrix, scale_tril, batch_shape)
        self.loc = loc.expand(batch_shape + (-1,))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factor(covariance_matrix, precision_matrix, scale_tril)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape))

    def rsample(self, sample_shape=tede.Size()):
        eps = standard_normal(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _mv(self._unbroadcasted_scale_tril, eps)

    def log_prob(self, value):
        self._checked(value)
        m = _mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + m) - _log_diagonal(self._unbroadcasted_scale_tril)

    def entropy(self):
        h = 0.5 * self._event_shape[0] * (1.0 + _LOG_2PI) + _log_diagonal(self._unbroadcasted_scale_tril)
        return h.expand(self._batch_shape) if self._batch_shape else h


def _capacitance(w, d):
    """The Cholesky factor of I + W.T @ D ** -1 @ W, which the Woodbury identity needs."""
    wt_d = w.mT / d.unsqueeze(-2)
    k = tede.matmul(wt_d, w).contiguous()
    k.view(-1, w.shape[-1] ** 2)[:, ::w.shape[-1] + 1] += 1
    return tede.linalg.cholesky(k)


def _lowrank_logdet(w, d, capacitance):
    return 2 * _log_diagonal(capacitance) + d.log().sum(-1)


def _lowrank_mahalanobis(w, d, x, capacitance):
    wt_d_x = _mv(w.mT / d.unsqueeze(-2), x)
    return (x.pow(2) / d).sum(-1) - _mahalanobis(capacitance, wt_d_x)


@completed
class LowRankMultivariateNormal(Distribution):
    """Normal vectors of covariance ``cov_factor @ cov_factor.T + diag(cov_diag)``, at the cost of small matrices (by
    the Woodbury identity).

        loc: (..., D), the mean.
        cov_factor: (..., D, R), with R much smaller than D.
        cov_diag: (..., D), above 0.
        <validate_args>

    >>> normal = tede.distributions.LowRankMultivariateNormal(tede.zeros(2), tede.ones(2, 1), tede.ones(2))
    >>> normal.covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    """
    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support, has_rsample = constraints.real_vector, True

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = tede.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag "
                             f"{cov_diag.shape}") from error
        self.loc, self.cov_diag = loc.expand(batch_shape + event_shape), cov_diag.expand(batch_shape + event_shape)
        self.cov_factor = cov_factor.expand(batch_shape + cov_factor.shape[-2:])
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _capacitance(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)

    @lazy_property
    def variance(self):
        total = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return total.expand(self._batch_shape + self._event_shape)

    def _wide(self, x):
        return x.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self):
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        k = tede.matmul(scaled, scaled.mT).contiguous()
        k.view(-1, self._event_shape[0] ** 2)[:, ::self._event_shape[0] + 1] += 1
        return self._wide(root * tede.linalg.cholesky(k))

    @lazy_property
    def covariance_matrix(self):
        w = self._unbroadcasted_cov_factor
        return self._wide(tede.matmul(w, w.mT) + tede.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self):
        wt_d = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        a = tede.linalg.solve_triangular(self._capacitance_tril, wt_d, upper=False)
        return self._wide(tede.diag_embed(self._unbroadcasted_cov_diag.reciprocal()) - a.mT @ a)

    def rsample(self, sample_shape=tede.Size()):
        shape = self._extended_shape(sample_shape)
        options = {"dtype": self.loc.dtype, "device": self.loc.device}
        along = standard_normal(shape[:-1] + self.cov_factor.shape[-1:], **options)
        apart = standard_normal(shape, **options)
        return self.loc + _mv(self._unbroadcasted_cov_factor, along) + self._unbroadcasted_cov_diag.sqrt() * apart

    def log_prob(self, value):
        self._checked(value)
        w, d, k = self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        m, log_det = _lowrank_mahalanobis(w, d, value - self.loc, k), _lowrank_logdet(w, d, k)
        return -0.5 * (self._event_shape[0] * _LOG_2PI + log_det + m)

    def entropy(self):
        log_det = _lowrank_logdet(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril)
        h = 0.5 * (self._event_shape[0] * (1.0 + _LOG_2PI) + log_det)
        return h.expand(self._batch_shape) if self._batch_shape else h


@completed
class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, whose density is proportional to ``det(correlation) ** (concentration -
    1)`` (Lewandowski, Kurowicka and Joe, 2009, "Generating random correlation matrices based on vines and extended
    onion method").

        dim: rows, from 2 (ValueError).
        concentration: above 0; 1 is uniform over correlation matrices, more is nearer to none.
        <validate_args>

    >>> factor = tede.distributions.LKJCholesky(3, 0.5).sample()
    >>> (factor @ factor.T).diagonal().round(decimals=4)
    tensor([1., 1., 1.])
    """
    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    _expands = (("_beta", 0),)

    def __init__(self, dim, concentration=1.0, validate_args=None):
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        self.concentration, = broadcast_all(concentration)
        like = {"dtype": self.concentration.dtype, "device": self.concentration.device}
        offset = tede.cat([tede.zeros(1, **like), tede.arange(dim - 1, **like)])
        marginal = self.concentration + 0.5 * (dim - 2)
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), tede.Size((dim, dim)), validate_args=validate_args)

    def sample(self, sample_shape=tede.Size()):
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        normal = tede.randn(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril(-1)
        direction = normal / normal.norm(dim=-1, keepdim=True)
        direction[..., 0, :].fill_(0.0)
        w = tede.sqrt(y) * direction
        diagonal = (1 - (w ** 2).sum(-1)).clamp(min=tede.finfo(w.dtype).tiny).sqrt()
        return w + tede.diag_embed(diagonal)

    def log_prob(self, value):
        self._checked(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = tede.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        unnormalized = (order * diagonal.log()).sum(-1)
        below, alpha = self.dim - 1, self.concentration + 0.5 * (self.dim - 1)
        denominator = tede.lgamma(alpha) * below
        numerator = tede.mvlgamma(alpha - 0.5, below)
        return unnormalized - (0.5 * below * math.log(math.pi) + numerator - denominator)


@completed
class Wishart(_Covariance, ExponentialFamily):
    """Sums of `df` outer products of normal vectors, by Bartlett's decomposition; mean ``df * covariance``.

        df: degrees of freedom, above D - 1.
        covariance_matrix, precision_matrix, scale_tril: of the vectors, (..., D, D). Exactly one (ValueError).
        <validate_args>

    >>> tede.distributions.Wishart(tede.tensor(3.0), tede.eye(2)).mean
    tensor([[3., 0.],
            [0., 3.]])
    """
    support, has_rsample, _mean_carrier_measure = constraints.positive_definite, True, 0
    _expands = (("_unbroadcasted_scale_tril", 2), ("_dist_chi2", 0))

    @property
    def arg_constraints(self):
        return {"covariance_matrix": constraints.positive_definite, "precision_matrix": constraints.positive_definite,
                "scale_tril": constraints.lower_cholesky, "df": constraints.greater_than(self.event_shape[-1] - 1)}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = [x for x in (covariance_matrix, precision_matrix, scale_tril) if x is not None]
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        matrix = given[0]
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, tede.Tensor):
            batch_shape = tede.broadcast_shapes(matrix.shape[:-2], df.shape)
            self.df = df.expand(batch_shape)
        else:
            batch_shape = tede.Size(matrix.shape[:-2])
            self.df = tede.tensor(df, dtype=matrix.dtype, device=matrix.device)
        n = matrix.shape[-1]
        if self.df.le(n - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
        self._take(covariance_matrix, precision_matrix, scale_tril, batch_shape)
        if self.df.lt(n).any():
            warnings.warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                          stacklevel=2)
        super().__init__(batch_shape, matrix.shape[-2:], validate_args=validate_args)
        self._unbroadcasted_scale_tril = self._factor(covariance_matrix, precision_matrix, scale_tril)
        steps = tede.arange(n, dtype=matrix.dtype, device=matrix.device).expand(batch_shape + (-1,))
        self._dist_chi2 = Chi2(df=self.df.unsqueeze(-1) - steps)

    @property
    def _nu(self):
        return self.df.view(self.df.shape + (1, 1))

    mean = property(lambda self: self._nu * self.covariance_matrix)

    @property
    def mode(self):
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor[factor <= 0] = math.nan
        return factor.view(factor.shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self):
        v = self.covariance_matrix
        d = v.diagonal(dim1=-2, dim2=-1)
        return self._nu * (v.pow(2) + d.unsqueeze(-1) * d.unsqueeze(-2))

    def _bartlett(self, sample_shape):
        p = self._event_shape[-1]
        root = self._dist_chi2.rsample(sample_shape).sqrt()
        noise = root.clamp(min=tede.finfo(root.dtype).eps).diag_embed(dim1=-2, dim2=-1)
        i, j = tede.tril_indices(p, p, offset=-1)
        noise[..., i, j] = tede.randn(tede.Size(sample_shape) + self._batch_shape + (p * (p - 1) // 2,), dtype=noise.dtype,
                                      device=noise.device)
        chol = self._unbroadcasted_scale_tril @ noise
        return chol @ chol.mT

    def rsample(self, sample_shape=tede.Size(), max_try_correction=10):
        """Samples; singular ones are drawn again, max_try_correction times."""
        sample = self._bartlett(tede.Size(sample_shape))
        singular = ~self.support.check(sample)
        if singular.any():
            warnings.warn("Singular sample detected.", stacklevel=2)
            for _ in range(max_try_correction):
                again = self._bartlett(tede.Size(sample_shape))
                sample = tede.where(singular[..., None, None], again, sample)
                singular = ~self.support.check(sample)
                if not singular.any():
                    break
        return sample

    def log_prob(self, value):
        self._checked(value)
        nu, p, factor = self.df, self._event_shape[-1], self._unbroadcasted_scale_tril
        trace = tede.cholesky_solve(value, factor).diagonal(dim1=-2, dim2=-1).sum(-1)
        return (-nu * (p * math.log(2) / 2 + _log_diagonal(factor)) - tede.mvlgamma(nu / 2, p=p) +
                (nu - p - 1) / 2 * tede.linalg.slogdet(value).logabsdet - trace / 2)

    def entropy(self):
        nu, p = self.df, self._event_shape[-1]
        digammas = tede.digamma((nu / 2).unsqueeze(-1) - tede.arange(p, dtype=nu.dtype, device=nu.device) / 2).sum(-1)
        return ((p + 1) * (p * math.log(2) / 2 + _log_diagonal(self._unbroadcasted_scale_tril)) + tede.mvlgamma(nu / 2, p=p) -
                (nu - p - 1) / 2 * digammas + nu * p / 2)

    @property
    def _natural_params(self):
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x, y):
        p = self._event_shape[-1]
        half = y + (p + 1) / 2
        return half * (-tede.linalg.slogdet(-2 * x).logabsdet + math.log(2) * p) + tede.mvlgamma(half, p=p)
