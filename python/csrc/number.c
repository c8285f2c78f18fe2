/* + - * / and the rest as number slots, comparisons, and tensors as Python numbers.
 *
 * Two plain tensors, or one and a Python number, go straight to the operator's Tensor overload; all else takes the path
 * of tede.<name>(a, b).  What no operator takes is NotImplemented, so that the other operand's class gets its turn. */
#include <tede/modes.h>
#include <tede/transforms.h>
#include "calls_csrc_number.h"
#include "binding.h"

typedef struct Binary {
    const char      *name;            /* the operator */
    td_tensor     *(*direct)(td_tensor *, td_tensor *);
    bool             tensors_only;    /* numbers are no operands */
    /* Which attribute of Tensor __torch_function__ is passed: for x * y and x *= y where it isn't the operator's name, and for
     * 2 * x where it isn't that method with the operands exchanged. */
    const char      *passed, *passed_inplace, *passed_reflected;
    OperatorObject  *function, *method, *inplace;
} Binary;

enum { ADD, SUB, MUL, DIV, FLOOR, MOD, POW, MATMUL, LSHIFT, RSHIFT, AND, OR, XOR, LT, LE, EQ, NE, GT, GE, N_BINARY };
static Binary binaries[N_BINARY] = {
    [ADD] = {"add", td_add},
    [SUB] = {"sub", td_sub, .passed_reflected = "__rsub__"},
    [MUL] = {"mul", td_mul_tensor},
    [DIV] = {"div", td_div_tensor, .passed_reflected = "__rtruediv__"},
    [FLOOR] = {"floor_divide", td_floor_divide, .passed = "__floordiv__", .passed_reflected = "__rfloordiv__"},
    [MOD] = {"remainder", td_remainder_tensor, .passed_reflected = "__rmod__"},
    [POW] = {"pow", td_pow_tensor_tensor, .passed = "__pow__", .passed_inplace = "__ipow__", .passed_reflected = "__rpow__"},
    [MATMUL] = {"matmul", td_matmul, .tensors_only = true, .passed_reflected = "__rmatmul__"},
    [LSHIFT] = {"bitwise_left_shift", td_bitwise_left_shift_tensor, .passed = "__lshift__", .passed_inplace = "__ilshift__",
                .passed_reflected = "__rlshift__"},
    [RSHIFT] = {"bitwise_right_shift", td_bitwise_right_shift_tensor, .passed = "__rshift__", .passed_inplace = "__irshift__",
                .passed_reflected = "__rrshift__"},
    [AND] = {"bitwise_and", td_bitwise_and_tensor, .passed = "__and__", .passed_inplace = "__iand__"},
    [OR] = {"bitwise_or", td_bitwise_or_tensor, .passed = "__or__", .passed_inplace = "__ior__"},
    [XOR] = {"bitwise_xor", td_bitwise_xor_tensor, .passed = "__xor__", .passed_inplace = "__ixor__"},
    [LT] = {"lt", td_lt_tensor},
    [LE] = {"le", td_le_tensor},
    [EQ] = {"eq", td_eq_tensor, .passed = "__eq__"},
    [NE] = {"ne", td_ne_tensor},
    [GT] = {"gt", td_gt_tensor},
    [GE] = {"ge", td_ge_tensor},
};
static OperatorObject *reciprocal, *negate, *absolute, *invert;

static PyObject *call_heeding(const Binary *b, td_tensor *x, td_tensor *y, bool slow)
{
    td_tensor *result;
    const int way = td_py_heed(slow);
    if (!way)
        return td_py_wrap(b->direct(x, y));
    td_tensor_retain(x), td_tensor_retain(y);
    TD_PY_WORK_BY(way, result = b->direct(x, y));
    td_tensor_release(x), td_tensor_release(y);
    return td_py_wrap(result);
}
static inline PyObject *call_direct(int which, td_tensor *x, td_tensor *y)
{
    const Binary *b = &binaries[which];
    const bool slow = td_tensor_numel(x) + td_tensor_numel(y) > (b->tensors_only ? TD_PY_LONG_HEAVY : TD_PY_LONG);
    if (TD_UNLIKELY(slow | td_py_heeds))
        return call_heeding(b, x, y, slow);
    return td_py_wrap(b->direct(x, y));
}

static bool is_number(PyObject *o)
{
    return PyFloat_Check(o) || PyLong_Check(o) || PyComplex_Check(o) || td_py_is_numpy_scalar(o) || td_py_is_symbolic(o);
}
static bool acceptable(const Binary *b, PyObject *o)
{
    if (td_py_is_tensor(o) || (!b->tensors_only && is_number(o)))
        return true;
    return !td_py_is_numpy_array(o) && td_py_has_override(o);
}

/* Whether somebody takes calls with these operands over. */
static bool taken_over(PyObject *a, PyObject *b)
{
    return td_py_function_modes > 0 || (!td_py_is_exact(a) && td_py_has_override(a)) || (!td_py_is_exact(b) && td_py_has_override(b));
}
/* A TypeError of a handler means that it doesn't know the other operand. */
static PyObject *unless_type_error(PyObject *result)
{
    if (result || !PyErr_ExceptionMatches(PyExc_TypeError))
        return result;
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
}
static PyObject *overridden(const Binary *k, PyObject *a, PyObject *b)
{
    if (td_py_is_tensor(a)) {
        PyObject *result = unless_type_error(td_py_override_method(k->passed ? k->passed : k->name, (PyObject *[]){a, b}, 2));
        /* Python calls the slot that two classes share once: the second operand's turn is here.  Comparisons it reflects itself. */
        if (result != Py_NotImplemented || k >= &binaries[LT] || !td_py_is_tensor(b) || Py_IS_TYPE(a, Py_TYPE(b)))
            return result;
        Py_DECREF(result);
    }
    return unless_type_error(td_py_override_method(k->passed_reflected ? k->passed_reflected : k->name, (PyObject *[]){b, a}, 2));
}

/* 2 + x and 2 * x are x + 2 and x * 2, which is what graphs show. */
static inline bool tensor_first(int which) { return which == ADD || which == MUL; }

static PyObject *slow(int which, PyObject *a, PyObject *b)
{
    Binary *k = &binaries[which];
    if (which == DIV && td_py_is_numpy_array(a) && td_py_is_tensor(b)) {     /* NumPy leaves it to us, products not */
        PyObject *r = td_py_operate(reciprocal, &b, 1), *product = r ? PyNumber_Multiply(r, a) : NULL;
        Py_XDECREF(r);
        return product;
    }
    if (which == EQ && td_py_is_tensor(a) && td_py_is_numpy_array(b)) {     /* NumPy leaves comparisons to us as well */
        td_tensor *x = td_py_from_numpy(b);
        PyObject *other = x ? td_py_wrap(x) : NULL;
        if (!other && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            Py_RETURN_NOTIMPLEMENTED;
        }
        PyObject *result = other ? PyObject_RichCompare(a, other, Py_EQ) : NULL;
        Py_XDECREF(other);
        return result;
    }
    bool compared = b == Py_None && which == EQ && td_py_is_tensor(a) && taken_over(a, b);
    if (!compared && (!acceptable(k, a) || !acceptable(k, b)))
        Py_RETURN_NOTIMPLEMENTED;
    if (taken_over(a, b))
        return overridden(k, a, b);
    bool left = td_py_is_tensor(a);
    if (which == DIV && !left && is_number(a) && reciprocal) {      /* as in PyTorch, with its rounding */
        PyObject *r = td_py_operate(reciprocal, &b, 1);
        PyObject *product = r ? td_py_operate(binaries[MUL].function, (PyObject *[]){r, a}, 2) : NULL;
        Py_XDECREF(r);
        return product;
    }
    OperatorObject *op = left && k->method ? k->method : k->function;
    if (!op)
        return PyErr_Format(PyExc_NotImplementedError, "%s is not among the operators of this build", k->name);
    if (!left && tensor_first(which))
        return td_py_operate(op, (PyObject *[]){b, a}, 2);
    return td_py_operate(op, (PyObject *[]){a, b}, 2);
}

static PyObject *with_number(int which, PyObject *a, PyObject *b, bool left)
{
    PyObject *number = left ? b : a;
    td_scalar value;
    if (PyFloat_CheckExact(number)) {
        value = td_float(PyFloat_AS_DOUBLE(number));
    } else if (PyLong_CheckExact(number)) {
        int overflow;
        value = td_int(PyLong_AsLongLongAndOverflow(number, &overflow));
        if (overflow)
            return slow(which, a, b);
    } else {
        return slow(which, a, b);
    }
    const bool as_written = TD_UNLIKELY(td_py_heeds & TD_PY_CALLS_BACK) && td_py_seen();
    td_tensor *wrapped = as_written ? td_wrapped_number(value) : td_wrapped_number_as(value, td_tensor_dtype(td_py_x(left ? a : b)));
    if (!wrapped)
        return td_py_raise();
    PyObject *result = left                   ? call_direct(which, td_py_x(a), wrapped)
                     : tensor_first(which) ? call_direct(which, td_py_x(b), wrapped)
                                              : call_direct(which, wrapped, td_py_x(b));
    td_tensor_release(wrapped);
    return result;
}

static inline PyObject *binary(int which, PyObject *a, PyObject *b)
{
    bool left = td_py_is_exact(a), right = td_py_is_exact(b);
    if (TD_UNLIKELY(td_py_function_modes > 0))
        return slow(which, a, b);
    if (TD_LIKELY(left && right))
        return call_direct(which, td_py_x(a), td_py_x(b));
    if (which != MATMUL && which != POW && (left || (right && which != DIV)))      /* powers of numbers have a fast path */
        return with_number(which, a, b, left);
    return slow(which, a, b);
}

static PyObject *in_place(int which, PyObject *a, PyObject *b)
{
    Binary *k = &binaries[which];
    if (!acceptable(k, b))
        Py_RETURN_NOTIMPLEMENTED;
    if (k->passed_inplace && taken_over(a, b))
        return unless_type_error(td_py_override_method(k->passed_inplace, (PyObject *[]){a, b}, 2));
    if (!k->inplace)
        return PyErr_Format(PyExc_NotImplementedError, "%s_ is not among the operators of this build", k->name);
    return td_py_operate(k->inplace, (PyObject *[]){a, b}, 2);
}

#define BOTH(name, which)                                                                          \
    static PyObject *number_##name(PyObject *a, PyObject *b) { return binary(which, a, b); }        \
    static PyObject *inplace_##name(PyObject *a, PyObject *b) { return in_place(which, a, b); }
BOTH(add, ADD)
BOTH(sub, SUB)
BOTH(mul, MUL)
BOTH(div, DIV)
BOTH(floor, FLOOR)
BOTH(mod, MOD)
BOTH(lshift, LSHIFT)
BOTH(rshift, RSHIFT)
BOTH(and, AND)
BOTH(or, OR)
BOTH(xor, XOR)
static PyObject *number_matmul(PyObject *a, PyObject *b) { return binary(MATMUL, a, b); }
static PyObject *number_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    if (modulus != Py_None)
        return PyErr_Format(PyExc_TypeError, "pow() of a tensor takes no modulus");
    return binary(POW, a, b);
}
static PyObject *inplace_pow(PyObject *a, PyObject *b, PyObject *modulus)
{
    (void)modulus;
    return in_place(POW, a, b);
}

static PyObject *unary(OperatorObject *op, const char *name, PyObject *a)
{
    if (!op)
        return PyErr_Format(PyExc_NotImplementedError, "%s is not among the operators of this build", name);
    return td_py_operate(op, &a, 1);
}
static PyObject *number_neg(PyObject *a)
{
    return unary(negate, "neg", a);
}
static PyObject *number_abs(PyObject *a)
{
    return unary(absolute, "abs", a);
}
static PyObject *number_pos(PyObject *a)
{
    if (TD_UNLIKELY(td_py_taken_over(a)))
        return td_py_override_method("positive", &a, 1);
    if (td_tensor_dtype(td_py_x(a)) == TD_BOOL)
        return PyErr_Format(PyExc_RuntimeError, "The `+` operator, on a bool tensor is not supported.");
    return Py_NewRef(a);
}
static PyObject *number_invert(PyObject *a)
{
    if (TD_UNLIKELY(td_py_taken_over(a)))
        return td_py_override_method("__invert__", &a, 1);
    td_dtype dtype = td_tensor_dtype(td_py_x(a));
    if (!td_dtype_is_integral(dtype) && dtype != TD_BOOL)
        return PyErr_Format(PyExc_TypeError,
                            "~ (operator.invert) is only implemented on integer and Boolean-type tensors");
    return unary(invert, "bitwise_not", a);
}

/* ---- as Python numbers */

static int value_of(PyObject *a, td_scalar *value)
{
    if (td_tensor_numel(td_py_x(a)) != 1)
        return PyErr_SetString(PyExc_ValueError, "only one element tensors can be converted to Python scalars"), -1;
    return td_py_item(td_py_x(a), value) < 0 ? (td_py_raise(), -1) : 0;
}
static int number_bool(PyObject *a)
{
    if (TD_UNLIKELY(td_py_taken_over(a))) {
        PyObject *answer = td_py_override_method("__bool__", &a, 1);
        int is = answer ? PyObject_IsTrue(answer) : -1;
        Py_XDECREF(answer);
        return is;
    }
    td_scalar value;
    if (td_wrapper_any(td_py_x(a), td_wrapper_is_batch))
        return PyErr_Format(PyExc_RuntimeError, "vmap: It looks like you're attempting to use a Tensor in some data-dependent control "
                            "flow. We don't support that yet, please file an issue at https://github.com/pytorch/pytorch/issues ."), -1;
    int64_t n = td_tensor_numel(td_py_x(a));
    if (n != 1)
        return PyErr_Format(PyExc_RuntimeError, "Boolean value of Tensor with %s is ambiguous",
                            n ? "more than one value" : "no values"), -1;
    if (td_py_item(td_py_x(a), &value) < 0)
        return td_py_raise(), -1;
    return td_scalar_bool(value);
}
static PyObject *number_float(PyObject *a)
{
    if (TD_UNLIKELY(td_py_taken_over(a)))
        return td_py_override_method("__float__", &a, 1);
    td_scalar value;
    if (value_of(a, &value) < 0)
        return NULL;
    static bool warned;
    if ((!warned || td_warn_always()) && td_requires_grad(td_py_x(a))) {
        warned = true;
        if (PyErr_WarnEx(PyExc_UserWarning, "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
                         "Consider using tensor.detach() first.", 1) < 0)
            return NULL;
    }
    if (value.kind == TD_SCALAR_COMPLEX && value.imag != 0)
        return PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type double without overflow");
    return PyFloat_FromDouble(td_scalar_double(value));
}
static PyObject *number_int(PyObject *a)
{
    if (TD_UNLIKELY(td_py_taken_over(a)))
        return td_py_override_method("__int__", &a, 1);
    td_scalar value;
    if (value_of(a, &value) < 0)
        return NULL;
    if (value.kind == TD_SCALAR_FLOAT)
        return PyLong_FromDouble(value.d);
    if (value.kind == TD_SCALAR_COMPLEX)
        return PyErr_Format(PyExc_RuntimeError, "value cannot be converted to type int64_t without overflow");
    PyObject *n = td_py_number_of(value), *whole = n ? PyNumber_Long(n) : NULL;
    Py_XDECREF(n);
    return whole;
}
static PyObject *number_index(PyObject *a)
{
    if (TD_UNLIKELY(td_py_taken_over(a)))
        return td_py_override_method("__index__", &a, 1);
    td_scalar value;
    td_dtype dtype = td_tensor_dtype(td_py_x(a));
    if (td_tensor_numel(td_py_x(a)) != 1 || (!td_dtype_is_integral(dtype) && dtype != TD_BOOL))
        return PyErr_Format(PyExc_TypeError,
                            "only integer tensors of a single element can be converted to an index");
    if (value_of(a, &value) < 0)
        return NULL;
    PyObject *n = td_py_number_of(value), *whole = n ? PyNumber_Long(n) : NULL;
    Py_XDECREF(n);
    return whole;
}

PyObject *td_py_richcompare(PyObject *a, PyObject *b, int how)
{
    static const int which[] = {[Py_LT] = LT, [Py_LE] = LE, [Py_EQ] = EQ, [Py_NE] = NE, [Py_GT] = GT, [Py_GE] = GE};
    return binary(which[how], a, b);
}

PyNumberMethods td_py_number = {
    .nb_add = number_add, .nb_subtract = number_sub, .nb_multiply = number_mul, .nb_true_divide = number_div,
    .nb_floor_divide = number_floor, .nb_remainder = number_mod, .nb_power = number_pow,
    .nb_matrix_multiply = number_matmul, .nb_lshift = number_lshift, .nb_rshift = number_rshift,
    .nb_and = number_and, .nb_or = number_or, .nb_xor = number_xor,
    .nb_inplace_add = inplace_add, .nb_inplace_subtract = inplace_sub, .nb_inplace_multiply = inplace_mul,
    .nb_inplace_true_divide = inplace_div, .nb_inplace_floor_divide = inplace_floor,
    .nb_inplace_remainder = inplace_mod, .nb_inplace_power = inplace_pow, .nb_inplace_lshift = inplace_lshift,
    .nb_inplace_rshift = inplace_rshift, .nb_inplace_and = inplace_and, .nb_inplace_or = inplace_or,
    .nb_inplace_xor = inplace_xor,
    .nb_negative = number_neg, .nb_positive = number_pos, .nb_absolute = number_abs, .nb_invert = number_invert,
    .nb_bool = number_bool, .nb_int = number_int, .nb_float = number_float, .nb_index = number_index,
};

int td_py_number_init(PyObject *module)
{
    (void)module;
    for (int i = 0; i < N_BINARY; i++) {
        Binary *b = &binaries[i];
        char name[48];
        b->function = td_py_find_function(b->name);
        b->method = td_py_find_method(b->name);
        snprintf(name, sizeof name, "%s_", b->name);
        b->inplace = td_py_find_method(name);
    }
    reciprocal = td_py_find_function("reciprocal");
    negate = td_py_find_method("neg");
    absolute = td_py_find_method("abs");
    invert = td_py_find_method("bitwise_not");
    return 0;
}
