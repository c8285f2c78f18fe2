/* Prints kernels: formulas, one or several joined, as loops over elements in the dialects of dialect.c.
 *
 * Each step of a formula becomes a named constant, so that what is printed reads like the formula.  What is known of a value is its
 * kind, as in codegen/value.py, whose rules these are: b a boolean, f, i and c a number of the dtype that is computed in,
 * r a real one among complex ones.  A complex number is a struct (src/formula/complex.h), so its arithmetic is calls of functions.
 *
 * Between formulas, inputs and outputs a value stands for an element of a dtype, in the type that this dtype is computed in: a
 * float16 is a float that float16 has, an int8 an int32_t from -128 to 127.  So a consumer reads what it would have read
 * from memory. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/base.h"
#include "formula/dialect.h"
#include "formula/formula.h"
#include "formula/maths.h"
#include "formula/text.h"

enum { MOST_PIECES = 1024 };

/* The types that are computed in. */
typedef struct compute { char suffix[5], type[16], wrapping[9], kind; const struct compute *real; } compute;
static const compute f32 = {"f32", "float", "", 'f', NULL}, f64 = {"f64", "double", "", 'f', NULL},
    c64 = {"c64", "td_c64", "", 'c', &f32}, c128 = {"c128", "td_c128", "", 'c', &f64},
    i32 = {"i32", "int32_t", "uint32_t", 'i', NULL}, i64 = {"i64", "int64_t", "uint64_t", 'i', NULL},
    u64 = {"u64", "uint64_t", "uint64_t", 'i', NULL}, f16 = {"f16", "td_f16", "", 'f', NULL}, bf16 = {"bf16", "td_bf16", "", 'f', NULL};
static const struct { const compute *in; char stored[16]; } of_dtype[TD_DTYPES] = {
    [TD_BOOL] = {&i32, "uint8_t"}, [TD_U8] = {&i32, "uint8_t"}, [TD_I8] = {&i32, "int8_t"}, [TD_I16] = {&i32, "int16_t"},
    [TD_U16] = {&i32, "uint16_t"}, [TD_I32] = {&i32, "int32_t"}, [TD_I64] = {&i64, "int64_t"}, [TD_U32] = {&i64, "uint32_t"},
    [TD_U64] = {&u64, "uint64_t"}, [TD_F16] = {&f32, "td_f16"}, [TD_BF16] = {&f32, "td_bf16"}, [TD_F32] = {&f32, "float"},
    [TD_F64] = {&f64, "double"}, [TD_C64] = {&c64, "td_c64"}, [TD_C128] = {&c128, "td_c128"},
};

td_type_names td_names_of_dtype(td_dtype dtype)
{
    if ((unsigned)dtype >= TD_DTYPES || !of_dtype[dtype].in)
        return (td_type_names){NULL, NULL, NULL, 0};
    const compute *in = of_dtype[dtype].in;
    return (td_type_names){of_dtype[dtype].stored, in->type, in->suffix, in->kind};
}

typedef struct printer {
    const td_dialect_table *dialect;
    td_text  out;                       /* the kernels */
    uint8_t  used[MOST_PIECES];
    uint32_t features;                  /* that the kernels need, besides the pieces */
} printer;

typedef struct value { char text[80]; char kind; } value;

/* ---- functions of mathematics */

/* The piece that defines a name, or -1. */
static int piece_of(const char *name)
{
    int low = 0, high = td_maths_name_count;
    while (low < high) {
        int middle = (low + high) / 2, order = strcmp(td_maths_words + td_maths_names[middle].name, name);
        if (order == 0)
            return td_maths_names[middle].piece;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

/* With what it needs.  What the dialect defines itself needs nothing. */
static const char *own_text(const printer *p, int piece);
static void use_piece(printer *p, int i)
{
    if (p->used[i])
        return;
    p->used[i] = 1;
    for (int k = td_maths_pieces[i].needs; k < td_maths_pieces[i + 1].needs && !own_text(p, i); k++)
        use_piece(p, td_maths_needs[k]);
}

static const char *own_text(const printer *p, int piece)
{
    for (const td_own_piece *own = p->dialect->own; own->name; own++)
        if (piece_of(own->name) == piece)
            return own->text;
    return NULL;
}

/* A function that is called; -1 with an error if it is none. */
static int use(printer *p, const char *name)
{
    int piece = piece_of(name);
    if (piece < 0)
        return td_error(TD_E_NOT_IMPLEMENTED, "a formula calls %s, which isn't there", name);
    use_piece(p, piece);
    return 0;
}

/* What a piece lacks in this dialect, or NULL. */
static const char *lacks(const printer *p, uint32_t features)
{
    uint32_t missing = features & ~p->dialect->features;
    return missing & TD_NEEDS_LONG_DOUBLE ? "long double" : missing & TD_NEEDS_BESSEL ? "Bessel functions" : missing ? "double" : NULL;
}

/* ---- values */

static const char *type_of(char kind, const compute *in) { return kind == 'b' ? "int" : kind == 'r' ? in->real->type : in->type; }

static void let(printer *p, value *v, const compute *in, int call, int step, char kind)
{
    td_text_add(&p->out, "        const %s t%d_%d = ", type_of(kind, in), call, step);
    snprintf(v->text, sizeof v->text, "t%d_%d", call, step);
    v->kind = kind;
}

static void literal(value *v, double x, const compute *in)
{
    const compute *real = in->real ? in->real : in;
    char number[40];
    v->kind = in->real ? 'r' : in->kind;
    td_formula_number(x, number);
    if (in->kind == 'i') {
        snprintf(v->text, sizeof v->text, "(%s)%lld", in->type, (long long)x);
    } else if (x != x || isinf(x)) {
        snprintf(v->text, sizeof v->text, "%sTD_%s%s", x < 0 ? "(-" : "(", x != x ? "NAN" : "INF", real == &f64 ? ")" : "F)");
    } else {
        bool whole = !strpbrk(number, ".e");
        snprintf(v->text, sizeof v->text, "%s%s%s%s%s", x < 0 ? "(" : "", number, whole ? ".0" : "", real == &f64 ? "" : "f", x < 0 ? ")" : "");
    }
}

/* Puts a value into a call: td_NAME_SUFFIX(text more). */
static int put_into(printer *p, value *v, const char *name, const compute *in, const char *more, char kind)
{
    char full[32], text[sizeof v->text];
    snprintf(full, sizeof full, "td_%s_%s", name, in->suffix);
    p->out.failed |= snprintf(text, sizeof text, "%s(%s%s)", full, v->text, more) >= (int)sizeof text;
    memcpy(v->text, text, sizeof text);
    v->kind = kind;
    return use(p, full);
}

/* A value as a complex number; as one to compare with 0, which of a complex one is whether it isn't. */
static int lift(printer *p, value *v, const compute *in) { return v->kind == 'c' ? 0 : put_into(p, v, "make", in, ", 0", 'c'); }
static int truth(printer *p, value *v, const compute *in) { return v->kind != 'c' ? 0 : put_into(p, v, "truth", in, "", 'b'); }

/* `td_NAME_SUFFIX(a, b)`: the complex one if an argument is complex, else the real one. */
static int call_function(printer *p, const char *name, const compute *in, int n, value *arguments, value *result, int call, int step, char kind)
{
    const compute *which = in;
    char full[64];
    if (in->kind == 'c') {
        which = in->real;
        for (int i = 0; i < n; i++)
            which = arguments[i].kind == 'c' ? in : which;
    }
    snprintf(full, sizeof full, "td_%s_%s", name, which->suffix);
    for (int i = 0; i < n && which->kind == 'c'; i++)
        if (lift(p, &arguments[i], in))
            return -1;
    if (use(p, full))
        return -1;
    let(p, result, in, call, step, kind);
    td_text_add(&p->out, "%s(", full);
    for (int i = 0; i < n; i++)
        td_text_add(&p->out, "%s%s", i ? ", " : "", arguments[i].text);
    td_text_add(&p->out, ");\n");
    return 0;
}

static int named_step(printer *p, const td_formula_step *s, const compute *in, value *a, value *v, int call, int step)
{
    bool complex = false;
    for (int i = 0; i < s->arity; i++)
        complex |= a[i].kind == 'c';
    if (!complex && (!strcmp(s->name, "conj") || !strcmp(s->name, "real"))) {
        *v = a[0];
        return 0;
    }
    char kind = s->result == TD_FORMULA_TRUTH ? 'b' : !complex ? a[0].kind : s->result == TD_FORMULA_REAL ? 'r' : 'c';
    return call_function(p, s->name, in, s->arity, a, v, call, step, kind);
}

static const char sign_of[TD_STEP_CODES][3] = {
    [TD_STEP_AND] = "&", [TD_STEP_OR] = "|", [TD_STEP_LT] = "<", [TD_STEP_LE] = "<=", [TD_STEP_GT] = ">", [TD_STEP_GE] = ">=",
    [TD_STEP_EQ] = "==", [TD_STEP_NE] = "!=", [TD_STEP_ADD] = "+", [TD_STEP_SUB] = "-", [TD_STEP_MUL] = "*", [TD_STEP_DIV] = "/",
    [TD_STEP_BIT_AND] = "&", [TD_STEP_BIT_OR] = "|", [TD_STEP_BIT_XOR] = "^",
};
static const char function_of[TD_STEP_CODES][12] = {
    [TD_STEP_MUL] = "mul", [TD_STEP_DIV] = "div", [TD_STEP_FLOOR_DIV] = "floor_div", [TD_STEP_REMAINDER] = "remainder", [TD_STEP_POW] = "pow",
    [TD_STEP_SHIFT_LEFT] = "shl", [TD_STEP_SHIFT_RIGHT] = "shr",
};

/* Of complex numbers, one of which may be real: its functions leave the other part alone. */
static int complex_step(printer *p, td_formula_code code, const compute *in, value *a, value *v, int call, int step)
{
    static const char *const names[TD_STEP_CODES] = {
        [TD_STEP_ADD] = "add", [TD_STEP_SUB] = "sub", [TD_STEP_MUL] = "mul", [TD_STEP_DIV] = "div", [TD_STEP_POW] = "pow", [TD_STEP_EQ] = "equal",
        [TD_STEP_NE] = "differ",
    };
    const int which = a[0].kind != 'c';         /* a complex one */
    const char *name = names[code];
    if (!name)
        return td_error(TD_E_NOT_IMPLEMENTED, "a formula orders complex numbers, or divides them as integers");
    if (a[!which].kind == 'c' || code <= TD_STEP_NE || code == TD_STEP_POW || (code == TD_STEP_DIV && which))
        return call_function(p, name, in, 2, a, v, call, step, code <= TD_STEP_NE ? 'b' : 'c');
    if (code == TD_STEP_SUB && which && put_into(p, &a[1], "neg", in, "", 'c'))
        return -1;
    name = code == TD_STEP_MUL ? "scale" : code == TD_STEP_DIV ? "div_real" : "add_real";
    char full[32];
    snprintf(full, sizeof full, "td_%s_%s", name, in->suffix);
    let(p, v, in, call, step, 'c');
    td_text_add(&p->out, "%s(%s, %s%s);\n", full, a[which].text, code == TD_STEP_SUB && !which ? "-" : "", a[!which].text);
    return use(p, full);
}

static int binary_step(printer *p, td_formula_code code, const compute *in, value *a, value *v, int call, int step)
{
    char ka = a[0].kind, kb = a[1].kind, kind = in->kind == 'c' ? 'r' : in->kind;
    if (code == TD_STEP_AND || code == TD_STEP_OR) {
        if (truth(p, &a[0], in) || truth(p, &a[1], in))
            return -1;
        let(p, v, in, call, step, 'b');
        td_text_add(&p->out, "(%s != 0) %s (%s != 0);\n", a[0].text, sign_of[code], a[1].text);
        return 0;
    }
    if (ka == 'c' || kb == 'c')
        return complex_step(p, code, in, a, v, call, step);
    if (code >= TD_STEP_LT && code <= TD_STEP_NE) {
        let(p, v, in, call, step, 'b');
        td_text_add(&p->out, "%s %s %s;\n", a[0].text, sign_of[code], a[1].text);
        return 0;
    }
    if (code >= TD_STEP_BIT_AND && code <= TD_STEP_BIT_XOR && ka == 'b' && kb == 'b')
        kind = 'b';
    if (!*sign_of[code] || (code == TD_STEP_DIV && kind == 'i'))
        return call_function(p, function_of[code], in, 2, a, v, call, step, kind);
    let(p, v, in, call, step, kind);
    if (kind == 'i' && code >= TD_STEP_ADD && code <= TD_STEP_MUL)      /* modulo 2^bits, whatever the compiler makes of overflow */
        td_text_add(&p->out, "(%s)((%s)%s %s (%s)%s);\n", in->type, in->wrapping, a[0].text, sign_of[code], in->wrapping, a[1].text);
    else
        td_text_add(&p->out, "%s %s %s;\n", a[0].text, sign_of[code], a[1].text);
    return 0;
}

static char kind_of_choice(const value *a)
{
    for (const char *kinds = "cfir"; *kinds; kinds++)
        if (a[1].kind == *kinds || a[2].kind == *kinds)
            return *kinds;
    return 'b';
}

/* The steps of a call, as constants; the value of the last one. */
static int print_steps(printer *p, const td_formula *f, const td_steps *s, const compute *in, const value *operands, const value *parameters,
                       int call, value *result)
{
    value values[TD_MOST_STEPS];
    for (int i = 0; i < s->count; i++) {
        const td_formula_step *step = &s->steps[i];
        value a[3], *v = &values[i];
        for (int k = 0; k < step->arity; k++)
            a[k] = values[s->arguments[i][k]];
        switch (step->code) {
        case TD_STEP_OPERAND: *v = operands[step->index]; break;
        case TD_STEP_PARAMETER: *v = parameters[step->index]; break;
        case TD_STEP_NUMBER: literal(v, step->number, in); break;
        case TD_STEP_FALSE: case TD_STEP_TRUE: *v = (value){{step->code == TD_STEP_TRUE ? '1' : '0'}, 'b'}; break;
        case TD_STEP_NOT:
        case TD_STEP_TRUTH:
            if (truth(p, &a[0], in))
                return -1;
            let(p, v, in, call, i, 'b');
            td_text_add(&p->out, "%s %s 0;\n", a[0].text, step->code == TD_STEP_NOT ? "==" : "!=");
            break;
        case TD_STEP_INVERT:
            let(p, v, in, call, i, a[0].kind);
            td_text_add(&p->out, "~%s;\n", a[0].text);
            break;
        case TD_STEP_NEGATE:
            if (a[0].kind == 'c') {
                if (call_function(p, "neg", in, 1, a, v, call, i, 'c'))
                    return -1;
                break;
            }
            let(p, v, in, call, i, a[0].kind == 'b' && in->kind == 'i' ? 'i' : a[0].kind);
            if (in->kind == 'i')
                td_text_add(&p->out, "(%s)(0 - (%s)%s);\n", in->type, in->wrapping, a[0].text);
            else
                td_text_add(&p->out, "-%s;\n", a[0].text);
            break;
        case TD_STEP_CAST:
            let(p, v, in, call, i, in->kind == 'c' ? 'r' : in->kind);
            td_text_add(&p->out, "(%s)%s;\n", in->kind == 'c' ? in->real->type : in->type, a[0].text);
            break;
        case TD_STEP_WHERE:
            if (kind_of_choice(a) == 'c' && (lift(p, &a[1], in) || lift(p, &a[2], in)))
                return -1;
            let(p, v, in, call, i, kind_of_choice(a));
            td_text_add(&p->out, "%s ? %s : %s;\n", a[0].text, a[1].text, a[2].text);
            break;
        case TD_STEP_CALL:
            if (named_step(p, step, in, a, v, call, i))
                return -1;
            break;
        default:
            if (binary_step(p, step->code, in, a, v, call, i))
                return -1;
        }
    }
    (void)f;
    *result = values[s->count - 1];
    return 0;
}

/* ---- between dtypes */

/* Writes the value `x` of a dtype as one of another, in the type that is computed in. */
static int put_converted(printer *p, const char *x, td_dtype from, td_dtype to)
{
    const compute *cf = of_dtype[from].in, *ct = of_dtype[to].in;
    char part[64], made[32];
    snprintf(made, sizeof made, "td_make_%s", ct->suffix);
    if (cf->kind == 'c' && ct->kind == 'c' && cf != ct) {
        td_text_add(&p->out, "%s((%s)%s.real, (%s)%s.imag)", made, ct->real->type, x, ct->real->type, x);
        return use(p, made);
    }
    if (cf->kind == 'c' && ct->kind != 'c') {
        snprintf(part, sizeof part, to == TD_BOOL ? "(%s.real != 0 || %s.imag != 0)" : "%s.real", x, x);
        x = part;
    }
    bool of_float = cf->kind != 'i';
    if (from == to || (cf == ct && ct->kind != 'i')) {
        td_text_add(&p->out, "%s", x);
    } else if (to == TD_BOOL) {
        td_text_add(&p->out, "(int32_t)(%s != 0)", x);
    } else if (ct->kind == 'c' && cf->kind != 'c') {
        td_text_add(&p->out, "%s((%s)%s, 0)", made, ct->real->type, x);
        return use(p, made);
    } else if (ct == &i32 && to != TD_I32) {
        td_text_add(&p->out, "(int32_t)(%s)%s%s", of_dtype[to].stored, of_float ? "(int32_t)" : "", x);
    } else if (to == TD_U32) {
        td_text_add(&p->out, "(int64_t)(uint32_t)%s%s", of_float ? "(int64_t)" : "", x);
    } else {
        td_text_add(&p->out, "(%s)%s", ct->type, x);
    }
    return 0;
}

/* Declares a constant NAME for the value `x` of a dtype as one of another. */
static int convert(printer *p, const char *name, const char *x, td_dtype from, td_dtype to)
{
    td_text_add(&p->out, "        const %s %s = ", of_dtype[to].in->type, name);
    int status = put_converted(p, x, from, to);
    td_text_add(&p->out, ";\n");
    return status;
}

static bool is_half(td_dtype dtype) { return dtype == TD_F16 || dtype == TD_BF16; }

/* Declares a constant NAME for a number that was computed for a dtype: as it would be read back from memory.  Of halves there is NAME_bits,
 * too, which is what memory would hold. */
static int round_to(printer *p, const char *name, const value *v, td_dtype dtype, bool own_halves)
{
    const compute *in = of_dtype[dtype].in;
    if (is_half(dtype)) {
        const char *to = dtype == TD_F16 ? "td_f32_to_f16" : "td_f32_to_bf16", *from = dtype == TD_F16 ? "td_f16_to_f32" : "td_bf16_to_f32";
        if (use(p, from) || (!own_halves && use(p, to)))
            return -1;
        td_text_add(&p->out, own_halves ? "        const %s %s_bits = %.0s%s;\n" : "        const %s %s_bits = %s(%s);\n", of_dtype[dtype].stored, name, to, v->text);
        td_text_add(&p->out, "        const %s %s = %s(%s_bits);\n", in->type, name, from, name);
        return 0;
    }
    td_text_add(&p->out, "        const %s %s = ", in->type, name);
    if (dtype == TD_BOOL)
        td_text_add(&p->out, "(int32_t)(%s != 0)", v->text);
    else if (in->kind == 'i' && strcmp(of_dtype[dtype].stored, in->type))
        td_text_add(&p->out, "(%s)(%s)%s", in->type, of_dtype[dtype].stored, v->text);
    else
        td_text_add(&p->out, "%s", v->text);
    td_text_add(&p->out, ";\n");
    return 0;
}

/* ---- kernels */

static td_formula_kind kind_of(td_dtype dtype)
{
    return dtype == TD_BOOL ? TD_FORMULA_BOOL : of_dtype[dtype].in->kind == 'i' ? TD_FORMULA_INT
         : of_dtype[dtype].in->kind == 'c' ? TD_FORMULA_COMPLEX : TD_FORMULA_DEFAULT;
}

static td_dtype result_of(const td_formula_call *c)
{
    return c->formula->result == TD_FORMULA_TRUTH ? TD_BOOL : c->formula->result == TD_FORMULA_REAL ? td_dtype_to_real(c->dtype) : c->dtype;
}

static int check_kernel(const td_formula_kernel *k)
{
    bool wrong = !k->name || !*k->name || k->n_inputs < 0 || k->n_calls < 0 || k->n_outputs < 1 || k->ndim < 0 || k->ndim > TD_MAX_DIMS;
    for (int i = 0; !wrong && i < k->n_inputs; i++)
        wrong = (unsigned)k->inputs[i] >= TD_DTYPES || !of_dtype[k->inputs[i]].in;
    for (int i = 0; !wrong && i < k->n_outputs; i++)
        wrong = (unsigned)k->outputs[i].dtype >= TD_DTYPES || !of_dtype[k->outputs[i].dtype].in || k->outputs[i].call >= k->n_calls ||
                -1 - k->outputs[i].call >= k->n_inputs;
    for (int c = 0; !wrong && c < k->n_calls; c++) {
        const td_formula_call *call = &k->calls[c];
        wrong = !call->formula || (unsigned)call->dtype >= TD_DTYPES || call->formula->n_operands > TD_MOST_OPERANDS ||
                call->formula->n_parameters > TD_MOST_OPERANDS;
        if (!wrong && (call->dtype > TD_C128 || !(call->formula->dtypes >> call->dtype & 1)))
            return td_error(TD_E_NOT_IMPLEMENTED, "kernel %s: call %d has no formula for %s", k->name, c, td_dtype_name(call->dtype));
        for (int i = 0; !wrong && i < call->formula->n_operands; i++)
            wrong = call->operands[i] >= k->n_inputs || -1 - call->operands[i] >= c;
    }
    return wrong ? td_error(TD_E_VALUE, "kernel %s: an input, call or output that isn't there", k->name ? k->name : "without a name") : 0;
}

/* Operands as the call wants them: masks as booleans, the others in its type. */
static int print_operands(printer *p, const td_formula_kernel *k, int c, const compute *in, value *operands)
{
    const td_formula_call *call = &k->calls[c];
    for (int i = 0; i < call->formula->n_operands; i++) {
        int of = call->operands[i];
        td_dtype from = of >= 0 ? k->inputs[of] : result_of(&k->calls[-1 - of]);
        char source[24];
        value *v = &operands[i];
        snprintf(source, sizeof source, of >= 0 ? "in%d" : "r%d", of >= 0 ? of : -1 - of);
        snprintf(v->text, sizeof v->text, "x%d_%d", c, i);
        v->kind = in->kind;
        if (call->formula->masks >> i & 1) {
            v->kind = 'b';
            td_text_add(&p->out, of_dtype[from].in->kind == 'c' ? "        const int %s = %s.real != 0 || %s.imag != 0;\n" : "        const int %s = %s != 0;\n", v->text,
                        source, source);
        } else if (in == &f16 || in == &bf16) {
            const char *to = in == &f16 ? "td_f32_to_f16" : "td_f32_to_bf16";
            if (use(p, to))
                return -1;
            td_text_add(&p->out, "        const %s %s = %s((float)%s);\n", in->type, v->text, to, source);
        } else if (convert(p, v->text, source, from, call->dtype)) {
            return -1;
        }
    }
    return 0;
}

static int print_call(printer *p, const td_formula_kernel *k, int c, int first_parameter)
{
    const td_formula_call *call = &k->calls[c];
    const td_formula *f = call->formula;
    const compute *in = of_dtype[call->dtype].in;
    value operands[TD_MOST_OPERANDS], parameters[TD_MOST_OPERANDS], result;
    td_steps steps;
    char name[16];
    bool own_halves = f->own_halves && (call->dtype == TD_F16 || call->dtype == TD_BF16);
    in = !own_halves ? in : call->dtype == TD_F16 ? &f16 : &bf16;
    if (td_formula_read(f, kind_of(call->dtype), &steps) || print_operands(p, k, c, in, operands))
        return -1;
    for (int i = 0; i < f->n_parameters; i++) {
        snprintf(parameters[i].text, sizeof parameters[i].text, "p%d", first_parameter + i);
        parameters[i].kind = in->kind;
    }
    if (print_steps(p, f, &steps, in, operands, parameters, c, &result))
        return -1;
    snprintf(name, sizeof name, "r%d", c);
    if (of_dtype[result_of(call)].in->kind == 'c' && lift(p, &result, in))
        return -1;
    if (f->result == TD_FORMULA_TRUTH && truth(p, &result, in))
        return -1;
    if (f->result == TD_FORMULA_TRUTH)
        return td_text_add(&p->out, "        const int32_t %s = %s != 0;\n", name, result.text), 0;
    return round_to(p, name, &result, result_of(call), own_halves);
}

static bool is_number(const td_formula_kernel *k, int input) { return k->numbers >> input & 1; }

/* A dtype's element, which is at `place`, as the constant in0, in1, ... */
static int print_load(printer *p, const td_formula_kernel *k, int i, const char *place)
{
    td_dtype dtype = k->inputs[i];
    td_text_add(&p->out, "        const %s in%d = ", of_dtype[dtype].in->type, i);
    if (is_number(k, i))
        td_text_add(&p->out, "values.in%d;\n", i);
    else if (dtype == TD_F16 || dtype == TD_BF16) {
        const char *from = dtype == TD_F16 ? "td_f16_to_f32" : "td_bf16_to_f32";
        td_text_add(&p->out, "%s(%s);\n", from, place);
        return use(p, from);
    } else {
        td_text_add(&p->out, dtype == TD_BOOL ? "%s != 0;\n" : "%s;\n", place);
    }
    return of_dtype[dtype].in->kind == 'c' ? use(p, dtype == TD_C64 ? "td_c64" : "td_c128") : 0;
}

static int print_store(printer *p, const td_formula_kernel *k, int i, const char *place)
{
    const td_formula_output *o = &k->outputs[i];
    char source[16], name[16];
    const bool copied = o->call < 0;
    const td_dtype from = copied ? k->inputs[-1 - o->call] : result_of(&k->calls[o->call]);
    if (!copied && is_half(from) && from == o->dtype)          /* it has been rounded to this */
        return td_text_add(&p->out, "        %s = r%d_bits;\n", place, o->call), 0;
    snprintf(source, sizeof source, copied ? "in%d" : "r%d", copied ? -1 - o->call : o->call);
    snprintf(name, sizeof name, "out%d", i);
    if (convert(p, name, source, from, o->dtype))
        return -1;
    if (is_half(o->dtype)) {
        const char *to = o->dtype == TD_F16 ? "td_f32_to_f16" : "td_f32_to_bf16";
        if (use(p, to))
            return -1;
        td_text_add(&p->out, "        %s = %s(%s);\n", place, to, name);
    } else {
        const bool complex = of_dtype[o->dtype].in->kind == 'c';            /* which isn't cast to its own type */
        td_text_add(&p->out, complex ? "        %s = %.0s%s;\n" : "        %s = (%s)%s;\n", place, of_dtype[o->dtype].stored, name);
    }
    return 0;
}

/* The calls' parameters: read from an array of scalars in C, members of `values` on a device. */
static void print_parameters(printer *p, const td_formula_kernel *k, bool host)
{
    int number = 0;
    for (int c = 0; c < k->n_calls; c++)
        for (int i = 0; i < k->calls[c].formula->n_parameters; i++, number++) {
            const compute *in = of_dtype[k->calls[c].dtype].in;
            char reader[24];
            if (!host) {
                td_text_add(&p->out, "    const %s p%d = values.p%d;\n", in->type, number, number);
                continue;
            }
            snprintf(reader, sizeof reader, "td_scalar_%s", in->suffix);
            if (in != &f64)          /* which the dialect defines */
                p->out.failed |= use(p, reader) != 0;
            td_text_add(&p->out, "    const %s p%d = %s((const td_scalar *)params + %d);\n", in->type, number, reader, number);
        }
}

static bool is_run(const td_formula_kernel *k, int r) { return r < k->n_outputs || !is_number(k, r - k->n_outputs); }
static const char *stored_in(const td_formula_kernel *k, int r)
{
    return of_dtype[r < k->n_outputs ? k->outputs[r].dtype : k->inputs[r - k->n_outputs]].stored;
}
static int elements_of_pack(const td_formula_kernel *k) { return k->pack > 1 ? k->pack : 1; }
/* Whether a run is read or written by packs. */
static bool is_packed(const td_formula_kernel *k, int r)
{
    return k->pack > 1 && is_run(k, r) && (r < k->n_outputs || !(k->constants >> (r - k->n_outputs) & 1));
}

/* What a device's kernel gets by value; before it the packs, r-th run's pack_r.  They are aligned as the widest load wants it, or to their size. */
static void print_values(printer *p, const td_formula_kernel *k)
{
    int runs = k->n_outputs + k->n_inputs - __builtin_popcount(k->numbers), number = 0;
    for (int r = 0; r < k->n_outputs + k->n_inputs; r++) {
        const size_t size = (size_t)elements_of_pack(k) * td_dtype_size(r < k->n_outputs ? k->outputs[r].dtype : k->inputs[r - k->n_outputs]);
        if (is_packed(k, r))
            td_text_add(&p->out, "typedef struct __attribute__((aligned(%d))) { %s at[%d]; } pack_%d_of_%s;\n", size < 16 ? (int)size : 16, stored_in(k, r),
                        k->pack, r, k->name);
    }
    td_text_add(&p->out, "typedef struct {\n    int64_t n;\n");
    if (k->ndim)
        td_text_add(&p->out, "    %s geometry[%d];\n", k->narrow ? "int32_t" : "int64_t", k->ndim * ((k->narrow ? 3 : 1) + runs));
    for (int i = 0; i < k->n_inputs; i++)
        if (is_number(k, i))
            td_text_add(&p->out, "    %s in%d;\n", of_dtype[k->inputs[i]].in->type, i);
    for (int c = 0; c < k->n_calls; c++)
        for (int i = 0; i < k->calls[c].formula->n_parameters; i++)
            td_text_add(&p->out, "    %s p%d;\n", of_dtype[k->calls[c].dtype].in->type, number++);
    td_text_add(&p->out, "} values_of_%s;\n", k->name);
}

/* Offsets of all runs from the number of an element or a pack: o0, o1, ...  A narrow division is a product with the size's reciprocal: Granlund,
 * Montgomery, "Division by Invariant Integers using Multiplication" (1994). */
static void print_offsets(printer *p, const td_formula_kernel *k, const char *geometry)
{
    int runs = k->n_outputs + k->n_inputs, before_strides = k->narrow ? 3 * k->ndim : k->ndim;
    td_text_add(&p->out, "        %s rest = i;\n        %s", k->narrow ? "uint32_t" : "int64_t", k->narrow ? "int32_t" : "int64_t");
    for (int r = 0; r < runs; r++)
        if (is_run(k, r))
            td_text_add(&p->out, "%s o%d = 0", r ? "," : "", r);
    td_text_add(&p->out, ";\n");
    for (int d = k->ndim - 1; d >= 0; d--) {
        td_text_add(&p->out, "        {\n");
        if (d == 0)
            td_text_add(&p->out, "            const %s at = %srest;\n", k->narrow ? "int32_t" : "int64_t", k->narrow ? "(int32_t)" : "");
        else if (k->narrow)
            td_text_add(&p->out, "            const uint32_t whole = ((uint32_t)((uint64_t)rest * (uint32_t)%s[%d] >> 32) + rest) >> %s[%d];\n"
                        "            const int32_t at = (int32_t)(rest - whole * (uint32_t)%s[%d]);\n            rest = whole;\n",
                        geometry, k->ndim + d, geometry, 2 * k->ndim + d, geometry, d);
        else
            td_text_add(&p->out, "            const int64_t size = %s[%d], at = rest %% size;\n            rest /= size;\n", geometry, d);
        for (int r = 0, row = 0; r < runs; r++)
            if (is_run(k, r))
                td_text_add(&p->out, "            o%d += at * %s[%d];\n", r, geometry, before_strides + row++ * k->ndim + d);
        td_text_add(&p->out, "        }\n");
    }
}

/* The name and type of each run, and where it comes from. */
static void print_head(printer *p, const td_formula_kernel *k, bool host)
{
    const char *begin = "(";
    if (!host)
        print_values(p, k);
    td_text_add(&p->out, host ? "void %s(int64_t n, char *const *runs, const void *params, const int64_t *geometry" : "KERNEL %s", k->name);
    for (int r = 0; r < k->n_outputs + k->n_inputs && !host; r++)
        if (is_run(k, r)) {
            td_text_add(&p->out, "%sBUFFER(run%d)", begin, r);
            begin = ", ";
        }
    td_text_add(&p->out, host ? ")\n{\n" : ", VALUES(values_of_%s, values))\n{\n    UNPACK(values_of_%s, values)\n", k->name, k->name);
    for (int r = 0; r < k->n_outputs + k->n_inputs; r++) {
        const bool out = r < k->n_outputs;
        const int number = out ? r : r - k->n_outputs;
        const char *type = stored_in(k, r), *constant = out ? "" : "const ", *name = out ? "output" : "input";
        if (host)
            td_text_add(&p->out, "    %s%s *%s%d = (%s%s *)runs[%d];\n", constant, type, name, number, constant, type, r);
        else if (is_run(k, r))
            td_text_add(&p->out, "    GLOBAL %s%s *%s%d = AT(%s%s, run%d);\n", constant, type, name, number, constant, type, r);
    }
    print_parameters(p, k, host);
}

static int print_calls(printer *p, const td_formula_kernel *k)
{
    for (int c = 0, first = 0; c < k->n_calls; first += k->calls[c++].formula->n_parameters)
        if (print_call(p, k, c, first))
            return -1;
    return 0;
}

static int print_host_loop(printer *p, const td_formula_kernel *k)
{
    char place[40];
    td_text_add(&p->out, "    (void)params, (void)geometry;\n%s    for (int64_t i = 0; i < n; i++) {\n", k->ndim ? "" : "#pragma GCC ivdep\n");
    if (k->ndim)
        print_offsets(p, k, "geometry");
    for (int i = 0; i < k->n_inputs; i++) {
        snprintf(place, sizeof place, k->ndim ? "input%d[o%d]" : "input%d[i]", i, k->n_outputs + i);
        if (print_load(p, k, i, place))
            return -1;
    }
    if (print_calls(p, k))
        return -1;
    for (int i = 0; i < k->n_outputs; i++) {
        snprintf(place, sizeof place, k->ndim ? "output%d[o%d]" : "output%d[i]", i, i);
        if (print_store(p, k, i, place))
            return -1;
    }
    td_text_add(&p->out, "    }\n");
    return 0;
}

/* Note [Packs]
 * Memory is reached fastest by wide, aligned loads, several of which are on their way at a time.  So a work item takes `depth` packs in a round,
 * a group's length apart: first it loads them all, then it computes and stores one after the other.  A pack is what lies at `pack` neighbouring
 * elements, in every run that isn't constant there; the last pack of contiguous runs may be shorter, its missing elements are read as
 * copies of its last one, so that no formula meets what no tensor holds.
 *
 * Where a formula is long its loop over a pack's elements isn't unrolled: what is computed outweighs what is loaded, and compilers would take
 * seconds. */
enum { LONG = 3000 };                   /* characters of the functions that are called */

static bool is_long(const printer *p)
{
    uint32_t size = 0;
    for (int i = 0; i < td_maths_piece_count; i++)
        size += p->used[i] && !own_text(p, i) ? td_maths_pieces[i + 1].text - td_maths_pieces[i].text : 0;
    return size > LONG;
}

/* Into load0, load1, ...: packs or, where a run is constant along a pack, elements. */
static void print_device_loads(printer *p, const td_formula_kernel *k)
{
    const int runs = k->n_outputs + k->n_inputs;
    const bool ragged = k->pack > 1 && !k->ndim;
    for (int r = 0; r < k->n_outputs; r++)
        td_text_add(&p->out, "                to%d[u] = o%d;\n", r, r);
    for (int r = k->n_outputs; r < runs; r++)
        if (is_run(k, r) && !is_packed(k, r))
            td_text_add(&p->out, "                load%d[u] = input%d[o%d];\n", r - k->n_outputs, r - k->n_outputs, r);
    if (ragged)
        td_text_add(&p->out, "                const int have = values.n - o0 < %d ? (int)(values.n - o0) : %d;\n                if (have == %d) {\n", k->pack, k->pack, k->pack);
    for (int r = k->n_outputs; r < runs; r++)
        if (is_packed(k, r))
            td_text_add(&p->out, "                load%d[u] = *(GLOBAL const pack_%d_of_%s *)(input%d + o%d);\n", r - k->n_outputs, r, k->name, r - k->n_outputs, r);
    if (!ragged)
        return;
    td_text_add(&p->out, "                } else {\n                    UNROLL\n                    for (int k = 0; k < %d; k++) {\n", k->pack);
    for (int r = k->n_outputs; r < runs; r++)
        if (is_packed(k, r))
            td_text_add(&p->out, "                        load%d[u].at[k] = input%d[o%d + (k < have ? k : have - 1)];\n", r - k->n_outputs, r - k->n_outputs, r);
    td_text_add(&p->out, "                    }\n                }\n");
}

static void print_device_stores(printer *p, const td_formula_kernel *k)
{
    if (!k->ndim)
        td_text_add(&p->out, "            const int have = values.n - to0[u] < %d ? (int)(values.n - to0[u]) : %d;\n            if (have == %d) {\n", k->pack, k->pack, k->pack);
    for (int r = 0; r < k->n_outputs; r++)
        td_text_add(&p->out, "            *(GLOBAL pack_%d_of_%s *)(output%d + to%d[u]) = store%d;\n", r, k->name, r, r, r);
    if (k->ndim)
        return;
    td_text_add(&p->out, "            } else {\n                UNROLL\n                for (int k = 0; k < %d; k++)\n                    if (k < have) {\n", k->pack);
    for (int r = 0; r < k->n_outputs; r++)
        td_text_add(&p->out, "                        output%d[to%d[u] + k] = store%d.at[k];\n", r, r, r);
    td_text_add(&p->out, "                    }\n            }\n");
}

static int print_device_loop(printer *p, const td_formula_kernel *k)
{
    const int pack = elements_of_pack(k), depth = k->depth > 1 ? k->depth : 1, runs = k->n_outputs + k->n_inputs;
    const char *index = k->narrow ? "uint32_t" : "int64_t", *offset = k->narrow && k->ndim ? "int32_t" : index;
    size_t loops[2];
    char place[40];
    td_text_add(&p->out, "    const %s packs = (%s)((values.n + %d) / %d);\n", index, index, pack - 1, pack);
    td_text_add(&p->out, "    for (%s first = (%s)GROUP * %d * LANES + LANE; first < packs; first += (%s)GROUPS * %d * LANES) {\n", index, index, depth, index, depth);
    for (int r = 0; r < runs; r++) {
        if (r < k->n_outputs)
            td_text_add(&p->out, "        %s to%d[%d];\n", offset, r, depth);
        else if (is_packed(k, r))
            td_text_add(&p->out, "        pack_%d_of_%s load%d[%d];\n", r, k->name, r - k->n_outputs, depth);
        else if (is_run(k, r))
            td_text_add(&p->out, "        %s load%d[%d];\n", stored_in(k, r), r - k->n_outputs, depth);
    }
    td_text_add(&p->out, "        UNROLL\n        for (int u = 0; u < %d; u++) {\n            const %s i = first + (%s)(u * LANES);\n            if (i < packs) {\n", depth, index, index);
    if (k->ndim)
        print_offsets(p, k, "values.geometry");
    for (int r = 0; r < runs && !k->ndim; r++)
        if (is_run(k, r))
            td_text_add(&p->out, "        const %s o%d = i * %d;\n", index, r, pack);
    print_device_loads(p, k);
    loops[0] = p->out.used + strlen("            }\n        }\n        ");
    td_text_add(&p->out, "            }\n        }\n        UNROLL\n        for (int u = 0; u < %d; u++) if (first + (%s)(u * LANES) < packs) {\n", depth, index);
    for (int r = 0; r < k->n_outputs && pack > 1; r++)
        td_text_add(&p->out, "        pack_%d_of_%s store%d;\n", r, k->name, r);
    loops[1] = p->out.used + strlen("        ");
    td_text_add(&p->out, pack > 1 ? "        UNROLL\n        for (int k = 0; k < %d; k++) {\n" : "        ", pack);
    for (int i = 0; i < k->n_inputs; i++) {
        snprintf(place, sizeof place, is_packed(k, k->n_outputs + i) ? "load%d[u].at[k]" : "load%d[u]", i);
        if (print_load(p, k, i, place))
            return -1;
    }
    if (print_calls(p, k))
        return -1;
    for (int r = 0; r < k->n_outputs; r++) {
        snprintf(place, sizeof place, pack > 1 ? "store%d.at[k]" : "output%d[to%d[u]]", r, r);
        if (print_store(p, k, r, place))
            return -1;
    }
    if (pack > 1) {
        td_text_add(&p->out, "        }\n");
        print_device_stores(p, k);
    }
    for (int i = 0; i < (pack > 1 ? 2 : 1) && is_long(p) && !p->out.failed; i++)
        memcpy(p->out.data + loops[i], "ROLLED", 6);
    td_text_add(&p->out, "        }\n    }\n");
    return 0;
}

static int print_kernel(printer *p, td_dialect dialect, const td_formula_kernel *k)
{
    const bool host = dialect == TD_DIALECT_C;
    if (check_kernel(k))
        return -1;
    if (host && (k->numbers || k->pack > 1 || k->depth > 1 || k->narrow))
        return td_error(TD_E_VALUE, "kernel %s: numbers by value, packs and narrow offsets are for devices", k->name);
    print_head(p, k, host);
    if (host ? print_host_loop(p, k) : print_device_loop(p, k))
        return -1;
    td_text_add(&p->out, "}\n");
    return 0;
}

/* The pieces that are used, in order; TD_E_NOT_IMPLEMENTED if the dialect lacks what one of them needs. */
static int print_pieces(printer *p, td_text *text)
{
    uint32_t needed = p->features;
    for (int i = 0; i < td_maths_piece_count; i++)
        needed |= p->used[i] && !own_text(p, i) ? td_maths_pieces[i].features : 0;
    const char *missing = lacks(p, needed);
    if (missing)
        return td_error(TD_E_NOT_IMPLEMENTED, "a formula needs %s, which %s hasn't", missing, p->dialect->name);
    td_text_add(text, "%s", needed & TD_NEEDS_DOUBLE ? p->dialect->head_of_double : "");
    td_text_put(text, p->dialect->head, strlen(p->dialect->head));
    for (int i = 0; i < td_maths_piece_count; i++)
        if (p->used[i]) {
            const char *own = own_text(p, i);
            uint32_t start = td_maths_pieces[i].text, end = td_maths_pieces[i + 1].text;
            td_text_put(text, own ? own : td_maths_text + start, own ? strlen(own) : end - start);
        }
    td_text_add(text, "%s", p->dialect->foot);
    td_text_put(text, p->dialect->work, strlen(p->dialect->work));
    return 0;
}

/* The pieces that a text names. */
static void use_named(printer *p, const char *text)
{
    char word[64];
    while (*text) {
        size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
        if (length && length < sizeof word && !strncmp(text, "td_", 3)) {
            memcpy(word, text, length);
            word[length] = 0;
            int piece = piece_of(word);
            if (piece >= 0)
                use_piece(p, piece);
        }
        text += length ? length : 1;
    }
}

/* A call of a kernel with one as a function of its operands and parameters, x0, x1, ..., p0, ...; a conversion if there is no formula. */
static int print_function(printer *p, const td_formula_function *f)
{
    static const int in_order[TD_MOST_OPERANDS] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const td_formula_call call = {f->formula, f->dtype, in_order};
    const td_formula_output output = {f->formula ? 0 : -1, f->dtype};
    const td_formula_kernel k = {.name = f->name, .n_inputs = f->n_operands, .n_calls = f->formula != NULL, .n_outputs = 1, .inputs = f->operands,
                                 .calls = &call, .outputs = &output};
    if (check_kernel(&k) || (f->formula && f->formula->n_operands != f->n_operands))
        return -1;
    const td_dtype result = f->formula ? result_of(&call) : f->dtype;
    td_text_add(&p->out, "TD_MATHS %s %s(", of_dtype[result].in->type, f->name);
    for (int i = 0; i < f->n_operands; i++)
        td_text_add(&p->out, "%sconst %s in%d", i ? ", " : "", of_dtype[f->operands[i]].in->type, i);
    for (int i = 0; f->formula && i < f->formula->n_parameters; i++)
        td_text_add(&p->out, "%sconst %s p%d", i || f->n_operands ? ", " : "", of_dtype[f->dtype].in->type, i);
    td_text_add(&p->out, ")\n{\n");
    if (f->formula) {
        if (print_call(p, &k, 0, 0))
            return -1;
        td_text_add(&p->out, "        return r0;\n}\n");
        return 0;
    }
    const value converted = {"x", 0};
    if (convert(p, converted.text, "in0", f->operands[0], f->dtype))
        return -1;
    if (round_to(p, "r0", &converted, f->dtype, false))
        return -1;
    td_text_add(&p->out, "        return r0;\n}\n");
    return 0;
}

/* The pieces of mathematics that were used, what was printed, and what the caller has to add. */
static char *finished(printer *p, int status, const char *more)
{
    td_text text = {0};
    use_named(p, more);
    status = status || print_pieces(p, &text);
    if (p->out.used)
        td_text_put(&text, p->out.data, p->out.used);
    td_text_put(&text, more, strlen(more));
    text.failed |= p->out.failed;
    td_text_drop(&p->out);
    if (!status)
        return td_text_end(&text);
    td_text_drop(&text);
    return NULL;
}

char *td_formula_print_functions(td_dialect dialect, int n, const td_formula_function *functions, const char *more)
{
    printer p = {.dialect = &td_dialect_tables[dialect]};
    int status = 0;
    for (int i = 0; i < n && !status; i++)
        status = print_function(&p, &functions[i]);
    return finished(&p, status, more);
}

char *td_formula_print(td_dialect dialect, int n_kernels, const td_formula_kernel *kernels, const char *more)
{
    if (dialect < 0 || dialect >= TD_DIALECTS || n_kernels < 0 || td_maths_piece_count > MOST_PIECES)
        return td_error(TD_E_VALUE, "td_formula_print: there is no dialect %d", (int)dialect), NULL;
    printer p = {.dialect = &td_dialect_tables[dialect]};
    int status = 0;
    for (int i = 0; i < n_kernels && !status; i++)
        status = print_kernel(&p, dialect, &kernels[i]);
    return finished(&p, status, more ? more : "");
}
