/* Pointwise (elementwise) operators: a row of the generated table describes one, a handful of functions run them all.
 *
 * codegen writes a td_pointwise for each entry `kind: pointwise` in ops/, and its loops in every dtype and instruction set. */
#ifndef TD_OPS_POINTWISE_POINTWISE_H
#define TD_OPS_POINTWISE_POINTWISE_H
#include <tede/kernel.h>
#include "tensor/late.h"
#include "tensor/tensor.h"

/* Columns of a row of loops: see Note [Compute dtypes] in codegen/value.py.  Those from TD_LOOP_BF16 on may be empty: their
 * dtypes then take the column that they are converted for. */
enum { TD_LOOP_F32, TD_LOOP_F64, TD_LOOP_C64, TD_LOOP_C128, TD_LOOP_I32, TD_LOOP_I64, TD_LOOP_U64, TD_LOOP_BOOL,
       TD_LOOP_BF16, TD_LOOP_F16, TD_LOOP_U8, TD_LOOP_I8, TD_LOOP_I16, TD_LOOP_B8,
       TD_LOOP_F32_FIRST, TD_LOOP_F32_SECOND,   /* of arithmetic: one element of that operand for the whole run */
       TD_LOOPS };
typedef struct td_loop_row { td_loop *loops[TD_LOOPS]; } td_loop_row;
/* A family's rows at all levels; those of one operator, the number of which is `row`. */
#define TD_LOOP_ROWS(family) TD_ISA_LEVELS(TD_LOOP_ROWS_, family) _Static_assert(1, "a semicolon follows")
#define TD_LOOP_ROWS_(level, constant, test, scope, effort, flags, family) extern const td_loop_row td_loops_##family##_##level[];
#define TD_LOOPS_AT(family, row) {TD_ISA_LEVELS(TD_LOOPS_AT_, family, row)}
#define TD_LOOPS_AT_(level, constant, test, scope, effort, flags, family, row) &td_loops_##family##_##level[row],

typedef enum td_promote {
    TD_PROMOTE_DEFAULT,      /* torch.result_type of the operands */
    TD_PROMOTE_FLOAT,        /* the same, but integers and bool become the default dtype */
    TD_PROMOTE_FIRST,        /* the first operand's dtype */
    TD_PROMOTE_NUMBER,       /* that of the operands and a whole number: bool becomes int64 */
} td_promote;
typedef enum td_out_kind { TD_OUT_SAME, TD_OUT_BOOL, TD_OUT_REAL } td_out_kind;

struct td_pointwise {
    const char        *name;
    uint8_t            n_in, n_params, cost, promote, out;
    uint16_t           masks;               /* operands that are conditions: not promoted, read as bool */
    bool               alpha;               /* the first parameter is alpha=, whose kind the result's dtype must hold */
    uint8_t            fits;                /* parameters that the operands' dtype must hold, a bit each; alpha always must */
    uint8_t            computed;            /* those of them that only the dtype in which halves are computed must hold */
    uint8_t            numbers;             /* operands that must fit the result if they are numbers, a bit each */
    uint8_t            full_numbers;        /* those that keep their precision beside halves, as numbers */
    bool               old_masks;           /* a condition may be a mask of bytes */
    bool               own_halves;          /* float16 and bfloat16 are computed as such: Note [Halves of their own] in codegen/value.py */
    uint8_t            divisor;             /* the operand in which integers mustn't be zero; 0: none */
    const char        *in_turn;             /* in place, an expanded tensor may be written; its name in PyTorch's warning, or "" */
    uint64_t           dtypes;              /* accepted dtypes after promotion: a bit each */
    uint64_t           contiguous;          /* those of them of which the result is contiguous, however the operands lie */
    bool               contiguous_out;      /* an out= of another shape becomes contiguous, too */
    const td_loop_row *rows[TD_ISAS];
    const td_op       *op;                  /* whose implementations run on other devices, and whose formula it is; NULL: a fused gradient, on the CPU only */
    const td_op       *gradient_of;         /* of a fused gradient, or tangent: whose, by which operand; or NULL */
    const char        *operand;
    bool               tangent;
    const char        *choice;              /* the value of its string parameter; or NULL */
    const char        *exact;               /* the words about an out= of another dtype (td_check_exact); NULL: what holds the result */
};

/* On a device with programs, `out` having its final shape: 0; TD_DECLINED for what the device's dialect can't say or hold; -1
 * with an error.  src/kernels/device/pointwise.c. */
enum { TD_DECLINED = 1 };
int td_pointwise_on_device(const td_pointwise *op, td_dtype common, td_tensor *const *in, const td_scalar *params, td_tensor *out);
/* td_copy_elements within one device, likewise. */
int td_copy_on_device(td_tensor *dst, td_tensor *src);

/* On the CPU, with what td_regions.pointwise was passed and the elements of the operands. */
int td_pointwise_compute(const td_pointwise *op, td_dtype common, td_tensor *const *in, const td_scalar *params, td_tensor *out);

td_tensor *td_pointwise_run(const td_pointwise *op, td_tensor *const *in, const td_scalar *params);
/* With an output that is there: in-place (out is in[0]) or out=. */
int td_pointwise_inplace(const td_pointwise *op, td_tensor *const *in, const td_scalar *params);
int td_pointwise_out(const td_pointwise *op, td_tensor *const *in, const td_scalar *params, td_tensor *out);

#endif
