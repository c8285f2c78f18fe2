"""Regions that parameters and samples lie in. `check` says where a value does."""
import tede


class Constraint:
    """A region that parameters or samples lie in: `check` says where they do.

        is_discrete: whether it is of whole numbers.
        event_dim: how many of the last dimensions are one event, which lies in it as a whole.

    >>> tede.distributions.constraints.positive.check(tede.tensor([-1.0, 2.0]))
    tensor([False,  True])
    >>> tede.distributions.constraints.simplex.check(tede.tensor([0.3, 0.7]))
    tensor(True)
    """
    is_discrete = False
    event_dim = 0
    _shown = ()                 # attributes that the repr shows

    def check(self, value):
        """Where `value` lies in the region: a bool for each event."""
        raise NotImplementedError

    def __repr__(self):
        inner = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__[1:]}({inner})"


class _Dependent(Constraint):
    """A region that depends on other parameters, so that it can't be checked alone."""

    def __init__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self):
        """Whether it is of whole numbers, where that is known."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self):
        """How many dimensions an event has, where that is known."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        return _Dependent(is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
                          event_dim=self._event_dim if event_dim is NotImplemented else event_dim)

    def check(self, x):
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint):
    """Whether a constraint depends on other parameters, so that it can't be checked by itself.

    >>> from tede.distributions import constraints
    >>> constraints.is_dependent(tede.distributions.Uniform.support)
    True
    """
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint, and a dependent constraint when it is read from the class: for `support`s
    that depend on parameters.

    >>> from tede.distributions import constraints
    >>> class Below(tede.distributions.Uniform):
    ...     @constraints.dependent_property(is_discrete=False, event_dim=0)
    ...     def support(self):
    ...         return constraints.less_than(self.high)
    >>> constraints.is_dependent(Below.support)
    True
    """

    def __init__(self, fn=None, *, is_discrete=NotImplemented, event_dim=NotImplemented):
        property.__init__(self, fn)
        self._is_discrete, self._event_dim = is_discrete, event_dim

    def __call__(self, fn):
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _Wrapping(Constraint):
    """What other constraints say, put together."""

    def __init__(self, base_constraint):
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self):
        return self.base_constraint.is_discrete

    @property
    def event_dim(self):
        return self.base_constraint.event_dim


class _IndependentConstraint(_Wrapping):
    """The last dimensions of another constraint together are one event.

    >>> from tede.distributions import constraints
    >>> constraints.independent(constraints.real, 1).check(tede.zeros(2, 3))
    tensor([True, True])
    """

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        super().__init__(base_constraint)
        if not isinstance(reinterpreted_batch_ndims, int) or reinterpreted_batch_ndims < 0:
            raise AssertionError(f"reinterpreted_batch_ndims must be an int >= 0, got {reinterpreted_batch_ndims!r}")
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    @property
    def event_dim(self):
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value):
        result = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if result.dim() < n:
            raise ValueError(f"Expected value.dim() >= {self.base_constraint.event_dim + n} but got {value.dim()}")
        return result.reshape(result.shape[:result.dim() - n] + (-1,)).all(-1)

    def __repr__(self):
        return f"{type(self).__name__[1:]}({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(_Wrapping):
    """Within the support of every component of a mixture.

    >>> from tede.distributions import Categorical, MixtureSameFamily, Uniform
    >>> mixture = MixtureSameFamily(Categorical(tede.ones(2)), Uniform(tede.zeros(2), tede.tensor([1.0, 2.0])))
    >>> mixture.support.check(tede.tensor(0.5))
    tensor(True)
    """

    def check(self, value):
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.dim() < self.event_dim:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return result.reshape(result.shape[:value.dim() - self.event_dim] + (-1,)).all(-1)

    def __repr__(self):
        return f"{type(self).__name__}({self.base_constraint!r})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & value.sum(-1).eq(1)


class _Above(Constraint):
    _shown = ("lower_bound",)

    def __init__(self, lower_bound):
        self.lower_bound = lower_bound


class _Below(Constraint):
    _shown = ("upper_bound",)

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound


class _Between(Constraint):
    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound, upper_bound):
        self.lower_bound, self.upper_bound = lower_bound, upper_bound


class _Real(Constraint):
    def check(self, value):
        return value == value           # not NaN


class _GreaterThan(_Above):
    """Numbers above `lower_bound`.

    >>> from tede.distributions import constraints
    >>> constraints.greater_than(1).check(tede.tensor([0.5, 2]))
    tensor([False,  True])
    """

    def check(self, value):
        return self.lower_bound < value


class _GreaterThanEq(_Above):
    """Numbers from `lower_bound` on.

    >>> from tede.distributions import constraints
    >>> constraints.greater_than_eq(1).check(tede.tensor([0.5, 1]))
    tensor([False,  True])
    """

    def check(self, value):
        return self.lower_bound <= value


class _LessThan(_Below):
    """Numbers below `upper_bound`.

    >>> from tede.distributions import constraints
    >>> constraints.less_than(1).check(tede.tensor([0.5, 2]))
    tensor([ True, False])
    """

    def check(self, value):
        return value < self.upper_bound


class _Interval(_Between):
    """Numbers from `lower_bound` to `upper_bound`.

    >>> from tede.distributions import constraints
    >>> constraints.interval(0, 1).check(tede.tensor([0.5, 2]))
    tensor([ True, False])
    """

    def check(self, value):
        return (self.lower_bound <= value) & (value <= self.upper_bound)


class _HalfOpenInterval(_Between):
    """Numbers from `lower_bound` on, below `upper_bound`.

    >>> from tede.distributions import constraints
    >>> constraints.half_open_interval(0, 1).check(tede.tensor([0.5, 1]))
    tensor([ True, False])
    """

    def check(self, value):
        return (self.lower_bound <= value) & (value < self.upper_bound)


class _IntegerInterval(_Interval):
    """Whole numbers from `lower_bound` to `upper_bound`.

    >>> from tede.distributions import constraints
    >>> constraints.integer_interval(0, 3).check(tede.tensor([0.5, 1]))
    tensor([False,  True])
    """

    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & super().check(value)


class _IntegerGreaterThan(_GreaterThanEq):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & super().check(value)


class _IntegerLessThan(_Below):
    is_discrete = True

    def check(self, value):
        return (value % 1 == 0) & (value <= self.upper_bound)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(dim=-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(_Below):
    """Counts from 0 whose sum is `upper_bound`.

    >>> from tede.distributions import constraints
    >>> constraints.multinomial(3).check(tede.tensor([1, 2]))
    tensor(True)
    """

    is_discrete, event_dim, _shown = True, 1, ()

    def check(self, x):
        return (x >= 0).all(dim=-1) & (x.sum(dim=-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).reshape(value.shape[:-2] + (-1,)).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value):
        return super().check(value) & (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value):
        tolerance = tede.finfo(value.dtype).eps * value.size(-1) * 10      # 10 is an adjustable fudge factor
        norms = tede.linalg.norm(value.detach(), dim=-1)
        return super().check(value) & (norms - 1).abs().le(tolerance).all(dim=-1)


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return tede.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=tede.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value):
        square = super().check(value)
        return tede.isclose(value, value.mT, atol=1e-6).all(-2).all(-1) if square.all() else square


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return tede.linalg.eigvalsh(value).ge(0).all(-1) if symmetric.all() else symmetric


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        symmetric = super().check(value)
        return tede.linalg.cholesky_ex(value).info.eq(0) if symmetric.all() else symmetric


class _Several(Constraint):
    """Several regions, one for each part along a dimension."""

    def __init__(self, cseq, dim=0):
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError("All elements of cseq must be Constraint instances")
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self):
        return any(c.is_discrete for c in self.cseq)

    def _check_dim(self, value):
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")


class _Cat(_Several):
    """Several regions, one for each part of a dimension; `lengths` says how long these are.

    >>> from tede.distributions import constraints
    >>> constraints.cat([constraints.positive, constraints.real], 0).check(tede.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    def __init__(self, cseq, dim=0, lengths=None):
        super().__init__(cseq, dim)
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.cseq)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    @property
    def event_dim(self):
        return max(c.event_dim for c in self.cseq)

    def check(self, value):
        self._check_dim(value)
        return tede.cat([c.check(v) for c, v in zip(self.cseq, value.split(self.lengths, self.dim))], self.dim)


class _Stack(_Several):
    """Several regions, one for each slice along a dimension.

    >>> from tede.distributions import constraints
    >>> constraints.stack([constraints.positive, constraints.real], 0).check(tede.tensor([-1.0, -1.0]))
    tensor([False,  True])
    """

    @property
    def event_dim(self):
        dim = max(c.event_dim for c in self.cseq)
        return dim + 1 if self.dim + dim < 0 else dim

    def check(self, value):
        self._check_dim(value)
        return tede.stack([c.check(v) for c, v in zip(self.cseq, value.unbind(self.dim))], self.dim)


dependent, dependent_property, independent = _Dependent(), _DependentProperty, _IndependentConstraint
boolean, one_hot, real, simplex = _Boolean(), _OneHot(), _Real(), _Simplex()
nonnegative_integer, positive_integer, integer_interval = _IntegerGreaterThan(0), _IntegerGreaterThan(1), _IntegerInterval
real_vector, positive, nonnegative = independent(real, 1), _GreaterThan(0.0), _GreaterThanEq(0.0)
greater_than, greater_than_eq, less_than, multinomial = _GreaterThan, _GreaterThanEq, _LessThan, _Multinomial
unit_interval, interval, half_open_interval = _Interval(0.0, 1.0), _Interval, _HalfOpenInterval
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
cat, stack = _Cat, _Stack

__all__ = ["Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
           "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval", "is_dependent", "less_than", "lower_cholesky",
           "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive", "positive_definite",
           "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval"]
