/* The formats of packed weights as the layers see them; what is in a block is src/kernels/cpu/packed/formats.h's. */
#include <inttypes.h>
#include <tede/packed.h>
#include "base/base.h"

static const td_packed_format formats[TD_PACKED_FORMATS] = {
    [TD_PACKED_INT8] = {"int8", 256, 0, 0},
    [TD_PACKED_INT4_G32] = {"int4_g32", 257, 32, 20},
    [TD_PACKED_INT4_G64] = {"int4_g64", 258, 64, 36},
    [TD_PACKED_INT4_G128] = {"int4_g128", 259, 128, 68},
    [TD_PACKED_Q4_0] = {"q4_0", 2, 32, 18},
    [TD_PACKED_Q8_0] = {"q8_0", 8, 32, 34},
    [TD_PACKED_Q4_K] = {"q4_k", 12, 256, 144},
    [TD_PACKED_Q6_K] = {"q6_k", 14, 256, 210},
    [TD_PACKED_MXFP4] = {"mxfp4", 39, 32, 17},
};

const td_packed_format *td_packed_describe(int format) { return (unsigned)format < TD_PACKED_FORMATS ? &formats[format] : NULL; }

int td_packed_find(const char *name)
{
    for (int i = 0; name && i < TD_PACKED_FORMATS; i++)
        if (strcmp(formats[i].name, name) == 0)
            return i;
    return -1;
}

int td_packed_find_code(int64_t code)
{
    for (int i = 0; i < TD_PACKED_FORMATS; i++)
        if (formats[i].code == code)
            return i;
    return -1;
}

int64_t td_packed_row_bytes(int format, int64_t columns)
{
    const td_packed_format *f = td_packed_describe(format);
    if (!f)
        return td_error(TD_E_VALUE, "%d is no format of packed weights", format);
    if (columns < 0 || columns > INT64_MAX / 256)
        return td_error(TD_E_VALUE, "%s: rows of %" PRId64 " elements don't exist", f->name, columns);
    if (!f->block)              /* the bytes of the row in whole cache lines, and one for the scale */
        return (columns + 63) / 64 * 64 + 64;
    if (columns % f->block)
        return td_error(TD_E_VALUE, "%s: rows of %" PRId64 " elements aren't whole blocks of %d", f->name, columns, f->block);
    return columns / f->block * f->bytes;
}
