"""torch.export: a module's call as a graph of operators that write nothing, with its weights.

`export` records a call (see _recording.py); what it gives has PyTorch's parts: `graph_module`, `graph_signature`, `state_dict`, `module()`, and can
be saved and loaded. Operators are those below autograd, as make_fx notes them: linear is a product and a sum."""
from tede._compat import fill as _fill
from tede.export._dims import Dim, dims
from tede.export._program import ExportedProgram, export, load, save
from tede.export.graph_signature import ExportGraphSignature

__all__ = ["AdditionalInputs", "Constraint", "CustomDecompTable", "Dim", "ExportBackwardSignature", "ExportGraphSignature", "ExportedProgram", "FlatArgsAdapter",
           "ModuleCallEntry", "ModuleCallSignature", "ShapesCollection", "UnflattenedModule", "default_decompositions", "dims", "draft_export", "export",
           "load", "register_dataclass", "save", "unflatten"]

_fill(globals())
