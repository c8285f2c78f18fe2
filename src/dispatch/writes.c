/* Writes to tensors: who may, and how they are counted.  See writes.h. */
#include "dispatch/writes.h"
#include "tensor/tensor.h"

td_write_mark td_before_write(int64_t n, td_tensor *const *written)
{
    td_write_mark mark = {n ? written[0]->storage : NULL, 0};
    for (int64_t i = 0; i < n; i++)
        mark.versions += td_tensor_version(written[i]);
    return mark;
}

/* A kernel made of other in-place operators has counted its writes already: versions then differ, and nothing is
 * counted twice. The sum of versions stands for all of them, since each only grows. */
void td_wrote_since(td_write_mark before, int64_t n, td_tensor *const *written, const char *op)
{
    td_write_mark now = td_before_write(n, written);
    if (now.storage == before.storage && now.versions == before.versions) {
        for (int64_t i = 0; i < n; i++)
            td_wrote(written[i], op);
    } else if (n == 1 && __atomic_load_n(&td_values_saved, __ATOMIC_RELAXED)) {
        td_note_write(written[0], op, (uint32_t)before.versions + 1);
    }
}

int td_fail_sealed(void)
{
    return td_error(TD_E_RUNTIME, "Inplace update to inference tensor outside InferenceMode is not allowed.You can make a "
                    "clone to get a normal tensor before doing inplace update.See "
                    "https://github.com/pytorch/rfcs/pull/17 for more details.");
}

int td_check_sealed(const td_tensor *x)
{
    return td_is_sealed(x) ? td_fail_sealed() : 0;
}

int td_check_guarded(const char *op, const char *argument, const td_tensor *x)
{
    return td_readonly(x) ? td_fail_readonly(op, argument, x) : td_check_sealed(x);
}

int td_fail_readonly(const char *op, const char *argument, const td_tensor *x)
{
    return td_error(TD_E_RUNTIME, "%s: %s is read-only%s; write to a copy, %s.clone()", op, argument,
                    x->flags & TD_FLAG_READONLY ? ": it, or what it is a view of, was made by read_only()" :
                    ": its memory was lent to be read, by an array, a buffer, DLPack or a file", argument);
}
