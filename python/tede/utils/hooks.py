"""RemovableHandle: what register_*_hook returns, to remove the hook."""
import weakref
from collections import OrderedDict

from tede import _C

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["RemovableHandle", "unserializable_hook", "warn_if_has_hooks"]


class _HandleMeta(type):
    def __instancecheck__(cls, x):
        return type.__instancecheck__(cls, x) or (cls is RemovableHandle and isinstance(x, _C.RemovableHandle))


class RemovableHandle(metaclass=_HandleMeta):
    """What registering a hook gives: `remove()` takes the entry out of the dictionary of hooks, and out of further
    ones. Also a context manager, which removes it at the end.

    >>> layer = nn.Linear(3, 2)
    >>> with layer.register_forward_hook(lambda module, args, output: None):
    ...     pass
    """

    next_id = 0

    def __init__(self, hooks_dict: "Any", *, extra_dict: "Any" = None) -> None:
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1
        extra = extra_dict if isinstance(extra_dict, list) else () if extra_dict is None else (extra_dict,)
        self.extra_dict_ref = tuple(map(weakref.ref, extra))

    def remove(self) -> None:
        """Take the hook out; again, nothing happens."""
        for ref in (self.hooks_dict_ref, *self.extra_dict_ref):
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    def __getstate__(self):
        return self.hooks_dict_ref(), self.id, tuple(ref() for ref in self.extra_dict_ref)

    def __setstate__(self, state):
        self.hooks_dict_ref = weakref.ref(OrderedDict() if state[0] is None else state[0])
        self.id = state[1]
        RemovableHandle.next_id = max(RemovableHandle.next_id, self.id + 1)
        self.extra_dict_ref = tuple(weakref.ref(OrderedDict() if d is None else d) for d in (state[2] if len(state) > 2 else ()))

    def __enter__(self) -> "RemovableHandle":
        return self

    def __exit__(self, type: "Any", value: "Any", tb: "Any") -> None:
        self.remove()


def unserializable_hook(f):
    """A decorator: a tensor's hook that is lost when it is pickled, without a warning.

    >>> @tede.utils.hooks.unserializable_hook
    ... def hook(grad):
    ...     return None
    """
    f.__torch_unserializable__ = True
    return f


def warn_if_has_hooks(tensor):
    """Warn of a tensor's hooks that pickling would lose.

    >>> tede.utils.hooks.warn_if_has_hooks(tede.ones(1))
    """
    if tensor._backward_hooks:
        import warnings
        for hook in tensor._backward_hooks.values():
            if not hasattr(hook, "__torch_unserializable__"):
                warnings.warn(f"backward hook {hook!r} on tensor will not be serialized. If this is expected, you can decorate the "
                              "function with @torch.utils.hooks.unserializable_hook to suppress this warning", stacklevel=2)
