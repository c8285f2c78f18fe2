"""Backends by name: what each is called, which devices' tensors it moves, whether its engine is there, how long its calls may take."""
import os
from datetime import timedelta

from tede import _C
from tede.distributed._group import FakeProcessGroup, ProcessGroup
from tede.distributed.constants import default_pg_nccl_timeout, default_pg_timeout


class Backend(str):
    """A backend's name, in lower case."""
    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL}
    backend_capability = {GLOO: ["cpu", "cuda"], NCCL: ["cuda"], UCC: ["cpu", "cuda"], MPI: ["cpu", "cuda"], XCCL: ["xpu"], FAKE: ["cpu", "cuda"]}
    backend_type_map = {UNDEFINED: ProcessGroup.BackendType.UNDEFINED, GLOO: ProcessGroup.BackendType.GLOO, NCCL: ProcessGroup.BackendType.NCCL,
                        XCCL: ProcessGroup.BackendType.XCCL, UCC: ProcessGroup.BackendType.UCC, MPI: ProcessGroup.BackendType.MPI,
                        FAKE: ProcessGroup.BackendType.CUSTOM}
    _plugins = {}

    class _BackendPlugin:
        def __init__(self, creator_fn, extended_api):
            self.creator_fn, self.extended_api = creator_fn, extended_api

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError("Backend constructor parameter must be string-ish")
        value = getattr(Backend, name.upper(), Backend.UNDEFINED)
        return str.__new__(cls, name.lower() if value == Backend.UNDEFINED else value)

    @classmethod
    def register_backend(cls, name, func, extended_api=False, devices=None):
        """Let groups of this name be made by func(store, rank, size, timeout), or, with extended_api, by func(options, backend options)."""
        if name.lower() != cls.FAKE and hasattr(cls, name.upper()):
            raise AssertionError(f"{name.upper()} c10d backend already exist")
        if name.upper() in cls._plugins and name.lower() != cls.FAKE:
            raise AssertionError(f"{name.upper()} c10d backend creator function already exist")
        setattr(cls, name.upper(), name.lower())
        if name.lower() not in cls.backend_list:
            cls.backend_list.append(name.lower())
        devices = ["cpu", "cuda"] if devices is None else [devices] if isinstance(devices, str) else list(devices)
        for device in devices if len(devices) and name.lower() != cls.FAKE else ():
            if device not in ("cpu", "cuda"):
                cls.default_device_backend_map[device] = name.lower()
        cls.backend_type_map[name.lower()] = ProcessGroup.BackendType.CUSTOM
        cls.backend_capability[name.lower()] = devices
        cls._plugins[name.upper()] = cls._BackendPlugin(func, extended_api)


# Groups whose calls do nothing, as tests of what is made of groups use them.
Backend._plugins["FAKE"] = Backend._BackendPlugin(lambda store, rank, size, timeout: FakeProcessGroup(rank, size), False)


class BackendConfig:
    """A backend's name for each type of device: "cpu:gloo,cuda:nccl", or one for all that it knows."""

    def __init__(self, backend):
        self.device_backend_map = {}
        text = str(backend)
        if text == Backend.UNDEFINED:
            self.device_backend_map = {device: Backend(name) for device, name in Backend.default_device_backend_map.items()}
        elif ":" in text:
            for pair in text.lower().split(","):
                device, colon, name = pair.partition(":")
                if not colon or not device or not name or ":" in name:
                    raise ValueError(f"The custom backend string argument is invalid: {text}.\n Custom backend string is an experimental feature where the "
                                     "backend string must be in the format:\n \"<device_type1>:<backend1>,<device_type2>:<backend2>...\". e.g. 'cpu:gloo,cuda:nccl'")
                if device in self.device_backend_map:
                    raise ValueError(f"Duplicate device type {device}                              in backend string: {text}. "
                                     "Each device type should only appear once.")
                self.device_backend_map[device] = Backend(name)
        else:
            devices = Backend.backend_capability.get(text.lower(), ["cpu", "cuda"])
            self.device_backend_map = {device: Backend(text) for device in devices}

    def __repr__(self):
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())

    def get_device_backend_map(self):
        return self.device_backend_map


_ENGINES = {"gloo": "mpi", "mpi": "mpi", "nccl": "nccl"}


def is_mpi_available():
    """Whether there is the engine that calls an MPI; the MPI itself is opened when a group is made."""
    return _C._group_engine_there("mpi")


def is_gloo_available():
    """The name stands for the engine of CPUs, which is an MPI's."""
    return is_mpi_available()


def is_nccl_available():
    return _C._group_engine_there("nccl")


def is_ucc_available():
    return False


def is_xccl_available():
    return False


def is_backend_available(backend):
    check = globals().get(f"is_{backend.lower()}_available")
    return check() if check is not None else backend.lower() in Backend.backend_list


def is_torchelastic_launched():
    """Whether `torchrun` or python -m tede.distributed.run has started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_default_backend_for_device(device):
    name = device if isinstance(device, str) else device.type
    name = name.partition(":")[0]
    backend = Backend.default_device_backend_map.get(name)
    if backend is None:
        raise ValueError(f"Default backend not registered for device : {device}")
    return backend


def _get_default_timeout(backend):
    return default_pg_nccl_timeout if backend == Backend.NCCL else default_pg_timeout


def _check_valid_timeout(timeout):
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
