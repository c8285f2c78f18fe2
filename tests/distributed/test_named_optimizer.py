"""_NamedOptimizer: states of optimizers by the names of parameters."""
import importlib
import warnings

import pytest


@pytest.fixture
def lib(library):
    return importlib.import_module(library)


def model(lib):
    lib.manual_seed(0)
    return lib.nn.Sequential(lib.nn.Linear(4, 8), lib.nn.ReLU(), lib.nn.Linear(8, 2))


def named(lib, net, groups=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        kind = importlib.import_module(f"{lib.__name__}.distributed.optim")._NamedOptimizer
        return kind(net.named_parameters(), lib.optim.SGD, groups, lr=0.1, **options)


def train(lib, net, optimizer, steps=2):
    for step in range(steps):
        net(lib.full((3, 4), step + 1.0)).sum().backward()
        optimizer.step()


def test_steps_and_states_are_those_of_the_optimizer(lib):
    net, same = model(lib), model(lib)
    ours, plain = named(lib, net, momentum=0.9), lib.optim.SGD(same.parameters(), lr=0.1, momentum=0.9)
    train(lib, net, ours), train(lib, same, plain)
    assert all(lib.equal(p, q) for p, q in zip(net.parameters(), same.parameters()))
    state, names = ours.state_dict(), list(dict(net.named_parameters()))
    assert sorted(state["state"]) == sorted(names) and state["param_groups"][0]["params"] == sorted(names) and state["param_groups"][0]["lr"] == 0.1
    for i, name in enumerate(names):
        assert lib.equal(state["state"][name]["momentum_buffer"], plain.state_dict()["state"][i]["momentum_buffer"])


def test_what_is_trained_elsewhere_is_read(lib):
    net = model(lib)
    part, whole = named(lib, net, [{"params": net[0].parameters(), "lr": 0.5}], momentum=0.9), named(lib, net, momentum=0.6)
    train(lib, net, part)
    saved = part.state_dict()
    with pytest.raises(ValueError, match="Expects the optim to be initialized before load but found not initialized"):
        whole.load_state_dict(saved)
    train(lib, net, whole, 1)
    before = whole.state_dict()["state"]["2.weight"]["momentum_buffer"].clone()
    whole.load_state_dict(saved)
    after = whole.state_dict()
    assert lib.equal(after["state"]["0.weight"]["momentum_buffer"], saved["state"]["0.weight"]["momentum_buffer"])
    assert lib.equal(after["state"]["2.weight"]["momentum_buffer"], before) and after["param_groups"][0]["momentum"] == 0.6
    other = named(lib, net, [{"params": list(net[0].parameters()), "lr": 0.1}], momentum=0.3)
    train(lib, net, other, 1)
    other.load_state_dict(saved)
    group = other.state_dict()["param_groups"][0]
    assert group["lr"] == 0.5 and group["momentum"] == 0.9


def test_a_state_can_be_made_before_the_first_step(lib):
    net = model(lib)
    optimizer, before = named(lib, net, momentum=0.9), [p.detach().clone() for p in net.parameters()]
    optimizer.init_state()
    assert all(lib.equal(p, q) for p, q in zip(net.parameters(), before)) and optimizer.param_groups[0]["lr"] == 0.1
    assert not optimizer.state_dict()["state"]["0.weight"]["momentum_buffer"].any() and net[0].weight.grad is not None


def test_groups_are_added_of_known_parameters(lib):
    net = model(lib)
    optimizer = named(lib, net, [{"params": net[0].parameters()}])
    optimizer.add_param_group({"params": net[2].weight, "lr": 0.01})
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, 0.01]
    with pytest.raises(ValueError, match="some parameters are not in the module"):
        optimizer.add_param_group({"params": [lib.ones(2)]})
