"""ZeroRedundancyOptimizer, SyncBatchNorm and DistributedSampler in several processes."""
import ddp_programs as programs
import pytest
import tede
from ddp_results import results


def test_a_divided_optimizer_takes_the_steps_of_the_whole_one(library):
    first, second = results(programs.zero, library)
    for view in (False, True):
        assert first[f"difference {view}"] < 1e-6 and second[f"difference {view}"] < 1e-6
        assert "consolidate_state_dict(to=0)" in first[f"state {view}"] and second[f"state {view}"] == [0, 1, 2, 3, 4, 5]
        assert first[f"own {view}"] + second[f"own {view}"] == 435 and 0 < first[f"own {view}"] < 435
        assert first[f"rate {view}"] == (0.01, 0.01)
    assert first["joined"] == second["joined"]


def test_steps_within_the_backward_pass_are_those_of_the_optimizer():
    for found in results(programs.zero_within_the_pass, "tede"):
        for other in found[1:]:
            assert other == pytest.approx(found[0], abs=1e-3)


def test_a_synchronised_norm_is_one_over_the_joined_batch():
    for worst, after in results(programs.synchronised_norm, "tede"):
        assert len(worst) == 4 and max(worst) < 2e-5 and after < 1e-5


@pytest.mark.parametrize("options", ({}, {"shuffle": False}, {"drop_last": True}, {"seed": 3}))
def test_samplers_divide_a_dataset_as_pytorch_s_do(options):
    torch = pytest.importorskip("torch")
    for length, ranks in ((10, 3), (2, 5), (12, 4)):
        for rank in range(ranks):
            ours, theirs = (lib.utils.data.distributed.DistributedSampler(range(length), ranks, rank, **options) for lib in (tede, torch))
            for epoch in range(2):
                ours.set_epoch(epoch)
                theirs.set_epoch(epoch)
                assert len(ours) == len(theirs) and len(list(ours)) == len(ours)
                if not options.get("shuffle", True):
                    assert list(ours) == list(theirs)
    parts = [list(tede.utils.data.distributed.DistributedSampler(range(12), 4, rank)) for rank in range(4)]
    assert sorted(i for part in parts for i in part) == list(range(12))
