/* Loops from their sources: a C compiler in a process of its own, called by one thread in the background, which ends when there is nothing
 * left to build.
 *
 * A compiler may be missing, fail, print, or never end: then the plan says why and stays on tier 1. It has a process group of its own, so that
 * Ctrl-C ends the program and not it; the program's end does. */
#include "region/native.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "base/cache.h"
#include "base/levels.h"
#include "base/once.h"

extern char **environ;

enum { SECONDS = 60, MOST_PRINTED = 1 << 20, LEAST_OBJECT = 256, WORDS = 48 };
#define BUDGET ((int64_t)64 << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static td_native_plan *first, **last = &first;
static bool thread_runs;
static pid_t compiler_now;              /* its process group */
static char unfinished[660];            /* what it writes */

static void before_fork(void) { pthread_mutex_lock(&lock); }
static void in_parent(void) { pthread_mutex_unlock(&lock); }
/* The thread stayed behind: what it was to build is asked for again. */
static void in_child(void)
{
    for (td_native_plan *p = first; p; p = p->queued)
        __atomic_store_n(&p->state, TD_NATIVE_COLD, __ATOMIC_RELAXED);
    first = NULL, last = &first;
    thread_runs = false;
    compiler_now = 0;
    pthread_mutex_unlock(&lock);
}
static int watch_forks(void) { return pthread_atfork(before_fork, in_parent, in_child) ? td_error(TD_E_MEMORY, "no memory to watch forks") : 0; }

__attribute__((destructor)) static void end_compiler(void)
{
    if (compiler_now > 0) {
        kill(-compiler_now, SIGKILL);
        unlink(unfinished);
    }
}

static int64_t number_from(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    char *rest;
    const long long n = text ? strtoll(text, &rest, 10) : 0;
    return text && rest != text && !*rest && n >= 0 ? n : otherwise;
}

/* ---- a process */

/* Run a program, what it prints into the file `log`: 0, or -1 with why. */
static int run(char *const *words, const char *log, char *why, size_t size)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none, usual;
    pid_t pid;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGINT), sigaddset(&usual, SIGPIPE), sigaddset(&usual, SIGTERM), sigaddset(&usual, SIGCHLD);
    if (posix_spawn_file_actions_init(&files) || posix_spawnattr_init(&how))
        return snprintf(why, size, "no memory to start %s", words[0]), -1;
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&how, 0);
    posix_spawnattr_setsigmask(&how, &none);
    posix_spawnattr_setsigdefault(&how, &usual);
    pthread_mutex_lock(&lock);          /* no fork meanwhile: a child would know of a process that isn't its own */
    const int error = posix_spawnp(&pid, words[0], &files, &how, words, environ);
    compiler_now = error ? 0 : pid;
    pthread_mutex_unlock(&lock);
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&how);
    if (error)
        return snprintf(why, size, "%s can't be started: %s", words[0], strerror(error)), -1;
    const int64_t end = td_nanoseconds() + (int64_t)number_from("TEDE_COMPILER_SECONDS", SECONDS) * 1000000000;
    int status = 0;
    pid_t ended;
    struct stat info;
    const char *fault = NULL;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 || (ended < 0 && errno == EINTR)) {
        fault = td_nanoseconds() > end ? "doesn't end" : !stat(log, &info) && info.st_size > MOST_PRINTED ? "prints without end" : NULL;
        if (fault) {
            kill(-pid, SIGKILL);
            waitpid(pid, &status, 0);
            break;
        }
        nanosleep(&(struct timespec){.tv_nsec = 4000000}, NULL);
    }
    pthread_mutex_lock(&lock);
    compiler_now = 0;
    pthread_mutex_unlock(&lock);
    if (fault)
        return snprintf(why, size, "%s %s", words[0], fault), -1;
    if (ended < 0 || (WIFEXITED(status) && !WEXITSTATUS(status)))       /* who ignores SIGCHLD, or waits for all, isn't told how it ended */
        return 0;
    char said[160] = "";
    FILE *file = fopen(log, "r");
    if (file && !fgets(said, sizeof said, file))
        *said = 0;
    if (file)
        fclose(file);
    said[strcspn(said, "\n")] = 0;
    if (WIFEXITED(status))
        snprintf(why, size, "%s ended with %d: %s", words[0], WEXITSTATUS(status), said);
    else
        snprintf(why, size, "%s was ended by signal %d", words[0], WTERMSIG(status));
    return -1;
}

/* ---- from a source to a function */

/* As the library's own loops of this level are compiled. */
static const char *level_options(void)
{
#define OF(name, constant, test, scope, effort, flags, ...) case constant: return flags;
    switch (td_cpu_isa()) {
        TD_ISA_LEVELS(OF)
    default: return "";
    }
#undef OF
}

static const char *compiler_of(const td_native_plan *p)
{
    const char *named = getenv("TEDE_COMPILER");
    return p->compiler ? p->compiler : named ? named : "cc";
}

/* What the compiler says of itself; asked for once. */
static const char *version_of(const char *compiler, const char *folder, char *why, size_t size)
{
    static char known[256], text[1024];
    char log[700];
    if (*known && !strcmp(known, compiler))
        return text;
    snprintf(log, sizeof log, "%s%032x.%ld.version", folder, 0, (long)getpid());
    char *const words[] = {(char *)compiler, (char *)"--version", NULL};
    const int status = run(words, log, why, size);
    FILE *file = status ? NULL : fopen(log, "r");
    const size_t n = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    unlink(log);
    text[n] = 0;
    snprintf(known, sizeof known, "%s", status ? "" : compiler);
    return status ? NULL : text;
}

static bool has_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "r");
    bool same = file;
    char part[4096];
    size_t n;
    while (same && (n = fread(part, 1, sizeof part, file))) {
        same = strlen(text) >= n && !memcmp(part, text, n);
        text += same ? n : 0;
    }
    if (file)
        fclose(file);
    return same && !*text;
}

/* Under its name when it is whole. */
static bool write_text(const char *path, const char *beside, const char *text)
{
    const int file = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    const size_t size = strlen(text);
    bool good = file >= 0 && write(file, text, size) == (ssize_t)size;
    if (file >= 0)
        good = !close(file) && good;
    good = good && !rename(beside, path);
    if (!good)
        unlink(beside);
    return good;
}

static bool is_object(const char *path)
{
    struct stat info;
    return !lstat(path, &info) && S_ISREG(info.st_mode) && info.st_uid == geteuid() && info.st_size >= LEAST_OBJECT;
}

static int compile(const char *compiler, const char *options, const char *source, const char *object, char *why, size_t size)
{
    static unsigned count;
    char all[512], beside[660], log[680], *words[WORDS], *rest = NULL;
    int n = 0;
    snprintf(all, sizeof all, "%s", options);
    snprintf(beside, sizeof beside, "%.*s.%ld.%u.so", (int)strlen(object) - 3, object, (long)getpid(), ++count);
    snprintf(log, sizeof log, "%s.log", beside);
    words[n++] = (char *)compiler;
    for (char *word = strtok_r(all, " ", &rest); word && n < WORDS - 6; word = strtok_r(NULL, " ", &rest))
        words[n++] = word;
    words[n++] = (char *)"-o", words[n++] = beside, words[n++] = (char *)source, words[n++] = (char *)"-lm", words[n] = NULL;
    snprintf(unfinished, sizeof unfinished, "%s", beside);
    int status = run(words, log, why, size);
    if (!status && !is_object(beside))
        status = (snprintf(why, size, "%s has written no object", compiler), -1);
    if (!status && rename(beside, object))
        status = (snprintf(why, size, "%s can't be written: %s", object, strerror(errno)), -1);
    if (status)
        unlink(beside);
    unlink(log);
    return status;
}

static int build_in(td_native_plan *p, const char *folder)
{
    char source[600], object[600], beside[640], options[512];
    const char *compiler = compiler_of(p);
    if (!*compiler)
        return snprintf(p->why, sizeof p->why, "TEDE_COMPILER names no compiler"), -1;
    const char *version = version_of(compiler, folder, p->why, sizeof p->why);
    if (!version)
        return -1;
    snprintf(options, sizeof options, "%s -O3 %s -fopenmp-simd -fPIC -shared -fvisibility=hidden -w", td_dialect_options(TD_DIALECT_C), level_options());
    char name[TD_CACHE_NAME];
    td_cache_name(name, 4, (const char *[]){compiler, version, options, p->source});
    snprintf(source, sizeof source, "%s%s.c", folder, name);
    snprintf(object, sizeof object, "%.*s.so", (int)strlen(source) - 2, source);
    snprintf(beside, sizeof beside, "%s.%ld", source, (long)getpid());
    p->cached = is_object(object) && has_text(source, p->source);
    if (p->cached) {
        utimensat(AT_FDCWD, source, NULL, 0);
        utimensat(AT_FDCWD, object, NULL, 0);
    } else {
        if (!write_text(source, beside, p->source))
            return snprintf(p->why, sizeof p->why, "%s can't be written: %s", source, strerror(errno)), -1;
        if (compile(compiler, options, source, object, p->why, sizeof p->why))
            return -1;
        td_native_cache_trim(folder, number_from("TEDE_KERNEL_CACHE_BYTES", BUDGET));
    }
    void *library = dlopen(object, RTLD_NOW | RTLD_LOCAL);
    p->function = library ? (td_native_function *)dlsym(library, "td_joined_loop") : NULL;
    if (!p->function) {
        const char *said = dlerror();
        snprintf(p->why, sizeof p->why, "it can't be loaded: %s", said ? said : object);
        unlink(object);                 /* the next process builds it anew */
        return -1;
    }
    snprintf(p->path, sizeof p->path, "%.*s", (int)sizeof p->path - 1, source);
    return 0;
}

static void build(td_native_plan *p)
{
    char folder[512];
    if (td_native_cache_folder(folder, sizeof folder - 80)) {
        const int status = build_in(p, folder);
        __atomic_store_n(&p->state, status ? TD_NATIVE_BAD : TD_NATIVE_BUILT, __ATOMIC_RELEASE);
        return;
    }
    /* There is no place to keep it: a folder that goes when the loop is loaded. */
    const char *wanted = getenv("TMPDIR"), *unique = "XXXXXX";      /* which mkdtemp replaces */
    const int length = snprintf(folder, sizeof folder - 80, "%s/tede-loops-%s", wanted && *wanted ? wanted : P_tmpdir, unique);
    int status = length < (int)sizeof folder - 80 && mkdtemp(folder) ? 0 : -1;
    if (status)
        snprintf(p->why, sizeof p->why, "no folder can be made for what is temporary: %s", strerror(errno));
    else {
        strcat(folder, "/");
        status = build_in(p, folder);
        p->path[0] = 0;
        td_native_cache_trim(folder, -1);
        rmdir(folder);
    }
    __atomic_store_n(&p->state, status ? TD_NATIVE_BAD : TD_NATIVE_BUILT, __ATOMIC_RELEASE);
}

static void *build_all(void *unused)
{
    (void)unused;
    for (;;) {
        pthread_mutex_lock(&lock);
        td_native_plan *p = first;
        if (!p)
            thread_runs = false;
        pthread_mutex_unlock(&lock);
        if (!p)
            return NULL;
        build(p);
        pthread_mutex_lock(&lock);
        first = p->queued;
        last = first ? last : &first;
        pthread_mutex_unlock(&lock);
    }
}

void td_native_build_later(td_native_plan *p)
{
    static td_once once;
    pthread_t thread;
    sigset_t all, before;
    if (td_once_run(&once, watch_forks)) {
        td_error_clear();
        __atomic_store_n(&p->state, TD_NATIVE_COLD, __ATOMIC_RELEASE);
        return;
    }
    pthread_mutex_lock(&lock);
    __atomic_store_n(&p->state, TD_NATIVE_QUEUED, __ATOMIC_RELEASE);
    p->queued = NULL;
    *last = p;
    last = &p->queued;
    if (!thread_runs) {
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        thread_runs = !pthread_create(&thread, NULL, build_all, NULL);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (thread_runs)
            pthread_detach(thread);
        /* Without a thread plans wait in the queue, and the next one tries again. */
    }
    pthread_mutex_unlock(&lock);
}
