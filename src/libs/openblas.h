/* OpenBLAS, opened on first use: who never multiplies large matrices doesn't pay for it.
 *
 * It always runs on one thread: our kernels cut products into tiles and hand these to td_parallel_for. */
#ifndef TD_LIBS_OPENBLAS_H
#define TD_LIBS_OPENBLAS_H

enum { TD_CBLAS_ROW_MAJOR = 101, TD_CBLAS_NO_TRANS = 111, TD_CBLAS_TRANS = 112 };

typedef struct td_openblas {
    void (*sgemm)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                  const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                  const double *b, int ldb, double beta, double *c, int ldc);
    void (*cgemm)(int order, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda,
                  const void *b, int ldb, const void *beta, void *c, int ldc);
    void (*zgemm)(int order, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int lda,
                  const void *b, int ldb, const void *beta, void *c, int ldc);
    const char *core;       /* "SkylakeX": whose kernels it runs; "" if it doesn't say */
    const char *path;       /* the file that was opened */
} td_openblas;

/* The table, or NULL if the machine has no OpenBLAS (no error is recorded: there are other kernels). */
const td_openblas *td_openblas_get(void);
/* A function of it by its Fortran or C name ("dgesv_"), for LAPACK; NULL if it isn't there. */
void *td_openblas_symbol(const char *name);

#endif
