"""convert_conv2d_weight_memory_format: convolutions' weights in another memory format: other strides, same values."""

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module, kinds, memory_format):
    from .. import modules
    kinds = tuple(getattr(modules, kind) for kind in kinds)
    for layer in module.modules():
        if isinstance(layer, kinds):
            layer.weight.data = layer.weight.detach().clone(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module, memory_format):
    """The weights of `module` and all below it, of its convolutions over two dimensions."""
    return _convert(module, ("Conv2d", "ConvTranspose2d"), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """The weights of `module` and all below it, of its convolutions over three dimensions."""
    return _convert(module, ("Conv3d", "ConvTranspose3d"), memory_format)
