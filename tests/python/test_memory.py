"""tede.memory reports what lives, who took it and where."""
import pytest

import tede


def test_what_lives_is_told_by_operator_and_line():
    x = tede.ones(1000)
    x.exp()
    with tede.memory.track() as t:
        kept = x.exp()                 # kept here
        x * 2
    report = t.live()
    block = report.blocks[0]
    assert block.nbytes >= 4000 and block.operator == 'exp' and block.site[2].endswith('# kept here')
    assert list(report.by('operator'))[0] == 'exp' and __file__ in list(report.by('site'))[0]
    assert 'exp' in str(t)
    del kept


def test_the_peak_is_marked():
    x = tede.ones(1000)
    with tede.memory.track() as t:
        y = x * 2
        z = y.sin()
        del y, z
        x + 1
    peak = t.at_peak()
    assert peak.nbytes >= 8000 and {'mul', 'sin'} <= set(peak.by('operator')) and t.live().nbytes == 0


def test_the_sum_is_the_allocators():
    x = tede.randn(64, 64, requires_grad=True)
    (x @ x).sum().backward()
    before = tede.memory.stats()['allocated']
    with tede.memory.track() as t:
        y = (x @ x).exp()
    assert t.live().nbytes == tede.memory.stats()['allocated'] - before
    del y


def test_elements_are_told_from_heads_and_graph_nodes():
    model = tede.nn.Sequential(tede.nn.Linear(64, 256), tede.nn.GELU(), tede.nn.Linear(256, 8))
    with tede.memory.track() as t:
        x = tede.randn(512, 64)
        small, mine = tede.ones(3), tede.tensor([1.] * 5000)         # one made by no operator
        loss = model(x).sum()
    kinds = t.live().by('kind')
    data, heads = kinds['data'], kinds['head']
    assert data[0] >= 4 * (512 * 64 + 2 * 512 * 256 + 5000) and data[1] == 6     # x, small, mine, two results and the loss
    assert heads[0] < 20_000 and heads[1] > 10
    kept = t.live().by('kept')
    assert kept['GeluBackward0'][0] >= 4 * 512 * 256 and kept['LinearBackward0'][1] == 2
    text = str(t)
    assert len(text.split('\n')) < 10 and 'of heads, graph nodes' in text and '(smaller ones)' in text and 'kept by GeluBackward0' in text
    assert 'kept by GeluBackward0' in t.live()._repr_html_()
    assert t.live().nbytes == data[0] + heads[0]
    with tede.memory.track() as t:
        tede.randn(512, 512).t().softmax(1).sort()              # kernels have working memory, which no result has
    assert t.at_peak().by('kind')['head'][0] < 20_000


def test_a_leak_is_found():
    kept = []
    with pytest.raises(AssertionError, match='live on[\\s\\S]*add'), tede.memory.check_leaks():
        kept.append(tede.ones(10) + 1)
    with tede.memory.check_leaks():
        (tede.ones(10) + 1).sum().item()
