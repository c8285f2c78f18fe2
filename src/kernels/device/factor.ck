/* Factorizations of matrices and what solves with them, for devices whose vendor has no library.
 *
 * Matrices lie in columns, one behind the other.  A group of work items takes a matrix (or, of right sides, some columns of one) from its first column
 * to its last: LU with partial pivoting and Cholesky by outer products (Golub and Van Loan, "Matrix Computations", 4th edition, 3.4.1 and 4.2.1), QR by
 * Householder's reflections with LAPACK's signs (5.2.1).  Each step waits for the one before, so that what bounds them is the number of columns.
 * Singular values and eigenvalues by one-sided Jacobi (8.6.3), which turns disjoint pairs of columns at a time.
 *
 * A: the dtype, computed as it is stored; R: its real type.  KIND: the kernel that is wanted. */
#include "kernels/device/group.ck"

#define FACTOR_LU       0
#define FACTOR_CHOLESKY 1
#define FACTOR_QR       2
#define FACTOR_TRIANGLE 3
#define FACTOR_ROWS     4
#define FACTOR_JACOBI   5

/* Of `batch` matrices of m x n; k: columns of the right side, or of Q, `block` of which a group takes.  `row` and `column`: strides of a triangle. */
typedef struct factor_values { int64_t batch, m, n, k, block, row, column, upper, unit, conjugate, backward; } factor_values;

#ifndef TD_HOST
#if A_COMPLEX
#define OVER(x, y)  A_div(x, y)
#define CONJ(x)     A_conj(x)
#define REAL(x)     ((x).real)
#define IMAG(x)     ((x).imag)
#define NUMBER_OF(r) A_make(r, 0)
#else
#define OVER(x, y)  ((x) / (y))
#define CONJ(x)     (x)
#define REAL(x)     (x)
#define IMAG(x)     ((R_C)0)
#define NUMBER_OF(r) (r)
#endif
#define ABS(r)      ((r) < 0 ? -(r) : (r))
/* What LAPACK compares pivots by. */
#define SIZE_OF(x)  (ABS(REAL(x)) + ABS(IMAG(x)))
#define MINUS(x, y) A_ADD(x, A_SCALE(y, -1))
#define OWN(name)   (AT(A, name) + unit * v.m * v.n)

#if KIND == FACTOR_LU
KERNEL factor_lu(BUFFER(matrices), BUFFER(pivots), BUFFER(info), VALUES(factor_values, v))
{
    UNPACK(factor_values, v)
    SHARED R_C largest[WIDTH];
    SHARED int64_t where[WIDTH];
    const int64_t least = v.m < v.n ? v.m : v.n;
    for (int64_t unit = GROUP; unit < v.batch; unit += GROUPS) {
        GLOBAL A *a = OWN(matrices);
        int32_t singular = 0;
        for (int64_t k = 0; k < least; k++) {
            R_C size = -1;
            int64_t at = k;
            for (int64_t i = k + LANE; i < v.m; i += LANES) {
                const R_C own = SIZE_OF(a[i + k * v.m]);
                if (own > size)
                    size = own, at = i;
            }
            largest[LANE] = size, where[LANE] = at;
            for (int span = LANES / 2; span; span /= 2) {
                BARRIER;
                if (LANE < span && (largest[LANE + span] > largest[LANE] || (largest[LANE + span] == largest[LANE] && where[LANE + span] < where[LANE])))
                    largest[LANE] = largest[LANE + span], where[LANE] = where[LANE + span];
            }
            BARRIER;
            at = where[0];
            if (LANE == 0)
                AT(int32_t, pivots)[unit * least + k] = (int32_t)at + 1;
            for (int64_t j = LANE; at != k && j < v.n; j += LANES) {
                const A other = a[k + j * v.m];
                a[k + j * v.m] = a[at + j * v.m], a[at + j * v.m] = other;
            }
            BARRIER;
            const A pivot = a[k + k * v.m];
            if (!A_TRUTH(pivot)) {
                singular = singular ? singular : (int32_t)k + 1;
                continue;
            }
            for (int64_t i = k + 1 + LANE; i < v.m; i += LANES)
                a[i + k * v.m] = OVER(a[i + k * v.m], pivot);
            BARRIER;
            const int64_t rows = v.m - k - 1, rest = rows * (v.n - k - 1);
            for (int64_t at = LANE; at < rest; at += LANES) {
                const int64_t j = divided(at, rows), i = k + 1 + at - j * rows, to = i + (k + 1 + j) * v.m;
                a[to] = MINUS(a[to], A_MUL(a[i + k * v.m], a[k + (k + 1 + j) * v.m]));
            }
            BARRIER;
        }
        if (LANE == 0)
            AT(int32_t, info)[unit] = singular;
    }
}

#elif KIND == FACTOR_CHOLESKY
/* Of the lower triangle; the upper one in columns is the lower one of the transpose, whose factor's transpose is wanted. */
#define ELEMENT(i, j) a[v.upper ? (j) + (i) * v.n : (i) + (j) * v.n]
KERNEL factor_cholesky(BUFFER(matrices), BUFFER(info), VALUES(factor_values, v))
{
    UNPACK(factor_values, v)
    for (int64_t unit = GROUP; unit < v.batch; unit += GROUPS) {
        GLOBAL A *a = OWN(matrices);
        int32_t failed = 0;
        for (int64_t k = 0; k < v.n && !failed; k++) {
            const R_C minor = REAL(ELEMENT(k, k));
            BARRIER;
            failed = minor > 0 ? 0 : (int32_t)k + 1;
            const R_C root = failed ? (R_C)1 : R_sqrt(minor);
            for (int64_t i = k + LANE; i < v.n && !failed; i += LANES)
                ELEMENT(i, k) = i == k ? NUMBER_OF(root) : A_SCALE(ELEMENT(i, k), 1 / root);
            BARRIER;
            const int64_t rows = v.n - k - 1;
            for (int64_t at = LANE; at < rows * rows && !failed; at += LANES) {
                const int64_t column = divided(at, rows), i = k + 1 + at - column * rows, j = k + 1 + column;
                if (i >= j)
                    ELEMENT(i, j) = MINUS(ELEMENT(i, j), A_MUL(ELEMENT(i, k), CONJ(ELEMENT(j, k))));
            }
            BARRIER;
        }
        if (LANE == 0)
            AT(int32_t, info)[unit] = failed;
    }
}

#elif KIND == FACTOR_QR
/* x -= by v (v' x) for columns from `first` to `end` of x, where v is below the diagonal of column k of a. */
#define REFLECT(x, first, end, by)                                                                  \
    for (int64_t j_ = (first) + LANE; j_ < (end); j_ += LANES) {                                    \
        A sum_ = x[k + j_ * v.m];                                                                   \
        for (int64_t i = k + 1; i < v.m; i++)                                                       \
            sum_ = A_ADD(sum_, A_MUL(CONJ(a[i + k * v.m]), x[i + j_ * v.m]));                       \
        sum_ = A_MUL(by, sum_);                                                                     \
        x[k + j_ * v.m] = MINUS(x[k + j_ * v.m], sum_);                                             \
        for (int64_t i = k + 1; i < v.m; i++)                                                       \
            x[i + j_ * v.m] = MINUS(x[i + j_ * v.m], A_MUL(sum_, a[i + k * v.m]));                  \
    }                                                                                               \
    BARRIER
/* a becomes R above the vectors, q k columns of Q; v.unit: as if the diagonal of R were positive, which it isn't then. */
KERNEL factor_qr(BUFFER(matrices), BUFFER(taus), BUFFER(qs), BUFFER(info), VALUES(factor_values, v))
{
    UNPACK(factor_values, v)
    SHARED R_C room[WIDTH];
    const int64_t least = v.m < v.n ? v.m : v.n;
    for (int64_t unit = GROUP; unit < v.batch; unit += GROUPS) {
        GLOBAL A *a = OWN(matrices), *tau = AT(A, taus) + unit * least, *q = AT(A, qs) + unit * v.m * v.k;
        for (int64_t k = 0; k < least; k++) {
            /* Squares of what is divided by the largest don't overflow. */
            const A alpha = a[k + k * v.m];
            R_C large = 0, squares = 0;
            for (int64_t i = k + 1 + LANE; i < v.m; i += LANES)
                large = HIGHER(large, SIZE_OF(a[i + k * v.m]));
            GROUP_FOLD(R_C, room, large, HIGHER);
            const R_C found = HIGHER(large, SIZE_OF(alpha)), scale = found > (R_C)1e-37f ? found : 1, by = 1 / scale;
            for (int64_t i = k + 1 + LANE; i < v.m; i += LANES) {
                const A own = A_SCALE(a[i + k * v.m], by);
                squares += REAL(own) * REAL(own) + IMAG(own) * IMAG(own);
            }
            GROUP_FOLD(R_C, room, squares, PLUS);
            const R_C re = REAL(alpha) * by, im = IMAG(alpha) * by;
            if (squares == 0 && im == 0) {
                if (LANE == 0)
                    tau[k] = A_ZERO;
                BARRIER;
                continue;
            }
            const R_C size = R_sqrt(re * re + im * im + squares), beta = re < 0 ? size : -size;
#if A_COMPLEX
            const A t = A_make((beta - re) / beta, -im / beta), over = A_div(NUMBER_OF(1), A_make((re - beta) * scale, im * scale));
#else
            const A t = (beta - re) / beta, over = 1 / ((re - beta) * scale);
#endif
            for (int64_t i = k + 1 + LANE; i < v.m; i += LANES)
                a[i + k * v.m] = A_MUL(a[i + k * v.m], over);
            if (LANE == 0)
                a[k + k * v.m] = NUMBER_OF(beta * scale), tau[k] = t;
            BARRIER;
            REFLECT(a, k + 1, v.n, CONJ(t));
        }
        for (int64_t at = LANE; at < v.m * v.k; at += LANES) {
            const int64_t j = divided(at, v.m);
            q[at] = NUMBER_OF(j != at - j * v.m ? 0 : v.unit && j < least && REAL(a[j + j * v.m]) < 0 ? -1 : (R_C)1);
        }
        BARRIER;
        for (int64_t k = least - 1; k >= 0; k--) {
            const A t = tau[k];
            REFLECT(q, 0, v.k, t);
        }
        if (LANE == 0)
            AT(int32_t, info)[unit] = 0;
    }
}

#elif KIND == FACTOR_JACOBI
#define LENGTH(x) R_sqrt(REAL(x) * REAL(x) + IMAG(x) * IMAG(x))
/* x and y of `rows` numbers turned: x c - y s e', x s + y c e'. */
#define TURN(x, y, rows)                                                        \
    for (int64_t i = 0; i < (rows); i++) {                                      \
        const A turned_ = A_MUL((y)[i], phase), other_ = (x)[i];                \
        (x)[i] = MINUS(A_SCALE(other_, c), A_SCALE(turned_, s));                \
        (y)[i] = A_ADD(A_SCALE(other_, s), A_SCALE(turned_, c));                \
    }
/* a's columns become orthogonal, and V, of which that is a V, is made with them: pairs meet in the order of a tournament, each lane's in its turn.
 * Singular values are their lengths, the largest first; sorted is a V, and V' is written with v.row and v.column.  Of `backward`, the eigenvalues of what
 * one triangle says: those of a positive matrix, with the shift taken away, the least first, and V in place of V'. */
KERNEL factor_jacobi(BUFFER(matrices), BUFFER(vectors), BUFFER(lengths), BUFFER(values), BUFFER(sorted), BUFFER(sorted_vectors), BUFFER(info),
                     VALUES(factor_values, v))
{
    UNPACK(factor_values, v)
    SHARED R_C room[WIDTH];
    const int64_t players = v.n + v.n % 2;
    const R_C unit_of = sizeof(R_C) == 8 ? (R_C)2.3e-16 : (R_C)1.2e-7f, near = unit_of * R_sqrt((R_C)(v.m < 4 ? 4 : v.m));
    for (int64_t unit = GROUP; unit < v.batch; unit += GROUPS) {
        GLOBAL A *a = OWN(matrices), *w = AT(A, vectors) + unit * v.n * v.n, *b = OWN(sorted), *to = AT(A, sorted_vectors) + unit * v.n * v.n;
        GLOBAL R_C *length = AT(R_C, lengths) + unit * v.n;
        GLOBAL R *value = AT(R, values) + unit * v.n;
        R_C large = 0, squares = 0, moved = 1;
        for (int64_t at = LANE; at < v.n * v.n; at += LANES) {
            const int64_t j = divided(at, v.n), i = at - j * v.n;
            w[at] = NUMBER_OF((R_C)(i == j));
            if (v.backward && i == j)
                a[at] = NUMBER_OF(REAL(a[at]));
            else if (v.backward && (v.upper ? i > j : i < j))
                a[at] = CONJ(a[j + i * v.n]);
        }
        BARRIER;
        for (int64_t at = LANE; at < v.m * v.n; at += LANES)
            large = HIGHER(large, SIZE_OF(a[at]));
        GROUP_FOLD(R_C, room, large, HIGHER);
        const R_C scale = large > (R_C)1e-37f ? large : 1;
        for (int64_t at = LANE; at < v.m * v.n; at += LANES) {
            a[at] = A_SCALE(a[at], 1 / scale);
            squares += REAL(a[at]) * REAL(a[at]) + IMAG(a[at]) * IMAG(a[at]);
        }
        GROUP_FOLD(R_C, room, squares, PLUS);
        /* Columns that are as short as rounding makes them point anywhere. */
        const R_C shift = v.backward ? R_sqrt(squares) : 0, least = squares * unit_of * unit_of;
        for (int64_t i = LANE; i < v.n && v.backward; i += LANES)
            a[i + i * v.m] = A_ADD(a[i + i * v.m], NUMBER_OF(shift));
        BARRIER;
        int32_t sweeps = 0;
        for (; moved != 0 && sweeps < 60; sweeps++) {
            moved = 0;
            for (int64_t round = 0; round < players - 1; round++) {
                for (int64_t k = LANE; k < players / 2; k += LANES) {
                    const int64_t one = (round + k) % (players - 1), other = k ? (round - k + players - 1) % (players - 1) : players - 1;
                    const int64_t p = one < other ? one : other, q = one < other ? other : one;
                    GLOBAL A *x = a + p * v.m, *y = a + q * v.m;
                    R_C xx = 0, yy = 0;
                    A xy = A_ZERO;
                    if (q >= v.n)
                        continue;
                    for (int64_t i = 0; i < v.m; i++) {
                        xx += REAL(x[i]) * REAL(x[i]) + IMAG(x[i]) * IMAG(x[i]);
                        yy += REAL(y[i]) * REAL(y[i]) + IMAG(y[i]) * IMAG(y[i]);
                        xy = A_ADD(xy, A_MUL(CONJ(x[i]), y[i]));
                    }
                    const R_C size = LENGTH(xy);
                    if (size <= near * R_sqrt(xx) * R_sqrt(yy) || (xx <= least && yy <= least))
                        continue;
                    const A phase = A_SCALE(CONJ(xy), 1 / size);
                    const R_C ratio = (yy - xx) / (2 * size), t = (ratio < 0 ? -1 : 1) / (ABS(ratio) + R_sqrt(1 + ratio * ratio));
                    const R_C c = 1 / R_sqrt(1 + t * t), s = c * t;
                    TURN(x, y, v.m)
                    GLOBAL A *vx = w + p * v.n, *vy = w + q * v.n;
                    TURN(vx, vy, v.n)
                    moved = 1;
                }
                BARRIER;
            }
            GROUP_FOLD(R_C, room, moved, HIGHER);
        }
        for (int64_t j = LANE; j < v.n; j += LANES) {
            R_C squares = 0;
            for (int64_t i = 0; i < v.m; i++)
                squares += REAL(a[i + j * v.m]) * REAL(a[i + j * v.m]) + IMAG(a[i + j * v.m]) * IMAG(a[i + j * v.m]);
            length[j] = R_sqrt(squares);
        }
        BARRIER;
        for (int64_t j = LANE; j < v.n; j += LANES) {
            int64_t place = 0;
            for (int64_t i = 0; i < v.n; i++)
                place += (v.backward ? length[i] < length[j] : length[i] > length[j]) || (length[i] == length[j] && i < j);
            value[place] = (R)((length[j] - shift) * scale);
            for (int64_t i = 0; i < v.m && !v.backward; i++)
                b[i + place * v.m] = a[i + j * v.m];
            for (int64_t i = 0; i < v.n; i++)
                to[i * v.row + place * v.column] = v.conjugate ? CONJ(w[i + j * v.n]) : w[i + j * v.n];
        }
        BARRIER;
        if (LANE == 0)
            AT(int32_t, info)[unit] = moved != 0 ? sweeps : 0;
    }
}

#elif KIND == FACTOR_TRIANGLE
/* b := t^-1 b for n x n triangles with any strides. */
KERNEL factor_triangle(BUFFER(triangles), BUFFER(sides), VALUES(factor_values, v))
{
    UNPACK(factor_values, v)
    const int64_t blocks = (v.k + v.block - 1) / v.block;
    for (int64_t unit = GROUP; unit < v.batch * blocks; unit += GROUPS) {
        const int64_t matrix = divided(unit, blocks), first = (unit - matrix * blocks) * v.block, columns = v.k - first < v.block ? v.k - first : v.block;
        GLOBAL const A *t = AT(const A, triangles) + matrix * v.n * v.n;
        GLOBAL A *b = AT(A, sides) + (matrix * v.k + first) * v.n;
        for (int64_t s = 0; s < v.n; s++) {
            const int64_t r = v.upper ? v.n - 1 - s : s, rest = v.n - 1 - s;
            const A pivot = v.conjugate ? CONJ(t[r * v.row + r * v.column]) : t[r * v.row + r * v.column];
            for (int64_t j = LANE; j < columns && !v.unit; j += LANES)
                b[r + j * v.n] = OVER(b[r + j * v.n], pivot);
            BARRIER;
            for (int64_t at = LANE; at < rest * columns; at += LANES) {
                const int64_t j = divided(at, rest), other = at - j * rest, i = v.upper ? other : r + 1 + other;
                const A factor = v.conjugate ? CONJ(t[i * v.row + r * v.column]) : t[i * v.row + r * v.column];
                b[i + j * v.n] = MINUS(b[i + j * v.n], A_MUL(factor, b[r + j * v.n]));
            }
            BARRIER;
        }
    }
}

#else
/* Rows exchanged by m pivots from 1 on, of which those that lie outside are left out; `backward`: the last first. */
KERNEL factor_rows(BUFFER(pivots), BUFFER(sides), VALUES(factor_values, v))
{
    UNPACK(factor_values, v)
    for (int64_t unit = ITEM; unit < v.batch * v.k; unit += ITEMS) {
        GLOBAL const int32_t *at = AT(const int32_t, pivots) + divided(unit, v.k) * v.m;
        GLOBAL A *b = AT(A, sides) + unit * v.n;
        for (int64_t s = 0; s < v.m; s++) {
            const int64_t i = v.backward ? v.m - 1 - s : s, j = at[i] - 1;
            if (i < v.n && j >= 0 && j < v.n) {
                const A other = b[i];
                b[i] = b[j], b[j] = other;
            }
        }
    }
}
#endif
#endif
