/* The formulas of all pointwise operators as the generator writes them (codegen/formula.py), and where each is. */
#ifndef TD_FORMULA_DATA_H
#define TD_FORMULA_DATA_H
#include <tede/formula.h>

enum { TD_FORMULA_OF_VALUE, TD_FORMULA_OF_GRADIENT, TD_FORMULA_OF_TANGENT, TD_FORMULA_CHOICES };

/* A formula, or the text of the choices.  `word`: the choice or the operand, where it starts in td_formula_words. */
typedef struct td_formula_entry { uint32_t place; uint16_t word, what; } td_formula_entry;
/* An operator and its entries; variants share theirs.  Sorted by name. */
typedef struct td_formula_operator { uint32_t name; uint16_t first, count; } td_formula_operator;

extern const td_formula_entry    td_formula_entries[];
extern const td_formula_operator td_formula_operators[];
extern const int                 td_formula_operator_count;
extern const char                td_formula_words[];
extern const char                td_formula_rows[];     /* names and words one after the other, ended by an empty name */
const td_formula *td_formula_at(uint32_t place);

#endif
