"""x.show() and tede.graph() draw what is there."""
import pathlib
import re
import shutil
import subprocess
import xml.etree.ElementTree as xml

import pytest

import tede


def test_cells_are_where_strides_say():
    base = tede.arange(12.)
    x = base.view(3, 4)[::2, 1:].t()
    view = x.show()
    assert view.cells == {x.storage_offset() + i * x.stride(0) + j * x.stride(1): [(i, j)] for i in range(3) for j in range(2)}
    text = str(view)
    assert 'strides [1, 8], offset 1' in text and '12 elements' in text and 'a view' in text and '2,1' in text
    assert view.users == 2


@pytest.mark.parametrize('make', [
    lambda: tede.tensor(3), lambda: tede.zeros(0, 4), lambda: tede.ones(3)[::-1], lambda: tede.ones(2, 1).expand(2, 3),
    lambda: tede.arange(5).unfold(0, 3, 1), lambda: tede.tensor([True, False]), lambda: tede.ones(2, dtype=tede.complex64),
    lambda: tede.empty(2, device='meta'), lambda: tede.ones(40, 50)])
def test_every_layout_is_drawn(make, tmp_path):
    view = make().show()
    xml.fromstring(view.svg())
    assert str(view) and '<script>' in view.html(tmp_path / 'page.html')


def test_cells_with_several_elements_are_told():
    assert tede.ones(1).expand(3).show().cells == {0: [(0,), (1,), (2,)]}
    assert '0 +2' in str(tede.ones(1).expand(3).show())


def test_of_a_large_storage_the_cells_about_the_tensor_are_drawn(tmp_path):
    base = tede.arange(1_000_000.).reshape(1000, 1000)
    view = base.t()[5:, 900:]
    shown = view.show()
    assert shown.cells[900_005] == [(0, 0)] and shown.cells[900_007] == [(2, 0)] and 900_000 not in shown.cells
    text = str(shown)
    assert '... 900000 cells before' in text and '2,0' in text and len(text.splitlines()) < 60
    assert f'first element at {view.data_ptr():#x}' in text and 'base [1000, 1000] among them' in text
    assert 'cells 900000 to 900511' in shown.svg() and '"first": 900000' in shown.html()
    backwards = base.flatten()[::-1]
    assert backwards[:3].show().cells == {999_999: [(0,)], 999_998: [(1,)], 999_997: [(2,)]}


def test_an_unusual_tensor_says_what_it_is():
    assert str(tede.eye(3).to_sparse().show()).startswith('the values of a tensor of shape [3, 3] and layout sparse_coo')
    assert 'it has no memory' in str(tede.empty(2, device='meta').show())
    assert '1+2j' in str(tede.tensor([1 + 2j]).show())
    assert tede.arange(3).expand(2, 3).show().cells == {c: [(0, c), (1, c)] for c in range(3)}


@pytest.mark.skipif(not any(map(shutil.which, ('chromium', 'google-chrome', 'chromium-browser'))), reason='no browser is installed')
def test_the_page_runs_in_a_browser(tmp_path):
    browser = next(filter(None, map(shutil.which, ('chromium', 'google-chrome', 'chromium-browser'))))
    tede.arange(6.).view(2, 3).t().show().html(tmp_path / 'page.html')
    run = subprocess.run([browser, '--headless', '--no-sandbox', '--disable-gpu', '--dump-dom', f'file://{tmp_path}/page.html'],
                         capture_output=True, text=True, timeout=120)
    cells = run.stdout.count('class="cell used')
    assert cells == 6 and run.stdout.count('class="element used') == 6, run.stderr[-500:]


def test_a_graph_has_nodes_edges_saved_tensors_and_names(tmp_path):
    model = tede.nn.Linear(3, 2)
    x = tede.ones(4, 3)
    loss = (model(x).tanh() ** 2).mean()
    g = tede.graph(loss, params=model.named_parameters())
    names = [n.name() for n in g.nodes]
    assert names[0] == 'MeanBackward0' and 'TanhBackward0' in names and any('AccumulateGrad' in n for n in names)
    labels = [line for i in range(len(g.nodes)) for line in g.label(i)]
    assert 'weight' in labels and 'bias' in labels and any(line.startswith('keeps float32[4, 2], 32 bytes') for line in labels)
    assert {(a, b) for a, b, _ in g.edges} >= {(0, 1)}
    xml.fromstring(g.svg(tmp_path / 'g.svg'))
    assert (tmp_path / 'g.svg').exists() and g.dot().count('->') == len(g.edges)
    lines = str(g).splitlines()
    assert 'saved tensors' in lines[0] and lines[1].split() == ['0', 'MeanBackward0'] and lines[-1].split()[1] == 'bias;'


def test_no_edge_of_a_graph_runs_through_a_box():
    first = tede.nn.Sequential(tede.nn.Linear(4, 4), tede.nn.ReLU())
    x = tede.randn(3, 4, requires_grad=True)
    y = first(x)
    z = first(y) + x
    g = tede.graph((z * y + x).sum() + y.mean())             # edges that pass several layers
    drawn = xml.fromstring(g.svg())
    space = '{http://www.w3.org/2000/svg}'
    boxes = [[float(box.get(key)) for key in ('x', 'y', 'width', 'height')] for box in drawn.iter(f'{space}rect')]
    paths = [path.get('d') for path in drawn.iter(f'{space}path') if path.get('marker-end')]
    assert len(paths) == len(g.edges) and len(boxes) == len(g.nodes)
    for path in paths:
        points, at = [], None
        for command, numbers in re.findall(r'([MVC])([-\d. ]+)', path):
            n = [float(number) for number in numbers.split()]
            if command == 'M':
                at = (n[0], n[1])
            elif command == 'V':
                points += [(at[0], at[1] + (n[0] - at[1]) * k / 20) for k in range(21)]
                at = (at[0], n[0])
            else:
                (x0, y0), (x1, y1, x2, y2, x3, y3) = at, n
                for k in range(21):
                    t = k / 20
                    a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3
                    points.append((a * x0 + b * x1 + c * x2 + d * x3, a * y0 + b * y1 + c * y2 + d * y3))
                at = (x3, y3)
        inside = [(x, y) for x, y in points for left, top, width, height in boxes
                  if left + 1 < x < left + width - 1 and top + 1 < y < top + height - 1]
        assert not inside


def test_a_graph_counts_hooks():
    x = tede.ones(2, requires_grad=True)
    y = x * 2
    x.register_hook(lambda g: g)
    x.register_post_accumulate_grad_hook(lambda x: None)
    y.register_hook(lambda g: g).remove()
    y.grad_fn.register_prehook(lambda g: None)
    g = tede.graph(y)
    assert [(n.name().rsplit('::')[-1], g.hooks(i)) for i, n in enumerate(g.nodes)] == [('MulBackward0', 1), ('AccumulateGrad', 2)]
    assert g.label(0)[-1] == '1 hook' and g.label(1)[-1] == '2 hooks' and '2 hooks' in g.svg() and '1 hook' in g.dot()


def test_a_graph_of_nothing_is_an_error():
    with pytest.raises(RuntimeError, match='require a gradient'):
        tede.graph(tede.ones(2))


def test_pages_need_nothing_from_the_net(tmp_path):
    page = tede.ones(2).show().html(tmp_path / 'p.html')
    assert 'http' not in page and pathlib.Path(tmp_path / 'p.html').read_text() == page


def test_pictures_are_shown_as_pixels(tmp_path):
    import zlib
    image = (tede.arange(3 * 16 * 16).reshape(3, 16, 16) % 256).to(tede.uint8)
    shown = image.show()
    data = shown.png(tmp_path / 'image.png')
    assert (tmp_path / 'image.png').read_bytes() == data and data[1:4] == b'PNG' and data[16:24] == b'\0\0\0\x10\0\0\0\x10'
    start = data.index(b'IDAT') + 4
    rows = zlib.decompress(data[start:data.index(b'IEND') - 8])
    assert rows[:7] == bytes([0, *image[:, 0, 0].tolist(), *image[:, 0, 1].tolist()]) and len(rows) == 16 * (1 + 3 * 16)
    assert 'data:image/png;base64,' in shown._repr_html_() and str(shown).startswith('uint8[3, 16, 16]')
    assert '\033[48;2;' in shown.text(colours=True)
    floats = tede.rand(1, 8, 9)
    assert 'float32[1, 8, 9]' in str(floats.show()) and 'storage' in str((floats * 3).show()) and 'storage' in str(floats.show(picture=False))


def test_a_matrix_is_drawn_from_its_least_to_its_largest():
    attention = tede.eye(4)
    assert str(attention.show(picture=True)) == 'float32[4, 4], black 0, white 1\n==\n  =='
    assert str(attention.mul(-20).show(picture=True)).startswith('float32[4, 4], black -20, white 0\n')
    assert 'storage' in str(attention.show())
    with pytest.raises(ValueError, match=r'a picture has shape \(H, W\)'):
        tede.ones(2, 2, 2, 2).show(picture=True)
