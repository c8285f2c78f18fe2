"""Files: their names, open streams of them, what is in them."""
import warnings

from tede.utils.data.datapipes._decorator import functional_datapipe
from tede.utils.data.datapipes.datapipe import IterDataPipe
from tede.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe
from tede.utils.data.datapipes.utils.common import get_file_binaries_from_pathnames, get_file_pathnames_from_root
from tede.utils.data.datapipes.utils.decoder import Decoder, basichandlers, extension_extract_fn, imagehandler

__all__ = ["FileListerIterDataPipe", "FileOpenerIterDataPipe", "RoutedDecoderIterDataPipe", "StreamReaderIterDataPipe"]


class _GivenLength(IterDataPipe):
    """A pipe whose length is an argument, -1 for none."""

    def __len__(self):
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("list_files")
class FileListerIterDataPipe(_GivenLength):
    """The paths of files in folders, of those that fit one of the patterns `masks`."""

    def __init__(self, root=".", masks="", *, recursive=False, abspath=False, non_deterministic=False, length=-1):
        super().__init__()
        roots = [root] if isinstance(root, str) else root
        self.datapipe = roots if isinstance(roots, IterDataPipe) else IterableWrapperIterDataPipe(roots)
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def __iter__(self):
        for root in self.datapipe:
            yield from get_file_pathnames_from_root(root, self.masks, self.recursive, self.abspath, self.non_deterministic)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(_GivenLength):
    """(path, stream) of each path."""

    def __init__(self, datapipe, mode="r", encoding=None, length=-1):
        super().__init__()
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self):
        yield from get_file_binaries_from_pathnames(self.datapipe, self.mode, self.encoding)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe):
    """(path, bytes) of each (path, stream): whole, or in pieces of `chunk` bytes.

    Args:
        datapipe: the source, of pairs
        chunk: how many bytes are read at a time; None: all

    Example:
        >>> list(IterableWrapper([("a", io.StringIO("text"))]).read_from_stream())
        [('a', 'text')]
    """

    def __init__(self, datapipe, chunk=None):
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self):
        for path, stream in self.datapipe:
            while data := stream.read(self.chunk):
                yield path, data
            stream.close()


@functional_datapipe("routed_decode")
class RoutedDecoderIterDataPipe(IterDataPipe):
    """(path, value) of each (path, stream), by the first handler that knows the path's ending."""

    def __init__(self, datapipe, *handlers, key_fn=extension_extract_fn):
        super().__init__()
        self.datapipe = datapipe
        self.decoder = Decoder(*(handlers or (basichandlers, imagehandler("torch"))), key_fn=key_fn)
        warnings.warn(f"`{type(self).__name__}()` and its functional API `.routed_decode()` are deprecated since 1.12 and will "
                      "be removed in 1.13.\nSee https://github.com/pytorch/data/issues/163 for details.", FutureWarning,
                      stacklevel=2)

    def add_handler(self, *handler):
        self.decoder.add_handler(*handler)

    def __iter__(self):
        for item in self.datapipe:
            yield item[0], self.decoder(item)[item[0]]

    def __len__(self):
        return self._length_of(self.datapipe)[0]
