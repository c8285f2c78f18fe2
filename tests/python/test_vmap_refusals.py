"""What refuses a member refuses a batch of members: every public function, with tensors of ones in a few shapes."""
import inspect
import itertools
import json
import subprocess
import sys

import pytest
import tede

SHAPES = (3,), (1, 3), (3, 3), ()
SPACES = {"tede": tede, "linalg": tede.linalg, "functional": tede.nn.functional, "fft": tede.fft, "special": tede.special, "Tensor": tede.Tensor}
OTHERS = {"save", "load", "seed", "manual_seed", "initial_seed", "set_rng_state", "compile", "backward", "share_memory_"}


def functions(space):
    for name in sorted(dir(space)):
        f = getattr(space, name)
        random = "rand" in name or "dropout" in name
        if not (name.startswith("_") or name in OTHERS or random or not callable(f) or inspect.isclass(f)):
            yield name, f


def accepted_and_refused(space):
    accepted, refused = [], 0
    for name, f in functions(SPACES[space]):
        for shapes in itertools.chain(*(itertools.product(SHAPES, repeat=k) for k in (1, 2))):
            try:
                f(*(tede.ones(s) for s in shapes))
                continue
            except Exception:
                refused += 1
            try:
                tede.vmap(f)(*(tede.ones(2, *s) for s in shapes))
                accepted.append((name, shapes))
            except Exception:
                pass
    return accepted, refused


@pytest.mark.parametrize("space", SPACES)
def test_a_batch_is_refused_where_its_members_are(space):
    """In a process apart: some of the functions are switches."""
    done = subprocess.run([sys.executable, "-W", "ignore", __file__, space], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    accepted, refused = json.loads(done.stdout.splitlines()[-1])
    assert not accepted and refused > 10


if __name__ == "__main__":
    print("\n" + json.dumps(accepted_and_refused(sys.argv[1])))
