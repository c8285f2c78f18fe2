"""Causal masks that aren't written out: `scaled_dot_product_attention` is passed such an object, which says which triangle of the scores
counts. The square one and the upper left one are `is_causal=True`; the lower right one becomes a mask of booleans."""
import warnings
from enum import IntEnum

import tede

__all__ = ["CausalBias", "CausalVariant", "causal_lower_right", "causal_upper_left"]


class CausalVariant(IntEnum):
    """To which corner of the (L, S) scores the triangle is aligned; of square scores they are the same."""
    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(tede.Tensor):
    """A causal mask of L queries and S keys, as `attn_mask` of `scaled_dot_product_attention`.

    Other operators see memory that nobody has written, as in PyTorch. With more queries than keys, the first rows of LOWER_RIGHT attend to nothing and
    are NaN, which warns."""

    def __init__(self, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant).__name__}")
        super().__init__()
        self.variant, self.seq_len_q, self.seq_len_kv = variant, seq_len_q, seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            warnings.warn("Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=2)

    def _materialize(self, device=None):
        """The mask as a tensor of booleans, (L, S), true where a query attends."""
        ones = tede.ones(self.seq_len_q, self.seq_len_kv, device=device or "cpu", dtype=tede.bool)
        lower = self.variant == CausalVariant.LOWER_RIGHT
        return tede.tril(ones, diagonal=self.seq_len_kv - self.seq_len_q if lower else 0)

    @staticmethod
    def _dispatch(query, key, value, attn_mask, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
        if is_causal:
            raise ValueError("CausalBias should not be used with causal=True")
        plain = attn_mask.seq_len_q == attn_mask.seq_len_kv or attn_mask.variant == CausalVariant.UPPER_LEFT
        mask = None if plain else attn_mask._materialize(query.device)
        return tede.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout_p, is_causal=plain,
                                                               scale=scale, enable_gqa=enable_gqa)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is tede.nn.functional.scaled_dot_product_attention:
            return cls._dispatch(*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)

    def __repr__(self):
        return repr(self._materialize())


def _of(variant, name, size):
    if len(size) != 2:
        raise AssertionError(f"{name} only supports 2D tensors")
    return CausalBias(variant, *size)


def causal_upper_left(*size):
    """A causal mask of `size` (L, S) whose triangle starts in the upper left corner, as `is_causal=True` has it."""
    return _of(CausalVariant.UPPER_LEFT, "causal_upper_left", size)


def causal_lower_right(*size):
    """A causal mask of `size` (L, S) whose triangle ends in the lower right corner: the queries are the last L of the S positions."""
    return _of(CausalVariant.LOWER_RIGHT, "causal_lower_right", size)
