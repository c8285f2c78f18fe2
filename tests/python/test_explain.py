"""tede.explain() reports what happened: bytes as the allocator counts them, copies where storage changes, kernels by name."""
import gc
import json
import random
import subprocess
import sys

import pytest

import tede
from tede._explain import symbols
from tede._explain.record import TensorRecord

F = tede.nn.functional


def calls(draw):
    """Calls of every kind on operands of every layout, to be drawn from."""
    shape = [draw.randint(1, 5), draw.randint(1, 5)]
    x = tede.randn(shape)
    layouts = [x, x.t().contiguous().t(), tede.randn(shape[0] * 2, shape[1])[::2], x[:, :1].expand(shape), x.double(),
               tede.randn(shape, requires_grad=True)]
    a, b = draw.choice(layouts), draw.choice(layouts)
    return [lambda: a + b, lambda: a * 2, lambda: tede.exp(a), lambda: a.sum(0), lambda: a.t(), lambda: a.reshape(-1),
            lambda: a.contiguous(), lambda: a.to(tede.float64), lambda: a.clone(), lambda: F.softmax(a, 1),
            lambda: tede.cat([a, b.to(a.dtype)]), lambda: a[0], lambda: a[tede.tensor([0])], lambda: a > b, lambda: a.flatten(),
            lambda: tede.matmul(a, a.t()), lambda: a.sort(1), lambda: a.max(), lambda: a.view(-1) if a.is_contiguous() else a.mean(),
            lambda: F.layer_norm(a, (a.shape[1],)), lambda: tede.where(a > 0, a, b.to(a.dtype)), lambda: a.cumsum(1),
            lambda: tede.linalg.inv(a @ a.t() + tede.eye(a.shape[0], dtype=a.dtype)), lambda: tede.zeros(3, 4)]


def test_two_hundred_random_calls_are_told_as_they_were():
    draw = random.Random(5)
    gc.collect()
    gc.disable()                 # what the collector finds meanwhile isn't the call's
    for _ in range(200):
        call = draw.choice(calls(draw))
        call()
        before = tede.memory_stats()
        with tede.explain(show=False) as e:
            result = call()
        after = tede.memory_stats()
        steps = [*e.steps, e._recorder.outside]
        assert sum(s.allocations for s in steps) == after['allocations'] - before['allocations']
        assert sum(s.allocated - s.freed for s in steps) == after['allocated'] - before['allocated']
        assert e.steps and all(s.kernel for s in e.traverse())
        assert all(name and name.endswith('_' + isa) for s in e.traverse() for name, isa in s.loops)
        assert all(bool(s.copied()) == (s.viewed() == [None]) for s in e.traverse() if s.name in ('reshape', 'flatten'))
        del result
    gc.enable()


@pytest.mark.parametrize('name, call, copied', [
    ('reshape', lambda x: x.reshape(-1), 24), ('reshape', lambda x: x.t().reshape(-1), 0), ('flatten', lambda x: x.flatten(), 24)])
def test_a_copy_is_told_where_storage_changes(name, call, copied):
    x = tede.arange(6.).reshape(2, 3).t()
    with tede.explain(show=False) as e:
        y = call(x)
    step = next(s for s in e.steps if s.name == name)
    assert step.copied() == copied
    assert (y.data_ptr() != x.data_ptr()) == bool(copied)


@pytest.mark.parametrize('call', [lambda x: x.contiguous(), lambda x: x.to(tede.float64), lambda x: x.double(), lambda x: x.clone()])
def test_a_copy_that_was_asked_for_is_not_hidden(call):
    x = tede.arange(6.).reshape(2, 3).t()
    with tede.explain(show=False) as e:
        call(x)
    assert e.steps[-1].copied() == 0 and e.steps[-1].copies_as_asked()
    assert 'copied   as asked' in e.text() and 'hidden copy' not in e.text() and 'no hidden copies' in e.summary()
    with tede.explain(show=False) as e:
        x.contiguous().contiguous()         # the second one copies nothing
    assert e.text().count('as asked') == 1


def test_a_step_knows_its_line_keys_kernel_and_iteration():
    x = tede.randn(4, 7, requires_grad=True)
    with tede.explain(show=False) as e:
        x[:, ::2] + 1          # this line
    step = e.steps[-1]
    assert step.overload == 'add.Tensor' and step.site[2].endswith('# this line') and step.site[0] == __file__
    assert step.keys == ['Autograd', 'Dense', 'CPU'] and step.kernel == 'strided_add_tensor'
    assert step.loops[0][0].startswith('add_tensor_f32')
    sizes, strides, operands, before = step.iterations[0]
    assert sizes == (4, 4) and strides[:2] == [(4, 16), (8, 28)] and (operands, before) == (3, 2)
    assert step.results[0].node == 'AddBackward0' and isinstance(step.arguments[0], TensorRecord)


def test_backward_nodes_are_told_with_what_they_release():
    x = tede.randn(3, requires_grad=True)
    y = (x * x).sum()
    with tede.explain(show=False) as e:
        y.backward()
    nodes = [s for s in e.traverse() if s.kind == 'node']
    assert [s.name for s in nodes] == ['SumBackward0', 'MulBackward0', 'AccumulateGrad']
    assert nodes[0].steps and nodes[1].released == 2
    text = e.text()
    assert 'node     on thread MainThread, released 2 saved tensors' in text and 'freed' in text


def test_the_time_of_a_call_is_told_by_stages_and_without_what_watching_took():
    x = tede.randn(400, 300, requires_grad=True)
    with tede.explain(show=False) as e:
        (x.t() + 1).sum()
    add = next(s for s in e.steps if s.name == 'add')
    assert {'own', 'loop'} <= set(add.stages) and 0 < add.duration <= add.ended - add.began
    for step in e.traverse():
        reported = sum(step.stages.values()) + sum(child.duration for child in step.steps)
        assert abs(reported - step.duration) <= 0.2 * step.duration + 20_000


def test_a_time_is_called_what_was_measured():
    x = tede.randn(300, 300, requires_grad=True)
    with tede.explain(show=False) as e:
        tede.randn(100_000)                 # its kernel reports no loop
        F.layer_norm(x, (300,))             # its kernel saves tensors before and after the loop
        (x * x).sum()
    text = e.text(inner=True)
    assert 'dispatch' not in text and 'autograd ' not in ''.join(line for line in text.split('\n') if ' time ' in line)
    assert 'the call itself' in text and 'in loops' in text and 'calls inside' in text
    assert set(next(s for s in e.steps if s.name == 'randn').stages) == {'own'}


def test_only_the_thread_that_asked_is_watched_and_only_while_it_asks():
    import threading
    x = tede.ones(3)
    with tede.explain(show=False) as e:
        other = threading.Thread(target=lambda: x + 1)
        other.start()
        other.join()
        x * 2
    x - 1
    assert [s.name for s in e.steps] == ['mul']


def test_explanations_stand_inside_each_other_and_inside_a_profile():
    x = tede.ones(3)
    with tede.explain(show=False) as outer:
        x + 1
        with tede.explain(show=False) as inner, tede.memory.track() as memory, tede.profiler.profile() as profile:
            kept = x * 2
        x - 1
    assert [s.name for s in outer.steps] == ['add', 'mul', 'sub'] and [s.name for s in inner.steps] == ['mul']
    assert memory.live().nbytes and [e.name for e in profile.events()] == ['aten::mul'] and kept[0] == 2
    x - 1
    assert len(outer.steps) == 3


def test_a_copy_is_told_with_its_reason():
    x, z = tede.ones(4, 3).t(), tede.ones(2, dtype=tede.complex64)
    with tede.explain(show=False) as e:
        x.reshape(-1), x.contiguous(), x.to(tede.float64), z.conj() * z, tede.ones(2, 3, 4).transpose(0, 1).reshape(6, 2, 2)
    text = e.text()
    assert "[3, 4] with strides [1, 3] can't be seen as [12]: dimensions 0 and 1 can't be one, steps along 0 are 1, not 4 x 3" in text
    assert 'contiguous wants strides [4, 1], there were [1, 3]' in text and 'to makes float64 of float32' in text
    assert 'an operand is only marked as conjugated' in text and "can't be seen as [6, 2, 2]: dimensions 0 and 1" in text
    assert '3 hidden copies, ' in e.html() and text.count('as asked') == 2
    result = next(s for s in e.steps if s.name == 'contiguous').results[0]
    assert f'the result lies at {result.data:#x}' in text and 'keys     none, as no argument is a tensor' in text


def test_generators_and_coroutines_are_explained_as_they_run(capsys):
    import asyncio

    @tede.explain
    def squares(x):
        for _ in range(2):
            sent = yield x * x
            if sent is not None:
                x + sent
        return 5

    @tede.explain
    async def later(x):
        return x - 1
    generator = squares(tede.ones(2))
    next(generator)
    tede.ones(7).exp()
    generator.send(tede.ones(2))
    with pytest.raises(StopIteration, match='5'):
        next(generator)
    asyncio.run(later(tede.ones(2)))
    printed = capsys.readouterr().err
    assert printed.count('mul.Tensor(') == 2 and printed.count('add.Tensor(') == 1 and 'exp(' not in printed and 'sub.Tensor(' in printed
    with tede.explain():
        pass
    assert 'no operator was called' in capsys.readouterr().err


def test_a_failing_call_is_told_and_the_watch_ends():
    with pytest.raises(RuntimeError, match='size of tensor'), tede.explain(show=False) as e:
        tede.ones(2) + tede.ones(3)
    assert e.steps[-1].failed
    with tede.explain(show=False):
        tede.ones(2)


def test_text_page_and_trace_tell_the_same_calls(tmp_path, capsys):
    @tede.explain
    def work(x):
        return F.softmax(x.t().reshape(-1), 0)
    work(tede.ones(3, 2))
    text = capsys.readouterr().err
    assert 'softmax.int(float32[6], 0) -> float32[6]' in text and '! hidden copy, 24 B' in text
    with tede.explain(show=False) as e:
        work.__wrapped__(tede.ones(3, 2))
    page = e.html(tmp_path / 'page.html', 'work <1>')
    assert 'hidden copy' in page and 'work &lt;1&gt;' in page and 'http' not in page
    events = json.loads(e.chrome(tmp_path / 'trace.json'))['traceEvents']
    complete = [event for event in events if event['ph'] == 'X']
    assert len(complete) == len(list(e.traverse())) and all(event['dur'] >= 0 for event in complete)


def training(steps):
    tede.manual_seed(0)
    model = tede.nn.Sequential(tede.nn.Linear(8, 16), tede.nn.GELU(), tede.nn.Linear(16, 4))
    optimizer = tede.optim.AdamW(model.parameters())
    x, labels = tede.randn(32, 8), tede.randint(0, 4, (32,))
    for _ in range(steps):
        hidden = model[:2](x)                                     # the first layers
        loss = F.cross_entropy(model[2](hidden.t().reshape(-1).view(16, 32).t()), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def test_a_summary_stands_first_and_is_short():
    training(1)
    with tede.explain(show=False) as e:
        training(2)
    summary = e.summary()
    assert len(summary.split('\n')) < 50 and len(e.text().split('\n')) > 200 and str(e) == summary
    from tede._explain.summary import Summary
    sums = Summary(e.steps, e._recorder.duration)
    every = list(e.traverse())
    assert sum(row.calls for row in sums.operators) == len(every) == sums.calls + sums.inner + sums.nodes
    assert abs(sum(row.nanoseconds for row in sums.operators) - sums.nanoseconds) <= 0.05 * sums.nanoseconds + 50_000
    assert sum(row.nbytes for row in sums.operators) == sums.nbytes == sum(row.nbytes for row in sums.lines)
    assert abs(sum(row.forward + row.backward for row in sums.lines) - sums.nanoseconds) < 10
    # Two of the forward pass, two of the backward pass.
    hidden = next(row for row in sums.copies if 'reshape' in row.what)
    assert hidden.count == 4 and hidden.nbytes == 4 * 4 * 16 * 32 and 'hidden.t().reshape' in hidden.site[2]
    assert f'4x  {4 * 4 * 16 * 32 // 1024} KiB' in summary
    first = next(row for row in sums.lines if row.site and row.site[2].endswith('# the first layers'))
    assert first.calls == 4 and first.forward > 0 and first.backward > 0      # its nodes' time is the line's


def test_few_calls_are_printed_and_of_many_the_summary(capsys):
    with tede.explain():
        tede.ones(2) + 1
    printed = capsys.readouterr().err
    assert 'add.Tensor(' in printed and '2 calls of operators from Python' in printed and 'By operator' not in printed
    with tede.explain():
        training(1)
    printed = capsys.readouterr().err
    assert 'By operator' in printed and '  kernel  ' not in printed and 'explain(details=True)' in printed
    with tede.explain(details=True):
        training(1)
    assert 'By operator' in (printed := capsys.readouterr().err) and '  kernel  ' in printed
    with tede.explain(only='gelu('):
        training(1)
    assert capsys.readouterr().err.count('  kernel  ') == 1


def test_a_page_folds_and_a_notebook_has_a_part_of_it():
    with tede.explain(show=False) as e:
        training(2)
    page = e.html()
    assert page.count('<details') == page.count('</details>') > 100 and '<details open' not in page
    assert 'By operator' in page and page.index('By line') < page.index('<main>') and 'http' not in page
    part = e._repr_html_()
    assert part.count('<details') == part.count('</details>') and '<script' not in part and '<body' not in part and 'By line' in part
    for rule in part[part.index('<style>') + 7:part.index('</style>')].split('}'):
        assert not rule.strip() or rule.strip().startswith(('.tede', '@media')), rule      # a notebook's own page stays as it is


def test_a_script_is_explained_from_the_shell(tmp_path):
    script = tmp_path / 'script.py'
    script.write_text('import sys, tede\nx = tede.ones(2)\nx + float(sys.argv[1])\n')
    run = subprocess.run([sys.executable, '-m', 'tede.explain', str(script), '3'], capture_output=True, text=True)
    assert run.returncode == 0 and 'script.py:2' in run.stderr and 'script.py:3' in run.stderr and 'add.Tensor' in run.stderr, run.stderr
    run = subprocess.run([sys.executable, '-m', 'tede.explain', '--only', 'ones', '--html', tmp_path / 'page.html', str(script), '3'],
                         capture_output=True, text=True)
    assert '\nones(' in run.stderr and '\nadd.Tensor(' not in run.stderr and 'add.Tensor' in (tmp_path / 'page.html').read_text()


def test_the_symbol_table_is_read():
    assert symbols.name_of(tede._C._anchor()) == 'td_watch' and symbols.name_of(0) == ''


def test_strict_views_turns_hidden_copies_into_errors():
    x = tede.arange(6.).reshape(2, 3)
    with tede.strict_views():
        assert x.reshape(3, 2).data_ptr() == x.data_ptr()
        assert x.t().contiguous().reshape(-1).shape == (6,)
        with pytest.raises(RuntimeError, match=r'shape \[3, 2\] and strides \[1, 3\] can.t be viewed as \[6\].*24 bytes'):
            x.t().reshape(-1)
        with pytest.raises(RuntimeError, match='a kernel would copy its operand'):
            F.softmax(x.t(), 1)
        z = tede.ones(2, dtype=tede.complex64).conj()
        assert z.clone().resolve_conj().shape == z.contiguous().shape == (2,)
        with pytest.raises(RuntimeError, match='exp would copy its operand of shape .2., which is only marked as conjugated'):
            z.exp()
    assert x.t().reshape(-1).shape == (6,)


def test_a_listener_that_is_refused_leaves_the_others():
    events = []

    def on_event(*event):
        events.append(event)
    listen = tede._explain.listen
    listen.listen(on_event)
    try:
        with pytest.raises(TypeError):
            listen.listen(3, None)
        assert [one[0] for one in listen._here.all] == [on_event]
        tede.ones(2)
        assert events
    finally:
        listen.unlisten(on_event)
    with pytest.raises(TypeError):
        listen.listen(3)
    assert not listen._here.all
