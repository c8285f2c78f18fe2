"""Programs that import torch run on tede: python -m tede.as_torch."""
import importlib
import importlib.util
import os
import pkgutil
import subprocess
import sys

import pytest
import tede
from tede import _compat


def run(code, *arguments, folder=None):
    path = os.path.dirname(os.path.dirname(os.path.abspath(tede.__file__)))
    environment = {**os.environ, "PYTHONPATH": path + os.pathsep + os.environ.get("PYTHONPATH", "")}
    done = subprocess.run([sys.executable, "-m", "tede.as_torch", *(arguments or ("-c", code))], capture_output=True, text=True,
                          env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_table_names_what_is_there():
    for ours in set(_compat.MODULES.values()):
        importlib.import_module("tede." + ours)
    for module, name in _compat.CLASSES:
        assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", _compat.SECTIONS)
def test_a_section_makes_a_module_with_its_names(path):
    section = _compat.SECTIONS[path]
    module = None if path.startswith("functorch.") else importlib.import_module("tede." + path)
    for name, (kind, words) in section.names.items():
        made = _compat.stand_in(path, name)
        if kind in ("refuse", "class"):
            with pytest.raises(Exception) as error:
                made()
            assert words.replace("{name}", name).startswith(type(error.value).__name__ + ": " + str(error.value))
        elif kind in ("same", "decorator"):
            assert made(ascii) is ascii
        elif kind != "is":
            assert made is not None and callable(made)
        assert path in ("_VF", "_extension") or hasattr(module, name)        # these are asked by name
    for name in section.modules:
        importlib.import_module(f"tede.{path}.{name}")


def test_code_and_data_dont_say_the_same():
    """What a module's code defines, its section doesn't name as well."""
    for path, section in _compat.SECTIONS.items():
        if not path.startswith("functorch."):
            module = importlib.import_module("tede." + path)
            twice = [name for name, (kind, _) in section.names.items() if kind not in ("from", "is") and path not in ("_VF", "_extension")
                     and getattr(module, name).__doc__ != _compat.stand_in(path, name).__doc__]
            assert not twice, (path, twice)


def test_each_module_is_found_once():
    names = [found.name for found in pkgutil.walk_packages(tede.__path__, "tede.")]
    assert len(names) == len(set(names)) and "tede.cuda.amp" in names and not [n for n in names if n.startswith("tede._compat.")]


def test_what_each_of_an_empty_list_would_refuse():
    assert tede.xpu.set_rng_state_all([]) is None
    with pytest.raises(AssertionError, match="XPU"):
        tede.xpu.set_rng_state_all([1])
    with pytest.raises(RuntimeError, match="NVTX"), tede.cuda.nvtx.range("x"):
        pass
    assert tede.cuda.get_arch_list() is not tede.cuda.get_arch_list()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tede._inductor")


def test_modules_are_ours_under_pytorchs_names():
    assert run("""
import sys, tede, torch, torch.nn.functional as F
from torch.optim.adagrad import Adagrad
from torch.nn.modules.flatten import Flatten
from torch.distributions.normal import Normal
from torch.jit.annotations import BroadcastingList2
from torch.amp.autocast_mode import autocast
print(torch is tede, F is tede.nn.functional, Adagrad is tede.optim.Adagrad, torch.__name__, torch.__version__,
      torch.distributions.categorical.Categorical is torch.distributions.Categorical, torch.torch is torch)
""") == "True True True torch 2.13.0 True True".split()


@pytest.mark.parametrize("path", [path for path, section in _compat.SECTIONS.items() if section.tree])
def test_an_absent_module_can_be_imported_and_says_what_it_is(path):
    if "." not in path:
        module = getattr(tede, path)
        with pytest.raises(NotImplementedError, match=f"torch.{path}.something: "):
            module.something()
        assert isinstance(module.Something, type) and not isinstance(3, module.Something)


def test_what_a_program_never_uses_may_be_missing():
    assert run("""
import torch
from torch.ao.quantization import QuantStub, prepare_jit
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.utils.cpp_extension import load
import importlib.util
print(isinstance(3, FSDP), importlib.util.find_spec("torch._inductor"))
try:
    torch.ao.quantization.quantize_fx.prepare_fx()
except NotImplementedError as error:
    print("quantized" in str(error))
""") == ["False", "None", "True"]


def test_a_script_has_its_folder_and_arguments(tmp_path):
    (tmp_path / "helper.py").write_text("import torch\nanswer = torch.tensor([42])\n")
    (tmp_path / "main.py").write_text("import sys, helper\nif __name__ == '__main__':\n    print(helper.answer, sys.argv[1:])\n")
    assert run("", str(tmp_path / "main.py"), "a", "b") == ["tensor([42])", "['a',", "'b']"]


def test_started_interpreters_do_the_same():
    assert run("""
import subprocess, sys
print(subprocess.run([sys.executable, "-c", "import torch; print(torch.__version__, torch.nn.Linear.__module__)"],
                     capture_output=True, text=True).stdout)
""")[0] == "2.13.0"


def test_a_module_doesnt_take_the_place_of_a_function_of_its_name():
    assert run("""
import torch, torch.autograd.gradcheck, torch._functorch.vmap, torch._functorch.apis
print(callable(torch.autograd.gradcheck), callable(torch.func.vmap), torch._functorch.apis.vmap is torch.vmap)
""") == ["True"] * 3


def test_a_class_of_a_package_is_no_module_of_it():
    from tede.distributed.elastic import timer
    assert pkgutil.resolve_name("tede.distributed.elastic.timer.FileTimerServer.start") is timer.FileTimerServer.start
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("tede.distributed.elastic.timer.FileTimerServer")
    assert isinstance(timer.FileTimerServer, type)


def test_modules_below_those_that_are_loaded_already_are_found():
    program = ("import torch, torch.utils.data.distributed, torch.cpu; from torch.cpu.amp import autocast; "
               "from torch.distributed.fsdp import FullyShardedDataParallel; from torch.cuda.memory import memory_allocated; "
               "from torch.autograd.profiler_util import EventList; from torch.multiprocessing.pool import Pool; print('found')")
    assert run(program) == ["found"]


def test_what_a_program_asks_classes_and_functions_for_is_pytorchs_place():
    assert run("""
import torch, torch.nn.functional as F
from torch.distributions import Normal
print(torch.nn.Linear.__module__, torch.optim.SGD.__module__, Normal.__module__, torch.nn.Parameter.__module__, F.relu.__module__,
      torch.add.__module__, torch.Generator.__module__, type(torch.max(torch.eye(2), 0)).__module__, torch.nn.utils.clip_grad_norm_.__module__)
print(torch.nn.MultiheadAttention)
import inspect
print(inspect.getmodule(torch.optim.SGD) is torch.optim.sgd)
""") == """torch.nn.modules.linear torch.optim.sgd torch.distributions.normal torch.nn.parameter torch.nn.functional
    torch torch._C torch.return_types torch.nn.utils.clip_grad
    <class 'torch.nn.modules.activation.MultiheadAttention'> True""".split()


WRITE = """
import pickle, sys, torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.LazyLinear(2))
layer = torch.nn.TransformerEncoderLayer(4, 2, 8, dropout=0.)
parts = [net, layer, torch.optim.Adam(layer.parameters()), torch.distributions.Normal(torch.zeros(2), torch.ones(2)),
         torch.nn.functional.softplus, torch.add, torch.Generator().manual_seed(3), torch.max(torch.eye(2), 0), torch.float32,
         torch.nn.utils.rnn.pack_sequence([torch.ones(2)]), torch.utils.data.TensorDataset(torch.ones(3))]
pickle.dump(parts, open(sys.argv[1], "wb"))
"""
READ = """
import pickle, sys, torch
net, layer, optimizer, normal, softplus, add, generator, pair, dtype, packed, data = pickle.load(open(sys.argv[1], "rb"))
assert net(torch.ones(2, 3)).shape == (2, 2) and dtype is torch.float32 and generator.initial_seed() == 3
assert torch.equal(torch.rand(2, generator=generator), torch.rand(2, generator=torch.Generator().manual_seed(3)))
assert softplus is torch.nn.functional.softplus and type(pair) is torch.return_types.max and len(data) == 3
assert type(normal) is torch.distributions.Normal and add(1, torch.ones(1)) == 2 and packed.data.tolist() == [1, 1]
layer(torch.ones(2, 1, 4)).sum().backward()
optimizer.step()
print("read")
"""


@pytest.mark.parametrize("writer, reader", [("tede", "tede"), ("tede", "torch"), ("torch", "tede")])
def test_plain_pickles_are_pytorchs(tmp_path, writer, reader):
    if "torch" in (writer, reader):
        pytest.importorskip("torch")
    for program, lib in ((WRITE, writer), (READ, reader)):
        script = tmp_path / f"on_{lib}.py"
        script.write_text(program)
        if lib == "tede":
            said = run(None, str(script), str(tmp_path / "parts"))
        else:
            done = subprocess.run([sys.executable, str(script), str(tmp_path / "parts")], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            said = done.stdout.split()
    assert said == ["read"]


def test_a_module_is_run_once_under_both_names():
    assert run("""
import sys
import torch.autograd, torch.nn.functional, torch.distributions, torch.optim.sgd
from torch.nn.modules import linear
from torch.utils.data import DataLoader
print(torch.autograd.function.Function is torch.autograd.Function, torch.nn.Linear is linear.Linear,
      sys.modules["tede.nn.modules.linear"] is linear, torch.optim.sgd.SGD is torch.optim.SGD,
      torch.distributions.constraints.positive is torch.distributions.Normal.arg_constraints["scale"])
""") == ["True"] * 5


STATES = """
import copy
import torch
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict, get_state_dict,
                                                     set_model_state_dict, set_state_dict)
torch.manual_seed(0)
def made():
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    return net, torch.optim.Adam(net.parameters(), 0.1)
net, adam = made()
fresh = get_optimizer_state_dict(net, adam)
assert list(fresh["state"]) == ["0.weight", "0.bias", "1.weight", "1.bias"] and fresh["param_groups"][0]["lr"] == 0.1
assert fresh["state"]["0.bias"]["exp_avg"].tolist() == [0, 0] and net[0].weight.grad is None
net(torch.ones(1, 2)).sum().backward()
adam.step()
weights, state = copy.deepcopy(get_state_dict(net, adam))
assert state["param_groups"][0]["params"] == ["0.weight", "0.bias", "1.weight", "1.bias"]
other, second = made()
set_state_dict(other, second, model_state_dict=weights, optim_state_dict=state)
for n, o in ((net, adam), (other, second)):
    o.zero_grad()
    n(torch.ones(1, 2)).sum().backward()
    o.step()
assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters()))
options = StateDictOptions(strict=False, ignore_frozen_params=True)
loaded = set_model_state_dict(net, {"0.weight": torch.ones(2, 2)}, options=options)
assert loaded.missing_keys == ["0.bias", "1.weight", "1.bias"] and net[0].weight.tolist() == [[1, 1], [1, 1]]
net[1].requires_grad_(False)
print(*get_model_state_dict(net, options=options))
"""


def test_named_state_dicts_of_one_process(tmp_path):
    script = tmp_path / "states.py"
    script.write_text(STATES)
    assert run(None, str(script)) == ["0.weight", "0.bias"]
    if importlib.util.find_spec("torch"):
        done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
        assert done.stdout.split() == ["0.weight", "0.bias"], done.stderr


def test_parts_of_absent_packages_are_modules():
    assert run("""
import types, torch, torch.ao
import torch.ao.nn.quantized.dynamic as dynamic
for module in (torch.ao.nn, torch.ao.quantization, torch.ao.nn.intrinsic.qat, torch.ao.quantization.observer, torch.quantization.stubs):
    assert isinstance(module, types.ModuleType), module
print(torch.ao.nn.quantized.dynamic is dynamic, isinstance(dynamic.Linear, type), isinstance(3, torch.ao.quantization.observer.ObserverBase))
""") == ["True", "True", "False"]


def test_messages_and_modules_say_torch():
    assert run("""
import torch, torch.nn
for module in (torch, torch.nn, torch.nn.functional, torch.linalg, torch.jit, torch.optim, torch.utils.data):
    try:
        module.no_such_name
    except AttributeError as error:
        assert "module 'torch" in str(error) and "tede" not in str(error), error
assert "tede" not in str(torch.amp.__name__ + torch.distributions.kl.__name__)
import torch.distributions
print(torch.amp.grad_scaler.GradScaler is torch.GradScaler, torch.distributions.normal.Normal is torch.distributions.Normal)
""") == ["True", "True"]


def test_a_program_that_runs_another_keeps_its_own_names(tmp_path):
    (tmp_path / "other.py").write_text("import os, __main__\nprint(__name__, __main__.os is os, __file__[-8:])\n")
    (tmp_path / "first.py").write_text("import inspect\nfrom tede import as_torch\nas_torch.main(['other.py'])\nprint(inspect.__name__)\n")
    done = subprocess.run([sys.executable, "first.py"], capture_output=True, text=True, cwd=tmp_path)
    assert done.stdout.split() == ["__main__", "True", "other.py", "inspect"], done.stderr


def test_libraries_replace_steps_of_vmap():
    """tensordict puts its own functions into the module, whose name is also a function's."""
    assert run("""
import torch, torch._functorch.vmap as steps, torch._functorch.apis, types
from torch._functorch.vmap import _process_batched_inputs
from torch._functorch import eager_transforms, make_functional
from torch._functorch.eager_transforms import grad
def of_ours(in_dims, args, func):
    print("ours")
    return _process_batched_inputs(in_dims, args, func)
steps._process_batched_inputs = of_ours
print(isinstance(steps, types.ModuleType), torch.vmap(lambda x: x * 2)(torch.ones(2)).sum().item())
""") == "ours True 4.0".split()


def test_what_others_look_for_at_import_is_there_and_refuses_when_used():
    assert run("""
import torch
from torch.jit import _get_trace_graph
import torch.jit._recursive, torch.autograd.profiler_legacy, torch.accelerator.memory, torch.cuda.amp.common
import torch.distributed.fsdp, torch.distributed.tensor.debug
def reduced(x, op=torch.distributed.ReduceOp.SUM):
    return op
assert reduced(1).name == "SUM" and torch.distributed.ReduceOp.MAX != torch.distributed.ReduceOp.MIN
assert torch.nn.parallel.distributed.DistributedDataParallel is torch.nn.parallel.DistributedDataParallel
print(isinstance(torch.nn.Linear(1, 1), torch.distributed.fsdp.FSDPModule), torch.cuda.amp.common.amp_definitely_not_available())
for call in (lambda: _get_trace_graph(None), lambda: torch.jit._recursive.infer_methods_to_compile(None),
             lambda: torch.distributed.tensor.debug.visualize_sharding(None), lambda: torch.compiler.load_cache_artifacts(b"")):
    try:
        call()
    except NotImplementedError as error:
        print(str(error).partition(":")[0])
with torch.autograd.profiler_legacy.profile() as prof:
    torch.ones(2) + 1
print(len(prof.function_events) > 0)
""") == """False True torch.jit._get_trace_graph torch.jit._recursive.infer_methods_to_compile torch.distributed.tensor.debug.visualize_sharding
torch.compiler.load_cache_artifacts True""".split()


def test_loggers_are_below_pytorchs():
    assert run("import logging, torch; torch_log = logging.getLogger('torch'); torch_log.setLevel('ERROR')\n"
               "seen = []; handler = logging.Handler(); handler.emit = lambda record: seen.append(record.getMessage())\n"
               "torch_log.addHandler(handler); log = logging.getLogger('tede.multiprocessing.spawn')\n"
               "log.warning('no'); log.error('yes'); print(*seen)") == ["yes"]
