"""Optimizers that are passed gradients, instead of finding them at the parameters."""
from tede import optim

__all__ = []


class _Functional:
    """An optimizer of class `of`, whose steps are for gradients that are passed: all of them at once, or one parameter's."""

    of = None

    def __init__(self, params, *args, _allow_empty_param_list=False, **kwargs):
        params = list(params)
        if not params and not _allow_empty_param_list:
            raise ValueError("optimizer got an empty parameter list")
        self._make = lambda params: self.of([{"params": params}], *args, **kwargs)
        self._all, self._single = self._make(params), {}
        self.defaults, self.param_groups = self._all.defaults, self._all.param_groups

    @property
    def param_group(self):
        return self.param_groups[0]

    @property
    def state(self):
        return {p: state for optimizer in (self._all, *self._single.values()) for p, state in optimizer.state.items()}

    def step(self, gradients):
        """gradients[i] is the i-th parameter's, or None, which leaves it alone."""
        params = self.param_group["params"]
        if len(params) != len(gradients):
            raise ValueError(f"the gradients passed in does not equal to the size of the parameters! Params length: {len(params)}. Gradients length: "
                             f"{len(gradients)}")
        _step_with(self._all, params, gradients)

    def step_param(self, param, grad):
        if param not in self._single:
            self._single[param] = self._make([param])
        _step_with(self._single[param], [param], [grad])


def _step_with(optimizer, params, gradients):
    kept = [p.grad for p in params]
    try:
        for p, grad in zip(params, gradients):
            p.grad = grad
        optimizer.step()
    finally:
        for p, grad in zip(params, kept):
            p.grad = grad


def _functional(of):
    return type(f"_Functional{of.__name__}", (_Functional,), {"of": of, "__doc__": f"{of.__name__} for gradients that are passed."})


functional_optim_map = {of: _functional(of) for of in (optim.Adagrad, optim.Adam, optim.AdamW, optim.SGD, optim.Adadelta, optim.RMSprop, optim.Rprop,
                                                       optim.Adamax)}


def register_functional_optim(key, optim):
    """What stands for `key` (a class, or any name) where gradients are passed."""
    functional_optim_map.setdefault(key, optim)


def as_functional_optim(optim_cls, *args, **kwargs):
    if optim_cls not in functional_optim_map:
        raise ValueError(f"Optimizer {optim_cls} does not have a functional counterpart!")
    return _create_functional_optim(functional_optim_map[optim_cls], *args, **kwargs)


def _create_functional_optim(functional_optim_cls, *args, **kwargs):
    return functional_optim_cls([], *args, **kwargs, _allow_empty_param_list=True)
