/* tede/npy.h: NumPy's files: a tensor in a .npy file, several in a .npz archive.
 *
 * A .npy file is a line of text, which says dtype, shape and order, and the elements' bytes.  Versions 1.0, 2.0 and 3.0 are read, in C's
 * and in Fortran's order (the tensor's strides say which), and numbers of both byte orders: bool, integers, halves, floats and complex
 * numbers.  Structured dtypes, strings, dates and pickled objects are refused (TD_E_TYPE); what is wrong with a file is a TD_E_VALUE.
 *
 * Bytes are looked at where they are, if their order is this machine's and their offset suits the dtype's alignment: in .npy files it does,
 * in .npz archives by chance. Else they are copied.  Writing to a tensor over a file's pages changes no file. */
#ifndef TEDE_NPY_H
#define TEDE_NPY_H
#include <tede/zip.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The tensor of a file, over its pages; its own reference. */
TD_API td_tensor *td_npy_load(const char *path);
/* The same of a file's contents in memory.  release(context) (if not NULL) is called when nothing looks at `bytes` any more, but not if
 * this fails. */
TD_API td_tensor *td_npy_parse(void *bytes, size_t size, void (*release)(void *context), void *context);
/* The tensor `name` of an archive that numpy.savez wrote: its entry "name.npy".  TD_E_KEY if there is none.  Accepts a NULL archive, as
 * operators accept NULL operands, so loading is checked once. All of the entry is read, for its check sum. */
TD_API td_tensor *td_npz_get(const td_zip *z, const char *name);

#ifdef __cplusplus
}
#endif
#endif
