/* A device with programs: elementwise operators and copies as kernels that the core prints.  The device here is the CPU, one work item at a
 * time: a program is compiled by cc and loaded (TD_DIALECT_SERIAL). Where that can't be (no compiler, an emulator, another C library) it says so. */
#include "td_test.h"
#include "temporary.h"
#include "tensor_helpers.h"

#include <dlfcn.h>
#include <tede/device.h>
#include <tede/formula.h>
#include <tede/ops.h>

#define AUTO TD_AUTO td_tensor *
static int builds, launches;

static int count(void) { return 1; }
static int properties(int index, td_device_properties *p)
{
    (void)index;
    p->dialect = TD_DIALECT_SERIAL;
    p->doubles = true;
    p->units = 3;
    return 0;
}
static void *take(td_device d, size_t n)
{
    void *p = malloc(n);
    return p ? p : td_fail(TD_E_MEMORY, "serial:%d is out of memory", d.index);
}
static void drop(td_device d, void *p, size_t n)
{
    (void)d, (void)n;
    free(p);
}
static int transfer(td_device d, void *stream, td_device to_device, void *to, td_device from_device, const void *from, size_t n, bool later)
{
    (void)d, (void)stream, (void)to_device, (void)from_device, (void)later;
    memmove(to, from, n);
    return 0;
}
static int copy(td_device to_device, void *to, td_device from_device, const void *from, size_t n)
{
    return transfer(to_device, NULL, to_device, to, from_device, from, n, false);
}
static int fill(td_device d, void *s, void *to, uint8_t byte, size_t n) { return (void)d, (void)s, memset(to, byte, n), 0; }
static void *stream_new(td_device d, int priority) { return (void)d, (void)priority, malloc(1); }
static void stream_free(td_device d, void *s) { (void)d, free(s); }
static int stream_synchronize(td_device d, void *s) { return (void)d, (void)s, 0; }
static void *event_new(td_device d, bool timed) { return (void)d, (void)timed, malloc(1); }
static void event_free(td_device d, void *e) { (void)d, free(e); }
static int event_record(td_device d, void *e, void *s) { return (void)d, (void)e, (void)s, 0; }
static int event_synchronize(td_device d, void *e) { return (void)d, (void)e, 0; }
static int event_query(td_device d, void *e) { return (void)d, (void)e, 1; }
static int event_time(td_device d, void *from, void *to, double *ms) { return (void)d, (void)from, (void)to, *ms = 0, 0; }

static void *build(td_device d, const char *source, const char *options, td_binary *binary)
{
    (void)d, (void)binary;
    char path[512], made[520], command[2000], name[32];
    snprintf(name, sizeof name, "%d.c", builds);        /* dlopen knows libraries by their names */
    snprintf(path, sizeof path, "%s", path_of(name));
    snprintf(made, sizeof made, "%s.so", path);
    FILE *file = fopen(path, "w");
    bool good = file && fputs(source, file) >= 0;
    good = file && fclose(file) == 0 && good;
    snprintf(command, sizeof command, "cc %s -w -O0 -shared -fPIC %s -o %s -lm > /dev/null 2>&1", options, path, made);
    void *program = good && system(command) == 0 ? dlopen(made, RTLD_NOW | RTLD_LOCAL) : NULL;
    builds++;
    unlink(path), unlink(made);
    return program ? program : td_fail(TD_E_RUNTIME, "serial: a program can't be compiled or loaded");
}
typedef struct loaded { void *program, *kernel; } loaded;
static void *kernel(td_device d, void *program, const char *name)
{
    static loaded kernels[256];
    static int used;
    (void)d;
    void *found = dlsym(program, name);
    if (!found || used == 256)
        return NULL;
    kernels[used] = (loaded){program, found};
    return &kernels[used++];
}
static void program_free(td_device d, void *program) { (void)d, dlclose(program); }
static int launch(td_device d, void *stream, void *which, int64_t groups, int lanes, int n, const td_kernel_argument *a)
{
    const loaded *l = which;
    void (*set_group)(int64_t, int64_t) = (void (*)(int64_t, int64_t))dlsym(l->program, "td_set_group");
    const void *p[8] = {NULL};
    (void)d, (void)stream;
    if (lanes != 1 || n > 8)
        return td_error(TD_E_RUNTIME, "serial: %d lanes, %d arguments", lanes, n);
    for (int i = 0; i < n; i++)
        p[i] = a[i].data;
    launches++;
    for (int64_t g = 0; g < groups; g++) {
        set_group(g, groups);
        ((void (*)(const void *, const void *, const void *, const void *, const void *, const void *, const void *, const void *))l->kernel)(
            p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]);
    }
    return 0;
}

static const td_device_library table = {
    .abi = TD_DEVICE_ABI, .size = sizeof table, .name = "serial", .count = count, .properties = properties, .alloc = take, .free = drop, .copy = copy,
    .stream_new = stream_new, .stream_free = stream_free, .stream_synchronize = stream_synchronize, .transfer = transfer, .fill = fill,
    .event_new = event_new, .event_free = event_free, .event_record = event_record, .event_wait = event_record,
    .event_synchronize = event_synchronize, .event_query = event_query, .event_time = event_time, .build = build, .kernel = kernel, .launch = launch,
    .program_free = program_free,
};

/* The device, if a program for it can be made. */
static bool there(td_device *device)
{
    static int type = -1, works = -1;
    if (type < 0) {
        setenv("TEDE_KERNEL_CACHE", "", 1);
        type = td_device_register(&table);
    }
    *device = (td_device){(int8_t)type, 0};
    if (type >= 0 && works < 0) {
        AUTO x = td_ones(1, (int64_t[]){2}, TD_F32, *device);
        AUTO y = td_neg(x);
        works = getenv("TEDE_EMULATED") ? 0 : y ? 1 : td_error_code() == TD_E_MEMORY ? -1 : 0;
        if (works == 0)
            printf("skipped: cc makes no program that this process can load\n");
        if (works != -1)
            td_error_clear();
    }
    return works == 1;
}

static bool same(td_tensor *there, td_tensor *here)
{
    AUTO back = td_to_device(there, (td_device){TD_CPU, -1}, td_tensor_dtype(there), false, false, TD_MEMORY_FORMAT_NONE);
    bool equal = false;
    return back && here && td_equal(&equal, back, here) == 0 && equal;
}

TD_TEST(elementwise_operators_run_as_printed_kernels)
{
    td_device device;
    if (!there(&device))
        return;
    AUTO x = td_arange(td_int(12), TD_F32, (td_device){TD_CPU, -1});
    AUTO m = td_reshape(x, 2, (int64_t[]){3, 4});
    AUTO d = td_to_device(m, device, TD_F32, false, false, TD_MEMORY_FORMAT_NONE);
    AUTO t = td_transpose(m, 0, 1);
    AUTO dt = td_transpose(d, 0, 1);
    const int64_t fallbacks = td_cpu_fallback_count();
    const int before = launches;
    AUTO sum = td_add_tensor(m, m, td_int(2));
    AUTO dsum = td_add_tensor(d, d, td_int(2));
    AUTO row = td_select_int(m, 0, 1);
    AUTO drow = td_select_int(d, 0, 1);
    AUTO product = td_mul_tensor(m, row);
    AUTO dproduct = td_mul_tensor(d, drow);
    AUTO order = td_contiguous(t);
    AUTO dorder = td_contiguous(dt);
    CHECK(td_test_failing || (launches >= before + 3 && td_cpu_fallback_count() == fallbacks));
    CHECK(td_test_failing || (same(dsum, sum) && same(dproduct, product) && same(dorder, order)));
}

TD_TEST(what_has_no_kernel_there_comes_to_the_cpu)
{
    td_device device;
    if (!there(&device))
        return;
    AUTO x = td_ones(1, (int64_t[]){3}, TD_F32, device);
    const int64_t before = td_cpu_fallback_count();
    AUTO one = td_ones(1, (int64_t[]){3}, TD_F32, (td_device){TD_CPU, -1});
    AUTO y = x ? td_combinations(x, 2, false) : NULL;
    AUTO here = one ? td_combinations(one, 2, false) : NULL;
    CHECK(td_test_failing || (y && td_cpu_fallback_count() > before && same(y, here)));
}
