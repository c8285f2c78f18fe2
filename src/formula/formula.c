/* Formulas of operators: found by the row, read from their code, written as text. */
#include "formula/formula.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/base.h"
#include "formula/data.h"
#include "formula/text.h"

/* ---- finding them */

static bool name_of(const td_op *op, char *name, size_t size)
{
    const td_op_info *info = op ? td_op_describe(op) : NULL;
    if (!info || info->space)
        return false;
    snprintf(name, size, "aten::%s%s%s", info->name, *info->overload ? "." : "", info->overload);
    return true;
}

const char *td_formula_row(const td_op *op)
{
    char name[160];
    const char *at = name_of(op, name, sizeof name) ? td_formula_rows : "";
    while (*at) {
        const char *word = at + strlen(at) + 1;
        if (!strcmp(at, name))
            return word;
        at = word + strlen(word) + 1;
    }
    return NULL;
}

/* By name, so that rows need no pointers, which would be relocated whenever the library is loaded. */
static const td_formula_operator *find(const td_op *op)
{
    char name[160];
    if (!name_of(op, name, sizeof name))
        return NULL;
    int low = 0, high = td_formula_operator_count;
    while (low < high) {
        int middle = (low + high) / 2, order = strcmp(td_formula_words + td_formula_operators[middle].name, name);
        if (order == 0)
            return &td_formula_operators[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* The first entry of that sort, and of that name if there is one. */
static const td_formula_entry *entry(const td_op *op, int what, const char *word)
{
    const td_formula_operator *o = find(op);
    for (int i = 0; o && i < o->count; i++) {
        const td_formula_entry *e = &td_formula_entries[o->first + i];
        if (e->what == what && (!word || !strcmp(td_formula_words + e->word, word)))
            return e;
    }
    return NULL;
}

const td_formula *td_formula_of(const td_op *op, const char *choice)
{
    const td_formula_entry *e = entry(op, TD_FORMULA_OF_VALUE, choice && td_formula_choices(op) ? choice : NULL);
    return e ? td_formula_at(e->place) : NULL;
}

const char *td_formula_choices(const td_op *op)
{
    const td_formula_entry *e = entry(op, TD_FORMULA_CHOICES, NULL);
    return e ? td_formula_words + e->word : NULL;
}

const td_formula *td_formula_gradient(const td_op *op, const char *operand)
{
    const td_formula_entry *e = operand ? entry(op, TD_FORMULA_OF_GRADIENT, operand) : NULL;
    return e ? td_formula_at(e->place) : NULL;
}

const td_formula *td_formula_tangent(const td_op *op, const char *operand)
{
    const td_formula_entry *e = operand ? entry(op, TD_FORMULA_OF_TANGENT, operand) : NULL;
    return e ? td_formula_at(e->place) : NULL;
}

/* ---- reading them */

static int arity_of(td_formula_code code)
{
    return code == TD_STEP_WHERE ? 3 : code >= TD_STEP_AND ? 2 : code >= TD_STEP_NOT ? 1 : 0;
}

/* Behind the struct: the numbers, the names as one text, the code. */
static const double *numbers_of(const td_formula *f) { return (const double *)((const char *)f + f->size); }
static const char *names_of(const td_formula *f) { return (const char *)(numbers_of(f) + f->n_numbers); }

const uint8_t *td_formula_code_of(const td_formula *f, td_formula_kind kind)
{
    if (!f || kind < 0 || kind >= TD_FORMULA_KINDS)
        return NULL;
    /* bool is computed as integers are, where they are accepted. */
    if (kind == TD_FORMULA_BOOL && !f->starts[kind] && f->dtypes >> TD_I64 & 1)
        kind = TD_FORMULA_INT;
    return (const uint8_t *)names_of(f) + strlen(names_of(f)) + 1 + f->starts[kind];
}

int td_formula_next(const td_formula *f, const uint8_t **at, td_formula_step *step)
{
    const uint8_t *p = *at;
    if (*p == TD_STEP_END || *p >= TD_STEP_CODES)
        return 0;
    *step = (td_formula_step){.code = (td_formula_code)*p++};
    step->arity = arity_of(step->code);
    if (step->code == TD_STEP_OPERAND || step->code == TD_STEP_PARAMETER) {
        step->index = *p++;
    } else if (step->code == TD_STEP_NUMBER) {
        step->number = numbers_of(f)[*p++];
    } else if (step->code == TD_STEP_CALL) {
        step->arity = *p++;
        step->result = (td_formula_result)*p++;
        step->name = (const char *)p;
        p += strlen(step->name) + 1;
    }
    *at = p;
    return 1;
}

int td_formula_read(const td_formula *f, td_formula_kind kind, td_steps *s)
{
    const uint8_t *at = td_formula_code_of(f, kind);
    int stack[TD_MOST_STEPS], depth = 0;
    for (s->count = 0; at && s->count < TD_MOST_STEPS && td_formula_next(f, &at, &s->steps[s->count]); s->count++) {
        const td_formula_step *step = &s->steps[s->count];
        if (step->arity > depth || step->arity > 3)
            return td_error(TD_E_VALUE, "a formula's step %d takes %d values of %d", s->count, step->arity, depth);
        depth -= step->arity;
        for (int i = 0; i < step->arity; i++)
            s->arguments[s->count][i] = stack[depth + i];
        stack[depth++] = s->count;
    }
    return depth == 1 ? 0 : td_error(TD_E_VALUE, "a formula leaves %d values", depth);
}

const char *td_formula_name(const td_formula *f, int i, int *length)
{
    const char *word = i >= 0 && i < f->n_operands + f->n_parameters ? names_of(f) : NULL;
    for (; i > 0 && word; i--)
        word = (word = strchr(word, ' ')) ? word + 1 : NULL;
    *length = word ? (int)strcspn(word, " ") : 0;
    return word;
}

/* ---- as text */

void td_formula_number(double x, char *to)
{
    if (x != x || isinf(x)) {
        snprintf(to, 40, "%s", x != x ? "NAN" : x < 0 ? "-INF" : "INF");
        return;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(to, 40, "%.*g", digits, x);
        if (strtod(to, NULL) == x)
            break;
    }
    for (char *c = to; *c; c++)     /* of the locale */
        *c = *c == ',' ? '.' : *c;
}

static const struct { char sign[7]; int8_t binds; } sign_of[TD_STEP_CODES] = {
    [TD_STEP_OR] = {" or ", 1}, [TD_STEP_AND] = {" and ", 2}, [TD_STEP_NOT] = {"not ", 3},
    [TD_STEP_LT] = {" < ", 4}, [TD_STEP_LE] = {" <= ", 4}, [TD_STEP_GT] = {" > ", 4}, [TD_STEP_GE] = {" >= ", 4},
    [TD_STEP_EQ] = {" == ", 4}, [TD_STEP_NE] = {" != ", 4},
    [TD_STEP_BIT_OR] = {" | ", 5}, [TD_STEP_BIT_XOR] = {" ^ ", 6}, [TD_STEP_BIT_AND] = {" & ", 7},
    [TD_STEP_SHIFT_LEFT] = {" << ", 8}, [TD_STEP_SHIFT_RIGHT] = {" >> ", 8}, [TD_STEP_ADD] = {" + ", 9}, [TD_STEP_SUB] = {" - ", 9},
    [TD_STEP_MUL] = {" * ", 10}, [TD_STEP_DIV] = {" / ", 10}, [TD_STEP_FLOOR_DIV] = {" // ", 10}, [TD_STEP_REMAINDER] = {" % ", 10},
    [TD_STEP_NEGATE] = {"-", 11}, [TD_STEP_INVERT] = {"~", 11}, [TD_STEP_POW] = {" ** ", 12},
};

/* The expression that ends at a step, in brackets if its sign binds less than `least`. */
static void write_step(const td_formula *f, const td_steps *s, int at, int least, td_text *out)
{
    const td_formula_step *step = &s->steps[at];
    const int *arguments = s->arguments[at], binds = sign_of[step->code].binds;
    char number[40];
    int length;
    const char *name = step->code == TD_STEP_OPERAND || step->code == TD_STEP_PARAMETER
                     ? td_formula_name(f, step->index + (step->code == TD_STEP_OPERAND ? 0 : f->n_operands), &length) : NULL;
    if (binds) {
        bool power = step->code == TD_STEP_POW, compares = step->code >= TD_STEP_LT && step->code <= TD_STEP_NE;
        if (binds < least)
            td_text_put(out, "(", 1);
        if (step->arity == 2)
            write_step(f, s, arguments[0], binds + (power || compares), out);
        td_text_add(out, "%s", sign_of[step->code].sign);
        write_step(f, s, arguments[step->arity - 1], step->arity == 1 ? binds : binds + !power, out);
        if (binds < least)
            td_text_put(out, ")", 1);
    } else if (step->arity) {
        td_text_add(out, "%s(", step->code == TD_STEP_WHERE ? "where" : step->code == TD_STEP_TRUTH ? "truth" :
                                step->code == TD_STEP_CAST ? "number" : step->name);
        for (int i = 0; i < step->arity; i++) {
            td_text_put(out, ", ", i ? 2 : 0);
            write_step(f, s, arguments[i], 0, out);
        }
        td_text_put(out, ")", 1);
    } else if (name) {
        td_text_put(out, name, (size_t)length);
    } else if (step->code == TD_STEP_NUMBER) {
        td_formula_number(step->number, number);
        td_text_add(out, "%s", number);
    } else {
        td_text_add(out, "%s", step->code == TD_STEP_TRUE ? "True" : "False");
    }
}

char *td_formula_text(const td_formula *f, td_formula_kind kind)
{
    td_steps steps;
    td_text out = {0};
    if (!f || td_formula_read(f, kind, &steps))
        return f ? NULL : (td_error(TD_E_VALUE, "td_formula_text: no formula"), NULL);
    write_step(f, &steps, steps.count - 1, 0, &out);
    return td_text_end(&out);
}
