"""Modules for inference whose parameters are of the mkldnn layout, in the order that oneDNN computes in."""
import tede
from tede import nn
from tede._onednn import to_mkldnn as _to_mkldnn

__all__ = ["MkldnnLinear", "MkldnnConv1d", "MkldnnConv2d", "MkldnnConv3d", "MkldnnBatchNorm", "MkldnnPrelu", "to_mkldnn"]


class _Layer(nn.Module):
    """A layer that takes tensors of either layout, and gives what it was given. Its state is strided: files don't depend on oneDNN."""

    def _keep(self, dtype, **tensors):
        for name, x in tensors.items():
            self.register_buffer(name, None if x is None else _to_mkldnn(x.detach(), dtype))

    def forward(self, x):
        y = self._compute(x if x.is_mkldnn else _to_mkldnn(x))
        return y if x.is_mkldnn else y.to_dense()

    def __getstate__(self):
        return {**self.__dict__, "_buffers": {name: x if x is None else x.to_dense() for name, x in self._buffers.items()}}

    def __setstate__(self, state):
        super().__setstate__(state)
        for name, x in self._buffers.items():
            self._buffers[name] = x if x is None else _to_mkldnn(x)
        self._arrange()

    def _arrange(self):
        """Bring parameters into the order that they are read in."""

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, x in self._buffers.items():
            if x is not None:
                destination[prefix + name] = x.to_dense()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for name, x in self._buffers.items():
            if x is not None and prefix + name in state_dict:
                self._buffers[name] = _to_mkldnn(state_dict[prefix + name], x.dtype)
            elif x is not None and strict:
                missing_keys.append(prefix + name)
        self._arrange()


class MkldnnLinear(_Layer):
    """nn.Linear."""

    def __init__(self, dense_module, dtype):
        super().__init__()
        self._keep(dtype, weight=dense_module.weight)
        self._keep(tede.float32 if dtype == tede.float32 else dtype, bias=dense_module.bias)

    def _compute(self, x):
        return nn.functional.linear(x, self.weight, self.bias)


class _Conv(_Layer):
    def __init__(self, dense_module, dtype):
        super().__init__()
        self.stride, self.padding, self.dilation, self.groups = (
            dense_module.stride, dense_module.padding, dense_module.dilation, dense_module.groups)
        self._keep(dtype, weight=dense_module.weight, bias=dense_module.bias)
        self._arrange()

    def _compute(self, x):
        return tede.mkldnn_convolution(x, self.weight, self.bias, self.padding, self.stride, self.dilation, self.groups)


class MkldnnConv1d(_Conv):
    """nn.Conv1d."""


class MkldnnConv2d(_Conv):
    """nn.Conv2d."""

    def _arrange(self):
        self.weight = tede._C._nn.mkldnn_reorder_conv2d_weight(self.weight, self.padding, self.stride, self.dilation, self.groups)


class MkldnnConv3d(_Conv):
    """nn.Conv3d."""

    def _arrange(self):
        self.weight = tede._C._nn.mkldnn_reorder_conv3d_weight(self.weight, self.padding, self.stride, self.dilation, self.groups)


class MkldnnBatchNorm(_Layer):
    """nn.BatchNorm2d and nn.BatchNorm3d, with the statistics that they have learnt."""

    def __init__(self, dense_module):
        super().__init__()
        if dense_module.training or not dense_module.track_running_stats or not dense_module.affine:
            raise ValueError("to_mkldnn: of batch normalisation only layers in evaluation mode, with weights and running statistics, are converted")
        self.eps = dense_module.eps
        self._keep(None, weight=dense_module.weight, bias=dense_module.bias, running_mean=dense_module.running_mean, running_var=dense_module.running_var)

    def _compute(self, x):
        return nn.functional.batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias, False, 0.0, self.eps)


class MkldnnPrelu(_Layer):
    """nn.PReLU."""

    def __init__(self, dense_module, dtype):
        super().__init__()
        self._keep(dtype, weight=dense_module.weight)

    def _compute(self, x):
        return nn.functional.prelu(x, self.weight)


def _converted(module, dtype):
    """The layer of this one, or itself."""
    if isinstance(module, nn.Linear):
        return MkldnnLinear(module, dtype)
    for kind, made in (nn.Conv1d, MkldnnConv1d), (nn.Conv2d, MkldnnConv2d), (nn.Conv3d, MkldnnConv3d):
        if isinstance(module, kind) and not isinstance(module.padding, str) and module.padding_mode == "zeros":
            return made(module, dtype)
    if isinstance(module, (nn.BatchNorm2d, nn.BatchNorm3d)):
        return MkldnnBatchNorm(module)          # its numbers stay float32
    return MkldnnPrelu(module, dtype) if isinstance(module, nn.PReLU) else module


def to_mkldnn(module, dtype=tede.float32):
    """A module for inference on tensors of the mkldnn layout, or strided ones: its linear layers, convolutions, batch normalisations and PReLUs
    compute by oneDNN, in `dtype`: float32, bfloat16 or float16. The other layers are `module`'s own."""
    if dtype not in (tede.float32, tede.bfloat16, tede.float16):
        raise ValueError(f"to_mkldnn: oneDNN computes in float32, bfloat16 and float16, not in {dtype}")

    def convert(module):
        made = _converted(module, dtype)
        if made is not module:
            return made
        children = {name: convert(child) for name, child in module._modules.items() if child is not None}
        if any(child is not module._modules[name] for name, child in children.items()):
            made = module.__new__(type(module))
            made.__dict__.update(module.__dict__)
            made._modules = {**module._modules, **children}
        return made
    return convert(module)
