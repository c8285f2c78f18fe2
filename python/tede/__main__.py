"""``python -m tede``: what is installed, what is fast on this machine, and what isn't there, with what would bring it."""
import argparse
import importlib.metadata
import json
import os
import platform
import shutil
import time

_LEVELS = {"v2": "SSE4.2, 128 bits", "v3": "AVX2, 256 bits", "v4": "AVX-512"}
# A package that something of tede uses where it is there, and what for.
_PACKAGES = {"scipy-openblas32": "LAPACK", "numpy": "arrays", "sympy": "symbolic shapes", "onednn-cpu-gomp": "the mkldnn layout",
             "onnx": "ONNX files", "mpich": "processes by MPI", "tensorboard": "utils.tensorboard", "nvidia-cuda-nvrtc-cu12": "CUDA's kernels"}


def facts():
    """What there is, as a dict: version, instruction set, threads, libraries, compiler, devices and packages."""
    import tede
    from tede import _C
    found = {name: _version(name) for name in _PACKAGES}
    return {"version": tede.__version__, "python": platform.python_version(), "system": platform.platform(), "folder": os.path.dirname(tede.__file__),
            "instructions": _C._cpu_capability(), "cores": len(os.sched_getaffinity(0)), "threads": tede.get_num_threads(),
            "blas": _blas(), "compiler": shutil.which(os.environ.get("CC", "cc")), "devices": _devices(), "packages": found}


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _blas():
    """The library of products and LAPACK, or why there is none."""
    import tede
    try:
        tede.linalg.inv(tede.eye(2))
    except RuntimeError as error:
        return f"none ({error})"
    return "OpenBLAS"


def _devices():
    """{name: what it is, or why it isn't there}."""
    import tede
    found = {}
    for name in ("cuda", "opencl"):
        try:
            module = tede.load_device(name)
            found[name] = ", ".join(module.get_device_name(i) for i in range(module.device_count())) or "no device"
        except RuntimeError as error:
            found[name] = f"none ({str(error).removeprefix(name + ': ')})"
    return found


def speeds(seconds=0.1):
    """[(what, figure, unit)]: the best of as many runs as fit into `seconds` each, on this machine now."""
    import tede

    def best(run):
        run()
        times, end = [], time.perf_counter() + seconds
        while time.perf_counter() < end or not times:
            began = time.perf_counter()
            run()
            times.append(time.perf_counter() - began)
        return min(times)
    tede.manual_seed(0)
    rows = []
    with tede.no_grad():
        for dtype, n in (tede.float32, 768), (tede.float64, 512), (tede.bfloat16, 768), (tede.float16, 512), (tede.int64, 192):
            a = tede.randn(n, n).to(dtype)
            rows.append((f"{n} x {n} product, {str(dtype).rpartition('.')[2]}", 2 * n ** 3 / best(lambda a=a: a @ a) / 1e9, "GFLOP/s"))
        for dtype in tede.float32, tede.bfloat16:
            x = tede.randn(1 << 20).to(dtype)
            nbytes = 2 * x.numel() * x.element_size()
            rows += [(f"{name} of a million, {str(dtype).rpartition('.')[2]}", nbytes / best(lambda f=f, x=x: f(x)) / 1e9, "GB/s")
                     for name, f in (("exp", tede.exp), ("x + x", lambda x: x + x))]
        x = tede.ones(1)
        rows.append(("one call, x + x of one element", 1e9 * best(lambda: [x + x for _ in range(1000)]) / 1000, "ns"))
    return rows


def text(found, rows):
    """Facts and speeds to read."""
    lines = [f"tede {found['version']}, Python {found['python']}, {found['system']}", f"in {found['folder']}", "",
             f"instructions  {found['instructions']} ({_LEVELS[found['instructions']]})"
             + ("" if found["instructions"] == "v4" else "; bfloat16 and float16 are slow without AVX-512"),
             f"threads       {found['threads']} of {found['cores']} cores",
             f"LAPACK        {found['blas']}",
             f"compiler      {found['compiler'] or 'none: compile() runs on the loops that are there; a C compiler would make hot ones anew'}"]
    lines += [f"{name:<13} {what}" for name, what in found["devices"].items()]
    lines += ["", "packages that it uses where they are:"]
    lines += [f"  {name:<24}{found['packages'][name] or 'no':<15}{what}" for name, what in _PACKAGES.items()]
    if rows:
        lines += ["", "measured now, the best of several runs:"]
        lines += [f"  {figure:>9.1f} {unit:<8} {what}" for what, figure, unit in rows]
        lines += ["", "python -m tede.utils.bottleneck script.py finds what is slow in a program."]
    return "\n".join(lines)


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tede", description="What is installed, and what is fast on this machine.")
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.add_argument("--quick", action="store_true", help="measure nothing")
    options = parser.parse_args(arguments)
    found, rows = facts(), [] if options.quick else speeds()
    print(json.dumps({**found, "speeds": [list(row) for row in rows]}, indent=1) if options.json else text(found, rows))


if __name__ == "__main__":
    main()
