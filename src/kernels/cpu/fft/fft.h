/* Discrete Fourier transforms of lines.
 *
 * A plan knows one length: its factors and the powers of its root of unity; for lengths with a prime factor above
 * TD_FFT_RADIX the chirp of Bluestein's method, by which the transform becomes a convolution of a smooth length; for long
 * ones the plans of the columns and rows that it is cut into.  Roots are computed in double; a plan
 * keeps them in its own precision. */
#ifndef TD_KERNELS_CPU_FFT_FFT_H
#define TD_KERNELS_CPU_FFT_FFT_H
#include "kernels/cpu/isa/isa.h"

enum { TD_FFT_RADIX = 31, TD_FFT_FACTORS = 48,
       TD_FFT_BLOCK = 16,               /* lines that are transformed side by side, at most */
       TD_FFT_SPLIT = 256,              /* from here on a line alone is cut into columns and rows, */
       TD_FFT_PARTS = 1024,             /* from here on lines side by side */
       TD_FFT_SIDE = 4096 };            /* up to here lines may go side by side: the second cache holds them */

typedef struct td_fft_plan {
    int64_t n;
    int     n_factors, factors[TD_FFT_FACTORS];
    bool    wide;                       /* double precision */
    bool    real;                       /* for real lines of an even length: only `half` is used */
    void   *roots;                      /* n complex numbers, exp(-2 pi i k / n); NULL where only columns and rows are used */
    /* Columns and rows: number k of column j meets exp(-2 pi i k j / n). */
    struct td_fft_plan *columns, *rows; /* or NULL; columns->n * rows->n == n */
    void   *fine;                       /* [columns->n][2][TD_FFT_BLOCK]: real and imaginary parts for j within a block */
    void   *coarse;                     /* [columns->n][blocks of columns] complex numbers, for the blocks' first j */
    struct td_fft_plan *half;           /* of n / 2 numbers, or NULL */
    void   *half_roots;                 /* n / 2 numbers, exp(-2 pi i k / n) */
    /* Bluestein */
    struct td_fft_plan *inner;          /* of the convolution's length, or NULL */
    void   *chirp;                      /* n numbers, exp(-pi i k^2 / n) */
    void   *filter;                     /* the transform of its conjugate, inner->n numbers, divided by that length */
    int64_t references;
    size_t  bytes;
} td_fft_plan;

/* How the lines of a job look at either end. */
typedef enum td_fft_end { TD_FFT_COMPLEX, TD_FFT_REAL, TD_FFT_HALF } td_fft_end;

/* Lines of an [outer][length][inner] array each.  `from` has n_from elements per line (HALF: the first n / 2 + 1 of a
 * line whose others are their conjugates), `to` has n_to.  A task is TD_FFT_BLOCK lines side by side, or one line. */
typedef struct td_fft_job {
    const td_fft_plan *plan;
    const void *from;
    void       *to;
    int64_t     inner, n_from, n_to, lines;
    td_fft_end  from_end, to_end;
    bool        forward, side;
    double      scale;
    int64_t     scratch;                /* numbers of a line in work */
    int64_t     split_scratch;          /* the longest column or row */
    int         failed;
} td_fft_job;

typedef struct td_fft_table {
    td_loop_body *tasks[2];             /* float32, float64 */
} td_fft_table;

TD_ISA_TABLES(td_fft_table, td_fft_table);

#endif
