/* The Mersenne Twister MT19937 (Matsumoto and Nishimura, 1998) with PyTorch's bookkeeping.
 *
 * The state is renewed 624 words at a time and tempered on the way out.  Both loops are written so that the compiler
 * vectorises them; copies for AVX2 and AVX-512 double the speed of bulk draws, and again. */
#include "base/base.h"
#include "base/once.h"
#include "base/random.h"
#include "base/simd.h"

#include <math.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define FLATTEN static inline __attribute__((always_inline))

/* ---- the recurrence */

FLATTEN uint32_t twist(uint32_t high, uint32_t low, uint32_t far)
{
    uint32_t mixed = (high & 0x80000000) | (low & 0x7fffffff);
    return far ^ mixed >> 1 ^ (0x9908b0df & -(low & 1));
}

/* Word i is made from words i, i + 1 and i + 397 of the ring.  Cut where i + 397 wraps around; from there on the
 * words read were written at least 227 steps ago, so that loop may be vectorised too. */
FLATTEN void renew(uint32_t *restrict s)
{
    enum { N = TD_MT_WORDS, M = TD_MT_SHIFT };
    #pragma omp simd safelen(16)
    for (int i = 0; i < N - M; i++)
        s[i] = twist(s[i], s[i + 1], s[i + M]);
    #pragma omp simd safelen(16)
    for (int i = N - M; i < N - 1; i++)
        s[i] = twist(s[i], s[i + 1], s[i + M - N]);
    s[N - 1] = twist(s[N - 1], s[0], s[M - 1]);
}
FLATTEN void temper(uint32_t *restrict out, const uint32_t *restrict words, int64_t n)
{
    #pragma omp simd
    for (int64_t i = 0; i < n; i++)
        out[i] = td_random_temper(words[i]);
}

static void renew_any(uint32_t *s) { renew(s); }
static void temper_any(uint32_t *out, const uint32_t *words, int64_t n) { temper(out, words, n); }
typedef struct copies {
    void (*renew)(uint32_t *);
    void (*temper)(uint32_t *, const uint32_t *, int64_t);
} copies;
#ifdef TD_FOR_V3
#define COPY(name, ATTRIBUTE)                                                                                           \
    ATTRIBUTE static void renew_##name(uint32_t *s) { renew(s); }                               \
    ATTRIBUTE static void temper_##name(uint32_t *out, const uint32_t *words, int64_t n)        \
    {                                                                                                                   \
        temper(out, words, n);                                                                                          \
    }
COPY(avx2, TD_FOR_V3)
COPY(avx512, TD_FOR_V4)
static copies here(void)
{
    td_isa isa = td_cpu_isa();
    return isa >= TD_V4 ? (copies){renew_avx512, temper_avx512} : isa >= TD_V3 ? (copies){renew_avx2, temper_avx2}
                        : (copies){renew_any, temper_any};
}
#else
static copies here(void) { return (copies){renew_any, temper_any}; }
#endif

void td_random_refill(td_generator *g)
{
    here().renew(g->state);
    g->left = TD_MT_WORDS, g->next = 0;
}

void td_random_words(td_generator *g, uint32_t *out, int64_t n)
{
    copies c = here();
    while (n > 0) {
        if (g->left == 1) {
            td_random_refill(g);
            g->left++;      /* a refill leaves the count as it is after its first word is drawn */
        }
        int64_t take = g->left - 1 < n ? g->left - 1 : n;
        c.temper(out, g->state + g->next, take);
        g->left -= (int32_t)take, g->next += (uint32_t)take;
        out += take, n -= take;
    }
}

double td_random_normal(td_generator *g, double mean, double std)
{
    double value;
    if (g->has_next_double) {
        value = g->next_double;
        g->has_next_double = false;
    } else {
        double u1 = td_random_unit64(td_random64(g)), u2 = td_random_unit64(td_random64(g));
        double radius = sqrt(-2.0 * log1p(-u2)), angle = 6.283185307179586 * u1;
        g->next_double = radius * sin(angle);
        g->has_next_double = true;
        value = radius * cos(angle);
    }
    return fma(value, std, mean);
}

/* ---- seeds */

static void start(td_generator *g, uint64_t seed)
{
    uint32_t *s = g->state;
    g->seed = seed;
    s[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < TD_MT_WORDS; i++)
        s[i] = 1812433253 * (s[i - 1] ^ s[i - 1] >> 30) + i;
    g->left = 1, g->next = 0;
    g->has_next_float = g->has_next_double = false;
    g->next_float = 0, g->next_double = 0;
    g->offset = 0;
}

static uint64_t entropy(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000007) ^ (uint64_t)now.tv_nsec << 20 ^ (uintptr_t)&now;
}

/* ---- life */

static td_generator standard = {.lock = PTHREAD_MUTEX_INITIALIZER};
static td_once standard_once;

/* A thread may be drawing while another forks; the child must not inherit its lock. */
static void before_fork(void) { pthread_mutex_lock(&standard.lock); }
static void after_fork(void)  { pthread_mutex_unlock(&standard.lock); }

static int begin_standard(void)
{
    start(&standard, entropy());
    pthread_atfork(before_fork, after_fork, after_fork);
    return 0;
}

/* While another device's call runs on the CPU: that device's generator. */
static TD_TLS td_generator *stand_in;

td_generator *td_default_stand_in(td_generator *g)
{
    td_generator *before = stand_in;
    stand_in = g;
    return before;
}

td_generator *td_default_generator(void)
{
    if (TD_UNLIKELY(stand_in != NULL))
        return stand_in;
    td_once_run(&standard_once, begin_standard);
    return &standard;
}

td_generator *td_generator_new(void)
{
    td_generator *g = td_mem_alloc(sizeof *g);
    if (!g)
        return NULL;
    atomic_init(&g->references, 1);
    pthread_mutex_init(&g->lock, NULL);
    g->counts = false;
    start(g, TD_DEFAULT_SEED);
    return g;
}
td_generator *td_generator_new_counter(void)
{
    td_generator *g = td_generator_new();
    if (g)
        g->counts = true;
    return g;
}
bool td_generator_counts(const td_generator *g) { return g->counts; }

td_generator *td_generator_clone(td_generator *g)
{
    unsigned char state[TD_GENERATOR_STATE_SIZE];
    td_generator *copy = td_generator_counts(g) ? td_generator_new_counter() : td_generator_new();
    if (!copy)
        return NULL;
    td_generator_get_state(g, state);
    if (td_generator_set_state(copy, state, td_generator_state_size(g))) {
        td_generator_release(copy);
        return NULL;
    }
    return copy;
}

td_generator *td_generator_retain(td_generator *g)
{
    if (g && g != &standard)
        atomic_fetch_add_explicit(&g->references, 1, memory_order_relaxed);
    return g;
}

void td_generator_release(td_generator *g)
{
    if (!g || g == &standard || atomic_fetch_sub_explicit(&g->references, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&g->lock);
    td_mem_free(g, sizeof *g);
}

static td_generator *lock(td_generator *g)
{
    if (!g)
        g = td_default_generator();
    pthread_mutex_lock(&g->lock);
    return g;
}
/* MT19937 takes 32 bits of seed, which are mixed of all (a step of SplitMix64). */
td_generator *td_random_lock(td_generator *g)
{
    g = lock(g);
    if (TD_UNLIKELY(g->counts)) {
        const uint64_t seed = g->seed, offset = g->offset;
        uint64_t mixed = seed + (offset + 1) * UINT64_C(0x9e3779b97f4a7c15);
        mixed = (mixed ^ mixed >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
        mixed = (mixed ^ mixed >> 27) * UINT64_C(0x94d049bb133111eb);
        start(g, mixed ^ mixed >> 31);
        g->seed = seed, g->offset = offset + 4;
    }
    return g;
}
int td_random_reserve(td_generator *g, uint64_t n, uint64_t *seed, uint64_t *offset)
{
    if (!g->counts)
        return td_error(TD_E_RUNTIME, "Expected a device's type for generator but found 'cpu'");
    lock(g);
    *seed = g->seed, *offset = g->offset;
    g->offset += n;
    td_random_unlock(g);
    return 0;
}
void td_random_unlock(td_generator *g) { pthread_mutex_unlock(&g->lock); }

/* ---- the public calls */

void td_generator_seed(td_generator *g, uint64_t seed)
{
    g = lock(g);
    start(g, seed);
    td_random_unlock(g);
}
void td_manual_seed(uint64_t seed) { td_generator_seed(td_default_generator(), seed); }

uint64_t td_generator_seed_random(td_generator *g)
{
    uint64_t seed = entropy();
    td_generator_seed(g, seed);
    return seed;
}

uint64_t td_generator_initial_seed(td_generator *g)
{
    g = lock(g);
    uint64_t seed = g->seed;
    td_random_unlock(g);
    return seed;
}

uint32_t td_generator_next32(td_generator *g)
{
    g = td_random_lock(g);
    uint32_t word = td_random32(g);
    td_random_unlock(g);
    return word;
}

uint64_t td_generator_next64(td_generator *g)
{
    g = td_random_lock(g);
    uint64_t word = td_random64(g);
    td_random_unlock(g);
    return word;
}

/* ---- saved states.  The layout is older than 32-bit state words in PyTorch, so each word takes eight bytes. */

typedef struct saved {
    uint64_t seed;
    int32_t  left, seeded;
    uint64_t next;
    uint64_t state[TD_MT_WORDS];
    double   normal_x, next_double, normal_rho;      /* the outer two are unused */
    int32_t  has_next_double, unused;
    float    next_float;
    uint8_t  has_next_float, padding[3];
} saved;
_Static_assert(sizeof(saved) == TD_GENERATOR_STATE_SIZE, "PyTorch's CPU generator state has 5056 bytes");

size_t td_generator_state_size(const td_generator *g) { return g->counts ? 2 * sizeof(uint64_t) : sizeof(saved); }

static int refuse_offset(void) { return td_error(TD_E_RUNTIME, "CPU Generator does not use offset"); }
uint64_t td_generator_offset(td_generator *g)
{
    if (!g->counts)
        return refuse_offset(), 0;
    lock(g);
    const uint64_t offset = g->offset;
    td_random_unlock(g);
    return offset;
}
int td_generator_set_offset(td_generator *g, uint64_t offset)
{
    if (!g->counts)
        return refuse_offset();
    if (offset % 4)
        return td_error(TD_E_RUNTIME, "offset must be a multiple of 4");
    lock(g);
    g->offset = offset;
    td_random_unlock(g);
    return 0;
}

void td_generator_get_state(td_generator *g, void *bytes)
{
    saved image = {.seeded = 1};
    g = lock(g);
    if (g->counts) {
        memcpy(bytes, (uint64_t[]){g->seed, g->offset}, 2 * sizeof(uint64_t));
        td_random_unlock(g);
        return;
    }
    image.seed = g->seed, image.left = g->left, image.next = g->next;
    for (int i = 0; i < TD_MT_WORDS; i++)
        image.state[i] = g->state[i];
    if (g->has_next_double)
        image.has_next_double = 1, image.next_double = g->next_double;
    if (g->has_next_float)
        image.has_next_float = 1, image.next_float = g->next_float;
    td_random_unlock(g);
    memcpy(bytes, &image, sizeof image);
}

int td_generator_set_state(td_generator *g, const void *bytes, size_t size)
{
    saved image;
    if (g->counts) {
        uint64_t both[2];
        if (size != sizeof both)
            return td_error(TD_E_RUNTIME, "RNG state is wrong size: %zu bytes, not %zu", size, sizeof both);
        memcpy(both, bytes, sizeof both);
        if (both[1] % 4)
            return td_error(TD_E_RUNTIME, "offset must be a multiple of 4");
        lock(g);
        start(g, both[0]);
        g->offset = both[1];
        td_random_unlock(g);
        return 0;
    }
    if (size != sizeof image)
        return td_error(TD_E_RUNTIME, "Expected a CPUGeneratorImplState of size %zu but found the input RNG state "
                        "size to be %zu", sizeof image, size);
    memcpy(&image, bytes, sizeof image);
    /* PyTorch also takes states whose two counts disagree, and then reads past the last word. */
    if (!image.seeded || image.left < 1 || image.left > TD_MT_WORDS || image.next > TD_MT_WORDS
        || (uint64_t)image.left - 1 > TD_MT_WORDS - image.next)
        return td_error(TD_E_RUNTIME, "Invalid mt19937 state (seeded %d, %d words left, next is %llu of %d)",
                        (int)image.seeded, (int)image.left, (unsigned long long)image.next, TD_MT_WORDS);
    g = lock(g);
    g->seed = image.seed, g->left = image.left, g->next = (uint32_t)image.next;
    for (int i = 0; i < TD_MT_WORDS; i++)
        g->state[i] = (uint32_t)image.state[i];
    g->has_next_double = image.has_next_double != 0, g->next_double = image.next_double;
    g->has_next_float = image.has_next_float != 0, g->next_float = image.next_float;
    td_random_unlock(g);
    return 0;
}
