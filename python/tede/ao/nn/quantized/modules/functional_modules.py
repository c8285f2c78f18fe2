"""Sums, products and concatenations as modules, so that what they give is observed, and is quantized with its own scale."""
import tede
from tede import nn

__all__ = ["FloatFunctional", "FXFloatFunctional", "QFunctional"]


class FXFloatFunctional(nn.Module):
    """The operators, on floats, unobserved."""

    def forward(self, x):
        raise RuntimeError(f"{type(self).__name__} is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x, y):
        return tede.add(x, y)

    def add_scalar(self, x, y):
        return tede.add(x, y)

    def mul(self, x, y):
        return tede.mul(x, y)

    def mul_scalar(self, x, y):
        return tede.mul(x, y)

    def cat(self, x, dim=0):
        return tede.cat(x, dim=dim)

    def add_relu(self, x, y):
        return tede.nn.functional.relu(tede.add(x, y))

    def matmul(self, x, y):
        return tede.matmul(x, y)


class FloatFunctional(nn.Module):
    """The operators, on floats; `activation_post_process` observes what they give."""

    def __init__(self):
        super().__init__()
        self.activation_post_process = nn.Identity()

    def forward(self, x):
        raise RuntimeError("FloatFunctional is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x, y):
        return self.activation_post_process(tede.add(x, y))

    def add_scalar(self, x, y):
        return tede.add(x, y)           # the range moves with the number: nothing is observed

    def mul(self, x, y):
        return self.activation_post_process(tede.mul(x, y))

    def mul_scalar(self, x, y):
        return tede.mul(x, y)

    def cat(self, x, dim=0):
        return self.activation_post_process(tede.cat(x, dim=dim))

    def add_relu(self, x, y):
        return self.activation_post_process(tede.nn.functional.relu(tede.add(x, y)))

    def matmul(self, x, y):
        return self.activation_post_process(tede.matmul(x, y))


class QFunctional(nn.Module):
    """The operators on quantized tensors."""

    def __init__(self):
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = nn.Identity()

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "scale"] = tede.tensor(self.scale)
        destination[prefix + "zero_point"] = tede.tensor(self.zero_point)

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        self.scale = float(state_dict.pop(prefix + "scale"))
        self.zero_point = int(state_dict.pop(prefix + "zero_point"))
        super()._load_from_state_dict(state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs)

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x):
        raise RuntimeError("Functional is not intended to use the 'forward'. Please use the underlying operation")

    def add(self, x, y):
        return self.activation_post_process(tede.ops.quantized.add(x, y, self.scale, self.zero_point))

    def add_scalar(self, x, y):
        return tede.ops.quantized.add_scalar(x, y)

    def mul(self, x, y):
        return self.activation_post_process(tede.ops.quantized.mul(x, y, self.scale, self.zero_point))

    def mul_scalar(self, x, y):
        return tede.ops.quantized.mul_scalar(x, y)

    def cat(self, x, dim=0):
        return self.activation_post_process(tede.ops.quantized.cat(x, dim, self.scale, self.zero_point))

    def add_relu(self, x, y):
        return self.activation_post_process(tede.ops.quantized.add_relu(x, y, self.scale, self.zero_point))

    def matmul(self, x, y):
        return self.activation_post_process(tede.ops.quantized.matmul(x, y, self.scale, self.zero_point))

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        if type(mod) is not FloatFunctional:
            raise AssertionError("QFunctional.from_float expects an instance of FloatFunctional")
        scale, zero_point = mod.activation_post_process.calculate_qparams()
        made = cls()
        made.scale, made.zero_point = float(scale), int(zero_point)
        return made
