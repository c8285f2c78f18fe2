"""lobpcg: a few extreme eigenpairs of a symmetric matrix (or of a pair of them) that need be known by its products alone.

Each step looks for the best vectors in the span of three blocks: the current vectors X, the (preconditioned) residuals W and
the last step's direction P (Knyazev, 2001).  With method="ortho" the blocks are kept B-orthonormal (Duersch et al., 2018),
which is what makes the small problem of the step well posed near convergence."""
import tede
from tede.functional import _overridden


def _times(A, X):
    return X if A is None else A @ X


def _form(A, S):
    return S.mT @ _times(A, S)


def _normalized(B, U, drop_below):
    """B-orthonormal columns with U's span; columns that add nothing are dropped."""
    for _ in range(2):
        gram = _form(B, U)
        d = gram.diagonal()
        keep = (d > 0).nonzero()[:, 0]
        if len(keep) < len(d):
            U, gram = U[:, keep], gram[keep][:, keep]
            d = d[keep]
        if not U.numel():
            return U
        d = d.rsqrt()
        E, Z = tede.linalg.eigh(gram * d * d[:, None])
        keep = (E > drop_below * E.max()).nonzero()[:, 0]
        U = (U * d) @ (Z[:, keep] * E[keep].rsqrt())
    return U


def _apart(B, U, V, drop_below):
    """U, B-orthonormal and B-orthogonal to V."""
    BV = _times(B, V)
    for _ in range(3):
        U = _normalized(B, U - V @ (BV.mT @ U), drop_below)
    return U


class LOBPCG:
    """The iteration's state, which a tracker is shown after each step."""

    def __init__(self, A, B, X, iK, iparams, fparams, bparams, method, tracker):
        self.A, self.B, self.iK, self.X = A, B, iK, X
        self.iparams, self.fparams, self.bparams = iparams, fparams, bparams
        self.method, self.tracker = method, tracker
        m, n = X.shape
        self.E, self.R, self.S, self.P = X.new_zeros(n), X.new_zeros(m, n), X.new_zeros(m, 3 * n), X[:, :0]
        self.tvars, self.bvars = {}, {'_': False}
        self.ivars = {'istep': 0, 'iterations_left': iparams['niter'], 'converged_count': 0, 'converged_end': 0}
        norm = float(tede.linalg.norm(X))
        self.fvars = {'X_norm': norm, 'A_norm': float(tede.linalg.norm(_times(A, X))) / norm, 'B_norm': float(tede.linalg.norm(_times(B, X))) / norm}

    def run(self):
        self.update()
        self.call_tracker()
        while not self.stop_iteration():
            self.update()
            self.call_tracker()

    def call_tracker(self):
        if self.tracker is not None:
            self.tracker(self)

    def stop_iteration(self):
        return (self.bvars.get('force_stop', False) or self.ivars['iterations_left'] == 0
                or self.ivars['converged_count'] >= self.iparams['k'])

    def update(self):
        """One step: the best vectors of the span, their residuals, and the span of the next step."""
        n = self.X.shape[1]
        first = self.ivars['istep'] == 0
        S = self.X if first else self.S[:, :self.ivars['converged_end']]
        E, C = self._ritz(S)
        self.E, self.X = E[:n], S @ C[:, :n]
        self.P = S[:, n:] @ C[n:, :n]
        self.update_residual()
        done = self.update_converged_count()
        ortho, tiny = self.method == 'ortho', tede.finfo(self.X.dtype).eps
        if first:
            self.P = self.X[:, :0]
        else:
            self.P = self.P[:, done:]
            if ortho:
                self.P = _apart(self.B, self.P, self.X, tiny)
        known = tede.cat([self.X, self.P], 1)
        W = _times(self.iK, self.R[:, done:])
        if ortho:
            W = _apart(self.B, W, known, tiny)
        end = known.shape[1] + W.shape[1]
        self.S[:, :end] = tede.cat([known, W], 1)
        self.ivars['converged_end'] = end
        self.ivars['iterations_left'] -= 1
        self.ivars['istep'] += 1
        if end == n and not first:       # nothing new to look at
            self.ivars['converged_count'] = self.iparams['k']

    def _ritz(self, S):
        """Eigenpairs of A within S's span, the wanted end first: S's Gram matrix is factored, its columns scaled before."""
        gram = _form(self.B, S)
        d = gram.diagonal().rsqrt()
        R = tede.linalg.cholesky(gram * d * d[:, None], upper=True)
        inverse = tede.linalg.solve_triangular(R, d.diag_embed(), upper=True, left=False)
        E, Z = tede.linalg.eigh(inverse.mT @ _form(self.A, S) @ inverse)
        C = inverse @ Z
        return (E.flip(-1), C.flip(-1)) if self.bparams['largest'] else (E, C)

    def update_residual(self):
        self.R = _times(self.A, self.X) - _times(self.B, self.X) * self.E

    def update_converged_count(self):
        """How many of the leading pairs have a residual that is small beside what rounding explains."""
        scale = tede.linalg.norm(self.X, dim=0) * (self.fvars['A_norm'] + self.E * self.fvars['B_norm'])
        error = tede.linalg.norm(self.R, dim=0) / scale
        count = int((error < self.fparams['tol']).long().cumprod(0).sum())
        self.tvars['rerr'] = error
        self.ivars['converged_count'] = max(count, self.ivars['converged_count'])
        return self.ivars['converged_count']


class _Differentiable(tede.autograd.Function):
    @staticmethod
    def forward(ctx, A, B, options):
        E, X = _solve(A, B=B, **options)
        ctx.save_for_backward(A, B, E, X)
        return E, X

    @staticmethod
    def backward(ctx, grad_E, grad_X):
        A, B, E, X = ctx.saved_tensors
        if A.is_sparse or (B is not None and B.is_sparse and ctx.needs_input_grad[1]):
            raise ValueError('lobpcg.backward does not support sparse input yet.Note that lobpcg.forward does though.')
        if B is not None:
            raise ValueError('lobpcg.backward does not support backward with B != I yet.')
        # Within the span of X the gaps are those between its own values; outside, a system with E_j - A.
        gaps = E[..., None, :] - E[..., :, None]
        gaps.diagonal(dim1=-2, dim2=-1).fill_(float('inf'))
        inside = X @ (tede.diag_embed(grad_E) + (X.mT @ grad_X) / gaps) @ X.mT
        eye = tede.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        own = X @ X.mT
        rest = eye - own
        systems = rest[..., None, :, :] @ (E[..., :, None, None] * eye - A[..., None, :, :]) @ rest[..., None, :, :] + own[..., None, :, :]
        outside = tede.linalg.solve(systems, (rest @ grad_X).mT[..., None])[..., 0].mT
        return inside + outside @ X.mT, None, None


def _solve(A, k, B, X, n, iK, niter, tol, largest, method, tracker, ortho_iparams, ortho_fparams, ortho_bparams):
    assert A.shape[-2] == A.shape[-1], A.shape
    assert B is None or A.shape == B.shape, (A.shape, B.shape)
    dtype = A.dtype if A.dtype in (tede.float16, tede.float32, tede.float64) else tede.float32
    if tol is None:
        tol = {tede.float32: 1.2e-07, tede.float64: 2.23e-16}[dtype] ** 0.5
    m = A.shape[-1]
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = X.shape[-1] if X is not None else k if n is None else n
    if m < 3 * n:
        raise ValueError(f'LOBPCG algorithm is not applicable when the number of A rows (={m})'
                         f' is smaller than 3 x the number of requested eigenpairs (={n})')
    iparams = {'m': m, 'n': n, 'k': k, 'niter': 1000 if niter is None else niter, **(ortho_iparams or {})}
    fparams, bparams = {'tol': tol, **(ortho_fparams or {})}, {'largest': largest is None or largest, **(ortho_bparams or {})}
    batch = A.shape[:-2]
    count = batch.numel()
    E, vectors = [], []
    parts = [None if x is None else x.reshape(count, *x.shape[-2:]) if batch else [x] for x in (A, B, X)]
    for i in range(count):
        start = tede.randn(m, n, dtype=dtype, device=A.device) if X is None else parts[2][i]
        assert start.shape == (m, n), (start.shape, (m, n))
        if batch:
            iparams['batch_index'] = i
        worker = LOBPCG(parts[0][i], None if B is None else parts[1][i], start, iK, iparams, fparams, bparams,
                        method or 'ortho', tracker)
        worker.run()
        E.append(worker.E[:k])
        vectors.append(worker.X[:, :k])
    if not batch:
        return E[0], vectors[0]
    return tede.stack(E).reshape(*batch, k), tede.stack(vectors).reshape(*batch, m, k)


def lobpcg(A, k=None, B=None, X=None, n=None, iK=None, niter=None, tol=None, largest=None, method=None, tracker=None,
           ortho_iparams=None, ortho_fparams=None, ortho_bparams=None):
    """The k largest (or smallest) eigenvalues of ``A x = e B x`` and their vectors (Knyazev, 2001, "Toward the Optimal
    Preconditioned Eigensolver"); A and B symmetric, dense or sparse, A dense and positive definite for gradients.

        A: (..., m, m), m at least 3 * k.
        k: how many; 1.
        B: as A, positive definite; None is the identity.
        X: (..., m, n), where to begin; else random.
        n: columns of X.
        iK: a preconditioner, (..., m, m).
        niter, tol: steps at most, and when to end.
        largest: True, or the smallest.
        method: "ortho" or "basic".
        tracker: a function that sees each step.

    >>> values, vectors = tede.lobpcg(tede.diag(tede.arange(1.0, 7.0)), k=1)
    >>> values.round(decimals=3)
    tensor([6.])
    """
    options = dict(k=k, X=X, n=n, iK=iK, niter=niter, tol=tol, largest=largest, method=method, tracker=tracker,
                   ortho_iparams=ortho_iparams, ortho_fparams=ortho_fparams, ortho_bparams=ortho_bparams)
    if (found := _overridden(lobpcg, (A, B, X, iK), A, B=B, **options)):
        return found[0]
    if A.requires_grad or (B is not None and B.requires_grad):
        # The gradient is symmetric then, and a step along it leaves A symmetric.
        return _Differentiable.apply((A + A.mT) / 2, None if B is None else (B + B.mT) / 2, options)
    with tede.no_grad():
        return _solve(A, B=B, **options)
