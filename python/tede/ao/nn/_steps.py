"""The steps of quantization, for layers that are made of layers and take the steps for those.

`tede.ao.quantization.quantize`, which knows all layers and is above them, fills them in."""
prepare = prepare_qat = convert = None


def prepare_as(layer, training):
    """A layer with observers, or with fake quantization where it is trained."""
    return prepare_qat(layer.train(), inplace=True) if training else prepare(layer.eval(), inplace=True)


def convert_as(layer, kind):
    """A converted copy of an observed layer, as one of another class."""
    made = convert(layer, inplace=False, remove_qconfig=True)
    made.__class__ = kind
    return made
