"""out_dtype: an operator whose result is of a wider dtype than its operands."""
import importlib

import pytest


def test_products_of_bytes_are_summed_in_integers_of_32_bits(lib):
    out_dtype = importlib.import_module("torch._higher_order_ops.out_dtype" if lib.__name__ == "torch" else "tede._higher_order_ops").out_dtype
    a, b = lib.full((3, 400), 127, dtype=lib.int8), lib.full((400, 2), -128, dtype=lib.int8)
    result = out_dtype(lib.ops.aten.mm.default, lib.int32, a, b)
    assert result.dtype == lib.int32 and result.tolist() == [[127 * -128 * 400] * 2] * 3
    assert out_dtype(lib.ops.aten.mul.Scalar, lib.int32, a[:1, :2], 2).tolist() == [[254, 254]]
    assert out_dtype(lib.ops.aten.mm.default, lib.int8, a[:, :1].float(), b[:1].float() / 128).dtype == lib.int8
    for wrong in (lib.mm, lib.int32), (lib.ops.aten.add_.Tensor, lib.int32), (lib.ops.aten.split.Tensor, lib.int32):
        with pytest.raises(ValueError, match="out_dtype"):
            out_dtype(*wrong, a, a)


def test_operators_of_several_results_are_refused(lib):
    out_dtype = importlib.import_module("torch._higher_order_ops.out_dtype" if lib.__name__ == "torch" else "tede._higher_order_ops").out_dtype
    with pytest.raises(ValueError, match="out_dtype's can only apply to ops that return a single tensor"):
        out_dtype(lib.ops.aten.topk.default, lib.int32, lib.ones(2, dtype=lib.int8), 1)


@pytest.mark.parametrize("functional", [False, True])
def test_make_fx_notes_one_node(lib, functional):
    out_dtype = importlib.import_module("torch._higher_order_ops.out_dtype" if lib.__name__ == "torch" else "tede._higher_order_ops").out_dtype
    make_fx = importlib.import_module(f"{lib.__name__}.fx.experimental.proxy_tensor").make_fx
    x, weight = lib.arange(-12, 13, dtype=lib.int8).reshape(5, 5), lib.ones(5, 5, dtype=lib.int8)

    def product(x):
        return out_dtype(lib.ops.aten.mm.default, lib.int32, x, weight)
    traced = make_fx(lib.func.functionalize(product) if functional else product)(x)
    node, = (node for node in traced.graph.nodes if node.target is out_dtype)
    assert "torch.ops.higher_order.out_dtype(torch.ops.aten.mm.default, torch.int32, x_1, " in traced.code
    assert node.meta["val"].dtype == lib.int32 and node.args[2].meta["val"].dtype == lib.int8
    assert traced(x).dtype == lib.int32 and lib.equal(traced(x), product(x))
