"""Initial values: PyTorch's numbers from the same seed, and the statistics that they are meant to have."""
import math

import numpy
import pytest

CASES = {
    "uniform_": ((5, 4), {"a": -1.0, "b": 2.0}), "normal_": ((5, 40), {"mean": 1.0, "std": 0.5}),
    "trunc_normal_": ((20, 10), {}), "constant_": ((3, 2), {"val": 0.7}), "ones_": ((3,), {}), "zeros_": ((3,), {}),
    "eye_": ((3, 4), {}), "dirac_": ((4, 2, 3), {"groups": 2}), "xavier_uniform_": ((4, 5), {"gain": 2.0}),
    "xavier_normal_": ((4, 5, 3), {}), "kaiming_uniform_": ((4, 5), {"a": 0.1}),
    "kaiming_normal_": ((4, 5, 3, 3), {"mode": "fan_out", "nonlinearity": "relu"}),
    "sparse_": ((6, 4), {"sparsity": 0.4}),
}


def array(tensor):
    return numpy.array(tensor.detach().tolist())


@pytest.mark.parametrize("name", CASES)
def test_numbers_are_pytorchs(both, name):
    shape, options = CASES[name]
    rows = []
    for lib in both:
        lib.manual_seed(7)
        tensor = lib.empty(*shape)
        assert getattr(lib.nn.init, name)(tensor, **options) is tensor
        rows.append((array(tensor), array(lib.rand(3))))        # what comes next shows how much was drawn
    for a, b in zip(*rows):
        numpy.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)


def test_truncation_far_from_the_mean(both):
    rows = []
    for lib in both:
        lib.manual_seed(7)
        with pytest.warns(UserWarning, match="mean is more than 2 std"):
            rows.append(array(lib.nn.init.trunc_normal_(lib.empty(50), mean=0.0, std=1.0, a=3.0, b=5.0)))
    numpy.testing.assert_allclose(*rows, rtol=1e-6)
    assert rows[0].min() >= 3 and rows[0].max() <= 5


def test_orthogonal_columns(lib):
    for shape in ((6, 4), (4, 6), (4, 3, 2)):
        flat = lib.nn.init.orthogonal_(lib.empty(*shape), gain=2.0).reshape(shape[0], -1)
        small = flat @ flat.T if flat.shape[0] < flat.shape[1] else flat.T @ flat
        assert lib.allclose(small, 4 * lib.eye(small.shape[0]), atol=1e-5)


def test_a_generator_of_its_own(lib):
    rows = []
    for _ in range(2):
        generator = lib.Generator()
        generator.manual_seed(3)
        rows.append(array(lib.nn.init.normal_(lib.empty(4), generator=generator)))
        lib.rand(5)
    assert (rows[0] == rows[1]).all()


def test_gains(lib):
    gain = lib.nn.init.calculate_gain
    assert gain("relu") == math.sqrt(2) and gain("tanh") == 5 / 3 and gain("leaky_relu", 0.2) == math.sqrt(2 / 1.04)
    assert gain("linear") == 1 and gain("selu") == 0.75


def test_old_names_warn(lib):
    with pytest.warns(FutureWarning, match="nn.init.uniform_"):
        lib.nn.init.uniform(lib.empty(2))


def test_initial_values_are_leaves(lib):
    p = lib.nn.Parameter(lib.empty(2, 2))
    lib.nn.init.xavier_uniform_(p)
    assert p.is_leaf and p.requires_grad and p.grad_fn is None
