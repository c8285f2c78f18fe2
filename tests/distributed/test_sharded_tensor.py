"""ShardedTensor: blocks by a description, the whole of them, and checkpoints between descriptions."""
from importlib import import_module

import pytest
import ranks


def parts(lib):
    name = f"{lib.__name__}.distributed"
    return (import_module(f"{name}._shard"), import_module(f"{name}._shard.sharded_tensor"), import_module(f"{name}._shard.sharding_spec"),
            import_module(f"{name}.checkpoint"))


def described(lib, S):
    block = S.ShardMetadata
    return {"rows": S.ChunkShardingSpec(0, ["rank:0/cpu", "rank:1/cpu"]), "back": S.ChunkShardingSpec(0, ["rank:1/cpu", "rank:0/cpu"]),
            "columns": S.ChunkShardingSpec(1, ["rank:0/cpu", "rank:1/cpu"]), "four": S.ChunkShardingSpec(0, [f"rank:{i}/cpu" for i in (0, 1, 1, 0)]),
            "listed": S.EnumerableShardingSpec([block([0, 0], [1, 6], "rank:1/cpu"), block([1, 0], [6, 2], "rank:0/cpu"), block([1, 2], [6, 4], "rank:1/cpu")])}


def blocks(lib, rank, size):
    shard, T, S, _ = parts(lib)
    whole = lib.arange(42.).view(7, 6)
    found = {}
    for name, spec in described(lib, S).items():
        if name in ("rows", "back", "columns"):
            x = shard._shard_tensor(whole.clone(), spec)
        else:
            x = T.zeros(spec, 7, 6)
            for one in x.local_shards():
                (i, j), (n, m) = one.metadata.shard_offsets, one.metadata.shard_sizes
                one.tensor.copy_(whole[i:i + n, j:j + m])
        out = lib.empty(7, 6) if rank == 0 else None
        x.gather(out=out)
        found[name] = [type(x).__name__, list(x.shape), str(x.dtype).partition(".")[2], [one.tensor.tolist() for one in x.local_shards()],
                       [one.metadata.shard_offsets for one in x.local_shards()], rank != 0 or lib.equal(out, whole)]
    x = T.init_from_local_shards([T.Shard.from_tensor_and_offsets(whole[4 * rank:4 * rank + 4].contiguous(), [4 * rank, 0], rank)], 7, 6)
    found["inferred"] = [type(x.sharding_spec()).__name__, x.metadata().shards_metadata[1].shard_offsets]
    x.reshard(described(lib, S)["columns"])
    found["resharded"] = x.local_tensor().tolist()
    for name, wrong in {"too small": [3, 6], "overlapping": [6, 6]}.items():
        with pytest.raises(ValueError) as info:
            T.init_from_local_shards([T.Shard.from_tensor_and_offsets(lib.zeros(3, 6), [(2 if name[0] == "o" else 3) * rank, 0], rank)], *wrong)
        found[name] = type(info.value).__name__
    return found


def test_blocks_and_the_whole_of_them(library):
    first, second = ranks.run(blocks, 2, library)
    assert all(one[-1] and one[:3] == ["ShardedTensor", [7, 6], "float32"] for found in (first, second) for one in list(found.values())[:5])
    assert first["listed"][3] == [[[6., 7.], [12., 13.], [18., 19.], [24., 25.], [30., 31.], [36., 37.]]] and second["listed"][4] == [[0, 0], [1, 2]]
    assert first["back"][4] == [[4, 0]] and second["back"][4] == [[0, 0]] and first["four"][4] == [[0, 0], [6, 0]]
    assert first["inferred"] == second["inferred"] == ["ChunkShardingSpec", [4, 0]] and second["resharded"][0] == [3., 4., 5.]
    assert first["too small"] == first["overlapping"] == "ValueError"


def checkpoints(lib, rank, size, folder):
    """Each description's checkpoint is read into each other one, into a whole tensor, and a whole one's into each."""
    shard, T, S, dcp = parts(lib)
    wrong = []

    class Model(lib.nn.Module):
        def __init__(self, make, spec):
            super().__init__()
            self.table = make(spec, 7, 6)
            self._register_state_dict_hook(T.state_dict_hook)
    specs = described(lib, S)
    for a, saved in specs.items():
        model = Model(T.rand, saved)
        whole = lib.zeros(7, 6)
        model.table.gather(out=whole if rank == 0 else None)
        lib.distributed.broadcast(whole, 0)
        dcp.save({**model.state_dict(), "whole": whole}, checkpoint_id=f"{folder}/{a}")
        for b, loaded in specs.items():
            state = {"table": Model(T.zeros, loaded).state_dict()["table"], "whole": T.zeros(loaded, 7, 6)}
            dcp.load(state, checkpoint_id=f"{folder}/{a}")
            for name, x in state.items():
                for one in x.local_shards():
                    (i, j), (n, m) = one.metadata.shard_offsets, one.metadata.shard_sizes
                    if not lib.equal(one.tensor, whole[i:i + n, j:j + m]):
                        wrong.append((a, b, name))
        state = {"table": lib.zeros(7, 6)}
        dcp.load(state, checkpoint_id=f"{folder}/{a}")
        if not lib.equal(state["table"], whole):
            wrong.append((a, "whole"))
    return wrong


@pytest.mark.parametrize("name", ["tede"])
def test_checkpoints_are_read_by_other_descriptions(name, tmp_path):
    assert ranks.run(checkpoints, 2, name, str(tmp_path)) == [[], []]


def older(lib, rank, size, folder):
    """A checkpoint with the names of PyTorch 2.3, where dicts without tensors are one object."""
    _, _, _, dcp = parts(lib)
    planner, nested = import_module(f"{dcp.__name__}.default_planner"), import_module(f"{dcp.__name__}._nested_dict")
    traverse = import_module(f"{dcp.__name__}._traverse").traverse_state_dict_v_2_3
    state = {"x": lib.ones(2), "about": {"epochs": {"a": 1, "b": 2}}, "list": [1, {"y": lib.ones(3), "z": 3}]}
    flat, paths = nested.flatten_state_dict(state, traverse)
    save = planner.DefaultSavePlanner(flatten_state_dict=False)
    dcp.save(flat, checkpoint_id=folder, planner=save)
    found = {"x": lib.zeros(2), "about": {"epochs": {"a": 0, "b": 0}}, "list": [0, {"y": lib.zeros(3), "z": 0}]}
    dcp.load(found, checkpoint_id=folder)
    return sorted(flat), found["x"].tolist(), found["about"], found["list"][0], found["list"][1]["y"].tolist(), found["list"][1]["z"]


def test_names_of_older_checkpoints(tmp_path):
    [(names, *found)] = ranks.run(older, 1, "tede", str(tmp_path))
    assert names == ["about", "list.0", "list.1.y", "list.1.z", "x"]
    assert found == [[1., 1.], {"epochs": {"a": 1, "b": 2}}, 1, [1., 1., 1.], 3]
