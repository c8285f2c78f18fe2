"""replicate(), contract() and the paths of nested state dicts, on tede and on PyTorch."""
import copy
import importlib

import pytest
import ranks


class Net:
    def __new__(cls, lib):
        lib.manual_seed(0)
        return lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.Tanh(), lib.nn.Linear(4, 2), lib.nn.Linear(2, 2))


def replicated(lib, rank, size):
    replicate = importlib.import_module(f"{lib.__name__}.distributed._composable.replicate").replicate
    alone, net = Net(lib), Net(lib)
    names = list(net.state_dict())
    net.requires_grad_(True)
    if rank:
        with lib.no_grad():
            net[0].weight.add_(1)                   # the first rank's parameters are everybody's
    assert replicate(net, ignored_modules=[net[3]], bucket_cap_mb=1) is net and list(net.state_dict()) == names
    x = lib.sin(lib.arange(12.0).reshape(4, 3))
    alone[:3](x).square().mean().backward()
    wrapped = net(x[2 * rank:2 * rank + 2])
    wrapped.sum().backward()                        # of its own: the ignored layer's gradient isn't averaged
    own = net[3].bias.grad.tolist()
    both = [lib.empty_like(net[0].weight.grad) for _ in range(size)]
    lib.distributed.all_gather(both, net[0].weight.grad)
    assert lib.equal(*both) and own == [2.0, 2.0]
    net.zero_grad()
    net.set_requires_gradient_sync(False)
    net(x * (rank + 1)).sum().backward()
    lib.distributed.all_gather(both, net[0].weight.grad)
    assert not lib.equal(*both)
    with pytest.raises(AssertionError, match="can only be applied to a module once"):
        replicate(net)
    with pytest.raises(RuntimeError, match="Expected device_id to be int or torch.device"):
        replicate(Net(lib), device_id=[0])
    return True


def test_gradients_of_a_replicated_module(library):
    assert ranks.run(replicated, 2, library) == [True, True]


def averaged(lib, rank, size):
    replicate = importlib.import_module(f"{lib.__name__}.distributed._composable.replicate").replicate
    alone = Net(lib)
    net = replicate(copy.deepcopy(alone))
    x = lib.sin(lib.arange(12.0).reshape(4, 3))
    alone(x).square().mean().backward()
    net(x[2 * rank:2 * rank + 2]).square().mean().backward()
    return max((a.grad - b.grad).abs().max().item() for a, b in zip(alone.parameters(), net.parameters()))


def test_gradients_are_those_of_the_joined_batch(library):
    assert max(ranks.run(averaged, 2, library)) < 1e-6


def test_what_a_contract_demands(library):
    lib = importlib.import_module(library)
    module = importlib.import_module(f"{library}.distributed._composable")

    @module.contract()
    def mark(m, name="x"):
        mark.state(m[0] if isinstance(m, list) else m).name = name
        return m

    @module.contract()
    def wrap(m):
        return lib.nn.Sequential(m)
    net = Net(lib)
    assert mark(net[0], name="y") is net[0] and mark.state(net[0]).name == "y" and list(module._get_registry(net[0])) == ["mark"]
    assert module._get_registry(net[1]) is None and mark.state(net[1]) is None
    mark([net[2], net[3]])
    assert mark.state(net[2]) is mark.state(net[3]) is not mark.state(net[0])
    with pytest.raises(AssertionError, match="mark has already been applied"):
        mark([net[1], net[2]])
    with pytest.raises(RuntimeError, match="cannot modify FQNs"):
        wrap(Net(lib)[0])


def test_paths_of_nested_state_dicts(library):
    lib = importlib.import_module(library)
    flatten = importlib.import_module(f"{library}.distributed.checkpoint._nested_dict").flatten_state_dict
    one = lib.ones(1)
    for nested, names in [({"a": {}}, []), ({"a": []}, ["a"]), ({"a": (1, one)}, ["a"]), ({"a": [{"lr": 0.1}, [1]]}, ["a.0.lr", "a.1"]),
                          ({"a": [1, [2, 3]]}, ["a"]), ({"a": [1, [2, one]], "b": {1: one}}, ["a.0", "a.1.0", "a.1.1", "b.1"]),
                          ({"a": [(1, {"b": one})]}, ["a"])]:
        assert list(flatten(nested)[0]) == names, nested
    traverse = importlib.import_module(f"{library}.distributed.checkpoint._traverse")
    assert traverse.get_element({"a": [2, {"c": "d"}]}, ("a", 1, "c")) == "d" and traverse.get_element({"a": [2]}, ("a", 3), "none") == "none"


def test_plans_of_chunks(library):
    lib = importlib.import_module(library)
    base = f"{library}.distributed.checkpoint"
    helpers, metadata = importlib.import_module(base + ".planner_helpers"), importlib.import_module(base + ".metadata")
    block = lambda start, size: metadata.ChunkStorageMetadata(lib.Size([start]), lib.Size([size]))
    stored = metadata.TensorStorageMetadata(metadata.TensorProperties.create_from_tensor(lib.empty(16)), lib.Size([16]), [block(0, 8), block(8, 8)])
    items = helpers.create_read_items_for_chunk_list("w", stored, [block(4, 7), block(12, 4)])
    assert [(i.dest_index.offset, i.dest_offsets, i.storage_index.offset, i.storage_offsets, i.lengths) for i in items] == [
        ((4,), (0,), (0,), (4,), (4,)), ((4,), (4,), (8,), (0,), (3,)), ((12,), (0,), (8,), (4,), (4,))]
    plan = importlib.import_module(base + ".planner").SavePlan
    item = lambda name: helpers._create_write_item_for_tensor(name, lib.ones(4))
    once = importlib.import_module(base + "._dedup_tensors").dedup_tensors([plan([item("shared"), item("first")]), plan([item("shared"), item("second")])])
    assert [[i.index.fqn for i in p.items] for p in once] == [["shared", "first"], ["second"]]


def test_a_module_is_computed_again(library):
    lib = importlib.import_module(library)
    checkpoint = importlib.import_module(f"{library}.distributed._composable").checkpoint
    count = []

    class Noisy(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = lib.nn.Parameter(lib.ones(3))

        def forward(self, x, *, by=1.0):
            count.append(1)
            return (x * self.weight * lib.rand(3) * by).sin()
    net, x = Noisy(), lib.ones(2, 3, requires_grad=True)
    lib.manual_seed(0)
    net(x, by=2.0).sum().backward()
    wanted = net.weight.grad.clone()
    net.zero_grad()
    assert checkpoint(net) is net and list(net.state_dict()) == ["weight"]
    lib.manual_seed(0)
    net(x, by=2.0).sum().backward()
    assert len(count) == 3 and lib.equal(net.weight.grad, wanted)
    with pytest.raises(AssertionError, match="can only be applied to a module once"):
        checkpoint(net)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: other"):
        checkpoint(Noisy(), other=1)
    with pytest.raises(TypeError):
        net(x, of=2)                                # an error in forward ends what it has begun
    assert checkpoint.state(net)._ac_generator is None
