"""C programs that end while a device has work: what isn't done is finished or dropped, and the process ends as it was asked to."""
import os
import subprocess
import textwrap

import cuda_environment
import pytest
import test_opencl
from test_c_examples import CC, flags

SOURCE = textwrap.dedent(r"""
    #define _GNU_SOURCE
    #include <dlfcn.h>
    #include <pthread.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <tede/device.h>
    #include <tede/tede.h>
    #include <sys/wait.h>
    #include <unistd.h>

    enum { N = 1000 };
    static td_tensor *x;
    static const char *how;

    static void check(int good)
    {
        if (good)
            return;
        fprintf(stderr, "%s\n", td_error_message());
        _exit(3);
    }

    static int is_how(const char *word) { return strcmp(how, word) == 0; }

    /* Returns while some of it isn't done; the last copy goes to memory that is released at once. */
    static void work(td_device device)
    {
        td_storage *pinned = td_storage_pinned(device, sizeof(float) * N * N);
        td_tensor *host = td_tensor_over(pinned, 0, 2, (int64_t[]){N, N}, NULL, TD_F32);
        check(host != NULL);
        for (int i = 0; i < 40; i++) {
            td_tensor *y = td_add_tensor(x, x, td_int(1)), *z = td_mul(y, x);
            check(z && td_copy_from_(host, z, true) == 0);
            td_tensor_release(y), td_tensor_release(z);
        }
        td_tensor_release(host), td_storage_release(pinned);
    }

    static void *leave(void *unused) { (void)unused; exit(0); }
    static void *go_on(void *started)
    {
        for (;;) {
            td_tensor *y = td_add_tensor(x, x, td_int(1));
            check(y != NULL);
            td_tensor_release(y);
            __atomic_store_n((int *)started, 1, __ATOMIC_RELEASE);
            usleep(100);
        }
        return NULL;
    }

    /* Runs when the device's library may have been taken apart: the call computes, or is refused. */
    static void call_late(void)
    {
        td_tensor *y = td_add_tensor(x, x, td_int(1));
        printf("%s\n", y ? "computed" : td_error_message());
        td_tensor_release(y);
    }

    int main(int n, char **arguments)
    {
        how = arguments[2];
        pthread_t thread;
        int started = 0, status = 0;
        if (is_how("called at exit"))
            atexit(call_late);
        int type = td_device_load(arguments[1]);
        check(n == 3 && type >= 0);
        const td_device device = {(int8_t)type, 0};
        x = td_ones(2, (int64_t[]){N, N}, TD_F32, device);
        td_stream *stream = is_how("stream") ? td_stream_new(device, 0) : td_stream_retain(td_stream_current(device));
        check(x && stream && td_stream_set_current(stream) == 0 && td_device_synchronize(device) == 0);
        void *library = dlopen(arguments[1], RTLD_NOW);     /* the toy's, which is late by as much as it is told */
        int64_t *delay = library ? dlsym(library, "toy_delay") : NULL;
        if (delay)
            __atomic_store_n(delay, 5000, __ATOMIC_RELAXED);
        work(device);
        check(td_stream_query(stream) == 0 || printf("all was done\n") < 0);
        if (is_how("beside another thread") && pthread_create(&thread, NULL, go_on, &started) == 0)
            while (!__atomic_load_n(&started, __ATOMIC_ACQUIRE))
                usleep(100);
        if (is_how("from another thread") && pthread_create(&thread, NULL, leave, NULL) == 0)
            pthread_join(thread, NULL);
        pid_t child = is_how("in a child") ? fork() : 0;
        if (child)
            check(waitpid(child, &status, 0) == child && status == 0);
        if (is_how("released"))
            td_tensor_release(x), td_stream_release(stream);
        return 0;
    }
""")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    if not CC:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("exit")
    (folder / "program.c").write_text(SOURCE)
    subprocess.run([CC, "-O1", "-Wall", "-Wextra", "-Werror", str(folder / "program.c"), "-o", str(folder / "program"), *flags(), "-ldl", "-pthread"],
                   check=True)
    return str(folder / "program")


@pytest.fixture(scope="module", params=["toy", "toyc", "opencl", "cuda"])
def device(request, library, tmp_path_factory):
    """(the device's name or file, the environment in which a program finds it)."""
    if request.param == "opencl":
        if test_opencl.why_not():
            pytest.skip(test_opencl.why_not())
        return "opencl", {}
    if request.param == "cuda":
        return "cuda", {**cuda_environment.build(tmp_path_factory.mktemp("cuda")), "FAKE_CUDA_NVRTC": ""}
    return str(library("toy_device", *["-DTOY_PROGRAMS"] * (request.param == "toyc"))), {}


@pytest.mark.parametrize("how", ["nothing released", "released", "stream", "from another thread", "beside another thread", "in a child", "called at exit"])
def test_a_program_ends_while_the_device_is_at_work(program, device, how):
    name, environment = device
    for _ in range(3):
        done = subprocess.run([program, name, how], capture_output=True, text=True, timeout=300, env={**os.environ, **environment})
        assert (done.returncode, done.stderr) == (0, "") and "all was done" not in done.stdout, done
