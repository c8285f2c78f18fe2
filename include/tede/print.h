/* tede/print.h: how tensors are shown. */
#ifndef TEDE_PRINT_H
#define TEDE_PRINT_H
#include <tede/tensor.h>
#ifdef __cplusplus
extern "C" {
#endif

/* What set_printoptions sets, for the whole process. */
typedef struct td_print_options {
    int    precision;       /* digits behind the point: 4 */
    double threshold;       /* more elements than this are summarised: 1000; may be infinite */
    int    edgeitems;       /* shown at each end of a summarised dimension: 3 */
    int    linewidth;       /* 80 */
    int    sci_mode;        /* 1, 0, or -1: as the values want it */
} td_print_options;
TD_API void td_print_get_options(td_print_options *options);
TD_API int  td_print_set_options(const td_print_options *options) TD_MUST_USE;
/* Fill in a profile, "default", "short" or "full"; sci_mode stays. */
TD_API int  td_print_profile(td_print_options *options, const char *name) TD_MUST_USE;

/* td_tensor_str with another word before the parenthesis, "MyTensor".  `contents`, if not NULL, is what
 * stands in the parentheses instead of the elements.  td_string_free the result. */
TD_API char *td_tensor_str_as(td_tensor *x, const char *prefix, const char *contents);

/* What autograd has to say about a tensor, "grad_fn=<AddBackward0>" or "requires_grad=True", written to `text` (cut
 * to `room`) or left empty.  Set by the layer that knows; without it leaves say requires_grad=True. */
typedef void td_print_suffix(td_tensor *x, char *text, size_t room);
TD_API void td_print_set_suffix(td_print_suffix *suffix);
/* What dtypes are called by: "torch." at first. */
TD_API void td_print_set_dtype_prefix(const char *prefix);

#ifdef __cplusplus
}
#endif
#endif
