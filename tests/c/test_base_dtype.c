/* Dtypes, devices, scalars. */
#include "td_test.h"

#include "promotion_table.h"

TD_TEST(promotion_is_pytorchs)
{
    for (int a = 0; a <= TD_C128; a++)
        for (int b = 0; b <= TD_C128; b++) {
            td_error_clear();
            CHECK_EQ(td_promote_types((td_dtype)a, (td_dtype)b), promotion_table[a][b]);
            CHECK_EQ(td_error_code(), promotion_table[a][b] == TD_DTYPE_NONE ? TD_E_RUNTIME : TD_OK);
        }
    CHECK_FAILS((int)td_promote_types(TD_U16, TD_I32), TD_E_RUNTIME,
                "Promotion for uint16, uint32, uint64 types is not supported, attempted to promote UInt16 and Int");
    CHECK_FAILS((int)td_promote_types(TD_F32, TD_DTYPE_NONE), TD_E_RUNTIME);
}

TD_TEST(each_dtype_has_a_name_and_a_size)
{
    static const struct { const char *name, *title; int size; } expected[TD_DTYPE_A] = {
        {"bool", "Bool", 1}, {"uint8", "Byte", 1}, {"int8", "Char", 1}, {"int16", "Short", 2}, {"int32", "Int", 4},
        {"int64", "Long", 8}, {"uint16", "UInt16", 2}, {"uint32", "UInt32", 4}, {"uint64", "UInt64", 8},
        {"float16", "Half", 2}, {"bfloat16", "BFloat16", 2}, {"float32", "Float", 4}, {"float64", "Double", 8},
        {"complex64", "ComplexFloat", 8}, {"complex128", "ComplexDouble", 16},
        {"complex32", "ComplexHalf", 4}, {"float8_e4m3fn", "Float8_e4m3fn", 1}, {"float8_e5m2", "Float8_e5m2", 1},
        {"float8_e4m3fnuz", "Float8_e4m3fnuz", 1}, {"float8_e5m2fnuz", "Float8_e5m2fnuz", 1}, {"float8_e8m0fnu", "Float8_e8m0fnu", 1},
        {"float4_e2m1fn_x2", "Float4_e2m1fn_x2", 1}, {"bits1x8", "Bits1x8", 1}, {"bits2x4", "Bits2x4", 1}, {"bits4x2", "Bits4x2", 1},
        {"bits8", "Bits8", 1}, {"bits16", "Bits16", 2}, {"qint8", "QInt8", 1}, {"quint8", "QUInt8", 1}, {"qint32", "QInt32", 4},
        {"quint4x2", "QUInt4x2", 1}, {"quint2x4", "QUInt2x4", 1},
    };
    for (int d = 0; d < TD_DTYPE_A; d++) {
        CHECK_STR(td_dtype_name((td_dtype)d), expected[d].name);
        CHECK_STR(td_dtype_title((td_dtype)d), expected[d].title);
        CHECK_EQ(td_dtype_size((td_dtype)d), expected[d].size);
        CHECK_EQ(td_dtype_is_floating((td_dtype)d), (d >= TD_F16 && d <= TD_F64) || (d >= TD_F8_E4M3FN && d <= TD_F4_E2M1FN_X2));
        CHECK_EQ(td_dtype_is_complex((td_dtype)d), d >= TD_C64 && d <= TD_C32);
        CHECK_EQ(td_dtype_is_integral((td_dtype)d), d >= TD_U8 && d <= TD_U64);
        if (d <= TD_C128)
            CHECK_EQ(td_dtype_is_signed((td_dtype)d), (d >= TD_I8 && d <= TD_I64) || d >= TD_F16);
    }
    CHECK(td_dtype_name(TD_DTYPE_NONE) && td_dtype_title((td_dtype)99));
    CHECK_EQ(td_dtype_size(TD_DTYPE_NONE), 0);
}

TD_TEST(real_and_complex_dtypes_go_together)
{
    CHECK_EQ(td_dtype_to_real(TD_C64), TD_F32);
    CHECK_EQ(td_dtype_to_real(TD_C128), TD_F64);
    CHECK_EQ(td_dtype_to_real(TD_I8), TD_I8);
    CHECK_EQ(td_dtype_to_complex(TD_F32), TD_C64);
    CHECK_EQ(td_dtype_to_complex(TD_BF16), TD_C64);
    CHECK_EQ(td_dtype_to_complex(TD_F64), TD_C128);
    CHECK_EQ(td_dtype_to_complex(TD_C64), TD_C64);
    CHECK_FAILS((int)td_dtype_to_complex(TD_I32), TD_E_RUNTIME, "Unknown Complex ScalarType for Int");
}

TD_TEST(the_default_dtype_is_a_floating_one)
{
    CHECK_EQ(td_default_dtype(), TD_F32);
    CHECK_EQ(td_set_default_dtype(TD_F64), 0);
    CHECK_EQ(td_default_dtype(), TD_F64);
    CHECK_FAILS(td_set_default_dtype(TD_I64), TD_E_TYPE, "only floating-point types are supported as the default type");
    CHECK_FAILS(td_set_default_dtype(TD_C64), TD_E_TYPE);
    CHECK_FAILS(td_set_default_dtype(TD_DTYPE_NONE), TD_E_TYPE);
    CHECK_EQ(td_default_dtype(), TD_F64);
    CHECK_EQ(td_set_default_dtype(TD_F32), 0);
}

TD_TEST(devices_are_read_and_written)
{
    static const struct { const char *text; int type, index; } good[] = {
        {"cpu", TD_CPU, -1}, {"cpu:0", TD_CPU, 0}, {"meta", TD_META, -1}, {"cuda:12", TD_CUDA, 12},
        {"cuda:127", TD_CUDA, 127}, {"opencl:1", TD_OPENCL, 1},
    };
    char text[32];
    td_device device;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        CHECK_EQ(td_device_parse(&device, good[i].text), 0);
        CHECK_EQ(device.type, good[i].type);
        CHECK_EQ(device.index, good[i].index);
        CHECK_STR(td_device_str(device, text), good[i].text);
    }
    CHECK_STR(td_device_str(TD_DEVICE_NONE, text), "none");
    CHECK_STR(td_device_str((td_device){7, 3}, text), "device7:3");
}

TD_TEST(a_bad_device_string_is_refused_in_pytorchs_words)
{
    static const struct { const char *text, *message; } bad[] = {
        {"", "Device string must not be empty"},
        {"cuda:01", "Invalid device string: 'cuda:01'"}, {"cuda:", "Invalid device string: 'cuda:'"},
        {"cuda:-1", "Invalid device string: 'cuda:-1'"}, {"cuda:1 ", "Invalid device string: 'cuda:1 '"},
        {" cpu", "Invalid device string: ' cpu'"}, {"cuda:1:2", "Invalid device string: 'cuda:1:2'"},
        {"cuda:x", "Invalid device string: 'cuda:x'"}, {":1", "Invalid device string: ':1'"},
        {"foo:01", "Invalid device string: 'foo:01'"}, {"c-d", "Invalid device string: 'c-d'"},
        {"foo", "device type at start of device string: foo"}, {"CPU", "device type at start of device string: CPU"},
        {"foo:1", "device type at start of device string: foo"}, {"cp", "Expected one of cpu, "},
        {"cuda:128", "Could not parse device index '128' in device string 'cuda:128'"},
        {"cuda:99999999999999999999", "Could not parse device index '99999999999999999999'"},
    };
    td_device device;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CHECK_FAILS(td_device_parse(&device, bad[i].text), TD_E_RUNTIME, bad[i].message);
    CHECK_FAILS(td_device_parse(&device, NULL), TD_E_RUNTIME, "must not be empty");
}

TD_TEST(scalars_convert_as_in_c)
{
    CHECK_EQ(td_scalar_int(td_float(-2.9)), -2);
    CHECK_EQ(td_scalar_int(td_complex(3.5, 1)), 3);
    CHECK_EQ(td_scalar_int(td_bool(true)), 1);
    CHECK_EQ(td_scalar_int(td_int(INT64_MIN)), INT64_MIN);
    CHECK_EQ(td_scalar_int(td_float(NAN)), INT64_MIN);
    CHECK_EQ(td_scalar_int(td_float(1e300)), INT64_MIN);
    CHECK_EQ(td_scalar_int(td_float(-0x1p63)), INT64_MIN);
    CHECK_NEAR(td_scalar_double(td_int(-7)), -7, 0);
    CHECK_NEAR(td_scalar_double(td_float(INFINITY)), INFINITY, 0);
    CHECK_NEAR(td_scalar_double(td_complex(2, 5)), 2, 0);
    td_scalar large = {.kind = TD_SCALAR_UINT, .u = UINT64_MAX};
    CHECK_NEAR(td_scalar_double(large), 0x1p64, 0);
    CHECK(td_scalar_bool(large));
    CHECK(td_scalar_bool(td_complex(0, 1)));
    CHECK(td_scalar_bool(td_float(NAN)));
    CHECK(!td_scalar_bool(td_complex(0, -0.0)));
    CHECK(!td_scalar_bool(td_float(-0.0)));
    CHECK(!td_scalar_bool(td_int(0)));
    CHECK(td_scalar_bool(td_int(INT64_C(1) << 40)));
}
