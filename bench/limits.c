/* What this machine can do at most, by one thread: bytes per second of a triad over arrays of several sizes, and float32
 * operations per second of fused multiply-adds in registers.  Prints one line for each: name, bytes of the arrays, figure. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__AVX512F__)
enum { WIDTH = 64 };
#elif defined(__AVX__)
enum { WIDTH = 32 };
#else
enum { WIDTH = 16 };
#endif
typedef float vec __attribute__((vector_size(WIDTH), aligned(WIDTH)));

enum { CHAINS = 12, TURNS = 400000, REPEATS = 7 };      /* as many as fit in registers, and cover the latency */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double triad(size_t bytes)
{
    size_t n = bytes / 3 / sizeof(vec) + 1, turns = ((size_t)1 << 27) / bytes + 1;
    vec *a = aligned_alloc(WIDTH, n * sizeof *a), *b = aligned_alloc(WIDTH, n * sizeof *b), *c = aligned_alloc(WIDTH, n * sizeof *c);
    double best = 0;
    if (!a || !b || !c)
        exit(1);
    for (size_t i = 0; i < n; i++)
        a[i] = b[i] = c[i] = (vec){1};
    for (int r = 0; r < REPEATS; r++) {
        double start = now();
        for (size_t t = 0; t < turns; t++) {
            for (size_t i = 0; i < n; i++)
                a[i] = b[i] + 0.5f * c[i];
            __asm__ volatile("" : : "r"(a) : "memory");
        }
        double rate = 3.0 * (double)(n * sizeof *a * turns) / (now() - start);
        best = rate > best ? rate : best;
    }
    free(a), free(b), free(c);
    return best;
}

static double multiply_add(void)
{
    double best = 0;
    for (int r = 0; r < REPEATS; r++) {
        vec x[CHAINS], factor = (vec){0} + 0.999f, term = (vec){0} + 0.125f;
#pragma GCC unroll 12
        for (int i = 0; i < CHAINS; i++)
            x[i] = (vec){0} + (float)i;
        double start = now();
        for (int t = 0; t < TURNS; t++) {
#pragma GCC unroll 12
            for (int i = 0; i < CHAINS; i++)
                x[i] = x[i] * factor + term;
            __asm__ volatile("");       /* else the compiler would do one chain after the other */
        }
        double rate = 2.0 * (WIDTH / 4) * CHAINS * TURNS / (now() - start);
        vec sum = x[0];
#pragma GCC unroll 12
        for (int i = 1; i < CHAINS; i++)
            sum += x[i];
        __asm__ volatile("" : : "m"(sum));
        best = rate > best ? rate : best;
    }
    return best;
}

int main(void)
{
    for (size_t bytes = 1 << 14; bytes <= (size_t)1 << 28; bytes <<= 2)
        printf("triad %zu %.4g\n", bytes, triad(bytes));
    printf("multiply_add 0 %.4g\n", multiply_add());
    return 0;
}
