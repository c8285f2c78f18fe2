"""In what order the results of pooling lie, and what their gradients refuse."""
import pytest


def strided(lib):
    images = lib.randn(4, 8, 10, 10).contiguous(memory_format=lib.channels_last)
    return {"channels": images[:, ::2], "rows": images[:, :, ::2], "images": images[::2], "places": images[:, :, ::2, ::2]}


@pytest.mark.parametrize("which", ["channels", "rows", "images", "places"])
def test_max_pool_of_slices_of_images_keeps_channels_innermost(lib, which):
    x = strided(lib)[which].detach().requires_grad_()
    y, places = lib.nn.functional.max_pool2d(x, 2, 1, 1, 2, return_indices=True)
    assert y.is_contiguous(memory_format=lib.channels_last) and places.is_contiguous(memory_format=lib.channels_last)
    plain = x.detach().contiguous().requires_grad_()
    z, plain_places = lib.nn.functional.max_pool2d(plain, 2, 1, 1, 2, return_indices=True)
    assert z.is_contiguous() and lib.equal(y, z) and lib.equal(places, plain_places)
    weights = lib.randn(y.shape)
    (y * weights).sum().backward()
    (z * weights).sum().backward()
    assert lib.equal(x.grad, plain.grad)


@pytest.mark.parametrize("kernel", [2, (5, 6, 7)])
def test_max_pool_of_a_single_volume_keeps_channels_innermost(lib, kernel):
    x = lib.randn(1, 6, 14, 12, 13).contiguous(memory_format=lib.channels_last_3d).squeeze(0)
    y = lib.nn.functional.max_pool3d(x, kernel)
    assert y.unsqueeze(0).is_contiguous(memory_format=lib.channels_last_3d)
    assert lib.equal(y, lib.nn.functional.max_pool3d(x.contiguous(), kernel))


@pytest.mark.parametrize("name", ["adaptive_avg_pool2d", "adaptive_max_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool3d"])
def test_gradients_of_adaptive_pooling_to_nothing(lib, name):
    x = lib.ones(1, 4, 6, 5, requires_grad=True)
    y = getattr(lib.nn.functional, name)(x, 0)
    assert y.numel() == 0
    with pytest.raises(RuntimeError, match=name + r"_backward\(\): Expected grad_output to have non-zero size for non-batch dim"):
        y.sum().backward()


def test_gradients_of_adaptive_means_keep_channels_innermost(lib):
    x = lib.randn(2, 3, 4, 4).contiguous(memory_format=lib.channels_last).requires_grad_()
    for size in 2, 4:
        y = lib.nn.functional.adaptive_avg_pool2d(x, size)
        grad, = lib.autograd.grad(y, x, lib.rand(y.shape))
        assert grad.is_contiguous(memory_format=lib.channels_last)
    grad = lib.rand(2, 3, 4, 4)
    made = lib.ops.aten._adaptive_avg_pool2d_backward(grad, x.detach())
    assert made.is_contiguous(memory_format=lib.channels_last) and lib.equal(made, grad)
