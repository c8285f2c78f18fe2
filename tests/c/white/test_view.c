/* Views from inside: geometry, bases, version counters. */
#include "../td_test.h"
#include "../tensor_helpers.h"
#include "tensor/tensor.h"

#define INTS(...) TD_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__}

TD_TEST(a_view_of_a_view_has_the_same_base)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(4, 6), TD_F32, CPU));
    TD_AUTO td_tensor *row = TRY(td_view_strided(x, INTS(6), (int64_t[]){1}, 6));
    TD_AUTO td_tensor *back = TRY(td_view_strided(row, INTS(3), (int64_t[]){-2}, 5));
    CHECK(row->base == x && back->base == x && back->storage == x->storage);
    CHECK_EQ(td_tensor_offset(back), 11);
    CHECK(!(back->flags & TD_FLAG_CONTIGUOUS) && row->flags & TD_FLAG_CONTIGUOUS);
    CHECK(row->keys & TD_KEYSET(TD_KEY_AUTOGRAD));
    CHECK_EQ(x->refcount, 3);
}

TD_TEST(views_and_aliases_share_the_version_unless_told_otherwise)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(4), TD_F32, CPU));
    TD_AUTO td_tensor *view = TRY(td_view_strided(x, INTS(2), (int64_t[]){1}, 1));
    TD_AUTO td_tensor *detached = TRY(td_alias_detached(x, false));
    TD_AUTO td_tensor *apart = TRY(td_alias_detached(x, true));
    TD_AUTO td_tensor *apart_view = TRY(td_view_strided(apart, INTS(2), (int64_t[]){1}, 1));
    TD_AUTO td_tensor *apart_again = TRY(td_alias_detached(apart, true));
    td_bump_version(view);
    CHECK_EQ(td_tensor_version(x), 1);
    CHECK_EQ(td_tensor_version(detached), 1);
    CHECK_EQ(td_tensor_version(apart), 0);
    td_bump_version(apart_view);
    td_bump_version(apart_view);
    CHECK_EQ(td_tensor_version(apart), 2);
    CHECK_EQ(td_tensor_version(apart_again), 0);
    CHECK_EQ(td_tensor_version(x), 1);
    CHECK(!detached->base && !apart->base);
}

TD_TEST(a_small_tensor_and_its_storage_may_outlive_each_other)
{
    td_tensor *x = TRY(td_tensor_new(INTS(10), TD_F32, CPU));
    td_storage *s = td_storage_retain(x->storage);
    float *data = td_tensor_data(x);
    data[9] = 4;
    td_tensor_release(x);
    bool kept = td_storage_use_count(s) == 1 && data[9] == 4;
    td_storage_release(s);
    CHECK(kept);

    td_storage *other = TRY(td_storage_new(CPU, 4000));
    x = td_tensor_new(INTS(10), TD_F32, CPU);
    if (!x)
        td_storage_release(other);
    CHECK(x);
    td_storage_release(x->storage);
    x->storage = other;
    x->data = other->data;
    CHECK_EQ(td_tensor_set_geometry(x, INTS(1000), (int64_t[]){1}), 0);
    memset(td_tensor_data(x), 0, 4000);
    td_tensor_release(x);

    x = TRY(td_tensor_new(INTS(10), TD_F32, CPU));
    int grown = td_storage_resize(x->storage, 5000);
    td_tensor_release(x);
    CHECK_EQ(grown, 0);
}

TD_TEST(dense_orders_of_dimensions_are_recognised)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(2, 3, 4), TD_F32, CPU));
    TD_AUTO td_tensor *permuted = TRY(td_view_strided(x, INTS(4, 1, 2, 3), (int64_t[]){1, 77, 12, 4}, 0));
    TD_AUTO td_tensor *holes = TRY(td_view_strided(x, INTS(2, 3, 2), (int64_t[]){12, 4, 1}, 0));
    TD_AUTO td_tensor *reversed = TRY(td_view_strided(x, INTS(24), (int64_t[]){-1}, 23));
    CHECK(permuted->flags & TD_FLAG_NON_OVERLAPPING && !(permuted->flags & TD_FLAG_CONTIGUOUS));
    CHECK(!(holes->flags & TD_FLAG_NON_OVERLAPPING));
    CHECK(!(reversed->flags & (TD_FLAG_NON_OVERLAPPING | TD_FLAG_CONTIGUOUS)));
}

TD_TEST(elements_keep_their_order_when_seen_in_another_shape)
{
    for (int round = 0; round < 3000; round++) {
        int64_t sizes[6], strides[6], wanted[6], found[6], step = 1;
        int ndim = draw(5), to = draw(5);
        for (int d = ndim - 1; d >= 0; d--) {
            sizes[d] = 1 + draw(4);
            strides[d] = step * (draw(6) ? 1 : -1);
            step *= sizes[d];
            step = draw(5) ? step : step + 1;
        }
        int64_t numel = 1;
        for (int d = 0; d < ndim; d++)
            numel *= sizes[d];
        int64_t left = numel;
        for (int d = 0; d < to; d++) {
            wanted[d] = 1;
            for (int tries = 0; tries < 4; tries++) {
                int divisor = 1 + draw(4);
                if (left % divisor == 0)
                    wanted[d] *= divisor, left /= divisor;
            }
        }
        if (to == 0 && numel != 1)
            continue;
        if (to > 0)
            wanted[to - 1] *= left;
        td_tensor x = {.sizes = sizes, .strides = strides, .ndim = (uint8_t)ndim, .numel = numel};
        if (!td_view_strides(&x, to, wanted, found))
            continue;
        for (int64_t i = 0; i < numel; i++) {
            int64_t a = 0, b = 0, rest = i;
            for (int d = ndim - 1; d >= 0; d--)
                a += rest % sizes[d] * strides[d], rest /= sizes[d];
            rest = i;
            for (int d = to - 1; d >= 0; d--)
                b += rest % wanted[d] * found[d], rest /= wanted[d];
            CHECK_EQ(b, a);
        }
    }
}

TD_TEST(shapes_that_would_need_a_copy_are_refused)
{
    int64_t strides[4];
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(2, 3), TD_F32, CPU));
    TD_AUTO td_tensor *t = TRY(td_view_strided(x, INTS(3, 2), (int64_t[]){1, 3}, 0));
    CHECK(!td_view_strides(t, INTS(6), strides));
    CHECK(td_view_strides(t, INTS(3, 1, 2), strides));
    CHECK(strides[0] == 1 && strides[2] == 3);
    CHECK(!td_view_strides(x, INTS(7), strides));
}

TD_TEST(a_geometry_is_replaced_in_place)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(2, 3), TD_F32, CPU));
    int64_t sizes[7] = {1, 1, 1, 1, 1, 3, 2}, strides[7] = {1, 1, 1, 1, 1, 1, 3};
    CHECK_EQ(td_tensor_set_geometry(x, 7, sizes, strides), 0);
    CHECK(x->ndim == 7 && x->strides[6] == 3 && !(x->flags & TD_FLAG_CONTIGUOUS));
    CHECK_EQ(td_tensor_set_geometry(x, 2, x->sizes + 5, x->strides + 5), 0);
    CHECK(x->ndim == 2 && x->sizes[0] == 3 && x->strides[1] == 3 && x->sizes == x->inline_shape);
    CHECK_FAILS(td_tensor_set_geometry(x, INTS(-1), (int64_t[]){1}), TD_E_RUNTIME, "negative dimension");
    CHECK_EQ(x->ndim, 2);
}

TD_TEST(dimensions_wrap_around)
{
    CHECK_EQ(td_wrap_dim(-1, 3), 2);
    CHECK_EQ(td_wrap_dim(-1, 0), 0);
    CHECK_FAILS(td_wrap_dim(5, 2), TD_E_INDEX, "Dimension out of range (expected to be in range of [-2, 1], but got 5)");
    CHECK_FAILS(td_wrap_dim(1, 0), TD_E_INDEX, "(expected to be in range of [-1, 0], but got 1)");
}

TD_TEST(long_shapes_are_cut_in_messages)
{
    int64_t sizes[TD_MAX_DIMS];
    td_shape_text text;
    for (int d = 0; d < TD_MAX_DIMS; d++)
        sizes[d] = INT64_MIN;
    td_shape_str(TD_MAX_DIMS, sizes, text);
    CHECK(strlen(text) < sizeof text && strstr(text, ", ...]"));
    CHECK_STR(td_shape_str(0, NULL, text), "[]");
}
