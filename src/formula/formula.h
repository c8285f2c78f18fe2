/* A formula read into steps, which printers go through. */
#ifndef TD_FORMULA_FORMULA_H
#define TD_FORMULA_FORMULA_H
#include <tede/formula.h>

enum { TD_MOST_STEPS = 256, TD_MOST_OPERANDS = 16 };        /* the generator writes fewer: codegen/formula.py */

typedef struct td_steps {
    int             count;
    td_formula_step steps[TD_MOST_STEPS];
    int             arguments[TD_MOST_STEPS][3];        /* the steps whose results each takes */
} td_steps;

/* -1 with an error for what is no expression. */
int td_formula_read(const td_formula *formula, td_formula_kind kind, td_steps *steps);
/* How an element of a dtype is stored, in what it is computed, what functions of that type end with, and 'f', 'i' or 'c'; NULL of what no
 * kernel reads. */
typedef struct td_type_names { const char *stored, *computed, *suffix; char kind; } td_type_names;
td_type_names td_names_of_dtype(td_dtype dtype);
/* What a reduction makes of a row, "sum", "mean", "max", "min" (`fold` of its entry); NULL: it is none of these. */
const char *td_formula_row(const td_op *op);
/* One call, or the conversion of an operand if there is no formula, as a function: NAME(operands, parameters), all of them and the result in the
 * types that their dtypes are computed in, and rounded as an element is. */
typedef struct td_formula_function {
    const char       *name;
    const td_formula *formula;
    td_dtype          dtype;            /* after promotion, or what is converted to */
    int               n_operands;
    const td_dtype   *operands;
} td_formula_function;
/* Such functions, and behind them `more` that calls them, as td_formula_print prints kernels. */
char *td_formula_print_functions(td_dialect dialect, int n, const td_formula_function *functions, const char *more);
/* A number as C and Python write it, with as few digits as say which it is; room for 40 characters. */
void td_formula_number(double x, char *to);

#endif
