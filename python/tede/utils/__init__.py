"""Helpers around tensors and training; each submodule is loaded when it is first named."""
_SUBMODULES = frozenset((
    "data", "checkpoint", "hooks", "_pytree", "_python_dispatch", "_contextlib", "dlpack", "tensorboard", "benchmark",
    "cpp_extension", "model_zoo", "flop_counter", "collect_env", "serialization", "backend_registration", "weak", "deterministic",
    "_dtype_abbrs", "_foreach_utils", "_import_utils", "_mode_utils", "module_tracker", "mkldnn",
))


TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def __getattr__(name: str) -> "Any":
    if name == "cmake_prefix_path":         # where CMake's find_package looks for folders of packages
        from tede.config import folder
        return folder("lib/cmake")
    if name in ("rename_privateuse1_backend", "generate_methods_for_privateuse1_backend"):
        from tede.utils import backend_registration
        return getattr(backend_registration, name)
    if name in _SUBMODULES:
        try:
            return __import__("tede.utils." + name, fromlist=[name])
        except ModuleNotFoundError as error:
            if error.name != "tede.utils." + name:
                raise
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


def _refuse_swapped(gradients):
    raise RuntimeError("Trying to execute AccumulateGrad node that was poisoned by swap_tensors this can happen when you try to run backward on a "
                       "tensor that was swapped. Graphs made before the swap end at the other tensor: call backward first, or the forward "
                       "computation again; for a module whose conversion swaps its parameters, convert it before its forward call.")


def swap_tensors(t1, t2):
    """Let two tensors change places: classes, attributes, data, history and gradients; whoever holds one holds the
    other now.

    Not for tensors with weak references (RuntimeError), since those can't follow. A backward pass over a graph made
    before fills the tensor that took the place.

    >>> a, b = tede.zeros(1), tede.ones(2)
    >>> tede.utils.swap_tensors(a, b)
    >>> a, b
    (tensor([1., 1.]), tensor([0.]))
    """
    import copyreg
    import weakref

    from tede import _C
    for name, t in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    slots = set(copyreg._slotnames(type(t1)))
    if slots != set(copyreg._slotnames(type(t2))):
        raise RuntimeError("Cannot swap t1 and t2 if they have different slots")
    values = [{slot: getattr(t, slot) for slot in slots if hasattr(t, slot)} for t in (t1, t2)]
    if type(t1) is not type(t2):
        t1.__class__, t2.__class__ = type(t2), type(t1)
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    for t, before, now in zip((t1, t2), values, reversed(values)):
        for slot in before.keys() - now.keys():
            delattr(t, slot)
        for slot, value in now.items():
            setattr(t, slot, value)
    for t in (t1, t2):
        if t.is_leaf and t.requires_grad:
            _C._gradient_edge(t)[0].register_prehook(_refuse_swapped)
            _C._renew_accumulator(t)
    _C._swap_tensors(t1, t2)


def set_module(obj, mod):
    """Let a function or class say that it comes from the module of that name: ``obj.__module__ = mod``.

    >>> def f(): pass
    >>> tede.utils.set_module(f, "my.module")
    >>> f.__module__
    'my.module'
    """
    if not isinstance(mod, str):
        raise TypeError("The mod argument should be a string")
    obj.__module__ = mod
