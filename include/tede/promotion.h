/* tede/promotion.h: how operands of different dtypes are promoted on this thread.
 *
 * By PyTorch's rules, or by those of the Python array API standard: kinds (bool, integers, floats and complex numbers) don't
 * mix, tensors without dimensions count like others, a number is of a kind that the tensor's dtype can hold, and what is
 * written keeps its dtype; the rest is a TypeError. */
#ifndef TEDE_PROMOTION_H
#define TEDE_PROMOTION_H
#include <tede/dispatch.h>
#ifdef __cplusplus
extern "C" {
#endif

/* The key of the other rules, above all of enum td_key: in the thread's mask while they hold. */
enum { TD_KEY_PROMOTION = TD_KEY_TRANSFORMS + 1 };

typedef enum td_promotion { TD_PROMOTION_PYTORCH, TD_PROMOTION_ARRAY_API } td_promotion;
TD_API int          td_set_promotion(td_promotion rules) TD_MUST_USE;
TD_API td_promotion td_get_promotion(void);

#ifdef __cplusplus
}
#endif
#endif
