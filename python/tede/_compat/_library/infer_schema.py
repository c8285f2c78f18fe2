"""Schemas from annotations; see tede.library."""
import typing

import tede
from tede.library import _annotations, infer_schema, tuple_to_list  # noqa: F401

SUPPORTED_PARAM_TYPES = _annotations()
SUPPORTED_RETURN_TYPES = {tede.Tensor: "Tensor", typing.List[tede.Tensor]: "Tensor[]", list[tede.Tensor]: "Tensor[]", int: "SymInt",
                          float: "float", bool: "bool", int | float | bool: "Scalar"}
