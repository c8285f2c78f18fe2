/* The source of a loop of a group: see Note [Loops of groups] in native_plan.c.
 *
 * Note [Stages]
 * A row is gone through once for each reduction that waits for another: a stage. What is the same along a row is computed between two stages. A value
 * that a later stage needs is computed again if that is short, else it is read from a result that has it, or kept in scratch: a row's
 * elements are in the cache by then. */
#include <stdio.h>
#include "formula/text.h"
#include "region/native.h"

enum { SHORT = 3, BLOCK = 4096, NAME = 8 };        /* SHORT: in units of td_pointwise's cost; BLOCK: elements that are summed in their own dtype */

typedef struct stages {
    const td_native_loop *l;
    td_text  text;
    int      n, n_saved;
    uint8_t  of[TD_NATIVE_STEPS];                           /* in which a value can be computed first */
    bool     needed[TD_NATIVE_STAGES][TD_NATIVE_STEPS], again[TD_NATIVE_STEPS];
    int16_t  saved[TD_NATIVE_STEPS], through[TD_NATIVE_STEPS];      /* its place in scratch, or the run that has it; or -1 */
    uint8_t  stored[TD_GROUP_TENSORS];                      /* the stage that writes a run */
} stages;

static td_type_names names_of(const td_native_step *s) { return td_names_of_dtype((td_dtype)s->dtype); }
static bool is_half(int dtype) { return dtype == TD_F16 || dtype == TD_BF16; }
static bool along_row(const td_native_run *run) { return run->spacing != TD_NATIVE_ONE; }

/* ---- which stage does what */

static int most(int a, int b) { return a > b ? a : b; }

static bool find_stages(stages *st)
{
    const td_native_loop *l = st->l;
    int costs[TD_NATIVE_STEPS];
    st->n = 1;
    for (int v = 0; v < l->n_steps; v++) {
        const td_native_step *s = &l->steps[v];
        st->saved[v] = st->through[v] = -1;
        int stage = 0;
        costs[v] = s->kind == TD_NATIVE_LOAD || s->kind == TD_NATIVE_REDUCE || !s->full ? 0 : s->cost;
        for (int k = 0; k < s->n; k++) {
            const int of = s->of[k];
            stage = most(stage, st->of[of] + (l->steps[of].kind == TD_NATIVE_REDUCE));
            costs[v] += s->kind == TD_NATIVE_REDUCE ? 0 : costs[of];
        }
        if (stage >= TD_NATIVE_STAGES - 1)
            return false;
        st->of[v] = (uint8_t)stage;
        st->again[v] = costs[v] <= SHORT;
        if (s->kind == TD_NATIVE_REDUCE)
            st->n = most(st->n, stage + 1);
    }
    for (int r = 0; r < l->n_runs; r++)
        if (l->runs[r].stored && along_row(&l->runs[r]))
            st->n = most(st->n, st->of[l->runs[r].value] + 1);
    return true;
}

static void find_needs(stages *st)
{
    const td_native_loop *l = st->l;
    for (int v = 0; v < l->n_steps; v++)
        if (l->steps[v].kind == TD_NATIVE_REDUCE)
            st->needed[st->of[v]][l->steps[v].of[0]] = true;
    for (int r = 0; r < l->n_runs; r++) {
        const td_native_run *run = &l->runs[r];
        if (!run->stored || !along_row(run))
            continue;
        /* What is read, too, is written when nobody reads it any more. */
        st->stored[r] = (uint8_t)(run->load >= 0 ? st->n - 1 : st->of[run->value]);
        st->needed[st->stored[r]][run->value] = true;
        if (run->load < 0 && run->spacing == TD_NATIVE_NEIGHBOURS)
            st->through[run->value] = (int16_t)r;
    }
    for (int t = st->n - 1; t >= 0; t--)
        for (int v = l->n_steps - 1; v >= 0; v--) {
            const td_native_step *s = &l->steps[v];
            if (!st->needed[t][v] || !s->full || s->kind == TD_NATIVE_LOAD)
                continue;
            if (st->of[v] == t || st->again[v]) {
                for (int k = 0; k < s->n; k++)
                    st->needed[t][s->of[k]] |= l->steps[s->of[k]].full;
            } else {
                st->needed[st->of[v]][v] = true;
                if (st->through[v] < 0 && st->saved[v] < 0)
                    st->saved[v] = (int16_t)st->n_saved++;
            }
        }
}

/* ---- text */

static void add_load(stages *st, const td_native_run *run, const char *indent, int v)
{
    const td_type_names names = td_names_of_dtype(run->x->dtype);
    char place[64];
    const int n = run->number;
    snprintf(place, sizeof place, run->spacing == TD_NATIVE_ONE ? "a%d[0]" : run->spacing == TD_NATIVE_NEIGHBOURS ? "a%d[i]" : "a%d[i * e%d]", n, n);
    td_text_add(&st->text, "%sconst %s v%d = ", indent, names.computed, v);
    if (is_half(run->x->dtype))
        td_text_add(&st->text, "td_%s_to_f32(%s);\n", run->x->dtype == TD_F16 ? "f16" : "bf16", place);
    else
        td_text_add(&st->text, run->x->dtype == TD_BOOL ? "%s != 0;\n" : "%s;\n", place);
}

static void add_store(stages *st, const td_native_run *run, const char *indent)
{
    const td_type_names names = td_names_of_dtype(run->x->dtype);
    const int n = run->number;
    td_text_add(&st->text, run->spacing == TD_NATIVE_ONE ? "%sa%d[0] = " : run->spacing == TD_NATIVE_NEIGHBOURS ? "%sa%d[i] = " : "%sa%d[i * e%d] = ", indent, n, n);
    if (run->x->dtype == TD_BF16)           /* which it has been rounded to */
        td_text_add(&st->text, "(td_bf16)(td_f32_bits(v%d) >> 16);\n", run->value);
    else if (run->x->dtype == TD_F16)
        td_text_add(&st->text, "td_f32_to_f16(v%d);\n", run->value);
    else
        td_text_add(&st->text, "(%s)v%d;\n", names.stored, run->value);
}

static void add_call(stages *st, const char *indent, int v)
{
    const td_native_step *s = &st->l->steps[v];
    td_text_add(&st->text, "%sconst %s v%d = f%d(", indent, names_of(s).computed, v, v);
    for (int k = 0; k < s->n; k++)
        td_text_add(&st->text, "%sv%d", k ? ", " : "", s->of[k]);
    for (int k = 0; s->formula && k < s->formula->n_parameters; k++)
        td_text_add(&st->text, "%sp%d", s->n || k ? ", " : "", s->first_param + k);
    td_text_add(&st->text, ");\n");
}

/* What a reduction is in the meantime: of a block, and of all. */
static const char *part_type(const td_native_step *s) { return names_of(s).kind == 'i' ? names_of(s).computed : s->dtype == TD_F64 ? "double" : "float"; }
static bool is_extreme(const td_native_step *s) { return s->rule == TD_ROW_MAX || s->rule == TD_ROW_MIN; }

static void add_part(stages *st, int v)
{
    const td_native_step *s = &st->l->steps[v];
    if (!is_extreme(s)) {
        td_text_add(&st->text, "                b%d += (%s)v%d;\n", v, part_type(s), s->of[0]);
        return;
    }
    td_text_add(&st->text, "                b%d = v%d %s b%d ? v%d : b%d;\n", v, s->of[0], s->rule == TD_ROW_MAX ? ">" : "<", v, s->of[0], v);
    if (names_of(s).kind == 'f')
        td_text_add(&st->text, "                n%d |= v%d != v%d;\n", v, s->of[0], s->of[0]);
}

static const char *worst(const td_native_step *s)
{
    const bool max = s->rule == TD_ROW_MAX;
    if (!is_extreme(s))
        return "0";
    if (names_of(s).kind == 'f')
        return max ? "-TD_INFF" : "TD_INFF";
    return !strcmp(names_of(s).computed, "int32_t") ? (max ? "INT32_MIN" : "INT32_MAX") : max ? "INT64_MIN" : "INT64_MAX";
}

/* Before the loop, in front of a block, behind a block, behind the loop. */
static void add_totals(stages *st, int t, int place)
{
    static const char *const indents[] = {"        ", "            ", "            ", "        "};
    for (int v = 0; v < st->l->n_steps; v++) {
        const td_native_step *s = &st->l->steps[v];
        const char *indent = indents[place], *part = part_type(s), *total = names_of(s).kind == 'f' ? "double" : part;
        if (s->kind != TD_NATIVE_REDUCE || st->of[v] != t)
            continue;
        if (is_extreme(s)) {
            if (place == 0)
                td_text_add(&st->text, "%s%s b%d = %s;\n%sint32_t n%d = 0;\n", indent, part, v, worst(s), indent, v);
            if (place == 3 && names_of(s).kind == 'f')
                td_text_add(&st->text, "%sconst %s v%d = n%d ? (%s)TD_NANF : b%d;\n", indent, part, v, v, part, v);
            else if (place == 3)
                td_text_add(&st->text, "%sconst %s v%d = b%d;\n%s(void)n%d;\n", indent, part, v, v, indent, v);
            continue;
        }
        if (place == 0)
            td_text_add(&st->text, "%s%s t%d = 0;\n", indent, total, v);
        else if (place == 1)
            td_text_add(&st->text, "%s%s b%d = 0;\n", indent, part, v);
        else if (place == 2)
            td_text_add(&st->text, "%st%d += b%d;\n", indent, v, v);
        else {
            const char *by = s->rule == TD_ROW_MEAN ? " / (double)width" : "";
            const char *half = s->dtype == TD_F16 ? "f16" : "bf16";
            if (is_half(s->dtype))
                td_text_add(&st->text, "%sconst float v%d = td_%s_to_f32(td_f32_to_%s((float)(t%d%s)));\n", indent, v, half, half, v, by);
            else
                td_text_add(&st->text, "%sconst %s v%d = (%s)(t%d%s);\n", indent, names_of(s).computed, v, names_of(s).computed, v, by);
        }
    }
}

static bool is_looped(const stages *st, int t)
{
    const td_native_loop *l = st->l;
    for (int v = 0; v < l->n_steps; v++)
        if (st->needed[t][v] && l->steps[v].full)
            return true;
    for (int r = 0; r < l->n_runs; r++)
        if (l->runs[r].stored && along_row(&l->runs[r]) && st->stored[r] == t)
            return true;
    for (int v = 0; v < l->n_steps; v++)
        if (l->steps[v].kind == TD_NATIVE_REDUCE && st->of[v] == t)
            return true;
    return false;
}

static void add_reductions(stages *st, int t)
{
    const td_native_loop *l = st->l;
    td_text_add(&st->text, "#pragma omp simd");
    for (int v = 0; v < l->n_steps; v++) {
        const td_native_step *s = &l->steps[v];
        if (s->kind != TD_NATIVE_REDUCE || st->of[v] != t)
            continue;
        td_text_add(&st->text, " reduction(%s:b%d)", s->rule == TD_ROW_MAX ? "max" : s->rule == TD_ROW_MIN ? "min" : "+", v);
        if (is_extreme(s) && names_of(s).kind == 'f')
            td_text_add(&st->text, " reduction(|:n%d)", v);
    }
    td_text_add(&st->text, "\n");
}

static void add_stage(stages *st, int t)
{
    static const char indent[] = "                ";
    const td_native_loop *l = st->l;
    for (int v = 0; v < l->n_steps; v++)        /* what is the same for the row */
        if (!l->steps[v].full && st->of[v] == t && (l->steps[v].kind == TD_NATIVE_FORMULA || l->steps[v].kind == TD_NATIVE_CONVERT))
            add_call(st, "        ", v);
    if (t >= st->n || !is_looped(st, t))
        return;
    add_totals(st, t, 0);
    td_text_add(&st->text, "        for (int64_t from = 0; from < width; from += %d) {\n            const int64_t to = width - from < %d ? width : from + %d;\n", BLOCK, BLOCK, BLOCK);
    add_totals(st, t, 1);
    add_reductions(st, t);
    td_text_add(&st->text, "            for (int64_t i = from; i < to; i++) {\n");
    for (int v = 0; v < l->n_steps; v++) {
        const td_native_step *s = &l->steps[v];
        if (s->kind == TD_NATIVE_REDUCE && st->of[v] == t) {
            add_part(st, v);
            continue;
        }
        if (!s->full || !st->needed[t][v])
            continue;
        if (s->kind == TD_NATIVE_LOAD)
            add_load(st, &l->runs[s->run], indent, v);
        else if (st->of[v] == t || st->again[v])
            add_call(st, indent, v);
        else if (st->through[v] >= 0)
            add_load(st, &l->runs[st->through[v]], indent, v);
        else
            td_text_add(&st->text, "%sconst %s v%d = s%d[i];\n", indent, names_of(s).computed, v, st->saved[v]);
        if (st->of[v] == t && st->saved[v] >= 0)
            td_text_add(&st->text, "%ss%d[i] = v%d;\n", indent, st->saved[v], v);
    }
    for (int r = 0; r < l->n_runs; r++)
        if (l->runs[r].stored && along_row(&l->runs[r]) && st->stored[r] == t)
            add_store(st, &l->runs[r], indent);
    td_text_add(&st->text, "            }\n");
    add_totals(st, t, 2);
    td_text_add(&st->text, "        }\n");
    add_totals(st, t, 3);
}

static void add_function(stages *st)
{
    const td_native_loop *l = st->l;
    td_text_add(&st->text, "__attribute__((visibility(\"default\"))) void td_joined_loop(int64_t rows, int64_t width, char *const *runs, const int64_t *steps, "
                "const td_scalar *params, char *scratch)\n{\n");
    for (int v = 0; v < l->n_steps; v++) {
        const td_native_step *s = &l->steps[v];
        if (s->kind == TD_NATIVE_NUMBER)
            td_text_add(&st->text, "    const %s v%d = td_scalar_%s(params + %d);\n", names_of(s).computed, v, names_of(s).suffix, s->first_param);
        for (int k = 0; s->formula && k < s->formula->n_parameters; k++)
            td_text_add(&st->text, "    const %s p%d = td_scalar_%s(params + %d);\n", td_names_of_dtype((td_dtype)s->common).computed, s->first_param + k,
                        td_names_of_dtype((td_dtype)s->common).suffix, s->first_param + k);
    }
    for (int r = 0; r < l->n_runs; r++)
        if (l->runs[r].number >= 0 && l->runs[r].spacing == TD_NATIVE_APART)
            td_text_add(&st->text, "    const int64_t e%d = steps[%d];\n", l->runs[r].number, l->n_numbered + l->runs[r].number);
    for (int v = 0; v < l->n_steps; v++)
        if (st->saved[v] >= 0)
            td_text_add(&st->text, "    %s *const s%d = (%s *)(scratch + (width + 15) / 16 * 16 * 8 * %d);\n", names_of(&l->steps[v]).computed, st->saved[v],
                        names_of(&l->steps[v]).computed, st->saved[v]);
    td_text_add(&st->text, "    (void)params, (void)scratch;\n    for (int64_t row = 0; row < rows; row++) {\n");
    for (int r = 0; r < l->n_runs; r++)
        if (l->runs[r].number >= 0)
            td_text_add(&st->text, "        %s%s *const a%d = (%s%s *)(runs[%d] + row * steps[%d]);\n", l->runs[r].stored ? "" : "const ",
                        td_names_of_dtype(l->runs[r].x->dtype).stored, l->runs[r].number, l->runs[r].stored ? "" : "const ",
                        td_names_of_dtype(l->runs[r].x->dtype).stored, l->runs[r].number, l->runs[r].number);
    for (int v = 0; v < l->n_steps; v++)
        if (l->steps[v].kind == TD_NATIVE_LOAD && !l->steps[v].full)
            add_load(st, &l->runs[l->steps[v].run], "        ", v);
    for (int t = 0; t <= st->n; t++)
        add_stage(st, t);
    for (int r = 0; r < l->n_runs; r++)
        if (l->runs[r].stored && !along_row(&l->runs[r]))
            add_store(st, &l->runs[r], "        ");
    td_text_add(&st->text, "    }\n}\n");
}

char *td_native_print(const td_native_loop *l, int *saved)
{
    stages *st = td_mem_alloc(sizeof *st);
    td_formula_function functions[TD_NATIVE_STEPS];
    td_dtype operands[TD_NATIVE_STEPS][TD_MAX_OPERANDS];
    char names[TD_NATIVE_STEPS][NAME], *source = NULL, *text = NULL;
    int n = 0;
    if (!st)
        return NULL;
    *st = (stages){.l = l};
    if (!find_stages(st))
        td_error(TD_E_NOT_IMPLEMENTED, "a group with more reductions behind each other than a loop has stages");
    else {
        find_needs(st);
        *saved = st->n_saved;
        add_function(st);
        text = td_text_end(&st->text);
    }
    for (int v = 0; v < l->n_steps; v++) {
        const td_native_step *s = &l->steps[v];
        if (s->kind != TD_NATIVE_FORMULA && s->kind != TD_NATIVE_CONVERT)
            continue;
        snprintf(names[v], NAME, "f%d", v);
        for (int k = 0; k < s->n; k++)
            operands[v][k] = (td_dtype)l->steps[s->of[k]].dtype;
        functions[n++] = (td_formula_function){names[v], s->formula, (td_dtype)(s->formula ? s->common : s->dtype), s->n, operands[v]};
    }
    if (text)
        source = td_formula_print_functions(TD_DIALECT_C, n, functions, text);
    td_formula_text_free(text);
    td_mem_free(st, sizeof *st);
    return source;
}
