"""Three parametrizations: orthogonal matrices, weight as length and direction, weight with spectral norm one."""
from enum import Enum

from .. import functional as F
from .._native import T
from ..modules.module import Module
from . import parametrize
from .weight_norm import norm_except_dim, weight_from_norm

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _weight_of(module, name):
    weight = getattr(module, name, None)
    if not isinstance(weight, T.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    return weight


class _OrthMaps(Enum):
    matrix_exp = 1
    cayley = 2
    householder = 3


def _is_orthogonal(q):
    n, k = q.shape[-2:]
    return T.allclose(q.mH @ q, T.eye(k, dtype=q.dtype, device=q.device), atol=10.0 * n * T.finfo(q.dtype).eps)


def _make_orthogonal(a):
    """An orthogonal matrix from a random one, distributed evenly if that is normal: Q with R's diagonal positive."""
    q, r = T.linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


class _Orthogonal(Module):
    """A matrix X to one with orthonormal columns (rows, if there are more columns than rows).

    matrix_exp and cayley map the skew-symmetric matrix of X's lower triangle, householder multiplies reflections. With
    a `base`, the result is that of the map, multiplied by it: so any orthogonal matrix can be assigned.
    """

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == _OrthMaps.householder:
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape = weight.shape
        self.orthogonal_map = orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        n, k = X.shape[-2:]
        transposed = n < k
        if transposed:
            X, n, k = X.mT, k, n
        if self.orthogonal_map == _OrthMaps.householder:
            A = X.tril(diagonal=-1)
            tau = 2.0 / (1.0 + (A * A).sum(dim=-2))
            Q = T.linalg.householder_product(A, tau)
            Q = Q * X.diagonal(dim1=-2, dim2=-1).int().unsqueeze(-2)    # the signs, which aren't learned
        else:
            X = X.tril()
            if n != k:
                X = T.cat([X, X.new_zeros(n, n - k).expand(*X.shape[:-2], -1, -1)], dim=-1)
            A = X - X.mH
            if self.orthogonal_map == _OrthMaps.matrix_exp:
                Q = T.matrix_exp(A)
            else:
                eye = T.eye(n, dtype=A.dtype, device=A.device)
                Q = T.linalg.solve(T.add(eye, A, alpha=-0.5), T.add(eye, A, alpha=0.5))
            if n != k:
                Q = Q[..., :k]
        if hasattr(self, "base"):
            Q = self.base @ Q
        return Q.mT if transposed else Q

    def right_inverse(self, Q):
        with T.no_grad():
            if Q.shape != self.shape:
                raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}. "
                                 f"Got a tensor of shape {Q.shape}.")
            start = -T.eye(*Q.shape[-2:], dtype=Q.dtype, device=Q.device).expand(Q.shape) + T.zeros_like(Q)
            n, k = Q.shape[-2:]
            transposed = n < k
            if transposed:
                Q, n, k = Q.mT, k, n
            if not hasattr(self, "base"):
                if self.orthogonal_map != _OrthMaps.householder:
                    raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley "
                                              "parametrizations when use_trivialization=False.")
                A, tau = T.geqrf(Q)
                diagonal = A.diagonal(dim1=-2, dim2=-1)
                diagonal.sign_()
                diagonal[tau == 0.0] *= -1
                return A.mT if transposed else A
            if n == k:
                Q = Q.clone() if _is_orthogonal(Q) else _make_orthogonal(Q)
            else:
                more = T.randn(*Q.shape[:-2], n, n - k, dtype=Q.dtype, device=Q.device)
                Q = _make_orthogonal(T.cat([Q, more], dim=-1))
            self.base = Q
            return start


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """Keep a matrix, or a batch of them, orthogonal: columns (rows, if these are fewer) are perpendicular and of length
    one (Lezcano-Casado, 2019, "Trivializations for Gradient-Based Optimization on Manifolds"); gives the module.

        name: the parameter's; ValueError below 2 dimensions.
        orthogonal_map: "matrix_exp" or "cayley" (square or complex), "householder" (else).
        use_trivialization: for the first two, keep a base matrix, so that a value can be assigned.

    >>> layer = nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    >>> (layer.weight @ layer.weight.T).allclose(tede.eye(3), atol=1e-5)
    True
    """
    weight = _weight_of(module, name)
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1) or weight.is_complex()
        orthogonal_map = "matrix_exp" if square else "householder"
    kind = getattr(_OrthMaps, orthogonal_map, None)
    if kind is None:
        raise ValueError('orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
                         f"Got: {orthogonal_map}")
    parametrization = _Orthogonal(weight, kind, use_trivialization=use_trivialization)
    parametrize.register_parametrization(module, name, parametrization, unsafe=True)
    return module


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_from_norm(weight_v, weight_g, self.dim)

    def right_inverse(self, weight):
        return norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module, name="weight", dim=0):
    """A weight as its length `original0`, along all dimensions but `dim`, times its direction `original1` (Salimans and
    Kingma, 2016, "Weight Normalization"); gives the module. States of the older `nn.utils.weight_norm` can be loaded.

        dim: None is one length for all.

    >>> layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2))
    >>> sorted(layer.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        """State saved with the older `torch.nn.utils.weight_norm`."""
        old = [f"{prefix}{name}_g", f"{prefix}{name}_v"]
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """A weight over its largest singular value, which the power method tracks: one step for each call in training."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        ndim = weight.ndim
        if dim >= ndim or dim < -ndim:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{ndim}, {ndim - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got "
                             f"n_power_iterations={n_power_iterations}")
        self.dim = dim if dim >= 0 else dim + ndim
        self.eps = eps
        if ndim > 1:
            self.n_power_iterations = n_power_iterations
            matrix = self._matrix(weight)
            for name, size in zip(("_u", "_v"), matrix.shape):
                start = matrix.new_empty(size).normal_(0, 1)
                self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
            self._power_method(matrix, 15)

    def _matrix(self, weight):
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.dim()) if d != self.dim))
        return weight.flatten(1)

    def _power_method(self, matrix, steps):
        with T.no_grad():
            for _ in range(steps):
                # out=, which transforms of functions let write to buffers.
                F.normalize(T.mv(matrix, self._v), dim=0, eps=self.eps, out=self._u)
                F.normalize(T.mv(matrix.mH, self._u), dim=0, eps=self.eps, out=self._v)

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._power_method(matrix, self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()         # a second forward changes the buffers before this one's backward
        return weight / T.vdot(u, T.mv(matrix, v))

    def right_inverse(self, value):
        return value


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """Divide a weight by its largest singular value, seen as a matrix with rows along `dim` (Miyato et al., 2018,
    "Spectral Normalization for Generative Adversarial Networks"); gives the module.

        n_power_iterations: for each call in training, that find the value.
        eps: keeps lengths from zero.
        dim: None is 1 for transposed convolutions, else 0.

    >>> layer = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2), n_power_iterations=20)
    >>> tede.linalg.svdvals(layer.weight)[0].round(decimals=2).item()
    1.0
    """
    weight = _weight_of(module, name)
    if dim is None:
        dim = rows_dim(module)
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


def rows_dim(module):
    """The dimension of a layer's outputs in its weight."""
    from ..modules.conv import ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
    return 1 if isinstance(module, (ConvTranspose1d, ConvTranspose2d, ConvTranspose3d)) else 0
