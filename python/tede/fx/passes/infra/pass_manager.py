"""PassManager runs passes in an order that its constraints allow, and checks after each."""
import functools
import inspect
from graphlib import CycleError, TopologicalSorter

from tede.fx.passes.infra.pass_base import PassResult
from tede.nn import Module

__all__ = ["PassManager", "pass_result_wrapper", "this_before_that_pass_constraint"]


def pass_result_wrapper(fn):
    """The pass, returning a PassResult where it returned nothing: the module counts as modified."""
    if fn is None:
        return None

    @functools.wraps(fn)
    def wrapped(gm):
        result = fn(gm)
        return result if isinstance(result, PassResult) else PassResult(gm if result is None else result, True)
    if not inspect.isfunction(fn):
        wrapped.__name__ = type(fn).__name__
    return wrapped


def this_before_that_pass_constraint(this, that):
    """The constraint that one pass, if both run, is before another: f(a, b) says whether b may follow a."""
    def allows(a, b):
        return not (a is that and b is this)
    return allows


def _name(fn):
    return fn.__name__ if inspect.isfunction(fn) else type(fn).__name__


def _topological_sort_passes(passes, constraints):
    """The passes in an order in which each pair is allowed; as they are, where nothing is against it."""
    if not constraints:
        return passes
    before = {i: {j for j, other in enumerate(passes) if i != j and not all(allows(fn, other) for allows in constraints)}
              for i, fn in enumerate(passes)}
    sorter = TopologicalSorter(before)
    try:
        sorter.prepare()
    except CycleError as error:
        raise RuntimeError(f"Circular dependency detected within the following passes: {passes}") from error
    order = []
    while sorter.is_active():
        ready = sorted(sorter.get_ready())
        order += ready
        sorter.done(*ready)
    return [passes[i] for i in order]


class PassManager:
    """Runs `passes` until none modifies the module, `steps` times at most."""

    def __init__(self, passes=None, constraints=None, steps=None, run_checks_after_each_pass=False, suppress_check_failures=False):
        self.passes, self.constraints, self.steps = list(passes or ()), list(constraints or ()), 1 if steps is None else steps
        self.run_checks_after_each_pass, self.suppress_check_failures = run_checks_after_each_pass, suppress_check_failures
        self._checks, self._sorted = [], False

    def add_pass(self, _pass):
        self.passes.append(_pass)
        self._sorted = False

    def add_constraint(self, constraint):
        self.constraints.append(constraint)
        self._sorted = False

    def add_checks(self, check):
        """check(module) raises if something is wrong; it runs after the passes."""
        if len(inspect.signature(check).parameters) != 1:
            raise TypeError("PassManager check function should only take in one variable, a module")
        self._checks.append(check)

    def check(self, module):
        for check in self._checks:
            check(module)

    def validate_constraints(self):
        """Raises if the passes, as they stand, are in an order that a constraint forbids."""
        for i, fn in enumerate(self.passes):
            for later in self.passes[i + 1:]:
                if not all(allows(fn, later) for allows in self.constraints):
                    raise RuntimeError(f"pass schedule constraint violated. Expected {_name(later)} before {_name(fn)}")

    def solve_constraints(self):
        """Put the passes into an order that the constraints allow."""
        self.passes = _topological_sort_passes(self.passes, self.constraints)
        self._sorted = True

    def __call__(self, module):
        if not self._sorted:
            self.solve_constraints()
        self.check(module)
        modified = False
        for _ in range(self.steps):
            changed, done = False, []
            for fn in self.passes:
                try:
                    result = fn(module)
                    if not isinstance(result, PassResult) and not hasattr(result, "graph_module"):
                        raise TypeError(f"The result of the pass {_name(fn)} should be type PassResult. Please wrap it with pass_result_wrapper()")
                except Exception as error:
                    raise Exception(f"An error occurred when running the '{_name(fn)}' pass after the following passes: "
                                    f"{list(map(_name, done))}") from error
                module, changed = result.graph_module, changed or result.modified
                if isinstance(module, Module) and hasattr(module, "recompile"):
                    module.recompile()
                done.append(fn)
                if self.run_checks_after_each_pass:
                    self.check(module)
            self.check(module)
            modified |= changed
            if not changed:
                break
        return PassResult(module, modified)
