"""Collectives of Python's objects, which travel as bytes of their pickles: how many first, then they."""
import io
import pickle

import tede
from tede.distributed._collectives import all_gather, all_gather_into_tensor, broadcast, gather, scatter, _validate_output_list_for_rank
from tede.distributed._operands import _device_of_objects
from tede.distributed._point_to_point import recv, send
from tede.distributed._world import _canonicalize_group_rank, _check_not_self_rank, _group_or_default, _rank_not_in_group, _warn_not_in_group, get_world_size

_pickler, _unpickler = pickle.Pickler, pickle.Unpickler


def _object_to_tensor(obj, device=None, group=None):
    """(the bytes of its pickle, how many)"""
    file = io.BytesIO()
    _pickler(file).dump(obj)
    data = tede.frombuffer(bytearray(file.getbuffer()), dtype=tede.uint8)
    size = tede.tensor([data.numel()], dtype=tede.int64)
    return (data, size) if device is None or tede.device(device).type == "cpu" else (data.to(device), size.to(device))


def _tensor_to_object(tensor, size, group=None):
    return _unpickler(io.BytesIO(tensor.cpu().numpy().tobytes()[:int(size)])).load()


def all_gather_object(object_list, obj, group=None):
    """object_list[i] becomes the object of rank i."""
    if _rank_not_in_group(group):
        return _warn_not_in_group("all_gather_object")
    device = _device_of_objects(group)
    data, size = _object_to_tensor(obj, device, group)
    n = get_world_size(group)
    sizes = tede.zeros(n, dtype=tede.int64, device=device)
    all_gather_into_tensor(sizes, size, group=group)
    most = int(sizes.max())
    padded = tede.zeros(most, dtype=tede.uint8, device=device)
    padded[:data.numel()] = data
    parts = tede.empty(n, most, dtype=tede.uint8, device=device)
    all_gather(list(parts.unbind(0)), padded, group=group)
    for i, count in enumerate(sizes.tolist()):
        object_list[i] = _tensor_to_object(parts[i], count, group)
    return None


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """On rank dst object_gather_list[i] becomes the object of rank i."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("gather_object")
    root = _canonicalize_group_rank(pg, 0 if dst is None and group_dst is None else dst, group_dst)
    _validate_output_list_for_rank(pg.rank(), root, object_gather_list)
    device = _device_of_objects(pg)
    data, size = _object_to_tensor(obj, device, pg)
    sizes = tede.zeros(pg.size(), dtype=tede.int64, device=device)
    all_gather_into_tensor(sizes, size, group=pg)
    most = int(sizes.max())
    padded = tede.zeros(most, dtype=tede.uint8, device=device)
    padded[:data.numel()] = data
    parts = tede.empty(pg.size(), most, dtype=tede.uint8, device=device)
    gather(padded, list(parts.unbind(0)) if pg.rank() == root else None, group=pg, group_dst=root)
    if pg.rank() == root:
        for i, count in enumerate(sizes.tolist()):
            object_gather_list[i] = _tensor_to_object(parts[i], count, pg)
    return None


def _pack(objects, device, group):
    parts = [_object_to_tensor(obj, device, group) for obj in objects]
    sizes = tede.cat([size for _, size in parts])
    return sizes, parts[0][0] if len(parts) == 1 else tede.cat([data for data, _ in parts])


def _unpack(objects, sizes, data, group):
    at = 0
    for i, size in enumerate(sizes.tolist()):
        objects[i] = _tensor_to_object(data[at:at + size], size, group)
        at += size


def send_object_list(object_list, dst=None, group=None, device=None, group_dst=None, use_batch=False):
    """Send objects to rank dst."""
    pg = _group_or_default(group)
    to = _canonicalize_group_rank(pg, dst, group_dst)
    _check_not_self_rank(pg, to, "destination")
    if _rank_not_in_group(pg):
        return _warn_not_in_group("send_object_list")
    sizes, data = _pack(object_list, device or _device_of_objects(pg), pg)
    send(sizes, group=pg, group_dst=to)
    return send(data, group=pg, group_dst=to)


def recv_object_list(object_list, src=None, group=None, device=None, group_src=None, use_batch=False):
    """Receive as many objects as the list has from rank src, or from any; the rank that has sent them."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        _warn_not_in_group("recv_object_list")
        return -1
    device = device or _device_of_objects(pg)
    sizes = tede.empty(len(object_list), dtype=tede.int64, device=device)
    source = recv(sizes, src=src, group=pg, group_src=group_src)
    data = tede.empty(int(sizes.sum()), dtype=tede.uint8, device=device)
    again = recv(data, src=source, group=pg)
    if source != again:
        raise AssertionError("Mismatch in return ranks for object sizes and objects.")
    _unpack(object_list, sizes, data, pg)
    return source


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """The objects in every rank's list become those of rank src."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("broadcast_object_list")
    root = _canonicalize_group_rank(pg, 0 if src is None and group_src is None else src, group_src)
    device = device or _device_of_objects(pg)
    if pg.rank() == root:
        sizes, data = _pack(object_list, device, pg)
    else:
        sizes = tede.empty(len(object_list), dtype=tede.int64, device=device)
    broadcast(sizes, group=pg, group_src=root)
    if pg.rank() != root:
        data = tede.empty(int(sizes.sum()), dtype=tede.uint8, device=device)
    broadcast(data, group=pg, group_src=root)
    if pg.rank() != root:
        _unpack(object_list, sizes, data, pg)
    return None


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
    """The first object of rank i's output list becomes object i of rank src's input list."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("scatter_object_list")
    root = _canonicalize_group_rank(pg, 0 if src is None and group_src is None else src, group_src)
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    device = _device_of_objects(pg)
    most = tede.zeros(1, dtype=tede.int64, device=device)
    parts = sizes = None
    if pg.rank() == root:
        if scatter_object_input_list is None:
            raise ValueError("source rank must provide non-None scatter_object_input_list")
        pairs = [_object_to_tensor(obj, device, pg) for obj in scatter_object_input_list]
        most.fill_(max(data.numel() for data, _ in pairs))
        sizes = [size for _, size in pairs]
        parts = []
        for data, _ in pairs:
            part = tede.zeros(int(most), dtype=tede.uint8, device=device)
            part[:data.numel()] = data
            parts.append(part)
    broadcast(most, group=pg, group_src=root)
    mine, size = tede.empty(int(most), dtype=tede.uint8, device=device), tede.zeros(1, dtype=tede.int64, device=device)
    scatter(mine, parts, group=pg, group_src=root)
    scatter(size, sizes, group=pg, group_src=root)
    scatter_object_output_list[0] = _tensor_to_object(mine, int(size), pg)
    return None
