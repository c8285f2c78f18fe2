"""Every Python function returns or raises, whatever it is called with; so does reading a checkpoint that was changed. `make fuzz-python`
tries more, under AddressSanitizer."""
import pathlib
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"


def run(*command):
    done = subprocess.run([sys.executable, "-X", "dev", *map(str, command)], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]


def test_a_table_of_calls_of_the_extensions_functions():
    run(TOOLS / "fuzz_python.py", "--calls", "0", "--match", r"^tede\._C\.[^.]*$")


def test_a_table_of_calls_of_a_fifth_of_all_functions():
    run(TOOLS / "fuzz_python.py", "--calls", "0", "--sample", "5")


def test_a_sample_of_functions_with_objects_of_all_kinds():
    run(TOOLS / "fuzz_python.py", "--sample", "60")


def test_checkpoints_that_were_changed():
    run(TOOLS / "fuzz_checkpoints.py", "--calls", "150")


def test_a_number_of_bytes_that_is_not_there_costs_no_memory():
    import io
    import pickle
    import tracemalloc

    import pytest
    from tede import _weights_only_unpickler

    class File(io.BytesIO):
        def read(self, n=-1):
            bytearray(n)                # as a buffered file does
            return super().read(n)
    tracemalloc.start()
    try:
        with pytest.raises(pickle.UnpicklingError, match="truncated"):
            _weights_only_unpickler.load(File(b"\x80\x02X\xff\xff\xff\xffabc."))
        assert tracemalloc.get_traced_memory()[1] < 1 << 24
        text = "x" * (3 << 20)
        assert _weights_only_unpickler.load(File(pickle.dumps(text, 2))) == text
    finally:
        tracemalloc.stop()
