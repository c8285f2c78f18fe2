"""env://, tcp:// and file://, and their errors: true of PyTorch, too."""
import concurrent.futures
import socket
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from itertools import count

import pytest

LIBRARIES = [name for name in ("tede", "torch") if find_spec(name)]
MODULES = [import_module(f"{library}.distributed.rendezvous") for library in LIBRARIES]      # the packages have the function of that name
scheme = (f"mine{i}" for i in count())


@pytest.fixture(params=MODULES, ids=LIBRARIES)
def module(request):
    return request.param


def free_port():
    with socket.socket() as s:
        s.bind(("localhost", 0))
        return s.getsockname()[1]


@pytest.mark.parametrize(("url", "error", "words"), [
    ("invalid://", RuntimeError, "^No rendezvous handler for invalid://"),
    ("file://?rank=0&world_size=1", ValueError, "path missing"),
    ("file:///foo?world_size=1", ValueError, "rank parameter missing"),
    ("file:///foo?rank=0", ValueError, "size parameter missing"),
    ("tcp://127.0.0.1?rank=0&world_size=1", ValueError, "port number missing"),
    ("tcp://127.0.0.1:1?world_size=1", ValueError, "rank parameter missing"),
    ("tcp://127.0.0.1:1?rank=0", ValueError, "size parameter missing"),
    ("env://?rank=0&world_size=1", ValueError, "environment variable MASTER_ADDR expected, but not set"),
])
def test_a_url_that_lacks_something_is_an_error(module, url, error, words, monkeypatch):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(error, match=words):
        next(module.rendezvous(url))


def test_arguments_that_contradict_or_are_of_other_types(module):
    with pytest.raises(AssertionError, match="has node-specific arguments"):
        module.rendezvous("file:///foo?rank=12&world_size=16", 12, 16)
    for arguments in ((1,), ("file:///f", "0"), ("file:///f", 0, 1.5)):
        with pytest.raises(RuntimeError, match="must be a"):
            module.rendezvous(*arguments)


def test_env(module, monkeypatch):
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}.items():
        monkeypatch.setenv(name, str(value))
    store, rank, size = next(module.rendezvous("env://"))
    store.set("k", "v")
    assert (rank, size, store.get("k")) == (0, 1, b"v")


def test_tcp_and_its_timeout(module):
    found = module.rendezvous(f"tcp://localhost:{free_port()}", 0, 1, timeout=timedelta(seconds=10))
    store, rank, size = next(found)
    assert (rank, size, store.timeout) == (0, 1, timedelta(seconds=10))
    with pytest.raises(RuntimeError, match="Unable to perform re-rendezvous"):
        next(found)


def test_file(module, tmp_path):
    stores = [next(module.rendezvous(f"file://{tmp_path}/f?world_size=2&rank={i}"))[0] for i in range(2)]
    stores[0].set("k", "v")
    assert stores[1].get("k") == b"v"


def test_a_scheme_of_ones_own(module):
    name = next(scheme)
    module.register_rendezvous_handler(name, lambda url, **kwargs: iter([(None, url, kwargs)]))
    assert next(module.rendezvous(f"{name}://x", 2, 3, a=1)) == (None, f"{name}://x?rank=2&world_size=3", {"a": 1})
    with pytest.raises(RuntimeError, match="already registered"):
        module.register_rendezvous_handler(name, None)


@pytest.mark.parametrize("library", LIBRARIES)
def test_launchers_change_a_state_that_they_have_seen(library, tmp_path):
    D, place = import_module(f"{library}.distributed"), import_module(f"{library}.distributed.elastic.rendezvous.c10d_rendezvous_backend")
    errors = import_module(f"{library}.distributed.elastic.rendezvous")
    for store in D.HashStore(), D.FileStore(str(tmp_path / "store")):
        backend = place.C10dRendezvousBackend(store, "run")
        assert backend.get_state() is None
        state, first, mine = backend.set_state(b"one")
        assert (state, mine) == (b"one", True) and backend.get_state() == (b"one", first)
        state, second, mine = backend.set_state(b"two", first)
        assert (state, mine) == (b"two", True) and second != first
        for token in None, first, "no token":
            assert backend.set_state(b"three", token) == (b"two", second, False)
        store.set("torch.rendezvous.run", "non_base64")
        with pytest.raises(errors.RendezvousStateError):
            backend.get_state()


@pytest.mark.parametrize("library", LIBRARIES)
def test_launchers_meet_by_any_backend(library):
    D, elastic = (import_module(f"{library}.distributed{name}") for name in ("", ".elastic.rendezvous"))
    place = import_module(f"{library}.distributed.elastic.rendezvous.dynamic_rendezvous")
    store, state = D.HashStore(), []

    class InMemory:
        name = "memory"

        def get_state(self):
            return (state[-1], len(state)) if state else None

        def set_state(self, new, token=None):
            if (token or 0) == len(state):
                state.append(new)
            return state[-1], len(state), state[-1] == new
    second = timedelta(seconds=1)
    handlers = [place.DynamicRendezvousHandler.from_backend("run", store, InMemory(), 2, 2, timeout=place.RendezvousTimeout(30 * second)) for _ in range(2)]
    assert handlers[0].settings.min_nodes == handlers[0].settings.max_nodes == 2 and handlers[0].get_backend() == "memory"
    with concurrent.futures.ThreadPoolExecutor(2) as threads:
        met = list(threads.map(lambda handler: handler.next_rendezvous(), handlers))
    assert sorted(m.rank for m in met) == [0, 1] and [m.world_size for m in met] == [2, 2]
    met[0].store.set("key", "value")
    assert met[1].store.get("key") == b"value" and met[1].store.underlying_store is store
    assert all(handler.shutdown() for handler in handlers)
    for least, most, message in (0, 2, "minimum number of nodes .0. must be greater than zero"), (3, 2, "maximum number of nodes .2. must be greater than or equal"):
        with pytest.raises(ValueError, match=message):
            place.DynamicRendezvousHandler.from_backend("run", store, InMemory(), least, most)
    with pytest.raises(ValueError, match="join timeout .0:00:00. must be positive"):
        place.RendezvousTimeout(0 * second)
    late = place.DynamicRendezvousHandler.from_backend("run", store, InMemory(), 2, 2)
    with pytest.raises(elastic.RendezvousClosedError):
        late.next_rendezvous()
