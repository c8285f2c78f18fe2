/* What the folders here share: operators of libraries that are written for PyTorch, defined over tede's installed headers.
 *
 * An operator of these is a schema, a meta half that checks and describes, and an implementation for the CPU, which computes in
 * float32 or float64: halves are converted on the way in and rounded once on the way out. From the two follow meta tensors,
 * devices (by the CPU) and vmap (once per member). */
#ifndef TEDE_OPERATORS_H
#define TEDE_OPERATORS_H
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tede/auto.h>
#include <tede/autograd_nodes.h>
#include <tede/kernel.h>
#include <tede/spec.h>
#include <tede/tede.h>

#define META(name) int name(const td_op *op, const td_value *arguments, td_spec *specs, void *context)
#define IMPL(name) int name(const td_op *op, const td_value *arguments, td_tensor *const *results, void *context)

typedef struct operator_entry {
    const char    *schema;
    td_boxed_meta *meta;
    td_boxed_impl *impl;
    const void    *context;
} operator_entry;

/* "torchvision::nms", of "torchvision::nms(Tensor dets, ...) -> Tensor". */
static inline const char *operator_name(const char *schema, char name[96])
{
    const size_t length = strcspn(schema, "(");
    memcpy(name, schema, length < 95 ? length : 95);
    name[length < 95 ? length : 95] = 0;
    return name;
}

/* Defines operators that have a meta half; 0, or -1 with an error. */
static inline int operators_define(int n, const operator_entry *entries)
{
    char name[96];
    for (const operator_entry *e = entries; e < entries + n; e++) {
        const td_op *op = td_op_define(e->schema);
        if (!op || td_op_set_meta(op, e->meta, (void *)e->context) ||
            td_register_boxed_impl(operator_name(e->schema, name), TD_CPU, e->impl, (void *)e->context))
            return -1;
    }
    return 0;
}

static inline const char *operator_title(const td_op *op) { return td_op_describe(op)->name; }
static inline int64_t size_of(const td_tensor *x, int dim) { return td_tensor_sizes(x)[dim]; }

/* The dtype in which elements of `dtype` are computed. */
static inline td_dtype computed(td_dtype dtype) { return dtype == TD_F64 ? TD_F64 : TD_F32; }

/* RUN(float) or RUN(double), statements, by a computed dtype. */
#define BY_COMPUTED(dtype, RUN) do { if ((dtype) == TD_F64) { RUN(double); } else { RUN(float); } } while (0)

#endif
