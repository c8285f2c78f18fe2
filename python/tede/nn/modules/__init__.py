"""The layers, one file per family. A family is loaded when one of its layers is first named: importing `nn` is cheap.

The table says which file holds what.
"""
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:       # what __getattr__ gives, for those who read without running
    from typing import Any
    from .activation import *  # noqa: F403
    from .adaptive import *  # noqa: F403
    from .attention import *  # noqa: F403
    from .batchnorm import *  # noqa: F403
    from .channelshuffle import *  # noqa: F403
    from .container import *  # noqa: F403
    from .conv import *  # noqa: F403
    from .distance import *  # noqa: F403
    from .dropout import *  # noqa: F403
    from .flatten import *  # noqa: F403
    from .fold import *  # noqa: F403
    from .instancenorm import *  # noqa: F403
    from .linear import *  # noqa: F403
    from .linear_cross_entropy_options import *  # noqa: F403
    from .loss import *  # noqa: F403
    from .module import *  # noqa: F403
    from .normalization import *  # noqa: F403
    from .padding import *  # noqa: F403
    from .pixelshuffle import *  # noqa: F403
    from .pooling import *  # noqa: F403
    from .rnn import *  # noqa: F403
    from .sparse import *  # noqa: F403
    from .transformer import *  # noqa: F403
    from .upsampling import *  # noqa: F403

_FAMILIES = {
    "activation":
        "CELU ELU GELU GLU SELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish "
        "PReLU ReLU ReLU6 RReLU Sigmoid SiLU Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink "
        "Threshold",
    "adaptive":
        "AdaptiveLogSoftmaxWithLoss",
    "attention":
        "MultiheadAttention",
    "batchnorm":
        "BatchNorm1d BatchNorm2d BatchNorm3d LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d SyncBatchNorm",
    "channelshuffle":
        "ChannelShuffle",
    "container":
        "Container ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "conv":
        "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d LazyConv1d LazyConv2d LazyConv3d "
        "LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d",
    "distance":
        "CosineSimilarity PairwiseDistance",
    "dropout":
        "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "flatten":
        "Flatten Unflatten",
    "fold":
        "Fold Unfold",
    "instancenorm":
        "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d",
    "linear":
        "Bilinear Identity LazyLinear Linear",
    "linear_cross_entropy_options":
        "LinearCrossEntropyOptions",
    "loss":
        "BCELoss BCEWithLogitsLoss CosineEmbeddingLoss CrossEntropyLoss CTCLoss GaussianNLLLoss HingeEmbeddingLoss "
        "HuberLoss KLDivLoss L1Loss LinearCrossEntropyLoss MarginRankingLoss MSELoss MultiLabelMarginLoss "
        "MultiLabelSoftMarginLoss MultiMarginLoss NLLLoss NLLLoss2d PoissonNLLLoss SmoothL1Loss SoftMarginLoss "
        "TripletMarginLoss TripletMarginWithDistanceLoss",
    "module":
        "Module",
    "normalization":
        "CrossMapLRN2d GroupNorm LayerNorm LocalResponseNorm RMSNorm",
    "padding":
        "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d "
        "ReflectionPad2d ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d "
        "ZeroPad3d",
    "pixelshuffle":
        "PixelShuffle PixelUnshuffle",
    "pooling":
        "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d "
        "AdaptiveMaxPool3d AvgPool1d AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d "
        "LPPool3d MaxPool1d MaxPool2d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d",
    "rnn":
        "GRU LSTM RNN GRUCell LSTMCell RNNBase RNNCell RNNCellBase",
    "sparse":
        "Embedding EmbeddingBag",
    "transformer":
        "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer",
    "upsampling":
        "Upsample UpsamplingBilinear2d UpsamplingNearest2d",
}
_HOME = {name: family for family, names in _FAMILIES.items() for name in names.split()}
__all__ = sorted(_HOME)


def _load(name):
    """The module of that name below this package."""
    __import__(f"{__name__}.{name}")
    return sys.modules[f"{__name__}.{name}"]


def __getattr__(name: str) -> "Any":
    if name in _HOME:
        value = globals()[name] = getattr(_load(_HOME[name]), name)
        return value
    if name in _FAMILIES or name in ("lazy", "utils"):
        return _load(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return [*__all__, *_FAMILIES]
