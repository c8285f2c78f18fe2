/* Writes to tensors: who may, and how they are counted. */
#ifndef TD_DISPATCH_WRITES_H
#define TD_DISPATCH_WRITES_H
#include <tede/dispatch.h>
#include "tensor/masks.h"
#include "tensor/tensor.h"

/* Tensors made in inference mode are written to inside it only. */
static inline bool td_is_sealed(const td_tensor *x) { return x->flags & TD_FLAG_INFERENCE && !td_masks_now.inference; }
int td_fail_sealed(void);
int td_check_sealed(const td_tensor *x);
int td_fail_readonly(const char *op, const char *argument, const td_tensor *x);
/* An error if x, which td_guarded names, can't be written to now. */
int td_check_guarded(const char *op, const char *argument, const td_tensor *x);

/* A new version, and which operator made it, for the message about a saved value that was overwritten (Note [Saved variables] in
 * autograd/node.h).  Nothing is noted before something was saved. */
extern bool td_values_saved;
void        td_note_write(td_tensor *x, const char *op, uint32_t version);
static inline void td_wrote(td_tensor *x, const char *op)
{
    td_bump_version(x);
    if (__atomic_load_n(&td_values_saved, __ATOMIC_RELAXED))
        td_note_write(x, op, td_tensor_version(x));
}
/* Of an operator whose body may call others that write, and count, to the same tensors: what they had been before, and one write
 * counted if none was. */
typedef struct td_write_mark { const td_storage *storage; uint64_t versions; } td_write_mark;
td_write_mark td_before_write(int64_t n, td_tensor *const *written);
void          td_wrote_since(td_write_mark before, int64_t n, td_tensor *const *written, const char *op);

#endif
