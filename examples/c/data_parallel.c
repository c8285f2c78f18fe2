/* Train a small network on several processes, in C: each has a part of the points, and the gradients are averaged.
 *
 *     make data_parallel && mpiexec -n 2 ./data_parallel             (pip install mpich brings mpiexec and the library)
 *
 * All ranks begin with rank 0's parameters and take the same steps, so they keep the same parameters. The average of the ranks' gradients is the
 * gradient of one process on all points, since the parts have one size: before the first step rank 0 compares them. All calls of a step are
 * begun before the first is waited for, so they go on at once.
 *
 * A rank that dies ends the others: the call that needs it fails, and its error names the rank. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tede/auto.h>
#include <tede/group.h>
#include <tede/tede.h>

enum { ARMS = 3, HIDDEN = 32, POINTS = 1200, STEPS = 200, LAYERS = 3, PARAMETERS = 2 * LAYERS };
static const td_device cpu = {TD_CPU, -1};
static int rank, ranks;

static void check(bool good)
{
    if (good)
        return;
    fprintf(stderr, "data_parallel, rank %d: %s\n", rank, td_error_message());
    td_group_end(true);
    exit(1);
}

/* Points on spiral arms, the same on each rank; a rank trains on every one whose number modulo the number of ranks is its own. */
static void draw_points(td_tensor **points, td_tensor **arms)
{
    const int64_t n = POINTS;
    TD_AUTO td_tensor *places = td_rand(1, &n, TD_F32, cpu);
    *points = td_tensor_new(2, (int64_t[]){n, 2}, TD_F32, cpu);
    *arms = td_tensor_new(1, &n, TD_I64, cpu);
    check(places && *points && *arms);
    float *point = td_tensor_data(*points);
    const float *along = td_tensor_data(places);
    for (int64_t i = 0; i < n; i++) {
        const int64_t arm = i / ranks % ARMS;           /* so that each rank has points of all arms */
        const double radius = 0.05 + along[i], angle = 6.2832 * (double)arm / ARMS + 5 * radius;
        *point++ = (float)(radius * cos(angle));
        *point++ = (float)(radius * sin(angle));
        ((int64_t *)td_tensor_data(*arms))[i] = arm;
    }
}

static void make_parameters(td_tensor **parameters)
{
    static const int64_t widths[LAYERS + 1] = {2, HIDDEN, HIDDEN, ARMS};
    for (int layer = 0; layer < LAYERS; layer++) {
        const int64_t shape[] = {widths[layer + 1], widths[layer]};
        td_tensor *weight = parameters[2 * layer] = td_zeros(2, shape, TD_F32, cpu), *bias = parameters[2 * layer + 1] = td_zeros(1, shape, TD_F32, cpu);
        check(weight && bias && td_normal_(weight, 0, 1 / sqrt((double)shape[1]), NULL) == 0);
        check(td_set_requires_grad(weight, true) == 0 && td_set_requires_grad(bias, true) == 0);
    }
}

static td_tensor *loss_of(td_tensor *const *parameters, td_tensor *points, td_tensor *arms)
{
    td_tensor *x = td_tensor_retain(points);
    for (int layer = 0; layer < LAYERS; layer++) {
        TD_AUTO td_tensor *before = x;
        TD_AUTO td_tensor *sums = td_linear(before, parameters[2 * layer], parameters[2 * layer + 1]);
        x = layer < LAYERS - 1 ? td_tanh(sums) : td_tensor_retain(sums);
    }
    TD_AUTO td_tensor *logits = x;
    return td_cross_entropy(logits, arms);
}

/* The gradients of all ranks, averaged. */
static void average(td_group *group, td_tensor *const *parameters)
{
    td_work *works[PARAMETERS];
    for (int i = 0; i < PARAMETERS; i++) {
        td_tensor *grad = td_grad(parameters[i]);
        works[i] = td_group_start(group, &(td_group_call){.size = sizeof(td_group_call), .kind = TD_ALL_REDUCE, .reduction = TD_REDUCE_AVG,
                                                          .n_from = 1, .from = &grad, .n_to = 1, .to = &grad});
        check(works[i]);
    }
    for (int i = 0; i < PARAMETERS; i++) {
        check(td_work_wait(works[i], 0, NULL, NULL) == 0);
        td_work_release(works[i]);
    }
}

static double number(td_tensor *x)
{
    td_scalar value;
    check(x && td_tensor_item(x, &value) == 0);
    return td_scalar_double(value);
}

/* How far the gradients are from those of all points in one process. */
static double distance(td_tensor *const *parameters, td_tensor *points, td_tensor *arms)
{
    double most = 0;
    td_tensor *alone[PARAMETERS];
    TD_AUTO td_tensor *loss = loss_of(parameters, points, arms);
    check(loss && td_autograd_grad(1, &loss, NULL, PARAMETERS, parameters, alone, false, false, false) == 0);
    for (int i = 0; i < PARAMETERS; i++) {
        TD_AUTO td_tensor *one = alone[i];
        TD_AUTO td_tensor *difference = td_sub(one, td_grad(parameters[i]));
        TD_AUTO td_tensor *size = td_abs(difference);
        TD_AUTO td_tensor *largest = td_max_all(size);
        most = fmax(most, number(largest));
    }
    return most;
}

int main(void)
{
    td_group *group = td_group_new("mpi", &(td_group_options){.size = sizeof(td_group_options), .rank = -1, .timeout = 60});
    check(group);
    rank = td_group_rank(group), ranks = td_group_size(group);

    td_tensor *parameters[PARAMETERS], *points, *arms;
    td_manual_seed(1);
    draw_points(&points, &arms);
    td_manual_seed(2 + (uint64_t)rank);
    make_parameters(parameters);
    for (int i = 0; i < PARAMETERS; i++)
        check(td_group_broadcast(group, parameters[i], 0) == 0);
    const int64_t first = rank;
    td_tensor *own_points = td_slice_tensor(points, 0, &first, NULL, ranks), *own_arms = td_slice_tensor(arms, 0, &first, NULL, ranks);
    td_adamw_options options = td_adamw_defaults();
    options.lr = 1e-2;
    td_optimizer *optimizer = td_adamw_new(PARAMETERS, parameters, &options);
    check(own_points && own_arms && optimizer);

    for (int step = 0; step <= STEPS; step++) {
        TD_AUTO td_tensor *loss = loss_of(parameters, own_points, own_arms);
        check(loss && td_optimizer_zero_grad(optimizer) == 0 && td_backward(1, &loss, NULL, false, false) == 0);
        average(group, parameters);
        if (step == 0 && rank == 0)
            printf("%d ranks: gradients differ from those of one process by %.1e\n", ranks, distance(parameters, points, arms));
        if (step % 50 == 0) {
            TD_AUTO td_tensor *mean = td_detach(loss);
            TD_AUTO td_tensor *copy = td_clone(mean);
            check(td_group_all_reduce(group, copy, TD_REDUCE_AVG) == 0);
            if (rank == 0)
                printf("step %3d: loss %.4f\n", step, number(copy));
        }
        check(td_optimizer_step(optimizer) == 0);
    }

    double sum = 0;                             /* the same on each rank, to the last bit */
    for (int i = 0; i < PARAMETERS; i++) {
        TD_AUTO td_tensor *total = td_sum(parameters[i]);
        sum += number(total);
    }
    TD_AUTO td_tensor *least = td_full(0, NULL, td_float(sum), TD_F64, cpu);
    TD_AUTO td_tensor *most = td_full(0, NULL, td_float(sum), TD_F64, cpu);
    check(td_group_all_reduce(group, least, TD_REDUCE_MIN) == 0 && td_group_all_reduce(group, most, TD_REDUCE_MAX) == 0);
    if (rank == 0)
        puts(number(least) == number(most) ? "all ranks have the same parameters" : "the ranks' parameters differ");

    td_optimizer_release(optimizer);
    td_tensor *left[] = {points, arms, own_points, own_arms};
    for (int i = 0; i < 4; i++)
        td_tensor_release(left[i]);
    for (int i = 0; i < PARAMETERS; i++)
        td_tensor_release(parameters[i]);
    td_group_release(group);
    td_group_end(false);
}
