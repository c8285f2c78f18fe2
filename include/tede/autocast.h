/* tede/autocast.h: mixed precision, which casts operands as calls need it.
 *
 * While it is on for a thread, products and convolutions compute in a half type, delicate functions (losses, factorizations,
 * norms) in float32, and what joins tensors in the widest of its operands' types.  It is on or off for each type of device:
 * floating operands on such devices are cast, and float64 never.  The casts are recorded, so gradients arrive in the types of the leaves.
 *
 *     td_autocast before;
 *     if (td_autocast_begin(&before, TD_BF16, true) != 0) ...
 *     td_tensor *loss = forward(model, batch);
 *     td_autocast_end(before);
 *     td_backward(loss);
 *
 * It is the dispatcher's Autocast key: while it is off nothing asks for it. */
#ifndef TEDE_AUTOCAST_H
#define TEDE_AUTOCAST_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef struct td_autocast {
    td_dtype dtype;          /* what products compute in: TD_BF16 or TD_F16; TD_DTYPE_NONE: autocast is off */
    bool     cached;         /* a leaf that needs a gradient (a weight) is cast once, until the outermost end */
    int      device_type;    /* whose operands are cast: TD_CPU, or the type of a device that is loaded */
} td_autocast;

/* Turn it on, or off within an outer one (TD_DTYPE_NONE), for this thread and operands on the CPU; `before` is what the end needs.  They nest. */
TD_API int  td_autocast_begin(td_autocast *before, td_dtype dtype, bool cached) TD_MUST_USE;
TD_API void td_autocast_end(td_autocast before);

/* What holds on this thread for the CPU, and for any type of device; to change it without nesting; and to drop the casts that are kept. */
TD_API td_autocast td_autocast_now(void);
TD_API td_autocast td_autocast_now_on(int device_type);
TD_API int         td_autocast_set(td_autocast state) TD_MUST_USE;
TD_API void        td_autocast_clear_cache(void);
/* What says the type of device that an object of a class stands for, TD_META if it doesn't say: tensors on meta are often such, and are cast as
 * what they stand for would be.  The language that has the classes sets it. */
TD_API void        td_autocast_set_type_of(int (*type_of)(const td_tensor *x));
/* The two halves of begin and end that count the nesting: how deep the thread is then.  At depth 0 the kept casts go. */
TD_API int         td_autocast_deeper(int by);

#ifdef __cplusplus
}
#endif
#endif
