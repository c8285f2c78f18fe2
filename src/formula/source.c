/* Kernels that are written by hand, for any dtypes: td_source_print puts in front of a text what its names mean for given ones.
 *
 * Names of functions are found in the text: A_exp is a macro for td_exp_f32 only where it is called, so that a kernel brings along no
 * function of mathematics that it doesn't need. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include "base/base.h"
#include "formula/formula.h"
#include "formula/text.h"

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The range of an integer dtype, in the type that it is computed in. */
static void limits(td_dtype dtype, const char **lowest, const char **highest)
{
    static const struct { const char *lowest, *highest; } of[TD_DTYPES] = {
        [TD_BOOL] = {"0", "1"}, [TD_U8] = {"0", "255"}, [TD_I8] = {"(-128)", "127"}, [TD_I16] = {"(-32768)", "32767"}, [TD_U16] = {"0", "65535"},
        [TD_I32] = {"(-2147483647 - 1)", "2147483647"}, [TD_U32] = {"0", "((int64_t)4294967295u)"},
        [TD_I64] = {"(-INT64_MAX - 1)", "INT64_MAX"}, [TD_U64] = {"0", "(~(uint64_t)0)"},
        [TD_F16] = {"(-TD_INFF)", "TD_INFF"}, [TD_BF16] = {"(-TD_INFF)", "TD_INFF"}, [TD_F32] = {"(-TD_INFF)", "TD_INFF"},
        [TD_F64] = {"(-TD_INF)", "TD_INF"},
    };
    *lowest = of[dtype].lowest, *highest = of[dtype].highest;
}

/* A macro for each function that the text calls for this dtype. */
static void define_functions(td_text *to, const char *name, const char *suffix, const char *text)
{
    const size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += length) {
        const char *function = at + length + 1, *end = function;
        if (at[length] != '_' || !islower((unsigned char)*function) || (at > text && is_word(at[-1])))
            continue;
        while (is_word(*end))
            end++;
        const int n = (int)(end - function);
        td_text_add(to, "#undef %s_%.*s\n#define %s_%.*s td_%.*s_%s\n", name, n, function, name, n, function, n, function, suffix);
    }
}

/* Arithmetic that complex numbers have, too: of theirs by functions.  NAME stands for the type's, % for the suffix. */
static void define_arithmetic(td_text *to, const char *name, const char *suffix, bool complex)
{
    static const char real[] = "#define NAME_COMPLEX 0\n#define NAME_ZERO ((NAME_C)0)\n#define NAME_OF(x) ((NAME_C)(x))\n#define NAME_TRUTH(x) ((x) != 0)\n"
                               "#define NAME_ADD(x, y) ((x) + (y))\n#define NAME_MUL(x, y) ((x) * (y))\n#define NAME_SCALE(x, by) ((x) * (by))\n";
    static const char parts[] = "#define NAME_COMPLEX 1\n#define NAME_ZERO td_make_%(0, 0)\n#define NAME_OF(x) (x)\n#define NAME_TRUTH(x) td_truth_%(x)\n"
                                "#define NAME_ADD(x, y) td_add_%(x, y)\n#define NAME_MUL(x, y) td_mul_%(x, y)\n#define NAME_SCALE(x, by) td_scale_%(x, by)\n"
                                "#define NAME_LOAD(x) (x)\n#define NAME_STORE(x) (x)\n#define NAME_FLOATING 1\ntypedef td_% NAME;\ntypedef td_% NAME_C;\n";
    for (const char *at = complex ? parts : real; *at;) {
        const size_t plain = strcspn(at, "N%");
        td_text_put(to, at, plain);
        at += plain;
        if (!*at)
            break;
        const bool is_name = *at == 'N';
        td_text_add(to, "%s", is_name ? name : suffix);
        at += is_name ? strlen("NAME") : 1;
    }
}

static int define_type(td_text *to, const td_source_type *type, const char *text)
{
    const td_type_names names = td_names_of_dtype(type->dtype);
    const char *a = type->name, *lowest, *highest;
    if (!names.stored)
        return td_error(TD_E_NOT_IMPLEMENTED, "kernels in the common dialect don't take %s", td_dtype_name(type->dtype));
    if (names.kind == 'c') {
        define_arithmetic(to, a, names.suffix, true);
        define_functions(to, a, names.suffix, text);
        return 0;
    }
    const bool half = type->dtype == TD_F16 || type->dtype == TD_BF16;
    const char *kind = type->dtype == TD_F16 ? "f16" : "bf16";
    limits(type->dtype, &lowest, &highest);
    td_text_add(to, "typedef %s %s;\ntypedef %s %s_C;\n#define %s_FLOATING %d\n", names.stored, a, names.computed, a, a, names.kind == 'f');
    define_arithmetic(to, a, names.suffix, false);
    td_text_add(to, "#define %s_LOWEST ((%s)%s)\n#define %s_HIGHEST ((%s)%s)\n", a, names.computed, lowest, a, names.computed, highest);
    if (half)
        td_text_add(to, "#define %s_LOAD(x) td_%s_to_f32(x)\n#define %s_STORE(x) td_f32_to_%s(x)\n", a, kind, a, kind);
    else if (type->dtype == TD_BOOL)
        td_text_add(to, "#define %s_LOAD(x) ((int32_t)((x) != 0))\n#define %s_STORE(x) ((uint8_t)((x) != 0))\n", a, a);
    else
        td_text_add(to, "#define %s_LOAD(x) ((%s)(x))\n#define %s_STORE(x) ((%s)(x))\n", a, names.computed, a, names.stored);
    td_text_add(to, type->dtype == TD_F64 ? "#define %s_NUMBER(n) td_bits_f64((uint64_t)(n).bits)\n" : "#define %s_NUMBER(n) ((%s_C)(n).single)\n", a, a);
    define_functions(to, a, names.suffix, text);
    return 0;
}

char *td_source_print(td_dialect dialect, int n_types, const td_source_type *types, int n_numbers, const td_source_number *numbers, const char *text)
{
    td_text whole = {0};
    int status = 0;
    for (int i = 0; i < n_types && !status; i++)
        status = define_type(&whole, &types[i], text);
    for (int i = 0; i < n_numbers; i++)
        td_text_add(&whole, "#define %s %" PRId64 "\n", numbers[i].name, numbers[i].value);
    td_text_put(&whole, text, strlen(text));
    char *more = status ? NULL : td_text_end(&whole);
    td_text_drop(&whole);
    char *source = more ? td_formula_print(dialect, 0, NULL, more) : NULL;
    td_formula_text_free(more);
    return source;
}
