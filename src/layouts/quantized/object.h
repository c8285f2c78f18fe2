/* Quantized tensors: integers in a storage, with sizes and strides as any tensor's, and a quantizer that says what numbers they stand
 * for: (integer - zero point) * scale, with one pair for the tensor or one per index of a dimension, the axis.
 *
 * The quantizer hangs on the tensor's `extra`; views and aliases share it and the storage.  A quantizer never changes: copy_, which
 * takes over its source's, exchanges the pointer.  The key among those of layouts is what leads calls here.
 *
 * Note [Integers of a few bits]
 * Elements of quint4x2 and quint2x4 lie several to a byte, the first in the lowest bits, in the order of a contiguous tensor, and each row of
 * the last dimension adds whole bytes to the storage, as in PyTorch.  So sizes and strides count elements that have no address: nothing may
 * reach them by strides.  Such a tensor is always contiguous and begins at its storage's begin; its views are those of which that stays true;
 * td_quantized_integers refuses it, and with that all patterns that work on integers do. */
#ifndef TD_LAYOUTS_QUANTIZED_OBJECT_H
#define TD_LAYOUTS_QUANTIZED_OBJECT_H
#include "ops/compose.h"
#include "tensor/layout.h"

typedef enum td_qscheme { TD_PER_TENSOR_AFFINE, TD_PER_CHANNEL_AFFINE, TD_PER_CHANNEL_FLOAT } td_qscheme;

typedef struct td_quantizer {
    const td_extra_table *table;
    int64_t    refcount;
    td_qscheme scheme;
    int        axis;
    double     scale;
    int64_t    zero_point;
    td_tensor *scales, *zero_points;        /* per channel, contiguous: float64 and int64, or both float32; else NULL */
} td_quantizer;

static inline bool td_is_quantized(const td_tensor *x) { return (x->keys & TD_KEYSET(TD_KEY_QUANTIZED)) != 0; }
static inline const td_quantizer *td_quantizer_of(const td_tensor *x) { return x->extra; }

/* New quantizers, of which tensors take references. */
td_quantizer *td_quantizer_per_tensor(double scale, int64_t zero_point);
td_quantizer *td_quantizer_per_channel(td_tensor *scales, td_tensor *zero_points, int axis);
void          td_quantizer_release(td_quantizer *q);
static inline void td_quantizer_cleanup(td_quantizer **q) { td_quantizer_release(*q); }
#define TD_AUTO_QUANTIZER __attribute__((cleanup(td_quantizer_cleanup)))
static inline td_quantizer *td_quantizer_retain(const td_quantizer *q)
{
    __atomic_fetch_add(&((td_quantizer *)q)->refcount, 1, __ATOMIC_RELAXED);
    return (td_quantizer *)q;
}
bool          td_quantizers_agree(const td_quantizer *a, const td_quantizer *b);

/* The integer dtype in which elements are stored, or that holds one of a few bits; TD_DTYPE_NONE of dtypes that aren't quantized; and back. */
td_dtype td_integers_of(int dtype);
td_dtype td_quantized_of(int dtype);
/* The least and the largest integer. */
int64_t td_quantized_least(int dtype);
int64_t td_quantized_most(int dtype);

/* How many elements a byte holds: 1 but for those of a few bits, see Note [Integers of a few bits]. */
int     td_quantized_each(int dtype);

/* x's memory as integers, and integers' memory as a quantized tensor.  NULL of NULL. */
td_tensor *td_quantized_integers(td_tensor *x);
td_tensor *td_quantized_over(td_tensor *integers, const td_quantizer *q);
/* Of a few bits: the bytes that hold elements, in x's memory; the integers, an element each, unpacked; such integers packed into new memory; and
 * a tensor without values. */
td_tensor *td_quantized_bytes(td_tensor *x);
td_tensor *td_quantized_unpacked(td_tensor *x);
td_tensor *td_quantized_packed(td_tensor *integers, const td_quantizer *q, td_dtype dtype);
td_tensor *td_quantized_empty_packed(int ndim, const int64_t *sizes, td_dtype dtype, td_device device, const td_quantizer *q);
/* x has another quantizer from now on. */
void       td_quantized_take(td_tensor *x, const td_quantizer *q);

/* One number quantized with the tensor's quantizer. */
int64_t    td_quantized_number(const td_quantizer *q, int dtype, double value);
/* A float32 tensor quantized: per channel the axis must be one of x's. */
td_tensor *td_quantized_from(td_tensor *x, const td_quantizer *q, td_dtype dtype);
/* The same of numbers that an operator has made of integers: a tie is even without the zero point, as in PyTorch's operators. */
td_tensor *td_requantized_from(td_tensor *x, const td_quantizer *q, td_dtype dtype);
/* 0, or -1 with the error of PyTorch's assertion, where one pair for the whole tensor is needed. */
int        td_check_per_tensor(const td_tensor *x);
/* Runs an operator by a pattern of calls.c. */
int        td_quantized_call(const td_op *op, const char *word, const td_value *arguments, td_value *results);
#endif
