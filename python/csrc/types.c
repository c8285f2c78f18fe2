/* dtype, layout, memory_format and device as Python objects; finfo and iinfo.
 *
 * The first three are enumerations: one object per code, made once, compared by identity. */
#include "binding.h"
#include <tede/layout.h>
#include <float.h>
#include <tede/promotion.h>

/* Dtypes of PyTorch's that programs name, to compare with or to look up, and that no tensor here has. */
enum { RESERVED = 64 };
static const struct {
    const char *name;
    bool is_signed;
} reserved[] = {
    {"int1", true},      {"int2", true},     {"int3", true},
    {"int4", true},      {"int5", true},     {"int6", true},
    {"int7", true},      {"uint1", false},   {"uint2", false},
    {"uint3", false},    {"uint4", false},   {"uint5", false},
    {"uint6", false},    {"uint7", false},
};

static PyObject *dtypes[TD_DTYPES], *layouts[TD_LAYOUTS], *formats[4];

/* Those from outside get their objects when they are first met. */
static PyObject *object_of(PyTypeObject *type, PyObject **objects, int code)
{
    EnumObject *o = objects[code] ? NULL : PyObject_New(EnumObject, type);
    if (o) {
        o->code = code;
        objects[code] = (PyObject *)o;
    }
    return objects[code] ? objects[code] : (PyErr_Clear(), Py_None);
}
PyObject *td_py_dtype(td_dtype dtype)
{
    if (dtype >= 0 && dtype < TD_DTYPES && TD_UNLIKELY(!dtypes[dtype]))
        return td_dtype_size(dtype) ? object_of(&td_py_dtype_type, dtypes, dtype) : Py_None;
    return dtype >= 0 && dtype < TD_DTYPES ? dtypes[dtype] : Py_None;
}
PyObject *td_py_layout(int layout)
{
    return td_layout_name(layout) ? object_of(&td_py_layout_type, layouts, layout) : Py_None;
}
PyObject *td_py_memory_format(int format)
{
    return format >= 0 && format < 4 ? formats[format] : Py_None;
}

static const char *const format_names[4] = {"contiguous_format", "preserve_format", "channels_last", "channels_last_3d"};

static const char *enum_name(PyObject *self)
{
    int code = ((EnumObject *)self)->code;
    if (Py_IS_TYPE(self, &td_py_dtype_type))
        return code < RESERVED ? td_dtype_name(code) : reserved[code - RESERVED].name;
    if (Py_IS_TYPE(self, &td_py_layout_type))
        return td_layout_name(code);
    return format_names[code];
}
static PyObject *enum_repr(PyObject *self)
{
    return PyUnicode_FromFormat("%s.%s", td_py_package, enum_name(self));
}
/* Pickled as the name of a global of the module. */
static PyObject *enum_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyUnicode_FromString(enum_name(self));
}
static PyObject *enum_same(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_NewRef(self);
}
static PyMethodDef enum_methods[] = {
    {"__reduce__", enum_reduce, METH_NOARGS, NULL},
    {"__copy__", enum_same, METH_NOARGS, NULL},
    {"__deepcopy__", enum_same, METH_O, NULL},
    {NULL},
};

static PyObject *dtype_flag(PyObject *self, void *which)
{
    int code = ((EnumObject *)self)->code;
    if (code >= RESERVED)       /* all of them are integers in a byte */
        return (intptr_t)which > 2 ? PyLong_FromLong(1) : PyBool_FromLong((intptr_t)which == 2 && reserved[code - RESERVED].is_signed);
    switch ((intptr_t)which) {
    case 0: return PyBool_FromLong(td_dtype_is_floating(code));
    case 1: return PyBool_FromLong(td_dtype_is_complex(code));
    case 2:
        if (code >= TD_QI8 && code <= TD_QU2X4)
            return PyErr_Format(PyExc_RuntimeError, "isSignedType not supported for quantized types");
        if (code >= TD_BITS1X8 && code <= TD_BITS16)
            return PyErr_Format(PyExc_RuntimeError, "Bits types are undefined");
        return PyBool_FromLong(td_dtype_is_signed(code));
    default: return PyLong_FromSize_t(td_dtype_size(code));
    }
}
static PyObject *dtype_to(PyObject *self, PyObject *which)
{
    (void)which;
    int code = ((EnumObject *)self)->code;
    return Py_NewRef(code < RESERVED ? td_py_dtype(td_dtype_to_real(code)) : self);
}
static PyObject *dtype_to_complex(PyObject *self, PyObject *unused)
{
    (void)unused;
    td_dtype wide = td_dtype_to_complex(((EnumObject *)self)->code);
    return wide == TD_DTYPE_NONE ? td_py_raise() : Py_NewRef(td_py_dtype(wide));
}
static PyGetSetDef dtype_getset[] = {
    {"is_floating_point", dtype_flag, NULL, NULL, (void *)0},
    {"is_complex", dtype_flag, NULL, NULL, (void *)1},
    {"is_signed", dtype_flag, NULL, NULL, (void *)2},
    {"itemsize", dtype_flag, NULL, NULL, (void *)3},
    {NULL},
};
static PyMethodDef dtype_methods[] = {
    {"__reduce__", enum_reduce, METH_NOARGS, NULL},
    {"__copy__", enum_same, METH_NOARGS, NULL},
    {"__deepcopy__", enum_same, METH_O, NULL},
    {"to_real", dtype_to, METH_NOARGS, NULL},
    {"to_complex", dtype_to_complex, METH_NOARGS, NULL},
    {NULL},
};

#define ENUM_TYPE(variable, text, words, methods, getset) \
    PyTypeObject variable = {                             \
        PyVarObject_HEAD_INIT(NULL, 0).tp_name = text,    \
        .tp_basicsize = sizeof(EnumObject),               \
        .tp_doc = words,                                  \
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, \
        .tp_repr = enum_repr,                             \
        .tp_methods = methods,                            \
        .tp_getset = getset,                              \
    }
ENUM_TYPE(td_py_dtype_type, "tede.dtype", "The type of a tensor's elements.", dtype_methods, dtype_getset);
ENUM_TYPE(td_py_layout_type, "tede.layout", "How a tensor keeps its elements.", enum_methods, NULL);
ENUM_TYPE(td_py_memory_format_type, "tede.memory_format", "The order of a dense tensor's dimensions in memory.",
          enum_methods, NULL);

bool td_py_as_layout(PyObject *o, int64_t *layout)
{
    if (!Py_IS_TYPE(o, &td_py_layout_type))
        return false;
    *layout = ((EnumObject *)o)->code;
    return true;
}

bool td_py_as_dtype(PyObject *o, td_dtype *dtype)
{
    if (Py_IS_TYPE(o, &td_py_dtype_type)) {
        int code = ((EnumObject *)o)->code;
        if (code >= RESERVED)
            return PyErr_Format(PyExc_NotImplementedError, "tede has no tensors of %s", reserved[code - RESERVED].name), false;
        return *dtype = code, true;
    }
    if (o == (PyObject *)&PyFloat_Type)
        return *dtype = TD_F64, true;
    if (o == (PyObject *)&PyLong_Type)
        return *dtype = TD_I64, true;
    if (o == (PyObject *)&PyBool_Type)
        return *dtype = TD_BOOL, true;
    if (o == (PyObject *)&PyComplex_Type)
        return *dtype = TD_C128, true;
    return false;
}

/* ---- device ------------------------------------------------------------------------------------------------- */

PyObject *td_py_device(td_device device)
{
    static PyObject *cpu;     /* the one that nearly everybody asks for */
    bool is_cpu = device.type == TD_CPU && device.index < 0;
    if (is_cpu && cpu)
        return Py_NewRef(cpu);
    DeviceObject *self = PyObject_New(DeviceObject, &td_py_device_type);
    if (!self)
        return NULL;
    self->device = device;
    if (is_cpu)
        cpu = Py_NewRef((PyObject *)self);
    return (PyObject *)self;
}

int td_py_as_device(PyObject *o, td_device *device)
{
    if (Py_IS_TYPE(o, &td_py_device_type))
        return *device = ((DeviceObject *)o)->device, 1;
    if (PyUnicode_Check(o)) {
        const char *text = PyUnicode_AsUTF8(o);
        if (!text)
            return -1;
        if (td_device_parse(device, text) < 0)
            return td_py_raise(), -1;
        return 1;
    }
    if (PyLong_Check(o) && !PyBool_Check(o)) {
        long index = PyLong_AsLong(o);
        if (index == -1 && PyErr_Occurred())
            return -1;
        if (index < 0 || index > 127)
            return PyErr_Format(PyExc_RuntimeError, "Device index must be between 0 and 127, got %ld", index), -1;
        *device = (td_device){TD_CUDA, (int8_t)index};
        return 1;
    }
    return 0;
}

static PyObject *device_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    if (td_py_function_modes > 0)
        return td_py_override_type(type, args, kw);
    static char *names[] = {"type", "index", NULL};
    PyObject *what, *index = NULL;
    if (kw && PyDict_Size(kw) == 1 && PyDict_GetItemString(kw, "device")) {
        what = PyDict_GetItemString(kw, "device");
    } else if (!PyArg_ParseTupleAndKeywords(args, kw, "O|O:device", names, &what, &index)) {
        return NULL;
    }
    td_device device;
    int found = td_py_as_device(what, &device);
    if (found < 0)
        return NULL;
    if (!found)
        return PyErr_Format(PyExc_TypeError, "device(): argument 'type' (position 1) must be str, not %s",
                            Py_TYPE(what)->tp_name);
    if (index && index != Py_None) {
        if (PyUnicode_Check(what) && device.index >= 0)
            return PyErr_Format(PyExc_RuntimeError, "type (string) must not include an index because index was passed "
                                "explicitly: %U", what);
        long n = PyLong_AsLong(index);
        if (n == -1 && PyErr_Occurred())
            return NULL;
        if (n < 0 || n > 127)
            return PyErr_Format(PyExc_RuntimeError, "Device index must not be negative");
        device.index = (int8_t)n;
    }
    return td_py_device(device);
}
static PyObject *device_str(PyObject *self)
{
    char text[32];
    return PyUnicode_FromString(td_device_str(((DeviceObject *)self)->device, text));
}
static PyObject *device_kind(PyObject *self, void *unused)
{
    (void)unused;
    char text[32];
    td_device device = ((DeviceObject *)self)->device;
    device.index = -1;
    return PyUnicode_FromString(td_device_str(device, text));
}
static PyObject *device_repr(PyObject *self)
{
    td_device device = ((DeviceObject *)self)->device;
    PyObject *kind = device_kind(self, NULL), *text = NULL;
    if (kind)
        text = device.index < 0 ? PyUnicode_FromFormat("device(type='%U')", kind)
                                : PyUnicode_FromFormat("device(type='%U', index=%d)", kind, device.index);
    Py_XDECREF(kind);
    return text;
}
static PyObject *device_index(PyObject *self, void *unused)
{
    (void)unused;
    int index = ((DeviceObject *)self)->device.index;
    if (index < 0)
        Py_RETURN_NONE;
    return PyLong_FromLong(index);
}
static PyObject *device_compare(PyObject *a, PyObject *b, int how)
{
    if (!Py_IS_TYPE(a, &td_py_device_type) || !Py_IS_TYPE(b, &td_py_device_type) || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    td_device x = ((DeviceObject *)a)->device, y = ((DeviceObject *)b)->device;
    return PyBool_FromLong((x.type == y.type && x.index == y.index) == (how == Py_EQ));
}
static Py_hash_t device_hash(PyObject *self)
{
    td_device device = ((DeviceObject *)self)->device;
    return (device.type + 1) * 1000003 + device.index + 1;
}
static PyObject *device_reduce(PyObject *self, PyObject *unused)
{
    (void)unused;
    return Py_BuildValue("(O(N))", &td_py_device_type, device_str(self));
}
static PyGetSetDef device_getset[] = {
    {"type", device_kind, NULL, NULL, NULL},
    {"index", device_index, NULL, NULL, NULL},
    {NULL},
};
static PyMethodDef device_methods[] = {
    {"__enter__", td_py_device_enter, METH_NOARGS, "Within it new tensors are made on this device."},
    {"__exit__", td_py_device_exit, METH_VARARGS, NULL},
    {"__reduce__", device_reduce, METH_NOARGS, NULL},
    {"__copy__", enum_same, METH_NOARGS, NULL},
    {"__deepcopy__", enum_same, METH_O, NULL},
    {NULL},
};
PyTypeObject td_py_device_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede.device",
    .tp_basicsize = sizeof(DeviceObject),
    .tp_doc = "Where a tensor lives: a kind of device and perhaps its number.",
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = device_new,
    .tp_repr = device_repr,
    .tp_str = device_str,
    .tp_hash = device_hash,
    .tp_richcompare = device_compare,
    .tp_getset = device_getset,
    .tp_methods = device_methods,
};

/* ---- finfo, iinfo --------------------------------------------------------------------------------------------- */

typedef struct { PyObject_HEAD int code; } InfoObject;
static PyTypeObject finfo_type, iinfo_type;
typedef struct { double eps, max, tiny, resolution, smallest; int bits; } FloatInfo;

static FloatInfo float_info(int code)
{
    switch (td_dtype_to_real(code)) {
    case TD_F8_E4M3FN: return (FloatInfo){0.125, 448, 0x1p-6, 1, 0x1p-9, 8};
    case TD_F8_E5M2: return (FloatInfo){0.25, 57344, 0x1p-14, 1, 0x1p-16, 8};
    case TD_F8_E4M3FNUZ: return (FloatInfo){0.125, 240, 0x1p-7, 1, 0x1p-10, 8};
    case TD_F8_E5M2FNUZ: return (FloatInfo){0.125, 57344, 0x1p-15, 1, 0x1p-17, 8};
    case TD_F8_E8M0FNU: return (FloatInfo){1, 0x1p127, 0x1p-127, 1, 0x1p-127, 8};
    case TD_F16: return (FloatInfo){0x1p-10, 65504., 0x1p-14, 1e-3, 0x1p-24, 16};
    case TD_BF16: return (FloatInfo){0x1p-7, 0x1.fep127, 0x1p-126, 1e-2, 0x1p-133, 16};
    case TD_F32: return (FloatInfo){FLT_EPSILON, FLT_MAX, FLT_MIN, 1e-6, 0x1p-149, 32};
    default: return (FloatInfo){DBL_EPSILON, DBL_MAX, DBL_MIN, 1e-15, 0x1p-1074, 64};
    }
}
enum { INFO_BITS, INFO_EPS, INFO_MAX, INFO_MIN, INFO_TINY, INFO_RESOLUTION, INFO_SMALLEST, INFO_DTYPE };

static PyObject *finfo_get(PyObject *self, void *which)
{
    int code = ((InfoObject *)self)->code;
    FloatInfo f = float_info(code);
    switch ((intptr_t)which) {
    case INFO_BITS: return PyLong_FromLong(f.bits);
    case INFO_EPS: return PyFloat_FromDouble(f.eps);
    case INFO_MAX: return PyFloat_FromDouble(f.max);
    case INFO_MIN: return PyFloat_FromDouble(f.max == 0x1p127 ? f.tiny : -f.max);      /* e8m0 has no sign */
    case INFO_TINY: return PyFloat_FromDouble(f.tiny);
    case INFO_RESOLUTION: return PyFloat_FromDouble(f.resolution);
    case INFO_SMALLEST: return PyFloat_FromDouble(f.smallest);
    default: return PyUnicode_FromString(td_dtype_name(td_dtype_to_real(code)));
    }
}
static PyObject *iinfo_get(PyObject *self, void *which)
{
    int code = ((InfoObject *)self)->code, bits = 8 * (int)td_dtype_size(code);
    switch ((intptr_t)which) {
    case INFO_BITS: return PyLong_FromLong(bits);
    case INFO_MIN: return PyLong_FromLongLong(td_dtype_is_signed(code) ? INT64_MIN >> (64 - bits) : 0);
    case INFO_MAX:
        return td_dtype_is_signed(code) ? PyLong_FromLongLong(INT64_MAX >> (64 - bits))
                                        : PyLong_FromUnsignedLongLong(UINT64_MAX >> (64 - bits));
    default: return PyUnicode_FromString(td_dtype_name(code));
    }
}
static PyObject *info_new(PyTypeObject *type, PyObject *args, PyObject *kw)
{
    static char *names[] = {"type", NULL};
    bool is_float = type == &finfo_type;
    PyObject *what = NULL;
    td_dtype dtype = td_default_dtype();
    if (!PyArg_ParseTupleAndKeywords(args, kw, is_float ? "|O:finfo" : "O:iinfo", names, &what))
        return NULL;
    if (what && !td_py_as_dtype(what, &dtype))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "%s(): argument 'type' (position 1) must be tede.dtype, not %s",
                            is_float ? "finfo" : "iinfo", Py_TYPE(what)->tp_name);
    if (is_float && ((!td_dtype_is_floating(dtype) && !td_dtype_is_complex(dtype)) || dtype == TD_F4_E2M1FN_X2))
        return PyErr_Format(PyExc_TypeError, "torch.finfo() requires a floating point input type. Use torch.iinfo to "
                            "handle '%s'", td_dtype_name(dtype));
    if (!is_float && dtype == TD_BOOL)
        return PyErr_Format(PyExc_TypeError, "torch.bool is not supported by torch.iinfo");
    const bool quantized = dtype == TD_QI8 || dtype == TD_QU8 || dtype == TD_QI32;
    if (!is_float && !td_dtype_is_integral(dtype) && !quantized)
        return PyErr_Format(PyExc_TypeError, "torch.iinfo() requires an integer input type. Use torch.finfo to "
                            "handle '%s'", td_dtype_name(dtype));
    InfoObject *self = (InfoObject *)type->tp_alloc(type, 0);
    if (self)
        self->code = dtype;
    return (PyObject *)self;
}
static PyObject *info_repr(PyObject *self)
{
    static const char *const of_float[] = {"resolution", "min", "max", "eps", "smallest_normal", "tiny", "dtype", NULL};
    static const char *const of_int[] = {"min", "max", "dtype", NULL};
    bool is_float = Py_IS_TYPE(self, &finfo_type);
    PyObject *text = PyUnicode_FromString(is_float ? "finfo(" : "iinfo(");
    for (const char *const *name = is_float ? of_float : of_int; text && *name; name++) {
        PyObject *value = PyObject_GetAttrString(self, *name);
        PyObject *number = value && PyFloat_Check(value)
                               ? PyObject_CallMethod(value, "__format__", "s", "g") : value ? PyObject_Str(value) : NULL;
        PyObject *longer = number ? PyUnicode_FromFormat("%U%s%s=%U", text, name == (is_float ? of_float : of_int) ? "" : ", ",
                                                         *name, number) : NULL;
        Py_XDECREF(value);
        Py_XDECREF(number);
        Py_SETREF(text, longer);
    }
    if (text)
        Py_SETREF(text, PyUnicode_FromFormat("%U)", text));
    return text;
}
static PyObject *info_compare(PyObject *a, PyObject *b, int how)
{
    if (!Py_IS_TYPE(b, Py_TYPE(a)) || (how != Py_EQ && how != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((((InfoObject *)a)->code == ((InfoObject *)b)->code) == (how == Py_EQ));
}
static PyGetSetDef finfo_getset[] = {
    {"bits", finfo_get, NULL, NULL, (void *)INFO_BITS},
    {"eps", finfo_get, NULL, NULL, (void *)INFO_EPS},
    {"max", finfo_get, NULL, NULL, (void *)INFO_MAX},
    {"min", finfo_get, NULL, NULL, (void *)INFO_MIN},
    {"tiny", finfo_get, NULL, NULL, (void *)INFO_TINY},
    {"smallest_normal", finfo_get, NULL, NULL, (void *)INFO_TINY},
    {"smallest_subnormal", finfo_get, NULL, NULL, (void *)INFO_SMALLEST},
    {"resolution", finfo_get, NULL, NULL, (void *)INFO_RESOLUTION},
    {"dtype", finfo_get, NULL, NULL, (void *)INFO_DTYPE},
    {NULL},
};
static PyGetSetDef iinfo_getset[] = {
    {"bits", iinfo_get, NULL, NULL, (void *)INFO_BITS},
    {"max", iinfo_get, NULL, NULL, (void *)INFO_MAX},
    {"min", iinfo_get, NULL, NULL, (void *)INFO_MIN},
    {"dtype", iinfo_get, NULL, NULL, (void *)INFO_DTYPE},
    {NULL},
};
static PyTypeObject finfo_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede.finfo",
    .tp_basicsize = sizeof(InfoObject),
    .tp_doc = "The limits of a floating point dtype.",
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = info_new,
    .tp_repr = info_repr,
    .tp_richcompare = info_compare,
    .tp_getset = finfo_getset,
};
static PyTypeObject iinfo_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "tede.iinfo",
    .tp_basicsize = sizeof(InfoObject),
    .tp_doc = "The limits of an integer dtype.",
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = info_new,
    .tp_repr = info_repr,
    .tp_richcompare = info_compare,
    .tp_getset = iinfo_getset,
};

/* ---- functions of dtypes */

static PyObject *get_default_dtype(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return Py_NewRef(td_py_dtype(td_default_dtype()));
}
static PyObject *set_default_dtype(PyObject *m, PyObject *o)
{
    (void)m;
    if (!Py_IS_TYPE(o, &td_py_dtype_type))
        return PyErr_Format(PyExc_TypeError, "invalid dtype object: only floating-point types are supported as the "
                            "default type");
    if (td_set_default_dtype(((EnumObject *)o)->code) < 0)
        return td_py_raise();
    Py_RETURN_NONE;
}
static PyObject *set_promotion(PyObject *m, PyObject *o)
{
    (void)m;
    static const char *const names[] = {"pytorch", "array_api"};
    const char *name = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : "";
    int rules = 0;
    while (rules < 2 && strcmp(names[rules], name))
        rules++;
    if (rules == 2)
        return PyErr_Format(PyExc_ValueError, "promotion rules are 'pytorch' or 'array_api', not %R", o);
    const char *before = names[td_get_promotion()];
    return td_set_promotion((td_promotion)rules) ? (PyObject *)td_py_raise() : PyUnicode_FromString(before);
}
static PyObject *get_promotion(PyObject *m, PyObject *unused)
{
    (void)m, (void)unused;
    return PyUnicode_FromString(td_get_promotion() == TD_PROMOTION_ARRAY_API ? "array_api" : "pytorch");
}

/* ---- promotion of dtypes that no tensor has: integers of fewer than eight bits */

/* PyTorch's names in errors: UInt4. */
static const char *title_of(int code, char *buffer, size_t size)
{
    if (code < RESERVED)
        return td_dtype_title(code);
    snprintf(buffer, size, "%s", reserved[code - RESERVED].name);
    for (char *c = buffer; *c == 'u' || *c == 'i'; c++) {
        const bool last = *c == 'i';
        *c -= 'a' - 'A';
        if (last)
            break;
    }
    return buffer;
}

/* Unsigned ones are with a float that float, as uint16 is.  What has no promotion at all says so first. */
static PyObject *promote_reserved(PyObject *x, PyObject *y)
{
    const int a = ((EnumObject *)x)->code, b = ((EnumObject *)y)->code, known = a < RESERVED ? a : b < RESERVED ? b : TD_BOOL;
    if (a == b)
        return Py_NewRef(x);
    char buffer[2][32];
    const char *left = title_of(a, buffer[0], sizeof buffer[0]), *right = title_of(b, buffer[1], sizeof buffer[1]);
    if (known >= TD_QI8 && known <= TD_QU2X4)
        return PyErr_Format(PyExc_RuntimeError, "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules "
                            "should be, offending types: %s %s", left, right);
    if (known >= TD_BITS1X8 && known <= TD_BITS16)
        return PyErr_Format(PyExc_RuntimeError, "Promotion from %s and %s is unsupported.", left, right);
    if (known >= TD_F8_E4M3FN && known <= TD_F8_E8M0FNU)
        return PyErr_Format(PyExc_RuntimeError, "Promotion for Float8 Types is not supported, attempted to promote %s and %s", left, right);
    const bool unsigned_a = a >= RESERVED && !reserved[a - RESERVED].is_signed, unsigned_b = b >= RESERVED && !reserved[b - RESERVED].is_signed;
    if (unsigned_a || unsigned_b || (known >= TD_U16 && known <= TD_U64)) {
        if ((unsigned_a || unsigned_b) && td_dtype_is_floating(known))
            return Py_NewRef(unsigned_a ? y : x);
        return PyErr_Format(PyExc_RuntimeError, "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote %s and %s",
                            left, right);
    }
    return PyErr_Format(PyExc_RuntimeError, "Promotion is not supported of %s and %s", left, right);
}

static PyObject *promote_types(PyObject *m, PyObject *args, PyObject *kw)
{
    (void)m;
    static char *names[] = {"type1", "type2", NULL};
    PyObject *x, *y;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "O!O!:promote_types", names, &td_py_dtype_type, &x, &td_py_dtype_type, &y))
        return NULL;
    td_dtype a = ((EnumObject *)x)->code, b = ((EnumObject *)y)->code;
    if ((int)a >= RESERVED || (int)b >= RESERVED)
        return promote_reserved(x, y);
    td_dtype r = td_promote_types(a, b);
    return r == TD_DTYPE_NONE ? td_py_raise() : Py_NewRef(td_py_dtype(r));
}
/* Bits, quantized numbers and dtypes that no tensor has go where integers go, and all but complex ones go to them. */
static int category(td_dtype d, bool target)
{
    if ((int)d >= RESERVED || (d >= TD_BITS1X8 && d <= TD_QU2X4))
        return target ? 2 : 1;
    return td_dtype_is_complex(d) ? 3 : td_dtype_is_floating(d) ? 2 : d == TD_BOOL ? 0 : 1;
}
static PyObject *can_cast(PyObject *m, PyObject *args, PyObject *kw)
{
    (void)m;
    static char *names[] = {"from_", "to", NULL};
    PyObject *x, *y;
    if (!PyArg_ParseTupleAndKeywords(args, kw, "OO!:can_cast", names, &x, &td_py_dtype_type, &y))
        return NULL;
    td_dtype from = TD_BOOL, to = ((EnumObject *)y)->code;
    if (Py_IS_TYPE(x, &td_py_dtype_type))
        from = ((EnumObject *)x)->code;
    else if (!td_py_as_dtype(x, &from))
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "can_cast(): argument 'from_' (position 1) must be tede.dtype, not %s",
                            Py_TYPE(x)->tp_name);
    /* Towards a lower kind of number never; anything else is allowed to lose precision. */
    return PyBool_FromLong(category(from, false) <= category(to, true));
}

/* The dtype or layout of a name that has been registered since the module was made, or whose tensors are pickled as those of such
 * layouts are; or None. */
static PyObject *registered(PyObject *m, PyObject *o)
{
    (void)m;
    const char *name = PyUnicode_AsUTF8(o);
    if (!name)
        return NULL;
    for (int code = TD_DTYPE_A; code < TD_DTYPES; code++)
        if (td_dtype_size(code) && strcmp(td_dtype_name(code), name) == 0)
            return Py_NewRef(td_py_dtype(code));
    const int layout = td_layout_find(name);
    if (layout >= TD_LAYOUTS_KNOWN || layout == TD_PACKED)
        return Py_NewRef(td_py_layout(layout));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"_registered", registered, METH_O, NULL},
    {"get_default_dtype", get_default_dtype, METH_NOARGS, "The dtype of new floating point tensors."},
    {"set_default_dtype", set_default_dtype, METH_O, "set_default_dtype($module, d, /)\n--\n\nChoose the dtype of new floating point tensors."},
    {"_set_promotion", set_promotion, METH_O, "Choose this thread's promotion rules; gives the name of those before."},
    {"get_promotion", get_promotion, METH_NOARGS, "The name of this thread's promotion rules: 'pytorch' or 'array_api'."},
    {"promote_types", (PyCFunction)(void (*)(void))promote_types, METH_VARARGS | METH_KEYWORDS,
     "promote_types($module, type1, type2)\n--\n\nThe smallest dtype that both dtypes fit in, by kind of number."},
    {"can_cast", (PyCFunction)(void (*)(void))can_cast, METH_VARARGS | METH_KEYWORDS,
     "Whether results of dtype `from_` may be stored in `to`."},
    {NULL},
};

static int add_enum(PyObject *module, PyTypeObject *type, PyObject **objects, int code, const char *const *names)
{
    EnumObject *o = PyObject_New(EnumObject, type);
    if (!o)
        return -1;
    o->code = code;
    objects[code] = (PyObject *)o;
    for (; *names; names++)
        if (PyModule_AddObjectRef(module, *names, (PyObject *)o) < 0)
            return -1;
    return 0;
}

int td_py_types_init(PyObject *module)
{
    static PyTypeObject *const types[] = {&td_py_dtype_type, &td_py_layout_type, &td_py_memory_format_type,
                                          &td_py_device_type, &finfo_type, &iinfo_type};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (PyType_Ready(types[i]) < 0 ||
            PyModule_AddObjectRef(module, strchr(types[i]->tp_name, '.') + 1, (PyObject *)types[i]) < 0)
            return -1;
    static const struct { td_dtype code; const char *name; } also[] = {
        {TD_F16, "half"}, {TD_F32, "float"}, {TD_F64, "double"}, {TD_I16, "short"}, {TD_I32, "int"}, {TD_I64, "long"},
        {TD_C64, "cfloat"}, {TD_C128, "cdouble"}, {TD_C32, "chalf"},
    };
    for (int code = 0; code < TD_DTYPE_A; code++) {
        const char *names[3] = {td_dtype_name(code)};
        for (size_t i = 0; i < sizeof also / sizeof *also; i++)
            if (also[i].code == code)
                names[1] = also[i].name;
        if (add_enum(module, &td_py_dtype_type, dtypes, code, names) < 0)
            return -1;
    }
    static PyObject *others[sizeof reserved / sizeof *reserved];
    for (int i = 0; i < (int)(sizeof reserved / sizeof *reserved); i++) {
        if (add_enum(module, &td_py_dtype_type, others, i, (const char *[]){reserved[i].name, NULL}) < 0)
            return -1;
        ((EnumObject *)others[i])->code = RESERVED + i;
    }
    for (int code = 0; code < TD_LAYOUTS_KNOWN; code++)
        if (add_enum(module, &td_py_layout_type, layouts, code, (const char *[]){td_layout_name(code), NULL}) < 0)
            return -1;
    for (int code = 0; code < 4; code++)
        if (add_enum(module, &td_py_memory_format_type, formats, code, (const char *[]){format_names[code], NULL}) < 0)
            return -1;
    return PyModule_AddFunctions(module, functions);
}
