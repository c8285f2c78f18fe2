/* What reading and writing of GGUF share: the types of tensors, and how values lie in a file. */
#ifndef TD_IO_GGUF_H
#define TD_IO_GGUF_H
#include <tede/gguf.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the files' numbers are little-endian");

#define GGUF_MAGIC "GGUF"
enum { GGUF_ALIGNMENT = 32, GGUF_LONGEST = 65535 };      /* where nothing else is said; bytes of a key or a tensor's name */

typedef struct gguf_type {
    const char *name;
    int         number, block, bytes;       /* elements of a block, and its bytes */
    td_dtype    dtype;                      /* TD_DTYPE_NONE: blocks */
    void      (*unpack)(const uint8_t *block, float *to);   /* NULL: it isn't known here what they hold */
} gguf_type;

/* NULL, without an error, if there is none. */
const gguf_type *td_gguf_type_of_number(uint32_t number);
const gguf_type *td_gguf_type_of_name(const char *name);
const gguf_type *td_gguf_type_of_dtype(td_dtype dtype);

/* Bytes of a value of that kind; 0 for strings and arrays. */
size_t td_gguf_kind_size(unsigned kind);
/* Whether the bytes of a value are what its kind, element and count say; an error that begins with `who` if not. */
int td_gguf_check_value(const td_gguf_value *value) TD_MUST_USE;

#endif
