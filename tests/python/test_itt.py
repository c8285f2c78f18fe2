"""Ranges for tools that aren't there: nothing pretends that they are collected."""
import pytest
import tede


def test_ranges_that_nobody_hears_are_refused():
    profiler = tede.autograd.profiler
    assert not tede.profiler.itt.is_available()
    with pytest.raises(RuntimeError, match="ITT functions not installed"):
        tede.profiler.itt.mark("here")
    with pytest.raises(RuntimeError, match="ITT functions not installed"), profiler.emit_itt():
        pass
    with pytest.raises(AssertionError, match="not compiled with CUDA"), profiler.emit_nvtx():
        pass
    with profiler.emit_itt(enabled=False), profiler.emit_nvtx(False):
        pass
