/* Conversions from and to formats and dtypes from outside: see foreign.c. */
#ifndef TD_KERNELS_CPU_LOOPS_FOREIGN_H
#define TD_KERNELS_CPU_LOOPS_FOREIGN_H
#include "ops/iterate/iterator.h"

/* NULL for what td_converts() says is only bits; never for other dtypes that there are. */
td_convert_run *td_foreign_converter(td_dtype to, td_dtype from);

#endif
