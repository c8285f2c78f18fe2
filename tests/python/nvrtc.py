"""NVRTC, CUDA's compiler as a library, by ctypes: for tests, where NVIDIA's wheel nvidia-cuda-nvrtc-cu12 (or -cu13) is installed. It needs no GPU."""
import ctypes
import importlib.util
import pathlib


def find():
    """The path of the library; None where there is none."""
    spec = importlib.util.find_spec("nvidia")
    for folder in spec.submodule_search_locations if spec else []:
        for path in sorted(pathlib.Path(folder).glob("*/lib/libnvrtc.so.*[0-9]")):
            return path
    return None


def compile(source, architecture, *options):
    """The machine code (cubin) of a text for "sm_80", ...; RuntimeError with the compiler's words."""
    library = ctypes.CDLL(str(find()))
    program, size = ctypes.c_void_p(), ctypes.c_size_t()
    assert library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"test.cu", 0, None, None) == 0
    words = [option.encode() for option in (f"--gpu-architecture={architecture}", *options)]
    status = library.nvrtcCompileProgram(program, len(words), (ctypes.c_char_p * len(words))(*words))
    (library.nvrtcGetProgramLogSize if status else library.nvrtcGetCUBINSize)(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    (library.nvrtcGetProgramLog if status else library.nvrtcGetCUBIN)(program, text)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    if status:
        raise RuntimeError(text.value.decode())
    return text.raw
