/* Includes the file named by TD_BODY for float (T float, S f32), then for double (T double, S f64).
 *
 * A kernel written once for both is the body of the file that includes it: `#define TD_BODY "pool_isa.c"`, then this header, under
 * `#ifndef S`; what the two passes share (tables, enums) stands there too, the loops in the `#else`.  Included as often
 * as there are bodies, so it has no guard. */
#define T float
#define S f32
#include TD_BODY
#undef T
#undef S
#define T double
#define S f64
#include TD_BODY
#undef T
#undef S
#undef TD_BODY
