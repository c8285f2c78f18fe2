"""Every operator answers arguments that it should refuse with an exception of the right type: a sample; `make fuzz-ops` tries
all under AddressSanitizer."""
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_sample_of_operators_refuses_and_none_crashes():
    told = subprocess.run([sys.executable, str(ROOT / 'tools' / 'fuzz_ops.py'), '--sample', '10'], capture_output=True, text=True,
                          timeout=300)
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-2000:]


def test_an_argument_that_nothing_is_known_of_fails_the_generation():
    sys.path.insert(0, str(ROOT))
    from codegen.entries import EntryError, expand
    entry = {'func': 'toy(Tensor self, int wibble) -> Tensor', 'kind': 'composite'}
    with pytest.raises(EntryError, match='nothing is known of what int wibble must be'):
        expand(dict(entry), 'toys')
    assert expand({**entry, 'requires': {'wibble': 'count'}}, 'toys')
    with pytest.raises(EntryError, match='none of the rules'):
        expand({**entry, 'requires': {'wibble': 'odd'}}, 'toys')


def test_operands_on_two_devices_are_refused():
    import tede
    x, there = tede.ones(3, 4), tede.zeros(2, dtype=tede.int64, device='meta')
    for call in (lambda: tede.index_select(x, 0, there), lambda: tede.mm(x, tede.ones(4, 2, device='meta'))):
        with pytest.raises(RuntimeError, match='Expected all tensors to be on the same device'):
            call()
