"""DistributedDataParallel and what belongs to it, in several processes, on tede and on PyTorch."""
import ddp_programs as programs
import pytest
from ddp_results import results

EPSILON = programs.EPSILON


def same(results):
    assert all(result == results[0] for result in results)
    return results[0]


def test_gradients_are_those_of_one_process_on_the_joined_batch(library):
    for result in results(programs.models, library):
        assert set(result) == {"mlp", "cnn", "gpt"} and max(result.values()) < EPSILON


def test_gradients_of_four_ranks_are_those_of_one_process():
    for result in results(programs.models, "tede", 4):
        assert max(result.values()) < EPSILON


def test_gradients_of_two_ranks_are_exact_where_the_order_of_sums_is_the_same():
    for result in results(programs.to_the_last_bit, "tede"):
        assert result == [0, 0, 0]


def test_gradients_with_every_way_to_make_buckets(library):
    for result in results(programs.all_options, library):
        assert len(result) == 13 and not {name: worst for name, worst in result.items() if not worst < EPSILON}


def test_parameters_that_are_not_used(library):
    used = same(results(programs.unused_parameters, library))
    assert [[grad is not None for grad in step] for step in used[:4]] == [[1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 0, 0]]
    assert used[:4] == used[4:]


def test_parameters_that_are_not_used_are_as_in_pytorch():
    for program in (programs.unused_parameters, programs.static_graph, programs.used_twice, programs.sparse_gradients):
        ours, theirs = (same(results(program, library)) for library in ("tede", "torch"))
        assert str(ours) == str(theirs), program.__name__


def test_what_is_refused(library):
    found = results(programs.refusals, library)[1]
    assert "Expected to have finished reduction in the prior iteration" in found["unfinished"]
    assert "passing the keyword argument `find_unused_parameters=True`" in found["unfinished"]
    assert "did not receive grad for rank 1: 1 2" in found["unfinished"]
    assert found["said"] in found["unfinished"]
    assert "Expected to mark a variable ready only once" in found["hidden"]
    assert found["no backward pass"] == [None, None]
    assert "doesn't have any parameter that requires a gradient" in found["frozen"]
    assert found["lazy"].startswith("RuntimeError: Modules with uninitialized parameters")
    assert found["device_ids"].startswith("ValueError: DistributedDataParallel device_ids and output_device arguments")
    assert found["devices"] == "ValueError: device_ids can only be None or contain a single element."
    assert found["hook"] == "TypeError: Communication hook must be callable."
    assert found["annotation"] == "ValueError: Communication hook: bucket annotation should be dist.GradBucket."
    assert "can only be called once" in found["twice"]
    assert "callback must return a torch.futures.Future object, but got" in found["no future"]
    assert "Your training graph has changed in this iteration" in found["changed"]


def test_models_that_are_not_alike_are_refused_on_all_ranks():
    for text in results(programs.other_shapes, "tede"):
        assert text.startswith("RuntimeError: ") and "appears not to match sizes" in text


def test_buffers_are_those_of_rank_0(library):
    first, second = results(programs.buffers, library)
    assert first == [[0, 0], [10, 10], [0, 0], [10, 10]]
    assert second == [[0, 0], [10, 10], [1, 1], [11, 11]]


def test_ranks_with_unequally_many_inputs(library):
    found = results(programs.joined, library)
    assert found[0][0] == found[1][0] and found[0][0][0] != found[0][0][1]
    assert found[0][1] == "RuntimeError: Rank 0 exhausted all inputs."
    assert found[1][1] == "RuntimeError: Detected at least one rank that exhausted inputs. Throwing across all ranks."


def test_joined_ranks_train_as_in_pytorch():
    ours, theirs = (results(programs.joined, library)[0][0] for library in ("tede", "torch"))
    assert ours == pytest.approx(theirs, abs=1e-3)


def test_parameters_that_are_left_alone(library):
    found = results(programs.only_some_parameters, library)
    assert [result[0] for result in found] == [0, 1] and found[0][1] == found[1][1] and found[0][1][1] is None


def test_wrappers_are_kept_and_copied(library):
    (prefix, *reduced), text = same(results(programs.kept_and_copied, library))
    assert prefix == "module.0.bias" and reduced[0] == reduced[1] and len(reduced) == 3
    assert "DDP Pickling/Unpickling are only supported" in text


def test_a_wrapper_says_about_itself_what_pytorch_s_does():
    ours, theirs = (results(programs.known, library)[0] for library in ("tede", "torch"))
    assert ours == theirs


def test_a_wrapper_goes_away_with_its_last_reference(library):
    assert results(programs.lone_wrapper_goes_away, library) == [True, True]
