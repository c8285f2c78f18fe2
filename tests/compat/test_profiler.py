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


def test_calls_and_their_nodes_have_the_same_number(lib):
    x = lib.ones(3, requires_grad=True)
    with lib.profiler.profile() as prof:
        (x + 1).sum().backward()
    numbers = {}
    for e in prof.events():
        numbers.setdefault(e.name, []).append((e.sequence_nr, e.fwd_thread, e.thread))
    for call, node in (('aten::add', 'AddBackward0'), ('aten::sum', 'SumBackward0')):
        number, forward, thread = numbers[call][0]
        assert number >= 0 and forward == 0
        assert [n[:2] for n in numbers[node]] == [n[:2] for n in numbers[f'autograd::engine::evaluate_function: {node}']] == [(number, thread)]
    assert numbers['torch::autograd::AccumulateGrad'][0][0] == -1
    assert all(e[0] == -1 for e in numbers['aten::ones_like'])


def test_steps_and_batches_are_named_in_a_profile(lib):
    data, = lib.utils.data.DataLoader([lib.ones(2)]),
    w = lib.ones(2, requires_grad=True)
    for kind in (lib.optim.SGD, type('Mine', (lib.optim.SGD,), {})):
        optimizer = kind([w], lr=0.1)
        with lib.profiler.profile() as prof:
            for x in data:
                optimizer.zero_grad()
                (w * x).sum().backward()
                optimizer.step()
        names = [e.name for e in prof.events() if '#' in e.name]
        assert names.count(f'Optimizer.step#{kind.__name__}.step') == names.count(f'Optimizer.zero_grad#{kind.__name__}.zero_grad') == 1
        assert names.count('enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__') == 2


def test_a_trace_says_what_calls_were_given(lib, tmp_path):
    x = lib.randn(16, 16)
    with lib.profiler.profile(record_shapes=True) as prof:
        lib.add(x, x.t())
        x.as_strided([4, 3], [1, 4])
        prof.add_metadata('who', 'me')
        prof.add_metadata_json('what', '[1, 2]')
    *_, e = (e for e in prof.events() if e.name == 'aten::as_strided')
    assert e.input_shapes[0] == [16, 16] and e.concrete_inputs[1:3] == [[4, 3], [1, 4]]
    prof.export_chrome_trace(str(tmp_path / 'trace.json'))
    trace = json.loads((tmp_path / 'trace.json').read_text())
    assert trace['who'] == 'me' and trace['what'] == [1, 2] and trace['record_shapes'] == 1
    call, = (e for e in trace['traceEvents'] if e['name'] == 'aten::add' and e['ph'] == 'X')
    assert call['args']['Input Strides'] == [[16, 1], [1, 16], []] and call['args']['Input type'] == ['float', 'float', 'Scalar']
    assert [e['name'] for e in trace['traceEvents'][-2:]] == ['Iteration Start: PyTorch Profiler', 'Record Window End']
    whole, = (e for e in trace['traceEvents'] if e['name'] == 'PyTorch Profiler (0)')
    assert all(whole['ts'] <= e['ts'] and e['ts'] + e['dur'] <= trace['traceEvents'][-1]['ts'] for e in trace['traceEvents'] if e['ph'] == 'X')


def test_memory_that_no_call_took_is_an_event_of_its_own(lib, tmp_path):
    with lib.profiler.profile(profile_memory=True) as prof:
        x = lib.ones(1000)
        with lib.profiler.record_function('inside'):
            y = lib.ones(10)
            del y
        del x
    sums = {e.key: e.cpu_memory_usage for e in prof.key_averages()}
    assert sums['[memory]'] <= -4000 and sums['aten::ones'] >= 4040 and sums['inside'] == 0
    prof.export_chrome_trace(str(tmp_path / 'trace.json'))
    moves = [e['args'] for e in json.loads((tmp_path / 'trace.json').read_text())['traceEvents'] if e['name'] == '[memory]']
    assert {'Addr', 'Bytes', 'Device Id', 'Device Type', 'Total Allocated'} <= set(moves[0])
    assert any(e['Bytes'] >= 4000 for e in moves) and any(e['Bytes'] <= -4000 for e in moves)


def test_python_functions_are_in_the_trace_with_stacks(lib, nn, tmp_path):
    class Mine(nn.Module):
        def forward(self, x):
            return helper(x)

    def helper(x):
        return x + 1
    mine = Mine()
    with lib.profiler.profile(with_stack=True) as prof:
        mine(lib.ones(2))
    prof.export_chrome_trace(str(tmp_path / 'trace.json.gz'))
    import gzip
    calls = [e for e in json.loads(gzip.open(tmp_path / 'trace.json.gz').read())['traceEvents'] if e.get('cat') == 'python_function']
    module, = (e for e in calls if e['name'] == 'nn.Module: Mine_0')
    inner, = (e for e in calls if e['name'].endswith(': helper'))
    forward, = (e for e in calls if e['name'].endswith(': forward') and 'test_profiler' in e['name'])
    assert inner['args']['Python parent id'] == forward['args']['Python id']
    assert module['ts'] <= forward['ts'] <= inner['ts'] and inner['ts'] + inner['dur'] <= module['ts'] + module['dur']


def test_cycles_of_a_schedule_may_be_kept(lib):
    for keep, count in ((False, 2), (True, 6)):
        with lib.profiler.profile(schedule=lib.profiler.schedule(wait=0, warmup=1, active=2, repeat=3), acc_events=keep) as prof:
            for _ in range(12):
                lib.add(lib.ones(1), 1)
                prof.step()
        sums = {e.key: e for e in prof.key_averages()}
        assert sums['aten::add'].count == count
        assert sums['ProfilerStep*'].count == count


def test_events_are_made_and_nested_by_their_times(lib):
    kinds = lib.autograd.profiler_util
    events = kinds.EventList([kinds.FunctionEvent(id=i, node_id=0, name='f', thread=0, start_us=a, end_us=b)
                              for i, (a, b) in enumerate([(0, 10), (2, 4), (3, 4), (5, 9)])])
    events._populate_cpu_children()
    assert [[c.id for c in e.cpu_children] for e in events] == [[1, 3], [2], [], []]
    assert events[0].self_cpu_time_total == 4 and events[0].time_range.elapsed_us() == 10
    total = kinds.FunctionEventAvg()
    total.add(kinds.FunctionEvent(id=0, name='f', thread=0, start_us=10, end_us=15))
    total.add(kinds.FunctionEvent(id=1, name='f', thread=0, start_us=20, end_us=30))
    total.add(total)
    assert (total.key, total.count, total.cpu_time_total, total.cpu_time) == ('f', 4, 30, 7.5)


def test_products_have_their_flops(lib):
    with lib.profiler.profile(with_flops=True, record_shapes=True) as prof:
        lib.mm(lib.ones(3, 4), lib.ones(4, 5))
    assert {e.key: e.flops for e in prof.key_averages()}['aten::mm'] == 120
    assert 'Total FLOPs' in prof.key_averages().table()


def test_operands_of_a_named_part(lib):
    enter = lib.autograd._record_function_with_args_enter
    x = lib.ones(3, 4)
    with lib.profiler.profile(record_shapes=True) as prof:
        lib.autograd._record_function_with_args_exit(enter('operands', 1, [x], x))
        with lib.profiler.record_function('text', 'of it'):
            pass
    shapes = {e.name: e.input_shapes for e in prof.events()}
    assert shapes['operands'] == [[], [], [3, 4]] and shapes['text'] == [[]]


def test_steps_are_counted_by_parties(lib):
    tracker = lib.autograd.profiler.KinetoStepTracker
    first = tracker.current_step()
    for party in ('a', 'a', 'b'):
        tracker.increment_step(party)
    assert tracker.current_step() - first in (2, 3)         # PyTorch lets a new party begin at zero
    assert tracker.erase_step_count('a') and tracker.erase_step_count('b') and not tracker.erase_step_count('a')


def test_whether_anything_records_is_known(lib):
    enabled = []
    for kind in (lib.profiler.profile, lib.autograd.profiler.profile):
        enabled.append(lib.autograd.profiler._is_profiler_enabled)
        with kind():
            enabled.append(lib.autograd.profiler._is_profiler_enabled)
    assert enabled == [False, True, False, True] and not lib.autograd.profiler._is_profiler_enabled


def test_times_and_sizes_as_text(lib):
    import importlib
    util = importlib.import_module(lib.__name__ + ".autograd.profiler_util")
    assert [util._format_time(t) for t in (0, 12.3456, 1000, 123456.7, 3.5e9)] == ["0.000us", "12.346us", "1.000ms", "123.457ms", "3500.000s"]
    assert [util._format_memory(n) for n in (0, -1023, 1024, 5e6, -2 ** 31)] == ["0 B", "-1023 B", "1.00 KB", "4.77 MB", "-2.00 GB"]


def traced(path):
    nodes = json.loads(path.read_text())['nodes']
    assert sum(node['name'] == '[pytorch|profiler|execution_trace|process]' and node['id'] == 1 for node in nodes) == 1
    return nodes


def test_an_execution_trace_has_calls_and_their_operands(lib, tmp_path):
    path = tmp_path / 'alone.json'
    observer = lib.profiler.ExecutionTraceObserver().register_callback(str(path))
    x = lib.ones(2, 3)
    with lib.profiler.record_function('before'):
        x * 2
    observer.start()
    with lib.profiler.record_function('within'):
        y = x.t() @ x
        y.add(float('inf'))
    observer.stop()
    x * 3
    assert observer.get_output_file_path() == str(path)
    observer.unregister_callback()
    nodes = traced(path)
    names = [node['name'] for node in nodes]
    assert 'within' in names and 'before' not in names and 'aten::mul' not in names
    product = next(node for node in nodes if node['name'] in ('aten::mm', 'aten::matmul'))
    by_id = {node['id']: node for node in nodes}
    parent = product
    while parent['name'] != 'within' and parent['id'] > 1:
        parent = by_id[parent['ctrl_deps']]
    assert parent['name'] == 'within'
    left, right = product['inputs']['values'][:2]
    assert left[1] == right[1] and left[3:] == [6, 4, 'cpu'] and product['inputs']['shapes'][:2] == [[3, 2], [2, 3]]
    assert product['outputs']['shapes'][0] == [3, 3] and {'rf_id', 'tid', 'seq_id'} <= {a['name'] for a in product['attrs']}


def test_an_execution_trace_of_a_profile_names_calls_by_its_numbers(lib, tmp_path):
    path, trace = tmp_path / 'calls.json', tmp_path / 'trace.json'
    schedule = lib.profiler.schedule(skip_first=1, wait=1, warmup=0, active=2, repeat=1)
    observer = lib.profiler.ExecutionTraceObserver().register_callback(str(path))
    with lib.profiler.profile(activities=[lib.profiler.ProfilerActivity.CPU], schedule=schedule, execution_trace_observer=observer) as prof:
        for i in range(5):
            with lib.profiler.record_function(f'step {i}'):
                lib.ones(2).add(1)
            prof.step()
    prof.export_chrome_trace(str(trace))
    nodes = traced(path)
    assert [node['name'] for node in nodes if node['name'].startswith('step')] == ['step 2', 'step 3']
    ids = [a['value'] for node in nodes for a in node['attrs'] if a['name'] == 'rf_id' and 'execution_trace' not in node['name']]
    events = [e for e in json.loads(trace.read_text())['traceEvents'] if e.get('cat') in ('cpu_op', 'user_annotation')]
    assert sorted(ids) == sorted(e['args']['Record function id'] for e in events)
    assert all('Input Dims' not in e['args'] for e in events)


def test_an_execution_trace_of_nothing(lib, tmp_path):
    path = tmp_path / 'nothing.json'
    observer = lib.profiler.ExecutionTraceObserver().register_callback(str(path))
    observer.unregister_callback()
    assert len(traced(path)) <= 2 and observer.get_output_file_path() == str(path)


def test_a_factory_s_memory_is_said_not_to_be_pinned(lib, tmp_path):
    with lib.profiler.profile(record_shapes=True) as prof:
        lib.ones(64, 32, dtype=lib.float32)
    prof.export_chrome_trace(str(tmp_path / 'trace.json'))
    events = json.loads((tmp_path / 'trace.json').read_text())['traceEvents']
    args = next(e['args'] for e in events if e['name'] == 'aten::ones')
    assert args['Input type'] == ['ScalarList', 'Scalar', '', '', 'Scalar']
    assert args['Concrete Inputs'] == ['[64, 32]', '6', '', '', 'False']


def test_steps_don_t_cut_through_python_s_functions(lib, tmp_path):
    def train(prof):
        lib.randn(100)
        prof.step()
    config = lib._C._profiler._ExperimentalConfig(adjust_profiler_step=True)
    with lib.profiler.profile(with_stack=True, schedule=lib.profiler.schedule(wait=0, warmup=0, active=4, repeat=1), experimental_config=config) as prof:
        for _ in range(4):
            train(prof)
    prof.export_chrome_trace(str(tmp_path / 'trace.json'))
    events = json.loads((tmp_path / 'trace.json').read_text())['traceEvents']
    spans = [[(round(1e3 * e['ts']), round(1e3 * (e['ts'] + e['dur']))) for e in events if word in e['name']] for word in ('ProfilerStep', ': train')]
    assert [len(found) for found in spans] == [4, 4]
    for start, end in spans[0]:
        for begin, stop in spans[1]:
            assert end <= begin or stop <= start or (start <= begin and stop <= end) or (begin <= start and end <= stop)
