"""Devices from outside: tede.load_device(name), and the module that stands for each, tede.<name>."""
import types

import tede
from tede import _C

loaded = {}


class DeviceModule(types.ModuleType):
    """What tede.cuda is for a program, for a device that was loaded."""

    def __init__(self, name):
        super().__init__(f"tede.{name}", f"The device {name!r}.")
        self._name = name

    def _of(self, device):
        if device is None:
            return f"{self._name}:{_C._device_current(self._name)}"
        return f"{self._name}:{device}" if isinstance(device, int) else tede.device(device)

    def is_available(self):
        return _C._device_count(self._name) > 0

    is_initialized = is_available

    def device_count(self):
        return _C._device_count(self._name)

    def current_device(self):
        return _C._device_current(self._name)

    def set_device(self, device):
        _C._device_set_current(self._of(device))

    def synchronize(self, device=None):
        """Wait for all that was asked of the device."""
        _C._device_synchronize(self._of(device))

    def _generator(self, device=None):
        return _C._device_generator(self._of(device))

    def manual_seed(self, seed):
        self._generator().manual_seed(seed)

    def manual_seed_all(self, seed):
        for index in range(self.device_count()):
            self._generator(index).manual_seed(seed)

    def initial_seed(self):
        return self._generator().initial_seed()

    def get_rng_state(self, device=None):
        return self._generator(device).get_state()

    def set_rng_state(self, new_state, device=None):
        self._generator(device).set_state(new_state)

    def _is_in_bad_fork(self):
        return False

    @property
    def device(self):
        """A context manager: within it the device without an index is this one."""
        module = self

        class device:
            def __init__(self, device):
                self.idx = device if isinstance(device, int) else tede.device(device).index

            def __enter__(self):
                self.before = module.current_device()
                if self.idx is not None and self.idx >= 0:
                    module.set_device(self.idx)
                return self

            def __exit__(self, *exception):
                module.set_device(self.before)
                return False

        return device


def load_device(path):
    """Load a device from a shared library (see <tede/device.h>); returns its module, which is tede.<name> from then on.

    ``"opencl"`` and ``"cuda"`` come with tede; another name stands for <name>.so in a folder of ``TEDE_DEVICE_PATH``; all else is a path.
    Tensors and modules get a method of the device's name, as they have .cuda(), and tensors ``is_<name>``."""
    return loaded[_C._device_load(path)]


def add_module(name):
    """What Python has of a device. Called once it is loaded, which its first use does, too."""
    module = loaded[name] = DeviceModule(name)
    setattr(tede, name, module)

    def move(self, device=None, non_blocking=False, **kwargs):
        return self.to(module._of(device), non_blocking=non_blocking, **kwargs)

    def move_module(self, device=None):
        return self._apply(lambda x: x.to(module._of(device)))

    move.__name__ = move_module.__name__ = name
    if not hasattr(tede.Tensor, name):
        setattr(tede.Tensor, name, move)
        setattr(tede.Tensor, f"is_{name}", property(lambda self: self.device.type == name))
        setattr(tede.nn.Module, name, move_module)


def only():
    """The one that tede.accelerator speaks of: the first that was loaded, or None."""
    return next(iter(loaded.values()), None)
