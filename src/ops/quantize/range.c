/* From a range of numbers to a scale and a zero point.
 *
 * The range is widened to contain zero.  A scale that is too small for its reciprocal to be exact enough is raised.  Of the two zero points that
 * the ends of the range give, the one with the smaller rounding error is taken. */
#include "ops/quantize/range.h"
#include <math.h>

void td_choose_qparams(double least, double most, int64_t q_least, int64_t q_most, double *scale, int64_t *zero_point)
{
    least = fmin(least, 0), most = fmax(most, 0);
    double step = (most - least) / (double)(q_most - q_least);
    /* All elements are zero, or nearly: any scale will do, and it must have a reciprocal, by which quantizing multiplies.  The value is PyTorch's. */
    if ((float)step == 0.f || isinf(1.f / (float)step))
        step = 0.1;
    /* PyTorch's bound: about 2^-14, the smallest normal float16.  The range grows with the scale, so that the zero point below is that of the scale
     * that is used. */
    const double small = 6.1e-5f;
    if (step < small) {
        const double was = step;
        step = small;
        if (least == 0)
            most = small * (double)(q_most - q_least);
        else if (most == 0)
            least = -small * (double)(q_most - q_least);
        else
            least *= small / was, most *= small / was;
    }
    /* In exact arithmetic both are the same number.  The error of each is that of its two terms, which grows with their size. */
    const double from_least = (double)q_least - least / step, from_most = (double)q_most - most / step;
    const double error_least = fabs((double)q_least) - fabs(least / step), error_most = fabs((double)q_most) - fabs(most / step);
    const double zero = error_least < error_most ? from_least : from_most;
    *scale = step;
    *zero_point = (int64_t)nearbyint(fmin(fmax(zero, (double)q_least), (double)q_most));
}
