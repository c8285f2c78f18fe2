"""What `a + b` costs in instructions, with and without what may stand around a kernel: `make instructions`.

    python tools/instructions.py build

A program that adds two tensors of one element is linked twice from the objects of a build that was configured with
-Dtests=true: with all of them, and without transforms, recording and watching, operators and devices from outside, and
custom nodes (their symbols stay unresolved, and are never reached).  A third run uses the features first and leaves them
again.  Callgrind counts the instructions of 1000 calls each; the figures must be equal."""
import pathlib
import re
import subprocess
import sys
import tempfile

LEFT_OUT = ("src_transforms_", "src_trace_", "src_formula_", "src_dispatch_define", "src_dispatch_load", "src_dispatch_fallback", "src_dispatch_check",
            "src_autograd_ready_queues", "src_autograd_custom", "src_autograd_outside", "src_tensor_layout", "src_kernels_cpu_move_transfer",
            "src_kernels_cpu_loops_foreign", "src_kernels_device_", "src_device_memory", "src_device_pinned", "src_device_stream", "src_device_program")
PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include <tede/tede.h>
#include <tede/dispatch.h>
#ifdef FIRST
#include <tede/autograd_nodes.h>
#include <tede/device.h>
#include <tede/layout.h>
#include <tede/trace.h>
#include <tede/transforms.h>
static int count(void) { return 1; }
static void *take(td_device d, size_t n) { (void)d; return malloc(n); }
static void give(td_device d, void *p, size_t n) { (void)d, (void)n; free(p); }
static int copy(td_device a, void *to, td_device b, const void *from, size_t n)
{ (void)a, (void)b, (void)to, (void)from, (void)n; return 0; }
static const td_device_library toy = {.abi = TD_DEVICE_ABI, .size = sizeof toy, .name = "toy", .count = count, .alloc = take, .free = give, .copy = copy};
static const td_layout_kind kind = {.size = sizeof kind, .name = "diagonal"};
static int pass_on(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results, void *key)
{ return td_op_call_keys(op, keys & ~TD_KEYSET(*(int *)key), arguments, results); }
#endif
static __attribute__((noinline)) int measured(td_tensor *a)
{
    for (int i = 0; i < 1000; i++) {
        td_tensor *c = td_add(a, a);
        if (!c)
            return 1;
        td_tensor_release(c);
    }
    return 0;
}
int main(void)
{
    td_tensor *a = td_ones(1, (int64_t[]){1}, TD_F32, (td_device){TD_CPU, -1});
#ifdef FIRST
    static int key = TD_KEY_PROFILER;
    if (td_device_register(&toy) < 0 || td_layout_register(&kind) < 0 || !td_op_define("toy::f(Tensor x) -> Tensor") ||
        td_register_fallback(TD_KEY_PROFILER, TD_CPU, pass_on, &key) || td_register_boxed("aten::add.Tensor", TD_KEY_PROFILER, TD_CPU, pass_on, &key))
        return fprintf(stderr, "%s\\n", td_error_message()), 1;
    td_recording *r = td_record_begin(1, &a);
    td_tensor *s = td_add(a, a);
    if (!r || td_record_end(r, 1, &s) || td_transform_enter(TD_TRANSFORM_VMAP, 1, TD_RANDOM_ERROR) < 0)
        return fprintf(stderr, "%s\\n", td_error_message()), 1;
    td_tensor *batch = td_transform_wrap(a, 0), *t = td_add(batch, batch);
    td_tensor_release(t), td_tensor_release(batch);
    td_transform_leave();
    td_tensor_release(s);
    td_recording_release(r);
#endif
    td_tensor *first = td_add(a, a);         /* what is looked up once is looked up here */
    td_tensor_release(first);
    return measured(a);
}
"""


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}")
    return done


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build").resolve()
    root = pathlib.Path(__file__).resolve().parents[1]
    objects = [o for folder in ("lib/libtede.so.0.p", "libtede_plans.a.p") for o in sorted((build / folder).glob("*.o"))]
    archives = [build / "libtede_glue.a", *(build / f"libtede_{isa}.a" for isa in ("v2", "v3", "v4"))]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "a.c").write_text(PROGRAM)
        counts = {}
        for name, options, out in (("all of it", [], ()), ("without the features", [], LEFT_OUT), ("after using them", ["-DFIRST"], ())):
            kept = [o for o in objects if not o.name.startswith(out or ("?",))]
            run("cc", "-O1", *options, f"-I{build}/include", f"-I{root}/include", folder / "a.c", *kept, "-Wl,--whole-archive", *archives,
                "-Wl,--no-whole-archive", "-Wl,--unresolved-symbols=ignore-all", "-no-pie", "-lm", "-lpthread", "-ldl", "-o", folder / "a")
            run("valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", "--collect-atstart=no", "--toggle-collect=measured",
                folder / "a")
            counts[name] = int(re.search(r"^(?:totals|summary): (\d+)", (folder / "out").read_text(), re.M)[1])
            print(f"{name:24s}{counts[name] / 1000:10.2f} instructions a call ({len(kept)} objects)")
    if len(set(counts.values())) > 1:
        sys.exit("the features cost instructions")


if __name__ == "__main__":
    main()
