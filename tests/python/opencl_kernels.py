"""Runs printed kernels on an OpenCL device, by ctypes: for tests, where there is one (PoCL will do)."""
import ctypes
import ctypes.util

import tede

_STORED = {"float32": ctypes.c_float, "float64": ctypes.c_double, "float16": ctypes.c_float, "bfloat16": ctypes.c_float, "int64": ctypes.c_int64,
           "uint32": ctypes.c_int64, "uint64": ctypes.c_uint64}      # of a parameter; other dtypes are computed in int32
READ_WRITE, COPY_HOST = 1, 32


def _number(value, dtype):
    if dtype.startswith("complex"):
        return ((ctypes.c_float if dtype == "complex64" else ctypes.c_double) * 2)(complex(value).real, complex(value).imag)
    return _STORED.get(dtype, ctypes.c_int32)(value)


class Device:
    """The first device there is; LookupError without one."""

    def __init__(self):
        name = ctypes.util.find_library("OpenCL")
        if not name:
            raise LookupError("there is no OpenCL library")
        self.cl = ctypes.CDLL(name)
        for function in ("clCreateContext", "clCreateCommandQueue", "clCreateProgramWithSource", "clCreateKernel", "clCreateBuffer"):
            getattr(self.cl, function).restype = ctypes.c_void_p
        count, platforms = ctypes.c_uint(), (ctypes.c_void_p * 8)()
        self.device = ctypes.c_void_p()
        if self.cl.clGetPlatformIDs(8, platforms, ctypes.byref(count)) or not count.value:
            raise LookupError("there is no OpenCL platform")
        if self.cl.clGetDeviceIDs(ctypes.c_void_p(platforms[0]), ctypes.c_uint64(0xFFFFFFFF), 1, ctypes.byref(self.device), None):
            raise LookupError("there is no OpenCL device")
        error = ctypes.c_int()
        self.context = ctypes.c_void_p(self.cl.clCreateContext(None, 1, ctypes.byref(self.device), None, None, ctypes.byref(error)))
        self.queue = ctypes.c_void_p(self.cl.clCreateCommandQueue(self.context, self.device, ctypes.c_uint64(0), ctypes.byref(error)))
        assert error.value == 0

    def build(self, text):
        source = ctypes.c_char_p(text.encode())
        error = ctypes.c_int()
        program = ctypes.c_void_p(self.cl.clCreateProgramWithSource(self.context, 1, ctypes.byref(source), None, ctypes.byref(error)))
        if self.cl.clBuildProgram(program, 1, ctypes.byref(self.device), b"-cl-std=CL1.2", None, None):
            log = ctypes.create_string_buffer(1 << 16)
            self.cl.clGetProgramBuildInfo(program, self.device, 0x1183, ctypes.c_size_t(len(log)), log, None)
            raise RuntimeError(log.value.decode())
        return program

    def buffer(self, tensor):
        error = ctypes.c_int()
        size = max(1, tensor.numel() * tensor.element_size())
        made = self.cl.clCreateBuffer(self.context, ctypes.c_uint64(READ_WRITE | COPY_HOST), ctypes.c_size_t(size),
                                      ctypes.c_void_p(tensor.data_ptr()), ctypes.byref(error))
        assert error.value == 0
        return ctypes.c_void_p(made)

    def run(self, program, kernel, inputs, numbers=(), geometry=None, size=None):
        """`numbers`: (value, dtype of the call) of each parameter."""
        n = inputs[0].numel() if size is None else size
        outputs = [tede.zeros(n, dtype=getattr(tede, dtype)) for _, dtype in kernel.outputs]
        buffers = [self.buffer(t) for t in [*outputs, *inputs]]
        gap = [ctypes.c_int64(0)] if any(dtype == "complex128" for _, dtype in numbers) else []        # they are aligned to their size
        numbers = [_number(value, dtype) for value, dtype in numbers]
        members = [ctypes.c_int64(n), *gap, *([(ctypes.c_int64 * len(geometry))(*geometry)] if geometry else []), *numbers]

        class Values(ctypes.Structure):
            _fields_ = [(f"m{i}", type(member)) for i, member in enumerate(members)]
        places = [argument for buffer in buffers for argument in (buffer, ctypes.c_int64(0))]
        arguments = [*places, Values(*members)]
        error = ctypes.c_int()
        handle = ctypes.c_void_p(self.cl.clCreateKernel(program, kernel.name.encode(), ctypes.byref(error)))
        assert error.value == 0
        for i, argument in enumerate(arguments):
            assert self.cl.clSetKernelArg(handle, i, ctypes.c_size_t(ctypes.sizeof(argument)), ctypes.byref(argument)) == 0
        items = ctypes.c_size_t(64)     # fewer than elements: the kernel goes on by itself
        assert self.cl.clEnqueueNDRangeKernel(self.queue, handle, 1, None, ctypes.byref(items), None, 0, None, None) == 0
        for tensor, place in zip(outputs, buffers):
            size = ctypes.c_size_t(tensor.numel() * tensor.element_size())
            assert self.cl.clEnqueueReadBuffer(self.queue, place, 1, ctypes.c_size_t(0), size, ctypes.c_void_p(tensor.data_ptr()), 0, None, None) == 0
        for place in buffers:
            self.cl.clReleaseMemObject(place)
        return outputs
