"""Tensors in a safetensors file, the same bytes whichever library wrote them.

A safetensors file is eight bytes with the length of a JSON header, the header (name -> dtype, shape, place), and the
tensors' bytes one after the other. tede reads and writes it in C (`tede.safetensors`); for any other library with
PyTorch's API the forty lines below do, through `data_ptr` and `frombuffer`, so nothing else need be installed.

A checkpoint replaces its predecessor only when it is complete on the disk: whoever pulls the plug keeps the old one.
"""
import ctypes
import json
import os
import struct

NAMES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
         "I16": "int16", "I8": "int8", "U8": "uint8", "BOOL": "bool"}


def save(lib, path, tensors, metadata):
    """Write `tensors` (name -> tensor) and `metadata` (str -> str) to `path`."""
    partial = f"{path}.partial"
    try:
        if hasattr(lib, "safetensors"):
            lib.safetensors.save_file(tensors, partial, metadata=metadata)
        else:
            _write(lib, partial, tensors, metadata)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.remove(partial)
        raise


def load(lib, path):
    """The tensors and the metadata of the file at `path`."""
    metadata = read_header(path)[0].get("__metadata__", {})
    if hasattr(lib, "safetensors"):
        return lib.safetensors.load_file(path), metadata
    return _read(lib, path), metadata


def read_header(path):
    """The header, as a dict, and the place in the file where the tensors' bytes begin."""
    with open(path, "rb") as file:
        prefix = file.read(8)
        length = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else 0
        if not 2 <= length <= os.path.getsize(path) - 8:
            raise ValueError(f"{path} is not a safetensors file, or it was cut short")
        return json.loads(file.read(length)), 8 + length


def _write(lib, path, tensors, metadata):
    code_of = {getattr(lib, name): code for code, name in NAMES.items()}
    header, end, rows = {"__metadata__": metadata}, 0, []
    for name, tensor in tensors.items():
        tensor = tensor.detach().contiguous()
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": code_of[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [end, end + size]}
        rows.append((tensor, size))
        end += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor, size in rows:
            if size:
                file.write(ctypes.string_at(tensor.data_ptr(), size))
        file.flush()
        os.fsync(file.fileno())


def _read(lib, path):
    header, start = read_header(path)
    with open(path, "rb") as file:
        file.seek(start)
        data = bytearray(file.read())
    tensors = {}
    for name, row in header.items():
        if name == "__metadata__":
            continue
        dtype, (begin, end) = getattr(lib, NAMES[row["dtype"]]), row["data_offsets"]
        if end > len(data):
            raise ValueError(f"{path} was cut short: {name} ends at byte {end} of {len(data)}")
        part = bytearray(data[begin:end])       # a copy: frombuffer needs the bytes at an aligned address
        flat = lib.frombuffer(part, dtype=dtype) if part else lib.empty(0, dtype=dtype)
        tensors[name] = flat.reshape(row["shape"])
    return tensors
