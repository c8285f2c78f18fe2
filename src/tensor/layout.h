/* Layouts other than strided, as the layers see them: see <tede/layout.h>. */
#ifndef TD_TENSOR_LAYOUT_H
#define TD_TENSOR_LAYOUT_H
#include <tede/layout.h>
#include "tensor/tensor.h"

/* What `extra` of such a tensor points to; shared by a tensor and its aliases, and never changed. */
typedef struct td_layout_record {
    const td_extra_table *table;
    int64_t               refcount;
    const td_layout_kind *kind;
    int                   layout;
    void                 *own;
} td_layout_record;

/* Whether it has a layout other than strided. */
static inline bool td_has_layout(const td_tensor *x) { return (x->keys & TD_KEYS_LAYOUTS) != 0; }

/* Those that come with the library, registered before anything else: src/layouts/builtin.c. */
extern const td_layout_kind *const td_builtin_layouts[];
extern const int                   td_builtin_layout_count;

/* The kind of a tensor that has a storage and fields besides (TD_LAYOUT_STRIDES); else NULL. */
const td_layout_kind *td_layout_with_strides(const td_tensor *x);
/* For messages: what stands before the device's name, for the layout whose key is TD_KEY_DENSE + number. */
const char           *td_layout_title(int number);
/* The first layout that was registered under a key; NULL: none. */
const td_layout_kind *td_layout_of_key(int key);
/* An owned strided tensor with x's elements; NULL with an error if x's layout can't say. */
td_tensor            *td_layout_to_dense(td_tensor *x);

#endif
