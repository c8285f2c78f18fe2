/* Names: what one may be called that is registered, and those of dtypes in C++. */
#ifndef TD_BASE_NAMES_H
#define TD_BASE_NAMES_H
#include <ctype.h>
#include <string.h>
#include <tede/base.h>

/* Whether it has 1 to 15 letters, digits and underscores, no digit first: as devices and engines are called. */
static inline bool td_is_short_name(const char *name)
{
    bool good = name && *name && !isdigit((unsigned char)*name) && strnlen(name, 16) < 16;
    for (const char *c = name; good && *c; c++)
        good = isalnum((unsigned char)*c) || *c == '_';
    return good;
}

/* As GCC writes them, "short int", "c10::Half", which some of PyTorch's messages have in place of "Short" and "Half"; a dtype from outside has only its own name. */
static inline const char *td_cpp_name(int dtype)
{
    static const char *const names[TD_DTYPES] = {
        "bool", "unsigned char", "signed char", "short int", "int", "long int", "short unsigned int", "unsigned int", "long unsigned int",
        "c10::Half", "c10::BFloat16", "float", "double", "c10::complex<float>", "c10::complex<double>", "c10::complex<c10::Half>",
        "c10::Float8_e4m3fn", "c10::Float8_e5m2", "c10::Float8_e4m3fnuz", "c10::Float8_e5m2fnuz", "c10::Float8_e8m0fnu",
        "c10::Float4_e2m1fn_x2", "c10::bits1x8", "c10::bits2x4", "c10::bits4x2", "c10::bits8", "c10::bits16", "c10::qint8", "c10::quint8",
        "c10::qint32", "c10::quint4x2", "c10::quint2x4"};
    return names[dtype] ? names[dtype] : td_dtype_name((td_dtype)dtype);
}

#endif
