"""Module: attributes, traversal, state, hooks. Each test holds on tede and on PyTorch."""
import copy
import pickle
import warnings
from collections import OrderedDict

import pytest


def make_net(lib):
    nn = lib.nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 4)
            self.rest = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))
            self.register_buffer("scale", lib.ones(2))
            self.register_buffer("scratch", lib.zeros(1), persistent=False)

        def forward(self, x):
            return self.rest(self.first(x)) * self.scale
    return Net()


@pytest.fixture
def net(lib):
    return make_net(lib)


# Attributes -----------------------------------------------------------------------------------------------------

def test_assigning_sorts_values_into_their_dicts(lib, nn):
    m = nn.Module()
    m.p, m.child, m.number = nn.Parameter(lib.ones(2)), nn.ReLU(), 3
    m.b = nn.Buffer(lib.zeros(1))
    assert list(m._parameters) == ["p"] and list(m._modules) == ["child"] and list(m._buffers) == ["b"]
    assert m.number == 3 and "p" not in m.__dict__ and m.p is m._parameters["p"]


def test_a_parameter_replaces_what_had_its_name(lib, nn):
    m = nn.Module()
    m.x = nn.ReLU()
    m.x = nn.Parameter(lib.ones(1))
    assert list(m._modules) == [] and list(m._parameters) == ["x"]
    m.x = None
    assert m.x is None and list(m.parameters()) == []
    m.y = 5
    m.y = nn.Parameter(lib.ones(1))
    assert "y" not in m.__dict__


def test_buffers_stay_buffers_when_assigned_anew(lib, net):
    net.scale = lib.zeros(2)
    assert list(dict(net.named_buffers())) == ["scale", "scratch"] and net.scale.sum() == 0
    net.scale = None
    assert net._buffers["scale"] is None


def test_deleting_attributes(lib, net):
    del net.scale, net.first, net.scratch
    assert not hasattr(net, "scale") and not hasattr(net, "first") and net._non_persistent_buffers_set == set()
    with pytest.raises(AttributeError):
        del net.nothing


def test_dir_lists_members_but_no_numbers(net):
    names = dir(net.rest)
    assert "0" not in names and "forward" in names
    assert {"first", "rest", "scale"} <= set(dir(net))


def test_non_leaf_parameters_are_refused(lib, nn):
    m = nn.Module()
    p = nn.Parameter(lib.ones(2))
    with pytest.raises(TypeError, match="cannot assign"):
        m.register_parameter("p", p * 2)


ERRORS = {
    "before init": lambda lib, m: setattr(lib.nn.Module.__new__(lib.nn.Module), "p", lib.nn.Parameter(lib.ones(1))),
    "child before init": lambda lib, m: setattr(lib.nn.Module.__new__(lib.nn.Module), "p", lib.nn.ReLU()),
    "buffer before init": lambda lib, m: lib.nn.Module.__new__(lib.nn.Module).register_buffer("b", None),
    "keyword": lambda lib, m: lib.nn.Module(a=1),
    "positional": lambda lib, m: lib.nn.Module(1, 2),
    "no forward": lambda lib, m: lib.nn.Module()(1),
    "no attribute": lambda lib, m: m.nothing,
    "buffer name": lambda lib, m: m.register_buffer("a.b", None),
    "empty buffer name": lambda lib, m: m.register_buffer("", None),
    "buffer name type": lambda lib, m: m.register_buffer(3, None),
    "buffer exists": lambda lib, m: m.register_buffer("first", None),
    "buffer type": lambda lib, m: m.register_buffer("new", 3),
    "parameter name": lambda lib, m: m.register_parameter("a.b", None),
    "parameter exists": lambda lib, m: m.register_parameter("scale", None),
    "parameter type": lambda lib, m: m.register_parameter("new", "text"),
    "module name": lambda lib, m: m.add_module("a.b", None),
    "module type": lambda lib, m: m.add_module("a", 3),
    "module exists": lambda lib, m: m.add_module("scale", None),
    "parameter by number": lambda lib, m: setattr(m.first, "weight", 3),
    "module by number": lambda lib, m: setattr(m, "first", 3),
    "buffer by number": lambda lib, m: setattr(m, "scale", 3),
    "submodule": lambda lib, m: m.get_submodule("first.deep.er"),
    "submodule kind": lambda lib, m: m.get_submodule("first.weight"),
    "get parameter": lambda lib, m: m.get_parameter("first.nothing"),
    "get buffer": lambda lib, m: m.get_buffer("first.weight"),
    "set submodule": lambda lib, m: m.set_submodule("", lib.nn.ReLU()),
    "set submodule kind": lambda lib, m: m.set_submodule("first", 3),
    "train": lambda lib, m: m.train(1),
    "to": lambda lib, m: m.to(lib.int64),
    "load type": lambda lib, m: m.load_state_dict(3),
    "load": lambda lib, m: m.load_state_dict({"first.weight": lib.ones(1), "other": lib.ones(1), "first.bias": 3}),
    "sequence index": lambda lib, m: m.rest[7],
    "list index": lambda lib, m: lib.nn.ModuleList([lib.nn.ReLU()])[3],
    "list extend": lambda lib, m: lib.nn.ModuleList().extend(3),
    "sequence sum": lambda lib, m: m.rest + 3,
    "sequence product": lambda lib, m: m.rest * 0,
    "insert": lambda lib, m: m.rest.insert(9, lib.nn.ReLU()),
    "dict update": lambda lib, m: lib.nn.ModuleDict(3),
    "dict pair": lambda lib, m: lib.nn.ModuleDict([("a",)]),
    "parameter list call": lambda lib, m: lib.nn.ParameterList()(1),
    "parameter dict key": lambda lib, m: lib.nn.ParameterDict()[3],
    "groups": lambda lib, m: lib.nn.Conv2d(3, 4, 2, groups=2),
    "padding name": lambda lib, m: lib.nn.Conv2d(3, 4, 2, padding="half", stride=2),
    "same with stride": lambda lib, m: lib.nn.Conv2d(3, 4, 2, padding="same", stride=2),
    "transpose padding": lambda lib, m: lib.nn.ConvTranspose2d(3, 4, 2, padding_mode="reflect"),
    "transpose size": lambda lib, m: lib.nn.ConvTranspose2d(2, 2, 3, 2)(lib.ones(1, 2, 4, 4), output_size=[20, 20]),
    "dropout": lambda lib, m: lib.nn.Dropout(1.5),
    "dropout1d": lambda lib, m: lib.nn.Dropout1d()(lib.ones(1)),
    "group norm": lambda lib, m: lib.nn.GroupNorm(3, 4),
    "batch norm": lambda lib, m: lib.nn.BatchNorm2d(3)(lib.ones(2, 3)),
    "one value": lambda lib, m: lib.nn.BatchNorm1d(3)(lib.ones(1, 3)),
    "instance norm": lambda lib, m: lib.nn.InstanceNorm1d(3, affine=True)(lib.ones(2, 4, 3)),
    "embedding padding": lambda lib, m: lib.nn.Embedding(3, 2, padding_idx=5),
    "embedding weight": lambda lib, m: lib.nn.Embedding(3, 2, _weight=lib.ones(3, 3)),
    "bag offsets": lambda lib, m: lib.nn.EmbeddingBag(3, 2)(lib.zeros(2, dtype=lib.int64)),
    "bag mode": lambda lib, m: lib.nn.EmbeddingBag(3, 2, mode="median")(lib.zeros(2, 2, dtype=lib.int64)),
    "flatten": lambda lib, m: lib.nn.Unflatten(1, [2, "a"]),
    "rnn dropout": lambda lib, m: lib.nn.LSTM(3, 4, dropout=2),
    "rnn size": lambda lib, m: lib.nn.LSTM(3, 0),
    "rnn kind": lambda lib, m: lib.nn.RNN(3, 4, nonlinearity="sine"),
    "rnn proj": lambda lib, m: lib.nn.GRU(3, 4, proj_size=2),
    "rnn input": lambda lib, m: lib.nn.GRU(3, 4)(lib.ones(2, 5, 4)),
    "rnn rank": lambda lib, m: lib.nn.LSTM(3, 4)(lib.ones(2, 2, 5, 4)),
    "rnn hidden": lambda lib, m: lib.nn.GRU(3, 4)(lib.ones(2, 5, 3), lib.ones(1, 4, 4)),
    "lstm hidden": lambda lib, m: lib.nn.LSTM(3, 4)(lib.ones(2, 5, 3), (lib.ones(1, 5, 4), lib.ones(1, 5, 3))),
    "rnn hidden rank": lambda lib, m: lib.nn.GRU(3, 4)(lib.ones(5, 3), lib.ones(1, 1, 4)),
    "cell rank": lambda lib, m: lib.nn.GRUCell(3, 4)(lib.ones(2, 5, 3)),
    "rnn dtype": lambda lib, m: lib.nn.GRU(3, 4)(lib.ones(2, 5, 3, dtype=lib.float64)),
    "heads": lambda lib, m: lib.nn.MultiheadAttention(8, 3),
    "attention rank": lambda lib, m: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(8)] * 3),
    "attention mask": lambda lib, m: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(3, 1, 8)] * 3, attn_mask=lib.ones(2, 2)),
    "causal": lambda lib, m: lib.nn.MultiheadAttention(8, 2)(*[lib.ones(3, 1, 8)] * 3, is_causal=True),
    "activation": lambda lib, m: lib.nn.TransformerEncoderLayer(8, 2, activation="tanh"),
    "reduction": lambda lib, m: lib.nn.MSELoss(reduction="median")(lib.ones(1), lib.ones(1)),
    "bce sizes": lambda lib, m: lib.nn.BCELoss()(lib.ones(2), lib.ones(3)),
    "bce logits sizes": lambda lib, m: lib.nn.BCEWithLogitsLoss()(lib.ones(2), lib.ones(3)),
    "triplet margin": lambda lib, m: lib.nn.TripletMarginLoss(margin=0),
    "interpolate": lambda lib, m: lib.nn.functional.interpolate(lib.ones(1, 2, 3)),
    "interpolate both": lambda lib, m: lib.nn.functional.interpolate(lib.ones(1, 2, 3), 3, 2.0),
    "interpolate mode": lambda lib, m: lib.nn.functional.interpolate(lib.ones(1, 2, 3), 3, mode="bilinear"),
    "interpolate rank": lambda lib, m: lib.nn.functional.interpolate(lib.ones(1, 2, 3), (3, 3)),
    "interpolate corners": lambda lib, m: lib.nn.functional.interpolate(lib.ones(1, 2, 3), 3, align_corners=True),
    "grid": lambda lib, m: lib.nn.functional.grid_sample(lib.ones(1, 1, 2, 2), lib.ones(1, 2, 2, 2), mode="cubic"),
    "glu": lambda lib, m: lib.nn.functional.glu(lib.tensor(1.0)),
    "fan": lambda lib, m: lib.nn.init.xavier_uniform_(lib.ones(3)),
    "fan mode": lambda lib, m: lib.nn.init.kaiming_uniform_(lib.ones(3, 3), mode="fan_on"),
    "gain": lambda lib, m: lib.nn.init.calculate_gain("sine"),
    "eye": lambda lib, m: lib.nn.init.eye_(lib.ones(3)),
    "dirac": lambda lib, m: lib.nn.init.dirac_(lib.ones(3, 2, 2), groups=2),
    "unpack": lambda lib, m: lib.nn.utils.rnn.pack_padded_sequence(lib.ones(3, 2, 1), [1, 3]),
    "lengths": lambda lib, m: lib.nn.utils.rnn.pack_padded_sequence(lib.ones(3, 2, 1), [3]),
    "zero length": lambda lib, m: lib.nn.utils.rnn.pack_padded_sequence(lib.ones(3, 2, 1), [3, 0]),
    "non-finite": lambda lib, m: lib.nn.utils.clip_grad_norm_(_with_grad(lib, float("inf")), 1.0,
                                                             error_if_nonfinite=True),
}


def _with_grad(lib, value):
    p = lib.nn.Parameter(lib.ones(2))
    p.grad = lib.full((2,), value)
    return [p]


@pytest.mark.parametrize("what", ERRORS)
def test_errors_read_as_pytorchs(both, what):
    caught = []
    for lib in both:
        with pytest.raises(Exception) as info, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ERRORS[what](lib, make_net(lib))
        caught.append((info.type, str(info.value).replace("tede.nn.modules", "torch.nn.modules")
                       .replace("tede.Size", "torch.Size").replace("tede.", "torch.")))
    (kind, text), (wanted_kind, wanted) = caught
    assert kind is wanted_kind
    assert text == wanted


# Traversal ------------------------------------------------------------------------------------------------------

def test_names_are_dotted_paths(net):
    assert [name for name, _ in net.named_parameters()] == ["first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert [name for name, _ in net.named_children()] == ["first", "rest"]
    assert [name for name, _ in net.named_parameters("net", recurse=False)] == []
    assert [name for name, _ in net.named_buffers(prefix="net")] == ["net.scale", "net.scratch"]


def test_shared_members_are_met_once(lib, nn):
    layer = nn.Linear(2, 2)
    m = nn.Sequential(layer, layer)
    assert len(list(m.modules())) == 2 and len(list(m.parameters())) == 2 and len(list(m.children())) == 1
    assert len(list(m.named_parameters(remove_duplicate=False))) == 4
    assert [name for name, _ in m.named_modules(remove_duplicate=False)] == ["", "0", "1"]


def test_members_by_path(net, nn):
    assert net.get_submodule("rest.1") is net.rest[1] and net.get_submodule("") is net
    assert net.get_parameter("first.weight") is net.first.weight and net.get_buffer("scale") is net.scale
    net.set_submodule("rest.0", nn.Tanh())
    assert isinstance(net.rest[0], nn.Tanh)


def test_apply_goes_from_the_leaves_up(net):
    seen = []
    assert net.apply(lambda m: seen.append(type(m).__name__)) is net
    assert seen == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


def test_modes_and_gradients(lib, net):
    assert net.training and net.eval() is net and not net.rest[0].training
    net.train()
    assert all(m.training for m in net.modules())
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    net.requires_grad_()
    net(lib.ones(1, 3)).sum().backward()
    net.zero_grad(set_to_none=False)
    assert all(p.grad is not None and p.grad.abs().sum() == 0 for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_conversions_keep_the_parameters(lib, net):
    before = list(net.parameters())
    net(lib.ones(1, 3)).sum().backward()
    net.register_buffer("count", lib.tensor(3))
    assert net.double() is net
    assert all(a is b and a.dtype == lib.float64 and a.grad.dtype == lib.float64 for a, b in zip(net.parameters(), before))
    assert net.scale.dtype == lib.float64 and net.count.dtype == lib.int64
    net.to(lib.float32)
    assert net.first.weight.dtype == lib.float32
    net.to(lib.zeros(1, dtype=lib.float64)).to("cpu", lib.float32).to(device="cpu").cpu()
    assert net.first.weight.dtype == lib.float32 and net.count.dtype == lib.int64
    assert net.half().first.weight.dtype == lib.float16 and net.bfloat16().scale.dtype == lib.bfloat16
    assert net.float().first.weight.is_leaf and net.first.weight.requires_grad


# State ----------------------------------------------------------------------------------------------------------

def test_the_state_dict_shares_memory(lib, net):
    state = net.state_dict()
    assert list(state) == ["scale", "first.weight", "first.bias", "rest.1.weight", "rest.1.bias"]
    assert not state["first.weight"].requires_grad and net.state_dict(keep_vars=True)["first.weight"] is net.first.weight
    with lib.no_grad():
        net.first.weight.fill_(3)
    assert (state["first.weight"] == 3).all()
    assert state._metadata["first"] == {"version": 1} and list(state._metadata) == ["", "first", "rest", "rest.0", "rest.1"]
    into = OrderedDict()
    assert net.state_dict(destination=into, prefix="net.") is into and "net.scale" in into


def test_loading_copies(lib, net):
    other = make_net(lib)
    result = other.load_state_dict(net.state_dict())
    assert str(result) == "<All keys matched successfully>" and result.missing_keys == []
    assert (other.first.weight == net.first.weight).all() and other.first.weight is not net.first.weight
    state = net.state_dict()
    del state["scale"]
    state["more"] = lib.ones(1)
    result = other.load_state_dict(state, strict=False)
    assert result.missing_keys == ["scale"] and result.unexpected_keys == ["more"]
    assert repr(result) == "_IncompatibleKeys(missing_keys=['scale'], unexpected_keys=['more'])"


def test_assign_puts_the_tensors_themselves(lib, net):
    state = {name: lib.zeros_like(value, dtype=lib.float64) for name, value in net.state_dict().items()}
    net.first.weight.requires_grad_(False)
    net.load_state_dict(state, assign=True)
    assert net.first.weight.dtype == lib.float64 and not net.first.weight.requires_grad and net.first.bias.requires_grad
    assert net.scale is state["scale"] and isinstance(net.first.weight, lib.nn.Parameter)


def test_extra_state_is_saved(lib, nn):
    class Counting(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    m, other = nn.Sequential(Counting()), nn.Sequential(Counting())
    m[0].count = 5
    other.load_state_dict(m.state_dict())
    assert list(m.state_dict()) == ["0._extra_state"] and other[0].count == 5
    assert other.load_state_dict({}, strict=False).missing_keys == ["0._extra_state"]


def test_hooks_around_saving_and_loading(lib, net):
    calls = []
    net.register_state_dict_pre_hook(lambda m, prefix, keep: calls.append(("before", prefix, keep)))
    net.register_state_dict_post_hook(lambda m, state, prefix, meta: state.update(added=lib.ones(1)))
    net.register_load_state_dict_pre_hook(lambda m, state, *rest: state.pop("added") is None)
    net.register_load_state_dict_post_hook(lambda m, keys: calls.append(("after", list(keys.missing_keys))))
    state = net.state_dict()
    assert "added" in state and net.load_state_dict(state).missing_keys == []
    assert calls == [("before", "", False), ("after", [])]


def test_batch_norm_reads_states_from_before_it_counted(lib, nn):
    old = OrderedDict((k, v) for k, v in nn.BatchNorm1d(2).state_dict().items() if k != "num_batches_tracked")
    assert nn.BatchNorm1d(2).load_state_dict(old).missing_keys == []


def test_copies_and_pickles_are_independent(lib, net):
    twin = copy.deepcopy(net)
    with lib.no_grad():
        twin.first.weight.zero_()
    assert net.first.weight.abs().sum() > 0 and isinstance(twin.first.weight, lib.nn.Parameter)
    model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.LSTM(2, 3), lib.nn.BatchNorm1d(3)).eval()
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model) and not again.training
    assert all((a == b).all() for a, b in zip(again.parameters(), model.parameters()))
    again[1](lib.ones(1, 2, 2))


def test_shared_parameters_stay_shared_in_a_copy(lib, nn):
    m = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    m[1].weight = m[0].weight
    twin = copy.deepcopy(m)
    assert twin[0].weight is twin[1].weight and twin[0].weight is not m[0].weight


# Hooks ----------------------------------------------------------------------------------------------------------

def test_forward_hooks_see_and_change(lib, nn):
    m, calls = nn.Linear(2, 2), []
    handles = [m.register_forward_pre_hook(lambda m, args: calls.append("pre") or (args[0] * 0,)),
               m.register_forward_hook(lambda m, args, out: calls.append("post") or out + 1),
               m.register_forward_hook(lambda m, args, out: calls.append("first"), prepend=True)]
    out = m(lib.ones(1, 2))
    assert calls == ["pre", "first", "post"] and lib.allclose(out, m.bias + 1)
    for handle in handles:
        handle.remove()
    calls.clear()
    m(lib.ones(1, 2))
    assert calls == []
    with m.register_forward_pre_hook(lambda m, args: lib.zeros(1, 2)):
        assert lib.allclose(m(lib.ones(1, 2)), m.bias)


def test_hooks_with_keyword_arguments(lib, nn):
    class Scaled(nn.Module):
        def forward(self, x, factor=1):
            return x * factor

    m, seen = Scaled(), []
    m.register_forward_pre_hook(lambda m, args, kwargs: (args, {"factor": 3}), with_kwargs=True)
    m.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs), with_kwargs=True)
    assert m(lib.ones(1), factor=2).item() == 3 and seen == [{"factor": 3}]


def test_hooks_that_are_always_called(lib, nn):
    class Failing(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    m, calls = Failing(), []
    m.register_forward_hook(lambda m, args, out: calls.append("plain"))
    m.register_forward_hook(lambda m, args, out: calls.append(out), always_call=True)
    with pytest.raises(ValueError, match="no"):
        m(1)
    assert calls == [None]


def test_full_backward_hooks_get_and_change_gradients(lib, nn):
    m, seen = nn.Linear(2, 3, bias=False), []

    def hook(module, grad_input, grad_output):
        seen.append((grad_input[0].shape, grad_output[0].shape))
        return (grad_input[0] * 0 + 7,)

    m.register_full_backward_pre_hook(lambda module, grad_output: (grad_output[0] * 2,))
    m.register_full_backward_hook(hook)
    x = lib.ones(4, 2, requires_grad=True)
    m(x).sum().backward()
    assert seen == [((4, 2), (4, 3))] and (x.grad == 7).all()
    assert (m.weight.grad == 8).all()                           # four rows of ones, doubled by the pre-hook


def test_a_backward_hook_without_input_gradients(lib, nn):
    m, seen = nn.Linear(2, 3), []
    m.register_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        m(lib.ones(1, 2)).sum().backward()
    assert seen == [(None,)] and any("Full backward hook is firing" in str(w.message) for w in caught)


def test_the_kinds_of_backward_hooks_dont_mix(nn):
    m = nn.Linear(1, 1)
    m.register_full_backward_hook(lambda *_: None)
    with pytest.raises(RuntimeError, match="Cannot use both regular backward hooks and full backward hooks"):
        m.register_backward_hook(lambda *_: None)


def test_hooks_of_all_modules(lib, nn):
    module = nn.modules.module
    calls = []
    handles = [module.register_module_forward_pre_hook(lambda m, args: calls.append(("pre", type(m).__name__))),
               module.register_module_forward_hook(lambda m, args, out: calls.append(("post", type(m).__name__))),
               module.register_module_full_backward_hook(lambda m, i, o: calls.append(("grad", type(m).__name__))),
               module.register_module_parameter_registration_hook(lambda m, name, p: calls.append(("new", name)))]
    try:
        layer = nn.Sequential(nn.PReLU())
        layer(lib.ones(2, requires_grad=True)).sum().backward()
    finally:
        for handle in handles:
            handle.remove()
    assert calls == [("new", "weight"), ("pre", "Sequential"), ("pre", "PReLU"), ("post", "PReLU"),
                     ("post", "Sequential"), ("grad", "PReLU"), ("grad", "Sequential")]


# Containers -----------------------------------------------------------------------------------------------------

def test_sequential_is_a_sequence(lib, nn):
    a, b, c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
    s = nn.Sequential(a, b)
    s.append(c).insert(0, nn.GELU())
    assert [type(m).__name__ for m in s] == ["GELU", "ReLU", "Tanh", "Sigmoid"] and s[-1] is c and len(s[1:3]) == 2
    del s[0], s[-1]
    assert list(s._modules) == ["0", "1"] and s.pop(0) is a and len(s) == 1
    assert len(s + nn.Sequential(a)) == 2 and len(s * 3) == 3 and len(2 * s) == 2
    s += nn.Sequential(a, c)
    s[1] = b
    assert [m for m in s] == [b, b, c]
    named = nn.Sequential(OrderedDict(x=a, y=b))
    assert named.x is a and list(named._modules) == ["x", "y"] and list(named[1:]._modules) == ["y"]


def test_module_lists_and_dicts(lib, nn):
    items = nn.ModuleList([nn.Linear(1, 1) for _ in range(3)])
    items.insert(1, nn.ReLU())
    items.extend([nn.ReLU()])
    assert repr(items) == ("ModuleList(\n  (0): Linear(in_features=1, out_features=1, bias=True)\n  (1): ReLU()\n"
                           "  (2-3): 2 x Linear(in_features=1, out_features=1, bias=True)\n  (4): ReLU()\n)")
    assert len(items[1:3]) == 2 and items[-1] is items[4] and len(items + [nn.ReLU()]) == 6
    del items[0:2]
    assert len(items) == 3 and list(items._modules) == ["0", "1", "2"]
    table = nn.ModuleDict({"b": nn.ReLU(), "a": nn.Tanh()})
    table.update([("c", nn.GELU())])
    assert list(table) == ["b", "a", "c"] and "a" in table and table.pop("a") is not None and len(table) == 2
    table.clear()
    assert len(table) == 0 and repr(table) == "ModuleDict()"


def test_parameter_lists_and_dicts(lib, nn):
    rows = nn.ParameterList([lib.ones(2, 3), nn.Parameter(lib.ones(1))])
    rows.append(3)
    rows += [lib.zeros(1)]
    assert len(rows) == 4 and len(list(rows.parameters())) == 3 and rows[2] == 3 and len(rows[1:]) == 3
    table = nn.ParameterDict({"b": lib.ones(2), "a": lib.zeros(1)})
    assert list(table) == ["a", "b"] and isinstance(table["a"], nn.Parameter) and table.get("z") is None
    table |= {"c": lib.ones(1)}
    assert table.popitem()[0] == "c" and "c" not in table and table.setdefault("d", lib.ones(1)).shape == (1,)


def test_containers_print_as_pytorchs(both):
    def text(lib):
        nn = lib.nn
        return repr(nn.Sequential(OrderedDict(
            a=nn.ModuleDict({"x": nn.Conv2d(1, 2, 3)}), b=nn.ParameterList([lib.ones(2, 3), 4]),
            c=nn.ParameterDict({"k": lib.ones(1)}), d=nn.Module(), e=nn.TransformerEncoderLayer(4, 2, 8))))
    assert text(both[0]).replace("tede.", "torch.") == text(both[1])


def test_lazy_layers_take_their_size_from_the_first_input(lib, nn):
    m = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2))
    assert "LazyConv2d" in repr(m)
    assert m(lib.ones(2, 3, 5, 5)).shape == (2, 2)
    assert type(m[0]) is nn.Conv2d and type(m[3]) is nn.Linear and m[3].in_features == 36
    assert type(m[3].weight) is nn.Parameter and m[1].running_mean.shape == (4,)


def test_lazy_layers_change_their_dtype_before_they_know_their_size(lib, nn):
    m = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(2)).to(lib.float64)
    assert m(lib.ones(2, 3, 5, 5, dtype=lib.float64)).dtype == lib.float64 == m[0].weight.dtype == m[3].weight.dtype


def test_conversions_keep_parameters_and_gradients_where_that_is_possible(lib, nn):
    layer = nn.Linear(2, 3)
    layer.weight.grad = lib.ones(3, 2)
    weight, grad = layer.weight, layer.weight.grad
    layer.double()
    assert layer.weight is weight and layer.weight.grad is grad and grad.dtype is weight.dtype is lib.float64
    bare = nn.Linear(2, 3, device="meta")
    weight = bare.weight
    bare.to_empty(device="cpu")
    assert bare.weight is not weight and bare.weight.device.type == "cpu" and weight.is_meta
    layer._apply(lambda t: t.detach().to_sparse())
    assert layer.weight.is_sparse and layer.weight.grad.is_sparse and isinstance(layer.weight, nn.Parameter)
    lib.__future__.set_swap_module_params_on_conversion(True)
    try:
        layer = nn.Linear(2, 3)
        layer.weight.grad = lib.ones(3, 2)
        weight, grad = layer.weight, layer.weight.grad
        layer.double()
        assert layer.weight is weight and layer.weight.grad.dtype is weight.dtype is lib.float64
    finally:
        lib.__future__.set_swap_module_params_on_conversion(False)
