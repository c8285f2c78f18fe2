/* Tensor attributes (getters and setters): shape, dtype, device, grad, data and the rest. */
#include "calls_csrc_properties.h"
#include "binding.h"
#include <tede/transforms.h>
#include <tede/autograd_nodes.h>
#include <tede/layout.h>
#include <tede/modes.h>
#include <tede/packed.h>

/* An attribute of a subclass with a __torch_function__ goes through that. */
#define OVERRIDDEN(name)                                                                     \
    if (TD_UNLIKELY(td_py_taken_over(self)))                                                  \
        return td_py_override_getter(name, self)
#define SET_OVERRIDDEN(name)                                                                 \
    if (TD_UNLIKELY(td_py_taken_over(self)))                                                  \
        return td_py_override_setter(name, self, value)
#define GETTER(name) static PyObject *get_##name(PyObject *self, void *unused)
#define BEGIN(name) (void)unused; OVERRIDDEN(#name); td_tensor *x = td_py_x(self); (void)x

GETTER(shape)
{
    BEGIN(shape);
    return td_py_shape(self);
}
GETTER(dtype)
{
    BEGIN(dtype);
    return Py_NewRef(td_py_dtype(td_tensor_dtype(x)));
}
GETTER(device)
{
    BEGIN(device);
    td_device device;
    return td_py_device_of(self, &device) < 0 ? NULL : td_py_device(device);
}
GETTER(layout)
{
    BEGIN(layout);
    int layout = td_py_layout_of(self);
    return layout < 0 ? NULL : Py_NewRef(td_py_layout(layout));
}
GETTER(ndim)
{
    BEGIN(ndim);
    int n = td_py_dim(self);
    return n < 0 ? NULL : PyLong_FromLong(n);
}
GETTER(itemsize)
{
    BEGIN(itemsize);
    return PyLong_FromSize_t(td_dtype_size(td_tensor_dtype(x)));
}
GETTER(nbytes)
{
    BEGIN(nbytes);
    if (td_packed_blocks(x))                /* which is what its elements are */
        return PyLong_FromLongLong(td_tensor_numel(td_packed_blocks(x)));
    if (td_tensor_layout(x) != TD_STRIDED)
        return PyErr_Format(PyExc_RuntimeError, "nbytes is not defined for sparse tensors.  If you want the size of the constituent "
                            "tensors, add the nbytes of the indices and values.  If you want the size of the  equivalent dense tensor, "
                            "multiply numel() by element_size()");
    int64_t n = td_py_numel(self, "numel");
    return n < 0 ? NULL : PyLong_FromLongLong(n * (int64_t)td_dtype_size(td_tensor_dtype(x)));
}
GETTER(_version)
{
    BEGIN(_version);
    if (td_tensor_is_inference(x))
        return PyErr_Format(PyExc_RuntimeError, "Inference tensors do not track version counter.");
    return PyLong_FromUnsignedLong(td_tensor_version(x));
}
GETTER(_base)
{
    BEGIN(_base);
    return td_py_wrap_borrowed(td_tensor_base(x));
}
GETTER(requires_grad)
{
    BEGIN(requires_grad);
    return PyBool_FromLong(td_requires_grad(x));
}
GETTER(is_leaf)
{
    BEGIN(is_leaf);
    td_node *node = NULL;
    int output;
    if (td_history(x, &node, &output) < 0)
        return td_py_raise();
    td_node_drop(node);
    return PyBool_FromLong(!node);
}
GETTER(grad)
{
    BEGIN(grad);
    td_tensor *grad = td_grad(x);
    if (!grad && !td_is_leaf(x) && !td_py_retains_grad(x) &&
        PyErr_WarnEx(PyExc_UserWarning, "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its "
                     ".grad attribute won't be populated during autograd.backward(). If you indeed want the .grad field to be "
                     "populated for a non-leaf Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make sure you "
                     "access the leaf Tensor instead. See github.com/pytorch/pytorch/pull/30531 for more information.", 1) < 0)
        return NULL;
    PyObject *object = td_py_wrap_borrowed(grad);
    if (object && object != Py_None)
        ((TensorObject *)object)->queries |= TD_PY_STAYS;
    return object;
}
GETTER(grad_dtype)
{
    BEGIN(grad_dtype);
    if (!td_is_leaf(x))
        return PyErr_Format(PyExc_RuntimeError, "grad_dtype can only be accessed on leaf tensors.");
    int dtype = td_grad_dtype(x);
    return Py_NewRef(dtype == TD_ANY_DTYPE ? Py_None : td_py_dtype((td_dtype)dtype));
}
static int set_grad_dtype(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    SET_OVERRIDDEN("grad_dtype");
    td_dtype dtype;
    if (!value)
        return PyErr_SetString(PyExc_RuntimeError, "Cannot delete grad_dtype attribute"), -1;
    bool given = value != Py_None;
    if (given && (PyType_Check(value) || !td_py_as_dtype(value, &dtype)))
        return PyErr_Format(PyExc_RuntimeError, "grad_dtype must be a torch.dtype or None, but got %s", Py_TYPE(value)->tp_name), -1;
    return td_set_grad_dtype(td_py_x(self), given ? (int)dtype : TD_ANY_DTYPE) < 0 ? (td_py_raise(), -1) : 0;
}
GETTER(_grad)
{
    (void)unused;
    return td_py_wrap_borrowed(td_grad(td_py_x(self)));
}
GETTER(grad_fn)
{
    BEGIN(grad_fn);
    return td_py_grad_fn(x);
}
static int set__grad_fn(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    if (!value)
        return PyErr_SetString(PyExc_RuntimeError, "Deletion of _grad_fn not allowed. Detach tensor instead!"), -1;
    if (value != Py_None)
        return PyErr_SetString(PyExc_RuntimeError, "_grad_fn can be only set to None"), -1;
    return td_detach_history(td_py_x(self)) < 0 ? (td_py_raise(), -1) : 0;
}
GETTER(retains_grad)
{
    BEGIN(retains_grad);
    return PyBool_FromLong(td_py_retains_grad(x));
}
GETTER(output_nr)
{
    BEGIN(output_nr);
    td_node *node = NULL;
    int output = 0;
    if (td_history(x, &node, &output) < 0)
        return td_py_raise();
    td_node_drop(node);
    return PyLong_FromLong(node ? output : 0);
}
GETTER(name)
{
    BEGIN(name);
    const char *name = td_tensor_name(x);
    if (name)
        return PyUnicode_FromString(name);
    Py_RETURN_NONE;
}
static int set_name(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    SET_OVERRIDDEN("name");
    const char *name = value && value != Py_None ? PyUnicode_AsUTF8(value) : NULL;
    if (PyErr_Occurred())
        return -1;
    return td_tensor_set_name(td_py_x(self), name) < 0 ? (td_py_raise(), -1) : 0;
}

static int set_requires_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    SET_OVERRIDDEN("requires_grad");
    td_tensor *x = td_py_x(self);
    if (!value || !PyBool_Check(value))
        return PyErr_SetString(PyExc_RuntimeError, "requires_grad must be a bool"), -1;
    if (value == Py_True && !td_is_leaf(x))
        return PyErr_SetString(PyExc_RuntimeError, "you can only change requires_grad flags of leaf variables."), -1;
    return td_set_requires_grad(x, value == Py_True) < 0 ? (td_py_raise(), -1) : 0;
}
static int set_grad(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    SET_OVERRIDDEN("grad");
    if (value && value != Py_None && !td_py_is_tensor(value))
        return PyErr_Format(PyExc_TypeError, "assigned grad expected to be a Tensor or None but got grad of type %s",
                            Py_TYPE(value)->tp_name), -1;
    if (value == self)
        return PyErr_SetString(PyExc_RuntimeError, "can't assign Variable as its own grad"), -1;
    td_tensor *grad = value && value != Py_None ? td_py_x(value) : NULL;
    return td_set_grad(td_py_x(self), grad) < 0 ? (td_py_raise(), -1) : 0;
}
GETTER(data)
{
    BEGIN(data);
    if (td_wrapper_is_batch(x))
        return PyErr_Format(PyExc_RuntimeError, "accessing `data` under vmap transform is not allowed");
    if (TD_UNLIKELY(td_py_seen() || td_tensor_is_python(x))) {      /* what its class or a mode makes of detach, and no longer counted with it */
        td_tensor *detached = td_detach(x);
        if (detached && td_tensor_count_apart(detached) < 0) {
            td_tensor_release(detached);
            detached = NULL;
        }
        return td_py_wrap_as(detached, &td_py_Tensor);
    }
    return td_py_wrap_as(td_tensor_alias(x, true), &td_py_Tensor);
}
static int set_data(PyObject *self, PyObject *value, void *unused)
{
    (void)unused;
    SET_OVERRIDDEN("data");
    if (!value)
        return PyErr_SetString(PyExc_RuntimeError, "Deleting tensor data is not allowed. Delete tensor instead!"), -1;
    if (td_wrapper_is_batch(td_py_x(self)))
        return PyErr_SetString(PyExc_RuntimeError, "mutating directly with `.data` under vmap transform is not allowed."), -1;
    if (!td_py_is_tensor(value))
        return PyErr_Format(PyExc_TypeError, "Variable data has to be a tensor, but got %s", Py_TYPE(value)->tp_name), -1;
    td_dtype dtype = td_tensor_dtype(td_py_x(value));
    if (td_requires_grad(td_py_x(self)) && !td_dtype_is_floating(dtype) && !td_dtype_is_complex(dtype))
        return PyErr_SetString(PyExc_RuntimeError, "data set to a tensor that requires gradients must be floating point or complex "
                               "dtype"), -1;
    td_tensor *x = td_py_x(self);
    td_device before = td_tensor_device(x), now = td_tensor_device(td_py_x(value));
    bool alike = td_tensor_dtype(x) == dtype && before.type == now.type && before.index == now.index;
    if (td_tensor_replace(x, td_py_x(value)) < 0)
        return td_py_raise(), -1;
    if (!alike)
        td_renew_accumulator(x);
    return 0;
}

/* ---- transposes and parts */

static td_tensor *reversed(td_tensor *x)
{
    int64_t dims[TD_MAX_DIMS];
    int ndim = td_tensor_ndim(x);
    for (int i = 0; i < ndim; i++)
        dims[i] = ndim - 1 - i;
    return td_permute(x, ndim, dims);
}
/* Takes over x. */
static PyObject *conjugated(td_tensor *x)
{
    if (!x || !td_dtype_is_complex(td_tensor_dtype(x)))
        return td_py_wrap(x);
    td_tensor *c = td_conj(x);
    td_tensor_release(x);
    return td_py_wrap(c);
}
GETTER(T)
{
    BEGIN(T);
    static bool warned;
    if (td_tensor_ndim(x) != 2 && td_tensor_ndim(x) != 0 && (!warned || td_warn_always())) {
        warned = true;
        if (PyErr_WarnEx(PyExc_UserWarning, "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is "
                         "deprecated and it will throw an error in a future release. Consider `x.mT` to transpose batches of "
                         "matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor.", 1) < 0)
            return NULL;
    }
    return td_py_wrap(reversed(x));
}
/* Of a number: itself, or its conjugate, with PyTorch's warning. */
static PyObject *transposed_number(PyObject *self, const char *name, bool conjugate)
{
    if (PyErr_WarnFormat(PyExc_UserWarning, 1, "Tensor.%s is deprecated on 0-D tensors. %s", name,
                         conjugate ? "Consider using x.conj()." : "This function is the identity in these cases.") < 0)
        return NULL;
    td_tensor *x = td_py_x(self);
    return conjugate && td_dtype_is_complex(td_tensor_dtype(x)) ? td_py_wrap(td_conj(x)) : Py_NewRef(self);
}
GETTER(mT)
{
    BEGIN(mT);
    if (td_tensor_ndim(x) == 0)
        return transposed_number(self, "mT", false);
    if (td_tensor_ndim(x) < 2)
        return PyErr_Format(PyExc_RuntimeError, "tensor.mT is only supported on matrices or batches of matrices. Got %d-D "
                            "tensor.", td_tensor_ndim(x));
    return td_py_wrap(td_transpose_int(x, -2, -1));
}
GETTER(H)
{
    BEGIN(H);
    if (td_tensor_ndim(x) == 0)
        return transposed_number(self, "H", true);
    if (td_tensor_ndim(x) != 0 && td_tensor_ndim(x) != 2)
        return PyErr_Format(PyExc_RuntimeError, "tensor.H is only supported on matrices (2-D tensors). Got %d-D tensor.%s",
                            td_tensor_ndim(x), td_tensor_ndim(x) > 2 ? " For batches of matrices, consider using tensor.mH" : "");
    return conjugated(td_transpose_int(x, 0, 1));
}
GETTER(mH)
{
    BEGIN(mH);
    if (td_tensor_ndim(x) == 0)
        return transposed_number(self, "mH", true);
    if (td_tensor_ndim(x) < 2)
        return PyErr_Format(PyExc_RuntimeError, "tensor.mH is only supported on matrices or batches of matrices. Got %d-D "
                            "tensor.", td_tensor_ndim(x));
    return conjugated(td_transpose_int(x, -2, -1));
}
GETTER(real)
{
    BEGIN(real);
    return td_dtype_is_complex(td_tensor_dtype(x)) ? td_py_wrap(td_real(x)) : Py_NewRef(self);
}
GETTER(imag)
{
    BEGIN(imag);
    if (!td_dtype_is_complex(td_tensor_dtype(x)))
        return PyErr_Format(PyExc_RuntimeError, "imag is not implemented for tensors with non-complex dtypes.");
    return td_py_wrap(td_imag(x));
}
static int set_part(PyObject *self, PyObject *value, void *imaginary)
{
    SET_OVERRIDDEN(imaginary ? "imag" : "real");
    td_tensor *x = td_py_x(self);
    if (!td_dtype_is_complex(td_tensor_dtype(x)) && imaginary)
        return PyErr_SetString(PyExc_RuntimeError, "imag is not implemented for tensors with non-complex dtypes."), -1;
    PyObject *part = imaginary ? get_imag(self, NULL) : get_real(self, NULL);
    PyObject *everything = part ? PySlice_New(NULL, NULL, NULL) : NULL;
    int failed = everything ? td_py_setitem(part, everything, value) : -1;
    Py_XDECREF(everything);
    Py_XDECREF(part);
    return failed;
}

/* ---- kinds of device and layout: data says which device type, -1 what no tensor here is */

/* is_cuda and its like: the attribute's name, for those who take it over, and what makes it true (-1: nothing does). */
typedef struct { const char *name; int kind; } KindCheck;
static PyObject *is_device(PyObject *self, void *check)
{
    const KindCheck *q = check;
    if (td_py_taken_over(self))
        return td_py_override_getter(q->name, self);
    td_device device;
    return td_py_device_of(self, &device) < 0 ? NULL : PyBool_FromLong((int)device.type == q->kind);
}
static PyObject *is_layout(PyObject *self, void *check)
{
    const KindCheck *q = check;
    if (td_py_taken_over(self))
        return td_py_override_getter(q->name, self);
    int layout = td_py_layout_of(self);
    return layout < 0 ? NULL : PyBool_FromLong(layout == q->kind);
}
static PyObject *is_nested(PyObject *self, void *unused)
{
    (void)unused;
    if (td_py_taken_over(self))
        return td_py_override_getter("is_nested", self);
    return PyBool_FromLong((td_tensor_keys(td_py_x(self)) & TD_KEYSET(TD_KEY_NESTED)) != 0);
}
static PyObject *is_quantized(PyObject *self, void *unused)
{
    (void)unused;
    if (td_py_taken_over(self))
        return td_py_override_getter("is_quantized", self);
    const td_dtype dtype = td_tensor_dtype(td_py_x(self));
    return PyBool_FromLong(dtype >= TD_QI8 && dtype <= TD_QU2X4);
}
/* The layout has a number once its library is loaded. */
static PyObject *is_mkldnn(PyObject *self, void *unused)
{
    (void)unused;
    const int layout = td_py_layout_of(self);
    return layout < 0 ? NULL : PyBool_FromLong(layout >= TD_LAYOUTS_KNOWN && strcmp(td_layout_name(layout), "_mkldnn") == 0);
}
#define IS_DEVICE(name, kind) {name, is_device, NULL, "Whether it lies on such a device.", &(KindCheck){name, kind}}
#define IS_LAYOUT(name, kind) {name, is_layout, NULL, "Whether its layout is this one.", &(KindCheck){name, kind}}
GETTER(__array_priority__)
{
    (void)self, (void)unused;
    return PyFloat_FromDouble(1000.);
}
/* Of a time when it was a flag. */
static int warn_volatile(const char *text) { return PyErr_WarnEx(PyExc_UserWarning, text, 1); }
GETTER(volatile)
{
    (void)self, (void)unused;
    if (warn_volatile("volatile was removed (Variable.volatile is always False)") < 0)
        return NULL;
    Py_RETURN_FALSE;
}
static int set_volatile(PyObject *self, PyObject *value, void *unused)
{
    (void)self, (void)value, (void)unused;
    return warn_volatile("volatile was removed and now has no effect. Use `with torch.no_grad():` instead.");
}

static PyObject *get__cdata(PyObject *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(td_py_x(self));
}

PyGetSetDef td_py_getset[] = {
    {"shape", get_shape, NULL, "The sizes of all dimensions.", NULL},
    {"dtype", get_dtype, NULL, "The type of the elements.", NULL},
    {"device", get_device, NULL, "Where the elements are.", NULL},
    {"layout", get_layout, NULL, "How elements are stored: ``tede.strided``, ``tede.sparse_coo``, ...\n\n>>> tede.ones(2).layout\ntede.strided", NULL},
    {"ndim", get_ndim, NULL, "The number of dimensions.", NULL},
    {"itemsize", get_itemsize, NULL, "Bytes of an element.", NULL},
    {"nbytes", get_nbytes, NULL, "Bytes of all elements.", NULL},
    {"_version", get__version, NULL, "How often this memory was written to.", NULL},
    {"_cdata", get__cdata, NULL, "A number that identifies this tensor among all that live.", NULL},
    {"_base", get__base, NULL, "What this is a view of.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether gradients are computed for it.", NULL},
    {"is_leaf", get_is_leaf, NULL, "Whether it has no history.", NULL},
    {"grad", get_grad, set_grad, "The accumulated gradient, or None.", NULL},
    {"grad_dtype", get_grad_dtype, set_grad_dtype, "The dtype that a leaf's gradient must have; None: any.", NULL},
    {"_grad", get__grad, set_grad, NULL, NULL},
    {"grad_fn", get_grad_fn, NULL, "The node of the gradient graph that made it.", NULL},
    {"_grad_fn", get_grad_fn, set__grad_fn, NULL, NULL},
    {"retains_grad", get_retains_grad, NULL, "Whether it isn't a leaf, and gets a ``grad`` nevertheless: see ``retain_grad``.", NULL},
    {"output_nr", get_output_nr, NULL, "Which of the results of ``grad_fn`` it is.", NULL},
    {"name", get_name, set_name, "A name that a program may give it; None without one.", NULL},
    {"data", get_data, set_data, "The same elements, apart from history and version counter.", NULL},
    {"T", get_T, NULL, "The dimensions in reverse order.", NULL},
    {"mT", get_mT, NULL, "The last two dimensions exchanged.", NULL},
    {"H", get_H, NULL, "The conjugate transpose of a matrix.", NULL},
    {"mH", get_mH, NULL, "The conjugate transpose of the last two dimensions.", NULL},
    {"real", get_real, set_part, "The real part, a view.", (void *)0},
    {"imag", get_imag, set_part, "The imaginary part, a view.", (void *)1},
    IS_DEVICE("is_cpu", TD_CPU),
    IS_DEVICE("is_meta", TD_META),
    IS_DEVICE("is_cuda", TD_CUDA),
    IS_LAYOUT("is_sparse", TD_SPARSE_COO),
    IS_LAYOUT("is_sparse_csr", TD_SPARSE_CSR),
    {"is_quantized", is_quantized, NULL, "Whether integers with a scale stand for its elements.", NULL},
    {"is_mkldnn", is_mkldnn, NULL, "Whether its layout is mkldnn.", NULL},
    {"is_nested", is_nested, NULL, "Whether it is a nested tensor, whose components have shapes of their own.", NULL},
    IS_DEVICE("is_xla", -1),
    IS_DEVICE("is_xpu", -1),
    IS_DEVICE("is_ipu", -1),
    IS_DEVICE("is_maia", -1),
    IS_DEVICE("is_mtia", -1),
    IS_DEVICE("is_vulkan", -1),
    IS_DEVICE("is_mps", -1),
    {"__array_priority__", get___array_priority__, NULL, NULL, NULL},
    {"_backward_hooks", td_py_get_hooks, td_py_set_hooks, "Hooks by number, if the program has set it.", NULL},
    {"volatile", get_volatile, set_volatile, "False: ``no_grad`` has taken its place.", NULL},
    {NULL},
};
