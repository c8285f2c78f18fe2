/* Elementwise operators and copies on devices with programs: kernels printed from formulas.
 *
 * A call is a loop over elements, whatever its shapes: dimensions are brought into the output's order and merged where all
 * operands allow it, so that most calls have none left (all runs contiguous) or one to three (sweep.c).  Which kernel that takes depends on
 * the formula, on dtypes, on how many dimensions are left, on how elements are taken from memory, and on which operands are numbers on the CPU,
 * which are passed by value; strides and sizes are arguments.  Kernels are printed and built when they are first met (src/device/program.c). */
#include "ops/pointwise/pointwise.h"

#include <stdlib.h>
#include <string.h>
#include <tede/auto.h>
#include <tede/formula.h>
#include "kernels/device/sweep.h"
#include "tensor/device.h"

enum { RUNS = TD_MAX_OPERANDS, NUMBERS = 8 };

/* What tells kernels apart; bytes between the fields are zero. */
typedef struct kernel_key {
    const td_formula *formula;          /* NULL: a copy */
    int8_t            common, out, n_in, ndim;
    int8_t            in[RUNS];
    int8_t            pack, depth, narrow;
    uint32_t          numbers, constants;   /* a bit for each input */
} kernel_key;

/* A call: the output is run 0. */
typedef struct call {
    kernel_key key;
    td_tensor *runs[RUNS + 1];
    td_sweep   sweep;
} call;

static char *print_source(td_device device, const void *context)
{
    const kernel_key *key = context;
    const td_device_properties *properties = td_device_known(device);
    const int operands[RUNS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    td_dtype inputs[RUNS];
    for (int i = 0; i < key->n_in; i++)
        inputs[i] = (td_dtype)key->in[i];
    const td_formula_call of = {key->formula, (td_dtype)key->common, operands};
    const td_formula_output output = {key->formula ? 0 : -1, (td_dtype)key->out};
    const td_formula_kernel kernel = {.name = "elementwise", .n_inputs = key->n_in, .n_calls = key->formula != NULL, .n_outputs = 1, .inputs = inputs,
                                      .calls = &of, .outputs = &output, .ndim = key->ndim, .numbers = key->numbers,
                                      .pack = key->pack, .depth = key->depth, .constants = key->constants, .narrow = key->narrow};
    return properties ? td_formula_print((td_dialect)properties->dialect, 1, &kernel, NULL) : NULL;
}

/* ---- the struct that is passed by value: members in order, each at a multiple of its size */

typedef struct packed { char bytes[8 * (2 + TD_MAX_DIMS * (RUNS + 2) + 2 * (RUNS + NUMBERS))]; size_t size, align; } packed;

static void put(packed *p, const void *value, size_t size)
{
    p->size = (p->size + size - 1) / size * size;
    memcpy(p->bytes + p->size, value, size);
    p->size += size;
    p->align = p->align > size ? p->align : size;
}

/* A number in the type that its dtype is computed in. */
static void put_number(packed *p, td_scalar x, td_dtype dtype)
{
    const bool integer = x.kind == TD_SCALAR_BOOL || x.kind == TD_SCALAR_INT || x.kind == TD_SCALAR_UINT;
    const double imag = x.kind == TD_SCALAR_COMPLEX ? x.imag : 0;
    if (dtype == TD_C128) {
        put(p, (double[]){td_scalar_double(x), imag}, 2 * sizeof(double));
    } else if (dtype == TD_C64) {
        put(p, (float[]){(float)td_scalar_double(x), (float)imag}, 2 * sizeof(float));
    } else if (dtype == TD_F64) {
        put(p, &(double){td_scalar_double(x)}, sizeof(double));
    } else if (td_dtype_is_floating(dtype)) {
        put(p, &(float){(float)td_scalar_double(x)}, sizeof(float));
    } else {
        const int64_t wide = integer ? x.i : (int64_t)x.d;
        if (dtype == TD_I64 || dtype == TD_U32 || dtype == TD_U64)
            put(p, &wide, sizeof wide);
        else
            put(p, &(int32_t){(int32_t)wide}, sizeof(int32_t));
    }
}

/* Sizes and strides, as td_formula_print has them. */
static void put_geometry(packed *p, const td_sweep *s, int n_runs)
{
    if (!s->narrow) {
        for (int d = 0; d < s->ndim; d++)
            put(p, &s->sizes[d], sizeof *s->sizes);
        for (int r = 0; r < n_runs; r++)
            for (int d = 0; d < s->ndim; d++)
                put(p, &s->strides[r][d], sizeof **s->strides);
        return;
    }
    uint32_t multipliers[TD_MAX_DIMS];
    int32_t shifts[TD_MAX_DIMS];
    for (int d = 0; d < s->ndim; d++) {
        td_sweep_reciprocal(s->sizes[d], &multipliers[d], &shifts[d]);
        put(p, &(int32_t){(int32_t)s->sizes[d]}, sizeof(int32_t));
    }
    for (int d = 0; d < s->ndim; d++)
        put(p, &multipliers[d], sizeof *multipliers);
    for (int d = 0; d < s->ndim; d++)
        put(p, &shifts[d], sizeof *shifts);
    for (int r = 0; r < n_runs; r++)
        for (int d = 0; d < s->ndim; d++)
            put(p, &(int32_t){(int32_t)s->strides[r][d]}, sizeof(int32_t));
}

/* Complex numbers, where their parts are computed; complex32 is only stored. */
static bool computes(td_device device, int dtype) { return dtype < TD_C32 && td_device_computes(device, td_dtype_to_real((td_dtype)dtype)); }

/* TD_DECLINED, too, where the dialect has no such function. */
static int run(call *c, int n_params, const td_scalar *params)
{
    const td_tensor *out = c->runs[0];
    const td_device device = out->device;
    const td_device_properties *properties = td_device_known(device);
    td_kernel_argument arguments[RUNS + 2];
    packed values;
    values.size = values.align = 0;
    int n_runs = 1, n_arguments = 0;
    if (!properties || n_params > NUMBERS)
        return properties ? TD_DECLINED : -1;
    bool holds = computes(device, c->key.out) && computes(device, c->key.common);
    for (int i = 0; i < c->key.n_in; i++)
        holds &= computes(device, c->key.in[i]);
    if (!holds)
        return TD_DECLINED;
    td_tensor *numbers[RUNS];
    int run_of[RUNS];
    for (int i = 0; i < c->key.n_in; i++) {       /* those that are runs come first among c->runs */
        td_tensor *x = c->runs[1 + i];
        if (c->key.numbers >> i & 1)
            numbers[i] = x;
        else
            c->runs[run_of[i] = n_runs++] = x;
    }
    if (out->numel == 0)
        return 0;
    td_sweep_of(&c->sweep, n_runs, c->runs);
    c->key.ndim = (int8_t)c->sweep.ndim;
    c->key.pack = (int8_t)c->sweep.pack;
    c->key.depth = (int8_t)c->sweep.depth;
    c->key.narrow = c->sweep.narrow;
    for (int i = 0; i < c->key.n_in; i++)
        if (!(c->key.numbers >> i & 1))
            c->key.constants |= (c->sweep.constants >> run_of[i] & 1) << i;
    void *kernel = td_device_kernel(device, &c->key, sizeof c->key, "elementwise", print_source, &c->key);
    if (!kernel) {
        if (td_error_code() != TD_E_NOT_IMPLEMENTED)
            return -1;
        td_error_clear();
        return TD_DECLINED;
    }
    put(&values, &c->sweep.n, sizeof c->sweep.n);
    put_geometry(&values, &c->sweep, n_runs);
    for (int r = 0; r < n_runs; r++)
        arguments[n_arguments++] = (td_kernel_argument){c->runs[r]->data, 0};
    for (int i = 0; i < c->key.n_in; i++) {
        td_scalar x;
        if (!(c->key.numbers >> i & 1))
            continue;
        if (td_tensor_item(numbers[i], &x))
            return -1;
        put_number(&values, x, (td_dtype)c->key.in[i]);
    }
    for (int i = 0; i < n_params; i++)
        put_number(&values, params[i], (td_dtype)c->key.common);
    values.size = (values.size + values.align - 1) / values.align * values.align;
    arguments[n_arguments++] = (td_kernel_argument){values.bytes, values.size};
    const int64_t of_group = (int64_t)properties->lanes * c->sweep.depth, groups = (c->sweep.packs + of_group - 1) / of_group;
    const int64_t most = (int64_t)properties->units * 256;
    return td_device_launch(device, kernel, groups < most ? groups : most, n_arguments, arguments);
}

static bool is_plain(const td_tensor *x) { return x->storage && !(x->flags & (TD_FLAG_CONJ | TD_FLAG_NEG)); }

/* td_formula_of looks an operator's name up, which takes longer than all else here: what was found is kept.  A record isn't changed once it is
 * in a list, and stays, so reading needs no lock; there are as many as operators with formulas, and their choices. */
typedef struct found { const struct found *next; const td_op *op; const td_formula *formula; char choice[]; } found;

static const td_formula *formula_of(const td_op *op, const char *choice)
{
    enum { LISTS = 256 };
    static const found *lists[LISTS];
    const char *word = choice ? choice : "";
    const found **list = &lists[(uintptr_t)op / 16 % LISTS], *first = __atomic_load_n(list, __ATOMIC_ACQUIRE);
    for (const found *f = first; f; f = f->next)
        if (f->op == op && !strcmp(f->choice, word))
            return f->formula;
    const td_formula *formula = td_formula_of(op, choice);
    found *made = formula ? malloc(sizeof *made + strlen(word) + 1) : NULL;
    if (!made)
        return formula;
    *made = (found){.next = first, .op = op, .formula = formula};
    strcpy(made->choice, word);
    while (!__atomic_compare_exchange_n(list, &made->next, made, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    return formula;
}

int td_pointwise_on_device(const td_pointwise *op, td_dtype common, td_tensor *const *in, const td_scalar *params, td_tensor *out)
{
    const td_formula *formula = op->op ? formula_of(op->op, op->choice) : NULL;
    call c;
    memset(&c.key, 0, sizeof c.key);
    c.key.formula = formula;
    c.key.common = (int8_t)common;
    c.key.out = out->dtype;
    c.key.n_in = (int8_t)op->n_in;
    c.runs[0] = out;
    if (!formula || !is_plain(out))
        return TD_DECLINED;
    for (int i = 0; i < op->n_in; i++) {
        const bool number = in[i]->device.type == TD_CPU;
        if (!is_plain(in[i]) || (number && in[i]->ndim))
            return TD_DECLINED;
        c.key.in[i] = in[i]->dtype;
        c.key.numbers |= (uint32_t)number << i;
        c.runs[1 + i] = in[i];
    }
    return run(&c, formula->n_parameters, params);
}

/* A complex tensor to copy as it is: words, two of a further dimension for a complex128, which needs no device with doubles. */
static td_tensor *words_of(td_tensor *x)
{
    const bool pairs = x->dtype == TD_C128;
    int64_t sizes[TD_MAX_DIMS], strides[TD_MAX_DIMS];
    for (int d = 0; d < x->ndim; d++)
        sizes[d] = x->sizes[d], strides[d] = x->strides[d] * (pairs ? 2 : 1);
    if (pairs)
        sizes[x->ndim] = 2, strides[x->ndim] = 1;
    return td_alias_as(x, td_itemsize(x) < 8 ? TD_I32 : TD_I64, x->ndim + pairs, sizes, strides);
}

int td_copy_on_device(td_tensor *dst, td_tensor *src)
{
    call c;
    if (!td_has_programs(dst->device) || !is_plain(dst) || !is_plain(src))
        return TD_DECLINED;
    const bool number = src->device.type == TD_CPU;
    if (td_dtype_is_complex((td_dtype)dst->dtype) && dst->dtype == src->dtype && !number && dst->ndim < TD_MAX_DIMS) {
        TD_AUTO td_tensor *to = words_of(dst), *from = words_of(src);
        return to && from ? td_copy_on_device(to, from) : -1;
    }
    const int status = number ? TD_DECLINED : td_copy_by_tiles(dst, src);
    if (status != TD_DECLINED)
        return status;
    memset(&c.key, 0, sizeof c.key);
    c.key.common = c.key.in[0] = src->dtype;
    c.key.out = dst->dtype;
    c.key.n_in = 1;
    c.key.numbers = number;
    c.runs[0] = dst, c.runs[1] = src;
    return run(&c, 0, NULL);
}
