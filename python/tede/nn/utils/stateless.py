"""functional_call: a module called with other parameters and buffers than its own."""
import warnings
from contextlib import contextmanager

from ._named_member_accessor import NamedMemberAccessor

__all__ = ["functional_call"]


def _with_tied(module, given):
    """`given` with a value for all names of a tensor that has several in `module`."""
    names_of = {}
    for members in (module.named_parameters, module.named_buffers):
        for name, tensor in members(remove_duplicate=False):
            names_of.setdefault(tensor, set()).add(name)
    complete = dict(given)
    for names in names_of.values():
        present = names & given.keys()
        if len(names) > 1 and present:
            if len({id(given[name]) for name in present}) > 1:
                raise ValueError(f"functional_call got multiple values for keys {sorted(names)}, which are tied. "
                                 "Consider using tie_weights=False")
            value = given[next(iter(present))]
            complete.update((name, value) for name in names)
    return complete


@contextmanager
def _reparametrize_module(module, parameters_and_buffers, tie_weights=False, strict=False, stack_weights=False):
    """Tensors of `module` replaced within the block. What is there at its end goes back to the caller's dict."""
    given = _with_tied(module, parameters_and_buffers) if tie_weights else parameters_and_buffers
    accessor = NamedMemberAccessor(module)
    if strict:
        missing, unexpected = accessor.check_keys(given)
        lines = [f"{kind} key(s): {', '.join(map(repr, keys))}."
                 for kind, keys in (("Unexpected", unexpected), ("Missing", missing)) if keys]
        if lines:
            raise RuntimeError("Error(s) in reparametrizing for {}:\n\t{}".format(module._get_name(), "\n\t".join(lines)))
    before = {}
    try:
        before, _ = accessor.swap_tensors_dict(given, allow_missing=True)
        yield
    finally:
        if stack_weights:                       # a name given twice goes back to what it was at first
            before = dict(reversed(before.items()))
        after, _ = accessor.swap_tensors_dict(before, allow_missing=True)
        parameters_and_buffers.update((name, after[name]) for name in parameters_and_buffers if name in after)


def functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """Call `module` with the tensors of `parameters_and_buffers` (by dotted name) in place of its own.

    `tie_weights`: a value for one name of a shared tensor counts for all of them. `strict`: the names must be all of
    the module's. Buffers that the call assigns anew are found in the dict afterwards.
    """
    warnings.warn("`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and will be removed in a "
                  "future version of PyTorch. Please use `torch.func.functional_call` instead which is a drop-in "
                  "replacement.", FutureWarning, stacklevel=2)
    return _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)


def _functional_call(module, parameters_and_buffers, args=None, kwargs=None, *, tie_weights=True, strict=False):
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights=tie_weights, strict=strict):
        return module(*args, **(kwargs or {}))
