/* The conversions of float8, by way of float32: see float8.c. */
#ifndef TD_BASE_FLOAT8_H
#define TD_BASE_FLOAT8_H
#include "base/base.h"

/* From TD_F8_E4M3FN on. */
extern const struct td_float8 { td_dtype_load *load; td_dtype_store *store; } td_float8[5];

#endif
