"""What shows itself in a notebook, run without a browser; skipped where there is no nbclient or ipykernel."""
import pytest

nbclient, nbformat = pytest.importorskip('nbclient'), pytest.importorskip('nbformat')
pytest.importorskip('ipykernel')

# The last line of a cell, and what its output has of the kind that a notebook shows.
SETUP = """import tede
model = tede.nn.Sequential(tede.nn.Linear(4, 8), tede.nn.GELU(), tede.nn.Linear(8, 2))
x = tede.randn(3, 4)
with tede.explain(show=False) as explanation:
    model(x).sum().backward()
with tede.memory.track() as memory:
    kept = model(x)
with tede.profiler.profile() as profile:
    model(x)"""
CELLS = [
    ('model', 'text/plain', '(1): GELU'), ('tede.set_printoptions(precision=2)\ntede.tensor([1 / 3])', 'text/plain', 'tensor([0.33])'),
    ('explanation', 'text/html', 'By operator'), ('memory', 'text/html', 'of elements'), ('memory.at_peak()', 'text/plain', 'at the peak'),
    ('profile', 'text/html', 'aten::linear'), ('profile.key_averages()', 'text/html', 'aten::gelu'),
    ('tede.rand(3, 16, 16).show()', 'text/html', 'data:image/png'), ('x.softmax(1).show(picture=True)', 'text/html', 'data:image/png'),
    ('x.t().show()', 'image/svg+xml', '<svg'), ('tede.graph(model(x).sum())', 'image/svg+xml', 'LinearBackward0')]


def test_things_show_themselves():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in [SETUP, *(cell[0] for cell in CELLS)]])
    nbclient.NotebookClient(notebook, timeout=300).execute()
    for cell, (text, kind, part) in zip(notebook.cells[1:], CELLS):
        data = cell.outputs[-1]['data']
        assert part in data.get(kind, "") and ' object at 0x' not in data['text/plain'], (text, data)
