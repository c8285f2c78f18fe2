"""Where PyTorch keeps what tede keeps elsewhere: for checkpoints that name classes, and for programs' imports."""

_NN = {"channelshuffle": ("shape", "ChannelShuffle"), "flatten": ("shape", "Flatten Unflatten"),
       "fold": ("shape", "Fold Unfold"), "pixelshuffle": ("shape", "PixelShuffle PixelUnshuffle"),
       "upsampling": ("shape", "Upsample UpsamplingBilinear2d UpsamplingNearest2d"),
       "instancenorm": ("batchnorm", "InstanceNorm1d InstanceNorm2d InstanceNorm3d LazyInstanceNorm1d LazyInstanceNorm2d "
                                     "LazyInstanceNorm3d"),
       "activation": ("attention", "MultiheadAttention")}
_OPTIM = {"asgd": ("adaptive", "ASGD"), "adadelta": ("adaptive", "Adadelta"), "adagrad": ("adaptive", "Adagrad"),
          "adamax": ("adaptive", "Adamax"), "nadam": ("adaptive", "NAdam"), "radam": ("adaptive", "RAdam"),
          "rmsprop": ("adaptive", "RMSprop"), "rprop": ("adaptive", "Rprop"), "adamw": ("adam", "AdamW"),
          "_adafactor": ("matrix", "Adafactor"), "_muon": ("matrix", "Muon")}

MODULES = {}            # PyTorch's module -> ours, without "torch." and "tede."
CLASSES = {}            # (our module, class) -> PyTorch's module
for _package, _table in (("nn.modules.", _NN), ("optim.", _OPTIM)):
    for _theirs, (_ours, _names) in _table.items():
        MODULES[_package + _theirs] = _package + _ours
        for _name in _names.split():
            CLASSES["tede." + _package + _ours, _name] = "torch." + _package + _theirs
MODULES.pop("nn.modules.activation")


def find(module, name):
    """The object that PyTorch's module `module` has under a name; None where there is none."""
    import importlib
    path = module.partition(".")[2]
    places = ["tede." + MODULES.get(path, path) if path else "tede"]
    if path.startswith(("nn.", "optim.")):
        places.append("tede." + path.partition(".")[0])
    for place in places:
        try:
            found = importlib.import_module(place)
            for part in name.split("."):
                found = getattr(found, part)
            return found
        except (ImportError, AttributeError):
            continue
    return None
