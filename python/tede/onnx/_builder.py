"""An ONNX model while it is made: nodes, initializers, and the values that they give."""
import tede

_TYPES = {tede.float32: "FLOAT", tede.float64: "DOUBLE", tede.float16: "FLOAT16", tede.bfloat16: "BFLOAT16", tede.int8: "INT8",
          tede.int16: "INT16", tede.int32: "INT32", tede.int64: "INT64", tede.uint8: "UINT8", tede.uint16: "UINT16", tede.uint32: "UINT32",
          tede.uint64: "UINT64", tede.bool: "BOOL", tede.complex64: "COMPLEX64", tede.complex128: "COMPLEX128"}
_BOOLEAN = {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "And", "Or", "Xor", "Not", "IsNaN", "IsInf"}
_INDICES = {"Shape", "ArgMax", "ArgMin", "NonZero", "Size"}


class Unsupported(NotImplementedError):
    """What has no ONNX here."""


class Value:
    """A value of the graph: its name, dtype, and shape: numbers, names of dimensions that vary, None for other ones that do; or None."""

    def __init__(self, name, dtype, shape=None, number=None):
        self.name, self.dtype, self.shape, self.number = name, dtype, shape, number

    @property
    def rank(self):
        return len(self.shape)


class Builder:
    def __init__(self, onnx, opset):
        self.onnx, self.opset = onnx, opset
        self.nodes, self.initializers, self.known = [], [], {}
        self.names, self.made = set(), {}       # made: name of a value -> (the node's kind, its inputs)

    @staticmethod
    def is_value(x):
        return isinstance(x, Value)

    def elem_type(self, dtype):
        if dtype not in _TYPES:
            raise NotImplementedError(f"torch.onnx.export: ONNX has no {dtype}")
        return getattr(self.onnx.TensorProto, _TYPES[dtype])

    def name(self, like):
        name, n = like, 0
        while name in self.names:
            n += 1
            name = f"{like}_{n}"
        self.names.add(name)
        return name

    # ---- values

    def initializer(self, name, tensor):
        import numpy
        tensor = tensor.detach().cpu().contiguous()
        proto = self.onnx.TensorProto(name=name, data_type=self.elem_type(tensor.dtype), dims=list(tensor.shape))
        if tensor.dtype == tede.bfloat16:
            proto.raw_data = tensor.view(tede.int16).numpy().tobytes()
        else:
            array = tensor.numpy()
            proto.raw_data = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes() if array.dtype != numpy.bool_ else array.tobytes()
        self.initializers.append(proto)
        return Value(name, tensor.dtype, list(tensor.shape))

    def constant(self, x, dtype=None):
        """A number, or nested lists of numbers, or a tensor, as a value; equal ones are one."""
        if self.is_value(x):
            return x
        tensor = x if isinstance(x, tede.Tensor) else tede.tensor(x, dtype=dtype or (tede.int64 if x == [] else None))
        key = tensor.dtype, tuple(tensor.shape), tensor.reshape(-1).tolist().__repr__()
        if key not in self.known:
            self.known[key] = self.initializer(self.name("constant"), tensor)
        return self.known[key]

    def ints(self, numbers):
        """A vector of whole numbers, of which some may be values."""
        numbers = list(numbers) if isinstance(numbers, (tuple, list)) else [numbers]
        if not any(map(self.is_value, numbers)):
            return self.constant(numbers, tede.int64)
        parts = [self.op("Reshape", x, self.constant([1])) if self.is_value(x) else self.constant([x], tede.int64) for x in numbers]
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def cast(self, x, dtype):
        if not self.is_value(x):
            return self.constant(x, dtype)
        if x.dtype == dtype:
            return x
        made = self.op("Cast", x, to=self.elem_type(dtype), dtype=dtype)
        made.shape = x.shape
        return made

    # ---- operators

    def op(self, kind, *inputs, dtype=None, outputs=1, domain="", **attributes):
        """A node of an ONNX operator. Inputs that are numbers become constants: lists of whole ones int64, others of the first value's dtype."""
        like = next((x.dtype for x in inputs if self.is_value(x)), None)
        names, values = [], []
        for x in inputs:
            if x is None:
                names.append("")
                values.append(None)
                continue
            if isinstance(x, (tuple, list)):
                x = self.ints(x)
            elif not self.is_value(x):
                x = self.constant(x, None if isinstance(x, tede.Tensor) else like)
            names.append(x.name)
            values.append(x)
        while names and not names[-1]:
            names.pop()
        dtype = dtype or (tede.bool if kind in _BOOLEAN else tede.int64 if kind in _INDICES else like)
        results = [Value(self.name(kind.lower()), dtype) for _ in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, names, [r.name for r in results], name=self.name("node_" + kind), domain=domain,
                                                     **{name: x for name, x in attributes.items() if x is not None}))
        self.made.update((r.name, (kind, values)) for r in results)
        return results[0] if outputs == 1 else tuple(results)

    def inputs_of(self, x, kind):
        """The inputs of the node that made a value, if it is of this kind; else None."""
        made = self.made.get(x.name) if x is not None else None
        return made[1] if made and made[0] == kind else None

    def prune(self, outputs):
        """Leave out nodes and initializers that these values don't need."""
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                kept.append(node)
                needed.update(node.input)
        self.nodes = kept[::-1]
        self.initializers = [x for x in self.initializers if x.name in needed]
