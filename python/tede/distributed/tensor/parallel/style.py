"""Styles: how a module's parameters lie on a mesh, and what its inputs and outputs become.

A style shards parameters once, and puts hooks around forward: plain tensors become DTensors of the layouts that the caller has, are redistributed to those
that the module wants, and on the way out likewise."""
from abc import ABC, abstractmethod

from tede import Tensor, nn
from tede.distributed.tensor._api import DTensor, distribute_module, distribute_tensor
from tede.distributed.tensor.placement_types import Placement, Replicate, Shard

__all__ = ["ParallelStyle", "RowwiseParallel", "SequenceParallel", "ColwiseParallel", "PrepareModuleInput", "PrepareModuleInputOutput",
           "PrepareModuleOutput"]


class ParallelStyle(ABC):
    """The base of styles: `_apply(module, mesh)` gives the module."""

    src_data_rank = 0

    @abstractmethod
    def _apply(self, module, device_mesh): ...


def _redistributed(x, layouts):
    return x if x.placements == tuple(layouts) else x.redistribute(placements=layouts)


def _entering(x, layouts, wanted, mesh):
    """An input as a DTensor of the layouts that a module wants."""
    if not isinstance(x, DTensor):
        x = DTensor.from_local(x, mesh, layouts, run_check=False)
    return _redistributed(x, wanted)


def _leaving(x, layouts, use_local):
    x = _redistributed(x, layouts)
    return x.to_local() if use_local else x


class _Sharded(ParallelStyle):
    """A layer with one input and one output, whose weights are sharded."""

    def __init__(self, input_layouts, output_layouts, use_local_output):
        self.input_layouts, self.output_layouts, self.use_local_output = (input_layouts,), (output_layouts,), use_local_output

    def _wanted(self, module):
        """(layouts of the input, dimension of each parameter by name; None: whole)."""
        raise NotImplementedError

    def _apply(self, module, device_mesh):
        wanted, places = self._wanted(module)

        def partition(name, module, mesh):
            for key, p in list(module._parameters.items()):
                if p is not None and not isinstance(p, DTensor):
                    place = Replicate() if places.get(key) is None else Shard(places[key])
                    module.register_parameter(key, nn.Parameter(distribute_tensor(p, mesh, [place], src_data_rank=self.src_data_rank), p.requires_grad))

        def enter(module, inputs, mesh):
            return (_entering(inputs[0], self.input_layouts, wanted, mesh), *inputs[1:])

        def leave(module, output, mesh):
            return _leaving(output, self.output_layouts, self.use_local_output)
        return distribute_module(module, device_mesh, partition, enter, leave)


class ColwiseParallel(_Sharded):
    """Each rank has some of the outputs of a Linear, or of the columns of an Embedding."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)

    def _wanted(self, module):
        if isinstance(module, nn.Linear):
            return (Replicate(),), {"weight": 0, "bias": 0}
        if isinstance(module, nn.Embedding):
            return (Replicate(),), {"weight": 1}
        raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")


class RowwiseParallel(_Sharded):
    """Each rank has some of the inputs of a Linear, or of the rows of an Embedding; the outputs are parts of sums."""

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        super().__init__(input_layouts or Shard(-1), output_layouts or Replicate(), use_local_output)

    def _wanted(self, module):
        if isinstance(module, nn.Linear):
            return (Shard(-1),), {"weight": 1}
        if isinstance(module, nn.Embedding):
            return (Replicate(),), {"weight": 0}
        raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")


class SequenceParallel(ParallelStyle):
    """A norm or dropout whose input is sharded along the sequence, with whole parameters."""

    def __init__(self, *, sequence_dim=1, use_local_output=False):
        self.sequence_sharding, self.use_local_output = (Shard(sequence_dim),), use_local_output

    def _apply(self, module, device_mesh):
        def replicate(name, module, mesh):
            for key, p in list(module._parameters.items()):
                if p is not None and not isinstance(p, DTensor):            # ranks have made the same ones
                    module.register_parameter(key, nn.Parameter(DTensor.from_local(p.detach(), mesh, [Replicate()], run_check=False), p.requires_grad))

        def enter(module, inputs, mesh):
            x = inputs[0]
            if not isinstance(x, (DTensor, Tensor)):
                raise ValueError(f"expecting input of {module} to be a torch.Tensor or DTensor, but got {x}")
            return (_entering(x, self.sequence_sharding, self.sequence_sharding, mesh), *inputs[1:])

        def leave(module, output, mesh):
            return output.to_local() if self.use_local_output else output
        return distribute_module(module, device_mesh, replicate, enter, leave)


def _listed(layouts):
    return (layouts,) if isinstance(layouts, Placement) or layouts is None else tuple(layouts)


class PrepareModuleInput(ParallelStyle):
    """Inputs of `input_layouts` become DTensors of `desired_input_layouts`; what has no layout stays as it is."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None, desired_input_kwarg_layouts=None,
                 use_local_output=False):
        self.input_layouts = None if input_layouts is None else _listed(input_layouts)
        self.desired_input_layouts = None if desired_input_layouts is None else _listed(desired_input_layouts)
        self.input_kwarg_layouts, self.desired_input_kwarg_layouts = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            if self.desired_input_layouts is None:
                raise AssertionError("desired module inputs should not be None!")
            if len(self.input_layouts) != len(self.desired_input_layouts):
                raise AssertionError("input_layouts and desired_input_layouts should have same length!")
        if len(self.input_kwarg_layouts) != len(self.desired_input_kwarg_layouts):
            raise AssertionError("input_kwarg_layouts and desired_input_kwarg_layouts should have same length!")

    def _one(self, x, layout, wanted, mesh):
        if layout is None or not isinstance(x, Tensor):
            return x
        if isinstance(x, DTensor) and wanted is None:
            return x
        x = x if isinstance(x, DTensor) else DTensor.from_local(x, mesh, (layout,), run_check=False)
        x = _redistributed(x, (wanted,)) if wanted is not None else x
        return x.to_local() if self.use_local_output else x

    def _inputs(self, inputs, mesh):
        if self.input_layouts is None:
            return inputs
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        return tuple(self._one(x, *places, mesh) for x, *places in zip(inputs, self.input_layouts, self.desired_input_layouts))

    def _apply(self, module, device_mesh):
        def enter(module, inputs, kwargs):
            return self._inputs(inputs, device_mesh), {k: self._one(v, self.input_kwarg_layouts.get(k), self.desired_input_kwarg_layouts.get(k), device_mesh)
                                                       for k, v in kwargs.items()}
        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Outputs of `output_layouts` become of `desired_output_layouts`."""

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output=True):
        self.output_layouts, self.desired_output_layouts = _listed(output_layouts), _listed(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.output_layouts) != len(self.desired_output_layouts):
            raise AssertionError("output_layouts and desired_output_layouts should have same length!")

    def _outputs(self, outputs, mesh):
        several = isinstance(outputs, tuple)
        listed = outputs if several else (outputs,)
        if len(listed) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        found = tuple(x if layout is None else _leaving(_entering(x, (layout,), (layout,), mesh) if not isinstance(x, DTensor) else x, (wanted,),
                                                        self.use_local_output)
                      for x, layout, wanted in zip(listed, self.output_layouts, self.desired_output_layouts))
        return found if several else found[0]

    def _apply(self, module, device_mesh):
        module.register_forward_hook(lambda module, inputs, outputs: self._outputs(outputs, device_mesh))
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput of one module."""

    def __init__(self, *, input_layouts=None, desired_input_layouts=None, input_kwarg_layouts=None, desired_input_kwarg_layouts=None, use_local_input=False,
                 output_layouts, desired_output_layouts, use_local_output=True):
        self.prepare_module_input = PrepareModuleInput(input_layouts=input_layouts, desired_input_layouts=desired_input_layouts,
                                                       input_kwarg_layouts=input_kwarg_layouts, use_local_output=use_local_input,
                                                       desired_input_kwarg_layouts=desired_input_kwarg_layouts)
        self.prepare_module_output = PrepareModuleOutput(output_layouts=output_layouts, desired_output_layouts=desired_output_layouts,
                                                         use_local_output=use_local_output)

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
