"""Collectives with gradients, and those that are operators."""
import ranks


def gradients(lib, rank, size):
    import importlib
    N = importlib.import_module(lib.__name__ + ".distributed.nn.functional")
    found = {}

    def take(name, function):
        w = (lib.arange(4.0) + rank).requires_grad_()
        out = function(w)
        weights = [lib.arange(float(one.numel())).view(one.shape) + 1 + rank for one in (out if isinstance(out, (tuple, list)) else [out])]
        sum((one * k).sum() for one, k in zip(out if isinstance(out, (tuple, list)) else [out], weights)).backward()
        found[name] = w.grad.tolist()
    take("all_reduce", lambda w: N.all_reduce(w * 2))
    take("all_gather", lambda w: N.all_gather(w * 2))
    take("broadcast", lambda w: N.broadcast(w * 2, 1))
    take("reduce", lambda w: N.reduce(w * 2, 0))
    take("reduce_scatter", lambda w: N.reduce_scatter(lib.zeros(2), list((w * 2).chunk(2))))
    take("all_to_all", lambda w: N.all_to_all([lib.zeros(2), lib.zeros(2)], list((w * 2).chunk(2))))
    take("gather", lambda w: N.gather(w * 2, 1))
    take("scatter", lambda w: N.scatter(list((w * 2).chunk(2)), 0))
    return found


def test_gradients_of_collectives(library):
    a, b = ranks.run(gradients, 2, library)
    assert (a["all_reduce"], b["all_reduce"]) == ([6.0, 10.0, 14.0, 18.0],) * 2
    assert (a["all_gather"], b["all_gather"]) == ([6.0, 10.0, 14.0, 18.0],) * 2
    assert (a["broadcast"], b["broadcast"]) == ([0.0] * 4, [6.0, 10.0, 14.0, 18.0])
    assert (a["reduce"], b["reduce"]) == ([2.0, 4.0, 6.0, 8.0],) * 2
    assert (a["reduce_scatter"], b["reduce_scatter"]) == ([2.0, 4.0, 4.0, 6.0],) * 2
    assert (a["all_to_all"], b["all_to_all"]) == ([2.0, 4.0, 4.0, 6.0],) * 2
    assert (a["gather"], b["gather"]) == ([4.0, 6.0, 8.0, 10.0],) * 2
    assert (a["scatter"], b["scatter"]) == ([2.0, 4.0, 4.0, 6.0], [0.0] * 4)


def operators(lib, rank, size):
    import importlib
    F = importlib.import_module(lib.__name__ + ".distributed._functional_collectives")
    world, found = lib.distributed.group.WORLD, {}
    x = lib.arange(4.0).view(2, 2) + rank
    out = F.all_reduce(x, "sum", world)
    found["kind"] = type(out).__name__
    found["all_reduce"] = (out + 0).tolist()
    found["gathered"] = [F.all_gather_tensor(x, dim, world).tolist() for dim in (0, 1)]
    found["scattered"] = [F.reduce_scatter_tensor(x, "sum", dim, world).tolist() for dim in (0, 1)]
    found["by ranks"] = F.all_to_all_single(x, None, None, [0, 1]).tolist()
    found["coalesced"] = [one.tolist() for one in F.all_reduce_coalesced([x, x * 2], "max", world)]
    w = x.clone().requires_grad_()
    (F.all_gather_tensor_autograd(w, 0, world) * lib.arange(8.0).view(4, 2)).sum().backward()
    (F.reduce_scatter_tensor_autograd(w, "sum", 0, world) * 3).sum().backward()
    found["grad"] = w.grad.tolist()
    return found


def test_operators(library):
    a, b = ranks.run(operators, 2, library)
    assert a["kind"] == "AsyncCollectiveTensor" and a["all_reduce"] == b["all_reduce"] == [[1.0, 3.0], [5.0, 7.0]]
    assert a["gathered"] == b["gathered"] == [[[0.0, 1.0], [2.0, 3.0], [1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0, 1.0, 2.0], [2.0, 3.0, 3.0, 4.0]]]
    assert (a["scattered"], b["scattered"]) == ([[[1.0, 3.0]], [[1.0], [5.0]]], [[[5.0, 7.0]], [[3.0], [7.0]]])
    assert (a["by ranks"], b["by ranks"]) == ([[0.0, 1.0], [1.0, 2.0]], [[2.0, 3.0], [3.0, 4.0]])
    assert a["coalesced"] == [[[1.0, 2.0], [3.0, 4.0]], [[2.0, 4.0], [6.0, 8.0]]]
    assert (a["grad"], b["grad"]) == ([[3.0, 5.0], [7.0, 9.0]], [[11.0, 13.0], [15.0, 17.0]])
