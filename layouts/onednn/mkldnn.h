/* What the files of this folder share.
 *
 * A memory is bytes in an order that oneDNN describes: neighbouring channels in blocks of 16, say.  A tensor of the layout holds one;
 * a strided operand is one, too, while a primitive reads it.  A kernel brings its operands into the order that the
 * primitive's description asks for (mk_as), and lets the primitive choose the order of results. */
#ifndef TEDE_ONEDNN_MKLDNN_H
#define TEDE_ONEDNN_MKLDNN_H
#include <tede/auto.h>
#include <tede/foreign.h>
#include <tede/kernel.h>
#include <tede/layout.h>
#include <tede/tede.h>
#include "dnnl.h"

/* All members are owned. */
typedef struct mk_memory {
    dnnl_memory_desc_t desc;
    dnnl_memory_t      memory;
    td_tensor         *bytes;               /* uint8, or the strided operand */
    int64_t            groups;              /* above 0: the description's first dimension, which the tensor's sizes don't have */
} mk_memory;
void mk_memory_drop(mk_memory *m);
static inline void mk_drop_pd(dnnl_primitive_desc_t *pd)
{
    if (*pd)
        dnnl_primitive_desc_destroy(*pd);
}
static inline void mk_drop_md(dnnl_memory_desc_t *desc)
{
    if (*desc)
        dnnl_memory_desc_destroy(*desc);
}
#define MK_AUTO    __attribute__((cleanup(mk_memory_drop)))
#define MK_AUTO_PD __attribute__((cleanup(mk_drop_pd)))
#define MK_AUTO_MD __attribute__((cleanup(mk_drop_md)))

extern int mk_layout;
static inline bool mk_is(const td_tensor *x) { return x && x != TD_NONE && td_tensor_layout(x) == mk_layout; }

/* 0, or -1 with an error that names the operator and oneDNN's reason. */
int mk_status(const char *op, int status);
/* oneDNN's number of a dtype; -1 with an error. */
int mk_dtype(const char *op, td_dtype dtype);

/* Descriptions: contiguous, and one whose order is for the primitive to choose. */
int mk_plain(dnnl_memory_desc_t *desc, int64_t ndim, const int64_t *sizes, td_dtype dtype);
int mk_any(dnnl_memory_desc_t *desc, int64_t ndim, const int64_t *sizes, td_dtype dtype);
/* A tensor's elements, of this layout or strided; and in the order in which they are kept, with groups if it has some. */
int mk_of(mk_memory *m, td_tensor *x);
int mk_kept(mk_memory *m, td_tensor *x);
/* x's sizes with groups as a dimension of their own, if there are any; how many. */
int mk_grouped(const td_tensor *x, int64_t groups, int64_t *sizes);
/* The same, contiguous, with other sizes: as many elements. */
int mk_of_sizes(mk_memory *m, td_tensor *x, int64_t ndim, const int64_t *sizes);
/* New memory. */
int mk_make(mk_memory *m, md desc);
/* `from` in another order or dtype; what is so already is taken over from it. */
int mk_as(mk_memory *m, mk_memory *from, md want);
/* `from` written to `to`, converted. */
int mk_write(const mk_memory *to, const mk_memory *from);
/* A tensor of the layout over m, which is left empty; and a strided one. */
td_tensor *mk_tensor(mk_memory *m, int64_t ndim, const int64_t *sizes, td_dtype dtype);
td_tensor *mk_strided(mk_memory *m, int64_t ndim, const int64_t *sizes, td_dtype dtype);
td_tensor *mk_from_strided(td_tensor *x);

/* Runs what pd describes. Members of `arguments` without a memory are left out. */
int mk_run(const char *op, dnnl_primitive_desc_t pd, int n, const dnnl_exec_arg_t *arguments);
static inline md mk_query(dnnl_primitive_desc_t pd, int what) { return dnnl_primitive_desc_query_md(pd, what, 0); }

/* ---- for kernels */
#define MK_KERNEL(name) int name(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
int mk_give(td_value *result, td_tensor *x);            /* takes x over; -1 if it is NULL */
static inline const char *mk_name(const td_op *op) { return td_op_describe(op)->name; }
static inline td_tensor *mk_optional(const td_value *v) { return v->kind == TD_VALUE_TENSOR && v->tensor != TD_NONE ? v->tensor : NULL; }
/* A list of one number, or none, for `n` dimensions. */
int mk_spread(const td_op *op, const td_value *v, int n, const int64_t *otherwise, int64_t *out);
/* The checks of an operator, and the sizes of its first result: it is called with tensors of the same sizes without elements. */
int mk_sizes_of(const char *op, int n, const td_value *arguments, int *ndim, int64_t *sizes);

int mk_register_tensor(void), mk_register_pool(void), mk_register_pointwise(void), mk_register_convolution(void), mk_register_strided(void);
typedef struct mk_row { const char *op; td_boxed_kernel *kernel; const void *context; } mk_row;
/* On the layout's key; and with the forms in place (`name_`) and with out= that there are. */
int mk_register(const mk_row *rows, int n);
int mk_register_forms(const mk_row *rows, int n);
#endif
