"""CommDebugMode: counts the collectives that run within it, by module and by pass.

DTensors come to the mode first; it leaves them to their own dispatch, whose calls on local tensors and functional collectives come to it next. A call
belongs to the module that was entered last, in the backward pass to the one whose gradients are computed, and is also counted for all around it."""
import json
import re
from collections import defaultdict

import tede
from tede.distributed import _functional_collectives
from tede.distributed.tensor._made import classes, is_dtensor
from tede.nn.modules.module import register_module_forward_pre_hook, register_module_full_backward_pre_hook
from tede.utils._python_dispatch import TorchDispatchMode
from tede.utils.module_tracker import ModuleTracker

__all__ = ["CommDebugMode"]

_COLLECTIVES = ("all_gather_into_tensor", "all_gather_into_tensor_coalesced", "all_reduce", "all_reduce_coalesced", "all_to_all_single", "broadcast",
                "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced")
# Counts are read by the operators of the older namespace.
_KEYS = {getattr(_functional_collectives.ops, name): getattr(tede.ops.c10d_functional, name) for name in _COLLECTIVES}
_TRIVIAL = {"aten.detach.default", "aten.t.default", "aten.view.default", "aten._to_copy.default", "aten.as_strided.default", "aten.transpose.int"}
_COLOURS = re.compile(r"\x1B\[[0-?]*[ -/]*[@-~]")


class _Modules(ModuleTracker):
    """Which module runs now, and what is known of each: `module_helper_dict` has its depth, type and the placements of its parameters."""

    def __enter__(self):
        super().__enter__()
        self.name, self._stack, self._leaving, self._running = "Global", ["Global"], [], 0
        self.module_helper_dict, self.module_parents_dict = {"Global": {"depth": 0}}, {"Global": set()}
        self.module_parameters_dict, self.sharding_dict, self.parent_dict = {}, {}, {}
        self._hooks += [register_module_forward_pre_hook(self._enter), register_module_full_backward_pre_hook(self._enter_gradients)]
        return self

    def __exit__(self, *exception):
        self._hooks += self._leaving            # of modules that raised
        super().__exit__(*exception)

    @property
    def again(self):
        """Whether a module's forward runs within the backward pass, from a checkpoint."""
        return self.is_bw and self._running > 0

    def _enter(self, module, inputs):
        self._leaving.append(module.register_forward_hook(self._leave))       # behind the module's own, which may communicate
        if self.is_bw:
            self._running += 1
            return
        self.name = name = self._name(module)
        known = self.module_helper_dict.setdefault(name, {})
        known["module_type"] = str(type(module)).replace("<", "").replace(">", "")
        known["depth"] = len(self._stack)
        for key, p in module.named_parameters(recurse=False):
            self.module_parameters_dict.setdefault(name, {})[key] = p.data
            if is_dtensor(p.data):
                self.sharding_dict[f"{name}.{key}"] = p.data.placements
                known.setdefault("parameters", {})[key] = str(p.data.placements)
        self.module_parents_dict.setdefault(name, set(self._stack))
        self.parent_dict.setdefault(self._stack[-1], []).append(name)
        self._stack.append(name)

    def _leave(self, module, inputs, output):
        self._leaving.pop().remove()
        if self.is_bw:
            self._running -= 1
        elif len(self._stack) > 1:
            self._stack.pop()
            self.name = self._stack[-1]

    def _enter_gradients(self, module, output):
        self._running, self.name = 0, self._name(module)


def _passes():
    return {"forward": defaultdict(int), "backward": defaultdict(int)}


class CommDebugMode(TorchDispatchMode):
    """A context whose `get_comm_counts()` says how often each functional collective was called in it, by DTensors or by the program:
    `counts[torch.ops.c10d_functional.all_reduce]`. `comm_module_counts[name]["forward"]` has the same of a module. Collectives of
    torch.distributed that write their arguments aren't operators, so they aren't seen."""

    def __init__(self):
        super().__init__()
        self.comm_counts, self.comm_module_counts, self.comm_module_operation_counts = defaultdict(int), {}, {}
        self.comm_registry = {*_KEYS, *_KEYS.values()}
        self.advanced_module_tracker = _Modules()

    def __enter__(self):
        self.comm_counts.clear()
        self.comm_module_counts.clear()
        self.comm_module_operation_counts.clear()
        self.comm_module_counts["Global"] = _passes()
        super().__enter__()
        self.advanced_module_tracker.__enter__()
        return self

    def __exit__(self, *exception):
        self.advanced_module_tracker.__exit__(*exception)
        super().__exit__(*exception)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        modules = self.advanced_module_tracker
        sharded = [x for x in args if is_dtensor(x)]
        operation = {"name": func, "input_shape": [x.shape for x in sharded], "input_sharding": [x.placements for x in sharded],
                     "device_mesh": str(sharded[-1].device_mesh) if sharded else "", "is_bw": modules.is_bw, "is_activation_checkpointing": modules.again}
        operations = self.comm_module_operation_counts.setdefault(modules.name, {"operations_list": []})["operations_list"]
        if any(issubclass(t, classes[0]) for t in types):
            operations.append(operation)
            return NotImplemented
        found = func(*args, **(kwargs or {}))
        packet = func._overloadpacket
        if packet in self.comm_registry:
            key, way = _KEYS.get(packet, packet), "backward" if modules.is_bw else "forward"
            self.comm_counts[key] += 1
            for name in {modules.name, *modules.module_parents_dict[modules.name]}:
                self.comm_module_counts.setdefault(name, _passes())[way][key] += 1
        operations.append(operation)
        return found

    def get_total_counts(self):
        """How many collectives there were."""
        return sum(self.comm_counts.values())

    def get_comm_counts(self):
        """How often each was called."""
        return self.comm_counts

    def get_parameter_info(self):
        """The parameters of each module that ran."""
        return self.advanced_module_tracker.module_parameters_dict

    def get_sharding_info(self):
        """The placements of each parameter that is a DTensor."""
        return self.advanced_module_tracker.sharding_dict

    def __repr__(self):
        return f"CommDebugMode(get_total_counts()={self.get_total_counts()})"

    # ---- tables ----------------------------------------------------------------------------------------------------------------

    def _operations(self, name, level):
        """Operations of a module that are shown: 0 none, 1 those of DTensors, 2 all but views and copies, 3 all; by pass."""
        listed = self.comm_module_operation_counts.get(name, {"operations_list": []})["operations_list"] if level else []
        listed = [o for o in listed if level == 3 or str(o["name"]) not in _TRIVIAL and (level == 2 or o["input_shape"])]
        again = [o for o in listed if o["is_activation_checkpointing"]]
        return ([o for o in listed if not o["is_bw"]], [o for o in listed if o["is_bw"] and not o["is_activation_checkpointing"]], again)

    def generate_comm_debug_tracing_table(self, noise_level=3):
        """The collectives of each module as text; with a level from 1 on its type, parameters and operations (see _operations), too."""
        lines, modules = [], self.advanced_module_tracker
        for name, known in modules.module_helper_dict.items():
            margin = "    " * known["depth"]
            lines.append(margin + name)
            if noise_level and "module_type" in known:
                lines.append(f"{margin}*module type: {known['module_type']}")
            if noise_level and "parameters" in known:
                lines.append(f"{margin}*Parameter List")
                lines += [f"{margin} *{key}: {placed}" for key, placed in known["parameters"].items()]
            counts = self.comm_module_counts.get(name, _passes())
            titles = ("FORWARD PASS", "BACKWARD PASS", "ACTIVATION CHECKPOINTING")
            for title, collectives, operations in zip(titles, (counts["forward"], counts["backward"], {}), self._operations(name, noise_level)):
                if collectives or operations:
                    lines.append(f"{margin}  {title}")
                lines += [f"\033[1;33m{margin}    *{key}: {count}\033[0m" for key, count in collectives.items()]
                for o in operations:
                    lines.append(f"\033[1;33m{margin}    **{o['name']}\033[0m")
                    if o["input_shape"]:
                        lines += [f"\033[1;31m{margin}      {word}: {o[key]}\033[0m" for word, key in (
                            ("shape", "input_shape"), ("sharding", "input_sharding"), ("device mesh", "device_mesh"))]
        return "".join(line + "\n" for line in lines)

    def log_comm_debug_tracing_table_to_file(self, file_name="comm_mode_log.txt", noise_level=3):
        """The table, without colours, in a file."""
        with open(file_name, "w") as file:
            file.write(_COLOURS.sub("", self.generate_comm_debug_tracing_table(noise_level)))

    def generate_json_dump(self, file_name="comm_mode_log.json", noise_level=3):
        """The same as JSON, a module within the one that called it."""
        with open(file_name, "w") as file:
            json.dump(self._dump("Global", noise_level), file, indent=4)

    def _dump(self, name, level):
        known, counts = self.advanced_module_tracker.module_helper_dict[name], self.comm_module_counts.get(name, _passes())
        found = {"fqn": name, "module_type": known.get("module_type", "") if level else "",
                 "parameters": list(known.get("parameters", {}).items()) if level else [],
                 "children": [self._dump(child, level) for child in self.advanced_module_tracker.parent_dict.get(name, ())],
                 "collectives_forward": [(str(key), count) for key, count in counts["forward"].items()],
                 "collectives_backward": [(str(key), count) for key, count in counts["backward"].items()]}
        for way, operations in zip(("forward", "backward", "checkpointing"), self._operations(name, level)):
            found[f"operations_{way}"] = [{**o, "name": str(o["name"]), "input_shape": list(map(str, o["input_shape"])),
                                           "input_sharding": [list(map(str, placed)) for placed in o["input_sharding"]]} for o in operations]
        return found
