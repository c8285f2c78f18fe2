/* Spelling suggestions in errors: the nearest of several names to one that isn't among them. */
#include "binding.h"

enum { LONGEST = 63 };

/* Letters to insert, take away, exchange or swap with their neighbours; more than LONGEST if a name is longer than that. */
static int distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > LONGEST || m > LONGEST)
        return LONGEST + 1;
    int before[LONGEST + 1], above[LONGEST + 1], row[LONGEST + 1];
    for (size_t j = 0; j <= m; j++)
        above[j] = before[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int least = above[j - 1] + (a[i - 1] != b[j - 1]);
            least = above[j] + 1 < least ? above[j] + 1 : least;
            least = row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < least)
                least = before[j - 2] + 1;
            row[j] = least;
        }
        memcpy(before, above, sizeof above);
        memcpy(above, row, sizeof row);
    }
    return above[m];
}

const char *td_py_nearer(const char *name, const char *candidate, const char *best)
{
    int now = distance(name, candidate), most = (int)strlen(name) / 3 + 1;
    return now <= most && now < (int)strlen(candidate) && (!best || now < distance(name, best)) ? candidate : best;
}
