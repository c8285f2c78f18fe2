/* Train a small network, in C: which of three spiral arms does a point of the plane lie on?
 *
 *     make train_mlp && ./train_mlp
 *
 * Straight lines can't part the arms: a linear classifier is right for 38 % of the points, hardly more than a guess's
 * third. Two hidden layers, autograd and AdamW get nearly all of them right, of fresh points too; at the end the program
 * draws what the network takes each part of the plane for.
 *
 * No call is checked by itself: an operator that is handed NULL returns NULL and keeps the first error, so one check
 * at the end of a chain suffices. TD_AUTO drops a tensor at the closing brace. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tede/auto.h>
#include <tede/tede.h>

enum { ARMS = 3, HIDDEN = 64, POINTS = 1500, STEPS = 500, LAYERS = 3 };
static const td_device cpu = {TD_CPU, -1};

static void check(bool good)
{
    if (good)
        return;
    fprintf(stderr, "train_mlp: %s\n", td_error_message());
    exit(1);
}

/* The data: points (n, 2) and the arm that each lies on (n). --------------------------------------------------- */

typedef struct data { td_tensor *points, *arms; } data;

static data draw_points(int64_t n)
{
    TD_AUTO td_tensor *noise = td_randn(2, (int64_t[]){n, 2}, TD_F32, cpu);
    TD_AUTO td_tensor *places = td_rand(1, &n, TD_F32, cpu);
    data d = {td_tensor_new(2, (int64_t[]){n, 2}, TD_F32, cpu), td_tensor_new(1, &n, TD_I64, cpu)};
    check(noise && places && d.points && d.arms);
    float *points = td_tensor_data(d.points);
    const float *along = td_tensor_data(places), *off = td_tensor_data(noise);
    for (int64_t i = 0; i < n; i++) {
        int64_t arm = i % ARMS;
        double radius = 0.05 + along[i], angle = 6.2832 * arm / ARMS + 7.5 * radius;
        points[2 * i + 0] = (float)(radius * cos(angle) + 0.02 * off[2 * i + 0]);
        points[2 * i + 1] = (float)(radius * sin(angle) + 0.02 * off[2 * i + 1]);
        ((int64_t *)td_tensor_data(d.arms))[i] = arm;
    }
    return d;
}

/* The network: tanh(tanh(x W + b) W + b) W + b. ---------------------------------------------------------------- */

typedef struct network { td_tensor *parameters[2 * LAYERS]; } network;     /* weight, bias, weight, bias, ... */

static network new_network(void)
{
    static const int64_t widths[LAYERS + 1] = {2, HIDDEN, HIDDEN, ARMS};
    network net;
    for (int layer = 0; layer < LAYERS; layer++) {
        int64_t shape[] = {widths[layer + 1], widths[layer]};
        net.parameters[2 * layer + 0] = td_zeros(2, shape, TD_F32, cpu);
        net.parameters[2 * layer + 1] = td_zeros(1, shape, TD_F32, cpu);
        check(net.parameters[2 * layer + 1] &&
              td_normal_(net.parameters[2 * layer], 0, 1 / sqrt((double)shape[1]), NULL) == 0);
    }
    for (int i = 0; i < 2 * LAYERS; i++)
        check(td_set_requires_grad(net.parameters[i], true) == 0);
    return net;
}

static td_tensor *forward(const network *net, td_tensor *points)
{
    td_tensor *x = td_tensor_retain(points);
    for (int layer = 0; layer < LAYERS; layer++) {
        TD_AUTO td_tensor *before = x;
        TD_AUTO td_tensor *sums = td_linear(before, net->parameters[2 * layer], net->parameters[2 * layer + 1]);
        x = layer < LAYERS - 1 ? td_tanh(sums) : td_tensor_retain(sums);
    }
    return x;
}

/* The arm that the network takes each point for. */
static td_tensor *guess(const network *net, td_tensor *points)
{
    bool before = td_set_grad_enabled(false);
    TD_AUTO td_tensor *logits = forward(net, points);
    td_tensor *guesses = td_argmax(logits, (int64_t[]){1}, false);
    td_set_grad_enabled(before);
    return guesses;
}

static double accuracy(const network *net, data d)
{
    TD_AUTO td_tensor *guesses = guess(net, d.points);
    TD_AUTO td_tensor *right = td_eq(guesses, d.arms);
    TD_AUTO td_tensor *count = td_sum(right);
    td_scalar value;
    check(count && td_tensor_item(count, &value) == 0);
    return 100.0 * td_scalar_double(value) / (double)td_tensor_numel(d.arms);
}

static void draw_plane(const network *net)
{
    enum { ROWS = 21, COLUMNS = 43 };
    TD_AUTO td_tensor *plane = td_tensor_new(2, (int64_t[]){ROWS * COLUMNS, 2}, TD_F32, cpu);
    check(plane);
    float *point = td_tensor_data(plane);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        *point++ = 2.2f * (float)(i % COLUMNS) / (COLUMNS - 1) - 1.1f;
        *point++ = 1.1f - 2.2f * (float)(i / COLUMNS) / (ROWS - 1);
    }
    TD_AUTO td_tensor *guesses = guess(net, plane);
    check(guesses);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        printf("%c%s", ".o#"[((int64_t *)td_tensor_data(guesses))[i]], i % COLUMNS == COLUMNS - 1 ? "\n" : "");
}

int main(void)
{
    td_manual_seed(1);
    data training = draw_points(POINTS), fresh = draw_points(POINTS);
    network net = new_network();
    td_adamw_options options = td_adamw_defaults();
    options.lr = 1e-2;
    td_optimizer *optimizer = td_adamw_new(2 * LAYERS, net.parameters, &options);
    check(optimizer);

    for (int step = 1; step <= STEPS; step++) {
        TD_AUTO td_tensor *logits = forward(&net, training.points);
        TD_AUTO td_tensor *loss = td_cross_entropy(logits, training.arms);
        check(loss && td_optimizer_zero_grad(optimizer) == 0 && td_backward(1, &loss, NULL, false, false) == 0 &&
              td_optimizer_step(optimizer) == 0);
        if (step == 1 || step % 100 == 0)
            printf("step %3d: loss %.4f, accuracy %.1f %%\n", step, *(float *)td_tensor_data(loss),
                   accuracy(&net, training));
    }
    draw_plane(&net);
    printf("fresh points: accuracy %.1f %%\n", accuracy(&net, fresh));

    td_optimizer_release(optimizer);
    for (int i = 0; i < 2 * LAYERS; i++)
        td_tensor_release(net.parameters[i]);
    data both[] = {training, fresh};
    for (int i = 0; i < 2; i++)
        td_tensor_release(both[i].points), td_tensor_release(both[i].arms);
}
