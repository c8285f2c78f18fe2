/* LAPACK, from the library that has the products: functions by name and dtype.
 *
 * The functions are Fortran's: every argument is a pointer, matrices lie in columns, and each string argument is followed,
 * after all others, by its length.  They are called without a prototype, so that one line of code serves four dtypes;
 * what complex forms take beyond the real ones is the caller's business. */
#ifndef TD_LIBS_LAPACK_H
#define TD_LIBS_LAPACK_H
#include <tede/base.h>

typedef void td_lapack_function();

/* "getrf" for TD_F64 is dgetrf; `complex` is its name for complex numbers where that differs ("orgqr", "ungqr").  NULL
 * with an error if there is no LAPACK. */
td_lapack_function *td_lapack(const char *name, const char *complex, td_dtype dtype);

#endif
