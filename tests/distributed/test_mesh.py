"""Meshes of processes: groups by dimension, slices by name, dimensions made into one."""
import ranks


def grid(lib, rank, size):
    from importlib import import_module
    mesh = import_module(f"{lib.__name__}.distributed.device_mesh")
    m = mesh.init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("dp", "tp"))
    x = lib.tensor([float(rank)])
    lib.distributed.all_reduce(x, group=m.get_group("tp"))
    flat = m._flatten("all")
    y = lib.ones(1)
    lib.distributed.all_reduce(y, group=flat.get_group())
    errors = []
    for f in (lambda: m["x"], lambda: m.get_group(), lambda: m.get_local_rank(), lambda: m["tp"]["dp"],
              lambda: mesh.init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "a")), lambda: mesh.init_device_mesh("cpu", (size, size))):
        try:
            f()
            errors.append(None)
        except (KeyError, RuntimeError, ValueError) as error:
            errors.append(type(error).__name__)
    return [*(repr(x).partition(", stride")[0] for x in (m, m["tp"])),
            m.get_coordinate(), m["dp"].get_local_rank(), m["dp"].mesh.tolist(), m["tp"].mesh.tolist(), m.size(), m.size(1), m.shape,
            m["dp", "tp"] == m, m["tp"] == m["tp"], x.item(), y.item(), repr(m["all"]), flat.mesh.tolist(), errors,
            lib.distributed.get_process_group_ranks(m["dp"].get_group())]


def test_a_grid_of_two_by_one(library):
    first, second = ranks.run(grid, 2, library)
    assert first[:2] == ["DeviceMesh((dp=2, tp=1), 'cpu'", "DeviceMesh((tp=1), 'cpu'"]
    assert [first[2], second[2], second[3]] == [(0, 0), (1, 0), 1]
    assert [first[4], first[5], second[5]] == [[0, 1], [0], [1]]
    assert first[6:11] == [2, 1, (2, 1), True, True] and [first[11], second[11], first[12]] == [0.0, 1.0, 2.0]
    assert first[13:15] == ["DeviceMesh((all=2), 'cpu', stride=(1,))", [0, 1]] and first[16] == [0, 1]
    assert first[15] == ["KeyError", "RuntimeError", "RuntimeError", "KeyError", "RuntimeError", "RuntimeError"]


def along(lib, rank, size):
    """Groups of flattened dimensions by name, slices where tensors have no elements, and collectives in place along a dimension."""
    from importlib import import_module
    name = lib.__name__
    mesh = import_module(f"{name}.distributed.device_mesh")
    utilities = import_module(f"{name}.distributed.tensor._collective_utils")
    placements = import_module(f"{name}.distributed.tensor.placement_types")
    shard = placements.Shard(1)
    m = mesh.init_device_mesh("cpu", (size, 1), mesh_dim_names=("dp", "tp"))
    flat = m._flatten("all")
    same = placements._Partial is placements.Partial and m.get_group("all") is flat.get_group() and mesh._mesh_resources.get_root_mesh(m["tp"]) is m
    with import_module(f"{name}._subclasses.fake_tensor").FakeTensorMode():
        part = m["dp"]
    x = lib.full((2, 2), rank + 5.0)
    utilities.mesh_broadcast(x, m, 0)
    parts, pads = shard._split_tensor(lib.arange(6.0).view(2, 3), size, with_padding=True, contiguous=True)
    y = lib.empty_like(parts[rank])
    utilities.mesh_scatter(y, parts, m, 0)
    return (same, part.get_local_rank(), part.mesh.tolist(), x.tolist(), utilities.unpad_tensor(y, 1, pads[rank]).tolist(),
            utilities.pad_tensor(lib.ones(1, 2), 0, 1).tolist())


def test_along_a_dimension(library):
    first, second = ranks.run(along, 2, library)
    assert first[:4] == (True, 0, [0, 1], [[5.0, 5.0]] * 2) and second[:4] == (True, 1, [0, 1], [[5.0, 5.0]] * 2)
    assert first[4] == [[0.0, 1.0], [3.0, 4.0]] and second[4] == [[2.0], [5.0]] and first[5] == [[1.0, 1.0], [0.0, 0.0]]
