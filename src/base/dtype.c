/* Dtypes, devices and scalars: small tables, and PyTorch's rule for the dtype of a result of two.
 *
 * Rows for dtypes and devices from outside are filled in while others read: the kind or name, which says that a row is
 * there, is written last. */
#include "base/base.h"
#include "base/float8.h"

#include <pthread.h>
#include <tede/library.h>
#include <stdio.h>

/* BAREBONES: uint16, uint32, uint64.  FOREIGN: from outside.  FLOAT8 and FLOAT4 are promoted with nothing. */
enum kind { BOOL, SIGNED, UNSIGNED, BAREBONES, BITS, QUANTIZED, FOREIGN, FLOAT4, FLOAT8, FLOATING, COMPLEX };

static struct {
    const char *name, *title;
    uint8_t size, kind;
} dtypes[TD_DTYPES] = {
    [TD_BOOL] = {"bool", "Bool", 1, BOOL},
    [TD_U8]   = {"uint8", "Byte", 1, UNSIGNED},
    [TD_I8]   = {"int8", "Char", 1, SIGNED},
    [TD_I16]  = {"int16", "Short", 2, SIGNED},
    [TD_I32]  = {"int32", "Int", 4, SIGNED},
    [TD_I64]  = {"int64", "Long", 8, SIGNED},
    [TD_U16]  = {"uint16", "UInt16", 2, BAREBONES},
    [TD_U32]  = {"uint32", "UInt32", 4, BAREBONES},
    [TD_U64]  = {"uint64", "UInt64", 8, BAREBONES},
    [TD_F16]  = {"float16", "Half", 2, FLOATING},
    [TD_BF16] = {"bfloat16", "BFloat16", 2, FLOATING},
    [TD_F32]  = {"float32", "Float", 4, FLOATING},
    [TD_F64]  = {"float64", "Double", 8, FLOATING},
    [TD_C64]  = {"complex64", "ComplexFloat", 8, COMPLEX},
    [TD_C128] = {"complex128", "ComplexDouble", 16, COMPLEX},
    [TD_C32]  = {"complex32", "ComplexHalf", 4, COMPLEX},
    [TD_F8_E4M3FN]    = {"float8_e4m3fn", "Float8_e4m3fn", 1, FLOAT8},
    [TD_F8_E5M2]      = {"float8_e5m2", "Float8_e5m2", 1, FLOAT8},
    [TD_F8_E4M3FNUZ]  = {"float8_e4m3fnuz", "Float8_e4m3fnuz", 1, FLOAT8},
    [TD_F8_E5M2FNUZ]  = {"float8_e5m2fnuz", "Float8_e5m2fnuz", 1, FLOAT8},
    [TD_F8_E8M0FNU]   = {"float8_e8m0fnu", "Float8_e8m0fnu", 1, FLOAT8},
    [TD_F4_E2M1FN_X2] = {"float4_e2m1fn_x2", "Float4_e2m1fn_x2", 1, FLOAT4},
    [TD_BITS1X8] = {"bits1x8", "Bits1x8", 1, BITS},
    [TD_BITS2X4] = {"bits2x4", "Bits2x4", 1, BITS},
    [TD_BITS4X2] = {"bits4x2", "Bits4x2", 1, BITS},
    [TD_BITS8]   = {"bits8", "Bits8", 1, BITS},
    [TD_BITS16]  = {"bits16", "Bits16", 2, BITS},
    [TD_QI8]   = {"qint8", "QInt8", 1, QUANTIZED},
    [TD_QU8]   = {"quint8", "QUInt8", 1, QUANTIZED},
    [TD_QI32]  = {"qint32", "QInt32", 4, QUANTIZED},
    [TD_QU4X2] = {"quint4x2", "QUInt4x2", 1, QUANTIZED},
    [TD_QU2X4] = {"quint2x4", "QUInt2x4", 1, QUANTIZED},
};

uint8_t td_itemsizes[TD_DTYPES] = {1, 1, 1, 2, 4, 8, 2, 4, 8, 2, 2, 4, 8, 8, 16, 4, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 4, 1, 1};

static inline bool known(td_dtype dtype)
{
    if ((int)dtype < 0 || dtype >= TD_DTYPES)
        return false;
    return dtype < TD_DTYPE_A || __atomic_load_n(&td_itemsizes[dtype], __ATOMIC_ACQUIRE);
}

const char *td_dtype_name(td_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].name : "undefined";
}

const char *td_dtype_title(td_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].title : "Undefined";
}

size_t td_dtype_size(td_dtype dtype)
{
    return known(dtype) ? dtypes[dtype].size : 0;
}

bool td_dtype_is_floating(td_dtype dtype)
{
    return known(dtype) && dtypes[dtype].kind >= FLOAT4 && dtypes[dtype].kind <= FLOATING;
}

bool td_dtype_is_complex(td_dtype dtype)
{
    return known(dtype) && dtypes[dtype].kind == COMPLEX;
}

bool td_dtype_is_integral(td_dtype dtype)
{
    return known(dtype) && dtypes[dtype].kind >= SIGNED && dtypes[dtype].kind <= BAREBONES;
}

bool td_dtype_is_signed(td_dtype dtype)
{
    return known(dtype) && (dtypes[dtype].kind == SIGNED || dtypes[dtype].kind >= FLOAT4 || dtype == TD_QI8 || dtype == TD_QI32) &&
           dtype != TD_F8_E8M0FNU;
}

td_dtype td_dtype_to_real(td_dtype dtype)
{
    return dtype == TD_C64 ? TD_F32 : dtype == TD_C128 ? TD_F64 : dtype == TD_C32 ? TD_F16 : dtype;
}

td_dtype td_dtype_to_complex(td_dtype dtype)
{
    switch (dtype) {
    case TD_F16: case TD_C32:
        return TD_C32;
    case TD_BF16: case TD_F32: case TD_C64:
        return TD_C64;
    case TD_F64: case TD_C128:
        return TD_C128;
    default:
        td_error(TD_E_RUNTIME, "Unknown Complex ScalarType for %s", td_dtype_title(dtype));
        return TD_DTYPE_NONE;
    }
}

/* PyTorch's errors for what has no place in the lattice; the first of these kinds that is there is to blame. */
static td_dtype refuse_promotion(td_dtype a, td_dtype b)
{
    const enum kind ka = dtypes[a].kind, kb = dtypes[b].kind;
    const char *left = dtypes[a].title, *right = dtypes[b].title;
    if (ka == QUANTIZED || kb == QUANTIZED)
        td_error(TD_E_RUNTIME, "promoteTypes with quantized numbers is not handled yet; figure out what the correct rules should be, "
                 "offending types: %s %s", left, right);
    else if (ka == BITS || kb == BITS)
        td_error(TD_E_RUNTIME, "Promotion from %s and %s is unsupported.", left, right);
    else if (ka == FLOAT8 || kb == FLOAT8)
        td_error(TD_E_RUNTIME, "Promotion for Float8 Types is not supported, attempted to promote %s and %s", left, right);
    else
        td_error(TD_E_RUNTIME, "Promotion is not supported of %s and %s", left, right);
    return TD_DTYPE_NONE;
}

/* Kinds are ordered: a result of two kinds has the dtype of the higher one.  Within a kind the wider wins, and what has
 * no order (uint8 with int8, the two halves) goes to the narrowest dtype that holds both.  uint16, uint32 and uint64 go
 * with floats and themselves only.  The complex kind must hold the float's precision. */
td_dtype td_promote_types(td_dtype a, td_dtype b)
{
    if (!known(a) || !known(b)) {
        td_error(TD_E_RUNTIME, "promote_types: undefined dtype");
        return TD_DTYPE_NONE;
    }
    if (a == b)
        return a;
    enum kind ka = dtypes[a].kind, kb = dtypes[b].kind;
    const bool alone = ka == QUANTIZED || kb == QUANTIZED || ka == BITS || kb == BITS || ka == FLOAT8 || kb == FLOAT8;
    if (alone || ((ka == FLOAT4 || kb == FLOAT4) && ka != BAREBONES && kb != BAREBONES))
        return refuse_promotion(a, b);
    if ((ka == BAREBONES && kb != FLOATING && kb != FLOAT4) || (kb == BAREBONES && ka != FLOATING && ka != FLOAT4)) {
        td_error(TD_E_RUNTIME,
                 "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote %s and %s", dtypes[a].title, dtypes[b].title);
        return TD_DTYPE_NONE;
    }
    if (ka == FOREIGN || kb == FOREIGN) {       /* weaker than the other floats, stronger than integers; no two of them */
        if (ka == kb)
            td_error(TD_E_RUNTIME, "Promotion for %s and %s is not supported", dtypes[a].title, dtypes[b].title);
        return ka == kb ? TD_DTYPE_NONE : ka > kb ? a : b;
    }
    if (a == TD_C32 || b == TD_C32) {       /* above integers and float16, and as wide as float16 */
        const td_dtype other = a == TD_C32 ? b : a;
        return other == TD_F16 || (ka != kb && (ka < FLOATING || kb < FLOATING)) ? TD_C32 : td_dtype_to_complex(other);
    }
    if (ka == COMPLEX || kb == COMPLEX)
        return a == TD_C128 || b == TD_C128 || a == TD_F64 || b == TD_F64 ? TD_C128 : TD_C64;
    if (ka == FLOATING && kb == FLOATING)
        return dtypes[a].size == dtypes[b].size ? TD_F32 : dtypes[a].size > dtypes[b].size ? a : b;
    if (ka >= FLOAT4 || kb >= FLOAT4)
        return ka >= FLOAT4 ? a : b;
    if (ka == BOOL || kb == BOOL)
        return ka == BOOL ? b : a;
    if (dtypes[a].size != dtypes[b].size)
        return dtypes[a].size > dtypes[b].size ? a : b;
    return TD_I16;    /* uint8 with int8 */
}

static const td_dtype_kind *foreign[TD_DTYPES - TD_DTYPE_A];
static pthread_mutex_t      lock = PTHREAD_MUTEX_INITIALIZER;

td_dtype td_dtype_register(const td_dtype_kind *kind)
{
    if (td_library_check())
        return TD_DTYPE_NONE;
    if (!kind || !kind->name || !*kind->name || !kind->title || !kind->load || !kind->store)
        return td_error(TD_E_VALUE, "a dtype needs a name, a title, load and store"), TD_DTYPE_NONE;
    if (kind->size != 1 && kind->size != 2 && kind->size != 4 && kind->size != 8)
        return td_error(TD_E_VALUE, "dtype '%s': elements have 1, 2, 4 or 8 bytes, not %zu", kind->name, kind->size), TD_DTYPE_NONE;
    td_dtype made = TD_DTYPE_NONE;
    bool taken = false;
    pthread_mutex_lock(&lock);
    for (td_dtype d = 0; d < TD_DTYPES; d++) {
        taken |= dtypes[d].name && (!strcmp(dtypes[d].name, kind->name) || !strcmp(dtypes[d].title, kind->title));
        if (!dtypes[d].name && made == TD_DTYPE_NONE)
            made = d;
    }
    if (!taken && made != TD_DTYPE_NONE) {
        dtypes[made].name = kind->name, dtypes[made].title = kind->title;
        dtypes[made].size = (uint8_t)kind->size, dtypes[made].kind = FOREIGN;
        foreign[made - TD_DTYPE_A] = kind;
        __atomic_store_n(&td_itemsizes[made], (uint8_t)kind->size, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
    if (taken)
        td_error(TD_E_VALUE, "there is a dtype '%s' already", kind->name);
    else if (made == TD_DTYPE_NONE)
        td_error(TD_E_RUNTIME, "no room for dtype '%s': there are %d from outside already", kind->name, TD_DTYPES - TD_DTYPE_A);
    return taken ? TD_DTYPE_NONE : made;
}

td_dtype_load *td_dtype_loader(td_dtype dtype)
{
    return td_is_foreign_dtype(dtype) ? foreign[dtype - TD_DTYPE_A]->load : td_float8[dtype - TD_F8_E4M3FN].load;
}
td_dtype_store *td_dtype_storer(td_dtype dtype)
{
    return td_is_foreign_dtype(dtype) ? foreign[dtype - TD_DTYPE_A]->store : td_float8[dtype - TD_F8_E4M3FN].store;
}

static int default_dtype = TD_F32;

td_dtype td_default_dtype(void)
{
    return (td_dtype)__atomic_load_n(&default_dtype, __ATOMIC_RELAXED);
}

int td_set_default_dtype(td_dtype dtype)
{
    if (!td_dtype_is_floating(dtype))
        return td_error(TD_E_TYPE, "only floating-point types are supported as the default type; got %s",
                        td_dtype_name(dtype));
    __atomic_store_n(&default_dtype, dtype, __ATOMIC_RELAXED);
    return 0;
}

/* ---- devices */

static const char *device_names[TD_DEVICE_TYPES] = {
    [TD_CPU] = "cpu", [TD_META] = "meta", [TD_CUDA] = "cuda", [TD_OPENCL] = "opencl", [TD_XPU] = "xpu", [TD_MPS] = "mps",
    [TD_HPU] = "hpu",
};

const char *td_device_name(int type)
{
    return (unsigned)type < TD_DEVICE_TYPES ? __atomic_load_n(&device_names[type], __ATOMIC_ACQUIRE) : NULL;
}
void td_device_set_name(int type, const char *name) { __atomic_store_n(&device_names[type], name, __ATOMIC_RELEASE); }

const char *td_device_str(td_device device, char *buffer)
{
    char type[16];
    if (device.type < 0)
        snprintf(type, sizeof type, "none");
    else if (td_device_name(device.type))
        snprintf(type, sizeof type, "%s", td_device_name(device.type));
    else
        snprintf(type, sizeof type, "device%d", device.type);
    if (device.index >= 0)
        snprintf(buffer, 32, "%s:%d", type, device.index);
    else
        snprintf(buffer, 32, "%s", type);
    return buffer;
}

/* type [":" index]: letters, digits and underscores, then a number without leading zeros.  Which errors come first is
 * PyTorch's order: the shape of the string, the index, the type's name. */
int td_device_parse(td_device *device, const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    if (!text || !*text)
        return td_error(TD_E_RUNTIME, "Device string must not be empty");
    size_t length = strspn(text, letters);
    const char *digits = NULL;
    if (text[length] == ':') {
        digits = text + length + 1;
        size_t count = strspn(digits, "0123456789");
        if (count == 0 || digits[count] || (digits[0] == '0' && count > 1))
            return td_error(TD_E_RUNTIME, "Invalid device string: '%s'", text);
    }
    if (length == 0 || (text[length] && !digits))
        return td_error(TD_E_RUNTIME, "Invalid device string: '%s'", text);
    int index = -1;
    if (digits) {
        index = 0;
        for (const char *p = digits; *p && index <= INT8_MAX; p++)
            index = index * 10 + (*p - '0');
        if (index > INT8_MAX)
            return td_error(TD_E_RUNTIME,
                            "Could not parse device index '%s' in device string '%s'; an index is at most %d", digits,
                            text, INT8_MAX);
    }
    for (int type = 0; type < TD_DEVICE_TYPES; type++)
        if (td_device_name(type) && strlen(td_device_name(type)) == length && memcmp(text, td_device_name(type), length) == 0) {
            device->type = (int8_t)type;
            device->index = (int8_t)index;
            return 0;
        }
    return td_error(TD_E_RUNTIME, "Expected one of cpu, cuda, ipu, xpu, mkldnn, opengl, opencl, ideep, hip, ve, fpga, maia, xla, "
                    "lazy, vulkan, mps, meta, hpu, mtia, privateuseone device type at start of device string: %.*s",
                    (int)length, text);
}

/* ---- scalars */

double td_scalar_double(td_scalar s)
{
    switch (s.kind) {
    case TD_SCALAR_FLOAT: case TD_SCALAR_COMPLEX:
        return s.d;
    case TD_SCALAR_UINT:
        return (double)s.u;
    default:
        return (double)s.i;
    }
}

/* What int64 cannot hold becomes its least value, as the processor's own conversion has it; C leaves it undefined. */
int64_t td_scalar_int(td_scalar s)
{
    switch (s.kind) {
    case TD_SCALAR_FLOAT: case TD_SCALAR_COMPLEX:
        return s.d >= -0x1p63 && s.d < 0x1p63 ? (int64_t)s.d : INT64_MIN;
    case TD_SCALAR_UINT:
        return (int64_t)s.u;
    default:
        return s.i;
    }
}

bool td_scalar_bool(td_scalar s)
{
    switch (s.kind) {
    case TD_SCALAR_FLOAT:
        return s.d != 0;
    case TD_SCALAR_COMPLEX:
        return s.d != 0 || s.imag != 0;
    default:
        return s.i != 0;
    }
}
