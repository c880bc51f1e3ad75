// Products of groups of four warps in CUDA text: wgmma where the code is for sm_90a, elsewhere the same
// results by ldmatrix and mma.sync from the same shared memory. In: the name of such a call (codegen/c/cuda.h).
// Out: the function of that name, in the form of codegen/c/prelude.
#include "codegen/c/ctext_impl.h"
#include "codegen/c/cuda.h"
#include "ir/loops/loops_mma.h"
#include <stdio.h>
#include <string.h>

typedef struct group_call {
    lgroup g;
    char what[8], type[8]; // "", "fence", "wait", "leave"
} group_call;

// group_fence_n128_f16 and group_wait_n128_f16 have the registers of group_n128_f16_kk.
static bool parse(arena *a, const char *name, group_call *c) {
    int n = 0, at = 0;
    *c = (group_call){0};
    if (sscanf(name, "group_%7[a-z]_n%d_%7[a-z0-9]%n", c->what, &n, c->type, &at) == 3 && !name[at])
        return lgroup_named(arena_printf(a, "group_n%d_%s_kk", n, c->type), &c->g);
    c->what[0] = 0;
    return lgroup_named(name, &c->g) && sscanf(name, "group_n%d_%7[a-z0-9]", &n, c->type) == 2;
}

bool cgroup_exists(arena *a, const char *name) {
    group_call c;
    return parse(a, name, &c);
}

const char *cgroup_result(arena *a, const char *name) {
    group_call c;
    return parse(a, name, &c) && dtype_is_float(c.g.a) ? "float" : "int32_t";
}

static const char *small_product(const lgroup *g) {
    if (g->a == DT_F16) return "mma_m16n8k16_f16";
    if (g->a == DT_BF16) return "mma_m16n8k16_bf16";
    if (g->a == DT_F32) return "mma_m16n8k8_tf32";
    if (g->a == DT_I8) return g->b == DT_I8 ? "mma_m16n8k32_s8" : "mma_m16n8k32_s8u8";
    return g->b == DT_I8 ? "mma_m16n8k32_u8s8" : "mma_m16n8k32_u8";
}

// Operands "+f"(d[0]), ... of all registers.
static void add_registers(text *t, const group_call *c) {
    for (int i = 0; i < lgroup_registers(&c->g); i++)
        text_printf(t, "%s\"+%s\"(d[%d])",
                    i % 8 ? ", "
                    : i   ? ",\n          "
                          : "",
                    dtype_is_float(c->g.a) ? "f" : "r", i);
}

// wgmma's own names of types: "f32.f16.f16".
static const char *wgmma_types(arena *a, const lgroup *g) {
    const dtype of[] = {g->a, g->b};
    const char *names[2];
    for (int i = 0; i < 2; i++)
        names[i] = of[i] == DT_F16    ? "f16"
                   : of[i] == DT_BF16 ? "bf16"
                   : of[i] == DT_F32  ? "tf32"
                   : of[i] == DT_I8   ? "s8"
                                      : "u8";
    return arena_printf(a, "%s.%s.%s", dtype_is_float(g->a) ? "f32" : "s32", names[0], names[1]);
}

// The matrix descriptor of an operand.
static const char *descriptor(lgroup_order order, char operand) {
    if (order == GROUP_CORES) return operand == 'a' ? "ox_group_cores(a)" : "ox_group_cores(b)";
    return operand == 'a' ? "ox_group_tile(a, lead_a)" : "ox_group_tile(b, lead_b)";
}

static void add_wgmma(text *t, arena *a, const group_call *c) {
    const lgroup *g = &c->g;
    int n = lgroup_registers(g);
    text_printf(t,
                "    asm volatile(\"{ .reg .pred keep; setp.ne.b32 keep, 1, 0;\"\n"
                "                 \" wgmma.mma_async.sync.aligned.m64n%dk%d.%s {\"\n                 \"",
                g->n, lgroup_depth(g), wgmma_types(a, g));
    for (int i = 0; i < n; i++)
        text_printf(t, "%s%%%d", i % 16 ? ", " : i ? ",\"\n                 \" " : "", i);
    text_printf(t, "},\"\n                 \" %%%d, %%%d, keep", n, n + 1);
    if (dtype_is_float(g->a)) text_add(t, ", 1, 1");
    if (dtype_bits(g->a) == 16) text_printf(t, ", %d, %d", g->order_a == GROUP_M, g->order_b == GROUP_M);
    text_add(t, "; }\"\n        : ");
    add_registers(t, c);
    text_printf(t, "\n        : \"l\"(%s), \"l\"(%s));\n", descriptor(g->order_a, 'a'),
                descriptor(g->order_b, 'b'));
}

// Each of the group's warps multiplies its 16 rows.
static void add_small_products(text *t, const lgroup *g) {
    text_add(t, "    int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16, far = lane / 8 % 2 * 8,\n"
                "        deep = lane / 16 * 8, mine = lane % 8;\n"
                "    __align__(16) uint32_t x[4], y[4];\n");
    if (g->order_a == GROUP_CORES)
        text_add(t, "    ox_fragment_x4(x, ox_group_core(a, row + far + mine, deep / 8));\n");
    else if (g->order_a == GROUP_M)
        text_add(t,
                 "    ox_fragment_x4_turned(x, ox_group_row(a, (deep + mine) * 128 + (row + far) * 2));\n");
    else text_add(t, "    ox_fragment_x4(x, ox_group_row(a, (row + far + mine) * 128 + deep * 2));\n");
    text_printf(t, "#pragma unroll\n    for (int n = 0; n < %d; n += 16) {\n", g->n);
    if (g->order_b == GROUP_CORES)
        text_add(t, "        ox_fragment_x4(y, ox_group_core(b, n + deep + mine, far / 8));\n");
    else if (g->order_b == GROUP_M)
        text_add(
            t, "        int column = n + deep;\n"
               "        ox_fragment_x4_turned(y, ox_group_row(b, column / 64 * lead_b + (far + mine) * 128 + "
               "column % 64 * 2));\n");
    else text_add(t, "        ox_fragment_x4(y, ox_group_row(b, (n + deep + mine) * 128 + far * 2));\n");
    text_printf(t, "        ox_%s(d + n / 2, x, y);\n        ox_%s(d + n / 2 + 4, x, y + 2);\n    }\n",
                small_product(g), small_product(g));
}

static void add_product(text *t, arena *a, const group_call *c, const char *name) {
    const lgroup *g = &c->g;
    bool floats = dtype_is_float(g->a);
    const char *number = g->a == DT_F16    ? "F16"
                         : g->a == DT_BF16 ? "BF16"
                         : g->a == DT_F32  ? "TF32"
                         : g->a == DT_I8   ? g->b == DT_I8 ? "S8" : "S8U8"
                         : g->b == DT_I8   ? "U8S8"
                                           : "U8";
    text_printf(t,
                "INLINE void ox_%s(%s *d, const void *a, int lead_a, const void *b, int lead_b) {\n"
                "#if defined(ONNXC_CUDA_SHIM)\n"
                "    if (shim_group(%d, SHIM_%s, d, %s, %s, %d, %d)) return;\n"
                "#elif defined(" CUDA_HAS_OWN ")\n",
                name, floats ? "float" : "int32_t", g->n, number, descriptor(g->order_a, 'a'),
                descriptor(g->order_b, 'b'), g->order_a == GROUP_M, g->order_b == GROUP_M);
    add_wgmma(t, a, c);
    text_add(t, "#endif\n#if !defined(" CUDA_HAS_OWN ")\n");
    add_small_products(t, g);
    text_add(t, "    (void)lead_a, (void)lead_b;\n#endif\n}\n\n");
}

// The registers pass through, so that no other instruction on them moves across.
static void add_fence(text *t, const group_call *c, const char *name) {
    text_printf(t,
                "INLINE void ox_%s(%s *d) {\n#if defined(" CUDA_HAS_OWN ")\n    asm "
                "volatile(\"wgmma.%s;\"\n        : ",
                name, dtype_is_float(c->g.a) ? "float" : "int32_t",
                *c->what == 'f'   ? "fence.sync.aligned"
                : *c->what == 'l' ? "wait_group.sync.aligned 1"
                                  : "wait_group.sync.aligned 0");
    add_registers(t, c);
    text_add(t, "\n        : : \"memory\");\n#else\n    (void)d;\n#endif\n}\n\n");
}

const char *cgroup_template(arena *a, const char *name) {
    group_call c;
    text t = {.arena = a};
    if (!parse(a, name, &c)) return "";
    if (*c.what) add_fence(&t, &c, name);
    else add_product(&t, a, &c, name);
    return text_str(&t);
}
