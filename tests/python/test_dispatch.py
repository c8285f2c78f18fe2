"""What the generator promises of an entry: every variant is there, and the committed outputs are those of the entries."""
import pathlib
import subprocess
import sys

import pytest

import tede

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_pointwise_entry_gives_function_method_inplace_and_out():
    x = tede.tensor([0.5, 1.0])
    out = tede.empty(2)
    assert tede.exp(x, out=out) is out
    assert tede.equal(out, x.exp())
    y = x.clone()
    assert y.exp_() is y and tede.equal(y, out)


def test_integers_go_through_the_default_dtype_where_the_entry_says_so():
    assert tede.exp(tede.tensor([0, 1])).dtype == tede.float32


def test_meta_tensors_get_shapes_and_errors_without_memory():
    a, b = tede.empty(1 << 20, 1 << 20, device='meta'), tede.empty(1 << 20, 1, device='meta')
    assert (a + b).shape == a.shape and (a + b).device.type == 'meta'
    with pytest.raises(RuntimeError, match='must match the size of tensor b'):
        a + tede.empty(3, device='meta')


def test_an_error_names_the_operator_and_what_it_met():
    with pytest.raises(RuntimeError, match=r'The size of tensor a \(3\) must match the size of tensor b \(4\)'):
        tede.ones(2, 3) + tede.ones(2, 4)
    with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
        tede.bitwise_and(tede.ones(2), tede.ones(2))


def test_negative_steps_are_views():
    x = tede.arange(6)
    y = x[::-2]
    assert y.tolist() == [5, 3, 1] and y.stride() == (-2,)
    y[0] = 50
    assert x[5].item() == 50


def test_the_committed_outputs_are_not_stale():
    subprocess.run([sys.executable, '-m', 'codegen', '--check'], cwd=ROOT, check=True)


def test_keys_named_as_pytorchs_are_the_cores():
    from tede._registry import key_of
    names = tede._C._key_names()
    assert {name: names[key_of(name)[0]] for name in ("Python", "Conjugate", "Autograd", "AutogradCPU", "Tracer", "FuncTorchBatched")} == {
        "Python": "Python", "Conjugate": "Conjugate", "Autograd": "Autograd", "AutogradCPU": "Autograd", "Tracer": "Tracing",
        "FuncTorchBatched": "Transforms"}


def test_a_number_is_the_default_of_a_list_of_a_length():
    library = tede.library.Library("numbers", "DEF")
    library.define("lists(Tensor x, int[2] a=3, float[2] b=0.5, bool[3] c=True, int[2] d=[]) -> Tensor")
    defaults = [argument.default_value for argument in tede.ops.numbers.lists.default._schema.arguments[1:]]
    assert defaults == [[3, 3], [0.5, 0.5], [True] * 3, []]
