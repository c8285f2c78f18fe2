"""Names for the types of sizes, as annotations use them."""
from typing import Optional, Tuple, TypeVar, Union

from ._native import T as _T

Tensor = _T.Tensor
T = TypeVar("T")


def _one_or(n, kind):
    return Union[(kind, Tuple[(kind,) * n])]


_size_any_t = Union[int, Tuple[int, ...]]
_size_1_t, _size_2_t, _size_3_t, _size_4_t, _size_5_t, _size_6_t = (_one_or(n, int) for n in range(1, 7))
_size_any_opt_t = Union[Optional[int], Tuple[Optional[int], ...]]
_size_2_opt_t, _size_3_opt_t = (_one_or(n, Optional[int]) for n in (2, 3))
_ratio_any_t = Union[float, Tuple[float, ...]]
_ratio_2_t, _ratio_3_t = (_one_or(n, float) for n in (2, 3))
_tensor_list_t = Union[Tensor, list]
_maybe_indices_t = Union[Tensor, Tuple[Tensor, Tensor]]
