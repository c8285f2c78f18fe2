"""Communication hooks of DistributedDataParallel, and optimizers within its backward pass, beside PyTorch's."""
import ddp_programs as programs
import pytest
from ddp_results import results


def close(ours, theirs, tolerance=2e-3):
    assert ours.keys() == theirs.keys()
    for name in ours:
        assert ours[name] == pytest.approx(theirs[name], abs=tolerance), name


def test_hooks_train_as_in_pytorch():
    ours, theirs = (results(programs.hooks, library) for library in ("tede", "torch"))
    close(ours[0], theirs[0])
    assert ours[0]["none"] == ours[0]["allreduce_hook"] == ours[1]["none"] and ours[0]["noop_hook"] != ours[1]["noop_hook"]
    assert ours[0]["power True"] == pytest.approx(ours[1]["power False"], abs=2e-3)


def test_hooks_that_pytorch_has_for_gpus_only():
    for found, plain in results(programs.more_hooks, "tede"):
        close(found, dict.fromkeys(found, plain), 1e-2)
        assert len(found) == 6


def test_what_a_hook_is_passed(library):
    found, gradients = results(programs.what_hooks_see, library)[1]
    assert found[0] == (0, True, [435], [[16, 6], [16], [16, 16], [16], [3, 16], [3]], 6)
    assert [bucket[:2] for bucket in found[1:]] == [(0, False), (1, True)]
    first, last = found[1:]
    assert first[2][0] + last[2][0] == 435 and first[3][:2] in ([[3, 16], [3]], [[3], [3, 16]]) and first[4] + last[4] == 6
    assert gradients == [2.0] * 6


def test_optimizers_that_overlap_with_the_backward_pass_are_pytorch_s():
    ours, theirs = (results(programs.fused_optimizers, library)[0] for library in ("tede", "torch"))
    close(ours, theirs)


def test_optimizers_that_parameters_carry():
    for found in results(programs.optimizers_in_the_pass, "tede"):
        assert found[1] and found[3] and found[0] < 1e-6 and found[2] < 1e-6


def test_parameters_are_averaged_now_and_then_as_in_pytorch():
    ours, theirs = (results(programs.averaged, library)[0] for library in ("tede", "torch"))
    assert ours[1:3] == theirs[1:3] == [4, 4] and ours[4:] == theirs[4:]
    assert ours[0] == pytest.approx(theirs[0], abs=1e-3) and ours[3] == pytest.approx(theirs[3], abs=1e-3)
