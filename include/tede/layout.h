/* tede/layout.h: layouts from outside: tensors that keep their elements otherwise than by strides.
 *
 * Such a tensor has sizes, a dtype and a device as any other, fields of your own in place of a storage, and the layout's key
 * in its set.  Operators on it are those that you register kernels for, by td_register_kernel or td_register_boxed under
 * (td_layout_key(layout), device), those that are made of others, and what a fallback on that key makes of the rest.
 * Gradients follow as they do elsewhere, as long as the operators in their formulas have kernels. */
#ifndef TEDE_LAYOUT_H
#define TEDE_LAYOUT_H
#include <tede/dispatch.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_layout_kind {
    const char *name;                            /* "diagonal_matrix": tede.diagonal_matrix in Python */
    void      (*destroy)(void *fields);          /* when the last tensor with them goes away; may be NULL */
    /* The same elements, strided: what printing and .to_dense() show.  An owned reference; may be NULL. */
    td_tensor *(*to_dense)(td_tensor *x);
} td_layout_kind;

/* The layout's number; -1 with an error if the name is taken or there is no room.  `kind` must stay. */
TD_API int td_layout_register(const td_layout_kind *kind);
TD_API td_key      td_layout_key(int layout);
TD_API const char *td_layout_name(int layout);        /* "strided", ...; NULL if there is none */

/* A tensor of a registered layout over `fields`, which it owns from now on (not if this fails). */
TD_API td_tensor *td_tensor_with_layout(int layout, void *fields, int64_t ndim, const int64_t *sizes, td_dtype dtype,
                                        td_device device);
TD_API int   td_tensor_layout(const td_tensor *x);    /* td_layout */
TD_API void *td_tensor_fields(const td_tensor *x);    /* borrowed; NULL unless the layout is one of a plug-in */

#ifdef __cplusplus
}
#endif
#endif
