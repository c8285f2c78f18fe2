"""torch.distributed.rendezvous: how processes find each other, by the scheme of an URL: a store that they share, their rank and how many they are."""
import os
from datetime import timedelta
from urllib.parse import parse_qs, urlparse, urlunparse

from tede.distributed._stores import FileStore, PrefixStore, TCPStore
from tede.distributed.constants import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]

_rendezvous_handlers = {}


def register_rendezvous_handler(scheme, handler):
    """Let handler(url, **keywords) yield (store, rank, world_size) for URLs of a scheme."""
    if scheme in _rendezvous_handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _rendezvous_handlers[scheme] = handler


def rendezvous(url, rank=-1, world_size=-1, **kwargs):
    """Yields (store, rank, world_size)."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, int):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, int):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    parsed = urlparse(url)
    handler = _rendezvous_handlers.get(parsed.scheme or "env")
    if handler is None:
        raise RuntimeError(f"No rendezvous handler for {parsed.scheme}://")
    if rank != -1 or world_size != -1:
        query = {name: values[0] for name, values in parse_qs(parsed.query).items()}
        for name, value in (("rank", rank), ("world_size", world_size)):
            if value != -1:
                if name in query and parsed.scheme == "env":
                    raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
                query[name] = str(value)
        url = urlunparse(parsed._replace(query="&".join(f"{name}={value}" for name, value in query.items())))
    return handler(url, **kwargs)


def _error(scheme, words):
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {words}")


def _query(parsed):
    return {name: values[0] for name, values in parse_qs(parsed.query).items()}


def _from_query(scheme, query, *names):
    for name in names:
        if name not in query:
            raise _error(scheme, f"{'rank' if name == 'rank' else 'world size'} parameter missing")
        yield int(query[name])


def _file(url, **kwargs):
    parsed = urlparse(url)
    if not parsed.path:
        raise _error("file", "path missing")
    rank, size = _from_query("file", _query(parsed), "rank", "world_size")
    yield FileStore(parsed.path, size), rank, size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _shares_agents_store():
    """Whether the launcher that has started this process serves the store."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)


def _tcp_store(host, port, rank, size, timeout):
    if not 0 <= port < 2 ** 16:
        raise ValueError(f"port must have value from 0 to 65535 but was {port}.")
    if _shares_agents_store():
        attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
        return PrefixStore(f"/worker/attempt_{attempt}", TCPStore(host, port, size, False, timeout))
    return TCPStore(host, port, size, rank == 0, timeout, multi_tenant=True)


def _tcp(url, timeout=default_pg_timeout, **kwargs):
    parsed = urlparse(url)
    if parsed.port is None:
        raise _error("tcp", "port number missing")
    rank, size = _from_query("tcp", _query(parsed), "rank", "world_size")
    yield _tcp_store(parsed.hostname, parsed.port, rank, size, timeout), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _env(url, timeout=default_pg_timeout, **kwargs):
    query = _query(urlparse(url))

    def value(name, variable):
        if name in query:
            return query[name]
        if not os.environ.get(variable):
            raise _error("env", f"environment variable {variable} expected, but not set")
        return os.environ[variable]
    rank, size = int(value("rank", "RANK")), int(value("world_size", "WORLD_SIZE"))
    host, port = value("", "MASTER_ADDR"), int(value("", "MASTER_PORT"))
    yield _tcp_store(host, port, rank, size, timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)), rank, size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("env", _env)
register_rendezvous_handler("file", _file)
