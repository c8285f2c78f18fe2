"""How processes find each other: a URL's scheme says who makes the store, and which rank of how many this process is.

A handler is a generator function of a URL that yields one (store, rank, world size) for each time that the processes come together; those
of this module do that once."""
import numbers
import os
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from tede.distributed._stores import FileStore, PrefixStore, TCPStore
from tede.distributed.constants import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]

_rendezvous_handlers = {}


def register_rendezvous_handler(scheme, handler):
    """Let ``handler(url, **keywords)`` answer URLs of a scheme. A RuntimeError if there is one that does."""
    if scheme in _rendezvous_handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _rendezvous_handlers[scheme] = handler


def rendezvous(url, rank=-1, world_size=-1, **kwargs):
    """An iterator over (store, rank, world size).

    Args:
        url: ``env://``, ``tcp://host:port``, ``file:///path``, or of a scheme that was registered; rank and world_size may be in its query.
        rank, world_size: -1 is what the URL or the environment says; given here and there they are an AssertionError.
    """
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, numbers.Integral):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, numbers.Integral):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    return _rendezvous_helper(url, rank, world_size, **kwargs)


def _rendezvous_helper(url, rank, world_size_opt, **kwargs):
    """The same; a world size of None is one that isn't known, and may stay so."""
    parts = urlsplit(url if isinstance(url, str) else url.decode())
    unknown = world_size_opt is None
    world_size = -1 if unknown else world_size_opt
    if unknown and parts.scheme == "env":
        rank, world_size = int(os.environ.get("RANK", rank)), int(os.environ.get("WORLD_SIZE", world_size))
    if rank != -1 or world_size != -1 or unknown:
        query = dict(parse_qsl(parts.query))
        if "rank" in query or "world_size" in query:
            raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
        if rank != -1:
            query["rank"] = rank
        if world_size != -1 or unknown:
            query["world_size"] = world_size
        parts = parts._replace(query=urlencode(query))
    if parts.scheme not in _rendezvous_handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    return _rendezvous_handlers[parts.scheme](urlunsplit(parts), **kwargs)


def _create_store_from_options(backend_options, rank):
    store, _, _ = next(_rendezvous_helper(backend_options.init_method, rank, None))
    return store


def _error(scheme, what):
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


def _from_query(scheme, query, name, title):
    if name not in query:
        raise _error(scheme, f"{title} parameter missing")
    return int(query[name])


def _from_environment(name):
    value = os.environ.get(name)
    if not value:
        raise _error("env", f"environment variable {name} expected, but not set")
    return value


def _use_libuv(query):
    return query.get("use_libuv", os.environ.get("USE_LIBUV", "1")) == "1"


def _torchelastic_use_agent_store():
    """Whether the launcher serves the store, and no rank does."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _create_c10d_store(hostname, port, rank, world_size, timeout, use_libuv=True):
    """The store at hostname:port, which rank 0 serves unless the launcher does."""
    if not 0 <= port < 1 << 16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    if _torchelastic_use_agent_store():
        store = TCPStore(hostname, port, world_size, False, timeout)
        prefix = os.environ.get("TEDE_STORE_PREFIX")        # the launcher's store is one for all attempts
        return PrefixStore(prefix, store) if prefix else store
    return TCPStore(hostname, port, world_size, rank == 0, timeout, multi_tenant=True, use_libuv=use_libuv)


def _file_rendezvous_handler(url, **kwargs):
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if not parts.path:
        raise _error("file", "path missing")
    rank, world_size = _from_query("file", query, "rank", "rank"), _from_query("file", query, "world_size", "world size")
    yield FileStore(parts.path, world_size), rank, world_size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _tcp_rendezvous_handler(url, timeout: timedelta = default_pg_timeout, **kwargs):
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    if parts.port is None:
        raise _error("tcp", "port number missing")
    rank, world_size = _from_query("tcp", query, "rank", "rank"), _from_query("tcp", query, "world_size", "world size")
    if parts.hostname is None:
        raise AssertionError("hostname cannot be None")
    yield _create_c10d_store(parts.hostname, parts.port, rank, world_size, timeout, _use_libuv(query)), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _env_rendezvous_handler(url, timeout: timedelta = default_pg_timeout, **kwargs):
    query = dict(parse_qsl(urlsplit(url).query))
    rank, world_size = (int(query[name.lower()] if name.lower() in query else _from_environment(name)) for name in ("RANK", "WORLD_SIZE"))
    host, port = _from_environment("MASTER_ADDR"), int(_from_environment("MASTER_PORT"))
    yield _create_c10d_store(host, port, rank, world_size, timeout, _use_libuv(query)), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


register_rendezvous_handler("tcp", _tcp_rendezvous_handler)
register_rendezvous_handler("env", _env_rendezvous_handler)
register_rendezvous_handler("file", _file_rendezvous_handler)
