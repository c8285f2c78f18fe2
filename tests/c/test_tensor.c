/* Tensors and storages through the public headers. */
#include "td_test.h"
#include "tensor_helpers.h"
#include <tede/dlpack.h>
#include <tede/foreign.h>
#include <tede/print.h>
#include <tede/weak.h>

#define INTS(...) TD_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__}

TD_TEST(a_new_tensor_is_contiguous)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(2, 3, 4), TD_F64, CPU));
    const int64_t *strides = td_tensor_strides(x);
    CHECK(strides[0] == 12 && strides[1] == 4 && strides[2] == 1);
    CHECK_EQ(td_tensor_numel(x), 24);
    CHECK_EQ(td_storage_nbytes(td_tensor_storage(x)), 192);
    CHECK_EQ((uintptr_t)td_tensor_data(x) % 64, 0);
    CHECK(td_tensor_is_contiguous(x) && td_tensor_offset(x) == 0 && !td_tensor_base(x));
}

TD_TEST(small_and_large_contents_are_aligned)
{
    static const int64_t sizes[] = {0, 1, 100, 239, 240, 241, 5000, 100000};
    for (int i = 0; i < TD_COUNT(sizes); i++) {
        TD_AUTO td_tensor *x = TRY(td_tensor_new(1, &sizes[i], TD_F32, CPU));
        CHECK_EQ((uintptr_t)td_tensor_data(x) % 64, 0);
        memset(td_tensor_data(x), 1, (size_t)sizes[i] * 4);
    }
}

TD_TEST(a_long_shape_has_its_own_block)
{
    int64_t sizes[TD_MAX_DIMS];
    for (int d = 0; d < TD_MAX_DIMS; d++)
        sizes[d] = d % 16 == 0 ? 2 : 1;
    TD_AUTO td_tensor *x = TRY(td_tensor_new(TD_MAX_DIMS, sizes, TD_I8, CPU));
    CHECK_EQ(td_tensor_numel(x), 16);
    CHECK_EQ(td_tensor_strides(x)[0], 8);
    CHECK_FAILS(td_tensor_new(TD_MAX_DIMS + 1, sizes, TD_I8, CPU), TD_E_RUNTIME, "at most 64 dimensions");
}

TD_TEST(empty_tensors_keep_their_strides_above_zero)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(2, 0, 3), TD_F32, CPU));
    CHECK(td_tensor_strides(x)[0] == 3 && td_tensor_strides(x)[1] == 3 && td_tensor_numel(x) == 0);
    TD_AUTO td_tensor *huge = TRY(td_tensor_new(INTS((int64_t)1 << 62, 0), TD_F32, CPU));
    CHECK_EQ(td_tensor_numel(huge), 0);
}

TD_TEST(impossible_sizes_are_errors)
{
    CHECK_FAILS(td_tensor_new(INTS(-1), TD_F32, CPU), TD_E_RUNTIME,
                "Trying to create tensor with negative dimension -1: [-1]");
    CHECK_FAILS(td_tensor_new(INTS(2, -3), TD_F32, CPU), TD_E_RUNTIME, "negative dimension -3: [2, -3]");
    CHECK_FAILS(td_tensor_new(INTS((int64_t)1 << 40, (int64_t)1 << 30), TD_F32, CPU), TD_E_RUNTIME,
                "Storage size calculation overflowed with sizes=[1099511627776, 1073741824]");
    CHECK_FAILS(td_tensor_new(INTS((int64_t)1 << 61), TD_F64, CPU), TD_E_RUNTIME, "overflowed");
    CHECK_FAILS(td_tensor_new_strided(INTS(3, 3), (int64_t[]){(int64_t)1 << 62, 1}, TD_F32, CPU), TD_E_RUNTIME,
                "overflowed with sizes=[3, 3] and strides=");
    CHECK_FAILS(td_tensor_new(INTS(2), (td_dtype)99, CPU), TD_E_TYPE, "dtype");
    CHECK_FAILS(td_tensor_new(INTS(2), TD_F32, ((td_device){TD_CUDA, 0})), TD_E_ASSERTION, "CUDA");
    CHECK_FAILS(td_tensor_new(INTS((int64_t)1 << 46), TD_F64, CPU), TD_E_MEMORY, "");
}

TD_TEST(meta_tensors_have_a_shape_and_an_offset_but_no_memory)
{
    td_device meta = {TD_META, -1};
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS((int64_t)1 << 40, 1000), TD_F32, meta));
    CHECK(td_tensor_data(x) == NULL);
    TD_AUTO td_tensor *reversed = TRY(td_tensor_new_strided(INTS(4, 3), (int64_t[]){-3, 1}, TD_F32, meta));
    CHECK_EQ(td_tensor_offset(reversed), 9);
    CHECK(td_tensor_data(reversed) == NULL);
    td_scalar value;
    TD_AUTO td_tensor *one = TRY(td_tensor_new(0, NULL, TD_F32, meta));
    CHECK_FAILS(td_tensor_item(one, &value), TD_E_RUNTIME, "Tensor.item() cannot be called on meta tensors");
}

static int released;
static void count_release(void *context) { released += *(int *)context; }

TD_TEST(foreign_memory_is_released_with_its_last_tensor)
{
    float data[6] = {0, 1, 2, 3, 4, 5};
    int one = 1;
    released = 0;
    td_tensor *x = TRY(td_tensor_from_memory(data + 5, INTS(2, 3), (int64_t[]){-3, -1}, TD_F32, CPU, count_release, &one));
    td_storage *s = td_storage_retain(td_tensor_storage(x));
    CHECK(td_storage_data(s) == data && td_tensor_offset(x) == 5);
    CHECK_EQ(td_storage_use_count(s), 2);
    td_tensor_release(x);
    CHECK_EQ(released, 0);
    CHECK_FAILS(td_storage_resize(s, 100), TD_E_RUNTIME, "Trying to resize storage that is not resizable");
    td_storage_release(s);
    CHECK_EQ(released, 1);
    CHECK_FAILS(td_tensor_from_memory(data, INTS(-2), NULL, TD_F32, CPU, count_release, &one), TD_E_RUNTIME, "negative");
    CHECK_EQ(released, 1);
}

TD_TEST(a_storage_grows_and_shrinks_and_keeps_what_fits)
{
    td_storage *s = TRY(td_storage_new(CPU, 100));
    memset(td_storage_data(s), 7, 100);
    static const size_t sizes[] = {50, 100, 3000, 2000000, 1000, 5000, 0, 64};
    size_t kept = 100;
    for (int i = 0; i < TD_COUNT(sizes); i++) {
        if (td_storage_resize(s, sizes[i]) != 0) {
            td_storage_release(s);
            CHECK(false);
        }
        kept = sizes[i] < kept ? sizes[i] : kept;
        bool same = td_storage_nbytes(s) == sizes[i];
        for (size_t k = 0; k < kept; k++)
            same &= ((char *)td_storage_data(s))[k] == 7;
        if (!same)
            td_storage_release(s);
        CHECK(same);
        if (sizes[i])
            memset(td_storage_data(s), 7, sizes[i]);
        kept = sizes[i];
    }
    td_storage_release(s);
}

TD_TEST(a_storage_takes_other_memory_with_all_that_look_at_it)
{
    static const int64_t sizes[] = {3, 1000};       /* behind the head, and apart */
    for (int i = 0; i < TD_COUNT(sizes); i++) {
        TD_AUTO td_tensor *x = TRY(td_tensor_new(1, &sizes[i], TD_F32, CPU));
        TD_AUTO td_tensor *end = TRY(td_tensor_view(x, 1, (int64_t[]){1}, (int64_t[]){1}, sizes[i] - 1));
        TD_AUTO td_tensor *other = TRY(td_tensor_new(1, &sizes[i], TD_F32, CPU));
        td_storage *s = td_tensor_storage(x), *source = td_tensor_storage(other);
        ((float *)td_storage_data(source))[sizes[i] - 1] = 5;
        CHECK_FAILS(td_storage_take(s, source, &x, 1, 0), TD_E_RUNTIME, "2 holders, and 1 are known");
        CHECK_EQ(td_storage_take(s, source, (td_tensor *[]){x, end}, 2, 0), 0);
        CHECK(td_storage_data(s) == td_storage_data(source) && td_tensor_data(x) == td_tensor_data(other));
        CHECK_NEAR(*(float *)td_tensor_data(end), 5, 0);
        CHECK_EQ(td_tensor_offset(end), sizes[i] - 1);
    }
}

TD_TEST(a_storage_that_grows_does_not_pull_memory_from_under_others)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(1000), TD_F32, CPU));
    float *data = td_tensor_data(x);
    data[999] = 5;
    td_storage *s = td_storage_retain(td_tensor_storage(x));
    int status = td_storage_resize(s, 100000);
    td_storage_release(s);
    CHECK_EQ(status, 0);
    CHECK_NEAR(data[999], 5, 0);
    CHECK_NEAR(((float *)td_storage_data(td_tensor_storage(x)))[999], 5, 0);
}

TD_TEST(a_tensor_over_a_storage_must_stay_within_it)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(3), TD_F32, CPU));
    td_storage *s = td_tensor_storage(x);
    TD_AUTO td_tensor *last = TRY(td_tensor_over(s, 2, INTS(3), (int64_t[]){-1}, TD_F32));
    CHECK(td_tensor_data(last) == (char *)td_tensor_data(x) + 8);
    CHECK_FAILS(td_tensor_over(s, 0, INTS(2, 2), (int64_t[]){2, 1}, TD_F32), TD_E_RUNTIME,
                "setStorage: sizes [2, 2], strides [2, 1], storage offset 0, and itemsize 4 requiring a storage size of 16 "
                "are out of bounds for storage of size 12");
    CHECK_FAILS(td_tensor_over(s, 1, INTS(3), (int64_t[]){-1}, TD_F32), TD_E_RUNTIME, "below");
    CHECK_FAILS(td_tensor_over(s, -1, INTS(1), NULL, TD_F32), TD_E_RUNTIME, "offset");
}

TD_TEST(numbers_become_tensors_and_come_back)
{
    td_scalar in[] = {td_bool(true), td_int(-5), td_float(1.5), td_complex(1, -2)}, out;
    td_dtype dtypes[] = {TD_BOOL, TD_I64, TD_F32, TD_C64};
    for (int i = 0; i < 4; i++) {
        TD_AUTO td_tensor *x = TRY(td_tensor_from_scalar(in[i]));
        CHECK_EQ(td_tensor_dtype(x), dtypes[i]);
        CHECK_EQ(td_tensor_item(x, &out), 0);
        CHECK(out.kind == in[i].kind && out.imag == in[i].imag);
        CHECK_NEAR(td_scalar_double(out), td_scalar_double(in[i]), 0);
    }
    TD_AUTO td_tensor *two = TRY(td_tensor_new(INTS(2), TD_F32, CPU));
    CHECK_FAILS(td_tensor_item(two, &out), TD_E_RUNTIME, "a Tensor with 2 elements cannot be converted to Scalar");
}

TD_TEST(nothing_is_still_a_tensor_to_retain_and_release)
{
    CHECK(td_tensor_retain(TD_NONE) == TD_NONE && td_tensor_retain(NULL) == NULL);
    td_tensor_release(TD_NONE);
    td_tensor_release(NULL);
    td_storage_release(NULL);
    CHECK_EQ(td_tensor_numel(TD_NONE), 0);
}

/* ---- promotion and overlap */

TD_TEST(shapes_are_broadcast_or_refused_in_pytorchs_words)
{
    int64_t sizes[TD_MAX_DIMS];
    TD_AUTO td_tensor *a = TRY(td_tensor_new(INTS(2, 3), TD_F32, CPU));
    TD_AUTO td_tensor *b = TRY(td_tensor_new(INTS(5, 1, 3), TD_F32, CPU));
    TD_AUTO td_tensor *c = TRY(td_tensor_new(INTS(4), TD_F32, CPU));
    CHECK_EQ(td_broadcast_shape("add", 2, (td_tensor *[]){a, b}, sizes), 3);
    CHECK(sizes[0] == 5 && sizes[1] == 2 && sizes[2] == 3);
    CHECK_FAILS(td_broadcast_shape("add", 2, (td_tensor *[]){a, c}, sizes), TD_E_RUNTIME,
                "add: The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1 "
                "(sizes [2, 3] and [4])");
}

TD_TEST(numbers_weigh_less_than_tensors_in_promotion)
{
    TD_AUTO td_tensor *half = TRY(td_tensor_new(INTS(2), TD_F16, CPU));
    TD_AUTO td_tensor *ints = TRY(td_tensor_new(INTS(2), TD_I16, CPU));
    TD_AUTO td_tensor *zero_dim = TRY(td_tensor_new(0, NULL, TD_F64, CPU));
    TD_AUTO td_tensor *number = TRY(td_wrapped_number(td_float(1)));
    TD_AUTO td_tensor *imaginary = TRY(td_wrapped_number(td_complex(0, 1)));
    CHECK_EQ(td_result_type(2, (td_tensor *[]){half, number}), TD_F16);
    CHECK_EQ(td_result_type(2, (td_tensor *[]){half, zero_dim}), TD_F16);
    CHECK_EQ(td_result_type(2, (td_tensor *[]){ints, number}), TD_F32);
    CHECK_EQ(td_result_type(2, (td_tensor *[]){ints, zero_dim}), TD_F64);
    CHECK_EQ(td_result_type(2, (td_tensor *[]){zero_dim, imaginary}), TD_C128);
}

TD_TEST(writing_where_one_reads_is_refused)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(6), TD_F32, CPU));
    td_storage *s = td_tensor_storage(x);
    TD_AUTO td_tensor *front = TRY(td_tensor_over(s, 0, INTS(4), NULL, TD_F32));
    TD_AUTO td_tensor *back = TRY(td_tensor_over(s, 2, INTS(4), NULL, TD_F32));
    TD_AUTO td_tensor *reversed = TRY(td_tensor_over(s, 3, INTS(4), (int64_t[]){-1}, TD_F32));
    TD_AUTO td_tensor *expanded = TRY(td_tensor_over(s, 0, INTS(4), (int64_t[]){0}, TD_F32));
    CHECK_EQ(td_check_overlap("add", front, 1, &front), 0);
    CHECK_FAILS(td_check_overlap("add", front, 1, &back), TD_E_RUNTIME,
                "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
                "memory location. Please clone() the tensor before performing the operation.");
    CHECK_FAILS(td_check_overlap("add", front, 1, &reversed), TD_E_RUNTIME, "some elements of the input tensor");
    CHECK_FAILS(td_check_overlap("add", expanded, 1, &x), TD_E_RUNTIME,
                "more than one element of the written-to tensor refers to a single memory location");
}

/* ---- printing */

static bool prints(td_tensor *x, const char *expected)
{
    char *text = td_tensor_str(x);
    bool same = text && strcmp(text, expected) == 0;
    if (text && !same)
        fprintf(stderr, "%s\n", text);
    td_string_free(text);
    return same;
}

TD_TEST(tensors_print_as_in_pytorch)
{
    float numbers[] = {1, -2.5f, 3e-5f, NAN, INFINITY, 0};
    TD_AUTO td_tensor *m = TRY(td_tensor_from_memory(numbers, INTS(2, 3), NULL, TD_F32, CPU, NULL, NULL));
    CHECK(prints(m, "tensor([[ 1.0000e+00, -2.5000e+00,  3.0000e-05],\n        [        nan,         inf,  0.0000e+00]])"));
    TD_AUTO td_tensor *row = TRY(td_tensor_from_memory(numbers + 1, INTS(2), (int64_t[]){-1}, TD_F32, CPU, NULL, NULL));
    CHECK(prints(row, "tensor([-2.5000,  1.0000])"));
    double whole[] = {1, 200};
    TD_AUTO td_tensor *wide = TRY(td_tensor_from_memory(whole, INTS(2), NULL, TD_F64, CPU, NULL, NULL));
    CHECK(prints(wide, "tensor([  1., 200.], dtype=torch.float64)"));
    TD_AUTO td_tensor *empty = TRY(td_tensor_new(INTS(0, 3), TD_F32, CPU));
    CHECK(prints(empty, "tensor([], size=(0, 3))"));
    TD_AUTO td_tensor *meta = TRY(td_tensor_new(INTS(2, 3), TD_F32, ((td_device){TD_META, -1})));
    CHECK(prints(meta, "tensor(..., device='meta', size=(2, 3))"));
    TD_AUTO td_tensor *number = TRY(td_tensor_from_scalar(td_complex(1, -0.5)));
    CHECK(prints(number, "tensor(1.-0.5000j)"));
    TD_AUTO td_tensor *long_one = TRY(td_tensor_new(INTS(1001), TD_I64, CPU));
    for (int i = 0; i < 1001; i++)
        ((int64_t *)td_tensor_data(long_one))[i] = i;
    CHECK(prints(long_one, "tensor([   0,    1,    2,  ...,  998,  999, 1000])"));
}

TD_TEST(print_options_change_what_is_shown)
{
    td_print_options before, o;
    double numbers[] = {1.23456, 1000.5, 3};
    TD_AUTO td_tensor *x = TRY(td_tensor_from_memory(numbers, INTS(3), NULL, TD_F64, CPU, NULL, NULL));
    td_print_get_options(&before);
    CHECK_EQ(td_print_profile(&o, "short"), 0);
    o.sci_mode = 0;
    o.threshold = 2, o.edgeitems = 1;
    CHECK_EQ(td_print_set_options(&o), 0);
    bool same = prints(x, "tensor([1.23,  ..., 3.00], dtype=torch.float64)");
    CHECK_EQ(td_print_set_options(&before), 0);
    CHECK(same);
    CHECK_FAILS(td_print_profile(&o, "long"), TD_E_VALUE, "profile");
}

/* ---- DLPack */

TD_TEST(a_tensor_goes_out_and_comes_back_without_a_copy)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(3, 4), TD_BF16, CPU));
    td_dl_versioned *out = TRY(td_dlpack_export_versioned(x, TD_DL_COPY_IF_NEEDED));
    bool right = out->tensor.data == td_tensor_data(x) && out->tensor.ndim == 2 && out->tensor.shape[1] == 4 &&
                 out->tensor.strides[0] == 4 && out->tensor.code == TD_DL_BFLOAT && out->tensor.bits == 16 && !out->flags;
    td_tensor *back = td_dlpack_import_versioned(out);
    if (!back)
        out->deleter(out);
    CHECK(back && right);
    right = td_tensor_data(back) == td_tensor_data(x) && td_tensor_dtype(back) == TD_BF16;
    td_tensor_release(back);
    CHECK(right);
    td_dl_managed *plain = TRY(td_dlpack_export(x, TD_DL_COPY_NEVER));
    plain->deleter(plain);
}

TD_TEST(negative_strides_go_out_as_a_copy)
{
    int32_t numbers[] = {1, 2, 3};
    TD_AUTO td_tensor *x = TRY(td_tensor_from_memory(numbers + 2, INTS(3), (int64_t[]){-1}, TD_I32, CPU, NULL, NULL));
    CHECK_FAILS(td_dlpack_export_versioned(x, TD_DL_COPY_NEVER), TD_E_RUNTIME, "negative strides");
    td_dl_versioned *out = TRY(td_dlpack_export_versioned(x, TD_DL_COPY_IF_NEEDED));
    bool right = out->flags == TD_DL_IS_COPIED && ((int32_t *)out->tensor.data)[0] == 3 && out->tensor.strides[0] == 1;
    out->deleter(out);
    CHECK(right);
}

TD_TEST(foreign_tensors_of_any_stride_come_in)
{
    int16_t numbers[] = {1, 2, 3, 4};
    int64_t shape[] = {2}, strides[] = {-2};
    td_dl_managed foreign = {.tensor = {.data = numbers, .device_type = TD_DL_CPU, .ndim = 1, .code = TD_DL_INT, .bits = 16,
                                        .lanes = 1, .shape = shape, .strides = strides, .byte_offset = 6}};
    TD_AUTO td_tensor *x = TRY(td_dlpack_import(&foreign));
    CHECK(td_tensor_data(x) == numbers + 3);
    CHECK(prints(x, "tensor([4, 2], dtype=torch.int16)"));
    foreign.tensor.lanes = 4;
    CHECK_FAILS(td_dlpack_import(&foreign), TD_E_RUNTIME, "element type");
}

TD_TEST(a_weak_reference_knows_when_its_storage_is_gone)
{
    td_tensor *x = TRY(td_tensor_new(INTS(3), TD_F32, CPU));
    td_weak_storage *first = td_weak_storage_new(td_tensor_storage(x));
    td_weak_storage *second = first ? td_weak_storage_new(td_tensor_storage(x)) : NULL;
    bool same = first == second, there = first && !td_weak_storage_expired(first);
    td_weak_storage_release(second);
    td_tensor_release(x);
    bool gone = first && td_weak_storage_expired(first);
    td_weak_storage_release(first);
    CHECK(!second || (same && there && gone));
    TD_AUTO td_tensor *y = TRY(td_tensor_new(INTS(3), TD_F32, CPU));
    td_weak_storage *third = TRY(td_weak_storage_new(td_tensor_storage(y)));
    td_weak_storage_release(third);         /* before its storage */
    CHECK(second);
}
