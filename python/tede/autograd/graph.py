"""Looking at the gradient graph, and hooks on what it saves."""
from tede import _C
from tede._C import _Node as Node  # noqa: F401


class saved_tensors_hooks:
    """Within it, what is saved for backward goes through pack_hook, and through unpack_hook when it is needed."""

    def __init__(self, pack_hook, unpack_hook):
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self):
        _C._push_saved_hooks(self.pack_hook, self.unpack_hook)

    def __exit__(self, *exception):
        _C._pop_saved_hooks()


class save_on_cpu(saved_tensors_hooks):
    """Keep what is saved in the CPU's memory."""

    def __init__(self, pin_memory=False, device_type="cuda"):
        super().__init__(lambda x: (x.device, x.cpu()), lambda packed: packed[1].to(packed[0]))


class disable_saved_tensors_hooks:
    """Within it, pushing hooks on saved tensors is an error with this message."""

    def __init__(self, error_message):
        self.message = error_message

    def __enter__(self):
        self.before = _C._disable_saved_hooks(self.message)

    def __exit__(self, *exception):
        _C._disable_saved_hooks(self.before)
