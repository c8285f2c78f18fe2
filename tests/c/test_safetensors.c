/* Files of tensors: what is written is read again, and no file, however wrong, does more than be refused. */
#include "td_test.h"
#include "temporary.h"
#include "tensor_helpers.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <tede/safetensors.h>
#include <unistd.h>

#define INTS(...) TD_COUNT(((int64_t[]){__VA_ARGS__})), (int64_t[]){__VA_ARGS__}

static void close_file(td_safetensors **file) { td_safetensors_release(*file); }
#define AUTO_FILE __attribute__((cleanup(close_file)))

/* The contents of a file with this header and `data` zero bytes behind it. */
static char contents[1 << 16];
static size_t make(const char *header, size_t length, size_t data)
{
    uint64_t n = length;
    memcpy(contents, &n, 8);
    memcpy(contents + 8, header, length);
    memset(contents + 8 + length, 0, data);
    return 8 + length + data;
}
static td_safetensors *parse(const char *header, size_t data)
{
    size_t size = make(header, strlen(header), data);
    return td_safetensors_parse(contents, size, NULL, NULL);
}
#define CHECK_REFUSED(header, data, ...) CHECK_FAILS(parse(header, data), TD_E_VALUE, "safetensors: ", __VA_ARGS__)

TD_TEST(every_dtype_of_the_format_comes_back)
{
    static const td_dtype dtypes[] = {TD_BOOL, TD_U8, TD_I8, TD_I16, TD_U16, TD_I32, TD_U32, TD_I64, TD_U64,
                                      TD_F16, TD_BF16, TD_F32, TD_F64, TD_C64};
    enum { N = TD_COUNT(dtypes) };
    td_tensor *tensors[N + 2] = {0};
    AUTO_PATH const char *path = path_of("every");
    const char *names[N + 2];
    bool same = true;
    for (int i = 0; i < N; i++) {
        tensors[i] = td_tensor_new(INTS(2, 3), dtypes[i], CPU);
        names[i] = td_dtype_name(dtypes[i]);
        if (tensors[i])
            fill_random(tensors[i]);
    }
    tensors[N] = td_tensor_new(0, NULL, TD_F32, CPU), names[N] = "scalar \"\\\n\x01 \xc3\xa9 \xf0\x9f\x94\xa5";
    tensors[N + 1] = td_tensor_new(INTS(3, 0), TD_I64, CPU), names[N + 1] = "";
    if (tensors[N])
        *(float *)td_tensor_data(tensors[N]) = 2.5f;
    int status = td_safetensors_save(path, N + 2, names, tensors, 2, (const char *[]){"b", "a\t"}, (const char *[]){"1", ""});
    AUTO_FILE td_safetensors *file = status == 0 ? td_safetensors_open(path) : NULL;
    for (int i = 0; i < N + 2 && file; i++) {
        TD_AUTO td_tensor *x = td_safetensors_get(file, names[i]);
        same &= x && td_tensor_dtype(x) == td_tensor_dtype(tensors[i]) && td_tensor_ndim(x) == td_tensor_ndim(tensors[i]) &&
                memcmp(td_tensor_sizes(x), td_tensor_sizes(tensors[i]), sizeof(int64_t) * (size_t)td_tensor_ndim(x)) == 0 &&
                memcmp(td_tensor_data(x), td_tensor_data(tensors[i]),
                       (size_t)td_tensor_numel(x) * td_dtype_size(td_tensor_dtype(x))) == 0;
        same &= strcmp(td_safetensors_name(file, td_safetensors_find(file, names[i])), names[i]) == 0;
    }
    for (int i = 0; i < N + 2; i++)
        td_tensor_release(tensors[i]);
    CHECK(status == 0 && file && same);
    CHECK_EQ(td_safetensors_count(file), N + 2);
    CHECK_EQ(td_safetensors_metadata_count(file), 2);
    CHECK_STR(td_safetensors_metadata(file, "b"), "1");
    CHECK_STR(td_safetensors_metadata(file, "a\t"), "");
    CHECK(!td_safetensors_metadata(file, "c") && td_error_code() == TD_OK);
    CHECK_STR(td_safetensors_dtype(file, td_safetensors_find(file, "bfloat16")), "BF16");
    CHECK_FAILS(td_safetensors_get(file, "nowhere"), TD_E_KEY, "'nowhere'");
    CHECK_FAILS(td_safetensors_at(file, 99), TD_E_INDEX, "99");
}

TD_TEST(tensors_look_at_the_file_and_writing_to_them_does_not_change_it)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(4), TD_F32, CPU));
    memcpy(td_tensor_data(x), (float[]){1, 2, 3, 4}, 16);
    AUTO_PATH const char *path = path_of("shared");
    CHECK(td_safetensors_save(path, 1, (const char *[]){"x"}, &x, 0, NULL, NULL) == 0);
    AUTO_FILE td_safetensors *file = td_safetensors_open(path);
    TD_AUTO td_tensor *a = td_safetensors_get(file, "x");
    TD_AUTO td_tensor *b = td_safetensors_get(file, "x");
    td_safetensors_release(file);
    file = NULL;
    if (a && b) {
        CHECK(td_tensor_data(a) == td_tensor_data(b));
        ((float *)td_tensor_data(a))[0] = 9;
    }
    AUTO_FILE td_safetensors *again = td_safetensors_open(path);
    TD_AUTO td_tensor *c = td_safetensors_get(again, "x");
    CHECK(a && b && c);
    CHECK_EQ(((float *)td_tensor_data(b))[0], 9);
    CHECK_EQ(((float *)td_tensor_data(c))[0], 1);
}

static int released;
static void count_release(void *context) { (void)context, released++; }

TD_TEST(bytes_in_memory_are_released_with_the_last_tensor)
{
    size_t size = make("{\"a\":{\"dtype\":\"I16\",\"shape\":[2],\"data_offsets\":[0,4]}}  ", 56, 4);
    contents[64] = 5;
    released = 0;
    td_safetensors *file = TRY(td_safetensors_parse(contents, size, count_release, NULL));
    td_tensor *x = td_safetensors_get(file, "a");
    td_safetensors_release(file);
    int before = released;
    bool same = x && ((int16_t *)td_tensor_data(x))[0] == 5 && td_tensor_data(x) == contents + 64;
    td_tensor_release(x);
    CHECK(same && before == 0);
    CHECK_EQ(released, 1);
}

TD_TEST(a_place_that_does_not_suit_the_dtype_is_copied)
{
    AUTO_FILE td_safetensors *file = TRY(parse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
                                               "\"b\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[1,9]}}", 9));
    TD_AUTO td_tensor *x = TRY(td_safetensors_get(file, "b"));
    CHECK_EQ((uintptr_t)td_tensor_data(x) % 8, 0);
}

TD_TEST(what_json_allows_is_read)
{
    AUTO_FILE td_safetensors *file = TRY(parse(
        "{ \"__metadata__\" : { \"k\\u00e9\\ud83d\\udd25\\u20ac\\/\" : \"\\b\\f\\n\\r\\t\\\\\" } ,\n\t\"x\" :\r"
        "{ \"shape\" : [ 2 , 0 ] , "
        "\"later\" : [ { \"a\" : [ ] , \"b\" : { } , \"c\" : [ 1.5e+3 , null , true ] } , \"]\" , -1 ] , "
        "\"data_offsets\" : [ 0 , 0 ] , \"dtype\" : \"F\\u00332\" } } \n ", 0));
    CHECK_STR(td_safetensors_metadata(file, "k\xc3\xa9\xf0\x9f\x94\xa5\xe2\x82\xac/"), "\b\f\n\r\t\\");
    CHECK_EQ(td_safetensors_ndim(file, 0), 2);
    CHECK_EQ(td_safetensors_sizes(file, 0)[1], 0);
    AUTO_FILE td_safetensors *none = TRY(parse("{}      ", 0));
    CHECK_EQ(td_safetensors_count(none), 0);
    CHECK_EQ(td_safetensors_find(none, "x"), -1);
}

TD_TEST(dtypes_of_the_format_that_are_not_ours_say_so_when_asked_for)
{
    AUTO_FILE td_safetensors *file = TRY(parse("{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", 3));
    CHECK_STR(td_safetensors_dtype(file, 0), "F6_E2M3");
    CHECK_FAILS(td_safetensors_get(file, "a"), TD_E_NOT_IMPLEMENTED, "F6_E2M3");
}

#define ROW(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TD_TEST(shapes_and_places_that_contradict_are_refused)
{
    CHECK_REFUSED("{\"a\":" ROW("F32", "[2]", "[0,4]") "}", 4, "shape of 8 bytes, but a place of 4");
    CHECK_REFUSED("{\"a\":" ROW("F32", "[2]", "[0,8]") "}", 4, "0 to 8 of 4", "cut short");
    CHECK_REFUSED("{\"a\":" ROW("F32", "[1]", "[4,0]") "}", 4, "4 to 0");
    CHECK_REFUSED("{\"a\":" ROW("F32", "[1]", "[0,4]") "}", 5, "end at byte 4", "goes on to 5");
    CHECK_REFUSED("{}", 1, "end at byte 0");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[4]", "[0,4]") ",\"b\":" ROW("U8", "[4]", "[2,6]") "}", 6, "overlaps", "'b'");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[4]", "[0,4]") ",\"b\":" ROW("U8", "[4]", "[0,4]") "}", 4, "overlaps");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[1]", "[0,1]") ",\"b\":" ROW("U8", "[1]", "[2,3]") "}", 3, "a gap before 'b'");
    CHECK_REFUSED("{\"a\":" ROW("F8_E5M2", "[1]", "[0,9]") "}", 4, "0 to 9 of 4");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "more than 2^63 bytes");
    CHECK_REFUSED("{\"a\":" ROW("F64", "[1152921504606846976]", "[0,0]") "}", 0, "more than 2^63 bytes");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[9223372036854775808]", "[0,0]") "}", 0, "beyond 2^63 - 1");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[99999999999999999999999]", "[0,0]") "}", 0, "beyond 2^63 - 1");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[-1]", "[0,0]") "}", 0, "whole number");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[1.0]", "[0,1]") "}", 1, "whole number");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[1e0]", "[0,1]") "}", 1, "whole number");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[01]", "[0,1]") "}", 1, "whole number");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[]", "[0]") "}", 1, "',' expected");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[]", "[0,1,2]") "}", 1, "']' expected");
    CHECK_REFUSED("{\"a\":" ROW("X32", "[]", "[0,1]") "}", 1, "'X32' is no dtype");
    char many[600] = "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1],\"shape\":[1";
    for (int i = 0; i < 64; i++)
        strcat(many, ",1");
    CHECK_REFUSED(strcat(many, "]}}"), 1, "more than 64 dimensions");
}

TD_TEST(headers_that_are_no_json_are_refused_with_the_place)
{
    CHECK_REFUSED("", 0, "byte 0", "'{' expected");
    CHECK_REFUSED(" {}", 0, "byte 0", "'{' expected");
    CHECK_REFUSED("[]", 0, "'{' expected");
    CHECK_REFUSED("{", 0, "byte 1", "ends");
    CHECK_REFUSED("{}x", 0, "byte 2", "more behind");
    CHECK_REFUSED("{\"a\"", 0, "it ends where ':'");
    CHECK_REFUSED("{\"a", 0, "inside a string");
    CHECK_REFUSED("{\"a\\", 0, "no such escape");
    CHECK_REFUSED("{\"\\x\"", 0, "no such escape");
    CHECK_REFUSED("{\"\\u12\"", 0, "four hexadecimal digits");
    CHECK_REFUSED("{\"\\u0000\":", 0, "NUL");
    CHECK_REFUSED("{\"\\ud800\":", 0, "surrogate");
    CHECK_REFUSED("{\"\\udc00\":", 0, "surrogate");
    CHECK_REFUSED("{\"\\ud800\\u0041\":", 0, "surrogate");
    CHECK_REFUSED("{\"a\nb\":", 0, "control character");
    CHECK_REFUSED("{a:1}", 0, "'\"' expected");
    CHECK_REFUSED("{\"a\":1}", 0, "'{' expected");
    CHECK_REFUSED("{\"a\":{}}", 0, "'a' has no dtype");
    CHECK_REFUSED("{\"a\":{\"dtype\":\"U8\"}}", 0, "no shape");
    CHECK_REFUSED("{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 0, "no data_offsets");
    CHECK_REFUSED("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "'dtype' of 'a' comes twice");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[0]", "[0,0]") ",\"a\":" ROW("U8", "[0]", "[0,0]") "}", 0, "the name 'a' comes twice");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[0]", "[0,0]") ",}", 0, "'\"' expected");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[0,]", "[0,0]") "}", 0, "whole number");
    CHECK_REFUSED("{\"a\":" ROW("U8", "[0]", "[0,0]") "\"b\"}", 0, "',' or '}'");
    CHECK_REFUSED("{\"__metadata__\":{\"a\":1}}", 0, "'\"' expected");
    CHECK_REFUSED("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0, "metadata 'a' comes twice");
    CHECK_REFUSED("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "'__metadata__' comes twice");
    CHECK_REFUSED("{\"a\":{\"x\":}}", 0, "value expected");
    CHECK_REFUSED("{\"a\":{\"x\":[1}}", 0, "',' or ']'");
    CHECK_REFUSED("{\"a\":{\"x\":{1}}}", 0, "'\"' expected");
}

TD_TEST(invalid_utf8_is_refused)
{
    static const char *const strings[] = {"\x80", "\xc0\x80", "\xc1\xbf", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff", "\xe2\x82", "\xf0\x9f\x94"};
    for (int i = 0; i < TD_COUNT(strings); i++) {
        char header[64];
        snprintf(header, sizeof header, "{\"%s\":", strings[i]);
        CHECK_REFUSED(header, 0, "invalid UTF-8");
        CHECK_FAILS(td_safetensors_save("nowhere", 0, NULL, NULL, 1, &strings[i], &strings[i]), TD_E_VALUE, "UTF-8");
    }
}

TD_TEST(depth_does_not_matter)
{
    char header[40000] = "{\"a\":{\"x\":";
    size_t n = strlen(header);
    memset(header + n, '[', 30000);
    header[n + 30000] = 0;
    CHECK_REFUSED(header, 0, "nested more than 64 deep");
    memset(header + n, '[', 64);
    memset(header + n + 64, ']', 64);
    strcpy(header + n + 128, "}}");
    CHECK_REFUSED(header, 0, "'a' has no dtype");
    for (int i = 0; i < 5000; i++)
        memcpy(header + n + 4 * i, "{\"\":", 4);
    CHECK_REFUSED(header, 0, "nested");
}

/* Every prefix of a good file, and every byte of its header replaced: refused or read, never worse. */
TD_TEST(damage_anywhere_is_survived)
{
    static const char header[] = "{\"__metadata__\":{\"k\":\"\\u00e9\"},\"a\":" ROW("F32", "[2,1]", "[0,8]")
                                 ",\"b\":" ROW("U8", "[]", "[8,9]") "}";
    size_t size = make(header, sizeof header - 1, 9);
    char *copy = malloc(size);
    memcpy(copy, contents, size);
    int refused = 0;
    for (size_t cut = 0; cut < size; cut++) {
        td_safetensors *file = td_safetensors_parse(contents, cut, NULL, NULL);
        refused += !file && td_error_code() == TD_E_VALUE;
        td_safetensors_release(file);
    }
    int cuts = refused, ends = 0;
    for (size_t at = 0; at < size - 9; at++)
        for (int value = 0; value < 256; value += at < 8 ? 1 : 7) {
            contents[at] = (char)value;
            td_error_clear();
            td_safetensors *file = td_safetensors_parse(contents, size, NULL, NULL);
            for (int64_t i = 0; file && i < td_safetensors_count(file); i++)
                td_tensor_release(td_safetensors_at(file, i));
            ends += file != NULL || td_error_code() != TD_OK;
            td_safetensors_release(file);
            contents[at] = copy[at];
        }
    free(copy);
    td_error_clear();
    CHECK(td_test_failing || cuts == (int)size);
    CHECK(ends > 0);
}

TD_TEST(a_header_longer_than_the_file_is_refused)
{
    uint64_t lengths[] = {3, 100, (uint64_t)1 << 40, UINT64_MAX, UINT64_MAX - 7, (uint64_t)1 << 63};
    for (int i = 0; i < TD_COUNT(lengths); i++) {
        make("{}", 2, 0);
        memcpy(contents, &lengths[i], 8);
        CHECK_FAILS(td_safetensors_parse(contents, 10, NULL, NULL), TD_E_VALUE, "doesn't fit into a file of 10");
    }
    CHECK_FAILS(td_safetensors_parse(contents, 7, NULL, NULL), TD_E_VALUE, "7 bytes are too few");
}

TD_TEST(a_header_beyond_100_megabytes_is_refused)
{
    AUTO_PATH const char *path = path_of("huge");
    int descriptor = open(path, O_RDWR | O_CREAT, 0600);
    uint64_t length = 100000001;
    bool made = descriptor >= 0 && write(descriptor, &length, 8) == 8 && ftruncate(descriptor, 100000100) == 0;
    close(descriptor);
    CHECK(made);
    CHECK_FAILS(td_safetensors_open(path), TD_E_VALUE, "100000001 bytes, more than the 100000000 allowed", path);
}

TD_TEST(what_is_no_file_is_an_error)
{
    CHECK_FAILS(td_safetensors_open("/nowhere/at/all"), TD_E_IO, "'/nowhere/at/all'", "No such file");
    CHECK_FAILS(td_safetensors_open("/tmp"), TD_E_IO, "no regular file");
    CHECK_FAILS(td_safetensors_open("/dev/null"), TD_E_IO, "no regular file");
    AUTO_PATH const char *path = path_of("pipe");
    CHECK(mkfifo(path, 0600) == 0);
    td_safetensors *file = td_safetensors_open(path);
    int status = td_safetensors_save(path, 0, NULL, NULL, 0, NULL, NULL);
    CHECK(!file && status == -1);
    CHECK_FAILS(td_safetensors_save("/nowhere/at/all", 0, NULL, NULL, 0, NULL, NULL), TD_E_IO, "No such file");
    CHECK_FAILS(td_safetensors_save("/dev/null", 0, NULL, NULL, 0, NULL, NULL), TD_E_IO, "no regular file");
    CHECK_FAILS(td_safetensors_get(NULL, "x"), TD_E_RUNTIME, "no file");
}

TD_TEST(what_the_format_can_not_hold_is_refused)
{
    TD_AUTO td_tensor *x = TRY(td_tensor_new(INTS(2), TD_F32, CPU));
    TD_AUTO td_tensor *complex = TRY(td_tensor_new(INTS(2), TD_C128, CPU));
    TD_AUTO td_tensor *meta = TRY(td_tensor_new(INTS(2), TD_F32, ((td_device){TD_META, -1})));
    AUTO_PATH const char *path = path_of("refused");
    const char *names[] = {"x", "x"}, *reserved = "__metadata__";
    CHECK_FAILS(td_safetensors_save(path, 2, names, (td_tensor *[]){x, x}, 0, NULL, NULL), TD_E_VALUE, "'x' comes twice");
    CHECK_FAILS(td_safetensors_save(path, 1, names, &complex, 0, NULL, NULL), TD_E_TYPE, "complex128");
    CHECK_FAILS(td_safetensors_save(path, 1, names, &meta, 0, NULL, NULL), TD_E_RUNTIME, "meta");
    CHECK_FAILS(td_safetensors_save(path, 1, names, (td_tensor *[]){NULL}, 0, NULL, NULL), TD_E_RUNTIME, "'x' is NULL");
    CHECK_FAILS(td_safetensors_save(path, 1, &reserved, &x, 0, NULL, NULL), TD_E_VALUE, "__metadata__");
    CHECK_FAILS(td_safetensors_save(path, 0, NULL, NULL, 2, names, names), TD_E_VALUE, "metadata 'x' comes twice");
    CHECK(access(path, F_OK) != 0);
}

TD_TEST(strided_tensors_are_written_as_their_elements)
{
    TD_AUTO td_tensor *reversed = TRY(td_tensor_new_strided(INTS(3), (int64_t[]){-1}, TD_I32, CPU));
    TD_AUTO td_tensor *expanded = TRY(td_tensor_new_strided(INTS(2, 2), (int64_t[]){0, 1}, TD_I32, CPU));
    for (int i = 0; i < 3; i++)
        ((int32_t *)td_tensor_data(reversed))[-i] = i;
    memcpy(td_tensor_data(expanded), (int32_t[]){7, 8}, 8);
    AUTO_PATH const char *path = path_of("strided");
    CHECK(td_safetensors_save(path, 2, (const char *[]){"r", "e"}, (td_tensor *[]){reversed, expanded}, 0, NULL, NULL) == 0);
    AUTO_FILE td_safetensors *file = td_safetensors_open(path);
    TD_AUTO td_tensor *r = td_safetensors_get(file, "r");
    TD_AUTO td_tensor *e = td_safetensors_get(file, "e");
    CHECK(r && e);
    CHECK(memcmp(td_tensor_data(r), (int32_t[]){0, 1, 2}, 12) == 0);
    CHECK(memcmp(td_tensor_data(e), (int32_t[]){7, 8, 7, 8}, 16) == 0);
}

TD_TEST(a_full_disk_leaves_the_old_file_and_nothing_else)
{
    TD_AUTO td_tensor *small = TRY(td_tensor_new(INTS(4), TD_F32, CPU));
    TD_AUTO td_tensor *large = TRY(td_tensor_new(INTS(100000), TD_F32, CPU));
    memset(td_tensor_data(small), 0, 16);
    memset(td_tensor_data(large), 0, 400000);
    AUTO_PATH const char *path = path_of("full");
    CHECK(td_safetensors_save(path, 1, (const char *[]){"x"}, &small, 0, NULL, NULL) == 0);
    CHECK(chmod(path, 0640) == 0);
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before, limit.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &limit);
    int status = td_safetensors_save(path, 1, (const char *[]){"x"}, &large, 0, NULL, NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, handler);
    td_safetensors *file = status == -1 && td_error_code() == TD_E_IO ? td_safetensors_open(path) : NULL;
    TD_AUTO td_tensor *x = td_safetensors_get(file, "x");
    td_safetensors_release(file);
    CHECK(x && td_tensor_numel(x) == 4);
    CHECK(td_safetensors_save(path, 1, (const char *[]){"x"}, &large, 0, NULL, NULL) == 0);
    struct stat about;
    CHECK(stat(path, &about) == 0 && (about.st_mode & 0777) == 0640);      /* its rights are kept */
    unlink(path);
    CHECK(rmdir(path_of("")) == 0 && mkdir(path_of(""), 0700) == 0);       /* nothing was left beside it */
}
