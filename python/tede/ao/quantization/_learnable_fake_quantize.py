"""Fake quantization with a scale and a zero point that are trained."""
import tede
from tede.nn.parameter import Parameter

from .fake_quantize import FakeQuantizeBase

__all__ = []


class _LearnableFakeQuantize(FakeQuantizeBase):
    """`scale` and `zero_point` are parameters.

    An observer keeps them up to date (`enable_static_estimate`, how it begins), or they are trained (`enable_param_learning`), or they stay
    and the observer goes on (`enable_static_observation`). With `use_grad_scaling` their gradients are divided by the root of how many
    elements there are times how many integers."""

    def __init__(self, observer, quant_min=0, quant_max=255, scale=1.0, zero_point=0.0, channel_len=-1, use_grad_scaling=False,
                 **observer_kwargs):
        super().__init__()
        if quant_min >= quant_max:
            raise AssertionError("quant_min must be strictly less than quant_max.")
        self.quant_min, self.quant_max, self.use_grad_scaling = quant_min, quant_max, use_grad_scaling
        observer_kwargs.update(quant_min=quant_min, quant_max=quant_max)
        if channel_len != -1 and not (isinstance(channel_len, int) and channel_len > 0):
            raise AssertionError("Channel size must be a positive integer.")
        n = 1 if channel_len == -1 else channel_len
        self.scale, self.zero_point = Parameter(tede.tensor([float(scale)] * n)), Parameter(tede.tensor([float(zero_point)] * n))
        self.activation_post_process = observer(**observer_kwargs)
        inner = self.activation_post_process
        info = tede.iinfo(inner.dtype)
        if quant_min < info.min:
            raise AssertionError("quant_min out of bound")
        if quant_max > info.max:
            raise AssertionError("quant_max out of bound")
        self.dtype, self.qscheme = inner.dtype, inner.qscheme
        self.ch_axis = getattr(inner, "ch_axis", -1)
        for name, value in (("fake_quant_enabled", 1), ("static_enabled", 1), ("learning_enabled", 0)):
            self.register_buffer(name, tede.tensor([value], dtype=tede.uint8))
        self.register_buffer("eps", tede.tensor([tede.finfo(tede.float32).eps]))
        self.bitwidth = (quant_max - quant_min).bit_length()

    # ---- switches

    def toggle_fake_quant(self, enabled=True):
        self.fake_quant_enabled[0] = int(enabled)
        return self

    def toggle_observer_update(self, enabled=True):
        self.static_enabled[0] = int(enabled)
        return self

    def toggle_qparam_learning(self, enabled=True):
        self.learning_enabled[0] = int(enabled)
        self.scale.requires_grad = self.zero_point.requires_grad = bool(enabled)
        return self

    def enable_observer(self, enabled=True):
        self.toggle_observer_update(enabled)

    def enable_param_learning(self):
        """Train them; the observer stands still."""
        return self.toggle_qparam_learning(True).toggle_fake_quant(True).toggle_observer_update(False)

    def enable_static_estimate(self):
        """Let the observer say them."""
        return self.toggle_qparam_learning(False).toggle_fake_quant(True).toggle_observer_update(True)

    def enable_static_observation(self):
        """Observe, and round nothing."""
        return self.toggle_qparam_learning(False).toggle_fake_quant(False).toggle_observer_update(True)

    # ---- what they are

    def observe_quant_params(self):
        print(f"_LearnableFakeQuantize Scale: {self.scale.detach()}")
        print(f"_LearnableFakeQuantize Zero Point: {self.zero_point.detach()}")

    def calculate_qparams(self):
        self.scale.data.clamp_(min=self.eps.item())
        zero_point = self.zero_point.detach().round().clamp(self.quant_min, self.quant_max).long()
        return self.scale.detach(), zero_point

    def _is_symmetric(self):
        return self.qscheme in (tede.per_tensor_symmetric, tede.per_channel_symmetric)

    def forward(self, X):
        if self.static_enabled[0] == 1:
            self.activation_post_process(X.detach())
            scale, zero_point = self.activation_post_process.calculate_qparams()
            self.scale.data.copy_(scale.to(self.scale.device))
            self.zero_point.data.copy_(zero_point.to(self.zero_point.device))
        else:
            self.scale.data.clamp_(min=self.eps.item())
        if self.fake_quant_enabled[0] != 1:
            return X
        if self._is_symmetric():
            self.zero_point.data.zero_()
        factor = 1. / (X.numel() * self.quant_max) ** 0.5 if self.use_grad_scaling else 1.
        if self.qscheme in (tede.per_channel_symmetric, tede.per_channel_affine):
            return tede._fake_quantize_learnable_per_channel_affine(X, self.scale, self.zero_point, self.ch_axis, self.quant_min, self.quant_max,
                                                                    factor)
        return tede._fake_quantize_learnable_per_tensor_affine(X, self.scale, self.zero_point, self.quant_min, self.quant_max, factor)
