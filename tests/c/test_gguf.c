/* GGUF files: what is written is read again, and no file, however wrong, does more than be refused. */
#include "td_test.h"
#include "temporary.h"
#include "tensor_helpers.h"
#include <sys/stat.h>
#include <tede/gguf.h>
#include <tede/ops.h>
#include <tede/packed.h>
#include <unistd.h>

#define INTS(...) TD_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__}

static void close_file(td_gguf **file) { td_gguf_release(*file); }
#define AUTO_FILE __attribute__((cleanup(close_file)))

/* ---- a file's contents, written piece by piece */
static _Alignas(64) char contents[1 << 16];
static size_t used;

static void put(const void *bytes, size_t n)
{
    memcpy(contents + used, bytes, n);
    used += n;
}
static void put_32(uint32_t x) { put(&x, 4); }
static void put_64(uint64_t x) { put(&x, 8); }
static void put_text(const char *text) { put_64(strlen(text)), put(text, strlen(text)); }
static void begin(uint64_t tensors, uint64_t pairs)
{
    used = 0;
    put("GGUF", 4), put_32(3), put_64(tensors), put_64(pairs);
}
static void key(const char *name, uint32_t kind) { put_text(name), put_32(kind); }
static void tensor(const char *name, uint32_t type, uint64_t offset, int ndim, const int64_t *innermost_first)
{
    put_text(name), put_32((uint32_t)ndim);
    for (int d = 0; d < ndim; d++)
        put_64((uint64_t)innermost_first[d]);
    put_32(type), put_64(offset);
}
static void align(size_t alignment) { while (used % alignment) contents[used++] = 0; }
static void zeros(size_t n) { memset(contents + used, 0, n), used += n; }
static td_gguf *parse(void) { return td_gguf_parse(contents, used, NULL, NULL); }

#define CHECK_REFUSED(...) CHECK_FAILS(parse(), TD_E_VALUE, "gguf: ", __VA_ARGS__)

static td_gguf_value text_value(const char *text) { return (td_gguf_value){.kind = TD_GGUF_STRING, .data = text, .size = strlen(text)}; }
static double number_of(const td_gguf_value *v)
{
    td_scalar x = td_float(-1);
    return td_gguf_number(v, &x) == 0 ? x.kind == TD_SCALAR_UINT ? (double)x.u : td_scalar_double(x) : -2;
}

TD_TEST(tensors_of_every_dtype_and_packed_ones_come_back)
{
    static const td_dtype dtypes[] = {TD_F32, TD_F16, TD_BF16, TD_F64, TD_I8, TD_I16, TD_I32, TD_I64};
    static const char *const formats[] = {"q8_0", "q4_0", "q4_k", "q6_k", "mxfp4"};
    static const char *const types[] = {"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64", "Q8_0", "Q4_0", "Q4_K", "Q6_K", "MXFP4", "F32", "I8"};
    enum { N = TD_COUNT(dtypes), M = TD_COUNT(formats), ALL = N + M + 2 };
    td_tensor *tensors[ALL] = {0};
    const char *names[ALL];
    AUTO_PATH const char *path = path_of("every");
    TD_AUTO td_tensor *dense = TRY(td_tensor_new(INTS(2, 3, 256), TD_F32, CPU));
    fill_random(dense);
    for (int i = 0; i < N; i++) {
        tensors[i] = td_tensor_new(INTS(2, 3, 5), dtypes[i], CPU), names[i] = td_dtype_name(dtypes[i]);
        if (tensors[i])
            fill_random(tensors[i]);
    }
    for (int i = 0; i < M; i++)
        tensors[N + i] = td_to_packed(dense, formats[i]), names[N + i] = formats[i];
    tensors[N + M] = td_tensor_new(0, NULL, TD_F32, CPU), names[N + M] = "scalar \xc3\xa9";
    tensors[N + M + 1] = td_tensor_new(INTS(3, 0), TD_I8, CPU), names[N + M + 1] = "";
    if (tensors[N + M])
        *(float *)td_tensor_data(tensors[N + M]) = 2.5f;
    int status = td_gguf_save(path, ALL, names, tensors, 0, NULL, NULL);
    AUTO_FILE td_gguf *file = status == 0 ? td_gguf_open(path) : NULL;
    bool same = true;
    for (int i = 0; i < ALL && file; i++) {
        TD_AUTO td_tensor *x = td_gguf_get(file, names[i]);
        const td_tensor *a = x ? td_packed_blocks(x) : NULL, *b = tensors[i] ? td_packed_blocks(tensors[i]) : NULL;
        same &= x && (a != NULL) == (b != NULL) && td_tensor_ndim(x) == td_tensor_ndim(tensors[i]) && strcmp(td_gguf_type(file, i), types[i]) == 0 &&
                memcmp(td_tensor_sizes(x), td_tensor_sizes(tensors[i]), sizeof(int64_t) * (size_t)td_tensor_ndim(x)) == 0;
        a = a ? a : x, b = b ? b : tensors[i];
        same = same && td_tensor_dtype(a) == td_tensor_dtype(b) && td_tensor_numel(a) == td_tensor_numel(b) &&
               memcmp(td_tensor_data(a), td_tensor_data(b), (size_t)td_tensor_numel(b) * td_dtype_size(td_tensor_dtype(b))) == 0;
    }
    for (int i = 0; i < ALL; i++)
        td_tensor_release(tensors[i]);
    CHECK(status == 0 && file && same);
    CHECK_EQ(td_gguf_count(file), ALL);
    CHECK_EQ(td_gguf_find(file, "nowhere"), -1);
    CHECK_FAILS(td_gguf_get(file, "nowhere"), TD_E_KEY, "'nowhere'");
    CHECK_FAILS(td_gguf_at(file, 99), TD_E_INDEX, "99");
    CHECK_FAILS(td_gguf_get(NULL, "x"), TD_E_RUNTIME, "no file");
}

TD_TEST(metadata_of_every_kind_comes_back)
{
    static const uint64_t big = UINT64_MAX;
    static const int64_t low = INT64_MIN;
    static const double pi = 3.25;
    static const float half = 0.5f;
    static const uint32_t word = 4000000000u;
    static const int16_t negative = -5;
    static const bool yes = true;
    static const int32_t numbers[] = {1, -2, 3};
    char strings[] = "\2\0\0\0\0\0\0\0ab\0\0\0\0\0\0\0\0";
    const char *keys[] = {"u64", "i64", "f64", "f32", "u32", "i16", "bool", "text", "numbers", "strings", "none"};
    const td_gguf_value values[] = {
        {.kind = TD_GGUF_U64, .data = &big, .size = 8}, {.kind = TD_GGUF_I64, .data = &low, .size = 8}, {.kind = TD_GGUF_F64, .data = &pi, .size = 8},
        {.kind = TD_GGUF_F32, .data = &half, .size = 4}, {.kind = TD_GGUF_U32, .data = &word, .size = 4}, {.kind = TD_GGUF_I16, .data = &negative, .size = 2},
        {.kind = TD_GGUF_BOOL, .data = &yes, .size = 1}, text_value("t\xc3\xa9xt"),
        {.kind = TD_GGUF_ARRAY, .element = TD_GGUF_I32, .count = 3, .data = numbers, .size = sizeof numbers},
        {.kind = TD_GGUF_ARRAY, .element = TD_GGUF_STRING, .count = 2, .data = strings, .size = 18},
        {.kind = TD_GGUF_ARRAY, .element = TD_GGUF_U8, .count = 0, .data = strings, .size = 0},
    };
    AUTO_PATH const char *path = path_of("metadata");
    CHECK(td_gguf_save(path, 0, NULL, NULL, TD_COUNT(keys), keys, values) == 0);
    AUTO_FILE td_gguf *file = TRY(td_gguf_open(path));
    CHECK_EQ(td_gguf_metadata_count(file), TD_COUNT(keys));
    CHECK_STR(td_gguf_metadata_key(file, 1), "i64");
    CHECK(number_of(td_gguf_metadata(file, "u64")) == (double)big);
    CHECK(number_of(td_gguf_metadata(file, "i64")) == (double)low);
    CHECK(number_of(td_gguf_metadata(file, "f64")) == pi && number_of(td_gguf_metadata(file, "f32")) == half);
    CHECK(number_of(td_gguf_metadata(file, "u32")) == word && number_of(td_gguf_metadata(file, "i16")) == -5);
    CHECK(number_of(td_gguf_metadata(file, "bool")) == 1);
    const td_gguf_value *text = td_gguf_metadata(file, "text"), *array = td_gguf_metadata(file, "numbers");
    CHECK(text && text->size == 5 && memcmp(text->data, "t\xc3\xa9xt", 5) == 0);
    size_t at = 0;
    int64_t sum = 0;
    for (td_gguf_value element; td_gguf_next(array, &at, &element);)
        sum = sum * 10 + (int64_t)number_of(&element);
    CHECK_EQ(sum, 100 - 20 + 3);
    td_gguf_value first, second, third;
    at = 0, array = td_gguf_metadata(file, "strings");
    CHECK(td_gguf_next(array, &at, &first) && td_gguf_next(array, &at, &second) && !td_gguf_next(array, &at, &third));
    CHECK(first.size == 2 && memcmp(first.data, "ab", 2) == 0 && second.size == 0);
    CHECK(!td_gguf_metadata(file, "nothing") && td_error_code() == TD_OK);
    CHECK(!td_gguf_next(text, &at, &first));
    td_scalar x;
    CHECK_FAILS(td_gguf_number(text, &x) ? NULL : "", TD_E_TYPE, "a string");
    CHECK_FAILS(td_gguf_number(NULL, &x) ? NULL : "", TD_E_TYPE, "nothing");
}

TD_TEST(tensors_look_at_the_file_and_writing_to_them_does_not_change_it)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(4), TD_F32, CPU));
    memcpy(td_tensor_data(x), (float[]){1, 2, 3, 4}, 16);
    AUTO_PATH const char *path = path_of("shared");
    CHECK(td_gguf_save(path, 1, (const char *[]){"x"}, &x, 0, NULL, NULL) == 0);
    AUTO_FILE td_gguf *file = td_gguf_open(path);
    TD_AUTO td_tensor *a = td_gguf_get(file, "x");
    TD_AUTO td_tensor *b = td_gguf_get(file, "x");
    td_gguf_release(file);
    file = NULL;
    CHECK(a && b && td_tensor_data(a) == td_tensor_data(b));
    ((float *)td_tensor_data(a))[0] = 9;
    AUTO_FILE td_gguf *again = TRY(td_gguf_open(path));
    TD_AUTO td_tensor *c = TRY(td_gguf_get(again, "x"));
    CHECK_EQ(((float *)td_tensor_data(b))[0], 9);
    CHECK_EQ(((float *)td_tensor_data(c))[0], 1);
}

TD_TEST(sizes_are_the_other_way_round_and_alignment_is_kept_to)
{
    begin(2, 1);
    key("general.alignment", TD_GGUF_U32), put_32(64);
    tensor("a", 24, 0, INTS(3, 2)), tensor("b", 0, 64, INTS(1));
    align(64), zeros(64), zeros(4);
    AUTO_FILE td_gguf *file = TRY(parse());
    CHECK_EQ(td_gguf_sizes(file, 0)[0], 2);
    CHECK_EQ(td_gguf_sizes(file, 0)[1], 3);
    TD_AUTO td_tensor *b = TRY(td_gguf_get(file, "b"));
    CHECK(td_tensor_data(b) == contents + used - 4);
}

TD_TEST(a_place_that_does_not_suit_the_dtype_is_copied)
{
    begin(1, 1);
    key("general.alignment", TD_GGUF_U32), put_32(1);
    tensor("a", 27, 0, INTS(1)), zeros(8);
    CHECK(used % 8 != 0);
    AUTO_FILE td_gguf *file = TRY(parse());
    TD_AUTO td_tensor *x = TRY(td_gguf_get(file, "a"));
    CHECK_EQ((uintptr_t)td_tensor_data(x) % 8, 0);
}

TD_TEST(other_types_are_unpacked_or_are_bytes)
{
    begin(2, 0);
    tensor("q4_1", 3, 0, INTS(32)), tensor("iq1_s", 19, 32, INTS(256, 2));
    align(32);
    char *q4 = contents + used;
    zeros(32), zeros(100);
    memcpy(q4, "\0\x38\0\x3c", 4);                /* d = 0.5, m = 1 */
    q4[4] = 0x73;
    AUTO_FILE td_gguf *file = TRY(parse());
    TD_AUTO td_tensor *x = TRY(td_gguf_get(file, "q4_1"));
    CHECK_EQ(((float *)td_tensor_data(x))[0] * 2, 5);
    CHECK_EQ(((float *)td_tensor_data(x))[16] * 2, 9);
    CHECK_EQ(((float *)td_tensor_data(x))[31], 1);
    CHECK_FAILS(td_gguf_get(file, "iq1_s"), TD_E_NOT_IMPLEMENTED, "'iq1_s'", "IQ1_S");
    TD_AUTO td_tensor *blocks = TRY(td_gguf_blocks(file, 1));
    CHECK_EQ(td_tensor_sizes(blocks)[0], 2);
    CHECK_EQ(td_tensor_sizes(blocks)[1], 50);
    AUTO_PATH const char *path = path_of("raw");
    CHECK(td_gguf_save_typed(path, 1, (const char *[]){"again"}, &blocks, (const char *[]){"IQ1_S"}, 0, NULL, NULL) == 0);
    AUTO_FILE td_gguf *again = TRY(td_gguf_open(path));
    CHECK_STR(td_gguf_type(again, 0), "IQ1_S");
    CHECK_EQ(td_gguf_sizes(again, 0)[1], 256);
}

TD_TEST(a_wrong_beginning_is_refused)
{
    used = 0;
    CHECK_REFUSED("byte 0", "0 left", "cut short");
    put("GGML", 4), put_32(3), put_64(0), put_64(0);
    CHECK_REFUSED("doesn't begin with 'GGUF'");
    begin(0, 0);
    const uint32_t versions[] = {0, 1, 4, 0x03000000};
    const char *const said[] = {"version 0", "version 1;", "version 4", "big-endian"};
    for (int i = 0; i < 4; i++) {
        memcpy(contents + 4, &versions[i], 4);
        CHECK_REFUSED("byte 4", said[i]);
    }
    begin(0, 0);
    AUTO_FILE td_gguf *file = TRY(parse());
    CHECK_EQ(td_gguf_count(file), 0);
    CHECK(!td_gguf_metadata(file, "x") && td_gguf_find(file, "x") == -1);
}

TD_TEST(counts_beyond_the_file_are_refused)
{
    const uint64_t counts[] = {1, 1000, (uint64_t)1 << 40, (uint64_t)1 << 63, UINT64_MAX};
    for (int i = 0; i < TD_COUNT(counts); i++) {
        begin(counts[i], 0);
        CHECK_REFUSED("byte 8", "don't fit", "cut short");
        begin(0, counts[i]);
        CHECK_REFUSED("byte 8", "don't fit", "cut short");
        begin(0, 1), key("a", TD_GGUF_ARRAY), put_32(TD_GGUF_I32), put_64(counts[i]);
        CHECK_REFUSED("an array of", "cut short");
        begin(0, 1), key("a", TD_GGUF_ARRAY), put_32(TD_GGUF_STRING), put_64(counts[i]);
        CHECK_REFUSED("an array of", "cut short");
        begin(0, 1), key("a", TD_GGUF_STRING), put_64(counts[i]);
        CHECK_REFUSED("a string of", "cut short");
        begin(0, 1), key("a", TD_GGUF_ARRAY), put_32(TD_GGUF_STRING), put_64(1), put_64(counts[i]);
        CHECK_REFUSED("a string of", "cut short");
    }
}

TD_TEST(names_that_are_none_are_refused)
{
    begin(0, 1), put_64(65536), zeros(40000);
    CHECK_REFUSED("byte 24", "a key of 65536 bytes", "65535");
    begin(0, 1), put_64(UINT64_MAX), zeros(16);
    CHECK_REFUSED("byte 24", "a key of");
    begin(0, 1), put_64(60000), zeros(100);
    CHECK_REFUSED("byte 32", "a key of 60000 bytes", "100 left");
    begin(0, 1), key("a\xff", TD_GGUF_U8), zeros(8);
    CHECK_REFUSED("byte 24", "a key that is no valid UTF-8");
    begin(0, 1), put_64(3), put("a\0b", 3), put_32(TD_GGUF_U8), zeros(8);
    CHECK_REFUSED("byte 24", "NUL");
    begin(1, 0), tensor("\xc3", 0, 0, INTS(1)), zeros(64);
    CHECK_REFUSED("a tensor's name that is no valid UTF-8");
    begin(0, 2), key("a", TD_GGUF_U8), zeros(1), key("a", TD_GGUF_I8), zeros(1);
    CHECK_REFUSED("the key 'a' comes twice");
    begin(2, 0), tensor("a", 0, 0, INTS(0)), tensor("a", 0, 0, INTS(0));
    CHECK_REFUSED("the name 'a' comes twice");
}

TD_TEST(values_that_are_none_are_refused)
{
    begin(0, 1), key("a", 13), zeros(8);
    CHECK_REFUSED("byte 33", "13 is no kind");
    begin(0, 1), key("a", TD_GGUF_ARRAY), put_32(99), put_64(0);
    CHECK_REFUSED("99 is no kind");
    begin(0, 1), key("a", TD_GGUF_BOOL), put("\2", 1);
    CHECK_REFUSED("byte 37", "a bool of value 2");
    begin(0, 1), key("a", TD_GGUF_ARRAY), put_32(TD_GGUF_BOOL), put_64(3), put("\0\1\xff", 3);
    CHECK_REFUSED("byte 51", "a bool of value 255");
    begin(0, 1), key("a", TD_GGUF_U64), zeros(7);
    CHECK_REFUSED("a value of 8 bytes", "7 left");
    begin(0, 1), key("general.alignment", TD_GGUF_U32), put_32(0);
    CHECK_REFUSED("general.alignment is 0", "a power of two");
    begin(0, 1), key("general.alignment", TD_GGUF_U32), put_32(48);
    CHECK_REFUSED("general.alignment is 48");
    begin(0, 1), key("general.alignment", TD_GGUF_U64), put_64(32);
    CHECK_REFUSED("general.alignment", "uint32");
}

static void nest(int depth)
{
    begin(0, 1), key("a", TD_GGUF_ARRAY);
    for (int i = 1; i < depth; i++)
        put_32(TD_GGUF_ARRAY), put_64(1);
    put_32(TD_GGUF_U8), put_64(1), zeros(1);
}

TD_TEST(arrays_of_arrays_are_read_to_a_small_depth)
{
    nest(8);
    AUTO_FILE td_gguf *file = TRY(parse());
    td_gguf_value v = *td_gguf_metadata(file, "a");
    for (int i = 0; i < 8; i++) {
        size_t at = 0;
        td_gguf_value array = v;
        CHECK(td_gguf_next(&array, &at, &v));
    }
    CHECK_EQ(v.kind, TD_GGUF_U8);
    nest(9);
    CHECK_REFUSED("nested more than 8 deep");
    nest(4000);
    CHECK_REFUSED("nested more than 8 deep");
    /* Many short arrays in one: each is checked. */
    begin(0, 1), key("a", TD_GGUF_ARRAY), put_32(TD_GGUF_ARRAY), put_64(3);
    put_32(TD_GGUF_U8), put_64(0), put_32(TD_GGUF_STRING), put_64(1), put_text("x"), put_32(TD_GGUF_U16), put_64(2), zeros(3);
    CHECK_REFUSED("an array of 2 elements", "3 bytes left");
}

TD_TEST(tensors_that_can_not_be_are_refused)
{
    begin(1, 0), tensor("a", 4, 0, INTS(1)), zeros(64);
    CHECK_REFUSED("byte 45", "4 is the number of no type");
    begin(1, 0), put_text("a"), put_32(65), zeros(1000);
    CHECK_REFUSED("byte 33", "65 dimensions");
    begin(1, 0), put_text("a"), put_32(UINT32_MAX), zeros(1000);
    CHECK_REFUSED("4294967295 dimensions");
    begin(1, 0), tensor("a", 0, 0, INTS(-1)), zeros(64);
    CHECK_REFUSED("a size of 18446744073709551615");
    begin(1, 0), tensor("a", 2, 0, INTS(33)), zeros(64);
    CHECK_REFUSED("Q4_0", "33 elements aren't whole blocks of 32");
    begin(1, 0), put_text("a"), put_32(0), put_32(8), put_64(0), zeros(64);
    CHECK_REFUSED("Q8_0", "1 elements aren't whole blocks");
    begin(1, 0), tensor("a", 0, 0, INTS((int64_t)1 << 32, (int64_t)1 << 32)), zeros(64);
    CHECK_REFUSED("more than 2^63");
    begin(1, 0), tensor("a", 28, 0, INTS((int64_t)1 << 60)), zeros(64);
    CHECK_REFUSED("more than 2^63");
    begin(1, 0), tensor("a", 19, 0, INTS(256, (int64_t)1 << 56)), zeros(64);         /* 2^64 elements in fewer bytes */
    CHECK_REFUSED("more than 2^63");
    begin(1, 0), tensor("a", 0, 31, INTS(1)), zeros(64);
    CHECK_REFUSED("an offset of 31", "alignment, 32");
    begin(1, 0), tensor("a", 0, 32, INTS(1)), align(32), zeros(32);
    CHECK_REFUSED("'a' of 4 bytes begins at byte 32", "which have 32", "cut short");
    begin(1, 0), tensor("a", 0, UINT64_MAX - 31, INTS(1)), align(32), zeros(32);
    CHECK_REFUSED("'a' of 4 bytes", "cut short");
    begin(1, 0), tensor("a", 0, 0, INTS(9)), align(32), zeros(32);
    CHECK_REFUSED("'a' of 36 bytes", "which have 32");
    begin(2, 0), tensor("a", 0, 0, INTS(9)), tensor("b", 0, 32, INTS(1)), align(32), zeros(64);
    CHECK_REFUSED("'b' overlaps");
    begin(2, 0), tensor("b", 0, 0, INTS(1)), tensor("a", 0, 0, INTS(1)), align(32), zeros(64);
    CHECK_REFUSED("overlaps");
    begin(1, 0), tensor("a", 0, 0, INTS(1));
    CHECK_REFUSED("which have 0");
}

TD_TEST(empty_tensors_of_large_sizes_take_no_bytes)
{
    begin(1, 0), tensor("a", 0, 0, INTS(4, 0, (int64_t)1 << 40));
    AUTO_FILE td_gguf *file = TRY(parse());
    TD_AUTO td_tensor *x = TRY(td_gguf_at(file, 0));
    CHECK_EQ(td_tensor_numel(x), 0);
    TD_AUTO td_tensor *blocks = TRY(td_gguf_blocks(file, 0));
    CHECK_EQ(td_tensor_sizes(blocks)[2], 16);
}

static void small_file(void)
{
    begin(3, 4);
    key("general.architecture", TD_GGUF_STRING), put_text("tiny");
    key("words", TD_GGUF_ARRAY), put_32(TD_GGUF_STRING), put_64(2), put_text("a"), put_text("\xe2\x96\x81" "b");
    key("deep", TD_GGUF_ARRAY), put_32(TD_GGUF_ARRAY), put_64(1), put_32(TD_GGUF_BOOL), put_64(2), put("\0\1", 2);
    key("n", TD_GGUF_F32), put_32(0x3f800000);
    tensor("w", 8, 0, INTS(32, 2)), tensor("b", 0, 96, INTS(2)), tensor("k", 11, 128, INTS(256));
    align(32), zeros(68), align(32), zeros(8), align(32), zeros(110);
}

/* Reads all that there is. */
static void visit(td_gguf *file)
{
    for (int64_t i = 0; file && i < td_gguf_count(file); i++) {
        td_tensor *x = td_gguf_at(file, i), *blocks = td_gguf_blocks(file, i);
        volatile unsigned sum = 0;
        for (int64_t k = 0; blocks && k < td_tensor_numel(blocks); k++)
            sum += ((uint8_t *)td_tensor_data(blocks))[k];
        td_tensor_release(x), td_tensor_release(blocks);
    }
    for (int64_t i = 0; file && i < td_gguf_metadata_count(file); i++) {
        const td_gguf_value *v = td_gguf_metadata_value(file, i);
        td_gguf_value element;
        for (size_t at = 0; td_gguf_next(v, &at, &element);)
            ;
    }
}

/* Every prefix of a good file, and every byte of its header replaced: refused or read, never worse.  Prefixes are in blocks of their own, so
 * that a sanitizer sees what is read behind their ends. */
TD_TEST(damage_anywhere_is_survived)
{
    small_file();
    const size_t size = used, header = size - 110 - 2 - 32 - 96;
    int refused = 0, ends = 0;
    for (size_t cut = 0; cut < size; cut++) {
        char *part = malloc(cut + 1);
        memcpy(part, contents, cut);
        td_gguf *file = td_gguf_parse(part, cut, NULL, NULL);
        refused += !file && td_error_code() == TD_E_VALUE;
        td_gguf_release(file);
        free(part);
    }
    char *copy = malloc(size);
    for (size_t at = 0; at < header; at++)
        for (int value = 0; value < 256; value += 5) {
            memcpy(copy, contents, size);
            copy[at] = (char)value;
            td_error_clear();
            td_gguf *file = td_gguf_parse(copy, size, NULL, NULL);
            visit(file);
            ends += file != NULL || td_error_code() != TD_OK;
            td_gguf_release(file);
        }
    free(copy);
    td_error_clear();
    CHECK(td_test_failing || refused == (int)size);
    CHECK(ends > 0);
}

TD_TEST(what_is_no_file_is_an_error)
{
    CHECK_FAILS(td_gguf_open("/nowhere/at/all"), TD_E_IO, "gguf: ", "'/nowhere/at/all'", "No such file");
    CHECK_FAILS(td_gguf_open("/tmp"), TD_E_IO, "no regular file");
    CHECK_FAILS(td_gguf_save("/nowhere/at/all", 0, NULL, NULL, 0, NULL, NULL), TD_E_IO, "gguf: ", "No such file");
    CHECK_FAILS(td_gguf_save("/dev/null", 0, NULL, NULL, 0, NULL, NULL), TD_E_IO, "no regular file");
    AUTO_PATH const char *path = path_of("short");
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite("GGUF\3\0\0\0", 1, 8, file) == 8 && fclose(file) == 0);
    CHECK_FAILS(td_gguf_open(path), TD_E_VALUE, "byte 8", path);
}

TD_TEST(what_the_format_can_not_hold_is_not_written)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(2, 50), TD_U8, CPU));
    TD_AUTO td_tensor *f = TRY(td_tensor_new(INTS(2), TD_F32, CPU));
    TD_AUTO td_tensor *deep = TRY(td_tensor_new(INTS(1, 1, 1, 1, 1), TD_F32, CPU));
    TD_AUTO td_tensor *meta = TRY(td_tensor_new(INTS(2), TD_F32, ((td_device){TD_META, -1})));
    TD_AUTO td_tensor *ones = TRY(td_ones(INTS(2, 64), TD_F32, CPU));
    TD_AUTO td_tensor *int8 = TRY(td_to_packed(ones, "int8"));
    AUTO_PATH const char *path = path_of("refused");
    const char *names[] = {"x", "x"}, *wrong = "\xff", *alignment = "general.alignment", *type = "Q9";
    char longer[65] = {0};
    memset(longer, 'n', 64);
    const char *longest = longer;
    static const uint32_t three = 3;
    td_gguf_value text = text_value("x"), bad = {.kind = TD_GGUF_U32, .data = &three, .size = 2}, odd = {.kind = TD_GGUF_U32, .data = &three, .size = 4};
    td_gguf_value array = {.kind = TD_GGUF_ARRAY, .element = TD_GGUF_U16, .count = 1, .data = &three, .size = 4}, unknown = {.kind = 77};
    td_gguf_value truth = {.kind = TD_GGUF_BOOL, .data = &three, .size = 1};
    CHECK_FAILS(td_gguf_save(path, 2, names, (td_tensor *[]){f, f}, 0, NULL, NULL), TD_E_VALUE, "the name 'x' comes twice");
    CHECK_FAILS(td_gguf_save(path, 1, names, &x, 0, NULL, NULL), TD_E_TYPE, "no type for uint8");
    CHECK_FAILS(td_gguf_save(path, 1, names, &int8, 0, NULL, NULL), TD_E_TYPE, "int8", "q8_0");
    CHECK_FAILS(td_gguf_save(path, 1, names, &meta, 0, NULL, NULL), TD_E_RUNTIME, "meta");
    CHECK_FAILS(td_gguf_save(path, 1, names, &deep, 0, NULL, NULL), TD_E_VALUE, "5 dimensions");
    CHECK_FAILS(td_gguf_save(path, 1, names, (td_tensor *[]){NULL}, 0, NULL, NULL), TD_E_RUNTIME, "'x' is NULL");
    CHECK_FAILS(td_gguf_save(path, 1, &wrong, &f, 0, NULL, NULL), TD_E_VALUE, "UTF-8");
    CHECK_FAILS(td_gguf_save(path, 1, &longest, &f, 0, NULL, NULL), TD_E_VALUE, "64 bytes", "63 at most");
    CHECK_FAILS(td_gguf_save_typed(path, 1, names, &x, &type, 0, NULL, NULL), TD_E_VALUE, "'Q9' is no type");
    CHECK_FAILS(td_gguf_save_typed(path, 1, names, &f, (const char *[]){"IQ1_S"}, 0, NULL, NULL), TD_E_TYPE, "blocks of type IQ1_S");
    CHECK_FAILS(td_gguf_save(path, 0, NULL, NULL, 2, names, (td_gguf_value[]){text, text}), TD_E_VALUE, "the key 'x' comes twice");
    CHECK_FAILS(td_gguf_save(path, 0, NULL, NULL, 1, &wrong, &text), TD_E_VALUE, "UTF-8");
    CHECK_FAILS(td_gguf_save(path, 0, NULL, NULL, 1, names, &bad), TD_E_VALUE, "a value of 2 bytes");
    CHECK_FAILS(td_gguf_save(path, 0, NULL, NULL, 1, names, &array), TD_E_VALUE, "more behind the 1 elements");
    CHECK_FAILS(td_gguf_save(path, 0, NULL, NULL, 1, names, &truth), TD_E_VALUE, "a bool of value 3");
    CHECK_FAILS(td_gguf_save(path, 0, NULL, NULL, 1, names, &unknown), TD_E_VALUE, "77 is no kind");
    CHECK_FAILS(td_gguf_save(path, 0, NULL, NULL, 1, &alignment, &odd), TD_E_VALUE, "general.alignment is 3");
    CHECK_FAILS(td_gguf_save(path, 0, NULL, NULL, 1, &alignment, &text), TD_E_VALUE, "general.alignment is 0");
    CHECK(access(path, F_OK) != 0);
}
