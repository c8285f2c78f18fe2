"""Trees of Python containers: flattening them to a list of leaves and a description, and building them again.

A type takes part once it is registered, with two functions: one gives a container's children and what else must be
known to build it again (its context), the other builds it.  Whatever isn't registered is a leaf, None too."""
import dataclasses
import enum
import functools
import importlib
import json
import threading
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple

from tede._C import Size

__all__ = ["PyTree", "Context", "FlattenFunc", "UnflattenFunc", "DumpableContext", "ToDumpableContextFn", "FromDumpableContextFn",
           "TreeSpec", "LeafSpec", "keystr", "key_get", "register_pytree_node", "register_dataclass", "register_constant",
           "tree_is_leaf", "tree_flatten", "tree_flatten_with_path", "tree_unflatten", "tree_iter", "tree_leaves",
           "tree_leaves_with_path", "tree_structure", "tree_map", "tree_map_with_path", "tree_map_", "tree_map_only",
           "tree_map_only_", "tree_all", "tree_any", "tree_all_only", "tree_any_only", "treespec_dumps", "treespec_loads",
           "treespec_pprint", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance", "is_structseq",
           "is_structseq_class", "is_structseq_instance", "treespec_leaf", "treespec_tuple", "treespec_dict"]

PyTree = Context = DumpableContext = KeyEntry = object
FlattenFunc = UnflattenFunc = FlattenWithKeysFunc = ToDumpableContextFn = FromDumpableContextFn = "a function"
KeyPath = tuple
BUILTIN_TYPES = frozenset((tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque))
STANDARD_DICT_TYPES = frozenset((dict, OrderedDict, defaultdict))
DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL = 1
NO_SERIALIZED_TYPE_NAME_FOUND = "NO_SERIALIZED_TYPE_NAME_FOUND"


# ---- keys: the way from a tree to one of its leaves ------------------------------------------------------------------

@dataclasses.dataclass(frozen=True)
class SequenceKey:
    idx: int

    def __str__(self):
        return f"[{self.idx!r}]"

    def get(self, sequence):
        return sequence[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    key: object

    def __str__(self):
        return f"[{self.key!r}]"

    def get(self, mapping):
        return mapping[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    name: str

    def __str__(self):
        return f".{self.name}"

    def get(self, obj):
        return getattr(obj, self.name)


def keystr(kp):
    """A path as Python would write it: "['a'][0].b"."""
    return "".join(str(k) for k in kp)


def key_get(obj, kp):
    """What a path leads to."""
    for k in kp:
        obj = k.get(obj)
    return obj


# ---- named tuples and their kin ------------------------------------------------------------------------------------

def is_namedtuple_class(cls):
    return (isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
            and all(type(field) is str for field in cls._fields) and callable(getattr(cls, "_make", None))
            and callable(getattr(cls, "_asdict", None)))


def is_namedtuple_instance(obj):
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj):
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls):
    return (isinstance(cls, type) and cls.__bases__ == (tuple,) and all(isinstance(getattr(cls, name, None), int) for name in
            ("n_fields", "n_sequence_fields", "n_unnamed_fields")))


def is_structseq_instance(obj):
    return is_structseq_class(type(obj))


def is_structseq(obj):
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


# ---- registration ----------------------------------------------------------------------------------------------------

NodeDef = namedtuple("NodeDef", "type flatten_fn unflatten_fn flatten_with_keys_fn")
_SerializeNodeDef = namedtuple("_SerializeNodeDef", "typ serialized_type_name to_dumpable_context from_dumpable_context")
SUPPORTED_NODES = {}
SUPPORTED_SERIALIZED_TYPES = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE = {}
CONSTANT_NODES = set()
_lock = threading.Lock()


def _private_register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                                  from_dumpable_context=None, flatten_with_keys_fn=None):
    from_name = serialized_type_name or NO_SERIALIZED_TYPE_NAME_FOUND
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError(f"Both to_dumpable_context and from_dumpable_context for {cls} must be None or registered.")
    with _lock:
        if cls in SUPPORTED_NODES:
            warnings.warn(f"{cls} is already registered as pytree node. Overwriting the previous registration.", stacklevel=3)
        SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        SUPPORTED_SERIALIZED_TYPES[cls] = _SerializeNodeDef(cls, from_name, to_dumpable_context, from_dumpable_context)
        SERIALIZED_TYPE_TO_PYTHON_TYPE[from_name] = cls


def register_pytree_node(cls, flatten_fn, unflatten_fn, *, serialized_type_name=None, to_dumpable_context=None,
                         from_dumpable_context=None, flatten_with_keys_fn=None):
    """Let instances of a class be inner nodes: flatten_fn(x) -> (children, context), unflatten_fn(children, context) -> x."""
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
                                  to_dumpable_context=to_dumpable_context, from_dumpable_context=from_dumpable_context,
                                  flatten_with_keys_fn=flatten_with_keys_fn)


def _register_pytree_node(cls, flatten_fn, unflatten_fn, to_str_fn=None, maybe_from_str_fn=None, **options):
    warnings.warn("`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
                  "`torch.utils._pytree.register_pytree_node` instead.", FutureWarning, stacklevel=2)
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn("`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` and "
                      "`from_dumpable_context` instead.", FutureWarning, stacklevel=2)
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **options)


def _deregister_pytree_node(cls):
    """Make instances of a class leaves again."""
    with _lock:
        del SUPPORTED_NODES[cls]
        SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(SUPPORTED_SERIALIZED_TYPES.pop(cls).serialized_type_name, None)
        CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls, *, serialized_type_name):
    """Give a class of named tuples, which is a node anyway, a name to be written down by."""
    _private_register_pytree_node(cls, _namedtuple_flatten, _namedtuple_unflatten, serialized_type_name=serialized_type_name,
                                  to_dumpable_context=_namedtuple_serialize, from_dumpable_context=_namedtuple_deserialize,
                                  flatten_with_keys_fn=_namedtuple_flatten_with_keys)


def register_dataclass(cls, *, field_names=None, drop_field_names=None, serialized_type_name=None):
    """Let instances of a dataclass be nodes, with the fields that __init__ takes as children."""
    drop = set(drop_field_names or ())
    if not dataclasses.is_dataclass(cls):
        if field_names is None:
            raise ValueError("field_names must be specified with a list of all fields used to initialize the class, as it is not a "
                             "dataclass.")
    else:
        names = [f.name for f in dataclasses.fields(cls) if f.init]
        if field_names is None:
            field_names = [name for name in names if name not in drop]
        else:
            invalid = set(field_names) - set(names)
            missing = set(names) - set(field_names) - drop
            if invalid or missing:
                raise ValueError("field_names does not include all dataclass fields." + (f" Unexpected fields: {sorted(invalid)}."
                                 if invalid else "") + (f" Missing fields in `field_names`: {sorted(missing)}. If you want to "
                                 "include these fields in the pytree, please add them to `field_names`, otherwise please add them "
                                 "to `drop_field_names`." if missing else ""))
    field_names = list(field_names)

    def split(obj):
        there = [n for n in field_names if getattr(obj, n) is not None]
        return there, [getattr(obj, n) for n in there], [n for n in field_names if getattr(obj, n) is None]

    def flatten(obj):
        there, values, absent = split(obj)
        return values, [there, absent]

    def unflatten(values, context):
        there, absent = context
        return cls(**dict(zip(there, values)), **dict.fromkeys(absent))

    def flatten_with_keys(obj):
        there, values, absent = split(obj)
        return [(GetAttrKey(k), v) for k, v in zip(there, values)], [there, absent]
    _private_register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name,
                                  flatten_with_keys_fn=flatten_with_keys)


def register_constant(cls):
    """Let instances of a class be part of the structure, not leaves; they need __eq__ and __hash__."""
    if cls.__eq__ is object.__eq__:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__eq__` implementation.")
    if cls.__hash__ is None:
        raise TypeError("register_constant(cls) expects `cls` to have a non-default `__hash__` implementation.")
    _private_register_pytree_node(cls, lambda x: ([], x), lambda children, context: context,
                                  flatten_with_keys_fn=lambda x: ([], x))
    CONSTANT_NODES.add(cls)


def is_constant_class(cls):
    return isinstance(cls, type) and cls in CONSTANT_NODES


# ---- the containers that are known from the start --------------------------------------------------------------------

def _sequence_with_keys(flatten):
    def with_keys(x):
        values, context = flatten(x)
        return [(SequenceKey(i), v) for i, v in enumerate(values)], context
    return with_keys


def _mapping_with_keys(flatten):
    def with_keys(d):
        values, context = flatten(d)
        keys = context if isinstance(context, list) and not isinstance(d, defaultdict) else context[1]
        return [(MappingKey(k), v) for k, v in zip(keys, values)], context
    return with_keys


def _tuple_flatten(d):
    return list(d), None


def _tuple_unflatten(values, context):
    return tuple(values)


def _list_flatten(d):
    return d, None


def _list_unflatten(values, context):
    return list(values)


def _dict_flatten(d):
    return list(d.values()), list(d.keys())


def _dict_unflatten(values, context):
    return dict(zip(context, values))


def _namedtuple_flatten(d):
    return list(d), type(d)


def _namedtuple_unflatten(values, context):
    return context(*values)


def _namedtuple_flatten_with_keys(d):
    return [(GetAttrKey(name), v) for name, v in zip(d._fields, d)], type(d)


def _namedtuple_serialize(context):
    if context not in SUPPORTED_SERIALIZED_TYPES:
        raise NotImplementedError(f"Can't serialize TreeSpec of namedtuple class {context} because we didn't register a "
                                  "serializated_type_name. Please register using `_register_namedtuple`.")
    name = SUPPORTED_SERIALIZED_TYPES[context].serialized_type_name
    if name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(f"Can't serialize TreeSpec of namedtuple class {context} because we couldn't find a "
                                  "serializated_type_name. Please register using `_register_namedtuple`.")
    return name


def _namedtuple_deserialize(dumped):
    if dumped not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise NotImplementedError(f"Can't deserialize TreeSpec of namedtuple class {dumped} because we couldn't find a "
                                  "serializated name.")
    return SERIALIZED_TYPE_TO_PYTHON_TYPE[dumped]


def _ordereddict_unflatten(values, context):
    return OrderedDict(zip(context, values))


def _defaultdict_flatten(d):
    return list(d.values()), [d.default_factory, list(d.keys())]


def _defaultdict_unflatten(values, context):
    return defaultdict(context[0], zip(context[1], values))


def _defaultdict_serialize(context):
    factory, keys = context
    return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__, "dict_context": keys}


def _defaultdict_deserialize(dumped):
    import importlib
    module = importlib.import_module(dumped["default_factory_module"])
    return [getattr(module, dumped["default_factory_name"]), dumped["dict_context"]]


def _deque_flatten(d):
    return list(d), d.maxlen


def _deque_unflatten(values, context):
    return deque(values, maxlen=context)


_tuple_flatten_with_keys, _list_flatten_with_keys = map(_sequence_with_keys, (_tuple_flatten, _list_flatten))
_deque_flatten_with_keys, _dict_flatten_with_keys = _sequence_with_keys(_deque_flatten), _mapping_with_keys(_dict_flatten)
_ordereddict_flatten_with_keys, _ordereddict_flatten = _dict_flatten_with_keys, _dict_flatten
_defaultdict_flatten_with_keys = _mapping_with_keys(_defaultdict_flatten)

for _cls, _flat, _unflat, _name, _keys, _dump, _load in (
        (tuple, _tuple_flatten, _tuple_unflatten, "builtins.tuple", _tuple_flatten_with_keys, None, None),
        (list, _list_flatten, _list_unflatten, "builtins.list", _list_flatten_with_keys, None, None),
        (dict, _dict_flatten, _dict_unflatten, "builtins.dict", _dict_flatten_with_keys, None, None),
        (namedtuple, _namedtuple_flatten, _namedtuple_unflatten, "collections.namedtuple", _namedtuple_flatten_with_keys,
         _namedtuple_serialize, _namedtuple_deserialize),
        (OrderedDict, _dict_flatten, _ordereddict_unflatten, "collections.OrderedDict", _dict_flatten_with_keys,
         None, None),
        (defaultdict, _defaultdict_flatten, _defaultdict_unflatten, "collections.defaultdict",
         _defaultdict_flatten_with_keys, _defaultdict_serialize, _defaultdict_deserialize),
        (deque, _deque_flatten, _deque_unflatten, "collections.deque", _deque_flatten_with_keys, None, None),
        (Size, _tuple_flatten, _tuple_unflatten, "torch.Size", _tuple_flatten_with_keys, None, None)):     # comes back as a tuple
    _private_register_pytree_node(_cls, _flat, _unflat, serialized_type_name=_name, to_dumpable_context=_dump,
                                  from_dumpable_context=_load, flatten_with_keys_fn=_keys)
del _cls, _flat, _unflat, _name, _keys, _dump, _load


def _register_results(kind):
    """Results of operators by name (torch.return_types) are trees of their fields."""
    _private_register_pytree_node(kind, lambda x: (list(x), None), lambda members, _: kind(members))


def _get_node_type(tree):
    kind = type(tree)
    if kind not in SUPPORTED_NODES and issubclass(kind, tuple) and kind.__module__ in ("tede.return_types", "torch.return_types"):
        _register_results(kind)
    if kind not in SUPPORTED_NODES and is_namedtuple_class(kind):
        return namedtuple
    return kind


def tree_is_leaf(tree, is_leaf=None):
    """Whether nothing is below it."""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


# ---- descriptions ------------------------------------------------------------------------------------------------------

class TreeSpec:
    """The structure of a tree without its leaves."""

    __slots__ = ("type", "_context", "_children", "num_nodes", "num_leaves", "num_children")

    def __init__(self, type, context, children_specs=()):
        self.type, self._context, self._children = type, context, list(children_specs)
        leaf = type is None
        self.num_nodes = 1 + sum(c.num_nodes for c in self._children)
        self.num_leaves = 1 if leaf else sum(c.num_leaves for c in self._children)
        self.num_children = 0 if leaf else len(self._children)

    context = property(lambda self: self._context)
    children_specs = property(lambda self: self._children)

    def children(self):
        return list(self._children)

    def child(self, index):
        return self._children[index]

    def is_leaf(self):
        return self.type is None

    def __repr__(self, indent=0):
        if self.type is None:
            return "*"
        prefix = f"TreeSpec({self.type.__name__}, {self._context}, ["
        text, deeper = "", indent + 2
        if self.num_children:
            text = self._children[0].__repr__(deeper)
            text += "," if self.num_children > 1 else ""
            text += "".join("\n" + " " * deeper + c.__repr__(deeper) + ("," if i < self.num_children - 1 else "")
                            for i, c in enumerate(self._children) if i > 0)
        return prefix + text + "])"

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return (self.type is other.type or self.type == other.type) and self._context == other._context and \
            self._children == other._children

    def __hash__(self):
        context = self._context
        if self.type is dict or self.type is OrderedDict:
            context = tuple(context)
        elif self.type is defaultdict:
            context = context[0], tuple(context[1])
        elif isinstance(context, list):
            context = repr(context)
        return hash((self.type, context, tuple(self._children)))

    def __reduce__(self):
        return (LeafSpec, ()) if self.type is None else (TreeSpec, (self.type, self._context, self._children))

    def unflatten(self, leaves):
        """The tree of this structure with these leaves."""
        if not isinstance(leaves, (list, tuple)):
            leaves = list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree that "
                             f"holds {self.num_leaves} items ({self}).")
        return self._build(iter(leaves))

    def _build(self, leaves):
        if self.type is None:
            return next(leaves)
        return SUPPORTED_NODES[self.type].unflatten_fn([c._build(leaves) for c in self._children], self._context)

    def flatten_up_to(self, tree):
        """The subtrees at this structure's leaves."""
        found = []
        self._match(tree, found)
        return found

    def _match(self, tree, found):
        if self.type is None:
            found.append(tree)
            return
        kind = _get_node_type(tree)
        both_dicts = self.type in STANDARD_DICT_TYPES and kind in STANDARD_DICT_TYPES
        if kind is not self.type and not (self.type in BUILTIN_TYPES and both_dicts):
            raise ValueError(f"Type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        values, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if both_dicts:
            keys = self._context[1] if self.type is defaultdict else self._context
            if set(keys) != set(tree):
                missing, extra = set(keys) - set(tree), set(tree) - set(keys)
                raise ValueError("Node keys mismatch" + (f"; missing key(s): {missing}" if missing else "") +
                                 (f"; extra key(s): {extra}" if extra else ""))
            values = [tree[k] for k in keys]
        else:
            if len(values) != self.num_children:
                raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(values)}.")
            if self.type is not deque and context != self._context:
                raise ValueError(f"Node context mismatch for custom node type {self.type!r}.")
        for spec, value in zip(self._children, values):
            spec._match(value, found)


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self):
        super().__init__(None, None, [])

    def __repr__(self, indent=0):
        return "*"

    __hash__ = TreeSpec.__hash__


_LEAF_SPEC = LeafSpec()


def treespec_leaf():
    return _LEAF_SPEC


def treespec_tuple(iterable=()):
    """The structure of a tuple of such structures."""
    children = list(iterable)
    if not all(isinstance(c, TreeSpec) for c in children):
        raise ValueError(f"Expected a tuple of TreeSpecs, got: {children!r}.")
    return TreeSpec(tuple, None, children)


def treespec_dict(mapping=(), /, **kwargs):
    """The structure of a dict of such structures."""
    made = dict(mapping, **kwargs)
    if not all(isinstance(c, TreeSpec) for c in made.values()):
        raise ValueError(f"Expected a dictionary of TreeSpecs, got: {made!r}.")
    return TreeSpec(dict, list(made), list(made.values()))


# ---- flattening and building ---------------------------------------------------------------------------------------

def _flatten_into(tree, leaves, is_leaf):
    if is_leaf is not None and is_leaf(tree):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = type(tree)
    node = SUPPORTED_NODES.get(kind)
    if node is None:
        kind = _get_node_type(tree)
        node = SUPPORTED_NODES.get(kind)
        if node is None:
            leaves.append(tree)
            return _LEAF_SPEC
    children, context = node.flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten_into(child, leaves, is_leaf) for child in children])


def tree_flatten(tree, is_leaf=None):
    """(leaves, structure)."""
    leaves = []
    spec = _flatten_into(tree, leaves, is_leaf)
    return leaves, spec


def tree_unflatten(leaves, treespec):
    """The other way."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten(leaves, treespec): Expected `treespec` to be instance of TreeSpec but got item of type "
                        f"{type(treespec)}.")
    return treespec.unflatten(leaves)


def tree_iter(tree, is_leaf=None):
    """The leaves, one by one."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    children, _ = SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)
    for child in children:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree, is_leaf=None):
    return tree_flatten(tree, is_leaf)[1]


def arg_tree_leaves(*args, **kwargs):
    """The leaves of a call's arguments."""
    leaves = []
    for x in (*args, *kwargs.values()):
        leaves.extend(tree_leaves(x))
    return leaves


def tree_map(func, tree, *rests, is_leaf=None):
    """A tree of the same structure, of what func gives for each leaf (and the parts of further trees there)."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(list(map(func, leaves, *(spec.flatten_up_to(r) for r in rests))))


def tree_map_(func, tree, *rests, is_leaf=None):
    """Call func for each leaf; gives the tree itself back."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for _ in map(func, leaves, *(spec.flatten_up_to(r) for r in rests)):
        pass
    return tree


def map_only(type_or_types_or_pred, /):
    """A decorator: the function is applied to what is of a type (or of several, or fits), the rest stays."""
    test = type_or_types_or_pred
    if isinstance(test, (type, tuple)) or _is_union(test):
        def fits(x):
            return isinstance(x, test)
    elif callable(test):
        fits = test
    else:
        raise TypeError("Argument must be a type, a tuple of types, or a callable.")

    def wrapper(func):
        @functools.wraps(func)
        def wrapped(x):
            return func(x) if fits(x) else x
        return wrapped
    return wrapper


def _is_union(x):
    import types
    return isinstance(x, getattr(types, "UnionType", ()))


def tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None):
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred, tree, is_leaf=None):
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred, tree, is_leaf=None):
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types, /, pred, tree, is_leaf=None):
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types, /, pred, tree, is_leaf=None):
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


# ---- with paths ------------------------------------------------------------------------------------------------------

def _with_paths(path, tree, is_leaf):
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError(f"Did not find a flatten_with_keys_fn for type: {node.type}. Please pass a flatten_with_keys_fn argument "
                         "to register_pytree_node.")
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _with_paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree, is_leaf=None):
    return list(_with_paths((), tree, is_leaf))


def tree_flatten_with_path(tree, is_leaf=None):
    """([(path, leaf), ...], structure)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func, tree, *rests, is_leaf=None):
    """tree_map with func(path, leaf, ...)."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = zip(*pairs) if pairs else ((), ())
    return spec.unflatten(list(map(func, paths, leaves, *(spec.flatten_up_to(r) for r in rests))))


def _broadcast_to_and_flatten(tree, treespec, is_leaf=None):
    """The leaves of `tree`, a prefix of the structure: a leaf stands for all below it.  None where it is no prefix."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    if treespec.is_leaf() or kind != treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec.context:
        return None
    result = []
    for child, spec in zip(children, treespec.children()):
        flat = _broadcast_to_and_flatten(child, spec, is_leaf)
        if flat is None:
            return None
        result += flat
    return result


# ---- written down as JSON --------------------------------------------------------------------------------------------

class EnumEncoder(json.JSONEncoder):
    """Members of enumerations are written by their class's module and name, and their own name."""

    def default(self, obj):
        if isinstance(obj, enum.Enum):
            return {"__enum__": True, "fqn": f"{type(obj).__module__}:{type(obj).__qualname__}", "name": obj.name}
        return super().default(obj)


def enum_object_hook(obj):
    """What EnumEncoder wrote as a dictionary, as the member again."""
    if "__enum__" not in obj:
        return obj
    module, _, path = obj["fqn"].partition(":")
    found = importlib.import_module(module)
    for name in path.split("."):
        found = getattr(found, name)
    return found[obj["name"]]


def _dump(spec):
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    known = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if known is None:
        raise NotImplementedError(f"Serializing {spec.type} in pytree is not registered.")
    if known.serialized_type_name == NO_SERIALIZED_TYPE_NAME_FOUND:
        raise NotImplementedError(f"No registered serialization name for {spec.type} found. Please update your "
                                  "_register_pytree_node call with a `serialized_type_name` kwarg.")
    if known.to_dumpable_context is None:
        try:
            context = json.dumps(spec.context, cls=EnumEncoder)
        except TypeError as error:
            raise TypeError("Unable to serialize context. Please make the context json dump-able, or register a custom serializer "
                            "using _register_pytree_node.") from error
    else:
        context = known.to_dumpable_context(spec.context)
    return {"type": known.serialized_type_name, "context": context, "children_spec": [_dump(c) for c in spec.children()]}


def _load(data):
    if data["type"] is None:
        return _LEAF_SPEC
    if data["type"] not in SERIALIZED_TYPE_TO_PYTHON_TYPE:
        raise ValueError(f"Unknown type name: {data['type']}")
    cls = SERIALIZED_TYPE_TO_PYTHON_TYPE[data["type"]]
    load = SUPPORTED_SERIALIZED_TYPES[cls].from_dumpable_context
    return TreeSpec(cls, json.loads(data["context"], object_hook=enum_object_hook) if load is None else load(data["context"]),
                    [_load(c) for c in data["children_spec"]])


def treespec_dumps(treespec, protocol=None):
    """The structure as text."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"treespec_dumps(treespec, protocol): Expected `treespec` to be instance of TreeSpec but got item of type "
                        f"{type(treespec)}.")
    protocol = DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL if protocol is None else protocol
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return json.dumps((protocol, _dump(treespec)))


def treespec_loads(serialized):
    protocol, data = json.loads(serialized)
    if protocol != 1:
        raise ValueError(f"Unknown protocol {protocol}. Available protocols: [1]")
    return _load(data)


class _Star:
    def __repr__(self):
        return "*"


def treespec_pprint(treespec):
    """The structure as the tree that it is of, with stars for leaves."""
    return repr(tree_unflatten([_Star() for _ in range(treespec.num_leaves)], treespec))
