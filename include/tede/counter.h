/* tede/counter.h: the generators of devices with programs, which count.
 *
 * Such a generator is a seed and an offset; its numbers are functions of both, Philox4x32-10's, in the order of PyTorch's on CUDA.  What the CPU
 * draws for its device follows from them, too.  Everything of <tede/random.h> works on it; its state has 16 bytes. */
#ifndef TEDE_COUNTER_H
#define TEDE_COUNTER_H
#include <tede/random.h>
#ifdef __cplusplus
extern "C" {
#endif

/* A generator that counts, seeded with TD_DEFAULT_SEED.  The caller owns the result; NULL on error. */
TD_API td_generator *td_generator_new_counter(void);
/* Another generator of the kind that a device has: one that counts if it has programs, else as the CPU's.  The caller owns the result. */
TD_API td_generator *td_device_generator_new(td_device device);

TD_API bool         td_generator_counts(const td_generator *g);
/* The offset, a multiple of 4; 0 and an error for the CPU's. */
TD_API uint64_t     td_generator_offset(td_generator *g);
TD_API TD_MUST_USE int td_generator_set_offset(td_generator *g, uint64_t offset);
/* Bytes of its state: TD_GENERATOR_STATE_SIZE, or 16 (seed, offset) of one that counts. */
TD_API size_t       td_generator_state_size(const td_generator *g);

#ifdef __cplusplus
}
#endif
#endif
