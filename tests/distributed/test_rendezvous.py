"""env://, tcp:// and file://, and their errors: true of PyTorch, too."""
import concurrent.futures
import socket
import time
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


@pytest.fixture
def launchers():
    """What makes a launcher's handler, all of one run, and what meets with some of them at once."""
    from tede.distributed import HashStore
    from tede.distributed.elastic import rendezvous
    from tede.distributed.elastic.rendezvous import c10d_rendezvous_backend as c10d, dynamic_rendezvous as dynamic
    store, second = HashStore(), timedelta(seconds=1)
    timeout = dynamic.RendezvousTimeout(30 * second, 1 * second)

    def make(least, most):
        backend = c10d.C10dRendezvousBackend(store, "run")
        return dynamic.DynamicRendezvousHandler.from_backend("run", store, backend, least, most, "localhost", timeout, 1, 3)
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        make.begin = lambda handler: threads.submit(handler.next_rendezvous)
        make.meet = lambda *handlers: [met.result(30) for met in [make.begin(handler) for handler in handlers]]
        make.errors = rendezvous
        yield make
        make(1, 1).set_closed()             # so that all end, should a test have failed


def comes_true(what, seconds=20):
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def test_a_launcher_that_vanishes_leaves_the_others_fewer(launchers):
    stays, vanishes = launchers(1, 2), launchers(1, 2)
    assert [m.world_size for m in launchers.meet(stays, vanishes)] == [2, 2]
    vanishes._stop_heartbeats()
    began = time.monotonic()
    alone, = launchers.meet(stays)
    assert alone.rank == 0 and alone.world_size == 1 and time.monotonic() - began > 1
    assert stays.num_nodes_waiting() == 0


def test_a_launcher_beyond_the_most_takes_the_place_of_one_that_vanishes(launchers):
    stays, vanishes, more = (launchers(2, 2) for _ in range(3))
    launchers.meet(stays, vanishes)
    begun = launchers.begin(more)
    assert not comes_true(lambda: begun.done() or stays.num_nodes_waiting(), 3)     # nobody is disturbed
    vanishes._stop_heartbeats()
    assert comes_true(lambda: stays.num_nodes_waiting() == 1)
    met = *launchers.meet(stays), begun.result(30)
    assert sorted(m.rank for m in met) == [0, 1] and [m.world_size for m in met] == [2, 2]
    met[0].store.set("key", "value")
    assert met[1].store.get("key") == b"value"
    assert comes_true(lambda: stays.num_nodes_waiting() == more.num_nodes_waiting() == 0)


def test_a_launcher_beyond_the_most_ends_with_the_run(launchers):
    first, more = launchers(1, 1), launchers(1, 1)
    launchers.meet(first)
    begun = launchers.begin(more)
    assert not comes_true(begun.done, 2)
    assert first.shutdown()
    with pytest.raises(launchers.errors.RendezvousGracefulExitError):
        begun.result(30)
    with pytest.raises(launchers.errors.RendezvousClosedError):
        launchers(1, 1).next_rendezvous()


def test_a_launcher_that_comes_late_is_waited_for_in_the_next_round(launchers):
    first, late = launchers(1, 3), launchers(1, 3)
    assert launchers.meet(first)[0].world_size == 1
    begun = launchers.begin(late)
    assert comes_true(lambda: first.num_nodes_waiting() == 1)
    met = *launchers.meet(first), begun.result(30)
    assert sorted(m.rank for m in met) == [0, 1] and [m.world_size for m in met] == [2, 2]


def test_those_who_wait_beyond_the_most_disturb_nobody(launchers):
    """Two come while there is one place."""
    first, *two = (launchers(1, 2) for _ in range(3))
    launchers.meet(first)
    begun = list(map(launchers.begin, two))
    assert comes_true(lambda: first.num_nodes_waiting() == 2)
    again = launchers.begin(first)
    assert comes_true(lambda: sum(b.done() for b in (*begun, again)) == 2)
    assert comes_true(lambda: first.num_nodes_waiting() == 0)
    assert first.shutdown()
    assert sum(isinstance(b.exception(60), launchers.errors.RendezvousGracefulExitError) for b in (*begun, again)) == 1


def test_a_launcher_that_was_missed_takes_its_place_again(launchers):
    stays, stops = launchers(1, 2), launchers(1, 2)
    launchers.meet(stays, stops)
    stops._stop_heartbeats()
    place = stays._shared
    assert comes_true(lambda: len(place.look().participants) == 1)
    stays.beat()                            # the state forgets it, and it comes before anybody has looked again
    stops.beat()
    assert len(place.look().participants) == 2 and stays.num_nodes_waiting() == stops.num_nodes_waiting() == 0


def test_too_few_launchers_are_an_error(launchers):
    alone = launchers(2, 2)
    alone.settings.timeout.join = timedelta(seconds=1)
    with pytest.raises(launchers.errors.RendezvousTimeoutError):
        alone.next_rendezvous()
