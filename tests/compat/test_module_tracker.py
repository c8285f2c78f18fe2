"""ModuleTracker: which modules run, forward and backward."""
import importlib


def test_names_of_what_runs(lib):
    tracker = importlib.import_module(lib.__name__ + ".utils.module_tracker").ModuleTracker()
    seen = []

    class Note(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(("forward", tracker.is_bw, *sorted(tracker.parents)))
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            seen.append(("backward", tracker.is_bw, *sorted(tracker.parents)))
            return grad

    class Layer(lib.nn.Module):
        def forward(self, x):
            return Note.apply(x)
    net = lib.nn.Sequential(Layer(), lib.nn.Sequential(Layer()))
    with tracker:
        for _ in range(2):
            net(lib.ones(3, requires_grad=True)).sum().backward()
            assert tracker.parents == {"Global"}
    first, second = ("Global", "Sequential", "Sequential.0"), ("Global", "Sequential", "Sequential.1", "Sequential.1.0")
    assert seen == 2 * [("forward", False, *first), ("forward", False, *second), ("backward", True, *second), ("backward", True, *first)]


def test_a_device_by_decorator(lib):
    device = importlib.import_module(lib.__name__ + ".utils._device")

    @device.set_device("meta")
    def made():
        return lib.empty(2)
    assert made().is_meta and not lib.empty(2).is_meta
    with device.DeviceContext("meta"):
        assert lib.zeros(2).is_meta
