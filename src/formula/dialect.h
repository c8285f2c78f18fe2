/* What differs between the languages in which kernels are printed. */
#ifndef TD_FORMULA_DIALECT_H
#define TD_FORMULA_DIALECT_H
#include <stdint.h>
#include <tede/formula.h>

/* A function that the language has, or a better expression for it. */
typedef struct td_own_piece { const char *name, *text; } td_own_piece;

typedef struct td_dialect_table {
    const char         *name;           /* for errors */
    const char         *options;
    const char         *head;           /* types, and what codegen/maths.py leaves to the dialect */
    const char         *work;           /* macros for kernels: Note [The common dialect] in dialect.c */
    const char         *head_of_double; /* in front of it, if anything is a double */
    const char         *foot;           /* behind the functions of mathematics */
    uint32_t            features;       /* TD_NEEDS_* that it has */
    const td_own_piece *own;            /* ended by NULL */
} td_dialect_table;

extern const td_dialect_table td_dialect_tables[TD_DIALECTS];

#endif
