/* A group of calls read as one loop: what it loads, what it computes, what it stores.
 *
 * Note [Loops of groups]
 * Calls become values that later ones name, and tensors runs over one space of dimensions. Without reductions that is the calls' shape, with
 * dimensions merged where all runs allow it; with them it is the group's leading dimensions and one for the rest of a row, which must be one dimension
 * for each tensor that has it. A tensor that is written may be read again in the group if it shows the same elements in the same order:
 * then the value is meant, and memory is written at the end. Of other views of what is written those are printed that have no element in common with it.
 *
 * Nothing of sizes and strides is in the key of a loop but whether elements of a row are one, neighbours or further apart. */
#include "region/native.h"
#include "tensor/tensor.h"

typedef struct reader {
    td_native_loop  *loop;
    const td_group  *g;
    const td_region *r;
    bool             uniform;
    int64_t          width;
} reader;

static bool is_printed(td_dtype dtype) { return dtype < TD_C32 && !td_dtype_is_complex(dtype) && td_names_of_dtype(dtype).stored; }
static bool is_elementwise(const td_late_call *c) { return c->kind != TD_LATE_STRUCTURED; }
static const td_tensor *shape_of(const td_late_call *c) { return is_elementwise(c) ? c->out[0] : c->in[0]; }

/* Strides of x along the loop's dimensions; false if its part of a row is none that one stride describes. */
static bool lay_out(const reader *rd, const td_tensor *x, int shift, td_native_run *run)
{
    const td_native_loop *l = rd->loop;
    const int64_t item = td_itemsize(x);
    const int leading = rd->uniform ? l->ndim : l->ndim - 1;
    memset(run->strides, 0, (size_t)l->ndim * sizeof *run->strides);
    run->full = rd->uniform;
    for (int d = 0; d < leading; d++) {
        const int own = d - shift;
        if (own >= x->ndim)
            return false;
        if (own >= 0 && x->sizes[own] != 1) {
            if (x->sizes[own] != l->sizes[d])
                return false;
            run->strides[d] = x->strides[own] * item;
        }
    }
    if (rd->uniform)
        return x->ndim - (l->ndim - shift) == 0;
    int64_t numel = 1, stride = 0;
    for (int own = x->ndim - 1; own >= 0 && own + shift >= leading; own--) {
        if (x->sizes[own] == 1)
            continue;
        if (numel == 1)
            stride = x->strides[own];
        else if (x->strides[own] != stride * numel)
            return false;
        numel *= x->sizes[own];
    }
    run->full = numel > 1;
    run->strides[leading] = stride * item;
    return numel == 1 || numel == rd->width;
}

/* Whether two runs, which step alike, have no element in common: parts of a tensor side by side along a dimension. */
static bool are_apart(const td_native_loop *l, const td_native_run *a, const td_native_run *b)
{
    const int64_t apart = a->data < b->data ? b->data - a->data : a->data - b->data;
    int64_t extent = td_itemsize(a->x);
    if (a->x->dtype != b->x->dtype || a->full != b->full || memcmp(a->strides, b->strides, (size_t)l->ndim * sizeof *a->strides))
        return false;
    bool beside = false;                /* the inner dimensions of both are, which then are gone through as one */
    for (int d = l->ndim - 1; d >= 0; d--) {
        if (l->sizes[d] == 1 || (a->strides[d] == 0 && !a->full && d == l->ndim - 1))
            continue;
        if (a->strides[d] < extent)
            return false;
        extent += (l->sizes[d] - 1) * a->strides[d];
        if (!beside && apart >= extent)
            beside = true, extent += apart;
    }
    return beside;
}

/* The run of an operand or a result, or -1. */
static int find_run(reader *rd, int16_t operand)
{
    if (operand < 0)
        return -1;
    td_native_loop *l = rd->loop;
    const td_group_tensor *t = &rd->g->tensors[operand];
    if (l->n_runs == TD_GROUP_TENSORS)
        return -1;
    td_native_run *run = &l->runs[l->n_runs];       /* stays there if it is a new one */
    run->data = t->x->data, run->x = t->x, run->storage = (int16_t)t->storage;
    run->number = run->value = run->load = -1;
    run->stored = false, run->spacing = 0;
    if (!is_printed(t->x->dtype) || !lay_out(rd, t->x, t->shift, run))
        return -1;
    for (int i = 0; i < l->n_runs; i++) {
        const td_native_run *have = &l->runs[i];
        if (have->storage != run->storage)
            continue;
        if (have->data == run->data && have->full == run->full && have->x->dtype == run->x->dtype &&
            !memcmp(have->strides, run->strides, (size_t)l->ndim * sizeof *run->strides))
            return i;
        if (rd->g->written[run->storage] && !are_apart(l, have, run))
            return -1;
    }
    return l->n_runs++;
}

static int add_step(reader *rd, td_native_step step)
{
    td_native_loop *l = rd->loop;
    if (l->n_steps == TD_NATIVE_STEPS)
        return -1;
    l->steps[l->n_steps] = step;
    return l->n_steps++;
}

/* A number that the program wrote, as a double or an int64 whatever it was written as. */
static int number_of(reader *rd, const td_tensor *x)
{
    td_native_loop *l = rd->loop;
    if (l->n_params == TD_NATIVE_PARAMS)
        return -1;
    const bool floating = td_dtype_is_floating(x->dtype);
    td_scalar *to = &l->params[l->n_params];
    switch (x->dtype) {
    case TD_F64: *to = (td_scalar){.kind = TD_SCALAR_FLOAT, .d = *(const double *)x->data}; break;
    case TD_F32: *to = (td_scalar){.kind = TD_SCALAR_FLOAT, .d = *(const float *)x->data}; break;
    case TD_I64: *to = (td_scalar){.kind = TD_SCALAR_INT, .i = *(const int64_t *)x->data}; break;
    case TD_BOOL: *to = (td_scalar){.kind = TD_SCALAR_INT, .i = *(const uint8_t *)x->data != 0}; break;
    default: return -1;
    }
    return add_step(rd, (td_native_step){.kind = TD_NATIVE_NUMBER, .dtype = floating ? TD_F64 : TD_I64, .first_param = (int16_t)l->n_params++});
}

static int value_of(reader *rd, int16_t operand)
{
    const td_tensor *x = operand < 0 ? NULL : rd->g->tensors[operand].x;
    if (x && x->flags & TD_FLAG_WRAPPED_NUMBER && !x->ndim && !(x->storage->flags & TD_STORAGE_LATE) && !rd->g->written[rd->g->tensors[operand].storage])
        return number_of(rd, x);
    const int number = find_run(rd, operand);
    if (number < 0)
        return -1;
    td_native_run *run = &rd->loop->runs[number];
    if (run->value >= 0)
        return run->value;
    if (rd->g->storages[run->storage].internal)
        return -1;
    bool full = false;
    for (int d = 0; d < rd->loop->ndim && rd->uniform; d++)
        full |= run->strides[d] != 0;
    const int step = add_step(rd, (td_native_step){.kind = TD_NATIVE_LOAD, .dtype = (uint8_t)run->x->dtype, .full = rd->uniform ? full : run->full, .run = (int16_t)number});
    run->value = run->load = (int16_t)step;
    return step;
}

static int converted(reader *rd, int of, td_dtype to)
{
    const td_native_step *from = of < 0 ? NULL : &rd->loop->steps[of];
    return of < 0 || from->dtype == to ? of
         : add_step(rd, (td_native_step){.kind = TD_NATIVE_CONVERT, .dtype = (uint8_t)to, .full = from->full, .n = 1, .cost = 1, .of = {(int16_t)of}});
}

/* The value becomes what the result's memory holds. */
static bool store(reader *rd, int value, int16_t operand)
{
    const int number = find_run(rd, operand);
    if (number < 0)
        return false;
    td_native_run *run = &rd->loop->runs[number];
    value = converted(rd, value, run->x->dtype);
    run->value = (int16_t)value;
    run->stored = !rd->g->storages[run->storage].internal;
    return value >= 0;
}

static td_dtype result_of(const td_formula *f, td_dtype common) { return f->result == TD_FORMULA_TRUTH ? TD_BOOL : common; }

/* The formulas that were found last: a region asks for the same ones at each run. Only the library's own operators have some, and those stay. */
static const td_formula *formula_of(const td_pointwise *op)
{
    static _Thread_local struct { const td_pointwise *op; const td_formula *formula; } last[16];
    const size_t slot = (uintptr_t)op / sizeof *op % 16;
    if (last[slot].op == op)
        return last[slot].formula;
    const td_formula *f = op->op           ? td_formula_of(op->op, op->choice)
                        : !op->gradient_of ? NULL
                        : op->tangent      ? td_formula_tangent(op->gradient_of, op->operand)
                                           : td_formula_gradient(op->gradient_of, op->operand);
    if (f)
        last[slot].op = op, last[slot].formula = f;
    return f;
}

static bool read_formula(reader *rd, const td_late_call *c, const int16_t *operands)
{
    td_native_loop *l = rd->loop;
    const td_pointwise *op = c->pointwise;
    const td_formula *f = formula_of(op);
    /* Integers by zero are an error, for which the loops that are there look. */
    if (!f || !is_printed(c->common) || f->n_operands != op->n_in || f->n_parameters != op->n_params || op->n_in > TD_MAX_OPERANDS ||
        !(f->dtypes >> c->common & 1) || (op->divisor && !td_dtype_is_floating(c->common)))
        return false;
    td_native_step step = {.formula = f, .kind = TD_NATIVE_FORMULA, .common = (uint8_t)c->common, .dtype = (uint8_t)result_of(f, c->common), .n = op->n_in,
                           .cost = op->cost};
    for (int i = 0; i < op->n_in; i++) {
        const int of = value_of(rd, operands[i]);
        if (of < 0)
            return false;
        step.of[i] = (int16_t)of;
        step.full |= l->steps[of].full;
    }
    step.first_param = (int16_t)l->n_params;        /* behind the numbers among its operands */
    for (int i = 0; i < op->n_params && l->n_params < TD_NATIVE_PARAMS; i++)
        l->params[l->n_params++] = c->params[i];
    const int value = l->n_params - step.first_param == op->n_params ? add_step(rd, step) : -1;
    return value >= 0 && store(rd, value, operands[op->n_in]);
}

static bool read_copy(reader *rd, const int16_t *operands)
{
    const int of = value_of(rd, operands[0]);
    return of >= 0 && store(rd, of, operands[1]);
}

/* Dimensions before the first one that the call reduces, all behind which it reduces; 0: it doesn't. */
static int before_reduced(const td_late_call *c)
{
    const td_tensor *in = c->in[0];
    int before = in->ndim;
    int64_t rows = 1;
    while (before > 0 && in->numel / (rows ? rows : 1) != c->out[0]->numel)
        rows *= in->sizes[--before];
    if (rows < 2 || c->out[0]->ndim < before)
        return 0;
    for (int d = 0; d < before; d++)
        if (c->out[0]->sizes[d] != in->sizes[d])
            return 0;
    return before;
}

static td_row_rule rule_of(const td_op *op)
{
    static const char *const words[] = {[TD_ROW_SUM] = "sum", [TD_ROW_MEAN] = "mean", [TD_ROW_MAX] = "max", [TD_ROW_MIN] = "min"};
    const char *word = td_formula_row(op);
    for (int rule = TD_ROW_SUM; word && rule <= TD_ROW_MIN; rule++)
        if (!strcmp(word, words[rule]))
            return (td_row_rule)rule;
    return TD_ROW_NONE;
}

static bool read_reduction(reader *rd, const td_late_call *c, const int16_t *operands)
{
    td_native_loop *l = rd->loop;
    const td_row_rule rule = c->n_in == 1 && c->n_out == 1 ? rule_of(c->op) : TD_ROW_NONE;
    const td_dtype to = c->out[0]->dtype;
    const int64_t row = c->out[0]->numel ? c->in[0]->numel / c->out[0]->numel : 0;
    const bool integers = !td_dtype_is_floating(to);
    if (!rule || rd->uniform || row != rd->width || before_reduced(c) != l->ndim - 1 || !is_printed(to) || to == TD_BOOL || (integers && rule == TD_ROW_MEAN))
        return false;
    const int of = converted(rd, value_of(rd, operands[0]), to);
    if (of < 0)
        return false;
    const int value = add_step(rd, (td_native_step){.kind = TD_NATIVE_REDUCE, .rule = (uint8_t)rule, .dtype = (uint8_t)to, .n = 1, .of = {(int16_t)of}});
    l->reduces = true;
    return value >= 0 && store(rd, value, operands[1]);
}

static bool read_call(reader *rd, const td_late_call *c, const int16_t *operands)
{
    return c->kind == TD_LATE_FORMULA ? read_formula(rd, c, operands) : c->kind == TD_LATE_COPY ? read_copy(rd, operands) : read_reduction(rd, c, operands);
}

/* Whether all calls are elementwise and have one shape, which then is the loop's. */
static bool is_uniform(const reader *rd, const td_tensor **shape)
{
    for (int64_t i = rd->g->first; i <= rd->g->last; i++) {
        const td_late_call *c = &rd->r->calls[i];
        if (c->dropped)
            continue;
        const td_tensor *x = shape_of(c);
        if (!is_elementwise(c) || (*shape && (x->ndim != (*shape)->ndim || memcmp(x->sizes, (*shape)->sizes, sizeof *x->sizes * x->ndim))))
            return false;
        *shape = x;
    }
    return true;
}

/* How many leading dimensions all calls have in common, which may be more than the slabs are cut along, with their sizes. */
static int find_leading(const reader *rd, int64_t *sizes)
{
    int leading = 0;
    for (int64_t i = rd->g->first; i <= rd->g->last; i++) {
        const td_late_call *c = &rd->r->calls[i];
        if (c->dropped || is_elementwise(c))
            continue;
        const int before = before_reduced(c);
        if (!before)
            return 0;
        leading = leading && leading < before ? leading : before;
        memcpy(sizes, c->in[0]->sizes, sizeof *sizes * (size_t)leading);
    }
    if (!leading)
        memcpy(sizes, rd->g->sizes, sizeof *sizes * (size_t)(rd->g->k + 1));
    return leading ? leading : rd->g->k + 1;
}

/* Rows' elements, of the calls that have more than one. */
static bool find_width(reader *rd, int leading)
{
    rd->width = 1;
    for (int64_t i = rd->g->first; i <= rd->g->last; i++) {
        const td_late_call *c = &rd->r->calls[i];
        if (c->dropped)
            continue;
        const td_tensor *x = shape_of(c);
        int64_t numel = 1;
        for (int d = leading; d < x->ndim; d++)
            numel *= x->sizes[d];
        if (numel != 1 && rd->width != 1 && numel != rd->width)
            return false;
        rd->width = numel != 1 ? numel : rd->width;
    }
    return rd->width > 0;
}

/* Merge neighbours among the first `n` dimensions where all runs allow it, and drop those of one index. */
static void merge(td_native_loop *l, int n)
{
    int to = 0;
    for (int d = 0; d < n; d++) {
        bool with_last = to > 0, one = l->sizes[d] == 1;
        for (int i = 0; i < l->n_runs && with_last && !one; i++)
            with_last = l->runs[i].strides[to - 1] == l->runs[i].strides[d] * l->sizes[d];
        if (one)
            continue;
        if (with_last)
            to--;
        l->sizes[to] = with_last ? l->sizes[to] * l->sizes[d] : l->sizes[d];
        for (int i = 0; i < l->n_runs; i++)
            l->runs[i].strides[to] = l->runs[i].strides[d];
        to++;
    }
    for (int d = n; d < l->ndim; d++, to++) {
        l->sizes[to] = l->sizes[d];
        for (int i = 0; i < l->n_runs; i++)
            l->runs[i].strides[to] = l->runs[i].strides[d];
    }
    l->ndim = to;
    while (l->ndim < 2) {               /* a loop has rows */
        memmove(l->sizes + 1, l->sizes, sizeof *l->sizes * (size_t)l->ndim);
        l->sizes[0] = 1;
        for (int i = 0; i < l->n_runs; i++) {
            memmove(l->runs[i].strides + 1, l->runs[i].strides, sizeof *l->sizes * (size_t)l->ndim);
            l->runs[i].strides[0] = 0;
        }
        l->ndim++;
    }
}

/* Have what is written be gone through as it lies in memory, if that is in another order than its dimensions': channels may be innermost. */
static void order(td_native_loop *l)
{
    int first = 0;
    while (first < l->n_runs && !l->runs[first].stored)
        first++;
    for (int d = 1; d < l->ndim && first < l->n_runs; d++)
        for (int to = d; to > 0 && l->runs[first].strides[to - 1] < l->runs[first].strides[to]; to--) {
            const int64_t size = l->sizes[to];
            l->sizes[to] = l->sizes[to - 1], l->sizes[to - 1] = size;
            for (int i = 0; i < l->n_runs; i++) {
                int64_t *strides = l->runs[i].strides, stride = strides[to];
                strides[to] = strides[to - 1], strides[to - 1] = stride;
            }
        }
}

bool td_native_describe(td_native_loop *l, const td_group *g, const td_region *r)
{
    reader rd = {.loop = l, .g = g, .r = r};
    const td_tensor *shape = NULL;
    l->n_steps = l->n_runs = l->n_numbered = l->n_params = 0;
    l->reduces = false;
    rd.uniform = is_uniform(&rd, &shape);
    const int leading = rd.uniform ? shape->ndim : find_leading(&rd, l->sizes);
    if (!leading || leading >= TD_MAX_DIMS || (!rd.uniform && !find_width(&rd, leading)))
        return false;
    l->ndim = leading + !rd.uniform;
    if (rd.uniform)
        memcpy(l->sizes, shape->sizes, sizeof *l->sizes * (size_t)leading);
    else
        l->sizes[leading] = rd.width;
    int n = 0;
    for (int64_t i = g->first; i <= g->last; i++)
        if (!r->calls[i].dropped && !read_call(&rd, &r->calls[i], g->operands[n++]))
            return false;
    if (rd.uniform)
        order(l);
    merge(l, rd.uniform ? l->ndim : l->ndim - 1);
    const int last = l->ndim - 1;
    for (int i = 0; i < l->n_runs; i++) {
        td_native_run *run = &l->runs[i];
        const int64_t stride = run->strides[last];
        run->spacing = stride == 0 ? TD_NATIVE_ONE : stride == td_itemsize(run->x) ? TD_NATIVE_NEIGHBOURS : TD_NATIVE_APART;
        if (run->stored || run->load >= 0)
            run->number = (int16_t)l->n_numbered++;
    }
    /* Now that dimensions are merged it is known what is the same along a row. */
    for (int i = 0; i < l->n_steps; i++) {
        td_native_step *s = &l->steps[i];
        if (s->kind == TD_NATIVE_LOAD)
            s->full = l->runs[s->run].spacing != TD_NATIVE_ONE;
        else if (s->kind == TD_NATIVE_FORMULA || s->kind == TD_NATIVE_CONVERT) {
            s->full = false;
            for (int k = 0; k < s->n; k++)
                s->full |= l->steps[s->of[k]].full;
        }
    }
    return l->n_numbered > 0;
}
