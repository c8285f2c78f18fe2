/* Names of dtypes in C++, as GCC writes them: some of PyTorch's messages use them in place of "Short" and "Half". */
#ifndef TD_BASE_NAMES_H
#define TD_BASE_NAMES_H
#include <tede/base.h>

/* "short int", "c10::Half"; a dtype from outside has only its own name. */
static inline const char *td_cpp_name(int dtype)
{
    static const char *const names[TD_DTYPES] = {
        "bool", "unsigned char", "signed char", "short int", "int", "long int", "short unsigned int", "unsigned int", "long unsigned int",
        "c10::Half", "c10::BFloat16", "float", "double", "c10::complex<float>", "c10::complex<double>"};
    return names[dtype] ? names[dtype] : td_dtype_name((td_dtype)dtype);
}

#endif
