/* Mantissas and exponents of 2, by the bits of the float or double (WIDE) that a number is exact in: C's function isn't that of each dialect.
 *
 * A: elements; U: float or double.  What is 0 or isn't finite has the exponent 0, as on the CPU. */
#include "kernels/device/group.ck"

typedef struct frexp_values { int64_t n; } frexp_values;

#ifndef TD_HOST
enum { DIGITS = WIDE ? 52 : 23, HIGHEST = WIDE ? 2047 : 255, HALF = WIDE ? 1022 : 126, SIGN = WIDE ? 63 : 31 };

KERNEL mantissas(BUFFER(x), BUFFER(mantissa), BUFFER(exponent), VALUES(frexp_values, v))
{
    UNPACK(frexp_values, v)
    for (int64_t i = ITEM; i < v.n; i += ITEMS) {
        const uint64_t bits = BITS_OF_NUMBER((U)A_LOAD(AT(const A, x)[i])), one = (uint64_t)1 << DIGITS;
        const int field = (int)(bits >> DIGITS) & HIGHEST, whole = field == HIGHEST || bits << (64 - SIGN) == 0;
        uint64_t digits = bits & (one - 1);
        int power = field ? field : 1;
        for (; !whole && !field && !(digits & one); power--)       /* below the normal numbers */
            digits <<= 1;
        const uint64_t made = (bits >> SIGN << SIGN) | (uint64_t)HALF << DIGITS | (digits & (one - 1));
        AT(A, mantissa)[i] = whole ? AT(const A, x)[i] : A_STORE(NUMBER(made));
        AT(int32_t, exponent)[i] = whole ? 0 : power - HALF;
    }
}
#endif
