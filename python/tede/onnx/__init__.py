"""torch.onnx: models written as ONNX (see _export.py, and Note [onnx] in _rules.py for what an operator becomes)."""
from enum import Enum

from tede._compat import fill as _fill
from tede._tracing import is_in_onnx_export

__all__ = ["ExportableModule", "InputObserver", "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TrainingMode", "errors", "export",
           "is_in_onnx_export", "ops"]


class TrainingMode(Enum):
    """Accepted: models are exported for evaluation."""
    EVAL, PRESERVE, TRAINING = range(3)


class OperatorExportTypes(Enum):
    """Accepted: operators are ONNX's."""
    ONNX, ONNX_ATEN, ONNX_ATEN_FALLBACK, ONNX_FALLTHROUGH = range(4)


class OnnxExporterError(RuntimeError):
    """What PyTorch's exporter raises; here for filters."""


def __getattr__(name):
    if name in ("export", "ONNXProgram"):
        from tede.onnx import _export
        return getattr(_export, name)
    return _find(name)


_find = _fill(globals())
