/* Files that are there whole or not at all. */
#ifndef TD_IO_WHOLE_H
#define TD_IO_WHOLE_H
#include <limits.h>
#include <tede/tensor.h>

typedef struct td_whole {
    const char *who, *path;             /* borrowed; what messages begin with, and what the caller calls the file */
    int         descriptor;
    char        target[PATH_MAX], partial[PATH_MAX];
} td_whole;

/* Begin a file; -1 if that fails, and there is nothing to be ended. */
int td_whole_begin(td_whole *w, const char *who, const char *path) TD_MUST_USE;
int td_whole_write(td_whole *w, const void *bytes, uint64_t n) TD_MUST_USE;
/* A tensor's elements in order. */
int td_whole_write_tensor(td_whole *w, td_tensor *x) TD_MUST_USE;
/* The file takes its place if status is 0, and is gone otherwise.  Returns status, or -1 if that fails. */
int td_whole_end(td_whole *w, int status) TD_MUST_USE;

#endif
