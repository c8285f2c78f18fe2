"""tede.tracer: records a function's operator calls, to replay them with other inputs.

    recording = tede.tracer.trace(f, x, y)
    print(recording)               # the graph, a line per call
    recording(x2, y2)              # the same calls on other tensors; gradients follow as they do for f

Calls are recorded by schema, as the program makes them. What Python decides between them is not: branches that f took, and
numbers that it read from tensors, are part of the recording. Tensors that f reaches without being given them are
held as they are."""
from tede import _C
from tede.utils import _pytree


class Recording:
    """What trace() gives: called as the function was, with tensors in the same places."""

    def __init__(self, recording, inputs, outputs, tensors):
        self._recording, self._inputs, self._outputs, self._is_tensor = recording, inputs, outputs, tensors

    @property
    def calls(self):
        """The names of the operators, in order."""
        return self._recording.calls()

    def __call__(self, *args):
        leaves, spec = _pytree.tree_flatten(args)
        if spec != self._inputs:
            raise TypeError(f"the arguments have another structure than those that were recorded: {spec}, not {self._inputs}")
        results = iter(self._recording.play([leaf for leaf in leaves if isinstance(leaf, _C.Tensor)]))
        values, out_spec = self._outputs
        return _pytree.tree_unflatten([next(results) if is_tensor else value for is_tensor, value in zip(self._is_tensor, values)],
                                      out_spec)

    def __str__(self):
        return str(self._recording)

    def __repr__(self):
        return f"<Recording of {len(self.calls)} calls>"


def trace(function, *args):
    """Call function(*args), recording what it does; arguments and results may be nested."""
    leaves, spec = _pytree.tree_flatten(args)
    recording = _C._record([leaf for leaf in leaves if isinstance(leaf, _C.Tensor)])
    try:
        result = function(*args)
        values, out_spec = _pytree.tree_flatten(result)
        tensors = [isinstance(value, _C.Tensor) for value in values]
        recording.end([value for value in values if isinstance(value, _C.Tensor)])
    except BaseException:
        recording.abandon()
        raise
    return Recording(recording, spec, ([None if t else v for t, v in zip(tensors, values)], out_spec), tensors)
