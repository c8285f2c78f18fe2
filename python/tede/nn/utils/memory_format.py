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
    """Lay out the weights of all two-dimensional convolutions in `module` in `memory_format`: the same values, other
    strides. Gives the module.

    >>> layer = nn.utils.convert_conv2d_weight_memory_format(nn.Conv2d(4, 8, 3), tede.channels_last)
    >>> layer.weight.is_contiguous(memory_format=tede.channels_last)
    True
    """
    return _convert(module, ("Conv2d", "ConvTranspose2d"), memory_format)


def convert_conv3d_weight_memory_format(module, memory_format):
    """Lay out the weights of all three-dimensional convolutions in `module` in `memory_format`: the same values, other
    strides. Gives the module.

    >>> layer = nn.utils.convert_conv3d_weight_memory_format(nn.Conv3d(4, 8, 3), tede.channels_last_3d)
    >>> layer.weight.is_contiguous(memory_format=tede.channels_last_3d)
    True
    """
    return _convert(module, ("Conv3d", "ConvTranspose3d"), memory_format)
