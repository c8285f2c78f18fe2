/* Which kernel goes over given runs: see sweep.h and Note [Packs] in src/formula/print.c. */
#include "kernels/device/sweep.h"

#include <stdlib.h>
#include "kernels/device/kernel.h"

/* Strides of a run along the output's dimensions, 0 where it is broadcast. */
static void stretch(const td_tensor *x, const td_tensor *out, int64_t *strides)
{
    const int lead = out->ndim - x->ndim;
    for (int d = 0; d < out->ndim; d++)
        strides[d] = d < lead || (x->sizes[d - lead] == 1 && out->sizes[d] != 1) ? 0 : x->strides[d - lead];
}

static void merge_dimensions(td_sweep *s, int n_runs, td_tensor *const *runs)
{
    int64_t strides[TD_SWEEP_RUNS][TD_MAX_DIMS];
    for (int r = 0; r < n_runs; r++)
        stretch(runs[r], runs[0], strides[r]);
    s->ndim = td_merge_dimensions(runs[0]->ndim, runs[0]->sizes, n_runs, strides, s->sizes, s->strides);
    bool contiguous = s->ndim <= 1;
    for (int r = 0; r < n_runs && s->ndim == 1; r++)
        contiguous &= s->strides[r][0] == 1;
    s->ndim = contiguous ? 0 : s->ndim;
}

/* A row of elements of the runs, by size, is cut into packs of 16 bytes of the widest; of the narrowest they have 4 at least. */
static int widest_pack(int n_runs, td_tensor *const *runs)
{
    size_t widest = 1, narrowest = 16;
    for (int r = 0; r < n_runs; r++) {
        const size_t size = td_dtype_size((td_dtype)runs[r]->dtype);
        widest = size > widest ? size : widest;
        narrowest = size < narrowest ? size : narrowest;
    }
    const int pack = (int)(16 / widest), least = (int)(4 / narrowest);
    return pack > least ? pack : least;
}

/* Whether each pack of the runs lies in a row, aligned. */
static bool fits(td_sweep *s, int n_runs, td_tensor *const *runs, int pack)
{
    const int last = s->ndim - 1;
    s->constants = 0;
    if (last >= 0 && (s->sizes[last] % pack || s->strides[0][last] != 1))
        return false;
    for (int r = 0; r < n_runs; r++) {
        const int64_t size = (int64_t)td_dtype_size((td_dtype)runs[r]->dtype), alignment = size * pack < 16 ? size * pack : 16;
        if (last >= 0 && s->strides[r][last] == 0) {
            s->constants |= 1u << r;
            continue;
        }
        if (last >= 0 && s->strides[r][last] != 1)
            return false;
        bool aligned = (uintptr_t)runs[r]->data % (uintptr_t)alignment == 0;
        for (int d = 0; d < last && aligned; d++)
            aligned = s->strides[r][d] * size % alignment == 0;
        if (!aligned)
            return false;
    }
    return true;
}

/* Whether offsets fit 32 bits: a GPU has no instruction that multiplies or divides 64 bits, and takes several for each. */
static bool is_narrow(const td_sweep *s, int n_runs)
{
    const int64_t limit = INT32_MAX;
    if (s->n > limit)
        return false;
    for (int r = 0; r < n_runs; r++) {
        int64_t reach = 0;
        for (int d = 0; d < s->ndim; d++) {
            int64_t step;
            if (__builtin_mul_overflow(s->sizes[d] - 1, llabs(s->strides[r][d]), &step) || step > limit - reach)
                return false;
            reach += step;
        }
    }
    return true;
}

/* depth: packs that a work item has in flight at once.  Loads that don't wait for one another hide memory's latency; wide packs need fewer. */
void td_sweep_of(td_sweep *to, int n_runs, td_tensor *const *runs)
{
    to->n = runs[0]->numel;
    merge_dimensions(to, n_runs, runs);
    to->narrow = is_narrow(to, n_runs);
    to->pack = widest_pack(n_runs, runs);
    while (to->pack > 1 && !fits(to, n_runs, runs, to->pack))
        to->pack /= 2;
    to->depth = to->pack == 1 ? 4 : to->pack <= 8 ? 2 : 1;
    to->packs = (to->n + to->pack - 1) / to->pack;
    if (to->pack == 1) {
        to->constants = 0;
    } else if (to->ndim) {
        to->sizes[to->ndim - 1] /= to->pack;
        for (int r = 0; r < n_runs; r++)
            to->strides[r][to->ndim - 1] *= to->pack;
    }
}

/* n / size by a multiplication and shifts, for 32 bits: Granlund and Montgomery (1994), "Division by Invariant Integers using Multiplication". */
void td_sweep_reciprocal(int64_t size, uint32_t *multiplier, int32_t *shift)
{
    *shift = size == 1 ? 0 : 64 - __builtin_clzll((uint64_t)size - 1);
    *multiplier = (uint32_t)((((uint64_t)1 << 32) * (((uint64_t)1 << *shift) - (uint64_t)size)) / (uint64_t)size + 1);
}
