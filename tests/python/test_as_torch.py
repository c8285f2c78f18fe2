"""Programs that import torch run on tede: python -m tede.as_torch."""
import importlib
import os
import subprocess
import sys

import pytest
import tede
from tede import _absent, _aliases


def run(code, *arguments, folder=None):
    path = os.path.dirname(os.path.dirname(os.path.abspath(tede.__file__)))
    environment = {**os.environ, "PYTHONPATH": path + os.pathsep + os.environ.get("PYTHONPATH", "")}
    done = subprocess.run([sys.executable, "-m", "tede.as_torch", *(arguments or ("-c", code))], capture_output=True, text=True,
                          env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_a_table_names_what_is_there():
    for ours in set(_aliases.MODULES.values()):
        importlib.import_module("tede." + ours)
    for module, name in _aliases.CLASSES:
        assert hasattr(importlib.import_module(module), name)


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


@pytest.mark.parametrize("path", _absent.MODULES)
def test_an_absent_module_can_be_imported_and_says_what_it_is(path):
    if "." not in path:
        module = getattr(tede, path)
        with pytest.raises(NotImplementedError, match=f"torch.{path}.something: "):
            module.something()
        assert isinstance(module.Something, type) and not isinstance(3, module.Something)


def test_what_a_program_never_uses_may_be_missing():
    assert run("""
from torch.ao.quantization import QuantStub, prepare
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.utils.cpp_extension import load
import importlib.util
print(isinstance(3, FSDP), importlib.util.find_spec("torch._inductor"))
try:
    prepare()
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


def test_modules_below_those_that_are_loaded_already_are_found():
    program = ("import torch, torch.utils.data.distributed, torch.cpu; from torch.cpu.amp import autocast; "
               "from torch.distributed.fsdp import FullyShardedDataParallel; from torch.cuda.memory import memory_allocated; "
               "from torch.autograd.profiler_util import EventList; from torch.multiprocessing.pool import Pool; print('found')")
    assert run(program) == ["found"]
