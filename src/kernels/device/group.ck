/* What kernels share: numbers and shapes that are passed by value, and what a group of work items does together. */
#ifndef TD_GROUP_CK
#define TD_GROUP_CK

/* A number in the precision that is computed in (A_NUMBER): a device without doubles can't have one in a struct. */
typedef struct number { int64_t bits; float single, unused; } number;

/* Where an index must lie: from `low` to below `high`.  `kind` is what is said of one that doesn't (td_index_limits in kernel.h); 0: nothing. */
typedef struct index_limits { int64_t low, high, kind; } index_limits;

/* Elements of up to three tensors in one order: the last dimension has the smallest strides (td_axes_of in kernel.h). */
typedef struct axes { int64_t ndim, count, sizes[8], strides[3][8]; } axes;

#ifndef TD_HOST
/* An error that a kernel finds: it leaves out what the index stands for, notes it, and the error is raised where the stream is waited for
 * (src/device/late.c).  `late` is the buffer behind a launch's others, whose words these are: the first note stays. */
#define IS_WITHIN(index, limits) ((index) >= (limits).low && (index) < (limits).high)
#define NOTE_INDEX(late, index, limits)                                                 \
    do {                                                                                \
        if ((limits).kind && ATOMIC_SWAP32(AT(uint32_t, late), 0, 1) == 0) {            \
            AT(int64_t, late)[1] = (limits).kind;                                       \
            AT(int64_t, late)[2] = (index);                                             \
            AT(int64_t, late)[3] = (limits).high;                                       \
        }                                                                               \
    } while (0)
/* a / b of numbers that aren't negative: 64 bits take several times as long. */
static int64_t divided(int64_t a, int64_t b)
{
    return (uint64_t)(a | b) >> 32 ? a / b : (int64_t)((uint32_t)a / (uint32_t)b);
}
/* at += the offset of element i in tensor t.  A macro: the struct stays where it was passed. */
#define ADD_OFFSET(at, axes, t, i)                                                      \
    do {                                                                                \
        int64_t rest_ = (i);                                                            \
        for (int d_ = (int)(axes).ndim - 1; d_ > 0; d_--) {                             \
            const int64_t over_ = divided(rest_, (axes).sizes[d_]);                     \
            (at) += (rest_ - over_ * (axes).sizes[d_]) * (axes).strides[t][d_];         \
            rest_ = over_;                                                              \
        }                                                                               \
        (at) += rest_ * (axes).strides[t][0];                                           \
    } while (0)
#endif

/* The word at `p` becomes `made`, an expression of what it is (now), by SWAP: tried until nobody came between. */
#define CHANGE(word, SWAP, p, now, made)                                                \
    do {                                                                                \
        GLOBAL word *at_ = (GLOBAL word *)(p);                                          \
        for (word now = *at_, before_;; now = before_) {                                \
            before_ = SWAP(at_, now, made);                                             \
            if (before_ == now)                                                         \
                break;                                                                  \
        }                                                                               \
    } while (0)

/* What a group of work items does together: `room` is SHARED memory of WIDTH elements; all of the group call it.
 *
 * Folds the values of `span` neighbouring lanes, all that have the same number modulo `least`, which all of them get: by halves, so that the
 * order depends on these numbers alone. */
#define FOLD_LANES(room, value, FOLD, span, least)                                      \
    do {                                                                                \
        if ((span) > (least)) {                                                         \
            room[LANE] = (value);                                                       \
            UNROLL for (int half_ = (span) / 2; half_ >= (least); half_ /= 2) {         \
                BARRIER_OF(2 * half_);                                                  \
                if (LANE % (span) < half_)                                              \
                    room[LANE] = FOLD(room[LANE], room[LANE + half_]);                  \
            }                                                                           \
            BARRIER_OF(span);                                                           \
            (value) = room[LANE / (span) * (span) + LANE % (least)];                    \
            BARRIER_OF(span);                                                           \
        }                                                                               \
    } while (0)
#define GROUP_FOLD(T, room, value, FOLD) FOLD_LANES(room, value, FOLD, WIDTH, 1)
#define PLUS(a, b)   ((a) + (b))
#define LOWER(a, b)  ((a) < (b) ? (a) : (b))
#define HIGHER(a, b) ((a) > (b) ? (a) : (b))

/* A team: TEAM lanes, a power of two, that take a row together. */
#ifdef TEAM
#define TEAMS    (WIDTH / TEAM)
#define IN_TEAM  (LANE % TEAM)
#define OWN_TEAM (LANE / TEAM)
#define TEAM_FOLD(room, value, FOLD) FOLD_LANES(room, value, FOLD, TEAM, 1)
#endif
/* PACK elements that are read and written at once; the device's code for it wants them aligned. */
#ifdef PACK
#define PACK_TYPE(T, name) typedef struct name { T at[PACK]; } __attribute__((aligned(sizeof(T) * PACK < 16 ? sizeof(T) * PACK : 16))) name
#define EACH_OF_PACK(j) UNROLL for (int j = 0; j < PACK; j++)
#endif
/* A lane's packs of a row: the k-th is pack i of it.  HELD of them are kept in registers; if it is 0 there are too many, and they are read
 * each time. */
#ifdef HELD
#if HELD
#define EACH_PACK(k, i, packs) UNROLL for (int k = 0, i = IN_TEAM; k < HELD; k++, i += TEAM) if (i < (packs))
#else
#define EACH_PACK(k, i, packs) for (int64_t i = IN_TEAM; i < (packs); i += TEAM)
#endif
#endif

/* room[LANE] becomes the fold of the values of this lane and all before it, in their order (Hillis and Steele). */
#define GROUP_SCAN(T, room, value, FOLD)                        \
    do {                                                        \
        room[LANE] = (value);                                   \
        for (int step_ = 1; step_ < LANES; step_ *= 2) {        \
            BARRIER;                                            \
            T mine_ = room[LANE];                               \
            if (LANE >= step_)                                  \
                mine_ = FOLD(room[LANE - step_], mine_);        \
            BARRIER;                                            \
            room[LANE] = mine_;                                 \
        }                                                       \
        BARRIER;                                                \
    } while (0)

/* A group as a grid of GRID_M x GRID_N work items. */
#if WIDTH >= 256
#define GRID_N 16
#elif WIDTH >= 64
#define GRID_N 8
#elif WIDTH >= 16
#define GRID_N 4
#elif WIDTH >= 4
#define GRID_N 2
#else
#define GRID_N 1
#endif
#define GRID_M (WIDTH / GRID_N)
#endif

/* Numbers among the values are bits of a double if WIDE, else of a float, since some devices have no double (td_number_bits). */
#ifndef TD_HOST
#ifdef WIDE
#if WIDE
#define NUMBER(x) td_bits_f64((uint64_t)(x))
#define BITS_OF_NUMBER(x) td_f64_bits(x)
#else
#define NUMBER(x) td_bits_f32((uint32_t)(x))
#define BITS_OF_NUMBER(x) td_f32_bits(x)
#endif
#endif
#endif
