/* A program on a device from outside: it loads the library, computes there, and takes gradients over both indices and the CPU.
 *
 *     make toy toy_device.so && ./toy ./toy_device.so */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tede/auto.h>
#include <tede/autograd_nodes.h>
#include <tede/device.h>
#include <tede/tede.h>

static void check(bool good)
{
    if (good)
        return;
    fprintf(stderr, "toy: %s\n", td_error_message());
    exit(1);
}

/* Which thread a gradient comes by on. */
static int note_thread(void *thread, td_tensor *grad, td_tensor **replacement)
{
    (void)grad, (void)replacement;
    *(pthread_t *)thread = pthread_self();
    return 0;
}

int main(int argc, char **argv)
{
    int type = td_device_load(argc > 1 ? argv[1] : "./toy_device.so");
    check(type >= 0);
    const td_device cpu = {TD_CPU, -1}, zero = {(int8_t)type, 0}, one = {(int8_t)type, 1};
    printf("%d devices\n", td_device_count(type));

    TD_AUTO td_tensor *x = td_ones(2, (int64_t[]){3, 3}, TD_F32, cpu);
    check(x && td_set_requires_grad(x, true) == 0);
    TD_AUTO td_tensor *a = td_to_device(x, zero, TD_F32, false, false, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *b = td_to_device(x, one, TD_F32, false, false, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *aa = td_mm(a, a);
    TD_AUTO td_tensor *bb = td_exp(b);                     /* the CPU does that */
    TD_AUTO td_tensor *back = td_to_device(bb, zero, TD_F32, false, false, TD_MEMORY_FORMAT_NONE);
    TD_AUTO td_tensor *sum = td_add(aa, back);
    TD_AUTO td_tensor *loss = td_sum(sum);
    pthread_t threads[3];
    td_tensor *seen[] = {x, aa, bb};
    for (int i = 0; i < 3; i++) {
        td_hook *hook = td_tensor_add_hook(seen[i], note_thread, &threads[i], NULL);
        check(hook != NULL);
        td_hook_release(hook);
    }
    check(loss && td_backward(1, &loss, NULL, false, false) == 0);
    td_scalar value;
    check(td_tensor_item(loss, &value) == 0);
    char *text = td_tensor_str(td_grad(x));
    check(text);
    printf("loss %.4f\n%s\n", value.d, text);
    td_string_free(text);
    printf("threads: %s\n", pthread_equal(threads[0], threads[1]) || pthread_equal(threads[0], threads[2]) ||
                                pthread_equal(threads[1], threads[2]) || !pthread_equal(threads[0], pthread_self())
                                ? "shared" : "one for each device");
    printf("%s by the CPU\n", td_cpu_fallback_count() > 0 ? "some" : "nothing");
    TD_AUTO td_tensor *mixed = td_add(aa, x);
    puts(mixed ? "?" : td_error_message());
    return 0;
}
