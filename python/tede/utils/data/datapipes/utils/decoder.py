"""Bytes to values by a path's ending: text, numbers, JSON, pickles, checkpoints, images, MATLAB files."""
import io
import json
import os
import pickle

import tede
from tede.utils.data.datapipes.utils.common import StreamWrapper

__all__ = ["Decoder", "ImageHandler", "MatHandler", "audiohandler", "basichandlers", "extension_extract_fn", "handle_extension",
           "imagehandler", "mathandler", "videohandler"]


def basichandlers(extension, data):
    """Text, numbers, JSON, pickles and checkpoints; None for other endings."""
    if extension in ("txt", "text", "transcript"):
        return data.decode("utf-8")
    if extension in ("cls", "cls2", "class", "count", "index", "inx", "id"):
        try:
            return int(data)
        except ValueError:
            return None
    if extension in ("json", "jsn"):
        return json.loads(data)
    if extension in ("pyd", "pickle"):
        return pickle.loads(data)
    return tede.load(io.BytesIO(data)) if extension == "pt" else None


def handle_extension(extensions, f):
    """A handler that calls f(data) for these endings, which are separated by spaces and may have several parts."""
    endings = [ending.split(".") for ending in extensions.lower().split()]

    def handle(key, data):
        parts = key.lower().split(".")
        return f(data) if any(parts[-len(ending):] == ending for ending in endings) else None
    return handle


class ImageHandler:
    """Images by PIL. `imagespec` is (nothing for NumPy, torch or pil), (l, rgb or rgba) and, for bytes rather than numbers from 0
    to 1, 8: "rgb8", "torchrgb", "pil"."""

    _SPECS = {front + mode + end for front in ("", "torch") for mode in ("l", "rgb", "rgba") for end in ("", "8")} | {
        "torch", "pil", "pill", "pilrgb", "pilrgba"}

    def __init__(self, imagespec):
        if imagespec not in self._SPECS:
            raise AssertionError(f"unknown image specification: {imagespec}")
        self.imagespec = imagespec

    def __call__(self, extension, data):
        if extension.lower() not in ("jpg", "jpeg", "png", "ppm", "pgm", "pbm", "pnm"):
            return None
        for package, name in (("numpy", "numpy"), ("PIL", "Pillow")):
            try:
                __import__(package)
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError(f"Package `{package}` is required to be installed for default image decoder.Please use "
                                          f"`pip install {name}` to install the package") from error
        import numpy
        import PIL.Image
        kind = next((front for front in ("torch", "pil") if self.imagespec.startswith(front)), "")
        mode = self.imagespec[len(kind):]
        with io.BytesIO(data) as stream:
            image = PIL.Image.open(stream).convert(mode.rstrip("8").upper() or "RGB")
        if kind == "pil":
            return image
        values = numpy.asarray(image)
        if kind == "torch":
            values = tede.tensor(numpy.ascontiguousarray(values.transpose(2, 0, 1)))
        return values if mode.endswith("8") else values / 255. if kind else values.astype("f") / 255.


def imagehandler(imagespec):
    return ImageHandler(imagespec)


def _by_file(extension, data, endings, package, function):
    """Data that a package reads from a file of this ending only."""
    if extension not in endings:
        return None
    import importlib
    import tempfile
    kind = "video" if "vision" in package else "audio"
    try:
        read = getattr(importlib.import_module(package), function)
    except ImportError as error:
        name = package.partition(".")[0]
        raise ModuleNotFoundError(f"Package `{name}` is required to be installed for default {kind} file loader.Please use `pip "
                                  f"install {name}`to install the package") from error
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, f"file.{extension}")
        with open(path, "wb") as stream:
            stream.write(data)
        return read(path)


def videohandler(extension, data):
    """Videos by torchvision."""
    return _by_file(extension, data, ("mp4", "ogv", "mjpeg", "avi", "mov", "h264", "mpg", "webm", "wmv"), "torchvision.io",
                    "read_video")


def audiohandler(extension, data):
    """Sounds by torchaudio."""
    return _by_file(extension, data, ("flac", "mp3", "sox", "wav", "m4a", "ogg", "wma"), "torchaudio", "load")


class MatHandler:
    """MATLAB's files by SciPy."""

    def __init__(self, **loadmat_kwargs):
        try:
            import scipy.io
        except ImportError as error:
            raise ModuleNotFoundError("Package `scipy` is required to be installed for mat file.Please use `pip install scipy`to "
                                      "install the package") from error
        self.sio, self.loadmat_kwargs = scipy.io, loadmat_kwargs

    def __call__(self, extension, data):
        return self.sio.loadmat(io.BytesIO(data), **self.loadmat_kwargs) if extension == "mat" else None


def mathandler(**loadmat_kwargs):
    return MatHandler(**loadmat_kwargs)


def extension_extract_fn(pathname):
    """A path's ending, without the dot."""
    return os.path.splitext(pathname)[1][1:]


class Decoder:
    """The first handler's result that isn't None, for each (path, data); data that nobody knows stays what it is."""

    def __init__(self, *handler, key_fn=extension_extract_fn):
        self.handlers, self.key_fn = list(handler), key_fn

    def add_handler(self, *handler):
        self.handlers = [*handler, *self.handlers]

    @staticmethod
    def _is_stream_handle(data):
        return isinstance(data.file_obj if isinstance(data, StreamWrapper) else data, (io.BufferedIOBase, io.RawIOBase))

    def decode1(self, key, data):
        if not data:
            return data
        if self._is_stream_handle(data):
            stream, data = data, b"".join(data)
            stream.close()
        return next((made for made in (handler(key, data) for handler in self.handlers) if made is not None), data)

    def decode(self, data):
        if data is None:
            return {}
        return {path: value.decode("utf-8") if path[0] == "_" and isinstance(value, bytes) else
                self.decode1(self.key_fn(path), value) for path, value in ([data] if isinstance(data, tuple) else data)}

    def __call__(self, data):
        return self.decode(data)
