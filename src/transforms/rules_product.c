/* Batching rules of products of matrices and of linear algebra: matmul broadcasts over what stands in front, so that a
 * product is a matmul whose operands are brought to matrices.  See Note [Batching rules]. */
#include "calls_transforms_rules_product.h"
#include "transforms/batch.h"

/* A vector becomes a row (on the left) or a column; with a batch the ranks are made equal. */
static td_tensor *as_matrices(td_batch *b, td_tensor *logical, bool left, int rank)
{
    TD_AUTO td_tensor *x = td_front(b, logical);
    bool batched = td_is_batched(b, logical);
    TD_AUTO td_tensor *matrix = logical->ndim == 1 ? td_unsqueeze(x, left ? -2 : -1) : td_tensor_retain(x);
    return batched ? td_padded(matrix, rank) : td_tensor_retain(matrix);
}

static td_tensor *product(td_batch *b, td_tensor *left, td_tensor *right)
{
    int rank = 2;
    rank = left->ndim > rank ? left->ndim : rank;
    rank = right->ndim > rank ? right->ndim : rank;
    TD_AUTO td_tensor *a = as_matrices(b, left, true, rank);
    TD_AUTO td_tensor *c = as_matrices(b, right, false, rank);
    TD_AUTO td_tensor *result = td_matmul(a, c);
    TD_AUTO td_tensor *no_column = right->ndim == 1 ? td_squeeze_dim(result, -1) : td_tensor_retain(result);
    return left->ndim == 1 ? td_squeeze_dim(no_column, right->ndim == 1 ? -1 : -2) : td_tensor_retain(no_column);
}

/* PyTorch's checks of ranks and sizes, which a matmul would not make; `ranks` are the operands' ("21" for mv). */
static int check_ranks(td_batch *b, const char *ranks, td_tensor *left, td_tensor *right)
{
    if (*ranks && (left->ndim != *ranks - '0' || right->ndim != ranks[1] - '0')) {
        if (*ranks == '1')
            return td_error(TD_E_RUNTIME, "Got wrong shapes for %s", b->op->info.name);
        return td_error(TD_E_RUNTIME, "Shape mismatch: Got incorrect dims for %s(a, b). a has dim %dand b has dim %dbut expected "
                        "them to have dim %c and dim %c", b->op->info.name, left->ndim, right->ndim, *ranks, ranks[1]);
    }
    if (*ranks == '3' && left->sizes[0] != right->sizes[0])
        return td_error(TD_E_RUNTIME, "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: "
                        "[%lld, %lld].", (long long)left->sizes[0], (long long)left->sizes[2], (long long)right->sizes[0],
                        (long long)right->sizes[1]);
    return 0;
}

static int rule_product(td_batch *b, const char *how)
{
    td_tensor *left = b->arguments[0].tensor, *right = b->arguments[1].tensor;
    return check_ranks(b, how, left, right) != 0 ? -1 : td_batch_give(b, 0, product(b, left, right), 0);
}

static bool is_number(td_scalar s, double value) { return s.kind != TD_SCALAR_COMPLEX && td_scalar_double(s) == value; }

/* beta * self + alpha * (a @ b) */
static int rule_add_product(td_batch *b, const char *how)
{
    td_scalar beta = b->arguments[3].scalar, alpha = b->arguments[4].scalar;
    td_tensor *self = b->arguments[0].tensor;
    TD_AUTO td_tensor *made = product(b, b->arguments[1].tensor, b->arguments[2].tensor);
    TD_AUTO td_tensor *scaled = is_number(alpha, 1) ? td_tensor_retain(made) : td_mul_scalar(made, alpha);
    if (is_number(beta, 0))
        return td_batch_give(b, 0, td_tensor_retain(scaled), 0);
    TD_AUTO td_tensor *front = td_front(b, self);
    TD_AUTO td_tensor *padded = td_is_batched(b, self) ? td_padded(front, *how - '0') : td_tensor_retain(front);
    TD_AUTO td_tensor *addend = is_number(beta, 1) ? td_tensor_retain(padded) : td_mul_scalar(padded, beta);
    return td_batch_give(b, 0, td_add(addend, scaled), 0);
}

/* Unbatched input: one product with all weights side by side.  Unbatched weight: more rows of input. */
static int rule_linear(td_batch *b, const char *how)
{
    (void)how;
    td_tensor *input = b->arguments[0].tensor, *weight = b->arguments[1].tensor;
    td_tensor *bias = b->arguments[2].kind ? b->arguments[2].tensor : TD_NONE;
    TD_AUTO td_tensor *x = td_front(b, input);
    TD_AUTO td_tensor *w = td_front(b, weight);
    TD_AUTO td_tensor *c = td_front(b, bias);
    if (!x || !w || !c)
        return -1;
    if (!td_is_batched(b, weight) && !td_is_batched(b, bias))
        return td_batch_give(b, 0, td_linear(x, w, c), 0);
    if (!td_is_batched(b, input) && td_is_batched(b, weight) && weight->ndim == 2 && (bias == TD_NONE || td_is_batched(b, bias))) {
        int64_t out = weight->sizes[0], sizes[TD_MAX_DIMS + 1];
        TD_AUTO td_tensor *rows = td_reshape(w, 2, (int64_t[]){b->size * out, weight->sizes[1]});
        TD_AUTO td_tensor *offsets = c == TD_NONE ? TD_NONE : td_reshape(c, 1, (int64_t[]){b->size * out});
        TD_AUTO td_tensor *all = td_linear(x, rows, offsets);
        memcpy(sizes, input->sizes, sizeof *sizes * (size_t)input->ndim);
        sizes[input->ndim - 1] = b->size, sizes[input->ndim] = out;
        return td_batch_give(b, 0, td_reshape(all, input->ndim + 1, sizes), input->ndim - 1);
    }
    TD_AUTO td_tensor *made = NULL;
    if (!td_is_batched(b, weight))
        made = td_linear(x, w, TD_NONE);
    else {
        /* [B, rows, in] @ [B, in, out] */
        int rank = input->ndim;
        TD_AUTO td_tensor *turned = weight->ndim == 2 ? td_transpose(w, -1, -2) : td_unsqueeze(w, -1);
        TD_AUTO td_tensor *wide = td_expanded(b, input);
        if (!wide || !turned)
            return -1;
        int64_t rows = 1, sizes[TD_MAX_DIMS + 1];
        for (int d = 0; d < rank - 1; d++)
            rows *= input->sizes[d];
        TD_AUTO td_tensor *flat = td_reshape(wide, 3, (int64_t[]){b->size, rows, input->sizes[rank - 1]});
        TD_AUTO td_tensor *all = td_matmul(flat, turned);
        if (!all)
            return -1;
        memcpy(sizes, wide->sizes, sizeof *sizes * (size_t)rank);
        sizes[rank] = all->sizes[2];
        made = td_reshape(all, weight->ndim == 2 ? rank + 1 : rank, sizes);
    }
    if (c == TD_NONE || !made)
        return td_batch_give(b, 0, td_tensor_retain(made), 0);
    int rank = input->ndim - (weight->ndim == 1);
    TD_AUTO td_tensor *offset = td_is_batched(b, bias) ? td_padded(c, rank) : td_tensor_retain(c);
    return td_batch_give(b, 0, td_add(made, offset), 0);
}

/* A X = B, where B may be one vector. */
static int rule_solve(td_batch *b, const char *how)
{
    td_tensor *a = b->arguments[0].tensor, *right = b->arguments[1].tensor;
    if (right->ndim >= 2 && right->ndim >= a->ndim)
        return td_rule_leading(b, "e");
    if (right->ndim >= 2)
        return td_rule_loop(b, how);    /* vectors or matrices: it depends on all the sizes */
    TD_AUTO td_tensor *vectors = td_expanded(b, right);
    if (td_batch_set(b, 0, td_expanded(b, a)) != 0 || td_batch_set(b, 1, td_unsqueeze(vectors, -1)) != 0)
        return -1;
    td_value out[2];
    if (td_op_call(b->op, b->frame.values, out) != 0)
        return -1;
    TD_AUTO td_tensor *columns = out[0].tensor;
    int status = td_batch_give(b, 0, td_squeeze_dim(columns, -1), 0);
    if (b->op->info.n_results > 1)
        status |= td_batch_give(b, 1, out[1].tensor, 0);
    return status;
}

/* Factors, the rows exchanged, which are a vector per matrix, and what is solved: all with the batch in front of as many others. */
static int rule_exchanged_solve(td_batch *b, const char *how)
{
    (void)how;
    int rank = 0;
    for (int i = 0; i < 3; i++) {
        int own = b->arguments[i].tensor->ndim + (i == 1);
        rank = own > rank ? own : rank;
    }
    for (int i = 0; i < 3; i++) {
        TD_AUTO td_tensor *wide = td_expanded(b, b->arguments[i].tensor);
        if (td_batch_set(b, i, td_padded(wide, i == 1 ? rank - 1 : rank)) != 0)
            return -1;
    }
    return td_batch_call(b, b->op, 0);
}

/* Tolerances have a number per matrix, or more of them: the matrix is taken once for each. */
static int rule_tolerance(td_batch *b, const char *how)
{
    (void)how;
    int rank = b->arguments[0].tensor->ndim - 2;
    for (int i = 1; i < 3; i++)
        if (b->arguments[i].kind == TD_VALUE_TENSOR && b->arguments[i].tensor != TD_NONE && b->arguments[i].tensor->ndim > rank)
            rank = b->arguments[i].tensor->ndim;
    for (int i = 0; i < 3; i++) {
        if (b->arguments[i].kind != TD_VALUE_TENSOR || b->arguments[i].tensor == TD_NONE)
            continue;
        TD_AUTO td_tensor *wide = td_expanded(b, b->arguments[i].tensor);
        if (td_batch_set(b, i, td_padded(wide, i ? rank : rank + 2)) != 0)
            return -1;
    }
    return td_batch_call(b, b->op, 0);
}

const td_batch_row td_rules_product[] = {
    {"mm", rule_product, "22"}, {"bmm", rule_product, "33"}, {"mv", rule_product, "21"}, {"dot", rule_product, "11"},
    {"matmul", rule_product, ""}, {"addmm", rule_add_product, "2"}, {"addmv", rule_add_product, "1"},
    {"baddbmm", rule_add_product, "3"}, {"linear", rule_linear, ""}, {"linalg_solve_ex", rule_solve, ""},
    {"linalg_cholesky_ex", td_rule_leading, ""}, {"cholesky_solve", td_rule_leading, "e"},
    {"cholesky_solve_helper", td_rule_leading, "e"},
    {"linalg_lu_factor_ex", td_rule_leading, ""}, {"pivots_to_permutation", td_rule_leading, ""},
    {"linalg_lu_solve", rule_exchanged_solve, ""}, {"linalg_inv_ex", td_rule_leading, ""},
    {"linalg_solve_triangular", td_rule_leading, "e"}, {"linalg_det", td_rule_leading, ""},
    {"linalg_slogdet", td_rule_leading, ""}, {"linalg_matrix_exp", td_rule_leading, ""}, {"linalg_qr", td_rule_leading, ""}, {"_linalg_svd", td_rule_leading, ""},
    {"_linalg_eigh", td_rule_leading, ""}, {"_linalg_eig", td_rule_leading, ""}, {"_linalg_lstsq", td_rule_leading, "e"},
    {"linalg_ldl_factor_ex", td_rule_leading, ""}, {"linalg_ldl_solve", rule_exchanged_solve, ""}, {"geqrf", td_rule_leading, ""},
    {"ormqr", td_rule_leading, "er"}, {"linalg_householder_product", td_rule_leading, "er"},
    {"linalg_matrix_rank.atol_rtol_tensor", rule_tolerance, ""}, {"linalg_pinv.atol_rtol_tensor", rule_tolerance, ""},
    {NULL, NULL, NULL},
};
