"""Variables, ports, and the macros of arguments."""
import os
import socket
from string import Template

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


def get_env_variable_or_raise(env_name):
    value = os.environ.get(env_name)
    if value is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return value


def get_socket_with_port():
    """A socket that listens at a free port of this host."""
    for family, kind, protocol, _, _ in socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM):
        s = None
        try:
            s = socket.socket(family, kind, protocol)
            s.bind(("localhost", 0))
            s.listen(0)
            return s
        except OSError:
            if s is not None:
                s.close()
    raise RuntimeError("Failed to create a socket")


class macros:
    """Texts in a command's arguments that stand for what each process has of its own."""
    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args, local_rank):
        return [Template(arg).safe_substitute(local_rank=local_rank) if isinstance(arg, str) else arg for arg in args]
