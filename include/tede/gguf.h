/* tede/gguf.h: models in files of the GGUF format: metadata and tensors, read in place and written safely.
 *
 * A file is a header, pairs of keys and typed values, a description of each tensor, and the tensors' bytes, aligned.  Reading maps the
 * file; tensors look at its pages, those of Q8_0, Q4_0, Q4_K, Q6_K and MXFP4 as packed weights (<tede/packed.h>).  The mapping lives as
 * long as the last tensor over it.  Sizes are in this library's order, the last dimension's elements side by side; the format
 * has them the other way.
 *
 * Files are not trusted: whatever is wrong with one is a TD_E_VALUE that says at which byte, what can't be opened or read a TD_E_IO.
 * Versions 2 and 3 are read and 3 is written, in little-endian order. */
#ifndef TEDE_GGUF_H
#define TEDE_GGUF_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_gguf td_gguf;

/* An open file.  Its tensors outlive it. */
TD_API td_gguf *td_gguf_open(const char *path);
/* The same over a file's contents in memory, which the tensors then look at: whoever writes to one writes there.
 * release(context) (if not NULL) is called when nothing looks at `bytes` any more, but not if this fails. */
TD_API td_gguf *td_gguf_parse(void *bytes, size_t size, void (*release)(void *context), void *context);
/* Accepts NULL. */
TD_API void td_gguf_release(td_gguf *file);

/* ---- the tensors in it, counted from 0 in the order of the file; pointers are borrowed from `file` */
TD_API int64_t        td_gguf_count(const td_gguf *file);
TD_API const char    *td_gguf_name(const td_gguf *file, int64_t i);
TD_API int64_t        td_gguf_find(const td_gguf *file, const char *name);           /* -1: there is none */
TD_API int            td_gguf_ndim(const td_gguf *file, int64_t i);
TD_API const int64_t *td_gguf_sizes(const td_gguf *file, int64_t i);
/* The format's name for its type: "F32", "Q4_K", "IQ2_XXS". */
TD_API const char    *td_gguf_type(const td_gguf *file, int64_t i);

/* A tensor over the file's bytes; every call gives another one over the same bytes.  Floats and integers are strided, the five types
 * named above packed, standing for float32.  Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q5_K, IQ4_NL and IQ4_XS are unpacked into a new tensor of
 * float32.  Of other types only the bytes can be had: TD_E_NOT_IMPLEMENTED.  TD_E_KEY if there is no such name.  Accepts a NULL file, as
 * operators accept NULL operands, so loading is checked once. */
TD_API td_tensor *td_gguf_get(td_gguf *file, const char *name);
TD_API td_tensor *td_gguf_at(td_gguf *file, int64_t i);
/* The blocks of a tensor of any type, as uint8: its sizes, but for the last one, which is the bytes of a row. */
TD_API td_tensor *td_gguf_blocks(td_gguf *file, int64_t i);

/* ---- metadata */

/* The format's numbers of kinds of values. */
typedef enum td_gguf_kind {
    TD_GGUF_U8, TD_GGUF_I8, TD_GGUF_U16, TD_GGUF_I16, TD_GGUF_U32, TD_GGUF_I32, TD_GGUF_F32, TD_GGUF_BOOL, TD_GGUF_STRING, TD_GGUF_ARRAY,
    TD_GGUF_U64, TD_GGUF_I64, TD_GGUF_F64, TD_GGUF_KINDS,
} td_gguf_kind;

/* A value is its bytes as they lie in a file, which no alignment holds for: a number little-endian, a string's text (without a NUL
 * behind it), an array's elements one after the other, of which a string has its length in 8 bytes before it, and an array its
 * elements' kind in 4 and their count in 8. */
typedef struct td_gguf_value {
    td_gguf_kind kind;
    td_gguf_kind element;       /* of an array */
    uint64_t     count;         /* elements of an array */
    const void  *data;
    size_t       size;          /* bytes of data */
} td_gguf_value;

/* In the order of the file. */
TD_API int64_t              td_gguf_metadata_count(const td_gguf *file);
TD_API const char          *td_gguf_metadata_key(const td_gguf *file, int64_t i);
TD_API const td_gguf_value *td_gguf_metadata_value(const td_gguf *file, int64_t i);
/* NULL if the key isn't there, without an error. */
TD_API const td_gguf_value *td_gguf_metadata(const td_gguf *file, const char *key);
/* A number or truth of any kind (that of an integer beyond int64 is TD_SCALAR_UINT); TD_E_TYPE for strings, arrays and NULL. */
TD_API int td_gguf_number(const td_gguf_value *value, td_scalar *number) TD_MUST_USE;
/* The elements of an array, one after the other: *at is the place of the next one, 0 at first.  False behind the last one. */
TD_API bool td_gguf_next(const td_gguf_value *array, size_t *at, td_gguf_value *element);

/* ---- writing */

/* Write n tensors and their names, and metadata, to `path`.  Strided tensors (float32, float16, bfloat16, float64, int8 to int64) are
 * written as their elements, packed ones as their blocks.  "general.alignment", if it is among the keys, is kept to; 32 otherwise.  The
 * file takes the place of an old one once it is whole, as with td_safetensors_save. */
TD_API int td_gguf_save(const char *path, int64_t n, const char *const *names, td_tensor *const *tensors, int64_t n_metadata,
                        const char *const *keys, const td_gguf_value *values) TD_MUST_USE;
/* The same with blocks of any type: where types[i] isn't NULL ("IQ2_XXS"), tensors[i] is blocks in uint8, whose last dimension is the
 * bytes of a row. */
TD_API int td_gguf_save_typed(const char *path, int64_t n, const char *const *names, td_tensor *const *tensors, const char *const *types,
                              int64_t n_metadata, const char *const *keys, const td_gguf_value *values) TD_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
