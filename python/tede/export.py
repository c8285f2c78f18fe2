"""Not there: see _absent."""
from tede._absent import module as _module

__getattr__ = _module("export", "programs can't be exported as graphs; save the module's state_dict instead", ("ExportedProgram", "Dim", ))
