/* What is built once and kept in a folder of files: where that is, and names that tell what a file was built from. */
#ifndef TD_BASE_CACHE_H
#define TD_BASE_CACHE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* FNV-1a. */
uint64_t td_hash_bytes(uint64_t hash, const void *bytes, size_t n);

/* Of a key that is looked up often: eight bytes at a time. */
uint64_t td_hash_words(uint64_t hash, const void *key, size_t size);

/* The folder with a `/` behind it, made if need be: $TEDE_KERNEL_CACHE, else $XDG_CACHE_HOME/tede/<kind>, else ~/.cache/tede/<kind>.
 * False if nothing is to be kept: an empty TEDE_KERNEL_CACHE says so. */
bool td_cache_folder(char *folder, size_t size, const char *kind);

/* 32 hexadecimal digits of texts, and a zero. */
enum { TD_CACHE_NAME = 33 };
void td_cache_name(char name[TD_CACHE_NAME], int n, const char *const *texts);

#endif
