/* tede/packed.h: weights of few bits: tensors of layout `packed`, whose rows are blocks of codes with their scales.
 *
 * A packed tensor has sizes and a dtype as any other, which say what it stands for; its elements lie in a tensor of bytes, a row of
 * blocks for each row of the last dimension.  Such tensors are made by td_to_packed (an operator), read from GGUF files in place
 * (<tede/gguf.h>), or laid over blocks that somebody else has made.  td_linear multiplies by them without unpacking them; td_to_dense
 * unpacks.  They don't change: operators that would write to one refuse. */
#ifndef TEDE_PACKED_H
#define TEDE_PACKED_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Formats by number, which is an index into their table and may differ between versions; `code` doesn't change.  The codes below 256
 * are GGUF's numbers of types. */
typedef enum td_packed_number {
    TD_PACKED_INT8,                                     /* a scale for each row */
    TD_PACKED_INT4_G32, TD_PACKED_INT4_G64, TD_PACKED_INT4_G128,   /* a scale and a zero point for each group of so many */
    TD_PACKED_Q4_0, TD_PACKED_Q8_0, TD_PACKED_Q4_K, TD_PACKED_Q6_K, TD_PACKED_MXFP4,
    TD_PACKED_FORMATS,
} td_packed_number;

typedef struct td_packed_format {
    const char *name;           /* "q4_0" */
    int         code;           /* in files */
    int         block, bytes;   /* elements of a block, and its bytes; 0: a block is a row, see td_packed_row_bytes */
} td_packed_format;

/* NULL where there is none. */
TD_API const td_packed_format *td_packed_describe(int format);
/* By name, or by code; -1 without an error if there is none. */
TD_API int td_packed_find(const char *name);
TD_API int td_packed_find_code(int64_t code);
/* Bytes of a row of so many elements; -1 with TD_E_VALUE if they aren't whole blocks. */
TD_API int64_t td_packed_row_bytes(int format, int64_t columns);

/* A packed tensor over blocks: contiguous bytes (uint8), as many as the sizes take. */
TD_API td_tensor *td_packed_from_blocks(int format, td_tensor *blocks, int64_t ndim, const int64_t *sizes, td_dtype dtype);
/* Of a packed tensor, borrowed: its blocks, and the format's number.  NULL and -1 of any other, without an error. */
TD_API td_tensor *td_packed_blocks(const td_tensor *x);
TD_API int        td_packed_format_of(const td_tensor *x);

#ifdef __cplusplus
}
#endif
#endif
