/* tede/safetensors.h: tensors in files of the safetensors format, read in place and written safely.
 *
 * A file is eight bytes with the length of a JSON header, the header (name -> dtype, shape, offsets) and the tensors'
 * bytes one after the other.  Reading maps the file: a tensor looks at the file's pages, nothing is copied before
 * something is written, and what is written stays in this process, never in the file.  The mapping lives as long as
 * the last tensor over it.
 *
 * A file may be replaced while it is open (td_safetensors_save does that), but like all mapped files it must not be
 * shortened in place by others.  Headers are not trusted: whatever is wrong with one is a TD_E_VALUE that says at
 * which byte, what can't be opened or read a TD_E_IO. */
#ifndef TEDE_SAFETENSORS_H
#define TEDE_SAFETENSORS_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_safetensors td_safetensors;

/* An open file.  Its tensors outlive it. */
TD_API td_safetensors *td_safetensors_open(const char *path);
/* The same over a file's contents in memory, which the tensors then look at: whoever writes to one writes there.
 * release(context) (if not NULL) is called when nothing looks at `bytes` any more, but not if this fails. */
TD_API td_safetensors *td_safetensors_parse(void *bytes, size_t size, void (*release)(void *context), void *context);
/* Accepts NULL. */
TD_API void td_safetensors_release(td_safetensors *file);

/* ---- what is in it.  Tensors are counted from 0 in the order of their bytes; pointers are borrowed from `file`. */
TD_API int64_t        td_safetensors_count(const td_safetensors *file);
TD_API const char    *td_safetensors_name(const td_safetensors *file, int64_t i);
TD_API int64_t        td_safetensors_find(const td_safetensors *file, const char *name);     /* -1: there is none */
TD_API int            td_safetensors_ndim(const td_safetensors *file, int64_t i);
TD_API const int64_t *td_safetensors_sizes(const td_safetensors *file, int64_t i);
/* The format's name for its dtype: "F32", "BF16", ..., maybe one that this library has no dtype for. */
TD_API const char    *td_safetensors_dtype(const td_safetensors *file, int64_t i);

/* A tensor over the file's bytes; every call gives another one over the same bytes.  An offset in the file that suits the
 * dtype's alignment costs no copy (files that this library writes have no other).  TD_E_KEY if there is no such
 * name, TD_E_NOT_IMPLEMENTED for a dtype that the format knows and this library doesn't (F8_E4M3, ...).  Accepts a NULL
 * file, as operators accept NULL operands, so loading is checked once. */
TD_API td_tensor *td_safetensors_get(td_safetensors *file, const char *name);
TD_API td_tensor *td_safetensors_at(td_safetensors *file, int64_t i);

/* Pairs of strings that came with the tensors, in the order of their keys.  NULL if the key isn't there. */
TD_API int64_t     td_safetensors_metadata_count(const td_safetensors *file);
TD_API const char *td_safetensors_metadata_key(const td_safetensors *file, int64_t i);
TD_API const char *td_safetensors_metadata_value(const td_safetensors *file, int64_t i);
TD_API const char *td_safetensors_metadata(const td_safetensors *file, const char *key);

/* ---- writing */

/* Write n tensors and their names, and pairs of strings, all in UTF-8, to `path`.  Strided and expanded tensors are
 * written as their elements in order; history and views of one another are not kept.  The header and the order of the
 * tensors (largest elements first, then by name) are those of the format's own implementation.
 *
 * Whoever looks at `path` finds the old file or the whole new one, also after a crash or on a full disk: the
 * bytes go to a file beside it, which takes its place once they are on the disk. */
TD_API int td_safetensors_save(const char *path, int64_t n, const char *const *names, td_tensor *const *tensors,
                               int64_t n_metadata, const char *const *keys, const char *const *values) TD_MUST_USE;
/* The format's name for a dtype; NULL (and no error) if it has none, as for complex128. */
TD_API const char *td_safetensors_dtype_name(td_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
