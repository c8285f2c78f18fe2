/* What is in a checkpoint that torch.save wrote, or in a .npz archive of NumPy's, and the largest record as numbers:
 *
 *     make records && ./records model.pt
 *
 * The pickle of a checkpoint, data.pkl, says which tensors its records are; in C they are bytes. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <tede/auto.h>
#include <tede/tede.h>

static int fail(void) { return fprintf(stderr, "%s\n", td_error_message()), 1; }

static bool ends_with(const char *text, const char *ending)
{
    size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

/* The bytes of record i as float32, over the file's pages. */
static td_tensor *floats(const td_zip *archive, int64_t i)
{
    td_storage *storage = td_zip_storage(archive, i);
    int64_t n = storage ? (int64_t)(td_storage_nbytes(storage) / sizeof(float)) : 0, step = 1;
    td_tensor *x = storage ? td_tensor_over(storage, 0, 1, &n, &step, TD_F32) : NULL;
    td_storage_release(storage);
    return x;
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return fprintf(stderr, "usage: records FILE\n"), 2;
    td_zip *archive = td_zip_open(argv[1]);
    if (!archive)
        return fail();
    int64_t largest = -1;
    for (int64_t i = 0; i < td_zip_count(archive); i++) {
        const char *name = td_zip_name(archive, i);
        printf("%10" PRIu64 " bytes at %8" PRId64 "  %s\n", td_zip_size(archive, i), td_zip_offset(archive, i), name);
        if (strstr(name, "/data/") && (largest < 0 || td_zip_size(archive, i) > td_zip_size(archive, largest)))
            largest = i;
        if (!ends_with(name, ".npy"))
            continue;
        char key[200];
        snprintf(key, sizeof key, "%.*s", (int)strlen(name) - 4, name);
        TD_AUTO td_tensor *x = td_npz_get(archive, key);
        char *text = td_tensor_str(x);
        puts(text ? text : td_error_message());
        td_string_free(text);
    }
    TD_AUTO td_tensor *x = largest < 0 ? TD_NONE : floats(archive, largest);
    td_zip_release(archive);
    if (!x)
        return fail();
    char *text = x == TD_NONE ? NULL : td_tensor_str(x);
    if (text)
        printf("the largest as float32: %s\n", text);
    td_string_free(text);
    return 0;
}
