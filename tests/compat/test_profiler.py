"""The profiler's interface: events, sums, tables, traces, schedules."""
import json

import pytest


def work(lib, x):
    with lib.profiler.record_function('part'):
        y = (x * 2).exp()
    (y @ y).sum().backward()


def test_sums_by_name(lib):
    x = lib.ones(8, 8, requires_grad=True)
    with lib.profiler.profile(record_shapes=True, profile_memory=True) as prof:
        work(lib, x)
    sums = {e.key: e for e in prof.key_averages()}
    assert sums['aten::mul'].count >= 1 and sums['aten::exp'].count == 1 and sums['part'].count == 1
    assert sums['part'].cpu_time_total >= sums['aten::exp'].cpu_time_total > 0
    assert sums['aten::exp'].cpu_memory_usage >= 256
    assert any('MulBackward0' in key for key in sums)
    shapes = {str(e.input_shapes) for e in prof.key_averages(group_by_input_shape=True) if e.key == 'aten::exp'}
    assert shapes == {'[[8, 8]]'}


def test_a_table_has_a_row_per_name_and_is_sorted(lib):
    with lib.profiler.profile() as prof:
        work(lib, lib.ones(8, 8, requires_grad=True))
    table = prof.key_averages().table(sort_by='self_cpu_time_total', row_limit=3)
    assert 'Self CPU %' in table and '# of Calls' in table and 'Self CPU time total:' in table
    assert sum('aten::' in line or 'part' in line or 'autograd::' in line for line in table.split('\n')) <= 3


def test_a_trace_is_written(lib, tmp_path):
    with lib.profiler.profile() as prof:
        work(lib, lib.ones(3, 3, requires_grad=True))
    prof.export_chrome_trace(str(tmp_path / 'trace.json'))
    names = {e['name'] for e in json.loads((tmp_path / 'trace.json').read_text())['traceEvents'] if e.get('ph') == 'X'}
    assert {'aten::exp', 'part'} <= names


def test_a_schedule_says_what_each_step_does(lib):
    action = lib.profiler.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    assert [action(i).name for i in range(7)] == ['NONE', 'NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE', 'NONE']
    with pytest.raises(AssertionError):
        lib.profiler.schedule(wait=0, warmup=0, active=0)
    ready = []
    with lib.profiler.profile(schedule=action, on_trace_ready=lambda p: ready.append(len(p.events()))) as prof:
        for _ in range(7):
            lib.ones(2) + 1
            prof.step()
    assert len(ready) == 1 and ready[0] > 0


def test_a_decorated_function_is_recorded(lib):
    @lib.profiler.record_function('whole')
    def double(x):
        return x * 2
    with lib.profiler.profile() as prof:
        double(lib.ones(2))
    assert [e.count for e in prof.key_averages() if e.key == 'whole'] == [1]


def test_the_older_entry(lib):
    with lib.autograd.profiler.profile() as prof:
        lib.ones(2) + 1
    assert any(e.key == 'aten::add' for e in prof.key_averages())


def test_a_sum_of_calls_takes_at_least_what_they_took_themselves(lib):
    x = lib.randn(33, 64, requires_grad=True)
    with lib.profiler.profile(record_shapes=True) as prof:
        x.sum().backward()
        x.reshape(-1).sum(0)
    for by_shape in (False, True):
        for event in prof.key_averages(group_by_input_shape=by_shape):
            assert event.self_cpu_time_total <= event.cpu_time_total + 1e-6, event
