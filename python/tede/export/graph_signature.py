"""What the inputs and outputs of an exported graph are."""
from dataclasses import dataclass, field
from enum import Enum, auto

__all__ = ["ConstantArgument", "ExportGraphSignature", "InputKind", "InputSpec", "OutputKind", "OutputSpec", "TensorArgument"]


class InputKind(Enum):
    USER_INPUT, PARAMETER, BUFFER, CONSTANT_TENSOR, CUSTOM_OBJ, TOKEN = (auto() for _ in range(6))


class OutputKind(Enum):
    USER_OUTPUT, LOSS_OUTPUT, BUFFER_MUTATION, GRADIENT_TO_PARAMETER, GRADIENT_TO_USER_INPUT, USER_INPUT_MUTATION, TOKEN, PARAMETER_MUTATION = (
        auto() for _ in range(8))


@dataclass
class TensorArgument:
    name: str


@dataclass
class ConstantArgument:
    name: str
    value: object


@dataclass
class InputSpec:
    """target: the name in the state dict, or of the constant."""
    kind: InputKind
    arg: object
    target: str | None = None
    persistent: bool | None = None


@dataclass
class OutputSpec:
    """target: what is written: a buffer's name in the state dict, or the name of an input."""
    kind: OutputKind
    arg: object
    target: str | None = None


@dataclass
class ExportGraphSignature:
    input_specs: list = field(default_factory=list)
    output_specs: list = field(default_factory=list)

    def _targets(self, kind):
        return tuple(spec.target for spec in self.input_specs if spec.kind is kind)

    def _by_name(self, kind):
        return {spec.arg.name: spec.target for spec in self.input_specs if spec.kind is kind}

    def _written(self, kind):
        return {spec.arg.name: spec.target for spec in self.output_specs if spec.kind is kind}

    @property
    def parameters(self):
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self):
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self):
        return tuple(spec.target for spec in self.input_specs if spec.kind is InputKind.BUFFER and spec.persistent is False)

    @property
    def lifted_tensor_constants(self):
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def user_inputs(self):
        return tuple(spec.arg.value if isinstance(spec.arg, ConstantArgument) else spec.arg.name for spec in self.input_specs
                     if spec.kind is InputKind.USER_INPUT)

    @property
    def user_outputs(self):
        return tuple(spec.arg.value if isinstance(spec.arg, ConstantArgument) else spec.arg.name for spec in self.output_specs
                     if spec.kind is OutputKind.USER_OUTPUT)

    @property
    def inputs_to_parameters(self):
        return self._by_name(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self):
        return self._by_name(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self):
        return self._by_name(InputKind.CONSTANT_TENSOR)

    @property
    def buffers_to_mutate(self):
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self):
        return self._written(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self):
        return self._written(OutputKind.USER_INPUT_MUTATION)
