/* Recordings of operator calls, for replay.  See <tede/trace.h>.
 *
 * Every tensor that a recording meets has a number: inputs first, then results as they come and constants as they are
 * met.  The recording holds a reference to each until it ends, so that no address is used twice; afterwards to the constants
 * only.  A call's values are copied, with numbers in the place of tensors.
 *
 * Recording uses the key that watching uses, and leaves it out while a call runs: what operators do inside is their affair. */
#include "calls_trace_record.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include "dispatch/op.h"
#include "trace/record.h"

typedef struct call {
    const td_op *op;
    td_value    *values;            /* of arguments; tensors are NULL, their numbers are in `numbers` */
    int32_t     *numbers;           /* of the tensors among arguments and results, in order; -1: TD_NONE */
    int32_t      n_operands, n_numbers;
} call;

struct td_recording {
    call       *calls;
    td_tensor **tensors;            /* by number; after the end those of constants only */
    int32_t    *table;              /* open addressing by address: number + 1 */
    int32_t    *outputs;
    int32_t     n_calls, call_room, n_tensors, tensor_room, table_size, n_inputs, n_outputs;
    bool        recording, failed;
};

TD_TLS td_recording *td_recording_now;

/* ---- numbers of tensors */

static uint32_t hash(const td_tensor *x, int32_t size)
{
    return (uint32_t)(((uintptr_t)x >> 4) * 0x9e3779b97f4a7c15u >> 32) & (uint32_t)(size - 1);
}

static void enter(td_recording *r, int32_t number)
{
    uint32_t at = hash(r->tensors[number], r->table_size);
    while (r->table[at])
        at = (at + 1) & (uint32_t)(r->table_size - 1);
    r->table[at] = number + 1;
}

static int32_t find(const td_recording *r, const td_tensor *x)
{
    for (uint32_t at = hash(x, r->table_size); r->table[at]; at = (at + 1) & (uint32_t)(r->table_size - 1))
        if (r->tensors[r->table[at] - 1] == x)
            return r->table[at] - 1;
    return -1;
}

/* The number of x, a new one if it has none; -1 for none, -2 without memory. */
static int32_t number_of(td_recording *r, td_tensor *x)
{
    int32_t number = x == TD_NONE ? -1 : find(r, x);
    if (x == TD_NONE || number >= 0)
        return number;
    if (r->n_tensors == r->tensor_room) {
        int32_t room = r->tensor_room * 2;
        td_tensor **more = td_mem_realloc(r->tensors, (size_t)r->tensor_room * sizeof *more, (size_t)room * sizeof *more);
        if (!more)
            return -2;
        r->tensors = more, r->tensor_room = room;
    }
    if (2 * (r->n_tensors + 1) > r->table_size) {
        int32_t size = r->table_size * 2, *table = td_mem_alloc_zero((size_t)size * sizeof *table);
        if (!table)
            return -2;
        td_mem_free(r->table, (size_t)r->table_size * sizeof *table);
        r->table = table, r->table_size = size;
        for (int32_t i = 0; i < r->n_tensors; i++)
            enter(r, i);
    }
    r->tensors[r->n_tensors] = td_tensor_retain(x);
    enter(r, r->n_tensors);
    return r->n_tensors++;
}

/* ---- values of a call */

static size_t list_bytes(const td_value *v)
{
    size_t n = v->count > 0 ? (size_t)v->count : 0;
    switch (v->kind) {
    case TD_VALUE_INTS: return n * sizeof *v->ints;
    case TD_VALUE_FLOATS: return n * sizeof *v->numbers;
    case TD_VALUE_BOOLS: return n * sizeof *v->bools;
    case TD_VALUE_SCALARS: return n * sizeof *v->scalars;
    case TD_VALUE_STRING: return v->string ? strlen(v->string) + 1 : 0;
    default: return 0;
    }
}

static int keep_value(td_value *to, const td_value *from)
{
    *to = *from;
    size_t bytes = list_bytes(from);
    if (from->kind == TD_VALUE_TENSOR)
        to->tensor = NULL;
    if (from->kind == TD_VALUE_TENSORS)
        to->tensors = NULL;
    if (from->kind == TD_VALUE_GENERATOR)
        td_generator_retain(to->generator);
    if (!bytes)
        return 0;
    void *block = td_mem_alloc(bytes);
    to->ints = block;                       /* all pointers of the union lie in one place */
    if (!block)
        return to->kind = TD_VALUE_NONE, -1;
    memcpy(block, from->ints, bytes);
    return 0;
}

static void drop_call(call *c)
{
    for (int i = 0; c->values && i < c->op->info.n_arguments; i++) {
        if (c->values[i].kind == TD_VALUE_GENERATOR)
            td_generator_release(c->values[i].generator);
        else if (list_bytes(&c->values[i]))
            td_mem_free((void *)c->values[i].ints, list_bytes(&c->values[i]));
    }
    td_mem_free(c->values, (size_t)c->op->info.n_arguments * sizeof *c->values);
    td_mem_free(c->numbers, (size_t)c->n_numbers * sizeof *c->numbers);
}

static int count_tensors(int n, const td_value *values)
{
    int count = 0;
    for (int i = 0; i < n; i++)
        count += values[i].kind == TD_VALUE_TENSOR ? 1 : values[i].kind == TD_VALUE_TENSORS ? values[i].count : 0;
    return count;
}

static int number_values(td_recording *r, int n, const td_value *values, int32_t *numbers)
{
    for (int i = 0; i < n; i++) {
        const td_value *v = &values[i];
        int count = v->kind == TD_VALUE_TENSOR ? 1 : v->kind == TD_VALUE_TENSORS ? v->count : 0;
        for (int k = 0; k < count; k++)
            if ((*numbers++ = number_of(r, v->kind == TD_VALUE_TENSOR ? v->tensor : v->tensors[k])) == -2)
                return -1;
    }
    return 0;
}

static int write_down(td_recording *r, const td_op *op, const td_value *arguments, const td_value *results)
{
    const int n = op->info.n_arguments, operands = count_tensors(n, arguments);
    call c = {.op = op, .n_operands = operands, .n_numbers = operands + count_tensors(op->info.n_results, results)};
    c.values = td_mem_alloc_zero((size_t)n * sizeof *c.values);
    c.numbers = c.values ? td_mem_alloc((size_t)c.n_numbers * sizeof *c.numbers) : NULL;
    bool good = c.numbers != NULL;
    for (int i = 0; i < n && good; i++)
        good = keep_value(&c.values[i], &arguments[i]) == 0;
    good = good && number_values(r, n, arguments, c.numbers) == 0 &&
           number_values(r, op->info.n_results, results, c.numbers + operands) == 0;
    if (good && r->n_calls == r->call_room) {
        int32_t room = r->call_room * 2;
        call *more = td_mem_realloc(r->calls, (size_t)r->call_room * sizeof *more, (size_t)room * sizeof *more);
        good = more != NULL;
        if (more)
            r->calls = more, r->call_room = room;
    }
    if (good)
        r->calls[r->n_calls++] = c;
    else if (c.values && c.numbers)
        drop_call(&c);
    else
        td_mem_free(c.values, (size_t)n * sizeof *c.values);
    return good ? 0 : -1;
}

int td_recorded_call(const td_op *op, td_keyset keys, const td_value *arguments, td_value *results)
{
    td_recording *r = td_recording_now;
    td_thread_state before = td_masks_now;
    td_masks_now.include &= ~TD_KEYSET(TD_KEY_TRACING);
    td_recording_now = NULL;
    int status = td_op_call_keys(op, keys & ~TD_KEYSET(TD_KEY_TRACING), arguments, results);
    td_recording_now = r;
    td_masks_now.include |= before.include & TD_KEYSET(TD_KEY_TRACING);
    if (status == 0 && !r->failed && write_down(r, op, arguments, results) != 0) {
        r->failed = true;               /* the call itself went well; td_record_end says so */
        td_error_clear();
    }
    return status;
}

/* ---- beginning and ending */

static void release_tensors(td_recording *r)
{
    for (int32_t i = 0; i < r->n_tensors; i++)
        td_tensor_release(r->tensors[i]);
    td_mem_free(r->tensors, (size_t)r->tensor_room * sizeof *r->tensors);
    r->tensors = NULL, r->n_tensors = 0;
}

static void stop(td_recording *r)
{
    if (r->recording && td_recording_now == r) {
        td_recording_now = NULL;
        td_masks_now.include &= ~TD_KEYSET(TD_KEY_TRACING);
    }
    r->recording = false;
}

void td_recording_release(td_recording *r)
{
    if (!r)
        return;
    stop(r);
    for (int32_t i = 0; i < r->n_calls; i++)
        drop_call(&r->calls[i]);
    release_tensors(r);
    td_mem_free(r->calls, (size_t)r->call_room * sizeof *r->calls);
    td_mem_free(r->table, (size_t)r->table_size * sizeof *r->table);
    td_mem_free(r->outputs, (size_t)r->n_outputs * sizeof *r->outputs);
    td_mem_free(r, sizeof *r);
}

td_recording *td_record_begin(int n_inputs, td_tensor *const *inputs)
{
    enum { ROOM = 32 };
    if (td_recording_now || td_watch_now.watcher)
        return td_fail(TD_E_RUNTIME, "this thread's calls are %s already", td_recording_now ? "recorded" : "watched");
    if (td_tracing_start() != 0)
        return NULL;
    td_recording *r = td_mem_alloc_zero(sizeof *r);
    if (!r)
        return NULL;
    r->call_room = r->tensor_room = ROOM, r->table_size = 2 * ROOM;
    r->calls = td_mem_alloc(ROOM * sizeof *r->calls);
    r->tensors = td_mem_alloc(ROOM * sizeof *r->tensors);
    r->table = td_mem_alloc_zero(2 * ROOM * sizeof *r->table);
    bool good = r->calls && r->tensors && r->table;
    for (int i = 0; i < n_inputs && good; i++) {
        good = inputs[i] && inputs[i] != TD_NONE && number_of(r, inputs[i]) == i;
        if (!good && td_error_code() == TD_OK)
            td_error(TD_E_VALUE, "td_record_begin: input %d is no tensor, or one of the inputs before", i);
    }
    if (!good) {
        td_recording_release(r);
        return NULL;
    }
    r->n_inputs = n_inputs;
    r->recording = true;
    td_recording_now = r;
    td_masks_now.include |= TD_KEYSET(TD_KEY_TRACING);
    return r;
}

int td_record_end(td_recording *r, int n_outputs, td_tensor *const *outputs)
{
    if (!r || !r->recording || td_recording_now != r)
        return td_error(TD_E_RUNTIME, "td_record_end: this thread isn't recording that");
    stop(r);
    if (r->failed)
        return td_error(TD_E_MEMORY, "td_record_end: there was no memory for all calls");
    if (!(r->outputs = td_mem_alloc((size_t)n_outputs * sizeof *r->outputs)))
        return -1;
    r->n_outputs = n_outputs;
    for (int i = 0; i < n_outputs; i++)
        if ((r->outputs[i] = outputs[i] && outputs[i] != TD_NONE ? find(r, outputs[i]) : -1) < 0)
            return td_error(TD_E_VALUE, "td_record_end: output %d is not among what was recorded", i);
    /* What the calls give is not kept, nor are the inputs: only what a replay can't make itself. */
    for (int32_t i = 0; i < r->n_inputs; i++)
        td_tensor_release(r->tensors[i]), r->tensors[i] = NULL;
    for (int32_t i = 0; i < r->n_calls; i++) {
        const call *c = &r->calls[i];
        for (int32_t k = c->n_operands; k < c->n_numbers; k++) {
            bool operand = false;               /* returned, as in-place operators give self */
            for (int32_t o = 0; o < c->n_operands; o++)
                operand |= c->numbers[o] == c->numbers[k];
            if (c->numbers[k] >= 0 && !operand) {
                td_tensor_release(r->tensors[c->numbers[k]]);
                r->tensors[c->numbers[k]] = NULL;
            }
        }
    }
    return 0;
}

int td_recording_inputs(const td_recording *r) { return r->n_inputs; }
int td_recording_outputs(const td_recording *r) { return r->n_outputs; }
int td_recording_calls(const td_recording *r) { return r->n_calls; }
const td_op *td_recording_call(const td_recording *r, int i) { return i >= 0 && i < r->n_calls ? r->calls[i].op : NULL; }

/* ---- again */

typedef struct replay { td_tensor **now; td_value *values; td_tensor **members; int32_t *last; } replay;

static int play(const td_recording *r, const call *c, replay *p)
{
    const int32_t *number = c->numbers;
    td_tensor **members = p->members;
    for (int i = 0; i < c->op->info.n_arguments; i++) {
        td_value *v = &p->values[i];
        *v = c->values[i];
        int count = v->kind == TD_VALUE_TENSOR ? 1 : v->kind == TD_VALUE_TENSORS ? v->count : 0;
        for (int k = 0; k < count; k++, number++) {
            td_tensor *x = *number < 0 ? TD_NONE : p->now[*number] ? p->now[*number] : r->tensors[*number];
            if (v->kind == TD_VALUE_TENSOR)
                v->tensor = x;
            else
                members[k] = x;
        }
        if (v->kind == TD_VALUE_TENSORS) {
            v->tensors = members;
            members += count;
        }
    }
    td_value results[16] = {{0}};
    if (td_op_call(c->op, p->values, results) != 0)
        return -1;
    const int32_t *end = c->numbers + c->n_numbers;
    int status = 0;
    for (int i = 0; i < c->op->info.n_results; i++) {
        const td_value *v = &results[i];
        int count = v->kind == TD_VALUE_TENSOR ? 1 : v->kind == TD_VALUE_TENSORS ? v->count : 0;
        for (int k = 0; k < count && status == 0; k++, number++) {
            td_tensor *x = v->kind == TD_VALUE_TENSOR ? v->tensor : v->tensors[k];
            if (number == end)
                status = td_error(TD_E_RUNTIME, "replay: %s gave more tensors than when it was recorded", c->op->info.name);
            else if (*number >= 0 && p->now[*number] != x) {
                td_tensor_release(p->now[*number]);
                p->now[*number] = td_tensor_retain(x);
            }
        }
    }
    td_values_release(results, c->op->info.n_results);
    if (status == 0 && number != end)
        status = td_error(TD_E_RUNTIME, "replay: %s gave fewer tensors than when it was recorded", c->op->info.name);
    return status;
}

/* What isn't used any more is let go of at once, as a program does. */
static void let_go(const call *c, int32_t at, replay *p)
{
    for (int32_t k = 0; k < c->n_numbers; k++)
        if (c->numbers[k] >= 0 && p->last[c->numbers[k]] == at) {
            td_tensor_release(p->now[c->numbers[k]]);
            p->now[c->numbers[k]] = NULL;
        }
}

int td_recording_play(const td_recording *r, td_tensor *const *inputs, td_tensor **outputs)
{
    if (!r || r->recording || (!r->outputs && r->n_outputs))
        return td_error(TD_E_RUNTIME, "td_recording_play: the recording hasn't ended");
    int32_t values = 1, members = 1;
    for (int32_t i = 0; i < r->n_calls; i++) {
        values = r->calls[i].op->info.n_arguments > values ? r->calls[i].op->info.n_arguments : values;
        members = r->calls[i].n_operands > members ? r->calls[i].n_operands : members;
    }
    size_t bytes = (size_t)r->n_tensors * (sizeof(td_tensor *) + sizeof(int32_t)) + (size_t)values * sizeof(td_value) +
                   (size_t)members * sizeof(td_tensor *);
    char *block = td_mem_alloc_zero(bytes);
    if (!block)
        return -1;
    replay p = {.values = (td_value *)block};
    p.now = (td_tensor **)(p.values + values);
    p.members = p.now + r->n_tensors;
    p.last = (int32_t *)(p.members + members);
    for (int32_t i = 0; i < r->n_tensors; i++)
        p.last[i] = -1;
    for (int32_t i = 0; i < r->n_calls; i++)
        for (int32_t k = 0; k < r->calls[i].n_numbers; k++)
            if (r->calls[i].numbers[k] >= 0)
                p.last[r->calls[i].numbers[k]] = i;
    for (int i = 0; i < r->n_outputs; i++)
        p.last[r->outputs[i]] = r->n_calls;
    int status = 0;
    for (int i = 0; i < r->n_inputs && status == 0; i++) {
        if (!inputs[i])
            status = td_error_code() != TD_OK ? -1 : td_error(TD_E_RUNTIME, "td_recording_play: input %d is NULL", i);
        else
            p.now[i] = td_tensor_retain(inputs[i]);
    }
    for (int32_t i = 0; i < r->n_calls && status == 0; i++) {
        status = play(r, &r->calls[i], &p);
        if (status == 0)
            let_go(&r->calls[i], i, &p);
    }
    for (int i = 0; i < r->n_outputs && status == 0; i++) {
        int32_t number = r->outputs[i];
        outputs[i] = td_tensor_retain(p.now[number] ? p.now[number] : r->tensors[number]);
    }
    for (int32_t i = 0; i < r->n_tensors; i++)
        td_tensor_release(p.now[i]);
    td_mem_free(block, bytes);
    return status;
}

/* ---- as text */

typedef struct text { char *start; size_t length, room; bool failed; } text;

static void __attribute__((format(printf, 2, 3))) put(text *t, const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    int n = vsnprintf(line, sizeof line, format, list);
    va_end(list);
    size_t length = n < 0 ? 0 : (size_t)n < sizeof line ? (size_t)n : sizeof line - 1;
    if (t->failed)
        return;
    if (t->length + length + 1 > t->room) {
        size_t room = 2 * t->room + length + 256;
        char *more = td_mem_realloc(t->start, t->room, room);
        if (!more) {
            t->failed = true;
            return;
        }
        t->start = more, t->room = room;
    }
    memcpy(t->start + t->length, line, length + 1);
    t->length += length;
}

static void put_number(text *t, int32_t number)
{
    if (number < 0)
        put(t, "None");
    else
        put(t, "%%%d", number);
}

static void put_scalar(text *t, td_scalar s)
{
    if (s.kind == TD_SCALAR_BOOL)
        put(t, "%s", s.i ? "True" : "False");
    else if (s.kind == TD_SCALAR_INT || s.kind == TD_SCALAR_UINT)
        put(t, s.kind == TD_SCALAR_INT ? "%" PRId64 : "%" PRIu64, s.i);
    else if (s.kind == TD_SCALAR_FLOAT)
        put(t, "%g", s.d);
    else
        put(t, "(%g%+gj)", s.d, s.imag);
}

static void put_value(text *t, const td_value *v, const int32_t **number)
{
    char device[32];
    switch (v->kind) {
    case TD_VALUE_TENSOR: put_number(t, *(*number)++); return;
    case TD_VALUE_BOOL: put(t, "%s", v->integer ? "True" : "False"); return;
    case TD_VALUE_INT: case TD_VALUE_LAYOUT: case TD_VALUE_MEMORY_FORMAT: put(t, "%" PRId64, v->integer); return;
    case TD_VALUE_FLOAT: put(t, "%g", v->number); return;
    case TD_VALUE_SCALAR: put_scalar(t, v->scalar); return;
    case TD_VALUE_STRING: put(t, "'%s'", v->string ? v->string : ""); return;
    case TD_VALUE_DTYPE: put(t, "%s", td_dtype_name((td_dtype)v->integer)); return;
    case TD_VALUE_DEVICE: put(t, "'%s'", td_device_str(v->device, device)); return;
    case TD_VALUE_GENERATOR: put(t, "generator"); return;
    case TD_VALUE_NONE: put(t, "None"); return;
    default: break;
    }
    put(t, "[");
    for (int i = 0; i < v->count; i++) {
        put(t, "%s", i ? ", " : "");
        switch (v->kind) {
        case TD_VALUE_TENSORS: put_number(t, *(*number)++); break;
        case TD_VALUE_INTS: put(t, "%" PRId64, v->ints[i]); break;
        case TD_VALUE_FLOATS: put(t, "%g", v->numbers[i]); break;
        case TD_VALUE_BOOLS: put(t, "%s", v->bools[i] ? "True" : "False"); break;
        default: put_scalar(t, v->scalars[i]); break;
        }
    }
    put(t, "]");
}

/* Arguments that are what the schema says anyway are left out, but for tensors. */
static bool is_default(const td_arg *a, const td_value *v)
{
    const td_value *d = &a->default_value;
    if (!a->has_default || v->kind == TD_VALUE_TENSOR || v->kind == TD_VALUE_TENSORS)
        return false;
    if (v->kind != d->kind || v->kind == TD_VALUE_NONE)
        return v->kind == TD_VALUE_NONE && d->kind == TD_VALUE_NONE;
    if (v->kind == TD_VALUE_SCALAR)
        return td_scalar_double(v->scalar) == td_scalar_double(d->scalar);
    if (v->kind == TD_VALUE_FLOAT)
        return v->number == d->number;
    if (v->kind == TD_VALUE_STRING)
        return v->string && d->string && !strcmp(v->string, d->string);
    if (v->kind == TD_VALUE_DEVICE)
        return v->device.type == d->device.type;
    if (list_bytes(v) || v->kind >= TD_VALUE_INTS)
        return v->kind != TD_VALUE_GENERATOR && v->count == d->count && !memcmp(v->ints, d->ints, list_bytes(v));
    return v->integer == d->integer;
}

char *td_recording_str(const td_recording *r)
{
    text t = {0};
    put(&t, "graph(");
    for (int32_t i = 0; i < r->n_inputs; i++)
        put(&t, "%s%%%d", i ? ", " : "", i);
    put(&t, "):\n");
    for (int32_t i = 0; i < r->n_calls; i++) {
        const call *c = &r->calls[i];
        const td_op_info *info = &c->op->info;
        const int32_t *number = c->numbers;
        put(&t, "  ");
        for (int32_t k = c->n_operands; k < c->n_numbers; k++) {
            put(&t, "%s", k > c->n_operands ? ", " : "");
            put_number(&t, c->numbers[k]);
        }
        put(&t, "%s%s::%s%s%s(", c->n_numbers > c->n_operands ? " = " : "", info->space ? info->space : "aten", info->name,
            *info->overload ? "." : "", info->overload);
        bool first = true, skipped = false;
        for (int a = 0; a < info->n_arguments; a++) {
            const td_arg *argument = &info->arguments[a];
            if (is_default(argument, &c->values[a])) {
                skipped = true;
                continue;
            }
            put(&t, "%s", first ? "" : ", ");
            if (skipped || argument->keyword_only)
                put(&t, "%s=", argument->name);
            put_value(&t, &c->values[a], &number);
            first = false;
        }
        put(&t, ")\n");
    }
    put(&t, "  return (");
    for (int32_t i = 0; i < r->n_outputs; i++) {
        put(&t, "%s", i ? ", " : "");
        put_number(&t, r->outputs[i]);
    }
    put(&t, ")\n");
    char *copy = t.failed ? NULL : td_string_copy(t.start);
    td_mem_free(t.start, t.room);
    return copy;
}
