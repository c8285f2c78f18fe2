"""_NamedOptimizer: an optimizer whose state is kept by the names of parameters.

A state by numbers means something only beside the list of parameters that it was made with. With names it can be saved by processes that have different
parts of a model, and read where another selection of its parameters is trained."""
from tede import no_grad, zeros_like
from tede._C import Tensor
from tede.optim import Optimizer

__all__ = []


class _NamedOptimizer(Optimizer):
    """optimizer_class of these parameters, or of param_groups of them. `module` may have _pre_load_state_dict and others of its own."""

    def __init__(self, named_parameters, optimizer_class, param_groups=None, module=None, *args, **kwargs):
        self.named_parameters, self.module = dict(named_parameters), module
        self._names = {id(p): name for name, p in self.named_parameters.items()}
        groups = list(self.named_parameters.values()) if param_groups is None else [self._group_of(group) for group in param_groups]
        self._optimizer = optimizer_class(groups, *args, **kwargs)
        self.defaults, self.param_groups = self._optimizer.defaults, self._optimizer.param_groups
        for group in self.param_groups:
            for p in group["params"]:
                if id(p) not in self._names:
                    raise ValueError(f"a parameter of shape {tuple(p.shape)} is in a group, but not among named_parameters")

    def _group_of(self, group):
        """A group whose parameters may be names."""
        if not isinstance(group, dict):
            raise AssertionError("param group must be a dict")
        if "params" not in group:
            raise AssertionError("param group must contain key params")
        params = group["params"]
        params = [params] if isinstance(params, (Tensor, str)) else list(params)
        found = []
        for p in params:
            if isinstance(p, str):
                if p not in self.named_parameters:
                    raise ValueError(f"there is no parameter named '{p}'")
                p = self.named_parameters[p]
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            found.append(p)
        return {**group, "params": found}

    def _names_of(self, group):
        return sorted(self._names[id(p)] for p in group["params"])

    @property
    def state(self):
        return self._optimizer.state

    def step(self, closure=None):
        return self._optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        self._optimizer.zero_grad(set_to_none)

    def add_param_group(self, param_group):
        group = self._group_of(param_group)
        if any(id(p) not in self._names for p in group["params"]):
            raise ValueError("some parameters are not in the module")
        self._optimizer.add_param_group(group)
        self.param_groups = self._optimizer.param_groups

    def init_state(self):
        """Make the state, by a step in which nothing moves; gradients are 0 afterwards."""
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    return
        rates = [group["lr"] for group in self.param_groups]
        for group in self.param_groups:
            for p in group["params"]:
                if p.requires_grad:
                    p.grad = zeros_like(p)
            group["lr"] = zeros_like(group["lr"]) if isinstance(group["lr"], Tensor) else 0.0
        self.step()
        for group, rate in zip(self.param_groups, rates):
            group["lr"] = rate

    def state_dict(self):
        state = {self._names[id(p)]: values for p, values in self.state.items()}
        groups = [{**group, "params": self._names_of(group)} for group in self.param_groups]
        return self._post_state_dict({"state": state, "param_groups": groups})

    def load_state_dict(self, state_dict):
        """Take over values for the parameters and groups that are here as well; the optimizer has a state already, from a step or init_state."""
        given = self._pre_load_state_dict(state_dict)
        if not self.state:
            raise ValueError("Expects the optim to be initialized before load but found not initialized.")
        for p, values in self.state.items():
            name = self._names[id(p)]
            if name in given["state"]:
                self._load_values(name, values, given["state"][name])
        known = {tuple(sorted(group["params"])): group for group in given["param_groups"]}
        for group in self.param_groups:
            names = tuple(self._names_of(group))
            for key in group if names in known else ():
                if key not in known[names]:
                    raise ValueError(f"Expects group key {key} to be in group {'/'.join(names)} in `state_dict` but is missing.")
                if key != "params":
                    group[key] = known[names][key]

    def _load_values(self, name, values, given):
        if len(values) != len(given):
            raise ValueError(f"Expects equal length as {len(values)} for parameter {name} but found: {len(given)}")
        for key in values:
            if key not in given:
                raise ValueError(f"Expects state {key} for parameter {name} but not found.")
            if isinstance(values[key], Tensor):
                with no_grad():
                    values[key].copy_(given[key])
            else:
                values[key] = given[key]

    def _pre_load_state_dict(self, state_dict):
        """A module that keeps parts of its parameters changes the state of whole ones."""
        own = getattr(self.module, "_pre_load_state_dict", None)
        return state_dict if own is None else own(self, state_dict)

    def _post_state_dict(self, state_dict):
        own = getattr(self.module, "_post_state_dict", None)
        return state_dict if own is None else own(self, state_dict)
