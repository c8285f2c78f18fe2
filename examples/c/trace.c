/* Recording what a function calls, and making the same calls on other tensors.
 *
 *     make trace && ./trace
 *
 * The recording is made above autograd: gradients follow when it is played, as they do when the function runs. */
#include <stdio.h>
#include <stdlib.h>
#include <tede/auto.h>
#include <tede/tede.h>
#include <tede/trace.h>

static void check(bool good)
{
    if (good)
        return;
    fprintf(stderr, "trace: %s\n", td_error_message());
    exit(1);
}

static td_tensor *layer(td_tensor *x, td_tensor *w)
{
    TD_AUTO td_tensor *y = td_matmul(x, w);
    TD_AUTO td_tensor *z = td_add_scalar(y, td_int(1), td_int(1));
    check(z && td_relu_(z) == 0);
    return td_sum(z);
}

int main(void)
{
    const td_device cpu = {TD_CPU, -1};
    TD_AUTO td_tensor *x = td_ones(2, (int64_t[]){2, 3}, TD_F32, cpu);
    TD_AUTO td_tensor *w = td_ones(2, (int64_t[]){3, 4}, TD_F32, cpu);
    check(x && w);
    td_recording *r = td_record_begin(2, (td_tensor *[]){x, w});
    TD_AUTO td_tensor *sum = r ? layer(x, w) : NULL;
    check(sum && td_record_end(r, 1, &sum) == 0);
    char *text = td_recording_str(r);
    check(text);
    fputs(text, stdout);
    td_string_free(text);

    TD_AUTO td_tensor *other = td_full(2, (int64_t[]){5, 3}, td_float(0.5), TD_F32, cpu);
    check(other && td_set_requires_grad(other, true) == 0);
    td_tensor *again;
    check(td_recording_play(r, (td_tensor *[]){other, w}, &again) == 0);
    check(td_backward(1, &again, NULL, false, false) == 0);
    td_scalar value, slope;
    TD_AUTO td_tensor *corner = td_select_int(td_grad(other), 0, 0);
    TD_AUTO td_tensor *first = td_select_int(corner, 0, 0);
    check(td_tensor_item(again, &value) == 0 && td_tensor_item(first, &slope) == 0);
    printf("played: %g, gradient %g\n", value.d, slope.d);
    td_tensor_release(again);
    td_recording_release(r);
    return 0;
}
