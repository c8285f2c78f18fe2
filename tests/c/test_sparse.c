/* Sparse tensors through the public API: making, converting, sums, products, gradients; each also with allocations that fail. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <tede/autograd.h>
#include <tede/layout.h>
#include <tede/ops.h>
#include <tede/print.h>

#define AUTO TD_AUTO td_tensor *

/* A tensor of numbers, of two dimensions unless rows is 0. */
static td_tensor *of(int64_t rows, int64_t columns, td_dtype dtype, const int *numbers)
{
    AUTO x = td_zeros(1, (int64_t[]){(rows ? rows : 1) * columns}, TD_F64, CPU);
    for (int64_t i = 0; x && i < td_tensor_numel(x); i++)
        ((double *)td_tensor_data(x))[i] = numbers[i];
    AUTO shaped = x ? td_reshape(x, rows ? 2 : 1, rows ? (int64_t[]){rows, columns} : (int64_t[]){columns}) : NULL;
    return td_to_dtype(shaped, dtype, false, true, TD_MEMORY_FORMAT_NONE);
}
static td_tensor *coo(td_tensor *values, int64_t rows, int64_t columns, const int *places)
{
    AUTO indices = of(2, values ? td_tensor_sizes(values)[0] : 1, TD_I64, places);
    return td_sparse_coo_tensor_indices_size(indices, values, 2, (int64_t[]){rows, columns}, TD_DTYPE_NONE, TD_DEVICE_NONE, NULL);
}
/* (1, 0) comes twice. */
static td_tensor *sample(void)
{
    AUTO values = of(0, 3, TD_F32, (int[]){1, 2, 3});
    return coo(values, 2, 3, (int[]){0, 1, 1, 1, 0, 0});
}
static bool holds(td_tensor *x, int n, const double *numbers)
{
    AUTO dense = x ? td_to_dense(x, TD_F64, NULL) : NULL;
    AUTO line = dense ? td_contiguous(dense) : NULL;
    for (int i = 0; line && i < n; i++)
        if (((double *)td_tensor_data(line))[i] != numbers[i])
            return false;
    return line && td_tensor_numel(line) == n;
}

TD_TEST(equal_indices_add_up)
{
    AUTO x = TRY(sample());
    CHECK(td_tensor_layout(x) == TD_SPARSE_COO && !td_tensor_storage(x));
    CHECK(holds(x, 6, (double[]){0, 1, 0, 5, 0, 0}));
    AUTO settled = TRY(td_coalesce(x));
    int64_t nnz = 0;
    CHECK(td__nnz(&nnz, settled) == 0 && nnz == 2);
    CHECK_FAILS(td_indices(x), TD_E_RUNTIME, "uncoalesced");
}

TD_TEST(a_strided_tensor_becomes_sparse_and_strided_again)
{
    AUTO dense = TRY(of(2, 4, TD_F32, (int[]){0, 1, 0, 2, 0, 0, 3, 0}));
    static const double numbers[] = {0, 1, 0, 2, 0, 0, 3, 0};
    AUTO x = TRY(td_to_sparse_sparse_dim(dense, 2));
    CHECK(holds(x, 8, numbers));
    AUTO csr = TRY(td_to_sparse_csr(x, NULL));
    CHECK(td_tensor_layout(csr) == TD_SPARSE_CSR && holds(csr, 8, numbers));
    AUTO bsc = TRY(td_to_sparse_bsc(csr, 2, (int64_t[]){2, 2}, NULL));
    CHECK(holds(bsc, 8, numbers));
}

TD_TEST(sums_and_products)
{
    AUTO x = TRY(sample());
    AUTO ones = TRY(td_ones(2, (int64_t[]){3, 2}, TD_F32, CPU));
    AUTO product = TRY(td_mm(x, ones));
    CHECK(holds(product, 4, (double[]){1, 1, 5, 5}));
    AUTO twice = TRY(td_add(x, x));
    CHECK(holds(twice, 6, (double[]){0, 2, 0, 10, 0, 0}));
    AUTO transposed = TRY(td_t(x));
    AUTO square = TRY(td_mm(x, transposed));
    CHECK(td_tensor_layout(square) == TD_SPARSE_COO && holds(square, 4, (double[]){1, 0, 0, 25}));
    AUTO dense = TRY(td_zeros(2, (int64_t[]){2, 3}, TD_F32, CPU));
    CHECK(TRY(td_add_tensor_(dense, x, td_int(2))) == 0);
    CHECK(holds(dense, 6, (double[]){0, 2, 0, 10, 0, 0}));
    AUTO some = TRY(td_sum_dim_intlist(x, 1, (int64_t[]){0}, false, TD_DTYPE_NONE));
    CHECK(holds(some, 3, (double[]){5, 1, 0}));
}

TD_TEST(a_write_in_place_keeps_the_layout)
{
    AUTO x = TRY(sample());
    AUTO y = TRY(td_clone(x));
    CHECK(TRY(td_add_tensor_(x, y, td_int(1))) == 0);
    CHECK(td_tensor_layout(x) == TD_SPARSE_COO && holds(x, 6, (double[]){0, 2, 0, 10, 0, 0}));
    CHECK(TRY(td_zero_(y)) == 0);
    CHECK(holds(y, 6, (double[]){0, 0, 0, 0, 0, 0}));
}

TD_TEST(gradients_reach_the_values)
{
    AUTO values = TRY(of(0, 3, TD_F32, (int[]){1, 2, 3}));
    TRY(td_set_requires_grad(values, true));
    AUTO x = TRY(coo(values, 2, 3, (int[]){0, 1, 1, 1, 0, 0}));
    AUTO weights = TRY(of(3, 1, TD_F32, (int[]){2, 3, 4}));
    AUTO product = TRY(td_mm(x, weights));
    AUTO sum = TRY(td_sum(product));
    TRY(td_backward(1, &sum, NULL, false, false));
    CHECK(holds(td_grad(values), 3, (double[]){3, 2, 2}));
}

TD_TEST(an_embedding_has_sparse_gradients_that_add_up)
{
    AUTO weight = TRY(td_ones(2, (int64_t[]){4, 2}, TD_F32, CPU));
    TRY(td_set_requires_grad(weight, true));
    AUTO index = TRY(of(0, 3, TD_I64, (int[]){1, 3, 1}));
    for (int i = 0; i < 2; i++) {
        AUTO picked = TRY(td_embedding(weight, index, -1, false, true));
        AUTO sum = TRY(td_sum(picked));
        TRY(td_backward(1, &sum, NULL, false, false));
    }
    CHECK(td_tensor_layout(td_grad(weight)) == TD_SPARSE_COO);
    CHECK(holds(td_grad(weight), 8, (double[]){0, 0, 4, 4, 0, 0, 2, 2}));
}

TD_TEST(what_is_not_there_says_so)
{
    AUTO x = TRY(sample());
    CHECK_FAILS(td_exp(x), TD_E_NOT_IMPLEMENTED, "'aten::exp'", "'SparseCPU'");
    CHECK_FAILS(td_view(x, 1, (int64_t[]){6}), TD_E_NOT_IMPLEMENTED, "'aten::view'");
    AUTO csr = TRY(td_to_sparse_csr(x, NULL));
    CHECK_FAILS(td_exp(csr), TD_E_NOT_IMPLEMENTED, "'SparseCsrCPU'");
}

TD_TEST(indices_beyond_the_size_are_errors)
{
    AUTO values = TRY(of(0, 1, TD_F32, (int[]){1}));
    AUTO x = TRY(coo(values, 2, 3, (int[]){7, 0}));
    AUTO dense = TRY(td_zeros(2, (int64_t[]){2, 3}, TD_F32, CPU));
    CHECK_FAILS(td_to_dense(x, TD_DTYPE_NONE, NULL), TD_E_INDEX, "index 7", "size 2");
    CHECK_FAILS(td_mul(x, dense), TD_E_INDEX, "index 7");
    CHECK_FAILS(td_add(dense, x), TD_E_INDEX, "index 7");
    AUTO negative = TRY(coo(values, 2, 3, (int[]){-1, 0}));
    AUTO ones = TRY(td_ones(2, (int64_t[]){3, 1}, TD_F32, CPU));
    CHECK_FAILS(td_mm(negative, ones), TD_E_INDEX, "index -1");
}

TD_TEST(it_is_shown_by_its_parts)
{
    AUTO x = TRY(sample());
    char *text = TRY(td_tensor_str(x));
    CHECK(strstr(text, "indices=tensor([[0, 1, 1]") && strstr(text, "size=(2, 3), nnz=3"));
    td_string_free(text);
}
