/* A few functions of mathematics on whole vectors, by what AVX-512 has and the scalar inlines can't say.
 *
 * A permutation of two registers is a table of 32 entries that costs as much as an addition.  So the polynomials are
 * short and each vector element has its own: erf(x) and tanh(x) / x are cut into intervals around the multiples of a
 * width, exp into sixteenths of a power of two.  The coefficients interpolate at Chebyshev's points, computed in 40
 * digits; erf's last interval starts from 1 so that it ends there.  docs/accuracy.md has the errors.  What an element takes is its
 * instructions, not how they wait for each other: splitting the polynomials gained a twentieth, the tables a quarter for exp, half for erf. */
#ifndef TD_KERNELS_CPU_MATH_MATHS_WIDE_H
#define TD_KERNELS_CPU_MATH_MATHS_WIDE_H
#define TD_SIMD_INTRINSICS
#include "base/simd.h"
#ifdef TD_AVX512
#include "kernels/cpu/math/maths_f32.h"

static const float td_wide_erf_table[6][32] = {
    {0.0f, 0.1403162f, 0.2763264f, 0.4041169f, 0.5204999f, 0.6232409f, 0.71115565f, 0.7840751f, 0.8427008f,
     0.8883882f, 0.92290014f, 0.94817007f, 0.96610516f, 0.97844374f, 0.9866717f, 0.99199003f, 0.9953223f, 0.997346f,
     0.9985373f, 0.99921703f, 0.999593f, 0.9997946f, 0.9998994f, 0.99995214f, 0.9999779f, 0.9999901f, 0.9999957f,
     0.9999982f, 0.9999993f, 0.9999997f, 0.9999999f, 1.0f},
    {1.1283792f, 1.1108853f, 1.0600141f, 0.9803528f, 0.8787826f, 0.76349956f, 0.64293104f, 0.52474505f, 0.4151075f,
     0.31827396f, 0.23652112f, 0.17035978f, 0.11893029f, 0.08047226f, 0.052774996f, 0.03354583f, 0.020666985f,
     0.01234082f, 0.007142319f, 0.004006478f, 0.0021782843f, 0.0011478751f, 0.0005862772f, 0.0002902283f,
     0.00013925305f, 6.4758686e-05f, 2.9189026e-05f, 1.27517405e-05f, 5.3994268e-06f, 2.2159204e-06f,
     8.8143224e-07f, 3.398224e-07f},
    {0.0f, -0.13886046f, -0.26500317f, -0.36763188f, -0.43939087f, -0.47718686f, -0.48219806f, -0.45915183f,
     -0.41510755f, -0.35805833f, -0.29565158f, -0.23424488f, -0.1783956f, -0.13076754f, -0.09235632f, -0.062898465f,
     -0.041333973f, -0.026224228f, -0.016070193f, -0.009515358f, -0.0054456866f, -0.0030131529f, -0.0016122482f,
     -0.0008343965f, -0.0004177528f, -0.000202367f, -9.4862065e-05f, -4.3035867e-05f, -1.8897324e-05f,
     -8.032371e-06f, -3.3052047e-06f, -1.316734e-06f},
    {-0.37612617f, -0.35872316f, -0.30917066f, -0.23487614f, -0.14646381f, -0.05567196f, 0.026788637f, 0.09292344f,
     0.13836904f, 0.16245225f, 0.16753577f, 0.15793772f, 0.13875204f, 0.11484067f, 0.09015734f, 0.067441136f,
     0.048222996f, 0.03303742f, 0.02172456f, 0.0137305325f, 0.008350085f, 0.0048904205f, 0.002760383f,
     0.0015025315f, 0.0007890973f, 0.00040001748f, 0.00019580826f, 9.258207e-05f, 4.229501e-05f, 1.8673474e-05f,
     7.969476e-06f, 3.2884204e-06f},
    {0.0f, 0.06857445f, 0.12674361f, 0.16629009f, 0.18278675f, 0.17621776f, 0.15052958f, 0.112335764f, 0.06921148f,
     0.028064178f, -0.006034739f, -0.030370869f, -0.04448568f, -0.049634416f, -0.048049673f, -0.04223579f,
     -0.034442242f, -0.026371466f, -0.019100375f, -0.0131514445f, -0.008638766f, -0.005427458f, -0.0032678267f,
     -0.0018884437f, -0.0010487258f, -0.0005602271f, -0.00028811555f, -0.0001427473f, -6.8174224e-05f,
     -3.1400727e-05f, -1.3954453e-05f, -5.9855197e-06f},
    {0.11268063f, 0.104041174f, 0.0799585f, 0.045443367f, 0.0073548034f, -0.027332f, -0.053134814f, -0.067107f,
     -0.069095835f, -0.061267402f, -0.04715977f, -0.030614251f, -0.014894034f, -0.0021711243f, 0.006588884f,
     0.011433715f, 0.013069292f, 0.012484523f, 0.010653742f, 0.008358106f, 0.00612052f, 0.004221866f, 0.002759592f,
     0.00171636f, 0.0010188362f, 0.00057852356f, 0.00031479393f, 0.00016437324f, 8.245765e-05f, 3.977725e-05f,
     1.8466495e-05f, 8.256005e-06f},
};
static const float td_wide_tanh_table[6][32] = {
    {1.0f, 0.97233903f, 0.8993579f, 0.8031243f, 0.70389104f, 0.61343694f, 0.5360402f, 0.47174466f, 0.41887945f,
     0.37539095f, 0.3393912f, 0.3093191f, 0.2839421f, 0.26230592f, 0.24367605f, 0.22748621f, 0.21329714f,
     0.20076536f, 0.18961966f, 0.17964387f, 0.1706639f, 0.16253822f, 0.15515073f, 0.14840537f, 0.142222f,
     0.13653322f, 0.13128199f, 0.12641972f, 0.121904746f, 0.11770114f, 0.11377777f, 0.110107526f},
    {0.0f, -0.18256927f, -0.30216992f, -0.34290132f, -0.3279406f, -0.28733414f, -0.24114671f, -0.19879967f,
     -0.1632896f, -0.13467334f, -0.11197233f, -0.094017915f, -0.07976193f, -0.06835598f, -0.05914367f,
     -0.051627085f, -0.045431025f, -0.040272623f, -0.035937577f, -0.032262355f, -0.02912108f, -0.026415963f,
     -0.024070306f, -0.022023385f, -0.020226685f, -0.018641097f, -0.017234841f, -0.015981881f, -0.0148607325f,
     -0.01385354f, -0.012945372f, -0.012123661f},
    {-0.33331951f, -0.27026242f, -0.13391459f, -0.012823956f, 0.05488848f, 0.07804473f, 0.07706979f, 0.066723675f,
     0.05451979f, 0.043457534f, 0.03436875f, 0.02721554f, 0.021685781f, 0.017432189f, 0.0141530605f, 0.011609401f,
     0.0096195955f, 0.008048201f, 0.0067948992f, 0.005785394f, 0.00496444f, 0.0042906962f, 0.003732979f,
     0.0032675646f, 0.0028762394f, 0.0025448934f, 0.002262498f, 0.0020203572f, 0.0018115573f, 0.0016305578f,
     0.001472885f, 0.0013349006f},
    {0.0f, 0.13155904f, 0.15994655f, 0.10873672f, 0.04781617f, 0.009041212f, -0.008465334f, -0.013714743f,
     -0.0135317575f, -0.01150646f, -0.0091930255f, -0.007147686f, -0.0055027306f, -0.0042339913f, -0.00327303f,
     -0.0025494236f, -0.002003961f, -0.0015906856f, -0.0012752302f, -0.0010323357f, -0.0008435602f, -0.0006954448f,
     -0.0005781341f, -0.0004843701f, -0.0004087689f, -0.0003473045f, -0.00029694068f, -0.00025536766f,
     -0.0002208131f, -0.00019190543f, -0.00016757453f, -0.00014697881f},
    {0.13161312f, 0.0736149f, -0.019425767f, -0.055243075f, -0.04380991f, -0.022900455f, -0.008574408f,
     -0.0015017868f, 0.0012472484f, 0.0019697691f, 0.0018951743f, 0.001577362f, 0.0012354017f, 0.0009416287f,
     0.0007100845f, 0.0005345706f, 0.00040384047f, 0.00030706753f, 0.00023540843f, 0.000182122f, 0.00014223691f,
     0.00011214469f, 8.9242625e-05f, 7.16547e-05f, 5.802476e-05f, 4.7367434e-05f, 3.896198e-05f, 3.2277283e-05f,
     2.6918788e-05f, 2.2590977e-05f, 1.9070661e-05f, 1.6187882e-05f},
    {0.0f, -0.067455724f, -0.048069276f, -0.0033519103f, 0.014344339f, 0.012631185f, 0.0069972877f, 0.0030164728f,
     0.0009874363f, 0.00012745317f, -0.00017287328f, -0.00023921023f, -0.00022072466f, -0.00017923393f,
     -0.00013772894f, -0.00010318434f, -7.6499084e-05f, -5.6591234e-05f, -4.1977128e-05f, -3.1313204e-05f,
     -2.3532122e-05f, -1.7834078e-05f, -1.3636851e-05f, -1.0522552e-05f, -8.192978e-06f, -6.4354776e-06f,
     -5.098014e-06f, -4.071377e-06f, -3.2766395e-06f, -2.6563569e-06f, -2.1684039e-06f, -1.7816462e-06f},
};
static const float td_wide_exp2[16] = {
    1.0f, 1.0442737f, 1.0905077f, 1.1387886f, 1.1892071f, 1.2418578f, 1.2968396f, 1.3542556f, 1.4142135f,
    1.4768262f, 1.5422108f, 1.6104903f, 1.6817929f, 1.7562522f, 1.8340081f, 1.9152066f
};

/* Adding 1.5 2^23 leaves the nearest whole number in the low bits, and permutations look at no others. */
#define TD_WIDE_ROUND 0x1.8p23f
#define TD_WIDE(c)    _mm512_set1_ps(c)

/* The interval's polynomial at |x|, times |x| if `scaled`, with x's sign.  A NaN goes through the minimum, which takes its
 * second operand then. */
TD_MATHS __m512 td_wide_by_intervals(const float (*table)[32], bool scaled, float width, float inverse, float most, __m512 x)
{
    const __m512 a = _mm512_min_ps(TD_WIDE(most), _mm512_abs_ps(x));
    const __m512 t = _mm512_fmadd_ps(a, TD_WIDE(inverse), TD_WIDE(TD_WIDE_ROUND));
    const __m512 d = _mm512_fmadd_ps(_mm512_sub_ps(t, TD_WIDE(TD_WIDE_ROUND)), TD_WIDE(-width), a);
    const __m512i which = _mm512_castps_si512(t);
    __m512 p = _mm512_permutex2var_ps(_mm512_loadu_ps(table[5]), which, _mm512_loadu_ps(table[5] + 16));
#pragma GCC unroll 5
    for (int k = 4; k >= 0; k--)
        p = _mm512_fmadd_ps(p, d, _mm512_permutex2var_ps(_mm512_loadu_ps(table[k]), which, _mm512_loadu_ps(table[k] + 16)));
    if (scaled)
        p = _mm512_mul_ps(p, a);
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(p), _mm512_castps_si512(x),
                                                         _mm512_set1_epi32(INT32_MIN), 0xd8));
}
TD_MATHS __m512 td_wide_erf(__m512 x) { return td_wide_by_intervals(td_wide_erf_table, false, 0.125f, 8.0f, 3.93f, x); }
TD_MATHS __m512 td_wide_tanh(__m512 x)
{
    return td_wide_by_intervals(td_wide_tanh_table, true, 75 / 256.0f, 256 / 75.0f, 9.1f, x);
}
/* x = (n + r) ln 2, n in sixteenths; the instruction that scales takes n's whole part and under- and overflows well. */
TD_MATHS __m512 td_wide_exp(__m512 x)
{
    /* What becomes 0 (masked scores, mostly) isn't computed: a result that underflows costs the processor 150 cycles. */
    const __mmask16 above = _mm512_cmp_ps_mask(x, TD_WIDE(-104.0f), _CMP_NLT_UQ);
    const __m512 c = _mm512_maskz_min_ps(above, TD_WIDE(110.0f), x);
    const __m512 t = _mm512_fmadd_ps(c, TD_WIDE(TD_LOG2E_F), TD_WIDE(0x1.8p19f)), n = _mm512_sub_ps(t, TD_WIDE(0x1.8p19f));
    const __m512 r = _mm512_fmadd_ps(n, TD_WIDE(-TD_LN2_LOW_F), _mm512_fmadd_ps(n, TD_WIDE(-TD_LN2_HIGH_F), c));
    const __m512 e = _mm512_permutexvar_ps(_mm512_castps_si512(t), _mm512_loadu_ps(td_wide_exp2));
    const __m512 p = _mm512_fmadd_ps(_mm512_fmadd_ps(TD_WIDE(0.166666672f), r, TD_WIDE(0.5f)), r, TD_WIDE(1.0f));
    return _mm512_maskz_scalef_ps(above, _mm512_fmadd_ps(_mm512_mul_ps(e, r), p, e), n);
}
/* As the inline has it, but for the quotient: an estimate of 14 bits and a step of Newton's take a third of a division. */
TD_MATHS __m512 td_wide_sigmoid(__m512 x)
{
    const __m512 e = td_wide_exp(_mm512_or_ps(_mm512_set1_ps(-0.0f), x)), d = _mm512_add_ps(TD_WIDE(1.0f), e);
    const __m512 start = _mm512_rcp14_ps(d);
    const __m512 q = _mm512_fmadd_ps(_mm512_fnmadd_ps(start, d, TD_WIDE(1.0f)), start, start);
    return _mm512_mask_mul_ps(q, _mm512_movepi32_mask(_mm512_castps_si512(x)), q, e);
}
/* Newton's steps for the root and its inverse together, the last one on the exact remainder: rounded as the instruction
 * rounds, in a third of its time.  What overflows or loses bits on the way is left to the instruction. */
TD_MATHS __m512 td_wide_sqrt(__m512 x)
{
    const __m512 start = _mm512_rsqrt14_ps(x);
    __m512 root = _mm512_mul_ps(x, start), half = _mm512_mul_ps(start, TD_WIDE(0.5f));
    const __m512 e = _mm512_fnmadd_ps(root, half, TD_WIDE(0.5f));
    root = _mm512_fmadd_ps(root, e, root), half = _mm512_fmadd_ps(half, e, half);
    root = _mm512_fmadd_ps(_mm512_fnmadd_ps(root, root, x), half, root);
    /* bits from 2^-90 up to 2^126, which no negative number and no NaN has */
    const __m512i above = _mm512_sub_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(0x12800000));
    const __mmask16 other = _mm512_cmpge_epu32_mask(above, _mm512_set1_epi32(0x7e800000 - 0x12800000));
    if (__builtin_expect(other, 0))     /* as a choice of two values both would be computed */
        return _mm512_mask_sqrt_ps(root, other, x);
    return root;
}

#endif
#endif
