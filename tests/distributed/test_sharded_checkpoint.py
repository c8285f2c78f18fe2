"""distributed.checkpoint: what some ranks write any number of ranks reads, in PyTorch's files."""
from importlib import import_module

import pytest
import ranks


def _values(lib):
    return lib.arange(35.).view(7, 5), lib.arange(6.)


def write(lib, rank, size, folder, later):
    C, T = (import_module(f"{lib.__name__}.distributed.{name}") for name in ("checkpoint", "tensor"))
    m, (x, y) = T.init_device_mesh("cpu", (size,)), _values(lib)
    state = {"m": {"x": T.distribute_tensor(x, m, [T.Shard(0)]), "x1": T.distribute_tensor(x, m, [T.Shard(1)]), "y": y,
                   "r": T.distribute_tensor(y, m, [T.Replicate()])}, "n": 3, "l": [y + 1, "a"]}
    if later:
        future = C.async_save(state, checkpoint_id=folder)
        y.zero_()
        future.result()
    else:
        C.save(state, checkpoint_id=folder)


def read(lib, rank, size, folder):
    C, T = (import_module(f"{lib.__name__}.distributed.{name}") for name in ("checkpoint", "tensor"))
    m, (x, y) = T.init_device_mesh("cpu", (size,)), _values(lib)
    state = {"m": {"x": T.distribute_tensor(x * 0, m, [T.Shard(1)]), "x1": x * 0, "y": y * 0, "r": T.distribute_tensor(y * 0, m, [T.Shard(0)])}, "n": 0,
             "l": [y * 0, "b"]}
    C.load(state, checkpoint_id=folder)
    with pytest.raises(C.CheckpointException, match="Missing key in checkpoint state_dict: zz"):
        C.load({"zz": y}, checkpoint_id=folder)
    with pytest.raises(C.CheckpointException, match="Size mismatch"):
        C.load({"m": {"y": y[1:].clone()}}, checkpoint_id=folder)
    return [bool((state["m"]["x"].full_tensor() == x).all()), bool((state["m"]["x1"] == x).all()), bool((state["m"]["y"] == y).all()),
            bool((state["m"]["r"].full_tensor() == y).all()), state["n"], state["l"][1], bool((state["l"][0] == y + 1).all())]


def test_two_ranks_write_and_three_read(tmp_path):
    ranks.run(write, 2, "tede", str(tmp_path), False)
    assert ranks.run(read, 3, "tede", str(tmp_path)) == [[True] * 4 + [3, "a", True]] * 3


def test_a_copy_is_written_by_a_thread(tmp_path):
    ranks.run(write, 2, "tede", str(tmp_path), True)
    assert ranks.run(read, 1, "tede", str(tmp_path)) == [[True] * 4 + [3, "a", True]]


@pytest.mark.parametrize("writer, reader", [("tede", "torch"), ("torch", "tede")])
def test_files_are_pytorchs(tmp_path, writer, reader):
    pytest.importorskip("torch")
    ranks.run(write, 2, writer, str(tmp_path), False)
    assert ranks.run(read, 2, reader, str(tmp_path)) == [[True] * 4 + [3, "a", True]] * 2


def helpers(lib, rank, size):
    S = import_module(f"{lib.__name__}.distributed.checkpoint.state_dict")
    D, T = (import_module(f"{lib.__name__}.distributed.{name}") for name in ("fsdp", "tensor"))
    lib.manual_seed(0)

    def make():
        model = lib.nn.Sequential(lib.nn.Linear(5, 3), lib.nn.Linear(3, 2))
        D.fully_shard(model, mesh=T.init_device_mesh("cpu", (size,)))
        return model, lib.optim.AdamW(model.parameters(), 1e-2)
    model, optimizer = make()
    model(lib.ones(2, 5)).sum().backward()
    optimizer.step()
    full = S.StateDictOptions(full_state_dict=True)
    weights, moments = S.get_state_dict(model, optimizer, options=full)
    other, second = make()
    S.set_state_dict(other, second, model_state_dict=weights, optim_state_dict=moments, options=full)
    again, moved = S.get_state_dict(other, second, options=full)
    third, fourth = make()
    options = S.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
    S.set_state_dict(third, fourth, model_state_dict=weights if rank == 0 else {}, optim_state_dict=moments if rank == 0 else {}, options=options)
    sent = S.get_model_state_dict(third, options=full)
    return [sorted(weights), all(bool((weights[k] == again[k]).all() and (weights[k] == sent[k]).all()) for k in weights), sorted(moments["state"]),
            all(bool((state[k] == moved["state"][name][k]).all()) for name, state in moments["state"].items() for k in state),
            list(moments["state"]["0.weight"]["exp_avg"].shape)]


def test_full_state_dicts_of_sharded_models():
    # On tede alone: with PyTorch 2.13 and gloo the ranks wait for each other until the time is over.
    names = ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert ranks.run(helpers, 2) == [[names, True, names, True, [3, 5]]] * 2
