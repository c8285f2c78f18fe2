/* The functions of mathematics that kernels are made of, by type: see the files. */
#ifndef TD_KERNELS_CPU_MATHS_H
#define TD_KERNELS_CPU_MATHS_H

#include "kernels/cpu/maths_f32.h"
#include "kernels/cpu/maths_f64.h"
#include "kernels/cpu/maths_complex.h"
#include "kernels/cpu/maths_int.h"

#endif
