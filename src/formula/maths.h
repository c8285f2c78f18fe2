/* The functions of mathematics as text: codegen/maths.py writes them from src/kernels/cpu/maths*.h. */
#ifndef TD_FORMULA_MATHS_H
#define TD_FORMULA_MATHS_H
#include <stdint.h>

/* What a piece needs that not every dialect has. */
enum { TD_NEEDS_LONG_DOUBLE = 1, TD_NEEDS_BESSEL = 2, TD_NEEDS_DOUBLE = 4 };

/* A function, table or constant.  Pieces stand in the order in which C wants them. */
typedef struct td_maths_piece {
    uint32_t text;                  /* where it starts in td_maths_text, up to the next one's */
    uint16_t needs;                 /* the same in td_maths_needs: earlier pieces that it mentions */
    uint16_t features;              /* TD_NEEDS_* */
} td_maths_piece;
typedef struct td_maths_name { uint16_t name, piece; } td_maths_name;    /* where it starts in td_maths_words */

/* Places instead of pointers, which would be relocated whenever the library is loaded. */
extern const char           td_maths_text[], td_maths_words[];
extern const uint16_t       td_maths_needs[];
extern const td_maths_piece td_maths_pieces[];      /* and one more, where the last one ends */
extern const td_maths_name  td_maths_names[];       /* sorted */
extern const int            td_maths_piece_count, td_maths_name_count;

#endif
