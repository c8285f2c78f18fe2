"""From a region to a transform onto it: biject_to is one to one, transform_to only has to cover it."""
from tede.distributions import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """From constraints to transforms of all real numbers onto them: `biject_to` (bijective) and `transform_to` (perhaps
    not) are two.

    >>> unbounded = tede.distributions.biject_to(tede.distributions.constraints.positive)
    >>> unbounded(tede.tensor(0.0))
    tensor(1.)
    """

    def __init__(self):
        self._registry = {}
        super().__init__()

    def register(self, constraint, factory=None):
        """Say how transforms for a kind of constraint are made. Also a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError("Expected constraint to be either a Constraint subclass or instance, but got "
                            f"{constraint}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint):
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints") from None
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds):
    def register(factory):
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory
    return register


def _exp_and(loc, scale):
    return transforms.ComposeTransform([transforms.ExpTransform(), transforms.AffineTransform(loc, scale)])


_both(constraints.real)(lambda c: transforms.identity_transform)
for _registry in (biject_to, transform_to):
    _registry.register(constraints.independent, lambda c, registry=_registry: transforms.IndependentTransform(
        registry(c.base_constraint), c.reinterpreted_batch_ndims))
    _registry.register(constraints.cat, lambda c, registry=_registry: transforms.CatTransform(
        [registry(part) for part in c.cseq], c.dim, c.lengths))
    _registry.register(constraints.stack, lambda c, registry=_registry: transforms.StackTransform(
        [registry(part) for part in c.cseq], c.dim))
biject_to.register(constraints.simplex, lambda c: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda c: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda c: transforms.LowerCholeskyTransform())
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda c: transforms.PositiveDefiniteTransform())
_both(constraints.corr_cholesky)(lambda c: transforms.CorrCholeskyTransform())


@_both(constraints.greater_than, constraints.greater_than_eq)
def _above(c):
    return _exp_and(c.lower_bound, 1)


@_both(constraints.less_than)
def _below(c):
    return _exp_and(c.upper_bound, -1)


@_both(constraints.interval, constraints.half_open_interval)
def _between(c):
    if all(isinstance(b, (int, float)) for b in (c.lower_bound, c.upper_bound)) and (c.lower_bound, c.upper_bound) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(),
                                        transforms.AffineTransform(c.lower_bound, c.upper_bound - c.lower_bound)])
