/* Zip archives: what is written is read again, and no archive, however wrong, does more than be refused. */
#include "td_test.h"
#include "temporary.h"
#include "tensor_helpers.h"
#include <fcntl.h>
#include <sys/stat.h>
#include <tede/zip.h>
#include <unistd.h>

static void close_zip(td_zip **z) { td_zip_release(*z); }
#define AUTO_ZIP __attribute__((cleanup(close_zip)))
static void close_writer(td_zip_writer **w) { td_zip_writer_release(*w); }
#define AUTO_WRITER __attribute__((cleanup(close_writer)))
static void close_storage(td_storage **s) { td_storage_release(*s); }
#define AUTO_STORAGE __attribute__((cleanup(close_storage)))

/* An archive in memory.  Long runs of zeros are counted, not kept, so that it may be larger than any memory. */
typedef struct archive {
    char     bytes[1 << 13];
    size_t   used;
    uint64_t size, hole, hole_size;     /* in all; where zeros were left out, and how many */
} archive;
static archive made;

static int append(void *context, const void *bytes, size_t n)
{
    archive *a = context;
    if (n == 4096) {
        a->hole = a->hole_size ? a->hole : a->used;
        a->hole_size += n;
    } else if (a->used + n > sizeof a->bytes) {
        return td_error(TD_E_IO, "the archive is full");
    } else {
        memcpy(a->bytes + a->used, bytes, n);
        a->used += n;
    }
    a->size += n;
    return 0;
}
static int fetch(void *context, uint64_t offset, void *to, size_t n)
{
    archive *a = context;
    if (n > 1 << 20)
        return td_error(TD_E_RUNTIME, "a reader that asks for %zu bytes", n);
    for (size_t i = 0; i < n; i++, offset++) {
        bool zero = offset >= a->hole && offset < a->hole + a->hole_size;
        ((char *)to)[i] = zero ? 0 : a->bytes[offset < a->hole || !a->hole_size ? offset : offset - a->hole_size];
    }
    return 0;
}

/* data/0 of 100 bytes that count from 0, an empty record, "text". */
static int make(void)
{
    char counting[100];
    for (int i = 0; i < 100; i++)
        counting[i] = (char)i;
    made = (archive){0};
    AUTO_WRITER td_zip_writer *w = td_zip_writer_new(append, &made, "archive", 64);
    return w && td_zip_writer_add(w, "data/0", counting, 100, true) == 0 && td_zip_writer_add(w, "empty", NULL, 0, true) == 0 &&
                   td_zip_writer_add(w, "text", "three", 5, false) == 0 && td_zip_writer_finish(w) == 0 ? 0 : -1;
}
static td_zip *parse(void) { return td_zip_parse(made.bytes, made.used, NULL, NULL); }
#define CHECK_REFUSED(...) CHECK_FAILS(parse(), TD_E_RUNTIME, "zip: ", __VA_ARGS__)
#define CORRUPTED "invalid header or archive is corrupted"

/* Where the head of entry i of the directory begins; i = 3: the end record. */
static char *head(int i)
{
    char *p = made.bytes + made.used - 22;
    uint32_t begin;
    uint16_t n;
    memcpy(&begin, p + 16, 4);
    for (p = made.bytes + begin; i--; p += 46 + n)
        memcpy(&n, p + 28, 2);
    return p;
}
static void set32(char *p, uint32_t value) { memcpy(p, &value, 4); }
static uint32_t get32(const char *p) { uint32_t value; return memcpy(&value, p, 4), value; }
static void set16(char *p, uint16_t value) { memcpy(p, &value, 2); }

TD_TEST(what_is_written_is_read_again)
{
    CHECK(make() == 0);
    AUTO_ZIP td_zip *z = TRY(parse());
    char bytes[100] = {0};
    CHECK_EQ(td_zip_count(z), 3);
    CHECK_STR(td_zip_name(z, 0), "archive/data/0");
    CHECK_EQ(td_zip_find(z, "archive/text"), 2);
    CHECK(td_zip_enter(z) == 0);
    CHECK_STR(td_zip_name(z, 1), "empty");
    CHECK_EQ(td_zip_find(z, "data/0"), 0);
    CHECK_EQ(td_zip_find(z, "archive/text"), -1);
    CHECK_EQ(td_zip_size(z, 0), 100);
    CHECK_EQ(td_zip_size(z, 1), 0);
    CHECK(!td_zip_is_packed(z, 0));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(td_zip_offset(z, i) % 64, 0);
    CHECK(td_zip_read(z, 0, bytes, 100) == 0 && bytes[0] == 0 && bytes[99] == 99);
    CHECK(td_zip_read(z, 2, bytes, 3) == 0 && memcmp(bytes, "thr\3", 4) == 0);
    CHECK_FAILS(td_zip_read(z, 2, bytes, 6), TD_E_RUNTIME, "text has 5 bytes, but 6 are needed");
    AUTO_STORAGE td_storage *s = TRY(td_zip_storage(z, 2));
    CHECK(td_storage_data(s) == made.bytes + td_zip_offset(z, 2));
    CHECK_EQ(td_storage_nbytes(s), 5);
    AUTO_STORAGE td_storage *none = TRY(td_zip_storage(z, 1));
    CHECK_EQ(td_storage_nbytes(none), 0);
}

TD_TEST(check_sums_are_those_of_the_format)
{
    made = (archive){0};
    AUTO_WRITER td_zip_writer *w = TRY(td_zip_writer_new(append, &made, "", 1));
    CHECK(td_zip_writer_add(w, "a", "123456789", 9, true) == 0 && td_zip_writer_add(w, "b", NULL, 32, true) == 0 &&
          td_zip_writer_add(w, "c", "The quick brown fox jumps over the lazy dog", 43, true) == 0 && td_zip_writer_finish(w) == 0);
    CHECK_EQ(get32(head(0) + 16), 0xcbf43926);
    CHECK_EQ(get32(head(1) + 16), 0x190a55ad);
    CHECK_EQ(get32(head(2) + 16), 0x414fa339);
    for (size_t n = 0; n < 200; n++) {              /* beside the sum of one bit after another */
        unsigned char bytes[200];
        uint32_t sum = ~0u;
        for (size_t i = 0; i < n; i++) {
            sum ^= bytes[i] = (unsigned char)(i * i + n);
            for (int bit = 0; bit < 8; bit++)
                sum = sum >> 1 ^ (sum & 1 ? 0xedb88320u : 0);
        }
        made = (archive){0};
        AUTO_WRITER td_zip_writer *v = TRY(td_zip_writer_new(append, &made, "", 1));
        CHECK(td_zip_writer_add(v, "a", bytes, n, true) == 0 && td_zip_writer_finish(v) == 0);
        CHECK_EQ(get32(head(0) + 16), ~sum);
    }
}

static bool write_file(const char *path)
{
    int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    bool written = descriptor >= 0 && write(descriptor, made.bytes, made.used) == (ssize_t)made.used;
    close(descriptor);
    return written;
}

TD_TEST(storages_look_at_the_file_and_outlive_the_archive)
{
    AUTO_PATH const char *path = path_of("mapped");
    CHECK(make() == 0 && write_file(path));
    td_zip *z = TRY(td_zip_open(path));
    td_storage *a = td_zip_storage(z, 0), *b = td_zip_storage(z, 0);
    td_zip_release(z);
    bool same = a && b && td_storage_data(a) == td_storage_data(b);
    if (same)
        ((char *)td_storage_data(a))[5] = 77;
    bool seen = same && ((char *)td_storage_data(b))[5] == 77 && ((char *)td_storage_data(b))[6] == 6;
    td_storage_release(a);
    td_storage_release(b);
    AUTO_ZIP td_zip *again = td_zip_open(path);
    char bytes[6];
    CHECK(seen && again && td_zip_read(again, 0, bytes, 6) == 0);
    CHECK_EQ(bytes[5], 5);
}

TD_TEST(what_is_no_file_is_an_error)
{
    AUTO_PATH const char *path = path_of("empty");
    made.used = 0;
    CHECK(write_file(path));
    CHECK_FAILS(td_zip_open(path), TD_E_RUNTIME, "not a ZIP archive");
    CHECK_FAILS(td_zip_open("/nowhere/at/all"), TD_E_IO, "'/nowhere/at/all'", "No such file");
    CHECK_FAILS(td_zip_open("/tmp"), TD_E_IO, "no regular file");
    CHECK(make() == 0 && write_file(path));
    AUTO_ZIP td_zip *z = TRY(td_zip_open(path));
    char bytes[100];
    CHECK(truncate(path, 20) == 0);
    CHECK_FAILS(td_zip_read(z, 0, bytes, 100), TD_E_RUNTIME, "shorter");
}

static int released;
static void count_release(void *context) { (void)context, released++; }
static int fail_to_fetch(void *context, uint64_t offset, void *to, size_t n)
{
    (void)context, (void)offset, (void)to, (void)n;
    return td_error(TD_E_IO, "no bytes today");
}

TD_TEST(archives_are_released_with_the_last_who_looks)
{
    CHECK(make() == 0);
    released = 0;
    td_zip *z = TRY(td_zip_parse(made.bytes, made.used, count_release, NULL));
    td_storage *s = td_zip_storage(z, 0);
    td_zip_release(z);
    int before = released;
    td_storage_release(s);
    CHECK(s && before == 0);
    CHECK_EQ(released, 1);
    td_zip_release(TRY(td_zip_over(made.size, fetch, count_release, &made)));
    CHECK_EQ(released, 2);
    CHECK_FAILS(td_zip_over(made.size, fail_to_fetch, count_release, NULL), TD_E_IO, "no bytes today");
    CHECK_FAILS(td_zip_parse(made.bytes, 30, count_release, NULL), TD_E_RUNTIME, "failed finding central directory");
    CHECK_EQ(released, 2);
    td_zip_release(NULL);
    td_zip_writer_release(NULL);
}

TD_TEST(entries_beyond_four_gigabytes_have_wide_numbers)
{
    const size_t large = ((size_t)5 << 30) + 1;
    made = (archive){0};
    AUTO_WRITER td_zip_writer *w = TRY(td_zip_writer_new(append, &made, "x", 64));
    CHECK(td_zip_writer_add(w, "a", "first", 5, true) == 0 && td_zip_writer_add(w, "large", NULL, large, false) == 0 &&
          td_zip_writer_add(w, "z", "last", 4, true) == 0 && td_zip_writer_finish(w) == 0);
    AUTO_ZIP td_zip *z = TRY(td_zip_over(made.size, fetch, NULL, &made));
    char bytes[5];
    CHECK_EQ(td_zip_size(z, 1), large);
    CHECK(td_zip_offset(z, 2) > (int64_t)large);
    CHECK_EQ(td_zip_offset(z, 2) % 64, 0);
    CHECK(td_zip_read(z, 2, bytes, 4) == 0 && memcmp(bytes, "last", 4) == 0);
    CHECK(td_zip_read(z, 0, bytes, 5) == 0 && memcmp(bytes, "first", 5) == 0);
    for (uint64_t at = made.used - 400; at < made.used && !td_test_failing; at++)       /* the wide numbers, damaged */
        for (int bit = 0; bit < 8; bit += 7) {
            made.bytes[at] ^= (char)(1 << bit);
            td_error_clear();
            td_zip_release(td_zip_over(made.size, fetch, NULL, &made));
            made.bytes[at] ^= (char)(1 << bit);
        }
    td_error_clear();
}

static char several[1 << 23];
static int append_to_several(void *context, const void *bytes, size_t n)
{
    size_t *used = context;
    if (n > sizeof several - *used)
        return td_error(TD_E_IO, "the archive is full");
    memcpy(several + *used, bytes, n);
    *used += n;
    return 0;
}

TD_TEST(more_entries_than_sixteen_bits_count)
{
    const int64_t many = td_test_failing ? 3 : 66000;
    size_t used = 0;
    AUTO_WRITER td_zip_writer *w = TRY(td_zip_writer_new(append_to_several, &used, "many", 1));
    for (int64_t i = 0; i < many; i++) {
        char name[32];
        snprintf(name, sizeof name, "%" PRId64, i);
        CHECK(td_zip_writer_add(w, name, &i, 2, false) == 0);
    }
    CHECK(td_zip_writer_finish(w) == 0);
    AUTO_ZIP td_zip *z = TRY(td_zip_parse(several, used, NULL, NULL));
    CHECK(td_zip_enter(z) == 0);
    CHECK_EQ(td_zip_count(z), many);
    for (int64_t i = 0; i < many; i += 997) {
        char name[32];
        uint16_t value = 0;
        snprintf(name, sizeof name, "%" PRId64, i);
        CHECK(td_zip_read(z, td_zip_find(z, name), &value, 2) == 0 && value == (uint16_t)i);
    }
}

/* An archive of one entry, its packed bytes given. */
static int make_packed(const char *packed, size_t n, uint32_t size, uint16_t method)
{
    made = (archive){0};
    AUTO_WRITER td_zip_writer *w = td_zip_writer_new(append, &made, "", 1);
    if (!w || td_zip_writer_add(w, "p", packed, n, false) != 0 || td_zip_writer_finish(w) != 0)
        return -1;
    set16(head(0) + 10, method);
    set32(head(0) + 24, size);
    return 0;
}

TD_TEST(compressed_entries_are_unpacked_to_their_size_exactly)
{
    /* 1000 times "tede" */
    static const char packed[] = "\xed\xc3\x31\x09\x00\x00\x0c\x03\x30\xb3\xab\x83\xfa\xa7\x32\xf6\x24\x90\xe6\x52\x55\x55\x55\xf5\xf5\x00";
    CHECK(make_packed(packed, sizeof packed - 1, 4000, 8) == 0);
    AUTO_ZIP td_zip *z = TRY(parse());
    char bytes[4001];
    CHECK(td_zip_is_packed(z, 0));
#ifdef TD_ZLIB
    CHECK(td_zip_read(z, 0, bytes, 4000) == 0 && memcmp(bytes, "tede", 4) == 0 && memcmp(bytes + 3996, "tede", 4) == 0);
    memset(bytes, 0, sizeof bytes);
    CHECK(td_zip_read(z, 0, bytes, 6) == 0 && memcmp(bytes, "tedete\0", 7) == 0);
    CHECK(td_zip_read(z, 0, bytes, 0) == 0);
    AUTO_STORAGE td_storage *s = TRY(td_zip_storage(z, 0));
    CHECK_EQ(td_storage_nbytes(s), 4000);
    for (uint32_t size = 3999; size <= 4001; size += 2) {
        CHECK(make_packed(packed, sizeof packed - 1, size, 8) == 0);
        AUTO_ZIP td_zip *wrong = TRY(parse());
        CHECK_FAILS(td_zip_read(wrong, 0, bytes, size), TD_E_RUNTIME, "decompressed to another size than declared");
    }
    CHECK(make_packed(packed, 20, 4000, 8) == 0);
    AUTO_ZIP td_zip *cut = TRY(parse());
    CHECK_FAILS(td_zip_read(cut, 0, bytes, 4000), TD_E_RUNTIME, "another size");
    CHECK(make_packed("\xff\xff", 2, 5, 8) == 0);
    AUTO_ZIP td_zip *invalid = TRY(parse());
    CHECK_FAILS(td_zip_read(invalid, 0, bytes, 5), TD_E_RUNTIME, "invalid block type");
#else
    CHECK_FAILS(td_zip_read(z, 0, bytes, 4000), TD_E_NOT_IMPLEMENTED, "without zlib");
#endif
    CHECK(make_packed(packed, sizeof packed - 1, 4000, 12) == 0);
    AUTO_ZIP td_zip *other = TRY(parse());
    CHECK_FAILS(td_zip_read(other, 0, bytes, 4000), TD_E_RUNTIME, "compression method 12 of p is not supported");
    CHECK(make_packed(packed, sizeof packed - 1, 1 << 30, 8) == 0);
    CHECK_REFUSED(CORRUPTED);               /* no stream becomes that much longer */
    CHECK(make_packed("secret", 6, 6, 0) == 0);
    set16(head(0) + 8, 1);
    AUTO_ZIP td_zip *encrypted = TRY(parse());
    CHECK_FAILS(td_zip_read(encrypted, 0, bytes, 6), TD_E_RUNTIME, "p is encrypted");
    CHECK_FAILS(td_zip_storage(encrypted, 0), TD_E_RUNTIME, "p is encrypted");
}

TD_TEST(places_that_contradict_are_refused)
{
    CHECK(make() == 0);
    set32(head(1) + 42, get32(head(0) + 42));
    CHECK_REFUSED("overlap", "archive/data/0", "archive/empty");
    CHECK(make() == 0);
    set32(head(1) + 42, get32(head(0) + 42) + 50);
    CHECK_REFUSED("overlap");
    CHECK(make() == 0);
    set32(head(2) + 42, (uint32_t)made.used);
    CHECK_REFUSED(CORRUPTED);
    CHECK(make() == 0);
    set32(head(0) + 20, 0x7fffffff), set32(head(0) + 24, 0x7fffffff);
    CHECK_REFUSED(CORRUPTED);
    CHECK(make() == 0);
    set32(head(0) + 24, 99);                /* stored, but of another size than it takes */
    CHECK_REFUSED(CORRUPTED);
    CHECK(make() == 0);
    set32(head(0) + 24, 0xffffffff);        /* in an extra field that isn't there */
    CHECK_REFUSED(CORRUPTED);
    CHECK(make() == 0);
    head(0)[46 + 3] = 0;                    /* a NUL in the name */
    CHECK_REFUSED(CORRUPTED);
    CHECK(make() == 0);
    memcpy(head(1) + 46, head(2) + 46, 12);
    set16(head(1) + 28, 12);
    CHECK_REFUSED(CORRUPTED);               /* the heads no longer follow one another */
    CHECK(make() == 0);
    set16(head(3) + 10, 4);                 /* more entries than there are */
    CHECK_REFUSED(CORRUPTED);
    CHECK(make() == 0);
    set32(head(3) + 12, 0xfffffff);
    CHECK_REFUSED(CORRUPTED);
    CHECK(make() == 0);
    made.bytes[get32(head(0) + 42) + 28] = 1, made.bytes[get32(head(0) + 42) + 29] = 1;     /* the local head, longer */
    AUTO_ZIP td_zip *z = TRY(parse());
    char bytes[100];
    CHECK_FAILS(td_zip_read(z, 0, bytes, 100), TD_E_RUNTIME, CORRUPTED);
    CHECK_FAILS(td_zip_storage(z, 0), TD_E_RUNTIME, CORRUPTED);
}

TD_TEST(names_come_once_and_lie_in_one_folder)
{
    made = (archive){0};
    AUTO_WRITER td_zip_writer *w = TRY(td_zip_writer_new(append, &made, "", 64));
    CHECK(td_zip_writer_finish(w) == 0);
    AUTO_ZIP td_zip *none = TRY(parse());
    CHECK_EQ(td_zip_count(none), 0);
    CHECK_EQ(td_zip_find(none, "x"), -1);
    CHECK_FAILS(td_zip_enter(none), TD_E_RUNTIME, "archive does not contain any files");
    made = (archive){0};
    AUTO_WRITER td_zip_writer *v = TRY(td_zip_writer_new(append, &made, "", 64));
    CHECK(td_zip_writer_add(v, "a/x", "1", 1, true) == 0 && td_zip_writer_add(v, "b/x", "2", 1, true) == 0 && td_zip_writer_finish(v) == 0);
    AUTO_ZIP td_zip *two = TRY(parse());
    CHECK_FAILS(td_zip_enter(two), TD_E_RUNTIME, "file in archive is not in a subdirectory a/: b/x");
    head(1)[46] = 'a';
    CHECK_REFUSED("the name 'a/x' comes twice");
    head(0)[47] = head(1)[47] = '-', head(1)[46] = 'c';
    AUTO_ZIP td_zip *flat = TRY(parse());
    CHECK_FAILS(td_zip_enter(flat), TD_E_RUNTIME, "file in archive is not in a subdirectory: a-x");
}

/* Every prefix of a good archive, and every byte replaced: refused or read, never worse. */
TD_TEST(damage_anywhere_is_survived)
{
    CHECK(make() == 0);
    archive whole = made;
    char bytes[100];
    int refused = 0, ends = 0;
    for (size_t cut = 0; cut < whole.used; cut++) {
        td_zip *z = td_zip_parse(made.bytes, cut, NULL, NULL);
        refused += !z && td_error_code() == TD_E_RUNTIME;
        td_zip_release(z);
    }
    for (size_t at = 0; at < whole.used; at++)
        for (int value = 0; value < 256; value += 15) {
            made.bytes[at] = (char)value;
            td_error_clear();
            td_zip *z = parse();
            for (int64_t i = 0; z && i < td_zip_count(z); i++) {
                uint64_t n = td_zip_size(z, i);
                ends += n > 100 || td_zip_read(z, i, bytes, n) == 0 || td_error_code() != TD_OK;
                td_storage_release(td_zip_storage(z, i));
            }
            ends += z || td_error_code() != TD_OK;
            td_zip_release(z);
            made.bytes[at] = whole.bytes[at];
        }
    td_error_clear();
    CHECK(td_test_failing || refused == (int)whole.used);
    CHECK(ends > 0);
}

TD_TEST(what_can_not_be_written_is_an_error)
{
    static char name[70000];
    memset(name, 'n', sizeof name - 1);
    CHECK_FAILS(td_zip_writer_new(append, &made, "", 3), TD_E_VALUE, "an alignment of 3 is no power of two");
    CHECK_FAILS(td_zip_writer_new(append, &made, "", 1 << 15), TD_E_VALUE, "32768");
    made = (archive){0};
    AUTO_WRITER td_zip_writer *w = TRY(td_zip_writer_new(append, &made, "", 64));
    CHECK_FAILS(td_zip_writer_add(w, name, "", 0, true), TD_E_VALUE, "a name of 69999 bytes");
    made.used = sizeof made.bytes;
    CHECK_FAILS(td_zip_writer_add(w, "x", "", 0, true), TD_E_IO, "full");
    CHECK_FAILS(td_zip_writer_finish(w), TD_E_IO, "full");
}
