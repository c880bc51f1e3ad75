// Warpgroup products in CUDA text: wgmma for sm_90a, otherwise the same results by ldmatrix and mma.sync from
// the same shared memory. In: an instruction. Out: the function of its name, in the form of
// codegen/c/prelude.
#include "codegen/c/ctext_impl.h"
#include "codegen/c/cuda.h"

static const char *c_type(const gpu_ins *g) { return dtype_is_float(g->a) ? "float" : "int32_t"; }

static const char *ptx_type(dtype t) {
    static const char *const names[DT_COUNT] = {
        [DT_F16] = "f16", [DT_BF16] = "bf16", [DT_F32] = "tf32", [DT_I8] = "s8", [DT_U8] = "u8"};
    return names[t];
}

// Operands "+f"(d[0]), ... of all registers.
static void add_registers(text *t, const gpu_ins *g) {
    char constraint = dtype_is_float(g->a) ? 'f' : 'r';
    for (int i = 0; i < gpu_sums(g); i++)
        text_printf(t, "%s\"+%c\"(d[%d])", i % 8 ? ", " : i ? ",\n          " : "", constraint, i);
}

static void add_wgmma(text *t, const gpu_ins *g, const char *orders) {
    int n = gpu_sums(g);
    text_printf(
        t,
        "    asm volatile(\"{ .reg .pred keep; setp.ne.b32 keep, 1, 0;\"\n"
        "                 \" wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {\"\n                 \"",
        g->n, g->k, dtype_is_float(g->a) ? "f32" : "s32", ptx_type(g->a), ptx_type(g->b));
    for (int i = 0; i < n; i++)
        text_printf(t, "%s%%%d", i % 16 ? ", " : i ? ",\"\n                 \" " : "", i);
    text_printf(t, "},\"\n                 \" %%%d, %%%d, keep", n, n + 1);
    if (dtype_is_float(g->a)) text_add(t, ", 1, 1");
    if (dtype_bits(g->a) == 16) text_printf(t, ", %d, %d", g->order_a == ORDER_M, g->order_b == ORDER_M);
    text_add(t, "; }\"\n        : ");
    add_registers(t, g);
    text_printf(t, "\n        : \"l\"(ox_descriptor_%c(a, lead_a)), \"l\"(ox_descriptor_%c(b, lead_b)));\n",
                orders[0], orders[1]);
}

// Each warp of the warpgroup multiplies its 16 rows.
static void add_mma(text *t, arena *a, const gpu_ins *g, const char *orders) {
    const char *mma =
        gpu_ins_name(a, &(gpu_ins){.op = GPU_MMA, .a = g->a, .b = g->b, .m = 16, .n = 8, .k = g->k});
    text_printf(t,
                "    int lane = threadIdx.x %% 32, far = lane / 8 %% 2 * 8, deep = lane / 16 * 8;\n"
                "    __align__(16) uint32_t x[4], y[4];\n"
                "    ox_matrices_%c(x, a, lead_a, threadIdx.x / 32 %% 4 * 16 + far, deep);\n"
                "#pragma unroll\n"
                "    for (int n = 0; n < %d; n += 16) {\n"
                "        ox_matrices_%c(y, b, lead_b, n + deep, far);\n"
                "        ox_%s(d + n / 2, x, y);\n"
                "        ox_%s(d + n / 2 + 4, x, y + 2);\n"
                "    }\n",
                orders[0], g->n, orders[1], mma, mma);
}

static void add_product(text *t, arena *a, const char *name, const gpu_ins *g) {
    const char orders[] = {gpu_order_letter(g->order_a), gpu_order_letter(g->order_b)};
    text_printf(t,
                "INLINE void ox_%s(%s *d, const void *a, int lead_a, const void *b, int lead_b) {\n"
                "#if defined(ONNXC_CUDA_SHIM)\n"
                "    uint64_t at_a = ox_descriptor_%c(a, lead_a), at_b = ox_descriptor_%c(b, lead_b);\n"
                "    if (shim_wgmma(%d, SHIM_%s, d, at_a, at_b, %d, %d)) return;\n"
                "#elif defined(" CUDA_HAS_OWN ")\n",
                name, c_type(g), orders[0], orders[1], g->n, gpu_types_name(g), g->order_a == ORDER_M,
                g->order_b == ORDER_M);
    add_wgmma(t, g, orders);
    text_add(t, "#endif\n#if !defined(" CUDA_HAS_OWN ")\n");
    add_mma(t, a, g, orders);
    text_add(t, "#endif\n}\n\n");
}

// The registers are operands, so that the compiler does not move other accesses to them across.
static void add_fence(text *t, const char *name, const gpu_ins *g) {
    const char *ptx = g->op == GPU_WGMMA_FENCE ? "fence.sync.aligned"
                      : g->count               ? "wait_group.sync.aligned 1"
                                               : "wait_group.sync.aligned 0";
    text_printf(t,
                "INLINE void ox_%s(%s *d) {\n#if defined(" CUDA_HAS_OWN ")\n    asm "
                "volatile(\"wgmma.%s;\"\n        : ",
                name, c_type(g), ptx);
    add_registers(t, g);
    text_add(t, "\n        : : \"memory\");\n#else\n    (void)d;\n#endif\n}\n\n");
}

const char *cwarpgroup_function(arena *a, const char *name, const gpu_ins *g) {
    text t = {.arena = a};
    if (g->op == GPU_WGMMA) add_product(&t, a, name, g);
    else add_fence(&t, name, g);
    return text_str(&t);
}
