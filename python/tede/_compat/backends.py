"""Switches of libraries beneath PyTorch. Those of cuDNN and cuBLAS are what the device "cuda" goes by; of the others what may be set is kept and changes
nothing."""
from contextlib import contextmanager
from types import ModuleType
import sys

from tede import _C
from tede._compat import fill as _fill


def _flag(bit, inverted=False):
    return bool(_C._library_flags() & bit) != inverted


def _set_flag(bit, inverted, value):
    flags = _C._library_flags()
    _C._set_library_flags(flags | bit if bool(value) != inverted else flags & ~bit)


_frozen = False            # flags change within flags() alone


class _Module(ModuleType):
    """A module whose flags can't be set once disable_global_flags() was called."""

    _flag_names = ()
    _bits = {}              # flag: (bit of td_library_flag, whether it is set where the flag is False)

    def __getattr__(self, name):
        if name not in self._bits:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return _flag(*self._bits[name])

    def _set(self, name, value):
        if name in self._bits:
            _set_flag(*self._bits[name], value)
        else:
            super().__setattr__(name, value)

    def __setattr__(self, name, value):
        if _frozen and name in self._flag_names:
            raise RuntimeError(f"not allowed to set torch.backends.{self.__name__.rpartition('.')[2]} flags after "
                               "disable_global_flags; please use flags() context manager instead")
        self._set(name, value)


def disable_global_flags():
    """From here on a flag is set by ``with torch.backends.cudnn.flags(...)`` alone; assigning one is a RuntimeError."""
    global _frozen
    _frozen = True


def flags_frozen():
    """Whether disable_global_flags() was called."""
    return _frozen


@contextmanager
def __allow_nonbracketed_mutation():
    """Within it flags may be assigned, whatever disable_global_flags() said; programs reach for it by this name."""
    global _frozen
    before, _frozen = _frozen, False
    try:
        yield
    finally:
        _frozen = before


def _module(name, doc, **content):
    """A submodule whose attributes are plain values and functions."""
    module = _Module(f"tede.backends.{name}", doc)
    module.__dict__.update(content)
    sys.modules[module.__name__] = module
    return module


def _false(*args, **kwargs):
    return False


class _Values:
    """Attributes that may be set."""

    def __init__(self, **values):
        self.__dict__.update(values)


def _flags_of(module, names):
    @contextmanager
    def flags(*args, **kwargs):
        values = dict(zip(names, args)) | kwargs
        before = {name: getattr(module, name) for name in values if hasattr(module, name)}
        for name, value in values.items():
            module._set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                module._set(name, value)

    def set_flags(*args, **kwargs):
        values = dict(zip(names, args)) | kwargs
        before = tuple(getattr(module, name, None) for name in names)
        for name, value in values.items():
            if value is not None:
                module._set(name, value)
        return before
    module.flags, module.set_flags = flags, set_flags
    vars(module)["_flag_names"] = frozenset(names)


class _Switches(_Values):
    """The same, of which some are bits of td_library_flag."""

    def __init__(self, bits, **values):
        self.__dict__.update(values, _bits=bits)

    def __getattr__(self, name):
        if name not in self._bits:
            raise AttributeError(name)
        return _flag(self._bits[name])

    def __setattr__(self, name, value):
        if name in self._bits:
            _set_flag(self._bits[name], False, value)
        else:
            super().__setattr__(name, value)


def _cudnn_version():
    """As cuDNN counts, or None where the device "cuda" has none."""
    return cudnn.is_available() and _C._library_version("cuda", "cudnn") or None


def _cudnn_available():
    import tede
    return tede.cuda.is_available() and _C._library_version("cuda", "cudnn") > 0


def _cudnn_acceptable(tensor):
    """Whether convolutions of such tensors are cuDNN's."""
    return cudnn.enabled and tensor.device.type == "cuda" and tensor.dtype in (
        _C.float16, _C.bfloat16, _C.float32, _C.float64) and cudnn.is_available()


class _Quantized(ModuleType):
    """Which library's limits qconfigs keep to; products of integers are the library's own."""
    supported_engines = ["fbgemm", "x86"]
    engine = property(lambda self: self.__dict__["_engine"])

    def __setattr__(self, name, value):
        if name == "engine":
            if value not in self.supported_engines:
                raise RuntimeError(f"quantized engine {value} is not supported")
            name = "_engine"
        self.__dict__[name] = value


quantized = sys.modules["tede.backends.quantized"] = _Quantized("tede.backends.quantized", "Products of quantized tensors.")
quantized.engine = "x86"

# The bits are those of td_library_flag in <tede/device.h>.
cudnn = _module("cudnn", "Convolutions on the device \"cuda\".", benchmark_limit=10, fp32_precision="none", is_available=_cudnn_available,
                version=_cudnn_version, is_acceptable=_cudnn_acceptable, conv=_Values(fp32_precision="none"), rnn=_Values(fp32_precision="none"),
                _bits={"enabled": (16, True), "benchmark": (32, False), "deterministic": (64, False), "allow_tf32": (8, False)})
_flags_of(cudnn, ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32"))
def _onednn_available():
    from tede._onednn import is_available
    return is_available()


class _Mkldnn(_Module):
    """oneDNN, which tensors of the mkldnn layout are for. While ``enabled`` is set it multiplies and convolves strided ones of bfloat16, too."""

    def _set(self, name, value):
        super()._set(name, value)
        if name == "enabled":
            from tede._onednn import use
            use(bool(value))


mkldnn = _module("mkldnn", _Mkldnn.__doc__, enabled=False, deterministic=False, allow_tf32=True, fp32_precision="none", is_available=_onednn_available,
                 is_acl_available=_false, VERBOSE_OFF=0, VERBOSE_ON=1, VERBOSE_ON_CREATION=2,
                 matmul=_Values(fp32_precision="none"), conv=_Values(fp32_precision="none"))
mkldnn.__class__ = _Mkldnn
_flags_of(mkldnn, ("enabled", "deterministic", "allow_tf32"))
cpu = _module("cpu", "The processor.", get_cpu_capability=lambda: {"v2": "DEFAULT", "v3": "AVX2", "v4": "AVX512"}.get(
    _C._cpu_capability().rpartition("-")[2], "DEFAULT"))
opt_einsum = _module("opt_einsum", "Products are contracted from left to right.", enabled=False, strategy=None,
                     is_available=_false, get_opt_einsum=lambda: None)
nnpack = _module("nnpack", "NNPACK isn't there.", is_available=_false)
_flags_of(nnpack, ("enabled",))


def _sdp(name):
    """A pair of functions that keep a switch of scaled_dot_product_attention, which has one implementation here."""
    def enabled():
        return _sdp_state[name]

    def enable(value):
        _sdp_state[name] = bool(value)
    return enabled, enable


_sdp_state = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


@contextmanager
def _sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    before = dict(_sdp_state)
    _sdp_state.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield {}
    finally:
        _sdp_state.update(before)


cuda = _module("cuda", "CUDA isn't there.", is_built=_false, cufft_plan_cache=_Values(size=0, max_size=0),
               matmul=_Switches({"allow_tf32": 1, "allow_fp16_reduced_precision_reduction": 2, "allow_bf16_reduced_precision_reduction": 4},
                                fp32_precision="none", allow_fp16_accumulation=False),
               preferred_linalg_library=lambda backend=None: "default", preferred_blas_library=lambda backend=None: "default",
               sdp_kernel=_sdp_kernel, is_flash_attention_available=_false, fp32_precision="none")
for _name in _sdp_state:
    setattr(cuda, _name + "_sdp_enabled", _sdp(_name)[0])
    setattr(cuda, f"enable_{_name}_sdp", _sdp(_name)[1])
del _name


def _set_fast_path(value):
    """Whether encoders and attention take nested tensors, and an encoder makes its input one where it is padded."""
    from tede.nn.modules import attention
    attention._fast_path = bool(value)


def _get_fast_path():
    """Whether they do."""
    from tede.nn.modules import attention
    return attention._fast_path


mha = _module("mha", "The path of nn.TransformerEncoder and nn.MultiheadAttention for nested tensors.", get_fastpath_enabled=_get_fast_path,
              set_fastpath_enabled=_set_fast_path)
_fill(globals())
