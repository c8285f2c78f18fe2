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

/* matmul treats all dimensions but the last two as one batch that broadcasts: B in front joins them. Vectors become
 * matrices first, since [B, n] would be one matrix, and lose the added dimension after. */
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

/* PyTorch's checks of ranks and sizes, which a matmul would not make. */
static int check_ranks(td_batch *b, td_tensor *left, td_tensor *right)
{
    bool batches = b->modes & TD_PRODUCT_BATCHES, vectors = b->modes & TD_PRODUCT_VECTORS;
    int rows = vectors ? 1 : batches ? 3 : 2, columns = vectors || b->modes & TD_PRODUCT_MATRIX_VECTOR ? 1 : rows;
    if (b->modes && (left->ndim != rows || right->ndim != columns)) {
        if (vectors)
            return td_error(TD_E_RUNTIME, "Got wrong shapes for %s", b->op->info.name);
        return td_error(TD_E_RUNTIME, "Shape mismatch: Got incorrect dims for %s(a, b). a has dim %dand b has dim %dbut expected "
                        "them to have dim %d and dim %d", b->op->info.name, left->ndim, right->ndim, rows, columns);
    }
    if (batches && left->sizes[0] != right->sizes[0])
        return td_error(TD_E_RUNTIME, "Expected size for first two dimensions of batch2 tensor to be: [%lld, %lld] but got: "
                        "[%lld, %lld].", (long long)left->sizes[0], (long long)left->sizes[2], (long long)right->sizes[0],
                        (long long)right->sizes[1]);
    return 0;
}

/* mm, mv, bmm, dot and their kin: with a batch each is a matmul of more dimensions, after the operator's own checks
 * of ranks. */
int td_rule_product(td_batch *b)
{
    td_tensor *left = td_form_operand(b, 0), *right = td_form_operand(b, 1);
    if ((!left->ndim || !right->ndim) && td_batch_check(b) != 0)
        return -1;
    return check_ranks(b, left, right) != 0 ? -1 : td_batch_give(b, 0, product(b, left, right), 0);
}

static bool is_number(td_scalar s, double value) { return s.kind != TD_SCALAR_COMPLEX && td_scalar_double(s) == value; }

/* beta * self + alpha * (a @ b). With beta 0 self is not read, so its nan and inf don't reach the result, as in
 * PyTorch. */
int td_rule_add_product(td_batch *b)
{
    if (td_batch_check(b) != 0)
        return -1;
    td_scalar beta = td_given(b, "beta")->scalar, alpha = td_given(b, "alpha")->scalar;
    td_tensor *self = td_operand(b, "self"), *left = td_form_operand(b, 0), *right = td_form_operand(b, 1);
    int rank = right->ndim == 1 ? left->ndim - 1 : left->ndim;
    TD_AUTO td_tensor *made = product(b, left, right);
    TD_AUTO td_tensor *scaled = is_number(alpha, 1) ? td_tensor_retain(made) : td_mul_scalar(made, alpha);
    if (is_number(beta, 0))
        return td_batch_give(b, 0, td_tensor_retain(scaled), 0);
    TD_AUTO td_tensor *front = td_front(b, self);
    TD_AUTO td_tensor *padded = td_is_batched(b, self) ? td_padded(front, rank) : td_tensor_retain(front);
    TD_AUTO td_tensor *addend = is_number(beta, 1) ? td_tensor_retain(padded) : td_mul_scalar(padded, beta);
    return td_batch_give(b, 0, td_add(addend, scaled), 0);
}

/* Unbatched input: one product with all weights side by side.  Unbatched weight: more rows of input. */
int td_rule_linear(td_batch *b)
{
    td_tensor *input = td_operand(b, "input"), *weight = td_operand(b, "weight");
    td_tensor *bias = td_operand(b, "bias");
    bool plain = weight->ndim == 2 && (bias == TD_NONE || (bias->ndim == 1 && bias->sizes[0] == weight->sizes[0]));
    if (!plain && td_batch_check(b) != 0)
        return -1;
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
        TD_AUTO td_tensor *transposed = weight->ndim == 2 ? td_transpose(w, -1, -2) : td_unsqueeze(w, -1);
        TD_AUTO td_tensor *wide = td_expanded(b, input);
        if (!wide || !transposed)
            return -1;
        int64_t rows = 1, sizes[TD_MAX_DIMS + 1];
        for (int d = 0; d < rank - 1; d++)
            rows *= input->sizes[d];
        TD_AUTO td_tensor *flat = td_reshape(wide, 3, (int64_t[]){b->size, rows, input->sizes[rank - 1]});
        TD_AUTO td_tensor *all = td_matmul(flat, transposed);
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
int td_rule_solve(td_batch *b)
{
    if (td_batch_check(b) != 0)
        return -1;
    td_tensor *a = td_operand(b, "A"), *right = td_operand(b, "B");
    if (right->ndim >= 2 && right->ndim >= a->ndim)
        return td_batch_leading(b, TD_LEADING_EXPAND);
    if (right->ndim >= 2)
        return td_rule_loop(b);    /* vectors or matrices: it depends on all the sizes */
    TD_AUTO td_tensor *vectors = td_expanded(b, right);
    if (td_batch_put(b, "A", td_expanded(b, a)) != 0 || td_batch_put(b, "B", td_unsqueeze(vectors, -1)) != 0)
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
int td_rule_exchanged_solve(td_batch *b)
{
    if (td_batch_check(b) != 0)
        return -1;
    const struct { const char *name; int less; } operands[] = {{td_form_name(b, 0), 0}, {"pivots", 1}, {"B", 0}};
    int rank = 0;
    for (int i = 0; i < TD_COUNT(operands); i++) {
        int own = td_operand(b, operands[i].name)->ndim + operands[i].less;
        rank = own > rank ? own : rank;
    }
    for (int i = 0; i < TD_COUNT(operands); i++) {
        TD_AUTO td_tensor *wide = td_expanded(b, td_operand(b, operands[i].name));
        if (td_batch_put(b, operands[i].name, td_padded(wide, rank - operands[i].less)) != 0)
            return -1;
    }
    return td_batch_call(b, b->op, 0);
}

/* Tolerances have a number per matrix, or more of them: the matrix is taken once for each. */
int td_rule_tolerance(td_batch *b)
{
    if (td_batch_check(b) != 0)
        return -1;
    const struct { const char *name; int more; } operands[] = {{td_form_name(b, 0), 2}, {"atol", 0}, {"rtol", 0}};
    int rank = 0;
    for (int i = 0; i < TD_COUNT(operands); i++) {
        const td_tensor *x = td_operand(b, operands[i].name);
        if (x != TD_NONE && x->ndim - operands[i].more > rank)
            rank = x->ndim - operands[i].more;
    }
    for (int i = 0; i < TD_COUNT(operands); i++) {
        td_tensor *x = td_operand(b, operands[i].name);
        TD_AUTO td_tensor *wide = x == TD_NONE ? NULL : td_expanded(b, x);
        if (x != TD_NONE && td_batch_put(b, operands[i].name, td_padded(wide, rank + operands[i].more)) != 0)
            return -1;
    }
    return td_batch_call(b, b->op, 0);
}
