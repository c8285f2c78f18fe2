/* Nested tensors: a batch of tensors, the components, that differ in their sizes.
 *
 * A jagged one has components that differ in one dimension, the ragged one, along which they are packed into `values`: the outer shape (B, j1, D) is
 * that of values (sum of the lengths, D), outer dimension d is dimension d - 1 of the values.  Where components begin and how long they are is a td_ragged,
 * which tensors of the same structure share; the symbol j1, the size of the ragged dimension, is its number.  So two tensors have the same structure
 * if their sizes are equal, and an elementwise operator is one call on their values.
 *
 * A nested tensor of the strided layout has a row of sizes for each component, and all elements one after the other in `values`, which has one dimension.
 *
 * The parts are tensors without a history.  What leads from a tensor to its values and back records it: see call.c. */
#ifndef TD_LAYOUTS_NESTED_OBJECT_H
#define TD_LAYOUTS_NESTED_OBJECT_H
#include "tensor/layout.h"

/* Where the components of jagged tensors are; counted.  There is one for each pair of offsets and lengths that live. */
typedef struct td_ragged {
    int64_t           refcount;
    td_tensor        *offsets, *lengths;        /* lengths: NULL if components follow each other */
    int64_t           size;                     /* the symbol */
    int64_t           n, longest, shortest;     /* components; 0 of none */
    int64_t          *starts, *counts;          /* on the host: n of each */
    bool              shown_shortest, shown_longest;    /* they were given, or read by an operator that needs them */
    struct td_ragged *next, **link;             /* among all that live */
} td_ragged;

typedef struct td_nested {
    td_ragged *ragged;              /* NULL: of the strided layout */
    int        dim;                 /* the ragged dimension, counted outside */
    td_tensor *values;
    td_tensor *sizes;               /* strided: int64, (components, dimensions), on the CPU */
    int64_t    size;                /* the symbol, or twice it, ...: what dimension `dim` is */
} td_nested;

static inline bool td_is_nested(const td_tensor *x) { return (x->keys & TD_KEYSET(TD_KEY_NESTED)) != 0; }
static inline const td_nested *td_nested_of(const td_tensor *x) { return ((td_layout_record *)x->extra)->own; }
static inline bool td_is_jagged(const td_tensor *x) { return td_is_nested(x) && td_nested_of(x)->ragged; }
static inline int64_t td_nested_count(const td_tensor *x)
{
    const td_nested *n = td_nested_of(x);
    return n->ragged ? n->ragged->n : n->sizes->sizes[0];
}
/* The sizes of component i of a tensor of the strided layout. */
static inline const int64_t *td_nested_sizes(const td_tensor *x, int64_t i)
{
    const td_tensor *sizes = td_nested_of(x)->sizes;
    return (const int64_t *)sizes->data + i * sizes->sizes[1];
}

/* New tensors over parts, of which they hold aliases. */
td_tensor *td_jagged_new(td_tensor *values, td_ragged *ragged, int dim);
td_tensor *td_nested_new(td_tensor *buffer, td_tensor *sizes);
/* That of offsets and lengths (NULL: none): a new reference.  Reads them. */
td_ragged *td_ragged_of(td_tensor *offsets, td_tensor *lengths);
/* One for components of so many rows each that follow each other, with new offsets on a device. */
td_ragged *td_ragged_of_counts(int64_t n, const int64_t *counts, td_device device);
td_ragged *td_ragged_retain(td_ragged *r);
void       td_ragged_release(td_ragged *r);

#endif
