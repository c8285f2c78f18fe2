"""What all functions keep to that change a module in place: one is applied to a module once, and names stay what they were.

A module holds what has been applied to it in its __dict__, by the function and by its name, with a state of each; modules that are passed together
share them."""
import functools

from tede import nn

__all__ = ["RegistryItem", "contract"]

STATE_KEY, REGISTRY_KEY = "__composable_api_state_key", "__composable_api_registry_key"


class _State:
    """What a function notes about its modules."""


class RegistryItem:
    """One use of a function; shared by the modules that were passed together."""


def _get_registry(module):
    """Name -> item of what has been applied to a module; None: nothing."""
    return module.__dict__.get(REGISTRY_KEY)


def _names(module):
    return {"parameters": [name for name, _ in module.named_parameters()], "buffers": [name for name, _ in module.named_buffers()],
            "modules": [name for name, _ in module.named_modules()]}


def _check_names(module, before):
    for kind, now in _names(module).items():
        if now != before[kind]:
            other = sorted(set(now) ^ set(before[kind]))
            raise RuntimeError(f"Checking {kind}: Composable distributed API implementations cannot modify FQNs. Only before or only now: {other}")


def contract(state_cls=_State):
    """A decorator of functions that take a module, or a list of modules, and return it; state(module) of the function is an object of the class."""
    def decorate(function):
        @functools.wraps(function)
        def apply(module, *args, **kwargs):
            modules = [module] if isinstance(module, nn.Module) else list(module)
            for m in modules:
                if function in m.__dict__.get(STATE_KEY, ()):
                    raise AssertionError("Each distinct composable distributed API can only be applied to a module once. "
                                         f"{function.__name__} has already been applied to the following module:\n{m}")
            states, registry = dict(modules[0].__dict__.get(STATE_KEY, {})), dict(_get_registry(modules[0]) or {})
            states[function], registry[function.__name__] = state_cls(), RegistryItem()
            for m in modules:
                if any(key in m.__dict__ and m.__dict__[key].keys() != modules[0].__dict__.get(key, {}).keys() for key in (STATE_KEY, REGISTRY_KEY)):
                    raise AssertionError(f"{function.__name__}: the same functions must have been applied to all of the modules before")
            for m in modules:
                m.__dict__[STATE_KEY], m.__dict__[REGISTRY_KEY] = states, registry
            before = [_names(m) for m in modules]
            updated = function(module, *args, **kwargs)
            after = [updated] if isinstance(updated, nn.Module) else modules if updated is None else list(updated)
            if len(after) != len(modules):
                raise RuntimeError(f"{function.__name__} has returned {len(after)} modules in place of {len(modules)}")
            for m, names in zip(after, before):
                _check_names(m, names)
            return module if updated is None else updated

        apply.state = lambda module: module.__dict__.get(STATE_KEY, {}).get(function)
        return apply
    return decorate
