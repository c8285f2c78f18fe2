/* Autocast: within it, products compute in a half type and delicate functions in float32.
 *
 * Which operator does what is a matter of its name, looked up once and kept in its object. The operands of a call are
 * cast before the operator sees them, by the same differentiable conversion that Tensor.to is, so that gradients arrive
 * in the operands' own types. The table is PyTorch's for CPUs. */
#include "binding.h"

_Thread_local td_dtype td_py_autocast = TD_DTYPE_NONE;

enum { UNKNOWN, UNTOUCHED, LOWER, FLOAT32, WIDEST };

static const char *const lower[] = {
    "conv1d", "conv2d", "conv3d", "bmm", "mm", "baddbmm", "addmm", "addbmm", "linear", "matmul", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "scaled_dot_product_attention", "linalg_vecdot", "linalg_matmul", "convolution",
    "conv_tbc", "prelu", "einsum", "chain_matmul", "linalg_multi_dot", "lstm",
};
static const char *const float32[] = {
    "avg_pool3d", "binary_cross_entropy", "grid_sampler", "polar", "prod", "quantile", "nanquantile", "stft", "cdist", "trace",
    "view_as_complex", "cholesky", "cholesky_inverse", "cholesky_solve", "inverse", "pinverse", "max_pool3d", "mse_loss",
    "cosine_embedding_loss", "nll_loss", "nll_loss_nd", "hinge_embedding_loss", "poisson_nll_loss", "smooth_l1_loss",
    "cross_entropy_loss", "cross_entropy", "l1_loss", "huber_loss", "margin_ranking_loss", "soft_margin_loss",
    "triplet_margin_loss", "multi_margin_loss", "ctc_loss", "kl_div", "multilabel_margin_loss",
    "binary_cross_entropy_with_logits", "logit", "norm", "fft_fft", "fft_ifft", "fft_rfft", "fft_irfft", "linalg_det",
    "linalg_inv", "linalg_solve", "linalg_svd", "linalg_qr", "linalg_eigh", "linalg_norm", "linalg_cholesky", "multinomial",
    "reflection_pad1d", "reflection_pad2d", "replication_pad1d", "replication_pad2d", "replication_pad3d",
};
static const char *const widest[] = {"stack", "cat", "concat", "concatenate", "index_copy"};

static int policy_of(const char *name)
{
    static const struct { const char *const *names; size_t n; int policy; } lists[] = {
        {lower, sizeof lower / sizeof *lower, LOWER}, {float32, sizeof float32 / sizeof *float32, FLOAT32},
        {widest, sizeof widest / sizeof *widest, WIDEST},
    };
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (size_t i = 0; i < lists[l].n; i++)
            if (strcmp(lists[l].names[i], name) == 0)
                return lists[l].policy;
    return UNTOUCHED;
}

static bool eligible(const td_tensor *x)
{
    return x && x != TD_NONE && td_dtype_is_floating(td_tensor_dtype(x)) && td_tensor_dtype(x) != TD_F64 &&
           td_tensor_device(x).type == TD_CPU;
}
static td_tensor *cast(td_tensor *x, td_dtype dtype, Scratch *s)
{
    if (!eligible(x) || td_tensor_dtype(x) == dtype)
        return x;
    if (s->temporaries == TD_PY_ARGS)
        return PyErr_Format(PyExc_RuntimeError, "autocast: more than %d tensors to cast in one call", TD_PY_ARGS), NULL;
    td_dtype before = td_py_autocast;
    td_py_autocast = TD_DTYPE_NONE;
    td_tensor *made = td_py_to(x, dtype, TD_DEVICE_NONE, false, false, TD_MEMORY_FORMAT_NONE);
    td_py_autocast = before;
    if (made)
        s->temporary[s->temporaries++] = made;
    return made;
}

int td_py_autocast_arguments(OperatorObject *op, const Overload *o, Scratch *s)
{
    if (op->autocast == UNKNOWN)
        op->autocast = (uint8_t)policy_of(op->text);
    if (op->autocast == UNTOUCHED)
        return 0;
    td_dtype dtype = op->autocast == FLOAT32 ? TD_F32 : td_py_autocast;
    for (int pass = op->autocast == WIDEST ? 0 : 1; pass < 2; pass++)
        for (int i = 0; i < o->info->n_arguments; i++) {
            td_value *v = &s->values[i];
            int n = v->kind == TD_VALUE_TENSORS ? v->count : v->kind == TD_VALUE_TENSOR;
            for (int k = 0; k < n; k++) {
                td_tensor *const *at = v->kind == TD_VALUE_TENSORS ? &v->tensors[k] : &v->tensor;
                if (pass == 0) {
                    if (eligible(*at) && td_tensor_dtype(*at) == TD_F32)
                        dtype = TD_F32;
                } else {
                    td_tensor *made = cast(*at, dtype, s);
                    if (!made)
                        return td_py_scratch_drop(s), -1;
                    *(td_tensor **)at = made;
                }
            }
        }
    return 0;
}

static PyObject *set_autocast(PyObject *m, PyObject *o)
{
    (void)m;
    if (o != Py_None && !td_py_as_dtype(o, &td_py_autocast))
        return PyErr_Format(PyExc_TypeError, "_set_autocast takes a dtype or None");
    if (o == Py_None)
        td_py_autocast = TD_DTYPE_NONE;
    Py_RETURN_NONE;
}
static PyMethodDef functions[] = {
    {"_set_autocast", set_autocast, METH_O, "The dtype that products are computed in, or None: this thread's."},
    {NULL},
};
int td_py_autocast_init(PyObject *module)
{
    return PyModule_AddFunctions(module, functions);
}
