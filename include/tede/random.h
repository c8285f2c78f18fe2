/* tede/random.h: generators of random numbers on the CPU.
 *
 * A generator is a Mersenne Twister (MT19937) with PyTorch's seeding, word order and state layout, so the same seed
 * gives the same bits as PyTorch 2.13 on the CPU, and a state saved by one library goes on in the other.  Every
 * function here may be called from any thread: a generator carries a lock, which a fill holds from its first word to
 * its last.  Nothing depends on the instruction set or on the number of threads. */
#ifndef TEDE_RANDOM_H
#define TEDE_RANDOM_H

#include <tede/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_generator td_generator;

/* What a new generator is seeded with, as torch.Generator() is. */
#define TD_DEFAULT_SEED UINT64_C(67280421310721)
/* Bytes of a saved state. */
#define TD_GENERATOR_STATE_SIZE 5056

/* A generator seeded with TD_DEFAULT_SEED.  The caller owns the result; NULL on error. */
TD_API td_generator *td_generator_new(void);
/* A copy with the same state, which advances independently. */
TD_API td_generator *td_generator_clone(td_generator *g);
/* Add and drop a reference.  Both accept NULL. */
TD_API td_generator *td_generator_retain(td_generator *g);
TD_API void          td_generator_release(td_generator *g);

/* The generator that operators use when none is given.  Borrowed, never freed; cannot fail.  Its first seed comes
 * from the operating system, so programs that want the same numbers twice call td_manual_seed. */
TD_API td_generator *td_default_generator(void);
/* Seed the default generator. */
TD_API void td_manual_seed(uint64_t seed);

/* Begin a stream anew.  Only the lower 32 bits of `seed` choose the stream (as in PyTorch); all 64 are remembered. */
TD_API void     td_generator_seed(td_generator *g, uint64_t seed);
/* Seed from the operating system; returns that seed. */
TD_API uint64_t td_generator_seed_random(td_generator *g);
/* The seed that the current stream began with. */
TD_API uint64_t td_generator_initial_seed(td_generator *g);

/* Write the state to `bytes` (TD_GENERATOR_STATE_SIZE of them, any alignment): the bytes that
 * torch.get_rng_state() would give, in this machine's byte order. */
TD_API void td_generator_get_state(td_generator *g, void *bytes);
/* Take over a state of `size` bytes.  -1, and `g` as it was, if the size is wrong or the state can't be one. */
TD_API TD_MUST_USE int td_generator_set_state(td_generator *g, const void *bytes, size_t size);

/* The next 32 bits; the next 64 (two words, the higher one first). */
TD_API uint32_t td_generator_next32(td_generator *g);
TD_API uint64_t td_generator_next64(td_generator *g);

#ifdef __cplusplus
}
#endif
#endif
