/* Inside the library: a generator's fields and the words that fills draw from it.
 *
 * Whoever draws holds the lock: td_random_lock, any number of draws, td_random_unlock.  The scalar draws below and
 * the bulk td_random_words read the same stream, so they mix freely.
 *
 * Note [One stream for all instruction sets].  A fill is a sequence of words and arithmetic on them.  PyTorch's
 * reference is its AVX2 build, where the compiler fuses a multiplication and an addition into one rounding; wherever
 * that happens the code here says so (td_fma32 in the kernels, fma() in scalar code) and is exact on machines
 * without the instruction, so results are the same at every level. */
#ifndef TD_BASE_RANDOM_H
#define TD_BASE_RANDOM_H

#include <tede/counter.h>
#include <pthread.h>
#include <stdatomic.h>

enum { TD_MT_WORDS = 624, TD_MT_SHIFT = 397 };

struct td_generator {
    atomic_int      references;
    pthread_mutex_t lock;
    uint64_t seed, offset;
    bool     counts;        /* a device's: its numbers are functions of seed and offset, and what the CPU draws for it follows from these */
    /* PyTorch counts twice: `left` - 1 words remain, `next` is the index of the first of them.  A fresh seed has
     * left == 1, next == 0.  Always left - 1 <= TD_MT_WORDS - next. */
    int32_t  left;
    uint32_t next;
    /* Box-Muller makes normal numbers in pairs; the scalar path keeps the second one for the next call. */
    bool     has_next_float, has_next_double;
    float    next_float;
    double   next_double;
    uint32_t state[TD_MT_WORDS];
};

/* NULL stands for the default generator; returns the one that is locked now.  For whoever draws: the words of a device's generator are those
 * of a stream that begins with its seed and offset, which advances. */
td_generator *td_random_lock(td_generator *g);
void          td_random_unlock(td_generator *g);

/* Seed and offset of a device's generator, which advances by n, a multiple of 4.  An error for one of the CPU's. */
int td_random_reserve(td_generator *g, uint64_t n, uint64_t *seed, uint64_t *offset);

/* Make the next TD_MT_WORDS words. */
void td_random_refill(td_generator *g);
/* The next n words of the stream, in bulk. */
void td_random_words(td_generator *g, uint32_t *out, int64_t n);

static inline uint32_t td_random_temper(uint32_t y)
{
    y ^= y >> 11;
    y ^= y << 7 & 0x9d2c5680;
    y ^= y << 15 & 0xefc60000;
    return y ^ y >> 18;
}
static inline uint32_t td_random32(td_generator *g)
{
    if (--g->left == 0)
        td_random_refill(g);
    return td_random_temper(g->state[g->next++]);
}
static inline uint64_t td_random64(td_generator *g)
{
    uint64_t high = td_random32(g);
    return high << 32 | td_random32(g);
}

/* Uniform in [0, 1): 24 bits of a word, 53 of a pair. */
static inline float  td_random_unit32(uint32_t word) { return (float)(int32_t)(word & 0xffffff) * 0x1p-24f; }
static inline double td_random_unit64(uint64_t word)
{
    return (double)(int64_t)(word & ((UINT64_C(1) << 53) - 1)) * 0x1p-53;
}

/* Let this thread's default generator be g, NULL: the usual one; gives what was set before. */
td_generator *td_default_stand_in(td_generator *g);

/* One normal number in double precision, by Box-Muller, with the generator's cache. */
double td_random_normal(td_generator *g, double mean, double std);

#endif
