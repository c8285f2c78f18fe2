/* A dtype: numbers from -7.9375 to 7.9375 in steps of 1/16, in a byte each.
 *
 *     make scaled8 && ./scaled8            or make scaled8.so, and in Python tede.ops.load_library("./scaled8.so")
 *
 * Two conversions are all there is to it: pointwise operators compute in float32 and round their results to the dtype. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tede/auto.h>
#include <tede/tede.h>

static void load(float *to, const void *from, int64_t n)
{
    const int8_t *codes = from;
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)codes[i] / 16;
}

/* Rounds to the nearest step; what lies beyond the range becomes its end, and NaN zero. */
static void store(void *to, const float *from, int64_t n)
{
    int8_t *codes = to;
    for (int64_t i = 0; i < n; i++) {
        float code = nearbyintf(from[i] * 16);
        codes[i] = (int8_t)(code != code ? 0 : code > 127 ? 127 : code < -127 ? -127 : code);
    }
}

static const td_dtype_kind kind = {"scaled8", "Scaled8", 1, load, store};

#ifdef SCALED8_LIBRARY
/* An error that it leaves is load_library's. */
__attribute__((constructor)) static void loaded(void) { td_dtype_register(&kind); }
#else
static void show(td_tensor *x)
{
    char *text = td_tensor_str(x);
    if (!text) {
        fprintf(stderr, "scaled8: %s\n", td_error_message());
        exit(1);
    }
    puts(text);
    td_string_free(text);
}

int main(void)
{
    td_dtype scaled8 = td_dtype_register(&kind);
    TD_AUTO td_tensor *line = td_linspace(td_float(-10), td_float(10), 6, TD_F32, TD_DEVICE_NONE);
    TD_AUTO td_tensor *x = td_to(line, scaled8);
    TD_AUTO td_tensor *half = td_mul_scalar(x, td_float(0.5));
    TD_AUTO td_tensor *root = td_sqrt(half);
    TD_AUTO td_tensor *wide = td_add(half, line);
    TD_AUTO td_tensor *product = td_matmul(x, x);
    show(x), show(half), show(root), show(wide);
    puts(product ? "?" : td_error_message());
    return 0;
}
#endif
