/* Sorting and selecting of (key, index) pairs: included by sort.c with P (a pair), NAME, KEY(p), LESS(a, b) and BITS (of a
 * key) set.  Pairs are unequal because their indices are, so any correct order is stable.
 *
 * Up to 48 pairs are inserted; more go through a radix sort from the lowest digit on, which is bound by the stores of its passes:
 * all over the target, into as many lines as a digit has values. */

/* For some dozens of pairs, which lie in the first cache: no counters to clear, and few moves if they are nearly in order. */
static void NAME(insertion)(P *a, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        P x = a[i];
        int64_t k = i;
        for (; k > 0 && LESS(x, a[k - 1]); k--)
            a[k] = a[k - 1];
        a[k] = x;
    }
}

/* The k-th smallest key to position k by Numerical Recipes' select, which PyTorch's kthvalue uses: which of several equal elements is
 * found follows from it, so keys alone are compared. */
static void NAME(select_first)(P *a, int64_t n, int64_t k)
{
#define BEFORE(x, y) (KEY(x) < KEY(y))
#define SWAP(i, j) do { P kept = a[i]; a[i] = a[j]; a[j] = kept; } while (0)
    int64_t low = 0, high = n - 1;
    while (high > low + 1) {
        int64_t i = low + 1, j = high;
        SWAP(low + (high - low) / 2, low + 1);
        if (BEFORE(a[high], a[low + 1]))
            SWAP(low + 1, high);
        if (BEFORE(a[high], a[low]))
            SWAP(low, high);
        if (BEFORE(a[low], a[low + 1]))
            SWAP(low + 1, low);
        P pivot = a[low];
        for (;;) {
            do
                i++;
            while (BEFORE(a[i], pivot));
            do
                j--;
            while (BEFORE(pivot, a[j]));
            if (j < i)
                break;
            SWAP(i, j);
        }
        SWAP(low, j);
        if (j <= k)
            low = i;
        if (j >= k)
            high = j - 1;
    }
    if (high == low + 1 && BEFORE(a[high], a[low]))
        SWAP(low, high);
#undef BEFORE
#undef SWAP
}

/* One pass per digit, lowest first; digits that all keys share are skipped.  All digits are counted in one go, before
 * anything moves.  `other` has room for n pairs.  Digits of 11 bits make three passes of 32 bits instead of four; their 2048 counters
 * (8 KiB) have to be cleared and summed up, which only pays for many pairs. */
static inline __attribute__((always_inline)) void NAME(radix)(P *a, P *other, int64_t n, const int digit)
{
    enum { MOST = (BITS + 7) / 8 };
    const int digits = (BITS + digit - 1) / digit;
    const uint32_t mask = (UINT32_C(1) << digit) - 1;
    uint32_t counts[MOST][1 << 11];
    for (int d = 0; d < digits; d++)
        memset(counts[d], 0, sizeof **counts << digit);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t key = (uint64_t)KEY(a[i]);
#pragma GCC unroll 8
        for (int d = 0; d < digits; d++)
            counts[d][key >> (digit * d) & mask]++;
    }
    P *from = a, *to = other;
    for (int d = 0; d < digits; d++) {
        const int shift = digit * d;
        uint32_t *starts = counts[d], sum = 0;
        if (starts[KEY(from[0]) >> shift & mask] == n)
            continue;
        for (uint32_t k = 0; k <= mask; k++) {
            uint32_t count = starts[k];
            starts[k] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            to[starts[KEY(from[i]) >> shift & mask]++] = from[i];
        P *swap = from;
        from = to, to = swap;
    }
    if (from != a)
        memcpy(a, from, sizeof *a * (size_t)n);
}

static void NAME(sort)(P *a, P *other, int64_t n);

/* More than the counters of 32 bits can count: two halves, merged. */
static void NAME(halves)(P *a, P *other, int64_t n)
{
    int64_t half = n / 2, i = 0, j = half;
    NAME(sort)(a, other, half);
    NAME(sort)(a + half, other, n - half);
    for (int64_t k = 0; k < n; k++)
        other[k] = j >= n || (i < half && LESS(a[i], a[j])) ? a[i++] : a[j++];
    memcpy(a, other, sizeof *a * (size_t)n);
}

static void NAME(sort)(P *a, P *other, int64_t n)
{
    if (n <= 48)
        NAME(insertion)(a, n);
    else if (n > UINT32_MAX)
        NAME(halves)(a, other, n);
    else if (n < 4096)
        NAME(radix)(a, other, n, 8);
    else
        NAME(radix)(a, other, n, 11);
}

/* Split by the digits that decide where position k is, highest first: afterwards it lies within [low, high], what is
 * smaller in front and what is larger behind. */
static void NAME(narrow)(P *a, P *other, int64_t *low, int64_t *high, int64_t k)
{
    enum { DIGIT = 8 };
    for (int shift = BITS - DIGIT; shift >= 0 && *high - *low >= 4096; shift -= DIGIT) {
        int64_t counts[1 << DIGIT] = {0}, n = *high - *low + 1, before = 0;
        int wanted = 0;
        P *from = a + *low;
        for (int64_t i = 0; i < n; i++)
            counts[KEY(from[i]) >> shift & ((1 << DIGIT) - 1)]++;
        while (*low + before + counts[wanted] <= k)
            before += counts[wanted++];
        if (counts[wanted] == n)
            continue;
        int64_t to[3] = {0, before, before + counts[wanted]};
        memcpy(other, from, sizeof *a * (size_t)n);
        for (int64_t i = 0; i < n; i++) {
            int digit = (int)(KEY(other[i]) >> shift & ((1 << DIGIT) - 1));
            from[to[(digit >= wanted) + (digit > wanted)]++] = other[i];
        }
        *high = *low + before + counts[wanted] - 1;
        *low += before;
    }
}

/* The k-th smallest pair to position k, smaller ones before it.  Quickselect; the pivots are medians of three of
 * scattered positions, so that no simple order is a bad one. */
static void NAME(select)(P *a, P *other, int64_t n, int64_t k)
{
    int64_t low = 0, high = n - 1;
    if (n >= 4096)
        NAME(narrow)(a, other, &low, &high, k);
    uint64_t seed = 0x9e3779b97f4a7c15u;
    while (high - low > 24) {
        int64_t span = high - low + 1, at[3];
        for (int i = 0; i < 3; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            at[i] = low + (int64_t)((seed >> 33) % (uint64_t)span);
        }
        P x = a[at[0]], y = a[at[1]], z = a[at[2]];
        P pivot = LESS(x, y) ? LESS(y, z) ? y : LESS(x, z) ? z : x : LESS(x, z) ? x : LESS(y, z) ? z : y;
        int64_t i = low - 1, j = high + 1;
        for (;;) {
            do
                i++;
            while (LESS(a[i], pivot));
            do
                j--;
            while (LESS(pivot, a[j]));
            if (i >= j)
                break;
            P swap = a[i];
            a[i] = a[j], a[j] = swap;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    NAME(insertion)(a + low, high - low + 1);
}
