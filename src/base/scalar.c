/* Arithmetic on scalars: see scalar.h. */
#include "base/scalar.h"

#include <math.h>

static bool is_complex(td_scalar a) { return a.kind == TD_SCALAR_COMPLEX; }
static bool both_int(td_scalar a, td_scalar b)
{
    return (a.kind == TD_SCALAR_INT || a.kind == TD_SCALAR_BOOL) && (b.kind == TD_SCALAR_INT || b.kind == TD_SCALAR_BOOL);
}
static double imag_of(td_scalar a) { return is_complex(a) ? a.imag : 0; }

td_scalar td_scalar_neg(td_scalar a)
{
    if (is_complex(a))
        return td_complex(-a.d, -a.imag);
    if (a.kind == TD_SCALAR_FLOAT)
        return td_float(-a.d);
    td_scalar negative = td_int(-td_scalar_int(a));     /* of -2**63: 2**63, which has the same bits */
    negative.kind = a.kind != TD_SCALAR_UINT && negative.i == INT64_MIN ? TD_SCALAR_UINT : TD_SCALAR_INT;
    return negative;
}
td_scalar td_scalar_conj(td_scalar a) { return is_complex(a) ? td_complex(a.d, -a.imag) : a; }
bool td_scalar_equals(td_scalar a, td_scalar b) { return td_scalar_double(a) == td_scalar_double(b) && imag_of(a) == imag_of(b); }
td_scalar td_scalar_add(td_scalar a, td_scalar b)
{
    int64_t sum;
    if (both_int(a, b) && !__builtin_add_overflow(a.i, b.i, &sum))      /* else a float */
        return td_int(sum);
    double real = td_scalar_double(a) + td_scalar_double(b);
    return is_complex(a) || is_complex(b) ? td_complex(real, imag_of(a) + imag_of(b)) : td_float(real);
}
td_scalar td_scalar_sub(td_scalar a, td_scalar b) { return td_scalar_add(a, td_scalar_neg(b)); }
td_scalar td_scalar_mul(td_scalar a, td_scalar b)
{
    int64_t product;
    if (both_int(a, b) && !__builtin_mul_overflow(a.i, b.i, &product))
        return td_int(product);
    double x = td_scalar_double(a), y = td_scalar_double(b);
    if (!is_complex(a) && !is_complex(b))
        return td_float(x * y);
    return td_complex(x * y - imag_of(a) * imag_of(b), x * imag_of(b) + imag_of(a) * y);
}
