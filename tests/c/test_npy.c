/* NumPy's files: every dtype, order and version is read, and no file, however wrong, does more than be refused. */
#include "td_test.h"
#include "temporary.h"
#include "tensor_helpers.h"
#include <tede/npy.h>
#include <unistd.h>

static void close_zip(td_zip **z) { td_zip_release(*z); }
#define AUTO_ZIP __attribute__((cleanup(close_zip)))
static void close_writer(td_zip_writer **w) { td_zip_writer_release(*w); }
#define AUTO_WRITER __attribute__((cleanup(close_writer)))

/* A file's contents: `text` as the header, padded to 16 as NumPy does, and behind it the elements. */
static _Alignas(64) char contents[1 << 12];
static size_t make(int version, const char *text, const void *data, size_t n)
{
    size_t begin = version == 1 ? 10 : 12, length = strlen(text), padded = (begin + length + 1 + 15) / 16 * 16 - begin;
    uint32_t shown = (uint32_t)padded;
    memcpy(contents, "\x93NUMPY", 6);
    contents[6] = (char)version, contents[7] = 0;
    memcpy(contents + 8, &shown, begin - 8);
    memset(contents + begin, ' ', padded);
    memcpy(contents + begin, text, length);
    contents[begin + padded - 1] = '\n';
    memcpy(contents + begin + padded, data, n);
    return begin + padded + n;
}
static td_tensor *parse(const char *text, const void *data, size_t n)
{
    return td_npy_parse(contents, make(1, text, data, n), NULL, NULL);
}
#define CHECK_STRIDES(x, first, second)                                            \
    do {                                                                           \
        CHECK_EQ(td_tensor_strides(x)[0], first);                                  \
        CHECK_EQ(td_tensor_strides(x)[1], second);                                 \
    } while (0)
#define HEADER(descr, fortran, shape) "{'descr': '" descr "', 'fortran_order': " fortran ", 'shape': " shape ", }"
#define CHECK_REFUSED(text, code, ...) CHECK_FAILS(parse(text, "12345678", 8), code, "npy: ", __VA_ARGS__)

TD_TEST(every_dtype_is_read_in_both_byte_orders)
{
    static const struct { const char *code; td_dtype dtype; int size, part; } dtypes[] = {
        {"b1", TD_BOOL, 1, 1}, {"u1", TD_U8, 1, 1}, {"i1", TD_I8, 1, 1}, {"i2", TD_I16, 2, 2}, {"u2", TD_U16, 2, 2}, {"i4", TD_I32, 4, 4},
        {"u4", TD_U32, 4, 4}, {"i8", TD_I64, 8, 8}, {"u8", TD_U64, 8, 8}, {"f2", TD_F16, 2, 2}, {"f4", TD_F32, 4, 4}, {"f8", TD_F64, 8, 8},
        {"c8", TD_C64, 8, 4}, {"c16", TD_C128, 16, 8},
    };
    char data[32];
    for (int i = 0; i < 32; i++)
        data[i] = (char)(i % 2);
    for (int i = 0; i < TD_COUNT(dtypes); i++)
        for (int order = 0; order < 4; order++) {
            char text[100];
            snprintf(text, sizeof text, HEADER("%c%s", "False", "(2,)"), "<>|="[order], dtypes[i].code);
            TD_AUTO td_tensor *x = TRY(parse(text, data, 2 * (size_t)dtypes[i].size));
            CHECK_EQ(td_tensor_dtype(x), dtypes[i].dtype);
            const char *found = td_tensor_data(x);
            int part = dtypes[i].part;
            bool same = true, swapped = order == 1;
            for (int k = 0; k < 2 * dtypes[i].size; k++)
                same &= found[k] == data[swapped ? k / part * part + part - 1 - k % part : k];
            CHECK(same);
            CHECK_EQ(found >= contents && found < contents + sizeof contents, !swapped || part == 1);
        }
}

TD_TEST(headers_of_all_versions_and_habits_are_read)
{
    const int32_t data[] = {1, 2, 3, 4, 5, 6};
    for (int version = 1; version <= 3; version++) {
        size_t size = make(version, HEADER("<i4", "False", "(2, 3)"), data, sizeof data);
        TD_AUTO td_tensor *x = TRY(td_npy_parse(contents, size, NULL, NULL));
        CHECK_STRIDES(x, 3, 1);
        CHECK(memcmp(td_tensor_data(x), data, sizeof data) == 0);
    }
    TD_AUTO td_tensor *columns = TRY(parse(HEADER("<i4", "True", "(2, 3)"), data, sizeof data));
    CHECK_STRIDES(columns, 1, 2);
    TD_AUTO td_tensor *old = TRY(parse("{ \"shape\" :(2L,3L) ,\"fortran_order\":False,'descr':\"<i4\"}", data, sizeof data));
    CHECK_STRIDES(old, 3, 1);
    TD_AUTO td_tensor *number = TRY(parse(HEADER("<i4", "False", "()"), data, 4));
    CHECK_EQ(td_tensor_ndim(number), 0);
    CHECK_EQ(((int32_t *)td_tensor_data(number))[0], 1);
    TD_AUTO td_tensor *empty = TRY(parse(HEADER(">i4", "True", "(3, 0, 9223372036854775807)"), data, 0));
    CHECK_EQ(td_tensor_numel(empty), 0);
}

static int released;
static void count_release(void *context) { (void)context, released++; }

TD_TEST(bytes_are_released_with_the_tensor_or_when_they_were_copied)
{
    const int32_t data[] = {1, 2};
    released = 0;
    size_t size = make(1, HEADER("<i4", "False", "(2,)"), data, sizeof data);
    td_tensor *x = TRY(td_npy_parse(contents, size, count_release, NULL));
    int before = released;
    td_tensor_release(x);
    CHECK(before == 0 && released == 1);
    TD_AUTO td_tensor *unaligned = TRY(td_npy_parse(memmove(contents + 1, contents, size), size, count_release, NULL));
    CHECK_EQ(released, 2);
    CHECK_EQ(((int32_t *)td_tensor_data(unaligned))[1], 2);
    CHECK_FAILS(td_npy_parse(contents + 1, size - 1, count_release, NULL), TD_E_VALUE, "cut short");
    CHECK_EQ(released, 2);
}

TD_TEST(what_is_no_tensor_of_numbers_is_refused)
{
    CHECK_REFUSED("{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (1,), }", TD_E_TYPE, "structured dtypes");
    CHECK_REFUSED(HEADER("|O", "False", "(1,)"), TD_E_TYPE, "the dtype '|O'");
    CHECK_REFUSED(HEADER("<U2", "False", "(1,)"), TD_E_TYPE, "'<U2'");
    CHECK_REFUSED(HEADER("|V8", "False", "(1,)"), TD_E_TYPE, "'|V8'");
    CHECK_REFUSED(HEADER("<M8[ns]", "False", "(1,)"), TD_E_TYPE, "'<M8[ns]'");
    CHECK_REFUSED(HEADER("<f16", "False", "(1,)"), TD_E_TYPE, "'<f16'");
    CHECK_REFUSED(HEADER("", "False", "(1,)"), TD_E_TYPE, "''");
    CHECK_REFUSED(HEADER("f4", "False", "(1,)"), TD_E_TYPE, "'f4'");
}

TD_TEST(headers_that_contradict_are_refused)
{
    CHECK_REFUSED(HEADER("<f4", "False", "(3,)"), TD_E_VALUE, "12 bytes of elements don't fit into 8", "cut short");
    CHECK_REFUSED(HEADER("<f4", "False", "(4294967296, 4294967296)"), TD_E_VALUE, "more than 2^63 bytes");
    CHECK_REFUSED(HEADER("<f4", "False", "(9223372036854775808,)"), TD_E_VALUE, "beyond 2^63 - 1");
    CHECK_REFUSED(HEADER("<f4", "False", "(-1,)"), TD_E_VALUE, "a size expected");
    CHECK_REFUSED(HEADER("<f4", "False", "(1 2)"), TD_E_VALUE, "',' or ')' expected");
    CHECK_REFUSED(HEADER("<f4", "False", "[1]"), TD_E_VALUE, "'(' expected");
    CHECK_REFUSED(HEADER("<f4", "0", "(1,)"), TD_E_VALUE, "True or False expected");
    CHECK_REFUSED("{'descr': '<f4', 'shape': (1,), }", TD_E_VALUE, "not all there");
    CHECK_REFUSED("{'descr': '<f4', 'descr': '<f4'}", TD_E_VALUE, "comes twice");
    CHECK_REFUSED("{'descr': '<f4', 'more': 1}", TD_E_VALUE, "another key");
    CHECK_REFUSED("{'descr' '<f4'}", TD_E_VALUE, "':' expected");
    CHECK_REFUSED("{'descr': '<f4' 'shape': ()}", TD_E_VALUE, "',' or '}' expected");
    CHECK_REFUSED("{'descr", TD_E_VALUE, "it ends inside a string");
    CHECK_REFUSED("{descr: 1}", TD_E_VALUE, "a string expected");
    CHECK_REFUSED("[]", TD_E_VALUE, "'{' expected");
    CHECK_REFUSED(HEADER("<f4", "False", "(1,)") " x", TD_E_VALUE, "more behind its end");
    char many[400] = "{'descr': '|u1', 'fortran_order': False, 'shape': (1";
    for (int i = 0; i < 64; i++)
        strcat(many, ",1");
    CHECK_REFUSED(strcat(many, ")}"), TD_E_VALUE, "too many dimensions");
    CHECK_FAILS(td_npy_parse(contents, make(4, HEADER("<f4", "False", "()"), "1234", 4), NULL, NULL), TD_E_VALUE, "version 4.0");
    CHECK_FAILS(td_npy_parse("NUMPY\x93\1\0", 8, NULL, NULL), TD_E_VALUE, "the magic string is not correct");
    CHECK_FAILS(td_npy_load("/nowhere/at/all"), TD_E_IO, "npy: ", "'/nowhere/at/all'", "No such file");
    CHECK_FAILS(td_npz_get(NULL, "x"), TD_E_RUNTIME, "no archive");
}

/* Every prefix of a good file, and every byte replaced: refused or read, never worse. */
TD_TEST(damage_anywhere_is_survived)
{
    static const char text[] = HEADER("<i2", "True", "(2, 1)");
    size_t size = make(2, text, "1234", 4);
    char *whole = malloc(size);
    memcpy(whole, contents, size);
    int refused = 0, ends = 0;
    for (size_t cut = 0; cut < size; cut++) {
        td_tensor *x = td_npy_parse(contents, cut, NULL, NULL);
        refused += !x && td_error_code() == TD_E_VALUE;
        td_tensor_release(x);
    }
    for (size_t at = 0; at < size; at++)
        for (int value = 0; value < 256; value += 5) {
            contents[at] = (char)value;
            td_error_clear();
            td_tensor *x = td_npy_parse(contents, size, NULL, NULL);
            ends += x || td_error_code() != TD_OK;
            td_tensor_release(x);
            contents[at] = whole[at];
        }
    free(whole);
    td_error_clear();
    CHECK(td_test_failing || refused == (int)size);
    CHECK(ends > 0);
}

static int append(void *context, const void *bytes, size_t n)
{
    size_t *used = context;
    memcpy(contents + *used, bytes, n);
    *used += n;
    return 0;
}

TD_TEST(tensors_of_archives_are_found_by_name)
{
    const float data[] = {1, 2, 3};
    char file[200];
    size_t size = make(1, HEADER("<f4", "False", "(3,)"), data, sizeof data), used = 0;
    memcpy(file, contents, size);
    AUTO_WRITER td_zip_writer *w = TRY(td_zip_writer_new(append, &used, "", 64));
    CHECK(td_zip_writer_add(w, "x.npy", file, size, true) == 0 && td_zip_writer_add(w, "note", "no tensor", 9, true) == 0 &&
          td_zip_writer_add(w, "bad.npy", "no tensor", 9, true) == 0 && td_zip_writer_finish(w) == 0);
    AUTO_ZIP td_zip *z = TRY(td_zip_parse(contents, used, NULL, NULL));
    TD_AUTO td_tensor *x = TRY(td_npz_get(z, "x"));
    CHECK_EQ(td_tensor_numel(x), 3);
    CHECK_EQ(((float *)td_tensor_data(x))[2], 3);
    CHECK((char *)td_tensor_data(x) > contents && (char *)td_tensor_data(x) < contents + used);
    CHECK_FAILS(td_npz_get(z, "y"), TD_E_KEY, "npz: the archive has no tensor 'y'");
    CHECK_FAILS(td_npz_get(z, "note"), TD_E_KEY, "'note'");
    CHECK_FAILS(td_npz_get(z, "bad"), TD_E_VALUE, "magic");
}

TD_TEST(tensors_look_at_the_file_and_writing_to_them_does_not_change_it)
{
    const int16_t data[] = {1, 2};
    AUTO_PATH const char *path = path_of("x.npy");
    size_t size = make(1, HEADER("<i2", "False", "(2,)"), data, sizeof data);
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(contents, 1, size, file) == size;
    written = file && fclose(file) == 0 && written;
    TD_AUTO td_tensor *x = written ? td_npy_load(path) : NULL;
    if (x)
        ((int16_t *)td_tensor_data(x))[0] = 9;
    TD_AUTO td_tensor *again = x ? td_npy_load(path) : NULL;
    bool kept = again && ((int16_t *)td_tensor_data(again))[0] == 1;
    bool cut = truncate(path, 20) == 0 && !td_npy_load(path) && strstr(td_error_message(), path);
    CHECK(td_test_failing || (x && kept && cut));
}
