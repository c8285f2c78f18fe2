/* Checks of texts that are to be written into headers. */
#include "io/text.h"
#include <stdlib.h>

static int compare_strings(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int td_text_check_distinct(const char *who, const char *what, int64_t n, const char *const *texts)
{
    block copy = {0};
    const char **sorted = n ? block_more(&copy, (size_t)n * sizeof *sorted) : NULL;
    int status = !n || sorted ? 0 : -1;
    if (sorted) {
        memcpy(sorted, texts, (size_t)n * sizeof *sorted);
        qsort(sorted, (size_t)n, sizeof *sorted, compare_strings);
    }
    for (int64_t i = 1; i < n && status == 0; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            status = td_error(TD_E_VALUE, "%s: the %s '%.80s' comes twice", who, what, sorted[i]);
    block_free(&copy);
    return status;
}
