"""Kinds of quantization."""
import enum

__all__ = ["QuantType"]


class QuantType(enum.IntEnum):
    """What of a layer is quantized, and when the range of its activations is found."""
    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


def _get_quant_type_to_str(quant_type):
    return {QuantType.STATIC: "static", QuantType.DYNAMIC: "dynamic", QuantType.QAT: "qat", QuantType.WEIGHT_ONLY: "weight_only"}[quant_type]


def _quant_type_from_str(name):
    for kind in QuantType:
        if name == _get_quant_type_to_str(kind):
            return kind
    raise ValueError(f"Unknown QuantType name '{name}'")
