"""Runs PyTorch's own test files on tede and on PyTorch, and says which tests pass on both.

    python tools/pytorch_tests.py --tests PYTORCH/test test_fx.py nn/test_convolution.py -k Conv2d --every 5

Under tede the files see python -m tede.as_torch. torch.testing._internal, which they import, is read from an installed
PyTorch (--internal: the folder that has torch/). Names that a test file imports and that the library doesn't have are
stand-ins: they can be imported, decorate and be derived from, and raise as soon as a test calls them. Each file runs in
a process, which goes on after a test that takes too long or ends it. Tests about what tede leaves out (SCOPE) are
counted and not run. Results are kept in --out, a line a test; PyTorch's are not taken again unless --again is given.
"""
import argparse
import builtins
import collections
import contextlib
import functools
import importlib
import importlib.machinery
import importlib.util
import inspect
import json
import os
import pathlib
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import zlib

# What a test's name or source is searched for, and what it then is about. Sources name dtypes and libraries that the test is
# skipped for: these are looked for in the name alone.
SCOPE = {
    "quantized graphs": r"quantize_fx|(?<!make)(?<!\btest)_fx\b|pt2e|quantize_jit|TestReferenceQuantizedModule|nns\.|sparse_lut|_decomposed|AdaRound",
    "operators of one engine for quantized layers": r"onednn_quant|fbgemm_pack|fbgemm_linear|wrapped_quantized_linear",
    "QNNPACK": r"qnnpack|QNNPack",
    "mkldnn": r"mkldnn|onednn|oneDNN|bf32_on|test_gradcheck_test_outputs",
    "complex32": r"complex32|chalf|ComplexHalf",
    "float8": r"float8",
    "CUDA's compiler": r"jiterator|triton",
    "symbolic shapes": r"PropagateRealTensors|propagate_real_tensors|ProxyTensorSymbolic|insert_deferred_runtime_asserts",
    "compilers": r"torch\.compile|ScriptObj|_dynamo|_inductor|torch\.jit\.|jit_script|torchscript|TorchScript|torch\.export"
                 r"|capture_pre_autograd|aot_|torch\.onnx",
    "choice of backend": r"conv_backend|ConvBackend",
    "private": r"FakeTensorDispatchCache|_addmm_activation|_lazy_clone|test_cow_|_storage_address|_current_graph_task"
               r"|TestCrossRefFunctionalization|kineto_results|event_tree|profiler\._utils|_pattern_matcher|TestExperimentalUtils|TestTorchTidyProfiler"
               r"|TestMemoryProfiler|TestDataFlow|TestIdentifyGradients|TestProfilerTree|_efficientzerotensor|_add_relu|simple_registry|_EnablePythonDispatcher|_IncludeDispatchKeyGuard"
               r"|torch\.library\._impls|func_type_(cpp|python)|_fake_scan|LazyGraphModule"
               r"|(torch\._|from _)(refs|prims|decomp|lazy|inductor)\b|_refs_|_python_ref|_dispatch_(dump|check|has|get|print|key)|torch\._C\._(jit|dispatch|dump)"
               r"|python_dispatcher|torch\._test_|_nn\._test_|_cached_tensors_enabled|_grid_sampler_2d_cpu_fallback|_torch_docs|AbortHandler"
               r"|_record_function_enter\(|symint_visitor_fn|_foobar\b|_add_batch_dim\b|_flat_param\b|_profiler_type\b|_fused_moving_avg_obs_fq_helper\b"
               r"|_content_store|_WaitCounter|_infer_device_type|_fused_sdp_choice|_scale_fn_ref|_parse_to\(|torch\._numpy|_get_function_stack_at|used_attrs"
               r"|KINETO_USE_DAEMON|\bview_groups\(|dimmap_test\(|\bInputDim\(|_validate_frozen_params|_PeriodicTimer\("
               r"|torch\._masked_softmax|test_masked_softmax|test_Embedding(Bag)?_sparse|_nn\.thnn_conv2d|_get_numerical_jacobian|aten\._convolution_double_backward",
    "steps below 0 in slices, which are views here": r"\[1:9:-1\]",
    "gradients of in-place forms that PyTorch hasn't": r"test_(elu|leaky_relu)_inplace_with_neg_",
    "streams as three numbers, of devices that aren't there": r"Stream\(stream_id=",
    "the views that PyTorch's functionalization makes again, node by node": r"test_python_functionalization(_conj)?\n",
    "which operators are one node in the backward pass": r"test_profiler_fwd_bwd_link\n",
    "Intel's tracer, with its library": r"TestProfilerITT",
    "torchvision": r"torchvision",
    "lazy tensors": r"_lazy\b(?!_)|LAZY\b",
    "how nn.functional is written": r"TestFunctionalTracing",
}
BY_NAME = ("mkldnn", "QNNPACK", "complex32", "float8", "CUDA's compiler", "lazy tensors")
# What a test that iterates over all dtypes, say, is about as well, seen by its failure.
REFUSED = {"complex32": "not implemented for 'ComplexHalf'", "compilers": "there is no TorchScript here"}
# What torch.testing._internal reads of the library when it is imported, and around tests: functions with their results, and other names.
CALLED = {"_C._get_cpu_capability": "default", "_C._len_torch_function_stack": 0, "_C._get_graph_executor_optimize": True,
          "_C._get_torch_function_state": None, "_C._jit_set_num_profiled_runs": 1, "cpu._is_avx2_supported": True, "_running_with_deploy": False,
          "_utils._is_privateuse1_backend_available": False, "_logging.scribe.open_source_signpost": None,
          "_C._jit_set_emit_hooks": None, "_C._set_print_stack_traces_on_fatal_signal": None, "_nnpack_available": False, "_lazy.ts_backend.init": None,
          "_C._dispatch_tls_local_exclude_set": types.SimpleNamespace(has=lambda key: False)}
NAMED = {"_C._TorchFunctionState": types.SimpleNamespace(ENABLED=0), "_disable_dynamo": lambda fn=None, recursive=True: fn or (lambda fn: fn),
         "_dynamo.testing.make_test_cls_with_patches": lambda cls, prefix, *args, **kwargs: type(prefix + cls.__name__, (unittest.TestCase,), {}),
         "_C._set_conj": lambda x, on: x.is_conj() != on and setattr(x, "data", x.detach().conj()),
         "_C._set_neg": lambda x, on: x.is_neg() != on and setattr(x, "data", x.detach()._neg_view()),
         "_prims_common.wrappers._maybe_remove_out_wrapper": lambda function: function,
         "fx.experimental.symbolic_shapes.is_nested_int": lambda size: isinstance(size, sys.modules["torch"].SymInt),
         "_C._jit_get_schemas_for_operator": lambda name: [op._schema for op in _overloads(name)],
         "distributed._local_tensor.maybe_run_for_local_tensor": lambda function: function,
         "distributed._local_tensor.maybe_disable_local_tensor_mode": contextlib.nullcontext,
         "distributed.tensor._sharding_prop.ShardingPropagator._fake_mode_lock": contextlib.nullcontext(),
         "_utils_internal.TEST_MASTER_ADDR": "127.0.0.1", "_utils_internal.TEST_MASTER_PORT": 29500,
         "_C._storage_id": lambda x: x.untyped_storage()._cdata,
         "_prims_common.ELEMENTWISE_TYPE_PROMOTION_KIND": types.SimpleNamespace(DEFAULT=0, NO_OPMATH=1),
         "_prims_common.elementwise_dtypes": lambda *operands, type_promotion_kind: (functools.reduce(
             sys.modules["torch"].promote_types, (x.dtype for x in operands if hasattr(x, "dtype"))), None),
         "_prims_common.corresponding_complex_dtype": lambda dtype: dtype.to_complex(),
         "_export.wrappers.mark_subclass_constructor_exportable_experimental": lambda constructor: constructor,
         "_dynamo.utils.disable_cache_limit": lambda: lambda test: test,
         "_dynamo.exc.Unsupported": NotImplementedError,
         "fx.experimental._config.patch": lambda **kwargs: lambda test: test,
         "testing._comparison._unwrap_dtensor_for_comparison": lambda *args: args,
         "testing._comparison.TensorLikePair._check_supported": lambda self, tensor, *, id: None,
         "masked.maskedtensor._tensors_match": lambda a, b, exact=True, rtol=1e-5, atol=1e-8: _alike(
             a, b.to(a.dtype), *(0, 0) if exact else (rtol, atol)),
         "masked.maskedtensor._masks_match": lambda a, b: not (hasattr(a, "get_mask") and hasattr(b, "get_mask")) or _alike(a.get_mask(), b.get_mask(), 0, 0),
         **dict.fromkeys(["_C.ScriptFunction", "_C.ScriptMethod", "_C.ScriptObject", "_C._ConvBackend", "per_tensor_affine",
                          "cuda.jiterator", "backends.python_native", "_mkldnn"])}
_ENVIRONMENT = "TEDE_PYTORCH_TESTS"       # what child processes have to know, as JSON


# ---- within a process that runs tests ----------------------------------------------------------------------------------

def _alike(a, b, rtol, atol):
    """Whether two tensors of one layout are of one shape and close, the parts of sparse ones as well; they don't broadcast."""
    try:
        sys.modules["torch"].testing.assert_close(a, b, rtol=rtol, atol=atol, check_stride=False)
    except AssertionError:
        return False
    return True


def _overloads(name):
    """The overloads of an operator that is named with its namespace."""
    packet = pkgutil.resolve_name("torch.ops." + name.replace("::", "."))
    return [getattr(packet, overload) for overload in packet.overloads()]


class StandIn:
    """A name that the library doesn't have."""
    running = False

    def __init__(self, name):
        self.__name__ = self.__qualname__ = name

    def __call__(self, *args, **kwargs):
        if StandIn.running:
            raise NotImplementedError(f"stand-in for {self.__name__}")
        return args[0] if len(args) == 1 and callable(args[0]) and not isinstance(args[0], StandIn) else self

    def __getattr__(self, name):
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")

    def __mro_entries__(self, bases):
        return (types.new_class(self.__name__.rpartition(".")[2]),)

    __instancecheck__ = __subclasscheck__ = __contains__ = lambda self, other: False
    __bool__ = lambda self: False
    __iter__ = lambda self: iter(())
    __or__ = __ror__ = __getitem__ = lambda self, other: self
    __lt__ = __le__ = __gt__ = __ge__ = lambda self, other: False
    __repr__ = lambda self: f"<stand-in for {self.__name__}>"


class StandInModule(types.ModuleType):
    __path__, __all__ = [], ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")


def _find_stand_ins(core):
    """Entries of the database of operators whose function isn't there get a stand-in."""
    find = core._getattr_qual
    core._getattr_qual = lambda obj, name, *default: find(obj, name, *(default or [StandIn(name)]))


def _clear_nothing(jit_utils):
    """There is no registry of TorchScript's classes to be cleared around tests."""
    jit_utils.clear_class_registry = lambda: None


def _run_without_mkl(module):
    """Products and solutions of sparse matrices don't need MKL here."""
    module.TEST_MKL = True


def _fork(module):
    """Processes of tests are forked from one that has imported all, if --fork is given: starting many takes a fraction of the time."""
    def start(self):
        self._start_processes(sys.modules["torch"].multiprocessing.get_context("fork").Process)
    if json.loads(os.environ[_ENVIRONMENT])["fork"]:
        module.MultiProcessTestCase._spawn_processes = start


def _name_errors(module):
    """The error of torch.library.opcheck is the library's."""
    module.OpCheckError = sys.modules["torch"].library.OpCheckError


def _allow_empty_lists(module):
    """Databases of what isn't here (torch._refs) are empty."""
    kind = module.ops if hasattr(module, "ops") else module.parametrize
    parametrize = kind._parametrize_test

    def patient(self, *args, **kwargs):
        try:
            yield from parametrize(self, *args, **kwargs)
        except ValueError as error:
            if "An empty" not in str(error):
                raise
    kind._parametrize_test = patient


def _change_utilities(module):
    _allow_empty_lists(module)
    _run_without_mkl(module)


class InternalFinder:
    """Finds torch.testing._internal in the folder of an installed PyTorch."""

    def __init__(self, folder):
        self._folder = os.path.join(folder, "torch", "testing")

    def find_spec(self, name, path=None, target=None):
        if not name.startswith("torch.testing._internal"):
            return None
        folder = os.path.join(self._folder, *name.split(".")[2:-1])
        spec = importlib.machinery.PathFinder.find_spec(name, [folder])
        change = {"core": _find_stand_ins, "generate_tests": _name_errors, "jit_utils": _clear_nothing, "common_utils": _change_utilities,
                  "common_device_type": _allow_empty_lists, "common_distributed": _fork}.get(name.rpartition(".")[2])
        if change is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                change(module)
            spec.loader.exec_module = exec_module
        return spec


def _stand_in_for(name):
    module = sys.modules[name] = StandInModule(name)
    parent, _, last = name.rpartition(".")
    if parent not in sys.modules:
        try:
            importlib.import_module(parent)
        except ImportError:
            _stand_in_for(parent)
    setattr(sys.modules[parent], last, module)
    return module


def _always(value):
    return lambda *args, **kwargs: value


def _patient(imported, folders):
    """An __import__ that makes stand-ins of what files in these folders import of torch in vain."""
    def importing(name, globals=None, locals=None, fromlist=(), level=0):
        if not (globals and str(globals.get("__file__", "")).startswith(folders)):
            return imported(name, globals, locals, fromlist, level)
        while True:
            try:
                module = imported(name, globals, locals, fromlist, level)
                break
            except ModuleNotFoundError as error:
                if not str(error.name).startswith(("torch.", "functorch.")):
                    raise
                _stand_in_for(error.name)
            except NotImplementedError:                 # from a module whose every name refuses
                raise
            except ImportError as error:
                if not str(error.name).startswith(("torch", "functorch")) or not hasattr(error, "name_from"):
                    raise
        for wanted in fromlist or ():
            if wanted != "*" and module.__name__.startswith(("torch", "tede", "functorch")) and not hasattr(module, wanted):
                if module.__name__.startswith("torch.testing._internal") and hasattr(module, "get_" + wanted):     # a list became a function
                    setattr(module, wanted, getattr(module, "get_" + wanted)())
                    continue
                try:
                    importlib.import_module(f"{module.__name__}.{wanted}")
                except ImportError:
                    setattr(module, wanted, StandIn(f"{module.__name__}.{wanted}"))
        return module
    return importing


def _name_missing_operators(*kinds):
    """Operators and overloads that aren't there are stand-ins where test files name them."""
    def patient(find):
        def get(self, name):
            try:
                return find(self, name)
            except AttributeError:
                if name.startswith("__") or not str(sys._getframe(1).f_globals.get("__file__")).startswith(folders):
                    raise
                return StandIn(f"{self}.{name}")
        return get
    folders = json.loads(os.environ[_ENVIRONMENT])["tests"]
    for kind in kinds:
        kind.__getattr__ = patient(kind.__getattr__)


def _name_missing_functions(module):
    """The same of a module's functions."""
    find, folders = module.__getattr__, json.loads(os.environ[_ENVIRONMENT])
    folders = folders["tests"], os.path.join(folders["internal"], "torch", "testing", "_internal")

    def get(name):
        try:
            return find(name)
        except AttributeError:
            if name.startswith("__") or not str(sys._getframe(1).f_globals.get("__file__")).startswith(folders):
                raise
            return StandIn(f"{module.__name__}.{name}")
    module.__getattr__ = get


def _leave_out_transforms(kind, levels):
    """Operators that take functions have no kernels for levels of transforms; a file that registers some can be imported."""
    register = kind.py_impl
    kind.py_impl = lambda self, key: (lambda function: function) if isinstance(key, levels) else register(self, key)


def prepare():
    """Make this process one of those that run tests; sitecustomize calls it in each that they start."""
    about = json.loads(os.environ[_ENVIRONMENT])
    folders = about["tests"], os.path.join(about["internal"], "torch", "testing", "_internal")
    if about["library"] == "tede":
        from tede import as_torch
        as_torch.install()
        sys.meta_path.insert(0, InternalFinder(about["internal"]))
        for name in [name for name in sys.modules if name.startswith("torch.testing._internal")]:
            del sys.modules[name]
        _stand_in_for("torch.distributed._local_tensor")
        for name in (*CALLED, *NAMED):
            place, _, last = ("torch." + name).rpartition(".")
            try:
                place = pkgutil.resolve_name(place)
            except (ImportError, AttributeError):
                place = _stand_in_for(place)
            if isinstance(place, StandInModule) or not hasattr(place, last):
                setattr(place, last, _always(CALLED[name]) if name in CALLED else StandIn(name) if NAMED[name] is None else NAMED[name])
        importlib.import_module("torch._dynamo").is_dynamo_supported = _always(True)       # tests of cond ask, which needs none here
        ops = sys.modules["torch"].ops
        load = ops.load_library
        ops.load_library = lambda path: None if "torchbind_test" in str(path) else load(path)        # classes for TorchScript
        for name in ("_refs", "_refs.special", "_refs.nn", "_refs.nn.functional", "_refs.fft", "_refs._conversions"):
            _stand_in_for("torch." + name)
        _stand_in_for("torch._prims").utils = importlib.import_module("torch._prims_common")
        _leave_out_transforms(importlib.import_module("torch._ops").HigherOrderOperator, importlib.import_module("torch._C._functorch").TransformType)
        _name_missing_operators(type(ops.aten), type(ops.aten.add))
        _name_missing_functions(importlib.import_module("torch._VF"))
        sys.modules["torch"].classes._TorchScriptTesting = StandIn("classes._TorchScriptTesting")
    builtins.__import__ = _patient(builtins.__import__, folders)


class TimedOut(BaseException):
    pass


def _ring(*_):
    raise TimedOut("the test took too long")


class Result(unittest.TestResult):
    def __init__(self, file, timeout):
        super().__init__()
        self._file, self._timeout, self._said = file, timeout, {}

    def _say(self, test, outcome, error=""):
        self._file.write(json.dumps([test.id() if hasattr(test, "id") else str(test), outcome, error]) + "\n")
        self._file.flush()

    def startTest(self, test):
        self._outcome = None
        self._say(test, "start")
        signal.alarm(self._timeout)

    def stopTest(self, test):
        signal.alarm(0)
        self._say(test, *(self._outcome or ("fail", "no outcome")))

    def _note(self, test, outcome, error=None):
        if error is not None:
            kind, value, _ = error
            error = f"{kind.__name__}: {value}"[:2000]
        if isinstance(test, unittest.suite._ErrorHolder):       # of a class or a module
            self._say(test, outcome, error or "")
        elif not self._outcome or self._outcome[0] == "pass":
            self._outcome = outcome, error or ""

    def addSuccess(self, test): self._note(test, "pass")
    def addError(self, test, err): self._note(test, "fail", err)
    def addFailure(self, test, err): self._note(test, "fail", err)
    def addExpectedFailure(self, test, err): self._note(test, "pass")
    def addUnexpectedSuccess(self, test): self._note(test, "fail", (AssertionError, "unexpected success", None))

    def addSkip(self, test, reason):
        self._outcome = "skip", reason

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self._note(test, "fail", err)


def _save_as_pickles(torch):
    """Tests of quantized layers trace and save them as TorchScript along the way: the layer stands for it, and is saved as it is."""
    SCOPE["compilers"] = r"torch\.compile|ScriptObj|_dynamo|_inductor|torch\.export|capture_pre_autograd|aot_|torch\.onnx|jit_scriptable"
    torch.jit.trace = lambda module, *args, **kwargs: module
    torch.jit.save = lambda module, file, **kwargs: torch.save(module, file)
    torch.jit.load = lambda file, **kwargs: torch.load(file, weights_only=False)


def _flat(tests):
    for test in tests:
        if isinstance(test, unittest.TestSuite):
            yield from _flat(test)
        else:
            yield test


def _about(test):
    """What in SCOPE a test is about, or None."""
    method = getattr(test, test._testMethodName, None)
    try:
        text = inspect.getsource(method)
    except (OSError, TypeError):
        text = ""
    return _reason(test.id(), text)


class Sources(importlib.machinery.SourceFileLoader):
    """Test files, with what doesn't go together with another version's torch.testing._internal replaced: classes of tests for a device are
    derived from the file's own there, so that super(self.__class__, self) goes round in a circle."""

    def get_data(self, path):
        return super().get_data(path).replace(b"super(self.__class__, self)", b"super()") if path.endswith(".py") else super().get_data(path)

    def get_code(self, fullname):
        return self.source_to_code(self.get_data(self.path), self.path)


def _import(path):
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path, loader=Sources(pathlib.Path(path).stem, path))
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _reason(name, source=""):
    return next((reason for reason, words in SCOPE.items() if re.search(words, name if reason in BY_NAME else name + "\n" + source)), None)


def run_tests(arguments):
    """The child: run a file's tests, but those that have been run, and write a line for each."""
    path, out, timeout, words, every, everything = json.loads(arguments)
    sys.argv, done = [path], _read(pathlib.Path(out))[0]
    if importlib.import_module("torch").backends.mkldnn.is_available():
        SCOPE.pop("mkldnn", None)       # tede[onednn] is installed
    if json.loads(os.environ[_ENVIRONMENT])["library"] == "torch" and "common_device_type" in pathlib.Path(path).read_text():
        _allow_empty_lists(importlib.import_module("torch.testing._internal.common_device_type"))
    if "/quantization/" in path and json.loads(os.environ[_ENVIRONMENT])["library"] == "tede":
        _save_as_pickles(importlib.import_module("torch"))
    if json.loads(os.environ[_ENVIRONMENT])["library"] == "torch" and re.search("common_(distributed|dtensor|fsdp)", pathlib.Path(path).read_text()):
        _fork(importlib.import_module("torch.testing._internal.common_distributed"))
    module = _import(path)
    common = sys.modules.get("torch.testing._internal.common_utils")
    if common is not None:
        common.DISABLE_RUNNING_SCRIPT_CHK = True
    tests = sorted(_flat(unittest.defaultTestLoader.loadTestsFromModule(module)), key=lambda test: test.id())
    tests = [test for test in tests if not words or any(re.search(word, test.id()) for word in words)]
    tests = [test for test in tests if zlib.crc32(test.id().encode()) % every == 0]         # the same ones on both, also where one has more
    done = set(done)
    with open(out, "a") as file:
        result, chosen = Result(file, timeout), []
        for test in tests:
            reason = None if everything or test.id() in done else _about(test)
            if reason:
                result._say(test, "out", reason)
            elif test.id() not in done:
                chosen.append(test)
        signal.signal(signal.SIGALRM, _ring)
        StandIn.running = True
        unittest.TestSuite(chosen).run(result)
        file.write(json.dumps(["", "end", ""]) + "\n")
        file.flush()
    os._exit(0)         # threads and pools that tests left behind don't keep it


# ---- the process that starts them --------------------------------------------------------------------------------------

def _read(path):
    """Outcomes by test, and the test that was running."""
    outcomes, running, ended = {}, None, False
    if path.exists():
        for line in path.read_text().splitlines():
            name, outcome, error = json.loads(line)
            if outcome == "start":
                running = name
            elif outcome == "end":
                ended = True
            else:
                outcomes[name], running = (outcome, error), None
    return outcomes, running, ended


def _run_file(file, library, options, folder):
    out = options.out / f"{library}-{file.replace('/', '-').removesuffix('.py')}.jsonl"
    if library == "tede" or options.again:
        out.unlink(missing_ok=True)
    path = options.tests / file
    env = dict(os.environ, PYTORCH_TEST_WITH_SLOW="0", **{_ENVIRONMENT: json.dumps(
        {"library": library, "internal": str(options.internal), "tests": str(options.tests), "fork": options.fork})})
    env["PYTHONPATH"] = os.pathsep.join([folder, str(path.parent), str(options.tests), env.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    if library == "torch":
        env["PYTHONPATH"] += os.pathsep + str(options.internal)
    log = out.with_suffix(".log")
    while True:
        outcomes, _, ended = _read(out)
        if ended:
            return outcomes
        arguments = json.dumps([str(path), str(out), options.timeout, options.k, options.every, options.everything])
        with open(log, "w") as output:
            command = [sys.executable, "-c", "import pytorch_tests, sys; pytorch_tests.run_tests(sys.argv[1])", arguments]
            child = subprocess.Popen(command, env=env, cwd=folder, stdout=output, stderr=output, start_new_session=True)
            seen, since = None, time.monotonic()
            while child.poll() is None:
                time.sleep(0.5)
                state = out.stat().st_size if out.exists() else 0
                if state != seen:
                    seen, since = state, time.monotonic()
                elif time.monotonic() - since > max(3 * options.timeout, 300):
                    os.killpg(child.pid, signal.SIGKILL)
        try:
            os.killpg(child.pid, signal.SIGKILL)        # processes that tests left behind
        except ProcessLookupError:
            pass
        _, running, ended = _read(out)
        if running is None and not ended:
            print(f"{file} on {library}: the process ended with {child.returncode} outside of a test; see {log}")
            print("".join(log.read_text(errors="replace").splitlines(keepends=True)[-12:]))
            return outcomes
        if running is not None:
            with open(out, "a") as lines:
                lines.write(json.dumps([running, "fail", f"the process ended with {child.returncode}"]) + "\n")


def _report(file, ours, theirs, shown):
    about = {name: error for name, (outcome, error) in ours.items() if outcome == "out"}
    about |= {name: reason for name, (outcome, error) in ours.items() for reason, words in REFUSED.items() if outcome == "fail" and words in error}
    about |= {name: _reason(name) for name in set(theirs or ()) - set(ours) if _reason(name)}       # made by what isn't here
    counts = collections.Counter(about.values())
    if theirs is None:
        passing = {name for name, (outcome, _) in ours.items() if outcome in ("pass", "fail")}
    else:
        passing = {name for name, (outcome, _) in theirs.items() if outcome == "pass"} - set(about)
    both = {name for name in passing if ours.get(name, ("missing",))[0] == "pass"}
    print(f"{file}: {len(both)} of {len(passing)} pass, {len(both) / max(1, len(passing)):.1%}"
          f" (out of scope: {dict(counts) or 'none'})")
    groups = collections.defaultdict(list)
    for name in passing - both:
        outcome, error = ours.get(name, ("missing", "not found under tede"))
        head = (error.strip().splitlines() or [""])[0]
        groups[f"{outcome}: {re.sub(r'0x[0-9a-f]+|[0-9]+', 'N', head)[:150]}"].append((name, error))
    for head, members in sorted(groups.items(), key=lambda item: -len(item[1])):
        print(f"  {len(members):4} {head}")
        for name, _ in sorted(members)[:shown]:
            print(f"         {name.partition('.')[2]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", help="below the folder of tests")
    parser.add_argument("--tests", type=pathlib.Path, required=True, help="PyTorch's folder test/")
    parser.add_argument("--internal", type=pathlib.Path, help="the folder that has an installed torch/; by default the one on the path")
    parser.add_argument("-k", action="append", default=[], help="a regular expression that a test's name has to contain")
    parser.add_argument("--every", type=int, default=1, help="only one test in n, on average")
    parser.add_argument("--timeout", type=int, default=60, help="seconds a test may take")
    parser.add_argument("--fork", action="store_true", help="tests of many processes fork them; by default each is a new interpreter")
    parser.add_argument("--only", choices=["tede", "torch"])
    parser.add_argument("--everything", action="store_true", help="also tests out of scope")
    parser.add_argument("--again", action="store_true", help="run PyTorch again, too")
    parser.add_argument("--show", type=int, default=5, help="how many names of each group of failures are printed")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(tempfile.gettempdir()) / "pytorch_tests")
    options = parser.parse_args()
    options.tests, options.out = options.tests.resolve(), options.out.resolve()
    if options.internal is None:
        options.internal = pathlib.Path(importlib.util.find_spec("torch").origin).parent.parent
    if options.k or options.every != 1 or options.everything:        # other results than those of whole files
        label = re.sub(r"\W+", "_", f"k{'-'.join(options.k)}_{options.every}_{options.everything}")
        options.out = options.out / (label if len(label) < 200 else f"{label[:150]}_{zlib.crc32(label.encode()):08x}")
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "sitecustomize.py").write_text(
            "import sys, importlib.util\n"
            f"spec = importlib.util.spec_from_file_location('pytorch_tests', {str(pathlib.Path(__file__).resolve())!r})\n"
            "sys.modules['pytorch_tests'] = module = importlib.util.module_from_spec(spec)\n"
            "spec.loader.exec_module(module)\nmodule.prepare()\n")
        for file in options.files:
            results = {library: _run_file(file, library, options, folder) for library in ("tede", "torch") if options.only in (None, library)}
            if "tede" in results:
                _report(file, results["tede"], results.get("torch"), options.show)
            else:
                print(file, collections.Counter(outcome for outcome, _ in results["torch"].values()))


if __name__ == "__main__":
    sys.exit(main())
