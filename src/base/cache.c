/* The folder of what is built once, and the names in it: binaries of device kernels, compiled loops. */
#include "base/cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

uint64_t td_hash_bytes(uint64_t hash, const void *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001B3u;
    return hash;
}

uint64_t td_hash_words(uint64_t hash, const void *key, size_t size)
{
    uint64_t word = 0;
    for (size_t i = 0; i < size; i += sizeof word) {
        memcpy(&word, (const char *)key + i, size - i < sizeof word ? size - i : sizeof word);
        hash = (hash ^ word) * 0x9E3779B97F4A7C15u;
        hash ^= hash >> 32;
    }
    return hash;
}

bool td_cache_folder(char *folder, size_t size, const char *kind)
{
    const char *asked = getenv("TEDE_KERNEL_CACHE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const int length = asked ? snprintf(folder, size, "%s/", asked) : cache && *cache ? snprintf(folder, size, "%s/tede/%s/", cache, kind)
                     : home && *home ? snprintf(folder, size, "%s/.cache/tede/%s/", home, kind) : 0;
    if ((asked && !*asked) || length <= 0 || (size_t)length >= size)
        return false;
    for (char *c = strchr(folder + 1, '/'); c; c = strchr(c + 1, '/')) {
        *c = 0;
        const int status = mkdir(folder, 0700);
        *c = '/';
        if (status && errno != EEXIST)
            return false;
    }
    return true;
}

void td_cache_name(char name[TD_CACHE_NAME], int n, const char *const *texts)
{
    uint64_t hashes[2] = {0xCBF29CE484222325u, 0x84222325CBF29CE4u};
    for (int i = 0; i < 2; i++)
        for (int t = 0; t < n; t++)
            hashes[i] = td_hash_bytes(hashes[i], texts[t], strlen(texts[t]) + 1);
    snprintf(name, TD_CACHE_NAME, "%016llx%016llx", (unsigned long long)hashes[0], (unsigned long long)hashes[1]);
}
