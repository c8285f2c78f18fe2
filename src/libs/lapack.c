/* LAPACK's functions by name: see lapack.h. */
#include "libs/lapack.h"

#include <stdio.h>
#include "base/watch.h"
#include "libs/openblas.h"

td_lapack_function *td_lapack(const char *name, const char *complex, td_dtype dtype)
{
    static const char letters[TD_DTYPES] = {[TD_F32] = 's', [TD_F64] = 'd', [TD_C64] = 'c', [TD_C128] = 'z'};
    char full[32];
    snprintf(full, sizeof full, "%c%s_", letters[dtype], td_dtype_is_complex(dtype) && complex ? complex : name);
    void *found = td_openblas_symbol(full);
    if (!found)
        return td_fail(TD_E_RUNTIME, "%s needs LAPACK: install scipy-openblas32, or name a library in TEDE_OPENBLAS", full);
    TD_EMIT(.kind = TD_EVENT_LIBRARY, .name = full);
    td_lapack_function *function;
    *(void **)&function = found;
    return function;
}
