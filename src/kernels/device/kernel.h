/* What implementations on devices with programs are made of.
 *
 * A file of kernels, NAME.ck, is in the common dialect (Note [The common dialect] in src/formula/dialect.c) and for any dtypes
 * (td_source_print in <tede/formula.h>).  The library has it as text; beside it NAME.c has the functions that launch its kernels.  What a
 * kernel gets by value is one struct, which both read from NAME.ck:
 *
 *     #define TD_HOST
 *     #include "kernels/device/NAME.ck"
 *     TD_SOURCE(NAME);
 *
 *     int td_on_device_cumsum(td_tensor *self, int64_t dim, td_dtype dtype, td_tensor *out0)
 *
 * An operator's function has its name behind td_on_device_, with the parameters of the CPU's implementation (td_cpu_cumsum), or, if the operator
 * is no structured one, of its body (td_op_gather).  The generator finds it by this name, and every device with programs gets it
 * (td_accelerate in src/dispatch/structured.c).  What it can't do it leaves to the CPU by failing with TD_E_NOT_IMPLEMENTED: td_launch does so
 * for dtypes that the device has no kernels for. */
#ifndef TD_KERNELS_DEVICE_KERNEL_H
#define TD_KERNELS_DEVICE_KERNEL_H
#include <tede/auto.h>
#include <tede/formula.h>
#include <tede/kernel.h>
#include "tensor/device.h"
#include "tensor/operands.h"
#define TD_HOST
#include "kernels/device/group.ck"
#undef TD_HOST

#define TD_SOURCE(name) extern const char td_source_##name[]

enum { TD_LAUNCH_TYPES = 6, TD_LAUNCH_NUMBERS = 8, TD_LAUNCH_BUFFERS = 12 };

/* A kernel and what it is launched with.  LANES, a power of two, is known when it is built: it is one of its numbers. */
typedef struct td_launch_of {
    const char      *source, *kernel;                   /* td_source_NAME; literals, which tell built kernels apart */
    td_source_type   types[TD_LAUNCH_TYPES];            /* as far as they have names */
    td_source_number numbers[TD_LAUNCH_NUMBERS];
    td_tensor       *buffers[TD_LAUNCH_BUFFERS];        /* up to NULL; TD_NONE and what is empty are passed as another one's memory, not to be read */
    const void      *state;                             /* NULL, or an address that the kernel has one more buffer for, behind these: td_graph_reserve */
    const void      *values;
    size_t           size;
    int64_t          groups;                            /* 0: nothing is done */
    int              lanes;                             /* of a group; 0: as many as the device likes */
    bool             complex;                           /* dtypes may be complex: all arithmetic is A_ADD, A_MUL, ... (<tede/formula.h>) */
    bool             late;                              /* behind the buffers the kernel has one for NOTE_INDEX in group.ck */
} td_launch_of;
#define TD_VALUES(struct) .values = &(struct), .size = sizeof(struct)

/* On the current stream of the device of buffers[0]. */
int td_launch(const td_launch_of *launch);

/* A launch whose buffers are contiguous: what isn't, or is of another dtype, is copied, and what is written goes to where it belongs afterwards.
 * An operand is NULL where making it has failed. */
typedef struct td_operand_of { td_tensor *x; td_dtype dtype; enum { TD_READ, TD_WRITTEN, TD_UPDATED } use; } td_operand_of;
#define TD_READS(x)       {x, TD_DTYPE_NONE, TD_READ}
#define TD_READS_AS(x, t) {x, t, TD_READ}
#define TD_WRITES(x)      {x, TD_DTYPE_NONE, TD_WRITTEN}        /* every element */
#define TD_UPDATES(x)     {x, TD_DTYPE_NONE, TD_UPDATED}
#define TD_LAUNCH_ON(launch, ...) \
    td_launch_on(launch, (int)(sizeof((td_operand_of[]){__VA_ARGS__}) / sizeof(td_operand_of)), (td_operand_of[]){__VA_ARGS__})
int td_launch_on(td_launch_of launch, int n, const td_operand_of *operands);

/* x itself if it lies well, else a copy with these strides (NULL: contiguous); a new reference. */
td_tensor *td_laid_out(td_tensor *x, bool well, const int64_t *strides);

/* Groups for n items, of which each work item may take several; and for n pieces of work that a group does each. */
int64_t td_launch_groups(td_device device, int64_t n);
int64_t td_launch_many(td_device device, int64_t n);
/* Work items of a group on this device; -1 with an error. */
int td_launch_lanes(td_device device);

/* Of elements that are only moved: an integer of this size, of 16 bytes one of two halves. */
static inline td_dtype td_raw_dtype(int64_t size) { return size == 1 ? TD_U8 : size == 2 ? TD_I16 : size == 4 ? TD_I32 : TD_I64; }

/* Initializers of arrays that a kernel's values have in common with a geometry (<tede/geometry.h>), one number for each of three dimensions. */
#define TD_EACH_OF_3(of) {(of)[0], (of)[1], (of)[2]}
#define TD_WINDOWS(g) .in = TD_EACH_OF_3((g)->in), .out = TD_EACH_OF_3((g)->out), .window = TD_EACH_OF_3((g)->kernel), \
    .stride = TD_EACH_OF_3((g)->stride), .padding = TD_EACH_OF_3((g)->padding), .dilation = TD_EACH_OF_3((g)->dilation)

/* How rows of n elements, which lie one behind the other in these tensors (up to NULL; none: their elements are apart), are shared: a team of
 * lanes takes one, in packs of elements, of which each lane keeps `held` (0: it would be more than `most` elements): see group.ck. */
typedef struct td_rows { int pack, team, held; int64_t groups; } td_rows;
td_rows td_launch_rows(td_device device, int64_t rows, int64_t n, int most, td_tensor *const *x);
/* Elements of a pack of 16 bytes if these tensors, or the copies that TD_LAUNCH_ON makes, begin at such an address and n is a multiple of it, else 1. */
int td_launch_pack(int64_t n, td_tensor *const *x);
/* The least power of two from n on. */
static inline int64_t td_power_from(int64_t n)
{
    int64_t power = 1;
    while (power < n)
        power *= 2;
    return power;
}

/* Where indices must lie, from `low` to below `high`, and what is said of one that doesn't: see td_late_kind. */
index_limits td_index_limits(int64_t low, int64_t high, td_code code, const char *op, const char *text, int dim);

number td_number(double x);
/* Dimensions of n tensors that have the same elements: outermost first by the first one's strides, those of one element dropped, neighbours merged that
 * are one in all.  How many are left. */
int td_merge_dimensions(int ndim, const int64_t *sizes, int n, int64_t (*strides)[TD_MAX_DIMS], int64_t *to_sizes,
                        int64_t (*to_strides)[TD_MAX_DIMS]);
/* The same of up to three tensors; false if more than eight are left. */
bool td_axes_of(axes *to, int ndim, const int64_t *sizes, int n, int64_t (*strides)[TD_MAX_DIMS]);

/* A number for NUMBER in group.ck. */
static inline int64_t td_number_bits(double x, bool wide)
{
    union { double d; float f; uint32_t narrow; int64_t wide; } of;
    if (wide)
        return of.d = x, of.wide;
    return of.f = (float)x, (int64_t)of.narrow;
}

/* The operator is left to the CPU: fails with TD_E_NOT_IMPLEMENTED. */
int td_leave_to_cpu(const char *why);

#endif
