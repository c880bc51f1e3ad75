// The small functions that emitted C and CUDA text brings along, each only where it is used. In the texts $
// stands for the linkage and @ for the prefix of their names. Out: their definitions, needed ones first.
#include "codegen/c/ctext_impl.h"
#include "codegen/c/cuda.h"

#define UNARY(name, T) "$ " T " @" name "(" T " x) "

// Memory as another type than it is declared with.
#define MEMORY(K, T)                                                                                         \
    {"load_" K, "",                                                                                          \
     "$ " T " @load_" K "(const void *p) {\n"                                                                \
     "    " T " v;\n    memcpy(&v, p, sizeof v);\n    return v;\n}\n",                                       \
     NULL},                                                                                                  \
    {                                                                                                        \
        "store_" K, "", "$ void @store_" K "(void *p, " T " v) { memcpy(p, &v, sizeof v); }\n", NULL         \
    }

#define BITS(K, T, U, TO, FROM)                                                                              \
    {"bits_" K, "",                                                                                          \
     "$ " U " @bits_" K "(" T " x) {\n    " U " u;\n    memcpy(&u, &x, sizeof u);\n    return u;\n}\n",      \
     "$ " U " @bits_" K "(" T " x) { return (" U ")" TO "(x); }\n"},                                         \
        {"from_bits_" K, "",                                                                                 \
         "$ " T " @from_bits_" K "(" U " u) {\n    " T                                                       \
         " x;\n    memcpy(&x, &u, sizeof x);\n    return x;\n}\n",                                           \
         "$ " T " @from_bits_" K "(" U " u) { return " FROM "(u); }\n"}

#define MIN_MAX(K, T)                                                                                        \
    {"min_" K, "", "$ " T " @min_" K "(" T " a, " T " b) { return a < b ? a : b; }\n", NULL}, {              \
        "max_" K, "", "$ " T " @max_" K "(" T " a, " T " b) { return a > b ? a : b; }\n", NULL               \
    }

#define MULADD(K, T, fast, f)                                                                                \
    {"muladd_" K, "",                                                                                        \
     "// Rounded once where the machine does it at once.\n"                                                  \
     "$ " T " @muladd_" K "(" T " a, " T " b, " T " c) {\n"                                                  \
     "#if defined(" fast ") || (defined(__GNUC__) && defined(__FMA__))\n"                                    \
     "    return __builtin_fma" f "(a, b, c);\n"                                                             \
     "#else\n"                                                                                               \
     "    return a * b + c;\n"                                                                               \
     "#endif\n}\n",                                                                                          \
     NULL}

// Rounding to whole numbers: from `limit` on every number is whole; the sign of a zero result is x's.
#define ROUND(K, T, I, limit, half, one, zero, c_abs, f)                                                     \
    {"abs_" K, "bits_" K " from_bits_" K,                                                                    \
     UNARY("abs_" K, T) "{ return @from_bits_" K "(@bits_" K "(x) & ~" zero "); }\n",                        \
     UNARY("abs_" K, T) "{ return " c_abs "(x); }\n"},                                                       \
        {"signed_" K, "bits_" K " from_bits_" K,                                                             \
         "// x with the sign of y.\n"                                                                        \
         "$ " T " @signed_" K "(" T " x, " T " y) {\n"                                                       \
         "    return @from_bits_" K "((@bits_" K "(x) & ~" zero ") | (@bits_" K "(y) & " zero "));\n}\n",    \
         NULL},                                                                                              \
        {"trunc_" K, "abs_" K " signed_" K,                                                                  \
         UNARY("trunc_" K, T) "{\n"                                                                          \
                              "    return @abs_" K "(x) < " limit " ? @signed_" K "((" T ")(" I              \
                              ")x, x) : x;\n}\n",                                                            \
         UNARY("trunc_" K, T) "{ return trunc" f "(x); }\n"},                                                \
        {"floor_" K, "abs_" K " signed_" K,                                                                  \
         UNARY("floor_" K, T) "{\n"                                                                          \
                              "    if (!(@abs_" K "(x) < " limit ")) return x;\n"                            \
                              "    " T " t = (" T ")(" I ")x;\n"                                             \
                              "    return @signed_" K "(t > x ? t - " one " : t, x);\n}\n",                  \
         UNARY("floor_" K, T) "{ return floor" f "(x); }\n"},                                                \
        {"ceil_" K, "abs_" K " signed_" K,                                                                   \
         UNARY("ceil_" K, T) "{\n"                                                                           \
                             "    if (!(@abs_" K "(x) < " limit ")) return x;\n"                             \
                             "    " T " t = (" T ")(" I ")x;\n"                                              \
                             "    return @signed_" K "(t < x ? t + " one " : t, x);\n}\n",                   \
         UNARY("ceil_" K, T) "{ return ceil" f "(x); }\n"},                                                  \
        {"rint_" K, "abs_" K " signed_" K,                                                                   \
         "// Halves to even.\n" UNARY("rint_" K, T) "{\n"                                                    \
                                                    "    if (!(@abs_" K "(x) < " limit ")) return x;\n"      \
                                                    "    " I " whole = (" I ")x;\n"                          \
                                                    "    " T " rest = @abs_" K "(x - (" T ")whole);\n"       \
                                                    "    if (rest > " half " || (rest == " half              \
                                                    " && (whole & 1))) whole += x < 0 ? -1 : 1;\n"           \
                                                    "    return @signed_" K "((" T ")whole, x);\n}\n",       \
         UNARY("rint_" K, T) "{ return rint" f "(x); }\n"}

#define SQRT_ASM(cond, text, out, in, T, K)                                                                  \
    "#elif " cond "\n" UNARY("sqrt_" K, T) "{\n"                                                             \
                                           "    __asm__(\"" text "\" : \"=" out "\"(x) : \"" in              \
                                           "\"(x));\n    return x;\n}\n"

// Digits of the square root of m, read as 62 binary places after two before the point, into `root`.
#define ROOT(digits)                                                                                         \
    "    uint64_t rest = 0, root = 0;\n"                                                                     \
    "    for (int i = 0; i < " digits "; i++) {\n"                                                           \
    "        uint64_t next = root << 2 | 1;\n"                                                               \
    "        rest = rest << 2 | m >> 62;\n"                                                                  \
    "        m <<= 2;\n"                                                                                     \
    "        root <<= 1;\n"                                                                                  \
    "        if (rest >= next) {\n"                                                                          \
    "            rest -= next;\n"                                                                            \
    "            root |= 1;\n"                                                                               \
    "        }\n"                                                                                            \
    "    }\n"

// d += a * b by one warp; outs, as, bs: the registers of a thread.
#define MMA_HEAD(name, D) "$ void @" name "(" D " *d, const uint32_t *a, const uint32_t *b) {\n"
#define MMA_ASM(shape, types, outs, as, bs, operands)                                                        \
    "    asm volatile(\"mma.sync.aligned." shape ".row.col." types "\"\n"                                    \
    "                 \" {" outs "}, {" as "}, {" bs "}, {" outs "};\"\n"                                    \
    "                 : " operands ");\n"
#define MMA(name, shape, types, D, outs, as, bs, operands, shim)                                             \
    {name, "", MMA_HEAD(name, D) "    " shim ";\n}\n",                                                       \
     MMA_HEAD(name, D) MMA_ASM(shape, types, outs, as, bs, operands) "}\n"}
// Shapes of sm_80; before, `older` does the same.
#define MMA_80(name, needs, shape, types, D, con, shim, older)                                               \
    {name, needs, MMA_HEAD(name, D) "    " shim ";\n}\n",                                                    \
     MMA_HEAD(name, D) "#if __CUDA_ARCH__ >= 800\n" MMA_ASM(                                                 \
         shape, types, "%0, %1, %2, %3", "%4, %5, %6, %7", "%8, %9", D4(con) A4B2) "#else\n" older           \
                                                                                   "#endif\n}\n"}
// Products of a register's elements by fused multiply-adds: thread 4 g + t of the warp sums for rows g and
// g + 8 and columns 2 t and 2 t + 1 what the others hold. `each` elements to a register, low and high make
// floats of them.
#define MMA_EXCHANGED(k, each, low, high)                                                                    \
    "    int lane;\n"                                                                                        \
    "    asm(\"mov.u32 %0, %%laneid;\" : \"=r\"(lane));\n"                                                   \
    "    for (int p = 0; p < " k "; p++) {\n"                                                                \
    "        int half = p / (" k " / 2), at = p % (" k " / 2) / " each ";\n"                                 \
    "        uint32_t ra = a[half * 2], rb = a[half * 2 + 1], rc = b[half];\n"                               \
    "        ra = __shfl_sync(0xffffffffu, ra, (lane & 28) + at);\n"                                         \
    "        rb = __shfl_sync(0xffffffffu, rb, (lane & 28) + at);\n"                                         \
    "        uint32_t rd = __shfl_sync(0xffffffffu, rc, (lane & 3) * 8 + 4 + at);\n"                         \
    "        rc = __shfl_sync(0xffffffffu, rc, (lane & 3) * 8 + at);\n"                                      \
    "        bool high = p % " each ";\n"                                                                    \
    "        float x0 = __uint_as_float(high ? " high("ra") " : " low(                                       \
        "ra") ");\n"                                                                                         \
              "        float x1 = __uint_as_float(high ? " high("rb") " : " low(                             \
                  "rb") ");\n"                                                                               \
                        "        float y0 = __uint_as_float(high ? " high("rc") " : " low(                   \
                            "rc") ");\n"                                                                     \
                                  "        float y1 = __uint_as_float(high ? " high("rd") " : " low(         \
                                      "rd") ");\n"                                                           \
                                            "        d[0] = fmaf(x0, y0, d[0]);\n        d[1] = fmaf(x0, "   \
                                            "y1, d[1]);\n"                                                   \
                                            "        d[2] = fmaf(x1, y0, d[2]);\n        d[3] = fmaf(x1, "   \
                                            "y1, d[3]);\n"                                                   \
                                            "    }\n"
#define TO_BF16(first)                                                                                       \
    "// To nearest, halves to even.\n"                                                                       \
    "$ uint16_t @f32_to_bf16(float x) {\n" first "    uint32_t u = @bits_f32(x);\n"                          \
    "    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);\n"                            \
    "    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);\n"
#define BF16_LOW(r)  r " << 16"
#define BF16_HIGH(r) r " & 0xffff0000u"
#define TF32(r)      r
// Each quarter of 16 x 32 bytes is a product of its own.
#define MMA_BYTES(types)                                                                                     \
    "    for (int i = 0; i < 4; i++)\n"                                                                      \
    "        asm volatile(\"mma.sync.aligned.m8n8k16.row.col." types " {%0, %1}, {%2}, {%3}, {%0, %1};\"\n"  \
    "                     : \"+r\"(d[i % 2 * 2]), \"+r\"(d[i % 2 * 2 + 1]) : \"r\"(a[i]), \"r\"(b[i / "      \
    "2]));\n"
#define MMA_32(name, types, type)                                                                            \
    MMA_80(name, "", "m16n8k32", types, "int32_t", "r", "shim_mma(16, 32, " type ", d, a, b)",               \
           MMA_BYTES(types))
#define FRAGMENT(name, how, turned)                                                                          \
    {name, "",                                                                                               \
     "$ void @" name "(void *to, const void *row) { shim_fragment((uint32_t *)to, row, " turned "); }\n",    \
     "$ void @" name "(void *to, const void *row) {\n"                                                       \
     "    uint32_t *d = (uint32_t *)to;\n"                                                                   \
     "    asm volatile(\"ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];\"\n"        \
     "                 : \"=r\"(d[0]), \"=r\"(d[1]), \"=r\"(d[2]), \"=r\"(d[3])\n"                           \
     "                 : \"r\"((uint32_t)__cvta_generic_to_shared(row)) : \"memory\");\n}\n"}
// Before sm_80 nothing is on its way.
#define ASYNC(name, ptx)                                                                                     \
    {name, "", "$ void @" name "(void) { }\n",                                                               \
     "$ void @" name "(void) {\n#if __CUDA_ARCH__ >= 800\n    asm volatile(\"" ptx                           \
     ";\" : : : \"memory\");\n#endif\n}\n"}
// Only products of groups of warps need it.
#define GROUP(name, ptx)                                                                                     \
    {name, "", "$ void @" name "(void) { }\n",                                                               \
     "$ void @" name "(void) {\n#if defined(" CUDA_HAS_OWN ")\n    asm volatile(\"" ptx                      \
     ";\" : : : \"memory\");\n#endif\n}\n"}
// Of one thread, where there are bulk copies; at: a barrier in shared memory.
#define BULK(name, params, shim, ptx, operands)                                                              \
    {name, "", "$ void @" name "(" params ") { " shim "; }\n",                                               \
     "$ void @" name "(" params ") {\n#if __CUDA_ARCH__ >= 900\n"                                            \
     "    if (threadIdx.x == 0) asm volatile(\"" ptx ";\" : : " operands " : \"memory\");\n#endif\n}\n"}
#define SHARED_AT(p) "\"r\"((uint32_t)__cvta_generic_to_shared(" p "))"
// Where there are none, copies of all threads were issued before; `left` of their groups may be on their way.
#define BULK_WAIT(left)                                                                                      \
    {"bulk_wait_" left, "",                                                                                  \
     "$ void @bulk_wait_" left "(void *at, int parity) { shim_bulk_wait(at, parity); }\n",                   \
     "$ void @bulk_wait_" left "(void *at, int parity) {\n#if __CUDA_ARCH__ >= 900\n"                        \
     "    uint32_t passed = 0;\n"                                                                            \
     "    while (!passed)\n"                                                                                 \
     "        asm volatile(\"{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\"\n"      \
     "                     \" selp.b32 %0, 1, 0, p; }\"\n"                                                   \
     "                     : \"=r\"(passed) : " SHARED_AT(                                                   \
         "at") ", \"r\"(parity) : \"memory\");\n"                                                            \
               "#elif __CUDA_ARCH__ >= 800\n    asm volatile(\"cp.async.wait_group " left                    \
               ";\" : : : \"memory\");\n#endif\n}\n"}
#define D4(con) "\"+" con "\"(d[0]), \"+" con "\"(d[1]), \"+" con "\"(d[2]), \"+" con "\"(d[3])"
#define D2(con) "\"+" con "\"(d[0]), \"+" con "\"(d[1])"
#define A4B2                                                                                                 \
    "\n                 : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1])"
#define A2B1 "\n                 : \"r\"(a[0]), \"r\"(a[1]), \"r\"(b[0])"
#define A1B1 " : \"r\"(a[0]), \"r\"(b[0])"

static const chelp helps[] = {
    MEMORY("i16", "int16_t"),
    MEMORY("i32", "int32_t"),
    MEMORY("i64", "int64_t"),
    MEMORY("f32", "float"),
    MEMORY("f64", "double"),
    MEMORY("ptr", "void *"),
    BITS("f32", "float", "uint32_t", "__float_as_uint", "__uint_as_float"),
    BITS("f64", "double", "uint64_t", "__double_as_longlong", "__longlong_as_double"),
    MIN_MAX("i8", "int8_t"),
    MIN_MAX("i16", "int16_t"),
    MIN_MAX("i32", "int32_t"),
    MIN_MAX("i64", "int64_t"),
    MIN_MAX("u8", "uint8_t"),
    MIN_MAX("u16", "uint16_t"),
    MIN_MAX("u32", "uint32_t"),
    MIN_MAX("u64", "uint64_t"),
    MIN_MAX("f32", "float"),
    MIN_MAX("f64", "double"),
    MULADD("f32", "float", "__FP_FAST_FMAF", "f"),
    MULADD("f64", "double", "__FP_FAST_FMA", ""),
    ROUND("f32", "float", "int32_t", "8388608.0f", "0.5f", "1.0f", "0x80000000u", "fabsf", "f"),
    ROUND("f64", "double", "int64_t", "4503599627370496.0", "0.5", "1.0", "0x8000000000000000u", "fabs", ""),
    {"sqrt_f32", "",
     "// Correctly rounded: by the machine's instruction, or one digit more than the result has; ties cannot "
     "be.\n"
     "#if defined(__SSE2__)\n"
     "#include <emmintrin.h>\n" UNARY(
         "sqrt_f32",
         "float") "{ return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x))); }\n" SQRT_ASM("defined(__GNUC__) && "
                                                                                     "defined(__aarch64__)",
                                                                                     "fsqrt %s0, %s1", "w",
                                                                                     "w", "float", "f32")
         SQRT_ASM("defined(__GNUC__) && defined(__ARM_FP) && (__ARM_FP & 4)", "vsqrt.f32 %0, %1", "t", "t",
                  "float", "f32")
             SQRT_ASM(
                 "defined(__GNUC__) && defined(__riscv_fdiv)", "fsqrt.s %0, %1", "f", "f", "float",
                 "f32") "#else\n" UNARY("sqrt_f32",
                                        "float") "{\n"
                                                 "    uint32_t u;\n"
                                                 "    memcpy(&u, &x, sizeof u);\n"
                                                 "    if (x == 0 || u == 0x7f800000) return x;\n"
                                                 "    if (!(x > 0)) return x < 0 ? (x - x) / (x - x) : x + "
                                                 "x;\n"
                                                 "    uint64_t m = u & 0x7fffff;\n"
                                                 "    int e = (int)(u >> 23);\n"
                                                 "    if (e) m |= 0x800000;\n"
                                                 "    else e = 1;\n"
                                                 "    for (; m < 0x800000; e--) m <<= 1;\n"
                                                 "    if (e % 2 == 0) {\n"
                                                 "        m <<= 1;\n"
                                                 "        e--;\n"
                                                 "    }\n"
                                                 "    m <<= 39;\n" ROOT(
                                                     "25") "    u = (uint32_t)((root + 1) >> 1) - 0x800000 + "
                                                           "((uint32_t)((e - 175) / 2 + 151) << 23);\n"
                                                           "    memcpy(&x, &u, sizeof x);\n"
                                                           "    return x;\n}\n"
                                                           "#endif\n",
     UNARY("sqrt_f32", "float") "{ return __fsqrt_rn(x); }\n"},
    {"sqrt_f64", "",
     "// Correctly rounded, like that of f32.\n"
     "#if defined(__SSE2__)\n"
     "#include <emmintrin.h>\n" UNARY(
         "sqrt_f64",
         "double") "{ \n    return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_set_sd(x), _mm_set_sd(x)));\n"
                   "}\n" SQRT_ASM("defined(__GNUC__) && defined(__aarch64__)", "fsqrt %d0, %d1", "w", "w",
                                  "double", "f64") SQRT_ASM("defined(__GNUC__) && defined(__ARM_FP) && "
                                                            "(__ARM_FP & 8)",
                                                            "vsqrt.f64 %P0, %P1", "w", "w", "double", "f64")
                       SQRT_ASM("defined(__GNUC__) && defined(__riscv_fdiv) && __riscv_flen >= 64",
                                "fsqrt.d %0, %1", "f", "f", "double",
                                "f64") "#else\n" UNARY("sqrt_f64",
                                                       "double") "{\n"
                                                                 "    uint64_t u;\n"
                                                                 "    memcpy(&u, &x, sizeof u);\n"
                                                                 "    if (x == 0 || u == "
                                                                 "0x7ff0000000000000u) return x;\n"
                                                                 "    if (!(x > 0)) return x < 0 ? (x "
                                                                 "- x) / (x - x) : x + x;\n"
                                                                 "    uint64_t m = u & "
                                                                 "0xfffffffffffffu;\n"
                                                                 "    int e = (int)(u >> 52);\n"
                                                                 "    if (e) m |= 0x10000000000000u;\n"
                                                                 "    else e = 1;\n"
                                                                 "    for (; m < 0x10000000000000u; "
                                                                 "e--) m <<= 1;\n"
                                                                 "    if (e % 2 == 0) {\n"
                                                                 "        m <<= 1;\n"
                                                                 "        e--;\n"
                                                                 "    }\n"
                                                                 "    m <<= 10;\n" ROOT(
                                                                     "54") "    u = ((root + 1) >> 1) "
                                                                           "- 0x10000000000000u + "
                                                                           "((uint64_t)((e - 1129) / "
                                                                           "2 + 1076) << 52);\n"
                                                                           "    memcpy(&x, &u, sizeof "
                                                                           "x);\n"
                                                                           "    return x;\n}\n"
                                                                           "#endif\n",
     UNARY("sqrt_f64", "double") "{ return __dsqrt_rn(x); }\n"},
    {"f16_to_f32", "bits_f32 from_bits_f32",
     "$ float @f16_to_f32(uint16_t h) {\n"
     "    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7fff;\n"
     "    if (rest < 0x400) return @from_bits_f32(sign | @bits_f32((float)rest * 5.9604644775390625e-08f));\n"
     "    if (rest > 0x7c00) rest |= 0x200;\n"
     "    return @from_bits_f32(sign | ((rest << 13) + (rest >= 0x7c00 ? 0x70000000 : 0x38000000)));\n}\n",
     "$ float @f16_to_f32(uint16_t h) {\n"
     "    float x;\n    asm(\"cvt.f32.f16 %0, %1;\" : \"=f\"(x) : \"h\"(h));\n    return x;\n}\n"},
    {"f32_to_f16", "bits_f32",
     "// To nearest, halves to even; subnormal results too.\n"
     "$ uint16_t @f32_to_f16(float x) {\n"
     "    uint32_t u = @bits_f32(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;\n"
     "    if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (a >> 13 & 0x3ff));\n"
     "    if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00);\n"
     "    if (a >= 0x38800000) return (uint16_t)(sign | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));\n"
     "    uint32_t shift = 126 - (a >> 23), m = (a & 0x7fffff) | 0x800000;\n"
     "    if (shift > 24) return (uint16_t)sign;\n"
     "    uint32_t r = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);\n"
     "    return (uint16_t)(sign | (r + (rest > half || (rest == half && (r & 1)))));\n}\n",
     "$ uint16_t @f32_to_f16(float x) {\n"
     "    uint16_t h;\n    asm(\"cvt.rn.f16.f32 %0, %1;\" : \"=h\"(h) : \"f\"(x));\n    return h;\n}\n"},
    {"copy_16", "", "$ void @copy_16(void *to, const void *from) { memcpy(to, from, 16); }\n",
     "$ void @copy_16(void *to, const void *from) { *(uint4 *)to = *(const uint4 *)from; }\n"},
    {"copy_8", "", "$ void @copy_8(void *to, const void *from) { memcpy(to, from, 8); }\n",
     "$ void @copy_8(void *to, const void *from) { *(uint2 *)to = *(const uint2 *)from; }\n"},
    {"copy_4", "", "$ void @copy_4(void *to, const void *from) { memcpy(to, from, 4); }\n",
     "$ void @copy_4(void *to, const void *from) { *(uint32_t *)to = *(const uint32_t *)from; }\n"},
    FRAGMENT("fragment_x4", "", "0"),
    FRAGMENT("fragment_x4_turned", ".trans", "1"),
    {"async_16", "", "$ void @async_16(void *to, const void *from) { memcpy(to, from, 16); }\n",
     "$ void @async_16(void *to, const void *from) {\n"
     "#if __CUDA_ARCH__ >= 800\n"
     "    asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16;\"\n"
     "                 : : \"r\"((uint32_t)__cvta_generic_to_shared(to)), \"l\"(from) : \"memory\");\n"
     "#else\n    *(uint4 *)to = *(const uint4 *)from;\n#endif\n}\n"},
    {"async_16_or_0", "",
     "$ void @async_16_or_0(void *to, const void *from, int there) {\n"
     "    if (there) memcpy(to, from, 16);\n    else memset(to, 0, 16);\n}\n",
     "$ void @async_16_or_0(void *to, const void *from, int there) {\n"
     "#if __CUDA_ARCH__ >= 800\n"
     "    asm volatile(\"cp.async.cg.shared.global [%0], [%1], 16, %2;\"\n"
     "                 : : \"r\"((uint32_t)__cvta_generic_to_shared(to)), \"l\"(from), \"r\"(there ? 16 : 0) "
     ": "
     "\"memory\");\n"
     "#else\n    *(uint4 *)to = there ? *(const uint4 *)from : uint4{};\n#endif\n}\n"},
    ASYNC("async_commit", "cp.async.commit_group"),
    ASYNC("async_wait_0", "cp.async.wait_group 0"),
    ASYNC("async_wait_1", "cp.async.wait_group 1"),
    BULK("bulk_init", "void *at", "shim_bulk_init(at)", "mbarrier.init.shared::cta.b64 [%0], 1",
         SHARED_AT("at")),
    BULK("bulk_show", "void", "shim_bulk_show()", "fence.mbarrier_init.release.cluster", ""),
    BULK("bulk_expect", "void *at, int bytes", "shim_bulk_expect(at, bytes)",
         "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1", SHARED_AT("at") ", \"r\"(bytes)"),
    {"bulk_copy", "async_16",
     "$ void @bulk_copy(void *to, const void *from, int bytes, void *at, int threads) {\n"
     "    if (shim_bulk_copy(to, from, bytes, at)) return;\n"
     "    for (int i = threadIdx.x * 16; i < bytes; i += threads * 16)\n"
     "        memcpy((char *)to + i, (const char *)from + i, 16);\n}\n",
     "$ void @bulk_copy(void *to, const void *from, int bytes, void *at, int threads) {\n"
     "#if __CUDA_ARCH__ >= 900\n"
     "    if (threadIdx.x == 0)\n"
     "        asm volatile(\"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], "
     "%2, "
     "[%3];\"\n"
     "                     : : " SHARED_AT("to") ", \"l\"(from), \"r\"(bytes), " SHARED_AT(
         "at") " : \"memory\");\n"
               "#else\n"
               "    for (int i = threadIdx.x * 16; i < bytes; i += threads * 16)\n"
               "        @async_16((char *)to + i, (const char *)from + i);\n"
               "#endif\n}\n"},
    BULK_WAIT("0"),
    BULK_WAIT("1"),
    {"group_tile", "",
     "// What wgmma takes for an operand: where it begins in shared memory, 128-byte swizzle.\n"
     "$ uint64_t @group_tile(const void *p, int lead) {\n"
     "    uint64_t at = (uint32_t)__cvta_generic_to_shared(p);\n"
     "    return (at >> 4 & 0x3fff) | (uint64_t)(lead >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << "
     "62;\n}\n",
     NULL},
    {"group_cores", "",
     "// The same of core matrices: 128 bytes to the next along K, 1024 to the next rows, no swizzle.\n"
     "$ uint64_t @group_cores(const void *p) {\n"
     "    uint64_t at = (uint32_t)__cvta_generic_to_shared(p);\n"
     "    return (at >> 4 & 0x3fff) | (uint64_t)(128 >> 4) << 16 | (uint64_t)(1024 >> 4) << 32;\n}\n",
     NULL},
    {"group_core", "",
     "$ const void *@group_core(const void *p, int row, int chunk) {\n"
     "    return (const char *)p + row / 8 * 1024 + chunk * 128 + row % 8 * 16;\n}\n",
     NULL},
    {"group_row", "",
     "$ const void *@group_row(const void *p, int offset) {\n"
     "    uintptr_t at = (uintptr_t)p + (uintptr_t)offset;\n"
     "    return (const void *)(at ^ (at >> 7 & 7) << 4);\n}\n",
     NULL},
    GROUP("group_commit", "wgmma.commit_group.sync.aligned"),
    GROUP("group_show", "fence.proxy.async.shared::cta"),
    {"dynamic_shared", "", "#define @dynamic_shared(bytes) (unsigned char *)shim_dynamic(bytes)\n",
     "extern __shared__ __align__(1024) unsigned char @dynamic[];\n"
     "#define @dynamic_shared(bytes) @dynamic\n"},
    {"bf16_to_f32", "from_bits_f32",
     "$ float @bf16_to_f32(uint16_t h) { return @from_bits_f32((uint32_t)h << 16); }\n", NULL},
    {"f32_to_bf16", "bits_f32", TO_BF16("") "}\n",
     TO_BF16("#if __CUDA_ARCH__ >= 800\n"
             "    uint32_t both;\n"
             "    asm(\"cvt.rn.bf16x2.f32 %0, 0f00000000, %1;\" : \"=r\"(both) : \"f\"(x));\n"
             "    return (uint16_t)both;\n#endif\n") "}\n"},
    {"to_odd_f32", "bits_f32 from_bits_f32 abs_f64",
     "// Inexact results get an odd last bit, so that rounding once more is as good as rounding once.\n"
     "$ float @to_odd_f32(double x) {\n"
     "    float r = (float)x;\n"
     "    if ((double)r == x || x != x) return r;\n"
     "    return @from_bits_f32((@bits_f32(r) - (@abs_f64((double)r) > @abs_f64(x))) | 1);\n}\n",
     NULL},
    {"dot4_us", "",
     "// acc + sum of the products of four unsigned bytes of a with four signed ones of b.\n"
     "$ int32_t @dot4_us(int32_t acc, int32_t a, int32_t b) {\n"
     "    int32_t sum = 0;\n"
     "    for (int i = 0; i < 32; i += 8) sum += (uint8_t)(a >> i) * (int8_t)(b >> i);\n"
     "    return (int32_t)((uint32_t)acc + (uint32_t)sum);\n}\n",
     "$ int32_t @dot4_us(int32_t acc, int32_t a, int32_t b) {\n"
     "    asm(\"dp4a.u32.s32 %0, %1, %2, %0;\" : \"+r\"(acc) : \"r\"(a), \"r\"(b));\n    return acc;\n}\n"},
    {"dot4_ss", "",
     "// acc + sum of the products of four signed bytes.\n"
     "$ int32_t @dot4_ss(int32_t acc, int32_t a, int32_t b) {\n"
     "    int32_t sum = 0;\n"
     "    for (int i = 0; i < 32; i += 8) sum += (int8_t)(a >> i) * (int8_t)(b >> i);\n"
     "    return (int32_t)((uint32_t)acc + (uint32_t)sum);\n}\n",
     "$ int32_t @dot4_ss(int32_t acc, int32_t a, int32_t b) {\n"
     "    asm(\"dp4a.s32.s32 %0, %1, %2, %0;\" : \"+r\"(acc) : \"r\"(a), \"r\"(b));\n    return acc;\n}\n"},
    {"dot2", "",
     "// acc + sum of the products of two signed halves.\n"
     "$ int32_t @dot2(int32_t acc, int32_t a, int32_t b) {\n"
     "    return (int32_t)((uint32_t)acc + (uint32_t)((int16_t)a * (int16_t)b) + (uint32_t)((a >> 16) * (b "
     ">> 16)));\n"
     "}\n",
     NULL},
    MMA("mma_m16n8k8_f16", "m16n8k8", "f32.f16.f16.f32", "float", "%0, %1, %2, %3", "%4, %5", "%6",
        D4("f") A2B1, "shim_mma(16, 8, SHIM_F16, d, a, b)"),
    MMA_80("mma_m16n8k16_f16", "mma_m16n8k8_f16", "m16n8k16", "f32.f16.f16.f32", "float", "f",
           "shim_mma(16, 16, SHIM_F16, d, a, b)",
           "    @mma_m16n8k8_f16(d, a, b);\n    @mma_m16n8k8_f16(d, a + 2, b + 1);\n"),
    MMA_80("mma_m16n8k16_bf16", "", "m16n8k16", "f32.bf16.bf16.f32", "float", "f",
           "shim_mma(16, 16, SHIM_BF16, d, a, b)", MMA_EXCHANGED("16", "2", BF16_LOW, BF16_HIGH)),
    MMA_80("mma_m16n8k8_tf32", "", "m16n8k8", "f32.tf32.tf32.f32", "float", "f",
           "shim_mma(16, 8, SHIM_TF32, d, a, b)", MMA_EXCHANGED("8", "1", TF32, TF32)),
    MMA("mma_m8n8k16_s8", "m8n8k16", "s32.s8.s8.s32", "int32_t", "%0, %1", "%2", "%3", D2("r") A1B1,
        "shim_mma(8, 16, SHIM_S8, d, a, b)"),
    MMA_32("mma_m16n8k32_s8", "s32.s8.s8.s32", "SHIM_S8"),
    MMA_32("mma_m16n8k32_u8s8", "s32.u8.s8.s32", "SHIM_U8S8"),
    MMA_32("mma_m16n8k32_s8u8", "s32.s8.u8.s32", "SHIM_S8U8"),
    MMA_32("mma_m16n8k32_u8", "s32.u8.u8.s32", "SHIM_U8"),
};
enum { HELPS = sizeof helps / sizeof *helps };

bool chelp_exists(const char *name) {
    for (int i = 0; i < HELPS; i++)
        if (!strcmp(helps[i].name, name)) return true;
    return false;
}

// Marks what row i needs; rows only need rows above them.
static void need(cmod *m, bool *wanted, int i) {
    const char *cuda = m->dialect == DIALECT_CUDA ? helps[i].cuda : NULL;
    if (cuda && !strstr(cuda, "asm")) return; // its C text is not written
    for (const char *s = helps[i].needs; *s;) {
        size_t n = strcspn(s, " ");
        for (int k = 0; k < i; k++)
            if (strlen(helps[k].name) == n && !strncmp(helps[k].name, s, n)) wanted[k] = true;
        s += n + (s[n] == ' ');
    }
}

static void write_template(cmod *m, text *t, const char *s) {
    const char *linkage = m->dialect == DIALECT_CUDA ? "static __device__ __forceinline__" : "static inline";
    for (; *s; s++) {
        if (*s == '$') text_add(t, linkage);
        else if (*s == '@') text_add(t, m->prefix);
        else text_addn(t, s, 1);
    }
}

// Instructions of the device stand beside their meaning in C, for the shim.
static void write_help(cmod *m, text *t, const chelp *h) {
    if (m->dialect == DIALECT_C || !h->cuda) {
        write_template(m, t, h->c);
    } else if (strstr(h->cuda, "asm") || strstr(h->cuda, "(uint") || strstr(h->cuda, "extern")) {
        text_add(t, "#ifdef ONNXC_CUDA_SHIM\n");
        write_template(m, t, h->c);
        text_add(t, "#else\n");
        write_template(m, t, h->cuda);
        text_add(t, "#endif\n");
    } else {
        write_template(m, t, h->cuda);
    }
    if (strstr(h->c, "memcpy") && m->dialect == DIALECT_C) m->memory = true;
    text_add(t, "\n");
}

// Whether a product of groups of warps needs it.
static bool group_needs(const cmod *m, const char *help) {
    for (int i = 0; i < m->helpers.n; i++)
        if (cgroup_needs(m->arena, m->helpers.slots[i].key, help)) return true;
    return false;
}

void chelp_write(cmod *m, text *t) {
    bool wanted[HELPS] = {0};
    for (int i = HELPS - 1; i >= 0; i--) {
        if (map_get(&m->helpers, helps[i].name) || group_needs(m, helps[i].name)) wanted[i] = true;
        if (wanted[i]) need(m, wanted, i);
    }
    for (int i = 0; i < HELPS; i++)
        if (wanted[i]) write_help(m, t, &helps[i]);
    for (int i = 0; i < m->helpers.n; i++)
        write_template(m, t, cgroup_template(m->arena, m->helpers.slots[i].key));
}
