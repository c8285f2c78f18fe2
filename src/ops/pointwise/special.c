/* What special functions have besides their formulas. */

#include "calls_ops_pointwise_special.h"
#include <tede/kernel.h>
#include "autograd/record.h"
#include "ops/compose.h"

int td_check_polygamma(int64_t n, td_tensor *self);
int td_check_polygamma(int64_t n, td_tensor *self)
{
    (void)self;
    return n < 0 ? td_error(TD_E_RUNTIME, "polygamma(n, x) does not support negative n.") : 0;
}
/* In place on the second operand of polygamma(n, x): the result is computed of what self was before, then recorded as its new value. */
int td_op_polygamma_(td_tensor *self, int64_t n)
{
    TD_AUTO td_tensor *original = td_original(self);
    return td_record_inplace("polygamma_", self, td_polygamma(n, original));
}
td_tensor *td_op_special_modified_bessel_i0(td_tensor *self) { return td_i0(self); }
td_tensor *td_op_special_modified_bessel_i1(td_tensor *self) { return td_special_i1(self); }
