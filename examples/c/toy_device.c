/* A device as a library: "toy:0" and "toy:1", whose memory nobody can read but the device itself.
 *
 *     make toy_device.so, and in Python:  tede.load_device("./toy_device.so");  tede.ones(3, device="toy:1")
 *
 * It has the whole table of <tede/device.h>.  Memory is mapped twice: the addresses that tensors hold have no access rights, what the
 * device uses lies WINDOW bytes behind them.  Each stream is a thread with a queue, so everything happens later than it is asked for;
 * events are marks in the queues.  Six operators have kernels of their own, for float32 without strides; the CPU does the rest.
 *
 * Compiled with -DTOY_PROGRAMS it is called "toyc", and runs the core's kernels instead: programs are plain C, a group at a time
 * (TD_DIALECT_SERIAL), compiled by cc where they are first needed.  With -DTOY_WITHOUT_DOUBLES it says that it can't compute in double.
 *
 * Compiled with -fsanitize=address it compiles programs with that, too, and what lies behind a block, or was never written, is found by whoever
 * reads it, if TEDE_NO_CACHE=1 lets the device see each block as it is.
 *
 * For tests: counters of what was done; toy_delay makes each task late by so many microseconds; toy_capacity is how much memory an
 * index has; after toy_kill(index) every call to that index is an error, and nothing waits for it. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tede/device.h>
#include <tede/formula.h>
#include <tede/kernel.h>
#include <time.h>
#include <unistd.h>

enum { INDICES = 2, OPERANDS = 3, ARGUMENTS = 32 };
#ifdef TOY_PROGRAMS
#define NAME "toyc"
#else
#define NAME "toy"
#endif
#ifdef TOY_WITHOUT_DOUBLES
enum { DOUBLES = 0 };
#else
enum { DOUBLES = 1 };
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define SANITIZE "-O0 -g1 -fsanitize=address,undefined -fno-sanitize-recover=undefined"
enum { SANITIZED = 1 };
#else
#define SANITIZE "-O1"
#define ASAN_POISON_MEMORY_REGION(at, bytes)   ((void)(at), (void)(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) ((void)(at), (void)(bytes))
enum { SANITIZED = 0 };
#endif

TD_API int64_t toy_copies[INDICES], toy_kernels[INDICES], toy_live_bytes[INDICES], toy_late_copies[INDICES], toy_page_locked;
TD_API int64_t toy_delay, toy_capacity = (int64_t)4 << 30;
TD_API void    toy_kill(int index);
static int     toy_type, dead[INDICES];
static pid_t   process;         /* whose threads work the queues off; 0: none does yet */

static void count_up(int64_t *counter, int64_t by) { __atomic_fetch_add(counter, by, __ATOMIC_RELAXED); }

/* Threads don't survive a fork: a child of a process that has used the device must not wait for them. */
static int check(int index)
{
    pid_t owner = __atomic_load_n(&process, __ATOMIC_RELAXED);
    if (owner && owner != getpid())
        return td_error(TD_E_RUNTIME, NAME ": Cannot re-initialize the device in a forked process; start it by 'spawn'");
    return __atomic_load_n(&dead[index], __ATOMIC_RELAXED) ? td_error(TD_E_RUNTIME, NAME ":%d is lost", index) : 0;
}

/* ---- memory: two windows of addresses, of which only the second can be accessed */

#define WINDOW ((size_t)1 << 35)
typedef struct range { struct range *next; size_t at, bytes; } range;       /* in order */
static range *taken;
static char  *window;
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;

static bool   is_ours(const void *at) { return (uintptr_t)at - (uintptr_t)window < WINDOW; }
static void  *open_up(const void *at) { return is_ours(at) ? (char *)at + WINDOW : (char *)at; }
static size_t whole_pages(size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    return (nbytes + page - 1) / page * page;
}

/* What is left of the pages behind a block can't be read, and what is in it is no number. */
static void open_block(char *at, size_t nbytes, size_t bytes)
{
    ASAN_UNPOISON_MEMORY_REGION(at, nbytes);
    ASAN_POISON_MEMORY_REGION(at + nbytes, bytes - nbytes);
    if (SANITIZED)
        memset(at, 0xff, nbytes);
}

static void *take(td_device device, size_t nbytes)
{
    if (check(device.index))
        return NULL;
    size_t bytes = whole_pages(nbytes + SANITIZED), at = 0;
    range *r = malloc(sizeof *r), **place = &taken;
    pthread_mutex_lock(&memory_lock);
    for (; *place && (*place)->at - at < bytes; place = &(*place)->next)
        at = (*place)->at + (*place)->bytes;
    bool good = r && bytes >= nbytes && bytes <= WINDOW && at <= WINDOW - bytes && toy_live_bytes[device.index] <= toy_capacity &&
                bytes <= (size_t)(toy_capacity - toy_live_bytes[device.index]) && !mprotect(window + WINDOW + at, bytes, PROT_READ | PROT_WRITE);
    if (good) {
        *r = (range){*place, at, bytes};
        *place = r;
        toy_live_bytes[device.index] += (int64_t)bytes;
    }
    pthread_mutex_unlock(&memory_lock);
    if (good) {
        open_block(window + WINDOW + at, nbytes, bytes);
        return window + at;
    }
    free(r);
    return td_fail(TD_E_MEMORY, NAME ":%d is out of memory: %zu bytes were asked for", device.index, nbytes);
}

static void free_memory(td_device device, void *memory, size_t nbytes)
{
    pthread_mutex_lock(&memory_lock);
    range **place = &taken, *r;
    while ((*place)->at != (size_t)((char *)memory - window))
        place = &(*place)->next;
    r = *place;
    *place = r->next;
    toy_live_bytes[device.index] -= (int64_t)r->bytes;
    ASAN_POISON_MEMORY_REGION(window + WINDOW + r->at, nbytes);
    mmap(window + WINDOW + r->at, r->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    pthread_mutex_unlock(&memory_lock);
    free(r);
}

static int memory_info(int index, size_t *unused, size_t *total)
{
    pthread_mutex_lock(&memory_lock);
    *total = (size_t)toy_capacity;
    *unused = toy_capacity > toy_live_bytes[index] ? (size_t)(toy_capacity - toy_live_bytes[index]) : 0;
    pthread_mutex_unlock(&memory_lock);
    return check(index);
}

static void *host_alloc(size_t nbytes)
{
    void *p = aligned_alloc(64, (nbytes + 63) / 64 * 64);
    if (!p)
        return td_fail(TD_E_MEMORY, NAME ": no page-locked memory for %zu bytes", nbytes);
    count_up(&toy_page_locked, (int64_t)nbytes);
    return p;
}
static void host_free(void *block, size_t nbytes)
{
    count_up(&toy_page_locked, -(int64_t)nbytes);
    free(block);
}

/* ---- streams: a thread each, started when something is asked of it */

typedef struct event {
    int      holders, timed;
    uint64_t asked, happened;           /* how often it was recorded; the last of these that was reached */
    struct timespec when;
} event;

typedef struct task {
    struct task *next;
    void       (*run)(struct task *t);
    char        *ptrs[OPERANDS];        /* where it may be accessed */
    int64_t      n, rows, inner;
    float        alpha;
    event       *mark;
    uint64_t     number;
    const struct kernel *kernel;
    int          n_arguments;
    const void  *arguments[ARGUMENTS];  /* by value: into `bytes` */
    char         bytes[];
} task;

typedef struct stream {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    int             index, running;
    task           *first, **last;
    int             busy;               /* tasks that aren't done */
} stream;
static stream first_streams[INDICES];
static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t  events_changed = PTHREAD_COND_INITIALIZER;

static stream *stream_of(td_device device, void *handle) { return handle ? handle : &first_streams[device.index]; }

static void drop_event(event *e)
{
    if (e && __atomic_sub_fetch(&e->holders, 1, __ATOMIC_ACQ_REL) == 0)
        free(e);
}

static void *work(void *argument)
{
    stream *s = argument;
    for (;;) {
        pthread_mutex_lock(&s->lock);
        while (!s->first)
            pthread_cond_wait(&s->changed, &s->lock);
        task *t = s->first;
        s->first = t->next;
        if (!s->first)
            s->last = &s->first;
        pthread_mutex_unlock(&s->lock);

        int64_t late = __atomic_load_n(&toy_delay, __ATOMIC_RELAXED);
        if (late)
            usleep((useconds_t)late);
        if (!__atomic_load_n(&dead[s->index], __ATOMIC_RELAXED))
            t->run(t);
        drop_event(t->mark);
        free(t);

        pthread_mutex_lock(&s->lock);
        s->busy--;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
    return NULL;
}

/* `what` with `extra` bytes behind it, to be filled in; NULL with an error. */
static task *new_task(stream *s, task what, size_t extra)
{
    task *t = check(s->index) ? NULL : malloc(sizeof *t + extra);
    if (!t)
        return td_error_code() != TD_OK ? NULL : td_fail(TD_E_MEMORY, NAME ": no memory to queue a call");
    *t = what;
    return t;
}

static int submit(stream *s, task *t)
{
    pthread_t thread;
    if (!t)
        return -1;
    pthread_mutex_lock(&s->lock);
    if (!s->running) {
        __atomic_store_n(&process, getpid(), __ATOMIC_RELAXED);
        s->running = pthread_create(&thread, NULL, work, s) == 0 && pthread_detach(thread) == 0;
    }
    const bool good = s->running;
    if (good) {
        t->next = NULL;
        *s->last = t;
        s->last = &t->next;
        s->busy++;
        if (t->mark)
            __atomic_add_fetch(&t->mark->holders, 1, __ATOMIC_RELAXED);
        pthread_cond_broadcast(&s->changed);
    } else {
        free(t);
    }
    pthread_mutex_unlock(&s->lock);
    return good ? 0 : td_error(TD_E_RUNTIME, NAME ":%d has no thread for a stream", s->index);
}

static int wait_for(stream *s)
{
    if (check(s->index))
        return -1;
    pthread_mutex_lock(&s->lock);
    while (s->busy)
        pthread_cond_wait(&s->changed, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return check(s->index);
}

static void init_stream(stream *s, int index)
{
    s->index = index;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    s->last = &s->first;
}

/* The streams that were made, which synchronize() waits for, too. */
static stream *made[1024];
static int     n_made;

static void *stream_new(td_device device, int priority)
{
    (void)priority;
    stream *s = check(device.index) ? NULL : calloc(1, sizeof *s);
    if (!s)
        return NULL;
    init_stream(s, device.index);
    pthread_mutex_lock(&memory_lock);
    const bool room = n_made < (int)(sizeof made / sizeof *made);
    if (room) {
        made[n_made] = s;
        __atomic_store_n(&n_made, n_made + 1, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&memory_lock);
    if (room)
        return s;
    free(s);
    return td_fail(TD_E_RUNTIME, NAME ": there are too many streams");
}
static void stream_free(td_device device, void *handle) { (void)device, (void)handle; }     /* its thread sleeps */

static int stream_synchronize(td_device device, void *handle) { return wait_for(stream_of(device, handle)); }

static int synchronize(int index)
{
    int status = wait_for(&first_streams[index]);
    for (int i = 0; i < __atomic_load_n(&n_made, __ATOMIC_ACQUIRE) && status == 0; i++)
        if (made[i]->index == index)
            status = wait_for(made[i]);
    return status;
}

/* ---- copies */

static void run_copy(task *t) { memmove(t->ptrs[0], t->ptrs[1], (size_t)t->n); }
static void run_fill(task *t) { memset(t->ptrs[0], (int)t->rows, (size_t)t->n); }

static int transfer(td_device device, void *handle, td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes, bool later)
{
    stream *s = stream_of(device, handle);
    const bool read = to_device.type != toy_type, staged = !read && from_device.type != toy_type && !later;
    task *t = new_task(s, (task){.run = run_copy, .n = (int64_t)nbytes, .ptrs = {open_up(to), open_up(from)}}, staged ? nbytes : 0);
    if (!t || check(to_device.type == toy_type ? to_device.index : from_device.index)) {
        free(t);
        return -1;
    }
    count_up(&toy_copies[s->index], 1);
    count_up(&toy_late_copies[s->index], later);
    if (staged)                         /* the CPU may use its memory again at once */
        t->ptrs[1] = memcpy(t->bytes, from, nbytes);
    return submit(s, t) || (read && !later && wait_for(s)) ? -1 : 0;
}

static int copy(td_device to_device, void *to, td_device from_device, const void *from, size_t nbytes)
{
    const bool to_toy = to_device.type == toy_type, from_toy = from_device.type == toy_type;
    if (to_toy && from_toy && to_device.index != from_device.index && synchronize(from_device.index))
        return -1;
    return transfer(to_toy ? to_device : from_device, NULL, to_device, to, from_device, from, nbytes, false);
}

static int fill(td_device device, void *handle, void *to, uint8_t byte, size_t nbytes)
{
    stream *s = stream_of(device, handle);
    return submit(s, new_task(s, (task){.run = run_fill, .n = (int64_t)nbytes, .rows = byte, .ptrs = {open_up(to)}}, 0));
}

/* ---- events */

static void *event_new(td_device device, bool timed)
{
    event *e = check(device.index) ? NULL : calloc(1, sizeof *e);
    if (e)
        e->holders = 1, e->timed = timed;
    return e;
}
static void event_free(td_device device, void *e) { (void)device, drop_event(e); }

static void run_mark(task *t)
{
    pthread_mutex_lock(&events_lock);
    if (t->mark->happened < t->number)
        t->mark->happened = t->number;
    clock_gettime(CLOCK_MONOTONIC, &t->mark->when);
    pthread_cond_broadcast(&events_changed);
    pthread_mutex_unlock(&events_lock);
}
/* Until it has happened so often (0: as often as it was recorded), or one of the two devices is lost, which `toy_kill` makes known here. */
static bool any_dead(void) { return __atomic_load_n(&dead[0], __ATOMIC_RELAXED) || __atomic_load_n(&dead[1], __ATOMIC_RELAXED); }
static void await(const event *e, uint64_t number)
{
    pthread_mutex_lock(&events_lock);
    number = number ? number : e->asked;
    while (e->happened < number && !any_dead())
        pthread_cond_wait(&events_changed, &events_lock);
    pthread_mutex_unlock(&events_lock);
}
static void run_wait(task *t) { await(t->mark, t->number); }

static int submit_event(td_device device, void *handle, event *e, bool record)
{
    stream *s = stream_of(device, handle);
    task *t = new_task(s, (task){.run = record ? run_mark : run_wait, .mark = e}, 0);
    if (t) {
        pthread_mutex_lock(&events_lock);
        t->number = record ? ++e->asked : e->asked;
        pthread_mutex_unlock(&events_lock);
    }
    return submit(s, t);
}
static int event_record(td_device device, void *e, void *s) { return submit_event(device, s, e, true); }
static int event_wait(td_device device, void *e, void *s) { return submit_event(device, s, e, false); }
static int event_synchronize(td_device device, void *e)
{
    if (check(device.index))
        return -1;
    await(e, 0);
    return check(device.index);
}
static int event_query(td_device device, void *e)
{
    pthread_mutex_lock(&events_lock);
    const int done = ((event *)e)->happened == ((event *)e)->asked;
    pthread_mutex_unlock(&events_lock);
    return check(device.index) ? -1 : done;
}
static int event_time(td_device device, void *from, void *to, double *milliseconds)
{
    const struct timespec a = ((event *)from)->when, b = ((event *)to)->when;
    *milliseconds = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) * 1e-6;
    return check(device.index);
}

void toy_kill(int index)
{
    pthread_mutex_lock(&events_lock);
    __atomic_store_n(&dead[index], 1, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&events_changed);
    pthread_mutex_unlock(&events_lock);
}

static int count(void) { return INDICES; }

static int properties(int index, td_device_properties *p)
{
    snprintf(p->name, sizeof p->name, "Toy %d", index);
    snprintf(p->driver, sizeof p->driver, "1");
    p->memory = (uint64_t)toy_capacity;
    p->units = 2;
    p->lanes = 1;
    p->dialect = TD_DIALECT_SERIAL;
    p->doubles = DOUBLES;
    return 0;
}

#ifdef TOY_PROGRAMS
/* ---- programs: shared libraries, which cc makes of the source */

typedef struct kernel { void *function; void (*set_group)(int64_t, int64_t); } kernel;

static bool read_whole(const char *path, td_binary *binary)
{
    FILE *file = fopen(path, "rb");
    long size = file && !fseek(file, 0, SEEK_END) ? ftell(file) : -1;
    bool good = size > 0 && !fseek(file, 0, SEEK_SET) && (binary->data = malloc((size_t)size)) && fread(binary->data, 1, (size_t)size, file) == (size_t)size;
    binary->size = good ? (size_t)size : 0;
    if (file)
        fclose(file);
    return good;
}
static bool write_whole(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    bool good = file && fwrite(data, 1, size, file) == size;
    return file && fclose(file) == 0 && good;
}

static void *build(td_device device, const char *source, const char *options, td_binary *binary)
{
    static int builds;
    const char *place = getenv("TMPDIR");
    char folder[256], text[300], library[300], command[1024];
    snprintf(folder, sizeof folder, "%s/toyXXXXXX", place ? place : P_tmpdir);
    if (check(device.index) || !mkdtemp(folder))
        return NULL;
    const int number = __atomic_add_fetch(&builds, 1, __ATOMIC_RELAXED);        /* dlopen knows libraries by their names */
    snprintf(text, sizeof text, "%s/%d.c", folder, number);
    snprintf(library, sizeof library, "%s/%d.so", folder, number);
    snprintf(command, sizeof command, "LD_PRELOAD= cc %s -w " SANITIZE " -shared -fPIC %s -o %s -lm > /dev/null 2>&1", options, text, library);
    bool good = binary->data ? write_whole(library, binary->data, binary->size)
                             : write_whole(text, source, strlen(source)) && system(command) == 0 && read_whole(library, binary);
    void *program = good ? dlopen(library, RTLD_NOW | RTLD_LOCAL) : NULL;
    unlink(text);
    unlink(library);
    rmdir(folder);
    return program ? program : td_fail(TD_E_RUNTIME, NAME ": a program can't be compiled or loaded");
}

static void *get_kernel(td_device device, void *program, const char *name)
{
    (void)device;
    kernel *k = malloc(sizeof *k);
    if (k)
        *k = (kernel){dlsym(program, name), (void (*)(int64_t, int64_t))dlsym(program, "td_set_group")};
    if (k && k->function && k->set_group)
        return k;
    free(k);
    return NULL;
}
static void program_free(td_device device, void *program) { (void)device, dlclose(program); }

static void run_kernel(task *t)
{
    typedef const void *P;
    void (*f)(P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P) =
        (void (*)(P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P, P))t->kernel->function;
    P *a = t->arguments;
    for (int64_t group = 0; group < t->n; group++) {
        t->kernel->set_group(group, t->n);
        f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16], a[17], a[18], a[19], a[20],
          a[21], a[22], a[23], a[24], a[25], a[26], a[27], a[28], a[29], a[30], a[31]);
    }
}

static int launch(td_device device, void *handle, void *which, int64_t groups, int lanes, int n, const td_kernel_argument *arguments)
{
    stream *s = stream_of(device, handle);
    size_t extra = 0;
    if (lanes != 1 || n > ARGUMENTS)
        return td_error(TD_E_RUNTIME, NAME ": %d work items in a group and %d arguments; 1 and at most %d are possible", lanes, n, ARGUMENTS);
    for (int i = 0; i < n; i++)
        extra += (arguments[i].size + 15) / 16 * 16;
    task *t = new_task(s, (task){.run = run_kernel, .n = groups, .kernel = which, .n_arguments = n}, extra + 16);
    char *at = t ? (char *)(((uintptr_t)t->bytes + 15) / 16 * 16) : NULL;
    for (int i = 0; i < n && t; i++) {
        t->arguments[i] = arguments[i].size ? memcpy(at, arguments[i].data, arguments[i].size) : open_up(arguments[i].data);
        at += (arguments[i].size + 15) / 16 * 16;
    }
    count_up(&toy_kernels[s->index], 1);
    return submit(s, t);
}

static int register_kernels(int type) { return (void)type, 0; }

#else
/* ---- kernels of its own */

static void run_add(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1], *b = (float *)t->ptrs[2];
    for (int64_t i = 0; i < t->n; i++)
        out[i] = a[i] + t->alpha * b[i];
}
static void run_mul(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1], *b = (float *)t->ptrs[2];
    for (int64_t i = 0; i < t->n; i++)
        out[i] = a[i] * b[i];
}
static void run_neg(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1];
    for (int64_t i = 0; i < t->n; i++)
        out[i] = -a[i];
}
static void run_relu(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1];
    for (int64_t i = 0; i < t->n; i++)
        out[i] = a[i] > 0 ? a[i] : 0;
}
static void run_sum(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1];
    double sum = 0;
    for (int64_t i = 0; i < t->n; i++)
        sum += a[i];
    *out = (float)sum;
}
static void run_mm(task *t)
{
    float *out = (float *)t->ptrs[0], *a = (float *)t->ptrs[1], *b = (float *)t->ptrs[2];
    for (int64_t i = 0; i < t->rows; i++)
        for (int64_t j = 0; j < t->n; j++) {
            float sum = 0;
            for (int64_t k = 0; k < t->inner; k++)
                sum += a[i * t->inner + k] * b[k * t->n + j];
            out[i * t->n + j] = sum;
        }
}

static bool simple(const td_tensor *x)
{
    return td_tensor_device(x).type == toy_type && td_tensor_dtype(x) == TD_F32 && td_tensor_is_contiguous(x) && td_tensor_numel(x) > 0;
}
static bool alike(const td_tensor *a, const td_tensor *b)
{
    int n = td_tensor_ndim(a);
    return td_tensor_ndim(b) == n && !memcmp(td_tensor_sizes(a), td_tensor_sizes(b), (size_t)n * sizeof(int64_t));
}

static int call(td_value *result, int64_t ndim, const int64_t *sizes, td_tensor *const *operands, int n, task t)
{
    td_device device = td_tensor_device(operands[0]);
    td_stream *current = td_stream_current(device);
    td_tensor *out = td_output(result, ndim, sizes, TD_F32, device);
    if (!out || !current)
        return -1;
    t.ptrs[0] = open_up(td_tensor_data(out));
    for (int i = 0; i < n; i++)
        t.ptrs[i + 1] = open_up(td_tensor_data(operands[i]));
    stream *s = stream_of(device, td_stream_handle(current));
    count_up(&toy_kernels[device.index], 1);
    if (submit(s, new_task(s, t, 0)) == 0)
        return 0;
    td_values_release(result, 1);
    return -1;
}

/* `context` says what to run; what isn't as simple as these loops is left to the CPU. */
static int pointwise(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    td_tensor *x[2] = {arguments[0].tensor, NULL};
    int n = td_op_describe(op)->n_arguments > 1 ? 2 : 1;
    if (n == 2)
        x[1] = arguments[1].tensor;
    if (td_check_same_device(op, arguments))
        return -1;
    if (!simple(x[0]) || (n == 2 && (!simple(x[1]) || !alike(x[0], x[1]))))
        return td_cpu_fallback(op, keys, arguments, results, NULL);
    task t = {.run = *(void (**)(task *))context, .n = td_tensor_numel(x[0]), .alpha = 1};
    if (td_op_describe(op)->n_arguments > 2)
        t.alpha = (float)td_scalar_double(arguments[2].scalar);
    return call(results, td_tensor_ndim(x[0]), td_tensor_sizes(x[0]), x, n, t);
}

static int sum(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_tensor *x = arguments[0].tensor;
    if (!simple(x) || arguments[1].kind != TD_VALUE_NONE)
        return td_cpu_fallback(op, keys, arguments, results, NULL);
    return call(results, 0, NULL, &x, 1, (task){.run = run_sum, .n = td_tensor_numel(x)});
}

static int mm(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *context)
{
    (void)context;
    td_tensor *x[2] = {arguments[0].tensor, arguments[1].tensor};
    if (td_check_same_device(op, arguments))
        return -1;
    if (td_tensor_ndim(x[0]) != 2 || td_tensor_ndim(x[1]) != 2)          /* the CPU knows batches, and what to say */
        return td_cpu_fallback(op, keys, arguments, results, NULL);
    int64_t rows = td_tensor_sizes(x[0])[0], inner = td_tensor_sizes(x[0])[1], columns = td_tensor_sizes(x[1])[1];
    if (!simple(x[0]) || !simple(x[1]) || td_tensor_sizes(x[1])[0] != inner)
        return td_cpu_fallback(op, keys, arguments, results, NULL);
    return call(results, 2, (int64_t[]){rows, columns}, x, 2, (task){.run = run_mm, .n = columns, .rows = rows, .inner = inner});
}

static int register_kernels(int type)
{
    static void (*add)(task *) = run_add, (*mul)(task *) = run_mul, (*neg)(task *) = run_neg, (*relu)(task *) = run_relu;
    return td_register_fallback(TD_KEY_DENSE, type, td_cpu_fallback, NULL) ||
           td_register_boxed("aten::add.Tensor", TD_KEY_DENSE, type, pointwise, &add) ||
           td_register_boxed("aten::mul.Tensor", TD_KEY_DENSE, type, pointwise, &mul) ||
           td_register_boxed("aten::neg", TD_KEY_DENSE, type, pointwise, &neg) ||
           td_register_boxed("aten::relu", TD_KEY_DENSE, type, pointwise, &relu) ||
           td_register_boxed("aten::sum", TD_KEY_DENSE, type, sum, NULL) ||
           td_register_boxed("aten::mm", TD_KEY_DENSE, type, mm, NULL) ||
           td_register_boxed("aten::matmul", TD_KEY_DENSE, type, mm, NULL) ? -1 : 0;
}
#endif

static int start(int type)
{
    toy_type = type;
    for (int i = 0; i < INDICES; i++)
        init_stream(&first_streams[i], i);
    void *both = mmap(NULL, 2 * WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (both == MAP_FAILED)
        return td_error(TD_E_RUNTIME, NAME ": no addresses for its memory");
    window = both;
    return register_kernels(type);
}

TD_EXPORT_DEVICE = {
    .abi = TD_DEVICE_ABI, .size = sizeof(td_device_library), .name = NAME, .count = count, .start = start, .alloc = take,
    .free = free_memory, .copy = copy, .synchronize = synchronize, .properties = properties, .memory_info = memory_info, .host_alloc = host_alloc,
    .host_free = host_free, .stream_new = stream_new, .stream_free = stream_free, .stream_synchronize = stream_synchronize,
    .transfer = transfer, .fill = fill, .event_new = event_new, .event_free = event_free, .event_record = event_record,
    .event_wait = event_wait, .event_synchronize = event_synchronize, .event_query = event_query, .event_time = event_time,
#ifdef TOY_PROGRAMS
    .build = build, .kernel = get_kernel, .launch = launch, .program_free = program_free,
#endif
};
