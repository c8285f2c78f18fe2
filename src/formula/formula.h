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
/* A number as C and Python write it, with as few digits as say which it is; room for 40 characters. */
void td_formula_number(double x, char *to);

#endif
