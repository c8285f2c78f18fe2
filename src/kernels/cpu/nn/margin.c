/* multi_margin_loss and multilabel_margin_loss: a margin between the classes of a sample.  Sums over samples are one loop in order,
 * in double precision. */
#include "calls_kernels_cpu_nn_margin.h"
#include <inttypes.h>
#include "kernels/cpu/loops/operands.h"

enum { NONE, MEAN, SUM };

typedef struct samples { int64_t count, classes; } samples;

/* A vector is one sample. */
static samples samples_of(const td_tensor *self)
{
    return (samples){self->ndim == 2 ? self->sizes[0] : 1, self->ndim ? self->sizes[self->ndim - 1] : 1};
}

/* ---- multi_margin_loss */

/* Before anything is read by them. */
static int check_targets(const int64_t *target, samples n)
{
    for (int64_t i = 0; i < n.count; i++)
        if (target[i] < 0 || target[i] >= n.classes)
            return td_error(TD_E_RUNTIME, "target out of range");
    return 0;
}

/* (1 / classes) sum over c != t of max(0, margin - x[t] + x[c])^p weight[t], p being 1 or 2.  Each class with a positive term
 * gets its derivative, the target minus their sum. */
#define MULTI(S, T)                                                                                                   \
    static void multi_##S(samples n, const T *x, const int64_t *target, const T *weight, bool square, T margin,       \
                          int64_t reduction, T *y)                                                                    \
    {                                                                                                                 \
        double total = 0;                                                                                             \
        for (int64_t i = 0; i < n.count; i++, x += n.classes) {                                                       \
            double sum = 0;                                                                                           \
            for (int64_t c = 0; c < n.classes; c++) {                                                                 \
                T z = margin - x[target[i]] + x[c];                                                                   \
                if (c != target[i] && z > 0)                                                                          \
                    sum += (double)((square ? z * z : z) * (weight ? weight[target[i]] : 1));                         \
            }                                                                                                         \
            sum /= (double)n.classes;                                                                                 \
            total += sum;                                                                                             \
            if (reduction == NONE)                                                                                    \
                y[i] = (T)sum;                                                                                        \
        }                                                                                                             \
        if (reduction != NONE)                                                                                        \
            *y = (T)(reduction == MEAN && n.count ? total / (double)n.count : total);                                 \
    }                                                                                                                 \
    static void multi_back_##S(samples n, const T *grad, const T *x, const int64_t *target, const T *weight,          \
                               bool square, T margin, int64_t reduction, T *y)                                        \
    {                                                                                                                 \
        const T share = 1 / (T)(reduction == MEAN ? n.count * n.classes : n.classes);                                 \
        for (int64_t i = 0; i < n.count; i++, x += n.classes, y += n.classes) {                                       \
            const T g = grad[reduction == NONE ? i : 0] * share * (weight ? weight[target[i]] : 1);                   \
            T own = 0;                                                                                                \
            for (int64_t c = 0; c < n.classes; c++) {                                                                 \
                T z = margin - x[target[i]] + x[c];                                                                   \
                y[c] = c == target[i] || !(z > 0) ? 0 : square ? 2 * z * g : g;                                       \
                own -= y[c];                                                                                          \
            }                                                                                                         \
            y[target[i]] = own;                                                                                       \
        }                                                                                                             \
    }
MULTI(f32, float)
MULTI(f64, double)

int td_cpu_multi_margin_loss(td_tensor *self, td_tensor *target, td_scalar p, td_scalar margin, td_tensor *weight,
                             int64_t reduction, td_tensor *out)
{
    td_dtype type = (td_dtype)self->dtype;
    samples n = samples_of(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *t = td_as_contiguous(target, TD_I64), *w = td_operand(weight, type);
    if (!x || !t || !w || check_targets((int64_t *)t->data, n))
        return -1;
    bool square = td_scalar_double(p) == 2;
    double m = td_scalar_double(margin);
    if (type == TD_F64)
        multi_f64(n, (double *)x->data, (int64_t *)t->data, td_data_or_null(w), square, m, reduction, (double *)out->data);
    else
        multi_f32(n, (float *)x->data, (int64_t *)t->data, td_data_or_null(w), square, (float)m, reduction,
                  (float *)out->data);
    return 0;
}

/* The mean is over samples and classes: share is what a term weighs. */
int td_cpu_multi_margin_loss_backward(td_tensor *grad_output, td_tensor *self, td_tensor *target, td_scalar p,
                                      td_scalar margin, td_tensor *weight, int64_t reduction, td_tensor *out)
{
    td_dtype type = (td_dtype)self->dtype;
    samples n = samples_of(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *t = td_as_contiguous(target, TD_I64), *w = td_operand(weight, type);
    TD_AUTO td_tensor *g = td_operand(grad_output, type);
    if (!x || !t || !w || !g || check_targets((int64_t *)t->data, n))
        return -1;
    bool square = td_scalar_double(p) == 2;
    double m = td_scalar_double(margin);
    if (type == TD_F64)
        multi_back_f64(n, (double *)g->data, (double *)x->data, (int64_t *)t->data, td_data_or_null(w), square, m, reduction,
                       (double *)out->data);
    else
        multi_back_f32(n, (float *)g->data, (float *)x->data, (int64_t *)t->data, td_data_or_null(w), square, (float)m,
                       reduction, (float *)out->data);
    return 0;
}

/* ---- multilabel_margin_loss: labels up to the first negative one */

/* -1 ends a list; what is behind it must be in range all the same, as in PyTorch. */
static int check_labels(const int64_t *target, samples n)
{
    for (int64_t i = 0; i < n.count * n.classes; i++)
        if (target[i] < -1 || target[i] >= n.classes)
            return td_error(TD_E_RUNTIME, "argument #2 'target' is out of range");
    return 0;
}

/* Per sample (1 / classes) sum over its labels k and all classes c that are no labels of max(0, 1 - x[k] + x[c]); `is` marks the
 * labels for the backward pass. */
#define MULTILABEL(S, T)                                                                                              \
    static void label_##S(samples n, const T *x, const int64_t *labels, int64_t reduction, T *y, T *is)               \
    {                                                                                                                 \
        double total = 0;                                                                                             \
        for (int64_t i = 0; i < n.count; i++, x += n.classes, labels += n.classes, is += n.classes) {                 \
            double sum = 0;                                                                                           \
            for (int64_t c = 0; c < n.classes; c++)                                                                   \
                is[c] = 0;                                                                                            \
            for (int64_t k = 0; k < n.classes && labels[k] >= 0; k++)                                                 \
                is[labels[k]] = 1;                                                                                    \
            for (int64_t k = 0; k < n.classes && labels[k] >= 0; k++)                                                 \
                for (int64_t c = 0; c < n.classes; c++) {                                                             \
                    T z = 1 - x[labels[k]] + x[c];                                                                    \
                    if (is[c] == 0 && z > 0)                                                                          \
                        sum += (double)z;                                                                             \
                }                                                                                                     \
            sum /= (double)n.classes;                                                                                 \
            total += sum;                                                                                             \
            if (reduction == NONE)                                                                                    \
                y[i] = (T)sum;                                                                                        \
        }                                                                                                             \
        if (reduction != NONE)                                                                                        \
            *y = (T)(reduction == MEAN && n.count ? total / (double)n.count : total);                                 \
    }                                                                                                                 \
    static void label_back_##S(samples n, const T *grad, const T *x, const int64_t *labels, int64_t reduction,        \
                               const T *is, T *y)                                                                     \
    {                                                                                                                 \
        const T share = 1 / (T)(reduction == MEAN ? n.count * n.classes : n.classes);                                 \
        for (int64_t i = 0; i < n.count; i++, x += n.classes, labels += n.classes, is += n.classes, y += n.classes) { \
            const T g = grad[reduction == NONE ? i : 0] * share;                                                      \
            for (int64_t c = 0; c < n.classes; c++)                                                                   \
                y[c] = 0;                                                                                             \
            for (int64_t k = 0; k < n.classes && labels[k] >= 0; k++)                                                 \
                for (int64_t c = 0; c < n.classes; c++)                                                               \
                    if (is[c] == 0 && 1 - x[labels[k]] + x[c] > 0)                                                    \
                        y[c] += g, y[labels[k]] -= g;                                                                 \
        }                                                                                                             \
    }
MULTILABEL(f32, float)
MULTILABEL(f64, double)

/* out1 is is_target: 1 for the labels of a sample, which the backward pass gets. */
int td_cpu_multilabel_margin_loss_forward(td_tensor *self, td_tensor *target, int64_t reduction, td_tensor *out0,
                                          td_tensor *out1)
{
    td_dtype type = (td_dtype)self->dtype;
    if (type != TD_F32 && type != TD_F64) {         /* of other dtypes there is nothing */
        memset(out0->data, 0, (size_t)(out0->numel * td_itemsize(out0)));
        return 0;
    }
    samples n = samples_of(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *t = td_as_contiguous(target, TD_I64);
    if (!x || !t || check_labels((int64_t *)t->data, n))
        return -1;
    if (type == TD_F64)
        label_f64(n, (double *)x->data, (int64_t *)t->data, reduction, (double *)out0->data, (double *)out1->data);
    else
        label_f32(n, (float *)x->data, (int64_t *)t->data, reduction, (float *)out0->data, (float *)out1->data);
    return 0;
}

int td_cpu_multilabel_margin_loss_backward(td_tensor *grad_output, td_tensor *self, td_tensor *target, int64_t reduction,
                                           td_tensor *is_target, td_tensor *out)
{
    td_dtype type = (td_dtype)self->dtype;
    samples n = samples_of(self);
    TD_AUTO td_tensor *x = td_operand(self, type), *t = td_as_contiguous(target, TD_I64), *g = td_operand(grad_output, type);
    TD_AUTO td_tensor *is = td_operand(is_target, type);
    if (!x || !t || !g || !is || check_labels((int64_t *)t->data, n))
        return -1;
    if (type == TD_F64)
        label_back_f64(n, (double *)g->data, (double *)x->data, (int64_t *)t->data, reduction, (double *)is->data,
                       (double *)out->data);
    else
        label_back_f32(n, (float *)g->data, (float *)x->data, (int64_t *)t->data, reduction, (float *)is->data,
                       (float *)out->data);
    return 0;
}
