/* tede/layout.h: layouts from outside: tensors that keep their elements otherwise than by strides.
 *
 * Such a tensor has sizes, a dtype and a device as any other, fields of the layout's own in place of a storage, and the
 * layout's key in its set.  Operators on it are, in this order: those that have a kernel registered, by td_register_kernel or
 * td_register_boxed under (td_layout_key(layout), device); those that are made of others; those whose entry says that they work
 * on the values or on each part of any layout; and what a fallback on that key makes of the rest.  Gradients follow as they do elsewhere, as
 * long as the operators in their formulas have kernels.
 *
 * The sparse layouts are registered like this (src/layouts/sparse/). */
#ifndef TEDE_LAYOUT_H
#define TEDE_LAYOUT_H
#include <tede/dispatch.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Of what a tensor is made besides its shape: tensors, and numbers (where `tensor` is NULL), by name. */
typedef struct td_layout_part {
    const char *name;                            /* "indices" */
    td_tensor  *tensor;                          /* borrowed */
    int64_t     number;
    bool        values;                          /* it has the tensor's dtype, and elements that operators are applied to */
} td_layout_part;
enum { TD_LAYOUT_PARTS = 8 };                    /* at most */

enum {
    TD_LAYOUT_ZEROS = 1,                         /* elements that no part holds are zeros */
    TD_LAYOUT_SIZE_BELOW = 2,                    /* printed with its size on a separate line */
    TD_LAYOUT_BY_PARTS = 4,                      /* operators on it are made of operators on its parts, which record the gradients: a
                                                    fallback on TD_KEY_PARTS has each call before autograd has */
    TD_LAYOUT_SHOWN_STRIDED = 8,                 /* Python's .layout says strided */
    TD_LAYOUT_STRIDES = 16,                       /* tensors have a storage and strides, and fields besides: views need no kernels */
    TD_LAYOUT_RECORDS = 32,                       /* of an operator that is made of others its kernel comes before the body where gradients
                                                    are recorded, too: it calls operators that have gradients */
};

/* Members after `name` may be NULL.  `parts` and `from_parts` go together; from them follow printing, pickling, conversion to other
 * devices and dtypes, copies, and operators on the values. */
typedef struct td_layout_kind {
    size_t      size;                            /* sizeof(td_layout_kind) where it was compiled: it may grow at the end */
    const char *name;                            /* "diagonal_matrix": tede.diagonal_matrix in Python */
    const char *title;                           /* before the device's name in errors: "Sparse" gives 'SparseCPU'; NULL: the name */
    const char *family;                          /* a layout registered before, whose key, and so kernels, it shares; NULL: its own */
    unsigned    flags;                           /* TD_LAYOUT_* */
    void      (*destroy)(void *fields);          /* when the last tensor with them goes away */
    /* The same elements, strided: what .to_dense() gives, and printing where there are no parts.  An owned reference. */
    td_tensor *(*to_dense)(td_tensor *x);
    td_tensor *(*from_dense)(int layout, td_tensor *x);
    /* Fills in the parts and returns how many; and a new tensor over such parts, to which it keeps new references. */
    int        (*parts)(const td_tensor *x, td_layout_part *parts);
    td_tensor *(*from_parts)(int layout, int64_t ndim, const int64_t *sizes, int n, const td_layout_part *parts);
    /* What zeros and empty make; zeros_like and empty_like with layout= pass a tensor of another layout as `like`, which may be
     * NULL.  `op` is the operator: TD_OP_UNINITIALIZED among its flags says that it is one of the empty ones. */
    td_tensor *(*zeros)(int layout, const td_op *op, td_tensor *like, int64_t ndim, const int64_t *sizes, td_dtype dtype, td_device device);
    /* x (owned) if functions may be applied to its values one by one, else an equal tensor where they may; for an in-place operator,
     * whose name is given, an error instead. */
    td_tensor *(*settled)(td_tensor *x, const char *inplace);
    /* What printing adds at the end: "nnz=3". */
    void       (*describe)(const td_tensor *x, char *text, size_t room);
    /* The number of elements, where it isn't the product of the sizes: some of them are symbols. */
    int64_t    (*numel)(const void *fields);
    /* Whether the elements follow each other in memory, in their order: .is_contiguous(). */
    bool       (*contiguous)(const void *fields);
    /* All that printing shows, by calls of put(to, text), in place of parts; `suffix` says what there is of a history, "" if nothing. */
    int        (*print)(td_tensor *x, const char *suffix, void (*put)(void *to, const char *text), void *to);
    /* Calls an operator whose entry names a pattern of the layout's own, by that word. */
    int        (*call)(const td_op *op, const char *pattern, const td_value *arguments, td_value *results);
    /* Of TD_LAYOUT_STRIDES: what printing adds at the end, each with a '\f' before it; names of the
     * library's have the prefix.  By free(). */
    char      *(*suffixes)(const td_tensor *x, const char *prefix);
    /* "Sparse CSR": in Python stride() and is_contiguous() raise "Sparse CSR tensors do not have strides". NULL: they are answered. */
    const char *without_strides;
} td_layout_kind;

/* A size that differs between the members of a dimension before it is a symbol, j1 or 2*j1: two such sizes are equal if the members'
 * sizes come from the same place.  It is stored as a number above all sizes; symbol 0 is a size that can't be named. */
#define TD_SYMBOL ((int64_t)1 << 62)

static inline int64_t td_symbol(int64_t id, int64_t factor) { return TD_SYMBOL | factor << 40 | id; }
static inline int64_t td_symbol_id(int64_t size) { return size & (((int64_t)1 << 40) - 1); }
static inline int64_t td_symbol_factor(int64_t size) { return (size ^ TD_SYMBOL) >> 40; }
/* Sizes that large have been seen, of expanded tensors: a symbol's factor, from 1 up to 2**20, tells it from those. */
static inline bool    td_size_is_symbol(int64_t size) { return (uint64_t)(td_symbol_factor(size) - 1) < 1 << 20; }
/* "j1", "2*j1".  Returns the buffer. */
typedef char td_symbol_text[28];
TD_API const char *td_symbol_str(int64_t size, td_symbol_text buffer);

/* The layout's number; -1 with an error if the name is taken or there is no room.  `kind` must stay. */
TD_API int td_layout_register(const td_layout_kind *kind);
/* The number by name, -1 without an error if there is none. */
TD_API int         td_layout_find(const char *name);
TD_API td_key      td_layout_key(int layout);
TD_API const char *td_layout_name(int layout);        /* "strided", ...; NULL if there is none */
TD_API const td_layout_kind *td_layout_describe(int layout);      /* NULL of strided, and of a layout that nobody registered */

/* A tensor of a registered layout over `fields`, which it owns from now on (not if this fails).  Aliases share them: they mustn't
 * be changed, see td_layout_take. */
TD_API td_tensor *td_tensor_with_layout(int layout, void *fields, int64_t ndim, const int64_t *sizes, td_dtype dtype,
                                        td_device device);
TD_API int   td_tensor_layout(const td_tensor *x);    /* td_layout */
/* The same; of a wrapper of a transform's level, which has no fields, the layout of what it stands for. */
TD_API int   td_tensor_shown_layout(const td_tensor *x);
TD_API void *td_tensor_fields(const td_tensor *x);    /* borrowed; NULL of a strided tensor */
/* The same elements in another layout, as far as it has room for them: a diagonal one takes those of the diagonal.  What has the
 * layout is returned itself. */
TD_API td_tensor *td_layout_from_dense(int layout, td_tensor *x);
/* x becomes what `from` is, of the same layout: its fields, sizes and dtype.  What in-place operators end with. */
TD_API int   td_layout_take(td_tensor *x, const td_tensor *from) TD_MUST_USE;

/* A boxed kernel on a layout's key for the operator that makes a new tensor, "aten::add.Tensor", and from it one for each of its other
 * forms, "aten::add_.Tensor" and "aten::add.out": they call the kernel with the operator that makes a new tensor, and
 * store what it makes by td_layout_store.  `device` as in td_register_boxed; a NULL kernel takes all of them away. */
TD_API int td_layout_register_forms(const char *op, td_key key, int device, td_boxed_kernel *kernel, void *context) TD_MUST_USE;
/* What the in-place form (`op` has TD_OP_INPLACE) or the one with out= does with its result: `to` of the result's layout takes its
 * fields, converted to the dtype of `to`; a strided `to` takes the elements, and an out= the shape; another layout is an error. */
TD_API int td_layout_store(const td_op *op, td_tensor *to, td_tensor *result) TD_MUST_USE;
/* x's parts, through its layout; -1 with an error if the layout doesn't list them. */
TD_API int        td_layout_parts(const td_tensor *x, td_layout_part *parts) TD_MUST_USE;
/* A tensor like x of other parts. */
TD_API td_tensor *td_layout_from_parts(const td_tensor *x, int n, const td_layout_part *parts);

#ifdef __cplusplus
}
#endif
#endif
