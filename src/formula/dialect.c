/* The dialects: a table each.  Names of functions are the C library's, as in the pieces; a dialect that has others says so by
 * macros. */
#include "formula/dialect.h"
#include "formula/maths.h"

/* Note [The common dialect]
 * A kernel for devices is written once, in C with these macros, which each dialect defines:
 *
 *   KERNEL            before its name; it returns nothing
 *   BUFFER(x)         an argument: memory of the device.  AT(T, x) is a pointer to it, of type GLOBAL T *
 *   VALUES(T, v)      the last argument: a struct by value.  UNPACK(T, v) comes first in the body, without a semicolon
 *   GLOBAL SHARED     before types: memory of the device; variables that a group has in common, in the body's outermost block
 *   GROUP GROUPS      the number of the group and how many there are (int64_t)
 *   LANE LANES        the same of the work item in its group (int)
 *   ITEM ITEMS        the same of the work item among all (int64_t)
 *   UNROLL ROLLED     before a loop: it shall be unrolled, or not be, as far as the compiler doesn't know best
 *   BARRIER           all of a group come here, and see what the others have stored in SHARED and GLOBAL memory
 *   BARRIER_OF(n)     the same of n neighbouring lanes, the first of which a power of two n divides; still all of a group come here
 *   UNROLL_BY(n)      the same for n rounds at once, so that their loads don't wait for each other
 *   GET_PACK(p) SET_PACK(p, x)
 *                     *p and *p = x for a struct that is aligned as its size is, up to 16 bytes: by one instruction or a few
 *   ATOMIC_SWAP32(p, old, new), ATOMIC_SWAP64
 *                     *p, GLOBAL uint32_t or uint64_t, becomes new if it is old; gives what it was.  Not every device has the second
 *   ATOMIC_COUNT(p)   *p += 1 for GLOBAL uint32_t; ATOMIC_COUNT_SHARED for a SHARED one
 *   ATOMIC_ADD(p, x)  *p += x for GLOBAL float; where it isn't defined there is no instruction for it
 *
 * OpenCL 1.2 has no addresses that the CPU could compute with, so a buffer comes as an object and an offset in bytes there.  On one CPU
 * core (TD_DIALECT_SERIAL) a group is one work item, and whoever calls a kernel sets its group before: what a program does is
 * then plain C, for sanitizers and debuggers. */

/* The library's own loops are compiled with these, too: meson.build. */
static const char c_options[] = "-std=gnu17 -fno-math-errno -fno-trapping-math -ffp-contract=off -fwrapv -fno-strict-aliasing";

static const char c_head[] =
    "#include <complex.h>\n"
    "#undef I\n"
    "#include <math.h>\n"
    "#include <stdbool.h>\n"
    "#include <stdint.h>\n"
    "#include <string.h>\n"
    "#define TD_MATHS static inline __attribute__((always_inline, unused))\n"
    "#define TD_TABLE static const __attribute__((unused))\n"
    "#define TD_LOCAL_TABLE static const\n"
    "#define TD_INF ((double)INFINITY)\n"
    "#define TD_INFF INFINITY\n"
    "#define TD_NAN ((double)NAN)\n"
    "#define TD_NANF NAN\n"
    "#if defined(__FMA__) || defined(__aarch64__)\n"
    "#define TD_FUSED\n"
    "#endif\n"
    "#ifdef __AVX512F__\n"
    "#define TD_AVX512\n"
    "#endif\n"
    "typedef uint16_t td_f16, td_bf16;\n"
    "typedef enum { TD_SCALAR_BOOL, TD_SCALAR_INT, TD_SCALAR_FLOAT, TD_SCALAR_COMPLEX, TD_SCALAR_UINT } td_scalar_kind;\n"
    "typedef struct { td_scalar_kind kind; union { int64_t i; uint64_t u; double d; }; double imag; } td_scalar;\n"
    "TD_MATHS double td_scalar_f64(const td_scalar *s)\n"
    "{\n"
    " return s->kind == TD_SCALAR_FLOAT || s->kind == TD_SCALAR_COMPLEX ? s->d : s->kind == TD_SCALAR_UINT ? (double)s->u : (double)s->i;\n"
    "}\n"
    "TD_MATHS uint32_t td_f32_bits(float x) { uint32_t bits; memcpy(&bits, &x, 4); return bits; }\n"
    "TD_MATHS float td_bits_f32(uint32_t bits) { float x; memcpy(&x, &bits, 4); return x; }\n"
    "TD_MATHS uint64_t td_f64_bits(double x) { uint64_t bits; memcpy(&bits, &x, 8); return bits; }\n"
    "TD_MATHS double td_bits_f64(uint64_t bits) { double x; memcpy(&x, &bits, 8); return x; }\n";
static const char serial_work[] =
    "#define KERNEL __attribute__((visibility(\"default\"))) void\n"
    "#define GLOBAL\n"
    "#define SHARED\n"
    "#define BUFFER(x) char *x##_base\n"
    "#define AT(T, x) ((T *)x##_base)\n"
    "#define VALUES(T, v) const T *v##_values\n"
    "#define UNPACK(T, v) const T v = *v##_values;\n"
    "static _Thread_local int64_t td_group, td_groups;\n"
    "KERNEL td_set_group(int64_t group, int64_t groups) { td_group = group, td_groups = groups; }\n"
    "#define GROUP td_group\n"
    "#define GROUPS td_groups\n"
    "#define LANE 0\n"
    "#define LANES 1\n"
    "#define ITEM td_group\n"
    "#define ITEMS td_groups\n"
    "#define UNROLL\n"
    "#define ROLLED\n"
    "#define BARRIER ((void)0)\n"
    "#define BARRIER_OF(n) ((void)0)\n"
    "#define GET_PACK(p) (*(p))\n"
    "#define SET_PACK(p, x) (*(p) = (x))\n"
    "#define UNROLL_BY(n)\n"
    "#define ATOMIC_SWAP32(p, old, new) __sync_val_compare_and_swap(p, old, new)\n"
    "#define ATOMIC_SWAP64(p, old, new) __sync_val_compare_and_swap(p, old, new)\n"
    "#define ATOMIC_COUNT(p) __sync_fetch_and_add(p, 1)\n"
    "#define ATOMIC_COUNT_SHARED(p) (*(p) += 1)\n";
static const td_own_piece c_own[] = {{0}};
/* On the CPU functions of complex numbers are the C library's, as in the library's own loops. */
#define LIBRARY_IN(name, suffix, type, function, parameters, arguments)                                      \
    {"td_" #name "_" #suffix,                                                                                       \
     "TD_MATHS td_" #suffix " td_" #name "_" #suffix "(" parameters ")\n{\n union { " type " _Complex of; td_" #suffix " z; } y;\n" \
     " y.of = " #function "(" arguments ");\n return y.z;\n}\n"}
#define LIBRARY(name)                                                                                               \
    LIBRARY_IN(name, c64, "float", c##name##f, "td_c64 z", "__builtin_complex(z.real, z.imag)"),                  \
    LIBRARY_IN(name, c128, "double", c##name, "td_c128 z", "__builtin_complex(z.real, z.imag)")
static const td_own_piece library_own[] = {
    LIBRARY(exp), LIBRARY(log), LIBRARY(sqrt), LIBRARY(sin), LIBRARY(cos), LIBRARY(tan), LIBRARY(sinh), LIBRARY(cosh), LIBRARY(tanh), LIBRARY(asin),
    LIBRARY(acos), LIBRARY(atan), LIBRARY(asinh), LIBRARY(acosh), LIBRARY(atanh),
    LIBRARY_IN(pow, c64, "float", cpowf, "td_c64 z, td_c64 by", "__builtin_complex(z.real, z.imag), __builtin_complex(by.real, by.imag)"),
    LIBRARY_IN(pow, c128, "double", cpow, "td_c128 z, td_c128 by", "__builtin_complex(z.real, z.imag), __builtin_complex(by.real, by.imag)"),
    {0},
};

static const char opencl_head[] =
    "#pragma OPENCL FP_CONTRACT OFF\n"
    "typedef uchar uint8_t;\n"
    "typedef char int8_t;\n"
    "typedef ushort uint16_t, td_f16, td_bf16;\n"
    "typedef short int16_t;\n"
    "typedef uint uint32_t;\n"
    "typedef int int32_t;\n"
    "typedef ulong uint64_t;\n"
    "typedef long int64_t;\n"
    "#define half td_half\n"                        /* a type's name, which functions use as a variable's */
    "#define INT64_MAX LONG_MAX\n"
    "#define TD_MATHS static inline\n"
    "#define TD_TABLE __constant const\n"
    "#define TD_LOCAL_TABLE const\n"
    "#define TD_INF ((double)INFINITY)\n"
    "#define TD_INFF INFINITY\n"
    "#define TD_NAN ((double)NAN)\n"
    "#define TD_NANF NAN\n"
    "#define TD_FUSED\n"
    "#define td_f32_bits(x) as_uint(x)\n"
    "#define td_bits_f32(x) as_float(x)\n"
    "#define td_f64_bits(x) as_ulong(x)\n"
    "#define td_bits_f64(x) as_double(x)\n"
    "#define fabsf fabs\n"
    "#define sqrtf sqrt\n"
    "#define floorf floor\n"
    "#define ceilf ceil\n"
    "#define truncf trunc\n"
    "#define rintf rint\n"
    "#define copysignf copysign\n"
    "#define fmaf fma\n";
static const char opencl_work[] =
    "#define KERNEL __kernel void\n"
    "#define GLOBAL __global\n"
    "#define SHARED __local\n"
    "#define BUFFER(x) __global char *x##_base, const long x##_offset\n"
    "#define AT(T, x) ((__global T *)(x##_base + x##_offset))\n"
    "#define VALUES(T, v) const T v\n"
    "#define UNPACK(T, v)\n"
    "#define GROUP ((int64_t)get_group_id(0))\n"
    "#define GROUPS ((int64_t)get_num_groups(0))\n"
    "#define LANE ((int)get_local_id(0))\n"
    "#define LANES ((int)get_local_size(0))\n"
    "#define ITEM ((int64_t)get_global_id(0))\n"
    "#define ITEMS ((int64_t)get_global_size(0))\n"
    "#define UNROLL\n"
    "#define ROLLED\n"
    "#define BARRIER barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)\n"
    "#define BARRIER_OF(n) BARRIER\n"
    "#define GET_PACK(p) (*(p))\n"
    "#define SET_PACK(p, x) (*(p) = (x))\n"
    "#define UNROLL_BY(n)\n"
    "#ifdef cl_khr_int64_base_atomics\n"
    "#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable\n"
    "#endif\n"
    "#define ATOMIC_SWAP32(p, old, new) atomic_cmpxchg((volatile __global uint *)(p), old, new)\n"
    "#define ATOMIC_SWAP64(p, old, new) atom_cmpxchg((volatile __global ulong *)(p), old, new)\n"
    "#define ATOMIC_COUNT(p) atomic_inc((volatile __global uint *)(p))\n"
    "#define ATOMIC_COUNT_SHARED(p) atomic_inc((volatile __local uint *)(p))\n";
static const td_own_piece opencl_own[] = {{0}};

static const char cuda_head[] =
    "#ifdef __CUDACC_RTC__\n"
    "typedef unsigned char uint8_t;\n"
    "typedef signed char int8_t;\n"
    "typedef unsigned short uint16_t;\n"
    "typedef short int16_t;\n"
    "typedef unsigned int uint32_t;\n"
    "typedef int int32_t;\n"
    "typedef unsigned long long uint64_t;\n"
    "typedef long long int64_t;\n"
    "#define INT64_MAX 0x7fffffffffffffff\n"
    "#else\n"
    "#include <stdint.h>\n"
    "#endif\n"
    "#undef INFINITY\n"
    "#undef NAN\n"
    "#define INFINITY __int_as_float(0x7f800000)\n"
    "#define NAN __int_as_float(0x7fc00000)\n"
    "typedef uint16_t td_f16, td_bf16;\n"
    "#define TD_MATHS static __device__ inline\n"
    "#define TD_TABLE static __device__ const\n"
    "#define TD_LOCAL_TABLE const\n"
    "#define TD_INF __longlong_as_double(0x7ff0000000000000)\n"
    "#define TD_INFF INFINITY\n"
    "#define TD_NAN __longlong_as_double(0x7ff8000000000000)\n"
    "#define TD_NANF NAN\n"
    "#define TD_FUSED\n"
    "#define td_f32_bits(x) __float_as_uint(x)\n"
    "#define td_bits_f32(x) __uint_as_float(x)\n"
    "#define td_f64_bits(x) ((uint64_t)__double_as_longlong(x))\n"
    "#define td_bits_f64(x) __longlong_as_double((long long)(x))\n";
static const char cuda_work[] =
    "#define KERNEL extern \"C\" __global__ void\n"
    "#define GLOBAL\n"
    "#define SHARED __shared__\n"
    "#define BUFFER(x) char *x##_base\n"
    "#define AT(T, x) ((T *)x##_base)\n"
    "#define VALUES(T, v) const T v\n"
    "#define UNPACK(T, v)\n"
    "#define GROUP ((int64_t)blockIdx.x)\n"
    "#define GROUPS ((int64_t)gridDim.x)\n"
    "#define LANE ((int)threadIdx.x)\n"
    "#define LANES ((int)blockDim.x)\n"
    "#define ITEM (GROUP * LANES + LANE)\n"
    "#define ITEMS (GROUPS * LANES)\n"
    "#define UNROLL _Pragma(\"unroll\")\n"
    "#define ROLLED _Pragma(\"unroll 1\")\n"
    "#define BARRIER __syncthreads()\n"
    "#ifdef __CUDACC_RTC__\n"
    "#define BARRIER_OF(n) ((n) <= 32 ? __syncwarp() : __syncthreads())\n"
    "template <int n> struct td_word { typedef unsigned char t; };\n"
    "template <> struct td_word<2> { typedef uint16_t t; };\n"
    "template <> struct td_word<4> { typedef uint32_t t; };\n"
    "template <> struct td_word<8> { typedef uint2 t; };\n"
    "template <> struct td_word<16> { typedef uint4 t; };\n"
    "template <typename T> inline void td_move_pack(void *to, const void *from)\n"
    "{\n"
    " typedef typename td_word<alignof(T)>::t word;\n"
    " for (int i = 0; i < (int)(sizeof(T) / sizeof(word)); i++)\n"
    "  ((word *)to)[i] = ((const word *)from)[i];\n"
    "}\n"
    "template <typename T> inline T td_get_pack(const T *p) { T x; td_move_pack<T>(&x, p); return x; }\n"
    "template <typename T> inline void td_set_pack(T *p, const T &x) { td_move_pack<T>(p, &x); }\n"
    "#define GET_PACK(p) td_get_pack(p)\n"
    "#define SET_PACK(p, x) td_set_pack(p, x)\n"
    "#define TD_QUOTED(x) #x\n"
    "#define UNROLL_BY(n) _Pragma(TD_QUOTED(unroll n))\n"
    "#else\n"
    "#define BARRIER_OF(n) BARRIER\n"
    "#define GET_PACK(p) (*(p))\n"
    "#define SET_PACK(p, x) (*(p) = (x))\n"
    "#define UNROLL_BY(n)\n"
    "#endif\n"
    "#define ATOMIC_ADD(p, x) atomicAdd(p, x)\n"
    "#define ATOMIC_COUNT(p) atomicAdd((unsigned int *)(p), 1u)\n"
    "#define ATOMIC_COUNT_SHARED(p) atomicAdd((unsigned int *)(p), 1u)\n"
    "#define ATOMIC_SWAP32(p, old, new) atomicCAS((unsigned int *)(p), old, new)\n"
    "#define ATOMIC_SWAP64(p, old, new) ((uint64_t)atomicCAS((unsigned long long *)(p), old, new))\n";
/* By one instruction where portable code takes a dozen.  What isn't a number becomes the one that the CPU makes of it.  erff, too, is shorter than
 * the portable function, which computes two polynomials and an exponential to be rounded well: gelu of bfloat16 is bound by memory so. */
static const td_own_piece cuda_own[] = {
    {"td_f16_to_f32", "TD_MATHS float td_f16_to_f32(td_f16 x) { float y; asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x)); return y; }\n"},
    {"td_f32_to_f16", "TD_MATHS td_f16 td_f32_to_f16(float x) { td_f16 y; asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x)); return y; }\n"},
    {"td_f32_to_bf16",
     "TD_MATHS td_bf16 td_f32_to_bf16(float x)\n"
     "{\n"
     "#if __CUDA_ARCH__ >= 800\n"
     " td_bf16 y;\n"
     " asm(\"cvt.rn.bf16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x));\n"
     " return x != x ? (td_bf16)0x7fc0 : y;\n"
     "#else\n"
     " uint32_t bits = td_f32_bits(x), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;\n"
     " return (td_bf16)(x != x ? 0x7fc0 : rounded);\n"
     "#endif\n"
     "}\n"},
    {"td_erf_f32", "TD_MATHS float td_erf_f32(float x) { return erff(x); }\n"},
    {"td_lgamma_f64", "TD_MATHS double td_lgamma_f64(double x) { return lgamma(x); }\n"},
    {0},
};

const td_dialect_table td_dialect_tables[TD_DIALECTS] = {
    [TD_DIALECT_C] = {"C", c_options, c_head, "", "", "", TD_NEEDS_LONG_DOUBLE | TD_NEEDS_BESSEL | TD_NEEDS_DOUBLE, library_own},
    [TD_DIALECT_OPENCL] = {"OpenCL C", "-cl-std=CL1.2", opencl_head, opencl_work, "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n", "#undef half\n",
                           TD_NEEDS_DOUBLE, opencl_own},
    [TD_DIALECT_CUDA] = {"CUDA C", "--fmad=false --device-as-default-execution-space", cuda_head, cuda_work, "", "", TD_NEEDS_BESSEL | TD_NEEDS_DOUBLE, cuda_own},
    [TD_DIALECT_SERIAL] = {"C", c_options, c_head, serial_work, "", "", TD_NEEDS_LONG_DOUBLE | TD_NEEDS_BESSEL | TD_NEEDS_DOUBLE, c_own},
};

const char *td_dialect_options(td_dialect dialect)
{
    return dialect >= 0 && dialect < TD_DIALECTS ? td_dialect_tables[dialect].options : NULL;
}
