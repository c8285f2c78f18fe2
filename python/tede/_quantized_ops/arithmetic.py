"""Sums, products, concatenation and matrix products of quantized tensors."""
from tede import _C
from tede._quantized_ops.define import operator
from tede._quantized_ops.packed import is_per_tensor
from tede._quantized_ops.rounding import (
    INTEGERS,
    RANGES,
    by_table,
    check_quantized,
    functions,
    nearest,
    operators,
    over,
    quantize,
    quantize_sums,
    rounded,
    single,
    write,
)

_OF_TWO = "(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc"


def _two(name, of, relu):
    def compute(qa, qb, scale, zero_point):
        for x in (qa, qb):
            check_quantized(name, x)
        return operators[of](qa, qb, float(scale), int(zero_point), relu)
    return operator(name + _OF_TWO)(compute)


add, add_relu = _two("add", "_quantized_add", False), _two("add_relu", "_quantized_add", True)
mul, mul_relu = _two("mul", "_quantized_mul", False), _two("mul_relu", "_quantized_mul", True)


def _moved(qa, scale, zero, new_scale, new_zero):
    def moved(x):
        return rounded((x.int_repr().to(_C.float32) - zero) * single(scale / new_scale), x.dtype, new_scale, new_zero)
    return by_table(moved, qa)


def _add_number(qa, b):
    """The integers stay where the zero point can move by the number, else the range is moved."""
    check_quantized("add", qa)
    least, most = RANGES[qa.dtype]
    scale = qa.q_scale()
    zero = qa.q_zero_point() - nearest(float(b) / scale)
    if zero < least:
        return _moved(qa, scale, zero, (most - zero) / (most - least) * scale, least)
    if zero > most:
        return _moved(qa, scale, zero, (zero - least) / (most - least) * scale, most)
    return over(qa.int_repr(), scale, zero)


def _multiply_number(qa, b):
    """The scale is multiplied; a negative number turns the integers round."""
    check_quantized("mul", qa)
    least, most = RANGES[qa.dtype]
    scale, zero, b = qa.q_scale(), qa.q_zero_point(), float(b)
    if b > 0:
        return over(qa.int_repr(), scale * b, zero)
    if b == 0:
        return over(functions["zeros_like"](qa.int_repr()), 1.0, 0)

    def turned(x):
        return over((least + most - x.int_repr().to(_C.int64)).to(INTEGERS[x.dtype]), scale * -b, least + most - zero)
    return by_table(turned, qa)


def _of_a_number(name, compute):
    """All the names and overloads that PyTorch gives an operator on a tensor and a number."""
    for relu in ("", "_relu"):
        def of(qa, b, relu=relu):
            made = compute(qa, b)
            return made.relu() if relu else made

        def other_way(b, qa, of=of):
            return of(qa, b)

        def into(qa, b, out, of=of):
            return write(of(qa, b), out)
        plain, scalar = f"{name}{relu}", f"{name}_scalar{relu}"
        operator(f"{plain}.Scalar(Tensor qa, Scalar b) -> Tensor qc", f"{scalar}(Tensor qa, Scalar b) -> Tensor qc",
                 f"{scalar}.Tensor(Tensor qa, Tensor b) -> Tensor qc")(of)
        operator(f"{plain}.Scalar2(Scalar b, Tensor qa) -> Tensor qc")(other_way)
        operator(f"{plain}.Scalar_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
                 f"{scalar}_out(Tensor qa, Scalar b, Tensor(a!) out) -> Tensor(a!) out",
                 f"{scalar}_out.Tensor(Tensor qa, Tensor b, Tensor(a!) out) -> Tensor(a!) out")(into)


_of_a_number("add", _add_number)
_of_a_number("mul", _multiply_number)


def _into(name, compute):
    @operator(f"{name}_out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out",
              f"{name}.out(Tensor qa, Tensor qb, Tensor(a!) out) -> Tensor(a!) out")
    def into(qa, qb, out):
        return write(compute(qa, qb, out.q_scale(), out.q_zero_point()), out)


for _name, _compute in (("add", add), ("add_relu", add_relu), ("mul", mul), ("mul_relu", mul_relu)):
    _into(_name, _compute)


@operator("cat(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor")
def cat(qx, dim, scale=None, zero_point=None):
    first = qx[0]
    scale = first.q_scale() if scale is None else scale
    zero_point = first.q_zero_point() if zero_point is None else zero_point
    # As PyTorch's loop over images of this format rounds, and the one over others.
    formats = dim == 1 and all(x.dim() == 4 and x.is_contiguous(memory_format=_C.channels_last) for x in qx)
    if first.dtype is not _C.qint32:
        return operators["_quantized_cat"](qx, dim, float(scale), int(zero_point), not formats)
    if not all(map(is_per_tensor, qx)):
        raise RuntimeError("Only per-tensor quantization is supported in 'cat'!")
    return (quantize if formats else quantize_sums)(functions["cat"]([x.dequantize() for x in qx], dim), first.dtype, scale, zero_point)


@operator("cat_relu(Tensor[] qx, int dim, float? scale, int? zero_point) -> Tensor")
def cat_relu(qx, dim, scale=None, zero_point=None):
    return cat(qx, dim, scale, zero_point).relu()


@operator("cat_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)")
def cat_out(qx, dim, out):
    return write(cat(qx, dim, out.q_scale(), out.q_zero_point()), out)


@operator("cat_relu_out(Tensor[] qx, int dim, Tensor(a!) out) -> Tensor(a!)")
def cat_relu_out(qx, dim, out):
    return write(cat_relu(qx, dim, out.q_scale(), out.q_zero_point()), out)


@operator("matmul(Tensor qa, Tensor qb, float scale, int zero_point) -> Tensor qc")
def matmul(qa, qb, scale, zero_point):
    if qa.dtype != qb.dtype:
        raise RuntimeError("MatMul operands should have the same data type.")
    if not (is_per_tensor(qa) and is_per_tensor(qb)):
        raise RuntimeError("Both operands of MatMul should be quantized using per-tensor affine scheme")
    return quantize_sums(qa.dequantize() @ qb.dequantize(), qa.dtype, scale, zero_point)
