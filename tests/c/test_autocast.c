/* Mixed precision from C: what is cast, how long casts are kept, and whose dtype gradients have. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <tede/autocast.h>
#include <tede/autograd.h>
#include <tede/ops.h>

#define AUTO TD_AUTO td_tensor *

static td_tensor *square(td_dtype dtype, bool requires_grad)
{
    td_tensor *x = td_ones(2, (int64_t[]){3, 3}, dtype, CPU);
    if (x && requires_grad && td_set_requires_grad(x, true) != 0) {
        td_tensor_release(x);
        return NULL;
    }
    return x;
}

/* mm(x, w) twice over, under autocast to `dtype`. */
static td_tensor *products(td_tensor *x, td_tensor *w, td_dtype dtype)
{
    td_autocast before;
    if (td_autocast_begin(&before, dtype, true) != 0)
        return NULL;
    AUTO once = td_mm(x, w);
    td_tensor *twice = td_mm(once, w);
    td_autocast_end(before);
    return twice;
}

TD_TEST(products_compute_in_the_half_type_and_gradients_arrive_in_the_leaves_dtype)
{
    AUTO x = TRY(square(TD_F32, false));
    AUTO w = TRY(square(TD_F32, true));
    AUTO y = TRY(products(x, w, TD_BF16));
    CHECK(td_tensor_dtype(y) == TD_BF16 && td_autocast_now().dtype == TD_DTYPE_NONE);
    AUTO ones = TRY(td_ones_like(y));
    CHECK(TRY(td_backward(1, &y, &ones, false, false)) == 0);
    CHECK(td_tensor_dtype(td_grad(w)) == TD_F32 && *(float *)td_tensor_data(td_grad(w)) == 18);
}

TD_TEST(float64_stays_and_outside_nothing_is_cast)
{
    AUTO x = TRY(square(TD_F64, false));
    AUTO y = TRY(products(x, x, TD_F16));
    AUTO z = TRY(products(x, x, TD_DTYPE_NONE));
    CHECK(td_tensor_dtype(y) == TD_F64 && td_tensor_dtype(z) == TD_F64);
}

TD_TEST(losses_compute_in_float32_and_an_inner_off_holds_until_its_end)
{
    AUTO half = TRY(square(TD_BF16, false));
    AUTO x = TRY(square(TD_F32, false));
    td_autocast before, inner;
    CHECK(TRY(td_autocast_begin(&before, TD_BF16, true)) == 0);
    AUTO loss = td_mse_loss_mean(half, half);
    AUTO low = td_mm(x, x);
    int nested = td_autocast_begin(&inner, TD_DTYPE_NONE, true);
    AUTO plain = nested == 0 ? td_mm(x, x) : NULL;
    if (nested == 0)
        td_autocast_end(inner);
    AUTO again = td_mm(x, x);
    td_autocast_end(before);
    CHECK(td_tensor_dtype(TRY(loss)) == TD_F32 && td_tensor_dtype(TRY(low)) == TD_BF16);
    CHECK(td_tensor_dtype(TRY(plain)) == TD_F32 && td_tensor_dtype(TRY(again)) == TD_BF16);
}

TD_TEST(each_type_of_device_has_a_state)
{
    AUTO x = TRY(square(TD_F32, false));
    td_autocast other = {TD_F16, true, TD_CUDA};
    CHECK(TRY(td_autocast_set(other)) == 0);
    AUTO y = td_mm(x, x);                               /* on the CPU, where it is off */
    CHECK(td_autocast_now_on(TD_CUDA).dtype == TD_F16 && td_autocast_now().dtype == TD_DTYPE_NONE);
    AUTO z = products(x, x, TD_BF16);
    CHECK(td_autocast_now_on(TD_CUDA).dtype == TD_F16 && td_autocast_now().dtype == TD_DTYPE_NONE);
    other.dtype = TD_DTYPE_NONE;
    CHECK(td_autocast_set(other) == 0);
    CHECK(td_tensor_dtype(TRY(y)) == TD_F32 && td_tensor_dtype(TRY(z)) == TD_BF16);
    other.device_type = 1000;
    CHECK_FAILS(td_autocast_set(other) ? NULL : &other, TD_E_VALUE, "no type 1000");
}
