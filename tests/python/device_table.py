"""The table of a device's library (td_device_library in <tede/device.h>), by ctypes: for tests that call its functions themselves."""
import ctypes
from ctypes import POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_int64, c_size_t, c_uint8, c_uint32, c_void_p

import formula_kernels as fk


class Device(Structure):
    _fields_ = [("type", ctypes.c_int8), ("index", ctypes.c_int8)]


class Argument(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Binary(Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Operand(Structure):
    _fields_ = [("data", c_void_p), ("batch", c_int64), ("row", c_int64), ("column", c_int64)]


class Product(Structure):
    _fields_ = [("size", c_uint32), ("dtype", c_int), *((name, c_int64) for name in ("batch", "m", "n", "k")),
                *((name, Operand) for name in "abc"), ("alpha", c_double), ("beta", c_double), ("flags", c_uint32)]


class FusedProduct(Structure):
    _fields_ = [("size", c_uint32), ("epilogue", c_int), ("bias", c_void_p), ("product", Product)]


class Convolution(Structure):
    _fields_ = [("size", c_uint32), ("dtype", c_int), ("kind", c_int), ("flags", c_uint32), ("dims", c_int), ("channels_last", c_bool),
                *((name, c_int64) for name in ("batch", "groups", "in_channels", "out_channels")),
                *((name, c_int64 * 3) for name in ("in", "out", "window", "stride", "padding", "dilation")), *((name, c_void_p) for name in "xyw")]


_FUNCTIONS = {
    "count": (c_int,), "start": (c_int, c_int), "alloc": (c_void_p, Device, c_size_t), "free": (None, Device, c_void_p, c_size_t),
    "copy": (c_int, Device, c_void_p, Device, c_void_p, c_size_t), "synchronize": (c_int, c_int), "properties": (c_int, c_int, c_void_p),
    "memory_info": (c_int, c_int, POINTER(c_size_t), POINTER(c_size_t)), "host_alloc": (c_void_p, c_size_t), "host_free": (None, c_void_p, c_size_t),
    "stream_new": (c_void_p, Device, c_int), "stream_free": (None, Device, c_void_p), "stream_synchronize": (c_int, Device, c_void_p),
    "transfer": (c_int, Device, c_void_p, Device, c_void_p, Device, c_void_p, c_size_t, c_bool),
    "fill": (c_int, Device, c_void_p, c_void_p, c_uint8, c_size_t),
    "event_new": (c_void_p, Device, c_bool), "event_free": (None, Device, c_void_p), "event_record": (c_int, Device, c_void_p, c_void_p),
    "event_wait": (c_int, Device, c_void_p, c_void_p), "event_synchronize": (c_int, Device, c_void_p), "event_query": (c_int, Device, c_void_p),
    "event_time": (c_int, Device, c_void_p, c_void_p, POINTER(c_double)),
    "build": (c_void_p, Device, c_char_p, c_char_p, POINTER(Binary)), "kernel": (c_void_p, Device, c_void_p, c_char_p),
    "launch": (c_int, Device, c_void_p, c_void_p, c_int64, c_int, c_int, POINTER(Argument)), "program_free": (None, Device, c_void_p),
    "product": (c_int, Device, c_void_p, POINTER(Product)), "convolution": (c_int, Device, c_void_p, POINTER(Convolution)),
    "library_version": (c_int64, c_char_p), **{name: (c_int, Device, c_void_p, c_void_p) for name in ("fft", "factor")},
    "graph_begin": (c_int, Device, c_void_p, c_int), "graph_end": (c_void_p, Device, c_void_p), "graph_launch": (c_int, Device, c_void_p, c_void_p),
    "graph_free": (None, Device, c_void_p), "fused_product": (c_int, Device, c_void_p, POINTER(FusedProduct)),
}


class Table(Structure):
    _fields_ = [("abi", c_uint32), ("size", c_uint32), ("name", c_char_p), *((name, ctypes.CFUNCTYPE(*of)) for name, of in _FUNCTIONS.items())]


def of(path):
    """The table of a library that is loaded as a device."""
    table = Table.in_dll(ctypes.CDLL(str(path)), "tede_device")
    assert table.size >= ctypes.sizeof(Table)
    return table


def error():
    """What the last call that failed has recorded; it is forgotten."""
    message = fk._error().decode()
    fk.LIB.td_error_clear()
    return message
