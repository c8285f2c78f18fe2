"""Legacy type names of tensors and storages by dtype: FloatTensor, LongStorage, ..."""

from tede import _C

TITLES = {"bool": "Bool", "uint8": "Byte", "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long",
          "float16": "Half", "bfloat16": "BFloat16", "float32": "Float", "float64": "Double",
          "complex64": "ComplexFloat", "complex128": "ComplexDouble", "uint16": "UInt16", "uint32": "UInt32",
          "uint64": "UInt64", "qint8": "QInt8", "quint8": "QUInt8", "qint32": "QInt32", "quint4x2": "QUInt4x2",
          "quint2x4": "QUInt2x4"}
# Class of a storage -> dtype; the unsigned ones came too late to have any.
STORAGES = {TITLES[name] + "Storage": name for name in (
    "float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "bfloat16", "complex128", "complex64", "qint8", "quint8", "qint32",
    "quint4x2", "quint2x4")}

# What a storage's elements of quantized tensors are when they are read as numbers.
INTEGERS = {"qint8": _C.int8, "quint8": _C.uint8, "qint32": _C.int32, "quint4x2": _C.uint8, "quint2x4": _C.uint8}


def short(dtype):
    """"float32" of tede.float32."""
    return str(dtype).rpartition(".")[2]
