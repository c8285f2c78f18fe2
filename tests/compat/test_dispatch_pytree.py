"""utils._pytree: flattening containers and building them again."""
import importlib
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass

import pytest

Point = namedtuple("Point", "x y")


@pytest.fixture
def pytree(lib):
    return importlib.import_module(lib.__name__ + ".utils._pytree")


TREES = [1, None, "text", (), [], {}, (1, 2), [1, (2, [3])], {"b": 1, "a": (2, 3)}, Point(1, [2, 3]),
         OrderedDict([("b", 1), ("a", 2)]), defaultdict(list, {"k": [1, 2]}), deque([1, (2, 3)], maxlen=5)]


@pytest.mark.parametrize("tree", TREES, ids=repr)
def test_there_and_back(pytree, tree):
    leaves, spec = pytree.tree_flatten(tree)
    again = pytree.tree_unflatten(leaves, spec)
    assert again == tree and type(again) is type(tree)
    assert spec.num_leaves == len(leaves) == len(pytree.tree_leaves(tree)) == len(list(pytree.tree_iter(tree)))
    assert pytree.tree_structure(tree) == spec and hash(pytree.tree_structure(tree)) == hash(spec)


def test_leaves_in_order(pytree):
    assert pytree.tree_leaves({"b": 1, "a": [2, (3, None)]}) == [1, 2, 3, None]


def test_specs_tell_trees_apart(pytree):
    s = pytree.tree_structure
    assert s((1, 2)) != s([1, 2]) and s({"a": 1}) != s({"b": 1}) and s(1) == s("leaf") and s(1).is_leaf()
    assert s([1, (2, 3)]).num_nodes == 5 and s([1, 2]).num_children == 2


def test_how_specs_read(pytree):
    assert repr(pytree.tree_structure([1, 2])) == "TreeSpec(list, None, [*,\n  *])"
    assert pytree.treespec_pprint(pytree.tree_structure({"a": [1, (2,)]})) == "{'a': [*, (*,)]}"


def test_map(pytree):
    assert pytree.tree_map(lambda x: x + 1, {"a": [1, 2], "b": (3,)}) == {"a": [2, 3], "b": (4,)}
    assert pytree.tree_map(lambda x, y: x + y, (1, [2]), (10, [20])) == (11, [22])
    assert pytree.tree_map_only(int, lambda x: -x, [1, "a", 2.0]) == [-1, "a", 2.0]
    assert pytree.tree_map_only((int, float), lambda x: -x, [1, "a", 2.0]) == [-1, "a", -2.0]
    assert pytree.tree_map_only(lambda x: x == "a", lambda x: x * 2, [1, "a"]) == [1, "aa"]
    seen = []
    tree = [1, (2,)]
    assert pytree.tree_map_(seen.append, tree) is tree and seen == [1, 2]
    assert pytree.tree_map(lambda x: len(x), [[1, 2], (3,)], is_leaf=lambda x: isinstance(x, tuple) or x == [1, 2]) == [2, 1]


def test_all_and_any(pytree):
    assert pytree.tree_all(lambda x: x > 0, [1, (2, 3)]) and not pytree.tree_any(lambda x: x > 3, [1, (2, 3)])
    assert pytree.tree_all_only(int, lambda x: x > 0, [1, "a"]) and pytree.tree_any_only(str, lambda x: x == "a", [1, "a"])


def test_mismatches_are_errors(pytree):
    with pytest.raises(ValueError, match="has length 1 but the spec refers to a pytree that holds 2 items"):
        pytree.tree_unflatten([1], pytree.tree_structure([1, 2]))
    with pytest.raises(ValueError):
        pytree.tree_map(lambda x, y: x, [1, 2], [1])
    with pytest.raises(ValueError):
        pytree.tree_map(lambda x, y: x, [1, 2], (1, 2))
    with pytest.raises((TypeError, ValueError)):
        pytree.tree_unflatten([1], "no spec")


def test_paths(pytree):
    tree = {"a": [1, (2,)], "p": Point(3, 4)}
    pairs, spec = pytree.tree_flatten_with_path(tree)
    assert [pytree.keystr(p) for p, _ in pairs] == ["['a'][0]", "['a'][1][0]", "['p'].x", "['p'].y"]
    assert [pytree.key_get(tree, p) for p, _ in pairs] == [1, 2, 3, 4]
    assert pytree.tree_map_with_path(lambda p, x: (len(p), x), [1, (2,)]) == [(1, 1), ((2, 2),)]


def test_a_class_takes_part(pytree):
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b
    assert len(pytree.tree_leaves(Pair(1, 2))) == 1
    pytree.register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, context: Pair(*children))
    made = pytree.tree_map(lambda x: x * 2, [Pair(1, [2]), 3])
    assert (made[0].a, made[0].b, made[1]) == (2, [4], 6)
    with pytest.raises(ValueError, match="already registered as pytree node"):
        pytree.register_pytree_node(Pair, None, None)


def test_a_dataclass_takes_part(pytree):
    @dataclass
    class Data:
        x: object
        y: object
        z: object = None
    pytree.register_dataclass(Data)
    made = pytree.tree_map(lambda v: v + 1, Data(1, (2, 3)))
    assert made == Data(2, (3, 4))


def test_constants(pytree):
    @dataclass(frozen=True)
    class Config:
        n: int
    pytree.register_constant(Config)
    leaves, spec = pytree.tree_flatten([Config(1), 2])
    assert leaves == [2] and spec != pytree.tree_structure([Config(2), 2])
    assert pytree.tree_unflatten([5], spec) == [Config(1), 5]


@pytest.mark.parametrize("tree", [1, (1, [2]), {"a": 1}, OrderedDict(a=1), defaultdict(list, {"a": 1}), deque([1])], ids=repr)
def test_as_text(pytree, tree):
    spec = pytree.tree_structure(tree)
    assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec


def test_a_prefix_stands_for_all_below(pytree):
    spec = pytree.tree_structure([1, (2, 3)])
    assert pytree._broadcast_to_and_flatten(0, spec) == [0, 0, 0]
    assert pytree._broadcast_to_and_flatten([0, 1], spec) == [0, 1, 1]
    assert pytree._broadcast_to_and_flatten([0, (1, 2, 3)], spec) is None


def test_named_results_are_nodes(lib, pytree):
    r = lib.max(lib.tensor([[1.0, 2.0]]), 1)
    leaves, spec = pytree.tree_flatten(r)
    assert pytree.is_structseq(r) and len(leaves) in (1, 2)


def test_results_by_name_are_trees(lib):
    import importlib
    tree = importlib.import_module(lib.__name__ + ".utils._pytree")
    result = lib.ones(2, 3).max(0)
    leaves, spec = tree.tree_flatten(result)
    assert [x.shape for x in leaves] == [(3,), (3,)] and type(tree.tree_unflatten(leaves, spec)) is type(result)
    assert tree.tree_map(lambda x: x + 1, result).values[0] == 2


def test_sizes_are_trees_and_dataclasses_have_attributes(lib):
    import dataclasses
    import importlib
    pytree = importlib.import_module(lib.__name__ + ".utils._pytree")
    values, spec = pytree.tree_flatten({"s": lib.Size([1, 2])})
    assert values == [1, 2] and pytree.tree_unflatten(values, spec) == {"s": (1, 2)}

    @dataclasses.dataclass
    class Pair:
        a: object
        b: object
    pytree.register_dataclass(Pair)
    assert [pytree.keystr(k) for k, _ in pytree.tree_flatten_with_path(Pair(1, [2]))[0]] == [".a", ".b[0]"]
