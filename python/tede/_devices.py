"""Devices from outside: tede.load_device(name), and the module that stands for each, tede.<name>."""
import atexit
import contextlib
import os
import sys
import types

import tede
from tede import _C
from tede._device_graphs import Graphs
from tede._device_memory import Memory
from tede._device_streams import Streams

loaded = {}


class DeviceModule(types.ModuleType, Memory, Streams, Graphs):
    """What torch.cuda is for a program, for a device that was loaded."""

    def __init__(self, name):
        super().__init__(f"tede.{name}", f"The device {name!r}.")
        self._name = name
        self._counted = {}                              # what the statistics were when they were last reset, by index
        self.Stream, self.Event = self._stream_class(), self._event_class()
        self.CUDAGraph, self.graph = self._graph_class(), self._graph_context()
        self.amp = _amp(name)
        self.random = self.memory = self                # PyTorch's modules of these names

    def _of(self, device):
        if device is None:
            return f"{self._name}:{_C._device_current(self._name)}"
        if isinstance(device, int):
            return f"{self._name}:{device}"
        device = tede.device(device)
        if device.type != self._name:
            raise ValueError(f"Expected a {self._name} device, but got: {device}")
        return device

    def is_available(self):
        return _C._device_count(self._name) > 0

    is_initialized = is_available

    def init(self):
        """Nothing: a device is started when it is loaded."""

    _lazy_init = init

    def device_count(self):
        return _C._device_count(self._name)

    def current_device(self):
        return _C._device_current(self._name)

    def set_device(self, device):
        """`device` becomes the one that is meant without an index, on this thread. Negative indices change nothing."""
        if not isinstance(device, int) or device >= 0:
            _C._device_set_current(self._of(device))

    def synchronize(self, device=None):
        """Wait for all work that was queued on the device."""
        _C._device_synchronize(self._of(device))

    def get_device_properties(self, device=None):
        """Its name, total_memory, multi_processor_count and what else the device says of itself."""
        return types.SimpleNamespace(**_C._device_properties(self._of(device)))

    def get_device_name(self, device=None):
        return self.get_device_properties(device).name

    def get_device_capability(self, device=None):
        properties = self.get_device_properties(device)
        return properties.major, properties.minor

    def get_amp_supported_dtype(self):
        return [_C.float16, _C.bfloat16]

    def is_bf16_supported(self, including_emulation=True):
        return True

    # ---- random numbers

    def _generator(self, device=None):
        return _C._device_generator(self._of(device))

    @property
    def default_generators(self):
        return tuple(self._generator(index) for index in range(self.device_count()))

    def manual_seed(self, seed):
        self._generator().manual_seed(seed)

    def manual_seed_all(self, seed):
        for generator in self.default_generators:
            generator.manual_seed(seed)

    def seed(self):
        self._generator().seed()

    def seed_all(self):
        self.manual_seed_all(self._generator(0).seed())

    def initial_seed(self):
        return self._generator().initial_seed()

    def get_rng_state(self, device=None):
        return self._generator(device).get_state()

    def get_rng_state_all(self):
        return [generator.get_state() for generator in self.default_generators]

    def set_rng_state(self, new_state, device=None):
        self._generator(device).set_state(new_state)

    def set_rng_state_all(self, new_states):
        for generator, state in zip(self.default_generators, new_states):
            generator.set_state(state)

    def _is_in_bad_fork(self):
        return False

    # ---- the current index, for a while

    @property
    def device(self):
        """A context manager: within it the device without an index is this one."""
        module = self

        class device:
            def __init__(self, device):
                index = device if isinstance(device, int) or device is None else tede.device(device).index
                self.idx = -1 if index is None else index

            def __enter__(self):
                self.before = module.current_device()
                module.set_device(self.idx)
                return self

            def __exit__(self, *exception):
                module.set_device(self.before)
                return False

        return device

    @property
    def device_of(self):
        """A context manager: within it the device without an index is the tensor's, if that is on this kind of device."""
        module, context = self, self.device

        class device_of(context):
            def __init__(self, obj):
                super().__init__(obj.device if obj.device.type == module._name else None)

        return device_of


def _amp(name):
    """tede.<name>.amp: autocast and GradScaler that know their device."""
    from tede import amp
    module = types.ModuleType(f"tede.{name}.amp", "Mixed precision on the device.")

    class autocast(amp.autocast):
        def __init__(self, enabled=True, dtype=None, cache_enabled=True):
            super().__init__(name, dtype=dtype, enabled=enabled, cache_enabled=cache_enabled)

    class GradScaler(amp.GradScaler):
        def __init__(self, *args, **kwargs):
            super().__init__(name, *args, **kwargs)

    module.autocast, module.GradScaler = autocast, GradScaler
    return module


def load_device(path):
    """Load a device from a shared library (see <tede/device.h>); returns its module, which is tede.<name> from then on.

    ``"opencl"`` and ``"cuda"`` come with tede; another name stands for <name>.so in a folder of ``TEDE_DEVICE_PATH``; all else is a path.
    Tensors and modules get a method of the device's name, as they have .cuda(), and tensors ``is_<name>``."""
    return loaded[_C._device_load(path)]


def _finish(module, process):
    """What was asked of a device is done before the program ends: threads of its driver may still compile and run what the destructors of its libraries
    take away. A child of fork() has no such threads."""
    if os.getpid() == process:
        with contextlib.suppress(Exception):        # there is nobody left to tell
            for index in range(module.device_count()):
                module.synchronize(index)


def add_module(name):
    """What Python has of a device. Called once it is loaded, which its first use does, too."""
    module = loaded[name] = DeviceModule(name)
    sys.modules[f"tede.{name}"] = module
    setattr(tede, name, module)
    atexit.register(_finish, module, os.getpid())

    def move(self, device=None, non_blocking=False, **kwargs):
        return self.to(module._of(device), non_blocking=non_blocking, **kwargs)

    def move_module(self, device=None):
        return self._apply(lambda x: x.to(module._of(device)))

    move.__name__ = move_module.__name__ = name
    move.__doc__ = f"The tensor on device `device` of {name}, a number or a device; None: the current one. As ``to`` does it."
    move_module.__doc__ = f"Moves all parameters and buffers to device `device` of {name}; None: the current one. Returns the module."
    if not hasattr(tede.Tensor, f"is_{name}") or name in _KNOWN:
        setattr(tede.Tensor, name, move)
        setattr(tede.Tensor, f"is_{name}", property(lambda self: self.device.type == name))
        setattr(tede.nn.Module, name, move_module)


_KNOWN = "cuda", "xpu", "mps", "hpu", "ipu", "mtia", "vulkan", "xla"         # names that PyTorch has methods for, which refuse until now


def _register_device_module(device_type, module):
    """PyTorch's devices get their modules by it. Here one comes with the device; another can't replace it, as there."""
    kind = tede.device(device_type).type
    if hasattr(tede, kind):
        raise RuntimeError(f"The runtime module of '{kind}' has already been registered with '{getattr(tede, kind)}'")
    setattr(tede, kind, module)
    sys.modules[f"tede.{kind}"] = module


def only():
    """The device behind tede.accelerator: the first that was loaded, or None."""
    return next(iter(loaded.values()), None)
