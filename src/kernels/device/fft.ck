/* Fourier transforms of lines, for devices whose vendor has no library: Stockham's form with any radices (Van Loan, "Computational Frameworks for the
 * Fast Fourier Transform", 1.7), which needs no reordering.  A work item makes one number of a pass; roots come from a table.
 *
 * A: complex; R: its real type. */
#include "kernels/device/group.ck"

/* Lines of n; of a pass the radix, the length that is left, and the product of the radices before. */
typedef struct fft_values { int64_t n, total, radix, left, done, squares, backward; } fft_values;

#ifndef TD_HOST
/* exp(-+ 2 pi i k / n), or of k^2 / 2n: in whole numbers down to an eighth of the circle, so that nothing is lost for large k. */
KERNEL fft_roots(BUFFER(roots), VALUES(fft_values, v))
{
    UNPACK(fft_values, v)
    for (int64_t at = ITEM; at < v.n; at += ITEMS) {
        const int64_t whole = v.squares ? 2 * v.n : v.n, k = v.squares ? at * at % whole : at, quarter = 4 * k / whole, rest = 4 * k - quarter * whole;
        const int over = 2 * rest > whole;
        const R_C angle = (R_C)1.5707963267948966 * (R_C)(over ? whole - rest : rest) / (R_C)whole, x = R_cos(angle), y = R_sin(angle);
        const R_C c = over ? y : x, s = over ? x : y;
        const R_C re = quarter == 0 ? c : quarter == 1 ? -s : quarter == 2 ? -c : s, im = quarter == 0 ? s : quarter == 1 ? c : quarter == 2 ? -s : -c;
        AT(A, roots)[at] = A_make(re, v.backward ? im : -im);
    }
}

KERNEL fft_pass(BUFFER(from), BUFFER(to), BUFFER(roots), VALUES(fft_values, v))
{
    UNPACK(fft_values, v)
    const int64_t parts = v.left / v.radix;
    for (int64_t at = ITEM; at < v.total; at += ITEMS) {
        const int64_t line = divided(at, v.n), place = at - line * v.n, t = divided(place, v.done), j = divided(t, v.radix), k = t - j * v.radix;
        GLOBAL const A *x = AT(const A, from) + line * v.n + (place - t * v.done) + j * v.done, *w = AT(const A, roots);
        A sum = A_ZERO;
        int64_t e = j * k;
        for (int64_t r = 0; r < v.radix; r++) {
            sum = A_ADD(sum, A_MUL(x[r * parts * v.done], w[e * v.done]));
            e += parts * k;
            e -= e >= v.left ? v.left : 0;
        }
        AT(A, to)[at] = sum;
    }
}
#endif
