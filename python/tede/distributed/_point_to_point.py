"""Sends and receives, between two ranks of a group."""
from tede.distributed._operands import _check_single_tensor, _real
from tede.distributed._world import (
    _canonicalize_group_rank, _check_not_self_rank, _group_or_default, _rank_not_in_group, _warn_not_in_group, get_global_rank, get_rank)


def isend(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Begin to send a tensor to rank dst: its work."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("isend")
    to = _canonicalize_group_rank(pg, dst, group_dst)
    _check_single_tensor(tensor, "tensor")
    return pg.send([_real(tensor)], to, tag)


def irecv(tensor, src=None, group=None, tag=0, group_src=None):
    """Begin to receive a tensor from rank src, or from any: its work."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("irecv")
    _check_single_tensor(tensor, "tensor")
    if src is None and group_src is None:
        return pg.recv_anysource([_real(tensor)], tag)
    return pg.recv([_real(tensor)], _canonicalize_group_rank(pg, src, group_src), tag)


def send(tensor, dst=None, group=None, tag=0, group_dst=None):
    """Send a tensor to rank dst."""
    pg = _group_or_default(group)
    if _rank_not_in_group(pg):
        return _warn_not_in_group("send")
    to = _canonicalize_group_rank(pg, dst, group_dst)
    _check_not_self_rank(pg, to, "destination")
    work = isend(tensor, group=pg, tag=tag, group_dst=to)
    if work is not None:
        work.wait()


def recv(tensor, src=None, group=None, tag=0, group_src=None):
    """Receive a tensor from rank src, or from any; the rank that has sent it."""
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    pg = _group_or_default(group)
    if src is None and group_src is None:
        source = work._source_rank()
        return get_global_rank(pg, source)
    return src if group_src is None else get_global_rank(pg, group_src)


class P2POp:
    """A send or a receive for batch_isend_irecv."""

    def __new__(cls, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        _check_op(op)
        _check_single_tensor(tensor, "tensor")
        return object.__new__(cls)

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        self.op, self.tensor, self.group, self.tag = op, tensor, _group_or_default(group), tag
        self.peer = _canonicalize_group_rank(self.group, peer, group_peer, return_global=True)
        self.group_peer = _canonicalize_group_rank(self.group, peer, group_peer)

    def __repr__(self):
        me, size = get_rank(self.group), self.group.size()
        source, target = (me, self.group_peer) if self.op is isend else (self.group_peer, me)
        return f"P2POp({self.op.__name__} pg={self.group.group_name}, size={size}, s={source}, d={target}, {self.tensor.shape}, {self.tensor.dtype})"


def _check_op(op):
    if op not in (isend, irecv):
        raise ValueError("Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or ``torch.distributed.irecv``.")


def _check_p2p_op_list(ops):
    if not isinstance(ops, list) or not all(isinstance(op, P2POp) for op in ops):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``.")
    if not all(op.group is ops[0].group for op in ops):
        raise ValueError("All ops need to use the same group.")


def batch_isend_irecv(p2p_op_list):
    """Begin several sends and receives: their works."""
    _check_p2p_op_list(p2p_op_list)
    works = [op.op(op.tensor, group=op.group, tag=op.tag, **{"group_dst" if op.op is isend else "group_src": op.group_peer}) for op in p2p_op_list]
    return [work for work in works if work is not None]
