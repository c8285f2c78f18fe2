/* NVRTC, whose compiler is cc, and cuBLAS. */
#define _GNU_SOURCE
#include "fake.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct program { char *source, *log; head *code; bool ptx; } *nvrtcProgram;
static const char prelude[] =
    "#include <math.h>\n#include <stdbool.h>\n#include <stdint.h>\n#include <string.h>\n"
    "struct fake_place { unsigned x; } blockIdx, gridDim, threadIdx, blockDim;\n"
    "void (*fake_barrier)(void);\n"
    "void fake_set(unsigned group, unsigned groups, unsigned lane, unsigned lanes)\n"
    "{ blockIdx.x = group, gridDim.x = groups, threadIdx.x = lane, blockDim.x = lanes; }\n"
    "#define __device__ __attribute__((unused))\n#define __shared__ static\n#define __syncthreads() fake_barrier()\n#define __threadfence() ((void)0)\n"
    "#define FAKE_BITS(name, T, U) static inline U name(T x) { U y; memcpy(&y, &x, sizeof y); return y; }\n"
    "FAKE_BITS(__int_as_float, int, float) FAKE_BITS(__uint_as_float, unsigned, float) FAKE_BITS(__float_as_uint, float, unsigned)\n"
    "FAKE_BITS(__float_as_int, float, int) FAKE_BITS(__longlong_as_double, long long, double) FAKE_BITS(__double_as_longlong, double, long long)\n"
    "static inline float fake_f32(uint16_t x) { _Float16 h; memcpy(&h, &x, 2); return (float)h; }\n"
    "static inline uint16_t fake_f16(float x) { _Float16 h = (_Float16)x; uint16_t y; memcpy(&y, &h, 2); return y; }\n"
    "#define FAKE_ATOMIC(p, e) ({ __typeof__(*(p)) fake_old = *(p); *(p) = (e); fake_old; })\n"
    "#define atomicAdd(p, v) FAKE_ATOMIC(p, fake_old + (v))\n#define atomicExch(p, v) FAKE_ATOMIC(p, v)\n"
    "#define atomicCAS(p, c, v) FAKE_ATOMIC(p, fake_old == (c) ? (v) : fake_old)\n"
    "#define atomicMax(p, v) FAKE_ATOMIC(p, fake_old > (v) ? fake_old : (v))\n#define atomicMin(p, v) FAKE_ATOMIC(p, fake_old < (v) ? fake_old : (v))\n"
    "#define atomicOr(p, v) FAKE_ATOMIC(p, fake_old | (v))\n#define atomicAnd(p, v) FAKE_ATOMIC(p, fake_old & (v))\n"
    /* What lanes of a warp do together: each writes down what it has, and reads the others'.  All of the block must come. */
    "static uint32_t fake_left[1024][4], fake_right[1024][2];\nstatic const uint16_t *fake_rows[1024];\nstatic float fake_floats[1024];\n"
    "static float fake_exchange(float x, int mask)\n"
    "{ fake_floats[threadIdx.x] = x; fake_barrier(); x = fake_floats[threadIdx.x ^ mask]; fake_barrier(); return x; }\n"
    "static void fake_fetch(uint16_t *to, const uint16_t *from, bool in)\n"
    "{ static const char none[16]; if (((uintptr_t)to | (uintptr_t)from) % 16) __builtin_trap(); memcpy(to, in ? (const char *)from : none, 16); }\n"
    "static void fake_load_tiles(uint32_t *r, const uint16_t *row, int transposed)\n"
    "{\n"
    "    const unsigned warp = threadIdx.x / 32 * 32, l = threadIdx.x % 32;\n"
    "    if ((uintptr_t)row % 16) __builtin_trap();\n"
    "    fake_rows[threadIdx.x] = row; fake_barrier();\n"
    "    for (int t = 0; t < 4; t++) {\n"
    "        const uint16_t *const *rows = fake_rows + warp + 8 * t;\n"
    "        r[t] = transposed ? rows[l % 4 * 2][l / 4] | (uint32_t)rows[l % 4 * 2 + 1][l / 4] << 16\n"
    "                          : rows[l / 4][l % 4 * 2] | (uint32_t)rows[l / 4][l % 4 * 2 + 1] << 16;\n"
    "    }\n"
    "    fake_barrier();\n"
    "}\n"
    "static float fake_half(uint32_t both, int high, int brain)\n"
    "{ const uint16_t x = (uint16_t)(high ? both >> 16 : both); return brain ? __uint_as_float((unsigned)x << 16) : fake_f32(x); }\n"
    "static void fake_multiply_tiles(float *c, const uint32_t *a, uint32_t b0, uint32_t b1, int brain)\n"
    "{\n"
    "    const unsigned warp = threadIdx.x / 32 * 32, l = threadIdx.x % 32;\n"
    "    memcpy(fake_left[threadIdx.x], a, 16); fake_right[threadIdx.x][0] = b0; fake_right[threadIdx.x][1] = b1; fake_barrier();\n"
    "    for (int e = 0; e < 4; e++) {\n"
    "        const int row = l / 4 + 8 * (e / 2), column = l % 4 * 2 + e % 2;\n"
    "        for (int k = 0; k < 16; k++)\n"
    "            c[e] += fake_half(fake_left[warp + row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2, brain) *\n"
    "                    fake_half(fake_right[warp + column * 4 + k % 8 / 2][k / 8], k % 2, brain);\n"
    "    }\n"
    "    fake_barrier();\n"
    "}\n";

const char *nvrtcGetErrorString(nvrtcResult code) { return code == 6 ? "NVRTC_ERROR_COMPILATION" : code == 5 ? "NVRTC_ERROR_INVALID_OPTION" : "NVRTC_ERROR"; }
nvrtcResult nvrtcGetNumSupportedArchs(int *n) { return *n = 3, 0; }
nvrtcResult nvrtcGetSupportedArchs(int *list) { return list[0] = 75, list[1] = 80, list[2] = 90, 0; }
nvrtcResult nvrtcCreateProgram(nvrtcProgram *p, const char *source, const char *name, int n, const char *const *headers, const char *const *names)
{
    (void)name, (void)headers, (void)names;
    *p = calloc(1, sizeof **p);
    (*p)->source = strdup(source);
    return n ? 3 : 0;
}
nvrtcResult nvrtcDestroyProgram(nvrtcProgram *p)
{
    free((*p)->source), free((*p)->log), free((*p)->code), free(*p);
    return *p = NULL, 0;
}

static char *read_all(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    char *text = calloc(*size + 1, 1);
    *size = fread(text, 1, *size, file);
    fclose(file);
    return text;
}
static int write_all(const char *path, const char *first, const char *second)
{
    FILE *file = fopen(path, "w");
    return file && fputs(first, file) >= 0 && fputs(second, file) >= 0 && fclose(file) == 0 ? 0 : -1;
}

/* Takes CUDA's words out of preprocessed text, and writes what launches its kernels behind it. */
static char *translate(char *text)
{
    static const char kernel[] = "extern \"C\" __global__", to_f32[] = "asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(y) : \"h\"(x));",
                      to_f16[] = "asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(y) : \"f\"(x));";
    char *out = NULL;
    size_t size;
    FILE *more = open_memstream(&out, &size);
    for (char *at; (at = strstr(text, to_f32));)
        memset(at, ' ', sizeof to_f32 - 1), memcpy(at, "y = fake_f32(x);", 16);
    for (char *at; (at = strstr(text, to_f16));)
        memset(at, ' ', sizeof to_f16 - 1), memcpy(at, "y = fake_f16(x);", 16);
    fprintf(more, "\n");
    for (char *at = text; (at = strstr(at, kernel));) {
        memset(at, ' ', sizeof kernel - 1);
        char *begin = strchr(at, '('), *end = strchr(begin, ')'), *name = begin, kinds[MOST_ARGUMENTS + 1] = "", types[MOST_ARGUMENTS][200];
        while (name[-1] == ' ')
            name--;
        char *name_end = name;
        while (name[-1] == '_' || (name[-1] >= '0' && name[-1] <= '9') || (name[-1] >= 'A' && name[-1] <= 'Z') || (name[-1] >= 'a' && name[-1] <= 'z'))
            name--;
        int n = 0;
        for (char *p = begin + 1; p < end; n++) {
            char *comma = memchr(p, ',', (size_t)(end - p)), *last = comma ? comma : end, *word = last;
            while (word[-1] != ' ' && word[-1] != '*')
                word--;
            snprintf(types[n], sizeof types[n], "%.*s", (int)(word - p), p);
            kinds[n] = strchr(types[n], '*') ? 'p' : 'v';
            p = last + 1;
        }
        const int length = (int)(name_end - name);
        fprintf(more, "const char %.*s__kinds[] = \"%s\"; const unsigned %.*s__sizes[] = {", length, name, kinds, length, name);
        for (int i = 0; i < n; i++)
            fprintf(more, "sizeof(%s), ", types[i]);
        fprintf(more, "0};\nvoid %.*s__call(void **p) { %.*s(", length, name, length, name);
        for (int i = 0; i < n; i++)
            fprintf(more, "%s*(%s *)p[%d]", i ? ", " : "", types[i], i);
        fprintf(more, "); }\n");
        at = end;
    }
    fclose(more);
    return out;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *options);
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *size);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log);

/* The text through a real NVRTC, if one is named; what it says, or NULL. */
static char *refused(const char *source, int n, const char *const *options)
{
    const char *path = getenv("FAKE_CUDA_NVRTC");
    void *real = path && *path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    char *log = path && *path && !real ? strdup(dlerror()) : NULL;
#define REAL(name) ((__typeof__(&name))dlsym(real, #name))
    for (int architecture = 80; real && !log && architecture <= 90; architecture += 10) {
        char option[40];
        size_t size = 0;
        void *program = NULL;
        snprintf(option, sizeof option, "--gpu-architecture=sm_%d", architecture);
        const char *all[16] = {option, "--device-debug"};       /* which takes the least time */
        for (int i = 1; i < n; i++)
            all[i + 1] = options[i];
        if (REAL(nvrtcCreateProgram)((nvrtcProgram *)&program, source, "tede.cu", 0, NULL, NULL) == 0 && REAL(nvrtcCompileProgram)(program, n + 1, all) != 0) {
            REAL(nvrtcGetProgramLogSize)(program, &size);
            log = calloc(size + 1, 1);
            REAL(nvrtcGetProgramLog)(program, log);
        }
        REAL(nvrtcDestroyProgram)((nvrtcProgram *)&program);
    }
    return log;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram p, int n, const char *const *options)
{
    char source[300], text[300], library[300], errors[300], command[1600];
    int architecture = 0;
    for (int i = 0; i < n; i++) {
        if (sscanf(options[i], "--gpu-architecture=sm_%d", &architecture) == 1 || !strcmp(options[i], "--fmad=false") ||
            !strcmp(options[i], "--device-as-default-execution-space"))
            continue;
        if (sscanf(options[i], "--gpu-architecture=compute_%d", &architecture) != 1)
            return 5;
        p->ptx = true;
    }
    if (n < 1 || n > 14 || strncmp(options[0], "--gpu-arch", 10))
        return 5;
    if (architecture != 75 && architecture != 80 && architecture != 90)
        return 5;
    if ((p->log = refused(p->source, n, options)))
        return 6;
    fake_temporary(".cu", source, sizeof source), fake_temporary(".c", text, sizeof text), fake_temporary(".so", library, sizeof library), fake_temporary(".log", errors, sizeof errors);
    snprintf(command, sizeof command, "cc -x c -E -P %s -o %s 2> %s", source, text, errors);
    int status = write_all(source, prelude, p->source) || system(command);
    size_t size = 0;
    char *preprocessed = status ? NULL : read_all(text, &size), *calls = preprocessed ? translate(preprocessed) : NULL;
    snprintf(command, sizeof command, "cc -std=gnu17 -w -O1 -fwrapv -ffp-contract=off -shared -fPIC %s -o %s -lm 2> %s", text, library, errors);
    status = !calls || write_all(text, preprocessed, calls) || system(command);
    char *code = status ? NULL : read_all(library, &size);
    if (code && (p->code = malloc(sizeof *p->code + size))) {
        *p->code = (head){"FAKECU1", architecture, p->ptx, size};
        memcpy(p->code + 1, code, size);
        fake_counts[COMPILED]++;
    }
    size_t unused;
    p->log = read_all(errors, &unused);
    free(preprocessed), free(calls), free(code);
    unlink(source), unlink(text), unlink(library), unlink(errors);
    return p->code ? 0 : 6;
}
nvrtcResult nvrtcGetProgramLogSize(nvrtcProgram p, size_t *size) { return *size = p->log ? strlen(p->log) + 1 : 1, 0; }
nvrtcResult nvrtcGetProgramLog(nvrtcProgram p, char *log) { return strcpy(log, p->log ? p->log : ""), 0; }
static nvrtcResult code_size(nvrtcProgram p, bool ptx, size_t *size) { return *size = p->ptx == ptx ? sizeof(head) + p->code->bytes : 0, 0; }
static nvrtcResult read_code(nvrtcProgram p, bool ptx, char *to) { return p->ptx != ptx ? 3 : (memcpy(to, p->code, sizeof(head) + p->code->bytes), 0); }
nvrtcResult nvrtcGetCUBINSize(nvrtcProgram p, size_t *size) { return code_size(p, false, size); }
nvrtcResult nvrtcGetCUBIN(nvrtcProgram p, char *to) { return read_code(p, false, to); }
nvrtcResult nvrtcGetPTXSize(nvrtcProgram p, size_t *size) { return code_size(p, true, size); }
nvrtcResult nvrtcGetPTX(nvrtcProgram p, char *to) { return read_code(p, true, to); }

/* ---- cuBLAS */

typedef struct handle { CUcontext context; CUstream stream; int mode; } *cublasHandle_t;
int cublasCreate_v2(cublasHandle_t *h)
{
    ENTER(true);
    *h = malloc(sizeof **h);
    **h = (struct handle){.context = fake_current};
    fake_counts[HANDLES]++;
    return 0;
}
int cublasDestroy_v2(cublasHandle_t h) { return free(h), fake_counts[HANDLES]--, 0; }
int cublasSetStream_v2(cublasHandle_t h, CUstream s) { ENTER(true); return h->stream = s, fake_stream_of(s) ? 0 : 7; }
int cublasSetMathMode(cublasHandle_t h, int mode) { return h->mode = mode, 0; }
int cublasGemmStridedBatchedEx(cublasHandle_t h, int ta, int tb, int m, int n, int k, const void *alpha, const void *a, int a_type, int lda, long long sa,
                               const void *b, int b_type, int ldb, long long sb, const void *beta, void *c, int c_type, int ldc, long long sc, int batch,
                               int compute, int algorithm)
{
    ENTER(true);
    CUstream s = fake_stream_of(h->stream);
    if (h->context != fake_current || !s)
        return 7;
    const long long w = c_type == 0 ? 4 : c_type == 1 ? 8 : 2, ends[3] = {(ta ? (long long)lda * (m - 1) + k : (long long)lda * (k - 1) + m) + sa * (batch - 1),
                                                  (tb ? (long long)ldb * (k - 1) + n : (long long)ldb * (n - 1) + k) + sb * (batch - 1),
                                                  (long long)ldc * (n - 1) + m + sc * (batch - 1)};
    if (a_type != c_type || b_type != c_type || m < 1 || n < 1 || k < 1 || batch < 1 || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m ||
        (compute != (c_type == 1 ? 70 : 68) && (compute != 77 || c_type != 0)) || algorithm != -1 || !fake_place((CUdeviceptr)(uintptr_t)a, (size_t)(ends[0] * w), fake_current->device) ||
        !fake_place((CUdeviceptr)(uintptr_t)b, (size_t)(ends[1] * w), fake_current->device) || !fake_place((CUdeviceptr)(uintptr_t)c, (size_t)(ends[2] * w), fake_current->device))
        return 7;
    operation *o = fake_ask(s, PRODUCT);
    o->product.ta = ta, o->product.tb = tb, o->product.type = c_type, o->product.lda = lda, o->product.ldb = ldb, o->product.ldc = ldc;
    o->product.m = m, o->product.n = n, o->product.k = k, o->product.batch = batch, o->product.sa = sa, o->product.sb = sb, o->product.sc = sc;
    o->product.alpha = c_type == 1 ? *(const double *)alpha : (double)*(const float *)alpha;
    o->product.beta = c_type == 1 ? *(const double *)beta : (double)*(const float *)beta;
    o->product.a = (char *)(uintptr_t)a, o->product.b = (char *)(uintptr_t)b, o->product.c = c;
    fake_counts[PRODUCTS]++, fake_counts[MATH] = h->mode, fake_counts[COMPUTE] = compute;
    return 0;
}
