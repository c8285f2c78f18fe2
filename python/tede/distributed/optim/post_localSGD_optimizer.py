"""PostLocalSGDOptimizer: an optimizer, after whose steps parameters are averaged now and then."""
import warnings

from tede.optim import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """`optim`'s steps, each followed by averager.average_parameters. The averager's count of steps is in the state dict."""

    def __init__(self, optim, averager):
        self.optim, self.param_groups, self.averager = optim, optim.param_groups, averager

    @property
    def state(self):
        return self.optim.state

    def __repr__(self):
        return repr(self.optim)

    def state_dict(self):
        return {**self.optim.state_dict(), "step": self.averager.step}

    def load_state_dict(self, state_dict):
        self.optim.load_state_dict({key: value for key, value in state_dict.items() if key != "step"})
        if "step" not in state_dict:
            warnings.warn("Loaded state dict does not contain a step counter for an averager. Setting step counter to 0.", stacklevel=2)
        self.averager.step = state_dict.get("step", 0)

    def step(self):
        self.optim.step()
        self.averager.average_parameters(params=self.param_groups)

    def zero_grad(self, set_to_none=True):
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        self.optim.add_param_group(param_group)
