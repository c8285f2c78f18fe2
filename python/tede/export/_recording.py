"""A module's call as a graph of operators without writes in place, whose inputs are its state and the arguments: what torch.export,
torch.onnx.export and torch.jit.trace read.

Note [Sizes that vary]
A graph is recorded with the sizes that there are. For sizes that are to vary the module is recorded several times, on fake tensors, so
that nothing is computed: once for each such dimension with that one changed, and once with all changed. The recordings must be the same but for
whole numbers, and a number that differs among them is written as a product of sizes of tensors that the graph has at that point, with a factor
and a summand: the one that gives the number in all recordings. So no number has to know where it comes from, and no module has to be
analysed; a module whose calls depend on a size (a branch, a loop) is refused, with the call that differs."""
import contextlib
import inspect
import itertools
import operator

import tede
from tede._program_line import raised_in
from tede._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from tede.func import functionalize
from tede.fx.experimental.proxy_tensor import make_fx, module_stack
from tede.fx.node import Node
from tede.nn import Module
from tede.nn.utils.stateless import _reparametrize_module
from tede.utils import _pytree as tree


@contextlib.contextmanager
def evaluating(module):
    """Within it the module and those in it are not in training."""
    before = [(m, m.training) for m in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for m, training in before:
            m.training = training


class FunctionModule(Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function
        self.__dict__["forward"] = function


class Recording:
    """graph: of operators; its placeholders are inputs(), in order, its results the written inputs, then the outputs.

    state: name -> parameter or buffer; constants: name -> other tensors. writes: {placeholder: node} of what is written to it."""

    def __init__(self, module, args, kwargs, flat, in_spec):
        self.module, self.args, self.kwargs, self.flat, self.in_spec = module, args, kwargs, flat, in_spec
        self.state, self.aliases = {}, {}
        known = {}
        for name, x in itertools.chain(module.named_parameters(remove_duplicate=False), module.named_buffers(remove_duplicate=False)):
            if id(x) in known:
                self.aliases[name] = known[id(x)]
            else:
                known[id(x)] = name
                self.state[name] = x
        self.constants, self.writes = {}, {}
        self.argument_names, self.leaf_names = argument_names(module, args, kwargs), input_names(module, args, kwargs)

    def make(self):
        names = list(self.state)

        def call(*flat):
            args, kwargs = tree.tree_unflatten(list(flat[len(names):]), self.in_spec)
            state = dict(zip(names, flat))
            state.update({alias: state[name] for alias, name in self.aliases.items()})
            with module_stack(self.module), _reparametrize_module(self.module, state, stack_weights=True):
                result = self.module(*args, **kwargs)
            leaves, self.out_spec = tree.tree_flatten(result)
            return leaves
        try:
            with tede.no_grad():
                made = make_fx(functionalize(call), tracing_mode="fake", _allow_non_fake_inputs=True)(*self.state.values(), *self.flat)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            file, line, text = raised_in(error)
            raise RuntimeError(f"{error.func} needs a value, which a recording doesn't have: {file}:{line}: {text}\n(torch.cond and torch.where "
                               "can be recorded)") from None
        self._take(made)
        return self

    def _take(self, made):
        """The graph with names for its inputs, and its writes apart."""
        graph = self.graph = made.graph
        places = [node for node in graph.nodes if node.op == "placeholder"]
        kinds = dict(self.module.named_parameters(remove_duplicate=False))
        self.places = {}        # the placeholder of each name of the state
        for node, name in zip(places, self.state):
            _name(node, ("p_" if name in kinds else "b_") + name)
            self.places[name] = node
        self.users = places[len(self.state):]
        for node, name in zip(self.users, self.leaf_names):
            _name(node, name)
        last = places[-1] if places else graph._root
        for node in [node for node in graph.nodes if node.op == "get_attr"]:
            with graph.inserting_after(last):
                place = last = graph.placeholder(f"c_{node.target.strip('_')}")
            place.meta = dict(node.meta)
            self.constants[place.name] = getattr(made, node.target)
            node.replace_all_uses_with(place)
            graph.erase_node(node)
        for node in [node for node in graph.nodes if node.target is tede.ops.aten.copy_.default and node.args[0].op == "placeholder"]:
            self.writes[node.args[0]] = node.args[1]
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)
        output = graph.output_node()
        results = output.args[0] if isinstance(output.args[0], (tuple, list)) else [output.args[0]]
        output.args = ((*self.writes.values(), *results),)
        self.results = list(results)
        graph.eliminate_dead_code()


def _name(node, name):
    node.name = node.target = node.graph._names.create_name(name)


def argument_names(module, args, kwargs):
    """The parameters that a call's arguments are for, in order; numbers for those of *args."""
    try:
        names = [name for name, p in inspect.signature(module.forward).parameters.items() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        names = []
    names = names[:len(args)]
    return names + [f"args_{i}" for i in range(len(names), len(args))] + list(kwargs)


def input_names(module, args, kwargs):
    """The names of the leaves of a call's arguments: those of the parameters, numbered where one has several."""
    names = []
    for name, value in zip(argument_names(module, args, kwargs), (*args, *kwargs.values())):
        leaves = tree.tree_leaves(value)
        names += [name] if len(leaves) == 1 and leaves[0] is value else [f"{name}_{i}" for i in range(len(leaves))]
    return names


def record(module, args, kwargs=None, varying=None):
    """varying: {leaf's number among the arguments: {dimension: a name}}; dimensions of one name have one size."""
    if not isinstance(module, Module):
        module = FunctionModule(module)
    args, kwargs = tuple(args), dict(kwargs or {})
    flat, in_spec = tree.tree_flatten((args, kwargs))
    varying = {i: dims for i, dims in (varying or {}).items() if dims}
    make = lambda flat: Recording(module, args, kwargs, flat, in_spec).make()
    if not varying:
        return make(flat)
    return _Varied(make, flat, varying).recording


def record_open(module, args, kwargs=None):
    """A recording for all sizes for which the module makes the same calls, as far as trying tells: each dimension alone, then those
    that don't vary alone together with the others of their size."""
    args, kwargs = tuple(args), dict(kwargs or {})
    flat, in_spec = tree.tree_flatten((args, kwargs))
    make = lambda flat: Recording(module, args, kwargs, flat, in_spec).make()
    first = make(flat)

    def varies(dims):
        try:
            _Varied(make, flat, dims, first)
        except Exception:       # the module's own error, for that size, or that it makes other calls
            return False
        return True
    found, left = {}, {}
    for i, x in enumerate(flat):
        for dim in range(x.ndim if isinstance(x, tede.Tensor) and x.numel() else 0):
            if varies({i: {dim: "n"}}):
                found.setdefault(i, {})[dim] = f"s{i}_{dim}"
            else:
                left.setdefault(x.shape[dim], {}).setdefault(i, {})[dim] = f"n{x.shape[dim]}"
    for dims in left.values():
        if sum(map(len, dims.values())) > 1 and varies(dims):
            for i, names in dims.items():
                found.setdefault(i, {}).update(names)
    if found:
        with contextlib.suppress(RuntimeError):     # together they don't
            return _Varied(make, flat, found).recording
    return first


# ---- sizes that vary: see Note [Sizes that vary]

class _Differs(RuntimeError):
    pass


class _Varied:
    def __init__(self, make, flat, varying, recorded=None):
        """recorded: a recording with the sizes that there are; only whether they may vary is found."""
        self.make, self.flat, self.varying = make, flat, varying
        first = {}
        for i, dims in varying.items():
            for dim, name in dims.items():
                size = flat[i].shape[dim]
                if first.setdefault(name, size) != size:
                    raise ValueError(f"dimension '{name}' has sizes {first[name]} and {size} in the example inputs")
        # One is a size that calls treat otherwise: a graph for all sizes is recorded with another.
        self.base = {name: size for name, size in first.items()}
        ones = [name for name, size in first.items() if size == 1]
        for i, name in enumerate(ones):
            self.base[name] = 2 + i
        self.recording = recorded if recorded is not None and not ones else self._at(self.base)
        self.all = [self.recording]
        if recorded is not None:
            self._others(next(iter(self.base)), enough=1)
            return
        chosen = {name: self._others(name)[-1] for name in self.base}
        self._same(self._at(chosen), "other sizes of " + ", ".join(chosen))
        self._write_sizes()

    def _at(self, sizes):
        def resized(i, x):
            shape = [sizes[self.varying[i][dim]] if dim in self.varying[i] else size for dim, size in enumerate(x.shape)]
            return x if shape == list(x.shape) else tede.empty(shape, dtype=x.dtype, device=x.device)
        return self.make([resized(i, x) if i in self.varying else x for i, x in enumerate(self.flat)])

    def _others(self, name, enough=2):
        """Two other sizes of the dimension, or one, with which the module makes the same calls. The first is recorded."""
        b, error, found = self.base[name], None, []
        sizes = list(dict.fromkeys(s for s in (2 * b + 1, 3 * b, 2 * b, b + 1, b - 1, b // 2, b + 8) if s > 1 and s != b))
        for size in sizes if enough > 1 else sizes[:3]:
            try:
                self._same(self._at({**self.base, name: size}), f"dimension '{name}' of size {size} instead of {b}", keep=not found)
                found.append(size)
                if len(found) == enough:
                    return found
            except Exception as e:      # the module's own, for this size
                error = error or e
        if found:
            return found
        raise RuntimeError(f"the module can't be recorded for other sizes of dimension '{name}' than {b}: {error}") from error

    def _same(self, other, what, keep=True):
        """Keep a recording if its calls are those of the first, which is an error else."""
        mine, others = list(self.recording.graph.nodes), list(other.graph.nodes)
        numbers = [{node: i for i, node in enumerate(nodes)} for nodes in (mine, others)]
        for a, b in zip(mine, others):
            if [numbers[0][n] for n in a.all_input_nodes] != [numbers[1][n] for n in b.all_input_nodes]:
                raise _Differs(f"with {what}, {b.target} is of other values: the program depends on the size")
            if (a.op, a.target) != (b.op, b.target) and (a.op != "placeholder" or b.op != "placeholder"):
                raise _Differs(f"with {what}, {b.target} is called where {a.target} was: the program depends on the size")
        if len(mine) != len(others):
            raise _Differs(f"with {what} there are {len(others)} calls instead of {len(mine)}: the program depends on the size")
        if [place.name for place in self.recording.writes] != [place.name for place in other.writes]:
            raise _Differs(f"with {what}, other tensors are written: the program depends on the size")
        for name, x in self.recording.constants.items():
            y = other.constants[name]
            if isinstance(x, tede.Tensor) and (x.shape != y.shape or not tede.equal(x, y)):
                raise _Differs(f"with {what}, the program makes a tensor of other numbers")
        if keep:
            self.all.append(other)

    def _write_sizes(self):
        """Numbers that differ become nodes; meta["sizes"] of a node is its result's shape with None for what varies."""
        graph = self.recording.graph
        self.sizes = {}         # a vector of sizes -> (node, dim) that has them
        self.made = {}          # a vector -> the node of that number
        rows = list(zip(*(list(r.graph.nodes) for r in self.all)))
        names = {}              # a vector -> the name of the dimension
        for i, dims in self.varying.items():
            for dim, name in dims.items():
                node = self.recording.users[i]
                names.setdefault(tuple(r.users[i].meta["val"].shape[dim] for r in self.all), name)
        for row in rows:
            node = row[0]
            if node.op != "placeholder":
                with graph.inserting_before(node):
                    node.args = self._merged([n.args for n in row], node)
                    node.kwargs = self._merged([n.kwargs for n in row], node)
            values = [n.meta.get("val") for n in row]
            if isinstance(values[0], tede.Tensor):
                shapes = list(zip(*(x.shape for x in values)))
                node.meta["sizes"] = [s[0] if len(set(s)) == 1 else names.get(s) for s in shapes]
                node.meta["varies"] = [len(set(s)) > 1 for s in shapes]
                for dim, vector in enumerate(shapes):
                    if len(set(vector)) > 1:
                        self.sizes.setdefault(vector, (node, dim))
        graph.eliminate_dead_code()
        self.recording.results = list(graph.output_node().args[0][len(self.recording.writes):])

    def _merged(self, versions, node):
        a = versions[0]
        if isinstance(a, Node):
            return a
        if isinstance(a, (tuple, list)):
            if len({len(v) for v in versions}) > 1:
                raise _Differs(f"{node.target}: the number of arguments depends on a size")
            return type(a)(self._merged(list(parts), node) for parts in zip(*versions))
        if isinstance(a, dict):
            return {name: self._merged([v[name] for v in versions], node) for name in a}
        if all(v == a and type(v) is type(a) for v in versions) or any(v != v for v in versions if isinstance(v, float)):
            return a
        if not all(type(v) is int for v in versions):
            raise _Differs(f"{node.target}: {a} depends on a size, and isn't a whole number that a graph can compute")
        return self._number(tuple(versions), node)

    def _number(self, vector, node):
        if vector not in self.made:
            self.made[vector] = self._formula(vector, node)
        return self.made[vector]

    def _formula(self, vector, node):
        graph = self.recording.graph
        vectors = list(self.sizes)
        if vector in self.sizes:
            return self._size(vector)
        for count in (1, 2, 3):
            for some in itertools.combinations_with_replacement(vectors, count):
                products = [_product(column) for column in zip(*some)]
                found = _linear(products, vector)
                if found is None:
                    continue
                factor, summand = found
                made = self._size(some[0])
                for other in some[1:]:
                    made = graph.call_function(operator.mul, (made, self._size(other)))
                made = graph.call_function(operator.mul, (made, factor)) if factor != 1 else made
                return graph.call_function(operator.add, (made, summand)) if summand else made
        raise _Differs(f"{node.target}: {vector[0]} depends on a size ({', '.join(map(str, vector))} in the recordings), and isn't a product of sizes")

    def _size(self, vector):
        if vector not in self.made:
            node, dim = self.sizes[vector]
            self.made[vector] = self.recording.graph.call_function(tede.ops.aten.sym_size.int, (node, dim))
        return self.made[vector]


def _product(column):
    result = 1
    for x in column:
        result *= x
    return result


def _linear(products, vector):
    """(factor, summand), whole numbers by which the products become the vector; None: there are none, or products don't tell."""
    other = next((i for i, p in enumerate(products) if p != products[0]), None)
    if other is None:
        return None
    factor, rest = divmod(vector[other] - vector[0], products[other] - products[0])
    summand = vector[0] - factor * products[0]
    if rest or not factor or any(factor * p + summand != v for p, v in zip(products, vector)):
        return None
    return factor, summand

