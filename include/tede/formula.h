/* tede/formula.h: what pointwise operators compute, as data.
 *
 * An operator whose kind is `pointwise` is a formula over its operands' elements.  The library's own loops are compiled from
 * it; here is the formula itself, for whoever makes other loops: a device, a compiler of recorded calls, a page of
 * documentation.  A formula is an expression in postfix (td_formula_next), and one printer turns formulas, one or several
 * joined, into the source of a kernel in C, OpenCL C or CUDA C (td_formula_print).
 *
 * Formulas are part of the library: pointers to them stay valid, and equal formulas of one operator are one pointer. */
#ifndef TEDE_FORMULA_H
#define TEDE_FORMULA_H
#include <tede/dispatch.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The dtypes that a formula may have a separate expression for: floats, integers, complex numbers, bool. */
typedef enum td_formula_kind {
    TD_FORMULA_DEFAULT, TD_FORMULA_INT, TD_FORMULA_COMPLEX, TD_FORMULA_BOOL, TD_FORMULA_KINDS
} td_formula_kind;
/* To which dtype operands are promoted: PyTorch's common one; the same, where integers and bool become the default
 * floating dtype; the first operand's; the common one, where bool becomes int64. */
typedef enum td_formula_promotion {
    TD_FORMULA_COMMON, TD_FORMULA_TO_FLOAT, TD_FORMULA_TO_FIRST, TD_FORMULA_TO_NUMBER
} td_formula_promotion;
/* The result's dtype: the one that is computed in; bool; the real one of a complex one. */
typedef enum td_formula_result { TD_FORMULA_SAME, TD_FORMULA_TRUTH, TD_FORMULA_REAL } td_formula_result;

/* What is known of one.  Its names, numbers and code lie behind it, for the functions below. */
typedef struct td_formula {
    uint32_t size;                  /* sizeof(td_formula) where it was compiled: it may grow at the end */
    uint32_t dtypes;                /* accepted after promotion: a bit each */
    uint16_t starts[TD_FORMULA_KINDS];      /* of the kinds' expressions; 0: no separate one, as TD_FORMULA_DEFAULT */
    uint16_t masks;                 /* a bit for each operand that is a condition: not promoted, read as bool */
    uint8_t  n_operands;            /* that are read element by element */
    uint8_t  n_parameters;          /* numbers that are the same for all elements */
    uint8_t  n_numbers;
    uint8_t  promotion;             /* td_formula_promotion */
    uint8_t  result;                /* td_formula_result */
    uint8_t  own_halves;            /* float16 and bfloat16 are computed as such and not in float32: nextafter */
} td_formula;

/* ---- an operator's formulas, borrowed; NULL where there is none (no error).  In-place and out= forms have those of the
 * functional one. */

/* The result.  `choice`: the word of a string parameter that the formula depends on (gelu's approximate); NULL: the first. */
TD_API const td_formula *td_formula_of(const td_op *op, const char *choice);
/* The words that `choice` may be, with spaces between them; NULL if the formula depends on none. */
TD_API const char       *td_formula_choices(const td_op *op);
/* An operand's gradient: over `grad`, operands of the call and its `result`.  Only where the gradient is pointwise itself; one that
 * calls operators that aren't, or pointwise ones with formulas of their own (gelu_backward), is none.  For floating dtypes. */
TD_API const td_formula *td_formula_gradient(const td_op *op, const char *operand);
/* What the operand's tangent, which is read as `grad`, adds to the result's: often the same formula. */
TD_API const td_formula *td_formula_tangent(const td_op *op, const char *operand);

/* ---- reading one */

typedef enum td_formula_code {
    TD_STEP_END,
    TD_STEP_OPERAND, TD_STEP_PARAMETER,                 /* `index`: which */
    TD_STEP_NUMBER,                                     /* `number` */
    TD_STEP_FALSE, TD_STEP_TRUE,
    TD_STEP_NOT, TD_STEP_INVERT, TD_STEP_NEGATE,        /* of one value */
    TD_STEP_TRUTH, TD_STEP_CAST,                        /* whether it isn't 0; a boolean as a number */
    TD_STEP_AND, TD_STEP_OR,                            /* of two: of booleans, both are computed */
    TD_STEP_LT, TD_STEP_LE, TD_STEP_GT, TD_STEP_GE, TD_STEP_EQ, TD_STEP_NE,
    TD_STEP_ADD, TD_STEP_SUB, TD_STEP_MUL, TD_STEP_DIV, TD_STEP_FLOOR_DIV, TD_STEP_REMAINDER, TD_STEP_POW,
    TD_STEP_BIT_AND, TD_STEP_BIT_OR, TD_STEP_BIT_XOR, TD_STEP_SHIFT_LEFT, TD_STEP_SHIFT_RIGHT,
    TD_STEP_WHERE,                                      /* of three: the second where the first is true, else the third */
    TD_STEP_CALL,                                       /* a function of mathematics, `name`, of `arity` values; `result`: TD_FORMULA_TRUTH
                                                           or, of a complex argument, TD_FORMULA_REAL, if it isn't a number as they are */
    TD_STEP_CODES
} td_formula_code;
/* A step takes `arity` values from the end of a stack and puts one there; the last one is the result. */
typedef struct td_formula_step {
    td_formula_code   code;
    int               index, arity;
    td_formula_result result;
    double            number;
    const char       *name;
} td_formula_step;

/* The expression for a kind of dtypes. */
TD_API const uint8_t *td_formula_code_of(const td_formula *formula, td_formula_kind kind);
/* Reads the step at *at and moves on: 1; 0 at the end. */
TD_API int td_formula_next(const td_formula *formula, const uint8_t **at, td_formula_step *step);
/* An operand's name, those behind them the parameters': of so many characters; NULL if there are fewer. */
TD_API const char *td_formula_name(const td_formula *formula, int i, int *length);

/* The expression as in an entry: "self / (1 + exp(-self))".  Freed with td_formula_text_free; NULL on error. */
TD_API char *td_formula_text(const td_formula *formula, td_formula_kind kind);
/* Accepts NULL. */
TD_API void  td_formula_text_free(char *text);

/* ---- kernels */

/* TD_DIALECT_C is for loops on the CPU.  The others are one dialect for devices, C with a dozen macros (KERNEL BUFFER AT VALUES UNPACK GLOBAL SHARED
 * GROUP LANE ITEM BARRIER ...: Note [The common dialect] in src/formula/dialect.c), which is OpenCL C, CUDA C or, one work item at a time,
 * plain C. */
typedef enum td_dialect { TD_DIALECT_C, TD_DIALECT_OPENCL, TD_DIALECT_CUDA, TD_DIALECT_SERIAL, TD_DIALECTS } td_dialect;

/* A formula in a kernel.  The operands' values are converted to `dtype`, the result is rounded as the operator's would be before another
 * formula reads it, so a kernel gives what the calls give one after the other. */
typedef struct td_formula_call {
    const td_formula *formula;
    td_dtype          dtype;        /* after promotion */
    const int        *operands;     /* for each: i, the kernel's i-th input, or -1 - i, the result of its i-th call, an earlier one */
} td_formula_call;
typedef struct td_formula_output {
    int      call;                  /* whose result is stored, or -1 - i: the kernel's i-th input */
    td_dtype dtype;                 /* as what */
} td_formula_output;

/* A loop over elements: `n_inputs` runs are read, calls computed in order, `n_outputs` runs written.  An output may be an input's memory if
 * both have the same elements at the same offsets. */
typedef struct td_formula_kernel {
    const char              *name;
    int                      n_inputs, n_calls, n_outputs;
    const td_dtype          *inputs;        /* as what they are stored */
    const td_formula_call   *calls;
    const td_formula_output *outputs;
    int                      ndim;          /* 0: all runs are contiguous; else they have so many dimensions, with strides */
    uint32_t                 numbers;       /* a bit for each input that is one number, passed by value; on devices only */
    /* On devices only: how a work item goes over its elements.  All may be 0. */
    int                      pack;          /* takes so many neighbours at a time, a power of two, by one aligned load or store.  Runs begin at multiples of
                                               16 bytes, or of a pack's if that is smaller.  With dimensions it divides the last one's size, and
                                               there outputs have stride 1 */
    int                      depth;         /* loads so many elements, or packs, before it computes the first one */
    uint32_t                 constants;     /* with packs and dimensions: a bit for each input whose stride along the last one is 0; the others' is 1 */
    bool                     narrow;        /* numbers and offsets of elements are below 2^31 */
} td_formula_kernel;

/* The source of kernels, with all that they call: it stands alone.  `more`: source of the caller's in this dialect, which is put behind; what
 * it calls of the functions of mathematics (td_exp_f32, td_digamma_f64, td_f32_to_f16, ...) is brought along, too.  Or NULL.
 * Freed with td_formula_text_free; NULL with an error, TD_E_NOT_IMPLEMENTED for what the dialect can't say (a few special functions
 * on devices).
 *
 * In C a kernel is `void NAME(int64_t n, char *const *runs, const void *params, const int64_t *geometry)`: runs are outputs, then
 * inputs; params the calls' parameters in order, a td_scalar each; geometry, read if ndim isn't 0, the sizes, then for each
 * run its strides in elements.  Without geometry that is what the library's own loops are.
 * On devices its arguments are a buffer for each output, then for each input that is no number, then a struct by value: int64_t n; if ndim
 * isn't 0 geometry[]; the inputs that are numbers; the calls' parameters in order.  The geometry is that of C in int64_t or, if it is narrow, in
 * int32_t, where behind the sizes are, for division by a size s, a multiplier and a shift of each: the shift t is the least with s <= 2^t, the
 * multiplier 2^32 (2^t - s) / s + 1, cut to a whole number.  With packs the last size and strides are a pack's: the size is divided by the
 * pack, strides of 1 are the pack.  Numbers have the type that their dtype is
 * computed in (float for float32 and halves, double, structs of two of these, aligned to their size, int32_t for narrower integers and bool too,
 * int64_t for uint32 too, uint64_t).  Any number of work items may be started. */
TD_API char       *td_formula_print(td_dialect dialect, int n_kernels, const td_formula_kernel *kernels, const char *more);

/* A kernel that is written for any dtypes: in its text the name, "A", stands for how an element is stored, and what begins with it for what
 * follows from the dtype:
 *
 *   A_C                       the type that is computed in: float for halves, int32_t for narrow integers
 *   A_LOAD(x) A_STORE(y)      from stored to computed and back: A_STORE(A_LOAD(a[i]) * 2)
 *   A_LOWEST A_HIGHEST        of what an element may be, computed: infinities of floats
 *   A_FLOATING A_COMPLEX      1 or 0; complex numbers are floating, too
 *   A_OF(x)                   a number that was computed for another dtype, of the same sort if it is complex
 *   A_ADD(x, y) A_MUL(x, y) A_SCALE(x, r) A_TRUTH(x)
 *                             computed: sums, products, products with a real number, whether it isn't 0: with A_ZERO all that there is of complex
 *                             numbers beside A_LOAD, A_STORE and functions
 *   A_NUMBER(n)               a number that was passed by value, computed: n has the fields float single, and int64_t bits of the same as a double; not of complex numbers
 *   A_exp(y), A_sqrt(y), ...  the function of mathematics for the computed type: td_exp_f32, ... */
typedef struct td_source_type { const char *name; td_dtype dtype; } td_source_type;
typedef struct td_source_number { const char *name; int64_t value; } td_source_number;     /* #define name value */
/* The source of a kernel in the common dialect: `text` with what it names of its dtypes, of its numbers and of the functions of mathematics.
 * Freed with td_formula_text_free; NULL with an error. */
TD_API char *td_source_print(td_dialect dialect, int n_types, const td_source_type *types, int n_numbers, const td_source_number *numbers,
                             const char *text);
/* What to compile them with, so that results are those of the library's loops as far as functions agree. */
TD_API const char *td_dialect_options(td_dialect dialect);

#ifdef __cplusplus
}
#endif
#endif
