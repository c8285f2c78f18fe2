/* tede/zip.h: zip archives, as PyTorch's checkpoints (.pt) and NumPy's .npz are.
 *
 * A checkpoint is an archive of one folder: a pickle, `data.pkl`, that names storages, and a record `data/0`, `data/1`, ... with the
 * bytes of each.  Here are the records; the pickle is for Python (tede.load).  Tensors in .npz archives are for <tede/npy.h>.
 *
 * Archives aren't trusted.  Every offset and size is checked against the file before anything is allocated; entries that
 * overlap, lie outside the archive or come twice are refused, and so are sizes that no compressed entry unpacks to.  What is
 * wrong with an archive is a TD_E_RUNTIME, a file that can't be opened or read a TD_E_IO.  The directory at an archive's end is what
 * counts; check sums are written, but not compared. */
#ifndef TEDE_ZIP_H
#define TEDE_ZIP_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- reading.  Any number of threads may read the same archive. */
typedef struct td_zip td_zip;

/* An archive in a file, which is mapped: storages look at its pages. */
TD_API td_zip *td_zip_open(const char *path);
/* One in memory.  release(context) (if not NULL) is called when nothing looks at `bytes` any more, but not if this fails. */
TD_API td_zip *td_zip_parse(void *bytes, size_t size, void (*release)(void *context), void *context);
/* One of `size` bytes that come from elsewhere.  `read` fills `to` with the n bytes at `offset`: 0, or -1 with an error recorded.
 * release(context) (if not NULL) is called in the end, but not if this fails. */
typedef int td_zip_read_function(void *context, uint64_t offset, void *to, size_t n);
TD_API td_zip *td_zip_over(uint64_t size, td_zip_read_function *read, void (*release)(void *context), void *context);
/* Storages of its entries outlive an archive.  Accepts NULL. */
TD_API void td_zip_release(td_zip *z);

/* Leave out of all names the folder that they begin with, as a checkpoint's do: "archive/data/0" becomes "data/0".  An error if there are
 * no entries or one lies elsewhere.  To be called before other threads see the archive. */
TD_API int td_zip_enter(td_zip *z) TD_MUST_USE;

/* Entries are counted from 0 in the order of the directory.  Names are borrowed; they are bytes, in UTF-8 if who wrote them kept to it. */
TD_API int64_t     td_zip_count(const td_zip *z);
TD_API const char *td_zip_name(const td_zip *z, int64_t i);
TD_API int64_t     td_zip_find(const td_zip *z, const char *name);      /* -1: there is none */
TD_API uint64_t    td_zip_size(const td_zip *z, int64_t i);             /* in bytes, unpacked */
TD_API bool        td_zip_is_packed(const td_zip *z, int64_t i);        /* whether it is compressed */
/* Where its bytes, maybe compressed ones, begin in the archive; -1. */
TD_API int64_t     td_zip_offset(const td_zip *z, int64_t i);
/* Copy the first n bytes of an entry, which must have as many. */
TD_API int         td_zip_read(const td_zip *z, int64_t i, void *to, size_t n) TD_MUST_USE;
/* An entry's bytes: over the archive's own where they are stored as they are in a file or in memory, else a copy.  Writing to them
 * changes no file. */
TD_API td_storage *td_zip_storage(const td_zip *z, int64_t i);

/* ---- writing */
typedef struct td_zip_writer td_zip_writer;

/* `write` is handed the archive's bytes from front to back: 0, or -1 with an error recorded.  All names begin with `folder` and a slash ("":
 * with nothing).  Each entry's bytes begin at a multiple of `alignment`, a power of two up to 16384 (PyTorch's: 64), so that they can be mapped. */
typedef int td_zip_write_function(void *context, const void *bytes, size_t n);
TD_API td_zip_writer *td_zip_writer_new(td_zip_write_function *write, void *context, const char *folder, int alignment);
/* An entry of n bytes; zeros if `bytes` is NULL.  Without a check sum other programs may refuse to unpack it. */
TD_API int  td_zip_writer_add(td_zip_writer *w, const char *name, const void *bytes, size_t n, bool check_sum) TD_MUST_USE;
/* Write the directory.  Before this there is no archive. */
TD_API int  td_zip_writer_finish(td_zip_writer *w) TD_MUST_USE;
/* Accepts NULL. */
TD_API void td_zip_writer_release(td_zip_writer *w);

#ifdef __cplusplus
}
#endif
#endif
