"""Which element `nearest` takes where a position falls on the edge between two: for doubles that is decided in float."""
import pytest


@pytest.mark.parametrize("mode, size, wanted, at, element", [("nearest", 70, 200, 180, 63), ("nearest", 300, 93, 31, 100)])
def test_element_on_an_edge(lib, mode, size, wanted, at, element):
    for dtype in (lib.float32, lib.float64):
        x = lib.arange(size, dtype=dtype).reshape(1, 1, size)
        assert lib.nn.functional.interpolate(x, size=wanted, mode=mode)[0, 0, at].item() == element


def test_gradients_go_to_elements_of_a_float_scale(lib):
    x = lib.arange(170, dtype=lib.float64).reshape(1, 1, 170).requires_grad_()
    y = lib.nn.functional.interpolate(x, size=235, mode="nearest-exact")
    y.backward(lib.arange(1, 236, dtype=lib.float64).reshape(1, 1, 235))
    assert x.grad[0, 0, 118:120].tolist() == [329.0, 166.0]
    assert (y[0, 0] == 118).sum().item() == 1 and (y[0, 0] == 119).sum().item() == 2


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
@pytest.mark.parametrize("size", [(9, 14), (3, 4), (7, 30)])
def test_pixels_that_lie_last_are_those_that_lie_apart(lib, size, dtype):
    x = (lib.arange(2 * 20 * 7 * 6) * 37 % 251).reshape(2, 20, 7, 6).to(getattr(lib, dtype))
    last = x.contiguous(memory_format=lib.channels_last)
    for mode in ("nearest", "nearest-exact", "bilinear", "bicubic"):
        a, b = (lib.nn.functional.interpolate(y, size=size, mode=mode) for y in (x, last))
        assert b.is_contiguous(memory_format=lib.channels_last) and a.is_contiguous()
        assert (a.double() - b.double()).abs().max().item() <= (0 if "nearest" in mode else 1 if dtype == "uint8" else .25 if dtype == "float16" else 1e-4)
    made = lib.nn.functional.interpolate(x.reshape(2, 20, 1, 7, 6), size=(2, *size), mode="nearest")
    assert (made[:, :, 1] == lib.nn.functional.interpolate(x, size=size, mode="nearest")).all().item()
