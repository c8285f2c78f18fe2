/* From a range of numbers to a scale and a zero point. */
#ifndef TD_OPS_QUANTIZE_RANGE_H
#define TD_OPS_QUANTIZE_RANGE_H
#include <stdint.h>

/* For what lies between least and most, such that zero is exactly an integer. */
void td_choose_qparams(double least, double most, int64_t q_least, int64_t q_most, double *scale, int64_t *zero_point);
#endif
