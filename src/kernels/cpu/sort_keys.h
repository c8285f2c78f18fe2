/* Sorting and selecting of (key, index) pairs: included by sort.c with P (a pair), NAME, KEY(p), LESS(a, b) and BITS (of a
 * key) set.  Pairs are unequal because their indices are, so any correct order is stable. */

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

/* The same by Numerical Recipes' select, which PyTorch's kthvalue uses: which of several equal elements is
 * found follows from it. */
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

/* One pass per digit, lowest first; digits that all keys share are skipped.  `other` has room for n pairs. */
static void NAME(radix)(P *a, P *other, int64_t n, int digit)
{
    enum { MOST = 1 << 11 };
    int64_t starts[MOST];
    int64_t radix = (int64_t)1 << digit, mask = radix - 1;
    P *from = a, *to = other;
    for (int shift = 0; shift < BITS; shift += digit) {
        memset(starts, 0, sizeof *starts * (size_t)radix);
        for (int64_t i = 0; i < n; i++)
            starts[KEY(from[i]) >> shift & mask]++;
        if (starts[KEY(from[0]) >> shift & mask] == n)
            continue;
        int64_t sum = 0;
        for (int64_t d = 0; d < radix; d++) {
            int64_t count = starts[d];
            starts[d] = sum;
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

static void NAME(sort)(P *a, P *other, int64_t n)
{
    if (n <= 48)
        NAME(insertion)(a, n);
    else
        NAME(radix)(a, other, n, n < 4096 ? 8 : 11);
}

/* Split by the digits that decide where place k is, highest first: afterwards it lies within [low, high], what is
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

/* The k-th smallest pair to place k, smaller ones before it.  Quickselect; the pivots are medians of three of
 * scattered places, so that no simple order is a bad one. */
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
