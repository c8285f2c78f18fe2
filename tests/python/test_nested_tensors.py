"""Nested tensors without PyTorch: a model on a jagged batch gives what it gives on each member; structures, gradients, copies and files."""
import copy
import io
import pickle

import pytest
import tede

F = tede.nn.functional
LAYOUTS = [tede.jagged, tede.strided]


def members(*lengths, width=4, seed=0):
    tede.manual_seed(seed)
    return [tede.randn(length, width) for length in lengths]


class Block(tede.nn.Module):
    """A transformer's layer, as one writes it for any layout."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = tede.nn.LayerNorm(width), tede.nn.LayerNorm(width)
        self.qkv, self.out = tede.nn.Linear(width, 3 * width), tede.nn.Linear(width, width)
        self.up, self.down = tede.nn.Linear(width, 2 * width), tede.nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(self.first(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.second(x))))


class Model(tede.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.head = tede.nn.Embedding(11, 8), tede.nn.Linear(8, 3)
        self.blocks = tede.nn.Sequential(Block(8, 2), Block(8, 2))

    def forward(self, tokens):
        return self.head(self.blocks(self.embedding(tokens)).mean(1))


def test_a_model_on_a_jagged_batch_gives_what_it_gives_on_each_member():
    tede.manual_seed(1)
    model = Model()
    tokens = [tede.randint(0, 11, (length,)) for length in (5, 1, 7)]
    together = model(tede.nested.nested_tensor(tokens, layout=tede.jagged))
    alone = tede.cat([model(one.unsqueeze(0)) for one in tokens])
    assert tede.allclose(together, alone, atol=1e-6)
    gradients = [tede.autograd.grad((x * x).sum(), list(model.parameters())) for x in (together, alone)]
    assert all(tede.allclose(a, b, atol=1e-5) for a, b in zip(*gradients, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_leaf_gets_a_nested_gradient(layout):
    n = tede.nested.nested_tensor(members(2, 3), layout=layout, requires_grad=True)
    (n * n).to_padded_tensor(0.).sum().backward()
    (n * 3).to_padded_tensor(0.).sum().backward()
    assert n.grad.is_nested and n.grad.layout is layout
    assert all(tede.allclose(g, 2 * x + 3) for g, x in zip(n.grad.unbind(), n.detach().unbind(), strict=True))


def test_gradients_of_gradients():
    n = tede.nested.nested_tensor(members(2, 3), layout=tede.jagged, requires_grad=True)
    first, = tede.autograd.grad((n ** 3).sum(), n, create_graph=True)
    second, = tede.autograd.grad((first ** 2).sum(), n)
    assert tede.allclose(second.values(), 36 * n.detach().values() ** 3, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("again", [copy.deepcopy, copy.copy, lambda n: pickle.loads(pickle.dumps(n)), lambda n: n.clone(), lambda n: n.detach()],
                         ids=["deepcopy", "copy", "pickle", "clone", "detach"])
def test_a_copy_has_the_same_components(layout, again):
    n = tede.nested.nested_tensor(members(2, 0, 3), layout=layout)
    same = again(n)
    assert same.is_nested and same.layout is layout
    assert all(tede.equal(x, y) for x, y in zip(n.unbind(), same.unbind(), strict=True))


def test_a_file_keeps_holes_and_the_ragged_dimension():
    rows = tede.arange(24.).reshape(2, 6, 2)
    n = tede.nested.narrow(rows, 1, tede.tensor([1, 0]), tede.tensor([2, 4]), layout=tede.jagged).transpose(1, 2)
    file = io.BytesIO()
    tede.save(n, file)
    file.seek(0)
    same = tede.load(file)
    assert str(same.shape[:2]) == "tede.Size([2, 2])" and tede.equal(same.lengths(), tede.tensor([2, 4]))
    assert all(tede.equal(x, y) for x, y in zip(n.unbind(), same.unbind(), strict=True))
    assert tede.equal(n.unbind()[0].t(), rows[0, 1:3]) and n.numel() == 12


def test_tensors_over_the_same_offsets_have_one_structure():
    offsets = tede.tensor([0, 2, 5])
    a, b = (tede.nested.nested_tensor_from_jagged(tede.randn(5, 3), offsets) for _ in range(2))
    other = tede.nested.nested_tensor_from_jagged(tede.randn(5, 3), offsets.clone())
    assert a.shape == b.shape and (a + b).shape == a.shape
    with pytest.raises(RuntimeError, match=r"cannot call binary pointwise function add.Tensor with inputs of shapes \(2, j\d+, 3\) and \(2, j\d+, 3\)"):
        a + other


def test_values_are_shared_and_in_place_writes_are_seen():
    values = tede.zeros(5, 2)
    n = tede.nested.nested_tensor_from_jagged(values, tede.tensor([0, 2, 5]))
    n.add_(1)
    n[1].mul_(3)
    assert values[:, 0].tolist() == [1, 1, 3, 3, 3]


@pytest.mark.parametrize("offsets", [[0, 3, 2], [-1, 2, 5], [0, 2, 99]])
def test_offsets_that_fit_no_values_are_refused(offsets):
    with pytest.raises((RuntimeError, IndexError)):
        tede.nested.nested_tensor_from_jagged(tede.zeros(5, 2), tede.tensor(offsets)).unbind()


def test_what_reads_memory_refuses():
    n = tede.nested.nested_tensor(members(2, 3), layout=tede.jagged)
    for read in (lambda: n.numpy(), lambda: n.item(), lambda: n.tolist(), lambda: tede.empty(n.shape), lambda: n.untyped_storage()):
        with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
            read()


def test_a_symbolic_size():
    n = tede.nested.nested_tensor(members(2, 3), layout=tede.jagged)
    ragged = n.size(1)
    assert isinstance(ragged, tede.SymInt) and repr(2 * ragged) == f"2*{ragged}" and str(ragged)[0] == "j"
    assert n.stride()[0] == 4 * ragged and n.view(2, ragged, 2, 2).size(1) == ragged
    with pytest.raises(RuntimeError, match="small positive numbers"):
        ragged * -1


def test_attention_of_three_dimensions_keeps_its_history_whatever_the_strides():
    q = tede.randn(3, 2, 4, requires_grad=True).transpose(0, 1)
    assert F.scaled_dot_product_attention(q, q, q).requires_grad


def test_a_function_whose_nested_result_isnt_used_gets_zeros_of_its_structure():
    seen = []

    class Two(tede.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x + 1, x * 2

        @staticmethod
        def backward(ctx, first, second):
            seen.append(second)
            return first + second

    x = tede.nested.nested_tensor([tede.ones(2, 3), tede.ones(4, 3)], layout=tede.jagged, requires_grad=True)
    first, _ = Two.apply(x)
    first.values().sum().backward()
    assert seen[0].is_nested and seen[0].shape == x.shape and not seen[0].values().any() and x.grad.values().eq(1).all()


@pytest.mark.parametrize("layout", [tede.strided, tede.jagged])
def test_a_nested_tensor_is_not_resized(layout):
    x = tede.nested.nested_tensor([tede.ones(3, 2), tede.ones(1, 2)], layout=layout)
    with pytest.raises(NotImplementedError, match="aten::resize_"):
        x.resize_(1, 1, 1)
    with pytest.raises(NotImplementedError, match="resize_as_"):
        x.resize_as_(tede.ones(3))
