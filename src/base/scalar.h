/* Arithmetic on scalars by Python's rules: integers stay exact where they fit. */
#ifndef TD_BASE_SCALAR_H
#define TD_BASE_SCALAR_H
#include <tede/base.h>

td_scalar td_scalar_conj(td_scalar a);
bool td_scalar_equals(td_scalar a, td_scalar b);
td_scalar td_scalar_neg(td_scalar a);
td_scalar td_scalar_add(td_scalar a, td_scalar b);
td_scalar td_scalar_sub(td_scalar a, td_scalar b);
td_scalar td_scalar_mul(td_scalar a, td_scalar b);

#endif
