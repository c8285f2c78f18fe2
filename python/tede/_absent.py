"""Modules that tede doesn't have, whose names programs import nevertheless: whatever is used of them says so.

A program that imports torch.ao.quantization at its top, and never quantizes, runs. `MODULES` lists the subtrees and why they
aren't there; a module that a program looks for to see whether a feature exists (torch._inductor) must not be listed.
"""
import sys

_GROUPS = "there are no process groups here (torch.distributed.is_available() is False)"
_QUANTIZED = "there are no quantized dtypes here"
MODULES = {
    "ao": _QUANTIZED, "quantization": _QUANTIZED, "nn.quantized": _QUANTIZED, "nn.quantizable": _QUANTIZED,
    "nn.qat": _QUANTIZED, "nn.intrinsic": _QUANTIZED,
    "distributed": _GROUPS,
    "utils.cpp_extension": "extensions of PyTorch's C++ library can't be built; tede has a C API (docs/c-api.md)",
    "utils.mobile_optimizer": "programs can't be packed for mobile phones",
    "utils.mkldnn": "there are no oneDNN layouts here", "jit._recursive": "there is no TorchScript here",
    "utils.throughput_benchmark": "it runs exported programs only",
    "monitor": "there are no counters and events to monitor here; tede.profiler tells what ran",
    "cuda.comm": "no GPU is there", "cuda.nccl": "no GPU is there", "cuda.profiler": "no GPU is there",
    "sparse.semi_structured": "there are no semi-structured layouts here", "classes": "there are no classes of C++ here",
    "package": "programs can't be packed; save the module's state_dict with torch.save",
    "export": "programs can't be exported as graphs; save the module's state_dict instead",
}
# Modules that come with their package: programs name what they hold without importing them.
WITHIN = frozenset(f"distributed.{name}" for name in ("algorithms", "autograd", "constants", "device_mesh", "distributed_c10d",
                                                       "rpc", "utils"))
# What is a module wherever it stands in these subtrees; all other names there are functions and classes.
_QUANTIZATION = frozenset(("nn", "quantization", "intrinsic", "qat", "quantizable", "quantized", "dynamic", "modules", "reference", "sparse",
                           "functional", "fake_quantize", "fuser_method_mappings", "observer", "qconfig", "qconfig_mapping",
                           "quant_type", "quantization_mappings", "stubs", "utils"))
_DISTRIBUTED = frozenset(("_composable", "_shard", "_sharded_tensor", "_sharding_spec", "_state_dict_utils", "_symmetric_memory", "_tensor", "_tools",
                          "algorithms", "argparse_util", "autograd", "c10d_logger", "checkpoint", "collective_utils", "constants", "debug",
                          "device_mesh", "distributed_c10d", "elastic", "fsdp", "launch", "launcher", "logging_handlers", "nn", "optim",
                          "pipelining", "remote_device", "rendezvous", "rpc", "run", "tensor", "utils"))
PACKAGES = {"ao": _QUANTIZATION, "quantization": _QUANTIZATION, "distributed": _DISTRIBUTED}
# Names by which programs see whether the modules above do something.
WITHOUT = frozenset(("distributed.rpc.api",))


def _package():
    """The name under which the package was imported."""
    return sys.modules["tede"].__name__


def refusing(name, says):
    """A function that raises NotImplementedError."""
    def refuse(*args, **kwargs):
        raise NotImplementedError(f"{name}: {says}")
    refuse.__name__ = refuse.__qualname__ = name.rpartition(".")[2]
    return refuse


def module(name, says, classes=()):
    """The __getattr__ of a module all of whose names raise NotImplementedError when they are called."""
    def absent(attribute):
        refuse = refusing(f"torch.{name}.{attribute}", says)
        if attribute in classes or (attribute[0].isupper() and not attribute.isupper()):
            return type(attribute, (), {"__new__": refuse, "__module__": f"tede.{name}"})
        return refuse

    def getattr_(attribute):
        if attribute.startswith("__"):
            raise AttributeError(f"module '{_package()}.{name}' has no attribute '{attribute}'")
        inner = f"{name}.{attribute}"
        if inner in WITHOUT:
            raise AttributeError(f"module '{_package()}.{name}' has no attribute '{attribute}'")
        if attribute in ("is_available", "is_initialized"):
            return lambda: False
        is_module = inner in MODULES or inner in WITHIN or attribute in PACKAGES.get(name.partition(".")[0], ())
        value = there[attribute] = find(inner) if is_module else absent(attribute)
        return value
    there = {}
    return lambda attribute: there[attribute] if attribute in there else getattr_(attribute)


def find(path):
    """The module of a path ("ao.quantization") that lies in an absent subtree, else None."""
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        if ".".join(parts[:n]) in MODULES:
            name = "tede." + path
            if name not in sys.modules:
                made = type(sys)(name, f"Not there: {MODULES['.'.join(parts[:n])]}.")
                made.__getattr__, made.__path__ = module(path, MODULES[".".join(parts[:n])]), []
                sys.modules[name] = made
            return sys.modules[name]
    return None
