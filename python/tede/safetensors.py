"""Tensors in safetensors files, with the API of the `safetensors` package's PyTorch part.

    save_file({"weight": w}, "model.safetensors", metadata={"step": "100"})
    tensors = load_file("model.safetensors")
    with safe_open("model.safetensors") as file:
        w = file.get_tensor("weight")

Loading maps the file: nothing is read before it is used, and writing to a loaded tensor changes no file. Saving
replaces a file only once the new one is complete on the disk. Differences from the package: tensors may have any
strides and share memory with one another; each is written as the elements that it shows.
"""
import errno
import os
import tempfile

from tede import _C

SafetensorError = ValueError            # what a malformed file raises


def save_file(tensors, filename, metadata=None):
    """Write a dict of tensors, and a dict of strings, to `filename`: the format that model hubs use, in which nothing
    can run.

    >>> tede.safetensors.save_file({"weight": tede.ones(2)}, "model.safetensors")
    >>> tede.safetensors.load_file("model.safetensors")
    {'weight': tensor([1., 1.])}
    """
    here = {name: x.cpu() if isinstance(x, _C.Tensor) and x.device.type not in ("cpu", "meta") else x for name, x in dict(tensors).items()}
    _C._safetensors_save(filename, here, metadata)


def load_file(filename, device="cpu", *, backend="mmap", read_only=False):
    """All tensors of a file, as a dict in the order of their bytes. The file is mapped: nothing is read before it is
    used.

        device: where they go.
        backend: "mmap", or "pread" for memory of their own (ValueError for others).
        read_only: writing to them is an error; without, what is written stays in this process.

    >>> tede.safetensors.save_file({"weight": tede.ones(2)}, "model.safetensors")
    >>> tede.safetensors.load_file("model.safetensors")["weight"]
    tensor([1., 1.])
    """
    with safe_open(filename, framework="pt", device=device, backend=backend, read_only=read_only) as file:
        return file.get_tensors()


def save(tensors, metadata=None):
    """The bytes of a file with these tensors, and `metadata`, a dict of strings.

    >>> len(tede.safetensors.save({"weight": tede.ones(2)})) > 8
    True
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tensors")
        save_file(tensors, path, metadata)
        with open(path, "rb") as file:
            return file.read()


def load(data):
    """All tensors of a file's bytes, as a dict.

    >>> tede.safetensors.load(tede.safetensors.save({"weight": tede.ones(2)}))
    {'weight': tensor([1., 1.])}
    """
    file = _C._safetensors_parse(data)
    return {name: file.get(name) for name in file.names()}


def save_model(model, filename, metadata=None, force_contiguous=True):
    """Write a module's state. Parameters that share all their memory are written once; the metadata says under what
    name.

        metadata: a dict of strings.
        force_contiguous: copy those that have gaps, instead of refusing (ValueError).

    >>> tede.safetensors.save_model(nn.Linear(3, 2), "model.safetensors")
    """
    metadata, kept, tensors = dict(metadata or {}), {}, {}
    for name, tensor in sorted(model.state_dict().items()):
        place = (tensor.data_ptr(), tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()))
        if tensor.numel() and place in kept:
            metadata.setdefault(name, kept[place])
        else:
            kept[place] = name
            tensors[name] = tensor
    save_file(tensors, filename, metadata or None)


def load_model(model, filename, strict=True, device="cpu"):
    """Load a module's state from a file of `save_model`; gives (missing names, those left over).

        strict: a RuntimeError if there are any.
        device: where the file's tensors go first.

    >>> tede.safetensors.save_model(nn.Linear(3, 2), "model.safetensors")
    >>> tede.safetensors.load_model(nn.Linear(3, 2), "model.safetensors")
    ([], [])
    """
    with safe_open(filename, device=device) as file:
        tensors, metadata = file.get_tensors(), file.metadata() or {}
    wanted = model.state_dict()
    for name in wanted:
        if name not in tensors and metadata.get(name) in tensors:
            tensors[name] = tensors[metadata[name]]
    missing, unexpected = sorted(set(wanted) - set(tensors)), sorted(set(tensors) - set(wanted))
    if strict and (missing or unexpected):
        lines = [f"Error(s) in loading state_dict for {type(model).__name__}:"]
        if missing:
            lines.append("Missing key(s) in state_dict: " + ", ".join(f'"{name}"' for name in missing))
        if unexpected:
            lines.append("Unexpected key(s) in state_dict: " + ", ".join(f'"{name}"' for name in unexpected))
        raise RuntimeError("\n    ".join(lines))
    model.load_state_dict(tensors, strict=False)
    return missing, unexpected


class safe_open:
    """A file whose tensors are taken one by one: `keys()`, `get_tensor(name)`, `get_slice(name)[...]`, `metadata()`; a
    context manager.

        framework: "pt" for tensors, "np" for NumPy arrays over them.
        device, backend: as for `load_file`.
        read_only: writing to them is an error; without, what is written stays in this process.

    >>> tede.safetensors.save_file({"weight": tede.ones(2)}, "model.safetensors")
    >>> with tede.safetensors.safe_open("model.safetensors") as file:
    ...     file.get_tensor("weight")
    tensor([1., 1.])
    """

    def __init__(self, filename, framework="pt", device="cpu", *, backend="mmap", read_only=False):
        if framework not in ("pt", "torch", "pytorch", "tede", "np", "numpy"):
            raise ValueError(f"framework {framework!r} is not known here: one of 'pt', 'np'")
        if backend not in ("mmap", "pread"):
            raise ValueError(f"backend {backend!r} is not known: one of 'mmap', 'pread'")
        filename = os.fspath(filename)
        if not os.path.exists(filename):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), filename)
        self._numpy, self._device, self._read_only = framework in ("np", "numpy"), device, read_only
        self._file = _C._safetensors_open(filename)

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._file = None               # tensors that were taken stay valid

    def _opened(self):
        if self._file is None:
            raise SafetensorError("File is closed")
        return self._file

    def _shown(self, tensor):
        if self._read_only:
            tensor = tensor.read_only()
        if self._numpy:
            return tensor.numpy()
        return tensor if str(self._device) == "cpu" else tensor.to(self._device)

    def keys(self):
        """The tensors' names, sorted."""
        return sorted(self._opened().names())

    def offset_keys(self):
        """The tensors' names, in the order of their bytes."""
        return self._opened().names()

    def metadata(self):
        """The strings that came with the tensors, as a dict; None if there are none."""
        return self._opened().metadata()

    def get_tensor(self, name):
        """The tensor of that name, over the file's pages."""
        return self._shown(self._opened().get(name))

    def get_tensors(self):
        """All tensors, as a dict in the order of their bytes."""
        return {name: self.get_tensor(name) for name in self.offset_keys()}

    def get_slice(self, name):
        """A tensor to be indexed; only what the index picks is read."""
        return _Slice(self, name)


class _Slice:
    def __init__(self, opened, name):
        self._opened, self._name = opened, name
        self._shape, self._dtype = list(opened._opened().shape(name)), opened._opened().dtype(name)

    def get_shape(self):
        return self._shape

    def get_dtype(self):
        return self._dtype

    def __getitem__(self, index):
        return self._opened._shown(self._opened._opened().get(self._name)[index])
