"""Free ports, and a store that serves at one."""
import datetime
import os
from contextlib import closing

from tede.distributed.elastic.utils.api import get_socket_with_port as _socket

__all__ = ["create_c10d_store", "get_free_port", "get_socket_with_port"]


def get_socket_with_port():
    return _socket()


def get_free_port():
    with closing(get_socket_with_port()) as s:
        return s.getsockname()[1]


def create_c10d_store(is_server, server_addr, server_port=-1, world_size=1, timeout=60 * 10, wait_for_workers=True, retries=3, use_libuv=None):
    """A TCPStore. A server without a port takes a free one."""
    from tede.distributed import TCPStore
    if server_port == -1 and world_size > 1:
        raise ValueError(f"server_port must be specified when world_size > 1, got server_port={server_port}, world_size={world_size}")
    use_libuv = os.environ.get("USE_LIBUV", "1") == "1" if use_libuv is None else use_libuv
    return TCPStore(server_addr, max(server_port, 0), world_size, is_server, datetime.timedelta(seconds=timeout), wait_for_workers=wait_for_workers,
                    use_libuv=use_libuv)
