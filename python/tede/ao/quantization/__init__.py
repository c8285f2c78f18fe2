"""Quantization of models layer by layer: observers, fake quantization, and the functions that exchange layers.

    model.qconfig = get_default_qconfig()
    prepared = prepare(model)               # run it on some data
    quantized = convert(prepared)

    quantize_dynamic(model, {nn.Linear, nn.LSTM}, dtype=tede.qint8)         # no data needed
"""
from tede._compat import fill

# Observers and qconfigs come first: layers need them, and are needed by the rest.
from . import fake_quantize, observer, qconfig, qconfig_mapping, quant_type, stubs, utils  # noqa: F401
from .fake_quantize import *  # noqa: F403
from .observer import *  # noqa: F403
from .observer import _PartialWrapper  # noqa: F401
from .qconfig import *  # noqa: F403
from .qconfig_mapping import *  # noqa: F403
from .quant_type import *  # noqa: F403
from .stubs import *  # noqa: F403
from . import fuser_method_mappings, quantization_mappings  # noqa: F401, I001
from .fuse_modules import *  # noqa: F403
from .fuser_method_mappings import *  # noqa: F403
from .quantization_mappings import *  # noqa: F403
from .quantization_mappings import _get_special_act_post_process, _has_special_act_post_process  # noqa: F401
from .utils import get_combined_dict  # noqa: F401
from .quantize import *  # noqa: F403

ObserverOrFakeQuantize = observer.ObserverBase | fake_quantize.FakeQuantizeBase


def default_eval_fn(model, calib_data):
    """Runs a model on pairs of data and target."""
    for data, _ in calib_data:
        model(data)


__all__ = [name for name in globals() if not name.startswith("_") and name != "fill"]
# What PyTorch lists besides is of quantization by graphs; it isn't there, and says so when it is used.
__all__ += """AffineQuantizedObserverBase Granularity MappingType MatchAllNode Pattern PerAxis PerBlock PerGroup PerRow PerTensor
    PerToken TorchAODType ZeroPointDomain convert_dynamic_jit convert_jit fuse_conv_bn_jit get_block_size
    get_default_static_quant_reference_module_mappings prepare_dynamic_jit prepare_jit quantize_dynamic_jit quantize_jit
    script_qconfig script_qconfig_dict""".split()
fill(globals())
