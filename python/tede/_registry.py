"""The registry of kernels written in Python, by operator and dispatch key; kernels may be registered before their operator is defined."""
from tede import _C

_NUMBERS = {name: number for number, name in _C._key_names().items()}
KEYS = {name: _NUMBERS[own] for name, own in (
    ("Python", "Python"), ("Negative", "Negative"), ("Conjugate", "Conjugate"), ("Autograd", "Autograd"), ("AutogradCPU", "Autograd"),
    ("Tracer", "Tracing"), ("Autocast", "Autocast"), ("AutocastCPU", "Autocast"), ("Functionalize", "Functionalize"),
    ("FuncTorchBatched", "Transforms"))}
DENSE = _NUMBERS["Dense"]
DEVICES = {"CPU": 0, "Meta": 1, "CUDA": 2, "OpenCL": 3, "PrivateUse1": 4}
_DEFAULTS = ("", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def key_of(dispatch_key):
    """(key, device) for the core: key -1 is the default for all devices; "CPU" is the strided layout's, "SparseCPU" another one's."""
    name = getattr(dispatch_key, "name", dispatch_key)
    if name in _DEFAULTS:
        return -1, 0
    if KEYS.get(name) is not None:
        return KEYS[name], 0
    if name in DEVICES:
        return DENSE, DEVICES[name]
    type_of = getattr(_C, "_device_type", None)         # a device that was loaded: its name is the key's
    if isinstance(name, str) and type_of and type_of(name) > 1:
        return DENSE, type_of(name)
    layouts = {title: number for number, title in _C._key_names().items()}      # those that libraries have registered, too
    for device, number in DEVICES.items():              # a layout's title before the device
        key = layouts.get(name.removesuffix(device), -1) if isinstance(name, str) and name.endswith(device) else -1
        if DENSE < key < layouts["Python"]:
            return key, number
    raise RuntimeError(f"could not parse dispatch key: {name}")


made_by_libraries = set()       # full names of the operators that tede.library defined
kernels = {}        # (full name, key) -> the callable
waiting = {}        # full name -> the kernels that came before their operator
data_sizes = []     # while fake kernels run: functions (least, most) that make a size that data decides, the innermost last
early = {}          # kernels of operators that aren't defined yet: full name -> [(key, function)]


def fallthrough_kernel():
    """Given to Library.impl in place of a kernel: the key has nothing to say."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


# Keys of what isn't here: a kernel for one of them is accepted, and no call ever has the key.
NEVER = frozenset(f"{kind}{device}" for kind in ("", "Autograd", "Autocast") for device in ("CUDA", "XPU", "MPS", "HPU", "XLA", "IPU", "MTIA")
                   if kind or device != "CUDA") | {"ZeroTensor", "QuantizedCPU", "QuantizedCUDA", "SparseCUDA", "SparseCsrCUDA"}


def register(full, key, function):
    if getattr(key, "name", key) in NEVER:
        kernels[full, key] = function
        return
    number, device = key_of(key)
    around = function is fallthrough_kernel and number > DENSE        # a key of what runs around kernels
    if function is fallthrough_kernel:
        function = None
    try:
        if around:
            _C._register_fallthrough(full, number)
        else:
            _C._register_boxed(full, number, device, function)
    except ValueError:          # kernels may come before the operator, or without it: a package whose binary can't be loaded
        waiting.setdefault(full, []).append((key, function))
        return
    kernels[full, key] = function


def register_soon(full, key, function):
    space, _, name = full.partition("::")
    if name.partition(".")[0] and full.partition(".")[0] and not _C._overloads(space, name.partition(".")[0]):
        getattr(key, "name", key) in NEVER or key_of(key)
        early.setdefault(full, []).append((key, function))
    else:
        register(full, key, function)


def for_all_devices(full):
    """The operator's kernel in Python for all devices, or None."""
    return next((kernels[full, key] for key in _DEFAULTS if (full, key) in kernels), None)


def has_kernel(full, key):
    """Whether an operator has a specific kernel for a key, given in Python or built in."""
    full, key = full.removesuffix(".default"), getattr(key, "name", key)
    if (full, key) in kernels:
        return True
    if key in NEVER or key in _DEFAULTS:
        return False
    number, device = key_of(key)
    if number > DENSE and full in made_by_libraries:
        return False            # what the core puts there stands for the lack of one
    return _C._has_kernel(full, number, device)
