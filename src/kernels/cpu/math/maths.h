/* The functions of mathematics that kernels are made of, by type: td_exp_f32, td_exp_f64, td_exp_c64, ...: scalar inlines,
 * see the files below.  A few have forms for whole runs beside them, see loops/runs.h. */
#ifndef TD_KERNELS_CPU_MATH_MATHS_H
#define TD_KERNELS_CPU_MATH_MATHS_H

#include "kernels/cpu/math/maths_complex.h"
#include "kernels/cpu/math/maths_f32.h"
#include "kernels/cpu/math/maths_f64.h"
#include "kernels/cpu/math/maths_int.h"
#include "kernels/cpu/math/special.h"

#endif
