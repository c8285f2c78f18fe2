"""What an operator does besides computing is in its entry and its row, and who defines one hands over its own."""
import ast
import pathlib
import re
import sys

import pytest

import tede
from tede import _C

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def own():
    library = tede.library.Library("owntraits", "FRAGMENT")

    def define(schema, kernel, **traits):
        name = schema.partition("(")[0]
        library.define(schema)
        library.impl(name, kernel, "CPU")
        tede.library.set_traits(f"owntraits::{name}", **traits)
        return getattr(tede.ops.owntraits, name)
    define.library = library
    yield define
    library._destroy()


def shapes(function, seen):
    def kernel(*args):
        seen.append(tuple(args[0].shape))
        return function(*args)
    return kernel


@pytest.mark.parametrize("schema, function, batch, arguments", [
    ("scaled(Tensor x, Tensor y) -> Tensor", lambda x, y: x * y, "pointwise", (2,)),
    ("flipped(Tensor x) -> Tensor", lambda x: x.flip(-1), "leading", ()),
    ("total(Tensor x, int[]? dim=None) -> Tensor", lambda x, dim=None: x.sum(dim or None), "dims(absent_is_all)", ()),
    ("running(Tensor x, int dim) -> Tensor", lambda x, dim: x.cumsum(dim), "dims", (-1,)),
    ("rows(Tensor x) -> Tensor", lambda x: x.cumsum(-1), "fold", ()),
], ids=["pointwise", "leading", "dims-all", "dims", "fold"])
def test_a_pattern_computes_a_batch_in_one_call(own, schema, function, batch, arguments):
    seen = []
    op = own(schema, shapes(function, seen), batch=batch)
    arguments = [tede.full((4,), float(a)) if "y)" in schema else a for a in arguments]
    x, loops = tede.rand(5, 3, 4), _C._vmap_fallback_count()
    got = tede.vmap(lambda v: op(v, *arguments))(x)
    assert tede.allclose(got, tede.stack([function(v, *arguments) for v in x]))
    assert len(seen) == 1 and _C._vmap_fallback_count() == loops


def test_autocast_by_policy(own):
    kinds = {}
    for policy in ("lower_precision", "fp32", "promote"):
        op = own(f"as_{policy}(Tensor x, Tensor y) -> Tensor", lambda x, y: (kinds.__setitem__("now", (x.dtype, y.dtype)), x + y)[1],
                 autocast=policy)
        with tede.autocast("cpu", dtype=tede.bfloat16):
            op(tede.ones(2), tede.ones(2, dtype=tede.bfloat16))
        assert kinds["now"] == {"lower_precision": (tede.bfloat16,) * 2}.get(policy, (tede.float32,) * 2)
        op(tede.ones(2), tede.ones(2, dtype=tede.bfloat16))
        assert kinds["now"] == (tede.float32, tede.bfloat16)


def test_names_and_counts(own):
    x = tede.rand(2, 3, names=("a", "b"))
    drop = own("drop(Tensor x, int dim) -> Tensor", lambda x, dim: x.sum(dim), names="reduced", flops="product(x, x)")
    assert drop(x, 1).names == ("a",)
    from tede.utils.flop_counter import FlopCounterMode
    with FlopCounterMode(display=False) as mode:
        drop(tede.ones(2, 2), 1)
    assert mode.get_total_flops() == 2 * 4 * 2
    plain = own("sum(Tensor x, int dim) -> Tensor", lambda x, dim: x.sum(dim))
    with pytest.raises(RuntimeError, match="not yet supported with named tensors"):
        plain(x, 1)


@pytest.mark.parametrize("traits, words", [
    ({"batch": "sideways"}, "'sideways' is no pattern"), ({"batch": "dims(upwards)"}, "'upwards' is no mode of dims"),
    ({"batch": "dims(keeps_0d"}, "is no mode of dims"), ({"autocast": "fp31"}, "fp31 is not lower_precision")])
def test_words_that_are_not_known(own, traits, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        own("odd(Tensor x) -> Tensor", lambda x: x, **traits)


@pytest.mark.parametrize("traits, words", [
    ({"names": "bogus"}, "names: 'bogus' is no rule; there are reduced"), ({"flops": "bogus(x)"}, "'bogus(x)' is no pattern"),
    ({"flops": "product(x, nothing)"}, "has no argument 'nothing'"), ({"flops": "product(x)"}, "product takes two arguments"),
    ({"flops": "convolution"}, "has no argument 'input'"), ({"flops": "product("}, "product takes two arguments"),
    ({"shown": "nothing=sum"}, "'nothing=sum' is not an argument of odd"), ({"shown": "dim"}, "is not an argument of odd, = and a name"),
    ({"shown": "dim="}, "is not an argument of odd, = and a name")])
def test_words_that_would_only_fail_when_used(own, traits, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        own("odd(Tensor x, int dim=0) -> Tensor", lambda x, dim=0: x, **traits)


def test_traits_that_are_not_named_stay(own):
    full = "owntraits::several"
    op = own("several(Tensor x, int? dim=None) -> Tensor", lambda x, dim=None: x.sum(dim), names="reduced", shown="dim=several.all")
    tede.library.set_traits(full, batch="dims(absent_is_all)")
    tede.library.set_traits(full, autocast="fp32")
    assert _C._op_traits(full) == {"batch": "dims(absent_is_all)", "autocast": "fp32", "tags": None, "names": "reduced", "flops": None,
                                   "shown": "dim=several.all", "spelled": None, "decompose": None, "undo": None, "promotes": False, "linear": False,
                                   "knows_bits": False}
    tede.library.set_traits(full, tags=tede.Tag.reduction, spelled="x=input", linear=True)
    tede.library.set_traits(full, linear=False, promotes=True)
    traits = _C._op_traits(full)
    assert traits == {**traits, "batch": "dims(absent_is_all)", "tags": "reduction", "spelled": "x=input", "promotes": True, "linear": False}
    loops, x = _C._vmap_fallback_count(), tede.rand(5, 3)
    assert tede.vmap(op)(x).tolist() == x.sum(1).tolist() and _C._vmap_fallback_count() == loops


def test_operands_of_an_own_operator_that_promotes_get_one_dtype(own):
    dtypes = []
    op = own("mixed(Tensor x, Tensor y) -> Tensor", lambda x, y: (dtypes.append((x.dtype, y.dtype)), x.float() + y)[1])
    x, y = tede.ones(2, dtype=tede.int16), tede.ones(2, dtype=tede.int64)
    for promotes in None, True:
        tede.library.set_traits("owntraits::mixed", promotes=promotes)
        with tede.promotion("array_api"):
            op(x, y)
    assert dtypes == [(tede.int16, tede.int64), (tede.int64, tede.int64)]
    with tede.promotion("array_api"), pytest.raises(TypeError, match="mixed: the array API doesn't promote"):
        op(x, y.float())


@pytest.mark.filterwarnings('ignore:.*an autograd kernel was not registered')
def test_the_tangent_of_an_own_linear_operator_is_what_it_gives_of_tangents(own):
    """Without the trait an operator whose kernel computes outside of tede has none."""
    op = own("doubled(Tensor x) -> Tensor", lambda x: tede.tensor([2 * v for v in x.detach().tolist()]))
    x, t = tede.tensor([1., 2.]), tede.tensor([3., -4.])
    assert tede.func.jvp(op, (x,), (t,))[1].tolist() == [0, 0]
    tede.library.set_traits("owntraits::doubled", linear=True)
    value, tangent = tede.func.jvp(op, (x,), (t,))
    assert value.tolist() == [2, 4] and tangent.tolist() == [6, -8]


def test_an_own_operator_that_knows_bits_gets_conjugates_as_they_are(own):
    marked = []
    op = own("plain(Tensor x) -> Tensor", lambda x: (marked.append(x.is_conj()), x + 0)[1])
    x = tede.tensor([1 + 2j])
    for knows in None, True, False:
        tede.library.set_traits("owntraits::plain", knows_bits=knows)
        assert op(x.conj()).tolist() == [1 - 2j]
    assert marked == [False, True, False]


def test_an_absent_dimension_of_an_own_operator_is_the_members(own):
    """One number can't say `all but the batch`: only a member of one dimension is reduced with the others in one call."""
    for name, batch, calls in ("known", "dims(absent_is_all)", [3, 1, 3]), ("open", "dims", [3, 3, 3]):
        seen = []
        op = own(f"{name}(Tensor x, int? dim=None) -> Tensor", shapes(lambda x, dim=None: x.sum(dim), seen), batch=batch)
        for shape, count in zip([(3,), (3, 4), (3, 4, 2)], calls):
            x = tede.rand(shape)
            seen.clear()
            assert tede.allclose(tede.vmap(op)(x), tede.stack([v.sum() for v in x]))
            assert len(seen) == count


def test_a_mode_sees_what_an_own_operator_shows(own):
    from tede.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.func = func
            return func(*args, **(kwargs or {}))
    own.library.define("total.all(Tensor x) -> Tensor")
    own.library.impl("total.all", lambda x: x.sum(), "CPU")
    own("total(Tensor x, int? dim=None) -> Tensor", lambda x, dim=None: x.sum(dim), shown="dim=total.all")
    for dim, seen in (None, "all"), (1, ""):
        with Seen() as mode:
            got = tede.ops.owntraits.total(tede.ones(2, 3), dim)
        assert mode.func._schema.overload_name == seen and got.tolist() == tede.ones(2, 3).sum(dim).tolist()


def test_patterns_that_do_not_fit_the_schema(own):
    with pytest.raises(ValueError, match="takes a list of tensors"):
        own("joined(Tensor[] x) -> Tensor", lambda x: x[0], batch="leading")
    with pytest.raises(ValueError, match="a result of asked is no tensor"):
        own("asked(Tensor x) -> int", lambda x: 1, batch="leading")
    with pytest.raises(ValueError, match="is no operator of td_op_define's"):
        tede.library.set_traits("aten::add.Tensor", batch="loop")


def test_traits_of_atens_operators_can_be_read():
    assert _C._op_traits("aten::mm") == {"batch": "product(self, mat2, matrices)", "autocast": "lower_precision", "tags": "core", "names": "product",
                                         "flops": "product(self, mat2)", "shown": None, "spelled": None, "decompose": None, "undo": None,
                                         "promotes": False, "linear": False, "knows_bits": False}
    flags = {name: [_C._op_traits(f"aten::{name}")[flag] for flag in ("promotes", "linear", "knows_bits")] for name in ("add.Tensor", "clone")}
    assert flags == {"add.Tensor": [True, False, False], "clone": [False, True, True]}
    assert _C._op_traits("aten::sum.dim_IntList")["batch"] == "dims(absent_is_all)"
    assert _C._op_traits("aten::relu_")["batch"] == "pointwise"
    assert _C._op_traits("aten::rand")["batch"] == "random"


def test_a_rule_that_an_entry_names_operands_for_needs_tensors_of_its_schema():
    sys.path.insert(0, str(ROOT))
    from codegen import batching, schema
    signature = schema.parse('toy(Tensor self, Tensor vec, *, Scalar beta=1) -> Tensor')
    assert batching.read('product(self, vec, matrix_vector)', signature, {}) == ('td_rule_product', 'TD_PRODUCT_MATRIX_VECTOR', 'self\0vec')
    for text in 'product', 'product(self)', 'product(self, matrix_vector)', 'product(self, beta)':
        with pytest.raises(batching.BatchError, match='product needs 2 of the tensors that toy takes'):
            batching.read(text, signature, {})


# ---- the tree

COMPARED = re.compile(r'str(?:n)?cmp\([^;]*?(?:info\.|info->|op->)name, ("[a-z_0-9]+")|str(?:n)?cmp\(("[a-z_0-9]+"), [^;]*?(?:info\.|info->)name'
                      r'|str(?:n)?cmp\([^;()]*?(?:info\.|info->)name, (\w+)\[')
OF_A_NAME = re.compile(r'str(?:n)?cmp\((?:\w+(?:->|\.))*\w*(?:op|name|what|words), "(\w+)"[,)]|\*(?:op|name) == (\'.)')
PART_OF_A_NAME = re.compile(r'str(?:r?chr|str)\((?:\w*op|api_name|\w+(?:->|\.)op|info(?:->|\.)name), ["\']([^"\']+)')
FOUND_BY_NAME = re.compile(r'"aten::(\w+)[".]')
# What C files outside of the core's folders register operators with, too: only comparisons are looked for there.
PLUG_INS = 'devices', 'engines', 'layouts', 'operators'
# File: names in it, and why.
NAMED = {
    'src/formula/print.c': (['conj', 'real'], 'functions of the formula language'),
    'src/ops/linalg/linalg.c': (['inv', 'cholesky', 'solve'], "_linalg_check_errors: an argument of PyTorch's schema says what was factored"),
    'src/tensor/print.c': (['full'], 'a profile of set_printoptions'),
}


def test_no_c_file_compares_names_of_operators():
    """Nor what its own functions are passed for their messages, as a whole, by its first letter or by what it contains. An operator
    of aten's that a file calls is called by its function."""
    known, found = {name for name in _C._operators if len(name) > 3}, {}
    for folder in ('src', 'python/csrc', *PLUG_INS):
        for path in sorted((ROOT / folder).rglob('*.[ch]')):
            text = re.sub(r'/\*.*?\*/', '', path.read_text(), flags=re.S)
            names = [next(filter(None, found)) for found in COMPARED.findall(text)]
            names += PART_OF_A_NAME.findall(text) + (FOUND_BY_NAME.findall(text) if folder not in PLUG_INS else [])
            names += [word or letter for word, letter in OF_A_NAME.findall(text) if letter or word in known]
            if names:
                found[str(path.relative_to(ROOT))] = names
    assert found == {path: names for path, (names, _) in NAMED.items()}


def test_no_c_file_outside_ops_lists_operators():
    """Tables of strings of which three or more are operators."""
    known = {name for name in _C._operators if len(name) > 3}
    found = {}
    for path in sorted([*(ROOT / 'src').rglob('*.c'), *(ROOT / 'python/csrc').rglob('*.c')]):
        for table in re.findall(r'\[\]\s*=\s*\{((?:[^{};]|\{[^{}]*\})*)\};', path.read_text()):
            names = set(re.findall(r'"([a-z_0-9.]+)"', table)) & known
            if len(names) > 2:
                found.setdefault(str(path.relative_to(ROOT)), set()).update(names)
    assert found == {'src/layouts/sparse/mm.c': {'amax', 'amin', 'mean'}}       # words of the argument `reduce`


# Python's modules that name operators, and why: a public namespace or a protocol of PyTorch's is a list of names itself.
PYTHON = {
    'distributed/_shard/sharded_tensor/api.py': 'the operators besides elementwise ones that keep the blocks of a ShardedTensor: it refuses all others',
    'distributed/tensor/_rules.py': 'patterns of `batch`, some of which are called as an operator is',
    'distributed/tensor/_splits.py': 'generated from the entries',
    'export/_file.py': "Python's own operators on numbers, which a graph's file may name",
    'onnx/_entries.py': 'generated from the entries',
    'onnx/_formulas.py': 'functions of the formula language, which are ONNX operators',
    '__init__.py': 'the names of the package: which module has a function that is written in Python, and which functions pass on to it',
    '_storage.py': 'methods of the old typed storages, some of which are called as operators are',
    '_tensor.py': 'methods of Tensor that are written in Python',
    'ao/quantization/qconfig_mapping.py': 'functions of fixed ranges, which PyTorch names in its default mappings',
    'ao/quantization/quantization_mappings.py': 'the protocol of QFunctional: which quantized operator a float one becomes',
    'array_api.py': 'the names of the array API standard',
    'functional.py': 'the names of tede.functional that other modules have',
    'fx/graph.py': "Python's own operators, by the method that a Proxy has for each",
    'fx/proxy.py': "Python's own operators, by the method that a Proxy has for each",
    'masked/_ops.py': 'the functions of tede.masked and the neutral element of each',
    'masked/_sparse.py': 'the functions of tede.masked that reduce sparse tensors',
    'masked/maskedtensor.py': 'the operators that PyTorch documents for MaskedTensor: it refuses all others',
    'nn/_functional/recurrent.py': 'modes of the recurrent layers, which choose their operator',
    'nn/functional.py': 'the names of tede.nn.functional',
    'nn/init.py': 'nonlinearities that calculate_gain takes',
    'nn/modules/transformer.py': 'activations, as its argument names them',
    'nn/modules/__init__.py': 'the modules of tede.nn.modules, by file',
    'overrides.py': 'get_ignored_functions(): functions over no tensor',
    '_decompositions.py': 'the rules that entries name in `decompose`, whose names are those of the operators that they stand for',
    'sparse/_semi_structured.py': 'a class with __torch_dispatch__, whose protocol is a table by operator',
    'utils/data/sampler.py': 'functions that are taken from the extension under other names',
}


NAME_OF_AN_OPERATOR = re.compile(r"(func|op|operator|overload|packet|_schema)\w*\.(_?name|__name__)|\._opname|(?<![\w.])(op_?)?name(?!\w)")


def named_operators(path, known):
    """Of a module: the literals in comparisons with some name, and the members of tables, of which three or more are operators; its public names
    (__all__) say nothing about behaviour."""
    def names(node):
        found = [c.value.removeprefix('aten::') for c in ast.walk(node) if isinstance(c, ast.Constant) and isinstance(c.value, str)]
        return {name for name in found if name.partition('.')[0] in known}
    found = set()
    module = ast.parse(path.read_text())
    module.body = [s for s in module.body if not (isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == '__all__')]
    for node in ast.walk(module):
        table = node.keys if isinstance(node, ast.Dict) else getattr(node, 'elts', [])
        found_here = {name for key in table if isinstance(key, ast.Constant) for name in names(key)}
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == 'split':
            found_here |= {name for c in ast.walk(node.func) if isinstance(c, ast.Constant) for name in str(c.value).split() if name in known}
        found |= found_here if len(found_here) > 2 else set()
        if isinstance(node, ast.Compare) and NAME_OF_AN_OPERATOR.search(ast.unparse(node)):
            found |= names(node)
    return found


def test_python_lists_operators_only_where_the_names_are_the_subject():
    known = {name for name in _C._operators if len(name) > 3} | {'add', 'sub', 'mul', 'div', 'mm'}
    root = ROOT / 'python/tede'
    found = {str(path.relative_to(root)): names for path in sorted(root.rglob('*.py')) if (names := named_operators(path, known))}
    assert found.keys() == PYTHON.keys(), {k: found.get(k) for k in found.keys() ^ PYTHON.keys()}


def test_the_generator_lists_functions_of_its_languages_alone():
    """What it should know of an operator is in the operator's entry."""
    known = {name for name in _C._operators if len(name) > 3}
    found = {path.name: named_operators(path, known) for path in (ROOT / 'codegen').glob('*.py')}
    schemas = [line for path in (ROOT / 'ops').glob('*.yaml') for line in path.read_text().splitlines() if line.startswith('- func:')]
    arguments = {name for schema in schemas for name in re.findall(r'(\w+)(?:=[^,)]+)?[,)]', schema)}
    assert not found.pop('manual.py') - arguments               # its glossary: some arguments are called as an operator is
    assert {name for name, named in found.items() if named} == {'value.py', 'emit_autograd.py',         # functions of formulas
                                                                'traits.py'}                            # rules of `decompose`


def test_what_torch_dispatch_sees_is_in_the_traits(own):
    """A composite's parts, itself with `never`, a rule's calls with the rule's name: of an operator of the program's own, too."""
    from tede import _decompositions
    from tede.utils._python_dispatch import TorchDispatchMode

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.names = [*getattr(self, 'names', []), func._schema.name]
            return func(*args, **(kwargs or {}))

    def seen(function, *args):
        with Seen() as mode:
            function(*args)
        return mode.names
    x = tede.rand(3, 3)
    assert seen(tede.clamp, x, 0.1) == ['aten::clamp'] and seen(tede.clip, x, 0.1) == ['aten::clamp']
    assert seen(tede.matmul, x, x) == ['aten::mm']
    product = own('product(Tensor self, Tensor other) -> Tensor', lambda a, b: a @ b, decompose='matmul')
    assert seen(product, x, x) == ['aten::mm']
    named = set(re.findall(r'^  decompose: (\w+)', ''.join(p.read_text() for p in (ROOT / 'ops').glob('*.yaml')), re.M))
    assert named - {'never'} == _decompositions.RULES.keys()
    with pytest.raises(ValueError, match="'sideways' is no rule"):
        own('odd(Tensor x) -> Tensor', lambda x: x, decompose='sideways')


def test_every_rule_is_named_by_an_entry_or_follows_from_a_schema():
    rules = {name for path in (ROOT / 'src/transforms').glob('*.c') for name in re.findall(r'^int td_rule_(\w+)\(', path.read_text(), re.M)}
    named = set(re.findall(r'^  batch: (\w+)', ''.join(p.read_text() for p in (ROOT / 'ops').glob('*.yaml')), re.M))
    assert rules == (named - {'parts'}) | {'pointwise', 'dims', 'inplace', 'loop', 'random'}
